/* SPDX-License-Identifier: MIT */
/* The one way in which rlx writes files. The bytes go into a new file in the folder of the target,
 * are synced, and get the name of the target by rename(2), then the folder is synced: whatever
 * fails and whenever the process or the machine stops, the name is that of the whole old file or
 * of the whole new one.
 *
 * The target
 *   - that is a link is what the link points at; the link stays;
 *   - that exists is replaced only when it is a regular file that may be written to and is empty
 *     or of the same kind; its permissions are kept, its other hard links keep the old bytes;
 *   - that is a terminal, /dev/null, another character device, a pipe that someone reads, or an
 *     open descriptor (/dev/stdout, /dev/fd/N) is written as a stream: nothing there can be lost;
 *   - that is a folder, a socket, a block device or a pipe that no one reads is refused.
 *
 * Temporaries: a file without a name where the system has those (O_TMPFILE), which vanishes with
 * its process; it has the name NAME.part-<16 hex digits> only between link(2) and rename(2). Else
 * the temporary has that name all along. Its writer holds a lock on it (flock), so the next writer
 * of the same target tells those of dead processes by their free locks and removes them. */
#ifndef RX_BASE_OUTFILE_H
#define RX_BASE_OUTFILE_H

#include "base/error.h"
#include "base/file.h"

/* What an older file must be to be replaced: one that has `magic` at the byte `at`. */
typedef struct rx_file_kind {
    const char *name; /* "a GGUF file" */
    const void *magic;
    size_t magic_bytes, at;
} rx_file_kind;
extern const rx_file_kind rx_kind_gguf, rx_kind_npy, rx_kind_sequence, rx_kind_program,
    rx_kind_safetensors, rx_kind_json;

typedef struct rx_outfile {
    char *path;        /* as the caller gave it: for errors; NULL: nothing is open */
    char *target;      /* what it resolves to */
    char *folder;      /* the folder of that */
    char *temporary;   /* path of the temporary file, which exists under it when `named` */
    const rx_file_kind *kind;
    unsigned char *buffer;
    size_t n_buffer;
    uint64_t bytes;    /* written so far, with those in the buffer */
    int fd;
    bool stream, named, unsynced;
    bool keep;         /* discard leaves the temporary: a later download goes on with it */
} rx_outfile;

/* Opens a file for writing and checks the target, so that what cannot be replaced is refused before
 * work is done for it. On failure *f holds nothing; on success it ends with commit or discard. */
rlx_status rx_outfile_open(const char *path, const rx_file_kind *kind, rx_outfile *f,
                           rlx_error *err);
/* The same for files that only rlx uses and that may be lost: links are replaced, not followed, any
 * kind of file is replaced, nothing is synced. Readers see the old file or the new one. */
rlx_status rx_outfile_open_cache(const char *path, rx_outfile *f, rlx_error *err);
rlx_status rx_outfile_write(rx_outfile *f, const void *data, size_t bytes, rlx_error *err);
/* Checks the target again and gives the file its name. Ends *f also when it fails; then the target
 * is as it was, unless the text says that only the folder could not be synced. */
rlx_status rx_outfile_commit(rx_outfile *f, rlx_error *err);
/* Removes the temporary. Fine for a zero rx_outfile and after commit. */
void rx_outfile_discard(rx_outfile *f);

/* The same for downloads: bytes are appended to PATH.partial, which discard leaves there unless
 * f->keep was cleared. f->bytes is what an earlier process left. RLX_INVALID: another process is
 * writing it. */
rlx_status rx_outfile_open_partial(const char *path, rx_outfile *f, rlx_error *err);
/* Reads the bytes of PATH.partial so far, in order. */
typedef void rx_outfile_reader(void *user, const void *data, size_t bytes);
rlx_status rx_outfile_read_back(rx_outfile *f, rx_outfile_reader *fn, void *user, rlx_error *err);
/* Drops them. */
rlx_status rx_outfile_restart(rx_outfile *f, rlx_error *err);

/* Removes a file, a socket or an empty folder; one that is not there is fine. */
rlx_status rx_outfile_remove(const char *path, rlx_error *err);
/* Makes all folders on the way to `path`, for this user only; what follows the last slash is a
 * name in the last of them. */
rlx_status rx_outfile_make_folders(const char *path, rlx_error *err);

/* Writes the last pieces and commits, or discards when that fails. */
rlx_status rx_outfile_end(rx_outfile *f, const rx_bytes *pieces, size_t n, rlx_error *err);
/* Opens, writes and ends. */
rlx_status rx_outfile_save(const char *path, const rx_file_kind *kind, const rx_bytes *pieces,
                           size_t n, rlx_error *err);

/* For tests: called before each system call that changes something. `call` is "tmpfile", "create",
 * "lock", "write", "sync", "link", "rename", "sync folder" or "remove". Returns 0 or the errno with
 * which the call fails instead of being made; *bytes of "write" may be made smaller. */
typedef int rx_outfile_hook(void *user, const char *call, size_t *bytes);
/* NULL: none. Not while another thread writes a file. */
void rx_outfile_set_hook(rx_outfile_hook *fn, void *user);

#endif
