/* SPDX-License-Identifier: MIT */
/* A tiny writer of ONNX models: protobuf messages in memory. */
#ifndef RLX_TESTS_SUPPORT_ONNX_MODEL_H
#define RLX_TESTS_SUPPORT_ONNX_MODEL_H

#include "support/model_file.h"

void pb_int(blob *b, int field, uint64_t v);
void pb_bytes(blob *b, int field, const void *data, size_t n);
void pb_text(blob *b, int field, const char *text);
/* Adds a message as a field and frees it. */
void pb_message(blob *b, int field, blob *message);

/* A tensor: type is TensorProto.DataType; dims end with -1. */
blob onnx_tensor(const char *name, int type, const int64_t *dims, const void *raw, size_t bytes);
/* A declared input or output; a dimension of -2 is named "n". */
blob onnx_port(const char *name, int type, const int64_t *dims);
/* Operands and results are separated by spaces. */
blob onnx_node(const char *op, const char *in, const char *out);
void onnx_attr_int(blob *node, const char *name, int64_t v);
/* A model around a graph, which is freed. */
blob onnx_model(blob *graph, int64_t opset);

/* y = relu(x + w) for x [2, 3]; a good start for tests. */
blob onnx_small(void);
/* Opens a copy of the bytes and builds the graph: how that failed, or RLX_OK. */
rlx_status onnx_build_bytes(const void *data, size_t n, rlx_error *err);

#endif
