/* SPDX-License-Identifier: MIT */
/* Attention and rotary embedding: builders and shape rules. Both are primitive: a decomposition of
 * attention would materialise the [queries, keys] scores. */
#include <math.h>

#include "ops/attention.h"

/* Operands of attention, in order. */
enum { Q, K, V, MASK, LENGTHS, SINKS, PAGES };
/* Operands of rope, in order. */
enum { X, COS, SIN, POSITIONS };

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_attention_ex(rlx_graph *g, rlx_value q, rlx_value k, rlx_value v, rlx_value mask,
                           const rlx_value extra[3], const rlx_attention_desc *d)
{
    if (!extra)
        return rlx_attention(g, q, k, v, mask, d);
    const rlx_value in[] = {q, k, v, mask, extra[0], extra[1], extra[2]};
    return rx_graph_add(g, RX_OP_attention, in, 7, d, NULL);
}

rlx_value rlx_attention(rlx_graph *g, rlx_value q, rlx_value k, rlx_value v, rlx_value mask,
                        const rlx_attention_desc *d)
{
    const rlx_value in[] = {q, k, v, mask};
    return rx_graph_add(g, RX_OP_attention, in, 4, d, NULL);
}

rlx_value rlx_rope(rlx_graph *g, rlx_value x, rlx_value cos_table, rlx_value sin_table,
                   rlx_value positions, const rlx_rope_desc *d)
{
    const rlx_value in[] = {x, cos_table, sin_table, positions};
    return rx_graph_add(g, RX_OP_rope, in, 4, d, NULL);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* The dimensions of one attention. */
typedef struct extents {
    int head, seq; /* axis numbers in q, k, v and the result */
    rlx_dim batch, heads, kv_heads, n_queries, n_keys, key_size, value_size;
} extents;

rlx_status rx_check_scores(rx_infer *c, double scale, double soft_cap, int64_t window)
{
    if (!isfinite(scale))
        return rx_infer_fail(c, "scale must be finite, got %g", scale);
    if (!isfinite(soft_cap) || soft_cap < 0)
        return rx_infer_fail(c, "soft_cap must be finite and not below 0, got %g", soft_cap);
    if (window < 0)
        return rx_infer_fail(c, "window must not be below 0, got %lld", (long long)window);
    return RLX_OK;
}

static rlx_status check_attention_attr(rx_infer *c, rlx_attention_desc *d)
{
    RLX_TRY(rx_check_scores(c, d->scale, d->soft_cap, d->window));
    if (d->page < 0)
        return rx_infer_fail(c, "page must not be below 0, got %lld", (long long)d->page);
    if (d->page > 0 && d->layout != RLX_BSHD)
        return rx_infer_fail(c, "paged keys and values need layout=bshd, got bhsd");
    if ((d->page > 0) != (rx_in(c, PAGES) != NULL))
        return rx_infer_fail(c, "the operand pages and the attribute page go together, got %s",
                             d->page > 0 ? "page without pages" : "pages without page");
    if (d->window > 0)
        d->causal = true;
    return RLX_OK;
}

/* q in a float type; k and v in the same one, or in a half type beside f32: the K/V cache may have
 * lower precision than the computation. */
static rlx_status check_qkv_types(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, Q, "q", RX_FLOATS));
    const rlx_dtype t = rx_in(c, Q)->dtype;
    RLX_TRY(rx_check_type(c, K, "k", t == RLX_F32 ? RX_FLOATS : RX_T(t)));
    RLX_TRY(rx_check_type(c, V, "v", RX_T(rx_in(c, K)->dtype)));
    RLX_TRY(rx_check_rank(c, Q, "q", 4, 4));
    RLX_TRY(rx_check_rank(c, K, "k", 4, 4));
    return rx_check_rank(c, V, "v", 4, 4);
}

/* k [B, Hkv, Sk, D] in the layout of q; paged: k [P, page, Hkv, D] and pages [B, n]. */
static rlx_status check_keys(rx_infer *c, const rlx_attention_desc *d, extents *e)
{
    const rlx_dim *k = rx_in(c, K)->shape.dim;
    if (d->page == 0) {
        e->n_keys = k[e->seq];
        return rx_check_dim(c, K, "k", 0, e->batch);
    }
    RLX_TRY(rx_check_type(c, PAGES, "pages", RX_T(RLX_I32)));
    RLX_TRY(rx_check_rank(c, PAGES, "pages", 2, 2));
    RLX_TRY(rx_check_dim(c, PAGES, "pages", 0, e->batch));
    RLX_TRY(rx_check_dim(c, K, "k", 1, d->page));
    e->n_keys = rlx_dim_mul(c->g, rx_in(c, PAGES)->shape.dim[1], d->page);
    return RLX_OK;
}

/* The heads of q are a multiple of those of k. */
static rlx_status check_heads(rx_infer *c, const extents *e)
{
    char q_text[64], k_text[64];
    if (e->heads == e->kv_heads)
        return RLX_OK;
    if (rx_dim_is_number(e->heads) && rx_dim_is_number(e->kv_heads) && e->kv_heads > 0 &&
        e->heads % e->kv_heads == 0)
        return RLX_OK;
    return rx_infer_fail(c, "the heads of q must be a multiple of those of k, got %s and %s",
                         rx_dim_text(c->g, e->heads, q_text, sizeof q_text),
                         rx_dim_text(c->g, e->kv_heads, k_text, sizeof k_text));
}

static rlx_status check_qkv(rx_infer *c, const rlx_attention_desc *d, extents *e)
{
    char text[64];

    RLX_TRY(check_qkv_types(c));
    const rlx_dim *q = rx_in(c, Q)->shape.dim, *k = rx_in(c, K)->shape.dim;
    e->head = d->layout == RLX_BHSD ? 1 : 2;
    e->seq = 3 - e->head;
    e->batch = q[0];
    e->heads = q[e->head];
    e->kv_heads = k[e->head];
    e->n_queries = q[e->seq];
    e->key_size = q[3];
    e->value_size = rx_in(c, V)->shape.dim[3];
    if (!rx_dim_is_number(e->key_size))
        return rx_infer_fail(c, "the last axis of q must be a number, got %s",
                             rx_dim_text(c->g, e->key_size, text, sizeof text));
    RLX_TRY(check_keys(c, d, e));
    RLX_TRY(check_heads(c, e));
    RLX_TRY(rx_check_dim(c, K, "k", 3, e->key_size));
    for (int i = 0; i < 3; i++)
        RLX_TRY(rx_check_dim(c, V, "v", i, k[i]));
    return RLX_OK;
}

/* mask?, lengths?, sinks? */
static rlx_status check_extras(rx_infer *c, const extents *e)
{
    const rlx_shape scores = {4, {e->batch, e->heads, e->n_queries, e->n_keys}};
    const rlx_shape per_head = {1, {e->heads}};

    if (rx_in(c, MASK)) {
        const uint64_t floats = RX_T(RLX_F32) | RX_T(rx_in(c, Q)->dtype);
        RLX_TRY(rx_check_type(c, MASK, "mask", RX_T(RLX_BOOL) | floats));
        RLX_TRY(rx_check_broadcasts_to(c, MASK, "mask", &scores));
    }
    if (rx_in(c, LENGTHS)) {
        RLX_TRY(rx_check_type(c, LENGTHS, "lengths", RX_INDEX));
        RLX_TRY(rx_check_rank(c, LENGTHS, "lengths", 0, 1));
        if (rx_in(c, LENGTHS)->shape.rank == 1)
            RLX_TRY(rx_check_dim(c, LENGTHS, "lengths", 0, e->batch));
    }
    if (rx_in(c, SINKS)) {
        RLX_TRY(rx_check_type(c, SINKS, "sinks", RX_T(RLX_F32)));
        RLX_TRY(rx_check_shape(c, SINKS, "sinks", &per_head));
    }
    return RLX_OK;
}

/* q, k, v, mask?, lengths?, sinks?, pages? -> q with the head size of v. */
rlx_status rx_infer_attention(rx_infer *c)
{
    rlx_attention_desc *d = c->attr;
    extents e = {0};

    RLX_TRY(check_attention_attr(c, d));
    RLX_TRY(check_qkv(c, d, &e));
    RLX_TRY(check_extras(c, &e));
    if (d->scale == 0)
        d->scale = e.key_size > 0 ? 1 / sqrt((double)e.key_size) : 1;

    rlx_shape out = rx_in(c, Q)->shape;
    out.dim[3] = e.value_size;
    rx_out(c, 0, rx_in(c, Q)->dtype, &out);
    return RLX_OK;
}

/* ---- Rotary embedding ------------------------------------------------------------------------ */

/* The size of a head is a number; n_rot of its elements, an even number, are rotated. */
static rlx_status check_n_rot(rx_infer *c, int64_t *n_rot, rlx_dim head_size)
{
    char text[64];
    if (!rx_dim_is_number(head_size))
        return rx_infer_fail(c, "the last axis of x must be a number, got %s",
                             rx_dim_text(c->g, head_size, text, sizeof text));
    if (*n_rot == 0)
        *n_rot = head_size;
    if (*n_rot >= 0 && *n_rot <= head_size && *n_rot % 2 == 0)
        return RLX_OK;
    return rx_infer_fail(c, "n_rot must be even and from 0 to %lld, the size of a head, got %lld",
                         (long long)head_size, (long long)*n_rot);
}

/* cos, sin: [P, n_rot/2], f32 or of the type of x. */
static rlx_status check_tables(rx_infer *c, int64_t n_rot)
{
    const uint64_t types = RX_T(RLX_F32) | RX_T(rx_in(c, X)->dtype);
    RLX_TRY(rx_check_type(c, COS, "cos", types));
    RLX_TRY(rx_check_rank(c, COS, "cos", 2, 2));
    RLX_TRY(rx_check_dim(c, COS, "cos", 1, n_rot / 2));
    RLX_TRY(rx_check_type(c, SIN, "sin", RX_T(rx_in(c, COS)->dtype)));
    return rx_check_shape(c, SIN, "sin", &rx_in(c, COS)->shape);
}

/* positions: [S] or [B, S]. Without, the tables have a row for each of 0..S-1. */
static rlx_status check_positions(rx_infer *c, rlx_dim batch, rlx_dim n_seq)
{
    if (!rx_in(c, POSITIONS)) {
        const rlx_dim rows = rx_in(c, COS)->shape.dim[0];
        const int64_t have = rx_dim_bound(c->g, rows), need = rx_dim_bound(c->g, n_seq);
        if (have >= need)
            return RLX_OK;
        return rx_infer_fail(c, "cos and sin need a row for each of %lld positions, got %lld",
                             (long long)need, (long long)have);
    }
    RLX_TRY(rx_check_type(c, POSITIONS, "positions", RX_INDEX));
    RLX_TRY(rx_check_rank(c, POSITIONS, "positions", 1, 2));
    const int rank = rx_in(c, POSITIONS)->shape.rank;
    if (rank == 2)
        RLX_TRY(rx_check_dim(c, POSITIONS, "positions", 0, batch));
    return rx_check_dim(c, POSITIONS, "positions", rank - 1, n_seq);
}

/* x [B,H,S,D] or [B,S,H,D], cos, sin, positions? */
rlx_status rx_infer_rope(rx_infer *c)
{
    rlx_rope_desc *d = c->attr;

    RLX_TRY(rx_check_type(c, X, "x", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, X, "x", 4, 4));
    const rx_value *x = rx_in(c, X);
    RLX_TRY(check_n_rot(c, &d->n_rot, x->shape.dim[3]));
    RLX_TRY(check_tables(c, d->n_rot));
    RLX_TRY(check_positions(c, x->shape.dim[0], x->shape.dim[d->layout == RLX_BHSD ? 2 : 1]));
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}
