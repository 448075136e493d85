/* SPDX-License-Identifier: MIT */
/* LoRA adapters in graphs (rx_lora): all adapters on all rows, or one adapter per row (arch.h lists
 * the inputs). Rows without an adapter keep their result bit for bit. */
#include <stdio.h>
#include <string.h>

#include "model/adapter.h"
#include "model/build.h"

rx_lora_sizes rx_lora_sizes_of(const rx_lora *l, const char *of)
{
    rx_lora_sizes s = {0};
    for (size_t i = 0; i < l->n; i++) {
        const rx_adapter_pair *p = rx_adapter_find(l->adapters[i], of);
        if (!p)
            continue;
        s.n = p->b.shape.dim[0];
        s.k = p->a.shape.dim[1];
        s.rank = l->by_row ? (p->rank > s.rank ? p->rank : s.rank) : s.rank + p->rank;
    }
    return s;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

static rx_lora_rows row_inputs(rx_builder *b, const char *of, const char *dim, int64_t most)
{
    rlx_graph *g = b->g;
    char name[3][40];
    const rlx_dim n = rlx_dim_named(g, dim, most), column[] = {n, 1};
    snprintf(name[0], sizeof name[0], "adapted%s", of);
    snprintf(name[1], sizeof name[1], "adapter%s", of);
    snprintf(name[2], sizeof name[2], "adapter.scale%s", of);
    return (rx_lora_rows){.rows = rlx_input(g, name[0], RLX_I32, 1, &n),
                          .ids = rlx_input(g, name[1], RLX_I32, 1, &n),
                          .scale = rlx_input(g, name[2], RLX_F32, 2, column), .n = n};
}

void rx_build_lora_inputs(rx_builder *b)
{
    if (!b->d->lora || !b->d->lora->by_row)
        return;
    b->adapted[0] = row_inputs(b, "", "adapted", b->d->rows);
    b->adapted[1] = row_inputs(b, ".outputs", "adapted_outputs", b->d->outputs);
}

/* ---- Products -------------------------------------------------------------------------------- */

static rlx_value lora_param(rx_builder *b, const char *of, const char *which, int64_t rows,
                            int64_t columns)
{
    char name[200];
    const rx_lora *l = b->d->lora;
    const rlx_dim bank[] = {(int64_t)l->n, rows, columns}, one[] = {rows, columns};
    snprintf(name, sizeof name, "%.180s.lora_%s", of, which);
    return rlx_param(b->g, name, RLX_F32, l->by_row ? 3 : 2, l->by_row ? bank : one);
}

/* Gathers the rows that have an adapter, applies each one's own, and scatters them back. Padding
 * repeats a row, so it writes equal numbers twice. */
static rlx_value adapt_rows(rx_builder *b, rlx_value x, rlx_value y, rlx_value down, rlx_value up)
{
    rlx_graph *g = b->g;
    const rx_lora_rows *r = &b->adapted[b->at_outputs];
    const rlx_shape shape = rlx_value_shape(g, y), xs = rlx_value_shape(g, x);
    const rlx_dim flat_x[] = {b->rows, xs.dim[xs.rank - 1]};
    const rlx_dim flat_y[] = {b->rows, shape.dim[shape.rank - 1]}, column[] = {r->n, 1};
    x = rlx_gather(g, rlx_reshape(g, x, 2, flat_x), r->rows, 0);
    y = rlx_reshape(g, y, 2, flat_y);
    const rlx_value low = rlx_mul(g, rlx_dequant_grouped_matmul(g, x, down, r->ids), r->scale);
    const rlx_value delta = rlx_dequant_grouped_matmul(g, low, up, r->ids);
    const rlx_value now = rlx_add(g, rlx_gather(g, y, r->rows, 0), delta);
    y = rlx_scatter_nd(g, y, rlx_reshape(g, r->rows, 2, column), now, RLX_SCATTER_NONE);
    return rlx_reshape(g, y, shape.rank, shape.dim);
}

rlx_value rx_build_adapted(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x, rlx_value y)
{
    rlx_file_tensor t;
    if (b->d->train)
        return rx_build_trained(b, l, role, x, y);
    if (!b->d->lora || !rx_facts_tensor(b->f, l, role, &t))
        return y;
    const rx_lora_sizes s = rx_lora_sizes_of(b->d->lora, t.name);
    if (!s.rank)
        return y;
    const rlx_value down = lora_param(b, t.name, "a", s.rank, s.k);
    const rlx_value up = lora_param(b, t.name, "b", s.n, s.rank);
    if (b->d->lora->by_row)
        return adapt_rows(b, x, y, down, up);
    const rlx_value low = rlx_dequant_matmul(b->g, x, down);
    return rlx_dequant_matmul_ex(b->g, low, up, RLX_NONE, RLX_NONE, RLX_NONE, y, NULL);
}
