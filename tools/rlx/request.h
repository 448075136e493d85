/* SPDX-License-Identifier: MIT */
/* Generation by a request to an engine, for what the plain generation does not have: penalties for
 * presence and frequency, a bias of tokens, log-probabilities. */
#ifndef REQUEST_H
#define REQUEST_H

#include "llm.h"

typedef struct request_options {
    const char *presence, *frequency;
    cli_list bias; /* TOKEN=NUMBER */
    cli_opt_number log_probs;
} request_options;

#define REQUEST_OPTIONS(record, member)                                                           \
    {"presence-penalty", CLI_TEXT, offsetof(record, member.presence), "X",                        \
     "taken from the logits of tokens that were generated"},                                      \
    {"frequency-penalty", CLI_TEXT, offsetof(record, member.frequency), "X",                      \
     "the same for each time that they were"},                                                    \
    {"logit-bias", CLI_LIST, offsetof(record, member.bias), "TOKEN=X",                            \
     "added to the logit of a token, given as its id or its text; 'no': it never comes; may be "  \
     "repeated"},                                                                                 \
    {"logprobs", CLI_SET_NUMBER, offsetof(record, member.log_probs), "N",                         \
     "print one token a line with its log-probability and the N most likely ones (up to 20)"}

/* One token of the output. The arrays belong to it. */
typedef struct request_token {
    int32_t id;
    char *text;
    double log_prob;
    rlx_token_prob *best;
    size_t n_best;
} request_token;

typedef struct request_output {
    request_token *tokens;
    size_t n;
} request_output;

/* Whether one of the options was given. */
bool request_needed(const request_options *o);
/* Generates as `g` says; `fn` gets the pieces. Returns the exit status, after printing why not. */
int request_run(const request_options *o, rlx_model *m, const rlx_generate_desc *g,
                rlx_piece_fn *fn, void *user, rlx_generate_result *result, request_output *out);
/* Lines of tokens; or as member "logprobs". */
void request_print(const rlx_model *m, const request_output *out);
void request_json(const rlx_model *m, const request_output *out, json *j);
void request_free(request_output *out);

#endif
