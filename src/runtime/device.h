/* SPDX-License-Identifier: MIT */
/* An open device: reference-counted, because sessions keep it open. */
#ifndef RX_RUNTIME_DEVICE_H
#define RX_RUNTIME_DEVICE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "runtime/backend.h"

struct rlx_device {
    atomic_uint refs;
    const rx_backend *backend;
    rx_device *device; /* the backend's */
    rlx_device_info info;
    rx_knobs knobs;   /* of programs bound from now on, unless a contest is under way */
    rx_mutex order;   /* of runs and host accesses that have a buffer in common */
    rx_cond ordered;  /* a run was submitted */
};

/* Resolves a device id as in rlx_device_open. */
typedef struct rx_choice {
    const rx_backend *backend;
    size_t index;
    rlx_device_info info;
} rx_choice;
rlx_status rx_device_find(const char *id, rx_choice *c, rlx_error *err);
/* The backend whose first device "auto" opens, or NULL. choose.c */
const rx_backend *rx_backend_best(void);

rlx_device *rx_device_ref(rlx_device *d);
/* rlx_device_close is its public name. */
void rx_device_unref(rlx_device *d);

#endif
