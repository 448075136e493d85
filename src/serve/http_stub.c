/* SPDX-License-Identifier: MIT */
/* Takes the place of http.c in builds without libmicrohttpd. */
#include "serve/http.h"

bool rx_http_is_available(void)
{
    return false;
}

rlx_status rx_http_start(const rx_http_desc *d, rx_server *s, rx_http **out, rlx_error *err)
{
    (void)d, (void)s;
    *out = NULL;
    return rx_fail(err, RLX_UNSUPPORTED, "this rlx was built without libmicrohttpd");
}

const char *rx_http_address(const rx_http *h)
{
    (void)h;
    return "";
}

void rx_http_stop(rx_http *h, int64_t seconds)
{
    (void)h, (void)seconds;
}
