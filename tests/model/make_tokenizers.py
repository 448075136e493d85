#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/model/tokenizers/: a small vocabulary of each kind and, in expected.txt, the ids
that the PyPI packages `tokenizers` and `sentencepiece` give for some texts. A line is the file, the
text in hexadecimal, the ids; separated by tabs. test_tok.c reads it.
"""
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import test_tokenizers as tt  # noqa: E402
import tokenizer_texts as texts  # noqa: E402

OUT = Path(__file__).parent / "tokenizers"
TEXTS = ["Hello world", "I'm sure you've seen what we'll do, don't", "a  b   c\n\n d\t\te \r\n",
         "1234567 3.14 \u00bd", "\u4f60\u597d\uff0c\u4e16\u754c",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467",
         "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m", "\u041f\u0440\u0438\u0432\u0435\u0442", "", " ",
         "def f(x):\n    return x**2  # squared\n", "\u0645\u0631\u062d\u0628\u0627", "x\x00y\x01",
         "The quick brown fox jumps over the lazy dog.", "\u0928\u092e\u0938\u094d\u0924\u0947"]


def small(hf):
    """A model with few tokens, as compact JSON."""
    return json.dumps(json.loads(hf.to_str()), ensure_ascii=False, separators=(",", ":"))


def main():
    OUT.mkdir(exist_ok=True)
    corpus = tt.make_texts(400, 7)
    few_letters = 3 * (texts.PROSE[:3] + texts.CODE + TEXTS[:4])
    rows = []

    def add(name, data, encode):
        if data:
            (OUT / name).write_text(data, encoding="utf-8")
        for text in TEXTS:
            ids = " ".join(map(str, encode(text)))
            rows.append(f"{name}\t{text.encode().hex()}\t{ids}")

    tt.VOCAB = 400
    for pre in ("gpt-2", "llama-bpe", "qwen2", "smollm", "gpt-4o", "deepseek-v3"):
        hf = tt.train_bpe(tt.SPLITS[pre], corpus, ignore_merges=pre == "llama-bpe")
        tt.write_gguf(OUT / f"{pre}.gguf", tt.bpe_meta(hf, pre))
        add(f"{pre}.gguf", None, lambda t, hf=hf: hf.encode(t, add_special_tokens=False).ids)
    hf = tt.train_bpe(tt.SPLITS["qwen2"], corpus, nfc=True)
    add("bpe-nfc.json", small(hf), lambda t: hf.encode(t, add_special_tokens=False).ids)
    keep = {"wordpiece lower=True": "wordpiece.json", "unigram first split=True": "unigram.json",
            "bpe suffix": "bpe-suffix.json", "wordlevel": "wordlevel.json"}
    for name, other in tt.other_tokenizers(few_letters):
        if name in keep:
            add(keep[name], small(other),
                lambda t, o=other: o.encode(t, add_special_tokens=False).ids)
    keep = {"spm bpe": "spm-bpe.gguf", "spm unigram bytes": "spm-unigram.gguf"}
    tt.SPM = {k: v for k, v in tt.SPM.items() if k in keep}
    with tempfile.TemporaryDirectory() as folder:
        for name, sp, meta in tt.train_spm(Path(folder), few_letters):
            tt.write_gguf(OUT / keep[name], meta)
            add(keep[name], None, lambda t, sp=sp: sp.encode(t.replace("\x00", "")))
    rows = [r for r in rows if not ("spm" in r and "\t780079" in r)]
    (OUT / "expected.txt").write_text("\n".join(rows) + "\n")
    print(f"{OUT}: {len(rows)} rows, {sum(p.stat().st_size for p in OUT.iterdir())} bytes")


if __name__ == "__main__":
    main()
