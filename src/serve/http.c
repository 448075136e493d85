/* SPDX-License-Identifier: MIT */
/* HTTP by libmicrohttpd, one thread per connection: a thread may wait for its own job, and a slow
 * client blocks nothing but its thread. Bodies are read up to a limit; keys are compared in
 * constant time. */
#include "serve/http.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/outfile.h"
#include "serve/page.h"
#include "store/libraries.h"

#define STACK_BYTES ((size_t)1 << 20)
#define HEADER_BYTES ((size_t)32 << 10) /* a request's line and headers, and a reply's buffer */

struct rx_http {
    rx_server *server;
    rx_http_desc d;
    struct MHD_Daemon *daemon;
    int fd;
    char address[300];
};

/* A request while its body is being received. */
typedef struct exchange {
    rx_http *h;
    rx_str body;
    bool too_large;
    uint64_t dropped; /* bytes of a body that is too large */
} exchange;

/* A response stream that libmicrohttpd pulls from. */
typedef struct stream {
    rx_server *server;
    rx_reply_fn *more;
    void (*end)(void *state);
    void *state;
    rx_str text;
    size_t sent;
} stream;

/* ---- Replies --------------------------------------------------------------------------------- */

static ssize_t read_stream(void *user, uint64_t at, char *out, size_t cap)
{
    stream *s = user;
    (void)at;
    while (s->sent == s->text.n) {
        s->text.n = s->sent = 0;
        if (!s->more(s->state, &s->text))
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (s->text.failed)
            return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    const size_t left = s->text.n - s->sent, n = left < cap ? left : cap;
    memcpy(out, s->text.data + s->sent, n);
    s->sent += n;
    return (ssize_t)n;
}

static void end_stream(void *user)
{
    stream *s = user;
    s->end(s->state);
    rx_str_finish(&s->text);
    atomic_fetch_sub(&s->server->metrics.active, 1);
    rx_free(s);
}

static struct MHD_Response *make_response(rx_http *h, rx_reply *r)
{
    if (!r->more)
        return MHD_create_response_from_buffer(r->body.n, r->body.n ? r->body.data : "",
                                               MHD_RESPMEM_MUST_COPY);
    stream *s = rx_alloc_zero(sizeof *s);
    if (!s) {
        r->end(r->state);
        return NULL;
    }
    *s = (stream){h->server, r->more, r->end, r->state, {0}, 0};
    atomic_fetch_add(&h->server->metrics.active, 1);
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, 16384, read_stream, s, end_stream);
    if (!response)
        end_stream(s);
    return response;
}

/* Clients in browsers send headers of their own (x-stainless-os, anthropic-version, ...), each of
 * which a preflight asks for: all are allowed, none but those of keys is read. */
static void add_cors(const rx_http *h, struct MHD_Connection *c, struct MHD_Response *response)
{
    if (!h->d.cors)
        return;
    const char *asked = MHD_lookup_connection_value(c, MHD_HEADER_KIND,
                                                    "Access-Control-Request-Headers");
    MHD_add_response_header(response, "Access-Control-Allow-Origin", h->d.cors);
    MHD_add_response_header(response, "Access-Control-Allow-Headers",
                            asked ? asked : "Authorization, Content-Type, X-API-Key");
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    MHD_add_response_header(response, "Access-Control-Expose-Headers", "X-RLX-Warning");
}

/* Content security policy of the page: it may load from and talk to this server only. */
static void add_page_rules(struct MHD_Response *response)
{
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'self'; frame-ancestors 'none'; base-uri 'none'");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
}

static enum MHD_Result send_reply(rx_http *h, struct MHD_Connection *c, rx_reply *r)
{
    struct MHD_Response *response = make_response(h, r);
    enum MHD_Result ok = MHD_NO;
    if (response) {
        char seconds[16];
        MHD_add_response_header(response, "Content-Type", r->type);
        if (r->is_page)
            add_page_rules(response);
        if (r->more)
            MHD_add_response_header(response, "Cache-Control", "no-cache");
        if (r->warning.n)
            MHD_add_response_header(response, "X-RLX-Warning", r->warning.data);
        snprintf(seconds, sizeof seconds, "%d", r->retry_after);
        if (r->retry_after)
            MHD_add_response_header(response, "Retry-After", seconds);
        if (r->allow[0])
            MHD_add_response_header(response, "Allow", r->allow);
        if (r->status == 401)
            MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
        if (atomic_load(&h->server->draining) || r->status == 413)
            MHD_add_response_header(response, "Connection", "close");
        add_cors(h, c, response);
        ok = MHD_queue_response(c, (unsigned)r->status, response);
        MHD_destroy_response(response);
    }
    rx_str_finish(&r->body);
    rx_str_finish(&r->warning);
    return ok;
}

static enum MHD_Result send_error(rx_http *h, struct MHD_Connection *c, const char *path,
                                  const rx_api_error *e)
{
    rx_reply r = {0};
    rx_reply_error(&r, e, rx_shape_of(path));
    atomic_fetch_add(&h->server->metrics.requests, 1);
    atomic_fetch_add(&h->server->metrics.errors, 1);
    return send_reply(h, c, &r);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Takes the same time for every wrong key of the same length. */
static bool same_key(const char *key, const char *given)
{
    const size_t n = strlen(key), m = strlen(given);
    unsigned different = n != m;
    for (size_t i = 0; i < m; i++)
        different |= (unsigned char)given[i] ^ (unsigned char)key[i < n ? i : 0];
    return !different;
}

static bool has_key(const rx_http *h, struct MHD_Connection *c)
{
    static const char bearer[] = "Bearer ";
    const char *given = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
    if (given && !strncasecmp(given, bearer, sizeof bearer - 1))
        given += sizeof bearer - 1;
    else
        given = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "X-API-Key");
    return given && same_key(h->d.key, given);
}

static bool check_head(const rx_http *h, struct MHD_Connection *c, const char *path,
                       rx_api_error *e)
{
    const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
    if (h->d.key && strcmp(path, "/health") && !rx_page_find(path) && !has_key(h, c))
        return rx_api_fail_as(e, 401, "invalid_api_key", "the key of the request is missing or "
                              "wrong");
    if (length && strlen(length) > 18)
        return rx_api_fail_as(e, 413, "body_too_large", "the body is too large");
    unsigned long long n = 0;
    if (length && sscanf(length, "%llu", &n) == 1 && n > (unsigned long long)h->d.max_body)
        return rx_api_fail_as(e, 413, "body_too_large", "the body has %llu bytes; expected at most "
                              "%lld (--max-body)", n, (long long)h->d.max_body);
    return true;
}

static enum MHD_Result answer(exchange *x, struct MHD_Connection *c, const char *method,
                              const char *path)
{
    rx_http *h = x->h;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const rx_call call = {.method = method, .path = path, .body = x->body.n ? x->body.data : "",
                          .n_body = x->body.n, .fd = info ? info->connect_fd : -1};
    rx_reply r;
    if (x->too_large) {
        rx_api_error e = {0};
        rx_api_fail_as(&e, 413, "body_too_large", "the body has more than %lld bytes (--max-body)",
                       (long long)h->d.max_body);
        return send_error(h, c, path, &e);
    }
    atomic_fetch_add(&h->server->metrics.active, 1);
    rx_server_answer(h->server, &call, &r);
    if (r.warning.n)
        rx_log(RLX_LOG_WARN, "%s: %s", path, r.warning.data);
    const enum MHD_Result ok = send_reply(h, c, &r);
    atomic_fetch_sub(&h->server->metrics.active, 1);
    return ok;
}

/* A body in chunks that is too large is read to its end, so that the client reads the answer; one
 * that has no end is not. */
static enum MHD_Result take_body(exchange *x, const char *data, size_t n)
{
    const uint64_t most = (uint64_t)x->h->d.max_body;
    x->too_large = x->too_large || x->body.n + n > most;
    if (!x->too_large)
        rx_str_add(&x->body, data, n);
    else
        x->dropped += n;
    x->too_large |= x->body.failed;
    return x->dropped / 3 > most ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **state)
{
    rx_http *h = user;
    exchange *x = *state;
    (void)version;
    if (!x) {
        rx_api_error e = {0};
        if (!strcmp(method, "OPTIONS") && h->d.cors) {
            rx_reply r = {.status = 204, .type = "text/plain"};
            return send_reply(h, c, &r);
        }
        if (!check_head(h, c, path, &e))
            return send_error(h, c, path, &e);
        *state = x = rx_alloc_zero(sizeof *x);
        if (!x)
            return MHD_NO;
        x->h = h;
        return MHD_YES;
    }
    if (*n) {
        const enum MHD_Result ok = take_body(x, data, *n);
        *n = 0;
        return ok;
    }
    return answer(x, c, method, path);
}

static void on_end(void *user, struct MHD_Connection *c, void **state,
                   enum MHD_RequestTerminationCode why)
{
    exchange *x = *state;
    (void)user, (void)c, (void)why;
    if (x)
        rx_str_finish(&x->body);
    rx_free(x);
    *state = NULL;
}

/* ---- Listening ------------------------------------------------------------------------------- */

static rlx_status fail_listen(const char *where, rlx_error *err)
{
    return rx_fail(err, RLX_IO, "cannot listen on %s: %s", where, strerror(errno));
}

/* A stream socket that programs do not inherit; -1: errno says why. */
static int open_socket(int family)
{
    const int fd = socket(family, SOCK_STREAM, 0);
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

static rlx_status listen_unix(rx_http *h, rlx_error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    const char *path = h->d.socket_path;
    if (strlen(path) >= sizeof a.sun_path)
        return rx_fail(err, RLX_INVALID, "'%s' is too long for a Unix socket", path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    if (!lstat(path, &st) && S_ISSOCK(st.st_mode)) { /* left over by a server that has ended? */
        const int probe = open_socket(AF_UNIX);
        const bool alive = probe >= 0 && !connect(probe, (struct sockaddr *)&a, sizeof a);
        if (probe >= 0)
            close(probe);
        if (alive)
            return rx_fail(err, RLX_IO, "cannot listen on '%s': another server does", path);
        RLX_TRY(rx_outfile_remove(path, err));
    }
    h->fd = open_socket(AF_UNIX);
    if (h->fd < 0 || bind(h->fd, (struct sockaddr *)&a, sizeof a) || chmod(path, 0600) ||
        listen(h->fd, SOMAXCONN))
        return fail_listen(path, err);
    snprintf(h->address, sizeof h->address, "unix:%s", path);
    return RLX_OK;
}

static rlx_status name_address(rx_http *h, rlx_error *err)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[256], port[16];
    if (getsockname(h->fd, (struct sockaddr *)&a, &n) ||
        getnameinfo((struct sockaddr *)&a, n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return fail_listen(h->d.host, err);
    snprintf(h->address, sizeof h->address, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s",
             host, port);
    return RLX_OK;
}

/* A socket opened by the service manager. */
static rlx_status take_socket(rx_http *h, rlx_error *err)
{
    struct sockaddr_un a;
    socklen_t n = sizeof a;
    int listens = 0;
    socklen_t n_listens = sizeof listens;
    h->fd = h->d.fd;
    if (getsockopt(h->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n_listens) || !listens)
        return rx_fail(err, RLX_INVALID, "the socket that was handed over does not listen");
    if (getsockname(h->fd, (struct sockaddr *)&a, &n) || a.sun_family != AF_UNIX)
        return name_address(h, err);
    snprintf(h->address, sizeof h->address, "unix:%.*s",
             (int)(n - offsetof(struct sockaddr_un, sun_path)), a.sun_path);
    return RLX_OK;
}

static rlx_status listen_tcp(rx_http *h, rlx_error *err)
{
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const int got = getaddrinfo(h->d.host, h->d.port, &hints, &list);
    if (got)
        return rx_fail(err, RLX_INVALID, "cannot listen on %s port %s: %s", h->d.host, h->d.port,
                       gai_strerror(got));
    for (const struct addrinfo *i = list; i && h->fd < 0; i = i->ai_next) {
        const int yes = 1;
        h->fd = open_socket(i->ai_family);
        if (h->fd >= 0 &&
            (setsockopt(h->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) ||
             bind(h->fd, i->ai_addr, i->ai_addrlen) || listen(h->fd, SOMAXCONN))) {
            const int why = errno;
            close(h->fd);
            h->fd = -1;
            errno = why;
        }
    }
    freeaddrinfo(list);
    return h->fd < 0 ? fail_listen(h->d.host, err) : name_address(h, err);
}

/* ---- The server ------------------------------------------------------------------------------ */

bool rx_http_is_available(void)
{
    return true;
}

const char *rx_http_address(const rx_http *h)
{
    return h->address;
}

static rlx_status start_daemon(rx_http *h, rlx_error *err)
{
    h->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL,
        on_request, h, MHD_OPTION_LISTEN_SOCKET, h->fd, MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->d.max_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)h->d.timeout,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES, MHD_OPTION_END);
    return h->daemon ? RLX_OK : rx_fail(err, RLX_IO, "the server cannot be started on %s",
                                        h->address);
}

rlx_status rx_http_start(const rx_http_desc *d, rx_server *s, rx_http **out, rlx_error *err)
{
    rx_http *h = rx_alloc_zero(sizeof *h);
    *out = NULL;
    if (!h)
        return rx_fail_memory(err, "a server", sizeof *h);
    const rlx_status opened = rx_open_microhttpd(err);
    if (opened != RLX_OK) {
        rx_free(h);
        return opened;
    }
    *h = (rx_http){.server = s, .d = *d, .fd = -1};
    rlx_status st = d->fd ? take_socket(h, err) : d->socket_path ? listen_unix(h, err)
                                                                : listen_tcp(h, err);
    if (st == RLX_OK)
        st = start_daemon(h, err);
    if (st == RLX_OK) {
        *out = h;
        return RLX_OK;
    }
    if (h->fd >= 0)
        close(h->fd);
    rx_free(h);
    return st;
}

void rx_http_stop(rx_http *h, int64_t seconds)
{
    const int64_t deadline = rx_deadline(seconds * 1000);
    atomic_store(&h->server->draining, true);
    const MHD_socket fd = MHD_quiesce_daemon(h->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
    if (h->d.socket_path && !h->d.fd)
        rx_outfile_remove(h->d.socket_path, NULL);
    while (atomic_load(&h->server->metrics.active) > 0 && rx_now_ns() < deadline)
        usleep(20000);
    atomic_store(&h->server->stopping, true);
    MHD_stop_daemon(h->daemon);
    rx_free(h);
}
