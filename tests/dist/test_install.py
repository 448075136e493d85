#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds all packages twice, in different folders, which must give the same bytes; then installs
each in a bare Debian and uses it: the static program where there is nothing else at all, the
archive, the Debian packages with a program in C, the wheel, the npm package.

RLX_DIST=DIR takes packages that are built already. Needs root, debootstrap and the network."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools/dist"))
sys.dont_write_bytecode = True
from common import so_version, version  # noqa: E402

SKIP = 77
MODEL = SOURCE / "models/tiny-stories.gguf"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
failures = []


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def report(name, ok, text=""):
    print(f"{'ok  ' if ok else 'FAIL'} {name} {text if not ok else ''}".rstrip(), flush=True)
    if not ok:
        failures.append(name)


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          **options)


# ---- Building ------------------------------------------------------------------------------------


def build(folder):
    """`./run dist` in a copy of the tree."""
    tracked = run("git", "-C", SOURCE, "ls-files", "-z").stdout.split("\0")[:-1]
    for name in tracked:
        if (SOURCE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, folder / name)
    done = run("./run", "dist", cwd=folder, env={**os.environ, "SOURCE_DATE_EPOCH": "1760000000"})
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-4000:])
        sys.exit("./run dist failed")
    return folder / "dist"


def build_twice(folder):
    (folder / "one").mkdir()
    (folder / "another-place").mkdir()
    first, second = build(folder / "one"), build(folder / "another-place")
    sums = [(d / "SHA256SUMS").read_text(encoding="utf-8") for d in (first, second)]
    report("two builds give the same bytes", sums[0] == sums[1], "\n" + "\n".join(sums))
    return first


# ---- A bare Debian -------------------------------------------------------------------------------


class Bare:
    """A chroot of the smallest Debian."""

    def __init__(self, root):
        self.root = root
        sources = run("sh", "-c", "cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list")
        lines = [s for s in sources.stdout.splitlines() if s.startswith(("URIs:", "deb "))]
        uri = next((word for line in lines for word in line.split()
                    if word.startswith(("http:", "https:"))), "http://deb.debian.org/debian")
        done = run("debootstrap", "--variant=minbase", "bookworm", root, uri)
        if done.returncode:
            skip(f"debootstrap failed: {done.stdout[-300:]}{done.stderr[-300:]}")
        for name in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copy(name, f"{root}{name}")
        os.makedirs(f"{root}/etc/ssl/certs", exist_ok=True)
        shutil.copy(CERTIFICATES, f"{root}/etc/ssl/host.crt")
        run("mount", "-t", "proc", "proc", f"{root}/proc")

    def run(self, command):
        return run("chroot", self.root, "env", "-i", "HOME=/root", f"PATH={PATH}",
                   "DEBIAN_FRONTEND=noninteractive", "SSL_CERT_FILE=/etc/ssl/host.crt",
                   "sh", "-c", f"cd /root && {command}")

    def check(self, name, command, words):
        done = self.run(command)
        said = done.stdout + done.stderr
        report(name, done.returncode == 0 and all(w in said for w in words), said[-1500:])

    def close(self):
        run("umount", f"{self.root}/proc")


TELL = "generate -m tiny-stories.gguf --device cpu -n 30 -p 'Once upon a time'"
STORY = "there was a"
PROGRAM = r"""
#include <rlx/rlx.h>
#include <stdio.h>
int main(void)
{
    rlx_graph *g = rlx_graph_create("g");
    rlx_dim n = 2;
    float x[2] = {1, 2}, y[2];
    rlx_device *d;
    rlx_session *s;
    rlx_value v = rlx_input(g, "x", RLX_F32, 1, &n);
    rlx_output(g, "y", rlx_add(g, v, v));
    rlx_const_tensor in = {"x", x, sizeof x};
    rlx_tensor out = {"y", y, sizeof y};
    if (rlx_device_open("cpu", NULL, &d, NULL) || rlx_session_create(d, g, NULL, &s, NULL) ||
        rlx_run(s, &in, 1, &out, 1, NULL))
        return 1;
    printf("%g %g\n", y[0], y[1]);
    return 0;
}
"""


def check_static(dist, folder, arch):
    """In a folder with no C library, no shell, nothing."""
    root = folder / "nothing"
    root.mkdir()
    run("tar", "xzf", dist / f"rlx-{version()}-linux-{arch}-static.tar.gz", "-C", root,
        "--strip-components=1")
    shutil.copy(MODEL, root)
    done = run("chroot", root, "/rlx", *TELL.replace("'Once upon a time'", "Once").split())
    report("the static program in an empty root", done.returncode == 0 and len(done.stdout) > 20,
           done.stdout + done.stderr)


def check_bare(dist, bare, arch):
    name = f"rlx-{version()}-linux-{arch}"
    for path in dist.iterdir():
        shutil.copy(path, f"{bare.root}/root/")
    shutil.copy(MODEL, f"{bare.root}/root/")
    Path(f"{bare.root}/root/program.c").write_text(PROGRAM, encoding="utf-8")
    bare.check("sums", "sha256sum -c SHA256SUMS", ["OK"])
    bare.check("the archive", f"tar xzf {name}.tar.gz && {name}/bin/rlx {TELL}", [STORY])
    bare.check("rlx pull without libcurl says so", f"! {name}/bin/rlx pull minilm", ["libcurl4"])
    bare.check("Debian packages", "dpkg -i rlx_*.deb librlx0*.deb && rlx version && rlx " + TELL,
               [STORY, version()])
    bare.check("the library is found by its SONAME", "ldconfig -p", [f"librlx.so.{so_version()}"])
    bare.run("apt-get update -qq; apt-get install -qq -y --no-install-recommends gcc libc6-dev "
             "pkg-config python3-numpy python3-pip nodejs")
    bare.check("a program with librlx-dev", "dpkg -i librlx-dev_*.deb && gcc program.c -o program "
               "$(pkg-config --cflags --libs rlx) && ./program", ["2 4"])
    bare.check("the wheel", "pip install --break-system-packages --no-index --no-deps -q "
               "rlx-*.whl && python3 -c \"import rlx; m = rlx.Model('tiny-stories.gguf'); "
               "print(m.generate('Once upon a time', max_tokens=30).text)\" && "
               f"python3 -m rlx {TELL}", [STORY])
    bare.check("the npm package", "mkdir -p node_modules && tar xzf rlx-*.tgz -C node_modules && "
               "mv node_modules/package node_modules/rlx && echo \"import { init } from 'rlx'; "
               "const rlx = await init(); const m = await rlx.load('tiny-stories.gguf'); "
               "const { text } = await m.generate('Once upon a time', { maxTokens: 30 }); "
               "console.log(text);\" >story.mjs && node story.mjs", [STORY])


def main():
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        skip("root and debootstrap are needed; apt-get install debootstrap")
    arch = os.uname().machine
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = os.environ.get("RLX_DIST")
        dist = Path(given) if given else build_twice(folder)
        check_static(dist, folder, arch)
        bare = Bare(str(folder / "debian"))
        try:
            check_bare(dist, bare, arch)
        finally:
            bare.close()
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
