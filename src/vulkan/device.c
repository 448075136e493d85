/* SPDX-License-Identifier: MIT */
/* Devices: the list of usable ones, best first, and opening one with its queues. */
#include "vulkan/device.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"

/* ---- The list ------------------------------------------------------------------------------- */

/* Order of preference of device types. */
static int gpu_rank(const rx_vk_gpu *g)
{
    if (g->caps.is_software)
        return 0;
    switch (g->props.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    default: return 1;
    }
}

static void make_list(rx_gpu_devices *l)
{
    const rx_vk_instance *vk = rx_vk_instance_get(l->reason);
    if (!vk)
        return;
    VkPhysicalDevice handles[RX_GPU_MAX_DEVICES];
    uint32_t n = RX_GPU_MAX_DEVICES;
    VkResult r = vk->EnumeratePhysicalDevices(vk->handle, &n, handles);
    if (r < VK_SUCCESS) {
        snprintf(l->reason, sizeof l->reason, "the Vulkan loader listed no devices (%s): "
                 RX_VK_DRIVER_HINT, rx_vk_result_name(r));
        return;
    }
    if (!n) {
        snprintf(l->reason, sizeof l->reason, "the Vulkan loader found no device: "
                 RX_VK_INSTALL_HINT);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        rx_vk_gpu gpu;
        char why[256];
        if (rx_vk_gpu_examine(vk, handles[i], &gpu, why))
            rx_gpu_devices_add(l, &gpu, gpu_rank(&gpu));
        else
            rx_gpu_devices_say(l, why);
    }
}

static rx_vk_gpu gpus[RX_GPU_MAX_DEVICES];
static rx_gpu_devices devices = {.backend = "vulkan", .make = make_list, .items = gpus,
                                 .item_bytes = sizeof *gpus,
                                 .info_at = offsetof(rx_vk_gpu, info), .lock = RX_MUTEX_INIT};

size_t rx_vk_list(rlx_device_info *out, size_t cap, char reason[512])
{
    const size_t n = rx_gpu_devices_list(&devices, out, cap, reason);
    for (size_t i = 0; i < n && i < cap; i++) {
        char note[160];
        rx_vk_selfcheck_note(&gpus[i], note);
        rx_vk_detail(&gpus[i], &gpus[i].caps, note, out[i].detail, sizeof out[i].detail);
    }
    return n;
}

/* ---- Errors, fences, queues ----------------------------------------------------------------- */

rlx_status rx_vk_fail(rx_device *d, VkResult r, const char *what, rlx_error *err)
{
    const char *name = d->gpu.info.name;
    if (r == VK_ERROR_DEVICE_LOST) {
        atomic_store(&d->lost, true);
        return rx_fail(err, RLX_DEVICE_LOST, "%s: the driver lost the device %s; open it again",
                       what, name);
    }
    if (r == VK_ERROR_OUT_OF_DEVICE_MEMORY || r == VK_ERROR_OUT_OF_HOST_MEMORY ||
        r == VK_ERROR_OUT_OF_POOL_MEMORY || r == VK_ERROR_FRAGMENTED_POOL)
        return rx_fail(err, RLX_NO_MEMORY, "%s: out of memory on %s (%s)", what, name,
                       rx_vk_result_name(r));
    return rx_fail(err, RLX_INTERNAL, "%s: %s failed with %s (%d)", what, name,
                   rx_vk_result_name(r), (int)r);
}

rlx_status rx_vk_fail_run(rx_device *d, rlx_error *err)
{
    return rx_fail(err, RLX_UNSUPPORTED, "%s was opened to compile only: nothing runs on it",
                   d->gpu.info.name);
}

VkResult rx_vk_queue_submit(rx_device *d, rx_vk_queue *q, uint32_t n, const VkSubmitInfo *infos,
                            VkFence fence)
{
    if (atomic_load(&d->lost))
        return VK_ERROR_DEVICE_LOST;
    rx_mutex_lock(&q->lock);
    VkResult r = d->vk.QueueSubmit(q->handle, n, infos, fence);
    rx_mutex_unlock(&q->lock);
    return r;
}

/* How long to poll a fence: waking up from a sleep costs about 30 us on a real GPU. */
#define POLL_NS 200000

VkResult rx_vk_wait_fence(rx_device *d, VkFence fence, uint64_t quiet_ns, uint64_t timeout_ns)
{
    if (atomic_load(&d->lost))
        return VK_ERROR_DEVICE_LOST;
    int64_t begin = rx_now_ns();
    VkResult r = d->vk.GetFenceStatus(d->handle, fence);
    if (r == VK_NOT_READY && quiet_ns > POLL_NS && quiet_ns < timeout_ns) {
        r = d->vk.WaitForFences(d->handle, 1, &fence, VK_TRUE, quiet_ns - POLL_NS);
        r = r == VK_TIMEOUT ? VK_NOT_READY : r;
    }
    uint64_t poll_ns = d->base.caps.is_software ? 0 : quiet_ns + POLL_NS;
    while (r == VK_NOT_READY && (uint64_t)(rx_now_ns() - begin) < poll_ns &&
           (uint64_t)(rx_now_ns() - begin) < timeout_ns) {
        rx_spin_pause();
        r = d->vk.GetFenceStatus(d->handle, fence);
    }
    uint64_t spent = (uint64_t)(rx_now_ns() - begin);
    if (r == VK_NOT_READY)
        r = d->vk.WaitForFences(d->handle, 1, &fence, VK_TRUE,
                                timeout_ns == UINT64_MAX ? UINT64_MAX
                                : timeout_ns > spent     ? timeout_ns - spent
                                                         : 0);
    return r;
}

VkFence rx_vk_fence_create(rx_device *d)
{
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence = VK_NULL_HANDLE;
    return d->vk.CreateFence(d->handle, &info, NULL, &fence) == VK_SUCCESS ? fence : VK_NULL_HANDLE;
}

VkCommandBuffer rx_vk_commands_alloc(rx_device *d, VkCommandPool pool)
{
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = pool, .commandBufferCount = 1,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY};
    VkCommandBuffer cb = VK_NULL_HANDLE;
    return d->vk.AllocateCommandBuffers(d->handle, &info, &cb) == VK_SUCCESS ? cb : VK_NULL_HANDLE;
}

/* ---- The target ----------------------------------------------------------------------------- */

static rlx_support target_support(const rx_target *t, const rlx_graph *g, const rx_node *n)
{
    const rx_device *d = t->user;
    if (d->gpu.host_all)
        return RLX_SUPPORT_HOST;
    rlx_support s = rx_gpu_support(t, g, n);
    if (s != RLX_SUPPORT_NO)
        return s;
    /* an operation that lacks a kernel only for its types runs on the host */
    const bool has_op = n->op != RX_OP_custom && rx_gpu_op_support(n->op) == RLX_SUPPORT_NATIVE;
    return has_op || d->gpu.host_missing ? RLX_SUPPORT_HOST : RLX_SUPPORT_NO;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static VkResult create_device(rx_device *d)
{
    const float priority = 1;
    VkDeviceQueueCreateInfo queues[2] = {
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = d->gpu.family,
         .queueCount = 1, .pQueuePriorities = &priority},
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .queueFamilyIndex = d->gpu.transfer_family, .queueCount = 1,
         .pQueuePriorities = &priority}};
    rx_vk_features f;
    rx_vk_features_ask(d->instance, d->gpu.handle, d->compile_only, &f);
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &f.base,
                               .queueCreateInfoCount = d->has_transfer ? 2 : 1,
                               .pQueueCreateInfos = queues,
                               .enabledExtensionCount = f.n_extensions,
                               .ppEnabledExtensionNames = f.extensions};
    return d->instance->CreateDevice(d->gpu.handle, &info, NULL, &d->handle);
}

static bool init_queue(rx_device *d, rx_vk_queue *q, uint32_t family)
{
    q->family = family;
    d->vk.GetDeviceQueue(d->handle, family, 0, &q->handle);
    return rx_mutex_init(&q->lock);
}

/* Whether kernel memory is mapped: as the device prefers, or as RLX_VULKAN_ARENA_DEBUG says. */
static bool choose_mapped(const rx_vk_gpu *gpu)
{
    const char *text = rx_env_text(RX_ENV_VULKAN_ARENA_DEBUG);
    if (text && !strcmp(text, "host"))
        return true;
    if (text && !strcmp(text, "device"))
        return false;
    return gpu->unified;
}

static void destroy_handle(rx_device *d)
{
    PFN_vkDestroyDevice destroy =
        (PFN_vkDestroyDevice)d->instance->GetDeviceProcAddr(d->handle, "vkDestroyDevice");
    if (destroy)
        destroy(d->handle, NULL);
}

/* False when the system has no more locks or command pools. */
static bool init_queues(rx_device *d)
{
    if (!init_queue(d, &d->queue, d->gpu.family))
        return false;
    if (!init_queue(d, &d->transfer_queue, d->gpu.transfer_family))
        goto no_transfer;
    if (!rx_vk_copier_init(d, &d->up, d->has_transfer ? &d->transfer_queue : &d->queue,
                           RX_VK_UPLOAD))
        goto no_up;
    if (!rx_vk_copier_init(d, &d->down, &d->queue, RX_VK_READBACK))
        goto no_down;
    if (rx_mutex_init(&d->base.shared_lock))
        return true;
    rx_vk_copier_finish(d, &d->down);
no_down:
    rx_vk_copier_finish(d, &d->up);
no_up:
    rx_mutex_finish(&d->transfer_queue.lock);
no_transfer:
    rx_mutex_finish(&d->queue.lock);
    return false;
}

static void finish_queues(rx_device *d)
{
    rx_mutex_finish(&d->base.shared_lock);
    rx_vk_copier_finish(d, &d->down);
    rx_vk_copier_finish(d, &d->up);
    rx_mutex_finish(&d->transfer_queue.lock);
    rx_mutex_finish(&d->queue.lock);
}

/* Initialises queues, copiers and pipelines once the VkDevice exists. */
static rlx_status init_parts(rx_device *d, rlx_error *err)
{
    if (!init_queues(d))
        return rx_fail_memory(err, "a lock of the Vulkan device", sizeof(rx_mutex));
    rlx_status st = rx_vk_pipelines_init(d, err);
    if (st != RLX_OK)
        finish_queues(d);
    return st;
}

/* the validation layer reports a race where there is no barrier */
static bool can_chain(const rx_device *d)
{
    const rx_gpu_caps *c = &d->base.caps;
    bool wanted = rx_env_text(RX_ENV_CHAIN) ? rx_env_flag(RX_ENV_CHAIN)
                                            : d->gpu.keeps_order && !d->instance->validation;
    return wanted && c->chains && c->address && c->subgroup && c->subgroup_arith;
}

rlx_status rx_vk_open(size_t index, const rlx_device_desc *desc, rx_device **out, rlx_error *err)
{
    *out = NULL;
    const rx_gpu_devices *l = rx_gpu_devices_get(&devices);
    char reason[512];
    const rx_vk_instance *vk = rx_vk_instance_get(reason);
    if (!vk || index >= l->n)
        return rx_fail(err, RLX_NO_DEVICE, "there is no Vulkan device number %zu: there are %zu",
                       index, l->n);
    rx_device *d = rx_alloc_zero(sizeof *d);
    if (!d)
        return rx_fail_memory(err, "the Vulkan device", sizeof *d);
    d->instance = vk;
    d->gpu = gpus[index];
    d->base.caps = d->gpu.caps;
    rx_vk_memory_init(d);
    d->has_transfer = d->gpu.transfer_family != d->gpu.family;
    d->compile_only = desc->flags & RLX_DEVICE_COMPILE_ONLY;
    d->mapped = choose_mapped(&d->gpu) && !d->compile_only;
    d->log_blocks = rx_env_flag(RX_ENV_VULKAN_ARENA_DEBUG);
    d->full_barrier = rx_env_flag(RX_ENV_FULL_BARRIER);
    rx_gpu_target_init(&d->base, "vulkan", target_support);
    d->base.target.has_host = d->gpu.host_missing;
    rlx_status st;
    VkResult r = create_device(d);
    if (r != VK_SUCCESS) {
        st = rx_vk_fail(d, r, "opening the device", err);
        goto no_handle;
    }
    const char *missing = rx_vk_functions_get(vk, d->handle, &d->vk);
    if (missing) {
        st = rx_fail(err, RLX_NO_DEVICE, "the driver of %s lacks %s, a function of Vulkan 1.1",
                     d->gpu.info.name, missing);
        goto no_parts;
    }
    d->base.caps.address = d->base.caps.address && d->vk.GetBufferDeviceAddress;
    d->base.caps.chains = can_chain(d);
    d->chain_always = rx_env_flag(RX_ENV_CHAIN);
    st = init_parts(d, err);
    if (st != RLX_OK)
        goto no_parts;
    rx_vk_selfcheck(d);
    *out = d;
    return RLX_OK;
no_parts:
    destroy_handle(d);
no_handle:
    rx_free(d);
    return st;
}

void rx_vk_describe(rx_device *d, char *out, size_t cap)
{
    rx_vk_detail(&d->gpu, &d->base.caps, d->base.note, out, cap);
}

void rx_vk_close(rx_device *d)
{
    if (!atomic_load(&d->lost) && !d->compile_only)
        d->vk.DeviceWaitIdle(d->handle);
    rx_vk_pipelines_finish(d);
    finish_queues(d);
    destroy_handle(d);
    rx_free(d);
}
