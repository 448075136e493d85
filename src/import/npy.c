/* SPDX-License-Identifier: MIT */
/* NumPy files: magic "\x93NUMPY", version, length of a header that is a Python dictionary of descr,
 * fortran_order and shape, then the data. bf16 has no NumPy type: it is stored as raw 2-byte
 * elements ('<V2') with a "bf16" comment after the dictionary. */
#include "rlx/npy.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/outfile.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define NATIVE_ORDER '>'
#else
#define NATIVE_ORDER '<'
#endif

typedef struct npy_type {
    const char *code; /* letter and size */
    rlx_dtype dtype;
    int bytes;        /* of an element in the file */
} npy_type;

static const npy_type types[] = {
    {"f4", RLX_F32, 4}, {"f2", RLX_F16, 2}, {"i1", RLX_I8, 1},   {"u1", RLX_U8, 1},
    {"i4", RLX_I32, 4}, {"i8", RLX_I64, 8}, {"b1", RLX_BOOL, 1}, {"V2", RLX_BF16, 2},
    {"f8", RLX_F64, 8}, {"i2", RLX_I16, 2}, {"u2", RLX_U16, 2},  {"u4", RLX_U32, 4},
    {"u8", RLX_U64, 8},
};

typedef struct npy_header {
    const npy_type *type;
    bool swap, fortran;
    rlx_shape shape;
    int64_t n;       /* elements */
    size_t data_at;  /* offset of the data in the file */
} npy_header;

/* ---- The header: a dictionary of three entries ----------------------------------------------- */

typedef struct cursor {
    const char *at, *end, *path;
    rlx_error *err;
} cursor;

static rlx_status fail_header(const cursor *c, const char *what)
{
    return rx_fail(c->err, RLX_PARSE, "'%s' is not a NumPy file rlx can read: %s", c->path, what);
}

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

static bool take(cursor *c, char letter)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != letter)
        return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n))
        return false;
    c->at += n;
    return true;
}

/* A quoted string of less than `cap` bytes. */
static bool take_string(cursor *c, char *out, size_t cap)
{
    skip_blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote && n + 1 < cap)
        out[n++] = *c->at++;
    out[n] = 0;
    return c->at < c->end && *c->at++ == quote;
}

static bool take_number(cursor *c, int64_t *out)
{
    skip_blanks(c);
    const char *begin = c->at;
    int64_t n = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(n, (int64_t)10, &n) ||
            __builtin_add_overflow(n, (int64_t)(*c->at - '0'), &n))
            return false;
    take_word(c, "L"); /* written by Python 2 */
    *out = n;
    return c->at > begin;
}

static rlx_status parse_shape(cursor *c, npy_header *h)
{
    if (!take(c, '('))
        return fail_header(c, "'shape' is not a tuple");
    h->shape.rank = 0;
    while (!take(c, ')')) {
        if (h->shape.rank == RLX_MAX_RANK)
            return fail_header(c, "more than 8 dimensions");
        if (!take_number(c, &h->shape.dim[h->shape.rank++]))
            return fail_header(c, "a dimension of 'shape' is not a number");
        if (!take(c, ',') && (c->at == c->end || *c->at != ')'))
            return fail_header(c, "'shape' does not end");
    }
    return RLX_OK;
}

static rlx_status parse_descr(cursor *c, npy_header *h)
{
    char descr[16];
    if (!take_string(c, descr, sizeof descr) || strlen(descr) < 3)
        return fail_header(c, "'descr' is not the name of a simple type");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(descr + 1, types[i].code))
            h->type = &types[i];
    if (!h->type || !strchr("<>|=", descr[0]))
        return rx_fail(c->err, RLX_UNSUPPORTED, "'%s' has elements of type '%s'; expected f2, f4, "
                       "f8, i1, u1, i4, i8, b1 or V2 (bf16)", c->path, descr);
    h->swap = (descr[0] == '<' || descr[0] == '>') && descr[0] != NATIVE_ORDER &&
              h->type->bytes > 1;
    return RLX_OK;
}

static rlx_status parse_entry(cursor *c, npy_header *h)
{
    char key[32];
    if (!take_string(c, key, sizeof key) || !take(c, ':'))
        return fail_header(c, "the header is not a dictionary");
    if (!strcmp(key, "descr"))
        return parse_descr(c, h);
    if (!strcmp(key, "shape"))
        return parse_shape(c, h);
    if (strcmp(key, "fortran_order"))
        return fail_header(c, "the header has an unknown key");
    h->fortran = take_word(c, "True");
    if (!h->fortran && !take_word(c, "False"))
        return fail_header(c, "'fortran_order' is neither True nor False");
    return RLX_OK;
}

static rlx_status parse_dictionary(cursor *c, npy_header *h)
{
    h->shape.rank = -1;
    if (!take(c, '{'))
        return fail_header(c, "the header is not a dictionary");
    while (!take(c, '}')) {
        RLX_TRY(parse_entry(c, h));
        if (!take(c, ',') && (c->at == c->end || *c->at != '}'))
            return fail_header(c, "the header does not end");
    }
    if (!h->type || h->shape.rank < 0)
        return fail_header(c, "the header lacks 'descr' or 'shape'");
    return RLX_OK;
}

/* Counts the elements and checks that the file holds them all. */
static rlx_status check_size(const cursor *c, npy_header *h, size_t file_bytes)
{
    int64_t n = 1, bytes;
    bool ok = true, empty = false;
    for (int i = 0; i < h->shape.rank; i++)
        empty = empty || h->shape.dim[i] == 0;
    for (int i = 0; i < h->shape.rank && ok && !empty; i++)
        ok = !__builtin_mul_overflow(n, h->shape.dim[i], &n);
    h->n = empty ? 0 : n;
    ok = ok && !__builtin_mul_overflow(h->n, (int64_t)h->type->bytes, &bytes);
    if (!ok)
        return fail_header(c, "the shape is too large");
    if ((uint64_t)bytes > file_bytes - h->data_at)
        return rx_fail(c->err, RLX_PARSE, "'%s' is cut short: expected %lld bytes of data, got %zu",
                       c->path, (long long)bytes, file_bytes - h->data_at);
    return RLX_OK;
}

static rlx_status parse_header(const char *path, const rx_file *f, npy_header *h, rlx_error *err)
{
    const unsigned char *d = f->data;
    cursor c = {.path = path, .err = err};
    if (f->bytes < 10 || memcmp(d, "\x93NUMPY", 6))
        return fail_header(&c, "it does not begin with NumPy's magic bytes");
    if (d[6] < 1 || d[6] > 3)
        return fail_header(&c, "its version is not 1, 2 or 3");
    size_t prefix = d[6] == 1 ? 10 : 12, length = d[8] | (size_t)d[9] << 8;
    if (f->bytes < prefix)
        return fail_header(&c, "it ends inside the header");
    if (prefix == 12)
        length |= (size_t)d[10] << 16 | (size_t)d[11] << 24;
    if (f->bytes - prefix < length)
        return fail_header(&c, "it ends inside the header");
    c.at = (const char *)d + prefix;
    c.end = c.at + length;
    h->data_at = prefix + length;
    RLX_TRY(parse_dictionary(&c, h));
    return check_size(&c, h, f->bytes);
}

/* ---- The data -------------------------------------------------------------------------------- */

/* Copies one element of the file, in native byte order. */
static void copy_element(const npy_header *h, const unsigned char *from, char *to)
{
    unsigned char raw[8];
    int n = h->type->bytes;
    for (int i = 0; i < n; i++)
        raw[i] = from[h->swap ? n - 1 - i : i];
    if (h->type->dtype == RLX_BOOL)
        *to = raw[0] != 0;
    else
        memcpy(to, raw, (size_t)n);
}

/* Copies to row-major order, from C or Fortran order in the file. */
static void copy_elements(const npy_header *h, const unsigned char *from, char *to)
{
    int rank = h->shape.rank;
    if (h->n == 0)
        return; /* the product of the other dimensions may overflow */
    int64_t stride[RLX_MAX_RANK], at[RLX_MAX_RANK] = {0}, step = 1, offset = 0;
    for (int k = 0; k < rank; k++) {
        int axis = h->fortran ? k : rank - 1 - k;
        stride[axis] = step;
        step *= h->shape.dim[axis];
    }
    int64_t size = rlx_dtype_block_bytes(h->type->dtype);
    for (int64_t i = 0; i < h->n; i++) {
        copy_element(h, from + offset * h->type->bytes, to + i * size);
        for (int axis = rank - 1; axis >= 0; axis--) {
            offset += stride[axis];
            if (++at[axis] < h->shape.dim[axis])
                break;
            offset -= at[axis] * stride[axis];
            at[axis] = 0;
        }
    }
}

static bool is_plain_copy(const npy_header *h)
{
    return !h->swap && (!h->fortran || h->shape.rank < 2) && h->type->dtype != RLX_BOOL;
}

rlx_status rlx_npy_load(const char *path, rlx_npy *out, rlx_error *err)
{
    RLX_TRY(rx_need(path, "rlx_npy_load: path", err));
    RLX_TRY(rx_need(out, "rlx_npy_load: out", err));
    rx_file f;
    npy_header h = {0};
    *out = (rlx_npy){0};
    RLX_TRY(rx_file_open(path, &f, err));
    rlx_status st = parse_header(path, &f, &h, err);
    if (st != RLX_OK)
        goto out;
    size_t bytes = (size_t)h.n * (size_t)rlx_dtype_block_bytes(h.type->dtype); /* <= the file's */
    char *data = rx_alloc(bytes);
    if (!data) {
        st = rx_fail_memory(err, path, bytes);
        goto out;
    }
    if (is_plain_copy(&h))
        memcpy(data, f.data + h.data_at, bytes);
    else
        copy_elements(&h, f.data + h.data_at, data);
    *out = (rlx_npy){h.type->dtype, h.shape, bytes, data};
out:
    rx_file_close(&f);
    return st;
}

/* ---- Writing --------------------------------------------------------------------------------- */

#define HEADER_ROOM 512

/* The whole header, padded so that the data begins at a multiple of 64. Returns its size. */
static size_t print_header(const rlx_shape *shape, const npy_type *type, char text[HEADER_ROOM])
{
    char order = type->bytes == 1 ? '|' : NATIVE_ORDER;
    int used = 10;
    used += snprintf(text + used, HEADER_ROOM - 10, "{'descr': '%c%s', 'fortran_order': False, "
                     "'shape': (", order, type->code);
    for (int i = 0; i < shape->rank; i++)
        used += snprintf(text + used, (size_t)(HEADER_ROOM - used), "%lld,%s",
                         (long long)shape->dim[i], i + 1 < shape->rank ? " " : "");
    used += snprintf(text + used, (size_t)(HEADER_ROOM - used), "), }%s",
                     type->dtype == RLX_BF16 ? " # bf16" : "");
    size_t n = (size_t)used;
    size_t whole = (n + 1 + 63) & ~(size_t)63;
    memset(text + n, ' ', whole - n);
    text[whole - 1] = '\n';
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    text[8] = (char)((whole - 10) & 0xff);
    text[9] = (char)((whole - 10) >> 8);
    return whole;
}

rlx_status rlx_npy_save(const char *path, rlx_dtype dtype, const rlx_shape *shape, const void *data,
                        size_t bytes, rlx_error *err)
{
    RLX_TRY(rx_need(path, "rlx_npy_save: path", err));
    RLX_TRY(rx_need(shape, "rlx_npy_save: shape", err));
    if (bytes)
        RLX_TRY(rx_need(data, "rlx_npy_save: data", err));
    const npy_type *type = NULL;
    for (size_t i = 0; i < sizeof types / sizeof types[0] && !type; i++)
        if (types[i].dtype == dtype)
            type = &types[i];
    if (!type)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': NumPy files cannot hold elements of type %s",
                       path, rlx_dtype_name(dtype));
    int64_t n = 1;
    bool ok = shape->rank >= 0 && shape->rank <= RLX_MAX_RANK;
    for (int i = 0; ok && i < shape->rank; i++)
        ok = shape->dim[i] >= 0 && !__builtin_mul_overflow(n, shape->dim[i], &n);
    uint64_t expected = 0;
    if (!ok || !rx_dtype_bytes(dtype, n, &expected) || expected != bytes)
        return rx_fail(err, RLX_INVALID, "'%s': a tensor of rank %d with %zu bytes of %s: expected "
                       "%llu bytes", path, (int)shape->rank, bytes, rlx_dtype_name(dtype),
                       (unsigned long long)expected);
    char header[HEADER_ROOM];
    rx_bytes pieces[2] = {{header, print_header(shape, type, header)}, {data, bytes}};
    return rx_outfile_save(path, &rx_kind_npy, pieces, 2, err);
}
