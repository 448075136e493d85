/* SPDX-License-Identifier: MIT */
/* The reference kernel on several threads, for element types without a kernel of their own (f64,
 * wide integers): operations that treat the slices of their outermost axis apart run a range of
 * slices a chunk. Asked last, so results are those of the reference. */
#include <stdatomic.h>

#include "base/dtype.h"
#include "cpu/generic_slices.h"
#include "cpu/pool.h"
#include "cpu/scratch.h"
#include "ops/resize.h"

#define MAX_VIEWS 4
#define GRAIN 4096 /* elements of operand 0 in a chunk, at least a slice */

typedef struct job {
    const rx_call *call;
    int64_t n;           /* slices */
    rx_scratch *scratch; /* by thread */
    atomic_int status;
} job;

/* The outermost axis with more than one slice; -1: none. */
static int outermost(const rx_view *v)
{
    for (int i = 0; i < v->rank; i++)
        if (v->dim[i] != 1)
            return i;
    return -1;
}

/* Slices begin .. end - 1 of a view along its outermost axis. */
static rx_view cut(const rx_view *v, int64_t begin, int64_t end)
{
    const int axis = outermost(v);
    rx_view s = *v;
    if (v->data)
        s.data += begin * v->stride[axis] * (int64_t)rlx_dtype_block_bytes(v->dtype);
    s.dim[axis] = end - begin;
    return s;
}

static void run_range(void *user, int64_t begin, int64_t end)
{
    job *j = user;
    rx_view in[MAX_VIEWS], out[MAX_VIEWS];
    rx_call c = *j->call;
    for (size_t i = 0; i < c.n_in; i++)
        in[i] = i ? c.in[i] : cut(&c.in[i], begin, end);
    for (size_t i = 0; i < c.n_out; i++)
        out[i] = cut(&c.out[i], begin, end);
    c.in = in;
    c.out = out;
    c.pool = NULL;
    c.form = NULL;
    c.x = 0;
    c.scratch = &j->scratch[rx_pool_slot()];
    const rlx_status st = rx_ref_table[c.op](&c);
    rx_scratch_reset(c.scratch);
    if (st != RLX_OK)
        atomic_store(&j->status, (int)st);
}

/* Runs a call whose operand 0 and results have slices that are independent along all axes but those
 * in the mask `whole`; the other operands belong to every slice. */
static rlx_status run_slices(const rx_call *c, uint32_t whole)
{
    const int axis = outermost(&c->in[0]), n_threads = rx_pool_n_threads(c->pool);
    if (axis < 0 || whole >> axis & 1 || n_threads < 2 || c->n_in > MAX_VIEWS ||
        c->n_out > MAX_VIEWS)
        return RLX_UNSUPPORTED;
    job j = {.call = c, .n = c->in[0].dim[axis], .status = RLX_OK};
    for (size_t i = 0; i < c->n_out; i++) {
        const int at = outermost(&c->out[i]);
        if (at < 0 || c->out[i].dim[at] != j.n)
            return RLX_UNSUPPORTED;
    }
    const int64_t elements = rx_view_elements(&c->in[0]);
    if (!elements || c->probe)
        return elements ? RLX_OK : RLX_UNSUPPORTED;
    j.scratch = rx_scratch_threads(c->scratch, n_threads);
    if (!j.scratch)
        return RLX_NO_MEMORY;
    const int64_t chunk = GRAIN / (elements / j.n);
    rx_parallel(c->pool, j.n, chunk > 0 ? chunk : 1, run_range, &j);
    return (rlx_status)atomic_load(&j.status);
}

static uint32_t axis_bit(const rx_call *c, int64_t axis)
{
    return 1u << (axis < 0 ? axis + c->in[0].rank : axis);
}

rlx_status rx_slices_axis(const rx_call *c)
{
    return run_slices(c, axis_bit(c, ((const rx_axis_attr *)c->attr)->axis));
}

rlx_status rx_slices_cum(const rx_call *c)
{
    return run_slices(c, axis_bit(c, ((const rlx_cum_desc *)c->attr)->axis));
}

rlx_status rx_slices_arg(const rx_call *c)
{
    return run_slices(c, axis_bit(c, ((const rlx_arg_desc *)c->attr)->axis));
}

rlx_status rx_slices_sort(const rx_call *c)
{
    return run_slices(c, axis_bit(c, ((const rlx_sort_desc *)c->attr)->axis));
}

rlx_status rx_slices_top_k(const rx_call *c)
{
    return run_slices(c, axis_bit(c, ((const rlx_topk_desc *)c->attr)->axis));
}

rlx_status rx_slices_reduce(const rx_call *c)
{
    const rlx_ints *axes = &((const rx_reduce_attr *)c->attr)->axes;
    uint32_t whole = axes->n ? 0 : UINT32_MAX; /* none: all */
    for (int i = 0; i < axes->n; i++)
        whole |= axis_bit(c, axes->v[i]);
    return run_slices(c, whole);
}

/* Statistics are of all axes from `axis` on. */
rlx_status rx_slices_norm(const rx_call *c)
{
    return run_slices(c, 0u - axis_bit(c, ((const rlx_norm_desc *)c->attr)->axis));
}

/* [N, C, ...]: batch and channels. */
rlx_status rx_slices_planes(const rx_call *c)
{
    return run_slices(c, ~3u);
}

rlx_status rx_slices_resize(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    uint32_t whole = 0;
    for (int i = 0; i < x->rank; i++) {
        const rx_resize_axis m = {c->attr, i, x->rank, x->dim[i], y->dim[i]};
        whole |= (uint32_t)!rx_resize_is_unchanged(&m) << i;
    }
    return run_slices(c, whole);
}
