/* SPDX-License-Identifier: MIT */
/* Whole models with random weights, as cases: speed does not depend on the numbers. The shapes are
 * those of all-MiniLM-L6-v2, SmolLM2-135M, Llama 3 8B and ResNet-50. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

typedef struct net {
    rlx_graph *g;
    rlx_dtype type;   /* of activations and float weights */
    rlx_dtype packed; /* of the decoder's weights */
    int n_weights;
    const struct decoder_shape *decoder;
} net;

static rlx_value weight(net *n, rlx_dtype t, int rank, const rlx_dim *dims)
{
    char name[16];
    snprintf(name, sizeof name, "w%d", n->n_weights++);
    return rlx_param(n->g, name, t, rank, dims);
}

static rlx_value vector(net *n, rlx_dim size) { return weight(n, RLX_F32, 1, &size); }

static rlx_value reshape4(net *n, rlx_value x, const rlx_dim d[4])
{
    return rlx_reshape(n->g, x, 4, d);
}

/* ---- An encoder: all-MiniLM-L6-v2 ------------------------------------------------------------ */

enum { ENCODER_LAYERS = 6, ENCODER_WIDTH = 384, ENCODER_HEADS = 12, ENCODER_INNER = 1536 };

/* act(x w + b) + residual */
static rlx_value linear(net *n, rlx_value x, rlx_dim in, rlx_dim out, rlx_act act,
                        rlx_value residual)
{
    rlx_value w = weight(n, n->type, 2, (rlx_dim[]){out, in});
    return rlx_matmul_ex(n->g, x, w, vector(n, out), residual,
                         &(rlx_matmul_desc){RLX_INIT(rlx_matmul_desc), .trans_b = true,
                                            .act = act});
}

static rlx_value encoder_norm(net *n, rlx_value x)
{
    rlx_value gamma = vector(n, ENCODER_WIDTH), beta = vector(n, ENCODER_WIDTH);
    return rlx_layer_norm(n->g, x, gamma, beta, NULL);
}

static rlx_value encoder_layer(net *n, rlx_value x, rlx_dim batch, rlx_dim tokens)
{
    const rlx_dim w = ENCODER_WIDTH, split[] = {batch, tokens, ENCODER_HEADS, w / ENCODER_HEADS};
    rlx_value qkv[3];
    for (int i = 0; i < 3; i++)
        qkv[i] = reshape4(n, linear(n, x, w, w, RLX_ACT_NONE, RLX_NONE), split);
    rlx_value y = rlx_attention(n->g, qkv[0], qkv[1], qkv[2], RLX_NONE,
                                &(rlx_attention_desc){RLX_INIT(rlx_attention_desc),
                                                      .layout = RLX_BSHD});
    y = rlx_reshape(n->g, y, 3, (rlx_dim[]){batch, tokens, w});
    x = encoder_norm(n, linear(n, y, w, w, RLX_ACT_NONE, x));
    y = linear(n, x, w, ENCODER_INNER, RLX_ACT_GELU, RLX_NONE);
    return encoder_norm(n, linear(n, y, ENCODER_INNER, w, RLX_ACT_NONE, x));
}

static const char *build_minilm(net *n, const rlx_shape *s)
{
    if (s->rank != 2)
        return "expected BATCHxTOKENS";
    const rlx_dim batch = s->dim[0], tokens = s->dim[1], table[] = {30522, ENCODER_WIDTH};
    rlx_value ids = rlx_input(n->g, "tokens", RLX_I32, 2, s->dim);
    rlx_value x = rlx_gather(n->g, weight(n, n->type, 2, table), ids, 0);
    rlx_value places = weight(n, n->type, 2, (rlx_dim[]){tokens, ENCODER_WIDTH});
    x = encoder_norm(n, rlx_add(n->g, x, places));
    for (int i = 0; i < ENCODER_LAYERS; i++)
        x = encoder_layer(n, x, batch, tokens);
    rlx_output(n->g, "y", rlx_reduce(n->g, RLX_REDUCE_MEAN, x, (int64_t[]){1}, 1, false));
    return NULL;
}

/* ---- Decoders: SmolLM2-135M, Llama 3 8B ------------------------------------------------------ */

typedef struct decoder_shape {
    int layers;
    rlx_dim width, heads, kv_heads, head, inner, vocab;
    rlx_dtype table; /* of the embedding, which is the head too; RLX_NO_TYPE: as the weights */
} decoder_shape;

static const decoder_shape smollm2 = {30, 576, 9, 3, 64, 1536, 49152, RLX_Q8_0};
static const decoder_shape llama_8b = {32, 4096, 32, 8, 128, 14336, 128256, RLX_NO_TYPE};

static rlx_value packed(net *n, rlx_value x, rlx_dim in, rlx_dim out, rlx_value residual)
{
    rlx_value w = weight(n, n->packed, 2, (rlx_dim[]){out, in});
    return rlx_dequant_matmul_ex(n->g, x, w, RLX_NONE, RLX_NONE, RLX_NONE, residual, NULL);
}

/* A new key or value in the cache; all of it as [1, keys, heads, size]. */
static rlx_value cached(net *n, rlx_value x, rlx_dim keys, rlx_value places, int layer, char kind)
{
    char name[16];
    snprintf(name, sizeof name, "%c%d", kind, layer);
    const rlx_dim heads = n->decoder->kv_heads, head = n->decoder->head;
    rlx_dim size[] = {keys, heads, head}, all[] = {1, keys, heads, head};
    rlx_value state = rlx_state(n->g, name, RLX_F16, 3, size);
    rlx_value update = rlx_reshape(n->g, x, 3, (rlx_dim[]){-1, heads, head});
    return reshape4(n, rlx_state_write(n->g, state, update, places, 0), all);
}

typedef struct decoding {
    rlx_dim tokens, keys;
    rlx_value positions, places, lengths, cos, sin;
} decoding;

static rlx_value rotate(net *n, rlx_value x, const decoding *d, rlx_dim heads)
{
    x = reshape4(n, x, (rlx_dim[]){1, d->tokens, heads, n->decoder->head});
    return rlx_rope(n->g, x, d->cos, d->sin, d->positions,
                    &(rlx_rope_desc){RLX_INIT(rlx_rope_desc), .layout = RLX_BSHD,
                                     .interleaved = true});
}

static rlx_value decoder_layer(net *n, rlx_value x, const decoding *d, int layer)
{
    const decoder_shape *s = n->decoder;
    const rlx_dim q_width = s->heads * s->head, kv_width = s->kv_heads * s->head;
    rlx_value h = rlx_rms_norm(n->g, x, vector(n, s->width), NULL);
    rlx_value q = rotate(n, packed(n, h, s->width, q_width, RLX_NONE), d, s->heads);
    rlx_value k = rotate(n, packed(n, h, s->width, kv_width, RLX_NONE), d, s->kv_heads);
    rlx_value v = packed(n, h, s->width, kv_width, RLX_NONE);
    k = cached(n, k, d->keys, d->places, layer, 'k');
    v = cached(n, v, d->keys, d->places, layer, 'v');
    rlx_value extra[3] = {d->lengths, RLX_NONE, RLX_NONE};
    rlx_value y = rlx_attention_ex(n->g, q, k, v, RLX_NONE, extra,
                                   &(rlx_attention_desc){RLX_INIT(rlx_attention_desc),
                                                         .layout = RLX_BSHD, .causal = true});
    y = rlx_reshape(n->g, y, 2, (rlx_dim[]){d->tokens, q_width});
    x = packed(n, y, q_width, s->width, x);
    h = rlx_rms_norm(n->g, x, vector(n, s->width), NULL);
    rlx_value gate = packed(n, h, s->width, s->inner, RLX_NONE);
    rlx_value up = packed(n, h, s->width, s->inner, RLX_NONE);
    return packed(n, rlx_swiglu(n->g, gate, up), s->inner, s->width, x);
}

/* `tokens` new tokens after keys - tokens. Where they stand comes from outside, as in models from
 * files: bench_model_counts. */
static const char *build_decoder(net *n, rlx_dim tokens, rlx_dim keys)
{
    const decoder_shape *s = n->decoder;
    const rlx_dim angles[] = {keys, s->head / 2}, table[] = {s->vocab, s->width};
    const rlx_dim row[] = {1, tokens};
    decoding d = {.tokens = tokens, .keys = keys,
                  .positions = rlx_input(n->g, "positions", RLX_I32, 2, row),
                  .places = rlx_input(n->g, "places", RLX_I32, 1, &tokens),
                  .lengths = rlx_input(n->g, "lengths", RLX_I32, 1, row),
                  .cos = weight(n, RLX_F32, 2, angles), .sin = weight(n, RLX_F32, 2, angles)};
    rlx_value ids = rlx_input(n->g, "tokens", RLX_I32, 1, &tokens);
    rlx_value embedding = weight(n, s->table ? s->table : n->packed, 2, table);
    rlx_value x = rlx_gather(n->g, embedding, ids, 0);
    for (int i = 0; i < s->layers; i++)
        x = decoder_layer(n, x, &d, i);
    x = rlx_rms_norm(n->g, rlx_narrow(n->g, x, 0, tokens - 1, 1), vector(n, s->width), NULL);
    rlx_value logits = rlx_dequant_matmul(n->g, x, embedding);
    rlx_output(n->g, "token", rlx_argmax(n->g, logits, &(rlx_arg_desc){RLX_INIT(rlx_arg_desc),
                                                                       .axis = -1}));
    return NULL;
}

static const char *build_prompt(net *n, const rlx_shape *s)
{
    return s->rank != 1 ? "expected TOKENS" : build_decoder(n, s->dim[0], s->dim[0]);
}

static const char *build_decode(net *n, const rlx_shape *s)
{
    return s->rank != 1 ? "expected KEYS" : build_decoder(n, 1, s->dim[0]);
}

/* ---- A convolutional network: ResNet-50 ------------------------------------------------------ */

typedef struct conv_shape {
    rlx_dim in, out, size, stride;
} conv_shape;

static rlx_value conv(net *n, rlx_value x, conv_shape c, bool relu, rlx_value residual)
{
    rlx_value w = weight(n, n->type, 4, (rlx_dim[]){c.out, c.in, c.size, c.size});
    int64_t pad = c.size / 2;
    rlx_conv_desc d = {RLX_INIT(rlx_conv_desc), .stride = {2, {c.stride, c.stride}},
                       .pads = {4, {pad, pad, pad, pad}}, .act = relu ? RLX_ACT_RELU : RLX_ACT_NONE,
                       .act_last = true};
    return rlx_conv_ex(n->g, 2, x, w, vector(n, c.out), residual, &d);
}

static rlx_value bottleneck(net *n, rlx_value x, rlx_dim in, rlx_dim inner, rlx_dim stride)
{
    rlx_value y = conv(n, x, (conv_shape){in, inner, 1, 1}, true, RLX_NONE);
    y = conv(n, y, (conv_shape){inner, inner, 3, stride}, true, RLX_NONE);
    if (in != 4 * inner)
        x = conv(n, x, (conv_shape){in, 4 * inner, 1, stride}, false, RLX_NONE);
    return conv(n, y, (conv_shape){inner, 4 * inner, 1, 1}, true, x);
}

static const char *build_resnet(net *n, const rlx_shape *s)
{
    static const int blocks[] = {3, 4, 6, 3};
    if (s->rank != 1)
        return "expected IMAGES";
    rlx_value x = rlx_input(n->g, "image", n->type, 4, (rlx_dim[]){s->dim[0], 3, 224, 224});
    x = conv(n, x, (conv_shape){3, 64, 7, 2}, true, RLX_NONE);
    x = rlx_pool2d(n->g, x, &(rlx_pool_desc){RLX_INIT(rlx_pool_desc), .kernel = {2, {3, 3}},
                                             .stride = {2, {2, 2}}, .pads = {4, {1, 1, 1, 1}}});
    rlx_dim in = 64;
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++) {
            rlx_dim inner = 64 << stage;
            x = bottleneck(n, x, in, inner, i == 0 && stage > 0 ? 2 : 1);
            in = 4 * inner;
        }
    x = rlx_reduce(n->g, RLX_REDUCE_MEAN, x, (int64_t[]){2, 3}, 2, false);
    rlx_output(n->g, "y", linear(n, x, in, 1000, RLX_ACT_NONE, RLX_NONE));
    return NULL;
}

/* ---- The table ------------------------------------------------------------------------------- */

static const struct model {
    const char *name, *shape;
    const char *(*build)(net *n, const rlx_shape *s);
    const decoder_shape *decoder;
} models[] = {
    {"minilm", "BATCHxTOKENS", build_minilm, NULL},
    {"smollm2_prompt", "TOKENS (TYPE: that of the weights)", build_prompt, &smollm2},
    {"smollm2_decode", "KEYS (TYPE: that of the weights)", build_decode, &smollm2},
    {"llama_8b_prompt", "TOKENS (TYPE: that of the weights)", build_prompt, &llama_8b},
    {"llama_8b_decode", "KEYS (TYPE: that of the weights)", build_decode, &llama_8b},
    {"resnet50", "IMAGES", build_resnet, NULL},
};

static const char *const suite[] = {
    "minilm:f32:1x16", "minilm:f32:1x128", "minilm:f32:1x512", "minilm:f32:8x128",
    "smollm2_prompt:q4_1:512", "smollm2_decode:q4_1:512", "resnet50:f32:1",
};

static const struct model *find_model(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(models); i++)
        if (!strcmp(models[i].name, name))
            return &models[i];
    return NULL;
}

bool bench_is_model(const char *name) { return find_model(name) != NULL; }

const char *bench_model_suite(size_t i) { return i < ARRAY_LEN(suite) ? suite[i] : NULL; }

bool bench_model_form(size_t i, const char **name, const char **shape)
{
    if (i >= ARRAY_LEN(models))
        return false;
    *name = models[i].name;
    *shape = models[i].shape;
    return true;
}

bool bench_model_counts(const bench_case *c, const char *input, int32_t *first)
{
    const struct model *m = find_model(c->op);
    if (!m || !m->decoder)
        return false;
    const int32_t keys = (int32_t)c->shapes[0].dim[0], tokens = m->build == build_decode ? 1 : keys;
    *first = !strcmp(input, "lengths") ? keys : keys - tokens;
    return !strcmp(input, "lengths") || !strcmp(input, "positions") || !strcmp(input, "places");
}

const char *bench_model_build(rlx_graph *g, const bench_case *c)
{
    const struct model *m = find_model(c->op);
    bool is_packed = rlx_dtype_is_packed(c->dtype);
    net n = {.g = g, .type = is_packed ? RLX_F32 : c->dtype, .packed = c->dtype,
             .decoder = m->decoder};
    if (c->n_shapes != 1 || c->shapes[0].rank < 1)
        return "expected one shape";
    for (int i = 0; i < c->shapes[0].rank; i++)
        if (c->shapes[0].dim[i] < 1)
            return "expected sizes above 0";
    if (is_packed && !m->decoder)
        return "expected a float type";
    return m->build(&n, &c->shapes[0]);
}
