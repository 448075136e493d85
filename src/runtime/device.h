/* SPDX-License-Identifier: MIT */
/* An open device as the runtime holds it: counted, because sessions keep it open. */
#ifndef RX_RUNTIME_DEVICE_H
#define RX_RUNTIME_DEVICE_H

#include <stdatomic.h>

#include "runtime/backend.h"

struct rlx_device {
    atomic_uint refs;
    const rx_backend *backend;
    rx_device *device; /* the backend's */
    rlx_device_info info;
};

rlx_device *rx_device_ref(rlx_device *d);
/* rlx_device_close is its public name. */
void rx_device_unref(rlx_device *d);

#endif
