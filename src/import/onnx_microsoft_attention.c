/* SPDX-License-Identifier: MIT */
/* Attention, rotary embedding and embeddings of com.microsoft, as ONNX Runtime's optimisers and the
 * exporters of language models write them. Masked keys get the finite mask_filter_value added
 * instead of -inf, so that rows without any key give what ONNX Runtime gives. */
#include "import/onnx_build.h"
#include "ir/graph.h"

typedef struct attention {
    rlx_value q, k, v;        /* [B, H, S, D] */
    rlx_value bias;           /* of scores, or RLX_NONE */
    rlx_value lengths, sinks; /* of keys of each sequence, i32 [B]; f32 [H]; or RLX_NONE */
    rlx_attention_desc d;
} attention;

static rlx_value number(rx_onnx_call *c, rlx_dtype t, double v)
{
    return rlx_scalar(c->g, t, v);
}

/* Concatenates past and x along the sequence axis. */
static rlx_value extend(rx_onnx_call *c, rlx_value past, rlx_value x)
{
    const rlx_value parts[2] = {past, x};
    return past.id ? rlx_concat(c->g, parts, 2, 2) : x;
}

/* Tensor i of those stacked along `axis` of x. */
static rlx_value packed(rx_onnx_call *c, rlx_value x, int axis, int64_t i)
{
    return rlx_squeeze(c->g, rlx_narrow(c->g, x, axis, i, 1), axis);
}

static void add_bias(rx_onnx_call *c, attention *a, rlx_value more)
{
    a->bias = a->bias.id ? rlx_add(c->g, a->bias, more) : more;
}

/* A mask (1 or true: attend) as an additive bias. */
static rlx_value hide(rx_onnx_call *c, const attention *a, rlx_value seen)
{
    const rlx_dtype t = rlx_value_dtype(c->g, a->q);
    const double hidden = rx_onnx_float(c, "mask_filter_value", -10000);
    return rlx_where(c->g, rlx_cast(c->g, seen, RLX_BOOL), number(c, t, 0), number(c, t, hidden));
}

/* start[b] <= j < end[b] for each key j ([B, 1, 1, T]); start may be RLX_NONE. */
static rlx_value between(rx_onnx_call *c, rlx_value end, rlx_value start, rlx_dim keys)
{
    const rlx_dim dims[4] = {-1, 1, 1, 1};
    const rlx_value at = rx_onnx_iota(c, keys, RLX_I32);
    const rlx_value below = rlx_lt(c->g, at, rlx_reshape(c->g, end, 4, dims));
    return start.id ? rlx_and(c->g, below, rlx_ge(c->g, at, rlx_reshape(c->g, start, 4, dims)))
                    : below;
}

/* The mask in its forms: [B] or [2 B] ends (and starts) of keys, [B, T], [B, S, T],
 * [B, 1, M, M]. */
static bool take_mask(rx_onnx_call *c, attention *a, rlx_value mask)
{
    const rlx_shape s = rlx_value_shape(c->g, mask), q = rlx_value_shape(c->g, a->q);
    const rlx_shape k = rlx_value_shape(c->g, a->k);
    const rlx_dim batch = q.dim[0], keys = k.dim[2];
    const rlx_value index = rlx_cast(c->g, mask, RLX_I32);
    if (s.rank == 1 && (s.dim[0] == batch || s.dim[0] == rlx_dim_mul(c->g, batch, 2))) {
        const bool two = s.dim[0] != batch;
        const rlx_value end = two ? rlx_narrow(c->g, index, 0, 0, batch) : index;
        const rlx_value start = two ? rlx_narrow(c->g, index, 0, batch, batch) : RLX_NONE;
        add_bias(c, a, hide(c, a, between(c, end, start, keys)));
        return true;
    }
    if (s.rank == 2) {
        const rlx_dim dims[4] = {s.dim[0], 1, 1, s.dim[1]};
        add_bias(c, a, hide(c, a, rlx_reshape(c->g, index, 4, dims)));
        return true;
    }
    if (s.rank == 3) {
        const rlx_dim dims[4] = {s.dim[0], 1, s.dim[1], s.dim[2]};
        add_bias(c, a, hide(c, a, rlx_reshape(c->g, index, 4, dims)));
        return true;
    }
    if (s.rank == 4 && keys >= q.dim[2] && q.dim[2] >= 0) {
        const rlx_value rows = rlx_narrow(c->g, index, 2, keys - q.dim[2], q.dim[2]);
        add_bias(c, a, hide(c, a, rlx_narrow(c->g, rows, 3, 0, keys)));
        return true;
    }
    rx_onnx_fail(c, RLX_UNSUPPORTED, "a mask of %d dimensions that fits neither batch nor keys",
                 s.rank);
    return false;
}

static rlx_value attend(rx_onnx_call *c, const attention *a)
{
    const rlx_value extra[3] = {a->lengths, a->sinks, RLX_NONE};
    return rx_onnx_join_heads(c, rlx_attention_ex(c->g, a->q, a->k, a->v, a->bias, extra, &a->d));
}

static rlx_attention_desc read_desc(rx_onnx_call *c)
{
    return (rlx_attention_desc){RLX_INIT(rlx_attention_desc), .scale = rx_onnx_float(c, "scale", 0),
                                .causal = rx_onnx_int(c, "unidirectional", 0)};
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

/* q, k and v from their operands: separate, k and v packed, or all packed in q. */
static bool read_heads(rx_onnx_call *c, attention *a, int64_t heads)
{
    rlx_value in[3] = {rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2)};
    const rlx_value bias = rx_onnx_in(c, 3);
    const int n_packed = in[1].id ? in[2].id ? 1 : 2 : 3;
    const rlx_value whole = n_packed == 3 ? in[0] : in[1];
    if (n_packed > 1 && rx_onnx_rank(c, whole) != 5) {
        rx_onnx_fail(c, RLX_INVALID, "packed operands of %d dimensions; expected 5",
                     rx_onnx_rank(c, whole));
        return false;
    }
    for (int i = 3 - n_packed; i < 3 && n_packed > 1; i++)
        in[i] = rx_onnx_swap_heads(c, packed(c, whole, 3, i - (3 - n_packed)));
    rlx_dim at = 0;
    for (int i = 0; i < 3; i++) {
        const rlx_shape s = rlx_value_shape(c->g, in[i]);
        if (bias.id && s.rank == 3) {
            in[i] = rlx_add(c->g, in[i], rlx_narrow(c->g, bias, 0, at, s.dim[2]));
            at = rlx_dim_add(c->g, at, s.dim[2]);
        }
        if (!(in[i] = rx_onnx_split_heads(c, in[i], heads)).id)
            return false;
    }
    a->q = in[0];
    a->k = in[1];
    a->v = in[2];
    return true;
}

/* q, k, v [B, S, H * D], bias? [3 * H * D], key mask?, bias of scores?, past key?, past value? */
rlx_value rx_onnx_multi_head(rx_onnx_call *c)
{
    attention a = {.bias = rx_onnx_in(c, 5), .d = read_desc(c)};
    if (!read_heads(c, &a, rx_onnx_int(c, "num_heads", 0)))
        return RLX_NONE;
    a.k = extend(c, rx_onnx_in(c, 6), a.k);
    a.v = extend(c, rx_onnx_in(c, 7), a.v);
    c->out[1] = a.k;
    c->out[2] = a.v;
    if (rx_onnx_in(c, 4).id && !take_mask(c, &a, rx_onnx_in(c, 4)))
        return RLX_NONE;
    return attend(c, &a);
}

/* ---- Attention, QAttention ------------------------------------------------------------------- */

/* Attention of x [B, S, q + k + v], with the past [2, B, H, P, D] and the present as one tensor. */
static rlx_value attend_projected(rx_onnx_call *c, rlx_value x, rlx_value mask, rlx_value past,
                                  rlx_value bias)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    const int64_t heads = rx_onnx_int(c, "num_heads", 0);
    rlx_ints sizes;
    attention a = {.bias = bias, .d = read_desc(c)};
    if (s.rank != 3 || rx_onnx_int(c, "do_rotary", 0))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "an operand of %d dimensions or rotations; "
                            "expected 3 without", s.rank);
    if (!rx_onnx_ints(c, "qkv_hidden_sizes", &sizes) || sizes.n != 3) {
        const rlx_dim each = rlx_dim_div(c->g, s.dim[2], 3);
        sizes = (rlx_ints){3, {each, each, each}};
    }
    rlx_value parts[3];
    rlx_dim at = 0;
    for (int i = 0; i < 3; i++) {
        parts[i] = rx_onnx_split_heads(c, rlx_narrow(c->g, x, 2, at, sizes.v[i]), heads);
        at = rlx_dim_add(c->g, at, sizes.v[i]);
        if (!parts[i].id)
            return RLX_NONE;
    }
    a.q = parts[0];
    a.k = extend(c, past.id ? packed(c, past, 0, 0) : past, parts[1]);
    a.v = extend(c, past.id ? packed(c, past, 0, 1) : past, parts[2]);
    if (rx_onnx_wants(c, 1)) {
        const rlx_value both[2] = {rlx_unsqueeze(c->g, a.k, 0), rlx_unsqueeze(c->g, a.v, 0)};
        c->out[1] = rlx_concat(c->g, both, 2, 0);
    }
    if (mask.id && !take_mask(c, &a, mask))
        return RLX_NONE;
    return attend(c, &a);
}

/* x [B, S, I], weights [I, q + k + v], bias?, mask?, past?, bias of scores? */
rlx_value rx_onnx_ms_attention(rx_onnx_call *c)
{
    const rlx_value x = rlx_matmul(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1));
    const rlx_value bias = rx_onnx_in(c, 2);
    return attend_projected(c, bias.id ? rlx_add(c->g, x, bias) : x, rx_onnx_in(c, 3),
                            rx_onnx_in(c, 4), rx_onnx_in(c, 5));
}

/* x and weights in 8 bits, bias, scale of x, of weights, mask?, zero of x?, of weights?, past? */
rlx_value rx_onnx_qattention(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value sum = rx_onnx_integer_product(c, rx_onnx_in(c, 0), rx_onnx_in(c, 1),
                                                  rx_onnx_in(c, 6), rx_onnx_in(c, 7));
    const rlx_value scale = rlx_mul(g, rx_onnx_in(c, 3), rx_onnx_in(c, 4));
    if (!sum.id)
        return sum;
    const rlx_value x = rlx_mul(g, rlx_cast(g, sum, rlx_value_dtype(g, scale)), scale);
    return attend_projected(c, rlx_add(g, x, rx_onnx_in(c, 2)), rx_onnx_in(c, 5),
                            rx_onnx_in(c, 8), RLX_NONE);
}

/* ---- GroupQueryAttention --------------------------------------------------------------------- */

/* A cache of `room` keys: the past, then x [B, H, S, D] at positions from [B] on, then zeros. */
static rlx_value insert(rx_onnx_call *c, rlx_value past, rlx_value x, rlx_value from, rlx_dim room)
{
    const rlx_shape s = rlx_value_shape(c->g, x), p = rlx_value_shape(c->g, past);
    const int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0, 0, room - p.dim[2]};
    const rlx_dim first[4] = {s.dim[0], 1, 1, 1}, along[4] = {1, 1, s.dim[2], 1};
    const rlx_dim all[4] = {1, 1, room, 1};
    const rlx_value begin = rlx_reshape(c->g, from, 4, first);
    const rlx_value rows = rlx_reshape(c->g, rx_onnx_iota(c, s.dim[2], RLX_I32), 4, along);
    const rlx_value at = rlx_add(c->g, rows, begin);
    const rlx_value slots = rlx_reshape(c->g, rx_onnx_iota(c, room, RLX_I32), 4, all);
    if (room > p.dim[2])
        past = rlx_pad(c->g, past, before, after, RLX_PAD_CONSTANT, 0);
    const rlx_value old = rlx_lt(c->g, slots, begin);
    past = rlx_where(c->g, old, past, number(c, rlx_value_dtype(c->g, past), 0));
    return rlx_scatter_elements(c->g, past, rlx_expand(c->g, at, 4, s.dim), x, 2,
                                RLX_SCATTER_NONE);
}

/* Operands of GroupQueryAttention besides q, k and v. */
typedef struct group {
    int64_t heads, kv_heads, total; /* total: keys of the longest sequence */
    rlx_dim batch, n, past;         /* n: new rows; past: capacity of the given cache */
    rlx_value from;                 /* position of the first new row, i32 [B] */
} group;

static bool read_group(rx_onnx_call *c, group *r)
{
    rlx_ints total;
    const rlx_shape s = rlx_value_shape(c->g, rx_onnx_in(c, 0));
    const rlx_value past = rx_onnx_in(c, 3), ends = rx_onnx_in(c, 5);
    *r = (group){.heads = rx_onnx_int(c, "num_heads", 0),
                 .kv_heads = rx_onnx_int(c, "kv_num_heads", 0), .batch = s.dim[0], .n = s.dim[1],
                 .past = past.id ? rlx_value_shape(c->g, past).dim[2] : 0};
    if (!rx_onnx_known_ints(c, 6, "total_sequence_length", &total))
        return false;
    r->total = total.v[0];
    if (s.rank != 3 || r->heads < 1 || r->kv_heads < 1 || r->heads % r->kv_heads || !ends.id ||
        r->n < 0 || r->past < 0 || total.n != 1 || r->total < r->n) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "expected q [B, S, H * D] of a fixed length, heads in "
                     "whole groups, lengths and a total of %lld or more", (long long)r->n);
        return false;
    }
    const rlx_dim flat[1] = {r->batch};
    const bool first = r->n == r->total; /* a prompt begins at 0, whatever its padding */
    r->from = r->batch == 1 || first
                  ? rlx_expand(c->g, number(c, RLX_I32, (double)(r->total - r->n)), 1, flat)
                  : rlx_sub(c->g, rlx_reshape(c->g, rlx_cast(c->g, ends, RLX_I32), 1, flat),
                            number(c, RLX_I32, (double)(r->n - 1)));
    return true;
}

/* Applies the rotary tables to q and k at their positions. */
static void rotate_group(rx_onnx_call *c, const group *r, attention *a)
{
    const rlx_rope_desc d = {RLX_INIT(rlx_rope_desc),
                             .interleaved = rx_onnx_int(c, "rotary_interleaved", 0),
                             .n_rot = 2 * rlx_value_shape(c->g, rx_onnx_in(c, 7)).dim[1]};
    rlx_value at = rx_onnx_in(c, 9);
    if (!at.id)
        at = rlx_add(c->g, rlx_unsqueeze(c->g, r->from, 1), rx_onnx_iota(c, r->n, RLX_I32));
    a->q = rlx_rope(c->g, a->q, rx_onnx_in(c, 7), rx_onnx_in(c, 8), at, &d);
    a->k = rlx_rope(c->g, a->k, rx_onnx_in(c, 7), rx_onnx_in(c, 8), at, &d);
}

static bool split_group(rx_onnx_call *c, const group *r, attention *a)
{
    const rlx_value q = rx_onnx_in(c, 0);
    if (rx_onnx_in(c, 1).id) {
        a->q = rx_onnx_split_heads(c, q, r->heads);
        a->k = rx_onnx_split_heads(c, rx_onnx_in(c, 1), r->kv_heads);
        a->v = rx_onnx_split_heads(c, rx_onnx_in(c, 2), r->kv_heads);
        return a->q.id && a->k.id && a->v.id;
    }
    /* q, k and v concatenated */
    const rlx_value all = rx_onnx_split_heads(c, q, r->heads + 2 * r->kv_heads);
    if (!all.id)
        return false;
    a->q = rlx_narrow(c->g, all, 1, 0, r->heads);
    a->k = rlx_narrow(c->g, all, 1, r->heads, r->kv_heads);
    a->v = rlx_narrow(c->g, all, 1, r->heads + r->kv_heads, r->kv_heads);
    return true;
}

/* q, k?, v? (packed in q when absent), past key?, past value?, last position of each sequence,
 * number of keys of the longest, cos?, sin?, positions?, bias of scores?, sinks? */
rlx_value rx_onnx_group_query(rx_onnx_call *c)
{
    group r;
    attention a = {.bias = rx_onnx_in(c, 10), .sinks = rx_onnx_in(c, 11), .d = read_desc(c)};
    const int64_t window = rx_onnx_int(c, "local_window_size", -1);
    a.d.causal = true;
    a.d.window = window > 0 ? window : 0;
    a.d.soft_cap = rx_onnx_float(c, "softcap", 0);
    if (!read_group(c, &r) || !split_group(c, &r, &a))
        return RLX_NONE;
    if (rx_onnx_int(c, "smooth_softmax", 0) && !a.sinks.id) {
        const rlx_dim heads[1] = {r.heads};
        a.sinks = rlx_expand(c->g, number(c, RLX_F32, 0), 1, heads);
    }
    if (rx_onnx_int(c, "do_rotary", 0))
        rotate_group(c, &r, &a);
    const bool prompt = r.n == r.total, appends = r.past + r.n == r.total && r.batch == 1;
    const rlx_dim room = r.total > r.past ? r.total : r.past;
    if (!rx_onnx_in(c, 3).id || (prompt && !r.past)) {
        ;
    } else if (appends) {
        a.k = extend(c, rx_onnx_in(c, 3), a.k);
        a.v = extend(c, rx_onnx_in(c, 4), a.v);
    } else {
        a.k = insert(c, rx_onnx_in(c, 3), a.k, r.from, room);
        a.v = insert(c, rx_onnx_in(c, 4), a.v, r.from, room);
        a.lengths = rlx_add(c->g, r.from, number(c, RLX_I32, (double)r.n));
    }
    c->out[1] = a.k;
    c->out[2] = a.v;
    if (a.sinks.id)
        a.sinks = rlx_cast(c->g, a.sinks, RLX_F32);
    return attend(c, &a);
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

/* x [B, S, H * D] or [B, H, S, D], positions ([1]: the first; or [B, S]), tables of cos and sin. */
rlx_value rx_onnx_ms_rotary(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const rlx_shape t = rlx_value_shape(c->g, rx_onnx_in(c, 2));
    const int64_t part = rx_onnx_int(c, "rotary_embedding_dim", 0);
    int64_t heads = rx_onnx_int(c, "num_heads", 0);
    rlx_value at = rx_onnx_in(c, 1), y = x;
    rlx_rope_desc d = {RLX_INIT(rlx_rope_desc), .interleaved = rx_onnx_int(c, "interleaved", 0),
                       .n_rot = part};
    if (t.rank != 2 || t.dim[1] < 1 || (s.rank != 3 && s.rank != 4))
        return rx_onnx_fail(c, RLX_INVALID, "expected x of 3 or 4 dimensions and tables of 2");
    if (rx_onnx_elements(c, at) == 1 && rx_onnx_rank(c, at) == 1)
        at = rlx_add(c->g, rlx_cast(c->g, at, RLX_I32),
                     rx_onnx_iota(c, s.dim[s.rank - 2], RLX_I32));
    if (s.rank == 3) {
        if (heads < 1)
            heads = s.dim[2] / (2 * t.dim[1]);
        const rlx_dim dims[4] = {s.dim[0], s.dim[1], heads, rlx_dim_div(c->g, s.dim[2], heads)};
        d.layout = RLX_BSHD;
        y = rlx_reshape(c->g, x, 4, dims);
    }
    y = rlx_rope(c->g, y, rx_onnx_in(c, 2), rx_onnx_in(c, 3), at, &d);
    return s.rank == 3 ? rlx_reshape(c->g, y, 3, s.dim) : y;
}

/* ---- EmbedLayerNormalization ----------------------------------------------------------------- */

/* ids [B, S], segments?, tables of words, positions and segments?, gamma, beta, mask?, positions?
 */
rlx_value rx_onnx_embed_norm(rx_onnx_call *c)
{
    const rlx_value ids = rx_onnx_in(c, 0), segments = rx_onnx_in(c, 1), mask = rx_onnx_in(c, 7);
    const rlx_shape s = rlx_value_shape(c->g, ids);
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc),
                             .eps = rx_onnx_float_set(c, "epsilon", 1e-12)};
    const int64_t last = 1;
    if (s.rank != 2)
        return rx_onnx_fail(c, RLX_INVALID, "ids of %d dimensions; expected 2", s.rank);
    const rlx_value at = rx_onnx_in(c, 8).id ? rx_onnx_in(c, 8)
                                             : rx_onnx_iota(c, s.dim[1], RLX_I32);
    rlx_value x = rlx_add(c->g, rlx_gather(c->g, rx_onnx_in(c, 2), ids, 0),
                          rlx_gather(c->g, rx_onnx_in(c, 3), at, 0));
    if (segments.id && rx_onnx_in(c, 4).id)
        x = rlx_add(c->g, x, rlx_gather(c->g, rx_onnx_in(c, 4), segments, 0));
    c->out[1] = mask.id ? rlx_reduce(c->g, RLX_REDUCE_SUM, mask, &last, 1, false)
                        : rlx_expand(c->g, number(c, RLX_I32, 0), 1, s.dim);
    c->out[2] = x;
    return rlx_layer_norm(c->g, x, rx_onnx_in(c, 5), rx_onnx_in(c, 6), &d);
}
