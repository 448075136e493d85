/* SPDX-License-Identifier: MIT */
/* Buffers: memory on a device that sessions of any graphs share, so that tensors pass from one
 * graph to another without the host: an encoder's output is a decoder's input, a prefill graph and
 * a decode graph have one K/V cache, many graphs have one copy of a weight.
 *
 *     rlx_buffer_create(device, &(rlx_buffer_desc){RLX_INIT(rlx_buffer_desc), .dtype = RLX_F32,
 *                       .shape = {2, {8, 64}}}, &hidden, &err);
 *     rlx_session_set_buffer(encoder, RLX_LEAF_OUTPUT, "hidden", hidden, &err);
 *     rlx_session_set_buffer(decoder, RLX_LEAF_INPUT, "hidden", hidden, &err);
 *
 * Order: runs that have a buffer in common, one of which writes it, happen in the order in which
 * they were submitted, whichever sessions they belong to. A session writes the buffers of its
 * outputs and its states; it reads those of its inputs, params and states. Reading or writing a
 * buffer from the host waits for the runs before it that are in its way. Runs on other buffers are
 * not waited for. */
#ifndef RLX_BUFFER_H
#define RLX_BUFFER_H

#include "device.h"
#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Thread-safe: calls on one buffer from several threads at a time are put in order. */
typedef struct rlx_buffer rlx_buffer;

typedef struct rlx_buffer_desc {
    size_t struct_size;
    rlx_dtype dtype; /* RLX_NO_TYPE: `bytes` bytes, which may hold any type */
    rlx_shape shape; /* of dtype; numbers only */
    size_t bytes;    /* without a dtype; with one 0, or just the size of the tensor */
} rlx_buffer_desc;

/* Allocates a buffer on `d`, filled with zeros. On success the caller owns *out; on failure *out is
 * NULL. The buffer keeps the device open. */
RLX_API rlx_status rlx_buffer_create(rlx_device *d, const rlx_buffer_desc *desc, rlx_buffer **out,
                                     rlx_error *err);
/* Gives the buffer up; NULL is fine. The memory goes when no session uses it any more. */
RLX_API void rlx_buffer_destroy(rlx_buffer *b);

typedef struct rlx_buffer_info {
    size_t struct_size;
    rlx_dtype dtype;    /* RLX_NO_TYPE: it may hold any type */
    rlx_shape shape;
    size_t bytes;
    rlx_device *device; /* open as long as the buffer; not to be closed */
    bool mappable;      /* rlx_buffer_map works */
} rlx_buffer_info;
RLX_API rlx_status rlx_buffer_get_info(const rlx_buffer *b, rlx_buffer_info *out, rlx_error *err);

/* Copies `bytes` bytes from the host to byte `offset`; `data` may be freed at once. Waits for runs
 * that use the buffer. Params that are bound to it have new values from the next run on. */
RLX_API rlx_status rlx_buffer_write(rlx_buffer *b, size_t offset, const void *data, size_t bytes,
                                    rlx_error *err);
/* Copies to the host, after the runs that write the buffer; the status of such a run if it
 * failed. */
RLX_API rlx_status rlx_buffer_read(rlx_buffer *b, size_t offset, void *data, size_t bytes,
                                   rlx_error *err);

/* The memory itself, without a copy: CPU devices, and GPUs whose memory the host shares.
 * RLX_UNSUPPORTED elsewhere. Waits for runs that use the buffer; until rlx_buffer_unmap it belongs
 * to the host, and runs that would use it are RLX_INVALID. *data is aligned to 64 bytes. */
RLX_API rlx_status rlx_buffer_map(rlx_buffer *b, void **data, rlx_error *err);
RLX_API rlx_status rlx_buffer_unmap(rlx_buffer *b, rlx_error *err);

/* A tensor of a session and the buffer it lives in. */
typedef struct rlx_binding {
    rlx_leaf kind;
    const char *name;
    rlx_buffer *buffer;
} rlx_binding; /* frozen */

#ifdef __cplusplus
}
#endif
#endif
