/* SPDX-License-Identifier: MIT */
/* Downloads over HTTP, by libcurl. A build without it has fetch_stub.c, which says so. */
#ifndef RX_STORE_FETCH_H
#define RX_STORE_FETCH_H

#include "base/str.h"
#include "store/store.h"

typedef struct rx_fetch_desc {
    const char *url;
    const char *path;      /* where the file goes */
    const char *what;      /* its name in progress reports */
    const char *sha256;    /* expected, in lower case; NULL: as the server says */
    rlx_progress_fn *progress;
    void *user;
} rx_fetch_desc;

/* Downloads a file to d->path, which appears there when it is complete and its digest is right.
 * PATH.partial holds an incomplete download; a later call resumes it if the server can. */
rlx_status rx_fetch_file(const rx_fetch_desc *d, rx_store_file *out, rlx_error *err);
/* A small text (at most 64 MiB); `accept` is the Accept header, may be NULL. */
rlx_status rx_fetch_text(const char *url, const char *accept, rx_str *out, rlx_error *err);
/* Resolves the relative URL `link` against `base`; freed with rx_free. */
rlx_status rx_fetch_resolve(const char *base, const char *link, char **out, rlx_error *err);

/* Writes one member of a zip file to `path`: the first whose base name is `name`, or ends with
 * `name` when that begins with a dot. RLX_NOT_FOUND: there is none. */
rlx_status rx_zip_extract(const char *zip, const char *name, const char *folder,
                          rx_store_file *out, rx_arena *a, rlx_error *err);

#endif
