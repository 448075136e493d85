/* SPDX-License-Identifier: MIT */
/* Tiny random models. */
#include "support/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/little.h"

#define WIDTH TINY_WIDTH
#define LETTERS 26
#define HEADS 4
#define KV_HEADS 2
#define HIDDEN 64
#define LAYERS 2
#define INNER 64 /* of Mamba */
#define STATE 8
#define RANK 4
#define CONV 4
#define ALIGNMENT 32

/* The values of a tensor: uniform around `mean`. */
typedef struct fill {
    double mean, spread;
} fill;

typedef struct maker {
    blob meta, infos, data;
    uint64_t n_meta, n_tensors, random;
    const char *arch;
} maker;

static double next_random(maker *m)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(m->random >> 33) / (double)(1u << 30) - 1; /* -1 to 1 */
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static void put_text(blob *b, const char *s)
{
    blob_number(b, strlen(s), 8);
    blob_add(b, s, strlen(s));
}

static void put_key(maker *m, const char *key, uint32_t type)
{
    char full[128];
    /* Keys that begin with a dot belong to the architecture. */
    snprintf(full, sizeof full, "%s%s", key[0] == '.' ? m->arch : "", key);
    put_text(&m->meta, full);
    blob_number(&m->meta, type, 4);
    m->n_meta++;
}

static void put_u32(maker *m, const char *key, uint32_t v)
{
    put_key(m, key, 4);
    blob_number(&m->meta, v, 4);
}

static void put_f32(maker *m, const char *key, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_key(m, key, 6);
    blob_number(&m->meta, bits, 4);
}

static void put_string(maker *m, const char *key, const char *v)
{
    put_key(m, key, 8);
    put_text(&m->meta, v);
}

/* The character that stands for a byte in byte-level vocabularies: itself where it is printable,
 * else the next one from U+0100 on. */
static void byte_token(unsigned byte, char out[4])
{
    unsigned code = byte, n = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte && !shown)
            code = 256 + n;
        n += !shown;
    }
    memset(out, 0, 4);
    if (code < 128) {
        out[0] = (char)code;
        return;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
}

static void put_bytes(maker *m)
{
    put_string(m, "tokenizer.ggml.model", "gpt2");
    put_string(m, "tokenizer.ggml.pre", "gpt-2");
    put_key(m, "tokenizer.ggml.tokens", 9);
    blob_number(&m->meta, 8, 4);
    blob_number(&m->meta, TINY_VOCABULARY, 8);
    for (unsigned i = 0; i < 256; i++) {
        char token[4];
        byte_token(i, token);
        put_text(&m->meta, token);
    }
    put_text(&m->meta, "<end>");
    put_key(m, "tokenizer.ggml.token_type", 9);
    blob_number(&m->meta, 5, 4);
    blob_number(&m->meta, TINY_VOCABULARY, 8);
    for (unsigned i = 0; i < TINY_VOCABULARY; i++)
        blob_number(&m->meta, i < 256 ? 1 : 3, 4);
    put_key(m, "tokenizer.ggml.merges", 9);
    blob_number(&m->meta, 8, 4);
    blob_number(&m->meta, 0, 8);
    put_u32(m, "tokenizer.ggml.eos_token_id", TINY_END);
}

/* Letters at the begin of a word have U+2581 before them, others not. */
static void put_letters(maker *m)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
    put_string(m, "tokenizer.ggml.model", "bert");
    put_key(m, "tokenizer.ggml.tokens", 9);
    blob_number(&m->meta, 8, 4);
    blob_number(&m->meta, 4 + 2 * LETTERS, 8);
    for (int i = 0; i < 4; i++)
        put_text(&m->meta, specials[i]);
    for (int i = 0; i < 2 * LETTERS; i++) {
        char token[8];
        snprintf(token, sizeof token, "%s%c", i < LETTERS ? "\u2581" : "", 'a' + i % LETTERS);
        put_text(&m->meta, token);
    }
    put_u32(m, "tokenizer.ggml.padding_token_id", 0);
    put_u32(m, "tokenizer.ggml.unknown_token_id", 1);
    put_u32(m, "tokenizer.ggml.cls_token_id", 2);
    put_u32(m, "tokenizer.ggml.seperator_token_id", 3);
    put_u32(m, "tokenizer.ggml.token_type_count", 2);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* `dims` outermost first, 0: no second one. */
static void put_tensor(maker *m, const char *name, uint64_t rows, uint64_t columns, fill f)
{
    uint64_t n = rows * (columns ? columns : 1);
    put_text(&m->infos, name);
    blob_number(&m->infos, columns ? 2 : 1, 4);
    if (columns)
        blob_number(&m->infos, columns, 8);
    blob_number(&m->infos, rows, 8);
    blob_number(&m->infos, 0, 4);
    blob_number(&m->infos, m->data.n, 8);
    for (uint64_t i = 0; i < n; i++) {
        float v = (float)(f.mean + f.spread * next_random(m));
        rx_little_copy(RLX_F32, &v, &v, sizeof v);
        blob_add(&m->data, &v, sizeof v);
    }
    blob_align(&m->data, ALIGNMENT);
    m->n_tensors++;
}

static void put_layer(maker *m, int layer, const char *name, uint64_t rows, uint64_t columns,
                      fill f)
{
    char full[128];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    put_tensor(m, full, rows, columns, f);
}

static fill weight(uint64_t inputs)
{
    return (fill){0, 2 / sqrt((double)inputs)};
}

static const fill ones = {1, 0.1}, small = {0, 0.1};

static void make_llama(maker *m)
{
    uint64_t kv = WIDTH / HEADS * KV_HEADS;
    put_u32(m, ".feed_forward_length", HIDDEN);
    put_u32(m, ".attention.head_count", HEADS);
    put_u32(m, ".attention.head_count_kv", KV_HEADS);
    put_f32(m, ".rope.freq_base", 10000);
    put_u32(m, ".rope.dimension_count", WIDTH / HEADS);
    for (int i = 0; i < LAYERS; i++) {
        put_layer(m, i, "attn_norm.weight", WIDTH, 0, ones);
        put_layer(m, i, "attn_q.weight", WIDTH, WIDTH, weight(WIDTH));
        put_layer(m, i, "attn_k.weight", kv, WIDTH, weight(WIDTH));
        put_layer(m, i, "attn_v.weight", kv, WIDTH, weight(WIDTH));
        put_layer(m, i, "attn_output.weight", WIDTH, WIDTH, weight(WIDTH));
        put_layer(m, i, "ffn_norm.weight", WIDTH, 0, ones);
        put_layer(m, i, "ffn_gate.weight", HIDDEN, WIDTH, weight(WIDTH));
        put_layer(m, i, "ffn_up.weight", HIDDEN, WIDTH, weight(WIDTH));
        put_layer(m, i, "ffn_down.weight", WIDTH, HIDDEN, weight(HIDDEN));
    }
}

static void make_mamba(maker *m)
{
    put_u32(m, ".feed_forward_length", 0);
    put_u32(m, ".attention.head_count", 0);
    put_u32(m, ".ssm.conv_kernel", CONV);
    put_u32(m, ".ssm.inner_size", INNER);
    put_u32(m, ".ssm.state_size", STATE);
    put_u32(m, ".ssm.time_step_rank", RANK);
    for (int i = 0; i < LAYERS; i++) {
        put_layer(m, i, "attn_norm.weight", WIDTH, 0, ones);
        put_layer(m, i, "ssm_in.weight", 2 * INNER, WIDTH, weight(WIDTH));
        put_layer(m, i, "ssm_conv1d.weight", INNER, CONV, (fill){0, 0.8});
        put_layer(m, i, "ssm_conv1d.bias", INNER, 0, small);
        put_layer(m, i, "ssm_x.weight", RANK + 2 * STATE, INNER, weight(INNER));
        put_layer(m, i, "ssm_dt.weight", INNER, RANK, weight(RANK));
        put_layer(m, i, "ssm_dt.bias", INNER, 0, (fill){-1, 0.1});
        put_layer(m, i, "ssm_a", INNER, STATE, (fill){-1, 0.5});
        put_layer(m, i, "ssm_d", INNER, 0, ones);
        put_layer(m, i, "ssm_out.weight", WIDTH, INNER, weight(INNER));
    }
}

static void put_linear(maker *m, int layer, const char *name, uint64_t rows, uint64_t columns)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    put_layer(m, layer, full, rows, columns, columns ? weight(columns) : ones);
    snprintf(full, sizeof full, "%s.bias", name);
    put_layer(m, layer, full, rows, 0, small);
}

static void make_bert(maker *m)
{
    put_u32(m, ".feed_forward_length", HIDDEN);
    put_u32(m, ".attention.head_count", HEADS);
    put_u32(m, ".pooling_type", 1);
    put_f32(m, ".attention.layer_norm_epsilon", 1e-6f);
    put_tensor(m, "token_types.weight", 2, WIDTH, small);
    put_tensor(m, "position_embd.weight", TINY_CONTEXT, WIDTH, small);
    put_tensor(m, "token_embd_norm.weight", WIDTH, 0, ones);
    put_tensor(m, "token_embd_norm.bias", WIDTH, 0, small);
    for (int i = 0; i < LAYERS; i++) {
        put_linear(m, i, "attn_q", WIDTH, WIDTH);
        put_linear(m, i, "attn_k", WIDTH, WIDTH);
        put_linear(m, i, "attn_v", WIDTH, WIDTH);
        put_linear(m, i, "attn_output", WIDTH, WIDTH);
        put_linear(m, i, "attn_output_norm", WIDTH, 0);
        put_linear(m, i, "ffn_up", HIDDEN, WIDTH);
        put_linear(m, i, "ffn_down", WIDTH, HIDDEN);
        put_linear(m, i, "layer_output_norm", WIDTH, 0);
    }
}

static const struct family {
    const char *arch;
    uint32_t vocabulary;
    void (*tokenizer)(maker *m), (*layers)(maker *m);
} families[] = {
    {"llama", TINY_VOCABULARY, put_bytes, make_llama},
    {"mamba", TINY_VOCABULARY, put_bytes, make_mamba},
    {"bert", 4 + 2 * LETTERS, put_letters, make_bert},
};

blob tiny_model(tiny_kind kind, uint64_t seed)
{
    const struct family *f = &families[kind];
    maker m = {.arch = f->arch, .random = seed * 2 + 1};
    blob out = {0};
    put_string(&m, "general.architecture", m.arch);
    put_string(&m, "general.name", "tiny");
    put_u32(&m, ".block_count", LAYERS);
    put_u32(&m, ".context_length", TINY_CONTEXT);
    put_u32(&m, ".embedding_length", WIDTH);
    put_u32(&m, ".vocab_size", f->vocabulary);
    f->tokenizer(&m);
    put_tensor(&m, "token_embd.weight", f->vocabulary, WIDTH, (fill){0, 1});
    f->layers(&m);
    if (kind != TINY_BERT) {
        put_f32(&m, ".attention.layer_norm_rms_epsilon", 1e-5f);
        put_tensor(&m, "output_norm.weight", WIDTH, 0, ones);
        put_tensor(&m, "output.weight", f->vocabulary, WIDTH, (fill){0, 0.8});
    }
    blob_add(&out, "GGUF", 4);
    blob_number(&out, 3, 4);
    blob_number(&out, m.n_tensors, 8);
    blob_number(&out, m.n_meta, 8);
    blob_add(&out, m.meta.data, m.meta.n);
    blob_add(&out, m.infos.data, m.infos.n);
    blob_align(&out, ALIGNMENT);
    blob_add(&out, m.data.data, m.data.n);
    blob_free(&m.meta);
    blob_free(&m.infos);
    blob_free(&m.data);
    return out;
}
