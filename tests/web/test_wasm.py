#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library in WebAssembly under node: a share of the op cases on the CPU device, the JavaScript
API, and the size of the module."""
import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import wasm

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))
from share import optest_share  # noqa: E402

MAX_GZIP = 12 << 17  # bytes of rlx.wasm as a server sends it: a budget


def check_version():
    header = (wasm.SOURCE / "include/rlx/base.h").read_text(encoding="utf-8")
    version = ".".join(re.findall(r"#define RLX_VERSION_\w+ (\d+)", header))
    package = json.loads((wasm.SOURCE / "web/package.json").read_text(encoding="utf-8"))
    if package["version"] != version:
        print(f"FAIL web/package.json has version {package['version']}, not {version}")
    return package["version"] == version


def read_block(page, word):
    """The block of JavaScript of a page that has this word in it."""
    text = (wasm.SOURCE / page).read_text(encoding="utf-8")
    return next(b for b in re.findall(r"^```js\n(.*?)^```$", text, re.M | re.S) if word in b)


def check_docs(build):
    """The program of docs/web.md for node tells the story of docs/models.md."""
    code = read_block("docs/web.md", "node:fs")
    places = {"./web/rlx.mjs": wasm.SOURCE / "web/rlx.mjs",
              "build-wasm/rlx.wasm": build / "rlx.wasm",
              "models/tiny-stories.gguf": wasm.SOURCE / "models/tiny-stories.gguf"}
    for name, place in places.items():
        if f"'{name}'" not in code:
            print(f"FAIL docs/web.md does not name '{name}'")
            return False
        code = code.replace(f"'{name}'", json.dumps(str(place)))
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "docs.mjs"
        script.write_text(code + "console.log(text);\n", encoding="utf-8")
        done = subprocess.run(["node", str(script)], capture_output=True, text=True, check=False)
    story = (wasm.SOURCE / "docs/models.md").read_text(encoding="utf-8").split()
    told = done.stdout.split()
    ok = done.returncode == 0 and not done.stderr and len(told) > 30 and \
        any(story[i:i + len(told)] == told for i in range(len(story)))
    print(f"{'ok  ' if ok else 'FAIL'} the program of docs/web.md: {done.stdout}{done.stderr}")
    return ok


# Node 20 has relaxed SIMD behind a flag, later ones without; 18 has an older form of it.
RELAXED = "--experimental-wasm-relaxed-simd"
CAN_RUN_THREADS = """import(process.argv[1])
    .then(m => process.exit(m.canRunThreadsModule() ? 0 : 1))"""


def threads_flags():
    """The options under which node runs rlx-threads.wasm; None when it cannot."""
    module = (wasm.SOURCE / "web/lib/threads.mjs").as_uri()
    for flags in [], [RELAXED]:
        if subprocess.run(["node", *flags, "-e", CAN_RUN_THREADS, module], capture_output=True,
                          check=False).returncode == 0:
            return flags
    return None


def check_threads(build):
    flags = threads_flags()
    if flags is None:
        print("skipped: this node cannot run rlx-threads.wasm: it has no relaxed SIMD")
        return True
    modules = build / "rlx.wasm", build / "rlx-threads.wasm"
    return node("api_node.mjs", *modules, flags=flags) == 0


def node(script, *args, flags=()):
    command = [shutil.which("node"), *flags, HERE / script, *args]
    return subprocess.run([str(part) for part in command], check=False).returncode


def main():
    if not shutil.which("node"):
        wasm.skip("node is missing; apt-get install nodejs")
    build = wasm.build()
    data = (build / "rlx.wasm").read_bytes()
    packed = len(gzip.compress(data, 9))
    print(f"rlx.wasm: {len(data)} bytes, {packed} compressed, at most {MAX_GZIP}")
    failed = packed > MAX_GZIP or not check_version()
    failed |= node("api_node.mjs", build / "rlx.wasm") != 0
    failed |= not check_docs(build)
    failed |= node("optest_node.mjs", build / "optest.wasm", "--device", "cpu",
                   *optest_share(16)) != 0
    failed |= not check_threads(build)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
