/* SPDX-License-Identifier: MIT */
/* View analysis: which view operations need no copy. A backward walk finds, for each value, the
 * last node that reads it (through views) and whether all readers accept any strides; a forward
 * walk propagates strides and decides. Strides are numbers where all dimensions are; else only the
 * number of contiguous trailing axes is known. */
#include <string.h>

#include "compile/plan.h"
#include "ops/view.h"

#define NEVER 0xffffffffu
#define OUTPUT (NEVER - 1) /* read after all nodes */

typedef struct layout {
    int64_t stride[RLX_MAX_RANK]; /* when known */
    bool known;
    int8_t inner; /* number of innermost axes that are contiguous, with stride 1 on the last */
} layout;

typedef struct decider {
    const rlx_graph *g;
    const rx_target *t;
    const bool *live;
    bool *is_view, *dense;
    layout *layouts;     /* by value */
    uint32_t *root;      /* by value: the value that owns the memory */
    uint32_t *last_use;  /* by value: index of the last node that reads it or a view of it */
    uint32_t *killed_by; /* by value: index of the state_write that overwrites it, or NEVER */
    bool *strided_ok;    /* by value: all readers take any strides */
} decider;

static bool is_view_op(rx_op op)
{
    return rx_ops[op].flags & RX_OP_VIEW && op != RX_OP_split;
}

/* ---- From the end --------------------------------------------------------------------------- */

static void note_reader(decider *d, uint32_t node, uint32_t operand)
{
    const rx_node *n = &d->g->nodes[node];
    uint32_t id = n->in[operand], use = node;
    bool takes = false;
    if (is_view_op(n->op)) {
        uint32_t r = n->first_out;
        if (d->last_use[r] > use)
            use = d->last_use[r];
        takes = n->op != RX_OP_reshape && d->strided_ok[r]; /* then it is a view, too */
    }
    if (use > d->last_use[id])
        d->last_use[id] = use;
    bool matters = d->strided_ok[id] && is_view_op(rx_value_node(d->g, id)->op);
    if (matters && !takes)
        d->strided_ok[id] = d->t->takes_strided && d->t->takes_strided(d->t, d->g, n, operand);
}

static void walk_back(decider *d)
{
    const rlx_graph *g = d->g;
    memset(d->last_use, 0, g->n_values * sizeof *d->last_use);
    memset(d->killed_by, 0xff, g->n_values * sizeof *d->killed_by);
    memset(d->strided_ok, 1, g->n_values * sizeof *d->strided_ok);
    for (size_t i = 0; i < g->n_outputs; i++) {
        d->last_use[g->outputs[i].value] = OUTPUT;
        d->strided_ok[g->outputs[i].value] = false;
    }
    for (size_t i = g->n_nodes; i-- > 0;) {
        const rx_node *n = &g->nodes[i];
        if (!d->live[i])
            continue;
        for (uint32_t j = 0; j < n->n_in; j++)
            if (n->in[j])
                note_reader(d, (uint32_t)i, j);
        if (n->op == RX_OP_state_write)
            d->killed_by[n->in[0]] = (uint32_t)i;
    }
}

/* ---- Strides -------------------------------------------------------------------------------- */

static bool has_one_before(const rlx_shape *s, int axis)
{
    for (int i = 0; i < axis; i++)
        if (s->dim[i] != 1)
            return false;
    return true;
}

static bool is_dense(const layout *l, const rlx_shape *s)
{
    return has_one_before(s, s->rank - l->inner);
}

static void set_dense(layout *l, const rlx_shape *s)
{
    rx_view v = {0};
    l->inner = (int8_t)s->rank;
    l->known = rx_shape_is_fixed(s);
    if (!l->known)
        return;
    rx_view_set_dense(&v, RLX_F32, s->rank, s->dim);
    memcpy(l->stride, v.stride, sizeof l->stride);
}

static int count_inner(const rx_view *v)
{
    int64_t want = 1;
    int n = 0;
    for (int i = v->rank - 1; i >= 0; i--, n++) {
        if (v->dim[i] != 1 && v->stride[i] != want)
            break;
        want *= v->dim[i];
    }
    return rx_view_is_dense(v) ? v->rank : n;
}

/* All dimensions are numbers: computes the strides. */
static bool apply_known(const rx_node *n, const rx_value *in, const rx_value *out,
                        const layout *from, layout *to)
{
    rx_view a = {.dtype = in->dtype, .rank = in->shape.rank};
    rx_view b = {.dtype = out->dtype, .rank = out->shape.rank};
    memcpy(a.dim, in->shape.dim, sizeof a.dim);
    memcpy(a.stride, from->stride, sizeof a.stride);
    memcpy(b.dim, out->shape.dim, sizeof b.dim);
    if (!rx_view_apply(n->op, n->attr, &a, &b))
        return false;
    memcpy(to->stride, b.stride, sizeof to->stride);
    to->known = true;
    to->inner = (int8_t)count_inner(&b);
    return true;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Contiguous axes after changing `axis`: those after it, and the axis itself if its stride is
 * unchanged (`keeps_step`). Axes before it may all have size 1. */
static int inner_after(int inner, const rlx_shape *s, int axis, bool keeps_step)
{
    if (s->dim[axis] == 1 || (keeps_step && has_one_before(s, axis)))
        return inner;
    return min_int(inner, s->rank - axis - (keeps_step ? 0 : 1));
}

/* How many of the last axes of a view are contiguous (`inner`) when those of its operand are known,
 * or NOT_A_VIEW. One function for each operation that can be a view. */
#define NOT_A_VIEW (-1)

typedef struct view_case {
    const void *attr;
    const rlx_shape *in, *out;
    const layout *from;
} view_case;

static int inner_of_transpose(const view_case *c)
{
    const rx_perm_attr *d = c->attr;
    int fixed = 0, rank = d->perm.n;
    while (fixed < rank && d->perm.v[rank - 1 - fixed] == rank - 1 - fixed)
        fixed++;
    return fixed == rank ? c->from->inner : min_int(c->from->inner, fixed);
}

static int inner_of_narrow(const view_case *c)
{
    const rx_narrow_attr *d = c->attr;
    return inner_after(c->from->inner, c->in, (int)d->axis, true);
}

static int inner_of_slice(const view_case *c)
{
    const rlx_slice_desc *d = c->attr;
    int inner = c->from->inner;
    for (int i = 0; i < d->axes.n; i++)
        inner = inner_after(inner, c->in, (int)d->axes.v[i], d->steps.v[i] == 1);
    return inner;
}

static int inner_of_expand(const view_case *c)
{
    int added = c->out->rank - c->in->rank;
    for (int i = c->out->rank - 1; i >= added; i--)
        if (c->in->dim[i - added] != c->out->dim[i])
            return min_int(c->from->inner, c->out->rank - 1 - i);
    return c->from->inner;
}

static int inner_of_reverse(const view_case *c)
{
    const rx_axes_attr *d = c->attr;
    int inner = c->from->inner;
    for (int i = 0; i < d->axes.n; i++)
        inner = inner_after(inner, c->in, (int)d->axes.v[i], false);
    return inner;
}

/* Leading axes are unchanged; the rest of the operand is contiguous and is split differently. */
static int inner_of_reshape(const view_case *c)
{
    const rlx_shape *a = c->in, *b = c->out;
    int same = 0;
    if (is_dense(c->from, a))
        return b->rank;
    while (same < a->rank && same < b->rank && a->dim[same] == b->dim[same])
        same++;
    return a->rank - same <= c->from->inner ? b->rank - same : NOT_A_VIEW;
}

static int (*const inner_of[RX_N_OPS])(const view_case *c) = {
    [RX_OP_reshape] = inner_of_reshape, [RX_OP_transpose] = inner_of_transpose,
    [RX_OP_narrow] = inner_of_narrow,   [RX_OP_slice] = inner_of_slice,
    [RX_OP_expand] = inner_of_expand,   [RX_OP_reverse] = inner_of_reverse,
};

/* Some dimension is named. */
static bool apply_unknown(const rx_node *n, const rx_value *in, const rx_value *out,
                          const layout *from, layout *to)
{
    const view_case c = {n->attr, &in->shape, &out->shape, from};
    const int inner = inner_of[n->op] ? inner_of[n->op](&c) : NOT_A_VIEW;
    *to = (layout){.inner = (int8_t)inner};
    return inner != NOT_A_VIEW &&
           (!rlx_dtype_is_packed(out->dtype) || is_dense(to, &out->shape));
}

/* ---- From the start ------------------------------------------------------------------------- */

/* Whether the memory is intact, and may be aliased, until the last reader. */
static bool memory_allows(const decider *d, uint32_t root, uint32_t result)
{
    const rx_node *owner = rx_value_node(d->g, root);
    bool is_port = rx_ops[owner->op].flags & RX_OP_LEAF || owner->op == RX_OP_state_write;
    if (is_port && d->last_use[result] == OUTPUT)
        return false;
    return d->killed_by[root] == NEVER || d->last_use[result] < d->killed_by[root];
}

static bool decide_node(decider *d, const rx_node *n)
{
    uint32_t in = n->in[0], out = n->first_out;
    const rx_value *a = &d->g->values[in], *b = &d->g->values[out];
    const layout *from = &d->layouts[in];
    layout to = {0};
    bool known = from->known && rx_shape_is_fixed(&b->shape);
    if (!(known ? apply_known(n, a, b, from, &to) : apply_unknown(n, a, b, from, &to)))
        return false;
    bool dense = is_dense(&to, &b->shape);
    if ((!dense && !d->strided_ok[out]) || !memory_allows(d, d->root[in], out))
        return false;
    d->layouts[out] = to;
    d->dense[out] = dense;
    d->root[out] = d->root[in];
    return true;
}

static void walk_forward(decider *d)
{
    const rlx_graph *g = d->g;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const rx_node *n = &g->nodes[i];
        d->is_view[i] = d->live[i] && is_view_op(n->op) && decide_node(d, n);
        for (uint32_t j = 0; !d->is_view[i] && j < n->n_out; j++) {
            uint32_t id = n->first_out + j;
            set_dense(&d->layouts[id], &g->values[id].shape);
            d->dense[id] = true;
            d->root[id] = id;
        }
    }
}

rlx_status rx_decide_views(const rlx_graph *g, const rx_target *t, const bool *live, bool *is_view,
                           bool *dense, rlx_error *err)
{
    decider d = {.g = g, .t = t, .live = live, .is_view = is_view, .dense = dense};
    d.layouts = rx_alloc_array(g->n_values, sizeof *d.layouts);
    d.root = rx_alloc_array_zero(g->n_values, sizeof *d.root);
    d.last_use = rx_alloc_array(g->n_values, sizeof *d.last_use);
    d.killed_by = rx_alloc_array(g->n_values, sizeof *d.killed_by);
    d.strided_ok = rx_alloc_array(g->n_values, sizeof *d.strided_ok);
    rlx_status s = RLX_OK;
    if (!d.layouts || !d.root || !d.last_use || !d.killed_by || !d.strided_ok) {
        s = rx_fail(err, RLX_NO_MEMORY, "out of memory: views of graph '%s'", g->name);
    } else {
        walk_back(&d);
        walk_forward(&d);
    }
    rx_free(d.layouts);
    rx_free(d.root);
    rx_free(d.last_use);
    rx_free(d.killed_by);
    rx_free(d.strided_ok);
    return s;
}
