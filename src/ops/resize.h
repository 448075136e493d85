/* SPDX-License-Identifier: MIT */
/* Coordinate mapping of resize, by the rules of ONNX's Resize, in double precision. Shared by every
 * device, so that ties round alike. */
#ifndef RX_OPS_RESIZE_H
#define RX_OPS_RESIZE_H

#include "ir/op.h"

/* One axis. */
typedef struct rx_resize_axis {
    const rlx_resize_desc *d;
    int axis, rank;
    int64_t in, out; /* sizes */
} rx_resize_axis;

/* The axis is unchanged. */
bool rx_resize_is_unchanged(const rx_resize_axis *m);
/* The input coordinate of output coordinate x. */
double rx_resize_place(const rx_resize_axis *m, int64_t x);
/* tf_crop_and_resize: the coordinate is outside of the input, the result is the extrapolation
 * value. */
bool rx_resize_is_outside(const rx_resize_axis *m, double place);
/* Nearest: the input index for output x; -1: the extrapolation value. */
int64_t rx_resize_nearest(const rx_resize_axis *m, int64_t x);
/* Linear and cubic: the weight of an input element at this distance, before normalisation. */
double rx_resize_weight(const rx_resize_axis *m, double distance);
/* Filter radius: elements on each side of a coordinate that may have a weight. */
int64_t rx_resize_reach(const rx_resize_axis *m);
/* weight[i], of m->in numbers: the weight of element i for output x, in all modes; they add up to
 * 1. False, with zeros, where the result is the extrapolation value. */
bool rx_resize_weights(const rx_resize_axis *m, int64_t x, double *weight);

#endif
