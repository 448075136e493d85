/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Gated delta networks: each head has a state [n, width] of which every column is a channel of its
 * own. For column s of n numbers, token by token,
 *   s = exp(gate) * s;  d = (v - sum s * k) * beta;  s += k * d;  y = sum s * q * scale.
 * q, k [B, S, heads, n], v and y [B, S, heads, width], beta [B, S, heads], gate the same or
 * (OWN_GATE) [B, S, heads, n]. The state is f32 [B, heads, n, width] and is updated in place.
 *
 * A team of invocations has one channel (team.glsl). */
#include "common.glsl"
#include "delta_net.def"

const uint T = TYPES & 15u, TGATE = TYPES >> 4 & 15u, TBETA = TYPES >> 8 & 15u;
#include "team.glsl"

TENSOR(q)
TENSOR(k)
TENSOR(v)
TENSOR(gate)
TENSOR(beta)
WORDS(y);
WORDS(state);

void main()
{
    uint item = GROUP_INDEX * (THREADS / TEAM) + LANE / TEAM;
    bool exists = item < n_items;
    item = min(item, n_items - 1u); /* all invocations reach the barriers */
    uint column = item % width, head = item / width % heads, row = item / width / heads * tokens;
    uint s_first = s_at + item / width * n * width + column;

    float s[EACH], kt[EACH];
    [[unroll]] for (uint j = 0u; j < EACH; j++) {
        uint i = MEMBER + j * TEAM;
        s[j] = i < n ? uintBitsToFloat(state[s_first + i * width]) : 0.0;
    }
    for (uint t = 0u; t < tokens; t++) {
        uint token = (row + t) * heads + head;
        float decay = OWN_GATE != 0u ? 0.0 : exp(load_f_gate(TGATE, gate_at + token));
        float known = 0.0, sum = 0.0;
        [[unroll]] for (uint j = 0u; j < EACH; j++) {
            uint i = MEMBER + j * TEAM;
            kt[j] = 0.0;
            if (i < n) {
                s[j] *= OWN_GATE != 0u ? exp(load_f_gate(TGATE, gate_at + token * n + i)) : decay;
                kt[j] = load_f_k(T, k_at + token * n + i);
                known = fma(s[j], kt[j], known);
            }
        }
        known = team_sum(known, 0u);
        float d = (load_f_v(T, v_at + token * width + column) - known) *
                  load_f_beta(TBETA, beta_at + token);
        [[unroll]] for (uint j = 0u; j < EACH; j++) {
            uint i = MEMBER + j * TEAM;
            if (i < n) {
                s[j] = fma(kt[j], d, s[j]);
                sum = fma(s[j], load_f_q(T, q_at + token * n + i), sum);
            }
        }
        sum = team_sum(sum, 1u);
        if (exists && MEMBER == 0u)
            y[y_at + token * width + column] = floatBitsToUint(sum * scale);
    }
    [[unroll]] for (uint j = 0u; j < EACH; j++)
        if (exists && MEMBER + j * TEAM < n)
            state[s_first + (MEMBER + j * TEAM) * width] = floatBitsToUint(s[j]);
}
