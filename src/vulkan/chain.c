/* SPDX-License-Identifier: MIT */
/* Chains: dispatches that wait for those before them inside of the kernel (gpu/shaders/chain.glsl)
 * and not by a barrier, which costs the start and the end of each of them: 9 to 16 % of the time of
 * a token on an H200. Dispatches between two waits are a level. A level waits inside when all of it
 * and of the level before can: each workgroup of the one counts itself, each of the other waits for
 * the whole number. So all that was recorded before is done, whatever it touched. */
#include <string.h>

#include "vulkan/device.h"

/* More workgroups than this spend longer on counting than a barrier takes. */
#define MOST_GROUPS 4096

static const struct {
    rx_kernel plain, chained;
} forms[] = {
    {RX_K_dot_gemv_at, RX_K_dot_gemv_chain},
    {RX_K_dot_gemv_bytes_at, RX_K_dot_gemv_bytes_chain},
    {RX_K_dot_gemv_tail, RX_K_dot_gemv_tail_chain},
    {RX_K_dot_gemv_pair, RX_K_dot_gemv_pair_chain},
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

/* The form of a kernel that can wait; RX_N_KERNELS: it has none. */
static rx_kernel chained_form(rx_kernel k, const rx_gpu_caps *caps)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].plain == k && rx_kernel_available(forms[i].chained, caps))
            return forms[i].chained;
    return RX_N_KERNELS;
}

void rx_vk_chain_words(rx_vk_dispatch *x, uint64_t flags, uint32_t before, uint32_t after,
                       uint32_t target)
{
    uint32_t *to = x->push + RX_GPU_MAX_PUSH;
    memcpy(to, &flags, sizeof flags); /* devices are little-endian */
    to[2] = before;
    to[3] = after;
    to[4] = target;
    x->n_push = RX_VK_MAX_PUSH;
    x->waits_inside = target > 0;
}

typedef struct level {
    uint64_t groups;
    bool can; /* all of its dispatches have a form that waits */
} level;

/* The dispatches of a piece, which begins and ends with a barrier. */
typedef struct piece {
    rx_vk_dispatch *list;
    rx_gpu_placed *placed;
    size_t n, n_levels;
    uint32_t *level_of; /* by dispatch */
    level *levels;
} piece;

static void find_levels(piece *p, const rx_gpu_caps *caps)
{
    rx_vk_walk w;
    bool waits;
    rx_vk_walk_begin(&w, p->list, p->n, false);
    for (size_t i = rx_vk_walk_next(&w, &waits); i < p->n; i = rx_vk_walk_next(&w, &waits)) {
        const rx_vk_dispatch *x = &p->list[i];
        if (waits || !p->n_levels)
            p->levels[p->n_levels++] = (level){0, true};
        level *l = &p->levels[p->n_levels - 1];
        l->groups += (uint64_t)x->groups[0] * x->groups[1] * x->groups[2];
        l->can = l->can && l->groups <= MOST_GROUPS &&
                 chained_form(p->placed[i].dispatch.kernel, caps) != RX_N_KERNELS;
        p->level_of[i] = (uint32_t)p->n_levels - 1;
    }
}

/* Whether level l waits inside. */
static bool is_chained(const piece *p, size_t l)
{
    return l > 0 && l < p->n_levels && p->levels[l].can && p->levels[l - 1].can;
}

/* Each level that waits inside saves 2 to 4 us on an H200, but the counters of a run have to be
 * cleared and its flags fetched, which takes 8. */
#define LEAST_CHAINED 5

static bool is_worth_it(const rx_device *d, const piece *p, const rx_commands *c)
{
    size_t n = 0;
    for (size_t l = 0; l < p->n_levels; l++)
        n += is_chained(p, l);
    return n >= LEAST_CHAINED || c->n_counters || d->chain_always;
}

/* Chains a piece with counters from c->n_counters on. */
static void chain_piece(rx_exec *e, piece *p, rx_commands *c)
{
    const rx_gpu_place *flags = &e->base.flags;
    const uint32_t first = c->n_counters;
    p->n_levels = 0;
    find_levels(p, &e->device->caps);
    if (p->n_levels > RX_VK_N_COUNTERS - first || !is_worth_it(e->device, p, c))
        return;
    for (size_t i = 0; i < p->n; i++) {
        const uint32_t l = p->level_of[i];
        if (!is_chained(p, l) && !is_chained(p, l + 1))
            continue;
        rx_kernel *k = &p->placed[i].dispatch.kernel;
        *k = chained_form(*k, &e->device->caps);
        rx_vk_chain_words(&p->list[i], flags->block->address + flags->offset, first + l - 1,
                          first + l,
                          is_chained(p, l) ? (uint32_t)p->levels[l - 1].groups : 0);
        c->n_chained += is_chained(p, l);
        c->n_counters = first + (uint32_t)p->n_levels;
    }
}

rlx_status rx_vk_chain(rx_exec *e, rx_gpu_placed *list, rx_gpu_recording *r, rlx_error *err)
{
    const rx_device *d = e->device;
    const size_t n_steps = e->base.program->n_steps;
    rx_commands *c = r->commands;
    if (!d->caps.chains || atomic_load(&d->no_chains) || d->full_barrier || r->has_host ||
        r->single || !r->n)
        return RLX_OK;
    piece p = {.level_of = rx_alloc_array(r->n, sizeof *p.level_of),
               .levels = rx_alloc_array(r->n, sizeof *p.levels)};
    rlx_status st = p.level_of && p.levels ? RLX_OK
                                           : rx_fail_memory(err, "the order of dispatches",
                                                            r->n * sizeof *p.levels);
    for (size_t i = 0; i < n_steps && st == RLX_OK;) {
        size_t end = rx_gpu_piece_end(&e->base.values, &d->caps, i);
        p.list = c->list + r->first[i];
        p.placed = list + r->first[i];
        p.n = r->first[end] - r->first[i];
        chain_piece(e, &p, c);
        i = end;
    }
    r->uses_flags = r->uses_flags || c->n_counters;
    r->has_folds = r->has_folds || c->n_counters;
    rx_free(p.level_of);
    rx_free(p.levels);
    return st;
}

rlx_status rx_vk_chain_check(rx_exec *e, rlx_error *err)
{
    rx_device *d = e->device;
    if (!d->caps.chains || !rx_vk_flag_words(e)[1])
        return RLX_OK;
    atomic_store(&d->no_chains, true);
    return rx_fail(err, RLX_INTERNAL,
                   "vulkan: kernels of a run on %s gave up waiting for those before them; set "
                   "RLX_CHAIN=0 and they wait by barriers", d->gpu.info.name);
}
