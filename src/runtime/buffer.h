/* SPDX-License-Identifier: MIT */
/* A device buffer: reference-counted, because sessions keep it alive. It lists the ports bound to
 * it, so that runs of different sessions are ordered. buffer.c creates, reads and writes buffers,
 * session_buffers.c binds them. */
#ifndef RX_RUNTIME_BUFFER_H
#define RX_RUNTIME_BUFFER_H

#include <stdatomic.h>

#include "rlx/session.h"
#include "runtime/device.h"

typedef struct rx_use rx_use;

/* A port of a session that is bound to a buffer. */
struct rx_use {
    rlx_session *session;
    rlx_buffer *buffer;
    rx_use *next;   /* of the buffer */
    rlx_leaf kind;
    const char *name;
};

/* A state may be written, and an output is. */
static inline bool rx_use_writes(const rx_use *u)
{
    return u->kind == RLX_LEAF_STATE || u->kind == RLX_LEAF_OUTPUT;
}

struct rlx_buffer {
    atomic_uint refs;
    atomic_bool given_up; /* by rlx_buffer_destroy; only sessions have it */
    rlx_device *device;
    rx_buffer *memory;
    rlx_dtype dtype;
    rlx_shape shape;
    size_t bytes;
    rx_use *uses;         /* the order lock of the device guards what follows */
    bool mapped;
};

void rx_buffer_ref(rlx_buffer *b);
void rx_buffer_unref(rlx_buffer *b);

/* With the order lock of the device held, which is given up while waiting. wait_submits: until no
 * other session submits a run that uses the buffer and is in the way of one that reads it (or
 * writes); false: nothing was waited for, and so nothing has changed. wait_runs: until such runs
 * are done; the status of one that failed. `self` (may be NULL) is in nobody's way. */
bool rx_buffer_wait_submits(const rlx_buffer *b, const rlx_session *self, bool writes);
rlx_status rx_buffer_wait_runs(const rlx_buffer *b, const rlx_session *self, bool writes,
                               rlx_error *err);

#endif
