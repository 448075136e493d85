/* SPDX-License-Identifier: MIT */
/* Downloads over HTTP, by libcurl. A build without it has fetch_stub.c, which says so. */
#ifndef RX_STORE_FETCH_H
#define RX_STORE_FETCH_H

#include "base/str.h"
#include "store/store.h"

typedef struct rx_fetch_desc {
    const char *url;
    const char *path;      /* where the file goes */
    const char *what;      /* its name, for the progress */
    const char *sha256;    /* that it must have, in lower case; NULL: what the server says */
    rlx_progress_fn *progress;
    void *user;
} rx_fetch_desc;

/* Downloads a file to d->path, which appears there when it is whole and has the right digest.
 * PATH.partial holds what came so far; a later call goes on with it where the server can. */
rlx_status rx_fetch_file(const rx_fetch_desc *d, rx_store_file *out, rlx_error *err);
/* A small text (at most 64 MiB); `accept` is the header of that name, may be NULL. */
rlx_status rx_fetch_text(const char *url, const char *accept, rx_str *out, rlx_error *err);
/* `link` as it is meant on the page at `base`; freed with rx_free. */
rlx_status rx_fetch_resolve(const char *base, const char *link, char **out, rlx_error *err);

/* Writes one member of a zip file to `path`: the first whose name, less its folders, is `name`, or
 * ends with `name` when that begins with a dot. RLX_NOT_FOUND: there is none. */
rlx_status rx_zip_extract(const char *zip, const char *name, const char *folder,
                          rx_store_file *out, rx_arena *a, rlx_error *err);

#endif
