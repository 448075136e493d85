/* SPDX-License-Identifier: MIT */
/* Reading and writing single elements of any type, for the reference kernels. All conversions
 * between types that a kernel can see are here: floats round to nearest even, floats to integers
 * truncate and saturate, integers wrap. */
#include "cpu/ref/ref.h"

#include <math.h>

#include "base/quant.h"
#include "rlx/session.h"

/* Elements are copied, not dereferenced: a caller's buffer may lie at any address. */
#define LOAD(T, x)                              \
    T x;                                        \
    memcpy(&x, v->data + o * (int64_t)sizeof x, sizeof x)
#define STORE(T, value)                         \
    do {                                        \
        const T stored_ = (T)(value);           \
        memcpy(v->data + o * (int64_t)sizeof stored_, &stored_, sizeof stored_); \
    } while (0)

double rx_load(const rx_view *v, int64_t o)
{
    switch (v->dtype) {
    case RLX_F32: { LOAD(float, x); return x; }
    case RLX_F16: { LOAD(uint16_t, x); return rx_f16_to_f32(x); }
    case RLX_BF16: { LOAD(uint16_t, x); return rx_bf16_to_f32(x); }
    default: return (double)rx_load_int(v, o);
    }
}

/* Toward zero, NaN to 0, outside of lo..hi to the nearer of the two. */
static int64_t saturate(double x, int64_t lo, int64_t hi)
{
    if (isnan(x))
        return 0;
    if (x <= (double)lo)
        return lo;
    /* (double)INT64_MAX is 2^63, which is out of range itself, so >= is right for it too. */
    if (x >= (double)hi)
        return hi;
    return (int64_t)x;
}

int64_t rx_load_int(const rx_view *v, int64_t o)
{
    switch (v->dtype) {
    case RLX_I8: { LOAD(int8_t, x); return x; }
    case RLX_U8: { LOAD(uint8_t, x); return x; }
    case RLX_I32: { LOAD(int32_t, x); return x; }
    case RLX_I64: { LOAD(int64_t, x); return x; }
    case RLX_BOOL: { LOAD(uint8_t, x); return x != 0; }
    case RLX_F32:
    case RLX_F16:
    case RLX_BF16: return saturate(rx_load(v, o), INT64_MIN, INT64_MAX);
    default: return 0;
    }
}

void rx_store(const rx_view *v, int64_t o, double x)
{
    switch (v->dtype) {
    case RLX_F32: STORE(float, rx_f64_to_f32(x)); break;
    case RLX_F16: STORE(uint16_t, rx_f64_to_f16(x)); break;
    case RLX_BF16: STORE(uint16_t, rx_f64_to_bf16(x)); break;
    case RLX_I8: STORE(int8_t, saturate(x, INT8_MIN, INT8_MAX)); break;
    case RLX_U8: STORE(uint8_t, saturate(x, 0, UINT8_MAX)); break;
    case RLX_I32: STORE(int32_t, saturate(x, INT32_MIN, INT32_MAX)); break;
    case RLX_I64: STORE(int64_t, saturate(x, INT64_MIN, INT64_MAX)); break;
    case RLX_BOOL: STORE(uint8_t, x != 0); break;
    default: break;
    }
}

/* x as a double that lies on the same side of every number of at most 24 bits, so that rounding it
 * to a smaller float rounds x itself: what does not fit into 53 bits goes into a sticky bit. */
static double int_to_double(int64_t x)
{
    if (x > -((int64_t)1 << 53) && x < (int64_t)1 << 53)
        return (double)x;
    const uint64_t rest = (uint64_t)x & 0x7ff;
    return (double)(x - (int64_t)rest + (rest ? 0x400 : 0));
}

void rx_store_int(const rx_view *v, int64_t o, int64_t x)
{
    switch (v->dtype) {
    case RLX_I8: STORE(int8_t, x); break;
    case RLX_U8: STORE(uint8_t, x); break;
    case RLX_I32: STORE(int32_t, x); break;
    case RLX_I64: STORE(int64_t, x); break;
    case RLX_BOOL: STORE(uint8_t, x != 0); break;
    default: rx_store(v, o, int_to_double(x)); break;
    }
}

double rx_round_to(rlx_dtype t, double x)
{
    int64_t room = 0;
    const rx_view one = {.data = (char *)&room, .dtype = t};
    rx_store(&one, 0, x);
    return rx_load(&one, 0);
}

int64_t rx_wrap_to(rlx_dtype t, int64_t x)
{
    switch (t) {
    case RLX_I8: return (int8_t)x;
    case RLX_U8: return (uint8_t)x;
    case RLX_I32: return (int32_t)x;
    case RLX_BOOL: return x != 0;
    default: return x;
    }
}

rx_view rx_broadcast_view(const rx_view *v, const rx_view *like)
{
    rx_view w = *like;
    w.data = v->data;
    w.dtype = v->dtype;
    const int shift = like->rank - v->rank;
    for (int i = 0; i < like->rank; i++) {
        const int from = i - shift;
        w.stride[i] = from < 0 || v->dim[from] == 1 ? 0 : v->stride[from];
    }
    return w;
}

void rx_copy_element(const rx_view *to, int64_t j, const rx_view *from, int64_t i)
{
    const size_t bytes = (size_t)rx_dtype_info(to->dtype)->block_bytes;
    memmove(to->data + j * (int64_t)bytes, from->data + i * (int64_t)bytes, bytes);
}

int64_t rx_load_index(const rx_call *c, const rx_view *v, int64_t o, int64_t n)
{
    int64_t i = rx_load_int(v, o);
    if (i < 0 && i >= -n)
        return i + n;
    if (i >= 0 && i < n)
        return i;
    rx_call_flag(c, RLX_FLAG_INDEX_CLAMPED);
    return i < 0 || n == 0 ? 0 : n - 1;
}

static void load_packed_row(const rx_view *v, int64_t row, int64_t n, double *dst)
{
    const rx_dtype_desc *info = rx_dtype_info(v->dtype);
    const int64_t blocks = n / info->block_size;
    const char *src = v->data + row * blocks * info->block_bytes;
    float block[RX_MAX_BLOCK];
    for (int64_t b = 0; b < blocks; b++) {
        rx_decode_row(v->dtype, src + b * info->block_bytes, block, info->block_size);
        for (int k = 0; k < info->block_size; k++)
            *dst++ = block[k];
    }
}

void rx_load_row(const rx_view *v, int64_t row, double *dst)
{
    const int last = v->rank - 1;
    if (last < 0) {
        dst[0] = rx_load(v, 0);
        return;
    }
    if (rlx_dtype_is_packed(v->dtype)) {
        load_packed_row(v, row, v->dim[last], dst);
        return;
    }
    int64_t at[RLX_MAX_RANK] = {0};
    rx_unravel(row, v->dim, last, at);
    const int64_t first = rx_offset(v, at);
    for (int64_t i = 0; i < v->dim[last]; i++)
        dst[i] = rx_load(v, first + i * v->stride[last]);
}
