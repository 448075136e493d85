/* SPDX-License-Identifier: MIT */
/* What Vulkan and WebGPU share: how a step with known sizes becomes dispatches of kernels.
 *
 * A lowering function (rx_gpu_lower_*, one file a family in gpu/select) looks at the operands'
 * sizes and strides and adds dispatches; gpu/split cuts steps whose tensors are larger than a
 * binding. gpu/exec/bind.c calls it when dimensions are bound and resolves each binding to a range
 * of memory; a backend records the dispatches once, with the barriers that their byte ranges need,
 * and replays them. */
#ifndef RX_GPU_GPU_H
#define RX_GPU_GPU_H

#include "compile/target.h"
#include "gpu/params.h"
#include "ops/view.h"
#include "runtime/knob.h"

/* ---- What the device offers ------------------------------------------------------------------ */

/* Choices between kernel variants: gpu/knobs.c has the table, in this order. */
typedef enum rx_gpu_knob_id {
    RX_KNOB_TILE, RX_KNOB_QUANT_TILE, RX_KNOB_GEMV, RX_KNOB_GEMV_LINE, RX_KNOB_QUANT_GEMV,
    RX_KNOB_MATRICES, RX_KNOB_KEYS,
    RX_N_KNOBS
} rx_gpu_knob_id;

typedef struct rx_gpu_caps {
    uint32_t max_invocations;  /* in a workgroup; at least 128 */
    uint32_t max_shared_bytes; /* at least 16 KiB */
    uint32_t max_groups[3];    /* of a dispatch, per axis */
    uint32_t max_push_bytes;   /* at least 128 */
    uint32_t max_bindings;     /* storage buffers of a kernel; at least 8 */
    uint64_t max_binding_bytes;
    uint32_t binding_align;    /* bytes */
    uint32_t subgroup;         /* size; 0: no subgroup operations at all */
    uint32_t subgroup_least;   /* smallest size that the device has; 0: unknown */
    bool subgroup_32;          /* kernels can be told to have subgroups of 32 */
    bool subgroup_arith, subgroup_shuffle; /* add, max, ...; shuffle */
    bool loose_barriers;       /* no uniformity analysis: control flow around barriers may depend on
                                * shared memory */
    bool f16;                  /* arithmetic in half precision */
    bool storage16, storage8;  /* buffers of 16-bit and 8-bit elements */
    bool int8, int16;          /* arithmetic */
    bool subnormals;           /* kernels can be told to keep subnormal f32 numbers */
    bool address;              /* buffer device addresses */
    bool int_dot;              /* packed 4x8 integer dot products are fast */
    bool int_dot_signed;       /* only those of two signed operands are */
    bool coherent;             /* workgroups of a dispatch can see what others have written */
    bool chains;               /* dispatches may wait for one another inside of kernels */
    bool coopmat_f16, coopmat_bf16; /* cooperative matrices, f32 accumulation */
    bool coopmat_f16_acc;      /* the same with f16 accumulation */
    uint32_t coopmat_m, coopmat_n, coopmat_k; /* their shape */
    uint32_t coopmat_subgroup; /* size of the subgroups of kernels that use them */
    bool coopmat_fragments;    /* the self-check found the layout packed kernels need */
    bool is_software;          /* runs on the CPU (lavapipe, SwiftShader): small tiles */
    bool windows;              /* the backend binds rx_gpu_dispatch.window, so that tensors may
                                * exceed a binding */
    bool joins;                /* overlapping bindings are merged into one, which must fit the limit
                                * too */
    uint32_t compute_units;    /* 0: unknown */
    rx_knobs knobs;            /* set by calibration */
} rx_gpu_caps;

/* False with a sentence when the device `name` is below the minimum limits: caps.c. */
bool rx_gpu_caps_enough(const rx_gpu_caps *c, const char *name, char why[256]);

const rx_knob *rx_gpu_knobs(size_t *n);
/* The words of the variant forced on this device; NULL: the lowering function chooses by size. */
const uint32_t *rx_gpu_knob(const rx_gpu_caps *caps, rx_gpu_knob_id id);

/* ---- Kernels --------------------------------------------------------------------------------- */

typedef enum rx_kernel {
#define KERNEL(name, file, defines, family, needs) RX_K_##name,
#include "gpu/kernels.def"
    RX_N_KERNELS,
    RX_K_EMITTED = RX_N_KERNELS /* SPIR-V written at run time: dispatch.code */
} rx_kernel;

typedef struct rx_kernel_info {
    const char *name;
    rx_contract contract;
    uint32_t needs;
} rx_kernel_info;
extern const rx_kernel_info rx_kernels[RX_N_KERNELS];

/* Names of word `i` of its push constants ("dim[2]" is made in `room`), of specialisation constant
 * i and of binding i, for dumps; NULL when there is none, as for RX_K_EMITTED. */
const char *rx_kernel_push_name(rx_kernel k, uint32_t i, char room[64]);
const char *rx_kernel_spec_name(rx_kernel k, uint32_t i);
/* Their rows; NULL when there is none. */
const rx_param *rx_kernel_push(rx_kernel k, uint32_t i);
const rx_param *rx_kernel_spec(rx_kernel k, uint32_t i);
const char *rx_kernel_bind_name(rx_kernel k, uint32_t i);

/* SPIR-V words of a kernel, decompressed once; owned by the process. NULL: out of memory. */
const uint32_t *rx_kernel_code(rx_kernel k, size_t *n_words);
/* True when the device offers all that the kernel needs. */
bool rx_kernel_available(rx_kernel k, const rx_gpu_caps *caps);

/* ---- A step as a lowering function sees it --------------------------------------------------- */

/* In the views `data` is not a pointer but the byte offset from the start of the operand's own
 * memory, as (char *)offset; views that are not dense have it too. Absent operands have rank -1. */
/* A step merged into another (merges.c): the prologue of a product (rms_norm or mul, whose result
 * is operand 0) or of a state_write (rope, whose result is the update), or a part of an
 * epilogue. */
#define RX_MERGED_OPERANDS 6
typedef struct rx_gpu_merged {
    rx_op op;
    const void *attr;
    const rx_view *in; /* x and gamma, both factors, the four of rope, or those of a product */
} rx_gpu_merged;

/* The epilogue of a product: rope, state_write, or rope then state_write; or the multiplication of
 * its result with that of another product of the same rows, the pair. */
typedef struct rx_gpu_epilogue {
    const rx_gpu_merged *rope, *write, *pair; /* NULL: absent; one is present */
    const rx_view *out;                     /* the result of the last */
} rx_gpu_epilogue;
/* Operand i of call->epilogue->pair, for rx_gpu_derive. */
#define RX_PAIR_IN(i) (0x100u + (uint32_t)(i))

/* A split of the keys of an attention: k and v are the keys (of a paged cache: the pages) first ..
 * end - 1 of `total`, and result 0 receives partial sums, number `index` of n for each row. With
 * `merge` operand 2 is those sums and result 0 the attention. */
typedef struct rx_gpu_keys {
    int64_t first, end, total;
    uint32_t index, n;
    bool merge;
} rx_gpu_keys;

typedef struct rx_gpu_call {
    rx_op op;
    const void *attr;  /* numbers only */
    size_t n_in, n_out;
    const rx_view *in, *out;
    const bool *is_param; /* operand i is a weight: its bytes change rarely */
    const uint32_t *roots; /* by operand, then by result: the value that owns its memory; NULL:
                            * unknown */
    const rx_gpu_caps *caps;
    rlx_policy policy;
    bool invariant;    /* rx_program.invariant */
    /* A slice of a step that was split: its offset and the extent of the whole step along the split
     * axis; extent 0 means unsplit. The axis is: gathers, the rows of the table (indices outside of
     * the slice are skipped); attention, queries; knn and sample, rows; random_*, elements. */
    int64_t part_first, part_total;
    const rx_gpu_keys *keys; /* attention: which keys; NULL: all */
    uint32_t aliased; /* bit i: operand i shares memory with a result at another offset */
    const rx_gpu_merged *prologue; /* NULL: none. Only where rx_quant_takes_prologue or
                                    * rx_rope_takes_write says so */
    const rx_gpu_epilogue *epilogue; /* NULL: none. Only where rx_quant_takes_epilogue says so */
} rx_gpu_call;

static inline const rx_view *rx_gpu_in(const rx_gpu_call *c, size_t i)
{
    return i < c->n_in && c->in[i].rank >= 0 ? &c->in[i] : NULL;
}
/* Offset of a view's first element in its memory, in elements. */
static inline uint32_t rx_gpu_offset(const rx_view *v)
{
    return (uint32_t)((uint64_t)(uintptr_t)v->data / (uint64_t)rlx_dtype_block_bytes(v->dtype));
}

/* What a binding refers to (rx_gpu_ref). */
#define RX_REF_NONE 0u                            /* unused: any buffer is bound */
#define RX_REF_IN(i) (0x1000u + (rx_gpu_ref)(i))  /* the memory of operand i */
#define RX_REF_OUT(i) (0x2000u + (rx_gpu_ref)(i)) /* the memory of result i */
#define RX_REF_SCRATCH 0x3000u                    /* + handle of rx_gpu_scratch */
#define RX_REF_DERIVED 0x4000u                    /* + handle of rx_gpu_derive */
#define RX_REF_FLAGS 0x5000u                      /* one word of RLX_FLAG_* bits, for atomicOr */
#define RX_REF_TABLE 0x6000u                      /* + handle of rx_gpu_add_table */
#define RX_REF_PROLOGUE 0x7000u                   /* + operand of call->prologue */
#define RX_REF_ROPE 0x8000u                       /* + operand of call->epilogue->rope */
#define RX_REF_WRITE 0x9000u                      /* + operand of call->epilogue->write */
#define RX_REF_EPILOGUE 0xa000u                   /* the result of call->epilogue */

/* The bound range of a tensor's memory, from byte `at` on; bytes 0: all of it. */
typedef struct rx_gpu_window {
    uint64_t at, bytes;
} rx_gpu_window;

typedef struct rx_gpu_dispatch {
    rx_kernel kernel;
    const uint32_t *code;      /* RX_K_EMITTED: words, in the build's arena */
    size_t code_words;
    const char *name;          /* RX_K_EMITTED: of the operation that a program registered */
    rx_gpu_ref bind[RX_GPU_MAX_BIND];
    rx_gpu_window window[RX_GPU_MAX_BIND];
    uint32_t n_bind, writes;   /* writes: bit i, binding i is written (it may be read too) */
    uint32_t spec[RX_GPU_MAX_SPEC]; /* specialisation constants 0, 1, ...; 0 is local_size_x */
    uint32_t n_spec;
    uint32_t push[RX_GPU_MAX_PUSH]; /* push constants, 32-bit words */
    uint32_t n_push;
    uint8_t address[RX_GPU_MAX_BIND]; /* by binding: rx_gpu_push_address */
    uint32_t groups[3];
} rx_gpu_dispatch;

/* Collects the dispatches of one step. Errors (out of memory, too many) are sticky and returned by
 * the caller of the lowering function, so that lowering functions need not check. */
typedef struct rx_gpu_build {
    rx_arena *arena;
    rx_gpu_dispatch *dispatch;
    size_t n, cap;
    uint64_t *scratch;         /* bytes of each scratch piece */
    size_t n_scratch, cap_scratch;
    size_t most_scratch;       /* the largest n_scratch while parts of the step were lowered */
    uint64_t asked;            /* bytes of the largest scratch piece requested since it was last
                                * cleared */
    const rx_gpu_call *whole;  /* the unsplit step, while its parts are lowered */
    struct rx_gpu_derived *derived;
    size_t n_derived, cap_derived;
    struct rx_gpu_table *tables;
    size_t n_tables, cap_tables;
    rlx_status status;
    rlx_error *err;
} rx_gpu_build;

/* A new dispatch of kernel k with local size `local` (spec[0]), all else zero. Never NULL: after an
 * error it is a dummy. */
rx_gpu_dispatch *rx_gpu_add(rx_gpu_build *b, rx_kernel k, uint32_t local);
/* Sets the kernel of a dispatch, whose contract is c, and all of `args`, an rx_args_* of that
 * contract (gpu/params.h). Bindings that the contract declares writable are marked as written,
 * unless they are RX_REF_NONE. */
void rx_gpu_set_args(rx_gpu_build *b, rx_gpu_dispatch *d, rx_kernel k, rx_contract c,
                     uint32_t local, const void *args);
/* For each family F rx_add_F, a new dispatch of one of its kernels with these arguments, and
 * rx_set_F, which does the same with a dispatch of rx_gpu_derive. */
#define FAMILY(f)                                                                            \
    static inline void rx_set_##f(rx_gpu_build *b, rx_gpu_dispatch *d, rx_kernel k,          \
                                  uint32_t local, const rx_args_##f *args)                   \
    {                                                                                        \
        rx_gpu_set_args(b, d, k, RX_CONTRACT_##f, local, args);                              \
    }                                                                                        \
    static inline rx_gpu_dispatch *rx_add_##f(rx_gpu_build *b, rx_kernel k, uint32_t local,  \
                                              const rx_args_##f *args)                       \
    {                                                                                        \
        rx_gpu_dispatch *d = rx_gpu_add(b, k, local);                                        \
        rx_set_##f(b, d, k, local, args);                                                    \
        return d;                                                                            \
    }
#define END(f)
#include "gpu/kernels.def"
/* For emitted kernels: appends a binding or a push constant. Exceeding the limit fails the
 * build. */
void rx_gpu_bind(rx_gpu_build *b, rx_gpu_dispatch *d, rx_gpu_ref ref, bool writes);
void rx_gpu_push(rx_gpu_build *b, rx_gpu_dispatch *d, uint32_t word);
/* Words `word` (not 0) and word + 1 of the push constants become the device address of a binding,
 * for kernels with RX_NEEDS_ADDRESS. The binding stays, since hazards follow from it. */
void rx_gpu_push_address(rx_gpu_dispatch *d, uint32_t binding, uint32_t word);
/* The same by the names of a family: push constant `low` and the one that follows it. */
#define RX_PUSH_ADDRESS(d, family, binding, low)                                \
    rx_gpu_push_address(d, (uint32_t)(offsetof(rx_bind_##family, binding) / 4), \
                        (uint32_t)(offsetof(rx_push_##family, low) / 4))
/* Sets groups so that their product is at least n: kernels use GROUP_INDEX of common.glsl and check
 * it against their own bound. Stays within the limits of each axis; n == 0 gives an empty grid. */
void rx_gpu_grid(rx_gpu_dispatch *d, const rx_gpu_caps *caps, uint64_t n);
/* Device memory that lives for the duration of the step; returns the ref to bind. */
rx_gpu_ref rx_gpu_scratch(rx_gpu_build *b, uint64_t bytes);
/* `bytes` bytes computed once from weight operand `in` by `pack` (a dispatch of the build that
 * binds the weight and the derived ref) and kept until the weight changes. `kind` distinguishes
 * packed forms of one weight; the same (weight, kind) is shared by all steps. Only for operands
 * with is_param. */
typedef struct rx_gpu_derived {
    uint32_t in, kind;
    uint64_t bytes;
    rx_gpu_dispatch pack;
} rx_gpu_derived;
rx_gpu_ref rx_gpu_derive(rx_gpu_build *b, uint32_t in, uint32_t kind, uint64_t bytes,
                         rx_gpu_dispatch **pack);

/* A constant table; the bytes are copied and live as long as the dispatches. */
typedef struct rx_gpu_table {
    const void *data; /* in the build's arena */
    uint64_t bytes;
} rx_gpu_table;
rx_gpu_ref rx_gpu_add_table(rx_gpu_build *b, const void *data, uint64_t bytes);

/* Fails the build: "device has no kernel for ..." */
rlx_status rx_gpu_fail(rx_gpu_build *b, const rx_gpu_call *c, const char *why);

/* ---- The table: gpu/ops.def ------------------------------------------------------------------ */

typedef rlx_status rx_gpu_lower_fn(rx_gpu_build *b, const rx_gpu_call *c);
typedef struct rx_gpu_op {
    rx_gpu_lower_fn *lower; /* NULL: no kernel */
    uint32_t strided;       /* bit i: operand i may have any strides; others are dense */
} rx_gpu_op;
extern const rx_gpu_op rx_gpu_ops[RX_N_OPS];

/* Lowers one step. */
rlx_status rx_gpu_lower(rx_gpu_build *b, const rx_gpu_call *c);
/* rx_target.exact_rows and row_multiple. Products of few rows and attention switch kernels below 32
 * rows; the tiles of the others are multiples of 16. */
#define RX_GPU_EXACT_ROWS 32
#define RX_GPU_ROW_MULTIPLE 16
/* rx_target functions for a device with these caps. */
rlx_support rx_gpu_support(const rx_target *t, const rlx_graph *g, const rx_node *n);
bool rx_gpu_takes_strided(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i);
rlx_support rx_gpu_op_support(rx_op op);

#define GPU(op, lower, strided) \
    rlx_status rx_gpu_lower_##lower(rx_gpu_build *b, const rx_gpu_call *c);
#include "gpu/ops.def"
#undef GPU

#endif
