/* SPDX-License-Identifier: MIT */
/* Inside gpu/split/: steps on slices of tensors, and steps made of other steps. */
#ifndef RX_GPU_SPLIT_PART_H
#define RX_GPU_SPLIT_PART_H

#include "gpu/split/split.h"

/* A step on slices of the tensors of the original step. */
typedef struct rx_part {
    rx_gpu_call call; /* in, out, is_param: the arrays below */
    rx_view view[RX_SPLIT_MAX]; /* operands, then results */
    rx_gpu_ref ref[RX_SPLIT_MAX];
    bool is_param[RX_SPLIT_MAX];
} rx_part;

/* ---- Parts: split.c -------------------------------------------------------------------------- */

static inline size_t rx_part_tensors(const rx_gpu_call *c) { return c->n_in + c->n_out; }
/* Points the call to the arrays of its part: after every copy. */
void rx_part_point(rx_part *p);
/* The window that tensor i needs; bytes 0: it lies within the first window of its memory. Results
 * begin at the start of theirs where possible. False: it exceeds a window. */
bool rx_part_window(const rx_part *p, size_t i, rx_gpu_window *w);
/* The size up to which a tensor of this type fits a window at any offset. */
uint64_t rx_part_room(const rx_gpu_caps *caps, rlx_dtype t);
/* The slice of v of indices first .. first + length - 1 along an axis. */
rx_view rx_part_narrow(const rx_view *v, int axis, int64_t first, int64_t length);
/* Byte stride of an axis. */
uint64_t rx_part_step(const rx_view *v, int axis);
/* Whether the slice of tensor i at one index of an axis, strides included, fits into a binding. */
bool rx_part_place_fits(const rx_part *p, size_t i, int axis);
/* Makes v a dense tensor of the same shape in scratch memory. */
void rx_part_stage(rx_gpu_build *b, rx_view *v, rx_gpu_ref *ref);
/* Lowers a part, split further where needed. */
rlx_status rx_part_split(rx_gpu_build *b, const rx_part *p, int depth);
/* "... is larger than a binding and cannot be cut" */
rlx_status rx_part_fail(rx_gpu_build *b, const rx_part *p);

/* ---- Steps that are made of others ----------------------------------------------------------- */

/* Attention over splits of its keys: whether that is possible, or would be with fewer rows or
 * columns of results; and doing it. attention.c */
typedef enum rx_split_by_keys { RX_KEYS_NO, RX_KEYS_FEWER_ROWS, RX_KEYS_YES } rx_split_by_keys;
rx_split_by_keys rx_split_takes_keys(const rx_part *p);
rlx_status rx_split_keys(rx_gpu_build *b, const rx_part *p, int depth);

/* ---- Steps that are made of others: steps.c -------------------------------------------------- */

typedef struct rx_tensor {
    rx_view view;
    rx_gpu_ref ref;
} rx_tensor;

/* Where steps are added, and the part that they compute. */
typedef struct rx_steps {
    rx_gpu_build *b;
    const rx_part *part;
    int depth;
} rx_steps;

/* Tensor i of the part. */
rx_tensor rx_steps_tensor(const rx_steps *s, size_t i);
/* A dense tensor in scratch memory; the second form has the shape of v, but `length` along `axis`
 * (-1: none). */
rx_tensor rx_steps_new(const rx_steps *s, rlx_dtype t, int rank, const int64_t *dim);
rx_tensor rx_steps_like(const rx_steps *s, rlx_dtype t, const rx_view *v, int axis, int64_t length);
/* Constants: a scalar of type f32, i32 or i64, and a tensor of f32. */
rx_tensor rx_steps_number(const rx_steps *s, rlx_dtype t, double value);
rx_tensor rx_steps_table(const rx_steps *s, const float *data, int rank, const int64_t *dim);
/* Adds a step; t: operands, then results. A result in elementwise ones is the last instruction. */
void rx_steps_add(const rx_steps *s, rx_op op, const void *attr, const rx_tensor *t, size_t n_in,
                  size_t n_out);
void rx_steps_region(const rx_steps *s, const rx_instr *instr, size_t n, const rx_tensor *t,
                     size_t n_in);
/* Concatenates n tensors along an axis; overwrites t. */
void rx_steps_join(const rx_steps *s, int axis, rx_tensor *t, size_t n, rx_tensor to);
/* The slice of x of at most `length` indices of an axis, from `first` on. */
rx_tensor rx_steps_narrow(const rx_tensor *x, int axis, int64_t first, int64_t length);
/* The length of slices of an axis, at most half of it, of which `widen` fit into a binding; and the
 * number of such slices. */
int64_t rx_steps_length(const rx_steps *s, const rx_view *v, int axis, int64_t widen);
int64_t rx_steps_count(int64_t dim, int64_t length);
/* Whether slices along an axis are contiguous and there can be two. */
bool rx_steps_is_outer(const rx_view *v, int axis);
/* An array of n tensors. NULL: the build has failed. */
rx_tensor *rx_steps_list(const rx_steps *s, int64_t n);

/* Lowers a part that cannot be sliced further to steps of other operations where possible; else
 * fails. long.c */
rlx_status rx_split_long(rx_gpu_build *b, const rx_part *p, int depth);

/* Decompositions for rx_split_long: each adds its steps, or returns false. */
typedef bool rx_split_made(const rx_steps *s);
rx_split_made rx_split_fft, rx_split_top_k, rx_split_sort, rx_split_sample, rx_split_nonzero,
    rx_split_take, rx_split_net, rx_split_scan, rx_split_rope;
/* Operations that ops/lower.h decomposes and that have nothing better here. decompose.c */
rx_split_made rx_split_decompose;

#endif
