/* SPDX-License-Identifier: MIT */
/* Internal interface of the interpreter: expressions (template_eval.c) and statements
 * (template_exec.c). */
#ifndef RX_MODEL_TEMPLATE_EVAL_H
#define RX_MODEL_TEMPLATE_EVAL_H

#include "model/template_value.h"

rx_value rx_eval(rx_env *e, const rx_node *n);
/* The arguments of a call, with room for one more keyword; false when something failed. */
bool rx_eval_args(rx_env *e, const rx_node *first, rx_args *out);
rx_value rx_apply_filter(rx_env *e, const rx_node *n, rx_value v);
rx_value rx_call_macro(rx_env *e, const rx_macro *m, const rx_args *args);

#endif
