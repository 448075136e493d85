/* SPDX-License-Identifier: MIT */
/* Algebraic simplification: arithmetic identities that hold bit for bit (so x + 0 is only dropped
 * where it cannot turn -0 into 0), and view operations that are the identity or cancel. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "compile/fold.h"

#define MAX_UNIFORM 4096 /* elements of a literal that are compared */

bool rx_constant_number(const rlx_graph *g, uint32_t id, double *v)
{
    if (!id || rx_value_node(g, id)->op != RX_OP_constant)
        return false;
    const rx_leaf_attr *a = rx_value_node(g, id)->attr;
    size_t size = (size_t)rlx_dtype_block_bytes(a->dtype);
    if (rlx_dtype_is_packed(a->dtype) || a->bytes < size || a->bytes > MAX_UNIFORM * size)
        return false;
    const char *data = a->data;
    if (a->bytes > size && memcmp(data, data + size, (size_t)a->bytes - size))
        return false;
    *v = rx_dtype_load(a->dtype, data);
    return true;
}

static bool same_type(const rlx_graph *g, uint32_t id, rlx_dtype t, const rlx_shape *s)
{
    const rx_value *v = &g->values[id];
    return v->dtype == t && rx_shape_equal(&v->shape, s);
}

/* ---- Arithmetic ----------------------------------------------------------------------------- */

/* The neutral element of the right operand; for commutative operations of the left one, too. */
typedef struct neutral {
    rx_op op;
    double value;
    bool either_side;
} neutral;

static const neutral neutrals[] = {
    {RX_OP_add, -0.0, true}, {RX_OP_sub, 0.0, false}, {RX_OP_mul, 1.0, true},
    {RX_OP_div, 1.0, false}, {RX_OP_pow, 1.0, false}, {RX_OP_shl, 0.0, false},
    {RX_OP_shr, 0.0, false},
};

/* Equal, and for floats of the same sign: x - (-0) is not x when x is -0. */
static bool is_number(const rlx_graph *g, uint32_t id, double want)
{
    double v;
    if (!rx_constant_number(g, id, &v) || v != want)
        return false;
    return !rlx_dtype_is_float(g->values[id].dtype) || signbit(v) == signbit(want);
}

static rlx_value drop_neutral(const rlx_graph *g, rx_op op, const rlx_value *in)
{
    for (size_t i = 0; i < sizeof neutrals / sizeof *neutrals; i++) {
        if (neutrals[i].op != op)
            continue;
        if (is_number(g, in[1].id, neutrals[i].value))
            return in[0];
        if (neutrals[i].either_side && is_number(g, in[0].id, neutrals[i].value))
            return in[1];
    }
    return RLX_NONE;
}

/* f(f(x)). */
static rlx_value drop_repeated(const rlx_graph *g, rx_op op, rlx_value x)
{
    const rx_node *inner = rx_value_node(g, x.id);
    if (inner->op != op)
        return RLX_NONE;
    if (rx_ops[op].flags & RX_OP_INVOLUTION)
        return (rlx_value){inner->in[0]};
    return rx_ops[op].flags & RX_OP_IDEMPOTENT ? x : RLX_NONE;
}

/* ---- Shape ---------------------------------------------------------------------------------- */

static bool is_identity(const rlx_ints *perm)
{
    for (int i = 0; i < perm->n; i++)
        if (perm->v[i] != i)
            return false;
    return true;
}

static rlx_value simplify_transpose(rx_rewrite *w, const rx_node *n, rlx_value x)
{
    const rx_perm_attr *d = n->attr;
    if (is_identity(&d->perm))
        return x;
    const rx_node *inner = rx_value_node(w->to, x.id);
    if (inner->op != RX_OP_transpose)
        return RLX_NONE;
    const rx_perm_attr *first = inner->attr;
    rx_perm_attr both = {.perm = {.n = d->perm.n}};
    for (int i = 0; i < d->perm.n; i++)
        both.perm.v[i] = first->perm.v[d->perm.v[i]];
    rlx_value source = {inner->in[0]};
    if (is_identity(&both.perm) || w->to->values[source.id].state)
        return source;
    return rx_graph_add(w->to, RX_OP_transpose, &source, 1, &both, n->name);
}

static rlx_value simplify_reshape(rx_rewrite *w, const rx_node *n, rlx_value x)
{
    const rx_node *inner = rx_value_node(w->to, x.id);
    if (inner->op != RX_OP_reshape)
        return RLX_NONE;
    rlx_value source = {inner->in[0]};
    if (w->to->values[source.id].state)
        return source;
    return rx_graph_add(w->to, RX_OP_reshape, &source, 1, rx_rewrite_attr(w, n), n->name);
}

/* ---- Identities ------------------------------------------------------------------------------ */

static bool always(const rx_node *n)
{
    (void)n;
    return true;
}

static bool has_one_operand(const rx_node *n)
{
    return n->n_in == 1;
}

static bool is_unshifted(const rx_node *n)
{
    return ((const rx_roll_attr *)n->attr)->shift == 0;
}

static bool has_unit_steps(const rx_node *n)
{
    const rlx_slice_desc *d = n->attr;
    for (int i = 0; i < d->steps.n; i++)
        if (d->steps.v[i] != 1)
            return false;
    return true;
}

static bool is_unpadded(const rx_node *n)
{
    const rx_pad_attr *d = n->attr;
    for (int i = 0; i < d->before.n; i++)
        if (d->before.v[i] || d->after.v[i])
            return false;
    return true;
}

/* Operations that are the identity where type and shape are kept, under this condition. */
static bool (*const identities[RX_N_OPS])(const rx_node *n) = {
    [RX_OP_cast] = always,
    [RX_OP_reshape] = always,
    [RX_OP_expand] = always,
    [RX_OP_narrow] = always,
    [RX_OP_tile] = always,
    [RX_OP_concat] = has_one_operand,
    [RX_OP_pad] = is_unpadded,
    [RX_OP_roll] = is_unshifted,
    [RX_OP_slice] = has_unit_steps,
};

static bool keeps_elements(const rx_node *n)
{
    return identities[n->op] && identities[n->op](n);
}

static rlx_value apply_rules(rx_rewrite *w, const rx_node *n, const rlx_value *in)
{
    if (n->op == RX_OP_transpose)
        return simplify_transpose(w, n, in[0]);
    if (n->op == RX_OP_reshape)
        return simplify_reshape(w, n, in[0]);
    if (rx_ops[n->op].family == RX_FAMILY_binary)
        return drop_neutral(w->to, n->op, in);
    if (rx_ops[n->op].family == RX_FAMILY_unary)
        return drop_repeated(w->to, n->op, in[0]);
    return RLX_NONE;
}

rlx_value rx_simplify(rx_rewrite *w, const rx_node *n, const rlx_value *in)
{
    if (n->n_out != 1 || !n->n_in || !in[0].id)
        return RLX_NONE;
    rlx_dtype t = w->from->values[n->first_out].dtype;
    rlx_shape s = w->from->values[n->first_out].shape;
    for (int i = 0; i < s.rank; i++)
        if (s.dim[i] < 0)
            s.dim[i] = w->dims[-s.dim[i] - 2];
    bool is_same = keeps_elements(n) && same_type(w->to, in[0].id, t, &s);
    rlx_value v = is_same ? in[0] : apply_rules(w, n, in);
    /* A state never replaces a node: it may be overwritten before the last use. */
    return v.id && !w->to->values[v.id].state && same_type(w->to, v.id, t, &s) ? v : RLX_NONE;
}
