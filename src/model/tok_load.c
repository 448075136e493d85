/* SPDX-License-Identifier: MIT */
/* Shared by the tokenizer loaders: adding tokens, steps and merges with all checks, and building
 * the tables at the end. */
#include <stdio.h>
#include <string.h>

#include "model/tok.h"
#include "model/unicode.h"

#define MAX_TOKENS (1u << 24)

/* ---- Byte-level letters ---------------------------------------------------------------------- */

/* Printable bytes of Latin-1 stand for themselves, the others for letters from U+0100 on. */
static bool is_printable(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t rx_letter_of_byte(unsigned char byte)
{
    if (is_printable(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte <= 0xa0)
        return 0x121u + (byte - 0x7fu);
    return 0x143; /* 0xad */
}

int rx_byte_of_letter(uint32_t code)
{
    if (code < 0x100)
        return is_printable(code) ? (int)code : -1;
    if (code <= 0x120)
        return (int)(code - 0x100);
    if (code <= 0x142)
        return (int)(code - 0x121 + 0x7f);
    return code == 0x143 ? 0xad : -1;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

rlx_status rx_tok_resize(rlx_tokenizer *t, size_t n, rlx_error *err)
{
    if (n > MAX_TOKENS)
        return rx_fail(err, RLX_UNSUPPORTED, "'%s': %zu tokens; expected at most %u", t->path, n,
                       MAX_TOKENS);
    if (n <= t->n_tokens)
        return RLX_OK;
    if (!rx_grow(&t->tokens, &t->cap_tokens, n, sizeof *t->tokens))
        return rx_fail_memory(err, "the vocabulary", n * sizeof *t->tokens);
    memset(t->tokens + t->n_tokens, 0, (n - t->n_tokens) * sizeof *t->tokens);
    t->n_tokens = n;
    return RLX_OK;
}

rlx_status rx_tok_set(rlx_tokenizer *t, size_t id, rx_token token, rlx_error *err)
{
    RLX_TRY(rx_tok_resize(t, id + 1, err));
    if (t->tokens[id].kind != RLX_TOKEN_NONE)
        return rx_fail(err, RLX_PARSE, "'%s': tokens '%.80s' and '%.80s' both have id %zu; "
                       "expected each id once", t->path, t->tokens[id].text, token.text, id);
    size_t length = token.length;
    token.text = rx_arena_strndup(&t->arena, token.text, length);
    if (!token.text)
        return rx_fail_memory(err, "a token", length + 1);
    if (length > t->longest)
        t->longest = token.length;
    t->tokens[id] = token;
    if (length == 0)
        return RLX_OK;
    const rx_map_slot *twin = rx_map_find(&t->ids, token.text, length);
    if (twin && token.kind == RLX_TOKEN_NORMAL && t->tokens[twin->value].kind == RLX_TOKEN_NORMAL)
        return rx_fail(err, RLX_PARSE, "'%s': token %zu '%.80s' is token %u again; expected each "
                       "token once", t->path, id, token.text, twin->value);
    if (!twin && !rx_map_add(&t->ids, token.text, length, (uint32_t)id))
        return rx_fail_memory(err, "the vocabulary", sizeof(rx_map_slot));
    return RLX_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static rx_step *add_step(rlx_tokenizer *t, rx_step *steps, size_t *n, rx_step_kind kind,
                         rlx_error *err)
{
    if (*n == RX_MAX_STEPS) {
        rx_fail(err, RLX_UNSUPPORTED, "'%s' has more than %d steps of one kind", t->path,
                RX_MAX_STEPS);
        return NULL;
    }
    steps[*n] = (rx_step){.kind = kind, .text = "", .with = ""};
    return &steps[(*n)++];
}

rx_step *rx_tok_norm(rlx_tokenizer *t, rx_step_kind kind, rlx_error *err)
{
    return add_step(t, t->norms, &t->n_norms, kind, err);
}

rx_step *rx_tok_add_split(rlx_tokenizer *t, rx_step_kind kind, rlx_error *err)
{
    return add_step(t, t->splits, &t->n_splits, kind, err);
}

rlx_status rx_tok_add_pattern(rlx_tokenizer *t, const char *name, rlx_error *err)
{
    rx_step *s = rx_tok_add_split(t, RX_SPLIT_PATTERN, err);
    if (!s)
        return RLX_UNSUPPORTED;
    s->pattern = rx_pattern_by_name(name);
    return s->pattern ? RLX_OK : rx_fail(err, RLX_INTERNAL, "no pattern '%s'", name);
}

void rx_tok_add_bert(rlx_tokenizer *t, bool lower)
{
    rx_tok_norm(t, RX_NORM_BERT, NULL)->flags = RX_BERT_CLEAN | RX_BERT_CHINESE;
    if (lower) {
        rx_tok_norm(t, RX_NORM_FORM, NULL)->flags = 0;
        rx_tok_norm(t, RX_NORM_DROP, NULL)->flags = RX_IN(RX_MN);
        rx_tok_norm(t, RX_NORM_LOWER, NULL);
    }
    rx_step *s = rx_tok_add_split(t, RX_SPLIT_BITS, NULL);
    s->flags = RX_IN_SPACE;
    s->behaviour = RX_REMOVED;
    rx_tok_add_split(t, RX_SPLIT_BERT, NULL);
}

rlx_status rx_tok_add_merge(rlx_tokenizer *t, size_t rank, rx_bytes left, rx_bytes right,
                            rlx_error *err)
{
    rx_bytes parts[2] = {left, right};
    int32_t ids[3];
    size_t cut = strlen(t->next_prefix), n = left.bytes + right.bytes;
    char small[256], *both = n <= sizeof small ? small : rx_alloc(n);
    if (!both)
        return rx_fail_memory(err, "a merge", n);
    if (cut > right.bytes || memcmp(right.data, t->next_prefix, cut))
        cut = 0;
    memcpy(both, left.data, left.bytes);
    memcpy(both + left.bytes, (const char *)right.data + cut, right.bytes - cut);
    for (int i = 0; i < 2; i++)
        ids[i] = rx_tok_find(t, parts[i].data, parts[i].bytes);
    ids[2] = rx_tok_find(t, both, n - cut);
    if (both != small)
        rx_free(both);
    for (int i = 0; i < 3; i++)
        if (ids[i] < 0)
            return rx_fail(err, RLX_PARSE, "'%s': merge %zu of '%.*s' and '%.*s': expected both "
                           "and their sum in the vocabulary, found no %s", t->path, rank,
                           left.bytes < 60 ? (int)left.bytes : 60, (const char *)left.data,
                           right.bytes < 60 ? (int)right.bytes : 60, (const char *)right.data,
                           i == 0 ? "left part" : i == 1 ? "right part" : "sum");
    rx_merges_add(&t->merges, (rx_merge){ids[0], ids[1], (uint32_t)rank, ids[2]});
    return RLX_OK;
}

rlx_status rx_tok_add_template(rlx_tokenizer *t, const char *name, size_t name_bytes,
                               const char *text, size_t bytes, rlx_error *err)
{
    rx_template new = {0};
    if (!rx_grow(&t->templates, &t->cap_templates, t->n_templates + 1, sizeof new) ||
        !(new.text = rx_arena_strndup(&t->arena, text, bytes)) ||
        (name && !(new.name = rx_arena_strndup(&t->arena, name, name_bytes))))
        return rx_fail_memory(err, "a chat template", bytes);
    t->templates[t->n_templates++] = new;
    return RLX_OK;
}

static int32_t *copy_ids(rlx_tokenizer *t, const int32_t *ids, size_t n, size_t *count)
{
    int32_t *out = rx_arena_array(&t->arena, n, sizeof *out);
    *count = 0;
    for (size_t i = 0; out && i < n; i++)
        if (ids[i] >= 0)
            out[(*count)++] = ids[i];
    return out;
}

rlx_status rx_tok_set_around(rlx_tokenizer *t, const int32_t *before, size_t n_before,
                             const int32_t *after, size_t n_after, rlx_error *err)
{
    t->before = copy_ids(t, before, n_before, &t->n_before);
    t->after = copy_ids(t, after, n_after, &t->n_after);
    if (!t->before || !t->after)
        return rx_fail_memory(err, "the ids around a text", (n_before + n_after) * sizeof *before);
    return RLX_OK;
}

/* ---- Finishing ------------------------------------------------------------------------------- */

/* Texts of end-of-generation tokens, unless they are normal tokens. */
static const char *const end_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<turn|>",
    "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>", "_<EOT>", "<|eot|>",
    "<|end_of_turn|>", "<end_of_utterance>", "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81"
    "sentence\xef\xbd\x9c>", "[EOT]", "[EOS]", "</s>", "<eos>",
};

/* Texts of special tokens that a file does not name, by preference. Not for the unknown token,
 * which would change encodings. */
static const struct {
    rlx_special which;
    const char *text;
} special_texts[] = {
    {RLX_SPECIAL_BOS, "<|begin_of_text|>"}, {RLX_SPECIAL_BOS, "<s>"},
    {RLX_SPECIAL_BOS, "<bos>"}, {RLX_SPECIAL_EOS, "</s>"}, {RLX_SPECIAL_EOS, "<eos>"},
    {RLX_SPECIAL_EOS, "<|end_of_text|>"}, {RLX_SPECIAL_EOS, "<|endoftext|>"},
    {RLX_SPECIAL_EOT, "<|eot_id|>"}, {RLX_SPECIAL_EOT, "<|im_end|>"}, {RLX_SPECIAL_EOT, "<|end|>"},
    {RLX_SPECIAL_EOT, "<end_of_turn>"},
    {RLX_SPECIAL_PAD, "<pad>"}, {RLX_SPECIAL_PAD, "[PAD]"}, {RLX_SPECIAL_SEP, "[SEP]"},
    {RLX_SPECIAL_CLS, "[CLS]"}, {RLX_SPECIAL_MASK, "[MASK]"}, {RLX_SPECIAL_MASK, "<mask>"},
};

static void find_specials(rlx_tokenizer *t)
{
    for (size_t i = 0; i < sizeof special_texts / sizeof special_texts[0]; i++) {
        int32_t *id = &t->special[special_texts[i].which];
        int32_t found = rx_tok_find(t, special_texts[i].text, strlen(special_texts[i].text));
        if (*id < 0 && found >= 0 && t->tokens[found].kind != RLX_TOKEN_NORMAL)
            *id = found;
    }
    const rlx_special ends[] = {RLX_SPECIAL_EOS, RLX_SPECIAL_EOT};
    for (size_t i = 0; i < 2; i++)
        if (t->special[ends[i]] >= 0)
            t->tokens[t->special[ends[i]]].flags |= RX_TOK_END;
    for (size_t i = 0; i < sizeof end_texts / sizeof end_texts[0]; i++) {
        int32_t id = rx_tok_find(t, end_texts[i], strlen(end_texts[i]));
        if (id >= 0 && t->tokens[id].kind != RLX_TOKEN_NORMAL)
            t->tokens[id].flags |= RX_TOK_END;
    }
}

static void find_bytes(rlx_tokenizer *t)
{
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        size_t n = t->byte_level ? rx_utf8_put(text, rx_letter_of_byte((unsigned char)b))
                                 : (size_t)snprintf(text, sizeof text, "<0x%02X>", b);
        if (t->byte_level || t->byte_fallback)
            t->byte_ids[b] = rx_tok_find(t, text, n);
        if (t->byte_fallback && !t->byte_level && t->byte_ids[b] >= 0)
            t->tokens[t->byte_ids[b]].kind = RLX_TOKEN_BYTE;
    }
}

/* The match text of an added token. */
static rlx_status added_key(rlx_tokenizer *t, size_t id, bool normal, rx_trie_key *key,
                            rlx_error *err)
{
    const rx_token *token = &t->tokens[id];
    *key = (rx_trie_key){token->text, token->length, (int32_t)id};
    if (!normal)
        return RLX_OK;
    rx_encoder e = {.t = t, .err = err};
    const char *s = token->text;
    size_t n = token->length;
    rlx_status st = rx_tok_normalise(&e, &s, &n);
    if (st == RLX_OK && !(s = rx_arena_strndup(&t->arena, s, n)))
        st = rx_fail_memory(err, "an added token", n + 1);
    key->text = s;
    key->length = (uint32_t)n;
    rx_free(e.codes);
    rx_str_finish(&e.norm[0]);
    rx_str_finish(&e.norm[1]);
    return st;
}

static rlx_status build_added(rlx_tokenizer *t, rx_trie_key *keys, bool normal, rlx_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_tokens; i++) {
        unsigned flags = t->tokens[i].flags;
        if (!(flags & RX_TOK_ADDED) || !t->tokens[i].length || !(flags & RX_TOK_NORMAL) == normal)
            continue;
        RLX_TRY(added_key(t, i, normal, &keys[n], err));
        n += keys[n].length > 0;
    }
    if (!rx_trie_build(normal ? &t->added_normal : &t->added, keys, n))
        return rx_fail_memory(err, "the added tokens", n * sizeof *keys);
    return RLX_OK;
}

static rlx_status build_words(rlx_tokenizer *t, rx_trie_key *keys, rlx_error *err)
{
    size_t n = 0;
    double least = 0;
    if (t->model != RX_TOK_UNIGRAM && t->model != RX_TOK_WORDPIECE)
        return RLX_OK;
    for (size_t i = 0; i < t->n_tokens; i++) {
        const rx_token *token = &t->tokens[i];
        bool is_word = token->kind == RLX_TOKEN_NORMAL || token->kind == RLX_TOKEN_USER_DEFINED ||
                       (t->model == RX_TOK_WORDPIECE && token->kind == RLX_TOKEN_UNUSED);
        if (token->kind == RLX_TOKEN_NORMAL && token->score < least)
            least = token->score;
        if (is_word && token->length)
            keys[n++] = (rx_trie_key){token->text, token->length, (int32_t)i};
    }
    t->unknown_score = least - 10;
    if (!rx_trie_build(&t->words, keys, n))
        return rx_fail_memory(err, "the trie of the vocabulary", n * sizeof *keys);
    return RLX_OK;
}

/* Whether U+2581 occurs only at the start of tokens: then text can be split before it. */
static bool may_cut(const rlx_tokenizer *t)
{
    if (t->byte_level || t->ignore_merges || *t->next_prefix || *t->word_suffix ||
        t->model == RX_TOK_WORDPIECE || t->model == RX_TOK_WORDLEVEL)
        return false;
    if (rx_tok_find(t, RX_SPACE, RX_SPACE_BYTES) < 0)
        return false;
    for (size_t i = 0; i < t->n_tokens; i++) {
        const char *s = t->tokens[i].text, *at = s;
        while (s && (at = strstr(at, RX_SPACE)) != NULL) {
            if (at > s && (at < s + RX_SPACE_BYTES ||
                           memcmp(at - RX_SPACE_BYTES, RX_SPACE, RX_SPACE_BYTES)))
                return false;
            at += RX_SPACE_BYTES;
        }
    }
    return true;
}

rlx_status rx_tok_finish_load(rlx_tokenizer *t, rlx_error *err)
{
    if (t->n_tokens == 0)
        return rx_fail(err, RLX_PARSE, "'%s': the vocabulary is empty; expected tokens", t->path);
    find_bytes(t);
    find_specials(t);
    if (may_cut(t) && t->n_splits < RX_MAX_STEPS)
        rx_tok_add_split(t, RX_SPLIT_SPACE, err);
    rx_trie_key *keys = rx_alloc_array(t->n_tokens, sizeof *keys);
    if (!keys)
        return rx_fail_memory(err, "the vocabulary", t->n_tokens * sizeof *keys);
    rlx_status st = build_words(t, keys, err);
    if (st == RLX_OK)
        st = build_added(t, keys, false, err);
    if (st == RLX_OK)
        st = build_added(t, keys, true, err);
    rx_free(keys);
    return st;
}
