# SPDX-License-Identifier: MIT
"""What the packers share: the version, and archives whose bytes depend on their contents only."""
import gzip
import io
import os
import re
import tarfile
import time
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
# The time of all files in packages: that of the commit, as reproducible-builds.org has it.
EPOCH = max(int(os.environ.get("SOURCE_DATE_EPOCH") or 1577836800), 315619200)
SUMMARY = "Neural-network graphs and language models on any GPU or the CPU"


def version():
    """Of include/rlx/base.h, the one place that has it."""
    header = (SOURCE / "include/rlx/base.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define RLX_VERSION_\w+ +(\d+)", header))


def so_version():
    """The end of the SONAME, as docs/abi.md has it."""
    major, minor, _ = version().split(".")
    return f"{major}.{minor}" if major == "0" else major


def read(path):
    return Path(path).read_bytes()


def write_zip(path, files):
    """files: name -> (bytes, is it a program?)"""
    date = time.gmtime(EPOCH)[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, program) in files.items():
            info = zipfile.ZipInfo(name, date)
            info.create_system = 3  # Unix, whatever this machine is
            info.external_attr = (0o100755 if program else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


def tar_bytes(files, prefix="", links=None):
    """A tar archive of name -> (bytes, is it a program?), with its folders, owned by root."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        names = set(files) | set(links or {})
        parts = [(prefix + name).split("/")[:-1] for name in names]
        folders = {"/".join(p[:i]) for p in parts for i in range(1, len(p) + 1)} - {"."}
        entries = [(f + "/", None, None) for f in folders]
        entries += [(prefix + name, data, mode) for name, (data, mode) in files.items()]
        entries += [(prefix + name, target, "link") for name, target in (links or {}).items()]
        for name, data, mode in sorted(entries, key=lambda e: e[0]):
            info = tarfile.TarInfo(name)
            info.mtime, info.uname, info.gname = EPOCH, "root", "root"
            if data is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
            elif mode == "link":
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, data, 0o777
                archive.addfile(info)
            else:
                info.size, info.mode = len(data), 0o755 if mode else 0o644
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def gzip_bytes(data):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as f:
        f.write(data)
    return out.getvalue()
