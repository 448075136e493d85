#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The whole op suite on a slow device, in pieces that can be interrupted and resumed.

usage: op_suite.py cpu|webgpu|native RESULTS [--optest FILE] [--chunk N] [--stall S] [--summary]

cpu and webgpu run optest.wasm in a headless Chromium, native runs a native optest on WebGPU (the
library and driver are those of the environment). RESULTS gets one JSON line a case: its number,
text, result (pass, fail, skip, timeout, crash), seconds and what was said. Cases that are in it
are not run again; delete lines to repeat them. A case without an answer for S seconds has timed
out, and the rest goes on in a fresh process.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import wasm
from browser import Browser, BrowserError, find_browser

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools" / "web"))
import serve  # noqa: E402  the server of the demo

OPTIONS = ["--json", "--allow-unsupported", "--jobs", "1"]


class Native:
    """A native optest; its lines come with the time of their arrival."""

    def __init__(self, optest, first, end):
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [optest, "--device", "webgpu", *OPTIONS, "--range", f"{first}:{end}"],
            stdout=self.output, stderr=subprocess.STDOUT)
        self.at = 0

    def take(self):
        """New text with its time in seconds; None at the end."""
        ended = self.process.poll() is not None
        self.output.seek(self.at)
        data = self.output.read()
        self.output.seek(0, os.SEEK_END)
        self.at += len(data)
        if ended and not data:
            return None
        return [(data.decode(), time.monotonic())] if data else []

    def close(self):
        self.process.kill()
        self.process.wait()
        self.output.close()


class InBrowser:
    """optest.wasm in a worker of a page."""

    def __init__(self, base, device, first, end):
        self.browser = Browser(find_browser())
        self.browser.open(f"{base}/tests/page.html")
        self.ended = False
        self.call("startOpCases", device, [*OPTIONS, "--range", f"{first}:{end}"])

    def call(self, function, *args):
        arguments = ", ".join(json.dumps(arg) for arg in args)
        return self.browser.evaluate(
            f"import('/tests/page.mjs').then(m => m.{function}({arguments}))", timeout=120)

    def take(self):
        if self.ended:
            return None
        news = self.call("takeOpCases")
        for item in news:
            if "text" not in item:
                self.ended = True
                if "error" in item:
                    raise BrowserError(item["error"])
        return [(item["text"], item["at"] / 1e3) for item in news if "text" in item]

    def close(self):
        self.browser.__exit__()


def count_cases(optest):
    done = subprocess.run([optest, "--count"], capture_output=True, text=True, check=True)
    return int(done.stdout)


def read_results(path):
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as file:
        return {row["i"]: row for row in map(json.loads, file)}


def missing_range(results, total, chunk):
    first = next((i for i in range(total) if i not in results), None)
    if first is None:
        return None
    end = first + 1
    while end < min(total, first + chunk) and end not in results:
        end += 1
    return first, end


def complete_rows(text):
    """The rows of optest's JSON that are whole, and what is left."""
    rows = []
    while True:
        found = re.match(r'[\[\s,\]]*(\{"case": .*?\})(?=,?\n|$)', text)
        if not found:
            return rows, text
        try:
            rows.append(json.loads(found[1]))
        except json.JSONDecodeError:
            return rows, text
        text = text[found.end():]


def run_range(make, first, end, stall, note):
    """Runs cases until the end, a stall or a crash; gives what went wrong, or None."""
    run = make(first, end)
    text, at, last, moved = "", first, None, time.monotonic()
    try:
        while True:
            news = run.take()
            if news is None:
                return None if at >= end else (at, "crash", text.strip()[-300:])
            for piece, when in news:
                text += piece
                rows, text = complete_rows(text)
                last = when if last is None else last
                for row in rows:
                    note({"i": at, "seconds": round(when - last, 3), **row})
                    at, last, moved = at + 1, when, time.monotonic()
            if at >= end:
                return None
            if time.monotonic() - moved > stall:
                return at, "timeout", f"no answer in {stall} s"
            time.sleep(0.2)
    except BrowserError as error:
        return at, "crash", str(error)[-300:]
    finally:
        run.close()


def summarise(results):
    kinds = collections.Counter(row["result"] for row in results.values())
    families = collections.defaultdict(collections.Counter)
    for row in results.values():
        families[row.get("family", "unknown")][row["result"]] += 1
    for family, counts in families.items():
        print(f"{family:12}", ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    reasons = collections.Counter(
        re.sub(r"'[^']*'|\d+", "*", row.get("error", "").split("\n")[0])
        for row in results.values() if row["result"] == "skip")
    for reason, n in reasons.most_common():
        print(f"skipped {n}: {reason}")
    for row in results.values():
        if row["result"] not in ("pass", "skip"):
            print(f"{row['result']} {row['i']} {row.get('case', '')}: {row.get('error', '')}")
    print(f"{len(results)} cases:", ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()))
    return kinds["fail"] + kinds["timeout"] + kinds["crash"]


def start_site():
    server = serve.make_server(serve.Site(wasm.build(), wasm.SOURCE, {
        "tests": HERE, "web": wasm.SOURCE / "web"}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main():
    parser = argparse.ArgumentParser(description="the op suite on a slow device, resumable")
    parser.add_argument("device", choices=["cpu", "webgpu", "native"])
    parser.add_argument("results", type=Path)
    parser.add_argument("--optest", default=wasm.SOURCE / "build" / "tests" / "optest")
    parser.add_argument("--chunk", type=int, default=500, help="cases a process")
    parser.add_argument("--stall", type=float, default=120, help="seconds a case may take")
    parser.add_argument("--summary", action="store_true", help="only tell what is in RESULTS")
    options = parser.parse_args()
    results = read_results(options.results)
    if options.summary:
        return 1 if summarise(results) else 0
    if options.device == "native":
        def make(first, end):
            return Native(options.optest, first, end)
    else:
        base = start_site()

        def make(first, end):
            return InBrowser(base, options.device, first, end)

    with options.results.open("a", encoding="utf-8") as file:
        def note(row):
            results[row["i"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()

        total = count_cases(options.optest)
        while part := missing_range(results, total, options.chunk):
            problem = run_range(make, *part, options.stall, note)
            if problem:
                i, kind, text = problem
                note({"i": i, "result": kind, "error": text})
    return 1 if summarise(results) else 0


if __name__ == "__main__":
    sys.exit(main())
