/* SPDX-License-Identifier: MIT */
/* Drawing a token on the host, by the rules of rlx_sample: temperature, top-k, min-p, top-p. */
#ifndef RX_MODEL_DRAW_H
#define RX_MODEL_DRAW_H

#include "rlx/model.h"

typedef struct rx_candidate {
    float logit;
    int32_t token;
} rx_candidate;

/* One of n > 0 candidates, whose order changes; block `index` of the random numbers of the seed
 * decides. */
int32_t rx_draw(const rlx_sampling_desc *o, uint64_t index, rx_candidate *c, size_t n);
rlx_status rx_check_sampling(const rlx_sampling_desc *s, rlx_error *err);

#endif
