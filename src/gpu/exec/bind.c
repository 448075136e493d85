/* SPDX-License-Identifier: MIT */
/* Binding of dimensions: values become views, the stages (gpu/stages.h) make the list of
 * dispatches, and the backend records it. The last few bindings are kept. */
#include <stdio.h>
#include <string.h>

#include "gpu/stages.h"

/* ---- Recordings ----------------------------------------------------------------------------- */

static void destroy_recording(rx_gpu_exec *x, rx_gpu_recording *r)
{
    if (!r)
        return;
    x->driver->forget(x->exec, r->commands);
    if (r->tables.n && x->memory->finish_uploads)
        x->memory->finish_uploads(x->memory->device, NULL);
    rx_gpu_pool_destroy(x->memory, &r->tables);
    rx_free(r->dims);
    rx_free(r->kernels);
    rx_free(r->computed_by);
    rx_free(r->derived);
    rx_free(r);
}

static rx_gpu_recording *new_recording(rx_gpu_exec *x)
{
    const rx_program *p = x->program;
    rx_gpu_recording *r = rx_alloc_zero(sizeof *r);
    if (!r)
        return NULL;
    r->dims = rx_alloc_array(p->n_dims + 1, sizeof *r->dims);
    r->kernels = rx_alloc_array_zero(p->n_steps + 1, sizeof *r->kernels);
    r->computed_by = rx_alloc_array(p->n_steps + 1, sizeof *r->computed_by);
    if (!r->dims || !r->kernels || !r->computed_by) {
        destroy_recording(x, r);
        return NULL;
    }
    memcpy(r->dims, x->values.bound.dims, p->n_dims * sizeof *r->dims);
    return r;
}

static bool dims_equal(const rx_gpu_exec *x, const int64_t *a, const int64_t *b)
{
    return !x->program->n_dims || !memcmp(a, b, x->program->n_dims * sizeof *a);
}

/* The index of a recording with these dimensions, else of an empty entry, else of the least
 * recently used. */
static size_t find_recording(const rx_gpu_exec *x, const int64_t *dims, bool *found)
{
    size_t oldest = 0;
    *found = false;
    for (size_t i = 0; i < RX_GPU_N_RECORDINGS; i++) {
        const rx_gpu_recording *r = x->recordings[i], *o = x->recordings[oldest];
        if (r && dims_equal(x, r->dims, dims)) {
            *found = true;
            return i;
        }
        if (o && (!r || r->used < o->used))
            oldest = i;
    }
    return oldest;
}

/* Waits until no run uses what is about to be freed, whatever their status. Not needed where the
 * queue keeps the order. */
static void wait_for_runs(rx_gpu_exec *x)
{
    if (x->memory->wait)
        rx_gpu_runs_wait_all(&x->runs, NULL);
}

void rx_gpu_exec_forget(rx_gpu_exec *x)
{
    wait_for_runs(x);
    for (size_t i = 0; i < RX_GPU_N_RECORDINGS; i++) {
        destroy_recording(x, x->recordings[i]);
        x->recordings[i] = NULL;
    }
    x->now = NULL;
}

/* ---- Scratch memory ------------------------------------------------------------------------- */

/* Other recordings reference the old blocks, so they are dropped. */
rlx_status rx_gpu_exec_scratch(rx_gpu_exec *x, rx_gpu_list *l, rlx_error *err)
{
    for (size_t i = 0; i < RX_GPU_N_SCRATCH; i++) {
        const uint64_t bytes = l->scratch_bytes[i];
        rx_gpu_place all;
        if (bytes <= x->scratch[i].total)
            continue;
        rx_gpu_exec_forget(x);
        rx_gpu_pool_destroy(x->memory, &x->scratch[i]);
        RLX_TRY(rx_gpu_pool_add(x->memory, &x->scratch[i], bytes, bytes, "scratch of kernels",
                                &all, err));
    }
    for (size_t i = 0; i < l->n; i++)
        for (uint32_t k = 0; k < l->items[i].dispatch.n_bind; k++)
            if (l->items[i].scratch[k])
                l->items[i].bind[k].block = x->scratch[l->items[i].scratch[k] - 1].blocks[0];
    return RLX_OK;
}

/* ---- Names ---------------------------------------------------------------------------------- */

#define MAX_NAME 160

struct rx_gpu_names {
    const struct rx_gpu_names *next;
    char text[MAX_NAME];
};

/* The text interned for the lifetime of the program; NULL: out of memory. */
static const char *keep_name(rx_gpu_exec *x, const char *text)
{
    for (const struct rx_gpu_names *n = x->names; n; n = n->next)
        if (!strcmp(n->text, text))
            return n->text;
    struct rx_gpu_names *n = rx_arena_alloc(&x->arena, sizeof *n);
    if (!n)
        return NULL;
    snprintf(n->text, sizeof n->text, "%s", text);
    n->next = x->names;
    x->names = n;
    return n->text;
}

/* The n > 0 kernels of a step as "split + join"; consecutive equal names are printed once. */
static const char *join_names(rx_gpu_exec *x, const char *const *kernels, size_t n)
{
    const char *last = kernels[0], *only = last;
    char text[MAX_NAME];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", last);
    for (size_t i = 1; i < n; i++) {
        const char *name = kernels[i];
        if (name == last)
            continue;
        only = NULL;
        last = name;
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " + %s", name);
    }
    const char *all = only ? only : keep_name(x, text);
    return all ? all : last;
}

static const char *name_step(rx_gpu_exec *x, const rx_gpu_list *l, const char *const *kernels,
                             size_t i)
{
    if (x->program->steps[i].support == RLX_SUPPORT_HOST)
        return "reference on the host";
    if (l->absorbed_by[i] != i)
        return "merged into a later step";
    const size_t n = l->first[i + 1] - l->first[i];
    return n ? join_names(x, kernels + l->first[i], n) : "nothing to do";
}

static rlx_status name_steps(rx_gpu_exec *x, rx_gpu_list *l, rx_gpu_recording *r, rlx_error *err)
{
    const char **kernels = rx_arena_array(&l->arena, l->n + 1, sizeof *kernels);
    if (!kernels)
        return rx_fail_memory(err, "names of kernels", l->n * sizeof *kernels);
    for (size_t i = 0; i < l->n; i++)
        kernels[l->items[i].number] = rx_gpu_dispatch_name(&l->items[i].dispatch);
    for (size_t i = 0; i < x->program->n_steps; i++)
        r->kernels[i] = name_step(x, l, kernels, i);
    return RLX_OK;
}

/* ---- Putting it together -------------------------------------------------------------------- */

static rlx_status record(rx_gpu_exec *x, rx_gpu_list *l, rx_gpu_recording *r, rlx_error *err)
{
    RLX_TRY(rx_gpu_stages_run(x, RX_GPU_CHAIN, l, err));
    RLX_TRY(name_steps(x, l, r, err));
    r->has_host = l->has_host;
    memcpy(r->computed_by, l->absorbed_by, x->program->n_steps * sizeof *r->computed_by);
    r->uses_flags = l->uses_flags;
    r->n_counters = l->n_counters;
    RLX_TRY(x->driver->record(x->exec, l, r, err));
    r->derived = l->derived;
    r->n_derived = l->n_derived;
    r->tables = l->tables;
    l->derived = NULL;
    l->tables = (rx_gpu_pool){0};
    return RLX_OK;
}

static rlx_status make_recording(rx_gpu_exec *x, rx_gpu_recording **out, rlx_error *err)
{
    rx_gpu_recording *r = new_recording(x);
    rx_gpu_list l;
    if (!r)
        return rx_fail_memory(err, "a recording", sizeof *r);
    rlx_status st = record(x, &l, r, err);
    if (st == RLX_OK)
        *out = r;
    else
        destroy_recording(x, r);
    rx_gpu_list_finish(&l);
    return st;
}

rlx_status rx_gpu_exec_print(rx_gpu_exec *x, const char *stage, char **text, rlx_error *err)
{
    int last = 0;
    rx_gpu_list l;
    *text = NULL;
    while (last < RX_GPU_N_STAGES && strcmp(rx_gpu_stage_names[last], stage))
        last++;
    if (last == RX_GPU_N_STAGES)
        return rx_fail(err, RLX_NOT_FOUND, "stage '%s': expected select, order or chain", stage);
    if (!x->now)
        return rx_fail(err, RLX_INTERNAL, "the program is not bound");
    rlx_status st = rx_gpu_stages_run(x, (rx_gpu_stage)last, &l, err);
    if (st == RLX_OK)
        st = rx_gpu_list_print(&l, (rx_gpu_stage)last, text, err);
    rx_gpu_list_finish(&l);
    return st;
}

static rlx_status bind(rx_gpu_exec *x, const int64_t *dims, rlx_error *err)
{
    bool found;
    x->now = NULL;
    RLX_TRY(rx_bound_update(&x->values.bound, dims, err));
    const size_t at = find_recording(x, dims, &found);
    rx_gpu_recording **r = &x->recordings[at];
    if (!found) {
        if (*r)
            wait_for_runs(x);
        destroy_recording(x, *r);
        *r = NULL;
        RLX_TRY(make_recording(x, r, err));
    }
    x->now = *r;
    x->now->used = ++x->n_binds;
    for (size_t i = 0; i < x->program->n_steps; i++)
        atomic_store_explicit(&x->kernels[i], x->now->kernels[i], memory_order_relaxed);
    return RLX_OK;
}

bool rx_gpu_exec_is_bound(const rx_gpu_exec *x, const int64_t *dims)
{
    return x->now && dims_equal(x, x->now->dims, dims);
}

rlx_status rx_gpu_exec_bind(rx_gpu_exec *x, const int64_t *dims, rlx_error *err)
{
    if (x->n_moves != x->weights->n_moves)
        rx_gpu_exec_forget(x);
    x->n_moves = x->weights->n_moves;
    return bind(x, dims, err);
}

rlx_status rx_gpu_exec_compile(rx_gpu_exec *x, const int64_t *dims, rlx_error *err)
{
    if (x->n_binds)
        return RLX_OK;
    const rlx_status st = rx_gpu_exec_bind(x, dims, err);
    rx_gpu_exec_forget(x);
    x->n_binds = 0;
    for (size_t i = 0; i < RX_GPU_N_SCRATCH; i++)
        rx_gpu_pool_destroy(x->memory, &x->scratch[i]);
    return st;
}

rlx_status rx_gpu_exec_begin(rx_gpu_exec *x, const rx_submit *s, rlx_error *err)
{
    if (!x->now)
        return rx_fail(err, RLX_INTERNAL, "the program is not bound");
    x->partial = s->n_steps < x->program->n_steps || s->timed;
    if (s->first_step == 0)
        x->has_flags = x->now->uses_flags;
    return RLX_OK;
}
