/* SPDX-License-Identifier: MIT */
/* One member of a zip file (a Python wheel), stored or deflated, without Zip64. Every offset is
 * checked; member names are only compared and never become paths. */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/outfile.h"
#include "store/fetch.h"
#include "store/libraries.h"

enum { END_BYTES = 22, ENTRY_BYTES = 46, LOCAL_BYTES = 30 };
enum { STORED = 0, DEFLATED = 8 };

typedef struct member {
    const char *name; /* base name; in the file, not terminated */
    size_t name_length;
    unsigned method;
    uint32_t crc;
    uint64_t packed, bytes, local;
} member;

static uint32_t get16(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const unsigned char *p)
{
    return get16(p) | get16(p + 2) << 16;
}

static rlx_status broken(const char *zip, rlx_error *err)
{
    return rx_fail(err, RLX_PARSE, "'%s' is no zip file, or a broken one", zip);
}

/* The end of the central directory, searched from the end of the file. */
static const unsigned char *find_end(const rx_file *f)
{
    if (f->bytes < END_BYTES)
        return NULL;
    for (size_t at = f->bytes - END_BYTES, n = 0; n <= 65535; at--, n++) {
        if (get32(f->data + at) == 0x06054b50)
            return f->data + at;
        if (!at)
            break;
    }
    return NULL;
}

static bool is_wanted(const member *m, const char *name)
{
    const size_t n = strlen(name);
    if (name[0] == '.')
        return m->name_length > n && !memcmp(m->name + m->name_length - n, name, n);
    return m->name_length == n && !memcmp(m->name, name, n);
}

/* The entry at *at of the central directory; *at moves to the next. */
static bool read_entry(const rx_file *f, uint64_t *at, member *m)
{
    if (*at + ENTRY_BYTES > f->bytes || get32(f->data + *at) != 0x02014b50)
        return false;
    const unsigned char *e = f->data + *at;
    const uint64_t next = *at + ENTRY_BYTES + get16(e + 28) + get16(e + 30) + get16(e + 32);
    if (next > f->bytes)
        return false;
    *m = (member){(const char *)e + ENTRY_BYTES, get16(e + 28), get16(e + 10), get32(e + 16),
                  get32(e + 20), get32(e + 24), get32(e + 42)};
    for (size_t i = m->name_length; i > 0; i--)
        if (m->name[i - 1] == '/') {
            m->name += i;
            m->name_length -= i;
            break;
        }
    *at = next;
    return true;
}

static rlx_status find_member(const rx_file *f, const char *zip, const char *name, member *m,
                              rlx_error *err)
{
    const unsigned char *end = find_end(f);
    if (!end)
        return broken(zip, err);
    uint64_t at = get32(end + 16);
    for (uint32_t i = 0, n = get16(end + 10); i < n; i++) {
        if (!read_entry(f, &at, m))
            return broken(zip, err);
        if (is_wanted(m, name))
            return RLX_OK;
    }
    return rx_fail(err, RLX_NOT_FOUND, "'%s' has no file '%s'", zip, name);
}

typedef struct sink {
    rx_outfile out;
    rx_sha256 hash;
    uint32_t crc;
    uint64_t bytes;
} sink;

static rlx_status put(sink *s, const void *data, size_t n, rlx_error *err)
{
    rx_sha256_add(&s->hash, data, n);
    s->crc = (uint32_t)crc32(s->crc, data, (uInt)n);
    s->bytes += n;
    return rx_outfile_write(&s->out, data, n, err);
}

static rlx_status inflate_to(const unsigned char *data, const member *m, sink *s, rlx_error *err)
{
    unsigned char room[1 << 15];
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)data, .avail_in = (uInt)m->packed};
    int got = inflateInit2(&z, -15);
    rlx_status st = RLX_OK;
    while (got == Z_OK && st == RLX_OK) {
        z.next_out = room;
        z.avail_out = sizeof room;
        got = inflate(&z, Z_NO_FLUSH);
        if (s->bytes + (sizeof room - z.avail_out) > m->bytes)
            break;
        st = put(s, room, sizeof room - z.avail_out, err);
    }
    inflateEnd(&z);
    if (st == RLX_OK && got != Z_STREAM_END)
        st = rx_fail(err, RLX_PARSE, "the packed bytes are broken");
    return st;
}

static rlx_status unpack(const rx_file *f, const char *zip, const member *m, sink *s,
                         rlx_error *err)
{
    if (m->local + LOCAL_BYTES > f->bytes || get32(f->data + m->local) != 0x04034b50)
        return broken(zip, err);
    const unsigned char *head = f->data + m->local;
    const uint64_t begin = m->local + LOCAL_BYTES + get16(head + 26) + get16(head + 28);
    if (begin > f->bytes || m->packed > f->bytes - begin)
        return broken(zip, err);
    if (m->method == STORED && m->packed == m->bytes) {
        for (uint64_t at = 0; at < m->bytes; at += 1 << 20)
            RLX_TRY(put(s, f->data + begin + at,
                        m->bytes - at < 1 << 20 ? (size_t)(m->bytes - at) : 1 << 20, err));
    } else if (m->method == DEFLATED) {
        RLX_TRY(inflate_to(f->data + begin, m, s, err));
    } else {
        return broken(zip, err);
    }
    if (s->crc != m->crc || s->bytes != m->bytes)
        return rx_fail(err, RLX_PARSE, "'%s': the checksum of '%.*s' is wrong", zip,
                       (int)m->name_length, m->name);
    return RLX_OK;
}

static rlx_status extract(const rx_file *f, const char *zip, const member *m, const char *folder,
                          rx_store_file *out, rlx_error *err)
{
    char path[RX_STORE_PATH];
    sink s = {.out = {.fd = -1}};
    const int n = snprintf(path, sizeof path, "%s/%s", folder, out->name);
    if (n < 0 || (size_t)n >= sizeof path)
        return rx_fail(err, RLX_INVALID, "the path of '%s' is too long", out->name);
    rx_sha256_init(&s.hash);
    RLX_TRY(rx_outfile_open(path, NULL, &s.out, err));
    rlx_status st = unpack(f, zip, m, &s, err);
    if (st == RLX_OK)
        st = rx_outfile_commit(&s.out, err);
    rx_outfile_discard(&s.out);
    rx_sha256_end(&s.hash, out->sha256);
    out->bytes = s.bytes;
    return st;
}

rlx_status rx_zip_extract(const char *zip, const char *name, const char *folder,
                          rx_store_file *out, rx_arena *a, rlx_error *err)
{
    rx_file f;
    member m;
    RLX_TRY(rx_open_zlib(err));
    RLX_TRY(rx_file_open(zip, &f, err));
    rlx_status st = find_member(&f, zip, name, &m, err);
    if (st == RLX_OK && !rx_store_is_name(m.name, m.name_length))
        st = rx_fail(err, RLX_PARSE, "'%s': '%.*s' cannot be the name of a file", zip,
                     (int)m.name_length, m.name);
    if (st == RLX_OK && !(out->name = rx_arena_strndup(a, m.name, m.name_length)))
        st = rx_fail_memory(err, "the name of a file", m.name_length);
    if (st == RLX_OK)
        st = extract(&f, zip, &m, folder, out, err);
    rx_file_close(&f);
    return st;
}
