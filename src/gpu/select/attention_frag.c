/* SPDX-License-Identifier: MIT */
/* Attention of many rows in f16 or bf16 on cooperative matrices: k and v are rearranged in fragment
 * order into scratch memory (attention_pack.comp), from which fragments are loaded directly
 * (attention_frag.comp). */
#include "gpu/select/attention.h"
#include "gpu/select/product.h"
#include "gpu/select/rows.h"

#define BLOCK_KEYS 64      /* keys of an iteration, at most */
#define MIN_QUERIES 32
#define LOCAL 128     /* four subgroups */

static uint64_t padded_keys(const rx_attention *a)
{
    return (uint64_t)(a->n_keys + BLOCK_KEYS - 1) / BLOCK_KEYS * BLOCK_KEYS;
}

/* Bytes of packed k or v; the kernel prefetches one block past the end. */
static uint64_t packed_bytes(const rx_attention *a)
{
    uint64_t keys = (uint64_t)(a->n_batch * a->n_kv_heads) * padded_keys(a) + BLOCK_KEYS;
    return keys * (uint64_t)a->key_size * 2;
}

/* ---- Grids, which spare the kernels divisions ------------------------------------------------ */

/* 32 invocations for 64 elements of 16 keys of k or v; heads along the other axes. */
static void make_pack_grid(const rx_attention *a, uint64_t grid[3])
{
    uint64_t units = padded_keys(a) / 16 * (uint64_t)(a->key_size / 32);
    uint64_t heads = (uint64_t)(a->n_batch * a->n_kv_heads);
    uint64_t layers = rx_ceil_div(heads, a->call->caps->max_groups[1]);
    grid[0] = rx_ceil_div(units * 32, LOCAL);
    grid[1] = rx_ceil_div(heads, layers);
    grid[2] = layers;
}

/* The grid: heads that are processed concurrently (all, unless their keys and values exceed the
 * cache), blocks of rows, and groups of so many heads. */
static void make_grid(const rx_attention *a, uint64_t grid[3])
{
    bool large = 2 * packed_bytes(a) > (UINT64_C(32) << 20);
    uint64_t heads = (uint64_t)(a->n_batch * a->n_heads), limit = a->call->caps->max_groups[0];
    uint64_t most = large && limit > 8 ? 8 : limit;
    grid[0] = heads < most ? heads : most;
    uint64_t rows = a->key_size == 64 ? 128 : 64;
    grid[1] = rx_ceil_div((uint64_t)a->n_queries, rows);
    grid[2] = rx_ceil_div(heads, grid[0]);
}

static bool fits(const rx_attention *a, const uint64_t grid[3])
{
    const uint32_t *limit = a->call->caps->max_groups;
    return grid[0] <= limit[0] && grid[1] <= limit[1] && grid[2] <= limit[2];
}

static void set_grid(rx_gpu_dispatch *d, const uint64_t grid[3])
{
    for (int i = 0; i < 3; i++)
        d->groups[i] = (uint32_t)grid[i];
}

/* ---- Lowering -------------------------------------------------------------------------------- */

static bool suits(const rx_attention *a)
{
    const rx_gpu_caps *caps = a->call->caps;
    rlx_dtype t = a->k->dtype;
    rx_kernel k = t == RLX_BF16 ? RX_K_attention_frag128_bf : RX_K_attention_frag128;
    if (!caps->coopmat_fragments || caps->subgroup != 32 || caps->max_invocations < LOCAL ||
        !caps->subgroup_shuffle || !rx_kernel_available(k, caps))
        return false;
    /* Queries in f32 are rounded where the policy allows it. */
    bool same = a->q->dtype == t, rounded = a->q->dtype == RLX_F32 &&
                                            a->call->policy == RLX_POLICY_FAST;
    if (t == RLX_F32 || !(same || rounded) || a->v->dtype != t || a->key_size != a->value_size ||
        (a->key_size != 64 && a->key_size != 128))
        return false;
    /* Without cap and mask the scale is applied after the maximum, so it must be positive. */
    if (a->desc->scale <= 1e-6 || a->n_queries < MIN_QUERIES || a->n_keys == 0 ||
        (a->sinks && a->pages))
        return false;
    uint64_t pack[3], grid[3];
    make_pack_grid(a, pack);
    make_grid(a, grid);
    return fits(a, pack) && fits(a, grid) && rx_attention_is_aligned(a->q, 8) &&
           rx_attention_is_aligned(a->k, 8) && rx_attention_is_aligned(a->v, 8) &&
           rx_gpu_offset(a->out) % 8 == 0;
}

static void add_pack(rx_gpu_build *b, const rx_attention *a, rx_gpu_ref k, rx_gpu_ref v)
{
    uint64_t grid[3];
    make_pack_grid(a, grid);
    const rx_args_attention_base base = rx_attention_args(a, false, 1, 1);
    const rx_args_attention_pack args = {
        .bind = {.packed_k = k, .k = base.bind.k, .v = base.bind.v, .lengths = base.bind.lengths,
                 .other = base.bind.other, .flags = base.bind.flags, .o = v},
        .spec = {.attention_base = base.spec, .BLOCK = BLOCK_KEYS},
        .push = {base.push},
    };
    set_grid(rx_add_attention_pack(b, RX_K_attention_pack, LOCAL, &args), grid);
}

bool rx_attention_frag(rx_gpu_build *b, const rx_attention *a)
{
    if (!suits(a))
        return false;
    const rx_gpu_caps *caps = a->call->caps;
    rx_gpu_ref k = rx_gpu_scratch(b, packed_bytes(a)), v = rx_gpu_scratch(b, packed_bytes(a));
    add_pack(b, a, k, v);

    static const rx_kernel kernels[2][2] = { /* [bf16][128 elements] */
        {RX_K_attention_frag64, RX_K_attention_frag128},
        {RX_K_attention_frag64_bf, RX_K_attention_frag128_bf}};
    rx_kernel kernel = kernels[a->k->dtype == RLX_BF16][a->key_size == 128];
    uint64_t grid[3], units = caps->compute_units ? caps->compute_units : 32;
    make_grid(a, grid);
    /* Few workgroups: each compute unit gets one with many keys and one with few. */
    const uint64_t n_groups = grid[0] * grid[1] * grid[2];
    const rx_args_attention_base base =
        rx_attention_args(a, false, n_groups, a->desc->causal && n_groups <= 2 * units ? 2 : 1);
    rx_args_attention_frag args = {
        .bind = {base.bind},
        .spec = {base.spec},
        .push = {.attention_lead = base.push.attention_lead,
                 .attention_rest = base.push.attention_rest},
    };
    args.bind.attention_base.k = k;
    args.bind.attention_base.v = v;
    rx_gpu_dispatch *d = rx_add_attention_frag(b, kernel, LOCAL, &args);
    RX_PUSH_ADDRESS(d, attention_frag, attention_base.k, k_low);
    RX_PUSH_ADDRESS(d, attention_frag, attention_base.v, v_low);
    set_grid(d, grid);
    return true;
}
