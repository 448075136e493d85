/* SPDX-License-Identifier: MIT */
/* Whole files in memory: mapped read-only where the system can, read otherwise. */
#ifndef RX_BASE_FILE_H
#define RX_BASE_FILE_H

#include "base/error.h"

/* A range of bytes. */
typedef struct rx_bytes {
    const void *data;
    size_t bytes;
} rx_bytes;

typedef struct rx_file {
    const unsigned char *data; /* never NULL after a successful open */
    size_t bytes;
    uint64_t device, inode; /* which file it is, under any name */
    bool mapped;
} rx_file;

/* Opens a regular file; anything else (a folder, a pipe, a device) is refused without blocking. On
 * failure *f is zero and the error names the path. A mapped file must not shrink while open. */
rlx_status rx_file_open(const char *path, rx_file *f, rlx_error *err);
/* The same for files that only rlx uses: no link, and owned by this user or root. */
rlx_status rx_file_open_own(const char *path, rx_file *f, rlx_error *err);
/* Whether `path` names the open file, also through links. */
bool rx_file_is_at(const rx_file *f, const char *path);
/* Whether `path`, with its links resolved, is beneath `folder` ("": the current one), resolved too.
 * Where links cannot be resolved (WASI), `path` must begin with `folder` and no link be on the way
 * from there. */
bool rx_file_is_beneath(const char *folder, const char *path);
/* A zero rx_file is fine. */
void rx_file_close(rx_file *f);

/* A regular file that is read in parts instead of being mapped. */
typedef struct rx_stream {
    int fd;
    uint64_t bytes;
    uint64_t device, inode;
} rx_stream;

/* As rx_file_open. */
rlx_status rx_stream_open(const char *path, rx_stream *s, rlx_error *err);
/* Reads n bytes from offset `at`, which lie inside the file; `path` names it. Thread-safe. */
rlx_status rx_stream_read(const rx_stream *s, const char *path, uint64_t at, void *to, size_t n,
                          rlx_error *err);
void rx_stream_close(rx_stream *s);

/* Drops the resident pages of a mapped file (madvise); later reads fault them in again. */
void rx_file_release_pages(const rx_file *f);

#endif
