/* SPDX-License-Identifier: MIT */
/* Iteration over tensors as kernels need it: dimensions and the strides of several tensors along
 * them, with as few axes as possible, and the widest unit in which elements can be moved. */
#ifndef RX_GPU_WALK_H
#define RX_GPU_WALK_H

#include "gpu/gpu.h"

#define RX_WALK_TENSORS 3

typedef struct rx_walk {
    int rank;
    int n_tensors;
    int64_t dim[RLX_MAX_RANK];
    int64_t stride[RX_WALK_TENSORS][RLX_MAX_RANK]; /* elements */
    int axis[RLX_MAX_RANK]; /* by axis: its number in the tensors; the last one of merged axes */
} rx_walk;

/* A walk over dim without tensors. */
rx_walk rx_walk_make(int rank, const int64_t *dim);
/* Adds a tensor with these strides. */
void rx_walk_add(rx_walk *w, const int64_t *stride);
/* Drops axes of size 1 and merges adjacent ones where the strides of every tensor allow it. Axes in
 * the mask `keep` (by their original number) stay. */
void rx_walk_collapse(rx_walk *w, uint32_t keep);
/* The current number of axis `axis`; -1: dropped. */
int rx_walk_find(const rx_walk *w, int axis);
/* RLX_MAX_RANK words: the dimensions, or the strides of tensor t, padded with 1 and 0. */
void rx_walk_dims(const rx_walk *w, uint32_t out[RLX_MAX_RANK]);
void rx_walk_strides(const rx_walk *w, int t, uint32_t out[RLX_MAX_RANK]);

/* dim[from] * .. * dim[to - 1] */
static inline uint64_t rx_product_of(const int64_t *dim, int from, int to)
{
    uint64_t n = 1;
    for (int i = from; i < to; i++)
        n *= (uint64_t)dim[i];
    return n;
}

/* The largest of 16, 4, 2, 1 that divides a number of bytes; to test several numbers pass their
 * bitwise or. */
uint32_t rx_unit_of(uint64_t bytes);

/* Local size of kernels without communication between invocations. */
static inline uint32_t rx_flat_local(const rx_gpu_caps *caps)
{
    return caps->max_invocations < 256 ? 128 : 256;
}

/* Workgroups for n invocations. */
void rx_flat_grid(rx_gpu_dispatch *d, const rx_gpu_caps *caps, uint64_t n);

/* The bits of x in plain type t, as the reference stores them. gpu/select/shape.c */
uint64_t rx_gpu_encode(rlx_dtype t, double x);
static inline uint32_t rx_bits_of(rlx_dtype t) { return 8u * (uint32_t)rlx_dtype_block_bytes(t); }
/* What one invocation writes: elements of up to 32 bits fill one word, an i64 is one element. */
static inline uint64_t rx_words_of(rlx_dtype t, int64_t elements)
{
    uint32_t bits = rx_bits_of(t);
    return bits >= 32 ? (uint64_t)elements : ((uint64_t)elements * bits + 31) / 32;
}

#endif
