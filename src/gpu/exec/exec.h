/* SPDX-License-Identifier: MIT */
/* A program on a GPU device as every backend has it: its tables and memory, what is recorded for
 * the last few sets of dimensions, and the runs in flight. How dispatches are recorded, submitted
 * and waited for is the backend's: rx_gpu_driver. */
#ifndef RX_GPU_EXEC_H
#define RX_GPU_EXEC_H

#include <stdatomic.h>

#include "gpu/exec/memory.h"

/* ---- Recordings: bind.c --------------------------------------------------------------------- */

typedef struct rx_commands rx_commands; /* what a backend records; each has its own struct */
typedef struct rx_gpu_list rx_gpu_list; /* what it is made from: gpu/stages.h */

/* A program for one set of dimensions. */
typedef struct rx_gpu_recording {
    int64_t *dims;
    bool single;          /* made for runs of single steps: no merged steps, no chains */
    const char **kernels; /* by step */
    rx_gpu_packed **derived; /* packed weights that it binds */
    size_t n_derived;
    rx_gpu_pool tables;   /* constants of kernels */
    bool has_host;        /* some steps run on the host */
    bool has_merged;       /* has merged steps or chains: steps cannot run alone */
    bool uses_flags;
    uint32_t n_counters;  /* of chains, to be cleared before a run */
    uint64_t used;        /* when it was last bound */
    rx_commands *commands;
} rx_gpu_recording;

#define RX_GPU_FLAG_BYTES 16

/* How a backend synchronises dispatches, asked at each binding. Zero: by barriers, where bytes are
 * written that another dispatch touches. */
typedef struct rx_gpu_rules {
    bool full_barrier;    /* a barrier before each dispatch */
    /* Hazards by what is bound and not by what a kernel touches, which validation layers do not
     * know; absent operands count as writes of `nothing`. */
    bool whole_bindings;
    rx_gpu_place nothing;
    bool chains;          /* levels may wait by counters inside of kernels */
    bool chain_always;    /* also where few would */
    uint32_t n_counters;
} rx_gpu_rules;

/* What a backend does for a program. */
typedef struct rx_gpu_driver {
    /* Size of the ring of scratch memory: scratch of successive steps does not overlap within it,
     * which saves barriers; 0: every step begins at its start. */
    uint64_t scratch_ring;
    uint64_t n_counters; /* words behind the flags, RX_GPU_FLAG_BYTES from them */
    void (*rules)(rx_exec *e, rx_gpu_rules *out); /* NULL: as they are */
    /* Fills r->commands from the list, which does not outlive the call. After a failure `forget` is
     * called with what was made. */
    rlx_status (*record)(rx_exec *e, const rx_gpu_list *list, rx_gpu_recording *r,
                         rlx_error *err);
    void (*forget)(rx_exec *e, rx_commands *c); /* NULL is fine */
    /* Waits for a run to end, with success or an error; earlier runs have ended. False at the
     * deadline (-1: none), or where the thread may not block. Calls never overlap. */
    bool (*wait)(rx_exec *e, uint64_t ticket, int64_t deadline_ns);
    /* Called once for each run that has ended, in their order, with the lock of the runs held: how
     * it went. */
    rlx_status (*end)(rx_exec *e, uint64_t ticket, rlx_error *err);
} rx_gpu_driver;

/* ---- Runs: runs.c --------------------------------------------------------------------------- */

#define RX_GPU_N_SLOTS 8 /* runs in flight of one program */

/* Runs have tickets from 1. When a run fails, those queued behind it fail too. */
typedef struct rx_gpu_runs {
    const rx_gpu_driver *driver;
    rx_exec *exec;
    rx_mutex lock; /* guards what follows */
    rx_cond changed;
    uint64_t submitted, done;
    bool polling;  /* some thread waits for run done + 1 */
    uint64_t fail_first, fail_last; /* tickets of the last failed run, and behind it */
    rlx_error error;
} rx_gpu_runs;

/* False when the system has no more locks. */
bool rx_gpu_runs_init(rx_gpu_runs *r, const rx_gpu_driver *driver, rx_exec *e);
void rx_gpu_runs_finish(rx_gpu_runs *r);
/* RLX_TIMEOUT, or how the run went. Any number of threads may wait. */
rlx_status rx_gpu_runs_wait(rx_gpu_runs *r, uint64_t ticket, int64_t timeout_ms, rlx_error *err);
rlx_status rx_gpu_runs_wait_all(rx_gpu_runs *r, rlx_error *err);
/* The ticket of the next run, once the run that used its slot (ticket % RX_GPU_N_SLOTS) is done. */
rlx_status rx_gpu_runs_next(rx_gpu_runs *r, uint64_t *ticket, rlx_error *err);
/* The run with the next ticket was submitted. */
void rx_gpu_runs_begin(rx_gpu_runs *r);
/* Whether there are runs that nobody has seen the end of. */
bool rx_gpu_runs_under_way(rx_gpu_runs *r);

/* ---- Programs: exec.c ----------------------------------------------------------------------- */

/* Sets of dimensions that are kept: the numbers of rows of rx_target.exact_rows and the multiples
 * behind them of a prompt of 512 tokens. */
#define RX_GPU_N_RECORDINGS 64
#define RX_GPU_N_SCRATCH 16   /* blocks for the scratch memory of a step */

typedef struct rx_gpu_exec {
    const rx_gpu_driver *driver;
    rx_exec *exec;               /* whose part this is */
    const rx_gpu_memory *memory;
    const rx_gpu_caps *caps;
    rx_program *program;
    rx_weights *weights;
    rx_arena arena;              /* owns the tables */
    rx_gpu_values values;
    rx_gpu_place *places;        /* by value that owns memory */
    rx_gpu_place *own;           /* by port: its own memory; block NULL: it never had any */
    rx_buffer **buffers;         /* by port: where it lives instead, or NULL */
    uint64_t n_moves;            /* of the weights when the recordings were made */
    rx_gpu_place flags;          /* a word in RX_GPU_FLAG_BYTES, then counters */
    rx_gpu_pool arena_pool, leaf_pool;
    rx_gpu_pool scratch[RX_GPU_N_SCRATCH]; /* of the steps; one block each */
    const char *_Atomic *kernels; /* by step, of the last binding */
    struct rx_gpu_names *names;  /* of steps with several kernels, as long as the program */

    rx_gpu_recording *recordings[RX_GPU_N_RECORDINGS];
    rx_gpu_recording *now;       /* NULL: not bound */
    uint64_t n_binds;
    bool single;                 /* x->now is for runs of single steps */
    bool has_flags;              /* the last run wrote its flags; false: no kernel of it has any */
    rx_gpu_runs runs;
} rx_gpu_exec;

/* Allocates the memory of the program; states and flags are zero. The fields driver, exec, caps,
 * program and weights are set before, all others are zero. buffers: by port (NULL: none). On
 * failure nothing is kept. */
rlx_status rx_gpu_exec_init(rx_gpu_exec *x, rx_buffer *const *buffers, rlx_error *err);
/* rx_backend.exec_use. */
rlx_status rx_gpu_exec_use(rx_gpu_exec *x, size_t port, rx_buffer *b, rlx_error *err);
/* A copy on the device that ends a run: an output that is part of another value, to its buffer. */
typedef struct rx_gpu_copy {
    rx_gpu_place from, to; /* of the same size */
} rx_gpu_copy;
/* The copy of output i with the dimensions that are bound; false: it needs none. */
bool rx_gpu_exec_copy(const rx_gpu_exec *x, size_t i, rx_gpu_copy *out);
/* Whether there is one. */
bool rx_gpu_exec_copies(const rx_gpu_exec *x);
/* All runs are done. */
void rx_gpu_exec_finish(rx_gpu_exec *x);
const char *rx_gpu_exec_kernel(const rx_gpu_exec *x, size_t step);
/* Where the root of a value is. */
rx_gpu_place rx_gpu_exec_place(const rx_gpu_exec *x, uint32_t value);

/* Whether the program is bound to just these dimensions. */
bool rx_gpu_exec_is_bound(const rx_gpu_exec *x, const int64_t *dims);
/* Makes x->now fit these dimensions, for whole runs; NULL on failure. */
rlx_status rx_gpu_exec_bind(rx_gpu_exec *x, const int64_t *dims, rlx_error *err);
/* Begins a submit: RLX_INTERNAL when the program is not bound. Parts of a run and timed ones get a
 * recording in which every step does all of its work itself. */
rlx_status rx_gpu_exec_begin(rx_gpu_exec *x, const rx_submit *s, rlx_error *err);
/* A submitted run makes the packed forms that x->now needs. The weights have been locked since
 * before it was recorded. */
void rx_gpu_exec_packed(rx_gpu_exec *x);
/* Forgets what was recorded, once no run uses it. */
void rx_gpu_exec_forget(rx_gpu_exec *x);
/* Makes room for the scratch memory of a list and gives its bindings their blocks. */
rlx_status rx_gpu_exec_scratch(rx_gpu_exec *x, rx_gpu_list *l, rlx_error *err);
/* Whether every step has kernels at the sizes in x->values; makes nothing. select/select.c */
rlx_status rx_gpu_check_steps(rx_gpu_exec *x, rlx_error *err);
/* The dispatches of the sizes that it is bound to, as text, after the stage "select", "order" or
 * "chain"; freed with rx_free. */
rlx_status rx_gpu_exec_print(rx_gpu_exec *x, const char *stage, char **text, rlx_error *err);

#endif
