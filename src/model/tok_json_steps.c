/* SPDX-License-Identifier: MIT */
/* tokenizer.json: the normalizer, pre_tokenizer, decoder and post_processor objects as steps. Each
 * type is a row of a table; an unknown type is an error that names it. */
#include <string.h>

#include "model/tok_json.h"
#include "model/unicode.h"

typedef rlx_status step_fn(const rx_tok_json *l, const rx_json *v);
typedef struct row {
    const char *type;
    step_fn *load;
} row;

/* Calls the row of v's type; null does nothing. */
static rlx_status load_by_type(const rx_tok_json *l, const char *where, const rx_json *v,
                               const row *rows)
{
    if (!v || v->kind == RX_JSON_NULL)
        return RLX_OK;
    const rx_json *type = rx_json_member(v, "type");
    if (!type || type->kind != RX_JSON_STRING)
        return rx_tok_json_fail(l, where, "an object with a type", v);
    for (const row *r = rows; r->type; r++)
        if (!strcmp(r->type, type->text))
            return r->load(l, v);
    return rx_fail(l->err, RLX_UNSUPPORTED, "'%s': %s of type '%.80s' is not known to rlx",
                   l->t->path, where, type->text);
}

/* The elements of a Sequence, one after the other. */
static rlx_status load_list(const rx_tok_json *l, const rx_json *v, const char *key, step_fn *one)
{
    const rx_json *list = rx_json_member(v, key);
    if (!list || list->kind != RX_JSON_ARRAY)
        return rx_tok_json_fail(l, key, "an array", list);
    for (const rx_json *e = list->first; e; e = e->next)
        RLX_TRY(one(l, e));
    return RLX_OK;
}

/* ---- Normalizers ----------------------------------------------------------------------------- */

static rlx_status add_norm(const rx_tok_json *l, rx_step_kind kind, unsigned flags)
{
    rx_step *s = rx_tok_norm(l->t, kind, l->err);
    if (!s)
        return RLX_UNSUPPORTED;
    s->flags = flags;
    return RLX_OK;
}

static rlx_status norm_nfc(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    return add_norm(l, RX_NORM_FORM, RX_FORM_COMPOSED);
}

static rlx_status norm_nfd(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    return add_norm(l, RX_NORM_FORM, 0);
}

static rlx_status norm_nfkc(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    return add_norm(l, RX_NORM_FORM, RX_FORM_COMPATIBLE | RX_FORM_COMPOSED);
}

static rlx_status norm_nfkd(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    return add_norm(l, RX_NORM_FORM, RX_FORM_COMPATIBLE);
}

static rlx_status norm_lower(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    return add_norm(l, RX_NORM_LOWER, 0);
}

static rlx_status norm_accents(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    return add_norm(l, RX_NORM_DROP, RX_IN_M);
}

static rlx_status norm_nmt(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    return add_norm(l, RX_NORM_NMT, 0);
}

static rlx_status norm_bert(const rx_tok_json *l, const rx_json *v)
{
    bool lower = rx_tok_json_bool(v, "lowercase", true);
    unsigned flags = (rx_tok_json_bool(v, "clean_text", true) ? RX_BERT_CLEAN : 0u) |
                     (rx_tok_json_bool(v, "handle_chinese_chars", true) ? RX_BERT_CHINESE : 0u);
    if (flags)
        RLX_TRY(add_norm(l, RX_NORM_BERT, flags));
    if (rx_tok_json_bool(v, "strip_accents", lower)) {
        RLX_TRY(add_norm(l, RX_NORM_FORM, 0));
        RLX_TRY(add_norm(l, RX_NORM_DROP, RX_IN(RX_MN)));
    }
    return lower ? add_norm(l, RX_NORM_LOWER, 0) : RLX_OK;
}

static rlx_status norm_strip(const rx_tok_json *l, const rx_json *v)
{
    return add_norm(l, RX_NORM_STRIP, (rx_tok_json_bool(v, "strip_left", true) ? 1u : 0u) |
                                          (rx_tok_json_bool(v, "strip_right", true) ? 2u : 0u));
}

static rlx_status norm_prepend(const rx_tok_json *l, const rx_json *v)
{
    RLX_TRY(add_norm(l, RX_NORM_PREPEND, 0));
    rx_step *s = &l->t->norms[l->t->n_norms - 1];
    return rx_tok_json_text(l, v, "prepend", &s->text, &s->text_bytes);
}

static rlx_status norm_replace(const rx_tok_json *l, const rx_json *v)
{
    const rx_json *pattern = rx_json_member(v, "pattern");
    bool is_regex = rx_json_member(pattern, "Regex") != NULL;
    bool squeeze = rx_tok_json_is(pattern, "Regex", " {2,}");
    bool white = rx_tok_json_is(pattern, "Regex", "\\s+");
    RLX_TRY(add_norm(l, squeeze || white ? RX_NORM_SQUEEZE : RX_NORM_REPLACE, white));
    rx_step *s = &l->t->norms[l->t->n_norms - 1];
    RLX_TRY(rx_tok_json_text(l, v, "content", &s->with, &s->with_bytes));
    if (squeeze || white)
        return RLX_OK;
    RLX_TRY(rx_tok_json_text(l, pattern, is_regex ? "Regex" : "String", &s->text, &s->text_bytes));
    if (is_regex && strpbrk(s->text, "\\.[]()*+?{}|^$"))
        return rx_fail(l->err, RLX_UNSUPPORTED, "'%s': the regular expression '%.80s' of a Replace "
                       "is not known to rlx", l->t->path, s->text);
    return RLX_OK;
}

static int base64_digit(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static rlx_status norm_precompiled(const rx_tok_json *l, const rx_json *v)
{
    const rx_json *map = rx_json_member(v, "precompiled_charsmap");
    if (!map || map->kind == RX_JSON_NULL || (map->kind == RX_JSON_STRING && !map->length))
        return RLX_OK;
    if (map->kind != RX_JSON_STRING)
        return rx_tok_json_fail(l, "precompiled_charsmap", "a string", map);
    char *bytes = rx_arena_alloc(&l->t->arena, map->length);
    if (!bytes)
        return rx_fail_memory(l->err, "the charsmap", map->length);
    size_t n = 0;
    uint32_t bits = 0, n_bits = 0;
    for (size_t i = 0; i < map->length && map->text[i] != '='; i++) {
        int digit = base64_digit(map->text[i]);
        if (digit < 0)
            return rx_fail(l->err, RLX_PARSE, "'%s': precompiled_charsmap: byte %zu is no base64",
                           l->t->path, i);
        bits = (bits << 6 | (uint32_t)digit) & 0xffffff;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            bytes[n++] = (char)(bits >> n_bits);
        }
    }
    RLX_TRY(rx_tok_check_charsmap(l->t, bytes, n, l->err));
    RLX_TRY(add_norm(l, RX_NORM_CHARSMAP, 0));
    l->t->norms[l->t->n_norms - 1].text = bytes;
    l->t->norms[l->t->n_norms - 1].text_bytes = n;
    return RLX_OK;
}

static rlx_status norm_byte_level(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    l->t->byte_level = true;
    return RLX_OK;
}

static rlx_status norm_list(const rx_tok_json *l, const rx_json *v)
{
    return load_list(l, v, "normalizers", rx_tok_json_normaliser);
}

rlx_status rx_tok_json_normaliser(const rx_tok_json *l, const rx_json *v)
{
    static const row rows[] = {
        {"Sequence", norm_list}, {"NFC", norm_nfc}, {"NFD", norm_nfd}, {"NFKC", norm_nfkc},
        {"NFKD", norm_nfkd}, {"Lowercase", norm_lower}, {"StripAccents", norm_accents},
        {"BertNormalizer", norm_bert}, {"Strip", norm_strip}, {"Prepend", norm_prepend},
        {"Replace", norm_replace}, {"Precompiled", norm_precompiled}, {"Nmt", norm_nmt},
        {"ByteLevel", norm_byte_level}, {NULL, NULL},
    };
    return load_by_type(l, "a normalizer", v, rows);
}

/* ---- Pre-tokenizers -------------------------------------------------------------------------- */

static rlx_status add_split(const rx_tok_json *l, rx_step_kind kind, unsigned flags,
                            rx_behaviour behaviour)
{
    rx_step *s = rx_tok_add_split(l->t, kind, l->err);
    if (!s)
        return RLX_UNSUPPORTED;
    s->flags = flags;
    s->behaviour = behaviour;
    return RLX_OK;
}

static rlx_status get_behaviour(const rx_tok_json *l, const rx_json *v, rx_behaviour *out)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const rx_json *name = rx_json_member(v, "behavior");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (rx_tok_json_is(v, "behavior", names[i])) {
            *out = (rx_behaviour)i;
            return RLX_OK;
        }
    return rx_tok_json_fail(l, "behavior", "Isolated, Removed, MergedWithPrevious, MergedWithNext "
                            "or Contiguous", name);
}

static rlx_status split_byte_level(const rx_tok_json *l, const rx_json *v)
{
    l->t->byte_level = true;
    if (rx_tok_json_bool(v, "add_prefix_space", true))
        RLX_TRY(add_split(l, RX_SPLIT_PREFIX, 0, RX_ISOLATED));
    return rx_tok_json_bool(v, "use_regex", true) ? rx_tok_add_pattern(l->t, "gpt2", l->err)
                                                  : RLX_OK;
}

static rlx_status split_split(const rx_tok_json *l, const rx_json *v)
{
    const rx_json *pattern = rx_json_member(v, "pattern");
    const rx_json *regex = rx_json_member(pattern, "Regex");
    rx_behaviour behaviour = RX_ISOLATED;
    RLX_TRY(get_behaviour(l, v, &behaviour));
    RLX_TRY(add_split(l, RX_SPLIT_TEXT, 0, behaviour));
    rx_step *s = &l->t->splits[l->t->n_splits - 1];
    s->invert = rx_tok_json_bool(v, "invert", false);
    if (!regex) {
        RLX_TRY(rx_tok_json_text(l, pattern, "String", &s->text, &s->text_bytes));
        return s->text_bytes ? RLX_OK : rx_tok_json_fail(l, "the pattern of a Split",
                                                         "a Regex or a String", pattern);
    }
    if (regex->kind != RX_JSON_STRING)
        return rx_tok_json_fail(l, "Regex", "a string", regex);
    s->kind = RX_SPLIT_PATTERN;
    s->pattern = rx_pattern_by_regex(regex->text, regex->length);
    if (!s->pattern)
        return rx_fail(l->err, RLX_UNSUPPORTED, "'%s': the regular expression '%.300s' of a Split "
                       "is not known to rlx", l->t->path, regex->text);
    return RLX_OK;
}

static rlx_status split_metaspace(const rx_tok_json *l, const rx_json *v)
{
    bool prefix = rx_tok_json_bool(v, "add_prefix_space", true);
    unsigned flags = prefix ? RX_META_ALWAYS : 0;
    if (rx_tok_json_is(v, "prepend_scheme", "first"))
        flags = RX_META_FIRST;
    else if (rx_tok_json_is(v, "prepend_scheme", "never"))
        flags = 0;
    if (rx_tok_json_bool(v, "split", true))
        flags |= RX_META_SPLIT;
    RLX_TRY(add_split(l, RX_SPLIT_METASPACE, flags, RX_ISOLATED));
    rx_step *s = &l->t->splits[l->t->n_splits - 1];
    RLX_TRY(rx_tok_json_text(l, v, "replacement", &s->text, &s->text_bytes));
    return s->text_bytes ? RLX_OK : rx_tok_json_fail(l, "the replacement of a Metaspace",
                                                     "a character", v);
}

static rlx_status split_spaces(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    return add_split(l, RX_SPLIT_BITS, RX_IN_SPACE, RX_REMOVED);
}

static rlx_status split_bert(const rx_tok_json *l, const rx_json *v)
{
    RLX_TRY(split_spaces(l, v));
    return add_split(l, RX_SPLIT_BERT, 0, RX_ISOLATED);
}

static rlx_status split_words(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    RLX_TRY(rx_tok_add_pattern(l->t, "words", l->err));
    rx_step *s = &l->t->splits[l->t->n_splits - 1];
    s->behaviour = RX_REMOVED;
    s->invert = true;
    return RLX_OK;
}

static rlx_status split_marks(const rx_tok_json *l, const rx_json *v)
{
    rx_behaviour behaviour = RX_ISOLATED;
    if (rx_json_member(v, "behavior"))
        RLX_TRY(get_behaviour(l, v, &behaviour));
    return add_split(l, RX_SPLIT_BERT, 0, behaviour);
}

static rlx_status split_digits(const rx_tok_json *l, const rx_json *v)
{
    bool one = rx_tok_json_bool(v, "individual_digits", false);
    return add_split(l, RX_SPLIT_BITS, RX_IN_N, one ? RX_ISOLATED : RX_CONTIGUOUS);
}

static rlx_status split_delimiter(const rx_tok_json *l, const rx_json *v)
{
    RLX_TRY(add_split(l, RX_SPLIT_TEXT, 0, RX_REMOVED));
    rx_step *s = &l->t->splits[l->t->n_splits - 1];
    RLX_TRY(rx_tok_json_text(l, v, "delimiter", &s->text, &s->text_bytes));
    return s->text_bytes ? RLX_OK : rx_tok_json_fail(l, "delimiter", "a character", v);
}

static rlx_status split_list(const rx_tok_json *l, const rx_json *v)
{
    return load_list(l, v, "pretokenizers", rx_tok_json_splitter);
}

rlx_status rx_tok_json_splitter(const rx_tok_json *l, const rx_json *v)
{
    static const row rows[] = {
        {"Sequence", split_list}, {"ByteLevel", split_byte_level}, {"Split", split_split},
        {"Metaspace", split_metaspace}, {"WhitespaceSplit", split_spaces},
        {"BertPreTokenizer", split_bert}, {"Whitespace", split_words},
        {"Punctuation", split_marks}, {"Digits", split_digits},
        {"CharDelimiterSplit", split_delimiter}, {NULL, NULL},
    };
    return load_by_type(l, "a pre_tokenizer", v, rows);
}

/* ---- Decoders -------------------------------------------------------------------------------- */

static rlx_status decode_byte_level(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    l->t->decode = RX_DECODE_BYTE_LEVEL;
    return RLX_OK;
}

static rlx_status decode_wordpiece(const rx_tok_json *l, const rx_json *v)
{
    l->t->decode = RX_DECODE_WORDPIECE;
    l->t->clean_up = rx_tok_json_bool(v, "cleanup", true);
    return RLX_OK;
}

static rlx_status decode_metaspace(const rx_tok_json *l, const rx_json *v)
{
    l->t->decode = RX_DECODE_SPACES;
    l->t->strip_first_blank = rx_tok_json_bool(v, "add_prefix_space", true) &&
                              !rx_tok_json_is(v, "prepend_scheme", "never");
    return RLX_OK;
}

static rlx_status decode_bpe(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    l->t->decode = RX_DECODE_SUFFIX;
    return RLX_OK;
}

/* Parts of a Sequence: U+2581 to blanks, bytes, joining; all mean the decoding with U+2581. */
static rlx_status decode_spaces(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    l->t->decode = RX_DECODE_SPACES;
    return RLX_OK;
}

static rlx_status decode_fuse(const rx_tok_json *l, const rx_json *v)
{
    (void)v;
    if (l->t->decode == RX_DECODE_WORDS)
        l->t->decode = RX_DECODE_FUSE;
    return RLX_OK;
}

static rlx_status decode_strip(const rx_tok_json *l, const rx_json *v)
{
    uint64_t n = 0;
    rx_json_u64(rx_json_member(v, "start"), &n);
    l->t->strip_first_blank = rx_tok_json_is(v, "content", " ") && n > 0;
    return RLX_OK;
}

static rlx_status decode_list(const rx_tok_json *l, const rx_json *v)
{
    return load_list(l, v, "decoders", rx_tok_json_decoder);
}

rlx_status rx_tok_json_decoder(const rx_tok_json *l, const rx_json *v)
{
    static const row rows[] = {
        {"Sequence", decode_list}, {"ByteLevel", decode_byte_level},
        {"WordPiece", decode_wordpiece}, {"Metaspace", decode_metaspace},
        {"BPEDecoder", decode_bpe}, {"Replace", decode_spaces}, {"ByteFallback", decode_spaces},
        {"Fuse", decode_fuse}, {"Strip", decode_strip}, {NULL, NULL},
    };
    return load_by_type(l, "a decoder", v, rows);
}

/* ---- Post-processors ------------------------------------------------------------------------- */

static rlx_status get_id(const rx_tok_json *l, const rx_json *v, int32_t *out)
{
    uint64_t id;
    if (!rx_json_u64(v, &id) || id >= l->t->n_tokens || !l->t->tokens[id].kind)
        return rx_tok_json_fail(l, "an id of the post_processor", "the id of a token", v);
    *out = (int32_t)id;
    return RLX_OK;
}

/* {"sep": ["</s>", 2], "cls": ["<s>", 0]} */
static rlx_status around_pair(const rx_tok_json *l, const rx_json *v)
{
    static const char *const keys[] = {"cls", "sep"};
    static const rlx_special which[] = {RLX_SPECIAL_CLS, RLX_SPECIAL_SEP};
    int32_t ids[2];
    for (size_t i = 0; i < 2; i++) {
        const rx_json *pair = rx_json_member(v, keys[i]);
        if (!pair || pair->kind != RX_JSON_ARRAY || pair->n != 2)
            return rx_tok_json_fail(l, keys[i], "an array of a token and its id", pair);
        RLX_TRY(get_id(l, pair->first->next, &ids[i]));
        l->t->special[which[i]] = ids[i];
    }
    return rx_tok_set_around(l->t, &ids[0], 1, &ids[1], 1, l->err);
}

#define MAX_AROUND 32

/* {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": ...}], "special_tokens": {...}} */
static rlx_status around_template(const rx_tok_json *l, const rx_json *v)
{
    const rx_json *single = rx_json_member(v, "single");
    const rx_json *special = rx_json_member(v, "special_tokens");
    int32_t ids[2][MAX_AROUND];
    size_t n[2] = {0, 0}, side = 0;
    if (!single || single->kind != RX_JSON_ARRAY)
        return rx_tok_json_fail(l, "the single template", "an array", single);
    for (const rx_json *e = single->first; e; e = e->next) {
        const rx_json *name = rx_json_member(rx_json_member(e, "SpecialToken"), "id");
        side = rx_json_member(e, "Sequence") ? 1 : side;
        if (!name || name->kind != RX_JSON_STRING)
            continue;
        const rx_json *list = rx_json_member(rx_json_member(special, name->text), "ids");
        if (!list || list->kind != RX_JSON_ARRAY)
            return rx_tok_json_fail(l, "special_tokens of the template", "ids", list);
        for (const rx_json *id = list->first; id; id = id->next) {
            if (n[side] == MAX_AROUND)
                return rx_fail(l->err, RLX_UNSUPPORTED, "'%s': the template has more than %d "
                               "tokens", l->t->path, MAX_AROUND);
            RLX_TRY(get_id(l, id, &ids[side][n[side]++]));
        }
    }
    return rx_tok_set_around(l->t, ids[0], n[0], ids[1], n[1], l->err);
}

static rlx_status around_nothing(const rx_tok_json *l, const rx_json *v)
{
    (void)l;
    (void)v;
    return RLX_OK;
}

static rlx_status around_list(const rx_tok_json *l, const rx_json *v)
{
    return load_list(l, v, "processors", rx_tok_json_around);
}

rlx_status rx_tok_json_around(const rx_tok_json *l, const rx_json *v)
{
    static const row rows[] = {
        {"Sequence", around_list}, {"TemplateProcessing", around_template},
        {"BertProcessing", around_pair}, {"RobertaProcessing", around_pair},
        {"ByteLevel", around_nothing}, {NULL, NULL},
    };
    return load_by_type(l, "a post_processor", v, rows);
}
