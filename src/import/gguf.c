/* SPDX-License-Identifier: MIT */
/* GGUF: "GGUF", version, counts, metadata, tensor infos, then the data of the tensors, each at a
 * multiple of general.alignment from the start of the data. Counts, lengths and dimensions have 32
 * bits in version 1 and 64 in versions 2 and 3. Dimensions are stored innermost first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "import/file.h"

#define DEFAULT_ALIGNMENT 32

typedef struct tensor_info {
    rlx_file_tensor t;
    uint64_t offset; /* from the start of the data */
    uint64_t bytes;  /* UNKNOWN_BYTES when the type is unknown */
} tensor_info;
#define UNKNOWN_BYTES UINT64_MAX

typedef struct reader {
    rlx_file *file;
    const rx_part *part;
    uint64_t at;
    uint32_t version;
    uint64_t n_tensors, n_meta, alignment;
    rx_meta *meta;
    size_t meta_cap;
    rx_map keys; /* of this part: value is the index in meta */
    tensor_info *infos;
    rlx_error *err;
} reader;

/* ---- Primitives ------------------------------------------------------------------------------ */

/* The next n bytes; NULL, with the error set, when the file ends before. */
static const unsigned char *take(reader *r, uint64_t n, const char *what)
{
    const uint64_t left = r->part->bytes - r->at;
    if (n > left) {
        rx_fail(r->err, RLX_PARSE, "'%s' ends inside %s: expected %llu bytes at offset %llu, found "
                "%llu", r->part->path, what, (unsigned long long)n, (unsigned long long)r->at,
                (unsigned long long)left);
        return NULL;
    }
    const unsigned char *p = rx_part_bytes(r->file, r->part, r->at, n, r->err);
    r->at += n;
    return p;
}

static uint64_t read_little(const unsigned char *p, int width)
{
    uint64_t v = 0;
    while (width--)
        v = v << 8 | p[width];
    return v;
}

static rlx_status take_u32(reader *r, const char *what, uint32_t *out)
{
    const unsigned char *p = take(r, 4, what);
    if (!p)
        return RLX_PARSE;
    *out = (uint32_t)read_little(p, 4);
    return RLX_OK;
}

/* Bytes of a count, a length or a dimension. */
static int count_width(const reader *r)
{
    return r->version == 1 ? 4 : 8;
}

static rlx_status take_count(reader *r, const char *what, uint64_t *out)
{
    const unsigned char *p = take(r, (uint64_t)count_width(r), what);
    if (!p)
        return RLX_PARSE;
    *out = read_little(p, count_width(r));
    return RLX_OK;
}

static rlx_status take_string(reader *r, const char *what, rx_bytes *out)
{
    uint64_t n;
    RLX_TRY(take_count(r, what, &n));
    out->data = take(r, n, what);
    out->bytes = (size_t)n;
    return out->data ? RLX_OK : RLX_PARSE;
}

/* Rejects counts that cannot be true: n objects of at least `least` bytes must fit in the rest of
 * the file. */
static rlx_status check_count(const reader *r, uint64_t n, uint64_t least, const char *what)
{
    const uint64_t left = r->part->bytes - r->at;
    if (n > left / least)
        return rx_fail(r->err, RLX_PARSE, "'%s': %s: %llu is too many: the %llu bytes that are "
                       "left hold at most %llu", r->part->path, what, (unsigned long long)n,
                       (unsigned long long)left, (unsigned long long)(left / least));
    return RLX_OK;
}

/* Least bytes of a metadata entry (length and one byte of name, type, value) and of a tensor info
 * (name, rank, type, offset). */
static uint64_t least_meta(const reader *r)
{
    return (uint64_t)count_width(r) + 1 + 4 + 1;
}

static uint64_t least_tensor(const reader *r)
{
    return (uint64_t)count_width(r) + 1 + 4 + 4 + 8;
}

static rlx_status read_header(reader *r)
{
    const unsigned char *magic = take(r, 4, "the magic");
    if (!magic)
        return RLX_PARSE;
    RLX_TRY(take_u32(r, "the version", &r->version));
    if (r->version & 0xffff0000u && !(r->version & 0xffffu))
        return rx_fail(r->err, RLX_UNSUPPORTED, "'%s' is a big-endian GGUF file; expected "
                       "little-endian", r->part->path);
    if (r->version < 1 || r->version > 3)
        return rx_fail(r->err, RLX_UNSUPPORTED, "'%s' is GGUF version %u; expected 1, 2 or 3",
                       r->part->path, r->version);
    RLX_TRY(take_count(r, "the number of tensors", &r->n_tensors));
    RLX_TRY(take_count(r, "the number of metadata entries", &r->n_meta));
    RLX_TRY(check_count(r, r->n_meta, least_meta(r), "the number of metadata entries"));
    return check_count(r, r->n_tensors, least_tensor(r), "the number of tensors");
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static rlx_status take_strings(reader *r, rx_meta *m, const char *what)
{
    RLX_TRY(check_count(r, m->n, (uint64_t)count_width(r), what));
    rx_bytes *s = rx_arena_array(&r->file->arena, m->n, sizeof *s);
    if (!s)
        return rx_fail_memory(r->err, what, rx_array_bytes(m->n, sizeof *s));
    for (size_t i = 0; i < m->n; i++)
        RLX_TRY(take_string(r, what, &s[i]));
    m->strings = s;
    return RLX_OK;
}

static rlx_status take_numbers(reader *r, rx_meta *m, const char *what)
{
    uint64_t width = (uint64_t)rx_meta_width(m->code);
    RLX_TRY(check_count(r, m->n, width, what));
    m->numbers = take(r, m->n * width, what);
    if (!m->numbers)
        return RLX_PARSE;
    for (size_t i = 0; m->code == RX_META_BOOL && i < m->n; i++)
        if (m->numbers[i] > 1)
            return rx_fail(r->err, RLX_PARSE, "'%s': %s: value %zu is %d; expected 0 or 1 for a "
                           "bool", r->part->path, what, i, m->numbers[i]);
    return RLX_OK;
}

/* The type of a value, or of the elements of an array and their count. */
static rlx_status take_value_type(reader *r, rx_meta *m, const char *what)
{
    uint32_t code;
    uint64_t n = 1;
    RLX_TRY(take_u32(r, what, &code));
    m->is_array = code == RX_META_ARRAY;
    if (m->is_array) {
        RLX_TRY(take_u32(r, what, &code));
        RLX_TRY(take_count(r, what, &n));
        if (code == RX_META_ARRAY)
            return rx_fail(r->err, RLX_UNSUPPORTED, "'%s': %s is an array of arrays; expected an "
                           "array of numbers, bools or strings", r->part->path, what);
    }
    if (code >= RX_N_META_CODES)
        return rx_fail(r->err, RLX_PARSE, "'%s': %s has %s of type %u; expected 0 to %d",
                       r->part->path, what, m->is_array ? "elements" : "a value", code,
                       RX_N_META_CODES - 1);
    m->code = (rx_meta_code)code;
    RLX_TRY(check_count(r, n, 1, what));
    m->n = (size_t)n;
    return RLX_OK;
}

static rlx_status read_meta(reader *r, size_t i)
{
    char what[RX_MAX_NAME + 16];
    rx_bytes key;
    rx_meta m = {0};
    snprintf(what, sizeof what, "the key of metadata entry %zu", i);
    RLX_TRY(take_string(r, what, &key));
    RLX_TRY(rx_part_name(r->file, r->part, what, key, &m.key, r->err));
    snprintf(what, sizeof what, "metadata '%.80s'", m.key);
    if (rx_map_find(&r->keys, m.key, key.bytes))
        return rx_fail(r->err, RLX_PARSE, "'%s': %s is there twice; expected each key once",
                       r->part->path, what);
    RLX_TRY(take_value_type(r, &m, what));
    if (m.code == RX_META_STRING)
        RLX_TRY(take_strings(r, &m, what));
    else
        RLX_TRY(take_numbers(r, &m, what));
    if (!rx_grow(&r->meta, &r->meta_cap, i + 1, sizeof m) ||
        !rx_map_add(&r->keys, m.key, key.bytes, (uint32_t)i))
        return rx_fail_memory(r->err, what, sizeof m);
    r->meta[i] = m;
    return RLX_OK;
}

/* An integer of this part's metadata, or `missing`. */
static rlx_status meta_number(const reader *r, const char *key, uint64_t missing, uint64_t *out)
{
    const rx_map_slot *slot = rx_map_find(&r->keys, key, strlen(key));
    *out = missing;
    if (!slot)
        return RLX_OK;
    const rx_meta *m = &r->meta[slot->value];
    bool is_number = m->code != RX_META_STRING && m->code != RX_META_BOOL &&
                     m->code != RX_META_F32 && m->code != RX_META_F64;
    if (m->is_array || !is_number)
        return rx_fail(r->err, RLX_PARSE, "'%s': metadata '%s' is %s; expected an integer",
                       r->part->path, key, m->is_array ? "an array" : "no integer");
    *out = read_little(m->numbers, rx_meta_width(m->code));
    return RLX_OK;
}

static rlx_status read_all_meta(reader *r)
{
    for (uint64_t i = 0; i < r->n_meta; i++)
        RLX_TRY(read_meta(r, (size_t)i));
    RLX_TRY(meta_number(r, "general.alignment", DEFAULT_ALIGNMENT, &r->alignment));
    if (r->alignment < 8 || r->alignment > UINT32_MAX || r->alignment & (r->alignment - 1))
        return rx_fail(r->err, RLX_PARSE, "'%s': general.alignment is %llu; expected a power of "
                       "two of at least 8", r->part->path, (unsigned long long)r->alignment);
    return RLX_OK;
}

/* ---- Tensor infos ---------------------------------------------------------------------------- */

static rlx_status take_shape(reader *r, const char *what, rlx_shape *shape, uint64_t *n)
{
    uint32_t rank;
    RLX_TRY(take_u32(r, what, &rank));
    if (rank > RLX_MAX_RANK)
        return rx_fail(r->err, RLX_PARSE, "'%s': %s has %u dimensions; expected at most %d",
                       r->part->path, what, rank, RLX_MAX_RANK);
    shape->rank = (int32_t)rank;
    bool empty = false, fits = true;
    *n = 1;
    for (uint32_t i = rank; i--;) {
        uint64_t dim;
        RLX_TRY(take_count(r, what, &dim));
        if (dim > INT64_MAX)
            return rx_fail(r->err, RLX_PARSE, "'%s': %s has a dimension of %llu; expected less "
                           "than 2^63", r->part->path, what, (unsigned long long)dim);
        shape->dim[i] = (rlx_dim)dim;
        empty = empty || dim == 0;
        fits = fits && (dim == 0 || rx_mul_size(*n, dim, n));
    }
    if (!fits || *n > INT64_MAX)
        return rx_fail(r->err, RLX_PARSE, "'%s': %s has too many elements; expected less than 2^63",
                       r->part->path, what);
    if (empty)
        *n = 0;
    return RLX_OK;
}

/* Sets type and bytes from the number of the type and n elements. */
static rlx_status set_type(reader *r, const char *what, uint32_t number, uint64_t n,
                           tensor_info *info)
{
    rlx_file_tensor *t = &info->t;
    t->dtype = rx_dtype_from_gguf(number);
    if (t->dtype != RLX_NO_TYPE) {
        int64_t block = rx_dtype_info(t->dtype)->block_size;
        int64_t row = t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1;
        t->type_name = rlx_dtype_name(t->dtype);
        if (row % block)
            return rx_fail(r->err, RLX_PARSE, "'%s': %s of type %s has rows of %lld elements; "
                           "expected a multiple of %lld", r->part->path, what, t->type_name,
                           (long long)row, (long long)block);
        if (!rx_dtype_bytes(t->dtype, (int64_t)n, &info->bytes))
            return rx_fail(r->err, RLX_PARSE, "'%s': %s has too many bytes; expected less than "
                           "2^63", r->part->path, what);
        return RLX_OK;
    }
    char name[24];
    snprintf(name, sizeof name, "type %u", number);
    t->type_name = rx_arena_strdup(&r->file->arena, name);
    info->bytes = UNKNOWN_BYTES;
    return t->type_name ? RLX_OK : rx_fail_memory(r->err, what, sizeof name);
}

static rlx_status read_info(reader *r, size_t i)
{
    char what[RX_MAX_NAME + 16];
    rx_bytes name;
    tensor_info *info = &r->infos[i];
    uint64_t n = 0;
    uint32_t type;
    snprintf(what, sizeof what, "the name of tensor %zu", i);
    RLX_TRY(take_string(r, what, &name));
    RLX_TRY(rx_part_name(r->file, r->part, what, name, &info->t.name, r->err));
    snprintf(what, sizeof what, "tensor '%.80s'", info->t.name);
    RLX_TRY(take_shape(r, what, &info->t.shape, &n));
    RLX_TRY(take_u32(r, what, &type));
    RLX_TRY(set_type(r, what, type, n, info));
    const unsigned char *p = take(r, 8, what);
    if (!p)
        return RLX_PARSE;
    info->offset = read_little(p, 8);
    if (info->offset % r->alignment)
        return rx_fail(r->err, RLX_PARSE, "'%s': %s begins at offset %llu; expected a multiple of "
                       "%llu", r->part->path, what, (unsigned long long)info->offset,
                       (unsigned long long)r->alignment);
    return RLX_OK;
}

/* ---- Data ------------------------------------------------------------------------------------ */

static int compare_places(const void *pa, const void *pb)
{
    const tensor_info *a = *(const tensor_info *const *)pa, *b = *(const tensor_info *const *)pb;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* `sorted` is by offset; `end` is the size of the data. Sets the sizes that are unknown. */
static rlx_status check_places(reader *r, tensor_info **sorted, size_t n, uint64_t end)
{
    const tensor_info *before = NULL; /* the last non-empty tensor */
    for (size_t i = 0; i < n; i++) {
        tensor_info *a = sorted[i];
        if (a->offset > end || (a->bytes != UNKNOWN_BYTES && a->bytes > end - a->offset))
            return rx_fail(r->err, RLX_PARSE, "'%s': tensor '%.80s' has %llu bytes at offset %llu, "
                           "past the end; expected all within the %llu bytes of data",
                           r->part->path, a->t.name, (unsigned long long)a->bytes,
                           (unsigned long long)a->offset, (unsigned long long)end);
        if (a->bytes == UNKNOWN_BYTES) {
            bool is_last = i + 1 == n || sorted[i + 1]->offset > end;
            a->bytes = (is_last ? end : sorted[i + 1]->offset) - a->offset;
        }
        if (before && a->bytes && a->offset < before->offset + before->bytes)
            return rx_fail(r->err, RLX_PARSE, "'%s': tensors '%.80s' and '%.80s' overlap: the "
                           "first ends at %llu, the second begins at %llu", r->part->path,
                           before->t.name, a->t.name,
                           (unsigned long long)(before->offset + before->bytes),
                           (unsigned long long)a->offset);
        if (a->bytes)
            before = a;
    }
    return RLX_OK;
}

static rlx_status add_tensor(reader *r, tensor_info *info, uint64_t start)
{
    if (info->bytes > SIZE_MAX / 2)
        return rx_fail(r->err, RLX_UNSUPPORTED, "'%s': tensor '%.80s' has %llu bytes: too large "
                       "for this process", r->part->path, info->t.name,
                       (unsigned long long)info->bytes);
    info->t.bytes = (size_t)info->bytes;
    return rx_file_add_tensor(r->file, r->part, &info->t, start + info->offset, r->err);
}

static rlx_status place_tensors(reader *r)
{
    size_t n = (size_t)r->n_tensors;
    uint64_t start = (r->at + (r->alignment - 1)) & ~(r->alignment - 1);
    if (n == 0)
        return RLX_OK;
    if (start > r->part->bytes) /* only empty tensors can lie there */
        start = r->part->bytes;
    tensor_info **sorted = rx_alloc_array(n, sizeof *sorted);
    if (!sorted)
        return rx_fail_memory(r->err, "the order of the tensors", n * sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &r->infos[i];
    qsort(sorted, n, sizeof *sorted, compare_places);
    rlx_status st = check_places(r, sorted, n, r->part->bytes - start);
    rx_free(sorted);
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        st = add_tensor(r, &r->infos[i], start);
    return st;
}

/* ---- Parts of a split file ------------------------------------------------------------------- */

typedef struct split {
    unsigned no, count; /* from 1; count is 1 for a whole file */
    size_t stem;        /* bytes of the path before "-00001-of-" */
} split;

/* "STEM-NNNNN-of-NNNNN.gguf"; any other path is a file that is not split. */
static split split_of_path(const char *path)
{
    static const char form[] = "-ddddd-of-ddddd.gguf";
    size_t n = strlen(path), m = sizeof form - 1;
    split s = {1, 1, n};
    if (n < m)
        return s;
    const char *end = path + n - m;
    unsigned number[2] = {0, 0};
    for (size_t i = 0; i < m; i++) {
        bool is_digit = end[i] >= '0' && end[i] <= '9';
        if (form[i] == 'd' && is_digit)
            number[i > 6] = number[i > 6] * 10 + (unsigned)(end[i] - '0');
        else if (form[i] != end[i] || form[i] == 'd')
            return s;
    }
    return (split){number[0], number[1], n - m};
}

static rlx_status check_split(const reader *r, split want)
{
    uint64_t no, count;
    RLX_TRY(meta_number(r, "split.no", 0, &no));
    RLX_TRY(meta_number(r, "split.count", 1, &count));
    if (count == 0)
        count = 1; /* early tools write 0 for an unsplit file */
    if (count != want.count)
        return rx_fail(r->err, RLX_PARSE, "'%s': split.count is %llu; expected %u%s", r->part->path,
                       (unsigned long long)count, want.count,
                       want.count == 1 ? " in a file that is not named NAME-00001-of-0000N.gguf"
                                       : ", as its name says");
    if (no != want.no - 1)
        return rx_fail(r->err, RLX_PARSE, "'%s': split.no is %llu; expected %u, as its name says",
                       r->part->path, (unsigned long long)no, want.no - 1);
    return RLX_OK;
}

/* Reads one part; *total is split.tensors.count or, where that is missing, UINT64_MAX. */
static rlx_status read_part(rlx_file *f, const rx_part *part, split want, uint64_t *total,
                            rlx_error *err)
{
    reader r = {.file = f, .part = part, .err = err};
    rlx_status st = read_header(&r);
    if (st == RLX_OK)
        st = read_all_meta(&r);
    if (st == RLX_OK)
        st = check_split(&r, want);
    if (st == RLX_OK)
        st = meta_number(&r, "split.tensors.count", UINT64_MAX, total);
    if (st == RLX_OK)
        st = check_count(&r, r.n_tensors, least_tensor(&r), "the number of tensors");
    if (st == RLX_OK && !(r.infos = rx_alloc_array_zero(r.n_tensors, sizeof *r.infos)))
        st = rx_fail_memory(err, "the tensor infos", rx_array_bytes(r.n_tensors, sizeof *r.infos));
    for (uint64_t i = 0; i < r.n_tensors && st == RLX_OK; i++)
        st = read_info(&r, (size_t)i);
    if (st == RLX_OK)
        st = place_tensors(&r);
    for (uint64_t i = 0; i < r.n_meta && st == RLX_OK; i++)
        st = rx_file_add_meta(f, &r.meta[i], err);
    rx_free(r.infos);
    rx_free(r.meta);
    rx_map_finish(&r.keys);
    return st;
}

/* Opens part `s.no` of the file that `first` is a part of. */
static rlx_status open_part(rlx_file *f, const rx_part *first, split s, rx_part *part,
                            rlx_error *err)
{
    size_t room = strlen(first->path) + 1;
    char *path = rx_arena_alloc(&f->arena, room);
    if (!path)
        return rx_fail_memory(err, first->path, room);
    snprintf(path, room, "%.*s-%05u-of-%05u.gguf", (int)s.stem, first->path, s.no, s.count);
    RLX_TRY(rx_part_open(f, path, part, err));
    const unsigned char *magic = part->bytes < 4 ? NULL : rx_part_bytes(f, part, 0, 4, err);
    if (part->bytes >= 4 && !magic)
        return RLX_IO;
    if (!magic || memcmp(magic, "GGUF", 4))
        return rx_fail(err, RLX_PARSE, "'%s' is no GGUF file: expected \"GGUF\" at its start, as "
                       "in the other parts", path);
    return RLX_OK;
}

rlx_status rx_gguf_read(rlx_file *f, const rx_part *part, rlx_error *err)
{
    split given = split_of_path(part->path);
    uint64_t total = UINT64_MAX, ignored;
    if (given.no == 0 || given.no > given.count)
        return rx_fail(err, RLX_INVALID, "'%s' is named as part %u of %u; expected a part from 1 "
                       "to %u", part->path, given.no, given.count, given.count);
    for (unsigned no = 1; no <= given.count; no++) {
        split s = {no, given.count, given.stem};
        rx_part other = *part;
        if (no != given.no)
            RLX_TRY(open_part(f, part, s, &other, err));
        RLX_TRY(read_part(f, &other, s, no == 1 ? &total : &ignored, err));
    }
    if (total != UINT64_MAX && total != f->n_tensors)
        return rx_fail(err, RLX_PARSE, "'%s': split.tensors.count is %llu, but there are %zu "
                       "tensors in %u parts", part->path, (unsigned long long)total, f->n_tensors,
                       given.count);
    return RLX_OK;
}
