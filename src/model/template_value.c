/* SPDX-License-Identifier: MIT */
/* Values of templates: constructors, predicates, comparison. */
#include "model/template_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/posix.h"
#include "model/unicode.h"

/* ---- Failures, memory, effort ---------------------------------------------------------------- */

rx_value rx_env_fail(rx_env *e, const char *fmt, ...)
{
    if (e->status != RLX_OK)
        return rx_undefined(NULL, 0);
    rlx_error inner = {0};
    va_list args;
    va_start(args, fmt);
    rx_vfail(&inner, RLX_INVALID, fmt, args);
    va_end(args);
    e->status = rx_fail(e->err, RLX_INVALID, "chat template, line %d: %s", e->line, inner.text);
    return rx_undefined(NULL, 0);
}

bool rx_env_room(rx_env *e, uint64_t bytes)
{
    if (e->status == RLX_OK && bytes > RX_TEMPLATE_MEMORY - e->memory)
        rx_env_fail(e, "needs more than %zu bytes of memory", RX_TEMPLATE_MEMORY);
    if (e->status == RLX_OK)
        e->memory += (size_t)bytes;
    return e->status == RLX_OK;
}

void *rx_env_alloc(rx_env *e, uint64_t bytes)
{
    if (!rx_env_room(e, bytes))
        return NULL;
    void *p = rx_arena_alloc(&e->arena, bytes);
    if (!p)
        e->status = rx_fail_memory(e->err, "rendering a chat template", bytes);
    return p;
}

void *rx_env_array(rx_env *e, uint64_t n, uint64_t item)
{
    return rx_env_alloc(e, rx_array_bytes(n, item));
}

bool rx_env_step(rx_env *e, size_t n)
{
    if (e->status != RLX_OK)
        return false;
    e->steps += (int64_t)(n < RX_TEMPLATE_STEPS ? n : RX_TEMPLATE_STEPS);
    if (e->steps > RX_TEMPLATE_STEPS)
        rx_env_fail(e, "takes more than %d steps", RX_TEMPLATE_STEPS);
    return e->status == RLX_OK;
}

bool rx_env_bytes(rx_env *e, size_t n)
{
    return rx_env_step(e, n / 64 + 1);
}

/* ---- Making ---------------------------------------------------------------------------------- */

rx_value rx_undefined(const char *name, size_t n)
{
    return (rx_value){.kind = RX_V_UNDEFINED, .s = name, .n = n};
}

rx_value rx_none(void) { return (rx_value){.kind = RX_V_NONE}; }
rx_value rx_bool(bool b) { return (rx_value){.kind = RX_V_BOOL, .i = b}; }
rx_value rx_int(int64_t i) { return (rx_value){.kind = RX_V_INT, .i = i}; }
rx_value rx_real(double d) { return (rx_value){.kind = RX_V_FLOAT, .d = d}; }
rx_value rx_function(rx_builtin *f) { return (rx_value){.kind = RX_V_FUNCTION, .function = f}; }

rx_value rx_text(const char *s, size_t n)
{
    return (rx_value){.kind = RX_V_STRING, .s = s, .n = n};
}

rx_value rx_copy_text(rx_env *e, const char *s, size_t n)
{
    char *copy = rx_env_alloc(e, n);
    if (!copy)
        return rx_undefined(NULL, 0);
    if (n)
        memcpy(copy, s, n);
    return rx_text(copy, n);
}

rx_value rx_take_text(rx_env *e, rx_str *s)
{
    rx_value v = rx_undefined(NULL, 0);
    if (s->failed && e->status == RLX_OK)
        e->status = rx_fail_memory(e->err, "rendering a chat template", s->n);
    else
        v = rx_copy_text(e, s->data, s->n);
    rx_str_finish(s);
    return v;
}

rx_value rx_new_list(rx_env *e, bool is_tuple)
{
    rx_list *l = rx_env_alloc(e, sizeof *l);
    if (!l)
        return rx_undefined(NULL, 0);
    *l = (rx_list){.is_tuple = is_tuple};
    return (rx_value){.kind = RX_V_LIST, .list = l};
}

rx_value rx_new_dict(rx_env *e)
{
    rx_dict *d = rx_env_alloc(e, sizeof *d);
    if (!d)
        return rx_undefined(NULL, 0);
    *d = (rx_dict){0};
    return (rx_value){.kind = RX_V_DICT, .dict = d};
}

/* Grows by one item; old arrays stay in the arena. */
static bool grow(rx_env *e, void **items, size_t n, size_t *cap, size_t item)
{
    if (n < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 4;
    void *bigger = rx_env_array(e, more, item);
    if (!bigger)
        return false;
    if (n)
        memcpy(bigger, *items, n * item);
    *items = bigger;
    *cap = more;
    return true;
}

void rx_list_add(rx_env *e, rx_list *l, rx_value v)
{
    void *items = l->items;
    if (!rx_env_step(e, 1) || !grow(e, &items, l->n, &l->cap, sizeof v))
        return;
    l->items = items;
    l->items[l->n++] = v;
}

rx_value *rx_dict_find(rx_env *e, const rx_dict *d, rx_value key)
{
    rx_env_step(e, d->n / 8 + 1);
    for (size_t i = 0; i < d->n && e->status == RLX_OK; i++)
        if (rx_equal(e, d->items[i].key, key))
            return &d->items[i].value;
    return NULL;
}

rx_value *rx_dict_find_name(rx_env *e, const rx_dict *d, const char *name, size_t n)
{
    return rx_dict_find(e, d, rx_text(name, n));
}

void rx_dict_set(rx_env *e, rx_dict *d, rx_value key, rx_value value)
{
    rx_value *old = rx_dict_find(e, d, key);
    if (old) {
        *old = value;
        return;
    }
    if (key.kind == RX_V_LIST || key.kind == RX_V_DICT) {
        rx_env_fail(e, "%s cannot be the key of a mapping", rx_kind_name(key));
        return;
    }
    void *items = d->items;
    if (e->status != RLX_OK || !grow(e, &items, d->n, &d->cap, sizeof d->items[0]))
        return;
    d->items = items;
    d->items[d->n++] = (rx_pair){key, value};
}

static rx_value number_from_json(const rx_json *v)
{
    bool is_int = !strpbrk(v->text, ".eE");
    char *end;
    long long i = strtoll(v->text, &end, 10);
    if (is_int && i != INT64_MAX && i != INT64_MIN)
        return rx_int(i);
    return rx_real(strtod(v->text, NULL));
}

rx_value rx_from_json(rx_env *e, const rx_json *v, int depth)
{
    rx_value out = rx_none();
    if (depth > RX_TEMPLATE_DEPTH)
        return rx_env_fail(e, "variables are nested more than %d deep", RX_TEMPLATE_DEPTH);
    switch (v->kind) {
    case RX_JSON_NULL: return out;
    case RX_JSON_BOOL: return rx_bool(v->truth);
    case RX_JSON_NUMBER: return number_from_json(v);
    case RX_JSON_STRING: return rx_text(v->text, v->length);
    case RX_JSON_ARRAY:
        out = rx_new_list(e, false);
        for (const rx_json *i = v->first; i && e->status == RLX_OK; i = i->next)
            rx_list_add(e, out.list, rx_from_json(e, i, depth + 1));
        return out;
    case RX_JSON_OBJECT:
        out = rx_new_dict(e);
        for (const rx_json *i = v->first; i && e->status == RLX_OK; i = i->next)
            rx_dict_set(e, out.dict, rx_text(i->key, i->key_length), rx_from_json(e, i, depth + 1));
        return out;
    }
    return out;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

bool rx_is_text(rx_value v, const char *text)
{
    return v.kind == RX_V_STRING && v.n == strlen(text) && !memcmp(v.s, text, v.n);
}

bool rx_is_number(rx_value v)
{
    return v.kind == RX_V_BOOL || v.kind == RX_V_INT || v.kind == RX_V_FLOAT;
}

double rx_number(rx_value v)
{
    return v.kind == RX_V_FLOAT ? v.d : (double)v.i;
}

bool rx_truth(rx_value v)
{
    switch (v.kind) {
    case RX_V_UNDEFINED: case RX_V_NONE: return false;
    case RX_V_BOOL: case RX_V_INT: return v.i != 0;
    case RX_V_FLOAT: return v.d != 0;
    case RX_V_STRING: return v.n != 0;
    case RX_V_LIST: return v.list->n != 0;
    case RX_V_DICT: return v.dict->n != 0 || v.dict->is_namespace;
    default: return true;
    }
}

const char *rx_kind_name(rx_value v)
{
    static const char *const names[] = {
        [RX_V_UNDEFINED] = "an undefined value", [RX_V_NONE] = "none", [RX_V_BOOL] = "a boolean",
        [RX_V_INT] = "an integer", [RX_V_FLOAT] = "a float", [RX_V_STRING] = "a string",
        [RX_V_LIST] = "a list", [RX_V_DICT] = "a mapping", [RX_V_MACRO] = "a macro",
        [RX_V_FUNCTION] = "a function", [RX_V_LOOP] = "a loop",
    };
    return names[v.kind];
}

static bool equal_lists(rx_env *e, const rx_list *a, const rx_list *b)
{
    if (a->n != b->n || a->is_tuple != b->is_tuple || !rx_env_step(e, a->n / 8))
        return false;
    for (size_t i = 0; i < a->n && e->status == RLX_OK; i++)
        if (!rx_equal(e, a->items[i], b->items[i]))
            return false;
    return true;
}

static bool equal_dicts(rx_env *e, const rx_dict *a, const rx_dict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n && e->status == RLX_OK; i++) {
        const rx_value *other = rx_dict_find(e, b, a->items[i].key);
        if (!other || !rx_equal(e, a->items[i].value, *other))
            return false;
    }
    return true;
}

bool rx_equal(rx_env *e, rx_value a, rx_value b)
{
    if (rx_is_number(a) && rx_is_number(b)) {
        if (a.kind != RX_V_FLOAT && b.kind != RX_V_FLOAT)
            return a.i == b.i;
        return rx_number(a) == rx_number(b);
    }
    if (a.kind != b.kind)
        return false;
    if (a.kind == RX_V_STRING)
        return a.n == b.n && (a.n < 64 || rx_env_bytes(e, a.n)) && !memcmp(a.s, b.s, a.n);
    if (a.kind == RX_V_NONE || a.kind == RX_V_UNDEFINED)
        return true;
    if (a.kind != RX_V_LIST && a.kind != RX_V_DICT)
        return a.list == b.list;
    if (a.list == b.list || !rx_env_step(e, 1))
        return true;
    if (++e->depth > RX_TEMPLATE_DEPTH) {
        rx_env_fail(e, "values are nested more than %d deep", RX_TEMPLATE_DEPTH);
        return false;
    }
    bool same = a.kind == RX_V_LIST ? equal_lists(e, a.list, b.list)
                                    : equal_dicts(e, a.dict, b.dict);
    e->depth--;
    return same;
}

static int compare_lists(rx_env *e, const rx_list *a, const rx_list *b)
{
    for (size_t i = 0; i < a->n && i < b->n && rx_env_step(e, 1); i++)
        if (!rx_equal(e, a->items[i], b->items[i]))
            return rx_compare(e, a->items[i], b->items[i]);
    return (a->n > b->n) - (a->n < b->n);
}

int rx_compare(rx_env *e, rx_value a, rx_value b)
{
    if (rx_is_number(a) && rx_is_number(b)) {
        if (a.kind != RX_V_FLOAT && b.kind != RX_V_FLOAT)
            return (a.i > b.i) - (a.i < b.i);
        return (rx_number(a) > rx_number(b)) - (rx_number(a) < rx_number(b));
    }
    if (a.kind == RX_V_STRING && b.kind == RX_V_STRING) {
        const size_t n = a.n < b.n ? a.n : b.n;
        int order = rx_env_bytes(e, n) ? memcmp(a.s, b.s, n) : 0;
        return order ? order : (a.n > b.n) - (a.n < b.n);
    }
    if (a.kind == RX_V_LIST && b.kind == RX_V_LIST && ++e->depth < RX_TEMPLATE_DEPTH) {
        int order = compare_lists(e, a.list, b.list);
        e->depth--;
        return order;
    }
    rx_env_fail(e, "%s and %s have no order", rx_kind_name(a), rx_kind_name(b));
    return 0;
}

bool rx_contains(rx_env *e, rx_value in, rx_value v)
{
    switch (in.kind) {
    case RX_V_STRING:
        if (v.kind != RX_V_STRING) {
            rx_env_fail(e, "'in' a string expects a string, found %s", rx_kind_name(v));
            return false;
        }
        return rx_env_bytes(e, in.n + v.n) && (v.n == 0 || memmem(in.s, in.n, v.s, v.n) != NULL);
    case RX_V_LIST:
        rx_env_step(e, in.list->n / 8 + 1);
        for (size_t i = 0; i < in.list->n && e->status == RLX_OK; i++)
            if (rx_equal(e, in.list->items[i], v))
                return true;
        return false;
    case RX_V_DICT: return rx_dict_find(e, in.dict, v) != NULL;
    case RX_V_UNDEFINED: return false;
    default: rx_env_fail(e, "'in' expects a list, a mapping or a string, found %s",
                         rx_kind_name(in));
    }
    return false;
}

rx_list *rx_elements(rx_env *e, rx_value v)
{
    if (v.kind == RX_V_LIST)
        return v.list;
    rx_value out = rx_new_list(e, false);
    if (out.kind != RX_V_LIST)
        return NULL;
    if (v.kind == RX_V_DICT)
        for (size_t i = 0; i < v.dict->n && e->status == RLX_OK; i++)
            rx_list_add(e, out.list, v.dict->items[i].key);
    else if (v.kind == RX_V_STRING)
        for (size_t at = 0, n; at < v.n && e->status == RLX_OK; at += n) {
            uint32_t code;
            n = rx_utf8_get(v.s + at, v.n - at, &code);
            rx_list_add(e, out.list, rx_text(v.s + at, n));
        }
    else if (v.kind != RX_V_UNDEFINED)
        rx_env_fail(e, "expected a list, a mapping or a string, found %s", rx_kind_name(v));
    return e->status == RLX_OK ? out.list : NULL;
}

size_t rx_count_letters(rx_value v)
{
    size_t n = 0;
    for (size_t at = 0; at < v.n; n++) {
        uint32_t code;
        at += rx_utf8_get(v.s + at, v.n - at, &code);
    }
    return n;
}

size_t rx_letter_at(rx_value v, size_t i)
{
    size_t at = 0;
    for (; at < v.n && i; i--) {
        uint32_t code;
        at += rx_utf8_get(v.s + at, v.n - at, &code);
    }
    return at;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

rx_value rx_arg(const rx_args *args, size_t i, const char *name, rx_value missing)
{
    if (i < args->n)
        return args->items[i];
    for (size_t k = 0; k < args->n_keywords; k++)
        if (args->keywords[k].length == strlen(name) &&
            !memcmp(args->keywords[k].name, name, args->keywords[k].length))
            return args->keywords[k].value;
    return missing;
}

int64_t rx_arg_int(rx_env *e, const rx_args *args, size_t i, const char *name, int64_t missing)
{
    rx_value v = rx_arg(args, i, name, rx_int(missing));
    if (v.kind == RX_V_NONE)
        return missing;
    if (v.kind != RX_V_INT && v.kind != RX_V_BOOL) {
        rx_env_fail(e, "'%s' is %s; expected an integer", name, rx_kind_name(v));
        return missing;
    }
    return v.i;
}
