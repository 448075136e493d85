/* SPDX-License-Identifier: MIT */
/* base/posix.h on Windows. Calls return and set errno as POSIX has it. */
#ifndef RX_BASE_POSIX_WIN_H
#define RX_BASE_POSIX_WIN_H

#include <io.h>
#include <stdio.h>

#define RX_BACKSLASH 1
#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0
#define O_NOCTTY 0
#define O_NOFOLLOW 0
#define O_DIRECTORY 0
#define S_IFLNK 0xa000
#define S_IFSOCK 0xc000
#define S_ISLNK(mode) (((mode) & S_IFMT) == S_IFLNK)
#define S_ISSOCK(mode) (((mode) & S_IFMT) == S_IFSOCK)
#define LOCK_EX 2
#define LOCK_NB 4
typedef int uid_t, gid_t;

int rx_open(const char *path, int flags, ...);
int rx_stat(const char *path, struct stat *st);
#define rx_lstat rx_stat
int rx_access(const char *path, int mode);
int rx_mkdir(const char *path, int mode);
FILE *rx_fopen(const char *path, const char *mode);
ssize_t rx_read(int fd, void *to, size_t n);
#define rx_dup_cloexec(fd) dup(fd)
int rx_random_bytes(void *to, size_t n);
void rx_file_number(int fd, const struct stat *st, uint64_t *device, uint64_t *inode);
bool rx_path_number(const char *path, uint64_t *device, uint64_t *inode);

typedef struct rx_dir rx_dir;
rx_dir *rx_opendir(const char *path);
const char *rx_next_name(rx_dir *d);
void rx_closedir(rx_dir *d);

/* The path of a file in the folder of this library or program. */
bool rx_library_beside(const char *name, char *out, size_t cap);
void *rx_library_open(const char *path);
void *rx_library_symbol(void *library, const char *name);
void rx_library_close(void *library);
const char *rx_library_error(void);

/* What base/outfile.c changes files with. */
int rx_rename(const char *from, const char *to);
int rx_unlink(const char *path);
int rx_remove(const char *path);
int flock(int fd, int operation);
int fsync(int fd);
ssize_t pread(int fd, void *to, size_t n, off_t at);
static inline int geteuid(void) { return 0; }
static inline int fchown(int fd, uid_t u, gid_t g) { return (void)fd, (void)u, (void)g, 0; }
static inline int fchmod(int fd, mode_t mode) { return (void)fd, (void)mode, 0; }
static inline ssize_t readlink(const char *path, char *to, size_t n)
{
    return (void)path, (void)to, (void)n, -1;
}

/* Files in memory, for base/file.c. */
void *rx_map_file(int fd, size_t bytes);
void rx_unmap_file(void *data);
/* The path without links, of memory of rx_alloc; NULL where there is no such file. */
char *rx_real_path(const char *path);

/* What strings of C on Windows lack. */
void *memmem(const void *in, size_t n, const void *what, size_t m);
struct tm;
struct tm *localtime_r(const time_t *t, struct tm *to);
struct tm *gmtime_r(const time_t *t, struct tm *to);

/* Processors that the process may use, and bytes of memory. */
int rx_processors(void);
uint64_t rx_memory_bytes(void);

#endif
