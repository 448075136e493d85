/* SPDX-License-Identifier: MIT */
/* Quantised operations on GPUs: products with packed weights and with i8 and i4 block schemes, the
 * same for banks of experts, decoding, quantize and dequantize.
 *
 * With a float weight it is an ordinary product (select/matmul.c). Otherwise b of the rx_product is
 * the weight in place: its offset and strides count bytes, its type is the packed one. */
#include "gpu/select/quant.h"
#include "gpu/select/walk.h"

/* ---- Families of types ----------------------------------------------------------------------- */

rx_quant_family rx_quant_family_of(rlx_dtype t)
{
    switch (t) {
    case RLX_IQ1_S:
    case RLX_IQ1_M:
        return RX_QUANT_IQ1;
    case RLX_IQ2_XXS:
    case RLX_IQ2_XS:
    case RLX_IQ2_S:
        return RX_QUANT_IQ2;
    case RLX_IQ3_XXS:
    case RLX_IQ3_S:
        return RX_QUANT_IQ3;
    default:
        return rlx_dtype_is_packed(t) ? RX_QUANT_BLOCKS : RX_QUANT_PLAIN;
    }
}

#define GRID_KIND 0x67726964u /* "grid" */
#define GRID_BYTES 4096       /* of the largest */

rx_gpu_ref rx_quant_grid(rx_gpu_build *b, const rx_gpu_call *c, uint32_t in)
{
    static const rx_kernel kernels[RX_N_QUANT_FAMILIES] = {
        [RX_QUANT_IQ1] = RX_K_quant_grid_iq1, [RX_QUANT_IQ2] = RX_K_quant_grid_iq2,
        [RX_QUANT_IQ3] = RX_K_quant_grid_iq3};
    rx_quant_family f = rx_quant_family_of(c->in[in].dtype);
    if (f == RX_QUANT_BLOCKS || f == RX_QUANT_PLAIN)
        return RX_REF_NONE;
    rx_gpu_ref ref;
    rx_gpu_dispatch *d;
    if (c->is_param && c->is_param[in]) {
        ref = rx_gpu_derive(b, in, GRID_KIND, GRID_BYTES, &d);
    } else {
        ref = rx_gpu_scratch(b, GRID_BYTES);
        d = rx_gpu_add(b, kernels[f], 1);
    }
    rx_set_quant_grids(b, d, kernels[f], 1, &(rx_args_quant_grids){.bind = {.o = ref}});
    d->groups[0] = d->groups[1] = d->groups[2] = 1;
    return ref;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static int64_t packed_bytes(rlx_dtype t, int64_t n)
{
    return n / rlx_dtype_block_size(t) * rlx_dtype_block_bytes(t);
}

static uint32_t local_size(const rx_gpu_caps *caps)
{
    uint32_t most = caps->is_software ? 64 : 256;
    return caps->max_invocations < most ? caps->max_invocations : most;
}

/* Byte offsets have 32 bits. */
static bool check_size(rx_gpu_build *b, const rx_gpu_call *c, const rx_view *w)
{
    int64_t bytes = packed_bytes(w->dtype, rx_view_elements(w));
    if (rx_product_is_indexable(c) && bytes + (int64_t)(uintptr_t)w->data <= UINT32_MAX)
        return true;
    rx_gpu_fail(b, c, "more than 4 GiB in one tensor");
    return false;
}

/* ---- Decoding to memory ---------------------------------------------------------------------- */

typedef struct decoding {
    uint32_t in;        /* operand */
    const rx_view *ids; /* NULL, or operand 1: w is a bank of experts of `slab` elements */
    rx_gpu_ref to;
    rlx_dtype type;     /* of the result */
    uint32_t at;        /* its first element */
    int64_t n, slab;
} decoding;

static void add_decode(rx_gpu_build *b, const rx_gpu_call *c, const decoding *j)
{
    static const rx_kernel kernels[RX_N_QUANT_FAMILIES] = {RX_K_dequant, RX_K_dequant_iq1,
                                                           RX_K_dequant_iq2, RX_K_dequant_iq3,
                                                           RX_K_dequant_float};
    const rx_view *w = &c->in[j->in], *ids = j->ids;
    rx_gpu_ref grid = rx_quant_grid(b, c, j->in);
    const bool packed = rlx_dtype_is_packed(w->dtype);
    const rx_kernel k = kernels[rx_quant_family_of(w->dtype)];
    const rx_args_dequant a = {
        .bind = {.w = RX_REF_IN(j->in), .o = j->to, .ids = ids ? RX_REF_IN(1) : RX_REF_NONE,
                 .flags = ids ? RX_REF_FLAGS : RX_REF_NONE},
        .spec = {.TW = w->dtype, .TOUT = j->type, .TIDS = ids ? ids->dtype : RLX_NO_TYPE},
        .push = {.n = (uint32_t)j->n,
                 .w_at = packed ? rx_quant_byte_offset(w) : rx_gpu_offset(w), .out_at = j->at,
                 .slab = (uint32_t)j->slab,
                 .slab_bytes = packed ? (uint32_t)packed_bytes(w->dtype, j->slab) : 0,
                 .ids_at = ids ? rx_gpu_offset(ids) : 0,
                 .ids_stride = ids ? (uint32_t)ids->stride[0] : 0,
                 .n_experts = !ids ? 0 : (uint32_t)(c->part_total ? c->part_total : w->dim[0]),
                 .part_first = (uint32_t)c->part_first,
                 .part_rows = c->part_total ? (uint32_t)w->dim[0] : UINT32_MAX},
    };
    const rx_args_dequant_grid with_grid = {.bind = {.dequant = a.bind, .grid = grid},
                                            .spec = {a.spec}, .push = {a.push}};
    rx_gpu_dispatch *d = grid == RX_REF_NONE
                             ? rx_add_dequant(b, k, local_size(c->caps), &a)
                             : rx_add_dequant_grid(b, k, local_size(c->caps), &with_grid);
    rx_flat_grid(d, c->caps, ((uint64_t)j->n + 7) / 8);
}

/* ---- What the kernels are told about x and the weight ---------------------------------------- */

/* Whether the offset, rows and batch axes of x are multiples of `unit`. */
static bool x_is_aligned(const rx_product *p, int64_t unit)
{
    bool ok = p->a_at % unit == 0 && (p->m == 1 || p->a_m % unit == 0);
    for (int i = 0; i < p->n_axes; i++)
        ok = ok && p->a[i] % unit == 0;
    return ok;
}

static uint32_t form_of(const rx_product *p)
{
    const rlx_dequant_desc *d = p->call->attr;
    int64_t unit = p->a_type == RLX_F32 ? 4 : 8;
    uint32_t form = p->a_k == 1 && p->k % 8 == 0 && x_is_aligned(p, unit)
                        ? RX_CODE_FORM_X_WIDE : 0;
    if (!p->scale)
        return form;
    form |= p->scale->dtype | (d->block % 8 == 0 ? RX_CODE_FORM_ONE_SCALE : 0u) |
            (d->bits == 4 ? RX_CODE_FORM_HALVES : 0u);
    return form | (rx_gpu_in(p->call, 3) ? RX_CODE_FORM_ZERO : 0u);
}

static rx_push_scales make_scales(const rx_product *p)
{
    const rlx_dequant_desc *a = p->call->attr;
    const rx_view *zero = rx_gpu_in(p->call, 3);
    if (!p->scale)
        return (rx_push_scales){0};
    return (rx_push_scales){.scale_at = rx_gpu_offset(p->scale),
                            .zero_at = zero ? rx_gpu_offset(zero) : 0,
                            .block = (uint32_t)a->block,
                            .n_scales = (uint32_t)(p->k / a->block)};
}

static rx_gpu_ref scale_ref(const rx_product *p)
{
    return p->scale ? RX_REF_IN(2) : RX_REF_NONE;
}

static rx_gpu_ref zero_ref(const rx_product *p)
{
    return rx_gpu_in(p->call, 3) ? RX_REF_IN(3) : RX_REF_NONE;
}

/* ---- Few rows -------------------------------------------------------------------------------- */

#define GEMV_ROWS 8
#define GEMV_EACH 2 /* columns per team */

/* A use of dequant_gemv.comp. */
typedef struct gemv_shape {
    uint32_t local, cols, team;
} gemv_shape;

/* Teams are widened while there are too few columns for full occupancy. */
static gemv_shape shape_gemv(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    uint32_t local = caps->is_software ? 32 : p->m > 4 ? 128 : 256, team = local / 8;
    if (local > caps->max_invocations)
        local = caps->max_invocations;
    int64_t units = caps->compute_units ? caps->compute_units : 32;
    int64_t columns = p->n * rx_product_batches(p);
    while (team < local / 2 && (int64_t)team * 16 <= p->k &&
           columns * team < 4 * units * local * GEMV_EACH && !caps->is_software)
        team *= 2;
    const uint32_t *knob = rx_gpu_knob(caps, RX_KNOB_QUANT_GEMV);
    if (knob && p->m <= 4 && knob[0] <= caps->max_invocations) {
        local = knob[0];
        team = knob[1];
    }
    return (gemv_shape){local, local / team * GEMV_EACH, team};
}

/* ids: its operand, or NULL. */
static void add_gemv(rx_gpu_build *b, const rx_product *p, const rx_view *ids)
{
    static const rx_kernel kernels[RX_N_QUANT_FAMILIES] = {RX_K_dequant_gemv, RX_K_dequant_gemv_iq1,
                                                  RX_K_dequant_gemv_iq2, RX_K_dequant_gemv_iq3,
                                                  RX_K_dequant_gemv_int};
    const rx_quant_family family = rx_quant_family_of(p->b_type);
    const rx_kernel k = kernels[family];
    const rx_gpu_ref grid = rx_quant_grid(b, p->call, 1);
    const gemv_shape s = shape_gemv(p);
    const uint64_t n_groups = (uint64_t)((p->n + s.cols - 1) / s.cols) *
                              (uint64_t)rx_product_batches(p);
    const rx_args_product base = rx_product_args(p, n_groups);
    const rx_args_dequant_gemv a = {
        .bind = {.product = base.bind, .ids = ids ? RX_REF_IN(2) : RX_REF_NONE,
                 .flags = ids ? RX_REF_FLAGS : RX_REF_NONE},
        .spec = {.product = base.spec, .FORM = form_of(p), .ROWS = (uint32_t)p->m,
                 .COLS = s.cols, .TEAM = s.team, .THREADS = s.local,
                 .TIDS = ids ? ids->dtype : RLX_NO_TYPE},
        .push = {.product = base.push,
                 .experts = rx_product_experts(ids, &p->call->in[1])},
    };
    rx_gpu_dispatch *d;
    if (family == RX_QUANT_PLAIN)
        d = rx_add_dequant_gemv_int(b, k, s.local, &(rx_args_dequant_gemv_int){
            .bind = {.product = base.bind, .scale = scale_ref(p), .zero = zero_ref(p)},
            .spec = {a.spec}, .push = {base.push, make_scales(p)}});
    else if (grid != RX_REF_NONE)
        d = rx_add_dequant_gemv_grid(b, k, s.local, &(rx_args_dequant_gemv_grid){
            .bind = {.dequant_gemv = a.bind, .grid = grid}, .spec = {a.spec}, .push = {a.push}});
    else
        d = rx_add_dequant_gemv(b, k, s.local, &a);
    rx_gpu_grid(d, p->call->caps, n_groups);
}

/* ---- Many rows ------------------------------------------------------------------------------- */

/* In order of size, the largest first. */
static const rx_tile gpu_tiles[] = {{128, 128, 16, 16, 8}, {64, 64, 16, 8, 8}, {32, 32, 16, 4, 4}};
static const rx_tile software_tiles[] = {{32, 64, 16, 8, 8}, {16, 32, 16, 4, 4}};

static bool tile_fits(const rx_tile *t, const rx_gpu_caps *caps)
{
    return (uint64_t)t->bk * (t->bm + t->bn + 8) * 4 <= caps->max_shared_bytes;
}

static void add_gemm(rx_gpu_build *b, const rx_product *p)
{
    static const rx_kernel kernels[RX_N_QUANT_FAMILIES] = {RX_K_dequant_gemm, RX_K_dequant_gemm_iq1,
                                                  RX_K_dequant_gemm_iq2, RX_K_dequant_gemm_iq3,
                                                  RX_K_dequant_gemm_int};
    static const rx_tile_choice choice = {
        gpu_tiles, software_tiles, sizeof gpu_tiles / sizeof(rx_tile),
        sizeof software_tiles / sizeof(rx_tile), RX_KNOB_QUANT_TILE, tile_fits, false};
    const rx_tile shape = rx_product_tile(p, &choice), *t = &shape;
    const rx_kernel k = kernels[rx_quant_family_of(p->b_type)];
    const rx_gpu_ref grid = rx_quant_grid(b, p->call, 1);
    const uint64_t n_groups = rx_product_tiles(p, t);
    const rx_args_product base = rx_product_args(p, n_groups);
    const rx_args_dequant_gemm a = {
        .bind = {.product = base.bind, .scale = scale_ref(p), .zero = zero_ref(p)},
        .spec = {.product = base.spec, .FORM = form_of(p), .BM = t->bm, .BN = t->bn, .BK = t->bk,
                 .TM = t->tm, .TN = t->tn},
        .push = {base.push, make_scales(p)},
    };
    const rx_args_dequant_gemm_grid with_grid = {
        .bind = {.dequant_gemm = a.bind, .grid = grid}, .spec = {a.spec}, .push = {a.push}};
    rx_gpu_dispatch *d =
        grid == RX_REF_NONE ? rx_add_dequant_gemm(b, k, rx_tile_threads(t), &a)
                            : rx_add_dequant_gemm_grid(b, k, rx_tile_threads(t), &with_grid);
    rx_gpu_grid(d, p->call->caps, n_groups);
}

/* With fewer rows, writing the decoded weight and reading it again does not pay. */
#define COOPMAT_ROWS 32
#define FRAGMENT_ROWS 9

/* Multiplies by cooperative matrices, if they are there and the policy lets the weight be rounded:
 * a scale times a stored number has more bits than a half, also where x is one. Fragments are
 * packed from the blocks, and tiles in shared memory are decoded into; types with a grid, and those
 * beside bf16, are decoded first, to the type of x or to f32, which is rounded with its range kept.
 * The decoding is taken back when the product is not for matrices. */
static bool add_coopmat(rx_gpu_build *b, const rx_product *p)
{
    const rx_gpu_call *c = p->call;
    if (p->scale || p->m < FRAGMENT_ROWS || !c->caps->coopmat_f16 ||
        c->policy != RLX_POLICY_FAST)
        return false;
    if (rlx_dtype_is_packed(p->b_type) && p->a_type != RLX_BF16 && rx_product_coopmat(b, p))
        return true;
    if (p->m < COOPMAT_ROWS)
        return false;
    size_t n = b->n, n_scratch = b->n_scratch;
    rx_product q = *p;
    q.b_type = p->a_type == RLX_BF16 ? RLX_BF16 : RLX_F32;
    q.b_ref = rx_gpu_scratch(b, (uint64_t)(p->n * p->k * rlx_dtype_block_bytes(q.b_type)));
    q.b_at = 0;
    q.b_n = p->k;
    q.b_k = 1;
    add_decode(b, c, &(decoding){.in = 1, .to = q.b_ref, .type = q.b_type, .n = p->n * p->k,
                                 .slab = p->n * p->k});
    if (rx_product_coopmat(b, &q))
        return true;
    b->n = n;
    b->n_scratch = n_scratch;
    return false;
}

/* With many rows, decoding the weight first pays: the product then runs at the speed of a float
 * one. */
#define DECODED_ROWS 96
#define DECODED_BYTES ((uint64_t)256 << 20)
#define DECODED_ITEMS 8 /* vectors of eight per invocation of dequant.comp, at most */

/* To f16 with a factor per column, where the policy allows rounding the weight. */
static bool add_rows(rx_gpu_build *b, const rx_product *p, rx_product *q)
{
    const rx_gpu_caps *caps = p->call->caps;
    const uint32_t most = caps->max_invocations < 256 ? 128 : 256;
    uint32_t local = 64;
    while (local < most && p->k / 8 > (int64_t)local * DECODED_ITEMS / 2)
        local *= 2;
    const int64_t items = (p->k / 8 + local - 1) / local;
    if (p->call->policy != RLX_POLICY_FAST || p->k % 8 || p->n % 4 || items > DECODED_ITEMS)
        return false;
    q->b_type = RLX_F16;
    q->b_ref = rx_gpu_scratch(b, (uint64_t)(p->n * p->k) * 2);
    q->columns_ref = rx_gpu_scratch(b, (uint64_t)p->n * 4);
    const rx_args_dequant_rows a = {
        .bind = {.w = RX_REF_IN(1), .o = q->b_ref, .scale = q->columns_ref},
        .spec = {.TW = p->b_type, .THREADS = local, .ITEMS = (uint32_t)items},
        .push = {.n = (uint32_t)p->n, .k = (uint32_t)p->k, .w_at = (uint32_t)p->b_at,
                 .row_bytes = (uint32_t)p->b_n},
    };
    rx_gpu_grid(rx_add_dequant_rows(b, RX_K_dequant_rows, local, &a), caps, (uint64_t)p->n);
    return true;
}

static bool add_decoded(rx_gpu_build *b, const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    const int64_t n = p->n * p->k;
    if (p->scale || p->m < DECODED_ROWS || p->n < 64 || p->n_axes || caps->is_software ||
        rx_quant_family_of(p->b_type) != RX_QUANT_BLOCKS || (uint64_t)n * 4 > DECODED_BYTES ||
        (uint64_t)n * 4 > caps->max_binding_bytes)
        return false;
    rx_product q = *p;
    q.b_at = 0;
    q.b_n = p->k;
    q.b_k = 1;
    if (!add_rows(b, p, &q)) {
        q.b_type = RLX_F32;
        q.b_ref = rx_gpu_scratch(b, (uint64_t)n * 4);
        add_decode(b, p->call, &(decoding){.in = 1, .to = q.b_ref, .type = RLX_F32, .n = n,
                                           .slab = n});
    }
    rx_product_tiled(b, &q);
    return true;
}

static void select_kernel(rx_gpu_build *b, const rx_product *p)
{
    if (p->call->invariant) {
        add_gemm(b, p); /* one order of summation for any number of rows */
        return;
    }
    if (rx_quant_few(b, p))
        return;
    if (p->m <= GEMV_ROWS) {
        if (!rx_quant_dot(b, p, NULL))
            add_gemv(b, p, NULL);
    } else if (!add_coopmat(b, p) && !add_decoded(b, p)) {
        add_gemm(b, p);
    }
}

/* ---- dequant_matmul, dequant_grouped_matmul -------------------------------------------------- */

static rx_product make_product(const rx_gpu_call *c)
{
    const rlx_dequant_desc *d = c->attr;
    const rx_view *w = &c->in[1];
    rx_product p = rx_product_make(c, true, rx_gpu_in(c, 5));
    rx_product_set_bias(&p, 4);
    p.act = d->act;
    p.act_last = d->act_last;
    if (rlx_dtype_is_float(w->dtype))
        return p;
    p.scale = rx_gpu_in(c, 2);
    p.b_at = rx_quant_byte_offset(w);
    p.b_n = packed_bytes(w->dtype, w->dim[1]);
    return p;
}

rlx_status rx_gpu_lower_dequant_matmul(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *w = &c->in[1];
    rx_product p = make_product(c);
    if (rlx_dtype_is_float(w->dtype))
        return rx_product_lower(b, &p);
    if (rx_view_elements(p.out) == 0 || !check_size(b, c, w))
        return b->status;
    rx_product_collapse(&p);
    rx_product_each(b, &p, select_kernel);
    return b->status;
}

/* Sets p if the product has few rows and a supported packed weight. */
static bool is_few_rows(const rx_gpu_call *c, rx_product *p)
{
    const rx_view *w = &c->in[1];
    if (!rlx_dtype_is_packed(w->dtype) || !rx_product_is_indexable(c))
        return false;
    int64_t bytes = packed_bytes(w->dtype, rx_view_elements(w));
    if (bytes > (int64_t)(c->caps->max_binding_bytes / 2) || bytes > UINT32_MAX / 2)
        return false;
    *p = make_product(c);
    rx_product_collapse(p);
    return p->m >= 1;
}

bool rx_quant_takes_prologue(const rx_gpu_call *c)
{
    rx_product p;
    if (!is_few_rows(c, &p))
        return false;
    return rx_quant_has_few(&p) ? rx_quant_few_prologue(&p)
                                : p.m <= GEMV_ROWS && rx_quant_dot_prologue(&p);
}

bool rx_quant_takes_epilogue(const rx_gpu_call *c)
{
    rx_product p;
    if (!is_few_rows(c, &p))
        return false;
    return rx_quant_has_few(&p) ? rx_quant_few_epilogue(&p)
                                : p.m <= GEMV_ROWS && rx_quant_dot_epilogue(&p);
}

rlx_status rx_gpu_lower_dequant_grouped_matmul(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *x = &c->in[0], *w = &c->in[1], *ids = &c->in[2];
    if (rlx_dtype_is_float(w->dtype)) {
        rx_gpu_call plain = *c;
        plain.attr = &(const rx_grouped_attr){.trans_b = true};
        return rx_gpu_lower_grouped_matmul(b, &plain);
    }
    if (rx_view_elements(&c->out[0]) == 0 || !check_size(b, c, w))
        return b->status;
    /* one row per batch; without experts the sum is empty */
    rx_product p = {.call = c, .a_ref = RX_REF_IN(0), .b_ref = RX_REF_IN(1), .a_type = x->dtype,
                    .b_type = w->dtype, .out = &c->out[0], .m = 1, .n = w->dim[1],
                    .k = w->dim[0] ? x->dim[1] : 0, .n_axes = 3, .dim = {x->dim[0], 1, 1},
                    .a = {x->stride[0]}};
    p.a_at = rx_gpu_offset(x);
    p.a_k = x->stride[1];
    p.b_at = rx_quant_byte_offset(w);
    p.b_n = packed_bytes(w->dtype, w->dim[2]);
    p.b[0] = p.b_n * p.n;
    p.out_at = rx_gpu_offset(&c->out[0]);
    if (!rx_quant_dot(b, &p, ids))
        add_gemv(b, &p, ids);
    return b->status;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* out[i] = w[i], or the experts of the ids. */
static rlx_status lower_decode(rx_gpu_build *b, const rx_gpu_call *c, const rx_view *ids)
{
    const rx_view *out = &c->out[0];
    int64_t n = rx_view_elements(out);
    if (n == 0 || !check_size(b, c, &c->in[0]))
        return b->status;
    decoding j = {.in = 0, .ids = ids, .to = RX_REF_OUT(0), .type = out->dtype,
                  .at = rx_gpu_offset(out), .n = n, .slab = ids ? out->dim[1] * out->dim[2] : n};
    add_decode(b, c, &j);
    return b->status;
}

rlx_status rx_gpu_lower_dequant_moe_weights(rx_gpu_build *b, const rx_gpu_call *c)
{
    return lower_decode(b, c, &c->in[1]);
}

/* ---- quantize, dequantize -------------------------------------------------------------------- */

static rlx_status add_convert(rx_gpu_build *b, const rx_gpu_call *c, rx_kernel kernel)
{
    const rlx_quant_desc *a = c->attr;
    const rx_view *x = &c->in[0], *scale = &c->in[1], *zero = rx_gpu_in(c, 2), *out = &c->out[0];
    int64_t n = rx_view_elements(out), inner = 1;
    if (n == 0)
        return RLX_OK;
    if (!rx_product_is_indexable(c))
        return rx_gpu_fail(b, c, "more than 2^32 elements");
    for (int i = (int)a->axis + 1; i < x->rank; i++)
        inner *= x->dim[i];
    const rx_args_quantize args = {
        .bind = {.x = RX_REF_IN(0), .scale = RX_REF_IN(1),
                 .zero = zero ? RX_REF_IN(2) : RX_REF_NONE, .o = RX_REF_OUT(0)},
        .spec = {.TX = x->dtype, .TSCALE = scale->dtype,
                 .TZERO = zero ? zero->dtype : RLX_NO_TYPE, .TOUT = out->dtype,
                 .MODE = scale->rank == 0 ? RX_CODE_SCALE_TENSOR
                         : a->block       ? RX_CODE_SCALE_BLOCK
                                          : RX_CODE_SCALE_CHANNEL},
        .push = {.n = (uint32_t)n, .x_at = rx_gpu_offset(x), .scale_at = rx_gpu_offset(scale),
                 .zero_at = zero ? rx_gpu_offset(zero) : 0, .out_at = rx_gpu_offset(out),
                 .channels = x->rank ? (uint32_t)x->dim[a->axis] : 1, .inner = (uint32_t)inner,
                 .block = (uint32_t)a->block},
    };
    const uint64_t per_word = (uint64_t)(4 / rlx_dtype_block_bytes(out->dtype));
    rx_flat_grid(rx_add_quantize(b, kernel, local_size(c->caps), &args), c->caps,
                 ((uint64_t)n + per_word - 1) / per_word);
    return b->status;
}

rlx_status rx_gpu_lower_quantize(rx_gpu_build *b, const rx_gpu_call *c)
{
    return add_convert(b, c, RX_K_quantize);
}

rlx_status rx_gpu_lower_dequantize(rx_gpu_build *b, const rx_gpu_call *c)
{
    return rx_gpu_in(c, 1) ? add_convert(b, c, RX_K_dequantize) : lower_decode(b, c, NULL);
}
