/* SPDX-License-Identifier: MIT */
/* A tokenizer as metadata of a GGUF file: the vocabulary with kinds and scores, merges, the
 * splitting rule by its name, special tokens, chat templates. What GGUF cannot say is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/convert.h"
#include "model/unicode.h"

#define KEY(name) "tokenizer.ggml." name

/* ---- The vocabulary -------------------------------------------------------------------------- */

/* Arrays with a value for each token; in the arena. */
typedef struct vocabulary {
    const char **texts;
    size_t *lengths;
    float *scores;
    int32_t *types;
    size_t n;
} vocabulary;

static bool has_ends(const rx_token *t, const char *begin, const char *end)
{
    const size_t n = strlen(begin), m = strlen(end);
    return t->length > n + m && memcmp(t->text, begin, n) == 0 &&
           memcmp(t->text + t->length - m, end, m) == 0;
}

/* Added tokens that are no text of their own, though the file does not call them special. */
static bool looks_special(const rx_token *t)
{
    static const char *const names[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == t->length && memcmp(names[i], t->text, t->length) == 0)
            return true;
    return has_ends(t, "<|", "|>") ||
           has_ends(t, "<\xef\xbd\x9c", "\xef\xbd\x9c>"); /* DeepSeek's bars */
}

/* The numbers of tokenizer.ggml.token_type. */
static int32_t type_of(const rx_token *t)
{
    static const int32_t numbers[] = {
        [RLX_TOKEN_NONE] = 5, [RLX_TOKEN_NORMAL] = 1, [RLX_TOKEN_UNKNOWN] = 2,
        [RLX_TOKEN_CONTROL] = 3, [RLX_TOKEN_USER_DEFINED] = 4, [RLX_TOKEN_UNUSED] = 5,
        [RLX_TOKEN_BYTE] = 6,
    };
    return t->kind == RLX_TOKEN_USER_DEFINED && looks_special(t) ? 3 : numbers[t->kind];
}

/* WordPiece in GGUF marks where words begin, not where they go on. */
static bool set_word(rx_arena *arena, const rlx_tokenizer *t, const rx_token *token, vocabulary *v,
                     size_t i)
{
    const size_t n = strlen(t->next_prefix);
    const bool goes_on = n && token->length > n && !memcmp(token->text, t->next_prefix, n);
    if (goes_on) {
        v->texts[i] = token->text + n;
        v->lengths[i] = token->length - n;
        return true;
    }
    char *text = rx_arena_alloc(arena, token->length + RX_SPACE_BYTES);
    if (!text)
        return false;
    memcpy(text, RX_SPACE, RX_SPACE_BYTES);
    memcpy(text + RX_SPACE_BYTES, token->text, token->length);
    v->texts[i] = text;
    v->lengths[i] = token->length + RX_SPACE_BYTES;
    return true;
}

static bool set_token(rx_arena *arena, const rlx_tokenizer *t, vocabulary *v, size_t i)
{
    static const rx_token none = {.text = "", .kind = RLX_TOKEN_NONE};
    const rx_token *token = i < t->n_tokens ? &t->tokens[i] : &none;
    v->types[i] = type_of(token);
    v->scores[i] = (float)token->score;
    v->texts[i] = token->text;
    v->lengths[i] = token->length;
    if (token->kind == RLX_TOKEN_NONE || !token->length) { /* a place without a token */
        char *text = rx_arena_alloc(arena, 24);
        if (!text)
            return false;
        v->texts[i] = text;
        v->lengths[i] = (size_t)snprintf(text, 24, "[PAD%zu]", i);
        v->types[i] = 5;
        return true;
    }
    if (t->model == RX_TOK_WORDPIECE && token->kind != RLX_TOKEN_CONTROL &&
        token->kind != RLX_TOKEN_UNKNOWN)
        return set_word(arena, t, token, v, i);
    return true;
}

static rlx_status fill_vocabulary(rx_arena *arena, const rlx_tokenizer *t, vocabulary *v,
                                  rlx_error *err)
{
    v->texts = rx_arena_array(arena, v->n, sizeof *v->texts);
    v->lengths = rx_arena_array(arena, v->n, sizeof *v->lengths);
    v->scores = rx_arena_array(arena, v->n, sizeof *v->scores);
    v->types = rx_arena_array(arena, v->n, sizeof *v->types);
    bool ok = v->texts && v->lengths && v->scores && v->types;
    for (size_t i = 0; ok && i < v->n; i++)
        ok = set_token(arena, t, v, i);
    return ok ? RLX_OK : rx_fail_memory(err, "a vocabulary", v->n * sizeof *v->texts);
}

/* ---- Merges ---------------------------------------------------------------------------------- */

static int compare_ranks(const void *a, const void *b)
{
    const rx_merge *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* By rank; *n of them. */
static rx_merge *sort_merges(rx_arena *arena, const rx_merges *m, size_t *n)
{
    rx_merge *list = rx_arena_array(arena, m->cap ? m->cap : 1, sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < m->cap; i++)
        if (m->slots[i].left >= 0)
            list[(*n)++] = m->slots[i];
    if (list)
        qsort(list, *n, sizeof *list, compare_ranks);
    return list;
}

static rlx_status put_merges(rx_arena *arena, const rlx_tokenizer *t, rlx_gguf_writer *w,
                             rlx_error *err)
{
    size_t n;
    const rx_merge *list = sort_merges(arena, &t->merges, &n);
    const char **texts = rx_arena_array(arena, n ? n : 1, sizeof *texts);
    size_t *lengths = rx_arena_array(arena, n ? n : 1, sizeof *lengths);
    bool ok = list && texts && lengths;
    for (size_t i = 0; ok && i < n; i++) {
        const rx_token *a = &t->tokens[list[i].left], *b = &t->tokens[list[i].right];
        const uint64_t length = (uint64_t)a->length + 1 + b->length;
        char *text = rx_arena_alloc(arena, length);
        ok = text != NULL;
        if (!ok)
            break;
        memcpy(text, a->text, a->length);
        text[a->length] = ' ';
        memcpy(text + a->length + 1, b->text, b->length);
        texts[i] = text;
        lengths[i] = length;
    }
    if (!ok)
        return rx_fail_memory(err, "the merges", n * sizeof *texts);
    const rlx_gguf_value v = {.type = RLX_GGUF_STRING, .is_array = true, .n = n, .texts = texts,
                              .lengths = lengths};
    return rlx_gguf_writer_set(w, KEY("merges"), &v, err);
}

/* SentencePiece merges by scores: a token's is how early its first merge comes. */
static rlx_status score_by_merges(rx_arena *arena, const rlx_tokenizer *t, vocabulary *v,
                                  rlx_error *err)
{
    size_t n;
    const rx_merge *list = sort_merges(arena, &t->merges, &n);
    if (!list)
        return rx_fail_memory(err, "the merges", n * sizeof *list);
    for (size_t i = 0; i < v->n; i++)
        v->scores[i] = v->types[i] == 1 ? -(float)(n + 1) : 0;
    for (size_t i = n; i-- > 0;)
        v->scores[list[i].id] = -(float)i;
    return RLX_OK;
}

/* ---- The kind of tokenizer ------------------------------------------------------------------- */

static bool is_step(const rx_step *s, const char *pattern)
{
    if (s->kind == RX_SPLIT_BITS && s->flags == RX_IN_N && !s->invert)
        return strcmp(pattern, s->behaviour == RX_ISOLATED ? "number" : "numbers") == 0;
    return s->kind == RX_SPLIT_PATTERN && s->pattern == rx_pattern_by_name(pattern) &&
           (s->behaviour == RX_ISOLATED || (s->behaviour == RX_REMOVED && s->invert));
}

static bool has_steps(const rlx_tokenizer *t, const rx_pre_name *pre)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_splits; i++) {
        if (t->splits[i].kind == RX_SPLIT_PREFIX)
            continue;
        if (n == sizeof pre->patterns / sizeof pre->patterns[0] || !pre->patterns[n] ||
            !is_step(&t->splits[i], pre->patterns[n]))
            return false;
        n++;
    }
    return n == sizeof pre->patterns / sizeof pre->patterns[0] || !pre->patterns[n];
}

/* The first name of the rule, with the same use of merges if there is one. */
static rlx_status put_pre(const rlx_tokenizer *t, rlx_gguf_writer *w, rlx_error *err)
{
    const rx_pre_name *found = NULL, *pre;
    char name[64];
    for (size_t i = 0; (pre = rx_pre_at(i)) != NULL; i++)
        if (has_steps(t, pre) && (!found || (found->ignore_merges != t->ignore_merges &&
                                             pre->ignore_merges == t->ignore_merges)))
            found = pre;
    if (!found)
        return rx_fail(err, RLX_UNSUPPORTED, "the rule by which the tokenizer '%.200s' splits text "
                       "has no name in GGUF files", t->path);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(found->names, " "), found->names);
    return rlx_gguf_writer_set_text(w, KEY("pre"), name, err);
}

static const rx_step *find_step(const rx_step *list, size_t n, rx_step_kind kind)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].kind == kind)
            return &list[i];
    return NULL;
}

/* Whether a blank is put before a text. */
static bool adds_blank(const rlx_tokenizer *t)
{
    const rx_step *meta = find_step(t->splits, t->n_splits, RX_SPLIT_METASPACE);
    if (meta)
        return meta->flags & (RX_META_FIRST | RX_META_ALWAYS);
    return find_step(t->norms, t->n_norms, RX_NORM_PREPEND) ||
           find_step(t->splits, t->n_splits, RX_SPLIT_PREFIX);
}

static bool drops_blanks(const rlx_tokenizer *t)
{
    const rx_step *bits = find_step(t->splits, t->n_splits, RX_SPLIT_BITS);
    return find_step(t->norms, t->n_norms, RX_NORM_SQUEEZE) ||
           find_step(t->norms, t->n_norms, RX_NORM_SPACES) ||
           (bits && bits->behaviour == RX_REMOVED && bits->flags == RX_IN_SPACE);
}

static rlx_status put_unigram(const rlx_tokenizer *t, rlx_gguf_writer *w, rlx_error *err)
{
    const rx_step *map = find_step(t->norms, t->n_norms, RX_NORM_CHARSMAP);
    RLX_TRY(rlx_gguf_writer_set_bool(w, KEY("remove_extra_whitespaces"), drops_blanks(t), err));
    if (!map)
        return RLX_OK;
    const rlx_gguf_value v = {.type = RLX_GGUF_U8, .is_array = true, .n = map->text_bytes,
                              .numbers = map->text};
    return rlx_gguf_writer_set(w, KEY("precompiled_charsmap"), &v, err);
}

static const char *model_name(const rlx_tokenizer *t)
{
    switch (t->model) {
    case RX_TOK_BPE:
        return t->byte_level ? "gpt2" : t->byte_fallback && !*t->word_suffix ? "llama" : NULL;
    case RX_TOK_UNIGRAM: return "t5";
    case RX_TOK_WORDPIECE: return "bert";
    default: return NULL;
    }
}

static rlx_status put_model(rx_arena *arena, const rlx_tokenizer *t, vocabulary *v,
                            rlx_gguf_writer *w, rlx_error *err)
{
    const char *name = model_name(t);
    if (!name)
        return rx_fail(err, RLX_UNSUPPORTED, "the tokenizer '%.200s' (%s) is none that GGUF files "
                       "can hold", t->path, rlx_tokenizer_model(t));
    RLX_TRY(rlx_gguf_writer_set_text(w, KEY("model"), name, err));
    if (t->model == RX_TOK_BPE && t->byte_level) {
        RLX_TRY(put_pre(t, w, err));
        RLX_TRY(put_merges(arena, t, w, err));
    } else {
        RLX_TRY(rlx_gguf_writer_set_text(w, KEY("pre"), "default", err));
    }
    if (t->model == RX_TOK_BPE && !t->byte_level)
        RLX_TRY(score_by_merges(arena, t, v, err));
    if (t->model == RX_TOK_UNIGRAM)
        RLX_TRY(put_unigram(t, w, err));
    if (t->model == RX_TOK_WORDPIECE)
        return RLX_OK;
    return rlx_gguf_writer_set_bool(w, KEY("add_space_prefix"), adds_blank(t), err);
}

/* ---- What is around the text ----------------------------------------------------------------- */

static rlx_status put_ids(const rlx_tokenizer *t, rlx_gguf_writer *w, rlx_error *err)
{
    const bool words = t->model == RX_TOK_WORDPIECE || t->model == RX_TOK_UNIGRAM;
    const int32_t first = t->n_before ? t->before[0] : -1, last = t->n_after ? t->after[0] : -1;
    for (const rx_special_key *k = rx_special_keys; k->key; k++) {
        int32_t id = t->special[k->which];
        if (words && k->which == RLX_SPECIAL_BOS && first >= 0)
            id = first;
        if (k->which == RLX_SPECIAL_EOS && last >= 0 && (words || id < 0))
            id = last;
        if (id >= 0)
            RLX_TRY(rlx_gguf_writer_set_u32(w, k->key, (uint32_t)id, err));
    }
    RLX_TRY(rlx_gguf_writer_set_bool(w, KEY("add_bos_token"), first >= 0, err));
    return rlx_gguf_writer_set_bool(w, KEY("add_eos_token"), last >= 0, err);
}

/* A GGUF file says at most that BOS is before and EOS behind a text. */
static rlx_status check_around(const rlx_tokenizer *t, rlx_error *err)
{
    const bool words = t->model == RX_TOK_WORDPIECE || t->model == RX_TOK_UNIGRAM;
    const int32_t bos = t->special[RLX_SPECIAL_BOS], eos = t->special[RLX_SPECIAL_EOS];
    const bool fine = t->n_before <= 1 && t->n_after <= 1 &&
                      (words || !t->n_before || bos < 0 || t->before[0] == bos) &&
                      (words || !t->n_after || eos < 0 || t->after[0] == eos) &&
                      (t->model != RX_TOK_WORDPIECE || (t->n_before && t->n_after));
    return fine ? RLX_OK
                : rx_fail(err, RLX_UNSUPPORTED, "the tokenizer '%.200s' puts other tokens around a "
                          "text than one to begin and one to end it, which GGUF files cannot say",
                          t->path);
}

static rlx_status put_templates(rx_arena *arena, const rlx_tokenizer *t, rlx_gguf_writer *w,
                                rlx_error *err)
{
    static const char key[] = "tokenizer.chat_template";
    const char **names = rx_arena_array(arena, t->n_templates + 1, sizeof *names);
    size_t n = 0;
    if (!names)
        return rx_fail_memory(err, "the chat templates", t->n_templates * sizeof *names);
    for (size_t i = 0; i < t->n_templates; i++) {
        char full[128];
        const rx_template *one = &t->templates[i];
        snprintf(full, sizeof full, one->name ? "%s.%.90s" : "%s", key, one->name);
        RLX_TRY(rlx_gguf_writer_set_text(w, full, one->text, err));
        if (one->name)
            names[n++] = one->name;
    }
    const rlx_gguf_value v = {.type = RLX_GGUF_STRING, .is_array = true, .n = n, .texts = names};
    return n ? rlx_gguf_writer_set(w, "tokenizer.chat_templates", &v, err) : RLX_OK;
}

/* Steps that readers of GGUF files take by themselves, or are told to. Of byte-level vocabularies
 * the normal form is left out, as llama.cpp does. */
static bool is_implied(const rlx_tokenizer *t, const rx_step *s)
{
    if (t->model == RX_TOK_WORDPIECE)
        return true;
    if (t->byte_level)
        return s->kind == RX_NORM_FORM;
    switch (s->kind) {
    case RX_NORM_CHARSMAP: case RX_NORM_PREPEND: case RX_NORM_SQUEEZE: case RX_NORM_STRIP:
    case RX_NORM_NMT: case RX_NORM_SPACES: return true;
    case RX_NORM_REPLACE: return !strcmp(s->text, " ") && !strcmp(s->with, RX_SPACE);
    default: return false;
    }
}

static rlx_status check_norms(const rlx_tokenizer *t, rlx_error *err)
{
    for (size_t i = 0; i < t->n_norms; i++)
        if (!is_implied(t, &t->norms[i]))
            return rx_fail(err, RLX_UNSUPPORTED, "the tokenizer '%.200s' changes text (lower case, "
                           "normal forms, replacements) in a way that GGUF files cannot say",
                           t->path);
    return RLX_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static rlx_status put_arrays(const rlx_tokenizer *t, const vocabulary *v, rlx_gguf_writer *w,
                             rlx_error *err)
{
    const rlx_gguf_value texts = {.type = RLX_GGUF_STRING, .is_array = true, .n = v->n,
                                  .texts = v->texts, .lengths = v->lengths};
    const rlx_gguf_value scores = {.type = RLX_GGUF_F32, .is_array = true, .n = v->n,
                                   .numbers = v->scores};
    const rlx_gguf_value types = {.type = RLX_GGUF_I32, .is_array = true, .n = v->n,
                                  .numbers = v->types};
    RLX_TRY(rlx_gguf_writer_set(w, KEY("tokens"), &texts, err));
    if (!t->byte_level)
        RLX_TRY(rlx_gguf_writer_set(w, KEY("scores"), &scores, err));
    return rlx_gguf_writer_set(w, KEY("token_type"), &types, err);
}

static rlx_status put_all(rx_arena *arena, const rlx_model *m, rlx_gguf_writer *w, rlx_error *err)
{
    const rlx_tokenizer *t = m->tokenizer;
    vocabulary v = {.n = (size_t)m->known.vocabulary};
    if (t->n_tokens > v.n)
        return rx_fail(err, RLX_UNSUPPORTED, "the tokenizer '%.200s' has %zu tokens; the model has "
                       "%zu", t->path, t->n_tokens, v.n);
    RLX_TRY(check_around(t, err));
    RLX_TRY(check_norms(t, err));
    RLX_TRY(fill_vocabulary(arena, t, &v, err));
    RLX_TRY(put_model(arena, t, &v, w, err));
    RLX_TRY(put_arrays(t, &v, w, err));
    RLX_TRY(put_ids(t, w, err));
    return put_templates(arena, t, w, err);
}

rlx_status rx_convert_tokenizer(const rlx_model *m, rlx_gguf_writer *w, rlx_error *err)
{
    rx_arena arena = {0};
    if (!m->tokenizer)
        return rlx_gguf_writer_set_text(w, KEY("model"), "none", err);
    const rlx_status st = put_all(&arena, m, w, err);
    rx_arena_finish(&arena);
    return st;
}
