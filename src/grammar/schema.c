/* SPDX-License-Identifier: MIT */
/* Compiles JSON Schema to a program: expands nodes from the root, removes those without instances
 * (a fixed point), and emits a rule for each remaining one. */
#include "grammar/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_NODES 50000

/* ---- Nodes ----------------------------------------------------------------------------------- */

static int compare_sids(const void *a, const void *b)
{
    const rx_sid *p = a, *q = b;
    return *p < *q ? -1 : *p > *q;
}

static size_t node_slot(const rx_compiler *c, const rx_sid *s, size_t n)
{
    size_t at = rx_hash_ids(s, n) & (c->cap_node_table - 1);
    for (; c->node_table[at]; at = (at + 1) & (c->cap_node_table - 1)) {
        const rx_node *node = &c->nodes[c->node_table[at] - 1];
        if (node->n == n && (!n || !memcmp(node->sids, s, n * sizeof *s)))
            break;
    }
    return at;
}

static bool grow_node_table(rx_compiler *c)
{
    if ((c->n_nodes + 1) * 2 <= c->cap_node_table)
        return true;
    size_t cap = c->cap_node_table ? c->cap_node_table * 2 : 256;
    uint32_t *t = rx_alloc_array_zero(cap, sizeof *t);
    if (!t)
        return false;
    rx_free(c->node_table);
    c->node_table = t;
    c->cap_node_table = cap;
    for (size_t i = 0; i < c->n_nodes; i++)
        t[node_slot(c, c->nodes[i].sids, c->nodes[i].n)] = (uint32_t)i + 1;
    return true;
}

rlx_status rx_schema_node(rx_compiler *c, rx_sid *sids, size_t n, uint32_t *out)
{
    size_t kept = 0;
    if (n > 1)
        qsort(sids, n, sizeof *sids, compare_sids);
    for (size_t i = 0; i < n; i++)
        if (!kept || sids[kept - 1] != sids[i])
            sids[kept++] = sids[i];
    if (!grow_node_table(c))
        return rx_schema_memory(c);
    size_t at = node_slot(c, sids, kept);
    if (!c->node_table[at]) {
        if (c->n_nodes >= MAX_NODES)
            return rx_fail(c->err, RLX_UNSUPPORTED, "JSON Schema: more than %d combinations of "
                           "schemas", MAX_NODES);
        const rx_sid *copy = rx_arena_array_copy(&c->p->arena, sids, kept, sizeof *sids);
        if ((kept && !copy) ||
            !rx_grow(&c->nodes, &c->cap_nodes, c->n_nodes + 1, sizeof *c->nodes))
            return rx_schema_memory(c);
        c->nodes[c->n_nodes] = (rx_node){.sids = copy, .n = (uint32_t)kept};
        c->node_table[at] = (uint32_t)++c->n_nodes;
    }
    *out = c->node_table[at] - 1;
    return RLX_OK;
}

static rlx_status fill_scalars(rx_compiler *c, uint32_t node)
{
    rx_ex all[RX_N_SCALARS];
    const rx_sid *sids = c->nodes[node].sids;
    for (int t = 0; t < RX_N_SCALARS; t++) {
        all[t] = c->universe[t];
        for (uint32_t i = 0; i < c->nodes[node].n; i++) {
            rx_ex e;
            RLX_TRY(rx_scalar_language(c, sids[i], (rx_scalar)t, &e));
            all[t] = rx_ex_and(c->x, all[t], e);
            if (t != RX_T_NUMBER || c->form == RLX_JSON_READ)
                continue;
            RLX_TRY(rx_pretty_language(c, sids[i], &e));
            all[t] = rx_ex_and(c->x, all[t], e);
        }
        if (rx_ex_is_empty(c->x, all[t]))
            all[t] = RX_EX_NONE;
    }
    /* Unrestricted numbers may have an exponent. */
    const rx_ex number = all[RX_T_NUMBER], plain = c->universe[RX_T_NUMBER];
    if (rx_ex_is_empty(c->x, rx_ex_and(c->x, plain, rx_ex_not(c->x, number))))
        all[RX_T_NUMBER] = rx_number_any(c->x);
    c->nodes[node].plain = rx_ex_or_all(c->x, all, RX_T_STRING);
    c->nodes[node].string = all[RX_T_STRING];
    return rx_exprs_check(c->x, "the JSON Schema", c->err);
}

/* ---- Instances ------------------------------------------------------------------------------- */

static bool node_productive(rx_compiler *c, rx_node *n)
{
    bool any = n->plain != RX_EX_NONE || n->string != RX_EX_NONE;
    for (rx_alternative *a = n->alternatives; a; a = a->next) {
        a->productive = a->productive || rx_alternative_productive(c, a);
        any = any || a->productive;
    }
    return any;
}

static void find_productive(rx_compiler *c)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = c->n_nodes; i-- > 0;) {
            bool was = c->nodes[i].productive;
            c->nodes[i].productive = node_productive(c, &c->nodes[i]);
            changed = changed || was != c->nodes[i].productive;
        }
    }
}

/* ---- Code ------------------------------------------------------------------------------------ */

static void emit_strings(rx_compiler *c, const rx_node *n)
{
    const rx_ex quote = rx_ex_text(c->x, "\"", 1);
    rx_emit(c->p, (rx_ins){.op = RX_INS_TERM, .a = quote});
    rx_emit(c->p, (rx_ins){.op = RX_INS_TERM, .mode = (uint8_t)c->strings, .a = n->string});
    rx_emit(c->p, (rx_ins){.op = RX_INS_TERM, .a = quote});
    rx_emit(c->p, (rx_ins){.op = RX_INS_RETURN});
}

/* Begins an alternative of a rule: `*split` is the place of the last choice, to be closed here. */
static void begin_alternative(rx_compiler *c, uint32_t *split)
{
    if (*split != UINT32_MAX)
        rx_ins_at(c->p, *split)->b = (uint32_t)c->p->n_code;
    *split = rx_emit(c->p, (rx_ins){.op = RX_INS_SPLIT, .a = (uint32_t)c->p->n_code + 1});
}

static rlx_status emit_node(rx_compiler *c, uint32_t node)
{
    const rx_node n = c->nodes[node];
    uint32_t split = UINT32_MAX;
    c->nodes[node].pc = (uint32_t)c->p->n_code;
    if (n.plain != RX_EX_NONE) {
        begin_alternative(c, &split);
        rx_emit(c->p, (rx_ins){.op = RX_INS_TERM, .a = n.plain});
        rx_emit(c->p, (rx_ins){.op = RX_INS_RETURN});
    }
    if (n.string != RX_EX_NONE) {
        begin_alternative(c, &split);
        emit_strings(c, &n);
    }
    for (const rx_alternative *a = n.alternatives; a; a = a->next) {
        if (!a->productive)
            continue;
        begin_alternative(c, &split);
        RLX_TRY(rx_schema_emit(c, a));
    }
    if (split != UINT32_MAX)
        rx_ins_at(c->p, split)->b = (uint32_t)c->p->n_code;
    rx_emit(c->p, (rx_ins){.op = RX_INS_FAIL});
    return rx_exprs_check(c->x, "the JSON Schema", c->err);
}

static rlx_status emit_all(rx_compiler *c, uint32_t root)
{
    rx_program *p = c->p;
    for (uint32_t i = 0; i < c->n_nodes; i++)
        if (c->nodes[i].productive)
            RLX_TRY(emit_node(c, i));
    p->start = (uint32_t)p->n_code;
    const rx_ex around = c->form == RLX_JSON_READ ? c->space : RX_EX_EPS;
    rx_emit(p, (rx_ins){.op = RX_INS_TERM, .a = around});
    rx_emit(p, (rx_ins){.op = RX_INS_CALL, .a = root});
    rx_emit(p, (rx_ins){.op = RX_INS_TERM, .a = around});
    rx_emit(p, (rx_ins){.op = RX_INS_RETURN});
    RLX_TRY(rx_exprs_check(c->x, "the JSON Schema", c->err));
    for (size_t i = 0; i < p->n_code; i++)
        if (p->code[i].op == RX_INS_CALL)
            p->code[i].a = c->nodes[p->code[i].a].pc;
    return RLX_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static rlx_status make_universe(rx_compiler *c)
{
    rx_exprs *x = c->x;
    const char *space = c->form == RLX_JSON_READ ? "[ \\t\\n\\r]*"
                        : c->form == RLX_JSON_WRITE ? "(?: |\\n{1,2}[ \\t]{0,20})?" : "";
    c->universe[RX_T_NULL] = rx_ex_text(x, "null", 4);
    c->universe[RX_T_BOOL] = rx_ex_or(x, rx_ex_text(x, "true", 4), rx_ex_text(x, "false", 5));
    c->universe[RX_T_NUMBER] = rx_number_plain(x);
    c->universe[RX_T_STRING] = RX_EX_ALL;
    return rx_regex_parse(x, "white space", space, strlen(space), true, &c->space, c->err);
}

static rlx_status compile(rx_compiler *c, const rx_json *json)
{
    static const rx_json always = {.kind = RX_JSON_BOOL, .truth = true};
    uint32_t root, yes;
    RLX_TRY(make_universe(c));
    if (json->kind != RX_JSON_OBJECT && json->kind != RX_JSON_BOOL)
        return rx_fail(c->err, RLX_PARSE, "JSON Schema: expected an object or a boolean, found %s",
                       rx_json_kind_name(json));
    RLX_TRY(rx_schema_register(c, json));
    RLX_TRY(rx_schema_id(c, &always, 0, &yes));
    c->yes = yes * 2;
    RLX_TRY(rx_schema_id(c, json, 0, &root));
    rx_sid first = root * 2;
    RLX_TRY(rx_schema_node(c, &first, 1, &root));
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        RLX_TRY(fill_scalars(c, i));
        RLX_TRY(rx_schema_alternatives(c, i));
    }
    RLX_TRY(rx_exprs_check(c->x, "the JSON Schema", c->err));
    find_productive(c);
    if (!c->nodes[root].productive)
        return rx_fail(c->err, RLX_INVALID, "JSON Schema: no instance is valid");
    return emit_all(c, root);
}

rlx_status rx_schema_compile(rx_program *p, const char *text, size_t n, rlx_json_form form,
                             rlx_error *err)
{
    rx_compiler c = {.p = p, .x = &p->x, .form = form, .err = err};
    c.strings = form == RLX_JSON_READ ? RX_TERM_JSON : RX_TERM_WRITTEN;
    const rx_json *json;
    RLX_TRY(rx_json_parse(&p->arena, "JSON Schema", text, n, &json, err));
    rlx_status st = compile(&c, json);
    rx_free(c.schemas);
    rx_free(c.schema_table);
    rx_free(c.resources);
    rx_free(c.anchors);
    rx_free(c.nodes);
    rx_free(c.node_table);
    return st;
}
