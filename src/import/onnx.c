/* SPDX-License-Identifier: MIT */
/* ONNX models: opening, closing, and queries that need no graph (operators, inputs, outputs,
 * metadata). */
#include "import/onnx.h"

#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "import/onnx_build.h"

static rlx_onnx *new_model(const char *path, rlx_error *err)
{
    rlx_onnx *m = rx_alloc_zero(sizeof *m);
    if (m && !(m->path = rx_arena_strdup(&m->arena, path))) {
        rlx_onnx_close(m);
        m = NULL;
    }
    if (!m)
        rx_fail_memory(err, path, sizeof *m);
    return m;
}

static rlx_status finish_open(rlx_onnx *m, rlx_status st, rlx_onnx **out)
{
    if (st == RLX_OK)
        *out = m;
    else
        rlx_onnx_close(m);
    return st;
}

static rlx_status read_model(rlx_onnx *m, rx_bytes bytes, rlx_error *err)
{
    RLX_TRY(rx_onnx_read(m, bytes, err));
    return rx_onnx_count_operators(m, err);
}

rlx_status rlx_onnx_open(const char *path, rlx_onnx **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_onnx_open: out", err));
    *out = NULL;
    RLX_TRY(rx_need(path, "rlx_onnx_open: path", err));
    rlx_onnx *m = new_model(path, err);
    if (!m)
        return RLX_NO_MEMORY;
    rlx_status st = rx_file_open(m->path, &m->file, err);
    if (st == RLX_OK)
        st = read_model(m, (rx_bytes){m->file.data, m->file.bytes}, err);
    return finish_open(m, st, out);
}

rlx_status rx_onnx_from_memory(const void *data, size_t bytes, const char *path, rlx_onnx **out,
                               rlx_error *err)
{
    *out = NULL;
    rlx_onnx *m = new_model(path, err);
    if (!m)
        return RLX_NO_MEMORY;
    return finish_open(m, read_model(m, (rx_bytes){data, bytes}, err), out);
}

void rlx_onnx_close(rlx_onnx *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_externals; i++)
        rx_file_close(&m->externals[i]);
    rx_file_close(&m->file);
    rx_free(m->externals);
    rx_free(m->external_names);
    rx_free(m->params);
    rx_free(m->operators);
    rx_arena_finish(&m->kept);
    rx_arena_finish(&m->arena);
    rx_free(m);
}

/* ---- Operators ------------------------------------------------------------------------------- */

int64_t rx_onnx_opset_version(const rx_onnx_opset *sets, size_t n, const char *domain)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(sets[i].domain, domain))
            return sets[i].version;
    return 0;
}

const rx_onnx_function *rx_onnx_find_function(const rlx_onnx *m, const char *domain,
                                              const char *name)
{
    for (size_t i = 0; i < m->n_functions; i++)
        if (!strcmp(m->functions[i].name, name) && !strcmp(m->functions[i].domain, domain))
            return &m->functions[i];
    return NULL;
}

typedef struct counter {
    rlx_onnx *m;
    rx_map names; /* "domain:name" to its index in the list */
    size_t cap;
    rlx_error *err;
} counter;

static rlx_status count_node(counter *k, const rx_onnx_node *n, int64_t opset)
{
    rlx_onnx *m = k->m;
    const size_t domain = strlen(n->domain), name = strlen(n->op);
    char *key = rx_arena_alloc(&m->arena, domain + name + 2);
    if (!key)
        return rx_fail_memory(k->err, n->op, domain + name + 2);
    memcpy(key, n->domain, domain);
    key[domain] = ':';
    memcpy(key + domain + 1, n->op, name + 1);
    const rx_map_slot *slot = rx_map_find(&k->names, key, domain + name + 1);
    if (slot) {
        m->operators[slot->value].n_nodes++;
        return RLX_OK;
    }
    if (!rx_grow(&m->operators, &k->cap, m->n_operators + 1, sizeof m->operators[0]) ||
        !rx_map_add(&k->names, key, domain + name + 1, (uint32_t)m->n_operators))
        return rx_fail_memory(k->err, n->op, sizeof m->operators[0]);
    m->operators[m->n_operators++] = (rlx_onnx_operator){
        RLX_INIT(rlx_onnx_operator), .name = n->op, .domain = domain ? n->domain : "ai.onnx",
        .opset = opset, .n_nodes = 1,
        .supported = rx_onnx_builder(n->domain, n->op, opset) ||
                     rx_onnx_find_function(m, n->domain, n->op)};
    return RLX_OK;
}

static rlx_status count_graph(counter *k, const rx_onnx_graph *g, const rx_onnx_opset *sets,
                              size_t n_sets)
{
    for (size_t i = 0; i < g->n_nodes; i++) {
        const rx_onnx_node *n = &g->nodes[i];
        RLX_TRY(count_node(k, n, rx_onnx_opset_version(sets, n_sets, n->domain)));
        for (size_t a = 0; a < n->n_attrs; a++)
            if (n->attrs[a].g)
                RLX_TRY(count_graph(k, n->attrs[a].g, sets, n_sets));
    }
    return RLX_OK;
}

static int compare_operators(const void *pa, const void *pb)
{
    const rlx_onnx_operator *a = pa, *b = pb;
    if (a->supported != b->supported)
        return a->supported ? 1 : -1;
    if (a->n_nodes != b->n_nodes)
        return a->n_nodes < b->n_nodes ? 1 : -1;
    const int names = strcmp(a->name, b->name);
    return names ? names : strcmp(a->domain, b->domain);
}

rlx_status rx_onnx_count_operators(rlx_onnx *m, rlx_error *err)
{
    counter k = {.m = m, .err = err};
    rlx_status st = count_graph(&k, &m->graph, m->opsets, m->n_opsets);
    for (size_t i = 0; i < m->n_functions && st == RLX_OK; i++) {
        const rx_onnx_function *f = &m->functions[i];
        st = count_graph(&k, &f->body, f->n_opsets ? f->opsets : m->opsets,
                         f->n_opsets ? f->n_opsets : m->n_opsets);
    }
    rx_map_finish(&k.names);
    if (st == RLX_OK && m->n_operators)
        qsort(m->operators, m->n_operators, sizeof m->operators[0], compare_operators);
    return st;
}

/* ---- Queries --------------------------------------------------------------------------------- */

static rlx_status no_such(const rlx_onnx *m, const char *what, size_t i, size_t n, rlx_error *err)
{
    return rx_fail(err, RLX_NOT_FOUND, "'%s' has no %s %zu; it has %zu", m->path, what, i, n);
}

rlx_status rlx_onnx_input(const rlx_onnx *m, size_t i, rlx_onnx_port *out, rlx_error *err)
{
    RLX_TRY(rx_need(m, "rlx_onnx_input: m", err));
    RLX_TRY(rx_need(out, "rlx_onnx_input: out", err));
    RLX_TRY(RX_INFO_CHECK(rlx_onnx_port, out, err));
    if (i >= m->graph.n_inputs)
        return no_such(m, "input", i, m->graph.n_inputs, err);
    return RX_INFO_WRITE(rlx_onnx_port, out, &m->graph.inputs[i], err);
}

rlx_status rlx_onnx_output(const rlx_onnx *m, size_t i, rlx_onnx_port *out, rlx_error *err)
{
    RLX_TRY(rx_need(m, "rlx_onnx_output: m", err));
    RLX_TRY(rx_need(out, "rlx_onnx_output: out", err));
    RLX_TRY(RX_INFO_CHECK(rlx_onnx_port, out, err));
    if (i >= m->graph.n_outputs)
        return no_such(m, "output", i, m->graph.n_outputs, err);
    return RX_INFO_WRITE(rlx_onnx_port, out, &m->graph.outputs[i], err);
}

rlx_status rlx_onnx_operator_at(const rlx_onnx *m, size_t i, rlx_onnx_operator *out,
                                rlx_error *err)
{
    RLX_TRY(rx_need(m, "rlx_onnx_operator_at: m", err));
    RLX_TRY(rx_need(out, "rlx_onnx_operator_at: out", err));
    RLX_TRY(RX_INFO_CHECK(rlx_onnx_operator, out, err));
    if (i >= m->n_operators)
        return no_such(m, "operator", i, m->n_operators, err);
    return RX_INFO_WRITE(rlx_onnx_operator, out, &m->operators[i], err);
}

rlx_status rlx_onnx_get_info(const rlx_onnx *m, rlx_onnx_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(m, "rlx_onnx_get_info: m", err));
    RLX_TRY(rx_need(out, "rlx_onnx_get_info: out", err));
    const rlx_onnx_info info = {
        RLX_INIT(rlx_onnx_info), .ir_version = m->ir_version,
        .opset = rx_onnx_opset_version(m->opsets, m->n_opsets, ""), .producer = m->producer,
        .graph = m->graph.name, .n_nodes = m->graph.n_nodes, .n_tensors = m->graph.n_tensors};
    return RX_INFO_WRITE(rlx_onnx_info, out, &info, err);
}

const char *rlx_onnx_metadata(const rlx_onnx *m, const char *key)
{
    for (size_t i = 0; m && key && i < m->n_notes; i++)
        if (!strcmp(m->notes[i].key, key))
            return m->notes[i].value;
    return NULL;
}

bool rlx_onnx_param(const rlx_onnx *m, size_t i, rlx_const_tensor *out)
{
    if (!m || !out || i >= m->n_params)
        return false;
    *out = m->params[i];
    return true;
}

rlx_status rlx_onnx_load_tensor(const char *path, rlx_npy *out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_onnx_load_tensor: out", err));
    *out = (rlx_npy){0};
    RLX_TRY(rx_need(path, "rlx_onnx_load_tensor: path", err));
    rlx_onnx *m = new_model(path, err);
    rx_onnx_tensor t = {0};
    rx_bytes data = {0};
    rlx_dtype dtype = RLX_NO_TYPE;
    if (!m)
        return RLX_NO_MEMORY;
    rlx_status st = rx_file_open(m->path, &m->file, err);
    if (st == RLX_OK)
        st = rx_onnx_tensor_read(m, (rx_bytes){m->file.data, m->file.bytes}, &t, err);
    if (st == RLX_OK)
        st = rx_onnx_tensor_data(m, &t, &dtype, &data, err);
    if (st == RLX_OK) {
        *out = (rlx_npy){dtype, t.shape, data.bytes, rx_alloc((uint64_t)data.bytes + 1)};
        if (!out->data)
            st = rx_fail_memory(err, path, data.bytes);
        else
            memcpy(out->data, data.data, data.bytes);
    }
    rlx_onnx_close(m);
    if (st != RLX_OK)
        *out = (rlx_npy){0};
    return st;
}
