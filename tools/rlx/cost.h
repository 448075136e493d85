/* SPDX-License-Identifier: MIT */
/* Estimates of the cost model for each device, beside the measured time. */
#ifndef COST_H
#define COST_H

#include "json.h"
#include "work.h"

typedef struct cost_row {
    char device[32];
    bool calibrated;           /* by numbers that were measured */
    bool chosen;               /* what --device auto opens for this graph */
    double estimate, measured; /* seconds; 0: it cannot run the graph */
} cost_row;

/* Runs the graph of `w` on each device but the test devices (on the one asked for, when there is
 * one), with random numbers where none are given. Freed with free. */
cost_row *cost_measure(const work *w, const cli_common *common, const work_options *o, size_t *n);
void cost_print(const cost_row *rows, size_t n);
void cost_json(json *j, const cost_row *rows, size_t n);

#endif
