/* SPDX-License-Identifier: MIT */
/* Verification of the list of dispatches after each stage: the invariants that recording and the
 * device rely on. A failure is a bug in the stage before. */
#include <string.h>

#include "gpu/stages.h"

static rlx_status fail(const rx_gpu_placed *d, rx_gpu_stage stage, const char *what, uint32_t k,
                       rlx_error *err)
{
    return rx_fail(err, RLX_INTERNAL, "%s: dispatch %u of step %u, kernel '%s': %s %u",
                   rx_gpu_stage_names[stage], (unsigned)d->number, (unsigned)d->step,
                   rx_gpu_dispatch_name(&d->dispatch), what, (unsigned)k);
}

/* ---- select: who has written the bytes that are read ---------------------------------------- */

/* A range last written as part of `owner`, a value that owns memory. Ranges are sorted and
 * disjoint. */
typedef struct stretch {
    const rx_block *block;
    uint64_t begin, end;
    uint32_t owner;
} stretch;

typedef struct written {
    stretch *list;
    size_t n, cap;
} written;

/* Whether binding k is of a value in the arena, and which value owns that memory. Inputs, states,
 * weights and tables always have contents. Scratch may be read with gaps (partial sums of slices
 * are aligned) or not at all (a recurrence of zero steps), so its ranges are not checked. */
static bool is_in_arena(const rx_gpu_list *l, const rx_gpu_placed *d, uint32_t k, uint32_t *owner)
{
    if (d->scratch[k] || d->value[k] == RX_NO_VALUE)
        return false;
    *owner = l->x->values.roots[d->value[k]];
    return l->x->program->values[*owner].space == RX_SPACE_ARENA;
}

/* The first range that ends after the beginning of x, by block and offset. */
static size_t find_stretch(const written *w, const stretch *x)
{
    size_t low = 0, high = w->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const stretch *s = &w->list[middle];
        if (s->block == x->block ? s->end <= x->begin
                                 : (uintptr_t)s->block < (uintptr_t)x->block)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool overlaps(const written *w, size_t i, const stretch *x)
{
    return i < w->n && w->list[i].block == x->block && w->list[i].begin < x->end;
}

/* Inserts x, replacing what it overlaps; the first and the last overlapped range may be cut. */
static bool add_written(written *w, const stretch *x)
{
    stretch with[3];
    size_t n = 0, first = find_stretch(w, x), end = first;
    if (!rx_grow(&w->list, &w->cap, w->n + 2, sizeof *w->list))
        return false;
    while (overlaps(w, end, x))
        end++;
    if (end > first && w->list[first].begin < x->begin) {
        with[n] = w->list[first];
        with[n++].end = x->begin;
    }
    with[n++] = *x;
    if (end > first && w->list[end - 1].end > x->end) {
        with[n] = w->list[end - 1];
        with[n++].begin = x->end;
    }
    memmove(w->list + first + n, w->list + end, (w->n - end) * sizeof *w->list);
    memcpy(w->list + first, with, n * sizeof *with);
    w->n = w->n - (end - first) + n;
    return true;
}

static bool is_written(const written *w, const stretch *x)
{
    uint64_t at = x->begin;
    for (size_t i = find_stretch(w, x); at < x->end && overlaps(w, i, x); i++) {
        if (w->list[i].begin > at || w->list[i].owner != x->owner)
            return false;
        at = w->list[i].end;
    }
    return at >= x->end;
}

/* Kernels access whole words and vectors: tensors are padded to a multiple of 16 bytes. */
static stretch stretch_of(const rx_gpu_placed *d, uint32_t k, uint32_t owner)
{
    return (stretch){d->bind[k].block, d->begin[k] & ~(uint64_t)15,
                     (d->end[k] + 15) & ~(uint64_t)15, owner};
}

static rlx_status verify_reads(const rx_gpu_list *l, const rx_gpu_placed *d, const written *w,
                               rlx_error *err)
{
    uint32_t owner;
    for (uint32_t k = 0; k < d->dispatch.n_bind; k++) {
        if (d->dispatch.writes >> k & 1 || !is_in_arena(l, d, k, &owner))
            continue;
        const stretch x = stretch_of(d, k, owner);
        if (!is_written(w, &x))
            return fail(d, RX_GPU_SELECT, "nothing has written what it reads at binding", k, err);
    }
    return RLX_OK;
}

static bool note_writes(const rx_gpu_list *l, const rx_gpu_placed *d, written *w)
{
    uint32_t owner;
    for (uint32_t k = 0; k < d->dispatch.n_bind; k++) {
        if (!(d->dispatch.writes >> k & 1) || !is_in_arena(l, d, k, &owner))
            continue;
        const stretch x = stretch_of(d, k, owner);
        if (!add_written(w, &x))
            return false;
    }
    return true;
}

/* Results of a step on the host. */
static bool note_host(const rx_gpu_list *l, const rx_step *s, written *w)
{
    for (uint32_t i = 0; i < s->n_out; i++) {
        if (s->out[i] == RX_NO_VALUE)
            continue;
        const rx_gpu_place p = rx_gpu_exec_place(l->x, s->out[i]);
        const stretch x = {p.block, p.offset, p.offset + rx_gpu_room(p.bytes),
                           l->x->values.roots[s->out[i]]};
        if (p.block && !add_written(w, &x))
            return false;
    }
    return true;
}

static rlx_status verify_bytes(const rx_gpu_list *l, rlx_error *err)
{
    const rx_program *p = l->x->program;
    written w = {0};
    rlx_status st = RLX_OK;
    for (size_t i = 0; i < p->n_steps && st == RLX_OK; i++) {
        bool ok = p->steps[i].support != RLX_SUPPORT_HOST || note_host(l, &p->steps[i], &w);
        for (size_t k = l->first[i]; k < l->first[i + 1] && ok && st == RLX_OK; k++) {
            st = verify_reads(l, &l->items[k], &w, err);
            ok = note_writes(l, &l->items[k], &w);
        }
        if (!ok)
            st = rx_fail_memory(err, "the bytes that dispatches write", w.n * sizeof *w.list);
    }
    rx_free(w.list);
    return st;
}

/* ---- select: bindings ----------------------------------------------------------------------- */

static rlx_status verify_bindings(const rx_gpu_list *l, const rx_gpu_placed *d, rlx_error *err)
{
    const rx_gpu_exec *x = l->x;
    for (uint32_t k = 0; k < d->dispatch.n_bind; k++) {
        const rx_gpu_place *p = &d->bind[k];
        if (!p->block)
            continue;
        const uint64_t most = x->memory->block_bytes(p->block);
        if (p->offset > most || p->bytes > most - p->offset || d->end[k] > most ||
            d->begin[k] > d->end[k])
            return fail(d, RX_GPU_SELECT, "its block is too small for binding", k, err);
        if (p->offset % x->caps->binding_align)
            return fail(d, RX_GPU_SELECT, "no binding of the device may begin as does binding", k,
                        err);
    }
    return RLX_OK;
}

rlx_status rx_gpu_verify_select(const rx_gpu_list *l, rlx_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        RLX_TRY(rx_gpu_dispatch_check(&l->items[i].dispatch, l->x->caps, l->items[i].step, err));
        RLX_TRY(verify_bindings(l, &l->items[i], err));
    }
    return verify_bytes(l, err);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Dispatch i against those before it: no hazard within its level, none with those that follow it in
 * program order. last[k]: the maximum number up to k, so that the search ends early. */
static rlx_status verify_hazards(const rx_gpu_list *l, size_t i, const uint32_t *last,
                                 const rx_gpu_rules *rules, rlx_error *err)
{
    const rx_gpu_placed *d = &l->items[i];
    for (size_t k = i; k-- > 0 && (l->items[k].level == d->level || last[k] > d->number);) {
        const rx_gpu_placed *before = &l->items[k];
        if ((before->level == d->level || before->number > d->number) &&
            rx_gpu_hazard(before, d, rules))
            return fail(d, RX_GPU_ORDER, "hazard without a barrier after dispatch",
                        before->number, err);
    }
    return RLX_OK;
}

/* A level begins with a barrier or with a piece, and pieces are in the order of the program. */
static rlx_status verify_level(const rx_gpu_placed *d, const rx_gpu_placed *before, uint32_t last,
                               rlx_error *err)
{
    if (d->piece != before->piece && (d->piece < before->piece || d->number < last))
        return fail(d, RX_GPU_ORDER, "it belongs before piece", before->piece, err);
    const bool begins = d->barrier || d->piece != before->piece;
    if (d->level != before->level + begins)
        return fail(d, RX_GPU_ORDER, "no barrier begins its level", d->level, err);
    return RLX_OK;
}

rlx_status rx_gpu_verify_order(const rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err)
{
    uint32_t *last = rx_alloc_array(l->n + 1, sizeof *last);
    rlx_status st = last ? RLX_OK : rx_fail_memory(err, "the order of dispatches", l->n);
    for (size_t i = 0; i < l->n && st == RLX_OK; i++) {
        const rx_gpu_placed *d = &l->items[i];
        last[i] = i && last[i - 1] > d->number ? last[i - 1] : d->number;
        if (i)
            st = verify_level(d, d - 1, last[i - 1], err);
        if (st == RLX_OK)
            st = verify_hazards(l, i, last, rules, err);
        if (st == RLX_OK && last[i] >= l->n)
            st = fail(d, RX_GPU_ORDER, "there are fewer dispatches than", last[i], err);
    }
    rx_free(last);
    return st;
}

/* ---- chain ---------------------------------------------------------------------------------- */

/* Workgroups of the level before dispatch i that signal the counter it waits for. */
static uint64_t signals_before(const rx_gpu_list *l, size_t i)
{
    const rx_gpu_placed *d = &l->items[i];
    uint64_t groups = 0;
    for (size_t k = i; k-- > 0 && l->items[k].level + 1 >= d->level;) {
        const rx_gpu_placed *before = &l->items[k];
        const uint32_t *g = before->dispatch.groups;
        if (before->level == d->level)
            continue;
        if (!before->chain.is_chained || before->chain.signals != d->chain.waits ||
            before->piece != d->piece)
            return 0;
        groups += (uint64_t)g[0] * g[1] * g[2];
    }
    return groups;
}

rlx_status rx_gpu_verify_chain(const rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const rx_gpu_placed *d = &l->items[i], *before = i ? &l->items[i - 1] : NULL;
        const bool begins = before && before->piece == d->piece && before->level != d->level;
        const rx_gpu_chained *c = &d->chain;
        if (c->is_chained && c->signals >= rules->n_counters)
            return fail(d, RX_GPU_CHAIN, "there is no counter", c->signals, err);
        if (c->target && c->target != signals_before(l, i))
            return fail(d, RX_GPU_CHAIN, "it waits for workgroups that do not signal counter",
                        c->waits, err);
        if (begins && !d->barrier && !c->target)
            return fail(d, RX_GPU_CHAIN, "nothing waits for the level before", d->level, err);
        if (before && before->piece == d->piece && !begins && !c->target != !before->chain.target)
            return fail(d, RX_GPU_CHAIN, "only a part waits of level", d->level, err);
    }
    return RLX_OK;
}
