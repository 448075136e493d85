# SPDX-License-Identifier: MIT
"""Small random models of each architecture as GGUF files, written by hand with NumPy.

models() gives them by name: metadata, the tensors as the file's types round them (float64) and the
bytes of the file. Nothing here is shared with the library: names, shapes and metadata are those
that published files of the architectures have.
"""

import struct
from types import SimpleNamespace

import numpy as np

ALIGNMENT = 32
GGUF_TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30, "mxfp4": 39}
MXFP4_LEVELS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


# ---- Types -------------------------------------------------------------------------------------

def encode(array, kind):
    """The bytes of an array in a type, and what they mean."""
    a = np.ascontiguousarray(array, np.float32)
    if kind == "f32":
        return a.tobytes(), a.astype(np.float64)
    if kind == "f16":
        h = a.astype(np.float16)
        return h.tobytes(), h.astype(np.float64)
    if kind == "bf16":
        bits = (a.view(np.uint32) + 0x8000) >> 16
        back = (bits.astype(np.uint32) << 16).view(np.float32)
        return bits.astype(np.uint16).tobytes(), back.astype(np.float64)
    blocks = a.reshape(-1, 32)
    if kind == "mxfp4":
        return encode_mxfp4(blocks, a.shape)
    scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    wide = np.maximum(scale.astype(np.float32), 1e-20)
    codes = np.clip(np.rint(blocks / wide), -127, 127).astype(np.int8)
    data = b"".join(s.tobytes() + c.tobytes() for s, c in zip(scale, codes))
    return data, (codes * scale.astype(np.float64)).reshape(a.shape)


def encode_mxfp4(blocks, shape):
    """A power of two for 32 elements, element i in the low half of byte i, i + 16 in the high."""
    power = np.floor(np.log2(np.maximum(np.abs(blocks).max(1), 1e-30))).astype(int) - 2
    wide = np.exp2(power.astype(np.float64))[:, None]
    codes = np.abs((blocks / wide)[:, :, None] - MXFP4_LEVELS).argmin(2)
    data = np.concatenate([(power + 127)[:, None], codes[:, :16] | codes[:, 16:] << 4], 1)
    return data.astype(np.uint8).tobytes(), (MXFP4_LEVELS[codes] * wide).reshape(shape)


# ---- The file ----------------------------------------------------------------------------------

def string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    """Type number and bytes of a metadata value."""
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, str):
        return 8, string(v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, list):
        parts = [value(x) for x in v]
        kind = parts[0][0]
        return 9, struct.pack("<IQ", kind, len(v)) + b"".join(b for _, b in parts)
    return (4, struct.pack("<I", v)) if v >= 0 else (5, struct.pack("<i", v))


def gguf(meta, tensors):
    """The bytes of a file; `tensors` maps names to (shape, type, bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    for key, v in meta.items():
        kind, data = value(v)
        out += string(key) + struct.pack("<I", kind) + data
    at, body = 0, b""
    for name, (shape, kind, data) in tensors.items():
        out += string(name) + struct.pack("<I", len(shape))
        out += struct.pack("<%dQ" % len(shape), *reversed(shape))
        out += struct.pack("<IQ", GGUF_TYPES[kind], at)
        pad = -len(data) % ALIGNMENT
        body += data + b"\0" * pad
        at += len(data) + pad
    return out + b"\0" * (-len(out) % ALIGNMENT) + body


# ---- Building ----------------------------------------------------------------------------------

class Maker:
    def __init__(self, arch, name, kinds=("f32",)):
        self.arch, self.kinds, self.n = arch, kinds, 0
        self.rng = np.random.default_rng(sum(map(ord, name)))
        self.meta = {"general.architecture": arch, "general.name": name,
                     "tokenizer.ggml.model": "none"}
        self.tensors, self.arrays = {}, {}

    def set(self, **numbers):
        for key, v in numbers.items():
            self.meta[self.arch + "." + key.replace("__", ".")] = v

    def add(self, name, array, kind="f32"):
        data, back = encode(array, kind)
        self.tensors[name] = (np.shape(array), kind, data)
        self.arrays[name] = back

    def matrix(self, name, *shape, scale=1.0):
        """Rows of about unit length, in the next type of the model's."""
        kind = self.kinds[self.n % len(self.kinds)]
        self.n += 1
        if kind in ("q8_0", "mxfp4") and shape[-1] % 32:
            kind = "f32"
        std = scale / np.sqrt(shape[-1])
        self.add(name + ".weight", self.rng.normal(0, std, shape), kind)

    def vector(self, name, n, mean=0.0, std=0.1):
        self.add(name, self.rng.normal(mean, std, n))

    def done(self):
        return SimpleNamespace(arch=self.arch, meta=self.meta, tensors=self.arrays,
                               raw=self.tensors, data=gguf(self.meta, self.tensors))


WIDTH, VOCABULARY = 64, 96


def start(arch, name, layers=2, heads=4, kv_heads=2, hidden=96, size=None, tied=False,
          kinds=("f32",), context=256):
    m = Maker(arch, name, kinds)
    m.set(block_count=layers, embedding_length=WIDTH, feed_forward_length=hidden,
          context_length=context, vocab_size=VOCABULARY, attention__head_count=heads,
          attention__head_count_kv=kv_heads, attention__layer_norm_rms_epsilon=1e-5,
          rope__freq_base=10000.0)
    if size:
        m.set(attention__key_length=size, attention__value_length=size,
              rope__dimension_count=size)
    m.matrix("token_embd", VOCABULARY, WIDTH, scale=4.0)
    m.vector("output_norm.weight", WIDTH, 1.0)
    if not tied:
        m.matrix("output", VOCABULARY, WIDTH, scale=4.0)
    return m


def at(v, i):
    return v[i] if isinstance(v, list) else v


def attention(m, i, heads, kv_heads, size=None, bias=False, qk_norm=False, fused=False):
    p, size = "blk.%d." % i, size or WIDTH // heads
    m.vector(p + "attn_norm.weight", WIDTH, 1.0)
    parts = [("q", heads * size), ("k", kv_heads * size), ("v", kv_heads * size)]
    if fused:
        parts = [("qkv", (heads + 2 * kv_heads) * size)]
    for name, n in parts:
        m.matrix(p + "attn_" + name, n, WIDTH, scale=2.0)
        if bias:
            m.vector(p + "attn_%s.bias" % name, n)
    if qk_norm:
        m.vector(p + "attn_q_norm.weight", size, 1.0)
        m.vector(p + "attn_k_norm.weight", size, 1.0)
    m.matrix(p + "attn_output", WIDTH, heads * size)


def dense(m, i, hidden, fused=False):
    p = "blk.%d." % i
    m.vector(p + "ffn_norm.weight", WIDTH, 1.0)
    if fused:
        m.matrix(p + "ffn_up", 2 * hidden, WIDTH)
    else:
        m.matrix(p + "ffn_gate", hidden, WIDTH)
        m.matrix(p + "ffn_up", hidden, WIDTH)
    m.matrix(p + "ffn_down", WIDTH, hidden)


def experts(m, i, n, hidden, shared=0):
    p = "blk.%d." % i
    m.vector(p + "ffn_norm.weight", WIDTH, 1.0)
    m.matrix(p + "ffn_gate_inp", n, WIDTH)
    m.matrix(p + "ffn_gate_exps", n, hidden, WIDTH)
    m.matrix(p + "ffn_up_exps", n, hidden, WIDTH)
    m.matrix(p + "ffn_down_exps", n, WIDTH, hidden)
    if shared:
        m.vector(p + "ffn_gate_inp_shexp.weight", WIDTH)
        m.matrix(p + "ffn_gate_shexp", shared, WIDTH)
        m.matrix(p + "ffn_up_shexp", shared, WIDTH)
        m.matrix(p + "ffn_down_shexp", WIDTH, shared)


def transformer(arch, name, layers=2, heads=4, kv_heads=2, hidden=96, numbers=(), factors=None,
                expert=None, post_norms=False, fused=False, fused_up=False, bias=False,
                qk_norm=False, **start_with):
    m = start(arch, name, layers, heads, kv_heads, hidden, **start_with)
    m.set(**dict(numbers))
    for key, v in (factors or {}).items():
        m.add(key, np.asarray(v))
    size = start_with.get("size")
    for i in range(layers):
        attention(m, i, heads, at(kv_heads, i), size, bias, qk_norm, fused)
        if expert:
            experts(m, i, *expert)
        else:
            dense(m, i, at(hidden, i), fused or fused_up)
        if post_norms:
            m.vector("blk.%d.post_attention_norm.weight" % i, WIDTH, 1.0)
            m.vector("blk.%d.post_ffw_norm.weight" % i, WIDTH, 1.0)
    return m.done()


def parallel(arch, name, layers=2, heads=4, kv_heads=2, hidden=96, biases=False, numbers=(),
             fused=True, **start_with):
    """Attention and feed-forward beside each other, behind one norm that subtracts the mean."""
    m = start(arch, name, layers, heads, kv_heads, hidden, **start_with)
    m.set(attention__layer_norm_epsilon=1e-5, **dict(numbers))
    del m.meta[arch + ".attention.layer_norm_rms_epsilon"]
    if biases:
        m.vector("output_norm.bias", WIDTH)
        m.vector("output.bias", VOCABULARY)
    for i in range(layers):
        p = "blk.%d." % i
        attention(m, i, heads, kv_heads, bias=biases, fused=biases and fused)
        for name, n, k in (("ffn_up", hidden, WIDTH), ("ffn_down", WIDTH, hidden)):
            m.matrix(p + name, n, k)
            if biases:
                m.vector(p + name + ".bias", n)
        if biases:
            m.vector(p + "attn_norm.bias", WIDTH)
            m.vector(p + "attn_output.bias", WIDTH)
        else:
            m.matrix(p + "ffn_gate", hidden, WIDTH)
    return m.done()


def shared_expert(m, i, hidden, router=False):
    p = "blk.%d." % i
    if router:
        m.vector(p + "ffn_gate_inp_shexp.weight", WIDTH)
    m.matrix(p + "ffn_gate_shexp", hidden, WIDTH)
    m.matrix(p + "ffn_up_shexp", hidden, WIDTH)
    m.matrix(p + "ffn_down_shexp", WIDTH, hidden)


def rename_norm(m, i):
    """The norm before the feed-forward is called post_attention_norm in some architectures."""
    for d in (m.tensors, m.arrays):
        d["blk.%d.post_attention_norm.weight" % i] = d.pop("blk.%d.ffn_norm.weight" % i)


def gpt_oss(name, layers=3, heads=4, kv_heads=2, size=32, n=5, used=2, hidden=64, kinds=("f32",)):
    """Attention sinks, windows in every other layer, experts with biases and clamped gates."""
    m = start("gpt-oss", name, layers, heads, kv_heads, hidden, size=size, kinds=kinds)
    m.set(attention__sliding_window=6, expert_count=n, expert_used_count=used,
          expert_feed_forward_length=hidden, rope__freq_base=150000.0, rope__scaling__type="yarn",
          rope__scaling__factor=4.0, rope__scaling__original_context_length=64)
    for i in range(layers):
        p = "blk.%d." % i
        attention(m, i, heads, kv_heads, size, bias=True)
        m.vector(p + "attn_output.bias", WIDTH)
        m.vector(p + "attn_sinks.weight", heads, std=1.0)
        kept, m.kinds = m.kinds, ("mxfp4",) if len(kinds) > 1 else kinds
        experts(m, i, n, hidden)
        m.kinds = kept
        rename_norm(m, i)
        m.vector(p + "ffn_gate_inp.bias", n)
        for part, shape, std in (("gate", hidden, 3.0), ("up", hidden, 3.0), ("down", WIDTH, 0.1)):
            m.add(p + "ffn_%s_exps.bias" % part, m.rng.normal(0, std, (n, shape)))
    return m.done()


def deepseek(name, split, layers=3, heads=4, q_rank=0, rank=32, plain=16, rot=8, value=24, n=8,
             used=3, hidden=32, groups=0, sigmoid=False, kinds=("f32",)):
    """Attention through a latent; one dense layer, then experts and a shared one."""
    m = start("deepseek2", name, layers, heads, 1 if split else heads, 96, kinds=kinds)
    key = plain + rot
    m.set(attention__key_length=rank + rot if split else key, rope__dimension_count=rot,
          attention__value_length=rank if split else value, attention__kv_lora_rank=rank,
          expert_count=n, expert_used_count=used, expert_feed_forward_length=hidden,
          expert_shared_count=2, leading_dense_block_count=1, expert_weights_scale=1.5,
          expert_weights_norm=sigmoid, expert_gating_func=2 if sigmoid else 1,
          rope__scaling__type="yarn", rope__scaling__factor=4.0,
          rope__scaling__original_context_length=64, rope__scaling__yarn_log_multiplier=0.0707)
    if split:
        m.set(attention__key_length_mla=key, attention__value_length_mla=value)
    if q_rank:
        m.set(attention__q_lora_rank=q_rank)
    if groups:
        m.set(expert_group_count=groups, expert_group_used_count=groups // 2)
    for i in range(layers):
        p = "blk.%d." % i
        m.vector(p + "attn_norm.weight", WIDTH, 1.0)
        if q_rank:
            m.matrix(p + "attn_q_a", q_rank, WIDTH, scale=2.0)
            m.vector(p + "attn_q_a_norm.weight", q_rank, 1.0)
        m.matrix(p + ("attn_q_b" if q_rank else "attn_q"), heads * key, q_rank or WIDTH, scale=2.0)
        m.matrix(p + "attn_kv_a_mqa", rank + rot, WIDTH, scale=2.0)
        m.vector(p + "attn_kv_a_norm.weight", rank, 1.0)
        if split:
            m.matrix(p + "attn_k_b", heads, rank, plain, scale=2.0)
            m.matrix(p + "attn_v_b", heads, value, rank)
        else:
            m.matrix(p + "attn_kv_b", heads * (plain + value), rank, scale=2.0)
        m.matrix(p + "attn_output", WIDTH, heads * value)
        if i == 0:
            dense(m, i, 96)
            continue
        experts(m, i, n, hidden)
        shared_expert(m, i, 2 * hidden)
        if sigmoid:
            m.vector(p + "exp_probs_b.bias", n, std=0.3)
    return m.done()


def glm4moe(name, layers=3, heads=4, kv_heads=2, n=6, used=2, hidden=32, norms=True, extra=1):
    """A dense layer, then experts; behind the layers one of another prediction."""
    m = start("glm4moe", name, layers, heads, kv_heads)
    m.set(block_count=layers + extra, nextn_predict_layers=extra, expert_count=n,
          expert_used_count=used, expert_feed_forward_length=hidden, expert_shared_count=1,
          leading_dense_block_count=1, expert_weights_scale=1.2, expert_weights_norm=True,
          expert_gating_func=2, rope__dimension_count=8)
    for i in range(layers + extra):
        attention(m, i, heads, kv_heads, bias=True, qk_norm=norms)
        if i == 0:
            dense(m, i, 96)
        else:
            experts(m, i, n, hidden)
            shared_expert(m, i, hidden)
            m.vector("blk.%d.exp_probs_b.bias" % i, n, std=0.3)
        rename_norm(m, i)
    for i in range(layers, layers + extra):
        m.matrix("blk.%d.nextn.eh_proj" % i, WIDTH, 2 * WIDTH)
        m.vector("blk.%d.nextn.enorm.weight" % i, WIDTH, 1.0)
        m.vector("blk.%d.nextn.hnorm.weight" % i, WIDTH, 1.0)
    return m.done()


def llama4(name, layers=5, heads=4, kv_heads=2, n=4, hidden=48, window=16, experts_from=1):
    """Chunks in three of four layers; experts in every other one, weighted before they are used."""
    m = start("llama4", name, layers, heads, kv_heads)
    m.set(expert_count=n, expert_used_count=1, expert_feed_forward_length=hidden,
          interleave_moe_layer_step=2, attention__sliding_window=window)
    if window:
        m.set(attention__temperature_length=window, attention__temperature_scale=0.3)
    for i in range(layers):
        attention(m, i, heads, kv_heads)
        if i % 2 == experts_from:
            experts(m, i, n, hidden)
            shared_expert(m, i, hidden)
        else:
            dense(m, i, 96)
    return m.done()


def qwen3next(name, joined=False, layers=5, heads=4, kv_heads=2, size=32, n=6, used=2, hidden=32,
              groups=2, values=4, state=16, conv=4):
    """Three of four layers have a gated delta net, the others attention with gates."""
    m = start("qwen3next", name, layers, heads, kv_heads, size=size)
    inner = values * state
    m.set(rope__dimension_count=8, expert_count=n, expert_used_count=used,
          expert_feed_forward_length=hidden, expert_shared_feed_forward_length=48,
          ssm__conv_kernel=conv, ssm__inner_size=inner, ssm__state_size=state,
          ssm__time_step_rank=values, ssm__group_count=groups)
    channels = inner + 2 * groups * state
    for i in range(layers):
        p = "blk.%d." % i
        if i % 4 == 3:
            attention(m, i, heads, kv_heads, size, qk_norm=True)
            m.matrix(p + "attn_q", 2 * heads * size, WIDTH, scale=2.0)
        else:
            m.vector(p + "attn_norm.weight", WIDTH, 1.0)
            if joined:
                m.matrix(p + "ssm_in", inner + channels, WIDTH, scale=2.0)
            else:
                m.matrix(p + "attn_qkv", channels, WIDTH, scale=2.0)
                m.matrix(p + "attn_gate", inner, WIDTH)
            m.matrix(p + "ssm_ba", 2 * values, WIDTH)
            m.add(p + "ssm_conv1d.weight", m.rng.normal(0, 0.5, (channels, conv)))
            m.vector(p + "ssm_dt.bias", values, -1.0)
            m.add(p + "ssm_a", -np.exp(m.rng.normal(0, 1, values)))
            m.vector(p + "ssm_norm.weight", state, 1.0)
            m.matrix(p + "ssm_out", WIDTH, inner)
        experts(m, i, n, hidden)
        shared_expert(m, i, 48, router=True)
        rename_norm(m, i)
    return m.done()


def olmo2(name, layers=2, heads=4, kv_heads=2, hidden=96):
    """Norms behind the parts only, and of all heads of q and of k together."""
    m = start("olmo2", name, layers, heads, kv_heads, hidden)
    size = WIDTH // heads
    for i in range(layers):
        p = "blk.%d." % i
        attention(m, i, heads, kv_heads)
        dense(m, i, hidden)
        for dead in ("attn_norm", "ffn_norm"):
            del m.tensors[p + dead + ".weight"], m.arrays[p + dead + ".weight"]
        m.vector(p + "attn_q_norm.weight", heads * size, 1.0)
        m.vector(p + "attn_k_norm.weight", kv_heads * size, 1.0)
        m.vector(p + "post_attention_norm.weight", WIDTH, 1.0)
        m.vector(p + "post_ffw_norm.weight", WIDTH, 1.0)
    return m.done()


def mamba(name, norms=False, layers=2, inner=128, state=16, rank=8, conv=4):
    m = start("mamba", name, layers, tied=True, kinds=("f32", "f16"))
    m.set(ssm__conv_kernel=conv, ssm__inner_size=inner, ssm__state_size=state,
          ssm__time_step_rank=rank, attention__head_count=0, feed_forward_length=0)
    if norms:
        m.set(ssm__dt_b_c_rms=True)
    for i in range(layers):
        p = "blk.%d." % i
        m.vector(p + "attn_norm.weight", WIDTH, 1.0)
        m.matrix(p + "ssm_in", 2 * inner, WIDTH)
        m.add(p + "ssm_conv1d.weight", m.rng.normal(0, 0.5, (inner, conv)))
        m.vector(p + "ssm_conv1d.bias", inner)
        m.matrix(p + "ssm_x", rank + 2 * state, inner)
        m.matrix(p + "ssm_dt", inner, rank)
        m.vector(p + "ssm_dt.bias", inner, -1.0)
        m.add(p + "ssm_a", -np.exp(m.rng.normal(0, 1, (inner, state))))
        m.vector(p + "ssm_d", inner, 1.0)
        m.matrix(p + "ssm_out", WIDTH, inner)
    return m.done()


def mamba2(name, layers=2, inner=128, state=16, heads=8, groups=2, conv=4):
    m = start("mamba2", name, layers, tied=True)
    m.set(ssm__conv_kernel=conv, ssm__inner_size=inner, ssm__state_size=state,
          ssm__time_step_rank=heads, ssm__group_count=groups, attention__head_count=0,
          feed_forward_length=0)
    channels = inner + 2 * groups * state
    for i in range(layers):
        p = "blk.%d." % i
        m.vector(p + "attn_norm.weight", WIDTH, 1.0)
        m.matrix(p + "ssm_in", inner + channels + heads, WIDTH)
        m.add(p + "ssm_conv1d.weight", m.rng.normal(0, 0.5, (channels, conv)))
        m.vector(p + "ssm_conv1d.bias", channels)
        m.vector(p + "ssm_dt.bias", heads, -1.0)
        m.add(p + "ssm_a", -np.exp(m.rng.normal(0, 1, (heads, 1))))
        m.add(p + "ssm_d", m.rng.normal(1, 0.1, (heads, 1)))
        m.add(p + "ssm_norm.weight", m.rng.normal(1, 0.1, (groups, inner // groups)))
        m.matrix(p + "ssm_out", WIDTH, inner)
    return m.done()


def encoder(arch, name, layers=2, heads=4, hidden=96, types=2, positions=64, kinds=("f32",)):
    m = Maker(arch, name, kinds)
    bert = arch == "bert"
    m.set(block_count=layers, embedding_length=WIDTH, feed_forward_length=hidden,
          context_length=positions, vocab_size=VOCABULARY, attention__head_count=heads,
          attention__causal=False,
          attention__layer_norm_epsilon=1e-6, pooling_type=1)
    m.meta["tokenizer.ggml.token_type_count"] = types
    m.matrix("token_embd", VOCABULARY, WIDTH, scale=4.0)
    m.matrix("token_types", types, WIDTH)
    if bert:
        m.matrix("position_embd", positions, WIDTH)
    else:
        m.set(rope__freq_base=1000.0)

    def norm(p):
        m.vector(p + ".weight", WIDTH, 1.0)
        m.vector(p + ".bias", WIDTH)

    def linear(p, *shape):
        m.matrix(p, *shape)
        if bert:
            m.vector(p + ".bias", shape[0])

    norm("token_embd_norm")
    for i in range(layers):
        p = "blk.%d." % i
        for part in ["attn_q", "attn_k", "attn_v"] if bert else []:
            linear(p + part, WIDTH, WIDTH)
        if not bert:
            linear(p + "attn_qkv", 3 * WIDTH, WIDTH)
            linear(p + "ffn_gate", hidden, WIDTH)
        linear(p + "attn_output", WIDTH, WIDTH)
        norm(p + "attn_output_norm")
        linear(p + "ffn_up", hidden, WIDTH)
        linear(p + "ffn_down", WIDTH, hidden)
        norm(p + "layer_output_norm")
    return m.done()


def modern_bert(name, layers=4, heads=4, hidden=96, window=8):
    """Norms before the parts, but not before the first; two of three layers see a window."""
    m = Maker("modern-bert", name)
    m.set(block_count=layers, embedding_length=WIDTH, feed_forward_length=hidden,
          context_length=64, vocab_size=VOCABULARY, attention__head_count=heads,
          attention__causal=False, attention__layer_norm_epsilon=1e-5, pooling_type=2,
          attention__sliding_window=window, rope__freq_base=160000.0, rope__freq_base_swa=1000.0)
    m.matrix("token_embd", VOCABULARY, WIDTH, scale=4.0)
    m.vector("token_embd_norm.weight", WIDTH, 1.0)
    m.vector("output_norm.weight", WIDTH, 1.0)
    for i in range(layers):
        attention(m, i, heads, heads, fused=True)
        dense(m, i, hidden, fused=True)
    del m.tensors["blk.0.attn_norm.weight"], m.arrays["blk.0.attn_norm.weight"]
    return m.done()


def t5(arch, name, gated=True, layers=2, heads=4, size=24, hidden=96, buckets=32):
    """An encoder with a bias by distance, without a scale of attention."""
    m = Maker(arch, name)
    m.set(block_count=layers, embedding_length=WIDTH, feed_forward_length=hidden,
          context_length=512, attention__head_count=heads, attention__key_length=size,
          attention__value_length=size, attention__layer_norm_rms_epsilon=1e-6,
          attention__layer_norm_epsilon=1e-6, attention__relative_buckets_count=buckets,
          vocab_size=VOCABULARY, pooling_type=1, decoder_start_token_id=0)
    m.matrix("token_embd", VOCABULARY, WIDTH, scale=4.0)
    m.add("enc.blk.0.attn_rel_b.weight", m.rng.normal(0, 1, (buckets, heads)))
    m.vector("enc.output_norm.weight", WIDTH, 1.0)
    for i in range(layers):
        p = "enc.blk.%d." % i
        m.vector(p + "attn_norm.weight", WIDTH, 1.0)
        for part in "qkv":
            m.matrix(p + "attn_" + part, heads * size, WIDTH, scale=0.5 if part == "q" else 1.0)
        m.matrix(p + "attn_o", WIDTH, heads * size)
        m.vector(p + "ffn_norm.weight", WIDTH, 1.0)
        if gated:
            m.matrix(p + "ffn_gate", hidden, WIDTH)
        m.matrix(p + "ffn_up", hidden, WIDTH)
        m.matrix(p + "ffn_down", WIDTH, hidden)
    return m.done()


# ---- The models --------------------------------------------------------------------------------

def llama3_factors(n):
    """Divisors of the frequencies: 1 for fast pairs, 8 for slow ones."""
    return np.interp(np.arange(n), [0.3 * n, 0.8 * n], [1, 8])


def models():
    mixed = ("q8_0", "f16", "bf16", "f32")
    t = transformer
    scaling = {"rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 64}
    multipliers = {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0,
                   "attention__scale": 0.0625}
    long = {"rope__scaling__original_context_length": 32, "rope__scaling__attn_factor": 1.19}
    return {
        "llama": t("llama", "llama"),
        "llama-tied": t("llama", "llama-tied", kv_heads=1, tied=True, kinds=mixed),
        "llama-freqs": t("llama", "llama-freqs", kv_heads=4,
                         factors={"rope_freqs.weight": llama3_factors(8)}),
        "llama-linear": t("llama", "llama-linear",
                          numbers=dict(scaling, rope__scaling__type="linear")),
        "llama-yarn": t("llama", "llama-yarn", size=32, numbers=dict(
            scaling, rope__scaling__type="yarn", rope__scaling__original_context_length=128)),
        "llama-window": t("llama", "llama-window", numbers={"attention__sliding_window": 5}),
        "llama-layers": t("llama", "llama-layers", kv_heads=[4, 1], hidden=[96, 64]),
        "llama-partial": t("llama", "llama-partial", size=24, bias=True,
                           numbers={"rope__dimension_count": 16}),
        "mixtral": t("llama", "mixtral", expert=(4, 96), kinds=mixed,
                     numbers={"expert_count": 4, "expert_used_count": 2}),
        "qwen2": t("qwen2", "qwen2", bias=True, tied=True),
        "qwen3": t("qwen3", "qwen3", size=32, qk_norm=True),
        "qwen2moe": t("qwen2moe", "qwen2moe", bias=True, expert=(6, 64, 96), numbers={
            "expert_count": 6, "expert_used_count": 3, "expert_feed_forward_length": 64,
            "expert_shared_feed_forward_length": 96}),
        "qwen3moe": t("qwen3moe", "qwen3moe", qk_norm=True, expert=(6, 64), numbers={
            "expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 64}),
        "gemma": t("gemma", "gemma", size=32, kv_heads=1, tied=True),
        "gemma2": t("gemma2", "gemma2", layers=3, size=32, tied=True, post_norms=True, numbers={
            "attention__sliding_window": 4, "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 3.0}),
        "gemma3": t("gemma3", "gemma3", layers=7, size=32, tied=True, post_norms=True,
                    qk_norm=True, numbers={"attention__sliding_window": 4,
                                           "rope__freq_base": 1000000.0,
                                           "rope__scaling__type": "linear",
                                           "rope__scaling__factor": 8.0}),
        "phi3": t("phi3", "phi3", fused=True, numbers={"rope__dimension_count": 16}),
        "phi3-long": t("phi3", "phi3-long", fused=True, kv_heads=4,
                       numbers=dict(long, rope__dimension_count=16), factors={
                           "rope_factors_long.weight": np.linspace(1, 12, 8),
                           "rope_factors_short.weight": np.linspace(1, 1.5, 8)}),
        "granite": t("granite", "granite", tied=True, numbers=multipliers),
        "granitemoe": t("granitemoe", "granitemoe", expert=(4, 96), numbers=dict(
            multipliers, expert_count=4, expert_used_count=2)),
        "olmo2": olmo2("olmo2"),
        "phi2": parallel("phi2", "phi2", kv_heads=4, biases=True,
                         numbers={"rope__dimension_count": 8}),
        "command-r": parallel("command-r", "command-r", tied=True,
                              numbers={"logit_scale": 0.0625}),
        "chatglm": t("chatglm", "chatglm", fused=True, bias=True,
                     numbers={"rope__dimension_count": 8}),
        "glm4": t("glm4", "glm4", fused_up=True, post_norms=True, bias=True,
                  numbers={"rope__dimension_count": 8}),
        "gpt-oss": gpt_oss("gpt-oss"),
        "gpt-oss-mx": gpt_oss("gpt-oss-mx", kinds=mixed),
        "deepseek2": deepseek("deepseek2", split=True, q_rank=32, groups=4, sigmoid=True,
                              kinds=mixed),
        "deepseek2-plain": deepseek("deepseek2-plain", split=True),
        "deepseek2-whole": deepseek("deepseek2-whole", split=False, groups=2, used=2),
        "glm4moe": glm4moe("glm4moe"),
        "glm4moe-air": glm4moe("glm4moe-air", norms=False, extra=0),
        "llama4": llama4("llama4"),
        "llama4-plain": llama4("llama4-plain", window=0),
        "qwen3next": qwen3next("qwen3next"),
        "qwen3next-joined": qwen3next("qwen3next-joined", joined=True),
        "mamba": mamba("mamba"),
        "mamba-norms": mamba("mamba-norms", norms=True),
        "mamba2": mamba2("mamba2"),
        "bert": encoder("bert", "bert", kinds=mixed),
        "modern-bert": modern_bert("modern-bert"),
        "t5encoder": t5("t5encoder", "t5encoder"),
        "t5-relu": t5("t5encoder", "t5-relu", gated=False, buckets=16),
        "nomic-bert": encoder("nomic-bert", "nomic-bert"),
    }
