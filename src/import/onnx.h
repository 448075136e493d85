/* SPDX-License-Identifier: MIT */
/* A parsed ONNX model: structure in an arena, strings and data in the mapped files. The reader has
 * checked the syntax; semantics are checked when a graph is built. */
#ifndef RX_IMPORT_ONNX_H
#define RX_IMPORT_ONNX_H

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "import/protobuf.h"
#include "rlx/onnx.h"

/* Nesting limit of sub-graphs and of functions that call functions. */
#define RX_ONNX_MAX_DEPTH 32

/* AttributeProto.AttributeType */
enum {
    RX_ONNX_FLOAT = 1, RX_ONNX_INT = 2, RX_ONNX_STRING = 3, RX_ONNX_TENSOR = 4, RX_ONNX_GRAPH = 5,
    RX_ONNX_FLOATS = 6, RX_ONNX_INTS = 7, RX_ONNX_STRINGS = 8
};

/* A tensor in row-major order. */
typedef struct rx_onnx_tensor {
    const char *name;
    int32_t type;       /* TensorProto.DataType */
    rlx_shape shape;    /* numbers only */
    rx_bytes raw;       /* raw_data, little-endian; types of fixed width */
    rx_bytes list;      /* typed data (float_data, ...), packed, not yet decoded */
    uint32_t list_field;/* the field number of `list`, 0: none */
    const char *location; /* of external data, NULL: none */
    uint64_t offset, length;
    bool has_length;
    bool ordered;       /* raw is a copy in the byte order of this machine */
    bool loose;         /* typed data that is not packed: decoded from `message` */
    rx_bytes message;
} rx_onnx_tensor;

struct rx_onnx_graph;

typedef struct rx_onnx_attr {
    const char *name, *ref; /* ref: ref_attr_name, an attribute of the function's caller; or NULL */
    int32_t type;
    int64_t i;
    float f;
    rx_bytes s;
    const rx_onnx_tensor *t;
    const struct rx_onnx_graph *g;
    const int64_t *ints;
    const float *floats;
    const rx_bytes *strings;
    size_t n; /* of ints, floats or strings */
} rx_onnx_attr;

typedef struct rx_onnx_node {
    const char *name, *op, *domain; /* domain: "" is ai.onnx */
    const char **in, **out;         /* "" is an absent operand */
    size_t n_in, n_out;
    const rx_onnx_attr *attrs;
    size_t n_attrs;
} rx_onnx_node;

typedef struct rx_onnx_graph {
    const char *name;
    const rx_onnx_node *nodes;
    const rx_onnx_tensor *tensors;
    rlx_onnx_port *inputs, *outputs; /* inputs of the main graph exclude initialisers */
    size_t n_nodes, n_tensors, n_inputs, n_outputs;
} rx_onnx_graph;

typedef struct rx_onnx_opset {
    const char *domain;
    int64_t version;
} rx_onnx_opset;

typedef struct rx_onnx_function {
    const char *name, *domain;
    const char **in, **out;
    size_t n_in, n_out;
    const rx_onnx_attr *defaults; /* of attributes that a call omits */
    size_t n_defaults;
    const rx_onnx_opset *opsets;
    size_t n_opsets;
    rx_onnx_graph body;
} rx_onnx_function;

typedef struct rx_onnx_note {
    const char *key, *value;
} rx_onnx_note;

struct rlx_onnx {
    const char *path;
    rx_arena arena;
    rx_file file;
    int64_t ir_version;
    const char *producer;
    const rx_onnx_opset *opsets;
    size_t n_opsets;
    rx_onnx_graph graph;
    const rx_onnx_function *functions;
    size_t n_functions;
    const rx_onnx_note *notes; /* metadata */
    size_t n_notes;
    rlx_onnx_operator *operators;
    size_t n_operators;
    rx_file *externals; /* mapped files of external data, and their names */
    const char **external_names;
    size_t n_externals, cap_externals, cap_external_names;
    rlx_const_tensor *params; /* of the graph built last */
    size_t n_params, cap_params;
    rx_arena kept; /* results computed on the device while importing */
};

/* ---- Element types: onnx_tensor.c ------------------------------------------------------------ */

typedef struct rx_onnx_type {
    int32_t number; /* TensorProto.DataType */
    const char *name;
    rlx_dtype dtype; /* RLX_NO_TYPE: rlx has none */
    uint32_t list;   /* the field of typed data */
    int bits;        /* of a narrow type that rlx holds one element a byte: 8, 4 or 2; else 0 */
} rx_onnx_type;
/* NULL for a number that is no ONNX type. */
const rx_onnx_type *rx_onnx_type_of(int64_t number);
/* The type by its ONNX name, or the one whose rlx type is `dtype`; NULL: none. */
const rx_onnx_type *rx_onnx_type_named(const char *name);
const rx_onnx_type *rx_onnx_type_like(rlx_dtype dtype);

/* Reads a TensorProto; its data stays where it is. */
rlx_status rx_onnx_tensor_read(rlx_onnx *m, rx_bytes message, rx_onnx_tensor *t, rlx_error *err);
/* The elements of a tensor in rlx's layout: in the mapped file where the layout is the same there,
 * else decoded into the model's arena. */
rlx_status rx_onnx_tensor_data(rlx_onnx *m, const rx_onnx_tensor *t, rlx_dtype *dtype,
                               rx_bytes *data, rlx_error *err);
/* Maps a file of external data, once; the path is checked to stay in the model's folder. */
rlx_status rx_onnx_external(rlx_onnx *m, const rx_onnx_tensor *t, rx_bytes *data, rlx_error *err);

/* ---- Structure: onnx_read.c ------------------------------------------------------------------ */

rlx_status rx_onnx_read(rlx_onnx *m, rx_bytes message, rlx_error *err);
/* Copies a string of the file into the arena; a string with zero bytes is damaged. */
rlx_status rx_onnx_text(rlx_onnx *m, rx_bytes text, const char **out, rlx_error *err);
/* Brings nodes behind those whose results they or their sub-graphs use (onnx_order.c). */
rlx_status rx_onnx_sort_nodes(rlx_onnx *m, rx_onnx_graph *g, rlx_error *err);
/* RLX_PARSE: `what` is no valid protobuf. */
rlx_status rx_onnx_damaged(const rlx_onnx *m, const char *what, rlx_error *err);

/* Opens a model from memory that the caller keeps until it is closed; external data is looked up in
 * the folder of `path`. */
rlx_status rx_onnx_from_memory(const void *data, size_t bytes, const char *path, rlx_onnx **out,
                               rlx_error *err);

/* Fills the list of operators. */
rlx_status rx_onnx_count_operators(rlx_onnx *m, rlx_error *err);
/* The opset version that the model imports of a domain; 0: none. */
int64_t rx_onnx_opset_version(const rx_onnx_opset *sets, size_t n, const char *domain);
const rx_onnx_function *rx_onnx_find_function(const rlx_onnx *m, const char *domain,
                                              const char *name);

#endif
