/* SPDX-License-Identifier: MIT */
/* What GPU backends derive from a program before any API call: values as views, steps as calls of
 * lowering functions, the arena in blocks of limited size, limits from RLX_LIMITS. */
#ifndef RX_GPU_PLAN_H
#define RX_GPU_PLAN_H

#include "compile/program.h"
#include "gpu/gpu.h"
#include "gpu/split/split.h"
#include "runtime/backend.h"
#include "runtime/bound.h"

/* ---- Values: values.c --- */

/* The values of a program for one set of dimensions. In the views `data` is the byte offset in the
 * memory of the value's root. */
typedef struct rx_gpu_values {
    const rx_program *program;
    rx_bound bound;
    uint32_t *roots;   /* by value: the value that owns its memory */
    rx_view *operands; /* operands of the current call */
    bool *is_param;
    uint32_t *operand_roots;
} rx_gpu_values;

/* Allocates from the arena; false: out of memory. */
bool rx_gpu_values_init(rx_gpu_values *v, const rx_program *p, rx_arena *a);
/* The call of a step, valid until the next one. */
rx_gpu_call rx_gpu_values_call(rx_gpu_values *v, size_t step, const rx_gpu_caps *caps);
/* The key of a packed form of a weight: kind, size and view. */
uint64_t rx_gpu_derived_key(const rx_view *v, const rx_gpu_derived *want);
/* Frees the lists of a build, not what it allocated from the arena. */
void rx_gpu_build_finish(rx_gpu_build *b);
/* RLX_INTERNAL when a dispatch exceeds the limits of the device. */
rlx_status rx_gpu_dispatch_check(const rx_gpu_dispatch *x, const rx_gpu_caps *caps, size_t step,
                                 rlx_error *err);
/* The hash of a kernel and its constants, chained from `seed`. */
uint64_t rx_gpu_dispatch_hash(const rx_gpu_dispatch *x, uint64_t seed);
const char *rx_gpu_dispatch_name(const rx_gpu_dispatch *x);
/* The end of the piece of a run that begins with step `first`: pieces are bounded in time, so that
 * no watchdog of a driver fires. */
size_t rx_gpu_piece_end(const rx_gpu_values *v, const rx_gpu_caps *caps, size_t first);

/* ---- Merged steps: merges.c ------------------------------------------------------------- */

/* rx_target.merges of a device with these caps. */
bool rx_gpu_merges(const rx_gpu_caps *caps, rlx_policy policy, const rlx_graph *g,
                   const rx_node *first, const rx_node *second);

/* Which of the mergeable steps (rx_program.merges) are merged at the bound sizes, by step.
 * prologue[i] == i: step i is computed by all of its readers; prologue[i] == j: step i also
 * computes its producer j. epilogue[i] of a product: the step that it is deferred to and computes
 * too (a rotation, a write to the cache, the gate of a pair); epilogue[i] of such a step: the
 * product, the first of a pair. RX_NO_STEP otherwise. */
void rx_gpu_choose_merges(rx_gpu_values *values, const rx_gpu_caps *caps, uint32_t *prologue,
                          uint32_t *epilogue);
/* A merged step as the kernel that computes it sees it; `in` receives its operands. */
rx_gpu_merged rx_gpu_merged_of(const rx_gpu_values *v, size_t step, rx_view in[RX_MERGED_OPERANDS]);

/* Storage of an epilogue. */
typedef struct rx_gpu_epilogue_room {
    rx_gpu_epilogue epilogue;
    rx_gpu_merged rope, write, pair;
    rx_view rope_in[RX_MERGED_OPERANDS], write_in[RX_MERGED_OPERANDS], pair_in[RX_MERGED_OPERANDS];
    uint32_t rope_step, write_step, pair_step; /* RX_NO_STEP: absent */
} rx_gpu_epilogue_room;
/* The epilogue of step `product` that ends with step `last`. */
const rx_gpu_epilogue *rx_gpu_epilogue_of(const rx_gpu_values *v, const uint32_t *prologue,
                                          uint32_t product, uint32_t last,
                                          rx_gpu_epilogue_room *room);

/* ---- The arena: exec/arena.c ---------------------------------------------------------------- */

typedef struct rx_gpu_spot {
    uint32_t block;
    uint64_t offset;
} rx_gpu_spot;

static inline bool rx_gpu_is_planned(const rx_pvalue *v)
{
    return v->space == RX_SPACE_ARENA && v->view_of < 0;
}

typedef struct rx_gpu_arena {
    uint64_t *blocks; /* bytes of each */
    size_t n;
    uint64_t largest; /* bytes of the largest group of values that cannot be divided */
} rx_gpu_arena;

/* rx_target.slack_bytes of GPUs: enough where tensors are small and kernels short compared with a
 * barrier. */
#define RX_GPU_SLACK_BYTES ((uint64_t)64 << 20)

/* Divides the planned memory of a program among blocks of at most max_bytes (a tensor that is
 * larger gets a block of its own size: the caller refuses it). out[i] for each planned value.
 * rx_free(a->blocks) afterwards; false when out of memory. */
bool rx_gpu_arena_plan(const rx_program *p, uint64_t align, uint64_t max_bytes, rx_gpu_arena *a,
                       rx_gpu_spot *out);

/* ---- Limits for tests: limits.c -------------------------------------------------------- */

/* Lowers limits and turns features off as RLX_LIMITS says; `text` may be NULL. */
typedef struct rx_gpu_limits {
    rx_gpu_caps *caps;
    uint64_t *max_block_bytes;
    uint64_t *memory; /* bytes of all blocks together; 0: not limited */
    int *host; /* 1: missing operations run on the host, 2: all; NULL: cannot */
} rx_gpu_limits;
void rx_gpu_limits_apply(const rx_gpu_limits *l, const char *text);

#endif
