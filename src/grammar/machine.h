/* SPDX-License-Identifier: MIT */
/* The machine that runs a grammar over bytes: a recursive transition network whose terminals are
 * regular terms. All parses are followed in parallel (as in an NFA simulation); a state is the
 * interned set of their configurations, and its transitions are computed once. Stacks are interned
 * lists, so that equal ones are equal numbers. The frame of a JSON object or array also records the
 * members and items seen.
 *
 *   expr.c     terms and their derivatives     term.c     bytes to code points, JSON escapes
 *   regex.c    ECMA 262                        machine.c  states and transitions
 *   number.c   sets of numbers                 frame.c    stacks, objects and arrays
 *   format.c   formats of strings              vocab.c    the trie of a vocabulary
 *   gbnf.c     GBNF                            mask.c     masks, forced bytes
 *   schema*.c  JSON Schema                     grammar.c  the API */
#ifndef RX_GRAMMAR_MACHINE_H
#define RX_GRAMMAR_MACHINE_H

#include "grammar/expr.h"
#include "rlx/grammar.h"

/* ---- Terminals ------------------------------------------------------------------------------- */

typedef enum rx_term_mode {
    RX_TERM_TEXT, /* code points as UTF-8 */
    RX_TERM_JSON, /* the inside of a JSON string: escapes stand for code points */
    RX_TERM_WRITTEN /* the same with escapes only where they are needed, and short ones first */
} rx_term_mode;

/* Position within a terminal: the remaining term, and a partially read code point. */
typedef struct rx_term {
    rx_ex q;
    uint32_t mid; /* 0: between code points */
} rx_term;

/* Steps by a byte; false when no text of the terminal continues with it. */
bool rx_term_step(rx_exprs *x, rx_term_mode mode, rx_term *t, unsigned char byte);

/* ---- Programs -------------------------------------------------------------------------------- */

typedef enum rx_ins_op {
    RX_INS_TERM,  /* a: term, mode; then the next instruction */
    RX_INS_JUMP,  /* a */
    RX_INS_SPLIT, /* a or b */
    RX_INS_CALL,  /* a, then the next instruction */
    RX_INS_RETURN,
    RX_INS_FAIL,
    RX_INS_OBJECT_NEXT, /* a: object; b: 1 right after the brace. A member or, there, the end */
    RX_INS_OBJECT_MORE, /* after a member: a comma or the end */
    RX_INS_ARRAY_NEXT, RX_INS_ARRAY_MORE
} rx_ins_op;

typedef struct rx_ins {
    uint8_t op, mode;
    uint32_t a, b;
} rx_ins;

#define RX_NO_BIT UINT32_MAX

/* A member that an object may have: keys and the value that goes with them. */
typedef struct rx_member {
    uint32_t pc;    /* of the code from its quote to OBJECT_MORE */
    uint32_t name;  /* bit that is set by it and that it must not find set, or RX_NO_BIT */
    uint32_t marks; /* bits of needs that it fulfils */
    uint32_t order; /* place in an ordered object */
} rx_member;

typedef struct rx_object {
    const rx_member *members;
    uint32_t n_members, n_names;
    const uint32_t *required;    /* bits of names, n_words */
    const uint32_t *required_before; /* [order, n_words]: required names of a smaller order */
    uint32_t n_words, n_required, needs; /* needs: marks that must be set */
    uint32_t min, max;           /* members */
    bool ordered, unlimited;     /* unlimited: some member has no name and can be repeated */
    uint32_t close_pc, comma_pc;
} rx_object;

#define RX_MAX_COUNTERS 4

typedef struct rx_item {
    uint32_t pc, counts; /* bits of the counters it adds to */
} rx_item;

typedef struct rx_array {
    const rx_item *items;      /* of all places, one after the other */
    const uint32_t *first;     /* [n_prefix + 2]: where those of a place begin; the last place is
                                * that of all items after the prefix */
    uint32_t n_prefix, min, max, n_counters;
    uint32_t lo[RX_MAX_COUNTERS], hi[RX_MAX_COUNTERS];
    uint32_t close_pc, comma_pc;
} rx_array;

typedef struct rx_program {
    rx_exprs x;
    rx_arena arena;
    rx_ins *code;
    size_t n_code, cap_code;
    rx_object *objects;
    size_t n_objects, cap_objects;
    rx_array *arrays;
    size_t n_arrays, cap_arrays;
    uint32_t start;
    rx_ins nowhere; /* see rx_ins_at */
} rx_program;

/* Appends an instruction and returns its place; out of memory is x.failed. */
uint32_t rx_emit(rx_program *p, rx_ins i);
/* The instruction at a place; one that counts for nothing after a failure. */
rx_ins *rx_ins_at(rx_program *p, uint32_t at);
void rx_program_finish(rx_program *p);

/* ---- States ---------------------------------------------------------------------------------- */

typedef struct rx_frame {
    uint32_t parent, ret;
    uint32_t payload; /* what was seen of an object or array: list of words, 0: nothing */
} rx_frame;

typedef struct rx_config {
    uint32_t frame, pc;
    rx_term t;
} rx_config;

typedef struct rx_state {
    uint32_t first, n; /* configurations */
    uint32_t row;      /* of transitions, 256 each; 0: not yet */
    bool accepting;
} rx_state;

/* Interned arrays of words: payloads. */
typedef struct rx_words {
    uint32_t *data;    /* length, words, ... */
    size_t n, cap;
    uint32_t *table;   /* place in data */
    size_t n_table, cap_table;
} rx_words;

typedef struct rx_point {
    uint32_t frame, pc;
} rx_point;

typedef struct rx_machine {
    rx_program *p;
    rx_frame *frames;
    size_t n_frames, cap_frames;
    uint32_t *frame_table;
    size_t cap_frame_table;
    rx_words payloads;
    rx_config *configs;
    size_t n_configs, cap_configs;
    rx_state *states; /* 0: dead */
    size_t n_states, cap_states;
    uint32_t *state_table;
    size_t cap_state_table;
    uint32_t *rows;
    size_t n_rows, cap_rows;
    /* scratch of a transition */
    rx_config *next;
    size_t n_next, cap_next;
    rx_point *points;
    size_t n_points, cap_points;
    uint32_t *payload;
    size_t cap_payload;
    bool next_accepting;
    uint64_t bytes; /* of all these */
} rx_machine;

#define RX_DEAD 0u
#define RX_UNKNOWN UINT32_MAX

rlx_status rx_machine_init(rx_machine *m, rx_program *p);
void rx_machine_finish(rx_machine *m);
/* Forgets all states; those of `keep` get new numbers. */
bool rx_machine_collect(rx_machine *m, uint32_t *const *keep, size_t n);
/* The state before the first byte. */
uint32_t rx_machine_start(rx_machine *m);
/* After a failure (p->x.failed) the result is RX_DEAD and means nothing. */
uint32_t rx_machine_step_new(rx_machine *m, uint32_t state, unsigned char byte);

static inline uint32_t rx_machine_step(rx_machine *m, uint32_t state, unsigned char byte)
{
    uint32_t row = m->states[state].row;
    uint32_t to = row ? m->rows[(size_t)row * 256 + byte] : RX_UNKNOWN;
    return to != RX_UNKNOWN ? to : rx_machine_step_new(m, state, byte);
}

/* ---- frame.c --------------------------------------------------------------------------------- */

uint32_t rx_frame_intern(rx_machine *m, rx_frame f);
/* Puts a point on the list of those to be followed. */
void rx_machine_follow(rx_machine *m, uint32_t frame, uint32_t pc);
/* OBJECT_* and ARRAY_* instructions. */
void rx_follow_object(rx_machine *m, uint32_t frame, const rx_ins *i);
void rx_follow_array(rx_machine *m, uint32_t frame, const rx_ins *i);
uint32_t rx_words_intern(rx_machine *m, const uint32_t *w, size_t n);
bool rx_machine_grow(rx_machine *m, void *p, size_t *cap, size_t need, size_t item);
/* Makes room in a hash table of n entries; *cap is a power of two. True when it was made anew and
 * has to be filled. */
bool rx_machine_renew(rx_machine *m, uint32_t **table, size_t *cap, size_t n);

#endif
