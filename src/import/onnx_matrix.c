/* SPDX-License-Identifier: MIT */
/* Products, convolutions and pools of ONNX. */
#include <math.h>
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

/* ---- Products -------------------------------------------------------------------------------- */

/* Weights computed from others, unless they are codes that may become part of an integer product
 * with codes x. */
static rlx_value weights_of(rx_onnx_call *c, rlx_value x, rlx_value w)
{
    if (rx_onnx_made_by(c, x, RX_OP_dequantize))
        return w;
    return rx_onnx_computed_weight(c, w);
}

/* ---- One-hot rows ---------------------------------------------------------------------------- */

/* Whether v is 0, 1, ... n - 1 along its last axis, and nothing along others. */
static bool counts(rx_onnx_call *c, rlx_value v, int64_t n)
{
    const rlx_shape s = rlx_value_shape(c->g, v);
    const void *data = rx_onnx_value_data(c->b, v);
    if (!data || !s.rank || s.dim[s.rank - 1] != n || rx_onnx_elements(c, v) != n)
        return false;
    for (int64_t i = 0; i < n; i++)
        if ((rlx_value_dtype(c->g, v) == RLX_I64 ? ((const int64_t *)data)[i]
                                                 : ((const int32_t *)data)[i]) != i)
            return false;
    return true;
}

/* A finite table [n, width] with a row of zeros before and after it; RLX_NONE: b is none. */
static rlx_value framed_table(rx_onnx_call *c, rlx_value b, int64_t n, int64_t width)
{
    const float *from = rx_onnx_weight_data(c->b, b);
    const uint64_t bytes = (uint64_t)(n + 2) * (uint64_t)width * sizeof *from;
    if (!from || bytes > RX_ONNX_MAX_COPIED - c->b->n_copied)
        return RLX_NONE;
    for (int64_t i = 0; i < n * width; i++)
        if (!isfinite(from[i]))
            return RLX_NONE;
    float *to = rx_arena_zero(&c->b->m->arena, bytes);
    rlx_value table = RLX_NONE;
    const rlx_shape s = {2, {n + 2, width}};
    if (!to)
        return RLX_NONE;
    c->b->n_copied += bytes;
    memcpy(to + width, from, (size_t)(n * width) * sizeof *to);
    rx_onnx_add_param(c->b, "", RLX_F32, &s, (rx_bytes){to, bytes}, &table);
    return table;
}

/* cast(x == [0, 1, ...]) times finite weights gathers their rows; an x that is no row gives zeros.
 * RLX_NONE: `a` is anything else. */
static rlx_value one_hot_product(rx_onnx_call *c, rlx_value a, rlx_value b)
{
    rlx_graph *g = c->g;
    const rx_node *cast = rx_onnx_made_by(c, a, RX_OP_cast);
    const rx_node *eq = cast ? rx_onnx_made_by(c, (rlx_value){cast->in[0]}, RX_OP_eq) : NULL;
    const rlx_shape s = rlx_value_shape(g, b);
    if (!eq || s.rank != 2 || s.dim[0] < 1 || rlx_value_dtype(g, a) != RLX_F32 ||
        rlx_value_dtype(g, b) != RLX_F32)
        return RLX_NONE;
    rlx_value x = {eq->in[0]}, places = {eq->in[1]};
    const rlx_dtype t = rlx_value_dtype(g, x);
    if (t != RLX_I32 && t != RLX_I64)
        return RLX_NONE;
    if (counts(c, x, s.dim[0])) {
        const rlx_value swap = x;
        x = places;
        places = swap;
    }
    const rlx_shape sx = rlx_value_shape(g, x);
    if (!counts(c, places, s.dim[0]) || sx.rank != rx_onnx_rank(c, a) || sx.rank < 2 ||
        sx.dim[sx.rank - 1] != 1 || s.dim[0] > INT32_MAX - 2)
        return RLX_NONE;
    const rlx_value table = framed_table(c, b, s.dim[0], s.dim[1]);
    if (!table.id)
        return RLX_NONE;
    const rlx_value row = rlx_clamp(g, rlx_squeeze(g, x, -1), -1, (double)s.dim[0]);
    return rlx_gather(g, table, rlx_add(g, row, rlx_scalar(g, t, 1)), 0);
}

rlx_value rx_onnx_matmul(rx_onnx_call *c)
{
    const rlx_value a = rx_onnx_in(c, 0), b = rx_onnx_in(c, 1);
    rlx_value y = rx_onnx_dequantized_product(c, a, b);
    if (!y.id)
        y = rx_onnx_attention_by_parts(c, a, b);
    if (!y.id)
        y = one_hot_product(c, a, b);
    return y.id || c->b->status != RLX_OK ? y : rlx_matmul(c->g, a, weights_of(c, a, b));
}

static rlx_value scaled(rx_onnx_call *c, rlx_value x, double by)
{
    return by == 1 ? x : rlx_mul(c->g, x, rlx_scalar(c->g, rlx_value_dtype(c->g, x), by));
}

rlx_value rx_onnx_gemm(rx_onnx_call *c)
{
    rlx_value a = rx_onnx_in(c, 0);
    const rlx_value add = rx_onnx_in(c, 2);
    if (rx_onnx_int(c, "transA", 0))
        a = rlx_transpose(c->g, a, NULL);
    const rlx_matmul_desc d = {RLX_INIT(rlx_matmul_desc), .trans_b = rx_onnx_int(c, "transB", 0)};
    const rlx_value y = scaled(c, rlx_matmul_ex(c->g, a, rx_onnx_in(c, 1), RLX_NONE, RLX_NONE, &d),
                               rx_onnx_float(c, "alpha", 1));
    return add.id ? rlx_add(c->g, y, scaled(c, add, rx_onnx_float(c, "beta", 1))) : y;
}

/* ---- Windows --------------------------------------------------------------------------------- */


static void fill(rlx_ints *list, int n, int64_t v)
{
    for (int i = list->n; i < n; i++)
        list->v[i] = v;
    list->n = n;
}

/* Pads of SAME: the result has ceil(size / stride) elements; an odd remainder goes to the end
 * (upper) or the start (lower). */
static bool same_pads(rx_onnx_call *c, const rlx_shape *x, rx_onnx_window *w)
{
    for (int i = 0; i < w->n; i++) {
        const rlx_dim size = x->dim[2 + i];
        if (!rx_dim_is_number(size)) {
            rx_onnx_fail(c, RLX_UNSUPPORTED, "auto_pad of an axis without a fixed size");
            return false;
        }
        const int64_t out = (size + w->stride.v[i] - 1) / w->stride.v[i];
        int64_t total = (out - 1) * w->stride.v[i] + w->dilation.v[i] * (w->kernel.v[i] - 1) + 1 -
                        size;
        total = total < 0 ? 0 : total;
        w->pads.v[i] = w->same_upper ? total / 2 : (total + 1) / 2;
        w->pads.v[w->n + i] = total - w->pads.v[i];
    }
    return true;
}

/* Reads the attributes that convolutions and pools share; `kernel` is the window when the node has
 * no kernel_shape. */
bool rx_onnx_read_window(rx_onnx_call *c, const rlx_shape *x, const rlx_dim *kernel,
                         rx_onnx_window *w)
{
    *w = (rx_onnx_window){.n = x->rank - 2};
    if (w->n < 1 || w->n > 3) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "an operand of %d dimensions; expected 3 to 5", x->rank);
        return false;
    }
    rx_onnx_ints(c, "kernel_shape", &w->kernel);
    rx_onnx_ints(c, "strides", &w->stride);
    rx_onnx_ints(c, "dilations", &w->dilation);
    rx_onnx_ints(c, "pads", &w->pads);
    if (!w->kernel.n && kernel)
        for (int i = 0; i < w->n; i++)
            w->kernel.v[w->kernel.n++] = kernel[i];
    fill(&w->stride, w->n, 1);
    fill(&w->dilation, w->n, 1);
    fill(&w->pads, 2 * w->n, 0);
    for (int i = 0; i < w->n; i++)
        if (w->stride.v[i] < 1 || w->dilation.v[i] < 1 || w->kernel.v[i] < 1 ||
            w->kernel.v[i] > INT32_MAX || w->stride.v[i] > INT32_MAX ||
            w->dilation.v[i] > INT32_MAX) {
            rx_onnx_fail(c, RLX_INVALID, "kernel, stride or dilation of axis %d is not positive",
                         i);
            return false;
        }
    w->same_upper = rx_onnx_is(c, "auto_pad", "SAME_UPPER", "NOTSET");
    w->same_lower = rx_onnx_is(c, "auto_pad", "SAME_LOWER", "NOTSET");
    return !(w->same_upper || w->same_lower) || same_pads(c, x, w);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

static rlx_conv_desc conv_desc(const rx_onnx_call *c, const rx_onnx_window *w)
{
    return (rlx_conv_desc){RLX_INIT(rlx_conv_desc), .stride = w->stride, .dilation = w->dilation,
                           .pads = w->pads, .groups = rx_onnx_int(c, "group", 1)};
}

/* Drops a last axis of size one, since kernels vectorise along the last axis. */
static rlx_value conv_of_column(rx_onnx_call *c, rlx_value x, rlx_value w, const rx_onnx_window *k)
{
    rx_onnx_window line = *k;
    line.n = line.stride.n = line.dilation.n = 1;
    line.pads = (rlx_ints){2, {k->pads.v[0], k->pads.v[2]}};
    const rlx_conv_desc d = conv_desc(c, &line);
    const rlx_value y = rlx_conv_ex(c->g, 1, rlx_squeeze(c->g, x, 3), rlx_squeeze(c->g, w, 3),
                                    rx_onnx_in(c, 2), RLX_NONE, &d);
    return rlx_unsqueeze(c->g, y, 3);
}

rlx_value rx_onnx_conv(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), w = weights_of(c, x, rx_onnx_in(c, 1));
    const rlx_shape sx = rlx_value_shape(c->g, x), sw = rlx_value_shape(c->g, w);
    rx_onnx_window k;
    if (sx.rank != sw.rank)
        return rx_onnx_fail(c, RLX_INVALID, "weights of %d dimensions; expected %d", sw.rank,
                            sx.rank);
    if (!rx_onnx_read_window(c, &sx, sw.dim + 2, &k))
        return RLX_NONE;
    if (k.n == 2 && sx.dim[3] == 1 && sw.dim[3] == 1 && !k.pads.v[1] && !k.pads.v[3])
        return conv_of_column(c, x, w, &k);
    const rlx_conv_desc d = conv_desc(c, &k);
    return rlx_conv_ex(c->g, k.n, x, w, rx_onnx_in(c, 2), RLX_NONE, &d);
}

/* Output padding and pads, derived from output_shape and auto_pad if present. */
static bool transpose_pads(rx_onnx_call *c, const rlx_shape *x, rx_onnx_window *k,
                           rlx_ints *output_pad)
{
    rlx_ints shape;
    rx_onnx_ints(c, "output_padding", output_pad);
    fill(output_pad, k->n, 0);
    const bool given = rx_onnx_ints(c, "output_shape", &shape);
    if (!given && !k->same_upper && !k->same_lower)
        return true;
    for (int i = 0; i < k->n; i++) {
        const int64_t full = k->stride.v[i] * (x->dim[2 + i] - 1) + output_pad->v[i] +
                             (k->kernel.v[i] - 1) * k->dilation.v[i] + 1;
        const int64_t want = given && i < shape.n ? shape.v[i] : x->dim[2 + i] * k->stride.v[i];
        int64_t total = full - want;
        if (x->dim[2 + i] < 0) {
            rx_onnx_fail(c, RLX_UNSUPPORTED, "output_shape of an axis without a fixed size");
            return false;
        }
        if (total < 0) {
            output_pad->v[i] += -total;
            total = 0;
        }
        k->pads.v[i] = k->same_upper ? total / 2 : total - total / 2;
        k->pads.v[k->n + i] = total - k->pads.v[i];
    }
    return true;
}

/* One spatial axis: as two, the first of size one. */
static rlx_value transpose_1d(rx_onnx_call *c, rlx_value x, rlx_value w, rlx_conv_desc *d)
{
    rlx_ints *const lists[] = {&d->stride, &d->dilation, &d->output_pad};
    for (int i = 0; i < 3; i++) {
        lists[i]->v[1] = lists[i]->v[0];
        lists[i]->v[0] = i < 2;
        lists[i]->n = 2;
    }
    d->pads = (rlx_ints){4, {0, d->pads.v[0], 0, d->pads.v[1]}};
    const rlx_value y = rlx_conv_transpose2d(c->g, rlx_unsqueeze(c->g, x, 2),
                                             rlx_unsqueeze(c->g, w, 2), rx_onnx_in(c, 2), d);
    return rlx_squeeze(c->g, y, 2);
}

/* Inserts `step` - 1 zeros between the elements of an axis. */
static rlx_value spread_axis(rx_onnx_call *c, rlx_value x, int axis, int64_t step)
{
    rlx_shape s = rlx_value_shape(c->g, x);
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
    if (step == 1)
        return x;
    const rlx_dim size = s.dim[axis];
    for (int i = s.rank; i > axis + 1; i--)
        s.dim[i] = s.dim[i - 1];
    s.dim[axis + 1] = 1;
    s.rank++;
    after[axis + 1] = step - 1;
    const rlx_value wide = rlx_pad(c->g, rlx_reshape(c->g, x, s.rank, s.dim), before, after,
                                   RLX_PAD_CONSTANT, 0);
    for (int i = axis + 1; i + 1 < s.rank; i++)
        s.dim[i] = s.dim[i + 1];
    s.rank--;
    s.dim[axis] = rlx_dim_mul(c->g, size, step);
    return rlx_narrow(c->g, rlx_reshape(c->g, wide, s.rank, s.dim), axis, 0,
                      rlx_dim_sub(c->g, s.dim[axis], step - 1));
}

/* Three spatial axes: a convolution of the zero-stuffed input with flipped weights. */
static rlx_value transpose_3d(rx_onnx_call *c, rlx_value x, rlx_value w, const rx_onnx_window *k,
                              const rlx_ints *output_pad)
{
    const rlx_shape s = rlx_value_shape(c->g, w);
    const int64_t groups = rx_onnx_int(c, "group", 1), axes[3] = {3, 4, 5};
    if (groups < 1 || s.dim[0] % groups)
        return rx_onnx_fail(c, RLX_INVALID, "%lld groups of %lld channels", (long long)groups,
                            (long long)s.dim[0]);
    const rlx_dim parts[6] = {groups, s.dim[0] / groups, s.dim[1], s.dim[2], s.dim[3], s.dim[4]};
    static const int perm[6] = {0, 2, 1, 3, 4, 5};
    const rlx_dim to[5] = {groups * s.dim[1], s.dim[0] / groups, s.dim[2], s.dim[3], s.dim[4]};
    const rlx_value turned = rlx_reverse(c->g, rlx_reshape(c->g, w, 6, parts), axes, 3);
    const rlx_value weights = rlx_reshape(c->g, rlx_transpose(c->g, turned, perm), 5, to);
    int64_t before[5] = {0}, after[5] = {0};
    for (int i = 0; i < 3; i++) {
        const int64_t reach = k->dilation.v[i] * (k->kernel.v[i] - 1);
        x = spread_axis(c, x, 2 + i, k->stride.v[i]);
        before[2 + i] = reach - k->pads.v[i];
        after[2 + i] = reach - k->pads.v[3 + i] + output_pad->v[i];
    }
    const rlx_conv_desc d = {RLX_INIT(rlx_conv_desc), .dilation = k->dilation, .groups = groups};
    return rlx_conv3d(c->g, rlx_pad(c->g, x, before, after, RLX_PAD_CONSTANT, 0), weights,
                      rx_onnx_in(c, 2), &d);
}

/* Kernels take output padding below the stride only; more is appended as zeros, with the bias. */
rlx_value rx_onnx_conv_transpose(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), w = rx_onnx_in(c, 1);
    const rlx_shape sx = rlx_value_shape(c->g, x), sw = rlx_value_shape(c->g, w);
    rx_onnx_window k;
    rlx_ints output_pad;
    if (sx.rank != sw.rank)
        return rx_onnx_fail(c, RLX_INVALID, "weights of %d dimensions; expected %d", sw.rank,
                            sx.rank);
    if (!rx_onnx_read_window(c, &sx, sw.dim + 2, &k) || !transpose_pads(c, &sx, &k, &output_pad))
        return RLX_NONE;
    if (k.n == 3)
        return transpose_3d(c, x, w, &k, &output_pad);
    rlx_conv_desc d = conv_desc(c, &k);
    d.output_pad = output_pad;
    return k.n == 1 ? transpose_1d(c, x, w, &d)
                    : rlx_conv_transpose2d(c->g, x, w, rx_onnx_in(c, 2), &d);
}

/* ---- Pools ----------------------------------------------------------------------------------- */

static rlx_value pool_by_rank(rx_onnx_call *c, int n, rlx_value x, const rlx_pool_desc *d)
{
    return n == 1 ? rlx_pool1d(c->g, x, d) : n == 2 ? rlx_pool2d(c->g, x, d)
                                                   : rlx_pool3d(c->g, x, d);
}

/* ---- MaxPool with indices -------------------------------------------------------------------- */

#define MAX_TAPS 1024

/* The elements under tap `tap` of all windows: x is padded, `to` is the shape of the result. */
static rlx_value tap_slice(rx_onnx_call *c, const rx_onnx_window *k, rlx_value x,
                           const rlx_shape *to, int64_t tap)
{
    rlx_slice_desc d = {RLX_INIT(rlx_slice_desc)};
    d.axes.n = d.starts.n = d.stops.n = d.steps.n = k->n;
    for (int i = k->n; i--; tap /= k->kernel.v[i]) {
        const int64_t first = tap % k->kernel.v[i] * k->dilation.v[i];
        d.axes.v[i] = 2 + i;
        d.starts.v[i] = first;
        d.steps.v[i] = k->stride.v[i];
        d.stops.v[i] = first + (to->dim[2 + i] - 1) * k->stride.v[i] + 1;
    }
    return rlx_unsqueeze(c->g, rlx_slice(c->g, x, &d), 0);
}

/* Flat index of every element, row- or column-major: i64 of the shape of x. */
static rlx_value place_map(rx_onnx_call *c, const rlx_shape *s, bool column_major)
{
    const rlx_range_desc r = {RLX_INIT(rlx_range_desc), .n = rx_shape_product(c->g, s, 0, s->rank),
                              .out = RLX_I64};
    rlx_shape t = *s;
    int perm[RLX_MAX_RANK];
    for (int i = 0; i < s->rank; i++)
        perm[i] = i;
    for (int i = 2; i < s->rank && column_major; i++) {
        t.dim[i] = s->dim[s->rank + 1 - i];
        perm[i] = s->rank + 1 - i;
    }
    return rlx_transpose(c->g, rlx_reshape(c->g, rlx_range(c->g, &r), t.rank, t.dim), perm);
}

/* Flat index of the maximum of each window, the first of equal ones. */
static rlx_value max_places(rx_onnx_call *c, rlx_value x, const rx_onnx_window *k, rlx_value y)
{
    const rlx_shape s = rlx_value_shape(c->g, x), to = rlx_value_shape(c->g, y);
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0}, taps = 1;
    rlx_value values[MAX_TAPS], places[MAX_TAPS];
    if (!rx_shape_is_fixed(&s) || !rx_shape_is_fixed(&to))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "places of elements need fixed sizes");
    for (int i = 0; i < k->n; i++) {
        const int64_t reach = (to.dim[2 + i] - 1) * k->stride.v[i] +
                              (k->kernel.v[i] - 1) * k->dilation.v[i] + 1;
        before[2 + i] = k->pads.v[i];
        after[2 + i] = reach - k->pads.v[i] - s.dim[2 + i];
        after[2 + i] = after[2 + i] < 0 ? 0 : after[2 + i];
        taps = taps > MAX_TAPS ? taps : taps * k->kernel.v[i];
    }
    if (taps > MAX_TAPS)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "places of elements in windows of more than %d",
                            MAX_TAPS);
    const rlx_value wide = rlx_pad(c->g, x, before, after, RLX_PAD_CONSTANT, (double)-INFINITY);
    const rlx_value map = rlx_pad(c->g, place_map(c, &s, rx_onnx_int(c, "storage_order", 0)),
                                  before, after, RLX_PAD_CONSTANT, 0);
    for (int64_t i = 0; i < taps; i++) {
        values[i] = tap_slice(c, k, wide, &to, i);
        places[i] = tap_slice(c, k, map, &to, i);
    }
    const rlx_arg_desc d = {RLX_INIT(rlx_arg_desc), .axis = 0, .keepdims = true};
    const rlx_value best = rlx_argmax(c->g, rlx_concat(c->g, values, (size_t)taps, 0), &d);
    return rlx_squeeze(c->g, rlx_gather_elements(c->g, rlx_concat(c->g, places, (size_t)taps, 0),
                                                 best, 0), 0);
}

static rlx_value pool(rx_onnx_call *c, rlx_pool_kind kind)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    rx_onnx_window k;
    if (!rx_onnx_read_window(c, &s, NULL, &k))
        return RLX_NONE;
    const rlx_pool_desc d = {RLX_INIT(rlx_pool_desc), .kind = kind, .kernel = k.kernel,
                             .stride = k.stride, .dilation = k.dilation, .pads = k.pads,
                             .ceil_mode = rx_onnx_int(c, "ceil_mode", 0),
                             .count_include_pad = rx_onnx_int(c, "count_include_pad", 0),
                             .p = kind == RLX_POOL_LP ? rx_onnx_int(c, "p", 2) : 0};
    const rlx_value y = pool_by_rank(c, k.n, x, &d);
    if (kind == RLX_POOL_MAX && rx_onnx_wants(c, 1) && y.id)
        c->out[1] = max_places(c, x, &k, y);
    return y;
}

rlx_value rx_onnx_average_pool(rx_onnx_call *c) { return pool(c, RLX_POOL_AVERAGE); }
rlx_value rx_onnx_lp_pool(rx_onnx_call *c) { return pool(c, RLX_POOL_LP); }
rlx_value rx_onnx_max_pool(rx_onnx_call *c) { return pool(c, RLX_POOL_MAX); }

static rlx_value global_pool(rx_onnx_call *c, rlx_pool_kind kind)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const int n = rx_onnx_rank(c, x) - 2;
    const rlx_pool_desc d = {RLX_INIT(rlx_pool_desc), .kind = kind,
                             .p = kind == RLX_POOL_LP ? rx_onnx_int(c, "p", 2) : 0};
    if (n < 1 || n > 3)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "an operand of %d dimensions; expected 3 to 5",
                            n + 2);
    return pool_by_rank(c, n, x, &d);
}

rlx_value rx_onnx_global_average_pool(rx_onnx_call *c) { return global_pool(c, RLX_POOL_AVERAGE); }
rlx_value rx_onnx_global_max_pool(rx_onnx_call *c) { return global_pool(c, RLX_POOL_MAX); }
rlx_value rx_onnx_global_lp_pool(rx_onnx_call *c) { return global_pool(c, RLX_POOL_LP); }
