/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Steps of recurrent networks, lstm (GATES 4: i, f, g, o), gru (3: r, z, n) and rnn (1), over a
 * piece of `length` tokens of the sequence. What the inputs contribute, gx = x . w_ih + b_ih, is
 * known: f32 [dirs][token and batch][GATES * hidden]. wt is w_hh transposed:
 * [dirs][hidden][GATES * hidden].
 *
 * A workgroup has ROWS sequences of a batch in one direction, and `units` of the hidden units.
 * PERSIST: all of them; it walks over n_steps tokens with the states in shared memory. Else it
 * makes one step of some units, and reads the whole state from memory. In a step the invocations
 * are LINES x PARTS: each sums w_hh . h for some gates over its part of h; then each updates some
 * units.
 *
 * Backward directions take the tokens from the end: direction 1, or 0 with `reverse`. */
#include "common.glsl"
#include "rnn.def"
#include "act.glsl"

const uint PARTS = THREADS / LINES;

WORDS(gx);
TENSOR(wt)
TENSOR(bias)
TENSOR(h0)
TENSOR(c0)
WORDS(y);
WORDS(hn);
WORDS(cn);

shared float gate[PARTS * GATES * UNITS * ROWS]; /* [part][gate][unit][row] */
shared float h[UNITS * ROWS];
shared float c[UNITS * ROWS];

uint dir, b0, u0, n_units;

/* Element of a state [dirs, batch, hidden]. */
uint state_at(uint u, uint r)
{
    return (dir * batch + min(b0 + r, batch - 1u)) * hidden + u0 + u;
}

float state_of(uint j, uint r)
{
    if (PERSIST != 0u)
        return h[j * ROWS + r];
    const uint row = dir * batch + min(b0 + r, batch - 1u);
    return TH == 0u ? 0.0 : load_f_h0(TH, h_at + row * hidden + j);
}

/* gate = w_hh . h, for this invocation's lines and part. */
void multiply()
{
    uint rows = GATES * hidden, first_w = dir * hidden * rows, part = LANE / LINES;
    for (uint line = LANE % LINES; line < GATES * n_units; line += LINES) {
        uint g = line / n_units, u = line % n_units, at = first_w + g * hidden + u0 + u;
        float sum[ROWS];
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            sum[r] = 0.0;
        for (uint j0 = part * 4u; j0 < hidden; j0 += PARTS * 4u) {
            vec4 w = vec4(0.0);
            [[unroll]] for (uint j = 0u; j < 4u; j++)
                if (j0 + j < hidden)
                    w[j] = load_f_wt(T, at + (j0 + j) * rows);
            [[unroll]] for (uint j = 0u; j < 4u; j++)
                [[unroll]] for (uint r = 0u; r < ROWS; r++)
                    sum[r] = fma(w[j], state_of(min(j0 + j, hidden - 1u), r), sum[r]);
        }
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            gate[((part * GATES + g) * UNITS + u) * ROWS + r] = sum[r];
    }
}

/* The contribution of the state to gate g of a unit, with its bias. */
float from_h(uint g, uint u, uint r)
{
    float sum = TB == 0u ? 0.0 : load_f_bias(TB, b_at + (dir * GATES + g) * hidden + u0 + u);
    for (uint part = 0u; part < PARTS; part++)
        sum += gate[((part * GATES + g) * UNITS + u) * ROWS + r];
    return sum;
}

void update(uint step_)
{
    bool backward = dir == 1u || reverse != 0u;
    uint t = start + step_, local = step_;
    if (backward) {
        t = seq - 1u - t;
        local = length - 1u - step_;
    }
    for (uint i = LANE; i < n_units * ROWS; i += THREADS) {
        uint u = i / ROWS, r = i % ROWS, b = min(b0 + r, batch - 1u);
        uint x = dir * gx_dir + (local * gx_t + b * gx_b) * GATES * hidden + u0 + u;
        float v;
        if (GATES == 4u) {
            float gi = act_sigmoid(uintBitsToFloat(gx[x]) + from_h(0u, u, r));
            float gf = act_sigmoid(uintBitsToFloat(gx[x + hidden]) + from_h(1u, u, r));
            float gg = act_tanh(uintBitsToFloat(gx[x + 2u * hidden]) + from_h(2u, u, r));
            float go = act_sigmoid(uintBitsToFloat(gx[x + 3u * hidden]) + from_h(3u, u, r));
            c[i] = gf * c[i] + gi * gg;
            v = go * act_tanh(c[i]);
        } else if (GATES == 3u) {
            float gr = act_sigmoid(uintBitsToFloat(gx[x]) + from_h(0u, u, r));
            float z = uintBitsToFloat(gx[x + hidden]) + from_h(1u, u, r);
            float gn = act_tanh(uintBitsToFloat(gx[x + 2u * hidden]) + gr * from_h(2u, u, r));
            v = act_sigmoid(-z) * gn + act_sigmoid(z) * h[i];
        } else {
            v = uintBitsToFloat(gx[x]) + from_h(0u, u, r);
            v = apply_act(RELU != 0u ? ACT_RELU : ACT_TANH, v);
        }
        h[i] = v;
        if (b0 + r < batch)
            y[y_at + (t * y_t + b * y_b) * width + dir * hidden + u0 + u] = floatBitsToUint(v);
    }
}

void main()
{
    bool exists = GROUP_INDEX < n_items;
    uint item = exists ? GROUP_INDEX : 0u;
    uint blocks = (hidden + units - 1u) / units, row_blocks = (batch + ROWS - 1u) / ROWS;
    u0 = item % blocks * units;
    b0 = item / blocks % row_blocks * ROWS;
    dir = item / blocks / row_blocks;
    n_units = min(units, hidden - u0);

    for (uint i = LANE; i < n_units * ROWS; i += THREADS) {
        uint at = state_at(i / ROWS, i % ROWS);
        h[i] = TH == 0u ? 0.0 : load_f_h0(TH, h_at + at);
        c[i] = TC == 0u ? 0.0 : load_f_c0(TC, c_at + at);
    }
    barrier();
    uint end = exists ? n_steps : 0u;
    for (uint i = 0u; i < end; i++) {
        multiply();
        barrier();
        update(first + i);
        barrier();
    }
    for (uint i = LANE; exists && i < n_units * ROWS; i += THREADS) {
        uint at = state_at(i / ROWS, i % ROWS);
        if (b0 + i % ROWS < batch) {
            hn[h_to + at] = floatBitsToUint(h[i]);
            if (GATES == 4u)
                cn[c_to + at] = floatBitsToUint(c[i]);
        }
    }
}
