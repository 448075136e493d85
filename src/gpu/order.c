/* SPDX-License-Identifier: MIT */
/* order: the order of dispatches, and where barriers are: only between accesses to the same bytes
 * of which one is a write. A run is cut into pieces bounded in time; within a piece each dispatch
 * moves to the earliest hazard level that it can have, so that one barrier serves as many as
 * possible. */
#include "gpu/stages.h"

/* Dispatches that may be reordered among each other; the comparison is quadratic. */
#define WINDOW 128
/* Byte ranges touched since the last barrier. A full table causes a barrier. */
#define MAX_TOUCHED 256

/* ---- Hazards -------------------------------------------------------------------------------- */

bool rx_gpu_touched(const rx_gpu_placed *d, uint32_t k, const rx_gpu_rules *rules,
                    rx_gpu_place *out, bool *writes)
{
    *writes = d->dispatch.writes >> k & 1;
    if (!rules->whole_bindings) {
        *out = (rx_gpu_place){d->bind[k].block, d->begin[k], d->end[k] - d->begin[k]};
        return out->block && out->bytes;
    }
    *out = d->bind[k].block ? d->bind[k] : rules->nothing;
    *writes = *writes || !d->bind[k].block;
    return out->block && out->bytes;
}

static bool conflict(const rx_gpu_place *a, bool a_writes, const rx_gpu_place *b, bool b_writes)
{
    return (a_writes || b_writes) && a->block == b->block && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

bool rx_gpu_hazard(const rx_gpu_placed *a, const rx_gpu_placed *b, const rx_gpu_rules *rules)
{
    rx_gpu_place x, y;
    bool x_writes, y_writes;
    for (uint32_t i = 0; i < a->dispatch.n_bind; i++)
        for (uint32_t k = 0; rx_gpu_touched(a, i, rules, &x, &x_writes) && k < b->dispatch.n_bind;
             k++)
            if (rx_gpu_touched(b, k, rules, &y, &y_writes) && conflict(&x, x_writes, &y, y_writes))
                return true;
    return false;
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* Topological levels: dispatches without dependencies first, then those that depend only on these,
 * and so on, which needs the fewest barriers. Sorts n <= WINDOW dispatches; `room` holds as
 * many. */
static void order_window(rx_gpu_placed *list, size_t n, const rx_gpu_rules *rules,
                         rx_gpu_placed *room)
{
    uint8_t level[WINDOW], top = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        level[i] = 0;
        for (size_t k = i; k-- > 0;)
            if (level[k] >= level[i] && rx_gpu_hazard(&list[i], &list[k], rules))
                level[i] = level[k] + 1;
        top = level[i] > top ? level[i] : top;
        room[i] = list[i];
    }
    for (unsigned l = 0; l <= top; l++)
        for (size_t i = 0; i < n; i++)
            if (level[i] == l)
                list[at++] = room[i];
}

/* ---- Barriers ------------------------------------------------------------------------------- */

typedef struct touched {
    rx_gpu_place place[MAX_TOUCHED];
    bool writes[MAX_TOUCHED];
    size_t n;
} touched;

static bool conflicts(const touched *t, const rx_gpu_placed *d, const rx_gpu_rules *rules)
{
    rx_gpu_place p;
    bool writes;
    for (uint32_t i = 0; i < d->dispatch.n_bind; i++)
        for (size_t k = 0; rx_gpu_touched(d, i, rules, &p, &writes) && k < t->n; k++)
            if (conflict(&p, writes, &t->place[k], t->writes[k]))
                return true;
    return false;
}

/* Absent operands are counted, so that where the table becomes full does not depend on them. */
static void touch(touched *t, const rx_gpu_placed *d, const rx_gpu_rules *rules)
{
    for (uint32_t i = 0; i < d->dispatch.n_bind; i++, t->n++)
        rx_gpu_touched(d, i, rules, &t->place[t->n], &t->writes[t->n]);
}

static void set_levels(rx_gpu_list *l, size_t first, size_t end, const rx_gpu_rules *rules)
{
    touched t = {.n = 0};
    for (size_t i = first; i < end; i++) {
        rx_gpu_placed *d = &l->items[i];
        d->barrier = i > first && (rules->full_barrier || t.n + RX_GPU_MAX_BIND > MAX_TOUCHED ||
                                   conflicts(&t, d, rules));
        if (d->barrier)
            t.n = 0;
        touch(&t, d, rules);
        l->n_barriers += d->barrier;
        l->n_levels += d->barrier || i == first;
        d->piece = l->n_pieces;
        d->level = l->n_levels - 1;
    }
}

/* ---- Pieces --------------------------------------------------------------------------------- */

/* The end of the piece that begins with step i. A step on the host is a piece of its own. */
static size_t piece_end(const rx_gpu_exec *x, size_t i)
{
    const rx_step *steps = x->program->steps;
    const size_t end = rx_gpu_piece_end(&x->values, x->caps, i);
    size_t stop = i + 1;
    while (steps[i].support != RLX_SUPPORT_HOST && stop < end &&
           steps[stop].support != RLX_SUPPORT_HOST)
        stop++;
    return stop;
}

rlx_status rx_gpu_order(rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err)
{
    const size_t n_steps = l->x->program->n_steps;
    rx_gpu_placed *room = rx_alloc_array(WINDOW, sizeof *room);
    if (!room)
        return rx_fail_memory(err, "the order of dispatches", WINDOW * sizeof *room);
    for (size_t i = 0; i < n_steps;) {
        const size_t next = piece_end(l->x, i), first = l->first[i], end = l->first[next];
        for (size_t k = first; k < end; k += WINDOW)
            order_window(l->items + k, end - k < WINDOW ? end - k : WINDOW, rules, room);
        set_levels(l, first, end, rules);
        l->n_pieces += end > first;
        i = next;
    }
    rx_free(room);
    return RLX_OK;
}
