/* SPDX-License-Identifier: MIT */
#include "support/temp_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__wasi__)
#include "support/wasi.h"
#endif

static char folder[512], file[600];

static void remove_folder(void)
{
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%.255s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(folder);
}

const char *temp_folder(void)
{
    const char *where = getenv("TMPDIR");
    if (folder[0])
        return folder;
    snprintf(folder, sizeof folder, "%.400s/rlx_XXXXXX", where ? where : ".");
    if (!mkdtemp(folder)) {
        perror(folder);
        abort();
    }
    atexit(remove_folder);
    return folder;
}

void write_bytes(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(data, 1, n, f) != n) || fclose(f)) {
        perror(path);
        abort();
    }
}

const char *temp_file(const void *data, size_t n)
{
    if (!file[0])
        snprintf(file, sizeof file, "%s/file", temp_folder());
    write_bytes(file, data, n);
    return file;
}
