# SPDX-License-Identifier: MIT
"""A llama and a BERT in PyTorch, in any float type, with weights from files of rlx's tests: what
the losses and derivatives of rlx train are compared with."""
import json
import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}


class Gguf:
    """Metadata and tensors of f32 of a GGUF file."""

    def __init__(self, path):
        self.data = np.memmap(path, np.uint8, "r")
        self.at = 8
        n_tensors, n_meta = self.take("QQ")
        self.meta = {self.text(): self.value(self.take("I")[0]) for _ in range(n_meta)}
        infos = []
        for _ in range(n_tensors):
            name = self.text()
            shape = self.take(f"{self.take('I')[0]}Q")[::-1]
            infos.append((name, shape, *self.take("IQ")))
        base = -(-self.at // self.meta.get("general.alignment", 32)) * \
            self.meta.get("general.alignment", 32)
        self.tensors = {}
        for name, shape, kind, offset in infos:
            if kind == 0:
                begin = base + offset
                end = begin + 4 * int(np.prod(shape))
                self.tensors[name] = self.data[begin:end].view(np.float32).reshape(shape)

    def take(self, form):
        n = struct.calcsize("<" + form)
        self.at += n
        return struct.unpack("<" + form, self.data[self.at - n:self.at].tobytes())

    def text(self):
        n, = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].tobytes().decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.take(SCALARS[kind])[0]
        of, n = self.take("IQ")
        return [self.value(of) for _ in range(n)] if of in (8, 9) else list(
            self.take(f"{n}{SCALARS[of]}"))


def safetensors(path):
    raw = Path(path).read_bytes()
    n, = struct.unpack("<Q", raw[:8])
    found = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            found[name] = np.frombuffer(raw, np.float32, (end - begin) // 4,
                                        8 + n + begin).reshape(t["shape"])
    return found


class Weights:
    """Tensors as leaves of one float type."""

    def __init__(self, tensors, dtype):
        self.dtype = dtype
        self.leaf = {name: torch.tensor(np.array(t), dtype=dtype).requires_grad_(True)
                     for name, t in tensors.items()}

    def __getitem__(self, name):
        return self.leaf[name]

    def gradients(self):
        return {name: t.grad for name, t in self.leaf.items() if t.grad is not None}


# ---- Llama: rotary pairs side by side ------------------------------------------------------------

def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotate(x, base):
    n, size = x.shape[-2:]
    at = torch.arange(n, dtype=torch.float64)[:, None]
    angle = at * base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def attend(q, k, v, causal):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        n = q.shape[-2]
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
    return torch.softmax(scores, -1) @ v


class Llama:
    def __init__(self, file):
        arch = file.meta["general.architecture"]

        def of(key):
            return file.meta[f"{arch}.{key}"]

        self.layers, self.heads = of("block_count"), of("attention.head_count")
        self.kv_heads = of("attention.head_count_kv")
        self.eps, self.base = of("attention.layer_norm_rms_epsilon"), of("rope.freq_base")

    def logits(self, w, ids):
        x = w["token_embd.weight"][ids]
        n, head = len(ids), x.shape[-1] // self.heads

        def split(y, heads):
            return y.view(n, heads, head).transpose(0, 1)

        for i in range(self.layers):
            def of(name, layer=i):
                return w[f"blk.{layer}.{name}.weight"]
            h = rms_norm(x, of("attn_norm"), self.eps)
            q = rotate(split(h @ of("attn_q").T, self.heads), self.base)
            k = rotate(split(h @ of("attn_k").T, self.kv_heads), self.base)
            v = split(h @ of("attn_v").T, self.kv_heads)
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 0) for t in (k, v))
            x = x + attend(q, k, v, True).transpose(0, 1).reshape(n, -1) @ of("attn_output").T
            h = rms_norm(x, of("ffn_norm"), self.eps)
            x = x + (F.silu(h @ of("ffn_gate").T) * (h @ of("ffn_up").T)) @ of("ffn_down").T
        return rms_norm(x, w["output_norm.weight"], self.eps) @ w["token_embd.weight"].T

    def loss(self, w, texts):
        """The mean of -log of the probabilities of all tokens but the first ones."""
        losses = [F.cross_entropy(self.logits(w, ids[:-1]), torch.tensor(ids[1:]),
                                  reduction="sum") for ids in texts]
        return sum(losses) / sum(len(ids) - 1 for ids in texts)


# ---- BERT ----------------------------------------------------------------------------------------

class Bert:
    def __init__(self, config):
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.eps = config["layer_norm_eps"]

    def hidden(self, w, ids):
        def linear(x, name):
            return F.linear(x, w[name + ".weight"], w[name + ".bias"])

        def norm(x, name):
            return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], self.eps)

        n, e = len(ids), "embeddings."
        x = w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][:n] + \
            w[e + "token_type_embeddings.weight"][0]
        x = norm(x, e + "LayerNorm")
        for i in range(self.layers):
            at = f"encoder.layer.{i}."
            q, k, v = (linear(x, f"{at}attention.self.{part}").view(n, self.heads, -1)
                       .transpose(0, 1) for part in ("query", "key", "value"))
            y = attend(q, k, v, False).transpose(0, 1).reshape(n, -1)
            to = at + "attention.output."
            x = norm(x + linear(y, to + "dense"), to + "LayerNorm")
            y = linear(F.gelu(linear(x, at + "intermediate.dense")), at + "output.dense")
            x = norm(x + y, at + "output.LayerNorm")
        return x

    def loss(self, w, pairs, temperature=0.05):
        """Cross entropy of each query's cosines with all positives."""
        def vector(ids):
            v = self.hidden(w, ids).mean(0)
            return v / v.norm()

        queries, others = (torch.stack([vector(pair[i]) for pair in pairs]) for i in (0, 1))
        return F.cross_entropy(queries @ others.T / temperature, torch.arange(len(pairs)))
