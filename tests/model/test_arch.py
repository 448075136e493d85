#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The graphs of all architectures against float64: prompts whole and in pieces, decoding steps of
several sequences at once, scores, kinds of cache, devices; and files whose facts are wrong.

    test_arch.py [--only NAME,...] [--device D] [--keep FOLDER] [--verbose]
"""

import argparse
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

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from checks import check, finish  # noqa: E402
import forward
import make_models
import make_safetensors

PROGRAM = os.path.join(os.environ.get("RLX_BUILD_DIR", "build"), "tests", "model", "test_arch")
CONTEXT = 64
# The second sequence is longer than every window and than the original context of phi3-long.
LENGTHS = (11, 40, 7)
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "q8_0": 0.1}
verbose = False


def run(path, sequences, folder, **options):
    """The floats that the program writes, or None and what it printed."""
    out = os.path.join(folder, "out.bin")
    if os.path.exists(out):
        os.remove(out)
    args = [PROGRAM, path, "tokens=" + "/".join(",".join(map(str, s)) for s in sequences),
            "out=" + out] + ["%s=%s" % kv for kv in options.items()]
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode or not os.path.exists(out):
        return None, done.stdout
    return np.fromfile(out, "<f4").astype(np.float64), done.stdout


def sequences(model):
    rng = np.random.default_rng(7)
    n = model.tensors["token_embd.weight"].shape[0]
    return [rng.integers(0, n, length).tolist() for length in LENGTHS]


def compare(name, got, want, tolerance):
    got, text = got
    if got is None:
        check(False, "%s: %s" % (name, text.strip()))
        return
    if got.size != want.size:
        check(False, "%s: %d numbers, expected %d" % (name, got.size, want.size))
        return
    error = np.abs(got.reshape(want.shape) - want).max() / np.abs(want).max()
    if verbose:
        print("%-40s %.2e" % (name, error))
    check(error <= tolerance, "%s: off by %.2e, at most %.0e" % (name, error, tolerance))


# ---- Decoders ----------------------------------------------------------------------------------

def decoder_cases(devices):
    """Which sequences, and how they are run."""
    yield "whole", [0], {"device": "ref"}
    yield "pieces", [1], {"device": "ref", "chunk": 7, "steps": 3}
    for device in devices:
        yield "pieces", [1], {"device": device, "chunk": 16, "steps": 5}
        yield "several", [0, 1, 2], {"device": device, "steps": 3, "chunk": 9}
    yield "penalty", [0, 1], {"device": devices[0], "steps": 3, "penalty": 1.7}
    for cache in ("f16", "q8_0"):
        yield cache, [1, 2], {"device": devices[0], "steps": 4, "cache": cache}


def expected_logits(all_logits, chosen, steps):
    """After each prompt, then after each step, in the order of the program."""
    rows = [all_logits[i][len(all_logits[i]) - steps - 1] for i in chosen]
    for step in range(steps):
        rows += [all_logits[i][len(all_logits[i]) - steps + step] for i in chosen]
    return np.array(rows)


def test_decoder(name, model, path, folder, devices, **more):
    tokens = sequences(model)
    all_logits = [forward.logits(model, s, CONTEXT) for s in tokens]
    for case, chosen, options in decoder_cases(devices):
        options = dict({"cache": "f32", "steps": 0, "context": CONTEXT}, **options, **more)
        want = expected_logits(all_logits, chosen, options["steps"])
        got = run(path, [tokens[i] for i in chosen], folder, **options)
        what = "%s, %s on %s" % (name, case, options["device"])
        compare(what, got, want, TOLERANCE[options["cache"]])
    want = []
    for s, l in zip(tokens, all_logits):
        p = l - np.log(np.exp(l - l.max(-1, keepdims=True)).sum(-1, keepdims=True))
        p -= l.max(-1, keepdims=True)
        want.append([p[i, t] for i, t in enumerate(s[1:] + [0])])
    got = run(path, tokens[1:2], folder, scores=1, context=CONTEXT, chunk=16, **more)
    compare(name + ", scores", got, np.array(want[1]), 1e-4)


def test_hostile(name, path, folder):
    """Each allocation fails once; bytes of the metadata change."""
    for options in ({"memory": 1}, {"fuzz": 300}):
        got, text = run(path, [[1], [2]], folder, **options)
        check("0 failed" in text, "%s, %s: %s" % (name, options, text.strip()))


def test_short_context(model, path, folder):
    """A context that fits the original one takes the other factors."""
    tokens = sequences(model)[0]
    got = run(path, [tokens], folder, context=32)
    compare("phi3-long, short", got, forward.logits(model, tokens, 32)[-1:], 1e-4)


GPU_SAMPLE = ("llama-tied", "gemma2", "qwen2moe", "mamba2", "gpt-oss", "deepseek2", "llama4",
              "qwen3next")


def test_gpu(name, model, path, folder):
    """Pieces and steps on the first Vulkan device, where there is one."""
    tokens = sequences(model)[2:0:-1]
    got = run(path, tokens, folder, device="vulkan", context=CONTEXT, steps=2, chunk=16)
    if got[0] is None and "device:" in got[1]:
        return
    want = [forward.logits(model, s, CONTEXT) for s in tokens]
    compare(name + " on vulkan", got, expected_logits(want, [0, 1], 2), 1e-4)


# ---- Encoders ----------------------------------------------------------------------------------

def test_encoder(name, model, path, folder, devices, **more):
    tokens = sequences(model)
    longest = max(map(len, tokens))
    want = [forward.hidden(model, s) for s in tokens]
    for device in ["ref"] + devices:
        got, text = run(path, tokens, folder, device=device, context=CONTEXT, **more)
        check(got is not None, "%s on %s: %s" % (name, device, text.strip()))
        if got is None:
            continue
        got = got.reshape(len(tokens), longest, -1)
        for g, w in zip(got, want):
            compare("%s on %s" % (name, device), (g[:len(w)], ""), w, 1e-4)


# ---- Wrong files -------------------------------------------------------------------------------

def broken_files(model):
    """(what to change in a copy of meta and tensors, a part of the sentence)"""
    def meta(key, v):
        return lambda m, t: m.__setitem__("llama." + key, v)

    def without(key):
        return lambda m, t: m.pop("llama." + key)

    def shape(name, dims, kind="f32"):
        data = make_models.encode(np.zeros(dims), kind)[0]
        return lambda m, t: t.__setitem__(name, (dims, kind, data))

    yield (lambda m, t: m.pop("general.architecture")), "no general.architecture"
    yield (lambda m, t: m.__setitem__("general.architecture", "gpt5")), "'gpt5'"
    yield (lambda m, t: m.__setitem__("general.architecture", 5)), "no general.architecture"
    yield without("block_count"), "no llama.block_count"
    yield meta("block_count", 0), "llama.block_count: expected a number from 1 to 4096, got 0"
    yield meta("block_count", 100000), "got 100000"
    yield meta("block_count", "two"), "llama.block_count: expected an integer"
    yield meta("block_count", 3), "no tensor 'blk.2.attn_norm.weight'"
    yield meta("block_count", 1), "tensor 'blk.1."
    yield meta("embedding_length", 4294967295), "llama.embedding_length"
    yield meta("embedding_length", 32), "'token_embd.weight' expected with shape [96, 32]"
    yield meta("embedding_length", [64, 64]), "expected one number, got an array"
    yield meta("attention.head_count", 0), "llama.attention.head_count"
    yield meta("attention.head_count", [4]), "expected a number or an array of 2, got 1"
    yield meta("attention.head_count", 7), "no multiple of the 7 heads"
    yield meta("attention.head_count_kv", 3), "multiple of the k/v heads, got 4 and 3"
    yield meta("attention.key_length", 66), "blk.0.attn_q.weight"
    yield meta("attention.layer_norm_rms_epsilon", -1.0), "layer_norm_rms_epsilon"
    yield without("attention.layer_norm_rms_epsilon"), "epsilon of the norms"
    yield meta("rope.dimension_count", 15), "rope.dimension_count"
    yield meta("rope.dimension_count", 18), "rope.dimension_count"
    yield meta("rope.freq_base", float("nan")), "rope.freq_base"
    yield meta("rope.scaling.type", "spiral"), "'spiral'"
    yield meta("feed_forward_length", 95), "blk.0.ffn_gate.weight"
    yield meta("expert_count", 4), "expert_used_count"
    yield meta("expert_gating_func", 4), "llama.expert_gating_func"
    yield meta("attention.causal", False), "attention.causal: expected true"
    yield meta("attention.sliding_window_pattern", [True]), "expected 2 flags, got 1"
    yield shape("blk.0.attn_q.weight", (64, 65)), "expected with shape [64, 64], got [64, 65]"
    yield shape("blk.0.attn_norm.weight", (64, 64)), "expected with shape [64], got [64, 64]"
    yield shape("blk.0.attn_norm.weight", (64,), "q8_0"), "expected with floats, got q8_0"
    yield shape("blk.0.attn_surprise.weight", (64,)), "'blk.0.attn_surprise.weight' is not known"
    yield shape("rope_freqs.weight", (8,)), "expected positive numbers"
    yield (lambda m, t: t.pop("output_norm.weight")), "no tensor 'output_norm.weight'"


def test_broken(model, folder):
    path = os.path.join(folder, "broken.gguf")
    for change, part in broken_files(model):
        meta, tensors = copy.deepcopy(model.meta), dict(model.raw)
        change(meta, tensors)
        with open(path, "wb") as f:
            f.write(make_models.gguf(meta, tensors))
        got, text = run(path, [[1, 2]], folder)
        check(got is None and part in text, "broken file: expected '%s', got '%s'" % (part, text))


# ---- Safetensors -------------------------------------------------------------------------------

def broken_configs(config):
    """(changes, a part of the sentence)"""
    yield {"model_type": "gpt5"}, "'gpt5'"
    yield {"model_type": 7}, "model_type: expected a string, got a number"
    yield {"hidden_size": "wide"}, "hidden_size: expected a number from 1"
    yield {"hidden_size": 0}, "hidden_size"
    yield {"num_hidden_layers": 10 ** 9}, "num_hidden_layers"
    yield {"hidden_act": "relu"}, 'hidden_act: expected "silu", got relu'
    yield {"rms_norm_eps": None}, "epsilon"
    yield {"rope_theta": "big"}, "rope_theta: expected a number"
    yield {"rope_scaling": {"rope_type": "spiral"}}, "'spiral'"
    yield {"rope_scaling": {"rope_type": "longrope"}}, "short_factor: expected 8 numbers"
    yield {"rope_scaling": {"type": "llama3", "factor": 2.0, "low_freq_factor": 5.0}}, "high_freq"
    yield {"num_key_value_heads": 3}, "multiple of the k/v heads"


def test_safetensors(name, model, folder, devices):
    path, config = os.path.join(folder, name + ".safetensors"), os.path.join(folder, "config.json")
    with open(path, "wb") as f:
        f.write(model.data)
    with open(config, "w") as f:
        f.write(model.config)
    if model.arch in ("bert", "t5encoder"):
        test_encoder(name, model, path, folder, devices, config=config)
        return
    test_decoder(name, model, path, folder, devices, config=config)
    if name != "hf-llama":
        return
    for change, part in broken_configs(model.config):
        with open(config, "w") as f:
            json.dump(dict(json.loads(model.config), **change), f)
        got, text = run(path, [[1, 2]], folder, config=config)
        check(got is None and part in text, "config: expected '%s', got '%s'" % (part, text))


# ---- All ---------------------------------------------------------------------------------------

def test_all(args, folder):
    devices = [args.device]
    for name, model in make_models.models().items():
        if args.only and name not in args.only.split(","):
            continue
        path = os.path.join(folder, name + ".gguf")
        with open(path, "wb") as f:
            f.write(model.data)
        if "bert" in model.arch or "t5" in model.arch:
            test_encoder(name, model, path, folder, devices)
        else:
            test_decoder(name, model, path, folder, devices)
        test_hostile(name, path, folder)
        if name in GPU_SAMPLE:
            test_gpu(name, model, path, folder)
        if name == "phi3-long":
            test_short_context(model, path, folder)
        if name == "llama":
            test_broken(model, folder)
    for name, model in make_safetensors.models().items():
        if not args.only or name in args.only.split(","):
            test_safetensors(name, model, folder, devices)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="names of models, with commas")
    parser.add_argument("--device", default="cpu", help="beside the reference device")
    parser.add_argument("--keep", help="write the models to this folder")
    parser.add_argument("--verbose", action="store_true", help="print every difference")
    args = parser.parse_args()
    global verbose
    verbose = args.verbose
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
        test_all(args, args.keep)
    else:
        with tempfile.TemporaryDirectory() as folder:
            test_all(args, folder)
    finish()


if __name__ == "__main__":
    main()
