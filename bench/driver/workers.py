# SPDX-License-Identifier: MIT
"""Workers: programs that hold a case open and measure it when asked. One is started for each peer
and number of threads, when it is first needed, and lives until the end. Requests are lines of
words, answers are lines of JSON (see tools/rlx/bench_pipe.c)."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PEERS_DIR = Path(__file__).resolve().parent.parent / "peers"
SHOWN = {"rlx": "rlx", "numpy": "NumPy", "onnxruntime": "ONNX Runtime", "torch": "PyTorch",
         "llama.cpp": "llama.cpp"}
PEERS = ("numpy", "onnxruntime", "torch", "llama.cpp")


class WorkerError(Exception):
    """The worker cannot do what it was asked for; `unsupported` when it was never meant to."""

    def __init__(self, text, unsupported=False):
        super().__init__(text)
        self.unsupported = unsupported


class Worker:
    def __init__(self, name, command, env):
        self.name, self.log = name, tempfile.TemporaryFile("w+", encoding="utf-8")
        try:
            self.process = subprocess.Popen(command, env={**os.environ, **env}, text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.log)
        except OSError as why:
            raise WorkerError(f"{command[0]}: {why.strerror}") from why
        self.hello = self.read()

    def complaint(self):
        """The last line that the worker wrote to its standard error."""
        self.log.flush()
        self.log.seek(0)
        lines = [line.strip() for line in self.log.read().splitlines() if line.strip()]
        return lines[-1] if lines else "it ended without a word"

    def read(self):
        line = self.process.stdout.readline()
        try:
            reply = json.loads(line)
        except ValueError:
            raise WorkerError(self.complaint() if not line else f"answered {line!r}") from None
        if "error" in reply:
            raise WorkerError(reply["error"], reply.get("unsupported", False))
        return reply

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except OSError:
            raise WorkerError(self.complaint()) from None
        return self.read()

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def worker_command(name, threads, options):
    """The program of a worker and what its environment needs; None when the peer is not there."""
    env = {"RLX_BENCH_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
           "OMP_NUM_THREADS": str(threads)}
    if options.self_test:
        fake = Path(__file__).resolve().parent / "fake_worker.py"
        return [sys.executable, str(fake), name, str(threads)], env
    if name == "rlx":
        command = [options.rlx, "bench", "--pipe", "--device", options.device]
        return command + (["--threads", str(threads)] if options.device == "cpu" else []), env
    if name == "llama.cpp":
        if not options.llama:
            return None, env
        backend = "CPU" if options.device == "cpu" else "Vulkan0"
        return [str(Path(options.llama) / "lib" / "llama_bench"), "--backend", backend, "--threads",
                str(threads)], env
    script = {"numpy": "numpy_peer.py", "onnxruntime": "onnx_peer.py",
              "torch": "torch_peer.py"}[name]
    command = [sys.executable, str(PEERS_DIR / script)]
    if name == "onnxruntime" and options.device != "cpu":
        env["RLX_BENCH_PROVIDER"] = "CUDA"
    if name == "torch":
        command.append("cpu" if options.device == "cpu" else "cuda")
    return command, env


class Pool:
    """The workers of a run, by peer and number of threads."""

    def __init__(self, options):
        self.options, self.workers, self.missing = options, {}, {}

    def get(self, name, threads):
        """The worker, or None when the peer cannot be started (self.missing says why)."""
        if name in self.missing:
            return None
        if (name, threads) not in self.workers:
            command, env = worker_command(name, threads, self.options)
            try:
                if not command:
                    raise WorkerError("not asked for (--llama DIR)")
                self.workers[name, threads] = Worker(name, command, env)
            except WorkerError as why:
                self.missing[name] = str(why)
                return None
        return self.workers[name, threads]

    def drop(self, name, threads):
        """Forgets a worker that failed, so that the next case gets a new one."""
        worker = self.workers.pop((name, threads), None)
        if worker:
            worker.stop()

    def versions(self):
        found = {}
        for (name, _), worker in self.workers.items():
            found[name] = {k: v for k, v in worker.hello.items() if k != "name"}
        return found

    def stop(self):
        for worker in self.workers.values():
            worker.stop()
        self.workers.clear()
