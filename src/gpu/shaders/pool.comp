/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Pools over windows of x [channels, in..] -> [channels, out..], one to three spatial axes, always
 * seen as three. KIND: the largest, the average, or (sum |x|^p)^(1/p). Only taps inside of x are
 * walked; an average divides by them or (WITH_PAD) by those inside of the padded input.
 *
 * A team of TEAM invocations makes a word of the result: one element, 2 of 16 bits or 4 of 8, one
 * after another. It splits the window and joins in shared memory; for small windows TEAM is 1, and
 * if KH x KW are given, all of a plane of the window are on their way at once. */
#include "common.glsl"
#include "pool.def"


TENSOR(x)
WORDS(o);

shared uint parts[THREADS];

const uint LOWEST = 0x007fffffu; /* the key of -infinity */

/* Floats as unsigned numbers in the same order, NaN above all. */
uint key_of(float v)
{
    uint u = floatBitsToUint(v);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return 0xffffffffu;
    return (u >> 31) != 0u ? ~u : u | 0x80000000u;
}

uint bits_of_key(uint key)
{
    if (key == 0xffffffffu)
        return 0x7fc00000u;
    return (key >> 31) != 0u ? key & 0x7fffffffu : ~key;
}

/* x^n by squaring: powers of small whole numbers are exact enough for the root after. */
float power(float v, uint n)
{
    float r = 1.0;
    for (; n != 0u; n >>= 1) {
        if ((n & 1u) != 0u)
            r *= v;
        v *= v;
    }
    return r;
}

/* The p-th root: a first guess and a step of Newton's method. */
float root(float v)
{
    if (p == 1u || v == 0.0)
        return v;
    if (p == 2u)
        return sqrt(v);
    float y = exp2(log2(v) / float(p)), slope = float(p) * power(y, p - 1u);
    float better = y - (power(y, p) - v) / slope;
    return slope > 0.0 && better > 0.5 * y && better < 2.0 * y ? better : y;
}

/* The first tap of an axis within lo .. hi - 1, and how many are. */
ivec2 taps_inside(int start, int lo, int hi, int dilation, int kernel)
{
    int step = DILATED != 0u ? dilation : 1; /* avoids a division */
    int first = start >= lo ? 0 : (lo - start + step - 1) / step;
    int end = start >= hi ? 0 : (hi - start + step - 1) / step;
    return ivec2(first, max(min(end, kernel) - first, 0));
}

/* Joins element i of x to the accumulator: bits of a sum, or a key. */
uint join(uint so_far, uint i)
{
    float v = load_f_x(T, i);
    if (KIND == POOL_MAX)
        return max(so_far, key_of(v));
    return floatBitsToUint(uintBitsToFloat(so_far) + (KIND == POOL_LP ? power(abs(v), p) : v));
}

uint join_parts(uint a, uint b)
{
    return KIND == POOL_MAX ? max(a, b)
                           : floatBitsToUint(uintBitsToFloat(a) + uintBitsToFloat(b));
}

/* Whether no significant power over- or underflowed: 2^-90 to 2^100. */
bool is_moderate(float sum)
{
    return floatBitsToUint(sum) - 0x12800000u <= 0x71800000u - 0x12800000u;
}

/* The norm of a window of these sizes from element `base` on, relative to its largest element. */
float norm_of(uint base, int size_d, int size_h, int size_w)
{
    float top = 0.0, sum = 0.0;
    uint largest = 0u;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < size_d * size_h * size_w; i++) {
            int d = i / size_w / size_h, h = i / size_w % size_h, c = i % size_w;
            float v = load_f_x(T, base + uint((d * dilation_d * in_h + h * dilation_h) * in_w +
                                              c * dilation_w));
            if (pass == 0)
                largest = max(largest, floatBitsToUint(v) & 0x7fffffffu);
            else
                sum += power(abs(v) / top, p);
        }
        top = uintBitsToFloat(largest);
        if (largest < 0x00800000u || largest >= 0x7f800000u)
            return top; /* all zeros; infinity; NaN */
    }
    return root(sum) * top;
}

/* Joins the accumulators of the team. */
uint join_team(uint mine)
{
    if (TEAM == 1u)
        return mine;
    parts[LANE] = mine;
    barrier();
    for (uint half_ = TEAM / 2u; half_ > 0u; half_ /= 2u) {
        if (LANE % TEAM < half_)
            parts[LANE] = join_parts(parts[LANE], parts[LANE + half_]);
        barrier();
    }
    uint all = parts[LANE / TEAM * TEAM];
    barrier();
    return all;
}

/* Element e of the result, as its bits. */
uint pool_at(uint e)
{
    ivec3 at = ivec3(e / out_w / out_h % out_d, e / out_w % out_h, e % out_w);
    ivec3 start = at * ivec3(stride_d, stride_h, stride_w) - ivec3(begin_d, begin_h, begin_w);
    uint first = x_at + e / out_w / out_h / out_d * uint(in_d * in_h * in_w);
    ivec2 td = taps_inside(start.x, 0, in_d, dilation_d, kernel_d);
    ivec2 th = taps_inside(start.y, 0, in_h, dilation_h, kernel_h);
    ivec2 tw = taps_inside(start.z, 0, in_w, dilation_w, kernel_w);
    int n = td.y * th.y * tw.y, member = int(LANE % TEAM);
    int base = ((start.x + td.x * dilation_d) * in_h + start.y + th.x * dilation_h) * in_w +
               start.z + tw.x * dilation_w;
    uint found = KIND == POOL_MAX ? LOWEST : 0u;
    if (TEAM == 1u && KH != 0u && n > 0) {
        for (int d = 0; d < td.y; d++)
            [[unroll]] for (int h = 0; h < int(KH); h++)
                [[unroll]] for (int c = 0; c < int(KW); c++) {
                    int row = d * dilation_d * in_h + min(h, th.y - 1) * dilation_h;
                    int i = base + row * in_w + min(c, tw.y - 1) * dilation_w;
                    uint next = join(found, first + uint(i));
                    found = h < th.y && c < tw.y ? next : found;
                }
    } else if (TEAM == 1u) {
        for (int d = 0; d < td.y; d++)
            for (int h = 0; h < th.y; h++)
                for (int c = 0; c < tw.y; c++)
                    found = join(found, first + uint(base + (d * dilation_d * in_h + h * dilation_h)
                                                                * in_w + c * dilation_w));
    } else {
        for (int i = member; i < n; i += int(TEAM)) {
            int d = i / tw.y / th.y, h = i / tw.y % th.y, c = i % tw.y;
            found = join(found, first + uint(base + (d * dilation_d * in_h + h * dilation_h)
                                                        * in_w + c * dilation_w));
        }
    }
    found = join_team(found);
    if (KIND == POOL_MAX)
        found = bits_of_key(found);
    float v = uintBitsToFloat(found);
    if (KIND == POOL_LP)
        v = is_moderate(v) ? root(v) : norm_of(first + uint(base), td.y, th.y, tw.y);
    if (KIND == POOL_AVERAGE) {
        if (WITH_PAD != 0u)
            n = taps_inside(start.x, -begin_d, in_d + end_d, dilation_d, kernel_d).y *
                taps_inside(start.y, -begin_h, in_h + end_h, dilation_h, kernel_h).y *
                taps_inside(start.z, -begin_w, in_w + end_w, dilation_w, kernel_w).y;
        v = n == 0 ? 0.0 : v / float(n);
    }
    if (T == I8 || T == U8)
        return encode_i(T, int(max(v, T == I8 ? -128.0 : 0.0)));
    return T == F32 && KIND == POOL_MAX ? found : encode_f(T, v);
}

void main()
{
    uint item = GROUP_INDEX * (THREADS / TEAM) + LANE / TEAM, per = per_word(T), word = 0u;
    for (uint j = 0u; j < per; j++) {
        uint e = item * per + j;
        uint v = pool_at(min(e, total - 1u)); /* all invocations reach the barriers */
        word |= e < total ? v << (j * bits_of(T) & 31u) : 0u;
    }
    if (item < n_items && LANE % TEAM == 0u)
        o[out_at / per + item] = word;
}
