/* SPDX-License-Identifier: MIT */
/* Shared by the lowerings of operations along an axis: rows, local sizes, reductions. */
#ifndef RX_GPU_ROWS_H
#define RX_GPU_ROWS_H

#include "gpu/select/product.h"
#include "gpu/select/walk.h"

/* A dense tensor as [outer, n, inner]: row o * inner + j has n elements of stride `inner`. */
typedef struct rx_rows {
    uint64_t outer, n, inner;
} rx_rows;

rx_rows rx_gpu_rows(const rx_view *v, int64_t axis);
static inline uint64_t rx_rows_count(const rx_rows *r) { return r->outer * r->inner; }

/* The smallest power of two that is at least n, and the largest that is at most n (n > 0). */
uint32_t rx_pow2_up(uint64_t n);
uint32_t rx_pow2_down(uint64_t n);
static inline uint64_t rx_ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
/* `wish` invocations, limited by the device; a power of two. */
uint32_t rx_gpu_local(const rx_gpu_caps *caps, uint32_t wish);
/* Workgroups for full occupancy. */
uint32_t rx_gpu_busy_groups(const rx_gpu_caps *caps);
/* Elements of a type per 32-bit word; 1 for types of a word and more. */
uint32_t rx_per_word(rlx_dtype t);
/* How many of `rows` rows of n elements a workgroup computes at a time, a power of two; `across`:
 * adjacent elements belong to different rows. *local is an upper bound of its invocations and is
 * set to the number needed. */
uint32_t rx_rows_of_group(uint32_t *local, uint64_t rows, uint64_t n, bool across);
/* How workgroups share rows: `cols` rows each; `across`: adjacent invocations take adjacent rows; a
 * row is split into `parts` of `chunk` elements. */
typedef struct rx_sharing {
    uint32_t local, cols;
    bool across;
    uint64_t parts, chunk;
} rx_sharing;
/* Splits rows where they are too few for full occupancy. A workgroup computes at least `least_cols`
 * rows. */
rx_sharing rx_share_rows(const rx_gpu_caps *caps, uint64_t rows, uint64_t n, bool across,
                         uint32_t least_cols);
/* Result i, or NULL when it is unused. */
const rx_view *rx_gpu_out(const rx_gpu_call *c, size_t i);

/* The destination of n 32-bit values that become result i: the result itself, or scratch when its
 * elements are smaller; rx_gpu_pack_values then converts them. */
rx_gpu_ref rx_gpu_values(rx_gpu_build *b, const rx_gpu_call *c, size_t i);
void rx_gpu_pack_values(rx_gpu_build *b, const rx_gpu_call *c, size_t i, rx_gpu_ref from);
/* offsets[i] = the sum of the words counts[0..i-1], i < n. */
void rx_gpu_add_offsets(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_ref counts,
                        rx_gpu_ref offsets, uint64_t n);

#endif
