/* SPDX-License-Identifier: MIT */
/* The methods of strings, lists and mappings, and the global functions of templates. */
#include <string.h>
#include <time.h>

#include "base/posix.h"
#include "model/template_value.h"
#include "model/unicode.h"

/* ---- Strings --------------------------------------------------------------------------------- */

static bool is_blank(const char *s, size_t n)
{
    uint32_t code;
    rx_utf8_get(s, n, &code);
    return rx_unicode_is_space(code) || (code >= 0x1c && code <= 0x1f);
}

/* True when the character of n bytes at s is to be stripped: white space, or one of `chars`. */
static bool is_stripped(rx_env *e, const char *s, size_t n, rx_value chars)
{
    if (chars.kind == RX_V_STRING)
        return rx_env_bytes(e, chars.n) && memmem(chars.s, chars.n, s, n) != NULL;
    return rx_env_step(e, 1) && is_blank(s, n);
}

static rx_value strip(rx_env *e, rx_value v, const rx_args *args, bool left, bool right)
{
    rx_value chars = rx_arg(args, 0, "chars", rx_none());
    uint32_t code;
    while (left && v.n) {
        size_t n = rx_utf8_get(v.s, v.n, &code);
        if (!is_stripped(e, v.s, n, chars))
            break;
        v.s += n;
        v.n -= n;
    }
    while (right && v.n) {
        size_t at = v.n - 1;
        while (at && v.n - at < 4 && ((unsigned char)v.s[at] & 0xc0) == 0x80)
            at--;
        if (!is_stripped(e, v.s + at, v.n - at, chars))
            break;
        v.n = at;
    }
    return v;
}

static rx_value method_strip(rx_env *e, rx_value self, const rx_args *args)
{
    return strip(e, self, args, true, true);
}

static rx_value method_lstrip(rx_env *e, rx_value self, const rx_args *args)
{
    return strip(e, self, args, true, false);
}

static rx_value method_rstrip(rx_env *e, rx_value self, const rx_args *args)
{
    return strip(e, self, args, false, true);
}

static rx_value method_lower(rx_env *e, rx_value self, const rx_args *args)
{
    rx_str s = {0};
    (void)args;
    rx_env_step(e, self.n / 16 + 1);
    for (size_t at = 0, n; at < self.n; at += n) {
        uint32_t code, out[2];
        char bytes[8];
        n = rx_utf8_get(self.s + at, self.n - at, &code);
        size_t n_out = rx_unicode_lower(code, out), used = 0;
        for (size_t i = 0; i < n_out; i++)
            used += rx_utf8_put(bytes + used, out[i]);
        rx_str_add(&s, bytes, used);
    }
    return rx_take_text(e, &s);
}

/* Simple upper case of ASCII, Latin-1, Greek and Cyrillic letters; others are unchanged. */
static uint32_t upper(uint32_t c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 0xe0 && c <= 0xfe && c != 0xf7) ||
        (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) || (c >= 0x430 && c <= 0x44f))
        return c - 0x20;
    return c >= 0x450 && c <= 0x45f ? c - 0x50 : c;
}

/* Changes case: 'u' upper, 'c' capitalises the first character, 't' every word; the rest becomes
 * lower case. */
static rx_value change_case(rx_env *e, rx_value v, char rule)
{
    static const rx_args none;
    rx_str s = {0};
    bool after_letter = false;
    if (rule != 'u')
        v = method_lower(e, v, &none);
    if (e->status != RLX_OK || !rx_env_step(e, v.n / 16 + 1))
        return v;
    for (size_t at = 0, n; at < v.n; at += n) {
        uint32_t code;
        char bytes[4];
        n = rx_utf8_get(v.s + at, v.n - at, &code);
        bool up = rule == 'u' || (rule == 'c' ? at == 0 : !after_letter);
        after_letter = (rx_unicode_bits(code) & RX_IN_L) != 0;
        if (up && code == 0xdf) /* sharp s has no capital of its own */
            rx_str_puts(&s, rule == 'u' ? "SS" : "Ss");
        else
            rx_str_add(&s, bytes, rx_utf8_put(bytes, up ? upper(code) : code));
    }
    return rx_take_text(e, &s);
}

static rx_value method_upper(rx_env *e, rx_value self, const rx_args *args)
{
    return (void)args, change_case(e, self, 'u');
}

static rx_value method_capitalize(rx_env *e, rx_value self, const rx_args *args)
{
    return (void)args, change_case(e, self, 'c');
}

static rx_value method_title(rx_env *e, rx_value self, const rx_args *args)
{
    return (void)args, change_case(e, self, 't');
}

/* Text argument i; fails when it is another kind. */
static rx_value text_arg(rx_env *e, const rx_args *args, size_t i, const char *name)
{
    rx_value v = rx_arg(args, i, name, rx_undefined(name, strlen(name)));
    if (v.kind != RX_V_STRING)
        return rx_env_fail(e, "'%s' is %s; expected a string", name, rx_kind_name(v));
    return v;
}

/* Splits at white space. */
static rx_value split_blanks(rx_env *e, rx_value v, int64_t most)
{
    static const rx_args none;
    rx_value out = rx_new_list(e, false);
    for (;;) {
        v = strip(e, v, &none, true, false);
        if (!v.n || e->status != RLX_OK)
            return out;
        size_t at = 0, n;
        for (uint32_t code; at < v.n && most != 0; at += n) {
            n = rx_utf8_get(v.s + at, v.n - at, &code);
            if (is_blank(v.s + at, n))
                break;
        }
        if (most == 0) { /* the rest, without blanks at its end */
            rx_list_add(e, out.list, strip(e, v, &none, false, true));
            return out;
        }
        rx_env_bytes(e, at);
        rx_list_add(e, out.list, rx_text(v.s, at));
        v.s += at;
        v.n -= at;
        most--;
    }
}

static rx_value method_split(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value by = rx_arg(args, 0, "sep", rx_none());
    int64_t most = rx_arg_int(e, args, 1, "maxsplit", -1);
    if (by.kind == RX_V_NONE)
        return split_blanks(e, self, most);
    if (by.kind != RX_V_STRING || !by.n)
        return rx_env_fail(e, "split by %s; expected a string that is not empty",
                           rx_kind_name(by));
    rx_value out = rx_new_list(e, false);
    rx_env_bytes(e, self.n + by.n);
    while (e->status == RLX_OK && most != 0) {
        const char *hit = memmem(self.s, self.n, by.s, by.n);
        if (!hit)
            break;
        rx_list_add(e, out.list, rx_text(self.s, (size_t)(hit - self.s)));
        self.n -= (size_t)(hit + by.n - self.s);
        self.s = hit + by.n;
        most -= most > 0;
    }
    if (e->status == RLX_OK)
        rx_list_add(e, out.list, self);
    return out;
}

static rx_value method_rsplit(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value by = text_arg(e, args, 0, "sep");
    int64_t most = rx_arg_int(e, args, 1, "maxsplit", -1);
    rx_args one = {.items = &by, .n = 1};
    rx_value all = e->status == RLX_OK ? method_split(e, self, &one) : self;
    if (e->status != RLX_OK || most < 0 || (int64_t)all.list->n - 1 <= most)
        return all;
    /* rsplit: joins the leading pieces again. */
    size_t joined = all.list->n - (size_t)most;
    const rx_value last = all.list->items[joined - 1];
    rx_value out = rx_new_list(e, false);
    if (e->status == RLX_OK)
        rx_list_add(e, out.list, rx_text(self.s, (size_t)(last.s + last.n - self.s)));
    for (size_t i = joined; i < all.list->n && e->status == RLX_OK; i++)
        rx_list_add(e, out.list, all.list->items[i]);
    return out;
}

static rx_value method_splitlines(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value newline = rx_text("\n", 1);
    rx_args one = {.items = &newline, .n = 1};
    (void)args;
    rx_value out = method_split(e, self, &one);
    if (e->status == RLX_OK && out.list->n && !out.list->items[out.list->n - 1].n)
        out.list->n--;
    return out;
}

static bool begins(rx_env *e, rx_value v, rx_value with, bool at_end)
{
    if (with.kind != RX_V_STRING || with.n > v.n || !rx_env_bytes(e, with.n))
        return false;
    return !memcmp(at_end ? v.s + v.n - with.n : v.s, with.s, with.n);
}

static rx_value matches_end(rx_env *e, rx_value self, const rx_args *args, bool at_end)
{
    rx_value with = rx_arg(args, 0, "prefix", rx_none());
    if (with.kind == RX_V_LIST) {
        rx_env_step(e, with.list->n / 8);
        for (size_t i = 0; i < with.list->n && e->status == RLX_OK; i++)
            if (begins(e, self, with.list->items[i], at_end))
                return rx_bool(true);
        return rx_bool(false);
    }
    if (with.kind != RX_V_STRING)
        return rx_env_fail(e, "startswith or endswith of %s; expected a string",
                           rx_kind_name(with));
    return rx_bool(begins(e, self, with, at_end));
}

static rx_value method_startswith(rx_env *e, rx_value self, const rx_args *args)
{
    return matches_end(e, self, args, false);
}

static rx_value method_endswith(rx_env *e, rx_value self, const rx_args *args)
{
    return matches_end(e, self, args, true);
}

static rx_value method_removeprefix(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value with = text_arg(e, args, 0, "prefix");
    return begins(e, self, with, false) ? rx_text(self.s + with.n, self.n - with.n) : self;
}

static rx_value method_removesuffix(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value with = text_arg(e, args, 0, "suffix");
    return begins(e, self, with, true) ? rx_text(self.s, self.n - with.n) : self;
}

static rx_value method_replace(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value old = text_arg(e, args, 0, "old"), new = text_arg(e, args, 1, "new");
    int64_t most = rx_arg_int(e, args, 2, "count", -1);
    rx_str s = {0};
    size_t at = 0;
    rx_env_bytes(e, old.n);
    while (e->status == RLX_OK && most != 0 && at <= self.n && rx_env_room(e, new.n)) {
        const char *hit = old.n ? memmem(self.s + at, self.n - at, old.s, old.n) : self.s + at;
        if (!hit)
            break;
        size_t gap = (size_t)(hit - self.s) - at;
        rx_str_add(&s, self.s + at, gap);
        rx_str_add(&s, new.s, new.n);
        at += gap + old.n;
        if (!old.n && at < self.n) /* between all characters */
            rx_str_add(&s, self.s + at, 1);
        at += !old.n;
        most -= most > 0;
        rx_env_bytes(e, gap + new.n);
    }
    if (rx_env_bytes(e, self.n) && at < self.n)
        rx_str_add(&s, self.s + at, self.n - at);
    return rx_take_text(e, &s);
}

static rx_value method_find(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value what = text_arg(e, args, 0, "sub");
    if (e->status != RLX_OK || !rx_env_bytes(e, self.n + what.n))
        return what;
    const char *hit = what.n ? memmem(self.s, self.n, what.s, what.n) : self.s;
    return rx_int(hit ? (int64_t)rx_count_letters(rx_text(self.s, (size_t)(hit - self.s))) : -1);
}

static rx_value method_count(rx_env *e, rx_value self, const rx_args *args)
{
    int64_t n = 0;
    if (self.kind == RX_V_LIST) {
        rx_value what = rx_arg(args, 0, "value", rx_none());
        for (size_t i = 0; i < self.list->n && rx_env_step(e, 1); i++)
            n += rx_equal(e, self.list->items[i], what);
        return rx_int(n);
    }
    rx_value what = text_arg(e, args, 0, "sub");
    if (e->status != RLX_OK || !rx_env_bytes(e, self.n + what.n))
        return what;
    if (!what.n)
        return rx_int((int64_t)rx_count_letters(self) + 1);
    const char *hit;
    for (; rx_env_step(e, 1) && (hit = memmem(self.s, self.n, what.s, what.n)) != NULL; n++) {
        self.n -= (size_t)(hit + what.n - self.s);
        self.s = hit + what.n;
    }
    return rx_int(n);
}

static rx_value method_join(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value inner[1] = {self};
    rx_args by = {.items = inner, .n = 1};
    rx_builtin *join = rx_find_filter("join", 4);
    return join(e, rx_arg(args, 0, "iterable", rx_none()), &by);
}

/* The field "{...}" at s, of n letters within the braces. */
static rx_value format_field(rx_env *e, const char *s, size_t n, const rx_args *args, size_t *next)
{
    size_t index = 0;
    bool digits = n > 0 && n < 6;
    for (size_t i = 0; i < n && digits; i++) {
        digits = s[i] >= '0' && s[i] <= '9';
        index = index * 10 + (size_t)(s[i] - '0');
    }
    if (n == 0 || digits) {
        index = n ? index : (*next)++;
        return index < args->n ? args->items[index]
                               : rx_env_fail(e, "format has more fields than values");
    }
    rx_env_step(e, args->n_keywords / 8);
    for (size_t i = 0; i < args->n_keywords; i++)
        if (args->keywords[i].length == n && !memcmp(args->keywords[i].name, s, n))
            return args->keywords[i].value;
    return rx_env_fail(e, "format has the field '{%.*s}', which is not given",
                       (int)(n < 40 ? n : 40), s);
}

static rx_value method_format(rx_env *e, rx_value self, const rx_args *args)
{
    rx_str s = {0};
    size_t next = 0;
    for (size_t i = 0; i < self.n && rx_env_step(e, 1); i++) {
        const char c = self.s[i];
        if ((c == '{' || c == '}') && i + 1 < self.n && self.s[i + 1] == c) {
            rx_str_add(&s, self.s + i++, 1);
        } else if (c == '{') {
            const char *end = memchr(self.s + i, '}', self.n - i);
            if (!end) {
                rx_env_fail(e, "a field of format does not end");
                break;
            }
            size_t n = (size_t)(end - self.s) - i - 1;
            rx_value v = format_field(e, self.s + i + 1, n, args, &next);
            rx_env_bytes(e, n);
            rx_print_value(e, &s, v);
            i += n + 1;
        } else
            rx_str_add(&s, &c, 1);
    }
    return rx_take_text(e, &s);
}

#define LETTER_TEST(NAME, CONDITION)                                                    \
    static rx_value method_##NAME(rx_env *e, rx_value self, const rx_args *args)        \
    {                                                                                   \
        bool all = self.n > 0;                                                          \
        (void)args;                                                                     \
        rx_env_step(e, self.n / 16 + 1);                                                \
        for (size_t at = 0, n; at < self.n && all; at += n) {                           \
            uint32_t code;                                                              \
            n = rx_utf8_get(self.s + at, self.n - at, &code);                           \
            const uint32_t bits = rx_unicode_bits(code);                                \
            all = (CONDITION);                                                          \
        }                                                                               \
        return rx_bool(all);                                                            \
    }
LETTER_TEST(isdigit, bits & RX_IN(RX_ND))
LETTER_TEST(isalpha, bits & RX_IN_L)
LETTER_TEST(isalnum, bits & (RX_IN_L | RX_IN_N))
LETTER_TEST(isspace, bits & RX_IN_SPACE)
#undef LETTER_TEST

/* ---- Lists and mappings ---------------------------------------------------------------------- */

static rx_value method_append(rx_env *e, rx_value self, const rx_args *args)
{
    rx_list_add(e, self.list, rx_arg(args, 0, "object", rx_none()));
    return rx_none();
}

static rx_value method_extend(rx_env *e, rx_value self, const rx_args *args)
{
    const rx_list *more = rx_elements(e, rx_arg(args, 0, "iterable", rx_none()));
    const size_t n = more ? more->n : 0; /* it may be the same list */
    for (size_t i = 0; i < n && e->status == RLX_OK; i++)
        rx_list_add(e, self.list, more->items[i]);
    return rx_none();
}

static rx_value method_pop(rx_env *e, rx_value self, const rx_args *args)
{
    rx_list *l = self.list;
    int64_t at = rx_arg_int(e, args, 0, "index", -1);
    at += at < 0 ? (int64_t)l->n : 0;
    if (e->status != RLX_OK || at < 0 || at >= (int64_t)l->n)
        return rx_env_fail(e, "pop of element %lld of %zu", (long long)at, l->n);
    rx_value v = l->items[at];
    memmove(l->items + at, l->items + at + 1, (l->n - (size_t)at - 1) * sizeof v);
    l->n--;
    return rx_env_step(e, l->n / 8 + 1) ? v : rx_none();
}

static rx_value method_index(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value what = rx_arg(args, 0, "value", rx_none());
    for (size_t i = 0; i < self.list->n && rx_env_step(e, 1); i++)
        if (rx_equal(e, self.list->items[i], what))
            return rx_int((int64_t)i);
    return rx_env_fail(e, "the value is not in the list");
}

static rx_value method_items(rx_env *e, rx_value self, const rx_args *args)
{
    return rx_find_filter("items", 5)(e, self, args);
}

static rx_value method_keys(rx_env *e, rx_value self, const rx_args *args)
{
    (void)args;
    rx_list *l = rx_elements(e, self);
    return l ? (rx_value){.kind = RX_V_LIST, .list = l} : rx_none();
}

static rx_value method_values(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value out = rx_new_list(e, false);
    (void)args;
    for (size_t i = 0; i < self.dict->n && e->status == RLX_OK; i++)
        rx_list_add(e, out.list, self.dict->items[i].value);
    return out;
}

static rx_value method_get(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value *v = rx_dict_find(e, self.dict, rx_arg(args, 0, "key", rx_none()));
    return v ? *v : rx_arg(args, 1, "default", rx_none());
}

static rx_value method_update(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value other = rx_arg(args, 0, "", rx_none());
    for (size_t i = 0; other.kind == RX_V_DICT && i < other.dict->n && e->status == RLX_OK; i++)
        rx_dict_set(e, self.dict, other.dict->items[i].key, other.dict->items[i].value);
    for (size_t i = 0; i < args->n_keywords && e->status == RLX_OK; i++)
        rx_dict_set(e, self.dict, rx_text(args->keywords[i].name, args->keywords[i].length),
                    args->keywords[i].value);
    return rx_none();
}

/* ---- Global functions ------------------------------------------------------------------------ */

static rx_value global_range(rx_env *e, rx_value self, const rx_args *args)
{
    int64_t begin = rx_arg_int(e, args, 0, "", 0), end = rx_arg_int(e, args, 1, "", 0);
    int64_t step = rx_arg_int(e, args, 2, "", 1);
    (void)self;
    if (args->n == 1) {
        end = begin;
        begin = 0;
    }
    if (e->status != RLX_OK || args->n < 1 || step == 0)
        return rx_env_fail(e, "range expects 1 to 3 integers and a step that is not 0");
    rx_value out = rx_new_list(e, false);
    for (int64_t i = begin; (step > 0 ? i < end : i > end) && e->status == RLX_OK;) {
        rx_list_add(e, out.list, rx_int(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return out;
}

static rx_value global_dict(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value out = rx_new_dict(e);
    (void)self;
    if (e->status == RLX_OK)
        method_update(e, out, args);
    return out;
}

static rx_value global_namespace(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value out = global_dict(e, self, args);
    if (e->status == RLX_OK)
        out.dict->is_namespace = true;
    return out;
}

static rx_value global_raise(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value text = rx_to_text(e, rx_arg(args, 0, "message", rx_text("", 0)));
    (void)self;
    return rx_env_fail(e, "the template says: %.*s", (int)(text.n < 300 ? text.n : 300), text.s);
}

static rx_value global_strftime_now(rx_env *e, rx_value self, const rx_args *args)
{
    char format[128], text[512];
    rx_value f = text_arg(e, args, 0, "format");
    time_t now = (time_t)e->now;
    struct tm parts;
    (void)self;
    if (e->status != RLX_OK)
        return f;
    if (f.n >= sizeof format || !localtime_r(&now, &parts))
        return rx_env_fail(e, "the format of strftime_now is too long");
    memcpy(format, f.s, f.n);
    format[f.n] = 0;
    size_t n = f.n ? strftime(text, sizeof text, format, &parts) : 0;
    return rx_copy_text(e, text, n);
}

/* joiner(): "" at the first call, the separator afterwards. */
static rx_value call_joiner(rx_env *e, rx_value self, const rx_args *args)
{
    (void)e, (void)args;
    rx_list *state = self.list; /* separator, calls so far */
    return state->items[1].i++ ? state->items[0] : rx_text("", 0);
}

static rx_value global_joiner(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value state = rx_new_list(e, false), out = rx_function(call_joiner), *copy;
    (void)self;
    if (e->status == RLX_OK)
        rx_list_add(e, state.list, rx_arg(args, 0, "sep", rx_text(", ", 2)));
    if (e->status == RLX_OK)
        rx_list_add(e, state.list, rx_int(0));
    copy = rx_env_alloc(e, sizeof *copy);
    if (!copy)
        return rx_undefined(NULL, 0);
    *copy = state;
    out.self = copy;
    return out;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static const struct {
    rx_value_kind of;
    const char *name;
    rx_builtin *function;
} methods[] = {
    {RX_V_STRING, "strip", method_strip},
    {RX_V_STRING, "lstrip", method_lstrip},
    {RX_V_STRING, "rstrip", method_rstrip},
    {RX_V_STRING, "lower", method_lower},
    {RX_V_STRING, "upper", method_upper},
    {RX_V_STRING, "capitalize", method_capitalize},
    {RX_V_STRING, "title", method_title},
    {RX_V_STRING, "split", method_split},
    {RX_V_STRING, "rsplit", method_rsplit},
    {RX_V_STRING, "splitlines", method_splitlines},
    {RX_V_STRING, "startswith", method_startswith},
    {RX_V_STRING, "endswith", method_endswith},
    {RX_V_STRING, "removeprefix", method_removeprefix},
    {RX_V_STRING, "removesuffix", method_removesuffix},
    {RX_V_STRING, "replace", method_replace},
    {RX_V_STRING, "find", method_find},
    {RX_V_STRING, "count", method_count},
    {RX_V_STRING, "join", method_join},
    {RX_V_STRING, "format", method_format},
    {RX_V_STRING, "isdigit", method_isdigit},
    {RX_V_STRING, "isalpha", method_isalpha},
    {RX_V_STRING, "isalnum", method_isalnum},
    {RX_V_STRING, "isspace", method_isspace},
    {RX_V_LIST, "append", method_append},
    {RX_V_LIST, "extend", method_extend},
    {RX_V_LIST, "pop", method_pop},
    {RX_V_LIST, "index", method_index},
    {RX_V_LIST, "count", method_count},
    {RX_V_DICT, "items", method_items},
    {RX_V_DICT, "keys", method_keys},
    {RX_V_DICT, "values", method_values},
    {RX_V_DICT, "get", method_get},
    {RX_V_DICT, "update", method_update},
};

rx_builtin *rx_find_method(rx_value of, const char *name, size_t n)
{
    if (of.kind == RX_V_DICT && of.dict->is_namespace)
        return NULL;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (methods[i].of == of.kind && strlen(methods[i].name) == n &&
            !memcmp(methods[i].name, name, n))
            return methods[i].function;
    return NULL;
}

static const struct {
    const char *name;
    rx_builtin *function;
} globals[] = {
    {"range", global_range},         {"dict", global_dict},
    {"namespace", global_namespace}, {"raise_exception", global_raise},
    {"joiner", global_joiner},       {"strftime_now", global_strftime_now},
};

rx_builtin *rx_find_global(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++)
        if (strlen(globals[i].name) == n && !memcmp(globals[i].name, name, n))
            return globals[i].function;
    return NULL;
}
