# SPDX-License-Identifier: MIT
"""A language model in Python: pieces as they come, a chat, many prompts, a JSON answer.

usage: generate.py [MODEL]"""
from __future__ import annotations

import asyncio
import json
import sys

import rlx


def pieces(model: rlx.Model) -> None:
    """Text as it is made."""
    run = model.generate("Once upon a time", max_tokens=40, temperature=0.7, seed=1)
    for piece in run:
        print(piece, end="", flush=True)
    result = run.result
    print(f"\n{result.n_generated} tokens, ended by {result.finish}")


def answer(model: rlx.Model) -> None:
    """In the shape of llama-cpp-python, with the form of the answer given by a schema."""
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "green", "blue"]}},
              "required": ["colour"]}
    said = model.create_chat_completion(
        [{"role": "user", "content": "Which colour is the sky?"}], max_tokens=60, temperature=0.0,
        response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": schema}})
    colour: str = json.loads(said["choices"][0]["message"]["content"])["colour"]
    print("the sky is", colour)


async def many(model: rlx.Model) -> None:
    """Requests that share the steps of the model."""
    prompts = ["One day", "The cat", "A ship"]
    with model.engine(sequences=4) as engine:
        async def one(prompt: str) -> str:
            return prompt + "".join([p async for p in engine.submit(prompt, max_tokens=16)])

        for text in await asyncio.gather(*map(one, prompts)):
            print(text)


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "models/tiny-stories.gguf"
    with rlx.Model(path) as model:
        pieces(model)
        answer(model)
        asyncio.run(many(model))


if __name__ == "__main__":
    main()
