/* SPDX-License-Identifier: MIT */
/* A CPU kernel's view of one step, and the table from which kernels are chosen. */
#ifndef RX_CPU_KERNEL_H
#define RX_CPU_KERNEL_H

#include "cpu/cpuid.h"
#include "ops/view.h"
#include "rlx/session.h"

struct rx_cpu_exec;
struct rx_pool;

typedef struct rx_call {
    rx_op op;
    const void *attr;    /* numbers only */
    size_t n_in, n_out;
    const rx_view *in;   /* rank -1: absent */
    const rx_view *out;  /* dense; data NULL: unused result */
    struct rx_pool *pool;/* for rx_parallel; NULL: one thread */
    struct rx_scratch *scratch;
    uint32_t *flags;     /* RLX_FLAG_*: set with rx_call_flag */
    const struct rx_pack_source *sources; /* for rx_call_packed, by operand; NULL: none */
    const rx_cpu_caches *caches;          /* NULL: RX_COMMON_CACHES */
    rlx_policy policy;
    bool invariant;      /* rx_program.invariant */
    struct rx_form *form; /* for rx_call_form; NULL: none */
    uint32_t x;          /* id of operand 0 where other calls of a run read it too; 0: none does */
    bool probe;          /* only asks whether the kernel takes the call; accesses no data */
} rx_call;

/* Operand i, or NULL when absent. */
static inline const rx_view *rx_call_in(const rx_call *c, size_t i)
{
    return i < c->n_in && c->in[i].rank >= 0 ? &c->in[i] : NULL;
}
/* Result i, or NULL when it is unused. */
static inline const rx_view *rx_call_out(const rx_call *c, size_t i)
{
    return i < c->n_out && c->out[i].data ? &c->out[i] : NULL;
}

/* Scratch memory that lives until the kernel returns; it grows once and is then reused, so a steady
 * run allocates nothing. Each call returns a new block. NULL: out of memory. */
typedef struct rx_scratch rx_scratch;
void *rx_call_scratch(const rx_call *c, uint64_t bytes);
void *rx_call_array(const rx_call *c, uint64_t n, uint64_t item);
/* Memory for a converted form of operand 0, 64-byte aligned, like rx_call_scratch. Where several
 * calls of a run read the operand (c->x) it is kept for the next one, and *made says that it holds
 * the form `kind` already: so the x of several products is quantised once. */
void *rx_call_form(const rx_call *c, uint64_t kind, uint64_t bytes, bool *made);
/* The packed form of an operand that is a weight, `bytes` long and 64-byte aligned: made by `fill`
 * once, and again when the weight has changed. NULL: the operand is not a weight, or out of memory;
 * then the kernel packs for itself. `kind` identifies the form: an RX_PACK_* plus what else the
 * form depends on; all calls with one kind ask for the same bytes. */
enum {
    RX_PACK_OTHER_WAY = 1 << 7, /* added to the next two: of a matrix that is used transposed */
    RX_PACK_PANELS = 1 << 8, /* columns in panels, as many as are added */
    RX_PACK_BYTES = 2 << 8,  /* the same for integers, four deep */
    RX_PACK_BLOCKS = 3 << 8, /* of packed types; what is added says how */
    RX_PACK_ROWS = 4 << 8,   /* rows of f32 */
    RX_PACK_TURNED = 5 << 8, /* transposed: columns as rows of f32 */
    RX_PACK_TILES = 6 << 8,  /* transformed for tiles of windows; what is added says how */
    RX_PACK_FINITE = 7 << 8  /* a bool: whether all elements are finite */
};
typedef void rx_pack_fn(void *user, void *to);
const void *rx_call_packed(const rx_call *c, size_t operand, uint32_t kind, uint64_t bytes,
                           rx_pack_fn *fill, void *user);
/* Whether an operand is a weight, for which rx_call_packed caches forms. */
bool rx_call_is_weight(const rx_call *c, size_t operand);
/* Sets bits in the run's flags; safe from any thread of the kernel. */
void rx_call_flag(const rx_call *c, uint32_t bits);

/* Runs fn(user, begin, end) over 0..n-1 in chunks of at most `chunk`, on the threads of the pool.
 * Chunk boundaries do not depend on the number of threads. Runs inline when pool is NULL or n <=
 * chunk. */
typedef void rx_range_fn(void *user, int64_t begin, int64_t end);
void rx_parallel(struct rx_pool *pool, int64_t n, int64_t chunk, rx_range_fn *fn, void *user);

/* ---- Reference kernels: cpu/ref/. Plain loops, any strides, double accumulation -------------- */

#define OP(name, family, lo, hi, out, attr, infer, lower, grad, ref, flags) \
    rlx_status rx_ref_##ref(const rx_call *c);
#include "ir/ops.def"
#undef OP

/* The reference kernel of an operation, or NULL. cpu/ref/table.c */
extern rx_kernel_fn *const rx_ref_table[RX_N_OPS];

/* ---- Fast kernels ---------------------------------------------------------------------------- */

/* A kernel may refuse a call (RLX_UNSUPPORTED, without having written anything); then the next one
 * of the chain is called, and finally the reference kernel. With c->probe a kernel that does not
 * refuse returns RLX_OK before it accesses data; the last of a chain is not probed. */
typedef struct rx_cpu_kernel {
    const char *name;       /* "sgemm.avx2", "softmax.generic" */
    rx_kernel_fn *run;
    uint8_t strided;        /* bit i: operand i may have any strides (7: all from 7 on) */
    bool is_int;            /* integer products: takes integers, or floats under policy fast */
    bool takes_rare;        /* also called for types in RX_RARE */
    const struct rx_cpu_kernel *next;
} rx_cpu_kernel;

/* A row of a list of kernels: the portable ones (cpu/generic.c) and those of each instruction set
 * (cpu/fast/). Lists end with run == NULL; of several rows of an operation the last is asked
 * first. */
typedef struct rx_fast_kernel {
    int op;            /* rx_op, or RX_ALL_ELEMENTWISE */
    const char *name;  /* "matmul.avx2" */
    rx_kernel_fn *run;
    uint8_t strided;   /* as in rx_cpu_kernel */
    bool is_int, takes_rare;
} rx_fast_kernel;

/* A row for each operation that is elementwise. */
#define RX_ALL_ELEMENTWISE (-1)

extern const rx_fast_kernel rx_generic_kernels[], rx_plain_kernels[];

#endif
