#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What files may do to a terminal: nothing. Names, metadata, tokens, generated text and errors with
control characters, broken UTF-8 and marks that reorder text are escaped."""
from cli import *

skip_without_tool()
WRITER = Path(os.environ.get("RLX_BUILD_DIR", "build")) / "tests" / "model" / "test_generate"
EVIL = b"\x1b]0;owned\x07\x1b[2J\x7f \xc2\x9b31m \xe2\x80\xaefdp\xe2\x81\xa6 \xff\xfe\xc0\xaf end"
SHOWN = "\\x1b]0;owned\\x07\\x1b[2J\\x7f \\u009b31m \\u202efdp\\u2066 \\xff\\xfe\\xc0\\xaf end"
# What a file may call a tensor or a key: no control characters below U+0080.
NAME = b"w\xc2\x9b31m\xe2\x80\xae"
NAME_SHOWN = "w\\u009b31m\\u202e"


def dirt(raw):
    """The first character that a terminal should not get; None when there is none."""
    for c in raw.replace(b"\r\x1b[K", b"").decode(errors="surrogateescape"):  # clears a line
        n = ord(c)
        if (n < 0x20 and c not in "\n\t\r") or 0x7f <= n <= 0x9f or 0xd800 <= n <= 0xdfff or \
                0x202a <= n <= 0x202e or 0x2066 <= n <= 0x2069:
            return c
    return None


def run_bytes(*args, terminal=False, stdin=b""):
    """(status, output, errors) as bytes; with `terminal` the output is one."""
    if terminal:
        return *run_on_terminal(*args, stdin=stdin), b""
    r = subprocess.run([TOOL, *(a if isinstance(a, bytes) else str(a) for a in args)],
                       capture_output=True, env={**os.environ, "NO_COLOR": "1"}, input=stdin,
                       timeout=300)
    return r.returncode, r.stdout, r.stderr


def clean(status, *args, shows=(), **how):
    """Nothing of what the command prints, in a pipe or on a terminal, is dirt."""
    for terminal in (False, True):
        got, out, err = run_bytes(*args, terminal=terminal, **how)
        found = dirt(out) or dirt(err)
        words = f"rlx {args}, terminal: {terminal}"
        check(got == status, f"{words}: status {got}, expected {status}: {out + err}")
        check(found is None, f"{words}: printed {found!r}: {out + err}")
        for text in shows:
            rows = (out + err).replace(b"\r\n", b" ")  # on a terminal they end between words
            check(text.encode() in rows, f"{words}: expected {text!r}, got {out + err}")


# ---- Model files ---------------------------------------------------------------------------------

def text(s):
    return struct.pack("<Q", len(s)) + s


def write_model(name, meta, tensors):
    """`meta`: (key, value as in the file); `tensors`: (name, type number), f32 of 32 elements."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    out += b"".join(text(key) + value for key, value in meta)
    for i, (key, kind) in enumerate(tensors):
        out += text(key) + struct.pack("<IQIQ", 1, 32, kind, 128 * i)
    path = TMP / name
    path.write_bytes(out + bytes(-len(out) % 32) + bytes(128 * len(tensors)))
    return path


def string(value):
    return struct.pack("<I", 8) + text(value)


def strings(values):
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


META = [(b"general.architecture", string(b"llama")), (b"general.name", string(EVIL)),
        (NAME, string(EVIL)), (b"list", strings([EVIL, b"x\ny"]))]
model = write_model("evil.gguf", META, [(NAME, 0), (b"v", 0)])
clean(0, "inspect", model, shows=[SHOWN, NAME_SHOWN, "x\\ny"])
clean(0, "inspect", model, "--json")
got = expect_json("inspect", model)
check(got["tensors"][0]["name"] == NAME.decode(), f"--json keeps names: {got['tensors'][0]}")
check(got["metadata"]["general.name"] == EVIL.decode(errors="replace"), "--json keeps text")
clean(0, "quantize", model, TMP / "out.gguf")
clean(1, "generate", "--model", model, "--prompt", "x")
clean(1, "inspect", write_model("same.gguf", META, [(NAME, 0), (NAME, 0)]), shows=[NAME_SHOWN])
clean(1, "inspect", write_model("name.gguf", META, [(EVIL, 0)]))
clean(1, "inspect", write_model("key.gguf", [(EVIL, string(b""))], []))
clean(1, "quantize", write_model("type.gguf", META, [(NAME, 99)]), TMP / "out.gguf",
      shows=[NAME_SHOWN])
safetensors = TMP / "evil.safetensors"
head = json.dumps({"a\u009b\u202e\x1b[2J": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
safetensors.write_bytes(struct.pack("<Q", len(head)) + head.encode() + bytes(4))
for option in ([], ["--json"]):
    clean(run_bytes("inspect", safetensors)[0], "inspect", safetensors, *option)

# Paths, too; long ones are shortened so that the reason is still seen.
evil_path = os.fsencode(TMP) + b"/\x1b[2J\xc2\x9b.gguf"
clean(1, "inspect", evil_path, shows=["\\x1b[2J\\u009b.gguf", "No such file"])
clean(1, "generate", "--model", evil_path, "--prompt", "x", shows=["No such file"])
clean(1, "generate", "--model", "/" + "x" * 3000, "--prompt", "x", shows=["File name too long"])
os.link(model, evil_path)
clean(0, "inspect", evil_path)

# ---- Tokens --------------------------------------------------------------------------------------

tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)] + [b"a", EVIL[:9]]
tokenizer = write_model("tokens.gguf", [
    (b"general.architecture", string(b"llama")),
    (b"tokenizer.ggml.model", string(b"llama")), (b"tokenizer.ggml.tokens", strings(tokens)),
    (b"tokenizer.ggml.scores", struct.pack("<IIQ", 9, 6, len(tokens)) + bytes(4 * len(tokens))),
    (b"tokenizer.ggml.token_type", struct.pack("<IIQ", 9, 5, len(tokens)) +
     struct.pack(f"<{len(tokens)}i", 2, 3, 3, *[6] * 256, 1, 1))], [])
clean(0, "tokenize", "--model", tokenizer, EVIL[:9])
ids = " ".join(str(3 + b) for b in EVIL)
got, out, _ = run_bytes("tokenize", "--model", tokenizer, "--decode", ids)
check(got == 0 and EVIL[:20] in out, f"--decode keeps bytes in a pipe: {out}")
got, out, _ = run_bytes("tokenize", "--model", tokenizer, "--decode", ids, terminal=True)
check(got == 0 and dirt(out) is None and b"\\x1b]0;owned" in out, f"--decode on a terminal: {out}")

# ---- Graphs --------------------------------------------------------------------------------------

escaped = '\\x1b[2J\\xc2\\x9b\\xe2\\x80\\xae'
graph = TMP / "evil.rlx"
graph.write_text(f'''graph "g{escaped}" {{
  %x: f32[2] = input "x{escaped}"
  %y = exp(%x) "n{escaped}"
  output "y{escaped}" = %y
}}
''')
NAMES = ["g\\x1b[2J\\u009b\\u202e", "x\\x1b[2J\\u009b\\u202e", "y\\x1b[2J\\u009b\\u202e"]
clean(0, "inspect", graph, shows=NAMES)
clean(0, "inspect", graph, "--json")
clean(0, "run", graph, "--random-inputs", shows=NAMES[2:])
for option in ("--profile", "--dump-nodes", "--find-nan"):
    clean(0, "run", graph, "--random-inputs", option)
clean(0, "run", graph, "--random-inputs", "--compare", "ref")
clean(0, "run", graph, "--random-inputs", "--json")
clean(1, "run", graph, shows=NAMES[1:2])
clean(0, "explain", graph)
clean(0, "explain", graph, "--memory-svg", TMP / "evil.svg")
check(dirt((TMP / "evil.svg").read_bytes()) is None, "--memory-svg")
got, out, _ = run_bytes("explain", graph, "--dump", "fold", terminal=True)
check(got == 0 and dirt(out) is None, f"--dump on a terminal: {out}")
graph.write_text('graph "g" {\n  %y = \x1b[2J(%x)\n}\n')
clean(1, "run", graph)
graph.write_bytes(b'graph "' + EVIL + b'" {\n  %x: f32[2] = input "x"\n  output "y" = %z\n}\n')
clean(1, "run", graph)

# ---- Generated text ------------------------------------------------------------------------------

if os.access(WRITER, os.X_OK):
    tiny = TMP / "tiny.gguf"
    subprocess.run([WRITER, "--write", tiny], check=True)
    wild = ["--model", tiny, "--device", "cpu", "--temperature", 1000, "--seed", 5, "--ctx", 512,
            "--max-tokens", 200, "--ignore-end"]
    got, out, _ = run_bytes("generate", *wild, "--prompt", "x")
    check(got == 0 and dirt(out) is not None, "random bytes have no control characters")
    got, shown, _ = run_bytes("generate", *wild, "--prompt", "x", terminal=True)
    check(got == 0 and dirt(shown) is None and b"\\x" in shown, f"generate on a terminal: {shown}")
    clean(0, "generate", *wild, "--prompt", "x", "--json")
    got, out, _ = run_bytes("chat", *wild, stdin=b"Hi\n")
    check(got == 0 and dirt(out) is not None, f"chat keeps bytes in a pipe: {out}")
    got, out, _ = run_bytes("chat", *wild, stdin=b"Hi\n/save /dev/null\n", terminal=True)
    check(got == 0 and dirt(out) is None, f"chat on a terminal: {out}")
finish()
