/* SPDX-License-Identifier: MIT */
/* Running sessions: inputs, submit and wait, outputs, state. rlx_session_wait takes no session
 * lock, so a thread can wait while others submit. */
#include <string.h>

#include "base/sized.h"
#include "runtime/session.h"

/* ---- Checks ---------------------------------------------------------------------------------- */

static rlx_status check_bytes(const rlx_session *s, const char *what, const rx_port *port,
                              size_t bytes, rlx_error *err)
{
    const rx_program *p = s->shared->program;
    uint64_t want = rx_value_bytes_at(p, port->value, s->dims);
    char type[RX_TYPE_TEXT];
    if (bytes == want)
        return RLX_OK;
    rx_value_text_at(p, port->value, s->dims, type);
    return rx_fail(err, RLX_INVALID, "%s '%s' is %s: expected %llu bytes, got %zu", what,
                   port->name, type, (unsigned long long)want, bytes);
}

static rlx_status check_range(const rlx_session *s, const char *what, const rx_port *port,
                              const int64_t *dims, const size_t range[2], rlx_error *err)
{
    const rx_program *p = s->shared->program;
    uint64_t whole = rx_value_bytes_at(p, port->value, dims);
    char type[RX_TYPE_TEXT];
    if (range[0] <= whole && range[1] <= whole - range[0])
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "%s '%s' is %s with %llu bytes: bytes %zu to %zu are not in "
                   "it", what, port->name, rx_value_text_at(p, port->value, dims, type),
                   (unsigned long long)whole, range[0], range[0] + range[1]);
}

static rlx_status check_data(const char *what, const char *name, const void *data, size_t bytes,
                             rlx_error *err)
{
    if (data || !bytes)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "%s '%s': the data pointer is NULL", what, name);
}

static rlx_status check_params(rlx_session *s, rlx_error *err)
{
    rx_shared *h = s->shared;
    const rx_program *p = h->program;
    rlx_status st = RLX_OK;
    rx_mutex_lock(&h->lock);
    for (size_t i = 0; h->n_unset && i < p->n_params && st == RLX_OK; i++) {
        char type[RX_TYPE_TEXT];
        if (!h->param_set[i] && !h->param_buffers[i] && !(h->lent && h->lent[i] != SIZE_MAX))
            st = rx_fail(err, RLX_INVALID, "param '%s' (%s) was never set", p->params[i].name,
                         rx_value_text_at(p, p->params[i].value, NULL, type));
    }
    rx_mutex_unlock(&h->lock);
    return st;
}

static rlx_status check_inputs(rlx_session *s, rlx_error *err)
{
    const rx_program *p = s->shared->program;
    if (s->inputs_ok)
        return RLX_OK;
    for (size_t i = 0; i < p->n_inputs; i++) {
        const rx_port *port = &p->inputs[i];
        char now[RX_TYPE_TEXT], then[RX_TYPE_TEXT];
        rlx_shape want = rx_value_shape_at(p, port->value, s->dims);
        if (s->uses[rx_use_index(p, RLX_LEAF_INPUT, i)].buffer)
            continue;
        rx_value_text_at(p, port->value, s->dims, now);
        if (s->given[i].rank < 0)
            return rx_fail(err, RLX_INVALID, "input '%s' (%s) was never given", port->name, now);
        if (!rx_shape_equal(&want, &s->given[i]))
            return rx_fail(err, RLX_INVALID, "input '%s' is now %s but was given as %s: give it "
                           "again after its dimensions were bound", port->name, now,
                           rx_number_type_text(p->values[port->value].dtype, &s->given[i], then));
    }
    s->inputs_ok = true;
    return RLX_OK;
}

/* ---- Steps of a run on a locked session ------------------------------------------------------ */

rlx_status rx_session_settle(rlx_session *s, rlx_error *err)
{
    uint64_t last = atomic_load(&s->last_ticket);
    return last ? rx_session_backend(s)->exec_wait(s->exec, last, -1, err) : RLX_OK;
}

/* Results are read with the dimensions that the exec is bound to: those of a run with others are
 * gone. */
static rlx_status bind_exec(rlx_session *s, rlx_error *err)
{
    const size_t n_dims = s->shared->program->n_dims;
    if (!s->exec_dirty)
        return RLX_OK;
    s->has_run = s->has_run && (!n_dims || !memcmp(s->run_dims, s->dims, n_dims * sizeof *s->dims));
    RLX_TRY(rx_session_backend(s)->exec_bind(s->exec, s->dims, err));
    s->exec_dirty = false;
    if (s->report)
        rx_session_log_kernels(s);
    return RLX_OK;
}

rlx_status rx_session_prepare(rlx_session *s, rlx_error *err)
{
    const rx_program *p = s->shared->program;
    RLX_TRY(rx_session_eval_dims(s, err));
    RLX_TRY(check_params(s, err));
    RLX_TRY(check_inputs(s, err));
    RLX_TRY(bind_exec(s, err));
    if (p->n_dims)
        memcpy(s->run_dims, s->dims, p->n_dims * sizeof *s->dims);
    return RLX_OK;
}

rlx_status rx_session_submit_steps(rlx_session *s, const rx_submit *submit, uint64_t *ticket,
                                   rlx_error *err)
{
    uint64_t t = 0;
    RLX_TRY(rx_session_begin_submit(s, err));
    rlx_status st = rx_session_backend(s)->exec_submit(s->exec, submit, &t, err);
    if (t)
        atomic_store(&s->last_ticket, t);
    rx_session_end_submit(s);
    s->has_run = st == RLX_OK;
    if (ticket)
        *ticket = t;
    return st;
}

static rlx_status run_all(rlx_session *s, bool async, uint64_t *ticket, rlx_error *err)
{
    if (s->dump_nodes) {
        RLX_TRY(rx_session_run_dump(s, err));
        if (ticket)
            *ticket = atomic_load(&s->last_ticket);
        return RLX_OK;
    }
    RLX_TRY(rx_session_prepare(s, err));
    rx_submit all = {.n_steps = s->shared->program->n_steps, .async = async};
    return rx_session_submit_steps(s, &all, ticket, err);
}

static rlx_status set_input(rlx_session *s, const char *name, const void *data, size_t bytes,
                            rlx_error *err)
{
    const rx_program *p = s->shared->program;
    size_t i;
    RLX_TRY(rx_shared_find(s->shared, RLX_LEAF_INPUT, name, &i, err));
    RLX_TRY(rx_session_check_own(s, RLX_LEAF_INPUT, i, err));
    const rx_port *port = &p->inputs[i];
    RLX_TRY(check_bytes(s, "input", port, bytes, err));
    RLX_TRY(check_data("input", name, data, bytes, err));
    RLX_TRY(rx_session_backend(s)->exec_write(s->exec, port->value, 0, data, bytes, err));
    s->given[i] = rx_value_shape_at(p, port->value, s->dims);
    s->inputs_ok = false;
    return RLX_OK;
}

static rlx_status check_outputs(rlx_session *s, const rlx_tensor *outputs, size_t n, rlx_error *err)
{
    for (size_t k = 0; k < n; k++) {
        size_t i;
        RLX_TRY(rx_shared_find(s->shared, RLX_LEAF_OUTPUT, outputs[k].name, &i, err));
        RLX_TRY(rx_session_check_own(s, RLX_LEAF_OUTPUT, i, err));
        RLX_TRY(check_bytes(s, "output", &s->shared->program->outputs[i], outputs[k].bytes, err));
        RLX_TRY(check_data("output", outputs[k].name, outputs[k].data, outputs[k].bytes, err));
    }
    return RLX_OK;
}

/* The value of an output, from which these bytes may be read. */
static rlx_status find_output(const rlx_session *s, const rlx_tensor *to, size_t offset,
                              uint32_t *value, rlx_error *err)
{
    size_t i;
    RLX_TRY(rx_shared_find(s->shared, RLX_LEAF_OUTPUT, to->name, &i, err));
    RLX_TRY(rx_session_check_own(s, RLX_LEAF_OUTPUT, i, err));
    const rx_port *port = &s->shared->program->outputs[i];
    if (!s->has_run)
        return rx_fail(err, RLX_INVALID, "output '%s' cannot be read: the session has not run",
                       port->name);
    *value = port->value;
    RLX_TRY(check_range(s, "output", port, s->run_dims, (size_t[]){offset, to->bytes}, err));
    return check_data("output", to->name, to->data, to->bytes, err);
}

static rlx_status read_output(rlx_session *s, const rlx_tensor *to, size_t offset, rlx_error *err)
{
    uint32_t value = 0;
    RLX_TRY(find_output(s, to, offset, &value, err));
    RLX_TRY(rx_session_settle(s, err));
    return rx_session_backend(s)->exec_read(s->exec, value, offset, to->data, to->bytes, err);
}

static rlx_status run_locked(rlx_session *s, const rlx_const_tensor *in, size_t n_in,
                             const rlx_tensor *out, size_t n_out, rlx_error *err)
{
    RLX_TRY(rx_session_eval_dims(s, err));
    RLX_TRY(check_params(s, err));
    RLX_TRY(check_outputs(s, out, n_out, err));
    for (size_t i = 0; i < n_in; i++)
        RLX_TRY(set_input(s, in[i].name, in[i].data, in[i].bytes, err));
    RLX_TRY(run_all(s, false, NULL, err));
    for (size_t i = 0; i < n_out; i++)
        RLX_TRY(read_output(s, &out[i], 0, err));
    return rx_session_settle(s, err);
}

/* ---- Public: runs ---------------------------------------------------------------------------- */

rlx_status rlx_run(rlx_session *s, const rlx_const_tensor *inputs, size_t n_inputs,
                   const rlx_tensor *outputs, size_t n_outputs, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_run: s", err));
    if (n_outputs)
        RLX_TRY(rx_need(outputs, "rlx_run: outputs", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = run_locked(s, inputs, n_inputs, outputs, n_outputs, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

rlx_status rlx_session_prepare(rlx_session *s, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_prepare: s", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = rx_session_eval_dims(s, err);
    if (st == RLX_OK)
        st = bind_exec(s, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

rlx_status rlx_session_compile(rlx_session *s, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_compile: s", err));
    const rx_backend *backend = rx_session_backend(s);
    rx_mutex_lock(&s->lock);
    rlx_status st = rx_session_eval_dims(s, err);
    if (st == RLX_OK && backend->exec_compile)
        st = backend->exec_compile(s->exec, s->dims, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

static rlx_status print_stage(rlx_session *s, const char *stage, char **text, rlx_error *err)
{
    const rx_backend *backend = rx_session_backend(s);
    if (!backend->exec_print)
        return rx_fail(err, RLX_UNSUPPORTED, "stage '%s': device %s runs steps, not dispatches",
                       stage, backend->name);
    RLX_TRY(rx_session_eval_dims(s, err));
    RLX_TRY(bind_exec(s, err));
    return backend->exec_print(s->exec, stage, text, err);
}

rlx_status rlx_session_print_stage(rlx_session *s, const char *stage, char **text, rlx_error *err)
{
    RLX_TRY(rx_need(text, "rlx_session_print_stage: text", err));
    *text = NULL;
    RLX_TRY(rx_need(s, "rlx_session_print_stage: s", err));
    RLX_TRY(rx_need(stage, "rlx_session_print_stage: stage", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = print_stage(s, stage, text, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

static rlx_status get_kernel(rlx_session *s, size_t i, rlx_kernel_info *out, rlx_error *err)
{
    const rx_backend *backend = rx_session_backend(s);
    if (!backend->exec_kernel_info)
        return rx_fail(err, RLX_UNSUPPORTED, "rlx_session_kernel: device %s has no kernels that a "
                       "driver compiles", backend->name);
    RLX_TRY(rx_session_eval_dims(s, err));
    RLX_TRY(bind_exec(s, err));
    return backend->exec_kernel_info(s->exec, i, out, err);
}

rlx_status rlx_session_kernel(rlx_session *s, size_t i, rlx_kernel_info *out, rlx_error *err)
{
    rlx_kernel_info info = {0};
    RLX_TRY(rx_need(s, "rlx_session_kernel: s", err));
    RLX_TRY(rx_need(out, "rlx_session_kernel: out", err));
    RLX_TRY(RX_INFO_CHECK(rlx_kernel_info, out, err));
    rx_mutex_lock(&s->lock);
    rlx_status st = get_kernel(s, i, &info, err);
    rx_mutex_unlock(&s->lock);
    return st == RLX_OK ? RX_INFO_WRITE(rlx_kernel_info, out, &info, err) : st;
}

rlx_status rlx_session_set_input(rlx_session *s, const char *name, const void *data, size_t bytes,
                                 rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_set_input: s", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = rx_session_eval_dims(s, err);
    if (st == RLX_OK)
        st = set_input(s, name, data, bytes, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

rlx_status rlx_session_submit(rlx_session *s, uint64_t *ticket, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_submit: s", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = run_all(s, true, ticket, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

rlx_status rlx_session_wait(rlx_session *s, uint64_t ticket, int64_t timeout_ms, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_wait: s", err));
    uint64_t last = atomic_load(&s->last_ticket);
    if (ticket > last)
        return rx_fail(err, RLX_INVALID, "run %llu was never submitted: the last one is %llu",
                       (unsigned long long)ticket, (unsigned long long)last);
    if (!last)
        return RLX_OK;
    return rx_session_backend(s)->exec_wait(s->exec, ticket ? ticket : last, timeout_ms, err);
}

rlx_status rlx_session_read(rlx_session *s, const char *output, size_t offset, void *data,
                            size_t bytes, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_read: s", err));
    if (bytes)
        RLX_TRY(rx_need(data, "rlx_session_read: data", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = read_output(s, &(rlx_tensor){output, data, bytes}, offset, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

/* ---- Runs ahead of the host ------------------------------------------------------------------ */

static rlx_status fail_feed(const rlx_session *s, rlx_error *err)
{
    return rx_fail(err, RLX_UNSUPPORTED, "device %s does not run ahead of the host",
                   rx_session_backend(s)->name);
}

static rlx_status feed(rlx_session *s, const char *input, const char *output, rlx_error *err)
{
    const rx_program *p = s->shared->program;
    size_t i, o;
    RLX_TRY(rx_session_eval_dims(s, err));
    RLX_TRY(rx_shared_find(s->shared, RLX_LEAF_INPUT, input, &i, err));
    RLX_TRY(rx_shared_find(s->shared, RLX_LEAF_OUTPUT, output, &o, err));
    RLX_TRY(rx_session_check_own(s, RLX_LEAF_INPUT, i, err));
    RLX_TRY(rx_session_check_own(s, RLX_LEAF_OUTPUT, o, err));
    const uint32_t from = p->outputs[o].value, to = p->inputs[i].value;
    const uint64_t bytes = rx_value_bytes_at(p, from, s->run_dims);
    if (!s->has_run)
        return rx_fail(err, RLX_INVALID, "output '%s' cannot be fed to input '%s': the session has "
                       "not run", output, input);
    if (p->values[from].dtype != p->values[to].dtype)
        return rx_fail(err, RLX_INVALID, "output '%s' (%s) cannot be fed to input '%s' (%s)",
                       output, rlx_dtype_name(p->values[from].dtype), input,
                       rlx_dtype_name(p->values[to].dtype));
    RLX_TRY(check_bytes(s, "input", &p->inputs[i], (size_t)bytes, err));
    RLX_TRY(rx_session_backend(s)->exec_feed(s->exec, to, from, (size_t)bytes, err));
    s->given[i] = rx_value_shape_at(p, to, s->dims);
    s->inputs_ok = false;
    return RLX_OK;
}

rlx_status rlx_session_feed(rlx_session *s, const char *input, const char *output, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_feed: s", err));
    RLX_TRY(rx_need(input, "rlx_session_feed: input", err));
    RLX_TRY(rx_need(output, "rlx_session_feed: output", err));
    if (!rx_session_backend(s)->exec_feed || s->dump_nodes)
        return fail_feed(s, err);
    rx_mutex_lock(&s->lock);
    rlx_status st = feed(s, input, output, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

rlx_status rlx_session_read_run(rlx_session *s, uint64_t ticket, const rlx_tensor *to,
                               rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_read_run: s", err));
    RLX_TRY(rx_need(to, "rlx_session_read_run: to", err));
    rx_range r = {.bytes = to->bytes};
    if (!rx_session_backend(s)->exec_read_run)
        return fail_feed(s, err);
    rx_mutex_lock(&s->lock);
    rlx_status st = find_output(s, to, 0, &r.value, err);
    if (st == RLX_OK)
        st = rx_session_backend(s)->exec_read_run(s->exec, ticket, &r, to->data, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

uint32_t rlx_session_flags(rlx_session *s)
{
    if (!s)
        return 0;
    rx_mutex_lock(&s->lock);
    rx_session_settle(s, NULL);
    uint32_t flags = rx_session_backend(s)->exec_flags(s->exec);
    rx_mutex_unlock(&s->lock);
    return flags;
}

/* ---- Public: state --------------------------------------------------------------------------- */

static rlx_status find_state(const rlx_session *s, const char *name, const size_t range[2],
                             uint32_t *value, rlx_error *err)
{
    size_t i;
    RLX_TRY(rx_shared_find(s->shared, RLX_LEAF_STATE, name, &i, err));
    RLX_TRY(rx_session_check_own(s, RLX_LEAF_STATE, i, err));
    const rx_port *port = &s->shared->program->states[i];
    *value = port->value;
    return check_range(s, "state", port, NULL, range, err);
}

rlx_status rlx_session_state_read(rlx_session *s, const char *state, size_t offset, void *data,
                                  size_t bytes, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_state_read: s", err));
    if (bytes)
        RLX_TRY(rx_need(data, "rlx_session_state_read: data", err));
    uint32_t value;
    rx_mutex_lock(&s->lock);
    rlx_status st = find_state(s, state, (size_t[]){offset, bytes}, &value, err);
    if (st == RLX_OK)
        st = rx_session_settle(s, err);
    if (st == RLX_OK)
        st = rx_session_backend(s)->exec_read(s->exec, value, offset, data, bytes, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

rlx_status rlx_session_state_write(rlx_session *s, const char *state, size_t offset,
                                   const void *data, size_t bytes, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_state_write: s", err));
    if (bytes)
        RLX_TRY(rx_need(data, "rlx_session_state_write: data", err));
    uint32_t value;
    rx_mutex_lock(&s->lock);
    rlx_status st = find_state(s, state, (size_t[]){offset, bytes}, &value, err);
    if (st == RLX_OK)
        st = rx_session_backend(s)->exec_write(s->exec, value, offset, data, bytes, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

/* Zeros from a static block, in chunks. */
static rlx_status zero_state(rlx_session *s, uint32_t value, rlx_error *err)
{
    static const char zeros[4096];
    uint64_t bytes = rx_value_bytes_at(s->shared->program, value, NULL);
    for (uint64_t at = 0; at < bytes; at += sizeof zeros) {
        uint64_t piece = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;
        RLX_TRY(rx_session_backend(s)->exec_write(s->exec, value, (size_t)at, zeros, (size_t)piece,
                                                  err));
    }
    return RLX_OK;
}

rlx_status rlx_session_state_reset(rlx_session *s, const char *state, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_state_reset: s", err));
    const rx_program *p = s->shared->program;
    size_t only = SIZE_MAX;
    if (state)
        RLX_TRY(rx_shared_find(s->shared, RLX_LEAF_STATE, state, &only, err));
    rx_mutex_lock(&s->lock);
    rlx_status st = state ? rx_session_check_own(s, RLX_LEAF_STATE, only, err) : RLX_OK;
    for (size_t i = 0; i < p->n_states && st == RLX_OK; i++)
        if (only == i || (!state && !s->uses[rx_use_index(p, RLX_LEAF_STATE, i)].buffer))
            st = zero_state(s, p->states[i].value, err);
    rx_mutex_unlock(&s->lock);
    return st;
}
