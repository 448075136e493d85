/* SPDX-License-Identifier: MIT */
/* rope on GPUs, alone or as part of the state_write that keeps its result. */
#include "gpu/rope.h"

#include "gpu/attention.h"
#include "gpu/product.h"
#include "gpu/rows.h"
#include "gpu/split.h"

/* Operands of rope, in order. */
enum { X, COS, SIN, POSITIONS, N_OPERANDS };

typedef struct rotation {
    const rx_gpu_call *call;
    const rlx_rope_desc *desc;
    const rx_view *in, *at; /* at: the positions, or NULL */
    rx_gpu_ref first;       /* of operand 0; the others follow */
    int64_t per;            /* elements of 16 bytes of x */
} rotation;

static rotation make_rotation(const rx_gpu_call *c, const void *desc, const rx_view *in,
                              size_t n_in, rx_gpu_ref first)
{
    rotation r = {.call = c, .desc = desc, .in = in, .first = first};
    r.at = n_in > POSITIONS && in[POSITIONS].rank >= 0 ? &in[POSITIONS] : NULL;
    r.per = in[X].dtype == RLX_F32 ? 4 : 8;
    return r;
}

/* True when heads, and the halves of what is rotated, are made of aligned vectors. */
static bool rotates_vectors(const rotation *r)
{
    return rx_attention_is_aligned(&r->in[X], r->per) &&
           r->desc->n_rot % (r->desc->interleaved ? r->per : 2 * r->per) == 0;
}

static void push_strides(rx_gpu_dispatch *d, const rx_view *v)
{
    rx_gpu_push(d, rx_gpu_offset(v));
    for (int i = 0; i < v->rank; i++)
        rx_gpu_push(d, (uint32_t)v->stride[i]);
}

/* A dispatch of kernel k for all of x; the result is the call's. */
static rx_gpu_dispatch *add_rotation(rx_gpu_build *b, const rotation *r, rx_kernel k)
{
    const rx_view *x = &r->in[X], *at = r->at;
    rx_gpu_dispatch *d = rx_gpu_add(b, k, rx_gpu_local(r->call->caps, 256));
    rx_gpu_bind(d, r->first + X, false);
    rx_gpu_bind(d, r->first + COS, false);
    rx_gpu_bind(d, r->first + SIN, false);
    rx_gpu_bind(d, at ? r->first + POSITIONS : RX_REF_NONE, false);
    rx_gpu_bind(d, RX_REF_FLAGS, true);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    const uint32_t options = (uint32_t)r->desc->interleaved | (uint32_t)r->desc->backward << 1 |
                             (uint32_t)(r->desc->layout == RLX_BSHD) << 2;
    const uint32_t spec[] = {x->dtype, r->in[COS].dtype, at ? at->dtype : RLX_NO_TYPE, options,
                             (uint32_t)x->dim[3], (uint32_t)r->desc->n_rot};
    for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++)
        rx_gpu_spec(d, spec[i]);
    rx_gpu_push(d, (uint32_t)rx_view_elements(x));
    rx_gpu_push(d, (uint32_t)x->dim[1]);
    rx_gpu_push(d, (uint32_t)x->dim[2]);
    push_strides(d, x);
    push_strides(d, &r->in[COS]);
    push_strides(d, &r->in[SIN]);
    rx_gpu_push(d, at ? rx_gpu_offset(at) : 0);
    rx_gpu_push(d, at && at->rank == 2 ? (uint32_t)at->stride[0] : 0);
    rx_gpu_push(d, at ? (uint32_t)at->stride[at->rank - 1] : 0);
    rx_gpu_push(d, (uint32_t)r->in[COS].dim[0]);
    rx_gpu_push(d, rx_gpu_offset(&r->call->out[0]));
    return d;
}

/* One invocation for each piece of work. */
static void set_grid(rx_gpu_dispatch *d, const rotation *r, uint64_t n)
{
    rx_gpu_grid(d, r->call->caps, rx_ceil_div(n, d->spec[0]));
}

/* Pairs of vectors, and vectors that have their partners in themselves or none. */
static uint64_t count_vectors(const rotation *r)
{
    const rx_view *x = &r->in[X];
    int64_t paired = r->desc->interleaved ? 0 : r->desc->n_rot / 2 / r->per;
    return (uint64_t)(rx_view_elements(x) / x->dim[3] * (x->dim[3] / r->per - paired));
}

rlx_status rx_gpu_lower_rope(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *x = &c->in[X], *y = &c->out[0];
    uint64_t n = (uint64_t)rx_view_elements(y);
    if (n == 0)
        return RLX_OK;
    if (!rx_product_is_indexable(c))
        return rx_gpu_fail(b, c, "an operand has more than 2^32 elements");
    rotation r = make_rotation(c, c->attr, c->in, c->n_in, RX_REF_IN(X));
    bool vectors = rotates_vectors(&r) && rx_gpu_offset(y) % r.per == 0;
    rx_gpu_dispatch *d = add_rotation(b, &r, vectors ? RX_K_rope_v4 : RX_K_rope);
    set_grid(d, &r, vectors ? count_vectors(&r) : rx_ceil_div(n, x->dtype == RLX_F32 ? 1 : 2));
    return b->status;
}

/* ---- Into a state ---------------------------------------------------------------------------- */

/* The state is rows of slices: the axis is the first that is longer than 1. */
static bool is_rows(const rx_view *state, int axis)
{
    for (int i = 0; i < axis; i++)
        if (state->dim[i] != 1)
            return false;
    return rx_view_is_dense(state) && rx_gpu_offset(state) % 8 == 0;
}

bool rx_rope_takes_write(const rx_gpu_call *c)
{
    const rx_gpu_fold *f = c->fold;
    const rx_view *x = &f->in[X], *update = &c->in[1], *state = &c->out[0];
    const int axis = (int)((const rlx_axis_desc *)c->attr)->axis;
    rotation r = make_rotation(c, f->attr, f->in, N_OPERANDS, RX_REF_FOLD);
    const rx_gpu_call rope = {.op = RX_OP_rope, .n_in = N_OPERANDS, .in = f->in, .n_out = 1,
                              .out = update, .caps = c->caps};
    if (rx_view_elements(x) == 0 || rx_view_elements(x) != rx_view_elements(update) ||
        !rx_view_is_dense(update) || !is_rows(state, axis) || c->in[2].rank > 1)
        return false;
    if (state->dtype != x->dtype &&
        (x->dtype != RLX_F32 || (state->dtype != RLX_F16 && state->dtype != RLX_BF16)))
        return false;
    if (state->stride[axis] % x->dim[3] || c->aliased || !rx_product_is_indexable(c) ||
        !rx_product_is_indexable(&rope))
        return false;
    return rotates_vectors(&r) && c->caps->max_bindings >= 7 && rx_gpu_fits(c) &&
           rx_gpu_fits(&rope);
}

rlx_status rx_rope_write(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_ref place)
{
    const rx_view *position = &c->in[2], *state = &c->out[0];
    const int axis = (int)((const rlx_axis_desc *)c->attr)->axis;
    rotation r = make_rotation(c, c->fold->attr, c->fold->in, N_OPERANDS, RX_REF_FOLD);
    rx_gpu_dispatch *d = add_rotation(b, &r, RX_K_rope_write);
    rx_gpu_bind(d, place, false);
    rx_gpu_spec(d, state->dtype);
    rx_gpu_spec(d, position->dtype);
    rx_gpu_spec(d, place == RX_REF_IN(2));
    rx_gpu_push(d, rx_gpu_offset(position));
    rx_gpu_push(d, (uint32_t)(state->stride[axis] / r.in[X].dim[3]));
    rx_gpu_push(d, (uint32_t)state->dim[axis]);
    set_grid(d, &r, count_vectors(&r));
    return b->status;
}
