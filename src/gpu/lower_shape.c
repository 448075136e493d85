/* SPDX-License-Identifier: MIT */
/* concat, pad and trilu on GPUs: elements move, nothing is computed. tile, roll and split
 * decompose; the views are elsewhere. */
#include <string.h>

#include "base/half.h"
#include "gpu/walk.h"

/* ---- concat ---------------------------------------------------------------------------------- */

#define CONCAT_PARTS 7 /* of one dispatch */

typedef struct joint {
    const rx_gpu_call *call;
    uint32_t unit;              /* bytes that move as one */
    uint64_t rows, length;      /* of y in units */
} joint;

/* Bytes of a row of operand v: all axes from `axis` on. */
static uint64_t row_bytes(const rx_view *v, int axis)
{
    return rx_product_of(v->dim, axis, v->rank) * (uint64_t)rlx_dtype_block_bytes(v->dtype);
}

/* Joins the operands part[0 .. n-1], whose columns begin at `first`. */
static void add_parts(rx_gpu_build *b, const joint *t, const size_t *part, size_t n,
                      uint64_t first)
{
    const rx_gpu_call *c = t->call;
    const int axis = (int)((const rlx_axis_desc *)c->attr)->axis;
    uint64_t start[CONCAT_PARTS + 1] = {first}, total = t->rows * t->length;
    for (size_t i = 0; i < CONCAT_PARTS; i++)
        start[i + 1] = start[i] + (i < n ? row_bytes(&c->in[part[i]], axis) / t->unit : 0);
    uint64_t width = start[n] - first;
    uint64_t work = t->unit >= 4 ? t->rows * width : (total * t->unit + 3) / 4;
    rx_gpu_dispatch *d =
        rx_flat_add(b, c->caps, t->unit == 16 ? RX_K_concat_wide : RX_K_concat, work);
    rx_spec(d, t->unit >= 4 ? 32 : t->unit * 8);
    for (size_t i = 0; i < CONCAT_PARTS; i++)
        rx_gpu_bind(d, i < n ? RX_REF_IN(part[i]) : RX_REF_NONE, false);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    rx_gpu_push(d, (uint32_t)t->length);
    rx_gpu_push(d, (uint32_t)first);
    rx_gpu_push(d, (uint32_t)width);
    rx_gpu_push(d, (uint32_t)total);
    /* Unused parts begin where no column is. */
    for (size_t i = 0; i <= CONCAT_PARTS; i++)
        rx_gpu_push(d, i <= n ? (uint32_t)start[i] : UINT32_MAX);
    for (size_t i = 0; i < CONCAT_PARTS; i++)
        rx_gpu_push(d, i < n ? (uint32_t)((uintptr_t)c->in[part[i]].data / t->unit) : 0);
}

rlx_status rx_gpu_lower_concat(rx_gpu_build *b, const rx_gpu_call *c)
{
    const int axis = (int)((const rlx_axis_desc *)c->attr)->axis;
    const rx_view *y = &c->out[0];
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    uint64_t bytes = 0, first = 0, next = 0;
    for (size_t i = 0; i < c->n_in; i++)
        bytes |= row_bytes(&c->in[i], axis) | (uint64_t)(uintptr_t)c->in[i].data;
    joint t = {.call = c, .unit = rx_unit_of(bytes), .rows = rx_product_of(y->dim, 0, axis)};
    t.length = row_bytes(y, axis) / t.unit;
    size_t part[CONCAT_PARTS], n = 0;
    for (size_t i = 0; i < c->n_in; i++) {
        if (rx_view_elements(&c->in[i]) == 0)
            continue;
        part[n++] = i;
        next += row_bytes(&c->in[i], axis) / t.unit;
        if (n == CONCAT_PARTS) {
            add_parts(b, &t, part, n, first);
            first = next;
            n = 0;
        }
    }
    if (n)
        add_parts(b, &t, part, n, first);
    return RLX_OK;
}

/* ---- pad ------------------------------------------------------------------------------------- */

static int64_t to_integer(double x, double low, double high)
{
    if (!(x > low))
        return x == x ? (int64_t)low : 0;
    if (x >= 9223372036854775807.0 && high >= x)
        return INT64_MAX;
    return x >= high ? (high >= 9223372036854775807.0 ? INT64_MAX : (int64_t)high) : (int64_t)x;
}

uint64_t rx_gpu_encode(rlx_dtype t, double x)
{
    switch (t) {
    case RLX_F32: return rx_f32_bits(rx_f64_to_f32(x));
    case RLX_F16: return rx_f64_to_f16(x);
    case RLX_BF16: return rx_f64_to_bf16(x);
    case RLX_I8: return (uint8_t)to_integer(x, INT8_MIN, INT8_MAX);
    case RLX_U8: return (uint8_t)to_integer(x, 0, UINT8_MAX);
    case RLX_I32: return (uint32_t)to_integer(x, INT32_MIN, INT32_MAX);
    case RLX_I64: return (uint64_t)to_integer(x, -0x1p63, 0x1p63);
    default: return x != 0;
    }
}

rlx_status rx_gpu_lower_pad(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_pad_desc *a = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    int64_t n = rx_view_elements(y), at = rx_gpu_offset(x), size[RLX_MAX_RANK];
    uint32_t padded = 0;
    if (n == 0)
        return RLX_OK;
    rx_walk w = rx_walk_make(y->rank, y->dim);
    for (int i = 0; i < y->rank; i++) {
        int64_t first = a->before.v[i] < 0 ? -a->before.v[i] : 0;
        int64_t cut = first + (a->after.v[i] < 0 ? -a->after.v[i] : 0);
        size[i] = x->dim[i] - cut;
        at += first * x->stride[i];
        padded |= (uint32_t)(a->before.v[i] > 0 || a->after.v[i] > 0) << i;
    }
    rx_walk_add(&w, x->stride);
    rx_walk_collapse(&w, padded);
    rx_gpu_dispatch *d = rx_flat_add(b, c->caps, RX_K_pad, rx_words_of(y->dtype, n));
    rx_spec(d, rx_bits_of(y->dtype));
    rx_spec(d, (uint32_t)w.rank);
    rx_spec(d, (uint32_t)a->mode);
    for (int i = 0; i < w.rank; i++) {
        bool is_padded = padded >> w.axis[i] & 1;
        rx_spec(d, is_padded && a->before.v[w.axis[i]] > 0 ? (uint32_t)a->before.v[w.axis[i]] : 0);
    }
    rx_gpu_bind(d, RX_REF_IN(0), false);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    uint64_t fill = rx_gpu_encode(y->dtype, a->value);
    rx_gpu_push(d, (uint32_t)n);
    rx_gpu_push(d, (uint32_t)at);
    rx_gpu_push(d, (uint32_t)fill);
    rx_gpu_push(d, (uint32_t)(fill >> 32));
    rx_walk_push_dims(d, &w);
    rx_walk_push_strides(d, &w, 0);
    for (int i = 0; i < RLX_MAX_RANK; i++) {
        bool is_padded = i < w.rank && padded >> w.axis[i] & 1;
        rx_gpu_push(d, i >= w.rank ? 1 : (uint32_t)(is_padded ? size[w.axis[i]] : w.dim[i]));
    }
    return RLX_OK;
}

/* ---- trilu ----------------------------------------------------------------------------------- */

rlx_status rx_gpu_lower_trilu(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_trilu_desc *a = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    int64_t n = rx_view_elements(y), rows, cols, k = a->k;
    if (n == 0)
        return RLX_OK;
    rows = y->dim[y->rank - 2];
    cols = y->dim[y->rank - 1];
    k = k < -rows ? -rows : k > cols ? cols : k; /* beyond the corners nothing changes */
    rx_gpu_dispatch *d = rx_flat_add(b, c->caps, RX_K_trilu, rx_words_of(y->dtype, n));
    rx_spec(d, rx_bits_of(y->dtype));
    rx_spec(d, a->upper);
    rx_gpu_bind(d, RX_REF_IN(0), false);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    rx_gpu_push(d, rx_gpu_offset(x));
    rx_gpu_push(d, (uint32_t)rows);
    rx_gpu_push(d, (uint32_t)cols);
    rx_gpu_push(d, (uint32_t)(int32_t)k);
    return RLX_OK;
}
