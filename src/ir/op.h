/* SPDX-License-Identifier: MIT */
/* The operation table ops.def as C: opcodes, properties, attribute records and their fields. */
#ifndef RX_IR_OP_H
#define RX_IR_OP_H

#include "base/error.h"
#include "base/mem.h"
#include "rlx/custom.h"
#include "rlx/ops.h"

typedef enum rx_op {
#define OP(name, ...) RX_OP_##name,
#include "ir/ops.def"
#undef OP
    RX_N_OPS
} rx_op;

typedef enum rx_family {
    RX_FAMILY_leaf, RX_FAMILY_unary, RX_FAMILY_binary, RX_FAMILY_compare, RX_FAMILY_select,
    RX_FAMILY_region, RX_FAMILY_matrix, RX_FAMILY_norm, RX_FAMILY_attention, RX_FAMILY_shape,
    RX_FAMILY_index, RX_FAMILY_reduce, RX_FAMILY_order, RX_FAMILY_conv, RX_FAMILY_recurrent,
    RX_FAMILY_signal, RX_FAMILY_random, RX_FAMILY_custom
} rx_family;

enum {
    RX_OP_ELEMENTWISE = 1 << 0, /* E */
    RX_OP_VIEW = 1 << 1,        /* V */
    RX_OP_INPLACE = 1 << 2,     /* I */
    RX_OP_EFFECT = 1 << 3,      /* X */
    RX_OP_LEAF = 1 << 4,        /* L */
    RX_OP_IDEMPOTENT = 1 << 5,  /* f(f(x)) is f(x) */
    RX_OP_INVOLUTION = 1 << 6,  /* f(f(x)) is x */
    RX_OP_MOVES = 1 << 7        /* M */
};

#define RX_ANY_COUNT 0xffff

/* ---- Attribute records that are not public -------------------------------------------------- */

typedef struct rx_no_attr { char unused; } rx_no_attr;

/* input, param, constant, state */
typedef struct rx_leaf_attr {
    const char *name; /* NULL for constants */
    rlx_dtype dtype;
    rlx_shape shape;
    const void *data; /* constants: `bytes` bytes in the graph's arena */
    uint64_t bytes;
} rx_leaf_attr;

/* One instruction of a fused region. Arguments below n_in are the region's inputs, others are
 * n_in + the index of an earlier instruction. Float results are not rounded between instructions,
 * except by cast. */
typedef struct rx_instr {
    uint16_t op;       /* an elementwise rx_op */
    uint16_t arg[3];
    rlx_dtype dtype;   /* of the result */
    double p[2];       /* alpha, beta | lo, hi | floored */
} rx_instr;

typedef struct rx_region {
    uint16_t n_in, n_instr, n_out;
    const rx_instr *instr;
    const uint16_t *out; /* n_out instruction indices */
} rx_region;

/* Of operations whose builders take no descriptor; their parameters are those of the builders. */
typedef struct rx_unary_attr {
    double alpha, beta; /* selu: alpha and gamma */
} rx_unary_attr;
typedef struct rx_mod_attr { bool floored; } rx_mod_attr;
typedef struct rx_clamp_attr { double lo, hi; } rx_clamp_attr;
typedef struct rx_cast_attr { rlx_dtype to; } rx_cast_attr;
typedef struct rx_lora_attr { double scale; } rx_lora_attr;
typedef struct rx_grouped_attr { bool trans_b; } rx_grouped_attr;
typedef struct rx_shape_attr { rlx_ints shape; } rx_shape_attr;
typedef struct rx_perm_attr { rlx_ints perm; } rx_perm_attr;
typedef struct rx_narrow_attr { int64_t axis; rlx_dim start, length; } rx_narrow_attr;
typedef struct rx_split_attr { int64_t axis; rlx_ints sizes; } rx_split_attr;
typedef struct rx_tile_attr { rlx_ints repeats; } rx_tile_attr;
typedef struct rx_pad_attr {
    rlx_ints before, after;
    rlx_pad_mode mode;
    double value;
} rx_pad_attr;
typedef struct rx_axes_attr { rlx_ints axes; } rx_axes_attr;
typedef struct rx_roll_attr { int64_t axis, shift; } rx_roll_attr;
typedef struct rx_trilu_attr { bool upper; int64_t k; } rx_trilu_attr;
typedef struct rx_gather_nd_attr { int64_t batch_dims; } rx_gather_nd_attr;
typedef struct rx_scatter_attr { int64_t axis; rlx_scatter_mode mode; } rx_scatter_attr;
typedef struct rx_axis_attr { int64_t axis; } rx_axis_attr;
typedef struct rx_reduce_attr { rlx_ints axes; bool keepdims; } rx_reduce_attr;
typedef struct rx_log_mel_attr { bool peak_per_frame; } rx_log_mel_attr;
typedef struct rx_k_attr { int64_t k; } rx_k_attr;

/* ---- Fields of attribute records ------------------------------------------------------------ */

typedef enum rx_attr_kind {
    RX_ATTR_END = 0,
    RX_ATTR_INT,    /* int64_t */
    RX_ATTR_FLOAT,  /* double */
    RX_ATTR_BOOL,   /* bool */
    RX_ATTR_ENUM,   /* a C enum; `names` has its words, NULL-terminated */
    RX_ATTR_DTYPE,  /* rlx_dtype */
    RX_ATTR_DIM,    /* rlx_dim, may be named */
    RX_ATTR_INTS,   /* rlx_ints of numbers */
    RX_ATTR_DIMS,   /* rlx_ints of dimensions */
    RX_ATTR_FLOATS, /* double[count]; trailing zeros are not printed */
    RX_ATTR_STRING, /* const char * */
    RX_ATTR_SHAPE,  /* rlx_shape */
    RX_ATTR_BYTES,  /* const void * followed by uint64_t */
    RX_ATTR_REGION  /* the whole record is an rx_region */
} rx_attr_kind;

typedef struct rx_attr_field {
    const char *name;
    uint16_t kind, offset, count;
    const char *const *names;
} rx_attr_field;

typedef struct rx_attr_info {
    const char *name;
    const char *type; /* the C type */
    bool is_desc;     /* a public descriptor: begins with struct_size, which is no attribute */
    size_t size;
    const rx_attr_field *fields; /* ends with kind RX_ATTR_END */
} rx_attr_info;

#define ATTRS(name, type) extern const rx_attr_info rx_attr_##name;
#include "ir/attr.def"
#undef ATTRS

/* ---- The table ------------------------------------------------------------------------------ */

struct rx_infer;
struct rx_lower;
struct rx_call;
typedef rlx_status rx_infer_fn(struct rx_infer *c);
typedef rlx_status rx_lower_fn(struct rx_lower *c);
typedef rlx_status rx_kernel_fn(const struct rx_call *c);

typedef struct rx_op_info {
    const char *name;
    rx_family family;
    uint16_t min_in, max_in, n_out; /* RX_ANY_COUNT: no limit; by attribute */
    uint16_t flags;
    const rx_attr_info *attr;
    rx_infer_fn *infer;
} rx_op_info;

extern const rx_op_info rx_ops[RX_N_OPS];

/* The operation of that name, or RX_N_OPS. */
rx_op rx_op_find(const char *name, size_t length);
const char *rx_family_name(rx_family f);

/* Every rx_infer_* function of the table. */
#define RX_DECLARE_INFER(fn) rlx_status rx_infer_##fn(struct rx_infer *c);
#define OP(name, family, lo, hi, out, attr, infer, lower, grad, ref, flags) RX_DECLARE_INFER(infer)
#include "ir/ops.def"
#undef OP

#endif
