/* SPDX-License-Identifier: MIT */
/* Printer of the text form (grammar in ir/text.h). */
#include <math.h>
#include <string.h>

#include "base/little.h"
#include "ir/text.h"

#define MAX_LISTED 16 /* constants with more elements are printed as hexadecimal bytes */

void rx_text_dim(rx_str *s, const rlx_graph *g, rlx_dim d)
{
    if (d >= 0 || d == -1) {
        rx_str_printf(s, "%lld", (long long)d);
        return;
    }
    const rx_dim_expr *e = &g->dims[-d - 2];
    if (e->kind == RX_DIM_NAMED) {
        rx_str_puts(s, e->name);
        return;
    }
    rx_str_puts(s, "(");
    rx_text_dim(s, g, e->a);
    rx_str_add(s, &"?+-*/"[e->kind], 1);
    rx_text_dim(s, g, e->b);
    rx_str_puts(s, ")");
}

static void put_type(rx_str *s, const rlx_graph *g, rlx_dtype t, const rlx_shape *shape)
{
    rx_str_printf(s, "%s[", rlx_dtype_name(t));
    for (int i = 0; i < shape->rank; i++) {
        rx_str_puts(s, i ? "," : "");
        rx_text_dim(s, g, shape->dim[i]);
    }
    rx_str_puts(s, "]");
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static void put_ints(rx_str *s, const rlx_graph *g, const rlx_ints *list, bool dims)
{
    rx_str_puts(s, "[");
    for (int i = 0; i < list->n; i++) {
        rx_str_puts(s, i ? "," : "");
        if (dims)
            rx_text_dim(s, g, list->v[i]);
        else
            rx_str_printf(s, "%lld", (long long)list->v[i]);
    }
    rx_str_puts(s, "]");
}

static int used_floats(const double *v, int count)
{
    while (count && v[count - 1] == 0)
        count--;
    return count;
}

static bool is_zero(const rx_attr_field *f, const char *at)
{
    switch (f->kind) {
    case RX_ATTR_INT:
    case RX_ATTR_DIM: return *(const int64_t *)(const void *)at == 0;
    case RX_ATTR_FLOAT: return *(const double *)(const void *)at == 0;
    case RX_ATTR_BOOL: return !*(const bool *)(const void *)at;
    case RX_ATTR_ENUM:
    case RX_ATTR_DTYPE: return *(const int32_t *)(const void *)at == 0;
    case RX_ATTR_INTS:
    case RX_ATTR_DIMS: return ((const rlx_ints *)(const void *)at)->n == 0;
    case RX_ATTR_FLOATS: return used_floats((const double *)(const void *)at, f->count) == 0;
    case RX_ATTR_STRING: return !*(const char *const *)(const void *)at;
    default: return true;
    }
}

static void put_field(rx_str *s, const rlx_graph *g, const rx_attr_field *f, const char *at)
{
    rx_str_printf(s, "%s=", f->name);
    switch (f->kind) {
    case RX_ATTR_INT:
        rx_str_printf(s, "%lld", (long long)*(const int64_t *)(const void *)at);
        break;
    case RX_ATTR_FLOAT: rx_str_double(s, *(const double *)(const void *)at); break;
    case RX_ATTR_BOOL: rx_str_puts(s, "true"); break;
    case RX_ATTR_ENUM: rx_str_puts(s, f->names[*(const int32_t *)(const void *)at]); break;
    case RX_ATTR_DTYPE: rx_str_puts(s, rlx_dtype_name(*(const rlx_dtype *)(const void *)at)); break;
    case RX_ATTR_STRING: rx_str_quote(s, *(const char *const *)(const void *)at); break;
    case RX_ATTR_DIM: rx_text_dim(s, g, *(const rlx_dim *)(const void *)at); break;
    case RX_ATTR_INTS: put_ints(s, g, (const rlx_ints *)(const void *)at, false); break;
    case RX_ATTR_DIMS: put_ints(s, g, (const rlx_ints *)(const void *)at, true); break;
    case RX_ATTR_FLOATS: {
        const double *v = (const double *)(const void *)at;
        rx_str_puts(s, "[");
        for (int i = 0; i < used_floats(v, f->count); i++) {
            rx_str_puts(s, i ? "," : "");
            rx_str_double(s, v[i]);
        }
        rx_str_puts(s, "]");
        break;
    }
    default: break;
    }
}

static void put_arg(rx_str *s, const rx_region *r, uint16_t arg)
{
    if (arg < r->n_in)
        rx_str_printf(s, "a%u", arg);
    else
        rx_str_printf(s, "t%u", arg - r->n_in);
}

static void put_region(rx_str *s, const rx_region *r)
{
    rx_str_puts(s, " {");
    for (int i = 0; i < r->n_instr; i++) {
        const rx_instr *in = &r->instr[i];
        rx_str_printf(s, "t%d = %s(", i, rx_ops[in->op].name);
        for (int j = 0; j < rx_ops[in->op].min_in; j++) {
            rx_str_puts(s, j ? ", " : "");
            put_arg(s, r, in->arg[j]);
        }
        for (int j = 0; j < 2 && rx_ops[in->op].attr != &rx_attr_none &&
                        rx_ops[in->op].attr != &rx_attr_cast; j++) {
            rx_str_puts(s, ", ");
            rx_str_double(s, in->p[j]);
        }
        rx_str_printf(s, "): %s; ", rlx_dtype_name(in->dtype));
    }
    rx_str_puts(s, "return ");
    for (int i = 0; i < r->n_out; i++)
        rx_str_printf(s, "%st%u", i ? ", " : "", r->out[i]);
    rx_str_puts(s, "}");
}

void rx_text_attr(rx_str *s, const rlx_graph *g, rx_op op, const void *attr)
{
    if (op == RX_OP_region) {
        put_region(s, attr);
        return;
    }
    bool any = false;
    for (const rx_attr_field *f = rx_ops[op].attr->fields; f->kind != RX_ATTR_END; f++) {
        const char *at = (const char *)attr + f->offset;
        if (is_zero(f, at))
            continue;
        rx_str_puts(s, any ? ", " : " {");
        put_field(s, g, f, at);
        any = true;
    }
    rx_str_puts(s, any ? "}" : "");
}

/* ---- Constants ------------------------------------------------------------------------------- */

/* A bool is 0 or 1 in a list; other bytes that the program gave are kept in hexadecimal. */
static bool has_odd_bool(const rx_leaf_attr *a, int64_t n)
{
    for (int64_t i = 0; a->dtype == RLX_BOOL && i < n; i++)
        if (((const unsigned char *)a->data)[i] > 1)
            return true;
    return false;
}

/* True when the elements can be written as a short list without loss. */
static bool put_listed(rx_str *s, const rx_leaf_attr *a, int64_t n)
{
    double f[MAX_LISTED];
    if (n > MAX_LISTED || rlx_dtype_is_packed(a->dtype) || has_odd_bool(a, n))
        return false;
    bool is_float = rlx_dtype_is_float(a->dtype);
    if (is_float) {
        const size_t bytes = (size_t)rlx_dtype_block_bytes(a->dtype);
        for (int64_t i = 0; i < n; i++) {
            f[i] = rx_dtype_load(a->dtype, (const char *)a->data + (size_t)i * bytes);
            if (isnan(f[i]))
                return false;
        }
    }
    rx_str_puts(s, "[");
    for (int64_t i = 0; i < n; i++) {
        const char *at = (const char *)a->data + i * rlx_dtype_block_bytes(a->dtype);
        rx_str_puts(s, i ? ", " : "");
        if (is_float)
            rx_str_double(s, f[i]);
        else if (a->dtype == RLX_U64)
            rx_str_printf(s, "%llu", (unsigned long long)rx_dtype_load_int(a->dtype, at));
        else
            rx_str_printf(s, "%lld", (long long)rx_dtype_load_int(a->dtype, at));
    }
    rx_str_puts(s, "]");
    return true;
}

static void put_constant(rx_str *s, const rlx_graph *g, const rx_leaf_attr *a)
{
    int64_t n = 0;
    rx_shape_elements(g, &a->shape, &n);
    rx_str_puts(s, " ");
    if (put_listed(s, a, n))
        return;
    static const char digits[] = "0123456789abcdef";
    rx_str_puts(s, "0x");
    for (uint64_t i = 0; i < a->bytes; i++) {
        unsigned char b = ((const unsigned char *)a->data)[rx_little_index(a->dtype, i)];
        rx_str_add(s, (char[]){digits[b >> 4], digits[b & 15]}, 2);
    }
}

/* ---- Nodes and graphs ------------------------------------------------------------------------ */

/* After the opcode: the bytes or name of a leaf, or operands and attributes. */
static void put_arguments(rx_str *s, const rlx_graph *g, const rx_node *n)
{
    const rx_leaf_attr *leaf = n->attr;
    if (n->op == RX_OP_constant) {
        put_constant(s, g, leaf);
        return;
    }
    if (rx_ops[n->op].flags & RX_OP_LEAF) {
        rx_str_puts(s, " ");
        rx_str_quote(s, leaf->name);
        return;
    }
    rx_str_puts(s, "(");
    for (uint32_t i = 0; i < n->n_in; i++) {
        rx_str_puts(s, i ? ", " : "");
        if (n->in[i])
            rx_str_printf(s, "%%%u", n->in[i]);
        else
            rx_str_puts(s, "_");
    }
    rx_str_puts(s, ")");
    rx_text_attr(s, g, n->op, n->attr);
}

void rx_text_node(rx_str *s, const rlx_graph *g, const rx_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        const rx_value *v = &g->values[n->first_out + i];
        rx_str_printf(s, "%s%%%u: ", i ? ", " : "", n->first_out + i);
        put_type(s, g, v->dtype, &v->shape);
    }
    rx_str_printf(s, " = %s", rx_ops[n->op].name);
    put_arguments(s, g, n);
    bool is_port = rx_ops[n->op].flags & RX_OP_LEAF && n->op != RX_OP_constant;
    if (!is_port && n->name && *n->name) {
        rx_str_puts(s, " ");
        rx_str_quote(s, n->name);
    }
}

rlx_status rlx_graph_print(const rlx_graph *g, char **text, size_t *length, rlx_error *err)
{
    RLX_TRY(rx_need(g, "rlx_graph_print: g", err));
    RLX_TRY(rx_need(text, "rlx_graph_print: text", err));
    rx_str s = {0};
    rx_str_puts(&s, "graph ");
    rx_str_quote(&s, g->name);
    rx_str_puts(&s, " {\n");
    for (size_t i = 0; i < g->n_dims; i++)
        if (g->dims[i].kind == RX_DIM_NAMED)
            rx_str_printf(&s, "  dim %s <= %lld\n", g->dims[i].name, (long long)g->dims[i].bound);
    for (size_t i = 0; i < g->n_nodes; i++) {
        rx_str_puts(&s, "  ");
        rx_text_node(&s, g, &g->nodes[i]);
        rx_str_puts(&s, "\n");
    }
    for (size_t i = 0; i < g->n_outputs; i++) {
        rx_str_puts(&s, "  output ");
        rx_str_quote(&s, g->outputs[i].name);
        rx_str_printf(&s, " = %%%u\n", g->outputs[i].value);
    }
    rx_str_puts(&s, "}\n");
    return rx_str_take(&s, text, length, err);
}
