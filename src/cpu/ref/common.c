/* SPDX-License-Identifier: MIT */
/* Reading and writing single elements of any type, for the reference kernels. All conversions
 * between types that a kernel can see are here: floats round to nearest even, floats to integers
 * truncate and saturate, integers wrap. */
#include "cpu/ref/ref.h"

#include <math.h>

#include "base/dtype.h"
#include "base/quant.h"
#include "rlx/session.h"

/* Elements go through memcpy, since a caller's buffer may be unaligned. */
static char *element(const rx_view *v, int64_t o)
{
    return v->data + o * rlx_dtype_block_bytes(v->dtype);
}

double rx_load(const rx_view *v, int64_t o)
{
    if (v->dtype == RLX_F32) { /* fast path */
        float x;
        memcpy(&x, v->data + o * (int64_t)sizeof x, sizeof x);
        return x;
    }
    return rx_dtype_load(v->dtype, element(v, o));
}

int64_t rx_load_int(const rx_view *v, int64_t o)
{
    if (rlx_dtype_is_float(v->dtype))
        return rx_double_to_int(RLX_I64, rx_load(v, o));
    return rx_dtype_load_int(v->dtype, element(v, o));
}

void rx_store(const rx_view *v, int64_t o, double x)
{
    if (v->dtype == RLX_F32) {
        const float f = rx_f64_to_f32(x);
        memcpy(v->data + o * (int64_t)sizeof f, &f, sizeof f);
        return;
    }
    rx_dtype_store(v->dtype, element(v, o), x);
}

/* x rounded to odd (lost bits go into a sticky bit), so that rounding the double to f32 or less
 * rounds x correctly. */
static double int_to_double(int64_t x)
{
    if (x > -((int64_t)1 << 53) && x < (int64_t)1 << 53)
        return (double)x;
    const uint64_t rest = (uint64_t)x & 0x7ff;
    return (double)(x - (int64_t)rest + (rest ? 0x400 : 0));
}

void rx_store_int(const rx_view *v, int64_t o, int64_t x)
{
    if (!rlx_dtype_is_float(v->dtype))
        rx_dtype_store_int(v->dtype, element(v, o), x);
    else
        rx_store(v, o, v->dtype == RLX_F64 ? (double)x : int_to_double(x));
}

void rx_store_unsigned(const rx_view *v, int64_t o, uint64_t x)
{
    if (x <= INT64_MAX || !rlx_dtype_is_float(v->dtype))
        rx_store_int(v, o, (int64_t)x);
    else if (v->dtype == RLX_F64)
        rx_store(v, o, (double)x);
    else /* half of x with a sticky last bit */
        rx_store(v, o, 2 * int_to_double((int64_t)(x >> 1 | (x & 1))));
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
    int64_t room = 0;
    if (rlx_dtype_is_float(t))
        return x;
    rx_dtype_store_int(t, &room, x);
    return rx_dtype_load_int(t, &room);
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
