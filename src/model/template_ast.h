/* SPDX-License-Identifier: MIT */
/* The syntax tree of a template. One node struct serves all kinds; the fields used are listed at
 * each kind. Child lists begin at `first` and continue with `next`. */
#ifndef RX_MODEL_TEMPLATE_AST_H
#define RX_MODEL_TEMPLATE_AST_H

#include "base/mem.h"
#include "model/template.h"

typedef enum rx_node_kind {
    /* Statements */
    RX_N_BLOCK,    /* first: statements */
    RX_N_TEXT,     /* text */
    RX_N_PRINT,    /* a */
    RX_N_IF,       /* a: condition, b: block, c: else, a block or another IF, or NULL */
    RX_N_FOR,      /* a: target, b: what is walked, c: else block or NULL, d: filter or NULL,
                      first: the body's block */
    RX_N_SET,      /* a: target, b: value; or first: a block whose text is the value */
    RX_N_MACRO,    /* text: name, a: PARAMS, first: block */
    RX_N_CALL_BLOCK,   /* a: CALL, b: PARAMS, first: block */
    RX_N_FILTER_BLOCK, /* a: filters over a NULL, first: block */
    RX_N_DO,       /* a */
    RX_N_BREAK, RX_N_CONTINUE,
    RX_N_PARAMS,   /* first: KEYWORDs, a is NULL where there is no default */
    /* Expressions */
    RX_N_NONE, RX_N_BOOL /* number */, RX_N_INT /* number */, RX_N_FLOAT /* real */,
    RX_N_STRING,   /* text */
    RX_N_NAME,     /* text */
    RX_N_LIST, RX_N_TUPLE, /* first */
    RX_N_DICT,     /* first: PAIRs of a and b */
    RX_N_PAIR,
    RX_N_ATTRIBUTE, /* a, text */
    RX_N_INDEX,    /* a, b */
    RX_N_SLICE,    /* a; b, c, d: begin, end, step or NULL */
    RX_N_CALL,     /* a, first: arguments */
    RX_N_KEYWORD,  /* text, a: an argument name=value */
    RX_N_FILTER,   /* a (NULL: the text of the block), text, first: arguments */
    RX_N_TEST,     /* a, text, first: arguments, number: 1 when negated */
    RX_N_UNARY,    /* op, a */
    RX_N_BINARY,   /* op, a, b */
    RX_N_COMPARE,  /* a, first: COMPARE_NEXTs */
    RX_N_COMPARE_NEXT, /* op, a */
    RX_N_AND, RX_N_OR, /* a, b */
    RX_N_NOT,      /* a */
    RX_N_CHOICE    /* a: condition, b: when true, c: when false or NULL */
} rx_node_kind;

typedef enum rx_binop {
    RX_BINOP_NONE, RX_BINOP_ADD, RX_BINOP_SUB, RX_BINOP_MUL, RX_BINOP_DIV, RX_BINOP_FLOORDIV,
    RX_BINOP_MOD, RX_BINOP_POW, RX_BINOP_CONCAT, RX_BINOP_EQ, RX_BINOP_NE, RX_BINOP_LT,
    RX_BINOP_LE, RX_BINOP_GT, RX_BINOP_GE, RX_BINOP_IN, RX_BINOP_NOT_IN
} rx_binop;

typedef struct rx_node rx_node;
struct rx_node {
    rx_node_kind kind;
    rx_binop op;
    int line;
    const char *text;
    size_t length;
    int64_t number;
    double real;
    rx_node *a, *b, *c, *d, *first, *next;
};

struct rx_chat_template {
    rx_arena arena;
    const rx_node *root; /* a BLOCK */
};

/* ---- Tokens: what the parser reads ----------------------------------------------------------- */

typedef enum rx_token_kind {
    RX_T_END, RX_T_TEXT, RX_T_BEGIN_PRINT, RX_T_END_PRINT, RX_T_BEGIN_TAG, RX_T_END_TAG,
    RX_T_NAME, RX_T_STRING, RX_T_INT, RX_T_FLOAT, RX_T_SIGN
} rx_token_kind;

typedef struct rx_token {
    rx_token_kind kind;
    int line;
    const char *text; /* of names, signs, text; of strings without escapes */
    size_t length;
    int64_t number;
    double real;
} rx_token;

/* Tokenizes a template; the last token is RX_T_END. The array lives in the arena. */
rlx_status rx_template_lex(rx_arena *a, const char *text, size_t n, const rx_token **out,
                           rlx_error *err);

#endif
