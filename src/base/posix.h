/* SPDX-License-Identifier: MIT */
/* The POSIX calls on files, folders and libraries that the library and the command line make. Paths
 * are UTF-8. On POSIX rx_NAME is NAME; on Windows it stands on wide calls (posix_win.c), and what
 * has no other meaning there (owners, links, locks of other processes) is always allowed. */
#ifndef RX_BASE_POSIX_H
#define RX_BASE_POSIX_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(_WIN32)
#include "base/posix_win.h"
#else
#include <dirent.h>
#if !defined(__wasm__)
#include <dlfcn.h>
#endif
#if defined(__APPLE__)
#include <sys/random.h>
#endif

#define RX_BACKSLASH 0 /* whether it separates folders too */

#define rx_open open
#define rx_stat stat
#define rx_lstat lstat
#define rx_access access
#define rx_mkdir mkdir
#define rx_fopen fopen
#define rx_read read
#define rx_dup_cloexec(fd) fcntl(fd, F_DUPFD_CLOEXEC, 0)
#define rx_random_bytes getentropy

typedef DIR rx_dir;
#define rx_opendir opendir
#define rx_closedir closedir
/* The name of the next entry, or NULL. */
static inline const char *rx_next_name(rx_dir *d)
{
    const struct dirent *e = readdir(d);
    return e ? e->d_name : NULL;
}

#if !defined(__wasm__)
#define rx_library_open(path) dlopen(path, RTLD_NOW | RTLD_LOCAL)
#define rx_library_symbol dlsym
#define rx_library_close dlclose
#define rx_library_error dlerror
/* The path of a file in the folder of this library or program. */
bool rx_library_beside(const char *name, char *out, size_t cap);
#endif

static inline int rx_processors(void)
{
#if defined(_SC_NPROCESSORS_ONLN)
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
#else
    return 1;
#endif
}
static inline uint64_t rx_memory_bytes(void)
{
#if defined(_SC_PHYS_PAGES) && defined(_SC_PAGESIZE)
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
#else
    return 0;
#endif
}

/* Which file it is, under any name: a volume and a number there. */
static inline void rx_file_number(int fd, const struct stat *st, uint64_t *device, uint64_t *inode)
{
    (void)fd;
    *device = (uint64_t)st->st_dev;
    *inode = (uint64_t)st->st_ino;
}
static inline bool rx_path_number(const char *path, uint64_t *device, uint64_t *inode)
{
    struct stat st;
    if (stat(path, &st))
        return false;
    rx_file_number(-1, &st, device, inode);
    return true;
}
#endif

/* What follows the last separator of a path begins here: 0 where there is none. */
static inline size_t rx_folder_length(const char *path)
{
    size_t n = 0;
    for (size_t i = 0; path[i]; i++)
        if (path[i] == '/' || (RX_BACKSLASH && path[i] == '\\'))
            n = i + 1;
    return n;
}

#endif
