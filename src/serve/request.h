/* SPDX-License-Identifier: MIT */
/* Bodies of requests: from bytes to checked values. A wrong value is an error that names it;
 * unknown fields are listed in a warning. */
#ifndef RX_SERVE_REQUEST_H
#define RX_SERVE_REQUEST_H

#include "base/str.h"
#include "import/json.h"
#include "serve/backend.h"

#define RX_API_MAX_CHOICES 128
#define RX_API_MAX_STOPS 16
#define RX_API_MAX_BIAS 300
#define RX_API_MAX_TOOLS 128

/* An error in the form of OpenAI's API. */
typedef struct rx_api_error {
    int status;          /* of HTTP; 0: none */
    const char *type, *code; /* static; code may be NULL */
    char param[64];      /* "": none */
    char message[512];
} rx_api_error;

/* Fills *e unless it has an error already; false, so that callers can return it. */
bool rx_api_fail(rx_api_error *e, const char *param, const char *format, ...) RX_PRINTF(3, 4);
/* The same with a status, type and code. */
bool rx_api_fail_as(rx_api_error *e, int status, const char *code, const char *format, ...)
    RX_PRINTF(4, 5);

typedef enum rx_api_kind {
    RX_API_CHAT = 1, RX_API_COMPLETION = 2, RX_API_EMBEDDING = 4, RX_API_TOKENIZE = 8,
    RX_API_DETOKENIZE = 16, RX_API_TEMPLATE = 32, RX_API_RERANK = 64,
    RX_API_RESPONSE = 128,       /* OpenAI's /v1/responses */
    RX_API_MESSAGE = 256,        /* Anthropic's /v1/messages */
    RX_API_COUNT = 512,          /* Anthropic's /v1/messages/count_tokens */
    RX_API_OLLAMA_CHAT = 1024, RX_API_OLLAMA_GENERATE = 2048, RX_API_OLLAMA_EMBED = 4096,
    RX_API_OLLAMA_SHOW = 8192,
    RX_API_OLLAMA_EMBEDDING = 16384, /* of one text, as clients asked before /api/embed */
    RX_API_OLLAMA_OPTIONS = 32768    /* the object `options` of Ollama's requests */
} rx_api_kind;
#define RX_API_N_KINDS 15 /* of bodies */

typedef struct rx_api_text {
    const char *text;      /* NULL: tokens */
    size_t length;
    const int32_t *tokens;
    size_t n_tokens;
} rx_api_text;

typedef struct rx_api_tool {
    const char *name;
    const rx_json *parameters; /* its JSON Schema; NULL: none */
} rx_api_tool;

typedef enum rx_api_choice { RX_TOOLS_AUTO, RX_TOOLS_NONE, RX_TOOLS_REQUIRED } rx_api_choice;
typedef enum rx_api_format {
    RX_FORMAT_TEXT, RX_FORMAT_OBJECT, RX_FORMAT_SCHEMA, RX_FORMAT_GRAMMAR, RX_FORMAT_REGEX
} rx_api_format;

typedef struct rx_api_request {
    rx_api_kind kind;
    const char *model;            /* NULL: the first one */
    rlx_message *messages;
    size_t n_messages;
    rx_api_text *prompts;         /* of completions, inputs of embeddings, text to encode */
    size_t n_prompts;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    rlx_sampling_desc more;       /* typical, XTC, DRY, Mirostat; nothing else */
    int64_t dry_last;             /* -1: all; 0: no DRY */
    const char *dry_breakers[RX_API_MAX_STOPS];
    int64_t top_k, seed, max_tokens, n, n_best; /* seed and max_tokens: -1: not given;
                                                 * max_tokens 0: the prompt only */
    const char *stop[RX_API_MAX_STOPS];
    size_t n_stop;
    rx_backend_bias *bias;
    size_t n_bias;
    bool log_probs, stream, include_usage, echo, ignore_end, add_special, base64;
    int64_t dimensions;
    rx_api_format format;
    const rx_json *schema;        /* of RX_FORMAT_SCHEMA */
    const char *grammar;          /* GBNF, or a regular expression */
    rx_api_tool *tools;
    size_t n_tools;
    const rx_json *tools_json;    /* as OpenAI's chats have them */
    rx_api_choice choice;
    const char *tool;             /* the one that must be called; NULL: any */
    const char *system;           /* goes before all messages; NULL: none */
    const char *previous;         /* the response that the messages continue; NULL: none */
    bool no_store;                /* the response need not be stored */
    const rx_json *given_tools, *given_choice, *given_text, *metadata; /* unparsed */
    const char *suffix;           /* text that follows what is generated; NULL: none */
    bool no_truncate;             /* texts that are too long are an error */
    const char *query;            /* documents are ranked by it */
    int64_t top_n;                /* documents; 0: all */
    bool return_documents, raw;   /* raw: the prompt is not a chat message */
    rx_str unknown;               /* names of unknown fields, separated by commas */
} rx_api_request;

/* Reads a body. Everything in *out lives in the arena, except `unknown`, which the caller finishes
 * also after a failure. False: *e says what is wrong. */
bool rx_api_parse(rx_arena *a, rx_api_kind kind, const void *body, size_t n, rx_api_request *out,
                  rx_api_error *e);

#endif
