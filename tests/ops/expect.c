/* SPDX-License-Identifier: MIT */
/* Sessions of a case, and what the reference gives for it: results, and for each the measure by
 * which a device is compared with them. */
#include <math.h>
#include <string.h>

#include "ops/optest.h"

/* ---- Sessions ------------------------------------------------------------------------------- */

rlx_status ot_run_session(rlx_session *s, const rlx_const_tensor *in, size_t n_in, ot_tensor *out,
                          size_t *n, rlx_error *err)
{
    rlx_tensor tensors[OT_MAX_OUT];
    rlx_tensor_info info;
    for (*n = 0; *n < OT_MAX_OUT && rlx_session_leaf(s, RLX_LEAF_OUTPUT, *n, &info); ++*n) {
        ot_tensor *t = &out[*n];
        if (!ot_tensor_init(t, info.dtype, info.shape.rank, info.shape.dim)) return RLX_NO_MEMORY;
        memset(t->data, 0xa5, t->bytes); /* what is not written shows */
        tensors[*n] = (rlx_tensor){info.name, t->data, t->bytes};
    }
    return rlx_run(s, in, n_in, tensors, *n, err);
}

static rlx_status set_params(const ot_case *c, const ot_built *b, rlx_session *s, rlx_error *err)
{
    for (size_t i = 0; i < c->n_in; i++) {
        if (c->in[i].absent || c->in[i].leaf != OT_PARAM) continue;
        char name[OT_NAME];
        snprintf(name, sizeof name, "in%zu", i);
        const ot_tensor *t = ot_stored(b, i);
        rlx_status status = rlx_session_set_param(s, name, t->data, t->bytes, RLX_COPY, err);
        if (status) return status;
    }
    return RLX_OK;
}

rlx_status ot_run_bound(const ot_case *c, const ot_built *b, rlx_session *s, ot_tensor *out,
                        size_t *n, rlx_error *err)
{
    rlx_const_tensor in[OT_MAX_IN];
    char names[OT_MAX_IN][OT_NAME];
    size_t n_in = 0;
    for (size_t i = 0; i < c->n_dims; i++) {
        rlx_status status = rlx_session_bind(s, c->dims[i].name, b->bound[i], err);
        if (status) return status;
    }
    for (size_t i = 0; i < c->n_in; i++) {
        if (c->in[i].absent || c->in[i].leaf != OT_INPUT) continue;
        snprintf(names[n_in], sizeof names[n_in], "in%zu", i);
        const ot_tensor *t = ot_stored(b, i);
        in[n_in] = (rlx_const_tensor){names[n_in], t->data, t->bytes};
        n_in++;
    }
    return ot_run_session(s, in, n_in, out, n, err);
}

rlx_session *ot_open_session(ot_env *env, ot_report *r, const ot_case *c, const ot_built *b,
                             rlx_device *d, const rlx_session_desc *desc, ot_kernels *kernels)
{
    rlx_error err = {0};
    rlx_session *s = NULL;
    rlx_status status = rlx_session_create(d, b->graph, desc, &s, &err);
    if (status == RLX_OK && kernels) status = ot_prepare(s, kernels, &err);
    if (status == RLX_OK) status = set_params(c, b, s, &err);
    if (status == RLX_OK) {
        ot_check_untouched(r, "compile", &err);
        return s;
    }
    ot_report_status(env, r, "compile", status, &err);
    rlx_session_destroy(s);
    return NULL;
}

/* ---- Expectations --------------------------------------------------------------------------- */

void ot_expectation_finish(ot_expectation *e)
{
    for (size_t k = 0; k < OT_MAX_OUT; k++) {
        ot_tensor_finish(&e->out[k]);
        ot_measure_finish(&e->measure[k]);
    }
}

/* One run of the reference with its operands moved by a step: what they explain of the results. */
static rlx_status add_step(const ot_case *c, ot_built *b, rlx_session *s, ot_expectation *e,
                           bool by_row, uint64_t seed, rlx_error *err)
{
    const double step = ot_step_of(b->logical, c->n_in);
    ot_tensor out[OT_MAX_OUT] = {0};
    size_t n = 0;
    for (size_t i = 0; i < c->n_in; i++) {
        const ot_fill *f = &c->in[i].fill;
        if (f->kind == OT_VALUE && fabs(f->a) > 1e6) continue; /* a mask */
        ot_move_operand(&b->logical[i], step, by_row, seed + i);
        if (b->stored[i].data) ot_store_operand(&b->logical[i], &b->stored[i]);
    }
    rlx_status status = set_params(c, b, s, err);
    if (!status) status = ot_run_bound(c, b, s, out, &n, err);
    for (size_t k = 0; k < n; k++) {
        if (!status && !ot_measure_add(&e->measure[k], &e->out[k], &out[k], step)) {
            status = RLX_NO_MEMORY;
        }
        ot_tensor_finish(&out[k]);
    }
    return status;
}

/* One run of the reference with the operands that policy fast may round to 0 at 0. */
static rlx_status add_losses(const ot_case *c, ot_built *b, rlx_session *s, ot_expectation *e,
                             rlx_error *err)
{
    ot_tensor out[OT_MAX_OUT] = {0};
    size_t n = 0;
    for (size_t i = 0; i < c->n_in; i++) {
        ot_narrow_operand(&b->logical[i]);
        if (b->stored[i].data) ot_store_operand(&b->logical[i], &b->stored[i]);
    }
    rlx_status status = set_params(c, b, s, err);
    if (!status) status = ot_run_bound(c, b, s, out, &n, err);
    for (size_t k = 0; k < n; k++) {
        if (!status && ot_measure_may_lose(&e->measure[k], &e->out[k])) {
            ot_measure_lose(&e->measure[k], &e->out[k], &out[k]);
        }
        ot_tensor_finish(&out[k]);
    }
    if (!ot_fill_operands(c, b)) return RLX_NO_MEMORY;
    return status ? status : set_params(c, b, s, err);
}

/* Fewer steps for large tensors, whose rows tell enough. */
static int count_steps(const ot_case *c, const ot_built *b)
{
    int64_t elements = 0;
    for (size_t i = 0; i < c->n_in; i++) elements += b->logical[i].elements;
    return elements > 100000 ? OT_N_STEPS - 1 : OT_N_STEPS;
}

/* The limits of all results; leaves operands and weights as they were. */
static rlx_status measure(ot_env *env, const ot_case *c, ot_built *b, rlx_session *s,
                          ot_expectation *e, rlx_error *err)
{
    bool near = false, fast = false, may_lose = false;
    for (size_t k = 0; k < e->n_out; k++) {
        e->measure[k] = env->is_exact ? ot_measure_exact()
                                      : ot_measure_of(c->op, &e->out[k], env->opt.fast);
        e->measure[k].flat = strstr(c->attrs, "act=relu") || strstr(c->attrs, "act=hard_swish");
        e->measure[k].flush = c->flush;
        near |= e->measure[k].class == OT_NEAR;
        fast |= e->measure[k].fast;
        may_lose |= ot_measure_may_lose(&e->measure[k], &e->out[k]);
    }
    rlx_status status = RLX_OK;
    for (int k = 0; near && k < count_steps(c, b) && !status; k++) {
        status = add_step(c, b, s, e, fast, ot_hash("step", 97 * (uint64_t)k), err);
        if (!ot_fill_operands(c, b)) status = RLX_NO_MEMORY;
    }
    if (near && !status) status = set_params(c, b, s, err);
    for (size_t k = 0; k < e->n_out && !status; k++) {
        if (!ot_measure_end(&e->measure[k], c->op, b->logical, c->n_in, &e->out[k])) {
            status = RLX_NO_MEMORY;
        }
    }
    return may_lose && !status ? add_losses(c, b, s, e, err) : status;
}

rlx_status ot_expect(ot_env *env, const ot_case *c, ot_built *b, rlx_session *s, ot_expectation *e,
                     rlx_error *err)
{
    rlx_status status = ot_run_bound(c, b, s, e->out, &e->n_out, err);
    e->fails = status != RLX_OK;
    return status ? status : measure(env, c, b, s, e, err);
}
