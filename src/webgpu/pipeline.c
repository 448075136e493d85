/* SPDX-License-Identifier: MIT */
/* Pipelines: kernels with their constants, printed as WGSL and compiled when a program first needs
 * them, on several threads, and kept while a program uses them and for some time after. */
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
    /* Kernels never access memory outside of their bindings, as on Vulkan. */
    if (lib->DeviceCreateShaderModuleTrusted)
        return lib->DeviceCreateShaderModuleTrusted(d->handle, &info, 0);
    return lib->DeviceCreateShaderModule(d->handle, &info);
}

/* A missing pipeline of a list of dispatches. */
typedef struct job {
    const rx_gpu_dispatch *from;
    const rx_wg_dispatch *to;
    rx_pipeline *made;
    rx_wgsl_text text;
    rlx_status status;
} job;

typedef struct batch {
    rx_device *device;
    job *jobs;
    size_t n;
    rx_mutex lock; /* guards layouts and error */
    rlx_error error;
} batch;

/* Errors of the library go to the error scope around the batch. */
static void compile_job(batch *b, job *j)
{
    rx_device *d = b->device;
    rx_wg_library *lib = d->lib;
    const char *name = rx_gpu_dispatch_name(j->from);
    rx_wg_enter(lib);
    rx_mutex_lock(&b->lock);
    const rx_wg_layout *l = get_layout(d, j->made->used, j->text.uniform_bytes > 0);
    rx_mutex_unlock(&b->lock);
    WGPUShaderModule module = l->pipeline ? make_module(d, &j->text, name) : NULL;
    WGPUComputePipelineDescriptor info = {.label = rx_wg_view(name, strlen(name)),
                                          .layout = l->pipeline,
                                          .compute = {.module = module, .entryPoint = {"main", 4}}};
    if (module) {
        j->made->handle = lib->DeviceCreateComputePipeline(d->handle, &info);
        lib->ShaderModuleRelease(module);
    }
    j->made->layout = l->group;
    rx_wg_leave(lib);
}

static void make_job(void *user, size_t i)
{
    batch *b = user;
    job *j = &b->jobs[i];
    rlx_error err = {0};
    j->status = print_kernel(b->device, j->from, j->to, &j->text, &err);
    if (j->status != RLX_OK) {
        rx_mutex_lock(&b->lock);
        b->error = err;
        rx_mutex_unlock(&b->lock);
        return;
    }
    for (uint32_t k = 0; k < j->text.n_bindings; k++) {
        j->made->used |= (uint32_t)j->text.binding[k].used << k;
        j->made->shift_word[k] = (uint16_t)j->text.binding[k].shift_word;
    }
    j->made->uniform_words = j->text.uniform_bytes / 4;
    compile_job(b, j);
    if (b->n > 1)
        rx_wgsl_text_finish(&j->text);
}

/* The first one that could not be printed or compiled; OK: there is none. */
static rlx_status find_failure(const batch *b, rlx_error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        const job *j = &b->jobs[i];
        if (j->status != RLX_OK) {
            if (err)
                *err = b->error;
            return j->status;
        }
        if (!j->made->handle)
            return rx_fail(err, RLX_INTERNAL, "making kernel '%.60s' ready: %s gives no pipeline",
                           rx_gpu_dispatch_name(j->from), b->device->lib->name);
    }
    return RLX_OK;
}

/* Compiles all at once. Errors of the library name a kernel only where n is 1. */
static rlx_status make_batch(rx_device *d, job *jobs, size_t n, rlx_error *err)
{
    char what[96];
    unsigned n_errors = atomic_load(&d->watch->n_errors);
    batch b = {.device = d, .jobs = jobs, .n = n};
    snprintf(what, sizeof what, "making kernel '%.60s' ready", rx_gpu_dispatch_name(jobs->from));
    RLX_TRY(rx_wg_check(d, what, err));
    if (!rx_mutex_init(&b.lock))
        return rx_fail_memory(err, what, sizeof b.lock);
    rx_wg_scope_begin(d);
    rx_gpu_pipelines_make(n, make_job, &b);
    rlx_status st = rx_wg_scope_end(d, what, err);
    if (st == RLX_OK)
        st = find_failure(&b, err);
    if (st == RLX_OK && d->lib->flavour->symbol) /* scopes may be per thread */
        st = rx_wg_check_errors(d, &n_errors, what, err);
    rx_mutex_finish(&b.lock);
    if (st == RLX_INTERNAL && n == 1 && jobs->text.data)
        rx_log(RLX_LOG_DEBUG, "webgpu: the text that was refused:\n%s", jobs->text.data);
    for (size_t i = 0; i < n; i++)
        rx_wgsl_text_finish(&jobs[i].text);
    return st;
}

/* Releases what a failed batch has created. */
static void undo_batch(rx_device *d, job *jobs, size_t n)
{
    rx_wg_enter(d->lib);
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].made->handle)
            d->lib->ComputePipelineRelease(jobs[i].made->handle);
        jobs[i].made->handle = NULL;
        jobs[i].made->used = 0;
    }
    rx_wg_leave(d->lib);
}

/* All at once, and after a failure one by one, so that the error names a kernel. */
static rlx_status make_jobs(rx_device *d, job *jobs, size_t n, rlx_error *err)
{
    rlx_status st = make_batch(d, jobs, n, err);
    if (st != RLX_INTERNAL || n == 1)
        return st;
    undo_batch(d, jobs, n);
    st = RLX_OK;
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        st = make_batch(d, &jobs[i], 1, err);
    return st;
}

/* ---- The pipelines of a list of dispatches -------------------------------------------------- */

typedef struct request {
    rx_device *device;
    const rx_gpu_placed *from;
    rx_wg_dispatch *to;
} request;

static void make_key(void *user, size_t i, uint64_t key[2])
{
    const request *r = user;
    const rx_gpu_dispatch *x = &r->from[i].dispatch;
    const rx_wg_dispatch *to = &r->to[i];
    for (int k = 0; k < 2; k++) {
        key[k] = rx_gpu_dispatch_hash(x, 0x9e3779b97f4a7c15u * (uint64_t)(k + 1));
        key[k] = rx_hash_keyed(key[k], to->alias, x->n_bind * sizeof *to->alias);
        key[k] = rx_hash_keyed(key[k], &to->shifted, sizeof to->shifted);
    }
}

static rlx_status make_all(void *user, rx_gpu_missing *list, size_t n, rlx_error *err)
{
    const request *r = user;
    job *jobs = rx_alloc_array_zero(n, sizeof *jobs);
    if (!jobs)
        return rx_fail_memory(err, "new pipelines", n * sizeof *jobs);
    for (size_t i = 0; i < n; i++)
        jobs[i] = (job){.from = &r->from[list[i].dispatch].dispatch,
                        .to = &r->to[list[i].dispatch], .made = (rx_pipeline *)list[i].made};
    rlx_status st = make_jobs(r->device, jobs, n, err);
    for (size_t i = 0; i < n; i++)
        list[i].ok = st == RLX_OK;
    rx_free(jobs);
    return st;
}

static void give(void *user, size_t i, rx_gpu_pipeline *x)
{
    const request *r = user;
    r->to[i].pipeline = (rx_pipeline *)x;
}

static void destroy(void *user, rx_gpu_pipeline *x)
{
    const request *r = user;
    rx_wg_enter(r->device->lib);
    destroy_pipeline(r->device, (rx_pipeline *)x);
    rx_wg_leave(r->device->lib);
}

rlx_status rx_wg_pipelines_get(rx_device *d, const rx_gpu_placed *from, size_t n,
                               rx_wg_dispatch *to, rlx_error *err)
{
    request r = {d, from, to};
    const rx_gpu_pipeline_maker m = {.user = &r, .bytes = sizeof(rx_pipeline), .key = make_key,
                                     .make = make_all, .give = give, .destroy = destroy};
    return rx_gpu_pipelines_get(&d->pipelines.table, &m, n, err);
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
