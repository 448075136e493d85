/* SPDX-License-Identifier: MIT */
/* Speculative decoding: the next tokens of a request are guessed and computed in the same step as
 * its last one. Each row samples as it would without guesses (token i of a request has its own
 * random numbers), and rows after a guess count only if the guess is the token sampled. So the
 * output equals that without speculation, also of requests that sample. */
#ifndef RX_ENGINE_GUESS_H
#define RX_ENGINE_GUESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RX_MAX_GUESSES 15

/* Tokens that followed the longest earlier occurrence of the last ones (at least 2; the latest of
 * several). Returns how many there are, up to `most`. */
size_t rx_guess_from_text(const int32_t *tokens, size_t n, int32_t *out, size_t most);

/* The guesses of a request. */
typedef struct rx_guess_share {
    size_t n;      /* there are */
    double accept; /* probability that one is right if those before it are */
    size_t take;   /* to be computed */
} rx_guess_share;

/* What steps cost. */
typedef struct rx_guess_costs {
    const double *steps; /* [16] seconds of a step of 2^i rows; 0: not known, taken for that of half
                          * as many */
    double guess;        /* seconds to make one more guess of each request */
    bool ignored;        /* as many as fit, whatever it costs */
} rx_guess_costs;

/* Chooses `take` of each request so that a step generates most tokens in a second. n_rows: without
 * guesses; most: with. Returns the sum. */
size_t rx_guess_choose(const rx_guess_costs *c, size_t n_rows, size_t most, rx_guess_share *shares,
                       size_t n);

/* What a request has learnt when `right` of `n` guesses were. */
double rx_guess_learn(double accept, size_t n, size_t right);

#endif
