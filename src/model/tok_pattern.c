/* SPDX-License-Identifier: MIT */
/* The splitting rules of byte-level BPE vocabularies as tables: a pattern is a list of
 * alternatives, an alternative a list of runs of characters of one class. The first that matches
 * wins; runs are greedy and backtrack, as in the regular expressions that these rules come from. */
#include <string.h>

#include "model/tok.h"
#include "model/unicode.h"

/* ---- Classes of characters ------------------------------------------------------------------- */

typedef struct code_range {
    uint32_t first, last;
} code_range;

typedef struct char_class {
    uint32_t bits;            /* categories and RX_IN_SPACE */
    const char *letters;      /* more members, ASCII */
    const code_range *ranges; /* more members; ends in {0, 0} */
    bool negate;
} char_class;

static const code_range cjk_kana[] = {{0x4e00, 0x9fa5}, {0x3040, 0x309f}, {0x30a0, 0x30ff}, {0, 0}};
static const code_range cjk_wide[] = {{0x0800, 0x9fa5}, {0xac00, 0xd7ff}, {0, 0}};
static const code_range wide_marks[] = {{'!', '/'}, {':', '~'}, {0xff01, 0xff0f}, {0xff1a, 0xff5e},
                                        {0x2018, 0x201f}, {0x3000, 0x3002}, {0, 0}};
static const code_range sentence_marks[] = {{0x2026, 0x2026}, {0x3002, 0x3002}, {0xff0c, 0xff0c},
                                            {0x3001, 0x3001}, {0x0964, 0x0964}, {0x06d4, 0x06d4},
                                            {0x060c, 0x060c}, {0, 0}};
static const code_range ascii_letters[] = {{'A', 'Z'}, {'a', 'z'}, {0, 0}};
static const code_range ascii_digits[] = {{'0', '9'}, {0, 0}};
static const code_range word_extra[] = {{0x200c, 0x200d}, {0x24b6, 0x24e9}, {0, 0}};

#define ASCII_MARKS "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
#define IN_CASED (RX_IN(RX_LU) | RX_IN(RX_LL) | RX_IN(RX_LT))
#define IN_UPPER (RX_IN(RX_LU) | RX_IN(RX_LT) | RX_IN(RX_LM) | RX_IN(RX_LO) | RX_IN_M)
#define IN_LOWER (RX_IN(RX_LL) | RX_IN(RX_LM) | RX_IN(RX_LO) | RX_IN_M)
#define IN_WORD (RX_IN_L | RX_IN_M | RX_IN(RX_ND) | RX_IN(RX_NL) | RX_IN(RX_PC))

enum {
    C_NONE, C_BLANK, C_SPACE, C_NEWLINE, C_NEWLINE_SLASH, C_LETTER, C_NUMBER, C_DIGIT, C_PUNCT,
    C_OTHER, C_OTHER_NO_MARK, C_OTHER_NO_NEWLINE, C_BEFORE, C_LETTER_MARK, C_UPPER, C_LOWER,
    C_CASED, C_PUNCT_SYMBOL, C_BEFORE_SYMBOL, C_ASCII_MARK, C_ASCII_LETTER, C_CJK_KANA, C_CJK_WIDE,
    C_WIDE_MARK, C_FALCON_MARK, C_PLAIN_MARK, C_SENTENCE, C_WORD, C_NO_WORD, C_NO_SPACE
};

static const char_class classes[] = {
    [C_BLANK] = {.letters = " "},
    [C_SPACE] = {.bits = RX_IN_SPACE},
    [C_NEWLINE] = {.letters = "\r\n"},
    [C_NEWLINE_SLASH] = {.letters = "\r\n/"},
    [C_LETTER] = {.bits = RX_IN_L},
    [C_NUMBER] = {.bits = RX_IN_N},
    [C_DIGIT] = {.ranges = ascii_digits},
    [C_PUNCT] = {.bits = RX_IN_P},
    [C_OTHER] = {.bits = RX_IN_SPACE | RX_IN_L | RX_IN_N, .negate = true},
    [C_OTHER_NO_MARK] = {.bits = RX_IN_SPACE | RX_IN_L | RX_IN_M | RX_IN_N, .negate = true},
    [C_OTHER_NO_NEWLINE] = {.bits = RX_IN_SPACE | RX_IN_L | RX_IN_N, .letters = "\r\n",
                            .negate = true},
    [C_BEFORE] = {.bits = RX_IN_L | RX_IN_N, .letters = "\r\n", .negate = true},
    [C_LETTER_MARK] = {.bits = RX_IN_L | RX_IN_M},
    [C_UPPER] = {.bits = IN_UPPER},
    [C_LOWER] = {.bits = IN_LOWER},
    [C_CASED] = {.bits = IN_CASED},
    [C_PUNCT_SYMBOL] = {.bits = RX_IN_P | RX_IN_S},
    [C_BEFORE_SYMBOL] = {.bits = RX_IN_L | RX_IN_P | RX_IN_S, .letters = "\r\n", .negate = true},
    [C_ASCII_MARK] = {.letters = ASCII_MARKS},
    [C_ASCII_LETTER] = {.ranges = ascii_letters},
    [C_CJK_KANA] = {.ranges = cjk_kana},
    [C_CJK_WIDE] = {.ranges = cjk_wide},
    [C_WIDE_MARK] = {.ranges = wide_marks},
    [C_FALCON_MARK] = {.bits = RX_IN_P, .letters = "$+<=>^~|`"},
    [C_PLAIN_MARK] = {.bits = RX_IN_P, .letters = "$+<=>^~|"},
    [C_SENTENCE] = {.bits = RX_IN_SPACE, .letters = "(|.,!?)", .ranges = sentence_marks,
                    .negate = true},
    [C_WORD] = {.bits = IN_WORD, .ranges = word_extra},
    [C_NO_WORD] = {.bits = IN_WORD | RX_IN_SPACE, .ranges = word_extra, .negate = true},
    [C_NO_SPACE] = {.bits = RX_IN_SPACE, .negate = true},
};

static bool in_class(const char_class *c, uint32_t code)
{
    bool in = c->bits && (rx_unicode_bits(code) & c->bits);
    if (!in && c->letters && code && code < 0x80)
        in = strchr(c->letters, (int)code) != NULL;
    for (const code_range *r = c->ranges; !in && r && r->last; r++)
        in = code >= r->first && code <= r->last;
    return in != c->negate;
}

/* ---- Alternatives ---------------------------------------------------------------------------- */

#define MANY 255
#define MAX_RUNS 4

typedef struct char_run {
    uint8_t class, min, max; /* class C_NONE ends the list */
} char_run;

typedef enum alternative_kind {
    ALT_END,
    ALT_RUNS,
    ALT_RUNS_THEN_SHORT,  /* runs, then perhaps a short form in any case */
    ALT_SHORT,            /* 's 't 're 've 'm 'll 'd */
    ALT_SHORT_ANY_CASE,
    ALT_SPACE_NOT_BEFORE, /* white space, less its last character where text follows */
    ALT_SPACE_AT_END      /* white space up to the end of the text */
} alternative_kind;

typedef struct alternative {
    alternative_kind kind;
    char_run runs[MAX_RUNS];
} alternative;

struct rx_pattern {
    const char *name;
    const alternative *alternatives;
    const char *const *regexes; /* what tokenizer.json calls it; ends in NULL */
};

#define RUNS(...) {ALT_RUNS, {__VA_ARGS__}}
#define OPT(c) {c, 0, 1}
#define ONE(c) {c, 1, 1}
#define SOME(c) {c, 1, MANY}
#define ANY(c) {c, 0, MANY}
#define UP_TO_3(c) {c, 1, 3}
#define REST_OF_SPACE {ALT_SPACE_NOT_BEFORE, {{0}}}, RUNS(SOME(C_SPACE)), {ALT_END, {{0}}}
#define NEWLINES_AND_SPACE RUNS(ANY(C_SPACE), SOME(C_NEWLINE)), REST_OF_SPACE

static const alternative gpt2[] = {
    {ALT_SHORT, {{0}}}, RUNS(OPT(C_BLANK), SOME(C_LETTER)), RUNS(OPT(C_BLANK), SOME(C_NUMBER)),
    RUNS(OPT(C_BLANK), SOME(C_OTHER)), REST_OF_SPACE};
static const alternative llama3[] = {
    {ALT_SHORT_ANY_CASE, {{0}}}, RUNS(OPT(C_BEFORE), SOME(C_LETTER)), RUNS(UP_TO_3(C_NUMBER)),
    RUNS(OPT(C_BLANK), SOME(C_OTHER), ANY(C_NEWLINE)), NEWLINES_AND_SPACE};
static const alternative qwen2[] = {
    {ALT_SHORT_ANY_CASE, {{0}}}, RUNS(OPT(C_BEFORE), SOME(C_LETTER)), RUNS(ONE(C_NUMBER)),
    RUNS(OPT(C_BLANK), SOME(C_OTHER), ANY(C_NEWLINE)), NEWLINES_AND_SPACE};
static const alternative qwen35[] = {
    {ALT_SHORT_ANY_CASE, {{0}}}, RUNS(OPT(C_BEFORE), SOME(C_LETTER_MARK)), RUNS(ONE(C_NUMBER)),
    RUNS(OPT(C_BLANK), SOME(C_OTHER_NO_MARK), ANY(C_NEWLINE)), NEWLINES_AND_SPACE};
static const alternative bailing[] = {
    {ALT_SHORT_ANY_CASE, {{0}}}, RUNS(OPT(C_BEFORE), SOME(C_LETTER)), RUNS(ONE(C_NUMBER)),
    RUNS(OPT(C_BLANK), SOME(C_OTHER), ANY(C_NEWLINE)), RUNS(ANY(C_SPACE), ONE(C_NEWLINE)),
    REST_OF_SPACE};
static const alternative seed_coder[] = {
    {ALT_SHORT_ANY_CASE, {{0}}}, RUNS(OPT(C_BEFORE), SOME(C_LETTER)), RUNS(ONE(C_NUMBER)),
    RUNS(OPT(C_BLANK), SOME(C_OTHER_NO_NEWLINE)), NEWLINES_AND_SPACE};
static const alternative tekken[] = {
    RUNS(OPT(C_BEFORE), ANY(C_UPPER), SOME(C_LOWER)),
    RUNS(OPT(C_BEFORE), SOME(C_UPPER), ANY(C_LOWER)), RUNS(ONE(C_NUMBER)),
    RUNS(OPT(C_BLANK), SOME(C_OTHER), ANY(C_NEWLINE_SLASH)), NEWLINES_AND_SPACE};
static const alternative gpt4o[] = {
    {ALT_RUNS_THEN_SHORT, {OPT(C_BEFORE), ANY(C_UPPER), SOME(C_LOWER)}},
    {ALT_RUNS_THEN_SHORT, {OPT(C_BEFORE), SOME(C_UPPER), ANY(C_LOWER)}}, RUNS(UP_TO_3(C_NUMBER)),
    RUNS(OPT(C_BLANK), SOME(C_OTHER), ANY(C_NEWLINE_SLASH)), NEWLINES_AND_SPACE};
static const alternative deepseek3[] = {
    RUNS(ONE(C_ASCII_MARK), SOME(C_ASCII_LETTER)),
    RUNS(OPT(C_BEFORE_SYMBOL), SOME(C_LETTER_MARK)),
    RUNS(OPT(C_BLANK), SOME(C_PUNCT_SYMBOL), ANY(C_NEWLINE)), NEWLINES_AND_SPACE};

#define LIST(...) {__VA_ARGS__, {ALT_END, {{0}}}}
static const alternative newline[] = LIST(RUNS(ONE(C_NEWLINE)));
static const alternative letters[] = LIST(RUNS(OPT(C_SPACE), SOME(C_LETTER)));
static const alternative cased[] = LIST(RUNS(OPT(C_SPACE), SOME(C_CASED)));
static const alternative marks[] = LIST(RUNS(OPT(C_SPACE), SOME(C_PUNCT)));
static const alternative wide_mark[] = LIST(RUNS(OPT(C_SPACE), SOME(C_WIDE_MARK)));
static const alternative space_end[] = LIST({ALT_SPACE_AT_END, {{0}}});
static const alternative wide[] = LIST(RUNS(SOME(C_CJK_WIDE)));
static const alternative kana[] = LIST(RUNS(SOME(C_CJK_KANA)));
static const alternative number[] = LIST(RUNS(ONE(C_NUMBER)));
static const alternative numbers[] = LIST(RUNS(SOME(C_NUMBER)));
static const alternative numbers3[] = LIST(RUNS(UP_TO_3(C_NUMBER)));
static const alternative digits3[] = LIST(RUNS({C_DIGIT, 3, 3}));
static const alternative falcon_marks[] = LIST(RUNS(SOME(C_FALCON_MARK)));
static const alternative plain_marks[] = LIST(RUNS(SOME(C_PLAIN_MARK)));
static const alternative sentence[] = LIST(RUNS(OPT(C_BLANK), SOME(C_SENTENCE)));
static const alternative words[] = LIST(RUNS(SOME(C_WORD)), RUNS(SOME(C_NO_WORD)));
static const alternative spaces[] = LIST(RUNS(SOME(C_SPACE)));
static const alternative no_spaces[] = LIST(RUNS(SOME(C_NO_SPACE)));

#define SHORT_I "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TEKKEN_1 "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*" \
                 "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
#define TEKKEN_2 "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+" \
                 "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
#define TEKKEN_END "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA_END "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SHORT_SETS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define REGEXES(...) (const char *const[]){__VA_ARGS__, NULL}

static const rx_pattern patterns[] = {
    {"gpt2", gpt2, REGEXES(
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+")},
    {"llama3", llama3, REGEXES(
        SHORT_I "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" LLAMA_END,
        SHORT_SETS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" LLAMA_END)},
    {"qwen2", qwen2, REGEXES(
        SHORT_I "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" LLAMA_END,
        SHORT_SETS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" LLAMA_END)},
    {"qwen35", qwen35, REGEXES(
        SHORT_I "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")},
    {"bailing", bailing, REGEXES(
        "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++"
        "[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+")},
    {"seed_coder", seed_coder, REGEXES(
        SHORT_I "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+"
        "|\\s+(?!\\S)|\\s+")},
    {"tekken", tekken, REGEXES(TEKKEN_1 "|" TEKKEN_2 "|\\p{N}" TEKKEN_END)},
    {"gpt4o", gpt4o, REGEXES(
        TEKKEN_1 SHORT_I "?|" TEKKEN_2 SHORT_I "?|\\p{N}{1,3}" TEKKEN_END)},
    {"deepseek3", deepseek3, REGEXES(
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
        "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")},
    {"newline", newline, REGEXES("[\\r\\n]")},
    {"letters", letters, REGEXES("\\s?\\p{L}+")},
    {"cased", cased, NULL},
    {"marks", marks, REGEXES("\\s?\\p{P}+")},
    {"wide_mark", wide_mark, NULL},
    {"space_end", space_end, REGEXES("\\s+$")},
    {"wide", wide, REGEXES("[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80"
                           "\xea\xb0\x80-\xed\x9f\xbf]+")},
    {"kana", kana, REGEXES("[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f"
                           "\xe3\x82\xa0-\xe3\x83\xbf]+")},
    {"number", number, REGEXES("\\p{N}")},
    {"numbers", numbers, REGEXES("\\p{N}+")},
    {"numbers3", numbers3, REGEXES("\\p{N}{1,3}")},
    {"digits3", digits3, REGEXES("[0-9][0-9][0-9]")},
    {"falcon_marks", falcon_marks, REGEXES("[\\p{P}\\$\\+<=>\\^~\\|`]+")},
    {"plain_marks", plain_marks, REGEXES("[\\p{P}\\$\\+<=>\\^~\\|]+")},
    {"sentence", sentence, REGEXES(" ?[^(\\s|[.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81"
                                   "\xe0\xa5\xa4\xdb\x94\xd8\x8c])]+",
                                   " ?[^(\\s|.,!?\xe2\x80\xa6\xe3\x80\x82\xef\xbc\x8c\xe3\x80\x81"
                                   "\xe0\xa5\xa4\xdb\x94\xd8\x8c)]+")},
    {"words", words, REGEXES("\\w+|[^\\w\\s]+")},
    {"spaces", spaces, REGEXES("\\s+")},
    {"no_spaces", no_spaces, REGEXES("\\S+")},
};

/* ---- Matching -------------------------------------------------------------------------------- */

/* Start of the character before `at`. */
static size_t step_back(const char *s, size_t at)
{
    uint32_t code;
    for (size_t back = 4; back > 1; back--)
        if (back <= at && rx_utf8_get(s + at - back, back, &code) == back)
            return at - back;
    return at - 1;
}

static bool match_runs(const char_run *runs, size_t left, const char *s, size_t n, size_t *at)
{
    if (left == 0 || runs->class == C_NONE)
        return true;
    const char_class *c = &classes[runs->class];
    size_t begin = *at, end = begin, count = 0;
    uint32_t code;
    while (end < n && (runs->max == MANY || count < runs->max)) {
        size_t step = rx_utf8_get(s + end, n - end, &code);
        if (!in_class(c, code))
            break;
        end += step;
        count++;
    }
    while (count >= runs->min) {
        *at = end;
        if (match_runs(runs + 1, left - 1, s, n, at))
            return true;
        if (count-- == 0)
            break;
        end = step_back(s, end);
    }
    *at = begin;
    return false;
}

static size_t match_short(const char *s, size_t n, bool any_case)
{
    static const char *const forms[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (n < 2 || s[0] != '\'')
        return 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t k = 0;
        while (forms[i][k] && k + 1 < n &&
               (s[k + 1] == forms[i][k] || (any_case && s[k + 1] == (forms[i][k] & ~0x20))))
            k++;
        if (!forms[i][k])
            return k + 1;
    }
    bool long_s = any_case && n >= 3 && !memcmp(s + 1, "\xc5\xbf", 2); /* folds to s */
    return long_s ? 3 : 0;
}

static size_t match_space(const char *s, size_t n, bool at_end)
{
    size_t end = 0, last = 0;
    while (end < n) {
        uint32_t code;
        size_t step = rx_utf8_get(s + end, n - end, &code);
        if (!rx_unicode_is_space(code))
            break;
        last = end;
        end += step;
    }
    if (end == n)
        return end;
    return at_end ? 0 : last;
}

static size_t match_alternative(const alternative *a, const char *s, size_t n)
{
    size_t at = 0;
    switch (a->kind) {
    case ALT_SHORT:
        return match_short(s, n, false);
    case ALT_SHORT_ANY_CASE:
        return match_short(s, n, true);
    case ALT_SPACE_NOT_BEFORE:
        return match_space(s, n, false);
    case ALT_SPACE_AT_END:
        return match_space(s, n, true);
    case ALT_RUNS_THEN_SHORT:
        if (!match_runs(a->runs, MAX_RUNS, s, n, &at))
            return 0;
        return at + match_short(s + at, n - at, true);
    case ALT_RUNS:
    case ALT_END:
        break;
    }
    return match_runs(a->runs, MAX_RUNS, s, n, &at) ? at : 0;
}

size_t rx_pattern_find(const rx_pattern *p, const char *s, size_t n, size_t *skip)
{
    size_t length = 0, space;
    uint32_t code;
    for (const alternative *a = p->alternatives; a->kind != ALT_END && !length; a++)
        length = match_alternative(a, s, n);
    *skip = rx_utf8_get(s, n, &code);
    if (!length && p->alternatives->kind == ALT_SPACE_AT_END && (space = match_space(s, n, false)))
        *skip = space; /* avoids rescanning the run (quadratic time) */
    return length;
}

const rx_pattern *rx_pattern_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (!strcmp(patterns[i].name, name))
            return &patterns[i];
    return NULL;
}

/* A pattern's text, with \r and \n written as escapes or as themselves. */
static bool same_regex(const char *want, const char *found, size_t n)
{
    size_t i = 0;
    while (*want && i < n) {
        bool escape = want[0] == '\\' && (want[1] == 'r' || want[1] == 'n');
        if (escape && found[i] == (want[1] == 'r' ? '\r' : '\n')) {
            want += 2;
            i++;
        } else if (*want++ != found[i++]) {
            return false;
        }
    }
    return !*want && i == n;
}

const rx_pattern *rx_pattern_by_regex(const char *regex, size_t n)
{
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        for (const char *const *r = patterns[i].regexes; r && *r; r++)
            if (same_regex(*r, regex, n))
                return &patterns[i];
    return NULL;
}

/* ---- Names of tokenizer.ggml.pre ------------------------------------------------------------- */

static const rx_pre_name pre_names[] = {
    {"default", {"plain_marks", "gpt2", "numbers", "digits3"}, false, false},
    {"gpt-2 gpt2 phi-2 mpt olmo jais jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code "
     "gigachat roberta-bpe a.x-4.0 mellum modern-bert trillion granite-docling exaone4",
     {"gpt2"}, false, false},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", {"llama3"}, true, true},
    {"dbrx smaug-bpe chatglm-bpe glm4", {"llama3"}, false, false},
    {"qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo grok-2 solar-open", {"qwen2"}, false,
     false},
    {"qwen35", {"qwen35"}, false, false},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b", {"number", "gpt2"}, false,
     false},
    {"falcon", {"falcon_marks", "gpt2", "digits3"}, false, false},
    {"deepseek-llm", {"newline", "cased", "wide_mark", "space_end", "wide", "numbers"}, false,
     false},
    {"deepseek-coder", {"newline", "letters", "marks", "wide", "number"}, false, false},
    {"deepseek-v3 hunyuan-dense joyai-llm", {"numbers3", "kana", "deepseek3"}, false, false},
    {"bloom poro-chat gpt3-finnish", {"sentence"}, false, false},
    {"viking", {"sentence", "number"}, false, false},
    {"tekken", {"tekken"}, true, true},
    {"gpt-4o llama4 kanana2", {"gpt4o"}, false, false},
    {"bailingmoe bailingmoe2 llada-moe", {"bailing"}, false, false},
    {"seed-coder", {"seed_coder"}, false, false},
};

const rx_pre_name *rx_pre_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof pre_names / sizeof pre_names[0]; i++)
        for (const char *s = pre_names[i].names; *s;) {
            size_t length = strcspn(s, " ");
            if (length == n && !memcmp(s, name, n))
                return &pre_names[i];
            s += length;
            s += *s == ' ';
        }
    return NULL;
}

const rx_pre_name *rx_pre_at(size_t i)
{
    return i < sizeof pre_names / sizeof pre_names[0] ? &pre_names[i] : NULL;
}
