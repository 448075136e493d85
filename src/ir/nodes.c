/* SPDX-License-Identifier: MIT */
/* The public view of nodes, attributes and dimensions. It reads what attr.c says of each record, so
 * an operation that is added needs nothing here. */
#include "rlx/nodes.h"

#include <string.h>

#include "base/sized.h"
#include "ir/text.h"

static rlx_status find_node(const rlx_graph *g, size_t i, const char *function, const rx_node **out,
                            rlx_error *err)
{
    RLX_TRY(rx_need(g, function, err));
    if (i >= g->n_nodes)
        return rx_fail(err, RLX_NOT_FOUND, "graph '%s' has no node %zu: it has %zu", g->name, i,
                       g->n_nodes);
    *out = &g->nodes[i];
    return RLX_OK;
}

/* The fields of the record; a leaf's are its name, type, shape and data, which are told apart. */
static const rx_attr_field *fields_of(const rx_node *n)
{
    static const rx_attr_field none[] = {{NULL, RX_ATTR_END, 0, 0, NULL}};
    return rx_ops[n->op].flags & RX_OP_LEAF ? none : rx_ops[n->op].attr->fields;
}

static size_t count_fields(const rx_attr_field *f)
{
    size_t n = 0;
    while (f[n].kind != RX_ATTR_END)
        n++;
    return n;
}

rlx_status rlx_graph_node(const rlx_graph *g, size_t i, rlx_node_info *out, rlx_error *err)
{
    const rx_node *n = NULL;
    RLX_TRY(find_node(g, i, "rlx_graph_node: g", &n, err));
    const rx_leaf_attr *leaf = rx_ops[n->op].flags & RX_OP_LEAF ? n->attr : NULL;
    const bool is_constant = n->op == RX_OP_constant;
    const char *name = leaf && !is_constant ? leaf->name : n->name;
    const rlx_node_info info = {
        RLX_INIT(rlx_node_info),
        .op = rx_ops[n->op].name,
        .name = name ? name : "",
        .is_leaf = leaf != NULL,
        .n_in = n->n_in,
        .n_out = n->n_out,
        .in = (const rlx_value *)n->in, /* a struct of one id */
        .out = {n->first_out},
        .n_attrs = count_fields(fields_of(n)),
        .data = is_constant ? leaf->data : NULL,
        .bytes = is_constant ? (size_t)leaf->bytes : 0,
    };
    return RX_INFO_WRITE(rlx_node_info, out, &info, err);
}

rlx_status rlx_value_node(const rlx_graph *g, rlx_value v, size_t *node, size_t *result,
                          rlx_error *err)
{
    RLX_TRY(rx_need(g, "rlx_value_node: g", err));
    RLX_TRY(rx_need(node, "rlx_value_node: node", err));
    if (!v.id || v.id >= g->n_values)
        return rx_fail(err, RLX_INVALID, "value %u is none of graph '%s', which has 1 to %zu", v.id,
                       g->name, g->n_values - 1);
    *node = g->values[v.id].node;
    if (result)
        *result = v.id - g->nodes[*node].first_out;
    return RLX_OK;
}

rlx_status rlx_node_text(const rlx_graph *g, size_t i, char **text, size_t *length, rlx_error *err)
{
    const rx_node *n = NULL;
    RLX_TRY(rx_need(text, "rlx_node_text: text", err));
    *text = NULL;
    RLX_TRY(find_node(g, i, "rlx_node_text: g", &n, err));
    rx_str s = {0};
    rx_text_node(&s, g, n);
    return rx_str_take(&s, text, length, err);
}

/* ---- Attributes ------------------------------------------------------------------------------ */

typedef void read_fn(const rx_attr_field *f, const void *at, rlx_attr_info *out);

static void read_int(const rx_attr_field *f, const void *at, rlx_attr_info *out)
{
    (void)f;
    memcpy(&out->i, at, sizeof out->i);
    out->is_zero = out->i == 0;
}

static void read_float(const rx_attr_field *f, const void *at, rlx_attr_info *out)
{
    (void)f;
    memcpy(&out->f, at, sizeof out->f);
    out->is_zero = out->f == 0;
}

static void read_bool(const rx_attr_field *f, const void *at, rlx_attr_info *out)
{
    (void)f;
    out->i = *(const bool *)at;
    out->is_zero = !out->i;
}

static void read_word(const rx_attr_field *f, const void *at, rlx_attr_info *out)
{
    out->i = *(const int32_t *)at;
    out->text = f->kind == RX_ATTR_DTYPE ? rlx_dtype_name((rlx_dtype)out->i) : f->names[out->i];
    out->is_zero = out->i == 0;
}

static void read_ints(const rx_attr_field *f, const void *at, rlx_attr_info *out)
{
    (void)f;
    memcpy(&out->ints, at, sizeof out->ints);
    out->is_zero = out->ints.n == 0;
}

static void read_floats(const rx_attr_field *f, const void *at, rlx_attr_info *out)
{
    out->floats = at;
    out->is_zero = true;
    for (size_t i = 0; i < f->count; i++)
        if (out->floats[i] != 0) {
            out->n_floats = i + 1;
            out->is_zero = false;
        }
}

static void read_text(const rx_attr_field *f, const void *at, rlx_attr_info *out)
{
    (void)f;
    out->text = *(const char *const *)at;
    out->is_zero = !out->text;
}

static void read_region(const rx_attr_field *f, const void *at, rlx_attr_info *out)
{
    (void)f, (void)at, (void)out;
}

/* How a field is shown, by its kind. Kinds that only leaves have are not here. */
static const struct {
    rlx_attr_kind kind;
    read_fn *read;
} shown[] = {
    [RX_ATTR_INT] = {RLX_ATTR_INT, read_int},
    [RX_ATTR_FLOAT] = {RLX_ATTR_FLOAT, read_float},
    [RX_ATTR_BOOL] = {RLX_ATTR_BOOL, read_bool},
    [RX_ATTR_ENUM] = {RLX_ATTR_WORD, read_word},
    [RX_ATTR_DTYPE] = {RLX_ATTR_DTYPE, read_word},
    [RX_ATTR_DIM] = {RLX_ATTR_DIM, read_int},
    [RX_ATTR_INTS] = {RLX_ATTR_INTS, read_ints},
    [RX_ATTR_DIMS] = {RLX_ATTR_DIMS, read_ints},
    [RX_ATTR_FLOATS] = {RLX_ATTR_FLOATS, read_floats},
    [RX_ATTR_STRING] = {RLX_ATTR_TEXT, read_text},
    [RX_ATTR_REGION] = {RLX_ATTR_REGION, read_region},
};

rlx_status rlx_node_attr(const rlx_graph *g, size_t i, size_t k, rlx_attr_info *out, rlx_error *err)
{
    const rx_node *n = NULL;
    RLX_TRY(rx_need(out, "rlx_node_attr: out", err));
    RLX_TRY(RX_INFO_CHECK(rlx_attr_info, out, err));
    RLX_TRY(find_node(g, i, "rlx_node_attr: g", &n, err));
    const rx_attr_field *fields = fields_of(n);
    const size_t count = count_fields(fields);
    if (k >= count)
        return rx_fail(err, RLX_NOT_FOUND, "node %zu, a %s, has no attribute %zu: it has %zu", i,
                       rx_ops[n->op].name, k, count);
    const rx_attr_field *f = &fields[k];
    rlx_attr_info info = {RLX_INIT(rlx_attr_info), .name = f->name, .kind = shown[f->kind].kind};
    shown[f->kind].read(f, (const char *)n->attr + f->offset, &info);
    return RX_INFO_WRITE(rlx_attr_info, out, &info, err);
}

/* ---- Dimensions ------------------------------------------------------------------------------ */

bool rlx_graph_dim(const rlx_graph *g, size_t i, const char **name, int64_t *bound)
{
    if (!g || !name || !bound)
        return false;
    for (size_t k = 0; k < g->n_dims; k++)
        if (g->dims[k].kind == RX_DIM_NAMED && i-- == 0) {
            *name = g->dims[k].name;
            *bound = g->dims[k].bound;
            return true;
        }
    return false;
}

static bool is_dim(const rlx_graph *g, rlx_dim d)
{
    return d >= 0 || (g && d <= -2 && (uint64_t)-(d + 2) < g->n_dims);
}

int64_t rlx_dim_bound(const rlx_graph *g, rlx_dim d)
{
    return is_dim(g, d) ? rx_dim_bound(g, d) : 0;
}

size_t rlx_dim_text(const rlx_graph *g, rlx_dim d, char *out, size_t cap)
{
    rx_str s = {0};
    if (is_dim(g, d))
        rx_text_dim(&s, g, d);
    const size_t n = s.n, kept = cap && n >= cap ? cap - 1 : n;
    if (cap && out) {
        memcpy(out, s.data ? s.data : "", kept);
        out[kept] = 0;
    }
    rx_str_finish(&s);
    return n;
}
