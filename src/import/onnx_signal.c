/* SPDX-License-Identifier: MIT */
/* Fourier transforms of ONNX, where real signals have a last axis of 1, complex ones of 2; window
 * functions and mel filters, which become constants. */
#include <math.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

/* A real signal as complex, with zero imaginary parts. */
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

/* ---- Windows and filters --------------------------------------------------------------------- */

#define MAX_WINDOW (1 << 20)
#define TURN 6.283185307179586

/* a0 - a1 cos(x) + a2 cos(2 x) over one period. */
static rlx_value window_of(rx_onnx_call *c, double a0, double a1, double a2)
{
    rlx_ints size;
    const rx_onnx_type *t = rx_onnx_type_of(rx_onnx_int(c, "output_datatype", 1));
    if (!rx_onnx_known_ints(c, 0, "size", &size))
        return RLX_NONE;
    const int64_t n = size.n == 1 ? size.v[0] : -1;
    float *w = n >= 0 && n <= MAX_WINDOW ? rx_arena_array(&c->b->arena, (uint64_t)n + 1, 4) : NULL;
    if (!w || !t || t->dtype == RLX_NO_TYPE)
        return rx_onnx_fail(c, RLX_INVALID, "a window of %lld; expected 0 to %d, and a type that "
                            "rlx has", (long long)n, MAX_WINDOW);
    const double period = (double)(rx_onnx_int(c, "periodic", 1) ? n : n - 1);
    for (int64_t i = 0; i < n; i++) {
        const double x = TURN * (double)i / period;
        w[i] = (float)(a0 - a1 * cos(x) + a2 * cos(2 * x));
    }
    return rlx_cast(c->g, rlx_constant(c->g, RLX_F32, 1, &n, w, (size_t)n * sizeof *w), t->dtype);
}

rlx_value rx_onnx_hann(rx_onnx_call *c) { return window_of(c, 0.5, 0.5, 0); }
rlx_value rx_onnx_hamming(rx_onnx_call *c) { return window_of(c, 25.0 / 46, 21.0 / 46, 0); }
rlx_value rx_onnx_blackman(rx_onnx_call *c) { return window_of(c, 0.42, 0.5, 0.08); }

static double to_mel(double hertz) { return 2595 * log10(1 + hertz / 700); }

/* Triangles of equal width in mel: [bins of the spectrum, mels]. */
rlx_value rx_onnx_mel_matrix(rx_onnx_call *c)
{
    static const char *const names[5] = {"num_mel_bins", "dft_length", "sample_rate",
                                         "lower_edge_hertz", "upper_edge_hertz"};
    double v[5];
    size_t n;
    for (size_t i = 0; i < 5; i++)
        if (!rx_onnx_known_reals(c, i, names[i], &v[i], 1, &n))
            return RLX_NONE;
    const int64_t mels = rx_onnx_whole(v[0]), length = rx_onnx_whole(v[1]), bins = length / 2 + 1;
    const rx_onnx_type *t = rx_onnx_type_of(rx_onnx_int(c, "output_datatype", 1));
    if (mels < 1 || mels > 4096 || length < 2 || length > MAX_WINDOW || !(v[2] > 0) || !t ||
        t->dtype == RLX_NO_TYPE)
        return rx_onnx_fail(c, RLX_INVALID, "%g mels of a spectrum of %g at %g Hz", v[0], v[1],
                            v[2]);
    float *w = rx_arena_array_zero(&c->b->arena, (uint64_t)(mels * bins), sizeof *w);
    if (!w)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    const double low = to_mel(v[3]), width = (to_mel(v[4]) - low) / (double)(mels + 2);
    for (int64_t m = 0; m < mels; m++) {
        double edge[3];
        for (int k = 0; k < 3; k++) {
            const double hertz = 700 * (pow(10, ((double)(m + k) * width + low) / 2595) - 1);
            edge[k] = floor((double)(length + 1) * hertz / v[2]);
        }
        const double up = edge[1] - edge[0], down = edge[2] - edge[1];
        for (int64_t i = 0; i < bins; i++) {
            const double x = (double)i;
            double y = 0;
            if (x >= edge[1] && x < edge[2])
                y = (edge[2] - x) / down;
            if (x >= edge[0] && x <= edge[1])
                y = up == 0 ? x == edge[1] : (x - edge[0]) / up;
            w[i * mels + m] = (float)y;
        }
    }
    const rlx_dim dims[2] = {bins, mels};
    const rlx_value y = rlx_constant(c->g, RLX_F32, 2, dims, w,
                                     (size_t)(mels * bins) * sizeof *w);
    return rlx_cast(c->g, y, t->dtype);
}
