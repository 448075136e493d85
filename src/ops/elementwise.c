/* SPDX-License-Identifier: MIT */
/* Shape rules of the elementwise operations: operand types, result type, and the defaults of
 * parameters. Builders are in elementwise_build.c, fused regions in region.c. */
#include <math.h>

#include "base/dtype.h"
#include "ops/region.h"

#define RX_BITS (RX_INTS | RX_T(RLX_BOOL))

#define FLOATS RX_REALS
#define NUMBERS RX_NUMBERS

/* Types of the arguments; an operation that is not listed takes floats. */
static const uint64_t argument_types[RX_N_OPS] = {
#define RLX_FUNCTION1(name, params, alpha, beta, meaning, types, ...) [RX_OP_##name] = types,
#define RLX_FUNCTION2(name, meaning, types, ...) [RX_OP_##name] = types,
#include "rlx/functions.def"
#undef RLX_FUNCTION1
#undef RLX_FUNCTION2
    [RX_OP_not] = RX_BITS,    [RX_OP_mod] = RX_NUMBERS, [RX_OP_and] = RX_BITS,
    [RX_OP_or] = RX_BITS,     [RX_OP_xor] = RX_BITS,    [RX_OP_shl] = RX_INTS,
    [RX_OP_shr] = RX_INTS,    [RX_OP_eq] = RX_PLAIN,    [RX_OP_ne] = RX_PLAIN,
    [RX_OP_lt] = RX_PLAIN,    [RX_OP_le] = RX_PLAIN,    [RX_OP_gt] = RX_PLAIN,
    [RX_OP_ge] = RX_PLAIN,    [RX_OP_where] = RX_PLAIN, [RX_OP_clamp] = RX_NUMBERS,
    [RX_OP_cast] = RX_PLAIN,
};

/* Defaults of alpha and beta, taken when they are 0; a parameter whose default is 0 is unused. */
static const rx_unary_attr unary_defaults[RX_N_OPS] = {
#define RLX_FUNCTION1(name, params, alpha, beta, ...) [RX_OP_##name] = {alpha, beta},
#define RLX_FUNCTION2(name, ...)
#include "rlx/functions.def"
#include "ir/functions_end.h"
};

uint64_t rx_elementwise_types(rx_op op)
{
    return argument_types[op] ? argument_types[op] : RX_REALS;
}

rlx_dtype rx_elementwise_result(rx_op op, rlx_dtype arg, rlx_dtype to)
{
    if (op == RX_OP_cast)
        return to;
    if (rx_ops[op].family == RX_FAMILY_compare || op == RX_OP_is_nan || op == RX_OP_is_inf)
        return RLX_BOOL;
    return arg;
}

static bool is_plain(rlx_dtype t)
{
    return (unsigned)t < RLX_N_DTYPES && (RX_T(t) & RX_PLAIN);
}

static bool is_whole_or_infinite(double x)
{
    return isinf(x) || x == floor(x);
}

const char *rx_instr_check(const rx_instr *in, rlx_dtype arg)
{
    const rx_op op = (rx_op)in->op;
    const rx_unary_attr *dflt = &unary_defaults[op];
    if (op == RX_OP_cast)
        return is_plain(in->dtype) ? NULL : "attribute to must be a plain type";
    if (op == RX_OP_clamp) {
        if (isnan(in->p[0]) || isnan(in->p[1]))
            return "attributes lo and hi must not be NaN";
        if (rlx_dtype_is_int(arg) &&
            !(is_whole_or_infinite(in->p[0]) && is_whole_or_infinite(in->p[1])))
            return "attributes lo and hi must be whole numbers for an integer x";
        return NULL;
    }
    if (op == RX_OP_mod)
        return in->p[0] == 0 || in->p[0] == 1 ? NULL : "attribute floored must be 0 or 1";
    if (!isfinite(in->p[0]) || !isfinite(in->p[1]))
        return "attributes alpha and beta must be finite";
    if (in->p[0] != 0 && dflt->alpha == 0)
        return "attribute alpha is not used by this operation and must be 0";
    if (in->p[1] != 0 && dflt->beta == 0)
        return "attribute beta is not used by this operation and must be 0";
    return NULL;
}

static rlx_status check_parameters(rx_infer *c)
{
    const rlx_dtype arg = c->in[0]->dtype;
    const rx_instr in = rx_instr_make(c->op, c->attr, arg);
    const char *wrong = rx_instr_check(&in, arg);
    return wrong ? rx_infer_fail(c, "%s", wrong) : RLX_OK;
}

rlx_status rx_infer_unary(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "x", rx_elementwise_types(c->op)));
    RLX_TRY(check_parameters(c));
    const rx_unary_attr *dflt = &unary_defaults[c->op];
    if (dflt->alpha != 0) {
        rx_unary_attr *d = c->attr;
        d->alpha = d->alpha != 0 ? d->alpha : dflt->alpha;
        d->beta = d->beta != 0 ? d->beta : dflt->beta;
    }
    const rx_value *x = c->in[0];
    rx_out(c, 0, rx_elementwise_result(c->op, x->dtype, RLX_NO_TYPE), &x->shape);
    return RLX_OK;
}

rlx_status rx_infer_binary(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "a", rx_elementwise_types(c->op)));
    RLX_TRY(rx_check_type(c, 1, "b", rx_elementwise_types(c->op)));
    RLX_TRY(rx_check_same_type(c, 0, 1));
    rlx_shape shape;
    RLX_TRY(rx_broadcast(c, &c->in[0]->shape, &c->in[1]->shape, &shape));
    rx_out(c, 0, rx_elementwise_result(c->op, c->in[0]->dtype, RLX_NO_TYPE), &shape);
    return RLX_OK;
}

static rlx_status broadcast_all(rx_infer *c, rlx_shape *shape)
{
    *shape = c->in[0]->shape;
    for (size_t i = 1; i < c->n_in; i++) {
        const rlx_shape so_far = *shape;
        RLX_TRY(rx_broadcast(c, &so_far, &c->in[i]->shape, shape));
    }
    return RLX_OK;
}

rlx_status rx_infer_where(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "cond", RX_T(RLX_BOOL)));
    RLX_TRY(rx_check_type(c, 1, "a", RX_PLAIN));
    RLX_TRY(rx_check_type(c, 2, "b", RX_PLAIN));
    RLX_TRY(rx_check_same_type(c, 1, 2));
    rlx_shape shape;
    RLX_TRY(broadcast_all(c, &shape));
    rx_out(c, 0, c->in[1]->dtype, &shape);
    return RLX_OK;
}

rlx_status rx_infer_fma(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "a", RX_REALS));
    RLX_TRY(rx_check_type(c, 1, "b", RX_REALS));
    RLX_TRY(rx_check_type(c, 2, "c", RX_REALS));
    RLX_TRY(rx_check_same_type(c, 0, 1));
    RLX_TRY(rx_check_same_type(c, 0, 2));
    rlx_shape shape;
    RLX_TRY(broadcast_all(c, &shape));
    rx_out(c, 0, c->in[0]->dtype, &shape);
    return RLX_OK;
}

rlx_status rx_infer_cast(rx_infer *c)
{
    const rx_cast_attr *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    if (d->to == RLX_NO_TYPE)
        return rx_infer_fail(c, "attribute to is missing: expected the type to cast to");
    if (!is_plain(d->to))
        return rx_infer_fail(c, "attribute to: expected f32, f16, bf16, f64, an integer type or "
                             "bool, got %s", rlx_dtype_name(d->to));
    rx_out(c, 0, d->to, &c->in[0]->shape);
    return RLX_OK;
}
