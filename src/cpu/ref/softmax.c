/* SPDX-License-Identifier: MIT */
/* Reference kernel of softmax and log_softmax along any axis. A row of all -inf gives zeros or
 * -inf; a NaN or +inf anywhere in a row makes all of it NaN. */
#include <math.h>

#include "cpu/ref/ref.h"

/* One row: n elements from x_first and y_first, at these strides. x and y may alias: each element
 * is last read just before it is written. */
typedef struct row {
    const rx_view *x, *y;
    int64_t n, x_first, x_stride, y_first, y_stride;
} row;

static double row_max(const row *r)
{
    double max = -INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        const double x = rx_load(r->x, r->x_first + i * r->x_stride);
        if (x > max || isnan(x))
            max = x;
    }
    return max;
}

static void softmax_row(const row *r, bool logarithm)
{
    const double max = row_max(r);
    const bool empty = max == -INFINITY;
    double others = 0; /* sum without the largest element's 1, which would absorb small terms */
    bool passed = isinf(max);
    for (int64_t i = 0; i < r->n && !empty; i++) {
        const double x = rx_load(r->x, r->x_first + i * r->x_stride);
        if (x == max && !passed)
            passed = true;
        else
            others += exp(x - max);
    }
    const double sum = 1 + others, log_sum = log1p(others);

    for (int64_t i = 0; i < r->n; i++) {
        const double shifted = rx_load(r->x, r->x_first + i * r->x_stride) - max;
        double y = logarithm ? shifted - log_sum : exp(shifted) / sum;
        if (empty)
            y = logarithm ? -INFINITY : 0;
        rx_store(r->y, r->y_first + i * r->y_stride, y);
    }
}

rlx_status rx_ref_softmax(const rx_call *c)
{
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    if (rx_view_elements(x) == 0)
        return RLX_OK;

    row r = {.x = x, .y = y, .n = x->dim[axis], .x_stride = x->stride[axis],
             .y_stride = y->stride[axis]};
    int64_t others[RLX_MAX_RANK], at[RLX_MAX_RANK] = {0};
    for (int i = 0; i < x->rank; i++)
        others[i] = i == axis ? 1 : x->dim[i];
    do {
        r.x_first = rx_offset(x, at);
        r.y_first = rx_offset(y, at);
        softmax_row(&r, c->op == RX_OP_log_softmax);
    } while (rx_next(at, others, x->rank));
    return RLX_OK;
}
