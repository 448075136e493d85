# SPDX-License-Identifier: MIT
"""What models compute, in float64 and in the plainest way: a whole sequence at once, no cache.

logits(model, tokens, context) gives [n, vocabulary]; hidden(model, tokens) the states of an
encoder. A model is one of make_models.py.
"""

import math

import numpy as np


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softplus(x):
    return np.logaddexp(0, x)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# Norms that subtract the mean; feed-forward beside attention; rotary embedding of neighbours.
MEAN_NORMS = PARALLEL = {"phi2", "command-r"}
NEIGHBOURS = {"llama", "granite", "granitemoe", "command-r", "chatglm", "glm4", "deepseek2",
              "llama4"}


class Reader:
    """Numbers and tensors of a model by their short names."""

    def __init__(self, model):
        self.model, self.arch = model, model.arch
        self.prefix = ""

    def number(self, key, missing=None):
        return self.model.meta.get(self.arch + "." + key, missing)

    def layer_number(self, key, i, missing=None):
        v = self.number(key, missing)
        return v[i] if isinstance(v, list) else v

    def has(self, name):
        return self.prefix + name in self.model.tensors

    def get(self, name):
        return self.model.tensors[self.prefix + name]

    def linear(self, name, x):
        y = x @ self.get(name + ".weight").T
        return y + self.get(name + ".bias") if self.has(name + ".bias") else y

    def eps(self):
        return self.number("attention.layer_norm_rms_epsilon",
                           self.number("attention.layer_norm_epsilon"))

    def rms(self, x, weight=None):
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps())
        return y if weight is None else y * self.get(weight)

    def layer_norm(self, name, x):
        d = x - x.mean(-1, keepdims=True)
        y = d / np.sqrt((d * d).mean(-1, keepdims=True) + self.eps()) * self.get(name + ".weight")
        return y + self.get(name + ".bias") if self.has(name + ".bias") else y

    def norm(self, name, x):
        return self.layer_norm(name, x) if self.arch in MEAN_NORMS else self.rms(x,
                                                                                 name + ".weight")


# ---- Rotary embedding --------------------------------------------------------------------------

def yarn_frequencies(r, plain, n_rot, base, factor, original):
    def pair(turns):
        return n_rot * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(0, math.floor(pair(32))), min(n_rot - 1, math.ceil(pair(1)))
    ramp = np.clip((np.arange(n_rot // 2) - low) / max(0.001, high - low), 0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


def frequencies(r, n_rot, local, context):
    """Of each pair, and the scale of cos and sin."""
    base = r.number("rope.freq_base", 10000.0)
    if local and r.arch == "gemma3":
        return 10000.0 ** (-np.arange(0, n_rot, 2) / n_rot), 1.0
    if local and r.arch == "modern-bert":
        base = r.number("rope.freq_base_swa")
    plain = base ** (-np.arange(0, n_rot, 2) / n_rot)
    kind = r.number("rope.scaling.type", "none")
    factor = r.number("rope.scaling.factor", 1.0)
    original = r.number("rope.scaling.original_context_length", r.number("context_length"))
    scale = r.number("rope.scaling.attn_factor", 1.0)
    tensors = r.model.tensors
    if "rope_freqs.weight" in tensors:
        plain = plain / tensors["rope_freqs.weight"]
    elif "rope_factors_long.weight" in tensors:
        which = "long" if context > original else "short"
        plain = plain / tensors["rope_factors_%s.weight" % which]
    if kind == "linear":
        plain = plain / factor
    if kind == "yarn":
        plain = yarn_frequencies(r, plain, n_rot, base, factor, original)
        if not r.number("rope.scaling.yarn_log_multiplier"):
            scale *= 1 + 0.1 * math.log(factor)
    return plain, scale


def rope(r, x, local, context):
    """x [n, heads, size], at positions 0 to n - 1."""
    n, _, size = x.shape
    n_rot = r.number("rope.dimension_count", size)
    frequency, scale = frequencies(r, n_rot, local, context)
    angle = np.arange(n)[:, None, None] * frequency
    c, s = np.cos(angle) * scale, np.sin(angle) * scale
    y = x.copy()
    if r.arch in NEIGHBOURS and not getattr(r.model, "published", False):
        a, b = x[..., 0:n_rot:2], x[..., 1:n_rot:2]
        y[..., 0:n_rot:2], y[..., 1:n_rot:2] = a * c - b * s, a * s + b * c
    else:
        half = n_rot // 2
        a, b = x[..., :half], x[..., half:n_rot]
        y[..., :half], y[..., half:n_rot] = a * c - b * s, a * s + b * c
    return y


# ---- Transformers ------------------------------------------------------------------------------

def is_local(r, i):
    if not r.number("attention.sliding_window"):
        return False
    if r.arch == "modern-bert":
        return i % 3 > 0
    period = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "llama4": 4}.get(r.arch)
    return period is None or i % period != period - 1


def latent_attention(r, i, x, context):
    """DeepSeek: keys and values of each head from a narrow latent."""
    n, heads = len(x), r.layer_number("attention.head_count", i)
    rank, rot = r.number("attention.kv_lora_rank"), r.number("rope.dimension_count")
    key = r.number("attention.key_length_mla", r.number("attention.key_length"))
    q = x
    if r.has("attn_q_a.weight"):
        q = r.rms(r.linear("attn_q_a", x), "attn_q_a_norm.weight")
    q = r.linear("attn_q_b" if r.has("attn_q_b.weight") else "attn_q", q).reshape(n, heads, key)
    kv = r.linear("attn_kv_a_mqa", x)
    c = r.rms(kv[:, :rank], "attn_kv_a_norm.weight")
    k_rot = rope(r, kv[:, None, rank:], False, context)
    q_rot = rope(r, q[:, :, key - rot:], False, context)
    if r.has("attn_k_b.weight"):
        k = np.einsum("tl,hln->thn", c, r.get("attn_k_b.weight"))
        v = np.einsum("tl,hvl->thv", c, r.get("attn_v_b.weight"))
    else:
        kv = r.linear("attn_kv_b", c).reshape(n, heads, -1)
        k, v = kv[:, :, :key - rot], kv[:, :, key - rot:]
    scores = np.einsum("qhd,khd->hqk", q[:, :, :key - rot], k)
    scores = scores + np.einsum("qhd,kd->hqk", q_rot, k_rot[:, 0])
    longer = math.log(r.number("rope.scaling.factor", 1.0))
    m = 1 + r.number("rope.scaling.yarn_log_multiplier", 0.0) * longer
    scores = scores * m * m / math.sqrt(key)
    scores = np.where(np.triu(np.ones((n, n), bool), 1), -np.inf, scores)
    return np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(n, -1)


def attention(r, i, x, context, causal=True):
    n = len(x)
    if r.has("attn_kv_a_mqa.weight"):
        return latent_attention(r, i, x, context)
    heads = r.layer_number("attention.head_count", i)
    kv_heads = r.layer_number("attention.head_count_kv", i, heads)
    size = r.number("attention.key_length", x.shape[1] // heads)
    if r.has("attn_qkv.weight"):
        qkv = r.linear("attn_qkv", x)
        q, k, v = np.split(qkv, [heads * size, (heads + kv_heads) * size], axis=1)
    else:
        q, k, v = (r.linear("attn_" + part, x) for part in "qkv")
    if r.arch == "olmo2":
        q, k = r.rms(q, "attn_q_norm.weight"), r.rms(k, "attn_k_norm.weight")
    gate = None
    if r.arch == "qwen3next":
        both = q.reshape(n, heads, 2 * size)
        q, gate = both[:, :, :size], 1 / (1 + np.exp(-both[:, :, size:]))
    q = q.reshape(n, heads, size)
    k, v = (a.reshape(n, kv_heads, size) for a in (k, v))
    if r.has("attn_q_norm.weight") and r.arch != "olmo2":
        q, k = r.rms(q, "attn_q_norm.weight"), r.rms(k, "attn_k_norm.weight")
    local = is_local(r, i)
    everywhere = r.arch == "llama4" and r.number("attention.sliding_window") and not local
    if everywhere:
        length, scale = (r.number("attention.temperature_" + key) for key in ("length", "scale"))
        grown = np.log(np.floor((np.arange(n) + 1) / length) + 1) * scale + 1
        q = q * grown[:, None, None]
    elif r.arch != "bert":
        q, k = rope(r, q, local, context), rope(r, k, local, context)
        if r.arch == "llama4" and getattr(r.model, "unit_qk", True):
            q, k = r.rms(q), r.rms(k)
    k, v = (np.repeat(a, heads // kv_heads, axis=1) for a in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k)
    scores = scores * r.number("attention.scale", 1 / math.sqrt(size))
    cap = r.number("attn_logit_softcapping")
    if cap:
        scores = cap * np.tanh(scores / cap)
    p, t = np.arange(n)[:, None], np.arange(n)[None, :]
    if causal:
        hidden = t > p
        window = r.number("attention.sliding_window")
        if local and r.arch == "llama4":
            hidden |= t // window != p // window
        elif local:
            hidden |= t <= p - window
        scores = np.where(hidden, -np.inf, scores)
    elif local:
        far = np.abs(t - p) > r.number("attention.sliding_window") // 2
        scores = np.where(far, -np.inf, scores)
    if r.has("attn_sinks.weight"):
        sinks = np.broadcast_to(r.get("attn_sinks.weight")[:, None, None], (heads, n, 1))
        weights = softmax(np.concatenate([scores, sinks], 2))[:, :, :-1]
    else:
        weights = softmax(scores)
    y = np.einsum("hqk,khd->qhd", weights, v)
    return (y if gate is None else y * gate).reshape(n, heads * size)


# ---- Experts -----------------------------------------------------------------------------------

NORMED = {"llama", "qwen3moe", "granitemoe", "qwen3next"}
SIGMOID, OF_CHOSEN = {"glm4moe", "llama4"}, {"gpt-oss"}


def choose(r, by, sigmoid):
    """The experts of one row, the best first, of the best groups only."""
    groups = r.number("expert_group_count", 1)
    if groups > 1:
        each = by.reshape(groups, -1)
        score = np.sort(each, 1)[:, -2:].sum(1) if sigmoid else each.max(1)
        worse = np.argsort(-score, kind="stable")[r.number("expert_group_used_count"):]
        each = each.copy()
        each[worse] = -np.inf
        by = each.reshape(-1)
    return np.argsort(-by, kind="stable")[:r.number("expert_used_count")]


def one_expert(r, e, x):
    gate, up = (r.get("ffn_%s_exps.weight" % part)[e] @ x for part in ("gate", "up"))
    if not r.has("ffn_gate_exps.bias"):
        return r.get("ffn_down_exps.weight")[e] @ (silu(gate) * up)
    gate = np.minimum(gate + r.get("ffn_gate_exps.bias")[e], 7)
    up = np.clip(up + r.get("ffn_up_exps.bias")[e], -7, 7)
    inner = gate / (1 + np.exp(-1.702 * gate)) * (up + 1)
    return r.get("ffn_down_exps.weight")[e] @ inner + r.get("ffn_down_exps.bias")[e]


def mixture(r, x):
    sigmoid = r.number("expert_gating_func", 2 if r.arch in SIGMOID else 1) == 2
    z = r.linear("ffn_gate_inp", x)
    p = z if r.arch in OF_CHOSEN else 1 / (1 + np.exp(-z)) if sigmoid else softmax(z)
    by = p + r.get("exp_probs_b.bias") if r.has("exp_probs_b.bias") else p
    y = np.zeros_like(x)
    for row in range(len(x)):
        chosen = choose(r, by[row], sigmoid)
        weight = p[row][chosen]
        if r.arch in OF_CHOSEN:
            weight = softmax(weight)
        elif r.number("expert_weights_norm", r.arch in NORMED):
            weight = weight / weight.sum()
        weight = weight * r.number("expert_weights_scale", 1.0)
        for e, w in zip(chosen, weight):
            y[row] += one_expert(r, e, w * x[row]) if r.arch == "llama4" \
                else w * one_expert(r, e, x[row])
    if r.has("ffn_up_shexp.weight"):
        inner = silu(r.linear("ffn_gate_shexp", x)) * r.linear("ffn_up_shexp", x)
        inner = r.linear("ffn_down_shexp", inner)
        if r.has("ffn_gate_inp_shexp.weight"):
            share = 1 / (1 + np.exp(-(x @ r.get("ffn_gate_inp_shexp.weight"))))
            inner = share[:, None] * inner
        y += inner
    return y


def feed_forward(r, x):
    act = gelu_tanh if r.arch.startswith("gemma") else silu
    if r.arch == "modern-bert":
        act = gelu
    if r.has("ffn_gate_inp.weight"):
        return mixture(r, x)
    if r.has("ffn_gate.weight"):
        inner = act(r.linear("ffn_gate", x)) * r.linear("ffn_up", x)
    elif r.arch in ("bert", "phi2"):
        inner = (gelu if r.arch == "bert" else gelu_tanh)(r.linear("ffn_up", x))
    else:
        gate, up = np.split(r.linear("ffn_up", x), 2, axis=1)
        inner = act(gate) * up
    return r.linear("ffn_down", inner)


NEXT_NORMS = {"gpt-oss", "glm4moe", "qwen3next"}  # post_attention_norm is that of what follows


def block(r, i, x, context):
    scale = r.number("residual_scale", 1.0)
    h = r.norm("attn_norm", x) if r.has("attn_norm.weight") else x
    if r.has("ssm_ba.weight"):
        y = delta_net(r, h) @ r.get("ssm_out.weight").T
    else:
        y = r.linear("attn_output", attention(r, i, h, context))
    if r.arch in PARALLEL:
        return x + y + feed_forward(r, h)
    if r.arch in NEXT_NORMS:
        x = x + y
        return x + feed_forward(r, r.rms(x, "post_attention_norm.weight"))
    if r.has("post_attention_norm.weight"):
        y = r.rms(y, "post_attention_norm.weight")
    x = x + scale * y
    y = feed_forward(r, r.rms(x, "ffn_norm.weight") if r.has("ffn_norm.weight") else x)
    if r.has("post_ffw_norm.weight"):
        y = r.rms(y, "post_ffw_norm.weight")
    return x + scale * y


# ---- State space models ------------------------------------------------------------------------

def convolve(r, x):
    w = r.get("ssm_conv1d.weight")
    k = w.shape[1]
    padded = np.concatenate([np.zeros((k - 1, x.shape[1])), x])
    y = sum(padded[j:j + len(x)] * w[:, j] for j in range(k))
    return silu(y + r.get("ssm_conv1d.bias") if r.has("ssm_conv1d.bias") else y)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def delta_net(r, x):
    """Qwen3-Next in place of attention."""
    inner, state, heads, groups = (r.number("ssm." + k) for k in (
        "inner_size", "state_size", "time_step_rank", "group_count"))
    n, size, each = len(x), inner // heads, heads // groups
    if r.has("ssm_in.weight"):
        all_ = r.linear("ssm_in", x).reshape(n, groups, -1)
        parts = np.split(all_, [state, 2 * state, 2 * state + each * size], axis=2)
        q, k, v, z = (part.reshape(n, -1) for part in parts)
        qkv = np.concatenate([q, k, v], 1)
    else:
        qkv, z = r.linear("attn_qkv", x), r.linear("attn_gate", x)
    ba = r.linear("ssm_ba", x).reshape(n, groups, 2 * each)
    beta = 1 / (1 + np.exp(-ba[:, :, :each].reshape(n, heads)))
    decay = softplus(ba[:, :, each:].reshape(n, heads) + r.get("ssm_dt.bias")) * r.get("ssm_a")
    q, k, v = np.split(convolve(r, qkv), [groups * state, 2 * groups * state], axis=1)
    q, k = (np.repeat(unit(a.reshape(n, groups, state)), each, axis=1) for a in (q, k))
    v = v.reshape(n, heads, size)
    s, y = np.zeros((heads, state, size)), np.zeros_like(v)
    for t in range(n):
        s = s * np.exp(decay[t])[:, None, None]
        d = (v[t] - np.einsum("hnp,hn->hp", s, k[t])) * beta[t][:, None]
        s = s + k[t][:, :, None] * d[:, None, :]
        y[t] = np.einsum("hnp,hn->hp", s, q[t]) / math.sqrt(state)
    y = r.rms(y, "ssm_norm.weight") * silu(z.reshape(n, heads, size))
    return y.reshape(n, inner)


def mamba_block(r, x):
    inner, state, rank = (r.number("ssm." + k)
                          for k in ("inner_size", "state_size", "time_step_rank"))
    xz = r.linear("ssm_in", r.rms(x, "attn_norm.weight"))
    u, z = convolve(r, xz[:, :inner]), xz[:, inner:]
    dt, b, c = np.split(u @ r.get("ssm_x.weight").T, [rank, rank + state], axis=1)
    if r.number("ssm.dt_b_c_rms"):
        dt, b, c = r.rms(dt), r.rms(b), r.rms(c)
    dt = softplus(r.linear("ssm_dt", dt))
    a, h, y = r.get("ssm_a"), np.zeros((inner, state)), np.zeros_like(u)
    for t in range(len(x)):
        h = np.exp(dt[t][:, None] * a) * h + (dt[t] * u[t])[:, None] * b[t]
        y[t] = h @ c[t] + r.get("ssm_d") * u[t]
    return x + (y * silu(z)) @ r.get("ssm_out.weight").T


def mamba2_block(r, x):
    inner, state, heads, groups = (r.number("ssm." + k) for k in (
        "inner_size", "state_size", "time_step_rank", "group_count"))
    size, n = inner // heads, len(x)
    all_ = r.linear("ssm_in", r.rms(x, "attn_norm.weight"))
    z, xbc, dt = np.split(all_, [inner, all_.shape[1] - heads], axis=1)
    u, b, c = np.split(convolve(r, xbc), [inner, inner + groups * state], axis=1)
    u = u.reshape(n, heads, size)
    b, c = (np.repeat(v.reshape(n, groups, state), heads // groups, axis=1) for v in (b, c))
    dt = softplus(dt + r.get("ssm_dt.bias"))
    a, d = r.get("ssm_a")[:, 0], r.get("ssm_d")
    h, y = np.zeros((heads, size, state)), np.zeros_like(u)
    for t in range(n):
        h = np.exp(dt[t] * a)[:, None, None] * h
        h += (dt[t][:, None] * u[t])[:, :, None] * b[t][:, None, :]
        y[t] = np.einsum("hpn,hn->hp", h, c[t]) + d * u[t]
    y = (y.reshape(n, inner) * silu(z)).reshape(n, groups, -1)
    y = r.rms(y, "ssm_norm.weight").reshape(n, inner)
    return x + y @ r.get("ssm_out.weight").T


# ---- Whole models ------------------------------------------------------------------------------

def logits(model, tokens, context):
    """`context` is what the model is opened with: it decides between scalings."""
    r = Reader(model)
    x = r.get("token_embd.weight")[np.asarray(tokens)]
    if r.arch.startswith("gemma"):
        x = x * math.sqrt(x.shape[1])
    x = x * r.number("embedding_scale", 1.0)
    for i in range(r.number("block_count") - r.number("nextn_predict_layers", 0)):
        r.prefix = "blk.%d." % i
        if r.arch == "mamba":
            x = mamba_block(r, x)
        elif r.arch == "mamba2":
            x = mamba2_block(r, x)
        else:
            x = block(r, i, x, context)
    r.prefix = ""
    x = r.norm("output_norm", x)
    y = x @ r.get("output.weight" if r.has("output.weight") else "token_embd.weight").T
    if r.has("output.bias"):
        y = y + r.get("output.bias")
    scale = r.number("logit_scale", 1.0)
    y = y / scale if r.arch.startswith("granite") else y * scale
    cap = r.number("final_logit_softcapping")
    return cap * np.tanh(y / cap) if cap else y


def modern(r, tokens):
    x = r.layer_norm("token_embd_norm", r.get("token_embd.weight")[np.asarray(tokens)])
    for i in range(r.number("block_count")):
        r.prefix = "blk.%d." % i
        h = r.layer_norm("attn_norm", x) if r.has("attn_norm.weight") else x
        x = x + r.linear("attn_output", attention(r, i, h, len(tokens), causal=False))
        x = x + feed_forward(r, r.layer_norm("ffn_norm", x))
    r.prefix = ""
    return r.layer_norm("output_norm", x)


def t5_bucket(distance, buckets):
    """Of a key that is so far behind the query; farther ones share buckets, up to 128."""
    half = buckets // 2
    exact, a = half // 2, abs(distance)
    if a >= exact:
        a = min(half - 1, exact + int(math.log(a / exact) / math.log(128 / exact) *
                                      (half - exact) + 1e-9))
    return a + (half if distance > 0 else 0)


def t5(r, tokens):
    x = r.get("token_embd.weight")[np.asarray(tokens)]
    n, heads = len(tokens), r.number("attention.head_count")
    table = r.get("enc.blk.0.attn_rel_b.weight")
    bias = np.array([[table[t5_bucket(k - q, len(table))] for k in range(n)] for q in range(n)])
    for i in range(r.number("block_count")):
        r.prefix = "enc.blk.%d." % i
        h = r.rms(x, "attn_norm.weight")
        q, k, v = (r.linear("attn_" + p, h).reshape(n, heads, -1) for p in "qkv")
        weights = softmax(np.einsum("qhd,khd->hqk", q, k) + bias.transpose(2, 0, 1))
        y = np.einsum("hqk,khd->qhd", weights, v).reshape(n, -1)
        x = x + r.linear("attn_o", y)
        h = r.rms(x, "ffn_norm.weight")
        up = r.linear("ffn_up", h)
        inner = gelu_tanh(r.linear("ffn_gate", h)) * up if r.has("ffn_gate.weight") \
            else np.maximum(up, 0)
        x = x + r.linear("ffn_down", inner)
    r.prefix = ""
    return r.rms(x, "enc.output_norm.weight")


def hidden(model, tokens, types=0):
    """`types`: the token types, one for all or one each."""
    r = Reader(model)
    if r.arch == "modern-bert":
        return modern(r, tokens)
    if r.arch.startswith("t5"):
        return t5(r, tokens)
    x = r.get("token_embd.weight")[np.asarray(tokens)] + r.get("token_types.weight")[types]
    if r.has("position_embd.weight"):
        x = x + r.get("position_embd.weight")[:len(tokens)]
    x = r.layer_norm("token_embd_norm", x)
    for i in range(r.number("block_count")):
        r.prefix = "blk.%d." % i
        y = r.linear("attn_output", attention(r, i, x, len(tokens), causal=False))
        x = r.layer_norm("attn_output_norm", x + y)
        x = r.layer_norm("layer_output_norm", x + feed_forward(r, x))
    r.prefix = ""
    return x
