/* SPDX-License-Identifier: MIT */
/* GBNF, the grammars of llama.cpp: `name ::= alternatives` with "texts", [classes], ., ( ), * + ?
 * {n,m} and names of rules. Rules that are not recursive are regular and become one terminal each.
 * Recursive ones become subroutines; left recursion is rejected, as in llama.cpp. */
#include <string.h>

#include "base/map.h"
#include "grammar/front.h"
#include "model/unicode.h"

#define MAX_NESTING 200
#define MAX_COUNT 2000

/* Parsed: a tree. */
typedef enum node_kind { N_TERM, N_RULE, N_CAT, N_OR, N_REPEAT } node_kind;

typedef struct node node;
struct node {
    node_kind kind;
    rx_ex term;           /* of N_TERM */
    uint32_t rule;        /* of N_RULE */
    uint32_t lo, hi;      /* of N_REPEAT */
    node *first, *next;   /* parts, and the next part of the whole */
};

typedef struct rule {
    const char *name;
    size_t length;
    node *body;           /* NULL: not defined yet */
    bool recursive, nullable, productive, is_term;
    rx_ex term;
    uint32_t pc;
    uint8_t mark;         /* of a depth-first search: 1 active, 2 done */
} rule;

typedef struct parser {
    rx_program *p;
    const char *s;
    size_t at, n, line;
    unsigned nesting;
    rule *rules;
    size_t n_rules, cap_rules;
    rx_ex_list terms;     /* of the texts, sequences and alternatives that are being read */
    rx_map names;
    rlx_error *err;
} parser;

static rlx_status wrong(parser *p, const char *expected)
{
    return rx_fail(p->err, RLX_PARSE, "grammar, line %zu: expected %s, found '%.*s'", p->line,
                   expected, (int)(p->n - p->at < 20 ? p->n - p->at : 20), p->s + p->at);
}

static int peek(const parser *p, size_t ahead)
{
    return p->at + ahead < p->n ? (unsigned char)p->s[p->at + ahead] : -1;
}

/* White space and comments; newlines only where they end nothing. */
static void skip(parser *p, bool newlines)
{
    for (;;) {
        int c = peek(p, 0);
        if (c == '#')
            while (peek(p, 0) >= 0 && peek(p, 0) != '\n' && peek(p, 0) != '\r')
                p->at++;
        else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
            p->line += c == '\n';
            p->at++;
        } else
            return;
    }
}

static node *make(parser *p, node_kind kind)
{
    node *n = rx_arena_zero(&p->p->arena, sizeof *n);
    if (n)
        n->kind = kind;
    else
        p->p->x.failed = RLX_NO_MEMORY;
    return n;
}

static rlx_status no_memory(parser *p)
{
    return rx_fail_memory(p->err, "a grammar", sizeof(node));
}

static bool is_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

static rlx_status parse_name(parser *p, uint32_t *out)
{
    size_t from = p->at;
    while (is_name(peek(p, 0)))
        p->at++;
    if (p->at == from)
        return wrong(p, "a name");
    const rx_map_slot *known = rx_map_find(&p->names, p->s + from, p->at - from);
    if (known) {
        *out = known->value;
        return RLX_OK;
    }
    if (!rx_grow(&p->rules, &p->cap_rules, p->n_rules + 1, sizeof *p->rules) ||
        !rx_map_add(&p->names, p->s + from, p->at - from, (uint32_t)p->n_rules))
        return no_memory(p);
    p->rules[p->n_rules] = (rule){.name = p->s + from, .length = p->at - from};
    *out = (uint32_t)p->n_rules++;
    return RLX_OK;
}

/* ---- Characters ------------------------------------------------------------------------------ */

static bool take_hex(parser *p, size_t digits, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < digits; i++) {
        int c = peek(p, i), lower = c | 0x20;
        if (!((c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f')))
            return false;
        v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : lower - 'a' + 10);
    }
    p->at += digits;
    *out = v;
    return v <= RX_CP_MAX;
}

/* A character, or an escape that stands for one. */
static rlx_status parse_char(parser *p, uint32_t *cp)
{
    static const char from[] = "tnr\"[]\\", to[] = "\t\n\r\"[]\\";
    if (p->at >= p->n)
        return wrong(p, "a character");
    if (p->s[p->at] != '\\') {
        p->at += rx_utf8_get(p->s + p->at, p->n - p->at, cp);
        return RLX_OK;
    }
    int c = peek(p, 1);
    const char *known = c > 0 ? strchr(from, c) : NULL;
    p->at += 2;
    if (known) {
        *cp = (unsigned char)to[known - from];
        return RLX_OK;
    }
    if ((c == 'x' && take_hex(p, 2, cp)) || (c == 'u' && take_hex(p, 4, cp)) ||
        (c == 'U' && take_hex(p, 8, cp)))
        return RLX_OK;
    p->at -= p->at > p->n ? 1 : 0;
    return wrong(p, "a known escape (\\x, \\u, \\U, \\t, \\n, \\r, \\\", \\[, \\], \\\\)");
}

static rlx_status parse_text(parser *p, rx_ex *out)
{
    const size_t from = p->terms.n;
    for (p->at++; peek(p, 0) != '"';) {
        uint32_t cp;
        if (peek(p, 0) < 0)
            return wrong(p, "'\"' at the end of a text");
        RLX_TRY(parse_char(p, &cp));
        if (!rx_ex_push(&p->terms, rx_ex_range(&p->p->x, cp, cp)))
            return no_memory(p);
    }
    p->at++;
    *out = rx_ex_pop_cat(&p->p->x, &p->terms, from);
    return RLX_OK;
}

static rlx_status parse_class_items(parser *p, rx_ranges *set)
{
    while (peek(p, 0) != ']') {
        uint32_t lo, hi;
        if (peek(p, 0) < 0)
            return wrong(p, "']' at the end of a class");
        RLX_TRY(parse_char(p, &lo));
        hi = lo;
        if (peek(p, 0) == '-' && peek(p, 1) != ']') {
            p->at++;
            RLX_TRY(parse_char(p, &hi));
        }
        if (!rx_ranges_add(set, lo < hi ? lo : hi, lo < hi ? hi : lo))
            return no_memory(p);
    }
    p->at++;
    return RLX_OK;
}

static rlx_status parse_class(parser *p, rx_ex *out)
{
    rx_ranges set = {0};
    p->at++;
    bool negative = peek(p, 0) == '^';
    p->at += negative;
    rlx_status st = parse_class_items(p, &set);
    if (st == RLX_OK && negative && !rx_ranges_invert(&set))
        st = no_memory(p);
    *out = st == RLX_OK ? rx_ex_set(&p->p->x, &set) : RX_EX_NONE;
    rx_free(set.r);
    return st;
}

/* ---- Alternatives ---------------------------------------------------------------------------- */

static rlx_status parse_either(parser *p, bool newlines, node **out);

static rlx_status parse_atom(parser *p, node **out)
{
    int c = peek(p, 0);
    if (c == '(') {
        p->at++;
        if (++p->nesting > MAX_NESTING)
            return rx_fail(p->err, RLX_UNSUPPORTED, "grammar, line %zu: more than %d nested groups",
                           p->line, MAX_NESTING);
        skip(p, true);
        RLX_TRY(parse_either(p, true, out));
        p->nesting--;
        if (peek(p, 0) != ')')
            return wrong(p, "')'");
        p->at++;
        return RLX_OK;
    }
    if (c == '<' || c == '!')
        return rx_fail(p->err, RLX_UNSUPPORTED, "grammar, line %zu: tokens (<...>) are not "
                       "supported; write the text", p->line);
    node *n = make(p, is_name(c) ? N_RULE : N_TERM);
    if (!n)
        return no_memory(p);
    *out = n;
    if (c == '"')
        return parse_text(p, &n->term);
    if (c == '[')
        return parse_class(p, &n->term);
    if (c == '.') {
        p->at++;
        n->term = RX_EX_ANY;
        return RLX_OK;
    }
    return parse_name(p, &n->rule);
}

static rlx_status parse_count(parser *p, uint32_t *out)
{
    uint32_t v = 0;
    size_t from = p->at;
    for (; peek(p, 0) >= '0' && peek(p, 0) <= '9'; p->at++)
        v = v > MAX_COUNT ? v : v * 10 + (uint32_t)(peek(p, 0) - '0');
    if (p->at == from)
        return wrong(p, "a number");
    if (v > MAX_COUNT)
        return rx_fail(p->err, RLX_UNSUPPORTED, "grammar, line %zu: a count above %d", p->line,
                       MAX_COUNT);
    *out = v;
    return RLX_OK;
}

static rlx_status parse_braces(parser *p, uint32_t *lo, uint32_t *hi)
{
    p->at++;
    skip(p, false);
    *lo = 0;
    if (peek(p, 0) != ',')
        RLX_TRY(parse_count(p, lo));
    *hi = *lo;
    skip(p, false);
    if (peek(p, 0) == ',') {
        p->at++;
        skip(p, false);
        *hi = RX_INF;
        if (peek(p, 0) != '}')
            RLX_TRY(parse_count(p, hi));
        skip(p, false);
    }
    if (peek(p, 0) != '}' || *lo > *hi)
        return wrong(p, "counts in order and '}'");
    p->at++;
    return RLX_OK;
}

static rlx_status parse_repeats(parser *p, bool newlines, node **out)
{
    RLX_TRY(parse_atom(p, out));
    for (;;) {
        uint32_t lo = 0, hi = RX_INF;
        skip(p, newlines);
        int c = peek(p, 0);
        if (c == '{')
            RLX_TRY(parse_braces(p, &lo, &hi));
        else if (c == '*' || c == '+' || c == '?') {
            p->at++;
            lo = c == '+';
            hi = c == '?' ? 1 : RX_INF;
        } else
            return RLX_OK;
        node *n = make(p, N_REPEAT);
        if (!n)
            return no_memory(p);
        n->lo = lo;
        n->hi = hi;
        n->first = *out;
        *out = n;
    }
}

static bool begins_atom(int c)
{
    return c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || c == '!' || is_name(c);
}

/* A name that is followed by ::= begins the next rule. */
static bool at_rule(parser *p)
{
    const size_t at = p->at, line = p->line;
    while (is_name(peek(p, 0)))
        p->at++;
    bool name = p->at > at;
    skip(p, false);
    bool found = name && p->n - p->at >= 3 && !memcmp(p->s + p->at, "::=", 3);
    p->at = at;
    p->line = line;
    return found;
}

static rlx_status parse_sequence(parser *p, bool newlines, node **out)
{
    node *cat = make(p, N_CAT), **last;
    if (!cat)
        return no_memory(p);
    last = &cat->first;
    skip(p, newlines);
    while (begins_atom(peek(p, 0)) && !at_rule(p)) {
        RLX_TRY(parse_repeats(p, newlines, last));
        last = &(*last)->next;
        skip(p, newlines);
    }
    *out = cat;
    return RLX_OK;
}

static rlx_status parse_either(parser *p, bool newlines, node **out)
{
    node *either = make(p, N_OR), **last;
    if (!either)
        return no_memory(p);
    last = &either->first;
    for (;;) {
        RLX_TRY(parse_sequence(p, newlines, last));
        last = &(*last)->next;
        skip(p, newlines);
        /* an alternative may begin on the next line */
        const size_t at = p->at, line = p->line;
        skip(p, true);
        if (peek(p, 0) != '|') {
            p->at = newlines ? p->at : at;
            p->line = newlines ? p->line : line;
            break;
        }
        p->at++;
        skip(p, true);
    }
    *out = either;
    return RLX_OK;
}

static rlx_status parse_rules(parser *p)
{
    for (skip(p, true); p->at < p->n; skip(p, true)) {
        uint32_t r;
        RLX_TRY(parse_name(p, &r));
        skip(p, false);
        if (p->n - p->at < 3 || memcmp(p->s + p->at, "::=", 3))
            return wrong(p, "'::='");
        p->at += 3;
        skip(p, true);
        node *body = NULL;
        RLX_TRY(parse_either(p, false, &body));
        p->rules[r].body = body; /* the last definition counts */
        skip(p, false);
        if (p->at < p->n && peek(p, 0) != '\n' && peek(p, 0) != '\r')
            return wrong(p, "the end of the rule");
    }
    for (size_t i = 0; i < p->n_rules; i++)
        if (!p->rules[i].body)
            return rx_fail(p->err, RLX_PARSE, "grammar: rule '%.*s' is used and not defined",
                           (int)(p->rules[i].length < 60 ? p->rules[i].length : 60),
                           p->rules[i].name);
    return RLX_OK;
}

/* ---- Recursion ------------------------------------------------------------------------------- */

static bool node_nullable(const parser *p, const node *n)
{
    switch (n->kind) {
    case N_TERM:
        return rx_ex_nullable(&p->p->x, n->term);
    case N_RULE:
        return p->rules[n->rule].nullable;
    case N_REPEAT:
        return n->lo == 0 || node_nullable(p, n->first);
    case N_CAT:
        for (const node *i = n->first; i; i = i->next)
            if (!node_nullable(p, i))
                return false;
        return true;
    case N_OR:
        for (const node *i = n->first; i; i = i->next)
            if (node_nullable(p, i))
                return true;
        return false;
    }
    return false;
}

static void find_nullable(parser *p)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < p->n_rules; i++)
            if (!p->rules[i].nullable && node_nullable(p, p->rules[i].body))
                changed = p->rules[i].nullable = true;
    }
}

/* Whether some text is in the language of a tree. */
static bool node_productive(const parser *p, const node *n)
{
    switch (n->kind) {
    case N_TERM:
        return n->term != RX_EX_NONE;
    case N_RULE:
        return p->rules[n->rule].productive;
    case N_REPEAT:
        return n->lo == 0 || node_productive(p, n->first);
    case N_CAT:
        for (const node *i = n->first; i; i = i->next)
            if (!node_productive(p, i))
                return false;
        return true;
    case N_OR:
        for (const node *i = n->first; i; i = i->next)
            if (node_productive(p, i))
                return true;
        return false;
    }
    return false;
}

static void find_productive(parser *p)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < p->n_rules; i++)
            if (!p->rules[i].productive && node_productive(p, p->rules[i].body))
                changed = p->rules[i].productive = true;
    }
}

/* Depth-first search over rules referenced by `n`; with `left` only those that it can begin with.
 * True when there is a cycle. */
static bool meets_itself(parser *p, const node *n, bool left, uint32_t *which);

static bool rule_meets_itself(parser *p, uint32_t r, bool left, uint32_t *which)
{
    rule *u = &p->rules[r];
    if (u->mark) {
        *which = r;
        return u->mark == 1;
    }
    u->mark = 1;
    bool found = meets_itself(p, u->body, left, which);
    p->rules[r].mark = 2;
    return found;
}

static bool meets_itself(parser *p, const node *n, bool left, uint32_t *which)
{
    if (n->kind == N_TERM)
        return false;
    if (n->kind == N_RULE)
        return rule_meets_itself(p, n->rule, left, which);
    for (const node *i = n->first; i; i = i->next) {
        if (meets_itself(p, i, left, which))
            return true;
        if (left && n->kind == N_CAT && !node_nullable(p, i))
            return false;
    }
    return false;
}

static void clear_marks(parser *p)
{
    for (size_t i = 0; i < p->n_rules; i++)
        p->rules[i].mark = 0;
}

#define MAX_RULES 4096

static rlx_status check_recursion(parser *p)
{
    uint32_t which = 0;
    if (p->n_rules > MAX_RULES)
        return rx_fail(p->err, RLX_UNSUPPORTED, "grammar: %zu rules; at most %d", p->n_rules,
                       MAX_RULES);
    find_nullable(p);
    for (uint32_t i = 0; i < p->n_rules; i++) {
        clear_marks(p);
        if (rule_meets_itself(p, i, true, &which))
            return rx_fail(p->err, RLX_UNSUPPORTED, "grammar: rule '%.*s' is left recursive",
                           (int)(p->rules[which].length < 60 ? p->rules[which].length : 60),
                           p->rules[which].name);
        clear_marks(p);
        p->rules[i].recursive = rule_meets_itself(p, i, false, &which);
    }
    return RLX_OK;
}

/* ---- Code ------------------------------------------------------------------------------------ */

static bool rule_is_term(const parser *p, uint32_t r)
{
    return !p->rules[r].recursive;
}

static rx_ex node_term(parser *p, const node *n);

static rx_ex rule_term(parser *p, uint32_t r)
{
    if (!p->rules[r].is_term) {
        rx_ex e = node_term(p, p->rules[r].body);
        p->rules[r].term = e;
        p->rules[r].is_term = true;
    }
    return p->rules[r].term;
}

/* The terms of a sequence or an alternative. */
static void push_terms(parser *p, const node *n)
{
    for (const node *i = n->first; i; i = i->next)
        if (!rx_ex_push(&p->terms, node_term(p, i)))
            p->p->x.failed = RLX_NO_MEMORY;
}

/* A tree without recursion as one term. */
static rx_ex node_term(parser *p, const node *n)
{
    rx_exprs *x = &p->p->x;
    const size_t from = p->terms.n;
    switch (n->kind) {
    case N_TERM:
        return n->term;
    case N_RULE:
        return rule_term(p, n->rule);
    case N_REPEAT:
        return rx_ex_repeat(x, node_term(p, n->first), n->lo, n->hi);
    case N_CAT:
        push_terms(p, n);
        return rx_ex_pop_cat(x, &p->terms, from);
    case N_OR:
        push_terms(p, n);
        return rx_ex_pop_or(x, &p->terms, from);
    }
    return RX_EX_NONE;
}

static bool node_is_term(const parser *p, const node *n)
{
    if (n->kind == N_TERM || n->kind == N_RULE)
        return n->kind == N_TERM || rule_is_term(p, n->rule);
    for (const node *i = n->first; i; i = i->next)
        if (!node_is_term(p, i))
            return false;
    return true;
}

static void emit_node(parser *p, const node *n);

static void emit_either(parser *p, const node *n)
{
    rx_program *g = p->p;
    uint32_t ends = UINT32_MAX; /* chain of jumps to the end, through their targets */
    for (const node *i = n->first; i; i = i->next) {
        uint32_t split = i->next ? rx_emit(g, (rx_ins){.op = RX_INS_SPLIT}) : 0;
        if (i->next)
            rx_ins_at(g, split)->a = (uint32_t)g->n_code;
        emit_node(p, i);
        if (!i->next)
            break;
        ends = rx_emit(g, (rx_ins){.op = RX_INS_JUMP, .a = ends});
        rx_ins_at(g, split)->b = (uint32_t)g->n_code;
    }
    while (ends != UINT32_MAX && g->x.failed == RLX_OK) {
        uint32_t before = g->code[ends].a;
        g->code[ends].a = (uint32_t)g->n_code;
        ends = before;
    }
}

static void emit_repeat(parser *p, const node *n)
{
    rx_program *g = p->p;
    for (uint32_t i = 0; i < n->lo && g->x.failed == RLX_OK; i++)
        emit_node(p, n->first);
    if (n->hi == RX_INF) {
        uint32_t split = rx_emit(g, (rx_ins){.op = RX_INS_SPLIT});
        rx_ins_at(g, split)->a = split + 1;
        emit_node(p, n->first);
        rx_emit(g, (rx_ins){.op = RX_INS_JUMP, .a = split});
        rx_ins_at(g, split)->b = (uint32_t)g->n_code;
        return;
    }
    uint32_t ends = UINT32_MAX;
    for (uint32_t i = n->lo; i < n->hi && g->x.failed == RLX_OK; i++) {
        ends = rx_emit(g, (rx_ins){.op = RX_INS_SPLIT, .a = (uint32_t)g->n_code + 1, .b = ends});
        emit_node(p, n->first);
    }
    while (ends != UINT32_MAX && g->x.failed == RLX_OK) {
        uint32_t before = g->code[ends].b;
        g->code[ends].b = (uint32_t)g->n_code;
        ends = before;
    }
}

#define MAX_CODE 1000000

static void emit_node(parser *p, const node *n)
{
    rx_program *g = p->p;
    if (g->n_code > MAX_CODE)
        g->x.failed = RLX_UNSUPPORTED;
    if (g->x.failed != RLX_OK)
        return;
    if (!node_productive(p, n)) {
        rx_emit(g, (rx_ins){.op = RX_INS_FAIL});
        return;
    }
    if (node_is_term(p, n)) {
        rx_emit(g, (rx_ins){.op = RX_INS_TERM, .a = node_term(p, n)});
        return;
    }
    switch (n->kind) {
    case N_RULE: /* the place of the rule is put in at the end */
        rx_emit(g, (rx_ins){.op = RX_INS_CALL, .a = n->rule});
        return;
    case N_REPEAT:
        emit_repeat(p, n);
        return;
    case N_OR:
        emit_either(p, n);
        return;
    case N_CAT:
        for (const node *i = n->first; i; i = i->next)
            emit_node(p, i);
        return;
    case N_TERM:
        return;
    }
}

static rlx_status emit_rules(parser *p, uint32_t root)
{
    rx_program *g = p->p;
    for (size_t i = 0; i < p->n_rules; i++) {
        if (!p->rules[i].recursive && i != root)
            continue;
        p->rules[i].pc = (uint32_t)g->n_code;
        emit_node(p, p->rules[i].body);
        rx_emit(g, (rx_ins){.op = RX_INS_RETURN});
        RLX_TRY(rx_exprs_check(&g->x, "the grammar", p->err));
    }
    for (size_t i = 0; i < g->n_code; i++)
        if (g->code[i].op == RX_INS_CALL)
            g->code[i].a = p->rules[g->code[i].a].pc;
    g->start = p->rules[root].pc;
    return RLX_OK;
}

static rlx_status compile(parser *p)
{
    RLX_TRY(parse_rules(p));
    RLX_TRY(rx_exprs_check(&p->p->x, "the grammar", p->err));
    const rx_map_slot *root = rx_map_find(&p->names, "root", 4);
    if (!root)
        return rx_fail(p->err, RLX_PARSE, "grammar: expected a rule 'root', found none");
    RLX_TRY(check_recursion(p));
    find_productive(p);
    if (!p->rules[root->value].productive)
        return rx_fail(p->err, RLX_INVALID, "grammar: no text comes to an end");
    return emit_rules(p, root->value);
}

rlx_status rx_gbnf_compile(rx_program *program, const char *text, size_t n, rlx_error *err)
{
    parser p = {.p = program, .s = text, .n = n, .line = 1, .err = err};
    if (!rx_utf8_valid((const unsigned char *)text, n))
        return rx_fail(err, RLX_PARSE, "grammar: expected UTF-8");
    rlx_status st = compile(&p);
    rx_free(p.rules);
    rx_free(p.terms.e);
    rx_map_finish(&p.names);
    return st;
}
