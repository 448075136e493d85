/* SPDX-License-Identifier: MIT */
/* The kernels that a session names before it has weights and inputs are those of its run; and the
 * word of `rlx ops` for an operation of the CPU is that of the kernels that run its cases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/optest.h"

rlx_status ot_prepare(rlx_session *s, ot_kernels *k, rlx_error *err)
{
    const rlx_status status = rlx_session_prepare(s, err);
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    k->n = status ? 0 : rlx_session_n_steps(s);
    k->names = calloc(k->n + 1, sizeof *k->names);
    for (size_t i = 0; k->names && i < k->n && rlx_session_step(s, i, &step, NULL) == RLX_OK; i++) {
        k->names[i] = step.kernel;
    }
    return k->names ? status : RLX_NO_MEMORY;
}

static void keep_step(ot_report *r, const rlx_step_info *step)
{
    if (r->n_steps == OT_MAX_STEPS) return;
    ot_step *to = &r->steps[r->n_steps++];
    snprintf(to->op, sizeof to->op, "%s", step->op);
    snprintf(to->kernel, sizeof to->kernel, "%s", step->kernel);
}

void ot_check_kernels(rlx_session *s, const ot_kernels *k, const char *what, ot_report *r)
{
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    for (size_t i = 0; i < k->n && rlx_session_step(s, i, &step, NULL) == RLX_OK; i++) {
        keep_step(r, &step);
        if (strcmp(k->names[i], step.kernel) != 0) {
            ot_fail(r, "%s: step %zu, %s, was to run %s and ran %s", what, i, step.op, k->names[i],
                    step.kernel);
        }
    }
}

/* ---- Over all cases ------------------------------------------------------------------------- */

static bool is_use(const struct ot_kernel_use *u, const ot_step *s)
{
    return strcmp(u->step.op, s->op) == 0 && strcmp(u->step.kernel, s->kernel) == 0;
}

static void count_step(ot_kernel_tally *t, const ot_step *s)
{
    for (size_t i = 0; i < t->n; i++) {
        if (!is_use(&t->uses[i], s)) continue;
        t->uses[i].n++;
        return;
    }
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 256;
        struct ot_kernel_use *grown = realloc(t->uses, t->cap * sizeof *grown);
        if (!grown) {
            fputs("optest: out of memory\n", stderr);
            exit(2);
        }
        t->uses = grown;
    }
    t->uses[t->n++] = (struct ot_kernel_use){*s, 1};
}

void ot_tally_kernels(ot_kernel_tally *t, const ot_report *r)
{
    for (size_t i = 0; i < r->n_steps; i++) count_step(t, &r->steps[i]);
}

static int compare_uses(const void *a, const void *b)
{
    const struct ot_kernel_use *x = a, *y = b;
    const int order = strcmp(x->step.op, y->step.op);
    return order ? order : (x->n < y->n) - (x->n > y->n);
}

void ot_tally_print(const ot_kernel_tally *t)
{
    qsort(t->uses, t->n, sizeof *t->uses, compare_uses);
    for (size_t i = 0; i < t->n; i++) {
        printf("%-24s %-28s %6zu steps\n", t->uses[i].step.op, t->uses[i].step.kernel,
               t->uses[i].n);
    }
}

/* Cases of an operation from which some are of its most common form. */
#define ENOUGH 16

void ot_tally_check(const ot_kernel_tally *t, ot_report *r)
{
    for (size_t i = 0; i < t->n; i++) {
        const char *op = t->uses[i].step.op;
        size_t all = 0, reference = 0;
        for (size_t k = 0; k < t->n; k++) {
            if (strcmp(t->uses[k].step.op, op) != 0) continue;
            all += t->uses[k].n;
            if (strcmp(t->uses[k].step.kernel, "reference") == 0) reference += t->uses[k].n;
        }
        const bool said = rlx_op_support("cpu", op) == RLX_SUPPORT_REFERENCE;
        if (said && reference < all) {
            ot_fail(r, "%s is called reference, and %s ran it", op, t->uses[i].step.kernel);
        } else if (!said && reference == all && all >= ENOUGH) {
            ot_fail(r, "%s is not called reference, and all of its %zu steps ran so", op, all);
        }
    }
}

void ot_tally_finish(ot_kernel_tally *t)
{
    free(t->uses);
    *t = (ot_kernel_tally){0};
}
