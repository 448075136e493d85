/* SPDX-License-Identifier: MIT */
/* A program on a GPU device, shared by all backends: its tables and memory, the recordings of
 * recent sets of dimensions, and the runs in flight. Recording, submitting and waiting is up to the
 * backend: rx_gpu_driver. */
#ifndef RX_GPU_EXEC_H
#define RX_GPU_EXEC_H

#include <stdatomic.h>

#include "gpu/exec/memory.h"

/* ---- Recordings: bind.c --------------------------------------------------------------------- */

typedef struct rx_commands rx_commands; /* what a backend records; its own struct */
typedef struct rx_gpu_list rx_gpu_list; /* what is recorded: gpu/stages.h */

/* A program recorded for one set of dimensions. */
typedef struct rx_gpu_recording {
    int64_t *dims;
    const char **kernels; /* by step */
    uint32_t *computed_by; /* by step: rx_gpu_list.absorbed_by */
    rx_gpu_packed **derived; /* packed weights that are bound */
    size_t n_derived;
    rx_gpu_pool tables;   /* constant tables of kernels */
    bool has_host;        /* some steps run on the host */
    bool uses_flags;
    uint32_t n_counters;  /* of chains, to be cleared before a run */
    uint64_t used;        /* n_binds of the exec when it was last bound */
    rx_commands *commands;
} rx_gpu_recording;

#define RX_GPU_FLAG_BYTES 16

/* How a backend synchronises dispatches, queried at each binding. Zero: by barriers between
 * accesses to the same bytes of which one is a write. */
typedef struct rx_gpu_rules {
    bool full_barrier;    /* a barrier before each dispatch */
    /* Hazards by bound ranges rather than by the bytes that a kernel accesses, which validation
     * layers do not know; absent operands count as writes of `nothing`. */
    bool whole_bindings;
    rx_gpu_place nothing;
    bool chains;          /* levels may be chained: gpu/chain.c */
    bool chain_always;    /* even where only few levels are */
    uint32_t n_counters;
} rx_gpu_rules;

/* What a backend implements for programs. */
typedef struct rx_gpu_driver {
    /* Size of the ring of scratch memory: within it the scratch of successive steps does not
     * overlap, which saves barriers; 0: every step uses the same memory. */
    uint64_t scratch_ring;
    uint64_t n_counters; /* words after the flags, RX_GPU_FLAG_BYTES from them */
    void (*rules)(rx_exec *e, rx_gpu_rules *out); /* NULL: the defaults */
    /* Fills r->commands from the list, which does not outlive the call. After a failure `forget` is
     * called with what exists of it. */
    rlx_status (*record)(rx_exec *e, const rx_gpu_list *list, rx_gpu_recording *r,
                         rlx_error *err);
    void (*forget)(rx_exec *e, rx_commands *c); /* NULL is fine */
    /* Waits for a run to end, successfully or not; earlier runs have ended. False at the deadline
     * (-1: none), or where the thread must not block. Calls never overlap. */
    bool (*wait)(rx_exec *e, uint64_t ticket, int64_t deadline_ns);
    /* Called once for each run that has ended, in order, with the lock of the runs held. Returns
     * the status of the run. */
    rlx_status (*end)(rx_exec *e, uint64_t ticket, rlx_error *err);
} rx_gpu_driver;

/* ---- Runs: runs.c --------------------------------------------------------------------------- */

#define RX_GPU_N_SLOTS 8 /* runs in flight of one program */

/* Runs have tickets from 1. When a run fails, those queued after it fail as well. */
typedef struct rx_gpu_runs {
    const rx_gpu_driver *driver;
    rx_exec *exec;
    rx_mutex lock; /* guards what follows */
    rx_cond changed;
    uint64_t submitted, done;
    bool polling;  /* a thread waits for run done + 1 */
    uint64_t fail_first, fail_last; /* tickets of the last failed run and of the last one queued
                                     * after it */
    rlx_error error;
} rx_gpu_runs;

/* False when the system has no more locks. */
bool rx_gpu_runs_init(rx_gpu_runs *r, const rx_gpu_driver *driver, rx_exec *e);
void rx_gpu_runs_finish(rx_gpu_runs *r);
/* RLX_TIMEOUT, or the status of the run. Any number of threads may wait. */
rlx_status rx_gpu_runs_wait(rx_gpu_runs *r, uint64_t ticket, int64_t timeout_ms, rlx_error *err);
rlx_status rx_gpu_runs_wait_all(rx_gpu_runs *r, rlx_error *err);
/* The ticket of the next run, once the run that used its slot (ticket % RX_GPU_N_SLOTS) is done. */
rlx_status rx_gpu_runs_next(rx_gpu_runs *r, uint64_t *ticket, rlx_error *err);
/* The run with the next ticket was submitted. */
void rx_gpu_runs_begin(rx_gpu_runs *r);
/* Whether some run is not known to have ended. */
bool rx_gpu_runs_under_way(rx_gpu_runs *r);

/* ---- Programs: exec.c ----------------------------------------------------------------------- */

/* Recordings kept: the row counts up to rx_target.exact_rows and the multiples after them, for
 * prompts up to 512 tokens. */
#define RX_GPU_N_RECORDINGS 64
#define RX_GPU_N_SCRATCH 16   /* blocks of scratch memory */

typedef struct rx_gpu_exec {
    const rx_gpu_driver *driver;
    rx_exec *exec;               /* the backend's struct around this one */
    const rx_gpu_memory *memory;
    const rx_gpu_caps *caps;
    rx_program *program;
    rx_weights *weights;
    rx_arena arena;              /* owns the tables */
    rx_gpu_values values;
    rx_gpu_place *places;        /* by value that owns memory */
    rx_gpu_place *own;           /* by port: its own memory; block NULL: never allocated */
    rx_buffer **buffers;         /* by port: the buffer that it lives in, or NULL */
    uint64_t n_moves;            /* rx_weights.n_moves when the recordings were made */
    rx_gpu_place flags;          /* RX_GPU_FLAG_BYTES with the flag word, then counters */
    rx_gpu_pool arena_pool, leaf_pool;
    rx_gpu_pool scratch[RX_GPU_N_SCRATCH]; /* one block each */
    const char *_Atomic *kernels; /* by step, as last bound */
    struct rx_gpu_names *names;  /* joined names of steps with several kernels, owned by the arena
                                  * */

    rx_gpu_recording *recordings[RX_GPU_N_RECORDINGS];
    rx_gpu_recording *now;       /* NULL: not bound */
    uint64_t n_binds;
    bool partial;                /* the last submit was of some steps, or timed */
    bool has_flags;              /* the last run wrote the flags; false: no kernel of it has any */
    rx_gpu_runs runs;
} rx_gpu_exec;

/* Allocates the memory of the program; states and flags are zero. The fields driver, exec, caps,
 * program and weights are set before, all others are zero. buffers: by port (NULL: none). On
 * failure nothing is kept. */
rlx_status rx_gpu_exec_init(rx_gpu_exec *x, rx_buffer *const *buffers, rlx_error *err);
/* rx_backend.exec_use. */
rlx_status rx_gpu_exec_use(rx_gpu_exec *x, size_t port, rx_buffer *b, rlx_error *err);
/* A copy on the device at the end of a run: an output that is part of another value, into its
 * buffer. */
typedef struct rx_gpu_copy {
    rx_gpu_place from, to; /* of the same size */
} rx_gpu_copy;
/* The copy of output i at the bound dimensions; false: none is needed. */
bool rx_gpu_exec_copy(const rx_gpu_exec *x, size_t i, rx_gpu_copy *out);
/* Whether any output needs one. */
bool rx_gpu_exec_copies(const rx_gpu_exec *x);
/* No run is in flight. */
void rx_gpu_exec_finish(rx_gpu_exec *x);
const char *rx_gpu_exec_kernel(const rx_gpu_exec *x, size_t step);
/* rx_backend.exec_computed_by. */
size_t rx_gpu_exec_computed_by(const rx_gpu_exec *x, size_t step);
/* The place of the value that owns the memory of `value`. */
rx_gpu_place rx_gpu_exec_place(const rx_gpu_exec *x, uint32_t value);

/* Whether the program is bound to just these dimensions. */
bool rx_gpu_exec_is_bound(const rx_gpu_exec *x, const int64_t *dims);
/* Makes x->now fit these dimensions; NULL on failure. */
rlx_status rx_gpu_exec_bind(rx_gpu_exec *x, const int64_t *dims, rlx_error *err);
/* rx_backend.exec_compile. */
rlx_status rx_gpu_exec_compile(rx_gpu_exec *x, const int64_t *dims, rlx_error *err);
/* Begins a submit: RLX_INTERNAL when the program is not bound. */
rlx_status rx_gpu_exec_begin(rx_gpu_exec *x, const rx_submit *s, rlx_error *err);
/* Marks the packed forms that x->now uses as current: a submitted run makes them. The weights have
 * been locked since before it was recorded. */
void rx_gpu_exec_packed(rx_gpu_exec *x);
/* Drops all recordings once no run uses them. */
void rx_gpu_exec_forget(rx_gpu_exec *x);
/* Grows scratch memory for a list and sets the blocks of its scratch bindings. */
rlx_status rx_gpu_exec_scratch(rx_gpu_exec *x, rx_gpu_list *l, rlx_error *err);
/* Whether every step has kernels at the sizes in x->values; creates nothing. select/select.c */
rlx_status rx_gpu_check_steps(rx_gpu_exec *x, rlx_error *err);
/* The dispatches at the bound sizes as text, after the stage "select", "order" or "chain"; freed
 * with rx_free. */
rlx_status rx_gpu_exec_print(rx_gpu_exec *x, const char *stage, char **text, rlx_error *err);

#endif
