#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Has a native WebGPU implementation judge the WGSL texts that wgsl_suite writes: each one is made
a shader module under an error scope, of a share of them. wgpu-native judges by naga, Dawn by Tint.

usage: shaders.py wgpu|dawn WGSL_SUITE

The library comes from .cache (tools/fetch/webgpu.sh, tried once). Exit status 77: not to be had;
1 also when a download is not the pinned one.
"""
import ctypes as c
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
from share import share  # noqa: E402

ROOT = Path(os.environ.get("RLX_SOURCE_DIR", Path(__file__).resolve().parents[2]))
LIBRARIES = {"wgpu": ".cache/wgpu/libwgpu_native-release.so",
             "dawn": ".cache/dawn/libwebgpu_wrapper.so"}
# Numbers of the features shader-f16 and subgroups.
FEATURES = {"wgpu": (0xB, 0x30021), "dawn": (0xA, 0x11)}
ALLOW_PROCESS_EVENTS, FILTER_VALIDATION, SOURCE_WGSL, NO_ERROR = 2, 1, 2, 1
SHOWN = 20


class String(c.Structure):
    _fields_ = [("data", c.c_void_p), ("length", c.c_size_t)]

    def text(self):
        return c.string_at(self.data, self.length).decode(errors="replace") if self.data else ""


class Chain(c.Structure):
    _fields_ = [("next", c.c_void_p), ("type", c.c_uint32)]


class Source(c.Structure):
    _fields_ = [("chain", Chain), ("code", String)]


class ModuleDescriptor(c.Structure):
    _fields_ = [("next", c.c_void_p), ("label", String)]


# Called with a status, an object or an error type, a message and two pointers.
OnObject = c.CFUNCTYPE(None, c.c_uint32, c.c_void_p, String, c.c_void_p, c.c_void_p)
OnError = c.CFUNCTYPE(None, c.c_uint32, c.c_uint32, String, c.c_void_p, c.c_void_p)


class Callback(c.Structure):
    _fields_ = [("next", c.c_void_p), ("mode", c.c_uint32), ("function", c.c_void_p),
                ("user1", c.c_void_p), ("user2", c.c_void_p)]


class DeviceDescriptor(c.Structure):
    # The callbacks and the default queue behind these stay zero.
    _fields_ = [("next", c.c_void_p), ("label", String), ("n_features", c.c_size_t),
                ("features", c.POINTER(c.c_uint32)), ("rest", c.c_void_p * 32)]


class Judge:
    def __init__(self, kind, path):
        self.lib = c.CDLL(str(path))
        for name in ("CreateInstance", "DeviceCreateShaderModule"):
            self.function(name).restype = c.c_void_p
        self.instance = c.c_void_p(self.function("CreateInstance")(None))
        self.adapter = self.ask("InstanceRequestAdapter", self.instance, None)
        offered = [f for f in FEATURES[kind]
                   if self.function("AdapterHasFeature")(self.adapter, c.c_uint32(f))]
        self.subgroups = FEATURES[kind][1] in offered
        features = (c.c_uint32 * 2)(*offered)
        wanted = DeviceDescriptor(n_features=len(offered), features=features)
        self.device = self.ask("AdapterRequestDevice", self.adapter, c.byref(wanted))

    def function(self, name):
        return getattr(self.lib, "wgpu" + name)

    def pump(self, done):
        deadline = time.monotonic() + 60
        while not done:
            self.function("InstanceProcessEvents")(self.instance)
            if time.monotonic() > deadline:
                raise OSError("the implementation does not answer")

    def ask(self, name, owner, descriptor):
        done = []
        function = OnObject(lambda status, thing, message, a, b:
                            done.append((thing, message.text())))
        info = Callback(mode=ALLOW_PROCESS_EVENTS, function=c.cast(function, c.c_void_p))
        self.function(name)(owner, descriptor, info)
        self.pump(done)
        if not done[0][0]:
            raise OSError(f"{name}: {done[0][1]}")
        return c.c_void_p(done[0][0])

    def verdict(self, text):
        """An empty string, or what is wrong with the text."""
        data = c.create_string_buffer(text)
        source = Source(Chain(None, SOURCE_WGSL), String(c.addressof(data), len(text)))
        module = ModuleDescriptor(c.addressof(source), String(None, 0))
        self.function("DevicePushErrorScope")(self.device, c.c_uint32(FILTER_VALIDATION))
        made = self.function("DeviceCreateShaderModule")(self.device, c.byref(module))
        done = []
        function = OnError(lambda status, kind, message, a, b:
                           done.append("" if kind == NO_ERROR else message.text() or "error"))
        info = Callback(mode=ALLOW_PROCESS_EVENTS, function=c.cast(function, c.c_void_p))
        self.function("DevicePopErrorScope")(self.device, info)
        self.pump(done)
        if made:
            self.function("ShaderModuleRelease")(c.c_void_p(made))
        return done[0]


def read_texts(path):
    """Pairs of name and text."""
    for part in Path(path).read_bytes().split(b"@@ ")[1:]:
        name, text = part.split(b"\n", 1)
        yield name.decode(), text


def find_library(kind):
    path = ROOT / LIBRARIES[kind]
    if not path.exists():
        got = subprocess.run(["sh", str(ROOT / "tools/fetch/webgpu.sh"), kind], check=False)
        if got.returncode == 2:
            sys.exit(1)
    return path


def main():
    kind, suite = sys.argv[1:3]
    path = find_library(kind)
    if not path.exists():
        print(f"skipped: {path} could not be fetched")
        return 77
    try:
        judge = Judge(kind, path)
    except OSError as error:
        print(f"skipped: {path}: {error}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "suite.txt")
        every, first = share(5)
        subprocess.run([suite, *(["--tint"] if kind == "dawn" else []), file], check=False,
                       stdout=subprocess.DEVNULL)
        texts = list(read_texts(file))[first::every]
    judged, refused = 0, []
    for name, text in texts:
        if b"subgroup" in text and not judge.subgroups:
            continue
        judged += 1
        why = judge.verdict(text)
        if why:
            refused.append(name)
            if len(refused) <= SHOWN:
                print(f"FAIL {name}: {why[:1500]}")
    if not judge.verdict(b"fn main( { }"):
        print("FAIL: a text that is wrong is accepted")
        return 1
    print(f"{judged} texts judged by {kind}, {len(refused)} refused, "
          f"{len(texts) - judged} need subgroups and were left out")
    return 1 if refused or not judged else 0


if __name__ == "__main__":
    sys.exit(main())
