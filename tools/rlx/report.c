/* SPDX-License-Identifier: MIT */
/* Output files over memory streams. */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Sees before the work is done that its result could not be written. */
static bool is_writable(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? cli_format("%.*s", (int)(slash - path) + 1, path) : cli_format(".");
    bool ok = !access(folder, W_OK | X_OK) || !access(path, W_OK); /* the latter: a device */
    free(folder);
    return ok;
}

bool report_open(report *r, const char *path, const char *kind)
{
    *r = (report){.path = path, .kind = kind};
    if (is_writable(path))
        r->f = open_memstream(&r->data, &r->n);
    if (!r->f)
        cli_fail("cannot write '%s': %s", path, strerror(errno));
    return r->f != NULL;
}

bool report_close(report *r, size_t magic_bytes)
{
    rlx_error err = {0};
    bool ok = !ferror(r->f);
    ok = !fclose(r->f) && ok;
    if (!ok)
        cli_fail("'%s': out of memory", r->path);
    else if (rlx_save_file(r->path, r->kind, magic_bytes, r->data, r->n, &err) != RLX_OK)
        ok = !cli_error(&err);
    free(r->data);
    *r = (report){0};
    return ok;
}
