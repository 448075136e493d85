/* SPDX-License-Identifier: MIT */
/* Model files: format detection, ownership of what is mapped or open, look-up of names and keys,
 * and metadata values read in place. */
#include "import/file.h"

#include <stdio.h>
#include <string.h>

#include "base/little.h"
#include "base/outfile.h"
#include "import/json.h"

/* ---- Called by the format readers
 * ---------------------------------------------------------------- */

static rlx_status open_stream(rlx_file *f, const char *path, rx_part *part, rlx_error *err)
{
    if (!rx_grow(&f->streams, &f->cap_streams, f->n_streams + 1, sizeof f->streams[0]))
        return rx_fail_memory(err, path, sizeof f->streams[0]);
    rx_stream *s = &f->streams[f->n_streams];
    RLX_TRY(rx_stream_open(path, s, err));
    *part = (rx_part){path, NULL, s->bytes, f->n_streams++};
    return RLX_OK;
}

rlx_status rx_part_open(rlx_file *f, const char *path, rx_part *part, rlx_error *err)
{
    if (f->streamed)
        return open_stream(f, path, part, err);
    if (!rx_grow(&f->maps, &f->cap_maps, f->n_maps + 1, sizeof f->maps[0]))
        return rx_fail_memory(err, path, sizeof f->maps[0]);
    rx_file *map = &f->maps[f->n_maps];
    RLX_TRY(rx_file_open(path, map, err));
    f->n_maps++;
    *part = (rx_part){path, map->data, map->bytes, 0};
    return RLX_OK;
}

/* Read size of streamed headers; an item that is larger gets a larger read. */
#define WINDOW ((uint64_t)1 << 20)

static rlx_status move_window(rlx_file *f, const rx_part *part, uint64_t at, uint64_t n,
                              rlx_error *err)
{
    const uint64_t left = part->bytes - at, least = n > WINDOW ? n : WINDOW;
    const uint64_t bytes = least < left ? least : left;
    unsigned char *data = rx_arena_array(&f->arena, bytes, 1);
    if (!data)
        return rx_fail_memory(err, part->path, bytes);
    RLX_TRY(rx_stream_read(&f->streams[part->stream], part->path, at, data, (size_t)bytes, err));
    f->window = (rx_window){data, part->stream, at, bytes};
    return RLX_OK;
}

const unsigned char *rx_part_bytes(rlx_file *f, const rx_part *part, uint64_t at, uint64_t n,
                                   rlx_error *err)
{
    const rx_window *w = &f->window;
    if (part->data)
        return part->data + at;
    if (!n)
        return (const unsigned char *)"";
    const bool inside = w->data && w->stream == part->stream && at >= w->at &&
                        at - w->at <= w->bytes && n <= w->bytes - (at - w->at);
    if (!inside && move_window(f, part, at, n, err) != RLX_OK)
        return NULL;
    return w->data + (at - w->at);
}

rlx_status rx_part_name(rlx_file *f, const rx_part *part, const char *what, rx_bytes text,
                        const char **name, rlx_error *err)
{
    const unsigned char *s = text.data;
    if (text.bytes == 0 || text.bytes > RX_MAX_NAME)
        return rx_fail(err, RLX_PARSE, "'%s': %s has %llu bytes; expected 1 to %d", part->path,
                       what, (unsigned long long)text.bytes, RX_MAX_NAME);
    for (size_t i = 0; i < text.bytes; i++)
        if (s[i] < 0x20 || s[i] == 0x7f)
            return rx_fail(err, RLX_PARSE, "'%s': %s has a control character (0x%02x) at byte %zu;"
                           " expected text", part->path, what, s[i], i);
    if (!rx_utf8_valid(s, text.bytes))
        return rx_fail(err, RLX_PARSE, "'%s': %s is not UTF-8", part->path, what);
    *name = rx_arena_strndup(&f->arena, text.data, text.bytes);
    return *name ? RLX_OK : rx_fail_memory(err, what, text.bytes + 1);
}

/* The data of a tensor in a mapped file, or on a big-endian machine a copy in its byte order. */
static rlx_status place_data(rlx_file *f, const unsigned char *from, rlx_file_tensor *t,
                             rlx_error *err)
{
    t->data = from;
    if (!from || !rx_little_swaps(t->dtype))
        return RLX_OK;
    void *copy = rx_arena_array(&f->arena, t->bytes, 1);
    if (!copy)
        return rx_fail_memory(err, t->name, t->bytes);
    rx_little_copy(t->dtype, from, copy, t->bytes);
    t->data = copy;
    return RLX_OK;
}

rlx_status rx_file_add_tensor(rlx_file *f, const rx_part *part, const rlx_file_tensor *t,
                              uint64_t at, rlx_error *err)
{
    size_t length = strlen(t->name);
    if (rx_map_find(&f->tensor_names, t->name, length))
        return rx_fail(err, RLX_PARSE, "'%s': there are two tensors '%.80s'; expected each name "
                       "once", part->path, t->name);
    if (f->n_tensors >= UINT32_MAX)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': more than %u tensors", part->path, UINT32_MAX);
    if (!rx_grow(&f->tensors, &f->cap_tensors, f->n_tensors + 1, sizeof *t) ||
        !rx_map_add(&f->tensor_names, t->name, length, (uint32_t)f->n_tensors))
        return rx_fail_memory(err, "the list of tensors", (f->n_tensors + 1) * sizeof *t);
    if (f->streamed && !rx_grow(&f->places, &f->cap_places, f->n_tensors + 1, sizeof *f->places))
        return rx_fail_memory(err, "the places of tensors", sizeof *f->places);
    if (f->streamed)
        f->places[f->n_tensors] = (rx_tensor_place){part->stream, at};
    rlx_file_tensor *added = &f->tensors[f->n_tensors];
    *added = *t;
    RLX_TRY(place_data(f, part->data ? part->data + at : NULL, added, err));
    f->n_tensors++;
    return RLX_OK;
}

rlx_status rx_file_add_meta(rlx_file *f, const rx_meta *m, rlx_error *err)
{
    size_t length = strlen(m->key);
    if (rx_map_find(&f->meta_keys, m->key, length))
        return RLX_OK;
    if (f->n_meta >= UINT32_MAX)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': more than %u metadata entries", f->path,
                       UINT32_MAX);
    if (!rx_grow(&f->meta, &f->cap_meta, f->n_meta + 1, sizeof *m) ||
        !rx_map_add(&f->meta_keys, m->key, length, (uint32_t)f->n_meta))
        return rx_fail_memory(err, "the list of metadata", (f->n_meta + 1) * sizeof *m);
    f->meta[f->n_meta++] = *m;
    return RLX_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static rlx_status read_part(rlx_file *f, const rx_part *part, rlx_error *err)
{
    const unsigned char *d = rx_part_bytes(f, part, 0, part->bytes < 9 ? part->bytes : 9, err);
    if (!d)
        return RLX_IO;
    if (part->bytes >= 4 && !memcmp(d, "GGUF", 4)) {
        f->format = "gguf";
        return rx_gguf_read(f, part, err);
    }
    f->format = "safetensors";
    if (ends_with(part->path, ".index.json"))
        return rx_safetensors_read_index(f, part, err);
    if ((part->bytes > 8 && d[8] == '{') || ends_with(part->path, ".safetensors"))
        return rx_safetensors_read(f, part, err);
    char found[16] = "nothing";
    for (size_t i = 0, n = 0; i < 4 && i < part->bytes; i++)
        n += (size_t)snprintf(found + n, sizeof found - n, i ? " %02x" : "%02x", d[i]);
    return rx_fail(err, RLX_PARSE, "'%s' is no model file: expected \"GGUF\" or a safetensors "
                   "header at its start, found %s", part->path, found);
}

/* Takes over `f` and gives it to *out when st is RLX_OK. */
static rlx_status finish_open(rlx_file *f, rlx_status st, rlx_file **out)
{
    if (st != RLX_OK) {
        rlx_file_close(f);
        return st;
    }
    *out = f;
    return RLX_OK;
}

static rlx_file *new_file(const char *path, rlx_error *err)
{
    rlx_file *f = rx_alloc_zero(sizeof *f);
    if (f && !(f->path = rx_arena_strdup(&f->arena, path))) {
        rlx_file_close(f);
        f = NULL;
    }
    if (!f)
        rx_fail_memory(err, path, sizeof *f);
    return f;
}

static rlx_status open_path(const char *path, bool streamed, rlx_file **out, rlx_error *err)
{
    rlx_file *f = new_file(path, err);
    if (!f)
        return RLX_NO_MEMORY;
    rx_part part;
    f->streamed = streamed;
    rlx_status st = rx_part_open(f, f->path, &part, err);
    if (st == RLX_OK)
        st = read_part(f, &part, err);
    return finish_open(f, st, out);
}

rlx_status rlx_file_open(const char *path, rlx_file **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_file_open: out", err));
    *out = NULL;
    RLX_TRY(rx_need(path, "rlx_file_open: path", err));
    return open_path(path, false, out, err);
}

rlx_status rx_file_open_streamed(const char *path, rlx_file **out, rlx_error *err)
{
    *out = NULL;
    return open_path(path, true, out, err);
}

rlx_status rx_file_from_memory(const void *data, size_t bytes, const char *path, rlx_file **out,
                               rlx_error *err)
{
    *out = NULL;
    rlx_file *f = new_file(path, err);
    if (!f)
        return RLX_NO_MEMORY;
    rx_part part = {f->path, data, bytes, 0};
    return finish_open(f, read_part(f, &part, err), out);
}

void rlx_file_close(rlx_file *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n_maps; i++)
        rx_file_close(&f->maps[i]);
    for (size_t i = 0; i < f->n_streams; i++)
        rx_stream_close(&f->streams[i]);
    rx_free(f->maps);
    rx_free(f->streams);
    rx_free(f->places);
    rx_free(f->tensors);
    rx_free(f->meta);
    rx_map_finish(&f->tensor_names);
    rx_map_finish(&f->meta_keys);
    rx_arena_finish(&f->arena);
    rx_free(f);
}

bool rlx_file_is_at(const rlx_file *f, const char *path)
{
    for (size_t i = 0; f && path && i < f->n_maps; i++)
        if (rx_file_is_at(&f->maps[i], path))
            return true;
    for (size_t i = 0; f && path && i < f->n_streams; i++) {
        const rx_file as = {.device = f->streams[i].device, .inode = f->streams[i].inode};
        if (rx_file_is_at(&as, path))
            return true;
    }
    return false;
}

rlx_status rlx_save_file(const char *path, const char *kind, size_t magic_bytes, const void *data,
                         size_t bytes, rlx_error *err)
{
    if (!kind || (bytes && !data) || magic_bytes > bytes)
        return rx_fail(err, RLX_INVALID, "'%s': a file of %zu bytes that begins with %zu bytes of "
                       "its kind; expected data, a kind and no more than its bytes",
                       path ? path : "", bytes, magic_bytes);
    const rx_file_kind k = {kind, data, magic_bytes, 0};
    return rx_outfile_save(path, &k, &(rx_bytes){data, bytes}, 1, err);
}

const char *rlx_file_format(const rlx_file *f)
{
    return f ? f->format : NULL;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

size_t rlx_file_n_tensors(const rlx_file *f)
{
    return f ? f->n_tensors : 0;
}

bool rlx_file_tensor_at(const rlx_file *f, size_t i, rlx_file_tensor *out)
{
    if (i >= rlx_file_n_tensors(f) || !out)
        return false;
    *out = f->tensors[i];
    return true;
}

bool rlx_file_find_tensor(const rlx_file *f, const char *name, rlx_file_tensor *out)
{
    if (!f || !name)
        return false;
    const rx_map_slot *slot = rx_map_find(&f->tensor_names, name, strlen(name));
    return slot && rlx_file_tensor_at(f, slot->value, out);
}

rlx_status rlx_file_get_tensor(const rlx_file *f, const char *name, rlx_file_tensor *out,
                               rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_file_get_tensor: out", err));
    *out = (rlx_file_tensor){0};
    RLX_TRY(rx_need(f, "rlx_file_get_tensor: f", err));
    RLX_TRY(rx_need(name, "rlx_file_get_tensor: name", err));
    rlx_file_tensor t;
    if (!rlx_file_find_tensor(f, name, &t))
        return rx_fail(err, RLX_NOT_FOUND, "'%s' has no tensor '%.80s'", f->path, name);
    if (t.dtype == RLX_NO_TYPE)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': tensor '%.80s' has elements of %s, which rlx "
                       "cannot use", f->path, name, t.type_name);
    *out = t;
    return RLX_OK;
}

rlx_status rx_file_read(const rlx_file *f, const rlx_file_tensor *t, void *to, size_t n,
                        rlx_error *err)
{
    if (t->data) {
        memcpy(to, t->data, n);
        return RLX_OK;
    }
    const rx_tensor_place *p = &f->places[rx_map_find(&f->tensor_names, t->name,
                                                      strlen(t->name))->value];
    RLX_TRY(rx_stream_read(&f->streams[p->stream], f->path, p->at, to, n, err));
    rx_little_copy(t->dtype, to, to, n);
    return RLX_OK;
}

rlx_status rx_file_load(const rlx_file *f, const rlx_file_tensor *t, const void **data,
                        void **owned, rlx_error *err)
{
    *data = t->data;
    *owned = NULL;
    if (t->data)
        return RLX_OK;
    void *to = rx_alloc(t->bytes ? t->bytes : 1);
    if (!to)
        return rx_fail_memory(err, t->name, t->bytes);
    const rlx_status st = rx_file_read(f, t, to, t->bytes, err);
    if (st != RLX_OK) {
        rx_free(to);
        return st;
    }
    *data = *owned = to;
    return RLX_OK;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static const struct {
    rlx_meta_kind kind;
    int width; /* bytes */
} codes[RX_N_META_CODES] = {
    [RX_META_U8] = {RLX_META_U64, 1},      [RX_META_I8] = {RLX_META_I64, 1},
    [RX_META_U16] = {RLX_META_U64, 2},     [RX_META_I16] = {RLX_META_I64, 2},
    [RX_META_U32] = {RLX_META_U64, 4},     [RX_META_I32] = {RLX_META_I64, 4},
    [RX_META_U64] = {RLX_META_U64, 8},     [RX_META_I64] = {RLX_META_I64, 8},
    [RX_META_F32] = {RLX_META_F64, 4},     [RX_META_F64] = {RLX_META_F64, 8},
    [RX_META_BOOL] = {RLX_META_BOOL, 1},   [RX_META_STRING] = {RLX_META_STRING, 0},
};

int rx_meta_width(rx_meta_code code)
{
    return codes[code].width;
}

size_t rlx_file_n_meta(const rlx_file *f)
{
    return f ? f->n_meta : 0;
}

bool rlx_file_meta_at(const rlx_file *f, size_t i, rlx_meta *out)
{
    if (i >= rlx_file_n_meta(f) || !out)
        return false;
    const rx_meta *m = &f->meta[i];
    *out = (rlx_meta){m->key, codes[m->code].kind, m->is_array, m->n, m};
    return true;
}

bool rlx_file_find_meta(const rlx_file *f, const char *key, rlx_meta *out)
{
    if (!f || !key)
        return false;
    const rx_map_slot *slot = rx_map_find(&f->meta_keys, key, strlen(key));
    return slot && rlx_file_meta_at(f, slot->value, out);
}

/* Integer value i of a metadata array as 64 bits, sign-extended for signed types. */
static uint64_t read_bits(const rx_meta *m, size_t i)
{
    int width = codes[m->code].width;
    const unsigned char *p = m->numbers + i * (size_t)width;
    uint64_t bits = 0;
    for (int k = width; k--;)
        bits = bits << 8 | p[k];
    if (codes[m->code].kind == RLX_META_I64 && width < 8 && bits >> (8 * width - 1))
        bits |= UINT64_MAX << 8 * width;
    return bits;
}

static bool has_value(const rlx_meta *m, size_t i, const void *out)
{
    return m && out && i < m->n;
}

bool rlx_meta_u64(const rlx_meta *m, size_t i, uint64_t *out)
{
    if (!has_value(m, i, out) || (m->kind != RLX_META_U64 && m->kind != RLX_META_I64))
        return false;
    uint64_t bits = read_bits(m->values, i);
    if (m->kind == RLX_META_I64 && bits > INT64_MAX)
        return false;
    *out = bits;
    return true;
}

bool rlx_meta_i64(const rlx_meta *m, size_t i, int64_t *out)
{
    if (!has_value(m, i, out) || (m->kind != RLX_META_U64 && m->kind != RLX_META_I64))
        return false;
    uint64_t bits = read_bits(m->values, i);
    if (m->kind == RLX_META_U64 && bits > INT64_MAX)
        return false;
    *out = (int64_t)bits;
    return true;
}

bool rlx_meta_f64(const rlx_meta *m, size_t i, double *out)
{
    if (!has_value(m, i, out) || m->kind == RLX_META_BOOL || m->kind == RLX_META_STRING)
        return false;
    uint64_t bits = read_bits(m->values, i);
    if (m->kind == RLX_META_U64)
        *out = (double)bits;
    else if (m->kind == RLX_META_I64)
        *out = (double)(int64_t)bits;
    else if (((const rx_meta *)m->values)->code == RX_META_F32) {
        uint32_t low = (uint32_t)bits;
        float value;
        memcpy(&value, &low, sizeof value);
        *out = value;
    } else
        memcpy(out, &bits, sizeof *out);
    return true;
}

bool rlx_meta_bool(const rlx_meta *m, size_t i, bool *out)
{
    if (!has_value(m, i, out) || m->kind != RLX_META_BOOL)
        return false;
    *out = read_bits(m->values, i) != 0;
    return true;
}

bool rlx_meta_string(const rlx_meta *m, size_t i, const char **text, size_t *length)
{
    if (!has_value(m, i, text) || !length || m->kind != RLX_META_STRING)
        return false;
    const rx_bytes *s = &((const rx_meta *)m->values)->strings[i];
    *text = s->data;
    *length = s->bytes;
    return true;
}
