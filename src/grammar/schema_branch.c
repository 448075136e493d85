/* SPDX-License-Identifier: MIT */
/* A tableau for objects and arrays: schemas and negated schemas are expanded keyword by keyword
 * until only constraints on members, items and counts remain. A keyword with alternatives copies
 * the branch. "unevaluated" keywords are deferred until their schema is expanded, and then apply to
 * what was not evaluated in this branch. */
#include <string.h>

#include "grammar/schema.h"

#define MAX_BRANCHES 20000
#define MAX_PENDING 4096
#define MAX_TAKEN 20000
#define NO_SCOPE UINT32_MAX

typedef enum item_kind {
    SCHEMA,    /* sid */
    MEMBER,    /* a keyword of a schema, or its negation */
    CHOICE,    /* one of several lists of items */
    EVERY,     /* a statement */
    SOME,
    PLACES,
    COUNTER,
    MIN, MAX,
    CLOSE      /* unevaluated*: the keyword */
} item_kind;

typedef struct choice choice;

typedef struct item {
    item_kind kind;
    bool negative;
    rx_sid sid;
    uint32_t scope, schema;
    const rx_json *member;
    choice *either;
    rx_for_keys keys;
    rx_for_places places;
    rx_counter counter;
    uint32_t n;
} item;

struct choice {
    item *items;
    size_t n, cap;
    uint32_t *ends; /* after the last item of an alternative */
    size_t n_ends, cap_ends;
};

/* Evaluated members and items, collected for an unevaluated keyword by the schemas within its
 * own. */
typedef struct scope {
    uint32_t parent;
    rx_ex keys;       /* evaluated */
    uint32_t upto;    /* items before this one are evaluated */
    rx_sid matched[RX_MAX_COUNTERS];
    uint32_t n_matched; /* items that are valid against these as well */
} scope;

typedef struct tableau {
    rx_compiler *c;
    bool objects;
    rx_branch_fn *fn;
    void *user;
    item *pending;
    size_t n_pending, cap_pending;
    scope *scopes;
    size_t n_scopes, cap_scopes;
    rx_branch b;
    size_t taken;     /* schemas taken apart on the way here */
    bool dead;
} tableau;

/* ---- Copies ---------------------------------------------------------------------------------- */

static bool copy_array(void *to, size_t *cap, const void *from, size_t n, size_t bytes)
{
    void *copy = NULL;
    *cap = 0;
    if (n && !rx_grow(&copy, cap, n, bytes))
        return false;
    if (n)
        memcpy(copy, from, n * bytes);
    *(void **)to = copy;
    return true;
}

static void finish(tableau *t)
{
    rx_free(t->pending);
    rx_free(t->scopes);
    rx_free(t->b.every);
    rx_free(t->b.some);
    rx_free(t->b.places);
    rx_free(t->b.counters);
}

static bool copy(tableau *to, const tableau *t)
{
    *to = *t;
    to->pending = NULL;
    to->scopes = NULL;
    to->b.every = to->b.some = NULL;
    to->b.places = NULL;
    to->b.counters = NULL;
    return copy_array(&to->pending, &to->cap_pending, t->pending, t->n_pending,
                      sizeof *t->pending) &&
           copy_array(&to->scopes, &to->cap_scopes, t->scopes, t->n_scopes, sizeof *t->scopes) &&
           copy_array(&to->b.every, &to->b.cap_every, t->b.every, t->b.n_every,
                      sizeof *t->b.every) &&
           copy_array(&to->b.some, &to->b.cap_some, t->b.some, t->b.n_some, sizeof *t->b.some) &&
           copy_array(&to->b.places, &to->b.cap_places, t->b.places, t->b.n_places,
                      sizeof *t->b.places) &&
           copy_array(&to->b.counters, &to->b.cap_counters, t->b.counters, t->b.n_counters,
                      sizeof *t->b.counters);
}

/* ---- Items ----------------------------------------------------------------------------------- */

static rlx_status push(tableau *t, item i)
{
    if (t->n_pending >= MAX_PENDING)
        return rx_fail(t->c->err, RLX_UNSUPPORTED, "JSON Schema: more than %d keywords apply to "
                       "one place", MAX_PENDING);
    if (!rx_grow(&t->pending, &t->cap_pending, t->n_pending + 1, sizeof *t->pending))
        return rx_schema_memory(t->c);
    t->pending[t->n_pending++] = i;
    return RLX_OK;
}

static choice *new_choice(tableau *t)
{
    return rx_arena_zero(&t->c->p->arena, sizeof(choice));
}

/* Room for one more in the arena. */
static bool choice_grow(tableau *t, void *p, size_t *cap, size_t n, size_t bytes)
{
    if (n < *cap)
        return true;
    size_t larger = *cap ? *cap * 2 : 4;
    void *more = rx_arena_array(&t->c->p->arena, larger, bytes);
    if (!more)
        return false;
    if (n)
        memcpy(more, *(void **)p, n * bytes);
    *(void **)p = more;
    *cap = larger;
    return true;
}

static rlx_status choice_add(tableau *t, choice *e, item i)
{
    if (!e || !choice_grow(t, &e->items, &e->cap, e->n, sizeof *e->items))
        return rx_schema_memory(t->c);
    e->items[e->n++] = i;
    return RLX_OK;
}

/* Ends an alternative. */
static rlx_status choice_end(tableau *t, choice *e)
{
    if (!e || !choice_grow(t, &e->ends, &e->cap_ends, e->n_ends, sizeof *e->ends))
        return rx_schema_memory(t->c);
    e->ends[e->n_ends++] = (uint32_t)e->n;
    return RLX_OK;
}

static rlx_status choice_one(tableau *t, choice *e, item i)
{
    RLX_TRY(choice_add(t, e, i));
    return choice_end(t, e);
}

static rlx_status push_choice(tableau *t, choice *e)
{
    return e ? push(t, (item){.kind = CHOICE, .either = e}) : rx_schema_memory(t->c);
}

static rlx_status schema_item(tableau *t, const item *from, const rx_json *json, bool negative,
                              item *out)
{
    uint32_t id;
    RLX_TRY(rx_schema_id(t->c, json, t->c->schemas[from->schema].resource, &id));
    *out = (item){.kind = SCHEMA, .sid = id * 2 + negative,
                  .scope = negative || from->negative ? NO_SCOPE : from->scope};
    return RLX_OK;
}

static rlx_status sub_sid(tableau *t, const item *from, const rx_json *json, bool negative,
                          rx_sid *out)
{
    uint32_t id;
    RLX_TRY(rx_schema_id(t->c, json, t->c->schemas[from->schema].resource, &id));
    *out = id * 2 + negative;
    return RLX_OK;
}

static item for_name(tableau *t, item_kind kind, const char *name, size_t n, rx_sid sid)
{
    return (item){.kind = kind, .keys = {name, n, rx_ex_text(t->c->x, name, n), sid}};
}

/* ---- Evaluated ------------------------------------------------------------------------------- */

static void evaluate_keys(tableau *t, uint32_t s, rx_ex keys)
{
    for (; s != NO_SCOPE; s = t->scopes[s].parent)
        t->scopes[s].keys = rx_ex_or(t->c->x, t->scopes[s].keys, keys);
}

static void evaluate_items(tableau *t, uint32_t s, uint32_t upto)
{
    for (; s != NO_SCOPE; s = t->scopes[s].parent)
        if (t->scopes[s].upto < upto)
            t->scopes[s].upto = upto;
}

static rlx_status evaluate_matched(tableau *t, uint32_t s, rx_sid sid)
{
    for (; s != NO_SCOPE; s = t->scopes[s].parent) {
        if (t->scopes[s].n_matched == RX_MAX_COUNTERS)
            return rx_schema_refuse(t->c, "contains", "with \"unevaluatedItems\": more than 4");
        t->scopes[s].matched[t->scopes[s].n_matched++] = sid;
    }
    return RLX_OK;
}

/* ---- Keywords with schemas in place ---------------------------------------------------------- */

static rlx_status all_of(tableau *t, const item *k, bool any)
{
    item i;
    choice *e = new_choice(t);
    for (const rx_json *s = k->member->first; s; s = s->next) {
        RLX_TRY(schema_item(t, k, s, k->negative, &i));
        RLX_TRY(k->negative != any ? choice_one(t, e, i) : push(t, i));
    }
    return k->negative != any ? push_choice(t, e) : RLX_OK;
}

/* Each non-empty set of schemas that hold while the others do not. */
static rlx_status any_of_exact(tableau *t, const item *k)
{
    choice *e = new_choice(t);
    const size_t n = k->member->n;
    if (n > 6)
        return rx_schema_refuse(t->c, "anyOf", "with more than 6 schemas under an unevaluated "
                                "keyword");
    for (unsigned set = 1; set < 1u << n; set++) {
        unsigned bit = 0;
        for (const rx_json *s = k->member->first; s; s = s->next, bit++) {
            item i;
            RLX_TRY(schema_item(t, k, s, !(set >> bit & 1), &i));
            RLX_TRY(choice_add(t, e, i));
        }
        RLX_TRY(choice_end(t, e));
    }
    return push_choice(t, e);
}

static rlx_status any_of(tableau *t, const item *k)
{
    return k->scope != NO_SCOPE && !k->negative ? any_of_exact(t, k) : all_of(t, k, true);
}

/* `these` (one or two schemas) hold; with `only` no other does. */
static rlx_status one_of_part(tableau *t, const item *k, choice *e, const rx_json *a,
                              const rx_json *b, bool only)
{
    item from = *k, i;
    from.negative = false;
    for (const rx_json *s = k->member->first; s; s = s->next) {
        bool holds = s == a || s == b;
        if (!holds && !only)
            continue;
        RLX_TRY(schema_item(t, &from, s, !holds, &i));
        RLX_TRY(choice_add(t, e, i));
    }
    return choice_end(t, e);
}

/* All schemas of the list. *out is freed with rx_free. */
static rlx_status outlines(tableau *t, const item *k, rx_outline **out)
{
    size_t n = 0;
    rlx_status st = RLX_OK;
    *out = rx_alloc_array(k->member->n + 1, sizeof **out);
    for (const rx_json *s = k->member->first; s && *out && st == RLX_OK; s = s->next) {
        rx_sid sid;
        st = sub_sid(t, k, s, false, &sid);
        if (st == RLX_OK)
            st = rx_schema_outline(t->c, sid / 2, &(*out)[n++]);
    }
    return *out ? st : rx_schema_memory(t->c);
}

/* One schema holds. The others need not be negated where nothing can be valid under both: each
 * negation has as many alternatives as the schema has keywords. */
static rlx_status only_one(tableau *t, const item *k, const rx_outline *all, choice *e)
{
    size_t n = 0;
    for (const rx_json *a = k->member->first; a; a = a->next, n++) {
        size_t at = 0;
        for (const rx_json *s = k->member->first; s; s = s->next, at++) {
            item i;
            if (s != a && rx_outlines_apart(&all[n], &all[at], t->objects))
                continue;
            RLX_TRY(schema_item(t, k, s, s != a, &i));
            RLX_TRY(choice_add(t, e, i));
        }
        RLX_TRY(choice_end(t, e));
    }
    return RLX_OK;
}

static rlx_status one_of(tableau *t, const item *k)
{
    choice *e = new_choice(t);
    rx_outline *all = NULL;
    if (!k->negative) {
        rlx_status st = outlines(t, k, &all);
        if (st == RLX_OK)
            st = only_one(t, k, all, e);
        rx_free(all);
        RLX_TRY(st);
        return push_choice(t, e);
    }
    for (const rx_json *a = k->member->first; a; a = a->next)
        for (const rx_json *b = a->next; b; b = b->next)
            RLX_TRY(one_of_part(t, k, e, a, b, false));
    RLX_TRY(one_of_part(t, k, e, NULL, NULL, true));
    return push_choice(t, e);
}

static rlx_status if_then(tableau *t, const item *k)
{
    const rx_json *json = t->c->schemas[k->schema].json;
    const rx_json *parts[] = {rx_json_member(json, "then"), rx_json_member(json, "else")};
    choice *e = new_choice(t);
    item from = *k, i;
    from.negative = false;
    for (size_t n = 0; n < 2; n++) {
        if (!parts[n] && k->negative)
            continue;
        RLX_TRY(schema_item(t, &from, k->member, n == 1, &i));
        RLX_TRY(choice_add(t, e, i));
        if (parts[n]) {
            RLX_TRY(schema_item(t, &from, parts[n], k->negative, &i));
            RLX_TRY(choice_add(t, e, i));
        }
        RLX_TRY(choice_end(t, e));
    }
    return push_choice(t, e);
}

static rlx_status reference(tableau *t, const item *k)
{
    uint32_t target;
    RLX_TRY(rx_schema_resolve(t->c, k->schema, k->member, &target));
    return push(t, (item){.kind = SCHEMA, .sid = target * 2 + k->negative,
                          .scope = k->negative ? NO_SCOPE : k->scope});
}

/* A schema that has just this value, for objects and arrays. */
static rx_json *make_json(tableau *t, rx_json_kind kind, const char *key)
{
    rx_json *v = rx_arena_zero(&t->c->p->arena, sizeof *v);
    if (v) {
        v->kind = kind;
        v->key = key;
        v->key_length = key ? strlen(key) : 0;
    }
    return v;
}

static bool append_json(rx_json *to, rx_json *v)
{
    rx_json **last = &to->first;
    if (!v)
        return false;
    while (*last)
        last = &(*last)->next;
    *last = v;
    to->n++;
    return true;
}

static rx_json *const_of(tableau *t, const rx_json *value, const char *key)
{
    rx_json *s = make_json(t, RX_JSON_OBJECT, key), *v = make_json(t, value->kind, "const");
    if (!s || !v)
        return NULL;
    v->truth = value->truth;
    v->text = value->text;
    v->length = value->length;
    v->first = value->first;
    v->n = value->n;
    return append_json(s, v) ? s : NULL;
}

static bool fill_const_object(tableau *t, rx_json *s, const rx_json *value)
{
    rx_json *properties = make_json(t, RX_JSON_OBJECT, "properties");
    rx_json *required = make_json(t, RX_JSON_ARRAY, "required");
    bool ok = properties && required;
    for (const rx_json *m = value->first; m && ok; m = m->next) {
        rx_json *name = make_json(t, RX_JSON_STRING, NULL), *v = const_of(t, m, m->key);
        ok = name && v;
        if (!ok)
            break;
        v->key_length = m->key_length;
        name->text = m->key;
        name->length = m->key_length;
        ok = append_json(properties, v) && append_json(required, name);
    }
    return ok && append_json(s, properties) && append_json(s, required) &&
           append_json(s, make_json(t, RX_JSON_BOOL, "additionalProperties"));
}

static bool fill_const_array(tableau *t, rx_json *s, const rx_json *value)
{
    const bool old = t->c->draft == RX_DRAFT_7;
    rx_json *prefix = make_json(t, RX_JSON_ARRAY, old ? "items" : "prefixItems");
    rx_json *min = make_json(t, RX_JSON_NUMBER, "minItems");
    char *text = rx_arena_zero(&t->c->p->arena, 24);
    bool ok = prefix && min && text;
    for (const rx_json *i = value->first; i && ok; i = i->next)
        ok = append_json(prefix, const_of(t, i, NULL));
    if (!ok)
        return false;
    size_t n = value->n, at = 23;
    do
        text[--at] = (char)('0' + n % 10);
    while (n /= 10);
    min->text = text + at;
    min->length = 23 - at;
    return (!value->n || append_json(s, prefix)) && append_json(s, min) &&
           append_json(s, make_json(t, RX_JSON_BOOL, old && value->n ? "additionalItems"
                                                                      : "items"));
}

/* {"type": ..., ...} that only `value` is valid against. */
static rlx_status const_schema(tableau *t, const item *k, const rx_json *value, item *out)
{
    const bool object = value->kind == RX_JSON_OBJECT;
    rx_json *s = make_json(t, RX_JSON_OBJECT, NULL), *type = make_json(t, RX_JSON_STRING, "type");
    if (!s || !type)
        return rx_schema_memory(t->c);
    type->text = object ? "object" : "array";
    type->length = strlen(type->text);
    bool ok = append_json(s, type) &&
              (object ? fill_const_object(t, s, value) : fill_const_array(t, s, value));
    return ok ? schema_item(t, k, s, k->negative, out) : rx_schema_memory(t->c);
}

static rlx_status values(tableau *t, const item *k, const rx_json *list, bool one)
{
    const rx_json_kind kind = t->objects ? RX_JSON_OBJECT : RX_JSON_ARRAY;
    choice *e = new_choice(t);
    item i;
    if (!one && list->kind != RX_JSON_ARRAY)
        return rx_schema_wrong(t->c, "enum", "an array");
    for (const rx_json *v = one ? list : list->first; v; v = one ? NULL : v->next) {
        if (v->kind != kind)
            continue;
        RLX_TRY(const_schema(t, k, v, &i));
        i.scope = NO_SCOPE;
        RLX_TRY(k->negative ? push(t, i) : choice_one(t, e, i));
    }
    return k->negative ? RLX_OK : push_choice(t, e);
}

static rlx_status type_keyword(tableau *t, const item *k)
{
    bool is;
    RLX_TRY(rx_type_includes(t->c, k->member, t->objects ? "object" : "array", &is));
    t->dead = t->dead || is == k->negative;
    return RLX_OK;
}

/* ---- Objects --------------------------------------------------------------------------------- */

/* Schemas of the members of an object or, negated, one member against it. */
static rlx_status add_keys(tableau *t, const item *k, choice *e, rx_for_keys keys,
                           const rx_json *json)
{
    RLX_TRY(sub_sid(t, k, json, k->negative, &keys.sid));
    if (k->negative)
        return choice_one(t, e, (item){.kind = SOME, .keys = keys});
    evaluate_keys(t, k->scope, keys.keys);
    return push(t, (item){.kind = EVERY, .keys = keys});
}

static rlx_status pattern_keys(tableau *t, const rx_json *member, rx_for_keys *out)
{
    *out = (rx_for_keys){0};
    return rx_regex_parse(t->c->x, "JSON Schema: \"patternProperties\"", member->key,
                          member->key_length, false, &out->keys, t->c->err);
}

/* Pushes in reverse, so that members are met in the order of the schema. */
static rlx_status properties(tableau *t, const item *k, bool patterns)
{
    choice *e = new_choice(t);
    size_t first = t->n_pending;
    for (const rx_json *m = k->member->first; m; m = m->next) {
        rx_for_keys keys = {m->key, m->key_length, RX_EX_NONE, 0};
        if (patterns)
            RLX_TRY(pattern_keys(t, m, &keys));
        else
            keys.keys = rx_ex_text(t->c->x, m->key, m->key_length);
        RLX_TRY(add_keys(t, k, e, keys, m));
    }
    for (size_t a = first, b = t->n_pending; a + 1 < b; a++, b--) {
        item swap = t->pending[a];
        t->pending[a] = t->pending[b - 1];
        t->pending[b - 1] = swap;
    }
    return k->negative ? push_choice(t, e) : RLX_OK;
}

/* Keys that neither properties nor patternProperties beside it name. */
static rlx_status other_keys(tableau *t, const item *k, rx_ex *out)
{
    const rx_json *json = t->c->schemas[k->schema].json;
    const rx_json *names = rx_json_member(json, "properties");
    const rx_json *patterns = rx_json_member(json, "patternProperties");
    rx_ex e = RX_EX_NONE;
    for (const rx_json *m = names ? names->first : NULL; m; m = m->next)
        e = rx_ex_or(t->c->x, e, rx_ex_text(t->c->x, m->key, m->key_length));
    for (const rx_json *m = patterns ? patterns->first : NULL; m; m = m->next) {
        rx_for_keys keys;
        RLX_TRY(pattern_keys(t, m, &keys));
        e = rx_ex_or(t->c->x, e, keys.keys);
    }
    *out = rx_ex_not(t->c->x, e);
    return RLX_OK;
}

static rlx_status additional(tableau *t, const item *k)
{
    choice *e = new_choice(t);
    rx_for_keys keys = {0};
    RLX_TRY(other_keys(t, k, &keys.keys));
    RLX_TRY(add_keys(t, k, e, keys, k->member));
    return k->negative ? push_choice(t, e) : RLX_OK;
}

static rlx_status property_names(tableau *t, const item *k)
{
    rx_sid sid;
    rx_ex e;
    RLX_TRY(sub_sid(t, k, k->member, k->negative, &sid));
    RLX_TRY(rx_scalar_language(t->c, sid, RX_T_STRING, &e));
    if (k->negative)
        return push(t, (item){.kind = SOME, .keys = {NULL, 0, e, t->c->yes}});
    t->b.names = rx_ex_and(t->c->x, t->b.names, e);
    return RLX_OK;
}

/* Each name is there; negated: one is not. e NULL: they are pushed. */
static rlx_status required(tableau *t, const item *k, const rx_json *list, choice *e)
{
    if (list->kind != RX_JSON_ARRAY)
        return rx_schema_wrong(t->c, "required", "an array of strings");
    for (const rx_json *i = list->first; i; i = i->next) {
        if (i->kind != RX_JSON_STRING)
            return rx_schema_wrong(t->c, "required", "an array of strings");
        if (k->negative)
            RLX_TRY(choice_one(t, e, for_name(t, EVERY, i->text, i->length, t->c->yes + 1)));
        else if (e)
            RLX_TRY(choice_add(t, e, for_name(t, SOME, i->text, i->length, t->c->yes)));
        else
            RLX_TRY(push(t, for_name(t, SOME, i->text, i->length, t->c->yes)));
    }
    return RLX_OK;
}

static rlx_status required_keyword(tableau *t, const item *k)
{
    choice *e = k->negative ? new_choice(t) : NULL;
    RLX_TRY(required(t, k, k->member, e));
    return k->negative ? push_choice(t, e) : RLX_OK;
}

/* Without the trigger there is no constraint; with it, a schema or further required names. */
static rlx_status dependency(tableau *t, const item *k, const rx_json *m, choice *e)
{
    item with = for_name(t, SOME, m->key, m->key_length, t->c->yes), i;
    item without = for_name(t, EVERY, m->key, m->key_length, t->c->yes + 1);
    if (!k->negative)
        RLX_TRY(choice_one(t, e, without));
    if (m->kind != RX_JSON_ARRAY) {
        RLX_TRY(choice_add(t, e, with));
        RLX_TRY(schema_item(t, k, m, k->negative, &i));
        return choice_one(t, e, i);
    }
    if (!k->negative) {
        RLX_TRY(choice_add(t, e, with));
        RLX_TRY(required(t, k, m, e));
        return choice_end(t, e);
    }
    for (const rx_json *name = m->first; name; name = name->next) {
        if (name->kind != RX_JSON_STRING)
            return rx_schema_wrong(t->c, k->member->key, "lists of strings");
        RLX_TRY(choice_add(t, e, with));
        RLX_TRY(choice_one(t, e, for_name(t, EVERY, name->text, name->length, t->c->yes + 1)));
    }
    return RLX_OK;
}

static rlx_status dependencies(tableau *t, const item *k)
{
    choice *all = new_choice(t);
    if (k->member->kind != RX_JSON_OBJECT)
        return rx_schema_wrong(t->c, k->member->key, "an object");
    for (const rx_json *m = k->member->first; m; m = m->next) {
        choice *e = k->negative ? all : new_choice(t);
        RLX_TRY(dependency(t, k, m, e));
        if (!k->negative)
            RLX_TRY(push_choice(t, e));
    }
    return k->negative ? push_choice(t, all) : RLX_OK;
}

/* minProperties, maxItems, ... */
static rlx_status count(tableau *t, const item *k, bool least)
{
    uint32_t n;
    RLX_TRY(rx_schema_count(t->c, k->member->key, k->member, &n));
    if (!k->negative)
        return push(t, (item){.kind = least ? MIN : MAX, .n = n});
    if (least && n == 0)
        t->dead = true;
    return push(t, (item){.kind = least ? MAX : MIN, .n = least ? n - (n > 0) : n + 1});
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* Items of places lo..hi are valid; negated: one is there that is not. */
static rlx_status add_places(tableau *t, const item *k, choice *e, rx_for_places places,
                             const rx_json *json)
{
    RLX_TRY(sub_sid(t, k, json, k->negative, &places.sid));
    if (!k->negative) {
        evaluate_items(t, k->scope, places.hi == RX_INF ? RX_INF : places.hi + 1);
        return push(t, (item){.kind = PLACES, .places = places});
    }
    if (places.hi == RX_INF)
        return choice_one(t, e, (item){.kind = COUNTER,
                                       .counter = {places.sid, places.lo, 1, RX_INF}});
    RLX_TRY(choice_add(t, e, (item){.kind = MIN, .n = places.lo + 1}));
    return choice_one(t, e, (item){.kind = PLACES, .places = places});
}

static rlx_status prefix_items(tableau *t, const item *k)
{
    choice *e = new_choice(t);
    uint32_t n = 0;
    for (const rx_json *s = k->member->first; s; s = s->next, n++)
        RLX_TRY(add_places(t, k, e, (rx_for_places){n, n, 0}, s));
    return k->negative ? push_choice(t, e) : RLX_OK;
}

static rlx_status rest_items(tableau *t, const item *k, uint32_t from)
{
    choice *e = new_choice(t);
    RLX_TRY(add_places(t, k, e, (rx_for_places){from, RX_INF, 0}, k->member));
    return k->negative ? push_choice(t, e) : RLX_OK;
}

static rlx_status items_keyword(tableau *t, const item *k)
{
    const rx_json *prefix = rx_json_member(t->c->schemas[k->schema].json, "prefixItems");
    if (k->member->kind == RX_JSON_ARRAY)
        return prefix_items(t, k);
    return rest_items(t, k, prefix && t->c->draft == RX_DRAFT_2020 ? (uint32_t)prefix->n : 0);
}

/* Only after an "items" that is a list. */
static rlx_status additional_items(tableau *t, const item *k)
{
    const rx_json *before = rx_json_member(t->c->schemas[k->schema].json, "items");
    if (!before || before->kind != RX_JSON_ARRAY) {
        t->dead = t->dead || k->negative;
        return RLX_OK;
    }
    return rest_items(t, k, (uint32_t)before->n);
}

static rlx_status contains(tableau *t, const item *k)
{
    const rx_json *json = t->c->schemas[k->schema].json;
    const bool counts = t->c->draft == RX_DRAFT_2020;
    const rx_json *least = counts ? rx_json_member(json, "minContains") : NULL;
    const rx_json *most = counts ? rx_json_member(json, "maxContains") : NULL;
    rx_counter n = {.lo = 1, .hi = RX_INF};
    choice *e = new_choice(t);
    RLX_TRY(sub_sid(t, k, k->member, false, &n.sid));
    if (least)
        RLX_TRY(rx_schema_count(t->c, "minContains", least, &n.lo));
    if (most)
        RLX_TRY(rx_schema_count(t->c, "maxContains", most, &n.hi));
    if (!k->negative) {
        RLX_TRY(evaluate_matched(t, k->scope, n.sid));
        return push(t, (item){.kind = COUNTER, .counter = n});
    }
    if (n.lo)
        RLX_TRY(choice_one(t, e, (item){.kind = COUNTER, .counter = {n.sid, 0, 0, n.lo - 1}}));
    if (n.hi != RX_INF)
        RLX_TRY(choice_one(t, e, (item){.kind = COUNTER, .counter = {n.sid, 0, n.hi + 1, RX_INF}}));
    return push_choice(t, e);
}

static rlx_status unique_items(tableau *t, const item *k)
{
    if (k->member->kind != RX_JSON_BOOL)
        return rx_schema_wrong(t->c, "uniqueItems", "a boolean");
    if (k->negative && k->member->truth)
        return rx_schema_refuse(t->c, "uniqueItems", "cannot be negated");
    t->dead = t->dead || k->negative;
    t->b.unique = t->b.unique || k->member->truth;
    return RLX_OK;
}

/* ---- unevaluated ----------------------------------------------------------------------------- */

/* Items that are valid against `u` or against one of those that "contains" looked for. */
static rlx_status any_of_matched(tableau *t, const scope *s, rx_sid u, rx_sid *out)
{
    rx_json *schema = make_json(t, RX_JSON_OBJECT, NULL);
    rx_json *list = make_json(t, RX_JSON_ARRAY, "anyOf");
    uint32_t id;
    bool ok = schema && list && append_json(schema, list);
    *out = u;
    if (!s->n_matched)
        return RLX_OK;
    for (uint32_t i = 0; i <= s->n_matched && ok; i++) {
        const rx_schema *from = &t->c->schemas[(i ? s->matched[i - 1] : u) / 2];
        rx_json *v = rx_arena_copy(&t->c->p->arena, from->json, sizeof *v);
        ok = v;
        if (v)
            v->next = NULL;
        ok = ok && append_json(list, v);
        if (ok)
            RLX_TRY(rx_schema_id(t->c, v, from->resource, &id));
    }
    if (!ok)
        return rx_schema_memory(t->c);
    RLX_TRY(rx_schema_id(t->c, schema, t->c->schemas[u / 2].resource, &id));
    *out = id * 2;
    return RLX_OK;
}

static rlx_status close_scope(tableau *t, const item *k)
{
    const scope s = t->scopes[k->scope];
    rx_sid sid;
    RLX_TRY(sub_sid(t, k, k->member, false, &sid));
    if (t->objects) {
        rx_ex keys = rx_ex_not(t->c->x, s.keys);
        evaluate_keys(t, s.parent, RX_EX_ALL);
        return push(t, (item){.kind = EVERY, .keys = {NULL, 0, keys, sid}});
    }
    evaluate_items(t, s.parent, RX_INF);
    RLX_TRY(any_of_matched(t, &s, sid, &sid));
    if (s.upto == RX_INF)
        return RLX_OK;
    return push(t, (item){.kind = PLACES, .places = {s.upto, RX_INF, sid}});
}

/* A new scope for the schema; its keyword waits below all that the schema pushes. */
static rlx_status open_scope(tableau *t, const item *from, const rx_json *member, uint32_t *out)
{
    if (!rx_grow(&t->scopes, &t->cap_scopes, t->n_scopes + 1, sizeof *t->scopes))
        return rx_schema_memory(t->c);
    t->scopes[t->n_scopes] = (scope){.parent = from->scope, .keys = RX_EX_NONE};
    *out = (uint32_t)t->n_scopes++;
    return push(t, (item){.kind = CLOSE, .scope = *out, .schema = from->sid / 2,
                          .member = member});
}

/* ---- The loop -------------------------------------------------------------------------------- */

static rlx_status take_member(tableau *t, const item *k)
{
    switch (rx_keyword_find(t->c, k->member)) {
    case RX_KW_TYPE:
        return type_keyword(t, k);
    case RX_KW_ENUM:
    case RX_KW_CONST:
        return values(t, k, k->member, !strcmp(k->member->key, "const"));
    case RX_KW_ALL_OF:
        return all_of(t, k, false);
    case RX_KW_ANY_OF:
        return any_of(t, k);
    case RX_KW_ONE_OF:
        return one_of(t, k);
    case RX_KW_NOT: {
        item i, from = *k;
        from.scope = NO_SCOPE;
        RLX_TRY(schema_item(t, &from, k->member, !k->negative, &i));
        return push(t, i);
    }
    case RX_KW_IF:
        return if_then(t, k);
    case RX_KW_REF:
        return reference(t, k);
    case RX_KW_PROPERTIES:
        return properties(t, k, false);
    case RX_KW_PATTERNS:
        return properties(t, k, true);
    case RX_KW_ADDITIONAL:
        return additional(t, k);
    case RX_KW_PROPERTY_NAMES:
        return property_names(t, k);
    case RX_KW_REQUIRED:
        return required_keyword(t, k);
    case RX_KW_MIN_PROPERTIES:
    case RX_KW_MIN_ITEMS:
        return count(t, k, true);
    case RX_KW_MAX_PROPERTIES:
    case RX_KW_MAX_ITEMS:
        return count(t, k, false);
    case RX_KW_DEPENDENCIES:
    case RX_KW_DEPENDENT_REQUIRED:
    case RX_KW_DEPENDENT_SCHEMAS:
        return dependencies(t, k);
    case RX_KW_PREFIX_ITEMS:
        return prefix_items(t, k);
    case RX_KW_ITEMS:
        return items_keyword(t, k);
    case RX_KW_ADDITIONAL_ITEMS:
        return additional_items(t, k);
    case RX_KW_CONTAINS:
        return contains(t, k);
    case RX_KW_UNIQUE_ITEMS:
        return unique_items(t, k);
    case RX_KW_UNEVALUATED_PROPERTIES:
    case RX_KW_UNEVALUATED_ITEMS:
        return rx_schema_refuse(t->c, k->member->key, "cannot be negated");
    default:
        return RLX_OK;
    }
}

static bool is_unevaluated(rx_keyword k)
{
    return k == RX_KW_UNEVALUATED_PROPERTIES || k == RX_KW_UNEVALUATED_ITEMS;
}

/* Whether a keyword says something of what is looked at. */
static bool matters(const tableau *t, const rx_json *s, const rx_json *m)
{
    unsigned applies = rx_keywords[rx_keyword_find(t->c, m)].applies;
    return applies & (t->objects ? RX_FOR_OBJECTS : RX_FOR_ARRAYS) &&
           !rx_schema_only_ref(t->c, s, m);
}

static rlx_status take_members(tableau *t, const item *i)
{
    const rx_json *s = t->c->schemas[i->sid / 2].json;
    item member = {.kind = MEMBER, .schema = i->sid / 2, .scope = i->scope};
    for (const rx_json *m = s->first; m; m = m->next)
        if (matters(t, s, m) && is_unevaluated(rx_keyword_find(t->c, m)))
            RLX_TRY(open_scope(t, i, m, &member.scope));
    /* In reverse: the last one pushed is taken first. */
    size_t first = t->n_pending;
    for (const rx_json *m = s->first; m; m = m->next) {
        if (!matters(t, s, m) || is_unevaluated(rx_keyword_find(t->c, m)))
            continue;
        member.member = m;
        RLX_TRY(push(t, member));
    }
    for (size_t a = first, b = t->n_pending; a + 1 < b; a++, b--) {
        item swap = t->pending[a];
        t->pending[a] = t->pending[b - 1];
        t->pending[b - 1] = swap;
    }
    return RLX_OK;
}

static rlx_status take_schema(tableau *t, const item *i)
{
    const bool negative = i->sid & 1;
    const rx_json *s = t->c->schemas[i->sid / 2].json;
    if (++t->taken > MAX_TAKEN)
        return rx_schema_refuse(t->c, "$ref", "leads back to itself without a member or an item "
                                "between");
    if (s->kind == RX_JSON_BOOL) {
        t->dead = t->dead || s->truth == negative;
        return RLX_OK;
    }
    for (const rx_json *m = s->first; m; m = m->next)
        if (rx_keywords[rx_keyword_find(t->c, m)].applies & RX_REFUSED)
            return rx_schema_refuse(t->c, m->key, "cannot be decided when the grammar is made");
    if (!negative)
        return take_members(t, i);
    choice *e = new_choice(t);
    for (const rx_json *m = s->first; m; m = m->next)
        if (matters(t, s, m))
            RLX_TRY(choice_one(t, e, (item){.kind = MEMBER, .negative = true, .scope = NO_SCOPE,
                                            .schema = i->sid / 2, .member = m}));
    return push_choice(t, e);
}

static rlx_status add_statement(tableau *t, const item *i)
{
    rx_branch *b = &t->b;
    bool ok = b->n_every < RX_MAX_ATOMS && b->n_some < RX_MAX_ATOMS && b->n_places < RX_MAX_ATOMS;
    if (!ok)
        return rx_fail(t->c->err, RLX_UNSUPPORTED, "JSON Schema: more than %d keywords apply to "
                       "one place", RX_MAX_ATOMS);
    if (i->kind == EVERY && (ok = rx_grow(&b->every, &b->cap_every, b->n_every + 1,
                                          sizeof *b->every)))
        b->every[b->n_every++] = i->keys;
    if (i->kind == SOME && (ok = rx_grow(&b->some, &b->cap_some, b->n_some + 1, sizeof *b->some)))
        b->some[b->n_some++] = i->keys;
    if (i->kind == PLACES && (ok = rx_grow(&b->places, &b->cap_places, b->n_places + 1,
                                           sizeof *b->places)))
        b->places[b->n_places++] = i->places;
    if (i->kind == COUNTER && (ok = rx_grow(&b->counters, &b->cap_counters, b->n_counters + 1,
                                            sizeof *b->counters)))
        b->counters[b->n_counters++] = i->counter;
    if (i->kind == MIN && i->n > b->min)
        b->min = i->n;
    if (i->kind == MAX && i->n < b->max)
        b->max = i->n;
    t->dead = t->dead || b->min > b->max;
    return ok ? RLX_OK : rx_schema_memory(t->c);
}

static rlx_status run(tableau *t);

static rlx_status take_choice(tableau *t, const choice *e)
{
    uint32_t from = 0;
    for (size_t a = 0; a < e->n_ends; a++) {
        tableau other;
        rlx_status st = copy(&other, t) ? RLX_OK : rx_schema_memory(t->c);
        /* in reverse, so that the first item is taken first */
        for (uint32_t k = e->ends[a]; k > from && st == RLX_OK; k--)
            st = push(&other, e->items[k - 1]);
        from = e->ends[a];
        if (st == RLX_OK)
            st = run(&other);
        finish(&other);
        RLX_TRY(st);
    }
    return RLX_OK;
}

#define MAX_DEPTH 400

static rlx_status run(tableau *t)
{
    rlx_status st = RLX_OK;
    if (++t->c->n_branches > MAX_BRANCHES)
        return rx_fail(t->c->err, RLX_UNSUPPORTED, "JSON Schema: the boolean keywords (anyOf, "
                       "oneOf, not, if, ...) leave more than %d combinations", MAX_BRANCHES);
    if (t->taken > MAX_TAKEN || ++t->c->depth > MAX_DEPTH)
        return rx_fail(t->c->err, RLX_UNSUPPORTED, "JSON Schema: boolean keywords nested more than "
                       "%d deep", MAX_DEPTH);
    while (st == RLX_OK && !t->dead && t->n_pending) {
        const item i = t->pending[--t->n_pending];
        if (i.kind == CHOICE) {
            st = take_choice(t, i.either);
            t->c->depth--;
            return st;
        }
        st = i.kind == SCHEMA ? take_schema(t, &i) : i.kind == MEMBER ? take_member(t, &i)
             : i.kind == CLOSE ? close_scope(t, &i) : add_statement(t, &i);
    }
    t->c->depth--;
    return st == RLX_OK && !t->dead ? t->fn(t->c, t->user, &t->b) : st;
}

rlx_status rx_schema_branches(rx_compiler *c, const rx_sid *sids, size_t n, bool objects,
                              rx_branch_fn *fn, void *user)
{
    tableau t = {.c = c, .objects = objects, .fn = fn, .user = user};
    t.b = (rx_branch){.names = RX_EX_ALL, .max = RX_INF};
    rlx_status st = RLX_OK;
    c->depth = 0;
    for (size_t i = n; i-- > 0 && st == RLX_OK;)
        st = push(&t, (item){.kind = SCHEMA, .sid = sids[i], .scope = NO_SCOPE});
    if (st == RLX_OK)
        st = run(&t);
    finish(&t);
    return st == RLX_OK ? rx_exprs_check(c->x, "the JSON Schema", c->err) : st;
}
