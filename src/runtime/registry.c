/* SPDX-License-Identifier: MIT */
/* The backends of this build: one line each. */
#include "runtime/backend.h"

const rx_backend *const rx_backends[] = {
    &rx_backend_cpu,
    &rx_backend_vulkan,
    &rx_backend_webgpu,
    &rx_backend_ref,
    &rx_backend_null,
    NULL,
};

const rx_absent_backend rx_absent_backends[] = {
    {NULL, NULL},
};
