/* SPDX-License-Identifier: MIT */
/* Derivatives of recurrent networks and state space models. lstm, gru and rnn are unrolled; mamba2
 * and gated_delta_net become products over chunks of tokens with a carried state; selective_scan
 * runs backwards as a linear recurrence. */
#include <math.h>

#include "ops/grad.h"
#include "ops/lower.h"

static rlx_value named_length(const rx_grad *c)
{
    rx_grad_refuse(c, "has no derivative along a named dimension: it is built for a number of "
                   "tokens");
    return RLX_NONE;
}

static rlx_value product(rlx_graph *g, rlx_value a, rlx_value b, bool trans_b)
{
    const rlx_matmul_desc d = {RLX_INIT(rlx_matmul_desc), .trans_b = trans_b};
    return rlx_matmul_ex(g, a, b, RLX_NONE, RLX_NONE, &d);
}

/* Slice i along `axis`, without that axis. */
static rlx_value at(rlx_graph *g, rlx_value v, int axis, int64_t i)
{
    const rlx_shape s = rlx_value_shape(g, v);
    rlx_shape rest = {.rank = s.rank - 1};
    for (int k = 0; k < rest.rank; k++)
        rest.dim[k] = s.dim[k < axis ? k : k + 1];
    return rx_grad_reshape(g, rlx_narrow(g, v, axis, i, 1), &rest);
}

static rlx_value swap_first(rlx_graph *g, rlx_value v)
{
    return rlx_transpose(g, v, (const int[]){1, 0, 2});
}

/* ---- lstm, gru, rnn -------------------------------------------------------------------------- */

enum { W_IH, W_HH, B_IH, B_HH, N_WEIGHTS };

typedef struct net {
    rx_grad *c;
    const rlx_rnn_desc *d;
    rlx_dtype type; /* working type */
    int64_t seq;
    rlx_dim batch;
    uint32_t n_states;
} net;

/* Of one direction of a layer. */
typedef struct cell {
    rlx_value w[N_WEIGHTS]; /* [gates*H, I], [gates*H, H], [gates*H]; RLX_NONE when absent */
    rlx_value state[2];     /* [B, H]: h, c */
} cell;

static rlx_value gate(const net *n, rlx_value v, int64_t i)
{
    return rlx_narrow(n->c->g, v, 1, i * n->d->hidden, n->d->hidden);
}

static void step_lstm(const net *n, cell *p, rlx_value x, rlx_value h)
{
    rlx_graph *g = n->c->g;
    const rlx_value all = rlx_add(g, x, h);
    const rlx_value in = rlx_sigmoid(g, gate(n, all, 0)), keep = rlx_sigmoid(g, gate(n, all, 1));
    const rlx_value fresh = rlx_tanh(g, gate(n, all, 2)), out = rlx_sigmoid(g, gate(n, all, 3));
    p->state[1] = rlx_add(g, rlx_mul(g, keep, p->state[1]), rlx_mul(g, in, fresh));
    p->state[0] = rlx_mul(g, out, rlx_tanh(g, p->state[1]));
}

static void step_gru(const net *n, cell *p, rlx_value x, rlx_value h)
{
    rlx_graph *g = n->c->g;
    const rlx_value r = rlx_sigmoid(g, rlx_add(g, gate(n, x, 0), gate(n, h, 0)));
    const rlx_value z = rlx_sigmoid(g, rlx_add(g, gate(n, x, 1), gate(n, h, 1)));
    const rlx_value fresh =
        rlx_tanh(g, rlx_add(g, gate(n, x, 2), rlx_mul(g, r, gate(n, h, 2))));
    p->state[0] = rlx_add(g, fresh, rlx_mul(g, z, rlx_sub(g, p->state[0], fresh)));
}

static void step_rnn(const net *n, cell *p, rlx_value x, rlx_value h)
{
    rlx_graph *g = n->c->g;
    const rlx_value v = rlx_add(g, x, h);
    p->state[0] = n->d->relu ? rlx_relu(g, v) : rlx_tanh(g, v);
}

/* Slice `slot` of the first axis of operand i in the working type; RLX_NONE without one. */
static rlx_value slice_of(const net *n, uint32_t i, int64_t slot)
{
    const rlx_value v = rx_grad_in(n->c, i);
    return v.id ? at(n->c->g, rx_as_type(n->c->g, v, n->type), 0, slot) : v;
}

static void load_cell(const net *n, cell *p, int64_t layer, int64_t dir)
{
    rlx_graph *g = n->c->g;
    const int64_t slot = layer * (n->d->bidirectional ? 2 : 1) + dir;
    const rlx_shape s = {.rank = 2, .dim = {n->batch, n->d->hidden}};
    for (uint32_t i = 0; i < N_WEIGHTS; i++)
        p->w[i] = slice_of(n, 1 + n->n_states + (uint32_t)layer * N_WEIGHTS + i, dir);
    for (uint32_t i = 0; i < n->n_states; i++) {
        p->state[i] = slice_of(n, 1 + i, slot);
        if (!p->state[i].id)
            p->state[i] = rx_grad_fill(g, n->type, &s, 0);
    }
}

/* x [S, B, I] through one direction: [S, B, H]; the last states are left in *p. */
static rlx_value run_direction(const net *n, cell *p, rlx_value x, bool backward)
{
    rlx_graph *g = n->c->g;
    const rlx_shape row = {.rank = 3, .dim = {1, n->batch, n->d->hidden}};
    rlx_value *rows = rx_alloc_array_zero(n->seq + 1, sizeof *rows), y = RLX_NONE;
    if (!rows) {
        rx_graph_fail(g, RLX_NO_MEMORY, "rlx_grad: out of memory for %lld tokens",
                      (long long)n->seq);
        return y;
    }
    rlx_value from_x = product(g, x, p->w[W_IH], true);
    if (p->w[B_IH].id)
        from_x = rlx_add(g, from_x, p->w[B_IH]);
    for (int64_t i = 0; i < n->seq; i++) {
        const int64_t t = backward ? n->seq - 1 - i : i;
        rlx_value from_h = product(g, p->state[0], p->w[W_HH], true);
        if (p->w[B_HH].id)
            from_h = rlx_add(g, from_h, p->w[B_HH]);
        const rx_op op = n->c->node->op;
        (op == RX_OP_lstm ? step_lstm : op == RX_OP_gru ? step_gru : step_rnn)(
            n, p, at(g, from_x, 0, t), from_h);
        rows[t] = rx_grad_reshape(g, p->state[0], &row);
    }
    rlx_shape s = row;
    s.dim[0] = 0;
    y = n->seq ? rlx_concat(g, rows, (size_t)n->seq, 0) : rx_grad_fill(g, n->type, &s, 0);
    rx_free(rows);
    return y;
}

/* All layers; states of each layer and direction become [1, B, H] in last[i][..]. */
static rlx_value run_layers(const net *n, rlx_value x, rlx_value last[2][32])
{
    rlx_graph *g = n->c->g;
    const int64_t dirs = n->d->bidirectional ? 2 : 1;
    const rlx_shape slice = {.rank = 3, .dim = {1, n->batch, n->d->hidden}};
    for (int64_t layer = 0; layer < n->d->layers; layer++) {
        rlx_value y[2];
        for (int64_t dir = 0; dir < dirs; dir++) {
            cell p;
            load_cell(n, &p, layer, dir);
            y[dir] = run_direction(n, &p, x, n->d->reverse || dir == 1);
            for (uint32_t i = 0; i < n->n_states; i++)
                last[i][layer * dirs + dir] = rx_grad_reshape(g, p.state[i], &slice);
        }
        x = dirs == 2 ? rlx_concat(g, y, 2, 2) : y[0];
    }
    return x;
}

rlx_status rx_grad_rnn(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_rnn_desc *d = c->attr;
    const rlx_shape s = rlx_value_shape(g, c->in[0]);
    const int time = d->batch_first ? 1 : 0;
    rlx_value last[2][32];
    if (!rx_dim_is_number(s.dim[time])) {
        named_length(c);
        return g->error.code;
    }
    const net n = {.c = c, .d = d, .type = rx_working_type(rlx_value_dtype(g, c->in[0])),
                   .seq = s.dim[time], .batch = s.dim[1 - time],
                   .n_states = c->node->op == RX_OP_lstm ? 2 : 1};
    const rlx_value x = rx_as_type(g, c->in[0], n.type);
    rlx_value y = run_layers(&n, d->batch_first ? swap_first(g, x) : x, last);
    c->via[0] = rx_as_type(g, d->batch_first ? swap_first(g, y) : y, rlx_value_dtype(g, c->y));
    for (uint32_t i = 0; i < n.n_states; i++) {
        const rlx_dtype t = rlx_value_dtype(g, rx_result(c->y, 1 + i));
        const size_t slots = (size_t)d->layers * (d->bidirectional ? 2 : 1);
        c->via[1 + i] = rx_as_type(g, rlx_concat(g, last[i], slots, 0), t);
    }
    return RLX_OK;
}

/* ---- Chunks of tokens ------------------------------------------------------------------------ */

#define MAMBA_CHUNK 64
#define DELTA_CHUNK 16 /* the triangular inverse is a product of powers */

/* [B, S, H, ..] as [B, H, S, ..] in f32. */
static rlx_value heads_first(rlx_graph *g, rlx_value v)
{
    v = rx_as_type(g, v, RLX_F32);
    return rlx_transpose(g, v, rlx_value_shape(g, v).rank == 3 ? (const int[]){0, 2, 1}
                                                               : (const int[]){0, 2, 1, 3});
}

/* exp of the sum of log decays after token j up to i, zero where j is later than i: from cum
 * [B, H, L] to [B, H, L, L], from [B, H, L, N] to [B, H, L, L, N]. */
static rlx_value decays(rlx_graph *g, rlx_value cum)
{
    const rlx_shape s = rlx_value_shape(g, cum);
    const int rank = s.rank + 1;
    const rlx_value to = rx_grad_iota(g, s.dim[2], 2, rank);
    const rlx_value from = rx_grad_iota(g, s.dim[2], 3, rank);
    const rlx_value seen = rlx_ge(g, to, from);
    const rlx_value by = rlx_sub(g, rlx_unsqueeze(g, cum, 3), rlx_unsqueeze(g, cum, 2));
    return rx_grad_keep(g, seen, rlx_exp(g, rx_grad_keep(g, seen, by)));
}

static rlx_value sums(rlx_graph *g, rlx_value decay)
{
    const rlx_cum_desc d = {RLX_INIT(rlx_cum_desc), .axis = 2};
    return rlx_cumsum(g, decay, &d);
}

/* Tokens from..from+n-1 of v [B, H, S, ..]. */
static rlx_value part(rlx_graph *g, rlx_value v, rlx_dim from, rlx_dim n)
{
    return rlx_narrow(g, v, 2, from, n);
}

/* The sum over the tokens of a chunk, of which there may be none: [B, H, 1, ..]. */
static rlx_value total(rlx_graph *g, rlx_value decay)
{
    return rlx_reduce(g, RLX_REDUCE_SUM, decay, (const int64_t[]){2}, 1, true);
}

/* The initial state, or zeros. */
static rlx_value first_state(const rx_grad *c, uint32_t i, const rlx_shape *s)
{
    const rlx_value v = rx_grad_in(c, i);
    return v.id ? rx_as_type(c->g, v, RLX_F32) : rx_grad_fill(c->g, RLX_F32, s, 0);
}

/* A run over chunks: y of each [B, H, L, P], and the state after the last. */
typedef struct chunks {
    rx_grad *c;
    rlx_value in[5];                               /* heads first */
    rlx_value state;
    rlx_value (*step)(struct chunks *k, rlx_value in[5]); /* y of a chunk; moves the state */
    int64_t most;                                  /* tokens of a chunk */
} chunks;

static rlx_value run_chunks(chunks *k, rlx_dim seq, const rlx_shape *empty)
{
    rlx_graph *g = k->c->g;
    rlx_value all = RLX_NONE, in[5];
    if (!rx_dim_is_number(seq))
        return k->step(k, k->in);
    if (!seq)
        return rx_grad_fill(g, RLX_F32, empty, 0);
    const size_t n = (size_t)((seq + k->most - 1) / k->most);
    rlx_value *y = rx_alloc_array_zero(n, sizeof *y);
    if (!y) {
        rx_graph_fail(g, RLX_NO_MEMORY, "rlx_grad: out of memory for %zu chunks", n);
        return all;
    }
    for (size_t i = 0; i < n; i++) {
        const int64_t from = (int64_t)i * k->most, left = seq - from;
        for (int j = 0; j < 5; j++)
            in[j] = k->in[j].id ? part(g, k->in[j], from, left < k->most ? left : k->most)
                                : RLX_NONE;
        y[i] = k->step(k, in);
    }
    all = n > 1 ? rlx_concat(g, y, n, 2) : y[0];
    rx_free(y);
    return all;
}

/* Sets both results from y [B, H, S, P] and the state. */
static void set_results(const chunks *k, rlx_value y)
{
    rlx_graph *g = k->c->g;
    y = rlx_transpose(g, y, (const int[]){0, 2, 1, 3});
    k->c->via[0] = rx_as_type(g, y, rlx_value_dtype(g, k->c->y));
    k->c->via[1] = rx_as_type(g, k->state, rlx_value_dtype(g, rx_result(k->c->y, 1)));
}

/* ---- mamba2 ---------------------------------------------------------------------------------- */

/* in: dt * x [B, H, L, P], log decay [B, H, L], b and c [B, H, L, N]; the state is [B, H, P, N]. */
static rlx_value step_mamba2(chunks *k, rlx_value in[5])
{
    rlx_graph *g = k->c->g;
    const rlx_value cum = sums(g, in[1]), x = in[0], b = in[2], c = in[3];
    const rlx_value seen = rlx_mul(g, product(g, c, b, true), decays(g, cum));
    const rlx_value old = rlx_mul(g, c, rlx_unsqueeze(g, rlx_exp(g, cum), -1));
    const rlx_value y = rlx_add(g, rlx_matmul(g, seen, x), product(g, old, k->state, true));
    const rlx_value end = total(g, in[1]);
    const rlx_value left = rlx_unsqueeze(g, rlx_exp(g, rlx_sub(g, end, cum)), -1);
    const rlx_value fresh = rlx_matmul(g, rx_grad_flip(g, rlx_mul(g, x, left)), b);
    k->state = rlx_add(g, rlx_mul(g, k->state, rlx_unsqueeze(g, rlx_exp(g, end), -1)), fresh);
    return y;
}

/* [B, G, S, N] for every head: [B, H, S, N]. */
static rlx_value each_head(rlx_graph *g, rlx_value v, rlx_dim heads)
{
    const rlx_shape s = rlx_value_shape(g, v);
    if (s.dim[1] == heads)
        return v;
    const rlx_dim wide[] = {s.dim[0], s.dim[1], heads / s.dim[1], s.dim[2], s.dim[3]};
    const rlx_dim flat[] = {s.dim[0], heads, s.dim[2], s.dim[3]};
    return rlx_reshape(g, rlx_expand(g, rlx_unsqueeze(g, v, 2), 5, wide), 4, flat);
}

rlx_status rx_grad_mamba2(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_shape s = rlx_value_shape(g, c->in[0]), b = rlx_value_shape(g, c->in[3]);
    const rlx_dim heads = s.dim[2];
    const rlx_shape state = {.rank = 4, .dim = {s.dim[0], heads, s.dim[3], b.dim[3]}};
    const rlx_shape y_shape = {.rank = 4, .dim = {s.dim[0], heads, s.dim[1], s.dim[3]}};
    const rlx_value x = heads_first(g, c->in[0]), dt = heads_first(g, c->in[1]);
    const rlx_value a = rlx_reshape(g, rx_as_type(g, c->in[2], RLX_F32), 3,
                                    (rlx_dim[]){1, heads, 1});
    const rlx_value skip = rx_grad_in(c, 5);
    chunks k = {.c = c, .state = first_state(c, 6, &state), .step = step_mamba2,
                .most = MAMBA_CHUNK,
                .in = {rlx_mul(g, x, rlx_unsqueeze(g, dt, -1)), rlx_mul(g, dt, a),
                       each_head(g, heads_first(g, c->in[3]), heads),
                       each_head(g, heads_first(g, c->in[4]), heads)}};
    rlx_value y = run_chunks(&k, s.dim[1], &y_shape);
    if (skip.id) {
        const rlx_dim per_head[] = {1, heads, 1, 1};
        y = rlx_add(g, y, rlx_mul(g, x, rlx_reshape(g, rx_as_type(g, skip, RLX_F32), 4, per_head)));
    }
    set_results(&k, y);
    return RLX_OK;
}

/* ---- gated_delta_net ------------------------------------------------------------------------- */

/* sum_n a[i, n] b[j, n] decay(i, j, n): [B, H, L, L]. */
static rlx_value decayed_product(rlx_graph *g, rlx_value a, rlx_value b, rlx_value decay)
{
    if (rlx_value_shape(g, decay).rank == 4)
        return rlx_mul(g, product(g, a, b, true), decay);
    const rlx_value pairs = rlx_mul(g, rlx_unsqueeze(g, a, 3), rlx_unsqueeze(g, b, 2));
    const rlx_value all = rlx_mul(g, pairs, decay);
    return rlx_reduce(g, RLX_REDUCE_SUM, all, (const int64_t[]){4}, 1, false);
}

/* (1 + m)^-1 r for a strictly lower m [.., L, L]: the product of 1 + (-m)^(2^i) times r. */
static rlx_value solve(rlx_graph *g, rlx_value m, rlx_value r, int64_t n)
{
    rlx_value power = rlx_neg(g, m);
    for (int64_t reach = 1; reach < n; reach *= 2) {
        r = rlx_add(g, r, rlx_matmul(g, power, r));
        if (2 * reach < n)
            power = rlx_matmul(g, power, power);
    }
    return r;
}

/* in: q / sqrt(N), k [B, H, L, N], v [B, H, L, P], gate [B, H, L] or [B, H, L, N], beta [B, H, L];
 * the state is [B, H, N, P]. With G_t = exp of the sum of gates up to t, the update of token t is
 * d_t = beta_t (v_t - k_t G_t s - sum over j < t of (k_t G_t / G_j k_j) d_j). */
static rlx_value step_delta(chunks *c, rlx_value in[5])
{
    rlx_graph *g = c->c->g;
    const rlx_value q = in[0], k = in[1], cum = sums(g, in[3]), beta = rlx_unsqueeze(g, in[4], -1);
    const bool wide = rlx_value_shape(g, cum).rank == 4;
    const rlx_value decay = decays(g, cum);
    const rlx_value all = wide ? rlx_exp(g, cum) : rlx_unsqueeze(g, rlx_exp(g, cum), -1);
    const rlx_value known = rlx_matmul(g, rlx_mul(g, k, all), c->state);
    const rlx_value right = rlx_mul(g, beta, rlx_sub(g, in[2], known));
    const rlx_value lower = rlx_trilu(g, decayed_product(g, k, k, decay), false, -1);
    const rlx_value d = solve(g, rlx_mul(g, beta, lower), right, rlx_value_shape(g, k).dim[2]);
    const rlx_value old = rlx_matmul(g, rlx_mul(g, q, all), c->state);
    const rlx_value y = rlx_add(g, old, rlx_matmul(g, decayed_product(g, q, k, decay), d));
    const rlx_value end = total(g, in[3]);
    const rlx_value left = rlx_exp(g, rlx_sub(g, end, cum));
    const rlx_value keys = rlx_mul(g, k, wide ? left : rlx_unsqueeze(g, left, -1));
    const rlx_value end_all = rlx_exp(g, end); /* [B, H, 1] or [B, H, 1, N] */
    const rlx_value scale = wide ? rx_grad_flip(g, end_all) : rlx_unsqueeze(g, end_all, -1);
    c->state = rlx_add(g, rlx_mul(g, c->state, scale), rlx_matmul(g, rx_grad_flip(g, keys), d));
    return y;
}

rlx_status rx_grad_gated_delta_net(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_shape q = rlx_value_shape(g, c->in[0]), v = rlx_value_shape(g, c->in[2]);
    const rlx_shape state = {.rank = 4, .dim = {q.dim[0], q.dim[2], q.dim[3], v.dim[3]}};
    const rlx_shape y_shape = {.rank = 4, .dim = {q.dim[0], q.dim[2], q.dim[1], v.dim[3]}};
    if (!rx_dim_is_number(q.dim[1])) {
        named_length(c);
        return g->error.code;
    }
    chunks k = {.c = c, .state = first_state(c, 5, &state), .step = step_delta,
                .most = DELTA_CHUNK};
    for (uint32_t i = 0; i < 5; i++)
        k.in[i] = heads_first(g, c->in[i]);
    k.in[0] = rx_grad_scale(g, k.in[0], 1 / sqrt((double)q.dim[3]));
    set_results(&k, run_chunks(&k, q.dim[1], &y_shape));
    return RLX_OK;
}

/* ---- selective_scan -------------------------------------------------------------------------- */

/* y_t = exp(l_t) y_(t-1) + u_t over axis 1 of l, u [B, S, M], from y_(-1) [B, M]. This is
 * gated_delta_net with a head for each element, whose key is so small (2^-60) that its read of the
 * state is lost in rounding. */
static rlx_value recurrence(rlx_graph *g, rlx_value l, rlx_value u, rlx_value first)
{
    const rlx_shape s = rlx_value_shape(g, u);
    const rlx_shape wide = {.rank = 4, .dim = {s.dim[0], s.dim[1], s.dim[2], 1}};
    const rlx_shape state = {.rank = 4, .dim = {s.dim[0], s.dim[2], 1, 1}};
    const rlx_value in[6] = {
        rx_grad_fill(g, RLX_F32, &wide, 1), rx_grad_fill(g, RLX_F32, &wide, 0x1p-30),
        rx_grad_reshape(g, rx_grad_scale(g, u, 0x1p30), &wide), l,
        rx_grad_fill(g, RLX_F32, &s, 1), rx_grad_reshape(g, first, &state),
    };
    return rx_grad_reshape(g, rlx_gated_delta_net(g, in, NULL), &s);
}

typedef struct scan {
    rlx_graph *g;
    rlx_dim batch, seq, e, n, flat;
    rlx_value x, delta, b, c; /* [B, S, E, 1], the last two [B, S, 1, N] */
    rlx_value a;              /* [E, N] */
} scan;

/* [B, S, E, N] as [B, S, E*N] and back. */
static rlx_value flat(const scan *s, rlx_value v, rlx_dim seq)
{
    const rlx_shape to = {.rank = 3, .dim = {s->batch, seq, s->flat}};
    const rlx_shape full = {.rank = 4, .dim = {s->batch, seq, s->e, s->n}};
    return rx_grad_reshape(s->g, rx_grad_expand(s->g, v, &full), &to);
}

static rlx_value full(const scan *s, rlx_value v)
{
    const rlx_shape to = {.rank = 4, .dim = {s->batch, s->seq, s->e, s->n}};
    return rx_grad_reshape(s->g, v, &to);
}

/* v [B, S, M] without its first token (or its last), with `with` [B, 1, M] at the other end. */
static rlx_value shift(const scan *s, rlx_value v, bool to_front, rlx_value with)
{
    const rlx_value both[] = {to_front ? v : with, to_front ? with : v};
    return rlx_narrow(s->g, rlx_concat(s->g, both, 2, 1), 1, to_front ? 1 : 0, s->seq);
}

static rlx_value backwards(rlx_graph *g, rlx_value v)
{
    return rlx_reverse(g, v, (const int64_t[]){1}, 1);
}

static rlx_value sum_axis(rlx_graph *g, rlx_value v, int64_t axis)
{
    return rlx_reduce(g, RLX_REDUCE_SUM, v, &axis, 1, false);
}

/* The adjoints of the states h [B, S, E*N]. */
static rlx_value scan_back(const rx_grad *c, const scan *s, rlx_value l, rlx_value dy)
{
    rlx_graph *g = s->g;
    const rlx_shape row = {.rank = 3, .dim = {s->batch, 1, s->flat}};
    const rlx_shape state = {.rank = 2, .dim = {s->batch, s->flat}};
    const rlx_value zeros = rx_grad_fill(g, RLX_F32, &row, 0);
    const rlx_value last = c->dy[1].id ? rx_as_type(g, c->dy[1], RLX_F32)
                                       : rx_grad_fill(g, RLX_F32, &state, 0);
    const rlx_value by_y = dy.id ? rlx_mul(g, dy, s->c) : rlx_scalar(g, RLX_F32, 0);
    return backwards(g, recurrence(g, backwards(g, shift(s, l, true, zeros)),
                                   backwards(g, flat(s, by_y, s->seq)),
                                   rx_grad_reshape(g, last, &state)));
}

/* The derivatives of the operands, from dh, h and the decay exp(delta a) of each token. */
static void scan_operands(rx_grad *c, const scan *s, rlx_value dh, rlx_value h, rlx_value decayed,
                          rlx_value dy)
{
    rlx_graph *g = s->g;
    const rlx_value dl = rlx_mul(g, dh, decayed); /* by delta * a */
    const rlx_value dh_b = rlx_unsqueeze(g, sum_axis(g, rlx_mul(g, dh, s->b), 3), -1);
    const rlx_value of_a = rlx_unsqueeze(g, sum_axis(g, rlx_mul(g, dl, s->a), 3), -1);
    const rlx_shape x = rlx_value_shape(g, c->in[0]);
    c->dx[1] = rx_grad_reshape(g, rlx_add(g, of_a, rlx_mul(g, dh_b, s->x)), &x);
    c->dx[2] = sum_axis(g, sum_axis(g, rlx_mul(g, dl, s->delta), 0), 0);
    c->dx[3] = sum_axis(g, rlx_mul(g, dh, rlx_mul(g, s->delta, s->x)), 2);
    rlx_value dx = rlx_mul(g, dh_b, s->delta);
    const rlx_value skip = rx_grad_in(c, 5);
    if (dy.id && skip.id) {
        const rlx_dim per_channel[] = {1, 1, s->e, 1};
        const rlx_value by = rlx_reshape(g, rx_as_type(g, skip, RLX_F32), 4, per_channel);
        dx = rlx_add(g, dx, rlx_mul(g, dy, by));
        c->dx[5] = sum_axis(g, sum_axis(g, sum_axis(g, rlx_mul(g, dy, s->x), 3), 0), 0);
    }
    if (dy.id)
        c->dx[4] = sum_axis(g, rlx_mul(g, dy, h), 2);
    c->dx[0] = rx_grad_reshape(g, dx, &x);
}

/* h_t = exp(delta_t a) h_(t-1) + delta_t b_t x_t, whose derivative is such a recurrence from the
 * last token to the first: dh_t = c_t dy_t + exp(delta_(t+1) a) dh_(t+1). */
rlx_status rx_grad_selective_scan(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_shape x = rlx_value_shape(g, c->in[0]);
    scan s = {.g = g, .batch = x.dim[0], .seq = x.dim[1], .e = x.dim[2],
              .n = rlx_value_shape(g, c->in[2]).dim[1]};
    s.flat = s.e * s.n;
    if (s.seq == 0) {
        c->dx[6] = c->dy[1];
        return RLX_OK;
    }
    s.x = rlx_unsqueeze(g, rx_as_type(g, c->in[0], RLX_F32), -1);
    s.delta = rlx_unsqueeze(g, rx_as_type(g, c->in[1], RLX_F32), -1);
    s.a = rx_as_type(g, c->in[2], RLX_F32);
    s.b = rlx_unsqueeze(g, rx_as_type(g, c->in[3], RLX_F32), 2);
    s.c = rlx_unsqueeze(g, rx_as_type(g, c->in[4], RLX_F32), 2);
    const rlx_value dy = c->dy[0].id ? rlx_unsqueeze(g, rx_as_type(g, c->dy[0], RLX_F32), -1)
                                     : RLX_NONE;
    const rlx_shape state = {.rank = 3, .dim = {s.batch, s.e, s.n}};
    const rlx_shape row = {.rank = 3, .dim = {s.batch, 1, s.flat}};
    const rlx_value first = rx_grad_reshape(g, first_state(c, 6, &state), &row);
    const rlx_shape flat_state = {.rank = 2, .dim = {s.batch, s.flat}};
    const rlx_value l = flat(&s, rlx_mul(g, s.delta, s.a), s.seq);
    const rlx_value u = flat(&s, rlx_mul(g, rlx_mul(g, s.delta, s.x), s.b), s.seq);
    const rlx_value h = recurrence(g, l, u, rx_grad_reshape(g, first, &flat_state));
    const rlx_value dh = scan_back(c, &s, l, dy), decay = rlx_exp(g, l);
    const rlx_value decayed = rlx_mul(g, decay, shift(&s, h, false, first));
    scan_operands(c, &s, full(&s, dh), full(&s, h), full(&s, decayed), dy);
    if (rx_grad_wants(c, 6)) { /* without tokens what comes by the last state */
        const rlx_value after = c->dy[1].id ? rx_as_type(g, c->dy[1], RLX_F32)
                                            : rx_grad_fill(g, RLX_F32, &state, 0);
        const rlx_value both[] = {rlx_mul(g, decay, dh), rx_grad_reshape(g, after, &row)};
        c->dx[6] = rx_grad_reshape(g, rlx_narrow(g, rlx_concat(g, both, 2, 1), 1, 0, 1), &state);
    }
    return RLX_OK;
}
