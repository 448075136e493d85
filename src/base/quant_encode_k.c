/* SPDX-License-Identifier: MIT */
/* Encoders of the packed types with two levels of scales over 256 elements (q2_k to q6_k). Each
 * group gets the scale (or scale and offset) that fits it best; these are quantised to multiples of
 * the block's own scales; three iterations then refine both levels: least squares for the block's
 * scales, and for each group the best of the neighbouring multiples. */
#include <math.h>

#include "base/quant_blocks.h"
#include "base/quant_encode.h"
#include "base/quant_fit.h"

#define BLOCK 256
#define MAX_GROUPS 16
#define TURNS 3

static void store_f16(uint8_t out[2], float v)
{
    uint16_t h = rx_f32_to_f16(v);
    out[0] = (uint8_t)(h & 255);
    out[1] = (uint8_t)(h >> 8);
}

static int clamp_int(long v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : (int)v;
}

/* The multiple of `unit` that is nearest to v, from lo to hi. */
static int multiple(float v, float unit, int lo, int hi)
{
    if (unit == 0.0f)
        return clamp_int(0, lo, hi);
    float ratio = v / unit;
    return ratio <= (float)lo ? lo : ratio >= (float)hi ? hi : (int)lrintf(ratio);
}

/* Groups of n: group g. */
static rx_points group_of(const rx_points *p, int g, int n)
{
    return (rx_points){p->x + g * n, p->w + g * n, n};
}

/* ---- Scales: q3_k and q6_k, groups of 16 ----------------------------------------------------- */

#define GROUP 16

/* x ~ d * scale[g] * q */
typedef struct scaled {
    float d;
    int scale[MAX_GROUPS];
} scaled;

typedef struct scaled_type {
    rx_levels q, scale;
} scaled_type;

static double scaled_error(const rx_points *p, const scaled_type *t, const scaled *s)
{
    double error = 0.0;
    for (int g = 0; g < MAX_GROUPS; g++)
        error += rx_scale_error(group_of(p, g, GROUP), t->q, s->d * (float)s->scale[g]);
    return error;
}

/* The least-squares d while scales and integers stay as they are. */
static float refit_d(const rx_points *p, const scaled_type *t, const scaled *s)
{
    double xy = 0.0, yy = 0.0;
    for (int g = 0; g < MAX_GROUPS; g++) {
        int8_t q[GROUP];
        rx_round_scale(p->x + g * GROUP, GROUP, t->q, s->d * (float)s->scale[g], q);
        for (int i = 0; i < GROUP; i++) {
            double y = (double)(s->scale[g] * q[i]);
            const double wy = (double)p->w[g * GROUP + i] * y;
            xy += (double)p->x[g * GROUP + i] * wy;
            yy += y * wy;
        }
    }
    return yy > 0.0 ? rx_f16_scale((float)(xy / yy)) : s->d;
}

/* The best multiple within `reach` of the current one, for each group. */
static void improve_scales(const rx_points *p, const scaled_type *t, scaled *s, int reach)
{
    for (int g = 0; g < MAX_GROUPS; g++) {
        const int from = s->scale[g];
        float least = rx_scale_error(group_of(p, g, GROUP), t->q, s->d * (float)from);
        for (int k = -reach; k <= reach; k++) {
            int scale = clamp_int(from + k, t->scale.lo, t->scale.hi);
            float error = rx_scale_error(group_of(p, g, GROUP), t->q, s->d * (float)scale);
            if (error < least) {
                least = error;
                s->scale[g] = scale;
            }
        }
    }
}

static void round_scales(const float fit[MAX_GROUPS], const scaled_type *t, scaled *s)
{
    for (int g = 0; g < MAX_GROUPS; g++)
        s->scale[g] = multiple(fit[g], s->d, t->scale.lo, t->scale.hi);
}

static scaled fit_scaled(const rx_points *p, const scaled_type *t)
{
    float fit[MAX_GROUPS], top = 0.0f;
    for (int g = 0; g < MAX_GROUPS; g++) {
        fit[g] = rx_fit_scale(group_of(p, g, GROUP), t->q);
        top = fabsf(fit[g]) > fabsf(top) ? fit[g] : top;
    }
    scaled best = {.d = rx_f16_scale(top / (float)t->scale.lo)};
    round_scales(fit, t, &best);
    double least = scaled_error(p, t, &best);
    scaled s = best;
    for (int turn = 0; turn < TURNS; turn++) {
        improve_scales(p, t, &s, turn ? 1 : 2);
        s.d = refit_d(p, t, &s);
        double error = scaled_error(p, t, &s);
        if (error < least) {
            least = error;
            best = s;
        }
    }
    return best;
}

void rx_encode_q3_k(const float *src, const float *w, void *block)
{
    static const scaled_type type = {{-4, 3}, {-32, 31}};
    rx_block_q3_k *b = block;
    *b = (rx_block_q3_k){0};
    const scaled s = fit_scaled(&(rx_points){src, w, BLOCK}, &type);
    store_f16(b->d, s.d);
    for (int g = 0; g < MAX_GROUPS; g++) {
        const unsigned scale = (unsigned)(s.scale[g] + 32);
        b->scales[g % 8] = (uint8_t)(b->scales[g % 8] | (scale & 15) << g / 8 * 4);
        b->scales[8 + g % 4] = (uint8_t)(b->scales[8 + g % 4] | scale >> 4 << g / 4 * 2);
        int8_t q[GROUP];
        rx_round_scale(src + g * GROUP, GROUP, type.q, s.d * (float)s.scale[g], q);
        uint8_t *qs = b->qs + rx_crumb_byte(g), *hmask = b->hmask + g % 2 * 16;
        for (int i = 0; i < GROUP; i++) {
            const unsigned v = (unsigned)(q[i] + 4);
            qs[i] = (uint8_t)(qs[i] | (v & 3) << rx_crumb_shift(g));
            hmask[i] = (uint8_t)(hmask[i] | v >> 2 << g / 2);
        }
    }
}

void rx_encode_q6_k(const float *src, const float *w, void *block)
{
    static const scaled_type type = {{-32, 31}, {-128, 127}};
    rx_block_q6_k *b = block;
    *b = (rx_block_q6_k){0};
    const scaled s = fit_scaled(&(rx_points){src, w, BLOCK}, &type);
    store_f16(b->d, s.d);
    for (int g = 0; g < MAX_GROUPS; g++) {
        int8_t q[GROUP];
        rx_round_scale(src + g * GROUP, GROUP, type.q, s.d * (float)s.scale[g], q);
        b->scales[g] = (uint8_t)s.scale[g];
        const int half = g / 8, run = g / 2 % 4, at = g % 2 * 16;
        uint8_t *ql = b->ql[half] + run % 2 * 32 + at, *qh = b->qh[half] + at;
        for (int i = 0; i < GROUP; i++) {
            const unsigned v = (unsigned)(q[i] + 32);
            ql[i] = (uint8_t)(ql[i] | (v & 15) << run / 2 * 4);
            qh[i] = (uint8_t)(qh[i] | v >> 4 << run * 2);
        }
    }
}

/* ---- Lines: q2_k, q4_k, q5_k ----------------------------------------------------------------- */

/* x ~ d * scale[g] * q - dmin * min[g] */
typedef struct lined {
    float d, dmin;
    int scale[MAX_GROUPS], min[MAX_GROUPS];
} lined;

typedef struct lined_type {
    int n_groups, top; /* q is 0 to top */
    int top_scale;     /* scales and mins are 0 to top_scale */
} lined_type;

static rx_line group_line(const lined *s, int scale, int min)
{
    return (rx_line){s->d * (float)scale, -(s->dmin * (float)min)};
}

static double lined_error(const rx_points *p, const lined_type *t, const lined *s)
{
    const int n = BLOCK / t->n_groups;
    double error = 0.0;
    for (int g = 0; g < t->n_groups; g++)
        error += rx_line_error(group_of(p, g, n), t->top, group_line(s, s->scale[g], s->min[g]));
    return error;
}

/* The least-squares d and dmin while the integers stay as they are: with y = scale * q and z = -min
 * the equations d yy + dmin yz = xy, d yz + dmin zz = xz. */
static void refit_units(const rx_points *p, const lined_type *t, lined *s)
{
    const int n = BLOCK / t->n_groups;
    double xy = 0.0, xz = 0.0, yy = 0.0, yz = 0.0, zz = 0.0;
    for (int g = 0; g < t->n_groups; g++) {
        int8_t q[32];
        rx_round_line(p->x + g * n, n, t->top, group_line(s, s->scale[g], s->min[g]), q);
        const double z = -s->min[g];
        for (int i = 0; i < n; i++) {
            const double w = (double)p->w[g * n + i], v = (double)p->x[g * n + i];
            const double y = (double)(s->scale[g] * q[i]);
            xy += w * v * y;
            xz += w * v * z;
            yy += w * y * y;
            yz += w * y * z;
            zz += w * z * z;
        }
    }
    const double det = yy * zz - yz * yz;
    if (det > 1e-9 * yy * zz) {
        s->d = rx_f16_scale((float)((xy * zz - xz * yz) / det));
        s->dmin = rx_f16_scale((float)((xz * yy - xy * yz) / det));
    } else if (yy > 0.0)
        s->d = rx_f16_scale((float)((xy - s->dmin * yz) / yy));
}

/* The best of the neighbouring pairs, for each group. */
static void improve_lines(const rx_points *p, const lined_type *t, lined *s, int reach)
{
    const int n = BLOCK / t->n_groups;
    for (int g = 0; g < t->n_groups; g++) {
        const int scale0 = s->scale[g], min0 = s->min[g];
        float least = rx_line_error(group_of(p, g, n), t->top, group_line(s, scale0, min0));
        for (int k = 0; k < (2 * reach + 1) * (2 * reach + 1); k++) {
            int scale = clamp_int(scale0 + k % (2 * reach + 1) - reach, 0, t->top_scale);
            int min = clamp_int(min0 + k / (2 * reach + 1) - reach, 0, t->top_scale);
            float error = rx_line_error(group_of(p, g, n), t->top, group_line(s, scale, min));
            if (error < least) {
                least = error;
                s->scale[g] = scale;
                s->min[g] = min;
            }
        }
    }
}

static lined fit_lined(const rx_points *p, const lined_type *t)
{
    const int n = BLOCK / t->n_groups;
    rx_line fit[MAX_GROUPS];
    float top_d = 0.0f, top_m = 0.0f;
    for (int g = 0; g < t->n_groups; g++) {
        fit[g] = rx_fit_line(group_of(p, g, n), t->top, 1);
        top_d = fit[g].d > top_d ? fit[g].d : top_d;
        top_m = -fit[g].m > top_m ? -fit[g].m : top_m;
    }
    lined best = {.d = rx_f16_scale(top_d / (float)t->top_scale),
                  .dmin = rx_f16_scale(top_m / (float)t->top_scale)};
    for (int g = 0; g < t->n_groups; g++) {
        best.scale[g] = multiple(fit[g].d, best.d, 0, t->top_scale);
        best.min[g] = multiple(-fit[g].m, best.dmin, 0, t->top_scale);
    }
    double least = lined_error(p, t, &best);
    lined s = best;
    for (int turn = 0; turn < TURNS; turn++) {
        improve_lines(p, t, &s, 1);
        refit_units(p, t, &s);
        double error = lined_error(p, t, &s);
        if (error < least) {
            least = error;
            best = s;
        }
    }
    return best;
}

static void round_group(const float *src, const lined_type *t, const lined *s, int g, int8_t q[32])
{
    const int n = BLOCK / t->n_groups;
    rx_round_line(src + g * n, n, t->top, group_line(s, s->scale[g], s->min[g]), q);
}

void rx_encode_q2_k(const float *src, const float *w, void *block)
{
    static const lined_type type = {16, 3, 15};
    rx_block_q2_k *b = block;
    *b = (rx_block_q2_k){0};
    const lined s = fit_lined(&(rx_points){src, w, BLOCK}, &type);
    store_f16(b->d, s.d);
    store_f16(b->dmin, s.dmin);
    for (int g = 0; g < 16; g++) {
        int8_t q[32];
        round_group(src, &type, &s, g, q);
        b->scales[g] = (uint8_t)(s.scale[g] | s.min[g] << 4);
        uint8_t *qs = b->qs + rx_crumb_byte(g);
        for (int i = 0; i < 16; i++)
            qs[i] = (uint8_t)(qs[i] | q[i] << rx_crumb_shift(g));
    }
}

/* The 6-bit pairs of q4_k and q5_k; scale_and_min in quant_k.c reads them. */
static void store_pairs(uint8_t out[12], const lined *s)
{
    for (int i = 0; i < 4; i++) {
        const int high = i + 4;
        out[i] = (uint8_t)(s->scale[i] | s->scale[high] >> 4 << 6);
        out[i + 4] = (uint8_t)(s->min[i] | s->min[high] >> 4 << 6);
        out[i + 8] = (uint8_t)((s->scale[high] & 15) | (s->min[high] & 15) << 4);
    }
}

void rx_encode_q4_k(const float *src, const float *w, void *block)
{
    static const lined_type type = {8, 15, 63};
    rx_block_q4_k *b = block;
    *b = (rx_block_q4_k){0};
    const lined s = fit_lined(&(rx_points){src, w, BLOCK}, &type);
    store_f16(b->d, s.d);
    store_f16(b->dmin, s.dmin);
    store_pairs(b->scales, &s);
    for (int g = 0; g < 8; g++) {
        int8_t q[32];
        round_group(src, &type, &s, g, q);
        for (int i = 0; i < 32; i++)
            b->qs[g / 2][i] = (uint8_t)(b->qs[g / 2][i] | q[i] << g % 2 * 4);
    }
}

void rx_encode_q5_k(const float *src, const float *w, void *block)
{
    static const lined_type type = {8, 31, 63};
    rx_block_q5_k *b = block;
    *b = (rx_block_q5_k){0};
    const lined s = fit_lined(&(rx_points){src, w, BLOCK}, &type);
    store_f16(b->d, s.d);
    store_f16(b->dmin, s.dmin);
    store_pairs(b->scales, &s);
    for (int g = 0; g < 8; g++) {
        int8_t q[32];
        round_group(src, &type, &s, g, q);
        for (int i = 0; i < 32; i++) {
            b->qs[g / 2][i] = (uint8_t)(b->qs[g / 2][i] | (q[i] & 15) << g % 2 * 4);
            b->qh[i] = (uint8_t)(b->qh[i] | q[i] >> 4 << g);
        }
    }
}
