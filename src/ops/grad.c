/* SPDX-License-Identifier: MIT */
/* Reverse mode: walks the nodes from the results back and appends, by the rule of each, the
 * derivatives of its operands. Requires a graph without errors; leaves the nodes that were there as
 * they are. A rule may rebuild its node from other operations, which are then differentiated
 * instead. */
#include "ops/grad.h"

#include <stdio.h>
#include <string.h>

#include "ir/infer.h"
#include "ops/lower.h"

typedef struct walk {
    rlx_graph *g;
    uint32_t *adjoint; /* by value: accumulated adjoint; 0: none */
    bool *active;      /* by value: a float that depends on one of `wrt` */
    size_t n, cap_adjoint, cap_active; /* n: values with an entry */
    const char *who;   /* the public function, for messages */
} walk;

static bool is_real(rlx_dtype t)
{
    return (unsigned)t < RLX_N_DTYPES && RX_T(t) & RX_REALS;
}

/* Adds entries for new values, inactive. */
static rlx_status grow(walk *w)
{
    const size_t n = w->g->n_values, more = n - w->n;
    if (!rx_grow(&w->adjoint, &w->cap_adjoint, n, sizeof *w->adjoint) ||
        !rx_grow(&w->active, &w->cap_active, n, sizeof *w->active))
        return rx_graph_fail(w->g, RLX_NO_MEMORY, "%s: out of memory for %zu values", w->who, n);
    memset(w->adjoint + w->n, 0, more * sizeof *w->adjoint);
    memset(w->active + w->n, 0, more * sizeof *w->active);
    w->n = n;
    return RLX_OK;
}

/* Marks float results of nodes from `first` on as active when an operand is. */
static void mark_active(walk *w, size_t first)
{
    for (size_t i = first; i < w->g->n_nodes; i++) {
        const rx_node *n = &w->g->nodes[i];
        bool any = false;
        for (uint32_t k = 0; k < n->n_in; k++)
            any |= n->in[k] && w->active[n->in[k]];
        for (uint32_t k = 0; any && k < n->n_out; k++) {
            const uint32_t id = n->first_out + k;
            w->active[id] |= is_real(w->g->values[id].dtype);
        }
    }
}

/* Adds d, summed over the axes that were broadcast and cast to the type of v, to the adjoint of
 * v. */
static rlx_status accumulate(walk *w, uint32_t v, rlx_value d)
{
    if (!d.id || w->g->error.code)
        return w->g->error.code;
    const rx_value of = w->g->values[v];
    d = rx_as_type(w->g, rx_grad_sum_to(w->g, d, &of.shape), of.dtype);
    if (w->adjoint[v])
        d = rlx_add(w->g, (rlx_value){w->adjoint[v]}, d);
    w->adjoint[v] = d.id;
    const rlx_shape have = rlx_value_shape(w->g, d);
    if (w->g->error.code || rx_shape_equal(&have, &of.shape))
        return w->g->error.code;
    char a[RX_TYPE_TEXT], b[RX_TYPE_TEXT];
    return rx_graph_fail(w->g, RLX_INTERNAL, "%s: the derivative by value %u is %s, expected %s",
                         w->who, v, rx_type_text(w->g, of.dtype, &have, a),
                         rx_type_text(w->g, of.dtype, &of.shape, b));
}

static const char *node_text(const rlx_graph *g, const rx_node *n, char text[96])
{
    const bool named = n->name && *n->name;
    snprintf(text, 96, "%s%s%.50s%s (node %u)", rx_ops[n->op].name, named ? " '" : "",
             named ? n->name : "", named ? "'" : "", g->values[n->first_out].node);
    return text;
}

rlx_status rx_grad_refuse(const rx_grad *c, const char *fmt, ...)
{
    char why[200], text[96];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return rx_graph_fail(c->g, RLX_UNSUPPORTED, "rlx_grad: %s %s", node_text(c->g, c->node, text),
                         why);
}

static rlx_status walk_back(walk *w, size_t first, size_t end);

/* The operands and results of one node, as a rule sees them. */
typedef struct frame {
    rx_node node; /* a copy: the graph's table moves when nodes are added */
    rlx_value *in, *dx;
    bool *wants;
    rlx_value dy[RX_MAX_RESULTS], via[RX_MAX_RESULTS];
} frame;

/* Differentiates the replacement that a rule built in `via`. */
static rlx_status follow(walk *w, const frame *f, size_t first)
{
    RLX_TRY(grow(w));
    mark_active(w, first);
    const size_t end = w->g->n_nodes;
    for (uint32_t k = 0; k < f->node.n_out; k++)
        if (f->dy[k].id && f->via[k].id && w->active[f->via[k].id])
            RLX_TRY(accumulate(w, f->via[k].id, f->dy[k]));
    return walk_back(w, first, end);
}

static rlx_status apply_rule(walk *w, frame *f)
{
    const rx_node *n = &f->node;
    const size_t first = w->g->n_nodes;
    rx_grad c = {w->g, n, n->attr, f->in, {n->first_out}, f->dy, f->wants, f->dx, f->via};
    if (!rx_grad_table[n->op])
        return rx_grad_refuse(&c, "has no derivative; rlx_stop_gradient of its operands takes it "
                              "for a constant");
    RLX_TRY(rx_grad_table[n->op](&c));
    bool again = false;
    for (uint32_t k = 0; k < n->n_out; k++)
        again |= f->via[k].id != 0;
    if (w->g->error.code || again)
        return w->g->error.code ? w->g->error.code : follow(w, f, first);
    RLX_TRY(grow(w));
    for (uint32_t i = 0; i < n->n_in; i++)
        if (f->wants[i])
            RLX_TRY(accumulate(w, n->in[i], f->dx[i]));
    return RLX_OK;
}

static rlx_status visit(walk *w, const rx_node *n)
{
    frame f = {.node = *n};
    bool reached = false, wanted = false;
    for (uint32_t k = 0; k < n->n_out; k++) {
        f.dy[k].id = w->adjoint[n->first_out + k];
        reached |= f.dy[k].id != 0;
    }
    if (!reached || rx_ops[n->op].flags & RX_OP_LEAF)
        return RLX_OK;
    f.in = rx_alloc_array_zero(n->n_in + 1, sizeof *f.in);
    f.dx = rx_alloc_array_zero(n->n_in + 1, sizeof *f.dx);
    f.wants = rx_alloc_array_zero(n->n_in + 1, sizeof *f.wants);
    rlx_status s = RLX_OK;
    if (!f.in || !f.dx || !f.wants)
        s = rx_graph_fail(w->g, RLX_NO_MEMORY, "%s: out of memory", w->who);
    for (uint32_t i = 0; s == RLX_OK && i < n->n_in; i++) {
        f.in[i].id = n->in[i];
        f.wants[i] = n->in[i] && w->active[n->in[i]];
        wanted |= f.wants[i];
    }
    if (s == RLX_OK && wanted)
        s = apply_rule(w, &f);
    rx_free(f.in);
    rx_free(f.dx);
    rx_free(f.wants);
    return s;
}

/* Nodes first .. end - 1, the last one first. */
static rlx_status walk_back(walk *w, size_t first, size_t end)
{
    for (size_t i = end; i-- > first;) {
        const rx_node n = w->g->nodes[i];
        RLX_TRY(visit(w, &n));
    }
    return w->g->error.code;
}

static rlx_status check_value(rlx_graph *g, const char *who, const char *what, size_t i,
                              rlx_value v)
{
    if (!v.id || v.id >= g->n_values)
        return rx_graph_fail(g, RLX_INVALID, "%s: %s[%zu] expected as a value of the graph, got %s",
                             who, what, i, v.id ? "one of another graph" : "none");
    if (is_real(g->values[v.id].dtype))
        return RLX_OK;
    char text[RX_TYPE_TEXT];
    return rx_graph_fail(g, RLX_INVALID, "%s: %s[%zu] expected of type f32, f16, bf16 or f64, got "
                         "%s", who, what, i,
                         rx_type_text(g, g->values[v.id].dtype, &g->values[v.id].shape, text));
}

static rlx_status check_like(rlx_graph *g, const char *who, const char *what, size_t i, rlx_value d,
                             rlx_value v)
{
    RLX_TRY(check_value(g, who, what, i, d));
    const rx_value *a = &g->values[d.id], *b = &g->values[v.id];
    if (a->dtype == b->dtype && rx_shape_equal(&a->shape, &b->shape))
        return RLX_OK;
    char have[RX_TYPE_TEXT], want[RX_TYPE_TEXT];
    return rx_graph_fail(g, RLX_INVALID, "%s: %s[%zu] expected as %s, got %s", who, what, i,
                         rx_type_text(g, b->dtype, &b->shape, want),
                         rx_type_text(g, a->dtype, &a->shape, have));
}

static rlx_status differentiate(walk *w, const rlx_value *y, const rlx_value *dy, size_t m,
                                const rlx_value *wrt, size_t n, rlx_value *out)
{
    const size_t end = w->g->n_nodes;
    RLX_TRY(grow(w));
    for (size_t i = 0; i < n; i++)
        w->active[wrt[i].id] = true;
    mark_active(w, 0);
    for (size_t k = 0; k < m; k++)
        if (w->active[y[k].id])
            RLX_TRY(accumulate(w, y[k].id, dy[k]));
    RLX_TRY(walk_back(w, 0, end));
    for (size_t i = 0; i < n; i++) {
        const uint32_t d = w->adjoint[wrt[i].id];
        out[i] = d ? (rlx_value){d} : rx_grad_zeros_like(w->g, wrt[i]);
    }
    return w->g->error.code;
}

/* Clears the results; false when the graph has an error. */
static rlx_status begin(rlx_graph *g, size_t n, rlx_value *out)
{
    for (size_t i = 0; i < n && out; i++)
        out[i] = RLX_NONE;
    return g ? g->error.code : RLX_INVALID;
}

static rlx_status vjp(rlx_graph *g, const char *who, const rlx_value *y, const rlx_value *dy,
                      size_t m, const rlx_value *wrt, size_t n, rlx_value *out)
{
    RLX_TRY(begin(g, n, out));
    if ((n && (!wrt || !out)) || (m && (!y || !dy)))
        return rx_graph_fail(g, RLX_INVALID, "%s: a list of values is NULL", who);
    for (size_t k = 0; k < m; k++) {
        RLX_TRY(check_value(g, who, "y", k, y[k]));
        RLX_TRY(check_like(g, who, "dy", k, dy[k], y[k]));
    }
    for (size_t i = 0; i < n; i++)
        RLX_TRY(check_value(g, who, "wrt", i, wrt[i]));
    walk w = {.g = g, .who = who};
    const rlx_status s = differentiate(&w, y, dy, m, wrt, n, out);
    rx_free(w.adjoint);
    rx_free(w.active);
    return s;
}

rlx_status rlx_vjp(rlx_graph *g, const rlx_value *y, const rlx_value *dy, size_t m,
                   const rlx_value *wrt, size_t n, rlx_value *out)
{
    return vjp(g, "rlx_vjp", y, dy, m, wrt, n, out);
}

rlx_status rlx_grad(rlx_graph *g, rlx_value loss, const rlx_value *wrt, size_t n, rlx_value *out)
{
    RLX_TRY(begin(g, n, out));
    RLX_TRY(check_value(g, "rlx_grad", "loss", 0, loss));
    const rx_value v = g->values[loss.id];
    for (int i = 0; i < v.shape.rank; i++)
        if (v.shape.dim[i] != 1) {
            char text[RX_TYPE_TEXT];
            return rx_graph_fail(g, RLX_INVALID, "rlx_grad: loss expected as one element, got %s",
                                 rx_type_text(g, v.dtype, &v.shape, text));
        }
    const rlx_value one = rx_grad_fill(g, v.dtype, &v.shape, 1);
    return vjp(g, "rlx_grad", &loss, &one, 1, wrt, n, out);
}

/* The derivative by u of sum(tangent * vjp(u)), which is linear in u: its value does not matter. */
rlx_value rlx_jvp(rlx_graph *g, rlx_value y, const rlx_value *wrt, const rlx_value *tangent,
                  size_t n)
{
    rlx_value du = RLX_NONE;
    if (begin(g, 0, NULL) || check_value(g, "rlx_jvp", "y", 0, y))
        return RLX_NONE;
    if (n && (!wrt || !tangent)) {
        rx_graph_fail(g, RLX_INVALID, "rlx_jvp: a list of values is NULL");
        return RLX_NONE;
    }
    for (size_t i = 0; i < n; i++)
        if (check_value(g, "rlx_jvp", "wrt", i, wrt[i]) ||
            check_like(g, "rlx_jvp", "tangent", i, tangent[i], wrt[i]))
            return RLX_NONE;
    const rlx_value u = rx_grad_zeros_like(g, y);
    rlx_value *dx = rx_alloc_array_zero(n + 1, sizeof *dx);
    if (!dx)
        rx_graph_fail(g, RLX_NO_MEMORY, "rlx_jvp: out of memory");
    else if (vjp(g, "rlx_jvp", &y, &u, 1, wrt, n, dx) == RLX_OK)
        vjp(g, "rlx_jvp", dx, tangent, n, &u, 1, &du);
    rx_free(dx);
    return du;
}

rlx_value rlx_stop_gradient(rlx_graph *g, rlx_value x)
{
    return rx_graph_add(g, RX_OP_stop_gradient, &x, 1, NULL, NULL);
}

rlx_status rx_lower_stop_gradient(rx_lower *c)
{
    c->out[0] = c->in[0];
    return RLX_OK;
}

/* ---- Rules without
 * derivative------------------------------------------------------------------- */

rlx_status rx_grad_stop(rx_grad *c)
{
    (void)c;
    return RLX_OK;
}

rlx_status rx_grad_lower(rx_grad *c)
{
    rx_lower l = {c->g, c->g, c->node, c->attr, c->in, c->via};
    if (!rx_lower_table[c->node->op])
        return rx_grad_refuse(c, "has no derivative and no decomposition");
    return rx_lower_table[c->node->op](&l);
}

/* ---- Building blocks ------------------------------------------------------------------------- */

rlx_value rx_grad_expand(rlx_graph *g, rlx_value v, const rlx_shape *s)
{
    const rlx_shape have = rlx_value_shape(g, v);
    return rx_shape_equal(&have, s) ? v : rlx_expand(g, v, s->rank, s->dim);
}

rlx_value rx_grad_reshape(rlx_graph *g, rlx_value v, const rlx_shape *s)
{
    const rlx_shape have = rlx_value_shape(g, v);
    return rx_shape_equal(&have, s) ? v : rlx_reshape(g, v, s->rank, s->dim);
}

rlx_value rx_grad_fill(rlx_graph *g, rlx_dtype t, const rlx_shape *s, double x)
{
    return rx_grad_expand(g, rlx_scalar(g, t, x), s);
}

rlx_value rx_grad_zeros_like(rlx_graph *g, rlx_value v)
{
    const rlx_shape s = rlx_value_shape(g, v);
    return rx_grad_fill(g, rlx_value_dtype(g, v), &s, 0);
}

rlx_value rx_grad_sum_to(rlx_graph *g, rlx_value v, const rlx_shape *to)
{
    rlx_shape s = rlx_value_shape(g, v), kept = {.rank = to->rank};
    const int lead = s.rank - to->rank;
    int64_t axes[RLX_MAX_RANK];
    size_t n = 0;
    if (lead < 0)
        return rx_grad_expand(g, v, to);
    for (int i = 0; i < s.rank; i++)
        if (i < lead || (to->dim[i - lead] == 1 && s.dim[i] != 1)) {
            axes[n++] = i;
            s.dim[i] = 1;
        }
    for (int i = lead; i < s.rank; i++)
        kept.dim[i - lead] = s.dim[i];
    if (n)
        v = rx_grad_reshape(g, rlx_reduce(g, RLX_REDUCE_SUM, v, axes, n, true), &kept);
    return rx_grad_expand(g, v, to);
}

rlx_value rx_grad_keep_axes(rlx_graph *g, rlx_value v, const rlx_shape *full, uint32_t axes)
{
    rlx_shape s = *full;
    for (int i = 0; i < s.rank; i++)
        if (axes >> i & 1)
            s.dim[i] = 1;
    return rx_grad_reshape(g, v, &s);
}

rlx_value rx_grad_flip(rlx_graph *g, rlx_value v)
{
    int perm[RLX_MAX_RANK];
    const int rank = rlx_value_shape(g, v).rank;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return rlx_transpose(g, v, perm);
}

rlx_value rx_grad_iota(rlx_graph *g, rlx_dim n, int axis, int rank)
{
    rlx_dim dims[RLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? n : 1;
    const rlx_range_desc d = {RLX_INIT(rlx_range_desc), .n = n, .out = RLX_I32};
    return rlx_reshape(g, rlx_range(g, &d), rank, dims);
}

rlx_value rx_grad_size(rlx_graph *g, rlx_dim d, rlx_dtype t)
{
    if (rx_dim_is_number(d))
        return rlx_scalar(g, t, (double)d);
    const rlx_shape s = {.rank = 1, .dim = {d}};
    return rlx_reduce(g, RLX_REDUCE_SUM, rx_grad_fill(g, t, &s, 1), NULL, 0, false);
}

rlx_value rx_grad_scale(rlx_graph *g, rlx_value v, double x)
{
    return x == 1 ? v : rlx_mul(g, v, rx_number_like(g, v, x));
}

rlx_value rx_grad_keep(rlx_graph *g, rlx_value cond, rlx_value v)
{
    return rlx_where(g, cond, v, rx_number_like(g, v, 0));
}

rlx_value rx_grad_indices(rlx_graph *g, const int32_t *v, int64_t n)
{
    return rlx_constant(g, RLX_I32, 1, (rlx_dim[]){n}, v, (size_t)n * sizeof *v);
}

rlx_value rx_grad_act(rlx_graph *g, rlx_value z, rlx_act act)
{
    static rlx_value (*const builders[])(rlx_graph *, rlx_value) = {
        [RLX_ACT_RELU] = rlx_relu, [RLX_ACT_GELU] = rlx_gelu,
        [RLX_ACT_GELU_TANH] = rlx_gelu_tanh, [RLX_ACT_SILU] = rlx_silu,
        [RLX_ACT_SIGMOID] = rlx_sigmoid, [RLX_ACT_TANH] = rlx_tanh,
        [RLX_ACT_HARD_SWISH] = rlx_hard_swish,
    };
    return act == RLX_ACT_NONE ? z : builders[act](g, z);
}

bool rx_grad_epilogue(rx_grad *c, uint32_t bias, int bias_axis, rlx_act act, bool act_last,
                      rlx_value (*product)(rx_grad *c))
{
    rlx_graph *g = c->g;
    const rlx_value b = rx_grad_in(c, bias), r = rx_grad_in(c, bias + 1);
    const rlx_shape s = rlx_value_shape(g, c->y);
    if (act == RLX_ACT_NONE) {
        const int64_t at = s.rank + bias_axis;
        int64_t axes[RLX_MAX_RANK];
        size_t n = 0;
        for (int i = 0; i < s.rank; i++)
            if (i != at)
                axes[n++] = i;
        if (rx_grad_wants(c, bias))
            c->dx[bias] = n ? rlx_reduce(g, RLX_REDUCE_SUM, c->dy[0], axes, n, false) : c->dy[0];
        if (rx_grad_wants(c, bias + 1))
            c->dx[bias + 1] = c->dy[0];
        return false;
    }
    rlx_value z = product(c);
    const rlx_dtype t = rlx_value_dtype(g, z);
    if (b.id) {
        rlx_dim dims[RLX_MAX_RANK] = {rlx_value_shape(g, b).dim[0], 1, 1, 1, 1, 1, 1, 1};
        z = rlx_add(g, z, rlx_reshape(g, rx_as_type(g, b, t), -bias_axis, dims));
    }
    if (r.id && act_last)
        z = rlx_add(g, z, rx_as_type(g, r, t));
    z = rx_grad_act(g, z, act);
    if (r.id && !act_last)
        z = rlx_add(g, z, rx_as_type(g, r, t));
    c->via[0] = rx_as_type(g, z, rlx_value_dtype(g, c->y));
    return true;
}
