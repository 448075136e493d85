#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The npm package as it is installed from its tarball: under node, in a headless Chromium by an
import map, the examples compiled by `tsc --strict`, and the same bytes when it is packed again."""
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(SOURCE / "tests/web"))
import wasm  # noqa: E402
from browser import Browser, find_browser  # noqa: E402

failures = []


def report(name, ok, text=""):
    print(f"{'ok  ' if ok else 'FAIL'} {name}{': ' + text if text else ''}", flush=True)
    if not ok:
        failures.append(name)


def pack(folder):
    done = subprocess.run([sys.executable, SOURCE / "tools/dist/npm.py", wasm.build(), folder],
                          check=True, capture_output=True, text=True)
    return Path(done.stdout.strip())


def install(folder):
    """node_modules as npm would leave it."""
    first, again = pack(folder / "1"), pack(folder / "2")
    report("packed again it has the same bytes", first.read_bytes() == again.read_bytes())
    modules = folder / "node_modules"
    modules.mkdir()
    with tarfile.open(first) as archive:
        archive.extractall(modules)
    (modules / "package").rename(modules / "rlx")


def check_node(folder):
    node = shutil.which("node")
    if not node:
        print("skip node: it is missing; apt-get install nodejs")
        return
    shutil.copy(HERE / "package_checks.mjs", folder)
    shutil.copy(SOURCE / "models/tiny-stories.gguf", folder)
    (folder / "main.mjs").write_text("""
import { init } from 'rlx';
import { checkPackage } from './package_checks.mjs';
const { count, failures } = await checkPackage(init, 'tiny-stories.gguf');
console.log(failures.join('\\n') || `${count} checks passed`);
process.exitCode = failures.length ? 1 : 0;
""", encoding="utf-8")
    done = subprocess.run([node, "main.mjs"], cwd=folder, capture_output=True, text=True,
                          check=False)
    report("node", done.returncode == 0 and not done.stderr, done.stdout.strip() + done.stderr)


def check_types(folder):
    """The examples under tsc --strict, for bundlers and for node; then they run under node."""
    if subprocess.run(["sh", SOURCE / "tools/fetch/get.sh", folder / "tsc", "typescript"],
                      check=False).returncode or not shutil.which("node"):
        print("skip tsc: TypeScript cannot be fetched, or there is no node")
        return
    with tarfile.open(next((folder / "tsc").glob("*.tgz"))) as archive:
        archive.extractall(folder / "tsc")
    for path in (SOURCE / "examples/npm").glob("*.ts"):
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    for module, resolution in (("esnext", "bundler"), ("nodenext", "nodenext")):
        (folder / "tsconfig.json").write_text(json.dumps({
            "compilerOptions": {
                "strict": True, "target": "es2022", "lib": ["es2022", "dom"], "types": [],
                "module": module, "moduleResolution": resolution},
            "files": [p.name for p in folder.glob("*.ts")]}), encoding="utf-8")
        done = subprocess.run(["node", folder / "tsc/package/bin/tsc", "-p", "."], cwd=folder,
                              capture_output=True, text=True, check=False)
        report(f"tsc --strict, {resolution}", done.returncode == 0, done.stdout.strip())
    (folder / "run.mjs").write_text("""
import { main } from './story.js';
import { distances } from './graph.js';
let text = '';
await main('tiny-stories.gguf', piece => { text += piece; });
console.log(JSON.stringify({ text, distances: await distances([3, 4, 0, 0, 6, 8], [0, 0]) }));
""", encoding="utf-8")
    done = subprocess.run(["node", "run.mjs"], cwd=folder, capture_output=True, text=True,
                          check=False)
    said = json.loads(done.stdout) if done.returncode == 0 else {}
    report("the examples run", len(said.get("text", "")) > 30
           and said["distances"] == [5, 0, 10], done.stderr)


PAGE = """<!doctype html><script type="importmap">
{"imports": {"rlx": "/node_modules/rlx/rlx.mjs"}}</script>
<script type="module">
import { init } from 'rlx';
import { checkPackage } from '/package_checks.mjs';
checkPackage(init, '/tiny-stories.gguf').then(r => { window.result = r; },
    error => { window.result = { failures: [error.stack] }; });
</script>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map,
                      ".mjs": "text/javascript", ".wasm": "application/wasm"}

    def log_message(self, *_):
        pass


def check_browser(folder):
    program = find_browser()
    if not program:
        print("skip Chromium: it is missing; apt-get install chromium")
        return
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Browser(program, gpu=False) as page:
        page.open(f"http://127.0.0.1:{server.server_address[1]}/page.html")
        page.wait_for("window.result", 120)
        result = page.evaluate("window.result")
    server.shutdown()
    report("Chromium", not result["failures"], "; ".join(result["failures"]))


def check_worker():
    """The service worker of the demo keeps all files of the module, or the page fails offline."""
    text = (SOURCE / "web/sw.js").read_text(encoding="utf-8")
    missing = [p.name for p in (SOURCE / "web/lib").glob("*.mjs")
               if f"'lib/{p.name}'" not in text]
    report("web/sw.js names all files of web/lib", not missing, " ".join(missing))


def main():
    os.environ.pop("NODE_OPTIONS", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(folder)
        check_worker()
        check_node(folder)
        check_types(folder)
        check_browser(folder)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
