/* SPDX-License-Identifier: MIT */
/* The list of portable fast kernels, and their helpers: lanes and merged axes. */
#include "cpu/generic.h"

#include <string.h>

#include "base/half.h"
#include "cpu/generic_channel.h"
#include "cpu/generic_line.h"
#include "cpu/generic_math.h"
#include "cpu/generic_order.h"
#include "cpu/generic_scan.h"
#include "cpu/generic_slices.h"
#include "cpu/generic_wide.h"

#define STRIDED 0xff /* operands of any strides */
#define DENSE 0
#define ROW(op, name, run, strided) {RX_OP_##op, name ".generic", run, strided, false, false}
/* Also called for types of RX_RARE. */
#define RARE(op, name, run, strided) {RX_OP_##op, name ".generic", run, strided, false, true}

const rx_fast_kernel rx_generic_kernels[] = {
    RARE(softmax, "slices", rx_slices_axis, STRIDED),
    RARE(log_softmax, "slices", rx_slices_axis, STRIDED),
    RARE(layer_norm, "slices", rx_slices_norm, STRIDED),
    RARE(rms_norm, "slices", rx_slices_norm, STRIDED),
    RARE(cumsum, "slices", rx_slices_cum, STRIDED),
    RARE(cumprod, "slices", rx_slices_cum, STRIDED),
    RARE(cummax, "slices", rx_slices_cum, STRIDED),
    RARE(argmax, "slices", rx_slices_arg, STRIDED),
    RARE(argmin, "slices", rx_slices_arg, STRIDED),
    RARE(reduce_log_sum_exp, "slices", rx_slices_reduce, STRIDED),
    RARE(reduce_log_sum, "slices", rx_slices_reduce, STRIDED),
    RARE(sort, "slices", rx_slices_sort, STRIDED),
    RARE(argsort, "slices", rx_slices_sort, STRIDED),
    RARE(top_k, "slices", rx_slices_top_k, STRIDED),
    RARE(pool1d, "slices", rx_slices_planes, STRIDED),
    RARE(pool2d, "slices", rx_slices_planes, STRIDED),
    RARE(pool3d, "slices", rx_slices_planes, STRIDED),
    RARE(resize_nearest_2x, "slices", rx_slices_planes, STRIDED),
    RARE(resize, "slices", rx_slices_resize, STRIDED),
    {RX_ALL_ELEMENTWISE, "wide.generic", rx_generic_wide, STRIDED, false, true},
    RARE(region, "wide", rx_generic_wide, STRIDED),
    RARE(matmul, "wide_matmul", rx_generic_wide_matmul, STRIDED),
    {RX_ALL_ELEMENTWISE, "elementwise.generic", rx_generic_elementwise, STRIDED, false, false},
    ROW(region, "region", rx_generic_elementwise, STRIDED),
    ROW(matmul, "matmul", rx_generic_matmul, STRIDED),
    ROW(softmax, "softmax", rx_generic_softmax, STRIDED),
    ROW(log_softmax, "softmax", rx_generic_softmax, STRIDED),
    ROW(layer_norm, "norm", rx_generic_norm, DENSE),
    ROW(rms_norm, "norm", rx_generic_norm, DENSE),
    ROW(swiglu, "swiglu", rx_generic_swiglu, STRIDED),
    ROW(gated_residual, "gated_residual", rx_generic_gated_residual, STRIDED),
    ROW(copy, "copy", rx_generic_copy, STRIDED),
    ROW(reshape, "copy", rx_generic_copy, STRIDED),
    ROW(transpose, "copy", rx_generic_copy, STRIDED),
    ROW(narrow, "copy", rx_generic_copy, STRIDED),
    ROW(slice, "copy", rx_generic_copy, STRIDED),
    ROW(expand, "copy", rx_generic_copy, STRIDED),
    ROW(reverse, "copy", rx_generic_copy, STRIDED),
    ROW(concat, "concat", rx_generic_concat, STRIDED),
    ROW(pad, "move", rx_generic_move, STRIDED),
    ROW(tile, "move", rx_generic_move, STRIDED),
    ROW(roll, "move", rx_generic_move, STRIDED),
    ROW(resize, "resize", rx_generic_move, STRIDED),
    ROW(resize_nearest_2x, "resize", rx_generic_move, STRIDED),
    ROW(group_norm, "channel_norm", rx_generic_channel_norm, DENSE),
    ROW(instance_norm, "channel_norm", rx_generic_channel_norm, DENSE),
    ROW(batch_norm_inference, "channel_norm", rx_generic_channel_norm, DENSE),
    ROW(cumsum, "cum", rx_generic_cum, DENSE),
    ROW(cumprod, "cum", rx_generic_cum, DENSE),
    ROW(cummax, "cum", rx_generic_cum, DENSE),
    ROW(one_hot, "one_hot", rx_generic_one_hot, DENSE),
    ROW(trilu, "trilu", rx_generic_trilu, DENSE),
    RARE(top_k, "order", rx_generic_order, DENSE),
    RARE(sort, "order", rx_generic_order, DENSE),
    RARE(argsort, "order", rx_generic_order, DENSE),
    ROW(knn, "knn", rx_generic_knn, DENSE),
    ROW(group_limited_gate, "gate", rx_generic_gate, DENSE),
    ROW(selective_scan, "scan", rx_generic_selective_scan, DENSE),
    ROW(mamba2, "scan", rx_generic_mamba2, DENSE),
    ROW(gated_delta_net, "scan", rx_generic_gated_delta_net, DENSE),
    ROW(sample, "sample", rx_generic_sample, DENSE),
    ROW(state_write, "state_write", rx_generic_state_write, STRIDED),
    ROW(gather_elements, "gather", rx_generic_gather_elements, 1), /* x of any strides */
    ROW(gather_nd, "gather", rx_generic_gather_nd, 1),
    ROW(scatter_elements, "scatter", rx_generic_scatter_elements, DENSE),
    ROW(scatter_nd, "scatter", rx_generic_scatter_nd, DENSE),
    ROW(scatter_add, "scatter", rx_generic_scatter_add, DENSE),
    {0, NULL, NULL, 0, false, false}
};
#undef RARE
#undef ROW
#undef DENSE
#undef STRIDED

/* ---- Lanes ----------------------------------------------------------------------------------- */

bool rx_is_lane_type(rlx_dtype t)
{
    return t == RLX_F32 || t == RLX_F16 || t == RLX_BF16 || t == RLX_BOOL;
}

/* The conversions of base/half.h without branches, so that loops over them are vectorised. */
static inline float half_to_float(uint16_t h)
{
    const uint32_t mag = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    /* As an f32 the shifted bits are too small by 2^112; subnormals come out right too. */
    const uint32_t finite = rx_f32_bits(rx_f32_from_bits(mag << 13) * 0x1p112f);
    const uint32_t quiet = rx_select_bits(mag > 0x7c00u, 1u << 22, 0);
    return rx_f32_from_bits(
        rx_select_bits(mag >= 0x7c00u, mag << 13 | 0x7f800000u | quiet, finite) | sign);
}

static inline uint16_t float_to_half(float x)
{
    const uint32_t bits = rx_f32_bits(x), mag = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    const uint32_t normal = ((mag + 0xfffu + (mag >> 13 & 1)) >> 13) - (112u << 10);
    /* Adding 0.5 rounds to multiples of 2^-24, the step of the subnormals. */
    const uint32_t small = rx_f32_bits(rx_f32_from_bits(mag) + 0.5f) - 0x3f000000u;
    const uint32_t payload = 0x200u | (mag >> 13 & 0x3ffu);
    const uint32_t special = 0x7c00u | rx_select_bits(mag > 0x7f800000u, payload, 0);
    const uint32_t finite = rx_select_bits(mag < 0x38800000u, small, normal);
    return (uint16_t)(rx_select_bits(mag >= 0x47800000u, special, finite) | sign);
}

static void load_f32(const float *from, int64_t stride, float *to, int64_t n)
{
    if (stride == 1) {
        memmove(to, from, (size_t)n * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i * stride];
}

/* Loops twice: with a stride of 1 that the compiler sees, and with any. */
#define EACH(n, stride, statement)                      \
    do {                                                \
        if ((stride) == 1)                              \
            for (int64_t i = 0, j = 0; i < (n); j = ++i) \
                statement;                              \
        else                                            \
            for (int64_t i = 0, j = 0; i < (n); i++, j += (stride)) \
                statement;                              \
    } while (0)

void rx_load_lanes(rlx_dtype t, const char *data, int64_t stride, float *to, int64_t n)
{
    if (stride == 0 && n > 1) {
        rx_load_lanes(t, data, 1, to, 1);
        for (int64_t i = 1; i < n; i++)
            to[i] = to[0];
        return;
    }
    const uint16_t *half = (const uint16_t *)data;
    if (t == RLX_F32)
        load_f32((const float *)data, stride, to, n);
    else if (t == RLX_F16)
        EACH(n, stride, to[i] = half_to_float(half[j]));
    else if (t == RLX_BF16)
        EACH(n, stride, to[i] = rx_bf16_to_f32(half[j]));
    else
        EACH(n, stride, to[i] = data[j] != 0);
}

void rx_store_lanes(rlx_dtype t, char *data, int64_t stride, const float *from, int64_t n)
{
    uint16_t *half = (uint16_t *)data;
    float *to = (float *)data;
    if (t == RLX_F32 && to != from)
        EACH(n, stride, to[j] = from[i]);
    else if (t == RLX_F16)
        EACH(n, stride, half[j] = float_to_half(from[i]));
    else if (t == RLX_BF16)
        EACH(n, stride, half[j] = rx_f32_to_bf16(from[i]));
    else if (t == RLX_BOOL)
        EACH(n, stride, data[j] = from[i] != 0);
}

/* ---- Merged axes ----------------------------------------------------------------------------- */

/* Axis `axis` directly follows axis `last` in every view, so both are one axis. */
static bool can_merge(const rx_view *views, size_t n, int last, int axis)
{
    for (size_t i = 0; i < n; i++)
        if (views[i].stride[last] != views[i].stride[axis] * views[i].dim[axis])
            return false;
    return true;
}

static void move_axis(rx_view *views, size_t n, int to, int from, bool merge)
{
    for (size_t i = 0; i < n; i++) {
        rx_view *v = &views[i];
        v->dim[to] = merge ? v->dim[to] * v->dim[from] : v->dim[from];
        v->stride[to] = v->stride[from];
    }
}

void rx_merge_axes(rx_view *views, size_t n)
{
    int rank = 0;
    for (int axis = 0; axis < views[0].rank; axis++) {
        if (views[0].dim[axis] == 1)
            continue;
        bool merge = rank > 0 && can_merge(views, n, rank - 1, axis);
        rank += !merge;
        move_axis(views, n, rank - 1, axis, merge);
    }
    for (size_t i = 0; i < n; i++) {
        if (rank == 0) {
            views[i].dim[0] = 1;
            views[i].stride[0] = 1;
        }
        views[i].rank = rank ? rank : 1;
    }
}
