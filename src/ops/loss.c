/* SPDX-License-Identifier: MIT */
/* Losses, as graphs of operations. */
#include <math.h>

#include "base/sized.h"
#include "ops/lower.h"
#include "rlx/train.h"

static rlx_value mean(rlx_graph *g, rlx_value v)
{
    return rlx_reduce(g, RLX_REDUCE_MEAN, v, NULL, 0, false);
}

static rlx_value over_last(rlx_graph *g, rlx_reduce_kind kind, rlx_value v)
{
    const int64_t last = -1;
    return rlx_reduce(g, kind, v, &last, 1, false);
}

static rlx_value scaled(rlx_graph *g, rlx_value v, double x)
{
    return rlx_mul(g, v, rx_number_like(g, v, x));
}

/* The losses of all rows: -log p[label], smoothed, plus the squares of the logarithms of sums. */
static rlx_value row_losses(rlx_graph *g, rlx_value logits, rlx_value labels,
                            const rlx_cross_entropy_desc *d)
{
    const rlx_value p = rlx_log_softmax(g, logits, -1);
    const rlx_value index = rlx_unsqueeze(g, labels, -1);
    rlx_value loss = rlx_neg(g, rlx_squeeze(g, rlx_gather_elements(g, p, index, -1), -1));
    if (d->smoothing != 0) {
        const rlx_value spread = over_last(g, RLX_REDUCE_MEAN, p);
        loss = rlx_sub(g, scaled(g, loss, 1 - d->smoothing), scaled(g, spread, d->smoothing));
    }
    if (d->z_loss != 0) {
        const rlx_value z = over_last(g, RLX_REDUCE_LOG_SUM_EXP, logits);
        loss = rlx_add(g, loss, scaled(g, rlx_mul(g, z, z), d->z_loss));
    }
    return loss;
}

rlx_value rlx_cross_entropy(rlx_graph *g, rlx_value logits, rlx_value labels,
                            const rlx_cross_entropy_desc *desc)
{
    rlx_cross_entropy_desc d;
    rlx_error err;
    if (RX_DESC_READ(rlx_cross_entropy_desc, &d, desc, &err) != RLX_OK) {
        rx_graph_fail(g, err.code, "%s", err.text);
        return RLX_NONE;
    }
    if (!(d.smoothing >= 0 && d.smoothing <= 1) || !(d.z_loss >= 0) || !isfinite(d.z_loss)) {
        rx_graph_fail(g, RLX_INVALID, "rlx_cross_entropy: smoothing expected from 0 to 1 and "
                      "z_loss from 0, got %g and %g", d.smoothing, d.z_loss);
        return RLX_NONE;
    }
    logits = rx_widen_half(g, logits);
    const rlx_value zero = rx_number_like(g, labels, 0);
    const rlx_value counts = rlx_ge(g, labels, zero);
    const rlx_value loss = row_losses(g, logits, rlx_max(g, labels, zero), &d);
    const rlx_value kept = rlx_where(g, counts, loss, rx_number_like(g, loss, 0));
    const rlx_value ones = rlx_cast(g, counts, rlx_value_dtype(g, loss));
    const rlx_value n = rlx_reduce(g, RLX_REDUCE_SUM, ones, NULL, 0, false);
    const rlx_value sum = rlx_reduce(g, RLX_REDUCE_SUM, kept, NULL, 0, false);
    return rlx_div(g, sum, rlx_max(g, n, rx_number_like(g, n, 1)));
}

static rlx_value difference(rlx_graph *g, rlx_value x, rlx_value target)
{
    return rlx_sub(g, rx_widen_half(g, x), rx_widen_half(g, target));
}

rlx_value rlx_mse_loss(rlx_graph *g, rlx_value x, rlx_value target)
{
    const rlx_value e = difference(g, x, target);
    return mean(g, rlx_mul(g, e, e));
}

rlx_value rlx_l1_loss(rlx_graph *g, rlx_value x, rlx_value target)
{
    return mean(g, rlx_abs(g, difference(g, x, target)));
}

rlx_value rlx_huber_loss(rlx_graph *g, rlx_value x, rlx_value target, double delta)
{
    const rlx_value e = rlx_abs(g, difference(g, x, target));
    delta = delta != 0 ? delta : 1;
    const rlx_value near = scaled(g, rlx_mul(g, e, e), 0.5);
    const rlx_value far = scaled(g, rlx_sub(g, e, rx_number_like(g, e, delta / 2)), delta);
    return mean(g, rlx_where(g, rlx_le(g, e, rx_number_like(g, e, delta)), near, far));
}

/* -t log s(x) - (1 - t) log(1 - s(x)) = softplus(x) - t x */
rlx_value rlx_bce_loss(rlx_graph *g, rlx_value logits, rlx_value target)
{
    const rlx_value x = rx_widen_half(g, logits), t = rx_widen_half(g, target);
    return mean(g, rlx_sub(g, rlx_softplus(g, x), rlx_mul(g, x, t)));
}

rlx_value rlx_kl_loss(rlx_graph *g, rlx_value x, rlx_value target)
{
    const rlx_value q = rx_widen_half(g, x), p = rx_widen_half(g, target);
    const rlx_value zero = rx_number_like(g, p, 0), some = rlx_gt(g, p, zero);
    const rlx_value log_p = rlx_log(g, rlx_where(g, some, p, rx_number_like(g, p, 1)));
    const rlx_value terms = rlx_mul(g, p, rlx_sub(g, log_p, q));
    return mean(g, over_last(g, RLX_REDUCE_SUM, rlx_where(g, some, terms, zero)));
}

/* Rows of length 1. */
static rlx_value unit_rows(rlx_graph *g, rlx_value v)
{
    const int64_t last = -1;
    v = rx_widen_half(g, v);
    const rlx_value squares = rlx_reduce(g, RLX_REDUCE_SUM, rlx_mul(g, v, v), &last, 1, true);
    return rlx_div(g, v, rlx_sqrt(g, rlx_add(g, squares, rx_number_like(g, v, 1e-12))));
}

/* van den Oord, Li and Vinyals, 2018. */
rlx_value rlx_contrastive_loss(rlx_graph *g, rlx_value x, rlx_value y, rlx_value labels,
                               double temperature)
{
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    if (!(temperature > 0) || !isfinite(temperature)) {
        rx_graph_fail(g, RLX_INVALID, "rlx_contrastive_loss: temperature expected above 0, got %g",
                      temperature);
        return RLX_NONE;
    }
    const rlx_value near = rlx_matmul_ex(g, unit_rows(g, x), unit_rows(g, y), RLX_NONE, RLX_NONE,
                                         &turned);
    const rlx_range_desc d = {RLX_INIT(rlx_range_desc), .n = rlx_value_shape(g, near).dim[0],
                              .out = RLX_I32};
    if (!labels.id)
        labels = rlx_range(g, &d);
    return rlx_cross_entropy(g, scaled(g, near, 1 / temperature), labels, NULL);
}
