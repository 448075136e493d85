#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Has the Tint of a headless Chromium judge a share of the WGSL texts that wgsl_suite writes: a
page makes a shader module of each and posts what getCompilationInfo says.

usage: tint.py WGSL_SUITE

Exit status 77: there is no Chromium, or it gives no WebGPU device.
"""
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from share import share  # noqa: E402

BROWSERS = "chromium chromium-browser google-chrome".split()
SECONDS = 800
SHOWN = 20

PAGE = """<!doctype html><title>rlx: WGSL texts</title><script type="module">
const result = {judged: 0, left_out: 0, refused: [], skipped: ""};
async function judge(device, name, text) {
    const info = await device.createShaderModule({code: text}).getCompilationInfo();
    const errors = info.messages.filter(m => m.type === "error");
    if (errors.length)
        result.refused.push(name + ": line " + errors[0].lineNum + ": " + errors[0].message);
    result.judged++;
}
async function main() {
    const adapter = await navigator.gpu?.requestAdapter();
    if (!adapter) { result.skipped = "no WebGPU adapter"; return; }
    const features = ["shader-f16", "subgroups"].filter(f => adapter.features.has(f));
    const device = await adapter.requestDevice({requiredFeatures: features});
    device.pushErrorScope("validation");
    const parts = (await (await fetch("suite.txt")).text()).split("@@ ").slice(1);
    let waiting = [];
    for (const part of parts) {
        const end = part.indexOf("\\n"), text = part.slice(end + 1);
        if ((text.includes("enable subgroups;") && !features.includes("subgroups")) ||
            (text.includes("enable f16;") && !features.includes("shader-f16"))) {
            result.left_out++;
            continue;
        }
        waiting.push(judge(device, part.slice(0, end), text));
        if (waiting.length === 64) { await Promise.all(waiting); waiting = []; }
    }
    await Promise.all(waiting);
    const before = result.refused.length;
    await judge(device, "wrong", "fn main( { }");
    if (result.refused.length === before) throw new Error("a text that is wrong is accepted");
    result.refused.pop();
    result.judged--;
}
main().catch(e => { result.error = String(e); })
      .then(() => fetch("result", {method: "POST", body: JSON.stringify(result)}));
</script>"""


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the page and the texts, takes the result."""
    suite, done, result = b"", threading.Event(), {}

    def do_GET(self):
        body = Handler.suite if self.path == "/suite.txt" else PAGE.encode()
        self.send_response(200 if self.path in ("/", "/suite.txt") else 404)
        self.send_header("Content-Type", "text/plain" if self.path == "/suite.txt"
                         else "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        Handler.result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        Handler.done.set()

    def log_message(self, *args):
        pass


def browse(browser, port):
    """True when the page has posted its result."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [browser, "--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
             "--enable-unsafe-webgpu", f"--user-data-dir={profile}",
             f"http://127.0.0.1:{port}/"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        in_time = Handler.done.wait(SECONDS)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    return in_time


def main():
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print("skipped: no Chromium is installed")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "suite.txt")
        subprocess.run([sys.argv[1], "--tint", file], check=False, stdout=subprocess.DEVNULL)
        every, first = share(6)
        texts = Path(file).read_bytes().split(b"@@ ")[1:]
        Handler.suite = b"".join(b"@@ " + text for text in texts[first::every])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if not browse(browser, server.server_port):
        print(f"FAIL: no answer from {browser} within {SECONDS} s")
        return 1
    result = Handler.result
    if result.get("skipped"):
        print(f"skipped: {browser}: {result['skipped']}")
        return 77
    for text in result["refused"][:SHOWN]:
        print(f"FAIL {text}")
    if result.get("error"):
        print(f"FAIL: {result['error']}")
    print(f"{result['judged']} texts judged by {browser}, {len(result['refused'])} refused, "
          f"{result['left_out']} left out for want of a feature")
    return 1 if result["refused"] or result.get("error") or not result["judged"] else 0


if __name__ == "__main__":
    sys.exit(main())
