/* SPDX-License-Identifier: MIT */
/* Random graphs of elementwise operations, views, reductions and products over a few shapes that
 * broadcast with each other: what fusion, folding and the memory plan must not change. Functions
 * are smooth and bounded, so that a difference in rounding stays a small difference. */
#include "ops/graph_table.h"
#include "ops/optest.h"

#define MAX_VALUES 64

typedef struct random_graph {
    rlx_graph *g;
    rlx_value pool[MAX_VALUES];
    size_t n;
    rlx_value mask; /* bool [4,1,6] */
    uint64_t state;
} random_graph;

static uint32_t pick(random_graph *r, uint32_t n)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(r->state >> 33) % n;
}

/* Recent values more often, so that chains grow long. */
static rlx_value any_value(random_graph *r)
{
    if (r->n > 4 && pick(r, 2)) return r->pool[r->n - 1 - pick(r, 4)];
    return r->pool[pick(r, (uint32_t)r->n)];
}

/* A value whose shape is [4,5,6] after broadcasting. */
static rlx_value full_value(random_graph *r)
{
    const rlx_dim full[] = {4, 5, 6};
    return rlx_expand(r->g, any_value(r), 3, full);
}

static void add_leaves(random_graph *r)
{
    static const struct { const char *name; int rank; rlx_dim dims[3]; } leaves[] = {
        {"full", 3, {4, 5, 6}}, {"rows", 2, {5, 6}},  {"last", 1, {6}},
        {"middle", 3, {1, 5, 1}}, {"outer", 3, {4, 1, 6}}, {"scalar", 0, {0}},
    };
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
        r->pool[r->n++] = i % 3 == 2 ? rlx_param(r->g, leaves[i].name, RLX_F32, leaves[i].rank,
                                                 leaves[i].dims)
                                     : rlx_input(r->g, leaves[i].name, RLX_F32, leaves[i].rank,
                                                 leaves[i].dims);
    }
    const rlx_dim dims[] = {4, 1, 6};
    r->mask = rlx_input(r->g, "mask", RLX_BOOL, 3, dims);
    r->pool[r->n++] = rlx_scalar(r->g, RLX_F32, 0.5);
}

static rlx_value add_unary(random_graph *r)
{
    typedef rlx_value unary(rlx_graph *, rlx_value);
    static unary *const functions[] = {rlx_tanh, rlx_sigmoid, rlx_sin,     rlx_relu, rlx_neg,
                                       rlx_erf,  rlx_silu,    rlx_softsign, rlx_abs,  rlx_atan};
    return functions[pick(r, 10)](r->g, any_value(r));
}

static rlx_value add_binary(random_graph *r)
{
    const rlx_value a = any_value(r), b = any_value(r);
    switch (pick(r, 6)) {
    case 0: return rlx_add(r->g, a, b);
    case 1: return rlx_sub(r->g, a, b);
    case 2: return rlx_max(r->g, a, b);
    case 3: return rlx_where(r->g, r->mask, a, b);
    case 4: return rlx_clamp(r->g, rlx_mul(r->g, a, b), -2, 2);
    default: return rlx_tanh(r->g, rlx_mul(r->g, a, b));
    }
}

/* Operations that end a chain: views, reductions, products; the result broadcasts to [4,5,6]. */
static rlx_value add_other(random_graph *r)
{
    const rlx_value x = full_value(r);
    const int swap[] = {0, 2, 1};
    const int64_t axis = pick(r, 3);
    const rlx_dim flat[] = {20, 6}, full[] = {4, 5, 6};
    switch (pick(r, 7)) {
    case 0: return rlx_reduce(r->g, RLX_REDUCE_MEAN, x, &axis, 1, true);
    case 1: return rlx_softmax(r->g, x, axis);
    case 2: return rlx_reshape(r->g, rlx_exp(r->g, rlx_clamp(r->g, rlx_reshape(r->g, x, 2, flat),
                                                             -1, 1)), 3, full);
    case 3: return rlx_tanh(r->g, rlx_matmul(r->g, x, rlx_matmul(r->g, rlx_transpose(r->g, x, swap),
                                                                 full_value(r))));
    case 4: return rlx_narrow(r->g, x, 1, pick(r, 5), 1);
    case 5: return rlx_reverse(r->g, x, &axis, 1);
    default: return rlx_roll(r->g, x, axis, (int64_t)pick(r, 7) - 3);
    }
}

rlx_graph *ot_random_graph(uint64_t seed)
{
    random_graph r = {.g = rlx_graph_create("random"), .state = seed * 2 + 1};
    add_leaves(&r);
    const uint32_t n = 8 + pick(&r, 32);
    for (uint32_t i = 0; i < n && r.n < MAX_VALUES; i++) {
        const uint32_t kind = pick(&r, 8);
        const rlx_value made =
            kind < 3 ? add_unary(&r) : kind < 7 ? add_binary(&r) : add_other(&r);
        r.pool[r.n++] = made;
    }
    rlx_output(r.g, "last", r.pool[r.n - 1]);
    rlx_output(r.g, "some", r.pool[7 + pick(&r, (uint32_t)r.n - 7)]);
    rlx_output(r.g, "other", r.pool[7 + pick(&r, (uint32_t)r.n - 7)]);
    return r.g;
}
