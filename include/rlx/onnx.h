/* SPDX-License-Identifier: MIT */
/* ONNX models: opened in place, described, and built as graphs.
 *
 *     rlx_onnx_open("model.onnx", &model, &err);
 *     rlx_graph_import(model, NULL, &graph, &err);
 *     rlx_session_create(device, graph, NULL, &session, &err);
 *     for (size_t i = 0; rlx_onnx_param(model, i, &p); i++)
 *         rlx_session_set_param(session, p.name, p.data, p.bytes, RLX_BORROW, &err);
 *
 * IR versions 3 to 14, operator sets 1 to 28 of ai.onnx; docs/onnx.md lists the operators. */
#ifndef RLX_ONNX_H
#define RLX_ONNX_H

#include "npy.h"
#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open model. The file stays mapped until it is closed: weights are used in place. */
typedef struct rlx_onnx rlx_onnx;

/* Opens a model and reads its structure; data of tensors is read when a graph is built. Tensors may
 * lie in other files (external data), which must be beneath the model's own folder: absolute paths,
 * ".." and links that lead out of it are refused. On success the caller ends *out with
 * rlx_onnx_close; on failure *out is NULL. The files must not change or shrink while open. */
RLX_API rlx_status rlx_onnx_open(const char *path, rlx_onnx **out, rlx_error *err);
/* Unmaps the files: weights that sessions borrow end here. NULL is fine. */
RLX_API void rlx_onnx_close(rlx_onnx *m);

/* ---- Looking at a model ---------------------------------------------------------------------- */

/* An input or output as the file declares it. Pointers belong to the model. */
typedef struct rlx_onnx_port {
    size_t struct_size;
    const char *name;
    rlx_dtype dtype;                    /* RLX_NO_TYPE when rlx has no such type; see type_name */
    const char *type_name;              /* "f32", or what ONNX calls it: "string", "sequence" */
    int32_t rank;                       /* -1: not declared */
    int64_t dim[RLX_MAX_RANK];          /* -1: named or not declared */
    const char *dim_name[RLX_MAX_RANK]; /* NULL: a number or without a name */
} rlx_onnx_port;
/* Input (those that are no weights) or output `i` in the order of the file; RLX_NOT_FOUND when
 * there is none. */
RLX_API rlx_status rlx_onnx_input(const rlx_onnx *m, size_t i, rlx_onnx_port *out, rlx_error *err);
RLX_API rlx_status rlx_onnx_output(const rlx_onnx *m, size_t i, rlx_onnx_port *out, rlx_error *err);

/* An operator that the model uses, sub-graphs and functions included. */
typedef struct rlx_onnx_operator {
    size_t struct_size;
    const char *name, *domain; /* "Conv", "ai.onnx" */
    int64_t opset;             /* the version of the domain that the model imports; 0: none */
    size_t n_nodes;            /* that use it */
    bool supported;            /* rlx knows it, or the model has a function for it */
} rlx_onnx_operator;
/* Operator `i`: unsupported ones first, then the most frequent. RLX_NOT_FOUND when there is
 * none. */
RLX_API rlx_status rlx_onnx_operator_at(const rlx_onnx *m, size_t i, rlx_onnx_operator *out,
                                        rlx_error *err);

typedef struct rlx_onnx_info {
    size_t struct_size;
    int64_t ir_version, opset;            /* of ai.onnx */
    const char *producer, *graph;         /* "" when the file says nothing */
    size_t n_nodes, n_tensors;            /* tensors: the weights of the main graph */
} rlx_onnx_info;
RLX_API rlx_status rlx_onnx_get_info(const rlx_onnx *m, rlx_onnx_info *out, rlx_error *err);

/* What the file notes under `key` (metadata_props), such as the labels of a classifier; NULL:
 * nothing. Belongs to the model. */
RLX_API const char *rlx_onnx_metadata(const rlx_onnx *m, const char *key);

/* ---- Building -------------------------------------------------------------------------------- */

/* The size of a named dimension of the file, or (name "INPUT:AXIS") of one without a name. */
typedef struct rlx_import_dim {
    const char *name;
    int64_t size;
} rlx_import_dim; /* frozen */

/* The value of an input, dense and row-major. */
typedef struct rlx_import_value {
    const char *name;
    rlx_dtype dtype;
    rlx_shape shape; /* numbers only */
    const void *data;
} rlx_import_value; /* frozen */

typedef struct rlx_import_desc {
    size_t struct_size;
    /* These dimensions become numbers; the others stay named dimensions of the graph, up to
     * dim_bound (default 1024). */
    const rlx_import_dim *dims;
    size_t n_dims;
    int64_t dim_bound;
    /* Inputs whose values decide shapes (axes, sizes, pads, scales that come as inputs): where one
     * of these is needed to build the graph, the value given here is taken, and the graph is right
     * for that value only. They stay inputs. */
    const rlx_import_value *values;
    size_t n_values;
    /* Inputs to run parts of the graph with, on `device`, where a size, a branch or the end of a
     * loop comes from data: the part before it is run, and the graph is right for what came out.
     * Dimensions without a size take that of these inputs. NULL: such graphs are refused. */
    rlx_device *device;
    const rlx_import_value *inputs;
    size_t n_inputs;
    /* The graph is for these inputs only: what was run while importing is kept as params, so that
     * it is not run again, neither by later parts nor by the graph. The data of these params lasts
     * until the next import of the model. */
    bool once;
} rlx_import_desc;

/* Builds the graph of a model; desc may be NULL. Its inputs, its weights as params (small ones as
 * constants) and its outputs have the names of the file. The caller owns *out, which does not need
 * the model; on failure it is NULL. RLX_UNSUPPORTED names the operator, its domain and version, a
 * node that uses it and how many do. Not for several threads at a time on one model. */
RLX_API rlx_status rlx_graph_import(rlx_onnx *m, const rlx_import_desc *desc, rlx_graph **out,
                                    rlx_error *err);
/* Param `i` of the graph that was built last: its name and its data in the mapped file, which lasts
 * until the model is closed. False when there is none. */
RLX_API bool rlx_onnx_param(const rlx_onnx *m, size_t i, rlx_const_tensor *out);

/* ---- Tensors in files ------------------------------------------------------------------------ */

/* Reads a file with one serialised tensor (TensorProto), as ONNX's test suites have them. On
 * success the caller frees out->data with rlx_free; on failure *out is zero. */
RLX_API rlx_status rlx_onnx_load_tensor(const char *path, rlx_npy *out, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
