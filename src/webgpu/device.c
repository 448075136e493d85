/* SPDX-License-Identifier: MIT */
/* Devices: the list of usable adapters, best first, opening one, and its errors. */
#include "webgpu/device.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"

/* ---- The list ------------------------------------------------------------------------------- */

/* Order of preference of adapters. */
static int gpu_rank(const rx_wg_gpu *g)
{
    if (g->caps.is_software)
        return 0;
    return g->type == WGPU_ADAPTER_DISCRETE ? 3 : g->type == WGPU_ADAPTER_INTEGRATED ? 2 : 1;
}

static void on_adapter(WGPUEnum status, WGPUAdapter a, WGPUStringView m, void *event, void *lib)
{
    rx_wg_event *e = event;
    e->status = status;
    e->object = a;
    rx_wg_event_end(lib, e, m);
}

/* Requests one adapter with these options; NULL with the reason. */
static WGPUAdapter request_adapter(rx_wg_library *lib, const WGPURequestAdapterOptions *o,
                                   rx_gpu_devices *l)
{
    rx_wg_event *e = rx_wg_event_take(lib);
    if (!e)
        return NULL;
    rx_wg_enter(lib);
    lib->InstanceRequestAdapter(lib->instance, o,
                                (WGPURequestAdapterCallbackInfo){
                                    .mode = WGPU_CALLBACK_PROCESS_EVENTS, .callback = on_adapter,
                                    .userdata1 = e, .userdata2 = lib});
    rx_wg_leave(lib);
    WGPUAdapter a = NULL;
    if (rx_wg_wait(lib, NULL, e, rx_now_ns() + 30000000000))
        a = e->object;
    if (!a) {
        char why[256];
        snprintf(why, sizeof why, "%s found no adapter%s%.120s", lib->name, *e->text ? ": " : "",
                 e->text);
        rx_gpu_devices_say(l, why);
    }
    rx_wg_event_give(lib, e);
    return a;
}

static bool is_known(const rx_gpu_devices *l, const rx_wg_gpu *gpu)
{
    for (size_t i = 0; i < l->n; i++) {
        const rx_wg_gpu *known = rx_gpu_devices_at(l, i);
        if (!strcmp(known->info.name, gpu->info.name) && known->backend == gpu->backend)
            return true;
    }
    return false;
}

static void try_adapter(rx_wg_library *lib, WGPUAdapter a, bool may_repeat, rx_gpu_devices *l)
{
    rx_wg_gpu gpu;
    char why[256];
    if (!a)
        return;
    rx_wg_enter(lib);
    bool ok = rx_wg_gpu_examine(lib, a, &gpu, why);
    bool keep = ok && l->n < RX_GPU_MAX_DEVICES && (may_repeat || !is_known(l, &gpu));
    if (!keep)
        lib->AdapterRelease(a);
    rx_wg_leave(lib);
    if (keep)
        rx_gpu_devices_add(l, &gpu, gpu_rank(&gpu));
    else if (!ok)
        rx_gpu_devices_say(l, why);
}

/* Libraries that cannot enumerate adapters are asked for the high-performance, the low-power and
 * the fallback one. */
static void ask_adapters(rx_wg_library *lib, WGPUEnum backend, rx_gpu_devices *l)
{
    static const WGPURequestAdapterOptions wishes[] = {
        {.featureLevel = WGPU_LEVEL_CORE, .powerPreference = WGPU_POWER_HIGH},
        {.featureLevel = WGPU_LEVEL_CORE, .powerPreference = WGPU_POWER_LOW},
        {.featureLevel = WGPU_LEVEL_CORE, .forceFallbackAdapter = true}};
    size_t n = lib->flavour->symbol ? 3 : 1; /* a page has requested one already */
    for (size_t i = 0; i < n; i++) {
        WGPURequestAdapterOptions o = wishes[i];
        o.backendType = backend;
        try_adapter(lib, request_adapter(lib, &o, l), false, l);
    }
}

static void make_list(rx_gpu_devices *l)
{
    char why[256];
    WGPUEnum backend;
    rx_wg_library *lib = rx_wg_library_get(l->reason);
    if (!lib)
        return;
    if (!rx_wg_wanted_backend(&backend, why)) {
        rx_gpu_devices_say(l, why);
        return;
    }
    if (lib->InstanceEnumerateAdapters) {
        WGPUAdapter list[RX_GPU_MAX_DEVICES];
        size_t n = lib->InstanceEnumerateAdapters(lib->instance, NULL, NULL);
        if (n <= RX_GPU_MAX_DEVICES)
            n = lib->InstanceEnumerateAdapters(lib->instance, NULL, list);
        for (size_t i = 0; i < n && n <= RX_GPU_MAX_DEVICES; i++)
            try_adapter(lib, list[i], true, l);
    }
    if (!l->n && !*l->reason)
        ask_adapters(lib, backend, l);
}

static rx_wg_gpu gpus[RX_GPU_MAX_DEVICES];
static rx_gpu_devices devices = {.backend = "webgpu", .make = make_list, .items = gpus,
                                 .item_bytes = sizeof *gpus,
                                 .info_at = offsetof(rx_wg_gpu, info), .lock = RX_MUTEX_INIT};

size_t rx_wg_list(rlx_device_info *out, size_t cap, char reason[512])
{
    return rx_gpu_devices_list(&devices, out, cap, reason);
}

/* ---- Errors --------------------------------------------------------------------------------- */

static rlx_status fail_kind(rx_device *d, WGPUEnum kind, const char *text, const char *what,
                            rlx_error *err)
{
    if (kind == WGPU_ERROR_OUT_OF_MEMORY)
        return rx_fail(err, RLX_NO_MEMORY, "%s: out of memory on %s (%.300s)", what,
                       d->gpu.info.name, text);
    return rx_fail(err, RLX_INTERNAL, "%s: %s says: %.300s", what, d->lib->name, text);
}

rlx_status rx_wg_check(rx_device *d, const char *what, rlx_error *err)
{
    if (!atomic_load(&d->watch->lost))
        return RLX_OK;
    return rx_fail(err, RLX_DEVICE_LOST, "%s: the device %s was lost; open it again", what,
                   d->gpu.info.name);
}

rlx_status rx_wg_check_errors(rx_device *d, unsigned *n_errors, const char *what, rlx_error *err)
{
    RLX_TRY(rx_wg_check(d, what, err));
    unsigned n = atomic_load(&d->watch->n_errors);
    if (n == *n_errors)
        return RLX_OK;
    char text[sizeof d->watch->text];
    *n_errors = n;
    rx_mutex_lock(&d->watch->lock);
    WGPUEnum kind = d->watch->kind;
    memcpy(text, d->watch->text, sizeof text);
    rx_mutex_unlock(&d->watch->lock);
    return fail_kind(d, kind, text, what, err);
}

/* False: the callback is late, the device that it is about is closed. */
static bool is_about(const rx_wg_watch *w, const void *number)
{
    return (uintptr_t)number == atomic_load(&w->number);
}

static void on_error(WGPUDevice const *device, WGPUEnum kind, WGPUStringView m, void *user,
                     void *number)
{
    (void)device;
    rx_wg_watch *w = user;
    if (!is_about(w, number))
        return;
    rx_mutex_lock(&w->lock);
    w->kind = kind;
    rx_wg_copy_text(m, w->text, sizeof w->text);
    rx_log(RLX_LOG_ERROR, "%s: %s", w->lib->name, w->text);
    rx_mutex_unlock(&w->lock);
    atomic_fetch_add(&w->n_errors, 1);
}

static void on_lost(WGPUDevice const *device, WGPUEnum reason, WGPUStringView m, void *user,
                    void *number)
{
    (void)device;
    rx_wg_watch *w = user;
    char text[256];
    if (!is_about(w, number))
        return;
    atomic_store(&w->lost, true);
    rx_wg_copy_text(m, text, sizeof text);
    if (reason != WGPU_LOST_DESTROYED && reason != WGPU_LOST_CANCELLED)
        rx_log(RLX_LOG_ERROR, "%s: the device was lost: %s", w->lib->name, text);
}

#ifdef __wasm__

void rx_wg_scope_begin(rx_device *d)
{
    (void)d;
}

rlx_status rx_wg_scope_end(rx_device *d, const char *what, rlx_error *err)
{
    return rx_wg_check(d, what, err);
}

#else

static void on_scope(WGPUEnum status, WGPUEnum kind, WGPUStringView m, void *event, void *lib)
{
    rx_wg_event *e = event;
    e->status = status;
    e->kind = kind;
    rx_wg_event_end(lib, e, m);
}

void rx_wg_scope_begin(rx_device *d)
{
    rx_wg_library *lib = d->lib;
    rx_mutex_lock(&d->scope_lock);
    rx_wg_enter(lib);
    lib->DevicePushErrorScope(d->handle, WGPU_FILTER_OUT_OF_MEMORY);
    lib->DevicePushErrorScope(d->handle, WGPU_FILTER_VALIDATION);
    rx_wg_leave(lib);
}

/* Pops the innermost scope; its error if it has one. */
static rlx_status pop_scope(rx_device *d, const char *what, rlx_error *err)
{
    rx_wg_library *lib = d->lib;
    rx_wg_event *e = rx_wg_event_take(lib);
    if (!e)
        return rx_fail_memory(err, what, sizeof *e);
    rx_wg_enter(lib);
    lib->DevicePopErrorScope(d->handle, (WGPUPopErrorScopeCallbackInfo){
                                            .mode = WGPU_CALLBACK_PROCESS_EVENTS,
                                            .callback = on_scope, .userdata1 = e,
                                            .userdata2 = lib});
    rx_wg_leave(lib);
    rlx_status st = RLX_OK;
    if (rx_wg_wait(lib, NULL, e, rx_now_ns() + 30000000000) &&
        e->status == WGPU_STATUS_SUCCESS && e->kind != WGPU_ERROR_NONE)
        st = fail_kind(d, e->kind, e->text, what, err);
    rx_wg_event_give(lib, e);
    return st;
}

rlx_status rx_wg_scope_end(rx_device *d, const char *what, rlx_error *err)
{
    rlx_status st = pop_scope(d, what, err);
    rlx_status memory = pop_scope(d, what, st == RLX_OK ? err : NULL);
    st = st == RLX_OK ? memory : st;
    rx_mutex_unlock(&d->scope_lock);
    rlx_status lost = rx_wg_check(d, what, err);
    return lost != RLX_OK ? lost : st;
}

#endif

static void on_work(WGPUEnum status, WGPUStringView m, void *event, void *lib)
{
    rx_wg_event *e = event;
    e->status = status;
    rx_wg_event_end(lib, e, m);
}

rlx_status rx_wg_wait_queue(rx_device *d, rlx_error *err)
{
    rx_wg_library *lib = d->lib;
    RLX_TRY(rx_wg_check(d, "waiting", err));
    rx_wg_event *e = rx_wg_event_take(lib);
    if (!e)
        return rx_fail_memory(err, "waiting", sizeof *e);
    rx_wg_enter(lib);
    lib->QueueOnSubmittedWorkDone(d->queue, (WGPUQueueWorkDoneCallbackInfo){
                                                .mode = WGPU_CALLBACK_PROCESS_EVENTS,
                                                .callback = on_work, .userdata1 = e,
                                                .userdata2 = lib});
    rx_wg_leave(lib);
    bool ended = rx_wg_wait(lib, &(rx_wg_work){d->handle, 0, &d->watch->lost}, e, -1);
    rx_wg_event_give(lib, e);
    RLX_TRY(rx_wg_check(d, "waiting", err));
    return ended ? RLX_OK : rx_fail(err, RLX_TIMEOUT, "the browser cannot wait for the device: "
                                    "use the asynchronous calls");
}

/* ---- Opening -------------------------------------------------------------------------------- */

static void on_device(WGPUEnum status, WGPUDevice handle, WGPUStringView m, void *event, void *lib)
{
    rx_wg_event *e = event;
    e->status = status;
    e->object = handle;
    rx_wg_event_end(lib, e, m);
}

static rlx_status request_device(rx_device *d, rlx_error *err)
{
    rx_wg_library *lib = d->lib;
    void *number = (void *)atomic_load(&d->watch->number);
    WGPUEnum features[3];
    size_t n = 0;
    if (d->gpu.f16)
        features[n++] = lib->flavour->f16;
    if (d->gpu.subgroups)
        features[n++] = lib->flavour->subgroups;
    if (d->gpu.timestamps)
        features[n++] = lib->flavour->timestamps;
    /* Kernels stay in their bindings and set shared memory before they use it: Dawn need not make
     * sure of that. */
    static const char *const enabled[] = {"disable_robustness", "disable_workgroup_init"};
    WGPUDawnTogglesDescriptor toggles = {.chain = {.sType = WGPU_STYPE_DAWN_TOGGLES},
                                         .enabledToggleCount = 2, .enabledToggles = enabled};
    WGPUDeviceDescriptor info = {
        .nextInChain = lib->flavour->toggles ? &toggles.chain : NULL,
        .label = {"rlx", 3}, .requiredFeatureCount = n, .requiredFeatures = features,
        .requiredLimits = &d->gpu.limits.limits,
        .deviceLostCallbackInfo = {.mode = WGPU_CALLBACK_SPONTANEOUS, .callback = on_lost,
                                   .userdata1 = d->watch, .userdata2 = number},
        .uncapturedErrorCallbackInfo = {.callback = on_error, .userdata1 = d->watch,
                                        .userdata2 = number}};
    rx_wg_event *e = rx_wg_event_take(lib);
    if (!e)
        return rx_fail_memory(err, "the WebGPU device", sizeof *e);
    rx_wg_enter(lib);
    lib->AdapterRequestDevice(d->gpu.adapter, &info,
                              (WGPURequestDeviceCallbackInfo){
                                  .mode = WGPU_CALLBACK_PROCESS_EVENTS, .callback = on_device,
                                  .userdata1 = e, .userdata2 = lib});
    rx_wg_leave(lib);
    rlx_status st = RLX_OK;
    if (rx_wg_wait(lib, NULL, e, rx_now_ns() + 30000000000))
        d->handle = e->object;
    if (!d->handle)
        st = rx_fail(err, RLX_NO_DEVICE, "%s does not open %s%s%.200s", lib->name,
                     d->gpu.info.name, *e->text ? ": " : "", e->text);
    rx_wg_event_give(lib, e);
    return st;
}

static rx_wg_watch *take_watch(rx_wg_library *lib)
{
    static rx_mutex lock = RX_MUTEX_INIT;
    static rx_wg_watch *all, first;
    rx_mutex_lock(&lock);
    rx_wg_watch *w = all;
    while (w && !atomic_load(&w->closed))
        w = w->next;
    if (!w) {
        w = all ? rx_alloc_zero(sizeof *w) : &first;
        if (w && !rx_mutex_init(&w->lock)) {
            rx_free(w == &first ? NULL : w);
            w = NULL;
        }
        if (w) {
            w->next = all;
            all = w;
        }
    }
    if (w) {
        w->lib = lib;
        atomic_fetch_add(&w->number, 1);
        atomic_store(&w->closed, false);
        atomic_store(&w->lost, false);
        atomic_store(&w->n_errors, 0);
    }
    rx_mutex_unlock(&lock);
    return w;
}

/* False when the system has no more locks. */
static bool init_locks(rx_device *d)
{
    if (!rx_mutex_init(&d->scope_lock))
        return false;
    if (!rx_mutex_init(&d->read_lock))
        goto no_read;
    if (rx_mutex_init(&d->base.shared_lock))
        return true;
    rx_mutex_finish(&d->read_lock);
no_read:
    rx_mutex_finish(&d->scope_lock);
    return false;
}

static void finish_locks(rx_device *d)
{
    rx_mutex_finish(&d->base.shared_lock);
    rx_mutex_finish(&d->read_lock);
    rx_mutex_finish(&d->scope_lock);
}

static rlx_status init_parts(rx_device *d, rlx_error *err)
{
    if (!init_locks(d))
        return rx_fail_memory(err, "a lock of the WebGPU device", sizeof(rx_mutex));
    rlx_status st = rx_wg_pipelines_init(d, err);
    if (st != RLX_OK)
        goto no_pipelines;
    st = rx_wg_block_create(d, RX_WG_KERNEL, RX_GPU_ALIGN * RX_GPU_MAX_BIND, "absent operands",
                            &d->nothing, err);
    if (st == RLX_OK)
        return RLX_OK;
    rx_wg_pipelines_finish(d);
no_pipelines:
    finish_locks(d);
    return st;
}

static void release_handles(rx_device *d)
{
    rx_wg_library *lib = d->lib;
    rx_wg_enter(lib);
    if (d->queue)
        lib->QueueRelease(d->queue);
    if (d->handle) {
        lib->DeviceDestroy(d->handle);
        lib->DeviceRelease(d->handle);
    }
    rx_wg_leave(lib);
    if (d->watch)
        atomic_store(&d->watch->closed, true);
}

rlx_status rx_wg_open(size_t index, const rlx_device_desc *desc, rx_device **out, rlx_error *err)
{
    (void)desc;
    *out = NULL;
    const rx_gpu_devices *l = rx_gpu_devices_get(&devices);
    char reason[512];
    rx_wg_library *lib = rx_wg_library_get(reason);
    if (!lib || index >= l->n)
        return rx_fail(err, RLX_NO_DEVICE, "there is no WebGPU device number %zu: there are %zu",
                       index, l->n);
    rx_device *d = rx_alloc_zero(sizeof *d);
    if (!d)
        return rx_fail_memory(err, "the WebGPU device", sizeof *d);
    d->lib = lib;
    d->gpu = gpus[index];
    d->base.caps = d->gpu.caps;
    rx_wg_memory_init(d);
    d->no_fetch = rx_env_flag(RX_ENV_BENCH_DISPATCH_ONLY);
    d->force_upload = rx_env_flag(RX_ENV_FORCE_INPUT_UPLOAD);
    rx_gpu_target_init(&d->base, "webgpu", rx_gpu_support);
    d->watch = take_watch(lib);
    rlx_status st = d->watch ? request_device(d, err)
                             : rx_fail_memory(err, "the WebGPU device", sizeof *d->watch);
    if (st == RLX_OK) {
        rx_wg_enter(lib);
        d->queue = lib->DeviceGetQueue(d->handle);
        rx_wg_leave(lib);
        st = init_parts(d, err);
    }
    if (st != RLX_OK) {
        release_handles(d);
        rx_free(d);
        return st;
    }
#ifndef __wasm__ /* a page cannot wait for it, and trusts the browser */
    rx_wg_selfcheck(d);
#endif
    *out = d;
    return RLX_OK;
}

void rx_wg_describe(rx_device *d, char *out, size_t cap)
{
    rx_wg_detail(&d->gpu, &d->base.caps, d->base.note, out, cap);
}

void rx_wg_close(rx_device *d)
{
    rx_wg_wait_queue(d, NULL);
    rx_wg_block_destroy(d, &d->nothing);
    rx_wg_block_destroy(d, &d->readback);
    rx_wg_pipelines_finish(d);
    finish_locks(d);
    release_handles(d);
    rx_free(d);
}
