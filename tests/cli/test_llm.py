#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rlx generate, chat, perplexity and embed with a tiny random model; chat also on a terminal."""
import fcntl
import pty
import re
import select
import signal
import termios
import time
import unicodedata

from cli import *

skip_without_tool()
MODEL = write_tiny_model()
CPU = ["--model", MODEL, "--device", "cpu"]

# ---- generate ------------------------------------------------------------------------------------

got = expect_json("generate", *CPU, "--prompt", "Hello", "--max-tokens", 12, "--ignore-end",
                  "--logits", TMP / "l.npy")
check(len(got["tokens"]) == 12 and got["prompt_tokens"] == 5, f"generate --json: {got}")
check(got["finish"] == "length" and got["tokens_per_s"] > 0 and got["prompt_tokens_per_s"] > 0,
      f"generate --json: {got}")
head, logits = read_npy(TMP / "l.npy")
check(head["shape"] == (257,) and logits.index(max(logits)) == got["tokens"][0],
      "--logits: not those of the first token")
again = expect_json("generate", *CPU, "--prompt", "Hello", "--max-tokens", 12, "--ignore-end")
check(again["tokens"] == got["tokens"], "generate is not the same twice")
file = write("prompt.txt", "Hello")
again = expect_json("generate", *CPU, "--prompt-file", file, "--max-tokens", 12, "--ignore-end")
check(again["tokens"] == got["tokens"], "--prompt-file")
lively = ["--temperature", 1.5, "--top-k", 40, "--top-p", 0.9, "--min-p", 0.01, "--repeat-penalty",
          1.1, "--max-tokens", 12, "--ignore-end"]
seeds = [expect_json("generate", *CPU, "--prompt", "Hello", *lively, "--seed", s)["tokens"]
         for s in (1, 1, 2)]
check(seeds[0] == seeds[1] != seeds[2], f"--seed: {seeds}")
zeros = [expect_json("generate", *CPU, "--prompt", "Hello", *lively, "--seed", 0)["tokens"]
         for _ in range(2)]
check(zeros[0] == zeros[1], f"--seed 0 is a seed as others: {zeros}")
none = expect_json("generate", *CPU, "--prompt", "Hello", "--prompt-only", "--logits",
                   TMP / "p.npy")
check(none["tokens"] == [] and none["prompt_tokens"] == 5, f"--prompt-only: {none}")
check(read_npy(TMP / "p.npy")[1] == logits, "--prompt-only --logits: other logits")
all_of_it = expect_json("generate", *CPU, "--prompt", "Hello", "-n", 0, "--ctx", 40, "--ignore-end")
check(all_of_it["finish"] == "context", f"-n 0 has no limit but the context: {all_of_it}")
expect(0, "generate", *CPU, "-p", "Hello", "--ctx", 200, "--ignore-end",
       err="cut at 128 tokens: --max-tokens")
expect(0, "generate", *CPU, "--prompt", "Hello", "--max-tokens", 3, "--stats", "--profile",
       err="a step takes")
expect(0, "generate", *CPU, "--chat", "--system", "S", "--prompt", "Hi", "--max-tokens", 3,
       "--ctx", 256)
for cache in ("f32", "q8_0"):
    expect(0, "generate", *CPU, "--prompt", "Hello", "--max-tokens", 3, "--cache", cache)
expect(0, "generate", *CPU, "--prompt", "Hello", "--max-tokens", 99, "--ctx", 16, "--shift")
expect(0, "generate", *CPU, "--prompt", "Hello", "--max-tokens", 99, "--ctx", 16, "--ignore-end",
       err="the context is full")

expect(2, "generate", *CPU, err="--prompt TEXT and --prompt-file FILE")
expect(2, "generate", "--prompt", "x", err="a model is needed")
expect(2, "generate", *CPU, "--prompt", "x", "--temperature", "hot", err="got 'hot'")
expect(2, "generate", *CPU, "--prompt", "x", "--policy", "wild", err="exact or fast")
expect(2, "generate", *CPU, "--prompt", "x", "--cache", "q4_0", err="f16, f32 or q8_0")
expect(1, "generate", "--model", TMP / "none.gguf", "--prompt", "x", err="none.gguf")
expect(1, "generate", "--model", TMP, "--prompt", "x", err="holds no model")
expect(1, "generate", *CPU, "--ctx", 4, "--prompt", "Hello", err="the context holds 4")
check(len(expect(0, "embed", *CPU, "text").split()) > 8, "embed with a decoder")
broken = TMP / "broken.gguf"
broken.write_bytes(MODEL.read_bytes()[:5000])
expect(1, "generate", "--model", broken, "--prompt", "x", err="broken.gguf")

# ---- penalties, bias, log-probabilities: by the engine ------------------------------------------

plain = expect_json("generate", *CPU, "--prompt", "Hello", "--max-tokens", 8, "--ignore-end",
                    "--policy", "exact", "--logits", TMP / "e.npy")
said = expect_json("generate", *CPU, "--prompt", "Hello", "--max-tokens", 8, "--ignore-end",
                   "--policy", "exact", "--logprobs", 3)
check(said["tokens"] == plain["tokens"], f"--logprobs changes the text: {said} {plain}")
logits = read_npy(TMP / "e.npy")[1]
total = sum(2.718281828459045 ** (v - max(logits)) for v in logits)
first = said["logprobs"][0]
check(len(said["logprobs"]) == 8 and len(first["best"]) == 3 and
      first["best"][0]["token"] == first["token"] == plain["tokens"][0] and
      abs(2.718281828459045 ** first["logprob"] - 1 / total) < 1e-3, f"--logprobs: {first}")
shown = expect(0, "generate", *CPU, "--prompt", "Hello", "--max-tokens", 4, "--logprobs", 2)
check(len(shown.strip().split("\n")) == 5 and shown.startswith("logprob"), f"--logprobs: {shown}")
first, second = plain["tokens"][0], said["logprobs"][0]["best"][1]["token"]
for bias, want in ((f"{first}=no", second), (f"{second}=1000", second), (f"{first}=-0", first)):
    got = expect_json("generate", *CPU, "--prompt", "Hello", "--max-tokens", 1, "--ignore-end",
                      "--policy", "exact", "--logit-bias", bias)
    check(got["tokens"] == [want], f"--logit-bias {bias}: {got['tokens']}, expected {want}")
for penalty in ("--presence-penalty", "--frequency-penalty"):
    got = expect_json("generate", *CPU, "--prompt", "Hello", "--max-tokens", 40, "--ignore-end",
                      penalty, 100)["tokens"]
    check(len(set(got)) == len(got) == 40, f"{penalty} 100 repeats a token: {got}")
expect(2, "generate", *CPU, "--prompt", "x", "--presence-penalty", 200, err="from -100 to 100")
expect(2, "generate", *CPU, "--prompt", "x", "--logprobs", 21, err="at most 20, got 21")
expect(2, "generate", *CPU, "--prompt", "x", "--logit-bias", "5", err="expected TOKEN=NUMBER")
expect(2, "generate", *CPU, "--prompt", "x", "--logit-bias", "5=x", err="number or 'no' behind")
expect(2, "generate", *CPU, "--prompt", "x", "--logit-bias", "999=1", err="from 0 to 256, got 999")
expect(2, "generate", *CPU, "--prompt", "x", "--logit-bias", "ab=1", err="'ab' is 2")
expect(2, "generate", *CPU, "--prompt", "x", "--logprobs", 1, "--shift", err="do not go with")

# ---- samplers and beams --------------------------------------------------------------------------

short = ["generate", *CPU, "--prompt", "abcabcabc", "--max-tokens", 20, "--ignore-end"]
greedy = expect_json(*short)["tokens"]
dry = expect_json(*short, "--dry-multiplier", 9, "--dry-allowed-length", 1)["tokens"]
check(dry != greedy and expect_json(*short, "--dry-multiplier", 0)["tokens"] == greedy,
      "--dry-multiplier")
again = expect_json(*short, "--dry-multiplier", 9, "--dry-allowed-length", 1, "--logprobs", 0)
check(again["tokens"] == dry, "--dry-multiplier: another text of an engine")
for more in (["--typical-p", 0.3], ["--xtc-probability", 1, "--xtc-threshold", 0.01],
             ["--mirostat", 2, "--mirostat-tau", 2]):
    texts = [expect_json(*short, "--temperature", 1, "--seed", 4, *m)["tokens"]
             for m in ([], more, more)]
    check(texts[0] != texts[1] == texts[2], f"{more}: {texts}")
expect(2, *short, "--mirostat", 1, err="--mirostat expected 2, its version, or 0 (off), got 1")
expect(2, *short, "--dry-base", 0.5, "--dry-multiplier", 1, err="--dry-base expected a number from")
expect(0, *short, "--xtc-threshold", 0.1, err="no effect without --xtc-probability")
one = expect_json(*short, "--beams", 1)
check(one["tokens"] == greedy and one["mean_log_prob"] < 0, f"--beams 1 is greedy: {one}")
four = expect_json(*short, "--beams", 4)
check(four["mean_log_prob"] >= one["mean_log_prob"] and len(four["tokens"]) == 20,
      f"--beams 4: {four}")
expect(2, *short, "--beams", 2, "--temperature", 1, err="--temperature, --stop, grammars")
expect(2, *short, "--beams", 65, err="at most 64")

# ---- perplexity ----------------------------------------------------------------------------------

text = write("text.txt", "All work and no play makes Jack a dull boy. " * 8)
one = expect_json("perplexity", *CPU, text, "--ctx", 32)
two = expect_json("perplexity", *CPU, text, "--ctx", 32, "--stride", 16)
check(one["tokens"] == two["tokens"] == len(text.read_text()) - 1, f"perplexity: {one} {two}")
check(50 < one["perplexity"] < 1e6 and one["error"] > 0, f"perplexity: {one}")
expect(0, "perplexity", *CPU, text, "--ctx", 64, out="perplexity ")
expect(2, "perplexity", *CPU, text, "--ctx", 16, "--stride", 17, err="--stride")

# ---- chat, without a terminal --------------------------------------------------------------------

chat = ["chat", *CPU, "--ctx", 512, "--max-tokens", 8, "--temperature", 0]
saved = TMP / "talk.rlx"
first = expect(0, *chat, stdin="Hi\nMore\n")
expect(0, *chat, "--save", saved, stdin="Hi\n")
second = run(*chat, "--load", saved, stdin="More\n")
check(second[0] == 0 and first.endswith(second[1]), f"--load: {first!r} {second!r}")
expect(1, *chat, "--load", "/no/such", stdin="Hi\n", err="/no/such")
# Lines of a pipe are said, whatever they begin with: they command nothing.
saved.unlink()
expect(0, *chat, stdin=f"Hi\n/save {saved}\n/nothing\n")
check(not saved.exists(), "a line of a pipe wrote a file")
expect(0, *chat, stdin="Hi\n", err="the model has no chat template")


# ---- chat, on a terminal -------------------------------------------------------------------------

HISTORY = TMP / "history"


def screen(text, columns=40):
    """The rows that a terminal of so many columns shows after the text, and where the cursor is:
    what of the escape sequences the editor uses, and characters of two columns."""
    rows, row, column = [{}], 0, 0
    for m in re.finditer(r"\033\[(\??\d*)([A-Za-z])|(.)", text, re.S):
        number, letter, c = m.groups()
        width = 2 if c and unicodedata.east_asian_width(c) in "WF" else 1
        if letter == "A":
            row -= int(number or 1)
        elif letter == "C":
            column = min(column + int(number or 1), columns - 1)
        elif letter == "J":
            rows[row:] = [{k: v for k, v in rows[row].items() if k < column}]
        elif c == "\r":
            column = 0
        elif c == "\n" or (c and column + width > columns):
            row, column = row + 1, column if c == "\n" else 0
        while row >= len(rows):
            rows.append({})
        if c and c not in "\r\n":
            rows[row][column] = c
            column += width
    return ["".join(r[k] for k in sorted(r)).rstrip() for r in rows], (row, column)


class Terminal:
    """rlx chat on a pseudo terminal."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(RLX_HISTORY=str(HISTORY), TERM="xterm", NO_COLOR="1")
            os.execv(TOOL, [TOOL, *map(str, args)])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        self.seen = ""

    def wait_for(self, text, seconds=60):
        """Reads until the text appears; what came before it is dropped."""
        end = time.time() + seconds
        while text not in self.seen and time.time() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096).decode(errors="replace")
                except OSError:
                    break
        ok = text in self.seen
        check(ok, f"on a terminal: expected {text!r}, got {self.seen[-500:]!r}")
        self.seen = self.seen.split(text, 1)[1] if ok else ""

    def settle(self):
        """Reads until nothing comes for a while."""
        while select.select([self.fd], [], [], 0.5)[0]:
            self.seen += os.read(self.fd, 4096).decode(errors="replace")

    def drain(self):
        self.settle()
        self.seen = ""

    def send(self, keys):
        os.write(self.fd, keys.encode())

    def close(self, seconds=60):
        """Waits for the end and returns the status; a program that goes on is killed."""
        end = time.time() + seconds
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0 and time.time() < end:
            time.sleep(0.02)
        if ended[0] == 0:
            os.kill(self.pid, signal.SIGKILL)
            ended = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(ended[1])


t = Terminal(*chat)
t.wait_for("> ")
t.send("/ststs\x1b[D\x1b[D\x7fa\r")  # two to the left, the wrong letter away: /stats
t.wait_for("0 answers")
t.wait_for("> ")
t.send("Hé\x01X\x05!\r")
t.wait_for("XHé!")
t.wait_for("tokens/s")
t.send("\x1b[A\x1b[A\r")  # two lines up in the history
t.wait_for("/stats")
t.wait_for("1 answers")
t.settle()
t.send("/stats\r")  # rows end between words
t.settle()
rows = t.seen.split("/stats", 1)[1].replace("\r", "").split("\n")
check(len(rows) > 5 and max(map(len, rows)) <= 40, f"rows of /stats in 40 columns: {rows}")
check(not any(row.endswith(("tok", "toke", "token", "tokens/")) for row in rows), f"cut: {rows}")
t.seen = ""
t.send("abc\x03")  # Ctrl-C drops the line
t.wait_for("> ")
t.send("words to kill\x17\x17\x17/help\r")
t.wait_for("/regen")
t.settle()
rows = t.seen.replace("\r", "").split("\n")
check(max(map(len, rows)) <= 80, f"/help has 80 columns: {rows}")
t.wait_for("Ctrl-C stops an answer")
t.wait_for("> ")  # before it the terminal would take Ctrl-D itself
t.send("\x04")
check(t.close() == 0, "Ctrl-D does not end rlx chat with status 0")

# Characters of two columns and of none, a text longer than a row, and keys inside of it.
t = Terminal(*chat)
t.wait_for("> ")
t.drain()
t.send("日本語のテキスト🙂")
t.settle()
check(screen("> " + t.seen)[0] == ["> 日本語のテキスト🙂"], f"wide characters: {screen(t.seen)}")
check(screen("> " + t.seen)[1] == (0, 20), f"cursor behind wide characters: {screen(t.seen)}")
t.send("\x1b[D\x1b[D\x7f" + "x" * 30)
t.settle()
check(screen("> " + t.seen)[0] == ["> 日本語のテキ" + "x" * 26, "xxxxト🙂"],
      f"a wrapped text: {screen(t.seen)}")
check(screen("> " + t.seen)[1] == (1, 4), f"cursor in a wrapped text: {screen(t.seen)}")
t.send("\x15")
t.settle()
check(screen("> " + t.seen)[0] == ["> ト🙂"], f"Ctrl-U: {screen(t.seen)}")
t.send("\x05\x15")
# A paste of 30 lines is one message, and so is a text with Alt-Enter.
t.send("\x1b[200~" + "".join(f"line {i}\r" for i in range(30)) + "end\x1b[201~\r")
t.wait_for("tokens/s")
t.wait_for("> ")
t.send("two\x1b\rlines\r")
t.wait_for("tokens/s")
t.wait_for("> ")
t.send("/stats\r")
t.wait_for("2 answers")
# Commands of a conversation.
for keys, answer in (("/undo", "are forgotten"), ("/regen", "tokens/s"),
                     ("/set top-k x", "got 'x'"), ("/set seed 3", "> "),
                     ("/set wild 3", "'wild'"), ("/read /no/such", "/no/such"),
                     ("/nothing", "/help lists them"),
                     ("/regne", "did you mean /regen?"), ("/set", "temperature        0"),
                     ("/set temperature hot", "error: /set temperature"),
                     ("/set parameter seed 3", "> "), ("/clear", "Forgotten."),
                     ("\x03\x03", "(Ctrl-D or /quit ends)"), ("/save", "/save needs a value"),
                     ("/set max-tokens 2", "> "), ("Hi", "cut at 2 tokens: /set max-tokens N"),
                     ("/system Be kind.", "A new conversation"),
                     ("/undo", "question to take back")):
    t.wait_for("> ")
    t.send(keys + "\r")
    t.wait_for(answer)
t.wait_for("> ")
t.send("Question\r")
t.wait_for("tokens/s")
t.wait_for("> ")
t.send("/edit\r")
t.wait_for("> Question")
t.send("s\r")
t.wait_for("tokens/s")
t.send("/quit\r")
check(t.close() == 0, "/quit")
# The history outlives the program; entries of several lines too.
check("two\\nlines\n" in HISTORY.read_text(), f"history: {HISTORY.read_text()!r}")
t = Terminal(*chat)
t.wait_for("> ")
t.send("\x1b[A\x1b[A\r")
t.wait_for("Questions")
t.wait_for("tokens/s")
t.send("/quit\r")
check(t.close() == 0, "/quit")

# A full context is told.
t = Terminal("chat", *CPU, "--ctx", 256, "--max-tokens", 12, "--ignore-end")
for i in range(6):
    t.wait_for("> ")
    t.send("Hello there\r")
t.wait_for("model no longer sees the first")
t.send("\x04")
t.close()

# Ctrl-C stops the answer, not the program.
t = Terminal("chat", *CPU, "--ctx", 100000, "--ignore-end")
t.wait_for("> ")
t.send("Talk\r")
time.sleep(0.3)
os.kill(t.pid, signal.SIGINT)
t.wait_for("(stopped)")
t.send("/bye\r")
check(t.close() == 0, "Ctrl-C ended rlx chat")
finish()
