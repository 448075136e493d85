#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the sources against the rules of CONTRIBUTING.md: which folder may include which, sizes of
files, functions and lines, licence lines, calls the library must not make, and which file may
write files.

usage: check_tree.py [ROOT]
"""
import re
import sys
from pathlib import Path

# Folder of src/ -> folders it may include from, besides itself and the public headers. The order of
# the rows is the order of the layers: arrows only go up in this table.
LAYERS = {
    "base": "",
    "ir": "base",
    "ops": "base ir",
    "compile": "base ir ops",
    "runtime": "base ir ops compile",
    "cpu": "base ir ops compile runtime",
    "null": "base ir ops compile runtime",
    "spirv": "base ir",
    "gpu": "base ir ops compile runtime spirv",
    "vulkan": "base ir ops compile runtime spirv gpu",
    "webgpu": "base ir ops compile runtime spirv gpu",
    "import": "base ir ops compile runtime",
    "model": "base ir import",
    "grammar": "base import model",
    "engine": "base model",
    "store": "base import",
    "serve": "base import model store",
}
# Folders of src/ that are parts of the command line, not of the library.
TOOL_PARTS = ("store", "serve")

FOLDERS = "include src tools tests cmake docs bench examples web python packaging .ci".split()
CODE = {".c", ".h", ".def", ".inc", ".cpp", ".comp", ".glsl", ".py", ".sh", ".mjs", ".js", ".cmake"}
C_CODE = {".c", ".h", ".inc"}
MAX_FILE, MAX_FUNCTION, MAX_COLUMNS = 1200, 120, 100

# Composed, so that this file does not find itself.
MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
PATHS = re.compile(r"(?<![\w.])/" r"work(?=[/\s\"'`)]|$)|\.\./" r"shared\b")

CALL = r"(?<![\w.>])(%s)\s*\("
PRINTS = re.compile(CALL % "abort|exit|_Exit|_exit|quick_exit|v?printf|puts|putchar|perror"
                    + r"|\b(stdout|stderr)\b")
ALLOCATES = re.compile(CALL % "malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strn?dup")
# What allocates: the last arguments are sizes.
SIZES = re.compile(r"(?<![\w.>])((?:rx|cli)_(?:re)?alloc\w*|rx_arena_(?:alloc|zero|copy|array\w*)"
                   r"|rx_env_(?:alloc|array)|rx_call_(?:scratch|array)|malloc|calloc|realloc)\s*\(")
GETENV = re.compile(CALL % "getenv|secure_getenv")
WRITES = re.compile(CALL % "creat|mkstemps?|mkostemps?|truncate|ftruncate|rename|renameat2?|unlink"
                    "|unlinkat|remove|link|linkat|freopen|fdopen|tmpfile"
                    + r"|\bO_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b")
FOPEN_TO_WRITE = re.compile(CALL % "fopen" + r'(?![^;]*,\s*"rb?"\))')
WRITER = Path("src/base/outfile.c")
# The calls themselves on Windows, and the file in memory of a tool there.
WINDOWS_CALLS = (Path("src/base/posix_win.c"), Path("tools/rlx/system_win.c"))
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')

complaints = []


def complain(path, line, text):
    complaints.append(f"{path}:{line}: {text}")


def blank(match):
    """Keeps the newlines of what is removed, so that line numbers stay true."""
    return re.sub(r"[^\n]", " ", match.group(0))


def code_only(text):
    """The text without comments, strings and characters."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, text, flags=re.S)


def check_text(path, text):
    lines = text.split("\n")
    if len(lines) - 1 > MAX_FILE:
        complain(path, 1, f"{len(lines) - 1} lines, at most {MAX_FILE}")
    first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
    if "SPDX-License-Identifier: MIT" not in first and "#version" not in first:
        complain(path, 1, "the first line is not the SPDX line")
    for n, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            complain(path, n, f"{len(line)} columns, at most {MAX_COLUMNS}")
        if line != line.rstrip():
            complain(path, n, "blanks at the end of the line")
        if "\t" in line:
            complain(path, n, "a tab")


def check_words(path, text):
    for n, line in enumerate(text.split("\n"), 1):
        found = MARKERS.search(line)
        if found:
            complain(path, n, f"{found.group(0)}: finish it or open an issue")
        if PATHS.search(line):
            complain(path, n, "a path outside the project")


def check_functions(path, text):
    """A function is a brace at depth 0 after a ')', where no '=' makes it a table."""
    text = re.sub(r"#ifdef __cplusplus.*?#endif", blank, text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, code_only(text), flags=re.M)
    depth, line, start, head, is_function = 0, 1, 0, "", False
    for char in text:
        if char == "\n":
            line += 1
        if char == "{":
            if depth == 0:
                is_function = ")" in head and "=" not in head
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                length, head = line - start + 1, ""
                if is_function and length > MAX_FUNCTION:
                    complain(path, start, f"function of {length} lines, at most {MAX_FUNCTION}")
        elif depth == 0:
            if not head.strip():
                start = line
            head = "" if char == ";" else head + char
    if depth != 0:
        complain(path, 1, "braces do not match")


def check_includes(root, path, text):
    """src: only down the layers. Headers, tool, examples: only the public API and their folder."""
    parts = path.parts
    for n, line in enumerate(text.split("\n"), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        kind, name = found.groups()
        if name.startswith("rlx/"):
            continue
        if ".." in name:
            complain(path, n, f'"{name}": name the file from its root')
        elif "kernels" in parts:
            continue
        elif parts[:2] == ("tools", "rlx") and (name.split("/")[0] in TOOL_PARTS
                                                or name == "base/posix.h"):
            continue
        elif parts[0] in ("include", "tools", "examples") and kind == '"':
            if not (root / path.parent / name).exists():
                complain(path, n, f'"{name}": only the public API and this folder')
        elif parts[0] == "src" and kind == '"':
            check_edge(root, path, n, name)


def check_edge(root, path, n, name):
    source = path.parts[1]
    if source not in LAYERS:
        complain(path, n, f"src/{source} has no row in LAYERS of tests/check_tree.py")
        return
    if (root / path.parent / name).exists():
        return
    target = name.split("/")[0]
    if "/" not in name or not (root / "src" / name).exists():
        complain(path, n, f'"{name}" is not in src/ or beside this file')
    elif target != source and target not in LAYERS[source].split():
        complain(path, n, f'"{name}": src/{source} may not use src/{target}')


def check_calls(path, text):
    for n, line in enumerate(code_only(text).split("\n"), 1):
        found = PRINTS.search(line)
        if found:
            complain(path, n, f"{found.group(0)}: the library neither prints nor ends the program")
        found = ALLOCATES.search(line)
        if found and path.parts[1] != "base":
            complain(path, n, f"{found.group(1)}: memory comes from base/mem.h")


def check_writes(path, text):
    """Only one file writes, replaces or removes files, so that no other can lose one."""
    lines = zip(code_only(text).split("\n"), text.split("\n"))
    for n, (code, line) in enumerate(lines, 1):
        found = WRITES.search(code) or ("fopen" in code and FOPEN_TO_WRITE.search(line))
        if found:
            complain(path, n, f"{found.group(0)}: files are written by {WRITER}")


def arguments(text, begin):
    """The arguments of a call whose opening parenthesis is at `begin`."""
    depth, start, found = 0, begin + 1, []
    for at in range(begin, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and text[at] == ","):
            found.append(text[start:at])
            start = at + 1
        if depth == 0:
            break
    return found


def check_sizes(path, text):
    """Products are checked by the array functions; a cast to size_t cuts a 64-bit number where
    size_t has 32 bits."""
    text = re.sub(r"^[\w ]*void \*\w+\([^{;]*", blank, code_only(text), flags=re.M)  # declarations
    for call in SIZES.finditer(text):
        n, name = text.count("\n", 0, call.start()) + 1, call.group(1)
        for argument in arguments(text, call.end() - 1):
            argument = re.sub(r"\([\w ]+\*+\)", "", argument)  # casts to pointers
            argument = re.sub(r"sizeof\s*(\([^()]*\)|\**[\w.>\[\]-]+)", "SIZEOF", argument)
            if re.search(r"SIZEOF\s*\*|\*\s*SIZEOF", argument) and not re.fullmatch(
                    r"\s*\d+ \* SIZEOF\s*", argument):
                complain(path, n, f"{name}: a product with sizeof: use the array function")
            elif "array" not in name and path.parts[0] == "src" and re.search(
                    r"[\w)\]]\s*\*\s*[\w(]", argument):
                complain(path, n, f"{name}: a product: use the array function")
            if path.parts[0] == "src" and re.match(r"\s*\(size_t\)", argument):
                complain(path, n, f"{name}: a size is cut by a cast to size_t")


def check_environment(files):
    readers = [p for p, text in files if p.parts[0] == "src" and GETENV.search(code_only(text))]
    for path in readers[1:]:
        complain(path, 1, f"getenv: the environment is read in one file, {readers[0]}")


def tree_files(root):
    top = [p for p in root.iterdir() if p.is_file() and p.name != ".git"]
    inner = [p for folder in FOLDERS for p in (root / folder).rglob("*") if p.is_file()]
    for path in sorted(top + inner):
        if "__pycache__" in path.parts or path.stat().st_size > 4 << 20:
            continue
        try:
            yield path.relative_to(root), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a binary file: test data, embedded kernels


def is_code(path):
    return path.suffix in CODE or path.name == "CMakeLists.txt" or str(path) in ("run", ".ci/run")


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    files = list(tree_files(root))
    for path, text in files:
        check_words(path, text)
        if is_code(path):
            check_text(path, text)
        if path.suffix in C_CODE | {".def"}:
            check_includes(root, path, text)
        if path.suffix in C_CODE:
            check_functions(path, text)
            if path.parts[0] == "src":
                check_calls(path, text)
            if (path.parts[0] == "src" or path.parts[:2] == ("tools", "rlx")) and (
                    path not in (WRITER, *WINDOWS_CALLS)):
                check_writes(path, text)
        if path.suffix in C_CODE and path.parts[0] in ("src", "tools", "web"):
            check_sizes(path, text)
    check_environment(files)
    for line in complaints:
        print(line)
    print(f"{len(files)} files, {len(complaints)} complaints")
    return 1 if complaints or not files else 0


if __name__ == "__main__":
    sys.exit(main())
