/* SPDX-License-Identifier: MIT */
/* Coordinate mapping and interpolation weights of resize. */
#include "ops/resize.h"

#include <math.h>

bool rx_resize_is_unchanged(const rx_resize_axis *m)
{
    const double scale = m->d->scale[m->axis];
    const bool whole = m->d->coord != RLX_COORD_TF_CROP_AND_RESIZE ||
                       (m->d->roi[m->axis] == 0 && m->d->roi[m->rank + m->axis] == 1);
    return m->in == m->out && (scale == 0 || scale == 1) && whole;
}

/* x / scale. */
static double unscale(const rx_resize_axis *m, double x)
{
    const double scale = m->d->scale[m->axis];
    return scale != 0 ? x / scale : x * (double)m->in / (double)m->out;
}

static double crop_place(const rx_resize_axis *m, int64_t x)
{
    const double start = m->d->roi[m->axis], end = m->d->roi[m->rank + m->axis];
    const double last = (double)(m->in - 1);
    if (m->out == 1)
        return 0.5 * (start + end) * last;
    return start * last + (double)x * (end - start) * last / (double)(m->out - 1);
}

double rx_resize_place(const rx_resize_axis *m, int64_t x)
{
    const double pixel = unscale(m, (double)x + 0.5) - 0.5;
    const double scale = m->d->scale[m->axis], in = (double)m->in, out = (double)m->out;
    switch (m->d->coord) {
    case RLX_COORD_HALF_PIXEL_SYMMETRIC:
        return pixel + (scale != 0 ? in / 2 * (1 - out / (scale * in)) : 0);
    case RLX_COORD_PYTORCH_HALF_PIXEL:
        return m->out > 1 ? pixel : 0;
    case RLX_COORD_ALIGN_CORNERS:
        return m->out > 1 ? (double)x * (in - 1) / (out - 1) : 0;
    case RLX_COORD_ASYMMETRIC:
        return unscale(m, (double)x);
    case RLX_COORD_TF_CROP_AND_RESIZE:
        return crop_place(m, x);
    default:
        return pixel;
    }
}

bool rx_resize_is_outside(const rx_resize_axis *m, double place)
{
    return m->d->coord == RLX_COORD_TF_CROP_AND_RESIZE &&
           (place < 0 || place > (double)(m->in - 1));
}

/* ---- Weights of linear and cubic, by the distance of an element ------------------------------ */

static double linear_weight(double t)
{
    t = fabs(t);
    return t < 1 ? 1 - t : 0;
}

static double cubic_weight(double t, double a)
{
    t = fabs(t);
    if (t <= 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/* Antialiasing: distances shrink by this factor, so that the filter covers more elements. */
static double antialias_factor(const rx_resize_axis *m)
{
    if (!m->d->antialias)
        return 1;
    const double given = m->d->scale[m->axis];
    const double scale = given != 0 ? given : (double)m->out / (double)m->in;
    return scale < 1 ? scale : 1;
}

int64_t rx_resize_nearest(const rx_resize_axis *m, int64_t x)
{
    if (rx_resize_is_unchanged(m))
        return x;
    double place = rx_resize_place(m, x);
    if (rx_resize_is_outside(m, place))
        return -1;
    switch (m->d->nearest) {
    case RLX_NEAREST_ROUND_PREFER_CEIL: place = floor(place + 0.5); break;
    case RLX_NEAREST_FLOOR: place = floor(place); break;
    case RLX_NEAREST_CEIL: place = ceil(place); break;
    default: place = ceil(place - 0.5); break;
    }
    return place < 0 ? 0 : place > (double)(m->in - 1) ? m->in - 1 : (int64_t)place;
}

double rx_resize_weight(const rx_resize_axis *m, double distance)
{
    const double t = antialias_factor(m) * distance;
    return m->d->mode == RLX_RESIZE_CUBIC ? cubic_weight(t, m->d->cubic_a) : linear_weight(t);
}

int64_t rx_resize_reach(const rx_resize_axis *m)
{
    const double support = m->d->mode == RLX_RESIZE_CUBIC ? 2 : 1;
    return (int64_t)ceil(support / antialias_factor(m)) + 1;
}

static int64_t clamp_index(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* Adds to weight[i] the weight of input element i at coordinate `place`. Elements outside count for
 * the nearest one inside or, with exclude_outside, not at all. The weights add up to 1. */
static void place_weights(const rx_resize_axis *m, double place, double *weight)
{
    const int64_t base = (int64_t)floor(place), reach = rx_resize_reach(m);
    double sum = 0;
    for (int64_t i = base - reach; i <= base + reach; i++) {
        if (m->d->exclude_outside && (i < 0 || i >= m->in))
            continue;
        const double w = rx_resize_weight(m, (double)i - place);
        weight[clamp_index(i, m->in)] += w;
        sum += w;
    }
    if (sum == 0)
        weight[clamp_index(base, m->in)] = sum = 1;
    for (int64_t i = 0; i < m->in; i++)
        weight[i] /= sum;
}

bool rx_resize_weights(const rx_resize_axis *m, int64_t x, double *weight)
{
    for (int64_t i = 0; i < m->in; i++)
        weight[i] = 0;
    if (m->d->mode == RLX_RESIZE_NEAREST) {
        const int64_t from = rx_resize_nearest(m, x);
        if (from >= 0)
            weight[from] = 1;
        return from >= 0;
    }
    const double place = rx_resize_place(m, x);
    if (rx_resize_is_outside(m, place))
        return false;
    place_weights(m, place, weight);
    return true;
}
