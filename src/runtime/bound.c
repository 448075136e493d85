/* SPDX-License-Identifier: MIT */
/* Views of values and records of steps at bound dimensions, for all backends. */
#include "runtime/bound.h"

#include <string.h>

#include "base/error.h"

static bool alloc_record(rx_arena *a, rx_op op, void **out)
{
    *out = rx_arena_alloc(a, rx_ops[op].attr->size);
    return *out;
}

bool rx_bound_init(rx_bound *b, const rx_program *p, rx_arena *a)
{
    *b = (rx_bound){.program = p,
                    .dims = rx_arena_array_zero(a, p->n_dims, sizeof *b->dims),
                    .views = rx_arena_array_zero(a, p->n_values, sizeof *b->views),
                    .view_attrs = rx_arena_array_zero(a, p->n_values, sizeof *b->view_attrs),
                    .step_attrs = rx_arena_array_zero(a, p->n_steps, sizeof *b->step_attrs)};
    if (!b->dims || !b->views || !b->view_attrs || !b->step_attrs)
        return false;
    if (!p->n_dims)
        return true;
    for (size_t i = 0; i < p->n_values; i++)
        if (p->values[i].view_of >= 0 &&
            !alloc_record(a, p->values[i].view_op, &b->view_attrs[i]))
            return false;
    for (size_t i = 0; i < p->n_steps; i++)
        if (!alloc_record(a, p->steps[i].op, &b->step_attrs[i]))
            return false;
    return true;
}

static const void *resolve(const rx_bound *b, rx_op op, const void *attr, void *copy)
{
    if (!copy || !attr)
        return attr;
    memcpy(copy, attr, rx_ops[op].attr->size);
    rx_attr_resolve(rx_ops[op].attr, copy, b->dims);
    return copy;
}

static bool update_value(rx_bound *b, size_t i)
{
    const rx_pvalue *v = &b->program->values[i];
    rx_view *view = &b->views[i];
    int64_t dim[RLX_MAX_RANK];
    for (int k = 0; k < v->shape.rank; k++)
        dim[k] = rx_dim_value(v->shape.dim[k], b->dims);
    rx_view_set_dense(view, v->dtype, v->shape.rank, dim);
    if (v->view_of < 0)
        return true;
    const rx_view *base = &b->views[v->view_of];
    view->data = base->data;
    if (rx_view_elements(view) == 0)
        return true;
    const void *attr = resolve(b, v->view_op, v->view_attr, b->view_attrs[i]);
    return rx_view_apply(v->view_op, attr, base, view);
}

rlx_status rx_bound_update(rx_bound *b, const int64_t *dims, rlx_error *err)
{
    const rx_program *p = b->program;
    if (p->n_dims)
        memmove(b->dims, dims, p->n_dims * sizeof *dims);
    for (size_t i = 0; i < p->n_values; i++)
        if (!update_value(b, i))
            return rx_fail(err, RLX_INTERNAL, "value %zu: %s of a tensor that is not dense cannot "
                           "be a view", i, rx_ops[p->values[i].view_op].name);
    return RLX_OK;
}

const void *rx_bound_attr(const rx_bound *b, size_t step)
{
    const rx_step *s = &b->program->steps[step];
    return resolve(b, s->op, s->attr, b->step_attrs[step]);
}
