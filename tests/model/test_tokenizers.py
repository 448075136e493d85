#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares rlx's tokenizers with the PyPI packages `tokenizers` and `sentencepiece`: vocabularies
trained here with every splitting rule, from tokenizer.json and as GGUF metadata, and those of
SmolLM2 and MiniLM where they are. Ids of every text must be equal, decoding must give the text
back, streams must give whole characters, bytes that are no UTF-8 must survive.

Packages come from a virtual environment under the build folder, in the versions of
tools/fetch/pins.txt; models are those of tools/fetch/models.sh, in .cache/models or RLX_MODELS.

Exit status: 0 all equal, 1 not, or a download is not the pinned one, 77 the packages cannot be had
(skipped).
"""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(os.environ.get("RLX_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("RLX_BUILD_DIR", "build"))
MODELS = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models"))
PACKAGES = ["tokenizers", "sentencepiece"]
N_TEXTS, N_BAD = 10000, 1000
VOCAB = 3000  # tokens of the vocabularies that are trained here


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def ensure_packages():
    """Runs this script again in the virtual environment when the packages are not here."""
    try:
        import sentencepiece  # noqa: F401
        import tokenizers  # noqa: F401
        return
    except ImportError as error:
        if os.environ.get("RLX_IN_VENV"):
            skip(error)
    venv, wheels = BUILD / "venv-tokenizers", BUILD / "wheels-tokenizers"
    python = venv / "bin/python"
    got = subprocess.run(["sh", str(SOURCE / "tools/fetch/get.sh"), str(wheels), *PACKAGES],
                         check=False, timeout=300, stderr=subprocess.PIPE, text=True)
    if got.returncode == 2:
        sys.exit(got.stderr)
    if got.returncode:
        skip(got.stderr.strip())
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=120,
                           capture_output=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-index", "--no-deps",
                        *map(str, wheels.glob("*.whl"))], check=True, timeout=300,
                       capture_output=True)
    except (subprocess.SubprocessError, OSError) as error:
        skip(f"cannot install {' '.join(PACKAGES)}: {error}")
    os.execve(python, [str(python), *sys.argv], {**os.environ, "RLX_IN_VENV": "1"})


ensure_packages()

import sentencepiece as spm  # noqa: E402
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,  # noqa: E402
                        pre_tokenizers, processors, trainers)

sys.path += [str(Path(__file__).parent), str(SOURCE / "tests/support")]
from share import share  # noqa: E402
from rlx_tokenizer import ADD_SPECIAL, PARSE_SPECIAL, TRUNCATE  # noqa: E402
from rlx_tokenizer import Tokenizer as Rlx, write_gguf  # noqa: E402
from tokenizer_texts import make_bad, make_texts  # noqa: E402

END = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
CASES = [BEFORE + UPPER + "*" + LOWER + "+", BEFORE + UPPER + "+" + LOWER + "*"]
SLASH = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# tokenizer.ggml.pre name -> the regular expressions it stands for, one after the other; None is
# that of ByteLevel
SPLITS = {
    "gpt-2": [None],
    "smollm": [r"\p{N}", None],
    "llama-bpe": [SHORT + "|" + BEFORE + r"\p{L}+|\p{N}{1,3}" + END],
    "qwen2": [SHORT + "|" + BEFORE + r"\p{L}+|\p{N}" + END],
    "tekken": [CASES[0] + "|" + CASES[1] + r"|\p{N}" + SLASH],
    "gpt-4o": [CASES[0] + SHORT + "?|" + CASES[1] + SHORT + r"?|\p{N}{1,3}" + SLASH],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"""
                    r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", None, "[0-9][0-9][0-9]"],
    "bloom": [" ?[^(\\s|.,!?…。，、।۔،)]+"],
}

counts = {"texts": 0, "tokens": 0}
mistakes = {}


def complain(name, what, text, got, want):
    mistakes[name] = mistakes.get(name, 0) + 1
    if mistakes[name] <= 3:
        print(f"{name}: {what}: {text!r:.200}")
        print(f"    expected {want!r:.300}\n    got      {got!r:.300}")


def check_texts(name, ours, texts, encode, decode=None, decoded_is=None):
    """encode(texts) gives the ids another library has; decode(ids) its text."""
    begin, n_tokens = time.time(), 0
    for text, want in zip(texts, encode(texts)):
        got = ours.encode(text)
        n_tokens += len(got)
        if got != list(want):
            complain(name, "encode", text, got, list(want))
            continue
        back = ours.decode(got)
        if decode:
            other = decode(want)
            if "\ufffd" not in other and back.decode(errors="replace") != other:
                complain(name, "decode", text, back, other)
        elif decoded_is and back != decoded_is(text):
            complain(name, "decode", text, back, decoded_is(text))
        pieces = ours.stream_decode(got)
        try:
            streamed = "".join(p.decode() for p in pieces)
        except UnicodeDecodeError:
            complain(name, "stream: half a character", text, pieces, back)
            continue
        if streamed != back.decode(errors="replace"):
            complain(name, "stream", text, streamed, back)
    counts["texts"] += len(texts)
    counts["tokens"] += n_tokens
    print(f"{name}: {len(texts)} texts, {n_tokens} tokens, {time.time() - begin:.1f} s", flush=True)


def check_bytes(name, ours, bad, missing=()):
    """Byte-level vocabularies give any bytes back, but those they have no letter for."""
    for data in bad:
        back, want = ours.decode(ours.encode(data)), bytes(b for b in data if b not in missing)
        if back != want:
            complain(name, "bytes", data, back, want)
    counts["texts"] += len(bad)


def check_replaced(name, ours, bad):
    """Other vocabularies read U+FFFD where Python does."""
    for data in bad:
        want = ours.encode(data.decode(errors="replace"))
        if ours.encode(data) != want:
            complain(name, "bytes", data, ours.encode(data), want)
    counts["texts"] += len(bad)


def encode_plain(hf):
    return lambda texts: [e.ids for e in hf.encode_batch(texts, add_special_tokens=False)]


def save(hf, folder, name):
    path = folder / name / "tokenizer.json"
    path.parent.mkdir()
    hf.save(str(path))
    return path


# ---- Byte-level BPE ------------------------------------------------------------------------------

def byte_level(regexes):
    steps = []
    for regex in regexes:
        if regex is None:
            steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True))
        else:
            steps.append(pre_tokenizers.Split(Regex(regex), "isolated"))
    # ByteLevel maps the letters, so it must come last: its own expression becomes a Split here.
    gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    steps = [pre_tokenizers.Split(Regex(gpt2), "isolated") if r is None else s
             for r, s in zip(regexes, steps)]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(False, use_regex=False)])


def train_bpe(regexes, texts, nfc=False, ignore_merges=False):
    hf = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if nfc:
        hf.normalizer = normalizers.NFC()
    hf.pre_tokenizer = byte_level(regexes)
    hf.decoder = decoders.ByteLevel()
    hf.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<|endoftext|>", "<|im_start|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return hf


def bpe_meta(hf, pre):
    data = json.loads(hf.to_str())
    vocab = data["model"]["vocab"]
    tokens = [None] * len(vocab)
    for text, i in vocab.items():
        tokens[i] = text
    special = {t["id"] for t in data["added_tokens"] if t["special"]}
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
    return {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [3 if i in special else 1 for i in range(len(tokens))],
            "tokenizer.ggml.merges": merges, "tokenizer.ggml.eos_token_id": 0,
            "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.add_bos_token": True}


def check_byte_level(folder, texts, bad):
    for pre, regexes in SPLITS.items():
        hf = train_bpe(regexes, texts[:3000], ignore_merges=pre in ("llama-bpe", "tekken"))
        for kind in ("json", "gguf"):
            name = f"bpe {pre} {kind}"
            if kind == "json":
                path = save(hf, folder, name)
            else:
                path = folder / f"{pre}.gguf"
                write_gguf(path, bpe_meta(hf, pre))
            ours = Rlx(path)
            check_texts(name, ours, texts, encode_plain(hf), decoded_is=str.encode)
            check_bytes(name, ours, bad)
            special = "<|im_start|>user\nHi<|endoftext|> there"
            if ours.encode(special, PARSE_SPECIAL) != hf.encode(special).ids:
                complain(name, "special", special, ours.encode(special, PARSE_SPECIAL),
                         hf.encode(special).ids)
            if kind == "gguf" and ours.encode("a", ADD_SPECIAL)[0] != 0:
                complain(name, "bos", "a", ours.encode("a", ADD_SPECIAL), "0 ...")
            ours.close()
    hf = train_bpe(SPLITS["qwen2"], texts[:3000], nfc=True)
    ours = Rlx(save(hf, folder, "bpe nfc"))
    check_texts("bpe nfc", ours, texts, encode_plain(hf), hf.decode)
    ours.close()


# ---- Other models of `tokenizers` ----------------------------------------------------------------

def train(model, trainer, texts, **parts):
    hf = Tokenizer(model)
    for key, value in parts.items():
        setattr(hf, key, value)
    hf.train_from_iterator(texts, trainer)
    return hf


def other_tokenizers(texts):
    quiet = {"vocab_size": VOCAB, "show_progress": False}
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    wordpiece = {"special_tokens": bert, **quiet}
    for lower in (True, False):
        yield f"wordpiece lower={lower}", train(
            models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(**wordpiece), texts,
            normalizer=normalizers.BertNormalizer(lowercase=lower),
            pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece())
    spaces = pre_tokenizers.Metaspace()
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield f"unigram {scheme} split={split}", train(
                models.Unigram(), trainers.UnigramTrainer(
                    unk_token="<unk>", special_tokens=["<unk>", "</s>"], **quiet), texts,
                normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
                pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split),
                decoder=decoders.Metaspace(prepend_scheme=scheme, split=split))
    yield "bpe metaspace", train(
        models.BPE(unk_token="<unk>", fuse_unk=True),
        trainers.BpeTrainer(special_tokens=["<unk>"], limit_alphabet=300, **quiet), texts,
        pre_tokenizer=spaces, decoder=decoders.Metaspace())
    yield "bpe suffix", train(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(special_tokens=["<unk>"], end_of_word_suffix="</w>",
                            limit_alphabet=300, **quiet), texts,
        normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.Punctuation(),
                                               pre_tokenizers.Digits(individual_digits=True)]),
        decoder=decoders.BPEDecoder())
    yield "bpe prefix", train(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
        trainers.BpeTrainer(special_tokens=["<unk>"], continuing_subword_prefix="##",
                            limit_alphabet=300, **quiet), texts,
        normalizer=normalizers.NFKD(), pre_tokenizer=pre_tokenizers.BertPreTokenizer())
    yield "wordlevel", train(
        models.WordLevel(unk_token="[UNK]"),
        trainers.WordLevelTrainer(special_tokens=["[UNK]"], **quiet), texts,
        normalizer=normalizers.Strip(),
        pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Whitespace(),
                                               pre_tokenizers.Digits(individual_digits=False)]))
    hf = train(models.BPE(), trainers.BpeTrainer(
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "</s>"],
        **quiet), texts, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True),
        decoder=decoders.ByteLevel())
    hf.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    hf.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("quick brown", single_word=True),
                   AddedToken("fox", rstrip=True, normalized=True), AddedToken("===")])
    yield "roberta", hf


def check_others(folder, texts, bad):
    for name, hf in other_tokenizers(texts[:3000]):
        ours = Rlx(save(hf, folder, name))
        # `tokenizers` drops every blank of the first token, also those inside it: with split=False
        # there are such. It puts no token of a word list together without blanks; nor do we.
        decode = None if "split=False" in name else lambda ids, hf=hf: hf.decode(
            ids, skip_special_tokens=False)
        check_texts(name, ours, texts, encode_plain(hf), decode)
        if name != "roberta":
            check_replaced(name, ours, bad)
        want = hf.encode("Hello <mask> world").ids
        got = ours.encode("Hello <mask> world", ADD_SPECIAL | PARSE_SPECIAL)
        if got != want:
            complain(name, "around", "Hello <mask> world", got, want)
        ours.close()


# ---- SentencePiece -------------------------------------------------------------------------------

def spm_types(sp, i):
    return (2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 5 if sp.is_unused(i) else
            6 if sp.is_byte(i) else 1)


def read_charsmap(path):
    """normalizer_spec.precompiled_charsmap: field 2 of field 3 of the model's protobuf."""
    def fields(data):
        at = 0

        def number():
            nonlocal at
            value, shift = 0, 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = number()
            if key & 7 == 0:
                number()
            elif key & 7 == 2:
                n = number()
                yield key >> 3, data[at:at + n]
                at += n
            else:
                at += 4 if key & 7 == 5 else 8
    for spec in [v for k, v in fields(path.read_bytes()) if k == 3]:
        for key, value in fields(spec):
            if key == 2:
                return value
    return b""


SPM = {
    "spm bpe": ("bpe", "identity", True, True, False),
    "spm bpe no prefix": ("bpe", "identity", False, True, False),
    "spm bpe nmt_nfkc": ("bpe", "nmt_nfkc", True, True, True),
    "spm bpe unknown": ("bpe", "nfkc", True, False, True),
    "spm unigram": ("unigram", "nmt_nfkc", True, False, True),
    "spm unigram bytes": ("unigram", "identity", True, True, False),
    "spm unigram fold": ("unigram", "nmt_nfkc_cf", False, True, False),
}


def train_spm(folder, texts):
    """Name, the trained model and its GGUF metadata, for each row of SPM."""
    lines = folder / "lines.txt"
    lines.write_text("\n".join(t.replace("\x00", "").replace("\n", " ") for t in texts))
    for name, (kind, rule, prefix, fallback, squeeze) in SPM.items():
        base = folder / name
        spm.SentencePieceTrainer.train(
            input=str(lines), model_prefix=str(base), vocab_size=VOCAB, model_type=kind,
            normalization_rule_name=rule, add_dummy_prefix=prefix, byte_fallback=fallback,
            remove_extra_whitespaces=squeeze, character_coverage=0.98, minloglevel=2,
            hard_vocab_limit=False)
        sp = spm.SentencePieceProcessor(model_file=f"{base}.model")
        n = sp.get_piece_size()
        meta = {"general.architecture": "llama",
                "tokenizer.ggml.model": "llama" if kind == "bpe" else "t5",
                "tokenizer.ggml.tokens": [sp.id_to_piece(i) for i in range(n)],
                "tokenizer.ggml.scores": [float(sp.get_score(i)) for i in range(n)],
                "tokenizer.ggml.token_type": [spm_types(sp, i) for i in range(n)],
                "tokenizer.ggml.add_space_prefix": prefix,
                "tokenizer.ggml.remove_extra_whitespaces": squeeze,
                "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
                "tokenizer.ggml.unknown_token_id": 0}
        charsmap = read_charsmap(Path(f"{base}.model"))
        if charsmap:
            meta["tokenizer.ggml.precompiled_charsmap"] = bytearray(charsmap)
        yield name, sp, meta


def llama_json(sp):
    """The same model as `tokenizers` writes it for Llama 2: merges, bytes for what is unknown."""
    n = sp.get_piece_size()
    vocab = {sp.id_to_piece(i): i for i in range(n)}
    merges = []
    for piece, i in vocab.items():
        if spm_types(sp, i) == 1:
            merges += [(-sp.get_score(i), piece[:k], piece[k:]) for k in range(1, len(piece))
                       if piece[:k] in vocab and piece[k:] in vocab]
    merges.sort(key=lambda m: m[0])
    hf = Tokenizer(models.BPE(vocab, [m[1:] for m in merges], unk_token="<unk>", fuse_unk=True,
                              byte_fallback=True))
    hf.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                          normalizers.Replace(" ", "\u2581")])
    hf.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                    decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    hf.add_special_tokens(["<unk>", "<s>", "</s>"])
    hf.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return hf


def check_llama_json(folder, texts, sp):
    hf = llama_json(sp)
    ours = Rlx(save(hf, folder, "llama json"))
    check_texts("llama json", ours, texts, encode_plain(hf), hf.decode)
    for text in texts[:500]:
        text = f"<s> {text}</s>{text}"
        got, want = ours.encode(text, ADD_SPECIAL | PARSE_SPECIAL), hf.encode(text).ids
        if got != want:
            complain("llama json", "special", text, got, want)
    ours.close()


def check_spm(folder, texts, bad):
    safe = [t for t in texts if "\x00" not in t]
    for name, sp, meta in train_spm(folder, texts[:3000]):
        _, rule, prefix, fallback, _ = SPM[name]
        path = folder / f"{name}.gguf"
        write_gguf(path, meta)
        ours = Rlx(path)
        plain = rule == "identity" and fallback
        check_texts(name, ours, safe, sp.encode,
                    decoded_is=(lambda t: t.replace("\u2581", " ").encode()) if plain else None)
        if plain and prefix:
            check_bytes(name, ours, [b.replace("\u2581".encode(), b" ") for b in bad])
        ours.close()
        if name == "spm bpe":
            check_llama_json(folder, texts, sp)


# ---- Models that others trained -----------------------------------------------------------------

def model(name):
    """The path of a model, or None with the reason."""
    path = MODELS / name
    if path.exists():
        return path
    print(f"{name}: left out: not in {MODELS}; tools/fetch/models.sh gets it")
    return None


def read_gguf_lists(path):
    """tokens and merges of a GGUF file, as `rlx inspect` shows them."""
    tool = os.environ.get("RLX_TOOL", str(BUILD / "rlx"))
    done = subprocess.run([tool, "inspect", str(path), "--json"], capture_output=True, check=True)
    meta = json.loads(done.stdout)["metadata"]
    return meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.merges"]


def byte_letter(byte):
    """How byte-level vocabularies write a byte: printable Latin-1 as it is, others from U+0100."""
    odd = [b for b in range(256) if not (33 <= b <= 126 or 161 <= b <= 172 or b >= 174)]
    return chr(256 + odd.index(byte)) if byte in odd else chr(byte)


def check_smollm2(texts, bad):
    path = model("smollm2-135m-instruct.gguf")
    if not path:
        return
    tokens, merges = read_gguf_lists(path)
    hf = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)},
                              [tuple(m.split(" ")) for m in merges]))
    hf.pre_tokenizer = byte_level(SPLITS["smollm"])
    ours = Rlx(path)
    check_texts("SmolLM2", ours, texts, encode_plain(hf), decoded_is=str.encode)
    missing = {b for b in range(256) if byte_letter(b) not in set(tokens)}
    check_bytes("SmolLM2", ours, bad, missing)
    got = ours.encode("The capital of France is", ADD_SPECIAL)
    if got != [504, 3575, 282, 4649, 314]:
        complain("SmolLM2", "reference", "The capital of France is", got, "504 3575 282 4649 314")
    ours.close()


def check_minilm(texts, bad):
    folder = model("all-minilm-l6-v2")
    if not folder:
        return
    path, vocab = folder / "tokenizer.json", folder / "vocab.txt"
    hf = Tokenizer.from_file(str(path))
    hf.no_padding()
    hf.no_truncation()
    files = {"MiniLM": path, "MiniLM vocab.txt": vocab, "MiniLM folder": folder}
    for name, file in files.items():
        ours = Rlx(file)
        check_texts(name, ours, texts, encode_plain(hf),
                    lambda ids: hf.decode(ids, skip_special_tokens=False))
        check_replaced(name, ours, bad)
        hf.enable_truncation(8)
        for text in texts[:500]:
            ours.cap = 8
            got, want = ours.encode(text, ADD_SPECIAL | TRUNCATE), hf.encode(text).ids
            if got != want and "[" not in text:
                complain(name, "truncate", text, got, want)
        hf.no_truncation()
        ours.close()
    lines = vocab.read_text(encoding="utf-8").splitlines()
    phantom = [t[2:] if t.startswith("##") else t if t.startswith("[") and t.endswith("]") else
               "\u2581" + t for t in lines]
    gguf = Path(tempfile.mkdtemp()) / "bert.gguf"
    write_gguf(gguf, {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": phantom,
                      "tokenizer.ggml.token_type": [3 if t[0] == "[" and len(t) > 2 else 1
                                                    for t in phantom],
                      "tokenizer.ggml.bos_token_id": 101, "tokenizer.ggml.unknown_token_id": 100})
    ours = Rlx(gguf)
    check_texts("MiniLM gguf", ours, texts, encode_plain(hf))
    text, want = "This is an example sentence", [101, 2023, 2003, 2019, 2742, 6251, 102]
    if ours.encode(text, ADD_SPECIAL) != want:
        complain("MiniLM gguf", "reference", text, ours.encode(text, ADD_SPECIAL), want)
    ours.close()


def main():
    library = BUILD / "librlx.so"
    try:
        Rlx.load(library)
    except OSError as error:
        skip(f"{library}: {error}")
    seed = int(os.environ.get("RLX_SEED", "1"))
    print(f"seed {seed}")
    every, first = share(5)
    texts, bad = make_texts(N_TEXTS, seed)[first::every], make_bad(N_BAD, seed)[first::every]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_byte_level(folder, texts, bad)
        check_others(folder, texts, bad)
        check_spm(folder, texts, bad)
    check_smollm2(texts, bad)
    check_minilm(texts, bad)
    for name, n in mistakes.items():
        print(f"{name}: {n} mistakes")
    total = sum(mistakes.values())
    print(f"{counts['texts']} texts, {counts['tokens']} tokens, {total} mistakes")
    return 1 if total or not counts['texts'] else 0


if __name__ == "__main__":
    sys.exit(main())
