#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokens a second in a headless Chromium, on the CPU: rlx with and without threads and relaxed
SIMD, and wllama (llama.cpp as WebAssembly), with the same file and the same number of threads, in
turn. Nothing is fetched but the package of wllama, pinned, when it is not there. Each number is
the best of its runs: other processes only make them worse.

usage: bench/web.py [--build DIR] [--model FILE] [--threads LIST] [--runs N] [--rounds N] [--json]
"""
import argparse
import http.server
import json
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools/web"), str(ROOT / "tests/web")]
import serve  # noqa: E402
from browser import Browser, find_browser  # noqa: E402

CACHE = ROOT / ".cache"


def get_wllama():
    """The folder of its modules; None when it cannot be had."""
    folder = CACHE / "wllama"
    if not (folder / "package/esm/index.js").exists():
        done = subprocess.run(["sh", ROOT / "tools/fetch/get.sh", folder, "@wllama/wllama"],
                              check=False)
        if done.returncode:
            return None
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
    return folder / "package/esm"


def start_server(build, model, wllama):
    site = serve.Site(build, model.parent, {"bench": ROOT / "bench/peers", "wllama": wllama}
                      if wllama else {"bench": ROOT / "bench/peers"})
    handler = type("BenchHandler", (serve.Handler,), {"site": site})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def measure(url, options):
    with Browser(find_browser(), gpu=False) as browser:
        browser.open(url + "/bench/web.html")
        answer = browser.evaluate(
            f"import('/bench/web.mjs').then(m => m.measure({json.dumps(options)}))", timeout=300)
    return answer


def best(results):
    """Tokens a second: of the prompt, after it."""
    return (max(r["promptTokens"] / r["promptSeconds"] for r in results),
            max(r["tokens"] / r["seconds"] for r in results))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build-wasm")
    parser.add_argument("--model", type=Path,
                        default=CACHE / "models/smollm2-135m-instruct.gguf")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not find_browser():
        sys.exit("web.py: there is no Chromium")
    wllama = get_wllama()
    server = start_server(options.build, options.model, wllama)
    url = f"http://127.0.0.1:{server.server_port}"
    common = {"model": f"/models/{options.model.name}", "tokens": options.tokens,
              "runs": options.runs}
    cases = [("rlx.wasm", {"engine": "rlx", "single": True, "threads": 1})]
    for n in map(int, options.threads.split(",")):
        for policy in "auto", "exact":
            cases.append((f"rlx-threads.wasm, {policy}, {n}",
                          {"engine": "rlx", "threads": n, "policy": policy}))
        if wllama:
            cases.append((f"wllama, {n}", {"engine": "wllama", "threads": n}))
    found = {name: [] for name, _ in cases}
    for _ in range(options.rounds):
        for name, case in cases:
            found[name] += measure(url, {**common, **case})["results"]
    if options.json:
        return print(json.dumps(found, indent=1))
    print(f"{'':28} {'prompt':>9} {'after it':>9}  tokens/s")
    for name, results in found.items():
        print(f"{name:28} {best(results)[0]:9.1f} {best(results)[1]:9.1f}")


if __name__ == "__main__":
    main()
