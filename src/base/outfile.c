/* SPDX-License-Identifier: MIT */
/* Files written beside their place and renamed, over POSIX calls; every call is checked. */
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static rlx_status fail_io(const rx_outfile *f, const char *what, rlx_error *err)
{
    return rx_fail(err, RLX_IO, "cannot %s '%s': %s", what, f->path, strerror(errno));
}

/* Names that other processes and earlier runs that were killed do not have. */
#define MAX_TRIES 100
#define SUFFIX_ROOM 48

static int create_temporary(rx_outfile *f, size_t length)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        snprintf(f->temporary + length, SUFFIX_ROOM, ".part-%ld-%d", (long)getpid(), i);
        int fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

rlx_status rx_outfile_open(const char *path, rx_outfile *f, rlx_error *err)
{
    const size_t length = strlen(path);
    *f = (rx_outfile){.fd = -1};
    f->path = rx_alloc(length + 1);
    f->temporary = rx_alloc(length + SUFFIX_ROOM);
    rlx_status st = RLX_OK;
    if (!f->path || !f->temporary) {
        st = rx_fail_memory(err, path, length + SUFFIX_ROOM);
        goto out;
    }
    memcpy(f->path, path, length + 1);
    memcpy(f->temporary, path, length + 1);
    f->fd = create_temporary(f, length);
    if (f->fd < 0)
        st = fail_io(f, "create", err);
out:
    if (st != RLX_OK) {
        rx_free(f->path);
        rx_free(f->temporary);
        *f = (rx_outfile){.fd = -1};
    }
    return st;
}

rlx_status rx_outfile_write(rx_outfile *f, const void *data, size_t bytes, rlx_error *err)
{
    const char *p = data;
    while (bytes) {
        ssize_t n = write(f->fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_io(f, "write", err);
        p += n;
        bytes -= (size_t)n;
        f->bytes += (uint64_t)n;
    }
    return RLX_OK;
}

rlx_status rx_outfile_commit(rx_outfile *f, rlx_error *err)
{
    rlx_status st = RLX_OK;
    /* A name for bytes that the disk does not hold yet could be left empty by a power failure. */
    if (fsync(f->fd) && errno != EINVAL && errno != EROFS)
        st = fail_io(f, "write", err);
    if (close(f->fd) && st == RLX_OK)
        st = fail_io(f, "write", err);
    f->fd = -1;
    if (st == RLX_OK && rename(f->temporary, f->path))
        st = fail_io(f, "create", err);
    if (st == RLX_OK) {
        rx_free(f->temporary);
        f->temporary = NULL;
    }
    rx_outfile_discard(f);
    return st;
}

void rx_outfile_discard(rx_outfile *f)
{
    if (f->temporary) {
        if (f->fd >= 0)
            close(f->fd);
        unlink(f->temporary);
    }
    rx_free(f->temporary);
    rx_free(f->path);
    *f = (rx_outfile){.fd = -1};
}
