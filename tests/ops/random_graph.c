/* SPDX-License-Identifier: MIT */
/* Random graphs of elementwise operations, views, reductions and products over a few shapes that
 * broadcast with each other: what fusion, folding and the memory plan must not change. Functions
 * are smooth and bounded, so that a difference in rounding stays a small difference. The choices
 * come from a seed, or from the bytes of a fuzzer. */
#include "ops/graph_table.h"
#include "ops/optest.h"

#define MAX_VALUES 64

typedef struct random_graph {
    rlx_graph *g;
    rlx_value pool[MAX_VALUES];
    size_t n;
    rlx_value mask; /* bool [4,1,6] */
    uint64_t state;
    const uint8_t *bytes; /* instead of the state, when not NULL; each makes a choice */
    size_t n_bytes;
} random_graph;

static uint32_t pick(random_graph *r, uint32_t n)
{
    if (r->bytes) {
        if (!r->n_bytes) return 0;
        r->n_bytes--;
        return *r->bytes++ % n;
    }
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

/* Operations whose result has the shape of x again: two halves, sorted rows, sums along an axis,
 * rows by constant indices, borders added and removed, attention. */
static rlx_value add_rearranged(random_graph *r, rlx_value x, uint32_t kind, int64_t axis)
{
    static const rlx_dim sizes[] = {4, 5, 6}, heads[] = {1, 4, 5, 6}, full[] = {4, 5, 6};
    static const int32_t rows[] = {3, 0, 2, 1};
    const int64_t cut = 1 + pick(r, 3);
    const rlx_dim n = sizes[axis], four[] = {4};
    int64_t before[3] = {0}, after[3] = {0};
    before[axis] = cut;
    after[axis] = 1;
    switch (kind) {
    case 0: {
        const rlx_value halves[] = {rlx_narrow(r->g, x, axis, cut, n - cut),
                                    rlx_narrow(r->g, full_value(r), axis, 0, cut)};
        return rlx_concat(r->g, halves, 2, axis);
    }
    case 1: return rlx_sort(r->g, x, &(rlx_sort_desc){RLX_INIT(rlx_sort_desc), .axis = axis,
                                                      .descending = cut > 1});
    case 2: return rlx_tanh(r->g, rlx_cumsum(r->g, x, &(rlx_cum_desc){RLX_INIT(rlx_cum_desc),
                                                                      .axis = axis}));
    case 3:
        return rlx_gather(r->g, x, rlx_constant(r->g, RLX_I32, 1, four, rows, sizeof rows), 0);
    case 4:
        return rlx_narrow(r->g, rlx_pad(r->g, x, before, after, RLX_PAD_CONSTANT, 0.25), axis,
                          pick(r, (uint32_t)cut + 2), n);
    default: {
        const rlx_value q = rlx_reshape(r->g, x, 4, heads);
        const rlx_value k = rlx_reshape(r->g, full_value(r), 4, heads);
        return rlx_reshape(r->g, rlx_attention(r->g, q, k, q, RLX_NONE, NULL), 3, full);
    }
    }
}

/* Operations that end a chain: views, reductions, products; the result broadcasts to [4,5,6]. */
static rlx_value add_other(random_graph *r)
{
    const rlx_value x = full_value(r);
    const int swap[] = {0, 2, 1};
    const int64_t axis = pick(r, 3);
    const rlx_dim flat[] = {20, 6}, full[] = {4, 5, 6};
    const uint32_t kind = pick(r, 13);
    if (kind >= 7) return add_rearranged(r, x, kind - 7, axis);
    switch (kind) {
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

static rlx_graph *make(random_graph *r)
{
    r->g = rlx_graph_create("random");
    add_leaves(r);
    const uint32_t n = 8 + pick(r, 32), some = pick(r, 256), other = pick(r, 256);
    for (uint32_t i = 0; i < n && r->n < MAX_VALUES && (!r->bytes || r->n_bytes); i++) {
        const uint32_t kind = pick(r, 8);
        const rlx_value made = kind < 3 ? add_unary(r) : kind < 6 ? add_binary(r) : add_other(r);
        r->pool[r->n++] = made;
    }
    const uint32_t n_made = (uint32_t)r->n - 7;
    rlx_output(r->g, "last", r->pool[r->n - 1]);
    rlx_output(r->g, "some", r->pool[n_made ? 7 + some % n_made : 6]);
    rlx_output(r->g, "other", r->pool[n_made ? 7 + other % n_made : 6]);
    return r->g;
}

rlx_graph *ot_random_graph(uint64_t seed)
{
    return make(&(random_graph){.state = seed * 2 + 1});
}

rlx_graph *ot_graph_of_bytes(const uint8_t *bytes, size_t n)
{
    return make(&(random_graph){.bytes = bytes, .n_bytes = n});
}
