/* SPDX-License-Identifier: MIT */
/* tokenizer.json: the model and its vocabulary, added tokens; vocab.txt; tokenizer_config.json. */
#include <string.h>

#include "model/tok_json.h"

/* ---- Members --------------------------------------------------------------------------------- */

rlx_status rx_tok_json_fail(const rx_tok_json *l, const char *where, const char *expected,
                            const rx_json *found)
{
    bool show = found && (found->kind == RX_JSON_NUMBER || found->kind == RX_JSON_STRING);
    return rx_fail(l->err, RLX_PARSE, "'%s': %s: expected %s, found %s%s%.60s", l->t->path, where,
                   expected, rx_json_kind_name(found), show ? " " : "", show ? found->text : "");
}

bool rx_tok_json_is(const rx_json *v, const char *key, const char *text)
{
    const rx_json *m = rx_json_member(v, key);
    return m && m->kind == RX_JSON_STRING && !strcmp(m->text, text);
}

bool rx_tok_json_bool(const rx_json *v, const char *key, bool missing)
{
    const rx_json *m = rx_json_member(v, key);
    return m && m->kind == RX_JSON_BOOL ? m->truth : missing;
}

rlx_status rx_tok_json_text(const rx_tok_json *l, const rx_json *v, const char *key,
                            const char **text, size_t *n)
{
    const rx_json *m = rx_json_member(v, key);
    bool there = m && m->kind == RX_JSON_STRING;
    *text = rx_arena_strndup(&l->t->arena, there ? m->text : "", there ? m->length : 0);
    if (n)
        *n = there ? m->length : 0;
    return *text ? RLX_OK : rx_fail_memory(l->err, key, there ? m->length + 1 : 1);
}

/* ---- Vocabularies ---------------------------------------------------------------------------- */

static rx_token make_token(const char *text, size_t n, double score)
{
    return (rx_token){.text = text, .length = (uint32_t)n, .score = score,
                      .kind = RLX_TOKEN_NORMAL};
}

/* Bounds ids: gaps may not outnumber the tokens by much. */
static rlx_status check_id(const rx_tok_json *l, const rx_json *v, const char *text, size_t count,
                           uint64_t *id)
{
    if (!rx_json_u64(v, id))
        return rx_tok_json_fail(l, text, "the id of a token", v);
    if (*id > 2 * (uint64_t)count + 65536)
        return rx_fail(l->err, RLX_PARSE, "'%s': token '%.80s' has id %llu; expected ids without "
                       "large gaps for %zu tokens", l->t->path, text, (unsigned long long)*id,
                       count);
    return RLX_OK;
}

/* {"the": 5, ...} */
static rlx_status load_vocab_object(const rx_tok_json *l, const rx_json *vocab)
{
    if (!vocab || vocab->kind != RX_JSON_OBJECT)
        return rx_tok_json_fail(l, "the vocab of the model", "an object", vocab);
    for (const rx_json *m = vocab->first; m; m = m->next) {
        uint64_t id;
        RLX_TRY(check_id(l, m, m->key, vocab->n, &id));
        RLX_TRY(rx_tok_set(l->t, (size_t)id, make_token(m->key, m->key_length, 0), l->err));
    }
    return RLX_OK;
}

/* [["the", -3.5], ...] */
static rlx_status load_vocab_scores(const rx_tok_json *l, const rx_json *vocab)
{
    size_t id = 0;
    if (!vocab || vocab->kind != RX_JSON_ARRAY)
        return rx_tok_json_fail(l, "the vocab of a Unigram", "an array", vocab);
    for (const rx_json *m = vocab->first; m; m = m->next) {
        double score;
        if (m->kind != RX_JSON_ARRAY || m->n != 2 || m->first->kind != RX_JSON_STRING ||
            !rx_json_real(m->first->next, &score))
            return rx_tok_json_fail(l, "the vocab of a Unigram", "pairs of a token and its score",
                                    m);
        RLX_TRY(rx_tok_set(l->t, id++, make_token(m->first->text, m->first->length, score),
                           l->err));
    }
    return RLX_OK;
}

/* The unk_token of a model; fails when it is not in the vocabulary. */
static rlx_status load_unknown(const rx_tok_json *l, const rx_json *model)
{
    const rx_json *name = rx_json_member(model, "unk_token");
    if (!name || name->kind != RX_JSON_STRING)
        return RLX_OK;
    int32_t id = rx_tok_find(l->t, name->text, name->length);
    if (id < 0)
        return rx_fail(l->err, RLX_PARSE, "'%s': unk_token '%.80s': expected it in the vocabulary",
                       l->t->path, name->text);
    l->t->special[RLX_SPECIAL_UNK] = id;
    return RLX_OK;
}

/* ---- Models ---------------------------------------------------------------------------------- */

/* "a b" or ["a", "b"] */
static rlx_status load_merge(const rx_tok_json *l, const rx_json *m, size_t rank)
{
    rx_bytes left = {"", 0}, right = {"", 0};
    if (m->kind == RX_JSON_ARRAY && m->n == 2 && m->first->kind == RX_JSON_STRING &&
        m->first->next->kind == RX_JSON_STRING) {
        left = (rx_bytes){m->first->text, m->first->length};
        right = (rx_bytes){m->first->next->text, m->first->next->length};
    } else if (m->kind == RX_JSON_STRING) {
        const char *blank = m->length > 2 ? memchr(m->text + 1, ' ', m->length - 1) : NULL;
        size_t n = blank ? (size_t)(blank - m->text) : 0;
        if (blank) {
            left = (rx_bytes){m->text, n};
            right = (rx_bytes){blank + 1, m->length - n - 1};
        }
    }
    if (!left.bytes || !right.bytes)
        return rx_tok_json_fail(l, "merges", "two tokens with a blank between, or a pair", m);
    return rx_tok_add_merge(l->t, rank, left, right, l->err);
}

static rlx_status load_bpe(const rx_tok_json *l, const rx_json *model)
{
    rlx_tokenizer *t = l->t;
    const rx_json *merges = rx_json_member(model, "merges");
    size_t rank = 0;
    RLX_TRY(load_vocab_object(l, rx_json_member(model, "vocab")));
    RLX_TRY(rx_tok_json_text(l, model, "continuing_subword_prefix", &t->next_prefix, NULL));
    RLX_TRY(rx_tok_json_text(l, model, "end_of_word_suffix", &t->word_suffix, NULL));
    t->byte_fallback = rx_tok_json_bool(model, "byte_fallback", false);
    t->ignore_merges = rx_tok_json_bool(model, "ignore_merges", false);
    t->fuse_unknown = rx_tok_json_bool(model, "fuse_unk", false);
    RLX_TRY(load_unknown(l, model));
    if (!merges || merges->kind != RX_JSON_ARRAY)
        return rx_tok_json_fail(l, "merges", "an array", merges);
    if (!rx_merges_init(&t->merges, merges->n))
        return rx_fail_memory(l->err, "the merges", merges->n * sizeof(rx_merge));
    for (const rx_json *m = merges->first; m; m = m->next)
        RLX_TRY(load_merge(l, m, rank++));
    return RLX_OK;
}

static rlx_status load_unigram(const rx_tok_json *l, const rx_json *model)
{
    rlx_tokenizer *t = l->t;
    const rx_json *unknown = rx_json_member(model, "unk_id");
    uint64_t id;
    t->model = RX_TOK_UNIGRAM;
    t->byte_fallback = rx_tok_json_bool(model, "byte_fallback", false);
    t->fuse_unknown = true;
    RLX_TRY(load_vocab_scores(l, rx_json_member(model, "vocab")));
    if (!unknown || unknown->kind == RX_JSON_NULL)
        return RLX_OK;
    if (!rx_json_u64(unknown, &id) || id >= t->n_tokens)
        return rx_tok_json_fail(l, "unk_id", "the id of a token", unknown);
    t->special[RLX_SPECIAL_UNK] = (int32_t)id;
    return RLX_OK;
}

static rlx_status load_wordpiece(const rx_tok_json *l, const rx_json *model)
{
    rlx_tokenizer *t = l->t;
    uint64_t max_word;
    t->model = RX_TOK_WORDPIECE;
    RLX_TRY(load_vocab_object(l, rx_json_member(model, "vocab")));
    t->next_prefix = "##";
    if (rx_json_member(model, "continuing_subword_prefix"))
        RLX_TRY(rx_tok_json_text(l, model, "continuing_subword_prefix", &t->next_prefix, NULL));
    if (rx_json_u64(rx_json_member(model, "max_input_chars_per_word"), &max_word))
        t->max_word = max_word < 65536 ? (size_t)max_word : 65536;
    return load_unknown(l, model);
}

static rlx_status load_wordlevel(const rx_tok_json *l, const rx_json *model)
{
    l->t->model = RX_TOK_WORDLEVEL;
    RLX_TRY(load_vocab_object(l, rx_json_member(model, "vocab")));
    return load_unknown(l, model);
}

static rlx_status load_model(const rx_tok_json *l, const rx_json *model)
{
    static const struct {
        const char *type, *member; /* old files lack "type": detected by a member */
        rlx_status (*load)(const rx_tok_json *l, const rx_json *model);
    } rows[] = {
        {"BPE", "merges", load_bpe},
        {"Unigram", "unk_id", load_unigram},
        {"WordPiece", "max_input_chars_per_word", load_wordpiece},
        {"WordLevel", "vocab", load_wordlevel},
    };
    const rx_json *type = rx_json_member(model, "type");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (type ? rx_tok_json_is(model, "type", rows[i].type)
                 : rx_json_member(model, rows[i].member) != NULL)
            return rows[i].load(l, model);
    return rx_tok_json_fail(l, "the model", "type BPE, Unigram, WordPiece or WordLevel",
                            type ? type : model);
}

/* ---- Added tokens ---------------------------------------------------------------------------- */

static rlx_status load_added_token(const rx_tok_json *l, const rx_json *v, size_t count)
{
    rlx_tokenizer *t = l->t;
    const rx_json *content = rx_json_member(v, "content");
    uint64_t id;
    if (!content || content->kind != RX_JSON_STRING || content->length == 0)
        return rx_tok_json_fail(l, "the content of an added token", "a string", content);
    RLX_TRY(check_id(l, rx_json_member(v, "id"), content->text, count, &id));
    int32_t known = rx_tok_find(t, content->text, content->length);
    if (known >= 0 && (uint64_t)known != id)
        return rx_fail(l->err, RLX_PARSE, "'%s': added token '%.80s' has id %llu; expected %d, "
                       "which it has in the vocabulary", t->path, content->text,
                       (unsigned long long)id, known);
    if (known < 0)
        RLX_TRY(rx_tok_set(t, (size_t)id, make_token(content->text, content->length, 0), l->err));
    rx_token *token = &t->tokens[id];
    bool special = rx_tok_json_bool(v, "special", false);
    token->kind = special ? RLX_TOKEN_CONTROL : RLX_TOKEN_USER_DEFINED;
    token->flags = (uint8_t)(RX_TOK_ADDED | (special ? RX_TOK_SPECIAL : 0) |
                             (rx_tok_json_bool(v, "lstrip", false) ? RX_TOK_LSTRIP : 0) |
                             (rx_tok_json_bool(v, "rstrip", false) ? RX_TOK_RSTRIP : 0) |
                             (rx_tok_json_bool(v, "single_word", false) ? RX_TOK_SINGLE : 0) |
                             (rx_tok_json_bool(v, "normalized", !special) ? RX_TOK_NORMAL : 0));
    return RLX_OK;
}

static rlx_status load_added(const rx_tok_json *l, const rx_json *list)
{
    if (!list || list->kind == RX_JSON_NULL)
        return RLX_OK;
    if (list->kind != RX_JSON_ARRAY)
        return rx_tok_json_fail(l, "added_tokens", "an array", list);
    size_t count = l->t->n_tokens + list->n;
    for (const rx_json *v = list->first; v; v = v->next)
        RLX_TRY(load_added_token(l, v, count));
    return RLX_OK;
}

static rlx_status load_root(const rx_tok_json *l, const rx_json *root)
{
    rlx_tokenizer *t = l->t;
    if (root->kind != RX_JSON_OBJECT || !rx_json_member(root, "model"))
        return rx_tok_json_fail(l, "the file", "an object with a model", root);
    t->model = RX_TOK_BPE;
    t->decode = RX_DECODE_WORDS;
    RLX_TRY(load_model(l, rx_json_member(root, "model")));
    RLX_TRY(load_added(l, rx_json_member(root, "added_tokens")));
    RLX_TRY(rx_tok_json_normaliser(l, rx_json_member(root, "normalizer")));
    RLX_TRY(rx_tok_json_splitter(l, rx_json_member(root, "pre_tokenizer")));
    RLX_TRY(rx_tok_json_decoder(l, rx_json_member(root, "decoder")));
    if (t->byte_level && t->model != RX_TOK_BPE)
        return rx_fail(l->err, RLX_UNSUPPORTED, "'%s': a ByteLevel step with a model that is no "
                       "BPE", t->path);
    int32_t unknown = t->special[RLX_SPECIAL_UNK];
    if (unknown >= 0)
        t->tokens[unknown].kind = RLX_TOKEN_UNKNOWN;
    return rx_tok_json_around(l, rx_json_member(root, "post_processor"));
}

rlx_status rx_tok_load_json(rlx_tokenizer *t, const void *text, size_t n, rlx_error *err)
{
    rx_tok_json l = {t, err};
    rx_arena arena = {0};
    const rx_json *root;
    rlx_status st = rx_json_parse(&arena, t->path, text, n, &root, err);
    if (st == RLX_OK)
        st = load_root(&l, root);
    rx_arena_finish(&arena);
    return st;
}

/* ---- vocab.txt and tokenizer_config.json ----------------------------------------------------- */

rlx_status rx_tok_load_vocab(rlx_tokenizer *t, const void *text, size_t n, bool lower,
                             rlx_error *err)
{
    const char *s = text;
    size_t id = 0;
    t->model = RX_TOK_WORDPIECE;
    t->decode = RX_DECODE_WORDPIECE;
    t->clean_up = true;
    t->next_prefix = "##";
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(s + at, '\n', n - at);
        size_t end = newline ? (size_t)(newline - s) : n, length = end - at;
        length -= length && s[at + length - 1] == '\r';
        if (length >= 1024)
            return rx_fail(err, RLX_PARSE, "'%s': line %zu has %zu bytes; expected a token",
                           t->path, id + 1, length);
        rx_token token = make_token(s + at, length, 0);
        if (length > 2 && s[at] == '[' && s[at + length - 1] == ']') {
            bool unused = !strncmp(s + at, "[unused", 7);
            token.kind = unused ? RLX_TOKEN_UNUSED : RLX_TOKEN_CONTROL;
            token.flags = unused ? 0 : RX_TOK_ADDED | RX_TOK_SPECIAL;
        }
        RLX_TRY(rx_tok_set(t, id++, token, err));
        at = end + 1;
    }
    int32_t cls = rx_tok_find(t, "[CLS]", 5), sep = rx_tok_find(t, "[SEP]", 5);
    int32_t unknown = rx_tok_find(t, "[UNK]", 5);
    if (unknown < 0)
        return rx_fail(err, RLX_PARSE, "'%s': expected a token [UNK], found none", t->path);
    t->special[RLX_SPECIAL_UNK] = unknown;
    t->tokens[unknown].kind = RLX_TOKEN_UNKNOWN;
    rx_tok_add_bert(t, lower);
    return rx_tok_set_around(t, &cls, 1, &sep, 1, err);
}

/* "chat_template": a text, or [{"name": ..., "template": ...}, ...] */
static rlx_status load_templates(const rx_tok_json *l, const rx_json *v)
{
    if (v && v->kind == RX_JSON_STRING && !rlx_tokenizer_chat_template(l->t, NULL))
        return rx_tok_add_template(l->t, NULL, 0, v->text, v->length, l->err);
    for (const rx_json *e = v && v->kind == RX_JSON_ARRAY ? v->first : NULL; e; e = e->next) {
        const rx_json *name = rx_json_member(e, "name"), *text = rx_json_member(e, "template");
        if (!name || !text || name->kind != RX_JSON_STRING || text->kind != RX_JSON_STRING)
            return rx_tok_json_fail(l, "chat_template", "a name and a template", e);
        bool usual = !strcmp(name->text, "default");
        RLX_TRY(rx_tok_add_template(l->t, usual ? NULL : name->text, name->length, text->text,
                                    text->length, l->err));
    }
    return RLX_OK;
}

static void load_special_names(rlx_tokenizer *t, const rx_json *root)
{
    static const struct {
        const char *key;
        rlx_special which;
    } names[] = {
        {"bos_token", RLX_SPECIAL_BOS}, {"eos_token", RLX_SPECIAL_EOS},
        {"pad_token", RLX_SPECIAL_PAD}, {"sep_token", RLX_SPECIAL_SEP},
        {"cls_token", RLX_SPECIAL_CLS}, {"mask_token", RLX_SPECIAL_MASK},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const rx_json *v = rx_json_member(root, names[i].key);
        if (v && v->kind == RX_JSON_OBJECT)
            v = rx_json_member(v, "content");
        int32_t id = v && v->kind == RX_JSON_STRING ? rx_tok_find(t, v->text, v->length) : -1;
        if (id >= 0)
            t->special[names[i].which] = id;
    }
}

bool rx_tok_config_lower(const void *text, size_t n)
{
    rx_arena arena = {0};
    const rx_json *root = NULL;
    if (n)
        rx_json_parse(&arena, "tokenizer_config.json", text, n, &root, NULL);
    bool lower = rx_tok_json_bool(root, "do_lower_case", true);
    rx_arena_finish(&arena);
    return lower;
}

rlx_status rx_tok_load_config(rlx_tokenizer *t, const void *text, size_t n, rlx_error *err)
{
    rx_tok_json l = {t, err};
    rx_arena arena = {0};
    const rx_json *root;
    rlx_status st = rx_json_parse(&arena, "tokenizer_config.json", text, n, &root, err);
    if (st == RLX_OK)
        load_special_names(t, root);
    if (st == RLX_OK)
        st = load_templates(&l, rx_json_member(root, "chat_template"));
    rx_arena_finish(&arena);
    return st;
}
