/* SPDX-License-Identifier: MIT */
/* Products of few rows with quantised weights by dots of 8-bit integers, under the policy that lets
 * activations be rounded (to 16 bits). The weight is brought to the layout of tile4.glsl once. */
#include "gpu/product.h"
#include "gpu/quant.h"

/* Vectors of 16 bytes of a tile of 4 rows x 1024 weights: tile_vectors() of tile4.glsl. 0: the type
 * has no such layout. */
static uint32_t tile_vectors(rlx_dtype t)
{
    switch (t) {
    case RLX_Q4_0:
        return 144;
    case RLX_Q4_1:
        return 160;
    case RLX_Q5_0:
        return 176;
    case RLX_Q5_1:
        return 192;
    case RLX_Q8_0:
        return 272;
    case RLX_Q4_K:
        return 148;
    case RLX_Q5_K:
        return 180;
    case RLX_Q6_K:
        return 210;
    default:
        return 0;
    }
}

/* ---- The weight ------------------------------------------------------------------------------ */

typedef struct tiled {
    int64_t n_rows, n_blocks, n_tiles; /* tiles in all */
    uint64_t bytes;
} tiled;

static tiled make_tiled(const rx_product *p)
{
    const rx_view *w = &p->call->in[1];
    tiled t = {.n_rows = rx_view_elements(w) / p->k, .n_blocks = p->k / 32};
    t.n_tiles = (t.n_rows + 3) / 4 * ((t.n_blocks + 31) / 32);
    t.bytes = (uint64_t)t.n_tiles * tile_vectors(w->dtype) * 16;
    return t;
}

/* Operand `in`, the weight of p, in tiles, made once. Forms of parts of one weight are told apart
 * by where they lie. */
static rx_gpu_ref derive_tiles(rx_gpu_build *b, const rx_product *p, const tiled *t, uint32_t in)
{
    uint32_t kind = 0x74696c34u ^ (uint32_t)p->b_at * 16777619u ^ (uint32_t)t->n_rows << 8;
    rx_gpu_dispatch *d;
    rx_gpu_ref ref = rx_gpu_derive(b, in, kind, t->bytes, &d);
    *d = (rx_gpu_dispatch){.kernel = RX_K_tile4_pack, .spec = {128}, .n_spec = 1};
    rx_gpu_spec(d, p->b_type);
    rx_gpu_bind(d, RX_REF_IN(1), false);
    rx_gpu_bind(d, ref, true);
    const int64_t words[] = {t->n_tiles * 32, p->b_at, t->n_rows, t->n_blocks, p->b_n};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        rx_gpu_push(d, (uint32_t)words[i]);
    rx_gpu_grid(d, p->call->caps, (uint64_t)(t->n_tiles + 3) / 4);
    return ref;
}

/* ---- The product ----------------------------------------------------------------------------- */

enum { FOLD_NONE, FOLD_NORM, FOLD_MUL }; /* FOLD of dot_gemv.comp */

#define THREADS 256
#define MANY 65536       /* columns: one product fills the device for long */
#define BLOCK_BYTES 76   /* shared memory of 32 elements of x */
#define OTHER_BYTES 8704 /* and of partial sums and sums of squares, at most */

static bool x_is_wide(const rx_product *p)
{
    int64_t unit = p->a_type == RLX_F32 ? 4 : 8;
    bool ok = p->a_k == 1 && p->a_at % unit == 0 && (p->m == 1 || p->a_m % unit == 0);
    for (int i = 0; i < p->n_axes; i++)
        ok = ok && p->a[i] % unit == 0;
    return ok;
}

static bool is_possible(const rx_product *p, const rx_view *ids)
{
    const rx_gpu_call *c = p->call;
    const rx_gpu_caps *caps = c->caps;
    if (c->policy != RLX_POLICY_FAST || !c->is_param || !c->is_param[1] || p->k == 0)
        return false;
    if (!tile_vectors(p->b_type) || (ids && p->n % 4) || !x_is_wide(p))
        return false;
    if (!rx_kernel_available(RX_K_dot_gemv, caps) || caps->subgroup != 32 ||
        !caps->subgroup_shuffle || caps->max_invocations < THREADS)
        return false;
    tiled t = make_tiled(p);
    return t.bytes <= caps->max_binding_bytes && t.bytes <= UINT32_MAX &&
           rx_product_batches(p) <= caps->max_groups[1];
}

typedef struct dot_shape {
    uint32_t threads, split, per_unit; /* per_unit: workgroups that stay, for each unit */
} dot_shape;

static uint32_t count_units(const rx_gpu_caps *caps)
{
    return caps->compute_units ? caps->compute_units : 64;
}

/* Whether the dispatch is p and the product beside it. */
static bool is_pair(const rx_product *p)
{
    return p->call->tail && p->call->tail->pair;
}

/* Measured on an H200. Workgroups are large, so that few round x, and of 64 registers, so that two
 * find room on a unit: the second is of the next product, or of one beside, or where a product is
 * long or a pair its own. Groups are split where there are too few of them, and further in a
 * product with a norm: it is part of a chain, with others that read the same, and all should end at
 * about the same time. Rows of 14336 elements are split evenly by more subgroups. Short rows are
 * done before any of that matters. */
static dot_shape pick_shape(const rx_product *p, uint32_t n_tiles)
{
    const rx_gpu_caps *caps = p->call->caps;
    const rx_gpu_fold *fold = p->call->fold;
    if (n_tiles == 1 || caps->max_invocations < 2 * THREADS)
        return (dot_shape){THREADS, n_tiles > 1 ? 2 : 1, n_tiles > 1 ? 2 : 4};
    const bool few = p->n / 4 < (int64_t)count_units(caps) * (2 * THREADS / 32);
    if (few && n_tiles % 7 == 0 && caps->max_invocations >= 28 * 32)
        return (dot_shape){28 * 32, 7, 1};
    uint32_t split = few ? 2 : 1;
    if (n_tiles >= 4 && fold && fold->op == RX_OP_rms_norm)
        split = 4;
    return (dot_shape){2 * THREADS, split, is_pair(p) || p->n >= MANY ? 2 : 1};
}

/* Rows of x that shared memory holds. */
static int64_t rows_that_fit(const rx_product *p)
{
    int64_t room = (int64_t)p->call->caps->max_shared_bytes - OTHER_BYTES;
    return room / (p->k / 32 * BLOCK_BYTES);
}

/* ---- What follows the product ---------------------------------------------------------------- */

/* Bits of TAIL of dot_gemv.comp. */
enum { TAIL_ROPE = 1, TAIL_WRITE = 2, TAIL_LONG = 4, TAIL_LONG_PLACE = 8 };
enum { X, COS, SIN, POSITIONS }; /* operands of rope */

/* The rope of p's rows: pairs are neighbours, tables are f32 and there are positions. */
static bool rotates_rows(const rx_product *p, const rx_gpu_fold *rope)
{
    const rlx_rope_desc *d = rope->attr;
    const rx_view *x = &rope->in[X], *at = &rope->in[POSITIONS];
    if (!d->interleaved || d->backward || d->layout != RLX_BSHD || d->n_rot % 4)
        return false;
    for (int i = COS; i <= SIN; i++)
        if (rope->in[i].dtype != RLX_F32 || rope->in[i].stride[1] != 1 || rope->in[i].dim[0] == 0)
            return false;
    return at->rank >= 1 && x->dim[0] == 1 && x->dim[1] == p->m && x->dim[3] % 4 == 0 &&
           x->dim[2] * x->dim[3] == p->n && rx_view_is_dense(x);
}

/* Rows of p become rows of the state, one after another. */
static bool keeps_rows(const rx_product *p, const rx_gpu_tail *tail)
{
    const rx_view *update = &tail->write->in[1], *position = &tail->write->in[2];
    const rx_view *state = tail->out;
    const int axis = (int)((const rlx_axis_desc *)tail->write->attr)->axis;
    for (int i = 0; i < axis; i++)
        if (state->dim[i] != 1)
            return false;
    return rx_view_is_dense(update) && update->dim[axis] == p->m && state->stride[axis] == p->n &&
           rx_view_elements(position) == 1;
}

enum { WEIGHT = 1, BIAS = 4, RESIDUAL }; /* operands of a product */

/* The other product has a weight of the same type and shape, and nothing comes after its sum. */
static bool pairs_with(const rx_product *p, const rx_gpu_tail *t)
{
    const rx_view *a = &p->call->in[WEIGHT], *b = &t->pair->in[WEIGHT];
    return rx_kernel_available(RX_K_dot_gemv_pair, p->call->caps) && b->dtype == a->dtype &&
           rx_view_elements(a) == rx_view_elements(b) && rx_view_elements(b) == p->n * p->k &&
           !((const rlx_dequant_desc *)t->pair->attr)->act && t->pair->in[BIAS].rank < 0 &&
           t->pair->in[RESIDUAL].rank < 0 && t->out->dtype == RLX_F32 &&
           rx_view_elements(t->out) == p->m * p->n;
}

bool rx_quant_dot_tail(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    const rx_gpu_tail *t = p->call->tail;
    const int64_t n = rx_view_elements(t->out), bytes = n * rlx_dtype_block_bytes(t->out->dtype);
    if (!is_possible(p, NULL) || rows_that_fit(p) < p->m || rx_product_batches(p) != 1 ||
        !rx_kernel_available(RX_K_dot_gemv_tail, caps) || caps->max_bindings < 9)
        return false;
    if (p->b_type == RLX_Q8_0 || p->bias || p->residual || (p->act && !t->pair) || p->n % 4 ||
        p->out->dtype != RLX_F32)
        return false;
    if (t->pair && !pairs_with(p, t))
        return false;
    if (!rlx_dtype_is_float(t->out->dtype) || rx_gpu_offset(t->out) % 4 ||
        !rx_view_is_dense(t->out) || n > UINT32_MAX || bytes > (int64_t)caps->max_binding_bytes)
        return false;
    return (!t->rope || rotates_rows(p, t->rope)) && (!t->write || keeps_rows(p, t));
}

/* Words of product.glsl that a product with a tail does not need otherwise: k, n_groups, bias_at,
 * res_at, a_k, res_m, res_n, bias_n, a_0, a_1, res_0. */
enum {
    WORD_POSITION = 2, WORD_POSITION_STEP = 3, WORD_COS = 7, WORD_SIN = 8, WORD_HEAD = 10,
    WORD_N_ROWS = 13, WORD_SIN_STEP = 14, WORD_COS_STEP = 15, WORD_N_ROT = 18, WORD_PLACES = 19,
    WORD_PLACE = 24,
    WORD_PAIR = 13 /* the address of the other weight: two words */
};
#define RESIDUAL_BINDING 4 /* the other weight is bound in its place */

static void push_tail(rx_gpu_dispatch *d, const rx_gpu_tail *t)
{
    if (t->pair)
        rx_gpu_push_address(d, RESIDUAL_BINDING, WORD_PAIR);
    if (t->rope) {
        const rx_view *in = t->rope->in, *at = &in[POSITIONS];
        d->push[WORD_COS] = rx_gpu_offset(&in[COS]);
        d->push[WORD_COS_STEP] = (uint32_t)in[COS].stride[0];
        d->push[WORD_SIN] = rx_gpu_offset(&in[SIN]);
        d->push[WORD_SIN_STEP] = (uint32_t)in[SIN].stride[0];
        d->push[WORD_N_ROWS] = (uint32_t)in[COS].dim[0];
        d->push[WORD_HEAD] = (uint32_t)in[X].dim[3];
        d->push[WORD_N_ROT] = (uint32_t)((const rlx_rope_desc *)t->rope->attr)->n_rot;
        d->push[WORD_POSITION] = rx_gpu_offset(at);
        d->push[WORD_POSITION_STEP] = (uint32_t)at->stride[at->rank - 1];
    }
    if (t->write) {
        const int axis = (int)((const rlx_axis_desc *)t->write->attr)->axis;
        d->push[WORD_PLACE] = rx_gpu_offset(&t->write->in[2]);
        d->push[WORD_PLACES] = (uint32_t)t->out->dim[axis];
    }
}

/* Bindings 2 to 6 and 8, and constant TAIL; or 2 and 4. */
static void bind_tail(rx_gpu_dispatch *d, const rx_gpu_tail *t, rx_gpu_ref other)
{
    uint32_t bits = 0;
    d->bind[2] = RX_REF_TAIL;
    if (t->pair) {
        d->bind[RESIDUAL_BINDING] = other;
        return;
    }
    d->bind[6] = RX_REF_FLAGS;
    d->writes |= 1u << 6;
    if (t->rope) {
        d->bind[3] = RX_REF_ROPE + COS;
        d->bind[4] = RX_REF_ROPE + SIN;
        d->bind[5] = RX_REF_ROPE + POSITIONS;
        bits |= TAIL_ROPE | (t->rope->in[POSITIONS].dtype == RLX_I64 ? TAIL_LONG : 0);
    }
    rx_gpu_bind(d, t->write ? RX_REF_WRITE + 2 : RX_REF_NONE, false);
    if (t->write)
        bits |= TAIL_WRITE | (t->write->in[2].dtype == RLX_I64 ? TAIL_LONG_PLACE : 0);
    rx_gpu_spec(d, bits);
}

/* ---- The dispatch ---------------------------------------------------------------------------- */

#define WEIGHT_ADDRESS 11 /* words b_n and b_k of product.glsl, which this kernel does not need */

static rx_gpu_dispatch *add_kernel(rx_gpu_build *b, const rx_product *p, uint32_t threads)
{
    bool bytes = p->b_type == RLX_Q8_0, at = rx_kernel_available(RX_K_dot_gemv_at, p->call->caps);
    static const rx_kernel kernels[2][2] = {{RX_K_dot_gemv, RX_K_dot_gemv_at},
                                            {RX_K_dot_gemv_bytes, RX_K_dot_gemv_bytes_at}};
    rx_kernel k = is_pair(p) ? RX_K_dot_gemv_pair
                  : p->call->tail ? RX_K_dot_gemv_tail : kernels[bytes][at];
    rx_gpu_dispatch *d = rx_gpu_add(b, k, threads);
    if (at)
        rx_gpu_push_address(d, 1, WEIGHT_ADDRESS);
    return d;
}

/* Steps of a workgroup whose sums are joined at a time: all of them, or as many as there is room
 * for. Shared memory that is not asked for is left to workgroups of the next dispatch. */
static uint32_t count_batch(const rx_product *p, const dot_shape *s, int64_t n_steps)
{
    const int64_t most = 512 / (s->threads / 32) / p->m;
    return (uint32_t)(n_steps < most ? n_steps : most);
}

/* p has as many rows as shared memory holds. tiles: of its weight and of that of call->tail. */
static void add_dot(rx_gpu_build *b, const rx_product *p, const rx_view *ids,
                    const rx_gpu_ref tiles[2])
{
    const rx_gpu_caps *caps = p->call->caps;
    uint32_t n_blocks = (uint32_t)(p->k / 32), n_tiles = (n_blocks + 31) / 32;
    dot_shape s = pick_shape(p, n_tiles);
    rx_gpu_dispatch *d = add_kernel(b, p, s.threads);
    rx_product_bind(d, p, p->a_ref, tiles[0]);
    rx_gpu_bind(d, ids ? RX_REF_IN(2) : RX_REF_NONE, false);
    rx_gpu_bind(d, ids ? RX_REF_FLAGS : RX_REF_NONE, ids != NULL);
    rx_product_spec(d, p);
    const rx_gpu_fold *fold = p->call->fold;
    if (fold)
        d->bind[0] = RX_REF_FOLD;
    rx_gpu_bind(d, fold ? RX_REF_FOLD + 1 : RX_REF_NONE, false);
    const rx_gpu_tail *tail = p->call->tail;
    int64_t batches = rx_product_batches(p);
    int64_t teams = s.threads / 32 / s.split / (is_pair(p) ? 2 : 1);
    int64_t groups = ((p->n + 3) / 4 + teams - 1) / teams;
    int64_t stay = (int64_t)s.per_unit * count_units(caps) / batches;
    stay = stay < 1 ? 1 : stay;
    stay = stay < groups ? stay : groups;
    const uint32_t spec[] = {n_blocks, s.split, s.threads, (uint32_t)p->m,
                             ids ? ids->dtype : RLX_NO_TYPE,
                             !fold ? FOLD_NONE : fold->op == RX_OP_mul ? FOLD_MUL : FOLD_NORM,
                             count_batch(p, &s, (groups + stay - 1) / stay)};
    for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++)
        rx_gpu_spec(d, spec[i]);
    if (tail)
        bind_tail(d, tail, tiles[1]);
    rx_product_push(d, p, 0);
    if (tail)
        push_tail(d, tail);
    rx_gpu_push(d, fold ? rx_gpu_offset(&fold->in[1]) : 0);
    rx_gpu_push_f32(d, fold && fold->op == RX_OP_rms_norm
                           ? (float)((const rlx_norm_desc *)fold->attr)->eps : 0);
    d->groups[0] = (uint32_t)stay;
    d->groups[1] = (uint32_t)batches;
}

/* The weight of the other product in tiles. */
static rx_gpu_ref derive_pair(rx_gpu_build *b, const rx_product *p, const tiled *t)
{
    rx_product q = *p;
    q.b_at = rx_quant_byte_offset(&p->call->tail->pair->in[WEIGHT]);
    return derive_tiles(b, &q, t, RX_PAIR_IN(WEIGHT));
}

bool rx_quant_keeps_tiles(const rx_product *p)
{
    return is_possible(p, NULL) && make_tiled(p).n_rows == p->n;
}

rx_gpu_ref rx_quant_tiles(rx_gpu_build *b, const rx_product *p)
{
    tiled t = make_tiled(p);
    return derive_tiles(b, p, &t, WEIGHT);
}

bool rx_quant_dot_folds(const rx_product *p)
{
    return is_possible(p, NULL) && rows_that_fit(p) >= p->m && rx_product_batches(p) == 1 &&
           p->a_type == RLX_F32 && (p->m == 1 || p->a_m == p->k);
}

bool rx_quant_dot(rx_gpu_build *b, const rx_product *p, const rx_view *ids)
{
    if (!is_possible(p, ids))
        return false;
    int64_t fit = rows_that_fit(p);
    if (fit < 1 || (fit < p->m && rx_product_batches(p) > 1))
        return false;
    tiled t = make_tiled(p);
    rx_gpu_ref tiles[2] = {derive_tiles(b, p, &t, WEIGHT), RX_REF_NONE};
    rx_product q = *p;
    q.b_at = 0;
    if (p->call->fold)
        q.a_at = rx_gpu_offset(&p->call->fold->in[0]);
    if (p->call->tail) {
        q.out = p->call->tail->out;
        q.out_at = rx_gpu_offset(q.out);
    }
    if (is_pair(p))
        tiles[1] = derive_pair(b, p, &t);
    q.b[0] = ids ? p->n / 4 : 0; /* groups of rows of an expert */
    for (int64_t left = p->m; left > 0; left -= fit) {
        q.m = left < fit ? left : fit;
        add_dot(b, &q, ids, tiles);
        q.a_at += q.m * q.a_m;
        q.res_at += ids ? 0 : q.m * q.res_m;
        q.out_at += q.m * q.n;
    }
    return true;
}
