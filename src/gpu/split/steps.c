/* SPDX-License-Identifier: MIT */
/* Steps made of other steps on tensors in scratch memory, each split where necessary. Errors are
 * sticky in the build; after one nothing more is added. */
#include <string.h>

#include "gpu/split/part.h"

rx_tensor rx_steps_tensor(const rx_steps *s, size_t i)
{
    return (rx_tensor){s->part->view[i], s->part->ref[i]};
}

rx_tensor rx_steps_new(const rx_steps *s, rlx_dtype t, int rank, const int64_t *dim)
{
    rx_tensor x;
    rx_view_set_dense(&x.view, t, rank, dim);
    rx_part_stage(s->b, &x.view, &x.ref);
    return x;
}

rx_tensor rx_steps_like(const rx_steps *s, rlx_dtype t, const rx_view *v, int axis, int64_t length)
{
    int64_t dim[RLX_MAX_RANK];
    memcpy(dim, v->dim, sizeof dim);
    if (axis >= 0)
        dim[axis] = length;
    return rx_steps_new(s, t, v->rank, dim);
}

rx_tensor rx_steps_number(const rx_steps *s, rlx_dtype t, double value)
{
    const float f = (float)value;
    const int32_t word = (int32_t)value;
    const int64_t wide = (int64_t)value;
    const void *data = t == RLX_F32 ? (const void *)&f : t == RLX_I64 ? (const void *)&wide : &word;
    rx_tensor x = {.ref = rx_gpu_add_table(s->b, data, t == RLX_I64 ? 8 : 4)};
    rx_view_set_dense(&x.view, t, 0, NULL);
    x.view.data = NULL;
    return x;
}

rx_tensor rx_steps_table(const rx_steps *s, const float *data, int rank, const int64_t *dim)
{
    rx_tensor x;
    rx_view_set_dense(&x.view, RLX_F32, rank, dim);
    x.view.data = NULL;
    x.ref = rx_gpu_add_table(s->b, data, (uint64_t)rx_view_elements(&x.view) * 4);
    return x;
}

void rx_steps_add(const rx_steps *s, rx_op op, const void *attr, const rx_tensor *t, size_t n_in,
                  size_t n_out)
{
    rx_part q = {.call = {.op = op, .attr = attr, .n_in = n_in, .n_out = n_out,
                          .caps = s->part->call.caps, .policy = s->part->call.policy}};
    if (s->b->status != RLX_OK)
        return;
    for (size_t i = 0; i < n_in + n_out; i++) {
        q.view[i] = t[i].view;
        q.ref[i] = t[i].ref;
    }
    rx_part_split(s->b, &q, s->depth + 1);
}

void rx_steps_region(const rx_steps *s, const rx_instr *instr, size_t n, const rx_tensor *t,
                     size_t n_in)
{
    const uint16_t out = (uint16_t)(n - 1);
    const rx_region r = {.n_in = (uint16_t)n_in, .n_instr = (uint16_t)n, .n_out = 1,
                         .instr = instr, .out = &out};
    rx_steps_add(s, RX_OP_region, &r, t, n_in, 1);
}

/* Operands of a concat, at most. */
#define JOIN_MOST (RX_SPLIT_MAX - 1)

static void add_concat(const rx_steps *s, int axis, const rx_tensor *t, size_t n, rx_tensor to)
{
    const rx_axis_attr attr = {axis};
    rx_tensor all[RX_SPLIT_MAX];
    memcpy(all, t, n * sizeof *t);
    all[n] = to;
    rx_steps_add(s, RX_OP_concat, &attr, all, n, 1);
}

void rx_steps_join(const rx_steps *s, int axis, rx_tensor *t, size_t n, rx_tensor to)
{
    while (n > JOIN_MOST) { /* groups in scratch memory, until one concat can take them all */
        size_t n_groups = 0;
        for (size_t from = 0; from < n; from += JOIN_MOST) {
            const size_t count = n - from < JOIN_MOST ? n - from : JOIN_MOST;
            int64_t length = 0;
            for (size_t k = 0; k < count; k++)
                length += t[from + k].view.dim[axis];
            rx_tensor group = rx_steps_like(s, to.view.dtype, &t[from].view, axis, length);
            add_concat(s, axis, t + from, count, group);
            t[n_groups++] = group;
        }
        n = n_groups;
    }
    add_concat(s, axis, t, n, to);
}

rx_tensor *rx_steps_list(const rx_steps *s, int64_t n)
{
    rx_tensor *list = rx_arena_array(s->b->arena, n, sizeof *list);
    if (!list)
        s->b->status = rx_fail_memory(s->b->err, "the parts of a step", (size_t)n * sizeof *list);
    return list;
}

int64_t rx_steps_length(const rx_steps *s, const rx_view *v, int axis, int64_t widen)
{
    const int64_t dim = v->dim[axis], half = (dim + 1) / 2;
    const uint64_t step = rx_part_step(v, axis) * (uint64_t)widen;
    const uint64_t room = rx_part_room(s->part->call.caps, v->dtype);
    const int64_t length = step ? (int64_t)(room / step) : half;
    return length < 1 ? 1 : length < half ? length : half;
}

bool rx_steps_is_outer(const rx_view *v, int axis)
{
    for (int i = 0; i < axis; i++)
        if (v->dim[i] > 1)
            return false;
    return v->dim[axis] > 1;
}

int64_t rx_steps_count(int64_t dim, int64_t length) { return (dim + length - 1) / length; }

rx_tensor rx_steps_narrow(const rx_tensor *x, int axis, int64_t first, int64_t length)
{
    const int64_t left = x->view.dim[axis] - first;
    return (rx_tensor){rx_part_narrow(&x->view, axis, first, left < length ? left : length),
                       x->ref};
}
