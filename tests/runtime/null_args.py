#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the calls of a test from the public headers: every function with NULL for each of its
pointers in turn, the other arguments being good. NULL where nothing allows it is RLX_INVALID with a
sentence (or nothing, false, 0 where a function returns no status); it never ends the program.
And every function with a struct that may grow in other sizes: zero and a field of a newer version
are refused with a sentence that names the struct, the size of an older version is taken.

usage: null_args.py INCLUDE_DIR OUTPUT.inc
"""
import re
import sys
from pathlib import Path

# Where NULL has a meaning, as the headers say: function (or * for all) and parameter.
ALLOWED = {
    "*": "err user",
    "rlx_grammar_from_json_schema": "d", "rlx_grammar_from_regex": "d",
    "rlx_grammar_from_gbnf": "d", "rlx_grammar_state_create": "v",
    "rlx_device_open": "id desc", "rlx_session_create": "desc", "rlx_session_load": "desc",
    "rlx_device_choose": "desc", "rlx_graph_import": "desc",
    "rlx_model_open": "desc", "rlx_model_open_memory": "desc",
    "rlx_set_allocator": "a", "rlx_set_log": "fn",
    "rlx_graph_create": "name", "rlx_named": "g name", "rlx_op": "attributes out",
    "rlx_split": "out",
    "rlx_graph_print": "length", "rlx_session_submit": "ticket",
    "rlx_device_calibration": "id", "rlx_device_is_available": "id",
    "rlx_session_state_reset": "state", "rlx_token_text": "length",
    "rlx_tokenizer_chat_template": "name", "rlx_context_set_sampling": "s",
    "rlx_context_step": "tokens", "rlx_generate": "fn result",
    "rlx_session_run_steps": "fn", "rlx_session_set_buffer": "b",
    "rlx_chat_create": "system", "rlx_chat_say": "d fn result",
    "rlx_engine_create": "desc", "rlx_engine_step": "busy",
    "rlx_embed": "d n_cut", "rlx_quantize_rows": "stats",
    "rlx_node_text": "length", "rlx_value_node": "result",
    "rlx_transpose": "perm", "rlx_attention_ex": "extra", "rlx_lstm": "init last",
    "rlx_session_tune": "desc kernels", "rlx_model_convert": "desc", "rlx_imatrix_save": "source",
}
# In builders a descriptor and a further result may be NULL.
ALLOWED_TYPES = re.compile(r"rlx_\w+_desc \*$")
RESULTS = "sum indices count h s last".split()
# What ends an object that a call has made.
ENDS = {
    "rlx_device **": "rlx_device_close", "rlx_graph **": "rlx_graph_destroy",
    "rlx_session **": "rlx_session_destroy", "rlx_buffer **": "rlx_buffer_destroy",
    "rlx_file **": "rlx_file_close", "rlx_onnx **": "rlx_onnx_close",
    "rlx_tokenizer **": "rlx_tokenizer_close", "rlx_text_stream **": "rlx_text_stream_destroy",
    "rlx_model **": "rlx_model_close", "rlx_context **": "rlx_context_destroy",
    "rlx_chat **": "rlx_chat_destroy", "rlx_gguf_writer **": "rlx_gguf_writer_destroy",
    "rlx_graph_print text": "rlx_free", "rlx_node_text text": "rlx_free",
    "rlx_chat_format text": "rlx_free",
}
# Good arguments: by function and parameter, by type and parameter, by type.
VALUES = {
    "rlx_session_set_param name": '"p"', "rlx_session_read output": '"y"',
    "rlx_session_state_read state": '"s"', "rlx_session_state_write state": '"s"',
    "rlx_embed m": "encoder", "rlx_context_logits n": "TINY_VOCABULARY",
    "rlx_graph *": "g", "rlx_device *": "device", "rlx_session *": "session",
    "rlx_buffer *": "buffer", "rlx_file *": "file", "rlx_onnx *": "onnx",
    "rlx_tokenizer *": "tokenizer", "rlx_model *": "model", "rlx_context *": "context",
    "rlx_chat *": "chat", "rlx_text_stream *": "stream", "rlx_generation *": "generation",
    "rlx_gguf_writer *": "writer", "rlx_error *": "&err", "rlx_meta *": "&meta",
    "rlx_value": "x", "rlx_dtype": "RLX_F32", "double": "1", "float": "1", "bool": "false",
    "size_t": "1", "size_t bytes": "24", "size_t cap": "1", "size_t length": "3",
    "size_t offset": "0", "size_t seq": "0", "size_t i": "0", "int rank": "2", "int": "2",
    "int64_t": "1", "int32_t": "1", "uint32_t": "0", "uint64_t": "1", "unsigned": "0",
    "int64_t bound": "8", "int64_t axis": "0", "rlx_dim": "2",
    "char * path": '"no-such-folder/file"', "char * id": '"ref"', "char * backend": '"cpu"',
    "char * op": '"relu"', "char * text": '"abc"', "char * system": '"abc"', "char *": '"x"',
    "char * regex": '"abc"', "char * schema": '"abc"', # as long as `length` says
    "char * attributes": '""',
    "void *": "room.bytes", "rlx_log_fn *": "on_log", "rlx_piece_fn *": "on_piece",
    "rlx_step_fn *": "on_step",
}
SIZED = set()
ENDS.update({
    "rlx_grammar **": "rlx_grammar_destroy", "rlx_vocabulary **": "rlx_vocabulary_destroy",
    "rlx_grammar_state **": "rlx_grammar_state_destroy"})
ENDS.update({"rlx_engine **": "rlx_engine_destroy", "rlx_request **": "rlx_request_destroy"})
ENDS.update({"rlx_trainer **": "rlx_trainer_destroy", "rlx_imatrix **": "rlx_imatrix_destroy"})
VALUES.update({
    "rlx_engine *": "engine", "rlx_request *": "request",
    "rlx_trainer *": "trainer", "rlx_imatrix *": "imatrix",
    "rlx_grammar *": "grammar", "rlx_vocabulary *": "vocabulary",
    "rlx_grammar_state *": "grammar_state"})


def parameters(text):
    """Pairs of a type without const and a name."""
    out = []
    for part in text.split(","):
        is_const = re.search(r"\bconst\b", part)
        part = re.sub(r"\bconst\b", "", " ".join(part.split())).strip()
        found = re.match(r"(.*?)(\w+)(\[\d*\])?$", part)
        kind = " ".join((found.group(1) + (" *" if found.group(3) else "")).split())
        kind = re.sub(r"\s*(\*)", r" \1", kind).replace("* *", "**").replace("*const", "*const")
        kind = "written char *" if kind == "char *" and not is_const else kind.strip()
        out.append((kind, found.group(2)))
    return out


def functions(folder):
    for header in sorted(Path(folder, "rlx").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(encoding="utf-8"), flags=re.S)
        for kind, name, args in re.findall(r"^RLX_API\s+([\w\s*]*?)(rlx_\w+)\(([^;]*)\);", text,
                                           flags=re.M):
            if args.strip() != "void":
                yield " ".join(kind.split()), name, parameters(args)


def sized_structs(folder):
    """The structs that begin with struct_size, as types of parameters."""
    text = "".join(h.read_text(encoding="utf-8") for h in Path(folder, "rlx").glob("*.h"))
    return {n + " *" for n in re.findall(r"^typedef struct (\w+) \{\s*size_t struct_size;", text,
                                         flags=re.M)}


def value_of(function, kind, name):
    for key in (f"{function} {name}", f"{kind} {name}"):
        if key in VALUES:
            return VALUES[key]
    if kind in VALUES:
        return VALUES[kind]
    if kind in SIZED:
        return f"&RLX_DEFAULT({kind[:-2]})"
    if kind.endswith("**"):
        return "texts" if name == "texts" else "(void *)&slot"
    if kind.endswith("*"):
        return "(void *)room.bytes"
    return f"({kind})0"  # an enumeration


def is_allowed(function, returns, kind, name):
    if name in ALLOWED["*"].split() + ALLOWED.get(function, "").split():
        return True
    if returns == "void":  # what ends an object takes none
        return bool(re.search("_(destroy|close|free|end)$", function))
    return returns == "rlx_value" and bool(
        ALLOWED_TYPES.match(kind) or (kind == "rlx_value *" and name in RESULTS))


def write_call(out, number, kind, function, params, null):
    args = ", ".join("NULL" if i == null else value_of(function, *p) for i, p in enumerate(params))
    has_error = null is not None and params[null][1] != "err" and \
        any(p[0] == "rlx_error *" for p in params)
    allowed = is_allowed(function, kind, *params[null])
    out.append(f"static void call_{number}(void)\n{{")
    out.append(f'    begin("{function}", "{params[null][1]}");')
    if kind == "rlx_status":
        how = "any_status" if allowed else "needs" if has_error else "fails"
        out.append(f"    {how}({function}({args}));")
    elif kind == "rlx_value" and not allowed:
        out.append(f"    no_value({function}({args}), {'true' if null else 'false'});")
    elif kind == "void":
        out.append(f"    {function}({args});")
    elif function == "rlx_graph_create":
        out.append(f"    rlx_graph_destroy({function}({args}));")
    else:
        out.append(f"    (void){function}({args});")
    for type_name, name in params:
        end = ENDS.get(type_name) or ENDS.get(f"{function} {name}")
        if end:
            out.append(f"    {end}(slot);")
        elif type_name == "rlx_generation **":
            out.append("    rlx_generation_destroy(slot);")
    out.append("    end();\n}\n")


def write_size_call(out, number, kind, function, params, which, case):
    type_name, name = params[which]
    struct = type_name[:-2]
    args = ", ".join("(void *)grown.bytes" if i == which else value_of(function, *p)
                     for i, p in enumerate(params))
    out.append(f"static void call_{number}(void)\n{{")
    out.append(f'    begin("{function}", "{name}, {case}");')
    out.append(f"    set_size({case}, sizeof({struct}));")
    if kind == "rlx_value":
        out.append(f'    sized_value({case}, {function}({args}), "{struct}");')
    else:
        is_input = "true" if struct.endswith("_desc") or function == "rlx_session_estimate" else \
            "false"
        out.append(f'    sized({case}, {is_input}, {function}({args}), "{struct}");')
    for p_type, _ in params:
        if p_type in ENDS:
            out.append(f"    {ENDS[p_type]}(slot);")
        elif p_type == "rlx_generation **":
            out.append("    rlx_generation_destroy(slot);")
    out.append("    end();\n}\n")


def main():
    out, n, tried = ["/* Written by null_args.py. */"], 0, set()
    SIZED.update(sized_structs(sys.argv[1]))
    for kind, function, params in functions(sys.argv[1]):
        for i, (type_name, _) in enumerate(params):
            if type_name.endswith("*") or type_name.endswith("fn"):
                write_call(out, n, kind, function, params, i)
                n += 1
            for case in ("NO_SIZE", "OLDER", "NEWER") if type_name in SIZED else ():
                write_size_call(out, n, kind, function, params, i, case)
                tried.add(type_name)
                n += 1
    if tried != SIZED:
        sys.exit(f"null_args.py: no function takes {', '.join(sorted(SIZED - tried))}")
    out.append("static void (*const calls[])(void) = {")
    out += [f"    call_{i}," for i in range(n)]
    out.append("};")
    Path(sys.argv[2]).write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
