/* SPDX-License-Identifier: MIT */
/* What can go wrong with a Vulkan device: it is lost, it has no memory, a feature does not work,
 * its cache files are broken, allocations fail. Each ends in a status or a line in the log, and a
 * new device works. The driver's part is played by functions in its place. */
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

/* ---- A device that is lost, or full ---------------------------------------------------------- */

static rx_vk_functions driver; /* the true ones */

static VKAPI_ATTR VkResult VKAPI_CALL lose_submit(VkQueue q, uint32_t n, const VkSubmitInfo *infos,
                                                  VkFence fence)
{
    (void)q, (void)n, (void)infos, (void)fence;
    return VK_ERROR_DEVICE_LOST;
}

/* The work is done all the same: its memory is about to be freed. */
static VKAPI_ATTR VkResult VKAPI_CALL lose_wait(VkDevice d, uint32_t n, const VkFence *fences,
                                                VkBool32 all, uint64_t timeout)
{
    (void)timeout;
    driver.WaitForFences(d, n, fences, all, UINT64_MAX);
    return VK_ERROR_DEVICE_LOST;
}

static VKAPI_ATTR VkResult VKAPI_CALL lose_fence(VkDevice d, VkFence fence)
{
    return lose_wait(d, 1, &fence, VK_TRUE, 0);
}

/* Loses the device when a run is submitted, or when it is waited for. */
static void test_lost(bool waiting)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL, *other = NULL;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    driver = d->device->vk;
    CHECK_OK(try_run(d, &s), &err);
    CHECK_OK(try_run(d, &other), &err);
    if (waiting) {
        d->device->vk.WaitForFences = lose_wait;
        d->device->vk.GetFenceStatus = lose_fence;
    } else
        d->device->vk.QueueSubmit = lose_submit;
    rlx_status st = rlx_session_submit(s, NULL, &err);
    if (st == RLX_OK)
        st = rlx_session_wait(s, 0, -1, &err);
    CHECK_FAILS(st, RLX_DEVICE_LOST, &err, "lost the device");
    CHECK(strstr(err.text, "open it again") != NULL);
    d->device->vk = driver;
    CHECK_FAILS(rlx_session_submit(other, NULL, &err), RLX_DEVICE_LOST, &err, "open it again");
    CHECK_FAILS(try_run(d, NULL), RLX_DEVICE_LOST, &err, "lost");
    rlx_session_destroy(s);
    rlx_session_destroy(other);
    rlx_device_close(d);
    CHECK_OK(open_run_close("vulkan"), &err);
}

static VKAPI_ATTR VkResult VKAPI_CALL no_memory(VkDevice d, const VkMemoryAllocateInfo *info,
                                                const VkAllocationCallbacks *allocator,
                                                VkDeviceMemory *out)
{
    (void)d, (void)info, (void)allocator, (void)out;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static void test_full(void)
{
    rlx_device *d = NULL;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    driver = d->device->vk;
    d->device->vk.AllocateMemory = no_memory;
    CHECK_FAILS(try_run(d, NULL), RLX_NO_MEMORY, &err, "VK_ERROR_OUT_OF_DEVICE_MEMORY");
    CHECK(strstr(err.text, d->device->gpu.info.name) != NULL);
    d->device->vk = driver;
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);
}

/* ---- Cache files ---------------------------------------------------------------------------- */

static char folder[] = "/tmp/rlx-cache-XXXXXX";
static atomic_int n_ignored;
enum { REMOVE, SPOIL, CUT, MAKE_FOREIGN };

static void on_log(void *user, rlx_log_level level, const char *text)
{
    (void)user, (void)level;
    if (strstr(text, "broken or of another device"))
        atomic_fetch_add(&n_ignored, 1);
}

/* Writes into a file: at the data, or where it says of which device it is. */
static bool overwrite(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    return f && !fseek(f, at, SEEK_SET) && fputs("garbage", f) >= 0 && !fclose(f);
}

/* Changes each file of the folder. Returns how many. */
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
        if (how == REMOVE)
            CHECK(!unlink(path));
        else if (how == CUT)
            CHECK(!truncate(path, 50));
        else
            CHECK(overwrite(path, how == SPOIL ? 70 : 8));
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
    for (int how = SPOIL; how <= MAKE_FOREIGN; how++) {
        CHECK(change_files(how) >= 1);
        atomic_store(&n_ignored, 0);
        CHECK_OK(open_run_close("vulkan"), &err);
        CHECK(atomic_load(&n_ignored) >= 1);
    }
    atomic_store(&n_ignored, 0);
    CHECK_OK(open_run_close("vulkan"), &err);
    CHECK(atomic_load(&n_ignored) == 0);
    change_files(REMOVE);
    setenv("RLX_CACHE_DIR", "/proc/nowhere", 1);
    CHECK_OK(open_run_close("vulkan"), &err);
    setenv("RLX_CACHE_DIR", folder, 1);
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
}

/* ---- The self-check -------------------------------------------------------------------------- */

/* Kernels that write nothing: every check fails. */
static VKAPI_ATTR void VKAPI_CALL skip_dispatch(VkCommandBuffer cb, uint32_t x, uint32_t y,
                                                uint32_t z)
{
    (void)cb, (void)x, (void)y, (void)z;
}

static bool doctor_says(const char *text)
{
    char command[600], said[1 << 14] = "";
    snprintf(command, sizeof command, "'%s' doctor --device vulkan 2>&1", getenv("RLX_TOOL"));
    FILE *f = popen(command, "r");
    size_t n = f ? fread(said, 1, sizeof said - 1, f) : 0;
    if (f)
        pclose(f);
    if (!n || !strstr(said, text))
        printf("rlx doctor does not say '%s': %s\n", text, said);
    return strstr(said, text) != NULL;
}

/* What fails is turned off, also in the next process, and results are right without it. */
static void test_selfcheck(void)
{
    rlx_device *d = NULL;
    rlx_device_info info;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    const rx_gpu_caps *offered = &d->device->gpu.caps, *used = &d->device->caps;
    const bool subgroups = offered->subgroup_arith, half = offered->f16;
    rlx_device_get_info(d, &info);
    CHECK(!subgroups || used->subgroup_arith == !strstr(info.detail, "turned off subgroups"));
    change_files(REMOVE);
    driver = d->device->vk;
    d->device->vk.CmdDispatch = skip_dispatch;
    d->device->caps = *offered;
    rx_vk_selfcheck(d->device);
    CHECK(!used->subgroup_arith && !used->subgroup_shuffle && !used->f16 && !used->subnormals);
    CHECK(!used->coopmat_f16 && !used->coopmat_fragments && !used->int_dot);
    d->device->vk = driver;
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);

    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    rlx_device_get_info(d, &info);
    CHECK(!subgroups || strstr(info.detail, "turned off"));
    CHECK(!half || strstr(info.detail, " f16"));
    CHECK(!d->device->caps.subgroup_arith && !d->device->caps.f16);
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);
    if ((subgroups || half) && getenv("RLX_TOOL") && !access(getenv("RLX_TOOL"), X_OK))
        CHECK(doctor_says("self-check: turned off"));
    change_files(REMOVE);
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
    test_lost(false);
    test_lost(true);
    test_full();
    test_cache();
    test_selfcheck();
    test_allocations("vulkan", 0);
    change_files(REMOVE);
    rmdir(folder);
    return check_done();
}
#endif
