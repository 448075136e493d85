#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Safetensors to GGUF: the logits of every tiny model of make_safetensors.py after 'rlx convert'
against float64; types; the vocabulary, special tokens and template of the file; ids of texts before
and after; what GGUF cannot hold is refused; other files are left alone.

    test_convert.py [--only NAME,...] [--keep FOLDER]
"""

import argparse
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

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "support"))
from checks import check, finish  # noqa: E402
import forward
import make_models
import make_safetensors

BUILD = os.environ.get("RLX_BUILD_DIR", "build")
RLX = os.path.join(BUILD, "rlx")
PROGRAM = os.path.join(BUILD, "tests", "model", "test_arch")
TOKENS = np.random.default_rng(7).integers(0, 96, 40).tolist()


def rlx(*args):
    done = subprocess.run([RLX, *map(str, args)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def write(folder, model, **more):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(model.data)
    with open(os.path.join(folder, "config.json"), "w") as f:
        f.write(model.config)
    for name, text in more.items():
        with open(os.path.join(folder, name + ".json"), "w") as f:
            f.write(text if isinstance(text, str) else json.dumps(text))


def convert(folder, out, *args):
    code, _, err = rlx("convert", folder, "--out", out, *args)
    return code == 0, err.strip()


# ---- Models ------------------------------------------------------------------------------------

def compute(path, folder):
    out = os.path.join(folder, "out.bin")
    done = subprocess.run([PROGRAM, path, "tokens=" + ",".join(map(str, TOKENS)), "out=" + out,
                           "device=cpu", "context=64", "cache=f32"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        return None, done.stdout
    return np.fromfile(out, "<f4").astype(np.float64), ""


def test_model(name, model, folder):
    source, out = os.path.join(folder, name), os.path.join(folder, name + ".gguf")
    write(source, model)
    ok, why = convert(source, out, "--type", "f32")
    if model.arch == "t5encoder":
        check(not ok and "not converted" in why, "%s: %s" % (name, why))
        return
    check(ok, "%s: %s" % (name, why))
    if not ok:
        return
    got, why = compute(out, folder)
    check(got is not None, "%s: %s" % (name, why))
    if got is None:
        return
    want = (forward.hidden(model, TOKENS).reshape(-1) if model.arch == "bert"
            else forward.logits(model, TOKENS, 64)[-1])
    check(got.size == want.size, "%s: %d numbers, expected %d" % (name, got.size, want.size))
    error = np.abs(got - want).max() / np.abs(want).max()
    check(error < 1e-4, "%s: off by %.2e" % (name, error))


def test_types(folder):
    """q8_0 and the default; the same bytes with any number of threads; a second run replaces."""
    source = os.path.join(folder, "types")
    write(source, make_safetensors.convert(make_models.transformer("llama", "types",
                                                                  kinds=("bf16",))))
    out = os.path.join(folder, "types.gguf")
    for args, kind in (((), "bf16"), (("--type", "q8_0", "--threads", 1), "q8_0"),
                       (("--type", "q8_0", "--threads", 3), "q8_0")):
        code, text, err = rlx("convert", source, "--out", out, "--json", *args)
        check(code == 0, "types: %s" % err)
        report = json.loads(text)
        check(report["types"][kind]["tensors"] == 16 and report["types"]["f32"]["tensors"] == 5,
              "types %s: %s" % (kind, text))
        with open(out, "rb") as f:
            data = f.read()
        if len(args) == 4 and args[3] == 3:
            check(data == before, "types: threads change the file")
        before = data
    code, text, _ = rlx("inspect", out, "--json")
    found = json.loads(text) if code == 0 else {}
    check(found.get("model", {}).get("runs") and found["metadata"]["general.file_type"] == 7 and
          found["metadata"]["general.name"] == "types", "types: inspect: " + text[:300])


# ---- Tokenizers --------------------------------------------------------------------------------

TEXTS = ["Hello world", "a  b   c", "café 123", "I'm sure you've seen it", "你好", "", " x",
         "<s>hi</s><|tool|>\n\ttab"]


def sentencepiece():
    """A vocabulary as those of Llama 2: bytes, letters, merges of all pairs that make a token."""
    text = "▁" + "the cat sat on the mat and I am sure you have seen Hello world ".replace(" ", "▁")
    vocab = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)] + sorted(set(text))
    pieces, made = list(text), []
    for _ in range(60):
        pairs = {}
        for a, b in zip(pieces, pieces[1:]):
            if not b.startswith("▁"):
                pairs[a + b] = pairs.get(a + b, 0) + 1
        if not pairs:
            break
        best = max(sorted(pairs), key=lambda t: pairs[t])
        made.append(best)
        i, joined = 0, []
        while i < len(pieces):
            n = 2 if i + 1 < len(pieces) and pieces[i] + pieces[i + 1] == best else 1
            joined.append("".join(pieces[i:i + n]))
            i += n
        pieces = joined
    made = list(dict.fromkeys(made))
    ids = {t: i for i, t in enumerate(vocab + made)}
    merges = [[t[:i], t[i:]] for t in made for i in range(1, len(t))
              if t[:i] in ids and t[i:] in ids]
    return {
        "added_tokens": [{"id": i, "content": t, "special": True, "normalized": False}
                         for i, t in enumerate(vocab[:3])],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "model": {"type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>",
                  "vocab": ids, "merges": merges}}


def byte_level(change):
    """The vocabulary with Qwen's splitting rule, with a token that only looks special."""
    with open(os.path.join(HERE, "tokenizers", "bpe-nfc.json"), encoding="utf-8") as f:
        j = json.load(f)
    n = max(j["model"]["vocab"].values()) + 1
    j["added_tokens"] = [{"id": n, "content": "<|tool|>", "special": False},
                         {"id": n + 1, "content": "</s>", "special": True}]
    change(j)
    return j


def size_of(j):
    vocab = j["model"]["vocab"]
    ids = vocab.values() if isinstance(vocab, dict) else range(len(vocab))
    return 1 + max(list(ids) + [t["id"] for t in j.get("added_tokens") or []])


def with_tokenizer(folder, name, j, config=None):
    kept, make_models.VOCABULARY = make_models.VOCABULARY, size_of(j) + 3
    try:
        model = make_safetensors.convert(make_models.transformer("llama", name, tied=True))
    finally:
        make_models.VOCABULARY = kept
    source = os.path.join(folder, name)
    write(source, model, tokenizer=j, **({"tokenizer_config": config} if config else {}))
    return source, os.path.join(folder, name + ".gguf")


def ids_of(path, text):
    code, out, err = rlx("tokenize", "--model", path, "--json", text)
    check(code == 0, "tokenize %r with %s: %s" % (text, path, err))
    return out


def test_tokenizer(folder, name, j, expected):
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": [
        {"name": "default", "template": "{{ messages[0].content }}"},
        {"name": "tool_use", "template": "tools"}]}
    source, out = with_tokenizer(folder, name, j, config)
    ok, why = convert(source, out)
    check(ok, "%s: %s" % (name, why))
    if not ok:
        return
    for text in TEXTS:
        check(ids_of(source, text) == ids_of(out, text), "%s: ids of %r" % (name, text))
    code, text, _ = rlx("inspect", out, "--json")
    found = json.loads(text).get("metadata", {})
    for key, want in expected.items():
        check(found.get("tokenizer." + key) == want, "%s: tokenizer.%s is %r, expected %r" %
              (name, key, found.get("tokenizer." + key), want))


def test_refused(folder):
    def rule(j):
        j["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
            {"type": "Whitespace"}, {"type": "ByteLevel", "add_prefix_space": False,
                                     "use_regex": False}]}

    def lower(j):
        j["normalizer"] = {"type": "Lowercase"}
    cases = [("rule", byte_level(rule), "has no name in GGUF"),
             ("lower", byte_level(lower), "changes text")]
    for name, part in (("wordlevel", "(wordlevel) is none"), ("bpe-suffix", "none that GGUF"),
                       ("wordpiece", "other tokens around")):
        with open(os.path.join(HERE, "tokenizers", name + ".json"), encoding="utf-8") as f:
            j = json.load(f)
        if name == "bpe-suffix":
            j["normalizer"] = None
        cases.append((name, j, part))
    for name, j, part in cases:
        source, out = with_tokenizer(folder, "no-" + name, j)
        ok, why = convert(source, out)
        check(not ok and part in why, "%s: expected '%s', got '%s'" % (name, part, why))
        check(not os.path.exists(out), "%s: there is a file" % name)


def test_files(folder):
    source = os.path.join(folder, "files")
    write(source, make_safetensors.convert(make_models.transformer("llama", "files")))
    note = os.path.join(folder, "note.txt")
    with open(note, "w") as f:
        f.write("my notes")
    ok, why = convert(source, note)
    check(not ok and "expected a GGUF file" in why, "a note as output: " + why)
    with open(note) as f:
        check(f.read() == "my notes", "the note was replaced")
    gguf = os.path.join(folder, "files.gguf")
    check(convert(source, gguf)[0], "files")
    ok, why = convert(gguf, os.path.join(folder, "again.gguf"))
    check(not ok and "is a gguf file" in why, "a GGUF file as input: " + why)
    code, _, why = rlx("convert", source)
    check(code == 2 and "--out" in why, "no --out: " + why)
    ok, why = convert(source, gguf, "--type", "q5")
    check(not ok and "no type 'q5'" in why, "a wrong type: " + why)
    os.remove(os.path.join(source, "config.json"))
    ok, why = convert(source, gguf)
    check(not ok and "config.json" in why, "no config.json: " + why)


def test_all(args, folder):
    for name, model in make_safetensors.models().items():
        if not args.only or name in args.only.split(","):
            test_model(name, model, folder)
    if args.only:
        return
    test_types(folder)
    test_tokenizer(folder, "spm", sentencepiece(), {
        "ggml.model": "llama", "ggml.bos_token_id": 1, "ggml.eos_token_id": 2,
        "ggml.unknown_token_id": 0, "ggml.add_bos_token": True, "ggml.add_eos_token": False,
        "ggml.add_space_prefix": True, "chat_template": "{{ messages[0].content }}",
        "chat_template.tool_use": "tools"})
    test_tokenizer(folder, "qwen2", byte_level(lambda j: None), {
        "ggml.model": "gpt2", "ggml.pre": "qwen2", "ggml.add_bos_token": False})
    test_refused(folder)
    test_files(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="names of models, with commas")
    parser.add_argument("--keep", help="write the models to this folder")
    args = parser.parse_args()
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
        test_all(args, args.keep)
    else:
        with tempfile.TemporaryDirectory() as folder:
            test_all(args, folder)
    finish()


if __name__ == "__main__":
    main()
