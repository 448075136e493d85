/* SPDX-License-Identifier: MIT */
/* Softmax and norms on GPUs. Dense rows that fit in the registers of a workgroup take one dispatch
 * that reads and writes once (shaders/rows.comp); any other layout and length takes two: statistics
 * per row, then the elements (row_stats.comp, row_apply.comp). */
#include "gpu/select/rows.h"

#define MAX_LEVELS 6
#define MAX_VALUES 32 /* elements per invocation of rows.comp */
#define STATS_BYTES 12 /* statistics of a row, or of a part of one: row_stats.comp */

/* A step as rows.glsl sees it. Absent operands and results are NULL. */
typedef struct row_step {
    const rx_gpu_call *call;
    uint32_t mode; /* RX_CODE_SOFTMAX, ... */
    rx_rows rows;
    const rx_view *x, *residual, *gamma, *beta, *y, *sum;
    size_t gamma_in, beta_in; /* operand numbers */
    double eps;
    bool plus_one;
    uint64_t w_div;
    int64_t g_stride, b_stride;
    int n_levels;
    int64_t dim[RLX_MAX_RANK], g_level[RLX_MAX_RANK], b_level[RLX_MAX_RANK];
} row_step;

/* ---- Dispatches ------------------------------------------------------------------------------ */

static uint32_t offset_of(const rx_view *v) { return v ? rx_gpu_offset(v) : 0; }

static rx_gpu_ref ref_if(const rx_view *v, rx_gpu_ref ref) { return v ? ref : RX_REF_NONE; }

/* OUTS of rows.def. Only software devices are known to convert infinities to f16 wrong. */
static uint32_t output_bits(const row_step *s)
{
    return (s->y ? 1u : 0u) | (s->sum ? 2u : 0u) | (s->call->caps->is_software ? 4u : 0u);
}

static rx_spec_rows_base step_spec(const row_step *s)
{
    return (rx_spec_rows_base){
        .TX = s->x->dtype, .TG = s->gamma ? s->gamma->dtype : RLX_NO_TYPE,
        .TB = s->beta ? s->beta->dtype : RLX_NO_TYPE, .MODE = s->mode,
        .RESIDUAL = s->residual != NULL, .PLUS_ONE = s->plus_one, .OUTS = output_bits(s),
        .LEVELS = (uint32_t)s->n_levels,
    };
}

static rx_push_rows_base step_push(const row_step *s)
{
    rx_push_rows_base p = {
        .rows = (uint32_t)rx_rows_count(&s->rows), .n = (uint32_t)s->rows.n,
        .inner = (uint32_t)s->rows.inner, .x_at = offset_of(s->x), .res_at = offset_of(s->residual),
        .y_at = offset_of(s->y), .sum_at = offset_of(s->sum), .g_at = offset_of(s->gamma),
        .b_at = offset_of(s->beta), .eps = (float)s->eps, .w_div = (uint32_t)s->w_div,
        .g_stride = (uint32_t)s->g_stride, .b_stride = (uint32_t)s->b_stride,
        .level_dim = {1, 1, 1, 1, 1},
    };
    for (int i = 0; i < s->n_levels; i++) {
        if (i > 0)
            p.level_dim[i - 1] = (uint32_t)s->dim[i];
        p.g_level[i] = (uint32_t)s->g_level[i];
        p.b_level[i] = (uint32_t)s->b_level[i];
    }
    return p;
}

/* Statistics of each row or of each of its parts; with `pieces` those of rows from those of their
 * parts. */
static void add_stats(rx_gpu_build *b, const row_step *s, const rx_sharing *h, rx_gpu_ref pieces,
                      rx_gpu_ref stats)
{
    bool from_parts = pieces != RX_REF_NONE;
    const rx_args_row_stats a = {
        .bind = {.x = RX_REF_IN(0), .residual = ref_if(s->residual, RX_REF_IN(1)),
                 .pieces = pieces, .stats = stats},
        .spec = {.rows_base = step_spec(s), .COLS = h->cols, .ACROSS = h->across,
                 .FROM_PARTS = from_parts, .THREADS = h->local},
        .push = {.rows_base = step_push(s), .parts = (uint32_t)h->parts,
                 .chunk = (uint32_t)h->chunk},
    };
    rx_gpu_dispatch *d = rx_add_row_stats(b, RX_K_row_stats, h->local, &a);
    uint64_t blocks = rx_ceil_div(rx_rows_count(&s->rows), h->cols);
    rx_gpu_grid(d, s->call->caps, from_parts ? blocks : blocks * h->parts);
}

/* Two dispatches for any rows, three when rows are split. */
static void add_two_passes(rx_gpu_build *b, const row_step *s)
{
    uint64_t n_rows = rx_rows_count(&s->rows), n = s->rows.n;
    rx_sharing h = rx_share_rows(s->call->caps, n_rows, n, s->rows.inner > 1, 1);
    rx_gpu_ref stats = rx_gpu_scratch(b, n_rows * STATS_BYTES);
    if (h.parts > 1) {
        rx_gpu_ref pieces = rx_gpu_scratch(b, n_rows * h.parts * STATS_BYTES);
        add_stats(b, s, &h, RX_REF_NONE, pieces);
        h.across = false;
        h.local = rx_gpu_local(s->call->caps, 256);
        h.cols = rx_rows_of_group(&h.local, n_rows, h.parts, false);
        add_stats(b, s, &h, pieces, stats);
    } else {
        add_stats(b, s, &h, RX_REF_NONE, stats);
    }

    uint64_t words = rx_ceil_div(n_rows * n, rx_per_word(s->x->dtype));
    const rx_args_row_apply a = {
        .bind = {.x = RX_REF_IN(0), .residual = ref_if(s->residual, RX_REF_IN(1)),
                 .gamma = ref_if(s->gamma, RX_REF_IN(s->gamma_in)),
                 .beta = ref_if(s->beta, RX_REF_IN(s->beta_in)), .stats = stats,
                 .y = ref_if(s->y, RX_REF_OUT(0)), .sum = ref_if(s->sum, RX_REF_OUT(1))},
        .spec = {.rows_base = step_spec(s)},
        .push = {.rows_base = step_push(s)},
    };
    const rx_gpu_caps *caps = s->call->caps;
    rx_flat_grid(rx_add_row_apply(b, RX_K_row_apply, rx_gpu_local(caps, 256), &a), caps, words);
}

/* Elements of a load of rows.comp: 16 bytes, a word, or 0 when rows are not word-aligned. */
static uint32_t load_elements(const row_step *s)
{
    const rx_view *views[] = {s->x, s->residual, s->y, s->sum};
    uint32_t word = rx_per_word(s->x->dtype), per = 4 * word;
    if (s->rows.inner != 1)
        return 0;
    for (; per >= word; per = per > word ? word : 0) {
        bool fits = s->rows.n % per == 0;
        for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
            fits = fits && offset_of(views[i]) % per == 0;
        if (fits)
            return per;
    }
    return 0;
}

/* Whether gamma and beta can be read with the loads of a row. */
static bool has_dense_weights(const row_step *s, uint32_t per)
{
    if (s->w_div != 1 || s->g_stride != 1 || s->b_stride != 1 || offset_of(s->gamma) % per ||
        offset_of(s->beta) % per)
        return false;
    for (int i = 0; i < s->n_levels; i++)
        if (s->g_level[i] % per || s->b_level[i] % per)
            return false;
    return true;
}

/* One dispatch for rows in registers; false when they do not fit. */
static bool add_one_pass(rx_gpu_build *b, const row_step *s)
{
    const rx_gpu_caps *caps = s->call->caps;
    uint32_t per = load_elements(s);
    if (!per)
        return false;
    uint64_t loads = s->rows.n / per, n_rows = rx_rows_count(&s->rows);
    uint32_t most = rx_gpu_local(caps, s->rows.n > 16384 ? 1024 : 512);
    uint32_t team = rx_pow2_up(rx_ceil_div(loads * per, 16));
    team = team < most ? team : most;
    uint64_t items = rx_ceil_div(loads, team);
    if (items * per > MAX_VALUES)
        return false;

    bool v4 = per >= 4 && per == 4 * rx_per_word(s->x->dtype);
    bool sg = caps->subgroup_arith && team >= 32;
    rx_kernel k = sg ? (v4 ? RX_K_rows_v4_sg : RX_K_rows_sg) : v4 ? RX_K_rows_v4 : RX_K_rows;
    uint32_t local = rx_gpu_local(caps, 128);
    if (sg || local < team)
        local = team;
    const rx_args_rows a = {
        .bind = {.x = RX_REF_IN(0), .residual = ref_if(s->residual, RX_REF_IN(1)),
                 .gamma = ref_if(s->gamma, RX_REF_IN(s->gamma_in)),
                 .beta = ref_if(s->beta, RX_REF_IN(s->beta_in)),
                 .y = ref_if(s->y, RX_REF_OUT(0)), .sum = ref_if(s->sum, RX_REF_OUT(1))},
        .spec = {.rows_base = step_spec(s), .TEAM = team, .ITEMS = (uint32_t)items,
                 .THREADS = local, .DENSE = has_dense_weights(s, per)},
        .push = {.rows_base = step_push(s)},
    };
    rx_gpu_dispatch *d = rx_add_rows(b, k, local, &a);
    rx_gpu_grid(d, caps, rx_ceil_div(n_rows, local / team));
    return true;
}

static rlx_status add_rows(rx_gpu_build *b, const row_step *s)
{
    if (rx_view_elements(s->x) == 0 || (!s->y && !s->sum))
        return RLX_OK;
    if (!add_one_pass(b, s))
        add_two_passes(b, s);
    return RLX_OK;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static row_step make_step(const rx_gpu_call *c, uint32_t mode, rx_rows rows)
{
    return (row_step){.call = c, .mode = mode, .rows = rows, .x = &c->in[0], .y = rx_gpu_out(c, 0),
                      .w_div = 1, .g_stride = 1, .b_stride = 1};
}

static void set_weights(row_step *s, size_t gamma, size_t beta)
{
    s->gamma_in = gamma;
    s->beta_in = beta;
    s->gamma = rx_gpu_in(s->call, gamma);
    s->beta = rx_gpu_in(s->call, beta);
}

rlx_status rx_gpu_lower_softmax(rx_gpu_build *b, const rx_gpu_call *c)
{
    int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    row_step s = make_step(c, c->op == RX_OP_softmax ? RX_CODE_SOFTMAX : RX_CODE_LOG_SOFTMAX,
                           rx_gpu_rows(&c->in[0], axis));
    return add_rows(b, &s);
}

/* layer_norm, rms_norm: all axes from `axis` on are merged. */
rlx_status rx_gpu_lower_layer_norm(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    int64_t axis = d->axis < 0 ? d->axis + x->rank : d->axis;
    rx_rows rows = rx_gpu_rows(x, axis);
    rows.n *= rows.inner;
    rows.inner = 1;
    row_step s = make_step(c, c->op == RX_OP_rms_norm ? RX_CODE_RMS : RX_CODE_NORM, rows);
    s.eps = d->eps;
    set_weights(&s, 1, 2);
    return add_rows(b, &s);
}

/* [N, C, ...]: over the channels of a pixel, or over a group of channels with all pixels. */
rlx_status rx_gpu_lower_channel_norm(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    rx_rows rows = rx_gpu_rows(x, 1);
    row_step s = make_step(c, RX_CODE_NORM, rows);
    s.eps = d->eps;
    set_weights(&s, 1, 2);
    if (c->op == RX_OP_layer_norm2d)
        return add_rows(b, &s);
    uint64_t groups = c->op == RX_OP_group_norm ? (uint64_t)d->groups : rows.n;
    uint64_t size = groups ? rows.n / groups : 0;
    s.rows = (rx_rows){rows.outer * groups, size * rows.inner, 1};
    s.w_div = rows.inner;
    s.n_levels = 2;
    s.dim[0] = (int64_t)rows.outer;
    s.dim[1] = (int64_t)groups;
    s.g_level[1] = s.b_level[1] = (int64_t)size;
    return add_rows(b, &s);
}

/* Stride of v along axis i of x, to which it broadcasts. */
static int64_t stride_along(const rx_view *v, const rx_view *x, int i)
{
    int own = i - (x->rank - v->rank);
    return own < 0 || v->dim[own] == 1 ? 0 : v->stride[own];
}

/* scale and shift broadcast to x: their strides along the row axes, merged. */
rlx_status rx_gpu_lower_ada_layer_norm(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    int last = x->rank - 1;
    row_step s = make_step(c, RX_CODE_NORM, rx_gpu_rows(x, last));
    s.eps = d->eps;
    s.plus_one = true;
    set_weights(&s, 1, 2);
    s.g_stride = stride_along(s.gamma, x, last);
    s.b_stride = stride_along(s.beta, x, last);
    for (int i = 0; i < last; i++) {
        int64_t dim = x->dim[i], g = stride_along(s.gamma, x, i), h = stride_along(s.beta, x, i);
        int k = s.n_levels - 1;
        if (dim == 1)
            continue;
        if (k >= 0 && s.g_level[k] == g * dim && s.b_level[k] == h * dim)
            s.dim[k] *= dim;
        else
            s.dim[k = s.n_levels++] = dim;
        s.g_level[k] = g;
        s.b_level[k] = h;
    }
    if (s.n_levels > MAX_LEVELS)
        return rx_gpu_fail(b, c, "scale and shift broadcast along more axes than kernels take");
    return add_rows(b, &s);
}

rlx_status rx_gpu_lower_residual_norm(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_residual_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    row_step s = make_step(c, d->rms ? RX_CODE_RMS : RX_CODE_NORM, rx_gpu_rows(x, x->rank - 1));
    s.eps = d->eps;
    s.residual = rx_gpu_in(c, 1);
    s.sum = rx_gpu_out(c, 1);
    set_weights(&s, 2, 3);
    return add_rows(b, &s);
}
