/* SPDX-License-Identifier: MIT */
/* The structure of an ONNX file: models, graphs, nodes, attributes, functions. Repeated fields are
 * counted before memory is allocated, so allocations are bounded by the size of the file. */
#include <stdio.h>
#include <string.h>

#include "base/little.h"
#include "import/onnx.h"

/* Field numbers, by message. */
enum {
    MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_NOTE = 14,
    MODEL_FUNCTION = 25,
    GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_TENSOR = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12,
    GRAPH_SPARSE = 15,
    NODE_IN = 1, NODE_OUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTR = 5, NODE_DOMAIN = 7,
    ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_T = 5, ATTR_G = 6, ATTR_FLOATS = 7,
    ATTR_INTS = 8, ATTR_STRINGS = 9, ATTR_TYPE = 20, ATTR_REF = 21,
    FUNC_NAME = 1, FUNC_IN = 4, FUNC_OUT = 5, FUNC_ATTR = 6, FUNC_NODE = 7, FUNC_OPSET = 9,
    FUNC_DOMAIN = 10, FUNC_DEFAULT = 11,
    VALUE_NAME = 1, VALUE_TYPE = 2
};

typedef struct reader {
    rlx_onnx *m;
    rlx_error *err;
    int depth;
} reader;

rlx_status rx_onnx_damaged(const rlx_onnx *m, const char *what, rlx_error *err)
{
    return rx_fail(err, RLX_PARSE, "'%s' is no ONNX model, or damaged: %s is not as protobuf has "
                   "it", m->path, what);
}

rlx_status rx_onnx_text(rlx_onnx *m, rx_bytes text, const char **out, rlx_error *err)
{
    if (text.bytes && memchr(text.data, 0, text.bytes))
        return rx_fail(err, RLX_PARSE, "'%s': a name has a zero byte", m->path);
    *out = text.bytes ? rx_arena_strndup(&m->arena, text.data, text.bytes) : "";
    return *out ? RLX_OK : rx_fail_memory(err, "a name", text.bytes + 1);
}

static rlx_status text_of(const reader *r, const rx_pb_field *f, const char **out)
{
    return rx_onnx_text(r->m, f->wire == RX_PB_BYTES ? f->bytes : (rx_bytes){"", 0}, out, r->err);
}

/* The number of occurrences of a field in a message; SIZE_MAX: the message is damaged. */
static size_t count_field(rx_bytes message, uint32_t number, rx_pb_wire wire)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    size_t n = 0;
    int more;
    while ((more = rx_pb_next(&pb, &f)) > 0)
        n += f.number == number && f.wire == wire;
    return more < 0 ? SIZE_MAX : n;
}

/* Allocates the array for a repeated field of messages or strings. */
static rlx_status new_list(const reader *r, rx_bytes message, uint32_t number, size_t item,
                           const char *what, void *list)
{
    const size_t n = count_field(message, number, RX_PB_BYTES);
    if (n == SIZE_MAX)
        return rx_onnx_damaged(r->m, what, r->err);
    void *p = rx_arena_array_zero(&r->m->arena, n, item);
    memcpy(list, &p, sizeof p);
    return p ? RLX_OK : rx_fail_memory(r->err, what, rx_array_bytes(n, item));
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static rlx_status read_graph(reader *r, rx_bytes message, rx_onnx_graph *g);

/* Repeated numbers of an attribute: packed or not; varints or floats. */
static rlx_status read_numbers(const reader *r, rx_bytes message, rx_onnx_attr *a)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    int64_t *ints = rx_arena_array(&r->m->arena, a->n, sizeof *ints);
    float *floats = rx_arena_array(&r->m->arena, a->n, sizeof *floats);
    size_t ni = 0, nf = 0;
    uint64_t v;
    if (!ints || !floats)
        return rx_fail_memory(r->err, a->name, rx_array_bytes(a->n, sizeof *ints));
    while (rx_pb_next(&pb, &f) > 0) {
        rx_pb list = rx_pb_open(f.bytes);
        if (f.number == ATTR_INTS)
            while (ni < a->n && rx_pb_varint(&list, &v))
                ints[ni++] = (int64_t)v;
        if (f.number == ATTR_FLOATS)
            for (; nf < a->n && list.end - list.at >= 4; list.at += 4)
                rx_little_copy(RLX_F32, list.at, &floats[nf++], 4);
    }
    a->ints = ints;
    a->floats = floats;
    return ni == a->n || nf == a->n ? RLX_OK : rx_onnx_damaged(r->m, "a list of numbers", r->err);
}

static rlx_status read_strings(const reader *r, rx_bytes message, rx_onnx_attr *a)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    rx_bytes *list = rx_arena_array(&r->m->arena, a->n, sizeof *list);
    size_t n = 0;
    if (!list)
        return rx_fail_memory(r->err, a->name, rx_array_bytes(a->n, sizeof *list));
    while (rx_pb_next(&pb, &f) > 0)
        if (f.number == ATTR_STRINGS && f.wire == RX_PB_BYTES && n < a->n)
            list[n++] = f.bytes;
    a->strings = list;
    a->n = n;
    return RLX_OK;
}

static rlx_status read_subgraph(reader *r, rx_bytes message, rx_onnx_attr *a)
{
    rx_onnx_graph *g = rx_arena_zero(&r->m->arena, sizeof *g);
    if (!g)
        return rx_fail_memory(r->err, "a sub-graph", sizeof *g);
    if (r->depth == RX_ONNX_MAX_DEPTH)
        return rx_fail(r->err, RLX_UNSUPPORTED, "'%s': sub-graphs are nested more than %d deep",
                       r->m->path, RX_ONNX_MAX_DEPTH);
    r->depth++;
    RLX_TRY(read_graph(r, message, g));
    r->depth--;
    a->g = g;
    return RLX_OK;
}

static rlx_status read_tensor(const reader *r, rx_bytes message, const rx_onnx_tensor **out)
{
    rx_onnx_tensor *t = rx_arena_alloc(&r->m->arena, sizeof *t);
    if (!t)
        return rx_fail_memory(r->err, "a tensor", sizeof *t);
    RLX_TRY(rx_onnx_tensor_read(r->m, message, t, r->err));
    *out = t;
    return RLX_OK;
}

static rlx_status read_attr_field(reader *r, const rx_pb_field *f, rx_onnx_attr *a)
{
    size_t n = 1;
    switch (f->number) {
    case ATTR_NAME: return text_of(r, f, &a->name);
    case ATTR_REF: return text_of(r, f, &a->ref);
    case ATTR_TYPE: a->type = f->value > 100 ? -1 : (int32_t)f->value; break;
    case ATTR_I: a->i = (int64_t)f->value; break;
    case ATTR_S: a->s = f->bytes; break;
    case ATTR_T: return read_tensor(r, f->bytes, &a->t);
    case ATTR_G: return read_subgraph(r, f->bytes, a);
    case ATTR_STRINGS: a->n++; break;
    case ATTR_F:
        if (f->bytes.bytes == 4)
            rx_little_copy(RLX_F32, f->bytes.data, &a->f, 4);
        break;
    case ATTR_FLOATS: a->n += f->bytes.bytes / 4; break;
    case ATTR_INTS:
        if (f->wire == RX_PB_BYTES && !rx_pb_count(f->bytes, &n))
            return rx_onnx_damaged(r->m, "a list of numbers", r->err);
        a->n += n;
        break;
    default: break;
    }
    return RLX_OK;
}

static rlx_status read_attr(reader *r, rx_bytes message, rx_onnx_attr *a)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    int more;
    *a = (rx_onnx_attr){.name = "", .s = {"", 0}};
    while ((more = rx_pb_next(&pb, &f)) > 0)
        RLX_TRY(read_attr_field(r, &f, a));
    if (more < 0)
        return rx_onnx_damaged(r->m, "an attribute", r->err);
    if (a->type == RX_ONNX_INTS || a->type == RX_ONNX_FLOATS)
        return read_numbers(r, message, a);
    if (a->type == RX_ONNX_STRINGS)
        return read_strings(r, message, a);
    a->n = 0;
    return RLX_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static rlx_status read_node_field(reader *r, const rx_pb_field *f, rx_onnx_node *n,
                                  rx_onnx_attr *attrs)
{
    switch (f->number) {
    case NODE_IN: return f->wire == RX_PB_BYTES ? text_of(r, f, &n->in[n->n_in++]) : RLX_OK;
    case NODE_OUT: return f->wire == RX_PB_BYTES ? text_of(r, f, &n->out[n->n_out++]) : RLX_OK;
    case NODE_NAME: return text_of(r, f, &n->name);
    case NODE_OP: return text_of(r, f, &n->op);
    case NODE_DOMAIN:
        RLX_TRY(text_of(r, f, &n->domain));
        if (!strcmp(n->domain, "ai.onnx"))
            n->domain = "";
        return RLX_OK;
    case NODE_ATTR:
        return f->wire == RX_PB_BYTES ? read_attr(r, f->bytes, &attrs[n->n_attrs++]) : RLX_OK;
    default: return RLX_OK;
    }
}

static rlx_status read_node(reader *r, rx_bytes message, rx_onnx_node *n)
{
    rx_onnx_attr *attrs = NULL;
    *n = (rx_onnx_node){.name = "", .op = "", .domain = ""};
    RLX_TRY(new_list(r, message, NODE_IN, sizeof n->in[0], "a node", &n->in));
    RLX_TRY(new_list(r, message, NODE_OUT, sizeof n->out[0], "a node", &n->out));
    RLX_TRY(new_list(r, message, NODE_ATTR, sizeof *attrs, "a node", &attrs));
    n->attrs = attrs;
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    while (rx_pb_next(&pb, &f) > 0)
        RLX_TRY(read_node_field(r, &f, n, attrs));
    return RLX_OK;
}

/* ---- Declared inputs and outputs ------------------------------------------------------------- */

/* "?" names no dimension. */
static bool is_unknown(const rx_bytes *name)
{
    return name->bytes == 1 && *(const char *)name->data == '?';
}

static rlx_status read_dimension(const reader *r, rx_bytes message, rlx_onnx_port *p)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    if (p->rank == RLX_MAX_RANK)
        return rx_fail(r->err, RLX_UNSUPPORTED, "'%s': '%.80s' has more than %d dimensions",
                       r->m->path, p->name, RLX_MAX_RANK);
    int64_t size = -1;
    const char *name = NULL;
    while (rx_pb_next(&pb, &f) > 0) {
        if (f.number == 1 && f.wire == RX_PB_VARINT && f.value <= INT64_MAX)
            size = (int64_t)f.value;
        if (f.number == 2 && f.wire == RX_PB_BYTES && f.bytes.bytes && !is_unknown(&f.bytes))
            RLX_TRY(text_of(r, &f, &name));
    }
    p->dim_name[p->rank] = name;
    p->dim[p->rank++] = size;
    return RLX_OK;
}

/* TypeProto.Tensor: element type and shape. */
static rlx_status read_tensor_type(const reader *r, rx_bytes message, rlx_onnx_port *p)
{
    rx_pb pb = rx_pb_open(message), dims;
    rx_pb_field f, d;
    while (rx_pb_next(&pb, &f) > 0) {
        if (f.number == 1) {
            const rx_onnx_type *t = rx_onnx_type_of((int64_t)f.value);
            p->dtype = t ? t->dtype : RLX_NO_TYPE;
            p->type_name = !t ? "unknown" : t->dtype && !t->bits ? rlx_dtype_name(t->dtype)
                                                                 : t->name;
        }
        if (f.number != 2 || f.wire != RX_PB_BYTES)
            continue;
        p->rank = 0;
        dims = rx_pb_open(f.bytes);
        while (rx_pb_next(&dims, &d) > 0)
            if (d.number == 1)
                RLX_TRY(read_dimension(r, d.bytes, p));
    }
    return RLX_OK;
}

static rlx_status read_port(const reader *r, rx_bytes message, rlx_onnx_port *p)
{
    static const char *const kinds[] = {"?", "tensor", "?", "?", "sequence", "map", "?", "opaque",
                                        "sparse tensor", "optional"};
    rx_pb pb = rx_pb_open(message), type;
    rx_pb_field f, t;
    *p = (rlx_onnx_port){RLX_INIT(rlx_onnx_port), .name = "", .type_name = "unknown", .rank = -1};
    while (rx_pb_next(&pb, &f) > 0) {
        if (f.number == VALUE_NAME)
            RLX_TRY(text_of(r, &f, &p->name));
        if (f.number != VALUE_TYPE)
            continue;
        type = rx_pb_open(f.bytes);
        while (rx_pb_next(&type, &t) > 0) {
            if (t.number == 1)
                RLX_TRY(read_tensor_type(r, t.bytes, p));
            else if (t.number < 10 && t.wire == RX_PB_BYTES && t.number != 6)
                p->type_name = kinds[t.number];
        }
    }
    return RLX_OK;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

typedef struct lists {
    rx_onnx_node *nodes;
    rx_onnx_tensor *tensors;
} lists;

static rlx_status read_graph_field(reader *r, const rx_pb_field *f, rx_onnx_graph *g,
                                   const lists *l)
{
    if (f->number == GRAPH_NAME)
        return text_of(r, f, &g->name);
    if (f->wire != RX_PB_BYTES)
        return RLX_OK;
    switch (f->number) {
    case GRAPH_NODE: return read_node(r, f->bytes, &l->nodes[g->n_nodes++]);
    case GRAPH_TENSOR:
        return rx_onnx_tensor_read(r->m, f->bytes, &l->tensors[g->n_tensors++], r->err);
    case GRAPH_INPUT: return read_port(r, f->bytes, &g->inputs[g->n_inputs++]);
    case GRAPH_OUTPUT: return read_port(r, f->bytes, &g->outputs[g->n_outputs++]);
    case GRAPH_SPARSE:
        return rx_fail(r->err, RLX_UNSUPPORTED, "'%s': graph '%.80s' has sparse weights, which rlx "
                       "does not read", r->m->path, g->name);
    default: return RLX_OK;
    }
}

static rlx_status read_graph(reader *r, rx_bytes message, rx_onnx_graph *g)
{
    lists l;
    *g = (rx_onnx_graph){.name = ""};
    RLX_TRY(new_list(r, message, GRAPH_NODE, sizeof *l.nodes, "a graph", &l.nodes));
    RLX_TRY(new_list(r, message, GRAPH_TENSOR, sizeof *l.tensors, "a graph", &l.tensors));
    RLX_TRY(new_list(r, message, GRAPH_INPUT, sizeof *g->inputs, "a graph", &g->inputs));
    RLX_TRY(new_list(r, message, GRAPH_OUTPUT, sizeof *g->outputs, "a graph", &g->outputs));
    g->nodes = l.nodes;
    g->tensors = l.tensors;
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    while (rx_pb_next(&pb, &f) > 0)
        RLX_TRY(read_graph_field(r, &f, g, &l));
    return rx_onnx_sort_nodes(r->m, g, r->err);
}

static rlx_status read_opset(const reader *r, rx_bytes message, rx_onnx_opset *s)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    *s = (rx_onnx_opset){.domain = ""};
    while (rx_pb_next(&pb, &f) > 0) {
        if (f.number == 1)
            RLX_TRY(text_of(r, &f, &s->domain));
        if (f.number == 2 && f.wire == RX_PB_VARINT && f.value <= INT32_MAX)
            s->version = (int64_t)f.value;
    }
    if (!strcmp(s->domain, "ai.onnx"))
        s->domain = "";
    return RLX_OK;
}

/* ---- Functions ------------------------------------------------------------------------------- */

typedef struct function_lists {
    rx_onnx_node *nodes;
    rx_onnx_attr *defaults;
    rx_onnx_opset *opsets;
} function_lists;

static rlx_status read_function_field(reader *r, const rx_pb_field *f, rx_onnx_function *fn,
                                      const function_lists *l)
{
    if (f->wire != RX_PB_BYTES)
        return RLX_OK;
    switch (f->number) {
    case FUNC_NAME: return text_of(r, f, &fn->name);
    case FUNC_DOMAIN: return text_of(r, f, &fn->domain);
    case FUNC_IN: return text_of(r, f, &fn->in[fn->n_in++]);
    case FUNC_OUT: return text_of(r, f, &fn->out[fn->n_out++]);
    case FUNC_NODE: return read_node(r, f->bytes, &l->nodes[fn->body.n_nodes++]);
    case FUNC_OPSET: return read_opset(r, f->bytes, &l->opsets[fn->n_opsets++]);
    case FUNC_DEFAULT: return read_attr(r, f->bytes, &l->defaults[fn->n_defaults++]);
    default: return RLX_OK;
    }
}

static rlx_status read_function(reader *r, rx_bytes message, rx_onnx_function *fn)
{
    static const char what[] = "a function";
    function_lists l;
    *fn = (rx_onnx_function){.name = "", .domain = "", .body = {.name = ""}};
    RLX_TRY(new_list(r, message, FUNC_IN, sizeof fn->in[0], what, &fn->in));
    RLX_TRY(new_list(r, message, FUNC_OUT, sizeof fn->out[0], what, &fn->out));
    RLX_TRY(new_list(r, message, FUNC_NODE, sizeof *l.nodes, what, &l.nodes));
    RLX_TRY(new_list(r, message, FUNC_OPSET, sizeof *l.opsets, what, &l.opsets));
    RLX_TRY(new_list(r, message, FUNC_DEFAULT, sizeof *l.defaults, what, &l.defaults));
    fn->body.nodes = l.nodes;
    fn->opsets = l.opsets;
    fn->defaults = l.defaults;
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    while (rx_pb_next(&pb, &f) > 0)
        RLX_TRY(read_function_field(r, &f, fn, &l));
    return RLX_OK;
}

/* ---- The model ------------------------------------------------------------------------------- */

/* StringStringEntryProto. */
static rlx_status read_note(const reader *r, rx_bytes message, rx_onnx_note *n)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    *n = (rx_onnx_note){"", ""};
    while (rx_pb_next(&pb, &f) > 0)
        if (f.wire == RX_PB_BYTES && (f.number == 1 || f.number == 2))
            RLX_TRY(text_of(r, &f, f.number == 1 ? &n->key : &n->value));
    return RLX_OK;
}

typedef struct model_lists {
    rx_onnx_opset *opsets;
    rx_onnx_function *functions;
    rx_onnx_note *notes;
} model_lists;

static rlx_status read_model_field(reader *r, const rx_pb_field *f, const model_lists *l)
{
    rlx_onnx *m = r->m;
    switch (f->number) {
    case MODEL_IR: m->ir_version = (int64_t)f->value; return RLX_OK;
    case MODEL_PRODUCER: return text_of(r, f, &m->producer);
    case MODEL_OPSET:
        return f->wire == RX_PB_BYTES ? read_opset(r, f->bytes, &l->opsets[m->n_opsets++]) : RLX_OK;
    case MODEL_NOTE:
        return f->wire == RX_PB_BYTES ? read_note(r, f->bytes, &l->notes[m->n_notes++]) : RLX_OK;
    case MODEL_GRAPH:
        return f->wire == RX_PB_BYTES ? read_graph(r, f->bytes, &m->graph)
                                      : rx_onnx_damaged(m, "the graph", r->err);
    case MODEL_FUNCTION:
        return f->wire == RX_PB_BYTES ? read_function(r, f->bytes, &l->functions[m->n_functions++])
                                      : RLX_OK;
    default: return RLX_OK;
    }
}

/* IR 3 lists initialisers among the inputs too: drops those inputs. */
static rlx_status drop_weights(rlx_onnx *m, rlx_error *err)
{
    rx_map names = {0};
    rx_onnx_graph *g = &m->graph;
    size_t n = 0;
    bool ok = true;
    for (size_t i = 0; i < g->n_tensors && ok; i++) {
        const size_t length = strlen(g->tensors[i].name);
        if (!rx_map_find(&names, g->tensors[i].name, length))
            ok = rx_map_add(&names, g->tensors[i].name, length, 0);
    }
    for (size_t i = 0; i < g->n_inputs && ok; i++)
        if (!rx_map_find(&names, g->inputs[i].name, strlen(g->inputs[i].name)))
            g->inputs[n++] = g->inputs[i];
    g->n_inputs = n;
    rx_map_finish(&names);
    return ok ? RLX_OK : rx_fail_memory(err, "the names of weights", g->n_tensors);
}

rlx_status rx_onnx_read(rlx_onnx *m, rx_bytes message, rlx_error *err)
{
    reader r = {.m = m, .err = err};
    model_lists l;
    m->producer = "";
    m->graph.name = NULL;
    RLX_TRY(new_list(&r, message, MODEL_OPSET, sizeof *l.opsets, "the model", &l.opsets));
    RLX_TRY(new_list(&r, message, MODEL_FUNCTION, sizeof *l.functions, "the model", &l.functions));
    RLX_TRY(new_list(&r, message, MODEL_NOTE, sizeof *l.notes, "the model", &l.notes));
    m->opsets = l.opsets;
    m->functions = l.functions;
    m->notes = l.notes;
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    while (rx_pb_next(&pb, &f) > 0)
        RLX_TRY(read_model_field(&r, &f, &l));
    if (!m->graph.name)
        return rx_fail(err, RLX_PARSE, "'%s' is no ONNX model: expected a graph, found none",
                       m->path);
    if (m->ir_version < 1 || m->ir_version > 14)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s' has IR version %lld; expected 1 to 14", m->path,
                       (long long)m->ir_version);
    return drop_weights(m, err);
}
