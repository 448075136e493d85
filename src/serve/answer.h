/* SPDX-License-Identifier: MIT */
/* An answer of /v1/chat/completions or /v1/completions while it is made: its choices, and how they
 * are written. */
#ifndef RX_SERVE_ANSWER_H
#define RX_SERVE_ANSWER_H

#include "serve/server.h"

/* What the text of a choice is. */
typedef enum rx_choice_mode {
    RX_MODE_TEXT,
    RX_MODE_OPEN, /* it may become a call: its begin is held back */
    RX_MODE_CALL  /* {"name":"...","arguments":{...}}, by the grammar of the tools */
} rx_choice_mode;

typedef struct rx_choice {
    rx_job *job;
    size_t prompt;        /* index */
    rx_choice_mode mode;
    rx_str text;          /* of the whole answer; of streams only what was held back */
    size_t length;        /* of the text so far, in bytes */
    rx_str call;          /* all of a call */
    size_t call_sent;     /* bytes of its arguments that a stream has */
    bool named;           /* a stream has its name */
    rx_str probs[4];      /* log-probabilities: entries of chats; the four lists of completions */
    const char *finish;   /* NULL: it goes on */
    int64_t last_ns;      /* when its last token came */
    size_t n_generated;
} rx_choice;

typedef struct rx_answer {
    rx_server *s;
    rx_served *m;
    rx_arena arena;
    rx_api_request r;
    rlx_grammar *grammar, *calls; /* of the whole output; of a call in it */
    int32_t **prompts;
    size_t *n_ids;
    rx_choice *choices;
    size_t n_choices, at; /* at: the one whose pieces are taken */
    char id[40];
    int64_t created, begin_ns;
    int fd;
    size_t n_prompt, n_cached, n_generated;
    rx_api_error e;
    bool started, ended;  /* of a stream */
} rx_answer;

/* The log-probabilities of a piece. */
void rx_answer_add_probs(rx_answer *a, rx_choice *c, const rx_backend_piece *p);
/* Streams: the first chunk of a choice; text; what is new of a call; the end of it; the end. */
void rx_answer_put_begin(const rx_answer *a, const rx_choice *c, rx_str *out);
void rx_answer_put_text(const rx_answer *a, rx_choice *c, const char *text, size_t n, rx_str *out);
void rx_answer_put_call(const rx_answer *a, rx_choice *c, rx_str *out);
void rx_answer_put_finish(const rx_answer *a, rx_choice *c, rx_str *out);
void rx_answer_put_end(const rx_answer *a, rx_str *out);
void rx_answer_put_error(const rx_api_error *e, rx_str *out);
/* The whole answer. */
void rx_answer_put_all(const rx_answer *a, rx_str *out);

#endif
