/* SPDX-License-Identifier: MIT */
/* select: steps at bound sizes to dispatches. A lowering function chooses the kernels, constants
 * and grids of a step; here each of its bindings is resolved to a byte range: of a value, scratch
 * memory, a packed weight, or a table. Absorbed steps have no dispatches. */
#include "gpu/stages.h"

typedef struct selector {
    rx_gpu_exec *x;
    rx_gpu_list *l;
    rx_gpu_spot scratch;   /* after that of the last step */
    uint32_t *prologue, *epilogue; /* by step: rx_gpu_choose_merges */
    rlx_error *err;
} selector;

/* A range in a block of scratch memory, which is allocated when all steps are known. */
typedef struct piece {
    rx_gpu_spot at;
    uint64_t bytes;
} piece;

/* A step with its operands and what its lowering returned. */
typedef struct lowered {
    size_t step, at;         /* at: the step in whose position it runs */
    rx_gpu_call call;
    rx_gpu_epilogue_room epilogue; /* of the call, if it has one */
    rx_gpu_build build;
    piece *scratch;          /* those of the build, then unused results */
    rx_gpu_place *tables;
    rx_gpu_packed **derived;
} lowered;

/* ---- Bindings ------------------------------------------------------------------------------- */

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

/* Binds value `value` as binding k; the bytes accessed are those of its view. */
static rlx_status bind_value(const selector *s, rx_gpu_placed *d, uint32_t k, uint32_t value,
                             const rx_view *view)
{
    uint64_t begin, end;
    rx_gpu_place p = rx_gpu_exec_place(s->x, value);
    rx_gpu_extent(view, &begin, &end);
    if (begin == end) /* no elements: its place may overlap another tensor */
        return RLX_OK;
    if (!p.block)
        return rx_fail(s->err, RLX_INTERNAL, "value %u of step %u has no memory", (unsigned)value,
                       (unsigned)d->lowered);
    d->bind[k] = p;
    d->value[k] = value;
    d->begin[k] = p.offset + (begin & ~(uint64_t)3);
    d->end[k] = p.offset + ((end + 3) & ~(uint64_t)3);
    return RLX_OK;
}

/* An operand of the call's epilogue, or its result. */
static rlx_status resolve_epilogue(const selector *s, const lowered *l, rx_gpu_placed *d,
                                   uint32_t k)
{
    const rx_gpu_ref ref = d->dispatch.bind[k];
    const rx_step *steps = s->x->program->steps;
    if (ref == RX_REF_EPILOGUE)
        return bind_value(s, d, k, steps[l->at].out[0], l->epilogue.epilogue.out);
    const bool writes = ref >= RX_REF_WRITE;
    const uint32_t i = ref - (writes ? RX_REF_WRITE : RX_REF_ROPE);
    const rx_step *step = &steps[writes ? l->epilogue.write_step : l->epilogue.rope_step];
    return bind_value(s, d, k, step->in[i],
                      writes ? &l->epilogue.write_in[i] : &l->epilogue.rope_in[i]);
}

/* The weight that derived form i is packed from: the value and its view. */
static uint32_t derived_value(const selector *s, const lowered *l, size_t i, const rx_view **view)
{
    const rx_gpu_derived *want = &l->build.derived[i];
    const bool paired = want->in >= RX_PAIR_IN(0);
    const uint32_t in = paired ? want->in - RX_PAIR_IN(0) : want->in;
    *view = paired ? &l->epilogue.pair_in[in] : &l->call.in[in];
    return s->x->program->steps[paired ? l->epilogue.pair_step : l->step].in[in];
}

static rlx_status bind_derived(const selector *s, const lowered *l, rx_gpu_placed *d, uint32_t k)
{
    const rx_view *view;
    const size_t i = d->dispatch.bind[k] - RX_REF_DERIVED;
    bind_place(d, k, l->derived[i]->place);
    d->value[k] = derived_value(s, l, i, &view);
    return RLX_OK;
}

static rlx_status resolve_binding(const selector *s, const lowered *l, rx_gpu_placed *d, uint32_t k)
{
    const rx_gpu_ref ref = d->dispatch.bind[k];
    const rx_program *p = s->x->program;
    const rx_step *step = &p->steps[l->step];
    const uint32_t in = ref - RX_REF_IN(0), out = ref - RX_REF_OUT(0);
    const uint32_t operand = ref - RX_REF_PROLOGUE;
    if (ref >= RX_REF_IN(0) && in < step->n_in && step->in[in] != RX_NO_VALUE)
        return bind_value(s, d, k, step->in[in], &l->call.in[in]);
    if (ref >= RX_REF_OUT(0) && ref < RX_REF_SCRATCH && out < step->n_out &&
        has_memory(s->x, step->out[out]))
        return bind_value(s, d, k, step->out[out], &l->call.out[out]);
    if (ref >= RX_REF_PROLOGUE && operand < RX_MERGED_OPERANDS && l->call.prologue)
        return bind_value(s, d, k, p->steps[s->prologue[l->step]].in[operand],
                          &l->call.prologue->in[operand]);
    if (ref >= RX_REF_ROPE && ref <= RX_REF_EPILOGUE && l->call.epilogue)
        return resolve_epilogue(s, l, d, k);
    if (ref >= RX_REF_OUT(0) && ref < RX_REF_SCRATCH && out < step->n_out)
        bind_piece(d, k, &l->scratch[l->build.n_scratch + out]);
    else if (ref >= RX_REF_SCRATCH && ref - RX_REF_SCRATCH < l->build.n_scratch)
        bind_piece(d, k, &l->scratch[ref - RX_REF_SCRATCH]);
    else if (ref >= RX_REF_TABLE && ref - RX_REF_TABLE < l->build.n_tables)
        bind_place(d, k, l->tables[ref - RX_REF_TABLE]);
    else if (ref >= RX_REF_DERIVED && ref - RX_REF_DERIVED < l->build.n_derived)
        return bind_derived(s, l, d, k);
    else if (ref == RX_REF_FLAGS) {
        d->bind[k] = s->x->flags; /* no hazard: it is only added to, atomically */
        s->l->uses_flags = true;
    } else if (ref != RX_REF_NONE)
        return rx_fail(s->err, RLX_INTERNAL, "step %zu, %s: binding %u refers to nothing (0x%x)",
                       l->step, rx_ops[step->op].name, (unsigned)k, (unsigned)ref);
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

static rlx_status add_dispatch(selector *s, const lowered *l, const rx_gpu_dispatch *from)
{
    rx_gpu_list *list = s->l;
    if (!from->groups[0] || !from->groups[1] || !from->groups[2])
        return RLX_OK;
    if (!rx_grow(&list->items, &list->cap, list->n + 1, sizeof *list->items))
        return rx_fail_memory(s->err, "the dispatches of a program", list->n * sizeof *list->items);
    rx_gpu_placed *d = &list->items[list->n];
    *d = (rx_gpu_placed){.dispatch = *from, .number = (uint32_t)list->n, .step = (uint32_t)l->at,
                         .lowered = (uint32_t)l->step};
    for (uint32_t k = 0; k < RX_GPU_MAX_BIND; k++)
        d->value[k] = RX_NO_VALUE;
    for (uint32_t k = 0; k < from->n_bind; k++) {
        RLX_TRY(resolve_binding(s, l, d, k));
        bind_window(s->x, d, k);
    }
    list->n++;
    return RLX_OK;
}

/* ---- Scratch memory ------------------------------------------------------------------------- */

/* Where the scratch of a step begins. Software devices run one dispatch after another: they reuse
 * the same memory, which is in the cache. */
static rx_gpu_spot begin_scratch(const selector *s, const lowered *l)
{
    const uint64_t most = s->x->memory->max_block_bytes, ring = s->x->driver->scratch_ring;
    uint64_t end = s->scratch.offset;
    for (size_t i = 0; i < l->build.n_scratch; i++)
        end += rx_gpu_room(l->build.scratch[i]);
    const bool wraps = end > (ring < most ? ring : most) || s->scratch.block ||
                       s->x->caps->is_software;
    return wraps ? (rx_gpu_spot){0} : s->scratch;
}

/* A piece that does not fit into the current block goes to the next. */
static rlx_status take_scratch(selector *s, uint64_t bytes, piece *out)
{
    const uint64_t most = s->x->memory->max_block_bytes, room = rx_gpu_room(bytes);
    rx_gpu_spot *at = &s->scratch;
    if (at->offset && at->offset + room > most)
        *at = (rx_gpu_spot){at->block + 1, 0};
    if (at->block >= RX_GPU_N_SCRATCH)
        return rx_fail(s->err, RLX_NO_MEMORY, "scratch of kernels: a piece of %llu bytes does not "
                       "fit into %d blocks of %llu bytes", (unsigned long long)bytes,
                       RX_GPU_N_SCRATCH, (unsigned long long)most);
    *out = (piece){*at, bytes};
    at->offset += room;
    if (at->offset > s->l->scratch_bytes[at->block])
        s->l->scratch_bytes[at->block] = at->offset;
    return RLX_OK;
}

/* Places the scratch pieces of a step one after another, then unused results. */
static rlx_status place_scratch(selector *s, lowered *l)
{
    const rx_step *step = &s->x->program->steps[l->step];
    const size_t n_own = l->build.n_scratch;
    l->scratch = rx_arena_array_zero(&s->l->arena, n_own + step->n_out + 1, sizeof *l->scratch);
    if (!l->scratch)
        return rx_fail_memory(s->err, "scratch of a step", (n_own + 1) * sizeof *l->scratch);
    s->scratch = begin_scratch(s, l);
    for (size_t i = 0; i < n_own; i++)
        RLX_TRY(take_scratch(s, l->build.scratch[i] ? l->build.scratch[i] : 16, &l->scratch[i]));
    for (size_t i = 0; i < step->n_out; i++) {
        uint64_t begin, bytes = 0;
        if (has_memory(s->x, step->out[i]))
            continue;
        if (l->call.out[i].rank >= 0)
            rx_gpu_extent(&l->call.out[i], &begin, &bytes);
        RLX_TRY(take_scratch(s, bytes ? bytes : 16, &l->scratch[n_own + i]));
    }
    return RLX_OK;
}

/* ---- Tables and packed weights -------------------------------------------------------------- */

/* Minimum size of blocks for tables. */
#define TABLE_BLOCK ((uint64_t)64 << 10)

static rlx_status upload_tables(selector *s, lowered *l)
{
    const rx_gpu_memory *m = s->x->memory;
    l->tables = rx_arena_array(&s->l->arena, l->build.n_tables + 1, sizeof *l->tables);
    if (!l->tables)
        return rx_fail_memory(s->err, "constants of a step", sizeof *l->tables);
    for (size_t i = 0; i < l->build.n_tables; i++) {
        const rx_gpu_table *t = &l->build.tables[i];
        RLX_TRY(rx_gpu_pool_add(m, &s->l->tables, t->bytes, TABLE_BLOCK, "constants of kernels",
                                &l->tables[i], s->err));
        RLX_TRY(m->upload(m->device, &l->tables[i], 0, t->data, t->bytes, s->err));
    }
    return RLX_OK;
}

static rlx_status find_derived(selector *s, lowered *l)
{
    rx_gpu_exec *x = s->x;
    rx_gpu_list *list = s->l;
    const rx_program *p = x->program;
    l->derived = rx_arena_array(&list->arena, l->build.n_derived + 1, sizeof *l->derived);
    if (!l->derived || !rx_grow(&list->derived, &list->cap_derived,
                                list->n_derived + l->build.n_derived, sizeof *list->derived))
        return rx_fail_memory(s->err, "packed weights", sizeof *l->derived);
    for (size_t i = 0; i < l->build.n_derived; i++) {
        const rx_view *view;
        const rx_pvalue *v = &p->values[x->values.roots[derived_value(s, l, i, &view)]];
        const uint32_t item = v->index + (v->space == RX_SPACE_CONSTANT ? (uint32_t)p->n_params
                                                                        : 0);
        RLX_TRY(rx_gpu_weights_pack(x->weights, item, view, &l->build.derived[i], &l->derived[i],
                                    s->err));
        bool known = false;
        for (size_t k = 0; k < list->n_derived && !known; k++)
            known = list->derived[k] == l->derived[i];
        if (!known)
            list->derived[list->n_derived++] = l->derived[i];
    }
    return RLX_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static rlx_status resolve_step(selector *s, lowered *l)
{
    RLX_TRY(rx_gpu_lower(&l->build, &l->call));
    RLX_TRY(place_scratch(s, l));
    RLX_TRY(upload_tables(s, l));
    RLX_TRY(find_derived(s, l));
    for (size_t i = 0; i < l->build.n; i++)
        RLX_TRY(add_dispatch(s, l, &l->build.dispatch[i]));
    return RLX_OK;
}

/* Lowers step i, in the position of step `at`. */
static rlx_status lower_step(selector *s, size_t i, size_t at)
{
    rx_gpu_exec *x = s->x;
    lowered l = {.step = i, .at = at, .call = rx_gpu_values_call(&x->values, i, x->caps),
                 .build = {.arena = &s->l->arena, .err = s->err}};
    rx_view prologue_in[RX_MERGED_OPERANDS];
    rx_gpu_merged prologue;
    if (s->prologue[i] != RX_NO_STEP) {
        prologue = rx_gpu_merged_of(&x->values, s->prologue[i], prologue_in);
        l.call.prologue = &prologue;
    }
    if (at != i)
        l.call.epilogue = rx_gpu_epilogue_of(&x->values, s->prologue, (uint32_t)i, (uint32_t)at,
                                             &l.epilogue);
    rlx_status st = resolve_step(s, &l);
    rx_gpu_build_finish(&l.build);
    return st;
}

/* The step that computes step i: itself unless absorbed. A prologue may be computed by several
 * readers: the first of them. */
static uint32_t absorber_of(const selector *s, uint32_t i)
{
    const size_t n = s->x->program->n_steps;
    if (s->epilogue[i] != RX_NO_STEP && s->epilogue[i] > i)
        return s->epilogue[i];
    for (uint32_t j = i + 1; s->prologue[i] == i && j < n; j++)
        if (s->prologue[j] == i)
            return s->epilogue[j] != RX_NO_STEP && s->epilogue[j] > j ? s->epilogue[j] : j;
    return i;
}

static rlx_status select_steps(selector *s)
{
    const rx_program *p = s->x->program;
    rx_gpu_list *l = s->l;
    rx_gpu_choose_merges(&s->x->values, s->x->caps, s->prologue, s->epilogue);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        l->first[i] = l->n;
        l->absorbed_by[i] = absorber_of(s, i);
        if (p->steps[i].support == RLX_SUPPORT_HOST)
            l->has_host = true;
        else if (l->absorbed_by[i] == i)
            RLX_TRY(lower_step(s, s->epilogue[i] != RX_NO_STEP ? s->epilogue[i] : i, i));
    }
    l->first[p->n_steps] = l->n;
    return RLX_OK;
}

rlx_status rx_gpu_select(rx_gpu_list *l, rlx_error *err)
{
    const size_t n = l->x->program->n_steps + 1;
    selector s = {.x = l->x, .l = l, .err = err,
                  .prologue = rx_arena_array(&l->arena, n, sizeof *s.prologue),
                  .epilogue = rx_arena_array(&l->arena, n, sizeof *s.epilogue)};
    l->first = rx_arena_array(&l->arena, n, sizeof *l->first);
    l->absorbed_by = rx_arena_array(&l->arena, n, sizeof *l->absorbed_by);
    if (!s.prologue || !s.epilogue || !l->first || !l->absorbed_by)
        return rx_fail_memory(err, "the steps of a recording", n * sizeof *l->first);
    rx_gpu_weights_lock(l->x->weights);
    rlx_status st = select_steps(&s);
    rx_gpu_weights_unlock(l->x->weights);
    return st;
}

rlx_status rx_gpu_check_steps(rx_gpu_exec *x, rlx_error *err)
{
    rx_arena arena = {0};
    rlx_status st = RLX_OK;
    for (size_t i = 0; i < x->program->n_steps && st == RLX_OK; i++) {
        if (x->program->steps[i].support == RLX_SUPPORT_HOST)
            continue;
        const rx_gpu_call call = rx_gpu_values_call(&x->values, i, x->caps);
        rx_gpu_build build = {.arena = &arena, .err = err};
        st = rx_gpu_lower(&build, &call);
        rx_gpu_build_finish(&build);
    }
    rx_arena_finish(&arena);
    return st;
}
