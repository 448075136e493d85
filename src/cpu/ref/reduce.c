/* SPDX-License-Identifier: MIT */
/* Reference kernels of the reductions: reduce_*, argmax, argmin, cumsum, cumprod, cummax. Floats
 * are summed in double, integers in 64 bits modulo 2^64, so that the result wraps as its type
 * does. */
#include <math.h>

#include "base/dtype.h"
#include "cpu/ref/order.h"

static double larger(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static double smaller(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}

/* ---- Regions: the axes of x that are reduced ------------------------------------------------- */

/* Axes of x that are reduced, with their strides. */
typedef struct region {
    int rank;
    int64_t dim[RLX_MAX_RANK], stride[RLX_MAX_RANK];
    int64_t n; /* elements */
} region;

static int64_t region_offset(const region *r, const int64_t *at)
{
    int64_t o = 0;
    for (int i = 0; i < r->rank; i++)
        o += at[i] * r->stride[i];
    return o;
}

/* Splits the axes of x into kept and reduced ones. */
static void split_axes(const rx_view *x, const rlx_ints *axes, region *kept, region *reduced)
{
    unsigned set = axes->n ? 0 : (1u << x->rank) - 1;
    for (int i = 0; i < axes->n; i++)
        set |= 1u << axes->v[i];
    *kept = *reduced = (region){.n = 1};
    for (int i = 0; i < x->rank; i++) {
        region *r = set >> i & 1 ? reduced : kept;
        r->dim[r->rank] = x->dim[i];
        r->stride[r->rank++] = x->stride[i];
        r->n *= x->dim[i];
    }
}

/* The largest element from offset `base` on, or a NaN: what log_sum_exp subtracts. */
static double region_max(const rx_view *x, int64_t base, const region *r)
{
    double m = -INFINITY;
    int64_t at[RLX_MAX_RANK] = {0};
    if (r->n)
        do
            m = larger(rx_load(x, base + region_offset(r, at)), m);
        while (rx_next(at, r->dim, r->rank));
    return m;
}

/* ---- Accumulators ---------------------------------------------------------------------------- */

static double plus(double v, double acc)
{
    return acc + v;
}

static double plus_magnitude(double v, double acc)
{
    return acc + fabs(v);
}

static double plus_square(double v, double acc)
{
    return acc + v * v;
}

/* Unsigned arithmetic: it wraps where signed arithmetic would be undefined. */
static int64_t int_plus(int64_t acc, int64_t v)
{
    return (int64_t)((uint64_t)acc + (uint64_t)v);
}

static int64_t int_times(int64_t acc, int64_t v)
{
    return (int64_t)((uint64_t)acc * (uint64_t)v);
}

static int64_t int_plus_magnitude(int64_t acc, int64_t v)
{
    return (int64_t)(v < 0 ? (uint64_t)acc - (uint64_t)v : (uint64_t)acc + (uint64_t)v);
}

static int64_t int_plus_square(int64_t acc, int64_t v)
{
    return (int64_t)((uint64_t)acc + (uint64_t)v * (uint64_t)v);
}

static int64_t int_larger(int64_t acc, int64_t v)
{
    return v > acc ? v : acc;
}

static int64_t int_smaller(int64_t acc, int64_t v)
{
    return v < acc ? v : acc;
}

/* u64 by its bits. */
static int64_t uint_larger(int64_t acc, int64_t v)
{
    return (uint64_t)v > (uint64_t)acc ? v : acc;
}

static int64_t uint_smaller(int64_t acc, int64_t v)
{
    return (uint64_t)v < (uint64_t)acc ? v : acc;
}

static int64_t int_or(int64_t acc, int64_t v)
{
    return acc || v;
}

static int64_t int_and(int64_t acc, int64_t v)
{
    return acc && v;
}

/* The identity of a reduction over integers: a number, or the end of the range of the type. */
typedef enum int_start { ZERO, ONE, LOWEST, HIGHEST } int_start;

/* NULL: no such step; floats: reduce_float has a loop of its own. */
static const struct reduction {
    double start;
    double (*step)(double v, double acc);
    double (*end)(double acc); /* NULL: the sum itself */
    int_start int_start;
    int64_t (*int_step)(int64_t acc, int64_t v);
    int64_t (*uint_step)(int64_t acc, int64_t v); /* for u64; NULL: int_step */
} reductions[RX_N_OPS] = {
    [RX_OP_reduce_sum] = {0, plus, NULL, ZERO, int_plus, NULL},
    [RX_OP_reduce_mean] = {0, plus, NULL, ZERO, int_plus, NULL},
    [RX_OP_reduce_max] = {-INFINITY, larger, NULL, LOWEST, int_larger, uint_larger},
    [RX_OP_reduce_min] = {INFINITY, smaller, NULL, HIGHEST, int_smaller, uint_smaller},
    [RX_OP_reduce_prod] = {1, NULL, NULL, ONE, int_times, NULL},
    [RX_OP_reduce_l1] = {0, plus_magnitude, NULL, ZERO, int_plus_magnitude, int_plus},
    [RX_OP_reduce_l2] = {0, plus_square, sqrt, ZERO, NULL, NULL},
    [RX_OP_reduce_log_sum] = {0, plus, log, ZERO, NULL, NULL},
    [RX_OP_reduce_sum_square] = {0, plus_square, NULL, ZERO, int_plus_square, NULL},
    [RX_OP_reduce_any] = {0, NULL, NULL, ZERO, int_or, NULL},
    [RX_OP_reduce_all] = {0, NULL, NULL, ONE, int_and, NULL},
};

static int64_t start_int(rx_op op, rlx_dtype t)
{
    const int_start s = reductions[op].int_start;
    const rx_int_range range = rx_dtype_range(t);
    return s == LOWEST ? range.lo : s == HIGHEST ? (int64_t)range.hi : s == ONE;
}

static int64_t step_int(rx_op op, rlx_dtype t, int64_t acc, int64_t v)
{
    const struct reduction *k = &reductions[op];
    return t == RLX_U64 && k->uint_step ? k->uint_step(acc, v) : k->int_step(acc, v);
}

/* ---- reduce ---------------------------------------------------------------------------------- */

/* peak + log1p(sum of the others), which keeps small terms. */
static double log_sum_exp(const rx_view *x, int64_t base, const region *r)
{
    const double peak = region_max(x, base, r);
    if (!isfinite(peak))
        return peak;
    double others = 0;
    int64_t at[RLX_MAX_RANK] = {0};
    bool passed = false;
    do {
        const double v = rx_load(x, base + region_offset(r, at));
        if (v == peak && !passed)
            passed = true;
        else
            others += exp(v - peak);
    } while (rx_next(at, r->dim, r->rank));
    return peak + log1p(others);
}

/* f64 multiplies directly; products of smaller types keep a separate exponent, so that only the
 * result can overflow. */
static void multiply(rlx_dtype t, rx_scaled *p, double by)
{
    if (t == RLX_F64)
        p->m *= by;
    else
        rx_scaled_multiply(p, by);
}

static double product(const rx_view *x, int64_t base, const region *r)
{
    rx_scaled p = {1, 0};
    int64_t at[RLX_MAX_RANK] = {0};
    if (r->n)
        do
            multiply(x->dtype, &p, rx_load(x, base + region_offset(r, at)));
        while (rx_next(at, r->dim, r->rank));
    return rx_scaled_value(&p);
}

static double reduce_float(rx_op op, const rx_view *x, int64_t base, const region *r)
{
    if (op == RX_OP_reduce_log_sum_exp)
        return log_sum_exp(x, base, r);
    if (op == RX_OP_reduce_prod)
        return product(x, base, r);
    const struct reduction *k = &reductions[op];
    double acc = k->start;
    int64_t at[RLX_MAX_RANK] = {0};
    if (r->n)
        do
            acc = k->step(rx_load(x, base + region_offset(r, at)), acc);
        while (rx_next(at, r->dim, r->rank));
    if (op == RX_OP_reduce_mean)
        return acc / (double)r->n;
    return k->end ? k->end(acc) : acc;
}

static int64_t reduce_int(rx_op op, const rx_view *x, int64_t base, const region *r)
{
    int64_t acc = start_int(op, x->dtype);
    int64_t at[RLX_MAX_RANK] = {0};
    if (r->n)
        do
            acc = step_int(op, x->dtype, acc, rx_load_int(x, base + region_offset(r, at)));
        while (rx_next(at, r->dim, r->rank));
    if (op != RX_OP_reduce_mean)
        return acc;
    if (x->dtype == RLX_U64)
        return r->n ? (int64_t)((uint64_t)acc / (uint64_t)r->n) : 0;
    return r->n ? acc / r->n : 0;
}

rlx_status rx_ref_reduce(const rx_call *c)
{
    const rx_reduce_attr *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    region kept, reduced;
    split_axes(x, &d->axes, &kept, &reduced);
    if (!kept.n)
        return RLX_OK;
    int64_t at[RLX_MAX_RANK] = {0}, o = 0;
    do {
        const int64_t base = region_offset(&kept, at);
        if (rlx_dtype_is_float(x->dtype))
            rx_store(y, o++, reduce_float(c->op, x, base, &reduced));
        else
            rx_store_int(y, o++, reduce_int(c->op, x, base, &reduced));
    } while (rx_next(at, kept.dim, kept.rank));
    return RLX_OK;
}

/* ---- Along one axis -------------------------------------------------------------------------- */

/* Whether element a of x replaces element b as the extreme: larger, or smaller with `min`. NaN
 * beats any number. */
static bool is_beyond(const rx_view *x, int64_t a, int64_t b, bool min)
{
    if (!rlx_dtype_is_float(x->dtype)) {
        const rx_key i = rx_load_key(x, a, 0), j = rx_load_key(x, b, 0);
        return min ? i.i < j.i : i.i > j.i;
    }
    const double u = rx_load(x, a), v = rx_load(x, b);
    if (isnan(u) || isnan(v))
        return isnan(u) && !isnan(v);
    return min ? u < v : u > v;
}

/* An axis of size 0 gives index 0. */
static int64_t best_place(const rx_view *x, int64_t base, const rlx_arg_desc *d, bool min)
{
    const int64_t n = x->dim[d->axis], stride = x->stride[d->axis];
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        const int64_t a = base + i * stride, b = base + best * stride;
        if (is_beyond(x, a, b, min) || (d->last && !is_beyond(x, b, a, min)))
            best = i;
    }
    return best;
}

rlx_status rx_ref_arg(const rx_call *c)
{
    const rlx_arg_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const rlx_ints axis = {.n = 1, .v = {d->axis}};
    region kept, reduced;
    split_axes(x, &axis, &kept, &reduced);
    if (!kept.n)
        return RLX_OK;
    int64_t at[RLX_MAX_RANK] = {0}, o = 0;
    do {
        const int64_t base = region_offset(&kept, at);
        rx_store_int(y, o++, best_place(x, base, d, c->op == RX_OP_argmin));
    } while (rx_next(at, kept.dim, kept.rank));
    return RLX_OK;
}

/* The reduction that a cumulative operation repeats. */
static rx_op running_op(rx_op op)
{
    if (op == RX_OP_cumprod)
        return RX_OP_reduce_prod;
    return op == RX_OP_cummax ? RX_OP_reduce_max : RX_OP_reduce_sum;
}

/* One line of x and y, from offsets x0 and y0. */
static void run_line(const rx_call *c, int64_t x0, int64_t y0)
{
    const rlx_cum_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const rx_op op = running_op(c->op);
    const bool is_float = rlx_dtype_is_float(x->dtype);
    const int64_t n = x->dim[d->axis];
    double f = reductions[op].start;
    rx_scaled p = {1, 0};
    int64_t k = start_int(op, x->dtype);
    for (int64_t j = 0; j < n; j++) {
        const int64_t i = d->reverse ? n - 1 - j : j;
        const int64_t xo = x0 + i * x->stride[d->axis], yo = y0 + i * y->stride[d->axis];
        const double f_old = f;
        const double p_old = rx_scaled_value(&p);
        const int64_t k_old = k;
        if (is_float && op == RX_OP_reduce_prod) {
            multiply(x->dtype, &p, rx_load(x, xo));
            rx_store(y, yo, d->exclusive ? p_old : rx_scaled_value(&p));
        } else if (is_float) {
            f = reductions[op].step(rx_load(x, xo), f);
            rx_store(y, yo, d->exclusive ? f_old : f);
        } else {
            k = step_int(op, x->dtype, k, rx_load_int(x, xo));
            rx_store_int(y, yo, d->exclusive ? k_old : k);
        }
    }
}

rlx_status rx_ref_cum(const rx_call *c)
{
    const rlx_cum_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const rlx_ints axis = {.n = 1, .v = {d->axis}};
    region x_lines, y_lines, line;
    split_axes(x, &axis, &x_lines, &line);
    split_axes(y, &axis, &y_lines, &line);
    if (!x_lines.n)
        return RLX_OK;
    int64_t at[RLX_MAX_RANK] = {0};
    do
        run_line(c, region_offset(&x_lines, at), region_offset(&y_lines, at));
    while (rx_next(at, x_lines.dim, x_lines.rank));
    return RLX_OK;
}
