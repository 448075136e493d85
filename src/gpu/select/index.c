/* SPDX-License-Identifier: MIT */
/* gather, gather_elements, gather_nd, scatter_elements, scatter_nd, scatter_add and state_write on
 * GPUs. A scatter is two kernels: the first builds a linked list of updates per element, the second
 * applies each list; no two invocations write the same word, and the result is deterministic. */
#include <string.h>

#include "gpu/select/region.h"
#include "gpu/select/rope.h"
#include "gpu/select/walk.h"

/* ---- gather, gather_nd ----------------------------------------------------------------------- */

/* See gather.comp; sizes in elements. */
typedef struct gathering {
    uint64_t inner, count, index_batch, x_batch;
    int k;                       /* length of an index tuple, for consecutive axes of x from `axis`
                                  * on */
    int axis;
} gathering;

static void add_gather(rx_gpu_build *b, const rx_gpu_call *c, const gathering *g)
{
    const rx_view *x = &c->in[0], *index = &c->in[1], *y = &c->out[0];
    uint64_t bytes = (uint64_t)rlx_dtype_block_bytes(x->dtype);
    uint32_t unit = rx_unit_of(g->inner * bytes | (uint64_t)(uintptr_t)x->data);
    uint64_t total = (uint64_t)rx_view_elements(y) * bytes / unit;
    uint64_t work = unit >= 4 ? total : (total * unit + 3) / 4;
    const bool is_part = c->part_total != 0;
    rx_args_gather a = {
        .bind = {.x = RX_REF_IN(0), .index = RX_REF_IN(1), .y = RX_REF_OUT(0),
                 .flags = RX_REF_FLAGS},
        .spec = {.BITS = unit >= 4 ? 32 : unit * 8, .TINDEX = index->dtype, .K = (uint32_t)g->k},
        .push = {.n = (uint32_t)work, .total = (uint32_t)total,
                 .inner = (uint32_t)(g->inner * bytes / unit), .count = (uint32_t)g->count,
                 .index_batch = (uint32_t)g->index_batch,
                 .x_batch = (uint32_t)(g->x_batch * bytes / unit),
                 .x_at = (uint32_t)((uintptr_t)x->data / unit), .index_at = rx_gpu_offset(index),
                 .part_first = (uint32_t)c->part_first,
                 .part_rows = is_part ? (uint32_t)x->dim[g->axis] : UINT32_MAX},
    };
    for (int i = 0; i < RLX_MAX_RANK; i++) {
        uint64_t stride = i < g->k ? rx_product_of(x->dim, g->axis + i + 1, x->rank) : 0;
        a.push.dim[i] = i >= g->k ? 1 : i == 0 && is_part ? (uint32_t)c->part_total
                                                          : (uint32_t)x->dim[g->axis + i];
        a.push.stride[i] = (uint32_t)(stride * bytes / unit);
    }
    rx_gpu_dispatch *d = rx_add_gather(b, unit == 16 ? RX_K_gather_wide : RX_K_gather,
                                       rx_flat_local(c->caps), &a);
    rx_flat_grid(d, c->caps, work);
}

/* Decoded rows of a packed matrix [rows, n]: experts [1, n] of a bank. */
static rlx_status lower_packed_rows(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *x = &c->in[0], *index = &c->in[1];
    const int64_t count = rx_view_elements(index);
    const int64_t bank[] = {x->dim[0], 1, x->dim[1]}, rows[] = {count, 1, x->dim[1]};
    rx_view in[2] = {*x, *index}, out = c->out[0];
    rx_view_set_dense(&in[0], x->dtype, 3, bank);
    rx_view_set_dense(&in[1], index->dtype, 1, &count);
    rx_view_set_dense(&out, out.dtype, 3, rows);
    rx_gpu_call decode = *c;
    decode.in = in;
    decode.out = &out;
    return rx_gpu_lower_dequant_moe_weights(b, &decode);
}

rlx_status rx_gpu_lower_gather(rx_gpu_build *b, const rx_gpu_call *c)
{
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
    const rx_view *x = &c->in[0], *index = &c->in[1], *y = &c->out[0];
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    if (rlx_dtype_is_packed(x->dtype))
        return lower_packed_rows(b, c);
    gathering g = {.inner = rx_product_of(x->dim, axis + 1, x->rank),
                   .count = (uint64_t)rx_view_elements(index), .k = 1, .axis = axis};
    g.x_batch = (uint64_t)x->dim[axis] * g.inner;
    add_gather(b, c, &g);
    return RLX_OK;
}

rlx_status rx_gpu_lower_gather_nd(rx_gpu_build *b, const rx_gpu_call *c)
{
    const int batch = (int)((const rx_gather_nd_attr *)c->attr)->batch_dims;
    const rx_view *x = &c->in[0], *index = &c->in[1], *y = &c->out[0];
    const int last = index->rank - 1;
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    gathering g = {.k = (int)index->dim[last], .axis = batch};
    g.inner = rx_product_of(x->dim, batch + g.k, x->rank);
    g.count = g.index_batch = rx_product_of(index->dim, batch, last);
    g.x_batch = rx_product_of(x->dim, batch, x->rank);
    add_gather(b, c, &g);
    return RLX_OK;
}

/* ---- gather_elements ------------------------------------------------------------------------- */

rlx_status rx_gpu_lower_gather_elements(rx_gpu_build *b, const rx_gpu_call *c)
{
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
    const rx_view *x = &c->in[0], *index = &c->in[1], *y = &c->out[0];
    int64_t n = rx_view_elements(y), stride[RLX_MAX_RANK];
    if (n == 0)
        return RLX_OK;
    memcpy(stride, x->stride, sizeof stride);
    stride[axis] = 0;
    rx_walk w = rx_walk_make(y->rank, y->dim);
    rx_walk_add(&w, stride);
    rx_walk_add(&w, index->stride);
    rx_walk_collapse(&w, 0);
    const uint64_t work = rx_words_of(y->dtype, n);
    rx_args_gather_elements a = {
        .bind = {.x = RX_REF_IN(0), .index = RX_REF_IN(1), .y = RX_REF_OUT(0),
                 .flags = RX_REF_FLAGS},
        .spec = {.BITS = rx_bits_of(y->dtype), .TINDEX = index->dtype, .RANK = (uint32_t)w.rank},
        .push = {.n = (uint32_t)work, .total = (uint32_t)n, .x_at = rx_gpu_offset(x),
                 .index_at = rx_gpu_offset(index), .axis_size = (uint32_t)x->dim[axis],
                 .axis_stride = (uint32_t)x->stride[axis]},
    };
    rx_walk_dims(&w, a.push.dim);
    rx_walk_strides(&w, 0, a.push.x_stride);
    rx_walk_strides(&w, 1, a.push.index_stride);
    rx_gpu_dispatch *d = rx_add_gather_elements(b, RX_K_gather_elements, rx_flat_local(c->caps),
                                                &a);
    rx_flat_grid(d, c->caps, work);
    return RLX_OK;
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* Updates as rows of `inner` elements, written to rows of [outer, n_rows, inner]. */
typedef struct scattering {
    rlx_scatter_mode mode;
    uint64_t n_rows, inner, n_updates;
    int k;                           /* length of an index tuple, for axes 0 .. k-1; 0: elements */
    uint32_t dim[RLX_MAX_RANK], stride[RLX_MAX_RANK];
    int n_axes;                      /* of dim and stride */
    uint32_t axis_size, axis_stride; /* elements only */
} scattering;

static void add_links(rx_gpu_build *b, const rx_gpu_call *c, const scattering *s,
                      const rx_gpu_ref list[2])
{
    const rx_view *index = &c->in[1];
    rx_args_scatter_link a = {
        .bind = {.index = RX_REF_IN(1), .head = list[0], .next = list[1], .flags = RX_REF_FLAGS},
        .spec = {.TINDEX = index->dtype, .K = (uint32_t)s->n_axes,
                 .LAST = s->mode == RLX_SCATTER_NONE, .ELEMENTS = s->k == 0},
        .push = {.n = (uint32_t)s->n_updates, .index_at = rx_gpu_offset(index),
                 .axis_size = s->axis_size, .axis_stride = s->axis_stride},
    };
    for (int i = 0; i < RLX_MAX_RANK; i++) {
        a.push.dim[i] = i < s->n_axes ? s->dim[i] : 1;
        a.push.stride[i] = i < s->n_axes ? s->stride[i] : 0;
    }
    rx_gpu_dispatch *d = rx_add_scatter_link(b, RX_K_scatter_link, rx_flat_local(c->caps), &a);
    rx_flat_grid(d, c->caps, s->n_updates);
}

static rlx_status add_scatter(rx_gpu_build *b, const rx_gpu_call *c, const scattering *s)
{
    const rx_view *x = &c->in[0], *update = &c->in[2], *y = &c->out[0];
    if (!s->n_updates)
        return rx_gpu_add_dense_copy(b, c, (rx_gpu_operand){*x, RX_REF_IN(0)},
                                     (rx_gpu_operand){*y, RX_REF_OUT(0)});
    bool has_lists = s->mode != RLX_SCATTER_NONE;
    rx_gpu_ref list[2] = {rx_gpu_scratch(b, s->n_rows * 4), RX_REF_NONE};
    if (has_lists)
        list[1] = rx_gpu_scratch(b, s->n_updates * 4);
    const uint32_t local = rx_flat_local(c->caps);
    const rx_args_clear zero = {.bind = {.y = list[0]}, .push = {.n = (uint32_t)s->n_rows}};
    rx_flat_grid(rx_add_clear(b, RX_K_clear, local, &zero), c->caps, s->n_rows);
    add_links(b, c, s, list);
    const int64_t n = rx_view_elements(y);
    const uint64_t work = rx_words_of(y->dtype, n);
    const rx_args_scatter a = {
        .bind = {.x = RX_REF_IN(0), .update = RX_REF_IN(2), .head = list[0], .next = list[1],
                 .y = RX_REF_OUT(0)},
        .spec = {.T = y->dtype, .MODE = s->mode},
        .push = {.n = (uint32_t)work, .total = (uint32_t)n, .x_at = rx_gpu_offset(x),
                 .update_at = rx_gpu_offset(update), .n_rows = (uint32_t)s->n_rows,
                 .inner = (uint32_t)s->inner, .n_updates = (uint32_t)s->n_updates},
    };
    rx_flat_grid(rx_add_scatter(b, RX_K_scatter, local, &a), c->caps, work);
    return RLX_OK;
}

rlx_status rx_gpu_lower_scatter_elements(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_scatter_attr *a = c->attr;
    const rx_view *index = &c->in[1], *y = &c->out[0];
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    scattering s = {.mode = a->mode, .n_rows = (uint64_t)rx_view_elements(y), .inner = 1,
                    .n_updates = (uint64_t)rx_view_elements(index), .n_axes = y->rank,
                    .axis_size = (uint32_t)y->dim[a->axis],
                    .axis_stride = (uint32_t)y->stride[a->axis]};
    for (int i = 0; i < y->rank; i++) {
        s.dim[i] = (uint32_t)index->dim[i];
        s.stride[i] = i == a->axis ? 0 : (uint32_t)y->stride[i];
    }
    return add_scatter(b, c, &s);
}

rlx_status rx_gpu_lower_scatter_nd(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *index = &c->in[1], *y = &c->out[0];
    const int last = index->rank - 1;
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    scattering s = {.mode = ((const rx_scatter_attr *)c->attr)->mode, .k = (int)index->dim[last]};
    s.n_axes = s.k;
    s.n_updates = rx_product_of(index->dim, 0, last);
    s.n_rows = rx_product_of(y->dim, 0, s.k);
    s.inner = rx_product_of(y->dim, s.k, y->rank);
    for (int i = 0; i < s.k; i++) {
        s.dim[i] = (uint32_t)y->dim[i];
        s.stride[i] = (uint32_t)rx_product_of(y->dim, i + 1, s.k);
    }
    return add_scatter(b, c, &s);
}

rlx_status rx_gpu_lower_scatter_add(rx_gpu_build *b, const rx_gpu_call *c)
{
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
    const rx_view *index = &c->in[1], *y = &c->out[0];
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    scattering s = {.mode = RLX_SCATTER_ADD, .k = 1, .n_axes = 1,
                    .n_rows = (uint64_t)y->dim[axis],
                    .inner = rx_product_of(y->dim, axis + 1, y->rank),
                    .n_updates = (uint64_t)index->dim[0], .stride = {1}};
    s.dim[0] = (uint32_t)s.n_rows;
    return add_scatter(b, c, &s);
}

/* ---- state_write ----------------------------------------------------------------------------- */

/* A walk over the update (tensor 0) and the state (tensor 1) in elements of `bits` bits. */
typedef struct writing {
    rx_walk walk;
    uint32_t bits, to; /* to: the type that f32 is rounded to, or 0 */
    int64_t update_at, axis_stride;
} writing;

/* Moves whole words where rows of both tensors are word-aligned; an f32 update is rounded and needs
 * no alignment of its words. */
static void widen(writing *w, int axis)
{
    rx_walk *k = &w->walk;
    const int64_t per = 32 / (int64_t)w->bits, from_per = w->to ? 1 : per;
    const int last = k->rank - 1;
    if (last < 0 || k->axis[last] == axis || k->stride[0][last] != 1 || k->stride[1][last] != 1)
        return;
    int64_t to = w->axis_stride | k->dim[last], from = w->update_at;
    for (int i = 0; i < last; i++) {
        to |= k->stride[1][i];
        from |= k->stride[0][i];
    }
    if (to & (per - 1) || from & (from_per - 1))
        return;
    w->bits = 32;
    w->update_at /= from_per;
    w->axis_stride /= per;
    k->dim[last] /= per;
    k->stride[0][last] = per / from_per;
    for (int i = 0; i < last; i++) {
        k->stride[0][i] /= from_per;
        k->stride[1][i] /= per;
    }
}

static writing make_writing(const rx_gpu_call *c, int axis, bool by_batch)
{
    const rx_view *update = &c->in[1], *state = &c->out[0];
    int64_t stride[RLX_MAX_RANK];
    writing w = {.bits = rx_bits_of(state->dtype), .update_at = rx_gpu_offset(update),
                 .axis_stride = state->stride[axis],
                 .to = update->dtype == state->dtype ? 0 : (uint32_t)state->dtype};
    memcpy(stride, state->stride, sizeof stride);
    stride[axis] = 0;
    w.walk = rx_walk_make(update->rank, update->dim);
    rx_walk_add(&w.walk, update->stride);
    rx_walk_add(&w.walk, stride);
    rx_walk_collapse(&w.walk, 1u << axis | (by_batch ? 1u : 0));
    if (w.bits < 32)
        widen(&w, axis);
    return w;
}

/* The positions of the slices, in scratch memory. */
static rx_gpu_ref add_places(rx_gpu_build *b, const rx_gpu_call *c, int axis)
{
    const rx_view *position = &c->in[2];
    int last = position->rank - 1;
    int64_t n = rx_view_elements(position);
    rx_gpu_ref place = rx_gpu_scratch(b, (uint64_t)n * 4);
    const rx_args_state_place a = {
        .bind = {.index = RX_REF_IN(2), .place = place, .flags = RX_REF_FLAGS},
        .spec = {.TINDEX = position->dtype},
        .push = {.n = (uint32_t)n, .slices = (uint32_t)position->dim[last],
                 .index_at = rx_gpu_offset(position),
                 .batch_stride = last > 0 ? (uint32_t)position->stride[0] : 0,
                 .slice_stride = (uint32_t)position->stride[last],
                 .axis_size = (uint32_t)c->out[0].dim[axis]},
    };
    rx_gpu_dispatch *d = rx_add_state_place(b, RX_K_state_place, rx_flat_local(c->caps), &a);
    rx_flat_grid(d, c->caps, (uint64_t)n);
    return place;
}

rlx_status rx_gpu_lower_state_write(rx_gpu_build *b, const rx_gpu_call *c)
{
    const int axis = (int)((const rx_axis_attr *)c->attr)->axis;
    const rx_view *update = &c->in[1], *position = &c->in[2], *state = &c->out[0];
    if (rx_view_elements(update) == 0)
        return RLX_OK;
    /* a single slice for all batches has a single position, too */
    bool one = rx_view_elements(position) == 1;
    rx_gpu_ref place = one ? RX_REF_IN(2) : add_places(b, c, axis);
    if (c->prologue)
        return rx_rope_write(b, c, place);
    writing w = make_writing(c, axis, position->rank == 2);
    uint64_t n = rx_product_of(w.walk.dim, 0, w.walk.rank);
    rx_args_state_write a = {
        .bind = {.state = RX_REF_OUT(0), .update = RX_REF_IN(1), .index = place,
                 .flags = RX_REF_FLAGS},
        .spec = {.BITS = w.bits, .TINDEX = position->dtype, .RANK = (uint32_t)w.walk.rank,
                 .AXIS = (uint32_t)rx_walk_find(&w.walk, axis),
                 .BATCH = position->rank == 2 ? (uint32_t)rx_walk_find(&w.walk, 0) : RLX_MAX_RANK,
                 .ONE = one, .TO = w.to},
        .push = {.n = (uint32_t)n, .update_at = (uint32_t)w.update_at,
                 .index_at = rx_gpu_offset(position), .slices = (uint32_t)update->dim[axis],
                 .axis_size = (uint32_t)state->dim[axis],
                 .axis_stride = (uint32_t)w.axis_stride},
    };
    rx_walk_dims(&w.walk, a.push.dim);
    rx_walk_strides(&w.walk, 0, a.push.update_stride);
    rx_walk_strides(&w.walk, 1, a.push.state_stride);
    rx_gpu_dispatch *d = rx_add_state_write(b, RX_K_state_write, rx_flat_local(c->caps), &a);
    rx_flat_grid(d, c->caps, n);
    return RLX_OK;
}
