/* SPDX-License-Identifier: MIT */
/* What can go wrong with a Vulkan device: it is lost, it has no memory, a feature does not work,
 * its cache files are broken, allocations fail. Each ends in a status or a line in the log, and a
 * new device works. The driver's part is played by functions in its place. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    rlx_session *sums = open_sums(d);
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
    check_lost_session(sums);
    rlx_session_destroy(sums);
    rlx_session_destroy(s);
    rlx_session_destroy(other);
    rlx_device_close(d);
    CHECK_OK(open_run_close("vulkan"), &err);
}

/* The work is done, but the driver has no memory to say so. */
static VKAPI_ATTR VkResult VKAPI_CALL fail_wait(VkDevice d, uint32_t n, const VkFence *fences,
                                                VkBool32 all, uint64_t timeout)
{
    lose_wait(d, n, fences, all, timeout);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

static VKAPI_ATTR VkResult VKAPI_CALL fail_fence(VkDevice d, VkFence fence)
{
    return fail_wait(d, 1, &fence, VK_TRUE, 0);
}

/* A run fails, those after it do not, nor does the one that has its slot. */
static void test_failed_run(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    driver = d->device->vk;
    CHECK_OK(try_run(d, &s), &err);
    d->device->vk.WaitForFences = fail_wait;
    d->device->vk.GetFenceStatus = fail_fence;
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_FAILS(rlx_session_wait(s, 0, -1, &err), RLX_NO_MEMORY, &err, "a run");
    d->device->vk = driver;
    for (int i = 0; i < 2 * RX_GPU_N_SLOTS; i++)
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_wait(s, 0, -1, &err), &err);
    rlx_session_destroy(s);
    rlx_device_close(d);
}

static VKAPI_ATTR VkResult VKAPI_CALL no_memory(VkDevice d, const VkMemoryAllocateInfo *info,
                                                const VkAllocationCallbacks *allocator,
                                                VkDeviceMemory *out)
{
    (void)d, (void)info, (void)allocator, (void)out;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

/* Heaps of 64 KiB each, of which a quarter is used. */
static VKAPI_ATTR void VKAPI_CALL small_heaps(VkPhysicalDevice d,
                                              VkPhysicalDeviceMemoryProperties2 *m)
{
    char reason[512];
    rx_vk_instance_get(reason)->GetPhysicalDeviceMemoryProperties2(d, m);
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = m->pNext;
    for (uint32_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) {
        m->memoryProperties.memoryHeaps[i].size = 48 << 10;
        if (budget) {
            budget->heapBudget[i] = 64 << 10;
            budget->heapUsage[i] = 16 << 10;
        }
    }
}

static void test_full(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    driver = d->device->vk;
    rx_vk_instance small = *d->device->instance;
    const rx_vk_instance *whole = d->device->instance;
    small.GetPhysicalDeviceMemoryProperties2 = small_heaps;
    d->device->instance = &small;
    rlx_graph *g = rlx_graph_create("large");
    rlx_output(g, "y", rlx_neg(g, rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){1 << 18})));
    CHECK_FAILS(rlx_session_create(d, g, NULL, &s, &err), RLX_NO_MEMORY, &err,
                "needs 1.00 MiB, 0.05 MiB are free on");
    CHECK(!s);
    d->device->instance = whole;
    CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    d->device->vk.AllocateMemory = no_memory;
    CHECK_FAILS(try_run(d, NULL), RLX_NO_MEMORY, &err, "VK_ERROR_OUT_OF_DEVICE_MEMORY");
    CHECK(strstr(err.text, d->device->gpu.info.name) != NULL);
    d->device->vk = driver;
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);
}

/* A message of the validation layer fails the run during which it came, and only that. */
static void test_validation(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    VkFence fence = VK_NULL_HANDLE;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, &s), &err);
    const rx_vk_functions *vk = &d->device->vk;
    VkFenceCreateInfo wrong = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO};
    if (d->device->instance->validation) {
        CHECK(vk->CreateFence(d->device->handle, &wrong, NULL, &fence) == VK_SUCCESS);
        vk->DestroyFence(d->device->handle, fence, NULL);
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
        CHECK_FAILS(rlx_session_wait(s, 0, -1, &err), RLX_INTERNAL, &err, "Vulkan validation: ");
    }
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_wait(s, 0, -1, &err), &err);
    rlx_session_destroy(s);
    rlx_device_close(d);
}

/* ---- Each call of the driver fails ----------------------------------------------------------- */

static atomic_long calls_left; /* the call that brings it to 0 fails */

static bool is_due(void)
{
    return atomic_fetch_sub(&calls_left, 1) == 1;
}

/* Parameters of the functions of the driver that may fail, and the same as arguments. */
#define MAY_FAIL(X) \
    X(AllocateCommandBuffers, (VkDevice d, const VkCommandBufferAllocateInfo *i, \
                               VkCommandBuffer *o), (d, i, o)) \
    X(AllocateDescriptorSets, (VkDevice d, const VkDescriptorSetAllocateInfo *i, \
                               VkDescriptorSet *o), (d, i, o)) \
    X(AllocateMemory, (VkDevice d, const VkMemoryAllocateInfo *i, const VkAllocationCallbacks *a, \
                       VkDeviceMemory *o), (d, i, a, o)) \
    X(BeginCommandBuffer, (VkCommandBuffer c, const VkCommandBufferBeginInfo *i), (c, i)) \
    X(BindBufferMemory, (VkDevice d, VkBuffer b, VkDeviceMemory m, VkDeviceSize at), \
      (d, b, m, at)) \
    X(CreateBuffer, (VkDevice d, const VkBufferCreateInfo *i, const VkAllocationCallbacks *a, \
                     VkBuffer *o), (d, i, a, o)) \
    X(CreateCommandPool, (VkDevice d, const VkCommandPoolCreateInfo *i, \
                          const VkAllocationCallbacks *a, VkCommandPool *o), (d, i, a, o)) \
    X(CreateComputePipelines, (VkDevice d, VkPipelineCache c, uint32_t n, \
                               const VkComputePipelineCreateInfo *i, \
                               const VkAllocationCallbacks *a, VkPipeline *o), \
      (d, c, n, i, a, o)) \
    X(CreateDescriptorPool, (VkDevice d, const VkDescriptorPoolCreateInfo *i, \
                             const VkAllocationCallbacks *a, VkDescriptorPool *o), (d, i, a, o)) \
    X(CreateFence, (VkDevice d, const VkFenceCreateInfo *i, const VkAllocationCallbacks *a, \
                    VkFence *o), (d, i, a, o)) \
    X(CreateShaderModule, (VkDevice d, const VkShaderModuleCreateInfo *i, \
                           const VkAllocationCallbacks *a, VkShaderModule *o), (d, i, a, o)) \
    X(MapMemory, (VkDevice d, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize n, \
                  VkMemoryMapFlags f, void **o), (d, m, at, n, f, o)) \
    X(QueueSubmit, (VkQueue q, uint32_t n, const VkSubmitInfo *i, VkFence f), (q, n, i, f)) \
    X(ResetFences, (VkDevice d, uint32_t n, const VkFence *f), (d, n, f))

#define X(name, parameters, arguments) \
    static VKAPI_ATTR VkResult VKAPI_CALL fail_##name parameters \
    { \
        return is_due() ? VK_ERROR_OUT_OF_DEVICE_MEMORY : driver.name arguments; \
    }
MAY_FAIL(X)
#undef X

/* Commands whose recording fails are no longer being recorded. */
static VKAPI_ATTR VkResult VKAPI_CALL fail_EndCommandBuffer(VkCommandBuffer c)
{
    VkResult r = driver.EndCommandBuffer(c);
    return is_due() ? VK_ERROR_OUT_OF_DEVICE_MEMORY : r;
}

#define MOST_CALLS (1l << 20)

/* From here on the n-th call fails; 0: none. */
static void begin_failing(rlx_device *d, long n)
{
    atomic_store(&calls_left, n ? n : MOST_CALLS);
#define X(name, parameters, arguments) d->device->vk.name = fail_##name;
    MAY_FAIL(X)
#undef X
    d->device->vk.EndCommandBuffer = fail_EndCommandBuffer;
}

/* Returns how many calls there were, if none was to fail. */
static long end_failing(rlx_device *d)
{
    d->device->vk = driver;
    return MOST_CALLS - atomic_load(&calls_left);
}

/* Runs with the n-th call failing; 0: none. Returns how many there were. */
static long run_failing(rlx_device *d, long n, rlx_status *st)
{
    begin_failing(d, n);
    *st = try_run(d, NULL);
    return end_failing(d);
}

static void test_calls(void)
{
    rlx_device *d = NULL;
    rlx_status st;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    driver = d->device->vk;
    const long total = run_failing(d, 0, &st);
    CHECK(st == RLX_OK && total > 20);
    rlx_device_close(d);
    for (long i = 1; i <= total; i++) { /* each with a device that has no pipelines yet */
        CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
        driver = d->device->vk;
        if (!CHECK_OK_OR((run_failing(d, i, &st), st), RLX_NO_MEMORY, &err))
            printf("call %ld\n", i);
        CHECK_OK(try_run(d, NULL), &err);
        rlx_device_close(d);
    }
}

/* ---- Each call fails in the life of a session ------------------------------------------------ */

/* A use that fails leaves a session that works, and can be tried again. */
static void test_uses(void)
{
    rlx_device *d = NULL;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    driver = d->device->vk;
    for (size_t i = 0; i < N_USES; i++) {
        long total = 1;
        for (long n = 0; n <= total; n++) {
            float y[2] = {0};
            rlx_session *s = open_sums(d);
            begin_failing(d, n);
            bool ok = CHECK_OK_OR(uses[i].use(s, y), RLX_NO_MEMORY, &err);
            total = n ? total : end_failing(d);
            d->device->vk = driver;
            if (!check_use(s, i) || !ok)
                printf("    %s, call %ld of %ld\n", uses[i].name, n, total);
            rlx_session_destroy(s);
        }
        printf("%s: %ld calls\n", uses[i].name, total);
        CHECK(total > 0);
    }
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
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    const rx_gpu_caps *offered = &d->device->gpu.caps, *used = &d->device->base.caps;
    const bool subgroups = offered->subgroup_arith, half = offered->f16;
    rlx_device_get_info(d, &info, NULL);
    CHECK(!subgroups || used->subgroup_arith == !strstr(info.detail, "turned off subgroups"));
    change_files(REMOVE);
    driver = d->device->vk;
    d->device->vk.CmdDispatch = skip_dispatch;
    d->device->base.caps = *offered;
    rx_vk_selfcheck(d->device);
    CHECK(!used->subgroup_arith && !used->subgroup_shuffle && !used->f16 && !used->subnormals);
    CHECK(!used->coopmat_f16 && !used->coopmat_fragments && !used->int_dot);
    d->device->vk = driver;
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);

    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    rlx_device_get_info(d, &info, NULL);
    CHECK(!subgroups || strstr(info.detail, "turned off"));
    CHECK(!half || strstr(info.detail, " f16"));
    CHECK(!d->device->base.caps.subgroup_arith && !d->device->base.caps.f16);
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
    test_failed_run();
    test_full();
    test_validation();
    test_calls();
    test_uses();
    test_cache();
    test_selfcheck();
    test_allocations("vulkan", 0);
    test_use_allocations("vulkan");
    change_files(REMOVE);
    rmdir(folder);
    return check_done();
}
