/* SPDX-License-Identifier: MIT */
/* Instantiation of the formulas of rlx/functions.def. A file defines X, A, B, ALPHA, BETA, K and
 * the primitives in its own terms (on C numbers with ir/functions_operators.h), then RLX_FUNCTION1
 * and RLX_FUNCTION2, includes the table, and undefines all by including ir/functions_end.h.
 *
 * A hand-tuned version is one line, `#define TUNED_mish INSTEAD vf_mish(X)`, and replaces the
 * formula wherever that file writes RX_FORMULA(mish, formula). */
#ifndef RX_IR_FUNCTIONS_H
#define RX_IR_FUNCTIONS_H

#define INSTEAD ~,
#define RX_SECOND(first, second, ...) second
#define RX_THIRD(first, second, third, ...) third
#define RX_PICK_SECOND(...) RX_SECOND(__VA_ARGS__)
#define RX_PICK_THIRD(...) RX_THIRD(__VA_ARGS__)

/* TUNED_name, where defined, expands to a comma more, which shifts the arguments by one. */
#define RX_FORMULA(name, formula) RX_PICK_SECOND(TUNED_##name, formula, ~)
#define RX_IS_TUNED(name) RX_PICK_THIRD(TUNED_##name, true, false, ~)

#endif
