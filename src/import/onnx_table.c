/* SPDX-License-Identifier: MIT */
/* The table of ONNX operators, and helpers of their builders: attributes, axes, errors. */
#include <stdio.h>
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

typedef struct row {
    const char *name, *domain;
    int64_t since;
    rx_onnx_fn *builder;
} row;

static const row rows[] = {
#define ONNX(name, domain, since, builder) {#name, domain, since, rx_onnx_##builder},
#include "import/onnx_ops.def"
#undef ONNX
};

rx_onnx_fn *rx_onnx_builder(const char *domain, const char *name, int64_t opset)
{
    const row *best = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].name, name) && !strcmp(rows[i].domain, domain) &&
            rows[i].since <= opset && (!best || rows[i].since > best->since))
            best = &rows[i];
    return best ? best->builder : NULL;
}

rlx_value rx_onnx_fail(rx_onnx_call *c, rlx_status code, const char *fmt, ...)
{
    rx_onnx_build *b = c->b;
    char text[320];
    va_list args;
    if (b->status != RLX_OK)
        return RLX_NONE;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    b->status = rx_fail(b->err, code, "'%s': node '%.80s' (%s, opset %lld): %s", b->m->path,
                        c->node->name[0] ? c->node->name : c->n_out ? c->node->out[0] : "",
                        c->node->op, (long long)c->opset, text);
    return RLX_NONE;
}

bool rx_onnx_wants(const rx_onnx_call *c, size_t i)
{
    return i < c->n_out && c->node->out[i][0];
}

/* ---- Attributes ------------------------------------------------------------------------------ */

static const rx_onnx_attr *find(const rx_onnx_attr *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    return NULL;
}

const rx_onnx_attr *rx_onnx_attr_find(const rx_onnx_call *c, const char *name)
{
    const rx_onnx_attr *a = find(c->node->attrs, c->node->n_attrs, name);
    const rx_onnx_scope *s = c->b->scope;
    while (a && a->ref && *a->ref) {
        const char *ref = a->ref;
        while (s && !s->function)
            s = s->outer;
        if (!s)
            return NULL;
        a = find(s->caller->attrs, s->caller->n_attrs, ref);
        if (!a)
            return find(s->function->defaults, s->function->n_defaults, ref);
        s = s->caller_scope;
    }
    return a;
}

int64_t rx_onnx_int(const rx_onnx_call *c, const char *name, int64_t absent)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    return a && a->type == RX_ONNX_INT ? a->i : absent;
}

double rx_onnx_float(const rx_onnx_call *c, const char *name, double absent)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    return a && a->type == RX_ONNX_FLOAT ? (double)a->f : absent;
}

double rx_onnx_float_set(const rx_onnx_call *c, const char *name, double absent)
{
    const double v = rx_onnx_float(c, name, absent);
    return v == 0 ? RLX_ZERO : v;
}

bool rx_onnx_ints(rx_onnx_call *c, const char *name, rlx_ints *out)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    *out = (rlx_ints){0};
    if (!a || a->type != RX_ONNX_INTS)
        return false;
    if (a->n > RLX_MAX_INTS) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "its attribute %s has %zu numbers; expected at most %d",
                     name, a->n, RLX_MAX_INTS);
        return false;
    }
    out->n = (int32_t)a->n;
    memcpy(out->v, a->ints, a->n * sizeof out->v[0]);
    return true;
}

bool rx_onnx_is(const rx_onnx_call *c, const char *name, const char *text, const char *absent)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    if (!a || a->type != RX_ONNX_STRING)
        return !strcmp(text, absent);
    return a->s.bytes == strlen(text) && !memcmp(a->s.data, text, a->s.bytes);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

int rx_onnx_axis(rx_onnx_call *c, int64_t axis, int rank)
{
    if (axis >= -rank && axis < rank)
        return (int)(axis < 0 ? axis + rank : axis);
    rx_onnx_fail(c, RLX_INVALID, "axis %lld; expected %d to %d", (long long)axis, -rank, rank - 1);
    return -1;
}

int64_t rx_onnx_elements(const rx_onnx_call *c, rlx_value v)
{
    const rlx_shape s = rlx_value_shape(c->g, v);
    int64_t n;
    return rx_shape_is_fixed(&s) && rx_shape_elements(c->g, &s, &n) ? n : -1;
}

int64_t rx_onnx_whole(double size)
{
    return size >= 0 && size < 0x1p62 ? (int64_t)size : -1; /* false for NaN */
}

rlx_value rx_onnx_i64s(rlx_graph *g, const int64_t *v, int64_t n)
{
    return rlx_constant(g, RLX_I64, 1, &n, v, (size_t)n * sizeof *v);
}
