/* SPDX-License-Identifier: MIT */
/* The primitives of rlx/functions.def that are operators of C, for files that instantiate the
 * formulas on C numbers. Not guarded: ir/functions_end.h undefines them afterwards. */
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define LT(a, b) ((a) < (b))
#define GT(a, b) ((a) > (b))
#define SELECT(condition, a, b) ((condition) ? (a) : (b))
#define NEG(x) (-(x))
