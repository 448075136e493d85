/* SPDX-License-Identifier: MIT */
/* Schemas of requests, adapted for the grammar. By JSON Schema an object that lists its properties
 * may have others unless it says otherwise, and a model that must choose fills answers with them;
 * so such objects are closed: everything generated is still valid. */
#include <stdio.h>
#include <string.h>

#include "serve/json_out.h"

static bool is_one_of(const rx_json *v, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(v->key, names[i]))
            return true;
    return false;
}

/* Whether values of this key are data and not schemas. */
static bool is_data(const rx_json *v)
{
    static const char *const names[] = {"enum", "const", "default", "examples", "example"};
    return is_one_of(v, names, sizeof names / sizeof names[0]);
}

/* Whether values of this key map names to schemas. */
static bool is_map(const rx_json *v)
{
    static const char *const names[] = {"properties", "$defs", "definitions"};
    return is_one_of(v, names, sizeof names / sizeof names[0]);
}

/* Whether the validity of a value may depend on what another part of the schema leaves open: then
 * nothing is closed. */
static bool combines(const rx_json *v, bool map)
{
    static const char *const names[] = {
        "allOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired",
        "dependencies", "unevaluatedProperties", "unevaluatedItems", "patternProperties",
        "propertyNames", "minProperties", "maxProperties", "$dynamicRef", "$recursiveRef"};
    const bool object = v->kind == RX_JSON_OBJECT && !map;
    if (object && rx_json_member(v, "properties") &&
        (rx_json_member(v, "anyOf") || rx_json_member(v, "$ref")))
        return true;
    for (const rx_json *i = v->first; i; i = i->next) {
        if (object && is_one_of(i, names, sizeof names / sizeof names[0]))
            return true;
        if (!(object && is_data(i)) && combines(i, object && is_map(i)))
            return true;
    }
    return false;
}

/* Whether it lists its properties, including all required ones, and says nothing of others. */
static bool is_open(const rx_json *v)
{
    const rx_json *properties = rx_json_member(v, "properties");
    const rx_json *required = rx_json_member(v, "required");
    if (!properties || properties->kind != RX_JSON_OBJECT ||
        rx_json_member(v, "additionalProperties"))
        return false;
    for (const rx_json *r = required ? required->first : NULL; r; r = r->next)
        if (r->kind != RX_JSON_STRING || !rx_json_member(properties, r->text))
            return false;
    return true;
}

static void put(rx_str *s, const rx_json *v, bool map)
{
    const bool object = v->kind == RX_JSON_OBJECT;
    if (!object && v->kind != RX_JSON_ARRAY) {
        rx_put_json(s, v);
        return;
    }
    rx_str_puts(s, object ? "{" : "[");
    if (object && !map && is_open(v))
        rx_str_puts(s, "\"additionalProperties\":false,");
    for (const rx_json *i = v->first; i; i = i->next) {
        if (i != v->first)
            rx_str_puts(s, ",");
        if (object) {
            rx_put_text(s, i->key, i->key_length);
            rx_str_puts(s, ":");
        }
        if (object && !map && is_data(i))
            rx_put_json(s, i);
        else
            put(s, i, object && !map && is_map(i));
    }
    rx_str_puts(s, object ? "}" : "]");
}

void rx_put_schema(rx_str *s, const rx_json *v)
{
    if (combines(v, false))
        rx_put_json(s, v);
    else
        put(s, v, false);
}

void rx_put_arguments(rx_str *s, const rx_json *v, size_t index)
{
    char uri[32];
    snprintf(uri, sizeof uri, "tool:%zu", index);
    if (!v || !v->n) {
        rx_str_puts(s, "{\"type\":\"object\",\"additionalProperties\":false}");
        return;
    }
    rx_json type = {.kind = RX_JSON_STRING, .key = "type", .key_length = 4, .text = "object",
                    .length = 6, .next = v->first};
    rx_json id = {.kind = RX_JSON_STRING, .key = "$id", .key_length = 3, .text = uri,
                  .length = strlen(uri), .next = rx_json_member(v, "type") ? v->first : &type};
    rx_json whole = *v;
    whole.first = rx_json_member(v, "$id") ? id.next : &id;
    rx_put_schema(s, &whole);
}
