/* SPDX-License-Identifier: MIT */
/* Constant folding while importing. Exporters compute shapes by operators, which are evaluated here
 * on the graph itself, by the reference kernels. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx_build.h"
#include "ir/graph.h"
#include "runtime/host.h"

/* Larger values are data, not shapes, and are not folded. */
#define MAX_BYTES (1 << 20)
#define MAX_DEPTH 512
#define MAX_WEIGHT_DEPTH 8
#define MIN_WEIGHT 256 /* elements; fewer are constants, which the compiler folds */

static bool make_room(rx_onnx_build *b, size_t n)
{
    const size_t old = b->cap_known;
    if (n <= old)
        return true;
    if (!rx_grow(&b->known, &b->cap_known, n, sizeof b->known[0]))
        return false;
    memset(b->known + old, 0, (b->cap_known - old) * sizeof b->known[0]);
    return true;
}

void rx_onnx_set_known(rx_onnx_build *b, rlx_value v, const void *data)
{
    if (v.id && make_room(b, (size_t)v.id + 1))
        b->known[v.id] = (rx_onnx_known){data, true, b->known[v.id].kept, b->known[v.id].type};
}

void rx_onnx_set_type(rx_onnx_build *b, rlx_value v, int32_t type)
{
    if (v.id && make_room(b, (size_t)v.id + 1))
        b->known[v.id].type = type;
}

const rx_onnx_type *rx_onnx_narrow(rx_onnx_build *b, rlx_value v)
{
    uint32_t id = v.id;
    while (id && id < b->g->n_values) {
        if (id < b->cap_known && b->known[id].type)
            return rx_onnx_type_of(b->known[id].type);
        const rx_node *n = rx_value_node(b->g, id);
        id = n->n_in && rx_ops[n->op].flags & RX_OP_MOVES ? n->in[0] : 0;
    }
    return NULL;
}

static const void *find_data(rx_onnx_build *b, uint32_t id, int depth);

/* Runs one node on known operands and keeps its results. */
static void evaluate(rx_onnx_build *b, const rx_node *n, int depth)
{
    rlx_graph *g = b->g;
    const void **in = rx_arena_array_zero(&b->arena, n->n_in, sizeof *in);
    void **out = rx_arena_array_zero(&b->arena, n->n_out, sizeof *out);
    if (!in || !out)
        return;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const uint64_t bytes = rx_value_bytes(g, n->first_out + i);
        if (bytes > MAX_BYTES || !(out[i] = rx_arena_zero(&b->arena, bytes + 1)))
            return;
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && !(in[i] = find_data(b, n->in[i], depth + 1)))
            return;
    if (rx_host_eval(g, n, in, out, NULL) != RLX_OK)
        return;
    for (uint32_t i = 0; i < n->n_out; i++)
        b->known[n->first_out + i].data = out[i];
}

static const void *find_data(rx_onnx_build *b, uint32_t id, int depth)
{
    const rlx_graph *g = b->g;
    const rx_node *n = rx_value_node(g, id);
    if (depth > MAX_DEPTH || !make_room(b, g->n_values))
        return NULL;
    if (b->known[id].tried)
        return b->known[id].data;
    for (uint32_t i = 0; i < n->n_out; i++)
        b->known[n->first_out + i].tried = true;
    if (n->op == RX_OP_constant)
        b->known[id].data = ((const rx_leaf_attr *)n->attr)->data;
    else if (!(rx_ops[n->op].flags & (RX_OP_LEAF | RX_OP_EFFECT)))
        evaluate(b, n, depth);
    return b->known[id].data;
}

const void *rx_onnx_value_data(rx_onnx_build *b, rlx_value v)
{
    if (!v.id || v.id >= b->g->n_values || b->g->error.code != RLX_OK)
        return NULL;
    return find_data(b, v.id, 0);
}

const void *rx_onnx_weight_data(rx_onnx_build *b, rlx_value v)
{
    const rlx_onnx *m = b->m;
    if (!v.id || v.id >= b->g->n_values || b->g->error.code != RLX_OK)
        return NULL;
    const rx_node *n = rx_value_node(b->g, v.id);
    const rx_leaf_attr *leaf = n->attr;
    if (n->op == RX_OP_constant)
        return leaf->data;
    for (size_t i = m->n_params; n->op == RX_OP_param && i--;)
        if (!strcmp(m->params[i].name, leaf->name))
            return m->params[i].data;
    return NULL;
}

/* The elements of a value that follows from weights and constants; NULL: it does not, or something
 * on the way is above RX_ONNX_MAX_COPIED. */
static const void *compute(rx_onnx_build *b, uint32_t id, int depth)
{
    rlx_graph *g = b->g;
    const rx_node *n = rx_value_node(g, id);
    const void *data = rx_onnx_weight_data(b, (rlx_value){id});
    if (!data)
        data = rx_onnx_value_data(b, (rlx_value){id});
    if (data || depth > MAX_WEIGHT_DEPTH || n->n_out != 1 ||
        rx_ops[n->op].flags & (RX_OP_LEAF | RX_OP_EFFECT) ||
        rx_value_bytes(g, id) > RX_ONNX_MAX_COPIED)
        return data;
    const void **in = rx_arena_array_zero(&b->arena, n->n_in, sizeof *in);
    void *out = rx_arena_zero(&b->arena, rx_value_bytes(g, id) + 1);
    for (uint32_t i = 0; in && i < n->n_in; i++)
        if (n->in[i] && !(in[i] = compute(b, n->in[i], depth + 1)))
            return NULL;
    return in && out && rx_host_eval(g, n, in, &out, NULL) == RLX_OK ? out : NULL;
}

rlx_value rx_onnx_computed_weight(rx_onnx_call *c, rlx_value v)
{
    rx_onnx_build *b = c->b;
    const rlx_shape s = rlx_value_shape(c->g, v);
    const int64_t all = rx_onnx_elements(c, v);
    if (!v.id || b->g->error.code != RLX_OK || all <= MIN_WEIGHT ||
        rx_ops[rx_value_node(c->g, v.id)->op].flags & RX_OP_LEAF)
        return v;
    const uint64_t bytes = rx_value_bytes(c->g, v.id);
    const void *from = bytes > RX_ONNX_MAX_COPIED - b->n_copied ? NULL : compute(b, v.id, 0);
    void *to = from ? rx_arena_alloc(&b->m->arena, bytes) : NULL;
    rlx_value weight;
    if (!to)
        return v;
    b->n_copied += bytes;
    memcpy(to, from, bytes);
    const rlx_status st = rx_onnx_add_param(b, "", rlx_value_dtype(c->g, v), &s,
                                            (rx_bytes){to, bytes}, &weight);
    return st == RLX_OK ? weight : v;
}

/* ---- As numbers ------------------------------------------------------------------------------ */

const void *rx_onnx_demand(rx_onnx_call *c, rlx_value v, const char *what)
{
    rlx_error why = {0};
    const void *data = rx_onnx_value_data(c->b, v);
    if (!data)
        data = rx_onnx_resolve(c->b, v, &why);
    if (!data && why.code)
        rx_onnx_fail(c, why.code, "its %s could not be computed: %.200s", what, why.text);
    else if (!data)
        rx_onnx_fail(c, RLX_UNSUPPORTED, "its %s must be known when the graph is built: a "
                     "constant, computed from fixed shapes, or from inputs whose values are given",
                     what);
    return data;
}

const void *rx_onnx_need(rx_onnx_call *c, size_t i, const char *what)
{
    const rlx_value v = rx_onnx_in(c, i);
    if (v.id)
        return rx_onnx_demand(c, v, what);
    rx_onnx_fail(c, RLX_INVALID, "its %s is absent", what);
    return NULL;
}

bool rx_onnx_known_reals(rx_onnx_call *c, size_t i, const char *what, double *out, size_t cap,
                         size_t *n)
{
    const rlx_value v = rx_onnx_in(c, i);
    const int64_t count = rx_onnx_elements(c, v);
    const rlx_dtype t = rlx_value_dtype(c->g, v);
    *n = 0;
    if (count < 0 || (uint64_t)count > cap) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "its %s has more than %zu elements", what, cap);
        return false;
    }
    const unsigned char *data = rx_onnx_demand(c, v, what);
    if (!data)
        return false;
    for (int64_t k = 0; k < count; k++) {
        const unsigned char *p = data + k * rlx_dtype_block_bytes(t);
        int64_t wide;
        int32_t narrow;
        float f;
        if (t == RLX_I64) {
            memcpy(&wide, p, sizeof wide);
            out[k] = (double)wide;
        } else if (t == RLX_I32) {
            memcpy(&narrow, p, sizeof narrow);
            out[k] = narrow;
        } else if (rlx_to_float(t, p, &f, 1) == RLX_OK) {
            out[k] = f;
        }
    }
    *n = (size_t)count;
    return true;
}

bool rx_onnx_known_ints(rx_onnx_call *c, size_t i, const char *what, rlx_ints *out)
{
    const rlx_value v = rx_onnx_in(c, i);
    const int64_t n = rx_onnx_elements(c, v);
    const rlx_dtype t = rlx_value_dtype(c->g, v);
    *out = (rlx_ints){0};
    if (!v.id || (t != RLX_I64 && t != RLX_I32) || n < 0 || n > RLX_MAX_INTS) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "its %s: expected at most %d integers", what,
                     RLX_MAX_INTS);
        return false;
    }
    const void *data = rx_onnx_demand(c, v, what);
    if (!data)
        return false;
    for (int64_t k = 0; k < n; k++)
        out->v[k] = t == RLX_I64 ? ((const int64_t *)data)[k] : ((const int32_t *)data)[k];
    out->n = (int32_t)n;
    return true;
}

bool rx_onnx_axes(rx_onnx_call *c, const char *name, size_t i, rlx_ints *out, bool *given)
{
    *given = true;
    if (rx_onnx_in(c, i).id)
        return rx_onnx_known_ints(c, i, name, out);
    *given = rx_onnx_ints(c, name, out);
    return c->b->status == RLX_OK;
}
