/* SPDX-License-Identifier: MIT */
/* Introspection of sessions: leaves, memory, steps, and running one step at a time. */
#include <string.h>

#include "base/sized.h"
#include "base/str.h"
#include "compile/estimate.h"
#include "runtime/session.h"

bool rlx_session_leaf(rlx_session *s, rlx_leaf kind, size_t i, rlx_tensor_info *out)
{
    if (!s || !out)
        return false;
    const rx_program *p = s->shared->program;
    size_t n;
    const rx_port *ports = rx_program_ports(p, kind, &n);
    if (i >= n)
        return false;
    rx_mutex_lock(&s->lock);
    bool ok = rx_session_eval_dims(s, NULL) == RLX_OK;
    if (ok) {
        uint32_t value = ports[i].value;
        *out = (rlx_tensor_info){ports[i].name, p->values[value].dtype,
                                 rx_value_shape_at(p, value, s->dims),
                                 (size_t)rx_value_bytes_at(p, value, s->dims)};
    }
    rx_mutex_unlock(&s->lock);
    return ok;
}

rlx_status rlx_session_memory(const rlx_session *s, rlx_memory_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_memory: s", err));
    return RX_INFO_WRITE(rlx_memory_info, out, &s->shared->program->memory, err);
}

int64_t rlx_session_round_rows(const rlx_session *s, int64_t rows)
{
    const rlx_device *d = s ? s->shared->device : NULL;
    const rx_target *t = d ? d->backend->target(d->device) : NULL;
    if (!t || t->row_multiple < 2 || rows <= t->exact_rows || rows > INT64_MAX - t->row_multiple)
        return rows;
    return (rows + t->row_multiple - 1) / t->row_multiple * t->row_multiple;
}

size_t rlx_session_n_steps(const rlx_session *s)
{
    return s ? s->shared->program->n_steps : 0;
}

rlx_status rlx_session_estimate(const rlx_session *s, const rlx_calibration *c, double *seconds,
                                rlx_error *err)
{
    RLX_TRY(rx_need(seconds, "rlx_session_estimate: seconds", err));
    *seconds = 0;
    RLX_TRY(rx_need(s, "rlx_session_estimate: s", err));
    RLX_TRY(rx_need(c, "rlx_session_estimate: c", err));
    rlx_calibration full;
    RLX_TRY(RX_DESC_READ(rlx_calibration, &full, c, err));
    *seconds = rx_estimate(s->shared->program, &full);
    return RLX_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void print_operand(rx_str *text, const rx_program *p, uint32_t value)
{
    if (text->n)
        rx_str_puts(text, " ");
    if (value == RX_NO_VALUE) {
        rx_str_puts(text, "_");
        return;
    }
    char buffer[RX_TYPE_TEXT];
    rx_str_puts(text, rx_value_text_at(p, value, NULL, buffer));
}

static const char *print_shapes(rx_shared *h, const rx_step *step)
{
    rx_str text = {0};
    for (uint32_t i = 0; i < step->n_in; i++)
        print_operand(&text, h->program, step->in[i]);
    rx_str_puts(&text, text.n ? " ->" : "->");
    for (uint32_t i = 0; i < step->n_out; i++)
        print_operand(&text, h->program, step->out[i]);
    const char *copy = text.failed ? NULL : rx_arena_strdup(&h->texts, text.data);
    rx_str_finish(&text);
    return copy;
}

/* Made once for each step that is asked for. NULL: out of memory. */
static const char *step_shapes(rx_shared *h, size_t i)
{
    const char *text = NULL;
    rx_mutex_lock(&h->lock);
    if (!h->step_shapes)
        h->step_shapes = rx_arena_array_zero(&h->texts, h->program->n_steps,
                                             sizeof *h->step_shapes);
    if (h->step_shapes) {
        if (!h->step_shapes[i])
            h->step_shapes[i] = print_shapes(h, &h->program->steps[i]);
        text = h->step_shapes[i];
    }
    rx_mutex_unlock(&h->lock);
    return text;
}

rlx_status rlx_session_step(const rlx_session *s, size_t i, rlx_step_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_step: s", err));
    if (i >= rlx_session_n_steps(s))
        return rx_fail(err, RLX_NOT_FOUND, "there is no step %zu: the program has %zu", i,
                       rlx_session_n_steps(s));
    const rx_program *p = s->shared->program;
    const rx_step *step = &p->steps[i];
    rlx_step_info info = {.node = step->name ? step->name : "",
                          .op = rx_ops[step->op].name,
                          .kernel = rx_session_backend(s)->exec_kernel(s->exec, i),
                          .support = step->support,
                          .shapes = step_shapes(s->shared, i),
                          .flops = step->flops,
                          .bytes = step->bytes};
    if (!info.shapes)
        return rx_fail(err, RLX_NO_MEMORY, "out of memory: the shapes of step %zu", i);
    if (step->n_out && step->out[0] != RX_NO_VALUE) {
        const rx_pvalue *v = &p->values[step->out[0]];
        info.last_use = v->last;
        if (v->space == RX_SPACE_ARENA) {
            info.offset = v->offset;
            info.size = v->bytes;
        }
    }
    return RX_INFO_WRITE(rlx_step_info, out, &info, err);
}

/* ---- One step at a time ---------------------------------------------------------------------- */

/* Results of a step in host memory; the arrays have room for every result of any step. */
typedef struct results {
    rlx_tensor_info *infos;
    uint32_t *values;
    void **data;
    char *bytes;
    size_t cap_bytes;
    size_t n;
} results;

static bool alloc_results(const rx_program *p, results *r)
{
    size_t most = 1;
    for (size_t i = 0; i < p->n_steps; i++)
        most = p->steps[i].n_out > most ? p->steps[i].n_out : most;
    r->infos = rx_alloc_array(most, sizeof *r->infos);
    r->values = rx_alloc_array(most, sizeof *r->values);
    r->data = rx_alloc_array(most, sizeof *r->data);
    return r->infos && r->values && r->data;
}

static size_t computed_by(rlx_session *s, size_t i)
{
    const rx_backend *backend = rx_session_backend(s);
    return backend->exec_computed_by ? backend->exec_computed_by(s->exec, i) : i;
}

/* Describes the results of step i that are written; returns their bytes, each rounded up to 64. */
static size_t describe(rlx_session *s, size_t i, results *r)
{
    const rx_program *p = s->shared->program;
    const rx_step *step = &p->steps[i];
    size_t total = 0;
    r->n = 0;
    if (computed_by(s, i) != i)
        return 0;
    for (uint32_t k = 0; k < step->n_out; k++) {
        uint32_t value = step->out[k];
        if (value == RX_NO_VALUE || p->values[value].space == RX_SPACE_NONE)
            continue;
        rlx_tensor_info *info = &r->infos[r->n];
        *info = (rlx_tensor_info){step->name ? step->name : "", p->values[value].dtype,
                                  rx_value_shape_at(p, value, s->run_dims),
                                  (size_t)rx_value_bytes_at(p, value, s->run_dims)};
        r->values[r->n++] = value;
        total += (info->bytes + 63) & ~(size_t)63;
    }
    return total;
}

/* Describes the results of step i, and copies them when `want_data`. */
static rlx_status collect(rlx_session *s, size_t i, bool want_data, results *r, rlx_error *err)
{
    size_t total = describe(s, i, r);
    if (!want_data)
        return RLX_OK;
    if (total > r->cap_bytes) {
        rx_free_aligned(r->bytes);
        r->bytes = rx_alloc_aligned(total);
        r->cap_bytes = r->bytes ? total : 0;
    }
    if (!r->bytes && total)
        return rx_fail_memory(err, "the results of a step", total);
    char *at = r->bytes;
    for (size_t k = 0; k < r->n; k++) {
        size_t bytes = r->infos[k].bytes;
        RLX_TRY(rx_session_backend(s)->exec_read(s->exec, r->values[k], 0, at, bytes, err));
        r->data[k] = at;
        at += (bytes + 63) & ~(size_t)63;
    }
    return RLX_OK;
}

static rlx_status run_step(rlx_session *s, size_t i, double *seconds, rlx_error *err)
{
    const rx_backend *backend = rx_session_backend(s);
    int64_t begin = rx_now_ns();
    RLX_TRY(rx_session_submit_steps(s, &(rx_submit){i, 1, .timed = true}, NULL, err));
    RLX_TRY(rx_session_settle(s, err));
    double wall = (double)(rx_now_ns() - begin) * 1e-9;
    double device = backend->exec_seconds ? backend->exec_seconds(s->exec) : -1;
    *seconds = computed_by(s, i) != i ? 0 : device >= 0 ? device : wall;
    return RLX_OK;
}

rlx_status rx_session_run_steps(rlx_session *s, bool want_data, rlx_step_fn *fn, void *user,
                                rlx_error *err)
{
    const rx_program *p = s->shared->program;
    results r = {0};
    RLX_TRY(rx_session_prepare(s, err));
    rlx_status st = alloc_results(p, &r) ? RLX_OK
                                         : rx_fail_memory(err, "the results of a step", 0);
    for (size_t i = 0; i < p->n_steps && st == RLX_OK; i++) {
        rlx_step_result result = {.step = i};
        st = run_step(s, i, &result.seconds, err);
        if (st == RLX_OK)
            st = collect(s, i, want_data, &r, err);
        result.kernel = rx_session_backend(s)->exec_kernel(s->exec, i);
        result.computed_by = computed_by(s, i);
        result.n_results = r.n;
        result.infos = r.infos;
        result.data = want_data ? (const void *const *)r.data : NULL;
        if (st == RLX_OK && fn && fn(user, &result))
            st = rx_fail(err, RLX_CANCELLED, "the run was stopped after step %zu of %zu", i,
                         p->n_steps);
    }
    rx_free(r.infos);
    rx_free(r.values);
    rx_free(r.data);
    rx_free_aligned(r.bytes);
    s->has_run = st == RLX_OK;
    return st;
}

rlx_status rlx_session_run_steps(rlx_session *s, bool want_data, rlx_step_fn *fn, void *user,
                                 rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_run_steps: s", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = rx_session_run_steps(s, want_data, fn, user, err);
    rx_mutex_unlock(&s->lock);
    return st;
}
