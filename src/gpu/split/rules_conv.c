/* SPDX-License-Identifier: MIT */
/* How convolutions, pooling and im2col may be split: by images, by channels, by groups of channels,
 * and by pixel rows with their halo. */
#include <string.h>

#include "gpu/split/rules.h"

/* The attribute lists of an operation on images; kernel NULL: from the shape of operand 1. */
typedef struct window_lists {
    rlx_ints *stride, *dilation, *pads;
    const rlx_ints *kernel;
} window_lists;

/* The list of that name in a record; NULL: it has none. */
static rlx_ints *list_of(rx_op op, void *attr, const char *name)
{
    for (const rx_attr_field *f = rx_ops[op].attr->fields; f->kind != RX_ATTR_END; f++)
        if (f->kind == RX_ATTR_INTS && !strcmp(f->name, name))
            return (rlx_ints *)((char *)attr + f->offset);
    return NULL;
}

static window_lists lists_of(rx_op op, void *attr)
{
    return (window_lists){list_of(op, attr, "stride"), list_of(op, attr, "dilation"),
                          list_of(op, attr, "pads"), list_of(op, attr, "kernel")};
}

static int64_t entry(const rlx_ints *list, int i, int64_t otherwise)
{
    return i < list->n ? list->v[i] : otherwise;
}

/* Indices along spatial axis k, which is axis `own` of operand 0. False: a window could be
 * empty. */
static bool cut_spatial(const rx_gpu_call *c, int k, int own, rx_split_cut *cut)
{
    const window_lists l = lists_of(c->op, (void *)(uintptr_t)c->attr);
    const int n = c->in[0].rank - 2;
    if (l.kernel && !l.kernel->n)
        return false;
    const int64_t kernel = l.kernel ? entry(l.kernel, k, 1) : c->in[1].dim[2 + k];
    cut->axis[0] = own;
    cut->halo.step = entry(l.stride, k, 1);
    cut->halo.before = entry(l.pads, k, 0);
    cut->halo.span = (kernel - 1) * entry(l.dilation, k, 1) + 1;
    cut->halo.axis = k;
    cut->adjusts = true;
    return cut->halo.before < cut->halo.span && entry(l.pads, n + k, 0) < cut->halo.span &&
           c->in[0].dim[own] > 0;
}

static void cut_all_results(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    for (size_t i = 0; i < c->n_out; i++)
        cut->axis[c->n_in + i] = a;
}

static void cut_vector(const rx_gpu_call *c, size_t i, rx_split_cut *cut)
{
    const rx_view *v = rx_gpu_in(c, i);
    if (v && v->rank > 0 && v->dim[0] > 1)
        cut->axis[i] = 0;
}

/* Whole groups of channels, with their channels of x and of the weights. */
static void cut_groups(const rx_gpu_call *c, int64_t groups, rx_split_cut *cut)
{
    const bool transposed = c->op == RX_OP_conv_transpose2d;
    const int64_t each = c->out[0].dim[1] / groups;
    cut->axis[0] = 1;
    cut->axis[1] = 0;
    cut->unit[0] = cut->multiple = each;
    cut->times[0] = c->in[0].dim[1] / groups;
    cut->unit[1] = transposed ? each : 0;
    cut->times[1] = transposed ? cut->times[0] : 0;
    cut->adjusts = true;
}

/* x [N, C, ..], w [O, C / groups, ..] (transposed: [C, O / groups, ..]), then vectors of O, and a
 * residual as the result. */
static bool cut_convolution(const rx_gpu_call *c, int64_t groups, int a, rx_split_cut *cut)
{
    const bool transposed = c->op == RX_OP_conv_transpose2d;
    cut_all_results(c, a, cut);
    if (a > 1)
        return !transposed && cut_spatial(c, a - 2, a, cut);
    if (a == 0) {
        cut->axis[0] = 0;
        return true;
    }
    if (groups > 1)
        cut_groups(c, groups, cut);
    else
        cut->axis[1] = transposed ? 1 : 0;
    return true;
}

bool rx_split_rule_conv(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const rx_view *residual = rx_gpu_in(c, 3);
    if (residual)
        cut->axis[3] = a;
    if (a == 1)
        cut_vector(c, 2, cut);
    return cut_convolution(c, ((const rlx_conv_desc *)c->attr)->groups, a, cut);
}

/* x, w, scale, bias. */
bool rx_split_rule_qconv(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    for (size_t i = 2; i < 4 && a == 1; i++)
        cut_vector(c, i, cut);
    return cut_convolution(c, ((const rlx_qconv_desc *)c->attr)->groups, a, cut);
}

bool rx_split_rule_pool(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    cut->axis[0] = a;
    cut_all_results(c, a, cut);
    return a < 2 || cut_spatial(c, a - 2, a, cut);
}

/* [N, C, H, W] to [N, C * kh * kw, oh * ow]. */
bool rx_split_rule_im2col(const rx_gpu_call *c, int a, rx_split_cut *cut)
{
    const rlx_im2col_desc *d = c->attr;
    cut->axis[0] = a;
    cut_all_results(c, a, cut);
    if (a == 1)
        cut->unit[0] = entry(&d->kernel, 0, 1) * entry(&d->kernel, 1, 1);
    return a < 2;
}

/* Padding of a part: the elements of its windows outside of the operand. */
static void adjust_pads(const rx_split_cut *cut, const rx_gpu_call *c, void *attr, int64_t first,
                        int64_t length)
{
    const window_lists l = lists_of(c->op, attr);
    const int n = c->in[0].rank - 2, k = cut->halo.axis;
    const int64_t dim = c->in[0].dim[cut->axis[0]], after = entry(l.pads, n + k, 0);
    const int64_t begin = first * cut->halo.step - cut->halo.before;
    int64_t over = begin + (length - 1) * cut->halo.step + cut->halo.span - dim;
    over = over < after ? over : after;
    while (l.pads->n < 2 * n)
        l.pads->v[l.pads->n++] = 0;
    l.pads->v[k] = begin < 0 ? -begin : 0;
    l.pads->v[n + k] = over > 0 ? over : 0;
}

void rx_split_adjust_conv(const rx_split_cut *cut, const rx_gpu_call *c, void *attr, int64_t first,
                          int64_t length)
{
    if (cut->halo.span) {
        adjust_pads(cut, c, attr, first, length);
        return;
    }
    int64_t *groups = c->op == RX_OP_qconv2d ? &((rlx_qconv_desc *)attr)->groups
                                             : &((rlx_conv_desc *)attr)->groups;
    *groups = *groups * length / c->out[0].dim[1];
}
