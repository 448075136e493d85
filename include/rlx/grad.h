/* SPDX-License-Identifier: MIT */
/* Differentiation as a transformation of graphs: each function appends ordinary operations, which
 * every device runs and every stage of the compiler treats as any others. Graphs of derivatives can
 * be differentiated again. docs/training.md has the operations that have a derivative.
 *
 * At a kink (relu at 0, equal elements under a maximum) the derivative is one of those of the two
 * sides, or their mean. Results that are no floats (comparisons, indices, casts to integers) have
 * none, and nothing flows through them. */
#ifndef RLX_GRAD_H
#define RLX_GRAD_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The derivatives of `loss`, one element of a float type, by the values wrt[0..n-1], any floats of
 * the graph: out[i] has type and shape of wrt[i], and is zeros where the loss does not depend on
 * it. Operations on the way that have no derivative are an error that names them. Errors are also
 * recorded in the graph, as by builders. */
RLX_API rlx_status rlx_grad(rlx_graph *g, rlx_value loss, const rlx_value *wrt, size_t n,
                            rlx_value *out);
/* The same from several results y[0..m-1] with given derivatives dy, each of the type and shape of
 * its y: out[i] = sum over k of dy[k] times the Jacobian of y[k] by wrt[i]. */
RLX_API rlx_status rlx_vjp(rlx_graph *g, const rlx_value *y, const rlx_value *dy, size_t m,
                           const rlx_value *wrt, size_t n, rlx_value *out);
/* Forward mode: how y changes when wrt[0..n-1] change along tangent[0..n-1], which have their types
 * and shapes. RLX_NONE after an error. */
RLX_API rlx_value rlx_jvp(rlx_graph *g, rlx_value y, const rlx_value *wrt, const rlx_value *tangent,
                          size_t n);
/* x, through which no derivative flows. x + stop_gradient(q(x) - x) is q(x) with the derivative of
 * x: the straight-through estimator, for rounding and fake quantisation. */
RLX_API rlx_value rlx_stop_gradient(rlx_graph *g, rlx_value x);

#ifdef __cplusplus
}
#endif
#endif
