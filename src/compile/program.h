/* SPDX-License-Identifier: MIT */
/* A compiled program, which a device runs: a flat list of steps over values with fixed offsets.
 * Immutable, reference-counted, shared by sessions cloned from each other. */
#ifndef RX_COMPILE_PROGRAM_H
#define RX_COMPILE_PROGRAM_H

#include <stdatomic.h>

#include "ir/graph.h"
#include "rlx/session.h"

/* Where the bytes of a value are. `index` counts within the space. */
typedef enum rx_space {
    RX_SPACE_NONE,     /* never materialised: unused result */
    RX_SPACE_ARENA,    /* planned memory, at `offset` */
    RX_SPACE_INPUT,    /* the input tensor number `index` */
    RX_SPACE_PARAM,    /* the weight number `index` */
    RX_SPACE_CONSTANT, /* literal bytes: data of the program */
    RX_SPACE_STATE     /* the state tensor number `index` */
} rx_space;

typedef struct rx_pvalue {
    rlx_dtype dtype;
    rx_space space;
    rlx_shape shape;    /* may have handles into program->dims */
    uint32_t index;
    int32_t view_of;    /* -1, or the value (earlier in the list) that this is a view of */
    rx_op view_op;      /* the operation of the view, with its record */
    const void *view_attr;
    bool dense;         /* known to be dense for all values of the dimensions */
    uint64_t offset;    /* in the arena */
    uint64_t bytes;     /* at the bounds; of the base for views */
    uint32_t first, last; /* first and last step that access it; outputs: last = n_steps */
} rx_pvalue;

typedef struct rx_step {
    rx_op op;
    rlx_support support; /* native or host */
    uint32_t n_in, n_out;
    const uint32_t *in;  /* value indices; RX_NO_VALUE: absent optional operand */
    const uint32_t *out;
    const void *attr;    /* may have dimension handles: rx_attr_resolve */
    const char *name;
    double flops, bytes;
} rx_step;

#define RX_NO_VALUE 0xffffffffu
#define RX_NO_STEP 0xffffffffu

/* Steps that one kernel may compute together with this one, where sizes suit: compile/merge.c. */
typedef struct rx_merge {
    uint32_t prologue; /* a producer that each of its readers may compute while reading */
    uint32_t defer_to; /* its only reader, in whose position both may be computed */
} rx_merge;

typedef struct rx_port {
    const char *name;
    uint32_t value;
} rx_port;

typedef struct rx_program {
    atomic_uint refs;
    rx_arena arena;        /* owns everything below */
    const char *name;
    rx_dim_expr *dims;
    rx_pvalue *values;
    rx_step *steps;
    rx_port *inputs, *params, *states, *outputs;
    const void **constants; /* by index of RX_SPACE_CONSTANT; 64-byte aligned */
    size_t n_dims, n_values, n_steps, n_inputs, n_params, n_states, n_outputs, n_constants;
    rlx_policy policy;
    bool invariant;        /* rlx_session_desc.invariant, under exact */
    rlx_memory_info memory;
    rlx_graph *lowered;    /* the input of plan and schedule, where it is to be saved; or NULL */
    bool keep_all;         /* of the descriptor */
    rx_merge *merges;      /* by step; RX_NO_STEP: none */
} rx_program;

/* Number of ports: inputs, then states, then outputs. An exec has memory for them besides its
 * arena. */
static inline size_t rx_program_n_ports(const rx_program *p)
{
    return p->n_inputs + p->n_states + p->n_outputs;
}
/* The index of a port that is not a param among them, and the reverse. */
size_t rx_port_index(const rx_program *p, rlx_leaf kind, size_t i);
const rx_port *rx_port_at(const rx_program *p, size_t index, rlx_leaf *kind);
/* The value that owns an output's memory when no other value shares it, so that it may be
 * relocated. RX_NO_VALUE: the output is part of it, or another output shares it. */
uint32_t rx_output_root(const rx_program *p, size_t output);

rx_program *rx_program_ref(rx_program *p);
void rx_program_unref(rx_program *p); /* NULL is fine */

#endif
