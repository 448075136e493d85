/* SPDX-License-Identifier: MIT */
/* What the convolutions share: x [N, groups * channels, in..], w and the result
 * [N, groups * filters, out..], with one to three spatial axes, always seen as three; all dense.
 *
 * finish adds the bias [groups * filters], applies the activation and adds the residual, or
 * (ACT_LAST) adds it first. INT: 8-bit integers minus their zero points are summed in i32; the bias
 * is added and, with TSCALE, the sum requantised: saturate(round_half_even(sum * scale) + y_zero).
 *
 * Constants and bindings: conv_base of conv.def. */
#ifndef CONV_GLSL
#define CONV_GLSL

#include "act.glsl"

/* Four bits each, 0: absent. */
const uint TX = TYPES & 15u, TW = TYPES >> 4 & 15u, TOUT = TYPES >> 8 & 15u;
const uint TBIAS = TYPES >> 12 & 15u, TRES = TYPES >> 16 & 15u, ACT = TYPES >> 20 & 15u;
const uint ACT_LAST = TYPES >> 24 & 1u, PARTIAL = TYPES >> 25 & 1u;
/* The window. */
const uint TAPS = KD * KH * KW;

TENSOR(x)
TENSOR(w)
WORDS(o);
TENSOR(bias)
TENSOR(res)

#ifdef INT
#define NUM int
#define NUM4 ivec4
int load_x(uint i) { return load_i_raw_x(TX, i) - x_zero; }
int load_w(uint i) { return load_i_raw_w(TW, i) - w_zero; }

/* The bits of element `at` of the result, of filter f. */
uint finish(int sum, uint f, uint at)
{
    if (TBIAS != 0u)
        sum += load_i_raw_bias(I32, bias_at + f);
    if (TRES == 0u)
        return uint(sum);
    float y = roundEven(float(sum) * load_f_res(F32, scale_at + f * scale_o));
    float zero = float(y_zero);
    float lo = TOUT == I8 ? -128.0 : 0.0, hi = TOUT == I8 ? 127.0 : 255.0;
    if ((floatBitsToUint(y) & 0x7fffffffu) > 0x7f800000u)
        return 0u;
    return encode_i(TOUT, int(clamp(y, lo - zero, hi - zero)) + y_zero);
}
#else
#define NUM float
#define NUM4 vec4
float load_x(uint i) { return load_f_x(TX, i); }
float load_w(uint i) { return load_f_w(TW, i); }

uint finish(float sum, uint f, uint at)
{
    float r = 0.0;
    if (TBIAS != 0u)
        sum += load_f_bias(TBIAS, bias_at + f);
    if (TRES != 0u)
        r = load_f_res(TRES, res_at + at);
    return encode_f(TOUT, ACT_LAST != 0u ? apply_act(ACT, sum + r) : apply_act(ACT, sum) + r);
}
#endif

/* Pixel p of the result as (depth, row, column). */
ivec3 find_pixel(uint p) { return ivec3(p / out_w / out_h, p / out_w % out_h, p % out_w); }

/* The start of a pixel's window in x, possibly in the padding. */
ivec3 find_window(uint p)
{
    return find_pixel(p) * ivec3(stride_d, stride_h, stride_w) - ivec3(begin_d, begin_h, begin_w);
}

/* Whether the window of a pixel extends into the padding. */
bool is_padded(uint p)
{
    ivec3 at = find_window(p);
    ivec3 end = at + ivec3(int(KD - 1u) * dilation_d, int(KH - 1u) * dilation_h,
                           int(KW - 1u) * dilation_w);
    return any(lessThan(at, ivec3(0))) || any(greaterThanEqual(end, ivec3(in_d, in_h, in_w)));
}

/* The offset of an element within a channel of x; false in the padding. */
bool find_element(ivec3 at, out uint i)
{
    i = (uint(at.x) * in_h + uint(at.y)) * in_w + uint(at.z);
    return uint(at.x) < in_d && uint(at.y) < in_h && uint(at.z) < in_w;
}

#endif
