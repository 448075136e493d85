# SPDX-License-Identifier: MIT
"""Helpers of the tests of the server: starting one, and requests by plain http.client."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from checks import check, failures, finish  # noqa: E402,F401

TOOL = os.environ.get("RLX_TOOL", "build/rlx")
SOURCE = Path(os.environ.get("RLX_SOURCE_DIR", Path(__file__).resolve().parents[2]))
MODEL = SOURCE / "models" / "tiny-stories.gguf"
SCRATCH = tempfile.TemporaryDirectory(prefix="rlx-serve-")
TMP = Path(SCRATCH.name)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def skip_without_server():
    if not os.access(TOOL, os.X_OK):
        skip(f"no {TOOL}")
    r = subprocess.run([TOOL, "serve", "x"], capture_output=True, text=True)
    if "without libmicrohttpd" in r.stderr:
        skip("rlx was built without libmicrohttpd")


class Server:
    """`rlx serve` on a free port; ends with the `with` block, by SIGTERM and status 0."""

    def __init__(self, *args, models=(MODEL,), device="cpu"):
        self.log = tempfile.TemporaryFile("w+")
        port = [] if "--unix" in args else ["--port", "0"]
        self.process = subprocess.Popen(
            [TOOL, "serve", *map(str, models), "--device", device, "--threads", "1", *port,
             *map(str, args)], stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening on (http://([\w.:\[\]]+):(\d+)|unix:(.*))\n", line)
        if not found:
            self.process.kill()
            self.log.seek(0)
            raise RuntimeError(f"no server: {line!r} {self.log.read()}")
        self.url, self.host = found.group(1), found.group(2)
        self.port = int(found.group(3) or 0)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        status = self.stop()
        check(status in (-signal.SIGTERM, -signal.SIGINT),
              f"the server ended with {status}: {self.messages()}")
        check("Sanitizer" not in self.messages(), self.messages())

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    def messages(self):
        self.log.seek(0)
        return self.log.read()

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """(status, headers, body), the body as JSON where it is."""
        c = connection or self.connect()
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        c.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        r = c.getresponse()
        text = r.read()
        if not connection:
            c.close()
        is_json = r.headers.get("Content-Type", "").startswith("application/json")
        if is_json and text:
            return r.status, r.headers, json.loads(text)
        return r.status, r.headers, text.decode()

    def post(self, path, body, status=200, **how):
        got, _, answer = self.ask("POST", path, body, **how)
        check(got == status, f"POST {path} {str(body)[:300]}: {got}, expected {status}: {answer}")
        return answer

    def stream(self, path, body):
        """The events of a stream, each as JSON; the last one must be [DONE]."""
        got, headers, text = self.ask("POST", path, {**body, "stream": True})
        check(got == 200 and headers["Content-Type"] == "text/event-stream",
              f"POST {path} {body}: {got} {text}")
        events = [e[6:] for e in text.split("\n\n") if e]
        check(all(e.startswith("data: ") for e in text.split("\n\n") if e), "form of events")
        check(events and events[-1] == "[DONE]", f"POST {path}: no end: {text[-300:]}")
        return [json.loads(e) for e in events[:-1]]

    def metrics(self):
        _, _, text = self.ask("GET", "/metrics")
        return {k: float(v) for k, v in re.findall(r"^(rlx_\w+(?:\{[^}]*\})?) (\S+)$", text, re.M)}
