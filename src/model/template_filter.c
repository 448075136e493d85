/* SPDX-License-Identifier: MIT */
/* The filters of templates and the tests after `is`, each a row of a table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/template_value.h"
#include "model/unicode.h"

/* ---- Helpers--------------------------------------------------------------------------------- */

static rx_value call_name(rx_env *e, rx_value self, const char *method, const rx_args *args)
{
    self = rx_to_text(e, self);
    rx_builtin *f = rx_find_method(self, method, strlen(method));
    return f && e->status == RLX_OK ? f(e, self, args) : rx_undefined(NULL, 0);
}

/* The attribute "a.b.0" of a value. */
static rx_value get_path(rx_env *e, rx_value v, rx_value path)
{
    if (path.kind == RX_V_INT)
        return rx_get_item(e, v, path);
    if (path.kind != RX_V_STRING)
        return rx_env_fail(e, "'attribute' is %s; expected a string", rx_kind_name(path));
    const char *s = path.s, *end = s + path.n;
    while (s <= end && e->status == RLX_OK && v.kind != RX_V_UNDEFINED) {
        const char *dot = memchr(s, '.', (size_t)(end - s));
        const char *stop = dot ? dot : end;
        rx_value key = rx_text(s, (size_t)(stop - s));
        bool digits = stop > s && stop - s < 10;
        int64_t number = 0;
        for (const char *p = s; p < stop && digits; p++) {
            digits = *p >= '0' && *p <= '9';
            number = number * 10 + (*p - '0');
        }
        v = rx_get_item(e, v, digits ? rx_int(number) : key);
        s = stop + 1;
    }
    return v;
}

static rx_value lower(rx_env *e, rx_value v)
{
    static const rx_args none;
    return v.kind == RX_V_STRING ? call_name(e, v, "lower", &none) : v;
}

/* The sort key of an element. */
static rx_value sort_key(rx_env *e, rx_value v, rx_value attribute, bool exact)
{
    if (attribute.kind != RX_V_NONE && attribute.kind != RX_V_UNDEFINED)
        v = get_path(e, v, attribute);
    return exact ? v : lower(e, v);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static rx_value filter_trim(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value chars = rx_arg(args, 0, "chars", rx_none());
    rx_args inner = {.items = &chars, .n = chars.kind == RX_V_STRING};
    return call_name(e, self, "strip", &inner);
}

static rx_value filter_upper(rx_env *e, rx_value self, const rx_args *args)
{
    return call_name(e, self, "upper", args);
}

static rx_value filter_lower(rx_env *e, rx_value self, const rx_args *args)
{
    return call_name(e, self, "lower", args);
}

static rx_value filter_capitalize(rx_env *e, rx_value self, const rx_args *args)
{
    return call_name(e, self, "capitalize", args);
}

static rx_value filter_title(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value text = call_name(e, self, "lower", args);
    rx_value copy = e->status == RLX_OK ? rx_copy_text(e, text.s, text.n) : text;
    rx_env_bytes(e, copy.n);
    bool begins = true;
    for (size_t i = 0; e->status == RLX_OK && i < copy.n; i++) {
        char *c = (char *)(uintptr_t)copy.s + i;
        if (begins && *c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
        begins = *c && strchr("-({[< \t\n\r\v\f", *c);
    }
    return copy;
}

static rx_value filter_replace(rx_env *e, rx_value self, const rx_args *args)
{
    return call_name(e, self, "replace", args);
}

static rx_value filter_string(rx_env *e, rx_value self, const rx_args *args)
{
    (void)args;
    return rx_to_text(e, self);
}

static rx_value filter_safe(rx_env *e, rx_value self, const rx_args *args)
{
    (void)e, (void)args;
    return self;
}

static rx_value filter_format(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value values = rx_new_list(e, true);
    for (size_t i = 0; i < args->n && e->status == RLX_OK; i++)
        rx_list_add(e, values.list, args->items[i]);
    return e->status == RLX_OK ? rx_percent(e, rx_to_text(e, self), values) : self;
}

static rx_value filter_indent(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value width = rx_arg(args, 0, "width", rx_int(4)), text = rx_to_text(e, self);
    const bool first = rx_truth(rx_arg(args, 1, "first", rx_bool(false)));
    const bool blank = rx_truth(rx_arg(args, 2, "blank", rx_bool(false)));
    if (width.kind == RX_V_INT)
        width = rx_binary(e, RX_BINOP_MUL, rx_text(" ", 1), width);
    if (e->status != RLX_OK || width.kind != RX_V_STRING)
        return rx_env_fail(e, "indent by %s; expected an integer or a string",
                           rx_kind_name(width));
    rx_str s = {0};
    for (size_t at = 0; at < text.n || at == 0;) {
        const char *line = text.s + at, *stop = text.n ? memchr(line, '\n', text.n - at) : NULL;
        size_t n = stop ? (size_t)(stop - line) : text.n - at;
        const size_t add = (at ? n || blank : first) ? width.n : 0;
        if (!rx_env_room(e, add) || !rx_env_bytes(e, n + add))
            break;
        rx_str_add(&s, width.s, add);
        rx_str_add(&s, line, n + (stop != NULL));
        at += n + 1;
    }
    return rx_take_text(e, &s);
}

static rx_value filter_tojson(rx_env *e, rx_value self, const rx_args *args)
{
    rx_str s = {0};
    rx_json_style style = {.indent = -1};
    rx_value separators = rx_arg(args, SIZE_MAX, "separators", rx_none());
    rx_value indent = rx_arg(args, 0, "indent", rx_none());
    if (indent.kind == RX_V_BOOL)
        indent = rx_arg(args, SIZE_MAX, "indent", rx_none()); /* tojson(ensure_ascii) by place */
    if (indent.kind == RX_V_INT)
        style.indent = indent.i < 0 ? 0 : indent.i < 64 ? indent.i : 64;
    style.ascii = rx_truth(rx_arg(args, SIZE_MAX, "ensure_ascii", rx_bool(false)));
    style.sorted = rx_truth(rx_arg(args, SIZE_MAX, "sort_keys", rx_bool(false)));
    style.item = style.indent < 0 ? rx_text(", ", 2) : rx_text(",", 1);
    style.key = rx_text(": ", 2);
    if (separators.kind == RX_V_LIST && separators.list->n == 2 &&
        separators.list->items[0].kind == RX_V_STRING &&
        separators.list->items[1].kind == RX_V_STRING) {
        style.item = separators.list->items[0];
        style.key = separators.list->items[1];
    }
    rx_print_json(e, &s, self, &style, 0);
    return rx_take_text(e, &s);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static rx_value filter_length(rx_env *e, rx_value self, const rx_args *args)
{
    (void)args;
    switch (self.kind) {
    case RX_V_STRING:
        return rx_env_bytes(e, self.n) ? rx_int((int64_t)rx_count_letters(self)) : rx_int(0);
    case RX_V_LIST: return rx_int((int64_t)self.list->n);
    case RX_V_DICT: return rx_int((int64_t)self.dict->n);
    case RX_V_UNDEFINED: return rx_int(0);
    default: return rx_env_fail(e, "the length of %s", rx_kind_name(self));
    }
}

static rx_value filter_first(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *l = rx_elements(e, self);
    (void)args;
    return l && l->n ? l->items[0] : rx_undefined(NULL, 0);
}

static rx_value filter_last(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *l = rx_elements(e, self);
    (void)args;
    return l && l->n ? l->items[l->n - 1] : rx_undefined(NULL, 0);
}

static rx_value filter_list(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *l = rx_elements(e, self);
    rx_value out = rx_new_list(e, false);
    (void)args;
    for (size_t i = 0; l && i < l->n && e->status == RLX_OK; i++)
        rx_list_add(e, out.list, l->items[i]);
    return out;
}

static rx_value filter_reverse(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *l = rx_elements(e, self);
    rx_value out = rx_new_list(e, false);
    (void)args;
    for (size_t i = l ? l->n : 0; i-- && e->status == RLX_OK;)
        rx_list_add(e, out.list, l->items[i]);
    if (self.kind != RX_V_STRING || e->status != RLX_OK)
        return out;
    rx_str s = {0};
    for (size_t i = 0; i < out.list->n; i++)
        rx_str_add(&s, out.list->items[i].s, out.list->items[i].n);
    return rx_take_text(e, &s);
}

static rx_value filter_join(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *l = rx_elements(e, self);
    rx_value by = rx_to_text(e, rx_arg(args, 0, "d", rx_text("", 0)));
    rx_value attribute = rx_arg(args, 1, "attribute", rx_none());
    rx_str s = {0};
    for (size_t i = 0; l && i < l->n && rx_env_step(e, 1); i++) {
        rx_value v = rx_to_text(e, sort_key(e, l->items[i], attribute, true));
        if (e->status != RLX_OK || !rx_env_room(e, v.n + by.n) || !rx_env_bytes(e, v.n + by.n))
            break;
        rx_str_add(&s, by.s, i ? by.n : 0);
        rx_str_add(&s, v.s, v.n);
    }
    return rx_take_text(e, &s);
}

static rx_value filter_default(rx_env *e, rx_value self, const rx_args *args)
{
    (void)e;
    const bool by_truth = rx_truth(rx_arg(args, 1, "boolean", rx_bool(false)));
    const bool missing = self.kind == RX_V_UNDEFINED || (by_truth && !rx_truth(self));
    return missing ? rx_arg(args, 0, "default_value", rx_text("", 0)) : self;
}

static rx_value pair_of(rx_env *e, const rx_pair *p)
{
    rx_value pair = rx_new_list(e, true);
    if (e->status == RLX_OK)
        rx_list_add(e, pair.list, p->key);
    if (e->status == RLX_OK)
        rx_list_add(e, pair.list, p->value);
    return pair;
}

static rx_value filter_items(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value out = rx_new_list(e, false);
    (void)args;
    if (self.kind != RX_V_DICT && self.kind != RX_V_UNDEFINED)
        return rx_env_fail(e, "the items of %s; expected a mapping", rx_kind_name(self));
    for (size_t i = 0; self.kind == RX_V_DICT && i < self.dict->n && e->status == RLX_OK; i++)
        rx_list_add(e, out.list, pair_of(e, &self.dict->items[i]));
    return out;
}

/* Sorts `l` by `keys`, stable; both are moved together. */
static void sort_by(rx_env *e, rx_list *l, rx_value *keys, bool falling)
{
    for (size_t i = 1; i < l->n && rx_env_step(e, 1); i++) {
        rx_value key = keys[i], v = l->items[i];
        size_t k = i;
        for (; k && rx_env_step(e, 1); k--) {
            int order = rx_compare(e, keys[k - 1], key);
            if (falling ? order >= 0 : order <= 0)
                break;
            keys[k] = keys[k - 1];
            l->items[k] = l->items[k - 1];
        }
        keys[k] = key;
        l->items[k] = v;
    }
}

static rx_value filter_sort(rx_env *e, rx_value self, const rx_args *args)
{
    static const rx_args none;
    rx_value out = filter_list(e, self, &none), attribute = rx_arg(args, 2, "attribute", rx_none());
    const bool exact = rx_truth(rx_arg(args, 1, "case_sensitive", rx_bool(false)));
    if (e->status != RLX_OK)
        return out;
    rx_value *keys = rx_env_array(e, out.list->n, sizeof *keys);
    for (size_t i = 0; keys && i < out.list->n; i++)
        keys[i] = sort_key(e, out.list->items[i], attribute, exact);
    if (keys && e->status == RLX_OK)
        sort_by(e, out.list, keys, rx_truth(rx_arg(args, 0, "reverse", rx_bool(false))));
    return out;
}

static rx_value filter_dictsort(rx_env *e, rx_value self, const rx_args *args)
{
    static const rx_args none;
    rx_value out = filter_items(e, self, &none);
    const bool exact = rx_truth(rx_arg(args, 0, "case_sensitive", rx_bool(false)));
    const bool by_value = rx_is_text(rx_arg(args, 1, "by", rx_none()), "value");
    if (e->status != RLX_OK)
        return out;
    rx_value *keys = rx_env_array(e, out.list->n, sizeof *keys);
    for (size_t i = 0; keys && i < out.list->n; i++)
        keys[i] = sort_key(e, out.list->items[i].list->items[by_value], rx_none(), exact);
    if (keys && e->status == RLX_OK)
        sort_by(e, out.list, keys, rx_truth(rx_arg(args, 2, "reverse", rx_bool(false))));
    return out;
}

static rx_value filter_unique(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *l = rx_elements(e, self);
    rx_value out = rx_new_list(e, false), seen = rx_new_list(e, false);
    const bool exact = rx_truth(rx_arg(args, 0, "case_sensitive", rx_bool(false)));
    rx_value attribute = rx_arg(args, 1, "attribute", rx_none());
    for (size_t i = 0; l && i < l->n && e->status == RLX_OK; i++) {
        rx_value key = sort_key(e, l->items[i], attribute, exact);
        if (e->status != RLX_OK || rx_contains(e, seen, key))
            continue;
        rx_list_add(e, seen.list, key);
        rx_list_add(e, out.list, l->items[i]);
    }
    return out;
}

static rx_value extreme(rx_env *e, rx_value self, const rx_args *args, int sign)
{
    const rx_list *l = rx_elements(e, self);
    rx_value attribute = rx_arg(args, 1, "attribute", rx_none());
    const bool exact = rx_truth(rx_arg(args, 0, "case_sensitive", rx_bool(false)));
    rx_value best = rx_undefined(NULL, 0), best_key = best;
    for (size_t i = 0; l && i < l->n && rx_env_step(e, 1); i++) {
        rx_value key = sort_key(e, l->items[i], attribute, exact);
        if (i && (e->status != RLX_OK || sign * rx_compare(e, key, best_key) <= 0))
            continue;
        best = l->items[i];
        best_key = key;
    }
    return best;
}

static rx_value filter_min(rx_env *e, rx_value self, const rx_args *args)
{
    return extreme(e, self, args, -1);
}

static rx_value filter_max(rx_env *e, rx_value self, const rx_args *args)
{
    return extreme(e, self, args, 1);
}

static rx_value filter_sum(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *l = rx_elements(e, self);
    rx_value attribute = rx_arg(args, 0, "attribute", rx_none());
    rx_value sum = rx_arg(args, 1, "start", rx_int(0));
    for (size_t i = 0; l && i < l->n && rx_env_step(e, 1); i++)
        sum = rx_binary(e, RX_BINOP_ADD, sum, sort_key(e, l->items[i], attribute, true));
    return sum;
}

/* ---- map, select and their kin --------------------------------------------------------------- */

/* The arguments after the first `n`. */
static rx_args rest(const rx_args *args, size_t n)
{
    rx_args out = *args;
    n = n < out.n ? n : out.n;
    out.items += n;
    out.n -= n;
    return out;
}

static rx_value filter_map(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *l = rx_elements(e, self);
    rx_value out = rx_new_list(e, false), name = rx_arg(args, 0, "", rx_none());
    rx_value attribute = rx_arg(args, SIZE_MAX, "attribute", rx_none());
    rx_value missing = rx_arg(args, SIZE_MAX, "default", rx_undefined(NULL, 0));
    rx_args inner = rest(args, 1);
    rx_builtin *f = name.kind == RX_V_STRING ? rx_find_filter(name.s, name.n) : NULL;
    if (attribute.kind == RX_V_NONE && !f)
        return rx_env_fail(e, "map without the name of a filter or an attribute");
    for (size_t i = 0; l && i < l->n && e->status == RLX_OK; i++) {
        rx_value v = f ? f(e, l->items[i], &inner) : get_path(e, l->items[i], attribute);
        rx_list_add(e, out.list, v.kind == RX_V_UNDEFINED ? missing : v);
    }
    return out;
}

/* Keeps the elements whose test gives `wanted`; of an attribute when `by_attribute`. */
static rx_value choose(rx_env *e, rx_value self, const rx_args *args, bool by_attribute,
                       bool wanted)
{
    const rx_list *l = rx_elements(e, self);
    rx_value out = rx_new_list(e, false), attribute = rx_arg(args, 0, "", rx_none());
    rx_value name = rx_arg(args, by_attribute, "", rx_none());
    rx_args inner = rest(args, (size_t)by_attribute + 1);
    rx_builtin *test = name.kind == RX_V_STRING ? rx_find_test(name.s, name.n) : NULL;
    if (name.kind != RX_V_NONE && !test)
        return rx_env_fail(e, "there is no test of that name to select by");
    for (size_t i = 0; l && i < l->n && rx_env_step(e, 1); i++) {
        rx_value v = by_attribute ? get_path(e, l->items[i], attribute) : l->items[i];
        bool yes = rx_truth(test && e->status == RLX_OK ? test(e, v, &inner) : v);
        if (e->status == RLX_OK && yes == wanted)
            rx_list_add(e, out.list, l->items[i]);
    }
    return out;
}

static rx_value filter_select(rx_env *e, rx_value self, const rx_args *args)
{
    return choose(e, self, args, false, true);
}

static rx_value filter_reject(rx_env *e, rx_value self, const rx_args *args)
{
    return choose(e, self, args, false, false);
}

static rx_value filter_selectattr(rx_env *e, rx_value self, const rx_args *args)
{
    return choose(e, self, args, true, true);
}

static rx_value filter_rejectattr(rx_env *e, rx_value self, const rx_args *args)
{
    return choose(e, self, args, true, false);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Parses a number with optional surrounding spaces; false when the text is no number. */
static bool read_number(rx_value v, double *real, int64_t *whole, bool *is_int)
{
    char text[64], *end, *end_int;
    if (v.n >= sizeof text)
        return false;
    memcpy(text, v.s, v.n);
    text[v.n] = 0;
    *real = strtod(text, &end);
    *whole = strtoll(text, &end_int, 10);
    *is_int = end_int >= end;
    bool any = end > text;
    while (*end == ' ' || *end == '\n' || *end == '\t')
        end++;
    return any && end == text + v.n;
}

static bool fits_int(double d)
{
    return d > -0x1p63 && d < 0x1p63;
}

static rx_value filter_int(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value missing = rx_arg(args, 0, "default", rx_int(0));
    double real = 0;
    int64_t whole = 0;
    bool is_int = false;
    (void)e;
    if (self.kind == RX_V_INT || self.kind == RX_V_BOOL)
        return rx_int(self.i);
    if (self.kind == RX_V_FLOAT)
        return fits_int(self.d) ? rx_int((int64_t)self.d) : missing;
    if (self.kind != RX_V_STRING || !read_number(self, &real, &whole, &is_int))
        return missing;
    return is_int ? rx_int(whole) : fits_int(real) ? rx_int((int64_t)real) : missing;
}

static rx_value filter_float(rx_env *e, rx_value self, const rx_args *args)
{
    double real = 0;
    int64_t whole;
    bool is_int;
    (void)e;
    if (rx_is_number(self))
        return rx_real(rx_number(self));
    if (self.kind == RX_V_STRING && read_number(self, &real, &whole, &is_int))
        return rx_real(real);
    return rx_arg(args, 0, "default", rx_real(0));
}

static rx_value filter_abs(rx_env *e, rx_value self, const rx_args *args)
{
    (void)args;
    if (self.kind == RX_V_FLOAT)
        return rx_real(fabs(self.d));
    if (!rx_is_number(self) || self.i == INT64_MIN)
        return rx_env_fail(e, "abs of %s; expected a number", rx_kind_name(self));
    return rx_int(self.i < 0 ? -self.i : self.i);
}

static rx_value filter_round(rx_env *e, rx_value self, const rx_args *args)
{
    int64_t digits = rx_arg_int(e, args, 0, "precision", 0);
    rx_value method = rx_arg(args, 1, "method", rx_text("common", 6));
    if (!rx_is_number(self))
        return rx_env_fail(e, "round of %s; expected a number", rx_kind_name(self));
    if (self.kind != RX_V_FLOAT && digits >= 0 && rx_is_text(method, "common"))
        return rx_int(self.i);
    const double scale = pow(10, (double)(digits > 15 ? 15 : digits < -15 ? -15 : digits));
    const double v = rx_number(self) * scale;
    if (rx_is_text(method, "ceil"))
        return rx_real(ceil(v) / scale);
    if (rx_is_text(method, "floor"))
        return rx_real(floor(v) / scale);
    return rx_real(nearbyint(v) / scale);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

#define KIND_TEST(NAME, CONDITION)                                                      \
    static rx_value test_##NAME(rx_env *e, rx_value v, const rx_args *args)             \
    {                                                                                   \
        (void)e, (void)args;                                                            \
        return rx_bool(CONDITION);                                                      \
    }
KIND_TEST(defined, v.kind != RX_V_UNDEFINED)
KIND_TEST(undefined, v.kind == RX_V_UNDEFINED)
KIND_TEST(none, v.kind == RX_V_NONE)
KIND_TEST(string, v.kind == RX_V_STRING)
KIND_TEST(mapping, v.kind == RX_V_DICT && !v.dict->is_namespace)
KIND_TEST(iterable, v.kind == RX_V_LIST || v.kind == RX_V_DICT || v.kind == RX_V_STRING ||
                        v.kind == RX_V_UNDEFINED)
KIND_TEST(sequence, v.kind == RX_V_LIST || v.kind == RX_V_DICT || v.kind == RX_V_STRING ||
                        v.kind == RX_V_UNDEFINED)
KIND_TEST(number, rx_is_number(v))
KIND_TEST(integer, v.kind == RX_V_INT)
KIND_TEST(float, v.kind == RX_V_FLOAT)
KIND_TEST(boolean, v.kind == RX_V_BOOL)
KIND_TEST(true, v.kind == RX_V_BOOL && v.i)
KIND_TEST(false, v.kind == RX_V_BOOL && !v.i)
KIND_TEST(callable, v.kind == RX_V_MACRO || v.kind == RX_V_FUNCTION)
#undef KIND_TEST

#define COMPARE_TEST(NAME, CONDITION)                                                   \
    static rx_value test_##NAME(rx_env *e, rx_value v, const rx_args *args)             \
    {                                                                                   \
        rx_value o = rx_arg(args, 0, "other", rx_undefined(NULL, 0));                   \
        (void)e;                                                                        \
        return rx_bool(CONDITION);                                                      \
    }
COMPARE_TEST(eq, rx_equal(e, v, o))
COMPARE_TEST(ne, !rx_equal(e, v, o))
COMPARE_TEST(lt, rx_compare(e, v, o) < 0)
COMPARE_TEST(le, rx_compare(e, v, o) <= 0)
COMPARE_TEST(gt, rx_compare(e, v, o) > 0)
COMPARE_TEST(ge, rx_compare(e, v, o) >= 0)
COMPARE_TEST(in, rx_contains(e, o, v))
COMPARE_TEST(sameas, v.kind == o.kind && v.list == o.list)
#undef COMPARE_TEST

static rx_value remainder_is(rx_env *e, rx_value v, int64_t by, int64_t wanted)
{
    if (v.kind != RX_V_INT || by == 0)
        return rx_env_fail(e, "a test of the divisor of %s; expected integers", rx_kind_name(v));
    return rx_bool(by == -1 ? wanted == 0 : llabs(v.i % by) == wanted);
}

static rx_value test_odd(rx_env *e, rx_value v, const rx_args *args)
{
    (void)args;
    return remainder_is(e, v, 2, 1);
}

static rx_value test_even(rx_env *e, rx_value v, const rx_args *args)
{
    (void)args;
    return remainder_is(e, v, 2, 0);
}

static rx_value test_divisibleby(rx_env *e, rx_value v, const rx_args *args)
{
    return remainder_is(e, v, rx_arg_int(e, args, 0, "num", 0), 0);
}

static rx_value test_lower(rx_env *e, rx_value v, const rx_args *args)
{
    return rx_bool(v.kind == RX_V_STRING && rx_equal(e, v, call_name(e, v, "lower", args)));
}

static rx_value test_upper(rx_env *e, rx_value v, const rx_args *args)
{
    return rx_bool(v.kind == RX_V_STRING && rx_equal(e, v, call_name(e, v, "upper", args)));
}

/* ---- Tables ---------------------------------------------------------------------------------- */

typedef struct builtin_row {
    const char *name;
    rx_builtin *function;
} builtin_row;

static const builtin_row filters[] = {
    {"trim", filter_trim},         {"upper", filter_upper},
    {"lower", filter_lower},       {"capitalize", filter_capitalize},
    {"title", filter_title},       {"replace", filter_replace},
    {"string", filter_string},     {"safe", filter_safe},
    {"format", filter_format},     {"indent", filter_indent},
    {"tojson", filter_tojson},     {"length", filter_length},
    {"count", filter_length},      {"first", filter_first},
    {"last", filter_last},         {"list", filter_list},
    {"reverse", filter_reverse},   {"join", filter_join},
    {"default", filter_default},   {"d", filter_default},
    {"items", filter_items},       {"dictsort", filter_dictsort},
    {"sort", filter_sort},         {"unique", filter_unique},
    {"min", filter_min},           {"max", filter_max},
    {"sum", filter_sum},           {"map", filter_map},
    {"select", filter_select},     {"reject", filter_reject},
    {"selectattr", filter_selectattr}, {"rejectattr", filter_rejectattr},
    {"int", filter_int},           {"float", filter_float},
    {"abs", filter_abs},           {"round", filter_round},
};

static const builtin_row tests[] = {
    {"defined", test_defined},     {"undefined", test_undefined},
    {"none", test_none},           {"string", test_string},
    {"mapping", test_mapping},     {"iterable", test_iterable},
    {"sequence", test_sequence},   {"number", test_number},
    {"integer", test_integer},     {"float", test_float},
    {"boolean", test_boolean},     {"true", test_true},
    {"false", test_false},         {"callable", test_callable},
    {"eq", test_eq},               {"equalto", test_eq},
    {"==", test_eq},               {"ne", test_ne},
    {"!=", test_ne},               {"lt", test_lt},
    {"lessthan", test_lt},         {"<", test_lt},
    {"le", test_le},               {"<=", test_le},
    {"gt", test_gt},               {"greaterthan", test_gt},
    {">", test_gt},                {"ge", test_ge},
    {">=", test_ge},               {"in", test_in},
    {"sameas", test_sameas},       {"odd", test_odd},
    {"even", test_even},           {"divisibleby", test_divisibleby},
    {"lower", test_lower},         {"upper", test_upper},
};

static rx_builtin *find(const builtin_row *rows, size_t n_rows, const char *name, size_t n)
{
    for (size_t i = 0; i < n_rows; i++)
        if (strlen(rows[i].name) == n && !memcmp(rows[i].name, name, n))
            return rows[i].function;
    return NULL;
}

rx_builtin *rx_find_filter(const char *name, size_t n)
{
    return find(filters, sizeof filters / sizeof filters[0], name, n);
}

rx_builtin *rx_find_test(const char *name, size_t n)
{
    return find(tests, sizeof tests / sizeof tests[0], name, n);
}
