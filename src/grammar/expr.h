/* SPDX-License-Identifier: MIT */
/* Regular expressions over code points as hash-consed terms with intersection and complement; their
 * Brzozowski derivatives are the states of a lazily built DFA (Owens, Reppy, Turon: "Regular
 * expression derivatives re-examined", 2009). Equal terms have equal ids, modulo associativity,
 * commutativity and idempotence of | and &, so that the DFA is finite.
 *
 * Two symbols beyond the code points stand for the start and the end of a text, for ^ and $. */
#ifndef RX_GRAMMAR_EXPR_H
#define RX_GRAMMAR_EXPR_H

#include "base/error.h"
#include "base/mem.h"

typedef uint32_t rx_ex; /* id of a term */

#define RX_EX_NONE 0u /* the empty language */
#define RX_EX_EPS 1u  /* the empty text */
#define RX_EX_ANY 2u  /* one code point */
#define RX_EX_ALL 3u  /* every text */

#define RX_CP_MAX 0x10ffffu
#define RX_CP_BEGIN 0x110000u
#define RX_CP_END 0x110001u
#define RX_INF UINT32_MAX

typedef struct rx_range {
    uint32_t lo, hi; /* both included */
} rx_range;

/* A growing list of ranges, sorted and merged by rx_ex_set. */
typedef struct rx_ranges {
    rx_range *r;
    size_t n, cap;
} rx_ranges;

typedef enum rx_ex_op {
    RX_OP_NONE, RX_OP_EPS,
    RX_OP_SET,    /* a: set */
    RX_OP_CAT,    /* a b */
    RX_OP_REPEAT, /* a{lo,hi} */
    RX_OP_OR,     /* terms args[a .. a + b) */
    RX_OP_AND,
    RX_OP_NOT,    /* a */
    RX_OP_TAIL,   /* texts w with w END in a */
    RX_OP_MULTIPLE /* digits of a multiple: see rx_ex_multiple; a: modulus, b: remainder, lo: scale,
                    * hi: digits of the fraction still counted, RX_INF before the point */
} rx_ex_op;

enum { RX_EX_NULLABLE = 1, RX_EX_BOOLEAN = 2, RX_EX_ALIVE = 4, RX_EX_DEAD = 8 };

typedef struct rx_ex_node {
    uint8_t op, flags;
    uint16_t depth; /* of the recursion of a derivative */
    uint32_t a, b, lo, hi;
} rx_ex_node;

typedef struct rx_ex_memo {
    uint64_t key; /* term << 32 | code point + 1; 0: free */
    rx_ex to;
} rx_ex_memo;

typedef struct rx_exprs {
    rx_ex_node *nodes;
    size_t n_nodes, cap_nodes;
    rx_ex *args;
    size_t n_args, cap_args;
    uint32_t *table; /* of nodes, open addressing; id + 1 */
    size_t cap_table;
    /* Sets: ranges [first, first + n) of `ranges` */
    rx_range *ranges;
    size_t n_ranges, cap_ranges;
    uint32_t (*sets)[2];
    size_t n_sets, cap_sets;
    /* Partition of the code points by the sets: all of cuts[i] .. cuts[i + 1] - 1 behave as
     * reps[i] does. Made for the first n_partition sets. */
    uint32_t *cuts, *reps, *unique; /* unique: each representative once */
    size_t n_cuts, n_unique, n_partition;
    uint32_t ascii[128]; /* representatives */
    rx_ex_memo *memo;
    size_t n_memo, cap_memo;
    rx_ex outside; /* anything, also the two symbols past the code points */
    rx_ex *scratch;
    size_t cap_scratch;
    uint64_t bytes, max_bytes; /* allocated */
    uint64_t work, max_work;   /* derivatives since the last reset */
    rlx_status failed;         /* sticky: a limit was reached */
} rx_exprs;

rlx_status rx_exprs_init(rx_exprs *x, uint64_t max_bytes, uint64_t max_work);
void rx_exprs_finish(rx_exprs *x);
/* The sticky failure as a sentence, or RLX_OK. */
rlx_status rx_exprs_check(const rx_exprs *x, const char *what, rlx_error *err);

/* ---- Building. After a failure they return RX_EX_NONE and x->failed is set. ----------------- */

bool rx_ranges_add(rx_ranges *s, uint32_t lo, uint32_t hi);
/* Sorts and merges. */
void rx_ranges_normalise(rx_ranges *s);
/* Everything else up to RX_CP_MAX. */
bool rx_ranges_invert(rx_ranges *s);
/* One code point of the ranges, which are normalised here. */
rx_ex rx_ex_set(rx_exprs *x, rx_ranges *s);
rx_ex rx_ex_range(rx_exprs *x, uint32_t lo, uint32_t hi);
rx_ex rx_ex_cat(rx_exprs *x, rx_ex a, rx_ex b);
rx_ex rx_ex_repeat(rx_exprs *x, rx_ex a, uint32_t lo, uint32_t hi);
rx_ex rx_ex_or(rx_exprs *x, rx_ex a, rx_ex b);
rx_ex rx_ex_and(rx_exprs *x, rx_ex a, rx_ex b);
rx_ex rx_ex_or_all(rx_exprs *x, const rx_ex *list, size_t n);
/* One after the other. Many terms are joined by these two: joined one by one, each would copy those
 * before it. */
rx_ex rx_ex_cat_all(rx_exprs *x, const rx_ex *list, size_t n);
rx_ex rx_ex_not(rx_exprs *x, rx_ex a);
/* Texts w such that BEGIN w END has a substring in a. */
rx_ex rx_ex_search(rx_exprs *x, rx_ex a);
/* Texts w such that BEGIN w END is in a. */
rx_ex rx_ex_whole(rx_exprs *x, rx_ex a);
/* Decimal texts (-?digits with an optional fraction, nothing else is checked) whose value is a
 * multiple of modulus * 10^-scale. */
rx_ex rx_ex_multiple(rx_exprs *x, uint32_t modulus, uint32_t scale);
/* A text of UTF-8, as it is. */
rx_ex rx_ex_text(rx_exprs *x, const char *s, size_t n);
/* One of the texts, which are sorted here. */
typedef struct rx_ex_span {
    const char *text;
    size_t n;
} rx_ex_span;
rx_ex rx_ex_texts(rx_exprs *x, rx_ex_span *list, size_t n);

/* ---- Lists of terms to be joined; they nest: each uses those from a count on ---------------- */

typedef struct rx_ex_list {
    rx_ex *e;
    size_t n, cap;
} rx_ex_list;

/* False: out of memory. */
bool rx_ex_push(rx_ex_list *l, rx_ex e);
/* Joins the terms from `from` on, and drops them. */
rx_ex rx_ex_pop_cat(rx_exprs *x, rx_ex_list *l, size_t from);
rx_ex rx_ex_pop_or(rx_exprs *x, rx_ex_list *l, size_t from);

/* ---- Using ---------------------------------------------------------------------------------- */

static inline bool rx_ex_nullable(const rx_exprs *x, rx_ex e)
{
    return x->nodes[e].flags & RX_EX_NULLABLE;
}
rx_ex rx_ex_derive(rx_exprs *x, rx_ex e, uint32_t cp);
/* Whether the language has no text. */
bool rx_ex_is_empty(rx_exprs *x, rx_ex e);
/* Whether some code point of lo..hi leads to a language that is not empty. */
bool rx_ex_can_step(rx_exprs *x, rx_ex e, uint32_t lo, uint32_t hi);
bool rx_ex_matches(rx_exprs *x, rx_ex e, const char *s, size_t n);

#endif
