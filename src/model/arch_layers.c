/* SPDX-License-Identifier: MIT */
/* Parts of a transformer layer: attention with its K/V cache, and the feed-forward, dense or
 * mixture of experts. */
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

/* A state with a row for each cache position, after `update` [B * S, heads, n] was written in type
 * t. */
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

/* Blocks of 32 numbers in 8 bits with a scale in f16, as q8_0 has them; whole heads where these are
 * no multiple of 32. Read back in f16. */
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

/* Adds k or v [B, S, heads, n] to its cache; returns all of it, [sequences, context, heads, n], or
 * [rows of the pool, heads, n]. */
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
} qkv;

/* Parts [B, S, n, size] of [B, S, n.. * size]. */
static qkv split_fused(rx_builder *b, const rx_layer *l, rlx_value x)
{
    rlx_graph *g = b->g;
    const int64_t nq = l->heads * b->f->head_size, nk = l->kv_heads * b->f->head_size;
    const int64_t nv = l->kv_heads * b->f->value_size;
    return (qkv){rlx_narrow(g, x, 2, 0, nq), rlx_narrow(g, x, 2, nq, nk),
                 rlx_narrow(g, x, 2, nq + nk, nv)};
}

static qkv build_qkv(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const rx_facts *f = b->f;
    qkv p;
    if (l->parts & RX_HAS_FUSED) {
        const rlx_value bias = rx_build_vector(b, l, RX_T_QKV_BIAS);
        p = split_fused(b, l, rx_build_linear(b, l, x, RX_T_QKV, bias, RLX_NONE));
    } else {
        const rlx_value bq = rx_build_vector(b, l, RX_T_Q_BIAS);
        const rlx_value bk = rx_build_vector(b, l, RX_T_K_BIAS);
        const rlx_value bv = rx_build_vector(b, l, RX_T_V_BIAS);
        p = (qkv){rx_build_linear(b, l, x, RX_T_Q, bq, RLX_NONE),
                  rx_build_linear(b, l, x, RX_T_K, bk, RLX_NONE),
                  rx_build_linear(b, l, x, RX_T_V, bv, RLX_NONE)};
    }
    if (l->parts & RX_HAS_WIDE_QK_NORM) {
        p.q = rx_build_rms_norm(b, p.q, rx_build_vector(b, l, RX_T_WIDE_Q_NORM));
        p.k = rx_build_rms_norm(b, p.k, rx_build_vector(b, l, RX_T_WIDE_K_NORM));
    }
    p.q = rx_build_heads(b, p.q, l->heads, f->head_size);
    p.k = rx_build_heads(b, p.k, l->kv_heads, f->head_size);
    p.v = rx_build_heads(b, p.v, l->kv_heads, f->value_size);
    if (l->parts & RX_HAS_QK_NORM) {
        p.q = rx_build_rms_norm(b, p.q, rx_build_vector(b, l, RX_T_Q_NORM));
        p.k = rx_build_rms_norm(b, p.k, rx_build_vector(b, l, RX_T_K_NORM));
    }
    return p;
}

static rlx_value rotate(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const int which = l->local && b->cos[1].id;
    if (!b->cos[0].id)
        return x;
    const rlx_rope_desc d = {RLX_INIT(rlx_rope_desc), .interleaved = b->f->pairs,
                             .n_rot = b->f->n_rot, .layout = RLX_BSHD};
    return rlx_rope(b->g, x, b->cos[which], b->sin[which], b->positions, &d);
}

/* Which keys a query of an encoder sees: those at most half a window away, bool [1, 1, S, S]. */
static rlx_value build_near(rx_builder *b)
{
    rlx_graph *g = b->g;
    if (b->near.id)
        return b->near;
    const rlx_dim row[] = {1, b->seq}, column[] = {b->seq, 1}, all[] = {1, 1, b->seq, b->seq};
    const rlx_range_desc d = {RLX_INIT(rlx_range_desc), .n = b->seq, .out = RLX_I32};
    const rlx_value at = rlx_range(g, &d);
    const rlx_value apart = rlx_abs(g, rlx_sub(g, rlx_reshape(g, at, 2, column),
                                               rlx_reshape(g, at, 2, row)));
    const rlx_value near = rlx_le(g, apart, rlx_scalar(g, RLX_I32, (double)(b->f->window / 2)));
    b->near = rlx_reshape(g, near, 4, all);
    return b->near;
}

rlx_value rx_build_attention(rx_builder *b, const rx_layer *l, rlx_value x)
{
    static const char *keys[2] = {"k", "k.scale"}, *values[2] = {"v", "v.scale"};
    const rx_facts *f = b->f;
    const bool decodes = f->arch->parts & RX_HAS_DECODER;
    qkv p = build_qkv(b, l, x);
    p.q = rotate(b, l, p.q);
    p.k = rotate(b, l, p.k);
    if (decodes && !b->d->train) {
        p.k = keep(b, l, keys, p.k);
        p.v = keep(b, l, values, p.v);
    }
    const rlx_attention_desc d = {RLX_INIT(rlx_attention_desc),
        .layout = RLX_BSHD, .scale = f->attention_scale, .soft_cap = f->attention_cap,
        .causal = decodes, .window = decodes && l->local ? f->window : 0,
        .page = b->slots.id ? b->d->context : 0};
    const rlx_value near = l->local && !decodes ? build_near(b) : RLX_NONE;
    const rlx_value extra[3] = {b->lengths, RLX_NONE, b->slots};
    const rlx_value y = b->d->page
                            ? rx_build_row_attention(b, p.q, p.k, p.v, &d)
                            : rlx_attention_ex(b->g, p.q, p.k, p.v, near, extra, &d);
    return rlx_reshape(b->g, y, 3, (rlx_dim[]){b->batch, b->seq, l->heads * f->value_size});
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

/* act(gate) * up */
static rlx_value gated(rx_builder *b, rlx_value gate, rlx_value up)
{
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
        y = gated(b, rlx_narrow(g, y, 2, 0, l->hidden), rlx_narrow(g, y, 2, l->hidden, l->hidden));
    } else {
        const rlx_value up_bias = rx_build_vector(b, l, RX_T_UP_BIAS);
        const rlx_value gate_bias = rx_build_vector(b, l, RX_T_GATE_BIAS);
        const rlx_value up = rx_build_linear(b, l, x, RX_T_UP, up_bias, RLX_NONE);
        y = l->parts & RX_HAS_GATE
                ? gated(b, rx_build_linear(b, l, x, RX_T_GATE, gate_bias, RLX_NONE), up)
                : activate(b, up);
    }
    const rlx_value bias = rx_build_vector(b, l, RX_T_DOWN_BIAS);
    return rx_build_linear(b, l, y, RX_T_DOWN, bias, residual);
}

/* The experts of each row of x [rows, width]: ids i32 [rows * k] and weights [rows, k, 1]. */
static rlx_value build_router(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value *ids)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t k = f->experts_used, axis = 1;
    const rlx_dim flat = rlx_dim_mul(g, b->rows, k), column[] = {b->rows, k, 1};
    rlx_value w = rx_build_linear(b, l, x, RX_T_ROUTER, RLX_NONE, RLX_NONE);
    w = rlx_top_k(g, rlx_softmax(g, w, 1), &(rlx_topk_desc){RLX_INIT(rlx_topk_desc), .k = k,
                                                            .axis = 1, .out = RLX_I32},
                  ids);
    *ids = rlx_reshape(g, *ids, 1, &flat);
    if (f->norm_experts)
        w = rlx_div(g, w, rlx_reduce(g, RLX_REDUCE_SUM, w, &axis, 1, true));
    if (f->expert_scale != 1)
        w = rlx_mul(g, w, rlx_scalar(g, RLX_F32, f->expert_scale));
    return rlx_reshape(g, w, 3, column);
}

static rlx_value build_bank(rx_builder *b, const rx_layer *l, rlx_value x, rx_role role,
                            rlx_value ids)
{
    return rlx_dequant_grouped_matmul(b->g, x, rx_build_weight(b, l, role), ids);
}

/* The shared expert: sigmoid(x . router) * expert(x), for x [rows, width]. */
static rlx_value build_shared(rx_builder *b, const rx_layer *l, rlx_value x)
{
    rlx_graph *g = b->g;
    const rlx_dim row[] = {1, b->f->width};
    const rlx_value router = rlx_reshape(g, rx_build_vector(b, l, RX_T_SHARED_ROUTER), 2, row);
    const rlx_value share = rlx_sigmoid(g, rlx_dequant_matmul(g, x, router));
    const rlx_value gate = rx_build_linear(b, l, x, RX_T_SHARED_GATE, RLX_NONE, RLX_NONE);
    const rlx_value up = rx_build_linear(b, l, x, RX_T_SHARED_UP, RLX_NONE, RLX_NONE);
    const rlx_value y = rx_build_linear(b, l, gated(b, gate, up), RX_T_SHARED_DOWN, RLX_NONE,
                                        RLX_NONE);
    return rlx_mul(g, y, share);
}

/* Mixture of experts: each row goes through k experts (k rows of the expert bank), summed with the
 * router's weights. */
static rlx_value build_experts(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual)
{
    rlx_graph *g = b->g;
    const int64_t width = b->f->width, k = b->f->experts_used, axis = 1;
    const rlx_dim rows[] = {b->rows, width}, one[] = {b->rows, 1, width};
    const rlx_dim each[] = {b->rows, k, width}, flat[] = {rlx_dim_mul(g, b->rows, k), width};
    const rlx_dim whole[] = {b->batch, b->seq, width};
    rlx_value ids;
    x = rlx_reshape(g, x, 2, rows);
    const rlx_value weights = build_router(b, l, x, &ids);
    const rlx_value many = rlx_reshape(
        g, rlx_expand(g, rlx_reshape(g, x, 3, one), 3, each), 2, flat);
    const rlx_value gate = build_bank(b, l, many, RX_T_GATE_EXPERTS, ids);
    const rlx_value up = build_bank(b, l, many, RX_T_UP_EXPERTS, ids);
    rlx_value y = build_bank(b, l, gated(b, gate, up), RX_T_DOWN_EXPERTS, ids);
    y = rlx_mul(g, rlx_reshape(g, y, 3, each), weights);
    y = rlx_reduce(g, RLX_REDUCE_SUM, y, &axis, 1, false);
    if (l->parts & RX_HAS_SHARED)
        y = rlx_add(g, y, build_shared(b, l, x));
    y = rlx_reshape(g, y, 3, whole);
    return residual.id ? rlx_add(g, y, residual) : y;
}

rlx_value rx_build_ffn(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual)
{
    return l->parts & RX_HAS_EXPERTS ? build_experts(b, l, x, residual)
                                      : build_dense(b, l, x, residual);
}
