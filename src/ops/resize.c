/* SPDX-License-Identifier: MIT */
/* How places of the result of a resize map to places of its input. */
#include "ops/resize.h"

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
