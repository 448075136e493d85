/* SPDX-License-Identifier: MIT */
/* Internal interface of the tokenizer.json loader. */
#ifndef RX_MODEL_TOK_JSON_H
#define RX_MODEL_TOK_JSON_H

#include "import/json.h"
#include "model/tok.h"

typedef struct rx_tok_json {
    rlx_tokenizer *t;
    rlx_error *err;
} rx_tok_json;

/* "'FILE': WHERE: expected EXPECTED, found ...". */
rlx_status rx_tok_json_fail(const rx_tok_json *l, const char *where, const char *expected,
                            const rx_json *found);
/* Whether a member is this string. */
bool rx_tok_json_is(const rx_json *v, const char *key, const char *text);
/* A bool member, or `missing`. */
bool rx_tok_json_bool(const rx_json *v, const char *key, bool missing);
/* A string member, copied to the arena; "" when it is none. */
rlx_status rx_tok_json_text(const rx_tok_json *l, const rx_json *v, const char *key,
                            const char **text, size_t *n);

/* The steps; v may be NULL or null. */
rlx_status rx_tok_json_normaliser(const rx_tok_json *l, const rx_json *v);
rlx_status rx_tok_json_splitter(const rx_tok_json *l, const rx_json *v);
rlx_status rx_tok_json_decoder(const rx_tok_json *l, const rx_json *v);
/* The ids around a text. */
rlx_status rx_tok_json_around(const rx_tok_json *l, const rx_json *v);

#endif
