/* SPDX-License-Identifier: MIT */
#version 450
/* Convolution with few filters a group, depthwise for one: result[f, p] = finish(sum over channels
 * and taps of w[f, channel, tap] * x[channel, place(p, tap)]). conv.glsl says the rest.
 *
 * One invocation makes a word of the result: one element, 2 of 16 bits or 4 of 8. Neighbours make
 * neighbouring pixels, so their reads of x are neighbours too and those of w are the same.
 *
 * TRANSPOSED (2 axes): w is [channels, filters, tap], and tap t of element q of the result sees
 * element (q + begin - t * dilation) / stride of x where that is whole and inside.
 *
 * JOIN: x are the sums of conv.comp, one behind the other for each of SLICES, to be added. */
#include "common.glsl"
#include "conv_direct.def"
#include "conv.glsl"

#if defined(JOIN)

NUM sum_window(uint g, uint f, uint image, uint p)
{
    NUM sum = NUM(0);
    uint at = ((image * groups + g) * filters + f) * pixels + p;
    for (uint s = 0u; s < SLICES; s++)
        sum += load_x(s * total + at);
    return sum;
}
#elif defined(TRANSPOSED)
/* The first tap that reaches index q (padding included) along an axis; others follow in steps. */
uint first_tap(uint q, uint stride, uint dilation, uint step_)
{
    uint t = 0u;
    while (t < step_ && (t * dilation) % stride != q % stride)
        t++;
    return t < step_ ? t : ~0u;
}

NUM sum_window(uint g, uint f, uint image, uint p)
{
    NUM sum = NUM(0);
    uint qh = p / out_w + uint(begin_h), qw = p % out_w + uint(begin_w), area = in_h * in_w;
    uint th0 = first_tap(qh, uint(stride_h), uint(dilation_h), step_h);
    uint tw0 = first_tap(qw, uint(stride_w), uint(dilation_w), step_w);
    uint w_first = w_at + (g * channels * filters + f) * TAPS;
    uint x_first = x_at + (image * groups + g) * channels * area;
    for (uint th = th0; th < KH; th += step_h) {
        uint h = (qh - th * uint(dilation_h)) / uint(stride_h);
        if (th * uint(dilation_h) > qh || h >= in_h)
            continue;
        for (uint tw = tw0; tw < KW; tw += step_w) {
            uint c = (qw - tw * uint(dilation_w)) / uint(stride_w);
            if (tw * uint(dilation_w) > qw || c >= in_w)
                continue;
            uint xi = x_first + h * in_w + c, wi = w_first + th * KW + tw;
            for (uint ch = 0u; ch < channels; ch++)
                sum += load_x(xi + ch * area) * load_w(wi + ch * filters * TAPS);
        }
    }
    return sum;
}
#else
NUM sum_window(uint g, uint f, uint image, uint p)
{
    NUM sum = NUM(0);
    ivec3 window = find_window(p);
    uint area = in_d * in_h * in_w, wi = w_at + (g * filters + f) * channels * TAPS;
    uint x_first = x_at + (image * groups + g) * channels * area;
    for (uint ch = 0u; ch < channels; ch++, x_first += area)
        for (uint d = 0u; d < KD; d++)
            for (uint h = 0u; h < KH; h++)
                for (uint c = 0u; c < KW; c++, wi++) {
                    ivec3 at = window + ivec3(d, h, c) * ivec3(dilation_d, dilation_h, dilation_w);
                    uint i;
                    if (find_element(at, i))
                        sum += load_x(x_first + i) * load_w(wi);
                }
    return sum;
}
#endif

void main()
{
    if (GLOBAL_INDEX >= n_items)
        return;
    uint per = per_word(TOUT), word = 0u;
    for (uint j = 0u; j < per; j++) {
        uint e = GLOBAL_INDEX * per + j;
        if (e >= total)
            break;
        uint p = e % pixels, whole = e / pixels % (groups * filters);
        uint image = e / pixels / (groups * filters);
        NUM sum = sum_window(whole / filters, whole % filters, image, p);
        word |= finish(sum, whole, e) << (j * bits_of(TOUT) & 31u);
    }
    o[out_at / per + GLOBAL_INDEX] = word;
}
