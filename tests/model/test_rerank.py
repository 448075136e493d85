#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx rerank and rlx embed of decoders with tiny models against NumPy in double precision: a
cross-encoder in GGUF and after conversion from safetensors, a decoder that answers yes or no,
vectors of decoders by all poolings; what is wrong is refused."""

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

RLX = os.path.join(os.environ.get("RLX_BUILD_DIR", "build"), "rlx")
WIDTH = make_models.WIDTH
DOCUMENTS = ["a cat", "the dog sat", "no", "cat cat cat the dog a no yes sat a cat"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "the", "dog", "sat", "no", "yes"]


def rlx(*args):
    done = subprocess.run([RLX, *map(str, args), "--device", "cpu", "--json"],
                          capture_output=True, text=True, timeout=60)
    return (json.loads(done.stdout) if done.returncode == 0 else None), done.stderr


def scores_of(name, *args):
    """In the order of the documents."""
    found, err = rlx("rerank", *args, *DOCUMENTS)
    check(found is not None, "%s: %s" % (name, err))
    if found is None:
        return None
    results = found["results"]
    ordered = [r["score"] for r in results]
    check(ordered == sorted(ordered, reverse=True), "%s: not in order" % name)
    return np.array([r["score"] for r in sorted(results, key=lambda r: r["line"])])


def compare(name, got, want):
    if got is None:
        return
    error = np.abs(got - want).max() / np.abs(want).max()
    check(error < 1e-4, "%s: %s, expected %s" % (name, got, want))


def save(model, path):
    with open(path, "wb") as f:
        f.write(make_models.gguf(model.meta, model.raw))


# ---- Cross-encoders ----------------------------------------------------------------------------

def tokens(text):
    return [WORDS.index(w) for w in text.split()]


def add(model, name, array):
    data, back = make_models.encode(array, "f32")
    model.raw[name] = (np.shape(array), "f32", data)
    model.tensors[name] = back


def cross_encoder(classes, dense=True, types=2):
    model = make_models.encoder("bert", "rerank", types=types)
    rng = np.random.default_rng(classes)
    model.meta.update({"bert.pooling_type": 4, "tokenizer.ggml.model": "bert",
                       "tokenizer.ggml.tokens": WORDS + ["[x%d]" % i for i in range(96 - 11)],
                       "tokenizer.ggml.token_type": [3] * 4 + [1] * (96 - 4)})
    if dense:
        add(model, "cls.weight", rng.normal(0, 0.2, (WIDTH, WIDTH)))
        add(model, "cls.bias", rng.normal(0, 0.2, WIDTH))
    add(model, "cls.output.weight", rng.normal(0, 0.2, (classes, WIDTH)))
    add(model, "cls.output.bias", rng.normal(0, 0.2, classes))
    return model


def cross_scores(model, query):
    out = []
    for document in DOCUMENTS:
        first = [2] + tokens(query) + [3]
        second = tokens(document) + [3]
        types = np.array([0] * len(first) + [1] * len(second))
        if len(model.tensors["token_types.weight"]) == 1:
            types = 0
        x = forward.hidden(model, first + second, types)[0]
        if "cls.weight" in model.tensors:
            x = np.tanh(model.tensors["cls.weight"] @ x + model.tensors["cls.bias"])
        y = model.tensors["cls.output.weight"] @ x + model.tensors["cls.output.bias"]
        out.append(y[0] if len(y) == 1 else 1 / (1 + np.exp(y[0] - y[1])))
    return np.array(out)


def test_cross_encoders(folder):
    path = os.path.join(folder, "cross.gguf")
    for classes, dense, types in ((1, True, 2), (1, False, 1), (2, True, 2)):
        model = cross_encoder(classes, dense, types)
        save(model, path)
        what = "cross-encoder, %d classes" % classes
        compare(what, scores_of(what, path, "--query", "the cat"), cross_scores(model, "the cat"))
    save(cross_encoder(3), path)
    found, err = rlx("rerank", path, "--query", "a", "b")
    check(found is None and "classifier of 3 classes" in err, "three classes: " + err)


BERT_HEAD = {"cls.weight": "bert.pooler.dense.weight", "cls.bias": "bert.pooler.dense.bias",
             "cls.output.weight": "classifier.weight", "cls.output.bias": "classifier.bias"}


def test_published(folder):
    """A BERT with a pooler and a classifier, as safetensors and converted."""
    model = cross_encoder(1)
    raw = {}
    for key, array in model.tensors.items():
        parts = key.split(".")
        if parts[0] == "blk":
            name = "bert.encoder.layer.%s.%s.%s" % (parts[1], make_safetensors.BERT[parts[2]],
                                                    parts[3])
        elif key in BERT_HEAD:
            name = BERT_HEAD[key]
        else:
            name = "bert.embeddings.%s.%s" % (make_safetensors.BERT[parts[0]], parts[1])
        raw[name] = (array.shape, "f32", make_models.encode(array, "f32")[0])
    source, out = os.path.join(folder, "bert"), os.path.join(folder, "bert.gguf")
    os.makedirs(source)
    with open(os.path.join(source, "model.safetensors"), "wb") as f:
        f.write(make_safetensors.safetensors(raw))
    with open(os.path.join(source, "vocab.txt"), "w") as f:
        f.write("\n".join(WORDS) + "\n")
    with open(os.path.join(source, "config.json"), "w") as f:
        json.dump({"model_type": "bert", "hidden_size": WIDTH, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "intermediate_size": 96, "hidden_act": "gelu",
                   "max_position_embeddings": 64, "layer_norm_eps": 1e-6}, f)
    want = cross_scores(model, "the cat")
    compare("safetensors", scores_of("safetensors", source, "--query", "the cat"), want)
    done = subprocess.run([RLX, "convert", source, "--out", out, "--type", "f32"],
                          capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, "convert: " + done.stderr)
    compare("converted", scores_of("converted", out, "--query", "the cat"), want)


# ---- Decoders ----------------------------------------------------------------------------------

def letter(byte):
    """The character that stands for a byte in byte-level vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte if byte in plain else 256 + [b for b in range(256)
                                                  if b not in plain].index(byte))


def decoder(pooling=None):
    kept, make_models.VOCABULARY = make_models.VOCABULARY, 260
    try:
        model = make_models.transformer("qwen3", "answers", size=32, qk_norm=True, context=512)
    finally:
        make_models.VOCABULARY = kept
    model.meta.update({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": [letter(b) for b in range(256)] + ["ye", "yes", "no", "<|end|>"],
        "tokenizer.ggml.token_type": [1] * 259 + [3], "tokenizer.ggml.merges":
            ["y e", "ye s", "n o"], "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template.rerank": "Q: {query}\n<|end|>D: {document}\nA:"})
    if pooling:
        model.meta["qwen3.pooling_type"] = pooling
    return model


def encode(text):
    ids, raw, i = [], text.encode(), 0
    while i < len(raw):
        for part, token in ((b"<|end|>", 259), (b"yes", 257), (b"ye", 256), (b"no", 258)):
            if raw.startswith(part, i):
                ids.append(token)
                i += len(part)
                break
        else:
            ids.append(raw[i])
            i += 1
    return ids


def test_answers(folder):
    model = decoder()
    path = os.path.join(folder, "answers.gguf")
    save(model, path)
    want = []
    for document in DOCUMENTS:
        y = forward.logits(model, encode("Q: my cat\n<|end|>D: %s\nA:" % document), 512)[-1]
        want.append(1 / (1 + np.exp(y[258] - y[257])))
    compare("yes or no", scores_of("yes or no", path, "--query", "my cat"), np.array(want))
    # a head in the place of the output matrix: the same rows
    add(model, "cls.output.weight", model.tensors["output.weight"][[257, 258]])
    save(model, path)
    compare("a head", scores_of("a head", path, "--query", "my cat"), np.array(want))


def test_vectors(folder):
    path = os.path.join(folder, "vectors.gguf")
    texts = ["a cat", "the quick brown fox jumps over the lazy dog, yes or no?"]
    output = np.random.default_rng(3).normal(0, 1, (260, WIDTH))
    for number, name in ((3, "last"), (1, "mean"), (2, "first")):
        model = decoder(number)
        add(model, "output.weight", output)
        save(model, path)
        found, err = rlx("embed", path, "--raw", *texts)
        check(found is not None, "embed %s: %s" % (name, err))
        other, err = rlx("embed", path, "--raw", "--pooling", name, texts[1])
        if found is None or not check(other is not None, err):
            return
        check(other["embeddings"][0] == found["embeddings"][1], "the pooling of the file: " + name)
        for text, v in zip(texts, found["embeddings"]):
            # the rows behind the last norm, from the logits of a matrix that can be inverted
            rows = np.linalg.lstsq(output, forward.logits(model, encode(text), 512).T,
                                   rcond=None)[0].T
            want = {"last": rows[-1], "first": rows[0], "mean": rows.mean(0)}[name]
            compare("embed, %s" % name, np.array(v), want)
    got = scores_of("by vectors", path, "--query", "a cat")
    check(got is not None and abs(got[0] - 1) < 1e-5 and got[1] < 0.999, "by vectors: %s" % got)


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_cross_encoders(folder)
        test_published(folder)
        test_answers(folder)
        test_vectors(folder)
    finish()


if __name__ == "__main__":
    main()
