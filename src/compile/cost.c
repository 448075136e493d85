/* SPDX-License-Identifier: MIT */
/* Work and traffic of nodes: floating-point operations by family, and bytes that a kernel must at
 * least read and write, both at the bounds of the named dimensions. For reports and for choosing,
 * so within a small factor is enough. */
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

static double attention_flops(const rlx_graph *g, const rx_node *n)
{
    const rlx_attention_desc *d = n->attr;
    double keys = dim(g, n->in[1], d->layout == RLX_BHSD ? 2 : 1);
    if (d->page && n->n_in > 6 && n->in[6])
        keys = dim(g, n->in[6], 1) * (double)d->page;
    return 2 * keys * (elements(g, n->in[0]) + elements(g, n->first_out));
}

static double conv_flops(const rlx_graph *g, const rx_node *n)
{
    double out = elements(g, n->first_out);
    switch (n->op) {
    case RX_OP_conv1d:
    case RX_OP_conv2d:
    case RX_OP_conv3d:
    case RX_OP_qconv2d: return 2 * out * elements(g, n->in[1]) / fmax(1, dim(g, n->in[1], 0));
    case RX_OP_conv_transpose2d:
        return 2 * elements(g, n->in[0]) * elements(g, n->in[1]) / fmax(1, dim(g, n->in[1], 0));
    case RX_OP_pool1d:
    case RX_OP_pool2d:
    case RX_OP_pool3d: return fmax(out, elements(g, n->in[0]));
    case RX_OP_im2col:
    case RX_OP_resize_nearest_2x: return 0;
    default: return 8 * out;
    }
}

static double matrix_flops(const rlx_graph *g, const rx_node *n)
{
    double out = elements(g, n->first_out);
    switch (n->op) {
    case RX_OP_quantize:
    case RX_OP_dequantize:
    case RX_OP_dequant_moe_weights: return 2 * out;
    default: return 2 * out * dim(g, n->in[0], -1);
    }
}

static double recurrent_flops(const rlx_graph *g, const rx_node *n)
{
    double x = elements(g, n->in[0]), rows = x / fmax(1, dim(g, n->in[0], -1));
    switch (n->op) {
    case RX_OP_selective_scan: return 9 * x * dim(g, n->in[2], -1);
    case RX_OP_mamba2: return 6 * x * dim(g, n->in[3], -1);
    case RX_OP_gated_delta_net: return 8 * x * dim(g, n->in[2], -1);
    default: return 2 * rows * operand_elements(g, n, 3);
    }
}

static double signal_flops(const rlx_graph *g, const rx_node *n)
{
    double in = elements(g, n->in[0]);
    if (n->op == RX_OP_log_mel)
        return 2 * elements(g, n->first_out) * dim(g, n->in[1], 1) + 2 * in;
    if (n->op == RX_OP_fft || n->op == RX_OP_ifft || n->op == RX_OP_rfft || n->op == RX_OP_irfft)
        return 2.5 * in * log2(fmax(2, (double)((const rlx_fft_desc *)n->attr)->n));
    if (n->op == RX_OP_stft)
        return 2.5 * elements(g, n->first_out) * log2(fmax(2, dim(g, n->first_out, -2)));
    return 4 * in;
}

static double flops_of(const rlx_graph *g, const rx_node *n)
{
    double out = elements(g, n->first_out);
    switch (rx_ops[n->op].family) {
    case RX_FAMILY_unary:
    case RX_FAMILY_binary:
    case RX_FAMILY_compare:
    case RX_FAMILY_select: return out;
    case RX_FAMILY_region: return out * ((const rx_region *)n->attr)->n_instr;
    case RX_FAMILY_matrix: return matrix_flops(g, n);
    case RX_FAMILY_norm: return 6 * out;
    case RX_FAMILY_attention: return n->op == RX_OP_attention ? attention_flops(g, n) : 3 * out;
    case RX_FAMILY_reduce: return elements(g, n->in[0]);
    case RX_FAMILY_order: {
        double in = n->n_in ? elements(g, n->in[0]) : out;
        return in * log2(fmax(2, in));
    }
    case RX_FAMILY_conv: return conv_flops(g, n);
    case RX_FAMILY_recurrent: return recurrent_flops(g, n);
    case RX_FAMILY_signal: return signal_flops(g, n);
    case RX_FAMILY_random: return 20 * out;
    case RX_FAMILY_leaf:
    case RX_FAMILY_shape:
    case RX_FAMILY_index: break;
    }
    return 0;
}

/* Operands of which only the rows or elements that are asked for are read. */
static double traffic_of(const rlx_graph *g, const rx_node *n)
{
    double out = bytes_of(g, n->first_out);
    switch (n->op) {
    case RX_OP_state_write: return 2 * bytes_of(g, n->in[1]) + bytes_of(g, n->in[2]);
    case RX_OP_gather:
    case RX_OP_gather_elements:
    case RX_OP_gather_nd: return 2 * out + bytes_of(g, n->in[1]);
    default: break;
    }
    if (rx_ops[n->op].flags & RX_OP_VIEW)
        return 2 * out;
    double sum = 0;
    for (uint32_t i = 0; i < n->n_in; i++)
        sum += bytes_of(g, n->in[i]);
    for (uint32_t i = 0; i < n->n_out; i++)
        sum += bytes_of(g, n->first_out + i);
    return sum;
}

void rx_cost(const rlx_graph *g, const rx_node *n, double *flops, double *bytes)
{
    *flops = flops_of(g, n);
    *bytes = traffic_of(g, n);
}
