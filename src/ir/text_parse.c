/* SPDX-License-Identifier: MIT */
/* Parser of the text form (grammar in ir/text.h), and the generic builder rlx_op. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/little.h"
#include "ir/infer.h"
#include "ir/text.h"
#include "ir/text_lex.h"

#define MAX_INSTR 4096
#define MAX_OPERANDS 4096 /* of a region */

typedef struct parser {
    rx_lexer lex;
    rlx_graph *g;
    rx_map names;        /* %name to value id */
    rlx_value *operands; /* of the node being read */
    size_t n_operands, cap_operands;
} parser;

/* Results on the left of '=', with their declared types. */
typedef struct result {
    const char *name;
    size_t length;
    bool typed;
    rlx_dtype dtype;
    rlx_shape shape;
} result;

/* ---- Attributes ------------------------------------------------------------------------------ */

static rlx_status parse_ints(rx_lexer *l, rlx_graph *g, rlx_ints *list, bool dims)
{
    *list = (rlx_ints){0};
    RLX_TRY(rx_lex_expect(l, "["));
    if (rx_lex_take(l, "]"))
        return RLX_OK;
    do {
        if (list->n == RLX_MAX_INTS)
            return rx_lex_fail(l, "expected a list of at most %d numbers", RLX_MAX_INTS);
        int64_t *v = &list->v[list->n++];
        RLX_TRY(dims ? rx_lex_dim(l, g, 0, v) : rx_lex_int(l, v));
    } while (rx_lex_take(l, ","));
    return rx_lex_expect(l, "]");
}

static rlx_status parse_floats(rx_lexer *l, const rx_attr_field *f, double *v)
{
    RLX_TRY(rx_lex_expect(l, "["));
    int n = 0;
    do {
        if (n == f->count)
            return rx_lex_fail(l, "expected at most %u numbers in %s", f->count, f->name);
        RLX_TRY(rx_lex_double(l, &v[n++]));
    } while (rx_lex_take(l, ","));
    return rx_lex_expect(l, "]");
}

static rlx_status parse_enum(rx_lexer *l, const rx_attr_field *f, int32_t *v)
{
    const char *word;
    size_t n;
    RLX_TRY(rx_lex_word(l, &word, &n, f->name));
    for (int i = 0; f->names[i]; i++)
        if (strlen(f->names[i]) == n && !memcmp(f->names[i], word, n)) {
            *v = i;
            return RLX_OK;
        }
    char known[160] = "";
    for (int i = 0, used = 0; f->names[i] && used < 140; i++)
        used += snprintf(known + used, sizeof known - (size_t)used, "%s%s", i ? ", " : "",
                         f->names[i]);
    l->at = word;
    return rx_lex_fail(l, "attribute %s expected one of %s; got '%.*s'", f->name, known,
                       rx_lex_shown(n), word);
}

static rlx_status parse_field(rx_lexer *l, rlx_graph *g, const rx_attr_field *f, char *record)
{
    void *at = record + f->offset;
    switch (f->kind) {
    case RX_ATTR_INT: return rx_lex_int(l, at);
    case RX_ATTR_FLOAT: return rx_lex_double(l, at);
    case RX_ATTR_ENUM: return parse_enum(l, f, at);
    case RX_ATTR_DTYPE: return rx_lex_dtype(l, at);
    case RX_ATTR_DIM: return rx_lex_dim(l, g, 0, at);
    case RX_ATTR_INTS: return parse_ints(l, g, at, false);
    case RX_ATTR_DIMS: return parse_ints(l, g, at, true);
    case RX_ATTR_FLOATS: return parse_floats(l, f, at);
    case RX_ATTR_STRING: return rx_lex_string(l, g, at);
    case RX_ATTR_BOOL:
        *(bool *)at = rx_lex_take(l, "true") || rx_lex_take(l, "1");
        return *(bool *)at || rx_lex_take(l, "false") || rx_lex_take(l, "0")
                   ? RLX_OK
                   : rx_lex_fail(l, "attribute %s expected true or false", f->name);
    default: return rx_lex_fail(l, "attribute %s cannot be given as text", f->name);
    }
}

static const rx_attr_field *find_field(rx_op op, const char *word, size_t n)
{
    for (const rx_attr_field *f = rx_ops[op].attr->fields; f->kind != RX_ATTR_END; f++)
        if (strlen(f->name) == n && !memcmp(f->name, word, n))
            return f;
    return NULL;
}

static rlx_status parse_region(parser *p, rx_region *r, const char *stop);

/* key=value, key=value up to `stop` (NULL: the end of the text). */
static rlx_status parse_fields(rx_lexer *l, rlx_graph *g, rx_op op, void *record, const char *stop)
{
    rx_lex_skip(l);
    if (stop ? rx_lex_take(l, stop) : l->at >= l->end)
        return RLX_OK;
    do {
        const char *word;
        size_t n;
        RLX_TRY(rx_lex_word(l, &word, &n, "the name of an attribute"));
        const rx_attr_field *f = find_field(op, word, n);
        if (!f) {
            char known[160] = "it has none";
            int used = 0;
            for (f = rx_ops[op].attr->fields; f->kind != RX_ATTR_END && used < 140; f++)
                used += snprintf(known + used, sizeof known - (size_t)used, "%s%s",
                                 used ? ", " : "", f->name);
            l->at = word;
            return rx_lex_fail(l, "%s has no attribute '%.*s'; expected: %s", rx_ops[op].name,
                               rx_lex_shown(n), word, known);
        }
        RLX_TRY(rx_lex_expect(l, "="));
        RLX_TRY(parse_field(l, g, f, record));
    } while (rx_lex_take(l, ","));
    rx_lex_skip(l);
    if (stop)
        return rx_lex_expect(l, stop);
    return l->at >= l->end ? RLX_OK : rx_lex_fail(l, "expected ',' or the end of the attributes");
}

rlx_status rx_text_parse_attr(rlx_graph *g, rx_op op, const char *text, void *attr, rlx_error *err)
{
    rx_lexer l = {text, text, text + strlen(text), err};
    return parse_fields(&l, g, op, attr, NULL);
}

static rlx_status parse_region_text(rlx_graph *g, size_t n_in, const char *text, rx_region *r,
                                    rlx_error *err)
{
    parser p = {.lex = {text, text, text + strlen(text), err}, .g = g, .n_operands = n_in};
    return parse_region(&p, r, NULL);
}

size_t rlx_op(rlx_graph *g, const char *op, const rlx_value *in, size_t n_in,
              const char *attributes, rlx_value *out, size_t cap)
{
    if (!g || g->error.code)
        return 0;
    rx_op id = op ? rx_op_find(op, strlen(op)) : RX_N_OPS;
    if (id == RX_N_OPS) {
        rx_graph_fail(g, RLX_NOT_FOUND, "operation '%s' is not in the catalogue (see rlx_op_name)",
                      op ? op : "");
        return 0;
    }
    if (rx_ops[id].flags & RX_OP_LEAF) {
        rx_graph_fail(g, RLX_INVALID, "operation '%s' cannot be added through rlx_op; use rlx_%s",
                      op, op);
        return 0;
    }
    rlx_error err = {0};
    void *record = rx_attr_new(g, rx_ops[id].attr);
    if (!record) {
        rx_graph_fail(g, RLX_NO_MEMORY, "out of memory: attributes of %s", op);
        return 0;
    }
    rlx_status s = RLX_OK;
    if (attributes)
        s = id == RX_OP_region ? parse_region_text(g, n_in, attributes, record, &err)
                               : rx_text_parse_attr(g, id, attributes, record, &err);
    if (s != RLX_OK) {
        rx_graph_fail(g, RLX_INVALID, "%s: attributes \"%.80s\": %s", op, attributes, err.text);
        return 0;
    }
    rlx_value first = rx_graph_add(g, id, in, n_in, record, NULL);
    if (!first.id)
        return 0;
    size_t n = g->nodes[g->n_nodes - 1].n_out;
    for (size_t i = 0; out && i < n && i < cap; i++)
        out[i] = rx_result(first, (uint32_t)i);
    return n;
}

/* ---- Regions --------------------------------------------------------------------------------- */

/* The number after the letter of a3 or t3; -1 when there is none of at most five digits. */
static int parse_region_index(const char *word, size_t n)
{
    int v = 0;
    if (n < 2 || n > 6)
        return -1;
    for (size_t i = 1; i < n; i++) {
        if (word[i] < '0' || word[i] > '9')
            return -1;
        v = v * 10 + (word[i] - '0');
    }
    return v;
}

/* a3 or t3 */
static rlx_status parse_region_arg(parser *p, const rx_region *r, uint16_t *arg)
{
    const char *word;
    size_t n;
    RLX_TRY(rx_lex_word(&p->lex, &word, &n, "a0, t0, ..."));
    int v = parse_region_index(word, n);
    if (v >= 0 && *word == 'a' && v < r->n_in) {
        *arg = (uint16_t)v;
        return RLX_OK;
    }
    if (v >= 0 && *word == 't' && v < r->n_instr) {
        *arg = (uint16_t)(r->n_in + v);
        return RLX_OK;
    }
    p->lex.at = word;
    return rx_lex_fail(&p->lex, "expected an operand a0 to a%d or an earlier t, got '%.*s'",
                       r->n_in - 1, rx_lex_shown(n), word);
}

static rlx_status parse_instr(parser *p, const rx_region *r, rx_instr *in)
{
    rx_lexer *l = &p->lex;
    const char *word;
    size_t n;
    char want[16];
    snprintf(want, sizeof want, "t%u", r->n_instr);
    RLX_TRY(rx_lex_expect(l, want));
    RLX_TRY(rx_lex_expect(l, "="));
    RLX_TRY(rx_lex_word(l, &word, &n, "an operation"));
    rx_op op = rx_op_find(word, n);
    if (op == RX_N_OPS || !(rx_ops[op].flags & RX_OP_ELEMENTWISE))
        return rx_lex_fail(l, "expected an elementwise operation, got '%.*s'", rx_lex_shown(n),
                           word);
    in->op = (uint16_t)op;
    RLX_TRY(rx_lex_expect(l, "("));
    for (int i = 0; i < rx_ops[op].min_in; i++) {
        if (i)
            RLX_TRY(rx_lex_expect(l, ","));
        RLX_TRY(parse_region_arg(p, r, &in->arg[i]));
    }
    for (int i = 0; i < 2 && rx_lex_take(l, ","); i++)
        RLX_TRY(rx_lex_double(l, &in->p[i]));
    RLX_TRY(rx_lex_expect(l, ")"));
    RLX_TRY(rx_lex_expect(l, ":"));
    RLX_TRY(rx_lex_dtype(l, &in->dtype));
    return rx_lex_expect(l, ";");
}

/* t0 = op(..): type; .. return t1, t2 up to `stop` (NULL: the end of the text). */
static rlx_status parse_region(parser *p, rx_region *r, const char *stop)
{
    rx_instr *instr = NULL;
    size_t cap = 0;
    uint16_t out[RX_MAX_RESULTS];
    rlx_status s = RLX_OK;
    if (p->n_operands > MAX_OPERANDS)
        return rx_lex_fail(&p->lex, "expected a region of at most %d operands, got %zu",
                           MAX_OPERANDS, p->n_operands);
    r->n_in = (uint16_t)p->n_operands;
    while (s == RLX_OK && !rx_lex_take(&p->lex, "return")) {
        if (r->n_instr == MAX_INSTR) {
            s = rx_lex_fail(&p->lex, "expected at most %d instructions in a region", MAX_INSTR);
            break;
        }
        if (!rx_grow(&instr, &cap, r->n_instr + 1u, sizeof *instr)) {
            s = rx_fail_memory(p->lex.err, "a region", (r->n_instr + 1u) * sizeof *instr);
            break;
        }
        instr[r->n_instr] = (rx_instr){0};
        s = parse_instr(p, r, &instr[r->n_instr]);
        r->n_instr++;
    }
    while (s == RLX_OK) {
        uint16_t arg;
        s = parse_region_arg(p, r, &arg);
        if (s == RLX_OK && (arg < r->n_in || r->n_out == RX_MAX_RESULTS))
            s = rx_lex_fail(&p->lex, "a region returns at most %d of its t values", RX_MAX_RESULTS);
        if (s == RLX_OK)
            out[r->n_out++] = (uint16_t)(arg - r->n_in);
        if (s != RLX_OK || !rx_lex_take(&p->lex, ","))
            break;
    }
    if (s == RLX_OK) {
        r->instr = rx_arena_array_copy(&p->g->arena, instr, r->n_instr, sizeof *instr);
        r->out = rx_arena_array_copy(&p->g->arena, out, r->n_out, sizeof *out);
        if (!r->instr || !r->out)
            s = rx_fail_memory(p->lex.err, "a region", r->n_instr * sizeof *instr);
    }
    rx_free(instr);
    RLX_TRY(s);
    if (stop)
        return rx_lex_expect(&p->lex, stop);
    rx_lex_skip(&p->lex);
    return p->lex.at >= p->lex.end ? RLX_OK : rx_lex_fail(&p->lex, "expected the end of region");
}

/* ---- Constants ------------------------------------------------------------------------------- */

static rlx_status parse_hex(parser *p, rlx_dtype t, char *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++) {
        int v = rx_lex_hex_byte(&p->lex);
        if (v < 0)
            return rx_lex_fail(&p->lex, "expected %llu bytes in hexadecimal, got %llu",
                               (unsigned long long)bytes, (unsigned long long)i);
        data[rx_little_index(t, i)] = (char)v;
    }
    return RLX_OK;
}

static rlx_status parse_float(rx_lexer *l, rlx_dtype t, char *at)
{
    const char *start = l->at;
    double v;
    RLX_TRY(rx_lex_double(l, &v));
    rx_dtype_store(t, at, v);
    if (!isinf(rx_dtype_load(t, at)) || isinf(v))
        return RLX_OK;
    l->at = start;
    return rx_lex_fail(l, "expected a number that fits %s, got %g", rlx_dtype_name(t), v);
}

static rlx_status parse_int(rx_lexer *l, rlx_dtype t, char *at)
{
    const rx_int_range range = rx_dtype_range(t);
    const char *start = l->at;
    int64_t v;
    uint64_t bits;
    if (t == RLX_U64 && rx_lex_unsigned(l, &bits)) {
        memcpy(at, &bits, sizeof bits);
        return RLX_OK;
    }
    RLX_TRY(rx_lex_int(l, &v));
    if (v < range.lo || (v > 0 && (uint64_t)v > range.hi)) {
        l->at = start;
        return rx_lex_fail(l, "expected a number that fits %s, got %lld", rlx_dtype_name(t),
                           (long long)v);
    }
    rx_dtype_store_int(t, at, v);
    return RLX_OK;
}

static rlx_status parse_list(parser *p, rlx_dtype t, char *data, int64_t n)
{
    rx_lexer *l = &p->lex;
    for (int64_t i = 0; i < n; i++) {
        char *at = data + i * rlx_dtype_block_bytes(t);
        if (i)
            RLX_TRY(rx_lex_expect(l, ","));
        rx_lex_skip(l);
        RLX_TRY(rlx_dtype_is_float(t) ? parse_float(l, t, at) : parse_int(l, t, at));
    }
    return rx_lex_expect(l, "]");
}

static rlx_status parse_constant(parser *p, rx_leaf_attr *a)
{
    int64_t n;
    if (!rx_shape_elements(p->g, &a->shape, &n) || !rx_shape_is_fixed(&a->shape) ||
        !rx_dtype_bytes(a->dtype, n, &a->bytes) ||
        a->bytes > (uint64_t)(p->lex.end - p->lex.text) * 8)
        return rx_lex_fail(&p->lex, "a constant needs a fixed shape whose elements are all given");
    char *data = rx_arena_zero(&p->g->arena, a->bytes);
    if (!data)
        return rx_fail_memory(p->lex.err, "a constant", a->bytes);
    a->data = data;
    if (rx_lex_take(&p->lex, "["))
        return rlx_dtype_is_packed(a->dtype)
                   ? rx_lex_fail(&p->lex, "a packed constant is given in hexadecimal")
                   : parse_list(p, a->dtype, data, n);
    rx_lex_skip(&p->lex);
    if (p->lex.end - p->lex.at < 2 || memcmp(p->lex.at, "0x", 2))
        return rx_lex_fail(&p->lex, "expected a list in brackets or 0x and hexadecimal bytes");
    p->lex.at += 2;
    return parse_hex(p, a->dtype, data, a->bytes);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static rlx_status parse_value(parser *p, rlx_value *v)
{
    const char *word;
    size_t n;
    if (rx_lex_take(&p->lex, "_")) {
        *v = RLX_NONE;
        return RLX_OK;
    }
    RLX_TRY(rx_lex_expect(&p->lex, "%"));
    RLX_TRY(rx_lex_word(&p->lex, &word, &n, "the name of a value"));
    const rx_map_slot *slot = rx_map_find(&p->names, word, n);
    if (!slot) {
        p->lex.at = word;
        return rx_lex_fail(&p->lex, "unknown value %%%.*s; expected one of an earlier line",
                           rx_lex_shown(n), word);
    }
    v->id = slot->value;
    return RLX_OK;
}

static rlx_status parse_operands(parser *p)
{
    p->n_operands = 0;
    RLX_TRY(rx_lex_expect(&p->lex, "("));
    if (rx_lex_take(&p->lex, ")"))
        return RLX_OK;
    do {
        if (!rx_grow(&p->operands, &p->cap_operands, p->n_operands + 1, sizeof *p->operands))
            return rx_fail_memory(p->lex.err, "operands", p->n_operands);
        RLX_TRY(parse_value(p, &p->operands[p->n_operands++]));
    } while (rx_lex_take(&p->lex, ","));
    return rx_lex_expect(&p->lex, ")");
}

static rlx_status parse_leaf(parser *p, rx_op op, const result *r, size_t n, rlx_value *first)
{
    if (n != 1 || !r->typed)
        return rx_lex_fail(&p->lex, "%s needs one result with a type, as in '%%x: f32[2,3] = %s'",
                           rx_ops[op].name, rx_ops[op].name);
    rx_leaf_attr a = {.dtype = r->dtype, .shape = r->shape};
    if (op == RX_OP_constant)
        RLX_TRY(parse_constant(p, &a));
    else
        RLX_TRY(rx_lex_string(&p->lex, p->g, &a.name));
    *first = rx_graph_add(p->g, op, NULL, 0, &a, a.name);
    const char *name;
    rx_lex_skip(&p->lex);
    if (op == RX_OP_constant && p->lex.at < p->lex.end && *p->lex.at == '"') {
        RLX_TRY(rx_lex_string(&p->lex, p->g, &name));
        rlx_named(p->g, *first, name);
    }
    return RLX_OK;
}

static rlx_status parse_call(parser *p, rx_op op, rlx_value *first)
{
    RLX_TRY(parse_operands(p));
    void *record = rx_attr_new(p->g, rx_ops[op].attr);
    if (!record)
        return rx_fail_memory(p->lex.err, "attributes", rx_ops[op].attr->size);
    if (rx_lex_take(&p->lex, "{"))
        RLX_TRY(op == RX_OP_region ? parse_region(p, record, "}")
                                   : parse_fields(&p->lex, p->g, op, record, "}"));
    const char *name = NULL;
    rx_lex_skip(&p->lex);
    if (p->lex.at < p->lex.end && *p->lex.at == '"')
        RLX_TRY(rx_lex_string(&p->lex, p->g, &name));
    *first = rx_graph_add(p->g, op, p->operands, p->n_operands, record, name);
    return RLX_OK;
}

/* Binds the results to their names and checks the declared types. */
static rlx_status bind_results(parser *p, const result *r, size_t n, rlx_value first)
{
    RLX_TRY(rx_lex_graph_status(&p->lex, p->g));
    const rx_node *node = &p->g->nodes[p->g->n_nodes - 1];
    if (n != node->n_out)
        return rx_lex_fail(&p->lex, "%s has %u results, got %zu names", rx_ops[node->op].name,
                           node->n_out, n);
    for (size_t i = 0; i < n; i++) {
        const rx_value *v = &p->g->values[first.id + i];
        char a[RX_TYPE_TEXT], b[RX_TYPE_TEXT];
        if (r[i].typed && (v->dtype != r[i].dtype || !rx_shape_equal(&v->shape, &r[i].shape)))
            return rx_lex_fail(&p->lex, "%%%.*s: the text says %s, but %s gives %s",
                               rx_lex_shown(r[i].length), r[i].name,
                               rx_type_text(p->g, r[i].dtype, &r[i].shape, a),
                               rx_ops[node->op].name, rx_type_text(p->g, v->dtype, &v->shape, b));
        if (rx_map_find(&p->names, r[i].name, r[i].length))
            return rx_lex_fail(&p->lex, "%%%.*s is defined twice", rx_lex_shown(r[i].length),
                               r[i].name);
        if (!rx_map_add(&p->names, r[i].name, r[i].length, first.id + (uint32_t)i))
            return rx_fail_memory(p->lex.err, "names", n);
    }
    return RLX_OK;
}

static rlx_status parse_node(parser *p)
{
    rx_lexer *l = &p->lex;
    result r[RX_MAX_RESULTS];
    size_t n = 0;
    do {
        if (n == RX_MAX_RESULTS)
            return rx_lex_fail(l, "expected at most %d results", RX_MAX_RESULTS);
        r[n] = (result){0};
        RLX_TRY(rx_lex_expect(l, "%"));
        RLX_TRY(rx_lex_word(l, &r[n].name, &r[n].length, "the name of a value"));
        r[n].typed = rx_lex_take(l, ":");
        if (r[n].typed)
            RLX_TRY(rx_lex_type(l, p->g, &r[n].dtype, &r[n].shape));
        n++;
    } while (rx_lex_take(l, ","));
    RLX_TRY(rx_lex_expect(l, "="));
    const char *word;
    size_t length;
    RLX_TRY(rx_lex_word(l, &word, &length, "an operation"));
    rx_op op = rx_op_find(word, length);
    if (op == RX_N_OPS) {
        l->at = word;
        return rx_lex_fail(l, "unknown operation '%.*s' ('rlx ops' lists them)",
                           rx_lex_shown(length), word);
    }
    rlx_value first = RLX_NONE;
    RLX_TRY(rx_ops[op].flags & RX_OP_LEAF ? parse_leaf(p, op, r, n, &first)
                                          : parse_call(p, op, &first));
    return bind_results(p, r, n, first);
}

static rlx_status parse_dim(parser *p)
{
    const char *word;
    size_t n;
    int64_t bound;
    RLX_TRY(rx_lex_word(&p->lex, &word, &n, "the name of a dimension"));
    RLX_TRY(rx_lex_expect(&p->lex, "<="));
    RLX_TRY(rx_lex_int(&p->lex, &bound));
    char *name = rx_arena_strndup(&p->g->arena, word, n);
    if (!name)
        return rx_fail_memory(p->lex.err, "a dimension", n);
    rlx_dim_named(p->g, name, bound);
    return rx_lex_graph_status(&p->lex, p->g);
}

static rlx_status parse_output(parser *p)
{
    const char *name;
    rlx_value v;
    RLX_TRY(rx_lex_string(&p->lex, p->g, &name));
    RLX_TRY(rx_lex_expect(&p->lex, "="));
    RLX_TRY(parse_value(p, &v));
    rlx_output(p->g, name, v);
    return rx_lex_graph_status(&p->lex, p->g);
}

static rlx_status parse_graph(parser *p)
{
    const char *name;
    RLX_TRY(rx_lex_expect(&p->lex, "graph"));
    RLX_TRY(rx_lex_string(&p->lex, p->g, &name));
    p->g->name = name;
    RLX_TRY(rx_lex_expect(&p->lex, "{"));
    while (!rx_lex_take(&p->lex, "}")) {
        if (rx_lex_take(&p->lex, "dim"))
            RLX_TRY(parse_dim(p));
        else if (rx_lex_take(&p->lex, "output"))
            RLX_TRY(parse_output(p));
        else
            RLX_TRY(parse_node(p));
    }
    rx_lex_skip(&p->lex);
    return p->lex.at >= p->lex.end ? RLX_OK
                                   : rx_lex_fail(&p->lex, "expected the end of the text after '}'");
}

rlx_status rlx_graph_parse(const char *text, size_t length, rlx_graph **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_graph_parse: out", err));
    *out = NULL;
    if (length)
        RLX_TRY(rx_need(text, "rlx_graph_parse: text", err));
    parser p = {.lex = {text, text, text + length, err}, .g = rlx_graph_create("")};
    if (!p.g)
        return rx_fail(err, RLX_NO_MEMORY, "out of memory: a graph");
    rlx_status s = parse_graph(&p);
    rx_map_finish(&p.names);
    rx_free(p.operands);
    if (s == RLX_OK)
        *out = p.g;
    else
        rlx_graph_destroy(p.g);
    return s;
}
