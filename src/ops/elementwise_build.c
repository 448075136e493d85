/* SPDX-License-Identifier: MIT */
/* The builders of the elementwise operations. */
#include "ir/graph.h"

#define UNARY(name)                                                \
    rlx_value rlx_##name(rlx_graph *g, rlx_value x)                \
    {                                                              \
        return rx_graph_add(g, RX_OP_##name, &x, 1, NULL, NULL);   \
    }

UNARY(relu)
UNARY(gelu)
UNARY(gelu_tanh)
UNARY(silu)
UNARY(sigmoid)
UNARY(tanh)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(neg)
UNARY(abs)
UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(atan)
UNARY(round)
UNARY(reciprocal)
UNARY(floor)
UNARY(ceil)
UNARY(sign)
UNARY(softplus)
UNARY(erf)
UNARY(hard_swish)
UNARY(mish)
UNARY(softsign)
UNARY(log_sigmoid)
UNARY(asin)
UNARY(acos)
UNARY(sinh)
UNARY(cosh)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
UNARY(exp2)
UNARY(log2)
UNARY(not)
UNARY(is_nan)
UNARY(is_inf)

static rlx_value add_unary(rlx_graph *g, rx_op op, rlx_value x, double alpha, double beta)
{
    const rlx_unary_desc d = {.alpha = alpha, .beta = beta};
    return rx_graph_add(g, op, &x, 1, &d, NULL);
}

rlx_value rlx_elu(rlx_graph *g, rlx_value x, double alpha)
{
    return add_unary(g, RX_OP_elu, x, alpha, 0);
}

rlx_value rlx_celu(rlx_graph *g, rlx_value x, double alpha)
{
    return add_unary(g, RX_OP_celu, x, alpha, 0);
}

rlx_value rlx_leaky_relu(rlx_graph *g, rlx_value x, double alpha)
{
    return add_unary(g, RX_OP_leaky_relu, x, alpha, 0);
}

rlx_value rlx_selu(rlx_graph *g, rlx_value x, double alpha, double gamma)
{
    return add_unary(g, RX_OP_selu, x, alpha, gamma);
}

rlx_value rlx_hard_sigmoid(rlx_graph *g, rlx_value x, double alpha, double beta)
{
    return add_unary(g, RX_OP_hard_sigmoid, x, alpha, beta);
}

static rlx_value add_binary(rlx_graph *g, rx_op op, rlx_value a, rlx_value b, const void *attr)
{
    const rlx_value in[2] = {a, b};
    return rx_graph_add(g, op, in, 2, attr, NULL);
}

#define BINARY(name)                                               \
    rlx_value rlx_##name(rlx_graph *g, rlx_value a, rlx_value b)   \
    {                                                              \
        return add_binary(g, RX_OP_##name, a, b, NULL);            \
    }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(max)
BINARY(min)
BINARY(pow)
BINARY(and)
BINARY(or)
BINARY(xor)
BINARY(shl)
BINARY(shr)
BINARY(atan2)
BINARY(eq)
BINARY(ne)
BINARY(lt)
BINARY(le)
BINARY(gt)
BINARY(ge)

rlx_value rlx_mod(rlx_graph *g, rlx_value a, rlx_value b, bool floored)
{
    const rlx_mod_desc d = {.floored = floored};
    return add_binary(g, RX_OP_mod, a, b, &d);
}

rlx_value rlx_where(rlx_graph *g, rlx_value cond, rlx_value a, rlx_value b)
{
    const rlx_value in[3] = {cond, a, b};
    return rx_graph_add(g, RX_OP_where, in, 3, NULL, NULL);
}

rlx_value rlx_clamp(rlx_graph *g, rlx_value x, double lo, double hi)
{
    const rlx_clamp_desc d = {.lo = lo, .hi = hi};
    return rx_graph_add(g, RX_OP_clamp, &x, 1, &d, NULL);
}

rlx_value rlx_fma(rlx_graph *g, rlx_value a, rlx_value b, rlx_value c)
{
    const rlx_value in[3] = {a, b, c};
    return rx_graph_add(g, RX_OP_fma, in, 3, NULL, NULL);
}

rlx_value rlx_cast(rlx_graph *g, rlx_value x, rlx_dtype to)
{
    const rlx_cast_desc d = {.to = to};
    return rx_graph_add(g, RX_OP_cast, &x, 1, &d, NULL);
}
