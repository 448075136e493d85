/* SPDX-License-Identifier: MIT */
/* Recurrent networks and state space models: builders and shape rules. Batch and sequence may be
 * named dimensions, the others are fixed. Weights, gates and states may be f32 beside f16 or bf16
 * activations; a last state has the type of the first one if that is given, else that of x. */
#include <stdio.h>

#include "base/sized.h"
#include "ir/infer.h"

#define MAX_LAYERS 16
#define MAX_HIDDEN (1 << 24)

/* ---- Builders -------------------------------------------------------------------------------- */

/* x, then the first states, then four weights a layer. */
static rlx_value add_rnn(rlx_graph *g, rx_op op, const rlx_value *head, size_t n_head,
                         const rlx_rnn_layer *layers, const rlx_rnn_desc *d)
{
    rlx_value in[3 + 4 * MAX_LAYERS];
    rlx_rnn_desc full;
    rlx_error err;
    if (RX_DESC_READ(rlx_rnn_desc, &full, d, &err) != RLX_OK) {
        rx_graph_fail(g, err.code, "%s", err.text);
        return RLX_NONE;
    }
    const int64_t n_layers = full.layers ? full.layers : 1;
    if (n_layers < 1 || n_layers > MAX_LAYERS || !layers) {
        rx_graph_fail(g, RLX_INVALID, "%s (node %zu): layers expected from 1 to %d, got %lld%s",
                      rx_ops[op].name, rlx_graph_n_nodes(g), MAX_LAYERS, (long long)n_layers,
                      layers ? "" : " that are NULL");
        return RLX_NONE;
    }
    size_t n = 0;
    for (; n < n_head; n++)
        in[n] = head[n];
    for (int64_t i = 0; i < n_layers; i++) {
        in[n++] = layers[i].w_ih;
        in[n++] = layers[i].w_hh;
        in[n++] = layers[i].b_ih;
        in[n++] = layers[i].b_hh;
    }
    return rx_graph_add(g, op, in, n, &full, NULL);
}

rlx_value rlx_lstm(rlx_graph *g, rlx_value x, const rlx_rnn_layer *layers, const rlx_value init[2],
                   const rlx_rnn_desc *d, rlx_value last[2])
{
    const rlx_value head[] = {x, init ? init[0] : RLX_NONE, init ? init[1] : RLX_NONE};
    const rlx_value y = add_rnn(g, RX_OP_lstm, head, 3, layers, d);
    for (uint32_t i = 0; last && i < 2; i++)
        last[i] = rx_result(y, 1 + i);
    return y;
}

rlx_value rlx_gru(rlx_graph *g, rlx_value x, const rlx_rnn_layer *layers, rlx_value h0,
                  const rlx_rnn_desc *d, rlx_value *h)
{
    const rlx_value head[] = {x, h0};
    const rlx_value y = add_rnn(g, RX_OP_gru, head, 2, layers, d);
    if (h)
        *h = rx_result(y, 1);
    return y;
}

rlx_value rlx_rnn(rlx_graph *g, rlx_value x, const rlx_rnn_layer *layers, rlx_value h0,
                  const rlx_rnn_desc *d, rlx_value *h)
{
    const rlx_value head[] = {x, h0};
    const rlx_value y = add_rnn(g, RX_OP_rnn, head, 2, layers, d);
    if (h)
        *h = rx_result(y, 1);
    return y;
}

static rlx_value add_scan(rlx_graph *g, rx_op op, const rlx_value *in, size_t n, rlx_value *last)
{
    const rlx_value y = rx_graph_add(g, op, in, n, NULL, NULL);
    if (last)
        *last = rx_result(y, 1);
    return y;
}

rlx_value rlx_selective_scan(rlx_graph *g, const rlx_value in[7], rlx_value *h)
{
    return add_scan(g, RX_OP_selective_scan, in, 7, h);
}

rlx_value rlx_mamba2(rlx_graph *g, const rlx_value in[7], rlx_value *s)
{
    return add_scan(g, RX_OP_mamba2, in, 7, s);
}

rlx_value rlx_gated_delta_net(rlx_graph *g, const rlx_value in[6], rlx_value *s)
{
    return add_scan(g, RX_OP_gated_delta_net, in, 6, s);
}

/* ---- Checks shared by the rules -------------------------------------------------------------- */

/* An operand of the type of x with just this shape. */
static rlx_status check_activation(rx_infer *c, size_t i, const char *what, const rlx_shape *want)
{
    RLX_TRY(rx_check_type(c, i, what, RX_T(c->in[0]->dtype)));
    return rx_check_shape(c, i, what, want);
}

/* The same, but f32 will do too. */
static rlx_status check_precise(rx_infer *c, size_t i, const char *what, const rlx_shape *want)
{
    RLX_TRY(rx_check_type(c, i, what, RX_T(c->in[0]->dtype) | RX_T(RLX_F32)));
    return rx_check_shape(c, i, what, want);
}

static rlx_status check_optional(rx_infer *c, size_t i, const char *what, const rlx_shape *want)
{
    return rx_in(c, i) ? check_precise(c, i, what, want) : RLX_OK;
}

/* First state i, if there, and the last state, result `out`, which is like it. */
static rlx_status check_state(rx_infer *c, size_t i, const char *what, const rlx_shape *want,
                              size_t out)
{
    RLX_TRY(check_optional(c, i, what, want));
    const rx_value *first = rx_in(c, i);
    rx_out(c, out, first ? first->dtype : c->in[0]->dtype, want);
    return RLX_OK;
}

/* The axes of operand i from `axis` on have fixed sizes. */
static rlx_status check_fixed_from(rx_infer *c, size_t i, const char *what, int axis)
{
    char text[RX_TYPE_TEXT];
    const rx_value *v = c->in[i];
    for (int k = axis; k < v->shape.rank; k++)
        if (!rx_dim_is_number(v->shape.dim[k]))
            return rx_infer_fail(c, "operand %zu (%s) expected with axis %d of fixed size, got %s",
                                 i, what, k, rx_type_text(c->g, v->dtype, &v->shape, text));
    return RLX_OK;
}

/* ---- lstm, gru, rnn -------------------------------------------------------------------------- */

static rlx_status check_rnn_desc(rx_infer *c, rlx_rnn_desc *d, size_t first)
{
    if (d->layers == 0)
        d->layers = 1;
    if (d->layers < 1 || d->layers > MAX_LAYERS)
        return rx_infer_fail(c, "layers expected from 1 to %d, got %lld", MAX_LAYERS,
                             (long long)d->layers);
    if (c->n_in > first + 4 * (size_t)d->layers)
        return rx_infer_fail(c, "expected at most %zu operands for %lld layers, got %zu",
                             first + 4 * (size_t)d->layers, (long long)d->layers, c->n_in);
    if (d->bidirectional && d->reverse)
        return rx_infer_fail(c, "reverse expected only with one direction, got bidirectional=true");
    if (d->relu && c->op != RX_OP_rnn)
        return rx_infer_fail(c, "has no attribute relu, that is for rnn");
    RLX_TRY(rx_check_rank(c, first + 1, "w_hh of layer 0", 3, 3));
    RLX_TRY(check_fixed_from(c, first + 1, "w_hh of layer 0", 0));
    if (d->hidden == 0)
        d->hidden = c->in[first + 1]->shape.dim[2];
    if (d->hidden >= 1 && d->hidden <= MAX_HIDDEN)
        return RLX_OK;
    return rx_infer_fail(c, "hidden expected from 1 to %d, got %lld", MAX_HIDDEN,
                         (long long)d->hidden);
}

/* The four weights of a layer from operand `at` on, for `inputs` inputs. */
static rlx_status check_layer(rx_infer *c, size_t at, int layer, int64_t inputs)
{
    static const char *const roles[] = {"w_ih", "w_hh", "b_ih", "b_hh"};
    const rlx_rnn_desc *d = c->attr;
    const int64_t gates = c->op == RX_OP_lstm ? 4 : c->op == RX_OP_gru ? 3 : 1;
    const int64_t dirs = d->bidirectional ? 2 : 1;
    for (size_t i = 0; i < 4; i++) {
        char what[32];
        rlx_shape want = {.rank = i < 2 ? 3 : 2, .dim = {dirs, gates * d->hidden}};
        if (i < 2)
            want.dim[2] = i ? d->hidden : inputs;
        snprintf(what, sizeof what, "%s of layer %d", roles[i], layer);
        RLX_TRY(i < 2 ? check_activation(c, at + i, what, &want)
                      : check_optional(c, at + i, what, &want));
    }
    return RLX_OK;
}

/* lstm: x, h0?, c0?, then w_ih, w_hh, b_ih?, b_hh? of each layer; gru, rnn: without c0. */
rlx_status rx_infer_rnn(rx_infer *c)
{
    static const char *const states[] = {"h0", "c0"};
    rlx_rnn_desc *d = c->attr;
    const size_t n_states = c->op == RX_OP_lstm ? 2 : 1, first = 1 + n_states;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", 3, 3));
    RLX_TRY(check_fixed_from(c, 0, "x", 2));
    RLX_TRY(check_rnn_desc(c, d, first));

    const int64_t dirs = d->bidirectional ? 2 : 1;
    const rlx_shape *x = &c->in[0]->shape;
    for (int i = 0; i < d->layers; i++)
        RLX_TRY(check_layer(c, first + 4 * (size_t)i, i, i ? dirs * d->hidden : x->dim[2]));

    rlx_shape y = *x;
    y.dim[2] = dirs * d->hidden;
    rx_out(c, 0, c->in[0]->dtype, &y);
    const rlx_shape state = {.rank = 3,
                             .dim = {d->layers * dirs, x->dim[d->batch_first ? 0 : 1], d->hidden}};
    for (size_t i = 0; i < n_states; i++)
        RLX_TRY(check_state(c, 1 + i, states[i], &state, 1 + i));
    return RLX_OK;
}

/* ---- State space models ---------------------------------------------------------------------- */

/* x, delta [B,S,E], a [E,N], b, c [B,S,N], skip? [E], h0? [B,E,N]. */
rlx_status rx_infer_selective_scan(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "x", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "x", 3, 3));
    RLX_TRY(check_fixed_from(c, 0, "x", 2));
    RLX_TRY(rx_check_rank(c, 2, "a", 2, 2));
    RLX_TRY(check_fixed_from(c, 2, "a", 0));
    const rlx_shape *x = &c->in[0]->shape;
    const rlx_dim batch = x->dim[0], seq = x->dim[1], e = x->dim[2], n = c->in[2]->shape.dim[1];
    const rlx_shape per_token = {.rank = 3, .dim = {batch, seq, n}};

    RLX_TRY(check_activation(c, 1, "delta", x));
    RLX_TRY(check_precise(c, 2, "a", &(rlx_shape){.rank = 2, .dim = {e, n}}));
    RLX_TRY(check_activation(c, 3, "b", &per_token));
    RLX_TRY(check_activation(c, 4, "c", &per_token));
    RLX_TRY(check_optional(c, 5, "skip", &(rlx_shape){.rank = 1, .dim = {e}}));
    rx_out(c, 0, c->in[0]->dtype, x);
    return check_state(c, 6, "h0", &(rlx_shape){.rank = 3, .dim = {batch, e, n}}, 1);
}

/* x [B,S,H,P], dt [B,S,H], a [H], b, c [B,S,G,N], skip? [H], s0? [B,H,P,N]. */
rlx_status rx_infer_mamba2(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "x", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "x", 4, 4));
    RLX_TRY(check_fixed_from(c, 0, "x", 2));
    RLX_TRY(rx_check_rank(c, 3, "b", 4, 4));
    RLX_TRY(check_fixed_from(c, 3, "b", 2));
    const rlx_shape *x = &c->in[0]->shape;
    const rlx_dim batch = x->dim[0], seq = x->dim[1], heads = x->dim[2];
    const rlx_dim groups = c->in[3]->shape.dim[2], n = c->in[3]->shape.dim[3];
    const rlx_shape per_group = {.rank = 4, .dim = {batch, seq, groups, n}};
    const rlx_shape per_head = {.rank = 1, .dim = {heads}};

    if (groups < 1 || heads % groups != 0)
        return rx_infer_fail(c, "operand 3 (b) expected with a number of groups that divides the "
                             "%lld heads of x, got %lld", (long long)heads, (long long)groups);
    RLX_TRY(check_precise(c, 1, "dt", &(rlx_shape){.rank = 3, .dim = {batch, seq, heads}}));
    RLX_TRY(check_precise(c, 2, "a", &per_head));
    RLX_TRY(check_activation(c, 3, "b", &per_group));
    RLX_TRY(check_activation(c, 4, "c", &per_group));
    RLX_TRY(check_optional(c, 5, "skip", &per_head));
    rx_out(c, 0, c->in[0]->dtype, x);
    const rlx_shape state = {.rank = 4, .dim = {batch, heads, x->dim[3], n}};
    return check_state(c, 6, "s0", &state, 1);
}

/* q, k [B,S,H,N], v [B,S,H,P], gate [B,S,H] or [B,S,H,N], beta [B,S,H], s0? [B,H,N,P]. */
rlx_status rx_infer_gated_delta_net(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "q", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "q", 4, 4));
    RLX_TRY(check_fixed_from(c, 0, "q", 2));
    RLX_TRY(rx_check_rank(c, 2, "v", 4, 4));
    RLX_TRY(check_fixed_from(c, 2, "v", 2));
    RLX_TRY(rx_check_rank(c, 3, "gate", 3, 4));
    const rlx_shape *q = &c->in[0]->shape;
    const rlx_dim batch = q->dim[0], seq = q->dim[1], heads = q->dim[2], n = q->dim[3];
    const rlx_dim p = c->in[2]->shape.dim[3];
    const rlx_shape per_head = {.rank = 3, .dim = {batch, seq, heads}};
    const rlx_shape value = {.rank = 4, .dim = {batch, seq, heads, p}};

    if (n < 1)
        return rx_infer_fail(c, "operand 0 (q) expected with a last axis of at least 1, got 0");
    RLX_TRY(check_activation(c, 1, "k", q));
    RLX_TRY(check_activation(c, 2, "v", &value));
    RLX_TRY(check_precise(c, 3, "gate", c->in[3]->shape.rank == 3 ? &per_head : q));
    RLX_TRY(check_precise(c, 4, "beta", &per_head));
    rx_out(c, 0, c->in[0]->dtype, &value);
    const rlx_shape state = {.rank = 4, .dim = {batch, heads, n, p}};
    return check_state(c, 5, "s0", &state, 1);
}
