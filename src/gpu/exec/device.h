/* SPDX-License-Identifier: MIT */
/* What devices of every GPU backend have in common: the list of them, the target that the compiler
 * asks, and those functions of rx_backend that need no API. */
#ifndef RX_GPU_DEVICE_H
#define RX_GPU_DEVICE_H

#include <stdatomic.h>

#include "gpu/exec/exec.h"

/* ---- The list of devices --------------------------------------------------------------------- */

#define RX_GPU_MAX_DEVICES 16

/* Usable devices, best first. Made at the first call, never changed afterwards. */
typedef struct rx_gpu_devices {
    const char *backend;  /* "vulkan": ids are vulkan:0, .. */
    void (*make)(struct rx_gpu_devices *l); /* adds devices and reasons */
    void *items;          /* RX_GPU_MAX_DEVICES of the backend's own struct */
    size_t item_bytes, info_at; /* of that struct; offset of its rlx_device_info */
    int rank[RX_GPU_MAX_DEVICES];
    size_t n;
    char reason[512];     /* why there is none, or why some are missing */
    rx_mutex lock;        /* RX_MUTEX_INIT */
    bool made;
} rx_gpu_devices;

/* The list, made at the first call. */
const rx_gpu_devices *rx_gpu_devices_get(rx_gpu_devices *l);
/* Item i of the list. */
void *rx_gpu_devices_at(const rx_gpu_devices *l, size_t i);
/* Inserts a device after those of its rank and above; left out when the list is full. */
void rx_gpu_devices_add(rx_gpu_devices *l, const void *gpu, int rank);
/* Adds a sentence about a device that cannot be used; duplicates are dropped. */
void rx_gpu_devices_say(rx_gpu_devices *l, const char *why);
/* rx_backend.list. */
size_t rx_gpu_devices_list(rx_gpu_devices *l, rlx_device_info *out, size_t cap, char reason[512]);

/* ---- Devices --------------------------------------------------------------------------------- */

/* The first member of a backend's rx_device. */
typedef struct rx_gpu_device {
    rx_target target;
    rx_gpu_caps caps;     /* after the self-check */
    char note[160];       /* what the self-check found */
    rx_gpu_memory memory;
    rx_mutex shared_lock; /* rx_gpu_memory has it */
    uint64_t memory_limit; /* RLX_LIMITS: bytes of all blocks of kernels; 0: none */
    atomic_uint_fast64_t memory_used;
} rx_gpu_device;

/* Counts a block that kernels access; RLX_NO_MEMORY where the limit does not allow it (_check: as
 * many bytes at once, which are not counted). */
rlx_status rx_gpu_device_check(rx_gpu_device *d, uint64_t bytes, const char *what, rlx_error *err);
rlx_status rx_gpu_device_take(rx_gpu_device *d, uint64_t bytes, const char *what, rlx_error *err);
void rx_gpu_device_give(rx_gpu_device *d, uint64_t bytes);

/* Fills d->target; `support` decides as rx_target.support, with d as t->user. */
void rx_gpu_target_init(rx_gpu_device *d, const char *name,
                        rlx_support (*support)(const rx_target *t, const rlx_graph *g,
                                               const rx_node *n));

/* rx_backend has what these do. */
const rx_target *rx_gpu_device_target(rx_device *d);
void rx_gpu_device_set_knobs(rx_device *d, const rx_knobs *k);
rlx_status rx_gpu_device_buffer(rx_device *d, size_t bytes, rx_buffer **out, rlx_error *err);
rlx_status rx_gpu_device_weights(rx_device *d, rx_program *p, rx_buffer *const *buffers,
                                 const rx_lender *from, rx_weights **out, rlx_error *err);
/* Those of programs: a backend's rx_exec begins with its rx_gpu_exec. */
rlx_status rx_gpu_backend_compile(rx_exec *e, const int64_t *dims, rlx_error *err);
const char *rx_gpu_backend_kernel(rx_exec *e, size_t step);
size_t rx_gpu_backend_computed_by(rx_exec *e, size_t step);
rlx_status rx_gpu_backend_print(rx_exec *e, const char *stage, char **text, rlx_error *err);

#endif
