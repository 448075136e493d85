/* SPDX-License-Identifier: MIT */
/* The arithmetic of sampling, for all kernels of the CPU: cpu/ref/sample.c has its definition. */
#ifndef RX_CPU_REF_SAMPLE_H
#define RX_CPU_REF_SAMPLE_H

#include "cpu/ref/order.h"

typedef struct rx_sampler {
    uint64_t seed, block; /* x is word 0 of this block */
    float temperature, top_p, min_p;
    int64_t top_k;
    uint32_t rate; /* log2(e) * 2^54 / mantissa of T */
    int rate_exp;  /* exponent of T: T = mantissa * 2^(rate_exp - 23), mantissa 24 bits */
} rx_sampler;

/* The seed operand, or the attribute when it is absent. */
uint64_t rx_load_seed(const rx_view *seed, int64_t attribute);
/* Of row `row` of the logits. */
rx_sampler rx_sampler_make(const rx_call *c, int64_t row);
/* The weight of a logit `below` the first one (f32, >= 0), up to 2^31. */
uint32_t rx_token_weight(const rx_sampler *s, float below);
/* floor(sum * x / 2^bits) for x <= 2^bits and bits <= 32. */
uint64_t rx_scale_sum(uint64_t sum, uint64_t x, int bits, uint64_t *remainder);
/* The token drawn from n keys in order. */
int64_t rx_draw_token(const rx_sampler *s, rx_key *keys, int64_t n);

#endif
