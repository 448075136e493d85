/* SPDX-License-Identifier: MIT */
/* The kernels that a session names before it has weights and inputs are those of its run. */
#include <stdlib.h>
#include <string.h>

#include "ops/optest.h"

rlx_status ot_prepare(rlx_session *s, ot_kernels *k, rlx_error *err)
{
    const rlx_status status = rlx_session_prepare(s, err);
    rlx_step_info step;
    k->n = status ? 0 : rlx_session_n_steps(s);
    k->names = calloc(k->n + 1, sizeof *k->names);
    for (size_t i = 0; k->names && i < k->n && rlx_session_step(s, i, &step); i++) {
        k->names[i] = step.kernel;
    }
    return k->names ? status : RLX_NO_MEMORY;
}

void ot_check_kernels(rlx_session *s, const ot_kernels *k, const char *what, ot_report *r)
{
    rlx_step_info step;
    for (size_t i = 0; i < k->n && rlx_session_step(s, i, &step); i++) {
        if (strcmp(k->names[i], step.kernel) != 0) {
            ot_fail(r, "%s: step %zu, %s, was to run %s and ran %s", what, i, step.op, k->names[i],
                    step.kernel);
        }
    }
}
