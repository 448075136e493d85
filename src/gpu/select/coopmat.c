/* SPDX-License-Identifier: MIT */
/* Float products on cooperative matrices with f32 accumulation: f16 and bf16, and f32 rounded to
 * f16 where the policy allows it. Rows and columns of f32 whose range exceeds that of f16 are
 * scaled by exponents: shaders/range.glsl.
 *
 * Where the device lays fragments out as pack_rows.comp writes them, operands are packed (weights
 * once, others into scratch memory, or not at all) and fragments are loaded directly. Elsewhere
 * both operands go through shared memory. */
#include <string.h>

#include "gpu/select/product.h"
#include "gpu/select/quant.h"

/* Below so many multiplications two more dispatches do not pay. */
#define MIN_WORK (INT64_C(1) << 20)

static int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

/* ---- Packing --------------------------------------------------------------------------------- */

/* One operand of a product, [rows, k]; the rows of b are its columns. */
typedef struct side {
    bool is_b;
    bool in_tile4; /* packed as the quants of tile4.glsl */
    rx_gpu_ref ref;
    rlx_dtype type;
    int64_t rows, k, at, s_row, s_k;
    int n_axes; /* batch axes along which it is not broadcast */
    int64_t dim[RX_PRODUCT_AXES], stride[RX_PRODUCT_AXES];
} side;

static side make_side(const rx_product *p, bool is_b)
{
    side s = {.is_b = is_b, .ref = is_b ? p->b_ref : p->a_ref,
              .type = is_b ? p->b_type : p->a_type, .rows = is_b ? p->n : p->m, .k = p->k,
              .at = is_b ? p->b_at : p->a_at, .s_row = is_b ? p->b_n : p->a_m,
              .s_k = is_b ? p->b_k : p->a_k};
    const int64_t *stride = is_b ? p->b : p->a;
    for (int i = 0; i < p->n_axes; i++)
        if (stride[i]) {
            s.dim[s.n_axes] = p->dim[i];
            s.stride[s.n_axes++] = stride[i];
        }
    return s;
}

/* Vectors of 16 bytes of one packed matrix, per 64 rows with their exponents. */
static int64_t packed_vectors(const side *s)
{
    return round_up(s->rows, 64) / 64 * (round_up(s->k, 64) * 8 + 16);
}

/* Whether packing rounds, so that rows may need exponents. */
static bool is_rounded(const side *s) { return s->type == RLX_F32 || rlx_dtype_is_packed(s->type); }

static int64_t side_batches(const side *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->n_axes; i++)
        n *= s->dim[i];
    return n;
}

/* Strides of the packed form along the batch axes of the product. */
static void packed_strides(const rx_product *p, const side *s, int64_t out[RLX_MAX_RANK])
{
    const int64_t *stride = s->is_b ? p->b : p->a;
    int64_t next = packed_vectors(s);
    for (int i = p->n_axes - 1; i >= 0; i--) {
        out[i] = stride[i] ? next : 0;
        next *= stride[i] ? p->dim[i] : 1;
    }
}

/* True when eight elements along k are one aligned load, or two of f32. */
static bool loads_vectors(const side *s)
{
    bool ok = !rlx_dtype_is_packed(s->type) && s->s_k == 1 && s->k % 8 == 0 && s->at % 8 == 0 &&
              (s->rows == 1 || s->s_row % 8 == 0);
    for (int i = 0; i < s->n_axes; i++)
        ok = ok && s->stride[i] % 8 == 0;
    return ok;
}

/* Reads rows along k in vectors, or blocks of a packed type. */
static bool packs_pairs(const side *s) { return rlx_dtype_is_packed(s->type) || loads_vectors(s); }

static rx_kernel pack_kernel(const side *s)
{
    static const rx_kernel packed[] = {RX_K_pack_rows_quant, RX_K_pack_rows_iq1,
                                       RX_K_pack_rows_iq2, RX_K_pack_rows_iq3};
    if (rlx_dtype_is_packed(s->type))
        return packed[rx_quant_family_of(s->type)];
    return s->in_tile4 ? RX_K_pack_rows_tile4 : loads_vectors(s) ? RX_K_pack_rows_v4
                                                                 : RX_K_pack_rows;
}

/* Row pairs per workgroup of pack_rows.comp, of the 8 of 16 rows: few where there are few rows, for
 * occupancy. */
static uint32_t pick_pairs(const side *s, const rx_gpu_caps *caps)
{
    const int64_t units = caps->compute_units ? caps->compute_units : 64;
    uint32_t pairs = 4;
    while (pairs > 1 && side_batches(s) * round_up(s->rows, 64) / 16 * (8 / pairs) < 2 * units)
        pairs /= 2;
    return pairs;
}

/* Workgroups of pack_rows.comp. */
static uint64_t count_packs(const side *s, uint32_t pairs)
{
    const int64_t n = side_batches(s) * round_up(s->rows, 64) / 16;
    return (uint64_t)(packs_pairs(s) ? n * (8 / pairs) : n);
}

static rx_args_pack_rows pack_args(const side *s, rx_gpu_ref to, const rx_gpu_caps *caps)
{
    const uint32_t pairs = pick_pairs(s, caps);
    const int n = s->n_axes;
    return (rx_args_pack_rows){
        .bind = {.x = s->ref, .y = to},
        .spec = {.T = s->type, .ALONG = s->s_row == 1 && s->s_k != 1, .LEFT = s->is_b,
                 .PAIRS = pairs},
        .push = {.rows = (uint32_t)s->rows, .k = (uint32_t)s->k,
                 .n_groups = (uint32_t)count_packs(s, pairs), .at = (uint32_t)s->at,
                 .s_row = (uint32_t)s->s_row, .s_k = (uint32_t)s->s_k,
                 .dim1 = n > 1 ? (uint32_t)s->dim[n - 2] : 1,
                 .dim2 = n > 0 ? (uint32_t)s->dim[n - 1] : 1,
                 .s_0 = n > 2 ? (uint32_t)s->stride[n - 3] : 0,
                 .s_1 = n > 1 ? (uint32_t)s->stride[n - 2] : 0,
                 .s_2 = n > 0 ? (uint32_t)s->stride[n - 1] : 0},
    };
}

/* Distinguishes packed forms of one weight: a hash of the arguments. */
static uint32_t form_of(rx_kernel k, const rx_args_pack_rows *a)
{
    uint32_t h = 2166136261u ^ k, words[(sizeof a->spec + sizeof a->push) / 4];
    memcpy(words, &a->spec, sizeof a->spec);
    memcpy(words + sizeof a->spec / 4, &a->push, sizeof a->push);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        h = (h ^ words[i]) * 16777619u;
    return h;
}

/* The packed form of a side: of a weight once, else in every run. Quantised blocks are decoded in
 * every run: stored, they would take four times the memory. */
static rx_gpu_ref pack_side(rx_gpu_build *b, const rx_product *p, const side *s)
{
    const rx_gpu_call *c = p->call;
    uint64_t bytes = (uint64_t)(side_batches(s) * packed_vectors(s)) * 16;
    const uint32_t in = s->ref - RX_REF_IN(0);
    const bool keep = c->is_param && s->ref >= RX_REF_IN(0) && in < c->n_in && c->is_param[in];
    const rx_kernel k = pack_kernel(s);
    rx_args_pack_rows a = pack_args(s, RX_REF_NONE, c->caps);
    rx_gpu_dispatch *d;
    if (keep && !rlx_dtype_is_packed(s->type)) {
        a.bind.y = rx_gpu_derive(b, in, form_of(k, &a), bytes, &d);
        rx_set_pack_rows(b, d, k, 128, &a);
        rx_gpu_grid(d, c->caps, a.push.n_groups);
        return a.bind.y;
    }
    a.bind.y = rx_gpu_scratch(b, bytes);
    const rx_gpu_ref grid = rlx_dtype_is_packed(s->type) ? rx_quant_grid(b, c, 1) : RX_REF_NONE;
    if (grid != RX_REF_NONE)
        d = rx_add_pack_rows_grid(b, k, 128, &(rx_args_pack_rows_grid){
            .bind = {.pack_rows = a.bind, .grid = grid}, .spec = {a.spec}, .push = {a.push}});
    else
        d = rx_add_pack_rows(b, k, 128, &a);
    rx_gpu_grid(d, c->caps, a.push.n_groups);
    return a.bind.y;
}

/* ---- The product of fragments ---------------------------------------------------------------- */

/* Where fragments are loaded from: both packed; a in place, for few tiles or very few; b
 * quantised. */
typedef enum frag_from { FROM_PACKED, FROM_ROWS, FROM_FEW_ROWS, FROM_TILE4 } frag_from;

typedef struct frag_shape {
    frag_from from;
    uint32_t side_m, side_n; /* subgroups of a workgroup along rows and columns */
    uint32_t slices;         /* of k: times as many subgroups */
    uint32_t cm, cn;         /* fragments per subgroup */
} frag_shape;

#define MAX_SLICES 8

static int64_t count_tiles(const rx_product *p, int64_t bm, int64_t bn)
{
    return ((p->m + bm - 1) / bm) * ((p->n + bn - 1) / bn) * rx_product_batches(p);
}

/* Quantised weights are read in place up to so many rows: above, decoding them in a pass of its own
 * costs less than decoding them for each tile. */
static bool takes_tile4(const rx_product *p, const side *a)
{
    const int64_t most_rows = p->b_type == RLX_Q4_0 ? 1024 : 512;
    return rlx_dtype_is_packed(p->b_type) && p->m <= most_rows && p->k % 128 == 0 &&
           p->n_axes == 0 && loads_vectors(a) && rx_quant_keeps_tiles(p);
}

/* Slices of k for very few tiles: as short as possible, then as few as those make. */
static uint32_t many_slices(int64_t k)
{
    int64_t steps = round_up(k, 64) / 64, each = (steps + MAX_SLICES - 1) / MAX_SLICES;
    return (uint32_t)((steps + each - 1) / each);
}

static bool slices_fit(const frag_shape *s, const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    uint32_t subgroups = s->side_m * s->side_n * s->slices;
    return s->slices <= round_up(p->k, 64) / 64 && 32 * subgroups <= caps->max_invocations &&
           subgroups * 16 * (s->cn * 16 + 4) * 4 <= caps->max_shared_bytes;
}

/* The shape for a read in place: tiles of 64 x 64, with split k where they are few. False: packing
 * a is faster, for larger tiles. Measured on an H200 (132 units): packing takes a fifth of the time
 * of a short k, and many small workgroups hide the cost of an activation. */
static bool pick_rows(const rx_product *p, int64_t units, frag_shape *s)
{
    const int64_t small = count_tiles(p, 64, 64), whole = count_tiles(p, 128, 128);
    s->from = FROM_ROWS;
    s->slices = small * 2 < units * 5 ? 4 : 2;
    if (whole * 4 < units * 3)
        return true;
    if (small < units * 5)
        return p->k <= 2048;
    if (whole * 2 >= units * 5)
        return p->act && whole < units * 4 && p->k <= 512;
    s->slices = 1;
    return p->k <= 1024;
}

/* Measured on an H200 (132 units). Whole tiles of 128 x 128 pay from about 2.5 per unit; below,
 * each is computed by twice the subgroups, which split k. With fewer than 3 tiles of 64 x 64 per
 * unit k is split in 4. When even those leave half of the units idle, tiles are 16 x 32. Up to 32
 * rows the bandwidth of b is the limit: small tiles and many slices. Rows of quantised weights are
 * in tiles of 16, 32, 48 or 64 rows, by their number. */
static frag_shape pick_shape(const rx_product *p, const side *a)
{
    const rx_gpu_caps *caps = p->call->caps;
    int64_t units = caps->compute_units ? caps->compute_units : 64;
    int64_t small = count_tiles(p, 64, 64), whole = count_tiles(p, 128, 128);
    bool rows = loads_vectors(a) && p->k % 64 == 0;
    frag_shape s = {FROM_PACKED, 1, 1, 1, p->m <= 16 ? 1 : p->m <= 32 ? 2 : 4, 4};
    if (takes_tile4(p, a)) {
        const int64_t sixteens = (p->m + 15) / 16, row_tiles = (p->m + 63) / 64;
        s.from = FROM_TILE4;
        s.cm = (uint32_t)((sixteens + row_tiles - 1) / row_tiles);
        if (p->b_type == RLX_Q4_0) {
            s.slices = s.cm < 4 || small < units * 3 ? 4 : 2;
        } else { /* more bits per block: fewer columns fit in registers */
            const bool is_few = count_tiles(p, 64, 128) * 2 <= units;
            s.cn = 2;
            s.side_n = is_few ? 1 : 4;
            s.slices = is_few ? MAX_SLICES : 2;
        }
    } else if (s.cm < 4) {
        s.from = rows ? FROM_FEW_ROWS : FROM_PACKED;
        s.cn = small < 2 * units ? 2 : 4;
        s.slices = MAX_SLICES;
    } else if (small * 2 <= units && rows) {
        s = (frag_shape){FROM_FEW_ROWS, 1, 1, many_slices(p->k), 1, 2};
    } else if (!rows || a->type == RLX_F32 || !pick_rows(p, units, &s)) {
        const bool is_few = whole * 4 < units * 3;
        s.from = FROM_PACKED;
        s.side_m = s.side_n = is_few ? 1 : 2;
        s.slices = is_few && small < units * 3 ? 4 : is_few || whole * 2 < units * 5 ? 2 : 1;
    }
    while (s.slices > 1 && !slices_fit(&s, p))
        s.slices /= 2;
    return s;
}

static bool writes_vectors(const rx_product *p) { return p->n % 8 == 0 && p->out_at % 8 == 0; }

static rx_kernel frag_kernel(const rx_product *p, const frag_shape *s)
{
    static const rx_kernel kernels[2][3] = {
        {RX_K_gemm_slice, RX_K_gemm_rows, RX_K_gemm_few},
        {RX_K_gemm_slice_bf, RX_K_gemm_rows_bf, RX_K_gemm_few_bf}};
    bool is_bf16 = p->a_type == RLX_BF16;
    if (s->from == FROM_TILE4)
        return RX_K_gemm_tile4;
    if (s->from == FROM_FEW_ROWS && p->a_type == RLX_F32)
        return RX_K_gemm_few_f32;
    if (s->from == FROM_PACKED && s->slices == 1 && s->cm == 4 && p->act)
        return is_bf16 ? RX_K_gemm_frag_act_bf : RX_K_gemm_frag_act;
    if (s->from == FROM_PACKED && s->slices == 1 && s->cm == 4)
        return is_bf16 ? RX_K_gemm_frag_bf : RX_K_gemm_frag;
    return kernels[is_bf16][s->from];
}

static void add_fragments(rx_gpu_build *b, const rx_product *p)
{
    side a = make_side(p, false), w = make_side(p, true);
    frag_shape s = pick_shape(p, &a);
    bool packs_a = s.from == FROM_PACKED || s.from == FROM_TILE4;
    a.in_tile4 = s.from == FROM_TILE4;
    rx_gpu_ref a_ref = packs_a ? pack_side(b, p, &a) : p->a_ref;
    rx_gpu_ref b_ref = a.in_tile4 ? rx_quant_tiles(b, p) : pack_side(b, p, &w);
    rx_product q = *p;
    q.k = round_up(p->k, 64);
    q.b_at = 0;
    packed_strides(p, &w, q.b);
    if (packs_a) {
        q.a_at = 0;
        packed_strides(p, &a, q.a);
    }

    uint32_t subgroups = s.side_m * s.side_n * s.slices;
    const uint32_t scales =
        (packs_a && is_rounded(&a) ? RX_CODE_A_SCALED : 0u) |
        (s.from != FROM_TILE4 && is_rounded(&w) ? RX_CODE_B_SCALED : 0u);
    uint64_t n_groups = (uint64_t)count_tiles(p, 16 * s.cm * s.side_m, 16 * s.cn * s.side_n);
    q.a_ref = a_ref;
    q.b_ref = b_ref;
    const rx_args_product base = rx_product_args(&q, n_groups);
    const rx_args_gemm_frag args = {
        .bind = {base.bind},
        .spec = {.product = base.spec, .WIDE = writes_vectors(p), .SGM = s.side_m,
                 .SGN = s.side_n, .SLICES_N = s.slices, .CM = s.cm, .CN = s.cn,
                 .SCALES = scales},
        .push = {base.push},
    };
    rx_gpu_grid(rx_add_gemm_frag(b, frag_kernel(p, &s), 32 * subgroups, &args), p->call->caps,
                n_groups);
}

/* ---- The product through shared memory ------------------------------------------------------- */

typedef struct coop_shape {
    uint32_t cm, cn; /* matrices of a subgroup, of which there are 2 x 2 */
} coop_shape;

#define COOP_BK 32

static uint64_t coop_shared_bytes(coop_shape s, const rx_gpu_caps *c)
{
    const uint64_t lines = 2 * (s.cm * c->coopmat_m + s.cn * c->coopmat_n);
    return lines * (COOP_BK / 8 + 1) * 16 + lines * 8 +
           4 * c->coopmat_m * (c->coopmat_n + 4) * 4 + 16;
}

/* Subgroups with tiles of rows x columns. */
static coop_shape shape_of(const rx_gpu_caps *c, uint32_t rows, uint32_t columns)
{
    return (coop_shape){rows / c->coopmat_m, columns / c->coopmat_n};
}

/* Subgroups make 64 x 64 where they have the registers and there is work for all units, else
 * 32 x 32; few rows have tiles of few. */
static coop_shape pick_coop_shape(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    const int64_t units = caps->compute_units ? caps->compute_units : 32;
    const coop_shape large = shape_of(caps, 64, 64), flat = shape_of(caps, 32, 64);
    if (p->m <= 32)
        return shape_of(caps, 16, 32);
    if (caps->coopmat_subgroup < 32 || caps->is_software)
        return shape_of(caps, 16, 16);
    const uint32_t room = caps->max_shared_bytes;
    if (count_tiles(p, 128, 128) >= units && coop_shared_bytes(large, caps) <= room)
        return large;
    if (count_tiles(p, 64, 128) >= units && coop_shared_bytes(flat, caps) <= room)
        return flat;
    return shape_of(caps, 32, 32);
}

/* Eight columns of b at the same k are an aligned load of halves. */
static bool loads_columns(const side *s)
{
    bool ok = (s->type == RLX_F16 || s->type == RLX_BF16) && s->rows % 8 == 0 && s->at % 8 == 0 &&
              s->s_k % 8 == 0;
    for (int i = 0; i < s->n_axes; i++)
        ok = ok && s->stride[i] % 8 == 0;
    return ok;
}

static uint32_t coop_loads(const side *s)
{
    const bool across = s->s_row == 1 && s->s_k != 1;
    if (s->is_b && across && loads_columns(s))
        return RX_CODE_B_ROWS;
    if (s->is_b)
        return (across ? RX_CODE_B_ACROSS : 0u) | (loads_vectors(s) ? RX_CODE_B_VECTORS : 0u);
    return (across ? RX_CODE_A_ACROSS : 0u) | (loads_vectors(s) ? RX_CODE_A_VECTORS : 0u);
}

static void add_shared(rx_gpu_build *b, const rx_product *p)
{
    side a = make_side(p, false), w = make_side(p, true);
    coop_shape s = pick_coop_shape(p);
    const rx_gpu_caps *caps = p->call->caps;
    const uint32_t local = 4 * caps->coopmat_subgroup;
    const int64_t bm = 2 * s.cm * caps->coopmat_m, bn = 2 * s.cn * caps->coopmat_n;
    uint64_t n_groups = (uint64_t)(((p->m + bm - 1) / bm) * ((p->n + bn - 1) / bn) *
                                   rx_product_batches(p));
    const rx_args_product base = rx_product_args(p, n_groups);
    const rx_args_gemm_coop args = {
        .bind = {base.bind},
        .spec = {.product = base.spec, .WIDE = writes_vectors(p), .SGM = 2, .SGN = 2, .CM = s.cm,
                 .CN = s.cn, .BK = COOP_BK, .LOADS = coop_loads(&a) | coop_loads(&w),
                 .THREADS = local, .MM = caps->coopmat_m, .NN = caps->coopmat_n,
                 .KK = caps->coopmat_k},
        .push = {base.push},
    };
    const rx_kernel k = rlx_dtype_is_packed(w.type) ? RX_K_gemm_coop_quant
                        : a.type == RLX_BF16        ? RX_K_gemm_coop_bf : RX_K_gemm_coop;
    rx_gpu_grid(rx_add_gemm_coop(b, k, local, &args), caps, n_groups);
}

/* ---- The choice ------------------------------------------------------------------------------ */

static bool fits_bindings(const rx_product *p)
{
    uint64_t limit = p->call->caps->max_binding_bytes;
    for (int i = 0; i < 2; i++) {
        side s = make_side(p, i == 1);
        if ((uint64_t)(side_batches(&s) * packed_vectors(&s)) * 16 > limit)
            return false;
    }
    return true;
}

bool rx_product_coopmat(rx_gpu_build *b, const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    bool is_bf16 = p->a_type == RLX_BF16;
    bool has_f32 = p->a_type == RLX_F32 || p->b_type == RLX_F32;
    if (has_f32 && p->call->policy != RLX_POLICY_FAST)
        return false;
    if (is_bf16 != (p->b_type == RLX_BF16)) /* cooperative matrices of one type */
        return false;
    if (!rx_kernel_available(is_bf16 ? RX_K_gemm_coop_bf : RX_K_gemm_coop, caps))
        return false;
    if (p->n < 16 || p->k < 16 || p->m * p->n * p->k * rx_product_batches(p) < MIN_WORK)
        return false;
    if (caps->coopmat_fragments && caps->subgroup_shuffle && fits_bindings(p) &&
        rx_kernel_available(is_bf16 ? RX_K_gemm_frag_bf : RX_K_gemm_frag, caps)) {
        add_fragments(b, p);
        return true;
    }
    if (rlx_dtype_is_packed(p->b_type) && rx_quant_family_of(p->b_type) != RX_QUANT_BLOCKS)
        return false;
    if (rx_gpu_knob(caps, RX_KNOB_MATRICES))
        return false;
    if (!caps->coopmat_subgroup || 4 * caps->coopmat_subgroup > caps->max_invocations ||
        coop_shared_bytes(shape_of(caps, 32, 32), caps) > caps->max_shared_bytes)
        return false;
    add_shared(b, p);
    return true;
}
