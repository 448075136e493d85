/* SPDX-License-Identifier: MIT */
/* Sequences in files. A file has, in little-endian numbers,
 *   8 bytes "RLXSEQ" 0 1
 *   u64 x 8: fingerprint of the model, type of the cache, bytes of the note, tokens, tokens
 *            computed, states, bytes after this header, hash of them
 *   the note (the messages of a chat), then zeros up to a multiple of 8
 *   i32 tokens
 *   for each state: u64 bytes of a row, u64 rows, the rows, in the byte order of the machine, of
 *     which the fingerprint depends
 * All of it is untrusted and checked. */
#include <string.h>

#include "base/map.h"
#include "base/outfile.h"
#include "model/model.h"

static const unsigned char magic[8] = {'R', 'L', 'X', 'S', 'E', 'Q', 0, 1};

enum {
    FINGERPRINT, CACHE, NOTE_BYTES, N_TOKENS, N_COMPUTED, N_STATES, BODY_BYTES, BODY_HASH, N_HEADER
};
#define HEADER_BYTES (sizeof magic + N_HEADER * 8)
#define PART_BYTES 16

static void put_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t get_u64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void put_i32(unsigned char *p, int32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)((uint32_t)v >> 8 * i);
}

static int32_t get_i32(const unsigned char *p)
{
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

/* The number of rows of a state that hold a sequence with `computed` tokens. */
static size_t part_rows(const rx_state_part *p, size_t computed)
{
    return p->by_place ? computed : 1;
}

static size_t part_offset(const rlx_context *c, const rx_state_part *p, size_t seq)
{
    return seq * (p->by_place ? c->context : 1) * p->row_bytes;
}

static size_t padded(size_t note)
{
    return (note + 7) / 8 * 8;
}

/* The contents of a file in memory. */
typedef struct saved {
    const char *path;
    const unsigned char *body;
    size_t note, n, computed;
} saved;

/* Bytes after the header. */
static bool body_bytes(rlx_context *c, const saved *v, uint64_t *bytes, size_t *n_parts)
{
    rx_state_part p;
    uint64_t sum = (uint64_t)padded(v->note) + (uint64_t)v->n * 4, data;
    size_t i = 0;
    for (; rx_context_state(c, i, &p); i++)
        if (!rx_mul_size(part_rows(&p, v->computed), p.row_bytes, &data) ||
            !rx_add_size(sum, PART_BYTES, &sum) || !rx_add_size(sum, data, &sum))
            return false;
    *bytes = sum;
    *n_parts = i;
    return sum <= SIZE_MAX / 2;
}

/* ---- Save ------------------------------------------------------------------------------------ */

static rlx_status fill_body(rlx_context *c, size_t seq, rx_bytes note, unsigned char *at,
                            rlx_error *err)
{
    const rx_sequence *s = &c->sequences[seq];
    rx_state_part p;
    if (note.bytes)
        memcpy(at, note.data, note.bytes);
    memset(at + note.bytes, 0, padded(note.bytes) - note.bytes);
    at += padded(note.bytes);
    for (size_t i = 0; i < s->n; i++, at += 4)
        put_i32(at, s->tokens[i]);
    for (size_t i = 0; rx_context_state(c, i, &p); i++) {
        size_t rows = part_rows(&p, s->computed), bytes = rows * p.row_bytes;
        put_u64(at, p.row_bytes);
        put_u64(at + 8, rows);
        RLX_TRY(rlx_session_state_read(p.session, p.name, part_offset(c, &p, seq),
                                       at + PART_BYTES, bytes, err));
        at += PART_BYTES + bytes;
    }
    return RLX_OK;
}

rlx_status rx_context_save(rlx_context *c, size_t seq, rx_bytes note, const char *path,
                           rlx_error *err)
{
    RLX_TRY(rx_check_sequence(c, seq, err));
    RLX_TRY(rx_context_settle(c, err));
    const rx_sequence *s = &c->sequences[seq];
    saved v = {path, NULL, note.bytes, s->n, s->computed};
    unsigned char header[HEADER_BYTES];
    uint64_t bytes;
    size_t n_parts;
    if (!path || !body_bytes(c, &v, &bytes, &n_parts))
        return rx_fail(err, RLX_INVALID, "sequence %zu cannot be saved: %s", seq,
                       path ? "it is too large" : "the path is NULL");
    unsigned char *body = rx_alloc(bytes);
    if (!body)
        return rx_fail_memory(err, "a sequence to be saved", bytes);
    rlx_status st = fill_body(c, seq, note, body, err);
    if (st == RLX_OK) {
        uint64_t fields[N_HEADER] = {
            rx_context_fingerprint(c), (uint64_t)c->model->build.cache, note.bytes, s->n,
            s->computed, n_parts, bytes, rx_hash(0, body, (size_t)bytes),
        };
        memcpy(header, magic, sizeof magic);
        for (size_t i = 0; i < N_HEADER; i++)
            put_u64(header + sizeof magic + 8 * i, fields[i]);
        rx_bytes pieces[] = {{header, sizeof header}, {body, (size_t)bytes}};
        st = rx_outfile_save(path, &rx_kind_sequence, pieces, 2, err);
    }
    rx_free(body);
    return st;
}

rlx_status rlx_context_save(rlx_context *c, size_t seq, const char *path, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_context_save: c", err));
    return rx_context_save(c, seq, (rx_bytes){0}, path, err);
}

/* ---- Restore --------------------------------------------------------------------------------- */

static rlx_status check_header(rlx_context *c, const rx_file *f, saved *out, rlx_error *err)
{
    uint64_t h[N_HEADER], bytes = 0;
    size_t n_parts = 0;
    const char *path = out->path;
    if (f->bytes < HEADER_BYTES || memcmp(f->data, magic, sizeof magic))
        return rx_fail(err, RLX_PARSE, "'%.200s' is no saved sequence: it does not begin with "
                       "RLXSEQ and version 1", path);
    for (size_t i = 0; i < N_HEADER; i++)
        h[i] = get_u64(f->data + sizeof magic + 8 * i);
    if (h[FINGERPRINT] != rx_context_fingerprint(c))
        return rx_fail(err, RLX_INVALID, "'%.200s' was saved from another model than '%.200s'",
                       path, c->model->path);
    if (h[CACHE] != (uint64_t)c->model->build.cache)
        return rx_fail(err, RLX_INVALID, "'%.200s' has a cache of another type; expected %s", path,
                       rlx_dtype_name(c->model->build.cache));
    if (h[N_TOKENS] > c->context)
        return rx_fail(err, RLX_INVALID, "'%.200s' has %llu tokens; the context holds %zu", path,
                       (unsigned long long)h[N_TOKENS], c->context);
    if (h[N_COMPUTED] > h[N_TOKENS])
        return rx_fail(err, RLX_PARSE, "'%.200s' has %llu computed tokens of %llu", path,
                       (unsigned long long)h[N_COMPUTED], (unsigned long long)h[N_TOKENS]);
    if (h[NOTE_BYTES] > f->bytes)
        return rx_fail(err, RLX_PARSE, "'%.200s' has %zu bytes and a note of %llu", path, f->bytes,
                       (unsigned long long)h[NOTE_BYTES]);
    out->note = (size_t)h[NOTE_BYTES];
    out->n = (size_t)h[N_TOKENS];
    out->computed = (size_t)h[N_COMPUTED];
    if (!body_bytes(c, out, &bytes, &n_parts) || h[N_STATES] != n_parts ||
        h[BODY_BYTES] != bytes || f->bytes - HEADER_BYTES != bytes)
        return rx_fail(err, RLX_PARSE, "'%.200s' has %llu bytes for %llu states; expected %llu for "
                       "%zu", path, (unsigned long long)(f->bytes - HEADER_BYTES),
                       (unsigned long long)h[N_STATES], (unsigned long long)bytes, n_parts);
    out->body = f->data + HEADER_BYTES;
    if (h[BODY_HASH] != rx_hash(0, out->body, (size_t)bytes))
        return rx_fail(err, RLX_PARSE, "'%.200s' is damaged: its bytes do not have the hash that "
                       "was stored", path);
    return RLX_OK;
}

/* Checks each size; check_header has checked their sum. */
static rlx_status check_body(rlx_context *c, const saved *v, rlx_error *err)
{
    const unsigned char *at = v->body + padded(v->note);
    rx_state_part p;
    for (size_t i = 0; i < v->n; i++, at += 4) {
        int32_t token = get_i32(at);
        if (token < 0 || (size_t)token >= c->vocabulary)
            return rx_fail(err, RLX_PARSE, "'%.200s': token %zu is %d; expected 0 to %zu", v->path,
                           i, (int)token, c->vocabulary - 1);
    }
    for (size_t i = 0; rx_context_state(c, i, &p); i++) {
        size_t rows = part_rows(&p, v->computed);
        if (get_u64(at) != p.row_bytes || get_u64(at + 8) != rows)
            return rx_fail(err, RLX_PARSE, "'%.200s': state '%s' has %llu rows of %llu bytes; "
                           "expected %zu of %zu", v->path, p.name,
                           (unsigned long long)get_u64(at + 8), (unsigned long long)get_u64(at),
                           rows, p.row_bytes);
        at += PART_BYTES + rows * p.row_bytes;
    }
    return RLX_OK;
}

static rlx_status load_body(rlx_context *c, size_t seq, const saved *v, rlx_error *err)
{
    rx_sequence *s = &c->sequences[seq];
    const unsigned char *at = v->body + padded(v->note);
    rx_state_part p;
    for (size_t i = 0; i < v->n; i++, at += 4)
        s->tokens[i] = get_i32(at);
    for (size_t i = 0; rx_context_state(c, i, &p); i++) {
        size_t bytes = part_rows(&p, v->computed) * p.row_bytes;
        RLX_TRY(rlx_session_state_write(p.session, p.name, part_offset(c, &p, seq),
                                        at + PART_BYTES, bytes, err));
        at += PART_BYTES + bytes;
    }
    s->n = v->n;
    s->computed = v->computed;
    return RLX_OK;
}

static rlx_status restore_checked(rlx_context *c, size_t seq, const saved *v, rx_note_fn *fn,
                                  void *user, rlx_error *err)
{
    rx_sequence *s = &c->sequences[seq];
    RLX_TRY(check_body(c, v, err));
    if (fn)
        RLX_TRY(fn(user, (rx_bytes){v->body, v->note}, err));
    s->n = s->computed = 0;
    s->sampled = -1;
    s->has_logits = false;
    return load_body(c, seq, v, err);
}

rlx_status rx_context_restore(rlx_context *c, size_t seq, rx_note_fn *fn, void *user,
                              const char *path, rlx_error *err)
{
    rx_file f;
    saved v = {.path = path};
    RLX_TRY(rx_check_sequence(c, seq, err));
    if (!path)
        return rx_fail(err, RLX_INVALID, "the path of a saved sequence is NULL");
    RLX_TRY(rx_context_settle(c, err));
    RLX_TRY(rx_file_open(path, &f, err));
    rlx_status st = check_header(c, &f, &v, err);
    if (st == RLX_OK)
        st = restore_checked(c, seq, &v, fn, user, err);
    rx_file_close(&f);
    return st;
}

rlx_status rlx_context_load(rlx_context *c, size_t seq, const char *path, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_context_load: c", err));
    return rx_context_restore(c, seq, NULL, NULL, path, err);
}
