/* SPDX-License-Identifier: MIT */
/* Softmax and norms of rows that are longer than a binding, from reductions and elementwise steps.
 * What is in between has 32 bits. */
#include <string.h>

#include "gpu/split/part.h"

/* Over these axes, which stay. */
static rx_reduce_attr over_axes(int first, int end)
{
    rx_reduce_attr d = {.keepdims = true};
    for (int i = first; i < end; i++)
        d.axes.v[d.axes.n++] = i;
    return d;
}

static rx_tensor reduce(const rx_steps *s, rx_op op, const rx_tensor *x, const rx_reduce_attr *d)
{
    int64_t dim[RLX_MAX_RANK];
    memcpy(dim, x->view.dim, sizeof dim);
    for (int i = 0; i < d->axes.n; i++)
        dim[d->axes.v[i]] = 1;
    rx_tensor y = rx_steps_new(s, RLX_F32, x->view.rank, dim);
    rx_steps_add(s, op, d, (rx_tensor[]){*x, y}, 1, 1);
    return y;
}

/* y = exp(x - m) / sum exp(x - m), m the largest x; rows of -infinity give 0 (their logarithms
 * -infinity), so m and the sum have bounds below. */
bool rx_split_softmax(const rx_steps *s)
{
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1);
    const int axis = (int)((const rx_axis_attr *)s->part->call.attr)->axis;
    const rx_reduce_attr over = over_axes(axis, axis + 1);
    const rx_tensor lowest = rx_steps_number(s, RLX_F32, -3e38);
    const rx_tensor least = rx_steps_number(s, RLX_F32, 1e-30);
    const rx_tensor top = reduce(s, RX_OP_reduce_max, &x, &over);
    const rx_tensor power = rx_steps_like(s, RLX_F32, &x.view, -1, 0);
    const rx_instr powers[] = {{.op = RX_OP_max, .arg = {1, 2}, .dtype = RLX_F32},
                               {.op = RX_OP_sub, .arg = {0, 3}, .dtype = RLX_F32},
                               {.op = RX_OP_exp, .arg = {4}, .dtype = RLX_F32}};
    rx_steps_region(s, powers, 3, (rx_tensor[]){x, top, lowest, power}, 3);
    const rx_tensor sum = reduce(s, RX_OP_reduce_sum, &power, &over);
    if (s->part->call.op == RX_OP_softmax) {
        const rx_instr quotient[] = {
            {.op = RX_OP_max, .arg = {1, 2}, .dtype = RLX_F32},
            {.op = RX_OP_div, .arg = {0, 3}, .dtype = y.view.dtype}};
        rx_steps_region(s, quotient, 2, (rx_tensor[]){power, sum, least, y}, 3);
        return true;
    }
    const rx_instr logarithm[] = {{.op = RX_OP_max, .arg = {1, 2}, .dtype = RLX_F32},
                                  {.op = RX_OP_sub, .arg = {0, 5}, .dtype = RLX_F32},
                                  {.op = RX_OP_max, .arg = {3, 4}, .dtype = RLX_F32},
                                  {.op = RX_OP_log, .arg = {7}, .dtype = RLX_F32},
                                  {.op = RX_OP_sub, .arg = {6, 8}, .dtype = y.view.dtype}};
    rx_steps_region(s, logarithm, 5, (rx_tensor[]){x, top, lowest, sum, least, y}, 5);
    return true;
}

/* ---- Norms ----------------------------------------------------------------------------------- */

typedef struct norm {
    rx_tensor x, y;
    rx_tensor gamma, beta; /* rank -1: absent. They broadcast to x */
    rx_reduce_attr over;
    double eps;
    bool rms, plus_one;
} norm;

static rx_tensor operand_or_none(const rx_steps *s, size_t i)
{
    return rx_gpu_in(&s->part->call, i) ? rx_steps_tensor(s, i)
                                        : (rx_tensor){.view = {.rank = -1}};
}

/* d = x - mean (rms: x), y = d / sqrt(mean of d^2 + eps) * gamma + beta. */
static void add_norm(const rx_steps *s, const norm *n)
{
    double count = 1;
    for (int i = 0; i < n->over.axes.n; i++)
        count *= (double)n->x.view.dim[n->over.axes.v[i]];
    const rx_tensor share = rx_steps_number(s, RLX_F32, 1 / count);
    rx_tensor d = n->x;
    if (!n->rms) {
        const rx_tensor sum = reduce(s, RX_OP_reduce_sum, &n->x, &n->over);
        const rx_instr centre[] = {{.op = RX_OP_mul, .arg = {1, 2}, .dtype = RLX_F32},
                                   {.op = RX_OP_sub, .arg = {0, 3}, .dtype = RLX_F32}};
        d = rx_steps_like(s, RLX_F32, &n->x.view, -1, 0);
        rx_steps_region(s, centre, 2, (rx_tensor[]){n->x, sum, share, d}, 3);
    }
    const rx_tensor squares = reduce(s, RX_OP_reduce_sum_square, &d, &n->over);
    rx_instr instr[8] = {{.op = RX_OP_fma, .arg = {1, 2, 3}, .dtype = RLX_F32},
                         {.op = RX_OP_rsqrt, .dtype = RLX_F32},
                         {.op = RX_OP_mul, .arg = {0}, .dtype = RLX_F32}};
    rx_tensor t[8] = {d, squares, share, rx_steps_number(s, RLX_F32, n->eps)};
    const bool has_gamma = n->gamma.view.rank >= 0, has_beta = n->beta.view.rank >= 0;
    uint16_t n_in = 4, k = 3, gamma = 0, beta = 0, one = 0;
    if (has_gamma)
        t[gamma = n_in++] = n->gamma;
    if (has_gamma && n->plus_one)
        t[one = n_in++] = rx_steps_number(s, RLX_F32, 1);
    if (has_beta)
        t[beta = n_in++] = n->beta;
    instr[1].arg[0] = n_in;
    instr[2].arg[1] = (uint16_t)(n_in + 1);
    uint16_t last = (uint16_t)(n_in + 2);
    if (has_gamma && n->plus_one) {
        instr[k++] = (rx_instr){.op = RX_OP_add, .arg = {gamma, one}, .dtype = RLX_F32};
        gamma = (uint16_t)(n_in + k - 1);
    }
    if (has_gamma) {
        instr[k++] = (rx_instr){.op = RX_OP_mul, .arg = {last, gamma}, .dtype = RLX_F32};
        last = (uint16_t)(n_in + k - 1);
    }
    if (has_beta)
        instr[k++] = (rx_instr){.op = RX_OP_add, .arg = {last, beta}, .dtype = RLX_F32};
    instr[k - 1].dtype = n->y.view.dtype;
    t[n_in] = n->y;
    rx_steps_region(s, instr, k, t, n_in);
}

bool rx_split_norm(const rx_steps *s)
{
    const rlx_norm_desc *d = s->part->call.attr;
    norm n = {.x = rx_steps_tensor(s, 0), .y = rx_steps_tensor(s, s->part->call.n_in),
              .gamma = operand_or_none(s, 1), .beta = operand_or_none(s, 2), .eps = d->eps,
              .rms = s->part->call.op == RX_OP_rms_norm};
    const int rank = n.x.view.rank;
    n.over = over_axes((int)(d->axis < 0 ? d->axis + rank : d->axis), rank);
    add_norm(s, &n);
    return true;
}

bool rx_split_ada_norm(const rx_steps *s)
{
    const rlx_norm_desc *d = s->part->call.attr;
    norm n = {.x = rx_steps_tensor(s, 0), .y = rx_steps_tensor(s, s->part->call.n_in),
              .gamma = operand_or_none(s, 1), .beta = operand_or_none(s, 2), .eps = d->eps,
              .plus_one = true};
    n.over = over_axes(n.x.view.rank - 1, n.x.view.rank);
    add_norm(s, &n);
    return true;
}

bool rx_split_residual_norm(const rx_steps *s)
{
    const rlx_residual_norm_desc *d = s->part->call.attr;
    const size_t y = s->part->call.n_in;
    rx_tensor sum = rx_steps_tensor(s, 0);
    norm n = {.y = rx_steps_tensor(s, y), .gamma = operand_or_none(s, 2),
              .beta = operand_or_none(s, 3), .eps = d->eps, .rms = d->rms};
    if (rx_gpu_in(&s->part->call, 1)) {
        const bool wanted = s->part->call.n_out > 1 && s->part->view[y + 1].rank >= 0;
        const rx_tensor x = sum;
        sum = wanted ? rx_steps_tensor(s, y + 1)
                     : rx_steps_like(s, x.view.dtype, &x.view, -1, 0);
        const rx_instr add = {.op = RX_OP_add, .arg = {0, 1}, .dtype = x.view.dtype};
        rx_steps_region(s, &add, 1, (rx_tensor[]){x, rx_steps_tensor(s, 1), sum}, 2);
    }
    n.x = sum;
    n.over = over_axes(sum.view.rank - 1, sum.view.rank);
    if (n.y.view.rank >= 0)
        add_norm(s, &n);
    return true;
}

/* A dense tensor with other axes. */
static rx_tensor reshape(rx_tensor x, int rank, const int64_t *dim)
{
    char *data = x.view.data;
    rx_view_set_dense(&x.view, x.view.dtype, rank, dim);
    x.view.data = data;
    return x;
}

/* [N, C, ..] as [N, groups, channels of a group, places]; layer_norm2d: over the channels. */
bool rx_split_channel_norm(const rx_steps *s)
{
    const rlx_norm_desc *d = s->part->call.attr;
    const rx_op op = s->part->call.op;
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, s->part->call.n_in);
    const int64_t channels = x.view.dim[1];
    int64_t groups = op == RX_OP_instance_norm ? channels : op == RX_OP_group_norm ? d->groups : 1;
    groups = groups > 0 ? groups : 1;
    const int64_t each = channels / groups;
    const int64_t places = rx_view_elements(&x.view) / x.view.dim[0] / channels;
    const int64_t dim[4] = {x.view.dim[0], groups, each, places}, weights[3] = {groups, each, 1};
    norm n = {.x = reshape(x, 4, dim), .y = reshape(y, 4, dim), .gamma = operand_or_none(s, 1),
              .beta = operand_or_none(s, 2), .eps = d->eps,
              .over = over_axes(2, op == RX_OP_layer_norm2d ? 3 : 4)};
    if (n.gamma.view.rank >= 0)
        n.gamma = reshape(n.gamma, 3, weights);
    if (n.beta.view.rank >= 0)
        n.beta = reshape(n.beta, 3, weights);
    add_norm(s, &n);
    return true;
}
