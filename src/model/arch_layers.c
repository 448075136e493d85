/* SPDX-License-Identifier: MIT */
/* Parts of a transformer layer: attention with its K/V cache, and the dense feed-forward. */
#include <math.h>

#include "model/build.h"

/* ---- The K/V cache --------------------------------------------------------------------------- */

#define Q8_BLOCK 32

/* [rows of the cache, ..] -> [sequences, context, ..]; a pool of pages stays as it is. */
static rlx_value split_sequences(rx_builder *b, rlx_value v)
{
    const rlx_shape s = rlx_value_shape(b->g, v);
    const rlx_dim dims[] = {b->d->sequences, b->d->context, s.dim[1], s.dim[2]};
    if (b->d->page)
        return v;
    return rlx_reshape(b->g, v, 4, dims);
}

/* Creates the state of type t with a row per cache position and writes `update` [B * S, heads,
 * n]. */
static rlx_value write_rows(rx_builder *b, const rx_layer *l, const char *what, rlx_dtype t,
                            rlx_value update)
{
    char name[RX_STATE_NAME];
    const rlx_shape s = rlx_value_shape(b->g, update);
    const rx_build_desc *d = b->d;
    const int64_t rows = d->page ? d->pages * d->page : d->sequences * d->context;
    const rlx_dim dims[] = {rows, s.dim[1], s.dim[2]};
    const rlx_value state = rlx_state(b->g, rx_build_name(b, l, what, name), t, 3, dims);
    return rlx_state_write(b->g, state, update, b->places, 0);
}

/* Quantises as q8_0: blocks of 32 in 8 bits with an f16 scale, or one block per head when its size
 * is no multiple of 32. Reads are dequantised to f16. */
static rlx_value keep_q8(rx_builder *b, const rx_layer *l, const char *what[2], rlx_value x)
{
    rlx_graph *g = b->g;
    const rlx_shape s = rlx_value_shape(g, x);
    const int64_t size = s.dim[2], block = size % Q8_BLOCK ? size : Q8_BLOCK, axis = 3;
    const rlx_dim blocks[] = {b->rows, s.dim[1], size / block, block};
    const rlx_dim scales[] = {b->rows, s.dim[1], size / block};
    rlx_value top = rlx_abs(g, rlx_reshape(g, x, 4, blocks));
    top = rlx_reduce(g, RLX_REDUCE_MAX, top, &axis, 1, false);
    top = rlx_div(g, rlx_reshape(g, top, 3, scales), rlx_scalar(g, RLX_F32, 127));
    const rlx_value scale = rlx_cast(g, top, RLX_F16);
    const rlx_quant_desc q = {RLX_INIT(rlx_quant_desc), .axis = 2, .block = block, .to = RLX_I8};
    const rlx_value codes = rlx_quantize(g, x, rlx_cast(g, scale, RLX_F32), RLX_NONE, &q);
    const rlx_value all = write_rows(b, l, what[0], RLX_I8, codes);
    const rlx_value all_scales = rlx_cast(g, write_rows(b, l, what[1], RLX_F16, scale), RLX_F32);
    const rlx_quant_desc back = {RLX_INIT(rlx_quant_desc), .axis = 2, .block = block,
                                 .to = RLX_F16};
    return rlx_dequantize(g, all, all_scales, RLX_NONE, &back);
}

/* Writes k or v [B, S, heads, n] to its cache; returns the whole cache, [sequences, context, heads,
 * n], or [rows of the pool, heads, n]. */
static rlx_value keep(rx_builder *b, const rx_layer *l, const char *what[2], rlx_value x)
{
    const rlx_shape s = rlx_value_shape(b->g, x);
    x = rlx_reshape(b->g, x, 3, (rlx_dim[]){b->rows, s.dim[2], s.dim[3]});
    if (b->d->cache == RLX_Q8_0)
        return split_sequences(b, keep_q8(b, l, what, x));
    const rlx_dtype t = b->d->cache == RLX_F16 ? RLX_F16 : rlx_value_dtype(b->g, x);
    return split_sequences(b, write_rows(b, l, what[0], t, x));
}

/* ---- Attention ------------------------------------------------------------------------------- */

typedef struct qkv {
    rlx_value q, k, v; /* [B, S, heads, size] */
    rlx_value gate;    /* as q, or RLX_NONE */
} qkv;

/* Splits a fused projection [B, S, n.. * size] into q, k, v [B, S, n, size]. */
static qkv split_fused(rx_builder *b, const rx_layer *l, rlx_value x)
{
    rlx_graph *g = b->g;
    const int64_t nq = l->heads * b->f->head_size, nk = l->kv_heads * b->f->head_size;
    const int64_t nv = l->kv_heads * b->f->value_size;
    return (qkv){.q = rlx_narrow(g, x, 2, 0, nq), .k = rlx_narrow(g, x, 2, nq, nk),
                 .v = rlx_narrow(g, x, 2, nq + nk, nv)};
}

/* Norms of each head, and of all heads before they are split. */
static void norm_heads(rx_builder *b, const rx_layer *l, qkv *p)
{
    if (!(l->parts & RX_HAS_QK_NORM))
        return;
    p->q = rx_build_rms_norm(b, p->q, rx_build_vector(b, l, RX_T_Q_NORM));
    p->k = rx_build_rms_norm(b, p->k, rx_build_vector(b, l, RX_T_K_NORM));
}

static qkv build_qkv(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const rx_facts *f = b->f;
    qkv p = {0};
    if (l->parts & RX_HAS_FUSED) {
        const rlx_value bias = rx_build_vector(b, l, RX_T_QKV_BIAS);
        p = split_fused(b, l, rx_build_linear(b, l, x, RX_T_QKV, bias, RLX_NONE));
    } else {
        const rlx_value bq = rx_build_vector(b, l, RX_T_Q_BIAS);
        const rlx_value bk = rx_build_vector(b, l, RX_T_K_BIAS);
        const rlx_value bv = rx_build_vector(b, l, RX_T_V_BIAS);
        p = (qkv){.q = rx_build_linear(b, l, x, RX_T_Q, bq, RLX_NONE),
                  .k = rx_build_linear(b, l, x, RX_T_K, bk, RLX_NONE),
                  .v = rx_build_linear(b, l, x, RX_T_V, bv, RLX_NONE)};
    }
    if (l->parts & RX_HAS_WIDE_QK_NORM) {
        p.q = rx_build_rms_norm(b, p.q, rx_build_vector(b, l, RX_T_WIDE_Q_NORM));
        p.k = rx_build_rms_norm(b, p.k, rx_build_vector(b, l, RX_T_WIDE_K_NORM));
    }
    if (l->parts & RX_HAS_Q_GATE) {
        const rlx_value both = rx_build_heads(b, p.q, l->heads, 2 * f->head_size);
        p.q = rlx_narrow(b->g, both, 3, 0, f->head_size);
        p.gate = rlx_sigmoid(b->g, rlx_narrow(b->g, both, 3, f->head_size, f->head_size));
    } else {
        p.q = rx_build_heads(b, p.q, l->heads, f->head_size);
    }
    p.k = rx_build_heads(b, p.k, l->kv_heads, f->head_size);
    p.v = rx_build_heads(b, p.v, l->kv_heads, f->value_size);
    norm_heads(b, l, &p);
    return p;
}

rlx_value rx_build_rotated(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const int which = l->local && b->cos[1].id;
    if (!b->cos[0].id)
        return x;
    const rlx_rope_desc d = {RLX_INIT(rlx_rope_desc), .interleaved = b->f->pairs,
                             .n_rot = b->f->n_rot, .layout = RLX_BSHD};
    return rlx_rope(b->g, x, b->cos[which], b->sin[which], b->positions, &d);
}

/* Llama 4, layers with full attention: q is scaled by the logarithm of its position, by 1 up to
 * temperature_length. */
static rlx_value scale_by_position(rx_builder *b, rlx_value q)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const rlx_dim dims[] = {b->batch, b->seq, 1, 1};
    if (b->d->context < f->temperature_length)
        return q;
    const rlx_value one = rlx_scalar(g, RLX_F32, 1);
    rlx_value s = rlx_add(g, rlx_cast(g, b->positions, RLX_F32), one);
    s = rlx_floor(g, rlx_div(g, s, rlx_scalar(g, RLX_F32, (double)f->temperature_length)));
    s = rlx_mul(g, rlx_log(g, rlx_add(g, s, one)), rlx_scalar(g, RLX_F32, f->temperature_scale));
    return rlx_mul(g, q, rlx_reshape(g, rlx_add(g, s, one), 4, dims));
}

/* Applies the rotary embedding to q and k. */
static void place(rx_builder *b, const rx_layer *l, qkv *p)
{
    if (b->f->arch->chunked && b->f->window > 0 && !l->local) {
        p->q = scale_by_position(b, p->q);
        return;
    }
    p->q = rx_build_rotated(b, l, p->q);
    p->k = rx_build_rotated(b, l, p->k);
    if (b->f->unit_qk) {
        p->q = rx_build_rms_norm(b, p->q, RLX_NONE);
        p->k = rx_build_rms_norm(b, p->k, RLX_NONE);
    }
}

static rlx_value count_up(rx_builder *b, rlx_dim n)
{
    const rlx_range_desc d = {RLX_INIT(rlx_range_desc), .n = n, .out = RLX_I32};
    return rlx_range(b->g, &d);
}

/* The distances from which the logarithmic buckets of T5 begin: half of n buckets are of single
 * distances, the others reach up to 128. */
#define FAR 128
#define MOST_STARTS 2048

static rlx_value build_starts(rx_builder *b, int64_t n)
{
    int32_t starts[MOST_STARTS];
    const int64_t exact = n / 2;
    rlx_dim count = 0;
    for (int32_t a = (int32_t)exact; a < FAR; a++) {
        const double at = log((double)a / (double)exact) / log((double)FAR / (double)exact) *
                          (double)(n - exact);
        while (count < (int64_t)(at + 1e-9) && count < n - exact - 1)
            starts[count++] = a;
    }
    while (count < n - exact - 1)
        starts[count++] = FAR;
    return rlx_constant(b->g, RLX_I32, 1, &count, starts, (size_t)count * sizeof *starts);
}

/* T5: the bias of each head by the distance of key and query, f32 [1, H, S, S]. Buckets are found
 * once for each distance, -(S - 1) to S - 1. */
static rlx_value build_distances(rx_builder *b)
{
    rlx_graph *g = b->g;
    const int64_t n = b->f->buckets / 2, exact = n / 2, axis = 1;
    if (b->near.id)
        return b->near;
    const rlx_dim all = rlx_dim_sub(g, rlx_dim_mul(g, b->seq, 2), 1), tall[] = {all, 1};
    const rlx_dim row[] = {1, b->seq}, column[] = {b->seq, 1};
    const rlx_value last = rlx_narrow(g, count_up(b, all), 0, rlx_dim_sub(g, b->seq, 1), 1);
    const rlx_value d = rlx_sub(g, count_up(b, all), last), a = rlx_abs(g, d);
    const rlx_value later = rlx_cast(g, rlx_gt(g, d, rlx_scalar(g, RLX_I32, 0)), RLX_I32);
    const rlx_value beyond = rlx_cast(g, rlx_ge(g, rlx_reshape(g, a, 2, tall),
                                                build_starts(b, n)), RLX_I32);
    const rlx_value far = rlx_reduce(g, RLX_REDUCE_SUM, beyond, &axis, 1, false);
    rlx_value bucket = rlx_min(g, a, rlx_scalar(g, RLX_I32, (double)exact));
    bucket = rlx_add(g, rlx_add(g, bucket, far),
                     rlx_mul(g, later, rlx_scalar(g, RLX_I32, (double)n)));
    const rlx_value table = rlx_gather(g, rx_build_vector(b, NULL, RX_T_REL_BIAS), bucket, 0);
    const rlx_value at = count_up(b, b->seq);
    const rlx_value index = rlx_add(g, rlx_sub(g, rlx_reshape(g, at, 2, row),
                                               rlx_reshape(g, at, 2, column)), last);
    const int order[] = {2, 0, 1};
    const rlx_value bias = rlx_transpose(g, rlx_gather(g, table, index, 0), order);
    const rlx_dim four[] = {1, b->f->layer[0].heads, b->seq, b->seq};
    b->near = rlx_reshape(g, bias, 4, four);
    return b->near;
}

/* Window of an encoder: keys at most half a window away, bool [1, 1, S, S]. */
static rlx_value build_near(rx_builder *b)
{
    rlx_graph *g = b->g;
    if (b->near.id)
        return b->near;
    const rlx_dim row[] = {1, b->seq}, column[] = {b->seq, 1}, all[] = {1, 1, b->seq, b->seq};
    const rlx_value at = count_up(b, b->seq);
    const rlx_value apart = rlx_abs(g, rlx_sub(g, rlx_reshape(g, at, 2, column),
                                               rlx_reshape(g, at, 2, row)));
    const rlx_value near = rlx_le(g, apart, rlx_scalar(g, RLX_I32, (double)(b->f->window / 2)));
    b->near = rlx_reshape(g, near, 4, all);
    return b->near;
}

/* Chunked attention: keys from the start of the query's chunk on, bool [B, 1, S, context]; the
 * causal mask hides later ones. */
static rlx_value build_chunk(rx_builder *b)
{
    rlx_graph *g = b->g;
    if (b->near.id)
        return b->near;
    const rlx_dim keys = rx_is_cacheless(b) ? b->seq : b->d->context;
    const rlx_dim row[] = {1, 1, 1, keys}, column[] = {b->batch, 1, b->seq, 1};
    const rlx_value size = rlx_scalar(g, RLX_I32, (double)b->f->window);
    const rlx_value start = rlx_sub(g, b->positions, rlx_mod(g, b->positions, size, false));
    b->near = rlx_ge(g, rlx_reshape(g, count_up(b, keys), 4, row),
                     rlx_reshape(g, start, 4, column));
    return b->near;
}

/* A mask for windows that attention's `window` attribute cannot express. */
static rlx_value build_mask(rx_builder *b, const rx_layer *l, bool decodes)
{
    if (l->parts & RX_HAS_RELATIVE)
        return build_distances(b);
    if (!l->local)
        return RLX_NONE;
    if (!decodes)
        return build_near(b);
    return b->f->arch->chunked && b->d->context > b->f->window ? build_chunk(b) : RLX_NONE;
}

rlx_value rx_build_attend(rx_builder *b, const rx_layer *l, rlx_value q, rlx_value k, rlx_value v)
{
    const rx_facts *f = b->f;
    const bool decodes = f->arch->parts & RX_HAS_DECODER;
    const bool window = decodes && l->local && !f->arch->chunked;
    const rlx_attention_desc d = {RLX_INIT(rlx_attention_desc),
        .layout = RLX_BSHD, .scale = f->attention_scale, .soft_cap = f->attention_cap,
        .causal = decodes, .window = window ? f->window : 0,
        .page = b->slots.id ? b->d->context : 0};
    const rlx_value sinks = rx_build_vector(b, l, RX_T_SINKS);
    const rlx_value extra[3] = {b->lengths, sinks, b->slots};
    if (b->d->page)
        return rx_build_row_attention(b, q, k, v, sinks, &d);
    return rlx_attention_ex(b->g, q, k, v, build_mask(b, l, decodes), extra, &d);
}

rlx_value rx_build_kept(rx_builder *b, const rx_layer *l, bool is_key, rlx_value x)
{
    static const char *keys[2] = {"k", "k.scale"}, *values[2] = {"v", "v.scale"};
    if (!(b->f->arch->parts & RX_HAS_DECODER) || rx_is_cacheless(b))
        return x;
    return keep(b, l, is_key ? keys : values, x);
}

rlx_value rx_build_attention(rx_builder *b, const rx_layer *l, rlx_value x)
{
    if (l->parts & RX_HAS_DELTA)
        return rx_build_delta(b, l, x);
    if (l->parts & RX_HAS_MLA)
        return rx_build_mla(b, l, x);
    qkv p = build_qkv(b, l, x);
    place(b, l, &p);
    p.k = rx_build_kept(b, l, true, p.k);
    p.v = rx_build_kept(b, l, false, p.v);
    rlx_value y = rx_build_attend(b, l, p.q, p.k, p.v);
    if (p.gate.id) {
        const rlx_dim dims[] = {b->batch, b->seq, l->heads, b->f->value_size};
        y = rlx_mul(b->g, rlx_reshape(b->g, y, 4, dims), p.gate);
    }
    return rlx_reshape(b->g, y, 3, (rlx_dim[]){b->batch, b->seq, l->heads * b->f->value_size});
}

/* ---- Feed-forward ---------------------------------------------------------------------------- */

static rlx_value activate(rx_builder *b, rlx_value x)
{
    switch (b->f->arch->act) {
    case RLX_ACT_SILU: return rlx_silu(b->g, x);
    case RLX_ACT_GELU_TANH: return rlx_gelu_tanh(b->g, x);
    default: return rlx_gelu(b->g, x);
    }
}

/* gpt-oss: gate at most c, up within -c and c: gate * sigmoid(1.702 * gate) * (up + 1) */
static rlx_value gated_clamped(rx_builder *b, rlx_value gate, rlx_value up)
{
    rlx_graph *g = b->g;
    const double c = b->f->arch->swiglu_limit;
    gate = rlx_clamp(g, gate, -INFINITY, c);
    up = rlx_add(g, rlx_clamp(g, up, -c, c), rlx_scalar(g, RLX_F32, 1));
    const rlx_value s = rlx_sigmoid(g, rlx_mul(g, gate, rlx_scalar(g, RLX_F32, 1.702)));
    return rlx_mul(g, rlx_mul(g, gate, s), up);
}

rlx_value rx_build_gated(rx_builder *b, rlx_value gate, rlx_value up)
{
    if (b->f->arch->swiglu_limit > 0)
        return gated_clamped(b, gate, up);
    if (b->f->arch->act == RLX_ACT_SILU)
        return rlx_swiglu(b->g, gate, up);
    return rlx_mul(b->g, activate(b, gate), up);
}

static rlx_value build_dense(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual)
{
    rlx_graph *g = b->g;
    rlx_value y;
    if (l->parts & RX_HAS_GATE_IN_UP) {
        y = rx_build_linear(b, l, x, RX_T_GATE_UP, RLX_NONE, RLX_NONE);
        y = rx_build_gated(b, rlx_narrow(g, y, 2, 0, l->hidden),
                           rlx_narrow(g, y, 2, l->hidden, l->hidden));
    } else {
        const rlx_value up_bias = rx_build_vector(b, l, RX_T_UP_BIAS);
        const rlx_value gate_bias = rx_build_vector(b, l, RX_T_GATE_BIAS);
        const rlx_value up = rx_build_linear(b, l, x, RX_T_UP, up_bias, RLX_NONE);
        y = l->parts & RX_HAS_GATE
                ? rx_build_gated(b, rx_build_linear(b, l, x, RX_T_GATE, gate_bias, RLX_NONE), up)
                : l->parts & RX_HAS_RELATIVE ? rlx_relu(b->g, up) : activate(b, up);
    }
    const rlx_value bias = rx_build_vector(b, l, RX_T_DOWN_BIAS);
    return rx_build_linear(b, l, y, RX_T_DOWN, bias, residual);
}

rlx_value rx_build_ffn(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual)
{
    return l->parts & RX_HAS_EXPERTS ? rx_build_experts(b, l, x, residual)
                                      : build_dense(b, l, x, residual);
}
