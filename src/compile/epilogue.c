/* SPDX-License-Identifier: MIT */
/* Epilogues as data (fuse.def), and un-fusing them for a target that has only the plain
 * operation. */
#include "compile/epilogue.h"

#include <stddef.h>
#include <string.h>

#include "ops/lower.h"

#define EPILOGUE(op, bias, residual, last, record) \
    {RX_OP_##op, bias, residual, last, offsetof(record, act), offsetof(record, act_last)},
static const rx_epilogue epilogues[] = {
#include "compile/fuse.def"
};
#undef EPILOGUE

static const struct { rx_op op; rlx_act act; } acts[] = {
#define ACT(op, act) {RX_OP_##op, act},
#include "compile/fuse.def"
#undef ACT
};

#define MAX_OPERANDS 4 /* before the bias */
#define EPILOGUE(op, bias, residual, last, record) \
    _Static_assert((bias) <= MAX_OPERANDS, "bare_node() has room for the operands of " #op);
#include "compile/fuse.def"
#undef EPILOGUE
#define COUNT(a) (sizeof(a) / sizeof *(a))

const rx_epilogue *rx_epilogue_of(rx_op op)
{
    for (size_t i = 0; i < COUNT(epilogues); i++)
        if (epilogues[i].op == op)
            return &epilogues[i];
    return NULL;
}

rlx_act rx_act_of(rx_op op)
{
    for (size_t i = 0; i < COUNT(acts); i++)
        if (acts[i].op == op)
            return acts[i].act;
    return RLX_ACT_NONE;
}

rx_op rx_act_op(rlx_act act)
{
    for (size_t i = 0; i < COUNT(acts); i++)
        if (acts[i].act == act)
            return acts[i].op;
    return RX_N_OPS;
}

static uint32_t operand(const rx_node *n, uint32_t i)
{
    return i && i < n->n_in ? n->in[i] : 0;
}

bool rx_epilogue_is_used(const rx_node *n)
{
    const rx_epilogue *e = rx_epilogue_of(n->op);
    if (!e)
        return false;
    rlx_act act = *(const rlx_act *)(const void *)((const char *)n->attr + e->act);
    return operand(n, e->bias) || operand(n, e->residual) || act != RLX_ACT_NONE;
}

/* v + b in the type of v; b may be f32 where v is narrower. */
static rlx_value add_part(rlx_graph *g, rlx_value v, rlx_value b)
{
    rlx_dtype t = rlx_value_dtype(g, v);
    return rlx_add(g, v, rlx_value_dtype(g, b) == t ? b : rlx_cast(g, b, t));
}

static rlx_value apply_act(rlx_graph *g, rlx_value v, rlx_act act)
{
    return act == RLX_ACT_NONE ? v : rx_graph_add(g, rx_act_op(act), &v, 1, NULL, NULL);
}

/* The bias as a tensor that broadcasts along the channels. */
static rlx_value shape_bias(rlx_graph *g, const rx_epilogue *e, rlx_value bias, int rank)
{
    if (e->channels_last)
        return rank ? bias : rlx_reshape(g, bias, 0, NULL); /* vector times vector: a scalar */
    rlx_dim dims[RLX_MAX_RANK];
    for (int i = 0; i < rank - 1; i++)
        dims[i] = i ? 1 : rlx_value_shape(g, bias).dim[0];
    return rlx_reshape(g, bias, rank - 1, dims);
}

/* The node without its epilogue, in f32 where its result *t is f16 or bf16, so that the whole is
 * rounded once: products have an attribute for that, others get f32 operands. */
static rlx_value bare_node(rlx_graph *g, const rx_node *n, const rlx_value *in, uint32_t n_in,
                           void *record, rlx_dtype *t)
{
    rlx_value wide[MAX_OPERANDS] = {{0}};
    rlx_matmul_desc *d = n->op == RX_OP_matmul ? record : NULL;
    *t = d ? d->out : rlx_value_dtype(g, in[0]);
    if (d && rx_is_half(*t))
        d->out = RLX_F32;
    for (uint32_t i = 0; i < n_in; i++)
        wide[i] = d ? in[i] : rx_widen_half(g, in[i]);
    rlx_value v = rx_graph_add(g, n->op, wide, n_in, record, n->name);
    if (!rx_is_half(*t))
        *t = rlx_value_dtype(g, v);
    return v;
}

rlx_value rx_epilogue_split(rx_rewrite *w, const rx_node *n, const rlx_value *in, const void *attr)
{
    const rx_epilogue *e = rx_epilogue_of(n->op);
    rlx_graph *g = w->to;
    _Alignas(16) char record[RX_MAX_RECORD];
    memcpy(record, attr, rx_ops[n->op].attr->size);
    rlx_act act = *rx_epilogue_act(e, record);
    bool act_last = *rx_epilogue_act_last(e, record);
    *rx_epilogue_act(e, record) = RLX_ACT_NONE;
    *rx_epilogue_act_last(e, record) = false;

    rlx_value bias = operand(n, e->bias) ? in[e->bias] : RLX_NONE;
    rlx_value residual = operand(n, e->residual) ? in[e->residual] : RLX_NONE;
    uint32_t n_in = n->n_in < e->bias ? n->n_in : e->bias;
    rlx_dtype t;
    rlx_value v = bare_node(g, n, in, n_in, record, &t);
    if (bias.id)
        v = add_part(g, v, shape_bias(g, e, bias, rlx_value_shape(g, v).rank));
    if (!act_last)
        v = apply_act(g, v, act);
    if (residual.id)
        v = add_part(g, v, residual);
    if (act_last)
        v = apply_act(g, v, act);
    return rlx_value_dtype(g, v) == t ? v : rlx_cast(g, v, t);
}
