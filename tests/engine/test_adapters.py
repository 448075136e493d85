#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LoRA adapters against float64: GGUF files as llama.cpp writes them and PEFT folders on small
random models of several architectures, in contexts (one, several, with scales) and in an engine
whose requests have different ones; what cannot be adapted is refused.

What must come out is what the model computes with w + scale b a in the place of its weights.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "model"), os.path.join(TESTS, "support")]
from checks import check, finish  # noqa: E402
import forward  # noqa: E402
import make_models  # noqa: E402
import make_safetensors  # noqa: E402

PROGRAM = os.path.join(os.environ.get("RLX_BUILD_DIR", "build"), "tests", "engine", "test_adapters")
BEST = 20
CONTEXT = 64
LENGTHS = (11, 19, 7, 30)
DEVICES = [os.environ["RLX_TEST_DEVICE"]] if "RLX_TEST_DEVICE" in os.environ else ["cpu", "ref"]


# ---- Adapters ----------------------------------------------------------------------------------

def make_pairs(model, products, rank, seed, layers=None, kind="f32"):
    """Random a and b for each weight whose short name is one of the products."""
    rng = np.random.default_rng(seed)
    pairs = {}
    for name, w in model.tensors.items():
        short = name.split(".")[-2]
        layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
        if short not in products or not name.endswith(".weight") or \
                (layers is not None and layer not in layers):
            continue
        r = rank(name) if callable(rank) else rank
        a = rng.normal(0, 1 / np.sqrt(w.shape[1]), (r, w.shape[1]))
        b = rng.normal(0, 0.7, (w.shape[0], r))
        pairs[name] = [make_models.encode(x, kind)[1] for x in (a, b)]
    return pairs


def write_gguf(path, arch, pairs, alpha, kind="f32", **more):
    meta = dict({"general.type": "adapter", "general.architecture": arch, "adapter.type": "lora",
                 "adapter.lora.alpha": float(alpha)}, **more)
    tensors = {}
    for name, (a, b) in pairs.items():
        for end, x in ((".lora_a", a), (".lora_b", b)):
            tensors[name + end] = (x.shape, kind, make_models.encode(x, kind)[0])
    with open(path, "wb") as f:
        f.write(make_models.gguf(meta, tensors))


def to_halves(b, heads):
    """The rows of a q or k projection in the order that published models have: GGUF orders the
    pairs of a rotary embedding one after the other."""
    n = b.shape[0] // heads
    return b.reshape(heads, n // 2, 2, -1).swapaxes(1, 2).reshape(b.shape)


def to_pairs(b, heads):
    n = b.shape[0] // heads
    return b.reshape(heads, 2, n // 2, -1).swapaxes(1, 2).reshape(b.shape)


def write_peft(folder, model, pairs, halves, config, old_names=False):
    os.makedirs(folder, exist_ok=True)
    fused = any("attn_qkv" in name for name in model.tensors)
    tensors = {}
    for name, (a, b) in pairs.items():
        module = make_safetensors.published_name(name, fused, {})[:-len(".weight")]
        short = name.split(".")[-2]
        if halves and short in ("attn_q", "attn_k"):
            b = to_halves(b, 4 if short == "attn_q" else 2)
        prefix = "" if old_names else "base_model.model."
        for end, x in ((".lora_A.weight", a), (".lora_B.weight", b)):
            tensors[prefix + module + end] = (x.shape, "f32", make_models.encode(x, "f32")[0])
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as f:
        f.write(make_safetensors.safetensors(tensors))
    with open(os.path.join(folder, "adapter_config.json"), "w") as f:
        json.dump(dict({"peft_type": "LORA", "bias": "none"}, **config), f)


def merged(model, uses):
    """The model with the sum of adapters: (pairs, scale of each pair by its name and rank)."""
    m = copy.copy(model)
    m.tensors = dict(model.tensors)
    for pairs, scale in uses:
        for name, (a, b) in pairs.items():
            m.tensors[name] = m.tensors[name] + scale(name, a.shape[0]) * (b @ a)
    return m


# ---- Runs --------------------------------------------------------------------------------------

def run(path, tokens, folder, adapters, **options):
    out = os.path.join(folder, "out.bin")
    if os.path.exists(out):
        os.remove(out)
    args = [PROGRAM, path, "tokens=" + "/".join(",".join(map(str, s)) for s in tokens),
            "adapters=" + ",".join(adapters), "out=" + out]
    args += ["%s=%s" % kv for kv in options.items()]
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode or not os.path.exists(out):
        return None, done.stdout
    return np.fromfile(out, "<f4").astype(np.float64), done.stdout


def compare_context(what, path, model, tokens, folder, adapters, uses, merges, device):
    got, text = run(path, tokens, folder, adapters, context=uses, device=device)
    check(got is not None, "%s: %s" % (what, text.strip()))
    if got is None:
        return
    m = merged(model, merges)
    want = np.array([forward.logits(m, s, CONTEXT)[-1] for s in tokens])
    plain = np.array([forward.logits(model, s, CONTEXT)[-1] for s in tokens])
    size = np.abs(want).max()
    error = np.abs(got.reshape(want.shape) - want).max() / size
    check(error <= 1e-4, "%s: off by %.2e" % (what, error))
    check(not merges or np.abs(plain - want).max() / size > 1e-2, "%s: it changes nothing" % what)


def compare_engine(what, path, model, tokens, folder, adapters, uses, merges, device):
    """Each sequence with its own adapter."""
    got, text = run(path, tokens, folder, adapters, engine=uses, device=device)
    check(got is not None, "%s: %s" % (what, text.strip()))
    if got is None:
        return
    for row, s, use in zip(got.reshape(len(tokens), BEST, 2), tokens, merges):
        want = forward.logits(merged(model, use), s, CONTEXT)[-1]
        want = want - np.log(np.exp(want - want.max()).sum()) - want.max()
        ids = row[:, 0].astype(int)
        error = np.abs(want[ids] - row[:, 1]).max() / np.abs(want).max()
        check(error <= 1e-4, "%s: log-probabilities off by %.2e" % (what, error))
        check(want[ids[0]] >= want.max() - 1e-3, "%s: another token is the best" % what)


# ---- Cases -------------------------------------------------------------------------------------

ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output", "attn_qkv")
ALL = ATTENTION + ("ffn_gate", "ffn_up", "ffn_down", "output")


def over_rank(alpha):
    return lambda name, rank: alpha / rank


def times(scale, x):
    return lambda name, rank: scale(name, rank) * x


def test_model(name, model, path, folder, device):
    rng = np.random.default_rng(5)
    tokens = [rng.integers(0, 96, n).tolist() for n in LENGTHS]
    adapters = [os.path.join(folder, "%s-%d" % (name, i)) for i in range(3)]
    published = getattr(model, "published", False)
    one = make_pairs(model, ALL, 4, 1)
    two = make_pairs(model, ("attn_q", "attn_qkv", "ffn_down"), 8, 2, layers=(1,), kind="f16")
    three = make_pairs(model, ATTENTION, lambda n: 3 + len(n) % 3, 3)
    if published:
        heads = {"attn_q": 4, "attn_k": 2}
        turned = {k: (a, to_pairs(b, heads[k.split(".")[2]]) if k.split(".")[2] in heads else b)
                  for k, (a, b) in three.items()}
        write_gguf(adapters[2], model.arch, turned, 5)
        write_peft(adapters[0], model, one, False, {"lora_alpha": 6, "r": 4})
        write_peft(adapters[1], model, two, False, {"lora_alpha": 16}, old_names=True)
    else:
        write_gguf(adapters[0], model.arch, one, 6)
        write_gguf(adapters[1], model.arch, two, 16, kind="f16")
        write_peft(adapters[2], model, three, model.arch == "llama",
                   {"lora_alpha": 5, "use_rslora": True, "alpha_pattern": {"v_proj": 9}})

    def rooted(n, rank):
        return 5 / rank if published else (9 if ".attn_v." in n else 5) / np.sqrt(rank)
    s = [over_rank(6), over_rank(16), rooted]
    sets = [one, two, three]
    what = "%s on %s, context" % (name, device)
    compare_context(what + " without", path, model, tokens[:1], folder, adapters, "-", [], device)
    for i in range(len(adapters)):
        compare_context("%s, adapter %d" % (what, i), path, model, tokens[:2], folder, adapters,
                        "%d:1" % i, [(sets[i], s[i])], device)
    compare_context(what + ", sum", path, model, tokens[:2], folder, adapters, "0:0.5,1:-1.5",
                    [(one, times(s[0], 0.5)), (two, times(s[1], -1.5))], device)
    last = len(adapters) - 1
    compare_engine("%s on %s, engine" % (name, device), path, model, tokens, folder, adapters,
                   "0:1/-/1:0.25/%d:1" % last,
                   [[(one, s[0])], [], [(two, times(s[1], 0.25))], [(sets[last], s[last])]], device)


def test_refused(model, path, folder):
    pairs = make_pairs(model, ("attn_q",), 4, 1)
    a = os.path.join(folder, "bad")

    def refused(part, tokens=((1,),)):
        got, text = run(path, tokens, folder, [a], context="0:1")
        check(got is None and part in text, "expected '%s', got '%s'" % (part, text.strip()))

    write_gguf(a, "llama", pairs, 1, **{"general.type": "model"})
    refused("general.type expected 'adapter', got 'model'")
    write_gguf(a, "llama", pairs, 1, **{"adapter.type": "control_vector"})
    refused("adapter.type expected 'lora'")
    write_gguf(a, "qwen2", pairs, 1)
    refused("'qwen2'")
    write_gguf(a, "llama", {"blk.7.attn_q.weight": pairs["blk.0.attn_q.weight"]}, 1)
    refused("'blk.7.attn_q.weight.lora_a'")
    write_gguf(a, "llama", {"token_embd.weight": pairs["blk.0.attn_q.weight"]}, 1)
    refused("'token_embd.weight.lora_a' of the adapter changes nothing")
    write_gguf(a, "llama", {"blk.0.attn_k.weight": pairs["blk.0.attn_q.weight"]}, 1)
    refused("expected with shapes [rank, 64] and [32, rank], got [4, 64] and [64, 4]")
    write_gguf(a, "llama", {}, 1)
    refused("has no tensors")
    a = os.path.join(folder, "bad-peft")
    for config, part in (({"use_dora": True}, "use_dora"), ({"bias": "all"}, "bias"),
                         ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
                         ({"peft_type": "IA3"}, "peft_type"), ({"fan_in_fan_out": True}, "fan_in"),
                         ({"lora_alpha": "x"}, "no lora_alpha")):
        write_peft(a, model, pairs, True, dict({"lora_alpha": 1}, **config))
        refused(part)
    os.remove(os.path.join(a, "adapter_config.json"))
    refused("no adapter_config.json")
    os.remove(os.path.join(a, "adapter_model.safetensors"))
    refused("adapter_model.safetensors")


def main():
    models = make_models.models()
    published = make_safetensors.models()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("llama", "qwen2", "gemma2", "phi3"):
            path = os.path.join(folder, name + ".gguf")
            m = models[name]
            meta = {k: v for k, v in m.meta.items() if not k.startswith("tokenizer")}
            with open(path, "wb") as f:
                f.write(make_models.gguf(meta, m.raw))
            for device in DEVICES if name == "llama" else DEVICES[:1]:
                test_model(name, m, path, folder, device)
        test_refused(models["llama"], os.path.join(folder, "llama.gguf"), folder)
        name = "hf-llama"
        model = published[name]
        home = os.path.join(folder, "published")
        os.makedirs(home)
        with open(os.path.join(home, "model.safetensors"), "wb") as f:
            f.write(model.data)
        with open(os.path.join(home, "config.json"), "w") as f:
            f.write(model.config)
        test_model("published " + name, model, home, folder, DEVICES[0])
    finish()


if __name__ == "__main__":
    main()
