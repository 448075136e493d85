/* SPDX-License-Identifier: MIT */
/* chain: replaces barriers between levels by counters in memory that the kernels poll
 * (gpu/shaders/chain.glsl). A barrier drains the device between two dispatches, 9 to 16 % of the
 * time of a token on an H200. A level is chained when all dispatches of it and of the level before
 * have a kernel variant for it: each workgroup of the earlier level increments a counter when it is
 * done, each of the later level waits until the counter equals their number. So everything recorded
 * before is complete, whatever it touched. */
#include "gpu/stages.h"

/* With more workgroups than this, counting takes longer than a barrier. */
#define MAX_GROUPS 4096

static const struct {
    rx_kernel plain, chained;
} forms[] = {
    {RX_K_dot_gemv_at, RX_K_dot_gemv_chain},
    {RX_K_dot_gemv_bytes_at, RX_K_dot_gemv_bytes_chain},
    {RX_K_dot_gemv_tail, RX_K_dot_gemv_tail_chain},
    {RX_K_dot_gemv_pair, RX_K_dot_gemv_pair_chain},
    {RX_K_tile4_few, RX_K_tile4_few_chain},
    {RX_K_tile4_few_pair, RX_K_tile4_few_pair_chain},
    {RX_K_attention_join, RX_K_attention_join_chain},
    {RX_K_attention_join_halves, RX_K_attention_join_halves_chain},
    {RX_K_rope_v4, RX_K_rope_v4_chain},
    {RX_K_rope_write, RX_K_rope_write_chain},
    {RX_K_state_write, RX_K_state_write_chain},
    {RX_K_dequant, RX_K_dequant_chain},
    {RX_K_dequant_iq3, RX_K_dequant_iq3_chain},
    {RX_K_gather, RX_K_gather_chain},
    {RX_K_gather_wide, RX_K_gather_wide_chain},
    {RX_K_arg, RX_K_arg_chain},
    {RX_K_copy, RX_K_copy_chain},
    {RX_K_copy_wide, RX_K_copy_wide_chain},
    {RX_K_sample_tops, RX_K_sample_tops_chain},
    {RX_K_sample_sums, RX_K_sample_sums_chain},
    {RX_K_sample_list, RX_K_sample_list_chain},
    {RX_K_sample_join, RX_K_sample_join_chain},
};

/* The chained variant of a kernel; RX_N_KERNELS: it has none. */
static rx_kernel chained_form(rx_kernel k, const rx_gpu_caps *caps)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].plain == k && rx_kernel_available(forms[i].chained, caps))
            return forms[i].chained;
    return RX_N_KERNELS;
}

typedef struct level {
    uint64_t groups;
    bool can; /* all of its dispatches have a chained variant */
} level;

/* Dispatches first .. end - 1, with a barrier before and after, and their levels. */
typedef struct piece {
    size_t first, end, n_levels;
    level *levels;
} piece;

static void find_levels(const rx_gpu_list *l, piece *p)
{
    const uint32_t base = l->items[p->first].level;
    for (size_t i = p->first; i < p->end; i++) {
        const rx_gpu_placed *d = &l->items[i];
        const uint32_t *groups = d->dispatch.groups;
        level *v = &p->levels[d->level - base];
        if (d->level - base == p->n_levels) {
            *v = (level){0, true};
            p->n_levels++;
        }
        v->groups += (uint64_t)groups[0] * groups[1] * groups[2];
        v->can = v->can && v->groups <= MAX_GROUPS &&
                 chained_form(d->dispatch.kernel, l->x->caps) != RX_N_KERNELS;
    }
}

/* Whether level v of the piece waits by a counter. */
static bool is_chained(const piece *p, size_t v)
{
    return v > 0 && v < p->n_levels && p->levels[v].can && p->levels[v - 1].can;
}

/* Each chained level saves 2 to 4 us on an H200; clearing the counters of a run and reading back
 * its flags costs 8. */
#define LEAST_CHAINED 5

static bool is_worth_it(const piece *p, const rx_gpu_list *l, const rx_gpu_rules *rules)
{
    size_t n = 0;
    for (size_t v = 0; v < p->n_levels; v++)
        n += is_chained(p, v);
    return n >= LEAST_CHAINED || l->n_counters || rules->chain_always;
}

/* Chains a piece, with counters from l->n_counters on. */
static void chain_piece(rx_gpu_list *l, piece *p, const rx_gpu_rules *rules)
{
    const uint32_t first = l->n_counters, base = l->items[p->first].level;
    p->n_levels = 0;
    find_levels(l, p);
    if (p->n_levels > rules->n_counters - first || !is_worth_it(p, l, rules))
        return;
    for (size_t i = p->first; i < p->end; i++) {
        rx_gpu_placed *d = &l->items[i];
        const uint32_t v = d->level - base;
        const bool waits = is_chained(p, v);
        if (!waits && !is_chained(p, v + 1))
            continue;
        d->dispatch.kernel = chained_form(d->dispatch.kernel, l->x->caps);
        d->chain = (rx_gpu_chained){.is_chained = true, .waits = first + v - 1,
                                    .signals = first + v,
                                    .target = waits ? (uint32_t)p->levels[v - 1].groups : 0};
        l->n_barriers -= d->barrier && waits;
        d->barrier = d->barrier && !waits;
        l->n_chained += waits;
        l->n_counters = first + (uint32_t)p->n_levels;
    }
}

rlx_status rx_gpu_chain(rx_gpu_list *l, const rx_gpu_rules *rules, rlx_error *err)
{
    if (!rules->chains || rules->full_barrier || l->has_host || !l->n)
        return RLX_OK;
    piece p = {.levels = rx_alloc_array(l->n_levels + 1, sizeof *p.levels)};
    if (!p.levels)
        return rx_fail_memory(err, "the levels of a program", l->n_levels * sizeof *p.levels);
    for (; p.first < l->n; p.first = p.end) {
        while (p.end < l->n && l->items[p.end].piece == l->items[p.first].piece)
            p.end++;
        chain_piece(l, &p, rules);
    }
    l->uses_flags = l->uses_flags || l->n_counters;
    rx_free(p.levels);
    return RLX_OK;
}
