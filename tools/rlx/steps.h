/* SPDX-License-Identifier: MIT */
/* Single-step execution: dumps of results, the first NaN, the first divergence of two devices, and
 * a profile by step. */
#ifndef STEPS_H
#define STEPS_H

#include "work.h"

/* Prints a table (or JSON) of the results of each step: type, min, max, mean, NaN. */
int steps_dump(work *w, bool as_json);
/* Finds the first step whose results have a NaN or an infinity; EXIT_FAILED when there is one. */
int steps_find_nan(work *w, bool as_json);
/* Runs `w` and the same graph on `other`, and prints how far each step that both have is from the
 * other device's, and then each output, up to the first that is further than `tolerance`; and what
 * was not compared. EXIT_FAILED when something is further, or nothing was compared. compare.c */
int steps_compare(work *w, work *other, double tolerance, bool as_json);

typedef struct step_time {
    size_t step;
    double seconds;
    const char *kernel; /* owned by the session */
} step_time;
/* Times of all steps in order: the median of `runs` runs. NULL after printing why not; freed with
 * free. */
step_time *steps_profile(work *w, size_t runs, size_t *n);
/* Prints the slowest steps, or all as a JSON array under `key`. */
void steps_print_profile(const work *w, const step_time *times, size_t n, size_t most);
void steps_json_profile(json *j, const char *key, const work *w, const step_time *times, size_t n);

#endif
