/* SPDX-License-Identifier: MIT */
/* Mixture of experts: the router, the expert banks, the shared expert. */
#include <math.h>

#include "model/build.h"

/* ---- The router ------------------------------------------------------------------------------ */

static rlx_value top(rx_builder *b, rlx_value x, int64_t k, int64_t axis, rlx_value *ids)
{
    const rlx_topk_desc d = {RLX_INIT(rlx_topk_desc), .k = k, .axis = axis, .out = RLX_I32};
    return rlx_top_k(b->g, x, &d, ids);
}

/* Group scores [rows, groups]: the best expert of each or, with sigmoid, the sum of its best
 * two. */
static rlx_value score_groups(rx_builder *b, rlx_value score)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t each = f->experts / f->expert_groups, axis = 2;
    const rlx_dim dims[] = {b->rows, f->expert_groups, each};
    const int64_t k = f->router == RX_ROUTER_SIGMOID && each > 1 ? 2 : 1;
    rlx_value ids;
    const rlx_value best = top(b, rlx_reshape(g, score, 3, dims), k, 2, &ids);
    return rlx_reduce(g, RLX_REDUCE_SUM, best, &axis, 1, false);
}

/* Sets the scores of experts outside of the best groups to -inf. */
static rlx_value limit_groups(rx_builder *b, rlx_value score)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t n = f->expert_groups, each = f->experts / n;
    const rlx_dim used[] = {b->rows, f->groups_used}, all[] = {b->rows, n};
    const rlx_dim wide[] = {b->rows, n, each}, column[] = {b->rows, n, 1};
    const rlx_dim flat[] = {b->rows, f->experts};
    rlx_value ids;
    top(b, score_groups(b, score), f->groups_used, 1, &ids);
    const rlx_value none = rlx_expand(g, rlx_scalar(g, RLX_F32, -INFINITY), 2, all);
    const rlx_value open = rlx_expand(g, rlx_scalar(g, RLX_F32, 0), 2, used);
    const rlx_value add = rlx_scatter_elements(g, none, ids, open, 1, RLX_SCATTER_NONE);
    score = rlx_add(g, rlx_reshape(g, score, 3, wide), rlx_reshape(g, add, 3, column));
    return rlx_reshape(g, score, 2, flat);
}

/* Router scores [rows, experts]. */
static rlx_value build_scores(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const rlx_value bias = rx_build_vector(b, l, RX_T_ROUTER_BIAS);
    const rlx_value y = rx_build_linear(b, l, x, RX_T_ROUTER, bias, RLX_NONE);
    switch (b->f->router) {
    case RX_ROUTER_SIGMOID: return rlx_sigmoid(b->g, y);
    case RX_ROUTER_SOFTMAX_OF_CHOSEN: return y;
    default: return rlx_softmax(b->g, y, 1);
    }
}

/* The experts of each row of x [rows, width]: ids i32 [rows * k] and weights [rows, k, 1]. */
static rlx_value build_router(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value *ids)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t k = f->experts_used, axis = 1;
    const rlx_dim flat = rlx_dim_mul(g, b->rows, k), column[] = {b->rows, k, 1};
    const rlx_value scores = build_scores(b, l, x);
    const rlx_value bias = rx_build_vector(b, l, RX_T_ROUTER_CHOICE);
    const bool limited = f->expert_groups > 1 && f->groups_used < f->expert_groups;
    rlx_value by = bias.id ? rlx_add(g, scores, bias) : scores;
    if (limited)
        by = limit_groups(b, by);
    rlx_value w = top(b, by, k, 1, ids);
    if (bias.id || limited)
        w = rlx_gather_elements(g, scores, *ids, 1);
    *ids = rlx_reshape(g, *ids, 1, &flat);
    if (f->router == RX_ROUTER_SOFTMAX_OF_CHOSEN)
        w = rlx_softmax(g, w, 1);
    else if (f->norm_experts)
        w = rlx_div(g, w, rlx_reduce(g, RLX_REDUCE_SUM, w, &axis, 1, true));
    if (f->expert_scale != 1)
        w = rlx_mul(g, w, rlx_scalar(g, RLX_F32, f->expert_scale));
    return rlx_reshape(g, w, 3, column);
}

/* ---- Experts --------------------------------------------------------------------------------- */

/* Row i of x times expert ids[i] of a bank. */
static rlx_value build_bank(rx_builder *b, const rx_layer *l, rlx_value x, rx_role role,
                            rx_role bias_role, rlx_value ids)
{
    rx_build_noted_bank(b, l, role, x, ids, b->f->experts);
    const rlx_value y = rx_build_grouped(b, x, rx_build_weight(b, l, role), ids);
    const rlx_value bias = bias_role < RX_N_ROLES ? rx_build_vector(b, l, bias_role) : RLX_NONE;
    return bias.id ? rlx_add(b->g, y, rlx_gather(b->g, bias, ids, 0)) : y;
}

/* act(gate) * up of the experts. */
static rlx_value build_inner(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value ids)
{
    const int64_t n = b->f->expert_hidden;
    if (l->parts & RX_HAS_GATE_UP_EXPERTS) {
        const rlx_value y = build_bank(b, l, x, RX_T_GATE_UP_EXPERTS, RX_N_ROLES, ids);
        return rx_build_gated(b, rlx_narrow(b->g, y, 1, 0, n), rlx_narrow(b->g, y, 1, n, n));
    }
    const rlx_value gate = build_bank(b, l, x, RX_T_GATE_EXPERTS, RX_T_GATE_EXPERTS_BIAS, ids);
    const rlx_value up = build_bank(b, l, x, RX_T_UP_EXPERTS, RX_T_UP_EXPERTS_BIAS, ids);
    return rx_build_gated(b, gate, up);
}

/* The shared expert, for x [rows, width]; where it has a router: times sigmoid(x . router). */
static rlx_value build_shared(rx_builder *b, const rx_layer *l, rlx_value x)
{
    rlx_graph *g = b->g;
    const rlx_dim row[] = {1, b->f->width};
    const rlx_value router = rx_build_vector(b, l, RX_T_SHARED_ROUTER);
    const rlx_value gate = rx_build_linear(b, l, x, RX_T_SHARED_GATE, RLX_NONE, RLX_NONE);
    const rlx_value up = rx_build_linear(b, l, x, RX_T_SHARED_UP, RLX_NONE, RLX_NONE);
    const rlx_value y = rx_build_linear(b, l, rx_build_gated(b, gate, up), RX_T_SHARED_DOWN,
                                        RLX_NONE, RLX_NONE);
    if (!router.id)
        return y;
    const rlx_value share = rx_build_product(b, x, rlx_reshape(g, router, 2, row), RLX_NONE,
                                             RLX_NONE);
    return rlx_mul(g, y, rlx_sigmoid(g, share));
}

/* Each row goes through its k experts; the results are summed with the router's weights. */
rlx_value rx_build_experts(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual)
{
    rlx_graph *g = b->g;
    const int64_t width = b->f->width, k = b->f->experts_used, axis = 1;
    const rlx_dim rows[] = {b->rows, width}, one[] = {b->rows, 1, width};
    const rlx_dim each[] = {b->rows, k, width}, flat[] = {rlx_dim_mul(g, b->rows, k), width};
    const rlx_dim whole[] = {b->batch, b->seq, width};
    const bool before = b->f->arch->weigh_input;
    rlx_value ids;
    x = rlx_reshape(g, x, 2, rows);
    const rlx_value weights = build_router(b, l, x, &ids);
    rlx_value many = rlx_expand(g, rlx_reshape(g, x, 3, one), 3, each);
    if (before)
        many = rlx_mul(g, many, weights);
    const rlx_value inner = build_inner(b, l, rlx_reshape(g, many, 2, flat), ids);
    rlx_value y = build_bank(b, l, inner, RX_T_DOWN_EXPERTS, RX_T_DOWN_EXPERTS_BIAS, ids);
    y = rlx_reshape(g, y, 3, each);
    y = rlx_reduce(g, RLX_REDUCE_SUM, before ? y : rlx_mul(g, y, weights), &axis, 1, false);
    if (l->parts & RX_HAS_SHARED)
        y = rlx_add(g, y, build_shared(b, l, x));
    y = rlx_reshape(g, y, 3, whole);
    return residual.id ? rlx_add(g, y, residual) : y;
}
