/* SPDX-License-Identifier: MIT */
/* A program with its dimensions bound: every value as a view, every record with numbers instead of
 * dimension handles. What backends make of a program before they run it. */
#ifndef RX_RUNTIME_BOUND_H
#define RX_RUNTIME_BOUND_H

#include "compile/program.h"
#include "ops/view.h"

typedef struct rx_bound {
    const rx_program *program;
    int64_t *dims;  /* of all dimension expressions */
    rx_view *views; /* by value; the backend sets `data` of those that are no views; NULL first */
    void **view_attrs, **step_attrs; /* room for records that may have handles, else NULL */
} rx_bound;

/* Takes its memory from the arena; false when there is none. */
bool rx_bound_init(rx_bound *b, const rx_program *p, rx_arena *a);
/* Makes all views anew; `dims` may be b->dims. */
rlx_status rx_bound_update(rx_bound *b, const int64_t *dims, rlx_error *err);
/* The record of a step with numbers only, valid until the next update. */
const void *rx_bound_attr(const rx_bound *b, size_t step);

#endif
