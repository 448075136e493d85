/* SPDX-License-Identifier: MIT */
/* Derivatives of attention and of the rotary embedding. Attention is built again from products and
 * a softmax: its scores [B, H, Sq, Sk] exist in memory. */
#include <math.h>

#include "ops/grad.h"
#include "ops/lower.h"

enum { Q, K, V, MASK, LENGTHS, SINKS, PAGES };

typedef struct scores {
    rlx_graph *g;
    const rlx_attention_desc *d;
    rlx_dtype type;          /* everything is computed in it */
    rlx_value q, k, v;       /* [B, H, Sq, D], [B, Hkv, Sk, D], [B, Hkv, Sk, Dv] */
    rlx_dim batch, heads, kv_heads, n_queries, n_keys;
} scores;

static rlx_value swap_heads(rlx_graph *g, rlx_value v)
{
    static const int perm[] = {0, 2, 1, 3};
    return rlx_transpose(g, v, perm);
}

/* Keys or values as [B, Hkv, Sk, D] of the working type; pages are gathered. */
static rlx_value keys(const rx_grad *c, const scores *s, rlx_value v)
{
    rlx_graph *g = s->g;
    const rlx_value pages = rx_grad_in(c, PAGES);
    v = rx_as_type(g, v, s->type);
    if (pages.id) {
        v = rlx_gather(g, v, pages, 0);
        const rlx_shape p = rlx_value_shape(g, v);
        const rlx_dim dims[] = {p.dim[0], rlx_dim_mul(g, p.dim[1], p.dim[2]), p.dim[3], p.dim[4]};
        v = rlx_reshape(g, v, 4, dims);
    }
    return s->d->layout == RLX_BSHD ? swap_heads(g, v) : v;
}

/* x [B, H, Sq, n] as [B, Hkv, H / Hkv * Sq, n], so that the heads of a group are rows of one
 * product. */
static rlx_value group_rows(const scores *s, rlx_value x)
{
    if (s->heads == s->kv_heads)
        return x;
    rlx_graph *g = s->g;
    const rlx_dim rows = rlx_dim_mul(g, s->n_queries, s->heads / s->kv_heads);
    const rlx_dim dims[] = {s->batch, s->kv_heads, rows, rlx_value_shape(g, x).dim[3]};
    return rlx_reshape(g, x, 4, dims);
}

static rlx_value ungroup_rows(const scores *s, rlx_value x)
{
    const rlx_dim dims[] = {s->batch, s->heads, s->n_queries, rlx_value_shape(s->g, x).dim[3]};
    return s->heads == s->kv_heads ? x : rlx_reshape(s->g, x, 4, dims);
}

static rlx_value both(rlx_graph *g, rlx_value a, rlx_value b)
{
    return a.id ? rlx_and(g, a, b) : b;
}

/* Which keys a query may see, bool, broadcastable to [B, H, Sq, Sk]; RLX_NONE: all. */
static rlx_value visible(const rx_grad *c, const scores *s)
{
    rlx_graph *g = s->g;
    const rlx_attention_desc *d = s->d;
    const rlx_value zero = rlx_scalar(g, RLX_I32, 0);
    const rlx_value n_keys = rx_grad_size(g, s->n_keys, RLX_I32);
    rlx_value length = n_keys, seen = RLX_NONE;
    const rlx_value key = rx_grad_iota(g, s->n_keys, 3, 4);
    if (rx_grad_in(c, LENGTHS).id) {
        length = rlx_cast(g, c->in[LENGTHS], RLX_I32);
        length = rlx_min(g, rlx_max(g, length, zero), n_keys);
        const bool batched = rlx_value_shape(g, length).rank == 1;
        length = rlx_reshape(g, length, 4, (rlx_dim[]){batched ? s->batch : 1, 1, 1, 1});
        seen = rlx_lt(g, key, length);
    }
    if (d->causal || d->window > 0) {
        const rlx_value query = rx_grad_iota(g, s->n_queries, 2, 4);
        const rlx_value n_queries = rx_grad_size(g, s->n_queries, RLX_I32);
        const rlx_value at = rlx_add(g, query, rlx_sub(g, length, n_queries));
        if (d->causal)
            seen = both(g, seen, rlx_le(g, key, at));
        if (d->window > 0) {
            const rlx_value from = rlx_sub(g, at, rlx_scalar(g, RLX_I32, (double)d->window));
            seen = both(g, seen, rlx_gt(g, key, from));
        }
    }
    const rlx_value mask = rx_grad_in(c, MASK);
    if (mask.id && rlx_value_dtype(g, mask) == RLX_BOOL)
        seen = both(g, seen, mask);
    return seen;
}

/* The softmax of x [B, H, Sq, Sk] with an extra logit a head that takes part in the sum. */
static rlx_value softmax_with_sinks(const scores *s, rlx_value x, rlx_value sinks)
{
    rlx_graph *g = s->g;
    if (!sinks.id)
        return rlx_softmax(g, x, 3);
    sinks = rlx_reshape(g, rx_as_type(g, sinks, s->type), 4, (rlx_dim[]){1, s->heads, 1, 1});
    sinks = rlx_expand(g, sinks, 4, (rlx_dim[]){s->batch, s->heads, s->n_queries, 1});
    const rlx_value p = rlx_softmax(g, rlx_concat(g, (rlx_value[]){x, sinks}, 2, 3), 3);
    return rlx_narrow(g, p, 3, 0, s->n_keys);
}

rlx_status rx_grad_attention(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_dtype t = rlx_value_dtype(g, c->in[Q]);
    scores s = {.g = g, .d = c->attr, .type = rx_working_type(t)};
    s.q = rx_as_type(g, c->in[Q], s.type);
    if (s.d->layout == RLX_BSHD)
        s.q = swap_heads(g, s.q);
    s.k = keys(c, &s, c->in[K]);
    s.v = keys(c, &s, c->in[V]);
    const rlx_shape q = rlx_value_shape(g, s.q), k = rlx_value_shape(g, s.k);
    s.batch = q.dim[0];
    s.heads = q.dim[1];
    s.n_queries = q.dim[2];
    s.kv_heads = k.dim[1];
    s.n_keys = k.dim[2];

    const rlx_matmul_desc transposed = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    rlx_value x = rlx_mul(g, s.q, rlx_scalar(g, s.type, s.d->scale));
    x = rlx_matmul_ex(g, group_rows(&s, x), s.k, RLX_NONE, RLX_NONE, &transposed);
    x = ungroup_rows(&s, x);
    if (s.d->soft_cap > 0)
        x = rx_grad_scale(g, rlx_tanh(g, rx_grad_scale(g, x, 1 / s.d->soft_cap)), s.d->soft_cap);
    const rlx_value mask = rx_grad_in(c, MASK), seen = visible(c, &s);
    if (mask.id && rlx_value_dtype(g, mask) != RLX_BOOL)
        x = rlx_add(g, x, rx_as_type(g, mask, s.type));
    if (seen.id)
        x = rlx_where(g, seen, x, rlx_scalar(g, s.type, -INFINITY));
    x = softmax_with_sinks(&s, x, rx_grad_in(c, SINKS));
    x = ungroup_rows(&s, rlx_matmul(g, group_rows(&s, x), s.v));
    if (s.d->layout == RLX_BSHD)
        x = swap_heads(g, x);
    c->via[0] = rx_as_type(g, x, t);
    return RLX_OK;
}

/* The rotation by the opposite angle; the tables are constants. */
rlx_status rx_grad_rope(rx_grad *c)
{
    rlx_rope_desc d = *(const rlx_rope_desc *)c->attr;
    if (rx_grad_wants(c, 1) || rx_grad_wants(c, 2))
        return rx_grad_refuse(c, "has no derivative by its tables of cosines and sines");
    d.struct_size = sizeof d;
    d.backward = !d.backward;
    c->dx[0] = rlx_rope(c->g, c->dy[0], c->in[1],
                        c->in[2], rx_grad_in(c, 3), &d);
    return RLX_OK;
}
