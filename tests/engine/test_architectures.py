#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Architectures whose attention or feed-forward is unlike the others, in an engine: four requests
at once against float64; those that an engine cannot run are refused by name.
"""

import os
import sys
import tempfile

try:
    import numpy  # noqa: F401
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

import test_adapters as engine
from checks import check, finish
import make_models

REFUSED = {"llama4": "up to the 16 tokens of a chunk", "qwen3next": "(qwen3next) has recurrent",
           "mamba2": "(mamba2) has recurrent", "bert": "(bert) is no decoder"}


def write(path, model):
    meta = {k: v for k, v in model.meta.items() if not k.startswith("tokenizer")}
    with open(path, "wb") as f:
        f.write(make_models.gguf(meta, model.raw))


def main():
    models = make_models.models()
    models["llama4-one-chunk"] = make_models.llama4("llama4-one-chunk", window=64)
    rng = engine.np.random.default_rng(9)
    tokens = [rng.integers(0, 96, n).tolist() for n in engine.LENGTHS]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        for name in ("gpt-oss", "gpt-oss-mx", "deepseek2", "deepseek2-whole", "glm4moe",
                     "llama4-one-chunk", "llama4-plain"):
            write(path, models[name])
            for device in engine.DEVICES[:1]:
                what = "%s on %s, engine" % (name, device)
                engine.compare_engine(what, path, models[name], tokens, folder, [], "-/-/-/-",
                                      [[]] * len(tokens), device)
        for name, part in REFUSED.items():
            write(path, models[name])
            got, text = engine.run(path, tokens[:1], folder, [], engine="-")
            check(got is None and part in text, "%s: expected '%s', got '%s'" % (name, part, text))
    finish()


if __name__ == "__main__":
    main()
