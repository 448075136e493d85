/* SPDX-License-Identifier: MIT */
/* What can go wrong with a WebGPU device: it is lost, memory is refused, texts are wrong,
 * allocations fail. Each ends in a status, and a new device works. */
#include <stdatomic.h>

#include "check.h"
#include "rlx/rlx.h"
#include "runtime/device.h"
#include "webgpu/device.h"
#include "webgpu/library.h"

enum { N = 64 };
static rlx_error err;

static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("faults");
    if (!g)
        return NULL;
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){N});
    rlx_value w = rlx_param(g, "w", RLX_F32, 1, (rlx_dim[]){N});
    rlx_output(g, "y", rlx_exp(g, rlx_neg(g, rlx_mul(g, x, w))));
    return g;
}

/* Makes a session and runs it once. */
static rlx_status try_run(rlx_device *d, rlx_session **out)
{
    static const float zeros[N];
    float y[N];
    rlx_graph *g = make_graph();
    rlx_session *s = NULL;
    rlx_status st = g ? rlx_session_create(d, g, NULL, &s, &err) : RLX_NO_MEMORY;
    if (st == RLX_OK)
        st = rlx_session_set_param(s, "w", zeros, sizeof zeros, RLX_COPY, &err);
    rlx_tensor in = {"x", (void *)(uintptr_t)zeros, sizeof zeros}, to = {"y", y, sizeof y};
    if (st == RLX_OK)
        st = rlx_run(s, &in, 1, &to, 1, &err);
    if (st == RLX_OK)
        CHECK(y[0] == 1 && y[N - 1] == 1);
    rlx_graph_destroy(g);
    if (out && st == RLX_OK)
        *out = s;
    else
        rlx_session_destroy(s);
    return st;
}

/* The device goes away under a session. */
static void test_lost(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, &s), &err);
    rx_device *inner = d->device;
    inner->lib->DeviceDestroy(inner->handle);
    for (int i = 0; i < 100 && !atomic_load(&inner->watch->lost); i++) {
        inner->lib->InstanceProcessEvents(inner->lib->instance);
        usleep(1000);
    }
    if (!inner->lib->DevicePoll) /* wgpu-native does not tell who destroys a device */
        CHECK(atomic_load(&inner->watch->lost));
    atomic_store(&inner->watch->lost, true);
    CHECK_FAILS(rlx_session_submit(s, NULL, &err), RLX_DEVICE_LOST, &err, "open it again");
    CHECK_FAILS(try_run(d, NULL), RLX_DEVICE_LOST, &err, "lost");
    rlx_session_destroy(s);
    rlx_device_close(d);
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);
}

/* An error that no scope catches fails the next run, once. */
static void test_errors(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, &s), &err);
    rx_device *inner = d->device;
    const char text[] = "fn main( {";
    WGPUShaderSourceWGSL source = {.chain = {.sType = WGPU_STYPE_SHADER_WGSL},
                                   .code = {text, sizeof text - 1}};
    WGPUShaderModuleDescriptor info = {.nextInChain = &source.chain, .label = {"bad", 3}};
    WGPUShaderModule module = inner->lib->DeviceCreateShaderModule(inner->handle, &info);
    inner->lib->InstanceProcessEvents(inner->lib->instance);
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_FAILS(rlx_session_wait(s, 0, -1, &err), RLX_INTERNAL, &err, "says");
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_wait(s, 0, -1, &err), &err);
    if (module)
        inner->lib->ShaderModuleRelease(module);
    rlx_session_destroy(s);
    rlx_device_close(d);
}

/* More than a buffer can hold. */
static void test_memory(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    rlx_graph *g = rlx_graph_create("large");
    rlx_value x = rlx_param(g, "x", RLX_F32, 2, (rlx_dim[]){1 << 19, 1 << 19});
    rlx_output(g, "y", rlx_narrow(g, x, 0, 0, 1));
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    CHECK_FAILS(rlx_session_create(d, g, NULL, &s, &err), RLX_NO_MEMORY, &err,
                "more than one buffer");
    CHECK(!s);
    CHECK_OK(try_run(d, NULL), &err);
    rlx_graph_destroy(g);
    rlx_device_close(d);
}

/* ---- Allocations ---------------------------------------------------------------------------- */

static atomic_long n_calls, n_live, fail_at;

static void *failing_realloc(void *user, void *old, size_t n)
{
    (void)user;
    if (atomic_fetch_add(&n_calls, 1) + 1 == atomic_load(&fail_at))
        return NULL;
    void *p = realloc(old, n);
    if (p && !old)
        atomic_fetch_add(&n_live, 1);
    return p;
}

static void failing_free(void *user, void *p)
{
    (void)user;
    atomic_fetch_sub(&n_live, 1);
    free(p);
}

static rlx_status open_run_close(void)
{
    rlx_device *d = NULL;
    rlx_status st = rlx_device_open("webgpu", NULL, &d, &err);
    if (st == RLX_OK)
        st = try_run(d, NULL);
    rlx_device_close(d);
    return st;
}

/* The n-th allocation fails, for each n: no crash, no leak, and the next time it works. */
static void test_allocations(void)
{
    rlx_allocator a = {.realloc = failing_realloc, .free = failing_free};
    rlx_set_allocator(&a);
    long live = -1, total;
    for (int i = 0; i < 2; i++) { /* what stays for the process is made the first time */
        atomic_store(&n_calls, 0);
        CHECK_OK(open_run_close(), &err);
        live = atomic_load(&n_live);
    }
    total = atomic_load(&n_calls);
    CHECK(total > 50);
    for (long i = 1; i <= total; i++) {
        atomic_store(&n_calls, 0);
        atomic_store(&fail_at, i);
        rlx_status st = open_run_close();
        atomic_store(&fail_at, 0);
        if (st != RLX_OK && st != RLX_NO_MEMORY)
            printf("allocation %ld: %s\n", i, err.text);
        CHECK(st == RLX_OK || st == RLX_NO_MEMORY);
        if (!CHECK(atomic_load(&n_live) <= live + 1)) /* one more event may be kept */
            printf("allocation %ld: %ld pieces are left\n", i, atomic_load(&n_live) - live);
        live = atomic_load(&n_live) > live ? atomic_load(&n_live) : live;
    }
    CHECK_OK(open_run_close(), &err);
}

int main(void)
{
    choose_library();
    if (!rlx_device_is_available("webgpu")) {
        puts("skipped: no WebGPU device (tools/fetch/webgpu.sh fetches a library)");
        return 77;
    }
    test_lost();
    test_errors();
    test_memory();
    test_allocations();
    return check_done();
}
