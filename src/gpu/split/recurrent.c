/* SPDX-License-Identifier: MIT */
/* lstm, gru and rnn with weights larger than a binding: products and elementwise steps per token.
 * State space models on long sequences: ranges of tokens one after another. Intermediate states and
 * gates have 32 bits. */
#include <string.h>

#include "gpu/split/part.h"

enum { W_IH, W_HH, B_IH, B_HH, N_WEIGHTS };

typedef struct net {
    const rx_steps *s;
    const rlx_rnn_desc *d;
    int64_t seq, batch, hidden, dirs, gates;
    rlx_dtype type; /* of x and the weights */
} net;

/* One direction of a layer. */
typedef struct layer {
    int64_t index, dir;
    rx_tensor x;     /* [S, B, inputs] */
    rx_tensor y;     /* [S, B, H] */
    rx_tensor gx;    /* x . w_ih + b_ih: [S, B, gates * H] */
    rx_tensor gh;    /* h . w_hh + b_hh: [B, gates * H] */
    rx_tensor h, c, spare; /* [B, H] */
} layer;

static rx_tensor cast(const rx_steps *s, rx_tensor x, rlx_dtype t)
{
    const rx_cast_attr d = {t};
    if (x.view.dtype == t)
        return x;
    rx_tensor y = rx_steps_like(s, t, &x.view, -1, 0);
    rx_steps_add(s, RX_OP_cast, &d, (rx_tensor[]){x, y}, 1, 1);
    return y;
}

/* x into y, of whatever types. */
static void store(const rx_steps *s, rx_tensor x, rx_tensor y)
{
    const rx_cast_attr d = {y.view.dtype};
    const bool same = x.view.dtype == y.view.dtype;
    rx_steps_add(s, same ? RX_OP_copy : RX_OP_cast, same ? NULL : (const void *)&d,
                 (rx_tensor[]){x, y}, 1, 1);
}

/* Slice i of the first axis, without that axis. */
static rx_tensor slice(const rx_tensor *x, int64_t i)
{
    rx_tensor y = rx_steps_narrow(x, 0, i, 1);
    y.view.rank--;
    memmove(y.view.dim, y.view.dim + 1, (size_t)y.view.rank * sizeof *y.view.dim);
    memmove(y.view.stride, y.view.stride + 1, (size_t)y.view.rank * sizeof *y.view.stride);
    return y;
}

/* A weight of the direction; rank -1: there is none. */
static rx_tensor weight(const net *n, const layer *l, size_t which)
{
    const size_t i = 1 + (n->gates == 4 ? 2 : 1) + (size_t)l->index * N_WEIGHTS + which;
    if (!rx_gpu_in(&n->s->part->call, i))
        return (rx_tensor){.view = {.rank = -1}};
    const rx_tensor all = rx_steps_tensor(n->s, i);
    return slice(&all, l->dir);
}

/* y = a . w + b, w [columns, inner] */
static void multiply(const net *n, rx_tensor a, rx_tensor w, rx_tensor b, rx_tensor y)
{
    const rlx_matmul_desc d = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    const bool biased = b.view.rank >= 0;
    rx_steps_add(n->s, RX_OP_matmul, &d, (rx_tensor[]){a, w, biased ? b : y, y}, biased ? 3 : 2, 1);
}

/* First state i (h, c) of the layer in f32, zeros when it is not given. */
static rx_tensor first_state(const net *n, const layer *l, size_t i)
{
    const int64_t dim[2] = {n->batch, n->hidden};
    if (rx_gpu_in(&n->s->part->call, 1 + i)) {
        const rx_tensor all = rx_steps_tensor(n->s, 1 + i);
        return cast(n->s, slice(&all, l->index * n->dirs + l->dir), RLX_F32);
    }
    const rx_tensor y = rx_steps_new(n->s, RLX_F32, 2, dim);
    const rx_tensor zero = rx_steps_number(n->s, RLX_F32, 0);
    const rx_instr mul = {.op = RX_OP_mul, .arg = {0, 0}, .dtype = RLX_F32};
    rx_steps_region(n->s, &mul, 1, (rx_tensor[]){zero, y}, 1);
    return y;
}

#define OP(name, a, b) {.op = RX_OP_##name, .arg = {a, b}, .dtype = RLX_F32}

static void step_lstm(const net *n, layer *l, const rx_tensor *gx, const rx_tensor *gh, rx_tensor h)
{
    const rx_instr cell[] = {OP(add, 0, 3), OP(sigmoid, 7, 0), OP(add, 1, 4), OP(sigmoid, 9, 0),
                             OP(add, 2, 5), OP(tanh, 11, 0), OP(mul, 8, 12), OP(mul, 10, 6),
                             OP(add, 13, 14)};
    const rx_instr out[] = {OP(add, 0, 1), OP(sigmoid, 3, 0), OP(tanh, 2, 0), OP(mul, 4, 5)};
    rx_steps_region(n->s, cell, 9,
                    (rx_tensor[]){gx[0], gx[1], gx[2], gh[0], gh[1], gh[2], l->c, l->spare}, 7);
    rx_steps_region(n->s, out, 4, (rx_tensor[]){gx[3], gh[3], l->spare, h}, 3);
    const rx_tensor old = l->c;
    l->c = l->spare;
    l->spare = old;
}

static void step_gru(const net *n, layer *l, const rx_tensor *gx, const rx_tensor *gh, rx_tensor h)
{
    const rx_instr out[] = {OP(add, 0, 3), OP(sigmoid, 7, 0), OP(mul, 8, 5), OP(add, 2, 9),
                            OP(tanh, 10, 0), OP(add, 1, 4), OP(sigmoid, 12, 0), OP(sub, 6, 11),
                            OP(mul, 13, 14), OP(add, 11, 15)};
    rx_steps_region(n->s, out, 10,
                    (rx_tensor[]){gx[0], gx[1], gx[2], gh[0], gh[1], gh[2], l->h, h}, 7);
}

static void step_rnn(const net *n, layer *l, const rx_tensor *gx, const rx_tensor *gh, rx_tensor h)
{
    (void)l;
    const rx_instr out[] = {OP(add, 0, 1), OP(tanh, 2, 0)};
    const rx_instr bent[] = {OP(add, 0, 1), OP(relu, 2, 0)};
    rx_steps_region(n->s, n->d->relu ? bent : out, 2, (rx_tensor[]){*gx, *gh, h}, 2);
}

static void walk_tokens(const net *n, layer *l, rx_tensor w_hh, rx_tensor b_hh)
{
    const bool backward = l->dir == 1 || n->d->reverse;
    for (int64_t i = 0; i < n->seq && n->s->b->status == RLX_OK; i++) {
        const int64_t t = backward ? n->seq - 1 - i : i;
        const rx_tensor here = slice(&l->gx, t), h = slice(&l->y, t);
        rx_tensor gx[4], gh[4];
        multiply(n, l->h, w_hh, b_hh, l->gh);
        for (int64_t g = 0; g < n->gates; g++) {
            gx[g] = rx_steps_narrow(&here, 1, g * n->hidden, n->hidden);
            gh[g] = rx_steps_narrow(&l->gh, 1, g * n->hidden, n->hidden);
        }
        if (n->gates == 4)
            step_lstm(n, l, gx, gh, h);
        else if (n->gates == 3)
            step_gru(n, l, gx, gh, h);
        else
            step_rnn(n, l, gx, gh, h);
        l->h = h;
    }
}

/* Copies the final state i to its result, where that is used. */
static void store_state(const net *n, const layer *l, size_t i, rx_tensor state)
{
    const size_t out = n->s->part->call.n_in + 1 + i;
    if (1 + i >= n->s->part->call.n_out || n->s->part->view[out].rank < 0)
        return;
    const rx_tensor all = rx_steps_tensor(n->s, out);
    store(n->s, state, slice(&all, l->index * n->dirs + l->dir));
}

/* y [S, B, H] of one direction from x. */
static rx_tensor add_direction(const net *n, layer *l)
{
    const rx_steps *s = n->s;
    const int64_t width = n->gates * n->hidden, state[2] = {n->batch, n->hidden};
    l->gx = rx_steps_new(s, RLX_F32, 3, (int64_t[]){n->seq, n->batch, width});
    l->gh = rx_steps_new(s, RLX_F32, 2, (int64_t[]){n->batch, width});
    l->y = rx_steps_new(s, RLX_F32, 3, (int64_t[]){n->seq, n->batch, n->hidden});
    multiply(n, l->x, weight(n, l, W_IH), weight(n, l, B_IH), l->gx);
    l->h = first_state(n, l, 0);
    if (n->gates == 4) {
        l->c = rx_steps_new(s, RLX_F32, 2, state);
        l->spare = rx_steps_new(s, RLX_F32, 2, state);
        store(s, first_state(n, l, 1), l->c);
    }
    walk_tokens(n, l, cast(s, weight(n, l, W_HH), RLX_F32), weight(n, l, B_HH));
    store_state(n, l, 0, l->h);
    if (n->gates == 4)
        store_state(n, l, 1, l->c);
    return l->y;
}

static rx_tensor swapped(rx_tensor x)
{
    const rx_view v = x.view;
    for (int i = 0; i < 2; i++) {
        x.view.dim[i] = v.dim[1 - i];
        x.view.stride[i] = v.stride[1 - i];
    }
    return x;
}

bool rx_split_net(const rx_steps *s)
{
    const rx_op op = s->part->call.op;
    const rlx_rnn_desc *d = s->part->call.attr;
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, s->part->call.n_in);
    const net n = {.s = s, .d = d, .seq = x.view.dim[d->batch_first],
                   .batch = x.view.dim[!d->batch_first], .hidden = d->hidden,
                   .dirs = d->bidirectional ? 2 : 1, .type = x.view.dtype,
                   .gates = op == RX_OP_lstm ? 4 : op == RX_OP_gru ? 3 : 1};
    if (n.seq < 1 || n.batch < 1 || n.hidden < 1)
        return false;
    layer l = {.x = d->batch_first ? swapped(x) : x};
    rx_tensor all = {0};
    for (; l.index < d->layers; l.index++) {
        rx_tensor both[2];
        for (l.dir = 0; l.dir < n.dirs; l.dir++)
            both[l.dir] = add_direction(&n, &l);
        all = both[0];
        if (n.dirs == 2) {
            all = rx_steps_like(s, RLX_F32, &both[0].view, 2, 2 * n.hidden);
            rx_steps_join(s, 2, both, 2, all);
        }
        l.x = l.index + 1 < d->layers ? cast(s, all, n.type) : all;
    }
    if (y.view.rank >= 0)
        store(s, d->batch_first ? swapped(all) : all, y);
    return true;
}

/* ---- State space models ---------------------------------------------------------------------- */

/* Whether the operand has an axis of tokens [B, S, ..]: not a, skip and the initial state. */
static bool has_tokens(rx_op op, size_t i)
{
    return op == RX_OP_gated_delta_net ? i < 5 : i != 2 && i < 5;
}

/* Tokens of a part, one batch at a time. 0: a part would not be smaller. */
static int64_t count_tokens(const rx_steps *s)
{
    const rx_gpu_call *c = &s->part->call;
    int64_t most = s->part->view[0].dim[1];
    if (s->part->view[0].dim[0] != 1 || most < 2)
        return 0;
    most = (most + 1) / 2;
    for (size_t i = 0; i < c->n_in + 1; i++) {
        const rx_view *v = &s->part->view[i];
        if (i < c->n_in && (!has_tokens(c->op, i) || v->rank < 0))
            continue;
        const int64_t fits = rx_steps_length(s, v, 1, 1);
        most = fits < most ? fits : most;
    }
    return most;
}

/* [B, E, N], [B, H, P, N] or [B, H, N, P] in 32 bits. */
static rx_tensor new_state(const rx_steps *s)
{
    const rx_view *x = s->part->view;
    const rx_op op = s->part->call.op;
    if (op == RX_OP_selective_scan)
        return rx_steps_new(s, RLX_F32, 3, (int64_t[]){x->dim[0], x->dim[2], x[2].dim[1]});
    const int64_t dim[4] = {x->dim[0], x->dim[2], x->dim[3],
                            op == RX_OP_mamba2 ? x[3].dim[3] : x[2].dim[3]};
    return rx_steps_new(s, RLX_F32, 4, dim);
}

bool rx_split_scan(const rx_steps *s)
{
    const rx_gpu_call *c = &s->part->call;
    const size_t first = c->op == RX_OP_gated_delta_net ? 5 : 6, y = first + 1;
    const int64_t total = s->part->view[0].dim[1], length = count_tokens(s);
    const rx_tensor absent = {.view = {.rank = -1}};
    if (!length || s->part->view[c->n_in].rank < 0)
        return false;
    const rx_tensor state[2] = {new_state(s), new_state(s)};
    for (int64_t at = 0, k = 0; at < total; at += length, k++) {
        rx_tensor t[9];
        for (size_t i = 0; i < first + 3; i++) {
            const bool there = i < y ? i < c->n_in : i - y < c->n_out;
            t[i] = there ? rx_steps_tensor(s, i < y ? i : c->n_in + i - y) : absent;
            if (t[i].view.rank >= 0 && (i == y || has_tokens(c->op, i)))
                t[i] = rx_steps_narrow(&t[i], 1, at, length);
        }
        if (at > 0)
            t[first] = state[k % 2];
        if (at + length < total)
            t[y + 1] = state[(k + 1) % 2];
        rx_steps_add(s, c->op, c->attr, t, y, 2);
    }
    return true;
}
