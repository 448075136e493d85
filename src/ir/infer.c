/* SPDX-License-Identifier: MIT */
/* Checks that shape rules share. */
#include "ir/infer.h"

#include <stdio.h>
#include <string.h>

rlx_status rx_infer_fail(rx_infer *c, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return rx_graph_fail(c->g, RLX_INVALID, "%s%s%s%s (node %zu): %s", rx_ops[c->op].name,
                         c->name && *c->name ? " '" : "", c->name ? c->name : "",
                         c->name && *c->name ? "'" : "", c->g->n_nodes, text);
}

static const char *type_of(const rx_infer *c, size_t i, char text[RX_TYPE_TEXT])
{
    return rx_type_text(c->g, c->in[i]->dtype, &c->in[i]->shape, text);
}

rlx_status rx_check_axis(rx_infer *c, int64_t *axis, int rank)
{
    if (*axis < -rank || *axis >= rank)
        return rx_infer_fail(c, "axis expected from %d to %d, got %lld", -rank, rank - 1,
                             (long long)*axis);
    if (*axis < 0)
        *axis += rank;
    return RLX_OK;
}

/* "f32, f16 or bf16" */
static void list_types(uint64_t types, char *at, size_t n)
{
    int left = __builtin_popcountll(types);
    if (left > 13) {
        snprintf(at, n, "one of %d types", left);
        return;
    }
    size_t used = 0;
    at[0] = 0;
    for (int t = 0; t < RLX_N_DTYPES && used < n; t++)
        if (types >> t & 1)
            used += (size_t)snprintf(at + used, n - used, "%s%s", rlx_dtype_name((rlx_dtype)t),
                                     --left > 1 ? ", " : left == 1 ? " or " : "");
}

rlx_status rx_check_type(rx_infer *c, size_t i, const char *what, uint64_t types)
{
    char want[128], got[RX_TYPE_TEXT];
    list_types(types, want, sizeof want);
    if (!rx_in(c, i))
        return rx_infer_fail(c, "operand %zu (%s) expected, of type %s, got none", i, what, want);
    if (types >> c->in[i]->dtype & 1)
        return RLX_OK;
    return rx_infer_fail(c, "operand %zu (%s) expected of type %s, got %s", i, what, want,
                         type_of(c, i, got));
}

rlx_status rx_check_same_type(rx_infer *c, size_t i, size_t j)
{
    char a[RX_TYPE_TEXT], b[RX_TYPE_TEXT];
    if (!rx_in(c, i) || !rx_in(c, j))
        return rx_infer_fail(c, "operand %zu expected, got none", rx_in(c, i) ? j : i);
    if (c->in[i]->dtype == c->in[j]->dtype)
        return RLX_OK;
    return rx_infer_fail(c, "operands %zu and %zu expected of the same type, got %s and %s", i, j,
                         type_of(c, i, a), type_of(c, j, b));
}

rlx_status rx_check_rank(rx_infer *c, size_t i, const char *what, int lo, int hi)
{
    char got[RX_TYPE_TEXT], range[32];
    if (!rx_in(c, i))
        return rx_infer_fail(c, "operand %zu (%s) expected, got none", i, what);
    int rank = c->in[i]->shape.rank;
    if (rank >= lo && rank <= hi)
        return RLX_OK;
    if (lo == hi)
        snprintf(range, sizeof range, "%d", lo);
    else
        snprintf(range, sizeof range, "%d to %d", lo, hi);
    return rx_infer_fail(c, "operand %zu (%s) expected of rank %s, got %s", i, what, range,
                         type_of(c, i, got));
}

rlx_status rx_check_shape(rx_infer *c, size_t i, const char *what, const rlx_shape *want)
{
    char a[RX_TYPE_TEXT], b[RX_TYPE_TEXT];
    if (!rx_in(c, i))
        return rx_infer_fail(c, "operand %zu (%s) expected, got none", i, what);
    if (rx_shape_equal(&c->in[i]->shape, want))
        return RLX_OK;
    return rx_infer_fail(c, "operand %zu (%s) expected %s, got %s", i, what,
                         rx_type_text(c->g, c->in[i]->dtype, want, a), type_of(c, i, b));
}

rlx_status rx_check_dim(rx_infer *c, size_t i, const char *what, int axis, rlx_dim want)
{
    char got[RX_TYPE_TEXT], size[64];
    if (!rx_in(c, i))
        return rx_infer_fail(c, "operand %zu (%s) expected, got none", i, what);
    if (axis < c->in[i]->shape.rank && c->in[i]->shape.dim[axis] == want)
        return RLX_OK;
    return rx_infer_fail(c, "operand %zu (%s) expected with size %s on axis %d, got %s", i, what,
                         rx_dim_text(c->g, want, size, sizeof size), axis, type_of(c, i, got));
}

/* Size of axis i of `s` when broadcast to `rank` axes. */
static rlx_dim dim_from_right(const rlx_shape *s, int rank, int i)
{
    int at = i - (rank - s->rank);
    return at < 0 ? 1 : s->dim[at];
}

static bool broadcast_shapes(const rlx_shape *a, const rlx_shape *b, rlx_shape *out)
{
    rlx_shape r = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < r.rank; i++) {
        rlx_dim x = dim_from_right(a, r.rank, i), y = dim_from_right(b, r.rank, i);
        if (x != y && x != 1 && y != 1)
            return false;
        r.dim[i] = x == 1 ? y : x;
    }
    *out = r;
    return true;
}

rlx_status rx_broadcast(rx_infer *c, const rlx_shape *a, const rlx_shape *b, rlx_shape *out)
{
    if (broadcast_shapes(a, b, out))
        return RLX_OK;
    char x[RX_TYPE_TEXT], y[RX_TYPE_TEXT];
    rlx_dtype t = c->n_in && c->in[0] ? c->in[0]->dtype : RLX_F32;
    return rx_infer_fail(c, "operands expected with shapes that broadcast, got %s and %s",
                         rx_type_text(c->g, t, a, x), rx_type_text(c->g, t, b, y));
}

rlx_status rx_check_broadcasts_to(rx_infer *c, size_t i, const char *what, const rlx_shape *to)
{
    rlx_shape both;
    char a[RX_TYPE_TEXT], b[RX_TYPE_TEXT];
    if (!rx_in(c, i))
        return rx_infer_fail(c, "operand %zu (%s) expected, got none", i, what);
    if (broadcast_shapes(&c->in[i]->shape, to, &both) && rx_shape_equal(&both, to))
        return RLX_OK;
    return rx_infer_fail(c, "operand %zu (%s) expected with a shape that broadcasts to %s, got %s",
                         i, what, rx_type_text(c->g, c->in[i]->dtype, to, a), type_of(c, i, b));
}

rlx_status rx_default_type(rx_infer *c, rlx_dtype *t, rlx_dtype dflt, uint64_t types)
{
    char want[128];
    if (*t == RLX_NO_TYPE)
        *t = dflt;
    if ((unsigned)*t < RLX_N_DTYPES && types >> *t & 1)
        return RLX_OK;
    list_types(types, want, sizeof want);
    return rx_infer_fail(c, "result type expected %s, got %s", want, rlx_dtype_name(*t));
}

rlx_status rx_check_list(rx_infer *c, const char *what, rlx_ints *list, int n, int64_t fill,
                         int64_t lo)
{
    if (list->n == 0) {
        list->n = n;
        for (int i = 0; i < n; i++)
            list->v[i] = fill;
    }
    if (list->n != n)
        return rx_infer_fail(c, "%s expected with %d entries, got %d", what, n, list->n);
    for (int i = 0; i < n; i++)
        if (list->v[i] < lo)
            return rx_infer_fail(c, "%s entry %d expected to be at least %lld, got %lld", what, i,
                                 (long long)lo, (long long)list->v[i]);
    return RLX_OK;
}

const void *rx_constant_data(const rx_infer *c, size_t i)
{
    if (!rx_in(c, i))
        return NULL;
    const rx_node *n = &c->g->nodes[c->in[i]->node];
    return n->op == RX_OP_constant ? ((const rx_leaf_attr *)n->attr)->data : NULL;
}
