/* SPDX-License-Identifier: MIT */
/* Elementwise operators of ONNX: functions, comparisons, logic, selection, casts. */
#include <math.h>

#include "import/onnx_build.h"

/* ---- One operand ----------------------------------------------------------------------------- */

#define UNARY(name)                                    \
    rlx_value rx_onnx_##name(rx_onnx_call *c)          \
    {                                                  \
        return rlx_##name(c->g, rx_onnx_in(c, 0));     \
    }
UNARY(abs) UNARY(acos) UNARY(acosh) UNARY(asin) UNARY(asinh) UNARY(atan) UNARY(atanh) UNARY(ceil)
UNARY(cos) UNARY(cosh) UNARY(erf) UNARY(exp) UNARY(floor) UNARY(hard_swish) UNARY(is_nan)
UNARY(log) UNARY(mish) UNARY(neg) UNARY(not) UNARY(reciprocal) UNARY(relu) UNARY(round)
UNARY(sigmoid) UNARY(sign) UNARY(sin) UNARY(sinh) UNARY(softplus) UNARY(softsign) UNARY(sqrt)
UNARY(tan) UNARY(tanh)

rlx_value rx_onnx_identity(rx_onnx_call *c)
{
    return rx_onnx_in(c, 0);
}

rlx_value rx_onnx_celu(rx_onnx_call *c)
{
    return rlx_celu(c->g, rx_onnx_in(c, 0), rx_onnx_float(c, "alpha", 1));
}

rlx_value rx_onnx_elu(rx_onnx_call *c)
{
    return rlx_elu(c->g, rx_onnx_in(c, 0), rx_onnx_float_set(c, "alpha", 1));
}

rlx_value rx_onnx_hard_sigmoid(rx_onnx_call *c)
{
    return rlx_hard_sigmoid(c->g, rx_onnx_in(c, 0), rx_onnx_float_set(c, "alpha", 0.2),
                            rx_onnx_float_set(c, "beta", 0.5));
}

rlx_value rx_onnx_leaky_relu(rx_onnx_call *c)
{
    return rlx_leaky_relu(c->g, rx_onnx_in(c, 0), rx_onnx_float_set(c, "alpha", 0.01));
}

rlx_value rx_onnx_selu(rx_onnx_call *c)
{
    return rlx_selu(c->g, rx_onnx_in(c, 0),
                    rx_onnx_float_set(c, "alpha", 1.67326319217681884765625),
                    rx_onnx_float_set(c, "gamma", 1.05070102214813232421875));
}

rlx_value rx_onnx_thresholded_relu(rx_onnx_call *c)
{
    return rlx_thresholded_relu(c->g, rx_onnx_in(c, 0), rx_onnx_float_set(c, "alpha", 1));
}

rlx_value rx_onnx_gelu(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    return rx_onnx_is(c, "approximate", "tanh", "none") ? rlx_gelu_tanh(c->g, x)
                                                        : rlx_gelu(c->g, x);
}

static rlx_value number_like(rx_onnx_call *c, rlx_value x, double v)
{
    return rlx_scalar(c->g, rlx_value_dtype(c->g, x), v);
}

rlx_value rx_onnx_swish(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const double alpha = rx_onnx_float(c, "alpha", 1);
    if (alpha == 1)
        return rlx_silu(c->g, x);
    return rlx_mul(c->g, x, rlx_sigmoid(c->g, rlx_mul(c->g, x, number_like(c, x, alpha))));
}

rlx_value rx_onnx_shrink(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const double lambda = rx_onnx_float(c, "lambd", 0.5), bias = rx_onnx_float(c, "bias", 0);
    const rlx_value low = rlx_lt(c->g, x, number_like(c, x, -lambda));
    const rlx_value high = rlx_gt(c->g, x, number_like(c, x, lambda));
    const rlx_value inner = rlx_where(c->g, high, rlx_sub(c->g, x, number_like(c, x, bias)),
                                      number_like(c, x, 0));
    return rlx_where(c->g, low, rlx_add(c->g, x, number_like(c, x, bias)), inner);
}

rlx_value rx_onnx_is_inf(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), zero = number_like(c, x, 0);
    const bool above = rx_onnx_int(c, "detect_positive", 1);
    const bool below = rx_onnx_int(c, "detect_negative", 1);
    rlx_value y = rlx_is_inf(c->g, x);
    if (!above)
        y = rlx_and(c->g, y, rlx_lt(c->g, x, zero));
    if (!below)
        y = rlx_and(c->g, y, rlx_gt(c->g, x, zero));
    return y;
}

/* ---- Two operands ---------------------------------------------------------------------------- */

/* Up to opset 6 the second operand is aligned at an axis when `broadcast` is set. */
static rlx_value second(rx_onnx_call *c)
{
    const rlx_value b = rx_onnx_in(c, 1);
    const int rank = rx_onnx_rank(c, rx_onnx_in(c, 0)), own = rx_onnx_rank(c, b);
    if (c->opset >= 7 || !rx_onnx_int(c, "broadcast", 0) || !rx_onnx_attr_find(c, "axis"))
        return b;
    const int axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", 0), rank);
    rlx_shape s = rlx_value_shape(c->g, b);
    for (int i = axis + own; i < rank && s.rank < RLX_MAX_RANK; i++)
        s.dim[s.rank++] = 1;
    return rlx_reshape(c->g, b, s.rank, s.dim);
}

#define BINARY(name)                                        \
    rlx_value rx_onnx_##name(rx_onnx_call *c)               \
    {                                                       \
        return rlx_##name(c->g, rx_onnx_in(c, 0), second(c)); \
    }
BINARY(add) BINARY(sub) BINARY(mul) BINARY(div) BINARY(eq) BINARY(lt) BINARY(le) BINARY(gt)
BINARY(ge) BINARY(and) BINARY(or) BINARY(xor)

rlx_value rx_onnx_pow(rx_onnx_call *c)
{
    const rlx_value a = rx_onnx_in(c, 0), b = second(c);
    const rlx_dtype ta = rlx_value_dtype(c->g, a), tb = rlx_value_dtype(c->g, b);
    if (ta == tb)
        return rlx_pow(c->g, a, b);
    if (rlx_dtype_is_float(tb) && !rlx_dtype_is_float(ta))
        return rlx_cast(c->g, rlx_pow(c->g, rlx_cast(c->g, a, tb), b), ta);
    return rlx_pow(c->g, a, rlx_cast(c->g, b, ta));
}

rlx_value rx_onnx_mod(rx_onnx_call *c)
{
    return rlx_mod(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1), !rx_onnx_int(c, "fmod", 0));
}

rlx_value rx_onnx_bit_shift(rx_onnx_call *c)
{
    const rlx_value a = rx_onnx_in(c, 0), b = rx_onnx_in(c, 1);
    return rx_onnx_is(c, "direction", "LEFT", "") ? rlx_shl(c->g, a, b) : rlx_shr(c->g, a, b);
}

rlx_value rx_onnx_swiglu(rx_onnx_call *c)
{
    return rlx_mul(c->g, rx_onnx_swish(c), rx_onnx_in(c, 1));
}

rlx_value rx_onnx_prelu(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), slope = rx_onnx_in(c, 1);
    rlx_shape s = rlx_value_shape(c->g, slope);
    const int rank = rx_onnx_rank(c, x);
    rlx_value k = slope;
    if (c->opset < 7 && s.rank == 1 && s.dim[0] != 1) {
        for (int i = 2; i < rank; i++)
            s.dim[s.rank++] = 1;
        k = rlx_reshape(c->g, slope, s.rank, s.dim);
    }
    return rlx_where(c->g, rlx_lt(c->g, x, number_like(c, x, 0)), rlx_mul(c->g, x, k), x);
}

/* ---- Any number of operands ------------------------------------------------------------------ */

typedef rlx_value binary_fn(rlx_graph *g, rlx_value a, rlx_value b);

static rlx_value fold(rx_onnx_call *c, binary_fn *f)
{
    rlx_value y = rx_onnx_in(c, 0);
    for (size_t i = 1; i < c->n_in; i++)
        y = f(c->g, y, c->in[i]);
    return y;
}

rlx_value rx_onnx_max(rx_onnx_call *c) { return fold(c, rlx_max); }
rlx_value rx_onnx_min(rx_onnx_call *c) { return fold(c, rlx_min); }
rlx_value rx_onnx_sum(rx_onnx_call *c) { return fold(c, rlx_add); }

rlx_value rx_onnx_mean(rx_onnx_call *c)
{
    const rlx_value sum = fold(c, rlx_add);
    return rlx_div(c->g, sum, number_like(c, sum, (double)c->n_in));
}

/* ---- Selection, limits, types ---------------------------------------------------------------- */

rlx_value rx_onnx_where(rx_onnx_call *c)
{
    return rlx_where(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2));
}

rlx_value rx_onnx_clip(rx_onnx_call *c)
{
    rlx_value x = rx_onnx_in(c, 0);
    if (c->opset < 11)
        return rlx_clamp(c->g, x, rx_onnx_float(c, "min", -INFINITY),
                         rx_onnx_float(c, "max", INFINITY));
    if (rx_onnx_in(c, 1).id)
        x = rlx_max(c->g, x, rx_onnx_in(c, 1));
    if (rx_onnx_in(c, 2).id)
        x = rlx_min(c->g, x, rx_onnx_in(c, 2));
    return x;
}

/* Inference: the identity, with a mask that is all true. */
rlx_value rx_onnx_dropout(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), training = rx_onnx_in(c, 2);
    if (training.id) {
        const unsigned char *on = rx_onnx_value_data(c->b, training);
        double ratio = 0.5;
        size_t n = 1;
        if (rx_onnx_in(c, 1).id && !rx_onnx_known_reals(c, 1, "ratio", &ratio, 1, &n))
            return RLX_NONE;
        if (!on || (*on && ratio != 0))
            return rx_onnx_fail(c, RLX_UNSUPPORTED, "training mode; expected inference");
    }
    if (rx_onnx_wants(c, 1)) {
        const rlx_shape s = rlx_value_shape(c->g, x);
        c->out[1] = rlx_expand(c->g, rlx_scalar(c->g, c->opset < 10 ? rlx_value_dtype(c->g, x)
                                                                    : RLX_BOOL, 1),
                               s.rank, s.dim);
    }
    return x;
}
