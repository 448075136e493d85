/* SPDX-License-Identifier: MIT */
/* Fused regions: a straight-line program of elementwise instructions over the broadcast shape of
 * all inputs. Made by fusion only; the text form can hold them too. */
#include "ops/region.h"

#include <string.h>

#include "ops/lower.h"

/* ---- Nodes and instructions ------------------------------------------------------------------ */

/* The kind of record of each operation, from the table. */
enum {
#define ATTRS(name, type) RECORD_##name,
#include "ir/attr.def"
#undef ATTRS
};

static const uint8_t records[RX_N_OPS] = {
#define OP(name, family, lo, hi, out, attr, infer, lower, grad, ref, flags) \
    [RX_OP_##name] = RECORD_##attr,
#include "ir/ops.def"
#undef OP
};

rx_instr rx_instr_make(rx_op op, const void *attr, rlx_dtype result)
{
    rx_instr in = {.op = (uint16_t)op, .dtype = result};
    if (records[op] == RECORD_unary) {
        const rx_unary_attr *d = attr;
        in.p[0] = d->alpha;
        in.p[1] = d->beta;
    } else if (records[op] == RECORD_clamp) {
        const rx_clamp_attr *d = attr;
        in.p[0] = d->lo;
        in.p[1] = d->hi;
    } else if (records[op] == RECORD_mod) {
        const rx_mod_attr *d = attr;
        in.p[0] = d->floored;
    }
    return in;
}

void rx_instr_to_attr(const rx_instr *in, rx_instr_attr *attr)
{
    *attr = (rx_instr_attr){0};
    if (records[in->op] == RECORD_unary)
        attr->unary = (rx_unary_attr){.alpha = in->p[0], .beta = in->p[1]};
    else if (records[in->op] == RECORD_clamp)
        attr->clamp = (rx_clamp_attr){.lo = in->p[0], .hi = in->p[1]};
    else if (records[in->op] == RECORD_mod)
        attr->mod = (rx_mod_attr){.floored = in->p[0] != 0};
    else if (records[in->op] == RECORD_cast)
        attr->cast = (rx_cast_attr){.to = in->dtype};
}

/* ---- Shape rule ------------------------------------------------------------------------------ */

static rlx_dtype arg_type(const rx_infer *c, const rx_region *r, uint16_t arg)
{
    return arg < r->n_in ? c->in[arg]->dtype : r->instr[arg - r->n_in].dtype;
}

static rlx_status check_arguments(rx_infer *c, const rx_region *r, int at)
{
    const rx_instr *in = &r->instr[at];
    const char *op = rx_ops[in->op].name;
    const int n = rx_ops[in->op].min_in;
    for (int k = 0; k < n; k++)
        if (in->arg[k] >= r->n_in + at)
            return rx_infer_fail(c, "instruction %d (%s), argument %d: expected an input or an "
                                 "earlier instruction (below %d), got %d", at, op, k,
                                 r->n_in + at, in->arg[k]);
    const rlx_dtype last = arg_type(c, r, in->arg[n - 1]);
    if (!(RX_T(last) & rx_elementwise_types((rx_op)in->op)))
        return rx_infer_fail(c, "instruction %d (%s): it takes no arguments of type %s", at, op,
                             rlx_dtype_name(last));
    for (int k = 0; k < n - 1; k++) {
        const rlx_dtype want = in->op == RX_OP_where && k == 0 ? RLX_BOOL : last;
        const rlx_dtype got = arg_type(c, r, in->arg[k]);
        if (got != want)
            return rx_infer_fail(c, "instruction %d (%s), argument %d: expected type %s, got %s",
                                 at, op, k, rlx_dtype_name(want), rlx_dtype_name(got));
    }
    return RLX_OK;
}

static rlx_status check_instruction(rx_infer *c, const rx_region *r, int at)
{
    const rx_instr *in = &r->instr[at];
    if (in->op >= RX_N_OPS || !(rx_ops[in->op].flags & RX_OP_ELEMENTWISE))
        return rx_infer_fail(c, "instruction %d: expected an elementwise operation, got %s", at,
                             in->op < RX_N_OPS ? rx_ops[in->op].name : "an unknown one");
    RLX_TRY(check_arguments(c, r, at));
    const rlx_dtype last = arg_type(c, r, in->arg[rx_ops[in->op].min_in - 1]);
    const rlx_dtype want = rx_elementwise_result((rx_op)in->op, last, in->dtype);
    if (in->dtype != want)
        return rx_infer_fail(c, "instruction %d (%s): expected result type %s, got %s", at,
                             rx_ops[in->op].name, rlx_dtype_name(want), rlx_dtype_name(in->dtype));
    const char *wrong = rx_instr_check(in, last);
    if (wrong)
        return rx_infer_fail(c, "instruction %d (%s): %s", at, rx_ops[in->op].name, wrong);
    return RLX_OK;
}

rlx_status rx_infer_region(rx_infer *c)
{
    const rx_region *r = c->attr;
    if (r->n_in != c->n_in)
        return rx_infer_fail(c, "the program has %d inputs, got %zu operands", r->n_in, c->n_in);
    if (r->n_instr == 0)
        return rx_infer_fail(c, "expected at least one instruction, got none");
    if (r->n_out == 0 || r->n_out > RX_MAX_RESULTS)
        return rx_infer_fail(c, "expected 1 to %d results, got %d", RX_MAX_RESULTS, r->n_out);
    if ((int)r->n_in + r->n_instr > UINT16_MAX)
        return rx_infer_fail(c, "expected at most %d inputs and instructions, got %d", UINT16_MAX,
                             r->n_in + r->n_instr);

    rlx_shape shape = {0};
    for (size_t i = 0; i < c->n_in; i++) {
        RLX_TRY(rx_check_type(c, i, "x", RX_PLAIN));
        const rlx_shape so_far = shape;
        RLX_TRY(rx_broadcast(c, &so_far, &c->in[i]->shape, &shape));
    }
    for (int i = 0; i < r->n_instr; i++)
        RLX_TRY(check_instruction(c, r, i));

    c->n_out = r->n_out;
    for (int i = 0; i < r->n_out; i++) {
        if (r->out[i] >= r->n_instr)
            return rx_infer_fail(c, "result %d: expected an instruction below %d, got %d", i,
                                 r->n_instr, r->out[i]);
        rx_out(c, (size_t)i, r->instr[r->out[i]].dtype, &shape);
    }
    return RLX_OK;
}

/* ---- Building and un-fusing ------------------------------------------------------------------ */

rlx_value rx_region_build(rlx_graph *g, const rx_region *r, const rlx_value *in, size_t n_in,
                          const char *name)
{
    rx_region own = *r;
    own.instr = rx_arena_array_copy(&g->arena, r->instr, r->n_instr, sizeof *r->instr);
    own.out = rx_arena_array_copy(&g->arena, r->out, r->n_out, sizeof *r->out);
    if (!own.instr || !own.out) {
        rx_graph_fail(g, RLX_NO_MEMORY, "out of memory: region of %d instructions", r->n_instr);
        return RLX_NONE;
    }
    return rx_graph_add(g, RX_OP_region, in, n_in, &own, name);
}

void rx_shape_widen(rlx_shape *to, const rlx_shape *from)
{
    rlx_shape wide = to->rank >= from->rank ? *to : *from;
    const rlx_shape *other = to->rank >= from->rank ? from : to;
    const int shift = wide.rank - other->rank;
    for (int i = 0; i < other->rank; i++)
        if (wide.dim[i + shift] == 1)
            wide.dim[i + shift] = other->dim[i];
    *to = wide;
}

/* Decomposition: each instruction as a node. One that does not depend on the widest input has a
 * smaller shape than the region, so results are expanded at the end. */
rlx_status rx_lower_region(rx_lower *c)
{
    const rx_region *r = c->attr;
    rlx_shape full = {0};
    rlx_value *v = rx_alloc_array((uint64_t)r->n_in + r->n_instr, sizeof *v);
    if (!v)
        return rx_graph_fail(c->g, RLX_NO_MEMORY, "out of memory: region of %d instructions",
                             r->n_instr);
    for (int i = 0; i < r->n_in; i++) {
        const rlx_shape s = rlx_value_shape(c->g, c->in[i]);
        rx_shape_widen(&full, &s);
        v[i] = rx_widen_half(c->g, c->in[i]);
    }
    for (int i = 0; i < r->n_instr; i++) {
        const rx_instr *in = &r->instr[i];
        const size_t n_args = rx_ops[in->op].min_in;
        rlx_value args[3];
        for (size_t k = 0; k < n_args; k++)
            args[k] = v[in->arg[k]];
        rx_instr_attr attr;
        rx_instr_to_attr(in, &attr);
        const rlx_value y = rx_graph_add(c->g, (rx_op)in->op, args, n_args, &attr, NULL);
        v[r->n_in + i] = rx_widen_half(c->g, y);
    }
    for (int i = 0; i < r->n_out; i++) {
        const rlx_value y = rx_as_type(c->g, v[r->n_in + r->out[i]], r->instr[r->out[i]].dtype);
        const rlx_shape s = rlx_value_shape(c->g, y);
        const bool is_full = rx_shape_equal(&s, &full);
        c->out[i] = is_full ? y : rlx_expand(c->g, y, full.rank, full.dim);
    }
    rx_free(v);
    return RLX_OK;
}
