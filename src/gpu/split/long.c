/* SPDX-License-Identifier: MIT */
/* Operations along rows that are longer than a binding: parts of a row first, then their partial
 * results. Reductions, argmax and argmin, scans and histograms are here; the table has the others;
 * operations without rows are decomposed. */
#include <stdlib.h>
#include <string.h>

#include "gpu/split/part.h"

/* ---- Reductions ------------------------------------------------------------------------------ */

/* The reduced axis with the largest stride of a reduction; -1: none has two indices. */
static int widest_reduced(const rx_part *p)
{
    const rlx_ints *axes = &((const rx_reduce_attr *)p->call.attr)->axes;
    const rx_view *x = &p->view[0];
    int best = -1;
    for (int i = 0; i < (axes->n ? axes->n : x->rank); i++) {
        int axis = axes->n ? (int)axes->v[i] : i;
        if (x->dim[axis] > 1 && (best < 0 || llabs(x->stride[axis]) > llabs(x->stride[best])))
            best = axis;
    }
    return best;
}

static rx_op join_op(rx_op op)
{
    return op == RX_OP_reduce_l1 || op == RX_OP_reduce_sum_square ? RX_OP_reduce_sum : op;
}

/* mean = sum / count, in f32. */
static bool mean_parts(const rx_steps *s)
{
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1);
    if (!rlx_dtype_is_float(x.view.dtype)) {
        rx_gpu_fail(s->b, &s->part->call, "the mean of integers larger than a binding has "
                    "no kernel");
        return true;
    }
    const double count = (double)rx_view_elements(&x.view) / (double)rx_view_elements(&y.view);
    const rx_tensor sum = rx_steps_like(s, RLX_F32, &y.view, -1, 0);
    const rx_instr scale = {.op = RX_OP_mul, .arg = {0, 1}, .dtype = y.view.dtype};
    rx_steps_add(s, RX_OP_reduce_sum, s->part->call.attr, (rx_tensor[]){x, sum}, 1, 1);
    rx_steps_region(s, &scale, 1,
                    (rx_tensor[]){sum, rx_steps_number(s, RLX_F32, 1 / count), y}, 2);
    return true;
}

/* Reduces parts of the operand into scratch memory [parts, shape of the result], then those. */
static bool reduce_parts(const rx_steps *s)
{
    const rx_op op = s->part->call.op;
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1);
    const int axis = widest_reduced(s->part);
    const bool is_float = rlx_dtype_is_float(x.view.dtype);
    if (axis < 0 || y.view.rank == RLX_MAX_RANK)
        return false;
    if (op == RX_OP_reduce_mean)
        return mean_parts(s);
    const int64_t dim = x.view.dim[axis];
    const int64_t length = rx_steps_length(s, &x.view, axis, 1);
    rx_tensor sums = y;
    sums.view.dtype = is_float ? RLX_F32 : y.view.dtype;
    rx_view_set_dense(&sums.view, sums.view.dtype, y.view.rank, y.view.dim);
    sums.view.rank++;
    memmove(sums.view.dim + 1, sums.view.dim, (size_t)y.view.rank * sizeof *sums.view.dim);
    memmove(sums.view.stride + 1, sums.view.stride, (size_t)y.view.rank * sizeof(int64_t));
    sums.view.dim[0] = rx_steps_count(dim, length);
    sums.view.stride[0] = (rx_view_elements(&y.view) + 15) / 16 * 16; /* whole words of any type */
    sums.view.data = NULL;
    const int64_t bytes = rlx_dtype_block_bytes(sums.view.dtype) * sums.view.stride[0];
    sums.ref = rx_gpu_scratch(s->b, (uint64_t)(bytes * sums.view.dim[0]));
    for (int64_t k = 0; k < sums.view.dim[0]; k++) {
        rx_tensor t[2] = {rx_steps_narrow(&x, axis, k * length, length), sums};
        rx_view_set_dense(&t[1].view, sums.view.dtype, y.view.rank, y.view.dim);
        t[1].view.data = (char *)(uintptr_t)(k * bytes);
        rx_steps_add(s, op, s->part->call.attr, t, 1, 1);
    }
    const rx_reduce_attr all = {.axes = {.n = 1}};
    rx_steps_add(s, join_op(op), &all, (rx_tensor[]){sums, y}, 1, 1);
    return true;
}

/* ---- argmax, argmin -------------------------------------------------------------------------- */

/* The index in each part with its element; the best of those; index = part * length + index in the
 * part. */
static bool arg_parts(const rx_steps *s)
{
    const rx_op op = s->part->call.op;
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1);
    rlx_arg_desc keep = *(const rlx_arg_desc *)s->part->call.attr;
    const int axis = (int)keep.axis;
    const rx_axis_attr along = {axis};
    const rlx_dtype t = y.view.dtype;
    if (!rx_steps_is_outer(&x.view, axis))
        return false;
    const int64_t length = rx_steps_length(s, &x.view, axis, 1);
    const int64_t n = rx_steps_count(x.view.dim[axis], length);
    rx_tensor *values = rx_steps_list(s, n), *places = rx_steps_list(s, n);
    keep.keepdims = true;
    for (int64_t k = 0; k < n && values && places; k++) {
        rx_tensor part = rx_steps_narrow(&x, axis, k * length, length);
        places[k] = rx_steps_like(s, t, &x.view, axis, 1);
        values[k] = rx_steps_like(s, x.view.dtype, &x.view, axis, 1);
        rx_steps_add(s, op, &keep, (rx_tensor[]){part, places[k]}, 1, 1);
        rx_steps_add(s, RX_OP_gather_elements, &along, (rx_tensor[]){part, places[k], values[k]}, 2,
                     1);
    }
    if (!values || !places)
        return true;
    rx_tensor all = rx_steps_like(s, x.view.dtype, &x.view, axis, n);
    rx_tensor all_places = rx_steps_like(s, t, &x.view, axis, n);
    rx_tensor best = rx_steps_like(s, t, &x.view, axis, 1), to = best;
    rx_tensor inside = rx_steps_like(s, t, &x.view, axis, 1);
    rx_steps_join(s, axis, values, (size_t)n, all);
    rx_steps_join(s, axis, places, (size_t)n, all_places);
    rx_steps_add(s, op, &keep, (rx_tensor[]){all, best}, 1, 1);
    rx_steps_add(s, RX_OP_gather_elements, &along, (rx_tensor[]){all_places, best, inside}, 2, 1);
    to.view.data = y.view.data;
    to.ref = y.ref;
    const rx_instr instr[] = {{.op = RX_OP_mul, .arg = {0, 1}, .dtype = t},
                              {.op = RX_OP_add, .arg = {3, 2}, .dtype = t}};
    rx_steps_region(s, instr, 2,
                    (rx_tensor[]){best, rx_steps_number(s, t, (double)length), inside, to}, 3);
    return true;
}

/* ---- cumsum, cumprod, cummax ----------------------------------------------------------------- */

/* The parts of a row in scan order; `before` is the total of all parts so far. */
static bool scan_parts(const rx_steps *s)
{
    static const struct { rx_op reduce, join; } ops[3] = {{RX_OP_reduce_sum, RX_OP_add},
                                                          {RX_OP_reduce_prod, RX_OP_mul},
                                                          {RX_OP_reduce_max, RX_OP_max}};
    const rx_op op = s->part->call.op;
    const int kind = op == RX_OP_cumsum ? 0 : op == RX_OP_cumprod ? 1 : 2;
    const rlx_cum_desc *d = s->part->call.attr;
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1);
    const int axis = (int)d->axis;
    const rlx_dtype t = rlx_dtype_is_float(x.view.dtype) ? RLX_F32 : x.view.dtype;
    const rx_reduce_attr over = {.axes = {.n = 1, .v = {axis}}, .keepdims = true};
    if (!rx_steps_is_outer(&x.view, axis))
        return false;
    const int64_t length = rx_steps_length(s, &x.view, axis, 2);
    const int64_t n = rx_steps_count(x.view.dim[axis], length);
    rx_tensor *parts = rx_steps_list(s, n);
    rx_tensor before[2] = {rx_steps_like(s, t, &x.view, axis, 1),
                           rx_steps_like(s, t, &x.view, axis, 1)};
    const rx_tensor total = rx_steps_like(s, t, &x.view, axis, 1);
    for (int64_t i = 0; i < n && parts; i++) {
        const int64_t k = d->reverse ? n - 1 - i : i;
        const rx_tensor part = rx_steps_narrow(&x, axis, k * length, length);
        const rx_instr join = {.op = (uint16_t)ops[kind].join, .arg = {0, 1}, .dtype = t};
        parts[k] = rx_steps_like(s, y.view.dtype, &part.view, -1, 0);
        const rx_tensor alone = i ? rx_steps_like(s, t, &part.view, -1, 0) : parts[k];
        rx_steps_add(s, op, d, (rx_tensor[]){part, alone}, 1, 1);
        if (i)
            rx_steps_region(s, &join, 1, (rx_tensor[]){alone, before[i % 2], parts[k]}, 2);
        if (i == n - 1)
            break;
        rx_steps_add(s, ops[kind].reduce, &over,
                     (rx_tensor[]){part, i ? total : before[(i + 1) % 2]}, 1, 1);
        if (i)
            rx_steps_region(s, &join, 1, (rx_tensor[]){before[i % 2], total, before[(i + 1) % 2]},
                            2);
    }
    if (parts)
        rx_steps_join(s, axis, parts, (size_t)n, y);
    return true;
}

/* ---- histogram ------------------------------------------------------------------------------- */

static bool count_parts(const rx_steps *s)
{
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1);
    int axis = 0;
    while (axis < x.view.rank - 1 && x.view.dim[axis] == 1)
        axis++;
    if (x.view.rank < 1 || x.view.dim[axis] < 2)
        return false;
    const int64_t length = rx_steps_length(s, &x.view, axis, 1), bins = y.view.dim[0];
    const int64_t n = rx_steps_count(x.view.dim[axis], length);
    rx_tensor *counts = rx_steps_list(s, n);
    for (int64_t k = 0; k < n && counts; k++) {
        const rx_tensor part = rx_steps_narrow(&x, axis, k * length, length);
        counts[k] = rx_steps_new(s, y.view.dtype, 2, (int64_t[]){1, bins});
        rx_tensor row = counts[k];
        rx_view_set_dense(&row.view, y.view.dtype, 1, &bins);
        row.view.data = NULL;
        rx_steps_add(s, s->part->call.op, s->part->call.attr, (rx_tensor[]){part, row}, 1, 1);
    }
    if (!counts)
        return true;
    const rx_tensor all = rx_steps_new(s, y.view.dtype, 2, (int64_t[]){n, bins});
    const rx_reduce_attr over = {.axes = {.n = 1}};
    rx_steps_join(s, 0, counts, (size_t)n, all);
    rx_steps_add(s, RX_OP_reduce_sum, &over, (rx_tensor[]){all, y}, 1, 1);
    return true;
}

/* ---- pad ------------------------------------------------------------------------------------- */

/* The padding before or after the elements of an axis: a view of x, or for a constant a view
 * without elements. */
static rx_tensor outside(const rx_tensor *x, int axis, int64_t n, bool after, rx_pad_attr *d)
{
    const int64_t size = x->view.dim[axis], stride = x->view.stride[axis];
    int64_t first = 0, step = 0;
    rx_tensor y = *x;
    switch (d->mode) {
    case RLX_PAD_REFLECT:
        first = after ? size - 2 : n;
        step = -1;
        break;
    case RLX_PAD_WRAP:
        first = after ? 0 : size - n;
        step = 1;
        break;
    case RLX_PAD_EDGE: first = after ? size - 1 : 0; break;
    default:
        d->before.v[axis] = n;
        d->after.v[axis] = -1;
        return rx_steps_narrow(x, axis, 0, 1);
    }
    y.view.dim[axis] = n;
    y.view.stride[axis] = step * stride;
    y.view.data += first * stride * rlx_dtype_block_bytes(x->view.dtype);
    return y;
}

/* One padded axis: padding before, the elements, padding after. */
static bool pad_parts(const rx_steps *s)
{
    const rx_pad_attr *d = s->part->call.attr;
    rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1), parts[3];
    int axis = 0;
    while (axis < x.view.rank && !d->before.v[axis] && !d->after.v[axis])
        axis++;
    if (axis == x.view.rank)
        return false;
    int64_t before = d->before.v[axis], after = d->after.v[axis];
    if (before < 0)
        x = rx_steps_narrow(&x, axis, -before, x.view.dim[axis]);
    if (after < 0)
        x = rx_steps_narrow(&x, axis, 0, x.view.dim[axis] + after);
    before = before < 0 ? 0 : before;
    after = after < 0 ? 0 : after;
    const int64_t size = x.view.dim[axis], lengths[3] = {before, size, after};
    const bool repeats = d->mode == RLX_PAD_WRAP && (before > size || after > size);
    if (size < 1 || repeats)
        return false;
    const bool in_place = rx_steps_is_outer(&y.view, axis);
    size_t n = 0;
    int64_t first = 0;
    for (int i = 0; i < 3; i++) {
        rx_pad_attr here = *d;
        here.before.v[axis] = here.after.v[axis] = 0;
        if (!lengths[i])
            continue;
        const rx_tensor from = i == 1 ? x : outside(&x, axis, lengths[i], i == 2, &here);
        parts[n] = in_place ? rx_steps_narrow(&y, axis, first, lengths[i])
                            : rx_steps_like(s, y.view.dtype, &y.view, axis, lengths[i]);
        rx_steps_add(s, RX_OP_pad, &here, (rx_tensor[]){from, parts[n++]}, 1, 1);
        first += lengths[i];
    }
    if (!in_place)
        rx_steps_join(s, axis, parts, n, y);
    return true;
}

/* ---- The table ------------------------------------------------------------------------------- */

static const struct {
    rx_gpu_lower_fn *lower;
    rx_split_made *make;
} made[] = {
    {rx_gpu_lower_reduce, reduce_parts},
    {rx_gpu_lower_arg, arg_parts},
    {rx_gpu_lower_cum, scan_parts},
    {rx_gpu_lower_histogram, count_parts},
    {rx_gpu_lower_top_k, rx_split_top_k},
    {rx_gpu_lower_sort, rx_split_sort},
    {rx_gpu_lower_sample, rx_split_sample},
    {rx_gpu_lower_nonzero, rx_split_nonzero},
    {rx_gpu_lower_pad, pad_parts},
    {rx_gpu_lower_fft, rx_split_fft},
    {rx_gpu_lower_ifft, rx_split_fft},
    {rx_gpu_lower_rfft, rx_split_fft},
    {rx_gpu_lower_irfft, rx_split_fft},
    {rx_gpu_lower_lstm, rx_split_net},
    {rx_gpu_lower_gru, rx_split_net},
    {rx_gpu_lower_rnn, rx_split_net},
    {rx_gpu_lower_selective_scan, rx_split_scan},
    {rx_gpu_lower_mamba2, rx_split_scan},
    {rx_gpu_lower_gated_delta_net, rx_split_scan},
    {rx_gpu_lower_gather_elements, rx_split_take},
    {rx_gpu_lower_rope, rx_split_rope},
};

rlx_status rx_split_long(rx_gpu_build *b, const rx_part *p, int depth)
{
    const rx_steps s = {b, p, depth};
    const size_t mark = b->n_scratch;
    rx_split_made *make = rx_split_decompose;
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        if (made[i].lower == rx_gpu_ops[p->call.op].lower)
            make = made[i].make;
    const bool done = make(&s);
    b->n_scratch = mark;
    return b->status == RLX_OK && !done ? rx_part_fail(b, p) : b->status;
}
