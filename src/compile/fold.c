/* SPDX-License-Identifier: MIT */
/* fold: removes what no output needs, shares equal nodes, computes constant expressions and drops
 * no-ops. Requires a verified graph; leaves one that computes the same values. */
#include "compile/fold.h"

#include "compile/compile.h"
#include "ir/infer.h"

/* A literal is created when it is at most MAX_BYTES and, above SMALL_BYTES, at most GROWTH times as
 * large as its operands: a model must not grow by expanding its constants. */
#define MAX_BYTES ((uint64_t)16 << 20)
#define SMALL_BYTES ((uint64_t)64 << 10)
#define GROWTH 2

typedef struct folder {
    rx_rewrite w;
    const rx_target *target;
    rx_cse cse;
    const void **data_in; /* operands of the node at hand */
    size_t cap_in;
} folder;

/* All operands are literals, and the results are worth keeping as such. */
static bool may_evaluate(const folder *f, const rx_node *n, const rlx_value *in)
{
    uint16_t flags = rx_ops[n->op].flags;
    if (!f->target->eval || flags & (RX_OP_LEAF | RX_OP_EFFECT) || n->op == RX_OP_copy)
        return false;
    uint64_t bytes_in = 0, bytes_out = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!in[i].id)
            continue;
        if (rx_value_node(f->w.to, in[i].id)->op != RX_OP_constant)
            return false;
        bytes_in += rx_value_bytes(f->w.to, in[i].id);
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        uint64_t bytes = rx_value_bytes(f->w.from, n->first_out + i);
        if (bytes > MAX_BYTES)
            return false;
        bytes_out += bytes;
    }
    return bytes_out <= SMALL_BYTES || (bytes_out <= MAX_BYTES && bytes_out <= GROWTH * bytes_in);
}

static rlx_status no_memory(folder *f, const rx_node *n)
{
    char text[RX_NODE_TEXT];
    return rx_graph_fail(f->w.to, RLX_NO_MEMORY, "out of memory: folding node %s",
                         rx_node_text(f->w.from, n, text));
}

/* Adds the results of an evaluated node to the new graph as literals. */
static rlx_status add_results(folder *f, const rx_node *n, void *const *data)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        const rx_value *v = &f->w.from->values[n->first_out + i];
        rx_leaf_attr a = {.dtype = v->dtype, .shape = v->shape, .data = data[i],
                          .bytes = rx_value_bytes(f->w.from, n->first_out + i)};
        rx_cse_key key = {.op = RX_OP_constant, .attr = &a};
        rlx_value c = rx_cse_find(&f->cse, f->w.to, &key);
        if (!c.id) {
            c = rx_graph_add(f->w.to, RX_OP_constant, NULL, 0, &a, NULL);
            if (!c.id)
                return f->w.to->error.code;
            if (!rx_cse_add(&f->cse, f->w.to))
                return no_memory(f, n);
            rlx_named(f->w.to, c, n->name);
        }
        f->w.map[n->first_out + i] = c.id;
    }
    return f->w.to->error.code;
}

/* *done stays false when the target cannot compute this node now. */
static rlx_status evaluate(folder *f, const rx_node *n, const rlx_value *in, bool *done)
{
    void *data[RX_MAX_RESULTS] = {0};
    rlx_error why; /* not an error of the compilation: the node stays */
    if (!rx_grow(&f->data_in, &f->cap_in, n->n_in + 1, sizeof *f->data_in))
        return no_memory(f, n);
    for (uint32_t i = 0; i < n->n_in; i++)
        f->data_in[i] =
            in[i].id ? ((const rx_leaf_attr *)rx_value_node(f->w.to, in[i].id)->attr)->data : NULL;

    rlx_status s = RLX_OK;
    for (uint32_t i = 0; i < n->n_out && s == RLX_OK; i++) {
        data[i] = rx_alloc_aligned(rx_value_bytes(f->w.from, n->first_out + i));
        if (!data[i])
            s = no_memory(f, n);
    }
    if (s == RLX_OK) {
        rlx_status computed = f->target->eval(f->w.from, n, f->data_in, data, &why);
        *done = computed == RLX_OK;
        if (*done)
            s = add_results(f, n, data);
        else if (computed == RLX_NO_MEMORY)
            s = no_memory(f, n);
    }
    for (uint32_t i = 0; i < n->n_out; i++)
        rx_free_aligned(data[i]);
    return s;
}

static rlx_status fold_node(folder *f, const rx_node *n)
{
    const rlx_value *in = rx_rewrite_operands(&f->w, n);
    if (!in)
        return f->w.to->error.code;
    bool done = false;
    if (may_evaluate(f, n, in))
        RLX_TRY(evaluate(f, n, in, &done));
    if (done)
        return RLX_OK;

    rlx_value v = rx_simplify(&f->w, n, in);
    if (!v.id && !f->w.to->error.code) {
        rx_cse_key key = {n->op, in, n->n_in, rx_rewrite_attr(&f->w, n)};
        v = rx_cse_find(&f->cse, f->w.to, &key);
    }
    if (v.id) {
        rx_rewrite_map(&f->w, n, v);
        return RLX_OK;
    }
    RLX_TRY(rx_rewrite_copy(&f->w, n));
    return rx_cse_add(&f->cse, f->w.to) ? RLX_OK : no_memory(f, n);
}

rlx_status rx_fold(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err)
{
    folder f = {.target = t};
    *out = NULL;
    RLX_TRY(rx_rewrite_begin(&f.w, g, err));
    rlx_status s = f.w.to->error.code;
    for (size_t i = 0; i < g->n_nodes && s == RLX_OK; i++)
        if (f.w.live[i])
            s = fold_node(&f, &g->nodes[i]);
    rx_cse_finish(&f.cse);
    rx_free(f.data_in);
    return rx_rewrite_end(&f.w, s, out, err);
}
