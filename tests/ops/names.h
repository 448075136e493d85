/* SPDX-License-Identifier: MIT */
/* Names of the elementwise functions by where they are defined: one more function is one more name
 * here, and it has its cases of every type. */
#ifndef RX_TESTS_OPS_NAMES_H
#define RX_TESTS_OPS_NAMES_H

/* Every function of one float argument that is defined everywhere. */
#define ANYWHERE \
    "relu|gelu|gelu_tanh|silu|sigmoid|tanh|neg|abs|sin|cos|atan|round|floor|ceil|sign|softplus|" \
    "elu|erf|hard_swish|hard_sigmoid|mish|softsign|log_sigmoid|asinh|exp|exp2|leaky_relu|selu|" \
    "celu|thresholded_relu|soft_cap|sinh|cosh|is_nan|is_inf"
/* Those of positive arguments, and those of -1 .. 1. */
#define POSITIVE "log|log2|sqrt|rsqrt|reciprocal"
#define UNIT "asin|acos|atanh|tan"
#define ARITHMETIC "add|sub|mul|div|max|min"
#define COMPARE "eq|ne|lt|le|gt|ge"

#endif
