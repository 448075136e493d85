/* SPDX-License-Identifier: MIT */
/* The document of a JSON Schema: which keywords count, where its resources and anchors are, what a
 * $ref means. References stay inside of the document. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "grammar/schema.h"

const rx_keyword_info rx_keywords[RX_N_KEYWORDS] = {
#define DATA RX_KV_DATA
#define SCHEMA RX_KV_SCHEMA
#define LIST RX_KV_LIST
#define MAP RX_KV_MAP
#define ITEMS RX_KV_ITEMS
#define D7 RX_DRAFT_7
#define D2020 RX_DRAFT_2020
#define S RX_FOR_SCALARS
#define O RX_FOR_OBJECTS
#define A RX_FOR_ARRAYS
#define R RX_REFUSED
#define KEYWORD(id, name, value, drafts, applies) [RX_KW_##id] = {name, value, drafts, applies},
#include "grammar/schema_keywords.def"
#undef KEYWORD
#undef DATA
#undef SCHEMA
#undef LIST
#undef MAP
#undef ITEMS
#undef D7
#undef D2020
#undef S
#undef O
#undef A
#undef R
};

rlx_status rx_schema_refuse(rx_compiler *c, const char *keyword, const char *why)
{
    return rx_fail(c->err, RLX_UNSUPPORTED, "JSON Schema: \"%s\" %s", keyword, why);
}

rlx_status rx_schema_wrong(rx_compiler *c, const char *keyword, const char *expected)
{
    return rx_fail(c->err, RLX_PARSE, "JSON Schema: \"%s\" must be %s", keyword, expected);
}

rlx_status rx_schema_memory(rx_compiler *c)
{
    return rx_fail_memory(c->err, "a JSON Schema", 1);
}

rx_keyword rx_keyword_find(const rx_compiler *c, const rx_json *member)
{
    for (int k = 1; k < RX_N_KEYWORDS; k++)
        if (rx_keywords[k].drafts & c->draft && !strcmp(rx_keywords[k].name, member->key))
            return (rx_keyword)k;
    return RX_KW_NONE;
}

bool rx_schema_only_ref(const rx_compiler *c, const rx_json *schema, const rx_json *member)
{
    return c->draft == RX_DRAFT_7 && rx_json_member(schema, "$ref") &&
           strcmp(member->key, "$ref") != 0;
}

/* ---- Numbers of schemas ---------------------------------------------------------------------- */

static size_t schema_slot(const rx_compiler *c, const rx_json *json)
{
    size_t at = rx_hash_number((uintptr_t)json) & (c->cap_schema_table - 1);
    while (c->schema_table[at] && c->schemas[c->schema_table[at] - 1].json != json)
        at = (at + 1) & (c->cap_schema_table - 1);
    return at;
}

static bool grow_schema_table(rx_compiler *c)
{
    if ((c->n_schemas + 1) * 2 <= c->cap_schema_table)
        return true;
    size_t cap = c->cap_schema_table ? c->cap_schema_table * 2 : 256;
    uint32_t *t = rx_alloc_array_zero(cap, sizeof *t);
    if (!t)
        return false;
    rx_free(c->schema_table);
    c->schema_table = t;
    c->cap_schema_table = cap;
    for (size_t i = 0; i < c->n_schemas; i++)
        t[schema_slot(c, c->schemas[i].json)] = (uint32_t)i + 1;
    return true;
}

rlx_status rx_schema_id(rx_compiler *c, const rx_json *json, uint32_t resource, uint32_t *out)
{
    if (json->kind != RX_JSON_OBJECT && json->kind != RX_JSON_BOOL)
        return rx_fail(c->err, RLX_PARSE, "JSON Schema: a schema must be an object or a boolean, "
                       "found %s", rx_json_kind_name(json));
    if (!grow_schema_table(c) ||
        !rx_grow(&c->schemas, &c->cap_schemas, c->n_schemas + 1, sizeof *c->schemas))
        return rx_schema_memory(c);
    size_t at = schema_slot(c, json);
    if (!c->schema_table[at]) {
        c->schemas[c->n_schemas] = (rx_schema){.json = json, .resource = resource};
        c->schema_table[at] = (uint32_t)++c->n_schemas;
    }
    *out = c->schema_table[at] - 1;
    return RLX_OK;
}

rlx_status rx_schema_count(rx_compiler *c, const char *keyword, const rx_json *v, uint32_t *out)
{
    uint64_t n;
    if (v->kind != RX_JSON_NUMBER)
        return rx_schema_wrong(c, keyword, "an integer from 0 on");
    if (rx_json_u64(v, &n)) {
        *out = n > RX_INF - 2 ? RX_INF - 2 : (uint32_t)n;
        return RLX_OK;
    }
    double d = strtod(v->text, NULL);
    if (!(d >= 0) || d > 1e9 || d != (double)(uint32_t)d)
        return rx_schema_wrong(c, keyword, "an integer from 0 on");
    *out = (uint32_t)d;
    return RLX_OK;
}

/* ---- URIs ------------------------------------------------------------------------------------ */

static bool has_scheme(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n && s[n] == ':';
}

/* Where the path of an absolute URI begins: after "scheme://host" or "scheme:". */
static size_t path_begin(const char *uri)
{
    const char *colon = strchr(uri, ':');
    if (!colon)
        return 0;
    if (strncmp(colon, "://", 3))
        return (size_t)(colon - uri) + 1;
    return (size_t)(colon - uri) + 3 + strcspn(colon + 3, "/");
}

/* Drops "." and ".." from the path of `s` from `from` on. */
static void drop_dots(rx_str *s, size_t from)
{
    char *path = s->data + from;
    for (char *dot; (dot = strstr(path, "/./"));)
        memmove(dot, dot + 2, strlen(dot + 2) + 1);
    for (char *dots; (dots = strstr(path, "/../"));) {
        char *before = dots;
        while (before > path && *--before != '/')
            ;
        memmove(before, dots + 3, strlen(dots + 3) + 1);
    }
    s->n = strlen(s->data);
}

/* `ref` without its fragment, relative to `base`; in the arena. */
static const char *join_uri(rx_compiler *c, const char *base, const char *ref)
{
    rx_str s = {0};
    size_t n = strcspn(ref, "#");
    const char *out = NULL;
    if (!n) {
        rx_str_puts(&s, base);
    } else if (has_scheme(ref)) {
        rx_str_add(&s, ref, n);
    } else {
        size_t path = path_begin(base), keep = strlen(base);
        while (keep > path && base[keep - 1] != '/')
            keep--;
        if (ref[0] == '/')
            keep = path;
        rx_str_add(&s, base, keep);
        rx_str_add(&s, ref, n);
        if (s.data)
            drop_dots(&s, path);
    }
    if (!s.failed)
        out = rx_arena_strdup(&c->p->arena, s.data ? s.data : "");
    rx_str_finish(&s);
    return out;
}

/* ---- The walk -------------------------------------------------------------------------------- */

static rlx_status add_anchor(rx_compiler *c, uint32_t resource, const char *name,
                             const rx_json *json)
{
    if (!rx_grow(&c->anchors, &c->cap_anchors, c->n_anchors + 1, sizeof *c->anchors))
        return rx_schema_memory(c);
    c->anchors[c->n_anchors++] = (rx_anchor){resource, name, json};
    return RLX_OK;
}

static rlx_status add_resource(rx_compiler *c, const char *uri, const rx_json *root, uint32_t *out)
{
    if (!uri || !rx_grow(&c->resources, &c->cap_resources, c->n_resources + 1,
                         sizeof *c->resources))
        return rx_schema_memory(c);
    for (size_t i = 0; i < c->n_resources; i++)
        if (!strcmp(c->resources[i].uri, uri) && c->resources[i].root != root)
            return rx_fail(c->err, RLX_UNSUPPORTED, "JSON Schema: two schemas have the \"$id\" "
                           "'%.100s'", uri);
    c->resources[c->n_resources] = (rx_resource){uri, root};
    *out = (uint32_t)c->n_resources++;
    return RLX_OK;
}

/* The resource that a schema belongs to, where the one around it is `resource`. */
static rlx_status enter_resource(rx_compiler *c, const rx_json *s, uint32_t *resource)
{
    const rx_json *id = rx_json_member(s, "$id");
    if (!id || id->kind != RX_JSON_STRING ||
        (c->draft == RX_DRAFT_7 && rx_json_member(s, "$ref")))
        return RLX_OK;
    if (id->text[0] == '#') {
        if (c->draft == RX_DRAFT_7)
            return add_anchor(c, *resource, id->text + 1, s);
        return RLX_OK;
    }
    if (s == c->resources[0].root)
        return RLX_OK;
    return add_resource(c, join_uri(c, c->resources[*resource].uri, id->text), s, resource);
}

static rlx_status walk(rx_compiler *c, const rx_json *s, uint32_t resource);

static rlx_status walk_list(rx_compiler *c, const rx_json *list, uint32_t resource)
{
    for (const rx_json *i = list->first; i; i = i->next)
        if (i->kind == RX_JSON_OBJECT || i->kind == RX_JSON_BOOL)
            RLX_TRY(walk(c, i, resource));
    return RLX_OK;
}

static rlx_status walk_keyword(rx_compiler *c, const rx_json *m, rx_keyword k, uint32_t resource)
{
    const rx_keyword_value v = rx_keywords[k].value;
    if (v == RX_KV_DATA)
        return RLX_OK;
    if (v == RX_KV_SCHEMA || (v == RX_KV_ITEMS && m->kind != RX_JSON_ARRAY))
        return walk(c, m, resource);
    if (v == RX_KV_ITEMS && c->draft != RX_DRAFT_7)
        return rx_schema_wrong(c, "items", "a schema (\"prefixItems\" takes an array)");
    if (m->kind != (v == RX_KV_MAP ? RX_JSON_OBJECT : RX_JSON_ARRAY))
        return rx_schema_wrong(c, m->key, v == RX_KV_MAP ? "an object of schemas"
                                                         : "an array of schemas");
    if (v == RX_KV_LIST && !m->n)
        return rx_schema_wrong(c, m->key, "an array with at least one schema");
    return walk_list(c, m, resource);
}

static rlx_status walk(rx_compiler *c, const rx_json *s, uint32_t resource)
{
    uint32_t id;
    RLX_TRY(enter_resource(c, s, &resource));
    RLX_TRY(rx_schema_id(c, s, resource, &id));
    for (const rx_json *m = s->kind == RX_JSON_OBJECT ? s->first : NULL; m; m = m->next) {
        rx_keyword k = rx_keyword_find(c, m);
        if (!strcmp(m->key, "$anchor") && m->kind == RX_JSON_STRING && c->draft == RX_DRAFT_2020)
            RLX_TRY(add_anchor(c, resource, m->text, s));
        if (!strcmp(m->key, "$dynamicAnchor") && m->kind == RX_JSON_STRING &&
            c->draft == RX_DRAFT_2020)
            RLX_TRY(add_anchor(c, resource, m->text, s));
        if (!strcmp(m->key, "$vocabulary"))
            return rx_schema_refuse(c, "$vocabulary", "is not supported");
        if (k != RX_KW_NONE)
            RLX_TRY(walk_keyword(c, m, k, resource));
    }
    return RLX_OK;
}

static rlx_status find_draft(rx_compiler *c, const rx_json *root)
{
    static const struct { const char *uri; unsigned draft; } drafts[] = {
        {"http://json-schema.org/draft-07/schema", RX_DRAFT_7},
        {"http://json-schema.org/draft-06/schema", RX_DRAFT_7},
        {"https://json-schema.org/draft/2020-12/schema", RX_DRAFT_2020},
    };
    const rx_json *schema = rx_json_member(root, "$schema");
    c->draft = RX_DRAFT_2020;
    if (!schema)
        return RLX_OK;
    if (schema->kind != RX_JSON_STRING)
        return rx_schema_wrong(c, "$schema", "a string");
    size_t n = strcspn(schema->text, "#");
    for (size_t i = 0; i < sizeof drafts / sizeof drafts[0]; i++) {
        /* also with the other of http and https */
        const char *known = strstr(drafts[i].uri, "//"), *given = strstr(schema->text, "//");
        if (given && n > (size_t)(given - schema->text) &&
            strlen(known) == n - (size_t)(given - schema->text) &&
            !strncmp(known, given, strlen(known))) {
            c->draft = drafts[i].draft;
            return RLX_OK;
        }
    }
    return rx_fail(c->err, RLX_UNSUPPORTED, "JSON Schema: \"$schema\" is '%.100s'; expected draft "
                   "2020-12 or draft 7", schema->text);
}

rlx_status rx_schema_register(rx_compiler *c, const rx_json *root)
{
    uint32_t resource;
    RLX_TRY(find_draft(c, root));
    const rx_json *id = rx_json_member(root, "$id");
    const char *uri = id && id->kind == RX_JSON_STRING ? join_uri(c, "", id->text) : "";
    RLX_TRY(add_resource(c, uri, root, &resource));
    return walk(c, root, 0);
}

/* ---- References ------------------------------------------------------------------------------ */

/* Undoes %XX, then ~1 and ~0, of a part of a JSON pointer. */
static size_t decode_part(const char *s, size_t n, char *out)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '%' && i + 2 < n) {
            char digits[3] = {s[i + 1], s[i + 2], 0};
            c = (char)strtol(digits, NULL, 16);
            i += 2;
        }
        out[k++] = c;
    }
    n = k;
    k = 0;
    for (size_t i = 0; i < n; i++) {
        if (out[i] == '~' && i + 1 < n && (out[i + 1] == '0' || out[i + 1] == '1'))
            out[k++] = out[++i] == '0' ? '~' : '/';
        else
            out[k++] = out[i];
    }
    return k;
}

static const rx_json *child_of(const rx_json *v, const char *key, size_t n)
{
    if (v->kind == RX_JSON_ARRAY) {
        char *end;
        unsigned long long index = strtoull(key, &end, 10);
        const rx_json *i = v->first;
        if (!n || end != key + n)
            return NULL;
        for (; i && index; index--)
            i = i->next;
        return i;
    }
    for (const rx_json *i = v->kind == RX_JSON_OBJECT ? v->first : NULL; i; i = i->next)
        if (i->key_length == n && !memcmp(i->key, key, n))
            return i;
    return NULL;
}

/* Follows a JSON pointer; resources on the way change the base. */
static rlx_status follow_pointer(rx_compiler *c, const char *pointer, uint32_t *resource,
                                 const rx_json **at)
{
    while (*pointer) {
        size_t n = strcspn(++pointer, "/");
        char *key = rx_arena_zero(&c->p->arena, n + 1);
        if (!key)
            return rx_schema_memory(c);
        *at = child_of(*at, key, decode_part(pointer, n, key));
        if (!*at)
            return RLX_NOT_FOUND;
        for (uint32_t i = 0; i < c->n_resources; i++)
            if (c->resources[i].root == *at)
                *resource = i;
        pointer += n;
    }
    return RLX_OK;
}

static const rx_json *find_anchor(const rx_compiler *c, uint32_t resource, const char *name)
{
    for (size_t i = 0; i < c->n_anchors; i++)
        if (c->anchors[i].resource == resource && !strcmp(c->anchors[i].name, name))
            return c->anchors[i].json;
    return NULL;
}

rlx_status rx_schema_resolve(rx_compiler *c, uint32_t schema, const rx_json *ref, uint32_t *out)
{
    if (ref->kind != RX_JSON_STRING)
        return rx_schema_wrong(c, "$ref", "a string");
    uint32_t resource = 0;
    const char *uri = join_uri(c, c->resources[c->schemas[schema].resource].uri, ref->text);
    const char *fragment = strchr(ref->text, '#');
    if (!uri)
        return rx_schema_memory(c);
    while (resource < c->n_resources && strcmp(c->resources[resource].uri, uri))
        resource++;
    if (resource == c->n_resources)
        return rx_fail(c->err, RLX_UNSUPPORTED, "JSON Schema: \"$ref\" '%.150s' leaves the "
                       "document", ref->text);
    const rx_json *at = c->resources[resource].root;
    rlx_status st = RLX_OK;
    if (fragment && fragment[1] == '/')
        st = follow_pointer(c, fragment + 1, &resource, &at);
    else if (fragment && fragment[1])
        st = (at = find_anchor(c, resource, fragment + 1)) ? RLX_OK : RLX_NOT_FOUND;
    if (st == RLX_NOT_FOUND)
        return rx_fail(c->err, RLX_PARSE, "JSON Schema: \"$ref\" '%.150s' leads nowhere",
                       ref->text);
    RLX_TRY(st);
    if (!c->schema_table[schema_slot(c, at)]) /* inside of a keyword that is not known */
        RLX_TRY(walk(c, at, resource));
    return rx_schema_id(c, at, resource, out);
}
