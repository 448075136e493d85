/* SPDX-License-Identifier: MIT */
/* Pipelines: kernels with their constants, printed as WGSL and compiled when a program first needs
 * them, and kept while a program uses them and for some time after. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "webgpu/device.h"

/* rx_wgsl_options.unroll_bytes on GPUs: room for the loop over k of the largest product tile, with
 * all of its accumulators in registers. */
#define UNROLL_BYTES 131072

rlx_status rx_wg_pipelines_init(rx_device *d, rlx_error *err)
{
    rx_wg_pipelines *p = &d->pipelines;
    p->layouts = rx_alloc_array_zero(RX_WG_N_LAYOUTS, sizeof *p->layouts);
    if (p->layouts && rx_mutex_init(&p->table.lock))
        return RLX_OK;
    rx_free(p->layouts);
    return rx_fail_memory(err, "the layouts of pipelines", RX_WG_N_LAYOUTS * sizeof *p->layouts);
}

/* NULL is fine. */
static void destroy_pipeline(rx_device *d, rx_pipeline *x)
{
    if (x && x->handle)
        d->lib->ComputePipelineRelease(x->handle);
    rx_free(x);
}

void rx_wg_pipelines_finish(rx_device *d)
{
    rx_wg_pipelines *p = &d->pipelines;
    rx_wg_library *lib = d->lib;
    rx_wg_enter(lib);
    for (size_t i = 0; i < p->table.cap; i++)
        destroy_pipeline(d, (rx_pipeline *)p->table.list[i]);
    for (size_t i = 0; i < RX_WG_N_LAYOUTS; i++) {
        if (p->layouts[i].pipeline)
            lib->PipelineLayoutRelease(p->layouts[i].pipeline);
        if (p->layouts[i].group)
            lib->BindGroupLayoutRelease(p->layouts[i].group);
    }
    rx_wg_leave(lib);
    rx_free(p->table.list);
    rx_free(p->layouts);
    rx_mutex_finish(&p->table.lock);
}

/* ---- The table ------------------------------------------------------------------------------ */

static void make_key(const rx_gpu_dispatch *x, const rx_wg_dispatch *to, uint64_t key[2])
{
    for (int i = 0; i < 2; i++) {
        key[i] = rx_gpu_dispatch_hash(x, 0x9e3779b97f4a7c15u * (uint64_t)(i + 1));
        key[i] = rx_hash_keyed(key[i], to->alias, x->n_bind * sizeof *to->alias);
        key[i] = rx_hash_keyed(key[i], &to->shifted, sizeof to->shifted);
    }
}

/* Destroys unused pipelines when there are too many of them. */
static void drop_unused(rx_device *d)
{
    rx_gpu_pipeline *next, *x = rx_gpu_pipelines_trim(&d->pipelines.table);
    rx_wg_enter(d->lib);
    for (; x; x = next) {
        next = x->next;
        destroy_pipeline(d, (rx_pipeline *)x);
    }
    rx_wg_leave(d->lib);
}

/* ---- Layouts -------------------------------------------------------------------------------- */

/* The layout of the bindings in `used`, with constants or without. rx_wg_enter was called. */
static const rx_wg_layout *get_layout(rx_device *d, uint32_t used, bool constants)
{
    rx_wg_library *lib = d->lib;
    rx_wg_layout *l = &d->pipelines.layouts[used | (uint32_t)constants << RX_GPU_MAX_BIND];
    WGPUBindGroupLayoutEntry entries[RX_GPU_MAX_BIND + 1];
    size_t n = 0;
    if (l->pipeline)
        return l;
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < RX_GPU_MAX_BIND; i++) {
        if (!(used >> i & 1))
            continue;
        entries[n].binding = i;
        entries[n].visibility = WGPU_STAGE_COMPUTE;
        entries[n++].buffer.type = WGPU_BINDING_STORAGE;
    }
    if (constants) {
        entries[n].binding = RX_WG_CONSTANT_BINDING;
        entries[n].visibility = WGPU_STAGE_COMPUTE;
        entries[n++].buffer.type = WGPU_BINDING_UNIFORM;
    }
    WGPUBindGroupLayoutDescriptor group = {.label = {"rlx", 3}, .entryCount = n,
                                           .entries = entries};
    l->group = lib->DeviceCreateBindGroupLayout(d->handle, &group);
    WGPUPipelineLayoutDescriptor pipeline = {.label = {"rlx", 3}, .bindGroupLayoutCount = 1,
                                             .bindGroupLayouts = &l->group};
    if (l->group)
        l->pipeline = lib->DeviceCreatePipelineLayout(d->handle, &pipeline);
    return l;
}

/* ---- Making pipelines ----------------------------------------------------------------------- */

/* The kernel as WGSL, with its constants and the bindings that stand for others. */
static rlx_status print_kernel(rx_device *d, const rx_gpu_dispatch *x, const rx_wg_dispatch *to,
                               rx_wgsl_text *text, rlx_error *err)
{
    size_t n_words = x->code_words;
    const uint32_t *code = x->code;
    if (x->kernel != RX_K_EMITTED)
        code = rx_kernel_code(x->kernel, &n_words);
    if (!code)
        return rx_fail_memory(err, "a kernel", 0);
    if (!n_words)
        return rx_fail(err, RLX_INTERNAL, "kernel '%s' is not in this build: './run kernels' "
                       "embeds it", rx_gpu_dispatch_name(x));
    rx_wgsl_options o = {.name = rx_gpu_dispatch_name(x), .spec = x->spec, .n_spec = x->n_spec,
                         .f16 = d->gpu.f16, .push_binding = RX_WG_CONSTANT_BINDING,
                         .subgroups = d->gpu.subgroups ? d->lib->flavour->directive
                                                       : RX_WGSL_SUBGROUPS_OFF,
                         .shifted = to->shifted,
                         .unroll_bytes = d->base.caps.is_software
                                             ? d->lib->flavour->software_unroll_bytes
                                             : UNROLL_BYTES};
    memcpy(o.alias, to->alias, x->n_bind * sizeof *to->alias);
    RLX_TRY(rx_wgsl_print(code, n_words, &o, text, err));
    if (text->n_bindings <= RX_GPU_MAX_BIND)
        return RLX_OK;
    rx_wgsl_text_finish(text);
    return rx_fail(err, RLX_INTERNAL, "kernel '%s' has a binding above %d",
                   rx_gpu_dispatch_name(x), RX_GPU_MAX_BIND);
}

static WGPUShaderModule make_module(rx_device *d, const rx_wgsl_text *text, const char *name)
{
    rx_wg_library *lib = d->lib;
    WGPUShaderSourceWGSL source = {.chain = {.sType = WGPU_STYPE_SHADER_WGSL},
                                   .code = {text->data, text->n}};
    WGPUShaderModuleDescriptor info = {.nextInChain = &source.chain,
                                       .label = rx_wg_view(name, strlen(name))};
    /* Kernels stay in their bindings by themselves, as those of Vulkan do. */
    if (lib->DeviceCreateShaderModuleTrusted)
        return lib->DeviceCreateShaderModuleTrusted(d->handle, &info, 0);
    return lib->DeviceCreateShaderModule(d->handle, &info);
}

static rlx_status compile_text(rx_device *d, const rx_wgsl_text *text, const char *name,
                               rx_pipeline *out, rlx_error *err)
{
    rx_wg_library *lib = d->lib;
    char what[96];
    snprintf(what, sizeof what, "making kernel '%.60s' ready", name);
    RLX_TRY(rx_wg_check(d, what, err));
    rx_wg_scope_begin(d);
    rx_wg_enter(lib);
    const rx_wg_layout *l = get_layout(d, out->used, text->uniform_bytes > 0);
    WGPUShaderModule module = l->pipeline ? make_module(d, text, name) : NULL;
    WGPUComputePipelineDescriptor info = {.label = rx_wg_view(name, strlen(name)),
                                          .layout = l->pipeline,
                                          .compute = {.module = module, .entryPoint = {"main", 4}}};
    if (module) {
        out->handle = lib->DeviceCreateComputePipeline(d->handle, &info);
        lib->ShaderModuleRelease(module);
    }
    out->layout = l->group;
    rx_wg_leave(lib);
    rlx_status st = rx_wg_scope_end(d, what, err);
    if (st == RLX_OK && !out->handle)
        st = rx_fail(err, RLX_INTERNAL, "%s: %s gives no pipeline", what, lib->name);
    return st;
}

static rlx_status make_pipeline(rx_device *d, const rx_gpu_dispatch *x, const rx_wg_dispatch *to,
                                rx_pipeline *out, rlx_error *err)
{
    rx_wgsl_text text;
    RLX_TRY(print_kernel(d, x, to, &text, err));
    for (uint32_t i = 0; i < text.n_bindings; i++) {
        out->used |= (uint32_t)text.binding[i].used << i;
        out->shift_word[i] = (uint16_t)text.binding[i].shift_word;
    }
    out->uniform_words = text.uniform_bytes / 4;
    rlx_status st = compile_text(d, &text, rx_gpu_dispatch_name(x), out, err);
    if (st == RLX_INTERNAL)
        rx_log(RLX_LOG_DEBUG, "webgpu: the text that was refused:\n%s", text.data);
    rx_wgsl_text_finish(&text);
    return st;
}

/* Hands a pipeline of the table, made if it is new, to a dispatch. The table is locked. */
static rlx_status get_pipeline(rx_device *d, const rx_gpu_dispatch *from, rx_wg_dispatch *to,
                               rlx_error *err)
{
    rx_gpu_pipelines *p = &d->pipelines.table;
    uint64_t key[2];
    if (!rx_gpu_pipelines_reserve(p, 1))
        return rx_fail_memory(err, "the table of pipelines", p->n * sizeof *p->list);
    make_key(from, to, key);
    rx_pipeline *x = (rx_pipeline *)rx_gpu_pipelines_find(p, key);
    if (!x) {
        x = rx_alloc_zero(sizeof *x);
        if (!x)
            return rx_fail_memory(err, "a pipeline", sizeof *x);
        memcpy(x->entry.key, key, sizeof key);
        rlx_status st = make_pipeline(d, from, to, x, err);
        if (st != RLX_OK) {
            destroy_pipeline(d, x);
            return st;
        }
        rx_gpu_pipelines_add(p, &x->entry);
    }
    rx_gpu_pipelines_hold(p, &x->entry);
    to->pipeline = x;
    return RLX_OK;
}

rlx_status rx_wg_pipelines_get(rx_device *d, const rx_gpu_placed *from, size_t n,
                               rx_wg_dispatch *to, rlx_error *err)
{
    rx_gpu_pipelines *p = &d->pipelines.table;
    rlx_status st = RLX_OK;
    rx_mutex_lock(&p->lock);
    p->n_gets++;
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        st = get_pipeline(d, &from[i].dispatch, &to[i], err);
    drop_unused(d);
    rx_mutex_unlock(&p->lock);
    return st;
}

void rx_wg_pipelines_release(rx_device *d, rx_wg_dispatch *list, size_t n)
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
