/* SPDX-License-Identifier: MIT */
/* A program on the CPU: weights, memory, binding of dimensions and running of steps. Binding turns
 * every value into an rx_view and every step into an rx_call, so a run only calls kernels. */
#include "cpu/device.h"

#include <string.h>

#include "base/dtype.h"

/* ---- Weights --------------------------------------------------------------------------------- */

rlx_status rx_cpu_weights_create(rx_device *d, rx_program *p, rx_buffer *const *buffers,
                                 const rx_lender *from, rx_weights **out, rlx_error *err)
{
    (void)d;
    *out = NULL;
    rx_weights *w = rx_alloc_zero(sizeof *w);
    if (!w)
        return rx_fail_memory(err, "the weights", sizeof *w);
    w->program = p;
    w->version = 1;
    w->items = rx_alloc_array_zero(p->n_params, sizeof *w->items);
    if (!w->items || !rx_pack_cache_init(&w->packs, p->n_params + p->n_constants))
        goto fail;
    if (!rx_rwlock_init(&w->lock)) {
        rx_pack_cache_finish(&w->packs);
        goto fail;
    }
    for (size_t i = 0; i < p->n_params && buffers; i++)
        w->items[i].buffer = buffers[i];
    for (size_t i = 0; i < p->n_params && from; i++)
        if (from->params[i] != SIZE_MAX) {
            w->items[i].lender = from->weights;
            w->items[i].lent = from->params[i];
        }
    *out = w;
    return RLX_OK;
fail:
    rx_free(w->items);
    rx_free(w);
    return rx_fail_memory(err, "the weights", p->n_params * sizeof *w->items);
}

void rx_cpu_weights_destroy(rx_weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->program->n_params; i++)
        rx_free_aligned(w->items[i].owned);
    rx_pack_cache_finish(&w->packs);
    rx_rwlock_finish(&w->lock);
    rx_free(w->items);
    rx_free(w);
}

/* Kernels load whole elements; blocks are read in parts of at most 4 bytes. */
static bool is_aligned(const void *data, rlx_dtype t)
{
    uintptr_t size = rlx_dtype_is_packed(t) ? 4 : (uintptr_t)rlx_dtype_block_bytes(t);
    return (uintptr_t)data % size == 0;
}

static void set_weight(rx_weight *item, const void *data, void *owned)
{
    rx_free_aligned(item->owned);
    item->data = data;
    item->owned = owned;
}

rlx_status rx_cpu_weights_set(rx_weights *w, size_t param, const void *data, size_t bytes,
                              rlx_ownership own, rlx_error *err)
{
    const rx_port *port = &w->program->params[param];
    rx_weight *item = &w->items[param];
    rlx_dtype dtype = w->program->values[port->value].dtype;
    bool borrow = own == RLX_BORROW && data && is_aligned(data, dtype);
    rlx_status st = RLX_OK;
    rx_rwlock_write(&w->lock);
    if (borrow) {
        set_weight(item, data, NULL);
        goto changed;
    }
    if (!item->owned) {
        void *copy = rx_alloc_aligned(bytes);
        if (!copy) {
            st = rx_fail(err, RLX_NO_MEMORY, "out of memory: param '%s' needs %zu bytes",
                         port->name, bytes);
            goto out;
        }
        rx_ask_large_pages(copy, bytes);
        set_weight(item, copy, copy);
    }
    if (bytes)
        memcpy(item->owned, data, bytes);
changed:
    item->version++;
    w->version++;
out:
    rx_rwlock_unlock(&w->lock);
    return st;
}

rlx_status rx_cpu_weights_use(rx_weights *w, size_t param, rx_buffer *b, rlx_error *err)
{
    (void)err;
    rx_rwlock_write(&w->lock);
    w->items[param].buffer = b;
    w->version++;
    rx_rwlock_unlock(&w->lock);
    return RLX_OK;
}

#define NEAR 16 /* steps within which a converted operand is worth keeping */

/* ---- Creation -------------------------------------------------------------------------------- */

/* Assigns ports consecutive offsets from *bytes on, 64-byte aligned. */
static bool place_ports(const rx_program *p, const rx_port *ports, size_t n, uint64_t *at,
                        uint64_t *bytes)
{
    for (size_t i = 0; i < n; i++) {
        at[i] = *bytes;
        if (!rx_add_size(*bytes, p->values[ports[i].value].bytes, bytes) ||
            !rx_add_size(*bytes, 63, bytes))
            return false;
        *bytes &= ~(uint64_t)63;
    }
    return true;
}

/* The id of operand 0 of a product (rx_call.x), where a nearby product reads it too. */
static uint32_t shared_operand(const rx_program *p, size_t step)
{
    const rx_step *s = &p->steps[step];
    for (size_t i = step > NEAR ? step - NEAR : 0; i < p->n_steps && i <= step + NEAR; i++)
        if (i != step && s->n_in && p->steps[i].op == s->op && p->steps[i].in[0] == s->in[0])
            return s->in[0] + 1;
    return 0;
}

static bool alloc_calls(rx_exec *e)
{
    const rx_program *p = e->program;
    for (size_t i = 0; i < p->n_steps; i++) {
        const rx_step *s = &p->steps[i];
        rx_view *operands = rx_arena_array(&e->arena, s->n_in + s->n_out, sizeof *operands);
        rx_pack_source *sources = rx_arena_array(&e->arena, s->n_in, sizeof *sources);
        if (!operands || !sources)
            return false;
        e->calls[i] = (rx_call){.op = s->op, .n_in = s->n_in, .n_out = s->n_out, .in = operands,
                                .out = operands + s->n_in, .pool = e->device->pool,
                                .scratch = &e->scratch, .flags = &e->flags,
                                .form = &e->form, .x = shared_operand(p, i),
                                .sources = sources, .caches = &e->device->caches,
                                .policy = p->policy, .invariant = p->invariant};
    }
    return true;
}

static bool alloc_tables(rx_exec *e)
{
    const rx_program *p = e->program;
    rx_arena *a = &e->arena;
    e->input_at = rx_arena_array(a, p->n_inputs, sizeof *e->input_at);
    e->state_at = rx_arena_array(a, p->n_states, sizeof *e->state_at);
    e->buffers = rx_arena_array_zero(a, rx_program_n_ports(p), sizeof *e->buffers);
    e->placed = rx_arena_array_zero(a, p->n_values, sizeof *e->placed);
    e->calls = rx_arena_array(a, p->n_steps, sizeof *e->calls);
    e->kernels = rx_arena_array_zero(a, p->n_steps, sizeof *e->kernels);
    return e->input_at && e->state_at && e->buffers && e->placed && e->calls && e->kernels &&
           rx_bound_init(&e->at, p, a) && alloc_calls(e);
}

static rlx_status alloc_memory(rx_exec *e, rlx_error *err)
{
    const rx_program *p = e->program;
    uint64_t bytes = 0, states_at;
    if (!place_ports(p, p->inputs, p->n_inputs, e->input_at, &bytes))
        return rx_fail_memory(err, "the inputs", UINT64_MAX);
    states_at = bytes;
    if (!place_ports(p, p->states, p->n_states, e->state_at, &bytes) || bytes > SIZE_MAX ||
        p->memory.arena_bytes > SIZE_MAX)
        return rx_fail_memory(err, "inputs, states and arena", UINT64_MAX);
    e->leaves = rx_alloc_aligned_zero(bytes);
    if (!e->leaves)
        return rx_fail_memory(err, "inputs and states", bytes);
    rx_ask_large_pages(e->leaves, (size_t)states_at); /* states may stay mostly empty */
    e->state_bytes = bytes - states_at;
    e->memory = rx_alloc_aligned(p->memory.arena_bytes);
    if (!e->memory)
        return rx_fail_memory(err, "the arena of the program", p->memory.arena_bytes);
    rx_ask_large_pages(e->memory, (size_t)p->memory.arena_bytes);
    return RLX_OK;
}

static void use_buffer(rx_exec *e, size_t port, rx_buffer *b)
{
    const rx_program *p = e->program;
    rlx_leaf kind;
    rx_port_at(p, port, &kind);
    e->buffers[port] = b;
    if (kind != RLX_LEAF_OUTPUT)
        return;
    const uint32_t root = rx_output_root(p, port - p->n_inputs - p->n_states);
    if (root != RX_NO_VALUE)
        e->placed[root] = b;
}

/* The port's own memory stays allocated: untouched pages take no room. */
rlx_status rx_cpu_exec_use(rx_exec *e, size_t port, rx_buffer *b, rlx_error *err)
{
    (void)err;
    rx_cpu_wait_idle(e);
    use_buffer(e, port, b);
    e->bound = false;
    return RLX_OK;
}

static void exec_free(rx_exec *e)
{
    rx_scratch_finish(&e->scratch);
    rx_form_finish(&e->form);
    rx_free_aligned(e->memory);
    rx_free_aligned(e->leaves);
    rx_arena_finish(&e->arena);
    rx_free(e);
}

rlx_status rx_cpu_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_buffer *const *buffers,
                              rx_exec **out, rlx_error *err)
{
    *out = NULL;
    rx_exec *e = rx_alloc_zero(sizeof *e);
    if (!e)
        return rx_fail_memory(err, "the session", sizeof *e);
    e->device = d;
    e->program = p;
    e->weights = w;
    rlx_status st = alloc_tables(e) ? alloc_memory(e, err)
                                    : rx_fail_memory(err, "the steps of the program",
                                                     p->n_steps * sizeof *e->calls);
    if (st != RLX_OK)
        goto fail;
    if (!rx_mutex_init(&e->lock)) {
        st = rx_fail_memory(err, "a lock", sizeof e->lock);
        goto fail;
    }
    if (!rx_cond_init(&e->changed)) {
        rx_mutex_finish(&e->lock);
        st = rx_fail_memory(err, "a lock", sizeof e->changed);
        goto fail;
    }
    for (size_t i = 0; i < rx_program_n_ports(p) && buffers; i++)
        use_buffer(e, i, buffers[i]);
    *out = e;
    return RLX_OK;
fail:
    exec_free(e);
    return st;
}

void rx_cpu_exec_destroy(rx_exec *e)
{
    if (!e)
        return;
    rx_cpu_wait_idle(e);
    rx_cond_finish(&e->changed);
    rx_mutex_finish(&e->lock);
    exec_free(e);
}

/* ---- Binding --------------------------------------------------------------------------------- */

/* Address of a value that is not a view. */
static char *value_data(const rx_exec *e, uint32_t index)
{
    const rx_pvalue *v = &e->program->values[index];
    const rx_weight *w;
    const rx_buffer *b;
    switch (v->space) {
    case RX_SPACE_ARENA:
        return e->placed[index] ? e->placed[index]->data : e->memory + v->offset;
    case RX_SPACE_INPUT:
        b = e->buffers[v->index];
        return b ? b->data : e->leaves + e->input_at[v->index];
    case RX_SPACE_STATE:
        b = e->buffers[e->program->n_inputs + v->index];
        return b ? b->data : e->leaves + e->state_at[v->index];
    case RX_SPACE_PARAM:
        w = &e->weights->items[v->index];
        if (w->lender)
            w = &w->lender->items[w->lent];
        return w->buffer ? w->buffer->data : (char *)(uintptr_t)w->data;
    case RX_SPACE_CONSTANT:
        return (char *)(uintptr_t)e->program->constants[v->index];
    case RX_SPACE_NONE:
        break;
    }
    return NULL;
}

/* The weight that an operand is, or a view of. */
static rx_pack_source find_source(const rx_exec *e, uint32_t index)
{
    static const uint64_t once = 1;
    rx_weights *w = e->weights;
    if (index == RX_NO_VALUE)
        return (rx_pack_source){0};
    const rx_pvalue *v = &e->program->values[index];
    while (v->view_of >= 0)
        v = &e->program->values[v->view_of];
    if (v->space == RX_SPACE_CONSTANT)
        return (rx_pack_source){&w->packs, e->program->n_params + v->index, &once};
    if (v->space != RX_SPACE_PARAM)
        return (rx_pack_source){0};
    rx_weight *item = &w->items[v->index];
    size_t list = v->index;
    if (item->lender) {
        w = item->lender;
        list = item->lent;
        item = &w->items[list];
    }
    if (item->buffer)
        return (rx_pack_source){&item->buffer->packs, 0, &item->buffer->version};
    return (rx_pack_source){&w->packs, list, &item->version};
}

static void update_call(rx_exec *e, size_t i)
{
    static const rx_view absent = {.rank = -1};
    const rx_step *s = &e->program->steps[i];
    rx_call *c = &e->calls[i];
    rx_view *operands = (rx_view *)(uintptr_t)c->in;
    rx_pack_source *sources = (rx_pack_source *)(uintptr_t)c->sources;
    for (uint32_t k = 0; k < s->n_in; k++) {
        operands[k] = s->in[k] == RX_NO_VALUE ? absent : e->at.views[s->in[k]];
        sources[k] = find_source(e, s->in[k]);
    }
    for (uint32_t k = 0; k < s->n_out; k++)
        operands[s->n_in + k] = s->out[k] == RX_NO_VALUE ? absent : e->at.views[s->out[k]];
    c->attr = rx_bound_attr(&e->at, i);
    atomic_store_explicit(&e->kernels[i], rx_cpu_choose(e->device->table.head[s->op], c),
                          memory_order_relaxed);
}

/* Makes views and calls anew after dimensions or addresses of weights changed. */
static rlx_status update(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    const rx_program *p = e->program;
    e->bound = false;
    for (size_t i = 0; i < p->n_values; i++)
        if (p->values[i].view_of < 0)
            e->at.views[i].data = value_data(e, (uint32_t)i);
    RLX_TRY(rx_bound_update(&e->at, dims, err));
    for (size_t i = 0; i < p->n_steps; i++)
        update_call(e, i);
    e->weights_version = e->weights->version;
    e->bound = true;
    return RLX_OK;
}

/* The weights' lock is held. */
static rlx_status ensure_updated(rx_exec *e, rlx_error *err)
{
    if (e->bound && e->weights_version == e->weights->version)
        return RLX_OK;
    return update(e, e->at.dims, err);
}

rlx_status rx_cpu_exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    rx_cpu_wait_idle(e);
    rx_rwlock_read(&e->weights->lock);
    rlx_status st = update(e, dims, err);
    rx_rwlock_unlock(&e->weights->lock);
    return st;
}

/* ---- Host access ----------------------------------------------------------------------------- */

rlx_status rx_cpu_exec_write(rx_exec *e, uint32_t value, size_t offset, const void *data,
                             size_t bytes, rlx_error *err)
{
    const rx_pvalue *v = &e->program->values[value];
    if (v->space != RX_SPACE_INPUT && v->space != RX_SPACE_STATE)
        return rx_fail(err, RLX_INTERNAL, "value %u is neither an input nor a state",
                       (unsigned)value);
    rx_cpu_wait_idle(e);
    if (bytes)
        memcpy(value_data(e, value) + offset, data, bytes);
    return RLX_OK;
}

rlx_status rx_cpu_exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                            rlx_error *err)
{
    const rx_pvalue *v = &e->program->values[value];
    rx_cpu_wait_idle(e);
    rx_rwlock_read(&e->weights->lock);
    rlx_status st = v->view_of >= 0 ? ensure_updated(e, err) : RLX_OK;
    const char *from = v->view_of >= 0 ? e->at.views[value].data : value_data(e, value);
    if (st == RLX_OK && !from && bytes)
        st = rx_fail(err, RLX_INTERNAL, "value %u has no memory", (unsigned)value);
    if (st == RLX_OK && bytes)
        memcpy(data, from + offset, bytes);
    rx_rwlock_unlock(&e->weights->lock);
    return st;
}

/* ---- Running --------------------------------------------------------------------------------- */

static rlx_status run_step(rx_exec *e, size_t i, rlx_error *err)
{
    const rx_step *s = &e->program->steps[i];
    const rx_cpu_kernel *first = atomic_load_explicit(&e->kernels[i], memory_order_relaxed);
    const rx_cpu_kernel *used = first;
    rlx_status st = rx_cpu_dispatch(first, &e->calls[i], &used);
    rx_scratch_reset(&e->scratch);
    if (st == RLX_OK) {
        /* a refusal holds until the next bind */
        if (used != first)
            atomic_store_explicit(&e->kernels[i], used, memory_order_relaxed);
        return RLX_OK;
    }
    const char *op = rx_ops[s->op].name, *name = s->name ? s->name : "";
    if (st == RLX_NO_MEMORY)
        return rx_fail(err, st, "step %zu, %s '%s': out of memory in the kernel", i, op, name);
    if (st == RLX_UNSUPPORTED)
        return rx_fail(err, st, "step %zu, %s '%s': no CPU kernel takes these types and shapes", i,
                       op, name);
    return rx_fail(err, st, "step %zu, %s '%s': the kernel failed: %s", i, op, name,
                   rlx_status_name(st));
}

/* Copies outputs that are parts of other values to their buffers at the end of a run. */
static void copy_outputs(const rx_exec *e)
{
    const rx_program *p = e->program;
    for (size_t i = 0; i < p->n_outputs; i++) {
        const rx_buffer *b = e->buffers[rx_port_index(p, RLX_LEAF_OUTPUT, i)];
        const rx_view *v = &e->at.views[p->outputs[i].value];
        uint64_t bytes = 0;
        if (b && v->data != b->data && rx_dtype_bytes(v->dtype, rx_view_elements(v), &bytes) &&
            bytes)
            memcpy(b->data, v->data, (size_t)bytes);
    }
}

rlx_status rx_cpu_run(rx_exec *e, const rx_submit *s, rlx_error *err)
{
    rx_rwlock_read(&e->weights->lock);
    rlx_status st = ensure_updated(e, err);
    e->form.x = 0;
    if (s->first_step == 0)
        __atomic_store_n(&e->flags, 0, __ATOMIC_RELAXED);
    for (size_t i = 0; i < s->n_steps && st == RLX_OK; i++)
        st = run_step(e, s->first_step + i, err);
    if (st == RLX_OK && s->first_step + s->n_steps == e->program->n_steps)
        copy_outputs(e);
    rx_rwlock_unlock(&e->weights->lock);
    return st;
}

uint32_t rx_cpu_exec_flags(rx_exec *e)
{
    return __atomic_load_n(&e->flags, __ATOMIC_RELAXED);
}

const char *rx_cpu_exec_kernel(rx_exec *e, size_t step)
{
    const rx_cpu_kernel *k = atomic_load_explicit(&e->kernels[step], memory_order_relaxed);
    return k ? k->name : "not chosen yet";
}
