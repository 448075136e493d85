/* SPDX-License-Identifier: MIT */
/* Hyperparameters from the metadata of a GGUF file. Each has a range, so that later arithmetic
 * cannot overflow. */
#include <stdio.h>
#include <string.h>

#include "model/facts.h"

#define NEEDED INT64_MIN

/* ---- The tables ------------------------------------------------------------------------------ */

/* An integer: its field, its key after the architecture's prefix, its range and its default. */
typedef struct count_row {
    size_t at;
    const char *key;
    int64_t lo, hi, missing;
} count_row;

#define AT(field) offsetof(rx_facts, field)
static const count_row counts[] = {
    {AT(width), "embedding_length", 1, 1 << 20, NEEDED},
    {AT(trained_context), "context_length", 1, INT32_MAX, NEEDED},
    {AT(head_size), "attention.key_length", 1, 1 << 16, 0},
    {AT(value_size), "attention.value_length", 1, 1 << 16, 0},
    {AT(n_rot), "rope.dimension_count", 0, 1 << 16, -1},
    {AT(rope_original), "rope.scaling.original_context_length", 1, INT32_MAX, 0},
    {AT(window), "attention.sliding_window", 0, INT32_MAX, -1},
    {AT(experts), "expert_count", 0, 1 << 16, 0},
    {AT(experts_used), "expert_used_count", 0, 1 << 16, 0},
    {AT(expert_hidden), "expert_feed_forward_length", 0, 1 << 24, 0},
    {AT(shared_hidden), "expert_shared_feed_forward_length", 0, 1 << 24, 0},
    {AT(expert_groups), "expert_group_count", 0, 1 << 16, 0},
    {AT(groups_used), "expert_group_used_count", 0, 1 << 16, 0},
    {AT(kv_rank), "attention.kv_lora_rank", 0, 1 << 16, 0},
    {AT(q_rank), "attention.q_lora_rank", 0, 1 << 16, 0},
    {AT(mla_key), "attention.key_length_mla", 1, 1 << 16, 0},
    {AT(mla_value), "attention.value_length_mla", 1, 1 << 16, 0},
    {AT(temperature_length), "attention.temperature_length", 1, INT32_MAX, 0},
    {AT(buckets), "attention.relative_buckets_count", 4, 1 << 12, 0},
    {AT(ssm_conv), "ssm.conv_kernel", 1, 64, 0},
    {AT(ssm_inner), "ssm.inner_size", 1, 1 << 20, 0},
    {AT(ssm_state), "ssm.state_size", 1, 1 << 16, 0},
    {AT(ssm_rank), "ssm.time_step_rank", 1, 1 << 20, 0},
    {AT(ssm_groups), "ssm.group_count", 0, 1 << 16, 0},
};

typedef struct real_row {
    size_t at;
    const char *key;
    double lo, hi, missing;
} real_row;

static const real_row reals[] = {
    {AT(eps), "attention.layer_norm_rms_epsilon", 1e-30, 1, -1},
    {AT(eps), "attention.layer_norm_epsilon", 1e-30, 1, -1},
    {AT(attention_scale), "attention.scale", 0, 1e6, 0},
    {AT(embedding_scale), "embedding_scale", 1e-6, 1e6, 0},
    {AT(residual_scale), "residual_scale", 1e-6, 1e6, 0},
    {AT(logit_scale), "logit_scale", 1e-6, 1e6, 0},
    {AT(attention_cap), "attn_logit_softcapping", 0, 1e9, -1},
    {AT(final_cap), "final_logit_softcapping", 0, 1e9, -1},
    {AT(rope_base), "rope.freq_base", 1e-3, 1e30, 10000},
    {AT(rope_local_base), "rope.freq_base_swa", 1e-3, 1e30, 0},
    {AT(rope_factor), "rope.scaling.factor", 0, 1e6, 0},
    {AT(rope_attention), "rope.scaling.attn_factor", 1e-6, 1e6, 1},
    {AT(yarn_extrapolation), "rope.scaling.yarn_ext_factor", -1, 1, 1},
    {AT(yarn_fast), "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32},
    {AT(yarn_slow), "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1},
    {AT(expert_scale), "expert_weights_scale", 0, 1e6, 0},
    {AT(yarn_log), "rope.scaling.yarn_log_multiplier", 0, 1e3, 0},
    {AT(temperature_scale), "attention.temperature_scale", 0, 1e3, 0},
};

/* ---- One number of a GGUF file --------------------------------------------------------------- */

#define KEY_TEXT 128
static const char *full_key(const rx_facts *f, const char *key, char text[KEY_TEXT])
{
    snprintf(text, KEY_TEXT, "%s.%s", f->arch->name, key);
    return text;
}

static bool find_key(const rx_facts *f, const char *key, rlx_meta *m)
{
    char text[KEY_TEXT];
    return rlx_file_find_meta(f->file, full_key(f, key, text), m);
}

rlx_status rx_check_count(const char *key, int64_t v, int64_t lo, int64_t hi, rlx_error *err)
{
    if (v >= lo && v <= hi)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "%s: expected a number from %lld to %lld, got %lld", key,
                   (long long)lo, (long long)hi, (long long)v);
}

/* Value i of an entry. */
static rlx_status meta_count(const rlx_meta *m, size_t i, int64_t lo, int64_t hi, int64_t *out,
                             rlx_error *err)
{
    if (!rlx_meta_i64(m, i, out))
        return rx_fail(err, RLX_INVALID, "%s: expected an integer from %lld to %lld", m->key,
                       (long long)lo, (long long)hi);
    return rx_check_count(m->key, *out, lo, hi, err);
}

static rlx_status gguf_count(rx_facts *f, const count_row *r, rlx_error *err)
{
    int64_t *out = (int64_t *)((char *)f + r->at);
    char text[KEY_TEXT];
    rlx_meta m;
    if (find_key(f, r->key, &m)) {
        if (m.is_array)
            return rx_fail(err, RLX_INVALID, "%s: expected one number, got an array", m.key);
        return meta_count(&m, 0, r->lo, r->hi, out, err);
    }
    if (r->missing == NEEDED)
        return rx_fail(err, RLX_INVALID, "the file has no %s, which this architecture needs",
                       full_key(f, r->key, text));
    *out = r->missing;
    return RLX_OK;
}

rlx_status rx_check_real(const char *key, double v, double lo, double hi, rlx_error *err)
{
    if (v >= lo && v <= hi)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "%s: expected a number from %g to %g, got %g", key, lo, hi, v);
}

/* A second key of a number that is already set is ignored when missing. */
static rlx_status gguf_real(rx_facts *f, const real_row *r, bool is_set, rlx_error *err)
{
    double *out = (double *)((char *)f + r->at);
    rlx_meta m;
    if (!find_key(f, r->key, &m)) {
        if (!is_set)
            *out = r->missing;
        return RLX_OK;
    }
    if (m.is_array || !rlx_meta_f64(&m, 0, out))
        return rx_fail(err, RLX_INVALID, "%s: expected one number", m.key);
    return rx_check_real(m.key, *out, r->lo, r->hi, err);
}

/* ---- Numbers of layers ----------------------------------------------------------------------- */

/* One for all layers or an array with one for each; `at` is in rx_layer. */
static rlx_status gguf_per_layer(rx_facts *f, const char *key, size_t at, int64_t hi,
                                 rlx_error *err)
{
    rlx_meta m;
    char text[KEY_TEXT];
    if (!find_key(f, key, &m))
        return rx_fail(err, RLX_INVALID, "the file has no %s, which this architecture needs",
                       full_key(f, key, text));
    if (m.is_array && m.n < (size_t)f->layers)
        return rx_fail(err, RLX_INVALID, "%s: expected a number or an array of %lld, got %zu",
                       m.key, (long long)f->layers, m.n);
    for (int64_t i = 0; i < f->layers; i++) {
        int64_t *out = (int64_t *)((char *)&f->layer[i] + at);
        RLX_TRY(meta_count(&m, m.is_array ? (size_t)i : 0, 1, hi, out, err));
    }
    return RLX_OK;
}

/* Which layers have a window: every n-th has none, or a flag for each. */
static rlx_status gguf_windows(rx_facts *f, rlx_error *err)
{
    rlx_meta m;
    int64_t period = f->arch->window_period;
    if (f->window < 0)
        f->window = f->arch->window;
    const bool found = find_key(f, "attention.sliding_window_pattern", &m);
    if (found && m.is_array && m.kind == RLX_META_BOOL) {
        if (m.n < (size_t)f->layers)
            return rx_fail(err, RLX_INVALID, "%s: expected %lld flags, got %zu", m.key,
                           (long long)f->layers, m.n);
        for (int64_t i = 0; i < f->layers; i++)
            rlx_meta_bool(&m, (size_t)i, &f->layer[i].local);
    } else {
        if (found)
            RLX_TRY(meta_count(&m, 0, 0, RX_MAX_LAYERS, &period, err));
        for (int64_t i = 0; i < f->layers; i++)
            f->layer[i].local = period == 0 || (f->arch->window_last ? i % period > 0
                                                                     : i % period < period - 1);
    }
    for (int64_t i = 0; f->window == 0 && i < f->layers; i++)
        f->layer[i].local = false;
    return RLX_OK;
}

rlx_status rx_facts_set_layers(rx_facts *f, int64_t layers, rlx_error *err)
{
    f->layers = layers;
    f->layer = rx_arena_array_zero(&f->arena, layers, sizeof *f->layer);
    return f->layer ? RLX_OK
                    : rx_fail_memory(err, "the layers of a model",
                                     rx_array_bytes(layers, sizeof *f->layer));
}

void rx_facts_set_missing(rx_facts *f)
{
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        *(int64_t *)((char *)f + counts[i].at) = counts[i].missing;
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        *(double *)((char *)f + reals[i].at) = reals[i].missing;
}

static rlx_status gguf_layers(rx_facts *f, rlx_error *err)
{
    const count_row row = {AT(layers), "block_count", 1, RX_MAX_LAYERS, NEEDED};
    const count_row extra = {AT(extra_layers), "nextn_predict_layers", 0, RX_MAX_LAYERS, 0};
    const rx_has parts = f->arch->parts;
    rlx_meta m;
    RLX_TRY(gguf_count(f, &row, err));
    RLX_TRY(gguf_count(f, &extra, err));
    if (f->extra_layers >= f->layers)
        return rx_fail(err, RLX_INVALID, "%s.nextn_predict_layers: expected fewer than the %lld "
                       "layers, got %lld", f->arch->name, (long long)f->layers,
                       (long long)f->extra_layers);
    f->layers -= f->extra_layers;
    RLX_TRY(rx_facts_set_layers(f, f->layers, err));
    if (!(parts & RX_HAS_ATTENTION))
        return RLX_OK;
    RLX_TRY(gguf_per_layer(f, "attention.head_count", offsetof(rx_layer, heads), 1 << 16, err));
    if (find_key(f, "attention.head_count_kv", &m))
        RLX_TRY(gguf_per_layer(f, "attention.head_count_kv", offsetof(rx_layer, kv_heads), 1 << 16,
                               err));
    else
        for (int64_t i = 0; i < f->layers; i++)
            f->layer[i].kv_heads = f->layer[i].heads;
    if (parts & RX_HAS_EXPERTS && !find_key(f, "feed_forward_length", &m))
        return RLX_OK;
    return gguf_per_layer(f, "feed_forward_length", offsetof(rx_layer, hidden), 1 << 24, err);
}

/* ---- The rest of GGUF ------------------------------------------------------------------------ */

static rlx_status gguf_rope_kind(rx_facts *f, rlx_error *err)
{
    static const struct {
        const char *name;
        rx_rope_kind kind;
    } kinds[] = {{"none", RX_ROPE_PLAIN}, {"linear", RX_ROPE_LINEAR}, {"yarn", RX_ROPE_YARN},
                 {"longrope", RX_ROPE_LONG}};
    rlx_meta m;
    const char *text;
    size_t n;
    f->rope = f->rope_factor > 0 ? RX_ROPE_LINEAR : RX_ROPE_PLAIN;
    if (!find_key(f, "rope.scaling.type", &m))
        return RLX_OK;
    if (m.is_array || !rlx_meta_string(&m, 0, &text, &n))
        return rx_fail(err, RLX_INVALID, "%s: expected a string", m.key);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n == strlen(kinds[i].name) && memcmp(text, kinds[i].name, n) == 0) {
            f->rope = kinds[i].kind;
            return RLX_OK;
        }
    return rx_fail(err, RLX_UNSUPPORTED, "%s: expected none, linear, yarn or longrope, got '%.*s'",
                   m.key, n < 40 ? (int)n : 40, text);
}

/* A flag; unchanged when the key is missing. */
static rlx_status gguf_flag(const rx_facts *f, const char *key, bool *out, rlx_error *err)
{
    rlx_meta m;
    if (!find_key(f, key, &m) || (!m.is_array && rlx_meta_bool(&m, 0, out)))
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "%s: expected true or false", m.key);
}

/* Keys whose value the architecture fixes. */
static rlx_status gguf_refuse(const rx_facts *f, rlx_error *err)
{
    const bool decodes = f->arch->parts & RX_HAS_DECODER;
    bool causal = decodes;
    RLX_TRY(gguf_flag(f, "attention.causal", &causal, err));
    if (causal != decodes)
        return rx_fail(err, RLX_UNSUPPORTED, "%s.attention.causal: expected %s, got %s",
                       f->arch->name, decodes ? "true" : "false", causal ? "true" : "false");
    return RLX_OK;
}

static rlx_status gguf_rest(rx_facts *f, rlx_error *err)
{
    static const rlx_pooling poolings[] = {RLX_POOLING_DEFAULT, RLX_POOLING_MEAN, RLX_POOLING_FIRST,
                                           RLX_POOLING_LAST, RLX_POOLING_DEFAULT /* ranks */};
    rlx_meta m;
    int64_t pooling = 0, router = 0;
    const char *text;
    size_t n;
    f->norm_experts = f->arch->norm_experts;
    RLX_TRY(gguf_flag(f, "expert_weights_norm", &f->norm_experts, err));
    if (find_key(f, "expert_gating_func", &m))
        RLX_TRY(meta_count(&m, 0, 0, RX_ROUTER_SOFTMAX_OF_CHOSEN, &router, err));
    f->router = (rx_router)router;
    RLX_TRY(gguf_flag(f, "ssm.dt_b_c_rms", &f->ssm_norms, err));
    if (find_key(f, "pooling_type", &m))
        RLX_TRY(meta_count(&m, 0, 0, 4, &pooling, err));
    f->pooling = poolings[pooling];
    if (!rlx_file_find_meta(f->file, "general.name", &m) || m.is_array ||
        !rlx_meta_string(&m, 0, &text, &n))
        return RLX_OK;
    f->name = rx_arena_strndup(&f->arena, text, n);
    return f->name ? RLX_OK : rx_fail_memory(err, "the name of a model", n);
}

rlx_status rx_facts_read_gguf(rx_facts *f, rlx_error *err)
{
    RLX_TRY(gguf_layers(f, err));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        RLX_TRY(gguf_count(f, &counts[i], err));
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        const bool again = i > 0 && reals[i].at == reals[i - 1].at;
        RLX_TRY(gguf_real(f, &reals[i], again, err));
    }
    RLX_TRY(gguf_windows(f, err));
    RLX_TRY(gguf_rope_kind(f, err));
    RLX_TRY(gguf_refuse(f, err));
    return gguf_rest(f, err);
}
