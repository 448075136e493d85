/* SPDX-License-Identifier: MIT */
/* Pipelines: kernels with their constants, made when a program first needs them, on several
 * threads, and kept while a program uses them and for some time after. The driver's cache of
 * compiled code is kept on disk. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "spirv/modes.h"
#include "vulkan/device.h"

#define CACHE_FILE "pipelines"
#define SAVE_NS 1000000000 /* at most so often, and when the device is closed */

/* ---- Layouts and the cache ------------------------------------------------------------------ */

static VkResult create_layout(rx_device *d, uint32_t n)
{
    rx_vk_pipelines *p = &d->pipelines;
    VkDescriptorSetLayoutBinding bindings[RX_GPU_MAX_BIND + 1];
    for (uint32_t i = 0; i < n; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1, .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = n,
        .pBindings = bindings};
    VkResult r = d->vk.CreateDescriptorSetLayout(d->handle, &set, NULL, &p->set_layouts[n]);
    if (r != VK_SUCCESS)
        return r;
    VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4 * RX_GPU_MAX_PUSH};
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
        .pSetLayouts = &p->set_layouts[n], .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push};
    return d->vk.CreatePipelineLayout(d->handle, &layout, NULL, &p->layouts[n]);
}

static void open_cache(rx_device *d)
{
    void *data = NULL;
    size_t bytes = 0;
    rx_vk_cache_load(&d->gpu, CACHE_FILE, &data, &bytes);
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .initialDataSize = bytes, .pInitialData = data};
    if (d->vk.CreatePipelineCache(d->handle, &info, NULL, &d->pipelines.cache) != VK_SUCCESS)
        d->pipelines.cache = VK_NULL_HANDLE;
    rx_free(data);
}

/* Saves what was compiled since the last time. */
static void save_cache(rx_device *d)
{
    rx_vk_pipelines *p = &d->pipelines;
    size_t bytes = 0;
    p->saved_ns = rx_now_ns();
    if (!p->cache || p->n_made == p->n_saved ||
        d->vk.GetPipelineCacheData(d->handle, p->cache, &bytes, NULL) != VK_SUCCESS || !bytes)
        return;
    void *data = rx_alloc(bytes);
    if (data && d->vk.GetPipelineCacheData(d->handle, p->cache, &bytes, data) == VK_SUCCESS)
        rx_vk_cache_save(&d->gpu, CACHE_FILE, data, bytes);
    rx_free(data);
    p->n_saved = p->n_made;
}

static void destroy_layouts(rx_device *d)
{
    for (uint32_t i = 0; i <= RX_GPU_MAX_BIND; i++) {
        if (d->pipelines.layouts[i])
            d->vk.DestroyPipelineLayout(d->handle, d->pipelines.layouts[i], NULL);
        if (d->pipelines.set_layouts[i])
            d->vk.DestroyDescriptorSetLayout(d->handle, d->pipelines.set_layouts[i], NULL);
    }
}

rlx_status rx_vk_pipelines_init(rx_device *d, rlx_error *err)
{
    if (!rx_mutex_init(&d->pipelines.lock))
        return rx_fail_memory(err, "a lock of the Vulkan device", sizeof(rx_mutex));
    VkResult r = VK_SUCCESS;
    for (uint32_t i = 0; i <= RX_GPU_MAX_BIND && i <= d->caps.max_bindings && r == VK_SUCCESS; i++)
        r = create_layout(d, i);
    if (r != VK_SUCCESS) {
        destroy_layouts(d);
        rx_mutex_finish(&d->pipelines.lock);
        return rx_vk_fail(d, r, "the layouts of pipelines", err);
    }
    open_cache(d);
    return RLX_OK;
}

void rx_vk_pipelines_finish(rx_device *d)
{
    rx_vk_pipelines *p = &d->pipelines;
    save_cache(d);
    for (size_t i = 0; i < p->cap; i++)
        if (p->list[i].handle)
            d->vk.DestroyPipeline(d->handle, p->list[i].handle, NULL);
    rx_free(p->list);
    if (p->cache)
        d->vk.DestroyPipelineCache(d->handle, p->cache, NULL);
    destroy_layouts(d);
    rx_mutex_finish(&p->lock);
}

/* ---- The table ------------------------------------------------------------------------------ */

/* Whether the kernel is to keep subnormal numbers: where f32 is the only kind of float in it.
 * Matrices of halves have their own rules, and the others would have to follow them where the
 * modes are not independent. */
static bool keeps_subnormals(const rx_device *d, const rx_gpu_dispatch *x)
{
    const uint32_t halves = RX_NEEDS_COOPMAT | RX_NEEDS_F16 | RX_NEEDS_BF16;
    return d->caps.subnormals &&
           (x->kernel == RX_K_EMITTED || !(rx_kernels[x->kernel].needs & halves));
}

static void make_key(const rx_device *d, const rx_gpu_dispatch *x, uint64_t key[2])
{
    for (int i = 0; i < 2; i++)
        key[i] = rx_gpu_dispatch_hash(x, 0x9e3779b97f4a7c15u * (uint64_t)(i + 1) +
                                         keeps_subnormals(d, x));
}

/* The slot of a key: its own or the empty one where it would go. The table has empty slots. */
static rx_vk_pipeline *find_slot(const rx_vk_pipelines *p, const uint64_t key[2])
{
    for (size_t i = key[0];; i++) {
        rx_vk_pipeline *s = &p->list[i & (p->cap - 1)];
        if (!s->handle || (s->key[0] == key[0] && s->key[1] == key[1]))
            return s;
    }
}

static bool grow_table(rx_vk_pipelines *p, size_t need)
{
    size_t cap = p->cap ? p->cap : 64;
    while (cap < need * 2)
        cap *= 2;
    if (cap == p->cap)
        return true;
    rx_vk_pipelines bigger = {.cap = cap, .list = rx_alloc_zero(cap * sizeof *p->list)};
    if (!bigger.list)
        return false;
    for (size_t i = 0; i < p->cap; i++)
        if (p->list[i].handle)
            *find_slot(&bigger, p->list[i].key) = p->list[i];
    rx_free(p->list);
    p->list = bigger.list;
    p->cap = cap;
    return true;
}

/* So many pipelines that no program uses are kept. */
#define MAX_UNUSED 256

/* Destroys the older half of the unused pipelines when there are too many of them. */
static void drop_unused(rx_device *d)
{
    rx_vk_pipelines *p = &d->pipelines;
    if (p->n_unused <= MAX_UNUSED)
        return;
    rx_vk_pipelines next = {.cap = p->cap, .list = rx_alloc_zero(p->cap * sizeof *p->list)};
    if (!next.list)
        return;
    uint64_t low = UINT64_MAX;
    for (size_t i = 0; i < p->cap; i++)
        if (p->list[i].handle && !p->list[i].refs && p->list[i].used < low)
            low = p->list[i].used;
    uint64_t middle = low + (p->n_gets - low) / 2;
    for (size_t i = 0; i < p->cap; i++) {
        rx_vk_pipeline *x = &p->list[i];
        if (!x->handle)
            continue;
        if (x->refs || x->used > middle) {
            *find_slot(&next, x->key) = *x;
            continue;
        }
        d->vk.DestroyPipeline(d->handle, x->handle, NULL);
        p->n--;
        p->n_unused--;
    }
    rx_free(p->list);
    p->list = next.list;
}

/* ---- Making pipelines ----------------------------------------------------------------------- */

typedef struct job {
    const rx_gpu_dispatch *dispatch;
    uint64_t key[2];
    VkPipeline handle;
    VkResult result;
} job;

static VkResult create_module(rx_device *d, const rx_gpu_dispatch *x, VkShaderModule *out)
{
    size_t n_words = x->code_words;
    const uint32_t *code = x->code;
    uint32_t *changed = NULL;
    if (x->kernel != RX_K_EMITTED)
        code = rx_kernel_code(x->kernel, &n_words);
    if (code && keeps_subnormals(d, x))
        code = changed = rx_spv_keep_subnormals(code, n_words, &n_words);
    if (!code)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = n_words * 4, .pCode = code};
    VkResult r = d->vk.CreateShaderModule(d->handle, &info, NULL, out);
    rx_free(changed);
    return r;
}

static VkResult create_pipeline(rx_device *d, const rx_gpu_dispatch *x, VkPipeline *out)
{
    VkShaderModule module;
    VkResult r = create_module(d, x, &module);
    if (r != VK_SUCCESS)
        return r;
    VkSpecializationMapEntry entries[RX_GPU_MAX_SPEC];
    for (uint32_t i = 0; i < x->n_spec; i++)
        entries[i] = (VkSpecializationMapEntry){i, i * 4, 4};
    VkSpecializationInfo spec = {x->n_spec, entries, x->n_spec * 4, x->spec};
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = d->gpu.force_subgroup};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = module, .pName = "main",
                  .pSpecializationInfo = &spec},
        .layout = d->pipelines.layouts[x->n_bind]};
    bool subgroups = x->kernel != RX_K_EMITTED &&
                     rx_kernels[x->kernel].needs & (RX_NEEDS_SUBGROUP | RX_NEEDS_COOPMAT);
    if (subgroups && d->gpu.force_subgroup && x->spec[0] % d->gpu.force_subgroup == 0) {
        info.stage.pNext = &size;
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    r = d->vk.CreateComputePipelines(d->handle, d->pipelines.cache, 1, &info, NULL, out);
    d->vk.DestroyShaderModule(d->handle, module, NULL);
    return r;
}

/* Jobs taken in turn by several threads. */
typedef struct batch {
    rx_device *device;
    job *jobs;
    size_t n;
    atomic_size_t next;
} batch;

static void *work_batch(void *user)
{
    batch *b = user;
    for (;;) {
        size_t i = atomic_fetch_add(&b->next, 1);
        if (i >= b->n)
            return NULL;
        b->jobs[i].result = create_pipeline(b->device, b->jobs[i].dispatch, &b->jobs[i].handle);
    }
}

#define MAX_THREADS 8

static void run_batch(rx_device *d, job *jobs, size_t n)
{
    batch b = {.device = d, .jobs = jobs, .n = n};
    rx_thread threads[MAX_THREADS];
    size_t n_threads = 0;
    while (n_threads < MAX_THREADS && n_threads + 1 < n &&
           rx_thread_start(&threads[n_threads], work_batch, &b))
        n_threads++;
    work_batch(&b);
    for (size_t i = 0; i < n_threads; i++)
        rx_thread_join(&threads[i]);
}

static rlx_status fail_job(rx_device *d, const job *j, rlx_error *err)
{
    char what[96];
    size_t n_words = 1;
    if (j->dispatch->kernel != RX_K_EMITTED)
        rx_kernel_code(j->dispatch->kernel, &n_words);
    if (!n_words)
        return rx_fail(err, RLX_INTERNAL, "kernel '%s' is not in this build: './run kernels' "
                       "embeds it", rx_kernels[j->dispatch->kernel].name);
    snprintf(what, sizeof what, "making kernel '%.60s' ready",
             j->dispatch->kernel == RX_K_EMITTED ? "emitted"
                                                 : rx_kernels[j->dispatch->kernel].name);
    return rx_vk_fail(d, j->result, what, err);
}

static void log_pipeline(const rx_gpu_dispatch *x)
{
    char constants[12 * RX_GPU_MAX_SPEC] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < x->n_spec && n < sizeof constants; i++)
        n += (size_t)snprintf(constants + n, sizeof constants - n, " %u", (unsigned)x->spec[i]);
    if (x->kernel == RX_K_EMITTED)
        rx_log(RLX_LOG_DEBUG, "vulkan: new pipeline of %zu emitted words", x->code_words);
    else
        rx_log(RLX_LOG_DEBUG, "vulkan: new pipeline %s,%s", rx_kernels[x->kernel].name, constants);
}

/* Makes those of the dispatches that are not in the table yet. The table is locked. */
static rlx_status make_missing(rx_device *d, const rx_gpu_dispatch *list, size_t n, job *jobs,
                               rlx_error *err)
{
    rx_vk_pipelines *p = &d->pipelines;
    size_t n_jobs = 0;
    if (!grow_table(p, p->n + n + 1))
        return rx_fail_memory(err, "the table of pipelines", (p->n + n) * sizeof *p->list);
    for (size_t i = 0; i < n; i++) {
        job j = {.dispatch = &list[i]};
        make_key(d, &list[i], j.key);
        bool known = find_slot(p, j.key)->handle;
        for (size_t k = 0; k < n_jobs && !known; k++)
            known = jobs[k].key[0] == j.key[0] && jobs[k].key[1] == j.key[1];
        if (known)
            continue;
        jobs[n_jobs++] = j;
        log_pipeline(&list[i]);
    }
    run_batch(d, jobs, n_jobs);
    rlx_status st = RLX_OK;
    for (size_t i = 0; i < n_jobs; i++) {
        if (jobs[i].result != VK_SUCCESS) {
            st = st == RLX_OK ? fail_job(d, &jobs[i], err) : st;
            continue;
        }
        *find_slot(p, jobs[i].key) = (rx_vk_pipeline){.key = {jobs[i].key[0], jobs[i].key[1]},
                                                      .handle = jobs[i].handle, .used = p->n_gets};
        p->n++;
        p->n_made++;
        p->n_unused++;
    }
    return st;
}

/* Hands a pipeline of the table to a dispatch. */
static void hold(rx_device *d, const rx_gpu_dispatch *from, rx_vk_dispatch *to)
{
    rx_vk_pipelines *p = &d->pipelines;
    make_key(d, from, to->key);
    rx_vk_pipeline *x = find_slot(p, to->key);
    p->n_unused -= !x->refs;
    x->refs++;
    x->used = p->n_gets;
    to->pipeline = x->handle;
}

rlx_status rx_vk_pipelines_get(rx_device *d, const rx_gpu_dispatch *from, size_t n,
                               rx_vk_dispatch *to, rlx_error *err)
{
    rx_vk_pipelines *p = &d->pipelines;
    job *jobs = rx_alloc_zero((n + 1) * sizeof *jobs);
    if (!jobs)
        return rx_fail_memory(err, "new pipelines", n * sizeof *jobs);
    rx_mutex_lock(&p->lock);
    p->n_gets++;
    rlx_status st = make_missing(d, from, n, jobs, err);
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        hold(d, &from[i], &to[i]);
    drop_unused(d);
    if (rx_now_ns() - p->saved_ns > SAVE_NS)
        save_cache(d);
    rx_mutex_unlock(&p->lock);
    rx_free(jobs);
    return st;
}

void rx_vk_pipelines_release(rx_device *d, const rx_vk_dispatch *list, size_t n)
{
    rx_vk_pipelines *p = &d->pipelines;
    rx_mutex_lock(&p->lock);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].pipeline)
            continue;
        rx_vk_pipeline *x = find_slot(p, list[i].key);
        x->refs--;
        p->n_unused += !x->refs;
    }
    rx_mutex_unlock(&p->lock);
}
