/* SPDX-License-Identifier: MIT */
/* random_uniform, random_normal and sample on GPUs. cpu/ref/random.c says what they mean, to the
 * bit. */
#include "base/dtype.h"
#include "gpu/walk.h"

static rlx_status lower_random(rx_gpu_build *b, const rx_gpu_call *c, bool normal)
{
    const rlx_random_desc *a = c->attr;
    const rx_view *seed = rx_gpu_in(c, 0), *y = &c->out[0];
    int64_t n = rx_view_elements(y);
    if (n == 0)
        return RLX_OK;
    rx_gpu_dispatch *d = rx_flat_add(b, c->caps, RX_K_random, ((uint64_t)n + 3) / 4);
    rx_spec(d, y->dtype);
    rx_spec(d, seed ? seed->dtype : 0);
    rx_spec(d, normal);
    rx_gpu_bind(d, seed ? RX_REF_IN(0) : RX_REF_NONE, false);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    rx_gpu_push(d, (uint32_t)n);
    rx_gpu_push(d, (uint32_t)(uint64_t)a->seed);
    rx_gpu_push(d, (uint32_t)((uint64_t)a->seed >> 32));
    rx_gpu_push(d, seed ? rx_gpu_offset(seed) : 0);
    rx_gpu_push_f32(d, (float)a->lo);
    rx_gpu_push_f32(d, (float)(normal ? a->hi : a->hi - a->lo));
    rx_gpu_push_f32(d, normal ? 0 : rx_dtype_below(y->dtype, (float)a->hi));
    rx_gpu_push(d, (uint32_t)(c->part_first / 4));
    return RLX_OK;
}

rlx_status rx_gpu_lower_random_uniform(rx_gpu_build *b, const rx_gpu_call *c)
{
    return lower_random(b, c, false);
}

rlx_status rx_gpu_lower_random_normal(rx_gpu_build *b, const rx_gpu_call *c)
{
    return lower_random(b, c, true);
}

#define SAMPLE_LOCAL 1024 /* MAX_LOCAL of sample.comp */

/* A power of two that suits rows of n tokens. */
static uint32_t sample_local(const rx_gpu_caps *caps, int64_t n)
{
    uint32_t most = caps->is_software ? 64 : SAMPLE_LOCAL, local = 32;
    most = most < caps->max_invocations ? most : caps->max_invocations;
    while (local * 2 <= most && local * 2 <= n)
        local *= 2;
    return local;
}

rlx_status rx_gpu_lower_sample(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_sample_desc *a = c->attr;
    const rx_view *x = &c->in[0], *seed = rx_gpu_in(c, 1), *params = rx_gpu_in(c, 2);
    int64_t rows = rx_view_elements(&c->out[0]), size = x->dim[x->rank - 1];
    if (rows == 0)
        return RLX_OK;
    rx_gpu_dispatch *d = rx_gpu_add(b, RX_K_sample, sample_local(c->caps, size));
    rx_spec(d, x->dtype);
    rx_spec(d, seed ? seed->dtype : 0);
    rx_spec(d, params != NULL);
    rx_gpu_bind(d, RX_REF_IN(0), false);
    rx_gpu_bind(d, seed ? RX_REF_IN(1) : RX_REF_NONE, false);
    rx_gpu_bind(d, params ? RX_REF_IN(2) : RX_REF_NONE, false);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    rx_gpu_push(d, (uint32_t)rows);
    rx_gpu_push(d, (uint32_t)size);
    rx_gpu_push(d, rx_gpu_offset(x));
    rx_gpu_push(d, (uint32_t)(uint64_t)a->seed);
    rx_gpu_push(d, (uint32_t)((uint64_t)a->seed >> 32));
    rx_gpu_push(d, seed ? rx_gpu_offset(seed) : 0);
    rx_gpu_push(d, params ? rx_gpu_offset(params) : 0);
    rx_gpu_push_f32(d, (float)a->temperature);
    rx_gpu_push(d, a->top_k < INT32_MAX ? (uint32_t)a->top_k : 0);
    rx_gpu_push_f32(d, (float)a->top_p);
    rx_gpu_push_f32(d, (float)a->min_p);
    rx_gpu_push(d, (uint32_t)c->part_first);
    rx_gpu_grid(d, c->caps, (uint64_t)rows);
    return RLX_OK;
}
