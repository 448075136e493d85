/* SPDX-License-Identifier: MIT */
/* The tokenizer API: opening, the vocabulary, special tokens, chat templates. */
#include <stdio.h>
#include <string.h>

#include "base/posix.h"
#include "import/file.h"
#include "model/tok.h"

/* ---- The vocabulary -------------------------------------------------------------------------- */

const char *rlx_tokenizer_model(const rlx_tokenizer *t)
{
    static const char *const names[] = {
        [RX_TOK_BPE] = "bpe",         [RX_TOK_SCORES] = "sentencepiece",
        [RX_TOK_UNIGRAM] = "unigram", [RX_TOK_WORDPIECE] = "wordpiece",
        [RX_TOK_WORDLEVEL] = "wordlevel",
    };
    return t ? names[t->model] : NULL;
}

int32_t rlx_tokenizer_n_tokens(const rlx_tokenizer *t)
{
    return t ? (int32_t)t->n_tokens : 0;
}

static const rx_token *token_at(const rlx_tokenizer *t, int32_t id)
{
    bool there = t && id >= 0 && (size_t)id < t->n_tokens && t->tokens[id].kind != RLX_TOKEN_NONE;
    return there ? &t->tokens[id] : NULL;
}

rlx_token_kind rlx_token_get_kind(const rlx_tokenizer *t, int32_t id)
{
    const rx_token *token = token_at(t, id);
    return token ? (rlx_token_kind)token->kind : RLX_TOKEN_NONE;
}

const char *rlx_token_text(const rlx_tokenizer *t, int32_t id, size_t *length)
{
    const rx_token *token = token_at(t, id);
    if (length)
        *length = token ? token->length : 0;
    return token ? token->text : NULL;
}

int32_t rx_tok_find(const rlx_tokenizer *t, const char *text, size_t n)
{
    const rx_map_slot *slot = n <= UINT32_MAX ? rx_map_find(&t->ids, text, n) : NULL;
    return slot ? (int32_t)slot->value : -1;
}

int32_t rlx_token_find(const rlx_tokenizer *t, const char *text, size_t length)
{
    return t && text ? rx_tok_find(t, text, length) : -1;
}

int32_t rlx_tokenizer_special(const rlx_tokenizer *t, rlx_special which)
{
    return t && which < RLX_N_SPECIALS ? t->special[which] : -1;
}

bool rlx_tokenizer_is_end(const rlx_tokenizer *t, int32_t id)
{
    const rx_token *token = token_at(t, id);
    return token && token->flags & RX_TOK_END;
}

bool rlx_tokenizer_adds_begin(const rlx_tokenizer *t)
{
    return t && t->n_before > 0;
}

bool rlx_tokenizer_adds_end(const rlx_tokenizer *t)
{
    return t && t->n_after > 0;
}

const char *rlx_tokenizer_chat_template(const rlx_tokenizer *t, const char *name)
{
    for (size_t i = 0; t && i < t->n_templates; i++) {
        const char *found = t->templates[i].name;
        if (name && found ? !strcmp(name, found) : !name && !found)
            return t->templates[i].text;
    }
    return NULL;
}

/* ---- Creating -------------------------------------------------------------------------------- */

rlx_tokenizer *rx_tok_new(const char *path, rlx_error *err)
{
    rlx_tokenizer *t = rx_alloc_zero(sizeof *t);
    if (t && !(t->path = rx_arena_strdup(&t->arena, path))) {
        rlx_tokenizer_close(t);
        t = NULL;
    }
    if (!t) {
        rx_fail_memory(err, "a tokenizer", sizeof *t);
        return NULL;
    }
    for (size_t i = 0; i < 256; i++)
        t->byte_ids[i] = -1;
    for (size_t i = 0; i < RLX_N_SPECIALS; i++)
        t->special[i] = -1;
    t->first_prefix = t->next_prefix = t->word_suffix = "";
    t->max_word = 100;
    return t;
}

void rlx_tokenizer_close(rlx_tokenizer *t)
{
    if (!t)
        return;
    rx_map_finish(&t->ids);
    rx_trie_finish(&t->added);
    rx_trie_finish(&t->added_normal);
    rx_trie_finish(&t->words);
    rx_free(t->merges.slots);
    rx_free(t->tokens);
    rx_free(t->templates);
    rx_arena_finish(&t->arena);
    rx_free(t);
}

/* Moves t to *out, or frees it unless st is RLX_OK. */
static rlx_status finish_open(rlx_tokenizer *t, rlx_status st, rlx_tokenizer **out, rlx_error *err)
{
    if (st == RLX_OK)
        st = rx_tok_finish_load(t, err);
    if (st == RLX_OK)
        *out = t;
    else
        rlx_tokenizer_close(t);
    return st;
}

rlx_status rlx_tokenizer_open_file(const rlx_file *f, rlx_tokenizer **out, rlx_error *err)
{
    if (!f || !out)
        return rx_fail(err, RLX_INVALID, "a tokenizer: expected an open file, found none");
    *out = NULL;
    rlx_tokenizer *t = rx_tok_new(f->path, err);
    if (!t)
        return RLX_NO_MEMORY;
    return finish_open(t, rx_tok_load_gguf(t, f, err), out, err);
}

/* ---- Opening by path ------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* A file of that name in a folder; *path is freed by the caller. False when it cannot be read. */
static bool open_beside(const char *folder, size_t n, const char *name, char **path, rx_file *file)
{
    size_t room = n + strlen(name) + 2;
    const char *slash = n && folder[n - 1] != '/' ? "/" : "";
    *path = rx_alloc(room);
    if (!*path)
        return false;
    snprintf(*path, room, "%.*s%s%s", (int)n, folder, slash, name);
    return rx_file_open(*path, file, NULL) == RLX_OK;
}

/* A tokenizer.json or vocab.txt, with the settings files beside it. */
static rlx_status open_text(const char *path, const rx_file *file, bool is_json,
                            rlx_tokenizer **out, rlx_error *err)
{
    rlx_tokenizer *t = rx_tok_new(path, err);
    rx_file config = {0}, jinja = {0};
    char *config_path = NULL, *jinja_path = NULL;
    size_t folder = rx_folder_length(path);
    if (!t)
        return RLX_NO_MEMORY;
    bool has_config = open_beside(path, folder, "tokenizer_config.json", &config_path, &config);
    bool has_jinja = open_beside(path, folder, "chat_template.jinja", &jinja_path, &jinja);
    bool lower = rx_tok_config_lower(config.data, config.bytes);
    rlx_status st = is_json ? rx_tok_load_json(t, file->data, file->bytes, err)
                            : rx_tok_load_vocab(t, file->data, file->bytes, lower, err);
    if (st == RLX_OK && has_jinja)
        st = rx_tok_add_template(t, NULL, 0, (const char *)jinja.data, jinja.bytes, err);
    if (st == RLX_OK && has_config)
        st = rx_tok_load_config(t, config.data, config.bytes, err);
    rx_file_close(&config);
    rx_file_close(&jinja);
    rx_free(config_path);
    rx_free(jinja_path);
    return finish_open(t, st, out, err);
}

static rlx_status open_gguf(const char *path, rlx_tokenizer **out, rlx_error *err)
{
    rlx_file *f;
    RLX_TRY(rlx_file_open(path, &f, err));
    rlx_status st = rlx_tokenizer_open_file(f, out, err);
    rlx_file_close(f);
    return st;
}

/* Searches a folder for tokenizer files. */
static rlx_status open_folder(const char *folder, size_t n, rlx_tokenizer **out, rlx_error *err)
{
    static const char *const names[] = {"tokenizer.json", "vocab.txt"};
    for (size_t i = 0; i < 2; i++) {
        rx_file file = {0};
        char *path;
        bool there = open_beside(folder, n, names[i], &path, &file);
        rlx_status st = there ? open_text(path, &file, i == 0, out, err) : RLX_NOT_FOUND;
        rx_file_close(&file);
        rx_free(path);
        if (there)
            return st;
    }
    return rx_fail(err, RLX_NOT_FOUND, "no tokenizer in '%.*s': expected tokenizer.json or "
                   "vocab.txt there", n ? (int)n : 1, n ? folder : ".");
}

rlx_status rlx_tokenizer_open(const char *path, rlx_tokenizer **out, rlx_error *err)
{
    if (!path || !out)
        return rx_fail(err, RLX_INVALID, "a tokenizer: expected a path, found none");
    *out = NULL;
    rx_file file;
    if (rx_file_open(path, &file, NULL) != RLX_OK) { /* a folder cannot be read as a file */
        rlx_status st = open_folder(path, strlen(path), out, err);
        if (st != RLX_NOT_FOUND)
            return st;
        return rx_fail(err, RLX_NOT_FOUND, "no tokenizer at '%s': expected a file, or a folder "
                       "with tokenizer.json or vocab.txt", path);
    }
    bool is_json = ends_with(path, ".json") && !ends_with(path, ".index.json");
    rlx_status st;
    if (file.bytes >= 4 && !memcmp(file.data, "GGUF", 4))
        st = open_gguf(path, out, err);
    else if (is_json || ends_with(path, ".txt"))
        st = open_text(path, &file, is_json, out, err);
    else
        st = open_folder(path, rx_folder_length(path), out, err);
    if (st == RLX_NOT_FOUND)
        rx_fail(err, st, "'%s' is no GGUF file, and there is no tokenizer.json or vocab.txt beside "
                "it", path);
    rx_file_close(&file);
    return st;
}
