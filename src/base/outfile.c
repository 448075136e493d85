/* SPDX-License-Identifier: MIT */
/* Atomic file replacement over POSIX calls: written to a temporary, renamed; every call is
 * checked. */
#include "base/outfile.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/posix.h"
#include "base/target.h"
#include "base/thread.h"

#if defined(__wasi__)
/* Files of a browser are read-only: none is ever open for writing. */
rlx_status rx_outfile_open(const char *path, const rx_file_kind *kind, rx_outfile *f,
                           rlx_error *err)
{
    (void)kind;
    return rx_outfile_open_cache(path, f, err);
}

rlx_status rx_outfile_open_cache(const char *path, rx_outfile *f, rlx_error *err)
{
    *f = (rx_outfile){.fd = -1};
    return rx_fail(err, RLX_UNSUPPORTED, "cannot write '%s': files are read-only here", path);
}

rlx_status rx_outfile_write(rx_outfile *f, const void *data, size_t bytes, rlx_error *err)
{
    (void)data, (void)bytes;
    return rx_fail(err, RLX_UNSUPPORTED, "cannot write '%s'", f->path);
}

rlx_status rx_outfile_commit(rx_outfile *f, rlx_error *err)
{
    return rx_outfile_write(f, NULL, 0, err);
}

void rx_outfile_discard(rx_outfile *f) { (void)f; }

rlx_status rx_outfile_make_folders(const char *path, rlx_error *err)
{
    return rx_fail(err, RLX_UNSUPPORTED, "cannot make the folder of '%s': files are read-only here",
                   path);
}
#else
#if !defined(_WIN32)
#include <sys/file.h>
#include <sys/random.h>

#define rx_rename rename
#define rx_unlink unlink
#define rx_remove remove
#endif

#define BUFFER_BYTES ((size_t)64 << 10)
#define MAX_TRIES 100
/* The name of a temporary is that of its target, cut to the longest name that systems take, MARK
 * and digits. */
#define MAX_BASE 200
#define MARK ".part-"
#define DIGITS 16
#define SUFFIX_BYTES (sizeof MARK - 1 + DIGITS)

/* ---- System calls, as tests may make them fail ----------------------------------------------- */

static rx_outfile_hook *hook;
static void *hook_user;

void rx_outfile_set_hook(rx_outfile_hook *fn, void *user)
{
    hook = fn;
    hook_user = user;
}

static bool fails(const char *call, size_t *bytes)
{
    const int why = hook ? hook(hook_user, call, bytes) : 0;
    if (why)
        errno = why;
    return why != 0;
}

static int open_file(const char *call, const char *path, int flags, mode_t mode)
{
    int fd;
    do
        fd = fails(call, NULL) ? -1 : rx_open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* True when another process holds the lock; where there are no locks the file counts as locked by
 * us. */
static bool is_locked(int fd)
{
    int result;
    do
        result = fails("lock", NULL) ? -1 : flock(fd, LOCK_EX | LOCK_NB);
    while (result && errno == EINTR);
    return result && errno == EWOULDBLOCK;
}

static bool write_all(int fd, const unsigned char *data, size_t bytes)
{
    while (bytes) {
        size_t now = bytes;
        ssize_t n = fails("write", &now) ? -1 : write(fd, data, now);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return false;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Some systems cannot sync a file and say so; that is no failure. */
static bool sync_file(const char *call, int fd)
{
    int result;
    do
        result = fails(call, NULL) ? -1 : fsync(fd);
    while (result && errno == EINTR);
    return !result || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

static rlx_status fail_io(const rx_outfile *f, const char *what, rlx_error *err)
{
    return rx_fail(err, RLX_IO, "cannot %s '%s': %s", what, f->path, strerror(errno));
}

/* ---- Names of temporaries -------------------------------------------------------------------- */

static uint32_t random_bits(void)
{
    uint32_t bits;
    return rx_random_bytes(&bits, sizeof bits) ? (uint32_t)rx_now_ns() : bits;
}

/* The first half of the digits of all temporaries of this process. */
static uint32_t process_token(void)
{
    static _Atomic uint32_t seed;
    uint32_t s = atomic_load(&seed), fresh = random_bits() | 1;
    if (!s && atomic_compare_exchange_strong(&seed, &s, fresh))
        s = fresh;
    return s ^ (uint32_t)getpid() * 0x9e3779b1u;
}

/* The bytes of a temporary's path before MARK. */
static size_t stem_length(const rx_outfile *f)
{
    const size_t folder = rx_folder_length(f->target), base = strlen(f->target) - folder;
    return folder + (base < MAX_BASE ? base : MAX_BASE);
}

static void set_name(rx_outfile *f)
{
    snprintf(f->temporary + stem_length(f), SUFFIX_BYTES + 1, MARK "%08x%08x",
             (unsigned)process_token(), (unsigned)random_bits());
}

/* ---- Temporaries of processes that died ------------------------------------------------------ */

/* Whether `name` is a temporary of this target that was made by another process. */
static bool is_leftover(const rx_outfile *f, const char *name)
{
    const size_t folder = rx_folder_length(f->target), stem = stem_length(f) - folder;
    char own[9];
    if (strlen(name) != stem + SUFFIX_BYTES || strncmp(name, f->target + folder, stem) ||
        strncmp(name + stem, MARK, sizeof MARK - 1))
        return false;
    const char *digits = name + stem + sizeof MARK - 1;
    snprintf(own, sizeof own, "%08x", (unsigned)process_token());
    return strspn(digits, "0123456789abcdef") == DIGITS && strncmp(digits, own, 8);
}

/* Removes the file at f->temporary when its writer is gone. */
static void remove_leftover(const rx_outfile *f)
{
    struct stat st;
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC; /* NFS: to lock */
    const int fd = rx_open(f->temporary, flags);
    if (fd < 0)
        return;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !flock(fd, LOCK_EX | LOCK_NB) && !fails("remove", NULL))
        rx_unlink(f->temporary);
    close(fd);
}

static void remove_leftovers(rx_outfile *f)
{
    rx_dir *d = rx_opendir(f->folder);
    const size_t at = rx_folder_length(f->target);
    for (const char *name; d && (name = rx_next_name(d));)
        if (is_leftover(f, name)) {
            memcpy(f->temporary + at, name, strlen(name) + 1);
            remove_leftover(f);
        }
    if (d)
        rx_closedir(d);
}

/* ---- Opening --------------------------------------------------------------------------------- */

#if defined(O_TMPFILE)
/* Path under /proc of an unnamed file, for linkat. */
static void descriptor_path(int fd, char out[32])
{
    snprintf(out, 32, "/proc/self/fd/%d", fd);
}
#endif

/* An unnamed file (O_TMPFILE) in that folder, or -1. */
static int open_unnamed(const char *folder, mode_t mode)
{
#if defined(O_TMPFILE)
    char path[32];
    int fd = open_file("tmpfile", folder, O_TMPFILE | O_WRONLY, mode);
    if (fd < 0)
        return -1;
    descriptor_path(fd, path);
    if (!rx_access(path, F_OK)) {
        is_locked(fd); /* no one else can have it */
        return fd;
    }
    close(fd);
#else
    (void)folder, (void)mode;
#endif
    return -1;
}

/* A new file at f->temporary with its lock. A writer of the same target that sees it before it is
 * locked removes it; then another name is tried. */
static int open_named(rx_outfile *f, mode_t mode)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        struct stat st;
        set_name(f);
        int fd = open_file("create", f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0 || (!is_locked(fd) && !fstat(fd, &st) && st.st_nlink)) {
            f->named = fd >= 0;
            return fd;
        }
        close(fd);
        rx_unlink(f->temporary);
    }
    errno = EEXIST;
    return -1;
}

/* Owner and group of the old file where the system allows it. A group that is not the old one does
 * not get the rights of the old one. */
static rlx_status keep_permissions(const rx_outfile *f, const rx_target *t, rlx_error *err)
{
    mode_t mode = t->mode;
    if (fchown(f->fd, t->uid, t->gid) && fchown(f->fd, (uid_t)-1, t->gid))
        mode &= ~(mode_t)070;
    return fchmod(f->fd, mode) ? fail_io(f, "set the permissions of", err) : RLX_OK;
}

static rlx_status open_temporary(rx_outfile *f, const rx_target *t, rlx_error *err)
{
    const mode_t mode = t->exists ? 0600 : f->unsynced ? 0644 : 0666;
    remove_leftovers(f);
    f->fd = open_unnamed(f->folder, mode);
    if (f->fd < 0)
        f->fd = open_named(f, mode);
    if (f->fd < 0)
        return fail_io(f, "create", err);
    return t->exists ? keep_permissions(f, t, err) : RLX_OK;
}

/* PATH.partial with what an earlier process has left of it. */
static rlx_status open_kept(rx_outfile *f, rlx_error *err)
{
    struct stat st;
    memcpy(f->temporary + stem_length(f), ".partial", sizeof ".partial");
    f->fd = open_file("create", f->temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (f->fd < 0 || fstat(f->fd, &st))
        return fail_io(f, "create", err);
    if (!S_ISREG(st.st_mode))
        return rx_fail(err, RLX_INVALID, "'%s' is %s; expected a file", f->temporary,
                       rx_mode_name(st.st_mode));
    if (is_locked(f->fd))
        return rx_fail(err, RLX_INVALID, "'%s' is being written by another process", f->path);
    const off_t end = lseek(f->fd, 0, SEEK_END);
    if (end < 0)
        return fail_io(f, "write", err);
    f->bytes = (uint64_t)end;
    f->named = true;
    return RLX_OK;
}

/* Writes to an open pipe or device wait from here on; false for no file, too. */
static bool wait_for_writes(int fd)
{
#if O_NONBLOCK
    const int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    return flags >= 0 && !fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
#else
    return fd >= 0;
#endif
}

static rlx_status open_stream(rx_outfile *f, const rx_target *t, rlx_error *err)
{
    if (f->keep)
        return rx_fail(err, RLX_INVALID, "'%s' is a device or a pipe; expected a file", f->path);
    f->stream = true;
    if (t->descriptor >= 0) {
        f->fd = rx_dup_cloexec(t->descriptor);
        return f->fd < 0 ? fail_io(f, "write to", err) : RLX_OK;
    }
    /* Without O_NONBLOCK a pipe that no one reads is waited for. */
    f->fd = open_file("create", f->target, O_WRONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (f->fd < 0 && errno == ENXIO)
        return rx_fail(err, RLX_IO, "cannot write '%s': it is a pipe that no one reads", f->path);
    return wait_for_writes(f->fd) ? RLX_OK : fail_io(f, "open", err);
}

static rlx_status open_at(rx_outfile *f, rx_target *t, rlx_error *err)
{
    const size_t n = strlen(t->path) + 1, m = strlen(t->resolved) + 1;
    const size_t folder = rx_folder_length(t->resolved);
    f->path = rx_alloc(n);
    f->temporary = rx_alloc(m + SUFFIX_BYTES);
    f->folder = rx_alloc(folder + 2);
    f->buffer = rx_alloc(BUFFER_BYTES);
    f->target = t->resolved;
    t->resolved = NULL;
    if (!f->path || !f->temporary || !f->folder || !f->buffer)
        return rx_fail_memory(err, t->path, n + 2 * m + SUFFIX_BYTES + BUFFER_BYTES);
    memcpy(f->path, t->path, n);
    memcpy(f->folder, folder ? f->target : ".", folder ? folder : 1);
    f->folder[folder ? folder : 1] = 0;
    memcpy(f->temporary, f->target, m);
    if (t->stream)
        return open_stream(f, t, err);
    return f->keep ? open_kept(f, err) : open_temporary(f, t, err);
}

static rlx_status open_target(const char *path, rx_outfile *f, rlx_error *err)
{
    rx_target t;
    RLX_TRY(rx_target_find(path, f->unsynced, &t, err));
    rlx_status st = rx_target_check(&t, f->kind, err);
    if (st == RLX_OK)
        st = open_at(f, &t, err);
    rx_free(t.resolved);
    if (st != RLX_OK)
        rx_outfile_discard(f);
    return st;
}

rlx_status rx_outfile_open(const char *path, const rx_file_kind *kind, rx_outfile *f,
                           rlx_error *err)
{
    *f = (rx_outfile){.fd = -1, .kind = kind};
    return open_target(path, f, err);
}

rlx_status rx_outfile_open_cache(const char *path, rx_outfile *f, rlx_error *err)
{
    *f = (rx_outfile){.fd = -1, .unsynced = true};
    return open_target(path, f, err);
}

rlx_status rx_outfile_open_partial(const char *path, rx_outfile *f, rlx_error *err)
{
    *f = (rx_outfile){.fd = -1, .keep = true};
    return open_target(path, f, err);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static rlx_status flush(rx_outfile *f, rlx_error *err)
{
    const size_t n = f->n_buffer;
    f->n_buffer = 0;
    return write_all(f->fd, f->buffer, n) ? RLX_OK : fail_io(f, "write", err);
}

rlx_status rx_outfile_write(rx_outfile *f, const void *data, size_t bytes, rlx_error *err)
{
    if (bytes > BUFFER_BYTES - f->n_buffer)
        RLX_TRY(flush(f, err));
    if (bytes >= BUFFER_BYTES) {
        if (!write_all(f->fd, data, bytes))
            return fail_io(f, "write", err);
    } else if (bytes) {
        memcpy(f->buffer + f->n_buffer, data, bytes);
        f->n_buffer += bytes;
    }
    f->bytes += bytes;
    return RLX_OK;
}

rlx_status rx_outfile_read_back(rx_outfile *f, rx_outfile_reader *fn, void *user, rlx_error *err)
{
    RLX_TRY(flush(f, err));
    for (uint64_t at = 0; at < f->bytes;) {
        const uint64_t left = f->bytes - at;
        const ssize_t n = pread(f->fd, f->buffer, left < BUFFER_BYTES ? left : BUFFER_BYTES,
                                (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return rx_fail(err, RLX_IO, "cannot read '%s': %s", f->temporary,
                           n ? strerror(errno) : "it became shorter");
        fn(user, f->buffer, (size_t)n);
        at += (uint64_t)n;
    }
    return RLX_OK;
}

rlx_status rx_outfile_restart(rx_outfile *f, rlx_error *err)
{
    f->n_buffer = 0;
    f->bytes = 0;
    if (ftruncate(f->fd, 0) || lseek(f->fd, 0, SEEK_SET))
        return fail_io(f, "write", err);
    return RLX_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

static rlx_status check_again(const rx_outfile *f, rlx_error *err)
{
    rx_target t = {.path = f->path, .resolved = f->target, .descriptor = -1};
    RLX_TRY(rx_target_check(&t, f->kind, err));
    if (t.stream)
        return rx_fail(err, RLX_IO, "'%s' was not replaced: it became a device or a pipe while it "
                       "was written", f->path);
    return RLX_OK;
}

/* Links an unnamed file to the path of its temporary. */
static bool link_temporary(rx_outfile *f)
{
#if defined(O_TMPFILE)
    char from[32];
    descriptor_path(f->fd, from);
    for (int i = 0; i < MAX_TRIES && !f->named; i++) {
        set_name(f);
        f->named = !fails("link", NULL) &&
                   !linkat(AT_FDCWD, from, AT_FDCWD, f->temporary, AT_SYMLINK_FOLLOW);
        if (!f->named && errno != EEXIST && errno != EINTR)
            return false;
    }
#endif
    return f->named;
}

static bool rename_temporary(rx_outfile *f)
{
    int result;
    do
        result = fails("rename", NULL) ? -1 : rx_rename(f->temporary, f->target);
    while (result && errno == EINTR);
    f->named = f->named && result;
    return !result;
}

/* A new name is on the disk when its folder is. A folder that cannot be opened cannot be synced. */
static rlx_status sync_folder(const rx_outfile *f, rlx_error *err)
{
    int fd = rx_open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd < 0 || sync_file("sync folder", fd);
    rlx_status st = ok ? RLX_OK
                       : rx_fail(err, RLX_IO, "'%s' was written, but its folder could not be "
                                 "synced: %s", f->path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return st;
}

static rlx_status finish_file(rx_outfile *f, rlx_error *err)
{
    RLX_TRY(flush(f, err));
    if (f->stream)
        return RLX_OK;
    if (!f->unsynced && !sync_file("sync", f->fd))
        return fail_io(f, "write", err);
    RLX_TRY(check_again(f, err));
    if ((!f->named && !link_temporary(f)) || !rename_temporary(f))
        return fail_io(f, f->unsynced ? "replace" : "create", err);
    return f->unsynced ? RLX_OK : sync_folder(f, err);
}

rlx_status rx_outfile_commit(rx_outfile *f, rlx_error *err)
{
    rlx_status st = finish_file(f, err);
    if (st == RLX_OK && f->stream) {
        const int fd = f->fd;
        f->fd = -1;
        if (close(fd))
            st = fail_io(f, "write", err);
    }
    rx_outfile_discard(f);
    return st;
}

void rx_outfile_discard(rx_outfile *f)
{
    if (f->target && f->fd >= 0) { /* the lock ends last */
        if (f->keep && f->named)
            flush(f, NULL);
        else if (f->named && !fails("remove", NULL))
            rx_unlink(f->temporary);
        close(f->fd);
    }
    rx_free(f->path);
    rx_free(f->target);
    rx_free(f->folder);
    rx_free(f->temporary);
    rx_free(f->buffer);
    *f = (rx_outfile){.fd = -1};
}

/* ---- Folders and removing -------------------------------------------------------------------- */

rlx_status rx_outfile_remove(const char *path, rlx_error *err)
{
    if (!fails("remove", NULL) && (!rx_remove(path) || errno == ENOENT))
        return RLX_OK;
    return rx_fail(err, RLX_IO, "cannot remove '%s': %s", path, strerror(errno));
}

rlx_status rx_outfile_make_folders(const char *path, rlx_error *err)
{
    const size_t n = strlen(path) + 1;
    char *part = rx_alloc(n);
    bool ok = true;
    if (!part)
        return rx_fail_memory(err, path, n);
    memcpy(part, path, n);
    for (size_t i = 1; ok && i + 1 < n; i++) {
        const char c = part[i];
        if (c != '/' && !(RX_BACKSLASH && c == '\\'))
            continue;
        part[i] = 0;
        ok = !rx_mkdir(part, 0700) || errno == EEXIST;
        part[i] = c;
    }
    rx_free(part);
    return ok ? RLX_OK
              : rx_fail(err, RLX_IO, "cannot make the folder of '%s': %s", path, strerror(errno));
}
#endif

rlx_status rx_outfile_end(rx_outfile *f, const rx_bytes *pieces, size_t n, rlx_error *err)
{
    rlx_status st = RLX_OK;
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        st = rx_outfile_write(f, pieces[i].data, pieces[i].bytes, err);
    if (st == RLX_OK)
        return rx_outfile_commit(f, err);
    rx_outfile_discard(f);
    return st;
}

rlx_status rx_outfile_save(const char *path, const rx_file_kind *kind, const rx_bytes *pieces,
                           size_t n, rlx_error *err)
{
    rx_outfile f;
    RLX_TRY(rx_outfile_open(path, kind, &f, err));
    return rx_outfile_end(&f, pieces, n, err);
}
