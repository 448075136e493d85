/* SPDX-License-Identifier: MIT */
/* Tensors in host memory: filling, NumPy files, statistics. */
#include "tensor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "term.h"

#define CHUNK 1024 /* elements converted at a time; a multiple of every block size */

void tensor_free(tensor *t)
{
    free(t->name);
    free(t->data);
    *t = (tensor){0};
}

int64_t tensor_elements(const rlx_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

bool shape_equal(const rlx_shape *a, const rlx_shape *b)
{
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]);
}

/* ---- Random numbers -------------------------------------------------------------------------- */

/* SplitMix64. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [0, 1). */
static float next_unit(uint64_t *state)
{
    return (float)(next_random(state) >> 40) * 0x1p-24f;
}

/* FNV-1a, so that tensors of one seed differ. */
static uint64_t hash_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

/* Where the scales of a block are: all else may be random bits. */
static const struct {
    rlx_dtype t;
    char kind; /* 'h' half, 'f' float, 'e' exponent byte */
    int at[2]; /* byte offsets; -1: none */
} scales[] = {
    {RLX_Q4_0, 'h', {0, -1}},     {RLX_Q4_1, 'h', {0, 2}},     {RLX_Q5_0, 'h', {0, -1}},
    {RLX_Q5_1, 'h', {0, 2}},      {RLX_Q8_0, 'h', {0, -1}},    {RLX_Q2_K, 'h', {80, 82}},
    {RLX_Q3_K, 'h', {108, -1}},   {RLX_Q4_K, 'h', {0, 2}},     {RLX_Q5_K, 'h', {0, 2}},
    {RLX_Q6_K, 'h', {208, -1}},   {RLX_Q8_K, 'f', {0, -1}},    {RLX_IQ4_NL, 'h', {0, -1}},
    {RLX_IQ4_XS, 'h', {0, -1}},   {RLX_MXFP4, 'e', {0, -1}},   {RLX_IQ1_S, 'h', {0, -1}},
    {RLX_IQ2_XXS, 'h', {0, -1}},  {RLX_IQ2_XS, 'h', {0, -1}},  {RLX_IQ2_S, 'h', {0, -1}},
    {RLX_IQ3_XXS, 'h', {0, -1}},  {RLX_IQ3_S, 'h', {0, -1}},   {RLX_TQ1_0, 'h', {52, -1}},
    {RLX_TQ2_0, 'h', {64, -1}},
};

static void set_scales(rlx_dtype t, unsigned char *block, float scale)
{
    for (size_t i = 0; i < ARRAY_LEN(scales); i++) {
        if (scales[i].t != t)
            continue;
        for (int k = 0; k < 2 && scales[i].at[k] >= 0; k++) {
            unsigned char *at = block + scales[i].at[k];
            if (scales[i].kind == 'h')
                rlx_from_float(RLX_F16, &scale, at, 1);
            else if (scales[i].kind == 'f')
                memcpy(at, &scale, sizeof scale);
            else
                *at = 120; /* 2^-7 */
        }
        return;
    }
    /* Scales that are spread over the block (iq1_m, nvfp4): small positive halves everywhere. */
    for (int64_t i = 0; i < rlx_dtype_block_bytes(t); i++)
        block[i] &= 0x2f;
}

static void fill_packed(tensor *t, uint64_t *state)
{
    size_t block = (size_t)rlx_dtype_block_bytes(t->dtype);
    unsigned char *at = t->data;
    for (size_t i = 0; i + block <= t->bytes; i += block) {
        for (size_t k = 0; k < block; k++)
            at[i + k] = (unsigned char)(next_random(state) >> 32);
        set_scales(t->dtype, at + i, (0.5f + next_unit(state)) * 0.004f);
    }
}

/* Random floats are lo + u * width. */
static void random_range(const tensor *t, fill_kind kind, float *lo, float *width)
{
    *lo = -1;
    *width = 2;
    if (kind == FILL_PARAM && t->shape.rank < 2) {
        *lo = 0.5f;
        *width = 1;
    } else if (kind == FILL_PARAM) {
        int64_t n = tensor_elements(&t->shape), out = t->shape.dim[t->shape.rank - 1];
        double inputs = t->shape.rank == 2 ? (double)t->shape.dim[0] : (double)n / (double)out;
        *lo = -(float)sqrt(3 / fmax(inputs, 1));
        *width = -2 * *lo;
    }
}

void tensor_fill_random(tensor *t, fill_kind kind, uint64_t seed)
{
    uint64_t state = seed * 0x2545f4914f6cdd1du + hash_name(t->name ? t->name : "");
    if (rlx_dtype_is_packed(t->dtype)) {
        fill_packed(t, &state);
        return;
    }
    int64_t n = tensor_elements(&t->shape), size = rlx_dtype_block_bytes(t->dtype);
    float lo, width, buffer[CHUNK];
    random_range(t, kind, &lo, &width);
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        for (int64_t k = 0; k < m; k++) {
            float u = next_unit(&state);
            switch (t->dtype) {
            case RLX_BOOL: buffer[k] = u < 0.5f ? 0 : 1; break;
            case RLX_I8: buffer[k] = floorf(u * 255) - 127; break;
            case RLX_U8: buffer[k] = floorf(u * 256); break;
            default: buffer[k] = rlx_dtype_is_int(t->dtype) ? floorf(u * 8) : lo + u * width;
            }
        }
        rlx_from_float(t->dtype, buffer, (char *)t->data + i * size, m);
    }
}

/* ---- Filling by a word ----------------------------------------------------------------------- */

/* X(ENUMERATOR, C type, lowest, highest) of the types that have more digits than a float. */
#define WIDE_TYPES(X)                                \
    X(I32, int32_t, INT32_MIN, INT32_MAX)            \
    X(U32, uint32_t, 0, UINT32_MAX)                  \
    X(I64, int64_t, INT64_MIN, INT64_MAX)            \
    X(U64, uint64_t, 0, UINT64_MAX)                  \
    X(F64, double, -INFINITY, INFINITY)

/* What is out of the range of the type becomes its nearer end. */
static void store_number(tensor *t, int64_t i, double v)
{
    char *at = (char *)t->data + i * rlx_dtype_block_bytes(t->dtype);
    const float f = (float)v;
    switch (t->dtype) {
#define X(ID, TYPE, LO, HI)                                                               \
    case RLX_##ID: {                                                                      \
        const TYPE x = v <= (double)(LO) ? (TYPE)(LO) : v >= (double)(HI) ? (TYPE)(HI) : (TYPE)v; \
        memcpy(at, &x, sizeof x);                                                         \
        break;                                                                            \
    }
    WIDE_TYPES(X)
#undef X
    default: rlx_from_float(t->dtype, &f, at, 1);
    }
}

static bool fill_linear(tensor *t, double start, double step)
{
    if (rlx_dtype_is_packed(t->dtype)) {
        cli_fail("'%s' is of the packed type %s: expected random, zeros or a NumPy file of u8",
                 t->name, rlx_dtype_name(t->dtype));
        return false;
    }
    int64_t n = tensor_elements(&t->shape);
    for (int64_t i = 0; i < n; i++)
        store_number(t, i, start + step * (double)i);
    return true;
}

/* "random" or "random:SEED"; false when `spec` is neither. */
static bool parse_random(const char *spec, uint64_t *seed)
{
    if (!strcmp(spec, "random"))
        return true;
    if (strncmp(spec, "random:", 7) || !spec[7])
        return false;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(spec + 7, &end, 10);
    if (*end || errno)
        return false;
    *seed = v;
    return true;
}

bool fill_is_file(const char *spec)
{
    uint64_t seed;
    return !parse_random(spec, &seed) && strcmp(spec, "zeros") && strcmp(spec, "ones") &&
           strcmp(spec, "range");
}

/* ---- NumPy files ----------------------------------------------------------------------------- */

static double load_number(rlx_dtype t, const void *data, int64_t i)
{
    float f = 0;
    const char *at = (const char *)data + i * rlx_dtype_block_bytes(t);
    switch (t) {
#define X(ID, TYPE, LO, HI)           \
    case RLX_##ID: {                  \
        TYPE x;                       \
        memcpy(&x, at, sizeof x);     \
        return (double)x;             \
    }
    WIDE_TYPES(X)
#undef X
    default: rlx_to_float(t, at, &f, 1); return f;
    }
}

/* Float to float of any width; integer to integer when each value fits. */
static bool convert(tensor *t, const rlx_npy *npy, const char *path)
{
    bool floats = rlx_dtype_is_float(t->dtype) && rlx_dtype_is_float(npy->dtype);
    bool ints = rlx_dtype_is_int(t->dtype) && rlx_dtype_is_int(npy->dtype);
    if (!floats && !ints) {
        cli_fail("'%s' expected numbers of type %s, but %s has %s", t->name,
                 rlx_dtype_name(t->dtype), path, rlx_dtype_name(npy->dtype));
        return false;
    }
    int64_t n = tensor_elements(&t->shape);
    for (int64_t i = 0; i < n; i++) {
        double v = load_number(npy->dtype, npy->data, i);
        store_number(t, i, v);
        if (ints && load_number(t->dtype, t->data, i) != v) {
            cli_fail("'%s': element %lld of %s is %.0f, which does not fit %s", t->name,
                     (long long)i, path, v, rlx_dtype_name(t->dtype));
            return false;
        }
    }
    return true;
}

static bool take_npy(tensor *t, const rlx_npy *npy, const char *path)
{
    char want[TYPE_TEXT], have[TYPE_TEXT];
    bool packed = rlx_dtype_is_packed(t->dtype);
    if (packed ? npy->dtype != RLX_U8 || npy->bytes != t->bytes
               : !shape_equal(&npy->shape, &t->shape)) {
        cli_fail(packed ? "'%s' expected %s as %zu bytes of u8, but %s has %s"
                        : "'%s' expected %s (%zu bytes), but %s has %s",
                 t->name, type_text(t->dtype, &t->shape, want), t->bytes, path,
                 type_text(npy->dtype, &npy->shape, have));
        return false;
    }
    if (!packed && npy->dtype != t->dtype)
        return convert(t, npy, path);
    if (t->bytes)
        memcpy(t->data, npy->data, t->bytes);
    return true;
}

static bool fill_from_file(tensor *t, const char *path)
{
    rlx_npy npy;
    rlx_error err = {0};
    if (rlx_npy_load(path, &npy, &err) != RLX_OK) {
        cli_fail("'%s': %s", t->name, err.text);
        return false;
    }
    bool ok = take_npy(t, &npy, path);
    rlx_free(npy.data);
    return ok;
}

bool tensor_fill(tensor *t, const char *spec, fill_kind kind, uint64_t seed)
{
    if (parse_random(spec, &seed))
        tensor_fill_random(t, kind, seed);
    else if (!strcmp(spec, "zeros"))
        memset(t->data, 0, t->bytes);
    else if (!strcmp(spec, "ones"))
        return fill_linear(t, 1, 0);
    else if (!strcmp(spec, "range"))
        return fill_linear(t, 0, 1);
    else
        return fill_from_file(t, spec);
    return true;
}

bool tensor_write_npy(const tensor *t, const char *path)
{
    rlx_error err = {0};
    if (rlx_npy_save(path, t->dtype, &t->shape, t->data, t->bytes, &err) == RLX_OK)
        return true;
    cli_fail("output '%s': %s", t->name, err.text);
    return false;
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static void add_to_stats(tensor_stats *s, double v, double *sum, int64_t *n_finite)
{
    if (isnan(v)) {
        s->n_nan++;
        return;
    }
    if (isinf(v)) {
        s->n_inf++;
        return;
    }
    s->min = *n_finite ? fmin(s->min, v) : v;
    s->max = *n_finite ? fmax(s->max, v) : v;
    s->max_abs = fmax(s->max_abs, fabs(v));
    *sum += v;
    ++*n_finite;
}

tensor_stats tensor_get_stats(rlx_dtype t, const void *data, int64_t n)
{
    tensor_stats s = {.n = n};
    double sum = 0;
    int64_t n_finite = 0;
    if (rlx_dtype_is_int(t) || t == RLX_F64) {
        for (int64_t i = 0; i < n; i++)
            add_to_stats(&s, load_number(t, data, i), &sum, &n_finite);
    } else {
        float buffer[CHUNK];
        int64_t size = rlx_dtype_block_size(t), bytes = rlx_dtype_block_bytes(t);
        for (int64_t i = 0; i < n; i += CHUNK) {
            int64_t m = n - i < CHUNK ? n - i : CHUNK;
            if (rlx_to_float(t, (const char *)data + i / size * bytes, buffer, m) != RLX_OK)
                break;
            for (int64_t k = 0; k < m; k++)
                add_to_stats(&s, buffer[k], &sum, &n_finite);
        }
    }
    s.mean = n_finite ? sum / (double)n_finite : 0;
    return s;
}

void json_stats(json *j, const tensor_stats *s)
{
    json_real(j, "min", s->min);
    json_real(j, "max", s->max);
    json_real(j, "mean", s->mean);
    json_real(j, "max_abs", s->max_abs);
    json_int(j, "nan", s->n_nan);
    json_int(j, "inf", s->n_inf);
}

void json_shape(json *j, const char *key, const rlx_shape *s)
{
    json_list(j, key);
    for (int i = 0; i < s->rank; i++)
        json_int(j, NULL, s->dim[i]);
    json_end(j);
}

/* ---- Printing -------------------------------------------------------------------------------- */

#define EDGE 3        /* elements shown at either end of a long axis */
#define SHOWN 200     /* tensors up to this size are shown whole */

typedef struct printer {
    const tensor *t;
    bool cut, exponent;
    int width, digits;
} printer;

static int number_text(const printer *p, int64_t i, char out[SHORT_TEXT])
{
    double v = load_number(p->t->dtype, p->t->data, i);
    if (p->t->dtype == RLX_BOOL)
        return snprintf(out, SHORT_TEXT, "%s", v != 0 ? "true" : "false");
    if (p->t->dtype == RLX_I64)
        return snprintf(out, SHORT_TEXT, "%lld", (long long)((const int64_t *)p->t->data)[i]);
    if (p->t->dtype == RLX_U64)
        return snprintf(out, SHORT_TEXT, "%llu",
                        (unsigned long long)((const uint64_t *)p->t->data)[i]);
    if (!rlx_dtype_is_float(p->t->dtype))
        return snprintf(out, SHORT_TEXT, "%.0f", v);
    return snprintf(out, SHORT_TEXT, p->exponent ? "%.*e" : "%.*f", p->digits, v);
}

static void print_axis(const printer *p, int axis, int64_t at, int indent)
{
    const rlx_shape *s = &p->t->shape;
    char text[SHORT_TEXT];
    if (axis == s->rank) {
        number_text(p, at, text);
        printf("%*s", p->width, text);
        return;
    }
    bool inner = axis == s->rank - 1;
    int64_t n = s->dim[axis], stride = 1;
    for (int i = axis + 1; i < s->rank; i++)
        stride *= s->dim[i];
    putchar('[');
    for (int64_t i = 0; i < n; i++) {
        if (i && inner)
            fputs(", ", stdout);
        else if (i)
            printf(",\n%*s", indent + 1, "");
        if (p->cut && n > 2 * EDGE && i == EDGE) {
            fputs("...", stdout);
            i = n - EDGE - 1;
            continue;
        }
        print_axis(p, axis + 1, at + i * stride, indent + 1);
    }
    putchar(']');
}

void tensor_print(const tensor *t)
{
    char text[SHORT_TEXT];
    int64_t n = tensor_elements(&t->shape);
    tensor_stats s = tensor_get_stats(t->dtype, t->data, n);
    printer p = {.t = t, .cut = n > SHOWN, .digits = 4,
                 .exponent = s.max_abs >= 1e6 || (s.max_abs && s.max_abs < 1e-3)};
    for (int64_t i = 0; i < n; i++) {
        if (p.cut && i == SHOWN / 2)
            i = n - SHOWN / 2;
        int w = number_text(&p, i, text);
        p.width = w > p.width ? w : p.width;
    }
    print_axis(&p, 0, 0, 0);
    putchar('\n');
}
