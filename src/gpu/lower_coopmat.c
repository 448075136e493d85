/* SPDX-License-Identifier: MIT */
/* Float products by cooperative matrices with f32 sums: f16 and bf16, and f32 as f16 under the
 * policy that lets it.
 *
 * Where the device keeps fragments as pack.comp writes them, both operands are packed (weights
 * once, others into scratch memory) and multiplied without shared memory. Elsewhere both go through
 * shared memory as they are. */
#include "gpu/product.h"

/* Fewer multiplications than this are not worth two more dispatches. */
#define MIN_WORK (INT64_C(1) << 20)

static int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

/* ---- Packing --------------------------------------------------------------------------------- */

/* One side of a product: rows x k, the columns of b being its rows. */
typedef struct side {
    bool is_b, is_bf16;
    rx_gpu_ref ref;
    rlx_dtype type;
    int64_t rows, k, at, s_row, s_k;
    int n_axes; /* batch axes that it does not broadcast along */
    int64_t dim[RX_PRODUCT_AXES], stride[RX_PRODUCT_AXES];
} side;

static side make_side(const rx_product *p, bool is_b)
{
    side s = {.is_b = is_b, .ref = is_b ? p->b_ref : p->a_ref,
              .type = is_b ? p->b_type : p->a_type, .rows = is_b ? p->n : p->m, .k = p->k,
              .at = is_b ? p->b_at : p->a_at, .s_row = is_b ? p->b_n : p->a_m,
              .s_k = is_b ? p->b_k : p->a_k};
    s.is_bf16 = s.type == RLX_BF16;
    const int64_t *stride = is_b ? p->b : p->a;
    for (int i = 0; i < p->n_axes; i++)
        if (stride[i]) {
            s.dim[s.n_axes] = p->dim[i];
            s.stride[s.n_axes++] = stride[i];
        }
    return s;
}

/* Vectors of 16 bytes of one packed matrix. */
static int64_t packed_vectors(const side *s)
{
    return round_up(s->rows, 64) * round_up(s->k, 64) / 8;
}

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

/* True when eight elements along k are aligned loads: one, or two of f32. */
static bool loads_vectors(const side *s)
{
    bool ok = !rlx_dtype_is_packed(s->type) && s->s_k == 1 && s->k % 8 == 0 && s->at % 8 == 0 &&
              (s->rows == 1 || s->s_row % 8 == 0);
    for (int i = 0; i < s->n_axes; i++)
        ok = ok && s->stride[i] % 8 == 0;
    return ok;
}

static void fill_pack(rx_gpu_dispatch *d, const side *s, rx_gpu_ref to, const rx_gpu_caps *caps)
{
    static const rx_kernel kernels[2][2][2] = { /* [bf16][b][vectors] */
        {{RX_K_pack_a, RX_K_pack_a_v4}, {RX_K_pack_b, RX_K_pack_b_v4}},
        {{RX_K_pack_a_bf, RX_K_pack_a_bf_v4}, {RX_K_pack_b_bf, RX_K_pack_b_bf_v4}}};
    d->kernel = rlx_dtype_is_packed(s->type) ? RX_K_pack_b_quant
                                             : kernels[s->is_bf16][s->is_b][loads_vectors(s)];
    d->spec[0] = 128;
    d->n_spec = 1;
    rx_gpu_spec(d, s->type);
    rx_gpu_spec(d, s->s_row == 1 && s->s_k != 1);
    rx_gpu_bind(d, s->ref, false);
    rx_gpu_bind(d, to, true);
    int64_t n_groups = side_batches(s) * (packed_vectors(s) / 512);
    int n = s->n_axes;
    const int64_t words[] = {s->rows, s->k, n_groups, s->at, s->s_row, s->s_k,
                             n > 1 ? s->dim[n - 2] : 1, n > 0 ? s->dim[n - 1] : 1,
                             n > 2 ? s->stride[n - 3] : 0, n > 1 ? s->stride[n - 2] : 0,
                             n > 0 ? s->stride[n - 1] : 0};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        rx_gpu_push(d, (uint32_t)words[i]);
    rx_gpu_grid(d, caps, (uint64_t)n_groups);
}

/* Tells packed forms of one weight apart: a hash of the words that made it. */
static uint32_t form_of(const rx_gpu_dispatch *d)
{
    uint32_t h = 2166136261u ^ d->kernel;
    for (uint32_t i = 0; i < d->n_push; i++)
        h = (h ^ d->push[i]) * 16777619u;
    return (h ^ d->spec[1]) * 16777619u;
}

/* The packed form of a side: of a weight made once, else in every run. Blocks are decoded in every
 * run: kept, they would take four times the memory. */
static rx_gpu_ref pack_side(rx_gpu_build *b, const rx_product *p, const side *s)
{
    const rx_gpu_call *c = p->call;
    uint64_t bytes = (uint64_t)(side_batches(s) * packed_vectors(s)) * 16;
    bool keep = c->is_param && s->ref < c->n_in && c->is_param[s->ref];
    if (keep && !rlx_dtype_is_packed(s->type)) {
        rx_gpu_dispatch form = {0}, *d;
        fill_pack(&form, s, RX_REF_NONE, c->caps);
        rx_gpu_ref ref = rx_gpu_derive(b, s->ref, form_of(&form), bytes, &d);
        fill_pack(d, s, ref, c->caps);
        return ref;
    }
    rx_gpu_ref ref = rx_gpu_scratch(b, bytes);
    rx_gpu_dispatch *d = rx_gpu_add(b, RX_K_pack_a, 128);
    fill_pack(d, s, ref, c->caps);
    return ref;
}

/* ---- The product of packed operands ---------------------------------------------------------- */

typedef struct frag_shape {
    uint32_t slices;   /* of k inside a workgroup; 1: four subgroups side by side */
    uint32_t cm, cn;   /* fragments of a subgroup */
} frag_shape;

/* Measured on an H200 (132 units): whole tiles of 128 x 128 pay from about 2.5 a unit; below, tiles
 * of 64 x 64 whose k is split in 2, and in 4 when even those are fewer than 3 a unit. Up to 32 rows
 * the reading of b is the limit: small tiles and many slices. */
static frag_shape pick_shape(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    int64_t units = caps->compute_units ? caps->compute_units : 64, n_b = rx_product_batches(p);
    int64_t steps = round_up(p->k, 64) / 64, tiles_n = (p->n + 63) / 64;
    frag_shape s = {.slices = 1, .cm = p->m <= 16 ? 1 : p->m <= 32 ? 2 : 4, .cn = 4};
    if (s.cm < 4) {
        s.cn = tiles_n * n_b < 2 * units ? 2 : 4;
        s.slices = 8;
    } else {
        int64_t whole = ((p->m + 127) / 128) * ((p->n + 127) / 128) * n_b;
        int64_t small = ((p->m + 63) / 64) * tiles_n * n_b;
        if (whole * 2 < units * 5)
            s.slices = small < units * 3 ? 4 : 2;
    }
    while (s.slices > 1 && ((int64_t)s.slices > steps ||
                            s.slices * s.cm * 16 * 20 * 4 > caps->max_shared_bytes))
        s.slices /= 2;
    return s;
}

static bool writes_vectors(const rx_product *p) { return p->n % 8 == 0 && p->out_at % 8 == 0; }

static void add_packed(rx_gpu_build *b, const rx_product *p)
{
    side a = make_side(p, false), w = make_side(p, true);
    rx_gpu_ref a_ref = pack_side(b, p, &a), b_ref = pack_side(b, p, &w);
    rx_product q = *p;
    q.a_at = q.b_at = 0;
    q.k = round_up(p->k, 64);
    packed_strides(p, &a, q.a);
    packed_strides(p, &w, q.b);

    frag_shape s = pick_shape(p);
    bool sliced = s.slices > 1 || s.cm < 4;
    static const rx_kernel kernels[2][2] = {{RX_K_gemm_frag, RX_K_gemm_slice},
                                            {RX_K_gemm_frag_bf, RX_K_gemm_slice_bf}};
    uint32_t side_m = sliced ? 1 : 2, side_n = sliced ? 1 : 2;
    rx_gpu_dispatch *d = rx_gpu_add(b, kernels[a.is_bf16][sliced], sliced ? 32 * s.slices : 128);
    rx_product_bind(d, &q, a_ref, b_ref);
    rx_product_spec(d, &q);
    const uint32_t spec[] = {writes_vectors(p), side_m, side_n, s.slices, s.cm, s.cn};
    for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++)
        rx_gpu_spec(d, spec[i]);
    int64_t bm = 16 * s.cm * side_m, bn = 16 * s.cn * side_n;
    uint64_t n_groups = (uint64_t)(((p->m + bm - 1) / bm) * ((p->n + bn - 1) / bn) *
                                   rx_product_batches(p));
    rx_product_push(d, &q, n_groups);
    rx_gpu_grid(d, p->call->caps, n_groups);
}

/* ---- The product through shared memory ------------------------------------------------------- */

typedef struct coop_shape {
    uint32_t cm, cn; /* fragments of a subgroup, of which there are 2 x 2 */
} coop_shape;

#define COOP_BK 32

static uint64_t coop_shared_bytes(coop_shape s)
{
    return (uint64_t)(32 * s.cm + 32 * s.cn) * (COOP_BK / 8 + 1) * 16 + 4 * 16 * 20 * 4;
}

static coop_shape pick_coop_shape(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    int64_t units = caps->compute_units ? caps->compute_units : 32;
    int64_t tiles = ((p->m + 127) / 128) * ((p->n + 127) / 128) * rx_product_batches(p);
    coop_shape large = {4, 4}, small = {2, 2};
    return tiles >= units && coop_shared_bytes(large) <= caps->max_shared_bytes ? large : small;
}

/* Bits of LOADS in gemm_coop.comp. */
static uint32_t coop_loads(const side *s)
{
    bool vectors = s->type != RLX_F32 && loads_vectors(s);
    return (uint32_t)(s->s_row == 1 && s->s_k != 1) | (uint32_t)vectors << 1;
}

static void add_shared(rx_gpu_build *b, const rx_product *p)
{
    side a = make_side(p, false), w = make_side(p, true);
    coop_shape s = pick_coop_shape(p);
    rx_gpu_dispatch *d = rx_gpu_add(b, a.is_bf16 ? RX_K_gemm_coop_bf : RX_K_gemm_coop,
                                    4 * p->call->caps->subgroup);
    rx_product_bind(d, p, p->a_ref, p->b_ref);
    rx_product_spec(d, p);
    const uint32_t spec[] = {writes_vectors(p), 2, 2, s.cm, s.cn, COOP_BK,
                             coop_loads(&a) | coop_loads(&w) << 2};
    for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++)
        rx_gpu_spec(d, spec[i]);
    int64_t bm = 32 * s.cm, bn = 32 * s.cn;
    uint64_t n_groups = (uint64_t)(((p->m + bm - 1) / bm) * ((p->n + bn - 1) / bn) *
                                   rx_product_batches(p));
    rx_product_push(d, p, n_groups);
    rx_gpu_grid(d, p->call->caps, n_groups);
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
    if (is_bf16 != (p->b_type == RLX_BF16)) /* fragments of one type */
        return false;
    if (!rx_kernel_available(is_bf16 ? RX_K_gemm_frag_bf : RX_K_gemm_frag, caps))
        return false;
    if (p->n < 16 || p->k < 16 || p->m * p->n * p->k * rx_product_batches(p) < MIN_WORK)
        return false;
    if (caps->coopmat_fragments && fits_bindings(p)) {
        add_packed(b, p);
        return true;
    }
    if (rlx_dtype_is_packed(p->b_type))
        return false;
    coop_shape least = {2, 2};
    if (!caps->subgroup || 4 * caps->subgroup > caps->max_invocations ||
        coop_shared_bytes(least) > caps->max_shared_bytes)
        return false;
    add_shared(b, p);
    return true;
}
