/* SPDX-License-Identifier: MIT */
/* Fourier transforms of ONNX: real signals have a last axis of 1, complex ones of 2. */
#include "import/onnx_build.h"
#include "ir/graph.h"

/* A real signal as a complex one. */
static rlx_value with_zeros(rx_onnx_call *c, rlx_value x)
{
    const int rank = rx_onnx_rank(c, x);
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
    after[rank - 1] = 1;
    return rlx_pad(c->g, x, before, after, RLX_PAD_CONSTANT, 0);
}

static rlx_value transform(rx_onnx_call *c, rlx_value x, int64_t axis, int64_t n)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    const bool inverse = rx_onnx_int(c, "inverse", 0), one_sided = rx_onnx_int(c, "onesided", 0);
    const bool real = s.dim[s.rank - 1] == 1;
    const rlx_fft_desc d = {RLX_INIT(rlx_fft_desc), .axis = axis, .n = n};
    if (one_sided && inverse)
        return rlx_unsqueeze(c->g, rlx_irfft(c->g, real ? with_zeros(c, x) : x, &d), s.rank - 1);
    if (one_sided && real)
        return rlx_rfft(c->g, rlx_squeeze(c->g, x, s.rank - 1), &d);
    const rlx_value z = real ? with_zeros(c, x) : x;
    const rlx_value y = inverse ? rlx_ifft(c->g, z, &d) : rlx_fft(c->g, z, &d);
    const rlx_dim whole = rlx_value_shape(c->g, y).dim[axis];
    return one_sided && whole >= 0 ? rlx_narrow(c->g, y, axis, 0, whole / 2 + 1) : y;
}

/* The axis is an attribute up to opset 19, an operand since. */
rlx_value rx_onnx_dft(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const int rank = rx_onnx_rank(c, x);
    rlx_ints axis = {1, {c->opset < 20 ? rx_onnx_int(c, "axis", 1) : -2}}, n = {1, {0}};
    if (rx_onnx_in(c, 2).id && !rx_onnx_known_ints(c, 2, "axis", &axis))
        return RLX_NONE;
    if (rx_onnx_in(c, 1).id && !rx_onnx_known_ints(c, 1, "dft_length", &n))
        return RLX_NONE;
    const int at = rx_onnx_axis(c, axis.v[0], rank);
    return at < 0 ? RLX_NONE : transform(c, x, at, n.v[0]);
}

/* signal [B, T, 1], frame_step, window?, frame_length? -> [B, frames, bins, 2] */
rlx_value rx_onnx_stft(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), window = rx_onnx_in(c, 2);
    const rlx_shape s = rlx_value_shape(c->g, x);
    rlx_ints hop, n = {1, {0}};
    if (!rx_onnx_known_ints(c, 1, "frame_step", &hop) ||
        (rx_onnx_in(c, 3).id && !rx_onnx_known_ints(c, 3, "frame_length", &n)))
        return RLX_NONE;
    if (!n.v[0] && window.id)
        n.v[0] = rlx_value_shape(c->g, window).dim[0];
    if (s.rank == 3 && s.dim[2] != 1)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "a complex signal; expected a real one");
    const rlx_stft_desc d = {RLX_INIT(rlx_stft_desc), .n = n.v[0], .hop = hop.v[0],
                             .two_sided = !rx_onnx_int(c, "onesided", 1)};
    return rlx_stft(c->g, s.rank == 3 ? rlx_squeeze(c->g, x, 2) : x, window, &d);
}
