/* SPDX-License-Identifier: MIT */
/* copy, and view operations whose result needs memory of its own. Elements move by their bits;
 * packed types move in whole blocks. A transposing copy goes through tiles in shared memory
 * (shaders/transpose.comp), a dense one may move words (shaders/copy.comp), any other one is an
 * emitted kernel. */
#include <string.h>

#include "base/dtype.h"
#include "gpu/select/region.h"
#include "gpu/select/walk.h"

/* ---- Transposed copies ----------------------------------------------------------------------- */

#define MAX_BATCH_AXES 4
#define MIN_TILED 16 /* smaller axes do not pay for tiles */

/* A copy as tiles: `across` is the axis along which the source is contiguous. Axes other than it
 * and the last one are batch axes. */
typedef struct tiling {
    rx_gpu_axes axes;
    int64_t out_stride[RLX_MAX_RANK];
    int across;
    uint32_t bytes, in_offset, out_offset;
} tiling;

static bool find_tiling(const rx_gpu_operand *from, const rx_gpu_operand *to, tiling *t)
{
    rx_gpu_collapse(from, 1, &to->view, &t->axes);
    const int last = t->axes.rank - 1;
    const int64_t *stride = t->axes.stride[0], *dim = t->axes.dim;
    t->bytes = (uint32_t)rlx_dtype_block_bytes(to->view.dtype);
    t->in_offset = rx_gpu_offset(&from->view);
    t->out_offset = rx_gpu_offset(&to->view);
    t->across = -1;
    for (int i = 0; i < last; i++)
        if (stride[i] == 1)
            t->across = i;
    if (t->across < 0 || t->bytes > 4 || last - 1 > MAX_BATCH_AXES || stride[last] <= 1)
        return false;
    if (dim[last] < MIN_TILED || dim[t->across] < MIN_TILED)
        return false;
    int64_t n = 1;
    for (int i = last; i >= 0; i--) {
        t->out_stride[i] = n;
        n *= dim[i];
    }
    const uint32_t lanes = 4 / t->bytes; /* all elements of a word of the result are in one row */
    return dim[last] % lanes == 0 && t->out_offset % lanes == 0 && n < INT32_MAX;
}

/* Whether both sides can be read and written in vectors of four words. */
static bool is_wide_tiling(const tiling *t)
{
    const int last = t->axes.rank - 1;
    if (t->bytes != 4 || t->in_offset % 4 || t->out_offset % 4)
        return false;
    if (t->axes.dim[last] % 4 || t->axes.dim[t->across] % 4)
        return false;
    for (int i = 0; i <= last; i++)
        if (i != t->across && t->axes.stride[0][i] % 4)
            return false;
    return true;
}

static uint32_t tile_count(int64_t dim, uint32_t tile)
{
    return (uint32_t)((dim + tile - 1) / tile);
}

static rlx_status add_tiled(rx_gpu_build *b, const rx_gpu_call *c, const tiling *t,
                            const rx_gpu_operand *from, const rx_gpu_operand *to)
{
    const bool wide = is_wide_tiling(t);
    const int last = t->axes.rank - 1;
    const uint32_t most = c->caps->max_invocations < 256 ? c->caps->max_invocations : 256;
    const bool large = most == 256 && t->axes.dim[t->across] >= 64 && t->axes.dim[last] >= 64;
    const uint32_t tile = wide && large ? 64 : 32, local = wide ? tile * tile / 16 : most;
    const uint32_t rows = tile_count(t->axes.dim[t->across], tile);
    const uint32_t columns = tile_count(t->axes.dim[last], tile);
    rx_args_transpose a = {
        .bind = {.x = from->ref, .y = to->ref},
        .spec = {.TILE = tile, .BYTES = t->bytes},
        .push = {.n_across = (uint32_t)t->axes.dim[t->across],
                 .n_last = (uint32_t)t->axes.dim[last], .in_offset = t->in_offset,
                 .out_offset = t->out_offset, .in_row = (uint32_t)t->axes.stride[0][last],
                 .out_row = (uint32_t)t->out_stride[t->across], .rows = rows,
                 .columns = columns, .n_batch = 1},
    };
    rx_push_transpose *p = &a.push;
    struct { uint32_t *dim, *in, *out; } const axis[MAX_BATCH_AXES] = {
        {&p->dim0, &p->in0, &p->out0}, {&p->dim1, &p->in1, &p->out1},
        {&p->dim2, &p->in2, &p->out2}, {&p->dim3, &p->in3, &p->out3}};
    for (int i = last - 1, n = 0; n < MAX_BATCH_AXES; i--) {
        if (i == t->across)
            continue;
        *axis[n].dim = i >= 0 ? (uint32_t)t->axes.dim[i] : 1;
        *axis[n].in = i >= 0 ? (uint32_t)t->axes.stride[0][i] : 0;
        *axis[n].out = i >= 0 ? (uint32_t)t->out_stride[i] : 0;
        p->n_batch *= *axis[n++].dim;
    }
    rx_gpu_dispatch *d = rx_add_transpose(b, wide ? RX_K_transpose_wide : RX_K_transpose, local,
                                          &a);
    rx_gpu_grid(d, c->caps, (uint64_t)p->n_batch * rows * columns);
    return b->status;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* The bytes of a packed block, or of any element, as elements of a plain type: appends an axis of
 * `units` elements. */
static rx_view view_of_units(const rx_view *v, rlx_dtype unit, int64_t block_size, int64_t units)
{
    rx_view w = *v;
    w.dtype = unit;
    for (int i = 0; i < w.rank; i++)
        w.stride[i] = w.stride[i] / block_size * units;
    if (w.rank > 0) { /* the last axis counts elements: blocks are contiguous */
        w.dim[w.rank - 1] = w.dim[w.rank - 1] / block_size * units;
        w.stride[w.rank - 1] = 1;
    }
    return w;
}

/* Packed types as the largest plain type that divides their blocks and offsets. */
static void unpack_blocks(rx_view *from, rx_view *to)
{
    const rx_dtype_desc *info = rx_dtype_info(to->dtype);
    if (info->block_size == 1)
        return;
    const uint64_t any = (uint64_t)info->block_bytes | (uintptr_t)from->data | (uintptr_t)to->data;
    const rlx_dtype unit = any % 4 == 0 ? RLX_I32 : any % 2 == 0 ? RLX_BF16 : RLX_U8;
    const int64_t units = info->block_bytes / rlx_dtype_block_bytes(unit);
    *from = view_of_units(from, unit, info->block_size, units);
    *to = view_of_units(to, unit, info->block_size, units);
}

rlx_status rx_gpu_add_copy(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_operand from,
                           rx_gpu_operand to)
{
    tiling t;
    unpack_blocks(&from.view, &to.view);
    if (rx_view_elements(&to.view) == 0)
        return RLX_OK;
    if (from.view.rank != to.view.rank ||
        memcmp(from.view.dim, to.view.dim, (size_t)to.view.rank * sizeof to.view.dim[0]) != 0) {
        /* A reshape keeps row-major order: the dense result may have the shape of the source. */
        char *data = to.view.data;
        rx_view_set_dense(&to.view, to.view.dtype, from.view.rank, from.view.dim);
        to.view.data = data;
    }
    if (find_tiling(&from, &to, &t))
        return add_tiled(b, c, &t, &from, &to);
    return rx_gpu_add_region(b, c, NULL, &from, 1, &to);
}

rlx_status rx_gpu_add_dense_copy(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_operand from,
                                 rx_gpu_operand to)
{
    const uint64_t bytes = (uint64_t)rx_view_elements(&to.view) *
                           (uint64_t)rlx_dtype_block_bytes(to.view.dtype);
    const uint32_t unit =
        rx_unit_of(bytes | (uintptr_t)from.view.data | (uintptr_t)to.view.data);
    if (rlx_dtype_is_packed(to.view.dtype) || unit < 4)
        return rx_gpu_add_copy(b, c, from, to);
    const rx_args_copy a = {
        .bind = {.x = from.ref, .y = to.ref},
        .push = {.n = (uint32_t)(bytes / unit),
                 .x_at = (uint32_t)((uintptr_t)from.view.data / unit),
                 .y_at = (uint32_t)((uintptr_t)to.view.data / unit)},
    };
    rx_gpu_dispatch *d = rx_add_copy(b, unit == 16 ? RX_K_copy_wide : RX_K_copy,
                                     rx_flat_local(c->caps), &a);
    rx_flat_grid(d, c->caps, bytes / unit);
    return b->status;
}

rlx_status rx_gpu_lower_copy(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *y = &c->out[0];
    rx_gpu_operand from = {c->in[0], RX_REF_IN(0)}, to = {*y, RX_REF_OUT(0)};
    if (y->rank < 0)
        return RLX_OK;
    if (c->op != RX_OP_copy && c->op != RX_OP_reshape) {
        from.view = *y;
        rx_view_apply(c->op, c->attr, &c->in[0], &from.view); /* correct also when not dense */
    }
    if (rx_view_elements(&from.view) != rx_view_elements(y))
        return rx_gpu_fail(b, c, "the result has another number of elements");
    return rx_gpu_add_copy(b, c, from, to);
}
