/* SPDX-License-Identifier: MIT */
/* Losses of ONNX: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. */
#include "import/onnx_build.h"

typedef struct labels {
    rlx_value index;   /* [N, d..] with ignored ones 0 */
    rlx_value ignored; /* bool, or RLX_NONE */
} labels;

static labels read_labels(rx_onnx_call *c, rlx_value target)
{
    labels l = {target, RLX_NONE};
    const rlx_dtype t = rlx_value_dtype(c->g, target);
    if (rx_onnx_attr_find(c, "ignore_index")) {
        const int64_t ignore = rx_onnx_int(c, "ignore_index", 0);
        l.ignored = rlx_eq(c->g, target, rlx_scalar(c->g, t, (double)ignore));
        l.index = rlx_where(c->g, l.ignored, rlx_scalar(c->g, t, 0), target);
    }
    return l;
}

/* log_p [N, C, d..], target [N, d..], weight? [C]. */
static rlx_value likelihood_loss(rx_onnx_call *c, rlx_value log_p, rlx_value target,
                                 rlx_value weight)
{
    rlx_graph *g = c->g;
    const rlx_dtype t = rlx_value_dtype(g, log_p);
    const labels l = read_labels(c, target);
    const rlx_value zero = rlx_scalar(g, t, 0);
    const rlx_value picked = rlx_gather_elements(g, log_p, rlx_unsqueeze(g, l.index, 1), 1);
    rlx_value loss = rlx_neg(g, rlx_squeeze(g, picked, 1)), w = RLX_NONE;
    if (weight.id)
        w = rlx_gather(g, weight, l.index, 0);
    else if (l.ignored.id)
        w = rlx_scalar(g, t, 1);
    if (l.ignored.id)
        w = rlx_where(g, l.ignored, zero, w);
    if (w.id)
        loss = rlx_where(g, rlx_eq(g, w, zero), zero, rlx_mul(g, loss, w));
    if (rx_onnx_is(c, "reduction", "none", "mean"))
        return loss;
    if (rx_onnx_is(c, "reduction", "sum", "mean"))
        return rlx_reduce(g, RLX_REDUCE_SUM, loss, NULL, 0, false);
    if (!w.id)
        return rlx_reduce(g, RLX_REDUCE_MEAN, loss, NULL, 0, false);
    return rlx_div(g, rlx_reduce(g, RLX_REDUCE_SUM, loss, NULL, 0, false),
                   rlx_reduce(g, RLX_REDUCE_SUM, w, NULL, 0, false));
}

rlx_value rx_onnx_nll_loss(rx_onnx_call *c)
{
    return likelihood_loss(c, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2));
}

rlx_value rx_onnx_softmax_loss(rx_onnx_call *c)
{
    const rlx_value log_p = rlx_log_softmax(c->g, rx_onnx_in(c, 0), 1);
    c->out[1] = log_p;
    return likelihood_loss(c, log_p, rx_onnx_in(c, 1), rx_onnx_in(c, 2));
}
