/* SPDX-License-Identifier: MIT */
/* Runs one case: builds it, checks that its text form reads back, runs it on the reference and on
 * the device under test in each mode and with each value of its named dimensions, and compares. The
 * reference device is compared with itself; the null device must only report no error. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ops/optest.h"

/* ---- Reports -------------------------------------------------------------------------------- */

void ot_fail(ot_report *r, const char *fmt, ...)
{
    r->verdict = OT_FAIL;
    if (r->used + 2 >= sizeof r->text) return;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(r->text + r->used, sizeof r->text - r->used - 1, fmt, args);
    va_end(args);
    if (n < 0) return;
    r->used += (size_t)n;
    if (r->used + 2 > sizeof r->text) r->used = sizeof r->text - 2;
    r->text[r->used++] = '\n';
    r->text[r->used] = 0;
}

/* Whether the device may refuse a case with this text: it contains one of those of --may-refuse. */
static bool may_refuse(const char *allowed, const char *text)
{
    char one[128];
    while (allowed && *allowed) {
        const size_t n = strcspn(allowed, "|");
        snprintf(one, sizeof one, "%.*s", (int)n, allowed);
        if (n && strstr(text, one)) return true;
        allowed += n + (allowed[n] == '|');
    }
    return false;
}

void ot_report_status(ot_env *env, ot_report *r, const char *what, rlx_status s,
                      const rlx_error *err)
{
    const bool cannot = s == RLX_UNSUPPORTED || s == RLX_NO_MEMORY;
    const bool refused = cannot && may_refuse(env->opt.may_refuse, err->text);
    if (r->verdict != OT_FAIL &&
        (refused || (s == RLX_UNSUPPORTED && env->opt.allow_unsupported))) {
        if (refused && r->verdict == OT_PASS) ot_fail(r, "%s", err->text);
        r->verdict = OT_SKIP;
        return;
    }
    ot_fail(r, "%s: %s: %s", what, rlx_status_name(s), err->text);
}

void ot_check_untouched(ot_report *r, const char *what, const rlx_error *err)
{
    if (err->code || err->text[0]) {
        ot_fail(r, "%s: succeeded and left the error \"%s\"", what, err->text);
    }
}

static void dims_text(const ot_tensor *t, char out[128])
{
    size_t n = (size_t)snprintf(out, 128, "%s[", rlx_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && n < 100; i++) {
        n += (size_t)snprintf(out + n, 128 - n, i ? ",%lld" : "%lld", (long long)t->dims[i]);
    }
    snprintf(out + n, 128 - n, "]");
}

void ot_check_output(ot_report *r, const char *what, const ot_tensor *expected,
                     const ot_tensor *got, const ot_measure *m)
{
    char want[128], have[128];
    dims_text(expected, want);
    dims_text(got, have);
    if (strcmp(want, have) != 0 || expected->bytes != got->bytes) {
        ot_fail(r, "%s: expected %s, got %s", what, want, have);
        return;
    }
    const ot_difference d = ot_compare(expected, got, m);
    if (d.worst > r->worst) r->worst = d.worst;
    if (d.n_bad) {
        ot_fail(r, "%s %s: element %lld of %lld: expected %.9g, got %.9g, limit %.3g; %lld bad, "
                "worst error %.3g limits", what, want, (long long)d.first,
                (long long)expected->elements, d.expected, d.got, d.limit, (long long)d.n_bad,
                d.worst);
    } else if (d.biased) {
        ot_fail(r, "%s %s: results are %.6g times the expected ones, limit %.3g from 1", what, want,
                d.slope, m->bias);
    }
}

/* ---- Values of the named dimensions --------------------------------------------------------- */

typedef struct bindings {
    int64_t value[OT_MAX_BINDINGS][OT_MAX_DIMS];
    size_t n;
} bindings;

/* The bound, two thirds of it, one, zero, and for several dimensions a mix. Without named
 * dimensions one run and, for small tensors, a second one with other numbers: a result of the first
 * must not come again. */
static void choose_bindings(const ot_case *c, bindings *b)
{
    b->n = c->n_dims == 0 ? 1 : c->n_dims == 1 ? 4 : 5;
    for (size_t i = 0; i < c->n_dims; i++) {
        const int64_t bound = c->dims[i].bound;
        const int64_t middle = bound * 2 / 3;
        const int64_t values[] = {bound, middle, bound < 1 ? 0 : 1, 0, i % 2 ? middle : bound};
        for (size_t k = 0; k < b->n; k++) b->value[k][i] = values[k];
    }
}

typedef struct case_run {
    ot_env *env;
    ot_case *c;
    ot_report *r;
    ot_built built;
    bindings binds;
    ot_expectation expected[OT_MAX_BINDINGS];
} case_run;

static void release_run(case_run *run)
{
    for (size_t i = 0; i < OT_MAX_BINDINGS; i++) ot_expectation_finish(&run->expected[i]);
    ot_built_finish(run->c, &run->built);
    free(run);
}

static bool use_binding(case_run *run, size_t i)
{
    memcpy(run->built.bound, run->binds.value[i], sizeof run->built.bound);
    run->built.run = run->c->n_dims == 0 ? (int)i : 0;
    if (ot_fill_operands(run->c, &run->built)) return true;
    ot_fail(run->r, "the operands are too large");
    return false;
}

static bool is_small(const case_run *run)
{
    int64_t n = 0;
    for (size_t i = 0; i < run->c->n_in; i++) n += run->built.logical[i].elements;
    return n <= 8192;
}

static void expect(case_run *run, rlx_device *ref)
{
    rlx_session *s = ot_open_session(run->env, run->r, run->c, &run->built, ref, NULL, NULL);
    for (size_t i = 0; s && i < run->binds.n && use_binding(run, i); i++) {
        rlx_error err = {0};
        const rlx_status status =
            ot_expect(run->env, run->c, &run->built, s, &run->expected[i], &err);
        if (status && (i == 0 || status != RLX_INVALID)) {
            ot_report_status(run->env, run->r, "run on ref", status, &err);
        }
        run->expected[i].flags = status ? 0 : rlx_session_flags(s);
    }
    rlx_session_destroy(s);
}

/* ---- The device ----------------------------------------------------------------------------- */

static void check_outputs(case_run *run, const char *mode, size_t binding, const ot_tensor *out,
                          size_t n)
{
    const ot_expectation *e = &run->expected[binding];
    if (n != e->n_out) ot_fail(run->r, "%s: expected %zu outputs, got %zu", mode, e->n_out, n);
    for (size_t k = 0; k < n && k < e->n_out; k++) {
        char what[96];
        size_t used = (size_t)snprintf(what, sizeof what, "%s, out%zu", mode, k);
        for (size_t i = 0; i < run->c->n_dims && used < 80; i++) {
            used += (size_t)snprintf(what + used, sizeof what - used, ", %.16s=%lld",
                                     run->c->dims[i].name, (long long)run->built.bound[i]);
        }
        ot_check_output(run->r, what, &e->out[k], &out[k], &e->measure[k]);
    }
}

/* Where a device has no i64, numbers that its i32 does not hold are told too. */
static void check_flags(case_run *run, const char *mode, size_t binding, rlx_session *s)
{
    const uint32_t want = run->expected[binding].flags;
    const uint32_t got = rlx_session_flags(s) & ~(uint32_t)RLX_FLAG_NARROWED;
    if (got != want) ot_fail(run->r, "%s: expected flags %u, got %u", mode, want, got);
}

static void check_above_bound(case_run *run, rlx_session *s)
{
    for (size_t i = 0; i < run->c->n_dims; i++) {
        const ot_named_dim *d = &run->c->dims[i];
        if (rlx_session_bind(s, d->name, d->bound + 1, NULL) != RLX_OK) continue;
        ot_fail(run->r, "binding %s to %lld, above its bound, did not fail", d->name,
                (long long)d->bound + 1);
    }
}

static void run_mode(case_run *run, const char *mode, const rlx_session_desc *desc)
{
    ot_kernels kernels = {0};
    rlx_session *s = ot_open_session(run->env, run->r, run->c, &run->built, run->env->device, desc,
                                     &kernels);
    for (size_t i = 0; s && i < run->binds.n && use_binding(run, i); i++) {
        rlx_error err = {0};
        ot_tensor out[OT_MAX_OUT] = {0};
        size_t n = 0;
        rlx_status status = ot_run_bound(run->c, &run->built, s, out, &n, &err);
        /* Without a reference, a binding that the operation does not allow is no failure. */
        const bool untold = run->env->is_null && status == RLX_INVALID && i > 0;
        if (run->expected[i].fails) {
            if (!status) ot_fail(run->r, "%s: the reference fails, this does not", mode);
        } else if (status && !untold) {
            ot_report_status(run->env, run->r, mode, status, &err);
        } else if (!run->env->is_null) {
            check_outputs(run, mode, i, out, n);
            check_flags(run, mode, i, s);
        }
        if (!status) ot_check_untouched(run->r, mode, &err);
        if (!status && i == 0) ot_check_kernels(s, &kernels, mode, run->r);
        for (size_t k = 0; k < n; k++) ot_tensor_finish(&out[k]);
    }
    if (s) check_above_bound(run, s);
    rlx_session_destroy(s);
    free(kernels.names);
}

/* ---- The case ------------------------------------------------------------------------------- */

static void check_error_case(case_run *run)
{
    rlx_error err = {0};
    rlx_session *s = NULL;
    rlx_status status = rlx_graph_status(run->built.graph, &err);
    if (!status) status = rlx_session_create(run->env->device, run->built.graph, NULL, &s, &err);
    rlx_session_destroy(s);
    if (!status) {
        ot_fail(run->r, "expected an error with \"%s\", got none", run->c->error);
    } else if (!strstr(err.text, run->c->error)) {
        ot_fail(run->r, "expected an error with \"%s\", got \"%s\"", run->c->error, err.text);
    }
}

/* print(parse(print(g))) is print(g), and the graph still verifies. */
static void check_text_form(case_run *run)
{
    rlx_error err = {0};
    rlx_graph *again = NULL;
    char *first = NULL, *second = NULL;
    size_t n_first = 0, n_second = 0;
    rlx_status status = rlx_graph_verify(run->built.graph, &err);
    if (!status) status = rlx_graph_print(run->built.graph, &first, &n_first, &err);
    if (!status) status = rlx_graph_parse(first, n_first, &again, &err);
    if (!status) status = rlx_graph_print(again, &second, &n_second, &err);
    if (status) {
        ot_fail(run->r, "text form: %s: %s\n%.1500s", rlx_status_name(status), err.text,
                first ? first : "");
    } else if (n_first != n_second || memcmp(first, second, n_first) != 0) {
        ot_fail(run->r, "text form: reads back as another graph:\n%.800s\n%.800s", first, second);
    }
    if (!status) ot_check_untouched(run->r, "text form", &err);
    rlx_free(first);
    rlx_free(second);
    rlx_graph_destroy(again);
}

bool ot_has_turn(const ot_options *opt, uint64_t salt, size_t mode, size_t n_modes)
{
    return !opt->turn || (opt->turn + salt % n_modes) % n_modes == mode;
}

/* As it is; not sharing memory; not fused, where that makes another kernel. */
static size_t n_modes(const case_run *run)
{
    if (run->env->opt.once || !run->env->ref || !is_small(run)) return 1;
    const char *family = run->c->family;
    return strcmp(family, "elementwise") == 0 || strcmp(family, "norm") == 0 ? 3 : 2;
}

static void run_modes(case_run *run)
{
    ot_env *env = run->env;
    if (run->c->n_dims == 0 && is_small(run)) run->binds.n = 2;
    if (!env->is_null) expect(run, env->ref ? env->ref : env->device);
    if (run->r->verdict != OT_PASS) return;
    if (env->opt.fast) {
        run_mode(run, "fast", &(rlx_session_desc){RLX_INIT(rlx_session_desc),
                                                  .policy = RLX_POLICY_FAST});
        return;
    }
    if (env->opt.liar) {
        const ot_expectation *e = run->expected;
        ot_tell_lies(run->c, &e[0], run->binds.n > 1 ? &e[1] : NULL, run->r);
    }
    static const struct { const char *name; rlx_session_desc desc; } modes[] = {
        {"run", {RLX_INIT(rlx_session_desc)}},
        {"keep_all", {RLX_INIT(rlx_session_desc), .keep_all = true}},
        {"no_fusion", {RLX_INIT(rlx_session_desc), .no_fusion = true}},
    };
    const size_t n = n_modes(run);
    for (size_t i = 0; i < n; i++) {
        if (!ot_has_turn(&env->opt, run->c->seed >> 32, i, n)) continue;
        run_mode(run, modes[i].name, &modes[i].desc);
    }
}

void ot_run_case(ot_env *env, ot_case *c, ot_report *r)
{
    case_run *run = calloc(1, sizeof *run);
    if (!run) {
        ot_fail(r, "out of memory");
        return;
    }
    run->env = env;
    run->c = c;
    run->r = r;
    choose_bindings(c, &run->binds);
    if (use_binding(run, 0)) {
        ot_build_graph(c, &run->built);
        rlx_error err = {0};
        if (c->error[0]) {
            check_error_case(run);
        } else if (rlx_graph_status(run->built.graph, &err)) {
            ot_fail(r, "build: %s", err.text);
        } else {
            check_text_form(run);
            run_modes(run);
        }
    }
    release_run(run);
}
