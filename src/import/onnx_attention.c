/* SPDX-License-Identifier: MIT */
/* Attention, rotary embedding and caches of ONNX. */
#include <math.h>
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

/* ---- Heads ----------------------------------------------------------------------------------- */

rlx_value rx_onnx_swap_heads(rx_onnx_call *c, rlx_value x)
{
    static const int perm[RLX_MAX_RANK] = {0, 2, 1, 3};
    return rlx_transpose(c->g, x, perm);
}

rlx_value rx_onnx_split_heads(rx_onnx_call *c, rlx_value x, int64_t heads)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    if (s.rank == 4)
        return x;
    if (s.rank != 3 || heads < 1)
        return rx_onnx_fail(c, RLX_INVALID, "an operand of %d dimensions with %lld heads; expected "
                            "4, or 3 and a number of heads", s.rank, (long long)heads);
    const rlx_dim dims[4] = {s.dim[0], s.dim[1], heads, rlx_dim_div(c->g, s.dim[2], heads)};
    return rx_onnx_swap_heads(c, rlx_reshape(c->g, x, 4, dims));
}

rlx_value rx_onnx_join_heads(rx_onnx_call *c, rlx_value y)
{
    const rlx_shape s = rlx_value_shape(c->g, y);
    const rlx_dim dims[3] = {s.dim[0], s.dim[2], rlx_dim_mul(c->g, s.dim[1], s.dim[3])};
    return rlx_reshape(c->g, rx_onnx_swap_heads(c, y), 3, dims);
}

/* [B, Hk, S, D] with each head repeated for the query heads of its group: [B, heads, S, D]. */
static rlx_value repeat_heads(rx_onnx_call *c, rlx_value x, rlx_dim heads)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    if (s.dim[1] == heads || s.dim[1] < 1 || heads < 1)
        return x;
    const rlx_dim wide[5] = {s.dim[0], s.dim[1], heads / s.dim[1], s.dim[2], s.dim[3]};
    const rlx_dim to[4] = {s.dim[0], heads, s.dim[2], s.dim[3]};
    return rlx_reshape(c->g, rlx_expand(c->g, rlx_unsqueeze(c->g, x, 2), 5, wide), 4, to);
}

rlx_value rx_onnx_iota(rx_onnx_call *c, rlx_dim n, rlx_dtype t)
{
    const rlx_range_desc r = {RLX_INIT(rlx_range_desc), .n = n, .out = t};
    return rlx_range(c->g, &r);
}

/* ---- Attention ------------------------------------------------------------------------------- */

typedef struct attention {
    rlx_value q, k, v;      /* [B, H, S, D] */
    rlx_value mask;         /* as given, or RLX_NONE */
    rlx_value nonpad;       /* valid keys of each batch, i64 [B], or RLX_NONE */
    rlx_dim sq, sk, past;   /* lengths of queries, keys and of the cache before them */
    rlx_value allowed;      /* bool, or RLX_NONE: all keys */
    rlx_value bias;         /* float, or RLX_NONE: 0 */
    double scale, soft_cap;
    int64_t left, right;    /* window, -1: open */
    bool causal;
    int mode;               /* what result 3 is */
} attention;

static void allow(rx_onnx_call *c, attention *a, rlx_value also)
{
    a->allowed = a->allowed.id ? rlx_and(c->g, a->allowed, also) : also;
}

/* Query position minus key position: [Sq, Sk], or [B, 1, Sq, Sk] with nonpad. */
static rlx_value distance(rx_onnx_call *c, const attention *a)
{
    rlx_value i = rlx_unsqueeze(c->g, rx_onnx_iota(c, a->sq, RLX_I64), 1);
    if (a->nonpad.id) {
        const rlx_shape s = rlx_value_shape(c->g, a->nonpad);
        const rlx_dim dims[4] = {s.dim[0], 1, 1, 1};
        const rlx_value first = rlx_sub(c->g, rlx_reshape(c->g, a->nonpad, 4, dims),
                                        rlx_scalar(c->g, RLX_I64, (double)a->sq));
        i = rlx_add(c->g, i, first);
    } else if (a->past) {
        i = rlx_add(c->g, i, rlx_scalar(c->g, RLX_I64, (double)a->past));
    }
    return rlx_sub(c->g, i, rx_onnx_iota(c, a->sk, RLX_I64));
}

/* Keys beyond the end of a mask that is shorter are masked. */
static void take_mask(rx_onnx_call *c, attention *a)
{
    const rlx_shape s = rlx_value_shape(c->g, a->mask);
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
    const bool is_bool = rlx_value_dtype(c->g, a->mask) == RLX_BOOL;
    rlx_value m = a->mask;
    if (!m.id)
        return;
    if (s.rank && s.dim[s.rank - 1] < a->sk && s.dim[s.rank - 1] != 1) {
        after[s.rank - 1] = a->sk - s.dim[s.rank - 1];
        m = rlx_pad(c->g, m, before, after, RLX_PAD_CONSTANT, is_bool ? 0 : (double)-INFINITY);
    }
    if (is_bool)
        allow(c, a, m);
    else
        a->bias = m;
}

static void find_bias(rx_onnx_call *c, attention *a)
{
    take_mask(c, a);
    if (a->causal || a->left >= 0 || a->right >= 0) {
        const rlx_value d = distance(c, a);
        if (a->causal)
            allow(c, a, rlx_ge(c->g, d, rlx_scalar(c->g, RLX_I64, 0)));
        if (a->left >= 0)
            allow(c, a, rlx_le(c->g, d, rlx_scalar(c->g, RLX_I64, (double)a->left)));
        if (a->right >= 0)
            allow(c, a, rlx_ge(c->g, d, rlx_scalar(c->g, RLX_I64, (double)-a->right)));
    }
    if (a->nonpad.id) {
        const rlx_shape s = rlx_value_shape(c->g, a->nonpad);
        const rlx_dim dims[4] = {s.dim[0], 1, 1, 1};
        const rlx_value at = rx_onnx_iota(c, a->sk, RLX_I64);
        allow(c, a, rlx_lt(c->g, at, rlx_reshape(c->g, a->nonpad, 4, dims)));
    }
}

/* Mask and bias as one additive bias: -inf where a key is masked. */
static rlx_value whole_bias(rx_onnx_call *c, const attention *a)
{
    const rlx_dtype t = rlx_value_dtype(c->g, a->q);
    const rlx_value zero = rlx_scalar(c->g, t, 0), hidden = rlx_scalar(c->g, t, (double)-INFINITY);
    if (!a->allowed.id)
        return a->bias;
    return rlx_where(c->g, a->allowed, a->bias.id ? a->bias : zero, hidden);
}

/* Decomposed attention, for graphs that also read the scores. */
static rlx_value attend_by_parts(rx_onnx_call *c, const attention *a)
{
    const rlx_dtype t = rlx_value_dtype(c->g, a->q);
    const rlx_dim heads = rlx_value_shape(c->g, a->q).dim[1];
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    const rlx_value bias = whole_bias(c, a), root = rlx_scalar(c->g, t, sqrt(a->scale));
    const rlx_value k = repeat_heads(c, a->k, heads), v = repeat_heads(c, a->v, heads);
    rlx_value score = rlx_matmul_ex(c->g, rlx_mul(c->g, a->q, root), rlx_mul(c->g, k, root),
                                    RLX_NONE, RLX_NONE, &turned);
    if (a->mode == 0)
        c->out[3] = score;
    if (a->soft_cap > 0) {
        const rlx_value cap = rlx_scalar(c->g, t, a->soft_cap);
        score = rlx_mul(c->g, rlx_tanh(c->g, rlx_div(c->g, score, cap)), cap);
    }
    if (a->mode == 1)
        c->out[3] = score;
    if (bias.id) {
        const rlx_value hidden = rlx_scalar(c->g, t, (double)-INFINITY);
        score = rlx_where(c->g, rlx_eq(c->g, bias, hidden), hidden, rlx_add(c->g, score, bias));
    }
    if (a->mode == 2)
        c->out[3] = score;
    const rlx_value p = rlx_softmax(c->g, score, -1);
    if (a->mode == 3)
        c->out[3] = p;
    return rlx_matmul(c->g, p, v);
}

static rlx_value attend(rx_onnx_call *c, const attention *a)
{
    const rlx_attention_desc d = {RLX_INIT(rlx_attention_desc), .scale = a->scale,
                                  .soft_cap = a->soft_cap};
    const rlx_value mask = a->allowed.id && !a->bias.id ? a->allowed : whole_bias(c, a);
    return rx_onnx_wants(c, 3) ? attend_by_parts(c, a)
                               : rlx_attention(c->g, a->q, a->k, a->v, mask, &d);
}

/* Reads operands and attributes; false after a failure. */
static bool read_attention(rx_onnx_call *c, attention *a)
{
    const rlx_value past_k = rx_onnx_in(c, 4), past_v = rx_onnx_in(c, 5);
    const int64_t heads = rx_onnx_int(c, "q_num_heads", 0);
    const int64_t kv_heads = rx_onnx_int(c, "kv_num_heads", 0);
    *a = (attention){.q = rx_onnx_split_heads(c, rx_onnx_in(c, 0), heads),
                     .k = rx_onnx_split_heads(c, rx_onnx_in(c, 1), kv_heads),
                     .v = rx_onnx_split_heads(c, rx_onnx_in(c, 2), kv_heads),
                     .mask = rx_onnx_in(c, 3), .causal = rx_onnx_int(c, "is_causal", 0),
                     .left = rx_onnx_int(c, "left_window_size", -1),
                     .right = rx_onnx_int(c, "right_window_size", -1),
                     .soft_cap = rx_onnx_float(c, "softcap", 0),
                     .mode = (int)rx_onnx_int(c, "qk_matmul_output_mode", 0)};
    if (!a->q.id || !a->k.id || !a->v.id)
        return false;
    if (rx_onnx_in(c, 6).id)
        a->nonpad = rlx_cast(c->g, rx_onnx_in(c, 6), RLX_I64);
    if (past_k.id && past_v.id) {
        a->past = rlx_value_shape(c->g, past_k).dim[2];
        a->k = rlx_concat(c->g, (rlx_value[]){past_k, a->k}, 2, 2);
        a->v = rlx_concat(c->g, (rlx_value[]){past_v, a->v}, 2, 2);
    }
    const rlx_shape q = rlx_value_shape(c->g, a->q), k = rlx_value_shape(c->g, a->k);
    a->sq = q.dim[2];
    a->sk = k.dim[2];
    if (q.rank != 4 || k.rank != 4 || q.dim[3] < 1 || a->sq < 0 || a->sk < 0 || a->past < 0) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "sequences without a fixed size; give the size of that "
                     "dimension");
        return false;
    }
    a->scale = rx_onnx_float(c, "scale", 1 / sqrt((double)q.dim[3]));
    return true;
}

rlx_value rx_onnx_attention(rx_onnx_call *c)
{
    attention a;
    if (!read_attention(c, &a))
        return RLX_NONE;
    find_bias(c, &a);
    const rlx_value y = attend(c, &a);
    c->out[1] = a.k;
    c->out[2] = a.v;
    return y.id && rx_onnx_rank(c, rx_onnx_in(c, 0)) == 3 ? rx_onnx_join_heads(c, y) : y;
}

/* ---- Fusing decomposed attention-------------------------------------------------------------- */

/* The node that makes value `id` when it is that operation, else NULL. */
static const rx_node *made(const rx_onnx_call *c, uint32_t id, rx_op op)
{
    return rx_onnx_made_by(c, (rlx_value){id}, op);
}

static bool known_scalar(rx_onnx_call *c, uint32_t id, double *out)
{
    const rlx_value v = {id};
    float f;
    const void *p = id && rlx_value_dtype(c->g, v) == RLX_F32 && rx_onnx_elements(c, v) == 1
                        ? rx_onnx_value_data(c->b, v) : NULL;
    if (!p)
        return false;
    memcpy(&f, p, sizeof f);
    *out = (double)f;
    return true;
}

/* The scores before scaling by constants, which are multiplied into *scale. */
static uint32_t unscaled(rx_onnx_call *c, uint32_t id, double *scale)
{
    for (;;) {
        const rx_node *n = rx_value_node(c->g, id);
        double by;
        if (n->op == RX_OP_div && known_scalar(c, n->in[1], &by) && by != 0) {
            *scale /= by;
            id = n->in[0];
        } else if (n->op == RX_OP_mul && known_scalar(c, n->in[1], &by)) {
            *scale *= by;
            id = n->in[0];
        } else if (n->op == RX_OP_mul && known_scalar(c, n->in[0], &by)) {
            *scale *= by;
            id = n->in[1];
        } else {
            return id;
        }
    }
}

/* Keys or values before the expansion that repeats their heads for grouped-query attention. */
static rlx_value ungrouped(rx_onnx_call *c, rlx_value x)
{
    const rx_node *flat = rx_onnx_made_by(c, x, RX_OP_reshape);
    const rx_node *wide = flat ? made(c, flat->in[0], RX_OP_expand) : NULL;
    const rx_node *tall = wide ? made(c, wide->in[0], RX_OP_reshape) : NULL;
    if (!tall)
        return x;
    const rlx_value from = {tall->in[0]};
    const rlx_shape s = rlx_value_shape(c->g, x), k = rlx_value_shape(c->g, from);
    const rlx_shape w = rlx_value_shape(c->g, (rlx_value){flat->in[0]});
    const bool fits = k.rank == 4 && w.rank == 5 && s.rank == 4 && w.dim[0] == k.dim[0] &&
                      w.dim[1] == k.dim[1] && w.dim[3] == k.dim[2] && w.dim[4] == k.dim[3] &&
                      s.dim[0] == k.dim[0] && s.dim[2] == k.dim[2] && s.dim[3] == k.dim[3];
    return fits ? from : x;
}

/* [B, H, D, S] or [B, D, S] as keys [B, H, S, D]. */
static rlx_value keys_of(rx_onnx_call *c, rlx_value x)
{
    static const int four[RLX_MAX_RANK] = {0, 1, 3, 2}, three[RLX_MAX_RANK] = {0, 2, 1};
    const rx_node *n = rx_onnx_made_by(c, x, RX_OP_transpose);
    const int rank = rx_onnx_rank(c, x);
    const int64_t *perm = n ? ((const rx_perm_attr *)n->attr)->perm.v : NULL;
    if (n && rank == 4 && perm[0] == 0 && perm[1] == 1 && perm[2] == 3)
        return (rlx_value){n->in[0]};
    return rlx_transpose(c->g, x, rank == 4 ? four : three);
}

static void add_mask(rx_onnx_call *c, rlx_value *mask, rlx_value more)
{
    *mask = mask->id ? rlx_add(c->g, *mask, more) : more;
}

/* The matmul that the scores come from, and the mask added to it (an addition or a select). 0:
 * there is no matmul. */
static uint32_t unmasked(rx_onnx_call *c, uint32_t id, rlx_value *mask, int depth)
{
    const rx_node n = *rx_value_node(c->g, id); /* a copy: adding nodes reallocates them */
    const rlx_value in[3] = {{n.n_in > 0 ? n.in[0] : 0}, {n.n_in > 1 ? n.in[1] : 0},
                             {n.n_in > 2 ? n.in[2] : 0}};
    const rlx_value zero = rlx_scalar(c->g, RLX_F32, 0);
    double by, scale = 1;
    if (made(c, unscaled(c, id, &scale), RX_OP_matmul))
        return id;
    if (depth == 3)
        return 0;
    if (n.op == RX_OP_where && known_scalar(c, in[2].id, &by) && by <= -1e9) {
        add_mask(c, mask, rlx_where(c->g, in[0], zero, in[2]));
        return unmasked(c, in[1].id, mask, depth + 1);
    }
    if (n.op == RX_OP_where && known_scalar(c, in[1].id, &by) && by <= -1e9) {
        add_mask(c, mask, rlx_where(c->g, in[0], in[1], zero));
        return unmasked(c, in[2].id, mask, depth + 1);
    }
    for (int i = 0; i < 2 && n.op == RX_OP_add; i++) {
        rlx_value inner = RLX_NONE;
        const uint32_t found = unmasked(c, in[i].id, &inner, depth + 1);
        if (!found)
            continue;
        add_mask(c, mask, in[!i]);
        if (inner.id)
            add_mask(c, mask, inner);
        return found;
    }
    return 0;
}

/* The softmax over the last axis, through a select that replaces NaN by 0. */
static const rx_node *softmax_of(rx_onnx_call *c, rlx_value p)
{
    const rx_node *n = rx_onnx_made_by(c, p, RX_OP_where);
    if (n && made(c, n->in[0], RX_OP_is_nan) && made(c, n->in[0], RX_OP_is_nan)->in[0] == n->in[2])
        p = (rlx_value){n->in[2]};
    n = rx_onnx_made_by(c, p, RX_OP_softmax);
    const int rank = rx_onnx_rank(c, p);
    const int64_t axis = n ? ((const rx_axis_attr *)n->attr)->axis : 0;
    return n && (axis == -1 || axis == rank - 1) && (rank == 3 || rank == 4) ? n : NULL;
}

static bool is_plain_product(const rx_node *n)
{
    const rlx_matmul_desc *d = n->attr;
    return !(n->n_in > 2 && n->in[2]) && !(n->n_in > 3 && n->in[3]) && !d->trans_b &&
           d->act == RLX_ACT_NONE;
}

/* softmax(q . k * scale + mask) . v as one attention operation; RLX_NONE: the pattern does not
 * match. */
rlx_value rx_onnx_attention_by_parts(rx_onnx_call *c, rlx_value p, rlx_value v)
{
    const rx_node *soft = softmax_of(c, p);
    rlx_attention_desc d = {RLX_INIT(rlx_attention_desc), .scale = 1};
    rlx_value mask = RLX_NONE;
    if (!soft || rlx_value_dtype(c->g, v) != RLX_F32)
        return RLX_NONE;
    const uint32_t scores = unmasked(c, soft->in[0], &mask, 0);
    const rx_node *n = scores ? made(c, unscaled(c, scores, &d.scale), RX_OP_matmul) : NULL;
    if (!n || !is_plain_product(n) || !(d.scale > 0))
        return RLX_NONE;
    rlx_value q = {n->in[0]};
    const rlx_value turned = {n->in[1]};
    const rlx_shape sq = rlx_value_shape(c->g, q), sk = rlx_value_shape(c->g, turned);
    const rlx_shape sv = rlx_value_shape(c->g, v), sp = rlx_value_shape(c->g, p);
    const int rank = sp.rank;
    if (sq.rank != rank || sk.rank != rank || sv.rank != rank || sq.dim[0] != sk.dim[0] ||
        sv.dim[0] != sq.dim[0] || (rank == 4 && (sq.dim[1] != sk.dim[1] ||
                                                  sv.dim[1] != sq.dim[1])) ||
        sp.dim[0] != sq.dim[0] || sp.dim[1] != sq.dim[1] ||
        sp.dim[rank - 2] != sq.dim[rank - 2] || sp.dim[rank - 1] != sk.dim[rank - 1] ||
        sq.dim[rank - 1] < 1 || sv.dim[rank - 1] < 1 || rlx_value_dtype(c->g, q) != RLX_F32 ||
        (mask.id && (rx_onnx_rank(c, mask) > rank || rlx_value_dtype(c->g, mask) != RLX_F32)))
        return RLX_NONE;
    const rlx_value keys = keys_of(c, turned);
    if (rank == 4) {
        const rlx_value few_k = ungrouped(c, keys), few_v = ungrouped(c, v);
        const rlx_shape fk = rlx_value_shape(c->g, few_k), fv = rlx_value_shape(c->g, few_v);
        const bool fits = fk.dim[1] == fv.dim[1];
        return rlx_attention(c->g, q, fits ? few_k : keys, fits ? few_v : v, mask, &d);
    }
    if (mask.id && rx_onnx_rank(c, mask) == 3)
        mask = rlx_unsqueeze(c->g, mask, 1);
    q = rlx_unsqueeze(c->g, q, 1);
    const rlx_value k = rlx_unsqueeze(c->g, keys, 1);
    return rlx_squeeze(c->g, rlx_attention(c->g, q, k, rlx_unsqueeze(c->g, v, 1), mask, &d), 1);
}

/* ---- Rotary embedding ------------------------------------------------------------------------ */

rlx_value rx_onnx_rotary_embedding(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    rlx_value cosines = rx_onnx_in(c, 1), sines = rx_onnx_in(c, 2), positions = rx_onnx_in(c, 3);
    const rlx_shape s = rlx_value_shape(c->g, x), t = rlx_value_shape(c->g, cosines);
    const int64_t heads = rx_onnx_int(c, "num_heads", 0);
    rlx_rope_desc d = {RLX_INIT(rlx_rope_desc), .interleaved = rx_onnx_int(c, "interleaved", 0),
                       .n_rot = rx_onnx_int(c, "rotary_embedding_dim", 0)};
    rlx_value y = x;
    if (!positions.id && t.rank == 3) { /* tables for each position of each sequence */
        const rlx_dim flat[2] = {rlx_dim_mul(c->g, t.dim[0], t.dim[1]), t.dim[2]};
        cosines = rlx_reshape(c->g, cosines, 2, flat);
        sines = rlx_reshape(c->g, sines, 2, flat);
        positions = rlx_reshape(c->g, rx_onnx_iota(c, flat[0], RLX_I64), 2, t.dim);
    }
    if (s.rank == 3) {
        if (heads < 1)
            return rx_onnx_fail(c, RLX_INVALID, "num_heads is %lld; expected 1 or more",
                                (long long)heads);
        const rlx_dim dims[4] = {s.dim[0], s.dim[1], heads, rlx_dim_div(c->g, s.dim[2], heads)};
        d.layout = RLX_BSHD;
        y = rlx_reshape(c->g, x, 4, dims);
    }
    y = rlx_rope(c->g, y, cosines, sines, positions, &d);
    return s.rank == 3 ? rlx_reshape(c->g, y, 3, s.dim) : y;
}

/* ---- Caches ---------------------------------------------------------------------------------- */

/* Writes update [B, .., L, ..] at position write_indices[b] of the cache's axis. */
rlx_value rx_onnx_tensor_scatter(rx_onnx_call *c)
{
    const rlx_value cache = rx_onnx_in(c, 0), update = rx_onnx_in(c, 1), first = rx_onnx_in(c, 2);
    const rlx_shape s = rlx_value_shape(c->g, update), whole = rlx_value_shape(c->g, cache);
    const int axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", -2), s.rank);
    rlx_dim along[RLX_MAX_RANK], batch[RLX_MAX_RANK];
    if (axis < 0 || whole.rank != s.rank || s.dim[axis] < 0 || whole.dim[axis] < 0)
        return RLX_NONE;
    for (int i = 0; i < s.rank; i++) {
        along[i] = i == axis ? s.dim[i] : 1;
        batch[i] = i == 0 ? s.dim[i] : 1;
    }
    rlx_value at = rlx_reshape(c->g, rx_onnx_iota(c, s.dim[axis], RLX_I64), s.rank, along);
    if (first.id)
        at = rlx_add(c->g, at, rlx_reshape(c->g, rlx_cast(c->g, first, RLX_I64), s.rank, batch));
    if (rx_onnx_is(c, "mode", "circular", "linear"))
        at = rlx_mod(c->g, at, rlx_scalar(c->g, RLX_I64, (double)whole.dim[axis]), true);
    return rlx_scatter_elements(c->g, cache, rlx_expand(c->g, at, s.rank, s.dim), update, axis,
                                RLX_SCATTER_NONE);
}

/* ---- FlexAttention --------------------------------------------------------------------------- */

/* Applies the sub-graph `name` (score_mod, prob_mod) to x; x itself when there is none. */
static rlx_value modify(rx_onnx_call *c, const char *name, rlx_value x)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    rlx_value y = RLX_NONE;
    if (!a)
        return x;
    if (!a->g || a->g->n_outputs != 1)
        return rx_onnx_fail(c, RLX_INVALID, "expected a sub-graph %s with one output", name);
    return rx_onnx_subgraph(c, a->g, &x, 1, &y) == RLX_OK ? y : RLX_NONE;
}

/* q [B, H, L, E], k [B, Hk, S, E], v [B, Hk, S, Ev], with sub-graphs for scores and
 * probabilities. */
rlx_value rx_onnx_flex_attention(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value q = rx_onnx_in(c, 0);
    rlx_value k = rx_onnx_in(c, 1), v = rx_onnx_in(c, 2);
    static const int turn[RLX_MAX_RANK] = {0, 1, 3, 2};
    const rlx_shape sq = rlx_value_shape(g, q), sk = rlx_value_shape(g, k);
    const rlx_shape sv = rlx_value_shape(g, v);
    const rlx_dtype t = rlx_value_dtype(g, q);
    if (sq.rank != 4 || sk.rank != 4 || sv.rank != 4 || sq.dim[3] < 1 || sk.dim[1] < 1 ||
        sq.dim[1] % sk.dim[1])
        return rx_onnx_fail(c, RLX_INVALID, "expected q, k and v [B, H, S, E] with heads of q that "
                            "are a multiple of those of k");
    k = repeat_heads(c, k, sq.dim[1]);
    v = repeat_heads(c, v, sq.dim[1]);
    const double scale = rx_onnx_float(c, "scale", 1 / sqrt((double)sq.dim[3]));
    const rlx_value root = rlx_scalar(g, t, sqrt(scale));
    const rlx_value turned = rlx_transpose(g, rlx_mul(g, k, root), turn);
    rlx_value s = rlx_matmul(g, rlx_mul(g, q, root), turned);
    const rx_onnx_type *given = rx_onnx_type_of(rx_onnx_int(c, "softmax_precision", 0));
    const rlx_dtype by = given ? given->dtype : t == RLX_F64 ? t : RLX_F32;
    s = modify(c, "score_mod", rlx_cast(g, s, by));
    if (!s.id)
        return RLX_NONE;
    const rlx_value p = modify(c, "prob_mod", rlx_softmax(g, rlx_cast(g, s, by), 3));
    return p.id ? rlx_matmul(g, rlx_cast(g, p, t), v) : RLX_NONE;
}
