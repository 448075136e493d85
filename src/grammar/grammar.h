/* SPDX-License-Identifier: MIT */
/* Grammars and states, behind the API. */
#ifndef RX_GRAMMAR_GRAMMAR_H
#define RX_GRAMMAR_GRAMMAR_H

#include "base/thread.h"
#include "grammar/front.h"
#include "grammar/vocab.h"

/* The number of plain code points that a term accepts, up to RX_PLAIN_LENGTH. */
typedef struct rx_plain_run {
    rx_ex e;       /* 0: free */
    uint16_t n;
    bool is_exact; /* and none more, or any number */
} rx_plain_run;

/* A cached mask. */
typedef struct rx_kept_mask {
    const rlx_vocabulary *v;
    uint32_t state; /* 0: free */
    uint32_t *bits;
} rx_kept_mask;

#define RX_KEPT_MASKS 128

struct rlx_grammar {
    rx_mutex lock;     /* guards all that follows */
    rx_program p;
    rx_machine m;
    uint32_t start;
    rlx_grammar_state *states; /* all that exist, for rx_machine_collect */
    rx_plain_run *runs;
    size_t n_runs, cap_runs;
    uint32_t *plain;   /* representatives of plain code points */
    size_t n_plain;
    rx_kept_mask masks[RX_KEPT_MASKS];
    uint32_t *walk;    /* states on the way down a trie */
    size_t cap_walk;
};

#define RX_MAX_HISTORY 65536

struct rlx_grammar_state {
    rlx_grammar *g;
    const rlx_vocabulary *v;
    uint32_t at;
    uint32_t *history; /* states before each accept */
    size_t n_history, cap_history;
    rlx_grammar_state *prev, *next;
};

/* The mask of a state; the lock is held. */
rlx_status rx_mask_compute(rlx_grammar *g, const rlx_vocabulary *v, uint32_t state, uint32_t *bits,
                           rlx_error *err);
/* The state after some bytes, RX_DEAD where there is none. */
uint32_t rx_mask_bytes(rlx_grammar *g, uint32_t state, const char *bytes, size_t n);
/* The only byte that can follow, or -1. */
int rx_mask_only_byte(rlx_grammar *g, uint32_t state);
/* Whether any byte can follow. */
bool rx_mask_goes_on(rlx_grammar *g, uint32_t state);
void rx_mask_forget(rlx_grammar *g);

#endif
