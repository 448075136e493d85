/* SPDX-License-Identifier: MIT */
/* Reflection of the attribute records: their fields, from which printing, parsing, copying and
 * resolving of dimensions follow, and the names of enumerators. */
#include <stddef.h>
#include <string.h>

#include "ir/graph.h"

/* ---- Words of enums, in the order of the C enum ---------------------------------------------- */

static const char *const act_names[] = {"none", "relu",    "gelu", "gelu_tanh",  "silu",
                                        "sigmoid", "tanh", "hard_swish", NULL};
static const char *const layout_names[] = {"bhsd", "bshd", NULL};
static const char *const pad_names[] = {"constant", "reflect", "edge", "wrap", NULL};
static const char *const scatter_names[] = {"none", "add", "mul", "min", "max", NULL};
static const char *const pool_names[] = {"max", "average", "lp", NULL};
static const char *const resize_names[] = {"nearest", "linear", "cubic", NULL};
static const char *const coord_names[] = {
    "half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
    "align_corners", "asymmetric",           "tf_crop_and_resize", NULL};
static const char *const nearest_names[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                            "ceil", NULL};
static const char *const fft_norm_names[] = {"backward", "forward", "ortho", NULL};

/* ---- Fields ---------------------------------------------------------------------------------- */

#define FIELD(type, field, kind, count, words) \
    {#field, RX_ATTR_##kind, (uint16_t)offsetof(type, field), count, words}
#define F(type, field, kind) FIELD(type, field, kind, 1, NULL)
#define FE(type, field, words) FIELD(type, field, ENUM, 1, words)
#define END {NULL, RX_ATTR_END, 0, 0, NULL}
#define FIELDS(name) static const rx_attr_field name##_fields[]

FIELDS(none) = {END};
FIELDS(leaf) = {
    F(rx_leaf_attr, name, STRING),
    F(rx_leaf_attr, dtype, DTYPE),
    F(rx_leaf_attr, shape, SHAPE),
    F(rx_leaf_attr, data, BYTES),
    END,
};
FIELDS(region) = {{"body", RX_ATTR_REGION, 0, 1, NULL}, END};
FIELDS(unary) = {F(rx_unary_attr, alpha, FLOAT), F(rx_unary_attr, beta, FLOAT), END};
FIELDS(mod) = {F(rx_mod_attr, floored, BOOL), END};
FIELDS(clamp) = {F(rx_clamp_attr, lo, FLOAT), F(rx_clamp_attr, hi, FLOAT), END};
FIELDS(cast) = {F(rx_cast_attr, to, DTYPE), END};
FIELDS(matmul) = {
    F(rlx_matmul_desc, trans_b, BOOL),
    FE(rlx_matmul_desc, act, act_names),
    F(rlx_matmul_desc, act_last, BOOL),
    F(rlx_matmul_desc, out, DTYPE),
    END,
};
FIELDS(dot) = {
    F(rlx_dot_desc, batch_a, INTS),
    F(rlx_dot_desc, batch_b, INTS),
    F(rlx_dot_desc, contract_a, INTS),
    F(rlx_dot_desc, contract_b, INTS),
    END,
};
FIELDS(lora) = {F(rx_lora_attr, scale, FLOAT), END};
FIELDS(grouped) = {F(rx_grouped_attr, trans_b, BOOL), END};
FIELDS(dequant) = {
    F(rlx_dequant_desc, block, INT),
    F(rlx_dequant_desc, bits, INT),
    FE(rlx_dequant_desc, act, act_names),
    F(rlx_dequant_desc, act_last, BOOL),
    END,
};
FIELDS(qmatmul) = {
    F(rlx_qmatmul_desc, a_zero, INT),
    F(rlx_qmatmul_desc, b_zero, INT),
    F(rlx_qmatmul_desc, y_zero, INT),
    F(rlx_qmatmul_desc, out, DTYPE),
    F(rlx_qmatmul_desc, trans_b, BOOL),
    END,
};
FIELDS(quant) = {
    F(rlx_quant_desc, axis, INT),
    F(rlx_quant_desc, block, INT),
    F(rlx_quant_desc, to, DTYPE),
    END,
};
FIELDS(norm) = {
    F(rlx_norm_desc, axis, INT),
    F(rlx_norm_desc, eps, FLOAT),
    F(rlx_norm_desc, groups, INT),
    END,
};
FIELDS(residual_norm) = {
    F(rlx_residual_norm_desc, rms, BOOL),
    F(rlx_residual_norm_desc, eps, FLOAT),
    END,
};
FIELDS(axis) = {F(rx_axis_attr, axis, INT), END};
FIELDS(attention) = {
    FE(rlx_attention_desc, layout, layout_names),
    F(rlx_attention_desc, scale, FLOAT),
    F(rlx_attention_desc, soft_cap, FLOAT),
    F(rlx_attention_desc, causal, BOOL),
    F(rlx_attention_desc, window, INT),
    F(rlx_attention_desc, page, INT),
    END,
};
FIELDS(ragged_attention) = {
    F(rlx_ragged_attention_desc, page, INT),
    F(rlx_ragged_attention_desc, scale, FLOAT),
    F(rlx_ragged_attention_desc, soft_cap, FLOAT),
    F(rlx_ragged_attention_desc, window, INT),
    END,
};
FIELDS(rope) = {
    F(rlx_rope_desc, interleaved, BOOL),
    F(rlx_rope_desc, n_rot, INT),
    FE(rlx_rope_desc, layout, layout_names),
    F(rlx_rope_desc, backward, BOOL),
    END,
};
FIELDS(shape) = {F(rx_shape_attr, shape, DIMS), END};
FIELDS(perm) = {F(rx_perm_attr, perm, INTS), END};
FIELDS(narrow) = {
    F(rx_narrow_attr, axis, INT),
    F(rx_narrow_attr, start, DIM),
    F(rx_narrow_attr, length, DIM),
    END,
};
FIELDS(slice) = {
    F(rlx_slice_desc, axes, INTS),
    F(rlx_slice_desc, starts, INTS),
    F(rlx_slice_desc, stops, INTS),
    F(rlx_slice_desc, steps, INTS),
    END,
};
FIELDS(split) = {F(rx_split_attr, axis, INT), F(rx_split_attr, sizes, DIMS), END};
FIELDS(tile) = {F(rx_tile_attr, repeats, INTS), END};
FIELDS(pad) = {
    F(rx_pad_attr, before, INTS),
    F(rx_pad_attr, after, INTS),
    FE(rx_pad_attr, mode, pad_names),
    F(rx_pad_attr, value, FLOAT),
    END,
};
FIELDS(axes) = {F(rx_axes_attr, axes, INTS), END};
FIELDS(roll) = {F(rx_roll_attr, axis, INT), F(rx_roll_attr, shift, INT), END};
FIELDS(trilu) = {F(rx_trilu_attr, upper, BOOL), F(rx_trilu_attr, k, INT), END};
FIELDS(gather_nd) = {F(rx_gather_nd_attr, batch_dims, INT), END};
FIELDS(scatter) = {
    F(rx_scatter_attr, axis, INT),
    FE(rx_scatter_attr, mode, scatter_names),
    END,
};
FIELDS(reduce) = {F(rx_reduce_attr, axes, INTS), F(rx_reduce_attr, keepdims, BOOL), END};
FIELDS(arg) = {
    F(rlx_arg_desc, axis, INT),
    F(rlx_arg_desc, keepdims, BOOL),
    F(rlx_arg_desc, last, BOOL),
    F(rlx_arg_desc, out, DTYPE),
    END,
};
FIELDS(cum) = {
    F(rlx_cum_desc, axis, INT),
    F(rlx_cum_desc, exclusive, BOOL),
    F(rlx_cum_desc, reverse, BOOL),
    END,
};
FIELDS(topk) = {
    F(rlx_topk_desc, k, INT),
    F(rlx_topk_desc, axis, INT),
    F(rlx_topk_desc, smallest, BOOL),
    F(rlx_topk_desc, out, DTYPE),
    END,
};
FIELDS(sort) = {
    F(rlx_sort_desc, axis, INT),
    F(rlx_sort_desc, descending, BOOL),
    F(rlx_sort_desc, out, DTYPE),
    END,
};
FIELDS(histogram) = {
    F(rlx_histogram_desc, bins, INT),
    F(rlx_histogram_desc, lo, FLOAT),
    F(rlx_histogram_desc, hi, FLOAT),
    END,
};
FIELDS(one_hot) = {
    F(rlx_one_hot_desc, depth, INT),
    F(rlx_one_hot_desc, axis, INT),
    F(rlx_one_hot_desc, on, FLOAT),
    F(rlx_one_hot_desc, off, FLOAT),
    F(rlx_one_hot_desc, out, DTYPE),
    END,
};
FIELDS(range) = {
    F(rlx_range_desc, start, FLOAT),
    F(rlx_range_desc, step, FLOAT),
    F(rlx_range_desc, n, DIM),
    F(rlx_range_desc, out, DTYPE),
    END,
};
FIELDS(conv) = {
    F(rlx_conv_desc, stride, INTS),
    F(rlx_conv_desc, dilation, INTS),
    F(rlx_conv_desc, pads, INTS),
    F(rlx_conv_desc, groups, INT),
    F(rlx_conv_desc, output_pad, INTS),
    FE(rlx_conv_desc, act, act_names),
    F(rlx_conv_desc, act_last, BOOL),
    END,
};
FIELDS(qconv) = {
    F(rlx_qconv_desc, stride, INTS),
    F(rlx_qconv_desc, dilation, INTS),
    F(rlx_qconv_desc, pads, INTS),
    F(rlx_qconv_desc, groups, INT),
    F(rlx_qconv_desc, x_zero, INT),
    F(rlx_qconv_desc, w_zero, INT),
    F(rlx_qconv_desc, y_zero, INT),
    F(rlx_qconv_desc, out, DTYPE),
    END,
};
FIELDS(pool) = {
    FE(rlx_pool_desc, kind, pool_names),
    F(rlx_pool_desc, kernel, INTS),
    F(rlx_pool_desc, stride, INTS),
    F(rlx_pool_desc, dilation, INTS),
    F(rlx_pool_desc, pads, INTS),
    F(rlx_pool_desc, ceil_mode, BOOL),
    F(rlx_pool_desc, count_include_pad, BOOL),
    F(rlx_pool_desc, p, INT),
    END,
};
FIELDS(im2col) = {
    F(rlx_im2col_desc, kernel, INTS),
    F(rlx_im2col_desc, stride, INTS),
    F(rlx_im2col_desc, dilation, INTS),
    F(rlx_im2col_desc, pads, INTS),
    END,
};
FIELDS(resize) = {
    F(rlx_resize_desc, sizes, DIMS),
    FE(rlx_resize_desc, mode, resize_names),
    FE(rlx_resize_desc, coord, coord_names),
    FE(rlx_resize_desc, nearest, nearest_names),
    F(rlx_resize_desc, cubic_a, FLOAT),
    F(rlx_resize_desc, exclude_outside, BOOL),
    F(rlx_resize_desc, antialias, BOOL),
    F(rlx_resize_desc, extrapolation, FLOAT),
    FIELD(rlx_resize_desc, scale, FLOATS, RLX_MAX_RANK, NULL),
    FIELD(rlx_resize_desc, roi, FLOATS, 2 * RLX_MAX_RANK, NULL),
    END,
};
FIELDS(rnn) = {
    F(rlx_rnn_desc, hidden, INT),
    F(rlx_rnn_desc, layers, INT),
    F(rlx_rnn_desc, bidirectional, BOOL),
    F(rlx_rnn_desc, reverse, BOOL),
    F(rlx_rnn_desc, batch_first, BOOL),
    F(rlx_rnn_desc, relu, BOOL),
    END,
};
FIELDS(fft) = {
    F(rlx_fft_desc, axis, INT),
    F(rlx_fft_desc, n, INT),
    FE(rlx_fft_desc, norm, fft_norm_names),
    END,
};
FIELDS(stft) = {
    F(rlx_stft_desc, n, INT),
    F(rlx_stft_desc, hop, INT),
    F(rlx_stft_desc, two_sided, BOOL),
    END,
};
FIELDS(log_mel) = {F(rx_log_mel_attr, peak_per_frame, BOOL), END};
FIELDS(k) = {F(rx_k_attr, k, INT), END};
FIELDS(gate) = {
    F(rlx_gate_desc, groups, INT),
    F(rlx_gate_desc, keep_groups, INT),
    F(rlx_gate_desc, k, INT),
    F(rlx_gate_desc, scale, FLOAT),
    END,
};
FIELDS(random) = {
    F(rlx_random_desc, shape, DIMS),
    F(rlx_random_desc, seed, INT),
    F(rlx_random_desc, lo, FLOAT),
    F(rlx_random_desc, hi, FLOAT),
    F(rlx_random_desc, out, DTYPE),
    END,
};
FIELDS(sample) = {
    F(rlx_sample_desc, temperature, FLOAT),
    F(rlx_sample_desc, top_k, INT),
    F(rlx_sample_desc, top_p, FLOAT),
    F(rlx_sample_desc, min_p, FLOAT),
    F(rlx_sample_desc, seed, INT),
    END,
};
FIELDS(custom) = {
    F(rlx_custom_desc, op, STRING),
    F(rlx_custom_desc, ints, INTS),
    FIELD(rlx_custom_desc, floats, FLOATS, RLX_MAX_FLOATS, NULL),
    END,
};

#define INFO(attr, type, is_desc) \
    const rx_attr_info rx_attr_##attr = {#attr, #type, is_desc, sizeof(type), attr##_fields};
#define ATTRS(attr, type) INFO(attr, type, false)
#define DESC(attr, type) INFO(attr, type, true)
#include "ir/attr.def"
#undef ATTRS

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Copies what a field points to into the graph's arena. */
static bool copy_pointee(rlx_graph *to, const rx_attr_field *f, char *record)
{
    char *at = record + f->offset;
    if (f->kind == RX_ATTR_STRING) {
        const char *s;
        memcpy(&s, at, sizeof s);
        if (s && !(s = rx_arena_strdup(&to->arena, s)))
            return false;
        memcpy(at, &s, sizeof s);
    } else if (f->kind == RX_ATTR_BYTES) {
        rx_leaf_attr *leaf = (rx_leaf_attr *)record;
        if (leaf->data && !(leaf->data = rx_arena_copy(&to->arena, leaf->data, leaf->bytes)))
            return false;
    } else if (f->kind == RX_ATTR_REGION) {
        rx_region *r = (rx_region *)record;
        r->instr = rx_arena_array_copy(&to->arena, r->instr, r->n_instr, sizeof *r->instr);
        r->out = rx_arena_array_copy(&to->arena, r->out, r->n_out, sizeof *r->out);
        return r->instr && r->out;
    }
    return true;
}

void rx_attr_init(const rx_attr_info *info, void *record)
{
    memset(record, 0, info->size);
    if (info->is_desc)
        memcpy(record, &info->size, sizeof info->size);
}

void *rx_attr_new(rlx_graph *to, const rx_attr_info *info)
{
    void *record = rx_arena_alloc(&to->arena, info->size);
    if (record)
        rx_attr_init(info, record);
    return record;
}

void *rx_attr_copy(rlx_graph *to, const rx_attr_info *info, const void *attr)
{
    if (!attr)
        return rx_attr_new(to, info);
    char *record = rx_arena_copy(&to->arena, attr, info->size);
    if (!record)
        return NULL;
    for (const rx_attr_field *f = info->fields; f->kind != RX_ATTR_END; f++)
        if (!copy_pointee(to, f, record))
            return NULL;
    return record;
}

typedef int64_t dim_map_fn(int64_t d, const int64_t *table);

static int64_t map_handle(int64_t d, const int64_t *table)
{
    return d <= -2 ? table[-d - 2] : d;
}

/* Applies fn to every dimension of a record. -1 ("infer from the rest") is not a dimension. */
static void each_dim(const rx_attr_info *info, void *attr, const int64_t *table, dim_map_fn *fn)
{
    for (const rx_attr_field *f = info->fields; f->kind != RX_ATTR_END; f++) {
        char *at = (char *)attr + f->offset;
        if (f->kind == RX_ATTR_DIM) {
            rlx_dim *d = (rlx_dim *)(void *)at;
            *d = fn(*d, table);
        } else if (f->kind == RX_ATTR_DIMS) {
            rlx_ints *list = (rlx_ints *)(void *)at;
            for (int i = 0; i < list->n; i++)
                list->v[i] = fn(list->v[i], table);
        } else if (f->kind == RX_ATTR_SHAPE) {
            rlx_shape *s = (rlx_shape *)(void *)at;
            for (int i = 0; i < s->rank; i++)
                s->dim[i] = fn(s->dim[i], table);
        }
    }
}

void rx_attr_map_dims(const rx_attr_info *info, void *attr, const rlx_dim *map)
{
    each_dim(info, attr, map, map_handle);
}

void rx_attr_resolve(const rx_attr_info *info, void *attr, const int64_t *values)
{
    each_dim(info, attr, values, map_handle);
}
