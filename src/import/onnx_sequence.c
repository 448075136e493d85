/* SPDX-License-Identifier: MIT */
/* Sequences and optionals of ONNX: lists of values that exist only while a graph is built. Their
 * items are values of the graph. */
#include <string.h>

#include "import/onnx_build.h"

/* Lists have ids above those of values. */
#define FIRST_LIST ((uint32_t)1 << 30)
#define MAX_ITEMS 65536

struct rx_onnx_list {
    rlx_value *v;
    size_t n;
};

bool rx_onnx_is_list(rlx_value v) { return v.id >= FIRST_LIST; }

rlx_value *rx_onnx_list_items(const rx_onnx_build *b, rlx_value v, size_t *n)
{
    const rx_onnx_list *l = &b->lists[v.id - FIRST_LIST];
    *n = l->n;
    return l->v;
}

bool rx_onnx_takes_lists(rx_onnx_fn *builder)
{
    static rx_onnx_fn *const all[] = {
        rx_onnx_identity, rx_onnx_if, rx_onnx_loop, rx_onnx_sequence_at, rx_onnx_sequence_erase,
        rx_onnx_sequence_insert, rx_onnx_sequence_length, rx_onnx_sequence_map,
        rx_onnx_concat_from_sequence, rx_onnx_optional, rx_onnx_optional_get,
        rx_onnx_optional_has};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] == builder)
            return true;
    return false;
}

static rlx_value add_list(rx_onnx_call *c, const rlx_value *v, size_t n)
{
    rx_onnx_build *b = c->b;
    rlx_value *copy = rx_arena_array_copy(&b->arena, v, n ? n : 1, sizeof *v);
    if (n > MAX_ITEMS)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "a sequence of more than %d", MAX_ITEMS);
    if (!copy || b->n_lists >= FIRST_LIST ||
        !rx_grow(&b->lists, &b->cap_lists, b->n_lists + 1, sizeof b->lists[0]))
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    b->lists[b->n_lists] = (rx_onnx_list){copy, n};
    return (rlx_value){FIRST_LIST + (uint32_t)b->n_lists++};
}

/* Operand i as a list; NULL after a failure. */
static const rx_onnx_list *list_of(rx_onnx_call *c, size_t i)
{
    const rlx_value v = rx_onnx_in(c, i);
    if (rx_onnx_is_list(v))
        return &c->b->lists[v.id - FIRST_LIST];
    rx_onnx_fail(c, RLX_INVALID, "operand %zu is no sequence", i);
    return NULL;
}

/* Operand i as an index from 0 to `most`, negative from the end; -1 after a failure. */
static int64_t place(rx_onnx_call *c, size_t i, size_t n, size_t most)
{
    rlx_ints at;
    if (!rx_onnx_known_ints(c, i, "position", &at))
        return -1;
    const int64_t p = at.n == 1 ? at.v[0] + (at.v[0] < 0 ? (int64_t)n : 0) : -1;
    if (p >= 0 && (uint64_t)p <= most && at.n == 1)
        return p;
    rx_onnx_fail(c, RLX_INVALID, "position %lld in a sequence of %zu",
                 at.n == 1 ? (long long)at.v[0] : -1LL, n);
    return -1;
}

/* ---- Sequences ------------------------------------------------------------------------------- */

rlx_value rx_onnx_sequence_construct(rx_onnx_call *c) { return add_list(c, c->in, c->n_in); }

rlx_value rx_onnx_sequence_empty(rx_onnx_call *c)
{
    const rlx_value none = RLX_NONE;
    return add_list(c, &none, 0);
}

rlx_value rx_onnx_sequence_length(rx_onnx_call *c)
{
    const rx_onnx_list *l = list_of(c, 0);
    const int64_t n = l ? (int64_t)l->n : 0;
    return l ? rlx_constant(c->g, RLX_I64, 0, NULL, &n, sizeof n) : RLX_NONE;
}

rlx_value rx_onnx_sequence_at(rx_onnx_call *c)
{
    const rx_onnx_list *l = list_of(c, 0);
    const int64_t at = !l ? -1 : l->n ? place(c, 1, l->n, l->n - 1) : -1;
    if (l && !l->n)
        return rx_onnx_fail(c, RLX_INVALID, "an element of an empty sequence");
    return at < 0 ? RLX_NONE : l->v[at];
}

rlx_value rx_onnx_sequence_insert(rx_onnx_call *c)
{
    const rx_onnx_list *l = list_of(c, 0);
    if (!l || rx_onnx_is_list(rx_onnx_in(c, 1)))
        return RLX_NONE;
    const size_t n = l->n;
    const int64_t at = rx_onnx_in(c, 2).id ? place(c, 2, n, n) : (int64_t)n;
    rlx_value *v = rx_arena_array_zero(&c->b->arena, (uint64_t)n + 1, sizeof *v);
    if (at < 0 || !v)
        return RLX_NONE;
    memcpy(v, l->v, (size_t)at * sizeof *v);
    v[at] = rx_onnx_in(c, 1);
    memcpy(v + at + 1, l->v + at, (n - (size_t)at) * sizeof *v);
    return add_list(c, v, n + 1);
}

rlx_value rx_onnx_sequence_erase(rx_onnx_call *c)
{
    const rx_onnx_list *l = list_of(c, 0);
    if (!l)
        return RLX_NONE;
    if (!l->n)
        return rx_onnx_fail(c, RLX_INVALID, "an element of an empty sequence");
    const size_t n = l->n;
    const int64_t at = rx_onnx_in(c, 1).id ? place(c, 1, n, n - 1) : (int64_t)n - 1;
    rlx_value *v = rx_arena_array_zero(&c->b->arena, n, sizeof *v);
    if (at < 0 || !v)
        return RLX_NONE;
    memcpy(v, l->v, (size_t)at * sizeof *v);
    memcpy(v + at, l->v + at + 1, (n - (size_t)at - 1) * sizeof *v);
    return add_list(c, v, n - 1);
}

/* Splits x along an axis by the sizes (or the one size) of operand 1; without it into single
 * elements, whose axis is removed unless keepdims is set. */
rlx_value rx_onnx_split_to_sequence(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const int axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", 0), s.rank);
    const bool given = rx_onnx_in(c, 1).id, keep = given || rx_onnx_int(c, "keepdims", 1);
    const bool is_list = given && rx_onnx_rank(c, rx_onnx_in(c, 1)) == 1;
    rlx_ints sizes = {1, {1}};
    if (axis < 0 || (given && !rx_onnx_known_ints(c, 1, "split", &sizes)))
        return RLX_NONE;
    const int64_t size = s.dim[axis], each = sizes.v[0];
    if (size < 0 || (!is_list && (each < 1 || size / each >= MAX_ITEMS)))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "parts of %lld elements of an axis of %lld",
                            (long long)each, (long long)size);
    const int64_t n = is_list ? sizes.n : (size + each - 1) / each;
    rlx_value *v = rx_arena_array_zero(&c->b->arena, (uint64_t)n + 1, sizeof *v);
    if (!v)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    for (int64_t i = 0, at = 0; i < n; i++) {
        const int64_t part = is_list ? sizes.v[i] : each < size - at ? each : size - at;
        v[i] = rlx_narrow(c->g, x, axis, at, part);
        v[i] = keep ? v[i] : rlx_squeeze(c->g, v[i], axis);
        at += part;
    }
    return add_list(c, v, (size_t)n);
}

rlx_value rx_onnx_concat_from_sequence(rx_onnx_call *c)
{
    const rx_onnx_list *l = list_of(c, 0);
    const int64_t axis = rx_onnx_int(c, "axis", 0);
    if (!l)
        return RLX_NONE;
    if (!l->n)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "an empty sequence, whose elements have no shape");
    rlx_value *v = rx_arena_array_copy(&c->b->arena, l->v, l->n, sizeof *v);
    if (!v)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < l->n && rx_onnx_int(c, "new_axis", 0); i++)
        v[i] = rlx_unsqueeze(c->g, v[i], axis);
    return rlx_concat(c->g, v, l->n, axis);
}

/* Runs the body for each item of the sequences; operands that are tensors are passed to every
 * call. */
rlx_value rx_onnx_sequence_map(rx_onnx_call *c)
{
    const rx_onnx_attr *body = rx_onnx_attr_find(c, "body");
    const rx_onnx_list *first = list_of(c, 0);
    const size_t n_out = body && body->g ? body->g->n_outputs : 0;
    if (!first)
        return RLX_NONE;
    if (!n_out || n_out > c->n_out)
        return rx_onnx_fail(c, RLX_INVALID, "expected a sub-graph body with %zu outputs", c->n_out);
    const size_t n = first->n; /* a copy: adding lists reallocates them */
    rlx_value *in = rx_arena_array_zero(&c->b->arena, c->n_in, sizeof *in);
    rlx_value *out = rx_arena_array_zero(&c->b->arena, n_out, sizeof *out);
    rlx_value *all = rx_arena_array_zero(&c->b->arena, (uint64_t)n_out * (n + 1), sizeof *all);
    if (!in || !out || !all)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < c->n_in; k++) {
            const rx_onnx_list *l = rx_onnx_is_list(c->in[k]) ? list_of(c, k) : NULL;
            if (l && i >= l->n)
                return rx_onnx_fail(c, RLX_INVALID, "sequences of %zu and %zu", n, l->n);
            in[k] = l ? l->v[i] : c->in[k];
        }
        if (rx_onnx_subgraph(c, body->g, in, c->n_in, out) != RLX_OK)
            return RLX_NONE;
        for (size_t k = 0; k < n_out; k++)
            all[k * n + i] = out[k];
    }
    for (size_t k = 0; k < n_out; k++)
        c->out[k] = add_list(c, all + k * n, n);
    return c->out[0];
}

/* ---- Optionals: lists of one item or none --------
 * -------------------------------------------- */

rlx_value rx_onnx_optional(rx_onnx_call *c)
{
    return rx_onnx_in(c, 0).id ? rx_onnx_in(c, 0) : rx_onnx_sequence_empty(c);
}

rlx_value rx_onnx_optional_get(rx_onnx_call *c) { return rx_onnx_in(c, 0); }

rlx_value rx_onnx_optional_has(rx_onnx_call *c)
{
    const rlx_value v = rx_onnx_in(c, 0);
    const bool empty = !v.id || (rx_onnx_is_list(v) && !c->b->lists[v.id - FIRST_LIST].n);
    return rlx_scalar(c->g, RLX_BOOL, !empty);
}

/* ---- Random numbers -------------------------------------------------------------------------- */

/* Random numbers of a shape, seeded by the attribute, or by the index of the node in the graph. */
static rlx_value random_numbers(rx_onnx_call *c, const rlx_shape *s, rlx_dtype like, bool normal)
{
    const rx_onnx_type *t = rx_onnx_type_of(rx_onnx_int(c, "dtype", 0));
    const rlx_dtype to = t && t->number ? t->dtype : like;
    rlx_random_desc d = {RLX_INIT(rlx_random_desc), .shape = {.n = s->rank}, .out = RLX_F32,
                         .seed = (int64_t)rx_onnx_float(c, "seed", (double)c->b->n_built)};
    memcpy(d.shape.v, s->dim, (size_t)s->rank * sizeof d.shape.v[0]);
    d.lo = rx_onnx_float(c, normal ? "mean" : "low", 0);
    d.hi = rx_onnx_float(c, normal ? "scale" : "high", 1);
    if (!rlx_dtype_is_float(to))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "random numbers of a type that is no float");
    const rlx_value y = normal ? rlx_random_normal(c->g, RLX_NONE, &d)
                               : rlx_random_uniform(c->g, RLX_NONE, &d);
    return rlx_cast(c->g, y, to);
}

static rlx_value random_shape(rx_onnx_call *c, bool normal)
{
    rlx_ints dims;
    rlx_shape s = {0};
    if (!rx_onnx_ints(c, "shape", &dims) || dims.n > RLX_MAX_RANK)
        return rx_onnx_fail(c, RLX_INVALID, "expected a shape of at most %d axes", RLX_MAX_RANK);
    s.rank = dims.n;
    for (int i = 0; i < dims.n; i++)
        s.dim[i] = dims.v[i] < 0 ? 0 : dims.v[i];
    return random_numbers(c, &s, RLX_F32, normal);
}

static rlx_value random_like(rx_onnx_call *c, bool normal)
{
    const rlx_shape s = rlx_value_shape(c->g, rx_onnx_in(c, 0));
    return random_numbers(c, &s, rlx_value_dtype(c->g, rx_onnx_in(c, 0)), normal);
}

rlx_value rx_onnx_random_normal(rx_onnx_call *c) { return random_shape(c, true); }
rlx_value rx_onnx_random_uniform(rx_onnx_call *c) { return random_shape(c, false); }
rlx_value rx_onnx_random_normal_like(rx_onnx_call *c) { return random_like(c, true); }
rlx_value rx_onnx_random_uniform_like(rx_onnx_call *c) { return random_like(c, false); }

/* 1 with probability x, else 0. */
rlx_value rx_onnx_bernoulli(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const rx_onnx_type *t = rx_onnx_type_of(rx_onnx_int(c, "dtype", 0));
    rlx_random_desc d = {RLX_INIT(rlx_random_desc), .shape = {.n = s.rank}, .hi = 1,
                         .seed = (int64_t)rx_onnx_float(c, "seed", (double)c->b->n_built)};
    memcpy(d.shape.v, s.dim, (size_t)s.rank * sizeof d.shape.v[0]);
    const rlx_value p = rlx_random_uniform(c->g, RLX_NONE, &d);
    const rlx_value y = rlx_lt(c->g, p, rlx_cast(c->g, x, RLX_F32));
    return rlx_cast(c->g, y, t && t->number ? t->dtype : rlx_value_dtype(c->g, x));
}
