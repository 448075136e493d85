/* SPDX-License-Identifier: MIT */
/* Output files over memory streams. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "system.h"

/* Sees before the work is done that its result could not be written. */
static bool is_writable(const char *path)
{
    const size_t n = rx_folder_length(path);
    char *folder = n ? cli_format("%.*s", (int)n, path) : cli_format(".");
    bool ok = !rx_access(folder, W_OK | X_OK) || !rx_access(path, W_OK); /* the latter: a device */
    free(folder);
    return ok;
}

bool report_open(report *r, const char *path, const char *kind)
{
    *r = (report){.path = path, .kind = kind};
    if (is_writable(path))
        r->f = system_memory_begin(&r->data, &r->n);
    if (!r->f)
        cli_fail("cannot write '%s': %s", path, strerror(errno));
    return r->f != NULL;
}

bool report_close(report *r, size_t magic_bytes)
{
    rlx_error err = {0};
    bool ok = system_memory_end(r->f, &r->data, &r->n);
    if (!ok)
        cli_fail("'%s': out of memory", r->path);
    else if (rlx_save_file(r->path, r->kind, magic_bytes, r->data, r->n, &err) != RLX_OK)
        ok = !cli_error(&err);
    free(r->data);
    *r = (report){0};
    return ok;
}
