/* SPDX-License-Identifier: MIT */
/* One emitted kernel: an elementwise program, or a copy, over one shape. */
#ifndef RX_GPU_REGION_H
#define RX_GPU_REGION_H

#include "gpu/gpu.h"
#include "spirv/emit.h"

/* An operand of the kernel and its binding. Inputs are broadcast to the shape of the outputs
 * (stride 0); outputs are dense. data is a byte offset, as in rx_gpu_call. */
typedef struct rx_gpu_operand {
    rx_view view;
    rx_gpu_ref ref;
} rx_gpu_operand;

/* The axes of the kernel: those of size 1 are dropped, adjacent ones merged where all operands
 * allow it. rank is at least 1. Strides of the inputs only. */
typedef struct rx_gpu_axes {
    int rank;
    int64_t dim[RLX_MAX_RANK];
    int64_t stride[RX_EMIT_MAX_BIND][RLX_MAX_RANK];
} rx_gpu_axes;
void rx_gpu_collapse(const rx_gpu_operand *in, size_t n_in, const rx_view *shape, rx_gpu_axes *x);

/* Adds the dispatch. region NULL: out[0] receives the bits of in[0]. The number of operands must
 * not exceed the bindings. */
rlx_status rx_gpu_add_region(rx_gpu_build *b, const rx_gpu_call *c, const rx_region *region,
                             const rx_gpu_operand *in, size_t n_in, const rx_gpu_operand *out);

/* Copies view `from` into the dense view `to`, both of the same type and number of elements. */
rlx_status rx_gpu_add_copy(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_operand from,
                           rx_gpu_operand to);
/* The same for a dense view `from`, where it is word-aligned by a precompiled kernel, which has a
 * chained variant. */
rlx_status rx_gpu_add_dense_copy(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_operand from,
                                 rx_gpu_operand to);

#endif
