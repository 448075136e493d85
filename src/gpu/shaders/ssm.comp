/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Selective scans: for each channel with a state s of n numbers, token by token,
 *   s = exp(dt * a) * s + dt * x * b;  y = sum c * s (+ skip * x).
 * x and y are [B, S, heads * width], a channel being an element of that; dt [B, S, heads] and skip
 * [heads] belong to heads of `width` channels (mamba2) or to one (width 1: selective_scan); b and c
 * are [B, S, groups, n] for equal groups of heads. OWN_A: a is [heads, n]; else [heads]. The state
 * is f32 [B, heads * width, n] and is updated in place.
 *
 * A team of invocations has one channel (team.glsl). */
#include "common.glsl"
#include "ssm.def"

const uint TX = TYPES & 15u, TDT = TYPES >> 4 & 15u, TA = TYPES >> 8 & 15u;
const uint TBC = TYPES >> 12 & 15u, TSKIP = TYPES >> 16 & 15u;
#include "team.glsl"

TENSOR(x)
TENSOR(dt)
TENSOR(a)
TENSOR(b)
TENSOR(c)
TENSOR(skip)
WORDS(y);
WORDS(state);

void main()
{
    uint item = GROUP_INDEX * (THREADS / TEAM) + LANE / TEAM, channels = heads * width;
    bool exists = item < n_items;
    item = min(item, n_items - 1u); /* all invocations reach the barriers */
    uint channel = item % channels, row = item / channels * tokens, head = channel / width;
    uint group = head / (heads / groups);

    float s[EACH], own_a[EACH];
    [[unroll]] for (uint j = 0u; j < EACH; j++) {
        uint i = MEMBER + j * TEAM;
        s[j] = i < n ? uintBitsToFloat(state[s_at + item * n + i]) : 0.0;
        own_a[j] = OWN_A != 0u && i < n ? load_f_a(TA, a_at + head * n + i) : 0.0;
    }
    float head_a = OWN_A != 0u ? 0.0 : load_f_a(TA, a_at + head);
    float head_skip = TSKIP == 0u ? 0.0 : load_f_skip(TSKIP, skip_at + head);

    for (uint t = 0u; t < tokens; t++) {
        float xt = load_f_x(TX, x_at + (row + t) * channels + channel);
        float delta = load_f_dt(TDT, dt_at + (row + t) * heads + head), sum = 0.0;
        float decay = OWN_A != 0u ? 0.0 : exp(delta * head_a);
        uint bc = ((row + t) * groups + group) * n;
        [[unroll]] for (uint j = 0u; j < EACH; j++) {
            uint i = MEMBER + j * TEAM;
            if (i < n) {
                float d = OWN_A != 0u ? exp(delta * own_a[j]) : decay;
                s[j] = d * s[j] + delta * xt * load_f_b(TBC, b_at + bc + i);
                sum = fma(load_f_c(TBC, c_at + bc + i), s[j], sum);
            }
        }
        sum = team_sum(sum, t);
        if (exists && MEMBER == 0u)
            y[y_at + (row + t) * channels + channel] = floatBitsToUint(sum + head_skip * xt);
    }
    [[unroll]] for (uint j = 0u; j < EACH; j++)
        if (exists && MEMBER + j * TEAM < n)
            state[s_at + item * n + MEMBER + j * TEAM] = floatBitsToUint(s[j]);
}
