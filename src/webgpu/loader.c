/* SPDX-License-Identifier: MIT */
/* Opens wgpu-native or Dawn at run time, or uses the functions of the browser, and waits for
 * asynchronous calls. */
#include "webgpu/loader.h"

#ifndef __wasm__
#endif
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/mem.h"
#include "base/posix.h"

/* The first whose symbol the library has. The numbers of Dawn are those from before webgpu.h became
 * common; later ones are as in the last row. RX_WG_LANGUAGE_DOT is for web/lib/webgpu.mjs alone. */
static const rx_wg_flavour flavours[] = {
    {"wgpu-native", "wgpuGetVersion", 0xb, 0x30021, 0x9, 0, RX_WGSL_SUBGROUPS_PLAIN, true, false,
     65536},
    {"Dawn", "wgpuGetInstanceCapabilities", 0xa, 0x11, 0x3, 0, RX_WGSL_SUBGROUPS_ENABLE, false,
     true, 0},
    {"WebGPU", NULL, 0xb, 0x12, 0x9, RX_WG_LANGUAGE_DOT, RX_WGSL_SUBGROUPS_ENABLE, false, false, 0},
};

void rx_wg_copy_text(WGPUStringView s, char *out, size_t cap)
{
    size_t n = !s.data ? 0 : s.length == SIZE_MAX ? strlen(s.data) : s.length;
    n = n < cap - 1 ? n : cap - 1;
    if (n)
        memcpy(out, s.data, n);
    out[n] = 0;
}

/* ---- Opening -------------------------------------------------------------------------------- */

#ifdef __wasm__

static bool open_library(rx_wg_library *lib, char *reason)
{
    (void)reason;
#define X(result, name, args) lib->name = wgpu##name;
    RX_WG_FUNCTIONS(X)
#undef X
    lib->flavour = &flavours[2];
    snprintf(lib->name, sizeof lib->name, "the browser's WebGPU");
    return true;
}

#else

#if defined(_WIN32)
#define PREFIX ""
#define SUFFIX ".dll"
#elif defined(__APPLE__)
#define PREFIX "lib"
#define SUFFIX ".dylib"
#else
#define PREFIX "lib"
#define SUFFIX ".so"
#endif

static const char *const library_names[] = {
    PREFIX "wgpu_native" SUFFIX, PREFIX "wgpu_native-release" SUFFIX, PREFIX "webgpu_dawn" SUFFIX,
    PREFIX "webgpu_wrapper" SUFFIX};
#define N_NAMES (sizeof library_names / sizeof *library_names)

/* Opens a library in the folder of this library or program. */
static void *open_beside(const char *name)
{
    char path[1024];
    return rx_library_beside(name, path, sizeof path) ? rx_library_open(path) : NULL;
}

static void *find_library(char *reason)
{
    const char *given = rx_env_text(RX_ENV_WEBGPU_LIBRARY);
    void *handle = NULL;
    if (given) {
        handle = rx_library_open(given);
        if (!handle) {
            const char *why = rx_library_error();
            snprintf(reason, 512, "RLX_WEBGPU_LIBRARY: %.400s", why ? why : "cannot be opened");
        }
        return handle;
    }
    for (size_t i = 0; i < N_NAMES && !handle; i++) {
        handle = rx_library_open(library_names[i]);
        if (!handle)
            handle = open_beside(library_names[i]);
    }
    if (!handle)
        snprintf(reason, 512, "there is no WebGPU library: install wgpu-native (" PREFIX
                 "wgpu_native" SUFFIX ") or Dawn (" PREFIX "webgpu_dawn" SUFFIX "), or name one in "
                 "RLX_WEBGPU_LIBRARY");
    return handle;
}

static void describe_library(rx_wg_library *lib)
{
    uint32_t v = lib->GetVersion ? lib->GetVersion() : 0;
    if (v)
        snprintf(lib->name, sizeof lib->name, "%s %u.%u.%u", lib->flavour->name,
                 (unsigned)(v >> 24), (unsigned)(v >> 16 & 255), (unsigned)(v >> 8 & 255));
    else
        snprintf(lib->name, sizeof lib->name, "%s", lib->flavour->name);
}

static bool open_library(rx_wg_library *lib, char *reason)
{
    void *handle = find_library(reason);
    void *f;
    if (!handle)
        return false;
#define X(result, name, args)                                                            \
    f = rx_library_symbol(handle, "wgpu" #name);                                         \
    memcpy(&lib->name, &f, sizeof f);                                                    \
    if (!f) {                                                                            \
        snprintf(reason, 512, "the WebGPU library has no wgpu" #name ": it is too old or "  \
                 "something else");                                                      \
        rx_library_close(handle);                                                        \
        return false;                                                                    \
    }
    RX_WG_FUNCTIONS(X)
#undef X
#define X(result, name, args)                    \
    f = rx_library_symbol(handle, "wgpu" #name); \
    memcpy(&lib->name, &f, sizeof f);
    RX_WG_OPTIONAL_FUNCTIONS(X)
#undef X
    lib->flavour = flavours;
    while (lib->flavour->symbol && !rx_library_symbol(handle, lib->flavour->symbol))
        lib->flavour++;
    describe_library(lib);
    return true;
}

#endif

/* wgpu-native would try OpenGL as well, which logs errors and is unwanted unless asked for. */
static WGPUInstance create_instance(rx_wg_library *lib)
{
    const char *wanted = rx_env_text(RX_ENV_WEBGPU_BACKEND);
    rx_wg_instance_extras extras = {.chain = {.sType = WGPU_STYPE_INSTANCE_EXTRAS},
                                    .backends = WGPU_INSTANCE_VULKAN | WGPU_INSTANCE_METAL |
                                                WGPU_INSTANCE_D3D12};
    WGPUInstanceDescriptor info = {.nextInChain = &extras.chain};
    if (!lib->InstanceEnumerateAdapters || (wanted && !strncmp(wanted, "gl", 2)))
        return lib->CreateInstance(NULL);
    return lib->CreateInstance(&info);
}

/* Events are kept for ever, so the usual number of them is not allocated. */
#define N_FIRST_EVENTS 32

static void give_first_events(rx_wg_library *lib)
{
    static rx_wg_event first[N_FIRST_EVENTS];
    for (size_t i = 0; i < N_FIRST_EVENTS; i++) {
        first[i].next = lib->events;
        lib->events = &first[i];
    }
}

static bool make_instance(rx_wg_library *lib, char *reason)
{
    if (!rx_mutex_init(&lib->lock) || !rx_cond_init(&lib->pause) ||
        !rx_mutex_init(&lib->event_lock)) {
        snprintf(reason, 512, "out of memory: a lock");
        return false;
    }
    give_first_events(lib);
    lib->instance = create_instance(lib);
    if (!lib->instance)
        snprintf(reason, 512, "%s gives no instance", lib->name);
    return lib->instance != NULL;
}

rx_wg_library *rx_wg_library_get(char reason[512])
{
    static rx_wg_library library;
    static rx_mutex lock = RX_MUTEX_INIT;
    static bool tried, ok;
    static char why[512];
    rx_mutex_lock(&lock);
    if (!tried)
        ok = open_library(&library, why) && make_instance(&library, why);
    tried = true;
    snprintf(reason, 512, "%s", ok ? "" : why);
    rx_mutex_unlock(&lock);
    return ok ? &library : NULL;
}

/* ---- Events --------------------------------------------------------------------------------- */

rx_wg_event *rx_wg_event_take(rx_wg_library *lib)
{
    rx_mutex_lock(&lib->event_lock);
    rx_wg_event *e = lib->events;
    if (e)
        lib->events = e->next;
    rx_mutex_unlock(&lib->event_lock);
    if (!e)
        e = rx_alloc(sizeof *e);
    if (!e)
        return NULL;
    memset(e, 0, sizeof *e);
    atomic_init(&e->state, 0);
    return e;
}

static void recycle(rx_wg_library *lib, rx_wg_event *e)
{
    rx_mutex_lock(&lib->event_lock);
    e->next = lib->events;
    lib->events = e;
    rx_mutex_unlock(&lib->event_lock);
}

void rx_wg_event_give(rx_wg_library *lib, rx_wg_event *e)
{
    int under_way = 0;
    if (e && !atomic_compare_exchange_strong(&e->state, &under_way, 2))
        recycle(lib, e);
}

void rx_wg_event_end(rx_wg_library *lib, rx_wg_event *e, WGPUStringView message)
{
    int under_way = 0;
    rx_wg_copy_text(message, e->text, sizeof e->text);
    if (!atomic_compare_exchange_strong(&e->state, &under_way, 1))
        recycle(lib, e);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

static bool has_ended(const rx_wg_event *e, const rx_wg_work *work)
{
    return atomic_load(&e->state) || (work && atomic_load(work->gone));
}

#ifdef __wasm__

bool rx_wg_wait(rx_wg_library *lib, const rx_wg_work *work, const rx_wg_event *e,
                int64_t deadline_ns)
{
    for (;;) {
        lib->InstanceProcessEvents(lib->instance);
        if (has_ended(e, work))
            return true;
        int64_t left = deadline_ns < 0 ? 1000000000 : deadline_ns - rx_now_ns();
        if (left <= 0 || wgpuInstanceWaitAny(lib->instance, 0, NULL, (uint64_t)left) == 3)
            return false;
    }
}

#else

/* Waits up to this long only yield the processor: sleeping, and blocking in wgpu-native, costs tens
 * of microseconds. After that it blocks where it can, or sleeps for an eighth of the elapsed time,
 * which bounds the overshoot. */
#define AWAKE_NS 100000
#define LONGEST_PAUSE_NS 1000000

/* Runs callbacks that are due. wgpu-native can block until a submit is done, without a limit. */
static void run_callbacks(rx_wg_library *lib, const rx_wg_work *work, bool block)
{
    if (lib->DevicePoll && work) {
        lib->DevicePoll(work->device, block, block && work->index ? &work->index : NULL);
        return;
    }
    rx_mutex_lock(&lib->lock);
    lib->InstanceProcessEvents(lib->instance);
    rx_mutex_unlock(&lib->lock);
}

static void pause_wait(rx_wg_library *lib, int64_t begin, int64_t deadline_ns)
{
    int64_t now = rx_now_ns(), pause = (now - begin) / 8;
    if (now - begin < AWAKE_NS) {
        rx_thread_yield();
        return;
    }
    int64_t until = now + (pause < LONGEST_PAUSE_NS ? pause : LONGEST_PAUSE_NS);
    rx_mutex_lock(&lib->lock);
    rx_cond_wait_until(&lib->pause, &lib->lock,
                       deadline_ns >= 0 && deadline_ns < until ? deadline_ns : until);
    rx_mutex_unlock(&lib->lock);
}

bool rx_wg_wait(rx_wg_library *lib, const rx_wg_work *work, const rx_wg_event *e,
                int64_t deadline_ns)
{
    int64_t begin = rx_now_ns();
    while (!has_ended(e, work)) {
        run_callbacks(lib, work, deadline_ns < 0 && rx_now_ns() - begin >= AWAKE_NS);
        if (has_ended(e, work))
            return true;
        if (deadline_ns >= 0 && rx_now_ns() >= deadline_ns)
            return false;
        pause_wait(lib, begin, deadline_ns);
    }
    return true;
}

#endif
