/* SPDX-License-Identifier: MIT */
/* Reference kernels of spectra and selections: log_mel, welch_peaks, knn, group_limited_gate. */
#include <math.h>

#include "cpu/ref/order.h"

/* |X|^2 of the complex number at offset o, whose imaginary part is `im` elements further. */
static double power_at(const rx_view *x, int64_t o, int64_t im)
{
    const double re = rx_load(x, o), i = rx_load(x, o + im);
    return re * re + i * i;
}

/* The larger one; NaN when either is NaN. */
static double larger(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

/* ---- log_mel --------------------------------------------------------------------------------- */

/* log10(max(filters . power, 1e-10)) of one frame from offset `from`, into y[mels]. */
static void frame_log_mel(const rx_call *c, int64_t from, double *power, double *y)
{
    const rx_view *x = &c->in[0], *filters = &c->in[1];
    const int64_t mels = filters->dim[0], bins = filters->dim[1];
    for (int64_t b = 0; b < bins; b++)
        power[b] = power_at(x, from + b * x->stride[x->rank - 2], x->stride[x->rank - 1]);
    for (int64_t m = 0; m < mels; m++) {
        double sum = 0;
        for (int64_t b = 0; b < bins; b++)
            sum += rx_load(filters, m * filters->stride[0] + b * filters->stride[1]) * power[b];
        y[m] = log10(larger(sum, 1e-10));
    }
}

/* Clamps v[0..n-1] to its peak - 8 and stores (v + 4) / 4 from element `to` on. */
static void store_scaled(const rx_view *y, int64_t to, const double *v, int64_t n)
{
    double peak = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        peak = larger(v[i], peak);
    for (int64_t i = 0; i < n; i++)
        rx_store(y, to + i, (larger(v[i], peak - 8) + 4) / 4);
}

rlx_status rx_ref_log_mel(const rx_call *c)
{
    const rx_log_mel_attr *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    if (!rx_view_elements(y))
        return RLX_OK;
    const int batch_axes = y->rank - 2;
    const int64_t frames = y->dim[batch_axes], mels = y->dim[y->rank - 1];
    const int64_t bins = x->dim[x->rank - 2];
    double *power = rx_call_array(c, bins + 1, sizeof *power);
    double *v = rx_call_array(c, (uint64_t)frames * (size_t)mels, sizeof *v);
    if (!power || !v)
        return RLX_NO_MEMORY;
    int64_t at[RLX_MAX_RANK] = {0}, to = 0;
    do {
        const int64_t from = rx_offset(x, at);
        for (int64_t f = 0; f < frames; f++)
            frame_log_mel(c, from + f * x->stride[batch_axes], power, v + f * mels);
        for (int64_t f = 0; d->peak_per_frame && f < frames; f++)
            store_scaled(y, to + f * mels, v + f * mels, mels);
        if (!d->peak_per_frame)
            store_scaled(y, to, v, frames * mels);
        to += frames * mels;
    } while (rx_next(at, y->dim, batch_axes));
    return RLX_OK;
}

/* ---- welch_peaks ----------------------------------------------------------------------------- */

/* Mean power of each bin over the segments from offset `from`; those inside count twice. */
static void mean_powers(const rx_view *x, int64_t from, rx_key *keys)
{
    const int r = x->rank;
    const int64_t segments = x->dim[r - 3], bins = x->dim[r - 2];
    for (int64_t b = 0; b < bins; b++) {
        double sum = 0;
        for (int64_t s = 0; s < segments; s++)
            sum += power_at(x, from + s * x->stride[r - 3] + b * x->stride[r - 2],
                            x->stride[r - 1]);
        const bool inside = b > 0 && b < bins - 1;
        keys[b] = (rx_key){.f = sum / (double)segments * (inside ? 2 : 1), .place = b};
    }
}

rlx_status rx_ref_welch_peaks(const rx_call *c)
{
    const rx_k_attr *d = c->attr;
    const rx_view *x = &c->in[0], *powers = rx_call_out(c, 0), *places = rx_call_out(c, 1);
    const rx_view *like = powers ? powers : places;
    if (!like || !rx_view_elements(like))
        return RLX_OK;
    const int64_t bins = x->dim[x->rank - 2];
    rx_key *keys = rx_scratch_keys(c, bins);
    if (!keys)
        return RLX_NO_MEMORY;
    int64_t at[RLX_MAX_RANK] = {0}, to = 0;
    do {
        mean_powers(x, rx_offset(x, at), keys);
        rx_sort_keys(keys, keys + bins, bins, true);
        for (int64_t i = 0; i < d->k; i++, to++) {
            if (powers)
                rx_store(powers, to, keys[i].f);
            if (places)
                rx_store_int(places, to, keys[i].place);
        }
    } while (rx_next(at, x->dim, x->rank - 3));
    return RLX_OK;
}

/* ---- knn ------------------------------------------------------------------------------------- */

/* With fewer than k other points (a named axis), the rest are index -1 at distance infinity. */
rlx_status rx_ref_knn(const rx_call *c)
{
    const rx_k_attr *d = c->attr;
    const rx_view *x = &c->in[0], *distances = rx_call_out(c, 0), *places = rx_call_out(c, 1);
    const int64_t n = x->dim[0];
    rx_key *keys = rx_scratch_keys(c, n);
    if (!keys)
        return RLX_NO_MEMORY;
    for (int64_t row = 0; row < n; row++) {
        int64_t others = 0;
        for (int64_t i = 0; i < n; i++)
            if (i != row)
                keys[others++] = rx_load_key(x, row * x->stride[0] + i * x->stride[1], i);
        rx_sort_keys(keys, keys + n, others, false);
        for (int64_t i = 0; i < d->k; i++) {
            const rx_key key = i < others ? keys[i] : (rx_key){.f = INFINITY, .place = -1};
            if (distances)
                rx_store(distances, row * d->k + i, key.f);
            if (places)
                rx_store_int(places, row * d->k + i, key.place);
        }
    }
    return RLX_OK;
}

/* ---- group_limited_gate ---------------------------------------------------------------------- */

/* The sum of the two best of a group, rounded to f32: devices that add in f32 then agree on the
 * order of the groups. A group of one has its one score. */
static double group_score(const rx_view *x, int64_t row, int64_t first, int64_t size)
{
    rx_key best = {0}, second = {0};
    for (int64_t i = 0; i < size; i++) {
        const rx_key k =
            rx_load_key(x, row * x->stride[0] + (first + i) * x->stride[1], first + i);
        if (i == 0 || rx_key_before(&k, &best, true)) {
            second = best;
            best = k;
        } else if (i == 1 || rx_key_before(&k, &second, true)) {
            second = k;
        }
    }
    return size > 1 ? (double)(float)(best.f + second.f) : best.f;
}

/* Collects the scores of the experts in the best groups, in order of experts, and returns their
 * number. `keys` has room for 2 * experts. */
static int64_t kept_experts(const rx_call *c, int64_t row, rx_key *keys, bool *kept)
{
    const rlx_gate_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    const int64_t size = x->dim[1] / d->groups;
    for (int64_t g = 0; g < d->groups; g++)
        keys[g] = (rx_key){.f = group_score(x, row, g * size, size), .place = g};
    rx_sort_keys(keys, keys + d->groups, d->groups, true);
    memset(kept, 0, (size_t)d->groups * sizeof *kept);
    for (int64_t g = 0; g < d->keep_groups; g++)
        kept[keys[g].place] = true;
    int64_t n = 0;
    for (int64_t e = 0; e < x->dim[1]; e++)
        if (kept[e / size])
            keys[n++] = rx_load_key(x, row * x->stride[0] + e * x->stride[1], e);
    return n;
}

rlx_status rx_ref_group_limited_gate(const rx_call *c)
{
    const rlx_gate_desc *d = c->attr;
    const rx_view *x = &c->in[0], *weights = rx_call_out(c, 0), *places = rx_call_out(c, 1);
    const int64_t experts = x->dim[1];
    rx_key *keys = rx_scratch_keys(c, experts);
    bool *kept = rx_call_array(c, d->groups, sizeof *kept);
    if (!keys || !kept)
        return RLX_NO_MEMORY;
    for (int64_t row = 0; row < x->dim[0]; row++) {
        const int64_t n = kept_experts(c, row, keys, kept);
        rx_sort_keys(keys, keys + experts, n, true);
        double sum = 0;
        for (int64_t i = 0; i < d->k; i++)
            sum += keys[i].f;
        const double factor = d->k > 1 ? d->scale / (sum + 1e-20) : d->scale;
        for (int64_t i = 0; i < d->k; i++) {
            if (weights)
                rx_store(weights, row * d->k + i, keys[i].f * factor);
            if (places)
                rx_store_int(places, row * d->k + i, keys[i].place);
        }
    }
    return RLX_OK;
}
