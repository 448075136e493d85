#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Packs what `./run dist` leaves beside the wheel and the npm package: an archive, the static
program, Debian packages, a container file, a list of parts with their licences, and checksums.

usage: dist.py archive BUILD OUT ARCH     archive of an installed tree, Debian packages
       dist.py static BUILD OUT ARCH      the program for any Linux
       dist.py sums OUT                   SBOM, container file, SHA256SUMS of all that is there"""
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import EPOCH, SOURCE, SUMMARY, gzip_bytes, read, so_version, tar_bytes, version

DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
ZIG = SOURCE / ".cache/zig/ziglang"
MAINTAINER = "The rlx authors <rlx@localhost>"


def installed(build, libdir):
    """What `cmake --install` puts below a prefix: files and links by name."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "-B", str(build), "-S", str(SOURCE),
                        f"-DCMAKE_INSTALL_LIBDIR={libdir}"], check=True, capture_output=True)
        subprocess.run(["cmake", "--install", str(build), "--prefix", folder], check=True,
                       capture_output=True)
        files, links = {}, {}
        for path in sorted(Path(folder).rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_symlink():
                links[name] = os.readlink(path)
            elif path.is_file():
                program = name.startswith("bin/") or ".so" in path.name
                files[name] = read(path), program
    return files, links


def notices():
    """The licences of all that is in the packages."""
    parts = [("rlx", read(SOURCE / "LICENSE"))]
    for name, path in (("musl, in the static program", "lib/libc/musl/COPYRIGHT"),
                       ("compiler-rt of LLVM", "lib/libunwind/LICENSE.TXT"),
                       ("Zig, whose compiler-rt is linked", "LICENSE")):
        if (ZIG / path).exists():
            parts.append((name, read(ZIG / path)))
    return b"\n\n".join(f"---- {name} ----\n\n".encode() + text for name, text in parts)


# ---- Archives ------------------------------------------------------------------------------------


def write_archive(path, prefix, files, links=None):
    path.write_bytes(gzip_bytes(tar_bytes(files, prefix, links)))
    print(path)


def archive(build, out, arch):
    files, links = installed(build, "lib")
    for name in ("README.md", "CHANGELOG.md", "LICENSE"):
        files[name] = read(SOURCE / name), False
    files["NOTICES"] = notices(), False
    name = f"rlx-{version()}-linux-{arch}"
    write_archive(out / f"{name}.tar.gz", name + "/", files, links)
    debian(build, out, arch)


def static(build, out, arch):
    name = f"rlx-{version()}-linux-{arch}-static"
    files = {"rlx": (read(build / "rlx"), True), "LICENSE": (read(SOURCE / "LICENSE"), False),
             "rlx.1": (read(SOURCE / "docs/rlx.1"), False), "NOTICES": (notices(), False)}
    write_archive(out / f"{name}.tar.gz", name + "/", files)


# ---- Debian --------------------------------------------------------------------------------------

CONTROL = """Package: {package}
Version: {version}
Architecture: {arch}
Maintainer: {maintainer}
Installed-Size: {size}
Section: {section}
Priority: optional
{relations}Description: {summary}
 {text}
"""


def ar_bytes(members):
    """An ar archive, which a Debian package is."""
    out = io.BytesIO(b"!<arch>\n")
    out.seek(0, io.SEEK_END)
    for name, data in members:
        out.write(f"{name:<16}{EPOCH:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
        out.write(data + b"\n" * (len(data) % 2))
    return out.getvalue()


def write_deb(out, arch, package, fields, files, links=None, control=None):
    doc = f"usr/share/doc/{package}"
    files = {**files, f"{doc}/copyright": (notices(), False),
             f"{doc}/changelog.gz": (gzip_bytes(read(SOURCE / "CHANGELOG.md")), False)}
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {name}\n"
                   for name, (data, _) in sorted(files.items()))
    text = CONTROL.format(package=package, version=version(), arch=arch, maintainer=MAINTAINER,
                          size=sum(len(d) for d, _ in files.values()) // 1024 + 1,
                          summary=SUMMARY, **fields)
    inner = {"control": (text.encode(), False), "md5sums": (sums.encode(), False),
             **{name: (data.encode(), False) for name, data in (control or {}).items()}}
    path = out / f"{package}_{version()}_{arch}.deb"
    path.write_bytes(ar_bytes([
        ("debian-binary", b"2.0\n"), ("control.tar.gz", gzip_bytes(tar_bytes(inner, "./"))),
        ("data.tar.gz", gzip_bytes(tar_bytes(files, "./", links)))]))
    print(path)


def debian(build, out, arch):
    """The library by its SONAME, what compiles with it, the program."""
    multiarch, arch = f"{arch}-linux-gnu", DEBIAN_ARCH[arch]
    files, links = installed(build, f"lib/{multiarch}")
    files = {f"usr/{name}": file for name, file in files.items()}
    links = {f"usr/{name}": to for name, to in links.items()}
    so, library = f"usr/lib/{multiarch}/librlx.so", f"librlx{so_version()}"
    runtime = {n: f for n, f in files.items() if n.startswith(so + ".")}
    write_deb(out, arch, library, {
        "section": "libs", "text": "The library.",
        "relations": "Depends: libc6 (>= 2.28)\nRecommends: libvulkan1\nMulti-Arch: same\n"},
        runtime, {n: t for n, t in links.items() if n != so},
        {"shlibs": f"librlx {so_version()} {library} (>= {version()})\n",
         "triggers": "activate-noawait ldconfig\n"})
    develop = {n: f for n, f in files.items() if n.startswith(("usr/include/", "usr/lib/"))
               and n not in runtime}
    write_deb(out, arch, "librlx-dev", {
        "section": "libdevel", "text": "Headers, the static library, CMake package and rlx.pc.",
        "relations": f"Depends: {library} (= {version()}), libc6-dev\n"},
        develop, {so: links[so]})
    manual = files["usr/share/man/man1/rlx.1"][0]
    write_deb(out, arch, "rlx", {
        "section": "science", "text": "The command line, with the library in it.",
        "relations": "Depends: libc6 (>= 2.28)\nRecommends: libvulkan1, libcurl4, zlib1g, "
                     "libmicrohttpd12, ca-certificates\n"},
        {"usr/bin/rlx": files["usr/bin/rlx"],
         "usr/share/man/man1/rlx.1.gz": (gzip_bytes(manual), False)})


# ---- Parts and sums ------------------------------------------------------------------------------

CONTAINER = """# rlx serve from the Debian packages beside this file:
#   podman build -t rlx dist && podman run -p 8080:8080 -v models:/var/lib/rlx/models rlx
FROM debian:bookworm-slim
COPY rlx_{version}_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libcurl4 zlib1g \\
        libmicrohttpd12 libvulkan1 /tmp/rlx_{version}_$(dpkg --print-architecture).deb && \\
    rm -rf /var/lib/apt/lists/* /tmp/*.deb && \\
    useradd --system --create-home --home-dir /var/lib/rlx rlx
USER rlx
ENV RLX_STORE=/var/lib/rlx/models
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["rlx", "serve", "--host", "0.0.0.0", "--port", "8080", "--drain", "60"]
CMD ["smollm2"]
"""


def compiler_version():
    for line in (SOURCE / "tools/fetch/pins.txt").read_text(encoding="utf-8").splitlines():
        if line.split()[1:2] == ["ziglang"]:
            return line.split()[2]
    return "unknown"


def sbom(files):
    """SPDX 2.3 in JSON: the files, and the code of others that is in some of them."""
    import datetime

    created = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc)
    packages = [("rlx", version(), "MIT", "the project itself"),
                ("musl", "of Zig " + compiler_version(), "MIT", "in the static program"),
                ("compiler-rt", "of Zig " + compiler_version(), "MIT",
                 "what compilers call, in all programs and libraries"),
                ("wasi-libc", "of the system that built rlx.wasm",
                 "Apache-2.0 WITH LLVM-exception AND MIT", "in rlx.wasm")]
    named = [{"SPDXID": f"SPDXRef-Package-{name}", "name": name, "versionInfo": number,
              "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "comment": comment,
              "licenseConcluded": licence, "licenseDeclared": licence,
              "copyrightText": "NOASSERTION"} for name, number, licence, comment in packages]
    listed = [{"SPDXID": f"SPDXRef-File-{i}", "fileName": "./" + path.name,
               "checksums": [{"algorithm": "SHA256", "checksumValue": digest(path)}],
               "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"}
              for i, path in enumerate(files)]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"rlx-{version()}",
            "documentNamespace": f"https://spdx.org/spdxdocs/rlx-{version()}",
            "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Organization: The rlx authors"]},
            "packages": named, "files": listed,
            "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                               "relatedSpdxElement": "SPDXRef-Package-rlx"}]}


def digest(path):
    return hashlib.sha256(read(path)).hexdigest()


def sums(out):
    own = f"rlx-{version()}.spdx.json"
    (out / "Containerfile").write_text(CONTAINER.format(version=version()), encoding="utf-8")
    skip = ("SHA256SUMS", own)
    files = sorted(p for p in out.iterdir() if p.is_file() and p.name not in skip)
    (out / own).write_text(json.dumps(sbom(files), indent=1) + "\n", encoding="utf-8")
    files = sorted([*files, out / own])
    lines = [f"{digest(p)}  {p.name}\n" for p in files]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    print("".join(lines), end="")


def main():
    command, *arguments = sys.argv[1:]
    places = [Path(a) for a in arguments[:2]]
    places[-1].mkdir(parents=True, exist_ok=True)
    if command == "sums":
        sums(places[0])
    else:
        {"archive": archive, "static": static}[command](*places, arguments[2])


if __name__ == "__main__":
    main()
