/* SPDX-License-Identifier: MIT */
/* Attention of rows of many sequences over a paged cache: builder, shape rule, and a decomposition
 * into attention with pages, one batch a row. */
#include <math.h>

#include "ops/attention.h"
#include "ops/lower.h"
#include "ops/matrix.h"

/* Operands, in order. */
enum { Q, K, V, SEQUENCE, LENGTHS, PAGES, SINKS };

rlx_value rlx_ragged_attention(rlx_graph *g, rlx_value q, rlx_value k, rlx_value v,
                               rlx_value sequence, rlx_value lengths, rlx_value pages,
                               rlx_value sinks, const rlx_ragged_attention_desc *d)
{
    const rlx_value in[] = {q, k, v, sequence, lengths, pages, sinks};
    return rx_graph_add(g, RX_OP_ragged_attention, in, 7, d, NULL);
}

/* ---- Shape rule ------------------------------------------------------------------------------ */

static rlx_status check_attr(rx_infer *c, const rlx_ragged_attention_desc *d)
{
    if (d->page < 1 || d->page > INT32_MAX)
        return rx_infer_fail(c, "page must be from 1 to %d rows, got %lld", INT32_MAX,
                             (long long)d->page);
    return rx_check_scores(c, d->scale, d->soft_cap, d->window);
}

/* q [N, H, D] in a float type. */
static rlx_status check_queries(rx_infer *c)
{
    char text[RX_TYPE_TEXT];
    RLX_TRY(rx_check_type(c, Q, "q", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, Q, "q", 3, 3));
    const rlx_dim *q = rx_in(c, Q)->shape.dim;
    if (rx_dim_is_number(q[1]) && rx_dim_is_number(q[2]) && q[1] > 0 && q[2] > 0)
        return RLX_OK;
    return rx_infer_fail(c, "the heads of q and their size must be numbers above 0, got %s",
                         rx_type_text(c->g, rx_in(c, Q)->dtype, &rx_in(c, Q)->shape, text));
}

/* k [R, Hkv, D] and v [R, Hkv, Dv], R whole pages: in the type of q, in a half type beside f32, or
 * in a packed type. */
static rlx_status check_pools(rx_infer *c, int64_t page)
{
    const rlx_dtype t = rx_in(c, Q)->dtype;
    const uint64_t packed = RX_T(RLX_Q8_0) | RX_T(RLX_Q4_0);
    char text[RX_TYPE_TEXT];
    RLX_TRY(rx_check_type(c, K, "k", packed | (t == RLX_F32 ? RX_FLOATS : RX_T(t))));
    RLX_TRY(rx_check_type(c, V, "v", RX_T(rx_in(c, K)->dtype)));
    for (size_t i = K; i <= V; i++) {
        const char *name = i == K ? "k" : "v";
        RLX_TRY(rx_check_rank(c, i, name, 3, 3));
        const rlx_shape *s = &rx_in(c, i)->shape;
        if (!rx_shape_is_fixed(s) || s->dim[0] < 1 || s->dim[0] % page)
            return rx_infer_fail(c, "%s must have whole pages of %lld rows, at least one, got %s",
                                 name, (long long)page,
                                 rx_type_text(c->g, rx_in(c, i)->dtype, s, text));
        RLX_TRY(rx_check_blocks(c, i, name));
    }
    const rlx_dim *q = rx_in(c, Q)->shape.dim, *k = rx_in(c, K)->shape.dim;
    if (k[1] < 1 || q[1] % k[1])
        return rx_infer_fail(c, "the heads of q must be a multiple of those of k, got %lld and "
                             "%lld", (long long)q[1], (long long)k[1]);
    RLX_TRY(rx_check_dim(c, K, "k", 2, q[2]));
    RLX_TRY(rx_check_dim(c, V, "v", 0, k[0]));
    return rx_check_dim(c, V, "v", 1, k[1]);
}

/* sequence [N], lengths [N], pages [S, P], sinks? [H] */
static rlx_status check_table(rx_infer *c)
{
    const rlx_dim *q = rx_in(c, Q)->shape.dim;
    const rlx_shape rows = {1, {q[0]}}, per_head = {1, {q[1]}};
    RLX_TRY(rx_check_type(c, SEQUENCE, "sequence", RX_T(RLX_I32)));
    RLX_TRY(rx_check_shape(c, SEQUENCE, "sequence", &rows));
    RLX_TRY(rx_check_type(c, LENGTHS, "lengths", RX_T(RLX_I32)));
    RLX_TRY(rx_check_shape(c, LENGTHS, "lengths", &rows));
    RLX_TRY(rx_check_type(c, PAGES, "pages", RX_T(RLX_I32)));
    RLX_TRY(rx_check_rank(c, PAGES, "pages", 2, 2));
    if (!rx_in(c, SINKS))
        return RLX_OK;
    RLX_TRY(rx_check_type(c, SINKS, "sinks", RX_T(RLX_F32)));
    return rx_check_shape(c, SINKS, "sinks", &per_head);
}

/* q, k, v, sequence, lengths, pages, sinks? -> q with the head size of v. */
rlx_status rx_infer_ragged_attention(rx_infer *c)
{
    rlx_ragged_attention_desc *d = c->attr;
    RLX_TRY(check_attr(c, d));
    RLX_TRY(check_queries(c));
    RLX_TRY(check_pools(c, d->page));
    RLX_TRY(check_table(c));
    rlx_shape out = rx_in(c, Q)->shape;
    if (d->scale == 0)
        d->scale = 1 / sqrt((double)out.dim[2]);
    out.dim[2] = rx_in(c, V)->shape.dim[2];
    rx_out(c, 0, rx_in(c, Q)->dtype, &out);
    return RLX_OK;
}

/* ---- Decomposition --------------------------------------------------------------------------- */

/* A pool [R, Hkv, D] as pages [R / page, page, Hkv, D]; packed ones decoded. */
static rlx_value split_pages(rlx_graph *g, rlx_value pool, int64_t page)
{
    if (rlx_dtype_is_packed(rlx_value_dtype(g, pool)))
        pool = rlx_dequantize(g, pool, RLX_NONE, RLX_NONE, NULL);
    const rlx_shape s = rlx_value_shape(g, pool);
    return rlx_reshape(g, pool, 4, (rlx_dim[]){s.dim[0] / page, page, s.dim[1], s.dim[2]});
}

rlx_status rx_lower_ragged_attention(rx_lower *c)
{
    rlx_graph *g = c->g;
    const rlx_ragged_attention_desc *d = c->attr;
    const rlx_dtype t = rlx_value_dtype(g, c->in[Q]);
    const rlx_value k = split_pages(g, c->in[K], d->page), v = split_pages(g, c->in[V], d->page);
    const rlx_value sinks = c->node->n_in > SINKS ? c->in[SINKS] : RLX_NONE;
    const rlx_value extra[3] = {c->in[LENGTHS], sinks,
                                rlx_gather(g, c->in[PAGES], c->in[SEQUENCE], 0)};
    const rlx_attention_desc a = {RLX_INIT(rlx_attention_desc), .layout = RLX_BSHD,
        .scale = d->scale, .soft_cap = d->soft_cap, .causal = true, .window = d->window,
        .page = d->page};
    const bool widens = rlx_value_dtype(g, k) == RLX_F32;
    const rlx_value q = widens ? rx_widen_half(g, c->in[Q]) : c->in[Q];
    const rlx_shape s = rlx_value_shape(g, q);
    const rlx_value y = rlx_attention_ex(
        g, rlx_reshape(g, q, 4, (rlx_dim[]){s.dim[0], 1, s.dim[1], s.dim[2]}), k, v, RLX_NONE,
        extra, &a);
    const rlx_dim dims[] = {s.dim[0], s.dim[1], rlx_value_shape(g, y).dim[3]};
    c->out[0] = rx_as_type(g, rlx_reshape(g, y, 3, dims), t);
    return RLX_OK;
}
