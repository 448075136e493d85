/* SPDX-License-Identifier: MIT */
/* Resampling operators of ONNX: Resize, Upsample, GridSample. */
#include <math.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

/* ---- Resize ---------------------------------------------------------------------------------- */

static int find_word(const rx_onnx_call *c, const char *name, const char *const *words, int n,
                     const char *absent)
{
    for (int i = 0; i < n; i++)
        if (rx_onnx_is(c, name, words[i], absent))
            return i;
    return -1;
}

static bool read_modes(rx_onnx_call *c, rlx_resize_desc *d)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coords[] = {"half_pixel", "half_pixel_symmetric",
                                         "pytorch_half_pixel", "align_corners", "asymmetric",
                                         "tf_crop_and_resize"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
    const bool old = c->opset < 11;
    const bool half = rx_onnx_is(c, "coordinate_transformation_mode", "tf_half_pixel_for_nn", "");
    const int mode = find_word(c, "mode", modes, 3, "nearest");
    const int coord = half && mode == 0 ? (int)RLX_COORD_ASYMMETRIC /* gather_nearest */
                      : find_word(c, "coordinate_transformation_mode", coords, 6,
                                  old ? "asymmetric" : "half_pixel");
    const int near = find_word(c, "nearest_mode", nearest, 4, old ? "floor"
                                                                  : "round_prefer_floor");
    if (mode < 0 || coord < 0 || near < 0) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "a mode that rlx does not know");
        return false;
    }
    d->mode = (rlx_resize_mode)mode;
    d->coord = (rlx_coord_mode)coord;
    d->nearest = (rlx_nearest_mode)near;
    d->cubic_a = rx_onnx_float(c, "cubic_coeff_a", -0.75);
    d->exclude_outside = rx_onnx_int(c, "exclude_outside", 0);
    d->antialias = rx_onnx_int(c, "antialias", 0);
    d->extrapolation = rx_onnx_float(c, "extrapolation_value", 0);
    if (d->mode != RLX_RESIZE_CUBIC)
        d->cubic_a = 0;
    if (d->mode != RLX_RESIZE_NEAREST)
        d->nearest = RLX_NEAREST_ROUND_PREFER_FLOOR;
    return true;
}

/* keep_aspect_ratio_policy: one scale for all axes, so that the result is not larger (or not
 * smaller) than the sizes. */
static void keep_aspect(const rx_onnx_call *c, const rlx_shape *s, const int *axes, int n,
                        rlx_resize_desc *d)
{
    const bool smaller = rx_onnx_is(c, "keep_aspect_ratio_policy", "not_larger", "stretch");
    const bool larger = rx_onnx_is(c, "keep_aspect_ratio_policy", "not_smaller", "stretch");
    double factor = smaller ? INFINITY : 0;
    if (!smaller && !larger)
        return;
    for (int i = 0; i < n; i++) {
        const double f = (double)d->sizes.v[axes[i]] / (double)s->dim[axes[i]];
        factor = smaller ? fmin(factor, f) : fmax(factor, f);
    }
    for (int i = 0; i < n; i++) {
        d->sizes.v[axes[i]] = rx_onnx_whole(factor * (double)s->dim[axes[i]] + 0.5);
        d->scale[axes[i]] = factor;
    }
}

/* The size of a scaled axis: scales are f32 and so is their product with the size, as in ONNX
 * Runtime: 10 * 1.3 is 13, not 12.99. */
static int64_t scaled_size(rlx_dim size, double scale)
{
    return rx_onnx_whole((double)((float)size * (float)scale));
}

/* align_corners with scales uses size * scale before rounding down, so coordinates become multiples
 * of a step from the first element. */
static void align_scales(const rlx_shape *s, rlx_resize_desc *d)
{
    bool whole = true;
    for (int i = 0; i < s->rank; i++)
        whole = whole && (d->scale[i] == 0 ||
                          (double)d->sizes.v[i] == (double)s->dim[i] * d->scale[i]);
    if (whole)
        return;
    d->coord = RLX_COORD_ASYMMETRIC;
    for (int i = 0; i < s->rank; i++) {
        const double size = (double)s->dim[i], to = size * d->scale[i];
        if (d->scale[i] != 0 && size > 1 && to > 1)
            d->scale[i] = (to - 1) / (size - 1);
    }
}

/* The axes that sizes and scales apply to; all without the attribute. */
static int list_axes(rx_onnx_call *c, int rank, int *axes)
{
    rlx_ints list;
    if (!rx_onnx_ints(c, "axes", &list)) {
        for (int i = 0; i < rank; i++)
            axes[i] = i;
        return rank;
    }
    for (int i = 0; i < list.n && i < RLX_MAX_RANK; i++)
        if ((axes[i] = rx_onnx_axis(c, list.v[i], rank)) < 0)
            return -1;
    return list.n < RLX_MAX_RANK ? list.n : RLX_MAX_RANK;
}

/* Operand index of each list, SIZE_MAX for none. */
typedef struct resize_operands {
    size_t roi, scales, sizes;
} resize_operands;

static bool read_sizes(rx_onnx_call *c, const rlx_shape *s, const resize_operands *in,
                       rlx_resize_desc *d)
{
    int axes[RLX_MAX_RANK];
    double list[2 * RLX_MAX_RANK];
    size_t got = 0;
    const int n = list_axes(c, s->rank, axes);
    if (n < 0 || !rx_shape_is_fixed(s))
        return false;
    d->sizes.n = s->rank;
    for (int i = 0; i < s->rank; i++)
        d->sizes.v[i] = s->dim[i];
    const rlx_value sizes = rx_onnx_in(c, in->sizes);
    const bool by_size = sizes.id && rx_onnx_elements(c, sizes) > 0;
    if (!rx_onnx_known_reals(c, by_size ? in->sizes : in->scales, by_size ? "sizes" : "scales",
                             list, RLX_MAX_RANK, &got) || got != (size_t)n)
        return false;
    for (int i = 0; i < n; i++) {
        d->scale[axes[i]] = by_size ? 0 : list[i];
        d->sizes.v[axes[i]] = by_size ? rx_onnx_whole(list[i])
                                      : scaled_size(s->dim[axes[i]], list[i]);
    }
    if (by_size)
        keep_aspect(c, s, axes, n, d);
    else if (d->coord == RLX_COORD_ALIGN_CORNERS)
        align_scales(s, d);
    if (d->coord != RLX_COORD_TF_CROP_AND_RESIZE)
        return true;
    if (!rx_onnx_known_reals(c, in->roi, "roi", list, 2 * RLX_MAX_RANK, &got) ||
        got != 2 * (size_t)n)
        return false;
    for (int i = 0; i < s->rank; i++)
        d->roi[s->rank + i] = 1;
    for (int i = 0; i < n; i++) {
        d->roi[axes[i]] = list[i];
        d->roi[s->rank + axes[i]] = list[n + i];
    }
    return true;
}

/* The place of element `at` of a result with tf_half_pixel_for_nn, (at + 0.5) / scale. */
static int64_t nearest_place(rlx_nearest_mode mode, int64_t at, double scale, rlx_dim size)
{
    const double x = ((double)at + 0.5) / scale;
    const double v = mode == RLX_NEAREST_FLOOR ? floor(x) : mode == RLX_NEAREST_CEIL ? ceil(x)
                     : mode == RLX_NEAREST_ROUND_PREFER_CEIL ? floor(x + 0.5) : ceil(x - 0.5);
    return (int64_t)fmin(fmax(v, 0), (double)size - 1);
}

#define MAX_PLACES (1 << 20) /* of an axis: they are a constant, which a size in a file decides */

/* tf_half_pixel_for_nn, which exporters write for the nearest element: gathers along each axis. */
static rlx_value gather_nearest(rx_onnx_call *c, rlx_value x, const rlx_resize_desc *d)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    for (int i = 0; i < s.rank; i++) {
        const int64_t n = d->sizes.v[i];
        int64_t *place = NULL;
        if (n == s.dim[i])
            continue;
        if (n < 1 || n > MAX_PLACES || s.dim[i] < 1)
            return rx_onnx_fail(c, RLX_UNSUPPORTED, "axis %d of size %lld becomes %lld; expected "
                                "1 to %d", i, (long long)s.dim[i], (long long)n, MAX_PLACES);
        place = rx_arena_array_zero(&c->b->arena, (uint64_t)n, sizeof *place);
        if (!place)
            return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
        for (int64_t k = 0; k < n; k++)
            place[k] = nearest_place(d->nearest, k,
                                     d->scale[i] != 0 ? d->scale[i] : (double)n / (double)s.dim[i],
                                     s.dim[i]);
        x = rlx_gather(c->g, x, rx_onnx_i64s(c->g, place, n), i);
    }
    return x;
}

static rlx_value resize(rx_onnx_call *c, const resize_operands *in)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_dtype t = rlx_value_dtype(c->g, x);
    const rlx_shape s = rlx_value_shape(c->g, x);
    rlx_resize_desc d = {RLX_INIT(rlx_resize_desc)};
    if (!read_modes(c, &d))
        return RLX_NONE;
    if (!read_sizes(c, &s, in, &d))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected fixed sizes, and one scale or size for "
                            "each axis");
    if (rx_onnx_is(c, "coordinate_transformation_mode", "tf_half_pixel_for_nn", ""))
        return gather_nearest(c, x, &d);
    if (d.mode == RLX_RESIZE_NEAREST || !rlx_dtype_is_int(t))
        return rlx_resize(c->g, x, &d);
    return rlx_cast(c->g, rlx_resize(c->g, rlx_cast(c->g, x, RLX_F32), &d), t);
}

rlx_value rx_onnx_resize(rx_onnx_call *c)
{
    return resize(c, &(resize_operands){1, 2, 3});
}

/* Upsample 9 and Resize 10 have scales only. */
rlx_value rx_onnx_resize10(rx_onnx_call *c)
{
    return resize(c, &(resize_operands){SIZE_MAX, 1, SIZE_MAX});
}

/* Version 7 has the scales as an attribute. */
rlx_value rx_onnx_upsample7(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "scales");
    rlx_resize_desc d = {RLX_INIT(rlx_resize_desc), .sizes = {.n = s.rank}};
    if (!read_modes(c, &d))
        return RLX_NONE;
    if (!a || a->type != RX_ONNX_FLOATS || a->n != (size_t)s.rank || !rx_shape_is_fixed(&s))
        return rx_onnx_fail(c, RLX_INVALID, "expected fixed sizes and a scale for each axis");
    for (int i = 0; i < s.rank; i++) {
        d.scale[i] = (double)a->floats[i];
        d.sizes.v[i] = scaled_size(s.dim[i], d.scale[i]);
    }
    return rlx_resize(c->g, x, &d);
}

/* ---- GridSample ------------------------------------------------------------------------------ */

typedef struct sampler {
    rx_onnx_call *c;
    int n;               /* spatial axes */
    rlx_shape x;
    rlx_dim points;      /* of the grid, of one batch */
    rlx_value flat;      /* x as [N, C, elements] */
    rlx_value at[3];     /* coordinates in elements of each axis: f32 [N, points] */
    rlx_value base[3];   /* their floor */
    rlx_value weight[3][4];
    int taps;            /* of each axis */
    bool zeros, border, corners;
} sampler;

static rlx_value real(const sampler *s, double v)
{
    return rlx_scalar(s->c->g, RLX_F32, v);
}

/* Reflects coordinates at the borders until they are in range. */
static rlx_value reflect(const sampler *s, rlx_value v, rlx_dim size)
{
    rlx_graph *g = s->c->g;
    const double low = s->corners ? 0 : -0.5;
    const double range = s->corners ? (double)size - 1 : (double)size;
    if (range <= 0)
        return rlx_mul(g, v, real(s, 0));
    const rlx_value t = rlx_mod(g, rlx_sub(g, v, real(s, low)), real(s, 2 * range), true);
    const rlx_value folded = rlx_sub(g, real(s, range), rlx_abs(g, rlx_sub(g, t, real(s, range))));
    return rlx_add(g, folded, real(s, low));
}

/* Applies the padding mode to coordinates out of range. */
static rlx_value pad_coordinate(const sampler *s, rlx_value v, rlx_dim size)
{
    if (s->zeros)
        return v;
    return s->border ? rlx_clamp(s->c->g, v, 0, (double)size - 1) : reflect(s, v, size);
}

/* Coordinates of axis d, which is the grid's component n - 1 - d. */
static void find_coordinate(sampler *s, rlx_value grid, int d, bool nearest)
{
    rlx_graph *g = s->c->g;
    const double size = (double)s->x.dim[2 + d];
    const rlx_dim flat[2] = {s->x.dim[0], s->points};
    rlx_value v = rlx_reshape(g, rlx_narrow(g, grid, s->n + 1, s->n - 1 - d, 1), 2, flat);
    v = rlx_add(g, v, real(s, 1));
    v = s->corners ? rlx_mul(g, v, real(s, (size - 1) / 2))
                   : rlx_sub(g, rlx_mul(g, v, real(s, size / 2)), real(s, 0.5));
    if (nearest)
        v = rlx_round(g, v);
    if (s->taps != 4) /* of the cubic kernel each tap is moved into the range instead */
        v = pad_coordinate(s, v, s->x.dim[2 + d]);
    s->at[d] = v;
    s->base[d] = nearest ? v : rlx_floor(g, v);
}

/* a |t|^3 + b |t|^2 + c |t| + d of Keys' kernel with a = -0.75, for a tap at distance t. */
static rlx_value keys(const sampler *s, rlx_value t, bool outer)
{
    static const double inside[4] = {1.25, -2.25, 0, 1}, outside[4] = {-0.75, 3.75, -6, 3};
    const double *k = outer ? outside : inside;
    rlx_value y = real(s, k[0]);
    for (int i = 1; i < 4; i++)
        y = rlx_add(s->c->g, rlx_mul(s->c->g, y, t), real(s, k[i]));
    return y;
}

static void find_weights(sampler *s, int d)
{
    rlx_graph *g = s->c->g;
    const rlx_value t = rlx_sub(g, s->at[d], s->base[d]), rest = rlx_sub(g, real(s, 1), t);
    if (s->taps == 2) {
        s->weight[d][0] = rest;
        s->weight[d][1] = t;
    } else if (s->taps == 4) {
        s->weight[d][0] = keys(s, rlx_add(g, t, real(s, 1)), true);
        s->weight[d][1] = keys(s, t, false);
        s->weight[d][2] = keys(s, rest, false);
        s->weight[d][3] = keys(s, rlx_add(g, rest, real(s, 1)), true);
    }
}

/* Adds tap `tap` of each axis: weight * x[index], 0 outside with padding by zeros. */
static rlx_value add_tap(const sampler *s, const int *tap, rlx_value sum)
{
    rlx_graph *g = s->c->g;
    rlx_value index = RLX_NONE, weight = RLX_NONE, inside = RLX_NONE;
    for (int d = 0; d < s->n; d++) {
        const double last = (double)s->x.dim[2 + d] - 1;
        rlx_value v = rlx_add(g, s->base[d], real(s, tap[d] - (s->taps == 4)));
        if (s->zeros) {
            const rlx_value ok = rlx_and(g, rlx_ge(g, v, real(s, 0)), rlx_le(g, v, real(s, last)));
            inside = inside.id ? rlx_and(g, inside, ok) : ok;
        } else {
            v = rlx_floor(g, pad_coordinate(s, v, s->x.dim[2 + d]));
        }
        v = rlx_cast(g, rlx_clamp(g, v, 0, last), RLX_I64);
        const rlx_value size = rlx_scalar(g, RLX_I64, (double)s->x.dim[2 + d]);
        index = index.id ? rlx_add(g, rlx_mul(g, index, size), v) : v;
        if (s->taps > 1)
            weight = weight.id ? rlx_mul(g, weight, s->weight[d][tap[d]]) : s->weight[d][tap[d]];
    }
    const rlx_dim dims[3] = {s->x.dim[0], s->x.dim[1], s->points};
    const rlx_value each = rlx_expand(g, rlx_unsqueeze(g, index, 1), 3, dims);
    rlx_value y = rlx_gather_elements(g, s->flat, each, 2);
    if (weight.id)
        y = rlx_mul(g, y, rlx_unsqueeze(g, weight, 1));
    if (inside.id)
        y = rlx_where(g, rlx_unsqueeze(g, inside, 1), y, real(s, 0));
    return sum.id ? rlx_add(g, sum, y) : y;
}

static bool open_sampler(rx_onnx_call *c, sampler *s, rlx_shape *grid)
{
    const rlx_value x = rx_onnx_in(c, 0);
    *s = (sampler){.c = c, .x = rlx_value_shape(c->g, x),
                   .zeros = rx_onnx_is(c, "padding_mode", "zeros", "zeros"),
                   .border = rx_onnx_is(c, "padding_mode", "border", "zeros"),
                   .corners = rx_onnx_int(c, "align_corners", 0)};
    *grid = rlx_value_shape(c->g, rx_onnx_in(c, 1));
    s->n = s->x.rank - 2;
    if (s->n < 1 || s->n > 3 || grid->rank != s->x.rank || !rx_shape_is_fixed(&s->x) ||
        !rx_shape_is_fixed(grid) || rlx_value_dtype(c->g, x) != RLX_F32) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "expected f32 of 3 to 5 dimensions of fixed sizes");
        return false;
    }
    s->points = 1;
    for (int i = 1; i < grid->rank - 1; i++)
        s->points *= grid->dim[i];
    const rlx_dim flat[3] = {s->x.dim[0], s->x.dim[1], rx_shape_product(c->g, &s->x, 2, s->x.rank)};
    s->flat = rlx_reshape(c->g, x, 3, flat);
    return true;
}

rlx_value rx_onnx_grid_sample(rx_onnx_call *c)
{
    sampler s;
    rlx_shape grid;
    rlx_value sum = RLX_NONE;
    int tap[3] = {0}, all = 1;
    if (!open_sampler(c, &s, &grid))
        return RLX_NONE;
    const bool nearest = rx_onnx_is(c, "mode", "nearest", "linear");
    const bool cubic = rx_onnx_is(c, "mode", "cubic", "linear") ||
                       rx_onnx_is(c, "mode", "bicubic", "linear");
    s.taps = nearest ? 1 : cubic ? 4 : 2;
    for (int d = 0; d < s.n; d++) {
        find_coordinate(&s, rx_onnx_in(c, 1), d, nearest);
        find_weights(&s, d);
        all *= s.taps;
    }
    for (int i = 0; i < all; i++) {
        for (int d = 0, rest = i; d < s.n; d++, rest /= s.taps)
            tap[d] = rest % s.taps;
        sum = add_tap(&s, tap, sum);
    }
    rlx_shape to = {.rank = s.x.rank, .dim = {s.x.dim[0], s.x.dim[1]}};
    for (int d = 0; d < s.n; d++)
        to.dim[2 + d] = grid.dim[1 + d];
    return rlx_reshape(c->g, sum, to.rank, to.dim);
}
