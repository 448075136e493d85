/* SPDX-License-Identifier: MIT */
/* The GPU pipeline: what `schedule` has made becomes, at bound sizes, a list of dispatches that a
 * backend only has to record. Shared by Vulkan and WebGPU.
 *
 *   select  steps to dispatches: kernels, constants, grids, packed weights, scratch memory; each
 *           binding is a byte range of a block
 *   order   the order with the fewest barriers: pieces, hazard levels and barriers
 *   chain   levels that wait by counters inside of kernels and not by a barrier
 *
 * gpu/stages.c is the pipeline on one screen. The list is verified after each stage and can be
 * printed (rlx explain --dump). Of the device the stages know its caps and what gives memory
 * (rx_gpu_memory), so they are tested without one: tests/gpu/test_stages.c. */
#ifndef RX_GPU_STAGES_H
#define RX_GPU_STAGES_H

#include "base/str.h"
#include "gpu/exec/exec.h"

/* ---- The list ------------------------------------------------------------------------------- */

/* Synchronisation by counters. Each workgroup of a chained dispatch adds 1 to counter `signals`
 * when it is done, and begins when counter `waits` has reached `target`; 0: it does not wait. */
typedef struct rx_gpu_chained {
    bool is_chained;
    uint32_t waits, signals, target;
} rx_gpu_chained;

/* A dispatch with its bindings resolved to places. The symbolic references (RX_REF_*) are kept. */
struct rx_gpu_placed {
    rx_gpu_dispatch dispatch;
    uint32_t number;    /* in program order; the order stage keeps it */
    uint32_t step;      /* the last step that it computes, in whose position it runs */
    uint32_t lowered;   /* the step whose operands RX_REF_IN and RX_REF_OUT refer to */
    rx_gpu_place bind[RX_GPU_MAX_BIND]; /* block NULL: unused, any buffer is bound */
    uint64_t begin[RX_GPU_MAX_BIND], end[RX_GPU_MAX_BIND]; /* bytes touched, in the block */
    uint32_t value[RX_GPU_MAX_BIND];  /* which value, or the packed form of which; or RX_NO_VALUE */
    uint8_t scratch[RX_GPU_MAX_BIND]; /* 1 + the block of scratch memory; 0: not scratch */
    /* order: pieces are submitted one after another; dispatches of one level have no hazard among
     * them; barrier: one is recorded before the dispatch. A piece begins with an implicit barrier.
     * */
    uint32_t piece, level;
    bool barrier;
    rx_gpu_chained chain;
};

typedef struct rx_gpu_list {
    rx_gpu_exec *x;
    rx_arena arena;       /* emitted kernels, tables of the stages */
    rx_gpu_placed *items; /* in recording order */
    size_t n, cap;
    size_t *first;        /* by step: index of its first dispatch; then the end */
    uint32_t *absorbed_by; /* by step: the step that computes it; itself unless merged */
    rx_gpu_packed **derived; /* packed weights that are bound */
    size_t n_derived, cap_derived;
    rx_gpu_pool tables;   /* constant tables of kernels */
    uint64_t scratch_bytes[RX_GPU_N_SCRATCH];
    bool has_host;        /* some steps run on the host: never between dispatches of a piece */
    bool uses_flags;
    uint32_t n_pieces, n_levels, n_barriers; /* order */
    uint32_t n_counters, n_chained;          /* chain: counters in use; dispatches that wait */
} rx_gpu_list;

void rx_gpu_list_finish(rx_gpu_list *l);

/* ---- Stages --------------------------------------------------------------------------------- */

typedef enum rx_gpu_stage {
    RX_GPU_SELECT, RX_GPU_ORDER, RX_GPU_CHAIN,
    RX_GPU_N_STAGES
} rx_gpu_stage;
extern const char *const rx_gpu_stage_names[RX_GPU_N_STAGES];

/* Runs the stages up to `last` for the sizes in x->values. The caller finishes the list, also
 * after a failure. */
rlx_status rx_gpu_stages_run(rx_gpu_exec *x, rx_gpu_stage last, rx_gpu_list *l, rlx_error *err);

/* select/select.c. Scratch memory has offsets, but its blocks come afterwards: exec/bind.c. */
rlx_status rx_gpu_select(rx_gpu_list *l, rlx_error *err);
/* order.c. RLX_FULL_BARRIER puts a barrier before each dispatch. */
rlx_status rx_gpu_order(rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err);
/* chain.c. Chained dispatches have the variant of their kernel that waits. */
rlx_status rx_gpu_chain(rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err);

/* The bytes that binding k accesses, for hazards; false: none. */
bool rx_gpu_touched(const rx_gpu_placed *d, uint32_t k, const rx_gpu_rules *rules,
                    rx_gpu_place *out, bool *writes);
/* Whether two dispatches must not overlap. */
bool rx_gpu_hazard(const rx_gpu_placed *a, const rx_gpu_placed *b, const rx_gpu_rules *rules);

/* ---- Verification: verify.c ----------------------------------------------------------------- */

/* RLX_INTERNAL with a sentence about the first dispatch that is wrong.
 * select: limits of the device, bindings inside of their blocks, and every byte of the arena that a
 * dispatch reads was last written as part of the value that it reads. */
rlx_status rx_gpu_verify_select(const rx_gpu_list *l, rlx_error *err);
/* order: all dispatches are there, none before one that it depends on, no hazard inside a level. */
rlx_status rx_gpu_verify_order(const rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err);
/* chain: each level waits by a barrier, or for all workgroups of the level before, which signal. */
rlx_status rx_gpu_verify_chain(const rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err);

/* ---- Text: print.c -------------------------------------------------------------------------- */

/* " NAME=VALUE" for each specialisation constant that is not 0, after the local size. */
void rx_gpu_constants_print(rx_str *s, rx_kernel k, const uint32_t *spec, uint32_t n_spec);
/* The list after a stage; freed with rx_free. */
rlx_status rx_gpu_list_print(const rx_gpu_list *l, rx_gpu_stage stage, char **text,
                             rlx_error *err);

#endif
