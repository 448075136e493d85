/* SPDX-License-Identifier: MIT */
/* What the matrix products share: out[batch, m, n] = finish(sum over k of a[m, k] * b[k, n]).
 *
 * a and b have any strides, in elements; out is dense. A batch is three axes; an operand that
 * broadcasts along one has stride 0 there. finish adds the bias [n], applies the activation and
 * adds the residual, or (ACT_LAST) adds it first. Integer products (INT) add the bias and the
 * residual and, with TSCALE, requantise: saturate(round_half_even(sum * scale) + y_zero).
 *
 * Constants and bindings: product.def. A type 0 means that the operand is absent. */
#ifndef PRODUCT_GLSL
#define PRODUCT_GLSL

#include "act.glsl"

WORDS(o);
#ifndef ONE_BATCH
TENSOR(bias)
TENSOR(res)
#endif

/* Offsets of a batch. */
struct Batch {
    uint a, b, res, o;
};

#ifdef ONE_BATCH /* and without epilogue */
Batch find_batch(uint i) { return Batch(a_at, b_at, 0u, out_at); }
#else
Batch find_batch(uint i)
{
    uint i2 = i % dim2, i1 = i / dim2 % dim1, i0 = i / dim2 / dim1;
    return Batch(a_at + i0 * a_0 + i1 * a_1 + i2 * a_2, b_at + i0 * b_0 + i1 * b_1 + i2 * b_2,
                 res_at + i0 * res_0 + i1 * res_1 + i2 * res_2, out_at + i * m * n);
}
#endif

#include "put.glsl"

#ifdef INT
TENSOR(scale)

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
#elif !defined ONE_BATCH
float finish(float sum, uint row, uint col, uint res_first)
{
    float r = 0.0;
    if (TBIAS != 0u)
        sum += load_f_bias(TBIAS, bias_at + col * bias_n);
    if (TRES != 0u)
        r = load_f_res(TRES, res_first + row * res_m + col * res_n);
    return ACT_LAST != 0u ? apply_act(ACT, sum + r) : apply_act(ACT, sum) + r;
}

/* Finishes and writes the elements (row, col) to (row, col + 3), as far as they exist. */
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
