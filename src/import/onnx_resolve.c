/* SPDX-License-Identifier: MIT */
/* Sizes, branches and ends of loops that come from data: the graph as far as it is built is a
 * program of its own, which is run on the device of the import with the given inputs. Importing
 * goes on with what came out as a known value. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx_build.h"
#include "ir/graph.h"

#define NAME "rx.needed"

/* A session of the graph so far with `id` as its only output. */
static rlx_status open_session(rx_onnx_build *b, uint32_t id, rlx_session **s, rlx_error *err)
{
    rlx_graph *g = b->g;
    const size_t n = g->n_outputs;
    if (!rx_grow(&g->outputs, &g->cap_outputs, n + 1, sizeof *g->outputs))
        return rx_fail_memory(err, NAME, sizeof *g->outputs);
    const rx_output first = g->outputs[0];
    g->outputs[0] = (rx_output){NAME, id};
    g->n_outputs = 1;
    const rlx_status st = rlx_session_create(b->desc->device, g, NULL, s, err);
    g->outputs[0] = first;
    g->n_outputs = n;
    return st;
}

/* Params and inputs that the program has; those that it does not need are left out. */
static rlx_status set_leaves(rx_onnx_build *b, rlx_session *s, rlx_error *err)
{
    const rlx_import_desc *d = b->desc;
    for (size_t i = 0; i < b->m->n_params; i++) {
        const rlx_const_tensor *p = &b->m->params[i];
        RLX_TRY(rlx_session_set_param(s, p->name, p->data, p->bytes, RLX_BORROW, err));
    }
    for (size_t i = 0; i < d->n_inputs; i++) {
        const rlx_import_value *v = &d->inputs[i];
        int64_t n;
        uint64_t bytes;
        if (!rx_shape_is_fixed(&v->shape) || !rx_shape_elements(b->g, &v->shape, &n) ||
            !rx_dtype_bytes(v->dtype, n, &bytes))
            return rx_fail(err, RLX_INVALID, "input '%.80s': expected a shape of numbers", v->name);
        if (rx_map_find(&b->g->leaf_names, v->name, strlen(v->name)))
            RLX_TRY(rlx_session_set_input(s, v->name, v->data, (size_t)bytes, err));
    }
    return RLX_OK;
}

static rlx_status compute(rx_onnx_build *b, rlx_value v, void *to, uint64_t bytes, rlx_error *err)
{
    rlx_session *s = NULL;
    rlx_status st = open_session(b, v.id, &s, err);
    if (st == RLX_OK)
        st = set_leaves(b, s, err);
    if (st == RLX_OK)
        st = rlx_run(s, NULL, 0, NULL, 0, err);
    if (st == RLX_OK)
        st = rlx_session_read(s, NAME, 0, to, (size_t)bytes, err);
    rlx_session_destroy(s);
    return st;
}

const void *rx_onnx_resolve(rx_onnx_build *b, rlx_value v, rlx_error *err)
{
    const rlx_shape s = rlx_value_shape(b->g, v);
    int64_t n;
    uint64_t bytes;
    if (!b->desc->device || b->g->error.code || !v.id || !rx_shape_is_fixed(&s) ||
        !rx_shape_elements(b->g, &s, &n) || !rx_dtype_bytes(rlx_value_dtype(b->g, v), n, &bytes))
        return NULL;
    void *data = rx_arena_zero(&b->arena, bytes + 1);
    if (!data) {
        rx_fail_memory(err, NAME, bytes);
        return NULL;
    }
    if (compute(b, v, data, bytes, err) != RLX_OK)
        return NULL;
    rx_onnx_set_known(b, v, data);
    return data;
}
