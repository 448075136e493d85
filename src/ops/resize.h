/* SPDX-License-Identifier: MIT */
/* How places of the result of a resize map to places of its input, by the rules of ONNX's Resize,
 * in double precision. Shared by every device, so that ties fall alike. */
#ifndef RX_OPS_RESIZE_H
#define RX_OPS_RESIZE_H

#include "ir/op.h"

/* One axis. */
typedef struct rx_resize_axis {
    const rlx_resize_desc *d;
    int axis, rank;
    int64_t in, out; /* sizes */
} rx_resize_axis;

/* The axis is copied as it is. */
bool rx_resize_is_unchanged(const rx_resize_axis *m);
/* The place in the input that place x of the result comes from. */
double rx_resize_place(const rx_resize_axis *m, int64_t x);
/* tf_crop_and_resize: the place is outside of the input, the result is the extrapolation value. */
bool rx_resize_is_outside(const rx_resize_axis *m, double place);
/* Nearest: the element of the input for place x, -1: the extrapolation value. */
int64_t rx_resize_nearest(const rx_resize_axis *m, int64_t x);
/* Linear and cubic: what an element of the input at this distance from a place counts there, before
 * the weights are made to add up to 1. */
double rx_resize_weight(const rx_resize_axis *m, double distance);
/* Elements on each side of a place that may have a weight. */
int64_t rx_resize_reach(const rx_resize_axis *m);

#endif
