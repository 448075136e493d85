/* SPDX-License-Identifier: MIT */
/* Tensors in host memory: filling them, reading and writing NumPy files, statistics, printing. */
#ifndef TENSOR_H
#define TENSOR_H

#include "json.h"
#include "rlx/rlx.h"

typedef struct tensor {
    char *name;
    rlx_dtype dtype;
    rlx_shape shape; /* numbers only */
    size_t bytes;
    void *data;
} tensor;

void tensor_free(tensor *t);
int64_t tensor_elements(const rlx_shape *s);
bool shape_equal(const rlx_shape *a, const rlx_shape *b);

/* How the numbers of a tensor are spread when they are random. */
typedef enum fill_kind {
    FILL_INPUT, /* floats in [-1, 1); i32 and i64 in 0..7 */
    FILL_PARAM  /* floats with a deviation of 1 / sqrt(inputs); rank 0 and 1: in [0.5, 1.5) */
} fill_kind;

/* Fills t->data by `spec`: "random[:SEED]", "zeros", "ones", "range", or the path of a NumPy file
 * whose shape must match. `seed` serves "random" without a seed of its own; the name of the tensor
 * is mixed in. False after printing why not. */
bool tensor_fill(tensor *t, const char *spec, fill_kind kind, uint64_t seed);
void tensor_fill_random(tensor *t, fill_kind kind, uint64_t seed);
/* True when `spec` names a file, not a way to fill. */
bool fill_is_file(const char *spec);

bool tensor_write_npy(const tensor *t, const char *path);

typedef struct tensor_stats {
    int64_t n, n_nan, n_inf;
    double min, max, mean, max_abs; /* of the finite numbers; 0 when there are none */
} tensor_stats;
tensor_stats tensor_get_stats(rlx_dtype t, const void *data, int64_t n);
/* min, max, mean, max_abs, nan, inf as members of the current JSON object. */
void json_stats(json *j, const tensor_stats *s);
void json_shape(json *j, const char *key, const rlx_shape *s);
/* Prints in the manner of NumPy; long axes are cut. */
void tensor_print(const tensor *t);

#endif
