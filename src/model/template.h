/* SPDX-License-Identifier: MIT */
/* Chat templates: an interpreter of the subset of Jinja that model files use (trim_blocks and
 * lstrip_blocks on, no autoescaping). Templates are untrusted input: size, nesting, steps, memory
 * and output are bounded. */
#ifndef RX_MODEL_TEMPLATE_H
#define RX_MODEL_TEMPLATE_H

#include "base/error.h"
#include "import/json.h"

/* The longest template, nesting, steps of a rendering, its memory and output. */
#define RX_TEMPLATE_BYTES ((size_t)1 << 20)
#define RX_TEMPLATE_DEPTH 160
#define RX_TEMPLATE_STEPS 4000000
#define RX_TEMPLATE_MEMORY ((size_t)256 << 20)
#define RX_TEMPLATE_OUTPUT ((size_t)32 << 20)

/* A parsed template: nothing in it changes, any number of threads may render it. */
typedef struct rx_chat_template rx_chat_template;

/* Parses n bytes, which need not stay. On success the caller ends *out with rx_template_free; on
 * failure *out is NULL and the error gives the line. */
rlx_status rx_template_parse(const char *text, size_t n, rx_chat_template **out, rlx_error *err);
void rx_template_free(rx_chat_template *t);

/* Renders with the members of a JSON object as variables. `now` is the time that strftime_now
 * gives, in seconds since 1970; 0: the clock. *text ends in 0, is freed with rx_free. */
rlx_status rx_template_render(const rx_chat_template *t, const rx_json *variables, int64_t now,
                              char **text, size_t *length, rlx_error *err);

/* The messages of a conversation, without going through JSON. */
typedef struct rx_template_message {
    const char *role, *content; /* end in 0 */
} rx_template_message;

typedef struct rx_template_chat {
    const rx_template_message *messages;
    size_t n_messages;
    bool add_generation_prompt;
    const char *bos_token, *eos_token; /* NULL: "" */
    const rx_json *extra;              /* an object of more variables (tools, ...), may be NULL */
    int64_t now;                       /* as above */
} rx_template_chat;

/* Renders a conversation: `messages`, `add_generation_prompt`, `bos_token`, `eos_token`. */
rlx_status rx_template_render_chat(const rx_chat_template *t, const rx_template_chat *chat,
                                   char **text, size_t *length, rlx_error *err);

#endif
