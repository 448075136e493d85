/* SPDX-License-Identifier: MIT */
/* The builders of the elementwise operations. */
#include "ir/graph.h"

static rlx_value add_unary(rlx_graph *g, rx_op op, rlx_value x, double alpha, double beta)
{
    const rx_unary_attr d = {.alpha = alpha, .beta = beta};
    return rx_graph_add(g, op, &x, 1, &d, NULL);
}

static rlx_value add_binary(rlx_graph *g, rx_op op, rlx_value a, rlx_value b, const void *attr)
{
    const rlx_value in[2] = {a, b};
    return rx_graph_add(g, op, in, 2, attr, NULL);
}

#define BUILD_none(name)                                           \
    rlx_value rlx_##name(rlx_graph *g, rlx_value x)                \
    {                                                              \
        return rx_graph_add(g, RX_OP_##name, &x, 1, NULL, NULL);   \
    }
#define BUILD_alpha(name)                                          \
    rlx_value rlx_##name(rlx_graph *g, rlx_value x, double alpha)  \
    {                                                              \
        return add_unary(g, RX_OP_##name, x, alpha, 0);            \
    }
#define BUILD_alpha_beta(name)                                                  \
    rlx_value rlx_##name(rlx_graph *g, rlx_value x, double alpha, double beta)  \
    {                                                                           \
        return add_unary(g, RX_OP_##name, x, alpha, beta);                      \
    }
#define BINARY(name)                                               \
    rlx_value rlx_##name(rlx_graph *g, rlx_value a, rlx_value b)   \
    {                                                              \
        return add_binary(g, RX_OP_##name, a, b, NULL);            \
    }

#define RLX_FUNCTION1(name, params, ...) BUILD_##params(name)
#define RLX_FUNCTION2(name, ...) BINARY(name)
#include "rlx/functions.def"
BUILD_none(not)
BUILD_none(is_nan)
BUILD_none(is_inf)
BINARY(and)
BINARY(or)
BINARY(xor)
BINARY(shl)
BINARY(shr)
BINARY(eq)
BINARY(ne)
BINARY(lt)
BINARY(le)
BINARY(gt)
BINARY(ge)

rlx_value rlx_mod(rlx_graph *g, rlx_value a, rlx_value b, bool floored)
{
    const rx_mod_attr d = {.floored = floored};
    return add_binary(g, RX_OP_mod, a, b, &d);
}

rlx_value rlx_where(rlx_graph *g, rlx_value cond, rlx_value a, rlx_value b)
{
    const rlx_value in[3] = {cond, a, b};
    return rx_graph_add(g, RX_OP_where, in, 3, NULL, NULL);
}

rlx_value rlx_clamp(rlx_graph *g, rlx_value x, double lo, double hi)
{
    const rx_clamp_attr d = {.lo = lo, .hi = hi};
    return rx_graph_add(g, RX_OP_clamp, &x, 1, &d, NULL);
}

rlx_value rlx_fma(rlx_graph *g, rlx_value a, rlx_value b, rlx_value c)
{
    const rlx_value in[3] = {a, b, c};
    return rx_graph_add(g, RX_OP_fma, in, 3, NULL, NULL);
}

rlx_value rlx_cast(rlx_graph *g, rlx_value x, rlx_dtype to)
{
    const rx_cast_attr d = {.to = to};
    return rx_graph_add(g, RX_OP_cast, &x, 1, &d, NULL);
}
