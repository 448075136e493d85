/* SPDX-License-Identifier: MIT */
/* The list of portable fast kernels, and what they share: lanes and merged axes. */
#include "cpu/generic.h"

#include <string.h>

#include "base/half.h"
#include "cpu/dispatch.h"

#define ALL_STRIDED 0xff
#define ALL_DENSE 0

rlx_status rx_cpu_generic_init(rx_cpu_table *t)
{
    static const struct {
        rx_op op;
        const char *name;
        rx_kernel_fn *run;
        uint8_t strided;
    } kernels[] = {
        {RX_OP_region, "region.generic", rx_generic_region, ALL_STRIDED},
        {RX_OP_matmul, "matmul.generic", rx_generic_matmul, ALL_STRIDED},
        {RX_OP_softmax, "softmax.generic", rx_generic_softmax, ALL_STRIDED},
        {RX_OP_log_softmax, "softmax.generic", rx_generic_softmax, ALL_STRIDED},
        {RX_OP_layer_norm, "norm.generic", rx_generic_norm, ALL_DENSE},
        {RX_OP_rms_norm, "norm.generic", rx_generic_norm, ALL_DENSE},
        {RX_OP_copy, "copy.generic", rx_generic_copy, ALL_STRIDED},
        {RX_OP_reshape, "copy.generic", rx_generic_copy, ALL_STRIDED},
        {RX_OP_transpose, "copy.generic", rx_generic_copy, ALL_STRIDED},
        {RX_OP_narrow, "copy.generic", rx_generic_copy, ALL_STRIDED},
        {RX_OP_slice, "copy.generic", rx_generic_copy, ALL_STRIDED},
        {RX_OP_expand, "copy.generic", rx_generic_copy, ALL_STRIDED},
        {RX_OP_reverse, "copy.generic", rx_generic_copy, ALL_STRIDED},
    };
    for (int op = 0; op < RX_N_OPS; op++)
        if (rx_ops[op].flags & RX_OP_ELEMENTWISE)
            RLX_TRY(rx_cpu_table_add(t, (rx_op)op, "elementwise.generic", rx_generic_elementwise,
                                     ALL_STRIDED));
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        RLX_TRY(rx_cpu_table_add(t, kernels[i].op, kernels[i].name, kernels[i].run,
                                 kernels[i].strided));
    return RLX_OK;
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

bool rx_is_lane_type(rlx_dtype t)
{
    return t == RLX_F32 || t == RLX_F16 || t == RLX_BF16 || t == RLX_BOOL;
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
        for (int64_t i = 0; i < n; i++)
            to[i] = rx_f16_to_f32(half[i * stride]);
    else if (t == RLX_BF16)
        for (int64_t i = 0; i < n; i++)
            to[i] = rx_bf16_to_f32(half[i * stride]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = data[i * stride] != 0;
}

void rx_store_lanes(rlx_dtype t, char *data, int64_t stride, const float *from, int64_t n)
{
    uint16_t *half = (uint16_t *)data;
    if (t == RLX_F32) {
        float *to = (float *)data;
        if (to != from)
            for (int64_t i = 0; i < n; i++)
                to[i * stride] = from[i];
    } else if (t == RLX_F16) {
        for (int64_t i = 0; i < n; i++)
            half[i * stride] = rx_f32_to_f16(from[i]);
    } else if (t == RLX_BF16) {
        for (int64_t i = 0; i < n; i++)
            half[i * stride] = rx_f32_to_bf16(from[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            data[i * stride] = from[i] != 0;
    }
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
