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

/* ---- sample ---------------------------------------------------------------------------------- */

#define SAMPLE_LOCAL 1024 /* MAX_LOCAL of sample_row.glsl */

/* Tokens of a lane: lavapipe of Mesa 22 leaves loops after 65535 rounds of all of them together, of
 * which a kernel has some twenty. */
#define SOFTWARE_EACH 512

/* A power of two that suits rows of n tokens. */
static uint32_t sample_local(const rx_gpu_caps *caps, int64_t n)
{
    uint32_t most = caps->is_software ? 64 : SAMPLE_LOCAL, local = 32;
    while (most < SAMPLE_LOCAL && n / most > SOFTWARE_EACH)
        most *= 2;
    most = most < caps->max_invocations ? most : caps->max_invocations;
    while (local * 2 <= most && local * 2 <= n)
        local *= 2;
    return local;
}

/* What all kernels of sample begin with. */
static rx_gpu_dispatch *add_sample(rx_gpu_build *b, const rx_gpu_call *c, rx_kernel k,
                                   uint32_t local)
{
    const rlx_sample_desc *a = c->attr;
    const rx_view *x = &c->in[0], *seed = rx_gpu_in(c, 1), *params = rx_gpu_in(c, 2);
    rx_gpu_dispatch *d = rx_gpu_add(b, k, local);
    rx_spec(d, x->dtype);
    rx_spec(d, seed ? seed->dtype : 0);
    rx_spec(d, params != NULL);
    rx_gpu_bind(d, RX_REF_IN(0), false);
    rx_gpu_bind(d, seed ? RX_REF_IN(1) : RX_REF_NONE, false);
    rx_gpu_bind(d, params ? RX_REF_IN(2) : RX_REF_NONE, false);
    rx_gpu_push(d, (uint32_t)rx_view_elements(&c->out[0]));
    rx_gpu_push(d, (uint32_t)x->dim[x->rank - 1]);
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
    return d;
}

/* Tokens of rows that many workgroups share: each looks at what all of them have found. */
#define LEAST_SHARED 8192
#define MOST_SHARED (1 << 20)
#define SLICE_LOCAL 256 /* MAX_LANES of sample_slice.comp */

typedef struct slicing {
    const rx_gpu_call *call;
    uint64_t rows;
    uint32_t local, slices, row_words;
} slicing;

/* False when a workgroup a row is better. */
static bool find_slicing(const rx_gpu_call *c, slicing *s)
{
    const rx_gpu_caps *caps = c->caps;
    const int64_t rows = rx_view_elements(&c->out[0]), size = c->in[0].dim[c->in[0].rank - 1];
    const int64_t units = caps->compute_units ? caps->compute_units : 32;
    const uint32_t local = caps->max_invocations < SLICE_LOCAL ? 128 : SLICE_LOCAL;
    const uint32_t slices = (uint32_t)((size + 8 * local - 1) / (8 * local));
    if (size < LEAST_SHARED || size > MOST_SHARED || rows > units)
        return false;
    /* As in sample_work.glsl: sums, the list, three words a slice and one a chunk of 8 lanes. */
    *s = (slicing){c, (uint64_t)rows, local, slices,
                   8 + 2 * 1024 + 2 * 512 + slices * (3 + local / 8)};
    return (uint64_t)rows * s->row_words * 4 <= caps->max_binding_bytes;
}

static rx_gpu_dispatch *add_shared(rx_gpu_build *b, const slicing *s, rx_kernel k, uint32_t local)
{
    rx_gpu_dispatch *d = add_sample(b, s->call, k, local);
    rx_spec(d, s->local);
    rx_gpu_push(d, s->slices);
    rx_gpu_push(d, s->row_words);
    return d;
}

/* True when buckets may be needed: neither the first token nor the first top_k are asked for, as
 * far as is known. */
static bool may_need_buckets(const rx_gpu_call *c)
{
    const rlx_sample_desc *a = c->attr;
    const int64_t size = c->in[0].dim[c->in[0].rank - 1];
    if (rx_gpu_in(c, 2))
        return true;
    return (float)a->temperature >= 0x1p-126f && (a->top_k < 1 || a->top_k >= size);
}

static void add_shared_rows(rx_gpu_build *b, const slicing *s)
{
    const rx_kernel steps[] = {RX_K_sample_tops, RX_K_sample_sums, RX_K_sample_list};
    const rx_gpu_ref scratch = rx_gpu_scratch(b, s->rows * s->row_words * 4);
    const size_t n = may_need_buckets(s->call) ? 3 : 1;
    for (size_t i = 0; i < n; i++) {
        rx_gpu_dispatch *d = add_shared(b, s, steps[i], s->local);
        rx_gpu_bind(d, scratch, true);
        rx_gpu_grid(d, s->call->caps, s->rows * s->slices);
    }
    const rx_view *x = &s->call->in[0];
    const uint32_t local = sample_local(s->call->caps, x->dim[x->rank - 1]);
    rx_gpu_dispatch *d = add_shared(b, s, RX_K_sample_join, local);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    rx_gpu_bind(d, scratch, false);
    rx_gpu_grid(d, s->call->caps, s->rows);
}

rlx_status rx_gpu_lower_sample(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *x = &c->in[0];
    const int64_t rows = rx_view_elements(&c->out[0]);
    slicing s;
    if (rows == 0)
        return RLX_OK;
    if (find_slicing(c, &s)) {
        add_shared_rows(b, &s);
        return RLX_OK;
    }
    const uint32_t local = sample_local(c->caps, x->dim[x->rank - 1]);
    rx_gpu_dispatch *d = add_sample(b, c, RX_K_sample, local);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    rx_gpu_grid(d, c->caps, (uint64_t)rows);
    return RLX_OK;
}
