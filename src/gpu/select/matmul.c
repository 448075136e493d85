/* SPDX-License-Identifier: MIT */
/* matmul, qmatmul and grouped_matmul on GPUs.
 *
 * A call becomes an rx_product: vectors become matrices, adjacent batch axes are merged, and a
 * batch that shares b becomes rows. Then the first kernel of select_product() that fits. */
#include <string.h>

#include "gpu/select/product.h"
#include "gpu/select/walk.h"

/* ---- Products of views ----------------------------------------------------------------------- */

int64_t rx_product_batches(const rx_product *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->n_axes; i++)
        n *= p->dim[i];
    return n;
}

static int64_t first_element(const rx_view *v) { return v ? (int64_t)rx_gpu_offset(v) : 0; }

/* Stride of v along axis i of a result of `rank` axes that it broadcasts to. */
static int64_t broadcast_stride(const rx_view *v, int rank, int i)
{
    int own = v ? i - (rank - v->rank) : -1;
    return own < 0 || v->dim[own] == 1 ? 0 : v->stride[own];
}

/* Stride along batch axis i of n_axes. */
static int64_t batch_stride(const rx_view *v, int n_axes, int i)
{
    int own = v->rank > 2 ? v->rank - 2 : 0, at = i - (n_axes - own);
    return at < 0 || v->dim[at] == 1 ? 0 : v->stride[at];
}

/* a . b with the axes of matmul, without epilogue. */
rx_product rx_product_make(const rx_gpu_call *c, bool trans_b, const rx_view *residual)
{
    const rx_view *a = &c->in[0], *b = &c->in[1], *out = &c->out[0];
    rx_product p = {.call = c, .a_ref = RX_REF_IN(0), .b_ref = RX_REF_IN(1), .a_type = a->dtype,
                    .b_type = b->dtype, .out = out, .residual = residual, .m = 1, .n = 1};
    p.a_at = first_element(a);
    p.b_at = first_element(b);
    p.out_at = first_element(out);
    p.res_at = first_element(residual);
    p.k = a->dim[a->rank - 1];
    p.a_k = a->stride[a->rank - 1];
    p.n_axes = (a->rank > b->rank ? a->rank : b->rank) - 2;
    if (p.n_axes < 0)
        p.n_axes = 0;
    int axis = p.n_axes; /* of the result */
    if (a->rank > 1) {
        p.m = a->dim[a->rank - 2];
        p.a_m = a->stride[a->rank - 2];
        p.res_m = broadcast_stride(residual, out->rank, axis++);
    }
    int k_axis = b->rank - (b->rank > 1 && !trans_b ? 2 : 1);
    p.b_k = b->stride[k_axis];
    if (b->rank > 1) {
        int n_axis = b->rank - (trans_b ? 2 : 1);
        p.n = b->dim[n_axis];
        p.b_n = b->stride[n_axis];
        p.res_n = broadcast_stride(residual, out->rank, axis);
    }
    for (int i = 0; i < p.n_axes; i++) {
        p.dim[i] = out->dim[i];
        p.a[i] = batch_stride(a, p.n_axes, i);
        p.b[i] = batch_stride(b, p.n_axes, i);
        p.res[i] = broadcast_stride(residual, out->rank, i);
    }
    return p;
}

void rx_product_set_bias(rx_product *p, size_t i)
{
    p->bias = rx_gpu_in(p->call, i);
    p->bias_in = i;
    p->bias_at = first_element(p->bias);
    p->bias_n = p->bias ? p->bias->stride[0] : 0;
}

static void drop_axis(rx_product *p, int i)
{
    p->n_axes--;
    for (; i < p->n_axes; i++) {
        p->dim[i] = p->dim[i + 1];
        p->a[i] = p->a[i + 1];
        p->b[i] = p->b[i + 1];
        p->res[i] = p->res[i + 1];
    }
}

/* Merges batch axes; then those that share b become rows. */
void rx_product_collapse(rx_product *p)
{
    for (int i = p->n_axes - 1; i >= 0; i--)
        if (p->dim[i] == 1)
            drop_axis(p, i);
    for (int i = p->n_axes - 2; i >= 0; i--) {
        int64_t inner = p->dim[i + 1];
        if (p->a[i] != p->a[i + 1] * inner || p->b[i] != p->b[i + 1] * inner ||
            p->res[i] != p->res[i + 1] * inner)
            continue;
        p->a[i] = p->a[i + 1];
        p->b[i] = p->b[i + 1];
        p->res[i] = p->res[i + 1];
        p->dim[i] *= inner;
        drop_axis(p, i + 1);
    }
    for (; p->n_axes; p->n_axes--) {
        int i = p->n_axes - 1;
        if (p->b[i])
            return;
        if (p->m == 1) {
            p->a_m = p->a[i];
            p->res_m = p->res[i];
        } else if (p->a[i] != p->m * p->a_m || p->res[i] != p->m * p->res_m) {
            return;
        }
        p->m *= p->dim[i];
    }
}

static void swap(int64_t *x, int64_t *y)
{
    int64_t t = *x;
    *x = *y;
    *y = t;
}

/* Transposes a product with one column into one with one row; the result has the same layout. */
static void transpose(rx_product *p)
{
    rx_gpu_ref ref = p->a_ref;
    p->a_ref = p->b_ref;
    p->b_ref = ref;
    rlx_dtype t = p->a_type;
    p->a_type = p->b_type;
    p->b_type = t;
    swap(&p->m, &p->n);
    swap(&p->a_at, &p->b_at);
    swap(&p->a_m, &p->b_n);
    swap(&p->a_k, &p->b_k);
    swap(&p->res_m, &p->res_n);
    swap(&p->a_zero, &p->b_zero);
    for (int i = 0; i < p->n_axes; i++)
        swap(&p->a[i], &p->b[i]);
    p->bias_n = p->scale_n = 0;
}

/* ---- What every kernel is told --------------------------------------------------------------- */

/* True when words of the result contain elements of two rows, or rows do not begin on a word. */
static bool splits_words(const rx_product *p)
{
    int64_t per_word = 4 / rlx_dtype_block_bytes(p->out->dtype);
    return per_word > 1 && (p->n % per_word || p->out_at % per_word);
}

/* Stride of axis i of the last RX_PRODUCT_AXES, 0 for missing leading ones. */
static uint32_t stride_of(const rx_product *p, const int64_t *stride, int i)
{
    const int axis = p->n_axes - RX_PRODUCT_AXES + i;
    return axis < 0 ? 0 : (uint32_t)stride[axis];
}

static rx_bind_product make_bind(const rx_product *p)
{
    return (rx_bind_product){
        .a = p->a_ref, .b = p->b_ref, .o = p->out_ref ? p->out_ref : RX_REF_OUT(0),
        .bias = p->bias ? RX_REF_IN(p->bias_in) : RX_REF_NONE,
        .res = p->residual ? RX_REF_IN(p->bias_in + 1) : RX_REF_NONE};
}

/* Negative strides wrap, as they do in the shaders. */
static rx_push_product make_push(const rx_product *p, uint64_t n_groups)
{
    const rx_push_product_lead lead = {
        .m = (uint32_t)p->m, .n = (uint32_t)p->n, .k = (uint32_t)p->k,
        .n_groups = (uint32_t)n_groups, .a_at = (uint32_t)p->a_at, .b_at = (uint32_t)p->b_at,
        .out_at = (uint32_t)p->out_at, .bias_at = (uint32_t)p->bias_at,
        .res_at = (uint32_t)p->res_at, .a_m = (uint32_t)p->a_m, .a_k = (uint32_t)p->a_k};
    const rx_push_product_rest rest = {
        .res_m = (uint32_t)p->res_m, .res_n = (uint32_t)p->res_n, .bias_n = (uint32_t)p->bias_n,
        .dim1 = p->n_axes > 1 ? (uint32_t)p->dim[p->n_axes - 2] : 1,
        .dim2 = p->n_axes > 0 ? (uint32_t)p->dim[p->n_axes - 1] : 1,
        .a_0 = stride_of(p, p->a, 0), .a_1 = stride_of(p, p->a, 1), .a_2 = stride_of(p, p->a, 2),
        .b_0 = stride_of(p, p->b, 0), .b_1 = stride_of(p, p->b, 1), .b_2 = stride_of(p, p->b, 2),
        .res_0 = stride_of(p, p->res, 0), .res_1 = stride_of(p, p->res, 1),
        .res_2 = stride_of(p, p->res, 2)};
    return (rx_push_product){.product_lead = lead, .b_n = (uint32_t)p->b_n,
                             .b_k = (uint32_t)p->b_k, .product_rest = rest};
}

rx_push_experts rx_product_experts(const rx_view *ids, const rx_view *bank)
{
    if (!ids)
        return (rx_push_experts){0};
    return (rx_push_experts){.ids_at = rx_gpu_offset(ids), .ids_step = (uint32_t)ids->stride[0],
                             .n_experts = (uint32_t)bank->dim[0]};
}

rx_args_product rx_product_args(const rx_product *p, uint64_t n_groups)
{
    return (rx_args_product){
        .bind = make_bind(p),
        .spec = {.TA = p->a_type, .TB = p->b_type, .TOUT = p->out->dtype,
                 .TBIAS = p->bias ? p->bias->dtype : RLX_NO_TYPE,
                 .TRES = p->residual ? p->residual->dtype : RLX_NO_TYPE, .ACT = p->act,
                 .ACT_LAST = p->act_last, .PARTIAL = splits_words(p)},
        .push = make_push(p, n_groups),
    };
}

/* ---- Tiles through shared memory ------------------------------------------------------------- */

/* In order of size, the largest first. */
static const rx_tile gpu_tiles[] = {{128, 128, 8, 16, 8}, {64, 64, 8, 8, 8}, {32, 32, 16, 4, 4}};
/* Small BK: the compile time of newer lavapipes is quadratic in the code between barriers. */
static const rx_tile software_tiles[] = {{32, 64, 8, 8, 8}, {16, 32, 8, 4, 4}};

static bool tile_fits(const rx_tile *t, const rx_gpu_caps *caps)
{
    return (uint64_t)2 * t->bk * (t->bm + t->bn + 8) * 4 <= caps->max_shared_bytes;
}

uint32_t rx_tile_threads(const rx_tile *t) { return t->bm / t->tm * (t->bn / t->tn); }

uint64_t rx_product_tiles(const rx_product *p, const rx_tile *t)
{
    return (uint64_t)((p->m + t->bm - 1) / t->bm) * (uint64_t)((p->n + t->bn - 1) / t->bn) *
           (uint64_t)rx_product_batches(p);
}

/* Units that only have subgroups of 64 have registers for one subgroup at a time with 128 results
 * an invocation, so that nothing hides its loads (RADV for Vega: 236 of 256). */
static bool has_registers(const rx_tile *t, const rx_gpu_caps *caps)
{
    return t->tm * t->tn <= 64 || caps->subgroup_least < 64;
}

static bool tile_serves(const rx_tile_choice *c, const rx_tile *t, const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    uint64_t enough = caps->is_software ? 1 : caps->compute_units ? caps->compute_units : 32;
    bool wasted = p->m <= t->bm / 2 || p->n <= t->bn / 2;
    /* slices of a long k make up for few tiles: count_slices() */
    uint64_t slices = !c->sliced || caps->is_software || p->k < 4096 ? 1 : p->k < 8192 ? 2 : 4;
    return rx_tile_threads(t) <= caps->max_invocations && c->fits(t, caps) && !wasted &&
           has_registers(t, caps) &&
           rx_product_tiles(p, t) * slices >= enough;
}

rx_tile rx_product_tile(const rx_product *p, const rx_tile_choice *c)
{
    const rx_gpu_caps *caps = p->call->caps;
    const rx_tile *tiles = caps->is_software ? c->software : c->gpu;
    const uint32_t *knob = rx_gpu_knob(caps, c->knob);
    size_t i = 0, last = (caps->is_software ? c->n_software : c->n_gpu) - 1;
    if (knob) {
        rx_tile chosen = {knob[0], knob[1], knob[2], knob[3], knob[4]};
        if (tile_serves(c, &chosen, p))
            return chosen;
    }
    while (i < last && !tile_serves(c, &tiles[i], p))
        i++;
    return tiles[i];
}

/* Whether the offset, the stride of lines and those of the batch axes are multiples of `unit`. */
static bool is_aligned(const rx_product *p, int64_t at, int64_t line, const int64_t *batch,
                       int64_t unit)
{
    bool ok = at % unit == 0 && line % unit == 0;
    for (int i = 0; i < p->n_axes; i++)
        ok = ok && batch[i] % unit == 0;
    return ok;
}

/* The direction in which `unit` elements of an operand form one load: 2 along k, 3 along its rows
 * or columns, 0 none. */
static uint32_t pick_loads(const rx_product *p, bool is_a, int64_t unit)
{
    int64_t s_x = is_a ? p->a_m : p->b_n, s_k = is_a ? p->a_k : p->b_k, n_x = is_a ? p->m : p->n;
    int64_t at = is_a ? p->a_at : p->b_at;
    const int64_t *batch = is_a ? p->a : p->b;
    if (s_k == 1 && p->k % unit == 0 && is_aligned(p, at, n_x > 1 ? s_x : 0, batch, unit))
        return 2;
    if (s_x == 1 && n_x % unit == 0 && is_aligned(p, at, p->k > 1 ? s_k : 0, batch, unit))
        return 3;
    return 0;
}

/* How a tile of an operand is loaded: 1 along its rows or columns, else along k; 2 is added when
 * four elements are one load. */
static uint32_t pick_along(const rx_product *p, bool is_a)
{
    const uint32_t loads = pick_loads(p, is_a, 4);
    const int64_t s_x = is_a ? p->a_m : p->b_n, s_k = is_a ? p->a_k : p->b_k;
    return loads ? loads : s_x == 1 && s_k != 1;
}

/* True: the operand has 16-bit elements, and a 16-byte load of eight suits the tile. */
static bool in_eights(const rx_product *p, bool is_a, const rx_tile *t)
{
    const rlx_dtype type = is_a ? p->a_type : p->b_type;
    const uint32_t width = is_a ? t->bm : t->bn, loads = pick_loads(p, is_a, 8);
    return (type == RLX_F16 || type == RLX_BF16) && loads && loads == pick_along(p, is_a) &&
           width * t->bk % (8 * rx_tile_threads(t)) == 0 && t->bk % 8 == 0;
}

static void add_tiles(rx_gpu_build *b, const rx_product *p, const rx_tile *t)
{
    bool is_int = !rlx_dtype_is_float(p->a_type);
    uint32_t along_a = pick_along(p, true), along_b = pick_along(p, false);
    static const rx_kernel kernels[2][2] = {{RX_K_matmul, RX_K_matmul_bv},
                                            {RX_K_matmul_av, RX_K_matmul_avbv}};
    rx_kernel k = is_int ? RX_K_matmul_int : kernels[along_a >> 1][along_b >> 1];
    const uint64_t n_groups = rx_product_tiles(p, t);
    const uint32_t eights = 16u * in_eights(p, true, t) + 32u * in_eights(p, false, t);
    const rx_args_product base = rx_product_args(p, n_groups);
    const rx_args_matmul a = {
        .bind = {.product = base.bind,
                 .scale = p->columns_ref ? p->columns_ref
                          : p->scale     ? RX_REF_IN(p->scale_in) : RX_REF_NONE},
        .spec = {.product = base.spec,
                 .TSCALE = p->columns_ref ? RLX_F32 : p->scale ? p->scale->dtype : RLX_NO_TYPE,
                 .BM = t->bm, .BN = t->bn, .BK = t->bk, .TM = t->tm, .TN = t->tn,
                 .ALONG = along_a + 4 * along_b + eights},
        .push = {base.push},
    };
    const rx_args_matmul_int whole = {
        .bind = {a.bind},
        .spec = {a.spec},
        .push = {.product = base.push, .a_zero = (int32_t)p->a_zero, .b_zero = (int32_t)p->b_zero,
                 .y_zero = (int32_t)p->y_zero, .scale_at = (uint32_t)first_element(p->scale),
                 .scale_n = (uint32_t)p->scale_n},
    };
    rx_gpu_dispatch *d = is_int ? rx_add_matmul_int(b, k, rx_tile_threads(t), &whole)
                                : rx_add_matmul(b, k, rx_tile_threads(t), &a);
    rx_gpu_grid(d, p->call->caps, n_groups);
}

/* ---- Long sums of few results: k in slices --------------------------------------------------- */

#define MIN_SLICE 64
#define MAX_SLICES 16

/* The number of slices of k for full occupancy; 1: the tiles suffice. Slices have equal lengths and
 * begin at multiples of four elements. */
static int64_t count_slices(const rx_product *p, const rx_tile *t)
{
    const rx_gpu_caps *caps = p->call->caps;
    int64_t units = caps->is_software ? 1 : caps->compute_units ? caps->compute_units : 32;
    int64_t n_tiles = (int64_t)rx_product_tiles(p, t);
    int64_t want = 4 * units / (n_tiles ? n_tiles : 1), most = p->k / MIN_SLICE;
    bool one_result = !p->out_ref && rlx_dtype_is_float(p->a_type) &&
                      p->n_axes < RX_PRODUCT_AXES && !p->call->invariant;
    if (!one_result || want < 2 || !rx_kernel_available(RX_K_product_join, caps))
        return 1;
    want = want < most ? want : most;
    want = want < MAX_SLICES ? want : MAX_SLICES;
    uint64_t bytes = (uint64_t)(p->m * p->n * rx_product_batches(p)) * 4;
    while (want > 1 && (p->k % (4 * want) || bytes * (uint64_t)want > caps->max_binding_bytes))
        want--;
    return want < 1 ? 1 : want;
}

/* Adds up the partial sums of the slices in `parts` and applies the epilogue. */
static void add_join(rx_gpu_build *b, const rx_product *p, rx_gpu_ref parts, int64_t n_slices)
{
    int64_t batches = rx_product_batches(p);
    const rx_args_product base = rx_product_args(p, (uint64_t)batches);
    const rx_args_product_join a = {
        .bind = {.parts = parts, .o = base.bind.o, .bias = base.bind.bias, .res = base.bind.res},
        .spec = {.product = base.spec, .SLICES = (uint32_t)n_slices},
        .push = {base.push},
    };
    const rx_gpu_caps *caps = p->call->caps;
    rx_flat_grid(rx_add_product_join(b, RX_K_product_join, caps->is_software ? 32 : 128, &a), caps,
                 (uint64_t)(batches * p->m * ((p->n + 3) / 4)));
}

/* The slices are one more batch axis, whose results go to scratch memory. */
static void add_sliced(rx_gpu_build *b, const rx_product *p, const rx_tile *t, int64_t n_slices)
{
    const rx_view sums = {.dtype = RLX_F32};
    rx_product q = *p;
    uint64_t n = (uint64_t)(n_slices * rx_product_batches(p) * p->m * p->n);
    q.out_ref = rx_gpu_scratch(b, n * 4);
    q.out = &sums;
    q.out_at = 0;
    q.bias = q.residual = NULL;
    q.act = RLX_ACT_NONE;
    q.k = p->k / n_slices;
    q.dim[q.n_axes] = n_slices;
    q.a[q.n_axes] = q.k * p->a_k;
    q.b[q.n_axes] = q.k * p->b_k;
    q.res[q.n_axes++] = 0;
    add_tiles(b, &q, t);
    add_join(b, p, q.out_ref, n_slices);
}

void rx_product_tiled(rx_gpu_build *b, const rx_product *p)
{
    static const rx_tile_choice choice = {
        gpu_tiles, software_tiles, sizeof gpu_tiles / sizeof(rx_tile),
        sizeof software_tiles / sizeof(rx_tile), RX_KNOB_TILE, tile_fits, true};
    const rx_tile t = rx_product_tile(p, &choice);
    int64_t n_slices = count_slices(p, &t);
    if (n_slices > 1)
        add_sliced(b, p, &t, n_slices);
    else
        add_tiles(b, p, &t);
}

/* ---- Few rows -------------------------------------------------------------------------------- */

#define GEMV_ROWS 8

/* A use of gemv.comp. */
typedef struct gemv_shape {
    uint32_t local, cols, team, steps;
} gemv_shape;

typedef struct gemv_ids {
    const rx_view *ids; /* NULL: an ordinary batch */
    size_t in;
} gemv_ids;

/* Rows of b that an invocation of gemv.comp loads at once, where b is contiguous along n in whole
 * loads: enough for `slices` slices of k, as registers allow. */
static uint32_t pick_steps(const rx_product *p, uint32_t slices)
{
    bool wide = p->a_k == 1 && is_aligned(p, p->a_at, p->m > 1 ? p->a_m : 0, p->a, 4);
    uint32_t steps = p->m <= 2 ? 8 : 4;
    while (steps > 4 && (p->k % steps || p->k < (int64_t)2 * steps * slices))
        steps /= 2;
    return wide && p->k % steps == 0 && p->k >= (int64_t)steps * slices ? steps : 1;
}

/* b is read along n, in loads of `per` elements or one by one. */
static gemv_shape shape_kn(const rx_product *p, bool vector, uint32_t per)
{
    const rx_gpu_caps *caps = p->call->caps;
    bool soft = caps->is_software;
    int64_t n = p->n * rx_product_batches(p);
    uint32_t each = vector ? per : 1, units = caps->compute_units ? caps->compute_units : 32;
    /* A team reads one cache line or more. Few workgroups get more invocations, as far as registers
     * for sums and rows of b allow. */
    uint32_t team = soft ? 4 : !vector ? 32 : n < 8192 ? 8 : 16;
    uint32_t local = soft ? 32 : !vector || p->m > 2 ? 256 : 512;
    if (local == 512 && p->m == 1 && 2 * n < (int64_t)units * team * each)
        local = 1024;
    while (local > caps->max_invocations || local * each * 4 > caps->max_shared_bytes ||
           (local > 64 && local / team > p->k))
        local /= 2;
    const uint32_t *knob = rx_gpu_knob(caps, RX_KNOB_GEMV_LINE);
    if (knob && vector && knob[0] <= caps->max_invocations) {
        local = knob[0];
        team = knob[1];
    }
    return (gemv_shape){local, team * each, team, vector ? pick_steps(p, local / team) : 1};
}

/* b is read along k. Shared memory holds a sum for each row, column and member of a team. */
static gemv_shape shape_nk(const rx_product *p, uint32_t per)
{
    bool soft = p->call->caps->is_software;
    uint32_t local = soft ? 16 : p->m <= 2 ? 256 : p->m <= 4 ? 128 : 64;
    uint32_t cols = !soft && p->m == 1 && p->n * rx_product_batches(p) >= 4096 ? 8 : 4;
    const uint32_t *knob = rx_gpu_knob(p->call->caps, RX_KNOB_GEMV);
    if (knob && p->m <= 2) {
        local = knob[0];
        cols = knob[1];
    }
    if (local > p->call->caps->max_invocations)
        local = p->call->caps->max_invocations;
    uint32_t team = local;
    while (team > 8 && (int64_t)team * per * 2 > p->k)
        team /= 2;
    if (cols < local / team)
        cols = local / team;
    return (gemv_shape){local, cols, team, 1};
}

static void add_gemv(rx_gpu_build *b, const rx_product *p, gemv_ids g)
{
    int64_t per = 16 / rlx_dtype_block_bytes(p->b_type);
    bool along_n = p->b_n == 1 && p->b_k != 1 && p->n > 1, vector;
    if (along_n)
        vector = p->n % per == 0 && is_aligned(p, p->b_at, p->b_k, p->b, per);
    else
        vector = p->b_k == 1 && p->a_k == 1 && p->k % per == 0 &&
                 is_aligned(p, p->b_at, p->n > 1 ? p->b_n : 0, p->b, per) &&
                 is_aligned(p, p->a_at, p->m > 1 ? p->a_m : 0, p->a, per);
    static const rx_kernel kernels[2][2] = {{RX_K_gemv, RX_K_gemv_v4},
                                            {RX_K_gemv_kn, RX_K_gemv_kn_v4}};
    const gemv_shape s = along_n ? shape_kn(p, vector, (uint32_t)per)
                                 : shape_nk(p, vector ? (uint32_t)per : 1);
    const uint64_t n_groups = (uint64_t)((p->n + s.cols - 1) / s.cols) *
                              (uint64_t)rx_product_batches(p);
    const rx_args_product base = rx_product_args(p, n_groups);
    const rx_args_gemv a = {
        .bind = {.product = base.bind, .ids = g.ids ? RX_REF_IN(g.in) : RX_REF_NONE,
                 .flags = g.ids ? RX_REF_FLAGS : RX_REF_NONE},
        .spec = {.product = base.spec, .TIDS = g.ids ? g.ids->dtype : RLX_NO_TYPE,
                 .ROWS = (uint32_t)p->m, .COLS = s.cols, .TEAM = s.team, .THREADS = s.local,
                 .STEPS = s.steps},
        .push = {.product = base.push,
                 .experts = rx_product_experts(g.ids, &p->call->in[1])},
    };
    rx_gpu_grid(rx_add_gemv(b, kernels[along_n][vector], s.local, &a), p->call->caps, n_groups);
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* Which kernel a product gets, in order of preference:
 *   integers                         tiles, i32
 *   where the bits of a row must not depend on the number of rows: tiles, f32, k in one slice
 *   floats, at most 8 rows           gemv, limited by the reading of b
 *   floats, cooperative matrices     where they are and the policy lets them: select/coopmat.c
 *   floats                           tiles, f32 */
static void select_product(rx_gpu_build *b, const rx_product *p)
{
    if (!rlx_dtype_is_float(p->a_type))
        rx_product_tiled(b, p);
    else if (p->m <= GEMV_ROWS && !p->call->invariant)
        add_gemv(b, p, (gemv_ids){0});
    else if (p->call->invariant || !rx_product_coopmat(b, p))
        rx_product_tiled(b, p);
}

/* A dispatch covers few batch axes; each index of the leading axes is a product of its own. */
void rx_product_each(rx_gpu_build *b, const rx_product *p, rx_product_fn *select)
{
    if (p->n_axes <= RX_PRODUCT_AXES) {
        select(b, p);
        return;
    }
    rx_product q = *p;
    drop_axis(&q, 0);
    int64_t out_step = rx_product_batches(&q) * p->m * p->n;
    for (int64_t i = 0; i < p->dim[0]; i++) {
        rx_product_each(b, &q, select);
        q.a_at += p->a[0];
        q.b_at += p->b[0];
        q.res_at += p->res[0];
        q.out_at += out_step;
    }
}

/* Indices in shaders have 32 bits. */
bool rx_product_is_indexable(const rx_gpu_call *c)
{
    for (size_t i = 0; i < c->n_in; i++)
        if (c->in[i].rank >= 0 && rx_view_elements(&c->in[i]) > INT32_MAX * INT64_C(2))
            return false;
    return rx_view_elements(&c->out[0]) <= INT32_MAX * INT64_C(2);
}

rlx_status rx_product_lower(rx_gpu_build *b, rx_product *p)
{
    if (!rx_product_is_indexable(p->call))
        return rx_gpu_fail(b, p->call, "more than 2^32 elements");
    if (rx_view_elements(p->out) == 0)
        return RLX_OK;
    rx_product_collapse(p);
    if (p->n == 1 && p->m > 1 && !p->call->invariant)
        transpose(p);
    rx_product_each(b, p, select_product);
    return b->status;
}

rlx_status rx_gpu_lower_matmul(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_matmul_desc *d = c->attr;
    rx_product p = rx_product_make(c, d->trans_b, rx_gpu_in(c, 3));
    rx_product_set_bias(&p, 2);
    p.act = d->act;
    p.act_last = d->act_last;
    return rx_product_lower(b, &p);
}

rlx_status rx_gpu_lower_qmatmul(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_qmatmul_desc *d = c->attr;
    rx_product p = rx_product_make(c, d->trans_b, NULL);
    rx_product_set_bias(&p, 3);
    p.scale_in = 2;
    p.scale = rx_gpu_in(c, 2);
    p.scale_n = p.scale && p.scale->rank ? p.scale->stride[0] : 0;
    p.a_zero = d->a_zero;
    p.b_zero = d->b_zero;
    p.y_zero = d->y_zero;
    return rx_product_lower(b, &p);
}

rlx_status rx_gpu_lower_grouped_matmul(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_grouped_attr *d = c->attr;
    const rx_view *x = &c->in[0], *w = &c->in[1], *ids = &c->in[2];
    if (!rx_product_is_indexable(c))
        return rx_gpu_fail(b, c, "more than 2^32 elements");
    if (rx_view_elements(&c->out[0]) == 0)
        return RLX_OK;
    int n_axis = d->trans_b ? 1 : 2, k_axis = d->trans_b ? 2 : 1;
    /* one row per batch; without experts the sum is empty */
    rx_product p = {.call = c, .a_ref = RX_REF_IN(0), .b_ref = RX_REF_IN(1), .a_type = x->dtype,
                    .b_type = w->dtype, .out = &c->out[0], .m = 1, .n = w->dim[n_axis],
                    .k = w->dim[0] ? x->dim[1] : 0, .n_axes = 3,
                    .dim = {x->dim[0], 1, 1}, .a = {x->stride[0]}, .b = {w->stride[0]}};
    p.a_at = first_element(x);
    p.b_at = first_element(w);
    p.out_at = first_element(&c->out[0]);
    p.a_k = x->stride[1];
    p.b_n = w->stride[n_axis];
    p.b_k = w->stride[k_axis];
    add_gemv(b, &p, (gemv_ids){ids, 2});
    return b->status;
}
