/* SPDX-License-Identifier: MIT */
/* The structs of the CPU backends "cpu" and "ref", shared by device.c, exec.c and queue.c. */
#ifndef RX_CPU_DEVICE_H
#define RX_CPU_DEVICE_H

#include "base/thread.h"
#include "cpu/dispatch.h"
#include "cpu/pack_cache.h"
#include "cpu/pool.h"
#include "cpu/scratch.h"
#include "runtime/backend.h"
#include "runtime/bound.h"

struct rx_device {
    rx_target target;
    rx_cpu_table table;
    rx_pool *pool; /* NULL: one thread */
    rx_cpu_caches caches;

    /* Runs in the background: a queue of execs, served in turn by one thread. */
    rx_mutex queue_lock;
    rx_cond queue_wake;
    rx_exec *queue_head, *queue_tail;
    rx_thread worker;
    bool has_worker, stop;
};

struct rx_buffer {
    char *data;
    uint64_t version; /* incremented by each change; no run that uses it is in flight then */
    rx_pack_cache packs;
};

typedef struct rx_weight {
    const void *data;  /* NULL: never set */
    void *owned;       /* the copy, or NULL when the data is borrowed */
    uint64_t version;  /* incremented by each set */
    rx_buffer *buffer; /* the buffer that holds it instead, or NULL */
    rx_weights *lender; /* whose param `lent` it is, or NULL */
    size_t lent;
} rx_weight;

/* Runs hold the lock for reading, so a weight never changes under a run. */
struct rx_weights {
    rx_program *program;
    rx_rwlock lock;
    uint64_t version; /* counts changes of any weight */
    rx_weight *items;
    rx_pack_cache packs;
};

#define RX_MAX_PENDING 16

struct rx_exec {
    rx_device *device;
    rx_program *program;
    rx_weights *weights;

    rx_arena arena;          /* owns the arrays below */
    char *memory;            /* the planned arena of the program */
    char *leaves;            /* inputs, then states */
    uint64_t *input_at, *state_at; /* offsets in `leaves` */
    uint64_t state_bytes;    /* bytes of states, at the end of `leaves` */
    rx_buffer **buffers;     /* by port: the buffer it lives in, or NULL */
    rx_buffer **placed;      /* by value: the buffer that is an output's memory, or NULL */
    rx_bound at;             /* the program at the bound dimensions */
    rx_call *calls;          /* one a step; operands and records are filled by bind */
    const rx_cpu_kernel *_Atomic *kernels; /* by step: where dispatch starts; NULL: not known yet */
    bool bound;              /* views and calls are up to date */
    uint64_t weights_version;
    rx_scratch scratch;
    rx_form form;            /* converted operand shared by several products of a run */
    uint32_t flags;          /* changed by rx_call_flag */

    /* Runs, in order of their tickets. lock guards all below. */
    rx_mutex lock;
    rx_cond changed;
    uint64_t submitted, done;
    rx_submit pending[RX_MAX_PENDING]; /* at ticket % RX_MAX_PENDING */
    bool queued;             /* in the device's queue or with its worker */
    rx_exec *next;           /* in the queue */
    uint64_t fail_first, fail_last; /* tickets of the last failed run and of the last one queued
                                     * after it */
    rlx_error error;
};

/* cpu/buffer.c */
rlx_status rx_cpu_buffer_create(rx_device *d, size_t bytes, rx_buffer **out, rlx_error *err);
void rx_cpu_buffer_destroy(rx_buffer *b);
rlx_status rx_cpu_buffer_write(rx_buffer *b, size_t offset, const void *data, size_t bytes,
                               rlx_error *err);
rlx_status rx_cpu_buffer_read(rx_buffer *b, size_t offset, void *data, size_t bytes,
                              rlx_error *err);
void *rx_cpu_buffer_map(rx_buffer *b);
void rx_cpu_buffer_changed(rx_buffer *b);

/* cpu/exec.c */
rlx_status rx_cpu_weights_create(rx_device *d, rx_program *p, rx_buffer *const *buffers,
                                 const rx_lender *from, rx_weights **out, rlx_error *err);
rlx_status rx_cpu_weights_use(rx_weights *w, size_t param, rx_buffer *b, rlx_error *err);
rlx_status rx_cpu_weights_set(rx_weights *w, size_t param, const void *data, size_t bytes,
                              rlx_ownership own, rlx_error *err);
void rx_cpu_weights_destroy(rx_weights *w);
rlx_status rx_cpu_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_buffer *const *buffers,
                              rx_exec **out, rlx_error *err);
rlx_status rx_cpu_exec_use(rx_exec *e, size_t port, rx_buffer *b, rlx_error *err);
void rx_cpu_exec_destroy(rx_exec *e);
rlx_status rx_cpu_exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err);
rlx_status rx_cpu_exec_write(rx_exec *e, uint32_t value, size_t offset, const void *data,
                             size_t bytes, rlx_error *err);
rlx_status rx_cpu_exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                            rlx_error *err);
uint32_t rx_cpu_exec_flags(rx_exec *e);
const char *rx_cpu_exec_kernel(rx_exec *e, size_t step);
/* Runs a range of steps now, on this thread. */
rlx_status rx_cpu_run(rx_exec *e, const rx_submit *s, rlx_error *err);

/* cpu/queue.c */
rlx_status rx_cpu_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err);
rlx_status rx_cpu_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err);
/* Waits until all runs have ended. */
void rx_cpu_wait_idle(rx_exec *e);
bool rx_cpu_queue_init(rx_device *d);
void rx_cpu_queue_finish(rx_device *d);

#endif
