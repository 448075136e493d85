/* SPDX-License-Identifier: MIT */
/* Hyperparameters as the metadata of a GGUF file: the keys that facts_gguf.c reads, and those that
 * llama.cpp needs beside them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/convert.h"

typedef struct writer {
    const rx_facts *f;
    rlx_gguf_writer *w;
    rlx_error *err;
    rlx_status status; /* of the first failure; then nothing more is written */
} writer;

#define KEY_TEXT 128

static const char *full_key(const writer *w, const char *key, char text[KEY_TEXT])
{
    snprintf(text, KEY_TEXT, "%s.%s", w->f->arch->name, key);
    return text;
}

static void put_count(writer *w, const char *key, int64_t v)
{
    char text[KEY_TEXT];
    if (w->status == RLX_OK)
        w->status = rlx_gguf_writer_set_u32(w->w, full_key(w, key, text), (uint32_t)v, w->err);
}

static void put_real(writer *w, const char *key, double v)
{
    char text[KEY_TEXT];
    if (w->status == RLX_OK)
        w->status = rlx_gguf_writer_set_f32(w->w, full_key(w, key, text), (float)v, w->err);
}

static void put_flag(writer *w, const char *key, bool v)
{
    char text[KEY_TEXT];
    if (w->status == RLX_OK)
        w->status = rlx_gguf_writer_set_bool(w->w, full_key(w, key, text), v, w->err);
}

static void put_text(writer *w, const char *key, const char *v)
{
    char text[KEY_TEXT];
    if (w->status == RLX_OK)
        w->status = rlx_gguf_writer_set_text(w->w, full_key(w, key, text), v, w->err);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Which layers have a window, where it is not what the architecture says. */
static void put_pattern(writer *w)
{
    const rx_facts *f = w->f;
    const int64_t period = f->arch->window_period;
    bool same = true, flags[RX_MAX_LAYERS];
    char text[KEY_TEXT];
    for (int64_t i = 0; i < f->layers; i++) {
        const bool usual = period == 0 || (f->arch->window_last ? i % period > 0
                                                                : i % period < period - 1);
        flags[i] = f->layer[i].local;
        same = same && flags[i] == usual;
    }
    const rlx_gguf_value v = {.type = RLX_GGUF_BOOL, .is_array = true, .n = (size_t)f->layers,
                              .numbers = flags};
    if (!same && w->status == RLX_OK)
        w->status = rlx_gguf_writer_set(w->w, full_key(w, "attention.sliding_window_pattern", text),
                                        &v, w->err);
}

static void put_latents(writer *w)
{
    const rx_facts *f = w->f;
    if (f->q_rank)
        put_count(w, "attention.q_lora_rank", f->q_rank);
    put_count(w, "attention.kv_lora_rank", f->kv_rank);
    put_count(w, "attention.key_length", f->kv_rank + f->n_rot);
    put_count(w, "attention.value_length", f->kv_rank);
    put_count(w, "attention.key_length_mla", f->mla_key);
    put_count(w, "attention.value_length_mla", f->mla_value);
}

static void put_attention(writer *w)
{
    const rx_facts *f = w->f;
    const rx_layer *l = &f->layer[0];
    const bool latent = f->arch->parts & RX_HAS_MLA;
    put_count(w, "attention.head_count", l->heads);
    put_count(w, "attention.head_count_kv", latent ? 1 : l->kv_heads);
    if (latent)
        put_latents(w);
    else if (f->head_size * l->heads != f->width) {
        put_count(w, "attention.key_length", f->head_size);
        put_count(w, "attention.value_length", f->value_size);
    }
    if (!latent && f->attention_scale != 1 / sqrt((double)f->head_size))
        put_real(w, "attention.scale", f->attention_scale);
    if (f->attention_cap > 0)
        put_real(w, "attn_logit_softcapping", f->attention_cap);
    if (f->window > 0) {
        put_count(w, "attention.sliding_window", f->window);
        put_pattern(w);
    } else if (f->arch->window_period > 0) {
        put_count(w, "attention.sliding_window", 0);
    }
}

/* ---- Rotary embedding ------------------------------------------------------------------------ */

static void put_yarn(writer *w)
{
    const rx_facts *f = w->f;
    put_real(w, "rope.scaling.yarn_beta_fast", f->yarn_fast);
    put_real(w, "rope.scaling.yarn_beta_slow", f->yarn_slow);
    if (f->yarn_log > 0)
        put_real(w, "rope.scaling.yarn_log_multiplier", f->yarn_log);
    if (f->yarn_exact && w->status == RLX_OK)
        w->status = rx_fail(w->err, RLX_UNSUPPORTED, "config.json: rope_scaling.truncate is false, "
                            "which GGUF files cannot say");
}

static void put_rope(writer *w)
{
    static const char *const kinds[] = {NULL, "linear", "yarn", "longrope"};
    const rx_facts *f = w->f;
    put_count(w, "rope.dimension_count", f->n_rot);
    put_real(w, "rope.freq_base", f->rope_base);
    if (f->rope_local_base > 0 && f->window > 0)
        put_real(w, "rope.freq_base_swa", f->rope_local_base);
    if (f->rope == RX_ROPE_PLAIN)
        return;
    put_text(w, "rope.scaling.type", kinds[f->rope]);
    put_real(w, "rope.scaling.factor", f->rope_factor);
    put_count(w, "rope.scaling.original_context_length", f->rope_original);
    if (f->rope_attention != 1)
        put_real(w, "rope.scaling.attn_factor", f->rope_attention);
    if (f->rope == RX_ROPE_YARN)
        put_yarn(w);
}

/* ---- Feed-forward ---------------------------------------------------------------------------- */

static void put_groups(writer *w)
{
    const rx_facts *f = w->f;
    if (f->expert_groups <= 1)
        return;
    put_count(w, "expert_group_count", f->expert_groups);
    put_count(w, "expert_group_used_count", f->groups_used);
}

static void put_experts(writer *w)
{
    const rx_facts *f = w->f;
    int64_t dense = 0;
    if (!f->experts)
        return;
    while (dense < f->layers && !(f->layer[dense].parts & RX_HAS_EXPERTS))
        dense++;
    put_count(w, "expert_count", f->experts);
    put_count(w, "expert_used_count", f->experts_used);
    put_groups(w);
    if (f->arch->parts & RX_HAS_EXPERTS)
        put_count(w, "expert_feed_forward_length", f->expert_hidden);
    if (f->shared_hidden && f->arch->parts & RX_HAS_SHARED_ROUTER)
        put_count(w, "expert_shared_feed_forward_length", f->shared_hidden);
    if (f->arch->mixed) {
        put_count(w, "leading_dense_block_count", dense);
        put_count(w, "expert_shared_count", f->expert_hidden ? f->shared_hidden / f->expert_hidden
                                                             : 0);
        put_count(w, "expert_gating_func", f->router);
    }
    if (f->arch->mixed || f->norm_experts != f->arch->norm_experts)
        put_flag(w, "expert_weights_norm", f->norm_experts);
    if (f->expert_scale != 1)
        put_real(w, "expert_weights_scale", f->expert_scale);
}

static void put_delta(writer *w)
{
    const rx_facts *f = w->f;
    int64_t interval = 0;
    while (interval < f->layers && f->layer[interval].parts & RX_HAS_DELTA)
        interval++;
    put_count(w, "ssm.conv_kernel", f->ssm_conv);
    put_count(w, "ssm.inner_size", f->ssm_inner);
    put_count(w, "ssm.state_size", f->ssm_state);
    put_count(w, "ssm.time_step_rank", f->ssm_rank);
    put_count(w, "ssm.group_count", f->ssm_groups);
    put_count(w, "full_attention_interval", interval + 1);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void put_scales(writer *w)
{
    const rx_facts *f = w->f;
    const double logits = f->arch->divide_logits ? 1 / f->logit_scale : f->logit_scale;
    if (!f->arch->scale_embedding && f->embedding_scale != 1)
        put_real(w, "embedding_scale", f->embedding_scale);
    if (f->residual_scale != 1)
        put_real(w, "residual_scale", f->residual_scale);
    if (logits != 1)
        put_real(w, "logit_scale", logits);
    if (f->final_cap > 0)
        put_real(w, "final_logit_softcapping", f->final_cap);
}

#define RANKS 4 /* the pooling type of models with a classifier */
#define MAX_CLASSES 64

static void put_classes(writer *w)
{
    char labels[MAX_CLASSES][16], text[KEY_TEXT];
    const char *texts[MAX_CLASSES];
    const int64_t n = w->f->classes < MAX_CLASSES ? w->f->classes : MAX_CLASSES;
    for (int64_t i = 0; i < n; i++) {
        snprintf(labels[i], sizeof labels[i], "LABEL_%d", (int)i);
        texts[i] = labels[i];
    }
    const rlx_gguf_value v = {.type = RLX_GGUF_STRING, .is_array = true, .n = (size_t)n,
                              .texts = texts};
    if (w->status == RLX_OK && n > 1)
        w->status = rlx_gguf_writer_set(w->w, full_key(w, "classifier.output_labels", text), &v,
                                        w->err);
}

static void put_encoder(writer *w, rlx_pooling pooling)
{
    static const int numbers[] = {[RLX_POOLING_MEAN] = 1, [RLX_POOLING_FIRST] = 2,
                                  [RLX_POOLING_LAST] = 3};
    rlx_file_tensor t;
    const bool ranks = rx_facts_tensor(w->f, NULL, RX_T_RANK_OUT, &t);
    put_flag(w, "attention.causal", false);
    put_count(w, "pooling_type", ranks ? RANKS : numbers[pooling]);
    put_classes(w);
    if (w->status == RLX_OK)
        w->status = rlx_gguf_writer_set_u32(w->w, "tokenizer.ggml.token_type_count",
                                            (uint32_t)w->f->types, w->err);
}

rlx_status rx_convert_facts(const rlx_model *m, rlx_gguf_writer *out, rlx_error *err)
{
    const rx_facts *f = m->facts;
    writer w = {.f = f, .w = out, .err = err};
    const rx_has parts = f->arch->parts;
    const bool mean = parts & (RX_HAS_LAYER_NORM | RX_HAS_OUT_NORMS);
    put_count(&w, "block_count", f->layers);
    put_count(&w, "context_length", m->known.trained_context);
    put_count(&w, "embedding_length", f->width);
    put_count(&w, "feed_forward_length", f->layer[0].hidden);
    put_count(&w, "vocab_size", f->vocabulary);
    put_real(&w, mean ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
             f->eps);
    put_attention(&w);
    if (parts & RX_HAS_ROPE && f->n_rot)
        put_rope(&w);
    put_experts(&w);
    if (parts & RX_HAS_DELTA)
        put_delta(&w);
    put_scales(&w);
    if (!(parts & RX_HAS_DECODER))
        put_encoder(&w, m->pooling);
    return w.status;
}
