/* SPDX-License-Identifier: MIT */
/* random_uniform, random_normal and sample on GPUs, bit-equal to cpu/ref/random.c. */
#include "base/dtype.h"
#include "base/half.h"
#include "gpu/select/walk.h"

static rlx_status lower_random(rx_gpu_build *b, const rx_gpu_call *c, bool normal)
{
    const rlx_random_desc *a = c->attr;
    const rx_view *seed = rx_gpu_in(c, 0), *y = &c->out[0];
    int64_t n = rx_view_elements(y);
    if (n == 0)
        return RLX_OK;
    const uint64_t key = (uint64_t)a->seed, work = ((uint64_t)n + 3) / 4;
    const rx_args_random args = {
        .bind = {.seed = seed ? RX_REF_IN(0) : RX_REF_NONE, .y = RX_REF_OUT(0)},
        .spec = {.TY = y->dtype, .TSEED = seed ? seed->dtype : RLX_NO_TYPE, .NORMAL = normal},
        .push = {.n = (uint32_t)work, .total = (uint32_t)n, .seed_low = (uint32_t)key,
                 .seed_high = (uint32_t)(key >> 32), .seed_at = seed ? rx_gpu_offset(seed) : 0,
                 .lo = (float)a->lo, .width = (float)(normal ? a->hi : a->hi - a->lo),
                 .last = normal ? 0 : rx_dtype_below(y->dtype, (float)a->hi),
                 .first = (uint32_t)(c->part_first / 4)},
    };
    rx_flat_grid(rx_add_random(b, RX_K_random, rx_flat_local(c->caps), &args), c->caps, work);
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


/* Tokens per lane: lavapipe of Mesa 22 leaves loops after 65535 iterations in total, and a kernel
 * has about twenty loops. */
#define SOFTWARE_EACH 512

/* A power of two for rows of n tokens. */
static uint32_t sample_local(const rx_gpu_caps *caps, int64_t n)
{
    uint32_t most = caps->is_software ? 64 : RX_CODE_MAX_LOCAL, local = 32;
    while (most < RX_CODE_MAX_LOCAL && n / most > SOFTWARE_EACH)
        most *= 2;
    most = most < caps->max_invocations ? most : caps->max_invocations;
    while (local * 2 <= most && local * 2 <= n)
        local *= 2;
    return local;
}

/* The arguments common to all kernels of sample. */
static rx_args_sample_base make_args(const rx_gpu_call *c)
{
    const rlx_sample_desc *a = c->attr;
    const rx_view *x = &c->in[0], *seed = rx_gpu_in(c, 1), *params = rx_gpu_in(c, 2);
    return (rx_args_sample_base){
        .bind = {.x = RX_REF_IN(0), .seed = seed ? RX_REF_IN(1) : RX_REF_NONE,
                 .params = params ? RX_REF_IN(2) : RX_REF_NONE},
        .spec = {.TX = x->dtype, .TSEED = seed ? seed->dtype : RLX_NO_TYPE,
                 .PARAMS = params != NULL},
        .push = {.rows = (uint32_t)rx_view_elements(&c->out[0]),
                 .size = (uint32_t)x->dim[x->rank - 1], .x_at = rx_gpu_offset(x),
                 .seed_low = (uint32_t)(uint64_t)a->seed,
                 .seed_high = (uint32_t)((uint64_t)a->seed >> 32),
                 .seed_at = seed ? rx_gpu_offset(seed) : 0,
                 .params_at = params ? rx_gpu_offset(params) : 0,
                 .temperature = rx_f32_bits((float)a->temperature),
                 .top_k = a->top_k < INT32_MAX ? (uint32_t)a->top_k : 0,
                 .top_p = rx_f32_bits((float)a->top_p), .min_p = rx_f32_bits((float)a->min_p),
                 .first_row = (uint32_t)c->part_first,
                 .seed_step = seed && seed->rank == 1,
                 .params_step = params && params->rank == 2 ? 4 : 0},
    };
}

/* Rows of so many tokens are shared by workgroups, each of which reads the results of all of
 * them. */
#define LEAST_SHARED 8192
#define MOST_SHARED (1 << 20)

typedef struct slicing {
    const rx_gpu_call *call;
    uint64_t rows;
    uint32_t local, slices, row_words;
} slicing;

/* False when one workgroup per row is faster. */
static bool find_slicing(const rx_gpu_call *c, slicing *s)
{
    const rx_gpu_caps *caps = c->caps;
    const int64_t rows = rx_view_elements(&c->out[0]), size = c->in[0].dim[c->in[0].rank - 1];
    const int64_t units = caps->compute_units ? caps->compute_units : 32;
    const uint32_t local = caps->max_invocations < RX_CODE_MAX_LANES ? 128 : RX_CODE_MAX_LANES;
    const uint32_t tokens = RX_CODE_AT_ONCE * local; /* of a slice */
    const uint32_t slices = (uint32_t)((size + tokens - 1) / tokens);
    if (size < LEAST_SHARED || size > MOST_SHARED || rows > units)
        return false;
    /* as in sample_work.glsl: sums, the list, three words per slice and one per chunk */
    *s = (slicing){c, (uint64_t)rows, local, slices,
                   RX_CODE_HEAD_WORDS + 2 * RX_CODE_BUCKETS + 2 * RX_CODE_MAX_LISTED +
                       slices * (3 + local / RX_CODE_CHUNK_LANES)};
    return (uint64_t)rows * s->row_words * 4 <= caps->max_binding_bytes;
}

static rx_args_sample_work make_shared(const slicing *s)
{
    const rx_args_sample_base a = make_args(s->call);
    return (rx_args_sample_work){
        .bind = {.sample_base = a.bind},
        .spec = {.sample_base = a.spec, .LANES = s->local},
        .push = {.sample_base = a.push, .slices = s->slices, .row_words = s->row_words},
    };
}

/* Whether buckets may be needed: neither greedy nor a top_k is known at this point. */
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
    const rx_args_sample_work a = make_shared(s);
    const rx_args_sample_slice slice = {.bind = {.sample_work = a.bind, .scratch = scratch},
                                        .spec = {.sample_work = a.spec},
                                        .push = {.sample_work = a.push}};
    for (size_t i = 0; i < n; i++)
        rx_gpu_grid(rx_add_sample_slice(b, steps[i], s->local, &slice), s->call->caps,
                    s->rows * s->slices);
    const rx_args_sample_join join = {
        .bind = {.sample_work = a.bind, .y = RX_REF_OUT(0), .scratch = scratch},
        .spec = {.sample_work = a.spec},
        .push = {.sample_work = a.push}};
    const rx_view *x = &s->call->in[0];
    const uint32_t local = sample_local(s->call->caps, x->dim[x->rank - 1]);
    rx_gpu_grid(rx_add_sample_join(b, RX_K_sample_join, local, &join), s->call->caps, s->rows);
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
    const rx_args_sample_base a = make_args(c);
    const rx_args_sample args = {.bind = {.sample_base = a.bind, .y = RX_REF_OUT(0)},
                                 .spec = {.sample_base = a.spec},
                                 .push = {.sample_base = a.push}};
    rx_gpu_grid(rx_add_sample(b, RX_K_sample, local, &args), c->caps, (uint64_t)rows);
    return RLX_OK;
}
