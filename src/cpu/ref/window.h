/* SPDX-License-Identifier: MIT */
/* Sliding windows for the reference kernels: one to three spatial axes, always seen as three. */
#ifndef RX_CPU_REF_WINDOW_H
#define RX_CPU_REF_WINDOW_H

#include "cpu/ref/ref.h"

#define RX_SPATIAL 3

typedef struct rx_slide {
    int64_t in[RX_SPATIAL], out[RX_SPATIAL]; /* sizes; missing axes come first and have size 1 */
    int64_t kernel[RX_SPATIAL], stride[RX_SPATIAL], dilation[RX_SPATIAL];
    int64_t begin[RX_SPATIAL], end[RX_SPATIAL]; /* padding */
} rx_slide;

/* The window of an operation on [N, C, spatial..]; stride, dilation and pads as the rule left them;
 * `kernel` has an entry for each spatial axis of x. */
static inline rx_slide rx_make_slide(const rx_view *x, const rx_view *y, const int64_t *kernel,
                                     const rlx_ints *const lists[3])
{
    const int n = x->rank - 2, missing = RX_SPATIAL - n;
    const rlx_ints *stride = lists[0], *dilation = lists[1], *pads = lists[2];
    rx_slide s;
    for (int i = 0; i < RX_SPATIAL; i++) {
        const int k = i - missing;
        s.in[i] = k < 0 ? 1 : x->dim[2 + k];
        s.out[i] = k < 0 || !y ? 1 : y->dim[2 + k];
        s.kernel[i] = k < 0 ? 1 : kernel[k];
        s.stride[i] = k < 0 || !stride->n ? 1 : stride->v[k];
        s.dilation[i] = k < 0 || !dilation->n ? 1 : dilation->v[k];
        s.begin[i] = k < 0 || !pads->n ? 0 : pads->v[k];
        s.end[i] = k < 0 || !pads->n ? 0 : pads->v[n + k];
    }
    return s;
}

/* Input coordinate of tap `tap` of window `at` on axis i; may be in the padding. */
static inline int64_t rx_slide_place(const rx_slide *s, const int64_t *at, const int64_t *tap,
                                     int i)
{
    return at[i] * s->stride[i] - s->begin[i] + tap[i] * s->dilation[i];
}

/* Row-major index, within its channel, of the element under tap `tap` of window `at`; -1 in the
 * padding. */
static inline int64_t rx_slide_index(const rx_slide *s, const int64_t *at, const int64_t *tap)
{
    int64_t index = 0;
    for (int i = 0; i < RX_SPATIAL; i++) {
        const int64_t p = rx_slide_place(s, at, tap, i);
        if (p < 0 || p >= s->in[i])
            return -1;
        index = index * s->in[i] + p;
    }
    return index;
}

static inline int64_t rx_product3(const int64_t v[RX_SPATIAL])
{
    return v[0] * v[1] * v[2];
}

/* All elements of a plain tensor, minus `zero`, as doubles in row-major order. NULL when out of
 * memory. cpu/ref/conv.c */
double *rx_load_all(const rx_call *c, const rx_view *v, double zero);

#endif
