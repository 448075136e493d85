/* SPDX-License-Identifier: MIT */
/* Shared by the readers of request bodies. Each returns false with the error in its reader. */
#ifndef RX_SERVE_REQUEST_READ_H
#define RX_SERVE_REQUEST_READ_H

#include "serve/request.h"

typedef struct rx_reader {
    rx_arena *a;
    rx_api_request *r;
    rx_api_error *e;
} rx_reader;

bool rx_read_no_memory(const rx_reader *d);
/* "'name': expected ..., got an array" */
bool rx_read_wrong(const rx_reader *d, const char *name, const char *expected, const rx_json *v);
bool rx_read_real(const rx_reader *d, const char *name, const rx_json *v, const double limits[2],
                  double *out);
bool rx_read_integer(const rx_reader *d, const char *name, const rx_json *v,
                     const int64_t limits[2], int64_t *out);
bool rx_read_bool(const rx_reader *d, const char *name, const rx_json *v, bool *out);
/* A text without NUL characters; v may be NULL. */
bool rx_read_text(const rx_reader *d, const char *name, const rx_json *v, const char **out);
/* The concatenated texts of the parts of a content. */
bool rx_read_parts(const rx_reader *d, const rx_json *v, const char **out);
/* A content: a text, or parts. */
bool rx_read_content(const rx_reader *d, const rx_json *v, const char **out);
bool rx_read_stop(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_role(const rx_reader *d, const rx_json *v, const char **out);
/* Appends a call made by the assistant to *content, in the form that models write. */
bool rx_read_call(const rx_reader *d, const char *name, const char *arguments,
                  const char **content);
/* The same for a list of calls in OpenAI's form; `arguments` reads the arguments of one as JSON. */
typedef bool rx_read_arguments(const rx_reader *d, const rx_json *v, const char **out);
bool rx_read_calls(const rx_reader *d, const rx_json *calls, rx_read_arguments *arguments,
                   const char **content);
/* A tool; everything but the name may be NULL. */
bool rx_read_tool(const rx_reader *d, const rx_json *name, const rx_json *description,
                  const rx_json *parameters);
/* A mode, as a text or the type of an object, or the name of a function, which may be NULL. */
bool rx_read_choice(const rx_reader *d, const char *name, const rx_json *v,
                    const rx_json *function);
/* Allocates the tools of an array. */
bool rx_read_tool_room(const rx_reader *d, const rx_json *v);

/* Fields of /v1/responses. */
bool rx_read_response_input(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_response_text(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_response_tools(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_response_choice(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_store(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_metadata(const rx_reader *d, const char *name, const rx_json *v);
/* Of /v1/messages. */
bool rx_read_blocks(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_system(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_thread(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_message_tools(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_message_choice(const rx_reader *d, const char *name, const rx_json *v);
/* Of Ollama. */
bool rx_read_ollama_messages(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_ollama_prompt(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_ollama_format(const rx_reader *d, const char *name, const rx_json *v);
bool rx_read_ollama_images(const rx_reader *d, const char *name, const rx_json *v);

#endif
