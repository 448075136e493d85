/* SPDX-License-Identifier: MIT */
/* Tensors of ONNX files: element types, raw and typed data, external files. */
#include "import/onnx.h"

#include <stdio.h>
#include <string.h>

#include "base/little.h"
#include "base/posix.h"

/* Fields of TensorProto. */
enum {
    T_DIMS = 1, T_TYPE = 2, T_FLOATS = 4, T_INT32S = 5, T_STRINGS = 6, T_INT64S = 7, T_NAME = 8,
    T_RAW = 9, T_DOUBLES = 10, T_UINT64S = 11, T_EXTERNAL = 13, T_LOCATION = 14
};

/* The one place that maps element types of ONNX to those of rlx. Narrow types are held one element
 * a byte: integers as i8 or u8, floats as their codes in u8. */
static const rx_onnx_type types[] = {
    {1, "float", RLX_F32, T_FLOATS, 0},
    {2, "uint8", RLX_U8, T_INT32S, 0},
    {3, "int8", RLX_I8, T_INT32S, 0},
    {4, "uint16", RLX_U16, T_INT32S, 0},
    {5, "int16", RLX_I16, T_INT32S, 0},
    {6, "int32", RLX_I32, T_INT32S, 0},
    {7, "int64", RLX_I64, T_INT64S, 0},
    {8, "string", RLX_NO_TYPE, T_STRINGS, 0},
    {9, "bool", RLX_BOOL, T_INT32S, 0},
    {10, "float16", RLX_F16, T_INT32S, 0},
    {11, "double", RLX_F64, T_DOUBLES, 0},
    {12, "uint32", RLX_U32, T_UINT64S, 0},
    {13, "uint64", RLX_U64, T_UINT64S, 0},
    {14, "complex64", RLX_NO_TYPE, T_FLOATS, 0},
    {15, "complex128", RLX_NO_TYPE, T_DOUBLES, 0},
    {16, "bfloat16", RLX_BF16, T_INT32S, 0},
    {17, "float8e4m3fn", RLX_U8, T_INT32S, 8},
    {18, "float8e4m3fnuz", RLX_U8, T_INT32S, 8},
    {19, "float8e5m2", RLX_U8, T_INT32S, 8},
    {20, "float8e5m2fnuz", RLX_U8, T_INT32S, 8},
    {21, "uint4", RLX_U8, T_INT32S, 4},
    {22, "int4", RLX_I8, T_INT32S, 4},
    {23, "float4e2m1", RLX_U8, T_INT32S, 4},
    {24, "float8e8m0", RLX_U8, T_INT32S, 8},
    {25, "uint2", RLX_U8, T_INT32S, 2},
    {26, "int2", RLX_I8, T_INT32S, 2},
};

const rx_onnx_type *rx_onnx_type_of(int64_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

const rx_onnx_type *rx_onnx_type_named(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

const rx_onnx_type *rx_onnx_type_like(rlx_dtype dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == dtype && !types[i].bits)
            return &types[i];
    return NULL;
}

/* ---- Structure ------------------------------------------------------------------------------- */

static rlx_status add_dim(const rlx_onnx *m, rx_onnx_tensor *t, uint64_t v, rlx_error *err)
{
    if (t->shape.rank == RLX_MAX_RANK)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': tensor '%.80s' has more than %d dimensions",
                       m->path, t->name, RLX_MAX_RANK);
    if (v > INT64_MAX)
        return rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s': dimension %d is %lld; expected 0 or "
                       "more", m->path, t->name, t->shape.rank, (long long)v);
    t->shape.dim[t->shape.rank++] = (rlx_dim)v;
    return RLX_OK;
}

static rlx_status read_dims(rlx_onnx *m, const rx_pb_field *f, rx_onnx_tensor *t, rlx_error *err)
{
    uint64_t v;
    if (f->wire == RX_PB_VARINT)
        return add_dim(m, t, f->value, err);
    rx_pb list = rx_pb_open(f->bytes);
    while (f->wire == RX_PB_BYTES && rx_pb_varint(&list, &v))
        RLX_TRY(add_dim(m, t, v, err));
    return list.at == list.end ? RLX_OK : rx_onnx_damaged(m, "the dimensions of a tensor", err);
}

static bool parse_number(rx_bytes text, uint64_t *v)
{
    const char *s = text.data;
    *v = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        if (s[i] < '0' || s[i] > '9' || !rx_mul_size(*v, 10, v) ||
            !rx_add_size(*v, (uint64_t)(s[i] - '0'), v))
            return false;
    }
    return text.bytes > 0;
}

/* One entry of external_data. */
static rlx_status read_external(rlx_onnx *m, rx_bytes message, rx_onnx_tensor *t, rlx_error *err)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    rx_bytes key = {"", 0}, value = {"", 0};
    int more;
    while ((more = rx_pb_next(&pb, &f)) > 0) {
        if (f.number == 1 && f.wire == RX_PB_BYTES)
            key = f.bytes;
        if (f.number == 2 && f.wire == RX_PB_BYTES)
            value = f.bytes;
    }
    if (more < 0)
        return rx_onnx_damaged(m, "the external data of a tensor", err);
    if (key.bytes == 8 && !memcmp(key.data, "location", 8))
        return rx_onnx_text(m, value, &t->location, err);
    bool ok = true;
    if (key.bytes == 6 && !memcmp(key.data, "offset", 6))
        ok = parse_number(value, &t->offset);
    if (key.bytes == 6 && !memcmp(key.data, "length", 6))
        ok = t->has_length = parse_number(value, &t->length);
    return ok ? RLX_OK : rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s': offset or length of its "
                                 "external data is no number", m->path, t->name);
}

static rlx_status read_field(rlx_onnx *m, const rx_pb_field *f, rx_onnx_tensor *t, rlx_error *err)
{
    switch (f->number) {
    case T_DIMS: return read_dims(m, f, t, err);
    case T_TYPE: t->type = f->value > INT32_MAX ? -1 : (int32_t)f->value; break;
    case T_NAME: return rx_onnx_text(m, f->bytes, &t->name, err);
    case T_RAW: t->raw = f->bytes; break;
    case T_EXTERNAL: return read_external(m, f->bytes, t, err);
    case T_FLOATS: case T_INT32S: case T_INT64S: case T_DOUBLES: case T_UINT64S: case T_STRINGS:
        t->loose = t->loose || t->list_field == f->number || f->wire != RX_PB_BYTES;
        t->list_field = f->number;
        t->list = f->bytes;
        break;
    default: break;
    }
    return RLX_OK;
}

rlx_status rx_onnx_tensor_read(rlx_onnx *m, rx_bytes message, rx_onnx_tensor *t, rlx_error *err)
{
    rx_pb pb = rx_pb_open(message);
    rx_pb_field f;
    int more;
    *t = (rx_onnx_tensor){.name = "", .message = message};
    while ((more = rx_pb_next(&pb, &f)) > 0)
        RLX_TRY(read_field(m, &f, t, err));
    if (more < 0)
        return rx_onnx_damaged(m, "a tensor", err);
    if (!rx_onnx_type_of(t->type))
        return rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s' has element type %d; expected 1 to 26",
                       m->path, t->name, t->type);
    return RLX_OK;
}

/* ---- External data --------------------------------------------------------------------------- */

/* True when the path is relative and has no component "..", which would leave the folder. */
static bool stays_inside(const char *name)
{
    if (!*name || *name == '/' || strpbrk(name, "\\:"))
        return false;
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (!strncmp(p, "..", 2) && (p[2] == '/' || !p[2]))
            return false;
    }
    return true;
}

static rlx_status map_external(rlx_onnx *m, const rx_onnx_tensor *t, rx_file **file, rlx_error *err)
{
    const size_t folder = rx_folder_length(m->path);
    const size_t room = folder + strlen(t->location) + 1;
    for (size_t i = 0; i < m->n_externals; i++)
        if (!strcmp(m->external_names[i], t->location)) {
            *file = &m->externals[i];
            return RLX_OK;
        }
    char *path = rx_arena_alloc(&m->arena, room), *base = rx_arena_strndup(&m->arena, m->path,
                                                                           folder);
    if (!path || !base ||
        !rx_grow(&m->externals, &m->cap_externals, m->n_externals + 1, sizeof **file) ||
        !rx_grow(&m->external_names, &m->cap_external_names, m->n_externals + 1, sizeof base))
        return rx_fail_memory(err, t->location, room);
    snprintf(path, room, "%s%s", base, t->location);
    if (!stays_inside(t->location))
        return rx_fail(err, RLX_INVALID, "'%s': tensor '%.80s' has its data in '%.120s'; expected "
                       "a path beneath the folder of the model", m->path, t->name, t->location);
    RLX_TRY(rx_file_open(path, &m->externals[m->n_externals], err));
    if (!rx_file_is_beneath(base, path)) {
        rx_file_close(&m->externals[m->n_externals]);
        return rx_fail(err, RLX_INVALID, "'%s': tensor '%.80s' has its data in '%.120s', a link "
                       "that leaves the folder of the model", m->path, t->name, t->location);
    }
    m->external_names[m->n_externals] = t->location;
    *file = &m->externals[m->n_externals++];
    return RLX_OK;
}

rlx_status rx_onnx_external(rlx_onnx *m, const rx_onnx_tensor *t, rx_bytes *data, rlx_error *err)
{
    rx_file *file = NULL;
    RLX_TRY(map_external(m, t, &file, err));
    const uint64_t size = file->bytes;
    const uint64_t length = t->has_length ? t->length : t->offset <= size ? size - t->offset : 0;
    if (t->offset > size || length > size - t->offset)
        return rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s' has %llu bytes from %llu of '%.80s'; "
                       "expected both within its %llu bytes", m->path, t->name,
                       (unsigned long long)length, (unsigned long long)t->offset, t->location,
                       (unsigned long long)size);
    *data = (rx_bytes){file->data + t->offset, (size_t)length};
    return RLX_OK;
}

/* ---- Typed data ------------------------------------------------------------------------------ */

typedef struct decoder {
    unsigned char *to;
    size_t n, room; /* elements */
    int width;      /* bytes of an element */
} decoder;

static bool put_number(decoder *d, uint64_t v)
{
    if (d->n == d->room)
        return false;
    for (int i = 0; i < d->width; i++)
        d->to[d->n * (size_t)d->width + (size_t)i] = (unsigned char)(v >> 8 * i);
    d->n++;
    return true;
}

/* One field of the list: a number, or packed numbers of 4 or 8 bytes or varints. */
static bool put_field(decoder *d, const rx_pb_field *f)
{
    rx_pb list = rx_pb_open(f->bytes);
    uint64_t v;
    if (f->wire != RX_PB_BYTES)
        return put_number(d, f->value);
    const int fixed = f->number == T_FLOATS ? 4 : f->number == T_DOUBLES ? 8 : 0;
    if (fixed) {
        for (; list.end - list.at >= fixed; list.at += fixed) {
            v = 0;
            for (int i = fixed; i--;)
                v = v << 8 | list.at[i];
            if (!put_number(d, v))
                return false;
        }
        return list.at == list.end;
    }
    while (rx_pb_varint(&list, &v))
        if (!put_number(d, v))
            return false;
    return list.at == list.end;
}

/* Decodes the typed list of a tensor of n elements, each at least a byte of the file. */
static rlx_status decode_list(rlx_onnx *m, const rx_onnx_tensor *t, uint64_t n, int width,
                              rx_bytes *data, rlx_error *err)
{
    if (n > t->message.bytes)
        return rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s' has %llu elements in %zu bytes",
                       m->path, t->name, (unsigned long long)n, t->message.bytes);
    decoder d = {rx_arena_array(&m->arena, n, (uint64_t)width), 0, (size_t)n, width};
    if (!d.to)
        return rx_fail_memory(err, t->name, n * (uint64_t)width);
    rx_pb pb = rx_pb_open(t->message);
    rx_pb_field f;
    bool ok = true;
    while (ok && rx_pb_next(&pb, &f) > 0)
        if (f.number == t->list_field)
            ok = put_field(&d, &f);
    if (!ok || d.n != n)
        return rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s' has %s%zu elements; expected %llu, by "
                       "its shape", m->path, t->name, ok ? "" : "more than ", d.n,
                       (unsigned long long)n);
    *data = (rx_bytes){d.to, (size_t)n * (size_t)width};
    return RLX_OK;
}

/* Unpacks elements of 4 or 2 bits, low bits first, to one a byte. */
static rlx_status widen(rlx_onnx *m, const rx_onnx_tensor *t, const rx_onnx_type *type, uint64_t n,
                        rx_bytes *data, rlx_error *err)
{
    const unsigned char *from = data->data;
    const unsigned bits = (unsigned)type->bits, each = 8 / bits, mask = (1u << bits) - 1;
    unsigned char *to = rx_arena_array(&m->arena, n + 1, 1);
    if (!to)
        return rx_fail_memory(err, t->name, n);
    for (uint64_t i = 0; i < n; i++) {
        const unsigned v = from[i / each] >> i % each * bits & mask;
        const bool negative = type->dtype == RLX_I8 && v >> (bits - 1);
        to[i] = (unsigned char)(negative ? v | ~mask : v);
    }
    *data = (rx_bytes){to, (size_t)n};
    return RLX_OK;
}

/* On a big-endian machine the tensor keeps a copy of its data in the order of the machine. */
static rlx_status order_bytes(rlx_onnx *m, const rx_onnx_tensor *t, rlx_dtype dtype,
                              rx_bytes *data, rlx_error *err)
{
    if (t->ordered || !rx_little_swaps(dtype))
        return RLX_OK;
    void *copy = rx_arena_array(&m->arena, data->bytes, 1);
    if (!copy)
        return rx_fail_memory(err, t->name, data->bytes);
    rx_little_copy(dtype, data->data, copy, data->bytes);
    data->data = copy;
    rx_onnx_tensor *kept = (rx_onnx_tensor *)(uintptr_t)t; /* in the arena of the model */
    kept->raw = *data;
    kept->location = NULL;
    kept->ordered = true;
    return RLX_OK;
}

static rlx_status count_elements(const rlx_onnx *m, const rx_onnx_tensor *t, rlx_dtype type,
                                 uint64_t *n, uint64_t *bytes, rlx_error *err)
{
    bool fits = true, empty = false;
    *n = 1;
    for (int i = 0; i < t->shape.rank; i++) {
        const uint64_t d = (uint64_t)t->shape.dim[i];
        empty = empty || !d;
        fits = fits && (!d || rx_mul_size(*n, d, n));
    }
    if (empty)
        *n = 0;
    if (!fits || *n > INT64_MAX || !rx_dtype_bytes(type, (int64_t)*n, bytes))
        return rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s' has too many elements", m->path,
                       t->name);
    return RLX_OK;
}

rlx_status rx_onnx_tensor_data(rlx_onnx *m, const rx_onnx_tensor *t, rlx_dtype *dtype,
                               rx_bytes *data, rlx_error *err)
{
    const rx_onnx_type *type = rx_onnx_type_of(t->type);
    uint64_t n, bytes;
    if (type->dtype == RLX_NO_TYPE)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': tensor '%.80s' has elements of ONNX's type %s, "
                       "which rlx does not have", m->path, t->name, type->name);
    *dtype = type->dtype;
    RLX_TRY(count_elements(m, t, type->dtype, &n, &bytes, err));
    const uint64_t each = type->bits ? 8 / (uint64_t)type->bits : 1, packed = (n + each - 1) / each;
    bytes = each > 1 ? packed : bytes;
    *data = t->raw;
    if (t->location)
        RLX_TRY(rx_onnx_external(m, t, data, err));
    if (t->list_field && !t->raw.bytes && !t->location) {
        if (t->list_field != type->list)
            return rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s' of %s has its data in field %u; "
                           "expected %u", m->path, t->name, type->name, t->list_field, type->list);
        if (type->dtype == RLX_F32 && !t->loose && t->list.bytes == bytes)
            *data = t->list;
        else
            RLX_TRY(decode_list(m, t, each > 1 ? packed : n,
                                (int)rlx_dtype_block_bytes(type->dtype), data, err));
    }
    if (data->bytes != bytes)
        return rx_fail(err, RLX_PARSE, "'%s': tensor '%.80s' has %zu bytes of data; expected %llu, "
                       "by its type and shape", m->path, t->name, data->bytes,
                       (unsigned long long)bytes);
    if (!data->data)
        data->data = "";
    return each > 1 ? widen(m, t, type, n, data, err) : order_bytes(m, t, type->dtype, data, err);
}
