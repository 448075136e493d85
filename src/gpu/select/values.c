/* SPDX-License-Identifier: MIT */
/* Values and steps of a program at bound dimensions, as arguments of lowering functions. */
#include <string.h>

#include "base/map.h"
#include "gpu/select/plan.h"

/* ---- Values --------------------------------------------------------------------------------- */

bool rx_gpu_values_init(rx_gpu_values *v, const rx_program *p, rx_arena *a)
{
    size_t most = 1;
    for (size_t i = 0; i < p->n_steps; i++) {
        size_t n = (size_t)p->steps[i].n_in + p->steps[i].n_out;
        most = n > most ? n : most;
    }
    *v = (rx_gpu_values){.program = p,
                         .roots = rx_arena_array(a, p->n_values, sizeof *v->roots),
                         .operands = rx_arena_array(a, most, sizeof *v->operands),
                         .is_param = rx_arena_array(a, most, sizeof *v->is_param),
                         .operand_roots = rx_arena_array(a, most, sizeof *v->operand_roots)};
    if (!v->roots || !v->operands || !v->is_param || !v->operand_roots ||
        !rx_bound_init(&v->bound, p, a))
        return false;
    for (size_t i = 0; i < p->n_values; i++)
        v->roots[i] = p->values[i].view_of < 0 ? (uint32_t)i : v->roots[p->values[i].view_of];
    return true;
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
        v->operands[k] = value == RX_NO_VALUE ? absent : v->bound.views[value];
        v->is_param[k] = value != RX_NO_VALUE && is_weight(v, value);
        v->operand_roots[k] = value == RX_NO_VALUE ? RX_NO_VALUE : v->roots[value];
    }
    const bool in_place = s->op == RX_OP_state_write && v->roots[s->in[0]] == v->roots[s->in[1]];
    return (rx_gpu_call){.op = s->op, .aliased = in_place ? 1u << 1 : 0,
                         .attr = rx_bound_attr(&v->bound, step),
                         .n_in = s->n_in, .n_out = s->n_out, .in = v->operands,
                         .out = v->operands + s->n_in, .is_param = v->is_param,
                         .roots = v->operand_roots, .caps = caps,
                         .policy = v->program->policy,
                         .invariant = v->program->invariant};
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

/* The work of a step at the bound dimensions relative to that at their upper bounds, by the size of
 * its first result. */
static double part_of_bounds(const rx_gpu_values *v, const rx_step *s)
{
    const uint32_t out = s->n_out ? s->out[0] : RX_NO_VALUE;
    if (out == RX_NO_VALUE || rlx_dtype_is_packed(v->bound.views[out].dtype))
        return 1;
    double most = (double)v->program->values[out].bytes;
    double now = (double)rx_view_elements(&v->bound.views[out]) *
                 (double)rlx_dtype_block_bytes(v->bound.views[out].dtype);
    return now < most ? now / most : 1;
}

/* An upper estimate of the seconds of a step, used only to cut runs into pieces. */
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
