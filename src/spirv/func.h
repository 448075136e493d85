/* SPDX-License-Identifier: MIT */
/* The functions of emit_func.c, for rx_emit_call. Of one argument where not said. */
#ifndef RX_SPIRV_FUNC_H
#define RX_SPIRV_FUNC_H

#include "spirv/emit.h"

extern const rx_emit_fn rx_fn_div, rx_fn_atan2, rx_fn_pow; /* of two */
extern const rx_emit_fn rx_fn_reciprocal, rx_fn_sqrt, rx_fn_rsqrt;
extern const rx_emit_fn rx_fn_exp, rx_fn_exp2, rx_fn_log, rx_fn_log2;
extern const rx_emit_fn rx_fn_log1p; /* x >= 0 */
extern const rx_emit_fn rx_fn_sin, rx_fn_cos, rx_fn_tan, rx_fn_asin, rx_fn_acos, rx_fn_atan;
extern const rx_emit_fn rx_fn_sinh, rx_fn_cosh, rx_fn_tanh, rx_fn_asinh, rx_fn_acosh, rx_fn_atanh;
extern const rx_emit_fn rx_fn_erf, rx_fn_gelu;
extern const rx_emit_fn rx_fn_gelu_short; /* for results of 16 bits */

/* exp(x) - 1, written in place. */
rx_id rx_emit_expm1(rx_emit *e, rx_id x);

#endif
