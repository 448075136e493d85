/* SPDX-License-Identifier: MIT */
/* Byte order: numbers in files are little-endian, elements in memory have the machine's order.
 * Blocks of packed types are bytes, the same everywhere. */
#ifndef RX_BASE_LITTLE_H
#define RX_BASE_LITTLE_H

#include "base/dtype.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define RX_BIG_ENDIAN 1
#else
#define RX_BIG_ENDIAN 0
#endif

/* Whether elements of type t differ between files and memory. */
static inline bool rx_little_swaps(rlx_dtype t)
{
    const rx_dtype_desc *d = rx_dtype_info(t);
    return RX_BIG_ENDIAN && d->kind != RX_KIND_PACKED && d->block_bytes > 1;
}

/* Where byte i of elements in a file is in memory. */
static inline uint64_t rx_little_index(rlx_dtype t, uint64_t i)
{
    return rx_little_swaps(t) ? i ^ ((uint64_t)rx_dtype_info(t)->block_bytes - 1) : i;
}

/* Copies elements between a file's order and the machine's, either way; `to` may be `from`. Bytes
 * of a last element that is not whole are copied as they are. */
void rx_little_copy(rlx_dtype t, const void *from, void *to, size_t bytes);

#endif
