# SPDX-License-Identifier: MIT
"""The same small random models as safetensors with a config.json, as their makers publish them.

models() gives them by name: what forward.py needs (metadata as in GGUF, tensors by GGUF's names),
the bytes of the file and the text of the config.
"""

import json
import math
import struct

import numpy as np

import make_models

NAMES = {"token_embd.weight": "model.embed_tokens.weight",
         "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}
PARTS = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_qkv": "self_attn.qkv_proj",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
         "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "post_attention_norm": "post_attention_layernorm",
         "post_ffw_norm": "post_feedforward_layernorm"}
EXPERTS = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}
MORE = {"ffn_gate_inp": "mlp.gate", "attn_q_a": "self_attn.q_a_proj",
        "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj",
        "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_b": "self_attn.kv_b_proj",
        "attn_kv_a_norm": "self_attn.kv_a_layernorm",
        "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
        "ffn_up_shexp": "mlp.shared_experts.up_proj",
        "ffn_down_shexp": "mlp.shared_experts.down_proj",
        "exp_probs_b.bias": "mlp.gate.e_score_correction_bias"}
# Where makers of single models call tensors otherwise.
OF_TYPE = {
    "mixtral": {"ffn_gate_inp": "block_sparse_moe.gate", "experts": "block_sparse_moe.experts",
                "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"},
    "granitemoe": {"ffn_gate_inp": "block_sparse_moe.router.layer"},
    "gemma2": {"ffn_norm": "pre_feedforward_layernorm"},
    "gemma3_text": {"ffn_norm": "pre_feedforward_layernorm"},
    "glm4": {"post_attention_norm": "post_self_attn_layernorm",
             "post_ffw_norm": "post_mlp_layernorm"},
    "phi": {"output_norm": "model.final_layernorm", "attn_output": "self_attn.dense",
            "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
    "qwen2_moe": {"ffn_gate_inp_shexp": "mlp.shared_expert_gate",
                  "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
                  "ffn_up_shexp": "mlp.shared_expert.up_proj",
                  "ffn_down_shexp": "mlp.shared_expert.down_proj"}}
OF_TYPE["qwen3_next"] = dict(OF_TYPE["qwen2_moe"], **{
    "ssm_in": "linear_attn.in_proj_qkvz", "ssm_ba": "linear_attn.in_proj_ba",
    "ssm_conv1d": "linear_attn.conv1d", "ssm_dt.bias": "linear_attn.dt_bias",
    "ssm_a": "linear_attn.A_log", "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj"})
NORMS = ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "attn_q_norm",
         "attn_k_norm", "output_norm")
TYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def published_name(name, fused, of_type):
    if not name.startswith("blk."):
        part, kind = name.split(".")
        if part in of_type:
            return "%s.%s" % (of_type[part], kind)
        return NAMES.get(name, "lm_head.bias")
    _, layer, part = name.split(".", 2)
    if part.startswith("nextn."):
        return "model.layers.%s.%s" % (layer, part[6:])
    for names in (of_type, MORE):
        if part in names:
            return "model.layers.%s.%s" % (layer, names[part])
    part, kind = part.split(".")
    if fused and part == "ffn_up":
        return "model.layers.%s.mlp.gate_up_proj.%s" % (layer, kind)
    return "model.layers.%s.%s.%s" % (layer, {**PARTS, **MORE, **of_type}[part], kind)


def split_experts(name, array, kind, of_type):
    """The bank as makers have it: a tensor for each expert."""
    _, layer, part, _ = name.split(".")
    for e, one in enumerate(array):
        yield ("model.layers.%s.%s.%d.%s.weight" % (
            layer, of_type.get("experts", "mlp.experts"), e,
            of_type.get(EXPERTS[part], EXPERTS[part])),
               (one.shape, kind, make_models.encode(one, kind)[0]))


def granite_experts(name, model, kind):
    """Gates and up in one bank."""
    p, part = name.rsplit(".", 2)[0], name.split(".")[2]
    layer = "model.layers.%s.block_sparse_moe." % name.split(".")[1]
    if part == "ffn_down_exps":
        a = model.tensors[name]
        yield layer + "output_linear.weight", (a.shape, kind, make_models.encode(a, kind)[0])
    if part == "ffn_up_exps":
        a = np.concatenate([model.tensors[p + ".ffn_gate_exps.weight"], model.tensors[name]], 1)
        yield layer + "input_linear.weight", (a.shape, kind, make_models.encode(a, kind)[0])


def published_vector(name, array, from_one):
    """What the file has: norms less one, the logarithm of the decay."""
    part = name.split(".")[2] if name.startswith("blk.") else name.split(".")[0]
    if part == "ssm_a":
        return np.log(-array), lambda x: -np.exp(x)
    if part == "ssm_conv1d":
        return array[:, None], lambda x: x[:, 0]
    if from_one and part in NORMS:
        return array - 1, lambda x: x + 1
    return array, lambda x: x


def safetensors(tensors):
    header, body = {}, b""
    for name, (shape, kind, data) in tensors.items():
        header[name] = {"dtype": TYPES[kind], "shape": list(shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def convert(model, **config):
    """Vectors become bf16 too, as in published files."""
    fused = "blk.0.attn_qkv.weight" in model.tensors or model.arch in ("glm4", "chatglm")
    kind_of_model = config.get("model_type", model.arch)
    of_type = OF_TYPE.get(kind_of_model, {})
    from_one = kind_of_model in ("gemma", "gemma2", "gemma3_text", "qwen3_next")
    tensors = {}
    for name, array in list(model.tensors.items()):
        if name.startswith("rope_"):
            continue
        kind = model.raw[name][1] if array.ndim > 1 else "bf16"
        if array.ndim == 3:
            tensors.update(granite_experts(name, model, kind) if kind_of_model == "granitemoe"
                           else split_experts(name, array, kind, of_type))
            continue
        stored, back = published_vector(name, array, from_one)
        data, got = make_models.encode(stored, kind)
        model.tensors[name] = back(got)
        tensors[published_name(name, fused, of_type)] = (stored.shape, kind, data)

    def number(key):
        return model.meta[model.arch + "." + key]
    # rotates halves
    model.published = model.arch not in ("command-r", "deepseek2", "chatglm", "glm4")
    model.data = safetensors(tensors)
    model.config = json.dumps(dict({
        "hidden_size": number("embedding_length"), "num_hidden_layers": number("block_count"),
        "intermediate_size": number("feed_forward_length"), "hidden_act": "silu",
        "head_dim": model.meta.get(model.arch + ".attention.key_length"),
        "num_attention_heads": number("attention.head_count"), "model_type": model.arch,
        "num_key_value_heads": number("attention.head_count_kv"), "rope_theta": 10000.0,
        "max_position_embeddings": number("context_length"), "rms_norm_eps": 1e-5,
        "sliding_window": None}, **config))
    return model


BERT = {"attn_q": "attention.self.query", "attn_k": "attention.self.key",
        "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
        "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense",
        "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm",
        "token_embd": "word_embeddings", "token_types": "token_type_embeddings",
        "position_embd": "position_embeddings", "token_embd_norm": "LayerNorm"}


def roberta(name, prefix, first=2):
    """An encoder whose first token has row 2 of the table of positions."""
    model = make_models.encoder("bert", name, types=1, positions=64)
    tensors = {}
    for key, array in model.tensors.items():
        parts = key.split(".")
        if parts[0] == "blk":
            key = "encoder.layer.%s.%s.%s" % (parts[1], BERT[parts[2]], parts[3])
        else:
            key = "embeddings.%s.%s" % (BERT[parts[0]], parts[1])
        if "position" in key:
            array = np.concatenate([np.full((first, array.shape[1]), 9.0), array])
        tensors[prefix + key] = (array.shape, "f32", make_models.encode(array, "f32")[0])
    model.data = safetensors(tensors)
    model.config = json.dumps({
        "model_type": "xlm-roberta", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 96, "hidden_act": "gelu",
        "max_position_embeddings": 64 + first, "pad_token_id": first - 1,
        "position_embedding_type": "absolute", "layer_norm_eps": 1e-6})
    return model


T5 = {"attn_q": "0.SelfAttention.q", "attn_k": "0.SelfAttention.k", "attn_v": "0.SelfAttention.v",
      "attn_o": "0.SelfAttention.o", "attn_norm": "0.layer_norm", "ffn_norm": "1.layer_norm",
      "ffn_gate": "1.DenseReluDense.wi_0", "ffn_up": "1.DenseReluDense.wi_1",
      "ffn_down": "1.DenseReluDense.wo",
      "attn_rel_b": "0.SelfAttention.relative_attention_bias"}


def t5(name, gated):
    model = make_models.t5("t5encoder", name, gated)
    tensors = {}
    for key, array in model.tensors.items():
        parts = key.split(".")
        if parts[1] == "blk":
            part = T5[parts[3]] if gated or parts[3] != "ffn_up" else "1.DenseReluDense.wi"
            key = "encoder.block.%s.layer.%s.weight" % (parts[2], part)
        else:
            key = {"token_embd.weight": "shared.weight",
                   "enc.output_norm.weight": "encoder.final_layer_norm.weight"}[key]
        tensors[key] = (array.shape, "f32", make_models.encode(array, "f32")[0])
    model.data = safetensors(tensors)
    model.config = json.dumps({
        "model_type": "t5", "d_model": 64, "d_kv": 24, "d_ff": 96, "num_layers": 2, "num_heads": 4,
        "n_positions": 512, "layer_norm_epsilon": 1e-6, "relative_attention_num_buckets": 32,
        **({"feed_forward_proj": "gated-gelu"} if gated else {})})
    return model


def llama3_divisors(n_rot, factor, low, high, original):
    out = []
    for i in range(n_rot // 2):
        length = 2 * math.pi * 10000.0 ** (2 * i / n_rot)
        if length < original / high:
            out.append(1.0)
        elif length > original / low:
            out.append(factor)
        else:
            smooth = (original / length - low) / (high - low)
            out.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(out)


DEEPSEEK = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24,
            "n_routed_experts": 8, "routed_scaling_factor": 1.5, "head_dim": 8, "rope_scaling": {
                "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                "mscale": 0.707, "mscale_all_dim": 0.707}}


def models():
    t, half = make_models.transformer, ("bf16", "f16", "f32")
    llama3 = t("llama", "hf-llama3", kinds=half)
    llama3.tensors["rope_freqs.weight"] = llama3_divisors(16, 8.0, 1.0, 4.0, 64)
    long, short = np.linspace(1, 12, 8), np.linspace(1, 1.5, 8)
    stretch = math.sqrt(1 + math.log(256 / 32) / math.log(32))
    phi = t("phi3", "hf-phi3", fused=True, kinds=half, numbers={
        "rope__scaling__original_context_length": 32, "rope__scaling__attn_factor": stretch})
    phi.tensors["rope_factors_long.weight"] = long
    phi.tensors["rope_factors_short.weight"] = short
    return {
        "hf-llama": convert(t("llama", "hf-llama", tied=True)),
        "hf-llama3": convert(llama3, rope_scaling={
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}),
        "hf-yarn": convert(
            t("llama", "hf-yarn", numbers={
                "rope__scaling__type": "yarn", "rope__scaling__factor": 4.0,
                "rope__scaling__original_context_length": 64}),
            rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}),
        "hf-mistral": convert(t("llama", "hf-mistral", numbers={"attention__sliding_window": 5}),
                              model_type="mistral", sliding_window=5),
        "hf-qwen2": convert(t("qwen2", "hf-qwen2", bias=True, tied=True, kinds=half),
                            use_sliding_window=False, sliding_window=4, max_window_layers=0),
        "hf-qwen3": convert(t("qwen3", "hf-qwen3", size=32, qk_norm=True), head_dim=32),
        "hf-t5": t5("hf-t5", True),
        "hf-t5-relu": t5("hf-t5-relu", False),
        "hf-roberta": roberta("hf-roberta", "roberta."),
        "hf-xlmr": roberta("hf-xlmr", ""),
        "hf-granite": convert(
            t("granite", "hf-granite", tied=True, kinds=half, numbers={
                "embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0,
                "attention__scale": 0.0625}),
            embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0,
            attention_multiplier=0.0625),
        "hf-olmo2": convert(make_models.olmo2("hf-olmo2")),
        "hf-cohere": convert(
            make_models.parallel("command-r", "hf-cohere", tied=True, kinds=half,
                                 numbers={"logit_scale": 0.0625}),
            model_type="cohere", logit_scale=0.0625, layer_norm_eps=1e-5),
        "hf-mixtral": convert(t("llama", "hf-mixtral", expert=(4, 96), kinds=half, numbers={
            "expert_count": 4, "expert_used_count": 2}), model_type="mixtral",
            num_local_experts=4, num_experts_per_tok=2),
        "hf-qwen2moe": convert(t("qwen2moe", "hf-qwen2moe", bias=True, expert=(6, 64, 96),
                                 numbers={"expert_count": 6, "expert_used_count": 3}),
                               model_type="qwen2_moe", num_experts=6, num_experts_per_tok=3,
                               norm_topk_prob=False),
        "hf-qwen3moe": convert(t("qwen3moe", "hf-qwen3moe", qk_norm=True, expert=(6, 64),
                                 numbers={"expert_count": 6, "expert_used_count": 2}),
                               model_type="qwen3_moe", num_experts=6, num_experts_per_tok=2,
                               norm_topk_prob=True),
        "hf-granitemoe": convert(t("granitemoe", "hf-granitemoe", expert=(4, 96), numbers={
            "expert_count": 4, "expert_used_count": 2, "logit_scale": 8.0}),
            num_local_experts=4, num_experts_per_tok=2, logits_scaling=8.0),
        "hf-gemma": convert(t("gemma", "hf-gemma", size=32, kv_heads=1, tied=True),
                            hidden_act="gelu", hidden_activation=None),
        "hf-gemma2": convert(
            t("gemma2", "hf-gemma2", layers=3, size=32, tied=True, post_norms=True, kinds=half,
              numbers={"attention__sliding_window": 4, "attn_logit_softcapping": 5.0,
                       "final_logit_softcapping": 3.0, "attention__scale": 0.2}),
            hidden_activation="gelu_pytorch_tanh", sliding_window=4, attn_logit_softcapping=5.0,
            final_logit_softcapping=3.0, query_pre_attn_scalar=25),
        "hf-gemma3": convert(
            t("gemma3", "hf-gemma3", layers=7, size=32, tied=True, post_norms=True, qk_norm=True,
              numbers={"attention__sliding_window": 4, "rope__freq_base": 1000000.0,
                       "rope__scaling__type": "linear", "rope__scaling__factor": 8.0}),
            model_type="gemma3_text", hidden_activation="gelu_pytorch_tanh", sliding_window=4,
            rope_theta=1000000.0, rope_local_base_freq=10000.0, query_pre_attn_scalar=32,
            layer_types=["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
            rope_scaling={"rope_type": "linear", "factor": 8.0}),
        "hf-phi": convert(
            make_models.parallel("phi2", "hf-phi", kv_heads=4, biases=True, fused=False,
                                 numbers={"rope__dimension_count": 8}),
            model_type="phi", hidden_act="gelu_new", partial_rotary_factor=0.5,
            layer_norm_eps=1e-5),
        "hf-glm": convert(t("chatglm", "hf-glm", fused_up=True, bias=True, kinds=half,
                            numbers={"rope__dimension_count": 8}),
                          model_type="glm", partial_rotary_factor=0.5),
        "hf-glm4": convert(t("glm4", "hf-glm4", fused_up=True, post_norms=True,
                             numbers={"rope__dimension_count": 8}), partial_rotary_factor=0.5),
        "hf-glm4moe": convert(
            make_models.glm4moe("hf-glm4moe"), model_type="glm4_moe", num_hidden_layers=3,
            num_nextn_predict_layers=1, partial_rotary_factor=0.5, n_routed_experts=6,
            num_experts_per_tok=2, norm_topk_prob=True, routed_scaling_factor=1.2, n_group=1,
            topk_group=1),
        "hf-deepseek2": convert(
            make_models.deepseek("hf-deepseek2", split=False, groups=2, used=2, kinds=half),
            model_type="deepseek_v2", topk_method="group_limited_greedy", n_group=2, topk_group=1,
            num_experts_per_tok=2, **DEEPSEEK),
        "hf-deepseek3": convert(
            make_models.deepseek("hf-deepseek3", split=False, q_rank=32, groups=4, sigmoid=True),
            model_type="deepseek_v3", scoring_func="sigmoid", topk_method="noaux_tc", n_group=4,
            topk_group=2, num_experts_per_tok=3, norm_topk_prob=True, q_lora_rank=32, **DEEPSEEK),
        "hf-qwen3next": convert(
            make_models.qwen3next("hf-qwen3next", joined=True), model_type="qwen3_next",
            num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, partial_rotary_factor=0.25,
            linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16,
            linear_value_head_dim=16, linear_conv_kernel_dim=4),
        "hf-phi3": convert(phi, original_max_position_embeddings=32, rope_scaling={
            "type": "longrope", "long_factor": long.tolist(), "short_factor": short.tolist()}),
    }
