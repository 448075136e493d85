/* SPDX-License-Identifier: MIT */
/* Sliding windows over spatial axes: shape inference shared by convolutions, im2col and pooling. */
#ifndef RX_OPS_WINDOW_H
#define RX_OPS_WINDOW_H

#include "ir/infer.h"

/* A window along the spatial axes of operand 0, [N, C, spatial..]. */
typedef struct rx_window {
    int n;                /* spatial axes */
    const int64_t *kernel;
    rlx_ints *stride, *dilation, *pads;
    bool ceil_mode;       /* also counts a last window that is only partly inside */
} rx_window;

/* Fills in the defaults of stride (1), dilation (1) and pads (0) and checks them. */
rlx_status rx_check_window(rx_infer *c, const rx_window *w);
/* The sizes of the result: size[i] windows fit on spatial axis i. A window has to fit at least once
 * unless the axis is empty. Expressions of named axes fail when bound to less. */
rlx_status rx_window_sizes(rx_infer *c, const rx_window *w, rlx_dim *size);

/* An attribute of one spatial axis as that of two: {v} as {first, v}, {b, e} as {first, b, first,
 * e}. */
static inline rlx_ints rx_add_axis(const rlx_ints *v, int64_t first)
{
    rlx_ints r = {.n = 2 * v->n};
    for (int i = 0; i < v->n; i++) {
        r.v[2 * i] = first;
        r.v[2 * i + 1] = v->v[i];
    }
    return r;
}

#endif
