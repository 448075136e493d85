/* SPDX-License-Identifier: MIT */
/* A grid of initial guesses, each refined in closed form: with the integers fixed the best scale
 * (or line) is a least-squares solution; with the scale fixed, the best integers are the nearest
 * ones. Loops run over 8 independent partial sums, so that compilers vectorise them. */
#include "base/quant_fit.h"

#include <math.h>

#include "base/half.h"

#define LANES 8

/* ---- Small pieces ---------------------------------------------------------------------------- */

/* Nearest integer, ties to even; |v| is below 2^22. */
static inline float nearest(float v)
{
    return (v + 0x1.8p23f) - 0x1.8p23f;
}

static inline float clamp(float v, float lo, float hi)
{
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

static inline float sum_lanes(const float a[LANES])
{
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

/* 1 / d where that is finite, else 0. */
static float inverse(float d)
{
    return fabsf(d) > 1e-30f ? 1.0f / d : 0.0f;
}

float rx_f16_scale(float d)
{
    float bounded = clamp(d, -65504.0f, 65504.0f);
    float rounded = rx_f16_to_f32(rx_f32_to_f16(bounded));
    if (rounded != 0.0f || d == 0.0f)
        return rounded;
    return copysignf(0x1p-24f, d);
}

/* ---- x ~ d * q ------------------------------------------------------------------------------- */

typedef struct scale_sums {
    float xq, qq;
} scale_sums;

/* Sums over the integers nearest to x * inv. */
static scale_sums sum_scale(rx_points p, rx_levels levels, float inv)
{
    const float lo = (float)levels.lo, hi = (float)levels.hi;
    float xq[LANES] = {0}, qq[LANES] = {0};
    for (int i = 0; i < p.n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            float q = nearest(clamp(p.x[i + k] * inv, lo, hi)), wq = p.w[i + k] * q;
            xq[k] += p.x[i + k] * wq;
            qq[k] += q * wq;
        }
    }
    return (scale_sums){sum_lanes(xq), sum_lanes(qq)};
}

void rx_round_scale(const float *x, int n, rx_levels levels, float d, int8_t *q)
{
    const float inv = inverse(d), lo = (float)levels.lo, hi = (float)levels.hi;
    for (int i = 0; i < n; i++)
        q[i] = (int8_t)nearest(clamp(x[i] * inv, lo, hi));
}

float rx_scale_error(rx_points p, rx_levels levels, float d)
{
    const float inv = inverse(d), lo = (float)levels.lo, hi = (float)levels.hi;
    float sum[LANES] = {0};
    for (int i = 0; i < p.n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            float e = p.x[i + k] - d * nearest(clamp(p.x[i + k] * inv, lo, hi));
            sum[k] += p.w[i + k] * e * e;
        }
    }
    return sum_lanes(sum);
}

/* The element of the largest size, with its sign. */
static float extreme(const float *x, int n)
{
    float best = 0.0f;
    for (int i = 0; i < n; i++)
        best = fabsf(x[i]) > fabsf(best) ? x[i] : best;
    return best;
}

/* The first guesses put the extreme from one level inside to two levels outside of either end. */
#define SCALE_SPAN 3.0f
#define SCALE_STEPS 20
#define FINE_STEPS 6 /* with so many levels that one more or less changes little */

float rx_fit_scale(rx_points p, rx_levels levels)
{
    const float top = extreme(p.x, p.n);
    if (fabsf(top) < 1e-30f)
        return 0.0f;
    const int steps = levels.hi < 64 ? SCALE_STEPS : FINE_STEPS;
    float best_gain = 0.0f, best = 0.0f;
    for (int end = 0; end < 2; end++) {
        const float level = (float)(end ? levels.hi : levels.lo), sign = end ? 1.0f : -1.0f;
        for (int step = 0; step <= steps; step++) {
            float t = level + sign * (SCALE_SPAN * (float)step / (float)steps - 1.0f);
            scale_sums s = sum_scale(p, levels, t / top);
            if (s.qq > 0.0f && s.xq * s.xq > best_gain * s.qq) {
                best_gain = s.xq * s.xq / s.qq;
                best = s.xq / s.qq;
            }
        }
    }
    return best;
}

float rx_polish_scale(rx_points p, rx_levels levels, float d)
{
    float best = rx_f16_scale(d), least = rx_scale_error(p, levels, best), at = best;
    for (int turn = 0; turn < 3; turn++) {
        scale_sums s = sum_scale(p, levels, inverse(at));
        if (s.qq == 0.0f)
            break;
        float next = rx_f16_scale(s.xq / s.qq), error = rx_scale_error(p, levels, next);
        if (error < least) {
            least = error;
            best = next;
        }
        if (next == at)
            break;
        at = next;
    }
    return best;
}

/* ---- x ~ d * q + m --------------------------------------------------------------------------- */

typedef struct line_sums {
    float w, x, q, xq, qq;
} line_sums;

static line_sums sum_line(rx_points p, int top, rx_line l)
{
    const float inv = inverse(l.d), hi = (float)top;
    float sw[LANES] = {0}, sx[LANES] = {0}, sq[LANES] = {0}, xq[LANES] = {0}, qq[LANES] = {0};
    for (int i = 0; i < p.n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            float w = p.w[i + k], v = p.x[i + k];
            float q = nearest(clamp((v - l.m) * inv, 0.0f, hi)), wq = w * q;
            sw[k] += w;
            sx[k] += w * v;
            sq[k] += wq;
            xq[k] += v * wq;
            qq[k] += q * wq;
        }
    }
    return (line_sums){sum_lanes(sw), sum_lanes(sx), sum_lanes(sq), sum_lanes(xq), sum_lanes(qq)};
}

void rx_round_line(const float *x, int n, int top, rx_line l, int8_t *q)
{
    const float inv = inverse(l.d), hi = (float)top;
    for (int i = 0; i < n; i++)
        q[i] = (int8_t)nearest(clamp((x[i] - l.m) * inv, 0.0f, hi));
}

float rx_line_error(rx_points p, int top, rx_line l)
{
    const float inv = inverse(l.d), hi = (float)top;
    float sum[LANES] = {0};
    for (int i = 0; i < p.n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            float q = nearest(clamp((p.x[i + k] - l.m) * inv, 0.0f, hi));
            float e = p.x[i + k] - (l.d * q + l.m);
            sum[k] += p.w[i + k] * e * e;
        }
    }
    return sum_lanes(sum);
}

/* The least-squares line of these sums, and in *gain by how much it lowers the sum of squares. */
static rx_line solve_line(const line_sums *s, int below, float *gain)
{
    const float det = s->w * s->qq - s->q * s->q;
    rx_line l = {0.0f, s->x / s->w};
    if (det > 0.0f) {
        l.d = (s->w * s->xq - s->x * s->q) / det;
        l.m = (s->qq * s->x - s->q * s->xq) / det;
    }
    if (below && l.m > 0.0f)
        l = (rx_line){s->qq > 0.0f ? s->xq / s->qq : 0.0f, 0.0f};
    *gain = l.d * s->xq + l.m * s->x;
    return l;
}

/* The first guesses spread the range over one level less to two more than there are; half of them
 * are cut at the lower end, half at both ends. */
#define LINE_STEP 0.25f
#define LINE_STEPS 13

rx_line rx_fit_line(rx_points p, int top, int below)
{
    float lo = p.x[0], hi = p.x[0];
    for (int i = 1; i < p.n; i++) {
        lo = p.x[i] < lo ? p.x[i] : lo;
        hi = p.x[i] > hi ? p.x[i] : hi;
    }
    if (below && lo > 0.0f)
        lo = 0.0f;
    if (hi - lo < 1e-30f)
        return (rx_line){0.0f, below && lo > 0.0f ? 0.0f : lo};
    rx_line best = {(hi - lo) / (float)top, lo};
    float best_gain = -INFINITY;
    for (int step = 0; step < LINE_STEPS; step++) {
        float extra = LINE_STEP * (float)step - 1.0f;
        float d = (hi - lo) / ((float)top + extra);
        for (int part = 0; part < 2; part++) {
            rx_line l = {d, part ? lo + 0.5f * extra * d : lo};
            float gain;
            for (int turn = 0; turn < 2; turn++) {
                line_sums s = sum_line(p, top, l);
                l = solve_line(&s, below, &gain);
            }
            if (gain > best_gain) {
                best_gain = gain;
                best = l;
            }
        }
    }
    return best;
}

static float f16_offset(float m)
{
    return rx_f16_to_f32(rx_f32_to_f16(clamp(m, -65504.0f, 65504.0f)));
}

rx_line rx_polish_line(rx_points p, int top, rx_line l)
{
    rx_line best = {rx_f16_scale(l.d), f16_offset(l.m)}, at = best;
    float least = rx_line_error(p, top, best), gain;
    for (int turn = 0; turn < 3; turn++) {
        line_sums s = sum_line(p, top, at);
        rx_line next = solve_line(&s, 0, &gain);
        next = (rx_line){rx_f16_scale(next.d), f16_offset(next.m)};
        float error = rx_line_error(p, top, next);
        if (error < least) {
            least = error;
            best = next;
        }
        if (next.d == at.d && next.m == at.m)
            break;
        at = next;
    }
    return best;
}
