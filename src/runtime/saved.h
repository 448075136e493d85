/* SPDX-License-Identifier: MIT */
/* Files of compiled graphs: a header that says for what, the lowered graph as text, and what the
 * driver made of the kernels. */
#ifndef RX_RUNTIME_SAVED_H
#define RX_RUNTIME_SAVED_H

#include "base/file.h"
#include "runtime/session.h"

#define RX_SAVED_FORMAT 1u

/* The beginning of a file; numbers have the byte order of the machine, which another order refuses
 * by the format. */
typedef struct rx_saved_header {
    char magic[8];                             /* of rx_kind_program */
    uint32_t format, policy;
    uint32_t keep_all, invariant;
    char version[32], backend[16], name[128], driver[128]; /* end with a zero */
    uint64_t kernels;                          /* rx_backend.kernels_digest */
    uint64_t text_bytes, cache_bytes;          /* of what follows: all of the file */
    uint64_t digest;                           /* of all before it and all after it */
} rx_saved_header;

/* A file in memory, checked: where its pieces are. */
typedef struct rx_saved {
    rx_saved_header header;
    rx_bytes text, cache;
} rx_saved;

uint64_t rx_saved_digest(const rx_saved *s);
/* RLX_INVALID: it is none, or damaged. */
rlx_status rx_saved_read(const void *data, size_t bytes, rx_saved *out, rlx_error *err);
/* A session from a file that was read; `desc` is this version's. */
rlx_status rx_saved_load(rlx_device *d, const rx_saved *s, const rlx_session_desc *desc,
                         rlx_session **out, rlx_error *err);

#endif
