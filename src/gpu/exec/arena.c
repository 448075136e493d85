/* SPDX-License-Identifier: MIT */
/* The arena of a program in blocks of limited size. Where it fits into one block, offsets are those
 * of the plan; else values that share memory move together to the first block with enough room. */
#include <string.h>

#include "gpu/select/plan.h"

/* Values that share memory while one of them lives (in-place results). */
typedef struct group {
    uint64_t offset, bytes; /* in the plan; 0 bytes: merged into another */
    uint32_t first, last;   /* steps */
    uint32_t block;
    uint64_t at;            /* in the block */
} group;

typedef struct planner {
    const rx_program *program;
    uint64_t align, max_bytes;
    group *groups;
    size_t n;
    size_t *of; /* by value: its group */
} planner;

static uint64_t round_up(uint64_t bytes, uint64_t align)
{
    return bytes ? (bytes + align - 1) & ~(align - 1) : align;
}

static bool share_memory(const group *a, const group *b)
{
    return a->bytes && b->bytes && a->first <= b->last && b->first <= a->last &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Merges y into x. */
static void merge_groups(group *x, group *y)
{
    uint64_t x_end = x->offset + x->bytes, y_end = y->offset + y->bytes;
    x->offset = x->offset < y->offset ? x->offset : y->offset;
    x->bytes = (x_end > y_end ? x_end : y_end) - x->offset;
    x->first = x->first < y->first ? x->first : y->first;
    x->last = x->last > y->last ? x->last : y->last;
    y->bytes = 0;
}

/* Merges all groups that share memory with a; true when there was one. */
static bool absorb_groups(planner *p, size_t a)
{
    bool any = false;
    for (size_t b = 0; b < p->n; b++) {
        if (b == a || !share_memory(&p->groups[a], &p->groups[b]))
            continue;
        merge_groups(&p->groups[a], &p->groups[b]);
        for (size_t i = 0; i < p->program->n_values; i++)
            p->of[i] = p->of[i] == b ? a : p->of[i];
        any = true;
    }
    return any;
}

static void make_groups(planner *p)
{
    for (size_t i = 0; i < p->program->n_values; i++) {
        const rx_pvalue *v = &p->program->values[i];
        p->of[i] = SIZE_MAX;
        if (!rx_gpu_is_planned(v))
            continue;
        p->of[i] = p->n;
        p->groups[p->n++] = (group){.offset = v->offset, .bytes = round_up(v->bytes, p->align),
                                    .first = v->first, .last = v->last};
    }
    for (size_t a = 0; a < p->n; a++)
        while (p->groups[a].bytes && absorb_groups(p, a))
            continue;
}

/* The lowest offset in a block where group g fits beside those placed before it. */
static bool fit_group(const planner *p, size_t g, uint32_t block, uint64_t *at)
{
    const group *x = &p->groups[g];
    uint64_t candidate = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t k = 0; k < g; k++) {
            const group *o = &p->groups[k];
            bool together = o->first <= x->last && x->first <= o->last;
            if (!o->bytes || o->block != block || !together || candidate >= o->at + o->bytes ||
                o->at >= candidate + x->bytes)
                continue;
            candidate = o->at + o->bytes;
            moved = true;
        }
    }
    *at = candidate;
    return candidate == 0 || candidate + x->bytes <= p->max_bytes;
}

static void place_groups(planner *p, rx_gpu_arena *a, rx_gpu_spot *out)
{
    make_groups(p);
    for (size_t g = 0; g < p->n; g++) {
        group *x = &p->groups[g];
        if (!x->bytes)
            continue;
        a->largest = x->bytes > a->largest ? x->bytes : a->largest;
        while (!fit_group(p, g, x->block, &x->at))
            x->block++;
        a->n = x->block + 1 > a->n ? x->block + 1 : a->n;
        if (x->at + x->bytes > a->blocks[x->block])
            a->blocks[x->block] = x->at + x->bytes;
    }
    for (size_t i = 0; i < p->program->n_values; i++) {
        if (p->of[i] == SIZE_MAX)
            continue;
        const group *x = &p->groups[p->of[i]];
        out[i] = (rx_gpu_spot){x->block, x->at + (p->program->values[i].offset - x->offset)};
    }
}

static void place_whole(const rx_program *p, uint64_t bytes, rx_gpu_arena *a, rx_gpu_spot *out)
{
    a->n = 1;
    a->blocks[0] = a->largest = bytes;
    for (size_t i = 0; i < p->n_values; i++)
        if (rx_gpu_is_planned(&p->values[i]))
            out[i] = (rx_gpu_spot){0, p->values[i].offset};
}

bool rx_gpu_arena_plan(const rx_program *p, uint64_t align, uint64_t max_bytes, rx_gpu_arena *a,
                       rx_gpu_spot *out)
{
    uint64_t whole = round_up(p->memory.arena_bytes, align);
    *a = (rx_gpu_arena){.blocks = rx_alloc_array_zero(p->n_values + 1, sizeof *a->blocks)};
    if (!a->blocks)
        return false;
    if (whole <= max_bytes) {
        place_whole(p, whole, a, out);
        return true;
    }
    planner plan = {.program = p, .align = align, .max_bytes = max_bytes,
                    .groups = rx_alloc_array(p->n_values + 1, sizeof *plan.groups),
                    .of = rx_alloc_array(p->n_values + 1, sizeof *plan.of)};
    bool ok = plan.groups && plan.of;
    if (ok)
        place_groups(&plan, a, out);
    else {
        rx_free(a->blocks);
        a->blocks = NULL;
    }
    rx_free(plan.groups);
    rx_free(plan.of);
    return ok;
}
