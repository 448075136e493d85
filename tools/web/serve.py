#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Serves the demo page: web/ of the project, rlx.wasm of a build and the models of a folder, with
the types and headers that browsers want. Python's standard library only.

usage: serve.py [--build DIR] [--models DIR] [--port N] [--host ADDRESS] [--open]
"""
import argparse
import http.server
import json
import sys
import webbrowser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]

TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".json": "application/json", ".wasm": "application/wasm", ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json", ".txt": "text/plain; charset=utf-8",
}

# The page is on its own (needed for shared memory and precise clocks), and takes nothing from
# elsewhere: no other site is ever asked.
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class Site:
    """Which file a path of the site is."""

    def __init__(self, build, models, extra=None):
        self.build, self.models = Path(build), Path(models)
        self.folders = {"models": self.models, **(extra or {})}

    def find(self, path):
        """The file of a URL path; None when there is none or it lies outside."""
        parts = [part for part in path.split("/") if part]
        if any(part in (".", "..") or "\\" in part for part in parts):
            return None
        if parts and parts[0] in self.folders:
            file = self.folders[parts[0]].joinpath(*parts[1:])
        else:
            file = ROOT.joinpath("web", *parts)
        if parts and parts[-1].endswith(".wasm") and not file.is_file():
            file = self.build / parts[-1]  # beside rlx.mjs, wherever that is
        try:
            if file.is_dir():
                file = file / "index.html"
            return file if file.is_file() else None
        except (OSError, ValueError):  # a name that is too long, or with a zero byte
            return None

    def model_list(self):
        """The models there are: path under models/ and size."""
        wanted = {".gguf", ".safetensors"}
        if not self.models.is_dir():
            return []
        files = [f for f in sorted(self.models.rglob("*")) if f.suffix in wanted and f.is_file()]
        return [{"path": f.relative_to(self.models).as_posix(), "bytes": f.stat().st_size}
                for f in files]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site = None
    quiet = True
    timeout = 30  # seconds after which a client that says nothing is left

    def do_GET(self):
        self.answer(with_body=True)

    def do_HEAD(self):
        self.answer(with_body=False)

    def answer(self, with_body):
        try:
            path = unquote(urlsplit(self.path).path)
        except ValueError:  # "//[": no address at all
            return self.send(b"not an address\n", ".txt", with_body, status=400)
        if path == "/":
            return self.redirect("/demo/")
        if path == "/models/index.json":
            return self.send(json.dumps(self.site.model_list()).encode(), ".json", with_body)
        file = self.site.find(path)
        if not file:
            return self.send(b"not found\n", ".txt", with_body, status=404)
        if not path.endswith("/") and file.name == "index.html" and not path.endswith(".html"):
            return self.redirect("/" + "/".join(filter(None, path.split("/"))) + "/")
        return self.send_file(file, with_body)

    def redirect(self, to):
        self.send_response(302)
        query = self.path.partition("?")[2]  # ?load and ?device stay
        self.send_header("Location", quote(to) + (f"?{query}" if query else ""))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def start(self, length, suffix, status, tag=None):
        self.send_response(status)
        if tag:
            self.send_header("ETag", tag)
        self.send_header("Content-Type", TYPES.get(suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(length))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def send(self, body, suffix, with_body, status=200):
        self.start(len(body), suffix, status)
        if with_body:
            self.wfile.write(body)

    def send_file(self, file, with_body):
        facts = file.stat()
        tag = f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"'
        if self.headers.get("If-None-Match") == tag:
            return self.start(0, file.suffix, 304, tag)
        with file.open("rb") as data:
            self.start(facts.st_size, file.suffix, 200, tag)
            while with_body:
                chunk = data.read(1 << 20)
                if not chunk:
                    break
                self.wfile.write(chunk)

    def log_message(self, *args):
        if not self.quiet:
            super().log_message(*args)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # the browser went away
            super().handle_error(request, client_address)


def make_server(site, host="127.0.0.1", port=0, quiet=True):
    handler = type("SiteHandler", (Handler,), {"site": site, "quiet": quiet})
    return Server((host, port), handler)


def main():
    parser = argparse.ArgumentParser(description="serves the rlx demo page")
    parser.add_argument("--build", default=ROOT / "build-wasm", help="folder of rlx.wasm")
    parser.add_argument("--models", default=ROOT / ".cache" / "models", help="folder of models")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--verbose", action="store_true", help="print each request")
    options = parser.parse_args()
    site = Site(options.build, options.models)
    if not site.find("/rlx.wasm"):
        sys.exit(f"serve.py: there is no rlx.wasm in {options.build}; ./run web-demo builds it")
    try:
        server = make_server(site, options.host, options.port, quiet=not options.verbose)
    except OSError as error:
        sys.exit(f"serve.py: port {options.port}: {error.strerror}; choose another with --port")
    url = f"http://{options.host}:{server.server_port}/"
    print(f"The demo page is at {url} (Ctrl+C ends)", flush=True)
    if options.open:
        webbrowser.open(url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
