/* SPDX-License-Identifier: MIT */
/* Packed forms of weights: made when a kernel first requests them, kept with the weights of a
 * session or with a buffer, made again when a weight has changed. */
#ifndef RX_CPU_PACK_CACHE_H
#define RX_CPU_PACK_CACHE_H

#include "base/thread.h"
#include "cpu/kernel.h"

typedef struct rx_packed rx_packed;
typedef struct rx_pack_slab rx_pack_slab;

typedef struct rx_pack_cache {
    rx_mutex lock;
    rx_packed **lists; /* of each source */
    size_t n_lists;
    rx_pack_slab *slabs; /* the newest first */
    size_t bytes;        /* of all slabs */
} rx_pack_cache;

/* The weight behind an operand of a step, and its version. */
typedef struct rx_pack_source {
    rx_pack_cache *cache; /* of the program's weights, or of a buffer; NULL: it is no weight */
    size_t list;
    const uint64_t *version;
} rx_pack_source;

bool rx_pack_cache_init(rx_pack_cache *p, size_t n_sources);
void rx_pack_cache_finish(rx_pack_cache *p);

#endif
