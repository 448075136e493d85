/* SPDX-License-Identifier: MIT */
/* Generation under a grammar. The device samples without the mask; a token that the grammar rejects
 * is resampled on the host from the same logits with the mask. Most tokens need no mask. Tokens
 * that the grammar forces need no step. */
#ifndef RX_MODEL_CONSTRAIN_H
#define RX_MODEL_CONSTRAIN_H

#include "model/model.h"
#include "rlx/grammar.h"

typedef struct rx_constraint rx_constraint;

/* For the sequence `seq`; NULL in *out on failure. */
rlx_status rx_constraint_create(rlx_context *c, size_t seq, rlx_grammar *g, rx_constraint **out,
                                rlx_error *err);
void rx_constraint_destroy(rx_constraint *k);
/* The next token that is forced, -1: none. It is accepted. */
rlx_status rx_constraint_forced(rx_constraint *k, int32_t *token, rlx_error *err);
/* Accepts the token that the last step added to the sequence, or replaces it. */
rlx_status rx_constraint_take(rx_constraint *k, rlx_error *err);
/* Whether the text is complete and nothing can follow. */
bool rx_constraint_is_over(rx_constraint *k);

#endif
