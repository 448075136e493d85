/* SPDX-License-Identifier: MIT */
/* Derivatives of Fourier transforms and of group_limited_gate. The adjoint of a transform is the
 * opposite one with the factor on the other side: norm=backward becomes forward and the reverse. */
#include "ops/grad.h"
#include "ops/lower.h"

/* The transform with the opposite factor, over n points. */
static rlx_fft_desc adjoint(const rx_grad *c)
{
    rlx_fft_desc d = *(const rlx_fft_desc *)c->attr;
    d.struct_size = sizeof d;
    d.norm = d.norm == RLX_FFT_ORTHO ? RLX_FFT_ORTHO
             : d.norm == RLX_FFT_FORWARD ? RLX_FFT_BACKWARD : RLX_FFT_FORWARD;
    return d;
}

/* v cut or padded with zeros to the size of operand 0 on the axis of the transform. */
static rlx_value fit(const rx_grad *c, rlx_value v, int64_t axis)
{
    const rlx_dim want = rlx_value_shape(c->g, c->in[0]).dim[axis];
    const rlx_dim have = rlx_value_shape(c->g, v).dim[axis];
    if (want == have)
        return v;
    if (want < have)
        return rlx_narrow(c->g, v, axis, 0, want);
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
    after[axis] = want - have;
    return rlx_pad(c->g, v, before, after, RLX_PAD_CONSTANT, 0);
}

static rlx_status check_length(const rx_grad *c)
{
    const rlx_fft_desc *d = c->attr;
    const rlx_dim n = rlx_value_shape(c->g, c->in[0]).dim[d->axis];
    if (d->n > 0 && rx_dim_is_number(n))
        return RLX_OK;
    return rx_grad_refuse(c, "has no derivative where its length is named");
}

rlx_status rx_grad_fft(rx_grad *c)
{
    const rlx_fft_desc d = adjoint(c);
    RLX_TRY(check_length(c));
    const rlx_value v = c->node->op == RX_OP_fft ? rlx_ifft(c->g, c->dy[0], &d)
                                                 : rlx_fft(c->g, c->dy[0], &d);
    c->dx[0] = fit(c, v, d.axis);
    return RLX_OK;
}

/* The real part of the inverse transform of dy, which has zeros for the bins that are left out. */
rlx_status rx_grad_rfft(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_fft_desc d = adjoint(c);
    RLX_TRY(check_length(c));
    const rlx_value v = rlx_ifft(g, c->dy[0], &d);
    c->dx[0] = fit(c, rlx_squeeze(g, rlx_narrow(g, v, -1, 0, 1), -1), d.axis);
    return RLX_OK;
}

/* The transform of dy; bins with a mirrored twin count twice. */
rlx_status rx_grad_irfft(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_fft_desc d = adjoint(c);
    RLX_TRY(check_length(c));
    rlx_value v = rlx_rfft(g, c->dy[0], &d);
    const rlx_shape s = rlx_value_shape(g, v);
    const rlx_dim bins = s.dim[d.axis];
    const rlx_value bin = rx_grad_iota(g, bins, (int)d.axis, s.rank);
    rlx_value twice = rlx_gt(g, bin, rlx_scalar(g, RLX_I32, 0));
    if (d.n % 2 == 0)
        twice = rlx_and(g, twice, rlx_lt(g, bin, rlx_scalar(g, RLX_I32, (double)(bins - 1))));
    const rlx_dtype t = rlx_value_dtype(g, v);
    v = rlx_mul(g, v, rlx_where(g, twice, rlx_scalar(g, t, 2), rlx_scalar(g, t, 1)));
    c->dx[0] = fit(c, v, d.axis);
    return RLX_OK;
}

/* The chosen scores over their sum; the choice itself has no derivative. */
rlx_status rx_grad_group_limited_gate(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_gate_desc *d = c->attr;
    const int64_t last = -1;
    const rlx_value x = rx_widen_half(g, c->in[0]);
    rlx_value y = rlx_gather_elements(g, x, rx_result(c->y, 1), 1);
    if (d->k > 1) {
        const rlx_value sum = rlx_reduce(g, RLX_REDUCE_SUM, y, &last, 1, true);
        y = rlx_div(g, y, rlx_add(g, sum, rx_number_like(g, sum, 1e-20)));
    }
    c->via[0] = rx_as_type(g, rx_grad_scale(g, y, d->scale), rlx_value_dtype(g, c->y));
    return RLX_OK;
}
