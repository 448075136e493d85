/* SPDX-License-Identifier: MIT */
/* Values of templates and the environment of a rendering. Values live in the arena of the
 * rendering. After a failure `status` of the environment is set, and functions return undefined. */
#ifndef RX_MODEL_TEMPLATE_VALUE_H
#define RX_MODEL_TEMPLATE_VALUE_H

#include "base/str.h"
#include "model/template_ast.h"

typedef enum rx_value_kind {
    RX_V_UNDEFINED, RX_V_NONE, RX_V_BOOL, RX_V_INT, RX_V_FLOAT, RX_V_STRING, RX_V_LIST, RX_V_DICT,
    RX_V_MACRO, RX_V_FUNCTION, RX_V_LOOP
} rx_value_kind;

typedef struct rx_value rx_value;
typedef struct rx_list rx_list;
typedef struct rx_dict rx_dict;
typedef struct rx_macro rx_macro;
typedef struct rx_loop rx_loop;
typedef struct rx_env rx_env;
typedef struct rx_args rx_args;

/* A filter, a test, a method or a global function: `self` is what it is applied to. */
typedef rx_value rx_builtin(rx_env *e, rx_value self, const rx_args *args);

struct rx_value {
    rx_value_kind kind;
    size_t n; /* bytes of a string */
    union {
        int64_t i; /* also of a BOOL */
        double d;
        const char *s; /* not terminated; of UNDEFINED: the name that was missing, or NULL */
        rx_list *list;
        rx_dict *dict;
        const rx_macro *macro;
        rx_builtin *function;
        rx_loop *loop;
    };
    const rx_value *self; /* of a FUNCTION that is a method */
};

struct rx_list {
    rx_value *items;
    size_t n, cap;
    bool is_tuple;
};

typedef struct rx_pair {
    rx_value key, value;
} rx_pair;

struct rx_dict {
    rx_pair *items; /* in insertion order */
    size_t n, cap;
    bool is_namespace;
};

typedef struct rx_frame rx_frame;

struct rx_macro {
    const rx_node *node, *params, *body;
    rx_frame *frame; /* where it was defined */
};

struct rx_loop {
    const rx_value *items;
    size_t n, at;
    rx_value changed; /* what loop.changed was called with; UNDEFINED at first */
};

typedef struct rx_keyword {
    const char *name;
    size_t length;
    rx_value value;
} rx_keyword;

struct rx_args {
    rx_value *items;
    size_t n;
    rx_keyword *keywords;
    size_t n_keywords;
};

struct rx_frame {
    rx_dict variables;
    rx_frame *parent;
};

typedef enum rx_jump { RX_JUMP_NONE, RX_JUMP_BREAK, RX_JUMP_CONTINUE } rx_jump;

struct rx_env {
    rx_arena arena;
    size_t memory; /* taken from the arena */
    int64_t steps, now;
    int depth, line;
    rx_jump jump;
    rx_str *out;
    rx_frame *frame;
    rlx_status status;
    rlx_error *err;
};

/* ---- Failures, memory, effort ---------------------------------------------------------------- */

/* Sets the failure with the line of the template, unless there is one; returns undefined. */
rx_value rx_env_fail(rx_env *e, const char *fmt, ...) RX_PRINTF(2, 3);
void *rx_env_alloc(rx_env *e, uint64_t bytes);
void *rx_env_array(rx_env *e, uint64_t n, uint64_t item);
/* Charges memory allocated elsewhere to the budget; false when it is exceeded. */
bool rx_env_room(rx_env *e, uint64_t bytes);
/* Charges work to the budget; false when it is exceeded or something failed. A step is about the
 * cost of a name lookup; operations on large values charge more, a step for 8 elements of a list or
 * 64 bytes of a text, before or while they are done. */
bool rx_env_step(rx_env *e, size_t n);
bool rx_env_bytes(rx_env *e, size_t n);

/* ---- Making values --------------------------------------------------------------------------- */

rx_value rx_undefined(const char *name, size_t n);
rx_value rx_none(void);
rx_value rx_bool(bool b);
rx_value rx_int(int64_t i);
rx_value rx_real(double d);
/* Points to the bytes, which must stay. */
rx_value rx_text(const char *s, size_t n);
rx_value rx_copy_text(rx_env *e, const char *s, size_t n);
/* Moves the text out of `s` and finishes it. */
rx_value rx_take_text(rx_env *e, rx_str *s);
rx_value rx_new_list(rx_env *e, bool is_tuple);
rx_value rx_new_dict(rx_env *e);
rx_value rx_function(rx_builtin *f);
void rx_list_add(rx_env *e, rx_list *l, rx_value v);
/* Sets or replaces a key. */
void rx_dict_set(rx_env *e, rx_dict *d, rx_value key, rx_value value);
/* NULL when it is not there. */
rx_value *rx_dict_find(rx_env *e, const rx_dict *d, rx_value key);
rx_value *rx_dict_find_name(rx_env *e, const rx_dict *d, const char *name, size_t n);
rx_value rx_from_json(rx_env *e, const rx_json *v, int depth);

/* ---- Asking values --------------------------------------------------------------------------- */

bool rx_is_text(rx_value v, const char *text);
bool rx_truth(rx_value v);
bool rx_equal(rx_env *e, rx_value a, rx_value b);
/* Negative, 0, positive; fails for values that have no order. */
int rx_compare(rx_env *e, rx_value a, rx_value b);
bool rx_contains(rx_env *e, rx_value list, rx_value v);
bool rx_is_number(rx_value v); /* also BOOL */
double rx_number(rx_value v);
const char *rx_kind_name(rx_value v);
/* The elements of a list, the keys of a dictionary, the letters of a string; fails otherwise. */
rx_list *rx_elements(rx_env *e, rx_value v);

/* ---- Text ------------------------------------------------------------------------------------ */

/* As Python's str: what {{ }} prints. */
void rx_print_value(rx_env *e, rx_str *out, rx_value v);
rx_value rx_to_text(rx_env *e, rx_value v);

typedef struct rx_json_style {
    int64_t indent; /* < 0: on one line */
    rx_value item, key; /* separators as texts; UNDEFINED: the usual ones */
    bool ascii, sorted;
} rx_json_style;
void rx_print_json(rx_env *e, rx_str *out, rx_value v, const rx_json_style *style, int depth);

/* Characters of UTF-8, and where character i begins. */
size_t rx_count_letters(rx_value v);
size_t rx_letter_at(rx_value v, size_t i);

/* ---- Arguments ------------------------------------------------------------------------------- */

/* Argument i, or the one of that name, or `missing`. */
rx_value rx_arg(const rx_args *args, size_t i, const char *name, rx_value missing);
/* The same for an integer; fails for other kinds. */
int64_t rx_arg_int(rx_env *e, const rx_args *args, size_t i, const char *name, int64_t missing);

/* ---- The parts of the interpreter ------------------------------------------------------------ */

rx_builtin *rx_find_filter(const char *name, size_t n);
rx_builtin *rx_find_test(const char *name, size_t n);
rx_builtin *rx_find_method(rx_value of, const char *name, size_t n);
rx_builtin *rx_find_global(const char *name, size_t n);

rx_value rx_call_value(rx_env *e, rx_value f, const rx_args *args);
/* a.name; UNDEFINED when there is none. */
rx_value rx_get_attribute(rx_env *e, rx_value a, const char *name, size_t n);
rx_value rx_get_item(rx_env *e, rx_value a, rx_value index);
rx_value rx_binary(rx_env *e, rx_binop op, rx_value a, rx_value b);
/* Python's "..." % values. */
rx_value rx_percent(rx_env *e, rx_value format, rx_value values);

#endif
