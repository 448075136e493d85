/* SPDX-License-Identifier: MIT */
/* Sessions: creation, cloning, destruction; weights and named dimensions. All arguments are
 * validated in this folder, so backends need not. */
#include "runtime/session.h"

#include <string.h>

#include "base/env.h"
#include "base/sized.h"
#include "compile/compile.h"

/* ---- What clones share ----------------------------------------------------------------------- */

static bool add_ports(rx_map *map, const rx_program *p, rlx_leaf kind, rlx_leaf key)
{
    size_t n;
    const rx_port *ports = rx_program_ports(p, kind, &n);
    for (size_t i = 0; i < n; i++)
        if (!rx_map_add(map, ports[i].name, strlen(ports[i].name), rx_leaf_key(key, i)))
            return false;
    return true;
}

static bool add_dims(rx_map *map, const rx_program *p)
{
    for (size_t i = 0; i < p->n_dims; i++) {
        const rx_dim_expr *d = &p->dims[i];
        if (d->kind == RX_DIM_NAMED && !rx_map_add(map, d->name, strlen(d->name), (uint32_t)i))
            return false;
    }
    return true;
}

static bool fill_names(rx_shared *h)
{
    const rx_program *p = h->program;
    return add_ports(&h->leaves, p, RLX_LEAF_INPUT, RLX_LEAF_INPUT) &&
           add_ports(&h->leaves, p, RLX_LEAF_PARAM, RLX_LEAF_PARAM) &&
           add_ports(&h->leaves, p, RLX_LEAF_STATE, RLX_LEAF_STATE) &&
           add_ports(&h->outputs, p, RLX_LEAF_OUTPUT, (rlx_leaf)0) && add_dims(&h->dims, p);
}

static void shared_unref(rx_shared *h)
{
    if (!h || atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    if (h->weights)
        h->device->backend->weights_destroy(h->weights);
    shared_unref(h->lender);
    rx_free(h->lent);
    rx_map_finish(&h->leaves);
    rx_map_finish(&h->outputs);
    rx_map_finish(&h->dims);
    rx_arena_finish(&h->texts);
    rx_free(h->param_set);
    rx_free(h->param_buffers);
    rx_mutex_finish(&h->lock);
    rx_program_unref(h->program);
    rx_device_unref(h->device);
    rx_free(h);
}

static bool is_lent(const rx_shared *h, size_t param)
{
    return h->lent && h->lent[param] != SIZE_MAX;
}

bool rx_shared_is_lent(const rx_shared *h, size_t i)
{
    return is_lent(h, i) || (h->lends && h->param_set[i]);
}

/* The param of `from` that param i of `h` can be; SIZE_MAX: none. The lock of `from` is held. */
static size_t find_lent(const rx_shared *h, const rx_shared *from, size_t i)
{
    const rx_program *p = h->program, *q = from->program;
    size_t k;
    if (h->param_buffers[i] ||
        rx_shared_find(from, RLX_LEAF_PARAM, p->params[i].name, &k, NULL) != RLX_OK)
        return SIZE_MAX;
    const rx_pvalue *a = &p->values[p->params[i].value], *b = &q->values[q->params[k].value];
    const bool same = a->dtype == b->dtype && a->bytes == b->bytes;
    return same && from->param_set[k] && !is_lent(from, k) ? k : SIZE_MAX;
}

/* Finds the params of `h` that `from` has, and keeps it. */
static rlx_status borrow(rx_shared *h, rx_shared *from, rlx_error *err)
{
    if (from->device != h->device)
        return rx_fail(err, RLX_INVALID, "rlx_session_desc: weights_of is on another device (%s) "
                       "than the session (%s)", from->device->info.id, h->device->info.id);
    h->lent = rx_alloc_array(h->program->n_params, sizeof *h->lent);
    if (!h->lent)
        return rx_fail_memory(err, "the weights", h->program->n_params * sizeof *h->lent);
    atomic_fetch_add_explicit(&from->refs, 1, memory_order_relaxed);
    h->lender = from;
    rx_mutex_lock(&from->lock);
    from->lends = true;
    for (size_t i = 0; i < h->program->n_params; i++) {
        h->lent[i] = find_lent(h, from, i);
        h->n_unset -= is_lent(h, i);
    }
    rx_mutex_unlock(&from->lock);
    return RLX_OK;
}

/* Marks the params that have a buffer, and lists the memory of the buffers. */
static void list_params(rx_shared *h, rlx_buffer *const *buffers, rx_buffer **out)
{
    for (size_t i = 0; i < h->program->n_params; i++) {
        h->param_buffers[i] = buffers[i];
        h->n_unset -= buffers[i] != NULL;
        out[i] = buffers[i] ? buffers[i]->memory : NULL;
    }
}

/* Fills `buffers`, by rx_use_index, from the descriptor. */
static rlx_status fill_shared(rx_shared *h, const rlx_session_desc *desc, rlx_buffer **buffers,
                              rlx_error *err)
{
    const rx_program *p = h->program;
    RLX_TRY(rx_shared_find_buffers(h, desc, buffers, err));
    rx_buffer **list = rx_alloc_array_zero(p->n_params, sizeof *list);
    if (!list)
        return rx_fail_memory(err, "the weights", p->n_params * sizeof *list);
    list_params(h, buffers, list);
    for (size_t i = 0; i < p->n_steps; i++)
        h->has_host = h->has_host || p->steps[i].support == RLX_SUPPORT_HOST;
    rlx_status st = desc->weights_of ? borrow(h, desc->weights_of->shared, err) : RLX_OK;
    const rx_lender lender = {h->lender ? h->lender->weights : NULL, h->lent};
    if (st == RLX_OK)
        st = h->device->backend->weights_create(h->device->device, h->program, list,
                                                h->lender ? &lender : NULL, &h->weights, err);
    rx_free(list);
    return st;
}

/* Takes over the caller's reference of the program, also on failure. */
static rlx_status shared_create(rlx_device *d, rx_program *p, const rlx_session_desc *desc,
                                rlx_buffer **buffers, rx_shared **out, rlx_error *err)
{
    rx_shared *h = rx_alloc_zero(sizeof *h);
    if (!h || !rx_mutex_init(&h->lock)) {
        rx_free(h);
        rx_program_unref(p);
        return rx_fail_memory(err, "the session", sizeof *h);
    }
    atomic_init(&h->refs, 1);
    h->device = rx_device_ref(d);
    h->program = p;
    h->n_unset = p->n_params;
    h->param_set = rx_alloc_array_zero(p->n_params, sizeof *h->param_set);
    h->param_buffers = rx_alloc_array_zero(p->n_params, sizeof *h->param_buffers);
    rlx_status st = h->param_set && h->param_buffers && fill_names(h)
                        ? RLX_OK
                        : rx_fail_memory(err, "the names of the session", p->n_params);
    if (st == RLX_OK)
        st = fill_shared(h, desc, buffers, err);
    if (st != RLX_OK)
        shared_unref(h);
    else
        *out = h;
    return st;
}

/* ---- Creation -------------------------------------------------------------------------------- */

/* Unbound dimensions have their upper bound. */
static void bind_bounds(rlx_session *s)
{
    const rx_program *p = s->shared->program;
    for (size_t i = 0; i < p->n_dims; i++)
        s->dims[i] = p->dims[i].bound;
    s->dims_dirty = p->n_dims > 0;
    s->exec_dirty = true;
}

static bool alloc_tables(rlx_session *s)
{
    const rx_program *p = s->shared->program;
    const size_t n_ports = rx_program_n_ports(p);
    s->dims = rx_alloc_array_zero(p->n_dims, sizeof *s->dims);
    s->run_dims = rx_alloc_array_zero(p->n_dims, sizeof *s->run_dims);
    s->given = rx_alloc_array(p->n_inputs, sizeof *s->given);
    s->uses = rx_alloc_array_zero(p->n_params + n_ports, sizeof *s->uses);
    if (!s->dims || !s->run_dims || !s->given || !s->uses)
        return false;
    s->n_uses = p->n_params + n_ports;
    for (size_t i = 0; i < s->n_uses; i++) {
        rlx_leaf kind = RLX_LEAF_PARAM;
        const rx_port *port = i < p->n_params ? &p->params[i]
                                              : rx_port_at(p, i - p->n_params, &kind);
        s->uses[i] = (rx_use){.session = s, .kind = kind, .name = port->name};
    }
    return true;
}

/* Creates the exec with its ports bound to `buffers`, by rx_use_index. */
static rlx_status make_exec(rlx_session *s, rlx_buffer *const *buffers, rlx_error *err)
{
    const rx_shared *h = s->shared;
    const size_t n = rx_program_n_ports(h->program);
    rx_buffer **list = rx_alloc_array_zero(n, sizeof *list);
    if (!list)
        return rx_fail_memory(err, "the session", n * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const rlx_buffer *b = buffers[h->program->n_params + i];
        list[i] = b ? b->memory : NULL;
    }
    rlx_status st = rx_session_backend(s)->exec_create(h->device->device, h->program, h->weights,
                                                       list, &s->exec, err);
    rx_free(list);
    return st;
}

/* Takes over the caller's reference of `h`, also on failure. buffers: by rx_use_index. */
static rlx_status session_make(rx_shared *h, rlx_buffer *const *buffers, rlx_session **out,
                               rlx_error *err)
{
    const rx_program *p = h->program;
    rlx_session *s = rx_alloc_zero(sizeof *s);
    if (!s || !rx_mutex_init(&s->lock)) {
        rx_free(s);
        shared_unref(h);
        return rx_fail_memory(err, "the session", sizeof *s);
    }
    s->shared = h;
    rlx_status st = alloc_tables(s) ? make_exec(s, buffers, err)
                                    : rx_fail_memory(err, "the session",
                                                     p->n_inputs * sizeof *s->given);
    if (st != RLX_OK) {
        rlx_session_destroy(s);
        return st;
    }
    rx_session_add_uses(s, buffers);
    for (size_t i = 0; i < p->n_inputs; i++)
        s->given[i].rank = -1;
    s->dump_nodes = rx_env_flag(RX_ENV_DUMP_NODES);
    s->report = rx_env_flag(RX_ENV_DISPATCH_REPORT);
    bind_bounds(s);
    *out = s;
    return RLX_OK;
}

rlx_status rx_session_create_from(rlx_device *d, rx_program *p, const rlx_session_desc *desc,
                                  rlx_session **out, rlx_error *err)
{
    const size_t n = p->n_params + rx_program_n_ports(p);
    rlx_buffer **buffers = rx_alloc_array_zero(n, sizeof *buffers);
    rx_shared *h = NULL;
    if (!buffers) {
        rx_program_unref(p);
        return rx_fail_memory(err, "the session", n * sizeof *buffers);
    }
    rlx_status st = shared_create(d, p, desc, buffers, &h, err);
    if (st == RLX_OK)
        st = session_make(h, buffers, out, err);
    rx_free(buffers);
    if (st == RLX_OK && rx_env_flag(RX_ENV_SCHEDULE))
        rx_session_log_schedule(*out);
    return st;
}

rlx_status rlx_session_create(rlx_device *d, const rlx_graph *g, const rlx_session_desc *desc,
                              rlx_session **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_session_create: out", err));
    *out = NULL;
    rlx_session_desc full;
    RLX_TRY(RX_DESC_READ(rlx_session_desc, &full, desc, err));
    if (!d || !g)
        return rx_fail(err, RLX_INVALID, "a session needs a device and a graph; the %s is NULL",
                       d ? "graph" : "device");
    full.no_fusion = full.no_fusion || rx_env_flag(RX_ENV_NO_FUSION);
    rx_program *p = NULL;
    RLX_TRY(rx_compile(g, d->backend->target(d->device), &full, &p, err));
    return rx_session_create_from(d, p, &full, out, err);
}

/* Params stay in their buffers, all else gets memory of its own. */
static rlx_status clone_locked(rlx_session *s, rlx_session **out, rlx_error *err)
{
    rx_shared *h = s->shared;
    rlx_buffer **buffers = rx_alloc_array_zero(s->n_uses, sizeof *buffers);
    if (!buffers)
        return rx_fail_memory(err, "the session", s->n_uses * sizeof *buffers);
    for (size_t i = 0; i < h->program->n_params; i++)
        buffers[i] = h->param_buffers[i];
    atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
    rlx_status st = session_make(h, buffers, out, err);
    if (st == RLX_OK && h->program->n_dims)
        memcpy((*out)->dims, s->dims, h->program->n_dims * sizeof *s->dims);
    rx_free(buffers);
    return st;
}

rlx_status rlx_session_clone(rlx_session *s, rlx_session **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_session_clone: out", err));
    *out = NULL;
    RLX_TRY(rx_need(s, "rlx_session_clone: s", err));
    rx_mutex_lock(&s->lock);
    rlx_status st = clone_locked(s, out, err);
    rx_mutex_unlock(&s->lock);
    return st;
}

void rlx_session_destroy(rlx_session *s)
{
    if (!s)
        return;
    if (s->exec) {
        rx_session_settle(s, NULL);
        rx_session_unlink_uses(s);
        rx_session_backend(s)->exec_destroy(s->exec);
    }
    shared_unref(s->shared);
    rx_session_release_uses(s); /* exec and weights used the buffers */
    rx_free(s->dims);
    rx_free(s->run_dims);
    rx_free(s->given);
    rx_free(s->uses);
    rx_mutex_finish(&s->lock);
    rx_free(s);
}

/* ---- Weights --------------------------------------------------------------------------------- */

rlx_status rlx_session_set_param(rlx_session *s, const char *name, const void *data, size_t bytes,
                                 rlx_ownership own, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_set_param: s", err));
    size_t i;
    RLX_TRY(rx_shared_find(s->shared, RLX_LEAF_PARAM, name, &i, err));
    rx_shared *h = s->shared;
    const rx_program *p = h->program;
    uint32_t value = p->params[i].value;
    uint64_t want = rx_value_bytes_at(p, value, NULL);
    char type[RX_TYPE_TEXT];
    if (bytes != want)
        return rx_fail(err, RLX_INVALID, "param '%s' is %s: expected %llu bytes, got %zu", name,
                       rx_value_text_at(p, value, NULL, type), (unsigned long long)want, bytes);
    if (!data && bytes)
        return rx_fail(err, RLX_INVALID, "param '%s' (%s): the data pointer is NULL", name,
                       rx_value_text_at(p, value, NULL, type));
    if (own != RLX_COPY && own != RLX_BORROW)
        return rx_fail(err, RLX_INVALID, "param '%s': ownership %d is neither RLX_COPY nor "
                       "RLX_BORROW", name, (int)own);
    rx_mutex_lock(&h->lock);
    rlx_status st = RLX_OK;
    if (rx_shared_is_lent(h, i))
        st = rx_fail(err, RLX_INVALID, "param '%s' is used by several sessions "
                     "(rlx_session_desc.weights_of) and cannot be set again", name);
    else
        st = h->param_buffers[i]
                 ? rx_fail_in_buffer(RLX_LEAF_PARAM, name, err)
                 : h->device->backend->weights_set(h->weights, i, data, bytes, own, err);
    if (st == RLX_OK && !h->param_set[i]) {
        h->param_set[i] = true;
        h->n_unset--;
    }
    rx_mutex_unlock(&h->lock);
    return st;
}

bool rlx_session_has_param(rlx_session *s, const char *name)
{
    size_t i;
    if (!s || !name || rx_shared_find(s->shared, RLX_LEAF_PARAM, name, &i, NULL) != RLX_OK)
        return false;
    rx_shared *h = s->shared;
    rx_mutex_lock(&h->lock);
    const bool has = h->param_set[i] || h->param_buffers[i] || is_lent(h, i);
    rx_mutex_unlock(&h->lock);
    return has;
}

/* ---- Named dimensions ------------------------------------------------------------------------ */

static rlx_status find_dim(const rlx_session *s, const char *name, uint32_t *index, rlx_error *err)
{
    const rx_program *p = s->shared->program;
    if (!name)
        return rx_fail(err, RLX_INVALID, "the name of a dimension is NULL");
    const rx_map_slot *slot = rx_map_find(&s->shared->dims, name, strlen(name));
    if (slot) {
        *index = slot->value;
        return RLX_OK;
    }
    for (size_t i = 0; i < p->n_dims; i++)
        if (p->dims[i].kind == RX_DIM_NAMED)
            return rx_fail(err, RLX_NOT_FOUND, "there is no dimension '%.80s'; the graph has %zu "
                           "named dimensions, among them '%.80s'", name, s->shared->dims.n,
                           p->dims[i].name);
    return rx_fail(err, RLX_NOT_FOUND, "there is no dimension '%.80s': all shapes of the graph are "
                   "fixed", name);
}

rlx_status rlx_session_bind(rlx_session *s, const char *dim, int64_t value, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_bind: s", err));
    uint32_t i = 0;
    RLX_TRY(find_dim(s, dim, &i, err));
    int64_t bound = s->shared->program->dims[i].bound;
    if (value < 0 || value > bound)
        return rx_fail(err, RLX_INVALID, "dimension '%s' cannot be %lld: expected 0 to its bound "
                       "%lld", dim, (long long)value, (long long)bound);
    rx_mutex_lock(&s->lock);
    if (s->dims[i] != value) {
        s->dims[i] = value;
        s->dims_dirty = true;
    }
    rx_mutex_unlock(&s->lock);
    return RLX_OK;
}

rlx_status rx_session_eval_dims(rlx_session *s, rlx_error *err)
{
    const rx_program *p = s->shared->program;
    if (!s->dims_dirty)
        return RLX_OK;
    RLX_TRY(rx_dims_eval(p->dims, p->n_dims, s->dims, err));
    s->dims_dirty = false;
    s->exec_dirty = true;
    s->inputs_ok = false;
    return RLX_OK;
}
