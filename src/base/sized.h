/* SPDX-License-Identifier: MIT */
/* Versioned public structs: they begin with struct_size, which the program set to the size that it
 * was compiled with. All of them enter and leave the library through these functions. */
#ifndef RX_BASE_SIZED_H
#define RX_BASE_SIZED_H

#include "rlx/base.h"

/* Copies a descriptor of the caller's version to `to`, one of `size` bytes; struct_size becomes
 * `size`. NULL and fields that an older version lacks are zero, the default. RLX_INVALID: the size
 * is no size of `type`, or a newer version's field that is not known here is not zero. */
rlx_status rx_desc_read(void *to, size_t size, const void *from, const char *type, rlx_error *err);
#define RX_DESC_READ(type, to, from, err) rx_desc_read(to, sizeof(type), from, #type, err)

/* RLX_INVALID when `to`, which is not NULL, has no size that a `type` can have. */
rlx_status rx_info_check(const void *to, size_t size, const char *type, rlx_error *err);
#define RX_INFO_CHECK(type, to, err) rx_info_check(to, sizeof(type), #type, err)
/* Fills in what fits of `from`; fields that only a newer version has become zero. */
rlx_status rx_info_write(void *to, const void *from, size_t size, const char *type, rlx_error *err);
#define RX_INFO_WRITE(type, to, from, err) rx_info_write(to, from, sizeof(type), #type, err)

#endif
