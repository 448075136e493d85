#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python package: docstrings as tests, graphs against NumPy, memory of others without copies,
many threads and tasks, forked processes, errors, completions."""
import asyncio
import copy
import doctest
import gc
import importlib
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import unittest

import package

package.need_numpy()
import numpy as np  # noqa: E402

import rlx  # noqa: E402

os.chdir(package.SOURCE)
TINY = "models/tiny-stories.gguf"


def affine(n=3):
    g = rlx.Graph("affine")
    rows = g.dim("rows", 64)
    x = g.input("x", (rows, n))
    g.output("y", x @ g.param("w", np.full((n, n), 0.5, np.float32)) + 1.0)
    return g


class Docs(unittest.TestCase):
    def test_docstrings(self):
        names = [p.stem for p in (package.SOURCE / "python/rlx").glob("*.py")
                 if p.stem not in ("__init__", "__main__")]
        tried = 0
        for name in names:
            done = doctest.testmod(importlib.import_module(f"rlx.{name}"))
            self.assertEqual(done.failed, 0, name)
            tried += done.attempted
        self.assertGreater(tried, 40)

    def test_version(self):
        header = (package.SOURCE / "include/rlx/base.h").read_text(encoding="utf-8")
        self.assertEqual(rlx.__version__,
                         ".".join(re.findall(r"#define RLX_VERSION_\w+ (\d+)", header)))


class Graphs(unittest.TestCase):
    def check(self, build, *arrays):
        """A graph of values gives what the same function gives of NumPy's arrays."""
        g = rlx.Graph()
        values = [g.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
        g.output("y", build(*values))
        (got,) = g.compile("cpu").run(None, {f"x{i}": a for i, a in enumerate(arrays)})
        want = build(*arrays)
        self.assertEqual(got.shape, want.shape)
        np.testing.assert_allclose(got, want, rtol=2e-6)

    def test_operators(self):
        r = np.random.default_rng(1)
        a, b = (r.standard_normal((3, 4), np.float32) for _ in range(2))
        c = r.standard_normal((4, 2), np.float32)
        for build in (lambda a, b, c: a @ c, lambda a, b, c: (a + b) * 2.0 - 1.0,
                      lambda a, b, c: 1.0 / (abs(a) + 1.0), lambda a, b, c: -a / (b * b + 3),
                      lambda a, b, c: (a * a) ** 0.5, lambda a, b, c: 2.0 - b,
                      lambda a, b, c: a.sum(axis=1) + b.mean(axis=1, keepdims=True).sum(),
                      lambda a, b, c: a.T.reshape(2, 6), lambda a, b, c: a.max(axis=0),
                      lambda a, b, c: np.float32(2) * a + np.ones(4, np.float32) * b):
            self.check(build, a, b, c)

    def test_indexing(self):
        a = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
        for build in (lambda a: a[0], lambda a: a[-1, 1:3], lambda a: a[..., -1],
                      lambda a: a[:, None, 1], lambda a: a[::-1, ::2], lambda a: a[1, ..., 2:],
                      lambda a: a[..., None], lambda a: a[2, 3, 4]):
            self.check(build, a)
        g = rlx.Graph()
        x = g.input("x", (3, 4))
        for key in ((0, 0, 0), (3,), (0, 4)):
            with self.assertRaises(rlx.InvalidError):
                x[key]

    def test_dimensions(self):
        s = rlx.Session(affine(), "cpu")
        self.assertEqual(s.get_inputs()[0].shape, ["rows", 3])
        for rows in (1, 5, 64, 2):
            x = np.random.default_rng(rows).standard_normal((rows, 3), np.float32)
            (y,) = s.run(None, {"x": x})
            np.testing.assert_allclose(y, x @ np.full((3, 3), 0.5) + 1, rtol=2e-6)
        with self.assertRaisesRegex(rlx.InvalidError, "65|64"):
            s.run(None, {"x": np.zeros((65, 3), np.float32)})
        with self.assertRaisesRegex(rlx.InvalidError, "'x'.*4 elements"):
            s.run(None, {"x": np.zeros((2, 4), np.float32)})
        self.assertEqual(s.run(None, {"x": np.zeros((2, 3), np.float32)})[0].shape, (2, 3))

    def test_types(self):
        """A NumPy type in is the same type out; bf16 rounds."""
        for t in ("f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"):
            g = rlx.Graph()
            x = g.input("x", (4,), np.dtype(t))
            g.output("y", x[::-1])
            a = np.array([0, 1, 1, 0]).astype(t)
            (y,) = g.compile("cpu").run(None, {"x": a})
            self.assertEqual(y.dtype, a.dtype)
            np.testing.assert_array_equal(y, a[::-1])
        g = rlx.Graph()
        g.output("y", g.input("x", (2,), "bf16").astype("f32"))
        (y,) = g.compile("cpu").run(None, {"x": np.float32([1 / 3, 2])})
        np.testing.assert_array_equal(y, np.float32([0.333984375, 2]))
        with self.assertRaisesRegex(rlx.InvalidError, "f64.*expected f32"):
            rlx.Session(affine(), "cpu").run(None, {"x": np.zeros((1, 3))})
        (y,) = rlx.Session(affine(), "cpu").run(None, {"x": [[0, 0, 0]]})
        np.testing.assert_array_equal(y, np.ones((1, 3)))

    def test_state_and_clones(self):
        g = rlx.Graph()
        count = g.state("count", (1,), "i32")
        new = count + 1
        rlx.state_write(count, new)
        g.output("n", new)
        s = g.compile("cpu")
        other = s.clone()
        for i in range(1, 4):
            self.assertEqual(s.run(None, {})[0].tolist(), [i])
        self.assertEqual(s.state("count").tolist(), [3])
        self.assertEqual(other.run(None, {})[0].tolist(), [1])
        s.set_state("count", [10])
        self.assertEqual(s.run(None, {})[0].tolist(), [11])
        s.reset()
        self.assertEqual(s.state("count").tolist(), [0])

    def test_text_form(self):
        again = rlx.Graph.parse(str(affine()))
        self.assertEqual(str(again), str(affine()))
        s = rlx.Session(again, "cpu", params={"w": np.eye(3, dtype=np.float32)})
        self.assertEqual(s.run(None, {"x": [[1, 2, 3]]})[0].tolist(), [[2, 3, 4]])

    def test_functions(self):
        """Every function of one operand exists in the catalogue."""
        names = set(rlx.catalogue())
        g = rlx.Graph()
        x = g.input("x", (2, 3))
        for name in ("relu", "gelu", "silu", "tanh", "erf", "mish", "floor", "softplus"):
            self.assertIn(name, names)
            self.assertEqual(getattr(rlx, name)(x).shape, (2, 3))
        values, places = rlx.top_k(x, 2)
        self.assertEqual((values.shape, places.dtype), ((2, 2), "i64"))
        self.assertEqual(rlx.where(x > 0, x, 0.0).dtype, "f32")


class Memory(unittest.TestCase):
    def test_buffers(self):
        device = rlx.Device("cpu")
        g = rlx.Graph()
        g.output("y", g.input("x", (4,)) * 2.0)
        s = rlx.Session(g, device)
        x, y = rlx.Buffer(device, (4,)), rlx.Buffer(device, (4,))
        s.set_buffer("input", "x", x)
        s.set_buffer("output", "y", y)
        with x.map() as memory:
            memory[:] = [1, 2, 3, 4]
        self.assertEqual(s.run(None, {}), [])
        self.assertEqual(y.read().tolist(), [2, 4, 6, 8])

    def test_dlpack(self):
        """In both directions the memory is the same."""
        device = rlx.Device("cpu")
        buffer = rlx.Buffer(device, (2, 3))
        buffer.write(np.arange(6, dtype=np.float32).reshape(2, 3))
        seen = np.from_dlpack(buffer)
        self.assertEqual(seen.tolist(), [[0, 1, 2], [3, 4, 5]])
        with self.assertRaises(rlx.InvalidError):
            buffer.read()  # it belongs to who looks at it
        del seen
        gc.collect()
        self.assertEqual(buffer.read().sum(), 15)

        class Producer:  # with nothing but DLPack
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **_):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        from rlx.arrays import from_dlpack

        array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]
        same, _ = from_dlpack(Producer(array))
        self.assertEqual(same.ctypes.data, array.ctypes.data)
        array[0, 1] = 99
        self.assertEqual(same[0, 1], 99)
        g = rlx.Graph()
        g.output("y", g.input("x", (3, 2)) + 1.0)
        (y,) = g.compile("cpu").run(None, {"x": Producer(array)})
        np.testing.assert_array_equal(y, array + 1)

    def test_buffer_protocol(self):
        g = rlx.Graph()
        g.output("y", g.input("x", (4,), "u8") + 1)
        for data in (bytearray(b"\1\2\3\4"), memoryview(b"\1\2\3\4")):
            self.assertEqual(g.compile("cpu").run(None, {"x": data})[0].tolist(), [2, 3, 4, 5])

    def test_bound(self):
        s = rlx.Session(affine(), "cpu")
        x, y = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
        s.bind_dims(rows=2)
        run = s.bind({"x": x}, {"y": y})
        for value in (1, 2):
            x[:] = value
            self.assertIs(run()["y"], y)
            self.assertEqual(y.tolist(), [[1.5 * value + 1] * 3] * 2)
        with self.assertRaises(rlx.InvalidError):
            s.bind({"x": x}, {"y": y[:1]})

    def test_closed_while_used(self):
        """What others use is freed with the last of them; only new uses are refused."""
        with rlx.Model(TINY, device="cpu") as model:
            grammar = rlx.Grammar.regex("[ab]{3}")
            run = model.generate("Once", max_tokens=4)
            held = model.generate("Once", grammar=grammar)
            chat, engine = model.chat(), model.engine()
            request = engine.submit("Once", max_tokens=4)
        grammar.close()
        engine.close()
        self.assertEqual(len(run.text), 4)
        self.assertRegex(held.text, "^[ab]{3}$")
        self.assertIn(request.result.finish, ("length", "caller"))
        answer = chat.say("A story", max_tokens=200, ignore_end=True)
        chat.close()
        answer.result
        with self.assertRaisesRegex(rlx.InvalidError, "the model is closed"):
            model.generate("Once")
        self.assertEqual((model._users, chat._users, grammar._users), (0, 0, 0))
        self.assertIsNone(model._ended)

        buffer = rlx.Buffer(rlx.Device("cpu"), (2,))
        buffer.write([1, 2])
        seen = np.from_dlpack(buffer)
        buffer.close()
        self.assertEqual(seen.tolist(), [1, 2])
        session = rlx.Session(affine(), "cpu")
        feeds = {"x": np.ones((1, 3), np.float32)}
        clone, bound = session.clone(), session.bind(feeds)
        session.close()
        self.assertEqual(clone.run(None, feeds)[0].tolist(), [[2.5] * 3])
        with self.assertRaisesRegex(rlx.InvalidError, "the session is closed"):
            bound()

    def test_no_copies(self):
        """A copy would free what the first one owns."""
        model = rlx.Model(TINY, device="cpu")
        for what in (model, model.generate("Once"), rlx.Graph(), rlx.Device("cpu")):
            for take in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "neither be copied nor pickled"):
                    take(what)

    def test_no_leaks(self):
        s = rlx.Session(affine(), "cpu")
        feeds = {"x": np.zeros((4, 3), np.float32)}
        run = s.bind(feeds)

        def work():
            for _ in range(200):
                s.run(None, feeds)
                run()
                try:
                    s.run(["z"], feeds)
                except rlx.NotFoundError:
                    pass
            for _ in range(20):
                buffer = rlx.Buffer(s.device, (16,))
                del buffer
                np.from_dlpack(rlx.Buffer(s.device, (16,)))
                rlx.Session(affine(), s.device).close()

        work()
        gc.collect()
        tracemalloc.start()
        before, objects = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
        work()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        self.assertLess(grown, 20000)
        self.assertLess(len(gc.get_objects()) - objects, 50)


class Errors(unittest.TestCase):
    def test_status_and_sentence(self):
        g = rlx.Graph()
        with self.assertRaises(rlx.InvalidError) as caught:
            g.input("a", (2, 3)) @ g.input("b", (2, 3))
        self.assertEqual(caught.exception.status, rlx.Status.INVALID)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertIn("matmul", str(caught.exception))
        with self.assertRaises(OSError):
            rlx.Model("./no-such-file.gguf")
        with self.assertRaisesRegex(rlx.NotFoundError, "rlx pull"):
            rlx.Model("no-such-model")
        with self.assertRaisesRegex(rlx.NotFoundError, "'z'.*it has x"):
            rlx.Session(affine(), "cpu").run(None, {"z": [1]})
        with self.assertRaises(rlx.ParseError):
            rlx.Graph.parse("graph {")
        with self.assertRaises(rlx.NoDeviceError):
            rlx.Device("vulkan:no such gpu")
        closed = rlx.Device("cpu")
        closed.close()
        with self.assertRaisesRegex(rlx.InvalidError, "closed"):
            rlx.Session(affine(), closed)

    def test_fork(self):
        """A child of a process with devices is told; one of a process without may open them."""
        code = """
import os, sys, rlx
used = len(sys.argv) > 1
if used:
    device = rlx.Device("cpu")
if os.fork() == 0:
    try:
        print(rlx.Device("cpu").info.id, flush=True)
    except rlx.Error as error:
        print(error, flush=True)
    if used:
        device.close()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
        for arguments, said in (([], "cpu\n"), (["used"], "forked.*spawn")):
            done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, *arguments],
                                  capture_output=True, text=True, check=False,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, said)


class Arguments(unittest.TestCase):
    """What ctypes would cut, or fail on without a sentence."""

    def refuse(self, words, call):
        with self.assertRaisesRegex(rlx.InvalidError, words):
            call()

    def test_values_of_other_graphs(self):
        g, other = rlx.Graph("a"), rlx.Graph("b")
        x, y, n = g.input("x", (1,)), other.input("y", (1,)), other.dim("n", 4)
        self.refuse("no value of this graph", lambda: x + y)
        self.refuse("no value of this graph", lambda: g.output("z", y))
        self.refuse("another graph", lambda: g.input("z", (n, 2)))
        self.refuse("another graph", lambda: g.dim("m", 4) + n)

    def test_impossible_sizes(self):
        g = rlx.Graph()
        n = g.dim("n", 8)
        g.output("y", g.input("x", (n, 3)).op("narrow", axis=0, start=0, length=n - 1))
        s = g.compile("cpu")
        self.assertEqual(s.run(None, {"x": np.zeros((1, 3), np.float32)})[0].shape, (0, 3))
        self.refuse("n-1|n - 1|-1", lambda: s.run(None, {"x": np.zeros((0, 3), np.float32)}))

    def test_numbers(self):
        self.refuse("threads -1", lambda: rlx.Model(TINY, threads=-1))
        self.refuse("threads 4294967296", lambda: rlx.Device("cpu", threads=2**32))
        with rlx.Model(TINY, device="cpu") as m:
            for name, value in (("max_tokens", 2**70), ("seed", 2**70), ("top_k", 2**70)):
                self.refuse(f"{name} {value}", lambda: m.generate(
                    "Once", **{"temperature": 1, "max_tokens": 2, name: value}))
            whole = m.generate("Once", temperature=1, top_k=np.int64(3), seed=np.uint64(5),
                               max_tokens=np.int32(4)).text
            self.assertEqual(whole, m.generate("Once", temperature=1, top_k=3, seed=5,
                                               max_tokens=4).text)

    def test_texts(self):
        self.refuse("a text, got b", lambda: rlx.Model(TINY.encode()))
        self.refuse("a text, got 3", lambda: rlx.Grammar.regex(3))
        with rlx.Model(TINY, device="cpu") as m:
            for prompt in (3, None, {1, 2}, {"role": "user"}):
                self.refuse("a prompt: expected a text", lambda: m.generate(prompt))
            self.refuse("surrogate pair at character 2", lambda: m.generate("ab\ud800"))
            self.refuse("got 3", lambda: m.generate("Once", stop=3))
            self.refuse("got 3", lambda: m.generate("Once", stop=["a", 3]))
            self.refuse("a text, got", lambda: m.chat([{"role": "user"}]))


    def test_options(self):
        model = rlx.Model(TINY, device="cpu")
        for call in (lambda: model.generate("x", temprature=1),
                     lambda: model.create_completion("x", temprature=1)):
            with self.assertRaisesRegex(TypeError, "did you mean 'temperature'"):
                call()
        self.assertEqual(model.tokenize(b"ab"), model.tokenize("ab"))
        for call, said in ((lambda: model.tokenize(3), "expected a text, got 3"),
                           (lambda: model.detokenize("ab"), "expected token ids, got 'ab'"),
                           (lambda: model.generate_many("abc"), "expected a list of prompts")):
            with self.assertRaisesRegex(rlx.InvalidError, said):
                call()
        self.assertIn("take .text", repr(model.generate("Once", max_tokens=1)))


class Threads(unittest.TestCase):
    def in_threads(self, work, n=4):
        failures = []

        def guarded(i):
            try:
                work(i)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])

    def test_sessions(self):
        shared = rlx.Session(affine(), "cpu")

        def work(i):
            own = shared.clone()
            for k in range(50):
                x = np.full((i + 1, 3), k, np.float32)
                for s in (shared, own):
                    np.testing.assert_array_equal(s.run(None, {"x": x})[0], 1.5 * x + 1)

        self.in_threads(work)

    def test_models(self):
        model = rlx.Model(TINY, device="cpu", threads=1)
        prompts = ["Once", "One day", "The", "A"]
        want = [model.generate(p, max_tokens=12).text for p in prompts]

        def work(i):
            self.assertEqual(model.generate(prompts[i], max_tokens=12).text, want[i])

        self.in_threads(work)

    def test_tasks(self):
        """A hundred tasks on one engine, and the pieces of each in order."""
        model = rlx.Model(TINY, device="cpu", policy="exact", threads=1)
        want = {n: model.generate_many(["Once"], max_tokens=n)[0].text for n in (3, 5, 7)}

        async def one(engine, n):
            text = ""
            async for piece in engine.submit("Once", max_tokens=n):
                text += piece
            return text

        async def several():
            with model.engine(sequences=8) as engine:
                texts = await asyncio.gather(*[one(engine, (3, 5, 7)[i % 3]) for i in range(100)])
                whole = await engine.submit("Once", max_tokens=5)
            async for piece in model.generate("Once", max_tokens=2):
                texts.append(piece)
            return texts, whole

        texts, whole = asyncio.run(several())
        for i in range(100):
            self.assertEqual(texts[i], want[(3, 5, 7)[i % 3]])
        self.assertEqual("".join(texts[100:]), want[3][:2])
        self.assertEqual((whole.text, whole.finish, whole.n_generated), (want[5], "length", 5))

    def test_cancelled_task(self):
        model = rlx.Model(TINY, device="cpu", threads=1)

        async def cancel():
            with model.engine(sequences=2) as engine:
                request = engine.submit("Once", max_tokens=2000, ignore_end=True)

                async def read():
                    async for _ in request:
                        pass

                task = asyncio.create_task(read())
                await asyncio.sleep(0.02)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                return await engine.submit("Once", max_tokens=3)

        self.assertEqual(asyncio.run(cancel()).n_generated, 3)


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = rlx.Model(TINY, device="cpu", policy="exact")

    def test_generation(self):
        m = self.model
        run = m.generate("Once upon a time", max_tokens=30)
        pieces = list(run)
        self.assertEqual("".join(pieces), run.text)
        self.assertEqual(m.detokenize(run.result.tokens), run.text)
        self.assertEqual(run.result.n_generated, 30)
        again = m.generate(m.tokenize("Once upon a time", add_special=True), max_tokens=30)
        self.assertEqual(again.text, run.text)
        self.assertGreater(again.result.n_reused, 0)
        tool = subprocess.run([sys.executable, "-m", "rlx", "generate", "-m", TINY, "--device",
                               "cpu", "-n", "30", "-p", "Once upon a time", "--policy", "exact"],
                              capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(tool.stdout.rstrip("\n"), run.text.rstrip("\n"))

    def test_stop_and_cancel(self):
        run = self.model.generate("Once", max_tokens=100, stop=["time"])
        self.assertNotIn("time", run.text)
        self.assertEqual(run.result.finish, "stop")
        run = self.model.generate("Once", max_tokens=100)
        next(run)
        run.cancel()
        self.assertEqual((len(run.result.tokens), run.result.finish), (1, "caller"))
        with self.assertRaisesRegex(TypeError, "max_token'"):
            self.model.generate("Once", max_token=3)
        with self.assertRaisesRegex(rlx.InvalidError, "max_tokens"):
            self.model.generate("Once", max_tokens=-1)

    def test_grammar(self):
        schema = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 99}},
                  "required": ["age"], "additionalProperties": False}
        run = self.model.generate("x", grammar=rlx.Grammar.json_schema(schema), max_tokens=60)
        self.assertLess(json.loads(run.text)["age"], 100)
        run = self.model.generate("x", grammar=rlx.Grammar.regex("(yes|no)"))
        self.assertIn(run.text, ("yes", "no"))

    def test_chat(self):
        chat = self.model.chat("Be brief.")
        first = chat.say("Hello", max_tokens=6)
        with self.assertRaisesRegex(rlx.InvalidError, "still answering"):
            chat.say("again")
        self.assertEqual(first.result.finish, "length")
        chat.say("More", max_tokens=6).text
        self.assertEqual([m["role"] for m in chat.messages],
                         ["system", "user", "assistant", "user", "assistant"])
        chat.undo()
        self.assertEqual(chat.messages[-1]["content"].strip(), first.text.strip())

    def test_scores(self):
        scores = self.model.score("Once upon a time")
        self.assertEqual(scores[0], 0)
        self.assertTrue((scores <= 0).all())
        better, worse = (self.model.score(t)[1:].mean() for t in ("Once upon a time", "zqxj kvw"))
        self.assertGreater(better, worse)
        with self.assertRaisesRegex(rlx.UnsupportedError, "embed"):
            self.model.embed("a")

    def test_adapters(self):
        """In the form of PEFT: one of zeros changes nothing, another does, alone as in company."""
        m, width = self.model, self.model.info.width

        def write(folder, amount):
            r = np.random.default_rng(5)
            name = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
            a = r.standard_normal((4, width), np.float32)
            b = amount * r.standard_normal((width, 4), np.float32)
            head = json.dumps({
                name + "A.weight": {"dtype": "F32", "shape": [4, width],
                                    "data_offsets": [0, a.nbytes]},
                name + "B.weight": {"dtype": "F32", "shape": [width, 4],
                                    "data_offsets": [a.nbytes, 2 * a.nbytes]}}).encode()
            with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
                file.write(len(head).to_bytes(8, "little") + head + a.tobytes() + b.tobytes())
            with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as file:
                json.dump({"peft_type": "LORA", "r": 4, "lora_alpha": 4,
                           "target_modules": ["q_proj"]}, file)
            return m.adapter(folder)

        plain = m.generate("Once", max_tokens=40).text
        with tempfile.TemporaryDirectory() as zeros, tempfile.TemporaryDirectory() as numbers:
            none, some = write(zeros, 0), write(numbers, 2)
        self.assertEqual((some.info.rank, some.info.products), (4, 1))
        self.assertEqual(m.generate("Once", max_tokens=40, adapter=none).text, plain)
        changed = m.generate("Once", max_tokens=40, adapter=some).text
        self.assertNotEqual(changed, plain)
        self.assertEqual(m.generate("Once", max_tokens=40).text, plain)
        with m.engine(sequences=4, adapters=[some]) as engine:
            runs = [engine.submit("Once", max_tokens=40, adapter=a) for a in (some, None)]
            self.assertEqual([r.text for r in runs], [changed, plain])
        with self.assertRaises(rlx.InvalidError):
            m.generate("Once", adapter="file")
        for context in m._contexts:
            context.use(None, 1.0)

    def test_completion(self):
        m = self.model
        messages = [{"role": "user", "content": [{"type": "text", "text": "A story"}]}]
        said = m.create_chat_completion(messages, max_tokens=8, temperature=0)
        chunks = list(m.create_chat_completion(messages, max_tokens=8, temperature=0, stream=True))
        deltas = [c["choices"][0]["delta"] for c in chunks]
        self.assertEqual("".join(d.get("content", "") for d in deltas),
                         said["choices"][0]["message"]["content"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(said["usage"]["completion_tokens"], 8)
        text = m("Once", max_tokens=5, temperature=0)["choices"][0]["text"]
        self.assertEqual(text, m.generate("Once", max_tokens=5).text)
        probs = m.create_chat_completion(messages, max_tokens=3, temperature=0, logprobs=True,
                                         top_logprobs=2)["choices"][0]["logprobs"]["content"]
        self.assertEqual([len(p["top_logprobs"]) for p in probs], [2, 2, 2])
        for bad in ([], "text", [{"role": "user"}], [{"content": "x"}]):
            with self.assertRaises(rlx.InvalidError):
                m.create_chat_completion(bad)

    def test_formats_and_tools(self):
        m = self.model
        messages = [{"role": "user", "content": "Weather in Oslo?"}]
        form = {"type": "json_schema", "json_schema": {"name": "r", "schema": {
            "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}}}
        said = m.create_chat_completion(messages, response_format=form, max_tokens=80, seed=1)
        self.assertEqual(list(json.loads(said["choices"][0]["message"]["content"])), ["ok"])
        tool = {"type": "function", "function": {"name": "weather", "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}},
            "required": ["city"]}}}
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            said = m.create_chat_completion(messages, tools=[tool], tool_choice=choice,
                                            max_tokens=80, seed=2)["choices"][0]
            self.assertEqual(said["finish_reason"], "tool_calls")
            call = said["message"]["tool_calls"][0]["function"]
            self.assertEqual(call["name"], "weather")
            self.assertIn(json.loads(call["arguments"])["city"], ("Oslo", "Rome"))
        chunks = list(m.create_chat_completion(messages, tools=[tool], tool_choice="required",
                                               max_tokens=80, seed=2, stream=True))
        self.assertEqual(chunks[-2]["choices"][0]["delta"]["tool_calls"][0]["function"], call)
        free = m.create_chat_completion(messages, tools=[tool], max_tokens=10, temperature=0)
        self.assertEqual(free["choices"][0]["finish_reason"], "length")


if __name__ == "__main__":
    unittest.main()
