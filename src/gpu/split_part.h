/* SPDX-License-Identifier: MIT */
/* Inside gpu/split*.c: steps on parts of tensors, and steps that are made of other steps. */
#ifndef RX_GPU_SPLIT_PART_H
#define RX_GPU_SPLIT_PART_H

#include "gpu/split.h"

/* A step on parts of the tensors of the step that was asked for. */
typedef struct rx_part {
    rx_gpu_call call; /* in, out, is_param: the arrays below */
    rx_view view[RX_SPLIT_MAX]; /* operands, then results */
    rx_gpu_ref ref[RX_SPLIT_MAX];
    bool is_param[RX_SPLIT_MAX];
} rx_part;

/* ---- Parts: split.c -------------------------------------------------------------------------- */

static inline size_t rx_part_tensors(const rx_gpu_call *c) { return c->n_in + c->n_out; }
/* Lets the call refer to the arrays of its part: after every copy. */
void rx_part_point(rx_part *p);
/* The window that tensor i needs; bytes 0: it lies within the first window of its memory. Results
 * lie at the start of theirs if that is possible. False: it is too large for a window. */
bool rx_part_window(const rx_part *p, size_t i, rx_gpu_window *w);
/* Bytes that a tensor of this type may have wherever it begins. */
uint64_t rx_part_room(const rx_gpu_caps *caps, rlx_dtype t);
/* Tensor v from place `first` of an axis on, `length` places. */
rx_view rx_part_narrow(const rx_view *v, int axis, int64_t first, int64_t length);
/* Bytes between neighbours along an axis. */
uint64_t rx_part_step(const rx_view *v, int axis);
/* Whether one place of an axis of tensor i, with all its strides, fits into a binding. */
bool rx_part_place_fits(const rx_part *p, size_t i, int axis);
/* Makes v a dense tensor of the same shape in scratch memory. */
void rx_part_stage(rx_gpu_build *b, rx_view *v, rx_gpu_ref *ref);
/* Lowers a part, cut further where that is needed. */
rlx_status rx_part_split(rx_gpu_build *b, const rx_part *p, int depth);
/* "... is larger than a binding and cannot be cut" */
rlx_status rx_part_fail(rx_gpu_build *b, const rx_part *p);

/* ---- Steps that are made of others ----------------------------------------------------------- */

/* Attention by parts of its keys: whether that is possible, and doing it. split_attention.c */
bool rx_split_takes_keys(const rx_part *p);
rlx_status rx_split_keys(rx_gpu_build *b, const rx_part *p, int depth);

#endif
