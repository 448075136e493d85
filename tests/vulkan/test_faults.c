/* SPDX-License-Identifier: MIT */
/* What can go wrong with a Vulkan device: it is lost, its cache files are broken, allocations fail.
 * Each ends in a status or a line in the log, and a new device works. */
#if defined(__has_include)
#if __has_include(<vulkan/vulkan.h>)
#define HAS_VULKAN 1
#endif
#endif

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "rlx/rlx.h"

#ifndef HAS_VULKAN
int main(void)
{
    puts("skipped: no Vulkan headers");
    return 77;
}
#else

#include "runtime/device.h"
#include "vulkan/device.h"

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
    static const float ones[N];
    float y[N];
    rlx_graph *g = make_graph();
    rlx_session *s = NULL;
    rlx_status st = g ? rlx_session_create(d, g, NULL, &s, &err) : RLX_NO_MEMORY;
    if (st == RLX_OK)
        st = rlx_session_set_param(s, "w", ones, sizeof ones, RLX_COPY, &err);
    rlx_tensor in = {"x", (void *)(uintptr_t)ones, sizeof ones}, to = {"y", y, sizeof y};
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

static void test_lost(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, &s), &err);
    d->device->vk.DeviceWaitIdle(d->device->handle);
    atomic_store(&d->device->lost, true);
    CHECK_FAILS(rlx_session_submit(s, NULL, &err), RLX_DEVICE_LOST, &err, "open it again");
    CHECK_FAILS(try_run(d, NULL), RLX_DEVICE_LOST, &err, "lost");
    rlx_session_destroy(s);
    rlx_device_close(d);
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);
}

/* ---- Cache files ---------------------------------------------------------------------------- */

static char folder[] = "/tmp/rlx-cache-XXXXXX";
static atomic_int n_ignored;

static void on_log(void *user, rlx_log_level level, const char *text)
{
    (void)user, (void)level;
    if (strstr(text, "broken or of another device"))
        atomic_fetch_add(&n_ignored, 1);
}

/* For each file of the folder: overwrite (1), cut (2) or remove (0). Returns how many. */
static int change_files(int how)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[512];
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        CHECK(!strchr(strrchr(e->d_name, '.') + 1, '.'));
        n++;
        if (how == 0)
            CHECK(!unlink(path));
        else if (how == 2)
            CHECK(!truncate(path, 50));
        else {
            FILE *f = fopen(path, "r+b");
            CHECK(f && !fseek(f, 70, SEEK_SET) && fputs("garbage", f) >= 0 && !fclose(f));
        }
    }
    if (dir)
        closedir(dir);
    return n;
}

static void open_and_run(void)
{
    rlx_device *d = NULL;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);
}

static void test_cache(void)
{
    rlx_set_log(on_log, NULL, RLX_LOG_WARN);
    setenv("RLX_CACHE_DIR", folder, 1);
    open_and_run();
    CHECK(change_files(1) >= 1);
    atomic_store(&n_ignored, 0);
    open_and_run();
    CHECK(atomic_load(&n_ignored) >= 1);
    CHECK(change_files(2) >= 1);
    atomic_store(&n_ignored, 0);
    open_and_run();
    CHECK(atomic_load(&n_ignored) >= 1);
    atomic_store(&n_ignored, 0);
    open_and_run();
    CHECK(atomic_load(&n_ignored) == 0);
    change_files(0);
    rmdir(folder);
    setenv("RLX_CACHE_DIR", "/proc/nowhere", 1);
    open_and_run();
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
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
    rlx_status st = rlx_device_open("vulkan", NULL, &d, &err);
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
        CHECK(atomic_load(&n_live) == live);
    }
    CHECK_OK(open_run_close(), &err);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    setenv("RLX_CACHE_DIR", folder, 1);
    if (!rlx_device_is_available("vulkan")) {
        puts("skipped: no Vulkan device");
        rmdir(folder);
        return 77;
    }
    test_lost();
    test_cache();
    test_allocations();
    return check_done();
}
#endif
