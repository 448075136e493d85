/* SPDX-License-Identifier: MIT */
/* Ports bound to buffers: resolving and checking the bindings, and the order of runs that share a
 * buffer. */
#include "runtime/session.h"

#include "base/mem.h"

static const char *const kind_names[] = {"input", "param", "state", "output"};

/* ---- Checks ---------------------------------------------------------------------------------- */

static rlx_status check_kind(rlx_leaf kind, rlx_error *err)
{
    if ((unsigned)kind <= RLX_LEAF_OUTPUT)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "%d is no kind of tensor that can have a buffer: expected "
                   "RLX_LEAF_INPUT, _PARAM, _STATE or _OUTPUT", (int)kind);
}

static rlx_status check_fit(const rx_shared *h, rlx_leaf kind, size_t i, const rlx_buffer *b,
                            rlx_error *err)
{
    const rx_program *p = h->program;
    size_t n;
    const rx_port *port = &rx_program_ports(p, kind, &n)[i];
    const uint64_t want = rx_value_bytes_at(p, port->value, NULL);
    const char *what = kind_names[kind];
    char type[RX_TYPE_TEXT];
    if (atomic_load(&b->given_up))
        return rx_fail(err, RLX_INVALID, "%s '%s': the buffer was destroyed", what, port->name);
    if (b->device != h->device)
        return rx_fail(err, RLX_INVALID, "%s '%s': the buffer is on another device (%s) than the "
                       "session (%s)", what, port->name, b->device->info.id, h->device->info.id);
    rx_value_text_at(p, port->value, NULL, type);
    if (b->dtype != RLX_NO_TYPE && b->dtype != p->values[port->value].dtype)
        return rx_fail(err, RLX_INVALID, "%s '%s' is %s: its buffer has elements of %s", what,
                       port->name, type, rlx_dtype_name(b->dtype));
    if (b->bytes < want || (kind == RLX_LEAF_PARAM && b->bytes != want))
        return rx_fail(err, RLX_INVALID, "%s '%s' is %s: expected a buffer of %s%llu bytes, got "
                       "one of %zu", what, port->name, type,
                       kind == RLX_LEAF_PARAM ? "" : "at least ", (unsigned long long)want,
                       b->bytes);
    return RLX_OK;
}

rlx_status rx_fail_in_buffer(rlx_leaf kind, const char *name, rlx_error *err)
{
    return rx_fail(err, RLX_INVALID, "%s '%s' lives in a buffer: use rlx_buffer_read and "
                   "rlx_buffer_write, or rlx_session_set_buffer with NULL first", kind_names[kind],
                   name);
}

rlx_status rx_session_check_own(const rlx_session *s, rlx_leaf kind, size_t i, rlx_error *err)
{
    const rx_use *u = &s->uses[rx_use_index(s->shared->program, kind, i)];
    return u->buffer ? rx_fail_in_buffer(kind, u->name, err) : RLX_OK;
}

/* A run may not write a range that it also uses through another port. */
static rlx_status check_alone(const rx_use *mine, rlx_error *err)
{
    for (const rx_use *u = mine->buffer->uses; u; u = u->next)
        if (u != mine && u->session == mine->session && rx_use_writes(mine))
            return rx_fail(err, RLX_INVALID, "%s '%s' and %s '%s' live in the same buffer: a run "
                           "writes one of them", kind_names[mine->kind], mine->name,
                           kind_names[u->kind], u->name);
    if (mine->buffer->mapped)
        return rx_fail(err, RLX_INVALID, "the buffer of %s '%s' is mapped: rlx_buffer_unmap first",
                       kind_names[mine->kind], mine->name);
    return RLX_OK;
}

/* ---- Uses ------------------------------------------------------------------------------------ */

/* The order lock is held. */
static void unlink_use(rx_use *u)
{
    rx_use **at = &u->buffer->uses;
    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    u->session->n_used--;
}

/* Takes its count of `b` (NULL: none) and gives back that of the buffer before. */
static void change_use(rx_use *u, rlx_buffer *b)
{
    rlx_device *d = u->session->shared->device;
    rlx_buffer *old = u->buffer;
    rx_mutex_lock(&d->order);
    if (old)
        unlink_use(u);
    u->buffer = b;
    if (b) {
        rx_buffer_ref(b);
        u->next = b->uses;
        b->uses = u;
        u->session->n_used++;
    }
    rx_mutex_unlock(&d->order);
    rx_buffer_unref(old);
}

void rx_session_add_uses(rlx_session *s, rlx_buffer *const *buffers)
{
    for (size_t i = 0; i < s->n_uses; i++)
        if (buffers[i])
            change_use(&s->uses[i], buffers[i]);
}

void rx_session_unlink_uses(rlx_session *s)
{
    rlx_device *d = s->shared->device;
    rx_mutex_lock(&d->order);
    for (size_t i = 0; i < s->n_uses; i++)
        if (s->uses[i].buffer)
            unlink_use(&s->uses[i]);
    rx_mutex_unlock(&d->order);
}

void rx_session_release_uses(rlx_session *s)
{
    for (size_t i = 0; i < s->n_uses; i++)
        rx_buffer_unref(s->uses[i].buffer);
}

rlx_status rx_shared_find_buffers(const rx_shared *h, const rlx_session_desc *desc,
                                  rlx_buffer **out, rlx_error *err)
{
    if (desc->n_buffers)
        RLX_TRY(rx_need(desc->buffers, "rlx_session_desc: buffers", err));
    for (size_t k = 0; k < desc->n_buffers; k++) {
        const rlx_binding *b = &desc->buffers[k];
        size_t i;
        RLX_TRY(check_kind(b->kind, err));
        RLX_TRY(rx_shared_find(h, b->kind, b->name, &i, err));
        if (!b->buffer)
            return rx_fail(err, RLX_INVALID, "%s '%s': the buffer is NULL", kind_names[b->kind],
                           b->name);
        RLX_TRY(check_fit(h, b->kind, i, b->buffer, err));
        out[rx_use_index(h->program, b->kind, i)] = b->buffer;
    }
    return RLX_OK;
}

/* ---- Order of runs --------------------------------------------------------------------------- */

/* Scans all uses; true: the lock was released, so scan again. The order lock is held. */
static bool wait_uses(const rlx_session *s, rlx_status *st, rlx_error *err)
{
    for (size_t i = 0; i < s->n_uses; i++) {
        const rx_use *u = &s->uses[i];
        if (!u->buffer)
            continue;
        *st = check_alone(u, err);
        if (*st != RLX_OK)
            return false;
        if (rx_buffer_wait_submits(u->buffer, s, rx_use_writes(u)))
            return true;
    }
    return false;
}

rlx_status rx_session_begin_submit(rlx_session *s, rlx_error *err)
{
    rlx_device *d = s->shared->device;
    rlx_status st = RLX_OK;
    if (!s->n_used)
        return RLX_OK;
    rx_mutex_lock(&d->order);
    while (wait_uses(s, &st, err))
        continue;
    /* Failures of other sessions' runs are reported by those. */
    const bool waits = st == RLX_OK && (!d->backend->orders_runs || s->shared->has_host);
    for (size_t i = 0; i < s->n_uses && waits; i++)
        if (s->uses[i].buffer)
            rx_buffer_wait_runs(s->uses[i].buffer, s, rx_use_writes(&s->uses[i]), NULL);
    s->submitting = st == RLX_OK;
    rx_mutex_unlock(&d->order);
    return st;
}

void rx_session_end_submit(rlx_session *s)
{
    rlx_device *d = s->shared->device;
    if (!s->n_used)
        return;
    rx_mutex_lock(&d->order);
    for (size_t i = 0; i < s->n_uses; i++)
        if (s->uses[i].buffer && rx_use_writes(&s->uses[i]))
            d->backend->buffer_changed(s->uses[i].buffer->memory);
    s->submitting = false;
    rx_cond_broadcast(&d->ordered);
    rx_mutex_unlock(&d->order);
}

/* ---- Public ---------------------------------------------------------------------------------- */

static void count_param(rx_shared *h, size_t i, rlx_buffer *b)
{
    const bool had = h->param_set[i] || h->param_buffers[i], has = h->param_set[i] || b;
    h->n_unset += (size_t)had - (size_t)has;
    h->param_buffers[i] = b;
}

static rlx_status set_param(rlx_session *s, size_t i, rlx_buffer *b, rlx_error *err)
{
    rx_shared *h = s->shared;
    if (atomic_load(&h->refs) != 1 || rx_shared_is_lent(h, i))
        return rx_fail(err, RLX_INVALID, "param '%s' cannot get another buffer while clones of the "
                       "session, or others, have its weights", h->program->params[i].name);
    rx_mutex_lock(&h->lock);
    rlx_status st = h->device->backend->weights_use(h->weights, i, b ? b->memory : NULL, err);
    if (st == RLX_OK)
        count_param(h, i, b);
    rx_mutex_unlock(&h->lock);
    return st;
}

static rlx_status set_buffer(rlx_session *s, rlx_leaf kind, const char *name, rlx_buffer *b,
                             rlx_error *err)
{
    const rx_program *p = s->shared->program;
    size_t i;
    RLX_TRY(check_kind(kind, err));
    RLX_TRY(rx_shared_find(s->shared, kind, name, &i, err));
    rx_use *u = &s->uses[rx_use_index(p, kind, i)];
    if (u->buffer == b)
        return RLX_OK;
    if (b)
        RLX_TRY(check_fit(s->shared, kind, i, b, err));
    rx_session_settle(s, NULL); /* however the runs went */
    if (kind == RLX_LEAF_PARAM)
        RLX_TRY(set_param(s, i, b, err));
    else
        RLX_TRY(rx_session_backend(s)->exec_use(s->exec, rx_port_index(p, kind, i),
                                                b ? b->memory : NULL, err));
    change_use(u, b);
    s->exec_dirty = true;
    s->inputs_ok = false;
    s->has_run = s->has_run && kind != RLX_LEAF_OUTPUT;
    return RLX_OK;
}

rlx_status rlx_session_set_buffer(rlx_session *s, rlx_leaf kind, const char *name, rlx_buffer *b,
                                  rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_set_buffer: s", err));
    RLX_TRY(rx_need(name, "rlx_session_set_buffer: name", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = set_buffer(s, kind, name, b, err);
    rx_mutex_unlock(&s->lock);
    return st;
}
