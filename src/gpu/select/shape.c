/* SPDX-License-Identifier: MIT */
/* concat, pad and trilu on GPUs, which only move elements. tile, roll and split decompose; views
 * cost nothing. */
#include <string.h>

#include "base/dtype.h"
#include "gpu/select/walk.h"

/* ---- concat ---------------------------------------------------------------------------------- */

#define CONCAT_PARTS 7 /* operands per dispatch */

typedef struct joint {
    const rx_gpu_call *call;
    uint32_t unit;              /* bytes that are moved at once */
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
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
    uint64_t start[CONCAT_PARTS + 1] = {first}, total = t->rows * t->length;
    for (size_t i = 0; i < CONCAT_PARTS; i++)
        start[i + 1] = start[i] + (i < n ? row_bytes(&c->in[part[i]], axis) / t->unit : 0);
    uint64_t width = start[n] - first;
    uint64_t work = t->unit >= 4 ? t->rows * width : (total * t->unit + 3) / 4;
    rx_args_concat a = {
        .bind = {.y = RX_REF_OUT(0)},
        .spec = {.BITS = t->unit >= 4 ? 32 : t->unit * 8},
        .push = {.n = (uint32_t)work, .length = (uint32_t)t->length, .first = (uint32_t)first,
                 .width = (uint32_t)width, .total = (uint32_t)total},
    };
    rx_gpu_ref *const x[CONCAT_PARTS] = {&a.bind.x0, &a.bind.x1, &a.bind.x2, &a.bind.x3,
                                         &a.bind.x4, &a.bind.x5, &a.bind.x6};
    for (size_t i = 0; i < n; i++) {
        *x[i] = RX_REF_IN(part[i]);
        a.push.at[i] = (uint32_t)((uintptr_t)c->in[part[i]].data / t->unit);
    }
    /* unused operands begin after the last column */
    for (size_t i = 0; i <= CONCAT_PARTS; i++)
        a.push.start[i] = i <= n ? (uint32_t)start[i] : UINT32_MAX;
    rx_gpu_dispatch *d = rx_add_concat(b, t->unit == 16 ? RX_K_concat_wide : RX_K_concat,
                                       rx_flat_local(c->caps), &a);
    rx_flat_grid(d, c->caps, work);
}

rlx_status rx_gpu_lower_concat(rx_gpu_build *b, const rx_gpu_call *c)
{
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
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

uint64_t rx_gpu_encode(rlx_dtype t, double x)
{
    unsigned char bytes[8] = {0};
    uint64_t bits = 0;
    rx_dtype_store(t, bytes, x);
    for (int i = 7; i >= 0; i--)
        bits = bits << 8 | bytes[i];
    return bits;
}

rlx_status rx_gpu_lower_pad(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_pad_attr *a = c->attr;
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
    const uint64_t fill = rx_gpu_encode(y->dtype, a->value), work = rx_words_of(y->dtype, n);
    rx_args_pad args = {
        .bind = {.x = RX_REF_IN(0), .y = RX_REF_OUT(0)},
        .spec = {.BITS = rx_bits_of(y->dtype), .RANK = (uint32_t)w.rank,
                 .MODE = (uint32_t)a->mode},
        .push = {.n = (uint32_t)work, .total = (uint32_t)n, .x_at = (uint32_t)at,
                 .fill_low = (uint32_t)fill, .fill_high = (uint32_t)(fill >> 32)},
    };
    int32_t *const before[RLX_MAX_RANK] = {
        &args.spec.BEFORE0, &args.spec.BEFORE1, &args.spec.BEFORE2, &args.spec.BEFORE3,
        &args.spec.BEFORE4, &args.spec.BEFORE5, &args.spec.BEFORE6, &args.spec.BEFORE7};
    rx_walk_dims(&w, args.push.dim);
    rx_walk_strides(&w, 0, args.push.stride);
    rx_walk_dims(&w, args.push.size);
    for (int i = 0; i < w.rank; i++) {
        if (!(padded >> w.axis[i] & 1))
            continue;
        *before[i] = a->before.v[w.axis[i]] > 0 ? (int32_t)a->before.v[w.axis[i]] : 0;
        args.push.size[i] = (uint32_t)size[w.axis[i]];
    }
    rx_flat_grid(rx_add_pad(b, RX_K_pad, rx_flat_local(c->caps), &args), c->caps, work);
    return RLX_OK;
}

/* ---- trilu ----------------------------------------------------------------------------------- */

rlx_status rx_gpu_lower_trilu(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_trilu_attr *a = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    int64_t n = rx_view_elements(y), rows, cols, k = a->k;
    if (n == 0)
        return RLX_OK;
    rows = y->dim[y->rank - 2];
    cols = y->dim[y->rank - 1];
    k = k < -rows ? -rows : k > cols ? cols : k; /* beyond the corners nothing changes */
    const uint64_t work = rx_words_of(y->dtype, n);
    const rx_args_trilu args = {
        .bind = {.x = RX_REF_IN(0), .y = RX_REF_OUT(0)},
        .spec = {.BITS = rx_bits_of(y->dtype), .UPPER = a->upper},
        .push = {.n = (uint32_t)work, .x_at = rx_gpu_offset(x), .rows = (uint32_t)rows,
                 .cols = (uint32_t)cols, .k = (int32_t)k},
    };
    rx_flat_grid(rx_add_trilu(b, RX_K_trilu, rx_flat_local(c->caps), &args), c->caps, work);
    return RLX_OK;
}
