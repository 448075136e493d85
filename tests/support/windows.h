/* SPDX-License-Identifier: MIT */
/* What test programs take from POSIX and Windows has under other names. Included by the build
 * before everything else, on Windows only. */
#ifndef RLX_TESTS_SUPPORT_WINDOWS_H
#define RLX_TESTS_SUPPORT_WINDOWS_H

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline __attribute__((unused)) int setenv(const char *name, const char *value, int over)
{
    return over || !getenv(name) ? _putenv_s(name, value) : 0;
}
static inline __attribute__((unused)) int unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

/* The last six characters are replaced, as POSIX has it. */
static inline __attribute__((unused)) char *mkdtemp(char *path)
{
    char *at = path + strlen(path) - 6;
    for (int i = 0; i < 1000; i++) {
        snprintf(at, 7, "%06x", (unsigned)(clock() * 7919 + rand() + i) & 0xffffff);
        if (!_mkdir(path))
            return path;
    }
    return NULL;
}

/* mkstemps(3): six characters before a suffix of n bytes. */
static inline __attribute__((unused)) int mkstemps(char *path, int n)
{
    char *at = path + strlen(path) - n - 6, digits[7];
    for (int i = 0; i < 1000; i++) {
        snprintf(digits, sizeof digits, "%06x", (unsigned)(clock() * 7919 + rand() + i) & 0xffffff);
        memcpy(at, digits, 6);
        const int fd = _open(path, _O_RDWR | _O_CREAT | _O_EXCL | _O_BINARY, 0600);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

#define mkdir(path, mode) _mkdir(path)
#define rmdir _rmdir

#endif
