/* SPDX-License-Identifier: MIT */
/* POSIX calls over wide calls of Windows. A file that is open here can be renamed, replaced and
 * removed by others, as on POSIX. */
#include "base/posix.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "base/error.h"
#include "base/mem.h"

/* RtlGenRandom under the name that it is exported with. */
BOOLEAN NTAPI SystemFunction036(PVOID to, ULONG n);

/* ---- Paths and errors ------------------------------------------------------------------------ */

#define PATH_WIDE 2048
#define PATH_BYTES (4 * PATH_WIDE)

/* The path in UTF-16, or false with errno. */
static bool widen(const char *path, wchar_t out[PATH_WIDE])
{
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, PATH_WIDE))
        return true;
    errno = GetLastError() == ERROR_INSUFFICIENT_BUFFER ? ENAMETOOLONG : EILSEQ;
    return false;
}

/* Sets errno from the last error of Windows; -1. */
static int fail_as_posix(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND: case ERROR_PATH_NOT_FOUND: case ERROR_INVALID_DRIVE:
    case ERROR_BAD_NETPATH:
        errno = ENOENT;
        break;
    case ERROR_FILE_EXISTS: case ERROR_ALREADY_EXISTS: errno = EEXIST; break;
    case ERROR_ACCESS_DENIED: case ERROR_SHARING_VIOLATION: case ERROR_USER_MAPPED_FILE:
        errno = EACCES;
        break;
    case ERROR_LOCK_VIOLATION: case ERROR_IO_PENDING: errno = EWOULDBLOCK; break;
    case ERROR_INVALID_NAME: case ERROR_INVALID_PARAMETER: errno = EINVAL; break;
    case ERROR_DIR_NOT_EMPTY: errno = ENOTEMPTY; break;
    case ERROR_DISK_FULL: case ERROR_HANDLE_DISK_FULL: errno = ENOSPC; break;
    case ERROR_NOT_ENOUGH_MEMORY: case ERROR_OUTOFMEMORY: errno = ENOMEM; break;
    case ERROR_WRITE_PROTECT: errno = EROFS; break;
    case ERROR_NOT_SAME_DEVICE: errno = EXDEV; break;
    default: errno = EIO; break;
    }
    return -1;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static DWORD disposition(int flags)
{
    if (flags & O_CREAT)
        return flags & O_EXCL ? CREATE_NEW : flags & O_TRUNC ? CREATE_ALWAYS : OPEN_ALWAYS;
    return flags & O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING;
}

int rx_open(const char *path, int flags, ...)
{
    wchar_t wide[PATH_WIDE];
    const int kind = flags & (O_RDONLY | O_WRONLY | O_RDWR);
    const DWORD access = kind == O_RDWR     ? GENERIC_READ | GENERIC_WRITE
                         : kind == O_WRONLY ? GENERIC_WRITE
                                            : GENERIC_READ;
    if (!widen(path, wide))
        return -1;
    HANDLE h = CreateFileW(wide, access | (kind == O_RDONLY ? 0 : DELETE),
                           FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                           disposition(flags), FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE && kind != O_RDONLY)
        h = CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, disposition(flags),
                        FILE_ATTRIBUTE_NORMAL, NULL); /* devices cannot be removed */
    if (h == INVALID_HANDLE_VALUE) {
        const DWORD there = GetFileAttributesW(wide);
        fail_as_posix();
        if (there != INVALID_FILE_ATTRIBUTES && there & FILE_ATTRIBUTE_DIRECTORY)
            errno = EISDIR;
        return -1;
    }
    const int fd = _open_osfhandle((intptr_t)h, kind | _O_BINARY | _O_NOINHERIT);
    if (fd < 0)
        CloseHandle(h);
    return fd;
}

int rx_stat(const char *path, struct stat *st)
{
    wchar_t wide[PATH_WIDE];
    if (!widen(path, wide))
        return -1;
    size_t n = wcslen(wide); /* the C library finds no folder by "folder/" */
    while (n > 1 && (wide[n - 1] == L'/' || wide[n - 1] == L'\\') && wide[n - 2] != L':')
        wide[--n] = 0;
    return _wstat64(wide, (struct _stat64 *)st);
}

int rx_access(const char *path, int mode)
{
    wchar_t wide[PATH_WIDE];
    return widen(path, wide) ? _waccess(wide, mode & ~X_OK) : -1;
}

int rx_mkdir(const char *path, int mode)
{
    wchar_t wide[PATH_WIDE];
    (void)mode;
    if (!widen(path, wide))
        return -1;
    const size_t n = strlen(path);
    if (n == 2 && path[1] == ':') { /* a drive */
        errno = EEXIST;
        return -1;
    }
    return CreateDirectoryW(wide, NULL) ? 0 : fail_as_posix();
}

FILE *rx_fopen(const char *path, const char *mode)
{
    wchar_t wide[PATH_WIDE], how[8] = {0};
    for (size_t i = 0; mode[i] && i < 7; i++)
        how[i] = (wchar_t)mode[i];
    return widen(path, wide) ? _wfopen(wide, how) : NULL;
}

ssize_t rx_read(int fd, void *to, size_t n)
{
    return _read(fd, to, n < 1u << 30 ? (unsigned)n : 1u << 30);
}

int rx_rename(const char *from, const char *to)
{
    wchar_t a[PATH_WIDE], b[PATH_WIDE];
    if (!widen(from, a) || !widen(to, b))
        return -1;
    return MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? 0
                                                                                 : fail_as_posix();
}

int rx_unlink(const char *path)
{
    wchar_t wide[PATH_WIDE];
    if (!widen(path, wide))
        return -1;
    return DeleteFileW(wide) ? 0 : fail_as_posix();
}

int rx_remove(const char *path)
{
    wchar_t wide[PATH_WIDE];
    if (!widen(path, wide))
        return -1;
    const DWORD there = GetFileAttributesW(wide);
    if (there != INVALID_FILE_ATTRIBUTES && there & FILE_ATTRIBUTE_DIRECTORY)
        return RemoveDirectoryW(wide) ? 0 : fail_as_posix();
    return DeleteFileW(wide) ? 0 : fail_as_posix();
}

/* One byte far past the end, so that others can still read: locks of Windows are mandatory. */
int flock(int fd, int operation)
{
    OVERLAPPED at = {.Offset = 0, .OffsetHigh = 0x40000000};
    const DWORD flags = (operation & LOCK_EX ? LOCKFILE_EXCLUSIVE_LOCK : 0) |
                        (operation & LOCK_NB ? LOCKFILE_FAIL_IMMEDIATELY : 0);
    return LockFileEx((HANDLE)_get_osfhandle(fd), flags, 0, 1, 0, &at) ? 0 : fail_as_posix();
}

int fsync(int fd)
{
    return FlushFileBuffers((HANDLE)_get_osfhandle(fd)) ? 0 : fail_as_posix();
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    OVERLAPPED from = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)((uint64_t)at >> 32)};
    DWORD got = 0;
    if (ReadFile((HANDLE)_get_osfhandle(fd), to, n < 1u << 30 ? (DWORD)n : 1u << 30, &got, &from))
        return (ssize_t)got;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : fail_as_posix();
}

static void handle_number(HANDLE h, uint64_t *device, uint64_t *inode)
{
    BY_HANDLE_FILE_INFORMATION info = {0};
    GetFileInformationByHandle(h, &info);
    *device = info.dwVolumeSerialNumber;
    *inode = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
}

void rx_file_number(int fd, const struct stat *st, uint64_t *device, uint64_t *inode)
{
    (void)st;
    handle_number((HANDLE)_get_osfhandle(fd), device, inode);
}

/* Opens a file or folder to ask about it. */
static HANDLE open_to_ask(const char *path, wchar_t wide[PATH_WIDE])
{
    if (!widen(path, wide))
        return INVALID_HANDLE_VALUE;
    return CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                       OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
}

bool rx_path_number(const char *path, uint64_t *device, uint64_t *inode)
{
    wchar_t wide[PATH_WIDE];
    HANDLE h = open_to_ask(path, wide);
    if (h == INVALID_HANDLE_VALUE)
        return false;
    handle_number(h, device, inode);
    CloseHandle(h);
    return true;
}

/* ---- Files in memory ------------------------------------------------------------------------- */

void *rx_map_file(int fd, size_t bytes)
{
    if (!bytes)
        return NULL;
    HANDLE mapping = CreateFileMappingW((HANDLE)_get_osfhandle(fd), NULL, PAGE_READONLY, 0, 0,
                                        NULL);
    void *data = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, bytes) : NULL;
    if (mapping)
        CloseHandle(mapping); /* the view keeps it */
    return data;
}

void rx_unmap_file(void *data) { UnmapViewOfFile(data); }

char *rx_real_path(const char *path)
{
    wchar_t wide[PATH_WIDE];
    char *out = rx_alloc(PATH_BYTES);
    HANDLE h = out ? open_to_ask(path, wide) : INVALID_HANDLE_VALUE;
    DWORD n = 0;
    if (h != INVALID_HANDLE_VALUE) {
        n = GetFinalPathNameByHandleW(h, wide, PATH_WIDE, 0);
        CloseHandle(h);
    }
    if (n && n < PATH_WIDE &&
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, out, PATH_BYTES, NULL, NULL))
        return out;
    rx_free(out);
    return NULL;
}

/* ---- Folders --------------------------------------------------------------------------------- */

struct rx_dir {
    HANDLE find;
    WIN32_FIND_DATAW entry;
    bool is_first;
    char name[4 * MAX_PATH];
};

rx_dir *rx_opendir(const char *path)
{
    wchar_t wide[PATH_WIDE + 2];
    if (!widen(path, wide))
        return NULL;
    const size_t n = wcslen(wide);
    if (n + 3 > PATH_WIDE) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    wcscpy(wide + n, n && wcschr(L"/\\:", wide[n - 1]) ? L"*" : L"/*");
    rx_dir *d = rx_alloc_zero(sizeof *d);
    if (!d)
        return NULL;
    d->is_first = true;
    d->find = FindFirstFileW(wide, &d->entry);
    if (d->find != INVALID_HANDLE_VALUE)
        return d;
    fail_as_posix();
    rx_free(d);
    return NULL;
}

const char *rx_next_name(rx_dir *d)
{
    if (!d->is_first && !FindNextFileW(d->find, &d->entry))
        return NULL;
    d->is_first = false;
    if (!WideCharToMultiByte(CP_UTF8, 0, d->entry.cFileName, -1, d->name, sizeof d->name, NULL,
                             NULL))
        d->name[0] = 0;
    return d->name;
}

void rx_closedir(rx_dir *d)
{
    FindClose(d->find);
    rx_free(d);
}

/* ---- Libraries ------------------------------------------------------------------------------- */

void *rx_library_open(const char *path)
{
    wchar_t wide[PATH_WIDE];
    return widen(path, wide) ? (void *)LoadLibraryW(wide) : NULL;
}

void *rx_library_symbol(void *library, const char *name)
{
    const FARPROC f = GetProcAddress(library, name);
    void *p;
    memcpy(&p, &f, sizeof p);
    return p;
}

void rx_library_close(void *library) { FreeLibrary(library); }

const char *rx_library_error(void)
{
    static _Thread_local char text[64];
    snprintf(text, sizeof text, "it cannot be opened (error %lu)", GetLastError());
    return text;
}

bool rx_library_beside(const char *name, char *out, size_t cap)
{
    static const int here;
    wchar_t wide[PATH_WIDE];
    char path[PATH_BYTES];
    HMODULE self = NULL;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                            GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, (LPCWSTR)&here, &self))
        return false;
    const DWORD n = GetModuleFileNameW(self, wide, PATH_WIDE);
    if (!n || n >= PATH_WIDE ||
        !WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, sizeof path, NULL, NULL))
        return false;
    const int length = snprintf(out, cap, "%.*s%s", (int)rx_folder_length(path), path, name);
    return length > 0 && (size_t)length < cap;
}

/* ---- The rest -------------------------------------------------------------------------------- */

int rx_random_bytes(void *to, size_t n)
{
    return SystemFunction036(to, (ULONG)n) ? 0 : -1;
}

int rx_processors(void)
{
    DWORD_PTR own = 0, all = 0;
    const DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    /* The mask is that of one group, 64 processors at most. */
    if (n <= 64 && GetProcessAffinityMask(GetCurrentProcess(), &own, &all) && own)
        return __builtin_popcountll(own);
    return n ? (int)n : 1;
}

uint64_t rx_memory_bytes(void)
{
    MEMORYSTATUSEX m = {.dwLength = sizeof m};
    return GlobalMemoryStatusEx(&m) ? m.ullTotalPhys : 0;
}

void *memmem(const void *in, size_t n, const void *what, size_t m)
{
    const char *p = in;
    for (size_t i = 0; m <= n && i <= n - m; i++)
        if (!memcmp(p + i, what, m))
            return (void *)(uintptr_t)(p + i);
    return NULL;
}

struct tm *localtime_r(const time_t *t, struct tm *to)
{
    return localtime_s(to, t) ? NULL : to;
}

struct tm *gmtime_r(const time_t *t, struct tm *to)
{
    return gmtime_s(to, t) ? NULL : to;
}
