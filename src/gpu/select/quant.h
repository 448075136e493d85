/* SPDX-License-Identifier: MIT */
/* Packed types in kernels: what a lowering function must bind so that its shader can include
 * gpu/shaders/quant.glsl. */
#ifndef RX_GPU_QUANT_H
#define RX_GPU_QUANT_H

#include "gpu/select/product.h"

/* FAMILY of a kernel: it decodes the types of one family only, so that each stays small. */
typedef enum rx_quant_family {
    RX_QUANT_BLOCKS, RX_QUANT_IQ1, RX_QUANT_IQ2, RX_QUANT_IQ3,
    RX_QUANT_PLAIN, /* not packed */
    RX_N_QUANT_FAMILIES
} rx_quant_family;

rx_quant_family rx_quant_family_of(rlx_dtype t);

/* The grids that the type of operand `in` needs, to be bound as `grid`; RX_REF_NONE for types
 * without one. Call it before rx_gpu_add: it may add a dispatch of its own. */
rx_gpu_ref rx_quant_grid(rx_gpu_build *b, const rx_gpu_call *c, uint32_t in);

/* Where a packed weight begins in its memory, in bytes. */
static inline uint32_t rx_quant_byte_offset(const rx_view *v)
{
    return (uint32_t)(uintptr_t)v->data;
}

/* Whether products of few rows with weights of this type have kernels by 8-bit integers.
 * gpu/select/dot.c */
bool rx_quant_has_dots(const rx_gpu_caps *caps, rlx_dtype weight);
/* Adds the dispatches of a product of few rows by 8-bit integers and returns true, or returns false
 * when the policy, the device, the type or the shape is not for them. b of p is operand 1 as in
 * gpu/select/quant.c; ids: NULL, or operand 2. gpu/select/dot.c */
bool rx_quant_dot(rx_gpu_build *b, const rx_product *p, const rx_view *ids);
/* Whether the weight of p, all of operand 1, is kept in the layout of tile4.glsl for products of
 * few rows; its memory in that layout. */
bool rx_quant_keeps_tiles(const rx_product *p);
rx_gpu_ref rx_quant_tiles(rx_gpu_build *b, const rx_product *p);
/* The same of the weight of call->epilogue->pair, for which rx_quant_pairs_with() is true. */
rx_gpu_ref rx_quant_pair_tiles(rx_gpu_build *b, const rx_product *p);
bool rx_quant_pairs_with(const rx_product *p, const rx_gpu_epilogue *t);

/* What x of a product of few rows is made of: FOLD of dot_tail.def, where the other operand begins
 * and the norm's epsilon. gpu/select/dot.c */
typedef struct rx_quant_prologue {
    rx_gpu_ref x, other;
    uint32_t kind, at;
    float eps;
} rx_quant_prologue;
rx_quant_prologue rx_quant_prologue_of(const rx_product *p);

/* Rows of x that shared memory holds: rx_quant_dot takes more of them in several dispatches. */
int64_t rx_quant_dot_rows(const rx_product *p);

/* Products of 2 to 8 rows by cooperative matrices straight from those tiles, as rx_quant_dot and
 * its two questions below. gpu/select/few.c */
bool rx_quant_has_few(const rx_product *p);
bool rx_quant_few(rx_gpu_build *b, const rx_product *p);
bool rx_quant_few_prologue(const rx_product *p);
bool rx_quant_few_epilogue(const rx_product *p);

/* The product p in one dispatch with call->prologue, if rx_quant_dot would take it. */
bool rx_quant_dot_prologue(const rx_product *p);
/* Whether a dequant_matmul can compute its producer as a prologue. gpu/select/quant.c */
bool rx_quant_takes_prologue(const rx_gpu_call *c);
/* The product p with call->epilogue, if rx_quant_dot would take it. */
bool rx_quant_dot_epilogue(const rx_product *p);
/* Whether a dequant_matmul can compute c->epilogue too. gpu/select/quant.c */
bool rx_quant_takes_epilogue(const rx_gpu_call *c);

#endif
