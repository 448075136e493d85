/* SPDX-License-Identifier: MIT */
/* Random graphs: the program is run on ownership instead of numbers. Every piece of the arena knows
 * the value that wrote it last; a step must find all pieces of its operands in their hands, so no
 * two tensors that live at one time overlap. Views must lie inside what they show.
 *
 * usage: test_plan_random [SEED [GRAPHS]] */
#include <stdlib.h>

#include "check.h"
#include "compile/plan.h"
#include "ops/view.h"
#include "support/fake_target.h"

#define PIECE 16 /* bytes, the smallest alignment of the arena */
#define MAX_POOL 160

/* ---- Making graphs --------------------------------------------------------------------------- */

typedef struct maker {
    rlx_graph *g;
    uint64_t random;
    rlx_value pool[MAX_POOL];
    size_t n;
    rlx_value state, position;
    rlx_dim seq;
} maker;

static uint32_t pick(maker *m, uint32_t n)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m->random >> 33) % n;
}

static rlx_value any(maker *m)
{
    if (pick(m, 3))
        return m->pool[m->n - 1 - pick(m, m->n < 5 ? (uint32_t)m->n : 5)];
    return m->pool[pick(m, (uint32_t)m->n)];
}

static bool is_fixed(maker *m, rlx_value v)
{
    rlx_shape s = rlx_value_shape(m->g, v);
    return rx_shape_is_fixed(&s);
}

static rlx_value add_view(maker *m, rlx_value x)
{
    rlx_graph *g = m->g;
    rlx_shape s = rlx_value_shape(g, x);
    int axis = s.rank ? (int)pick(m, (uint32_t)s.rank) : 0;
    switch (s.rank ? pick(m, 6) : 5) {
    case 0: {
        int perm[RLX_MAX_RANK];
        for (int i = 0; i < s.rank; i++)
            perm[i] = i;
        perm[axis] = s.rank - 1;
        perm[s.rank - 1] = axis;
        return rlx_transpose(g, x, perm);
    }
    case 1: return rlx_reshape(g, x, 1, (const rlx_dim[]){rx_shape_product(g, &s, 0, s.rank)});
    case 2: return s.dim[axis] > 1 ? rlx_narrow(g, x, axis, 1, s.dim[axis] - 1) : x;
    case 3: return rlx_reverse(g, x, (const int64_t[]){axis}, 1);
    case 4: return rlx_unsqueeze(g, x, s.rank < 5 ? axis : 0);
    default: {
        rlx_dim dims[RLX_MAX_RANK] = {2};
        for (int i = 0; i < s.rank; i++)
            dims[i + 1] = s.dim[i];
        return s.rank < 4 && is_fixed(m, x) ? rlx_expand(g, x, s.rank + 1, dims) : x;
    }
    }
}

static rlx_value add_binary(maker *m, rlx_value x)
{
    rlx_shape s = rlx_value_shape(m->g, x);
    for (int tries = 0; tries < 8; tries++) {
        rlx_value y = any(m);
        rlx_shape t = rlx_value_shape(m->g, y);
        if (rx_shape_equal(&s, &t))
            return pick(m, 2) ? rlx_add(m->g, x, y) : rlx_mul(m->g, y, x);
    }
    return rlx_mul(m->g, x, rlx_scalar(m->g, RLX_F32, pick(m, 3)));
}

/* Adds one row of 8 numbers to the state and reads all of it, or the old rows. */
static rlx_value use_state(maker *m)
{
    rlx_value old = rlx_narrow(m->g, m->state, 0, 1, 2);
    if (pick(m, 2)) {
        m->pool[m->n++] = old;
        m->pool[m->n++] = rlx_exp(m->g, m->state);
    }
    rlx_value row = pick(m, 2) ? rlx_narrow(m->g, m->state, 0, 3, 1)
                               : rlx_expand(m->g, rlx_scalar(m->g, RLX_F32, 1), 2,
                                            (const rlx_dim[]){1, 8});
    m->state = rlx_state_write(m->g, m->state, row, m->position, 0);
    return rlx_narrow(m->g, m->state, 0, pick(m, 3), 2);
}

static rlx_value add_node(maker *m)
{
    rlx_value x = any(m);
    rlx_shape s = rlx_value_shape(m->g, x);
    int axis = s.rank ? (int)pick(m, (uint32_t)s.rank) : 0;
    switch (pick(m, 16)) {
    case 0:
    case 1: return rlx_tanh(m->g, x);
    case 2: return rlx_silu(m->g, x);
    case 3:
    case 4:
    case 5: return add_binary(m, x);
    case 6:
    case 7:
    case 8:
    case 9: return add_view(m, x);
    case 10: return s.rank ? rlx_softmax(m->g, x, axis) : x;
    case 11:
        return s.rank ? rlx_reduce(m->g, RLX_REDUCE_SUM, x, (const int64_t[]){axis}, 1, pick(m, 2))
                      : x;
    case 12: return s.rank ? rlx_concat(m->g, (const rlx_value[]){x, x}, 2, axis) : x;
    case 13: {
        rlx_value indices;
        rlx_topk_desc d = {RLX_INIT(rlx_topk_desc), .k = 1, .axis = axis};
        bool ok = s.rank && is_fixed(m, x) && s.dim[axis] > 0;
        return ok ? rlx_top_k(m->g, x, &d, &indices) : x;
    }
    case 14: return use_state(m);
    default: return s.rank ? rlx_rms_norm(m->g, x, RLX_NONE, NULL) : x;
    }
}

static rlx_graph *make_graph(uint64_t seed)
{
    maker m = {.g = rlx_graph_create("random"), .random = seed};
    m.seq = rlx_dim_named(m.g, "seq", 7);
    m.pool[m.n++] = rlx_input(m.g, "a", RLX_F32, 2, (const rlx_dim[]){6, 8});
    m.pool[m.n++] = rlx_input(m.g, "b", RLX_F32, 3, (const rlx_dim[]){1, m.seq, 4});
    m.pool[m.n++] = rlx_param(m.g, "c", RLX_F32, 3, (const rlx_dim[]){2, 3, 8});
    m.state = rlx_state(m.g, "s", RLX_F32, 2, (const rlx_dim[]){4, 8});
    m.position = rlx_input(m.g, "p", RLX_I32, 0, NULL);
    int n_nodes = 3 + (int)pick(&m, 100);
    for (int i = 0; i < n_nodes && m.n < MAX_POOL - 3; i++) {
        rlx_value v = add_node(&m);
        int64_t n = 0;
        rlx_shape s = rlx_value_shape(m.g, v);
        if (v.id && rx_shape_elements(m.g, &s, &n) && n < 20000)
            m.pool[m.n++] = v;
    }
    int n_outputs = 1 + (int)pick(&m, 4);
    for (int i = 0; i < n_outputs; i++)
        rlx_output(m.g, (const char[]){(char)('u' + i), 0}, any(&m));
    return m.g;
}

/* ---- Checking programs ----------------------------------------------------------------------- */

typedef struct checker {
    const rx_program *p;
    uint32_t *owner;       /* by piece of the arena: value that wrote it last */
    uint32_t *state_owner; /* by state */
    bool ok;
} checker;

static bool expect(checker *k, bool ok, const char *what, size_t step)
{
    if (!ok && k->ok)
        printf("    step %zu: %s\n", step, what);
    k->ok &= ok;
    return ok;
}

static uint32_t root_of(const rx_program *p, uint32_t v)
{
    while (p->values[v].view_of >= 0)
        v = (uint32_t)p->values[v].view_of;
    return v;
}

/* Strides and start of a value at the bounds; data is the offset from its root. */
static rx_view view_at_bound(checker *k, uint32_t v)
{
    const rx_pvalue *value = &k->p->values[v];
    rlx_graph dims = {.dims = k->p->dims, .n_dims = k->p->n_dims};
    int64_t dim[RLX_MAX_RANK], bounds[64];
    for (int i = 0; i < value->shape.rank; i++)
        dim[i] = rx_dim_bound(&dims, value->shape.dim[i]);
    for (size_t i = 0; i < k->p->n_dims && i < 64; i++)
        bounds[i] = k->p->dims[i].bound;
    rx_view out = {0};
    rx_view_set_dense(&out, value->dtype, value->shape.rank, dim);
    if (value->view_of < 0)
        return out;
    rx_view in = view_at_bound(k, (uint32_t)value->view_of);
    _Alignas(16) char record[1024];
    const rx_attr_info *info = rx_ops[value->view_op].attr;
    memcpy(record, value->view_attr, info->size);
    rx_attr_resolve(info, record, bounds);
    expect(k, rx_view_apply(value->view_op, record, &in, &out), "a view that is none", v);
    return out;
}

static void check_view(checker *k, uint32_t v)
{
    const rx_pvalue *value = &k->p->values[v];
    rx_view at = view_at_bound(k, v);
    int64_t lo = (int64_t)(intptr_t)at.data, hi = lo + 4;
    for (int i = 0; i < at.rank; i++) {
        int64_t reach = (at.dim[i] - 1) * at.stride[i] * 4;
        *(reach < 0 ? &lo : &hi) += reach;
    }
    if (rx_view_elements(&at))
        expect(k, lo >= 0 && hi <= (int64_t)value->bytes, "a view outside its base", v);
    expect(k, !value->dense || rx_view_is_dense(&at), "a view that is not dense as promised", v);
    const rx_pvalue *root = &k->p->values[root_of(k->p, v)];
    expect(k, root->space == value->space && root->offset == value->offset, "a view elsewhere", v);
}

static void check_owned(checker *k, uint32_t v, size_t step)
{
    uint32_t root = root_of(k->p, v);
    const rx_pvalue *value = &k->p->values[root];
    if (value->space == RX_SPACE_STATE)
        expect(k, k->state_owner[value->index] == root, "an old version of a state", step);
    if (value->space != RX_SPACE_ARENA)
        return;
    for (uint64_t i = value->offset / PIECE; i < (value->offset + value->bytes) / PIECE; i++)
        if (!expect(k, k->owner[i] == root, "an operand was overwritten", step))
            return;
}

static bool overlap(const rx_pvalue *a, const rx_pvalue *b)
{
    return a->space == RX_SPACE_ARENA && b->space == RX_SPACE_ARENA &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* A result lies over an operand only in place: same operation class, place, type and shape. */
static void check_result(checker *k, const rx_step *s, uint32_t out, size_t step)
{
    const rx_pvalue *a = &k->p->values[s->out[out]];
    for (uint32_t i = 0; i < s->n_in; i++) {
        if (s->in[i] == RX_NO_VALUE)
            continue;
        const rx_pvalue *in = &k->p->values[s->in[i]], *b = &k->p->values[root_of(k->p, s->in[i])];
        bool in_place = rx_ops[s->op].flags & RX_OP_INPLACE && out == 0 && in->dense &&
                        a->offset == b->offset && a->dtype == in->dtype &&
                        rx_shape_equal(&a->shape, &in->shape);
        expect(k, !overlap(a, b) || in_place, "a result over an operand", step);
    }
    for (uint32_t i = 0; i < out; i++)
        expect(k, !overlap(a, &k->p->values[s->out[i]]), "two results overlap", step);
}

static void run_step(checker *k, size_t step)
{
    const rx_step *s = &k->p->steps[step];
    for (uint32_t i = 0; i < s->n_in; i++)
        if (s->in[i] != RX_NO_VALUE)
            check_owned(k, s->in[i], step);
    for (uint32_t i = 0; i < s->n_out; i++) {
        const rx_pvalue *v = &k->p->values[s->out[i]];
        check_result(k, s, i, step);
        if (v->space == RX_SPACE_STATE)
            k->state_owner[v->index] = s->out[i];
        uint64_t end = v->space == RX_SPACE_ARENA ? v->offset + v->bytes : 0;
        if (!expect(k, end <= k->p->memory.arena_bytes, "a result outside the arena", step))
            return;
        for (uint64_t j = v->offset / PIECE; j < (end + PIECE - 1) / PIECE; j++)
            k->owner[j] = s->out[i];
    }
}

static bool check_program(const rx_program *p)
{
    checker k = {.p = p, .ok = true};
    k.owner = calloc(p->memory.arena_bytes / PIECE + 1, sizeof *k.owner);
    k.state_owner = calloc(p->n_states + 1, sizeof *k.state_owner);
    for (size_t i = 0; i < p->n_states; i++)
        k.state_owner[i] = p->states[i].value;
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->values[v].view_of >= 0)
            check_view(&k, v);
    for (size_t i = 0; i < p->n_steps; i++)
        run_step(&k, i);
    for (size_t i = 0; i < p->n_outputs; i++) {
        const rx_pvalue *v = &p->values[p->outputs[i].value];
        check_owned(&k, p->outputs[i].value, p->n_steps);
        expect(&k, v->space == RX_SPACE_ARENA && v->dense, "an output without memory", p->n_steps);
    }
    free(k.owner);
    free(k.state_owner);
    return k.ok;
}

/* An arena with slack is at most so much above the peak of live bytes, else the smallest. */
static bool check_slack(const rlx_graph *g, const rx_target *with, const rlx_session_desc *desc,
                        const rx_program *p)
{
    const rlx_memory_info *m = &p->memory;
    rx_target without = *with;
    rx_program *tight = NULL;
    rlx_error err = {0};
    without.slack_bytes = 0;
    bool ok = m->arena_bytes <= m->arena_bound + with->slack_bytes;
    if (!ok && CHECK_OK(rx_compile(g, &without, desc, &tight, &err), &err))
        ok = tight->memory.arena_bytes == m->arena_bytes;
    rx_program_unref(tight);
    return CHECK(ok);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int n_graphs = argc > 2 ? atoi(argv[2]) : 1500;
    double worst = 1;
    for (int i = 0; i < n_graphs; i++, seed++) {
        fake_options o = {.dense_only = seed % 3 == 0, .lacks = seed % 5 == 0 ? " rms_norm " : ""};
        rx_target t = fake_target(&o);
        t.align = seed % 2 ? 16 : 256;
        t.slack_bytes = seed % 4 == 0 ? (uint64_t)1 << seed % 27 : 0;
        rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .no_fusion = seed % 7 == 0,
                                 .keep_all = seed % 11 == 0};
        rlx_graph *g = make_graph(seed);
        rx_program *p = NULL;
        rlx_error err = {0};
        bool ok = CHECK_OK(rx_compile(g, &t, &desc, &p, &err), &err) && CHECK(check_program(p));
        if (!ok)
            printf("    seed %llu\n", (unsigned long long)seed);
        ok = ok && check_slack(g, &t, &desc, p);
        if (ok && p->memory.arena_bound && !t.slack_bytes) {
            double ratio = (double)p->memory.arena_bytes / (double)p->memory.arena_bound;
            worst = ratio > worst ? ratio : worst;
        }
        rx_program_unref(p);
        rlx_graph_destroy(g);
    }
    printf("seeds up to %llu; worst arena %.3f of the bound\n", (unsigned long long)(seed - 1),
           worst);
    return check_done();
}
