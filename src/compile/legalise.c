/* SPDX-License-Identifier: MIT */
/* legalise: native nodes and views stay; others are decomposed, repeatedly, until everything is
 * native or left to the host. What cannot run is an error that names node, type, device and the
 * nearest alternative. */
#include <stdio.h>

#include "compile/compile.h"
#include "compile/epilogue.h"
#include "ir/infer.h"
#include "ops/lower.h"

/* Maximum depth of decompositions that contain decomposed operations. */
#define MAX_ROUNDS 8

typedef enum action { KEEP, SPLIT_EPILOGUE, DECOMPOSE, FAIL } action;

static action decide(const rlx_graph *g, const rx_target *t, const rx_node *n)
{
    uint16_t flags = rx_ops[n->op].flags;
    if (n->op == RX_OP_split)
        return DECOMPOSE; /* into narrows, which are views */
    if (flags & (RX_OP_LEAF | RX_OP_VIEW))
        return KEEP;
    rlx_support s = t->support(t, g, n);
    if (s == RLX_SUPPORT_NATIVE)
        return KEEP;
    if (rx_lower_table[n->op])
        return DECOMPOSE;
    if (rx_epilogue_is_used(n))
        return SPLIT_EPILOGUE;
    return s == RLX_SUPPORT_HOST || t->has_host ? KEEP : FAIL;
}

/* ---- The error ------------------------------------------------------------------------------ */

static rlx_dtype wider_type(rlx_dtype t)
{
    if (rlx_dtype_is_int(t))
        return RLX_I32;
    return t == RLX_F16 || t == RLX_BF16 ? RLX_F32 : t;
}

/* Whether the target has the operation for f32 and i32 operands, tested with a graph of one
 * node. */
static bool has_wider_form(const rlx_graph *g, const rx_target *t, const rx_node *n)
{
    rx_rewrite w;
    if (rx_rewrite_begin(&w, g, NULL) != RLX_OK)
        return false;
    bool found = false, changed = false;
    const rlx_value *in = rx_rewrite_operands(&w, n);
    for (uint32_t i = 0; in && i < n->n_in; i++) {
        const rx_value *v = &g->values[n->in[i]];
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        rx_leaf_attr a = {.name = name, .dtype = wider_type(v->dtype), .shape = v->shape};
        if (!n->in[i])
            continue;
        changed |= a.dtype != v->dtype;
        rx_attr_map_dims(&rx_attr_leaf, &a, w.dims);
        w.in[i] = rx_graph_add(w.to, RX_OP_input, NULL, 0, &a, a.name);
    }
    rlx_value v = RLX_NONE;
    if (in && changed)
        v = rx_rewrite_try(&w, n->op, in, n->n_in, rx_rewrite_attr(&w, n), n->name);
    if (v.id)
        found = t->support(t, w.to, rx_value_node(w.to, v.id)) == RLX_SUPPORT_NATIVE;
    rlx_graph *unused;
    rx_rewrite_end(&w, RLX_CANCELLED, &unused, NULL);
    return found;
}

/* " on elements of type f64" when the node has such elements, which few devices compute with; few
 * have matrix products of integers. */
static const char *rare_type_text(const rlx_graph *g, const rx_node *n, char text[48])
{
    text[0] = 0;
    for (uint32_t i = 0; i < n->n_in + n->n_out && !text[0]; i++) {
        const uint32_t id = i < n->n_in ? n->in[i] : n->first_out + i - n->n_in;
        const rlx_dtype type = id ? g->values[id].dtype : RLX_NO_TYPE;
        if (RX_T(type) & RX_RARE || (n->op == RX_OP_matmul && rlx_dtype_is_int(type)))
            snprintf(text, 48, " on elements of type %s", rlx_dtype_name(type));
    }
    return text;
}

static rlx_status fail_node(const rlx_graph *g, const rx_target *t, const rx_node *n,
                            rlx_error *err)
{
    char text[RX_NODE_TEXT], type[48];
    const char *nearest = has_wider_form(g, t, n)
                              ? "the same operation on f32 or i32 operands, with a cast before it"
                              : "device cpu, which has every operation";
    return rx_fail(err, RLX_UNSUPPORTED,
                   "node %s: device %s has no kernel for it%s and it has no decomposition; "
                   "nearest: %s",
                   rx_node_text(g, n, text), t->name, rare_type_text(g, n, type), nearest);
}

/* ---- One round ------------------------------------------------------------------------------ */

/* Nodes of a decomposition get the name of the decomposed node. */
static void name_new_nodes(rlx_graph *g, size_t first, const char *name)
{
    for (size_t i = first; name && i < g->n_nodes; i++)
        if (!g->nodes[i].name)
            rlx_named(g, (rlx_value){g->nodes[i].first_out}, name);
}

static rlx_status check_result(rx_rewrite *w, const rx_node *n, uint32_t i, rlx_value got)
{
    char text[RX_NODE_TEXT], have[RX_TYPE_TEXT];
    const rx_value *v = &w->from->values[n->first_out + i], *r = &w->to->values[got.id];
    rlx_shape want = v->shape;
    for (int k = 0; k < want.rank; k++)
        if (want.dim[k] < 0)
            want.dim[k] = w->dims[-want.dim[k] - 2];
    if (got.id && r->dtype == v->dtype && rx_shape_equal(&r->shape, &want))
        return RLX_OK;
    return rx_graph_fail(w->to, n->op == RX_OP_custom ? RLX_INVALID : RLX_INTERNAL,
                         "node %s: its decomposition gave %s as result %u",
                         rx_node_text(w->from, n, text),
                         got.id ? rx_type_text(w->to, r->dtype, &r->shape, have) : "nothing", i);
}

static rlx_status decompose(rx_rewrite *w, const rx_node *n, action how)
{
    rlx_value out[RX_MAX_RESULTS] = {{0}};
    size_t before = w->to->n_nodes;
    const rlx_value *in = rx_rewrite_operands(w, n);
    if (!in)
        return w->to->error.code;
    const void *attr = rx_rewrite_attr(w, n);
    if (how == SPLIT_EPILOGUE) {
        out[0] = rx_epilogue_split(w, n, in, attr);
    } else {
        rx_lower c = {w->to, w->from, n, attr, in, out};
        rlx_status s = rx_lower_table[n->op](&c);
        if (s != RLX_OK)
            return rx_graph_fail(w->to, s, "%s '%s': its decomposition failed", rx_ops[n->op].name,
                                 n->name ? n->name : "");
    }
    if (w->to->error.code)
        return w->to->error.code;
    name_new_nodes(w->to, before, n->name);
    for (uint32_t i = 0; i < n->n_out; i++) {
        RLX_TRY(check_result(w, n, i, out[i]));
        w->map[n->first_out + i] = out[i].id;
    }
    return w->to->error.code;
}

/* Copies the graph; *changed when something was decomposed, so that another round is needed. */
static rlx_status run_round(const rlx_graph *g, const rx_target *t, rlx_graph **out, bool *changed,
                            rlx_error *err)
{
    rx_rewrite w;
    RLX_TRY(rx_rewrite_begin(&w, g, err));
    rlx_status s = w.to->error.code;
    for (size_t i = 0; i < g->n_nodes && s == RLX_OK; i++) {
        const rx_node *n = &g->nodes[i];
        if (!w.live[i])
            continue;
        action how = decide(g, t, n);
        if (how == KEEP) {
            s = rx_rewrite_copy(&w, n);
        } else if (how == FAIL) {
            s = fail_node(g, t, n, err);
        } else {
            *changed = true;
            s = decompose(&w, n, how);
        }
    }
    return rx_rewrite_end(&w, s, out, err);
}

rlx_status rx_legalise(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err)
{
    rlx_graph *now = NULL;
    *out = NULL;
    for (int round = 0; round < MAX_ROUNDS; round++) {
        rlx_graph *next;
        bool changed = false;
        rlx_status s = run_round(now ? now : g, t, &next, &changed, err);
        rlx_graph_destroy(now);
        if (s != RLX_OK)
            return s;
        now = next;
        if (!changed) {
            *out = now;
            return RLX_OK;
        }
    }
    rlx_graph_destroy(now);
    return rx_fail(err, RLX_INTERNAL,
                   "graph '%s': decompositions for device %s did not end after %d rounds", g->name,
                   t->name, MAX_ROUNDS);
}
