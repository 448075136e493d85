#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the small model that the demo falls back to: a decoder of the llama family over bytes that
tells very short stories. The stories it learns from are made here, from a small grammar.

usage: train.py OUT.gguf [--steps N] [--seed N]     (needs PyTorch; a minute on a GPU)

The result is f32; `rlx quantize OUT.gguf models/tiny-stories.gguf --type q8_0` made the one in the
repository."""
import argparse
import random
import struct

import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, KV_HEADS, INNER, CONTEXT = 4, 128, 4, 2, 384, 512
HEAD = WIDTH // HEADS
BOS, EOS, VOCAB = 256, 257, 288
EPS, BASE = 1e-5, 10000.0

# ---- Stories -------------------------------------------------------------------------------------

HEROES = [("fox", "Mia", "she", "her"), ("bear", "Tom", "he", "his"), ("cat", "Lily", "she", "her"),
          ("dog", "Max", "he", "his"), ("rabbit", "Anna", "she", "her"),
          ("mouse", "Ben", "he", "his"), ("duck", "Sue", "she", "her"),
          ("frog", "Sam", "he", "his"),
          ("girl", "Emma", "she", "her"), ("boy", "Leo", "he", "his")]
KINDS = ["little", "brave", "kind", "clever", "shy", "happy", "curious"]
PLACES = ["in a small house by the river", "at the edge of a big forest", "on a green hill",
          "near the sea", "in a quiet village", "next to an old mill"]
LIKES = ["to look at the stars", "to swim in the lake", "to bake bread", "to sing", "to draw",
         "to collect stones", "to read books", "to help in the garden"]
DAYS = ["One sunny morning", "One cold evening", "One day in spring", "On a windy afternoon",
        "One rainy day", "One night"]
THINGS = ["a shiny key", "a red ball", "an old map", "a lost bird", "a small boat", "a blue stone",
          "a warm hat", "a tiny lamp", "a letter"]
WHERE = ["under a tree", "on the path", "behind the house", "in the grass", "at the bridge",
         "beside the well"]
FRIENDS = [("owl", "wise"), ("turtle", "slow"), ("hen", "busy"), ("goat", "funny"),
           ("squirrel", "quick"), ("old man", "friendly"), ("baker", "cheerful")]
PROBLEMS = ["It began to rain.", "The path was very dark.", "The wind was strong.",
            "Nobody was there.", "It was too heavy to carry.", "A loud noise came from the woods."]
ENDINGS = ["They all ate cake and laughed.", "Then everyone went home and slept well.",
           "From that day on they were best friends.", "The moon came out, and all was quiet.",
           "It was the best day of the year."]
LESSONS = ["It is good to help others.", "Being brave does not mean to be without fear.",
           "A friend makes every road shorter.", "Small things can be great.",
           "If you ask nicely, people like to help."]


def story(r):
    """One story: whom, where, what was found, who helped, how it ended."""
    animal, name, they, their = r.choice(HEROES)
    kind, place, like = r.choice(KINDS), r.choice(PLACES), r.choice(LIKES)
    thing, where = r.choice(THINGS), r.choice(WHERE)
    friend, trait = r.choice(FRIENDS)
    a = "an" if animal[0] in "aeiou" else "a"
    start = r.choice([f"Once upon a time there was a {kind} {animal} called {name}.",
                      f"There once was a {kind} {animal}. {their.capitalize()} name was {name}.",
                      f"{name} was {a} {animal}, and a {kind} one."])
    home = f" {name} lived {place} and liked {like}."
    found = f" {r.choice(DAYS)}, {name} found {thing} {where}."
    think = r.choice([f' "What is this?" said {name}.', f" {they.capitalize()} was very surprised.",
                      f' "Who has lost it?" {they} asked.'])
    trouble = " " + r.choice(PROBLEMS)
    short = thing.split(" ", 1)[1]
    meet = r.choice([f" Then a {trait} {friend} came by and helped {name}.",
                     f" But {name} was not afraid and called for the {friend}.",
                     f" Luckily a {trait} {friend} knew what to do."])
    solve = r.choice([f" Together they took the {short} home.",
                      f" The {friend} said that the {short} was magic.",
                      f" {name} gave the {short} to the {friend}, who was so glad."])
    end = " " + r.choice(ENDINGS)
    lesson = f" {name} learned: {r.choice(LESSONS)}" if r.random() < 0.5 else ""
    return start + home + found + think + trouble + meet + solve + end + lesson


# ---- The model: as llama's, rotary pairs side by side --------------------------------------------

def norm(x, gamma):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * gamma


def rotate(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        shapes = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,)}
        for i in range(LAYERS):
            for name, shape in (("attn_norm", (WIDTH,)), ("attn_q", (WIDTH, WIDTH)),
                                ("attn_k", (KV_HEADS * HEAD, WIDTH)),
                                ("attn_v", (KV_HEADS * HEAD, WIDTH)),
                                ("attn_output", (WIDTH, WIDTH)), ("ffn_norm", (WIDTH,)),
                                ("ffn_gate", (INNER, WIDTH)), ("ffn_up", (INNER, WIDTH)),
                                ("ffn_down", (WIDTH, INNER))):
                shapes[f"blk.{i}.{name}.weight"] = shape
        self.names = list(shapes)
        self.w = torch.nn.ParameterDict({
            n.replace(".", "_"): torch.nn.Parameter(
                torch.ones(s) if len(s) == 1 else torch.randn(s) * s[1] ** -0.5)
            for n, s in shapes.items()})

    def tensor(self, name):
        return self.w[name.replace(".", "_")]

    def forward(self, ids):
        b, s = ids.shape
        at = torch.arange(s, device=ids.device)[:, None]
        angle = at * BASE ** (-torch.arange(0, HEAD, 2, device=ids.device) / HEAD)
        cos, sin = angle.cos(), angle.sin()
        x = F.embedding(ids, self.tensor("token_embd.weight"))
        for i in range(LAYERS):
            def w(name, layer=i):
                return self.tensor(f"blk.{layer}.{name}.weight")
            h = norm(x, w("attn_norm"))
            q = rotate((h @ w("attn_q").T).view(b, s, HEADS, HEAD).transpose(1, 2), cos, sin)
            k = rotate((h @ w("attn_k").T).view(b, s, KV_HEADS, HEAD).transpose(1, 2), cos, sin)
            v = (h @ w("attn_v").T).view(b, s, KV_HEADS, HEAD).transpose(1, 2)
            k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + y.transpose(1, 2).reshape(b, s, WIDTH) @ w("attn_output").T
            h = norm(x, w("ffn_norm"))
            x = x + (F.silu(h @ w("ffn_gate").T) * (h @ w("ffn_up").T)) @ w("ffn_down").T
        return norm(x, self.tensor("output_norm.weight")) @ self.tensor("token_embd.weight").T


def batches(r, count, device):
    """Lines of CONTEXT tokens, each beginning with a story."""
    while True:
        lines = []
        for _ in range(count):
            ids = []
            while len(ids) <= CONTEXT:
                ids += [BOS, *story(r).encode(), EOS]
            lines.append(ids[:CONTEXT + 1])
        yield torch.tensor(lines, device=device)


def train(steps, seed, device):
    torch.manual_seed(seed)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, betas=(0.9, 0.98), weight_decay=0.01)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps, 0.05)
    source = batches(random.Random(seed), 64, device)
    for step in range(steps):
        ids = next(source)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        if step % 200 == 0 or step == steps - 1:
            print(f"step {step}: {loss.item():.4f}", flush=True)
    return model.cpu()


# ---- GGUF ----------------------------------------------------------------------------------------

def byte_names():
    """How GPT-2 vocabularies write bytes: printable ones as they are, the rest from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", 7, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, list):
        strings = value and isinstance(value[0], str)
        body = b"".join(text(v) if strings else struct.pack("<i", v) for v in value)
        return text(key) + struct.pack("<IIQ", 9, 8 if strings or not value else 5,
                                       len(value)) + body
    return text(key) + struct.pack("<II", 4, value)


def write(path, model):
    tokens = byte_names() + ["<s>", "</s>"] + [f"<unused{i}>" for i in range(VOCAB - 258)]
    meta = {
        "general.architecture": "llama", "general.name": "Tiny stories", "general.file_type": 0,
        "general.license": "MIT", "general.alignment": 32,
        "llama.block_count": LAYERS, "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH, "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": EPS, "llama.rope.dimension_count": HEAD,
        "llama.rope.freq_base": BASE, "llama.vocab_size": VOCAB,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 256 + [3] * (VOCAB - 256),
        "tokenizer.ggml.merges": [], "tokenizer.ggml.bos_token_id": BOS,
        "tokenizer.ggml.eos_token_id": EOS, "tokenizer.ggml.add_bos_token": True,
    }
    infos, data = b"", b""
    for name in model.names:
        t = model.tensor(name).detach().float().contiguous()
        data += b"\0" * (-len(data) % 32)
        infos += text(name) + struct.pack("<I", t.dim())
        infos += b"".join(struct.pack("<Q", d) for d in reversed(t.shape))
        infos += struct.pack("<IQ", 0, len(data))
        data += t.numpy().tobytes()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(model.names), len(meta))
    head += b"".join(entry(k, v) for k, v in meta.items()) + infos
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("out")
    options.add_argument("--steps", type=int, default=2500)
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    write(o.out, train(o.steps, o.seed, "cuda" if torch.cuda.is_available() else "cpu"))


if __name__ == "__main__":
    main()
