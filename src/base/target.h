/* SPDX-License-Identifier: MIT */
/* Target of a file write: follows links, and reports what exists there and whether it may be
 * replaced. The rules are those of base/outfile.h. */
#ifndef RX_BASE_TARGET_H
#define RX_BASE_TARGET_H

#include "base/outfile.h"
#include "base/posix.h"

typedef struct rx_target {
    const char *path;   /* in errors */
    char *resolved;     /* owned: the path behind all links */
    int descriptor;     /* of /dev/stdout, /dev/fd/N, ...; else -1 */
    bool exists;        /* as a regular file, then: */
    mode_t mode;        /* its permissions */
    uid_t uid;
    gid_t gid;
    bool stream;        /* else; opened as it is */
} rx_target;

/* Resolves the last part of a path unless `keep_link`. On failure *t holds nothing; on success the
 * caller frees t->resolved with rx_free. */
rlx_status rx_target_find(const char *path, bool keep_link, rx_target *t, rlx_error *err);
/* Stats the target: fills `exists` and what follows it, or fails. `kind` may be NULL: any. */
rlx_status rx_target_check(rx_target *t, const rx_file_kind *kind, rlx_error *err);

/* "a folder", "a pipe", ...: what a file of that st_mode is. */
const char *rx_mode_name(mode_t mode);

#endif
