/* SPDX-License-Identifier: MIT */
/* Encoders of the packed block types of GGUF files, for weights: each searches the block that is
 * nearest to the floats in the sense of weighted least squares. Its decoder says what a block
 * means. */
#ifndef RX_BASE_QUANT_ENCODE_H
#define RX_BASE_QUANT_ENCODE_H

#include "base/dtype.h"

/* Encodes block_size floats, all finite, into one block; `w` are the weights of their squared
 * errors, none of them 0. */
typedef void rx_encode_fn(const float *src, const float *w, void *block);

/* The packed types that have an encoder. */
#define RX_ENCODED_DTYPES(X) \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) X(Q8_0, q8_0) \
    X(Q2_K, q2_k) X(Q3_K, q3_k) X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k) \
    X(IQ4_NL, iq4_nl) X(MXFP4, mxfp4)

#define X(ID, NAME) rx_encode_fn rx_encode_##NAME;
RX_ENCODED_DTYPES(X)
#undef X

/* The encoder of a packed type, NULL for all others. */
rx_encode_fn *rx_encoder(rlx_dtype t);

/* Encodes n floats as f32, f16, bf16 or a packed type that has an encoder; n is a multiple of the
 * block size. `w` has n weights above 0, or is NULL: all alike. Returns n, or the index of the
 * first float that is not finite: then dst is not complete. */
int64_t rx_encode_row(rlx_dtype t, const float *src, const float *w, void *dst, int64_t n);

#endif
