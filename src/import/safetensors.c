/* SPDX-License-Identifier: MIT */
/* safetensors: 8 bytes of header length, a JSON object that gives each tensor its dtype, shape and
 * data_offsets, then the data without gaps. An index file names the file of each tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/posix.h"
#include "import/file.h"
#include "import/json.h"
#include "import/safetensors.h"

/* The limit of the format. */
#define MAX_HEADER 100000000

static const struct {
    const char *name;
    rlx_dtype dtype;
    uint64_t bits;
} types[] = {
    {"F32", RLX_F32, 32},     {"F16", RLX_F16, 16},     {"BF16", RLX_BF16, 16},
    {"I8", RLX_I8, 8},        {"U8", RLX_U8, 8},        {"I32", RLX_I32, 32},
    {"I64", RLX_I64, 64},     {"BOOL", RLX_BOOL, 8},    {"F64", RLX_F64, 64},
    {"I16", RLX_I16, 16},     {"U16", RLX_U16, 16},     {"U32", RLX_U32, 32},
    {"U64", RLX_U64, 64},     {"F8_E4M3", RLX_NO_TYPE, 8}, {"F8_E5M2", RLX_NO_TYPE, 8},
    {"F8_E8M0", RLX_NO_TYPE, 8}, {"F4", RLX_NO_TYPE, 4}, {"F6_E2M3", RLX_NO_TYPE, 6},
    {"F6_E3M2", RLX_NO_TYPE, 6},
};

const char *rx_safetensors_type_name(rlx_dtype t)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (t != RLX_NO_TYPE && types[i].dtype == t)
            return types[i].name;
    return NULL;
}

typedef struct entry {
    rlx_file_tensor t;
    uint64_t begin, end; /* in the data */
} entry;

typedef struct reader {
    rlx_file *file;
    const rx_part *part;
    uint64_t data, data_bytes; /* after the header */
    const rx_map *owners; /* of an index: tensor name to file number; else NULL */
    uint32_t number;      /* of this file */
    rlx_error *err;
} reader;

/* ---- A tensor -------------------------------------------------------------------------------- */

static rlx_status fail_entry(const reader *r, const entry *e, const char *member,
                             const char *expected, const rx_json *found)
{
    bool show = found && (found->kind == RX_JSON_NUMBER || found->kind == RX_JSON_STRING);
    return rx_fail(r->err, RLX_PARSE, "'%s': tensor '%.80s': %s: expected %s, found %s%s%.40s",
                   r->part->path, e->t.name, member, expected, rx_json_kind_name(found),
                   show ? " " : "", show ? found->text : "");
}

/* Reads "shape"; *n is the number of elements. */
static rlx_status read_shape(const reader *r, const rx_json *shape, entry *e, uint64_t *n)
{
    bool empty = false, fits = true;
    *n = 1;
    if (!shape || shape->kind != RX_JSON_ARRAY)
        return fail_entry(r, e, "shape", "an array", shape);
    if (shape->n > RLX_MAX_RANK)
        return rx_fail(r->err, RLX_PARSE, "'%s': tensor '%.80s' has %zu dimensions; expected at "
                       "most %d", r->part->path, e->t.name, shape->n, RLX_MAX_RANK);
    for (const rx_json *d = shape->first; d; d = d->next) {
        uint64_t dim;
        if (!rx_json_u64(d, &dim) || dim > INT64_MAX)
            return fail_entry(r, e, "shape", "integers from 0 to 2^63 - 1", d);
        e->t.shape.dim[e->t.shape.rank++] = (rlx_dim)dim;
        empty = empty || dim == 0;
        fits = fits && (dim == 0 || rx_mul_size(*n, dim, n));
    }
    if (!fits || *n > INT64_MAX)
        return rx_fail(r->err, RLX_PARSE, "'%s': tensor '%.80s' has too many elements; expected "
                       "less than 2^63", r->part->path, e->t.name);
    if (empty)
        *n = 0;
    return RLX_OK;
}

static rlx_status read_offsets(const reader *r, const rx_json *offsets, entry *e)
{
    if (!offsets || offsets->kind != RX_JSON_ARRAY || offsets->n != 2)
        return fail_entry(r, e, "data_offsets", "an array of two integers", offsets);
    const rx_json *begin = offsets->first, *end = begin->next;
    if (!rx_json_u64(begin, &e->begin) || !rx_json_u64(end, &e->end))
        return fail_entry(r, e, "data_offsets", "two integers from 0 to 2^64 - 1",
                          rx_json_u64(begin, &e->begin) ? end : begin);
    if (e->begin > e->end || e->end > r->data_bytes)
        return rx_fail(r->err, RLX_PARSE, "'%s': tensor '%.80s' lies from %llu to %llu; expected "
                       "both in order and within the %llu bytes of data", r->part->path, e->t.name,
                       (unsigned long long)e->begin, (unsigned long long)e->end,
                       (unsigned long long)r->data_bytes);
    if (e->end - e->begin > SIZE_MAX / 2)
        return rx_fail(r->err, RLX_UNSUPPORTED, "'%s': tensor '%.80s' has %llu bytes: too large "
                       "for this process", r->part->path, e->t.name,
                       (unsigned long long)(e->end - e->begin));
    e->t.bytes = (size_t)(e->end - e->begin);
    return RLX_OK;
}

/* Sets the type and checks the byte count against n elements, if rlx knows the type. */
static rlx_status read_type(const reader *r, const rx_json *dtype, uint64_t n, entry *e)
{
    if (!dtype || dtype->kind != RX_JSON_STRING)
        return fail_entry(r, e, "dtype", "a string", dtype);
    rx_bytes text = {dtype->text, dtype->length};
    RLX_TRY(rx_part_name(r->file, r->part, "a dtype", text, &e->t.type_name, r->err));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint64_t bits;
        if (strcmp(e->t.type_name, types[i].name))
            continue;
        e->t.dtype = types[i].dtype;
        if (e->t.dtype != RLX_NO_TYPE)
            e->t.type_name = rlx_dtype_name(e->t.dtype);
        if (!rx_mul_size(n, types[i].bits, &bits) || bits % 8 || bits / 8 != e->t.bytes)
            return rx_fail(r->err, RLX_PARSE, "'%s': tensor '%.80s' has %llu elements of %s in %zu "
                           "bytes; expected %llu bits each", r->part->path, e->t.name,
                           (unsigned long long)n, types[i].name, e->t.bytes,
                           (unsigned long long)types[i].bits);
    }
    return RLX_OK;
}

static rlx_status read_entry(const reader *r, const rx_json *v, entry *e)
{
    uint64_t n;
    rx_bytes name = {v->key, v->key_length};
    RLX_TRY(rx_part_name(r->file, r->part, "the name of a tensor", name, &e->t.name, r->err));
    if (v->kind != RX_JSON_OBJECT)
        return fail_entry(r, e, "its value", "an object", v);
    RLX_TRY(read_shape(r, rx_json_member(v, "shape"), e, &n));
    RLX_TRY(read_offsets(r, rx_json_member(v, "data_offsets"), e));
    return read_type(r, rx_json_member(v, "dtype"), n, e);
}

/* ---- A file ---------------------------------------------------------------------------------- */

static int compare_places(const void *pa, const void *pb)
{
    const entry *a = *(const entry *const *)pa, *b = *(const entry *const *)pb;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* The tensors must cover the data without gaps and overlaps. `sorted` is by offset. */
static rlx_status check_places(const reader *r, entry *const *sorted, size_t n)
{
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (sorted[i]->begin != end)
            return rx_fail(r->err, RLX_PARSE, "'%s': tensor '%.80s' begins at %llu, which leaves "
                           "%s; expected %llu, where the one before ends", r->part->path,
                           sorted[i]->t.name, (unsigned long long)sorted[i]->begin,
                           sorted[i]->begin < end ? "an overlap" : "a hole",
                           (unsigned long long)end);
        end = sorted[i]->end;
    }
    if (end != r->data_bytes)
        return rx_fail(r->err, RLX_PARSE, "'%s' has %llu bytes of data; expected %llu, where the "
                       "last tensor ends", r->part->path, (unsigned long long)r->data_bytes,
                       (unsigned long long)end);
    return RLX_OK;
}

/* Whether an index assigns the tensor to this file; always true without one. */
static bool is_wanted(const reader *r, const char *name)
{
    if (!r->owners)
        return true;
    const rx_map_slot *owner = rx_map_find(r->owners, name, strlen(name));
    return owner && owner->value == r->number;
}

static rlx_status add_tensors(const reader *r, const entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_wanted(r, entries[i].t.name))
            RLX_TRY(rx_file_add_tensor(r->file, r->part, &entries[i].t,
                                       r->data + entries[i].begin, r->err));
    return RLX_OK;
}

static rlx_status read_tensors(const reader *r, const rx_json *header)
{
    size_t n = 0;
    const rx_json *meta = rx_json_member(header, "__metadata__");
    entry *entries = rx_alloc_array_zero(header->n, sizeof *entries);
    entry **sorted = rx_alloc_array(header->n, sizeof *sorted);
    rlx_status st = RLX_OK;
    if (!entries || !sorted)
        st = rx_fail_memory(r->err, "the list of tensors", header->n * sizeof *entries);
    for (const rx_json *v = header->first; v && st == RLX_OK; v = v->next)
        if (v != meta) {
            sorted[n] = &entries[n];
            st = read_entry(r, v, &entries[n++]);
        }
    if (st == RLX_OK) {
        qsort(sorted, n, sizeof *sorted, compare_places);
        st = check_places(r, sorted, n);
    }
    if (st == RLX_OK)
        st = add_tensors(r, entries, n);
    rx_free(sorted);
    rx_free(entries);
    return st;
}

/* Strings, integers and truth values of an object become metadata; `strict`: only strings are
 * allowed. */
static rlx_status read_meta(rlx_file *f, const rx_part *part, const rx_json *object, bool strict,
                            rlx_error *err)
{
    if (object && object->kind != RX_JSON_OBJECT)
        return rx_fail(err, RLX_PARSE, "'%s': the metadata: expected an object, found %s",
                       part->path, rx_json_kind_name(object));
    for (const rx_json *v = object ? object->first : NULL; v; v = v->next) {
        rx_meta m = {.n = 1};
        uint64_t number = v->truth;
        rx_bytes key = {v->key, v->key_length}, text = {v->text, v->length};
        RLX_TRY(rx_part_name(f, part, "a key of the metadata", key, &m.key, err));
        if (strict && v->kind != RX_JSON_STRING)
            return rx_fail(err, RLX_PARSE, "'%s': metadata '%.80s': expected a string, found %s",
                           part->path, m.key, rx_json_kind_name(v));
        if (v->kind != RX_JSON_STRING && v->kind != RX_JSON_BOOL && !rx_json_u64(v, &number))
            continue;
        m.code = v->kind == RX_JSON_STRING ? RX_META_STRING
                 : v->kind == RX_JSON_BOOL ? RX_META_BOOL : RX_META_U64;
        unsigned char bytes[8];
        for (int i = 0; i < 8; i++)
            bytes[i] = (unsigned char)(number >> 8 * i);
        m.strings = rx_arena_copy(&f->arena, &text, sizeof text);
        m.numbers = rx_arena_copy(&f->arena, bytes, sizeof bytes);
        if (!m.strings || !m.numbers)
            return rx_fail_memory(err, "metadata", sizeof text);
        RLX_TRY(rx_file_add_meta(f, &m, err));
    }
    return RLX_OK;
}

static rlx_status read_file(reader *r)
{
    const rx_part *part = r->part;
    uint64_t length = 0;
    if (part->bytes < 8)
        return rx_fail(r->err, RLX_PARSE, "'%s' ends inside the length of the header: expected 8 "
                       "bytes, found %llu", part->path, (unsigned long long)part->bytes);
    const unsigned char *text = rx_part_bytes(r->file, part, 0, 8, r->err);
    if (!text)
        return RLX_IO;
    for (int i = 8; i--;)
        length = length << 8 | text[i];
    if (length > MAX_HEADER || length > part->bytes - 8)
        return rx_fail(r->err, RLX_PARSE, "'%s': the header has %llu bytes; expected at most %llu",
                       part->path, (unsigned long long)length, (unsigned long long)
                       (part->bytes - 8 < MAX_HEADER ? part->bytes - 8 : MAX_HEADER));
    if (!(text = rx_part_bytes(r->file, part, 8, length, r->err)))
        return RLX_IO;
    if (length && text[0] != '{')
        return rx_fail(r->err, RLX_PARSE, "'%s': the header begins with byte 0x%02x; expected '{'",
                       part->path, text[0]);
    r->data = 8 + length;
    r->data_bytes = part->bytes - 8 - length;
    const rx_json *header;
    RLX_TRY(rx_json_parse(&r->file->arena, part->path, text, (size_t)length, &header,
                          r->err));
    RLX_TRY(read_tensors(r, header));
    return read_meta(r->file, part, rx_json_member(header, "__metadata__"), true, r->err);
}

rlx_status rx_safetensors_read(rlx_file *f, const rx_part *part, rlx_error *err)
{
    reader r = {.file = f, .part = part, .err = err};
    return read_file(&r);
}

/* ---- An index and its files ------------------------------------------------------------------ */

/* Files of an index must be plain names, so that they stay in its folder. */
static bool is_plain_name(const rx_json *v)
{
    static const char end[] = ".safetensors";
    size_t n = sizeof end - 1;
    return v->kind == RX_JSON_STRING && v->length > n && strlen(v->text) == v->length &&
           !strcmp(v->text + v->length - n, end) && !strpbrk(v->text, "/\\:") &&
           v->text[0] != '.' && v->length <= RX_MAX_NAME;
}

static rlx_status read_shard(rlx_file *f, const rx_part *index, const rx_map *owners,
                             uint32_t number, const char *name, rlx_error *err)
{
    const size_t folder = rx_folder_length(index->path);
    size_t room = folder + strlen(name) + 1;
    char *path = rx_arena_alloc(&f->arena, room);
    if (!path)
        return rx_fail_memory(err, name, room);
    snprintf(path, room, "%.*s%s", (int)folder, index->path, name);
    rx_part part;
    RLX_TRY(rx_part_open(f, path, &part, err));
    reader r = {.file = f, .part = &part, .owners = owners, .number = number, .err = err};
    return read_file(&r);
}

/* Numbers the files of the index and maps each tensor to its file. */
static rlx_status number_files(const rx_part *index, const rx_json *weight_map, rx_map *files,
                               rx_map *owners, rlx_error *err)
{
    for (const rx_json *w = weight_map->first; w; w = w->next)
        if (!is_plain_name(w))
            return rx_fail(err, RLX_PARSE, "'%s': weight_map: '%.80s': expected the plain name of "
                           "a .safetensors file, found %s %.80s", index->path, w->key,
                           rx_json_kind_name(w), w->kind == RX_JSON_STRING ? w->text : "");
    for (const rx_json *w = weight_map->first; w; w = w->next) {
        const rx_map_slot *file = rx_map_find(files, w->text, w->length);
        const uint32_t number = file ? file->value : (uint32_t)files->n;
        if ((!file && !rx_map_add(files, w->text, w->length, number)) ||
            !rx_map_add(owners, w->key, w->key_length, number))
            return rx_fail_memory(err, "the names of an index", sizeof(rx_map_slot));
    }
    return RLX_OK;
}

static rlx_status read_shards(rlx_file *f, const rx_part *index, const rx_json *weight_map,
                              const rx_map *files, const rx_map *owners, rlx_error *err)
{
    uint32_t next = 0; /* files are numbered in the order of the index */
    for (const rx_json *w = weight_map->first; w; w = w->next)
        if (rx_map_find(files, w->text, w->length)->value == next)
            RLX_TRY(read_shard(f, index, owners, next++, w->text, err));
    for (const rx_json *w = weight_map->first; w; w = w->next)
        if (!rx_map_find(&f->tensor_names, w->key, w->key_length))
            return rx_fail(err, RLX_PARSE, "'%s': weight_map: expected tensor '%.80s' in '%.80s', "
                           "found none there", index->path, w->key, w->text);
    return RLX_OK;
}

rlx_status rx_safetensors_read_index(rlx_file *f, const rx_part *index, rlx_error *err)
{
    const rx_json *root;
    const unsigned char *text = rx_part_bytes(f, index, 0, index->bytes, err);
    if (!text)
        return RLX_IO;
    RLX_TRY(rx_json_parse(&f->arena, index->path, text, (size_t)index->bytes, &root, err));
    const rx_json *weight_map = rx_json_member(root, "weight_map");
    if (!weight_map || weight_map->kind != RX_JSON_OBJECT)
        return rx_fail(err, RLX_PARSE, "'%s': weight_map: expected an object, found %s",
                       index->path, rx_json_kind_name(weight_map));
    rx_map files = {0}, owners = {0};
    rlx_status st = number_files(index, weight_map, &files, &owners, err);
    if (st == RLX_OK)
        st = read_shards(f, index, weight_map, &files, &owners, err);
    rx_map_finish(&files);
    rx_map_finish(&owners);
    if (st == RLX_OK)
        st = read_meta(f, index, rx_json_member(root, "metadata"), false, err);
    return st;
}
