/* SPDX-License-Identifier: MIT */
/* From a case to a graph: data for its operands, leaves of the right kind, the operation, outputs
 * named out0, out1, ... A strided operand of rank 2 or more is stored with its axes reversed and
 * transposed in the graph; one of rank 1 is every second element of a vector. */
#include <stdlib.h>
#include <string.h>

#include "ops/optest.h"

static int64_t dim_value(const ot_dim *d, const int64_t *bound)
{
    return d->dim < 0 ? d->value : d->times * bound[d->dim] + d->value;
}

static bool is_strided(const ot_operand *o)
{
    return o->strided && !rlx_dtype_is_packed(o->dtype)
           && (o->rank >= 2 || (o->rank == 1 && o->dims[0].dim < 0));
}

const ot_tensor *ot_stored(const ot_built *b, size_t i)
{
    return b->stored[i].data ? &b->stored[i] : &b->logical[i];
}

/* ---- Data ----------------------------------------------------------------------------------- */

/* dst (axes reversed) = src */
static void store_reversed(const ot_tensor *src, ot_tensor *dst)
{
    const size_t size = (size_t)rlx_dtype_block_bytes(src->dtype);
    int64_t at[RLX_MAX_RANK + 1] = {0};
    for (int64_t i = 0; i < src->elements; i++) {
        int64_t to = 0;
        for (int k = src->rank - 1; k >= 0; k--) to = to * src->dims[k] + at[k];
        memcpy((char *)dst->data + (size_t)to * size, (const char *)src->data + (size_t)i * size,
               size);
        for (int k = src->rank - 1; k >= 0 && ++at[k] == src->dims[k]; k--) at[k] = 0;
    }
}

static void store_spread(const ot_tensor *src, ot_tensor *dst)
{
    const size_t size = (size_t)rlx_dtype_block_bytes(src->dtype);
    for (int64_t i = 0; i < src->elements; i++) {
        memcpy((char *)dst->data + (size_t)(2 * i) * size,
               (const char *)src->data + (size_t)i * size, size);
    }
}

void ot_store_operand(const ot_tensor *logical, ot_tensor *stored)
{
    if (logical->rank == 1) {
        store_spread(logical, stored);
    } else {
        store_reversed(logical, stored);
    }
}

static bool store_strided(const ot_tensor *src, ot_tensor *dst)
{
    int64_t dims[RLX_MAX_RANK + 1] = {2 * src->dims[0]};
    for (int k = 0; src->rank > 1 && k < src->rank; k++) dims[k] = src->dims[src->rank - 1 - k];
    if (!ot_tensor_init(dst, src->dtype, src->rank, dims)) return false;
    ot_store_operand(src, dst);
    return true;
}

bool ot_fill_operands(const ot_case *c, ot_built *b)
{
    for (size_t i = 0; i < c->n_in; i++) {
        const ot_operand *o = &c->in[i];
        ot_tensor_finish(&b->logical[i]);
        ot_tensor_finish(&b->stored[i]);
        if (o->absent) continue;
        int64_t dims[RLX_MAX_RANK + 1];
        for (int k = 0; k < o->rank; k++) dims[k] = dim_value(&o->dims[k], b->bound);
        if (!ot_tensor_init(&b->logical[i], o->dtype, o->rank, dims)) return false;
        const uint64_t run = o->leaf == OT_INPUT ? (uint64_t)b->run << 32 : 0;
        ot_fill_tensor(&b->logical[i], &o->fill, c->seed + i + run, 0);
        if (c->flush) ot_flush_tensor(&b->logical[i]);
        if (is_strided(o) && !store_strided(&b->logical[i], &b->stored[i])) return false;
    }
    return true;
}

void ot_built_finish(const ot_case *c, ot_built *b)
{
    for (size_t i = 0; i < c->n_in; i++) {
        ot_tensor_finish(&b->logical[i]);
        ot_tensor_finish(&b->stored[i]);
    }
    rlx_graph_destroy(b->graph);
    b->graph = NULL;
}

/* ---- Graph ---------------------------------------------------------------------------------- */

static rlx_dim graph_dim(rlx_graph *g, const ot_case *c, const ot_dim *d)
{
    if (d->dim < 0) return d->value;
    const ot_named_dim *named = &c->dims[d->dim];
    rlx_dim dim = rlx_dim_named(g, named->name, named->bound);
    if (d->times != 1) dim = rlx_dim_mul(g, dim, d->times);
    if (d->value > 0) return rlx_dim_add(g, dim, d->value);
    return d->value < 0 ? rlx_dim_sub(g, dim, -d->value) : dim;
}

static rlx_value add_leaf(const ot_case *c, ot_built *b, size_t i)
{
    const ot_operand *o = &c->in[i];
    const bool strided = is_strided(o);
    rlx_dim dims[RLX_MAX_RANK + 1];
    for (int k = 0; k < o->rank; k++) {
        const int from = strided ? o->rank - 1 - k : k;
        dims[k] = graph_dim(b->graph, c, &o->dims[from]);
    }
    if (strided && o->rank == 1) dims[0] *= 2;
    char name[OT_NAME];
    snprintf(name, sizeof name, "in%zu", i);
    const ot_tensor *t = ot_stored(b, i);
    rlx_value v;
    if (o->leaf == OT_PARAM) {
        v = rlx_param(b->graph, name, o->dtype, o->rank, dims);
    } else if (o->leaf == OT_CONST) {
        v = rlx_constant(b->graph, o->dtype, o->rank, dims, t->data, t->bytes);
    } else {
        v = rlx_input(b->graph, name, o->dtype, o->rank, dims);
    }
    if (!strided) return v;
    if (o->rank > 1) return rlx_transpose(b->graph, v, NULL);
    const rlx_slice_desc every_second = {RLX_INIT(rlx_slice_desc),
        .axes = {1, {0}}, .starts = {1, {0}}, .stops = {1, {dims[0]}}, .steps = {1, {2}}};
    return rlx_slice(b->graph, v, &every_second);
}

void ot_build_graph(const ot_case *c, ot_built *b)
{
    rlx_value in[OT_MAX_IN], out[OT_MAX_OUT];
    b->graph = rlx_graph_create(c->op);
    for (size_t i = 0; i < c->n_in; i++) {
        in[i] = c->in[i].absent ? RLX_NONE : add_leaf(c, b, i);
    }
    b->n_out = rlx_op(b->graph, c->op, in, c->n_in, c->attrs, out, OT_MAX_OUT);
    for (size_t i = 0; i < b->n_out && i < OT_MAX_OUT; i++) {
        char name[OT_NAME];
        snprintf(name, sizeof name, "out%zu", i);
        rlx_output(b->graph, name, out[i]);
    }
}
