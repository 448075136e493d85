/* SPDX-License-Identifier: MIT */
/* Statements of templates, and rendering. Scopes are as in Jinja: each loop iteration, macro and
 * captured block has its own; `if` has none. */
#include <string.h>
#include <time.h>

#include "model/template_eval.h"

static void exec_block(rx_env *e, const rx_node *block);

/* ---- Scopes and output ----------------------------------------------------------------------- */

/* Opens a scope in `parent`; returns the one to go back to. */
static rx_frame *push_frame(rx_env *e, rx_frame *parent)
{
    rx_frame *old = e->frame, *f = rx_env_alloc(e, sizeof *f);
    if (f) {
        *f = (rx_frame){.parent = parent};
        e->frame = f;
    }
    return old;
}

static void set_variable(rx_env *e, const char *name, size_t n, rx_value v)
{
    rx_dict_set(e, &e->frame->variables, rx_text(name, n), v);
}

static void emit(rx_env *e, const char *text, size_t n)
{
    if (n > RX_TEMPLATE_OUTPUT - e->out->n)
        rx_env_fail(e, "gives more than %zu bytes", RX_TEMPLATE_OUTPUT);
    if (rx_env_room(e, n))
        rx_str_add(e->out, text, n);
}

/* Captures the output of a block, run in a new scope within `parent`. */
static rx_value capture(rx_env *e, const rx_node *block, rx_frame *parent)
{
    rx_str s = {0}, *out = e->out;
    rx_frame *old = push_frame(e, parent);
    e->out = &s;
    exec_block(e, block);
    e->out = out;
    e->frame = old;
    return rx_take_text(e, &s);
}

/* ---- Assignments ----------------------------------------------------------------------------- */

static void assign(rx_env *e, const rx_node *target, rx_value v);

static void unpack(rx_env *e, const rx_node *target, rx_value v)
{
    const rx_list *l = rx_elements(e, v);
    size_t n = 0;
    for (const rx_node *t = target->first; t; t = t->next)
        n++;
    if (!l)
        return;
    if (l->n != n) {
        rx_env_fail(e, "%zu values for %zu names", l->n, n);
        return;
    }
    size_t i = 0;
    for (const rx_node *t = target->first; t && e->status == RLX_OK; t = t->next)
        assign(e, t, l->items[i++]);
}

static void assign(rx_env *e, const rx_node *target, rx_value v)
{
    if (e->status != RLX_OK || !target)
        return;
    if (target->kind == RX_N_TUPLE) {
        unpack(e, target, v);
    } else if (target->kind == RX_N_NAME) {
        set_variable(e, target->text, target->length, v);
    } else {
        rx_value of = rx_eval(e, target->a);
        if (of.kind == RX_V_DICT && of.dict->is_namespace)
            rx_dict_set(e, of.dict, rx_text(target->text, target->length), v);
        else
            rx_env_fail(e, "an attribute of %s is set; expected a namespace", rx_kind_name(of));
    }
}

static void exec_set(rx_env *e, const rx_node *n)
{
    if (!n->first) {
        assign(e, n->a, rx_eval(e, n->b));
        return;
    }
    rx_value text = capture(e, n->first, e->frame);
    if (n->b) { /* {% set x | filter %} */
        rx_frame *old = push_frame(e, e->frame);
        set_variable(e, "", 0, text);
        text = rx_eval(e, n->b);
        e->frame = old;
    }
    assign(e, n->a, text);
}

/* ---- Loops ----------------------------------------------------------------------------------- */

/* The elements for which the filter of the loop holds. */
static rx_list *filter_elements(rx_env *e, const rx_node *n, rx_list *l)
{
    rx_value out = rx_new_list(e, false);
    for (size_t i = 0; i < l->n && e->status == RLX_OK; i++) {
        rx_frame *old = push_frame(e, e->frame);
        assign(e, n->a, l->items[i]);
        if (rx_truth(rx_eval(e, n->d)))
            rx_list_add(e, out.list, l->items[i]);
        e->frame = old;
    }
    return e->status == RLX_OK ? out.list : NULL;
}

static void exec_for(rx_env *e, const rx_node *n)
{
    rx_list *l = rx_elements(e, rx_eval(e, n->b));
    if (l && n->d)
        l = filter_elements(e, n, l);
    if (!l || e->status != RLX_OK)
        return;
    if (!l->n) {
        if (n->c)
            exec_block(e, n->c);
        return;
    }
    rx_loop *loop = rx_env_alloc(e, sizeof *loop);
    if (!loop)
        return;
    *loop = (rx_loop){.items = l->items, .n = l->n, .changed = rx_undefined(NULL, 0)};
    for (; loop->at < loop->n && e->status == RLX_OK; loop->at++) {
        rx_frame *old = push_frame(e, e->frame);
        set_variable(e, "loop", 4, (rx_value){.kind = RX_V_LOOP, .loop = loop});
        assign(e, n->a, loop->items[loop->at]);
        exec_block(e, n->first);
        e->frame = old;
        bool ends = e->jump == RX_JUMP_BREAK;
        e->jump = RX_JUMP_NONE;
        if (ends)
            break;
    }
}

/* ---- Macros ---------------------------------------------------------------------------------- */

static void bind_params(rx_env *e, const rx_macro *m, const rx_args *args)
{
    size_t i = 0;
    for (const rx_node *p = m->params->first; p && e->status == RLX_OK; p = p->next, i++) {
        char name[64];
        size_t n = p->length < sizeof name - 1 ? p->length : sizeof name - 1;
        memcpy(name, p->text, n);
        name[n] = 0;
        const rx_value missing = {.kind = RX_V_UNDEFINED, .s = "\n", .n = SIZE_MAX};
        rx_env_step(e, args->n_keywords / 8);
        rx_value v = rx_arg(args, i, name, missing);
        if (v.kind == RX_V_UNDEFINED && v.n == SIZE_MAX)
            v = p->a ? rx_eval(e, p->a) : rx_undefined(p->text, p->length);
        set_variable(e, p->text, p->length, v);
    }
    if (args->n > i)
        rx_env_fail(e, "a macro is called with %zu values; expected at most %zu", args->n, i);
    rx_value caller = rx_arg(args, SIZE_MAX, "caller", rx_undefined("caller", 6));
    set_variable(e, "caller", 6, caller);
}

rx_value rx_call_macro(rx_env *e, const rx_macro *m, const rx_args *args)
{
    if (++e->depth > RX_TEMPLATE_DEPTH) {
        e->depth--;
        return rx_env_fail(e, "macros call each other more than %d deep", RX_TEMPLATE_DEPTH);
    }
    rx_frame *old = push_frame(e, m->frame);
    bind_params(e, m, args);
    rx_value v = e->status == RLX_OK ? capture(e, m->body, e->frame) : rx_undefined(NULL, 0);
    e->jump = RX_JUMP_NONE;
    e->frame = old;
    e->depth--;
    return v;
}

static rx_value new_macro(rx_env *e, const rx_node *n, const rx_node *params)
{
    rx_macro *m = rx_env_alloc(e, sizeof *m);
    if (!m)
        return rx_undefined(NULL, 0);
    *m = (rx_macro){.node = n, .params = params, .body = n->first, .frame = e->frame};
    return (rx_value){.kind = RX_V_MACRO, .macro = m};
}

static void exec_call(rx_env *e, const rx_node *n)
{
    rx_args args;
    rx_value f = rx_eval(e, n->a->a), caller = new_macro(e, n, n->b);
    if (!rx_eval_args(e, n->a->first, &args))
        return;
    args.keywords[args.n_keywords++] = (rx_keyword){"caller", 6, caller};
    rx_value v = rx_to_text(e, rx_call_value(e, f, &args));
    if (e->status == RLX_OK)
        emit(e, v.s, v.n);
}

static void exec_filter(rx_env *e, const rx_node *n)
{
    rx_value text = capture(e, n->first, e->frame);
    rx_frame *old = push_frame(e, e->frame);
    set_variable(e, "", 0, text); /* the operand of the block's filters */
    rx_value v = rx_to_text(e, rx_eval(e, n->a));
    e->frame = old;
    if (e->status == RLX_OK)
        emit(e, v.s, v.n);
}

/* ---- Statements ------------------------------------------------------------------------------ */

static void exec_print(rx_env *e, const rx_node *n)
{
    rx_value v = rx_eval(e, n->a);
    if (e->status != RLX_OK)
        return;
    if (v.kind != RX_V_STRING)
        v = rx_to_text(e, v);
    if (e->status == RLX_OK)
        emit(e, v.s, v.n);
}

static void exec_if(rx_env *e, const rx_node *n)
{
    while (n && n->kind == RX_N_IF && rx_env_step(e, 1)) {
        bool yes = rx_truth(rx_eval(e, n->a));
        if (e->status != RLX_OK)
            return;
        n = yes ? n->b : n->c;
    }
    if (n && e->status == RLX_OK)
        exec_block(e, n);
}

static void exec(rx_env *e, const rx_node *n)
{
    e->line = n->line;
    switch (n->kind) {
    case RX_N_TEXT: emit(e, n->text, n->length); break;
    case RX_N_PRINT: exec_print(e, n); break;
    case RX_N_IF: exec_if(e, n); break;
    case RX_N_FOR: exec_for(e, n); break;
    case RX_N_SET: exec_set(e, n); break;
    case RX_N_MACRO: set_variable(e, n->text, n->length, new_macro(e, n, n->a)); break;
    case RX_N_CALL_BLOCK: exec_call(e, n); break;
    case RX_N_FILTER_BLOCK: exec_filter(e, n); break;
    case RX_N_DO: rx_eval(e, n->a); break;
    case RX_N_BREAK: e->jump = RX_JUMP_BREAK; break;
    case RX_N_CONTINUE: e->jump = RX_JUMP_CONTINUE; break;
    default: exec_block(e, n); break;
    }
}

static void exec_block(rx_env *e, const rx_node *block)
{
    if (++e->depth > RX_TEMPLATE_DEPTH)
        rx_env_fail(e, "nested more than %d deep", RX_TEMPLATE_DEPTH);
    for (const rx_node *n = block->first; n && e->jump == RX_JUMP_NONE; n = n->next) {
        if (!rx_env_step(e, 1))
            break;
        exec(e, n);
    }
    e->depth--;
}

/* ---- Rendering ------------------------------------------------------------------------------- */

static void begin(rx_env *e, int64_t now, rx_str *out, rlx_error *err)
{
    *e = (rx_env){.now = now ? now : (int64_t)time(NULL), .out = out, .line = 1, .err = err};
    push_frame(e, NULL);
}

static rlx_status finish(rx_env *e, const rx_chat_template *t, char **text, size_t *length)
{
    if (e->status == RLX_OK)
        exec_block(e, t->root);
    rlx_status st = e->status;
    if (st == RLX_OK) {
        rx_str_add(e->out, "", 0); /* allocates the terminator of an empty text */
        st = rx_str_take(e->out, text, length, e->err);
    }
    rx_str_finish(e->out);
    rx_arena_finish(&e->arena);
    return st;
}

static void set_members(rx_env *e, const rx_json *object)
{
    for (const rx_json *v = object ? object->first : NULL; v && e->status == RLX_OK; v = v->next)
        set_variable(e, v->key, v->key_length, rx_from_json(e, v, 0));
}

rlx_status rx_template_render(const rx_chat_template *t, const rx_json *variables, int64_t now,
                              char **text, size_t *length, rlx_error *err)
{
    rx_env e;
    rx_str out = {0};
    *text = NULL;
    if (variables && variables->kind != RX_JSON_OBJECT)
        return rx_fail(err, RLX_INVALID, "chat template: the variables are %s; expected an object",
                       rx_json_kind_name(variables));
    begin(&e, now, &out, err);
    set_members(&e, variables);
    return finish(&e, t, text, length);
}

static rx_value c_text(const char *s)
{
    return rx_text(s ? s : "", s ? strlen(s) : 0);
}

rlx_status rx_template_render_chat(const rx_chat_template *t, const rx_template_chat *chat,
                                   char **text, size_t *length, rlx_error *err)
{
    rx_env e;
    rx_str out = {0};
    *text = NULL;
    if (chat->extra && chat->extra->kind != RX_JSON_OBJECT)
        return rx_fail(err, RLX_INVALID, "chat template: the variables are %s; expected an object",
                       rx_json_kind_name(chat->extra));
    begin(&e, chat->now, &out, err);
    rx_value messages = rx_new_list(&e, false);
    for (size_t i = 0; i < chat->n_messages && e.status == RLX_OK; i++) {
        rx_value m = rx_new_dict(&e);
        if (m.kind != RX_V_DICT)
            break;
        rx_dict_set(&e, m.dict, c_text("role"), c_text(chat->messages[i].role));
        rx_dict_set(&e, m.dict, c_text("content"), c_text(chat->messages[i].content));
        rx_list_add(&e, messages.list, m);
    }
    if (e.status == RLX_OK) {
        set_variable(&e, "messages", 8, messages);
        set_variable(&e, "add_generation_prompt", 21, rx_bool(chat->add_generation_prompt));
        set_variable(&e, "bos_token", 9, c_text(chat->bos_token));
        set_variable(&e, "eos_token", 9, c_text(chat->eos_token));
        set_members(&e, chat->extra);
    }
    return finish(&e, t, text, length);
}
