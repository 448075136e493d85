/* SPDX-License-Identifier: MIT */
/* Schemas that no instance satisfies together, as their types show, or the values of a member that
 * both require: the branches of a union with a discriminator. What is not seen here is decided by
 * negating one of them. */
#include <string.h>

#include "grammar/schema.h"

rlx_status rx_schema_outline(rx_compiler *c, uint32_t schema, rx_outline *out)
{
    out->n = 0;
    for (size_t i = 0; i < RX_MAX_OUTLINE; i++) {
        const rx_json *json = c->schemas[schema].json;
        const rx_json *ref = json->kind == RX_JSON_OBJECT ? rx_json_member(json, "$ref") : NULL;
        if (json->kind == RX_JSON_OBJECT && !(ref && c->draft == RX_DRAFT_7))
            out->s[out->n++] = json;
        if (!ref)
            break;
        RLX_TRY(rx_schema_resolve(c, schema, ref, &schema));
    }
    return RLX_OK;
}

static bool names_type(const rx_json *type, const char *name)
{
    const rx_json *i = type->kind == RX_JSON_ARRAY ? type->first : type;
    for (; i; i = type->kind == RX_JSON_ARRAY ? i->next : NULL)
        if (i->kind == RX_JSON_STRING && !strcmp(i->text, name))
            return true;
    return false;
}

static bool excludes(const rx_outline *o, const char *type_name)
{
    for (size_t i = 0; i < o->n; i++) {
        const rx_json *type = rx_json_member(o->s[i], "type");
        if (type && !names_type(type, type_name))
            return true;
    }
    return false;
}

/* Digits only: such numbers are equal where their texts are. */
static bool is_natural(const rx_json *v)
{
    return v->text[strspn(v->text, "0123456789")] == 0;
}

static bool differ(const rx_json *a, const rx_json *b)
{
    if (a->kind != b->kind)
        return true;
    switch (a->kind) {
    case RX_JSON_STRING: return a->length != b->length || memcmp(a->text, b->text, a->length) != 0;
    case RX_JSON_BOOL: return a->truth != b->truth;
    case RX_JSON_NUMBER: return is_natural(a) && is_natural(b) && strcmp(a->text, b->text) != 0;
    default: return false; /* null, or not looked into */
    }
}

/* The schema of a member that must be there; NULL: it need not. */
static const rx_json *required_member(const rx_json *s, const rx_json *name)
{
    const rx_json *required = rx_json_member(s, "required");
    const rx_json *r = required && required->kind == RX_JSON_ARRAY ? required->first : NULL;
    while (r && (r->kind != RX_JSON_STRING || differ(r, name)))
        r = r->next;
    const rx_json *all = r ? rx_json_member(s, "properties") : NULL;
    const rx_json *m = all && all->kind == RX_JSON_OBJECT ? rx_json_member(all, name->text) : NULL;
    /* beside a $ref draft 7 ignores the values */
    return m && m->kind == RX_JSON_OBJECT && !rx_json_member(m, "$ref") ? m : NULL;
}

/* The values that a member may have: *end is behind the last. NULL: not known. */
static const rx_json *values_of(const rx_json *member, const rx_json **end)
{
    const rx_json *one = rx_json_member(member, "const"), *list = rx_json_member(member, "enum");
    *end = one ? one->next : NULL;
    return one ? one : list && list->kind == RX_JSON_ARRAY ? list->first : NULL;
}

static bool values_apart(const rx_json *a, const rx_json *b)
{
    const rx_json *end_a, *end_b;
    const rx_json *first_a = values_of(a, &end_a), *first_b = values_of(b, &end_b);
    for (const rx_json *i = first_a; i != end_a; i = i->next)
        for (const rx_json *k = first_b; k != end_b; k = k->next)
            if (!differ(i, k))
                return false;
    return first_a && first_b;
}

/* Whether both require a member, with values that have none in common. */
static bool members_apart(const rx_json *a, const rx_json *b)
{
    const rx_json *required = rx_json_member(a, "required");
    const rx_json *r = required && required->kind == RX_JSON_ARRAY ? required->first : NULL;
    for (; r; r = r->next) {
        const bool plain = r->kind == RX_JSON_STRING && strlen(r->text) == r->length;
        const rx_json *p = plain ? required_member(a, r) : NULL;
        const rx_json *q = p ? required_member(b, r) : NULL;
        if (q && values_apart(p, q))
            return true;
    }
    return false;
}

bool rx_outlines_apart(const rx_outline *a, const rx_outline *b, bool objects)
{
    const char *type = objects ? "object" : "array";
    if (excludes(a, type) || excludes(b, type))
        return true;
    for (size_t i = 0; i < a->n && objects; i++)
        for (size_t k = 0; k < b->n; k++)
            if (members_apart(a->s[i], b->s[k]))
                return true;
    return false;
}
