/* SPDX-License-Identifier: MIT */
/* Packed types in kernels: what a lowering function binds so that its shader can include
 * gpu/shaders/quant.glsl. */
#ifndef RX_GPU_QUANT_H
#define RX_GPU_QUANT_H

#include "gpu/select/product.h"

/* FAMILY of a kernel, which decodes the types of one family only, to keep it small. */
typedef enum rx_quant_family {
    RX_QUANT_BLOCKS, RX_QUANT_IQ1, RX_QUANT_IQ2, RX_QUANT_IQ3,
    RX_QUANT_PLAIN, /* not packed */
    RX_N_QUANT_FAMILIES
} rx_quant_family;

rx_quant_family rx_quant_family_of(rlx_dtype t);

/* The grids that the type of operand `in` needs, to be bound as `grid`; RX_REF_NONE for types
 * without one. Called before rx_gpu_add, since it may add a dispatch of its own. */
rx_gpu_ref rx_quant_grid(rx_gpu_build *b, const rx_gpu_call *c, uint32_t in);

/* Byte offset of a packed weight in its memory. */
static inline uint32_t rx_quant_byte_offset(const rx_view *v)
{
    return (uint32_t)(uintptr_t)v->data;
}

/* Whether products of few rows with weights of this type have integer dot product kernels.
 * gpu/select/dot.c */
bool rx_quant_has_dots(const rx_gpu_caps *caps, rlx_dtype weight);
/* Adds the dispatches of a product of few rows by integer dot products and returns true, or returns
 * false when policy, device, type or shape do not allow them. b of p is operand 1 as in
 * gpu/select/quant.c; ids: NULL, or operand 2. gpu/select/dot.c */
bool rx_quant_dot(rx_gpu_build *b, const rx_product *p, const rx_view *ids);
/* Whether the weight of p, all of operand 1, is packed in the layout of tile4.glsl for products of
 * few rows; the packed form. */
bool rx_quant_keeps_tiles(const rx_product *p);
rx_gpu_ref rx_quant_tiles(rx_gpu_build *b, const rx_product *p);
/* The same for the weight of call->epilogue->pair, for which rx_quant_pairs_with() is true. */
rx_gpu_ref rx_quant_pair_tiles(rx_gpu_build *b, const rx_product *p);
bool rx_quant_pairs_with(const rx_product *p, const rx_gpu_epilogue *t);

/* The prologue of a product of few rows: FOLD of dot_tail.def, the offset of its other operand and
 * the epsilon of a norm. gpu/select/dot.c */
typedef struct rx_quant_prologue {
    rx_gpu_ref x, other;
    uint32_t kind, at;
    float eps;
} rx_quant_prologue;
rx_quant_prologue rx_quant_prologue_of(const rx_product *p);

/* Rows of x that fit in shared memory: rx_quant_dot takes more rows in several dispatches. */
int64_t rx_quant_dot_rows(const rx_product *p);

/* Products of 2 to 8 rows on cooperative matrices from the same tiles, like rx_quant_dot and its
 * two queries below. gpu/select/few.c */
bool rx_quant_has_few(const rx_product *p);
bool rx_quant_few(rx_gpu_build *b, const rx_product *p);
bool rx_quant_few_prologue(const rx_product *p);
bool rx_quant_few_epilogue(const rx_product *p);

/* Whether rx_quant_dot takes p with call->prologue in one dispatch. */
bool rx_quant_dot_prologue(const rx_product *p);
/* Whether a dequant_matmul can compute its producer as a prologue. gpu/select/quant.c */
bool rx_quant_takes_prologue(const rx_gpu_call *c);
/* Whether rx_quant_dot takes p with call->epilogue. */
bool rx_quant_dot_epilogue(const rx_product *p);
/* Whether a dequant_matmul can compute c->epilogue. gpu/select/quant.c */
bool rx_quant_takes_epilogue(const rx_gpu_call *c);

#endif
