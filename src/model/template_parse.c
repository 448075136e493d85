/* SPDX-License-Identifier: MIT */
/* Parser of templates: statements here, expressions by recursive descent with the precedence of
 * Jinja: choice, or, and, not, comparisons, + -, ~, * / // %, unary, **, postfix. */
#include <string.h>

#include "model/template_ast.h"

typedef struct parser {
    rx_arena *arena;
    const rx_token *t; /* the next token */
    int depth;
    rlx_status status; /* after a failure the parser stops */
    rlx_error *err;
} parser;

static rx_node *parse_expression(parser *p);
static rx_node *parse_unary(parser *p, bool with_filters);
static rx_node *parse_block(parser *p, const char *const *ends);

/* ---- Pieces ---------------------------------------------------------------------------------- */

static const rx_token end_token = {.kind = RX_T_END};

static rx_node *fail(parser *p, const char *expected)
{
    if (p->status != RLX_OK)
        return NULL;
    const rx_token *t = p->t;
    const char *found = NULL;
    if (t->kind == RX_T_END)
        found = "the end";
    else if (t->kind == RX_T_END_PRINT || t->kind == RX_T_END_TAG)
        found = "the end of the tag";
    else if (t->kind == RX_T_TEXT)
        found = "text";
    if (found)
        p->status = rx_fail(p->err, RLX_PARSE, "chat template, line %d: expected %s, found %s",
                            t->line, expected, found);
    else
        p->status = rx_fail(p->err, RLX_PARSE, "chat template, line %d: expected %s, found '%.*s'",
                            t->line, expected, (int)(t->length < 40 ? t->length : 40),
                            t->text ? t->text : "");
    p->t = &end_token;
    return NULL;
}

static rx_node *new_node(parser *p, rx_node_kind kind)
{
    rx_node *n = p->status == RLX_OK ? rx_arena_zero(p->arena, sizeof *n) : NULL;
    if (!n) {
        if (p->status == RLX_OK)
            p->status = rx_fail_memory(p->err, "a chat template", sizeof *n);
        p->t = &end_token;
        return NULL;
    }
    n->kind = kind;
    n->line = p->t->line;
    return n;
}

/* A node with one or two children; NULL when one of them failed. */
static rx_node *make(parser *p, rx_node_kind kind, rx_binop op, rx_node *a, rx_node *b)
{
    rx_node *n = new_node(p, kind);
    if (n) {
        n->op = op;
        n->a = a;
        n->b = b;
        n->line = a ? a->line : n->line;
    }
    return n;
}

static bool is_text(const rx_token *t, rx_token_kind kind, const char *text)
{
    return t->kind == kind && t->length == strlen(text) && !memcmp(t->text, text, t->length);
}

static bool is_sign(const parser *p, const char *sign)
{
    return is_text(p->t, RX_T_SIGN, sign);
}

static bool is_name(const parser *p, const char *name)
{
    return is_text(p->t, RX_T_NAME, name);
}

static bool take_sign(parser *p, const char *sign)
{
    bool ok = is_sign(p, sign);
    p->t += ok;
    return ok;
}

static bool take_name(parser *p, const char *name)
{
    bool ok = is_name(p, name);
    p->t += ok;
    return ok;
}

static void expect_sign(parser *p, const char *sign, const char *what)
{
    if (!take_sign(p, sign))
        fail(p, what);
}

static void expect_end_tag(parser *p)
{
    if (p->t->kind == RX_T_END_TAG)
        p->t++;
    else
        fail(p, "the end of the tag");
}

/* A node of this kind with the name that comes next. */
static rx_node *take_identifier(parser *p, rx_node_kind kind, const char *what)
{
    if (p->t->kind != RX_T_NAME)
        return fail(p, what);
    rx_node *n = new_node(p, kind);
    if (n) {
        n->text = p->t->text;
        n->length = p->t->length;
        p->t++;
    }
    return n;
}

static bool enter(parser *p)
{
    if (++p->depth <= RX_TEMPLATE_DEPTH)
        return true;
    if (p->status == RLX_OK)
        p->status = rx_fail(p->err, RLX_PARSE, "chat template, line %d: nested more than %d deep",
                            p->t->line, RX_TEMPLATE_DEPTH);
    p->t = &end_token;
    return false;
}

/* Appends to a list of children. */
static void append(rx_node ***tail, rx_node *n)
{
    if (!n)
        return;
    **tail = n;
    *tail = &n->next;
}

/* ---- Primary expressions --------------------------------------------------------------------- */

static rx_node *parse_string(parser *p)
{
    rx_node *n = new_node(p, RX_N_STRING);
    if (!n)
        return NULL;
    const rx_token *end = p->t; /* strings side by side are one */
    for (; end->kind == RX_T_STRING; end++)
        n->length += end->length;
    n->text = p->t->text;
    if (end - p->t > 1) {
        char *all = rx_arena_alloc(p->arena, n->length);
        if (!all)
            return p->status = rx_fail_memory(p->err, "a string", n->length), (rx_node *)NULL;
        n->text = all;
        for (const rx_token *s = p->t; s < end; all += s->length, s++)
            memcpy(all, s->text, s->length);
    }
    p->t = end;
    return n;
}

/* Elements up to `close`, which is taken. Sets *comma when there was one. */
static void parse_elements(parser *p, rx_node *list, const char *close, bool *comma)
{
    rx_node **tail = &list->first;
    while (p->status == RLX_OK && !take_sign(p, close)) {
        append(&tail, parse_expression(p));
        if (take_sign(p, ","))
            *comma = true;
        else if (!is_sign(p, close))
            fail(p, "',' or the closing bracket");
    }
}

static rx_node *parse_list(parser *p)
{
    bool comma = false;
    rx_node *n = new_node(p, RX_N_LIST);
    if (!n)
        return NULL;
    p->t++;
    parse_elements(p, n, "]", &comma);
    return n;
}

static rx_node *parse_parentheses(parser *p)
{
    bool comma = false;
    rx_node *n = new_node(p, RX_N_TUPLE);
    if (!n)
        return NULL;
    p->t++;
    parse_elements(p, n, ")", &comma);
    return comma || !n->first ? n : n->first;
}

static rx_node *parse_dict(parser *p)
{
    rx_node *n = new_node(p, RX_N_DICT);
    if (!n)
        return NULL;
    rx_node **tail = &n->first;
    p->t++;
    while (p->status == RLX_OK && !take_sign(p, "}")) {
        rx_node *key = parse_expression(p);
        expect_sign(p, ":", "':' after the key");
        rx_node *value = parse_expression(p);
        append(&tail, make(p, RX_N_PAIR, RX_BINOP_NONE, key, value));
        if (!take_sign(p, ",") && !is_sign(p, "}"))
            fail(p, "',' or '}'");
    }
    return n;
}

static const struct {
    const char *name;
    rx_node_kind kind;
    int64_t number;
} constants[] = {{"true", RX_N_BOOL, 1},  {"True", RX_N_BOOL, 1}, {"false", RX_N_BOOL, 0},
                 {"False", RX_N_BOOL, 0}, {"none", RX_N_NONE, 0}, {"None", RX_N_NONE, 0}};

static rx_node *parse_name(parser *p)
{
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (is_name(p, constants[i].name)) {
            rx_node *n = new_node(p, constants[i].kind);
            if (n)
                n->number = constants[i].number;
            p->t += n != NULL;
            return n;
        }
    return take_identifier(p, RX_N_NAME, "a name");
}

static rx_node *parse_primary(parser *p)
{
    const rx_token *t = p->t;
    if (t->kind == RX_T_NAME)
        return parse_name(p);
    if (t->kind == RX_T_STRING)
        return parse_string(p);
    if (t->kind == RX_T_INT || t->kind == RX_T_FLOAT) {
        rx_node *n = new_node(p, t->kind == RX_T_INT ? RX_N_INT : RX_N_FLOAT);
        if (n) {
            n->number = t->number;
            n->real = t->real;
            p->t++;
        }
        return n;
    }
    if (is_sign(p, "("))
        return parse_parentheses(p);
    if (is_sign(p, "["))
        return parse_list(p);
    if (is_sign(p, "{"))
        return parse_dict(p);
    return fail(p, "an expression");
}

/* ---- Postfix: attributes, subscripts, calls, filters, tests ---------------------------------- */

/* "(" was seen: arguments, by place and by name. */
static void parse_arguments(parser *p, rx_node *call)
{
    rx_node **tail = &call->first;
    p->t++;
    while (p->status == RLX_OK && !take_sign(p, ")")) {
        if (p->t->kind == RX_T_NAME && is_text(p->t + 1, RX_T_SIGN, "=")) {
            rx_node *n = take_identifier(p, RX_N_KEYWORD, "a name");
            p->t += n != NULL;
            if (n)
                n->a = parse_expression(p);
            append(&tail, n);
        } else
            append(&tail, parse_expression(p));
        if (!take_sign(p, ",") && !is_sign(p, ")"))
            fail(p, "',' or ')'");
    }
}

/* "[" was seen. */
static rx_node *parse_subscript(parser *p, rx_node *of)
{
    rx_node *part[3] = {NULL, NULL, NULL};
    int n = 0;
    p->t++;
    for (;;) {
        if (!is_sign(p, ":") && !is_sign(p, "]"))
            part[n] = parse_expression(p);
        if (p->status != RLX_OK || n == 2 || !take_sign(p, ":"))
            break;
        n++;
    }
    expect_sign(p, "]", "']'");
    if (n == 0 && !part[0])
        return fail(p, "an index");
    rx_node *s = make(p, n ? RX_N_SLICE : RX_N_INDEX, RX_BINOP_NONE, of, part[0]);
    if (s) {
        s->c = part[1];
        s->d = part[2];
    }
    return s;
}

static rx_node *parse_attribute(parser *p, rx_node *of)
{
    p->t++;
    if (p->t->kind == RX_T_INT) {
        rx_node *index = parse_primary(p);
        return make(p, RX_N_INDEX, RX_BINOP_NONE, of, index);
    }
    rx_node *n = take_identifier(p, RX_N_ATTRIBUTE, "the name of an attribute");
    if (n)
        n->a = of;
    return n;
}

static rx_node *parse_call(parser *p, rx_node *of)
{
    rx_node *n = make(p, RX_N_CALL, RX_BINOP_NONE, of, NULL);
    if (n)
        parse_arguments(p, n);
    return n;
}

static rx_node *parse_postfix(parser *p, rx_node *n)
{
    for (int links = 0; p->status == RLX_OK; links++) {
        if (links > RX_TEMPLATE_DEPTH)
            return fail(p, "fewer attributes and calls in a row");
        if (is_sign(p, "."))
            n = parse_attribute(p, n);
        else if (is_sign(p, "["))
            n = parse_subscript(p, n);
        else if (is_sign(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static rx_node *parse_filter(parser *p, rx_node *of)
{
    rx_node *n = take_identifier(p, RX_N_FILTER, "the name of a filter");
    if (!n)
        return NULL;
    n->a = of;
    if (is_sign(p, "("))
        parse_arguments(p, n);
    return n;
}

/* Whether the next token starts a test's argument without parentheses. */
static bool begins_argument(const parser *p)
{
    static const char *const words[] = {"else", "or", "and", "if", "is", "in", "not"};
    const rx_token_kind kind = p->t->kind;
    if (kind == RX_T_STRING || kind == RX_T_INT || kind == RX_T_FLOAT)
        return true;
    if (kind == RX_T_SIGN)
        return is_sign(p, "[") || is_sign(p, "{");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is_name(p, words[i]))
            return false;
    return kind == RX_T_NAME;
}

static rx_node *parse_test(parser *p, rx_node *of)
{
    bool negated = take_name(p, "not");
    rx_node *n = take_identifier(p, RX_N_TEST, "the name of a test");
    if (!n)
        return NULL;
    n->a = of;
    n->number = negated;
    if (is_sign(p, "("))
        parse_arguments(p, n);
    else if (begins_argument(p))
        n->first = parse_postfix(p, parse_primary(p));
    return n;
}

static rx_node *parse_filters(parser *p, rx_node *n)
{
    for (int links = 0; p->status == RLX_OK; links++) {
        if (links > RX_TEMPLATE_DEPTH)
            return fail(p, "fewer filters in a row");
        if (take_sign(p, "|"))
            n = parse_filter(p, n);
        else if (take_name(p, "is"))
            n = parse_test(p, n);
        else if (is_sign(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* ---- Operators ------------------------------------------------------------------------------- */

static rx_node *parse_unary(parser *p, bool with_filters)
{
    rx_node *n = NULL;
    if (!enter(p))
        return NULL;
    if (is_sign(p, "-") || is_sign(p, "+")) {
        rx_binop op = is_sign(p, "-") ? RX_BINOP_SUB : RX_BINOP_ADD;
        p->t++;
        n = parse_unary(p, false);
        n = n ? make(p, RX_N_UNARY, op, n, NULL) : NULL;
    } else
        n = parse_primary(p);
    n = n ? parse_postfix(p, n) : NULL;
    if (n && with_filters)
        n = parse_filters(p, n);
    p->depth--;
    return n;
}

/* The binary operators by level, weakest first; the last level's operands are unary. */
static const struct {
    const char *sign;
    rx_binop op;
} levels[][5] = {
    {{"+", RX_BINOP_ADD}, {"-", RX_BINOP_SUB}},
    {{"~", RX_BINOP_CONCAT}},
    {{"*", RX_BINOP_MUL}, {"/", RX_BINOP_DIV}, {"//", RX_BINOP_FLOORDIV}, {"%", RX_BINOP_MOD}},
    {{"**", RX_BINOP_POW}},
};
enum { N_LEVELS = 4 };

static rx_binop take_operator(parser *p, int level)
{
    for (int i = 0; i < 5 && levels[level][i].sign; i++)
        if (take_sign(p, levels[level][i].sign))
            return levels[level][i].op;
    return RX_BINOP_NONE;
}

static rx_node *parse_binary(parser *p, int level)
{
    if (level == N_LEVELS)
        return parse_unary(p, true);
    rx_node *n = parse_binary(p, level + 1);
    for (rx_binop op; p->status == RLX_OK && (op = take_operator(p, level)) != RX_BINOP_NONE;) {
        rx_node *right = parse_binary(p, level + 1);
        n = right ? make(p, RX_N_BINARY, op, n, right) : NULL;
    }
    return n;
}

static rx_binop take_comparison(parser *p)
{
    static const struct {
        const char *sign;
        rx_binop op;
    } signs[] = {{"==", RX_BINOP_EQ}, {"!=", RX_BINOP_NE}, {"<=", RX_BINOP_LE},
                 {">=", RX_BINOP_GE}, {"<", RX_BINOP_LT},  {">", RX_BINOP_GT}};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (take_sign(p, signs[i].sign))
            return signs[i].op;
    if (take_name(p, "in"))
        return RX_BINOP_IN;
    if (is_name(p, "not") && is_text(p->t + 1, RX_T_NAME, "in")) {
        p->t += 2;
        return RX_BINOP_NOT_IN;
    }
    return RX_BINOP_NONE;
}

static rx_node *parse_compare(parser *p)
{
    rx_node *n = parse_binary(p, 0), *compare = NULL, **tail = NULL;
    for (rx_binop op; p->status == RLX_OK && (op = take_comparison(p)) != RX_BINOP_NONE;) {
        if (!compare) {
            compare = make(p, RX_N_COMPARE, RX_BINOP_NONE, n, NULL);
            tail = compare ? &compare->first : NULL;
        }
        rx_node *right = parse_binary(p, 0);
        if (tail && right)
            append(&tail, make(p, RX_N_COMPARE_NEXT, op, right, NULL));
    }
    return compare ? compare : n;
}

static rx_node *parse_not(parser *p)
{
    if (!is_name(p, "not"))
        return parse_compare(p);
    if (!enter(p))
        return NULL;
    p->t++;
    rx_node *n = parse_not(p);
    p->depth--;
    return n ? make(p, RX_N_NOT, RX_BINOP_NONE, n, NULL) : NULL;
}

static rx_node *parse_and(parser *p)
{
    rx_node *n = parse_not(p);
    while (p->status == RLX_OK && take_name(p, "and")) {
        rx_node *right = parse_not(p);
        n = right ? make(p, RX_N_AND, RX_BINOP_NONE, n, right) : NULL;
    }
    return n;
}

static rx_node *parse_or(parser *p)
{
    rx_node *n = parse_and(p);
    while (p->status == RLX_OK && take_name(p, "or")) {
        rx_node *right = parse_and(p);
        n = right ? make(p, RX_N_OR, RX_BINOP_NONE, n, right) : NULL;
    }
    return n;
}

static rx_node *parse_expression(parser *p)
{
    if (!enter(p))
        return NULL;
    rx_node *n = parse_or(p);
    while (p->status == RLX_OK && take_name(p, "if")) {
        rx_node *condition = parse_or(p);
        rx_node *other = take_name(p, "else") ? parse_expression(p) : NULL;
        rx_node *choice = make(p, RX_N_CHOICE, RX_BINOP_NONE, condition, n);
        if (choice)
            choice->c = other;
        n = choice;
    }
    p->depth--;
    return n;
}

/* One expression, or several with commas as a tuple. */
static rx_node *parse_tuple(parser *p)
{
    rx_node *one = parse_expression(p);
    if (p->status != RLX_OK || !is_sign(p, ","))
        return one;
    rx_node *tuple = make(p, RX_N_TUPLE, RX_BINOP_NONE, NULL, NULL), **tail = NULL;
    if (!tuple)
        return NULL;
    tail = &tuple->first;
    append(&tail, one);
    while (p->status == RLX_OK && take_sign(p, ",") && p->t->kind != RX_T_END_TAG &&
           p->t->kind != RX_T_END_PRINT)
        append(&tail, parse_expression(p));
    return tuple;
}

/* ---- Statements ------------------------------------------------------------------------------ */

static const char *const if_ends[] = {"elif", "else", "endif", NULL};
static const char *const else_ends[] = {"endif", NULL};
static const char *const for_ends[] = {"else", "endfor", NULL};
static const char *const for_else_ends[] = {"endfor", NULL};

/* "end..." of a statement that has one body. */
static rx_node *parse_body(parser *p, const char *name)
{
    const char *const ends[] = {name, NULL};
    rx_node *n = parse_block(p, ends);
    p->t += p->status == RLX_OK;
    expect_end_tag(p);
    return n;
}

static rx_node *parse_if(parser *p)
{
    rx_node *head = NULL, **hole = &head;
    for (;;) {
        rx_node *n = new_node(p, RX_N_IF);
        if (!n)
            return NULL;
        *hole = n;
        hole = &n->c;
        n->a = parse_tuple(p);
        expect_end_tag(p);
        n->b = parse_block(p, if_ends);
        if (!take_name(p, "elif"))
            break;
    }
    if (take_name(p, "else")) {
        expect_end_tag(p);
        *hole = parse_block(p, else_ends);
    }
    p->t += p->status == RLX_OK;
    expect_end_tag(p);
    return head;
}

/* A name, an attribute of a name, or several with commas. */
static rx_node *parse_target(parser *p)
{
    rx_node *tuple = NULL, **tail = NULL, *one;
    do {
        bool nested = take_sign(p, "(");
        if (nested && !enter(p))
            return NULL;
        one = nested ? parse_target(p) : take_identifier(p, RX_N_NAME, "the name of a variable");
        if (nested) {
            p->depth--;
            expect_sign(p, ")", "')'");
        } else if (one && is_sign(p, "."))
            one = parse_attribute(p, one);
        if (!tuple && is_sign(p, ",")) {
            tuple = new_node(p, RX_N_TUPLE);
            tail = tuple ? &tuple->first : NULL;
        }
        if (tail)
            append(&tail, one);
    } while (p->status == RLX_OK && take_sign(p, ","));
    return tuple ? tuple : one;
}

static rx_node *parse_for(parser *p)
{
    rx_node *n = new_node(p, RX_N_FOR);
    if (!n)
        return NULL;
    n->a = parse_target(p);
    if (!take_name(p, "in"))
        return fail(p, "'in'");
    n->b = parse_or(p);
    if (take_name(p, "if"))
        n->d = parse_expression(p);
    take_name(p, "recursive");
    expect_end_tag(p);
    n->first = parse_block(p, for_ends);
    if (take_name(p, "else")) {
        expect_end_tag(p);
        n->c = parse_block(p, for_else_ends);
    }
    p->t += p->status == RLX_OK;
    expect_end_tag(p);
    return n;
}

static rx_node *parse_set(parser *p)
{
    rx_node *n = new_node(p, RX_N_SET);
    if (!n)
        return NULL;
    n->a = parse_target(p);
    if (take_sign(p, "=")) {
        n->b = parse_tuple(p);
        expect_end_tag(p);
        return n;
    }
    if (take_sign(p, "|")) {
        n->b = parse_filters(p, parse_filter(p, NULL));
    }
    expect_end_tag(p);
    n->first = parse_body(p, "endset");
    return n;
}

/* "(name, name=default, ...)", may be left out. */
static rx_node *parse_params(parser *p)
{
    rx_node *n = new_node(p, RX_N_PARAMS);
    if (!n || !take_sign(p, "("))
        return n;
    rx_node **tail = &n->first;
    while (p->status == RLX_OK && !take_sign(p, ")")) {
        rx_node *param = take_identifier(p, RX_N_KEYWORD, "the name of a parameter");
        if (param && take_sign(p, "="))
            param->a = parse_expression(p);
        append(&tail, param);
        if (!take_sign(p, ",") && !is_sign(p, ")"))
            fail(p, "',' or ')'");
    }
    return n;
}

static rx_node *parse_macro(parser *p)
{
    rx_node *n = take_identifier(p, RX_N_MACRO, "the name of the macro");
    if (!n)
        return NULL;
    n->a = parse_params(p);
    expect_end_tag(p);
    n->first = parse_body(p, "endmacro");
    return n;
}

static rx_node *parse_call_block(parser *p)
{
    rx_node *n = new_node(p, RX_N_CALL_BLOCK);
    if (!n)
        return NULL;
    n->b = parse_params(p);
    n->a = parse_expression(p);
    if (n->a && n->a->kind != RX_N_CALL)
        return fail(p, "a call of a macro");
    expect_end_tag(p);
    n->first = parse_body(p, "endcall");
    return n;
}

static rx_node *parse_filter_block(parser *p)
{
    rx_node *n = new_node(p, RX_N_FILTER_BLOCK);
    if (!n)
        return NULL;
    n->a = parse_filters(p, parse_filter(p, NULL));
    expect_end_tag(p);
    n->first = parse_body(p, "endfilter");
    return n;
}

static rx_node *parse_do(parser *p)
{
    rx_node *n = new_node(p, RX_N_DO);
    if (n)
        n->a = parse_tuple(p);
    expect_end_tag(p);
    return n;
}

static rx_node *parse_break(parser *p)
{
    rx_node *n = new_node(p, RX_N_BREAK);
    expect_end_tag(p);
    return n;
}

static rx_node *parse_continue(parser *p)
{
    rx_node *n = new_node(p, RX_N_CONTINUE);
    expect_end_tag(p);
    return n;
}

/* {% generation %} marks assistant text for training; no effect here. */
static rx_node *parse_generation(parser *p)
{
    expect_end_tag(p);
    return parse_body(p, "endgeneration");
}

static const struct {
    const char *name;
    rx_node *(*parse)(parser *p);
} statements[] = {
    {"if", parse_if},           {"for", parse_for},       {"set", parse_set},
    {"macro", parse_macro},     {"call", parse_call_block}, {"filter", parse_filter_block},
    {"do", parse_do},           {"break", parse_break},   {"continue", parse_continue},
    {"generation", parse_generation},
};

static rx_node *parse_statement(parser *p)
{
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        if (take_name(p, statements[i].name))
            return statements[i].parse(p);
    return fail(p, "a statement that chat templates use");
}

static rx_node *parse_leaf(parser *p)
{
    const bool is_print = p->t->kind == RX_T_BEGIN_PRINT;
    rx_node *n = new_node(p, is_print ? RX_N_PRINT : RX_N_TEXT);
    if (!n)
        return NULL;
    n->text = p->t->text;
    n->length = p->t->length;
    p->t++;
    if (!is_print)
        return n;
    n->a = parse_tuple(p);
    if (p->t->kind != RX_T_END_PRINT)
        return fail(p, "'}}'");
    p->t++;
    return n;
}

/* Statements up to a tag with one of the names, whose name is the next token then; up to the end of
 * the template when `ends` is NULL. */
static rx_node *parse_block(parser *p, const char *const *ends)
{
    rx_node *block = new_node(p, RX_N_BLOCK);
    if (!block || !enter(p))
        return NULL;
    rx_node **tail = &block->first;
    while (p->status == RLX_OK) {
        if (p->t->kind == RX_T_END) {
            if (ends)
                fail(p, ends[1] ? "'else' or the end tag of the block" : ends[0]);
            break;
        }
        if (p->t->kind != RX_T_BEGIN_TAG) {
            append(&tail, parse_leaf(p));
            continue;
        }
        p->t++;
        bool ended = false;
        for (const char *const *e = ends; e && *e; e++)
            ended = ended || is_name(p, *e);
        if (ended)
            break;
        append(&tail, parse_statement(p));
    }
    p->depth--;
    return block;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* A copy with newlines normalised to \n; *n becomes its length. */
static char *copy_source(rx_arena *a, const char *text, size_t *n)
{
    char *out = rx_arena_alloc(a, *n + 1);
    size_t used = 0;
    for (size_t i = 0; out && i < *n; i++) {
        if (text[i] == '\r' && i + 1 < *n && text[i + 1] == '\n')
            continue;
        out[used++] = text[i] == '\r' ? '\n' : text[i];
    }
    *n = used;
    return out;
}

rlx_status rx_template_parse(const char *text, size_t n, rx_chat_template **out, rlx_error *err)
{
    *out = NULL;
    if (n > RX_TEMPLATE_BYTES)
        return rx_fail(err, RLX_PARSE, "chat template: %zu bytes; expected at most %zu", n,
                       RX_TEMPLATE_BYTES);
    rx_chat_template *t = rx_alloc_zero(sizeof *t);
    if (!t)
        return rx_fail_memory(err, "a chat template", sizeof *t);
    const rx_token *tokens = NULL;
    char *source = copy_source(&t->arena, text, &n);
    rlx_status st = source ? rx_template_lex(&t->arena, source, n, &tokens, err)
                           : rx_fail_memory(err, "a chat template", n);
    if (st == RLX_OK) {
        parser p = {.arena = &t->arena, .t = tokens, .err = err};
        t->root = parse_block(&p, NULL);
        st = p.status;
    }
    if (st != RLX_OK) {
        rx_template_free(t);
        return st;
    }
    *out = t;
    return RLX_OK;
}

void rx_template_free(rx_chat_template *t)
{
    if (!t)
        return;
    rx_arena_finish(&t->arena);
    rx_free(t);
}
