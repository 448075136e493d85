/* SPDX-License-Identifier: MIT */
/* Cost model: floating-point operations of a node by family or operation, and the bytes that a
 * kernel must at least read and write, both at the bounds of the named dimensions. For reports and
 * for choosing a device, so within a small factor is enough. */
#include <math.h>

#include "base/dtype.h"
#include "compile/plan.h"

static double elements(const rlx_graph *g, uint32_t id)
{
    int64_t n;
    return id && rx_shape_elements(g, &g->values[id].shape, &n) ? (double)n : 0;
}

static double bytes_of(const rlx_graph *g, uint32_t id)
{
    rlx_dtype t = g->values[id].dtype;
    return id ? elements(g, id) / (double)rlx_dtype_block_size(t) * (double)rlx_dtype_block_bytes(t)
              : 0;
}

/* Dimension `axis` of an operand, counted from the end when negative. */
static double dim(const rlx_graph *g, uint32_t id, int axis)
{
    const rlx_shape *s = &g->values[id].shape;
    int i = axis < 0 ? s->rank + axis : axis;
    return i >= 0 && i < s->rank ? (double)rx_dim_bound(g, s->dim[i]) : 1;
}

static double operand_elements(const rlx_graph *g, const rx_node *n, uint32_t first)
{
    double sum = 0;
    for (uint32_t i = first; i < n->n_in; i++)
        sum += elements(g, n->in[i]);
    return sum;
}

/* ---- Floating-point operations --------------------------------------------------------------- */

typedef double cost_fn(const rlx_graph *g, const rx_node *n);

static double no_flops(const rlx_graph *g, const rx_node *n)
{
    (void)g;
    (void)n;
    return 0;
}

static double one_per_result(const rlx_graph *g, const rx_node *n)
{
    return elements(g, n->first_out);
}

static double one_per_operand(const rlx_graph *g, const rx_node *n)
{
    return elements(g, n->in[0]);
}

static double region_flops(const rlx_graph *g, const rx_node *n)
{
    return elements(g, n->first_out) * ((const rx_region *)n->attr)->n_instr;
}

static double norm_flops(const rlx_graph *g, const rx_node *n)
{
    return 6 * elements(g, n->first_out);
}

/* x [.., k] times w [k, n]. */
static double product_flops(const rlx_graph *g, const rx_node *n)
{
    return 2 * elements(g, n->first_out) * dim(g, n->in[0], -1);
}

static double scale_flops(const rlx_graph *g, const rx_node *n)
{
    return 2 * elements(g, n->first_out);
}

static double attention_flops(const rlx_graph *g, const rx_node *n)
{
    const rlx_attention_desc *d = n->attr;
    double keys = dim(g, n->in[1], d->layout == RLX_BHSD ? 2 : 1);
    if (d->page && n->n_in > 6 && n->in[6])
        keys = dim(g, n->in[6], 1) * (double)d->page;
    return 2 * keys * (elements(g, n->in[0]) + elements(g, n->first_out));
}

/* Assumes that every row sees as many keys as a page table row holds. */
static double ragged_attention_flops(const rlx_graph *g, const rx_node *n)
{
    const rlx_ragged_attention_desc *d = n->attr;
    const double keys = dim(g, n->in[5], 1) * (double)d->page;
    return 2 * keys * (elements(g, n->in[0]) + elements(g, n->first_out));
}

/* Per element of rotated pairs. */
static double rotation_flops(const rlx_graph *g, const rx_node *n)
{
    return 3 * elements(g, n->first_out);
}

static double sort_flops(const rlx_graph *g, const rx_node *n)
{
    double in = elements(g, n->n_in ? n->in[0] : n->first_out);
    return in * log2(fmax(2, in));
}

/* Weights are [channels out, ...]. */
static double conv_flops(const rlx_graph *g, const rx_node *n)
{
    return 2 * elements(g, n->first_out) * elements(g, n->in[1]) / fmax(1, dim(g, n->in[1], 0));
}

static double conv_transpose_flops(const rlx_graph *g, const rx_node *n)
{
    return 2 * elements(g, n->in[0]) * elements(g, n->in[1]) / fmax(1, dim(g, n->in[1], 0));
}

static double pool_flops(const rlx_graph *g, const rx_node *n)
{
    return fmax(elements(g, n->first_out), elements(g, n->in[0]));
}

static double resize_flops(const rlx_graph *g, const rx_node *n)
{
    return 8 * elements(g, n->first_out);
}

/* Each row of x is multiplied with all weights. */
static double recurrent_flops(const rlx_graph *g, const rx_node *n)
{
    double rows = elements(g, n->in[0]) / fmax(1, dim(g, n->in[0], -1));
    return 2 * rows * operand_elements(g, n, 3);
}

static double selective_scan_flops(const rlx_graph *g, const rx_node *n)
{
    return 9 * elements(g, n->in[0]) * dim(g, n->in[2], -1);
}

static double mamba2_flops(const rlx_graph *g, const rx_node *n)
{
    return 6 * elements(g, n->in[0]) * dim(g, n->in[3], -1);
}

static double delta_net_flops(const rlx_graph *g, const rx_node *n)
{
    return 8 * elements(g, n->in[0]) * dim(g, n->in[2], -1);
}

static double signal_flops(const rlx_graph *g, const rx_node *n)
{
    return 4 * elements(g, n->in[0]);
}

static double log_mel_flops(const rlx_graph *g, const rx_node *n)
{
    return 2 * elements(g, n->first_out) * dim(g, n->in[1], 1) + 2 * elements(g, n->in[0]);
}

static double fft_flops(const rlx_graph *g, const rx_node *n)
{
    const rlx_fft_desc *d = n->attr;
    return 2.5 * elements(g, n->in[0]) * log2(fmax(2, (double)d->n));
}

static double stft_flops(const rlx_graph *g, const rx_node *n)
{
    return 2.5 * elements(g, n->first_out) * log2(fmax(2, dim(g, n->first_out, -2)));
}

static double random_flops(const rlx_graph *g, const rx_node *n)
{
    return 20 * elements(g, n->first_out);
}

static cost_fn *const family_flops[] = {
    [RX_FAMILY_leaf] = no_flops,
    [RX_FAMILY_unary] = one_per_result,
    [RX_FAMILY_binary] = one_per_result,
    [RX_FAMILY_compare] = one_per_result,
    [RX_FAMILY_select] = one_per_result,
    [RX_FAMILY_region] = region_flops,
    [RX_FAMILY_matrix] = product_flops,
    [RX_FAMILY_norm] = norm_flops,
    [RX_FAMILY_attention] = rotation_flops,
    [RX_FAMILY_shape] = no_flops,
    [RX_FAMILY_index] = no_flops,
    [RX_FAMILY_reduce] = one_per_operand,
    [RX_FAMILY_order] = sort_flops,
    [RX_FAMILY_conv] = resize_flops,
    [RX_FAMILY_recurrent] = recurrent_flops,
    [RX_FAMILY_signal] = signal_flops,
    [RX_FAMILY_random] = random_flops,
    [RX_FAMILY_custom] = one_per_result,
};

/* Operations whose work is not that of their family. */
static cost_fn *const op_flops[RX_N_OPS] = {
    [RX_OP_quantize] = scale_flops,
    [RX_OP_dequantize] = scale_flops,
    [RX_OP_dequant_moe_weights] = scale_flops,
    [RX_OP_attention] = attention_flops,
    [RX_OP_ragged_attention] = ragged_attention_flops,
    [RX_OP_conv1d] = conv_flops,
    [RX_OP_conv2d] = conv_flops,
    [RX_OP_conv3d] = conv_flops,
    [RX_OP_qconv2d] = conv_flops,
    [RX_OP_conv_transpose2d] = conv_transpose_flops,
    [RX_OP_pool1d] = pool_flops,
    [RX_OP_pool2d] = pool_flops,
    [RX_OP_pool3d] = pool_flops,
    [RX_OP_im2col] = no_flops,
    [RX_OP_resize_nearest_2x] = no_flops,
    [RX_OP_selective_scan] = selective_scan_flops,
    [RX_OP_mamba2] = mamba2_flops,
    [RX_OP_gated_delta_net] = delta_net_flops,
    [RX_OP_log_mel] = log_mel_flops,
    [RX_OP_fft] = fft_flops,
    [RX_OP_ifft] = fft_flops,
    [RX_OP_rfft] = fft_flops,
    [RX_OP_irfft] = fft_flops,
    [RX_OP_stft] = stft_flops,
};

/* ---- Bytes read and written ------------------------------------------------------------------ */

/* A copied view reads as much as it writes, not its whole operand. */
static double copy_traffic(const rlx_graph *g, const rx_node *n)
{
    return 2 * bytes_of(g, n->first_out);
}

static double gather_traffic(const rlx_graph *g, const rx_node *n)
{
    return 2 * bytes_of(g, n->first_out) + bytes_of(g, n->in[1]);
}

static double state_write_traffic(const rlx_graph *g, const rx_node *n)
{
    return 2 * bytes_of(g, n->in[1]) + bytes_of(g, n->in[2]);
}

static double all_traffic(const rlx_graph *g, const rx_node *n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n->n_in; i++)
        sum += bytes_of(g, n->in[i]);
    for (uint32_t i = 0; i < n->n_out; i++)
        sum += bytes_of(g, n->first_out + i);
    return sum;
}

/* Operations that read only the indexed elements of an operand. */
static cost_fn *const op_traffic[RX_N_OPS] = {
    [RX_OP_state_write] = state_write_traffic,
    [RX_OP_gather] = gather_traffic,
    [RX_OP_gather_elements] = gather_traffic,
    [RX_OP_gather_nd] = gather_traffic,
};

void rx_cost(const rlx_graph *g, const rx_node *n, double *flops, double *bytes)
{
    const rx_op_info *op = &rx_ops[n->op];
    cost_fn *work = op_flops[n->op], *traffic = op_traffic[n->op];
    if (!work)
        work = family_flops[op->family];
    if (!traffic)
        traffic = op->flags & RX_OP_VIEW ? copy_traffic : all_traffic;
    *flops = work(g, n);
    *bytes = traffic(g, n);
}
