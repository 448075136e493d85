/* SPDX-License-Identifier: MIT */
/* Samplers that need more than the graph has: DRY, typical, XTC and Mirostat. The host draws from
 * the logits of a step, after penalties. In order: DRY, temperature, then top-k, typical, min-p,
 * top-p and XTC, or Mirostat in their place. */
#ifndef RX_MODEL_SAMPLER_H
#define RX_MODEL_SAMPLER_H

#include "model/draw.h"

/* Whether these options need sampling on the host. */
bool rx_sampling_on_host(const rlx_sampling_desc *o);

/* Options with their defaults, and room for a vocabulary. One thread at a time. */
typedef struct rx_sampler rx_sampler;

/* Sizes: texts have at most `tokens`. The tokenizer may be NULL: no sequence breakers. */
typedef struct rx_sampler_sizes {
    const rlx_tokenizer *tokenizer;
    size_t vocabulary, tokens;
} rx_sampler_sizes;

/* Requires checked options. *out is NULL on failure, and when host sampling is not needed. */
rlx_status rx_sampler_create(const rlx_sampling_desc *o, const rx_sampler_sizes *sizes,
                             rx_sampler **out, rlx_error *err);
void rx_sampler_destroy(rx_sampler *s);

/* Per-sequence state, zeroed at the start. */
typedef struct rx_sampler_state {
    double mu, before; /* Mirostat: the surprise it allows, now and for the token before; 0: not
                        * yet */
} rx_sampler_state;

/* Samples the token after n tokens from logits [vocabulary], which are modified; `bits` (NULL: all)
 * is a mask with at least one token, `index` the random block. */
int32_t rx_sampler_draw(rx_sampler *s, rx_sampler_state *state, uint64_t index, float *logits,
                        const uint32_t *bits, const int32_t *tokens, size_t n);
/* Room for logits [vocabulary]. */
float *rx_sampler_logits(rx_sampler *s);

#endif
