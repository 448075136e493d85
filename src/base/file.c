/* SPDX-License-Identifier: MIT */
/* Files over POSIX calls; every call is checked. */
#include "base/file.h"

#include <string.h>

#include "base/mem.h"
#include "base/posix.h"
#include "base/target.h"

#if defined(__wasi__)
/* There is no mmap: files are read. */
static bool map_fd(int fd, size_t bytes, rx_file *f)
{
    return (void)fd, (void)bytes, (void)f, false;
}
static void unmap(rx_file *f) { (void)f; }
static void release(const rx_file *f) { (void)f; }
static bool is_own(const struct stat *st) { return (void)st, true; }

/* There is no realpath: each part of the path after the folder must be no link. */
static bool is_beneath(const char *folder, const char *path)
{
    const size_t n = strlen(folder);
    char part[4096];
    struct stat st;
    if (strncmp(path, folder, n) || strlen(path) >= sizeof part)
        return false;
    for (const char *end = path + n; *end;) {
        end += strcspn(end + 1, "/") + 1;
        memcpy(part, path, (size_t)(end - path));
        part[end - path] = 0;
        if (lstat(part, &st) || S_ISLNK(st.st_mode))
            return false;
    }
    return true;
}
#elif defined(_WIN32)
static bool map_fd(int fd, size_t bytes, rx_file *f)
{
    *f = (rx_file){.data = rx_map_file(fd, bytes), .bytes = bytes, .mapped = true};
    return f->data;
}
static void unmap(rx_file *f) { rx_unmap_file((void *)(uintptr_t)f->data); }
static void release(const rx_file *f) { (void)f; }
static bool is_own(const struct stat *st) { return (void)st, true; }

static bool is_beneath(const char *folder, const char *path)
{
    char *base = rx_real_path(*folder ? folder : "."), *full = rx_real_path(path);
    const size_t n = base ? strlen(base) : 0;
    const bool ok = base && full && !strncmp(base, full, n) &&
                    (full[n] == '\\' || (n && base[n - 1] == '\\'));
    rx_free(base);
    rx_free(full);
    return ok;
}
#else
#include <stdlib.h>
#include <sys/mman.h>

static bool map_fd(int fd, size_t bytes, rx_file *f)
{
    void *data = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (data == MAP_FAILED)
        return false;
    *f = (rx_file){.data = data, .bytes = bytes, .mapped = true};
    return true;
}

static void unmap(rx_file *f) { munmap((void *)(uintptr_t)f->data, f->bytes); }

static void release(const rx_file *f)
{
    madvise((void *)(uintptr_t)f->data, f->bytes, MADV_DONTNEED);
}

static bool is_own(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

static bool is_beneath(const char *folder, const char *path)
{
    char *base = realpath(*folder ? folder : ".", NULL), *full = realpath(path, NULL);
    const size_t n = base ? strlen(base) : 0;
    const bool ok = base && full && !strncmp(base, full, n) &&
                    (full[n] == '/' || (n == 1 && base[0] == '/'));
    (free)(base); /* made by the C library */
    (free)(full);
    return ok;
}
#endif

static rlx_status fail_io(rlx_error *err, const char *what, const char *path)
{
    return rx_fail(err, RLX_IO, "cannot %s '%s': %s", what, path, strerror(errno));
}

/* Reads `bytes` bytes into new memory; the file may be one that cannot be mapped. */
static rlx_status read_whole(int fd, const char *path, size_t bytes, rx_file *f, rlx_error *err)
{
    unsigned char *data = rx_alloc(bytes);
    if (!data)
        return rx_fail_memory(err, path, bytes);
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = rx_read(fd, data + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            rx_free(data);
            return n < 0 ? fail_io(err, "read", path)
                         : rx_fail(err, RLX_IO, "'%s' ends after %zu of %zu bytes", path, done,
                                   bytes);
        }
        done += (size_t)n;
    }
    *f = (rx_file){.data = data, .bytes = bytes};
    return RLX_OK;
}

/* A regular file, and one of ours where it must be. */
static rlx_status examine(int fd, const char *path, bool own, struct stat *st, rlx_error *err)
{
    if (fstat(fd, st))
        return fail_io(err, "examine", path);
    if (!S_ISREG(st->st_mode))
        return rx_fail(err, RLX_IO, "cannot read '%s': it is %s; expected a regular file", path,
                       rx_mode_name(st->st_mode));
    if (own && !is_own(st))
        return rx_fail(err, RLX_IO, "'%s' is not read: it belongs to user %lu", path,
                       (unsigned long)st->st_uid);
    return RLX_OK;
}

static rlx_status open_fd(int fd, const char *path, bool own, rx_file *f, rlx_error *err)
{
    struct stat st;
    RLX_TRY(examine(fd, path, own, &st, err));
    if ((uint64_t)st.st_size > SIZE_MAX / 2)
        return rx_fail(err, RLX_IO, "'%s' is too large for this process", path);
    size_t bytes = (size_t)st.st_size;
    if (!map_fd(fd, bytes, f))
        RLX_TRY(read_whole(fd, path, bytes, f, err));
    rx_file_number(fd, &st, &f->device, &f->inode);
    return RLX_OK;
}

/* O_NONBLOCK: opening a pipe or a device must not block on its other end. */
static int open_reading(const char *path, bool own)
{
    return rx_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (own ? O_NOFOLLOW : 0));
}

static rlx_status open_path(const char *path, bool own, rx_file *f, rlx_error *err)
{
    *f = (rx_file){0};
    int fd = open_reading(path, own);
    if (fd < 0)
        return fail_io(err, "open", path);
    rlx_status st = open_fd(fd, path, own, f, err);
    close(fd);
    return st;
}

rlx_status rx_file_open(const char *path, rx_file *f, rlx_error *err)
{
    return open_path(path, false, f, err);
}

rlx_status rx_file_open_own(const char *path, rx_file *f, rlx_error *err)
{
    return open_path(path, true, f, err);
}

rlx_status rx_stream_open(const char *path, rx_stream *s, rlx_error *err)
{
    struct stat st;
    *s = (rx_stream){.fd = -1};
    const int fd = open_reading(path, false);
    if (fd < 0)
        return fail_io(err, "open", path);
    const rlx_status status = examine(fd, path, false, &st, err);
    if (status != RLX_OK) {
        close(fd);
        return status;
    }
    *s = (rx_stream){.fd = fd, .bytes = (uint64_t)st.st_size};
    rx_file_number(fd, &st, &s->device, &s->inode);
    return RLX_OK;
}

rlx_status rx_stream_read(const rx_stream *s, const char *path, uint64_t at, void *to, size_t n,
                          rlx_error *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(s->fd, (char *)to + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_io(err, "read", path);
        if (!got)
            return rx_fail(err, RLX_IO, "'%s' ends at byte %llu: it had %llu when it was opened",
                           path, (unsigned long long)(at + done), (unsigned long long)s->bytes);
        done += (size_t)got;
    }
    return RLX_OK;
}

void rx_stream_close(rx_stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

bool rx_file_is_at(const rx_file *f, const char *path)
{
    uint64_t device, inode;
    return rx_path_number(path, &device, &inode) && device == f->device && inode == f->inode;
}

bool rx_file_is_beneath(const char *folder, const char *path)
{
    return is_beneath(folder, path);
}

void rx_file_close(rx_file *f)
{
    if (f->mapped)
        unmap(f);
    else
        rx_free((void *)(uintptr_t)f->data);
    *f = (rx_file){0};
}

void rx_file_release_pages(const rx_file *f)
{
    if (f->mapped)
        release(f);
}
