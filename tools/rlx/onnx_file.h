/* SPDX-License-Identifier: MIT */
/* ONNX models on the command line: graphs for given inputs, and their weights. */
#ifndef ONNX_FILE_H
#define ONNX_FILE_H

#include "cli.h"
#include "tensor.h"
#include "work.h"

/* Whether a path names an ONNX model. */
bool is_onnx(const char *path);

/* Tensors of inputs (NULL data: unknown), sizes of dimensions, and the device that computes sizes
 * which come from data (NULL: none). */
typedef struct onnx_inputs {
    const tensor *given;
    size_t n;
    const rlx_import_dim *dims;
    size_t n_dims;
    rlx_device *device;
    bool once; /* the graph is for these inputs only */
} onnx_inputs;

/* Builds the graph of a model for inputs: dimensions without a size in the file take those of the
 * list or of the tensors, else 1; values of small tensors decide shapes. The caller owns *out. */
rlx_status onnx_import(rlx_onnx *m, const onnx_inputs *in, rlx_graph **out, rlx_error *err);
/* Gives the weights of the graph built last to a session, in place. */
rlx_status onnx_set_params(const rlx_onnx *m, rlx_session *s, rlx_error *err);

/* Opens a model and builds its graph for "NAME=FILE.npy" of o->inputs and "NAME=SIZE" of o->dims;
 * `device` as above. NULL after printing why not; else the caller closes *m too. */
rlx_graph *onnx_read_graph(const char *path, const work_options *o, rlx_device *device,
                           rlx_onnx **m);
/* `rlx bench` of a model: runs with random inputs for so many seconds. */
int onnx_bench(const char *path, const cli_common *common, const cli_list *dims, const char *policy,
               double seconds);
/* `rlx inspect` of a model: inputs, outputs, operators, those that are not supported first. */
int onnx_inspect(const char *path, bool as_json);

#endif
