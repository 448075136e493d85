/* SPDX-License-Identifier: MIT */
/* Derivatives of elementwise operations. Those of functions come from the last columns of
 * rlx/functions.def, written here as nodes; halves are computed in f32. */
#include <math.h>

#include "ir/functions.h"
#include "ops/grad.h"
#include "ops/lower.h"

/* A constant or a value. */
typedef struct term {
    rlx_value v; /* RLX_NONE: the number k */
    double k;
} term;

/* Names that formulas use. */
typedef struct formula {
    rlx_graph *g;
    rlx_dtype type;
    term a, b, f; /* operands and result */
    double alpha, beta;
} formula;

static term number(double k)
{
    return (term){RLX_NONE, k};
}

static rlx_value value_of(const formula *e, term t)
{
    return t.v.id ? t.v : rlx_scalar(e->g, e->type, t.k);
}

static bool is_number(term t, double k)
{
    return !t.v.id && t.k == k;
}

static term unary(const formula *e, rlx_value (*fn)(rlx_graph *, rlx_value), term t)
{
    return (term){fn(e->g, value_of(e, t)), 0};
}

static term binary(const formula *e, rlx_value (*fn)(rlx_graph *, rlx_value, rlx_value), term s,
                   term t)
{
    return (term){fn(e->g, value_of(e, s), value_of(e, t)), 0};
}

static term negate(const formula *e, term t)
{
    return t.v.id ? unary(e, rlx_neg, t) : number(-t.k);
}

static term multiply(const formula *e, term s, term t)
{
    if (is_number(s, 1) || is_number(t, 0))
        return is_number(s, 1) ? t : s.v.id ? t : number(s.k * t.k);
    if (is_number(t, 1))
        return s;
    if (is_number(s, -1) || is_number(t, -1))
        return negate(e, is_number(s, -1) ? t : s);
    return binary(e, rlx_mul, s, t);
}

static term choose(const formula *e, term cond, term s, term t)
{
    return (term){rlx_where(e->g, cond.v, value_of(e, s), value_of(e, t)), 0};
}

static term softplus_term(const formula *e, term t)
{
    return unary(e, rlx_softplus, t);
}

#define X (e->a)
#define A (e->a)
#define B (e->b)
#define F (e->f)
#define ALPHA number(e->alpha)
#define BETA number(e->beta)
#define K(x) number(x)
#define ADD(s, t) binary(e, rlx_add, s, t)
#define SUB(s, t) binary(e, rlx_sub, s, t)
#define MUL(s, t) multiply(e, s, t)
#define DIV(s, t) binary(e, rlx_div, s, t)
#define MAX(s, t) binary(e, rlx_max, s, t)
#define MIN(s, t) binary(e, rlx_min, s, t)
#define POW(s, t) binary(e, rlx_pow, s, t)
#define ATAN2(s, t) binary(e, rlx_atan2, s, t)
#define LT(s, t) binary(e, rlx_lt, s, t)
#define GT(s, t) binary(e, rlx_gt, s, t)
#define SELECT(c, s, t) choose(e, c, s, t)
#define NEG(t) negate(e, t)
#define ABS(t) unary(e, rlx_abs, t)
#define SIGN(t) unary(e, rlx_sign, t)
#define SQRT(t) unary(e, rlx_sqrt, t)
#define EXP(t) unary(e, rlx_exp, t)
#define EXP2(t) unary(e, rlx_exp2, t)
#define LOG(t) unary(e, rlx_log, t)
#define LOG2(t) unary(e, rlx_log2, t)
#define SIN(t) unary(e, rlx_sin, t)
#define COS(t) unary(e, rlx_cos, t)
#define TAN(t) unary(e, rlx_tan, t)
#define ASIN(t) unary(e, rlx_asin, t)
#define ACOS(t) unary(e, rlx_acos, t)
#define ATAN(t) unary(e, rlx_atan, t)
#define SINH(t) unary(e, rlx_sinh, t)
#define COSH(t) unary(e, rlx_cosh, t)
#define TANH(t) unary(e, rlx_tanh, t)
#define ERF(t) unary(e, rlx_erf, t)
#define SIGMOID(t) unary(e, rlx_sigmoid, t)
#define SOFTPLUS(t) softplus_term(e, t)

#define RLX_FUNCTION1(name, params, alpha, beta, meaning, types, kind, flags, domain, accuracy, \
                      form, derivative)                                                         \
    static term d_##name(const formula *e) { (void)e; return derivative; }
#define RLX_FUNCTION2(name, meaning, types, kind, flags, domain, accuracy, form, by_a, by_b) \
    static term d_##name(const formula *e) { (void)e; return by_a; }                         \
    static term d_##name##_b(const formula *e) { (void)e; return by_b; }
#include "rlx/functions.def"
#include "ir/functions_end.h"

static term (*const derivatives[RX_N_OPS][2])(const formula *) = {
#define RLX_FUNCTION1(name, ...) [RX_OP_##name] = {d_##name},
#define RLX_FUNCTION2(name, ...) [RX_OP_##name] = {d_##name, d_##name##_b},
#include "rlx/functions.def"
#include "ir/functions_end.h"
};

static formula formula_of(const rx_grad *c)
{
    rlx_graph *g = c->g;
    formula e = {.g = g, .type = rx_working_type(rlx_value_dtype(g, c->y))};
    e.a.v = rx_widen_half(g, c->in[0]);
    if (c->node->n_in > 1)
        e.b.v = rx_widen_half(g, c->in[1]);
    e.f.v = rx_widen_half(g, c->y);
    return e;
}

static rlx_value times(const formula *e, rlx_value dy, term d)
{
    if (is_number(d, 0))
        return RLX_NONE;
    const term up = {rx_widen_half(e->g, dy), 0};
    return multiply(e, up, d).v;
}

rlx_status rx_grad_function1(rx_grad *c)
{
    formula e = formula_of(c);
    if (c->attr && rx_ops[c->node->op].attr == &rx_attr_unary) {
        const rx_unary_attr *d = c->attr;
        e.alpha = d->alpha;
        e.beta = d->beta;
    }
    c->dx[0] = times(&e, c->dy[0], derivatives[c->node->op][0](&e));
    return RLX_OK;
}

rlx_status rx_grad_function2(rx_grad *c)
{
    const formula e = formula_of(c);
    for (uint32_t i = 0; i < 2; i++)
        if (c->wants[i])
            c->dx[i] = times(&e, c->dy[0], derivatives[c->node->op][i](&e));
    return RLX_OK;
}

/* y = a - q b with an integer q, which is (a - y) / b up to rounding. */
rlx_status rx_grad_mod(rx_grad *c)
{
    rlx_graph *g = c->g;
    c->dx[0] = c->dy[0];
    if (c->wants[1]) {
        const rlx_value q = rlx_div(g, rlx_sub(g, c->in[0], c->y), c->in[1]);
        c->dx[1] = rlx_neg(g, rlx_mul(g, c->dy[0], rlx_round(g, q)));
    }
    return RLX_OK;
}

rlx_status rx_grad_where(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_value zero = rx_number_like(g, c->dy[0], 0);
    if (c->wants[1])
        c->dx[1] = rlx_where(g, c->in[0], c->dy[0], zero);
    if (c->wants[2])
        c->dx[2] = rlx_where(g, c->in[0], zero, c->dy[0]);
    return RLX_OK;
}

rlx_status rx_grad_clamp(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rx_clamp_attr *d = c->attr;
    const rlx_value x = c->in[0];
    c->dx[0] = c->dy[0];
    if (d->lo > -INFINITY)
        c->dx[0] = rx_grad_keep(g, rlx_ge(g, x, rx_number_like(g, x, d->lo)), c->dx[0]);
    if (d->hi < INFINITY)
        c->dx[0] = rx_grad_keep(g, rlx_le(g, x, rx_number_like(g, x, d->hi)), c->dx[0]);
    return RLX_OK;
}

rlx_status rx_grad_fma(rx_grad *c)
{
    for (uint32_t i = 0; i < 2; i++)
        if (c->wants[i])
            c->dx[i] = rlx_mul(c->g, c->dy[0], c->in[1 - i]);
    c->dx[2] = c->dy[0];
    return RLX_OK;
}

rlx_status rx_grad_cast(rx_grad *c)
{
    c->dx[0] = c->dy[0];
    return RLX_OK;
}
