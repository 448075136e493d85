/* SPDX-License-Identifier: MIT */
/* Optimisers of ONNX. Operands: R, T, then for all tensors X.., G.., states.. */
#include "import/onnx_build.h"

typedef struct step {
    rlx_graph *g;
    rlx_value rate, count; /* f32 or of the type of X; the number of steps before, i64 */
    size_t n;              /* tensors */
} step;

static bool open_step(rx_onnx_call *c, size_t groups, step *s)
{
    *s = (step){c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1), c->n_in < 2 ? 0 : (c->n_in - 2) / groups};
    if (s->n < 1 || c->n_in != 2 + s->n * groups || c->n_out != s->n * (groups - 1)) {
        rx_onnx_fail(c, RLX_INVALID, "%zu operands and %zu results do not make whole tensors",
                     c->n_in, c->n_out);
        return false;
    }
    return true;
}

static rlx_value like(const step *s, rlx_value x, double v)
{
    return rlx_scalar(s->g, rlx_value_dtype(s->g, x), v);
}

static rlx_value times(const step *s, rlx_value x, double v)
{
    return rlx_mul(s->g, x, like(s, x, v));
}

/* Operand `group` of tensor i; gradients include the regularisation. */
static rlx_value part(rx_onnx_call *c, const step *s, size_t group, size_t i)
{
    return c->in[2 + group * s->n + i];
}

static rlx_value gradient(rx_onnx_call *c, const step *s, size_t i)
{
    const rlx_value x = part(c, s, 0, i);
    return rlx_add(s->g, times(s, x, rx_onnx_float(c, "norm_coefficient", 0)), part(c, s, 1, i));
}

static rlx_value count_like(const step *s, rlx_value x)
{
    return rlx_cast(s->g, s->count, rlx_value_dtype(s->g, x));
}

rlx_value rx_onnx_adagrad(rx_onnx_call *c)
{
    step s;
    if (!open_step(c, 3, &s))
        return RLX_NONE;
    for (size_t i = 0; i < s.n; i++) {
        const rlx_value x = part(c, &s, 0, i), g = gradient(c, &s, i);
        const rlx_value slow = times(&s, count_like(&s, x), rx_onnx_float(c, "decay_factor", 0));
        const rlx_value rate = rlx_div(s.g, s.rate, rlx_add(s.g, slow, like(&s, x, 1)));
        const rlx_value h = rlx_add(s.g, part(c, &s, 2, i), rlx_mul(s.g, g, g));
        const rlx_value root = rlx_add(s.g, rlx_sqrt(s.g, h),
                                       like(&s, x, rx_onnx_float(c, "epsilon", 1e-6)));
        c->out[i] = rlx_sub(s.g, x, rlx_div(s.g, rlx_mul(s.g, rate, g), root));
        c->out[s.n + i] = h;
    }
    return c->out[0];
}

rlx_value rx_onnx_momentum(rx_onnx_call *c)
{
    step s;
    const bool nesterov = rx_onnx_is(c, "mode", "nesterov", "standard");
    if (!open_step(c, 3, &s))
        return RLX_NONE;
    for (size_t i = 0; i < s.n; i++) {
        const rlx_value x = part(c, &s, 0, i), g = gradient(c, &s, i);
        const rlx_value later = rlx_gt(s.g, s.count, like(&s, s.count, 0));
        const rlx_value beta = rlx_where(s.g, later, like(&s, x, rx_onnx_float(c, "beta", 0)),
                                         like(&s, x, 1));
        const double alpha = rx_onnx_float(c, "alpha", 0);
        const rlx_value v = rlx_add(s.g, times(&s, part(c, &s, 2, i), alpha),
                                    rlx_mul(s.g, beta, g));
        const rlx_value by = nesterov ? rlx_add(s.g, g, times(&s, v, alpha)) : v;
        c->out[i] = rlx_sub(s.g, x, rlx_mul(s.g, s.rate, by));
        c->out[s.n + i] = v;
    }
    return c->out[0];
}

/* 1 - base^T */
static rlx_value warm(const step *s, rlx_value x, double base)
{
    return rlx_sub(s->g, like(s, x, 1), rlx_pow(s->g, like(s, x, base), count_like(s, x)));
}

rlx_value rx_onnx_adam(rx_onnx_call *c)
{
    step s;
    const double alpha = rx_onnx_float(c, "alpha", 0.9), beta = rx_onnx_float(c, "beta", 0.999);
    if (!open_step(c, 4, &s))
        return RLX_NONE;
    for (size_t i = 0; i < s.n; i++) {
        const rlx_value x = part(c, &s, 0, i), g = gradient(c, &s, i);
        const rlx_value v = rlx_add(s.g, times(&s, part(c, &s, 2, i), alpha),
                                    times(&s, g, 1 - alpha));
        const rlx_value h = rlx_add(s.g, times(&s, part(c, &s, 3, i), beta),
                                    times(&s, rlx_mul(s.g, g, g), 1 - beta));
        const rlx_value root = rlx_add(s.g, rlx_sqrt(s.g, h),
                                       like(&s, x, rx_onnx_float(c, "epsilon", 1e-6)));
        const rlx_value later = rlx_gt(s.g, s.count, like(&s, s.count, 0));
        const rlx_value scaled = rlx_div(s.g, rlx_mul(s.g, s.rate,
                                                      rlx_sqrt(s.g, warm(&s, x, beta))),
                                         warm(&s, x, alpha));
        const rlx_value rate = rlx_where(s.g, later, scaled, s.rate);
        const rlx_value next = rlx_sub(s.g, x, rlx_mul(s.g, rate, rlx_div(s.g, v, root)));
        c->out[i] = times(&s, next, 1 - rx_onnx_float(c, "norm_coefficient_post", 0));
        c->out[s.n + i] = v;
        c->out[2 * s.n + i] = h;
    }
    return c->out[0];
}
