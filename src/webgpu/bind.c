/* SPDX-License-Identifier: MIT */
/* Binding of dimensions: steps become dispatches with places in memory, their pipelines and bind
 * groups are made. The last few bindings are kept. */
#include <string.h>

#include "webgpu/device.h"

/* ---- Recordings ----------------------------------------------------------------------------- */

void rx_wg_recording_destroy(rx_exec *e, rx_wg_recording *r)
{
    rx_device *d = e->device;
    if (!r)
        return;
    rx_wg_groups_release(d, r->list, r->n);
    rx_wg_pipelines_release(d, r->list, r->n);
    rx_wg_block_destroy(d, &r->constants);
    rx_gpu_pool_destroy(&d->memory, &r->tables);
    rx_free(r->dims);
    rx_free(r->list);
    rx_free(r->first);
    rx_free(r->derived);
    rx_free(r->kernels);
    rx_free(r);
}

static rx_wg_recording *new_recording(const rx_exec *e)
{
    const rx_program *p = e->program;
    rx_wg_recording *r = rx_alloc_zero(sizeof *r);
    if (!r)
        return NULL;
    r->dims = rx_alloc((p->n_dims + 1) * sizeof *r->dims);
    r->first = rx_alloc_zero((p->n_steps + 1) * sizeof *r->first);
    r->kernels = rx_alloc_zero((p->n_steps + 1) * sizeof *r->kernels);
    if (r->dims && r->first && r->kernels) {
        memcpy(r->dims, e->values.dims, p->n_dims * sizeof *r->dims);
        return r;
    }
    rx_free(r->dims);
    rx_free(r->first);
    rx_free(r->kernels);
    rx_free(r);
    return NULL;
}

/* The place of a recording with these dimensions, else an empty one, else the oldest. */
static size_t find_recording(const rx_exec *e, const int64_t *dims, bool *found)
{
    size_t oldest = 0;
    *found = false;
    for (size_t i = 0; i < RX_WG_N_RECORDINGS; i++) {
        const rx_wg_recording *r = e->recordings[i];
        if (r && (!e->program->n_dims ||
                  !memcmp(r->dims, dims, e->program->n_dims * sizeof *dims))) {
            *found = true;
            return i;
        }
        const rx_wg_recording *o = e->recordings[oldest];
        if (o && (!r || r->used < o->used))
            oldest = i;
    }
    return oldest;
}

/* ---- Bindings ------------------------------------------------------------------------------- */

typedef struct binder {
    rx_exec *e;
    rx_wg_recording *r;
    rx_arena arena;       /* code of emitted kernels */
    rx_gpu_dispatch *raw; /* of r->list, for their pipelines */
    size_t cap_raw;
    uint64_t scratch_bytes[RX_WG_N_SCRATCH];
    uint32_t *fold;       /* rx_gpu_find_folds */
    rlx_error *err;
} binder;

/* A step with its operands and what its lowering gave. */
typedef struct lowered {
    size_t step;
    rx_gpu_call call;
    rx_gpu_build build;
    rx_gpu_place *scratch, *tables;
    rx_gpu_packed **derived;
} lowered;

static bool has_memory(const rx_exec *e, uint32_t value)
{
    return value != RX_NO_VALUE && rx_wg_value_place(e, value).block;
}

/* Something harmless: each binding has its own, so that they do not overlap. */
static rx_gpu_place nothing(const rx_exec *e, uint32_t k)
{
    return (rx_gpu_place){&e->device->nothing, (uint64_t)k * RX_GPU_ALIGN, 16};
}

/* Narrows a binding to a window of it. */
static void bind_window(const binder *b, rx_gpu_place *p, rx_gpu_window w)
{
    const uint64_t most = b->e->device->caps.max_binding_bytes & ~(uint64_t)15;
    if (w.bytes) {
        p->offset += w.at;
        p->bytes = w.bytes;
    }
    p->bytes = p->bytes < most ? p->bytes : most;
}

/* Binding k of dispatch x as the memory of a value. */
static rlx_status bind_value(binder *b, rx_wg_dispatch *x, uint32_t k, uint32_t value,
                             const rx_view *view)
{
    rx_exec *e = b->e;
    uint64_t begin, end;
    rx_gpu_place p = rx_wg_value_place(e, value);
    rx_gpu_extent(view, &begin, &end);
    if (begin == end) { /* no elements: its place may be another tensor's */
        x->bind[k] = nothing(e, k);
        return RLX_OK;
    }
    if (!p.block)
        return rx_fail(b->err, RLX_INTERNAL, "value %u of step %u has no memory", (unsigned)value,
                       (unsigned)x->step);
    x->bind[k] = p;
    return RLX_OK;
}

static rlx_status resolve_binding(binder *b, const lowered *l, rx_wg_dispatch *x, uint32_t k,
                                  rx_gpu_ref ref)
{
    rx_exec *e = b->e;
    const rx_step *s = &e->program->steps[l->step];
    uint32_t out = ref - RX_REF_OUT(0);
    if (ref < RX_REF_OUT(0) && ref < s->n_in && s->in[ref] != RX_NO_VALUE)
        return bind_value(b, x, k, s->in[ref], &l->call.in[ref]);
    if (ref >= RX_REF_OUT(0) && ref < RX_REF_SCRATCH && out < s->n_out) {
        if (has_memory(e, s->out[out]))
            return bind_value(b, x, k, s->out[out], &l->call.out[out]);
        x->bind[k] = l->scratch[l->build.n_scratch + out];
        return RLX_OK;
    }
    if (ref >= RX_REF_FOLD && ref - RX_REF_FOLD < RX_FOLD_OPERANDS && l->call.fold) {
        const uint32_t i = ref - RX_REF_FOLD;
        return bind_value(b, x, k, e->program->steps[b->fold[l->step]].in[i],
                          &l->call.fold->in[i]);
    }
    if (ref == RX_REF_NONE)
        x->bind[k] = nothing(e, k);
    else if (ref == RX_REF_FLAGS) {
        x->bind[k] = e->flags;
        b->r->uses_flags = true;
    } else if (ref >= RX_REF_TABLE && ref - RX_REF_TABLE < l->build.n_tables)
        x->bind[k] = l->tables[ref - RX_REF_TABLE];
    else if (ref >= RX_REF_SCRATCH && ref - RX_REF_SCRATCH < l->build.n_scratch)
        x->bind[k] = l->scratch[ref - RX_REF_SCRATCH];
    else if (ref >= RX_REF_DERIVED && ref - RX_REF_DERIVED < l->build.n_derived)
        x->bind[k] = l->derived[ref - RX_REF_DERIVED]->place;
    else
        return rx_fail(b->err, RLX_INTERNAL, "step %zu, %s: binding %u refers to nothing (0x%x)",
                       l->step, rx_ops[s->op].name, (unsigned)k, (unsigned)ref);
    return RLX_OK;
}

static rlx_status add_dispatch(binder *b, const lowered *l, const rx_gpu_dispatch *from)
{
    rx_wg_recording *r = b->r;
    if (!from->groups[0] || !from->groups[1] || !from->groups[2])
        return RLX_OK;
    RLX_TRY(rx_gpu_dispatch_check(from, &b->e->device->caps, l->step, b->err));
    if (!rx_grow(&r->list, &r->cap, r->n + 1, sizeof *r->list) ||
        !rx_grow(&b->raw, &b->cap_raw, r->n + 1, sizeof *b->raw))
        return rx_fail_memory(b->err, "the dispatches of a program", r->n * sizeof *r->list);
    b->raw[r->n] = *from;
    rx_wg_dispatch *x = &r->list[r->n];
    *x = (rx_wg_dispatch){.n_bind = from->n_bind, .n_push = from->n_push,
                          .step = (uint32_t)l->step};
    memcpy(x->push, from->push, sizeof x->push);
    memcpy(x->groups, from->groups, sizeof x->groups);
    for (uint32_t k = 0; k < from->n_bind; k++) {
        RLX_TRY(resolve_binding(b, l, x, k, from->bind[k]));
        bind_window(b, &x->bind[k], from->window[k]);
    }
    RLX_TRY(rx_wg_settle_bindings(b->e->device, x, b->err));
    r->n++;
    return RLX_OK;
}

/* ---- Steps to dispatches -------------------------------------------------------------------- */

/* The next free place of the scratch blocks; *at counts through all of them. */
static rlx_status take_scratch(binder *b, uint64_t bytes, uint64_t *at, rx_gpu_place *out)
{
    const uint64_t most = b->e->device->gpu.max_block_bytes;
    const uint64_t room = (bytes + RX_GPU_ALIGN - 1) / RX_GPU_ALIGN * RX_GPU_ALIGN;
    if (*at % most + room > most && *at % most)
        *at += most - *at % most;
    const uint64_t block = *at / most;
    if (block >= RX_WG_N_SCRATCH || room > most)
        return rx_fail(b->err, RLX_NO_MEMORY, "scratch of kernels: %llu bytes more are needed than "
                       "%d buffers of %s have", (unsigned long long)bytes, RX_WG_N_SCRATCH,
                       b->e->device->gpu.info.name);
    *out = (rx_gpu_place){&b->e->scratch[block], *at % most, bytes};
    *at += room;
    if (out->offset + room > b->scratch_bytes[block])
        b->scratch_bytes[block] = out->offset + room;
    return RLX_OK;
}

/* Scratch pieces of a step lie one after another from the start of the scratch blocks. Results that
 * nobody wants are written there too. */
static rlx_status place_scratch(binder *b, lowered *l)
{
    const rx_step *s = &b->e->program->steps[l->step];
    size_t n = l->build.n_scratch + s->n_out;
    uint64_t at = 0;
    l->scratch = rx_arena_zero(&b->arena, (n + 1) * sizeof *l->scratch);
    if (!l->scratch)
        return rx_fail_memory(b->err, "scratch of a step", sizeof *l->scratch);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin, bytes = 0;
        if (i < l->build.n_scratch)
            bytes = l->build.scratch[i];
        else if (has_memory(b->e, s->out[i - l->build.n_scratch]))
            continue;
        else if (l->call.out[i - l->build.n_scratch].rank >= 0)
            rx_gpu_extent(&l->call.out[i - l->build.n_scratch], &begin, &bytes);
        RLX_TRY(take_scratch(b, bytes ? bytes : 16, &at, &l->scratch[i]));
    }
    return RLX_OK;
}

/* Blocks for tables have at least this size. */
#define TABLE_BLOCK ((uint64_t)64 << 10)

static rlx_status upload_tables(binder *b, lowered *l)
{
    rx_device *d = b->e->device;
    l->tables = rx_arena_alloc(&b->arena, (l->build.n_tables + 1) * sizeof *l->tables);
    if (!l->tables)
        return rx_fail_memory(b->err, "constants of a step", sizeof *l->tables);
    for (size_t i = 0; i < l->build.n_tables; i++) {
        const rx_gpu_table *t = &l->build.tables[i];
        RLX_TRY(rx_gpu_pool_add(&d->memory, &b->r->tables, t->bytes, TABLE_BLOCK,
                                "constants of kernels", &l->tables[i], b->err));
        RLX_TRY(rx_wg_upload(d, &l->tables[i], 0, t->data, t->bytes, b->err));
    }
    return RLX_OK;
}

static rlx_status find_derived(binder *b, lowered *l)
{
    rx_exec *e = b->e;
    rx_wg_recording *r = b->r;
    const rx_program *p = e->program;
    l->derived = rx_arena_alloc(&b->arena, (l->build.n_derived + 1) * sizeof *l->derived);
    if (!l->derived || !rx_grow(&r->derived, &r->cap_derived, r->n_derived + l->build.n_derived,
                                sizeof *r->derived))
        return rx_fail_memory(b->err, "packed weights", sizeof *l->derived);
    for (size_t i = 0; i < l->build.n_derived; i++) {
        const rx_gpu_derived *want = &l->build.derived[i];
        const rx_pvalue *v = &p->values[e->values.roots[p->steps[l->step].in[want->in]]];
        uint32_t item = v->index + (v->space == RX_SPACE_CONSTANT ? (uint32_t)p->n_params : 0);
        RLX_TRY(rx_gpu_weights_pack(e->weights, item, &l->call.in[want->in], want, &l->derived[i],
                                    b->err));
        bool known = false;
        for (size_t k = 0; k < r->n_derived && !known; k++)
            known = r->derived[k] == l->derived[i];
        if (!known)
            r->derived[r->n_derived++] = l->derived[i];
    }
    return RLX_OK;
}

static rlx_status resolve_step(binder *b, lowered *l)
{
    RLX_TRY(place_scratch(b, l));
    RLX_TRY(upload_tables(b, l));
    RLX_TRY(find_derived(b, l));
    for (size_t i = 0; i < l->build.n; i++)
        RLX_TRY(add_dispatch(b, l, &l->build.dispatch[i]));
    return RLX_OK;
}

static rlx_status lower_step(binder *b, size_t i)
{
    lowered l = {.step = i, .call = rx_gpu_values_call(&b->e->values, i, &b->e->device->caps),
                 .build = {.arena = &b->arena, .err = b->err}};
    rx_view folded[RX_FOLD_OPERANDS];
    rx_gpu_fold fold;
    if (b->fold[i] != RX_GPU_NO_FOLD) {
        fold = rx_gpu_fold_of(&b->e->values, b->fold[i], folded);
        l.call.fold = &fold;
    }
    rlx_status st = rx_gpu_lower(&l.build, &l.call);
    if (st == RLX_OK)
        st = resolve_step(b, &l);
    if (st == RLX_OK && l.build.n)
        b->r->kernels[i] = rx_gpu_dispatch_name(&l.build.dispatch[0]);
    rx_gpu_build_finish(&l.build);
    return st;
}

static void find_folds(const binder *b)
{
    rx_exec *e = b->e;
    if (e->no_folds)
        for (size_t i = 0; i < e->program->n_steps; i++)
            b->fold[i] = RX_GPU_NO_FOLD;
    else
        rx_gpu_find_folds(&(rx_gpu_folds){&e->values, &e->device->caps, e->weights, e->places},
                          b->fold);
}

static rlx_status lower_steps(binder *b)
{
    const rx_program *p = b->e->program;
    find_folds(b);
    for (size_t i = 0; i < p->n_steps; i++) {
        b->r->first[i] = b->r->n;
        b->r->kernels[i] = "nothing to do";
        if (b->fold[i] == i) {
            b->r->kernels[i] = "part of what follows";
            b->r->has_folds = true;
            continue;
        }
        RLX_TRY(lower_step(b, i));
    }
    b->r->first[p->n_steps] = b->r->n;
    return RLX_OK;
}

/* ---- Putting it together -------------------------------------------------------------------- */

/* Other recordings are bound to the old scratch blocks, so they end with them. */
static rlx_status grow_scratch(binder *b)
{
    rx_exec *e = b->e;
    for (size_t k = 0; k < RX_WG_N_SCRATCH; k++) {
        if (b->scratch_bytes[k] <= e->scratch[k].bytes)
            continue;
        for (size_t i = 0; i < RX_WG_N_RECORDINGS; i++) {
            rx_wg_recording_destroy(e, e->recordings[i]);
            e->recordings[i] = NULL;
        }
        rx_wg_block_destroy(e->device, &e->scratch[k]);
        RLX_TRY(rx_wg_block_create(e->device, RX_WG_KERNEL, b->scratch_bytes[k],
                                   "scratch of kernels", &e->scratch[k], b->err));
    }
    return RLX_OK;
}

static rlx_status build_recording(binder *b)
{
    rx_exec *e = b->e;
    b->fold = rx_arena_alloc(&b->arena, (e->program->n_steps + 1) * sizeof *b->fold);
    if (!b->fold)
        return rx_fail_memory(b->err, "the steps of a recording", sizeof *b->fold);
    rx_mutex_lock(&e->weights->lock);
    rlx_status st = lower_steps(b);
    rx_mutex_unlock(&e->weights->lock);
    RLX_TRY(st);
    RLX_TRY(rx_wg_pipelines_get(e->device, b->raw, b->r->n, b->r->list, b->err));
    RLX_TRY(grow_scratch(b));
    return rx_wg_groups_create(e->device, b->r->list, b->r->n, &b->r->constants, b->err);
}

static rlx_status make_recording(rx_exec *e, rx_wg_recording **out, rlx_error *err)
{
    binder b = {.e = e, .r = new_recording(e), .err = err};
    if (!b.r)
        return rx_fail_memory(err, "a recording", sizeof *b.r);
    rlx_status st = build_recording(&b);
    rx_free(b.raw);
    rx_arena_finish(&b.arena);
    if (st != RLX_OK) {
        rx_wg_recording_destroy(e, b.r);
        return st;
    }
    rx_log(RLX_LOG_DEBUG, "webgpu: %zu steps are %zu dispatches", e->program->n_steps, b.r->n);
    *out = b.r;
    return RLX_OK;
}

rlx_status rx_wg_unfold(rx_exec *e, rlx_error *err)
{
    if (!e->now || !e->now->has_folds)
        return RLX_OK;
    for (size_t i = 0; i < RX_WG_N_RECORDINGS; i++) {
        rx_wg_recording_destroy(e, e->recordings[i]);
        e->recordings[i] = NULL;
    }
    e->no_folds = true;
    return rx_wg_exec_bind(e, e->values.dims, err);
}

rlx_status rx_wg_exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    const rx_program *p = e->program;
    bool found;
    e->now = NULL;
    RLX_TRY(rx_gpu_values_update(&e->values, dims, err));
    size_t at = find_recording(e, dims, &found);
    if (!found) {
        rx_wg_recording *r = NULL;
        rx_wg_recording_destroy(e, e->recordings[at]);
        e->recordings[at] = NULL;
        RLX_TRY(make_recording(e, &r, err));
        e->recordings[at] = r;
    }
    e->now = e->recordings[at];
    e->now->used = ++e->n_binds;
    for (size_t i = 0; i < p->n_steps; i++)
        atomic_store_explicit(&e->kernels[i], e->now->kernels[i], memory_order_relaxed);
    rx_wg_want_outputs(e);
    return RLX_OK;
}
