/* SPDX-License-Identifier: MIT */
/* Hyperparameters from config.json, which is beside safetensors files. */
#include <math.h>
#include <string.h>

#include "import/json.h"
#include "model/facts.h"

#define PI 3.14159265358979323846

/* ---- One number ------------------------------------------------------------------------------ */

/* A JSON null counts as absent. */
static const rx_json *find(const rx_json *config, const char *key)
{
    const rx_json *v = rx_json_member(config, key);
    return v && v->kind == RX_JSON_NULL ? NULL : v;
}

static bool is_true(const rx_json *config, const char *key)
{
    const rx_json *v = find(config, key);
    return v && v->kind == RX_JSON_BOOL && v->truth;
}

static rlx_status read_count(const rx_json *config, const char *key, int64_t lo, int64_t hi,
                             int64_t *out, rlx_error *err)
{
    uint64_t v;
    const rx_json *member = find(config, key);
    if (!rx_json_u64(member, &v) || v > INT64_MAX)
        return rx_fail(err, RLX_INVALID, "config.json: %s: expected a number from %lld to %lld, "
                       "got %s", key, (long long)lo, (long long)hi, rx_json_kind_name(member));
    *out = (int64_t)v;
    return rx_check_count(key, *out, lo, hi, err);
}

/* Unchanged when the file lacks it. */
static rlx_status read_real(const rx_json *config, const char *key, double lo, double hi,
                            double *out, rlx_error *err)
{
    const rx_json *member = find(config, key);
    if (!member)
        return RLX_OK;
    if (!rx_json_real(member, out))
        return rx_fail(err, RLX_INVALID, "config.json: %s: expected a number, got %s", key,
                       rx_json_kind_name(member));
    return rx_check_real(key, *out, lo, hi, err);
}

/* A string that must have this value if present. */
static rlx_status check_text(const rx_json *config, const char *key, const char *want,
                             rlx_error *err)
{
    const rx_json *member = find(config, key);
    if (!member || (member->kind == RX_JSON_STRING && strcmp(member->text, want) == 0))
        return RLX_OK;
    return rx_fail(err, RLX_UNSUPPORTED, "config.json: %s: expected \"%s\", got %.40s", key, want,
                   member->kind == RX_JSON_STRING ? member->text : rx_json_kind_name(member));
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static rlx_status read_layers(rx_facts *f, const rx_json *config, rlx_error *err)
{
    int64_t layers, heads, hidden;
    RLX_TRY(read_count(config, "num_hidden_layers", 1, RX_MAX_LAYERS, &layers, err));
    RLX_TRY(read_count(config, "num_attention_heads", 1, 1 << 16, &heads, err));
    RLX_TRY(read_count(config, "intermediate_size", 1, 1 << 24, &hidden, err));
    RLX_TRY(rx_facts_set_layers(f, layers, err));
    int64_t kv_heads = heads;
    if (find(config, "num_key_value_heads"))
        RLX_TRY(read_count(config, "num_key_value_heads", 1, 1 << 16, &kv_heads, err));
    for (int64_t i = 0; i < layers; i++) {
        f->layer[i].heads = heads;
        f->layer[i].kv_heads = kv_heads;
        f->layer[i].hidden = hidden;
    }
    return RLX_OK;
}

/* Windows in some layers: the list of layer_types, or every n-th layer has none. */
static rlx_status read_mixed_window(rx_facts *f, const rx_json *config, rlx_error *err)
{
    const rx_json *kinds = find(config, "layer_types");
    int64_t period = f->arch->window_period, i = 0;
    RLX_TRY(read_count(config, "sliding_window", 0, INT32_MAX, &f->window, err));
    if (find(config, "sliding_window_pattern"))
        RLX_TRY(read_count(config, "sliding_window_pattern", 1, RX_MAX_LAYERS, &period, err));
    if (kinds && (kinds->kind != RX_JSON_ARRAY || kinds->n != (size_t)f->layers))
        return rx_fail(err, RLX_INVALID, "config.json: layer_types: expected %lld texts, got %s",
                       (long long)f->layers, rx_json_kind_name(kinds));
    for (const rx_json *v = kinds ? kinds->first : NULL; v; v = v->next)
        f->layer[i++].local = f->window > 0 && v->kind == RX_JSON_STRING &&
                              strcmp(v->text, "sliding_attention") == 0;
    for (; !kinds && i < f->layers; i++)
        f->layer[i].local = f->window > 0 && i % period < period - 1;
    return RLX_OK;
}

/* Qwen uses the window only if use_sliding_window is set, from max_window_layers on; others in all
 * layers. */
static rlx_status read_window(rx_facts *f, const rx_json *config, rlx_error *err)
{
    int64_t from = 0;
    f->window = 0;
    if (!find(config, "sliding_window") ||
        (find(config, "use_sliding_window") && !is_true(config, "use_sliding_window")))
        return RLX_OK;
    if (f->arch->window_period > 0)
        return read_mixed_window(f, config, err);
    RLX_TRY(read_count(config, "sliding_window", 0, INT32_MAX, &f->window, err));
    if (find(config, "use_sliding_window") && find(config, "max_window_layers"))
        RLX_TRY(read_count(config, "max_window_layers", 0, INT32_MAX, &from, err));
    for (int64_t i = from; i < f->layers; i++)
        f->layer[i].local = f->window > 0;
    return RLX_OK;
}

/* ---- Rotary embedding ------------------------------------------------------------------------ */

/* Llama 3 scaling: low-frequency pairs are slowed down by the factor, high-frequency ones are kept,
 * and between the two interpolated. */
static rlx_status set_llama3(rx_facts *f, const rx_json *rope, rlx_error *err)
{
    const int64_t n = f->n_rot / 2;
    double low = 1, high = 4;
    RLX_TRY(read_real(rope, "low_freq_factor", 1e-3, 1e6, &low, err));
    RLX_TRY(read_real(rope, "high_freq_factor", 1e-3, 1e6, &high, err));
    float *divisors = rx_arena_array(&f->arena, n, sizeof *divisors);
    if (!divisors || high <= low)
        return divisors ? rx_fail(err, RLX_INVALID, "config.json: high_freq_factor: expected more "
                                  "than low_freq_factor, %g, got %g", low, high)
                        : rx_fail_memory(err, "a rotary embedding", (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        const double length = 2 * PI * pow(f->rope_base, 2.0 * (double)i / (double)f->n_rot);
        const double turns = (double)f->rope_original / length;
        const double kept = fmin(1, fmax(0, (turns - low) / (high - low)));
        divisors[i] = (float)(1 / ((1 - kept) / f->rope_factor + kept));
    }
    f->rope_divisors[0] = f->rope_divisors[1] = divisors;
    f->rope = RX_ROPE_PLAIN;
    return RLX_OK;
}

static rlx_status read_divisors(rx_facts *f, const rx_json *rope, const char *key,
                                const float **out, rlx_error *err)
{
    const rx_json *list = find(rope, key);
    const size_t n = (size_t)(f->n_rot / 2);
    if (!list || list->kind != RX_JSON_ARRAY || list->n != n)
        return rx_fail(err, RLX_INVALID, "config.json: %s: expected %zu numbers, got %s", key, n,
                       rx_json_kind_name(list));
    float *divisors = rx_arena_array(&f->arena, n, sizeof *divisors);
    if (!divisors)
        return rx_fail_memory(err, key, n * sizeof *divisors);
    size_t i = 0;
    for (const rx_json *v = list->first; v; v = v->next, i++) {
        double x;
        if (!rx_json_real(v, &x) || x < 1e-6 || x > 1e6)
            return rx_fail(err, RLX_INVALID, "config.json: %s: expected numbers from 1e-6 to 1e6, "
                           "got something else at %zu", key, i);
        divisors[i] = (float)x;
    }
    *out = divisors;
    return RLX_OK;
}

/* Phi-3 (LongRoPE): factors for short and for long contexts, and an attention factor. */
static rlx_status set_longrope(rx_facts *f, const rx_json *rope, rlx_error *err)
{
    const double stretch = (double)f->trained_context / (double)f->rope_original;
    RLX_TRY(read_divisors(f, rope, "short_factor", &f->rope_divisors[0], err));
    RLX_TRY(read_divisors(f, rope, "long_factor", &f->rope_divisors[1], err));
    f->rope = RX_ROPE_LONG;
    if (stretch > 1 && f->rope_original > 1)
        f->rope_attention = sqrt(1 + log(stretch) / log((double)f->rope_original));
    return read_real(rope, "attention_factor", 1e-6, 1e6, &f->rope_attention, err);
}

static rlx_status set_yarn(rx_facts *f, const rx_json *rope, rlx_error *err)
{
    double attention = 0;
    f->rope = RX_ROPE_YARN;
    RLX_TRY(read_real(rope, "beta_fast", 1e-3, 1e6, &f->yarn_fast, err));
    RLX_TRY(read_real(rope, "beta_slow", 1e-3, 1e6, &f->yarn_slow, err));
    RLX_TRY(read_real(rope, "attention_factor", 1e-6, 1e6, &attention, err));
    double all = 0, some = 1;
    RLX_TRY(read_real(rope, "mscale_all_dim", 0, 1e3, &all, err));
    RLX_TRY(read_real(rope, "mscale", 0, 1e3, &some, err));
    const rx_json *truncate = find(rope, "truncate");
    f->yarn_exact = truncate && !is_true(rope, "truncate");
    if (f->arch->parts & RX_HAS_MLA && all > 0 && f->rope_factor > 1) {
        const double longer = 0.1 * log(f->rope_factor);
        f->yarn_log = 0.1 * all;
        f->rope_attention = (1 + some * longer) / (1 + all * longer);
        return RLX_OK;
    }
    if (attention > 0) /* replaces the value derived from the factor */
        f->rope_attention = attention / (1 + 0.1 * log(f->rope_factor));
    return RLX_OK;
}

static rlx_status set_scaling(rx_facts *f, const rx_json *rope, rlx_error *err)
{
    const rx_json *kind = find(rope, "rope_type") ? find(rope, "rope_type") : find(rope, "type");
    if (!kind || kind->kind != RX_JSON_STRING || strcmp(kind->text, "default") == 0)
        return RLX_OK;
    RLX_TRY(read_real(rope, "factor", 1e-6, 1e6, &f->rope_factor, err));
    if (f->rope_factor == 0)
        f->rope_factor = 1;
    if (strcmp(kind->text, "linear") == 0) {
        f->rope = RX_ROPE_LINEAR;
        return RLX_OK;
    }
    if (strcmp(kind->text, "yarn") == 0)
        return set_yarn(f, rope, err);
    if (strcmp(kind->text, "llama3") == 0)
        return set_llama3(f, rope, err);
    if (strcmp(kind->text, "longrope") == 0 || strcmp(kind->text, "su") == 0)
        return set_longrope(f, rope, err);
    return rx_fail(err, RLX_UNSUPPORTED, "config.json: rope_scaling: expected linear, yarn, llama3 "
                   "or longrope, got '%.40s'", kind->text);
}

static rlx_status read_rope(rx_facts *f, const rx_json *config, rlx_error *err)
{
    static const char original[] = "original_max_position_embeddings";
    const rx_json *rope = find(config, "rope_parameters");
    double part = 1;
    if (!rope)
        rope = find(config, "rope_scaling");
    RLX_TRY(read_real(config, "rope_local_base_freq", 1e-3, 1e30, &f->rope_local_base, err));
    if (find(rope, "full_attention")) {
        RLX_TRY(read_real(find(rope, "sliding_attention"), "rope_theta", 1e-3, 1e30,
                          &f->rope_local_base, err));
        rope = find(rope, "full_attention");
    }
    RLX_TRY(read_real(config, "rope_theta", 1e-3, 1e30, &f->rope_base, err));
    RLX_TRY(read_real(rope, "rope_theta", 1e-3, 1e30, &f->rope_base, err));
    RLX_TRY(read_real(config, "partial_rotary_factor", 0, 1, &part, err));
    RLX_TRY(read_real(rope, "partial_rotary_factor", 0, 1, &part, err));
    if (f->head_size == 0)
        f->head_size = f->width / f->layer[0].heads;
    if (!(f->arch->parts & RX_HAS_MLA))
        f->n_rot = (int64_t)((double)f->head_size * part);
    const rx_json *where = find(config, original) ? config : rope;
    f->rope_original = f->trained_context;
    if (find(where, original))
        RLX_TRY(read_count(where, original, 1, INT32_MAX, &f->rope_original, err));
    return set_scaling(f, rope, err);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* A count under any of several keys; the first one present wins; unchanged if there is none. */
static rlx_status read_any_count(const rx_json *config, const char *const names[], int64_t hi,
                                 int64_t *out, rlx_error *err)
{
    for (; *names; names++)
        if (find(config, *names))
            return read_count(config, *names, 0, hi, out, err);
    return RLX_OK;
}

#define NAMES(...) (const char *const[]){__VA_ARGS__, NULL}

static rlx_status read_experts(rx_facts *f, const rx_json *config, rlx_error *err)
{
    const rx_json *scoring = find(config, "scoring_func"), *method = find(config, "topk_method");
    const bool greedy = method && method->kind == RX_JSON_STRING &&
                        strcmp(method->text, "greedy") == 0;
    f->norm_experts = f->arch->norm_experts;
    if (find(config, "norm_topk_prob"))
        f->norm_experts = is_true(config, "norm_topk_prob");
    RLX_TRY(read_any_count(config, NAMES("num_local_experts", "num_experts", "n_routed_experts"),
                           1 << 16, &f->experts, err));
    RLX_TRY(read_any_count(config, NAMES("num_experts_per_tok"), 1 << 16, &f->experts_used, err));
    if (!greedy) {
        RLX_TRY(read_any_count(config, NAMES("n_group"), 1 << 16, &f->expert_groups, err));
        RLX_TRY(read_any_count(config, NAMES("topk_group"), 1 << 16, &f->groups_used, err));
    }
    RLX_TRY(read_any_count(config, NAMES("num_nextn_predict_layers"), RX_MAX_LAYERS,
                           &f->extra_layers, err));
    RLX_TRY(read_real(config, "routed_scaling_factor", 0, 1e6, &f->expert_scale, err));
    if (strcmp(f->model_type, "deepseek_v3") == 0)
        f->router = RX_ROUTER_SIGMOID;
    if (scoring && scoring->kind == RX_JSON_STRING && strcmp(scoring->text, "sigmoid") == 0)
        f->router = RX_ROUTER_SIGMOID;
    return RLX_OK;
}

/* DeepSeek: sizes of latents and of expanded heads. */
static rlx_status read_mla(rx_facts *f, const rx_json *config, rlx_error *err)
{
    int64_t plain;
    RLX_TRY(read_count(config, "kv_lora_rank", 1, 1 << 16, &f->kv_rank, err));
    RLX_TRY(read_any_count(config, NAMES("q_lora_rank"), 1 << 16, &f->q_rank, err));
    RLX_TRY(read_count(config, "qk_nope_head_dim", 1, 1 << 16, &plain, err));
    RLX_TRY(read_count(config, "qk_rope_head_dim", 1, 1 << 16, &f->n_rot, err));
    RLX_TRY(read_count(config, "v_head_dim", 1, 1 << 16, &f->value_size, err));
    f->head_size = plain + f->n_rot;
    return RLX_OK;
}

/* Qwen3-Next: the layers without attention. */
static rlx_status read_delta(rx_facts *f, const rx_json *config, rlx_error *err)
{
    int64_t size;
    RLX_TRY(read_count(config, "linear_num_value_heads", 1, 1 << 16, &f->ssm_rank, err));
    RLX_TRY(read_count(config, "linear_num_key_heads", 1, 1 << 16, &f->ssm_groups, err));
    RLX_TRY(read_count(config, "linear_key_head_dim", 1, 1 << 12, &f->ssm_state, err));
    RLX_TRY(read_count(config, "linear_value_head_dim", 1, 1 << 12, &size, err));
    RLX_TRY(read_count(config, "linear_conv_kernel_dim", 1, 64, &f->ssm_conv, err));
    f->ssm_inner = f->ssm_rank * size;
    return RLX_OK;
}

/* The activation is that of the architecture; Gemma's is GELU with tanh by whatever name. */
static rlx_status check_act(const rx_facts *f, const rx_json *config, rlx_error *err)
{
    const rx_json *act = find(config, "hidden_act");
    if (f->arch->act != RLX_ACT_GELU_TANH)
        return check_text(config, "hidden_act", "silu", err);
    if (find(config, "hidden_activation"))
        return check_text(config, "hidden_activation", "gelu_pytorch_tanh", err);
    if (act && act->kind == RX_JSON_STRING &&
        (strcmp(act->text, "gelu_new") == 0 ||
         (strcmp(act->text, "gelu") == 0 && f->norms_from_one)))
        return RLX_OK;
    return check_text(config, "hidden_act", "gelu_pytorch_tanh", err);
}

/* Multipliers of Granite and Cohere. */
static rlx_status read_scales(rx_facts *f, const rx_json *config, rlx_error *err)
{
    const struct {
        const char *key;
        double *out;
    } rows[] = {
        {"embedding_multiplier", &f->embedding_scale},
        {"residual_multiplier", &f->residual_scale},
        {"attention_multiplier", &f->attention_scale},
        {"logits_scaling", &f->logit_scale},
        {"logit_scale", &f->logit_scale},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        RLX_TRY(read_real(config, rows[i].key, 1e-6, 1e6, rows[i].out, err));
    double scalar = 0;
    RLX_TRY(read_real(config, "query_pre_attn_scalar", 1, 1e6, &scalar, err));
    if (scalar > 0)
        f->attention_scale = 1 / sqrt(scalar);
    RLX_TRY(read_real(config, "attn_logit_softcapping", 0, 1e9, &f->attention_cap, err));
    return read_real(config, "final_logit_softcapping", 0, 1e9, &f->final_cap, err);
}

/* RoBERTa numbers positions from padding_idx + 1. */
static rlx_status read_first_position(rx_facts *f, const rx_json *config, rlx_error *err)
{
    const rx_json *type = find(config, "model_type");
    int64_t pad = 1;
    if (!type || type->kind != RX_JSON_STRING || !strstr(type->text, "roberta"))
        return RLX_OK;
    if (find(config, "pad_token_id"))
        RLX_TRY(read_count(config, "pad_token_id", 0, 1024, &pad, err));
    f->first_position = pad + 1;
    return f->trained_context > f->first_position
               ? RLX_OK : rx_check_count("max_position_embeddings", f->trained_context,
                                         f->first_position + 1, INT32_MAX, err);
}

static rlx_status read_kind(rx_facts *f, const rx_json *config, rlx_error *err)
{
    if (f->naming == RX_NAMES_BERT) {
        RLX_TRY(check_text(config, "hidden_act", "gelu", err));
        RLX_TRY(check_text(config, "position_embedding_type", "absolute", err));
        RLX_TRY(read_first_position(f, config, err));
        return read_real(config, "layer_norm_eps", 1e-30, 1, &f->eps, err);
    }
    const bool mean = f->arch->parts & RX_HAS_LAYER_NORM;
    RLX_TRY(check_act(f, config, err));
    RLX_TRY(read_real(config, mean ? "layer_norm_eps" : "rms_norm_eps", 1e-30, 1, &f->eps, err));
    RLX_TRY(read_scales(f, config, err));
    RLX_TRY(read_experts(f, config, err));
    if (f->arch->parts & RX_HAS_MLA)
        RLX_TRY(read_mla(f, config, err));
    if (f->arch->parts & RX_HAS_DELTA)
        RLX_TRY(read_delta(f, config, err));
    RLX_TRY(read_window(f, config, err));
    return read_rope(f, config, err);
}

/* T5: the encoder. */
static rlx_status read_t5(rx_facts *f, const rx_json *config, rlx_error *err)
{
    const rx_json *kind = find(config, "feed_forward_proj");
    int64_t layers, heads, hidden;
    if (!kind || (kind->kind == RX_JSON_STRING && !strcmp(kind->text, "relu")))
        f->model_type = "t5-relu";
    else
        RLX_TRY(check_text(config, "feed_forward_proj", "gated-gelu", err));
    RLX_TRY(read_count(config, "d_model", 1, 1 << 20, &f->width, err));
    RLX_TRY(read_count(config, "num_layers", 1, RX_MAX_LAYERS, &layers, err));
    RLX_TRY(read_count(config, "num_heads", 1, 1 << 16, &heads, err));
    RLX_TRY(read_count(config, "d_ff", 1, 1 << 24, &hidden, err));
    RLX_TRY(read_count(config, "d_kv", 1, 1 << 16, &f->head_size, err));
    f->value_size = f->head_size;
    f->trained_context = 512;
    if (find(config, "n_positions"))
        RLX_TRY(read_count(config, "n_positions", 1, INT32_MAX, &f->trained_context, err));
    RLX_TRY(read_real(config, "layer_norm_epsilon", 1e-30, 1, &f->eps, err));
    RLX_TRY(rx_facts_set_layers(f, layers, err));
    for (int64_t i = 0; i < layers; i++) {
        f->layer[i].heads = f->layer[i].kv_heads = heads;
        f->layer[i].hidden = hidden;
    }
    return RLX_OK;
}

rlx_status rx_facts_read_config(rx_facts *f, const rx_json *config, rlx_error *err)
{
    rx_facts_set_missing(f);
    f->name = "";
    if (f->arch->parts & RX_HAS_RELATIVE)
        return read_t5(f, config, err);
    f->window = 0;
    RLX_TRY(read_count(config, "hidden_size", 1, 1 << 20, &f->width, err));
    RLX_TRY(read_count(config, "max_position_embeddings", 1, INT32_MAX, &f->trained_context, err));
    RLX_TRY(read_layers(f, config, err));
    if (find(config, "head_dim"))
        RLX_TRY(read_count(config, "head_dim", 1, 1 << 16, &f->head_size, err));
    f->value_size = f->head_size;
    RLX_TRY(read_kind(f, config, err));
    const rx_json *name = find(config, "_name_or_path");
    if (name && name->kind == RX_JSON_STRING)
        f->name = rx_arena_strdup(&f->arena, name->text);
    return f->name ? RLX_OK : rx_fail_memory(err, "the name of a model", 1);
}
