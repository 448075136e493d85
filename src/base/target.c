/* SPDX-License-Identifier: MIT */
/* Target of a file write, over POSIX calls. */
#include "base/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

const rx_file_kind rx_kind_gguf = {"a GGUF file", "GGUF", 4, 0};
const rx_file_kind rx_kind_npy = {"a NumPy file", "\x93NUMPY", 6, 0};
const rx_file_kind rx_kind_sequence = {"a saved chat or context", "RLXSEQ", 7, 0};
const rx_file_kind rx_kind_program = {"a compiled graph", "RLXPROG", 8, 0};
/* The length of the head, far below 2^40, and the brace that opens it. */
const rx_file_kind rx_kind_safetensors = {"a safetensors file", "\0\0\0{", 4, 5};
const rx_file_kind rx_kind_json = {"a JSON file", "{", 1, 0};

const char *rx_mode_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return "a regular file";
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a pipe";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
#if !defined(__wasi__)
    case S_IFSOCK: return "a socket";
#endif
    default: return "no regular file";
    }
}

#if !defined(__wasi__)
#define MAX_LINKS 40
#define HEAD_BYTES 512 /* of a file that tell its kind */

/* ---- Links ----------------------------------------------------------------------------------- */

/* The descriptor that a path names, or -1. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (!strcmp(path, "/dev/stdout"))
        return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr"))
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const size_t n = strlen(folders[i]);
        if (strncmp(path, folders[i], n) || path[n] < '0' || path[n] > '9')
            continue;
        char *end;
        errno = 0;
        long fd = strtol(path + n, &end, 10);
        if (!*end && !errno && fd <= INT_MAX)
            return (int)fd;
    }
    return -1;
}

/* Replaces a path by what it is a link to; false when it is no link. */
static bool follow_link(char **path, bool *failed)
{
    char to[PATH_MAX];
    const ssize_t n = readlink(*path, to, sizeof to - 1);
    if (n <= 0)
        return false;
    const char *slash = to[0] == '/' ? NULL : strrchr(*path, '/');
    rx_str s = {0};
    if (slash)
        rx_str_add(&s, *path, (size_t)(slash - *path) + 1);
    rx_str_add(&s, to, (size_t)n);
    rx_free(*path);
    *path = s.data;
    *failed = s.failed;
    if (s.failed) {
        rx_str_finish(&s);
        *path = NULL;
    }
    return true;
}

rlx_status rx_target_find(const char *path, bool keep_link, rx_target *t, rlx_error *err)
{
    *t = (rx_target){.path = path, .descriptor = -1};
    if (!path || !*path)
        return rx_fail(err, RLX_INVALID, "the path of a file to be written is %s",
                       path ? "empty" : "NULL");
    const size_t n = strlen(path) + 1;
    bool failed = false;
    t->resolved = rx_alloc(n);
    if (!t->resolved)
        return rx_fail_memory(err, path, n);
    memcpy(t->resolved, path, n);
    for (int i = 0; !keep_link && (t->descriptor = descriptor_of(t->resolved)) < 0; i++) {
        if (!follow_link(&t->resolved, &failed))
            break;
        if (failed)
            return rx_fail_memory(err, path, PATH_MAX);
        if (i == MAX_LINKS) {
            rx_free(t->resolved);
            return rx_fail(err, RLX_IO, "cannot write '%s': more than %d links", path, MAX_LINKS);
        }
    }
    return RLX_OK;
}

/* ---- What is there --------------------------------------------------------------------------- */

static bool is_text(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((head[i] < 0x20 && !strchr("\t\n\r\f", head[i])) || head[i] == 0x7f || !head[i])
            return false;
    return true;
}

static bool is_kind(const rx_file_kind *kind, const unsigned char *head, size_t n)
{
    return n >= kind->at + kind->magic_bytes &&
           !memcmp(head + kind->at, kind->magic, kind->magic_bytes);
}

static const char *describe(const unsigned char *head, size_t n)
{
    static const rx_file_kind *const kinds[] = {&rx_kind_gguf, &rx_kind_npy, &rx_kind_sequence,
                                               &rx_kind_program, &rx_kind_safetensors};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is_kind(kinds[i], head, n))
            return kinds[i]->name;
    return is_text(head, n) ? "a text file" : "a file of another kind";
}

static rlx_status check_kind(const rx_target *t, const rx_file_kind *kind, rlx_error *err)
{
    unsigned char head[HEAD_BYTES];
    int fd = rx_open(t->resolved, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : rx_read(fd, head, sizeof head);
    const int why = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return rx_fail(err, RLX_IO, "'%s' was not replaced: whether it is %s cannot be seen: %s",
                       t->path, kind->name, strerror(why));
    if (n == 0 || is_kind(kind, head, (size_t)n))
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "'%s' was not replaced: expected %s, found %s", t->path,
                   kind->name, describe(head, (size_t)n));
}

rlx_status rx_target_check(rx_target *t, const rx_file_kind *kind, rlx_error *err)
{
    struct stat st;
    t->exists = t->stream = false;
    if (t->descriptor >= 0) {
        t->stream = true;
        return RLX_OK;
    }
    if (kind ? rx_stat(t->resolved, &st) : rx_lstat(t->resolved, &st)) {
        if (errno == ENOENT)
            return RLX_OK;
        return rx_fail(err, RLX_IO, "cannot write '%s': %s", t->path, strerror(errno));
    }
    if (!kind && !S_ISDIR(st.st_mode))
        return RLX_OK;
    t->stream = S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode);
    if (t->stream)
        return RLX_OK;
    if (!S_ISREG(st.st_mode))
        return rx_fail(err, RLX_IO, "cannot write '%s': it is %s; expected a file", t->path,
                       rx_mode_name(st.st_mode));
    if (!(st.st_mode & 0222) || rx_access(t->resolved, W_OK))
        return rx_fail(err, RLX_IO, "'%s' was not replaced: it is read-only", t->path);
    t->exists = true;
    t->mode = st.st_mode & 0777;
    t->uid = st.st_uid;
    t->gid = st.st_gid;
    return check_kind(t, kind, err);
}
#endif
