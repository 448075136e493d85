/* SPDX-License-Identifier: MIT */
/* Reference resizing with the meaning of ONNX's Resize. Each output coordinate of an axis has a
 * list of taps: input elements and their weights. Nearest copies elements; linear and cubic work in
 * double, one axis after the other, and round once at the end. */
#include <math.h>

#include "cpu/ref/ref.h"
#include "ops/resize.h"

/* ---- Nearest --------------------------------------------------------------------------------- */

static rlx_status resize_nearest(const rx_call *c)
{
    const rlx_resize_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    int64_t *index[RLX_MAX_RANK];
    for (int a = 0; a < y->rank; a++) {
        const rx_resize_axis m = {d, a, y->rank, x->dim[a], y->dim[a]};
        index[a] = rx_call_array(c, y->dim[a], sizeof *index[a]);
        if (!index[a])
            return RLX_NO_MEMORY;
        for (int64_t i = 0; i < y->dim[a]; i++)
            index[a][i] = rx_resize_nearest(&m, i);
    }
    int64_t at[RLX_MAX_RANK] = {0}, to = 0;
    do {
        int64_t from = 0;
        bool inside = true;
        for (int a = 0; a < y->rank; a++) {
            inside = inside && index[a][at[a]] >= 0;
            from += index[a][at[a]] * x->stride[a];
        }
        if (inside)
            rx_copy_element(y, to, x, from);
        else
            rx_store(y, to, d->extrapolation);
        to++;
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}

/* ---- Linear, cubic --------------------------------------------------------------------------- */

/* Resizes the middle axis of from [outer, in, inner] into to [outer, out, inner]; `weight` has room
 * for `in` numbers. */
static void resize_axis(const rx_resize_axis *m, const double *from, double *to,
                        const int64_t around[2], double *weight)
{
    const int64_t outer = around[0], inner = around[1];
    for (int64_t x = 0; x < m->out; x++) {
        const bool outside = !rx_resize_weights(m, x, weight);
        for (int64_t k = 0; k < outer * inner; k++) {
            const int64_t o = k / inner, r = k % inner;
            double sum = outside ? m->d->extrapolation : 0;
            for (int64_t i = 0; i < m->in; i++)
                if (weight[i] != 0)
                    sum += weight[i] * from[(o * m->in + i) * inner + r];
            to[(o * m->out + x) * inner + r] = sum;
        }
    }
}

/* All elements as doubles in row-major order, in a buffer of `room` numbers. */
static double *load_into(const rx_call *c, const rx_view *v, int64_t room)
{
    double *all = rx_call_array(c, room, sizeof *all);
    int64_t at[RLX_MAX_RANK] = {0}, n = rx_view_elements(v);
    for (int64_t i = 0; all && i < n; i++, rx_next(at, v->dim, v->rank))
        all[i] = rx_load(v, rx_offset(v, at));
    return all;
}

static rlx_status resize_smooth(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    int64_t room = 1, longest = 1;
    for (int a = 0; a < x->rank; a++) {
        room *= x->dim[a] > y->dim[a] ? x->dim[a] : y->dim[a];
        longest = x->dim[a] > longest ? x->dim[a] : longest;
    }
    double *from = load_into(c, x, room);
    double *to = rx_call_array(c, room, sizeof *to);
    double *weight = rx_call_array(c, longest, sizeof *weight);
    if (!from || !to || !weight)
        return RLX_NO_MEMORY;

    for (int a = 0; a < x->rank; a++) {
        const rx_resize_axis m = {c->attr, a, x->rank, x->dim[a], y->dim[a]};
        int64_t around[2] = {1, 1};
        if (rx_resize_is_unchanged(&m))
            continue;
        for (int i = 0; i < x->rank; i++) /* axes before this one are resized already */
            around[i > a] *= i < a ? y->dim[i] : i > a ? x->dim[i] : 1;
        resize_axis(&m, from, to, around, weight);
        double *done = to;
        to = from;
        from = done;
    }
    const int64_t n = rx_view_elements(y);
    for (int64_t i = 0; i < n; i++)
        rx_store(y, i, from[i]);
    return RLX_OK;
}

rlx_status rx_ref_resize(const rx_call *c)
{
    const rlx_resize_desc *d = c->attr;
    if (rx_view_elements(&c->out[0]) == 0)
        return RLX_OK;
    return d->mode == RLX_RESIZE_NEAREST ? resize_nearest(c) : resize_smooth(c);
}

/* [N,C,H,W] -> [N,C,2H,2W]. */
rlx_status rx_ref_resize_2x(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int64_t n = rx_view_elements(y);
    int64_t at[RLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++, rx_next(at, y->dim, y->rank)) {
        const int64_t from[] = {at[0], at[1], at[2] / 2, at[3] / 2};
        rx_copy_element(y, i, x, rx_offset(x, from));
    }
    return RLX_OK;
}
