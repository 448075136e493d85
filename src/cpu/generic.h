/* SPDX-License-Identifier: MIT */
/* Portable fast kernels: plain C that a compiler vectorises. They compute in f32 on lanes, short
 * runs of elements, and refuse what they do not handle. */
#ifndef RX_CPU_GENERIC_H
#define RX_CPU_GENERIC_H

#include "cpu/kernel.h"

/* Chunk of elements per thread of bandwidth-limited kernels. */
#define RX_GRAIN 16384

/* Types that become f32 lanes: f32, f16, bf16, and bool as 0 and 1. */
bool rx_is_lane_type(rlx_dtype t);
/* Converts n elements from `data` with `stride` (in elements) to floats, and back; back rounds to
 * nearest even, to bool is x != 0. The memory may be the same when the type is f32. */
void rx_load_lanes(rlx_dtype t, const char *data, int64_t stride, float *to, int64_t n);
void rx_store_lanes(rlx_dtype t, char *data, int64_t stride, const float *from, int64_t n);

/* Views of the same shape with axes of size 1 dropped and adjacent axes merged where all strides
 * allow it. At least one axis remains. */
void rx_merge_axes(rx_view *views, size_t n);

/* n indices of a dense i32 or i64 tensor, from element `first` on, `step` apart, into an axis of
 * `size`: negative ones counted from the end, those out of range clamped with a flag (0 when size
 * is 0). generic_gather.c */
typedef struct rx_places {
    int64_t first, step, n, size;
} rx_places;
void rx_load_places(const rx_call *c, const rx_view *index, const rx_places *p, int64_t *to);

/* y = act(x) on lanes, in place. generic_region.c */
void rx_act_lanes(rlx_act act, float *x, int64_t n);

/* One instruction on n lanes; the result may overwrite an argument. */
typedef void rx_lane_fn(const rx_instr *in, const float *const *arg, float *y, int64_t n);
/* Functions of an instruction set that replace the portable ones. run[op] NULL: the portable
 * function. */
typedef struct rx_lane_set {
    void (*load)(rlx_dtype t, const char *data, int64_t stride, float *to, int64_t n);
    void (*store)(rlx_dtype t, char *data, int64_t stride, const float *from, int64_t n);
    /* Non-temporal stores to 64-byte aligned memory. NULL: none. */
    void (*stream)(float *to, const float *from, int64_t n);
    rx_lane_fn *run[RX_N_OPS];
} rx_lane_set;
/* A region or a single elementwise operation with these functions. generic_region.c */
rlx_status rx_run_elementwise(const rx_call *c, const rx_lane_set *set);

/* Runs a region, or a single elementwise operation as a region of one instruction. */
typedef rlx_status rx_region_fn(const rx_call *c, const rx_region *r, const void *user);
rlx_status rx_run_as_region(const rx_call *c, rx_region_fn *run, const void *user);
/* Views of the operands, broadcast, and then of the results of a region, with merged axes. NULL:
 * out of memory. */
rx_view *rx_region_views(const rx_call *c);

/* Operations that equal a short region, by a kernel of regions: silu(gate) * up; x + gate * y. */
rlx_status rx_run_swiglu(const rx_call *c, rx_kernel_fn *elementwise);
rlx_status rx_run_gated_residual(const rx_call *c, rx_kernel_fn *elementwise);

rlx_status rx_generic_elementwise(const rx_call *c); /* generic_region.c */
rlx_status rx_generic_swiglu(const rx_call *c);
rlx_status rx_generic_gated_residual(const rx_call *c);
rlx_status rx_generic_matmul(const rx_call *c);      /* generic_matmul.c */
rlx_status rx_generic_softmax(const rx_call *c);     /* generic_rows.c */
rlx_status rx_generic_norm(const rx_call *c);
rlx_status rx_generic_copy(const rx_call *c);        /* generic_copy.c */
rlx_status rx_generic_concat(const rx_call *c);      /* generic_move.c */
rlx_status rx_generic_move(const rx_call *c);
rlx_status rx_generic_sample(const rx_call *c);      /* generic_sample.c */
rlx_status rx_generic_state_write(const rx_call *c); /* generic_index.c */
rlx_status rx_generic_gather_elements(const rx_call *c); /* generic_gather.c */
rlx_status rx_generic_gather_nd(const rx_call *c);
rlx_status rx_generic_scatter_elements(const rx_call *c); /* generic_scatter.c */
rlx_status rx_generic_scatter_nd(const rx_call *c);
rlx_status rx_generic_scatter_add(const rx_call *c);

#endif
