/* SPDX-License-Identifier: MIT */
/* The cache folder over POSIX: new files are written beside the old ones and renamed. */
#include "base/cache.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"

#define MAX_PATH 1024

bool rx_cache_path(const char *name, char *out, size_t cap)
{
    char folder[MAX_PATH];
    if (!rx_env_cache_dir(folder, sizeof folder))
        return false;
    int n = snprintf(out, cap, "%s/%s", folder, name);
    return n > 0 && (size_t)n < cap;
}

/* Makes the folder of a path with all folders above it. */
static bool make_folders(char *path)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        bool ok = !mkdir(path, 0777) || errno == EEXIST;
        *p = '/';
        if (!ok)
            return false;
    }
    return true;
}

rlx_status rx_cache_write(const char *name, const rx_bytes *pieces, size_t n, rlx_error *err)
{
    static atomic_uint counter;
    char path[MAX_PATH], temporary[MAX_PATH + 48];
    if (!rx_cache_path(name, path, sizeof path))
        return rx_fail(err, RLX_IO, "there is no cache folder for '%s': set RLX_CACHE_DIR", name);
    if (!make_folders(path))
        return rx_fail(err, RLX_IO, "cannot make the folder of '%s': %s", path, strerror(errno));
    snprintf(temporary, sizeof temporary, "%s.%ld.%u", path, (long)getpid(),
             atomic_fetch_add(&counter, 1));
    RLX_TRY(rx_file_write(temporary, pieces, n, err));
    if (!rename(temporary, path))
        return RLX_OK;
    rlx_status st = rx_fail(err, RLX_IO, "cannot rename '%s': %s", temporary, strerror(errno));
    unlink(temporary);
    return st;
}
