/* SPDX-License-Identifier: MIT */
/* Drawing a token on the host, by the rules of rlx_sample: temperature, top-k, min-p, top-p. */
#ifndef RX_MODEL_DRAW_H
#define RX_MODEL_DRAW_H

#include "rlx/model.h"

typedef struct rx_candidate {
    float logit;
    int32_t token;
} rx_candidate;

/* Draws one of n > 0 candidates, which are reordered, by random block `index` of the seed. */
int32_t rx_draw(const rlx_sampling_desc *o, uint64_t index, rx_candidate *c, size_t n);
/* Parts of rx_draw: the number of candidates that top-k, min-p and top-p keep, with `first` the
 * largest logit; then the candidate at `mark` (0 to 1) of their cumulative probability. */
size_t rx_draw_cut(const rlx_sampling_desc *o, rx_candidate *c, size_t n, float first);
int32_t rx_draw_at(const rlx_sampling_desc *o, double mark, const rx_candidate *c, size_t n,
                   float first);
/* The weight of a candidate: 1 for the likeliest one, at the temperature. */
double rx_draw_weight(const rlx_sampling_desc *o, float logit, float first);
/* The first of n > 0 in the order of rx_draw_sort: larger logits first, then smaller ids; NaN
 * last. */
const rx_candidate *rx_draw_best(const rx_candidate *c, size_t n);
void rx_draw_sort(rx_candidate *c, size_t n);
/* The repetition penalty on logits, as the graph does it: each of the last tokens once. */
void rx_draw_penalise(const rlx_sampling_desc *o, const int32_t *tokens, size_t n, float *logits);
rlx_status rx_check_sampling(const rlx_sampling_desc *s, rlx_error *err);

#endif
