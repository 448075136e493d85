/* SPDX-License-Identifier: MIT */
/* A WebGPU library, opened at run time (in a browser: the imports of the module), its instance, and
 * its deviations. */
#ifndef RX_WEBGPU_LOADER_H
#define RX_WEBGPU_LOADER_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/thread.h"
#include "spirv/wgsl.h"
#include "webgpu/wg.h"

/* Differences between the libraries. */
typedef struct rx_wg_flavour {
    const char *name;
    const char *symbol;        /* a function that only this one has; NULL: none */
    WGPUEnum f16, subgroups, timestamps; /* feature numbers */
    WGPUEnum dot;              /* of packed_4x8_integer_dot_product, which is one of the language;
                                * 0: texts that use it are tried by the self-check */
    rx_wgsl_subgroups directive; /* how a text enables subgroups */
    bool thread_safe;          /* calls need no lock */
    bool toggles;              /* takes WGPUDawnTogglesDescriptor */
    size_t software_unroll_bytes; /* rx_wgsl_options.unroll_bytes on software adapters: SwiftShader,
                                * which Dawn and browsers use there, takes long over long texts */
} rx_wg_flavour;

/* The completion of an asynchronous call. Callbacks may come late, even after their object is gone,
 * so events belong to the library and are recycled, never freed. */
typedef struct rx_wg_event {
    struct rx_wg_event *next;
    atomic_int state;   /* 0: pending; 1: complete; 2: abandoned */
    WGPUEnum status;    /* as the callback said */
    WGPUEnum kind;      /* error scopes: the type of error */
    void *object;       /* adapter or device */
    char text[400];
} rx_wg_event;

typedef struct rx_wg_library {
    const rx_wg_flavour *flavour;
    char name[64]; /* "wgpu-native 29.0.1" */
    WGPUInstance instance;
#define X(result, name, args) result(*name) args;
    RX_WG_FUNCTIONS(X)
    RX_WG_OPTIONAL_FUNCTIONS(X)
#undef X
    rx_mutex lock;       /* held during all calls, where the library is not thread-safe */
    rx_cond pause;       /* for short sleeps */
    rx_mutex event_lock; /* guards the list of free events */
    rx_wg_event *events;
} rx_wg_library;

/* The library, opened at the first call and kept until the process ends; NULL with a sentence in
 * `reason` when there is none. Thread-safe. */
rx_wg_library *rx_wg_library_get(char reason[512]);

/* Around calls of the library. */
static inline void rx_wg_enter(rx_wg_library *lib)
{
    if (!lib->flavour->thread_safe)
        rx_mutex_lock(&lib->lock);
}
static inline void rx_wg_leave(rx_wg_library *lib)
{
    if (!lib->flavour->thread_safe)
        rx_mutex_unlock(&lib->lock);
}

/* An event for a pending call; NULL: out of memory. */
rx_wg_event *rx_wg_event_take(rx_wg_library *lib);
/* Returns an event, now or when its callback has come. NULL is fine. */
void rx_wg_event_give(rx_wg_library *lib, rx_wg_event *e);
/* For callbacks, with the event as userdata1 and the library as userdata2. */
void rx_wg_event_end(rx_wg_library *lib, rx_wg_event *e, WGPUStringView message);

/* What an event waits for. */
typedef struct rx_wg_work {
    WGPUDevice device;
    uint64_t index;          /* of a submit; 0: all of them */
    const atomic_bool *gone; /* true: the event will never end */
} rx_wg_work;

/* The only blocking function, called outside of rx_wg_enter: runs callbacks until the event has
 * completed or the device is gone. False when rx_now_ns() passes deadline_ns (< 0: none) first, or
 * when the browser cannot wait. `work` is NULL where no device is involved. */
bool rx_wg_wait(rx_wg_library *lib, const rx_wg_work *work, const rx_wg_event *e,
                int64_t deadline_ns);

/* The text of a view, truncated to fit. */
void rx_wg_copy_text(WGPUStringView s, char *out, size_t cap);
static inline WGPUStringView rx_wg_view(const char *text, size_t n)
{
    return (WGPUStringView){text, n};
}

#endif
