/* SPDX-License-Identifier: MIT */
/* Graphs that train (rx_train_build): plain attention over whole texts, an adapter's pairs of small
 * matrices or all weights as states, the loss of all rows and the optimiser. */
#include <stdio.h>

#include "model/build.h"
#include "model/train.h"

bool rx_train_adapts(rx_role role)
{
    switch (role) {
    case RX_T_QKV: case RX_T_Q: case RX_T_K: case RX_T_V: case RX_T_O: case RX_T_GATE: case RX_T_UP:
    case RX_T_GATE_UP: case RX_T_DOWN: case RX_T_SSM_IN: case RX_T_SSM_OUT: case RX_T_MLA_Q:
    case RX_T_Q_DOWN: case RX_T_Q_UP: case RX_T_KV_DOWN: case RX_T_KV_UP: case RX_T_DELTA_IN:
    case RX_T_DELTA_QKV: case RX_T_DELTA_Z: case RX_T_DELTA_OUT: return true;
    default: return false;
    }
}

size_t rx_most_trained(const rx_facts *f)
{
    return (size_t)(f->layers + 1) * RX_N_ROLES * 2;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

void rx_build_train_inputs(rx_builder *b)
{
    rlx_graph *g = b->g;
    const rx_train_build *d = b->d->train;
    const rx_has parts = b->f->arch->parts;
    b->batch = d->batch * d->texts;
    b->seq = parts & RX_HAS_RECURRENT ? d->tokens : rlx_dim_named(g, "tokens", d->tokens);
    b->rows = rlx_dim_mul(g, b->batch, b->seq);
    const rlx_dim token[] = {b->batch, b->seq};
    b->tokens = rlx_input(g, "tokens", RLX_I32, 2, token);
    if (parts & RX_HAS_DECODER)
        b->positions = rlx_input(g, "positions", RLX_I32, 2, token);
    else
        b->lengths = rlx_input(g, "lengths", RLX_I32, 1, &b->batch);
}

/* ---- What learns ----------------------------------------------------------------------------- */

static rlx_value learned_state(rx_builder *b, const char *name, const rlx_shape *s)
{
    const rlx_value v = rlx_state(b->g, name, RLX_F32, s->rank, s->dim);
    b->trained[b->n_trained++] = v;
    return v;
}

bool rx_learns_all(const rx_builder *b)
{
    return b->d->train && b->d->train->full;
}

rlx_value rx_build_learned(rx_builder *b, const rx_layer *l, rx_role role)
{
    rlx_file_tensor t;
    if (!rx_facts_tensor(b->f, l, role, &t))
        return RLX_NONE;
    const rlx_shape s = rx_facts_shape(b->f, l, role);
    return learned_state(b, t.name, &s);
}

static rlx_value adapter_state(rx_builder *b, const char *of, const char *which, int64_t rows,
                               int64_t columns)
{
    char name[200];
    snprintf(name, sizeof name, "%.180s.lora_%s", of, which);
    return learned_state(b, name, &(rlx_shape){2, {rows, columns}});
}

rlx_value rx_build_trained(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x, rlx_value y)
{
    rlx_graph *g = b->g;
    rlx_file_tensor t;
    if (b->d->train->full || !rx_train_adapts(role) || !rx_facts_tensor(b->f, l, role, &t))
        return y;
    const rx_train_build *d = b->d->train;
    const rlx_shape s = rx_facts_shape(b->f, l, role);
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    const rlx_value down = adapter_state(b, t.name, "a", d->rank, s.dim[s.rank - 1]);
    const rlx_value up = adapter_state(b, t.name, "b", s.dim[0], d->rank);
    rlx_value low = rlx_matmul_ex(g, x, down, RLX_NONE, RLX_NONE, &turned);
    low = rlx_mul(g, low, rlx_scalar(g, RLX_F32, d->scale));
    return rlx_add(g, y, rlx_matmul_ex(g, low, up, RLX_NONE, RLX_NONE, &turned));
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static void finish_loss(rx_builder *b, rlx_value loss)
{
    rlx_output(b->g, "loss", loss);
    if (b->d->train->optimizer)
        rlx_optimizer(b->g, loss, b->trained, b->n_trained, b->d->train->optimizer, NULL);
}

void rx_build_loss(rx_builder *b, rlx_value x)
{
    const rlx_dim token[] = {b->batch, b->seq};
    const rlx_value labels = rlx_input(b->g, "labels", RLX_I32, 2, token);
    finish_loss(b, rlx_cross_entropy(b->g, rx_build_logits(b, x), labels, NULL));
}

/* The rows of hidden [R, T, width] that make the vector of a text, as f32 [R, T, 1]. Their mean and
 * their sum have one direction. */
static rlx_value pooled_rows(rx_builder *b)
{
    rlx_graph *g = b->g;
    const rlx_range_desc d = {RLX_INIT(rlx_range_desc), .n = b->seq, .out = RLX_I32};
    const rlx_value at = rlx_reshape(g, rlx_range(g, &d), 2, (rlx_dim[]){1, b->seq});
    const rlx_value n = rlx_reshape(g, b->lengths, 2, (rlx_dim[]){b->batch, 1});
    const rlx_value one = rlx_scalar(g, RLX_I32, 1);
    rlx_value chosen = rlx_lt(g, at, n);
    if (b->d->train->pooling == RLX_POOLING_FIRST)
        chosen = rlx_lt(g, at, rlx_min(g, n, one));
    else if (b->d->train->pooling == RLX_POOLING_LAST)
        chosen = rlx_eq(g, at, rlx_sub(g, n, one));
    return rlx_reshape(g, rlx_cast(g, chosen, RLX_F32), 3, (rlx_dim[]){b->batch, b->seq, 1});
}

/* Each query against all other texts of the batch. */
void rx_build_contrast(rx_builder *b, rlx_value hidden)
{
    rlx_graph *g = b->g;
    const rx_train_build *d = b->d->train;
    const int64_t tokens = 1, others = d->batch * (d->texts - 1);
    const rlx_value labels = rlx_input(g, "labels", RLX_I32, 1, (rlx_dim[]){d->batch});
    rlx_value v = rlx_mul(g, hidden, pooled_rows(b));
    v = rlx_reduce(g, RLX_REDUCE_SUM, v, &tokens, 1, false);
    const rlx_value query = rlx_narrow(g, v, 0, 0, d->batch);
    const rlx_value other = rlx_narrow(g, v, 0, d->batch, others);
    finish_loss(b, rlx_contrastive_loss(g, query, other, labels, d->temperature));
}
