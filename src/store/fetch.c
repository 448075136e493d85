/* SPDX-License-Identifier: MIT */
/* Downloads by libcurl. Each attempt appends to PATH.partial: a server that supports ranges is
 * asked for the rest, with If-Range when the digest is not known in advance, so that parts of two
 * versions are never joined. */
#include "store/fetch.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/outfile.h"
#include "store/libraries.h"

#define MAX_TRIES 5        /* consecutive attempts without progress */
#define MAX_TEXT (64u << 20)
#define STALL_SECONDS 60L  /* below 1 byte/s for so long: timeout */
#define MAX_REDIRECTS 10L

typedef struct transfer {
    const rx_fetch_desc *d;
    CURL *curl;
    rx_outfile out;
    rx_sha256 hash;
    rlx_status st;           /* of writing */
    rlx_error *err;
    long code;               /* of the last response; 0 before its first byte */
    uint64_t offset;         /* start of the requested range */
    char etag[256];
    char digest[RX_SHA256_HEX]; /* sent by the server, or "" */
    rx_str *text;            /* instead of a file */
    char message[CURL_ERROR_SIZE];
} transfer;

static rlx_status start_curl(transfer *t, const char *url, rlx_error *err)
{
    static bool ready;
    RLX_TRY(rx_open_curl(err));
    if (!ready && curl_global_init(CURL_GLOBAL_DEFAULT))
        return rx_fail(err, RLX_INTERNAL, "libcurl cannot be initialised");
    ready = true;
    t->err = err;
    t->curl = curl_easy_init();
    if (!t->curl)
        return rx_fail_memory(err, "a transfer", sizeof *t);
    curl_easy_setopt(t->curl, CURLOPT_URL, url);
    curl_easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(t->curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(t->curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(t->curl, CURLOPT_MAXREDIRS, MAX_REDIRECTS);
    curl_easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
    curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->curl, CURLOPT_USERAGENT, "rlx");
    curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->message);
    return RLX_OK;
}

static rlx_status fail_status(const char *url, long code, rlx_error *err)
{
    return rx_fail(err, code == 404 ? RLX_NOT_FOUND : RLX_IO, "the server answered %ld for '%s'",
                   code, url);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

/* The value of header `name` without surrounding quotes and spaces; false when the line is another
 * header. */
static bool header_value(const char *line, size_t n, const char *name, char *out, size_t cap)
{
    const size_t m = strlen(name);
    if (n <= m || strncasecmp(line, name, m) || line[m] != ':')
        return false;
    const char *at = line + m + 1, *end = line + n;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && strchr(" \t\r\n", end[-1]))
        end--;
    const size_t length = (size_t)(end - at);
    if (length >= cap)
        return false;
    memcpy(out, at, length);
    out[length] = 0;
    return true;
}

/* Digests of large files come with the redirection to them (X-Linked-ETag: "HEX"), so the headers
 * of all responses are read. */
static size_t take_header(char *line, size_t one, size_t n, void *user)
{
    transfer *t = user;
    char value[256];
    if (header_value(line, one * n, "ETag", value, sizeof value))
        memcpy(t->etag, value, sizeof value);
    if (header_value(line, one * n, "X-Linked-ETag", value, sizeof value) &&
        strlen(value) == RX_SHA256_HEX + 1 && value[0] == '"' &&
        strspn(value + 1, "0123456789abcdef") == RX_SHA256_HEX - 1)
        memcpy(t->digest, value + 1, RX_SHA256_HEX - 1);
    return one * n;
}

/* At the first bytes of a response: tells a partial response from a whole one. */
static rlx_status begin_body(transfer *t)
{
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->code);
    if (t->code == 206 || t->code != 200 || !t->out.bytes)
        return RLX_OK;
    rx_sha256_init(&t->hash);
    return rx_outfile_restart(&t->out, t->err);
}

static size_t take_body(char *data, size_t one, size_t n, void *user)
{
    transfer *t = user;
    const size_t bytes = one * n;
    if (!t->code)
        t->st = begin_body(t);
    if (t->code != 200 && t->code != 206)
        return bytes; /* the body of an error is ignored */
    rx_sha256_add(&t->hash, data, bytes);
    if (t->st == RLX_OK)
        t->st = rx_outfile_write(&t->out, data, bytes, t->err);
    return t->st == RLX_OK ? bytes : 0;
}

static size_t take_text(char *data, size_t one, size_t n, void *user)
{
    transfer *t = user;
    if (t->text->n + one * n > MAX_TEXT)
        return 0;
    rx_str_add(t->text, data, one * n);
    return t->text->failed ? 0 : one * n;
}

static int show_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                         curl_off_t up)
{
    const transfer *t = user;
    (void)up_total, (void)up;
    const uint64_t before = t->code == 200 ? 0 : t->offset;
    return t->d->progress &&
           t->d->progress(t->d->user, t->d->what, before + (uint64_t)now,
                          total ? before + (uint64_t)total : 0);
}

/* ---- The version of a file (its ETag), kept beside the partial download ---------------------- */

static bool version_path(const char *path, char out[RX_STORE_PATH])
{
    const int n = snprintf(out, RX_STORE_PATH, "%s.partial.etag", path);
    return n > 0 && n < RX_STORE_PATH;
}

static void write_version(const transfer *t)
{
    char path[RX_STORE_PATH];
    rx_outfile f;
    if (t->etag[0] == '"' && version_path(t->d->path, path) &&
        rx_outfile_open_cache(path, &f, NULL) == RLX_OK)
        rx_outfile_end(&f, &(rx_bytes){t->etag, strlen(t->etag)}, 1, NULL);
}

static bool read_version(const char *file, char *out, size_t cap)
{
    char path[RX_STORE_PATH];
    rx_file f;
    if (!version_path(file, path) || rx_file_open_own(path, &f, NULL) != RLX_OK)
        return false;
    const bool fits = f.bytes && f.bytes < cap && f.data[0] == '"';
    if (fits) {
        memcpy(out, f.data, f.bytes);
        out[f.bytes] = 0;
    }
    rx_file_close(&f);
    return fits && !strpbrk(out, "\r\n");
}

static void remove_version(const char *file)
{
    char path[RX_STORE_PATH];
    if (version_path(file, path))
        rx_outfile_remove(path, NULL);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void hash_back(void *user, const void *data, size_t bytes)
{
    rx_sha256_add(user, data, bytes);
}

/* Opens PATH.partial. Its bytes are kept only if the rest is known to be of the same version. */
static rlx_status open_partial(transfer *t, char *condition, size_t cap)
{
    char etag[200];
    RLX_TRY(rx_outfile_open_partial(t->d->path, &t->out, t->err));
    rx_sha256_init(&t->hash);
    condition[0] = 0;
    if (t->out.bytes && read_version(t->d->path, etag, sizeof etag))
        snprintf(condition, cap, "If-Range: %s", etag);
    else if (t->out.bytes && !t->d->sha256)
        RLX_TRY(rx_outfile_restart(&t->out, t->err));
    return rx_outfile_read_back(&t->out, hash_back, &t->hash, t->err);
}

/* One request. RLX_TIMEOUT: the connection broke; retry. */
static rlx_status try_once(transfer *t, const char *condition)
{
    char range[64];
    struct curl_slist *headers = NULL;
    t->offset = t->out.bytes;
    t->code = 0;
    snprintf(range, sizeof range, "%llu-", (unsigned long long)t->offset);
    curl_easy_setopt(t->curl, CURLOPT_RANGE, t->offset ? range : NULL);
    if (t->offset && condition[0])
        headers = curl_slist_append(NULL, condition);
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers);
    const CURLcode got = curl_easy_perform(t->curl);
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    if (t->st != RLX_OK)
        return t->st;
    if (got == CURLE_ABORTED_BY_CALLBACK)
        return rx_fail(t->err, RLX_CANCELLED, "stopped; 'rlx pull' goes on with '%s'", t->d->what);
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->code);
    if (got == CURLE_OK && t->code == 416 && t->offset) { /* complete, or too long */
        if (t->d->sha256)
            return RLX_OK;
        rx_sha256_init(&t->hash);
        RLX_TRY(rx_outfile_restart(&t->out, t->err));
        return RLX_TIMEOUT;
    }
    if (t->code && t->code != 200 && t->code != 206)
        return t->code >= 500 ? (fail_status(t->d->url, t->code, t->err), RLX_TIMEOUT)
                              : fail_status(t->d->url, t->code, t->err);
    if (got == CURLE_OK)
        return RLX_OK;
    rx_fail(t->err, RLX_IO, "cannot fetch '%s': %s", t->d->url,
            t->message[0] ? t->message : curl_easy_strerror(got));
    return got == CURLE_URL_MALFORMAT || got == CURLE_UNSUPPORTED_PROTOCOL ||
                   got == CURLE_PEER_FAILED_VERIFICATION || got == CURLE_COULDNT_RESOLVE_HOST
               ? RLX_IO
               : RLX_TIMEOUT;
}

static rlx_status try_all(transfer *t)
{
    char condition[256];
    RLX_TRY(open_partial(t, condition, sizeof condition));
    for (unsigned tries = 1;; tries++) {
        const uint64_t before = t->out.bytes;
        const rlx_status st = try_once(t, condition);
        if (st != RLX_TIMEOUT)
            return st;
        if (t->out.bytes > before)
            tries = 1;
        if (tries >= MAX_TRIES)
            return RLX_IO;
        write_version(t);
        if (t->etag[0] == '"')
            snprintf(condition, sizeof condition, "If-Range: %.200s", t->etag);
        if (t->d->progress && t->d->progress(t->d->user, t->d->what, t->out.bytes, 0))
            return rx_fail(t->err, RLX_CANCELLED, "stopped; 'rlx pull' goes on with '%s'",
                           t->d->what);
        usleep(200000u << (tries < 4 ? tries : 4));
    }
}

/* Compares the digest, then renames the file. */
static rlx_status end_file(transfer *t, rx_store_file *out)
{
    const char *expected = t->d->sha256 ? t->d->sha256 : t->digest[0] ? t->digest : NULL;
    out->bytes = t->out.bytes;
    rx_sha256_end(&t->hash, out->sha256);
    if (expected && strcasecmp(expected, out->sha256)) {
        t->out.keep = false;
        remove_version(t->d->path);
        return rx_fail(t->err, RLX_INVALID, "'%s': expected SHA-256 %s, got %s; it was removed",
                       t->d->what, expected, out->sha256);
    }
    RLX_TRY(rx_outfile_commit(&t->out, t->err));
    remove_version(t->d->path);
    return RLX_OK;
}

rlx_status rx_fetch_file(const rx_fetch_desc *d, rx_store_file *out, rlx_error *err)
{
    transfer t = {.d = d, .out = {.fd = -1}};
    RLX_TRY(start_curl(&t, d->url, err));
    curl_easy_setopt(t.curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(t.curl, CURLOPT_WRITEDATA, &t);
    curl_easy_setopt(t.curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(t.curl, CURLOPT_HEADERDATA, &t);
    curl_easy_setopt(t.curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(t.curl, CURLOPT_XFERINFOFUNCTION, show_progress);
    curl_easy_setopt(t.curl, CURLOPT_XFERINFODATA, &t);
    rlx_status st = try_all(&t);
    if (st == RLX_OK)
        st = end_file(&t, out);
    else if (t.out.bytes)
        write_version(&t);
    else
        t.out.keep = false;
    rx_outfile_discard(&t.out);
    curl_easy_cleanup(t.curl);
    return st;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

rlx_status rx_fetch_text(const char *url, const char *accept, rx_str *out, rlx_error *err)
{
    transfer t = {.text = out};
    char line[200];
    long code = 0;
    RLX_TRY(start_curl(&t, url, err));
    snprintf(line, sizeof line, "Accept: %s", accept ? accept : "*/*");
    struct curl_slist *headers = curl_slist_append(NULL, line);
    curl_easy_setopt(t.curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(t.curl, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(t.curl, CURLOPT_WRITEFUNCTION, take_text);
    curl_easy_setopt(t.curl, CURLOPT_WRITEDATA, &t);
    const CURLcode got = curl_easy_perform(t.curl);
    curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, &code);
    rlx_status st = RLX_OK;
    if (got != CURLE_OK)
        st = rx_fail(err, RLX_IO, "cannot fetch '%s': %s", url,
                     t.message[0] ? t.message : curl_easy_strerror(got));
    else if (code != 200)
        st = fail_status(url, code, err);
    curl_slist_free_all(headers);
    curl_easy_cleanup(t.curl);
    return st;
}

rlx_status rx_fetch_resolve(const char *base, const char *link, char **out, rlx_error *err)
{
    char *text = NULL;
    rx_str s = {0};
    *out = NULL;
    RLX_TRY(rx_open_curl(err));
    CURLU *u = curl_url();
    const bool ok = u && !curl_url_set(u, CURLUPART_URL, base, 0) &&
                    !curl_url_set(u, CURLUPART_URL, link, 0) &&
                    !curl_url_get(u, CURLUPART_URL, &text, 0);
    rlx_status st = ok ? RLX_OK : rx_fail(err, RLX_PARSE, "'%s' is no URL", link);
    if (ok) {
        rx_str_puts(&s, text);
        st = rx_str_take(&s, out, NULL, err);
    }
    curl_free(text);
    curl_url_cleanup(u);
    return st;
}
