/* SPDX-License-Identifier: MIT */
/* Conversations: messages in the chat format of the model, over a context. Each answer is generated
 * from the whole conversation; the cached prefix is not recomputed. When the context is full, the
 * oldest questions and answers are dropped. */
#include <string.h>

#include "base/sized.h"
#include "base/str.h"
#include "model/model.h"
#include "model/template.h"

#define ANSWER_ROOM 256 /* tokens reserved for an answer, if the context is large enough */

/* ---- Chat formats ---------------------------------------------------------------------------- */

/* Built-in chat formats of models without a template, chosen by a token of the vocabulary: begin
 * role middle content end. */
typedef struct chat_form {
    const char *token, *begin, *middle, *end;
    const char *system, *assistant; /* names of the roles */
} chat_form;

static const chat_form forms[] = {
    {"<|im_start|>", "<|im_start|>", "\n", "<|im_end|>\n", "system", "assistant"},
    {"<|start_header_id|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", "system",
     "assistant"},
    {"<start_of_turn>", "<start_of_turn>", "\n", "<end_of_turn>\n", "user", "model"},
    {"<|assistant|>", "<|", "|>\n", "<|end|>\n", "system", "assistant"},
};

static const chat_form *find_form(const rlx_tokenizer *t)
{
    for (size_t i = 0; t && i < sizeof forms / sizeof *forms; i++)
        if (rlx_token_find(t, forms[i].token, strlen(forms[i].token)) >= 0)
            return &forms[i];
    return &forms[0];
}

static void put_role(rx_str *s, const chat_form *f, const char *role)
{
    rx_str_puts(s, f->begin);
    if (!strcmp(role, "system"))
        role = f->system;
    else if (!strcmp(role, "assistant"))
        role = f->assistant;
    rx_str_puts(s, role);
    rx_str_puts(s, f->middle);
}

static rlx_status format_plainly(const rlx_model *m, const rlx_message *messages, size_t n,
                                 bool add_reply, char **text, rlx_error *err)
{
    const chat_form *f = find_form(m->tokenizer);
    rx_str s = {0};
    rx_str_puts(&s, "");
    for (size_t i = 0; i < n; i++) {
        put_role(&s, f, messages[i].role);
        rx_str_puts(&s, messages[i].content);
        rx_str_puts(&s, f->end);
    }
    if (add_reply)
        put_role(&s, f, "assistant");
    return rx_str_take(&s, text, NULL, err);
}

static const char *special_text(const rlx_tokenizer *t, rlx_special which)
{
    int32_t id = rlx_tokenizer_special(t, which);
    return id >= 0 ? rlx_token_text(t, id, NULL) : NULL;
}

/* For templates that reject a system message: prepends it to the first user message. */
static rlx_status render_merged(const rx_chat_template *t, rx_template_chat *chat,
                                rx_template_message *list, char **text, rlx_error *err)
{
    rx_str s = {0};
    char *merged = NULL;
    size_t length;
    rx_str_puts(&s, list[0].content);
    rx_str_puts(&s, "\n\n");
    rx_str_puts(&s, list[1].content);
    RLX_TRY(rx_str_take(&s, &merged, NULL, err));
    list[1].content = merged;
    chat->messages = list + 1;
    chat->n_messages--;
    rlx_status st = rx_template_render_chat(t, chat, text, &length, err);
    rx_free(merged);
    return st;
}

/* `list` has room for the messages. */
static rlx_status render_chat(const char *source, rx_template_chat *chat,
                              rx_template_message *list, char **text, rlx_error *err)
{
    rx_chat_template *t = NULL;
    size_t length, n = chat->n_messages;
    chat->messages = list;
    RLX_TRY(rx_template_parse(source, strlen(source), &t, err));
    rlx_error why = {0};
    rlx_status st = rx_template_render_chat(t, chat, text, &length, &why);
    bool can_merge = n > 1 && !strcmp(list[0].role, "system") && !strcmp(list[1].role, "user");
    if (st != RLX_OK && st != RLX_NO_MEMORY && can_merge)
        st = render_merged(t, chat, list, text, &why);
    rx_template_free(t);
    return st == RLX_OK ? RLX_OK : rx_fail(err, st, "%s", why.text);
}

static rlx_status format_by_template(const rlx_model *m, const rlx_message *messages, size_t n,
                                     bool add_reply, char **text, rlx_error *err)
{
    const char *source = rlx_tokenizer_chat_template(m->tokenizer, NULL);
    rx_template_chat chat = {.n_messages = n, .add_generation_prompt = add_reply,
                             .bos_token = special_text(m->tokenizer, RLX_SPECIAL_BOS),
                             .eos_token = special_text(m->tokenizer, RLX_SPECIAL_EOS)};
    rx_template_message *list = rx_alloc_array(n + 1, sizeof *list);
    if (!list)
        return rx_fail_memory(err, "the messages of a chat", n * sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i] = (rx_template_message){messages[i].role, messages[i].content};
    rlx_status st = render_chat(source, &chat, list, text, err);
    rx_free(list);
    return st;
}

rlx_status rlx_chat_format(const rlx_model *m, const rlx_message *messages, size_t n,
                           bool add_reply, char **text, rlx_error *err)
{
    RLX_TRY(rx_need(text, "rlx_chat_format: text", err));
    *text = NULL;
    RLX_TRY(rx_need(m, "rlx_chat_format: m", err));
    if (n)
        RLX_TRY(rx_need(messages, "rlx_chat_format: messages", err));
    for (size_t i = 0; i < n; i++)
        if (!messages[i].role || !messages[i].content)
            return rx_fail(err, RLX_INVALID, "message %zu has no %s", i,
                           messages[i].role ? "content" : "role");
    if (m->tokenizer && rlx_tokenizer_chat_template(m->tokenizer, NULL))
        return format_by_template(m, messages, n, add_reply, text, err);
    return format_plainly(m, messages, n, add_reply, text, err);
}

/* ---- Messages -------------------------------------------------------------------------------- */

struct rlx_chat {
    rlx_model *m;
    rlx_context *context;
    rlx_message *messages; /* the contents are owned, the roles static */
    size_t n, cap;
    size_t n_system;       /* 1 when the first message is the system's */
    size_t n_left_out;     /* messages after it that were dropped */
};

static rlx_status add_message(rlx_chat *c, const char *role, const char *content, size_t length,
                              rlx_error *err)
{
    char *copy = rx_alloc(length + 1);
    if (!copy || !rx_grow(&c->messages, &c->cap, c->n + 1, sizeof *c->messages)) {
        rx_free(copy);
        return rx_fail_memory(err, "a message", length + 1);
    }
    if (length)
        memcpy(copy, content, length);
    copy[length] = 0;
    c->messages[c->n++] = (rlx_message){role, copy};
    return RLX_OK;
}

static void drop_messages(rlx_chat *c, size_t n)
{
    while (c->n > n)
        rx_free((void *)(uintptr_t)c->messages[--c->n].content);
}

rlx_status rlx_chat_create(rlx_model *m, const char *system, rlx_chat **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_chat_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(m, "rlx_chat_create: m", err));
    if (!m->tokenizer)
        return rx_fail(err, RLX_INVALID, "'%.200s' has no tokenizer, which a chat needs", m->path);
    rlx_chat *c = rx_alloc_zero(sizeof *c);
    if (!c)
        return rx_fail_memory(err, "the chat", sizeof *c);
    c->m = m;
    rlx_status st = rlx_context_create(m, &c->context, err);
    if (st == RLX_OK && system) {
        st = add_message(c, "system", system, strlen(system), err);
        c->n_system = 1;
    }
    if (st == RLX_OK)
        *out = c;
    else
        rlx_chat_destroy(c);
    return st;
}

void rlx_chat_destroy(rlx_chat *c)
{
    if (!c)
        return;
    drop_messages(c, 0);
    rx_free(c->messages);
    rlx_context_destroy(c->context);
    rx_free(c);
}

rlx_status rlx_chat_reset(rlx_chat *c, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_chat_reset: c", err));
    drop_messages(c, c->n_system);
    c->n_left_out = 0;
    return rx_context_settle(c->context, err);
}

rlx_status rlx_chat_undo(rlx_chat *c, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_chat_undo: c", err));
    size_t last = c->n;
    while (last > c->n_system && strcmp(c->messages[last - 1].role, "user"))
        last--;
    if (last == c->n_system)
        return rx_fail(err, RLX_NOT_FOUND, "the conversation has no question to take back");
    drop_messages(c, last - 1);
    const size_t left = c->n - c->n_system;
    c->n_left_out = c->n_left_out < left ? c->n_left_out : left;
    return rx_context_settle(c->context, err);
}

size_t rlx_chat_n_left_out(const rlx_chat *c)
{
    return c ? c->n_left_out : 0;
}

size_t rlx_chat_n_messages(const rlx_chat *c)
{
    return c ? c->n : 0;
}

bool rlx_chat_message(const rlx_chat *c, size_t i, rlx_message *out)
{
    if (i >= rlx_chat_n_messages(c) || !out)
        return false;
    *out = c->messages[i];
    return true;
}

rlx_context *rlx_chat_context(rlx_chat *c)
{
    return c ? c->context : NULL;
}

/* ---- Files: the messages are the note, as role 0 content 0 role 0 ... ------------------------ */

rlx_status rlx_chat_save(rlx_chat *c, const char *path, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_chat_save: c", err));
    rx_str s = {0};
    char *text = NULL;
    size_t length = 0;
    rx_str_puts(&s, "");
    for (size_t i = 0; i < c->n; i++) {
        rx_str_add(&s, c->messages[i].role, strlen(c->messages[i].role) + 1);
        rx_str_add(&s, c->messages[i].content, strlen(c->messages[i].content) + 1);
    }
    RLX_TRY(rx_str_take(&s, &text, &length, err));
    rlx_status st = rx_context_save(c->context, 0, (rx_bytes){text, length}, path, err);
    rx_free(text);
    return st;
}

/* The next string of a note; NULL when it is not terminated. */
static const char *next_text(const char **at, size_t *left)
{
    const char *text = *at, *end = *left ? memchr(text, 0, *left) : NULL;
    if (!end)
        return NULL;
    *left -= (size_t)(end - text) + 1;
    *at = end + 1;
    return text;
}

static const char *known_role(const char *role)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(role, roles[i]))
            return roles[i];
    return NULL;
}

static rlx_status read_messages(void *user, rx_bytes note, rlx_error *err)
{
    rlx_chat *c = user; /* one without messages */
    const char *at = note.data;
    for (size_t left = note.bytes; left;) {
        const char *role = known_role(next_text(&at, &left)), *content = next_text(&at, &left);
        if (!role || !content)
            return rx_fail(err, RLX_PARSE, "message %zu of the saved chat has no %s", c->n,
                           role ? "end" : "role: expected system, user or assistant");
        RLX_TRY(add_message(c, role, content, strlen(content), err));
    }
    c->n_system = c->n && !strcmp(c->messages[0].role, "system");
    return RLX_OK;
}

rlx_status rlx_chat_load(rlx_chat *c, const char *path, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_chat_load: c", err));
    rlx_chat fresh = {.m = c->m, .context = c->context};
    rlx_status st = rx_context_restore(c->context, 0, read_messages, &fresh, path, err);
    if (st == RLX_OK) {
        rlx_chat old = *c;
        *c = fresh;
        fresh = old;
    }
    drop_messages(&fresh, 0);
    rx_free(fresh.messages);
    return st;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* The tokens of the conversation without dropped messages. */
static rlx_status encode_chat(rlx_chat *c, int32_t **ids, size_t *n, rlx_error *err)
{
    size_t skip = c->n_system + c->n_left_out;
    rlx_message *list = rx_alloc_array(c->n + 1, sizeof *list);
    char *text = NULL;
    if (!list)
        return rx_fail_memory(err, "the messages of a chat", c->n * sizeof *list);
    memcpy(list, c->messages, c->n_system * sizeof *list);
    memcpy(list + c->n_system, c->messages + skip, (c->n - skip) * sizeof *list);
    rlx_status st = rlx_chat_format(c->m, list, c->n - c->n_left_out, true, &text, err);
    if (st == RLX_OK)
        st = rx_encode_prompt(c->m->tokenizer, text, true, ids, n, err);
    rx_free(text);
    rx_free(list);
    return st;
}

/* Drops the oldest questions and answers until the conversation fits. */
static rlx_status encode_fitting(rlx_chat *c, int64_t max_tokens, int32_t **ids, size_t *n,
                                 rlx_error *err)
{
    size_t context = (size_t)c->m->build.context, room = ANSWER_ROOM;
    if (max_tokens && (size_t)max_tokens < room)
        room = (size_t)max_tokens;
    if (room > context / 4)
        room = context / 4;
    for (;;) {
        RLX_TRY(encode_chat(c, ids, n, err));
        if (*n + room < context || c->n - c->n_system - c->n_left_out < 3)
            return RLX_OK;
        rx_free(*ids);
        c->n_left_out += 2;
    }
}

/* Forwards pieces to the caller and collects the text. */
typedef struct collector {
    rx_str text;
    rlx_piece_fn *fn;
    void *user;
} collector;

static int collect_piece(void *user, const rlx_piece *p)
{
    collector *k = user;
    rx_str_add(&k->text, p->text, p->length);
    return k->fn ? k->fn(k->user, p) : 0;
}

static rlx_status answer(rlx_chat *c, const rlx_generate_desc *d, collector *k,
                         rlx_generate_result *result, rlx_error *err)
{
    rlx_generate_desc full;
    RLX_TRY(RX_DESC_READ(rlx_generate_desc, &full, d, err));
    int32_t *ids = NULL;
    RLX_TRY(encode_fitting(c, full.max_tokens, &ids, &full.n_tokens, err));
    full.prompt = NULL;
    full.tokens = ids;
    full.sequence = 0;
    rlx_status st = rlx_generate(c->context, &full, collect_piece, k, result, err);
    rx_free(ids);
    return st;
}

rlx_status rlx_chat_say(rlx_chat *c, const char *text, const rlx_generate_desc *d,
                        rlx_piece_fn *fn, void *user, rlx_generate_result *result, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_chat_say: c", err));
    collector k = {.fn = fn, .user = user};
    size_t before = c->n;
    if (!text)
        return rx_fail(err, RLX_INVALID, "what the user says is NULL");
    RLX_TRY(add_message(c, "user", text, strlen(text), err));
    rlx_status st = answer(c, d, &k, result, err);
    /* The answer up to a cancel is kept. */
    bool keep = st == RLX_OK || (st == RLX_CANCELLED && k.text.n);
    if (keep && k.text.failed) {
        st = rx_fail_memory(err, "the answer", k.text.n);
        keep = false;
    }
    if (keep) {
        rlx_status added = add_message(c, "assistant", k.text.data, k.text.n, err);
        keep = added == RLX_OK;
        st = keep ? st : added;
    }
    if (!keep)
        drop_messages(c, before);
    rx_str_finish(&k.text);
    return st;
}
