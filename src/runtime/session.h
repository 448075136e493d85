/* SPDX-License-Identifier: MIT */
/* A session. rx_shared is common to clones; the rest belongs to one session and is guarded by its
 * lock. session.c creates sessions, session_run.c runs them, session_info.c inspects them. */
#ifndef RX_RUNTIME_SESSION_H
#define RX_RUNTIME_SESSION_H

#include <stdatomic.h>

#include "base/thread.h"
#include "runtime/buffer.h"
#include "runtime/device.h"

typedef struct rx_shared {
    atomic_uint refs;
    rlx_device *device;
    rx_program *program;
    rx_weights *weights;
    rx_map leaves;  /* name of an input, param or state to rx_leaf_key */
    rx_map outputs; /* name to index */
    rx_map dims;    /* name to entry of program->dims */

    rx_mutex lock;  /* guards what follows and weights_set */
    struct rx_shared *lender;   /* whose params some of these are; NULL: none */
    size_t *lent;               /* by param: its index there, or SIZE_MAX; NULL: none is */
    rlx_buffer **param_buffers; /* NULL: none; the sessions' uses hold the references */
    bool *param_set;            /* in memory of its own */
    bool lends;                 /* others use those that are set */
    size_t n_unset;             /* params without a buffer that were never set */
    bool has_host;              /* some steps run on the host */
    rx_arena texts; /* shapes of steps as text, made when asked for */
    const char **step_shapes;
} rx_shared;

struct rlx_session {
    rx_shared *shared;
    rx_exec *exec;
    rx_mutex lock;
    int64_t *dims;      /* values of program->dims for the next run */
    int64_t *run_dims;  /* those of the last run */
    bool dims_dirty;    /* a named dimension was bound: expressions must be evaluated again */
    bool exec_dirty;    /* the exec is not bound to `dims` */
    rlx_shape *given;   /* for each input: the shape it was given with; rank -1: never */
    bool inputs_ok;     /* all inputs are set and have the shapes of `dims` */
    bool has_run;
    bool dump_nodes;    /* RLX_DUMP_NODES when the session was made */
    bool report;        /* RLX_DISPATCH_REPORT then */
    rx_use *uses;       /* by rx_use_index; buffer NULL: in memory of its own */
    size_t n_uses, n_used;
    bool submitting;    /* a run is being submitted; the order lock of the device guards it */
    atomic_uint_fast64_t last_ticket;
};

static inline const rx_backend *rx_session_backend(const rlx_session *s)
{
    return s->shared->device->backend;
}

static inline uint32_t rx_leaf_key(rlx_leaf kind, size_t index)
{
    return (uint32_t)kind << 30 | (uint32_t)index;
}

/* The ports of a kind. */
const rx_port *rx_program_ports(const rx_program *p, rlx_leaf kind, size_t *n);
/* Shape with numbers and size in bytes of a value; dims NULL: at the bounds. */
rlx_shape rx_value_shape_at(const rx_program *p, uint32_t value, const int64_t *dims);
uint64_t rx_value_bytes_at(const rx_program *p, uint32_t value, const int64_t *dims);
/* "f32[2,8]"; the buffer has RX_TYPE_TEXT bytes. Returns it. */
const char *rx_number_type_text(rlx_dtype t, const rlx_shape *shape, char *buffer);
/* "f32[2,8]" of a value with the given dimensions. */
const char *rx_value_text_at(const rx_program *p, uint32_t value, const int64_t *dims,
                             char *buffer);

/* A session of a compiled program. Takes over the caller's reference of it, also on failure. */
rlx_status rx_session_create_from(rlx_device *d, rx_program *p, const rlx_session_desc *desc,
                                  rlx_session **out, rlx_error *err);
/* Whether param i is that of another session, or is used by one (rlx_session_desc.weights_of). */
bool rx_shared_is_lent(const rx_shared *h, size_t i);

/* The number of any port in rlx_session.uses. */
static inline size_t rx_use_index(const rx_program *p, rlx_leaf kind, size_t i)
{
    return kind == RLX_LEAF_PARAM ? i : p->n_params + rx_port_index(p, kind, i);
}

/* Finds a port by name; the error says what kinds of names there are and which is nearest. */
rlx_status rx_shared_find(const rx_shared *h, rlx_leaf kind, const char *name, size_t *index,
                           rlx_error *err);
/* RLX_INVALID when the port lives in a buffer, where it is to be set and read. */
rlx_status rx_fail_in_buffer(rlx_leaf kind, const char *name, rlx_error *err);
rlx_status rx_session_check_own(const rlx_session *s, rlx_leaf kind, size_t i, rlx_error *err);

/* Buffers of a new session: session_buffers.c. Fills `out`, by rx_use_index, from the
 * descriptor. */
rlx_status rx_shared_find_buffers(const rx_shared *h, const rlx_session_desc *desc,
                                  rlx_buffer **out, rlx_error *err);
/* Registers the session as user of buffers[i] of each port. unlink: other sessions no longer see
 * it, once it has no run in flight; release: drops the references. */
void rx_session_add_uses(rlx_session *s, rlx_buffer *const *buffers);
void rx_session_unlink_uses(rlx_session *s);
void rx_session_release_uses(rlx_session *s);
/* Around each submit: orders it with runs of other sessions that share buffers. Validates the
 * bindings too. On failure end is not called. */
rlx_status rx_session_begin_submit(rlx_session *s, rlx_error *err);
void rx_session_end_submit(rlx_session *s);

/* Evaluates `dims` after binds. The session is locked. */
rlx_status rx_session_eval_dims(rlx_session *s, rlx_error *err);
/* Waits for all runs of a locked session and returns the status of the last. */
rlx_status rx_session_settle(rlx_session *s, rlx_error *err);
/* Checks params and inputs and binds the exec if needed. The session is locked. */
rlx_status rx_session_prepare(rlx_session *s, rlx_error *err);
/* Submits steps of a prepared session, whose outputs then belong to this run. */
rlx_status rx_session_submit_steps(rlx_session *s, const rx_submit *submit, uint64_t *ticket,
                                   rlx_error *err);
/* Runs a locked session one step at a time: rlx_session_run_steps. */
rlx_status rx_session_run_steps(rlx_session *s, bool want_data, rlx_step_fn *fn, void *user,
                                rlx_error *err);
/* The same with a log line for each result. runtime/dump.c */
rlx_status rx_session_run_dump(rlx_session *s, rlx_error *err);
/* Logs the steps with their places in memory, or of a bound session with their kernels. */
void rx_session_log_schedule(const rlx_session *s);
void rx_session_log_kernels(const rlx_session *s);

#endif
