/* SPDX-License-Identifier: MIT */
/* The writer of GGUF files, version 3. Metadata values are kept encoded; the header is written with
 * the first data, when the list of tensors is complete. */
#include <stdio.h>
#include <string.h>

#include "base/little.h"
#include "base/outfile.h"
#include "base/str.h"
#include "import/file.h"
#include "import/json.h"
#include "rlx/quantize.h"

#define DEFAULT_ALIGNMENT 32
#define MAX_GGUF_RANK 4 /* the limit of ggml */

typedef struct entry {
    const char *key;
    rx_bytes value; /* type and payload, as in the file */
} entry;

typedef struct out_tensor {
    const char *name;
    rlx_dtype dtype;
    rlx_shape shape;
    uint64_t bytes, offset; /* offset: from the start of the data */
} out_tensor;

struct rlx_gguf_writer {
    rx_outfile file;
    char *path;
    rx_arena arena;
    entry *meta;
    size_t n_meta, cap_meta;
    rx_map keys; /* value: index in meta */
    out_tensor *tensors;
    size_t n_tensors, cap_tensors;
    rx_map names;
    uint64_t alignment;
    bool begun;      /* the header is written */
    size_t at;       /* the tensor that is being written */
    uint64_t within; /* bytes of it taken so far */
    unsigned char part[256]; /* of those, the last ones, until a part is full: write_elements */
};

rlx_status rlx_gguf_writer_create(const char *path, rlx_gguf_writer **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_gguf_writer_create: out", err));
    *out = NULL;
    if (!path)
        return rx_fail(err, RLX_INVALID, "the path of a GGUF file to be written is NULL");
    rlx_gguf_writer *w = rx_alloc_zero(sizeof *w);
    if (!w)
        return rx_fail_memory(err, path, sizeof *w);
    w->path = rx_arena_strdup(&w->arena, path);
    w->alignment = DEFAULT_ALIGNMENT;
    rlx_status st = w->path ? rx_outfile_open(path, &rx_kind_gguf, &w->file, err)
                            : rx_fail_memory(err, path, strlen(path) + 1);
    if (st != RLX_OK) {
        rlx_gguf_writer_destroy(w);
        return st;
    }
    *out = w;
    return RLX_OK;
}

void rlx_gguf_writer_destroy(rlx_gguf_writer *w)
{
    if (!w)
        return;
    rx_outfile_discard(&w->file);
    rx_free(w->meta);
    rx_free(w->tensors);
    rx_map_finish(&w->keys);
    rx_map_finish(&w->names);
    rx_arena_finish(&w->arena);
    rx_free(w);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void put_little(rx_str *s, uint64_t v, int width)
{
    char bytes[8];
    for (int i = 0; i < width; i++)
        bytes[i] = (char)(v >> 8 * i & 255);
    rx_str_add(s, bytes, (size_t)width);
}

static void put_text(rx_str *s, const char *text, size_t n)
{
    put_little(s, n, 8);
    rx_str_add(s, text, n);
}

/* Element i of a C array as an unsigned integer of the same bits. */
static uint64_t number_bits(const void *numbers, size_t i, int width)
{
    const char *p = (const char *)numbers + i * (size_t)width;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (width) {
    case 1: return memcpy(&u8, p, 1), u8;
    case 2: return memcpy(&u16, p, 2), u16;
    case 4: return memcpy(&u32, p, 4), u32;
    default: return memcpy(&u64, p, 8), u64;
    }
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static rlx_status check_open(const rlx_gguf_writer *w, const char *what, rlx_error *err)
{
    if (w->begun)
        return rx_fail(err, RLX_INVALID, "'%s': %s after the data was begun; expected all metadata "
                       "and tensors before", w->path, what);
    return RLX_OK;
}

static rlx_status check_name(const rlx_gguf_writer *w, const char *what, const char *name,
                             rlx_error *err)
{
    size_t n = name ? strlen(name) : 0;
    bool ok = n >= 1 && n <= RX_MAX_NAME && rx_utf8_valid((const unsigned char *)name, n);
    for (size_t i = 0; ok && i < n; i++)
        ok = (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
    if (ok)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "'%s': %s '%.80s' has %zu bytes; expected 1 to %d bytes of "
                   "UTF-8 without control characters", w->path, what, name ? name : "", n,
                   RX_MAX_NAME);
}

/* Moves the bytes of `value` into the entry of that key. */
static rlx_status store_entry(rlx_gguf_writer *w, const char *key, rx_str *value, rlx_error *err)
{
    size_t length = strlen(key);
    void *copy = value->failed ? NULL : rx_arena_copy(&w->arena, value->data, value->n);
    rx_bytes bytes = {copy, value->n};
    rx_str_finish(value);
    if (!copy)
        return rx_fail_memory(err, key, bytes.bytes);
    rx_map_slot *slot = rx_map_find(&w->keys, key, length);
    if (slot) {
        w->meta[slot->value].value = bytes;
        return RLX_OK;
    }
    const char *name = rx_arena_strdup(&w->arena, key);
    if (!name || !rx_grow(&w->meta, &w->cap_meta, w->n_meta + 1, sizeof w->meta[0]) ||
        !rx_map_add(&w->keys, name, length, (uint32_t)w->n_meta))
        return rx_fail_memory(err, key, sizeof w->meta[0]);
    w->meta[w->n_meta++] = (entry){name, bytes};
    return RLX_OK;
}

static rlx_status check_alignment(rlx_gguf_writer *w, const rlx_gguf_value *v, rlx_error *err)
{
    uint64_t a = 0;
    if (v->type == RLX_GGUF_U32 && !v->is_array)
        a = number_bits(v->numbers, 0, 4);
    if (a < 8 || a & (a - 1))
        return rx_fail(err, RLX_INVALID, "'%s': general.alignment is %llu; expected a power of two "
                       "of at least 8, as u32", w->path, (unsigned long long)a);
    w->alignment = a;
    return RLX_OK;
}

static void put_type(rx_str *s, uint32_t type, bool is_array, size_t n)
{
    put_little(s, is_array ? RX_META_ARRAY : type, 4);
    if (is_array) {
        put_little(s, type, 4);
        put_little(s, n, 8);
    }
}

rlx_status rlx_gguf_writer_set(rlx_gguf_writer *w, const char *key, const rlx_gguf_value *v,
                               rlx_error *err)
{
    RLX_TRY(rx_need(w, "rlx_gguf_writer_set: w", err));
    RLX_TRY(rx_need(v, "rlx_gguf_writer_set: v", err));
    const size_t n = v->is_array ? v->n : 1;
    RLX_TRY(check_open(w, "metadata was set", err));
    RLX_TRY(check_name(w, "the key", key, err));
    const bool is_text = v->type == RLX_GGUF_STRING;
    if ((unsigned)v->type > RLX_GGUF_F64 || (int)v->type == RX_META_ARRAY)
        return rx_fail(err, RLX_INVALID, "'%s': metadata '%.80s' has values of type %d; expected a "
                       "type of GGUF", w->path, key, (int)v->type);
    if (n && (is_text ? v->texts == NULL : v->numbers == NULL))
        return rx_fail(err, RLX_INVALID, "'%s': metadata '%.80s' has no values; expected %zu",
                       w->path, key, n);
    if (!strcmp(key, "general.alignment"))
        RLX_TRY(check_alignment(w, v, err));
    rx_str s = {0};
    put_type(&s, (uint32_t)v->type, v->is_array, n);
    const int width = rx_meta_width((rx_meta_code)v->type);
    for (size_t i = 0; i < n; i++) {
        if (is_text)
            put_text(&s, v->texts[i], v->lengths ? v->lengths[i] : strlen(v->texts[i]));
        else
            put_little(&s, number_bits(v->numbers, i, width), width);
    }
    return store_entry(w, key, &s, err);
}

rlx_status rlx_gguf_writer_set_u32(rlx_gguf_writer *w, const char *key, uint32_t value,
                                   rlx_error *err)
{
    rlx_gguf_value v = {.type = RLX_GGUF_U32, .numbers = &value};
    return rlx_gguf_writer_set(w, key, &v, err);
}

rlx_status rlx_gguf_writer_set_f32(rlx_gguf_writer *w, const char *key, float value, rlx_error *err)
{
    rlx_gguf_value v = {.type = RLX_GGUF_F32, .numbers = &value};
    return rlx_gguf_writer_set(w, key, &v, err);
}

rlx_status rlx_gguf_writer_set_bool(rlx_gguf_writer *w, const char *key, bool value, rlx_error *err)
{
    uint8_t byte = value;
    rlx_gguf_value v = {.type = RLX_GGUF_BOOL, .numbers = &byte};
    return rlx_gguf_writer_set(w, key, &v, err);
}

rlx_status rlx_gguf_writer_set_text(rlx_gguf_writer *w, const char *key, const char *value,
                                    rlx_error *err)
{
    RLX_TRY(rx_need(value, "rlx_gguf_writer_set_text: value", err));
    rlx_gguf_value v = {.type = RLX_GGUF_STRING, .texts = &value};
    return rlx_gguf_writer_set(w, key, &v, err);
}

rlx_status rlx_gguf_writer_copy_meta(rlx_gguf_writer *w, const rlx_file *f, rlx_error *err)
{
    RLX_TRY(rx_need(w, "rlx_gguf_writer_copy_meta: w", err));
    RLX_TRY(rx_need(f, "rlx_gguf_writer_copy_meta: f", err));
    RLX_TRY(check_open(w, "metadata was copied", err));
    for (size_t i = 0; i < f->n_meta; i++) {
        const rx_meta *m = &f->meta[i];
        if (!strncmp(m->key, "split.", 6))
            continue;
        rx_str s = {0};
        put_type(&s, m->code, m->is_array, m->n);
        if (m->code != RX_META_STRING)
            rx_str_add(&s, (const char *)m->numbers, m->n * (size_t)rx_meta_width(m->code));
        else
            for (size_t k = 0; k < m->n; k++)
                put_text(&s, m->strings[k].data, m->strings[k].bytes);
        RLX_TRY(store_entry(w, m->key, &s, err));
    }
    rlx_meta a;
    uint64_t alignment;
    if (rlx_file_find_meta(f, "general.alignment", &a) && rlx_meta_u64(&a, 0, &alignment)) {
        uint32_t narrow = (uint32_t)alignment;
        RLX_TRY(rlx_gguf_writer_set_u32(w, "general.alignment", narrow, err));
    }
    return RLX_OK;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

rlx_status rlx_gguf_writer_add_tensor(rlx_gguf_writer *w, const char *name, rlx_dtype dtype,
                                      const rlx_shape *shape, rlx_error *err)
{
    RLX_TRY(rx_need(w, "rlx_gguf_writer_add_tensor: w", err));
    RLX_TRY(rx_need(shape, "rlx_gguf_writer_add_tensor: shape", err));
    RLX_TRY(check_open(w, "a tensor was added", err));
    RLX_TRY(check_name(w, "the tensor name", name, err));
    const rx_dtype_desc *d = rx_dtype_info(dtype);
    if (d->gguf == RX_NOT_IN_GGUF)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': tensor '%.80s' has elements of %s, which GGUF "
                       "files cannot hold", w->path, name, d->name);
    if (shape->rank < 0 || shape->rank > MAX_GGUF_RANK)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': tensor '%.80s' has %d dimensions; GGUF files "
                       "hold at most %d", w->path, name, (int)shape->rank, MAX_GGUF_RANK);
    int64_t n = 1;
    uint64_t bytes;
    bool ok = shape->rank == 0 ? d->block_size == 1
                               : shape->dim[shape->rank - 1] % d->block_size == 0;
    for (int i = 0; i < shape->rank; i++)
        ok = ok && shape->dim[i] >= 0 && !__builtin_mul_overflow(n, shape->dim[i], &n);
    if (!ok || !rx_dtype_bytes(dtype, n, &bytes) || bytes > INT64_MAX / 2)
        return rx_fail(err, RLX_INVALID, "'%s': tensor '%.80s' of type %s has a shape that does "
                       "not fit; expected rows of a multiple of %d elements", w->path, name,
                       d->name, d->block_size);
    if (rx_map_find(&w->names, name, strlen(name)))
        return rx_fail(err, RLX_INVALID, "'%s': there is a tensor '%.80s' already", w->path, name);
    const char *copy = rx_arena_strdup(&w->arena, name);
    if (!copy || !rx_grow(&w->tensors, &w->cap_tensors, w->n_tensors + 1, sizeof w->tensors[0]) ||
        !rx_map_add(&w->names, copy, strlen(copy), (uint32_t)w->n_tensors))
        return rx_fail_memory(err, name, sizeof w->tensors[0]);
    w->tensors[w->n_tensors++] = (out_tensor){copy, dtype, *shape, bytes, 0};
    return RLX_OK;
}

static uint64_t padding(const rlx_gguf_writer *w, uint64_t at)
{
    return (w->alignment - at % w->alignment) % w->alignment;
}

/* Assigns aligned data offsets in order. */
static rlx_status place_tensors(rlx_gguf_writer *w, rlx_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        w->tensors[i].offset = at;
        at += w->tensors[i].bytes;
        at += padding(w, at);
        if (at > INT64_MAX / 2)
            return rx_fail(err, RLX_UNSUPPORTED, "'%s': tensor '%.80s' ends past 2^62 bytes",
                           w->path, w->tensors[i].name);
    }
    return RLX_OK;
}

static void print_header(const rlx_gguf_writer *w, rx_str *s)
{
    rx_str_add(s, "GGUF", 4);
    put_little(s, 3, 4);
    put_little(s, w->n_tensors, 8);
    put_little(s, w->n_meta, 8);
    for (size_t i = 0; i < w->n_meta; i++) {
        put_text(s, w->meta[i].key, strlen(w->meta[i].key));
        rx_str_add(s, w->meta[i].value.data, w->meta[i].value.bytes);
    }
    for (size_t i = 0; i < w->n_tensors; i++) {
        const out_tensor *t = &w->tensors[i];
        put_text(s, t->name, strlen(t->name));
        put_little(s, (uint64_t)t->shape.rank, 4);
        for (int k = t->shape.rank; k--;)
            put_little(s, (uint64_t)t->shape.dim[k], 8);
        put_little(s, (uint64_t)rx_dtype_info(t->dtype)->gguf, 4);
        put_little(s, t->offset, 8);
    }
}

static rlx_status write_zeros(rlx_gguf_writer *w, uint64_t n, rlx_error *err)
{
    static const char zeros[256];
    while (n) {
        size_t now = n < sizeof zeros ? (size_t)n : sizeof zeros;
        RLX_TRY(rx_outfile_write(&w->file, zeros, now, err));
        n -= now;
    }
    return RLX_OK;
}

/* Advances past all complete tensors, including empty ones. */
static rlx_status pass_tensors(rlx_gguf_writer *w, rlx_error *err)
{
    while (w->at < w->n_tensors && w->within == w->tensors[w->at].bytes) {
        RLX_TRY(write_zeros(w, padding(w, w->within), err));
        w->at++;
        w->within = 0;
    }
    return RLX_OK;
}

static rlx_status begin_data(rlx_gguf_writer *w, rlx_error *err)
{
    rx_str s = {0};
    RLX_TRY(place_tensors(w, err));
    print_header(w, &s);
    rlx_status st = s.failed ? rx_fail_memory(err, "the header of the file", s.n)
                             : rx_outfile_write(&w->file, s.data, s.n, err);
    if (st == RLX_OK)
        st = write_zeros(w, padding(w, s.n), err);
    rx_str_finish(&s);
    w->begun = true;
    return st == RLX_OK ? pass_tensors(w, err) : st;
}

/* Writes the next n bytes of a tensor; pieces may end inside an element. */
static rlx_status write_elements(rlx_gguf_writer *w, const char *from, size_t n, rlx_error *err)
{
    const out_tensor *t = &w->tensors[w->at];
    if (!rx_little_swaps(t->dtype))
        return rx_outfile_write(&w->file, from, n, err);
    for (size_t i = 0; i < n; i++) {
        const size_t at = (size_t)(w->within + i) % sizeof w->part;
        w->part[at] = (unsigned char)from[i];
        if (at + 1 < sizeof w->part && w->within + i + 1 < t->bytes)
            continue;
        rx_little_copy(t->dtype, w->part, w->part, at + 1);
        RLX_TRY(rx_outfile_write(&w->file, w->part, at + 1, err));
    }
    return RLX_OK;
}

rlx_status rlx_gguf_writer_write(rlx_gguf_writer *w, const void *data, size_t bytes, rlx_error *err)
{
    RLX_TRY(rx_need(w, "rlx_gguf_writer_write: w", err));
    if (bytes)
        RLX_TRY(rx_need(data, "rlx_gguf_writer_write: data", err));
    const char *p = data;
    if (!w->begun)
        RLX_TRY(begin_data(w, err));
    while (bytes) {
        if (w->at == w->n_tensors)
            return rx_fail(err, RLX_INVALID, "'%s': %zu bytes follow the data of all %zu tensors",
                           w->path, bytes, w->n_tensors);
        uint64_t room = w->tensors[w->at].bytes - w->within;
        size_t now = bytes < room ? bytes : (size_t)room;
        RLX_TRY(write_elements(w, p, now, err));
        w->within += now;
        p += now;
        bytes -= now;
        RLX_TRY(pass_tensors(w, err));
    }
    return RLX_OK;
}

rlx_status rlx_gguf_writer_finish(rlx_gguf_writer *w, rlx_error *err)
{
    RLX_TRY(rx_need(w, "rlx_gguf_writer_finish: w", err));
    if (!w->begun)
        RLX_TRY(begin_data(w, err));
    if (w->at < w->n_tensors)
        return rx_fail(err, RLX_INVALID, "'%s': tensor '%.80s' has %llu of its %llu bytes; "
                       "expected the data of all %zu tensors", w->path, w->tensors[w->at].name,
                       (unsigned long long)w->within,
                       (unsigned long long)w->tensors[w->at].bytes, w->n_tensors);
    return rx_outfile_commit(&w->file, err);
}
