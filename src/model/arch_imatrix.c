/* SPDX-License-Identifier: MIT */
/* What importance matrices are made of: for each product the sums of the squares of the columns of
 * x, as output <tensor>.in_sum2 [k]; of banks those of each matrix, [n, k], with the rows that it
 * got as <tensor>.counts [n]. */
#include <stdio.h>
#include <string.h>

#include "model/build.h"

#define NAME_TEXT 160

/* "blk.3.attn_q.weight.in_sum2"; false when GGUF files have no such tensor. */
static bool output_name(const rx_builder *b, const rx_layer *l, rx_role role, const char *end,
                        char text[NAME_TEXT])
{
    const int64_t layer = l ? l - b->f->layer : 0;
    if (!b->d->importance ||
        !rx_facts_tensor_name(role, RX_NAMES_GGUF, layer, text, NAME_TEXT - 16))
        return false;
    strcat(text, end);
    return true;
}

void rx_build_noted(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x)
{
    char name[NAME_TEXT];
    const rlx_shape s = rlx_value_shape(b->g, x);
    const int64_t axes[RLX_MAX_RANK] = {0, 1, 2, 3};
    if (s.rank < 2 || s.rank > 4 || !output_name(b, l, role, ".in_sum2", name))
        return;
    rlx_output(b->g, name, rlx_reduce(b->g, RLX_REDUCE_SUM_SQUARE, x, axes, s.rank - 1, false));
}

void rx_build_noted_bank(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x, rlx_value ids,
                         int64_t n)
{
    rlx_graph *g = b->g;
    char name[NAME_TEXT];
    const rlx_shape s = rlx_value_shape(g, x);
    const rlx_dim rows[] = {s.dim[0], 1}, all[] = {n, s.dim[1]}, counts[] = {n};
    if (!output_name(b, l, role, ".in_sum2", name))
        return;
    const rlx_value zero = rlx_scalar(g, RLX_F32, 0), one = rlx_scalar(g, RLX_F32, 1);
    const rlx_value at = rlx_reshape(g, ids, 2, rows);
    rlx_output(g, name, rlx_scatter_nd(g, rlx_expand(g, zero, 2, all), at, rlx_mul(g, x, x),
                                       RLX_SCATTER_ADD));
    output_name(b, l, role, ".counts", name);
    rlx_output(g, name, rlx_scatter_nd(g, rlx_expand(g, zero, 1, counts), at,
                                       rlx_expand(g, one, 1, rows), RLX_SCATTER_ADD));
}
