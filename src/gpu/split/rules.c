/* SPDX-License-Identifier: MIT */
/* How steps may be split: for each lowering function a rule that says which axes of the operands
 * correspond to an axis of the first result. A rule is called with all axes at -1 (needed
 * whole). */
#include "gpu/select/attention.h"
#include "gpu/split/rules.h"

static int64_t axis_of(const rx_gpu_call *c) { return ((const rx_axis_attr *)c->attr)->axis; }

/* ---- Building blocks ------------------------------------------------------------------------- */

/* Operand i, broadcast to `rank` axes, along axis a of those. */
static void cut_broadcast(const rx_gpu_call *c, size_t i, int rank, int a, rx_split_cut *cut)
{
    const rx_view *v = rx_gpu_in(c, i);
    int own = v ? a - (rank - v->rank) : -1;
    if (own >= 0 && v->dim[own] > 1)
        cut->axis[i] = own;
}

/* Operand i along its axis `own`, when it is present and has one. */
static void cut_own(const rx_gpu_call *c, size_t i, int own, rx_split_cut *cut)
{
    const rx_view *v = rx_gpu_in(c, i);
    if (v && own < v->rank && v->dim[own] > 1)
        cut->axis[i] = own;
}

static void cut_results(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    for (size_t i = 0; i < c->n_out; i++)
        if (c->out[i].rank > a)
            cut->axis[c->n_in + i] = a;
}

/* All operands broadcast to the result (elementwise). */
static bool each_element(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    for (size_t i = 0; i < c->n_in; i++)
        cut_broadcast(c, i, c->out[0].rank, a, cut);
    cut_results(c, a, cut);
    return true;
}

static bool first_operand(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut_own(c, 0, a, cut);
    cut_results(c, a, cut);
    return true;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static bool other_axes(const rx_gpu_call *c, int a, int64_t axis, rx_split_cut *cut)
{
    return a != axis && each_element(c, a, cut);
}

static bool softmax(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return other_axes(c, a, axis_of(c), cut);
}

static bool norm(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    int64_t axis = ((const rlx_norm_desc *)c->attr)->axis;
    return a < (axis < 0 ? axis + c->in[0].rank : axis) && first_operand(c, a, cut);
}

static bool last_axis(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return a < c->out[0].rank - 1 && each_element(c, a, cut);
}

/* [N, C, ...]: statistics per channel, per group of channels, or per pixel. */
static bool channel_norm(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    if (a == 1 && c->op != RX_OP_layer_norm2d) {
        const int64_t groups = ((const rlx_norm_desc *)c->attr)->groups;
        if (c->op == RX_OP_group_norm) {
            cut->multiple = c->in[0].dim[1] / (groups ? groups : 1);
            cut->adjusts = true;
        }
        cut_own(c, 1, 0, cut);
        cut_own(c, 2, 0, cut);
        return first_operand(c, a, cut);
    }
    return (a == 0 || (a > 1 && c->op == RX_OP_layer_norm2d)) && first_operand(c, a, cut);
}

static bool cumulate(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return other_axes(c, a, ((const rlx_cum_desc *)c->attr)->axis, cut);
}

static bool sort(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return other_axes(c, a, ((const rlx_sort_desc *)c->attr)->axis, cut);
}

static bool top_k(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return a != ((const rlx_topk_desc *)c->attr)->axis && first_operand(c, a, cut);
}

static bool is_outermost(const rx_view *v, int a)
{
    for (int i = 0; i < a; i++)
        if (v->dim[i] > 1)
            return false;
    return true;
}

/* Rows, whose index the kernel uses. */
static bool rows(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->counts = c->in[0].stride[a] / c->in[0].dim[c->in[0].rank - 1];
    return a < c->in[0].rank - 1 && is_outermost(&c->in[0], a) && first_operand(c, a, cut);
}

/* The same, with seeds and parameters per row. */
static bool sample(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    if (rx_gpu_in(c, 1) && c->in[1].rank == 1)
        cut_own(c, 1, 0, cut);
    if (rx_gpu_in(c, 2) && c->in[2].rank == 2)
        cut_own(c, 2, 0, cut);
    return rows(c, a, cut);
}

/* Elements, whose index the kernel uses, in multiples of four. */
static bool random_elements(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->counts = c->out[0].stride[a];
    cut->multiple = cut->counts % 4 == 0 ? 1 : cut->counts % 2 == 0 ? 2 : 4;
    cut_results(c, a, cut);
    return is_outermost(&c->out[0], a);
}

/* Axis a of the result of a reduction as an axis of its operand. */
static int unreduced(const rx_gpu_call *c, const bool *reduced, bool keepdims, int a)
{
    if (keepdims)
        return reduced[a] ? -1 : a;
    for (int i = 0; i < c->in[0].rank; i++)
        if (!reduced[i] && a-- == 0)
            return i;
    return -1;
}

static bool cut_reduced(const rx_gpu_call *c, const bool *reduced, bool keepdims, int a,
                        rx_split_cut *cut)
{
    int own = unreduced(c, reduced, keepdims, a);
    cut->axis[0] = own;
    cut_results(c, a, cut);
    return own >= 0;
}

static bool reduce(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const rx_reduce_attr *d = c->attr;
    bool reduced[RLX_MAX_RANK] = {false};
    for (int64_t i = 0; i < d->axes.n; i++)
        if (d->axes.v[i] >= 0 && d->axes.v[i] < RLX_MAX_RANK)
            reduced[d->axes.v[i]] = true;
    return d->axes.n > 0 && cut_reduced(c, reduced, d->keepdims, a, cut);
}

static bool arg(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const rlx_arg_desc *d = c->attr;
    bool reduced[RLX_MAX_RANK] = {false};
    reduced[d->axis] = true;
    return cut_reduced(c, reduced, d->keepdims, a, cut);
}

/* Complex tensors have a last axis of real and imaginary part, which is never cut. */
static bool fourier(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const int rank = c->in[0].rank - (c->op != RX_OP_rfft);
    return a != ((const rlx_fft_desc *)c->attr)->axis && a < rank && first_operand(c, a, cut);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* a [.., M, K], b [.., K, N] or [.., N, K], results [.., M, N]; a or b may be a vector. */
static bool cut_product(const rx_gpu_call *c, bool trans_b, int a, rx_split_cut *cut)
{
    const rx_view *x = &c->in[0], *w = &c->in[1];
    const int rank = c->out[0].rank, n_rows = x->rank > 1, n_columns = w->rank > 1;
    const int batch = rank - n_rows - n_columns;
    cut_results(c, a, cut);
    if (a < batch) {
        int x_own = a - (batch - (x->rank - 2)), w_own = a - (batch - (w->rank - 2));
        if (x->rank > 2 && x_own >= 0 && x->dim[x_own] > 1)
            cut->axis[0] = x_own;
        if (w->rank > 2 && w_own >= 0 && w->dim[w_own] > 1)
            cut->axis[1] = w_own;
        return true;
    }
    if (n_rows && a == batch)
        cut->axis[0] = x->rank - 2;
    else
        cut->axis[1] = w->rank - (trans_b ? 2 : 1);
    return true;
}

static bool is_column(const rx_gpu_call *c, int a)
{
    return c->in[1].rank > 1 && a == c->out[0].rank - 1;
}

static bool matmul(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    if (is_column(c, a))
        cut_own(c, 2, 0, cut);
    cut_broadcast(c, 3, c->out[0].rank, a, cut);
    return cut_product(c, ((const rlx_matmul_desc *)c->attr)->trans_b, a, cut);
}

static bool qmatmul(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    for (size_t i = 2; i < 4 && is_column(c, a); i++)
        cut_own(c, i, 0, cut);
    return cut_product(c, ((const rlx_qmatmul_desc *)c->attr)->trans_b, a, cut);
}

/* x [.., K], w [N, K], scale and zero [N, ..], bias [N], residual. */
static bool dequant_matmul(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut_results(c, a, cut);
    cut_broadcast(c, 5, c->out[0].rank, a, cut);
    if (a < c->out[0].rank - 1) {
        cut_own(c, 0, a, cut);
        return true;
    }
    for (size_t i = 1; i < 5; i++)
        cut_own(c, i, 0, cut);
    return true;
}

/* x [M, K], experts [E, K, N] or [E, N, K], ids [M]. */
static bool cut_experts(const rx_gpu_call *c, int n_axis, int a, rx_split_cut *cut)
{
    cut_results(c, a, cut);
    if (a == 0) {
        cut_own(c, 0, 0, cut);
        cut_own(c, 2, 0, cut);
    } else {
        cut_own(c, 1, n_axis, cut);
    }
    return true;
}

static bool grouped(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return cut_experts(c, ((const rx_grouped_attr *)c->attr)->trans_b ? 1 : 2, a, cut);
}

static bool dequant_grouped(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return cut_experts(c, 1, a, cut);
}

static bool dequant_experts(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    if (a > 0)
        return false;
    cut_own(c, 1, 0, cut);
    cut_results(c, a, cut);
    return true;
}

/* Scales are a scalar, one per index of an axis, or of the rank of x. */
static bool quantise(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const rlx_quant_desc *d = c->attr;
    const rx_view *scale = rx_gpu_in(c, 1);
    if (!scale)
        return a < c->out[0].rank - 1 && first_operand(c, a, cut);
    if (a == d->axis && d->block)
        return false;
    for (size_t i = 1; i < 3; i++)
        if (d->block || a == d->axis)
            cut_own(c, i, d->block ? a : 0, cut);
    return first_operand(c, a, cut);
}

/* ---- Attention ------------------------------------------------------------------------------- */

#ifndef __wasm__ /* as in gpu/ops.def */
/* Rows, heads, columns of the values. */
static bool ragged_attention(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut_results(c, a, cut);
    if (a == 2) {
        cut->axis[RX_ATTN_V] = 2;
        return !rlx_dtype_is_packed(c->in[RX_ATTN_V].dtype);
    }
    cut->axis[RX_ATTN_Q] = a;
    if (a == 0) {
        cut_own(c, RX_RAGGED_TABLE, 0, cut);
        cut_own(c, RX_RAGGED_LENGTHS, 0, cut);
        return true;
    }
    cut_own(c, RX_RAGGED_SINKS, 0, cut);
    for (size_t i = RX_ATTN_K; i <= RX_ATTN_V; i++) {
        cut_own(c, i, 1, cut);
        cut->unit[i] = c->in[RX_ATTN_Q].dim[1] / c->in[i].dim[1];
    }
    return true;
}
#endif

static bool attention(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const rlx_attention_desc *d = c->attr;
    const bool bhsd = d->layout == RLX_BHSD;
    const int head = bhsd ? 1 : 2, seq = bhsd ? 2 : 1;
    const int mask_axis = a == head ? 1 : a == seq ? 2 : 0;
    if (c->keys)
        return false;
    if (a == 3) { /* columns of the values */
        cut->axis[RX_ATTN_V] = 3;
        cut_results(c, a, cut);
        return true;
    }
    cut->counts = a == seq;
    cut->axis[RX_ATTN_Q] = a;
    cut_results(c, a, cut);
    cut_broadcast(c, RX_ATTN_MASK, 4, mask_axis, cut);
    if (a == seq)
        return true;
    if (a == head) {
        cut_own(c, RX_ATTN_SINKS, 0, cut);
    } else {
        cut_own(c, RX_ATTN_LENGTHS, 0, cut);
        cut_own(c, RX_ATTN_PAGES, 0, cut);
    }
    for (size_t i = RX_ATTN_K; i <= RX_ATTN_V && (a == head || !d->page); i++) {
        cut_own(c, i, a, cut);
        if (a == head)
            cut->unit[i] = c->in[RX_ATTN_Q].dim[head] / c->in[i].dim[head];
    }
    return true;
}

/* x, cos, sin [places, ..], positions [S] or [B, S]. */
static bool rope(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const int seq = ((const rlx_rope_desc *)c->attr)->layout == RLX_BHSD ? 2 : 1;
    const rx_view *at = rx_gpu_in(c, 3);
    if (a > 2)
        return false;
    if (a == seq && !at)
        cut->axis[1] = cut->axis[2] = 0; /* row i of the tables is for position i */
    else if (a == seq)
        cut_own(c, 3, at->rank - 1, cut);
    else if (a == 0 && at && at->rank == 2)
        cut_own(c, 3, 0, cut);
    return first_operand(c, a, cut);
}

/* ---- Shape and index ------------------------------------------------------------------------- */

static bool concat(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return a < axis_of(c) && each_element(c, a, cut);
}

static bool pad(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const rx_pad_attr *d = c->attr;
    const int64_t before = d->before.v[a], after = d->after.v[a];
    if (!before && !after)
        return first_operand(c, a, cut);
    cut_results(c, a, cut); /* only the constant */
    cut->adjusts = true;
    return d->mode == RLX_PAD_CONSTANT && after < 0 && c->in[0].dim[a] + after == 0;
}

/* Rows of a matrix have different diagonals. */
static bool trilu(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->adjusts = a == c->out[0].rank - 2;
    return a < c->out[0].rank - 1 && first_operand(c, a, cut);
}

static bool range(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->adjusts = true;
    cut_results(c, a, cut);
    return true;
}

/* The axes of the index replace the gathered axis. */
static bool gather(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const int axis = (int)axis_of(c), n = c->in[1].rank;
    cut_results(c, a, cut);
    if (a < axis)
        cut->axis[0] = a;
    else if (a < axis + n)
        cut->axis[1] = a - axis;
    else
        return false;
    return true;
}

static bool gather_nd(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const int64_t batch = ((const rx_gather_nd_attr *)c->attr)->batch_dims;
    if (a >= c->in[1].rank - 1)
        return false;
    cut->axis[1] = a;
    if (a < batch)
        cut->axis[0] = a;
    cut_results(c, a, cut);
    return true;
}

static bool gather_elements(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->axis[0] = cut->axis[1] = a;
    cut_results(c, a, cut);
    return a != axis_of(c) && c->in[0].dim[a] == c->in[1].dim[a];
}

static bool scatter_elements(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->axis[0] = cut->axis[1] = cut->axis[2] = a;
    cut_results(c, a, cut);
    return a != ((const rx_scatter_attr *)c->attr)->axis && c->in[0].dim[a] == c->in[1].dim[a];
}

static bool scatter_nd(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const int last = c->in[1].rank - 1, k = (int)c->in[1].dim[last];
    cut->axis[0] = a;
    cut->axis[2] = a - k + last;
    cut_results(c, a, cut);
    return a >= k;
}

static bool scatter_add(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->axis[0] = cut->axis[2] = a;
    cut_results(c, a, cut);
    return a != axis_of(c);
}

/* The state and the result share memory. */
static bool state_write(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->in_place = true;
    cut->axis[0] = cut->axis[1] = a;
    if (a == 0 && c->in[2].rank == 2)
        cut->axis[2] = 0;
    cut_results(c, a, cut);
    return a != axis_of(c);
}

static bool one_hot(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const int64_t axis = ((const rlx_one_hot_desc *)c->attr)->axis;
    cut->axis[0] = a < axis ? a : a - 1;
    cut_results(c, a, cut);
    return a != axis;
}

/* ---- Recurrent and state space --------------------------------------------------------------- */

static void cut_operands(const rx_gpu_call *c, uint32_t operands, int own, rx_split_cut *cut)
{
    for (size_t i = 0; i < c->n_in; i++)
        if (operands >> i & 1 && rx_gpu_in(c, i))
            cut->axis[i] = own;
}

/* x and y [S, B, ..] or [B, S, ..], states [.., B, H]. */
static bool network(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const bool first = ((const rlx_rnn_desc *)c->attr)->batch_first;
    cut_operands(c, c->op == RX_OP_lstm ? 6 : 2, 1, cut);
    cut_results(c, 1, cut);
    cut->axis[0] = cut->axis[c->n_in] = a;
    return a == (first ? 0 : 1);
}

/* x, delta [B, S, E], a [E, N], b, c [B, S, N], skip [E], first state [B, E, N]; y, last state. */
static bool selective_scan(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut_results(c, a == 2 ? 1 : a, cut);
    cut->axis[c->n_in] = a;
    cut_operands(c, a == 0 ? 0x5b : 3, a, cut);
    if (a == 2) {
        cut_operands(c, 0x24, 0, cut);
        cut_operands(c, 0x40, 1, cut);
    }
    return a != 1;
}

/* x [B, S, H, P], dt [B, S, H], a [H], b, c [B, S, G, N], skip [H], first state [B, H, P, N]. */
static bool mamba2(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const int64_t groups = c->in[3].dim[2];
    if (!selective_scan(c, a, cut) || a > 2)
        return false;
    for (size_t i = 3; i < 5 && a == 2 && groups > 1; i++) {
        cut->axis[i] = 2;
        cut->unit[i] = c->in[0].dim[2] / groups;
    }
    return true;
}

/* q, k [B, S, H, N], v [B, S, H, P], gate, beta [B, S, H, ..], first state [B, H, N, P]. */
static bool delta_net(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut_results(c, a == 2 ? 1 : a, cut);
    cut->axis[c->n_in] = a;
    cut_operands(c, 0x1f, a, cut);
    cut_operands(c, 0x20, a == 2 ? 1 : a, cut);
    return a == 0 || a == 2;
}

/* ---- Images ---------------------------------------------------------------------------------- */

static bool planes(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    return a < 2 && c->in[0].dim[a] == c->out[0].dim[a] && first_operand(c, a, cut);
}

/* ---- Attributes of parts --------------------------------------------------------------------- */

void rx_split_adjust(const rx_split_cut *cut, const rx_gpu_call *c, void *attr, int64_t first,
                     int64_t length)
{
    if (c->op == RX_OP_group_norm) {
        rlx_norm_desc *d = attr;
        d->groups = d->groups * length / c->out[0].dim[1];
    } else if (c->op == RX_OP_trilu) {
        ((rx_trilu_attr *)attr)->k += first;
    } else if (c->op == RX_OP_range) {
        rlx_range_desc *d = attr;
        d->start += (double)first * (d->step != 0 ? d->step : 1);
    } else if (c->op == RX_OP_pad) {
        ((rx_pad_attr *)attr)->before.v[cut->axis[c->n_in]] = length;
    } else {
        rx_split_adjust_conv(cut, c, attr, first, length);
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

static const struct {
    rx_gpu_lower_fn *lower;
    rx_split_rule_fn *fn;
    bool exact; /* kernels write from the first byte of a binding on */
} rules[] = {
    {rx_gpu_lower_region, each_element, false},
    {rx_gpu_lower_copy, each_element, false},
    {rx_gpu_lower_softmax, softmax, true},
    {rx_gpu_lower_layer_norm, norm, true},
    {rx_gpu_lower_channel_norm, channel_norm, true},
    {rx_gpu_lower_ada_layer_norm, last_axis, true},
    {rx_gpu_lower_residual_norm, last_axis, true},
    {rx_gpu_lower_reduce, reduce, false},
    {rx_gpu_lower_arg, arg, false},
    {rx_gpu_lower_cum, cumulate, false},
    {rx_gpu_lower_sort, sort, false},
    {rx_gpu_lower_top_k, top_k, false},
    {rx_gpu_lower_sample, sample, true},
    {rx_gpu_lower_knn, rows, false},
    {rx_gpu_lower_random_uniform, random_elements, true},
    {rx_gpu_lower_random_normal, random_elements, true},
    {rx_gpu_lower_group_limited_gate, rows, false},
    {rx_gpu_lower_fft, fourier, true},
    {rx_gpu_lower_ifft, fourier, true},
    {rx_gpu_lower_rfft, fourier, true},
    {rx_gpu_lower_irfft, fourier, true},
    {rx_gpu_lower_matmul, matmul, false},
    {rx_gpu_lower_qmatmul, qmatmul, false},
    {rx_gpu_lower_grouped_matmul, grouped, false},
    {rx_gpu_lower_dequant_matmul, dequant_matmul, false},
    {rx_gpu_lower_dequant_grouped_matmul, dequant_grouped, false},
    {rx_gpu_lower_dequant_moe_weights, dequant_experts, false},
    {rx_gpu_lower_quantize, quantise, false},
    {rx_gpu_lower_dequantize, quantise, false},
    {rx_gpu_lower_attention, attention, false},
#ifndef __wasm__ /* as in gpu/ops.def */
    {rx_gpu_lower_ragged_attention, ragged_attention, false},
#endif
    {rx_gpu_lower_rope, rope, false},
    {rx_gpu_lower_concat, concat, true},
    {rx_gpu_lower_pad, pad, true},
    {rx_gpu_lower_trilu, trilu, true},
    {rx_gpu_lower_range, range, false},
    {rx_gpu_lower_gather, gather, true},
    {rx_gpu_lower_gather_nd, gather_nd, true},
    {rx_gpu_lower_gather_elements, gather_elements, true},
    {rx_gpu_lower_scatter_elements, scatter_elements, true},
    {rx_gpu_lower_scatter_nd, scatter_nd, true},
    {rx_gpu_lower_scatter_add, scatter_add, true},
    {rx_gpu_lower_state_write, state_write, true},
    {rx_gpu_lower_one_hot, one_hot, false},
    {rx_gpu_lower_conv, rx_split_rule_conv, false},
    {rx_gpu_lower_conv_transpose2d, rx_split_rule_conv, false},
    {rx_gpu_lower_qconv2d, rx_split_rule_qconv, false},
    {rx_gpu_lower_im2col, rx_split_rule_im2col, false},
    {rx_gpu_lower_pool, rx_split_rule_pool, false},
    {rx_gpu_lower_resize, planes, false},
    {rx_gpu_lower_lstm, network, false},
    {rx_gpu_lower_gru, network, false},
    {rx_gpu_lower_rnn, network, false},
    {rx_gpu_lower_selective_scan, selective_scan, false},
    {rx_gpu_lower_mamba2, mamba2, false},
    {rx_gpu_lower_gated_delta_net, delta_net, false},
};

bool rx_split_is_exact(rx_op op)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].lower == rx_gpu_ops[op].lower)
            return rules[i].exact;
    return true;
}

bool rx_split_rule(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].lower == rx_gpu_ops[c->op].lower)
            return rules[i].fn(c, a, cut);
    return false;
}
