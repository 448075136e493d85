/* SPDX-License-Identifier: MIT */
/* The networks of nets.h, built through the public API. */
#include "support/nets.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct net {
    rlx_graph *g;
    char name[64];
} net;

static const char *label(net *n, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(n->name, sizeof n->name, fmt, args);
    va_end(args);
    return n->name;
}

static rlx_value vector(net *n, const char *name, int64_t size)
{
    return rlx_param(n->g, name, RLX_F32, 1, (const rlx_dim[]){size});
}

static rlx_value matrix(net *n, const char *name, int64_t rows, int64_t columns)
{
    return rlx_param(n->g, name, RLX_F32, 2, (const rlx_dim[]){rows, columns});
}

static rlx_graph *finish(net *n)
{
    rlx_error err;
    if (rlx_graph_status(n->g, &err) == RLX_OK)
        return n->g;
    printf("network '%s': %s\n", rlx_graph_name(n->g), err.text);
    rlx_graph_destroy(n->g);
    return NULL;
}

/* ---- Encoder -------------------------------------------------------------------------------- */

static rlx_value linear(net *n, rlx_value x, const char *what, int layer, int64_t from, int64_t to)
{
    rlx_value w = matrix(n, label(n, "%d.%s.w", layer, what), from, to);
    rlx_value b = vector(n, label(n, "%d.%s.b", layer, what), to);
    rlx_value y = rlx_named(n->g, rlx_matmul(n->g, x, w), label(n, "%d.%s", layer, what));
    return rlx_add(n->g, y, b);
}

/* [B,S,H*D] -> [B,H,S,D] */
static rlx_value split_heads(net *n, rlx_value x, const net_size *s, int64_t heads)
{
    int64_t size = s->width / s->heads;
    rlx_value y = rlx_reshape(n->g, x, 4, (const rlx_dim[]){s->batch, s->seq, heads, size});
    return rlx_transpose(n->g, y, (const int[]){0, 2, 1, 3});
}

static rlx_value merge_heads(net *n, rlx_value x, const net_size *s)
{
    rlx_value y = rlx_transpose(n->g, x, (const int[]){0, 2, 1, 3});
    return rlx_reshape(n->g, y, 3, (const rlx_dim[]){s->batch, s->seq, s->width});
}

static rlx_value norm(net *n, rlx_value x, const char *what, int layer, int64_t width)
{
    rlx_value gamma = vector(n, label(n, "%d.%s.gamma", layer, what), width);
    rlx_value beta = vector(n, label(n, "%d.%s.beta", layer, what), width);
    return rlx_layer_norm(n->g, x, gamma, beta, NULL);
}

static rlx_value encoder_layer(net *n, rlx_value x, const net_size *s, int layer)
{
    rlx_value q = split_heads(n, linear(n, x, "q", layer, s->width, s->width), s, s->heads);
    rlx_value k = split_heads(n, linear(n, x, "k", layer, s->width, s->width), s, s->heads);
    rlx_value v = split_heads(n, linear(n, x, "v", layer, s->width, s->width), s, s->heads);
    rlx_value a = merge_heads(n, rlx_attention(n->g, q, k, v, RLX_NONE, NULL), s);
    a = linear(n, a, "o", layer, s->width, s->width);
    x = norm(n, rlx_add(n->g, x, a), "norm1", layer, s->width);
    rlx_value h = rlx_gelu(n->g, linear(n, x, "up", layer, s->width, s->hidden));
    h = linear(n, h, "down", layer, s->hidden, s->width);
    return norm(n, rlx_add(n->g, x, h), "norm2", layer, s->width);
}

rlx_graph *net_encoder(const net_size *s)
{
    net n = {.g = rlx_graph_create("encoder")};
    rlx_value x = rlx_input(n.g, "x", RLX_F32, 3, (const rlx_dim[]){s->batch, s->seq, s->width});
    for (int i = 0; i < s->layers; i++)
        x = encoder_layer(&n, x, s, i);
    rlx_output(n.g, "y", x);
    return finish(&n);
}

/* ---- Decoder -------------------------------------------------------------------------------- */

typedef struct decode {
    rlx_value cos, sin, position, length;
} decode;

/* [1,1,H*D] -> [1,H,1,D] */
static rlx_value decode_heads(net *n, rlx_value x, int64_t heads, int64_t size)
{
    return rlx_reshape(n->g, x, 4, (const rlx_dim[]){1, heads, 1, size});
}

static rlx_value project(net *n, rlx_value x, const char *what, int layer, int64_t from, int64_t to)
{
    return rlx_matmul(n->g, x, matrix(n, label(n, "%d.%s", layer, what), from, to));
}

/* Writes one row into the cache [1,H,seq,D] and returns it. */
static rlx_value cached(net *n, rlx_value row, const char *what, int layer, const net_size *s,
                        const decode *d)
{
    rlx_dim dims[] = {1, s->kv_heads, s->seq, s->width / s->heads};
    rlx_value cache = rlx_state(n->g, label(n, "%d.%s", layer, what), RLX_F32, 4, dims);
    return rlx_state_write(n->g, cache, row, d->position, 2);
}

static rlx_value decoder_layer(net *n, rlx_value x, const net_size *s, int layer, const decode *d)
{
    rlx_graph *g = n->g;
    int64_t size = s->width / s->heads, kv = s->kv_heads * size;
    rlx_value h = rlx_rms_norm(g, x, vector(n, label(n, "%d.norm1", layer), s->width), NULL);
    rlx_value q = decode_heads(n, project(n, h, "q", layer, s->width, s->width), s->heads, size);
    rlx_value k = decode_heads(n, project(n, h, "k", layer, s->width, kv), s->kv_heads, size);
    rlx_value v = decode_heads(n, project(n, h, "v", layer, s->width, kv), s->kv_heads, size);
    q = rlx_rope(g, q, d->cos, d->sin, d->position, NULL);
    k = rlx_rope(g, k, d->cos, d->sin, d->position, NULL);
    k = cached(n, k, "k_cache", layer, s, d);
    v = cached(n, v, "v_cache", layer, s, d);
    rlx_value extra[3] = {d->length};
    rlx_attention_desc causal = {RLX_INIT(rlx_attention_desc), .causal = true};
    rlx_value a = rlx_attention_ex(g, q, k, v, RLX_NONE, extra, &causal);
    a = rlx_reshape(g, a, 3, (const rlx_dim[]){1, 1, s->width});
    x = rlx_add(g, x, project(n, a, "o", layer, s->width, s->width));
    h = rlx_rms_norm(g, x, vector(n, label(n, "%d.norm2", layer), s->width), NULL);
    rlx_value gate = project(n, h, "gate", layer, s->width, s->hidden);
    rlx_value up = project(n, h, "up", layer, s->width, s->hidden);
    h = rlx_mul(g, rlx_silu(g, gate), up);
    return rlx_add(g, x, project(n, h, "down", layer, s->hidden, s->width));
}

rlx_graph *net_decoder(const net_size *s)
{
    net n = {.g = rlx_graph_create("decoder")};
    int64_t half = s->width / s->heads / 2;
    rlx_value x = rlx_input(n.g, "x", RLX_F32, 3, (const rlx_dim[]){1, 1, s->width});
    decode d = {.position = rlx_input(n.g, "position", RLX_I32, 1, (const rlx_dim[]){1})};
    d.cos = matrix(&n, "cos", s->seq, half);
    d.sin = matrix(&n, "sin", s->seq, half);
    d.length = rlx_add(n.g, d.position, rlx_scalar(n.g, RLX_I32, 1));
    for (int i = 0; i < s->layers; i++)
        x = decoder_layer(&n, x, s, i, &d);
    x = rlx_rms_norm(n.g, x, vector(&n, "norm", s->width), NULL);
    rlx_output(n.g, "logits", rlx_matmul(n.g, x, matrix(&n, "head", s->width, 32000)));
    return finish(&n);
}

/* ---- ResNet-50 ------------------------------------------------------------------------------ */

static rlx_value conv(net *n, rlx_value x, const char *what, const int64_t shape[3], int64_t stride)
{
    int64_t k = shape[2], pad = k / 2; /* shape: channels in, channels out, kernel */
    rlx_value w = rlx_param(n->g, label(n, "%s.w", what), RLX_F32, 4,
                            (const rlx_dim[]){shape[1], shape[0], k, k});
    rlx_value b = vector(n, label(n, "%s.b", what), shape[1]);
    rlx_conv_desc d = {RLX_INIT(rlx_conv_desc), .stride = {2, {stride, stride}},
                       .pads = {4, {pad, pad, pad, pad}}};
    return rlx_named(n->g, rlx_conv2d(n->g, x, w, b, &d), what);
}

static rlx_value bottleneck(net *n, rlx_value x, const char *what, const int64_t shape[3],
                            int64_t stride)
{
    char name[48];
    int64_t in = shape[0], mid = shape[1], out = shape[2];
    snprintf(name, sizeof name, "%s.1", what);
    rlx_value y = rlx_relu(n->g, conv(n, x, name, (const int64_t[]){in, mid, 1}, 1));
    snprintf(name, sizeof name, "%s.2", what);
    y = rlx_relu(n->g, conv(n, y, name, (const int64_t[]){mid, mid, 3}, stride));
    snprintf(name, sizeof name, "%s.3", what);
    y = conv(n, y, name, (const int64_t[]){mid, out, 1}, 1);
    snprintf(name, sizeof name, "%s.0", what);
    if (in != out || stride != 1)
        x = conv(n, x, name, (const int64_t[]){in, out, 1}, stride);
    return rlx_relu(n->g, rlx_add(n->g, y, x));
}

rlx_graph *net_resnet50(int64_t batch)
{
    static const struct { int blocks; int64_t mid; } stages[] = {
        {3, 64}, {4, 128}, {6, 256}, {3, 512}};
    net n = {.g = rlx_graph_create("resnet50")};
    rlx_value x = rlx_input(n.g, "x", RLX_F32, 4, (const rlx_dim[]){batch, 3, 224, 224});
    x = rlx_relu(n.g, conv(&n, x, "stem", (const int64_t[]){3, 64, 7}, 2));
    rlx_pool_desc pool = {RLX_INIT(rlx_pool_desc), .kernel = {2, {3, 3}}, .stride = {2, {2, 2}},
                          .pads = {4, {1, 1, 1, 1}}};
    x = rlx_pool2d(n.g, x, &pool);
    int64_t in = 64;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < stages[i].blocks; j++) {
            char name[32];
            snprintf(name, sizeof name, "layer%d.%d", i + 1, j);
            int64_t shape[3] = {in, stages[i].mid, stages[i].mid * 4};
            x = bottleneck(&n, x, name, shape, i && !j ? 2 : 1);
            in = shape[2];
        }
    x = rlx_reduce(n.g, RLX_REDUCE_MEAN, x, (const int64_t[]){2, 3}, 2, false);
    rlx_value w = matrix(&n, "fc.w", 2048, 1000);
    rlx_output(n.g, "y", rlx_add(n.g, rlx_matmul(n.g, x, w), vector(&n, "fc.b", 1000)));
    return finish(&n);
}

/* ---- Chain ---------------------------------------------------------------------------------- */

rlx_graph *net_chain(int n_nodes)
{
    net n = {.g = rlx_graph_create("chain")};
    rlx_value x = rlx_input(n.g, "x", RLX_F32, 2, (const rlx_dim[]){64, 64});
    rlx_value w = matrix(&n, "w", 64, 64), b = vector(&n, "b", 64), before = x;
    for (int i = 0; i < n_nodes; i++) {
        rlx_value y = i % 10 == 9  ? rlx_matmul(n.g, x, w)
                      : i % 3 == 0 ? rlx_tanh(n.g, x)
                      : i % 3 == 1 ? rlx_add(n.g, x, b)
                                   : rlx_mul(n.g, x, before);
        before = x;
        x = y;
    }
    rlx_output(n.g, "y", x);
    return finish(&n);
}
