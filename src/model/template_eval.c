/* SPDX-License-Identifier: MIT */
/* Expressions of templates: names, attributes, subscripts, operators, calls. */
#include "model/template_eval.h"

#include <math.h>
#include <string.h>

/* ---- Names ----------------------------------------------------------------------------------- */

static rx_value get_name(rx_env *e, const rx_node *n)
{
    for (const rx_frame *f = e->frame; f; f = f->parent) {
        const rx_value *v = rx_dict_find_name(e, &f->variables, n->text, n->length);
        if (v)
            return *v;
    }
    rx_builtin *f = rx_find_global(n->text, n->length);
    return f ? rx_function(f) : rx_undefined(n->text, n->length);
}

/* ---- Attributes and subscripts --------------------------------------------------------------- */

static rx_value fail_undefined(rx_env *e, rx_value v)
{
    if (v.s)
        return rx_env_fail(e, "'%.*s' is undefined", (int)(v.n < 60 ? v.n : 60), v.s);
    return rx_env_fail(e, "an undefined value is used");
}

static rx_value loop_method(rx_env *e, rx_value self, const rx_args *args)
{
    if (!args->n)
        return rx_env_fail(e, "loop.cycle expects values");
    return args->items[self.loop->at % args->n];
}

static rx_value loop_changed(rx_env *e, rx_value self, const rx_args *args)
{
    rx_value now = rx_new_list(e, true);
    for (size_t i = 0; i < args->n && e->status == RLX_OK; i++)
        rx_list_add(e, now.list, args->items[i]);
    if (e->status != RLX_OK)
        return now;
    const rx_value before = self.loop->changed;
    self.loop->changed = now;
    return rx_bool(before.kind == RX_V_UNDEFINED || !rx_equal(e, before, now));
}

static rx_value bind(rx_env *e, rx_builtin *f, rx_value self)
{
    rx_value *copy = rx_env_alloc(e, sizeof *copy);
    if (!copy)
        return rx_undefined(NULL, 0);
    *copy = self;
    rx_value v = rx_function(f);
    v.self = copy;
    return v;
}

static rx_value get_loop(rx_env *e, rx_value v, const char *name, size_t n)
{
    const rx_loop *l = v.loop;
    const rx_value key = rx_text(name, n);
    const int64_t at = (int64_t)l->at, all = (int64_t)l->n;
    const struct {
        const char *name;
        rx_value value;
    } facts[] = {
        {"index", rx_int(at + 1)},      {"index0", rx_int(at)},
        {"revindex", rx_int(all - at)}, {"revindex0", rx_int(all - at - 1)},
        {"first", rx_bool(at == 0)},    {"last", rx_bool(at + 1 == all)},
        {"length", rx_int(all)},        {"depth", rx_int(1)}, /* deeper only in recursive loops */
        {"depth0", rx_int(0)},
        {"previtem", at ? l->items[at - 1] : rx_undefined("loop.previtem", 13)},
        {"nextitem", at + 1 < all ? l->items[at + 1] : rx_undefined("loop.nextitem", 13)},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (rx_is_text(key, facts[i].name))
            return facts[i].value;
    if (rx_is_text(key, "cycle"))
        return bind(e, loop_method, v);
    if (rx_is_text(key, "changed"))
        return bind(e, loop_changed, v);
    return rx_undefined(name, n);
}

rx_value rx_get_attribute(rx_env *e, rx_value a, const char *name, size_t n)
{
    if (a.kind == RX_V_UNDEFINED)
        return fail_undefined(e, a);
    if (a.kind == RX_V_LOOP)
        return get_loop(e, a, name, n);
    rx_builtin *method = rx_find_method(a, name, n);
    if (method)
        return bind(e, method, a);
    const rx_value *v = a.kind == RX_V_DICT ? rx_dict_find_name(e, a.dict, name, n) : NULL;
    return v ? *v : rx_undefined(name, n);
}

/* Index i of n, negative from the end; false when out of range. */
static bool place(int64_t i, size_t n, size_t *at)
{
    if (i < 0)
        i += (int64_t)n;
    *at = (size_t)i;
    return i >= 0 && i < (int64_t)n;
}

rx_value rx_get_item(rx_env *e, rx_value a, rx_value index)
{
    size_t at;
    if (a.kind == RX_V_UNDEFINED)
        return fail_undefined(e, a);
    if (a.kind == RX_V_DICT) {
        const rx_value *v = rx_dict_find(e, a.dict, index);
        if (v)
            return *v;
    }
    if (index.kind == RX_V_INT && a.kind == RX_V_LIST)
        return place(index.i, a.list->n, &at) ? a.list->items[at] : rx_undefined(NULL, 0);
    if (index.kind == RX_V_INT && a.kind == RX_V_STRING) {
        if (!rx_env_bytes(e, a.n) || !place(index.i, rx_count_letters(a), &at))
            return rx_undefined(NULL, 0);
        size_t begin = rx_letter_at(a, at), end = rx_letter_at(a, at + 1);
        return rx_text(a.s + begin, end - begin);
    }
    if (index.kind == RX_V_STRING)
        return rx_get_attribute(e, a, index.s, index.n);
    return rx_undefined(NULL, 0);
}

/* Clips a slice bound to n elements as Python does. */
static int64_t clip(int64_t i, int64_t n, int64_t step)
{
    if (i < 0)
        i = i < -n ? -1 : i + n;
    else if (i > n)
        i = n;
    if (step < 0 && i >= n)
        i = n - 1;
    return step > 0 && i < 0 ? 0 : i;
}

static int64_t slice_part(rx_env *e, const rx_node *n, int64_t missing, bool *given)
{
    rx_value v = n ? rx_eval(e, n) : rx_none();
    *given = v.kind != RX_V_NONE;
    if (!*given)
        return missing;
    if (v.kind != RX_V_INT && v.kind != RX_V_BOOL)
        rx_env_fail(e, "a slice has %s; expected integers", rx_kind_name(v));
    return v.i;
}

static rx_value slice_text(rx_env *e, rx_value v, int64_t begin, int64_t end, int64_t step)
{
    rx_str s = {0};
    for (int64_t i = begin; (step > 0 ? i < end : i > end) && rx_env_step(e, 1); i += step) {
        size_t from = rx_letter_at(v, (size_t)i), to = rx_letter_at(v, (size_t)i + 1);
        rx_str_add(&s, v.s + from, to - from);
        rx_env_bytes(e, v.n);
    }
    return rx_take_text(e, &s);
}

static rx_value eval_slice(rx_env *e, const rx_node *n)
{
    rx_value v = rx_eval(e, n->a);
    bool has_begin, has_end, has_step;
    int64_t step = slice_part(e, n->d, 1, &has_step);
    int64_t begin = slice_part(e, n->b, 0, &has_begin), end = slice_part(e, n->c, 0, &has_end);
    if (e->status != RLX_OK)
        return rx_undefined(NULL, 0);
    if (v.kind == RX_V_UNDEFINED)
        return fail_undefined(e, v);
    if ((v.kind != RX_V_STRING && v.kind != RX_V_LIST) || step == 0 || step < -INT32_MAX ||
        step > INT32_MAX)
        return rx_env_fail(e, "a slice of %s by steps of %lld; expected a list or a string",
                           rx_kind_name(v), (long long)step);
    if (v.kind == RX_V_STRING && !rx_env_bytes(e, v.n))
        return rx_undefined(NULL, 0);
    const int64_t size = (int64_t)(v.kind == RX_V_LIST ? v.list->n : rx_count_letters(v));
    begin = has_begin ? clip(begin, size, step) : step > 0 ? 0 : size - 1;
    end = has_end ? clip(end, size, step) : step > 0 ? size : -1;
    if (v.kind == RX_V_STRING && step == 1) {
        size_t from = rx_letter_at(v, (size_t)begin), to = rx_letter_at(v, (size_t)end);
        return rx_text(v.s + from, to > from ? to - from : 0);
    }
    if (v.kind == RX_V_STRING)
        return slice_text(e, v, begin, end, step);
    rx_value out = rx_new_list(e, v.list->is_tuple);
    for (int64_t i = begin; (step > 0 ? i < end : i > end) && e->status == RLX_OK; i += step)
        rx_list_add(e, out.list, v.list->items[i]);
    return out;
}

/* ---- Operators ------------------------------------------------------------------------------- */

static rx_value add_lists(rx_env *e, const rx_list *a, const rx_list *b)
{
    rx_value out = rx_new_list(e, a->is_tuple);
    for (size_t i = 0; i < a->n && e->status == RLX_OK; i++)
        rx_list_add(e, out.list, a->items[i]);
    for (size_t i = 0; i < b->n && e->status == RLX_OK; i++)
        rx_list_add(e, out.list, b->items[i]);
    return out;
}

static rx_value join_texts(rx_env *e, rx_value a, rx_value b)
{
    char *both = e->status == RLX_OK ? rx_env_alloc(e, a.n + b.n) : NULL;
    if (!both)
        return rx_undefined(NULL, 0);
    rx_env_bytes(e, a.n + b.n);
    if (a.n)
        memcpy(both, a.s, a.n);
    if (b.n)
        memcpy(both + a.n, b.s, b.n);
    return rx_text(both, a.n + b.n);
}

static rx_value repeat(rx_env *e, rx_value v, int64_t times)
{
    const size_t n = times > 0 ? (size_t)times : 0;
    if (v.kind == RX_V_LIST) {
        rx_value out = rx_new_list(e, v.list->is_tuple);
        for (size_t k = 0; k < n && v.list->n && e->status == RLX_OK; k++)
            for (size_t i = 0; i < v.list->n && e->status == RLX_OK; i++)
                rx_list_add(e, out.list, v.list->items[i]);
        return out;
    }
    if (v.n && n > RX_TEMPLATE_MEMORY / v.n)
        return rx_env_fail(e, "a string repeated %lld times is too long", (long long)times);
    char *s = rx_env_array(e, n, v.n);
    for (size_t k = 0; s && v.n && k < n && rx_env_bytes(e, v.n); k++)
        memcpy(s + k * v.n, v.s, v.n);
    return s ? rx_text(s, v.n * n) : rx_undefined(NULL, 0);
}

static rx_value int_power(rx_env *e, int64_t base, int64_t exponent)
{
    int64_t out = 1;
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(out, base, &out) || !rx_env_step(e, 1))
            return rx_env_fail(e, "an integer overflows");
    return rx_int(out);
}

static rx_value int_op(rx_env *e, rx_binop op, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool over = false;
    switch (op) {
    case RX_BINOP_ADD: over = __builtin_add_overflow(a, b, &out); break;
    case RX_BINOP_SUB: over = __builtin_sub_overflow(a, b, &out); break;
    case RX_BINOP_MUL: over = __builtin_mul_overflow(a, b, &out); break;
    case RX_BINOP_POW:
        return b >= 0 ? int_power(e, a, b) : rx_real(pow((double)a, (double)b));
    default:
        if (b == 0)
            return rx_env_fail(e, "division by zero");
        if (op == RX_BINOP_DIV)
            return rx_real((double)a / (double)b);
        over = b == -1 && a == INT64_MIN;
        if (over)
            break;
        out = op == RX_BINOP_MOD ? a % b : a / b;
        if (a % b && (a < 0) != (b < 0)) /* floor division */
            out = op == RX_BINOP_MOD ? out + b : out - 1;
    }
    return over ? rx_env_fail(e, "an integer overflows") : rx_int(out);
}

static rx_value real_op(rx_env *e, rx_binop op, double a, double b)
{
    if (b == 0 && (op == RX_BINOP_DIV || op == RX_BINOP_FLOORDIV || op == RX_BINOP_MOD))
        return rx_env_fail(e, "division by zero");
    switch (op) {
    case RX_BINOP_ADD: return rx_real(a + b);
    case RX_BINOP_SUB: return rx_real(a - b);
    case RX_BINOP_MUL: return rx_real(a * b);
    case RX_BINOP_DIV: return rx_real(a / b);
    case RX_BINOP_FLOORDIV: return rx_real(floor(a / b));
    case RX_BINOP_MOD: return rx_real(a - b * floor(a / b));
    default: return rx_real(pow(a, b));
    }
}

rx_value rx_binary(rx_env *e, rx_binop op, rx_value a, rx_value b)
{
    static const char *const signs[] = {
        [RX_BINOP_ADD] = "+", [RX_BINOP_SUB] = "-", [RX_BINOP_MUL] = "*", [RX_BINOP_DIV] = "/",
        [RX_BINOP_FLOORDIV] = "//", [RX_BINOP_MOD] = "%", [RX_BINOP_POW] = "**",
    };
    if (op == RX_BINOP_CONCAT) {
        rx_value left = rx_to_text(e, a);
        return join_texts(e, left, rx_to_text(e, b));
    }
    if (a.kind == RX_V_UNDEFINED || b.kind == RX_V_UNDEFINED)
        return fail_undefined(e, a.kind == RX_V_UNDEFINED ? a : b);
    if (rx_is_number(a) && rx_is_number(b))
        return a.kind == RX_V_FLOAT || b.kind == RX_V_FLOAT
                   ? real_op(e, op, rx_number(a), rx_number(b))
                   : int_op(e, op, a.i, b.i);
    if (op == RX_BINOP_ADD && a.kind == RX_V_STRING && b.kind == RX_V_STRING)
        return join_texts(e, a, b);
    if (op == RX_BINOP_ADD && a.kind == RX_V_LIST && b.kind == RX_V_LIST)
        return add_lists(e, a.list, b.list);
    if (op == RX_BINOP_MUL && (a.kind == RX_V_STRING || a.kind == RX_V_LIST) && b.kind == RX_V_INT)
        return repeat(e, a, b.i);
    if (op == RX_BINOP_MUL && (b.kind == RX_V_STRING || b.kind == RX_V_LIST) && a.kind == RX_V_INT)
        return repeat(e, b, a.i);
    if (op == RX_BINOP_MOD && a.kind == RX_V_STRING)
        return rx_percent(e, a, b);
    return rx_env_fail(e, "%s %s %s: expected two numbers, strings or lists", rx_kind_name(a),
                       signs[op], rx_kind_name(b));
}

static bool holds(rx_env *e, rx_binop op, rx_value a, rx_value b)
{
    switch (op) {
    case RX_BINOP_EQ: return rx_equal(e, a, b);
    case RX_BINOP_NE: return !rx_equal(e, a, b);
    case RX_BINOP_IN: return rx_contains(e, b, a);
    case RX_BINOP_NOT_IN: return !rx_contains(e, b, a);
    default: break;
    }
    if (a.kind == RX_V_UNDEFINED || b.kind == RX_V_UNDEFINED) {
        fail_undefined(e, a.kind == RX_V_UNDEFINED ? a : b);
        return false;
    }
    int order = rx_compare(e, a, b);
    return op == RX_BINOP_LT ? order < 0 : op == RX_BINOP_LE ? order <= 0
         : op == RX_BINOP_GT ? order > 0 : order >= 0;
}

static rx_value eval_compare(rx_env *e, const rx_node *n)
{
    rx_value left = rx_eval(e, n->a);
    for (const rx_node *c = n->first; c && e->status == RLX_OK; c = c->next) {
        rx_value right = rx_eval(e, c->a);
        if (e->status != RLX_OK || !holds(e, c->op, left, right))
            return rx_bool(false);
        left = right;
    }
    return rx_bool(true);
}

static rx_value eval_unary(rx_env *e, const rx_node *n)
{
    rx_value v = rx_eval(e, n->a);
    if (e->status == RLX_OK && !rx_is_number(v))
        return rx_env_fail(e, "a sign before %s; expected a number", rx_kind_name(v));
    if (v.kind == RX_V_FLOAT)
        return rx_real(n->op == RX_BINOP_SUB ? -v.d : v.d);
    return n->op == RX_BINOP_SUB ? int_op(e, RX_BINOP_SUB, 0, v.i) : rx_int(v.i);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

bool rx_eval_args(rx_env *e, const rx_node *first, rx_args *out)
{
    size_t n = 0, n_keywords = 0;
    *out = (rx_args){0};
    for (const rx_node *a = first; a; a = a->next) {
        n += a->kind != RX_N_KEYWORD;
        n_keywords += a->kind == RX_N_KEYWORD;
    }
    out->items = rx_env_array(e, n, sizeof *out->items);
    out->keywords = rx_env_array(e, n_keywords + 1, sizeof *out->keywords); /* and a caller */
    for (const rx_node *a = first; a && e->status == RLX_OK; a = a->next) {
        if (a->kind == RX_N_KEYWORD)
            out->keywords[out->n_keywords++] = (rx_keyword){a->text, a->length, rx_eval(e, a->a)};
        else
            out->items[out->n++] = rx_eval(e, a);
    }
    return e->status == RLX_OK;
}

rx_value rx_call_value(rx_env *e, rx_value f, const rx_args *args)
{
    if (e->status != RLX_OK)
        return rx_undefined(NULL, 0);
    if (f.kind == RX_V_FUNCTION)
        return f.function(e, f.self ? *f.self : rx_undefined(NULL, 0), args);
    if (f.kind == RX_V_MACRO)
        return rx_call_macro(e, f.macro, args);
    if (f.kind == RX_V_UNDEFINED)
        return fail_undefined(e, f);
    return rx_env_fail(e, "%s is called; expected a macro or a function", rx_kind_name(f));
}

static rx_value eval_call(rx_env *e, const rx_node *n)
{
    rx_args args;
    rx_value f = rx_eval(e, n->a);
    if (!rx_eval_args(e, n->first, &args))
        return rx_undefined(NULL, 0);
    e->line = n->line;
    return rx_call_value(e, f, &args);
}

rx_value rx_apply_filter(rx_env *e, const rx_node *n, rx_value v)
{
    rx_args args;
    rx_builtin *f = rx_find_filter(n->text, n->length);
    if (!f)
        return rx_env_fail(e, "there is no filter '%.*s'", (int)(n->length < 60 ? n->length : 60),
                           n->text);
    if (!rx_eval_args(e, n->first, &args))
        return rx_undefined(NULL, 0);
    e->line = n->line;
    return f(e, v, &args);
}

static rx_value eval_test(rx_env *e, const rx_node *n)
{
    rx_args args;
    rx_builtin *f = rx_find_test(n->text, n->length);
    rx_value v = rx_eval(e, n->a);
    if (!f)
        return rx_env_fail(e, "there is no test '%.*s'", (int)(n->length < 60 ? n->length : 60),
                           n->text);
    if (!rx_eval_args(e, n->first, &args))
        return rx_undefined(NULL, 0);
    return rx_bool(rx_truth(f(e, v, &args)) != (n->number != 0));
}

/* ---- Dispatch -------------------------------------------------------------------------------- */

static rx_value eval_list(rx_env *e, const rx_node *n)
{
    rx_value out = rx_new_list(e, n->kind == RX_N_TUPLE);
    for (const rx_node *i = n->first; i && e->status == RLX_OK; i = i->next)
        rx_list_add(e, out.list, rx_eval(e, i));
    return out;
}

static rx_value eval_dict(rx_env *e, const rx_node *n)
{
    rx_value out = rx_new_dict(e);
    for (const rx_node *i = n->first; i && e->status == RLX_OK; i = i->next) {
        rx_value key = rx_eval(e, i->a);
        rx_dict_set(e, out.dict, key, rx_eval(e, i->b));
    }
    return out;
}

static rx_value eval_pair(rx_env *e, const rx_node *n)
{
    rx_value a = rx_eval(e, n->a), b = rx_undefined(NULL, 0);
    if (e->status != RLX_OK)
        return b;
    switch (n->kind) {
    case RX_N_AND: return rx_truth(a) ? rx_eval(e, n->b) : a;
    case RX_N_OR: return rx_truth(a) ? a : rx_eval(e, n->b);
    case RX_N_CHOICE: return rx_truth(a) ? rx_eval(e, n->b) : n->c ? rx_eval(e, n->c) : b;
    default: break;
    }
    b = rx_eval(e, n->b);
    e->line = n->line;
    if (e->status != RLX_OK)
        return b;
    return n->kind == RX_N_INDEX ? rx_get_item(e, a, b) : rx_binary(e, n->op, a, b);
}

/* The text of a filter block is stored in a variable with an empty name. */
static const rx_node block_text = {.kind = RX_N_NAME, .text = ""};

static rx_value eval_kind(rx_env *e, const rx_node *n)
{
    rx_value v;
    switch (n->kind) {
    case RX_N_NONE: return rx_none();
    case RX_N_BOOL: return rx_bool(n->number != 0);
    case RX_N_INT: return rx_int(n->number);
    case RX_N_FLOAT: return rx_real(n->real);
    case RX_N_STRING: return rx_text(n->text, n->length);
    case RX_N_NAME: return get_name(e, n);
    case RX_N_LIST: case RX_N_TUPLE: return eval_list(e, n);
    case RX_N_DICT: return eval_dict(e, n);
    case RX_N_ATTRIBUTE:
        v = rx_eval(e, n->a);
        return e->status == RLX_OK ? rx_get_attribute(e, v, n->text, n->length) : v;
    case RX_N_SLICE: return eval_slice(e, n);
    case RX_N_CALL: return eval_call(e, n);
    case RX_N_FILTER:
        v = n->a ? rx_eval(e, n->a) : get_name(e, &block_text);
        return e->status == RLX_OK ? rx_apply_filter(e, n, v) : v;
    case RX_N_TEST: return eval_test(e, n);
    case RX_N_UNARY: return eval_unary(e, n);
    case RX_N_COMPARE: return eval_compare(e, n);
    case RX_N_NOT: return rx_bool(!rx_truth(rx_eval(e, n->a)));
    default: return eval_pair(e, n);
    }
}

rx_value rx_eval(rx_env *e, const rx_node *n)
{
    rx_value v = rx_undefined(NULL, 0);
    if (!n || !rx_env_step(e, 1))
        return v;
    e->line = n->line;
    if (++e->depth > RX_TEMPLATE_DEPTH)
        rx_env_fail(e, "nested more than %d deep", RX_TEMPLATE_DEPTH);
    else
        v = eval_kind(e, n);
    e->depth--;
    return v;
}
