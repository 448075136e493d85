/* SPDX-License-Identifier: MIT */
/* On first use of a driver its fast features are tried on small cases with known results; one that
 * fails is turned off. What was found is kept on disk by device, driver and kernels. */
#include <stdio.h>
#include <string.h>

#include "vulkan/device.h"

#define CACHE_FILE "selfcheck"
#define MAX_WORDS 1027
#define INVOCATIONS 128

/* The numbers of gpu/shaders/selfcheck.comp. */
static uint32_t v(uint32_t i)
{
    return (i * 7 + 3) % 11;
}

/* ---- Running one kernel --------------------------------------------------------------------- */

/* Runs a dispatch with one binding, place, and waits. */
static rlx_status run_dispatch(rx_device *d, rx_vk_dispatch *x, rlx_error *err)
{
    VkDescriptorPool sets;
    VkCommandBuffer cb = VK_NULL_HANDLE;
    VkFence fence = VK_NULL_HANDLE;
    rlx_status st = rx_vk_sets_create(d, x, 1, &sets, err);
    if (st != RLX_OK)
        goto out;
    st = rx_fail_memory(err, "the self-check", sizeof *x);
    cb = rx_vk_commands_alloc(d, d->down.pool);
    fence = rx_vk_fence_create(d);
    if (!cb || !fence)
        goto out;
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1,
                         .pCommandBuffers = &cb};
    VkResult r = rx_vk_begin(d, cb, true);
    if (r == VK_SUCCESS) {
        rx_vk_record(d, cb, x, 1);
        rx_vk_barrier_host(d, cb);
        r = d->vk.EndCommandBuffer(cb);
    }
    if (r == VK_SUCCESS)
        r = rx_vk_queue_submit(d, &d->queue, 1, &info, fence);
    if (r == VK_SUCCESS)
        r = rx_vk_wait_fence(d, fence, 0, UINT64_MAX);
    st = r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "the self-check", err);
out:
    if (fence)
        d->vk.DestroyFence(d->handle, fence, NULL);
    if (cb)
        d->vk.FreeCommandBuffers(d->handle, d->down.pool, 1, &cb);
    if (sets)
        d->vk.DestroyDescriptorPool(d->handle, sets, NULL);
    return st;
}

/* Runs one workgroup of a kernel on a block of words and reads it. */
static rlx_status run_kernel(rx_device *d, rx_kernel kernel, uint32_t local, uint32_t *words,
                             rlx_error *err)
{
    rx_gpu_dispatch from = {.kernel = kernel, .n_bind = 1, .writes = 1, .spec = {local},
                            .n_spec = 1, .groups = {1, 1, 1}};
    rx_vk_dispatch x = {.n_bind = 1, .writes = 1, .groups = {1, 1, 1}};
    rx_vk_block block;
    RLX_TRY(rx_vk_block_create(d, RX_VK_KERNEL, MAX_WORDS * 4, "the self-check", &block, err));
    x.bind[0] = (rx_vk_place){&block, 0, MAX_WORDS * 4};
    rlx_status st = rx_vk_zero(d, &x.bind[0], err);
    if (st == RLX_OK)
        st = rx_vk_pipelines_get(d, &from, 1, &x, err);
    if (st == RLX_OK)
        st = run_dispatch(d, &x, err);
    if (st == RLX_OK)
        st = rx_vk_download(d, &x.bind[0], 0, words, MAX_WORDS * 4, err);
    rx_vk_pipelines_release(d, &x, 1);
    rx_vk_block_destroy(d, &block);
    return st;
}

/* ---- The checks ----------------------------------------------------------------------------- */

static bool is_subgroup_right(const uint32_t *o, const rx_gpu_caps *c)
{
    uint32_t n_seen = 0;
    (void)c;
    for (uint32_t i = 0; i < INVOCATIONS; i++) {
        const uint32_t *x = o + i * 6;
        uint32_t sum = 0, most = 0, so_far = 0, first = UINT32_MAX, first_lane = UINT32_MAX;
        for (uint32_t k = 0; k < INVOCATIONS; k++) {
            const uint32_t *y = o + k * 6;
            if (y[0] != x[0])
                continue;
            sum += v(k);
            most = v(k) > most ? v(k) : most;
            so_far += y[1] <= x[1] ? v(k) : 0;
            first = y[1] < first_lane ? v(k) : first;
            first_lane = y[1] < first_lane ? y[1] : first_lane;
        }
        n_seen += x[2] == sum && x[3] == most && x[4] == so_far && x[5] == first;
    }
    return n_seen == INVOCATIONS;
}

static bool is_subnormal_right(const uint32_t *o, const rx_gpu_caps *c)
{
    (void)c;
    for (uint32_t i = 0; i < INVOCATIONS; i++)
        if (o[i] != (i * 5900 + 1) * (v(i) + 1))
            return false;
    return true;
}

static bool is_half_right(const uint32_t *o, const rx_gpu_caps *c)
{
    (void)c;
    for (uint32_t i = 0; i < INVOCATIONS; i++) {
        float got, want = (float)v(i) / 4 * 1.5f - 2;
        memcpy(&got, &o[i], sizeof got);
        if (got != want)
            return false;
    }
    return true;
}

static bool is_dot_right(const uint32_t *o, const rx_gpu_caps *c)
{
    (void)c;
    for (uint32_t i = 0; i < INVOCATIONS; i++) {
        int32_t a = (int32_t)v(i), b = -(int32_t)v(i + 1);
        if ((int32_t)o[i] != a * -4 + b * a + 3 * b + -4 * 3)
            return false;
    }
    return true;
}

static bool is_matrix_right(const uint32_t *o, const rx_gpu_caps *c)
{
    (void)c;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < 16; k++)
            sum += v(i / 16 * 16 + k) * v(i % 16 * 16 + k);
        if (o[i] != sum)
            return false;
    }
    return true;
}

/* Lane 4 g + t has eight elements, 4 r + 2 h + u for r, h, u in {0, 1}: of A and of sums row
 * g + 8 r, column 2 t + 8 h + u; of B that column as row and that row as column. */
static bool is_layout_right(const uint32_t *o, const rx_gpu_caps *c)
{
    const uint32_t *a = o + 256, *b = o + 513, *sum = o + 770;
    if (c->subgroup != 32 || a[0] != 8 || b[0] != 8 || sum[0] != 8)
        return false;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t g = i / 32, t = i / 8 % 4, r = i / 4 % 2, h = i / 2 % 2, u = i % 2;
        uint32_t row = g + 8 * r, column = 2 * t + 8 * h + u, place = row * 16 + column;
        if (a[1 + i] != place || sum[1 + i] != place || b[1 + i] != column * 16 + row)
            return false;
    }
    return true;
}

static bool has_subgroup(const rx_gpu_caps *c) { return c->subgroup && c->subgroup_arith; }
static bool has_subnormal(const rx_gpu_caps *c) { return c->subnormals; }
static bool has_half(const rx_gpu_caps *c) { return c->f16; }
static bool has_dot(const rx_gpu_caps *c) { return c->int_dot; }
static bool has_matrix(const rx_gpu_caps *c) { return c->coopmat_f16 && c->f16; }
static bool has_layout(const rx_gpu_caps *c) { return c->coopmat_fragments; }

static void no_layout(rx_gpu_caps *c) { c->coopmat_fragments = false; }
static void no_subnormal(rx_gpu_caps *c) { c->subnormals = false; }
static void no_dot(rx_gpu_caps *c) { c->int_dot = false; }

static void no_matrix(rx_gpu_caps *c)
{
    c->coopmat_f16 = c->coopmat_bf16 = c->coopmat_f16_acc = c->coopmat_fragments = false;
}

static void no_half(rx_gpu_caps *c)
{
    c->f16 = false;
    no_matrix(c);
}

static void no_subgroup(rx_gpu_caps *c)
{
    c->subgroup_arith = c->subgroup_shuffle = false;
    no_matrix(c);
}

/* One feature: whether the device has it, the kernel that tries it with its local size (0: the size
 * of a subgroup), whether what that gave is right, and how to do without. */
typedef struct check {
    const char *name;
    bool (*present)(const rx_gpu_caps *c);
    rx_kernel kernel;
    uint32_t local;
    bool (*is_right)(const uint32_t *words, const rx_gpu_caps *c);
    void (*off)(rx_gpu_caps *c);
} check;

static const check checks[] = {
    {"subnormals", has_subnormal, RX_K_selfcheck_subnormal, INVOCATIONS, is_subnormal_right,
     no_subnormal},
    {"subgroups", has_subgroup, RX_K_selfcheck_subgroup, INVOCATIONS, is_subgroup_right,
     no_subgroup},
    {"f16", has_half, RX_K_selfcheck_half, INVOCATIONS, is_half_right, no_half},
    {"integer dot", has_dot, RX_K_selfcheck_dot, INVOCATIONS, is_dot_right, no_dot},
    {"matrices", has_matrix, RX_K_selfcheck_matrix, 0, is_matrix_right, no_matrix},
    {"packed matrices", has_layout, RX_K_selfcheck_matrix, 0, is_layout_right, no_layout},
};

#define N_CHECKS ((uint32_t)(sizeof checks / sizeof checks[0]))

/* ---- Results -------------------------------------------------------------------------------- */

typedef struct result {
    uint32_t n_checks;
    uint32_t tried, failed; /* bit i: check i */
} result;

static bool load_result(const rx_vk_gpu *gpu, result *r)
{
    void *data;
    size_t bytes;
    if (!rx_vk_cache_load(gpu, CACHE_FILE, &data, &bytes))
        return false;
    bool ok = bytes == sizeof *r;
    if (ok)
        memcpy(r, data, sizeof *r);
    rx_free(data);
    return ok && r->n_checks == N_CHECKS;
}

void rx_vk_selfcheck_note(const rx_vk_gpu *gpu, char note[160])
{
    result r;
    note[0] = 0;
    if (!load_result(gpu, &r))
        return;
    size_t used = (size_t)snprintf(note, 160, "self-check: %s", r.failed ? "turned off" : "passed");
    for (uint32_t i = 0; i < N_CHECKS; i++)
        if (r.failed >> i & 1 && used < 160)
            used += (size_t)snprintf(note + used, 160 - used, " %s", checks[i].name);
}

/* False when the check could not be made for want of memory or device: it is made next time. */
static bool try_check(rx_device *d, const check *c, bool *passed)
{
    uint32_t words[MAX_WORDS];
    rlx_error err = {0};
    uint32_t local = c->local ? c->local : d->caps.subgroup;
    rlx_status st = run_kernel(d, c->kernel, local, words, &err);
    if (st == RLX_NO_MEMORY || st == RLX_DEVICE_LOST)
        return false;
    if (st != RLX_OK)
        rx_log(RLX_LOG_WARN, "vulkan: self-check of %s: %s", c->name, err.text);
    *passed = st == RLX_OK && c->is_right(words, &d->caps);
    return true;
}

void rx_vk_selfcheck(rx_device *d)
{
    result r;
    bool changed = false;
    if (!load_result(&d->gpu, &r))
        r = (result){.n_checks = N_CHECKS};
    for (uint32_t i = 0; i < N_CHECKS; i++) {
        const check *c = &checks[i];
        size_t n_words;
        if (!c->present(&d->caps) || !rx_kernel_code(c->kernel, &n_words))
            continue;
        if (!(r.tried >> i & 1)) {
            bool passed = false;
            if (!try_check(d, c, &passed)) {
                c->off(&d->caps);
                continue;
            }
            r.tried |= 1u << i;
            r.failed |= (uint32_t)!passed << i;
            changed = true;
        }
        if (r.failed >> i & 1) {
            rx_log(RLX_LOG_WARN, "vulkan: %s do not work as expected on %s: not used", c->name,
                   d->gpu.info.name);
            c->off(&d->caps);
        }
    }
    if (changed)
        rx_vk_cache_save(&d->gpu, CACHE_FILE, &r, sizeof r);
}
