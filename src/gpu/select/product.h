/* SPDX-License-Identifier: MIT */
/* Matrix products as the GPU kernels see them: a batched product by strides with its epilogue. The
 * counterpart is gpu/shaders/product.glsl. */
#ifndef RX_GPU_PRODUCT_H
#define RX_GPU_PRODUCT_H

#include "gpu/gpu.h"

/* Batch axes of one dispatch, at most. */
#define RX_PRODUCT_AXES 3

/* out[batch, m, n] = finish(sum over k of a[m, k] * b[k, n]). Offsets and strides count
 * elements. */
typedef struct rx_product {
    const rx_gpu_call *call;
    rx_gpu_ref a_ref, b_ref;  /* operands 0 and 1, or swapped */
    rlx_dtype a_type, b_type;
    rx_gpu_ref out_ref;       /* destination, for example f32 scratch; 0: result 0 */
    const rx_view *out, *bias, *residual, *scale; /* NULL: absent */
    size_t bias_in;           /* operand numbers of bias and scale; the residual follows the bias */
    size_t scale_in;
    rx_gpu_ref columns_ref;   /* f32 factors of the columns; 0: none. Only for rx_product_tiled */
    rlx_act act;
    bool act_last;
    int64_t a_zero, b_zero, y_zero;
    int64_t m, n, k;
    int64_t a_at, b_at, out_at, bias_at, res_at;
    int64_t a_m, a_k, b_n, b_k, res_m, res_n, bias_n, scale_n;
    int n_axes;               /* of the batch; broadcast operands have stride 0 */
    int64_t dim[RLX_MAX_RANK], a[RLX_MAX_RANK], b[RLX_MAX_RANK], res[RLX_MAX_RANK];
} rx_product;

/* a . b of operands 0 and 1 with the axes of matmul, without epilogue. gpu/select/matmul.c */
rx_product rx_product_make(const rx_gpu_call *c, bool trans_b, const rx_view *residual);
/* Operand i is the bias, if present. */
void rx_product_set_bias(rx_product *p, size_t i);
/* Merges batch axes; those that share b become rows. */
void rx_product_collapse(rx_product *p);
/* Calls `select` for products of at most RX_PRODUCT_AXES batch axes that together are p. */
typedef void rx_product_fn(rx_gpu_build *b, const rx_product *p);
void rx_product_each(rx_gpu_build *b, const rx_product *p, rx_product_fn *select);
/* Indices in shaders have 32 bits. */
bool rx_product_is_indexable(const rx_gpu_call *c);
/* Lowers a product of floats or integers. */
rlx_status rx_product_lower(rx_gpu_build *b, rx_product *p);
/* A product of floats of more than a few rows, always by tiles. */
void rx_product_tiled(rx_gpu_build *b, const rx_product *p);
/* Product of the batch axes. */
int64_t rx_product_batches(const rx_product *p);
/* The arguments common to all product kernels: operands, result and epilogue, for n_groups
 * workgroups. Bindings a and b are those of p. */
rx_args_product rx_product_args(const rx_product *p, uint64_t n_groups);
/* The arguments of kernels with experts.glsl: the expert of each row, ids [rows], in bank [experts,
 * ..]; ids NULL: an ordinary batch. */
rx_push_experts rx_product_experts(const rx_view *ids, const rx_view *bank);

/* Tiles in shared memory: rows, columns and depth of a tile, rows and columns of an invocation. */
typedef struct rx_tile {
    uint32_t bm, bn, bk, tm, tn;
} rx_tile;

typedef struct rx_tile_choice {
    const rx_tile *gpu, *software; /* in order of size, the largest first */
    size_t n_gpu, n_software;
    rx_gpu_knob_id knob;           /* the knob that forces a tile */
    bool (*fits)(const rx_tile *t, const rx_gpu_caps *caps); /* into shared memory */
    bool sliced; /* k may be cut into slices */
} rx_tile_choice;

uint32_t rx_tile_threads(const rx_tile *t);
/* The number of tiles of the product. */
uint64_t rx_product_tiles(const rx_product *p, const rx_tile *t);
/* The calibrated tile, else the largest that gives full occupancy. */
rx_tile rx_product_tile(const rx_product *p, const rx_tile_choice *c);

/* Adds the dispatches of a float product on cooperative matrices and returns true, or returns false
 * when device or shape do not allow them. At most RX_PRODUCT_AXES batch axes.
 * gpu/select/coopmat.c */
bool rx_product_coopmat(rx_gpu_build *b, const rx_product *p);

#endif
