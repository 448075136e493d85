/* SPDX-License-Identifier: MIT */
/* Graphs of benchmark cases: how each operation makes its operands of the shapes of a case. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "term.h"

typedef struct builder {
    rlx_graph *g;
    bench_case *c;
    int n_leaves, n_outputs;
    const char *problem; /* why the shapes do not fit; NULL when they do */
    bool chain;          /* products read the result of the one before; the last is the output */
    size_t copies_left;  /* with the one that is being built */
    rlx_value last;      /* result of the one before */
} builder;

static double elements(const rlx_shape *s)
{
    double n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= (double)s->dim[i];
    return n;
}

static rlx_value leaf(builder *b, bool param, rlx_dtype t, int rank, const rlx_dim *dims)
{
    char name[16];
    snprintf(name, sizeof name, "%s%d", param ? "w" : "x", b->n_leaves++);
    return param ? rlx_param(b->g, name, t, rank, dims) : rlx_input(b->g, name, t, rank, dims);
}

static rlx_value input(builder *b, const rlx_shape *s)
{
    return leaf(b, false, b->c->dtype, s->rank, s->dim);
}

/* Indices below `limit`; bench_measure.c fills them in. */
static rlx_value indices(builder *b, const rlx_shape *s, rlx_dim limit)
{
    char name[16];
    snprintf(name, sizeof name, "index%d", b->n_leaves++);
    b->c->index_limit = limit;
    return rlx_input(b->g, name, RLX_I32, s->rank, s->dim);
}

/* True when "a=1, b=2" gives a value to the attribute that `item` ("b=3") begins with. */
static bool is_given(const char *attributes, const char *item)
{
    size_t n = strcspn(item, "=") + 1;
    for (const char *at = attributes; at && *at; at = strstr(at, ", ")) {
        at += at[0] == ',' ? 2 : 0;
        if (!strncmp(at, item, n))
            return true;
    }
    return false;
}

/* Adds the node with the attributes of the case and the defaults for those it does not give, and
 * names all results. */
static void finish(builder *b, const rlx_value *in, size_t n, const char *defaults)
{
    rlx_value out[16];
    char text[2 * sizeof b->c->attributes];
    snprintf(text, sizeof text, "%s", b->c->attributes);
    while (defaults && *defaults) {
        const char *end = strstr(defaults, ", ");
        size_t length = end ? (size_t)(end - defaults) : strlen(defaults), used = strlen(text);
        if (!is_given(b->c->attributes, defaults))
            snprintf(text + used, sizeof text - used, "%s%.*s", used ? ", " : "", (int)length,
                     defaults);
        defaults += length + (end ? 2 : 0);
    }
    size_t n_out = rlx_op(b->g, b->c->op, in, n, text, out, ARRAY_LEN(out));
    b->last = n_out ? out[0] : RLX_NONE;
    if (b->chain && b->copies_left > 1)
        return;
    for (size_t i = 0; i < n_out && i < ARRAY_LEN(out); i++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", b->n_outputs++);
        rlx_output(b->g, name, out[i]);
    }
}

/* The rows of a product: an input, or the first columns of the result before in a chain. */
static rlx_value product_rows(builder *b, rlx_dtype t, int rank, const rlx_dim *dims, rlx_dim n)
{
    rlx_dim k = dims[rank - 1];
    if (b->chain && n < k)
        b->problem = "a chain expects N >= K: each product reads K results of the one before";
    if (!b->chain || !b->last.id)
        return leaf(b, false, t, rank, dims);
    return n > k ? rlx_narrow(b->g, b->last, -1, 0, k) : b->last;
}

/* MxNxK, or BATCHxMxNxK; a second operand [K, N]. */
static void build_matmul(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0];
    if (s->rank != 3 && s->rank != 4) {
        b->problem = "expected MxNxK or BATCHxMxNxK";
        return;
    }
    const rlx_dim *d = s->dim + s->rank - 3;
    bool trans = strstr(b->c->attributes, "trans_b=true") != NULL;
    rlx_dim x[] = {s->dim[0], d[0], d[2]}, w[] = {s->dim[0], trans ? d[1] : d[2],
                                                  trans ? d[2] : d[1]};
    int skip = s->rank == 3;
    rlx_value in[] = {product_rows(b, b->c->dtype, 3 - skip, x + skip, d[1]),
                      leaf(b, skip, b->c->dtype, 3 - skip, w + skip)};
    b->c->flops = 2 * elements(s);
    finish(b, in, 2, attributes);
}

/* MxNxK: x [M, K] of f32 times a packed weight [N, K]. */
static void build_dequant(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0];
    if (s->rank != 3) {
        b->problem = "expected MxNxK";
        return;
    }
    rlx_value in[] = {product_rows(b, RLX_F32, 2, (rlx_dim[]){s->dim[0], s->dim[2]}, s->dim[1]),
                      leaf(b, true, b->c->dtype, 2, s->dim + 1)};
    b->c->flops = 2 * elements(s);
    finish(b, in, 2, attributes);
}

/* BxHxSxD, with kv=HEADS for grouped heads; or the shapes of q and of k and v. */
static void build_attention(builder *b, const char *attributes)
{
    rlx_shape q = b->c->shapes[0], kv = b->c->shapes[b->c->n_shapes > 1];
    if (q.rank != 4 || kv.rank != 4) {
        b->problem = "expected BxHxSxD";
        return;
    }
    if (b->c->kv)
        kv.dim[1] = b->c->kv;
    rlx_value in[] = {input(b, &q), input(b, &kv), input(b, &kv)};
    b->c->flops = 4 * elements(&q) * (double)kv.dim[2];
    if (strstr(b->c->attributes, "causal=true"))
        b->c->flops /= 2;
    finish(b, in, 3, attributes);
}

/* Appends to a list with commas. */
static void add_number(char *list, size_t cap, int64_t v)
{
    size_t n = strlen(list);
    snprintf(list + n, cap - n, "%s%lld", n ? "," : "", (long long)v);
}

/* x NxCxHxW and OUTPUTSxKHxKW; stride=S and pad=P apply to all axes (pad: half of the kernel). */
static void build_conv(builder *b, const char *attributes)
{
    const rlx_shape *x = &b->c->shapes[0], *k = &b->c->shapes[1];
    int n = x->rank - 2;
    if (b->c->n_shapes != 2 || n < 1 || n > 3 || k->rank != n + 1) {
        b->problem = "expected the shapes of x and of the kernel, as in 1x64x56x56:64x3x3";
        return;
    }
    const char *group_text = strstr(b->c->attributes, "groups=");
    rlx_dim groups = group_text ? atoll(group_text + 7) : 1;
    if (groups < 1 || x->dim[1] % groups) {
        b->problem = "expected groups that divide the channels";
        return;
    }
    bool transposed = strstr(b->c->op, "transpose") != NULL;
    rlx_dim w[5] = {k->dim[0], x->dim[1] / groups, 0, 0, 0};
    if (transposed)
        w[0] = x->dim[1], w[1] = k->dim[0] / groups;
    memcpy(w + 2, k->dim + 1, (size_t)n * sizeof *w);
    char defaults[160], strides[48] = "", pads[64] = "";
    double flops = 2 * (double)x->dim[0] * (double)k->dim[0] * (double)(x->dim[1] / groups);
    for (int i = 0; i < 2 * n; i++) {
        rlx_dim size = k->dim[i % n + 1], stride = b->c->stride ? b->c->stride : 1;
        rlx_dim pad = b->c->pad >= 0 ? b->c->pad : size / 2, in = x->dim[i % n + 2];
        add_number(pads, sizeof pads, pad);
        if (i >= n)
            continue;
        add_number(strides, sizeof strides, stride);
        flops *= (double)size * (double)(transposed ? in : (in + 2 * pad - size) / stride + 1);
    }
    (void)attributes;
    snprintf(defaults, sizeof defaults, "stride=[%s], pads=[%s]", strides, pads);
    b->c->flops = strchr(b->c->attributes, '[') ? 0 : flops; /* axes of their own: by the steps */
    rlx_value in[] = {input(b, x), leaf(b, true, b->c->dtype, n + 2, w)};
    finish(b, in, 2, defaults);
}

/* Adds n weights of f32 of the size of an axis after the operands. */
static void build_with_weights(builder *b, const char *attributes, int n_in, int axis, int n)
{
    const rlx_shape *s = &b->c->shapes[0];
    rlx_value in[8];
    axis = axis < 0 ? s->rank + axis : axis;
    if (axis >= s->rank) {
        b->problem = "expected more axes";
        return;
    }
    for (int i = 0; i < n_in; i++)
        in[i] = input(b, s);
    for (int i = 0; i < n; i++)
        in[n_in + i] = leaf(b, true, RLX_F32, 1, &s->dim[axis]);
    finish(b, in, (size_t)(n_in + n), attributes);
}

static void build_layer_norm(builder *b, const char *attributes)
{
    build_with_weights(b, attributes, 1, -1, 2);
}

static void build_rms_norm(builder *b, const char *attributes)
{
    build_with_weights(b, attributes, 1, -1, 1);
}

static void build_residual_norm(builder *b, const char *attributes)
{
    build_with_weights(b, attributes, 2, -1, 1);
}

static void build_channel_norm(builder *b, const char *attributes)
{
    build_with_weights(b, attributes, 1, 1, 2);
}

static void build_batch_norm(builder *b, const char *attributes)
{
    build_with_weights(b, attributes, 1, 1, 4);
}

/* BxHxSxD with tables [S, D/2]. */
static void build_rope(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0];
    if (s->rank != 4) {
        b->problem = "expected BxHxSxD";
        return;
    }
    rlx_dim angles[] = {s->dim[2], s->dim[3] / 2};
    rlx_value in[] = {input(b, s), leaf(b, true, RLX_F32, 2, angles),
                      leaf(b, true, RLX_F32, 2, angles)};
    finish(b, in, 3, attributes);
}

/* The table and the shape of the indices. */
static void build_gather(builder *b, const char *attributes)
{
    const rlx_shape *t = &b->c->shapes[0], *n = &b->c->shapes[1];
    if (b->c->n_shapes != 2 || !t->rank) {
        b->problem = "expected the shapes of the table and of the indices, as in 32000x4096,512";
        return;
    }
    rlx_value in[] = {leaf(b, true, b->c->dtype, t->rank, t->dim), indices(b, n, t->dim[0])};
    double row = elements(t) / (double)(t->dim[0] ? t->dim[0] : 1);
    double read = row / (double)rlx_dtype_block_size(b->c->dtype) *
                  (double)rlx_dtype_block_bytes(b->c->dtype);
    double write = rlx_dtype_is_packed(b->c->dtype) ? 4 * row : read;
    b->c->bytes = elements(n) * (read + write + 4);
    finish(b, in, 2, attributes);
}

/* x, indices and, for the scatters, updates. The indices reach into the shortest axis that they may
 * address, so that they are inside of any. */
static void build_indexed(builder *b, const char *attributes)
{
    const int wanted = strncmp(b->c->op, "scatter", 7) ? 2 : 3;
    const rlx_shape *x = &b->c->shapes[0], *index = &b->c->shapes[1];
    if (b->c->n_shapes != wanted || !x->rank) {
        b->problem = "expected the shapes of x, of the indices and, for a scatter, of the updates";
        return;
    }
    rlx_dim limit = x->dim[0];
    for (int i = 1; i < x->rank; i++)
        limit = x->dim[i] < limit ? x->dim[i] : limit;
    rlx_value in[] = {input(b, x), indices(b, index, limit),
                      wanted == 3 ? input(b, &b->c->shapes[2]) : RLX_NONE};
    finish(b, in, (size_t)wanted, attributes);
}

/* MxNxK,EXPERTS: each row of x [M, K] times one of the matrices, [K, N], or [N, K] of TYPE beside
 * rows of f32. */
static void build_grouped(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0], *bank = &b->c->shapes[1];
    if (b->c->n_shapes != 2 || s->rank != 3 || bank->rank != 1) {
        b->problem = "expected MxNxK and the number of matrices, as in 256x512x512,8";
        return;
    }
    const bool packed = !strcmp(b->c->op, "dequant_grouped_matmul");
    const rlx_dim x[] = {s->dim[0], s->dim[2]}, experts = bank->dim[0];
    const rlx_dim w[] = {experts, s->dim[packed ? 1 : 2], s->dim[packed ? 2 : 1]};
    const rlx_shape rows = {.rank = 1, .dim = {s->dim[0]}};
    rlx_value in[] = {leaf(b, false, packed ? RLX_F32 : b->c->dtype, 2, x),
                      leaf(b, true, b->c->dtype, 3, w), indices(b, &rows, experts)};
    b->c->flops = 2 * elements(s);
    finish(b, in, 3, attributes);
}

/* EXPERTSxNxK,IDS: some matrices of a packed bank as f32. */
static void build_moe_weights(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0], *ids = &b->c->shapes[1];
    if (b->c->n_shapes != 2 || s->rank != 3 || ids->rank != 1) {
        b->problem = "expected EXPERTSxNxK and how many of them, as in 8x512x512,4";
        return;
    }
    rlx_value in[] = {leaf(b, true, b->c->dtype, 3, s->dim), indices(b, ids, s->dim[0])};
    finish(b, in, 2, attributes);
}

/* A literal of n numbers first, first + step, ... in a shape. */
static rlx_value series(builder *b, int rank, const rlx_dim *dims, int32_t first, int32_t step)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    int32_t *data = cli_alloc_array(n, sizeof *data);
    for (size_t i = 0; i < n; i++)
        data[i] = first + (int32_t)i * step;
    rlx_value v = rlx_constant(b->g, RLX_I32, rank, dims, data, n * sizeof *data);
    free(data);
    return v;
}

/* SxHxTxD: a row of each of S sequences over the T tokens of its pages of 16. */
static void build_ragged(builder *b, const char *attributes)
{
    enum { PAGE = 16 };
    const rlx_shape *s = &b->c->shapes[0];
    if (s->rank != 4 || s->dim[2] % PAGE || s->dim[0] * s->dim[2] > INT32_MAX) {
        b->problem = "expected SEQUENCESxHEADSxTOKENSxD, TOKENS a multiple of 16";
        return;
    }
    const rlx_dim n = s->dim[0], tokens = s->dim[2], d = s->dim[3];
    const rlx_dim q[] = {n, s->dim[1], d}, pages[] = {n, tokens / PAGE};
    const rlx_dim kv[] = {n * tokens, b->c->kv ? b->c->kv : s->dim[1], d};
    rlx_value in[] = {leaf(b, false, b->c->dtype, 3, q), leaf(b, false, b->c->dtype, 3, kv),
                      leaf(b, false, b->c->dtype, 3, kv), series(b, 1, &n, 0, 1),
                      series(b, 1, &n, (int32_t)tokens, 0), series(b, 2, pages, 0, 1)};
    b->c->flops = 4 * elements(s);
    finish(b, in, 6, attributes);
}

/* FRAMESxBINSx2,MELSxBINS: the filters are triangles that overlap by half, as those of speech
 * models, which are 0 nearly everywhere. */
static void build_log_mel(builder *b, const char *attributes)
{
    const rlx_shape *x = &b->c->shapes[0], *w = &b->c->shapes[1];
    if (b->c->n_shapes != 2 || w->rank != 2 || x->rank < 2) {
        b->problem = "expected FRAMESxBINSx2,MELSxBINS";
        return;
    }
    const rlx_dim mels = w->dim[0], bins = w->dim[1];
    const float width = (float)bins / (float)(mels + 1);
    float *data = cli_alloc_array((size_t)(mels * bins), sizeof *data);
    for (rlx_dim m = 0; m < mels; m++)
        for (rlx_dim i = 0; i < bins; i++)
            data[m * bins + i] = fmaxf(0, 1 - fabsf((float)i - (float)(m + 1) * width) / width);
    rlx_value in[] = {input(b, x), rlx_constant(b->g, RLX_F32, 2, w->dim, data,
                                                (size_t)(mels * bins) * sizeof *data)};
    free(data);
    finish(b, in, 2, attributes);
}

/* x of f32 to i8, or x of TYPE to f32, by one scale. */
static void build_quantize(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0];
    rlx_value in[] = {input(b, s), leaf(b, true, RLX_F32, 0, NULL)};
    finish(b, in, 2, attributes);
}

/* No operands: numbers of TYPE in this shape. */
static void build_random(builder *b, const char *attributes)
{
    char shape[160] = "", defaults[200];
    for (int i = 0; i < b->c->shapes[0].rank; i++)
        add_number(shape, sizeof shape, b->c->shapes[0].dim[i]);
    (void)attributes;
    snprintf(defaults, sizeof defaults, "shape=[%s], out=%s", shape, rlx_dtype_name(b->c->dtype));
    finish(b, NULL, 0, defaults);
}

static void build_where(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0];
    rlx_value in[] = {leaf(b, false, RLX_BOOL, s->rank, s->dim), input(b, s), input(b, s)};
    finish(b, in, 3, attributes);
}

/* SxBxIxH: one layer over S steps; takes no attributes. */
static void build_recurrent(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0];
    if (s->rank != 4) {
        b->problem = "expected STEPSxBATCHxINPUTSxHIDDEN";
        return;
    }
    rlx_dim gates = !strcmp(b->c->op, "lstm") ? 4 : !strcmp(b->c->op, "gru") ? 3 : 1;
    rlx_dim hidden = s->dim[3];
    rlx_rnn_desc d = {RLX_INIT(rlx_rnn_desc), .hidden = hidden};
    rlx_value x = leaf(b, false, b->c->dtype, 3, s->dim);
    rlx_rnn_layer l = {
        .w_ih = leaf(b, true, b->c->dtype, 3, (rlx_dim[]){1, gates * hidden, s->dim[2]}),
        .w_hh = leaf(b, true, b->c->dtype, 3, (rlx_dim[]){1, gates * hidden, hidden})};
    (void)attributes;
    b->c->flops = 2 * (double)(s->dim[0] * s->dim[1] * gates * hidden) *
                  (double)(s->dim[2] + hidden);
    char name[16];
    snprintf(name, sizeof name, "y%d", b->n_outputs++);
    rlx_output(b->g, name, gates == 4   ? rlx_lstm(b->g, x, &l, NULL, &d, NULL)
                           : gates == 3 ? rlx_gru(b->g, x, &l, RLX_NONE, &d, NULL)
                                        : rlx_rnn(b->g, x, &l, RLX_NONE, &d, NULL));
}

/* BxSxExN */
static void build_selective_scan(builder *b, const char *attributes)
{
    const rlx_shape *s = &b->c->shapes[0];
    if (s->rank != 4) {
        b->problem = "expected BATCHxSTEPSxCHANNELSxSTATES";
        return;
    }
    rlx_dim n[] = {s->dim[0], s->dim[1], s->dim[3]};
    rlx_value in[] = {leaf(b, false, b->c->dtype, 3, s->dim),
                      leaf(b, false, b->c->dtype, 3, s->dim),
                      leaf(b, true, b->c->dtype, 2, s->dim + 2), leaf(b, false, b->c->dtype, 3, n),
                      leaf(b, false, b->c->dtype, 3, n)};
    finish(b, in, 5, attributes);
}

/* As many operands as there are shapes. */
static void build_any(builder *b, const char *attributes)
{
    rlx_value in[BENCH_SHAPES];
    for (int i = 0; i < b->c->n_shapes; i++)
        in[i] = input(b, &b->c->shapes[i]);
    finish(b, in, (size_t)b->c->n_shapes, attributes);
}

/* Two operands; one shape serves both. */
static void build_binary(builder *b, const char *attributes)
{
    rlx_value in[] = {input(b, &b->c->shapes[0]), input(b, &b->c->shapes[b->c->n_shapes > 1])};
    finish(b, in, 2, attributes);
}

static void build_fma(builder *b, const char *attributes)
{
    rlx_value in[] = {input(b, &b->c->shapes[0]), input(b, &b->c->shapes[0]),
                      input(b, &b->c->shapes[0])};
    finish(b, in, 3, attributes);
}

/* ---- The forms ------------------------------------------------------------------------------- */

/* Operations that are not just operands of the given shapes: names (separated by blanks), form,
 * builder and the attributes used when the case gives none. */
static const struct form {
    const char *ops, *shape;
    void (*build)(builder *b, const char *attributes);
    const char *attributes;
} forms[] = {
    {"matmul", "MxNxK or BATCHxMxNxK", build_matmul, NULL},
    {"dequant_matmul", "MxNxK (TYPE: that of the weight)", build_dequant, NULL},
    {"attention", "BxHxSxD[,BxHKVxSKxD][:kv=HEADS]", build_attention, NULL},
    {"conv1d conv2d conv3d conv_transpose2d", "NxCxHxW:OUTPUTSxKHxKW[:stride=S][:pad=P][:groups=G]",
     build_conv, NULL},
    {"grouped_matmul", "MxNxK,EXPERTS", build_grouped, NULL},
    {"dequant_grouped_matmul", "MxNxK,EXPERTS (TYPE: that of the weight)", build_grouped, NULL},
    {"dequant_moe_weights", "EXPERTSxNxK,IDS", build_moe_weights, NULL},
    {"ragged_attention", "SEQUENCESxHEADSxTOKENSxD[:kv=HEADS]", build_ragged, "page=16"},
    {"quantize dequantize", "SHAPE", build_quantize, NULL},
    {"random_uniform random_normal", "SHAPE", build_random, NULL},
    {"layer_norm", "ROWSxN", build_layer_norm, NULL},
    {"rms_norm", "ROWSxN", build_rms_norm, NULL},
    {"residual_norm", "ROWSxN", build_residual_norm, "rms=true"},
    {"group_norm", "NxCxHxW", build_channel_norm, "groups=8"},
    {"instance_norm layer_norm2d", "NxCxHxW", build_channel_norm, NULL},
    {"batch_norm_inference", "NxCxHxW", build_batch_norm, NULL},
    {"rope", "BxHxSxD", build_rope, NULL},
    {"gather", "TABLE,INDICES (32000x4096,512)", build_gather, NULL},
    {"gather_elements", "SHAPE,INDICES", build_indexed, "axis=-1"},
    {"gather_nd", "SHAPE,INDICES (64x64,1000x2)", build_indexed, NULL},
    {"scatter_add scatter_elements scatter_nd", "SHAPE,INDICES,UPDATES", build_indexed, NULL},
    {"lstm gru rnn", "STEPSxBATCHxINPUTSxHIDDEN", build_recurrent, NULL},
    {"selective_scan", "BATCHxSTEPSxCHANNELSxSTATES", build_selective_scan, NULL},
    {"where", "SHAPE", build_where, NULL},
    {"fma", "SHAPE", build_fma, NULL},
    {"add sub mul div max min pow mod and or xor shl shr atan2 eq ne lt le gt ge swiglu",
     "SHAPE[,SHAPE]", build_binary, NULL},
    {"concat", "SHAPE,SHAPE...", build_any, "axis=-1"},
    {"softmax log_softmax cumsum cumprod cummax sort argsort argmax argmin", "ROWSxN", build_any,
     "axis=-1"},
    {"top_k", "ROWSxN", build_any, "axis=-1, k=8"},
    {"reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_log_sum "
     "reduce_log_sum_exp reduce_sum_square reduce_any reduce_all",
     "ROWSxN", build_any, "axes=[-1]"},
    {"rfft", "ROWSxN", build_any, "axis=-1"},
    {"fft ifft irfft", "ROWSxNx2", build_any, "axis=-1"},
    {"stft", "ROWSxN", build_any, "n=400, hop=160"},
    {"pool2d", "NxCxHxW", build_any, "kernel=[2,2], stride=[2,2]"},
    {"pool3d", "NxCxDxHxW", build_any, "kernel=[2,2,2], stride=[2,2,2]"},
    {"im2col", "NxCxHxW", build_any, "kernel=[3,3], pads=[1,1,1,1]"},
    {"log_mel", "FRAMESxBINSx2,MELSxBINS", build_log_mel, NULL},
    {"welch_peaks", "SEGMENTSxBINSx2", build_any, "k=8"},
    {"knn", "NxN", build_any, "k=8"},
    {"group_limited_gate", "ROWSxEXPERTS", build_any, "groups=8, keep_groups=4, k=8"},
    {"histogram", "N", build_any, "bins=256, lo=-1, hi=1"},
    {"cast", "SHAPE", build_any, "to=f16"},
    {"clamp", "SHAPE", build_any, "lo=-0.5, hi=0.5"},
    {"one_hot", "ROWS", build_any, "depth=1024, axis=-1"},
    {"roll", "ROWSxN", build_any, "axis=-1, shift=1"},
    {"reverse", "ROWSxN", build_any, "axes=[-1]"},
};

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (; *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " ");
        if (n == length && !strncmp(words, word, n))
            return true;
        words += n;
    }
    return false;
}

static void build_copy(builder *b, size_t copies)
{
    size_t i = 0;
    while (i < ARRAY_LEN(forms) && !has_word(forms[i].ops, b->c->op))
        i++;
    if (b->chain && !has_word("matmul dequant_matmul", b->c->op))
        b->problem = "a chain is made of matmul or dequant_matmul";
    else if (bench_is_model(b->c->op))
        b->problem = copies > 1 ? "a model has no copies" : bench_model_build(b->g, b->c);
    else if (i < ARRAY_LEN(forms))
        forms[i].build(b, forms[i].attributes);
    else
        build_any(b, NULL);
}

rlx_graph *bench_build(bench_case *c, size_t copies, bool chain)
{
    builder b = {.g = rlx_graph_create(c->name), .c = c, .chain = chain};
    rlx_error err = {0};
    if (!b.g) {
        cli_fail("out of memory: a graph");
        return NULL;
    }
    for (b.copies_left = copies; b.copies_left && !b.problem; b.copies_left--)
        build_copy(&b, copies);
    if (b.problem)
        cli_fail("'%s': %s", c->name, b.problem);
    else if (rlx_graph_status(b.g, &err) != RLX_OK)
        cli_fail("'%s': %s", c->name, err.text);
    else
        return b.g;
    rlx_graph_destroy(b.g);
    return NULL;
}

void bench_print_forms(void)
{
    puts("OP:TYPE:SHAPE, where a shape is as for these operations, and for all others the shapes\n"
         "of the operands, separated by commas; :ATTRIBUTE=VALUE may follow.\n");
    table t;
    table_init(&t, "lll", "operation|SHAPE|default");
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        size_t n = strcspn(forms[i].ops, " "), others = 0;
        for (const char *at = forms[i].ops; *at; at++)
            others += *at == ' ';
        if (others)
            table_cell(&t, "%.*s and %zu like it", (int)n, forms[i].ops, others);
        else
            table_cell(&t, "%s", forms[i].ops);
        table_cell(&t, "%s", forms[i].shape);
        table_cell(&t, "%s", forms[i].attributes ? forms[i].attributes : "");
    }
    const char *name, *shape;
    for (size_t i = 0; bench_model_form(i, &name, &shape); i++) {
        table_cell(&t, "%s (a model)", name);
        table_cell(&t, "%s", shape);
        table_cell(&t, "%s", "");
    }
    table_print(&t, 2);
}
