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

#ifndef HAS_VULKAN
int main(void)
{
    puts("skipped: no Vulkan headers");
    return 77;
}
#else

#include "runtime/device.h"
#include "support/gpu_faults.h"
#include "vulkan/device.h"

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

static void test_cache(void)
{
    rlx_set_log(on_log, NULL, RLX_LOG_WARN);
    setenv("RLX_CACHE_DIR", folder, 1);
    CHECK_OK(open_run_close("vulkan"), &err);
    CHECK(change_files(1) >= 1);
    atomic_store(&n_ignored, 0);
    CHECK_OK(open_run_close("vulkan"), &err);
    CHECK(atomic_load(&n_ignored) >= 1);
    CHECK(change_files(2) >= 1);
    atomic_store(&n_ignored, 0);
    CHECK_OK(open_run_close("vulkan"), &err);
    CHECK(atomic_load(&n_ignored) >= 1);
    atomic_store(&n_ignored, 0);
    CHECK_OK(open_run_close("vulkan"), &err);
    CHECK(atomic_load(&n_ignored) == 0);
    change_files(0);
    rmdir(folder);
    setenv("RLX_CACHE_DIR", "/proc/nowhere", 1);
    CHECK_OK(open_run_close("vulkan"), &err);
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
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
    test_allocations("vulkan", 0);
    return check_done();
}
#endif
