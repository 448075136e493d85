# SPDX-License-Identifier: MIT
"""A headless Chromium, driven over its debugging pipe. Standard library only."""
import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from select import select

NAMES = "chromium chromium-browser google-chrome google-chrome-stable chrome".split()
FLAGS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu-sandbox",
         "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe"]
# Headless, only the first gives an adapter: SwiftShader. It writes the initial zeros of workgroup
# memory as one store each, nine tenths of the time of compiling a product; Dawn writes a loop.
GPU_FLAGS = ["--enable-unsafe-webgpu",
             "--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension"]


def find_browser():
    return os.environ.get("RLX_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class BrowserError(Exception):
    pass


class Browser:
    """One page of one browser, which ends with the `with` block."""

    def __init__(self, program, gpu=True):
        self.profile = tempfile.mkdtemp(prefix="rlx-browser-")
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        wrapper = ["sh", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "sh"]
        self.process = subprocess.Popen(
            [*wrapper, program, *FLAGS, *(GPU_FLAGS if gpu else []),
             f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.pending, self.last_id, self.session, self.console = b"", 0, None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"],
                                 flatten=True)["sessionId"]
        for domain in "Page Runtime".split():
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        os.close(self.into)
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        shutil.rmtree(self.profile, ignore_errors=True)

    # ---- Messages --------------------------------------------------------------------------------

    def _read(self, deadline):
        while b"\0" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select([self.into], [], [], left)[0]:
                raise BrowserError("the browser does not answer in time")
            data = os.read(self.into, 1 << 20)
            if not data:
                raise BrowserError("the browser has ended")
            self.pending += data
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, timeout=60, **params):
        self.last_id += 1
        request = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        if event.get("method") == "Runtime.consoleAPICalled":
            values = [str(a.get("value", a.get("description"))) for a in event["params"]["args"]]
            self.console.append(" ".join(values))
        elif event.get("method") == "Runtime.exceptionThrown":
            self.console.append("exception: " + describe(event["params"]["exceptionDetails"]))

    # ---- The page --------------------------------------------------------------------------------

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def evaluate(self, expression, timeout=60):
        """The value of an expression, after its promise if it is one."""
        result = self.call("Runtime.evaluate", timeout=timeout, expression=expression,
                           awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            raise BrowserError(describe(result["exceptionDetails"]))
        return result["result"].get("value")

    def wait_for(self, condition, timeout=60):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                if self.evaluate(f"Boolean({condition})"):
                    return
            except BrowserError as error:
                if "ended" in str(error):
                    raise
            time.sleep(0.1)
        logged = "; ".join(self.console) or "nothing was logged"
        raise BrowserError(f"it did not become true in {timeout} s: {condition} ({logged})")

    def resize(self, width, height, scale=1, dark=False, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))


def describe(details):
    return details.get("exception", {}).get("description") or details.get("text", "an exception")
