/* SPDX-License-Identifier: MIT */
/* Tensor names by file format: the columns of tensors.def, and exceptions by model_type for
 * safetensors. %d is the layer, %e an expert (one tensor per expert). */
#include <stdio.h>
#include <string.h>

#include "model/facts.h"

static const char *const columns[RX_N_ROLES][RX_N_NAMINGS] = {
#define TENSOR(ID, GGUF, BERT, HF, DIMS, PARTS, NEEDED) {GGUF, BERT, HF},
#include "model/tensors.def"
#undef TENSOR
};

#define L "model.layers.%d."
#define E "enc.blk.%d."
#define B "encoder.block.%d."

static const struct {
    const char *type; /* model_type, or several separated by spaces */
    rx_role role;
    const char *name;
} others[] = {
    {"mixtral", RX_T_ROUTER, L "block_sparse_moe.gate.weight"},
    {"mixtral", RX_T_GATE_EXPERTS, L "block_sparse_moe.experts.%e.w1.weight"},
    {"mixtral", RX_T_DOWN_EXPERTS, L "block_sparse_moe.experts.%e.w2.weight"},
    {"mixtral", RX_T_UP_EXPERTS, L "block_sparse_moe.experts.%e.w3.weight"},
    {"granitemoe", RX_T_ROUTER, L "block_sparse_moe.router.layer.weight"},
    {"granitemoe", RX_T_GATE_UP_EXPERTS, L "block_sparse_moe.input_linear.weight"},
    {"granitemoe", RX_T_DOWN_EXPERTS, L "block_sparse_moe.output_linear.weight"},
    {"qwen2_moe qwen3_next", RX_T_SHARED_ROUTER, L "mlp.shared_expert_gate.weight"},
    {"qwen2_moe qwen3_next", RX_T_SHARED_GATE, L "mlp.shared_expert.gate_proj.weight"},
    {"qwen2_moe qwen3_next", RX_T_SHARED_UP, L "mlp.shared_expert.up_proj.weight"},
    {"qwen2_moe qwen3_next", RX_T_SHARED_DOWN, L "mlp.shared_expert.down_proj.weight"},
    {"gemma2 gemma3_text", RX_T_FFN_NORM, L "pre_feedforward_layernorm.weight"},
    {"glm4", RX_T_POST_ATTN_NORM, L "post_self_attn_layernorm.weight"},
    {"glm4", RX_T_POST_FFN_NORM, L "post_mlp_layernorm.weight"},
    {"roberta xlm-roberta", RX_T_RANK, "classifier.dense.weight"},
    {"roberta xlm-roberta", RX_T_RANK_BIAS, "classifier.dense.bias"},
    {"roberta xlm-roberta", RX_T_RANK_OUT, "classifier.out_proj.weight"},
    {"roberta xlm-roberta", RX_T_RANK_OUT_BIAS, "classifier.out_proj.bias"},
    {"phi", RX_T_OUT_NORM, "model.final_layernorm.weight"},
    {"phi", RX_T_OUT_NORM_BIAS, "model.final_layernorm.bias"},
    {"phi", RX_T_OUTPUT_BIAS, "lm_head.bias"},
    {"phi", RX_T_ATTN_NORM_BIAS, L "input_layernorm.bias"},
    {"phi", RX_T_O, L "self_attn.dense.weight"},
    {"phi", RX_T_O_BIAS, L "self_attn.dense.bias"},
    {"phi", RX_T_UP, L "mlp.fc1.weight"},
    {"phi", RX_T_UP_BIAS, L "mlp.fc1.bias"},
    {"phi", RX_T_DOWN, L "mlp.fc2.weight"},
    {"phi", RX_T_DOWN_BIAS, L "mlp.fc2.bias"},
    {"t5encoder", RX_T_OUT_NORM, "enc.output_norm.weight"},
    {"t5encoder", RX_T_ATTN_NORM, E "attn_norm.weight"},
    {"t5encoder", RX_T_Q, E "attn_q.weight"},
    {"t5encoder", RX_T_K, E "attn_k.weight"},
    {"t5encoder", RX_T_V, E "attn_v.weight"},
    {"t5encoder", RX_T_O, E "attn_o.weight"},
    {"t5encoder", RX_T_FFN_NORM, E "ffn_norm.weight"},
    {"t5encoder", RX_T_GATE, E "ffn_gate.weight"},
    {"t5encoder", RX_T_UP, E "ffn_up.weight"},
    {"t5encoder", RX_T_DOWN, E "ffn_down.weight"},
    {"t5 t5-relu", RX_T_EMBED, "shared.weight"},
    {"t5 t5-relu", RX_T_OUT_NORM, "encoder.final_layer_norm.weight"},
    {"t5 t5-relu", RX_T_REL_BIAS,
     "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"t5 t5-relu", RX_T_ATTN_NORM, B "layer.0.layer_norm.weight"},
    {"t5 t5-relu", RX_T_Q, B "layer.0.SelfAttention.q.weight"},
    {"t5 t5-relu", RX_T_K, B "layer.0.SelfAttention.k.weight"},
    {"t5 t5-relu", RX_T_V, B "layer.0.SelfAttention.v.weight"},
    {"t5 t5-relu", RX_T_O, B "layer.0.SelfAttention.o.weight"},
    {"t5 t5-relu", RX_T_FFN_NORM, B "layer.1.layer_norm.weight"},
    {"t5", RX_T_GATE, B "layer.1.DenseReluDense.wi_0.weight"},
    {"t5", RX_T_UP, B "layer.1.DenseReluDense.wi_1.weight"},
    {"t5-relu", RX_T_UP, B "layer.1.DenseReluDense.wi.weight"},
    {"t5 t5-relu", RX_T_DOWN, B "layer.1.DenseReluDense.wo.weight"},
};

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *s = words; (s = strstr(s, word)) != NULL; s += n)
        if ((s == words || s[-1] == ' ') && (s[n] == 0 || s[n] == ' '))
            return true;
    return false;
}

const char *rx_facts_name_format(const rx_facts *f, rx_role role)
{
    for (size_t i = 0; f->model_type && i < sizeof others / sizeof others[0]; i++)
        if (others[i].role == role && has_word(others[i].type, f->model_type))
            return others[i].name;
    return columns[role][f->naming];
}

bool rx_facts_is_stack(const rx_facts *f, rx_role role)
{
    const char *format = rx_facts_name_format(f, role);
    return format && strstr(format, "%e");
}

bool rx_print_tensor_name(const char *format, int64_t layer, int64_t expert, char *text,
                          size_t size)
{
    size_t n = 0;
    for (const char *s = format; *s && n < size; s++) {
        const bool is_number = s[0] == '%' && (s[1] == 'd' || s[1] == 'e');
        if (is_number)
            n += (size_t)snprintf(text + n, size - n, "%lld",
                                  (long long)(*++s == 'd' ? layer : expert));
        else
            text[n++] = *s;
    }
    if (n >= size)
        return false;
    text[n] = 0;
    return true;
}

bool rx_facts_tensor_name(rx_role role, rx_naming naming, int64_t layer, char *text, size_t size)
{
    const char *format = columns[role][naming];
    return format && rx_print_tensor_name(format, layer, 0, text, size);
}

rx_change rx_facts_change(const rx_facts *f, rx_role role)
{
    if (f->naming != RX_NAMES_HF)
        return RX_CHANGE_NONE;
    switch (role) {
    case RX_T_DELTA_A: return RX_CHANGE_DECAY;
    case RX_T_ATTN_NORM: case RX_T_FFN_NORM: case RX_T_NEXT_NORM: case RX_T_OUT_NORM:
    case RX_T_POST_ATTN_NORM: case RX_T_POST_FFN_NORM: case RX_T_Q_NORM: case RX_T_K_NORM:
        return f->norms_from_one ? RX_CHANGE_ONE : RX_CHANGE_NONE;
    default: return RX_CHANGE_NONE;
    }
}
