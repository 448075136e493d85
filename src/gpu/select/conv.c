/* SPDX-License-Identifier: MIT */
/* Convolutions, im2col and pooling on GPUs. Windows of one to three spatial axes are padded to
 * three; conv1d and pool1d decompose.
 *
 * Kernels in order of preference: direct, when a group has few filters (depthwise); fragments of x
 * in place when a window is one element, or with taps as channels when those are few; a matrix
 * product when a window is one element; else tiles of an implicit matrix product (im2col while
 * loading). On cooperative matrices where the device has them and the policy allows it. */
#include "gpu/select/rows.h"
#include "gpu/select/walk.h"

#define AXES 3

typedef struct window {
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES];
    int64_t begin[AXES], end[AXES]; /* padding */
} window;

static int64_t product3(const int64_t v[AXES]) { return v[0] * v[1] * v[2]; }

/* x [N, C, in..], out: the sizes of the result; missing axes are leading ones of size 1. */
static window make_window(const rx_view *x, const int64_t *out, const int64_t *kernel,
                          const rlx_ints *const lists[3])
{
    const int n = x->rank - 2, missing = AXES - n;
    const rlx_ints *stride = lists[0], *dilation = lists[1], *pads = lists[2];
    window w;
    for (int i = 0; i < AXES; i++) {
        const int k = i - missing;
        w.in[i] = k < 0 ? 1 : x->dim[2 + k];
        w.out[i] = k < 0 ? 1 : out[k];
        w.kernel[i] = k < 0 ? 1 : kernel[k];
        w.stride[i] = k < 0 || !stride->n ? 1 : stride->v[k];
        w.dilation[i] = k < 0 || !dilation->n ? 1 : dilation->v[k];
        w.begin[i] = k < 0 || !pads->n ? 0 : pads->v[k];
        w.end[i] = k < 0 || !pads->n ? 0 : pads->v[n + k];
    }
    return w;
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

typedef struct conv {
    const rx_gpu_call *call;
    window win;
    int64_t images, groups, filters, channels; /* filters and channels of one group */
    size_t bias_in, last_in;                   /* last: the residual, or the scale of qconv2d */
    const rx_view *bias, *last;                /* NULL: absent */
    rlx_act act;
    bool act_last, is_int;
    int64_t fold; /* taps of a window row that were folded into channels; 1: none */
    int64_t x_zero, w_zero, y_zero;
} conv;

static int64_t conv_pixels(const conv *v) { return product3(v->win.out); }

static conv make_conv(const rx_gpu_call *c, const rlx_ints *const lists[3], int64_t groups)
{
    const rx_view *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
    conv v = {.call = c, .win = make_window(x, y->dim + 2, w->dim + 2, lists),
              .images = x->dim[0], .groups = groups, .filters = y->dim[1] / groups,
              .channels = x->dim[1] / groups, .bias_in = 2, .last_in = 3, .fold = 1};
    v.bias = rx_gpu_in(c, 2);
    v.last = rx_gpu_in(c, 3);
    return v;
}

/* The arguments of conv.glsl; n_items: workgroups or invocations. */
static rx_args_conv_base make_args(const conv *v, bool partial, uint64_t n_items)
{
    const rx_view *x = &v->call->in[0], *w = &v->call->in[1], *y = &v->call->out[0];
    const window *win = &v->win;
    uint32_t types = x->dtype | w->dtype << 4 | y->dtype << 8;
    types |= (v->bias ? v->bias->dtype : 0u) << 12 | (v->last ? v->last->dtype : 0u) << 16;
    types |= (uint32_t)v->act << 20 | (uint32_t)v->act_last << 24 | (uint32_t)partial << 25;
    return (rx_args_conv_base){
        .bind = {.x = RX_REF_IN(0), .w = RX_REF_IN(1), .o = RX_REF_OUT(0),
                 .bias = v->bias ? RX_REF_IN(v->bias_in) : RX_REF_NONE,
                 .res = v->last ? RX_REF_IN(v->last_in) : RX_REF_NONE},
        .spec = {.TYPES = types, .KD = (uint32_t)win->kernel[0], .KH = (uint32_t)win->kernel[1],
                 .KW = (uint32_t)win->kernel[2]},
        .push = {.n_items = (uint32_t)n_items, .images = (uint32_t)v->images,
                 .groups = (uint32_t)v->groups, .filters = (uint32_t)v->filters,
                 .channels = (uint32_t)v->channels, .pixels = (uint32_t)conv_pixels(v),
                 .total = (uint32_t)rx_view_elements(y), .x_at = rx_gpu_offset(x),
                 .w_at = rx_gpu_offset(w), .out_at = rx_gpu_offset(y),
                 .bias_at = v->bias ? rx_gpu_offset(v->bias) : 0,
                 .res_at = v->last ? rx_gpu_offset(v->last) : 0, .in_d = (uint32_t)win->in[0],
                 .in_h = (uint32_t)win->in[1], .in_w = (uint32_t)win->in[2],
                 .out_h = (uint32_t)win->out[1], .out_w = (uint32_t)win->out[2],
                 .stride_d = (int32_t)win->stride[0], .stride_h = (int32_t)win->stride[1],
                 .stride_w = (int32_t)win->stride[2], .dilation_d = (int32_t)win->dilation[0],
                 .dilation_h = (int32_t)win->dilation[1], .dilation_w = (int32_t)win->dilation[2],
                 .begin_d = (int32_t)win->begin[0], .begin_h = (int32_t)win->begin[1],
                 .begin_w = (int32_t)win->begin[2]},
    };
}

static rx_push_conv_zeros make_zeros(const conv *v)
{
    return (rx_push_conv_zeros){
        .x_zero = (int32_t)v->x_zero, .w_zero = (int32_t)v->w_zero, .y_zero = (int32_t)v->y_zero,
        .scale_at = v->last ? rx_gpu_offset(v->last) : 0, .scale_o = v->last && v->last->rank};
}

/* Words of the result, one per invocation of conv_direct.comp. */
static uint64_t count_words(const conv *v)
{
    const rx_view *y = &v->call->out[0];
    return rx_words_of(y->dtype, rx_view_elements(y));
}

static void add_direct(rx_gpu_build *b, const conv *v)
{
    const uint32_t local = rx_flat_local(v->call->caps);
    const rx_args_conv_base base = make_args(v, false, count_words(v));
    const rx_args_conv_direct a = {.bind = {base.bind}, .spec = {.conv_base = base.spec},
                                   .push = {base.push}};
    const rx_args_conv_direct_int whole = {.bind = {base.bind}, .spec = {a.spec},
                                           .push = {base.push, make_zeros(v)}};
    rx_gpu_dispatch *d = v->is_int
                             ? rx_add_conv_direct_int(b, RX_K_conv_direct_int, local, &whole)
                             : rx_add_conv_direct(b, RX_K_conv_direct, local, &a);
    rx_flat_grid(d, v->call->caps, count_words(v));
}

typedef struct tile {
    uint32_t bm, bn, bk, tm, tn; /* specialisation constants of conv.comp */
} tile;

/* In order of size, the largest first. */
static const tile gpu_tiles[] = {{128, 128, 8, 16, 8}, {64, 128, 8, 8, 8}, {64, 64, 8, 8, 8},
                                 {32, 32, 16, 4, 4}};
/* Small BK: the compile time of newer lavapipes is quadratic in the code between barriers. */
static const tile software_tiles[] = {{32, 64, 8, 8, 8}, {16, 32, 8, 4, 4}};

static uint32_t tile_threads(const tile *t) { return t->bm / t->tm * (t->bn / t->tn); }

static uint64_t count_tiles(const conv *v, const tile *t)
{
    return rx_ceil_div((uint64_t)v->filters, t->bm) *
           rx_ceil_div((uint64_t)(v->images * conv_pixels(v)), t->bn) * (uint64_t)v->groups;
}

static bool tile_fits(const tile *t, const rx_gpu_caps *caps)
{
    const uint64_t shared_bytes = (uint64_t)2 * t->bk * (t->bm + t->bn + 8) * 4;
    return tile_threads(t) <= caps->max_invocations && shared_bytes <= caps->max_shared_bytes;
}

/* The largest tile that gives full occupancy. */
static const tile *pick_tile(const conv *v)
{
    const rx_gpu_caps *caps = v->call->caps;
    const tile *tiles = caps->is_software ? software_tiles : gpu_tiles;
    size_t n = caps->is_software ? sizeof software_tiles / sizeof(tile)
                                 : sizeof gpu_tiles / sizeof(tile);
    uint64_t enough = caps->is_software ? 1 : caps->compute_units ? caps->compute_units : 32;
    int64_t pixels = v->images * conv_pixels(v);
    for (size_t i = 0; i + 1 < n; i++) {
        const tile *t = &tiles[i];
        bool wasted = v->filters <= t->bm / 2 || pixels <= t->bn / 2;
        if (tile_fits(t, caps) && !wasted && count_tiles(v, t) >= enough)
            return t;
    }
    return &tiles[n - 1];
}

/* The result, or the partial sums of `slices` slices of k, is written to `to`. */
static void add_tiles(rx_gpu_build *b, const conv *v, const tile *t, uint32_t slices,
                      rx_gpu_ref to)
{
    const rx_view *y = &v->call->out[0];
    const uint64_t n_groups = count_tiles(v, t) * slices;
    const uint32_t per = rx_per_word(y->dtype);
    const bool partial = per > 1 && (conv_pixels(v) % 4 || rx_gpu_offset(y) % per);
    const rx_args_conv_base base = make_args(v, partial, n_groups);
    rx_args_conv a = {
        .bind = {base.bind},
        .spec = {.conv_base = base.spec, .BM = t->bm, .BN = t->bn, .BK = t->bk, .TM = t->tm,
                 .TN = t->tn, .SLICES = slices},
        .push = {base.push},
    };
    a.bind.conv_base.o = to;
    const rx_args_conv_int whole = {.bind = {a.bind.conv_base}, .spec = {a.spec},
                                    .push = {base.push, make_zeros(v)}};
    rx_gpu_dispatch *d = v->is_int ? rx_add_conv_int(b, RX_K_conv_int, tile_threads(t), &whole)
                                   : rx_add_conv(b, RX_K_conv, tile_threads(t), &a);
    rx_gpu_grid(d, v->call->caps, n_groups);
}

/* ---- Tiles with k in slices ------------------------------------------------------------------ */

#define SLICE_K 128 /* channels times taps of a slice, at least */
#define SLICE_PIXELS 16 /* with fewer, products of few columns are faster */
#define MAX_SLICES 32

/* One of several slices: f32 sums without an epilogue. */
static conv sums_of(const conv *v, rx_gpu_call *call, rx_view *out)
{
    conv s = *v;
    *call = *v->call;
    *out = v->call->out[0];
    out->dtype = RLX_F32;
    out->data = NULL;
    call->out = out;
    s.call = call;
    s.bias = s.last = NULL;
    s.act = RLX_ACT_NONE;
    return s;
}

/* The largest tile with which slices of k give full occupancy where unsliced tiles would not, and
 * the number of slices; 0: there is none, or unsliced tiles do. */
static uint32_t pick_slices(const conv *v, const tile **t)
{
    const rx_gpu_caps *caps = v->call->caps;
    const uint64_t enough = 2 * (uint64_t)(caps->compute_units ? caps->compute_units : 32);
    const uint64_t sums = (uint64_t)rx_view_elements(&v->call->out[0]) * 4; /* bytes */
    const uint64_t by_memory = caps->max_binding_bytes / sums;
    const uint64_t by_k = (uint64_t)(v->channels * product3(v->win.kernel)) / SLICE_K;
    const uint64_t most = by_k < by_memory ? by_k : by_memory;
    const int64_t pixels = v->images * conv_pixels(v);
    const size_t n = sizeof gpu_tiles / sizeof(tile);
    if (v->is_int || caps->is_software || most < 2 || pixels < SLICE_PIXELS ||
        count_tiles(v, &gpu_tiles[n - 1]) >= enough)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const bool wasted = v->filters <= gpu_tiles[i].bm / 2 || pixels <= gpu_tiles[i].bn / 2;
        const uint64_t slices = rx_ceil_div(enough, count_tiles(v, &gpu_tiles[i]));
        *t = &gpu_tiles[i];
        if (!tile_fits(*t, caps) || (wasted && i + 1 < n))
            continue;
        if (slices <= most && slices <= MAX_SLICES)
            return (uint32_t)slices;
    }
    return (uint32_t)(most < MAX_SLICES ? most : MAX_SLICES);
}

static void add_slices(rx_gpu_build *b, const conv *v, const tile *t, uint32_t slices)
{
    const uint64_t bytes = (uint64_t)rx_view_elements(&v->call->out[0]) * 4 * slices;
    const rx_gpu_ref scratch = rx_gpu_scratch(b, bytes);
    rx_gpu_call call;
    rx_view out;
    const conv sums = sums_of(v, &call, &out);
    add_tiles(b, &sums, t, slices, scratch);

    const rx_args_conv_base base = make_args(v, false, count_words(v));
    rx_args_conv_direct a = {.bind = {base.bind},
                             .spec = {.conv_base = base.spec, .SLICES = slices},
                             .push = {base.push}};
    a.bind.conv_base.x = scratch;
    a.bind.conv_base.w = RX_REF_NONE;
    a.spec.conv_base.TYPES = (base.spec.TYPES & ~15u) | RLX_F32; /* of the joined sums */
    const rx_gpu_caps *caps = v->call->caps;
    rx_flat_grid(rx_add_conv_direct(b, RX_K_conv_join, rx_flat_local(caps), &a), caps,
                 count_words(v));
}

/* Whether cooperative matrices support the convolution, or its matrix product. */
static bool has_matrices(const conv *v)
{
    const bool halves = v->call->in[0].dtype != RLX_F32;
    return v->call->caps->coopmat_f16 && (halves || v->call->policy == RLX_POLICY_FAST);
}

/* ---- By cooperative matrices ----------------------------------------------------------------- */

#define COOP_PIXELS 128 /* of a workgroup of conv_coop.comp; BK in channels */
#define COOP_DEEP 32
#define COOP_SHARED (32 << 10) /* bytes, at most */
/* Below so many multiplications a pipeline of its own does not pay. */
#define COOP_WORK (INT64_C(1) << 22)

/* Workgroups of pack_frag.comp for w: 64 filters x 64 channels of a group and tap. */
static uint64_t count_packs(const conv *v)
{
    return rx_ceil_div((uint64_t)v->filters, 64) * rx_ceil_div((uint64_t)v->channels, 64) *
           (uint64_t)(v->groups * product3(v->win.kernel));
}

static bool suits_coopmat(const conv *v)
{
    const rx_gpu_caps *caps = v->call->caps;
    const rlx_dtype t = v->call->in[0].dtype;
    if (v->is_int || (t == RLX_F32 && v->call->policy != RLX_POLICY_FAST))
        return false;
    if (!rx_kernel_available(t == RLX_BF16 ? RX_K_conv_coop_bf : RX_K_conv_coop, caps) ||
        !caps->coopmat_fragments || caps->subgroup != 32 || !caps->subgroup_shuffle ||
        caps->max_shared_bytes < COOP_SHARED)
        return false;
    const int64_t work = conv_pixels(v) * v->images * v->groups * v->filters * v->channels *
                         product3(v->win.kernel);
    return v->filters >= 32 && v->channels >= COOP_DEEP / 2 && work >= COOP_WORK &&
           count_packs(v) * 64 * 64 * 2 <= caps->max_binding_bytes;
}

/* One matrix [filters, channels] per group and tap, in fragment order. */
static void fill_pack(rx_gpu_build *b, rx_gpu_dispatch *d, const conv *v, rx_gpu_ref to)
{
    const rx_view *w = &v->call->in[1];
    const uint32_t taps = (uint32_t)product3(v->win.kernel), k = (uint32_t)v->channels;
    const rx_args_pack_frag a = {
        .bind = {.x = RX_REF_IN(1), .y = to},
        .spec = {.T = w->dtype},
        .push = {.rows = (uint32_t)v->filters, .k = k, .n_groups = (uint32_t)count_packs(v),
                 .at = rx_gpu_offset(w), .s_row = k * taps, .s_k = taps,
                 .dim1 = (uint32_t)v->groups, .dim2 = taps,
                 .s_1 = (uint32_t)v->filters * k * taps, .s_2 = 1},
    };
    rx_set_pack_frag(b, d, w->dtype == RLX_BF16 ? RX_K_pack_a_bf : RX_K_pack_a, 128, &a);
    rx_gpu_grid(d, v->call->caps, count_packs(v));
}

/* The packed form of the weights, and the dispatch that writes it: once when they are a param, else
 * in every run. `kind` distinguishes forms, of which the groups are part. */
static rx_gpu_ref derive_weights(rx_gpu_build *b, const conv *v, uint32_t kind, uint64_t bytes,
                                 rx_gpu_dispatch **pack)
{
    if (v->call->is_param && v->call->is_param[1])
        return rx_gpu_derive(b, 1, kind + (uint32_t)v->groups, bytes, pack);
    rx_gpu_ref ref = rx_gpu_scratch(b, bytes);
    *pack = rx_gpu_add(b, RX_K_pack_a, 128);
    return ref;
}

static rx_gpu_ref pack_weights(rx_gpu_build *b, const conv *v)
{
    rx_gpu_dispatch *d;
    rx_gpu_ref ref = derive_weights(b, v, 0x10000u, count_packs(v) * 64 * 64 * 2, &d);
    fill_pack(b, d, v, ref);
    return ref;
}

static void add_coopmat(rx_gpu_build *b, const conv *v)
{
    const rx_view *y = &v->call->out[0];
    const uint64_t pixels = rx_ceil_div((uint64_t)(v->images * conv_pixels(v)), COOP_PIXELS);
    const uint64_t units = v->call->caps->compute_units ? v->call->caps->compute_units : 64;
    /* 128 filters per workgroup halve the reads of x, if that leaves enough workgroups. */
    const uint64_t twice = rx_ceil_div((uint64_t)v->filters, 128) * pixels * (uint64_t)v->groups;
    const uint32_t side_m = v->filters > 64 && twice >= units ? 2 : 1;
    const uint64_t n_groups = rx_ceil_div((uint64_t)v->filters, 64 * side_m) * pixels *
                              (uint64_t)v->groups;
    const rx_gpu_ref w = pack_weights(b, v);
    const bool is_bf16 = v->call->in[0].dtype == RLX_BF16;
    const rx_args_conv_base base = make_args(v, false, n_groups);
    rx_args_conv_coop a = {
        .bind = {base.bind},
        .spec = {.conv_base = base.spec, .SIDE_M = side_m,
                 .WIDE = conv_pixels(v) % 8 == 0 && rx_gpu_offset(y) % 8 == 0},
        .push = {base.push},
    };
    a.bind.conv_base.w = w;
    rx_gpu_grid(rx_add_conv_coop(b, is_bf16 ? RX_K_conv_coop_bf : RX_K_conv_coop, 128, &a),
                v->call->caps, n_groups);
}

/* ---- By cooperative matrices, fragments straight to registers -------------------------------- */

/* The tiling of conv_frag.comp. */
typedef struct cut {
    uint32_t side_m, side_n, slices, cm, cn, ahead, deep; /* deep: with plain x only */
} cut;

/* The window over packed x: padding is materialised there, and an axis whose window is one element
 * lacks the elements that strides skip. */
static window packed_window(const window *w)
{
    window p = *w;
    for (int i = 0; i < AXES; i++)
        p.in[i] = w->kernel[i] > 1 ? w->in[i] + w->begin[i] + w->end[i] : w->out[i];
    return p;
}

static int64_t blocks_of(const conv *v) { return (v->channels + 31) / 32; }

/* Bytes of packed x and w. */
static uint64_t frag_x_bytes(const conv *v)
{
    const window p = packed_window(&v->win);
    return (uint64_t)(v->images * v->groups * blocks_of(v) * product3(p.in)) * 64;
}

/* 64 filters each; the layout is that of conv_pack_w.comp. */
static uint64_t frag_w_bytes(const conv *v)
{
    const int64_t panel = blocks_of(v) * product3(v->win.kernel) * 256 + 32;
    return (uint64_t)(v->groups * ((v->filters + 63) / 64) * panel) * 16;
}

static bool suits_fragments(const conv *v)
{
    const uint64_t most = v->call->caps->max_binding_bytes;
    bool ok = frag_x_bytes(v) <= most && frag_w_bytes(v) <= most;
    for (int i = 0; i < AXES; i++)
        ok = ok && v->win.begin[i] >= 0 && v->win.end[i] >= 0;
    return ok;
}

/* Elements of x along the row that an invocation of conv_pack_x.comp moves for each channel: as
 * many as a 16-byte load has, but fewer where occupancy suffers. 1: one by one, where padding is
 * interleaved or nothing is aligned. */
static uint32_t pick_along(const conv *v, const window *p)
{
    const rx_view *x = &v->call->in[0];
    const uint64_t units = v->call->caps->compute_units ? v->call->caps->compute_units : 64;
    const int64_t area = product3(v->win.in), place = area | rx_gpu_offset(x);
    const uint64_t n = (uint64_t)(area * v->images * v->groups * blocks_of(v)) * 4;
    uint32_t along = x->dtype == RLX_F32 ? 4 : 8;
    if (v->fold > 1 || area == 0)
        return 1;
    for (int i = 0; i < AXES; i++)
        if (p->in[i] != v->win.in[i] + v->win.begin[i] + v->win.end[i])
            return 1;
    while (along > 1 && (place % along || (along > 2 && n / along < units * 64)))
        along /= 2;
    return along;
}

static rx_gpu_ref pack_x(rx_gpu_build *b, const conv *v)
{
    const rx_view *x = &v->call->in[0];
    const window p = packed_window(&v->win);
    const uint32_t along = pick_along(v, &p), local = 128;
    const int64_t runs = along == 1 ? product3(p.in) : product3(v->win.in) / along;
    const int64_t total = v->images * v->groups * blocks_of(v) * runs * 4;
    const rx_gpu_ref to = rx_gpu_scratch(b, frag_x_bytes(v));
    int32_t step[AXES];
    for (int i = 0; i < AXES; i++)
        step[i] = v->win.kernel[i] > 1 ? 1 : (int32_t)v->win.stride[i];
    const rx_args_conv_pack_x a = {
        .bind = {.x = RX_REF_IN(0), .y = to},
        .spec = {.T = x->dtype, .ALONG = along, .FOLD = (uint32_t)v->fold},
        .push = {.total = (uint32_t)total, .channels = (uint32_t)v->channels,
                 .x_at = rx_gpu_offset(x), .in_d = (uint32_t)v->win.in[0],
                 .in_h = (uint32_t)v->win.in[1], .in_w = (uint32_t)v->win.in[2],
                 .to_d = (uint32_t)p.in[0], .to_h = (uint32_t)p.in[1], .to_w = (uint32_t)p.in[2],
                 .step_d = step[0], .step_h = step[1], .step_w = step[2],
                 .begin_d = (int32_t)v->win.begin[0], .begin_h = (int32_t)v->win.begin[1],
                 .begin_w = (int32_t)v->win.begin[2],
                 .dilation_w = (uint32_t)v->win.dilation[AXES - 1]},
    };
    rx_flat_grid(rx_add_conv_pack_x(b, RX_K_conv_pack_x, local, &a), v->call->caps,
                 (uint64_t)total);
    return to;
}

static rx_gpu_ref pack_w(rx_gpu_build *b, const conv *v)
{
    const rx_view *w = &v->call->in[1];
    const uint64_t bytes = frag_w_bytes(v);
    rx_gpu_dispatch *d;
    rx_gpu_ref to = derive_weights(b, v, v->fold > 1 ? 0x30000u : 0x20000u, bytes, &d);
    const int64_t n_groups = v->groups * ((v->filters + 63) / 64) * 4;
    const rx_args_conv_pack_w a = {
        .bind = {.w = RX_REF_IN(1), .y = to},
        .spec = {.T = w->dtype, .FOLD = (uint32_t)v->fold},
        .push = {.n_groups = (uint32_t)n_groups, .filters = (uint32_t)v->filters,
                 .channels = (uint32_t)v->channels, .taps = (uint32_t)product3(v->win.kernel),
                 .w_at = rx_gpu_offset(w)},
    };
    rx_set_conv_pack_w(b, d, w->dtype == RLX_BF16 ? RX_K_conv_pack_w_bf : RX_K_conv_pack_w, 128,
                       &a);
    rx_gpu_grid(d, v->call->caps, (uint64_t)n_groups);
    return to;
}

static uint64_t count_cuts(const conv *v, const cut *c)
{
    return rx_ceil_div((uint64_t)v->filters, 16 * c->cm * c->side_m) *
           rx_ceil_div((uint64_t)(v->images * conv_pixels(v)), 16 * c->cn * c->side_n) *
           (uint64_t)v->groups;
}

/* Measured on an H200 (132 units): whole tiles pay from two workgroups per unit on. Below,
 * subgroups share a tile and split its iterations, the more the fewer tiles there are. Prefetching
 * takes registers, which only few workgroups leave. */
static cut pick_cut(const conv *v)
{
    static const struct {
        cut c;
        uint32_t enough; /* workgroups for four units; with fewer, the next row of the table */
        int64_t steps;   /* iterations that the next row needs */
    } list[] = {
        {{2, 2, 1, 4, 2, 0, 0}, 8, 4},
        {{1, 4, 1, 4, 2, 0, 0}, 8, 4}, /* up to 64 filters begin here */
        {{1, 2, 2, 4, 2, 0, 0}, 8, 4},
        {{1, 2, 2, 4, 2, 1, 0}, 4, 4},
        {{1, 1, 4, 4, 2, 1, 0}, 3, 16},
        {{1, 1, 8, 2, 2, 1, 4}, 3, 32},
        {{1, 1, 16, 1, 2, 1, 3}, 0, 0},
    };
    const rx_gpu_caps *caps = v->call->caps;
    const uint64_t units = caps->compute_units ? caps->compute_units : 64;
    const int64_t steps = blocks_of(v) * product3(v->win.kernel);
    size_t i = v->filters > 64 ? 0 : 1;
    while (count_cuts(v, &list[i].c) * 4 < units * list[i].enough && steps >= list[i].steps &&
           32 * list[i + 1].c.slices <= caps->max_invocations)
        i++;
    return list[i].c;
}

/* Taps that one load of x serves: those of a window row, where four adjacent results use adjacent
 * elements of x. */
static uint32_t row_taps(const conv *v)
{
    const window *w = &v->win;
    const bool near = w->stride[AXES - 1] == 1 && w->dilation[AXES - 1] == 1 &&
                      w->out[AXES - 1] % 4 == 0 && w->kernel[AXES - 1] <= 5;
    return near ? (uint32_t)w->kernel[AXES - 1] : 1;
}

/* Pixels of all images below which element-wise loads of plain x cost less than packing it. */
#define PLAIN_PIXELS 512

/* PLAIN of conv_frag.comp: whether x is read in place. */
static uint32_t plain_pixels(const conv *v)
{
    const window *w = &v->win;
    bool is_seen = v->channels % 32 == 0 && v->fold == 1 && product3(w->kernel) == 1;
    for (int i = 0; i < AXES; i++)
        is_seen = is_seen && !w->begin[i] && !w->end[i];
    if (!is_seen)
        return 0;
    if (product3(w->stride) == 1 && (conv_pixels(v) | rx_gpu_offset(&v->call->in[0])) % 4 == 0)
        return 4;
    return v->images * conv_pixels(v) < PLAIN_PIXELS ? 1 : 0;
}

static void add_fragments(rx_gpu_build *b, const conv *v)
{
    const rx_gpu_caps *caps = v->call->caps;
    const rx_view *y = &v->call->out[0];
    const cut c = pick_cut(v);
    const uint64_t n_groups = count_cuts(v, &c);
    const uint32_t plain = plain_pixels(v);
    const rx_gpu_ref w = pack_w(b, v), x = plain ? RX_REF_IN(0) : pack_x(b, v);
    const rlx_dtype type = v->call->in[0].dtype;
    const bool is_bf16 = type == RLX_BF16, is_rounded = type == RLX_F32;
    conv packed = *v;
    if (!plain)
        packed.win = packed_window(&v->win);
    const int64_t place = conv_pixels(v) | rx_gpu_offset(y) |
                          (v->last ? rx_gpu_offset(v->last) : 0);
    const rx_args_conv_base base = make_args(&packed, false, n_groups);
    rx_args_conv_frag a = {
        .bind = {.conv_base = base.bind, .plain = is_rounded ? RX_REF_IN(0) : RX_REF_NONE},
        .spec = {.conv_base = base.spec, .SIDE_M = c.side_m, .SIDE_N = c.side_n,
                 .SLICES = c.slices, .CM = c.cm, .CN = c.cn, .AHEAD = c.ahead,
                 .WIDE = place % 8 == 0 ? 8 : place % 4 == 0 ? 4 : 1, .ROW = row_taps(v),
                 .PLAIN = plain, .DEEP = plain ? c.deep : 0, .FOLD = (uint32_t)v->fold,
                 .GUARD = is_rounded},
        .push = {.conv_base = base.push, .plain_d = (uint32_t)v->win.in[0],
                 .plain_h = (uint32_t)v->win.in[1], .plain_w = (uint32_t)v->win.in[2]},
    };
    a.bind.conv_base.x = x;
    a.bind.conv_base.w = w;
    rx_gpu_grid(rx_add_conv_frag(b, is_bf16 ? RX_K_conv_frag_bf : RX_K_conv_frag,
                                 32 * c.side_m * c.side_n * c.slices, &a), caps, n_groups);
}

/* ---- Windows as columns ---------------------------------------------------------------------- */

/* Where the n elements of im2col go. */
typedef struct columns {
    rx_gpu_ref to;
    uint32_t at;
    int64_t n;
} columns;

/* Of operand 0, whose windows have two axes. */
static void add_im2col(rx_gpu_build *b, const rx_gpu_call *c, const window *w, const columns *y)
{
    const rx_view *x = &c->in[0];
    const uint64_t work = rx_words_of(x->dtype, y->n);
    const rx_args_im2col args = {
        .bind = {.x = RX_REF_IN(0), .y = y->to},
        .spec = {.BITS = rx_bits_of(x->dtype)},
        .push = {.n_items = (uint32_t)work, .total = (uint32_t)y->n, .x_at = rx_gpu_offset(x),
                 .y_at = y->at, .in_h = (uint32_t)w->in[1], .in_w = (uint32_t)w->in[2],
                 .kernel_h = (uint32_t)w->kernel[1], .kernel_w = (uint32_t)w->kernel[2],
                 .out_h = (uint32_t)w->out[1], .out_w = (uint32_t)w->out[2],
                 .stride_h = (int32_t)w->stride[1], .stride_w = (int32_t)w->stride[2],
                 .dilation_h = (int32_t)w->dilation[1], .dilation_w = (int32_t)w->dilation[2],
                 .begin_h = (int32_t)w->begin[1], .begin_w = (int32_t)w->begin[2]},
    };
    rx_flat_grid(rx_add_im2col(b, RX_K_im2col, rx_flat_local(c->caps), &args), c->caps, work);
}

/* ---- As products ----------------------------------------------------------------------------- */

/* The window is one element and skips none, and at most one of bias and residual is present: then
 * the result is w [filters, channels] . x [channels, pixels] for each image and group. */
static bool is_product(const conv *v)
{
    bool ok = !v->is_int && v->channels > 0 && !(v->bias && v->last) &&
              (v->images == 1 || conv_pixels(v) >= 64);
    for (int i = 0; i < AXES; i++)
        ok = ok && v->win.kernel[i] == 1 && v->win.stride[i] == 1 && !v->win.begin[i] &&
             !v->win.end[i];
    return ok;
}

/* w [filters, k] . x [k, pixels] for each image and group, x being operand 0 or columns. The bias
 * belongs to rows here: it is a residual that is the same for all pixels, added before the
 * activation. */
static rx_product make_product(const conv *v, rx_gpu_ref x, uint32_t x_at)
{
    const rx_gpu_call *c = v->call;
    const int64_t pixels = conv_pixels(v), m = v->filters;
    const int64_t k = v->channels * product3(v->win.kernel);
    const rx_view *added = v->bias ? v->bias : v->last;
    rx_product p = {.call = c, .a_ref = RX_REF_IN(1), .b_ref = x,
                    .a_type = c->in[1].dtype, .b_type = c->in[0].dtype, .out = &c->out[0],
                    .residual = added, .bias_in = (v->bias ? v->bias_in : v->last_in) - 1,
                    .act = v->act, .act_last = v->bias || v->act_last, .m = m, .n = pixels,
                    .k = k, .a_m = k, .a_k = 1, .b_n = 1, .b_k = pixels, .n_axes = 2,
                    .dim = {v->images, v->groups}, .a = {0, m * k},
                    .b = {v->groups * k * pixels, k * pixels}};
    p.a_at = rx_gpu_offset(&c->in[1]);
    p.b_at = x_at;
    p.out_at = rx_gpu_offset(&c->out[0]);
    p.res_at = added ? rx_gpu_offset(added) : 0;
    if (v->bias) {
        p.res_m = 1;
        p.res[1] = m;
    } else if (v->last) {
        p.res_m = pixels;
        p.res_n = 1;
        p.res[0] = v->groups * m * pixels;
        p.res[1] = m * pixels;
    }
    return p;
}

static rlx_status lower_product(rx_gpu_build *b, const conv *v)
{
    rx_product p = make_product(v, RX_REF_IN(0), rx_gpu_offset(&v->call->in[0]));
    return rx_product_lower(b, &p);
}

#define MAX_COLUMNS ((uint64_t)256 << 20) /* bytes */
#define COLUMN_WORK (INT64_C(1) << 22)    /* multiplications of a product that pays for them */

/* Where matrices only come through shared memory (coopmat.c) windows of two axes are written as
 * columns first: the product is then worth more than what that costs. */
static bool suits_columns(const conv *v)
{
    const rx_gpu_caps *caps = v->call->caps;
    const int64_t k = v->channels * product3(v->win.kernel), pixels = conv_pixels(v);
    const uint64_t bytes = (uint64_t)(v->images * v->groups * k * pixels) *
                           (uint64_t)rlx_dtype_block_bytes(v->call->in[0].dtype);
    const bool bf16 = v->call->in[0].dtype == RLX_BF16;
    return !v->is_int && has_matrices(v) && !caps->coopmat_fragments &&
           (!bf16 || caps->coopmat_bf16) && v->win.in[0] == 1 && v->win.kernel[0] == 1 &&
           v->call->in[0].dtype == v->call->in[1].dtype && !(v->bias && v->last) &&
           v->filters >= 16 && k >= 32 && pixels >= 64 && v->filters * k * pixels >= COLUMN_WORK &&
           bytes <= MAX_COLUMNS && bytes <= caps->max_binding_bytes;
}

static rlx_status lower_columns(rx_gpu_build *b, const conv *v)
{
    const int64_t n = v->images * v->groups * v->channels * product3(v->win.kernel) *
                      conv_pixels(v);
    const columns y = {
        rx_gpu_scratch(b, (uint64_t)n * (uint64_t)rlx_dtype_block_bytes(v->call->in[0].dtype)), 0,
        n};
    add_im2col(b, v->call, &v->win, &y);
    rx_product p = make_product(v, y.to, 0);
    return rx_product_lower(b, &p);
}

/* Few channels would be padded to 32 per tap: instead the taps of a window row become channels. */
static conv fold_row(const conv *v)
{
    conv f = *v;
    int64_t *taps = &f.win.kernel[AXES - 1];
    if (v->is_int || v->channels >= COOP_DEEP / 2 || *taps == 1 || product3(v->win.in) == 0)
        return f;
    f.fold = *taps;
    f.channels *= *taps;
    *taps = 1;
    return f;
}

/* fewer filters per group waste most of a tile */
#define MIN_FILTERS 8

static rlx_status lower_conv(rx_gpu_build *b, const conv *v)
{
    if (!rx_product_is_indexable(v->call))
        return rx_gpu_fail(b, v->call, "more than 2^32 elements");
    if (rx_view_elements(&v->call->out[0]) == 0)
        return RLX_OK;
    const tile *t;
    uint32_t slices;
    const conv folded = fold_row(v);
    if (v->filters < MIN_FILTERS)
        add_direct(b, v);
    else if (suits_coopmat(v) && suits_fragments(v) && plain_pixels(v))
        add_fragments(b, v);
    else if (suits_coopmat(&folded) && suits_fragments(&folded) && folded.fold > 1)
        add_fragments(b, &folded);
    else if (is_product(v))
        return lower_product(b, v);
    else if (suits_columns(v))
        return lower_columns(b, v);
    else if (!has_matrices(v) && (slices = pick_slices(v, &t)) > 1)
        add_slices(b, v, t, slices);
    else if (suits_coopmat(v) && suits_fragments(v))
        add_fragments(b, v);
    else if (suits_coopmat(v) && v->call->in[0].dtype != RLX_F32)
        add_coopmat(b, v);
    else
        add_tiles(b, v, pick_tile(v), 1, RX_REF_OUT(0));
    return RLX_OK;
}

/* conv2d, conv3d */
rlx_status rx_gpu_lower_conv(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_conv_desc *a = c->attr;
    const rlx_ints *const lists[] = {&a->stride, &a->dilation, &a->pads};
    conv v = make_conv(c, lists, a->groups);
    v.act = a->act;
    v.act_last = a->act_last;
    return lower_conv(b, &v);
}

rlx_status rx_gpu_lower_qconv2d(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_qconv_desc *a = c->attr;
    const rlx_ints *const lists[] = {&a->stride, &a->dilation, &a->pads};
    conv v = make_conv(c, lists, a->groups);
    v.bias_in = 3;
    v.last_in = 2;
    v.bias = rx_gpu_in(c, 3);
    v.last = rx_gpu_in(c, 2);
    v.is_int = true;
    v.x_zero = a->x_zero;
    v.w_zero = a->w_zero;
    v.y_zero = a->y_zero;
    return lower_conv(b, &v);
}

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

rlx_status rx_gpu_lower_conv_transpose2d(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_conv_desc *a = c->attr;
    const rlx_ints *const lists[] = {&a->stride, &a->dilation, &a->pads};
    conv v = make_conv(c, lists, a->groups);
    v.act = a->act;
    v.last = NULL;
    if (!rx_product_is_indexable(c))
        return rx_gpu_fail(b, c, "more than 2^32 elements");
    if (rx_view_elements(&c->out[0]) == 0)
        return RLX_OK;
    uint32_t step[AXES];
    for (int i = 0; i < AXES; i++)
        step[i] = (uint32_t)(v.win.stride[i] / divisor(v.win.stride[i], v.win.dilation[i]));
    const rx_args_conv_base base = make_args(&v, false, count_words(&v));
    const rx_args_conv_transpose args = {
        .bind = {base.bind},
        .spec = {{.conv_base = base.spec}},
        .push = {.conv_base = base.push, .step_h = step[1], .step_w = step[2]},
    };
    rx_flat_grid(rx_add_conv_transpose(b, RX_K_conv_transpose, rx_flat_local(c->caps), &args),
                 c->caps, count_words(&v));
    return RLX_OK;
}

/* ---- im2col ---------------------------------------------------------------------------------- */

rlx_status rx_gpu_lower_im2col(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_im2col_desc *a = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const rlx_ints *const lists[] = {&a->stride, &a->dilation, &a->pads};
    static const int64_t unknown[AXES - 1] = {1, 1};
    window w = make_window(x, unknown, a->kernel.v, lists);
    int64_t n = rx_view_elements(y);
    if (n == 0)
        return RLX_OK;
    for (int i = 1; i < AXES; i++) {
        int64_t extent = w.dilation[i] * (w.kernel[i] - 1) + 1;
        w.out[i] = (w.in[i] + w.begin[i] + w.end[i] - extent) / w.stride[i] + 1;
    }
    add_im2col(b, c, &w, &(columns){RX_REF_OUT(0), rx_gpu_offset(y), n});
    return RLX_OK;
}

/* ---- Pools ----------------------------------------------------------------------------------- */

/* Taps per invocation of a team, about. */
#define POOL_TAPS 8
/* Unrolled taps of a window plane, at most. */
#define POOL_PLANE 9

static rx_push_pool make_pool(const rx_gpu_call *c, const window *w, uint64_t words)
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    return (rx_push_pool){
        .n_items = (uint32_t)words, .total = (uint32_t)rx_view_elements(y),
        .x_at = rx_gpu_offset(x), .out_at = rx_gpu_offset(y),
        .p = (uint32_t)((const rlx_pool_desc *)c->attr)->p, .in_d = (int32_t)w->in[0],
        .in_h = (int32_t)w->in[1], .in_w = (int32_t)w->in[2], .kernel_d = (int32_t)w->kernel[0],
        .kernel_h = (int32_t)w->kernel[1], .kernel_w = (int32_t)w->kernel[2],
        .stride_d = (int32_t)w->stride[0], .stride_h = (int32_t)w->stride[1],
        .stride_w = (int32_t)w->stride[2], .dilation_d = (int32_t)w->dilation[0],
        .dilation_h = (int32_t)w->dilation[1], .dilation_w = (int32_t)w->dilation[2],
        .begin_d = (int32_t)w->begin[0], .begin_h = (int32_t)w->begin[1],
        .begin_w = (int32_t)w->begin[2], .end_d = (int32_t)w->end[0],
        .end_h = (int32_t)w->end[1], .end_w = (int32_t)w->end[2], .out_d = (uint32_t)w->out[0],
        .out_h = (uint32_t)w->out[1], .out_w = (uint32_t)w->out[2]};
}

/* pool2d, pool3d */
rlx_status rx_gpu_lower_pool(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_pool_desc *a = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const rlx_ints *const lists[] = {&a->stride, &a->dilation, &a->pads};
    const bool global = a->kernel.n == 0;
    const window w = make_window(x, y->dim + 2, global ? x->dim + 2 : a->kernel.v, lists);
    const int64_t n = rx_view_elements(y), taps = product3(w.kernel);
    if (n == 0)
        return RLX_OK;
    uint64_t words = rx_words_of(y->dtype, n);
    uint32_t local = rx_gpu_local(c->caps, c->caps->is_software ? 64 : 256), team = 1;
    if (taps >= 4 * POOL_TAPS)
        team = rx_pow2_up((uint64_t)taps / POOL_TAPS);
    team = team > local ? local : team;
    const bool small = team == 1 && w.kernel[1] * w.kernel[2] <= POOL_PLANE;
    const rx_args_pool args = {
        .bind = {.x = RX_REF_IN(0), .o = RX_REF_OUT(0)},
        .spec = {.T = x->dtype, .KIND = (uint32_t)a->kind, .WITH_PAD = a->count_include_pad,
                 .TEAM = team, .THREADS = local, .KH = small ? (uint32_t)w.kernel[1] : 0,
                 .KW = small ? (uint32_t)w.kernel[2] : 0,
                 .DILATED = product3(w.dilation) > 1},
        .push = make_pool(c, &w, words),
    };
    rx_gpu_grid(rx_add_pool(b, RX_K_pool, local, &args), c->caps,
                rx_ceil_div(words, local / team));
    return RLX_OK;
}
