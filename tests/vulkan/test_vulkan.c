/* SPDX-License-Identifier: MIT */
/* The Vulkan device: what every device must do, what it tells of itself, too little memory,
 * long work. Skipped where there is none. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/any_device.h"

static void test_info(void)
{
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_device_get_info(device, &info, NULL);
    CHECK(!strcmp(info.backend, "vulkan") && !strncmp(info.id, "vulkan:", 7));
    CHECK(info.name[0] && info.driver[0] && info.memory > 0);
    CHECK(strstr(info.detail, "Vulkan 1.") != NULL);
    CHECK(!(info.is_software && info.is_default) || getenv("RLX_DEVICE"));
}

static void test_memory(void)
{
    rlx_graph *g = rlx_graph_create("large");
    rlx_value x = rlx_param(g, "x", RLX_F32, 2, (rlx_dim[]){1 << 19, 1 << 19});
    rlx_output(g, "y", rlx_narrow(g, x, 0, 0, 1));
    rlx_session *s = NULL;
    CHECK_FAILS(rlx_session_create(device, g, NULL, &s, &err), RLX_NO_MEMORY, &err,
                "it needs 1024.00 GiB, ");
    CHECK(strstr(err.text, "GiB are free on ") != NULL);
    CHECK(!s);
    rlx_graph_destroy(g);
}

/* Long work goes to the device in pieces, so that no watchdog finds one too long. */
enum { SIDE = 512, PRODUCTS = 6 };
static atomic_int n_pieces;

static void find_pieces(void *user, rlx_log_level level, const char *text)
{
    (void)user, (void)level;
    const char *at = strstr(text, "barriers in ");
    if (at)
        atomic_store(&n_pieces, atoi(at + strlen("barriers in ")));
}

static void test_pieces(void)
{
    static float twice[SIDE * SIDE], x[SIDE * SIDE], y[SIDE * SIDE];
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_graph *g = rlx_graph_create("long");
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){SIDE, SIDE});
    rlx_value v = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){SIDE, SIDE});
    for (int i = 0; i < PRODUCTS; i++)
        v = rlx_matmul(g, v, w);
    rlx_output(g, "y", v);
    for (int i = 0; i < SIDE * SIDE; i++) {
        twice[i] = i % (SIDE + 1) ? 0 : 2;
        x[i] = (float)(i % 7);
    }
    rlx_set_log(find_pieces, NULL, RLX_LOG_DEBUG);
    rlx_session *s = make_session(g);
    CHECK_OK(rlx_session_set_param(s, "w", twice, sizeof twice, RLX_COPY, &err), &err);
    rlx_const_tensor in = {"x", x, sizeof x};
    rlx_tensor out = {"y", y, sizeof y};
    CHECK_OK(rlx_run(s, &in, 1, &out, 1, &err), &err);
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
    bool right = true;
    for (int i = 0; i < SIDE * SIDE; i++)
        right &= y[i] == x[i] * (1 << PRODUCTS);
    CHECK(right);
    rlx_device_get_info(device, &info, NULL);
    CHECK(atomic_load(&n_pieces) >= (info.is_software ? 2 : 1));
    rlx_session_destroy(s);
}

/* RLX_VULKAN_ARENA_DEBUG tells of each block its purpose, size and kind. */
static unsigned long long arena_bytes, leaf_bytes;
static int n_kinds, n_warnings;

static void find_arena(void *user, rlx_log_level level, const char *text)
{
    (void)user;
    sscanf(text, "vulkan arena: the arena of the program: %llu bytes", &arena_bytes);
    sscanf(text, "vulkan arena: inputs and states: %llu bytes", &leaf_bytes);
    n_kinds += !strncmp(text, "vulkan arena: ", 14) && strstr(text, " bytes of memory type ") &&
               strstr(text, ", heap ");
    n_warnings += level <= RLX_LOG_WARN;
}

static void test_arena_debug(void)
{
    const char *before = getenv("RLX_VULKAN_ARENA_DEBUG");
    char *kept = before ? strdup(before) : NULL;
    rlx_device *opened = device;
    rlx_memory_info m = {RLX_INIT(rlx_memory_info)};
    if (!before)
        setenv("RLX_VULKAN_ARENA_DEBUG", "1", 1);
    rlx_set_log(find_arena, NULL, RLX_LOG_INFO);
    CHECK_OK(rlx_device_open("vulkan", NULL, &device, &err), &err);
    rlx_session *s = make_session(make_graph());
    if (s)
        rlx_session_memory(s, &m, NULL);
    rlx_session_destroy(s);
    rlx_device_close(device);
    device = opened;
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
    CHECK(arena_bytes >= m.arena_bytes && arena_bytes < m.arena_bytes + (1 << 20));
    CHECK(leaf_bytes >= m.input_bytes && n_kinds >= 3 && n_warnings == 0);
    if (!kept)
        unsetenv("RLX_VULKAN_ARENA_DEBUG");
    free(kept);
}

static bool has_own_memory(void)
{
    const char *arena = getenv("RLX_VULKAN_ARENA_DEBUG");
    return arena && !strcmp(arena, "device");
}

int main(void)
{
    setenv("RLX_LIMITS", getenv("RLX_LIMITS") ? getenv("RLX_LIMITS") : "host=1", 1);
    if (rlx_device_open("vulkan", NULL, &device, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    test_info();
    test_memory();
    test_pieces();
    test_arena_debug();
    CHECK(test_ahead() || !has_own_memory());
    test_any_device();
    return check_done();
}
