/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as the choices that make a graph (ops/random_graph.c), which a device
 * runs fused, folded, cloned and without each, as the reference does. The device is cpu, or the one
 * in RLX_FUZZ_DEVICE: null checks how programs use memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/graph_table.h"
#include "ops/optest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void open_devices(ot_env *env)
{
    const char *name = getenv("RLX_FUZZ_DEVICE");
    const rlx_device_desc one = {RLX_INIT(rlx_device_desc), .threads = 1};
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_error err = {0};
    if (rlx_device_open(name ? name : "cpu", &one, &env->device, &err) != RLX_OK ||
        rlx_device_open("ref", &one, &env->ref, &err) != RLX_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    rlx_device_get_info(env->device, &info, NULL);
    env->is_null = strcmp(info.backend, "null") == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static ot_env env;
    static ot_report r;
    if (!env.device)
        open_devices(&env);
    rlx_graph *g = ot_graph_of_bytes(data, n);
    r.verdict = OT_PASS;
    r.used = 0;
    ot_check_random(&env, g, &r);
    rlx_graph_destroy(g);
    if (r.verdict == OT_FAIL) {
        fprintf(stderr, "%s\n", r.text);
        abort();
    }
    return 0;
}
