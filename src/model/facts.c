/* SPDX-License-Identifier: MIT */
/* The table of architectures, and the hyperparameters of one model: read from a file, completed and
 * checked for consistency. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/json.h"
#include "model/facts.h"

/* ---- The architectures ----------------------------------------------------------------------- */

#define LOGITS (RX_HAS_DECODER | RX_HAS_FIRST_NORM | RX_HAS_OUT_NORM)
#define CAUSAL (LOGITS | RX_HAS_ATTENTION | RX_HAS_ROPE)
#define DECODER (CAUSAL | RX_HAS_PRE_NORM | RX_HAS_FFN_NORM)
#define NEXT (CAUSAL | RX_HAS_PRE_NORM | RX_HAS_NEXT_NORM)
#define PARALLEL (CAUSAL | RX_HAS_PRE_NORM | RX_HAS_LAYER_NORM | RX_HAS_PARALLEL)
#define GATED (RX_HAS_DENSE | RX_HAS_GATE | RX_HAS_UP)
#define POST RX_HAS_POST_NORM
#define MAMBA (LOGITS | RX_HAS_PRE_NORM | RX_HAS_MAMBA)
#define EMBED (RX_HAS_ENCODER | RX_HAS_EMBED_NORM)
#define ENCODER (EMBED | RX_HAS_ATTENTION | RX_HAS_DENSE | RX_HAS_UP | RX_HAS_OUT_NORMS)
#define PRE_NORM_ENCODER (EMBED | RX_HAS_ATTENTION | RX_HAS_DENSE | RX_HAS_PRE_NORM | \
                          RX_HAS_FFN_NORM | RX_HAS_LAYER_NORM | RX_HAS_OUT_NORM)

#define T5 (RX_HAS_ENCODER | RX_HAS_ATTENTION | RX_HAS_DENSE | RX_HAS_GATE | RX_HAS_UP | \
            RX_HAS_PRE_NORM | RX_HAS_FIRST_NORM | RX_HAS_FFN_NORM | RX_HAS_OUT_NORM | \
            RX_HAS_RELATIVE)

static const rx_arch archs[] = {
    {.name = "llama", .parts = DECODER | GATED, .act = RLX_ACT_SILU, .pairs = true,
     .norm_experts = true},
    {.name = "qwen2", .parts = DECODER | GATED | RX_HAS_QKV_BIAS, .act = RLX_ACT_SILU},
    {.name = "qwen3", .parts = DECODER | GATED | RX_HAS_QK_NORM, .act = RLX_ACT_SILU},
    {.name = "qwen2moe", .parts = DECODER | RX_HAS_QKV_BIAS | RX_HAS_EXPERTS | RX_HAS_SHARED |
     RX_HAS_SHARED_ROUTER, .act = RLX_ACT_SILU},
    {.name = "qwen3moe", .parts = DECODER | RX_HAS_QK_NORM | RX_HAS_EXPERTS,
     .act = RLX_ACT_SILU, .norm_experts = true},
    {.name = "qwen3next", .parts = NEXT | RX_HAS_QK_NORM | RX_HAS_EXPERTS | RX_HAS_SHARED |
     RX_HAS_SHARED_ROUTER | RX_HAS_DELTA | RX_HAS_Q_GATE, .act = RLX_ACT_SILU,
     .norm_experts = true},
    {.name = "gpt-oss", .parts = NEXT | RX_HAS_QKV_BIAS | RX_HAS_SINKS | RX_HAS_EXPERTS |
     RX_HAS_EXPERT_BIASES | RX_HAS_BIASES, .act = RLX_ACT_SILU, .window_period = 2,
     .router = RX_ROUTER_SOFTMAX_OF_CHOSEN, .swiglu_limit = 7},
    {.name = "deepseek2", .parts = DECODER | GATED | RX_HAS_MLA | RX_HAS_EXPERTS | RX_HAS_SHARED,
     .act = RLX_ACT_SILU, .pairs = true, .mixed = true},
    {.name = "glm4moe", .parts = NEXT | GATED | RX_HAS_EXPERTS | RX_HAS_SHARED,
     .act = RLX_ACT_SILU, .mixed = true, .maybe_qk_norm = true, .router = RX_ROUTER_SIGMOID},
    {.name = "llama4", .parts = DECODER | GATED | RX_HAS_EXPERTS | RX_HAS_SHARED,
     .act = RLX_ACT_SILU, .pairs = true, .mixed = true, .weigh_input = true, .chunked = true,
     .window = 8192, .window_period = 4, .router = RX_ROUTER_SIGMOID},
    {.name = "gemma", .parts = DECODER | GATED, .act = RLX_ACT_GELU_TANH, .scale_embedding = true},
    {.name = "gemma2", .parts = DECODER | GATED | POST, .act = RLX_ACT_GELU_TANH,
     .scale_embedding = true, .window = 4096, .window_period = 2, .wide_layers = 46,
     .attention_cap = 50, .final_cap = 30},
    {.name = "gemma3", .parts = DECODER | GATED | POST | RX_HAS_QK_NORM,
     .act = RLX_ACT_GELU_TANH, .scale_embedding = true, .window_period = 6, .wide_layers = 62,
     .local_base = 10000},
    {.name = "phi3", .parts = DECODER | GATED, .act = RLX_ACT_SILU},
    {.name = "granite", .parts = DECODER | GATED, .act = RLX_ACT_SILU, .pairs = true,
     .divide_logits = true},
    {.name = "granitemoe", .parts = DECODER | RX_HAS_EXPERTS, .act = RLX_ACT_SILU, .pairs = true,
     .norm_experts = true, .divide_logits = true},
    {.name = "olmo2", .parts = CAUSAL | GATED | POST | RX_HAS_WIDE_QK_NORM,
     .act = RLX_ACT_SILU},
    {.name = "phi2", .parts = PARALLEL | RX_HAS_DENSE | RX_HAS_UP | RX_HAS_BIASES,
     .act = RLX_ACT_GELU_TANH},
    {.name = "command-r", .parts = PARALLEL | GATED, .act = RLX_ACT_SILU, .pairs = true},
    {.name = "chatglm", .parts = DECODER | GATED, .act = RLX_ACT_SILU, .pairs = true},
    {.name = "glm4", .parts = DECODER | GATED | POST, .act = RLX_ACT_SILU, .pairs = true},
    {.name = "mamba", .parts = MAMBA | RX_HAS_MAMBA1},
    {.name = "mamba2", .parts = MAMBA | RX_HAS_MAMBA2},
    {.name = "bert", .parts = ENCODER | RX_HAS_POSITIONS | RX_HAS_QKV_BIAS | RX_HAS_BIASES,
     .act = RLX_ACT_GELU},
    {.name = "modern-bert", .parts = PRE_NORM_ENCODER | RX_HAS_GATE | RX_HAS_UP | RX_HAS_ROPE,
     .act = RLX_ACT_GELU, .window = 128, .window_period = 3, .window_last = true,
     .local_base = 10000},
    {.name = "t5encoder", .parts = T5, .act = RLX_ACT_GELU_TANH},
    {.name = "t5", .parts = T5, .act = RLX_ACT_GELU_TANH},
    {.name = "nomic-bert", .parts = ENCODER | RX_HAS_GATE | RX_HAS_ROPE, .act = RLX_ACT_SILU},
};

const rx_arch *rx_arch_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (strlen(archs[i].name) == length && memcmp(archs[i].name, name, length) == 0)
            return &archs[i];
    return NULL;
}

static rlx_status set_arch(rx_facts *f, const char *name, size_t length, rlx_error *err)
{
    char known[256];
    size_t n = 0;
    f->arch = rx_arch_find(name, length);
    if (f->arch)
        return RLX_OK;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0] && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, i ? ", %s" : "%s", archs[i].name);
    return rx_fail(err, RLX_UNSUPPORTED, "the architecture '%.*s' is none of those rlx knows: %s",
                   length < 40 ? (int)length : 40, name, known);
}

/* ---- Consistency ----------------------------------------------------------------------------- */

/* The head size is given, or width / heads. */
static rlx_status set_head_size(rx_facts *f, int64_t *size, const char *what, rlx_error *err)
{
    const int64_t heads = f->layer[0].heads;
    if (*size > 0)
        return RLX_OK;
    if (f->width % heads)
        return rx_fail(err, RLX_INVALID, "%s is not given and the width %lld is no multiple of the "
                       "%lld heads", what, (long long)f->width, (long long)heads);
    *size = f->width / heads;
    return RLX_OK;
}

/* Checks the sizes of MLA: latents, and heads in expanded form. */
static rlx_status check_mla(rx_facts *f, rlx_error *err)
{
    if (f->kv_rank == 0)
        return rx_fail(err, RLX_INVALID, "the file has no attention.kv_lora_rank, which the "
                       "architecture %s needs", f->arch->name);
    if (f->mla_key == 0)
        f->mla_key = f->head_size;
    if (f->mla_value == 0)
        f->mla_value = f->value_size;
    if (f->n_rot < 1 || f->n_rot >= f->mla_key)
        return rx_fail(err, RLX_INVALID, "rope.dimension_count: expected a number from 1 up to "
                       "less than the %lld elements of a head, got %lld", (long long)f->mla_key,
                       (long long)f->n_rot);
    const double longer = f->rope == RX_ROPE_YARN && f->rope_factor > 1 ? log(f->rope_factor) : 0;
    const double m = 1 + f->yarn_log * longer;
    if (f->attention_scale == 0)
        f->attention_scale = m * m / sqrt((double)f->mla_key);
    return RLX_OK;
}

static rlx_status check_attention(rx_facts *f, rlx_error *err)
{
    RLX_TRY(set_head_size(f, &f->head_size, "attention.key_length", err));
    RLX_TRY(set_head_size(f, &f->value_size, "attention.value_length", err));
    if (f->n_rot < 0)
        f->n_rot = f->head_size;
    if (f->arch->parts & RX_HAS_MLA)
        RLX_TRY(check_mla(f, err));
    if (f->n_rot > f->head_size || f->n_rot % 2)
        return rx_fail(err, RLX_INVALID, "rope.dimension_count: expected an even number up to the "
                       "%lld elements of a head, got %lld", (long long)f->head_size,
                       (long long)f->n_rot);
    for (int64_t i = 0; i < f->layers; i++) {
        const rx_layer *l = &f->layer[i];
        if (l->heads % l->kv_heads)
            return rx_fail(err, RLX_INVALID, "layer %lld: the heads must be a multiple of the k/v "
                           "heads, got %lld and %lld", (long long)i, (long long)l->heads,
                           (long long)l->kv_heads);
    }
    if (f->arch->parts & RX_HAS_RELATIVE)
        f->attention_scale = 1;
    if (f->attention_scale == 0) {
        const bool wide = f->arch->wide_layers == f->layers;
        const int64_t part = wide ? f->width / f->layer[0].heads : f->head_size;
        f->attention_scale = 1 / sqrt((double)(part > 0 ? part : 1));
    }
    return RLX_OK;
}

static void fill_rope(rx_facts *f)
{
    if (f->rope_original == 0)
        f->rope_original = f->trained_context;
    if (f->rope_factor == 0)
        f->rope_factor = 1;
    if (f->yarn_extrapolation < 0)
        f->yarn_extrapolation = 1;
    if (f->rope_local_base == 0)
        f->rope_local_base = f->arch->local_base;
}

static rlx_status check_experts(rx_facts *f, rlx_error *err)
{
    const bool needs = f->arch->parts & RX_HAS_EXPERTS;
    if (f->experts == 0 && !needs)
        return RLX_OK;
    if (f->experts_used < 1 || f->experts_used > f->experts)
        return rx_fail(err, RLX_INVALID, "expert_used_count: expected a number from 1 to the %lld "
                       "experts, got %lld", (long long)f->experts, (long long)f->experts_used);
    if (f->expert_scale == 0)
        f->expert_scale = 1;
    if (f->router == RX_ROUTER_UNSET)
        f->router = f->arch->router != RX_ROUTER_UNSET ? f->arch->router : RX_ROUTER_SOFTMAX;
    if (f->expert_groups <= 1)
        return RLX_OK;
    if (f->experts % f->expert_groups || f->groups_used < 1 || f->groups_used > f->expert_groups ||
        f->experts / f->expert_groups * f->groups_used < f->experts_used)
        return rx_fail(err, RLX_INVALID, "expert_group_count and expert_group_used_count: expected "
                       "equal groups of the %lld experts with %lld or more in those used, got %lld "
                       "and %lld", (long long)f->experts, (long long)f->experts_used,
                       (long long)f->expert_groups, (long long)f->groups_used);
    return RLX_OK;
}

/* Llama 4: defaults missing from its files. */
static void fill_chunked(rx_facts *f)
{
    if (!f->arch->chunked)
        return;
    if (f->temperature_length == 0)
        f->temperature_length = 8192;
    if (f->temperature_scale == 0)
        f->temperature_scale = 0.1;
    if (f->naming == RX_NAMES_GGUF)
        f->unit_qk = f->experts != 128;
}

static rlx_status check_ssm(rx_facts *f, rlx_error *err)
{
    if (f->ssm_conv < 2 || f->ssm_inner == 0 || f->ssm_state == 0 || f->ssm_rank == 0)
        return rx_fail(err, RLX_INVALID, "ssm.conv_kernel, inner_size, state_size and "
                       "time_step_rank: expected all, and a kernel of 2 or more, got %lld, %lld, "
                       "%lld, %lld", (long long)f->ssm_conv, (long long)f->ssm_inner,
                       (long long)f->ssm_state, (long long)f->ssm_rank);
    if (f->arch->parts & RX_HAS_MAMBA1)
        return RLX_OK;
    if (f->arch->parts & RX_HAS_DELTA && f->ssm_groups > 0 &&
        f->ssm_inner != f->ssm_rank * f->ssm_state)
        return rx_fail(err, RLX_UNSUPPORTED, "ssm: expected an inner size of heads "
                       "(time_step_rank) times state_size, got %lld, %lld and %lld",
                       (long long)f->ssm_inner, (long long)f->ssm_rank, (long long)f->ssm_state);
    if (f->ssm_groups == 0)
        f->ssm_groups = 1;
    if (f->ssm_inner % f->ssm_rank == 0 && f->ssm_rank % f->ssm_groups == 0)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "ssm: expected an inner size that is a multiple of the heads "
                   "(time_step_rank), and those of the groups, got %lld, %lld and %lld",
                   (long long)f->ssm_inner, (long long)f->ssm_rank, (long long)f->ssm_groups);
}

rlx_status rx_facts_check(rx_facts *f, rlx_error *err)
{
    const rx_arch *arch = f->arch;
    if (f->eps < 0)
        return rx_fail(err, RLX_INVALID, "the epsilon of the norms is not given");
    if (f->attention_cap < 0)
        f->attention_cap = arch->attention_cap;
    if (f->final_cap < 0)
        f->final_cap = arch->final_cap;
    if (f->embedding_scale == 0)
        f->embedding_scale = arch->scale_embedding ? sqrt((double)f->width) : 1;
    if (f->residual_scale == 0)
        f->residual_scale = 1;
    if (f->logit_scale == 0)
        f->logit_scale = 1;
    if (arch->divide_logits)
        f->logit_scale = 1 / f->logit_scale;
    if (arch->parts & RX_HAS_MAMBA)
        return check_ssm(f, err);
    fill_rope(f);
    RLX_TRY(check_attention(f, err));
    fill_chunked(f);
    if (arch->parts & RX_HAS_DELTA)
        RLX_TRY(check_ssm(f, err));
    return check_experts(f, err);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static rlx_status read_gguf(rx_facts *f, rlx_error *err)
{
    rlx_meta m;
    const char *text;
    size_t n;
    if (!rlx_file_find_meta(f->file, "general.architecture", &m) || m.is_array ||
        !rlx_meta_string(&m, 0, &text, &n))
        return rx_fail(err, RLX_INVALID, "the file has no general.architecture, a string: it is "
                       "no language model");
    RLX_TRY(set_arch(f, text, n, err));
    f->pairs = f->arch->pairs;
    if (f->arch->parts & RX_HAS_RELATIVE)
        f->model_type = "t5encoder"; /* whose tensors have other names */
    return rx_facts_read_gguf(f, err);
}

/* Architectures supported from safetensors, by model_type. */
static const struct {
    const char *type, *arch;
    rx_naming naming;
    bool pairs, norms_from_one;
} types[] = {
    {"bert", "bert", RX_NAMES_BERT, false, false},
    {"roberta", "bert", RX_NAMES_BERT, false, false},
    {"xlm-roberta", "bert", RX_NAMES_BERT, false, false},
    {"t5", "t5", RX_NAMES_HF, false, false},
    {"llama", "llama", RX_NAMES_HF, false, false},
    {"mistral", "llama", RX_NAMES_HF, false, false},
    {"mixtral", "llama", RX_NAMES_HF, false, false},
    {"qwen2", "qwen2", RX_NAMES_HF, false, false},
    {"qwen3", "qwen3", RX_NAMES_HF, false, false},
    {"qwen2_moe", "qwen2moe", RX_NAMES_HF, false, false},
    {"qwen3_moe", "qwen3moe", RX_NAMES_HF, false, false},
    {"qwen3_next", "qwen3next", RX_NAMES_HF, false, true},
    {"gemma", "gemma", RX_NAMES_HF, false, true},
    {"gemma2", "gemma2", RX_NAMES_HF, false, true},
    {"gemma3_text", "gemma3", RX_NAMES_HF, false, true},
    {"phi", "phi2", RX_NAMES_HF, false, false},
    {"phi3", "phi3", RX_NAMES_HF, false, false},
    {"granite", "granite", RX_NAMES_HF, false, false},
    {"granitemoe", "granitemoe", RX_NAMES_HF, false, false},
    {"olmo2", "olmo2", RX_NAMES_HF, false, false},
    {"cohere", "command-r", RX_NAMES_HF, true, false},
    {"glm", "chatglm", RX_NAMES_HF, true, false},
    {"glm4", "glm4", RX_NAMES_HF, true, false},
    {"glm4_moe", "glm4moe", RX_NAMES_HF, false, false},
    {"deepseek_v2", "deepseek2", RX_NAMES_HF, true, false},
    {"deepseek_v3", "deepseek2", RX_NAMES_HF, true, false},
};

static rlx_status read_config(rx_facts *f, const char *text, size_t bytes, rlx_error *err)
{
    const rx_json *config;
    char known[512];
    size_t n = 0;
    RLX_TRY(rx_json_parse(&f->arena, "config.json", text, bytes, &config, err));
    const rx_json *type = rx_json_member(config, "model_type");
    if (!type || type->kind != RX_JSON_STRING)
        return rx_fail(err, RLX_INVALID, "config.json: model_type: expected a string, got %s",
                       rx_json_kind_name(type));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, i ? ", %s" : "%s", types[i].type);
        if (strcmp(type->text, types[i].type) != 0)
            continue;
        f->naming = types[i].naming;
        f->model_type = types[i].type;
        f->pairs = types[i].pairs;
        f->norms_from_one = types[i].norms_from_one;
        f->arch = rx_arch_find(types[i].arch, strlen(types[i].arch));
        return rx_facts_read_config(f, config, err);
    }
    return rx_fail(err, RLX_UNSUPPORTED, "config.json: model_type: expected %s, got '%.40s'; other "
                   "models are read from GGUF files", known, type->text);
}

static rlx_status read_all(rx_facts *f, const char *config, size_t config_bytes, rlx_error *err)
{
    f->name = "";
    if (strcmp(rlx_file_format(f->file), "gguf") == 0)
        RLX_TRY(read_gguf(f, err));
    else if (config)
        RLX_TRY(read_config(f, config, config_bytes, err));
    else
        return rx_fail(err, RLX_INVALID, "a safetensors file needs the config.json of its model");
    RLX_TRY(rx_facts_check(f, err));
    return rx_facts_find_tensors(f, err);
}

rlx_status rx_facts_read(const rlx_file *file, const char *config, size_t config_bytes,
                         rx_facts **out, rlx_error *err)
{
    *out = NULL;
    rx_facts *f = rx_alloc_zero(sizeof *f);
    if (!f)
        return rx_fail_memory(err, "the facts of a model", sizeof *f);
    f->file = file;
    rlx_status st = read_all(f, config, config_bytes, err);
    if (st != RLX_OK) {
        rx_facts_destroy(f);
        return st;
    }
    *out = f;
    return RLX_OK;
}

void rx_facts_destroy(rx_facts *f)
{
    if (!f)
        return;
    rx_arena_finish(&f->arena);
    rx_free(f);
}

void rx_facts_get(const rx_facts *f, rx_model_facts *out)
{
    const rx_has parts = f->arch->parts;
    const bool positions = parts & RX_HAS_POSITIONS;
    const int64_t usable = f->positions - f->first_position;
    *out = (rx_model_facts){
        .architecture = f->arch->name,
        .name = f->name,
        .is_decoder = parts & RX_HAS_DECODER,
        .layers = f->layers,
        .width = f->width,
        .vocabulary = f->vocabulary,
        .trained_context = positions && usable < f->trained_context ? usable : f->trained_context,
        .embedding_width = f->width,
        .has_types = f->types > 0,
        .pooling = f->pooling,
        .recurrent = parts & RX_HAS_RECURRENT,
    };
}
