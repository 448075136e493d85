/* SPDX-License-Identifier: MIT */
/* Branches become alternatives: which members an object may have, by name and by the patterns that
 * its keys match, and which items an array may have at each place; then code of the machine. */
#include <string.h>

#include "grammar/schema.h"

#define MAX_NEEDS 5
#define MAX_PATTERNS 12
#define MAX_PREFIX 4096

typedef struct builder {
    rx_compiler *c;
    const rx_branch *b;
    uint32_t node;
    rx_alternative *a;
    rx_choice *choices;
    size_t n_choices, cap_choices;
    rx_sid *sids;              /* scratch of a choice */
    const rx_for_keys *needs[32]; /* keys of which one must be there */
    uint32_t n_needs;
    rx_ex patterns[MAX_PATTERNS]; /* sets of keys that statements speak of */
    uint32_t n_patterns;
} builder;

/* Whether a schema is trivially false (or, with `yes`, true). */
static bool is_constant(const rx_compiler *c, rx_sid sid, bool yes)
{
    const rx_json *s = c->schemas[sid / 2].json;
    return s->kind == RX_JSON_BOOL && (s->truth != (sid & 1)) == yes;
}

static rlx_status add_choice(builder *w, rx_choice choice, size_t n_sids)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_sids; i++) {
        if (is_constant(w->c, w->sids[i], false))
            return RLX_OK;
        if (!is_constant(w->c, w->sids[i], true))
            w->sids[kept++] = w->sids[i];
    }
    rx_sid *copy = rx_alloc_array(kept + 1, sizeof *copy);
    if (!copy || !rx_grow(&w->choices, &w->cap_choices, w->n_choices + 1, sizeof *w->choices)) {
        rx_free(copy);
        return rx_schema_memory(w->c);
    }
    memcpy(copy, w->sids, kept * sizeof *copy);
    rlx_status st = rx_schema_node(w->c, copy, kept, &choice.node);
    rx_free(copy);
    w->choices[w->n_choices++] = choice;
    return st;
}

/* ---- Objects --------------------------------------------------------------------------------- */

static bool same_name(const rx_for_keys *k, const char *name, size_t n)
{
    return k->name && k->length == n && !memcmp(k->name, name, n);
}

static bool applies_to(builder *w, const rx_for_keys *k, const char *name, size_t n)
{
    return k->name ? same_name(k, name, n) : rx_ex_matches(w->c->x, k->keys, name, n);
}

/* Adds the choices for keys subject to the needs `which`: each combination of satisfying them or
 * not. */
static rlx_status add_with_needs(builder *w, rx_choice choice, size_t n_sids, uint32_t which)
{
    if (__builtin_popcount(which) > MAX_NEEDS)
        return rx_fail(w->c->err, RLX_UNSUPPORTED, "JSON Schema: more than %d negated keywords "
                       "look for a member of one kind", MAX_NEEDS);
    for (uint32_t set = which;; set = (set - 1) & which) {
        size_t n = n_sids;
        for (uint32_t i = 0; i < w->n_needs; i++)
            if (set >> i & 1)
                w->sids[n++] = w->needs[i]->sid;
        choice.marks = set;
        RLX_TRY(add_choice(w, choice, n));
        if (!set)
            return RLX_OK;
    }
}

static rlx_status add_name(builder *w, const char *name, size_t n, uint32_t bit, bool *required)
{
    const rx_branch *b = w->b;
    size_t n_sids = 0;
    uint32_t which = 0;
    *required = false;
    for (size_t i = 0; i < b->n_every; i++)
        if (applies_to(w, &b->every[i], name, n))
            w->sids[n_sids++] = b->every[i].sid;
    for (size_t i = 0; i < b->n_some; i++)
        if (same_name(&b->some[i], name, n)) {
            w->sids[n_sids++] = b->some[i].sid;
            *required = true;
        }
    for (uint32_t i = 0; i < w->n_needs; i++)
        if (rx_ex_matches(w->c->x, w->needs[i]->keys, name, n))
            which |= 1u << i;
    if (!rx_ex_matches(w->c->x, b->names, name, n))
        return RLX_OK;
    rx_choice choice = {.key = rx_ex_text(w->c->x, name, n), .name = bit, .order = bit};
    return add_with_needs(w, choice, n_sids, which);
}

/* Keys without a name of their own: each combination of the patterns that some key matches. */
static rlx_status add_others(builder *w, uint32_t pattern, rx_ex keys, uint32_t matched)
{
    const rx_branch *b = w->b;
    if (rx_ex_is_empty(w->c->x, keys))
        return rx_exprs_check(w->c->x, "the JSON Schema", w->c->err);
    if (pattern < w->n_patterns) {
        rx_ex p = w->patterns[pattern];
        RLX_TRY(add_others(w, pattern + 1, rx_ex_and(w->c->x, keys, p), matched | 1u << pattern));
        return add_others(w, pattern + 1, rx_ex_and(w->c->x, keys, rx_ex_not(w->c->x, p)),
                          matched);
    }
    size_t n = 0;
    uint32_t which = 0;
    for (uint32_t k = 0; k < w->n_patterns; k++) {
        if (!(matched >> k & 1))
            continue;
        for (size_t i = 0; i < b->n_every; i++)
            if (!b->every[i].name && b->every[i].keys == w->patterns[k])
                w->sids[n++] = b->every[i].sid;
        for (uint32_t i = 0; i < w->n_needs; i++)
            if (w->needs[i]->keys == w->patterns[k])
                which |= 1u << i;
    }
    rx_choice choice = {.key = keys, .name = RX_NO_BIT, .order = w->a->n_names};
    return add_with_needs(w, choice, n, which);
}

static rlx_status add_pattern(builder *w, rx_ex keys)
{
    for (uint32_t i = 0; i < w->n_patterns; i++)
        if (w->patterns[i] == keys)
            return RLX_OK;
    if (w->n_patterns == MAX_PATTERNS)
        return rx_schema_refuse(w->c, "patternProperties", "and others speak of more than 12 sets "
                                "of keys");
    w->patterns[w->n_patterns++] = keys;
    return RLX_OK;
}

/* Patterns and needs of the branch. */
static rlx_status collect_patterns(builder *w)
{
    const rx_branch *b = w->b;
    for (size_t i = 0; i < b->n_every; i++)
        if (!b->every[i].name)
            RLX_TRY(add_pattern(w, b->every[i].keys));
    for (size_t i = 0; i < b->n_some; i++) {
        if (b->some[i].name)
            continue;
        if (w->n_needs == 32)
            return rx_fail(w->c->err, RLX_UNSUPPORTED, "JSON Schema: more than 32 negated keywords "
                           "look for a member");
        w->needs[w->n_needs++] = &b->some[i];
        RLX_TRY(add_pattern(w, b->some[i].keys));
    }
    return RLX_OK;
}

static bool known_name(const rx_for_keys *list, size_t n, const rx_for_keys *k)
{
    for (size_t i = 0; i < n; i++)
        if (same_name(&list[i], k->name, k->length))
            return true;
    return false;
}

/* All names of the branch, once each, in the order of the schema: those with schemas first. */
static size_t collect_names(const rx_branch *b, const rx_for_keys **names)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_every; i++)
        if (b->every[i].name && !known_name(b->every, i, &b->every[i]))
            names[n++] = &b->every[i];
    for (size_t i = 0; i < b->n_some; i++)
        if (b->some[i].name && !known_name(b->every, b->n_every, &b->some[i]) &&
            !known_name(b->some, i, &b->some[i]))
            names[n++] = &b->some[i];
    return n;
}

static rlx_status build_object(builder *w)
{
    rx_compiler *c = w->c;
    const rx_for_keys **names = rx_arena_array(&c->p->arena, w->b->n_every + w->b->n_some + 1,
                                               sizeof *names);
    if (!names)
        return rx_schema_memory(c);
    RLX_TRY(collect_patterns(w));
    w->a->n_names = (uint32_t)collect_names(w->b, names);
    bool *required = rx_arena_zero(&c->p->arena, w->a->n_names + 1);
    if (!required)
        return rx_schema_memory(c);
    rx_ex others = w->b->names, literals = RX_EX_NONE;
    for (uint32_t i = 0; i < w->a->n_names; i++) {
        RLX_TRY(add_name(w, names[i]->name, names[i]->length, i, &required[i]));
        literals = rx_ex_or(c->x, literals, names[i]->keys);
    }
    others = rx_ex_and(c->x, others, rx_ex_not(c->x, literals));
    w->a->required = required;
    w->a->needs = w->n_needs == 32 ? UINT32_MAX : (1u << w->n_needs) - 1;
    return add_others(w, 0, others, 0);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* The choices at a place: each counter counts the item or not. */
static rlx_status add_items(builder *w, uint32_t place)
{
    const rx_branch *b = w->b;
    uint32_t which = 0;
    for (uint32_t k = 0; k < b->n_counters; k++)
        which |= (uint32_t)(place >= b->counters[k].from) << k;
    for (uint32_t set = which;; set = (set - 1) & which) {
        size_t n = 0;
        for (size_t i = 0; i < b->n_places; i++)
            if (place >= b->places[i].lo && place <= b->places[i].hi)
                w->sids[n++] = b->places[i].sid;
        for (uint32_t k = 0; k < b->n_counters; k++) {
            if (set >> k & 1)
                w->sids[n++] = b->counters[k].sid;
            else if (which >> k & 1 && b->counters[k].hi != RX_INF)
                w->sids[n++] = b->counters[k].sid ^ 1;
        }
        RLX_TRY(add_choice(w, (rx_choice){.order = place, .marks = set, .name = RX_NO_BIT}, n));
        if (!set)
            return RLX_OK;
    }
}

static rlx_status build_array(builder *w)
{
    const rx_branch *b = w->b;
    rx_alternative *a = w->a;
    if (b->n_counters > RX_MAX_COUNTERS)
        return rx_schema_refuse(w->c, "contains", "applies more than 4 times to one array");
    if (b->unique && b->max > 1)
        return rx_schema_refuse(w->c, "uniqueItems", "cannot be decided by a grammar for arrays of "
                                "more than one item");
    for (size_t i = 0; i < b->n_places; i++) {
        uint32_t n = b->places[i].hi == RX_INF ? b->places[i].lo : b->places[i].hi + 1;
        a->n_prefix = n > a->n_prefix ? n : a->n_prefix;
    }
    for (size_t k = 0; k < b->n_counters; k++) {
        a->n_prefix = b->counters[k].from > a->n_prefix ? b->counters[k].from : a->n_prefix;
        a->lo[k] = b->counters[k].lo;
        a->hi[k] = b->counters[k].hi;
    }
    a->n_counters = (uint32_t)b->n_counters;
    if (a->n_prefix > MAX_PREFIX)
        return rx_schema_refuse(w->c, "prefixItems", "has more than 4096 places");
    for (uint32_t place = 0; place <= a->n_prefix; place++)
        RLX_TRY(add_items(w, place));
    return RLX_OK;
}

/* ---- Alternatives ---------------------------------------------------------------------------- */

typedef struct target {
    uint32_t node;
    bool objects;
} target;

static rlx_status add_branch(rx_compiler *c, void *user, const rx_branch *b)
{
    const target *to = user;
    const size_t most = b->n_every + b->n_some + b->n_places + b->n_counters + 1;
    rx_alternative *a = rx_arena_zero(&c->p->arena, sizeof *a);
    builder w = {.c = c, .b = b, .node = to->node, .a = a};
    w.sids = rx_alloc_array(most + 32, sizeof *w.sids);
    rlx_status st = a && w.sids ? RLX_OK : rx_schema_memory(c);
    if (st == RLX_OK) {
        *a = (rx_alternative){.is_object = to->objects, .min = b->min, .max = b->max};
        st = to->objects ? build_object(&w) : build_array(&w);
    }
    if (st == RLX_OK && w.n_choices) {
        a->choices = rx_arena_array_copy(&c->p->arena, w.choices, w.n_choices, sizeof *w.choices);
        st = a->choices ? RLX_OK : rx_schema_memory(c);
    }
    if (st == RLX_OK) {
        rx_alternative **last = &c->nodes[to->node].alternatives;
        a->n_choices = (uint32_t)w.n_choices;
        while (*last)
            last = &(*last)->next;
        *last = a;
    }
    rx_free(w.choices);
    rx_free(w.sids);
    return st;
}

rlx_status rx_schema_alternatives(rx_compiler *c, uint32_t node)
{
    target objects = {node, true}, arrays = {node, false};
    const rx_sid *sids = c->nodes[node].sids;
    const size_t n = c->nodes[node].n;
    RLX_TRY(rx_schema_branches(c, sids, n, true, add_branch, &objects));
    return rx_schema_branches(c, sids, n, false, add_branch, &arrays);
}

static bool usable(const rx_compiler *c, const rx_choice *k)
{
    return c->nodes[k->node].productive;
}

static bool object_productive(const rx_compiler *c, const rx_alternative *a)
{
    uint32_t marks = 0, n_required = 0, n_names = 0, last = RX_NO_BIT;
    bool unlimited = false;
    for (uint32_t i = 0; i < a->n_names; i++)
        n_required += a->required[i];
    uint32_t missing = n_required;
    for (uint32_t i = 0; i < a->n_choices; i++) {
        const rx_choice *k = &a->choices[i];
        if (!usable(c, k))
            continue;
        marks |= k->marks;
        unlimited = unlimited || k->name == RX_NO_BIT;
        if (k->name == RX_NO_BIT || k->name == last)
            continue;
        last = k->name;
        n_names++;
        missing -= a->required[k->name];
    }
    return !missing && !(a->needs & ~marks) && n_required <= a->max &&
           (unlimited || n_names >= a->min) && (a->max || !a->needs);
}

static bool array_productive(const rx_compiler *c, const rx_alternative *a)
{
    uint32_t reach = 0, counted = 0;
    bool has = true;
    while (has && reach <= a->n_prefix) {
        has = false;
        for (uint32_t i = 0; i < a->n_choices; i++)
            if (a->choices[i].order == reach && usable(c, &a->choices[i])) {
                has = true;
                counted |= a->choices[i].marks;
            }
        reach += has;
    }
    for (uint32_t k = 0; k < a->n_counters; k++)
        if (a->lo[k] > a->hi[k] || (a->lo[k] && !(counted >> k & 1)) || a->lo[k] > a->max)
            return false;
    return reach > a->n_prefix || reach >= a->min;
}

bool rx_alternative_productive(const rx_compiler *c, const rx_alternative *a)
{
    return a->is_object ? object_productive(c, a) : array_productive(c, a);
}

/* ---- Code ------------------------------------------------------------------------------------ */

static void emit_term(rx_compiler *c, rx_ex e, rx_term_mode mode)
{
    rx_emit(c->p, (rx_ins){.op = RX_INS_TERM, .mode = (uint8_t)mode, .a = e});
}

static rx_ex text(rx_compiler *c, const char *s)
{
    return rx_ex_text(c->x, s, strlen(s));
}

/* A mark and white space after it. */
static void emit_mark(rx_compiler *c, const char *s)
{
    emit_term(c, rx_ex_cat(c->x, text(c, s), c->space), RX_TERM_TEXT);
}

static uint32_t emit_member(rx_compiler *c, uint32_t object, const rx_choice *k)
{
    uint32_t pc = (uint32_t)c->p->n_code;
    emit_term(c, text(c, "\""), RX_TERM_TEXT);
    emit_term(c, k->key, c->strings);
    rx_ex colon = rx_ex_cat(c->x, c->space, rx_ex_cat(c->x, text(c, ":"), c->space));
    emit_term(c, rx_ex_cat(c->x, text(c, "\""), colon), RX_TERM_TEXT);
    rx_emit(c->p, (rx_ins){.op = RX_INS_CALL, .a = k->node});
    emit_term(c, c->space, RX_TERM_TEXT);
    rx_emit(c->p, (rx_ins){.op = RX_INS_OBJECT_MORE, .a = object});
    return pc;
}

/* The code around members or items: returns after the opening mark and before any of them. */
static void emit_frame(rx_compiler *c, const char marks[3], rx_ins next, uint32_t *close,
                       uint32_t *comma)
{
    const char open[] = {marks[0], 0}, end[] = {marks[1], 0};
    emit_mark(c, open);
    next.b = 1;
    rx_emit(c->p, next);
    *close = (uint32_t)c->p->n_code;
    emit_term(c, text(c, end), RX_TERM_TEXT);
    rx_emit(c->p, (rx_ins){.op = RX_INS_RETURN});
    *comma = (uint32_t)c->p->n_code;
    emit_mark(c, ",");
    next.b = 0;
    rx_emit(c->p, next);
}

static bool fill_required(rx_compiler *c, const rx_alternative *a, rx_object *o)
{
    const size_t words = (size_t)a->n_names / 32 + 1;
    uint32_t *bits = rx_arena_array_zero(&c->p->arena, words * (a->n_names + 2), sizeof *bits);
    if (!bits)
        return false;
    o->n_words = (uint32_t)words;
    o->required = bits;
    o->required_before = bits + words;
    for (uint32_t i = 0; i < a->n_names; i++) {
        uint32_t *before = bits + words * (i + 1);
        memcpy(before, bits, words * sizeof *bits);
        if (a->required[i])
            bits[i / 32] |= 1u << (i % 32);
    }
    memcpy(bits + words * (a->n_names + 1), bits, words * sizeof *bits);
    return true;
}

static rlx_status emit_object(rx_compiler *c, const rx_alternative *a)
{
    rx_program *p = c->p;
    const uint32_t id = (uint32_t)p->n_objects;
    rx_member *members = rx_arena_array_zero(&p->arena, a->n_choices + 1, sizeof *members);
    rx_object o = {.members = members, .n_names = a->n_names, .needs = a->needs, .min = a->min,
                   .max = a->max, .ordered = c->form != RLX_JSON_READ};
    if (!members || !fill_required(c, a, &o) ||
        !rx_grow(&p->objects, &p->cap_objects, p->n_objects + 1, sizeof *p->objects))
        return rx_schema_memory(c);
    p->n_objects++;
    emit_frame(c, "{}", (rx_ins){.op = RX_INS_OBJECT_NEXT, .a = id}, &o.close_pc, &o.comma_pc);
    for (uint32_t i = 0; i < a->n_choices; i++) {
        const rx_choice *k = &a->choices[i];
        if (!usable(c, k))
            continue;
        members[o.n_members++] = (rx_member){emit_member(c, id, k), k->name, k->marks, k->order};
        o.unlimited = o.unlimited || k->name == RX_NO_BIT;
    }
    p->objects[id] = o;
    return RLX_OK;
}

static rlx_status emit_array(rx_compiler *c, const rx_alternative *a)
{
    rx_program *p = c->p;
    const uint32_t id = (uint32_t)p->n_arrays;
    rx_item *items = rx_arena_array_zero(&p->arena, a->n_choices + 1, sizeof *items);
    uint32_t *first = rx_arena_array_zero(&p->arena, a->n_prefix + 2, sizeof *first), n = 0;
    rx_array r = {.items = items, .first = first, .n_prefix = a->n_prefix, .min = a->min,
                  .max = a->max, .n_counters = a->n_counters};
    if (!items || !first ||
        !rx_grow(&p->arrays, &p->cap_arrays, p->n_arrays + 1, sizeof *p->arrays))
        return rx_schema_memory(c);
    p->n_arrays++;
    memcpy(r.lo, a->lo, sizeof r.lo);
    memcpy(r.hi, a->hi, sizeof r.hi);
    emit_frame(c, "[]", (rx_ins){.op = RX_INS_ARRAY_NEXT, .a = id}, &r.close_pc, &r.comma_pc);
    for (uint32_t place = 0, i = 0; place <= a->n_prefix; place++) {
        first[place] = n;
        for (; i < a->n_choices && a->choices[i].order == place; i++) {
            if (!usable(c, &a->choices[i]))
                continue;
            items[n++] = (rx_item){(uint32_t)p->n_code, a->choices[i].marks};
            rx_emit(p, (rx_ins){.op = RX_INS_CALL, .a = a->choices[i].node});
            emit_term(c, c->space, RX_TERM_TEXT);
            rx_emit(p, (rx_ins){.op = RX_INS_ARRAY_MORE, .a = id});
        }
        first[place + 1] = n;
    }
    p->arrays[id] = r;
    return RLX_OK;
}

rlx_status rx_schema_emit(rx_compiler *c, const rx_alternative *a)
{
    return a->is_object ? emit_object(c, a) : emit_array(c, a);
}
