/* SPDX-License-Identifier: MIT */
/* Operators of ai.onnx.ml on numbers: scalers, linear models, ensembles of trees. Class labels must
 * be integers. */
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

static rlx_value real(rx_onnx_call *c, double v)
{
    return rlx_scalar(c->g, RLX_F32, v);
}

/* x as f32; f64 is kept where `wide`. */
static rlx_value numbers(rx_onnx_call *c, size_t i, bool wide)
{
    const rlx_value x = rx_onnx_in(c, i);
    return wide && rlx_value_dtype(c->g, x) == RLX_F64 ? x : rlx_cast(c->g, x, RLX_F32);
}

/* The attribute's f32 numbers as a constant of rank 1; RLX_NONE: absent or empty. */
static rlx_value floats(rx_onnx_call *c, const char *name)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    if (!a || a->type != RX_ONNX_FLOATS || !a->n)
        return RLX_NONE;
    const rlx_dim n = (rlx_dim)a->n;
    return rlx_constant(c->g, RLX_F32, 1, &n, a->floats, a->n * sizeof *a->floats);
}

/* ---- Features -------------------------------------------------------------------------------- */

rlx_value rx_onnx_feature_extractor(rx_onnx_call *c)
{
    rlx_value x = rx_onnx_in(c, 0), index = rx_onnx_in(c, 1);
    const rlx_dim all[1] = {rx_onnx_elements(c, index)}, row[2] = {1, all[0]};
    if (all[0] < 1)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected a fixed number of indices");
    index = rlx_reshape(c->g, rlx_cast(c->g, index, RLX_I64), 1, all);
    const rlx_value y = rlx_gather(c->g, x, index, -1);
    return rx_onnx_rank(c, x) == 1 ? rlx_reshape(c->g, y, 2, row) : y;
}

rlx_value rx_onnx_binarizer(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_dtype t = rlx_value_dtype(c->g, x);
    const rlx_value limit = rlx_scalar(c->g, t, rx_onnx_float(c, "threshold", 0));
    return rlx_cast(c->g, rlx_gt(c->g, x, limit), t);
}

rlx_value rx_onnx_scaler(rx_onnx_call *c)
{
    const rlx_value offset = floats(c, "offset"), scale = floats(c, "scale");
    rlx_value x = numbers(c, 0, false);
    if (offset.id)
        x = rlx_sub(c->g, x, offset);
    return scale.id ? rlx_mul(c->g, x, scale) : x;
}

/* Rows divided by their largest element, the sum of magnitudes or the norm; rows of zeros stay. */
rlx_value rx_onnx_normalizer(rx_onnx_call *c)
{
    const rlx_value x = numbers(c, 0, false);
    const int64_t last = -1;
    const bool l1 = rx_onnx_is(c, "norm", "L1", "MAX"), l2 = rx_onnx_is(c, "norm", "L2", "MAX");
    const rlx_value size = rlx_reduce(c->g, l1 ? RLX_REDUCE_L1 : l2 ? RLX_REDUCE_L2
                                                                    : RLX_REDUCE_MAX,
                                      x, &last, 1, true);
    const rlx_value zero = rlx_eq(c->g, size, real(c, 0));
    return rlx_div(c->g, x, rlx_where(c->g, zero, real(c, 1), size));
}

/* Missing numbers (NaN, or replaced_value) become those of each feature. */
rlx_value rx_onnx_imputer(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), by = floats(c, "imputed_value_floats");
    const double missing = rx_onnx_float(c, "replaced_value_float", 0);
    if (!by.id || rlx_value_dtype(c->g, x) != RLX_F32)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected f32 and imputed_value_floats");
    return rlx_where(c->g, missing != missing ? rlx_is_nan(c->g, x)
                                              : rlx_eq(c->g, x, real(c, missing)), by, x);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

rlx_value rx_onnx_ml_transform(rx_onnx_call *c, rlx_value y)
{
    if (rx_onnx_is(c, "post_transform", "NONE", "NONE"))
        return y;
    if (rx_onnx_is(c, "post_transform", "LOGISTIC", "NONE"))
        return rlx_sigmoid(c->g, y);
    if (rx_onnx_is(c, "post_transform", "SOFTMAX", "NONE"))
        return rlx_softmax(c->g, y, -1);
    return rx_onnx_fail(c, RLX_UNSUPPORTED, "a post_transform other than NONE, LOGISTIC and "
                        "SOFTMAX");
}

rlx_value rx_onnx_ml_labels(rx_onnx_call *c, const char *name, rlx_dim *n)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    if (!a || a->type != RX_ONNX_INTS || !a->n)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "class labels that are strings; expected integers "
                            "(%s)", name);
    *n = (rlx_dim)a->n;
    return rx_onnx_i64s(c->g, a->ints, *n);
}

/* The label of the largest score of each row. */
static rlx_value best_label(rx_onnx_call *c, rlx_value scores, rlx_value names)
{
    const rlx_arg_desc d = {RLX_INIT(rlx_arg_desc), .axis = 1};
    return rlx_gather(c->g, names, rlx_cast(c->g, rlx_argmax(c->g, scores, &d), RLX_I64), 0);
}

/* The label by the score s [N, 1] of the second of two classes, which is a probability when
 * `positive`. */
static rlx_value second_label(rx_onnx_call *c, rlx_value s, rlx_value names, bool positive)
{
    const rlx_value second = rlx_gt(c->g, s, real(c, positive ? 0.5 : 0));
    return rlx_where(c->g, rlx_squeeze(c->g, second, 1), rlx_narrow(c->g, names, 0, 1, 1),
                     rlx_narrow(c->g, names, 0, 0, 1));
}

/* The score of the first of two classes from that of the second, with which it makes 1 where
 * `share`. */
static rlx_value other_score(rx_onnx_call *c, rlx_value s, bool share)
{
    return share && !rx_onnx_is(c, "post_transform", "LOGISTIC", "NONE")
               ? rlx_sub(c->g, real(c, 1), s) : rlx_neg(c->g, s);
}

rlx_value rx_onnx_ml_classify(rx_onnx_call *c, rlx_value scores, rlx_value names, bool by_second,
                              bool positive)
{
    rlx_graph *g = c->g;
    const rlx_dim n = rlx_value_shape(g, scores).dim[1];
    const rlx_value s = by_second ? rlx_narrow(g, scores, 1, n - 1, 1) : RLX_NONE;
    rlx_value both[2] = {RLX_NONE, s};
    if (by_second && n == 1) {
        both[0] = other_score(c, s, positive);
        scores = rlx_concat(g, both, 2, 1);
    }
    c->out[1] = rx_onnx_ml_transform(c, scores);
    if (!c->out[1].id)
        return RLX_NONE;
    return by_second ? second_label(c, s, names, positive) : best_label(c, scores, names);
}

/* ---- Linear models --------------------------------------------------------------------------- */

/* x [N, F] times coefficients [n, F] plus intercepts. */
static rlx_value linear(rx_onnx_call *c, rlx_dim *n)
{
    const rlx_value x = numbers(c, 0, false), bias = floats(c, "intercepts");
    const rlx_shape s = rlx_value_shape(c->g, x);
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "coefficients");
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    if (s.rank != 2 || s.dim[1] < 1 || !a || a->type != RX_ONNX_FLOATS || !a->n ||
        a->n % (uint64_t)s.dim[1])
        return rx_onnx_fail(c, RLX_INVALID, "expected x [N, F] and a multiple of F coefficients");
    const rlx_dim dims[2] = {(rlx_dim)a->n / s.dim[1], s.dim[1]};
    const rlx_value w = rlx_constant(c->g, RLX_F32, 2, dims, a->floats, a->n * sizeof *a->floats);
    const rlx_value y = rlx_matmul_ex(c->g, x, w, RLX_NONE, RLX_NONE, &turned);
    *n = dims[0];
    return bias.id ? rlx_add(c->g, y, bias) : y;
}

rlx_value rx_onnx_linear_regressor(rx_onnx_call *c)
{
    rlx_dim n;
    const rlx_value y = linear(c, &n);
    return y.id ? rx_onnx_ml_transform(c, y) : y;
}

rlx_value rx_onnx_linear_classifier(rx_onnx_call *c)
{
    rlx_dim n = 0, classes = 0;
    const rlx_value y = linear(c, &n);
    const rlx_value names = y.id ? rx_onnx_ml_labels(c, "classlabels_ints", &classes) : RLX_NONE;
    if (!names.id)
        return RLX_NONE;
    const bool one = n == 1 && classes == 2;
    if (n != classes && !one)
        return rx_onnx_fail(c, RLX_INVALID, "%lld scores of %lld classes", (long long)n,
                            (long long)classes);
    const rlx_value both[2] = {one ? other_score(c, y, true) : RLX_NONE, y};
    return rx_onnx_ml_classify(c, one ? rlx_concat(c->g, both, 2, 1) : y, names, one, false);
}

/* ---- Support vectors ------------------------------------------------------------------------- */

/* The kernel of x [N, F] and support vectors [n, F]: [N, n]. Parameters: gamma, coef0, degree. */
static rlx_value kernel(rx_onnx_call *c, rlx_value x, rlx_value vectors)
{
    rlx_graph *g = c->g;
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "kernel_params");
    const bool given = a && a->type == RX_ONNX_FLOATS && a->n == 3;
    const rlx_value gamma = real(c, given ? (double)a->floats[0] : 0);
    const rlx_value add = real(c, given ? (double)a->floats[1] : 0);
    const rlx_value degree = real(c, given ? (double)a->floats[2] : 0);
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    const int64_t last = -1;
    if (rx_onnx_is(c, "kernel_type", "RBF", "LINEAR")) {
        const rlx_value apart = rlx_sub(g, rlx_unsqueeze(g, x, 1), vectors);
        const rlx_value far = rlx_reduce(g, RLX_REDUCE_SUM_SQUARE, apart, &last, 1, false);
        return rlx_exp(g, rlx_neg(g, rlx_mul(g, far, gamma)));
    }
    const rlx_value dot = rlx_matmul_ex(g, x, vectors, RLX_NONE, RLX_NONE, &turned);
    const rlx_value line = rlx_add(g, rlx_mul(g, dot, gamma), add);
    if (rx_onnx_is(c, "kernel_type", "POLY", "LINEAR"))
        return rlx_pow(g, line, degree);
    return rx_onnx_is(c, "kernel_type", "SIGMOID", "LINEAR") ? rlx_tanh(g, line) : dot;
}

/* Without support vectors the coefficients are those of the features. */
rlx_value rx_onnx_svm_regressor(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value x = numbers(c, 0, false), rho = floats(c, "rho");
    const rlx_shape s = rlx_value_shape(g, x);
    const rx_onnx_attr *v = rx_onnx_attr_find(c, "support_vectors");
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "coefficients");
    const int64_t n = rx_onnx_int(c, "n_supports", 0);
    const rlx_dim features = s.rank == 2 ? s.dim[1] : 0, dims[2] = {n, features};
    const rlx_dim column[2] = {n ? n : features, 1};
    if (features < 1 || n < 0 || !a || a->type != RX_ONNX_FLOATS || !rho.id ||
        (int64_t)a->n != column[0] ||
        (n && (!v || v->type != RX_ONNX_FLOATS || v->n % (uint64_t)n ||
               (int64_t)(v->n / (uint64_t)n) != features)))
        return rx_onnx_fail(c, RLX_INVALID, "expected x [N, F], support vectors of F numbers, a "
                            "coefficient of each, and rho");
    const rlx_value by = n ? kernel(c, x, rlx_constant(g, RLX_F32, 2, dims, v->floats,
                                                       v->n * sizeof *v->floats)) : x;
    const rlx_value y = rlx_add(g, rlx_matmul(g, by, rlx_constant(g, RLX_F32, 2, column, a->floats,
                                                                  a->n * sizeof *a->floats)),
                                rlx_narrow(g, rho, 0, 0, 1));
    if (!rx_onnx_int(c, "one_class", 0))
        return rx_onnx_ml_transform(c, y);
    return rlx_where(g, rlx_gt(g, y, real(c, 0)), real(c, 1), real(c, -1));
}
