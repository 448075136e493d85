#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What packs packages: the same bytes twice, wheels that pip installs, Debian packages that dpkg
reads, checksums. On stand-ins of what is built; test_install.py has the real thing."""
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools/dist"))
sys.dont_write_bytecode = True
import common  # noqa: E402
import dist  # noqa: E402

failures = []


def expect(same, what):
    print("ok  " if same else "FAIL", what)
    if not same:
        failures.append(what)


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)


def check_wheel(folder):
    build = folder / "build"
    build.mkdir()
    (build / "librlx.so").write_bytes(b"library")
    (build / "rlx").write_bytes(b"program")
    packed = []
    for name in ("1", "2"):
        done = run(sys.executable, SOURCE / "tools/dist/wheel.py", build, folder / name, "any")
        expect(done.returncode == 0, f"a wheel is packed {done.stderr}")
        packed.append(Path(done.stdout.strip()))
    expect(packed[0].read_bytes() == packed[1].read_bytes(), "wheels have the same bytes")
    names = zipfile.ZipFile(packed[0]).namelist()
    for name in ("rlx/py.typed", "rlx/lib/librlx.so", "rlx/bin/rlx", "rlx/__main__.py"):
        expect(name in names, f"{name} is in the wheel")
    done = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
               "--target", folder / "site", packed[0])
    if "No module named pip" in done.stderr:
        print("skip: there is no pip")
        return
    expect(done.returncode == 0, f"pip installs it {done.stderr}")
    program = folder / "site/rlx/bin/rlx"
    expect(program.exists() and program.stat().st_mode & 0o111 == 0o111, "rlx can be run")


def check_deb(folder):
    files = {"usr/bin/rlx": (b"program", True), "usr/share/man/man1/rlx.1.gz": (b"page", False)}
    fields = {"section": "science", "text": "Text.", "relations": "Depends: libc6\n"}
    for name in ("a", "b"):
        (folder / name).mkdir()
        dist.write_deb(folder / name, "amd64", "rlx", fields, files, {"usr/bin/x": "rlx"})
    first, second = (next((folder / name).glob("*.deb")) for name in ("a", "b"))
    expect(first.read_bytes() == second.read_bytes(), "Debian packages have the same bytes")
    if not shutil.which("dpkg-deb"):
        print("skip: there is no dpkg-deb")
        return
    done = run("dpkg-deb", "--field", first, "Version", "Architecture", "Depends")
    expect(common.version() in done.stdout and "amd64" in done.stdout, f"dpkg reads it: {done}")
    listed = run("dpkg-deb", "--contents", first).stdout
    expect("-rwxr-xr-x root/root" in listed and "./usr/bin/x -> rlx" in listed, "its files")


def check_sums(folder):
    out = folder / "out"
    out.mkdir()
    (out / "file").write_bytes(b"content")
    dist.sums(out)
    lines = (out / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    expect(all(hashlib.sha256((out / line.split("  ")[1]).read_bytes()).hexdigest() ==
               line.split("  ")[0] for line in lines) and len(lines) == 3, "sums are right")
    parts = json.loads((out / f"rlx-{common.version()}.spdx.json").read_text(encoding="utf-8"))
    expect([f["fileName"] for f in parts["files"]] == ["./Containerfile", "./file"], "the SBOM")


def check_tar():
    data = common.tar_bytes({"b/c": (b"1", True), "a": (b"2", False)}, "p/", {"b/l": "c"})
    again = common.tar_bytes({"a": (b"2", False), "b/c": (b"1", True)}, "p/", {"b/l": "c"})
    expect(data == again, "archives do not depend on the order of files")


with tempfile.TemporaryDirectory() as name:
    check_wheel(Path(name))
    check_deb(Path(name))
    check_sums(Path(name))
    check_tar()
sys.exit(bool(failures))
