/* SPDX-License-Identifier: MIT */
/* Copies elements between little-endian files and the machine's byte order. */
#include "base/little.h"

#include <string.h>

void rx_little_copy(rlx_dtype t, const void *from, void *to, size_t bytes)
{
    const size_t width = rx_little_swaps(t) ? (size_t)rx_dtype_info(t)->block_bytes : 1;
    const size_t whole = width == 1 ? 0 : bytes - bytes % width;
    const unsigned char *src = from;
    unsigned char *dst = to;
    for (size_t at = 0; at < whole; at += width)
        for (size_t low = at, high = at + width - 1; low < high; low++, high--) {
            const unsigned char first = src[low];
            dst[low] = src[high];
            dst[high] = first;
        }
    if (to != from && bytes > whole)
        memcpy(dst + whole, src + whole, bytes - whole);
}
