/* SPDX-License-Identifier: MIT */
/* Tokenizers from the metadata of GGUF files: tokenizer.ggml.* and tokenizer.chat_template. */
#include <stdio.h>
#include <string.h>

#include "model/tok.h"

#define KEY(name) "tokenizer.ggml." name

/* Meaning of tokenizer.ggml.model, with default ids of special tokens. */
typedef struct family {
    const char *name;
    rx_tok_model model;
    rx_decode_kind decode;
    bool needs_scores, add_bos, add_eos, add_prefix;
    int32_t bos, eos, unk;
} family;

static const family families[] = {
    {"llama", RX_TOK_SCORES, RX_DECODE_SPACES, true, true, false, true, 1, 2, 0},
    {"gpt2", RX_TOK_BPE, RX_DECODE_BYTE_LEVEL, false, false, false, false, -1, -1, -1},
    {"bert", RX_TOK_WORDPIECE, RX_DECODE_WORDPIECE, false, true, true, false, -1, -1, -1},
    {"t5", RX_TOK_UNIGRAM, RX_DECODE_SPACES, true, false, true, true, -1, 1, 2},
};

typedef struct loader {
    rlx_tokenizer *t;
    const rlx_file *f;
    const family *family;
    rlx_error *err;
} loader;

/* ---- Values ---------------------------------------------------------------------------------- */

static rlx_status fail_kind(const loader *l, const char *key, const char *expected)
{
    return rx_fail(l->err, RLX_PARSE, "'%s': metadata '%s': expected %s", l->t->path, key,
                   expected);
}

/* A string; *text is NULL when the key is missing. */
static rlx_status get_text(const loader *l, const char *key, const char **text, size_t *n)
{
    rlx_meta m;
    *text = NULL;
    if (!rlx_file_find_meta(l->f, key, &m))
        return RLX_OK;
    if (m.is_array || !rlx_meta_string(&m, 0, text, n))
        return fail_kind(l, key, "a string");
    return RLX_OK;
}

/* A bool; *out is unchanged when the key is missing. */
static rlx_status get_bool(const loader *l, const char *key, bool *out)
{
    rlx_meta m;
    if (!rlx_file_find_meta(l->f, key, &m))
        return RLX_OK;
    return !m.is_array && rlx_meta_bool(&m, 0, out) ? RLX_OK : fail_kind(l, key, "a bool");
}

/* A token id; *out is unchanged when the key is missing or means "none". */
static rlx_status get_id(const loader *l, const char *key, int32_t *out)
{
    rlx_meta m;
    uint64_t id;
    int64_t number;
    if (!rlx_file_find_meta(l->f, key, &m))
        return RLX_OK;
    if (!m.is_array && rlx_meta_i64(&m, 0, &number) && number == -1)
        return RLX_OK;
    if (m.is_array || !rlx_meta_u64(&m, 0, &id))
        return fail_kind(l, key, "the id of a token");
    if (id == UINT32_MAX)
        return RLX_OK;
    if (id >= l->t->n_tokens)
        return rx_fail(l->err, RLX_PARSE, "'%s': metadata '%s' is %llu; expected an id below %zu",
                       l->t->path, key, (unsigned long long)id, l->t->n_tokens);
    *out = (int32_t)id;
    return RLX_OK;
}

/* An array of `n` values; out->n is 0 when the key is missing. */
static rlx_status get_array(const loader *l, const char *key, size_t n, rlx_meta *out)
{
    *out = (rlx_meta){0};
    if (!rlx_file_find_meta(l->f, key, out))
        return RLX_OK;
    if (!out->is_array)
        return fail_kind(l, key, "an array");
    if (out->n != n)
        return rx_fail(l->err, RLX_PARSE, "'%s': metadata '%s' has %zu values; expected %zu, one "
                       "for each token", l->t->path, key, out->n, n);
    return RLX_OK;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* The numbers of tokenizer.ggml.token_type. */
static const struct {
    rlx_token_kind kind;
    unsigned flags;
} token_types[] = {
    {RLX_TOKEN_NORMAL, 0}, /* 0: undefined */
    {RLX_TOKEN_NORMAL, 0},
    {RLX_TOKEN_UNKNOWN, RX_TOK_ADDED | RX_TOK_SPECIAL},
    {RLX_TOKEN_CONTROL, RX_TOK_ADDED | RX_TOK_SPECIAL},
    {RLX_TOKEN_USER_DEFINED, RX_TOK_ADDED},
    {RLX_TOKEN_UNUSED, 0},
    {RLX_TOKEN_BYTE, 0},
};

static rlx_status load_token(const loader *l, const rlx_meta *tokens, const rlx_meta *scores,
                             const rlx_meta *types, size_t i)
{
    const char *text;
    size_t n;
    double score = 0;
    int64_t type = 1;
    if (!rlx_meta_string(tokens, i, &text, &n) || n >= UINT32_MAX)
        return fail_kind(l, KEY("tokens"), "an array of strings");
    if (scores->n && !rlx_meta_f64(scores, i, &score))
        return fail_kind(l, KEY("scores"), "an array of numbers");
    if (types->n && !rlx_meta_i64(types, i, &type))
        return fail_kind(l, KEY("token_type"), "an array of integers");
    if (type < 0 || (size_t)type >= sizeof token_types / sizeof token_types[0])
        return rx_fail(l->err, RLX_PARSE, "'%s': token %zu '%.*s' has type %lld; expected 0 to 6",
                       l->t->path, i, n < 80 ? (int)n : 80, text, (long long)type);
    if (score != score)
        return rx_fail(l->err, RLX_PARSE, "'%s': the score of token %zu is not a number",
                       l->t->path, i);
    rx_token token = {.text = text, .length = (uint32_t)n, .score = score,
                      .kind = (uint8_t)(n ? token_types[type].kind : RLX_TOKEN_UNUSED),
                      .flags = (uint8_t)token_types[type].flags};
    return rx_tok_set(l->t, i, token, l->err);
}

static rlx_status load_tokens(const loader *l)
{
    rlx_meta tokens, scores, types;
    if (!rlx_file_find_meta(l->f, KEY("tokens"), &tokens) || !tokens.is_array ||
        tokens.kind != RLX_META_STRING)
        return fail_kind(l, KEY("tokens"), "an array of strings");
    RLX_TRY(get_array(l, KEY("scores"), tokens.n, &scores));
    RLX_TRY(get_array(l, KEY("token_type"), tokens.n, &types));
    if (l->family->needs_scores && !scores.n && tokens.n)
        return rx_fail(l->err, RLX_PARSE, "'%s': a vocabulary of model '%s' without metadata '%s'; "
                       "expected a score for each token", l->t->path, l->family->name,
                       KEY("scores"));
    for (size_t i = 0; i < tokens.n; i++)
        RLX_TRY(load_token(l, &tokens, &scores, &types, i));
    return RLX_OK;
}

static rlx_status load_merges(const loader *l)
{
    rlx_meta merges;
    if (!rlx_file_find_meta(l->f, KEY("merges"), &merges) || !merges.is_array ||
        (merges.n && merges.kind != RLX_META_STRING))
        return fail_kind(l, KEY("merges"), "an array of strings");
    if (!rx_merges_init(&l->t->merges, merges.n))
        return rx_fail_memory(l->err, "the merges", merges.n * sizeof(rx_merge));
    for (size_t i = 0; i < merges.n; i++) {
        const char *text = NULL;
        size_t n = 0;
        rlx_meta_string(&merges, i, &text, &n);
        const char *blank = n > 2 ? memchr(text + 1, ' ', n - 1) : NULL;
        if (!blank)
            return rx_fail(l->err, RLX_PARSE, "'%s': merge %zu is '%.*s'; expected two tokens with "
                           "a blank between", l->t->path, i, n < 80 ? (int)n : 80, text);
        size_t left = (size_t)(blank - text);
        RLX_TRY(rx_tok_add_merge(l->t, i, (rx_bytes){text, left},
                                 (rx_bytes){blank + 1, n - left - 1}, l->err));
    }
    return RLX_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static rlx_status load_charsmap(const loader *l)
{
    rlx_meta m;
    if (!rlx_file_find_meta(l->f, KEY("precompiled_charsmap"), &m) || m.n == 0)
        return RLX_OK;
    char *map = rx_arena_alloc(&l->t->arena, m.n);
    if (!map)
        return rx_fail_memory(l->err, "the charsmap", m.n);
    for (size_t i = 0; i < m.n; i++) {
        int64_t byte;
        if (!m.is_array || !rlx_meta_i64(&m, i, &byte) || byte < -128 || byte > 255)
            return fail_kind(l, m.key, "an array of bytes");
        map[i] = (char)byte;
    }
    RLX_TRY(rx_tok_check_charsmap(l->t, map, m.n, l->err));
    rx_step *s = rx_tok_norm(l->t, RX_NORM_CHARSMAP, l->err);
    s->text = map;
    s->text_bytes = m.n;
    return RLX_OK;
}

/* SentencePiece: spaces become U+2581, with one more before the text. */
static rlx_status load_spaces(const loader *l)
{
    rlx_tokenizer *t = l->t;
    bool prefix = l->family->add_prefix, squeeze = false;
    RLX_TRY(get_bool(l, KEY("add_space_prefix"), &prefix));
    RLX_TRY(get_bool(l, KEY("remove_extra_whitespaces"), &squeeze));
    RLX_TRY(load_charsmap(l));
    if (squeeze)
        rx_tok_norm(t, RX_NORM_SPACES, l->err);
    rx_step *s;
    if (prefix) {
        s = rx_tok_norm(t, RX_NORM_PREPEND, l->err);
        s->text = RX_SPACE;
        s->text_bytes = RX_SPACE_BYTES;
    }
    s = rx_tok_norm(t, RX_NORM_REPLACE, l->err);
    s->text = " ";
    s->text_bytes = 1;
    s->with = RX_SPACE;
    s->with_bytes = RX_SPACE_BYTES;
    t->strip_first_blank = prefix;
    t->fuse_unknown = true;
    t->single_scores = true;
    for (size_t i = 0; i < t->n_tokens; i++)
        t->byte_fallback = t->byte_fallback || t->tokens[i].kind == RLX_TOKEN_BYTE;
    return RLX_OK;
}

static rlx_status load_pre(const loader *l, bool *add_bos)
{
    const char *name;
    size_t n = 0;
    bool prefix = false;
    RLX_TRY(get_text(l, KEY("pre"), &name, &n));
    const rx_pre_name *pre = name ? rx_pre_find(name, n) : rx_pre_find("default", 7);
    if (!pre)
        return rx_fail(l->err, RLX_UNSUPPORTED, "'%s': metadata '%s' is '%.*s', which is no "
                       "splitting rule of rlx", l->t->path, KEY("pre"), n < 80 ? (int)n : 80, name);
    RLX_TRY(get_bool(l, KEY("add_space_prefix"), &prefix));
    if (prefix)
        rx_tok_add_split(l->t, RX_SPLIT_PREFIX, l->err);
    for (size_t i = 0; i < sizeof pre->patterns / sizeof pre->patterns[0] && pre->patterns[i]; i++)
        RLX_TRY(rx_tok_add_pattern(l->t, pre->patterns[i], l->err));
    l->t->byte_level = true;
    l->t->drop_unknown = true;
    l->t->ignore_merges = pre->ignore_merges;
    *add_bos = pre->add_bos;
    return load_merges(l);
}

/* Detects word markers and lower case from the vocabulary, since GGUF has no keys for them. */
static bool study_words(rlx_tokenizer *t)
{
    size_t n_phantom = 0, n_capital = 0;
    for (size_t i = 0; i < t->n_tokens; i++) {
        const rx_token *token = &t->tokens[i];
        if (token->kind != RLX_TOKEN_NORMAL || token->text[0] == '[')
            continue;
        n_phantom += !strncmp(token->text, RX_SPACE, RX_SPACE_BYTES);
        for (size_t k = 0; k < token->length; k++)
            if (token->text[k] >= 'A' && token->text[k] <= 'Z') {
                n_capital++;
                break;
            }
    }
    t->first_prefix = n_phantom ? RX_SPACE : "";
    t->next_prefix = n_phantom ? "" : "##";
    return n_capital > t->n_tokens / 100;
}

static void load_wordpiece(rlx_tokenizer *t)
{
    bool is_cased = study_words(t);
    rx_tok_add_bert(t, !is_cased);
    t->clean_up = true;
}

/* ---- Special tokens -------------------------------------------------------------------------- */

const rx_special_key rx_special_keys[] = {
    {RLX_SPECIAL_BOS, KEY("bos_token_id")},     {RLX_SPECIAL_EOS, KEY("eos_token_id")},
    {RLX_SPECIAL_EOT, KEY("eot_token_id")},     {RLX_SPECIAL_UNK, KEY("unknown_token_id")},
    {RLX_SPECIAL_PAD, KEY("padding_token_id")}, {RLX_SPECIAL_SEP, KEY("seperator_token_id")},
    {RLX_SPECIAL_CLS, KEY("cls_token_id")},     {RLX_SPECIAL_MASK, KEY("mask_token_id")},
    {RLX_SPECIAL_BOS, NULL},
};

static int32_t in_range(const rlx_tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->n_tokens ? id : -1;
}

static rlx_status load_specials(const loader *l)
{
    rlx_tokenizer *t = l->t;
    int32_t eom = -1;
    t->special[RLX_SPECIAL_BOS] = in_range(t, l->family->bos);
    t->special[RLX_SPECIAL_EOS] = in_range(t, l->family->eos);
    t->special[RLX_SPECIAL_UNK] = in_range(t, l->family->unk);
    for (const rx_special_key *k = rx_special_keys; k->key; k++)
        RLX_TRY(get_id(l, k->key, &t->special[k->which]));
    RLX_TRY(get_id(l, KEY("separator_token_id"), &t->special[RLX_SPECIAL_SEP])); /* some files */
    RLX_TRY(get_id(l, KEY("eom_token_id"), &eom));
    if (eom >= 0)
        t->tokens[eom].flags |= RX_TOK_END;
    if (t->special[RLX_SPECIAL_UNK] < 0 && t->model == RX_TOK_WORDPIECE)
        t->special[RLX_SPECIAL_UNK] = rx_tok_find(t, "[UNK]", 5);
    return RLX_OK;
}

/* Sets the ids before and after a text. */
static rlx_status load_around(const loader *l, bool add_bos)
{
    rlx_tokenizer *t = l->t;
    bool add_eos = l->family->add_eos;
    int32_t first = t->special[RLX_SPECIAL_BOS], last = t->special[RLX_SPECIAL_EOS];
    RLX_TRY(get_bool(l, KEY("add_bos_token"), &add_bos));
    RLX_TRY(get_bool(l, KEY("add_eos_token"), &add_eos));
    if (t->model == RX_TOK_WORDPIECE) { /* [CLS] and [SEP], whatever they are called */
        int32_t cls = rx_tok_find(t, "[CLS]", 5), sep = rx_tok_find(t, "[SEP]", 5);
        first = t->special[RLX_SPECIAL_CLS] >= 0 ? t->special[RLX_SPECIAL_CLS]
                : first >= 0 ? first : cls;
        last = t->special[RLX_SPECIAL_SEP] >= 0 ? t->special[RLX_SPECIAL_SEP] : sep;
        t->special[RLX_SPECIAL_CLS] = first;
        t->special[RLX_SPECIAL_SEP] = last;
        add_bos = add_eos = true;
    }
    return rx_tok_set_around(t, &first, add_bos, &last, add_eos, l->err);
}

static rlx_status load_templates(const loader *l)
{
    static const char begin[] = "tokenizer.chat_template";
    rlx_meta m;
    for (size_t i = 0; rlx_file_meta_at(l->f, i, &m); i++) {
        const char *text, *name = m.key + sizeof begin - 1;
        size_t n;
        if (strncmp(m.key, begin, sizeof begin - 1) || (*name && *name != '.'))
            continue;
        if (m.is_array || !rlx_meta_string(&m, 0, &text, &n))
            return fail_kind(l, m.key, "a string");
        RLX_TRY(rx_tok_add_template(l->t, *name ? name + 1 : NULL, *name ? strlen(name + 1) : 0,
                                    text, n, l->err));
    }
    return RLX_OK;
}

static rlx_status find_family(loader *l)
{
    const char *name;
    size_t n = 0;
    RLX_TRY(get_text(l, KEY("model"), &name, &n));
    if (!name || (n == 4 && !memcmp(name, "none", n)) || (n == 8 && !memcmp(name, "no_vocab", n)))
        return rx_fail(l->err, RLX_NOT_FOUND, "'%s' has no tokenizer: expected metadata '%s'",
                       l->t->path, KEY("model"));
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strlen(families[i].name) == n && !memcmp(families[i].name, name, n)) {
            l->family = &families[i];
            return RLX_OK;
        }
    return rx_fail(l->err, RLX_UNSUPPORTED, "'%s': metadata '%s' is '%.*s'; expected llama, gpt2, "
                   "bert or t5", l->t->path, KEY("model"), n < 80 ? (int)n : 80, name);
}

rlx_status rx_tok_load_gguf(rlx_tokenizer *t, const rlx_file *f, rlx_error *err)
{
    loader l = {.t = t, .f = f, .err = err};
    RLX_TRY(find_family(&l));
    bool add_bos = l.family->add_bos;
    t->model = l.family->model;
    t->decode = l.family->decode;
    RLX_TRY(load_tokens(&l));
    RLX_TRY(load_specials(&l));
    if (t->model == RX_TOK_BPE)
        RLX_TRY(load_pre(&l, &add_bos));
    else if (t->model == RX_TOK_WORDPIECE)
        load_wordpiece(t);
    else
        RLX_TRY(load_spaces(&l));
    RLX_TRY(load_around(&l, add_bos));
    return load_templates(&l);
}
