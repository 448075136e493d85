/* SPDX-License-Identifier: MIT */
/* A file that appears under its name only when it is whole: it is written beside it and renamed. */
#ifndef RX_BASE_OUTFILE_H
#define RX_BASE_OUTFILE_H

#include "base/error.h"

typedef struct rx_outfile {
    char *path, *temporary; /* owned */
    int fd;
    uint64_t bytes;         /* written so far */
} rx_outfile;

/* On failure *f holds nothing; on success it ends with commit or discard. */
rlx_status rx_outfile_open(const char *path, rx_outfile *f, rlx_error *err);
rlx_status rx_outfile_write(rx_outfile *f, const void *data, size_t bytes, rlx_error *err);
/* Gives the file its name; discards it when that fails. */
rlx_status rx_outfile_commit(rx_outfile *f, rlx_error *err);
/* Removes it. Fine for a zero rx_outfile and after commit. */
void rx_outfile_discard(rx_outfile *f);

#endif
