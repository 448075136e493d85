/* SPDX-License-Identifier: MIT */
/* State space models: selective_scan, mamba2, gated_delta_net. States are carried in f32; loops run
 * along channels or rows of the state, so that compilers vectorise them. */
#include <math.h>
#include <string.h>

#include "cpu/generic.h"
#include "cpu/generic_math.h"
#include "cpu/generic_scan.h"

#define CHANNELS 16 /* of selective_scan at once */

typedef struct scan_run {
    const rx_call *c;
    const float *in[7]; /* NULL: absent */
    float *y;           /* [tokens, ...] */
    float *state;       /* of all sequences, as the last state is stored */
    float *room;        /* `each` floats for each unit */
    int64_t each;
} scan_run;

/* All operands as dense f32, room for the result and the state; n_state: elements of the state,
 * `first`: which operand it starts from. */
static rlx_status scan_init(scan_run *r, const rx_call *c, size_t first, int64_t n_state)
{
    r->c = c;
    for (size_t i = 0; i < c->n_in; i++) {
        const rx_view *v = rx_call_in(c, i);
        if (!v)
            continue;
        r->in[i] = (const float *)v->data;
        if (v->dtype == RLX_F32)
            continue;
        const int64_t n = rx_view_elements(v);
        float *wide = rx_call_array(c, n, sizeof *wide);
        if (!wide)
            return RLX_NO_MEMORY;
        rx_load_lanes(v->dtype, v->data, 1, wide, n);
        r->in[i] = wide;
    }
    const rx_view *y = &c->out[0];
    r->y = (float *)y->data;
    if (!y->data || y->dtype != RLX_F32)
        r->y = rx_call_array(c, (uint64_t)rx_view_elements(y), sizeof *r->y);
    r->state = rx_call_array(c, n_state, sizeof *r->state);
    if (!r->y || !r->state)
        return RLX_NO_MEMORY;
    if (r->in[first])
        memcpy(r->state, r->in[first], (size_t)n_state * sizeof *r->state);
    else
        memset(r->state, 0, (size_t)n_state * sizeof *r->state);
    return RLX_OK;
}

static void scan_end(const scan_run *r, int64_t n_state)
{
    const rx_view *y = rx_call_out(r->c, 0), *last = rx_call_out(r->c, 1);
    if (y && y->dtype != RLX_F32)
        rx_store_lanes(y->dtype, y->data, 1, r->y, rx_view_elements(y));
    if (last)
        rx_store_lanes(last->dtype, last->data, 1, r->state, n_state);
}

static bool is_scan(const rx_call *c)
{
    for (size_t i = 0; i < c->n_in; i++) {
        const rx_view *v = rx_call_in(c, i);
        if (v && (!rlx_dtype_is_float(v->dtype) || !rx_view_is_dense(v)))
            return false;
    }
    return rx_view_elements(&c->in[0]) > 0 && rlx_dtype_is_float(c->out[0].dtype);
}

/* ---- selective_scan -------------------------------------------------------------------------- */

/* A token: x, delta of CHANNELS channels; b, c [n]. */
typedef struct scan_inputs {
    const float *x, *delta, *b, *c;
} scan_inputs;

/* A token of CHANNELS channels. a and h are [n, CHANNELS]. */
static void scan_token(const scan_inputs *in, const float *a, float *restrict h, int64_t n,
                       float *restrict y)
{
    const float *x = in->x, *delta = in->delta;
    for (int64_t i = 0; i < n; i++)
        for (int e = 0; e < CHANNELS; e++) {
            const int64_t k = i * CHANNELS + e;
            h[k] = rx_lane_exp(delta[e] * a[k]) * h[k] + delta[e] * in->b[i] * x[e];
            y[e] += in->c[i] * h[k];
        }
}

/* Units: CHANNELS channels of a sequence. Their a and state are transposed so that channels are
 * contiguous; channels past the last are zero. */
static void scan_units(void *user, int64_t begin, int64_t end)
{
    const scan_run *r = user;
    const rx_view *v = &r->c->in[0];
    const int64_t seq = v->dim[1], width = v->dim[2], n = r->c->in[2].dim[1];
    const int64_t units = (width + CHANNELS - 1) / CHANNELS;
    for (; begin < end; begin++) {
        const int64_t b = begin / units, e0 = begin % units * CHANNELS;
        const int64_t live = width - e0 < CHANNELS ? width - e0 : CHANNELS;
        float *a = r->room + begin * r->each, *h = a + n * CHANNELS;
        float *state = r->state + (b * width + e0) * n;
        memset(a, 0, (size_t)r->each * sizeof *a);
        for (int64_t e = 0; e < live; e++)
            for (int64_t i = 0; i < n; i++) {
                a[i * CHANNELS + e] = r->in[2][(e0 + e) * n + i];
                h[i * CHANNELS + e] = state[e * n + i];
            }
        for (int64_t t = 0; t < seq; t++) {
            const int64_t token = b * seq + t, at = token * width + e0;
            float x[CHANNELS] = {0}, delta[CHANNELS] = {0}, y[CHANNELS] = {0};
            memcpy(x, r->in[0] + at, (size_t)live * sizeof *x);
            memcpy(delta, r->in[1] + at, (size_t)live * sizeof *delta);
            for (int64_t e = 0; r->in[5] && e < live; e++)
                y[e] = r->in[5][e0 + e] * x[e];
            const scan_inputs in = {x, delta, r->in[3] + token * n, r->in[4] + token * n};
            scan_token(&in, a, h, n, y);
            memcpy(r->y + at, y, (size_t)live * sizeof *y);
        }
        for (int64_t e = 0; e < live; e++)
            for (int64_t i = 0; i < n; i++)
                state[e * n + i] = h[i * CHANNELS + e];
    }
}

rlx_status rx_generic_selective_scan(const rx_call *c)
{
    if (!is_scan(c))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    const rx_view *x = &c->in[0];
    const int64_t n = c->in[2].dim[1], n_state = x->dim[0] * x->dim[2] * n;
    const int64_t units = x->dim[0] * ((x->dim[2] + CHANNELS - 1) / CHANNELS);
    scan_run r = {.each = 2 * n * CHANNELS};
    RLX_TRY(scan_init(&r, c, 6, n_state));
    r.room = rx_call_array(c, units * r.each, sizeof *r.room);
    if (!r.room)
        return RLX_NO_MEMORY;
    rx_parallel(c->pool, units, 1, scan_units, &r);
    scan_end(&r, n_state);
    return RLX_OK;
}

/* ---- mamba2 ---------------------------------------------------------------------------------- */

/* row = decay * row + scale * b; the result is row . c, as eight sums. */
static float mamba2_row(float *restrict row, const float *b, const float *c, int64_t n,
                        const float by[2])
{
    float part[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) {
            row[i + k] = by[0] * row[i + k] + by[1] * b[i + k];
            part[k] += row[i + k] * c[i + k];
        }
    for (; i < n; i++) {
        row[i] = by[0] * row[i] + by[1] * b[i];
        sum += row[i] * c[i];
    }
    for (int k = 0; k < 8; k++)
        sum += part[k];
    return sum;
}

/* Units: heads of sequences. */
static void mamba2_units(void *user, int64_t begin, int64_t end)
{
    const scan_run *r = user;
    const rx_view *v = &r->c->in[0], *groups = &r->c->in[3];
    const int64_t seq = v->dim[1], heads = v->dim[2], width = v->dim[3], n = groups->dim[3];
    for (; begin < end; begin++) {
        const int64_t head = begin % heads, group = head / (heads / groups->dim[2]);
        float *s = r->state + begin * width * n;
        for (int64_t t = 0; t < seq; t++) {
            const int64_t token = begin / heads * seq + t, at = token * heads + head;
            const int64_t bc = (token * groups->dim[2] + group) * n;
            const float dt = r->in[1][at], decay = expf(dt * r->in[2][head]);
            for (int64_t p = 0; p < width; p++) {
                const float x = r->in[0][at * width + p];
                const float by[2] = {decay, dt * x};
                const float sum = mamba2_row(s + p * n, r->in[3] + bc, r->in[4] + bc, n, by);
                r->y[at * width + p] = sum + (r->in[5] ? r->in[5][head] * x : 0);
            }
        }
    }
}

rlx_status rx_generic_mamba2(const rx_call *c)
{
    if (!is_scan(c))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    const rx_view *x = &c->in[0];
    const int64_t units = x->dim[0] * x->dim[2], n_state = units * x->dim[3] * c->in[3].dim[3];
    scan_run r = {0};
    RLX_TRY(scan_init(&r, c, 6, n_state));
    rx_parallel(c->pool, units, 1, mamba2_units, &r);
    scan_end(&r, n_state);
    return RLX_OK;
}

/* ---- gated_delta_net ------------------------------------------------------------------------- */

/* known += f * row */
static void add_row(float *restrict known, const float *row, float f, int64_t n)
{
    for (int64_t p = 0; p < n; p++)
        known[p] += f * row[p];
}

/* Token `at` of a head: s [n, width] decays, learns delta, and answers q. room: [2, width]. */
static void delta_token(const scan_run *r, int64_t at, float *restrict s, float *restrict room)
{
    const int64_t n = r->c->in[0].dim[3], width = r->c->in[2].dim[3];
    const bool by_row = r->c->in[3].rank == 4;
    const float *k = r->in[1] + at * n, *q = r->in[0] + at * n, *v = r->in[2] + at * width;
    float *delta = room, *y = r->y + at * width;
    const float scale = (float)(1 / sqrt((double)n));
    memset(delta, 0, (size_t)width * sizeof *delta);
    for (int64_t i = 0; i < n; i++) {
        const float decay = expf(r->in[3][by_row ? at * n + i : at]);
        for (int64_t p = 0; p < width; p++)
            s[i * width + p] *= decay;
        add_row(delta, s + i * width, k[i], width);
    }
    for (int64_t p = 0; p < width; p++) {
        delta[p] = (v[p] - delta[p]) * r->in[4][at];
        y[p] = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        add_row(s + i * width, delta, k[i], width);
        add_row(y, s + i * width, q[i] * scale, width);
    }
}

/* Units: heads of sequences. */
static void delta_units(void *user, int64_t begin, int64_t end)
{
    const scan_run *r = user;
    const int64_t seq = r->c->in[0].dim[1], heads = r->c->in[0].dim[2];
    const int64_t n_state = r->c->in[0].dim[3] * r->c->in[2].dim[3];
    for (; begin < end; begin++)
        for (int64_t t = 0; t < seq; t++)
            delta_token(r, (begin / heads * seq + t) * heads + begin % heads,
                        r->state + begin * n_state, r->room + begin * r->each);
}

rlx_status rx_generic_gated_delta_net(const rx_call *c)
{
    if (!is_scan(c))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    const rx_view *q = &c->in[0];
    const int64_t units = q->dim[0] * q->dim[2], n_state = units * q->dim[3] * c->in[2].dim[3];
    scan_run r = {.each = c->in[2].dim[3]};
    RLX_TRY(scan_init(&r, c, 5, n_state));
    r.room = rx_call_array(c, units * r.each, sizeof *r.room);
    if (!r.room)
        return RLX_NO_MEMORY;
    rx_parallel(c->pool, units, 1, delta_units, &r);
    scan_end(&r, n_state);
    return RLX_OK;
}
