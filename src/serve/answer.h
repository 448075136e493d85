/* SPDX-License-Identifier: MIT */
/* An answer while it is generated: its choices, and how each protocol writes them. */
#ifndef RX_SERVE_ANSWER_H
#define RX_SERVE_ANSWER_H

#include "serve/server.h"

/* What the text of a choice is. */
typedef enum rx_choice_mode {
    RX_MODE_TEXT,
    RX_MODE_OPEN, /* may become a call: its beginning is held back */
    RX_MODE_CALL  /* {"name":"...","arguments":{...}}, by the grammar of the tools */
} rx_choice_mode;

typedef struct rx_answer rx_answer;
typedef struct rx_choice {
    rx_job *job;
    size_t prompt;        /* index */
    rx_choice_mode mode;
    rx_str text;          /* of the whole answer; of streams what was held back, and all of it for
                           * writers that keep it */
    size_t length;        /* of the text so far, in bytes */
    rx_str call;          /* all of a call */
    size_t call_sent;     /* bytes of its arguments already streamed */
    bool opened;          /* the stream has the beginning of its text, or the name of its call */
    bool stopped;         /* it ended at a stop string */
    rx_str probs[4];      /* log-probabilities: entries of chats; the four lists of completions */
    const char *finish;   /* NULL: still running */
    int64_t last_ns;      /* when its last token came */
    size_t n_generated;
} rx_choice;

/* A protocol. Streams: the beginning of a choice; text; new parts of a call; the end of a choice;
 * the end; an error instead of it. `whole` writes an answer that is not streamed. */
typedef struct rx_writer {
    const char *type;     /* of streams */
    const char *id;       /* prefix of ids */
    bool keeps_text;
    void (*begin)(rx_answer *a, rx_choice *c, rx_str *out);
    void (*text)(rx_answer *a, rx_choice *c, const char *text, size_t n, rx_str *out);
    void (*call)(rx_answer *a, rx_choice *c, rx_str *out);
    void (*finish)(rx_answer *a, rx_choice *c, rx_str *out);
    void (*end)(rx_answer *a, rx_str *out);
    void (*error)(rx_answer *a, const rx_api_error *e, rx_str *out);
    void (*whole)(rx_answer *a, rx_str *out);
} rx_writer;
extern const rx_writer rx_writer_chat, rx_writer_completion, rx_writer_response, rx_writer_message,
    rx_writer_ollama;

struct rx_answer {
    const rx_writer *w;
    rx_server *s;
    rx_served *m;
    rx_arena arena;
    rx_api_request r;
    rlx_grammar *grammar, *calls; /* of the whole output; of a call in it */
    int32_t **prompts;
    size_t *n_ids;
    rx_choice *choices;
    size_t n_choices, at; /* at: the one whose pieces are being taken */
    char id[40];
    int64_t created, begin_ns, first_ns; /* first_ns: of the first token; 0: none yet */
    int fd;
    size_t n_prompt, n_cached, n_generated;
    rx_api_error e;
    bool started, ended;  /* of a stream */
    size_t n_events;      /* events sent */
};

/* The log-probabilities of a piece. */
void rx_answer_add_probs(rx_answer *a, rx_choice *c, const rx_backend_piece *p);
void rx_answer_drop_probs(rx_choice *c); /* those that are accumulated */
/* The name of a call and its arguments as far as generated; false: not even the name. */
typedef struct rx_call_parts {
    const char *name, *arguments;
    size_t n_name, n_arguments;
} rx_call_parts;
bool rx_answer_split_call(const rx_choice *c, rx_call_parts *out);
/* Prompt tokens found in the cache. */
size_t rx_answer_cached(const rx_answer *a);
/* Stores a response, so that a later one may continue it. */
void rx_answer_keep(rx_answer *a, const rx_str *body);

#endif
