/* SPDX-License-Identifier: MIT */
/* A target that is only data, so that the compiler is tested without a device; and a helper for
 * tests that give a graph as text to a pass and compare the text of what comes out. */
#ifndef RLX_TESTS_SUPPORT_FAKE_TARGET_H
#define RLX_TESTS_SUPPORT_FAKE_TARGET_H

#include "compile/compile.h"

typedef struct fake_options {
    const char *lacks; /* names of operations without a kernel, each with blanks around: " gelu " */
    const char *has;   /* when set: only these have one */
    bool no_epilogues; /* products and convolutions only without bias, act and residual */
    bool dense_only;   /* no kernel takes strides */
    bool no_f16;       /* nothing that makes f16 */
    bool merges;       /* one kernel computes whatever the rules of fuse.def name */
    uint64_t slack_bytes;   /* of the target */
} fake_options;

/* Runs everything natively except what the options (which must outlive it) say; folds with the
 * reference kernels. */
rx_target fake_target(const fake_options *options);

typedef rlx_status pass_fn(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err);

/* Parses `text`, runs the pass, verifies the result and returns its text; NULL after printing an
 * error. Freed with rlx_free. */
char *run_pass(pass_fn *pass, const rx_target *t, const char *text);
/* Whether two texts are the same but for blanks at the ends of lines; prints both when not. */
bool same_text(const char *got, const char *want);

#endif
