/* SPDX-License-Identifier: MIT */
/* Reading texts over POSIX calls. */
#include "input.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "system.h"

static const char *mode_name(mode_t mode)
{
    return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket"
                                                                                   : "a device";
}

/* Opens without waiting for the other end of a pipe; -1 after printing why not. */
static int open_input(const char *path, struct stat *st)
{
    int fd = strcmp(path, "-") ? rx_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
                               : dup(STDIN_FILENO);
    if (fd < 0 || fstat(fd, st)) {
        cli_fail("cannot open '%s': %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

static ssize_t read_some(int fd, char *to, size_t n)
{
    ssize_t got;
    do
        got = rx_read(fd, to, n);
    while (got < 0 && errno == EINTR);
    return got;
}

static char *read_all(int fd, const char *path, size_t *length)
{
    size_t cap = 1 << 16, n = 0;
    char *text = cli_alloc(cap);
    ssize_t got;
    while ((got = read_some(fd, text + n, cap - n - 1)) > 0) {
        n += (size_t)got;
        if (cap - n - 1 == 0)
            text = cli_realloc(text, cap *= 2);
    }
    if (got < 0) {
        cli_fail("cannot read '%s': %s", path, strerror(errno));
        free(text);
        return NULL;
    }
    text[n] = 0;
    *length = n;
    return text;
}

char *input_read(const char *path, size_t *length)
{
    struct stat st;
    int fd = open_input(path, &st);
    char *text = NULL;
    if (fd < 0)
        return NULL;
    const bool given = !strcmp(path, "-");
    if (!given && !S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !isatty(fd)) {
        cli_fail("cannot read '%s': it is %s; expected a file", path, mode_name(st.st_mode));
    } else {
#if O_NONBLOCK
        const int flags = fcntl(fd, F_GETFL);
        if (!given && flags >= 0)
            fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
#endif
        text = read_all(fd, path, length);
    }
    close(fd);
    if (text && !*length && !given && S_ISFIFO(st.st_mode)) {
        cli_fail("cannot read '%s': it is a pipe that no one writes to", path);
        free(text);
        return NULL;
    }
    return text;
}

char *input_read_text(const char *path)
{
    size_t n;
    char *text = input_read(path, &n);
    if (!text || strlen(text) == n)
        return text;
    cli_fail("'%s' has zero bytes; expected text", path);
    free(text);
    return NULL;
}

bool input_begins(const char *path, const char *text)
{
    char head[16];
    struct stat st;
    const size_t n = strlen(text);
    int fd = rx_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool same = n <= sizeof head && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
                      read_some(fd, head, n) == (ssize_t)n && !memcmp(head, text, n);
    close(fd);
    return same;
}

bool input_peek(const char *path, void *bytes, size_t cap, size_t *n)
{
    struct stat st;
    int fd = open_input(path, &st);
    if (fd < 0)
        return false;
    const bool regular = S_ISREG(st.st_mode);
    ssize_t got = regular ? read_some(fd, bytes, cap) : -1;
    const int why = errno;
    close(fd);
    if (!regular)
        cli_fail("cannot read '%s': it is %s; expected a file", path, mode_name(st.st_mode));
    else if (got < 0)
        cli_fail("cannot read '%s': %s", path, strerror(why));
    *n = got > 0 ? (size_t)got : 0;
    return got >= 0;
}
