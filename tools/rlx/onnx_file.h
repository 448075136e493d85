/* SPDX-License-Identifier: MIT */
/* ONNX models on the command line: graphs for given inputs, and their weights. */
#ifndef ONNX_FILE_H
#define ONNX_FILE_H

#include "rlx/rlx.h"
#include "tensor.h"

/* Whether a path names an ONNX model. */
bool is_onnx(const char *path);

/* Builds the graph of a model for inputs whose tensors are `given` (NULL data: unknown): dimensions
 * without a size in the file take those of the tensors, or of `dims`; values of small ones decide
 * shapes. The caller owns *out. */
rlx_status onnx_import(rlx_onnx *m, const tensor *given, size_t n, const rlx_import_dim *dims,
                       size_t n_dims, rlx_graph **out, rlx_error *err);
/* Gives the weights of the graph built last to a session, in place. */
rlx_status onnx_set_params(const rlx_onnx *m, rlx_session *s, rlx_error *err);

#endif
