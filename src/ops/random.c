/* SPDX-License-Identifier: MIT */
/* Random tensors and sampling of tokens: random_uniform, random_normal, sample. Builders and shape
 * rules. The numbers themselves are defined in base/philox.h and cpu/ref/random.c. */
#include <math.h>

#include "ir/infer.h"

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_random_uniform(rlx_graph *g, rlx_value seed, const rlx_random_desc *d)
{
    return rx_graph_add(g, RX_OP_random_uniform, &seed, 1, d, NULL);
}

rlx_value rlx_random_normal(rlx_graph *g, rlx_value seed, const rlx_random_desc *d)
{
    return rx_graph_add(g, RX_OP_random_normal, &seed, 1, d, NULL);
}

rlx_value rlx_sample(rlx_graph *g, rlx_value logits, rlx_value seed, rlx_value params,
                     const rlx_sample_desc *d)
{
    rlx_value in[] = {logits, seed, params};
    return rx_graph_add(g, RX_OP_sample, in, 3, d, NULL);
}

/* ---- Shape rules ----------------------------------------------------------------------------- */

/* The optional seed: an integer scalar. */
static rlx_status check_seed(rx_infer *c, size_t i)
{
    if (!rx_in(c, i))
        return RLX_OK;
    RLX_TRY(rx_check_type(c, i, "seed", RX_INDEX));
    return rx_check_rank(c, i, "seed", 0, 0);
}

/* Both bounds and the width must be f32 numbers: the result is lo + u * (hi - lo) in f32. */
static rlx_status check_bounds(rx_infer *c, rlx_random_desc *d)
{
    if (d->lo == 0 && d->hi == 0)
        d->hi = 1;
    if (!((float)d->lo < (float)d->hi) || !isfinite((float)d->lo) || !isfinite((float)d->hi) ||
        !isfinite((float)(d->hi - d->lo)))
        return rx_infer_fail(c, "lo and hi must be f32 numbers with lo < hi, got %g and %g", d->lo,
                             d->hi);
    return RLX_OK;
}

static rlx_status check_moments(rx_infer *c, rlx_random_desc *d)
{
    if (d->hi == 0)
        d->hi = 1;
    if (!isfinite((float)d->lo) || !isfinite((float)d->hi) || d->hi < 0)
        return rx_infer_fail(c, "lo (mean) must be finite and hi (deviation) above 0, got %g, %g",
                             d->lo, d->hi);
    return RLX_OK;
}

rlx_status rx_infer_random(rx_infer *c)
{
    rlx_random_desc *d = c->attr;
    RLX_TRY(check_seed(c, 0));
    RLX_TRY(rx_default_type(c, &d->out, RLX_F32, RX_FLOATS));
    RLX_TRY(c->op == RX_OP_random_uniform ? check_bounds(c, d) : check_moments(c, d));
    if (d->shape.n < 0 || d->shape.n > RLX_MAX_RANK)
        return rx_infer_fail(c, "shape must have at most %d dimensions, got %d", RLX_MAX_RANK,
                             (int)d->shape.n);
    rlx_shape s = {.rank = d->shape.n};
    for (int i = 0; i < s.rank; i++) {
        const rlx_dim dim = d->shape.v[i];
        if (dim == -1 || (dim < -1 && (uint64_t)(-(dim + 2)) >= c->g->n_dims))
            return rx_infer_fail(c, "shape: dimension %d must be at least 0 or named, got %lld", i,
                                 (long long)dim);
        s.dim[i] = dim;
    }
    rx_out(c, 0, d->out, &s);
    return RLX_OK;
}

/* seed? a scalar, params? [4]; for logits [B, V] also [B] and [B, 4]. */
static rlx_status check_row_operands(rx_infer *c)
{
    const rlx_shape *logits = &rx_in(c, 0)->shape;
    const rx_value *seed = rx_in(c, 1), *params = rx_in(c, 2);
    const bool rows = logits->rank == 2;
    if (seed) {
        RLX_TRY(rx_check_type(c, 1, "seed", RX_INDEX));
        RLX_TRY(rx_check_rank(c, 1, "seed", 0, rows));
        if (seed->shape.rank == 1)
            RLX_TRY(rx_check_dim(c, 1, "seed", 0, logits->dim[0]));
    }
    if (!params)
        return RLX_OK;
    RLX_TRY(rx_check_type(c, 2, "params", RX_T(RLX_F32)));
    const rlx_shape one = {1, {4}}, each = {2, {logits->dim[0], 4}};
    return rx_check_shape(c, 2, "params", rows && params->shape.rank == 2 ? &each : &one);
}

rlx_status rx_infer_sample(rx_infer *c)
{
    const rlx_sample_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "logits", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "logits", 1, RLX_MAX_RANK));
    RLX_TRY(check_row_operands(c));
    rlx_shape s = rx_in(c, 0)->shape;
    const rlx_dim vocabulary = s.dim[s.rank - 1];
    if (vocabulary == 0 || rx_dim_bound(c->g, vocabulary) > INT32_MAX)
        return rx_infer_fail(c, "logits: axis %d must have 1 to %d elements, got %lld", s.rank - 1,
                             INT32_MAX, (long long)rx_dim_bound(c->g, vocabulary));
    if (!(d->temperature >= 0))
        return rx_infer_fail(c, "temperature must be at least 0, got %g", d->temperature);
    if (d->top_k < 0)
        return rx_infer_fail(c, "top_k must be at least 0, got %lld", (long long)d->top_k);
    if (!(d->top_p >= 0 && d->top_p <= 1))
        return rx_infer_fail(c, "top_p must be from 0 to 1, got %g", d->top_p);
    if (!(d->min_p >= 0 && d->min_p <= 1))
        return rx_infer_fail(c, "min_p must be from 0 to 1, got %g", d->min_p);
    s.rank--;
    rx_out(c, 0, RLX_I32, &s);
    return RLX_OK;
}
