/* SPDX-License-Identifier: MIT */
/* Tuning: runs of a session's own program with other kernel variants, in turn with runs of those in
 * use. One knob after another; a choice that leaves the dispatches as they are is not run, and one
 * whose results differ is not taken. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/env.h"
#include "base/sized.h"
#include "runtime/calibrate.h"
#include "runtime/session.h"

#define ROUNDS 8
#define LEAST_ROUNDS 3
#define BUDGET_NS INT64_C(400000000) /* time of all rounds of one choice */
#define GAIN 0.97                    /* a choice below this fraction of the time is faster */
#define TOLERANCE 0.01               /* of the largest element of an output */

typedef struct tuner {
    rlx_session *session;
    rlx_device *device;
    rlx_tune_desc desc;
    const rx_knob *table;
    size_t n_knobs, done, total;
    rx_knobs now;           /* the choices so far */
    rlx_session *usual;     /* a clone that runs with them */
    char *dispatches;       /* of `usual`; NULL: not known */
    unsigned char *results; /* outputs of the first run, one after another */
    unsigned char *others;  /* the same of the choice that is tried */
} tuner;

/* ---- Runners --------------------------------------------------------------------------------- */

static rlx_status copy_input(rlx_session *from, rlx_session *to, size_t i, rlx_error *err)
{
    const rx_backend *b = rx_session_backend(from);
    const rx_program *p = from->shared->program;
    const uint32_t value = p->inputs[i].value;
    const uint64_t bytes = rx_value_bytes_at(p, value, from->dims);
    void *data = rx_alloc(bytes + 1);
    if (!data)
        return rx_fail_memory(err, "tuning", (size_t)bytes);
    rlx_status st = b->exec_read(from->exec, value, 0, data, (size_t)bytes, err);
    if (st == RLX_OK)
        st = b->exec_write(to->exec, value, 0, data, (size_t)bytes, err);
    to->given[i] = from->given[i];
    rx_free(data);
    return st;
}

static rlx_status copy_inputs(rlx_session *from, rlx_session *to, rlx_error *err)
{
    rlx_status st = RLX_OK;
    rx_mutex_lock(&from->lock);
    for (size_t i = 0; i < from->shared->program->n_inputs && st == RLX_OK; i++)
        st = copy_input(from, to, i, err);
    rx_mutex_unlock(&from->lock);
    return st;
}

static rlx_status run_once(rlx_session *s, int64_t *ns, rlx_error *err)
{
    const int64_t start = rx_now_ns();
    RLX_TRY(rlx_session_submit(s, NULL, err));
    RLX_TRY(rlx_session_wait(s, 0, -1, err));
    *ns = rx_now_ns() - start;
    return RLX_OK;
}

/* A clone with the inputs of `from`, bound with these choices. */
static rlx_status make_runner(tuner *t, rlx_session *from, const rx_knobs *k, rlx_session **out,
                              rlx_error *err)
{
    RLX_TRY(rlx_session_clone(from, out, err));
    rlx_status st = copy_inputs(from, *out, err);
    t->device->backend->set_knobs(t->device->device, k);
    if (st == RLX_OK)
        st = rlx_session_prepare(*out, err);
    if (st == RLX_OK)
        return RLX_OK;
    rlx_session_destroy(*out);
    *out = NULL;
    return st;
}

/* NULL where the device has no dispatches. */
static char *print_dispatches(rlx_session *s)
{
    char *text = NULL;
    rlx_session_print_stage(s, "select", &text, NULL);
    return text;
}

/* ---- Results --------------------------------------------------------------------------------- */

static uint64_t output_bytes(const tuner *t, size_t i)
{
    const rx_program *p = t->session->shared->program;
    return rx_value_bytes_at(p, p->outputs[i].value, t->session->dims);
}

static uint64_t all_bytes(const tuner *t)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->session->shared->program->n_outputs; i++)
        sum += output_bytes(t, i);
    return sum;
}

static rlx_status read_results(const tuner *t, rlx_session *s, unsigned char *to, rlx_error *err)
{
    const rx_program *p = s->shared->program;
    for (size_t i = 0; i < p->n_outputs; i++) {
        const size_t bytes = (size_t)output_bytes(t, i);
        const rlx_tensor out = {p->outputs[i].name, to, bytes};
        RLX_TRY(rlx_session_read(s, out.name, 0, out.data, bytes, err));
        to += bytes;
    }
    return RLX_OK;
}

/* Whether n elements are the same, floats but for their rounding. */
static bool are_close(rlx_dtype type, const unsigned char *a, const unsigned char *b, size_t bytes)
{
    const size_t each = (size_t)rlx_dtype_block_bytes(type);
    double most = 0;
    if (!rlx_dtype_is_float(type))
        return !memcmp(a, b, bytes);
    for (size_t at = 0; at < bytes; at += each) {
        const double x = fabs(rx_dtype_load(type, b + at));
        most = isfinite(x) && x > most ? x : most;
    }
    for (size_t at = 0; at < bytes; at += each) {
        const double x = rx_dtype_load(type, a + at), y = rx_dtype_load(type, b + at);
        const bool same = x == y || (isnan(x) && isnan(y));
        if (!same && !(fabs(x - y) <= TOLERANCE * most))
            return false;
    }
    return true;
}

static bool are_right(const tuner *t)
{
    const rx_program *p = t->session->shared->program;
    const unsigned char *a = t->others, *b = t->results;
    for (size_t i = 0; i < p->n_outputs; i++) {
        const size_t bytes = (size_t)output_bytes(t, i);
        if (!are_close(p->values[p->outputs[i].value].dtype, a, b, bytes))
            return false;
        a += bytes;
        b += bytes;
    }
    return true;
}

/* ---- Trials ---------------------------------------------------------------------------------- */

static rlx_status run_rounds(tuner *t, rlx_session *s, rlx_tune_trial *out, rlx_error *err)
{
    const int64_t begin = rx_now_ns();
    int64_t best[2] = {INT64_MAX, INT64_MAX};
    for (int r = 0; r < LEAST_ROUNDS || (r < ROUNDS && rx_now_ns() - begin < BUDGET_NS); r++)
        for (int k = 0; k < 2; k++) {
            int64_t ns;
            RLX_TRY(run_once(k ? s : t->usual, &ns, err));
            best[k] = ns < best[k] ? ns : best[k];
        }
    out->usual_seconds = (double)best[0] * 1e-9;
    out->seconds = (double)best[1] * 1e-9;
    out->verdict = out->seconds < GAIN * out->usual_seconds ? RLX_TUNE_FASTER : RLX_TUNE_SLOWER;
    return RLX_OK;
}

/* A bound runner against the usual one. */
static rlx_status compare(tuner *t, rlx_session *s, rlx_tune_trial *out, rlx_error *err)
{
    int64_t ns;
    char *dispatches = print_dispatches(s);
    const bool same = dispatches && t->dispatches && !strcmp(dispatches, t->dispatches);
    rlx_free(dispatches);
    out->verdict = RLX_TUNE_SAME;
    if (same)
        return RLX_OK;
    RLX_TRY(run_once(s, &ns, err));
    RLX_TRY(read_results(t, s, t->others, err));
    out->verdict = RLX_TUNE_WRONG;
    return are_right(t) ? run_rounds(t, s, out, err) : RLX_OK;
}

/* One that cannot run does not take part, unless the device is lost. */
static rlx_status try_choice(tuner *t, const rx_knobs *k, rlx_tune_trial *out, rlx_error *err)
{
    rlx_session *s = NULL;
    rlx_error why = {0};
    rlx_status st = make_runner(t, t->usual, k, &s, &why);
    if (st == RLX_OK)
        st = compare(t, s, out, &why);
    rlx_session_destroy(s);
    if (st == RLX_DEVICE_LOST)
        return rx_fail(err, st, "%s", why.text);
    if (st != RLX_OK) {
        rx_log(RLX_LOG_INFO, "%s: %s=%s: %s", t->device->info.id, out->kernel, out->variant,
               why.text);
        out->verdict = RLX_TUNE_FAILED;
    }
    return RLX_OK;
}

static rlx_status begin_usual(tuner *t, rlx_session *from, rlx_error *err)
{
    rlx_session *s = NULL;
    int64_t ns;
    RLX_TRY(make_runner(t, from, &t->now, &s, err));
    rlx_session_destroy(t->usual);
    t->usual = s;
    rlx_free(t->dispatches);
    t->dispatches = print_dispatches(s);
    return run_once(s, &ns, err);
}

static rlx_status tune_knob(tuner *t, size_t at, rlx_error *err)
{
    const rx_knob *knob = &t->table[at];
    rx_knobs k = t->now;
    double best = 1;
    uint8_t chosen = t->now.choice[at];
    for (size_t i = 0; i < knob->n_choices; i++) {
        rlx_tune_trial trial = {.kernel = knob->name, .variant = knob->choices[i].name,
                                .total = t->total};
        if (i == t->now.choice[at])
            continue;
        k.choice[at] = (uint8_t)i;
        RLX_TRY(try_choice(t, &k, &trial, err));
        trial.done = ++t->done;
        const bool faster = trial.verdict == RLX_TUNE_FASTER;
        if (faster && trial.seconds / trial.usual_seconds < best) {
            best = trial.seconds / trial.usual_seconds;
            chosen = (uint8_t)i;
        }
        if (t->desc.fn && t->desc.fn(t->desc.user, &trial))
            return rx_fail(err, RLX_CANCELLED, "tuning was stopped after %zu of %zu trials",
                           t->done, t->total);
    }
    if (chosen == t->now.choice[at])
        return RLX_OK;
    t->now.choice[at] = chosen;
    return begin_usual(t, t->usual, err);
}

/* ---- All ------------------------------------------------------------------------------------- */

static rlx_status tune_all(tuner *t, rlx_error *err)
{
    const uint64_t bytes = all_bytes(t) + 1;
    t->results = rx_alloc(bytes);
    t->others = rx_alloc(bytes);
    if (!t->results || !t->others)
        return rx_fail_memory(err, "tuning", (size_t)bytes);
    for (size_t i = 0; i < t->n_knobs; i++)
        t->total += t->table[i].n_choices - 1;
    RLX_TRY(begin_usual(t, t->session, err));
    RLX_TRY(read_results(t, t->usual, t->results, err));
    for (size_t i = 0; i < t->n_knobs; i++)
        RLX_TRY(tune_knob(t, i, err));
    return RLX_OK;
}

static rlx_status check_session(rlx_session *s, rlx_error *err)
{
    const rlx_device *d = s->shared->device;
    const rx_backend *b = d->backend;
    if (!b->knobs || !b->set_knobs)
        return rx_fail(err, RLX_UNSUPPORTED, "device %s has no kernel variants to choose from",
                       d->info.id);
    if (rx_env_text(RX_ENV_KERNELS))
        return rx_fail(err, RLX_INVALID, "RLX_KERNELS chooses the kernel variants: unset it to "
                       "tune them");
    rx_mutex_lock(&s->lock);
    rlx_status st = rx_session_prepare(s, err);
    for (size_t i = s->shared->program->n_params; i < s->n_uses && st == RLX_OK; i++)
        if (s->uses[i].buffer)
            st = rx_fail(err, RLX_UNSUPPORTED, "a session with inputs, outputs or states in "
                         "buffers cannot be tuned");
    rx_mutex_unlock(&s->lock);
    return st;
}

static void finish(tuner *t)
{
    rlx_session_destroy(t->usual);
    rlx_free(t->dispatches);
    rx_free(t->results);
    rx_free(t->others);
}

rlx_status rlx_session_tune(rlx_session *s, const rlx_tune_desc *desc, char kernels[192],
                            rlx_error *err)
{
    tuner t = {.session = s};
    if (kernels)
        kernels[0] = 0;
    RLX_TRY(rx_need(s, "rlx_session_tune: s", err));
    RLX_TRY(RX_DESC_READ(rlx_tune_desc, &t.desc, desc, err));
    RLX_TRY(check_session(s, err));
    t.device = s->shared->device;
    const rx_backend *b = t.device->backend;
    t.table = b->knobs(&t.n_knobs);
    t.now = t.device->knobs;
    rlx_status st = tune_all(&t, err);
    char text[RX_KNOBS_TEXT];
    rx_knobs_print(b, &t.now, text, sizeof text);
    if (st == RLX_OK && !t.desc.dry_run)
        st = rx_tuned_save(b, &t.device->info, text, err);
    if (st == RLX_OK)
        t.device->knobs = t.now;
    b->set_knobs(t.device->device, &t.device->knobs);
    if (st == RLX_OK && kernels)
        snprintf(kernels, RX_KNOBS_TEXT, "%s", text);
    finish(&t);
    return st;
}
