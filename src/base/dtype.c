/* SPDX-License-Identifier: MIT */
/* Look-ups in the table of element types, and conversion of the plain types to and from float. */
#include "base/dtype.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/quant.h"

static const rx_dtype_desc dtype_table[RLX_N_DTYPES] = {
    [RLX_NO_TYPE] = {"none", RX_KIND_NONE, 1, 0, RX_NOT_IN_GGUF},
#define X(ID, NAME, KIND, BYTES, GGUF) [RLX_##ID] = {NAME, RX_KIND_##KIND, 1, BYTES, GGUF},
    RX_PLAIN_DTYPES(X)
#undef X
#define X(ID, NAME, SIZE, BYTES, GGUF) [RLX_##ID] = {#NAME, RX_KIND_PACKED, SIZE, BYTES, GGUF},
    RX_PACKED_DTYPES(X)
#undef X
};

#define X(...) + 1
_Static_assert(1 RX_PLAIN_DTYPES(X) RX_PACKED_DTYPES(X) == RLX_N_DTYPES, "one row for each dtype");
#undef X

const rx_dtype_desc *rx_dtype_info(rlx_dtype t)
{
    unsigned i = (unsigned)t;
    return &dtype_table[i < RLX_N_DTYPES ? i : RLX_NO_TYPE];
}

rlx_dtype rx_dtype_from_gguf(uint32_t number)
{
    for (int i = 0; i < RLX_N_DTYPES; i++) {
        if ((int64_t)dtype_table[i].gguf == (int64_t)number) return (rlx_dtype)i;
    }
    return RLX_NO_TYPE;
}

bool rx_dtype_bytes(rlx_dtype t, int64_t n_elements, uint64_t *bytes)
{
    const rx_dtype_desc *d = rx_dtype_info(t);
    if (d->kind == RX_KIND_NONE || n_elements < 0 || n_elements % d->block_size) return false;
    int64_t n_blocks = n_elements / d->block_size;
    if (n_blocks > INT64_MAX / d->block_bytes) return false;
    *bytes = (uint64_t)n_blocks * (uint64_t)d->block_bytes;
    return true;
}

const char *rlx_dtype_name(rlx_dtype t)
{
    return rx_dtype_info(t)->name;
}

rlx_dtype rlx_dtype_from_name(const char *name)
{
    if (!name) return RLX_NO_TYPE;
    for (int i = RLX_NO_TYPE + 1; i < RLX_N_DTYPES; i++) {
        if (strcmp(dtype_table[i].name, name) == 0) return (rlx_dtype)i;
    }
    return RLX_NO_TYPE;
}

int64_t rlx_dtype_block_size(rlx_dtype t)
{
    return rx_dtype_info(t)->block_size;
}

int64_t rlx_dtype_block_bytes(rlx_dtype t)
{
    return rx_dtype_info(t)->block_bytes;
}

bool rlx_dtype_is_float(rlx_dtype t)
{
    return rx_dtype_info(t)->kind == RX_KIND_FLOAT;
}

bool rlx_dtype_is_int(rlx_dtype t)
{
    const rx_dtype_kind kind = rx_dtype_info(t)->kind;
    return kind == RX_KIND_INT || kind == RX_KIND_UINT;
}

bool rlx_dtype_is_packed(rlx_dtype t)
{
    return rx_dtype_info(t)->kind == RX_KIND_PACKED;
}

/* ---- Plain elements to float and back ----------------------------------------------------- */

/* Toward zero into lo .. hi as 64 bits; NaN gives 0. The ends need not be exact as doubles: 2^63
 * and 2^64 are out of range themselves, so >= is right for them too. */
static int64_t saturate(double x, int64_t lo, uint64_t hi)
{
    if (x != x) return 0;
    if (x <= (double)lo) return lo;
    if (x >= (double)hi) return (int64_t)hi;
    return x < 0 ? (int64_t)x : (int64_t)(uint64_t)x;
}

/* X(ENUMERATOR, C type of a stored element, x stored to float, x float to stored) */
#define PLAIN_CONVERSIONS(X)                                                 \
    X(F32,  float,    x,                 x)                                  \
    X(F16,  uint16_t, rx_f16_to_f32(x),  rx_f32_to_f16(x))                   \
    X(BF16, uint16_t, rx_bf16_to_f32(x), rx_f32_to_bf16(x))                  \
    X(F64,  double,   rx_f64_to_f32(x),  x)                                  \
    X(I8,   int8_t,   (float)x,          saturate(x, INT8_MIN, INT8_MAX))    \
    X(U8,   uint8_t,  (float)x,          saturate(x, 0, UINT8_MAX))          \
    X(I16,  int16_t,  (float)x,          saturate(x, INT16_MIN, INT16_MAX))  \
    X(U16,  uint16_t, (float)x,          saturate(x, 0, UINT16_MAX))         \
    X(I32,  int32_t,  (float)x,          saturate(x, INT32_MIN, INT32_MAX))  \
    X(U32,  uint32_t, (float)x,          saturate(x, 0, UINT32_MAX))         \
    X(I64,  int64_t,  (float)x,          saturate(x, INT64_MIN, INT64_MAX))  \
    X(U64,  uint64_t, (float)x,          saturate(x, 0, UINT64_MAX))         \
    X(BOOL, uint8_t,  x != 0,            x != 0.0f)

/* The stored side of each pair need not be aligned. */
#define X(ID, TYPE, LOAD, STORE)                                             \
    static void load_##ID(const unsigned char *src, float *dst, int64_t n)   \
    {                                                                        \
        for (int64_t i = 0; i < n; i++) {                                    \
            TYPE x;                                                          \
            memcpy(&x, src + (size_t)i * sizeof x, sizeof x);                \
            dst[i] = LOAD;                                                   \
        }                                                                    \
    }                                                                        \
    static void store_##ID(const float *src, unsigned char *dst, int64_t n)  \
    {                                                                        \
        for (int64_t i = 0; i < n; i++) {                                    \
            float x = src[i];                                                \
            TYPE y = (TYPE)(STORE);                                          \
            memcpy(dst + (size_t)i * sizeof y, &y, sizeof y);                \
        }                                                                    \
    }
PLAIN_CONVERSIONS(X)
#undef X

static const struct {
    void (*load)(const unsigned char *src, float *dst, int64_t n);
    void (*store)(const float *src, unsigned char *dst, int64_t n);
} plain_conversions[RLX_N_DTYPES] = {
#define X(ID, TYPE, LOAD, STORE) [RLX_##ID] = {load_##ID, store_##ID},
    PLAIN_CONVERSIONS(X)
#undef X
};

rlx_status rlx_to_float(rlx_dtype t, const void *src, float *dst, int64_t n)
{
    uint64_t bytes;
    if (!rx_dtype_bytes(t, n, &bytes)) return RLX_INVALID;
    if (n == 0) return RLX_OK;
    if (!src || !dst) return RLX_INVALID;
    if (rlx_dtype_is_packed(t)) rx_decode_row(t, src, dst, n);
    else plain_conversions[t].load(src, dst, n);
    return RLX_OK;
}

rlx_status rlx_from_float(rlx_dtype t, const float *src, void *dst, int64_t n)
{
    if (rlx_dtype_is_packed(t)) return RLX_UNSUPPORTED;
    uint64_t bytes;
    if (!rx_dtype_bytes(t, n, &bytes)) return RLX_INVALID;
    if (n == 0) return RLX_OK;
    if (!src || !dst) return RLX_INVALID;
    plain_conversions[t].store(src, dst, n);
    return RLX_OK;
}

float rx_dtype_below(rlx_dtype t, float x)
{
    if (t == RLX_F32)
        return nextafterf(x, -INFINITY);
    uint16_t bits = t == RLX_F16 ? rx_f32_to_f16(x) : rx_f32_to_bf16(x);
    for (;;) {
        const float v = t == RLX_F16 ? rx_f16_to_f32(bits) : rx_bf16_to_f32(bits);
        if (v < x)
            return v;
        if (bits == 0)
            bits = 0x8001; /* the next one below 0 */
        else
            bits = (uint16_t)(bits & 0x8000 ? bits + 1 : bits - 1);
    }
}

/* ---- Single elements ----------------------------------------------------------------------- */

rx_int_range rx_dtype_range(rlx_dtype t)
{
    const rx_dtype_desc *d = rx_dtype_info(t);
    if (d->kind == RX_KIND_BOOL) return (rx_int_range){0, 1};
    const int bits = 8 * d->block_bytes;
    if (d->kind == RX_KIND_UINT) return (rx_int_range){0, UINT64_MAX >> (64 - bits)};
    if (d->kind != RX_KIND_INT) return (rx_int_range){0, 0};
    const uint64_t hi = UINT64_MAX >> (65 - bits);
    return (rx_int_range){-(int64_t)hi - 1, hi};
}

int64_t rx_double_to_int(rlx_dtype t, double x)
{
    if (t == RLX_BOOL) return x != 0;
    const rx_int_range r = rx_dtype_range(t);
    return saturate(x, r.lo, r.hi);
}

int64_t rx_dtype_load_int(rlx_dtype t, const void *at)
{
    switch (t) {
#define X(ID, TYPE)                    \
    case RLX_##ID: {                   \
        TYPE x;                        \
        memcpy(&x, at, sizeof x);      \
        return (int64_t)x;             \
    }
    RX_INT_DTYPES(X)
#undef X
    case RLX_BOOL: return *(const unsigned char *)at != 0;
    default: return 0;
    }
}

void rx_dtype_store_int(rlx_dtype t, void *at, int64_t x)
{
    switch (t) {
#define X(ID, TYPE)                         \
    case RLX_##ID: {                        \
        const TYPE y = (TYPE)x;             \
        memcpy(at, &y, sizeof y);           \
        break;                              \
    }
    RX_INT_DTYPES(X)
#undef X
    case RLX_BOOL: *(unsigned char *)at = x != 0; break;
    default: break;
    }
}

double rx_dtype_load(rlx_dtype t, const void *at)
{
    if (t == RLX_F64) {
        double x;
        memcpy(&x, at, sizeof x);
        return x;
    }
    if (rlx_dtype_is_float(t)) {
        float x;
        plain_conversions[t].load(at, &x, 1);
        return x;
    }
    const int64_t x = rx_dtype_load_int(t, at);
    return t == RLX_U64 ? (double)(uint64_t)x : (double)x;
}

void rx_dtype_store(rlx_dtype t, void *at, double x)
{
    const float f = rx_f64_to_f32(x);
    const uint16_t half = t == RLX_F16 ? rx_f64_to_f16(x) : rx_f64_to_bf16(x);
    if (t == RLX_F64) memcpy(at, &x, sizeof x);
    else if (t == RLX_F32) memcpy(at, &f, sizeof f);
    else if (t == RLX_F16 || t == RLX_BF16) memcpy(at, &half, sizeof half);
    else rx_dtype_store_int(t, at, rx_double_to_int(t, x));
}
