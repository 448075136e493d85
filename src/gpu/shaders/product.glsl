/* SPDX-License-Identifier: MIT */
/* What the matrix products share: out[batch, m, n] = finish(sum over k of a[m, k] * b[k, n]).
 *
 * a and b have any strides, in elements; out is dense. A batch is three axes; an operand that
 * broadcasts along one has stride 0 there. finish adds the bias [n], applies the activation and
 * adds the residual, or (ACT_LAST) adds it first. Integer products (INT) add the bias and the
 * residual and, with TSCALE, requantise: saturate(round_half_even(sum * scale) + y_zero).
 *
 * Bindings: 0 a, 1 b, 2 out, 3 bias, 4 residual, 5 scale (INT). Types are codes of common.glsl;
 * 0: the operand is absent. PARTIAL: words of the result may belong to two rows. */
#ifndef PRODUCT_GLSL
#define PRODUCT_GLSL

#include "act.glsl"

layout(constant_id = 1) const uint TA = F32;
layout(constant_id = 2) const uint TB = F32;
layout(constant_id = 3) const uint TOUT = F32;
layout(constant_id = 4) const uint TBIAS = 0;
layout(constant_id = 5) const uint TRES = 0;
layout(constant_id = 6) const uint ACT = 0;
layout(constant_id = 7) const uint ACT_LAST = 0;
layout(constant_id = 8) const uint PARTIAL = 0;
/* Lengths of loops, never set: drivers unroll them, but the stored code stays small. */
layout(constant_id = 30) const uint FOUR = 4;
layout(constant_id = 31) const uint EIGHT = 8;

layout(push_constant) uniform Push {
    uint m, n, k, n_groups;
    uint a_at, b_at, out_at, bias_at, res_at; /* first elements */
    uint a_m, a_k, b_n, b_k, res_m, res_n, bias_n; /* strides */
    uint dim1, dim2;                          /* batch = (i0 * dim1 + i1) * dim2 + i2 */
    uint a_0, a_1, a_2, b_0, b_1, b_2, res_0, res_1, res_2;
#ifdef INT
    int a_zero, b_zero, y_zero;
    uint scale_at, scale_n;
#endif
#ifdef QUANT_PUSH
    QUANT_PUSH
#endif
#ifdef CHAIN
    CHAIN_PUSH
#endif
};

WORDS(2, o);
TENSOR(3, bias)
TENSOR(4, res)

/* First elements of a batch. */
struct Batch {
    uint a, b, res, o;
};

Batch find_batch(uint i)
{
    uint i2 = i % dim2, i1 = i / dim2 % dim1, i0 = i / dim2 / dim1;
    return Batch(a_at + i0 * a_0 + i1 * a_1 + i2 * a_2, b_at + i0 * b_0 + i1 * b_1 + i2 * b_2,
                 res_at + i0 * res_0 + i1 * res_1 + i2 * res_2, out_at + i * m * n);
}

#include "put.glsl"

#ifdef INT
layout(constant_id = 9) const uint TSCALE = 0;
TENSOR(5, scale)

uint finish(int sum, uint row, uint col, uint res_first)
{
    if (TBIAS != 0u)
        sum += load_i_raw_bias(I32, bias_at + col * bias_n);
    if (TRES != 0u)
        sum += load_i_raw_res(I32, res_first + row * res_m + col * res_n);
    if (TSCALE == 0u)
        return uint(sum);
    float y = roundEven(float(sum) * load_f_scale(F32, scale_at + col * scale_n));
    float zero = float(y_zero);
    float lo = TOUT == I8 ? -128.0 : 0.0, hi = TOUT == I8 ? 127.0 : 255.0;
    if ((floatBitsToUint(y) & 0x7fffffffu) > 0x7f800000u)
        return 0u;
    return encode_i(TOUT, int(clamp(y, lo - zero, hi - zero)) + y_zero);
}

void finish4(ivec4 sum, uint row, uint col, Batch at)
{
    uint count = col < n ? n - col : 0u;
    uvec4 v = uvec4(0u);
    [[unroll]] for (uint j = 0u; j < FOUR; j++)
        if (j < count)
            v[j] = finish(sum[j], row, col + j, at.res);
    put4(at.o + row * n + col, count, v);
}
#else
float finish(float sum, uint row, uint col, uint res_first)
{
    float r = 0.0;
    if (TBIAS != 0u)
        sum += load_f_bias(TBIAS, bias_at + col * bias_n);
    if (TRES != 0u)
        r = load_f_res(TRES, res_first + row * res_m + col * res_n);
    return ACT_LAST != 0u ? apply_act(ACT, sum + r) : apply_act(ACT, sum) + r;
}

/* Finishes and writes the elements (row, col) to (row, col + 3) as far as they exist. */
void finish4(vec4 sum, uint row, uint col, Batch at)
{
    uint count = col < n ? n - col : 0u;
    uvec4 v = uvec4(0u);
    [[unroll]] for (uint j = 0u; j < FOUR; j++)
        if (j < count)
            v[j] = encode_f(TOUT, finish(sum[j], row, col + j, at.res));
    put4(at.o + row * n + col, count, v);
}
#endif

#endif
