/* SPDX-License-Identifier: MIT */
/* The cache folder over POSIX: new files are written beside the old ones and renamed. */
#include "base/cache.h"

#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/outfile.h"

#define MAX_PATH 1024

static bool find_path(const char *name, char out[MAX_PATH])
{
    char folder[MAX_PATH];
    if (!rx_env_cache_dir(folder, sizeof folder))
        return false;
    int n = snprintf(out, MAX_PATH, "%s/%s", folder, name);
    return n > 0 && n < MAX_PATH;
}

bool rx_cache_open(const char *name, rx_file *f, char *path, size_t cap)
{
    char whole[MAX_PATH];
    if (!find_path(name, whole) || rx_file_open_own(whole, f, NULL) != RLX_OK)
        return false;
    if (path)
        snprintf(path, cap, "%s", whole);
    return true;
}

rlx_status rx_cache_write(const char *name, const rx_bytes *pieces, size_t n, rlx_error *err)
{
    char path[MAX_PATH];
    rx_outfile f;
    if (!find_path(name, path))
        return rx_fail(err, RLX_IO, "there is no cache folder for '%s': set RLX_CACHE_DIR", name);
    RLX_TRY(rx_outfile_make_folders(path, err));
    RLX_TRY(rx_outfile_open_cache(path, &f, err));
    return rx_outfile_end(&f, pieces, n, err);
}
