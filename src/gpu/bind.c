/* SPDX-License-Identifier: MIT */
/* Binding of dimensions: values become views, steps become dispatches with places in memory, and
 * the backend records them. The last few bindings are kept. */
#include <stdio.h>
#include <string.h>

#include "gpu/exec.h"

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
    rx_free(r->first);
    rx_free(r->kernels);
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
    r->first = rx_alloc_array_zero(p->n_steps + 1, sizeof *r->first);
    r->kernels = rx_alloc_array_zero(p->n_steps + 1, sizeof *r->kernels);
    if (!r->dims || !r->first || !r->kernels) {
        destroy_recording(x, r);
        return NULL;
    }
    memcpy(r->dims, x->values.dims, p->n_dims * sizeof *r->dims);
    r->single = x->single;
    return r;
}

static bool dims_equal(const rx_gpu_exec *x, const int64_t *a, const int64_t *b)
{
    return !x->program->n_dims || !memcmp(a, b, x->program->n_dims * sizeof *a);
}

/* Whether a recording does for x->single. One without folds does for both. */
static bool fits(const rx_gpu_exec *x, const rx_gpu_recording *r)
{
    return x->single ? !r->has_folds : !r->single;
}

/* The place of a recording with these dimensions, else an empty one, else the oldest. */
static size_t find_recording(const rx_gpu_exec *x, const int64_t *dims, bool *found)
{
    size_t oldest = 0;
    *found = false;
    for (size_t i = 0; i < RX_GPU_N_RECORDINGS; i++) {
        const rx_gpu_recording *r = x->recordings[i], *o = x->recordings[oldest];
        if (r && fits(x, r) && dims_equal(x, r->dims, dims)) {
            *found = true;
            return i;
        }
        if (o && (!r || r->used < o->used))
            oldest = i;
    }
    return oldest;
}

/* Waits until no run uses what is about to go, however the runs went. Where the queue keeps the
 * order there is no need to. */
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

/* ---- Bindings ------------------------------------------------------------------------------- */

typedef struct binder {
    rx_gpu_exec *x;
    rx_gpu_recording *r;
    rx_arena arena;      /* code of emitted kernels */
    rx_gpu_placed *list; /* r->n dispatches */
    size_t cap;
    rx_gpu_spot scratch; /* behind that of the last step */
    uint64_t scratch_bytes[RX_GPU_N_SCRATCH];
    uint32_t *fold, *tail; /* by step: rx_gpu_find_folds */
    rlx_error *err;
} binder;

/* A place in a block of scratch memory that is made when all steps are known. */
typedef struct piece {
    rx_gpu_spot at;
    uint64_t bytes;
} piece;

/* A step with its operands and what its lowering gave. */
typedef struct lowered {
    size_t step, at;         /* at: where it is done */
    rx_gpu_call call;
    rx_gpu_tail_room tail;   /* of the call, if it has one */
    rx_gpu_build build;
    piece *scratch;          /* those of the build, then results that nobody wants */
    rx_gpu_place *tables;
    rx_gpu_packed **derived;
} lowered;

static bool has_memory(const rx_gpu_exec *x, uint32_t value)
{
    return value != RX_NO_VALUE && rx_gpu_exec_place(x, value).block;
}

static void bind_place(rx_gpu_placed *d, uint32_t k, rx_gpu_place p)
{
    d->bind[k] = p;
    d->begin[k] = p.offset;
    d->end[k] = p.offset + p.bytes;
}

static void bind_piece(rx_gpu_placed *d, uint32_t k, const piece *p)
{
    bind_place(d, k, (rx_gpu_place){NULL, p->at.offset, p->bytes});
    d->scratch[k] = (uint8_t)(p->at.block + 1);
}

/* Binding k as the memory of a value; the touched bytes are those of its view. */
static rlx_status bind_value(const binder *b, rx_gpu_placed *d, uint32_t k, uint32_t value,
                             const rx_view *view)
{
    uint64_t begin, end;
    rx_gpu_place p = rx_gpu_exec_place(b->x, value);
    rx_gpu_extent(view, &begin, &end);
    if (begin == end) /* no elements: its place may be another tensor's */
        return RLX_OK;
    if (!p.block)
        return rx_fail(b->err, RLX_INTERNAL, "value %u of step %u has no memory", (unsigned)value,
                       (unsigned)d->step);
    d->bind[k] = p;
    d->begin[k] = p.offset + (begin & ~(uint64_t)3);
    d->end[k] = p.offset + ((end + 3) & ~(uint64_t)3);
    return RLX_OK;
}

/* An operand of the call's tail, or its result. */
static rlx_status resolve_tail(const binder *b, const lowered *l, rx_gpu_placed *d, uint32_t k)
{
    const rx_gpu_ref ref = d->dispatch.bind[k];
    const rx_step *steps = b->x->program->steps;
    if (ref == RX_REF_TAIL)
        return bind_value(b, d, k, steps[l->at].out[0], l->tail.tail.out);
    const bool writes = ref >= RX_REF_WRITE;
    const uint32_t i = ref - (writes ? RX_REF_WRITE : RX_REF_ROPE);
    const rx_step *s = &steps[writes ? l->tail.write_step : l->tail.rope_step];
    return bind_value(b, d, k, s->in[i], writes ? &l->tail.write_in[i] : &l->tail.rope_in[i]);
}

static rlx_status resolve_binding(const binder *b, const lowered *l, rx_gpu_placed *d, uint32_t k)
{
    const rx_gpu_ref ref = d->dispatch.bind[k];
    const rx_program *p = b->x->program;
    const rx_step *s = &p->steps[l->step];
    const uint32_t out = ref - RX_REF_OUT(0), operand = ref - RX_REF_FOLD;
    if (ref < RX_REF_OUT(0) && ref < s->n_in && s->in[ref] != RX_NO_VALUE)
        return bind_value(b, d, k, s->in[ref], &l->call.in[ref]);
    if (ref >= RX_REF_OUT(0) && ref < RX_REF_SCRATCH && out < s->n_out &&
        has_memory(b->x, s->out[out]))
        return bind_value(b, d, k, s->out[out], &l->call.out[out]);
    if (ref >= RX_REF_FOLD && operand < RX_FOLD_OPERANDS && l->call.fold)
        return bind_value(b, d, k, p->steps[b->fold[l->step]].in[operand],
                          &l->call.fold->in[operand]);
    if (ref >= RX_REF_ROPE && ref <= RX_REF_TAIL && l->call.tail)
        return resolve_tail(b, l, d, k);
    if (ref >= RX_REF_OUT(0) && ref < RX_REF_SCRATCH && out < s->n_out)
        bind_piece(d, k, &l->scratch[l->build.n_scratch + out]);
    else if (ref >= RX_REF_SCRATCH && ref - RX_REF_SCRATCH < l->build.n_scratch)
        bind_piece(d, k, &l->scratch[ref - RX_REF_SCRATCH]);
    else if (ref >= RX_REF_TABLE && ref - RX_REF_TABLE < l->build.n_tables)
        bind_place(d, k, l->tables[ref - RX_REF_TABLE]);
    else if (ref >= RX_REF_DERIVED && ref - RX_REF_DERIVED < l->build.n_derived)
        bind_place(d, k, l->derived[ref - RX_REF_DERIVED]->place);
    else if (ref == RX_REF_FLAGS) {
        d->bind[k] = b->x->flags; /* touches nothing: it is only added to, atomically */
        b->r->uses_flags = true;
    } else if (ref != RX_REF_NONE)
        return rx_fail(b->err, RLX_INTERNAL, "step %zu, %s: binding %u refers to nothing (0x%x)",
                       l->step, rx_ops[s->op].name, (unsigned)k, (unsigned)ref);
    return RLX_OK;
}

/* Narrows binding k to its window. */
static void bind_window(const rx_gpu_exec *x, rx_gpu_placed *d, uint32_t k)
{
    const rx_gpu_window w = d->dispatch.window[k];
    const uint64_t most = x->caps->max_binding_bytes & ~(uint64_t)15;
    rx_gpu_place *p = &d->bind[k];
    if (!p->bytes) /* nothing is bound */
        return;
    if (w.bytes)
        bind_place(d, k, (rx_gpu_place){p->block, p->offset + w.at, w.bytes});
    p->bytes = p->bytes < most ? p->bytes : most;
}

static rlx_status add_dispatch(binder *b, const lowered *l, const rx_gpu_dispatch *from)
{
    rx_gpu_recording *r = b->r;
    if (!from->groups[0] || !from->groups[1] || !from->groups[2])
        return RLX_OK;
    RLX_TRY(rx_gpu_dispatch_check(from, b->x->caps, l->step, b->err));
    if (!rx_grow(&b->list, &b->cap, r->n + 1, sizeof *b->list))
        return rx_fail_memory(b->err, "the dispatches of a program", r->n * sizeof *b->list);
    rx_gpu_placed *d = &b->list[r->n];
    *d = (rx_gpu_placed){.dispatch = *from, .step = (uint32_t)l->step};
    for (uint32_t k = 0; k < from->n_bind; k++) {
        RLX_TRY(resolve_binding(b, l, d, k));
        bind_window(b->x, d, k);
    }
    r->n++;
    return RLX_OK;
}

/* ---- Scratch memory ------------------------------------------------------------------------- */

/* Where the scratch of a step begins. Software devices run one dispatch after another: they take
 * the same memory again, which the caches have. */
static rx_gpu_spot begin_scratch(const binder *b, const lowered *l)
{
    const uint64_t most = b->x->memory->max_block_bytes, ring = b->x->driver->scratch_ring;
    uint64_t end = b->scratch.offset;
    for (size_t i = 0; i < l->build.n_scratch; i++)
        end += rx_gpu_room(l->build.scratch[i]);
    const bool wraps = end > (ring < most ? ring : most) || b->scratch.block ||
                       b->x->caps->is_software;
    return wraps ? (rx_gpu_spot){0} : b->scratch;
}

/* A piece goes into the next block where it does not fit into this one. */
static rlx_status take_scratch(binder *b, uint64_t bytes, piece *out)
{
    const uint64_t most = b->x->memory->max_block_bytes, room = rx_gpu_room(bytes);
    rx_gpu_spot *at = &b->scratch;
    if (at->offset && at->offset + room > most)
        *at = (rx_gpu_spot){at->block + 1, 0};
    if (at->block >= RX_GPU_N_SCRATCH)
        return rx_fail(b->err, RLX_NO_MEMORY, "scratch of kernels: a piece of %llu bytes does not "
                       "fit into %d blocks of %llu bytes", (unsigned long long)bytes,
                       RX_GPU_N_SCRATCH, (unsigned long long)most);
    *out = (piece){*at, bytes};
    at->offset += room;
    if (at->offset > b->scratch_bytes[at->block])
        b->scratch_bytes[at->block] = at->offset;
    return RLX_OK;
}

/* Scratch pieces of a step lie one after another. Results that nobody wants are written there too.
 * */
static rlx_status place_scratch(binder *b, lowered *l)
{
    const rx_step *s = &b->x->program->steps[l->step];
    const size_t n_own = l->build.n_scratch;
    l->scratch = rx_arena_array_zero(&b->arena, n_own + s->n_out + 1, sizeof *l->scratch);
    if (!l->scratch)
        return rx_fail_memory(b->err, "scratch of a step", (n_own + 1) * sizeof *l->scratch);
    b->scratch = begin_scratch(b, l);
    for (size_t i = 0; i < n_own; i++)
        RLX_TRY(take_scratch(b, l->build.scratch[i] ? l->build.scratch[i] : 16, &l->scratch[i]));
    for (size_t i = 0; i < s->n_out; i++) {
        uint64_t begin, bytes = 0;
        if (has_memory(b->x, s->out[i]))
            continue;
        if (l->call.out[i].rank >= 0)
            rx_gpu_extent(&l->call.out[i], &begin, &bytes);
        RLX_TRY(take_scratch(b, bytes ? bytes : 16, &l->scratch[n_own + i]));
    }
    return RLX_OK;
}

/* Other recordings are bound to the old blocks, so they end with them. */
static rlx_status grow_scratch(binder *b)
{
    rx_gpu_exec *x = b->x;
    for (size_t i = 0; i < RX_GPU_N_SCRATCH; i++) {
        const uint64_t bytes = b->scratch_bytes[i];
        rx_gpu_place all;
        if (bytes <= x->scratch[i].total)
            continue;
        rx_gpu_exec_forget(x);
        rx_gpu_pool_destroy(x->memory, &x->scratch[i]);
        RLX_TRY(rx_gpu_pool_add(x->memory, &x->scratch[i], bytes, bytes, "scratch of kernels",
                                &all, b->err));
    }
    for (size_t i = 0; i < b->r->n; i++)
        for (uint32_t k = 0; k < b->list[i].dispatch.n_bind; k++)
            if (b->list[i].scratch[k])
                b->list[i].bind[k].block = x->scratch[b->list[i].scratch[k] - 1].blocks[0];
    return RLX_OK;
}

/* ---- Steps to dispatches -------------------------------------------------------------------- */

/* Blocks for tables have at least this size. */
#define TABLE_BLOCK ((uint64_t)64 << 10)

static rlx_status upload_tables(binder *b, lowered *l)
{
    const rx_gpu_memory *m = b->x->memory;
    l->tables = rx_arena_array(&b->arena, l->build.n_tables + 1, sizeof *l->tables);
    if (!l->tables)
        return rx_fail_memory(b->err, "constants of a step", sizeof *l->tables);
    for (size_t i = 0; i < l->build.n_tables; i++) {
        const rx_gpu_table *t = &l->build.tables[i];
        RLX_TRY(rx_gpu_pool_add(m, &b->r->tables, t->bytes, TABLE_BLOCK, "constants of kernels",
                                &l->tables[i], b->err));
        RLX_TRY(m->upload(m->device, &l->tables[i], 0, t->data, t->bytes, b->err));
    }
    return RLX_OK;
}

static rlx_status find_derived(binder *b, lowered *l)
{
    rx_gpu_exec *x = b->x;
    rx_gpu_recording *r = b->r;
    const rx_program *p = x->program;
    l->derived = rx_arena_array(&b->arena, l->build.n_derived + 1, sizeof *l->derived);
    if (!l->derived || !rx_grow(&r->derived, &r->cap_derived, r->n_derived + l->build.n_derived,
                                sizeof *r->derived))
        return rx_fail_memory(b->err, "packed weights", sizeof *l->derived);
    for (size_t i = 0; i < l->build.n_derived; i++) {
        const rx_gpu_derived *want = &l->build.derived[i];
        const bool paired = want->in >= RX_PAIR_IN(0);
        const uint32_t in = paired ? want->in - RX_PAIR_IN(0) : want->in;
        const rx_step *s = &p->steps[paired ? l->tail.pair_step : l->step];
        const rx_view *view = paired ? &l->tail.pair_in[in] : &l->call.in[in];
        const rx_pvalue *v = &p->values[x->values.roots[s->in[in]]];
        uint32_t item = v->index + (v->space == RX_SPACE_CONSTANT ? (uint32_t)p->n_params : 0);
        RLX_TRY(rx_gpu_weights_pack(x->weights, item, view, want, &l->derived[i], b->err));
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
    RLX_TRY(rx_gpu_lower(&l->build, &l->call));
    RLX_TRY(place_scratch(b, l));
    RLX_TRY(upload_tables(b, l));
    RLX_TRY(find_derived(b, l));
    for (size_t i = 0; i < l->build.n; i++)
        RLX_TRY(add_dispatch(b, l, &l->build.dispatch[i]));
    return RLX_OK;
}

/* Step i, done at the place of step `at`. */
static rlx_status lower_step(binder *b, size_t i, size_t at)
{
    rx_gpu_exec *x = b->x;
    lowered l = {.step = i, .at = at, .call = rx_gpu_values_call(&x->values, i, x->caps),
                 .build = {.arena = &b->arena, .err = b->err}};
    rx_view folded[RX_FOLD_OPERANDS];
    rx_gpu_fold fold;
    if (b->fold[i] != RX_GPU_NO_FOLD) {
        fold = rx_gpu_fold_of(&x->values, b->fold[i], folded);
        l.call.fold = &fold;
    }
    if (at != i)
        l.call.tail = rx_gpu_tail_of(&x->values, b->fold, (uint32_t)i, (uint32_t)at,
                                     &l.tail);
    rlx_status st = resolve_step(b, &l);
    rx_gpu_build_finish(&l.build);
    return st;
}

static void find_folds(const binder *b)
{
    rx_gpu_exec *x = b->x;
    const rx_gpu_folds folds = {&x->values, x->caps, x->weights, x->places};
    if (!x->single) {
        rx_gpu_find_folds(&folds, b->fold, b->tail);
        return;
    }
    for (size_t i = 0; i < x->program->n_steps; i++)
        b->fold[i] = b->tail[i] = RX_GPU_NO_FOLD;
}

static rlx_status lower_steps(binder *b)
{
    const rx_program *p = b->x->program;
    rx_gpu_recording *r = b->r;
    find_folds(b);
    for (size_t i = 0; i < p->n_steps; i++) {
        r->first[i] = r->n;
        if (p->steps[i].support == RLX_SUPPORT_HOST) {
            r->has_host = true;
            r->kernels[i] = "reference on the host";
        } else if (b->fold[i] == i || (b->tail[i] != RX_GPU_NO_FOLD && b->tail[i] > i)) {
            r->has_folds = true;
            r->kernels[i] = "part of what follows";
        } else {
            r->kernels[i] = "nothing to do";
            RLX_TRY(lower_step(b, b->tail[i] != RX_GPU_NO_FOLD ? b->tail[i] : i, i));
        }
    }
    r->first[p->n_steps] = r->n;
    return RLX_OK;
}

/* ---- Names ---------------------------------------------------------------------------------- */

#define MAX_NAME 160

struct rx_gpu_names {
    const struct rx_gpu_names *next;
    char text[MAX_NAME];
};

/* The same text with a lifetime as long as the program's; NULL: out of memory. */
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

/* The kernels of n > 0 dispatches, "split + join": those that follow another one of the same name
 * are not told. */
static const char *name_dispatches(rx_gpu_exec *x, const rx_gpu_placed *list, size_t n)
{
    const char *last = rx_gpu_dispatch_name(&list[0].dispatch), *only = last;
    char text[MAX_NAME];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", last);
    for (size_t i = 1; i < n; i++) {
        const char *name = rx_gpu_dispatch_name(&list[i].dispatch);
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

/* After the backend has recorded the dispatches: it may have taken other forms of kernels. */
static void name_steps(binder *b)
{
    rx_gpu_recording *r = b->r;
    for (size_t i = 0; i < b->x->program->n_steps; i++)
        if (r->first[i] < r->first[i + 1])
            r->kernels[i] = name_dispatches(b->x, b->list + r->first[i],
                                            r->first[i + 1] - r->first[i]);
}

/* ---- Putting it together -------------------------------------------------------------------- */

static rlx_status build_recording(binder *b)
{
    rx_gpu_exec *x = b->x;
    b->fold = rx_arena_array(&b->arena, x->program->n_steps + 1, sizeof *b->fold);
    b->tail = rx_arena_array(&b->arena, x->program->n_steps + 1, sizeof *b->tail);
    if (!b->fold || !b->tail)
        return rx_fail_memory(b->err, "the steps of a recording", sizeof *b->fold);
    rx_mutex_lock(&x->weights->lock);
    rlx_status st = lower_steps(b);
    rx_mutex_unlock(&x->weights->lock);
    RLX_TRY(st);
    RLX_TRY(grow_scratch(b));
    RLX_TRY(x->driver->record(x->exec, b->list, b->r, b->err));
    name_steps(b);
    return RLX_OK;
}

static rlx_status make_recording(rx_gpu_exec *x, rx_gpu_recording **out, rlx_error *err)
{
    binder b = {.x = x, .r = new_recording(x), .err = err};
    if (!b.r)
        return rx_fail_memory(err, "a recording", sizeof *b.r);
    rlx_status st = build_recording(&b);
    rx_free(b.list);
    rx_arena_finish(&b.arena);
    if (st == RLX_OK)
        *out = b.r;
    else
        destroy_recording(x, b.r);
    return st;
}

static rlx_status bind(rx_gpu_exec *x, const int64_t *dims, rlx_error *err)
{
    bool found;
    x->now = NULL;
    RLX_TRY(rx_gpu_values_update(&x->values, dims, err));
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
    x->single = false;
    return bind(x, dims, err);
}

rlx_status rx_gpu_exec_bind_single(rx_gpu_exec *x, rlx_error *err)
{
    x->single = true;
    return !x->now || fits(x, x->now) ? RLX_OK : bind(x, x->values.dims, err);
}
