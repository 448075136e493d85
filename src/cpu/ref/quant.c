/* SPDX-License-Identifier: MIT */
/* Reference kernels of quantize, dequantize and dequant_moe_weights. */
#include "cpu/ref/ref.h"

#include <math.h>

/* Offset in the scales (or zeros) of an element: per tensor, per channel or per block. */
static int64_t scale_offset(const rx_view *s, const rlx_quant_desc *d, const int64_t *at)
{
    if (s->rank == 0)
        return 0;
    if (!d->block)
        return at[d->axis] * s->stride[0];
    int64_t o = 0;
    for (int i = 0; i < s->rank; i++)
        o += (i == d->axis ? at[i] / d->block : at[i]) * s->stride[i];
    return o;
}

/* The quotient is rounded to f32, as on every device; all after it is exact. */
rlx_status rx_ref_quantize(const rx_call *c)
{
    const rlx_quant_desc *d = c->attr;
    const rx_view *x = &c->in[0], *scale = &c->in[1], *zero = rx_call_in(c, 2), *out = &c->out[0];
    int64_t n = rx_view_elements(out), at[RLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++, rx_next(at, out->dim, out->rank)) {
        float s = (float)rx_load(scale, scale_offset(scale, d, at));
        float q = rintf((float)rx_load(x, rx_offset(x, at)) / s);
        int64_t z = zero ? rx_load_int(zero, scale_offset(zero, d, at)) : 0;
        rx_store(out, i, (double)q + (double)z);
    }
    return RLX_OK;
}

static rlx_status decode_packed(const rx_call *c)
{
    const rx_view *x = &c->in[0], *out = &c->out[0];
    int64_t k = x->dim[x->rank - 1], n_rows = k ? rx_view_elements(out) / k : 0;
    double *row = rx_call_array(c, k ? k : 1, sizeof *row);
    if (!row)
        return RLX_NO_MEMORY;
    for (int64_t r = 0; r < n_rows; r++) {
        rx_load_row(x, r, row);
        for (int64_t i = 0; i < k; i++)
            rx_store(out, r * k + i, row[i]);
    }
    return RLX_OK;
}

rlx_status rx_ref_dequantize(const rx_call *c)
{
    const rlx_quant_desc *d = c->attr;
    const rx_view *x = &c->in[0], *scale = rx_call_in(c, 1), *zero = rx_call_in(c, 2);
    const rx_view *out = &c->out[0];
    if (!scale)
        return decode_packed(c);
    int64_t n = rx_view_elements(out), at[RLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++, rx_next(at, out->dim, out->rank)) {
        int64_t z = zero ? rx_load_int(zero, scale_offset(zero, d, at)) : 0;
        int64_t q = rx_load_int(x, rx_offset(x, at)) - z;
        rx_store(out, i, (double)q * rx_load(scale, scale_offset(scale, d, at)));
    }
    return RLX_OK;
}

rlx_status rx_ref_dequant_moe(const rx_call *c)
{
    const rx_view *w = &c->in[0], *ids = &c->in[1], *out = &c->out[0];
    int64_t m = out->dim[0], n_rows = out->dim[1], k = out->dim[2], n_experts = w->dim[0];
    double *row = rx_call_array(c, k ? k : 1, sizeof *row);
    if (!row)
        return RLX_NO_MEMORY;
    for (int64_t r = 0; r < m * n_rows; r++) {
        int64_t expert = rx_load_index(c, ids, r / n_rows * ids->stride[0], n_experts);
        /* A bank bound to 0 experts has no rows to read. */
        if (n_experts == 0)
            memset(row, 0, (size_t)k * sizeof *row);
        else
            rx_load_row(w, expert * n_rows + r % n_rows, row);
        for (int64_t i = 0; i < k; i++)
            rx_store(out, r * k + i, row[i]);
    }
    return RLX_OK;
}
