/* SPDX-License-Identifier: MIT */
/* Reference state space models: selective_scan, mamba2, gated_delta_net. A state is carried over
 * the tokens of a sequence in double; only results are rounded. */
#include <math.h>

#include "cpu/ref/ref.h"

/* Element (a, b, c, d) of a tensor of rank up to 4; indices past the rank are ignored. */
static double at4(const rx_view *v, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return rx_load(v, rx_offset(v, (const int64_t[]){a, b, c, d}));
}

/* Loads n numbers of the initial state, elements (b, i, ..) of operand `in`; zeros if absent. */
static void load_state(const rx_call *c, size_t in, const int64_t at[2], double *state, int64_t n)
{
    const rx_view *v = rx_call_in(c, in);
    int64_t place[RLX_MAX_RANK] = {at[0], at[1]};
    for (int64_t i = 0; i < n; i++) {
        state[i] = v ? rx_load(v, rx_offset(v, place)) : 0;
        if (v)
            rx_next(place + 2, v->dim + 2, v->rank - 2);
    }
}

/* Stores the last state of (b, i) as result 1, if it is wanted. */
static void store_state(const rx_call *c, const int64_t at[2], const double *state, int64_t n)
{
    const rx_view *v = rx_call_out(c, 1);
    const int64_t first = v ? (at[0] * v->dim[1] + at[1]) * n : 0;
    for (int64_t i = 0; v && i < n; i++)
        rx_store(v, first + i, state[i]);
}

/* ---- selective_scan -------------------------------------------------------------------------- */

/* x, delta [B,S,E], a [E,N], b, c [B,S,N], skip? [E], h0? [B,E,N]: channel e of sequence
 * b; h [N]. */
static void scan_channel(const rx_call *c, int64_t b, int64_t e, double *h)
{
    const rx_view *x = &c->in[0], *skip = rx_call_in(c, 5), *y = rx_call_out(c, 0);
    const int64_t n = c->in[2].dim[1];
    for (int64_t t = 0; t < x->dim[1]; t++) {
        const double xt = at4(x, b, t, e, 0), delta = at4(&c->in[1], b, t, e, 0);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            h[i] = exp(delta * at4(&c->in[2], e, i, 0, 0)) * h[i] +
                   delta * at4(&c->in[3], b, t, i, 0) * xt;
            sum += at4(&c->in[4], b, t, i, 0) * h[i];
        }
        if (skip)
            sum += at4(skip, e, 0, 0, 0) * xt;
        if (y)
            rx_store(y, (b * x->dim[1] + t) * x->dim[2] + e, sum);
    }
}

rlx_status rx_ref_selective_scan(const rx_call *c)
{
    const rx_view *x = &c->in[0];
    const int64_t n = c->in[2].dim[1];
    double *h = rx_call_array(c, n + 1, sizeof *h);
    if (!h)
        return RLX_NO_MEMORY;
    for (int64_t i = 0; i < x->dim[0] * x->dim[2]; i++) {
        const int64_t at[] = {i / x->dim[2], i % x->dim[2]};
        load_state(c, 6, at, h, n);
        scan_channel(c, at[0], at[1], h);
        store_state(c, at, h, n);
    }
    return RLX_OK;
}

/* ---- mamba2 ---------------------------------------------------------------------------------- */

/* x [B,S,H,P], dt [B,S,H], a [H], b, c [B,S,G,N], skip? [H], s0? [B,H,P,N]: token t of a head; s
 * [P, N]. */
static void mamba2_token(const rx_call *c, int64_t b, int64_t t, int64_t head, double *s)
{
    const rx_view *x = &c->in[0], *skip = rx_call_in(c, 5), *y = rx_call_out(c, 0);
    const int64_t width = x->dim[3], n = c->in[3].dim[3];
    const int64_t group = head / (x->dim[2] / c->in[3].dim[2]);
    const double dt = at4(&c->in[1], b, t, head, 0);
    const double decay = exp(dt * at4(&c->in[2], head, 0, 0, 0));
    for (int64_t p = 0; p < width; p++) {
        const double xt = at4(x, b, t, head, p);
        double sum = 0, *row = s + p * n;
        for (int64_t i = 0; i < n; i++) {
            row[i] = decay * row[i] + dt * xt * at4(&c->in[3], b, t, group, i);
            sum += row[i] * at4(&c->in[4], b, t, group, i);
        }
        if (skip)
            sum += at4(skip, head, 0, 0, 0) * xt;
        if (y)
            rx_store(y, ((b * x->dim[1] + t) * x->dim[2] + head) * width + p, sum);
    }
}

rlx_status rx_ref_mamba2(const rx_call *c)
{
    const rx_view *x = &c->in[0];
    const int64_t n = x->dim[3] * c->in[3].dim[3];
    double *s = rx_call_array(c, n + 1, sizeof *s);
    if (!s)
        return RLX_NO_MEMORY;
    for (int64_t i = 0; i < x->dim[0] * x->dim[2]; i++) {
        const int64_t at[] = {i / x->dim[2], i % x->dim[2]};
        load_state(c, 6, at, s, n);
        for (int64_t t = 0; t < x->dim[1]; t++)
            mamba2_token(c, at[0], t, at[1], s);
        store_state(c, at, s, n);
    }
    return RLX_OK;
}

/* ---- gated_delta_net ------------------------------------------------------------------------- */

/* q, k [B,S,H,N], v [B,S,H,P], gate [B,S,H] or [B,S,H,N], beta [B,S,H], s0? [B,H,N,P]. */

/* s [N, P] *= exp(gate): one gate for all rows, or one per row. */
static void decay_state(const rx_call *c, const int64_t at[3], double *s)
{
    const rx_view *gate = &c->in[3];
    const int64_t n = c->in[0].dim[3], width = c->in[2].dim[3];
    for (int64_t i = 0; i < n; i++) {
        const double decay = exp(at4(gate, at[0], at[1], at[2], i));
        for (int64_t p = 0; p < width; p++)
            s[i * width + p] *= decay;
    }
}

/* Token (b, t, head): s [N, P]. */
static void delta_token(const rx_call *c, const int64_t at[3], double *s)
{
    const rx_view *q = &c->in[0], *k = &c->in[1], *v = &c->in[2], *y = rx_call_out(c, 0);
    const int64_t n = q->dim[3], width = v->dim[3];
    const double beta = at4(&c->in[4], at[0], at[1], at[2], 0);
    decay_state(c, at, s);
    for (int64_t p = 0; p < width; p++) {
        double known = 0, sum = 0;
        for (int64_t i = 0; i < n; i++)
            known += s[i * width + p] * at4(k, at[0], at[1], at[2], i);
        const double delta = (at4(v, at[0], at[1], at[2], p) - known) * beta;
        for (int64_t i = 0; i < n; i++) {
            s[i * width + p] += at4(k, at[0], at[1], at[2], i) * delta;
            sum += s[i * width + p] * at4(q, at[0], at[1], at[2], i);
        }
        const int64_t token = (at[0] * v->dim[1] + at[1]) * v->dim[2] + at[2];
        if (y)
            rx_store(y, token * width + p, sum / sqrt((double)n));
    }
}

rlx_status rx_ref_gated_delta_net(const rx_call *c)
{
    const rx_view *q = &c->in[0];
    const int64_t n = q->dim[3] * c->in[2].dim[3];
    double *s = rx_call_array(c, n + 1, sizeof *s);
    if (!s)
        return RLX_NO_MEMORY;
    for (int64_t i = 0; i < q->dim[0] * q->dim[2]; i++) {
        const int64_t at[] = {i / q->dim[2], i % q->dim[2]};
        load_state(c, 5, at, s, n);
        for (int64_t t = 0; t < q->dim[1]; t++)
            delta_token(c, (const int64_t[]){at[0], t, at[1]}, s);
        store_state(c, at, s, n);
    }
    return RLX_OK;
}
