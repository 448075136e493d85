/* SPDX-License-Identifier: MIT */
/* Spectral and selection operations: fft, ifft, rfft, irfft, stft, log_mel, welch_peaks, knn and
 * group_limited_gate. Builders, shape rules, decompositions. Complex tensors have a last axis of
 * size 2, which axis attributes do not count. */
#include <math.h>

#include "ir/infer.h"
#include "ops/lower.h"

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_fft(rlx_graph *g, rlx_value x, const rlx_fft_desc *d)
{
    return rx_graph_add(g, RX_OP_fft, &x, 1, d, NULL);
}

rlx_value rlx_ifft(rlx_graph *g, rlx_value x, const rlx_fft_desc *d)
{
    return rx_graph_add(g, RX_OP_ifft, &x, 1, d, NULL);
}

rlx_value rlx_rfft(rlx_graph *g, rlx_value x, const rlx_fft_desc *d)
{
    return rx_graph_add(g, RX_OP_rfft, &x, 1, d, NULL);
}

rlx_value rlx_irfft(rlx_graph *g, rlx_value x, const rlx_fft_desc *d)
{
    return rx_graph_add(g, RX_OP_irfft, &x, 1, d, NULL);
}

rlx_value rlx_stft(rlx_graph *g, rlx_value x, rlx_value window, const rlx_stft_desc *d)
{
    rlx_value in[] = {x, window};
    return rx_graph_add(g, RX_OP_stft, in, 2, d, NULL);
}

rlx_value rlx_log_mel(rlx_graph *g, rlx_value spectrum, rlx_value filters, bool peak_per_frame)
{
    rlx_value in[] = {spectrum, filters};
    rx_log_mel_attr d = {.peak_per_frame = peak_per_frame};
    return rx_graph_add(g, RX_OP_log_mel, in, 2, &d, NULL);
}

static rlx_value add_pair(rlx_graph *g, rx_op op, rlx_value x, const void *attr, rlx_value *second)
{
    rlx_value first = rx_graph_add(g, op, &x, 1, attr, NULL);
    if (second)
        *second = rx_result(first, 1);
    return first;
}

rlx_value rlx_welch_peaks(rlx_graph *g, rlx_value spectra, int64_t k, rlx_value *indices)
{
    return add_pair(g, RX_OP_welch_peaks, spectra, &(rx_k_attr){.k = k}, indices);
}

rlx_value rlx_knn(rlx_graph *g, rlx_value distances, int64_t k, rlx_value *indices)
{
    return add_pair(g, RX_OP_knn, distances, &(rx_k_attr){.k = k}, indices);
}

rlx_value rlx_group_limited_gate(rlx_graph *g, rlx_value scores, const rlx_gate_desc *d,
                                 rlx_value *indices)
{
    return add_pair(g, RX_OP_group_limited_gate, scores, d, indices);
}

/* ---- Shape rules: transforms ----------------------------------------------------------------- */

/* Checks operand 0 (with `complex` axes of size 2 at the end: 0 or 1) and axis, n, norm. */
static rlx_status check_fft(rx_infer *c, int complex)
{
    rlx_fft_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1 + complex, RLX_MAX_RANK - !complex));
    const rlx_shape *x = &rx_in(c, 0)->shape;
    if (complex)
        RLX_TRY(rx_check_dim(c, 0, "x", x->rank - 1, 2));
    RLX_TRY(rx_check_axis(c, &d->axis, x->rank - complex));
    if (d->n < 0)
        return rx_infer_fail(c, "n must be at least 1, or 0 for the default, got %lld",
                             (long long)d->n);
    if ((unsigned)d->norm > RLX_FFT_ORTHO)
        return rx_infer_fail(c, "norm must be backward, forward or ortho, got %d", (int)d->norm);
    return RLX_OK;
}

/* Puts the length in n when it is a number: `dflt` unless n is given. *length is the dimension. */
static rlx_status resolve_length(rx_infer *c, rlx_dim dflt, rlx_dim *length)
{
    rlx_fft_desc *d = c->attr;
    *length = d->n ? d->n : dflt;
    if (*length == 0)
        return rx_infer_fail(c, "the transform must have at least 1 point, got 0");
    if (rx_dim_is_number(*length))
        d->n = *length;
    return RLX_OK;
}

rlx_status rx_infer_fft(rx_infer *c)
{
    const rlx_fft_desc *d = c->attr;
    RLX_TRY(check_fft(c, 1));
    rlx_shape s = rx_in(c, 0)->shape;
    RLX_TRY(resolve_length(c, s.dim[d->axis], &s.dim[d->axis]));
    rx_out(c, 0, rx_in(c, 0)->dtype, &s);
    return RLX_OK;
}

rlx_status rx_infer_rfft(rx_infer *c)
{
    const rlx_fft_desc *d = c->attr;
    RLX_TRY(check_fft(c, 0));
    rlx_shape s = rx_in(c, 0)->shape;
    rlx_dim n;
    RLX_TRY(resolve_length(c, s.dim[d->axis], &n));
    s.dim[d->axis] = rlx_dim_add(c->g, rlx_dim_div(c->g, n, 2), 1);
    s.dim[s.rank++] = 2;
    rx_out(c, 0, rx_in(c, 0)->dtype, &s);
    return RLX_OK;
}

rlx_status rx_infer_irfft(rx_infer *c)
{
    const rlx_fft_desc *d = c->attr;
    RLX_TRY(check_fft(c, 1));
    rlx_shape s = rx_in(c, 0)->shape;
    const rlx_dim m = s.dim[d->axis];
    if (!d->n && rx_dim_is_number(m) && m < 2)
        return rx_infer_fail(c, "n must be given when axis %d has fewer than 2 bins, got %lld",
                             (int)d->axis, (long long)m);
    rlx_dim n = d->n ? 0 : rlx_dim_mul(c->g, rlx_dim_sub(c->g, m, 1), 2);
    RLX_TRY(resolve_length(c, n, &s.dim[d->axis]));
    s.rank--;
    rx_out(c, 0, rx_in(c, 0)->dtype, &s);
    return RLX_OK;
}

rlx_status rx_infer_stft(rx_infer *c)
{
    rlx_stft_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK - 2));
    rlx_shape s = rx_in(c, 0)->shape;
    const rlx_dim samples = s.dim[s.rank - 1];
    if (d->n < 1 || d->n > rx_dim_bound(c->g, samples))
        return rx_infer_fail(c, "n must be from 1 to %lld, the samples of x, got %lld",
                             (long long)rx_dim_bound(c->g, samples), (long long)d->n);
    if (d->hop < 0)
        return rx_infer_fail(c, "hop must be at least 1, or 0 for n / 4, got %lld",
                             (long long)d->hop);
    if (d->hop == 0)
        d->hop = d->n < 4 ? 1 : d->n / 4;
    if (rx_in(c, 1)) {
        const rlx_shape want = {.rank = 1, .dim = {d->n}};
        RLX_TRY(rx_check_same_type(c, 1, 0));
        RLX_TRY(rx_check_shape(c, 1, "window", &want));
    }
    const rlx_dim rest = rlx_dim_sub(c->g, samples, d->n);
    s.dim[s.rank - 1] = rlx_dim_add(c->g, rlx_dim_div(c->g, rest, d->hop), 1);
    s.dim[s.rank++] = d->two_sided ? d->n : d->n / 2 + 1;
    s.dim[s.rank++] = 2;
    rx_out(c, 0, rx_in(c, 0)->dtype, &s);
    return RLX_OK;
}

/* ---- Shape rules: spectra and selections ----------------------------------------------------- */

rlx_status rx_infer_log_mel(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "spectrum", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "spectrum", 3, RLX_MAX_RANK));
    RLX_TRY(rx_check_same_type(c, 1, 0));
    RLX_TRY(rx_check_rank(c, 1, "filters", 2, 2));
    rlx_shape s = rx_in(c, 0)->shape;
    RLX_TRY(rx_check_dim(c, 0, "spectrum", s.rank - 1, 2));
    RLX_TRY(rx_check_dim(c, 1, "filters", 1, s.dim[s.rank - 2]));
    s.dim[s.rank - 2] = rx_in(c, 1)->shape.dim[0];
    s.rank--;
    rx_out(c, 0, rx_in(c, 0)->dtype, &s);
    return RLX_OK;
}

static rlx_status check_k(rx_infer *c, int64_t k, int64_t most, const char *what)
{
    if (k >= 1 && k <= most)
        return RLX_OK;
    return rx_infer_fail(c, "k must be from 1 to %lld, %s, got %lld", (long long)most, what,
                         (long long)k);
}

rlx_status rx_infer_welch_peaks(rx_infer *c)
{
    const rx_k_attr *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "spectra", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "spectra", 3, RLX_MAX_RANK));
    rlx_shape s = rx_in(c, 0)->shape;
    const rlx_dim bins = s.dim[s.rank - 2];
    RLX_TRY(rx_check_dim(c, 0, "spectra", s.rank - 1, 2));
    if (!rx_dim_is_number(bins))
        return rx_infer_fail(c, "spectra: axis %d (bins) must have a fixed size", s.rank - 2);
    RLX_TRY(check_k(c, d->k, bins, "the number of bins"));
    s.rank -= 2;
    s.dim[s.rank - 1] = d->k;
    rx_out(c, 0, rx_in(c, 0)->dtype, &s);
    rx_out(c, 1, RLX_I32, &s);
    return RLX_OK;
}

rlx_status rx_infer_knn(rx_infer *c)
{
    const rx_k_attr *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "distances", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "distances", 2, 2));
    rlx_shape s = rx_in(c, 0)->shape;
    RLX_TRY(rx_check_dim(c, 0, "distances", 1, s.dim[0]));
    RLX_TRY(check_k(c, d->k, rx_dim_bound(c->g, s.dim[0]) - 1, "the number of other points"));
    s.dim[1] = d->k;
    rx_out(c, 0, rx_in(c, 0)->dtype, &s);
    rx_out(c, 1, RLX_I32, &s);
    return RLX_OK;
}

rlx_status rx_infer_group_limited_gate(rx_infer *c)
{
    rlx_gate_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "scores", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "scores", 2, 2));
    rlx_shape s = rx_in(c, 0)->shape;
    const rlx_dim experts = s.dim[1];
    if (!rx_dim_is_number(experts))
        return rx_infer_fail(c, "scores: axis 1 (experts) must have a fixed size");
    d->groups = d->groups ? d->groups : 1;
    d->keep_groups = d->keep_groups ? d->keep_groups : d->groups;
    d->scale = d->scale != 0 ? d->scale : 1;
    if (d->groups < 1 || d->groups > experts || experts % d->groups)
        return rx_infer_fail(c, "groups must divide the %lld experts, got %lld",
                             (long long)experts, (long long)d->groups);
    if (d->keep_groups < 1 || d->keep_groups > d->groups)
        return rx_infer_fail(c, "keep_groups must be from 1 to the %lld groups, got %lld",
                             (long long)d->groups, (long long)d->keep_groups);
    if (!isfinite(d->scale))
        return rx_infer_fail(c, "scale must be finite, got %g", d->scale);
    RLX_TRY(check_k(c, d->k, experts / d->groups * d->keep_groups, "the experts of kept groups"));
    s.dim[1] = d->k;
    rx_out(c, 0, rx_in(c, 0)->dtype, &s);
    rx_out(c, 1, RLX_I32, &s);
    return RLX_OK;
}

/* ---- Decompositions -------------------------------------------------------------------------- */

static rlx_value widen(rlx_graph *g, rlx_value x)
{
    return rx_as_type(g, x, rx_working_type(rlx_value_dtype(g, x)));
}

static rlx_value narrow_to(rlx_graph *g, rlx_value x, rlx_dtype t)
{
    return rx_as_type(g, x, t);
}

/* Sample indices of each frame, [frames, n]: hop * i + j. */
static rlx_value frame_places(rlx_graph *g, rlx_dim frames, int64_t samples, const rlx_stft_desc *d)
{
    const rlx_dtype t = samples > INT32_MAX ? RLX_I64 : RLX_I32;
    const rlx_range_desc frame = {RLX_INIT(rlx_range_desc), .step = (double)d->hop, .n = frames,
                                  .out = t};
    const rlx_range_desc sample = {RLX_INIT(rlx_range_desc), .n = d->n, .out = t};
    return rlx_add(g, rlx_unsqueeze(g, rlx_range(g, &frame), 1), rlx_range(g, &sample));
}

/* Frames are gathered, multiplied by the window and transformed; two-sided spectra as complex
 * numbers with imaginary part 0. */
rlx_status rx_lower_stft(rx_lower *c)
{
    rlx_graph *g = c->g;
    const rlx_stft_desc *d = c->attr;
    const rlx_dtype t = rlx_value_dtype(g, c->in[0]);
    const rlx_shape x = rlx_value_shape(g, c->in[0]);
    const rlx_dim samples = x.dim[x.rank - 1], rest = rlx_dim_sub(g, samples, d->n);
    const rlx_dim frames = rlx_dim_add(g, rlx_dim_div(g, rest, d->hop), 1);

    rlx_value places = frame_places(g, frames, rx_dim_bound(g, samples), d);
    rlx_value y = rlx_gather(g, widen(g, c->in[0]), places, -1);
    if (c->node->n_in > 1 && c->in[1].id)
        y = rlx_mul(g, y, widen(g, c->in[1]));
    if (d->two_sided) {
        int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
        after[x.rank + 1] = 1;
        y = rlx_pad(g, rlx_unsqueeze(g, y, -1), before, after, RLX_PAD_CONSTANT, 0);
        y = rlx_fft(g, y, &(rlx_fft_desc){RLX_INIT(rlx_fft_desc), .axis = -1});
    } else {
        y = rlx_rfft(g, y, &(rlx_fft_desc){RLX_INIT(rlx_fft_desc), .axis = -1});
    }
    c->out[0] = narrow_to(g, y, t);
    return RLX_OK;
}

/* re^2 + im^2 of complex numbers, in f32. */
static rlx_value power_of(rlx_graph *g, rlx_value x)
{
    const int64_t last = -1;
    x = widen(g, x);
    return rlx_reduce(g, RLX_REDUCE_SUM, rlx_mul(g, x, x), &last, 1, false);
}

static rlx_value f32_scalar(rlx_graph *g, double v)
{
    return rlx_scalar(g, RLX_F32, v);
}

/* log10(filters (re^2 + im^2)). Frames beyond 2^50, whose powers could overflow, are scaled by
 * 2^-66, which is undone after the logarithm. */
static rlx_value log_of_mels(rlx_graph *g, rlx_value x, rlx_value filters)
{
    const int64_t axes[] = {-1, -2};
    const rlx_matmul_desc transposed = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    rlx_value largest = rlx_reduce(g, RLX_REDUCE_MAX, rlx_abs(g, x), axes, 2, true);
    rlx_value beyond = rlx_gt(g, largest, f32_scalar(g, 0x1p50));
    x = rlx_mul(g, x, rlx_where(g, beyond, f32_scalar(g, 0x1p-66), f32_scalar(g, 1)));
    rlx_value y = rlx_matmul_ex(g, power_of(g, x), filters, RLX_NONE, RLX_NONE, &transposed);
    y = rlx_log(g, rlx_max(g, y, f32_scalar(g, 0)));
    y = rlx_mul(g, y, f32_scalar(g, 0.43429448190325182765)); /* 1 / ln(10) */
    rlx_value back = rlx_where(g, beyond, f32_scalar(g, 132 * 0.30102999566398119521),
                               f32_scalar(g, 0));
    return rlx_add(g, y, rlx_squeeze(g, back, -1));
}

rlx_status rx_lower_log_mel(rx_lower *c)
{
    rlx_graph *g = c->g;
    const rx_log_mel_attr *d = c->attr;
    const rlx_dtype t = rlx_value_dtype(g, c->in[0]);
    const int64_t axes[] = {-1, -2};
    rlx_value y = log_of_mels(g, widen(g, c->in[0]), widen(g, c->in[1]));
    y = rlx_max(g, y, f32_scalar(g, -10));
    rlx_value peak = rlx_reduce(g, RLX_REDUCE_MAX, y, axes, d->peak_per_frame ? 1 : 2, true);
    y = rlx_max(g, y, rlx_sub(g, peak, f32_scalar(g, 8)));
    y = rlx_mul(g, rlx_add(g, y, f32_scalar(g, 4)), f32_scalar(g, 0.25));
    c->out[0] = narrow_to(g, y, t);
    return RLX_OK;
}

/* Weights of one-sided powers: 1 for the first and last bin, 2 for those between. */
static rlx_value one_sided_weights(rlx_graph *g, int64_t bins)
{
    rlx_value bin = rlx_range(g, &(rlx_range_desc){RLX_INIT(rlx_range_desc), .n = bins,
                                                   .out = RLX_I32});
    rlx_value inside = rlx_and(g, rlx_gt(g, bin, rlx_scalar(g, RLX_I32, 0)),
                               rlx_lt(g, bin, rlx_scalar(g, RLX_I32, (double)(bins - 1))));
    return rlx_where(g, inside, f32_scalar(g, 2), f32_scalar(g, 1));
}

rlx_status rx_lower_welch_peaks(rx_lower *c)
{
    rlx_graph *g = c->g;
    const rx_k_attr *d = c->attr;
    const rlx_shape x = rlx_value_shape(g, c->in[0]);
    const int64_t segments = -2;
    rlx_value p = rlx_reduce(g, RLX_REDUCE_MEAN, power_of(g, c->in[0]), &segments, 1, false);
    p = rlx_mul(g, p, one_sided_weights(g, x.dim[x.rank - 2]));
    const rlx_topk_desc k = {RLX_INIT(rlx_topk_desc), .k = d->k, .axis = -1, .out = RLX_I32};
    p = rlx_top_k(g, p, &k, &c->out[1]);
    c->out[0] = narrow_to(g, p, rlx_value_dtype(g, c->in[0]));
    return RLX_OK;
}
