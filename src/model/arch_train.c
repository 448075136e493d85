/* SPDX-License-Identifier: MIT */
/* Graphs that train an adapter (rx_train_build): plain causal attention over whole texts, the pairs
 * of small matrices as states, the loss of all rows and the optimiser. Weights stay as they are. */
#include <stdio.h>

#include "model/build.h"

/* Products that get a pair: those of attention and of feed-forward without experts. */
static bool is_adapted(rx_role role)
{
    switch (role) {
    case RX_T_QKV: case RX_T_Q: case RX_T_K: case RX_T_V: case RX_T_O: case RX_T_GATE: case RX_T_UP:
    case RX_T_GATE_UP: case RX_T_DOWN: return true;
    default: return false;
    }
}

size_t rx_most_trained(const rx_facts *f)
{
    return (size_t)f->layers * RX_N_ROLES * 2;
}

void rx_build_train_inputs(rx_builder *b)
{
    b->batch = b->d->train->batch;
    b->seq = b->d->train->tokens;
    b->rows = b->batch * b->seq;
    const rlx_dim token[] = {b->batch, b->seq};
    b->tokens = rlx_input(b->g, "tokens", RLX_I32, 2, token);
    b->positions = rlx_input(b->g, "positions", RLX_I32, 2, token);
}

static rlx_value trained_state(rx_builder *b, const char *of, const char *which, int64_t rows,
                               int64_t columns)
{
    char name[200];
    snprintf(name, sizeof name, "%.180s.lora_%s", of, which);
    const rlx_value v = rlx_state(b->g, name, RLX_F32, 2, (rlx_dim[]){rows, columns});
    b->trained[b->n_trained++] = v;
    return v;
}

rlx_value rx_build_trained(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x, rlx_value y)
{
    rlx_graph *g = b->g;
    rlx_file_tensor t;
    if (!is_adapted(role) || !rx_facts_tensor(b->f, l, role, &t))
        return y;
    const rx_train_build *d = b->d->train;
    const rlx_shape s = rx_facts_shape(b->f, l, role);
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    const rlx_value down = trained_state(b, t.name, "a", d->rank, s.dim[s.rank - 1]);
    const rlx_value up = trained_state(b, t.name, "b", s.dim[0], d->rank);
    rlx_value low = rlx_matmul_ex(g, x, down, RLX_NONE, RLX_NONE, &turned);
    low = rlx_mul(g, low, rlx_scalar(g, RLX_F32, d->scale));
    return rlx_add(g, y, rlx_matmul_ex(g, low, up, RLX_NONE, RLX_NONE, &turned));
}

void rx_build_loss(rx_builder *b, rlx_value x)
{
    rlx_graph *g = b->g;
    const rlx_value labels = rlx_input(g, "labels", RLX_I32, 2, (rlx_dim[]){b->batch, b->seq});
    const rlx_value loss = rlx_cross_entropy(g, rx_build_logits(b, x), labels, NULL);
    rlx_output(g, "loss", loss);
    rlx_optimizer(g, loss, b->trained, b->n_trained, b->d->train->optimizer, NULL);
}
