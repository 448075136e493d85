/* SPDX-License-Identifier: MIT */
/* Values and steps of a program at bound dimensions, as lowering functions take them. */
#include <string.h>

#include "base/map.h"
#include "gpu/select/plan.h"

/* ---- Memory --------------------------------------------------------------------------------- */

static void *copied_record(rx_arena *a, rx_op op, bool *ok)
{
    void *record = rx_arena_alloc(a, rx_ops[op].attr->size);
    *ok = *ok && record;
    return record;
}

/* Records that may hold dimension handles get a copy to resolve into. */
static bool alloc_records(rx_gpu_values *v, rx_arena *a)
{
    const rx_program *p = v->program;
    bool ok = true;
    if (!p->n_dims)
        return true;
    for (size_t i = 0; i < p->n_values && ok; i++)
        if (p->values[i].view_of >= 0)
            v->view_attrs[i] = copied_record(a, p->values[i].view_op, &ok);
    for (size_t i = 0; i < p->n_steps && ok; i++)
        v->step_attrs[i] = copied_record(a, p->steps[i].op, &ok);
    return ok;
}

bool rx_gpu_values_init(rx_gpu_values *v, const rx_program *p, rx_arena *a)
{
    size_t most = 1;
    for (size_t i = 0; i < p->n_steps; i++) {
        size_t n = (size_t)p->steps[i].n_in + p->steps[i].n_out;
        most = n > most ? n : most;
    }
    *v = (rx_gpu_values){.program = p,
                         .roots = rx_arena_array(a, p->n_values, sizeof *v->roots),
                         .views = rx_arena_array_zero(a, p->n_values, sizeof *v->views),
                         .view_attrs = rx_arena_array_zero(a, p->n_values, sizeof *v->view_attrs),
                         .step_attrs = rx_arena_array_zero(a, p->n_steps, sizeof *v->step_attrs),
                         .dims = rx_arena_array_zero(a, p->n_dims, sizeof *v->dims),
                         .operands = rx_arena_array(a, most, sizeof *v->operands),
                         .is_param = rx_arena_array(a, most, sizeof *v->is_param),
                         .operand_roots = rx_arena_array(a, most, sizeof *v->operand_roots)};
    if (!v->roots || !v->views || !v->view_attrs || !v->step_attrs || !v->dims || !v->operands ||
        !v->is_param || !v->operand_roots || !alloc_records(v, a))
        return false;
    for (size_t i = 0; i < p->n_values; i++)
        v->roots[i] = p->values[i].view_of < 0 ? (uint32_t)i : v->roots[p->values[i].view_of];
    return true;
}

/* ---- Views ---------------------------------------------------------------------------------- */

static const void *resolve_record(const rx_gpu_values *v, rx_op op, const void *attr, void *copy)
{
    if (!copy || !attr)
        return attr;
    memcpy(copy, attr, rx_ops[op].attr->size);
    rx_attr_resolve(rx_ops[op].attr, copy, v->dims);
    return copy;
}

static bool update_value(rx_gpu_values *v, size_t index)
{
    const rx_pvalue *value = &v->program->values[index];
    rx_view *view = &v->views[index];
    int64_t dim[RLX_MAX_RANK];
    for (int i = 0; i < value->shape.rank; i++)
        dim[i] = rx_dim_value(value->shape.dim[i], v->dims);
    rx_view_set_dense(view, value->dtype, value->shape.rank, dim);
    view->data = NULL; /* offset 0 */
    if (value->view_of < 0 || rx_view_elements(view) == 0)
        return true;
    const void *attr = resolve_record(v, value->view_op, value->view_attr, v->view_attrs[index]);
    return rx_view_apply(value->view_op, attr, &v->views[value->view_of], view);
}

rlx_status rx_gpu_values_update(rx_gpu_values *v, const int64_t *dims, rlx_error *err)
{
    const rx_program *p = v->program;
    if (p->n_dims)
        memmove(v->dims, dims, p->n_dims * sizeof *dims); /* may be those it has */
    for (size_t i = 0; i < p->n_values; i++)
        if (!update_value(v, i))
            return rx_fail(err, RLX_INTERNAL, "value %zu: %s of a tensor that is not dense cannot "
                           "be a view", i, rx_ops[p->values[i].view_op].name);
    return RLX_OK;
}

uint64_t rx_gpu_derived_key(const rx_view *v, const rx_gpu_derived *want)
{
    uint64_t h = rx_hash_keyed(want->kind, &want->bytes, sizeof want->bytes);
    uint64_t head[3] = {(uint64_t)(uintptr_t)v->data, (uint64_t)v->dtype, (uint64_t)v->rank};
    h = rx_hash_keyed(h, head, sizeof head);
    h = rx_hash_keyed(h, v->dim, (size_t)v->rank * sizeof *v->dim);
    return rx_hash_keyed(h, v->stride, (size_t)v->rank * sizeof *v->stride);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static bool is_weight(const rx_gpu_values *v, uint32_t value)
{
    rx_space s = v->program->values[v->roots[value]].space;
    return s == RX_SPACE_PARAM || s == RX_SPACE_CONSTANT;
}

rx_gpu_call rx_gpu_values_call(rx_gpu_values *v, size_t step, const rx_gpu_caps *caps)
{
    static const rx_view absent = {.rank = -1};
    const rx_step *s = &v->program->steps[step];
    for (uint32_t k = 0; k < s->n_in + s->n_out; k++) {
        uint32_t value = k < s->n_in ? s->in[k] : s->out[k - s->n_in];
        v->operands[k] = value == RX_NO_VALUE ? absent : v->views[value];
        v->is_param[k] = value != RX_NO_VALUE && is_weight(v, value);
        v->operand_roots[k] = value == RX_NO_VALUE ? RX_NO_VALUE : v->roots[value];
    }
    const bool in_place = s->op == RX_OP_state_write && v->roots[s->in[0]] == v->roots[s->in[1]];
    return (rx_gpu_call){.op = s->op, .aliased = in_place ? 1u << 1 : 0,
                         .attr = resolve_record(v, s->op, s->attr, v->step_attrs[step]),
                         .n_in = s->n_in, .n_out = s->n_out, .in = v->operands,
                         .out = v->operands + s->n_in, .is_param = v->is_param,
                         .roots = v->operand_roots, .caps = caps,
                         .policy = v->program->policy};
}

void rx_gpu_build_finish(rx_gpu_build *b)
{
    rx_free(b->dispatch);
    rx_free(b->scratch);
    rx_free(b->derived);
    rx_free(b->tables);
}

/* ---- Dispatches ----------------------------------------------------------------------------- */

const char *rx_gpu_dispatch_name(const rx_gpu_dispatch *x)
{
    if (x->kernel != RX_K_EMITTED)
        return rx_kernels[x->kernel].name;
    return x->name ? x->name : "emitted";
}

rlx_status rx_gpu_dispatch_check(const rx_gpu_dispatch *x, const rx_gpu_caps *c, size_t step,
                                 rlx_error *err)
{
    const char *what = NULL;
    if (x->kernel != RX_K_EMITTED && !rx_kernel_available(x->kernel, c))
        what = "features";
    else if (x->n_bind > c->max_bindings)
        what = "bindings";
    else if (x->n_push * 4 > c->max_push_bytes)
        what = "push constants";
    else if (x->spec[0] > c->max_invocations)
        what = "invocations";
    for (int i = 0; i < 3; i++)
        if (x->groups[i] > c->max_groups[i])
            what = "workgroups";
    if (!what)
        return RLX_OK;
    return rx_fail(err, RLX_INTERNAL, "step %zu: kernel '%s' needs more %s than the device has",
                   step, rx_gpu_dispatch_name(x), what);
}

uint64_t rx_gpu_dispatch_hash(const rx_gpu_dispatch *x, uint64_t seed)
{
    uint32_t head[3] = {(uint32_t)x->kernel, x->n_bind, x->n_spec};
    uint64_t h = rx_hash_keyed(seed, head, sizeof head);
    h = rx_hash_keyed(h, x->spec, x->n_spec * sizeof *x->spec);
    if (x->kernel == RX_K_EMITTED)
        h = rx_hash_keyed(h, x->code, x->code_words * sizeof *x->code);
    return h;
}

/* The part of the work at the bounds of the dimensions that a step has with those of now, by the
 * size of its first result. */
static double part_of_bounds(const rx_gpu_values *v, const rx_step *s)
{
    const uint32_t out = s->n_out ? s->out[0] : RX_NO_VALUE;
    if (out == RX_NO_VALUE || rlx_dtype_is_packed(v->views[out].dtype))
        return 1;
    double most = (double)v->program->values[out].bytes;
    double now = (double)rx_view_elements(&v->views[out]) *
                 (double)rlx_dtype_block_bytes(v->views[out].dtype);
    return now < most ? now / most : 1;
}

/* Seconds that a step takes at most, as a guess: only for cutting. */
static double guess_seconds(const rx_gpu_values *v, const rx_gpu_caps *caps, const rx_step *s)
{
    double flops = caps->is_software ? 2e9 : 1e12, bytes = caps->is_software ? 1e9 : 1e11;
    return s->flops / flops * part_of_bounds(v, s) + s->bytes / bytes;
}

#define PIECE_SECONDS 0.2

size_t rx_gpu_piece_end(const rx_gpu_values *v, const rx_gpu_caps *caps, size_t first)
{
    const rx_program *p = v->program;
    double seconds = 0;
    size_t i = first;
    while (i < p->n_steps && (i == first || seconds < PIECE_SECONDS))
        seconds += guess_seconds(v, caps, &p->steps[i++]);
    return i;
}
