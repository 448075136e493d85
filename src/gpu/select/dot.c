/* SPDX-License-Identifier: MIT */
/* Products of few rows with quantised weights by 8-bit integer dot products, where the policy
 * allows rounding activations (to 16 bits). The weight is packed to the layout of tile4.glsl
 * once. */
#include "gpu/select/product.h"
#include "gpu/select/quant.h"

/* Vectors of 16 bytes of a tile of 4 rows x 1024 weights: tile_vectors() of tile4.glsl. 0: no such
 * layout for the type. */
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
    t.n_tiles = (t.n_rows + 63) / 64 * 16 * ((t.n_blocks + 31) / 32); /* rows of fragments, too */
    t.bytes = (uint64_t)t.n_tiles * tile_vectors(w->dtype) * 16;
    return t;
}

/* Operand `in`, the weight of p, packed in tiles once. Forms of slices of one weight differ by
 * their offset. */
static rx_gpu_ref derive_tiles(rx_gpu_build *b, const rx_product *p, const tiled *t, uint32_t in)
{
    uint32_t kind = 0x74696c34u ^ (uint32_t)p->b_at * 16777619u ^ (uint32_t)t->n_rows << 8;
    rx_gpu_dispatch *d;
    rx_gpu_ref ref = rx_gpu_derive(b, in, kind, t->bytes, &d);
    const rx_args_tile4_pack a = {
        .bind = {.w = RX_REF_IN(1), .o = ref},
        .spec = {.T = p->b_type},
        .push = {.n = (uint32_t)(t->n_tiles * 32), .w_at = (uint32_t)p->b_at,
                 .n_rows = (uint32_t)t->n_rows, .n_blocks = (uint32_t)t->n_blocks,
                 .row_bytes = (uint32_t)p->b_n},
    };
    rx_set_tile4_pack(b, d, RX_K_tile4_pack, 128, &a);
    rx_gpu_grid(d, p->call->caps, (uint64_t)(t->n_tiles + 3) / 4);
    return ref;
}

/* ---- The product ----------------------------------------------------------------------------- */

#define DOT_THREADS 256
#define MANY 65536       /* columns with which one product fills the device */
#define BLOCK_BYTES 76   /* of shared memory for 32 elements of x */
#define OTHER_BYTES 8704 /* of partial sums and sums of squares, at most */

static bool x_is_wide(const rx_product *p)
{
    int64_t unit = p->a_type == RLX_F32 ? 4 : 8;
    bool ok = p->a_k == 1 && p->a_at % unit == 0 && (p->m == 1 || p->a_m % unit == 0);
    for (int i = 0; i < p->n_axes; i++)
        ok = ok && p->a[i] % unit == 0;
    return ok;
}

bool rx_quant_has_dots(const rx_gpu_caps *caps, rlx_dtype weight)
{
    return tile_vectors(weight) && rx_kernel_available(RX_K_dot_gemv, caps) &&
           caps->subgroup_shuffle && caps->max_invocations >= DOT_THREADS;
}

static bool is_possible(const rx_product *p, const rx_view *ids)
{
    const rx_gpu_call *c = p->call;
    const rx_gpu_caps *caps = c->caps;
    if (c->policy != RLX_POLICY_FAST || !c->is_param || !c->is_param[1] || p->k == 0)
        return false;
    if (!rx_quant_has_dots(caps, p->b_type) || (ids && p->n % 4) || !x_is_wide(p))
        return false;
    tiled t = make_tiled(p);
    return t.bytes <= caps->max_binding_bytes && t.bytes <= UINT32_MAX &&
           rx_product_batches(p) <= caps->max_groups[1];
}

typedef struct dot_shape {
    uint32_t threads, split, per_unit; /* per_unit: persistent workgroups per compute unit */
} dot_shape;

/* Kernels that read the weight by its address multiply signed by unsigned bytes. Chains have no
 * others. */
static bool reads_address(const rx_gpu_caps *caps)
{
    return rx_kernel_available(RX_K_dot_gemv_at, caps) && (caps->chains || !caps->int_dot_signed);
}

static uint32_t count_units(const rx_gpu_caps *caps)
{
    return caps->compute_units ? caps->compute_units : 64;
}

/* Whether the dispatch computes p and its pair. */
static bool is_pair(const rx_product *p)
{
    return p->call->epilogue && p->call->epilogue->pair;
}

/* Measured on an H200. Workgroups are large, so that few quantise x, and use 64 registers, so that
 * two are resident per compute unit: the second is of the next product, of a concurrent one, or,
 * where a product is long or a pair, its own. Groups are split where they are too few, and further
 * in a product with a norm: it is chained with others that read the same x, which should end at
 * about the same time. Rows of 14336 elements are split evenly by more subgroups. With short rows
 * none of it matters. */
static dot_shape pick_shape(const rx_product *p, uint32_t n_tiles)
{
    const rx_gpu_caps *caps = p->call->caps;
    const rx_gpu_merged *prologue = p->call->prologue;
    if (n_tiles == 1 || caps->max_invocations < 2 * DOT_THREADS)
        return (dot_shape){DOT_THREADS, n_tiles > 1 ? 2 : 1, n_tiles > 1 ? 2 : 4};
    const bool few = p->n / 4 < (int64_t)count_units(caps) * (2 * DOT_THREADS / 32);
    if (few && n_tiles % 7 == 0 && caps->max_invocations >= 28 * 32)
        return (dot_shape){28 * 32, 7, 1};
    uint32_t split = few ? 2 : 1;
    if (n_tiles >= 4 && prologue && prologue->op == RX_OP_rms_norm)
        split = 4;
    /* with a barrier after each dispatch there is no next one to leave room for */
    if (!caps->chains && few && n_tiles >= 8)
        split = 4;
    const bool two = is_pair(p) || p->n >= MANY || (!caps->chains && !few);
    return (dot_shape){2 * DOT_THREADS, split, two ? 2 : 1};
}

int64_t rx_quant_dot_rows(const rx_product *p)
{
    int64_t room = (int64_t)p->call->caps->max_shared_bytes - OTHER_BYTES;
    return room / (p->k / 32 * BLOCK_BYTES);
}

/* ---- What follows the product ---------------------------------------------------------------- */

enum { X, COS, SIN, POSITIONS }; /* operands of rope */

/* The rope of p's rows: pairs are adjacent, tables are f32, and positions are given. */
static bool rotates_rows(const rx_product *p, const rx_gpu_merged *rope)
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

/* Whether the rows of p become consecutive rows of the state. */
static bool keeps_rows(const rx_product *p, const rx_gpu_epilogue *epilogue)
{
    const rx_view *update = &epilogue->write->in[1], *position = &epilogue->write->in[2];
    const rx_view *state = epilogue->out;
    const int axis = (int)((const rx_axis_attr *)epilogue->write->attr)->axis;
    for (int i = 0; i < axis; i++)
        if (state->dim[i] != 1)
            return false;
    return rx_view_is_dense(update) && update->dim[axis] == p->m && state->stride[axis] == p->n &&
           rx_view_elements(position) == 1;
}

enum { WEIGHT = 1, BIAS = 4, RESIDUAL }; /* operands of a product */

/* Whether the pair has a weight of the same type and shape, and no epilogue of its own. */
bool rx_quant_pairs_with(const rx_product *p, const rx_gpu_epilogue *t)
{
    const rx_view *a = &p->call->in[WEIGHT], *b = &t->pair->in[WEIGHT];
    return b->dtype == a->dtype &&
           rx_view_elements(a) == rx_view_elements(b) && rx_view_elements(b) == p->n * p->k &&
           !((const rlx_dequant_desc *)t->pair->attr)->act && t->pair->in[BIAS].rank < 0 &&
           t->pair->in[RESIDUAL].rank < 0 && t->out->dtype == RLX_F32 &&
           rx_view_elements(t->out) == p->m * p->n;
}

bool rx_quant_dot_epilogue(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    const rx_gpu_epilogue *t = p->call->epilogue;
    const int64_t n = rx_view_elements(t->out), bytes = n * rlx_dtype_block_bytes(t->out->dtype);
    if (!is_possible(p, NULL) || rx_quant_dot_rows(p) < p->m || rx_product_batches(p) != 1 ||
        caps->max_bindings < 9)
        return false;
    if (p->b_type == RLX_Q8_0 || p->bias || p->residual || (p->act && !t->pair) || p->n % 4 ||
        p->out->dtype != RLX_F32)
        return false;
    if (t->pair && !rx_quant_pairs_with(p, t))
        return false;
    if (!rlx_dtype_is_float(t->out->dtype) || rx_gpu_offset(t->out) % 4 ||
        !rx_view_is_dense(t->out) || n > UINT32_MAX || bytes > (int64_t)caps->max_binding_bytes)
        return false;
    return (!t->rope || rotates_rows(p, t->rope)) && (!t->write || keeps_rows(p, t));
}

static uint32_t epilogue_bits(const rx_gpu_epilogue *t)
{
    const bool long_at = t->rope && t->rope->in[POSITIONS].dtype == RLX_I64;
    const bool long_place = t->write && t->write->in[2].dtype == RLX_I64;
    return (t->rope ? RX_CODE_TAIL_IS_ROPE : 0u) | (t->write ? RX_CODE_TAIL_IS_WRITE : 0u) |
           (long_at ? RX_CODE_TAIL_LONG : 0u) | (long_place ? RX_CODE_TAIL_LONG_PLACE : 0u);
}

/* The arguments of a product with a rope, a state_write or both as epilogue. */
static rx_args_dot_gemv_tail epilogue_args(const rx_gpu_epilogue *t)
{
    rx_args_dot_gemv_tail a = {.spec = {.TAIL = epilogue_bits(t)}};
    if (t->rope) {
        const rx_view *in = t->rope->in, *at = &in[POSITIONS];
        a.bind.cosines = RX_REF_ROPE + COS;
        a.bind.sines = RX_REF_ROPE + SIN;
        a.bind.index = RX_REF_ROPE + POSITIONS;
        a.push.cos_at = rx_gpu_offset(&in[COS]);
        a.push.cos_step = (uint32_t)in[COS].stride[0];
        a.push.sin_at = rx_gpu_offset(&in[SIN]);
        a.push.sin_step = (uint32_t)in[SIN].stride[0];
        a.push.n_angles = (uint32_t)in[COS].dim[0];
        a.push.head = (uint32_t)in[X].dim[3];
        a.push.n_rot = (uint32_t)((const rlx_rope_desc *)t->rope->attr)->n_rot;
        a.push.position_at = rx_gpu_offset(at);
        a.push.position_step = (uint32_t)at->stride[at->rank - 1];
    }
    if (t->write) {
        const int axis = (int)((const rx_axis_attr *)t->write->attr)->axis;
        a.bind.place = RX_REF_WRITE + 2;
        a.push.place_at = rx_gpu_offset(&t->write->in[2]);
        a.push.n_places = (uint32_t)t->out->dim[axis];
    }
    return a;
}

/* ---- The dispatch ---------------------------------------------------------------------------- */

rx_quant_prologue rx_quant_prologue_of(const rx_product *p)
{
    const rx_gpu_merged *prologue = p->call->prologue;
    if (!prologue)
        return (rx_quant_prologue){.x = p->a_ref, .kind = RX_CODE_FOLD_NONE};
    rx_quant_prologue f = {.x = RX_REF_PROLOGUE, .other = RX_REF_PROLOGUE + 1,
                           .kind = RX_CODE_FOLD_MUL, .at = rx_gpu_offset(&prologue->in[1])};
    if (prologue->op != RX_OP_mul)
        f.kind = RX_CODE_FOLD_NORM;
    if (prologue->op == RX_OP_rms_norm)
        f.eps = (float)((const rlx_norm_desc *)prologue->attr)->eps;
    return f;
}

/* A product with call->epilogue. tiles: its packed weight and that of the pair. */
static rx_gpu_dispatch *add_with_epilogue(rx_gpu_build *b, const rx_product *p,
                                          const rx_spec_dot_gemv *spec, const rx_gpu_ref tiles[2])
{
    const rx_gpu_epilogue *t = p->call->epilogue;
    const rx_quant_prologue prologue = rx_quant_prologue_of(p);
    const rx_bind_dot_gemv_one bind = {.a = prologue.x, .b = tiles[0], .o = RX_REF_EPILOGUE,
                                       .flags = t->pair ? RX_REF_NONE : RX_REF_FLAGS,
                                       .other = prologue.other};
    const rx_push_dot_gemv_one push = {
        .n = (uint32_t)p->n, .a_at = (uint32_t)p->a_at, .b_at = (uint32_t)p->b_at,
        .out_at = (uint32_t)p->out_at, .a_m = (uint32_t)p->a_m, .fold_at = prologue.at,
        .fold_eps = prologue.eps};
    const bool bound = !reads_address(p->call->caps);
    rx_gpu_dispatch *d;
    if (t->pair) {
        const rx_args_dot_gemv_pair a = {.bind = {.dot_gemv_one = bind, .second = tiles[1]},
                                         .spec = {*spec}, .push = {.dot_gemv_one = push}};
        d = rx_add_dot_gemv_pair(b, bound ? RX_K_dot_gemv_pair_bound : RX_K_dot_gemv_pair,
                                 spec->THREADS, &a);
        if (bound)
            return d;
        RX_PUSH_ADDRESS(d, dot_gemv_pair, dot_gemv_one.b, dot_gemv_one.weight_low);
        RX_PUSH_ADDRESS(d, dot_gemv_pair, second, second_low);
        return d;
    }
    rx_args_dot_gemv_tail a = epilogue_args(t);
    a.bind.dot_gemv_one = bind;
    a.spec.dot_gemv = *spec;
    a.push.dot_gemv_one = push;
    d = rx_add_dot_gemv_tail(b, bound ? RX_K_dot_gemv_tail_bound : RX_K_dot_gemv_tail,
                             spec->THREADS, &a);
    if (!bound)
        RX_PUSH_ADDRESS(d, dot_gemv_tail, dot_gemv_one.b, dot_gemv_one.weight_low);
    return d;
}

static rx_gpu_dispatch *add_plain(rx_gpu_build *b, const rx_product *p, const rx_view *ids,
                                  const rx_spec_dot_gemv *spec, rx_gpu_ref tiles)
{
    const bool bytes = p->b_type == RLX_Q8_0;
    const rx_quant_prologue prologue = rx_quant_prologue_of(p);
    const rx_args_product base = rx_product_args(p, 0);
    rx_args_dot_gemv a = {
        .bind = {.product = base.bind, .ids = ids ? RX_REF_IN(2) : RX_REF_NONE,
                 .flags = ids ? RX_REF_FLAGS : RX_REF_NONE, .other = prologue.other},
        .spec = *spec,
        .push = {.product = base.push, .fold_at = prologue.at, .fold_eps = prologue.eps,
                 .experts = rx_product_experts(ids, &p->call->in[1])},
    };
    a.bind.product.a = prologue.x;
    a.bind.product.b = tiles;
    if (!reads_address(p->call->caps))
        return rx_add_dot_gemv(b, bytes ? RX_K_dot_gemv_bytes : RX_K_dot_gemv, spec->THREADS, &a);
    const rx_args_dot_gemv_at at = {
        .bind = {a.bind},
        .spec = {a.spec},
        .push = {.product_lead = base.push.product_lead, .product_rest = base.push.product_rest,
                 .fold_at = prologue.at, .fold_eps = prologue.eps, .experts = a.push.experts},
    };
    rx_gpu_dispatch *d = rx_add_dot_gemv_at(b, bytes ? RX_K_dot_gemv_bytes_at : RX_K_dot_gemv_at,
                                            spec->THREADS, &at);
    RX_PUSH_ADDRESS(d, dot_gemv_at, dot_gemv.product.b, weight_low);
    return d;
}

/* Iterations of a workgroup whose sums are joined at a time: all, or as many as fit. Shared memory
 * that is not requested is left to workgroups of the next dispatch. */
static uint32_t count_batch(const rx_product *p, const dot_shape *s, int64_t n_steps)
{
    const int64_t most = 512 / (s->threads / 32) / p->m;
    return (uint32_t)(n_steps < most ? n_steps : most);
}

/* p has at most as many rows as shared memory holds. tiles: its packed weight and that of
 * call->epilogue. */
static void add_dot(rx_gpu_build *b, const rx_product *p, const rx_view *ids,
                    const rx_gpu_ref tiles[2])
{
    const rx_gpu_caps *caps = p->call->caps;
    uint32_t n_blocks = (uint32_t)(p->k / 32), n_tiles = (n_blocks + 31) / 32;
    dot_shape s = pick_shape(p, n_tiles);
    int64_t batches = rx_product_batches(p);
    int64_t teams = s.threads / 32 / s.split / (is_pair(p) ? 2 : 1);
    int64_t groups = ((p->n + 3) / 4 + teams - 1) / teams;
    int64_t stay = (int64_t)s.per_unit * count_units(caps) / batches;
    stay = stay < 1 ? 1 : stay;
    stay = stay < groups ? stay : groups;
    const rx_spec_dot_gemv spec = {
        .product = rx_product_args(p, 0).spec, .NB = n_blocks, .KS = s.split,
        .THREADS = s.threads, .ROWS = (uint32_t)p->m, .TIDS = ids ? ids->dtype : RLX_NO_TYPE,
        .FOLD = rx_quant_prologue_of(p).kind,
        .BATCH = count_batch(p, &s, (groups + stay - 1) / stay)};
    rx_gpu_dispatch *d = p->call->epilogue ? add_with_epilogue(b, p, &spec, tiles)
                                           : add_plain(b, p, ids, &spec, tiles[0]);
    d->groups[0] = (uint32_t)stay;
    d->groups[1] = (uint32_t)batches;
}

/* The packed weight of the pair. */
static rx_gpu_ref derive_pair(rx_gpu_build *b, const rx_product *p, const tiled *t)
{
    rx_product q = *p;
    q.b_at = rx_quant_byte_offset(&p->call->epilogue->pair->in[WEIGHT]);
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

rx_gpu_ref rx_quant_pair_tiles(rx_gpu_build *b, const rx_product *p)
{
    tiled t = make_tiled(p);
    return derive_pair(b, p, &t);
}

bool rx_quant_dot_prologue(const rx_product *p)
{
    return is_possible(p, NULL) && rx_quant_dot_rows(p) >= p->m && rx_product_batches(p) == 1 &&
           p->a_type == RLX_F32 && (p->m == 1 || p->a_m == p->k);
}

bool rx_quant_dot(rx_gpu_build *b, const rx_product *p, const rx_view *ids)
{
    if (!is_possible(p, ids))
        return false;
    int64_t fit = rx_quant_dot_rows(p);
    if (fit < 1 || (fit < p->m && rx_product_batches(p) > 1))
        return false;
    tiled t = make_tiled(p);
    rx_gpu_ref tiles[2] = {derive_tiles(b, p, &t, WEIGHT), RX_REF_NONE};
    rx_product q = *p;
    q.b_at = 0;
    if (p->call->prologue)
        q.a_at = rx_gpu_offset(&p->call->prologue->in[0]);
    if (p->call->epilogue) {
        q.out = p->call->epilogue->out;
        q.out_at = rx_gpu_offset(q.out);
    }
    if (is_pair(p))
        tiles[1] = derive_pair(b, p, &t);
    q.b[0] = ids ? p->n / 4 : 0; /* rows of an expert, in groups of 4 */
    for (int64_t left = p->m; left > 0; left -= fit) {
        q.m = left < fit ? left : fit;
        add_dot(b, &q, ids, tiles);
        q.a_at += q.m * q.a_m;
        q.res_at += q.m * q.res_m;
        q.out_at += q.m * q.n;
    }
    return true;
}
