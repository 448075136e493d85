/* SPDX-License-Identifier: MIT */
/* Pipelines: kernels with their constants, compiled when a program first needs them, on several
 * threads, and kept while a program uses them and for some time after. The driver's pipeline cache
 * is kept on disk. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "spirv/modes.h"
#include "vulkan/device.h"

#define SAVE_NS 1000000000 /* minimum interval; also when the device is closed */
/* A larger file is begun anew: it has pipelines of kernels that no version uses any more. */
#define MAX_FILE_BYTES ((size_t)256 << 20)

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
    VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                d->base.caps.chains ? 4 * RX_VK_MAX_PUSH : 4 * RX_GPU_MAX_PUSH};
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
        .pSetLayouts = &p->set_layouts[n], .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push};
    return d->vk.CreatePipelineLayout(d->handle, &layout, NULL, &p->layouts[n]);
}

static VkPipelineCache create_cache(rx_device *d, const void *data, size_t bytes)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .initialDataSize = bytes, .pInitialData = data};
    VkPipelineCache cache = VK_NULL_HANDLE;
    return d->vk.CreatePipelineCache(d->handle, &info, NULL, &cache) == VK_SUCCESS
               ? cache : VK_NULL_HANDLE;
}

/* Drivers find pipelines by the code itself, whichever version of the library it is of. */
static rx_vk_cache_file file_of(const rx_device *d)
{
    return (rx_vk_cache_file){.gpu = &d->gpu, .name = "pipelines"};
}

/* The data of the file, freed with rx_free; NULL: none that can be used. */
static void *load_file(const rx_device *d, size_t *bytes)
{
    const rx_vk_cache_file file = file_of(d);
    void *data = NULL;
    if (rx_vk_cache_load(&file, &data, bytes) && *bytes <= MAX_FILE_BYTES)
        return data;
    rx_free(data);
    *bytes = 0;
    return NULL;
}

static void open_cache(rx_device *d)
{
    rx_vk_pipelines *p = &d->pipelines;
    p->saved_ns = rx_now_ns();
    if (d->compile_only) /* cached pipelines may lack statistics */
        return;
    void *data = load_file(d, &p->saved_bytes);
    p->cache = create_cache(d, data, p->saved_bytes);
    rx_free(data);
}

/* Adds the data of another cache to that of the device. Drivers ignore data with the header of
 * another device or driver. The table is locked. */
static void merge_cache(rx_device *d, const void *data, size_t bytes)
{
    VkPipelineCache from = d->pipelines.cache ? create_cache(d, data, bytes) : VK_NULL_HANDLE;
    if (!from)
        return;
    d->vk.MergePipelineCaches(d->handle, d->pipelines.cache, 1, &from);
    d->vk.DestroyPipelineCache(d->handle, from, NULL);
}

/* The data of the cache, freed with rx_free; NULL: there is none. The table is locked. */
static void *cache_data(rx_device *d, size_t *bytes)
{
    const VkPipelineCache cache = d->pipelines.cache;
    *bytes = 0;
    if (!cache || d->vk.GetPipelineCacheData(d->handle, cache, bytes, NULL) != VK_SUCCESS ||
        !*bytes)
        return NULL;
    void *data = rx_alloc(*bytes);
    if (data && d->vk.GetPipelineCacheData(d->handle, cache, bytes, data) == VK_SUCCESS)
        return data;
    rx_free(data);
    return NULL;
}

/* Whether the driver has more than the file: pipelines that came out of it add nothing. */
static bool has_news(rx_device *d)
{
    rx_vk_pipelines *p = &d->pipelines;
    size_t bytes = 0;
    return p->n_made != p->n_saved && p->cache &&
           d->vk.GetPipelineCacheData(d->handle, p->cache, &bytes, NULL) == VK_SUCCESS &&
           bytes != p->saved_bytes;
}

/* Saves what was compiled since the last save, with what other processes have saved since. */
static void save_cache(rx_device *d)
{
    rx_vk_pipelines *p = &d->pipelines;
    const rx_vk_cache_file file = file_of(d);
    size_t bytes = 0;
    p->saved_ns = rx_now_ns();
    if (d->compile_only || !has_news(d))
        return;
    void *data = load_file(d, &bytes);
    if (data && bytes != p->saved_bytes)
        merge_cache(d, data, bytes);
    rx_free(data);
    data = cache_data(d, &bytes);
    if (data)
        rx_vk_cache_save(&file, data, bytes);
    rx_free(data);
    p->n_saved = p->n_made;
    p->saved_bytes = bytes;
}

rlx_status rx_vk_pipelines_save(rx_device *d, void **data, size_t *bytes, rlx_error *err)
{
    (void)err; /* a driver without a cache is none */
    rx_mutex_lock(&d->pipelines.table.lock);
    *data = cache_data(d, bytes);
    if (!*data)
        *bytes = 0;
    rx_mutex_unlock(&d->pipelines.table.lock);
    return RLX_OK;
}

void rx_vk_pipelines_load(rx_device *d, const void *data, size_t bytes)
{
    rx_mutex_lock(&d->pipelines.table.lock);
    merge_cache(d, data, bytes);
    rx_mutex_unlock(&d->pipelines.table.lock);
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
    if (!rx_mutex_init(&d->pipelines.table.lock))
        return rx_fail_memory(err, "a lock of the Vulkan device", sizeof(rx_mutex));
    const uint32_t most = d->base.caps.max_bindings;
    VkResult r = VK_SUCCESS;
    for (uint32_t i = 0; i <= RX_GPU_MAX_BIND && i <= most && r == VK_SUCCESS; i++)
        r = create_layout(d, i);
    if (r != VK_SUCCESS) {
        destroy_layouts(d);
        rx_mutex_finish(&d->pipelines.table.lock);
        return rx_vk_fail(d, r, "the layouts of pipelines", err);
    }
    open_cache(d);
    return RLX_OK;
}

/* NULL is fine. */
static void destroy_pipeline(rx_device *d, rx_pipeline *x)
{
    if (x && x->handle)
        d->vk.DestroyPipeline(d->handle, x->handle, NULL);
    rx_free(x);
}

void rx_vk_pipelines_finish(rx_device *d)
{
    rx_vk_pipelines *p = &d->pipelines;
    save_cache(d);
    for (size_t i = 0; i < p->table.cap; i++)
        destroy_pipeline(d, (rx_pipeline *)p->table.list[i]);
    rx_free(p->table.list);
    if (p->cache)
        d->vk.DestroyPipelineCache(d->handle, p->cache, NULL);
    destroy_layouts(d);
    rx_mutex_finish(&p->table.lock);
}

/* ---- The table ------------------------------------------------------------------------------ */

/* Whether the kernel must preserve subnormal numbers: where f32 is its only float type. Matrices of
 * f16 have rules of their own, and f16 would have to follow f32 where the modes are not
 * independent. */
static bool keeps_subnormals(const rx_device *d, const rx_gpu_dispatch *x)
{
    const uint32_t halves = RX_NEEDS_COOPMAT | RX_NEEDS_F16 | RX_NEEDS_BF16;
    return d->base.caps.subnormals &&
           (x->kernel == RX_K_EMITTED || !(rx_kernels[x->kernel].needs & halves));
}

/* ---- Making pipelines ----------------------------------------------------------------------- */

/* The pipelines of a list of dispatches. */
typedef struct batch {
    rx_device *device;
    const rx_gpu_placed *from;
    rx_vk_dispatch *to;
    rx_gpu_missing *missing;
    VkResult *results; /* by missing pipeline */
} batch;

static void make_key(void *user, size_t i, uint64_t key[2])
{
    const batch *b = user;
    const rx_gpu_dispatch *x = &b->from[i].dispatch;
    for (int k = 0; k < 2; k++)
        key[k] = rx_gpu_dispatch_hash(x, 0x9e3779b97f4a7c15u * (uint64_t)(k + 1) +
                                         keeps_subnormals(b->device, x));
}

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

/* The subgroup size to require of a kernel; 0: any. */
static uint32_t pick_subgroup(const rx_device *d, const rx_gpu_dispatch *x)
{
    const uint32_t needs = x->kernel == RX_K_EMITTED ? 0 : rx_kernels[x->kernel].needs;
    const uint32_t size = needs & RX_NEEDS_COOPMAT   ? d->base.caps.coopmat_subgroup
                          : needs & RX_NEEDS_LANES32  ? 32
                          : needs & RX_NEEDS_SUBGROUP ? d->gpu.force_subgroup : 0;
    return d->gpu.force_subgroup && size && x->spec[0] % size == 0 ? size : 0;
}

static VkResult create_pipeline(rx_device *d, const rx_gpu_dispatch *x, rx_pipeline *out)
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
        .requiredSubgroupSize = out->subgroup};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = module, .pName = "main",
                  .pSpecializationInfo = &spec},
        .layout = d->pipelines.layouts[x->n_bind]};
    if (d->vk.GetPipelineExecutableStatisticsKHR && d->compile_only)
        info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    if (out->subgroup) {
        info.stage.pNext = &size;
        info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    r = d->vk.CreateComputePipelines(d->handle, d->pipelines.cache, 1, &info, NULL, &out->handle);
    d->vk.DestroyShaderModule(d->handle, module, NULL);
    return r;
}

static void make_one(void *user, size_t i)
{
    batch *b = user;
    rx_gpu_missing *x = &b->missing[i];
    const rx_gpu_dispatch *from = &b->from[x->dispatch].dispatch;
    rx_pipeline *made = (rx_pipeline *)x->made;
    made->kernel = from->kernel;
    made->n_spec = from->n_spec;
    memcpy(made->spec, from->spec, sizeof made->spec);
    made->subgroup = pick_subgroup(b->device, from);
    b->results[i] = create_pipeline(b->device, from, made);
    x->ok = b->results[i] == VK_SUCCESS;
}

static rlx_status fail_pipeline(rx_device *d, const rx_gpu_dispatch *x, VkResult result,
                                rlx_error *err)
{
    char what[96];
    size_t n_words = 1;
    if (x->kernel != RX_K_EMITTED)
        rx_kernel_code(x->kernel, &n_words);
    if (!n_words)
        return rx_fail(err, RLX_INTERNAL, "kernel '%s' is not in this build: './run kernels' "
                       "embeds it", rx_kernels[x->kernel].name);
    snprintf(what, sizeof what, "making kernel '%.60s' ready", rx_gpu_dispatch_name(x));
    return rx_vk_fail(d, result, what, err);
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

static rlx_status make_all(void *user, rx_gpu_missing *list, size_t n, rlx_error *err)
{
    batch *b = user;
    rlx_status st = RLX_OK;
    b->missing = list;
    b->results = rx_alloc_array(n, sizeof *b->results);
    if (!b->results)
        return rx_fail_memory(err, "new pipelines", n * sizeof *b->results);
    for (size_t i = 0; i < n; i++)
        log_pipeline(&b->from[list[i].dispatch].dispatch);
    rx_gpu_pipelines_make(n, make_one, b);
    for (size_t i = 0; i < n; i++) {
        b->device->pipelines.n_made += list[i].ok;
        if (!list[i].ok && st == RLX_OK)
            st = fail_pipeline(b->device, &b->from[list[i].dispatch].dispatch, b->results[i], err);
    }
    rx_free(b->results);
    return st;
}

static void give(void *user, size_t i, rx_gpu_pipeline *x)
{
    const batch *b = user;
    b->to[i].pipeline = (rx_pipeline *)x;
}

static void destroy(void *user, rx_gpu_pipeline *x)
{
    const batch *b = user;
    destroy_pipeline(b->device, (rx_pipeline *)x);
}

rlx_status rx_vk_pipelines_get(rx_device *d, const rx_gpu_placed *from, size_t n,
                               rx_vk_dispatch *to, rlx_error *err)
{
    rx_vk_pipelines *p = &d->pipelines;
    batch b = {.device = d, .from = from, .to = to};
    const rx_gpu_pipeline_maker m = {.user = &b, .bytes = sizeof(rx_pipeline), .key = make_key,
                                     .make = make_all, .give = give, .destroy = destroy};
    rlx_status st = rx_gpu_pipelines_get(&p->table, &m, n, err);
    rx_mutex_lock(&p->table.lock);
    if (rx_now_ns() - p->saved_ns > SAVE_NS)
        save_cache(d);
    rx_mutex_unlock(&p->table.lock);
    return st;
}

void rx_vk_pipelines_release(rx_device *d, rx_vk_dispatch *list, size_t n)
{
    rx_gpu_pipelines *p = &d->pipelines.table;
    rx_mutex_lock(&p->lock);
    for (size_t i = 0; i < n; i++) {
        if (list[i].pipeline)
            rx_gpu_pipelines_drop(p, &list[i].pipeline->entry);
        list[i].pipeline = NULL;
    }
    rx_mutex_unlock(&p->lock);
}
