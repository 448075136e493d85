/* SPDX-License-Identifier: MIT */
/* Operations of your own: a shape rule, and a function for the CPU, a kernel for GPUs, a
 * decomposition into operations of rlx, or several of these. docs/custom.md shows one.
 *
 * A device runs its own kernel of the operation: the function `cpu` on "cpu" and "ref", `spirv` on
 * "vulkan" and "webgpu". One that lacks it takes the decomposition; with neither,
 * rlx_session_create fails with a sentence. The result must be a function of operands and
 * attributes: equal nodes are computed once, and those of constants ahead. */
#ifndef RLX_CUSTOM_H
#define RLX_CUSTOM_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Nodes ----------------------------------------------------------------------------------- */

#define RLX_MAX_FLOATS 8

/* The operation and its attributes. In the text form
 *     %3: f32[2,4] = custom(%1, %2) {op="mix", ints=[1,-2], floats=[0.5]} */
typedef struct rlx_custom_desc {
    size_t struct_size;
    const char *op; /* the name under which it was registered */
    rlx_ints ints;  /* numbers with a meaning that the operation gives them */
    double floats[RLX_MAX_FLOATS];
} rlx_custom_desc;

/* Appends a node; absent optional operands are RLX_NONE. Returns the first result; result k has the
 * following ids in order. */
RLX_API rlx_value rlx_custom(rlx_graph *g, const rlx_value *in, size_t n_in,
                             const rlx_custom_desc *d);

/* ---- What functions of an operation get ------------------------------------------------------ */

typedef struct rlx_op_tensor {
    rlx_dtype dtype; /* RLX_NO_TYPE: an absent operand */
    rlx_shape shape;
    void *data;      /* CPU functions: dense, row-major, 16-byte aligned; else NULL */
} rlx_op_tensor; /* frozen */

/* Everything belongs to the library and is valid during the call. */
typedef struct rlx_op_call {
    const rlx_custom_desc *attrs;
    size_t n_in, n_out;
    const rlx_op_tensor *in; /* [n_in]; trailing absent operands are not counted */
    rlx_op_tensor *out;      /* [n_out] */
    rlx_graph *graph;        /* shape rules: for rlx_dim_add and others; else NULL */
} rlx_op_call;

/* Sets type and shape of each result. Dimensions of operands may be named. A failure is a status
 * with a sentence in err->text; `err` is never NULL here. Called when a node is added and whenever
 * a graph is verified. */
typedef rlx_status rlx_op_shape_fn(void *user, rlx_op_call *c, rlx_error *err);
/* Computes the results: shapes are numbers, data is there. Called by one thread for each step;
 * several sessions may call it at the same time. It may use threads of its own. Any status but
 * RLX_OK ends the run. */
typedef rlx_status rlx_op_cpu_fn(void *user, const rlx_op_call *c);
/* Builds the same with operations of rlx, in `g`: the values in[0 .. n_in-1] become out[0 ..
 * n_out-1], of the types and shapes that the shape rule gives. Errors of builders stay in `g`. */
typedef rlx_status rlx_op_decompose_fn(void *user, rlx_graph *g, const rlx_custom_desc *attrs,
                                       const rlx_value *in, size_t n_in, rlx_value *out);

#define RLX_OP_MAX_WORDS 8

/* A launch of a GPU kernel. */
typedef struct rlx_op_grid {
    uint32_t groups[3];                /* to be set: workgroups; 0 in one of them: no work */
    uint32_t words[RLX_OP_MAX_WORDS];  /* to be set: push constants for the kernel */
    uint32_t n_words;                  /* to be set */
    uint32_t max_groups[3];            /* of the device */
} rlx_op_grid;

/* Sets the grid for operands and results of these shapes, which are numbers. */
typedef rlx_status rlx_op_grid_fn(void *user, const rlx_op_call *c, rlx_op_grid *grid,
                                  rlx_error *err);

/* ---- Registration ---------------------------------------------------------------------------- */

#define RLX_OP_MAX_OPERANDS 8 /* operands and results together */

/* What it points to must stay as it is until the process ends. */
typedef struct rlx_op_desc {
    size_t struct_size;
    const char *name;               /* letters, digits and _, at most 63 */
    uint32_t min_in, max_in;        /* operands; max_in 0: just min_in */
    uint32_t n_out;                 /* results; 0: one */
    rlx_op_shape_fn *shape;         /* needed */
    rlx_op_cpu_fn *cpu;             /* NULL: none */
    rlx_op_decompose_fn *decompose; /* NULL: none */
    /* The kernel for GPUs, NULL: none. SPIR-V for Vulkan 1.1 with one entry point "main" of model
     * GLCompute. Storage buffers of descriptor set 0: bindings 0 .. max_in-1 are the operands,
     * the next n_out the results. Push constants are words of 32 bits: for each binding the number
     * of the element with which its tensor begins (0xffffffff: an operand that is absent or a
     * result that nobody wants; leave it alone), then the words of the grid. Specialisation
     * constant 0 is local_size. On WebGPU the kernel is printed as WGSL, which docs/wgsl.md
     * describes. */
    const uint32_t *spirv;
    size_t spirv_words;
    uint32_t local_size;            /* invocations of a workgroup; 0: 64 */
    rlx_op_grid_fn *grid;           /* needed with spirv */
    void *user;                     /* for the functions */
} rlx_op_desc;

/* Makes an operation known to the process, for good. RLX_INVALID: the name is taken, here or in the
 * catalogue (rlx_op_name), something is missing, or spirv is not what is described above. At most
 * 256. From any thread; before graphs with it are built or parsed. */
RLX_API rlx_status rlx_op_register(const rlx_op_desc *d, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
