/* SPDX-License-Identifier: MIT */
/* The builders: one function for each operation of the catalogue, by family.
 *
 * Common to all: a builder returns its result, or RLX_NONE after recording an error in the graph
 * (graph.h). Axes may be negative. "?" marks an operand that may be RLX_NONE. In descriptors, which
 * begin with RLX_INIT, zero means the default, and a NULL descriptor means all defaults; a real
 * number that shall be zero where that is not the default is RLX_ZERO. Where an operation has
 * several results, pointers to those after the first may be NULL. Operands of elementwise
 * operations broadcast as in NumPy and must have the same type. docs/ops.md has the meaning of
 * each. */
#ifndef RLX_OPS_H
#define RLX_OPS_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elementwise: functions of floats ---------------------------------------------------------
 * functions.def has a row for each with its name, parameters, meaning, domain and accuracy; this
 * declares them:
 *   of x, most of them: relu, gelu, silu, tanh, exp, log, sqrt, ...
 *     rlx_value rlx_relu(rlx_graph *g, rlx_value x);
 *   of x with parameters, where 0 means the default (RLX_ZERO: zero): elu, leaky_relu, selu, ...
 *     rlx_value rlx_elu(rlx_graph *g, rlx_value x, double alpha);
 *     rlx_value rlx_selu(rlx_graph *g, rlx_value x, double alpha, double beta);
 *   of a and b: add, sub, mul, div, max, min, pow, ...
 *     rlx_value rlx_add(rlx_graph *g, rlx_value a, rlx_value b);
 * Rows with NUMBERS (neg, add, ...) also take integers. */
#define RLX_PARAMS_none
#define RLX_PARAMS_alpha , double alpha
#define RLX_PARAMS_alpha_beta , double alpha, double beta
#define RLX_FUNCTION1(name, params, ...) \
    RLX_API rlx_value rlx_##name(rlx_graph *g, rlx_value x RLX_PARAMS_##params);
#define RLX_FUNCTION2(name, ...) \
    RLX_API rlx_value rlx_##name(rlx_graph *g, rlx_value a, rlx_value b);
#include "functions.def"
#undef RLX_PARAMS_none
#undef RLX_PARAMS_alpha
#undef RLX_PARAMS_alpha_beta
#undef RLX_FUNCTION1
#undef RLX_FUNCTION2

/* ---- Elementwise: tests, remainder, bits, selection ------------------------------------------ */
RLX_API rlx_value rlx_is_nan(rlx_graph *g, rlx_value x); /* floats to bool */
RLX_API rlx_value rlx_is_inf(rlx_graph *g, rlx_value x);
/* Comparisons give bool; any plain type. */
RLX_API rlx_value rlx_eq(rlx_graph *g, rlx_value a, rlx_value b);
RLX_API rlx_value rlx_ne(rlx_graph *g, rlx_value a, rlx_value b);
RLX_API rlx_value rlx_lt(rlx_graph *g, rlx_value a, rlx_value b);
RLX_API rlx_value rlx_le(rlx_graph *g, rlx_value a, rlx_value b);
RLX_API rlx_value rlx_gt(rlx_graph *g, rlx_value a, rlx_value b);
RLX_API rlx_value rlx_ge(rlx_graph *g, rlx_value a, rlx_value b);
/* The remainder with the sign of a (C's fmod), or of b when `floored` (NumPy's mod). */
RLX_API rlx_value rlx_mod(rlx_graph *g, rlx_value a, rlx_value b, bool floored);
/* bool; bitwise on integers */
RLX_API rlx_value rlx_not(rlx_graph *g, rlx_value x);
RLX_API rlx_value rlx_and(rlx_graph *g, rlx_value a, rlx_value b);
RLX_API rlx_value rlx_or(rlx_graph *g, rlx_value a, rlx_value b);
RLX_API rlx_value rlx_xor(rlx_graph *g, rlx_value a, rlx_value b);
/* Integers; a count of the width or more gives 0 (shr of a negative number: -1). */
RLX_API rlx_value rlx_shl(rlx_graph *g, rlx_value a, rlx_value b);
RLX_API rlx_value rlx_shr(rlx_graph *g, rlx_value a, rlx_value b); /* arithmetic on signed types */

/* cond (bool) ? a : b */
RLX_API rlx_value rlx_where(rlx_graph *g, rlx_value cond, rlx_value a, rlx_value b);
/* min(max(x, lo), hi); use -INFINITY and INFINITY for an open side. NaN stays NaN. */
RLX_API rlx_value rlx_clamp(rlx_graph *g, rlx_value x, double lo, double hi);
/* a * b + c, rounded once. */
RLX_API rlx_value rlx_fma(rlx_graph *g, rlx_value a, rlx_value b, rlx_value c);
/* Float to integer truncates toward zero and saturates, NaN gives 0; to bool is x != 0; integer to
 * integer wraps. */
RLX_API rlx_value rlx_cast(rlx_graph *g, rlx_value x, rlx_dtype to);

/* ---- Matrix ---------------------------------------------------------------------------------- */

/* Activations that can be folded into a matrix product or a convolution. */
typedef enum rlx_act {
    RLX_ACT_NONE = 0, RLX_ACT_RELU, RLX_ACT_GELU, RLX_ACT_GELU_TANH, RLX_ACT_SILU,
    RLX_ACT_SIGMOID, RLX_ACT_TANH, RLX_ACT_HARD_SWISH
} rlx_act;

typedef struct rlx_matmul_desc {
    size_t struct_size;
    bool trans_b;        /* b is [.., N, K] instead of [.., K, N]; not for a rank-1 b */
    rlx_act act;         /* y = act(a.b + bias) + residual */
    bool act_last;       /* y = act(a.b + bias + residual) */
    rlx_dtype out;       /* default: the type of a, i32 for i8. Also f32 for f16 and bf16, and
                            f16 or bf16 for f32 */
} rlx_matmul_desc;
/* [.., M, K] x [.., K, N] -> [.., M, N]; batch axes broadcast. A rank-1 operand acts as in NumPy.
 * f32, f16, bf16 accumulate in f32, i8 in i32, other types in themselves. */
RLX_API rlx_value rlx_matmul(rlx_graph *g, rlx_value a, rlx_value b);
/* The same with bias? [N] and residual? (broadcast to the result) folded in; both of the type of
 * the result, or f32 when that is a float. Integers take no activation. */
RLX_API rlx_value rlx_matmul_ex(rlx_graph *g, rlx_value a, rlx_value b, rlx_value bias,
                                rlx_value residual, const rlx_matmul_desc *d);

/* Contracts and batches any axes, as XLA's DotGeneral: result is [batch.., free of a.., free of
 * b..]. */
typedef struct rlx_dot_desc {
    size_t struct_size;
    rlx_ints batch_a, batch_b, contract_a, contract_b;
} rlx_dot_desc;
RLX_API rlx_value rlx_dot_general(rlx_graph *g, rlx_value a, rlx_value b, const rlx_dot_desc *d);
/* x [.., K] . w [N, K]^T + scale * (x . down [R, K]^T) . up [N, R]^T. scale 0 means 1. */
RLX_API rlx_value rlx_lora_matmul(rlx_graph *g, rlx_value x, rlx_value w, rlx_value down,
                                  rlx_value up, double scale);
/* Row i of x [M, K] times experts[ids[i]] of [E, K, N] (or [E, N, K] when trans_b) -> [M, N].
 * ids: i32 or i64 [M]. */
RLX_API rlx_value rlx_grouped_matmul(rlx_graph *g, rlx_value x, rlx_value experts, rlx_value ids,
                                     bool trans_b);

typedef struct rlx_dequant_desc {
    size_t struct_size;
    int64_t block;  /* elements that share a scale, for the i8 and i4 schemes; default K */
    int64_t bits;   /* 8 (default: w is i8 or u8 [N, K]) or 4 (w is u8 [N, K/2], low half first) */
    rlx_act act;    /* y = act(x.w + bias) + residual; act_last as in matmul */
    bool act_last;
} rlx_dequant_desc;
/* x [.., K] times a packed weight [N, K] -> [.., N]. The weight is a block type, or f16/bf16/f32;
 * or i8/u8 with scale [N, K/block] and zero? (same shape, type of w, unpacked): (w - zero) * scale.
 * bits = 4: signed values are stored with offset 8 when zero is absent. */
RLX_API rlx_value rlx_dequant_matmul(rlx_graph *g, rlx_value x, rlx_value w);
RLX_API rlx_value rlx_dequant_matmul_ex(rlx_graph *g, rlx_value x, rlx_value w, rlx_value scale,
                                        rlx_value zero, rlx_value bias, rlx_value residual,
                                        const rlx_dequant_desc *d);
/* Row i of x [M, K] times the packed (or float) expert w[ids[i]] of [E, N, K] -> [M, N]. */
RLX_API rlx_value rlx_dequant_grouped_matmul(rlx_graph *g, rlx_value x, rlx_value w, rlx_value ids);
/* Decodes the experts `ids` [M] of a packed bank [E, N, K] -> [M, N, K] of type `to` (f32 when
 * 0). */
RLX_API rlx_value rlx_dequant_moe_weights(rlx_graph *g, rlx_value w, rlx_value ids, rlx_dtype to);

typedef struct rlx_qmatmul_desc {
    size_t struct_size;
    int64_t a_zero, b_zero, y_zero;
    rlx_dtype out; /* with `scale` i8 or u8, default that of a; without it i32 */
    bool trans_b;
} rlx_qmatmul_desc;
/* acc = sum (a - a_zero) * (b - b_zero) in i32, + bias? (i32 [N]). With scale? (f32, scalar or
 * [N]): saturate(round_half_even(acc * scale) + y_zero), the product rounded to f32. a, b: i8 or
 * u8, with the axes of matmul. */
RLX_API rlx_value rlx_qmatmul(rlx_graph *g, rlx_value a, rlx_value b, rlx_value scale,
                              rlx_value bias, const rlx_qmatmul_desc *d);

typedef struct rlx_quant_desc {
    size_t struct_size;
    int64_t axis;   /* per channel and per block: the axis of the scales */
    int64_t block;  /* elements along the axis that share a scale; 0: none */
    rlx_dtype to;   /* quantize: i8, u8 or i32, default that of zero, else i8; dequantize: f32
                       (default), f16, bf16 */
} rlx_quant_desc;
/* saturate(round_half_even(x / scale) + zero?), the quotient rounded to f32; NaN gives 0. scale:
 * scalar (per tensor), [C] along `axis`, or the shape of x with `axis` divided by `block`; zero has
 * the same shape. */
RLX_API rlx_value rlx_quantize(rlx_graph *g, rlx_value x, rlx_value scale, rlx_value zero,
                               const rlx_quant_desc *d);
/* (x - zero?) * scale for x i8, u8 or i32; with scale RLX_NONE, decodes a packed block type. */
RLX_API rlx_value rlx_dequantize(rlx_graph *g, rlx_value x, rlx_value scale, rlx_value zero,
                                 const rlx_quant_desc *d);

/* ---- Norms and softmax ----------------------------------------------------------------------- */

typedef struct rlx_norm_desc {
    size_t struct_size;
    int64_t axis;   /* layer_norm, rms_norm: first normalised axis, default the last one (0 =
                       default; use -rank to normalise all axes) */
    double eps;     /* default 1e-5 */
    int64_t groups; /* group_norm only, which needs it */
} rlx_norm_desc;
/* gamma?, beta?: the shape of the normalised axes. Statistics in f32. In all norms, weights are f32
 * or of the type of x. */
RLX_API rlx_value rlx_layer_norm(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                                 const rlx_norm_desc *d);
RLX_API rlx_value rlx_rms_norm(rlx_graph *g, rlx_value x, rlx_value gamma, const rlx_norm_desc *d);
/* The same with beta?, a bias. */
RLX_API rlx_value rlx_rms_norm_ex(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                                  const rlx_norm_desc *d);
/* Over C of [N, C, H, W], for each pixel; gamma?, beta?: [C]. */
RLX_API rlx_value rlx_layer_norm2d(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                                   const rlx_norm_desc *d);
/* [N, C, ...]; gamma?, beta?: [C]. */
RLX_API rlx_value rlx_group_norm(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                                 const rlx_norm_desc *d);
RLX_API rlx_value rlx_instance_norm(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                                    const rlx_norm_desc *d);
/* [N, C, ...]; gamma?, beta?, mean, var: [C]. */
RLX_API rlx_value rlx_batch_norm_inference(rlx_graph *g, rlx_value x, rlx_value gamma,
                                           rlx_value beta, rlx_value mean, rlx_value var,
                                           const rlx_norm_desc *d);
/* layer_norm(x) * (1 + scale) + shift over the last axis; scale, shift broadcast to x. */
RLX_API rlx_value rlx_ada_layer_norm(rlx_graph *g, rlx_value x, rlx_value scale, rlx_value shift,
                                     const rlx_norm_desc *d);
/* x + gate * y; gate broadcasts. */
RLX_API rlx_value rlx_gated_residual(rlx_graph *g, rlx_value x, rlx_value y, rlx_value gate);
/* sum = x + residual; normed = norm(sum). Over the last axis. `sum` may be NULL. beta? as above;
 * rms_norm when `rms`. */
typedef struct rlx_residual_norm_desc {
    size_t struct_size;
    bool rms;
    double eps;
} rlx_residual_norm_desc;
RLX_API rlx_value rlx_residual_norm(rlx_graph *g, rlx_value x, rlx_value residual, rlx_value gamma,
                                    rlx_value beta, const rlx_residual_norm_desc *d,
                                    rlx_value *sum);
/* silu(gate) * up; with up RLX_NONE, gate is [.., 2N]: silu(first half) * second half. */
RLX_API rlx_value rlx_swiglu(rlx_graph *g, rlx_value gate, rlx_value up);
/* A row of all -inf gives zeros (softmax) or -inf (log_softmax). */
RLX_API rlx_value rlx_softmax(rlx_graph *g, rlx_value x, int64_t axis);
RLX_API rlx_value rlx_log_softmax(rlx_graph *g, rlx_value x, int64_t axis);

/* ---- Attention and rotary embedding ---------------------------------------------------------- */

typedef enum rlx_layout { RLX_BHSD = 0, RLX_BSHD } rlx_layout;

typedef struct rlx_attention_desc {
    size_t struct_size;
    rlx_layout layout; /* of q, k, v and the result: [B, H, S, D] or [B, S, H, D] */
    double scale;      /* default 1 / sqrt(D) */
    double soft_cap;   /* c > 0: s = c * tanh(s / c) before the mask */
    bool causal;       /* query i sees keys up to i + Sk - Sq (or up to `lengths`, see below) */
    int64_t window;    /* w > 0: query p sees keys p - w < k <= p; implies causal */
    int64_t page;      /* > 0: k and v are pools [pages, page, Hkv, D] addressed through `pages` */
} rlx_attention_desc;
/* q [B,H,Sq,D], k [B,Hkv,Sk,D], v [B,Hkv,Sk,Dv] -> [B,H,Sq,Dv]; H is a multiple of Hkv.
 * mask?: bool (true = visible) or float (added), broadcastable to [B,H,Sq,Sk]. A fully masked row
 * gives zeros. k and v have the type of q, or f16 or bf16 beside an f32 q. */
RLX_API rlx_value rlx_attention(rlx_graph *g, rlx_value q, rlx_value k, rlx_value v, rlx_value mask,
                                const rlx_attention_desc *d);
/* The same with lengths? (i32 or i64, scalar or [B]: only the first lengths[b] keys exist, and
 * causal and window positions count from lengths[b] - Sq: a K/V cache that is not yet full), sinks?
 * (f32 [H]: an extra logit per head that takes part in the softmax sum only) and pages? (i32 [B,
 * n]: key j of batch b is row j % page of page pages[b, j / page]; layout is then RLX_BSHD).
 * Lengths and pages out of range are clamped and reported. `extra` may be NULL. */
RLX_API rlx_value rlx_attention_ex(rlx_graph *g, rlx_value q, rlx_value k, rlx_value v,
                                   rlx_value mask, const rlx_value extra[3],
                                   const rlx_attention_desc *d);

typedef struct rlx_ragged_attention_desc {
    size_t struct_size;
    int64_t page;    /* rows of a page of k and v; at least 1 */
    double scale;    /* default 1 / sqrt(D) */
    double soft_cap; /* c > 0: s = c * tanh(s / c) */
    int64_t window;  /* w > 0: a row sees its last w keys only */
} rlx_ragged_attention_desc;
/* Attention of rows of many sequences, in any mix, over a paged cache: q [N, H, D], k [R, Hkv, D],
 * v [R, Hkv, Dv] -> [N, H, Dv]; H is a multiple of Hkv, R of page. k and v have the type of q, f16
 * or bf16 beside an f32 q, or q8_0 or q4_0 (D and Dv then multiples of 32).
 * sequence (i32 [N]): the row of `pages` that row i reads; lengths (i32 [N]): the keys that it
 * sees, its position + 1; 0 is a padding row, which gives zeros. pages (i32 [S, P]): key j of
 * sequence s is row pages[s, j / page] * page + j % page of k and v. sinks? (f32 [H]) as in
 * rlx_attention_ex. Indices and lengths out of range are clamped and reported.
 * Under RLX_POLICY_EXACT the result of a row depends on nothing but that row and the keys it sees:
 * not on N, on the other rows, on their order or on the number of threads. */
RLX_API rlx_value rlx_ragged_attention(rlx_graph *g, rlx_value q, rlx_value k, rlx_value v,
                                       rlx_value sequence, rlx_value lengths, rlx_value pages,
                                       rlx_value sinks, const rlx_ragged_attention_desc *d);

typedef struct rlx_rope_desc {
    size_t struct_size;
    bool interleaved;  /* GPT-J pairs (2i, 2i+1); default NeoX pairs (i, i + n_rot/2) */
    int64_t n_rot;     /* rotated elements of each head, even; default the whole head */
    rlx_layout layout; /* of x: [B, H, S, D] or [B, S, H, D] */
    bool backward;     /* rotate by the negative angle */
} rlx_rope_desc;
/* x rotated by cos and sin tables [positions, n_rot/2]; positions? (i32 or i64, [S] or [B, S])
 * default 0..S-1. Elements past n_rot are copied. */
RLX_API rlx_value rlx_rope(rlx_graph *g, rlx_value x, rlx_value cos, rlx_value sin,
                           rlx_value positions, const rlx_rope_desc *d);

/* ---- Shape ----------------------------------------------------------------------------------- */

/* dims may contain -1 once (what is left over; named dimensions are other negative handles, never
 * -1). */
RLX_API rlx_value rlx_reshape(rlx_graph *g, rlx_value x, int rank, const rlx_dim *dims);
/* perm[i] is the axis of x that becomes axis i; NULL reverses the axes. */
RLX_API rlx_value rlx_transpose(rlx_graph *g, rlx_value x, const int *perm);
/* Elements start .. start + length - 1 of an axis. */
RLX_API rlx_value rlx_narrow(rlx_graph *g, rlx_value x, int64_t axis, rlx_dim start,
                             rlx_dim length);
/* NumPy's x[start:stop:step] on the given axes; step may be negative; bounds beyond the ends are
 * those of NumPy. Fixed dimensions on the sliced axes. */
typedef struct rlx_slice_desc {
    size_t struct_size;
    rlx_ints axes, starts, stops, steps;
} rlx_slice_desc;
RLX_API rlx_value rlx_slice(rlx_graph *g, rlx_value x, const rlx_slice_desc *d);
RLX_API rlx_value rlx_concat(rlx_graph *g, const rlx_value *x, size_t n, int64_t axis);
/* Cuts an axis into pieces of the given sizes; writes n values to out, returns the first. */
RLX_API rlx_value rlx_split(rlx_graph *g, rlx_value x, int64_t axis, const rlx_dim *sizes, size_t n,
                            rlx_value *out);
/* Broadcasts to the given shape as NumPy's broadcast_to. */
RLX_API rlx_value rlx_expand(rlx_graph *g, rlx_value x, int rank, const rlx_dim *dims);
/* Repeats each axis; `repeats` has one entry an axis. */
RLX_API rlx_value rlx_tile(rlx_graph *g, rlx_value x, const int64_t *repeats);
typedef enum rlx_pad_mode { RLX_PAD_CONSTANT = 0, RLX_PAD_REFLECT, RLX_PAD_EDGE, RLX_PAD_WRAP
} rlx_pad_mode;
/* before and after: one entry an axis; negative entries crop, and what is left is then padded.
 * Reflection needs more elements than it adds on a side. */
RLX_API rlx_value rlx_pad(rlx_graph *g, rlx_value x, const int64_t *before, const int64_t *after,
                          rlx_pad_mode mode, double value);
/* Turns the given axes around; n == 0 changes nothing. */
RLX_API rlx_value rlx_reverse(rlx_graph *g, rlx_value x, const int64_t *axes, size_t n);
/* NumPy's roll on one axis. */
RLX_API rlx_value rlx_roll(rlx_graph *g, rlx_value x, int64_t axis, int64_t shift);
/* Keeps the lower (or upper) triangle of the last two axes up to diagonal k, zero elsewhere. */
RLX_API rlx_value rlx_trilu(rlx_graph *g, rlx_value x, bool upper, int64_t k);
/* Conveniences over reshape. */
RLX_API rlx_value rlx_squeeze(rlx_graph *g, rlx_value x, int64_t axis);
RLX_API rlx_value rlx_unsqueeze(rlx_graph *g, rlx_value x, int64_t axis);
RLX_API rlx_value rlx_flatten(rlx_graph *g, rlx_value x, int64_t axis); /* to rank 2, cut at axis */

/* ---- Index ----------------------------------------------------------------------------------
 * Indices are i32 or i64; a negative one counts from the end. One out of range is an error when
 * the index is a constant; otherwise it is clamped and the run reports it (rlx_session_flags). */

/* Takes slices along an axis: result has the axis replaced by the shape of `index`. x may be packed
 * (axis 0, rows), then the result is f32. */
RLX_API rlx_value rlx_gather(rlx_graph *g, rlx_value x, rlx_value index, int64_t axis);
RLX_API rlx_value rlx_gather_elements(rlx_graph *g, rlx_value x, rlx_value index, int64_t axis);
RLX_API rlx_value rlx_gather_nd(rlx_graph *g, rlx_value x, rlx_value index, int64_t batch_dims);
typedef enum rlx_scatter_mode {
    RLX_SCATTER_NONE = 0, RLX_SCATTER_ADD, RLX_SCATTER_MUL, RLX_SCATTER_MIN, RLX_SCATTER_MAX
} rlx_scatter_mode;
/* A copy of x changed at the indexed places; with RLX_SCATTER_NONE the last update in row-major
 * order wins. */
RLX_API rlx_value rlx_scatter_elements(rlx_graph *g, rlx_value x, rlx_value index, rlx_value update,
                                       int64_t axis, rlx_scatter_mode mode);
RLX_API rlx_value rlx_scatter_nd(rlx_graph *g, rlx_value x, rlx_value index, rlx_value update,
                                 rlx_scatter_mode mode);
/* x[index[i], ...] += update[i, ...]: whole rows along `axis`; index is [n]. */
RLX_API rlx_value rlx_scatter_add(rlx_graph *g, rlx_value x, rlx_value index, rlx_value update,
                                  int64_t axis);

/* Writes `update` into a state along `axis` and returns the state as it is afterwards. The value
 * that named the state before must not be used by later nodes. position (i32 or i64): scalar, the
 * first place; or [L], one place for each of the L slices of update; or [B, L] with B the size of
 * axis 0 (axis > 0), the same for each batch. Places outside are skipped and reported. An update in
 * f32 for a state of f16 or bf16 is converted as rlx_cast does; else both have one type. */
RLX_API rlx_value rlx_state_write(rlx_graph *g, rlx_value state, rlx_value update,
                                  rlx_value position, int64_t axis);

/* ---- Reduce, order --------------------------------------------------------------------------- */

typedef enum rlx_reduce_kind {
    RLX_REDUCE_SUM = 0, RLX_REDUCE_MEAN, RLX_REDUCE_MAX, RLX_REDUCE_MIN, RLX_REDUCE_PROD,
    RLX_REDUCE_L1, RLX_REDUCE_L2, RLX_REDUCE_LOG_SUM, RLX_REDUCE_LOG_SUM_EXP,
    RLX_REDUCE_SUM_SQUARE, RLX_REDUCE_ANY, RLX_REDUCE_ALL
} rlx_reduce_kind;
/* n == 0 reduces all axes. any and all take and give bool; the others floats and integers (result
 * of the same type; mean of integers truncates). An empty sum is 0, prod 1, mean NaN (0 for
 * integers), max the lowest and min the highest value of the type. */
RLX_API rlx_value rlx_reduce(rlx_graph *g, rlx_reduce_kind kind, rlx_value x, const int64_t *axes,
                             size_t n, bool keepdims);
typedef struct rlx_arg_desc {
    size_t struct_size;
    int64_t axis;
    bool keepdims, last; /* last: the last of equal elements instead of the first */
    rlx_dtype out;       /* i64 (default) or i32 */
} rlx_arg_desc;
/* NaN is taken before any number, by both. */
RLX_API rlx_value rlx_argmax(rlx_graph *g, rlx_value x, const rlx_arg_desc *d);
RLX_API rlx_value rlx_argmin(rlx_graph *g, rlx_value x, const rlx_arg_desc *d);
typedef struct rlx_topk_desc {
    size_t struct_size;
    int64_t k, axis;
    bool smallest;
    rlx_dtype out; /* of the indices: i64 (default) or i32 */
} rlx_topk_desc;
/* The k largest along an axis, in order, ties to the smaller index; NaN counts as largest. Returns
 * the values, *indices their places. */
RLX_API rlx_value rlx_top_k(rlx_graph *g, rlx_value x, const rlx_topk_desc *d, rlx_value *indices);
typedef struct rlx_cum_desc {
    size_t struct_size;
    int64_t axis;
    bool exclusive, reverse;
} rlx_cum_desc;
RLX_API rlx_value rlx_cumsum(rlx_graph *g, rlx_value x, const rlx_cum_desc *d);
RLX_API rlx_value rlx_cumprod(rlx_graph *g, rlx_value x, const rlx_cum_desc *d);
RLX_API rlx_value rlx_cummax(rlx_graph *g, rlx_value x, const rlx_cum_desc *d);
typedef struct rlx_sort_desc {
    size_t struct_size;
    int64_t axis;
    bool descending;
    rlx_dtype out;
} rlx_sort_desc;
/* Stable; NaN counts as largest. argsort gives i64 (or i32 by `out`). */
RLX_API rlx_value rlx_sort(rlx_graph *g, rlx_value x, const rlx_sort_desc *d);
RLX_API rlx_value rlx_argsort(rlx_graph *g, rlx_value x, const rlx_sort_desc *d);
/* Counts (i64) of x in `bins` equal parts of [lo, hi]; the last one is closed; others are
 * ignored. */
typedef struct rlx_histogram_desc {
    size_t struct_size;
    int64_t bins;
    double lo, hi;
} rlx_histogram_desc;
RLX_API rlx_value rlx_histogram(rlx_graph *g, rlx_value x, const rlx_histogram_desc *d);
/* A new axis of size depth that is `on` at the index and `off` elsewhere. A negative index counts
 * from the end; rows whose index is outside -depth .. depth-1 are all `off`. */
typedef struct rlx_one_hot_desc {
    size_t struct_size;
    int64_t depth, axis;
    double on, off; /* both 0: 1 and 0 */
    rlx_dtype out;  /* f32 (default) or any plain type */
} rlx_one_hot_desc;
RLX_API rlx_value rlx_one_hot(rlx_graph *g, rlx_value index, const rlx_one_hot_desc *d);
/* start + i * step for i in 0..n-1; step 0 means 1; type f32 when 0. */
typedef struct rlx_range_desc {
    size_t struct_size;
    double start, step;
    rlx_dim n;
    rlx_dtype out;
} rlx_range_desc;
RLX_API rlx_value rlx_range(rlx_graph *g, const rlx_range_desc *d);
/* Places of the elements that are not zero, in row-major order: i64 [rank, elements], unused
 * columns -1; *count is an i64 scalar. */
RLX_API rlx_value rlx_nonzero(rlx_graph *g, rlx_value x, rlx_value *count);

/* ---- Convolution and vision ------------------------------------------------------------------ */

typedef struct rlx_conv_desc {
    size_t struct_size;
    rlx_ints stride, dilation; /* one entry a spatial axis; default 1 */
    rlx_ints pads;             /* begin of each axis, then end of each axis; default 0 */
    int64_t groups;            /* default 1 */
    rlx_ints output_pad;       /* conv_transpose2d only */
    rlx_act act;               /* epilogue, as in matmul */
    bool act_last;
} rlx_conv_desc;
/* x [N,C,spatial..], w [O, C/groups, kernel..] of one float type; bias? [O] and residual?, which
 * has the shape of the result, are of that type or f32. y = act(conv + bias) + residual. */
RLX_API rlx_value rlx_conv1d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value bias,
                             const rlx_conv_desc *d);
RLX_API rlx_value rlx_conv2d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value bias,
                             const rlx_conv_desc *d);
RLX_API rlx_value rlx_conv3d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value bias,
                             const rlx_conv_desc *d);
RLX_API rlx_value rlx_conv_ex(rlx_graph *g, int n_spatial, rlx_value x, rlx_value w, rlx_value bias,
                              rlx_value residual, const rlx_conv_desc *d);
/* w [C, O/groups, kh, kw]; an axis of n becomes (n - 1) * stride - pads + dilation * (k - 1) + 1 +
 * output_pad, and output_pad is less than stride or dilation. y = act(conv + bias). */
RLX_API rlx_value rlx_conv_transpose2d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value bias,
                                       const rlx_conv_desc *d);
typedef struct rlx_qconv_desc {
    size_t struct_size;
    rlx_ints stride, dilation, pads;
    int64_t groups, x_zero, w_zero, y_zero;
    rlx_dtype out; /* with `scale` i8 or u8, default that of x; without it i32 */
} rlx_qconv_desc;
/* sum (x - x_zero) * (w - w_zero) of i8 or u8 in i32, padding counts as x_zero; bias? i32 [O];
 * scale? f32 scalar or [O] requantises as in qmatmul. */
RLX_API rlx_value rlx_qconv2d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value scale,
                              rlx_value bias, const rlx_qconv_desc *d);
typedef enum rlx_pool_kind { RLX_POOL_MAX = 0, RLX_POOL_AVERAGE, RLX_POOL_LP } rlx_pool_kind;
typedef struct rlx_pool_desc {
    size_t struct_size;
    rlx_pool_kind kind;
    rlx_ints kernel; /* empty: global, over the whole of each axis */
    rlx_ints stride, dilation, pads; /* defaults 1, 1, 0 */
    bool ceil_mode, count_include_pad;
    int64_t p; /* lp norm, default 2 */
} rlx_pool_desc;
/* x [N,C,spatial..]: floats; max also i8 and u8, NaN if any element is NaN. ceil_mode counts a last
 * window that is partly past the end, if it starts inside the input or the padding before it.
 * Averages divide by the elements of the input in the window, with count_include_pad also by those
 * of the padding. lp is (sum |x|^p)^(1/p). Pads are smaller than the window; a window that sees no
 * element gives the lowest value (max) or 0. */
RLX_API rlx_value rlx_pool1d(rlx_graph *g, rlx_value x, const rlx_pool_desc *d);
RLX_API rlx_value rlx_pool2d(rlx_graph *g, rlx_value x, const rlx_pool_desc *d);
RLX_API rlx_value rlx_pool3d(rlx_graph *g, rlx_value x, const rlx_pool_desc *d);
/* [N,C,H,W] of any plain type -> [N, C*kh*kw, oh*ow], as PyTorch's unfold. */
typedef struct rlx_im2col_desc {
    size_t struct_size;
    rlx_ints kernel, stride, dilation, pads;
} rlx_im2col_desc;
RLX_API rlx_value rlx_im2col(rlx_graph *g, rlx_value x, const rlx_im2col_desc *d);
/* [N,C,H,W] of any plain type -> [N,C,2H,2W]. */
RLX_API rlx_value rlx_resize_nearest_2x(rlx_graph *g, rlx_value x);
typedef enum rlx_resize_mode { RLX_RESIZE_NEAREST = 0, RLX_RESIZE_LINEAR, RLX_RESIZE_CUBIC
} rlx_resize_mode;
typedef enum rlx_coord_mode {
    RLX_COORD_HALF_PIXEL = 0, RLX_COORD_HALF_PIXEL_SYMMETRIC, RLX_COORD_PYTORCH_HALF_PIXEL,
    RLX_COORD_ALIGN_CORNERS, RLX_COORD_ASYMMETRIC, RLX_COORD_TF_CROP_AND_RESIZE
} rlx_coord_mode;
typedef enum rlx_nearest_mode {
    RLX_NEAREST_ROUND_PREFER_FLOOR = 0, RLX_NEAREST_ROUND_PREFER_CEIL, RLX_NEAREST_FLOOR,
    RLX_NEAREST_CEIL
} rlx_nearest_mode;
typedef struct rlx_resize_desc {
    size_t struct_size;
    rlx_ints sizes;       /* of every axis of the result */
    rlx_resize_mode mode;
    rlx_coord_mode coord;
    rlx_nearest_mode nearest;
    double cubic_a;       /* default -0.75 */
    bool exclude_outside, antialias;
    double extrapolation; /* tf_crop_and_resize: value outside */
    double scale[RLX_MAX_RANK]; /* the factor used for coordinates; 0: size out / size in */
    double roi[2 * RLX_MAX_RANK]; /* tf_crop_and_resize: starts, then ends, one an axis of x; both
                                     0 mean 0 and 1 */
} rlx_resize_desc;
/* As ONNX's Resize. Floats; nearest any plain type. An axis that keeps its size (and has no scale
 * or region of its own) is left alone. */
RLX_API rlx_value rlx_resize(rlx_graph *g, rlx_value x, const rlx_resize_desc *d);

/* ---- Recurrent and state space --------------------------------------------------------------- */

typedef struct rlx_rnn_layer {
    rlx_value w_ih; /* [directions, gates*H, inputs of the layer] */
    rlx_value w_hh; /* [directions, gates*H, H] */
    rlx_value b_ih; /* ? [directions, gates*H] */
    rlx_value b_hh; /* ? [directions, gates*H] */
} rlx_rnn_layer; /* frozen */
typedef struct rlx_rnn_desc {
    size_t struct_size;
    int64_t hidden; /* default: by the shape of w_hh */
    int64_t layers; /* default 1, at most 16 */
    bool bidirectional, reverse, batch_first; /* reverse: one direction, from the end */
    bool relu;              /* rnn only: relu instead of tanh */
} rlx_rnn_desc;
/* x [S,B,I] ([B,S,I] when batch_first) -> y [S,B,dirs*H]; h0?, c0?: [layers*dirs, B, H]; *h, *c
 * (may be NULL): the last states in the same form. Gates: lstm i,f,g,o; gru r,z,n with the reset
 * gate applied after the hidden bias. init and last may be NULL. Weights have the float type of x;
 * biases and first states that or f32; last states have the type of the first, else that of x. */
RLX_API rlx_value rlx_lstm(rlx_graph *g, rlx_value x, const rlx_rnn_layer *layers,
                           const rlx_value init[2], const rlx_rnn_desc *d, rlx_value last[2]);
RLX_API rlx_value rlx_gru(rlx_graph *g, rlx_value x, const rlx_rnn_layer *layers, rlx_value h0,
                          const rlx_rnn_desc *d, rlx_value *h);
RLX_API rlx_value rlx_rnn(rlx_graph *g, rlx_value x, const rlx_rnn_layer *layers, rlx_value h0,
                          const rlx_rnn_desc *d, rlx_value *h);
/* State space models. Activations have one float type; a, dt (mamba2), skip, gate, beta and the
 * first state that or f32; the last state has the type of the first, else that of the activations.
 * Mamba: x, delta [B,S,E], a [E,N], b, c [B,S,N], skip? [E], h0? [B,E,N]:
 * h = exp(delta*a)*h + delta*b*x; y = sum_n c*h (+ skip*x). Returns y [B,S,E]; *h (may be NULL)
 * [B,E,N]. */
RLX_API rlx_value rlx_selective_scan(rlx_graph *g, const rlx_value in[7], rlx_value *h);
/* Mamba-2: x [B,S,H,P], dt [B,S,H], a [H], b, c [B,S,G,N] (H a multiple of G), skip? [H], s0?
 * [B,H,P,N]: s = exp(dt*a)*s + (dt*x) outer b; y = s c (+ skip*x). Returns y [B,S,H,P]; *s as
 * s0. */
RLX_API rlx_value rlx_mamba2(rlx_graph *g, const rlx_value in[7], rlx_value *s);
/* q, k [B,S,H,N], v [B,S,H,P], gate [B,S,H] or [B,S,H,N] (log decay), beta [B,S,H], s0? [B,H,N,P].
 * Per token: s = exp(gate)*s; d = (v - s^T k)*beta; s += k outer d; o = s^T q / sqrt(N).
 * Returns o [B,S,H,P]; *s as s0. */
RLX_API rlx_value rlx_gated_delta_net(rlx_graph *g, const rlx_value in[6], rlx_value *s);

/* ---- Spectral, signal, other ----------------------------------------------------------------- */

typedef enum rlx_fft_norm { RLX_FFT_BACKWARD = 0, RLX_FFT_FORWARD, RLX_FFT_ORTHO } rlx_fft_norm;
typedef struct rlx_fft_desc {
    size_t struct_size;
    int64_t axis;  /* of the signal; counted without the last axis of size 2 for complex input */
    int64_t n;     /* length: pads with zeros or cuts; default the axis (irfft: 2 * (bins - 1)) */
    rlx_fft_norm norm;
} rlx_fft_desc;
/* Complex tensors have a last axis of size 2 (re, im). fft, ifft: complex to complex; rfft: real to
 * n/2+1 bins; irfft: back to n real numbers. */
RLX_API rlx_value rlx_fft(rlx_graph *g, rlx_value x, const rlx_fft_desc *d);
RLX_API rlx_value rlx_ifft(rlx_graph *g, rlx_value x, const rlx_fft_desc *d);
RLX_API rlx_value rlx_rfft(rlx_graph *g, rlx_value x, const rlx_fft_desc *d);
RLX_API rlx_value rlx_irfft(rlx_graph *g, rlx_value x, const rlx_fft_desc *d);
/* x [.., T] and window? [n] -> [.., frames, n/2+1, 2], or n bins when two_sided; frames = 1 +
 * (T - n) / hop. hop 0 means n / 4. */
typedef struct rlx_stft_desc {
    size_t struct_size;
    int64_t n, hop;
    bool two_sided;
} rlx_stft_desc;
RLX_API rlx_value rlx_stft(rlx_graph *g, rlx_value x, rlx_value window, const rlx_stft_desc *d);
/* spectrum [.., frames, bins, 2], filters [mels, bins] -> [.., frames, mels]; see docs/ops.md. */
RLX_API rlx_value rlx_log_mel(rlx_graph *g, rlx_value spectrum, rlx_value filters,
                              bool peak_per_frame);
/* spectra [.., n, bins, 2] -> the k largest powers [.., k]; *indices i32 [.., k]. Fixed bins. */
RLX_API rlx_value rlx_welch_peaks(rlx_graph *g, rlx_value spectra, int64_t k, rlx_value *indices);
/* distances [n, n] -> the k nearest of each row, itself excluded: distances [n, k]; *indices
 * i32. */
RLX_API rlx_value rlx_knn(rlx_graph *g, rlx_value distances, int64_t k, rlx_value *indices);
typedef struct rlx_gate_desc {
    size_t struct_size;
    int64_t groups, keep_groups, k;
    double scale;
} rlx_gate_desc;
/* scores [rows, experts] -> weights [rows, k]; *indices i32 [rows, k], larger score first. groups 0
 * means 1, keep_groups 0 all of them, scale 0 means 1. */
RLX_API rlx_value rlx_group_limited_gate(rlx_graph *g, rlx_value scores, const rlx_gate_desc *d,
                                         rlx_value *indices);
typedef struct rlx_random_desc {
    size_t struct_size;
    rlx_ints shape;    /* of the result; may hold named dimensions */
    int64_t seed;      /* used when the seed operand is RLX_NONE */
    double lo, hi;     /* uniform: [lo, hi); both 0: [0, 1). normal: mean lo, deviation hi (0: 1) */
    rlx_dtype out;     /* f32 (default), f16, bf16 */
} rlx_random_desc;
/* Philox4x32-10: key from the seed (seed?: i64 or i32 scalar, so that it can change for each run),
 * counter from the element's index. The same bits on every device (normal: within 1e-5). */
RLX_API rlx_value rlx_random_uniform(rlx_graph *g, rlx_value seed, const rlx_random_desc *d);
RLX_API rlx_value rlx_random_normal(rlx_graph *g, rlx_value seed, const rlx_random_desc *d);
typedef struct rlx_sample_desc {
    size_t struct_size;
    double temperature; /* 0: greedy */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 or 1: all */
    double min_p;
    int64_t seed;
} rlx_sample_desc;
/* logits [.., V] -> token ids i32 [..]. seed?: i32 or i64 scalar. params?: f32 [4] = temperature,
 * top_k, top_p, min_p, which then replace those of the descriptor. For logits [B, V] each row may
 * have its own: seed [B], params [B, 4]. With a seed of its own the token of a row depends on
 * nothing else in the batch, not even on which row it is. */
RLX_API rlx_value rlx_sample(rlx_graph *g, rlx_value logits, rlx_value seed, rlx_value params,
                             const rlx_sample_desc *d);

#ifdef __cplusplus
}
#endif
#endif
