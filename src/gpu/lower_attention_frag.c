/* SPDX-License-Identifier: MIT */
/* Attention of many rows in f16 or bf16 by cooperative matrices: k and v are brought into the order
 * of fragments in scratch memory (attention_pack.comp), then multiplied from there
 * (attention_frag.comp). */
#include "gpu/attention.h"
#include "gpu/product.h"

#define BLOCK 64      /* keys that the kernel takes at a time */
#define MIN_QUERIES 32
#define LOCAL 128     /* four subgroups */
#define WORD_K 9      /* of the push constants: where k begins */
#define WORD_V 13

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
    /* Without cap and mask the scale is applied after the maximum. */
    if (a->desc->scale <= 1e-6 || a->n_queries < MIN_QUERIES || a->n_keys == 0 ||
        (a->sinks && a->pages))
        return false;
    return rx_attention_is_aligned(a->q, 8) && rx_attention_is_aligned(a->k, 8) &&
           rx_attention_is_aligned(a->v, 8) && rx_gpu_offset(a->out) % 8 == 0;
}

static uint64_t padded_keys(const rx_attention *a)
{
    return (uint64_t)(a->n_keys + BLOCK - 1) / BLOCK * BLOCK;
}

/* Bytes of packed k or v; the kernel asks for one block more than there is. */
static uint64_t packed_bytes(const rx_attention *a)
{
    uint64_t keys = (uint64_t)(a->n_batch * a->n_kv_heads) * padded_keys(a) + BLOCK;
    return keys * (uint64_t)a->key_size * 2;
}

static void add_pack(rx_gpu_build *b, const rx_attention *a, rx_gpu_ref k, rx_gpu_ref v)
{
    /* 32 invocations for 64 elements of 16 keys of k, or of v. */
    uint64_t units = (uint64_t)(a->n_batch * a->n_kv_heads) * padded_keys(a) / 16 *
                     (uint64_t)(a->key_size / 32);
    rx_gpu_dispatch *d = rx_gpu_add(b, RX_K_attention_pack, LOCAL);
    rx_attention_bind(d, a, RX_REF_IN(RX_ATTN_K), RX_REF_IN(RX_ATTN_V), v);
    d->bind[0] = k;
    d->writes |= 1;
    rx_attention_spec(d, a, false);
    rx_gpu_spec(d, BLOCK);
    uint64_t n_groups = (units * 32 + LOCAL - 1) / LOCAL;
    rx_attention_push(d, a, n_groups, 1);
    rx_gpu_grid(d, a->call->caps, n_groups);
}

/* Heads that are walked together: all, unless their keys and values are too many for a cache. */
static uint32_t pick_together(const rx_attention *a)
{
    bool large = 2 * packed_bytes(a) > (UINT64_C(32) << 20);
    return large && a->n_batch * a->n_heads % 16 == 0 ? 16 : 0;
}

bool rx_attention_frag(rx_gpu_build *b, const rx_attention *a)
{
    if (!suits(a))
        return false;
    static const rx_kernel kernels[2][2] = { /* [bf16][128 elements] */
        {RX_K_attention_frag64, RX_K_attention_frag128},
        {RX_K_attention_frag64_bf, RX_K_attention_frag128_bf}};
    const rx_gpu_caps *caps = a->call->caps;
    bool wide = a->key_size == 128;
    rx_gpu_ref k = rx_gpu_scratch(b, packed_bytes(a)), v = rx_gpu_scratch(b, packed_bytes(a));
    add_pack(b, a, k, v);

    rx_gpu_dispatch *d = rx_gpu_add(b, kernels[a->k->dtype == RLX_BF16][wide], LOCAL);
    uint64_t rows = wide ? 64 : 128; /* of a workgroup */
    uint64_t n_groups = ((uint64_t)a->n_queries + rows - 1) / rows *
                        (uint64_t)(a->n_batch * a->n_heads);
    uint64_t units = caps->compute_units ? caps->compute_units : 32;
    rx_attention_bind(d, a, k, v, RX_REF_OUT(0));
    rx_attention_spec(d, a, false);
    rx_gpu_spec(d, pick_together(a));
    /* Few groups: each unit gets one with many keys and one with few. */
    rx_gpu_spec(d, a->desc->causal && n_groups <= 2 * units);
    rx_attention_push(d, a, n_groups, 1);
    rx_gpu_push_address(d, 1, WORD_K);
    rx_gpu_push_address(d, 2, WORD_V);
    rx_gpu_grid(d, caps, n_groups);
    return true;
}
