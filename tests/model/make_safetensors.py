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
TYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def published_name(name, fused):
    if name in NAMES:
        return NAMES[name]
    _, layer, part, kind = name.split(".")
    if fused and part == "ffn_up":
        return "model.layers.%s.mlp.gate_up_proj.%s" % (layer, kind)
    return "model.layers.%s.%s.%s" % (layer, PARTS[part], kind)


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
    fused = "blk.0.attn_qkv.weight" in model.tensors
    tensors = {}
    for name, array in list(model.tensors.items()):
        if not name.startswith("rope_"):
            kind = model.raw[name][1] if array.ndim > 1 else "bf16"
            data, model.tensors[name] = make_models.encode(array, kind)
            tensors[published_name(name, fused)] = (array.shape, kind, data)

    def number(key):
        return model.meta[model.arch + "." + key]
    model.published = model.arch != "command-r"  # rotates halves
    model.data = safetensors(tensors)
    model.config = json.dumps(dict({
        "hidden_size": number("embedding_length"), "num_hidden_layers": number("block_count"),
        "intermediate_size": number("feed_forward_length"), "hidden_act": "silu",
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
        "hf-phi3": convert(phi, original_max_position_embeddings=32, rope_scaling={
            "type": "longrope", "long_factor": long.tolist(), "short_factor": short.tolist()}),
    }
