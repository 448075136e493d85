# SPDX-License-Identifier: MIT
"""Texts of all kinds for the tests of the tokenizers, from a seed."""
import random
import unicodedata

CODE = ["def f(x):\n    return x**2  # squared\n",
        "for (int i = 0; i < n; i++) {\n\tsum += a[i];\n}",
        "if (a->b != NULL && c[0] == '\\0')", "SELECT * FROM t WHERE id >= 10;", "x=0xDEADBEEF",
        "<div class=\"a b\">it's</div>", "printf(\"%d\\n\", 42);", "#include <stdio.h>\r\n",
        "https://example.org/a/b?q=1&r=%20", "user.name+tag@mail.example",
        "C:\\Users\\me\\file.txt",
        "lambda *a, **k: {**k, 'x': [*a]}", "// --- //", "/* a */", "a_b_c __init__ camelCaseWord"]
PROSE = ["The quick brown fox jumps over the lazy dog.",
         "I'm sure you've seen what we'll do, don't",
         "It's SHE'LL THEY'RE I'D WE'VE", "Don\u2019t \u201cquote\u201d me \u2014 please\u2026",
         "Ünïcödé naïve café résumé Ångström", "Straße GROẞE ǅ ǆ İstanbul ıIiİ", "ΑΣ Σίσυφος ΟΔΟΣ",
         "Привет, как дела? Съешь ещё", "Zażółć gęślą jaźń", "Tiếng Việt có dấu", "e.g. i.e. etc."]
CJK = ["你好，世界。这是一个测试！", "日本語のテキスト、カタカナとひらがな", "한국어 텍스트 처리 안녕하세요",
       "漢字かな交じり文123", "中文English混合text", "〇〡〢 ㍿ ㋀ ﾊﾝｶｸ ＦＵＬＬ", "豈更車 \U0002f800"]
ARABIC = ["مرحبا بالعالم كيف حالك؟", "السَّلامُ عَلَيْكُم", "٠١٢٣٤٥٦٧٨٩", "שלום עולם", "שָׁלוֹם",
          "فارسی می‌خواهم"]
INDIC = ["नमस्ते दुनिया", "हिन्दी में पाठ १२३", "বাংলা লেখা", "தமிழ் உரை", "ไทยภาษาไทย", "မြန်မာ",
         "ქართული"]
EMOJI = ["😀", "👨\u200d👩\u200d👧\u200d👦", "🏳️\u200d🌈", "👍🏽", "🇩🇪🇫🇷", "❤️", "1️⃣", "🧑🏿\u200d💻", "☕️☀",
         "✨"]
MARKS = ["e\u0301", "a\u0323\u0302", "o\u0302\u0323", "\u0344", "n\u0303\u0303\u0303",
         "\u1e9b\u0323", "ﬁ ﬂ ﬃ",
         "½ ⅓ ² ³ ₁", "Ω Å K", "\u212b", "가각힣", "\u1100\u1161\u11a8", "ｶﾞ", "\ufdfa", "①②③", "Ⅷ ⅷ"]
CONTROL = ["\x00", "\x01\x02", "\x7f", "\x1b[0m", "\u200b", "\u200e", "\ufeff", "\u00ad", "\x85",
           "\x0b\x0c",
           "\u2028", "\ufffd", "\ue000", "\u2581", "\u2581\u2581x"]
DIGITS = ["0", "7", "42", "123", "1234", "1234567890", "3.14159", "1,000,000", "1e-10", "٤٢",
          "१२३४५", "2²",
          "007", "12:34:56", "2024-01-31", "+49 (0)30 1234567"]
SPACE = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\n   \n", "\t\t ", "\u00a0",
         "\u3000", " " * 17, "\n\t",
         "\u2009", "\r", "  \n\n  x"]
PUNCT = ["!", "?!", "...", "--", "\"'\"", "()", "[]{}", "@#$%^&*", "`~", "|\\/", "¿¡", "«»", "、。",
         "’s", "'S 'LL",
         "'ſ", "$", "+<=>", "_", "€£¥", "©®™", "→⇒∀∃", "....../////", "=====", "!\n\n", "?\r\n/"]
KINDS = [CODE, PROSE, PROSE, CJK, ARABIC, INDIC, EMOJI, MARKS, CONTROL, DIGITS, SPACE, SPACE, PUNCT]
BAD = [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\x80\x80", b"\xc0\xaf", b"\xed\xa0\x80",
       b"\xf5\x80\x80\x80"]


def random_char(rng):
    """A character that has had its category for long, so that no library is too old for it."""
    while True:
        c = chr(rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x2000),
                            rng.randrange(0x2000, 0x3100), rng.randrange(0x3100, 0xd800),
                            rng.randrange(0xf900, 0xfffe), rng.randrange(0x1f300, 0x1f650)]))
        if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs") and \
                unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c):
            return c


def make_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 9)):
        kind = rng.randrange(20)
        if kind == 0:
            parts.append("".join(random_char(rng) for _ in range(rng.randrange(1, 12))))
        elif kind == 1:
            parts.append("".join(rng.choice("abcdeABCD ") for _ in range(rng.randrange(1, 40))))
        else:
            parts.append(rng.choice(rng.choice(KINDS)))
        if rng.random() < 0.6:
            parts.append(rng.choice([" ", " ", " ", "", "\n"]))
    return "".join(parts)


def make_texts(n, seed):
    rng = random.Random(seed)
    singles = [t for kind in KINDS for t in kind]
    return [""] + singles + [make_text(rng) for _ in range(n - 1 - len(singles))]


def make_bad(n, seed):
    """Bytes that are not UTF-8."""
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        text = bytearray(make_text(rng).encode())
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text) + 1)
            text[at:at] = rng.choice(BAD)
        out.append(bytes(text))
    return out
