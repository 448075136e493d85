/* SPDX-License-Identifier: MIT */
/* Symbolic dimensions: named ones and expressions of them, hash-consed in a simple normal form, so
 * that equal expressions have equal handles and shapes compare by comparing integers. */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/str.h"
#include "ir/graph.h"

#define MAX_ELEMENTS ((int64_t)1 << 40)
#define MAX_DIM (((int64_t)1 << 62) - 1) /* the sum of two does not overflow */
#define MAX_PARTS 256 /* names, numbers and operators: bounds the depth and the text too */

static rlx_dim handle_of(size_t index)
{
    return -(rlx_dim)index - 2;
}

static const rx_dim_expr *expr_of(const rlx_graph *g, rlx_dim d)
{
    return &g->dims[-d - 2];
}

/* A handle that this graph made, or a number. */
static bool is_valid(const rlx_graph *g, rlx_dim d)
{
    return (d >= 0 && d <= MAX_DIM) || (d <= -2 && (uint64_t)(-(d + 2)) < g->n_dims);
}

int64_t rx_dim_bound(const rlx_graph *g, rlx_dim d)
{
    return d >= 0 ? d : is_valid(g, d) ? expr_of(g, d)->bound : MAX_DIM;
}

/* ---- The table of dimensions ----------------------------------------------------------------- */

/* The key of a dimension: its name, or an operation on two others. */
typedef struct dim_key {
    rx_dim_kind kind;
    rlx_dim operand[2];
    const char *name;
    size_t length;
} dim_key;

static dim_key key_of(const rx_dim_expr *e)
{
    return (dim_key){e->kind, {e->a, e->b}, e->name, e->name ? strlen(e->name) : 0};
}

static bool is_same(const rx_dim_expr *e, const dim_key *k)
{
    if (e->kind != k->kind)
        return false;
    if (k->kind != RX_DIM_NAMED)
        return e->a == k->operand[0] && e->b == k->operand[1];
    return !strncmp(e->name, k->name, k->length) && !e->name[k->length];
}

/* The slot of a dimension or the empty one where it would go. There are empty slots. */
static uint32_t *find_slot(const rlx_graph *g, const dim_key *k)
{
    const uint64_t h = k->kind == RX_DIM_NAMED
                           ? rx_hash_keyed(k->kind, k->name, k->length)
                           : rx_hash_keyed(k->kind, k->operand, sizeof k->operand);
    for (size_t i = (size_t)h;; i++) {
        uint32_t *s = &g->dim_slots[i & (g->cap_dim_slots - 1)];
        if (!*s || is_same(&g->dims[*s - 1], k))
            return s;
    }
}

/* The handle of a dimension that is there, else 0. */
static rlx_dim find(const rlx_graph *g, const dim_key *k)
{
    const uint32_t at = g->cap_dim_slots ? *find_slot(g, k) : 0;
    return at ? handle_of(at - 1) : 0;
}

rlx_dim rx_dim_find(const rlx_graph *g, const char *name, size_t length)
{
    return find(g, &(dim_key){.kind = RX_DIM_NAMED, .name = name, .length = length});
}

/* Room for one more. */
static bool reserve_slot(rlx_graph *g)
{
    if (2 * (g->n_dims + 1) <= g->cap_dim_slots)
        return true;
    const size_t cap = g->cap_dim_slots ? 2 * g->cap_dim_slots : 16;
    uint32_t *slots = g->n_dims < UINT32_MAX / 4 ? rx_alloc_array_zero(cap, sizeof *slots) : NULL;
    if (!slots)
        return false;
    rx_free(g->dim_slots);
    g->dim_slots = slots;
    g->cap_dim_slots = cap;
    for (size_t i = 0; i < g->n_dims; i++) {
        const dim_key k = key_of(&g->dims[i]);
        *find_slot(g, &k) = (uint32_t)i + 1;
    }
    return true;
}

static rlx_dim append(rlx_graph *g, const rx_dim_expr *e)
{
    if (g->frozen) {
        rx_graph_fail(g, RLX_INTERNAL, "graph '%s': a dimension appeared while verifying", g->name);
        return 0;
    }
    if (!rx_grow(&g->dims, &g->cap_dims, g->n_dims + 1, sizeof *g->dims) || !reserve_slot(g)) {
        rx_graph_fail(g, RLX_NO_MEMORY, "out of memory: a dimension of graph '%s'", g->name);
        return 0;
    }
    g->dims[g->n_dims] = *e;
    const dim_key k = key_of(e);
    *find_slot(g, &k) = (uint32_t)g->n_dims + 1;
    return handle_of(g->n_dims++);
}

static int32_t parts_of(const rlx_graph *g, rlx_dim d)
{
    return d >= 0 ? 1 : expr_of(g, d)->parts;
}

/* The handle of an expression, made if it is new. */
static rlx_dim intern(rlx_graph *g, rx_dim_kind kind, rlx_dim a, rlx_dim b, int64_t bound)
{
    const rlx_dim known = find(g, &(dim_key){.kind = kind, .operand = {a, b}});
    if (known)
        return known;
    int32_t parts = parts_of(g, a) + parts_of(g, b) + 1;
    if (parts > MAX_PARTS) {
        rx_graph_fail(g, RLX_INVALID,
                      "dimension arithmetic: expected an expression of at most %d parts, got %d",
                      MAX_PARTS, parts);
        return 0;
    }
    return append(g, &(rx_dim_expr){kind, a, b, NULL, bound < MAX_DIM ? bound : MAX_DIM, parts});
}

/* An identifier, as names are printed unquoted in the text form. */
static bool is_name(const char *s)
{
    if (!s || !*s || (*s >= '0' && *s <= '9'))
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
           strlen(s);
}

rlx_dim rlx_dim_named(rlx_graph *g, const char *name, int64_t bound)
{
    if (!g || g->error.code)
        return 0;
    if (!is_name(name) || bound < 0 || bound > MAX_ELEMENTS) {
        rx_graph_fail(g, RLX_INVALID,
                      "dimension '%s': expected a name of letters, digits and '_' and a bound "
                      "from 0 to 2^40, got bound %lld",
                      name ? name : "", (long long)bound);
        return 0;
    }
    const rlx_dim known = rx_dim_find(g, name, strlen(name));
    if (known && expr_of(g, known)->bound == bound)
        return known;
    if (known) {
        rx_graph_fail(g, RLX_INVALID, "dimension '%s': has the bound %lld already, got %lld", name,
                      (long long)expr_of(g, known)->bound, (long long)bound);
        return 0;
    }
    char *copy = rx_arena_strdup(&g->arena, name);
    if (!copy) {
        rx_graph_fail(g, RLX_NO_MEMORY, "out of memory: dimension '%s'", name);
        return 0;
    }
    return append(g, &(rx_dim_expr){RX_DIM_NAMED, 0, 0, copy, bound, 1});
}

static bool check_operands(rlx_graph *g, rlx_dim a, rlx_dim b)
{
    if (!g || g->error.code)
        return false;
    if (is_valid(g, a) && is_valid(g, b))
        return true;
    rx_graph_fail(g, RLX_INVALID,
                  "dimension arithmetic: expected numbers from 0 to 2^62 and dimensions of graph "
                  "'%s', got %lld",
                  g->name, (long long)(is_valid(g, a) ? b : a));
    return false;
}

/* A number that came out of arithmetic on numbers. */
static rlx_dim number(rlx_graph *g, int64_t n)
{
    if (n <= MAX_DIM)
        return n;
    rx_graph_fail(g, RLX_INVALID, "dimension arithmetic: the result is larger than 2^62");
    return 0;
}

static bool is_kind(const rlx_graph *g, rlx_dim d, rx_dim_kind kind)
{
    return d < 0 && expr_of(g, d)->kind == kind;
}

rlx_dim rlx_dim_add(rlx_graph *g, rlx_dim a, rlx_dim b)
{
    if (!check_operands(g, a, b))
        return 0;
    int64_t bound = rx_dim_bound(g, a) + rx_dim_bound(g, b);
    if (a >= 0 && b >= 0)
        return number(g, bound);
    if (a >= 0 || (b < 0 && b > a)) { /* numbers right, older handles left */
        rlx_dim t = a;
        a = b;
        b = t;
    }
    if (b == 0)
        return a;
    for (int i = 0; i < 2; i++) {
        rlx_dim x = i ? b : a, y = i ? a : b;
        if (is_kind(g, x, RX_DIM_SUB) && expr_of(g, x)->b == y)
            return expr_of(g, x)->a;
        /* Keeps a number outermost: x + (y + 3) is (x + y) + 3. */
        if (y < 0 && is_kind(g, x, RX_DIM_ADD) && expr_of(g, x)->b > 0) {
            int64_t more = expr_of(g, x)->b;
            return rlx_dim_add(g, rlx_dim_add(g, expr_of(g, x)->a, y), more);
        }
    }
    if (b > 0 && is_kind(g, a, RX_DIM_ADD) && expr_of(g, a)->b > 0)
        return rlx_dim_add(g, expr_of(g, a)->a, expr_of(g, a)->b + b);
    if (b > 0 && is_kind(g, a, RX_DIM_SUB) && expr_of(g, a)->b > 0) {
        rlx_dim base = expr_of(g, a)->a, less = expr_of(g, a)->b;
        return less > b ? rlx_dim_sub(g, base, less - b) : rlx_dim_add(g, base, b - less);
    }
    return intern(g, RX_DIM_ADD, a, b, bound);
}

rlx_dim rlx_dim_sub(rlx_graph *g, rlx_dim a, rlx_dim b)
{
    if (!check_operands(g, a, b))
        return 0;
    if (b == 0 || a == b)
        return a == b ? 0 : a;
    if (a >= 0 && b >= 0) {
        if (a >= b)
            return a - b;
        rx_graph_fail(g, RLX_INVALID, "dimension arithmetic: %lld - %lld is below zero",
                      (long long)a, (long long)b);
        return 0;
    }
    if (is_kind(g, a, RX_DIM_ADD)) {
        const rx_dim_expr *e = expr_of(g, a);
        if (e->a == b || e->b == b)
            return e->a == b ? e->b : e->a;
        if (b > 0 && e->b > 0)
            return e->b > b ? rlx_dim_add(g, e->a, e->b - b) : rlx_dim_sub(g, e->a, b - e->b);
    }
    if (b > 0 && is_kind(g, a, RX_DIM_SUB) && expr_of(g, a)->b > 0)
        return rlx_dim_sub(g, expr_of(g, a)->a, expr_of(g, a)->b + b);
    int64_t bound = rx_dim_bound(g, a) - (b >= 0 ? b : 0);
    return intern(g, RX_DIM_SUB, a, b, bound > 0 ? bound : 0);
}

rlx_dim rlx_dim_mul(rlx_graph *g, rlx_dim a, rlx_dim b)
{
    if (!check_operands(g, a, b))
        return 0;
    int64_t bound;
    if (__builtin_mul_overflow(rx_dim_bound(g, a), rx_dim_bound(g, b), &bound))
        bound = INT64_MAX;
    if (a >= 0 && b >= 0)
        return number(g, bound);
    if (a >= 0 || (b < 0 && b > a)) {
        rlx_dim t = a;
        a = b;
        b = t;
    }
    if (b == 0 || b == 1)
        return b ? a : 0;
    if (b > 0 && is_kind(g, a, RX_DIM_MUL) && expr_of(g, a)->b > 0)
        return rlx_dim_mul(g, expr_of(g, a)->a, rlx_dim_mul(g, expr_of(g, a)->b, b));
    /* Keeps a number factor outermost: x * (y * 3) is (x * y) * 3. */
    for (int i = 0; i < 2; i++) {
        rlx_dim x = i ? b : a, y = i ? a : b;
        if (y < 0 && is_kind(g, x, RX_DIM_MUL) && expr_of(g, x)->b > 0) {
            int64_t factor = expr_of(g, x)->b;
            return rlx_dim_mul(g, rlx_dim_mul(g, expr_of(g, x)->a, y), factor);
        }
    }
    return intern(g, RX_DIM_MUL, a, b, bound);
}

rlx_dim rlx_dim_div(rlx_graph *g, rlx_dim a, int64_t b)
{
    if (!check_operands(g, a, b))
        return 0;
    if (b <= 0) {
        char text[64];
        rx_graph_fail(g, RLX_INVALID,
                      "dimension arithmetic: expected a divisor that is a number above 0, got %s",
                      rx_dim_text(g, b, text, sizeof text));
        return 0;
    }
    if (b == 1 || a >= 0)
        return b == 1 ? a : a / b;
    if (is_kind(g, a, RX_DIM_MUL) && expr_of(g, a)->b > 0 && expr_of(g, a)->b % b == 0)
        return rlx_dim_mul(g, expr_of(g, a)->a, expr_of(g, a)->b / b);
    if (is_kind(g, a, RX_DIM_DIV) && expr_of(g, a)->b <= MAX_ELEMENTS / b)
        return rlx_dim_div(g, expr_of(g, a)->a, expr_of(g, a)->b * b);
    return intern(g, RX_DIM_DIV, a, b, rx_dim_bound(g, a) / b);
}

rlx_status rx_dims_eval(const rx_dim_expr *dims, size_t n, int64_t *values, rlx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const rx_dim_expr *e = &dims[i];
        if (e->kind == RX_DIM_NAMED)
            continue;
        int64_t a = rx_dim_value(e->a, values), b = rx_dim_value(e->b, values);
        bool too_large = false; /* a and b are not below zero */
        switch (e->kind) {
        case RX_DIM_ADD: too_large = __builtin_add_overflow(a, b, &values[i]); break;
        case RX_DIM_SUB: values[i] = a - b; break;
        case RX_DIM_MUL: too_large = __builtin_mul_overflow(a, b, &values[i]); break;
        default: values[i] = a / b; break;
        }
        if (too_large)
            return rx_fail(err, RLX_INVALID,
                           "the bound dimensions make a size of %lld %c %lld, above 2^63",
                           (long long)a, e->kind == RX_DIM_ADD ? '+' : '*', (long long)b);
        if (values[i] < 0)
            return rx_fail(err, RLX_INVALID,
                           "the bound dimensions make a size of %lld - %lld = %lld, below zero",
                           (long long)a, (long long)b, (long long)values[i]);
    }
    return RLX_OK;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

bool rx_shape_elements(const rlx_graph *g, const rlx_shape *s, int64_t *n)
{
    int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < s->rank; i++) {
        int64_t d = rx_dim_bound(g, s->dim[i]);
        empty |= d == 0;
        if (d && (__builtin_mul_overflow(product, d, &product) || product > MAX_ELEMENTS))
            return false;
    }
    *n = empty ? 0 : product;
    return true;
}

bool rx_shape_is_fixed(const rlx_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return false;
    return true;
}

uint64_t rx_value_bytes(const rlx_graph *g, uint32_t id)
{
    const rx_value *v = &g->values[id];
    int64_t n;
    uint64_t bytes;
    if (!rx_shape_is_fixed(&v->shape) || !rx_shape_elements(g, &v->shape, &n) ||
        !rx_dtype_bytes(v->dtype, n, &bytes))
        return UINT64_MAX;
    return bytes;
}

bool rx_shape_equal(const rlx_shape *a, const rlx_shape *b)
{
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]);
}

rlx_dim rx_shape_product(rlx_graph *g, const rlx_shape *s, int first, int last)
{
    rlx_dim p = 1;
    for (int i = first; i < last; i++)
        p = rlx_dim_mul(g, p, s->dim[i]);
    return p;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static size_t put_dim(const rlx_graph *g, rlx_dim d, char *at, size_t n)
{
    if (d >= 0 || !is_valid(g, d))
        return (size_t)snprintf(at, n, "%lld", (long long)d);
    const rx_dim_expr *e = expr_of(g, d);
    if (e->kind == RX_DIM_NAMED)
        return (size_t)snprintf(at, n, "%s", e->name);
    size_t used = (size_t)snprintf(at, n, "(");
    used += put_dim(g, e->a, at + (used < n ? used : n), used < n ? n - used : 0);
    used += (size_t)snprintf(at + (used < n ? used : n), used < n ? n - used : 0, "%c",
                             "?+-*/"[e->kind]);
    used += put_dim(g, e->b, at + (used < n ? used : n), used < n ? n - used : 0);
    used += (size_t)snprintf(at + (used < n ? used : n), used < n ? n - used : 0, ")");
    return used;
}

const char *rx_dim_text(const rlx_graph *g, rlx_dim d, char *buffer, size_t n)
{
    put_dim(g, d, buffer, n);
    return buffer;
}

const char *rx_type_text(const rlx_graph *g, rlx_dtype t, const rlx_shape *s,
                         char buffer[RX_TYPE_TEXT])
{
    size_t n = RX_TYPE_TEXT, used = (size_t)snprintf(buffer, n, "%s[", rlx_dtype_name(t));
    for (int i = 0; i < s->rank && used < n - 1; i++) {
        if (i)
            used += (size_t)snprintf(buffer + used, n - used, ",");
        used += put_dim(g, s->dim[i], buffer + used, n - used);
    }
    if (used < n - 1)
        snprintf(buffer + used, n - used, "]");
    return buffer;
}
