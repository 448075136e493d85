/* SPDX-License-Identifier: MIT */
/* Replaces fetch.c and zip.c in builds without libcurl or zlib. */
#include "store/fetch.h"

static rlx_status no_network(rlx_error *err)
{
    return rx_fail(err, RLX_UNSUPPORTED, "this rlx was built without libcurl or zlib and cannot "
                   "download; install libcurl4-openssl-dev and zlib1g-dev and build it again, or "
                   "download the file and 'rlx pull FILE'");
}

rlx_status rx_fetch_file(const rx_fetch_desc *d, rx_store_file *out, rlx_error *err)
{
    (void)d, (void)out;
    return no_network(err);
}

rlx_status rx_fetch_text(const char *url, const char *accept, rx_str *out, rlx_error *err)
{
    (void)url, (void)accept, (void)out;
    return no_network(err);
}

rlx_status rx_fetch_resolve(const char *base, const char *link, char **out, rlx_error *err)
{
    (void)base, (void)link;
    *out = NULL;
    return no_network(err);
}

rlx_status rx_zip_extract(const char *zip, const char *name, const char *folder,
                          rx_store_file *out, rx_arena *a, rlx_error *err)
{
    (void)zip, (void)name, (void)folder, (void)out, (void)a;
    return no_network(err);
}
