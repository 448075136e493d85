/* SPDX-License-Identifier: MIT */
/* Writes the SPIR-V of elementwise kernels: regions, single operations and copies.
 *
 * A kernel has one storage buffer of words for each input and output. One invocation ("item")
 * makes `per_item` consecutive elements of every output, whole words, so that no two invocations
 * write the same word. The structure (types, rank, which strides are 0 or 1) is in the code;
 * sizes, strides and offsets are push constants as long as they fit, so that one pipeline serves
 * many sizes. */
#ifndef RX_SPIRV_EMIT_H
#define RX_SPIRV_EMIT_H

#include "ir/op.h"
#include "spirv/module.h"

/* ---- What to write --------------------------------------------------------------------------- */

#define RX_EMIT_MAX_BIND 10
#define RX_EMIT_MAX_PUSH 32

typedef enum rx_access {
    RX_ACCESS_WIDE,  /* per_item consecutive elements, aligned: as words or vectors of words */
    RX_ACCESS_EACH,  /* per_item elements, one by one */
    RX_ACCESS_SPLAT  /* one element for all of them */
} rx_access;

/* Addressing of an operand for an item with coordinates c: offset + sum of c[i] * stride[i]. Units
 * are per_item elements for WIDE, elements for others; element k of EACH is k * step further.
 * Outputs are WIDE, dense, and only have an offset. */
typedef struct rx_emit_operand {
    rlx_dtype dtype; /* of a copy: any type of as many bytes */
    rx_access access;
    uint32_t offset, step;
    uint32_t stride[RLX_MAX_RANK]; /* modulo 2^32: negative ones work */
} rx_emit_operand;

typedef struct rx_emit_kernel {
    const rx_region *region;     /* NULL: output 0 takes the bits of input 0 */
    rx_emit_operand in[RX_EMIT_MAX_BIND], out[RX_EMIT_MAX_BIND];
    uint32_t n_in, n_out;
    uint32_t per_item;           /* 1, 2, 4, 8 or 16; every output has whole words */
    /* Items have coordinates below dim[0..rank-1]. Else (`singly`) elements have: the elements of
     * an item may be in several rows, and coordinates are computed for each; no input is WIDE. */
    bool singly;
    int rank;
    uint32_t dim[RLX_MAX_RANK];
    uint32_t n_items, n_elements;
    uint32_t local;              /* invocations of a workgroup */
    uint32_t max_push;           /* words of push constants that may be used */
    uint32_t push[RX_EMIT_MAX_PUSH]; /* result: what to push */
    uint32_t n_push;
} rx_emit_kernel;

/* The words of the kernel, in `arena`, and k->push. Bindings are the inputs, then the outputs.
 * NULL: out of memory. */
uint32_t *rx_emit_kernel_words(rx_emit_kernel *k, rx_arena *arena, size_t *n_words);

/* ---- Between the files of the emitter -------------------------------------------------------- */

struct rx_emit;
/* A function of the module, written when it is first called. The signature has the type of the
 * result and those of the parameters: f float, u uint, v uvec2, w uvec4. */
typedef struct rx_emit_fn {
    const char *signature;
    rx_id (*body)(struct rx_emit *e, const rx_id *a);
    bool in_place; /* the body is written at each call */
} rx_emit_fn;

#define RX_EMIT_MAX_FN 96

typedef struct rx_emit {
    rx_spv m;
    rx_id t_void, t_bool, t_u32, t_f32, t_pair, t_u32x2, t_u32x4, t_f32x2;
    const rx_emit_fn *fn[RX_EMIT_MAX_FN];
    rx_id fn_id[RX_EMIT_MAX_FN];
    size_t n_fn;
} rx_emit;

/* An element inside the kernel. Floats of any type are f32; i8, u8, i32 are a uint with the sign
 * extended; bool is the uint 0 or 1; i64 has its high word in hi. */
typedef struct rx_emit_value {
    rx_id id, hi;
} rx_emit_value;

rx_id rx_emit_call(rx_emit *e, const rx_emit_fn *fn, const rx_id *args);

/* One instruction; all arguments but the condition of where have type `arg`. */
rx_emit_value rx_emit_instr(rx_emit *e, const rx_instr *in, rlx_dtype arg, const rx_emit_value *a);
/* The same where arguments and result are floats: emit_math.c. */
rx_id rx_emit_float(rx_emit *e, const rx_instr *in, const rx_id *a);
/* Where arguments are floats and the result is bool, as the uint 0 or 1. */
rx_id rx_emit_float_test(rx_emit *e, const rx_instr *in, const rx_id *a);
/* Where arguments and result are integers or bool: emit_int.c. */
rx_emit_value rx_emit_int(rx_emit *e, const rx_instr *in, rlx_dtype arg, const rx_emit_value *a);
/* Between types: emit_cast.c. */
rx_emit_value rx_emit_cast(rx_emit *e, rlx_dtype from, rlx_dtype to, rx_emit_value x);
/* Stored bits (in the low end of id; i64: both) to a value and back. Encoding leaves zeros
 * above. */
rx_emit_value rx_emit_decode(rx_emit *e, rlx_dtype t, rx_emit_value bits);
rx_emit_value rx_emit_encode(rx_emit *e, rlx_dtype t, rx_emit_value x);

#endif
