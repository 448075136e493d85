/* SPDX-License-Identifier: MIT */
/* The transport: HTTP/1.1 by libmicrohttpd. Builds without it have http_stub.c, which refuses with
 * a sentence. */
#ifndef RX_SERVE_HTTP_H
#define RX_SERVE_HTTP_H

#include "serve/server.h"

typedef struct rx_http_desc {
    const char *host;        /* address or name to listen on */
    const char *port;        /* "0": a free one */
    const char *socket_path; /* a Unix socket instead; NULL: none */
    int fd;                  /* a listening socket; 0: none */
    const char *key;         /* required of requests; NULL: none */
    const char *cors;        /* allowed origin, "*": any; NULL: none */
    int64_t max_body;        /* bytes */
    int64_t max_connections;
    int64_t timeout;         /* seconds of idle connections */
} rx_http_desc;

typedef struct rx_http rx_http;

/* Whether this build has a server. */
bool rx_http_is_available(void);
/* Listens and answers from threads of its own. rx_http_stop ends it. */
rlx_status rx_http_start(const rx_http_desc *d, rx_server *s, rx_http **out, rlx_error *err);
/* "http://HOST:PORT" or "unix:PATH". */
const char *rx_http_address(const rx_http *h);
/* Accepts no new connections; waits up to `seconds` for requests in progress, cancels the rest and
 * frees the server. */
void rx_http_stop(rx_http *h, int64_t seconds);

#endif
