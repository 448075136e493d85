/* SPDX-License-Identifier: MIT */
/* Derivatives of attention and of the rotary embedding. Attention is built again from products and
 * a softmax, whose scores [B, H, Sq, Sk] exist in memory where they are few. Else the queries are
 * processed in chunks, each with derivatives of its own, so that the scores of one chunk exist at a
 * time: memory is linear in the number of keys. Since a chunk has whole rows of scores, its softmax
 * needs nothing of the others, and all of it is ordinary operations, on every device. */
#include <math.h>

#include "base/mem.h"
#include "ops/grad.h"
#include "ops/lower.h"

/* Queries of a chunk: so many that products of them are efficient, and more while the scores of all
 * heads are at most so many bytes. */
#define CHUNK_ROWS 128
#define CHUNK_BYTES (4 << 20)
#define MOST_CHUNKS 1024

enum { Q, K, V, MASK, LENGTHS, SINKS, PAGES, N_OPERANDS };

/* Scores to compute: all of them, or those of a chunk of queries. */
typedef struct scores {
    rlx_graph *g;
    const rlx_attention_desc *d;
    rlx_dtype type; /* everything is computed in it */
    /* q [B, H, n_queries, D], k and v [B, Hkv, n_keys, D or Dv], mask, lengths, sinks */
    rlx_value in[N_OPERANDS];
    rlx_dim batch, heads, kv_heads, n_queries, n_keys;
    rlx_dim first;              /* of these queries */
    rlx_dim all_queries, all_keys;
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

/* lengths [B] or one for all, as i32 [B or 1, 1, 1, 1] from 0 to all_keys. */
static rlx_value key_lengths(const scores *s)
{
    rlx_graph *g = s->g;
    rlx_value n = rlx_cast(g, s->in[LENGTHS], RLX_I32);
    n = rlx_max(g, n, rlx_scalar(g, RLX_I32, 0));
    n = rlx_min(g, n, rx_grad_size(g, s->all_keys, RLX_I32));
    const bool batched = rlx_value_shape(g, n).rank == 1;
    return rlx_reshape(g, n, 4, (rlx_dim[]){batched ? s->batch : 1, 1, 1, 1});
}

/* Which keys a query may see, bool, broadcastable to [B, H, n_queries, n_keys]; RLX_NONE: all. */
static rlx_value visible(const scores *s)
{
    rlx_graph *g = s->g;
    const rlx_attention_desc *d = s->d;
    rlx_value length = rx_grad_size(g, s->all_keys, RLX_I32), seen = RLX_NONE;
    const rlx_value key = rx_grad_iota(g, s->n_keys, 3, 4);
    if (s->in[LENGTHS].id) {
        length = key_lengths(s);
        seen = rlx_lt(g, key, length);
    }
    if (d->causal || d->window > 0) {
        const rlx_value row = rlx_add(g, rx_grad_iota(g, s->n_queries, 2, 4),
                                      rx_grad_size(g, s->first, RLX_I32));
        const rlx_value n_queries = rx_grad_size(g, s->all_queries, RLX_I32);
        const rlx_value at = rlx_add(g, row, rlx_sub(g, length, n_queries));
        if (d->causal)
            seen = both(g, seen, rlx_le(g, key, at));
        if (d->window > 0) {
            const rlx_value from = rlx_sub(g, at, rlx_scalar(g, RLX_I32, (double)d->window));
            seen = both(g, seen, rlx_gt(g, key, from));
        }
    }
    const rlx_value mask = s->in[MASK];
    if (mask.id && rlx_value_dtype(g, mask) == RLX_BOOL)
        seen = both(g, seen, mask);
    return seen;
}

/* The softmax of x [B, H, n_queries, n_keys]; an extra logit a head takes part in its sum. */
static rlx_value softmax_with_sinks(const scores *s, rlx_value x)
{
    rlx_graph *g = s->g;
    rlx_value sinks = s->in[SINKS];
    if (!sinks.id)
        return rlx_softmax(g, x, 3);
    sinks = rlx_reshape(g, rx_as_type(g, sinks, s->type), 4, (rlx_dim[]){1, s->heads, 1, 1});
    sinks = rlx_expand(g, sinks, 4, (rlx_dim[]){s->batch, s->heads, s->n_queries, 1});
    const rlx_value p = rlx_softmax(g, rlx_concat(g, (rlx_value[]){x, sinks}, 2, 3), 3);
    return rlx_narrow(g, p, 3, 0, s->n_keys);
}

/* The result [B, H, n_queries, Dv] from its scores. */
static rlx_value attend(const scores *s)
{
    rlx_graph *g = s->g;
    const rlx_matmul_desc transposed = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    rlx_value x = rlx_mul(g, s->in[Q], rlx_scalar(g, s->type, s->d->scale));
    x = rlx_matmul_ex(g, group_rows(s, x), s->in[K], RLX_NONE, RLX_NONE, &transposed);
    x = ungroup_rows(s, x);
    if (s->d->soft_cap > 0)
        x = rx_grad_scale(g, rlx_tanh(g, rx_grad_scale(g, x, 1 / s->d->soft_cap)), s->d->soft_cap);
    const rlx_value mask = s->in[MASK], seen = visible(s);
    if (mask.id && rlx_value_dtype(g, mask) != RLX_BOOL)
        x = rlx_add(g, x, rx_as_type(g, mask, s->type));
    if (seen.id)
        x = rlx_where(g, seen, x, rlx_scalar(g, s->type, -INFINITY));
    x = softmax_with_sinks(s, x);
    return ungroup_rows(s, rlx_matmul(g, group_rows(s, x), s->in[V]));
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* All queries as n chunks of `rows`. Sizes that n does not divide are padded with zeros, for which
 * the derivatives are zeros. */
typedef struct chunks {
    rx_grad *c;
    scores all;    /* padded */
    int64_t n;
    rlx_dim rows;
    bool triangle; /* causal with as many keys as queries, which are padded alike: chunks see no key
                    * behind them */
    rlx_value sum[N_OPERANDS];   /* derivatives by operands that each chunk reads whole */
    rlx_value *part[N_OPERANDS]; /* by chunk: by those of which each reads some rows */
} chunks;

/* How many chunks there are at the bounds of the dimensions. */
static int64_t count_chunks(const scores *s)
{
    const rlx_graph *g = s->g;
    const double row = (double)rx_dim_bound(g, s->batch) * (double)rx_dim_bound(g, s->heads) *
                       (double)rx_dim_bound(g, s->n_keys) * rlx_dtype_block_bytes(s->type);
    const double fit = row > 0 ? floor(CHUNK_BYTES / row) : INFINITY;
    const double n = ceil((double)rx_dim_bound(g, s->n_queries) / fmax(fit, CHUNK_ROWS));
    return n < 1 ? 1 : n > MOST_CHUNKS ? MOST_CHUNKS : (int64_t)n;
}

/* The axis of an operand that has the queries, or the keys; -1: none. */
static int query_axis(const scores *s, int operand)
{
    const rlx_shape m = rlx_value_shape(s->g, s->in[operand]);
    if (operand == MASK)
        return m.rank > 1 && m.dim[m.rank - 2] != 1 ? m.rank - 2 : -1;
    return operand == Q ? 2 : -1;
}

static int key_axis(const scores *s, int operand)
{
    const rlx_shape m = rlx_value_shape(s->g, s->in[operand]);
    if (operand == MASK)
        return m.rank > 0 && m.dim[m.rank - 1] != 1 ? m.rank - 1 : -1;
    return operand == K || operand == V ? 2 : -1;
}

static rlx_value pad_axis(rlx_graph *g, rlx_value x, int axis, rlx_dim to)
{
    rlx_shape s = rlx_value_shape(g, x);
    if (axis < 0 || s.dim[axis] == to)
        return x;
    s.dim[axis] = rlx_dim_sub(g, to, s.dim[axis]);
    const rlx_value zeros = rx_grad_fill(g, rlx_value_dtype(g, x), &s, 0);
    return rlx_concat(g, (rlx_value[]){x, zeros}, 2, axis);
}

static void pad_operands(chunks *k, const scores *s)
{
    rlx_graph *g = s->g;
    const rlx_dim rows = rlx_dim_mul(g, k->rows, k->n);
    k->all.n_queries = rows;
    if (k->triangle)
        k->all.n_keys = rows;
    for (int o = 0; o < N_OPERANDS; o++) {
        if (!s->in[o].id)
            continue;
        rlx_value x = pad_axis(g, s->in[o], query_axis(s, o), rows);
        k->all.in[o] = k->triangle ? pad_axis(g, x, key_axis(s, o), rows) : x;
    }
}

/* What chunk i reads of an operand, as a value of its own: two operands may be one value, whose
 * derivatives would count twice. */
static rlx_value chunk_operand(const chunks *k, int operand, int64_t i)
{
    rlx_graph *g = k->all.g;
    const rlx_value x = k->all.in[operand];
    const rlx_shape s = rlx_value_shape(g, x);
    const int axis = query_axis(&k->all, operand);
    return axis < 0 ? rlx_reshape(g, x, s.rank, s.dim)
                    : rlx_narrow(g, x, axis, rlx_dim_mul(g, k->rows, i), k->rows);
}

static void hide_keys_behind(scores *s, rlx_dim end)
{
    s->n_keys = end;
    for (int o = K; o <= MASK; o++) {
        const int axis = s->in[o].id ? key_axis(s, o) : -1;
        if (axis >= 0)
            s->in[o] = rlx_narrow(s->g, s->in[o], axis, 0, end);
    }
}

static rlx_status differentiate_chunk(chunks *k, rlx_value dy, int64_t i)
{
    rlx_graph *g = k->all.g;
    rlx_value wrt[N_OPERANDS], d[N_OPERANDS];
    int operand[N_OPERANDS];
    size_t n = 0;
    scores s = k->all;
    s.n_queries = k->rows;
    s.first = rlx_dim_mul(g, k->rows, i);
    for (int o = 0; o < N_OPERANDS; o++) {
        if (!s.in[o].id)
            continue;
        s.in[o] = chunk_operand(k, o, i);
        operand[n] = o;
        wrt[n] = s.in[o];
        n += rx_grad_wants(k->c, (uint32_t)o);
    }
    if (k->triangle)
        hide_keys_behind(&s, rlx_dim_mul(g, k->rows, i + 1));
    const rlx_value y = attend(&s), dy_rows = rlx_narrow(g, dy, 2, s.first, k->rows);
    RLX_TRY(rlx_vjp(g, &y, &dy_rows, 1, wrt, n, d));
    for (size_t j = 0; j < n; j++) {
        const int o = operand[j];
        if (query_axis(&k->all, o) >= 0)
            k->part[o][i] = d[j];
        else
            k->sum[o] = k->sum[o].id ? rlx_add(g, k->sum[o], d[j]) : d[j];
    }
    return g->error.code;
}

/* The derivatives by the rows of an operand: each chunk's behind those of the one before. */
static rlx_value join_parts(const chunks *k, int operand)
{
    rlx_graph *g = k->all.g;
    const int axis = query_axis(&k->all, operand);
    const rlx_shape s = rlx_value_shape(g, k->all.in[operand]);
    rlx_shape one = {.rank = s.rank + 1};
    for (int a = 0; a < one.rank; a++)
        one.dim[a] = a < axis ? s.dim[a] : a == axis ? 1 : a == axis + 1 ? k->rows : s.dim[a - 1];
    for (int64_t i = 0; i < k->n; i++)
        k->part[operand][i] = rlx_reshape(g, k->part[operand][i], one.rank, one.dim);
    const rlx_value all = rlx_concat(g, k->part[operand], (size_t)k->n, axis);
    return rlx_reshape(g, all, s.rank, s.dim);
}

static rlx_status differentiate_chunks(chunks *k, rlx_value dy)
{
    rlx_graph *g = k->all.g;
    for (int o = 0; o < N_OPERANDS; o++) {
        k->part[o] = rx_arena_array_zero(&g->arena, (uint64_t)k->n, sizeof *k->part[o]);
        if (!k->part[o])
            return rx_graph_fail(g, RLX_NO_MEMORY, "rlx_grad: out of memory for %lld chunks of "
                                 "attention", (long long)k->n);
    }
    for (int64_t i = 0; i < k->n; i++)
        RLX_TRY(differentiate_chunk(k, dy, i));
    for (uint32_t o = 0; o < k->c->node->n_in; o++) {
        if (!rx_grad_wants(k->c, o))
            continue;
        const rlx_value d = k->sum[o].id ? k->sum[o] : join_parts(k, (int)o);
        RLX_TRY(rlx_vjp(g, &k->all.in[o], &d, 1, &k->c->in[o], 1, &k->c->dx[o]));
    }
    return g->error.code;
}

static rlx_status by_chunks(rx_grad *c, const scores *s, int64_t n)
{
    rlx_graph *g = s->g;
    const bool square = s->all_queries == s->all_keys;
    chunks k = {.c = c, .all = *s, .n = n,
                .triangle = s->d->causal && square && !s->in[LENGTHS].id};
    k.rows = rlx_dim_div(g, rlx_dim_add(g, s->n_queries, n - 1), n);
    pad_operands(&k, s);
    rlx_value dy = rx_as_type(g, c->dy[0], s->type);
    if (s->d->layout == RLX_BSHD)
        dy = swap_heads(g, dy);
    dy = pad_axis(g, dy, 2, k.all.n_queries);
    return differentiate_chunks(&k, dy);
}

/* ---- The rule -------------------------------------------------------------------------------- */

static scores describe(const rx_grad *c)
{
    rlx_graph *g = c->g;
    scores s = {.g = g, .d = c->attr, .type = rx_working_type(rlx_value_dtype(g, c->in[Q]))};
    s.in[Q] = rx_as_type(g, c->in[Q], s.type);
    if (s.d->layout == RLX_BSHD)
        s.in[Q] = swap_heads(g, s.in[Q]);
    s.in[K] = keys(c, &s, c->in[K]);
    s.in[V] = keys(c, &s, c->in[V]);
    for (uint32_t o = MASK; o <= SINKS; o++)
        s.in[o] = rx_grad_in(c, o);
    const rlx_shape q = rlx_value_shape(g, s.in[Q]), k = rlx_value_shape(g, s.in[K]);
    s.batch = q.dim[0];
    s.heads = q.dim[1];
    s.n_queries = s.all_queries = q.dim[2];
    s.kv_heads = k.dim[1];
    s.n_keys = s.all_keys = k.dim[2];
    return s;
}

rlx_status rx_grad_attention(rx_grad *c)
{
    const scores s = describe(c);
    if (c->g->error.code)
        return c->g->error.code;
    const int64_t n = count_chunks(&s);
    if (n > 1)
        return by_chunks(c, &s, n);
    rlx_value y = attend(&s);
    if (s.d->layout == RLX_BSHD)
        y = swap_heads(c->g, y);
    c->via[0] = rx_as_type(c->g, y, rlx_value_dtype(c->g, c->in[Q]));
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
