/* SPDX-License-Identifier: MIT */
/* Optimisers: derivatives, clipping, schedule and update as operations of the graph that they
 * train, on states. */
#include <math.h>
#include <stdio.h>

#include "base/sized.h"
#include "ops/lower.h"
#include "rlx/grad.h"
#include "rlx/train.h"

#define NAME_ROOM 512

typedef struct optimizer {
    rlx_graph *g;
    rlx_optimizer_desc d;
    rlx_value step;    /* runs including this one: i32 [1] */
    rlx_value updates; /* including this one: f32 [1] */
    rlx_value applies; /* bool [1]: this run ends with an update; RLX_NONE: each does */
    rlx_value lr;      /* f32 [1] */
} optimizer;

static rlx_value scaled(rlx_graph *g, rlx_value v, double x)
{
    return x == 1 ? v : rlx_mul(g, v, rx_number_like(g, v, x));
}

static rlx_value plus(rlx_graph *g, rlx_value v, double x)
{
    return rlx_add(g, v, rx_number_like(g, v, x));
}

static void write_state(rlx_graph *g, rlx_value state, rlx_value v)
{
    rlx_state_write(g, state, v, rlx_scalar(g, RLX_I32, 0), 0);
}

/* A state with the shape of a parameter, named after it with a suffix. */
static rlx_value beside(optimizer *o, rlx_value param, const char *suffix)
{
    const rx_leaf_attr *leaf = rx_value_node(o->g, param.id)->attr;
    char name[NAME_ROOM];
    snprintf(name, sizeof name, "%.*s.%s", NAME_ROOM - 16, leaf->name, suffix);
    return rlx_state(o->g, name, leaf->dtype, leaf->shape.rank, leaf->shape.dim);
}

/* ---- Settings -------------------------------------------------------------------------------- */

static bool is_rate(double x)
{
    return x >= 0 && isfinite(x);
}

static double or_default(double x, double dflt)
{
    return x == 0 ? dflt : x;
}

static rlx_status read_desc(optimizer *o, const rlx_optimizer_desc *desc)
{
    rlx_error err;
    rlx_optimizer_desc *d = &o->d;
    if (RX_DESC_READ(rlx_optimizer_desc, d, desc, &err) != RLX_OK)
        return rx_graph_fail(o->g, err.code, "%s", err.text);
    if ((unsigned)d->kind > RLX_LION || (unsigned)d->schedule > RLX_SCHEDULE_COSINE)
        return rx_graph_fail(o->g, RLX_INVALID, "rlx_optimizer: kind expected from 0 to %d and "
                             "schedule from 0 to %d, got %d and %d", RLX_LION,
                             RLX_SCHEDULE_COSINE, (int)d->kind, (int)d->schedule);
    d->lr = or_default(d->lr, 1e-3);
    d->beta1 = or_default(d->beta1, 0.9);
    d->beta2 = or_default(d->beta2, d->kind == RLX_LION ? 0.99 : 0.999);
    d->eps = or_default(d->eps, 1e-8);
    d->accumulate = d->accumulate ? d->accumulate : 1;
    if (!is_rate(d->lr) || !is_rate(d->eps) || !is_rate(d->weight_decay) ||
        !is_rate(d->momentum) || !is_rate(d->clip_norm) || !is_rate(d->lr_end) ||
        !(d->beta1 >= 0 && d->beta1 < 1) || !(d->beta2 >= 0 && d->beta2 < 1))
        return rx_graph_fail(o->g, RLX_INVALID, "rlx_optimizer: rates expected as finite numbers "
                             "from 0 and betas below 1, got lr=%g beta1=%g beta2=%g eps=%g "
                             "weight_decay=%g momentum=%g clip_norm=%g lr_end=%g", d->lr, d->beta1,
                             d->beta2, d->eps, d->weight_decay, d->momentum, d->clip_norm,
                             d->lr_end);
    if (d->accumulate < 1 || d->accumulate > INT32_MAX || d->warmup < 0 ||
        (d->schedule != RLX_SCHEDULE_CONSTANT && d->steps <= d->warmup))
        return rx_graph_fail(o->g, RLX_INVALID, "rlx_optimizer: accumulate expected from 1, warmup "
                             "from 0, and for a schedule more steps than warmup, got %lld, %lld "
                             "and %lld", (long long)d->accumulate, (long long)d->warmup,
                             (long long)d->steps);
    return RLX_OK;
}

static rlx_status check_params(optimizer *o, const rlx_value *params, size_t n)
{
    char text[RX_TYPE_TEXT];
    if (!n || !params)
        return rx_graph_fail(o->g, RLX_INVALID, "rlx_optimizer: params expected, got none");
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = params[i].id;
        if (!id || id >= o->g->n_values || rx_value_node(o->g, id)->op != RX_OP_state)
            return rx_graph_fail(o->g, RLX_INVALID, "rlx_optimizer: params[%zu] expected as a "
                                 "state of the graph (rlx_state)", i);
        const rx_value *v = rx_value_at(o->g, id);
        if ((v->dtype != RLX_F32 && v->dtype != RLX_F64) || v->shape.rank < 1)
            return rx_graph_fail(o->g, RLX_INVALID, "rlx_optimizer: params[%zu] expected as f32 or "
                                 "f64 of rank 1 to 8, got %s", i,
                                 rx_type_text(o->g, v->dtype, &v->shape, text));
    }
    return RLX_OK;
}

/* ---- Counting and the learning rate ---------------------------------------------------------- */

/* The factor of the learning rate for this update. */
static rlx_value schedule(const optimizer *o)
{
    rlx_graph *g = o->g;
    const rlx_optimizer_desc *d = &o->d;
    rlx_value rate = rlx_scalar(g, RLX_F32, 1);
    if (d->warmup > 0)
        rate = rlx_clamp(g, scaled(g, o->updates, 1 / (double)d->warmup), 0, 1);
    if (d->schedule == RLX_SCHEDULE_CONSTANT)
        return rate;
    const double length = (double)(d->steps - d->warmup);
    rlx_value done = scaled(g, plus(g, o->updates, -(double)d->warmup), 1 / length);
    done = rlx_clamp(g, done, 0, 1);
    if (d->schedule == RLX_SCHEDULE_COSINE) {
        const rlx_value turn = rlx_cos(g, scaled(g, done, 3.14159265358979323846));
        done = scaled(g, plus(g, rlx_neg(g, turn), 1), 0.5);
    }
    return rlx_mul(g, rate, plus(g, scaled(g, done, d->lr_end - 1), 1));
}

static void count_step(optimizer *o)
{
    rlx_graph *g = o->g;
    const rlx_dim one = 1;
    const rlx_value before = rlx_state(g, "optimizer.step", RLX_I32, 1, &one);
    const rlx_value each = rlx_scalar(g, RLX_I32, (double)o->d.accumulate);
    o->step = rlx_add(g, before, rlx_scalar(g, RLX_I32, 1));
    o->updates = rlx_cast(g, rlx_div(g, o->step, each), RLX_F32);
    if (o->d.accumulate > 1)
        o->applies = rlx_eq(g, rlx_mod(g, o->step, each, true), rlx_scalar(g, RLX_I32, 0));
    o->lr = scaled(g, schedule(o), o->d.lr);
    write_state(g, before, o->step);
}

/* ---- Derivatives ----------------------------------------------------------------------------- */

/* Gradient accumulation over runs: *grad becomes the mean so far; the sum is a state. */
static void accumulate(optimizer *o, rlx_value param, rlx_value *grad)
{
    rlx_graph *g = o->g;
    if (o->d.accumulate == 1)
        return;
    const rlx_value state = beside(o, param, "sum");
    *grad = rlx_add(g, state, scaled(g, *grad, 1 / (double)o->d.accumulate));
    write_state(g, state, rlx_where(g, o->applies, rx_number_like(g, *grad, 0), *grad));
}

static rlx_value norm_of_all(rlx_graph *g, const rlx_value *grads, size_t n)
{
    rlx_value sum = RLX_NONE;
    for (size_t i = 0; i < n; i++) {
        rlx_value s = rlx_reduce(g, RLX_REDUCE_SUM_SQUARE, grads[i], NULL, 0, false);
        s = rx_as_type(g, s, RLX_F32);
        sum = sum.id ? rlx_add(g, sum, s) : s;
    }
    return rlx_sqrt(g, sum);
}

/* ---- Updates --------------------------------------------------------------------------------- */

/* b * old + (1 - b) * v */
static rlx_value average(rlx_graph *g, rlx_value old, rlx_value v, double b)
{
    return rlx_add(g, scaled(g, old, b), scaled(g, v, 1 - b));
}

static void keep(optimizer *o, rlx_value state, rlx_value v)
{
    write_state(o->g, state, o->applies.id ? rlx_where(o->g, o->applies, v, state) : v);
}

/* 1 - b^updates = -(exp(updates log b) - 1), where elu does not cancel. */
static rlx_value correction(const optimizer *o, double b, rlx_dtype t)
{
    rlx_graph *g = o->g;
    if (b == 0)
        return rlx_scalar(g, t, 1);
    return rx_as_type(g, rlx_neg(g, rlx_elu(g, scaled(g, o->updates, log(b)), 1)), t);
}

static rlx_value adam_direction(optimizer *o, rlx_value param, rlx_value grad)
{
    rlx_graph *g = o->g;
    const rlx_dtype t = rlx_value_dtype(g, grad);
    const rlx_value m0 = beside(o, param, "m"), v0 = beside(o, param, "v");
    const rlx_value m = average(g, m0, grad, o->d.beta1);
    const rlx_value v = average(g, v0, rlx_mul(g, grad, grad), o->d.beta2);
    const rlx_value root = rlx_sqrt(g, rlx_div(g, v, correction(o, o->d.beta2, t)));
    const rlx_value step = rlx_div(g, rlx_div(g, m, correction(o, o->d.beta1, t)),
                                   plus(g, root, o->d.eps));
    keep(o, m0, m);
    keep(o, v0, v);
    return step;
}

static rlx_value sgd_direction(optimizer *o, rlx_value param, rlx_value grad)
{
    rlx_graph *g = o->g;
    if (o->d.momentum == 0)
        return grad;
    const rlx_value m0 = beside(o, param, "m");
    const rlx_value m = rlx_add(g, scaled(g, m0, o->d.momentum), grad);
    keep(o, m0, m);
    return o->d.nesterov ? rlx_add(g, grad, scaled(g, m, o->d.momentum)) : m;
}

static rlx_value lion_direction(optimizer *o, rlx_value param, rlx_value grad)
{
    rlx_graph *g = o->g;
    const rlx_value m0 = beside(o, param, "m");
    const rlx_value step = rlx_sign(g, average(g, m0, grad, o->d.beta1));
    keep(o, m0, average(g, m0, grad, o->d.beta2));
    return step;
}

static void update(optimizer *o, rlx_value param, rlx_value grad)
{
    static rlx_value (*const directions[])(optimizer *, rlx_value, rlx_value) = {
        [RLX_ADAMW] = adam_direction, [RLX_ADAM] = adam_direction, [RLX_SGD] = sgd_direction,
        [RLX_LION] = lion_direction,
    };
    rlx_graph *g = o->g;
    const bool apart = o->d.kind == RLX_ADAMW || o->d.kind == RLX_LION;
    const rlx_value decay = scaled(g, param, o->d.weight_decay);
    if (o->d.weight_decay != 0 && !apart)
        grad = rlx_add(g, grad, decay);
    rlx_value step = directions[o->d.kind](o, param, grad);
    if (o->d.weight_decay != 0 && apart)
        step = rlx_add(g, step, decay);
    const rlx_value lr = rx_as_type(g, o->lr, rlx_value_dtype(g, param));
    keep(o, param, rlx_sub(g, param, rlx_mul(g, lr, step)));
}

static rlx_status run(optimizer *o, rlx_value loss, const rlx_value *params, size_t n,
                      rlx_value *grads, rlx_value *norm)
{
    rlx_graph *g = o->g;
    RLX_TRY(rlx_grad(g, loss, params, n, grads));
    count_step(o);
    for (size_t i = 0; i < n; i++)
        accumulate(o, params[i], &grads[i]);
    const rlx_value all = norm || o->d.clip_norm > 0 ? norm_of_all(g, grads, n) : RLX_NONE;
    if (o->d.clip_norm > 0) {
        const rlx_value most = rlx_scalar(g, RLX_F32, o->d.clip_norm);
        const rlx_value factor = rlx_clamp(g, rlx_div(g, most, plus(g, all, 1e-6)), 0, 1);
        for (size_t i = 0; i < n; i++)
            grads[i] = rlx_mul(g, grads[i], rx_as_type(g, factor, rlx_value_dtype(g, grads[i])));
    }
    for (size_t i = 0; i < n; i++)
        update(o, params[i], grads[i]);
    if (norm)
        *norm = all;
    return g->error.code;
}

rlx_status rlx_optimizer(rlx_graph *g, rlx_value loss, const rlx_value *params, size_t n,
                         const rlx_optimizer_desc *d, rlx_value *norm)
{
    if (norm)
        *norm = RLX_NONE;
    if (!g)
        return RLX_INVALID;
    if (g->error.code)
        return g->error.code;
    optimizer o = {.g = g};
    RLX_TRY(read_desc(&o, d));
    RLX_TRY(check_params(&o, params, n));
    rlx_value *grads = rx_alloc_array_zero(n, sizeof *grads);
    if (!grads)
        return rx_graph_fail(g, RLX_NO_MEMORY, "rlx_optimizer: out of memory");
    const rlx_status s = run(&o, loss, params, n, grads, norm);
    rx_free(grads);
    return s;
}
