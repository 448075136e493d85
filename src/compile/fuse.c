/* SPDX-License-Identifier: MIT */
/* fuse: peephole rules applied while the graph is copied: each new node is matched together with
 * its producers. Where a rule applies, one fused node replaces them; absorbed nodes are then dead
 * and are not copied by the next pass. A fused node is made only if the target runs it natively. */
#include "compile/fuse.h"

#include <string.h>

#include "compile/compile.h"
#include "compile/epilogue.h"
#include "compile/pattern.h"

#define MAX_OPERANDS 8 /* of a fused node */
#define MAX_CHAIN 8    /* rules applied to one node, at most */

typedef struct rule {
    rx_pattern pattern, result;
} rule;

static const char *const rule_texts[][2] = {
#define PATTERN(name, pattern, result) {pattern, result},
#include "compile/fuse.def"
#undef PATTERN
};
#define N_RULES (sizeof rule_texts / sizeof *rule_texts)

typedef struct fuser {
    rx_rewrite w;
    const rx_target *target;
    rule *rules;
    uint32_t now;         /* index of the node of w.from at hand */
    uint32_t *uses_from;  /* by value of w.from */
    uint32_t *first_user; /* by value of w.from: index of the first node that uses it */
    uint32_t *uses;       /* by value of w.to, updated while nodes are fused */
    uint32_t *origin;     /* by value of w.to: the value of w.from that it replaces */
    size_t cap_uses, cap_origin, n_known;
} fuser;

void rx_count_uses(const rlx_graph *g, const bool *live, uint32_t *uses)
{
    memset(uses, 0, g->n_values * sizeof *uses);
    for (size_t i = 0; i < g->n_nodes; i++)
        for (uint32_t j = 0; live[i] && j < g->nodes[i].n_in; j++)
            uses[g->nodes[i].in[j]]++;
    for (size_t i = 0; i < g->n_outputs; i++)
        uses[g->outputs[i].value]++;
}

static void find_first_users(const rlx_graph *g, const bool *live, uint32_t *first)
{
    memset(first, 0xff, g->n_values * sizeof *first);
    for (size_t i = g->n_nodes; i-- > 0;)
        for (uint32_t j = 0; live[i] && j < g->nodes[i].n_in; j++)
            first[g->nodes[i].in[j]] = (uint32_t)i;
}

/* Extends `uses` and `origin` to the newest values of w.to. */
static rlx_status know_new_values(fuser *f)
{
    size_t n = f->w.to->n_values;
    if (!rx_grow(&f->uses, &f->cap_uses, n, sizeof *f->uses) ||
        !rx_grow(&f->origin, &f->cap_origin, n, sizeof *f->origin))
        return rx_graph_fail(f->w.to, RLX_NO_MEMORY, "out of memory: fusing graph '%s'",
                             f->w.from->name);
    for (; f->n_known < n; f->n_known++)
        f->uses[f->n_known] = f->origin[f->n_known] = 0;
    return RLX_OK;
}

static const rx_node *node_of(const fuser *f, uint32_t id)
{
    return rx_value_node(f->w.to, id);
}

static void change_uses(fuser *f, const rx_node *n, int by)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        f->uses[n->in[i]] += (uint32_t)by;
}

/* Value `to` replaces the same original as `from` (both of w.to). */
static void stand_for(fuser *f, uint32_t to, uint32_t from)
{
    f->uses[to] = f->uses[from];
    f->origin[to] = f->origin[from];
    f->w.map[f->origin[from]] = to;
}

/* A rule that is about to be applied: the nodes it absorbs, and the state before its new nodes. */
typedef struct change {
    uint32_t root;                     /* the value that is replaced */
    uint32_t inner[RX_PATTERN_NODES];  /* values of absorbed nodes, without the root */
    uint32_t n_inner;
    size_t n_nodes;                    /* of w.to before */
} change;

static change begin_change(const fuser *f, uint32_t root)
{
    return (change){.root = root, .n_nodes = f->w.to->n_nodes};
}

/* Accepts the new node if it has the right type and a kernel, and updates the use counts. Otherwise
 * it stays in the graph as a dead node. */
static rlx_value end_change(fuser *f, const change *c, rlx_value v)
{
    if (know_new_values(f) != RLX_OK || !v.id)
        return RLX_NONE;
    const rx_value *a = &f->w.to->values[v.id], *b = &f->w.to->values[c->root];
    if (a->dtype != b->dtype || !rx_shape_equal(&a->shape, &b->shape))
        return RLX_NONE;
    if (f->target->support(f->target, f->w.to, node_of(f, v.id)) != RLX_SUPPORT_NATIVE)
        return RLX_NONE;
    for (size_t i = c->n_nodes; i < f->w.to->n_nodes; i++)
        change_uses(f, &f->w.to->nodes[i], 1);
    change_uses(f, node_of(f, c->root), -1);
    for (uint32_t i = 0; i < c->n_inner; i++)
        change_uses(f, node_of(f, c->inner[i]), -1);
    stand_for(f, v.id, c->root);
    return v;
}

/* ---- Patterns ------------------------------------------------------------------------------- */

/* Writes the captured number into the field of that name. */
static bool set_number(rx_op op, void *record, const char *field, double v)
{
    for (const rx_attr_field *a = rx_ops[op].attr->fields; a->kind != RX_ATTR_END; a++)
        if (a->kind == RX_ATTR_FLOAT && !strcmp(a->name, field)) {
            memcpy((char *)record + a->offset, &v, sizeof v);
            return true;
        }
    return false;
}

static rlx_value build_result(fuser *f, const rx_pattern *p, const rx_match *m, const char *name)
{
    _Alignas(16) char record[RX_MAX_RECORD];
    rlx_value in[MAX_OPERANDS];
    size_t n_in = 0;
    const rx_pattern_node *root = &p->nodes[0];
    rx_attr_init(rx_ops[root->op].attr, record);
    for (uint8_t i = 0; i < root->n_args; i++) {
        const rx_pattern_node *a = &p->nodes[root->arg[i]];
        if (a->kind == RX_PATTERN_VALUE)
            in[n_in++] = (rlx_value){m->var[a->name]};
        else if (!set_number(root->op, record, p->capture, m->capture))
            return RLX_NONE;
    }
    return rx_rewrite_try(&f->w, root->op, in, n_in, record, name);
}

static rlx_value apply_pattern(fuser *f, const rule *r, uint32_t id)
{
    rx_match m;
    if (!rx_pattern_match(&r->pattern, f->w.to, id, &m))
        return RLX_NONE;
    for (int i = 0; i < m.n_inner; i++)
        if (f->uses[m.inner[i]] != m.n_uses[i])
            return RLX_NONE;
    change c = begin_change(f, id);
    c.n_inner = m.n_inner;
    memcpy(c.inner, m.inner, sizeof m.inner);
    return end_change(f, &c, build_result(f, &r->result, &m, node_of(f, id)->name));
}

static rlx_value apply_patterns(fuser *f, uint32_t id)
{
    rx_op op = node_of(f, id)->op;
    for (size_t i = 0; i < N_RULES; i++) {
        if (f->rules[i].pattern.nodes[0].op != op)
            continue;
        rlx_value v = apply_pattern(f, &f->rules[i], id);
        if (v.id)
            return v;
    }
    return RLX_NONE;
}

/* ---- Epilogues ------------------------------------------------------------------------------ */

/* A node about to be extended: its operands, padded by absent ones, and its record. */
typedef struct wider {
    rlx_value in[MAX_OPERANDS];
    _Alignas(16) char record[RX_MAX_RECORD];
} wider;

static bool widen(const rx_node *n, wider *x)
{
    if (n->n_in > MAX_OPERANDS)
        return false;
    memset(x->in, 0, sizeof x->in);
    for (uint32_t i = 0; i < n->n_in; i++)
        x->in[i] = (rlx_value){n->in[i]};
    memcpy(x->record, n->attr, rx_ops[n->op].attr->size);
    return true;
}

/* v as a vector [n] if it has n elements along `axis` (counted in a tensor of rank `rank`) and size
 * 1 elsewhere. */
static rlx_value as_vector(fuser *f, rlx_value v, int axis, int rank, rlx_dim n)
{
    rlx_shape s = f->w.to->values[v.id].shape;
    int own = axis - (rank - s.rank);
    if (own < 0 || s.dim[own] != n)
        return RLX_NONE;
    for (int i = 0; i < s.rank; i++)
        if (i != own && s.dim[i] != 1)
            return RLX_NONE;
    if (s.rank == 1)
        return v;
    rx_shape_attr d = {.shape = {.n = 1, .v = {n}}};
    return rx_rewrite_try(&f->w, RX_OP_reshape, &v, 1, &d, NULL);
}

/* Adds `other` as bias or residual. False when both are taken. */
static bool add_operand(fuser *f, const rx_epilogue *e, wider *x, uint32_t product, rlx_value other)
{
    rlx_shape s = f->w.to->values[product].shape;
    rlx_act act = *rx_epilogue_act(e, x->record);
    bool has_residual = e->residual && x->in[e->residual].id;
    if (!x->in[e->bias].id && !has_residual && act == RLX_ACT_NONE && s.rank >= 2) {
        int axis = e->channels_last ? s.rank - 1 : 1;
        rlx_value bias = as_vector(f, other, axis, s.rank, s.dim[axis]);
        if (bias.id) {
            x->in[e->bias] = bias;
            return true;
        }
    }
    if (!e->residual || has_residual || !rx_shape_equal(&s, &f->w.to->values[other.id].shape))
        return false;
    x->in[e->residual] = other;
    return true;
}

static bool add_act(const rx_epilogue *e, wider *x, rlx_act act)
{
    if (*rx_epilogue_act(e, x->record) != RLX_ACT_NONE)
        return false;
    *rx_epilogue_act(e, x->record) = act;
    *rx_epilogue_act_last(e, x->record) = e->residual && x->in[e->residual].id;
    return true;
}

/* Merges node `id`, whose operand `side` is the product, into the product. */
static rlx_value extend_product(fuser *f, uint32_t id, int side)
{
    const rx_node *n = node_of(f, id);
    uint32_t product = n->in[side], other = n->n_in > 1 ? n->in[1 - side] : 0;
    const rx_node *p = node_of(f, product);
    const rx_epilogue *e = rx_epilogue_of(p->op);
    wider x;
    if (!e || f->uses[product] != 1 || !widen(p, &x))
        return RLX_NONE;
    rx_op op = p->op;
    rlx_act act = rx_act_of(n->op);
    const char *name = n->name ? n->name : p->name;
    change c = begin_change(f, id);
    c.inner[c.n_inner++] = product;
    bool fits = other ? add_operand(f, e, &x, product, (rlx_value){other}) : add_act(e, &x, act);
    if (!fits)
        return end_change(f, &c, RLX_NONE);
    size_t n_in = (size_t)(e->residual ? e->residual : e->bias) + 1;
    return end_change(f, &c, rx_rewrite_try(&f->w, op, x.in, n_in, x.record, name));
}

static rlx_value fuse_epilogue(fuser *f, uint32_t id)
{
    const rx_node *n = node_of(f, id);
    if (rx_act_of(n->op) != RLX_ACT_NONE)
        return extend_product(f, id, 0);
    if (n->op != RX_OP_add)
        return RLX_NONE;
    int later = n->in[1] > n->in[0]; /* of two products the later one absorbs the other */
    rlx_value v = extend_product(f, id, later);
    return v.id ? v : extend_product(f, id, !later);
}

/* ---- Norms ---------------------------------------------------------------------------------- */

static bool is_row_norm(rx_op op)
{
    return op == RX_OP_layer_norm || op == RX_OP_rms_norm;
}

/* norm(x) * gamma and norm(x) + beta. */
static rlx_value absorb_affine(fuser *f, uint32_t id, int side)
{
    const rx_node *n = node_of(f, id), *norm = node_of(f, n->in[side]);
    uint32_t slot = n->op == RX_OP_mul ? 1 : 2;
    wider x;
    if (!is_row_norm(norm->op) || f->uses[n->in[side]] != 1 || norm->n_in > slot ||
        !widen(norm, &x))
        return RLX_NONE;
    const rlx_shape *s = &f->w.to->values[norm->first_out].shape;
    if (((const rlx_norm_desc *)norm->attr)->axis != s->rank - 1)
        return RLX_NONE;
    rx_op op = norm->op;
    change c = begin_change(f, id);
    c.inner[c.n_inner++] = n->in[side];
    rlx_value other = {n->in[1 - side]};
    const char *name = n->name;
    x.in[slot] = as_vector(f, other, s->rank - 1, s->rank, s->dim[s->rank - 1]);
    if (!x.in[slot].id)
        return end_change(f, &c, RLX_NONE);
    return end_change(f, &c, rx_rewrite_try(&f->w, op, x.in, slot + 1, x.record, name));
}

static rlx_value fuse_affine(fuser *f, uint32_t id)
{
    rx_op op = node_of(f, id)->op;
    if (op != RX_OP_mul && op != RX_OP_add)
        return RLX_NONE;
    rlx_value v = absorb_affine(f, id, 0);
    return v.id ? v : absorb_affine(f, id, 1);
}

/* norm(a + b), where the norm is the first to use the sum: the sum becomes result 1. */
static rlx_value fuse_residual_norm(fuser *f, uint32_t id)
{
    const rx_node *n = node_of(f, id);
    if (!is_row_norm(n->op))
        return RLX_NONE;
    uint32_t sum = n->in[0];
    const rx_node *add = node_of(f, sum);
    const rx_value *values = f->w.to->values;
    const rlx_norm_desc *d = n->attr;
    if (add->op != RX_OP_add || !f->origin[sum] || f->first_user[f->origin[sum]] != f->now ||
        d->axis != values[sum].shape.rank - 1 ||
        !rx_shape_equal(&values[add->in[0]].shape, &values[add->in[1]].shape))
        return RLX_NONE;
    rlx_value in[4] = {{add->in[0]}, {add->in[1]}, {n->n_in > 1 ? n->in[1] : 0},
                       {n->n_in > 2 ? n->in[2] : 0}};
    rlx_residual_norm_desc r = {RLX_INIT(rlx_residual_norm_desc), .rms = n->op == RX_OP_rms_norm,
                                .eps = d->eps};
    change c = begin_change(f, id);
    c.inner[c.n_inner++] = sum;
    rlx_value v = rx_rewrite_try(&f->w, RX_OP_residual_norm, in, 4, &r, n->name);
    v = end_change(f, &c, v);
    if (v.id)
        stand_for(f, v.id + 1, sum);
    return v;
}

/* ---- The pass ------------------------------------------------------------------------------- */

typedef rlx_value fuse_fn(fuser *f, uint32_t id);
static fuse_fn *const fuse_fns[] = {
    apply_patterns, fuse_affine, fuse_epilogue, fuse_residual_norm,
};

static rlx_value apply_any(fuser *f, uint32_t id)
{
    rlx_value v = RLX_NONE;
    for (size_t i = 0; i < sizeof fuse_fns / sizeof *fuse_fns && !v.id; i++)
        v = fuse_fns[i](f, id);
    return v;
}

static rlx_status fuse_node(fuser *f, const rx_node *n)
{
    RLX_TRY(rx_rewrite_copy(&f->w, n));
    RLX_TRY(know_new_values(f));
    for (uint32_t i = 0; i < n->n_out; i++) {
        uint32_t id = f->w.map[n->first_out + i];
        f->uses[id] = f->uses_from[n->first_out + i];
        f->origin[id] = n->first_out + i;
    }
    rlx_value v = {f->w.map[n->first_out]};
    for (int i = 0; i < MAX_CHAIN && v.id && n->n_in; i++)
        v = apply_any(f, v.id);
    return f->w.to->error.code;
}

static rlx_status prepare(fuser *f, const rlx_graph *g)
{
    f->rules = rx_alloc_array(N_RULES, sizeof *f->rules);
    f->uses_from = rx_alloc_array(g->n_values, sizeof *f->uses_from);
    f->first_user = rx_alloc_array(g->n_values, sizeof *f->first_user);
    if (!f->rules || !f->uses_from || !f->first_user)
        return rx_graph_fail(f->w.to, RLX_NO_MEMORY, "out of memory: fusing graph '%s'", g->name);
    for (size_t i = 0; i < N_RULES; i++)
        if (!rx_pattern_parse(&f->rules[i].pattern, rule_texts[i][0], NULL) ||
            !rx_pattern_parse(&f->rules[i].result, rule_texts[i][1], &f->rules[i].pattern))
            return rx_graph_fail(f->w.to, RLX_INTERNAL, "fuse.def: cannot read \"%s\" -> \"%s\"",
                                 rule_texts[i][0], rule_texts[i][1]);
    rx_count_uses(g, f->w.live, f->uses_from);
    find_first_users(g, f->w.live, f->first_user);
    return know_new_values(f);
}

rlx_status rx_fuse_rules(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err)
{
    fuser f = {.target = t};
    *out = NULL;
    RLX_TRY(rx_rewrite_begin(&f.w, g, err));
    rlx_status s = prepare(&f, g);
    for (size_t i = 0; i < g->n_nodes && s == RLX_OK; i++) {
        f.now = (uint32_t)i;
        if (f.w.live[i])
            s = fuse_node(&f, &g->nodes[i]);
    }
    rx_free(f.rules);
    rx_free(f.uses_from);
    rx_free(f.first_user);
    rx_free(f.uses);
    rx_free(f.origin);
    return rx_rewrite_end(&f.w, s, out, err);
}

rlx_status rx_fuse(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err)
{
    rlx_graph *ruled;
    *out = NULL;
    RLX_TRY(rx_fuse_rules(g, t, &ruled, err));
    if (t->no_regions) {
        *out = ruled;
        return RLX_OK;
    }
    rlx_status s = rx_fuse_regions(ruled, t, out, err);
    rlx_graph_destroy(ruled);
    return s;
}
