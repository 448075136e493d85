/* SPDX-License-Identifier: MIT */
/* Devices: listing, choosing by id, name and environment, errors that say what there is. */
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"

static void test_list(void)
{
    rlx_device_info infos[16] = {{RLX_INIT(rlx_device_info)}};
    size_t n = 0, again = 0, n_default = 0;
    CHECK_OK(rlx_device_list(infos, 16, &n, NULL), NULL);
    CHECK(n >= 3 && n <= 16);
    CHECK_OK(rlx_device_list(NULL, 0, &again, NULL), NULL);
    CHECK(again == n);
    for (size_t i = 0; i < n && i < 16; i++) {
        rlx_device *d = NULL;
        rlx_error err;
        CHECK(rlx_device_is_available(infos[i].id));
        CHECK_OK(rlx_device_open(infos[i].id, NULL, &d, &err), &err);
        rlx_device_info info = {RLX_INIT(rlx_device_info)};
        rlx_device_get_info(d, &info, NULL);
        CHECK(!strcmp(info.id, infos[i].id) && !strcmp(info.backend, infos[i].backend));
        CHECK(info.name[0] && info.driver[0]);
        n_default += infos[i].is_default;
        CHECK(!(infos[i].is_default && infos[i].is_test));
        rlx_device_close(d);
    }
    CHECK(n_default == 1);
    rlx_device_close(NULL);
}

static void test_backends(void)
{
    rlx_backend_info infos[16] = {{RLX_INIT(rlx_backend_info)}};
    size_t n = 0;
    CHECK_OK(rlx_backend_list(infos, 16, &n, NULL), NULL);
    bool vulkan = false;
    for (size_t i = 0; i < n && i < 16; i++) {
        CHECK(infos[i].name[0]);
        CHECK(infos[i].available == (infos[i].reason[0] == 0));
        vulkan = vulkan || !strcmp(infos[i].name, "vulkan");
    }
    CHECK(vulkan);
}

/* An id that cannot be opened: status and a text with these two parts. */
static void check_absent(const char *id, const char *part, const char *other)
{
    rlx_error err = {0};
    rlx_device *d = (rlx_device *)&err;
    CHECK_FAILS(rlx_device_open(id, NULL, &d, &err), RLX_NO_DEVICE, &err, part);
    CHECK(strstr(err.text, other) != NULL);
    CHECK(d == NULL);
    CHECK(!rlx_device_is_available(id));
}

static void test_choice(void)
{
    rlx_device *d = NULL;
    rlx_error err;
    check_absent("quantum", "'quantum' is not available: there is no backend of that name", "cpu");
    check_absent("cpu:7", "no device of this backend has that number or name", "Devices: ");
    check_absent("cpu:99999999999999999999999", "'cpu:9999", "cpu");
    check_absent("null:strange", "'null:strange'", "null");
    CHECK_OK(rlx_device_open("null:NULL dev", NULL, &d, &err), &err);
    rlx_device_close(d);
    CHECK_OK(rlx_device_open("cpu:0", NULL, &d, &err), &err);
    rlx_device_close(d);
    rlx_device_desc desc = {RLX_INIT(rlx_device_desc), .threads = 3};
    CHECK_OK(rlx_device_open("cpu", &desc, &d, &err), &err);
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_device_get_info(d, &info, NULL);
    CHECK(info.threads == 3);
    rlx_device_close(d);
}

/* A device that compiles and never runs. */
static void test_compile_only(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    rlx_error err;
    rlx_device_desc desc = {RLX_INIT(rlx_device_desc), .flags = 1u << 31};
    CHECK(rlx_device_open("cpu", &desc, &d, &err) == RLX_INVALID && !d);
    CHECK(strstr(err.text, "unknown flags 0x80000000") != NULL);
    desc.flags = RLX_DEVICE_COMPILE_ONLY;
    CHECK(rlx_device_open("cpu", &desc, &d, &err) == RLX_UNSUPPORTED && !d);
    CHECK(strstr(err.text, "cpu:0 cannot be opened to compile only") != NULL ||
          strstr(err.text, "cpu cannot be opened to compile only") != NULL);
    if (!rlx_device_is_available("vulkan") ||
        !CHECK_OK(rlx_device_open("vulkan", &desc, &d, &err), &err))
        return;
    rlx_graph *g = rlx_graph_create("compiled");
    const rlx_dim dims[] = {8, 64}, square[] = {64, 64};
    const rlx_value x = rlx_input(g, "x", RLX_F32, 2, dims);
    const rlx_value w = rlx_param(g, "w", RLX_F32, 2, square);
    rlx_output(g, "y", rlx_softmax(g, rlx_matmul(g, x, w), -1));
    CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    rlx_kernel_info k = {RLX_INIT(rlx_kernel_info)};
    size_t n = 0, n_dispatches = 0;
    rlx_status st = RLX_OK;
    for (; (st = rlx_session_kernel(s, n, &k, &err)) == RLX_OK; n++) {
        CHECK(k.name[0] && k.invocations && k.n_stats <= 32);
        n_dispatches += k.n_dispatches;
    }
    CHECK(st == RLX_NOT_FOUND && n >= 2 && n_dispatches >= 2);
    CHECK(strstr(err.text, "kernels; kernel") != NULL);
    static float data[64 * 64];
    CHECK_OK(rlx_session_set_param(s, "w", data, sizeof data, RLX_COPY, &err), &err);
    CHECK_OK(rlx_session_set_input(s, "x", data, 8 * 64 * 4, &err), &err);
    CHECK(rlx_run(s, NULL, 0, NULL, 0, &err) == RLX_UNSUPPORTED);
    CHECK(strstr(err.text, "was opened to compile only") != NULL);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    rlx_device_close(d);
}

static void test_environment(void)
{
    rlx_device *d = NULL;
    rlx_error err;
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    setenv("RLX_DEVICE", "ref", 1);
    CHECK_OK(rlx_device_open(NULL, NULL, &d, &err), &err);
    rlx_device_get_info(d, &info, NULL);
    CHECK(!strcmp(info.backend, "ref") && info.is_default);
    rlx_device_close(d);
    setenv("RLX_DEVICE", "quantum", 1);
    check_absent("auto", "'quantum'", "Devices: ");
    if (!rlx_device_is_available("vulkan")) {
        setenv("RLX_DEVICE", "vulkan", 1);
        check_absent(NULL, "device 'vulkan' is not available: ", "Vulkan");
    }
    unsetenv("RLX_DEVICE");
    setenv("RLX_CPU", "abacus", 1);
    CHECK(rlx_device_open("cpu", NULL, &d, &err) == RLX_INVALID && !d);
    CHECK(strstr(err.text, "dotprod or i8mm, got 'abacus'") != NULL);
    unsetenv("RLX_CPU");
    CHECK_OK(rlx_device_open("auto", NULL, &d, &err), &err);
    rlx_device_get_info(d, &info, NULL);
    CHECK(info.is_default && !info.is_test);
    rlx_device_close(d);

    rlx_env_info infos[64];
    size_t n = rlx_env_list(infos, 64);
    CHECK(n >= 16 && n <= 64);
    for (size_t i = 0; i < n; i++)
        CHECK(!strncmp(infos[i].name, "RLX_", 4) && infos[i].help[0]);
    setenv("RLX_LIMITS", "a=1", 1);
    rlx_env_list(infos, 64);
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found = found || (infos[i].value && !strcmp(infos[i].value, "a=1"));
    CHECK(found);
    unsetenv("RLX_LIMITS");

    const char *was = getenv("RLX_CACHE_DIR");
    char path[64], kept[512] = "";
    snprintf(kept, sizeof kept, "%s", was ? was : "");
    setenv("RLX_CACHE_DIR", "/tmp/rlx caches", 1);
    CHECK(rlx_cache_dir(path, sizeof path) && !strcmp(path, "/tmp/rlx caches"));
    CHECK(!rlx_cache_dir(path, 4) && !rlx_cache_dir(path, 0) && !rlx_cache_dir(NULL, 64));
    if (was)
        setenv("RLX_CACHE_DIR", kept, 1);
    else
        unsetenv("RLX_CACHE_DIR");
}

static void test_support(void)
{
    CHECK(rlx_op_support("cpu", "softmax") == RLX_SUPPORT_NATIVE);
    CHECK(rlx_op_support("cpu", "transpose") == RLX_SUPPORT_NATIVE);
    CHECK(rlx_op_support("cpu", "reshape") == RLX_SUPPORT_VIEW);
    CHECK(rlx_op_support("cpu", "input") == RLX_SUPPORT_VIEW);
    CHECK(rlx_op_support("cpu", "split") == RLX_SUPPORT_VIEW);
    CHECK(rlx_op_support("cpu", "dot_general") == RLX_SUPPORT_DECOMPOSED);
    CHECK(rlx_op_support("cpu", "teleport") == RLX_SUPPORT_NO);
    CHECK(rlx_op_support("ref", "softmax") == RLX_SUPPORT_REFERENCE);
    CHECK(!strcmp(rlx_support_name(RLX_SUPPORT_REFERENCE), "reference"));
    CHECK(rlx_op_support("quantum", "softmax") == RLX_SUPPORT_NO);
    CHECK(!strcmp(rlx_support_name(RLX_SUPPORT_NATIVE), "native"));
    for (size_t i = 0; rlx_op_name(i); i++)
        if (rlx_op_support("cpu", rlx_op_name(i)) == RLX_SUPPORT_NO)
            check_that(false, rlx_op_name(i), __FILE__, __LINE__);
}

int main(void)
{
    unsetenv("RLX_DEVICE");
    test_list();
    test_backends();
    test_choice();
    test_compile_only();
    test_environment();
    test_support();
    return check_done();
}
