/* SPDX-License-Identifier: MIT */
/* Whole files in memory: mapped read-only where the system can, read otherwise. */
#ifndef RX_BASE_FILE_H
#define RX_BASE_FILE_H

#include "base/error.h"

typedef struct rx_file {
    const unsigned char *data; /* never NULL after a successful open */
    size_t bytes;
    bool mapped;
} rx_file;

/* On failure *f is zero and the error names the path. A mapped file must not shrink while open. */
rlx_status rx_file_open(const char *path, rx_file *f, rlx_error *err);
/* A zero rx_file is fine. */
void rx_file_close(rx_file *f);
/* Gives the pages of a mapped file back to the system; what is read again is mapped again. */
void rx_file_release_pages(const rx_file *f);

/* Writes pieces of bytes to a new file (or over an old one). A file that could not be written
 * in full is removed. */
typedef struct rx_bytes {
    const void *data;
    size_t bytes;
} rx_bytes;
rlx_status rx_file_write(const char *path, const rx_bytes *pieces, size_t n, rlx_error *err);

#endif
