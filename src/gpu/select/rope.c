/* SPDX-License-Identifier: MIT */
/* rope on GPUs, alone or merged into the state_write of its result. */
#include "gpu/select/rope.h"

#include "gpu/select/attention.h"
#include "gpu/select/product.h"
#include "gpu/select/rows.h"
#include "gpu/split/split.h"

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

/* True when heads, and the halves of the rotated part, consist of aligned vectors. */
static bool rotates_vectors(const rotation *r)
{
    return rx_attention_is_aligned(&r->in[X], r->per) &&
           r->desc->n_rot % (r->desc->interleaved ? r->per : 2 * r->per) == 0;
}

/* A rotation of all of x into the result of the call. */
static rx_args_rope make_args(const rotation *r)
{
    const rx_view *x = &r->in[X], *cosine = &r->in[COS], *sine = &r->in[SIN], *at = r->at;
    return (rx_args_rope){
        .bind = {.x = r->first + X, .cosines = r->first + COS, .sines = r->first + SIN,
                 .index = at ? r->first + POSITIONS : RX_REF_NONE, .flags = RX_REF_FLAGS,
                 .y = RX_REF_OUT(0)},
        .spec = {.T = x->dtype, .TTABLE = cosine->dtype, .TINDEX = at ? at->dtype : RLX_NO_TYPE,
                 .OPTIONS = (r->desc->interleaved ? RX_CODE_ROPE_INTERLEAVED : 0u) |
                            (r->desc->backward ? RX_CODE_ROPE_BACKWARD : 0u) |
                            (r->desc->layout == RLX_BSHD ? RX_CODE_ROPE_SEQ_FIRST : 0u),
                 .D = (uint32_t)x->dim[3], .N_ROT = (uint32_t)r->desc->n_rot},
        .push = {.n = (uint32_t)rx_view_elements(x), .dim1 = (uint32_t)x->dim[1],
                 .dim2 = (uint32_t)x->dim[2], .x_at = rx_gpu_offset(x),
                 .x_0 = (uint32_t)x->stride[0], .x_1 = (uint32_t)x->stride[1],
                 .x_2 = (uint32_t)x->stride[2], .x_3 = (uint32_t)x->stride[3],
                 .c_at = rx_gpu_offset(cosine), .c_0 = (uint32_t)cosine->stride[0],
                 .c_1 = (uint32_t)cosine->stride[1], .s_at = rx_gpu_offset(sine),
                 .s_0 = (uint32_t)sine->stride[0], .s_1 = (uint32_t)sine->stride[1],
                 .p_at = at ? rx_gpu_offset(at) : 0,
                 .p_0 = at && at->rank == 2 ? (uint32_t)at->stride[0] : 0,
                 .p_1 = at ? (uint32_t)at->stride[at->rank - 1] : 0,
                 .n_rows = (uint32_t)cosine->dim[0], .y_at = rx_gpu_offset(&r->call->out[0])},
    };
}

/* Pairs of vectors, plus vectors that contain their own partners or have none. */
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
    const rx_args_rope a = make_args(&r);
    rx_flat_grid(rx_add_rope(b, vectors ? RX_K_rope_v4 : RX_K_rope, rx_gpu_local(c->caps, 256),
                             &a), c->caps,
                 vectors ? count_vectors(&r) : rx_ceil_div(n, x->dtype == RLX_F32 ? 1 : 2));
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
    const rx_gpu_merged *f = c->prologue;
    const rx_view *x = &f->in[X], *update = &c->in[1], *state = &c->out[0];
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
    rotation r = make_rotation(c, f->attr, f->in, N_OPERANDS, RX_REF_PROLOGUE);
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
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
    rotation r = make_rotation(c, c->prologue->attr, c->prologue->in, N_OPERANDS, RX_REF_PROLOGUE);
    const rx_args_rope rope = make_args(&r);
    const rx_args_rope_write a = {
        .bind = {.rope = rope.bind, .place = place},
        .spec = {.rope = rope.spec, .TO = state->dtype, .TPLACE = position->dtype,
                 .ONE = place == RX_REF_IN(2)},
        .push = {.rope = rope.push, .place_at = rx_gpu_offset(position),
                 .n_lines = (uint32_t)(state->stride[axis] / r.in[X].dim[3]),
                 .axis_size = (uint32_t)state->dim[axis]},
    };
    rx_flat_grid(rx_add_rope_write(b, RX_K_rope_write, rx_gpu_local(c->caps, 256), &a), c->caps,
                 count_vectors(&r));
    return b->status;
}
