/* SPDX-License-Identifier: MIT */
/* CenterCropPad, AffineGrid, MaxUnpool, Col2Im, RoiAlign and DeformConv of ONNX. */
#include <math.h>
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

static rlx_value f32(rlx_graph *g, double v) { return rlx_scalar(g, RLX_F32, v); }

/* ---- CenterCropPad --------------------------------------------------------------------------- */

rlx_value rx_onnx_center_crop_pad(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
    rlx_ints axes, sizes;
    const bool given = rx_onnx_ints(c, "axes", &axes);
    if (!rx_onnx_known_ints(c, 1, "shape", &sizes))
        return RLX_NONE;
    for (int i = 0; i < sizes.n && i < s.rank; i++) {
        const int a = given ? rx_onnx_axis(c, i < axes.n ? axes.v[i] : s.rank, s.rank) : i;
        if (a < 0)
            return RLX_NONE;
        if (s.dim[a] < 0)
            return rx_onnx_fail(c, RLX_UNSUPPORTED, "axis %d has no fixed size", a);
        const int64_t more = sizes.v[i] - s.dim[a];
        before[a] = more / 2; /* rounded toward zero: the smaller half comes first */
        after[a] = more - before[a];
    }
    return rlx_pad(c->g, x, before, after, RLX_PAD_CONSTANT, 0);
}

/* ---- AffineGrid ------------------------------------------------------------------------------ */

/* Coordinate i of n in [-1, 1], where the ends are corners or pixel centres. */
static float coordinate(int64_t i, int64_t n, bool corners)
{
    if (corners)
        return n > 1 ? (float)(2.0 * (double)i / (double)(n - 1) - 1) : -1.0f;
    return (float)((2.0 * (double)i + 1) / (double)n - 1);
}

/* theta [N, d, d + 1] and size [N, C, (D,) H, W] -> grid [N, (D,) H, W, d], x first. */
rlx_value rx_onnx_affine_grid(rx_onnx_call *c)
{
    rlx_ints size;
    if (!rx_onnx_known_ints(c, 1, "size", &size))
        return RLX_NONE;
    const int d = size.n - 2;
    const bool corners = rx_onnx_int(c, "align_corners", 0);
    uint64_t points = 1;
    if (d < 2 || d > 3)
        return rx_onnx_fail(c, RLX_INVALID, "a size of %d numbers; expected 4 or 5", size.n);
    for (int i = 0; i < d; i++)
        if (size.v[2 + i] < 0 || !rx_mul_size(points, (uint64_t)size.v[2 + i], &points))
            return rx_onnx_fail(c, RLX_INVALID, "size %d is %lld", 2 + i,
                                (long long)size.v[2 + i]);
    float *base = points < 1 << 26 ? rx_arena_array(&c->b->arena, points + 1, 16) : NULL;
    if (!base)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "a grid of %llu points", (unsigned long long)points);
    for (uint64_t p = 0; p < points; p++) {
        uint64_t rest = p;
        for (int i = 0; i < d; i++) { /* x is the last axis */
            const int64_t n = size.v[1 + d - i];
            base[p * (uint64_t)(d + 1) + (uint64_t)i] =
                coordinate((int64_t)(rest % (uint64_t)n), n, corners);
            rest /= (uint64_t)n;
        }
        base[p * (uint64_t)(d + 1) + (uint64_t)d] = 1;
    }
    const rlx_dim dims[2] = {(rlx_dim)points, d + 1};
    const rlx_value b = rlx_constant(c->g, RLX_F32, 2, dims, base,
                                     (size_t)points * (size_t)(d + 1) * sizeof *base);
    const rlx_matmul_desc by = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    const rlx_value theta = rx_onnx_in(c, 0);
    rlx_shape to = {.rank = d + 2, .dim = {size.v[0]}};
    for (int i = 0; i < d; i++)
        to.dim[1 + i] = size.v[2 + i];
    to.dim[d + 1] = d;
    const rlx_dim wide[3] = {size.v[0], (rlx_dim)points, d + 1};
    const rlx_value all = rlx_cast(c->g, rlx_expand(c->g, b, 3, wide),
                                   rlx_value_dtype(c->g, theta));
    return rlx_reshape(c->g, rlx_matmul_ex(c->g, all, theta, RLX_NONE, RLX_NONE, &by), to.rank,
                       to.dim);
}

/* ---- MaxUnpool ------------------------------------------------------------------------------- */

/* Scatters x to the indices that MaxPool gave, zero elsewhere. Indices are flat in the smallest
 * tensor that MaxPool reduces to x; output_shape may be larger. */
rlx_value rx_onnx_max_unpool(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(g, x);
    rx_onnx_window k;
    rlx_shape to = s;
    rlx_ints want = {0};
    const rlx_dim flat = -1;
    uint64_t n = 1;
    if (!rx_shape_is_fixed(&s) || !rx_onnx_read_window(c, &s, NULL, &k) ||
        (rx_onnx_in(c, 2).id && !rx_onnx_known_ints(c, 2, "output_shape", &want)))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected an operand of fixed sizes");
    for (int i = 0; i < k.n; i++)
        to.dim[2 + i] = (s.dim[2 + i] - 1) * k.stride.v[i] + k.kernel.v[i] - k.pads.v[i] -
                        k.pads.v[k.n + i];
    for (int i = 0; i < to.rank; i++)
        if (to.dim[i] < 0 || !rx_mul_size(n, (uint64_t)to.dim[i], &n))
            return rx_onnx_fail(c, RLX_INVALID, "its result has %lld elements on axis %d",
                                (long long)to.dim[i], i);
    const rlx_dim size = (rlx_dim)n;
    const rlx_value zero = rlx_expand(g, rlx_scalar(g, rlx_value_dtype(g, x), 0), 1, &size);
    const rlx_value y = rlx_scatter_elements(g, zero, rlx_reshape(g, rx_onnx_in(c, 1), 1, &flat),
                                             rlx_reshape(g, x, 1, &flat), 0, RLX_SCATTER_NONE);
    const rlx_value whole = rlx_reshape(g, y, to.rank, to.dim);
    int64_t none[RLX_MAX_RANK] = {0}, more[RLX_MAX_RANK] = {0};
    for (int i = 0; i < to.rank && want.n == to.rank; i++)
        more[i] = want.v[i] - to.dim[i];
    return want.n == to.rank ? rlx_pad(g, whole, none, more, RLX_PAD_CONSTANT, 0) : whole;
}

/* ---- Col2Im ---------------------------------------------------------------------------------- */

typedef struct columns {
    rlx_ints image, block, dilation, pads, stride;
    int64_t steps[RLX_MAX_RANK]; /* positions of the block along each axis */
    int64_t n_image, n_block, n_steps;
} columns;

static bool read_columns(rx_onnx_call *c, columns *k)
{
    if (!rx_onnx_known_ints(c, 1, "image_shape", &k->image) ||
        !rx_onnx_known_ints(c, 2, "block_shape", &k->block))
        return false;
    const int n = k->image.n;
    const bool has_d = rx_onnx_ints(c, "dilations", &k->dilation);
    const bool has_p = rx_onnx_ints(c, "pads", &k->pads);
    const bool has_s = rx_onnx_ints(c, "strides", &k->stride);
    k->n_image = k->n_block = k->n_steps = 1;
    for (int i = 0; i < n && n <= 4; i++) {
        k->dilation.v[i] = has_d ? k->dilation.v[i] : 1;
        k->stride.v[i] = has_s ? k->stride.v[i] : 1;
        const int64_t pads = has_p ? k->pads.v[i] + k->pads.v[n + i] : 0;
        if (k->dilation.v[i] < 1 || k->stride.v[i] < 1 || k->block.v[i] < 1 ||
            k->image.v[i] < 1 || k->block.v[i] > 4096 || k->image.v[i] > 1 << 16 || pads < 0 ||
            k->dilation.v[i] > 4096 || pads > 1 << 16) {
            rx_onnx_fail(c, RLX_INVALID, "sizes of axis %d are out of range", i);
            return false;
        }
        k->steps[i] = (k->image.v[i] + pads - k->dilation.v[i] * (k->block.v[i] - 1) - 1) /
                      k->stride.v[i] + 1;
        k->n_image *= k->image.v[i];
        k->n_block *= k->block.v[i];
        k->n_steps *= k->steps[i] > 0 ? k->steps[i] : 0;
    }
    if (n < 1 || n > 4 || k->block.n != n || k->n_block * k->n_steps > 1 << 24 ||
        k->n_image > 1 << 28) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "expected 1 to 4 axes and at most 2^24 columns");
        return false;
    }
    return true;
}

/* Flat image index of element `b` of the block at position `l`; n_image: out of range. */
static int64_t column_place(const columns *k, int64_t b, int64_t l)
{
    int64_t at = 0, scale = 1;
    bool inside = true;
    for (int i = k->image.n; i--;) {
        const int64_t p = l % k->steps[i] * k->stride.v[i] +
                          b % k->block.v[i] * k->dilation.v[i] - k->pads.v[i];
        inside = inside && p >= 0 && p < k->image.v[i];
        at += p * scale;
        scale *= k->image.v[i];
        l /= k->steps[i];
        b /= k->block.v[i];
    }
    return inside ? at : k->n_image;
}

/* x [N, C * block, L] -> [N, C, image..]: overlapping elements are added. */
rlx_value rx_onnx_col2im(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(g, x);
    columns k = {0};
    if (!read_columns(c, &k))
        return RLX_NONE;
    if (s.rank != 3 || s.dim[0] < 0 || s.dim[1] < 0 || s.dim[1] % k.n_block ||
        s.dim[2] != k.n_steps)
        return rx_onnx_fail(c, RLX_INVALID, "expected [N, C * %lld, %lld]", (long long)k.n_block,
                            (long long)k.n_steps);
    const int64_t n = k.n_block * k.n_steps, rows = s.dim[0] * (s.dim[1] / k.n_block);
    int64_t *at = rx_arena_array(&c->b->arena, (uint64_t)n + 1, sizeof *at);
    if (!at)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    for (int64_t i = 0; i < n; i++)
        at[i] = column_place(&k, i / k.n_steps, i % k.n_steps);
    const rlx_dim from[2] = {rows, n}, sum[2] = {rows, k.n_image + 1};
    const rlx_value zero = rlx_expand(g, rlx_scalar(g, rlx_value_dtype(g, x), 0), 2, sum);
    const rlx_value y = rlx_scatter_add(g, zero, rx_onnx_i64s(g, at, n),
                                        rlx_reshape(g, x, 2, from), 1);
    rlx_shape to = {.rank = k.image.n + 2, .dim = {s.dim[0], s.dim[1] / k.n_block}};
    for (int i = 0; i < k.image.n; i++)
        to.dim[2 + i] = k.image.v[i];
    return rlx_reshape(g, rlx_narrow(g, y, 1, 0, k.n_image), to.rank, to.dim);
}

/* ---- Bilinear samples ------------------------------------------------------------------------ */

/* x [N, C, H, W] as rows of channels: [N * H * W, C]. */
typedef struct picture {
    rlx_value rows;
    int64_t n, channels, h, w;
} picture;

static bool open_picture(rx_onnx_call *c, rlx_value x, picture *p)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    static const int perm[RLX_MAX_RANK] = {0, 2, 3, 1};
    if (s.rank != 4 || !rx_shape_is_fixed(&s)) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "expected a tensor [N, C, H, W] of fixed sizes");
        return false;
    }
    const rlx_dim dims[2] = {s.dim[0] * s.dim[2] * s.dim[3], s.dim[1]};
    *p = (picture){rlx_reshape(c->g, rlx_transpose(c->g, x, perm), 2, dims), s.dim[0], s.dim[1],
                   s.dim[2], s.dim[3]};
    return true;
}

/* One of the four neighbours of (y, x), f32 of one shape S: its channels [S.., C] and its weight
 * [S.., 1], 0 outside when `zeros`. `first` is the row of the picture that each sample begins at,
 * i32 of a shape that broadcasts to S. */
typedef struct tap {
    rlx_value values, weight;
} tap;

static tap read_tap(rlx_graph *g, const picture *p, rlx_value first, rlx_value y, rlx_value x,
                    int corner, bool zeros)
{
    const rlx_value y0 = rlx_floor(g, y), x0 = rlx_floor(g, x), one = f32(g, 1);
    const bool low = corner < 2, left = corner % 2 == 0;
    const rlx_value fy = rlx_sub(g, y, y0), fx = rlx_sub(g, x, x0);
    rlx_value weight = rlx_mul(g, low ? rlx_sub(g, one, fy) : fy, left ? rlx_sub(g, one, fx) : fx);
    const rlx_value yy = low ? y0 : rlx_add(g, y0, one), xx = left ? x0 : rlx_add(g, x0, one);
    const rlx_value cy = rlx_clamp(g, yy, 0, (double)(p->h - 1));
    const rlx_value cx = rlx_clamp(g, xx, 0, (double)(p->w - 1));
    if (zeros) {
        const rlx_value inside = rlx_and(g, rlx_eq(g, cy, yy), rlx_eq(g, cx, xx));
        weight = rlx_where(g, inside, weight, f32(g, 0));
    }
    const rlx_value width = rlx_scalar(g, RLX_I32, (double)p->w);
    const rlx_value place = rlx_add(g, rlx_mul(g, rlx_cast(g, cy, RLX_I32), width),
                                    rlx_cast(g, cx, RLX_I32));
    const rlx_value index = rlx_add(g, place, first);
    const rlx_value w = rlx_cast(g, weight, rlx_value_dtype(g, p->rows));
    return (tap){rlx_gather(g, p->rows, index, 0), rlx_unsqueeze(g, w, -1)};
}

static rlx_value line(rlx_graph *g, int64_t n, double start, double step)
{
    const rlx_range_desc r = {RLX_INIT(rlx_range_desc), .start = start, .step = step, .n = n,
                              .out = RLX_F32};
    return rlx_range(g, &r);
}

/* ---- RoiAlign -------------------------------------------------------------------------------- */

/* Coordinates of samples along one axis: [R, n * samples]. */
static rlx_value roi_line(rx_onnx_call *c, rlx_value rois, int first, int64_t n, int64_t samples)
{
    rlx_graph *g = c->g;
    const bool half = !rx_onnx_is(c, "coordinate_transformation_mode", "output_half_pixel",
                                  c->opset < 16 ? "output_half_pixel" : "half_pixel");
    const rlx_value scale = f32(g, rx_onnx_float(c, "spatial_scale", 1));
    const rlx_value shift = f32(g, half ? 0.5 : 0);
    const rlx_value start = rlx_sub(g, rlx_mul(g, rlx_narrow(g, rois, 1, first, 1), scale), shift);
    const rlx_value end = rlx_sub(g, rlx_mul(g, rlx_narrow(g, rois, 1, first + 2, 1), scale),
                                  shift);
    rlx_value size = rlx_sub(g, end, start);
    if (!half)
        size = rlx_max(g, size, f32(g, 1));
    const rlx_value bin = rlx_div(g, size, f32(g, (double)n));
    const double part = 1 / (double)samples;
    return rlx_add(g, start, rlx_mul(g, line(g, n * samples, part / 2, part), bin));
}

/* Samples outside are clamped to the border, those more than a pixel outside count as zero. */
static rlx_value roi_clamp(rlx_graph *g, rlx_value v, int64_t size)
{
    return rlx_clamp(g, v, 0, (double)(size - 1));
}

static rlx_value roi_visible(rlx_graph *g, rlx_value v, int64_t size)
{
    return rlx_and(g, rlx_ge(g, v, f32(g, -1)), rlx_le(g, v, f32(g, (double)size)));
}

rlx_value rx_onnx_roi_align(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value rois = rlx_cast(g, rx_onnx_in(c, 1), RLX_F32);
    const rlx_shape sr = rlx_value_shape(g, rois);
    const int64_t h = rx_onnx_int(c, "output_height", 1), w = rx_onnx_int(c, "output_width", 1);
    const int64_t samples = rx_onnx_int(c, "sampling_ratio", 0);
    const bool average = rx_onnx_is(c, "mode", "avg", "avg");
    picture p;
    if (!open_picture(c, rx_onnx_in(c, 0), &p))
        return RLX_NONE;
    if (samples < 1 || samples > 64 || h < 1 || w < 1 || h > 4096 || w > 4096 || sr.rank != 2)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "a sampling_ratio of %lld; expected 1 to 64",
                            (long long)samples);
    const rlx_value y = rlx_unsqueeze(g, roi_line(c, rois, 1, h, samples), 2);
    const rlx_value x = rlx_unsqueeze(g, roi_line(c, rois, 0, w, samples), 1);
    const rlx_value seen = rlx_and(g, roi_visible(g, y, p.h), roi_visible(g, x, p.w));
    const rlx_dim dims[3] = {-1, 1, 1}, all[3] = {sr.dim[0], h * samples, w * samples};
    const rlx_value batch = rlx_cast(g, rlx_reshape(g, rx_onnx_in(c, 2), 3, dims), RLX_I32);
    const rlx_value first = rlx_mul(g, batch, rlx_scalar(g, RLX_I32, (double)(p.h * p.w)));
    const rlx_value cy = rlx_expand(g, roi_clamp(g, y, p.h), 3, all);
    const rlx_value cx = rlx_expand(g, roi_clamp(g, x, p.w), 3, all);
    const rlx_value on = rlx_unsqueeze(g, rlx_cast(g, seen, rlx_value_dtype(g, p.rows)), -1);
    rlx_value sum = RLX_NONE;
    for (int i = 0; i < 4; i++) {
        const tap t = read_tap(g, &p, first, cy, cx, i, false);
        const rlx_value v = rlx_mul(g, rlx_mul(g, t.values, t.weight), on);
        sum = !sum.id ? v : average ? rlx_add(g, sum, v) : rlx_max(g, sum, v);
    }
    const rlx_dim bins[6] = {sr.dim[0], h, samples, w, samples, p.channels};
    const int64_t axes[2] = {2, 4};
    static const int perm[RLX_MAX_RANK] = {0, 3, 1, 2};
    const rlx_value r = rlx_reduce(g, average ? RLX_REDUCE_MEAN : RLX_REDUCE_MAX,
                                   rlx_reshape(g, sum, 6, bins), axes, 2, false);
    return rlx_transpose(g, r, perm);
}

/* ---- DeformConv ------------------------------------------------------------------------------ */

typedef struct deformed {
    picture p;
    rx_onnx_window k;
    rlx_value offset, mask; /* [N, OG, taps, 2, OH, OW], [N, OG, taps, OH, OW] or RLX_NONE */
    int64_t groups, taps, oh, ow;
} deformed;

/* Samples under tap `t` of the kernel: [N, OH, OW, C]. */
static rlx_value deformed_tap(rlx_graph *g, const deformed *d, int64_t t)
{
    const picture *p = &d->p;
    const rlx_dim n = p->n, oh = d->oh, ow = d->ow;
    const int64_t row = t / d->k.kernel.v[1], column = t % d->k.kernel.v[1];
    const rlx_dim tall[2] = {oh, 1}, batches[4] = {n, 1, 1, 1}, whole[4] = {n, d->groups, oh, ow};
    const rlx_value y0 = rlx_reshape(
        g, line(g, oh, (double)(row * d->k.dilation.v[0] - d->k.pads.v[0]),
                (double)d->k.stride.v[0]), 2, tall);
    const rlx_value x0 = line(g, ow, (double)(column * d->k.dilation.v[1] - d->k.pads.v[1]),
                              (double)d->k.stride.v[1]);
    const rlx_value here = rlx_cast(g, rlx_squeeze(g, rlx_narrow(g, d->offset, 2, t, 1), 2),
                                    RLX_F32);
    const rlx_value dy = rlx_reshape(g, rlx_narrow(g, here, 2, 0, 1), 4, whole);
    const rlx_value dx = rlx_reshape(g, rlx_narrow(g, here, 2, 1, 1), 4, whole);
    const rlx_value y = rlx_add(g, dy, y0), x = rlx_add(g, dx, x0);
    const rlx_range_desc r = {RLX_INIT(rlx_range_desc), .step = (double)(p->h * p->w), .n = n,
                              .out = RLX_I32};
    const rlx_value first = rlx_reshape(g, rlx_range(g, &r), 4, batches);
    const int64_t each = p->channels / d->groups;
    rlx_value parts[RLX_MAX_INTS];
    for (int64_t i = 0; i < d->groups; i++) {
        const picture part = {rlx_narrow(g, p->rows, 1, i * each, each), n, each, p->h, p->w};
        rlx_value sum = RLX_NONE;
        for (int corner = 0; corner < 4; corner++) {
            const tap v = read_tap(g, &part, first, rlx_narrow(g, y, 1, i, 1),
                                   rlx_narrow(g, x, 1, i, 1), corner, true);
            const rlx_value one = rlx_mul(g, v.values, v.weight);
            sum = sum.id ? rlx_add(g, sum, one) : one;
        }
        const rlx_dim to[4] = {n, oh, ow, each}, m[4] = {n, oh, ow, 1};
        parts[i] = rlx_reshape(g, sum, 4, to);
        if (d->mask.id)
            parts[i] = rlx_mul(g, parts[i], rlx_reshape(g, rlx_narrow(g, rlx_narrow(
                               g, d->mask, 1, i, 1), 2, t, 1), 4, m));
    }
    return rlx_concat(g, parts, (size_t)d->groups, 3);
}

static bool read_deformed(rx_onnx_call *c, deformed *d)
{
    rlx_graph *g = c->g;
    const rlx_value x = rx_onnx_in(c, 0), offset = rx_onnx_in(c, 2), mask = rx_onnx_in(c, 4);
    const rlx_shape sx = rlx_value_shape(g, x), sw = rlx_value_shape(g, rx_onnx_in(c, 1));
    const rlx_shape so = rlx_value_shape(g, offset);
    *d = (deformed){.groups = rx_onnx_int(c, "offset_group", 1)};
    if (!open_picture(c, x, &d->p) || !rx_onnx_read_window(c, &sx, sw.dim + 2, &d->k))
        return false;
    d->taps = d->k.kernel.v[0] * d->k.kernel.v[1];
    if (so.rank != 4 || !rx_shape_is_fixed(&so) || d->groups < 1 || d->groups > RLX_MAX_INTS ||
        d->p.channels % d->groups || d->taps < 1 || d->taps > 256 ||
        so.dim[1] != d->groups * d->taps * 2) {
        rx_onnx_fail(c, RLX_INVALID, "offsets do not fit the kernel and the groups");
        return false;
    }
    d->oh = so.dim[2];
    d->ow = so.dim[3];
    const rlx_dim dims[6] = {d->p.n, d->groups, d->taps, 2, d->oh, d->ow};
    const rlx_dim m[5] = {d->p.n, d->groups, d->taps, d->oh, d->ow};
    d->offset = rlx_reshape(g, offset, 6, dims);
    d->mask = mask.id ? rlx_reshape(g, mask, 5, m) : RLX_NONE;
    return true;
}

rlx_value rx_onnx_deform_conv(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value w = rx_onnx_in(c, 1);
    const rlx_shape sw = rlx_value_shape(g, w);
    rlx_value seen[256];
    deformed d;
    if (sw.rank != 4 || !rx_shape_is_fixed(&sw))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected weights [O, C, kh, kw]");
    if (!read_deformed(c, &d))
        return RLX_NONE;
    for (int64_t t = 0; t < d.taps; t++)
        seen[t] = rlx_unsqueeze(g, deformed_tap(g, &d, t), 3);
    /* [N, OH, OW, taps, C] as an image with one window per pixel, convolved with the kernel. */
    static const int perm[RLX_MAX_RANK] = {0, 4, 3, 1, 2};
    const rlx_value all = rlx_transpose(g, rlx_concat(g, seen, (size_t)d.taps, 3), perm);
    const rlx_dim as[4] = {d.p.n, d.p.channels, d.taps, d.oh * d.ow};
    const rlx_dim kernel[4] = {sw.dim[0], sw.dim[1], d.taps, 1};
    const rlx_dim to[4] = {d.p.n, sw.dim[0], d.oh, d.ow};
    const rlx_conv_desc by = {RLX_INIT(rlx_conv_desc), .groups = rx_onnx_int(c, "group", 1)};
    const rlx_value y = rlx_conv2d(g, rlx_reshape(g, all, 4, as), rlx_reshape(g, w, 4, kernel),
                                   rx_onnx_in(c, 3), &by);
    return rlx_reshape(g, y, 4, to);
}
