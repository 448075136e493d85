/* SPDX-License-Identifier: MIT */
/* What a schema says of null, booleans, numbers and strings, as one term for each of these types:
 * all keywords are boolean algebra over regular languages there. Numbers that any keyword restricts
 * are written without an exponent. */
#include <string.h>

#include "grammar/schema.h"

#define MAX_REFS 100

static rlx_status language(rx_compiler *c, uint32_t schema, rx_scalar t, rx_ex *out);

static rx_ex complement(rx_compiler *c, rx_scalar t, rx_ex e)
{
    if (c->pretty)
        return c->universe[t];
    return rx_ex_and(c->x, c->universe[t], rx_ex_not(c->x, e));
}

static rlx_status sub_language(rx_compiler *c, uint32_t schema, const rx_json *json, rx_scalar t,
                               rx_ex *out)
{
    uint32_t id;
    RLX_TRY(rx_schema_id(c, json, c->schemas[schema].resource, &id));
    return language(c, id, t, out);
}

/* ---- Types and values ------------------------------------------------------------------------ */

static const char *const scalar_names[] = {"null", "boolean", "number", "string"};

static bool known_type(const char *name)
{
    static const char *const others[] = {"integer", "object", "array"};
    for (size_t i = 0; i < RX_N_SCALARS; i++)
        if (!strcmp(name, scalar_names[i]))
            return true;
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(name, others[i]))
            return true;
    return false;
}

rlx_status rx_type_includes(rx_compiler *c, const rx_json *type, const char *name, bool *out)
{
    *out = false;
    const rx_json *i = type->kind == RX_JSON_ARRAY ? type->first : type;
    for (; i; i = type->kind == RX_JSON_ARRAY ? i->next : NULL) {
        if (i->kind != RX_JSON_STRING || !known_type(i->text))
            return rx_schema_wrong(c, "type", "the name of a type, or a list of them");
        *out = *out || !strcmp(i->text, name);
    }
    return RLX_OK;
}

static rlx_status type_language(rx_compiler *c, const rx_json *type, rx_scalar t, rx_ex *out)
{
    bool is, integer = false;
    RLX_TRY(rx_type_includes(c, type, scalar_names[t], &is));
    if (t == RX_T_NUMBER)
        RLX_TRY(rx_type_includes(c, type, "integer", &integer));
    *out = is ? c->universe[t] : integer ? rx_number_integer(c->x, !c->pretty) : RX_EX_NONE;
    return RLX_OK;
}

/* The texts of one value, as far as it is of the type. */
static rlx_status value_language(rx_compiler *c, const rx_json *v, rx_scalar t, rx_ex *out)
{
    *out = RX_EX_NONE;
    if (t == RX_T_NULL && v->kind == RX_JSON_NULL)
        *out = c->universe[t];
    if (t == RX_T_BOOL && v->kind == RX_JSON_BOOL)
        *out = v->truth ? rx_ex_text(c->x, "true", 4) : rx_ex_text(c->x, "false", 5);
    if (t == RX_T_NUMBER && v->kind == RX_JSON_NUMBER)
        return rx_number_equal(c->x, v->text, !c->pretty, out, c->err);
    if (t == RX_T_STRING && v->kind == RX_JSON_STRING)
        *out = rx_ex_text(c->x, v->text, v->length);
    return RLX_OK;
}

/* The strings of a list, which may be thousands. */
static rlx_status enum_strings(rx_compiler *c, const rx_json *list, rx_ex *out)
{
    rx_ex_span *each = rx_alloc_array(list->n + 1, sizeof *each);
    size_t n = 0;
    if (!each)
        return rx_schema_memory(c);
    for (const rx_json *v = list->first; v; v = v->next)
        if (v->kind == RX_JSON_STRING)
            each[n++] = (rx_ex_span){v->text, v->length};
    *out = rx_ex_texts(c->x, each, n);
    rx_free(each);
    return RLX_OK;
}

static rlx_status enum_language(rx_compiler *c, const rx_json *list, rx_scalar t, rx_ex *out)
{
    if (t == RX_T_STRING)
        return enum_strings(c, list, out);
    rx_ex *each = rx_alloc_array(list->n + 1, sizeof *each);
    size_t n = 0;
    rlx_status st = each ? RLX_OK : rx_schema_memory(c);
    for (const rx_json *v = list->first; v && st == RLX_OK; v = v->next)
        st = value_language(c, v, t, &each[n++]);
    *out = st == RLX_OK ? rx_ex_or_all(c->x, each, n) : RX_EX_NONE;
    rx_free(each);
    return st;
}

/* ---- Numbers and strings --------------------------------------------------------------------- */

static rlx_status number_keyword(rx_compiler *c, rx_keyword k, const rx_json *v, rx_ex *out)
{
    if (v->kind != RX_JSON_NUMBER)
        return rx_schema_wrong(c, v->key, "a number");
    if (k == RX_KW_MULTIPLE_OF) {
        rx_ex e;
        RLX_TRY(rx_number_multiple(c->x, v->text, &e, c->err));
        *out = rx_ex_and(c->x, c->universe[RX_T_NUMBER], e);
        return RLX_OK;
    }
    const rx_bound bound = {.text = v->text, .least = k == RX_KW_MINIMUM || k == RX_KW_ABOVE,
                            .strict = k == RX_KW_ABOVE || k == RX_KW_BELOW,
                            .minus_zero = !c->pretty};
    return rx_number_bound(c->x, bound, out, c->err);
}

static rlx_status string_keyword(rx_compiler *c, rx_keyword k, const rx_json *v, rx_ex *out)
{
    uint32_t n;
    bool known = false;
    if (k == RX_KW_MIN_LENGTH || k == RX_KW_MAX_LENGTH) {
        RLX_TRY(rx_schema_count(c, v->key, v, &n));
        bool least = k == RX_KW_MIN_LENGTH;
        *out = rx_ex_repeat(c->x, RX_EX_ANY, least ? n : 0, least ? RX_INF : n);
        return RLX_OK;
    }
    if (v->kind != RX_JSON_STRING)
        return rx_schema_wrong(c, v->key, "a string");
    if (k == RX_KW_PATTERN)
        return rx_regex_parse(c->x, "JSON Schema: \"pattern\"", v->text, v->length, false, out,
                              c->err);
    if (c->form != RLX_JSON_READ)
        RLX_TRY(rx_format_parse(c->x, v->text, &known, out, c->err));
    if (!known)
        *out = RX_EX_ALL;
    return RLX_OK;
}

/* ---- Boolean keywords ------------------------------------------------------------------------ */

/* What holds for exactly one: of those so far none, or one. */
static rlx_status one_of(rx_compiler *c, uint32_t schema, const rx_json *list, rx_scalar t,
                         rx_ex *out)
{
    rx_ex none = c->universe[t], one = RX_EX_NONE;
    for (const rx_json *i = list->first; i; i = i->next) {
        rx_ex e;
        RLX_TRY(sub_language(c, schema, i, t, &e));
        rx_ex without = c->pretty ? c->universe[t] : rx_ex_not(c->x, e);
        one = rx_ex_or(c->x, rx_ex_and(c->x, one, without), rx_ex_and(c->x, none, e));
        none = rx_ex_and(c->x, none, without);
    }
    *out = one;
    return RLX_OK;
}

static rlx_status some_of(rx_compiler *c, uint32_t schema, const rx_json *list, bool all,
                          rx_scalar t, rx_ex *out)
{
    *out = all ? c->universe[t] : RX_EX_NONE;
    for (const rx_json *i = list->first; i; i = i->next) {
        rx_ex e;
        RLX_TRY(sub_language(c, schema, i, t, &e));
        *out = all ? rx_ex_and(c->x, *out, e) : rx_ex_or(c->x, *out, e);
    }
    return RLX_OK;
}

static rlx_status if_language(rx_compiler *c, uint32_t schema, const rx_json *member, rx_scalar t,
                              rx_ex *out)
{
    const rx_json *json = c->schemas[schema].json;
    const rx_json *then = rx_json_member(json, "then"), *other = rx_json_member(json, "else");
    rx_ex holds, yes = c->universe[t], no = c->universe[t];
    RLX_TRY(sub_language(c, schema, member, t, &holds));
    if (then)
        RLX_TRY(sub_language(c, schema, then, t, &yes));
    if (other)
        RLX_TRY(sub_language(c, schema, other, t, &no));
    *out = rx_ex_or(c->x, rx_ex_and(c->x, holds, yes),
                    rx_ex_and(c->x, complement(c, t, holds), no));
    return RLX_OK;
}

/* The texts that one keyword allows. */
static rlx_status keyword_language(rx_compiler *c, uint32_t schema, rx_keyword k, const rx_json *v,
                                   rx_scalar t, rx_ex *out)
{
    uint32_t target;
    const bool numbers = k >= RX_KW_MINIMUM && k <= RX_KW_MULTIPLE_OF;
    const bool strings = k >= RX_KW_MIN_LENGTH && k <= RX_KW_FORMAT;
    *out = c->universe[t];
    if (numbers || strings) {
        if (t != (numbers ? RX_T_NUMBER : RX_T_STRING))
            return RLX_OK;
        return numbers ? number_keyword(c, k, v, out) : string_keyword(c, k, v, out);
    }
    switch (k) {
    case RX_KW_TYPE:
        return type_language(c, v, t, out);
    case RX_KW_ENUM:
        if (v->kind != RX_JSON_ARRAY)
            return rx_schema_wrong(c, "enum", "an array");
        return enum_language(c, v, t, out);
    case RX_KW_CONST:
        return value_language(c, v, t, out);
    case RX_KW_ALL_OF:
    case RX_KW_ANY_OF:
        return some_of(c, schema, v, k == RX_KW_ALL_OF, t, out);
    case RX_KW_ONE_OF:
        return one_of(c, schema, v, t, out);
    case RX_KW_NOT:
        RLX_TRY(sub_language(c, schema, v, t, out));
        *out = complement(c, t, *out);
        return RLX_OK;
    case RX_KW_IF:
        return if_language(c, schema, v, t, out);
    case RX_KW_REF:
        RLX_TRY(rx_schema_resolve(c, schema, v, &target));
        return language(c, target, t, out);
    default:
        return RLX_OK;
    }
}

static rlx_status compute(rx_compiler *c, uint32_t schema, rx_scalar t, rx_ex *out)
{
    const rx_json *s = c->schemas[schema].json;
    *out = c->universe[t];
    if (s->kind == RX_JSON_BOOL) {
        *out = s->truth ? *out : RX_EX_NONE;
        return RLX_OK;
    }
    for (const rx_json *m = s->first; m; m = m->next) {
        rx_keyword k = rx_keyword_find(c, m);
        rx_ex e;
        if (rx_schema_only_ref(c, s, m))
            continue;
        if (rx_keywords[k].applies & RX_REFUSED)
            return rx_schema_refuse(c, m->key, "cannot be decided when the grammar is made");
        if (!(rx_keywords[k].applies & RX_FOR_SCALARS))
            continue;
        RLX_TRY(keyword_language(c, schema, k, m, t, &e));
        *out = rx_ex_and(c->x, *out, e);
    }
    return RLX_OK;
}

static rlx_status language(rx_compiler *c, uint32_t schema, rx_scalar t, rx_ex *out)
{
    const bool pretty = c->pretty;
    if (c->schemas[schema].known[pretty] >> t & 1) {
        *out = c->schemas[schema].scalar[pretty][t];
        return RLX_OK;
    }
    if (c->schemas[schema].visiting >> t & 1)
        return rx_schema_refuse(c, "$ref", "leads back to itself without a member or an item "
                                "between");
    if (++c->depth > MAX_REFS)
        return rx_schema_refuse(c, "$ref", "is nested too deep");
    c->schemas[schema].visiting |= (uint8_t)(1u << t);
    RLX_TRY(compute(c, schema, t, out));
    RLX_TRY(rx_exprs_check(c->x, "the JSON Schema", c->err));
    rx_schema *s = &c->schemas[schema];
    c->depth--;
    s->visiting &= (uint8_t)~(1u << t);
    s->known[pretty] |= (uint8_t)(1u << t);
    s->scalar[pretty][t] = *out;
    return RLX_OK;
}

rlx_status rx_scalar_language(rx_compiler *c, rx_sid sid, rx_scalar t, rx_ex *out)
{
    c->depth = 0;
    RLX_TRY(language(c, sid / 2, t, out));
    if (sid & 1)
        *out = complement(c, t, *out);
    return RLX_OK;
}

rlx_status rx_pretty_language(rx_compiler *c, rx_sid sid, rx_ex *out)
{
    c->pretty = true;
    rlx_status st = rx_scalar_language(c, sid, RX_T_NUMBER, out);
    c->pretty = false;
    return st;
}
