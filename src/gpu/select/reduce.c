/* SPDX-License-Identifier: MIT */
/* reduce_*, argmax, argmin, cumsum, cumprod and cummax on GPUs, and helpers for operations along an
 * axis. Few long rows are split, and a second dispatch joins the partial results. */
#include "gpu/select/rows.h"

/* ---- Shared ---------------------------------------------------------------------------------- */

rx_rows rx_gpu_rows(const rx_view *v, int64_t axis)
{
    rx_rows r = {1, (uint64_t)v->dim[axis], 1};
    for (int i = 0; i < v->rank; i++) {
        if (i < axis)
            r.outer *= (uint64_t)v->dim[i];
        if (i > axis)
            r.inner *= (uint64_t)v->dim[i];
    }
    return r;
}

uint32_t rx_pow2_up(uint64_t n)
{
    uint32_t p = 1;
    while (p < n && p < 0x80000000u)
        p *= 2;
    return p;
}

uint32_t rx_pow2_down(uint64_t n)
{
    uint32_t p = rx_pow2_up(n);
    return p > n ? p / 2 : p;
}

uint32_t rx_gpu_local(const rx_gpu_caps *caps, uint32_t wish)
{
    return rx_pow2_down(wish < caps->max_invocations ? wish : caps->max_invocations);
}

uint32_t rx_gpu_busy_groups(const rx_gpu_caps *caps)
{
    if (caps->is_software)
        return 32;
    return caps->compute_units ? 8 * caps->compute_units : 512;
}

uint32_t rx_per_word(rlx_dtype t)
{
    int64_t bytes = rlx_dtype_block_bytes(t);
    return bytes < 4 ? (uint32_t)(4 / bytes) : 1;
}

/* The fewest invocations per row that the row keeps busy; a short row has one. */
uint32_t rx_rows_of_group(uint32_t *local, uint64_t rows, uint64_t n, bool across)
{
    uint32_t slices = rx_pow2_up(rx_ceil_div(n, across ? 16 : 8));
    slices = slices < *local ? slices : *local;
    uint32_t cols = *local / slices, most = rx_pow2_up(rows);
    if (across && cols < 32)
        cols = *local < 32 ? *local : 32;
    cols = cols < most ? cols : most;
    if (cols * slices < *local)
        *local = cols * slices;
    return cols;
}

/* At least `cols` rows, so that a word of the result has one writer. */
static void widen_group(rx_sharing *s, uint32_t cols)
{
    s->cols = cols;
    s->local = s->local < cols ? cols : s->local;
}

rx_sharing rx_share_rows(const rx_gpu_caps *caps, uint64_t rows, uint64_t n, bool across,
                         uint32_t least_cols)
{
    rx_sharing s = {.local = rx_gpu_local(caps, 256), .across = across, .parts = 1, .chunk = n};
    s.cols = rx_rows_of_group(&s.local, rows, n, across);
    if (s.cols < least_cols)
        widen_group(&s, least_cols);
    uint64_t slices = s.local / s.cols, blocks = rx_ceil_div(rows, s.cols);
    uint64_t parts = rx_gpu_busy_groups(caps) / blocks, most = rx_ceil_div(n, slices * 8);
    parts = parts < most ? parts : most;
    if (parts > 1) {
        s.chunk = rx_ceil_div(rx_ceil_div(n, parts), slices) * slices;
        s.parts = rx_ceil_div(n, s.chunk);
    }
    return s;
}

const rx_view *rx_gpu_out(const rx_gpu_call *c, size_t i)
{
    return i < c->n_out && c->out[i].rank >= 0 ? &c->out[i] : NULL;
}

rx_gpu_ref rx_gpu_values(rx_gpu_build *b, const rx_gpu_call *c, size_t i)
{
    const rx_view *y = &c->out[i];
    if (rx_per_word(y->dtype) == 1)
        return RX_REF_OUT(i);
    return rx_gpu_scratch(b, (uint64_t)rx_view_elements(y) * 4);
}

void rx_gpu_pack_values(rx_gpu_build *b, const rx_gpu_call *c, size_t i, rx_gpu_ref from)
{
    const rx_view *y = &c->out[i];
    uint64_t n = (uint64_t)rx_view_elements(y);
    if (from == RX_REF_OUT(i))
        return;
    const rx_args_pack a = {
        .bind = {.x = from, .y = RX_REF_OUT(i)},
        .spec = {.T = y->dtype},
        .push = {.n = (uint32_t)n, .y_at = rx_gpu_offset(y)},
    };
    rx_flat_grid(rx_add_pack(b, RX_K_pack_values, rx_gpu_local(c->caps, 256), &a), c->caps,
                 rx_ceil_div(n, rx_per_word(y->dtype)));
}

/* ---- reduce ---------------------------------------------------------------------------------- */

typedef uint32_t join_kind; /* RX_CODE_SUM, ... of shaders/value.def */
typedef uint32_t map_kind;  /* RX_CODE_MAP_NONE, ... */

typedef struct reduction {
    rlx_dtype x, y;     /* types in memory */
    rx_gpu_ref x_ref, y_ref;
    int64_t x_at, y_at; /* elements */
    join_kind join;
    map_kind map;
    bool mean, wide;    /* wide: accumulates in 64 bits */
    uint64_t rows, n, count;
    int n_kept, n_reduced;
    int64_t dim[RLX_MAX_RANK], stride[RLX_MAX_RANK]; /* kept axes, then reduced ones */
} reduction;

/* The accumulator type for elements of type t. Products of floats are kept as mantissa and exponent
 * of 32 bits each (SCALED in shaders/value.glsl), since partial ones may overflow. */
static rlx_dtype join_type(rlx_dtype t, bool wide)
{
    if (wide)
        return RLX_I64;
    return rlx_dtype_is_float(t) ? RLX_F32 : RLX_I32;
}

static bool is_scaled(join_kind j, rlx_dtype t)
{
    return j == RX_CODE_PROD && rlx_dtype_is_float(t);
}

/* The identity of a join, as 64 bits. */
static uint64_t join_start(join_kind j, rlx_dtype t)
{
    static const struct { int64_t low, high; } limits[] = {
        [RLX_I8] = {INT8_MIN, INT8_MAX}, [RLX_U8] = {0, UINT8_MAX},
        [RLX_I32] = {INT32_MIN, INT32_MAX}, [RLX_I64] = {INT64_MIN, INT64_MAX},
        [RLX_BOOL] = {0, 1},
    };
    if (j == RX_CODE_SUM)
        return 0;
    if (rlx_dtype_is_float(t)) /* 1, -infinity, infinity */
        return j == RX_CODE_PROD ? 0x3f800000u : j == RX_CODE_MAX ? 0xff800000u : 0x7f800000u;
    if (j == RX_CODE_PROD)
        return 1;
    return (uint64_t)(j == RX_CODE_MAX ? limits[t].low : limits[t].high);
}

/* Appends an axis, merged into the one before where strides allow it. */
static void add_axis(reduction *r, int first, int *n, int64_t dim, int64_t stride)
{
    if (dim == 1)
        return;
    int last = first + *n - 1;
    if (*n > 0 && r->stride[last] == dim * stride) {
        r->dim[last] *= dim;
        r->stride[last] = stride;
        return;
    }
    r->dim[last + 1] = dim;
    r->stride[last + 1] = stride;
    ++*n;
}

static void set_axes(reduction *r, const rx_view *x, unsigned reduced)
{
    r->rows = r->n = 1;
    for (int i = 0; i < x->rank; i++) {
        if (reduced >> i & 1)
            continue;
        add_axis(r, 0, &r->n_kept, x->dim[i], x->stride[i]);
        r->rows *= (uint64_t)x->dim[i];
    }
    for (int i = 0; i < x->rank; i++) {
        if (!(reduced >> i & 1))
            continue;
        add_axis(r, r->n_kept, &r->n_reduced, x->dim[i], x->stride[i]);
        r->n *= (uint64_t)x->dim[i];
    }
    r->count = r->n;
}

/* Elements of a 16-byte load along the last reduced axis; 1 where such loads are not possible. */
static uint32_t load_width(const reduction *r)
{
    uint32_t per = 4 * rx_per_word(r->x);
    int last = r->n_kept + r->n_reduced - 1;
    if (r->wide || per > 8 || r->n_reduced == 0 || r->stride[last] != 1 ||
        r->dim[last] % per || r->x_at % per)
        return 1;
    for (int i = 0; i < last; i++)
        if (r->stride[i] % per)
            return 1;
    return per;
}

static bool runs_across(const reduction *r)
{
    if (r->n_kept == 0)
        return false;
    int64_t kept = r->stride[r->n_kept - 1];
    int64_t reduced = r->n_reduced ? r->stride[r->n_kept + r->n_reduced - 1] : 0;
    return kept == 1 && reduced != 1 && r->rows > 1;
}

/* One dispatch; y is [rows, s->parts] of type y. `start`: the type whose identity initialises. The
 * words of s count loads of `per` elements. */
static void add_reduce(rx_gpu_build *b, const rx_gpu_call *c, const reduction *r,
                       const rx_sharing *s, uint32_t per)
{
    rx_kernel k = is_scaled(r->join, c->in[0].dtype) ? RX_K_reduce_prod
                  : r->wide ? RX_K_reduce_wide : per > 1 ? RX_K_reduce_v4 : RX_K_reduce;
    const uint64_t start = join_start(r->join, c->in[0].dtype);
    rx_args_reduce a = {
        .bind = {.x = r->x_ref, .y = r->y_ref},
        .spec = {.TX = r->x, .TY = r->y, .KIND = r->join, .MAP = r->map, .MEAN = r->mean,
                 .NK = (uint32_t)r->n_kept, .NR = (uint32_t)r->n_reduced, .COLS = s->cols,
                 .ACROSS = s->across, .THREADS = s->local},
        .push = {.rows = (uint32_t)r->rows, .n = (uint32_t)(r->n / per),
                 .parts = (uint32_t)s->parts, .chunk = (uint32_t)s->chunk,
                 .x_at = (uint32_t)((uint64_t)r->x_at / per), .y_at = (uint32_t)r->y_at,
                 .count = (uint32_t)r->count, .start_low = (uint32_t)start,
                 .start_high = (uint32_t)(start >> 32)},
    };
    int n_axes = r->n_kept + r->n_reduced;
    for (int i = 0; i < RLX_MAX_RANK; i++) {
        bool innermost = i == n_axes - 1 && per > 1;
        a.push.dim[i] = i < n_axes ? (uint32_t)(r->dim[i] / (innermost ? per : 1)) : 1;
        a.push.stride[i] = i < n_axes ? (uint32_t)(r->stride[i] / (innermost ? 1 : per)) : 0;
    }
    rx_gpu_dispatch *d = rx_add_reduce(b, k, s->local, &a);
    rx_gpu_grid(d, c->caps, rx_ceil_div(r->rows, s->cols) * s->parts);
}

/* A reduction of any size. */
static void add_reduction(rx_gpu_build *b, const rx_gpu_call *c, const reduction *r)
{
    uint32_t per = load_width(r);
    rx_sharing s = rx_share_rows(c->caps, r->rows, r->n / per, runs_across(r), rx_per_word(r->y));
    if (s.parts == 1) {
        add_reduce(b, c, r, &s, per);
        return;
    }
    reduction first = *r;
    first.y = join_type(r->x, r->wide);
    first.y_ref = rx_gpu_scratch(b, r->rows * s.parts * (uint64_t)rlx_dtype_block_bytes(first.y));
    first.y_at = 0;
    first.mean = false;
    add_reduce(b, c, &first, &s, per);

    reduction last = *r;
    last.x = first.y;
    last.x_ref = first.y_ref;
    last.x_at = 0;
    last.map = RX_CODE_MAP_NONE;
    last.n = s.parts;
    last.n_kept = last.n_reduced = 1;
    last.dim[0] = (int64_t)r->rows;
    last.stride[0] = last.dim[1] = (int64_t)s.parts;
    last.stride[1] = 1;
    rx_sharing rest = {.local = s.local, .parts = 1, .chunk = s.parts};
    rest.cols = rx_rows_of_group(&rest.local, r->rows, s.parts, false);
    if (rest.cols < rx_per_word(r->y))
        widen_group(&rest, rx_per_word(r->y));
    add_reduce(b, c, &last, &rest, 1);
}

/* The join by operation; sum by default. */
static const uint8_t joins[RX_N_OPS] = {
    [RX_OP_reduce_prod] = RX_CODE_PROD, [RX_OP_cumprod] = RX_CODE_PROD,
    [RX_OP_reduce_max] = RX_CODE_MAX,   [RX_OP_cummax] = RX_CODE_MAX,
    [RX_OP_reduce_any] = RX_CODE_MAX,   [RX_OP_reduce_min] = RX_CODE_MIN,
    [RX_OP_reduce_all] = RX_CODE_MIN,
};
_Static_assert(RX_CODE_SUM == 0, "joins: operations without an entry sum");

rlx_status rx_gpu_lower_reduce(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_reduce_attr *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    unsigned axes = d->axes.n ? 0 : (1u << x->rank) - 1;
    for (int i = 0; i < d->axes.n; i++)
        axes |= 1u << d->axes.v[i];
    reduction r = {
        .x = x->dtype, .y = y->dtype, .x_ref = RX_REF_IN(0), .y_ref = RX_REF_OUT(0),
        .x_at = (int64_t)rx_gpu_offset(x), .y_at = (int64_t)rx_gpu_offset(y),
        .join = joins[c->op], .mean = c->op == RX_OP_reduce_mean,
        .map = c->op == RX_OP_reduce_l1           ? RX_CODE_MAP_ABS
               : c->op == RX_OP_reduce_sum_square ? RX_CODE_MAP_SQUARE
                                                  : RX_CODE_MAP_NONE,
    };
    r.wide = x->dtype == RLX_I64 || (r.mean && !rlx_dtype_is_float(x->dtype)) ||
             is_scaled(r.join, x->dtype);
    set_axes(&r, x, axes);
    if (r.rows)
        add_reduction(b, c, &r);
    return RLX_OK;
}

/* ---- argmax, argmin -------------------------------------------------------------------------- */

static void add_arg(rx_gpu_build *b, const rx_gpu_call *c, const rx_rows *rows, const rx_sharing *s,
                    const rx_gpu_ref refs[2])
{
    const rlx_arg_desc *a = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const bool from_parts = refs[0] != RX_REF_IN(0);
    const rx_args_arg args = {
        .bind = {.x = refs[0], .y = refs[1]},
        .spec = {.TX = x->dtype, .TY = y->dtype, .FLIP = c->op == RX_OP_argmin, .LAST = a->last,
                 .FROM_PARTS = from_parts, .COLS = s->cols, .ACROSS = s->across,
                 .THREADS = s->local},
        .push = {.rows = (uint32_t)rx_rows_count(rows), .n = (uint32_t)rows->n,
                 .inner = (uint32_t)rows->inner, .parts = (uint32_t)s->parts,
                 .chunk = (uint32_t)s->chunk, .x_at = from_parts ? 0 : rx_gpu_offset(x),
                 .y_at = rx_gpu_offset(y)},
    };
    rx_gpu_dispatch *d = rx_add_arg(b, x->dtype == RLX_I64 ? RX_K_arg_wide : RX_K_arg, s->local,
                                    &args);
    rx_gpu_grid(d, c->caps, rx_ceil_div(rx_rows_count(rows), s->cols) * s->parts);
}

rlx_status rx_gpu_lower_arg(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_rows rows = rx_gpu_rows(&c->in[0], ((const rlx_arg_desc *)c->attr)->axis);
    const uint64_t n_rows = rx_rows_count(&rows);
    if (!n_rows)
        return RLX_OK;
    rx_sharing s = rx_share_rows(c->caps, n_rows, rows.n, rows.inner > 1, 1);
    if (s.parts == 1) {
        add_arg(b, c, &rows, &s, (rx_gpu_ref[]){RX_REF_IN(0), RX_REF_OUT(0)});
        return RLX_OK;
    }
    rx_gpu_ref parts = rx_gpu_scratch(b, n_rows * s.parts * 12);
    add_arg(b, c, &rows, &s, (rx_gpu_ref[]){RX_REF_IN(0), parts});
    const rx_rows rest = {n_rows, s.parts, 1};
    rx_sharing last = {.local = s.local, .parts = 1, .chunk = s.parts};
    last.cols = rx_rows_of_group(&last.local, n_rows, s.parts, false);
    add_arg(b, c, &rest, &last, (rx_gpu_ref[]){parts, RX_REF_OUT(0)});
    return RLX_OK;
}

/* ---- cumsum, cumprod, cummax ----------------------------------------------------------------- */

/* One scan of x of type `type` into y, by shaders/scan.comp. */
typedef struct scan {
    rlx_dtype x, y;
    rx_gpu_ref x_ref, y_ref, start_ref; /* start: RX_REF_NONE without carry */
    uint32_t x_at, y_at;
    rx_rows rows;
    uint64_t parts, chunk;
    join_kind join;
    bool exclusive, reverse, wide;
} scan;

/* By subgroup operations, for dense rows of whole 16-byte loads. False: not supported. */
static bool add_scan_sg(rx_gpu_build *b, const rx_gpu_call *c, const scan *s)
{
    bool carry = s->start_ref != RX_REF_NONE, words = s->x == RLX_F32 || s->x == RLX_I32;
    if (!c->caps->subgroup_arith || s->rows.inner != 1 || !words || s->y != s->x || s->wide ||
        s->join == RX_CODE_MAX || s->rows.n % 4 || s->chunk % 4 || s->x_at % 4 || s->y_at % 4)
        return false;
    uint32_t local = rx_gpu_local(c->caps, 256), items = 4;
    while (local > 32 && local * items * 2 >= s->chunk)
        local /= 2;
    while (items > 1 && local * items * 2 >= s->chunk)
        items /= 2;
    const rx_args_scan_sg a = {
        .bind = {.x = s->x_ref, .y = s->y_ref, .start = s->start_ref},
        .spec = {.TX = s->x, .KIND = s->join, .EXCLUSIVE = s->exclusive, .REVERSE = s->reverse,
                 .CARRY = carry, .ITEMS = items, .THREADS = local},
        .push = {.rows = (uint32_t)s->rows.outer, .n = (uint32_t)(s->rows.n / 4),
                 .parts = (uint32_t)s->parts, .chunk = (uint32_t)(s->chunk / 4),
                 .x_at = s->x_at / 4, .y_at = s->y_at / 4,
                 .start_low = (uint32_t)join_start(s->join, c->in[0].dtype)},
    };
    rx_gpu_dispatch *d = rx_add_scan_sg(b, RX_K_scan_sg, local, &a);
    rx_gpu_grid(d, c->caps, s->rows.outer * s->parts);
    return true;
}

static void add_scan(rx_gpu_build *b, const rx_gpu_call *c, const scan *s)
{
    if (add_scan_sg(b, c, s))
        return;
    uint32_t local = rx_gpu_local(c->caps, 256);
    bool across = s->rows.inner > 1, carry = s->start_ref != RX_REF_NONE;
    while (!across && local > 32 && local * RX_CODE_SCAN_EACH / 2 >= s->chunk)
        local /= 2;
    rx_kernel k = is_scaled(s->join, c->in[0].dtype) ? RX_K_scan_prod
                  : s->wide ? RX_K_scan_wide : RX_K_scan;
    const uint64_t rows = rx_rows_count(&s->rows), n = rows * s->parts;
    const uint64_t start = join_start(s->join, c->in[0].dtype);
    const rx_args_scan a = {
        .bind = {.x = s->x_ref, .y = s->y_ref, .start = s->start_ref},
        .spec = {.TX = s->x, .TY = s->y, .KIND = s->join, .EXCLUSIVE = s->exclusive,
                 .REVERSE = s->reverse, .CARRY = carry, .ACROSS = across, .THREADS = local},
        .push = {.rows = (uint32_t)rows, .n = (uint32_t)s->rows.n,
                 .inner = (uint32_t)s->rows.inner, .parts = (uint32_t)s->parts,
                 .chunk = (uint32_t)s->chunk, .x_at = s->x_at, .y_at = s->y_at,
                 .start_low = (uint32_t)start, .start_high = (uint32_t)(start >> 32)},
    };
    rx_gpu_dispatch *d = rx_add_scan(b, k, local, &a);
    rx_gpu_grid(d, c->caps, across ? rx_ceil_div(n, local) : n);
}

/* Splits the rows when they are too few for full occupancy. */
static void cut_rows(const rx_gpu_caps *caps, scan *s)
{
    uint64_t rows = rx_rows_count(&s->rows), local = rx_gpu_local(caps, 256);
    bool across = s->rows.inner > 1;
    uint64_t busy = rx_gpu_busy_groups(caps) * (across ? local : 1);
    uint64_t least = across ? 32 : local * RX_CODE_SCAN_EACH * 4; /* elements of a part */
    uint64_t parts = busy / rows, most = s->rows.n / least;
    parts = parts < most ? parts : most;
    s->parts = 1;
    s->chunk = s->rows.n;
    if (parts > 1) {
        s->chunk = rx_ceil_div(rx_ceil_div(s->rows.n, parts), 16) * 16;
        s->parts = rx_ceil_div(s->rows.n, s->chunk);
    }
}

/* Joins each part of each row, then scans these: the carries into each part. */
static rx_gpu_ref add_carries(rx_gpu_build *b, const rx_gpu_call *c, const scan *s)
{
    const rx_rows *rows = &s->rows;
    uint64_t n_rows = rx_rows_count(rows);
    rlx_dtype t = join_type(s->x, s->wide);
    uint64_t bytes = n_rows * s->parts * (uint64_t)rlx_dtype_block_bytes(t);
    rx_gpu_ref totals = rx_gpu_scratch(b, bytes), carries = rx_gpu_scratch(b, bytes);
    int64_t step = (int64_t)rows->inner;
    reduction r = {.x = s->x, .y = t, .x_ref = s->x_ref, .y_ref = totals, .join = s->join,
                      .wide = s->wide, .rows = n_rows, .n = rows->n,
                      .x_at = s->x_at + (s->reverse ? (int64_t)(rows->n - 1) * step : 0)};
    add_axis(&r, 0, &r.n_kept, (int64_t)rows->outer, (int64_t)(rows->n * rows->inner));
    add_axis(&r, 0, &r.n_kept, (int64_t)rows->inner, 1);
    add_axis(&r, r.n_kept, &r.n_reduced, (int64_t)rows->n, s->reverse ? -step : step);
    uint32_t per = load_width(&r);
    rx_sharing share = {.local = rx_gpu_local(c->caps, 256), .across = runs_across(&r),
                     .parts = s->parts, .chunk = s->chunk / per};
    share.cols = rx_rows_of_group(&share.local, n_rows, share.chunk, share.across);
    add_reduce(b, c, &r, &share, per);

    scan before = {.x = t, .y = t, .x_ref = totals, .y_ref = carries, .start_ref = RX_REF_NONE,
                   .rows = {n_rows, s->parts, 1}, .parts = 1, .chunk = s->parts, .join = s->join,
                   .exclusive = true, .wide = s->wide};
    add_scan(b, c, &before);
    return carries;
}

rlx_status rx_gpu_lower_cum(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_cum_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    if (!rx_view_elements(x))
        return RLX_OK;
    scan s = {.x = x->dtype, .y = y->dtype, .x_ref = RX_REF_IN(0), .start_ref = RX_REF_NONE,
              .x_at = rx_gpu_offset(x), .rows = rx_gpu_rows(x, d->axis), .join = joins[c->op],
              .exclusive = d->exclusive, .reverse = d->reverse};
    s.wide = x->dtype == RLX_I64 || is_scaled(s.join, x->dtype);
    s.y_ref = rx_gpu_values(b, c, 0);
    if (s.y_ref == RX_REF_OUT(0))
        s.y_at = rx_gpu_offset(y);
    else
        s.y = join_type(x->dtype, false);
    cut_rows(c->caps, &s);
    if (s.parts > 1)
        s.start_ref = add_carries(b, c, &s);
    add_scan(b, c, &s);
    rx_gpu_pack_values(b, c, 0, s.y_ref);
    return RLX_OK;
}

void rx_gpu_add_offsets(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_ref counts,
                        rx_gpu_ref offsets, uint64_t n)
{
    scan s = {.x = RLX_I32, .y = RLX_I32, .x_ref = counts, .y_ref = offsets,
              .start_ref = RX_REF_NONE, .rows = {1, n, 1}, .join = RX_CODE_SUM, .exclusive = true};
    cut_rows(c->caps, &s);
    if (s.parts > 1)
        s.start_ref = add_carries(b, c, &s);
    add_scan(b, c, &s);
}
