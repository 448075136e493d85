/* SPDX-License-Identifier: MIT */
/* Bodies of OpenAI's /v1/responses, Anthropic's /v1/messages and Ollama's /api: the same values in
 * other shapes. Conversations become messages with a role and a text, tools those of OpenAI's
 * chats. */
#include <stdio.h>
#include <string.h>

#include "serve/json_out.h"
#include "serve/request_read.h"

/* ---- Shared ---------------------------------------------------------------------------------- */

/* Room for n messages. */
static bool make_room(const rx_reader *d, size_t n)
{
    d->r->messages = rx_arena_array_zero(d->a, n + 1, sizeof *d->r->messages);
    return d->r->messages || rx_read_no_memory(d);
}

static void add_message(const rx_reader *d, const char *role, const char *content)
{
    d->r->messages[d->r->n_messages++] = (rlx_message){role, content};
}

/* The message that calls of the assistant are added to: its last one, or a new one. */
static rlx_message *assistant_message(const rx_reader *d)
{
    const size_t n = d->r->n_messages;
    if (!n || strcmp(d->r->messages[n - 1].role, "assistant"))
        add_message(d, "assistant", "");
    return &d->r->messages[d->r->n_messages - 1];
}

/* A value as JSON text. */
static bool write_json(const rx_reader *d, const rx_json *v, const char **out)
{
    rx_str s = {0};
    if (v)
        rx_put_json(&s, v);
    else
        rx_str_puts(&s, "{}");
    *out = s.failed ? NULL : rx_arena_strdup(d->a, s.data);
    rx_str_finish(&s);
    return *out || rx_read_no_memory(d);
}

static rx_json *new_value(const rx_reader *d, rx_json_kind kind, rx_json *parent, const char *key)
{
    rx_json *v = rx_arena_array_zero(d->a, 1, sizeof *v);
    if (!v)
        return NULL;
    v->kind = kind;
    v->key = key;
    v->key_length = key ? strlen(key) : 0;
    if (parent) {
        rx_json **end = &parent->first;
        while (*end)
            end = &(*end)->next;
        *end = v;
        parent->n++;
    }
    return v;
}

/* Copies a value as a member of another; NULL adds nothing. */
static bool copy_member(const rx_reader *d, const rx_json *from, rx_json *parent, const char *key)
{
    rx_json *v = from ? new_value(d, from->kind, parent, key) : NULL;
    if (!v)
        return !from;
    const rx_json link = *v;
    *v = *from;
    v->key = link.key;
    v->key_length = link.key_length;
    v->next = NULL;
    return true;
}

/* Appends {"type": "function", "function": {...}}. */
static bool add_tool(const rx_reader *d, rx_json *list, const rx_json *name,
                     const rx_json *description, const rx_json *parameters)
{
    static const rx_json type = {.kind = RX_JSON_STRING, .text = "function", .length = 8};
    if (!rx_read_tool(d, name, description, parameters))
        return false;
    rx_json *tool = new_value(d, RX_JSON_OBJECT, list, NULL);
    const bool typed = tool && copy_member(d, &type, tool, "type");
    rx_json *f = typed ? new_value(d, RX_JSON_OBJECT, tool, "function") : NULL;
    return (f && copy_member(d, name, f, "name") &&
            copy_member(d, description, f, "description") &&
            copy_member(d, parameters, f, "parameters")) || rx_read_no_memory(d);
}

static rx_json *start_tools(const rx_reader *d, const rx_json *v)
{
    rx_json *list = rx_read_tool_room(d, v) ? new_value(d, RX_JSON_ARRAY, NULL, NULL) : NULL;
    if (!list && !d->e->status)
        rx_read_no_memory(d);
    d->r->tools_json = list;
    return list;
}

/* ---- /v1/responses --------------------------------------------------------------------------- */

/* Items are messages, function calls and their outputs. */
static bool read_item(const rx_reader *d, const rx_json *v)
{
    const rx_json *type = rx_json_member(v, "type");
    const char *kind = type && type->kind == RX_JSON_STRING ? type->text : "message";
    const char *first = NULL, *second = NULL;
    if (v->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, "input", "objects", v);
    if (!strcmp(kind, "message")) {
        if (!rx_read_role(d, rx_json_member(v, "role"), &first) ||
            !rx_read_content(d, rx_json_member(v, "content"), &second))
            return false;
        add_message(d, first, second);
        return true;
    }
    if (!strcmp(kind, "function_call"))
        return rx_read_text(d, "input", rx_json_member(v, "name"), &first) &&
               rx_read_text(d, "input", rx_json_member(v, "arguments"), &second) &&
               rx_read_call(d, first, second, &assistant_message(d)->content);
    if (!strcmp(kind, "function_call_output")) {
        if (!rx_read_content(d, rx_json_member(v, "output"), &first))
            return false;
        add_message(d, "tool", first);
        return true;
    }
    return !strcmp(kind, "reasoning") || /* of reasoning models: ignored */
           rx_api_fail(d->e, "input", "an item has the type '%.40s'; expected message, "
                       "function_call or function_call_output", kind);
}

bool rx_read_response_input(const rx_reader *d, const char *name, const rx_json *v)
{
    const char *text = NULL;
    if (v->kind == RX_JSON_STRING) {
        if (!make_room(d, 1) || !rx_read_text(d, name, v, &text))
            return false;
        add_message(d, "user", text);
        return true;
    }
    if (v->kind != RX_JSON_ARRAY || !v->n)
        return rx_read_wrong(d, name, "a text or an array of items", v);
    if (!make_room(d, v->n))
        return false;
    for (const rx_json *i = v->first; i; i = i->next)
        if (!read_item(d, i))
            return false;
    return true;
}

/* Used for /v1/messages, too, where it is called output_config. */
bool rx_read_response_text(const rx_reader *d, const char *name, const rx_json *v)
{
    const rx_json *format = rx_json_member(v, "format");
    const char *type = NULL;
    if (v->kind != RX_JSON_OBJECT)
        return rx_read_wrong(d, name, "an object", v);
    d->r->given_text = v;
    if (!format || format->kind == RX_JSON_NULL)
        return true;
    if (!rx_read_text(d, name, rx_json_member(format, "type"), &type))
        return false;
    if (!strcmp(type, "json_object")) {
        d->r->format = RX_FORMAT_OBJECT;
    } else if (!strcmp(type, "json_schema")) {
        d->r->format = RX_FORMAT_SCHEMA;
        d->r->schema = rx_json_member(format, "schema");
        if (!d->r->schema)
            return rx_api_fail(d->e, name, "'%s.format' has no schema", name);
    } else if (strcmp(type, "text")) {
        return rx_api_fail(d->e, name, "'%s.format' has the type '%.40s'; expected text, "
                           "json_object or json_schema", name, type);
    }
    return true;
}

bool rx_read_response_tools(const rx_reader *d, const char *name, const rx_json *v)
{
    rx_json *list = start_tools(d, v);
    for (const rx_json *t = list ? v->first : NULL; t; t = t->next) {
        const char *type = NULL;
        if (!rx_read_text(d, name, rx_json_member(t, "type"), &type))
            return false;
        if (strcmp(type, "function"))
            return rx_api_fail(d->e, name, "a tool has the type '%.40s'; expected function", type);
        if (!add_tool(d, list, rx_json_member(t, "name"), rx_json_member(t, "description"),
                      rx_json_member(t, "parameters")))
            return false;
    }
    return list != NULL;
}

bool rx_read_response_choice(const rx_reader *d, const char *name, const rx_json *v)
{
    d->r->given_choice = v;
    return rx_read_choice(d, name, v, rx_json_member(v, "name"));
}

bool rx_read_store(const rx_reader *d, const char *name, const rx_json *v)
{
    bool keep = true;
    const bool ok = rx_read_bool(d, name, v, &keep);
    d->r->no_store = !keep;
    return ok;
}

bool rx_read_metadata(const rx_reader *d, const char *name, const rx_json *v)
{
    d->r->metadata = v;
    return v->kind == RX_JSON_OBJECT || rx_read_wrong(d, name, "an object", v);
}

/* ---- /v1/messages ---------------------------------------------------------------------------- */

bool rx_read_system(const rx_reader *d, const char *name, const rx_json *v)
{
    (void)name;
    return rx_read_content(d, v, &d->r->system);
}

/* Conversations that the server keeps: by this code clients send them whole instead. */
bool rx_read_thread(const rx_reader *d, const char *name, const rx_json *v)
{
    (void)v;
    snprintf(d->e->param, sizeof d->e->param, "%s", name);
    return rx_api_fail_as(d->e, 400, "thread_unsupported_request", "threads are not kept here: "
                          "send all messages");
}

/* A block of a message. Tool results become messages of their own, before the text beside them. */
static bool read_block(const rx_reader *d, const rx_json *b, rx_str *text, const char **calls)
{
    const char *type = NULL, *part = NULL;
    if (!rx_read_text(d, "messages", rx_json_member(b, "type"), &type))
        return false;
    if (!strcmp(type, "text")) {
        if (!rx_read_text(d, "messages", rx_json_member(b, "text"), &part))
            return false;
        rx_str_puts(text, part);
        return true;
    }
    if (!strcmp(type, "tool_use")) {
        const char *name = NULL;
        return rx_read_text(d, "messages", rx_json_member(b, "name"), &name) &&
               write_json(d, rx_json_member(b, "input"), &part) &&
               rx_read_call(d, name, part, calls);
    }
    if (!strcmp(type, "tool_result")) {
        const rx_json *content = rx_json_member(b, "content");
        part = "";
        if (content && !rx_read_content(d, content, &part))
            return false;
        add_message(d, "tool", part);
        return true;
    }
    return !strcmp(type, "thinking") || !strcmp(type, "redacted_thinking") ||
           rx_api_fail(d->e, "messages", "blocks of type '%.40s' are not supported; text, tool_use "
                       "and tool_result are", type);
}

static bool read_block_message(const rx_reader *d, const rx_json *v)
{
    const rx_json *content = rx_json_member(v, "content");
    const char *role = NULL, *calls = NULL, *joined = NULL;
    rx_str s = {0};
    if (!rx_read_role(d, rx_json_member(v, "role"), &role))
        return false;
    if (!content || content->kind != RX_JSON_ARRAY) {
        if (!rx_read_text(d, "messages", content, &joined))
            return false;
        add_message(d, role, joined);
        return true;
    }
    const size_t before = d->r->n_messages;
    bool ok = true;
    rx_str_puts(&s, "");
    for (const rx_json *b = content->first; b && ok; b = b->next)
        ok = read_block(d, b, &s, &calls);
    rx_str_puts(&s, calls ? calls : "");
    if (ok && (s.failed || !(joined = rx_arena_strdup(d->a, s.data))))
        ok = rx_read_no_memory(d);
    if (ok && (*joined || d->r->n_messages == before))
        add_message(d, role, joined);
    rx_str_finish(&s);
    return ok;
}

bool rx_read_blocks(const rx_reader *d, const char *name, const rx_json *v)
{
    size_t n = 0;
    if (v->kind != RX_JSON_ARRAY || !v->n)
        return rx_read_wrong(d, name, "an array of messages", v);
    for (const rx_json *m = v->first; m; m = m->next) {
        const rx_json *content = rx_json_member(m, "content");
        if (m->kind != RX_JSON_OBJECT)
            return rx_read_wrong(d, name, "objects", m);
        n += 1 + (content && content->kind == RX_JSON_ARRAY ? content->n : 0);
    }
    if (!make_room(d, n))
        return false;
    for (const rx_json *m = v->first; m; m = m->next)
        if (!read_block_message(d, m))
            return false;
    return true;
}

bool rx_read_message_tools(const rx_reader *d, const char *name, const rx_json *v)
{
    rx_json *list = start_tools(d, v);
    for (const rx_json *t = list ? v->first : NULL; t; t = t->next) {
        const rx_json *type = rx_json_member(t, "type");
        if (type && type->kind == RX_JSON_STRING && strcmp(type->text, "custom"))
            return rx_api_fail(d->e, name, "a tool has the type '%.40s'; expected custom",
                               type->text);
        if (!add_tool(d, list, rx_json_member(t, "name"), rx_json_member(t, "description"),
                      rx_json_member(t, "input_schema")))
            return false;
    }
    return list != NULL;
}

bool rx_read_message_choice(const rx_reader *d, const char *name, const rx_json *v)
{
    static const struct {
        const char *type;
        rx_api_choice choice;
    } types[] = {{"auto", RX_TOOLS_AUTO}, {"none", RX_TOOLS_NONE}, {"any", RX_TOOLS_REQUIRED},
                 {"tool", RX_TOOLS_REQUIRED}};
    const char *type = NULL;
    if (!rx_read_text(d, name, rx_json_member(v, "type"), &type))
        return false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(types[i].type, type)) {
            d->r->choice = types[i].choice;
            return strcmp(type, "tool") ||
                   rx_read_text(d, name, rx_json_member(v, "name"), &d->r->tool);
        }
    return rx_api_fail(d->e, name, "'tool_choice' has the type '%.40s'; expected auto, any, tool "
                       "or none", type);
}

/* ---- Ollama ---------------------------------------------------------------------------------- */

bool rx_read_ollama_images(const rx_reader *d, const char *name, const rx_json *v)
{
    return (v->kind == RX_JSON_ARRAY && !v->n) ||
           rx_api_fail(d->e, name, "images are not supported");
}

bool rx_read_ollama_messages(const rx_reader *d, const char *name, const rx_json *v)
{
    if (v->kind != RX_JSON_ARRAY)
        return rx_read_wrong(d, name, "an array of messages", v);
    if (!make_room(d, v->n))
        return false;
    for (const rx_json *m = v->first; m; m = m->next) {
        const rx_json *content = rx_json_member(m, "content");
        const rx_json *calls = rx_json_member(m, "tool_calls");
        const rx_json *images = rx_json_member(m, "images");
        const char *role = NULL, *text = "";
        if (m->kind != RX_JSON_OBJECT)
            return rx_read_wrong(d, name, "objects", m);
        if (!rx_read_role(d, rx_json_member(m, "role"), &role) ||
            (content && content->kind != RX_JSON_NULL && !rx_read_text(d, name, content, &text)) ||
            (images && images->kind != RX_JSON_NULL && !rx_read_ollama_images(d, name, images)) ||
            (calls && calls->kind != RX_JSON_NULL &&
             !rx_read_calls(d, calls, write_json, &text))) /* arguments are objects, not texts */
            return false;
        add_message(d, role, text);
    }
    return true;
}

/* A message of a chat, and for `raw` a prompt as it is. */
bool rx_read_ollama_prompt(const rx_reader *d, const char *name, const rx_json *v)
{
    const char *text = NULL;
    d->r->prompts = rx_arena_array_zero(d->a, 1, sizeof *d->r->prompts);
    if (!d->r->prompts)
        return rx_read_no_memory(d);
    if (!make_room(d, 1) || !rx_read_text(d, name, v, &text))
        return false;
    d->r->prompts[0] = (rx_api_text){.text = text, .length = v->length};
    d->r->n_prompts = 1;
    add_message(d, "user", text);
    return true;
}

bool rx_read_ollama_format(const rx_reader *d, const char *name, const rx_json *v)
{
    if (v->kind == RX_JSON_OBJECT) {
        d->r->format = RX_FORMAT_SCHEMA;
        d->r->schema = v;
        return true;
    }
    if (v->kind != RX_JSON_STRING || (*v->text && strcmp(v->text, "json")))
        return rx_read_wrong(d, name, "\"json\" or a JSON Schema", v);
    if (*v->text)
        d->r->format = RX_FORMAT_OBJECT;
    return true;
}
