/* SPDX-License-Identifier: MIT */
/* The devices and backends of the library as arrays, freed with free. */
#ifndef LISTS_H
#define LISTS_H

#include "rlx/device.h"

rlx_device_info *list_devices(size_t *n);
rlx_backend_info *list_backends(size_t *n);

#endif
