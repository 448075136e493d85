/* SPDX-License-Identifier: MIT */
/* Bodies of requests, read by the table of request_fields.def. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/request_read.h"

enum {
    CHAT = RX_API_CHAT, COMPLETION = RX_API_COMPLETION, EMBEDDING = RX_API_EMBEDDING,
    TOKENIZE = RX_API_TOKENIZE, DETOKENIZE = RX_API_DETOKENIZE, TEMPLATE = RX_API_TEMPLATE,
    RERANK = RX_API_RERANK, RESPONSE = RX_API_RESPONSE, MESSAGE = RX_API_MESSAGE,
    COUNT = RX_API_COUNT, OLLAMA_CHAT = RX_API_OLLAMA_CHAT,
    OLLAMA_GENERATE = RX_API_OLLAMA_GENERATE, OLLAMA_EMBED = RX_API_OLLAMA_EMBED,
    OLLAMA_SHOW = RX_API_OLLAMA_SHOW, OLLAMA_EMBEDDING = RX_API_OLLAMA_EMBEDDING,
    OPTIONS = RX_API_OLLAMA_OPTIONS,
    GENERATE = CHAT | COMPLETION, OLLAMA = OLLAMA_CHAT | OLLAMA_GENERATE,
    ALL = (1 << RX_API_N_KINDS) - 1
};

/* ---- Errors ---------------------------------------------------------------------------------- */

static bool fail(rx_api_error *e, int status, const char *code, const char *format, va_list args)
{
    if (e->status)
        return false;
    e->status = status;
    e->type = status == 401 ? "authentication_error" : status == 429 ? "rate_limit_error"
              : status >= 500 ? "server_error" : "invalid_request_error";
    e->code = code;
    vsnprintf(e->message, sizeof e->message, format, args);
    return false;
}

bool rx_api_fail(rx_api_error *e, const char *param, const char *format, ...)
{
    va_list args;
    if (!e->status)
        snprintf(e->param, sizeof e->param, "%s", param);
    va_start(args, format);
    fail(e, 400, NULL, format, args);
    va_end(args);
    return false;
}

bool rx_api_fail_as(rx_api_error *e, int status, const char *code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(e, status, code, format, args);
    va_end(args);
    return false;
}

bool rx_read_no_memory(const rx_reader *d)
{
    return rx_api_fail_as(d->e, 500, "out_of_memory", "out of memory");
}

bool rx_read_wrong(const rx_reader *d, const char *name, const char *expected, const rx_json *v)
{
    const bool empty = v && v->kind == RX_JSON_ARRAY && !v->n;
    return rx_api_fail(d->e, name, "'%s': expected %s, got %s", name, expected,
                       empty ? "an empty array" : rx_json_kind_name(v));
}

/* ---- Values ---------------------------------------------------------------------------------- */

bool rx_read_real(const rx_reader *d, const char *name, const rx_json *v, const double limits[2],
                      double *out)
{
    if (v->kind != RX_JSON_NUMBER)
        return rx_read_wrong(d, name, "a number", v);
    *out = strtod(v->text, NULL);
    if (!(*out >= limits[0] && *out <= limits[1]))
        return rx_api_fail(d->e, name, "'%s': expected a number from %g to %g, got %.40s", name,
                           limits[0], limits[1], v->text);
    return true;
}

bool rx_read_integer(const rx_reader *d, const char *name, const rx_json *v,
                         const int64_t limits[2], int64_t *out)
{
    char *end;
    if (v->kind != RX_JSON_NUMBER)
        return rx_read_wrong(d, name, "an integer", v);
    errno = 0;
    *out = strtoll(v->text, &end, 10);
    const double real = *end ? strtod(v->text, NULL) : 0;
    if (*end && fabs(real) < 0x1p53 && real == floor(real)) { /* 100.0, as Python writes it */
        *out = (int64_t)real;
        end = "";
    }
    if (errno || *end || *out < limits[0] || *out > limits[1])
        return rx_api_fail(d->e, name, "'%s': expected an integer from %lld to %lld, got %.40s",
                           name, (long long)limits[0], (long long)limits[1], v->text);
    return true;
}

bool rx_read_bool(const rx_reader *d, const char *name, const rx_json *v, bool *out)
{
    if (v->kind != RX_JSON_BOOL)
        return rx_read_wrong(d, name, "true or false", v);
    *out = v->truth;
    return true;
}

/* A text without NUL characters. */
bool rx_read_text(const rx_reader *d, const char *name, const rx_json *v, const char **out)
{
    if (!v || v->kind != RX_JSON_STRING)
        return rx_read_wrong(d, name, "a string", v);
    if (strlen(v->text) != v->length)
        return rx_api_fail(d->e, name, "'%s': a zero byte in the text", name);
    *out = v->text;
    return true;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* The member of a part that has its text; NULL: it is no text. */
static const char *text_member(const char *type)
{
    static const struct {
        const char *type, *member;
    } parts[] = {{"text", "text"}, {"input_text", "text"}, {"output_text", "text"},
                 {"refusal", "refusal"}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strcmp(parts[i].type, type))
            return parts[i].member;
    return NULL;
}

/* The concatenated texts of the parts of a content. */
bool rx_read_parts(const rx_reader *d, const rx_json *v, const char **out)
{
    rx_str s = {0};
    bool ok = true;
    rx_str_puts(&s, "");
    for (const rx_json *p = v->first; p && ok; p = p->next) {
        const rx_json *type = rx_json_member(p, "type");
        const bool typed = type && type->kind == RX_JSON_STRING;
        const char *member = typed ? text_member(type->text) : NULL, *text = NULL;
        if (!typed)
            ok = rx_api_fail(d->e, "messages", "a part of a message has no 'type'");
        else if (!member)
            ok = rx_api_fail(d->e, "messages", "parts of type '%.40s' are not supported; only "
                             "'text' is", type->text);
        else
            ok = rx_read_text(d, "messages", rx_json_member(p, member), &text);
        if (ok)
            rx_str_puts(&s, text);
    }
    if (ok && (s.failed || !(*out = rx_arena_strdup(d->a, s.data))))
        ok = rx_read_no_memory(d);
    rx_str_finish(&s);
    return ok;
}

bool rx_read_content(const rx_reader *d, const rx_json *v, const char **out)
{
    if (v && v->kind == RX_JSON_ARRAY)
        return rx_read_parts(d, v, out);
    return rx_read_text(d, "messages", v, out);
}

bool rx_read_call(const rx_reader *d, const char *name, const char *arguments,
                  const char **content)
{
    rx_str s = {0};
    rx_str_printf(&s, "%s<tool_call>\n{\"name\": \"%s\", \"arguments\": %s}\n</tool_call>",
                  *content ? *content : "", name, arguments);
    *content = s.failed ? NULL : rx_arena_strdup(d->a, s.data);
    rx_str_finish(&s);
    return *content || rx_read_no_memory(d);
}

static bool read_arguments(const rx_reader *d, const rx_json *v, const char **out)
{
    return rx_read_text(d, "tool_calls", v, out);
}

bool rx_read_calls(const rx_reader *d, const rx_json *calls, rx_read_arguments *arguments,
                   const char **content)
{
    if (calls->kind != RX_JSON_ARRAY)
        return rx_read_wrong(d, "tool_calls", "an array", calls);
    for (const rx_json *c = calls->first; c; c = c->next) {
        const rx_json *f = rx_json_member(c, "function");
        const char *name = NULL, *text = NULL;
        if (!rx_read_text(d, "tool_calls", rx_json_member(f, "name"), &name) ||
            !arguments(d, rx_json_member(f, "arguments"), &text) ||
            !rx_read_call(d, name, text, content))
            return false;
    }
    return true;
}

bool rx_read_role(const rx_reader *d, const rx_json *v, const char **out)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", "developer",
                                        "function"};
    if (!rx_read_text(d, "messages", v, out))
        return false;
    size_t role = 0;
    while (role < sizeof roles / sizeof *roles && strcmp(roles[role], *out))
        role++;
    if (role == sizeof roles / sizeof *roles)
        return rx_api_fail(d->e, "messages", "a message has the role '%.40s'; expected system, "
                           "user, assistant or tool", *out);
    if (!strcmp(*out, "developer"))
        *out = "system";
    return true;
}

static bool read_message(const rx_reader *d, const rx_json *v, rlx_message *m)
{
    const rx_json *content = rx_json_member(v, "content");
    const rx_json *calls = rx_json_member(v, "tool_calls");
    if (v->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, "messages", "objects", v);
    if (!rx_read_role(d, rx_json_member(v, "role"), &m->role))
        return false;
    m->content = NULL;
    if (content && content->kind != RX_JSON_NULL) {
        if (!rx_read_content(d, content, &m->content))
            return false;
    } else if (!calls && strcmp(m->role, "assistant")) { /* it may have said nothing */
        return rx_api_fail(d->e, "messages", "a message of '%s' has no content", m->role);
    }
    return !calls || calls->kind == RX_JSON_NULL ||
           rx_read_calls(d, calls, read_arguments, &m->content);
}

static bool read_messages(const rx_reader *d, const char *name, const rx_json *v)
{
    if (v->kind != RX_JSON_ARRAY || !v->n)
        return rx_read_wrong(d, name, "an array of messages", v);
    d->r->messages = rx_arena_array_zero(d->a, v->n, sizeof *d->r->messages);
    if (!d->r->messages)
        return rx_read_no_memory(d);
    for (const rx_json *m = v->first; m; m = m->next) {
        rlx_message *out = &d->r->messages[d->r->n_messages++];
        if (!read_message(d, m, out))
            return false;
        if (!out->content)
            out->content = "";
    }
    return true;
}

/* ---- Prompts --------------------------------------------------------------------------------- */

static bool read_ids(const rx_reader *d, const char *name, const rx_json *v, rx_api_text *out)
{
    int32_t *ids = rx_arena_array(d->a, v->n + 1, sizeof *ids);
    size_t n = 0;
    if (!ids)
        return rx_read_no_memory(d);
    for (const rx_json *i = v->first; i; i = i->next) {
        int64_t id = 0;
        if (!rx_read_integer(d, name, i, (const int64_t[]){0, INT32_MAX}, &id))
            return false;
        ids[n++] = (int32_t)id;
    }
    *out = (rx_api_text){.tokens = ids, .n_tokens = n};
    return true;
}

static bool read_prompt(const rx_reader *d, const char *name, const rx_json *v, rx_api_text *out)
{
    if (v->kind == RX_JSON_ARRAY)
        return read_ids(d, name, v, out);
    if (v->kind != RX_JSON_STRING)
        return rx_read_wrong(d, name, "a string, an array of strings or arrays of token ids", v);
    *out = (rx_api_text){.text = v->text, .length = v->length};
    return true;
}

/* A text, token ids, or an array of such. */
static bool read_prompts(const rx_reader *d, const char *name, const rx_json *v)
{
    const bool many = v->kind == RX_JSON_ARRAY && v->first && v->first->kind != RX_JSON_NUMBER;
    const size_t n = many ? v->n : 1;
    if (v->kind == RX_JSON_ARRAY && !v->n && d->r->kind != RX_API_DETOKENIZE)
        return rx_api_fail(d->e, name, "'%s' is empty", name);
    d->r->prompts = rx_arena_array_zero(d->a, n, sizeof *d->r->prompts);
    if (!d->r->prompts)
        return rx_read_no_memory(d);
    for (const rx_json *p = many ? v->first : v; p && d->r->n_prompts < n; p = p->next)
        if (!read_prompt(d, name, p, &d->r->prompts[d->r->n_prompts++]))
            return false;
    return true;
}

/* Texts, or objects with one. */
static bool read_documents(const rx_reader *d, const char *name, const rx_json *v)
{
    if (v->kind != RX_JSON_ARRAY || !v->n)
        return rx_read_wrong(d, name, "an array of texts", v);
    d->r->prompts = rx_arena_array_zero(d->a, v->n, sizeof *d->r->prompts);
    if (!d->r->prompts)
        return rx_read_no_memory(d);
    for (const rx_json *p = v->first; p; p = p->next) {
        const rx_json *text = p->kind == RX_JSON_OBJECT ? rx_json_member(p, "text") : p;
        const char *content = NULL;
        if (!rx_read_text(d, name, text, &content))
            return false;
        d->r->prompts[d->r->n_prompts++] = (rx_api_text){.text = content, .length = text->length};
    }
    return true;
}

/* ---- Limits and output ----------------------------------------------------------------------- */

/* -1, as llama.cpp's clients send it: what the context holds. */
static bool read_max_tokens(const rx_reader *d, const char *name, const rx_json *v)
{
    const bool whole = d->r->kind == RX_API_COMPLETION; /* which may be of the prompt only */
    const bool all = v->kind == RX_JSON_NUMBER && !strcmp(v->text, "-1");
    d->r->max_tokens = INT32_MAX;
    return all || rx_read_integer(d, name, v, (const int64_t[]){whole ? 0 : 1, INT32_MAX},
                                  &d->r->max_tokens);
}

static bool read_truncate(const rx_reader *d, const char *name, const rx_json *v)
{
    bool truncate = true;
    const bool ok = rx_read_bool(d, name, v, &truncate);
    d->r->no_truncate = !truncate;
    return ok;
}

bool rx_read_stop(const rx_reader *d, const char *name, const rx_json *v)
{
    const bool many = v->kind == RX_JSON_ARRAY;
    for (const rx_json *s = many ? v->first : v; s; s = many ? s->next : NULL) {
        const char *text = NULL;
        if (!rx_read_text(d, name, s, &text))
            return false;
        if (d->r->n_stop == RX_API_MAX_STOPS)
            return rx_api_fail(d->e, name, "'stop': at most %d texts", RX_API_MAX_STOPS);
        if (*text)
            d->r->stop[d->r->n_stop++] = text;
    }
    return true;
}

/* An empty list: nothing breaks a repetition. */
static bool read_breakers(const rx_reader *d, const char *name, const rx_json *v)
{
    rx_api_request *r = d->r;
    if (v->kind != RX_JSON_ARRAY)
        return rx_read_wrong(d, name, "an array of texts", v);
    if (v->n > RX_API_MAX_STOPS)
        return rx_api_fail(d->e, name, "'%s': at most %d texts", name, RX_API_MAX_STOPS);
    r->more.n_dry_breakers = 0;
    r->more.dry_breakers = r->dry_breakers;
    for (const rx_json *s = v->first; s; s = s->next)
        if (!rx_read_text(d, name, s, &r->dry_breakers[r->more.n_dry_breakers++]))
            return false;
    return true;
}

static bool read_mirostat(const rx_reader *d, const char *name, const rx_json *v)
{
    const int64_t limits[2] = {0, 2};
    if (!rx_read_integer(d, name, v, limits, &d->r->more.mirostat))
        return false;
    return d->r->more.mirostat != 1 ||
           rx_api_fail(d->e, name, "'mirostat': expected 0 or 2, its second version, got 1");
}

static bool read_bias(const rx_reader *d, const char *name, const rx_json *v)
{
    if (v->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, name, "an object", v);
    if (v->n > RX_API_MAX_BIAS)
        return rx_api_fail(d->e, name, "'logit_bias': at most %d tokens", RX_API_MAX_BIAS);
    d->r->bias = rx_arena_array(d->a, v->n + 1, sizeof *d->r->bias);
    if (!d->r->bias)
        return rx_read_no_memory(d);
    for (const rx_json *i = v->first; i; i = i->next) {
        char *end;
        double add = 0;
        const long id = strtol(i->key, &end, 10);
        if (end == i->key || *end || id < 0 || id > INT32_MAX)
            return rx_api_fail(d->e, name, "'logit_bias': '%.40s' is no token id", i->key);
        if (!rx_read_real(d, name, i, (const double[]){-100, 100}, &add))
            return false;
        d->r->bias[d->r->n_bias++] = (rx_backend_bias){(int32_t)id, (float)add};
    }
    return true;
}

/* A flag in chats, a number in completions. */
static bool read_log_probs(const rx_reader *d, const char *name, const rx_json *v)
{
    if (d->r->kind == RX_API_CHAT)
        return rx_read_bool(d, name, v, &d->r->log_probs);
    d->r->log_probs = true;
    return rx_read_integer(d, name, v, (const int64_t[]){0, 20}, &d->r->n_best);
}

static bool read_stream_options(const rx_reader *d, const char *name, const rx_json *v)
{
    const rx_json *usage = rx_json_member(v, "include_usage");
    if (v->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, name, "an object", v);
    return !usage || rx_read_bool(d, name, usage, &d->r->include_usage);
}

static bool read_format(const rx_reader *d, const char *name, const rx_json *v)
{
    const char *type = NULL;
    if (v->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, name, "an object", v);
    if (!rx_read_text(d, name, rx_json_member(v, "type"), &type))
        return false;
    const rx_json *beside = rx_json_member(v, "schema"); /* llama.cpp's place of it */
    if (!strcmp(type, "json_object")) {
        d->r->format = beside ? RX_FORMAT_SCHEMA : RX_FORMAT_OBJECT;
        d->r->schema = beside;
    } else if (!strcmp(type, "json_schema")) {
        const rx_json *named = rx_json_member(rx_json_member(v, "json_schema"), "schema");
        d->r->format = RX_FORMAT_SCHEMA;
        d->r->schema = named ? named : beside;
        if (!d->r->schema)
            return rx_api_fail(d->e, name, "'response_format' has no json_schema.schema");
    } else if (strcmp(type, "text")) {
        return rx_api_fail(d->e, name, "'response_format' has the type '%.40s'; expected text, "
                           "json_object or json_schema", type);
    }
    return true;
}

/* As llama.cpp's server takes it. */
static bool read_schema(const rx_reader *d, const char *name, const rx_json *v)
{
    if (v->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, name, "a JSON Schema", v);
    d->r->format = RX_FORMAT_SCHEMA;
    d->r->schema = v;
    return true;
}

static bool read_grammar(const rx_reader *d, const char *name, const rx_json *v)
{
    d->r->format = RX_FORMAT_GRAMMAR;
    return rx_read_text(d, name, v, &d->r->grammar);
}

static bool read_regex(const rx_reader *d, const char *name, const rx_json *v)
{
    d->r->format = RX_FORMAT_REGEX;
    return rx_read_text(d, name, v, &d->r->grammar);
}

static bool read_encoding(const rx_reader *d, const char *name, const rx_json *v)
{
    const char *text = NULL;
    if (!rx_read_text(d, name, v, &text))
        return false;
    d->r->base64 = !strcmp(text, "base64");
    return d->r->base64 || !strcmp(text, "float") ||
           rx_api_fail(d->e, name, "'encoding_format': expected float or base64, got '%.40s'",
                       text);
}

/* ---- Tools ----------------------------------------------------------------------------------- */

bool rx_read_tool_room(const rx_reader *d, const rx_json *v)
{
    if (v->kind != RX_JSON_ARRAY || v->n > RX_API_MAX_TOOLS)
        return rx_read_wrong(d, "tools", "an array of at most 128 tools", v);
    d->r->tools = rx_arena_array_zero(d->a, v->n + 1, sizeof *d->r->tools);
    d->r->given_tools = v;
    return d->r->tools || rx_read_no_memory(d);
}

bool rx_read_tool(const rx_reader *d, const rx_json *name, const rx_json *description,
                  const rx_json *parameters)
{
    rx_api_tool *out = &d->r->tools[d->r->n_tools++];
    if (!rx_read_text(d, "tools", name, &out->name))
        return false;
    if (!*out->name || strspn(out->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789_-.") != strlen(out->name))
        return rx_api_fail(d->e, "tools", "'%.40s' cannot be the name of a tool", out->name);
    if (description && description->kind != RX_JSON_STRING && description->kind != RX_JSON_NULL)
        return rx_read_wrong(d, "tools", "'description' to be a string", description);
    out->parameters = parameters && parameters->kind == RX_JSON_NULL ? NULL : parameters;
    if (out->parameters && out->parameters->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, "tools", "'parameters' to be a JSON Schema", out->parameters);
    return true;
}

static bool read_tools(const rx_reader *d, const char *name, const rx_json *v)
{
    if (!rx_read_tool_room(d, v))
        return false;
    d->r->tools_json = v;
    for (const rx_json *t = v->first; t; t = t->next) {
        const rx_json *f = rx_json_member(t, "function");
        const char *type = NULL;
        if (!rx_read_text(d, name, rx_json_member(t, "type"), &type))
            return false;
        if (strcmp(type, "function"))
            return rx_api_fail(d->e, name, "a tool has the type '%.40s'; expected function", type);
        if (!rx_read_tool(d, rx_json_member(f, "name"), rx_json_member(f, "description"),
                          rx_json_member(f, "parameters")))
            return false;
    }
    return true;
}

bool rx_read_choice(const rx_reader *d, const char *name, const rx_json *v, const rx_json *function)
{
    static const struct {
        const char *name;
        rx_api_choice choice;
    } modes[] = {{"auto", RX_TOOLS_AUTO}, {"none", RX_TOOLS_NONE},
                 {"required", RX_TOOLS_REQUIRED}, {"any", RX_TOOLS_REQUIRED}};
    const bool object = v->kind == RX_JSON_OBJECT;
    const rx_json *mode = object ? rx_json_member(v, "type") : v;
    for (size_t i = 0; mode && mode->kind == RX_JSON_STRING && i < 4; i++)
        if (!strcmp(mode->text, modes[i].name)) {
            d->r->choice = modes[i].choice;
            return true;
        }
    d->r->choice = RX_TOOLS_REQUIRED;
    if (object && function)
        return rx_read_text(d, name, function, &d->r->tool);
    return rx_api_fail(d->e, name, "'%s': expected auto, none, required or a function", name);
}

static bool read_tool_choice(const rx_reader *d, const char *name, const rx_json *v)
{
    return rx_read_choice(d, name, v, rx_json_member(rx_json_member(v, "function"), "name"));
}

/* Ollama nests most settings in an object `options`. */
static bool read_field(const rx_reader *d, int kind, const rx_json *v);
static bool read_options(const rx_reader *d, const char *name, const rx_json *v)
{
    if (v->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, name, "an object", v);
    for (const rx_json *i = v->first; i; i = i->next)
        if (!read_field(d, OPTIONS, i))
            return false;
    return true;
}

/* ---- The table ------------------------------------------------------------------------------- */

typedef enum field_kind { BOOL, NUMBER, INTEGER, TEXT, READ, IGNORED } field_kind;
typedef struct field {
    const char *name;
    int requests;
    field_kind kind;
    size_t offset;
    double real[2];
    int64_t integer[2];
    bool (*read)(const rx_reader *d, const char *name, const rx_json *v);
} field;

#define AT(member) offsetof(rx_api_request, member)
static const field fields[] = {
#define BOOL(n, requests, member) {n, requests, BOOL, AT(member), {0}, {0}, NULL},
#define NUMBER(n, requests, member, lo, hi) {n, requests, NUMBER, AT(member), {lo, hi}, {0}, NULL},
#define INTEGER(n, requests, member, lo, hi)                                                      \
    {n, requests, INTEGER, AT(member), {0}, {lo, hi}, NULL},
#define TEXT(n, requests, member) {n, requests, TEXT, AT(member), {0}, {0}, NULL},
#define READ(n, requests, function) {n, requests, READ, 0, {0}, {0}, function},
#define IGNORED(n, requests) {n, requests, IGNORED, 0, {0}, {0}, NULL},
#include "serve/request_fields.def"
#undef BOOL
#undef NUMBER
#undef INTEGER
#undef TEXT
#undef READ
#undef IGNORED
};

static bool read_field(const rx_reader *d, int kind, const rx_json *v)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const field *f = &fields[i];
        void *at = (char *)d->r + f->offset;
        if (!(f->requests & kind) || strcmp(f->name, v->key))
            continue;
        if (v->kind == RX_JSON_NULL)
            return true;
        switch (f->kind) {
        case BOOL: return rx_read_bool(d, f->name, v, at);
        case NUMBER: return rx_read_real(d, f->name, v, f->real, at);
        case INTEGER: return rx_read_integer(d, f->name, v, f->integer, at);
        case TEXT: return rx_read_text(d, f->name, v, at);
        case READ: return f->read(d, f->name, v);
        case IGNORED: return true;
        }
    }
    char safe[64];
    rlx_escape_text(v->key, v->key_length, false, safe, sizeof safe);
    if (d->r->unknown.n < 1000)
        rx_str_printf(&d->r->unknown, "%s%s", d->r->unknown.n ? ", " : "", safe);
    return true;
}

/* The missing required field; NULL: none. */
static const char *missing_field(const rx_api_request *r)
{
    static const struct {
        int requests;
        const char *prompts, *messages;
    } needs[] = {
        {CHAT | TEMPLATE | COUNT | MESSAGE, NULL, "messages"},
        {RESPONSE, NULL, "input"}, {COMPLETION, "prompt", NULL},
        {EMBEDDING | OLLAMA_EMBED, "input", NULL}, {OLLAMA_EMBEDDING, "prompt", NULL},
        {TOKENIZE, "content", NULL}, {DETOKENIZE, "tokens", NULL}, {RERANK, "documents", NULL},
    };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (!(needs[i].requests & (int)r->kind))
            continue;
        if (needs[i].prompts && !r->n_prompts)
            return needs[i].prompts;
        if (needs[i].messages && !r->n_messages)
            return needs[i].messages;
    }
    if (r->kind == RX_API_RERANK && !r->query)
        return "query";
    if (r->kind == RX_API_MESSAGE && r->max_tokens < 0)
        return "max_tokens";
    return NULL;
}

/* Checks required fields and combinations. */
static bool check(const rx_reader *d)
{
    const rx_api_request *r = d->r;
    const char *name = missing_field(r);
    if (name)
        return rx_api_fail(d->e, name, "'%s' is missing", name);
    if (r->n_prompts * (size_t)r->n > RX_API_MAX_CHOICES && r->kind == RX_API_COMPLETION)
        return rx_api_fail(d->e, "n", "at most %d choices in a request", RX_API_MAX_CHOICES);
    if (r->choice == RX_TOOLS_REQUIRED) {
        size_t i = 0;
        while (r->tool && i < r->n_tools && strcmp(r->tools[i].name, r->tool))
            i++;
        if (i == r->n_tools)
            return rx_api_fail(d->e, "tool_choice", "'tool_choice' asks for a tool that is not in "
                               "'tools'");
    }
    return true;
}

/* Ollama streams by default and has defaults of its own. */
static void set_defaults(rx_api_kind kind, rx_api_request *out)
{
    *out = (rx_api_request){.kind = kind, .temperature = 1, .top_p = 1, .seed = -1,
                            .max_tokens = -1, .n = 1,
                            .dry_last = -1};
    if (kind & OLLAMA) {
        out->stream = true;
        out->temperature = 0.8;
        out->top_k = 40;
        out->top_p = 0.9;
    }
    out->return_documents = kind == RX_API_RERANK;
}

bool rx_api_parse(rx_arena *a, rx_api_kind kind, const void *body, size_t n, rx_api_request *out,
                  rx_api_error *e)
{
    const rx_reader d = {a, out, e};
    const rx_json *root;
    rlx_error err = {0};
    set_defaults(kind, out);
    *e = (rx_api_error){0};
    if (rx_json_parse(a, "the body", body, n, &root, &err) != RLX_OK)
        return err.code == RLX_NO_MEMORY ? rx_read_no_memory(&d)
                                         : rx_api_fail(e, "", "%s", err.text);
    if (root->kind != RX_JSON_OBJECT)
        return rx_read_wrong(&d, "body", "an object", root);
    for (const rx_json *v = root->first; v; v = v->next)
        if (!read_field(&d, (int)kind, v))
            return false;
    return check(&d);
}
