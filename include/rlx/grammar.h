/* SPDX-License-Identifier: MIT */
/* Constrained output: JSON Schema, regular expressions and GBNF become a grammar over bytes; a
 * state of it says which tokens of a vocabulary may come next.
 *
 *     rlx_grammar *g;
 *     rlx_grammar_from_json_schema(schema, strlen(schema), NULL, &g, &err);
 *     rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = text, .grammar = g};
 *     rlx_generate(c, &d, on_piece, NULL, NULL, &err);
 *
 * or, with a sampler of one's own,
 *
 *     rlx_vocabulary_create(tokenizer, &v, &err);      once per tokenizer
 *     rlx_grammar_state_create(g, v, &s, &err);        one per sequence
 *     rlx_grammar_mask(s, bits, n, &err);              before each token
 *     rlx_grammar_accept(s, token, &err);              after it
 *
 * A schema keyword that cannot be decided exactly is refused by name when the grammar is made
 * (RLX_UNSUPPORTED): a text that the grammar takes is valid. docs/grammar.md lists what is
 * known. */
#ifndef RLX_GRAMMAR_H
#define RLX_GRAMMAR_H

#include "tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Grammars -------------------------------------------------------------------------------- */

/* A language over bytes. Its automata are built as they are needed, under a lock: states of one
 * grammar may be used by different threads, and their calls take turns. */
typedef struct rlx_grammar rlx_grammar;

/* Which texts of a valid JSON instance are in the language of a schema. */
typedef enum rlx_json_form {
    /* What a model should write: properties in the order of the schema and others after them, short
     * white space (up to two newlines with 20 blanks each place), integers without a fraction,
     * escapes only where they are needed, known formats enforced. */
    RLX_JSON_WRITE = 0,
    RLX_JSON_COMPACT, /* the same without white space */
    /* Every spelling: properties in any order, any white space, 1.0 for an integer; `format` is an
     * annotation, as the specification has it. */
    RLX_JSON_READ
} rlx_json_form;

/* Zero means the default in each field. */
typedef struct rlx_grammar_desc {
    size_t struct_size;
    rlx_json_form form;    /* of rlx_grammar_from_json_schema */
    uint64_t max_bytes;    /* memory of the grammar with its automata; default 256 MiB */
    uint64_t max_work;     /* steps of the automata in one call, about 50 ns each; default 2^24 */
} rlx_grammar_desc;

/* JSON Schema, draft 2020-12 (default) or draft 7 where "$schema" says so. RLX_PARSE: no JSON, or a
 * keyword has a wrong value; RLX_UNSUPPORTED: a keyword or a combination that cannot be decided
 * exactly, named in the error; RLX_INVALID: no instance is valid. */
RLX_API rlx_status rlx_grammar_from_json_schema(const char *schema, size_t length,
                                                const rlx_grammar_desc *d, rlx_grammar **out,
                                                rlx_error *err);
/* A regular expression of ECMA 262 with Unicode, as JSON Schema patterns are; the whole text must
 * match. Lookaround, backreferences and word boundaries are RLX_UNSUPPORTED. */
RLX_API rlx_status rlx_grammar_from_regex(const char *regex, size_t length,
                                          const rlx_grammar_desc *d, rlx_grammar **out,
                                          rlx_error *err);
/* GBNF, the form that llama.cpp reads, from rule `root`. Left recursion is RLX_UNSUPPORTED. */
RLX_API rlx_status rlx_grammar_from_gbnf(const char *text, size_t length,
                                         const rlx_grammar_desc *d, rlx_grammar **out,
                                         rlx_error *err);
/* States must be destroyed before. NULL is fine. */
RLX_API void rlx_grammar_destroy(rlx_grammar *g);

/* Whether a whole text is in the language. RLX_NO_MEMORY or RLX_UNSUPPORTED: a limit was reached
 * before that was known. */
RLX_API rlx_status rlx_grammar_matches(rlx_grammar *g, const char *text, size_t length,
                                       bool *matches, rlx_error *err);

/* ---- Vocabularies ---------------------------------------------------------------------------- */

/* The tokens of a tokenizer as a trie over their bytes. Nothing in it changes: any number of
 * threads and grammars may use it. The tokenizer must live longer. */
typedef struct rlx_vocabulary rlx_vocabulary;

RLX_API rlx_status rlx_vocabulary_create(const rlx_tokenizer *t, rlx_vocabulary **out,
                                         rlx_error *err);
/* States that use it must be destroyed before. NULL is fine. */
RLX_API void rlx_vocabulary_destroy(rlx_vocabulary *v);
/* 32-bit words of a mask: one bit a token, bit id % 32 of word id / 32. */
RLX_API size_t rlx_vocabulary_mask_words(const rlx_vocabulary *v);

/* ---- States ---------------------------------------------------------------------------------- */

/* How far a text has come. One thread at a time for each state. */
typedef struct rlx_grammar_state rlx_grammar_state;

/* Before the first byte. `v` may be NULL when no tokens are used. */
RLX_API rlx_status rlx_grammar_state_create(rlx_grammar *g, const rlx_vocabulary *v,
                                            rlx_grammar_state **out, rlx_error *err);
/* An independent copy, to try something. */
RLX_API rlx_status rlx_grammar_state_clone(const rlx_grammar_state *s, rlx_grammar_state **out,
                                           rlx_error *err);
RLX_API void rlx_grammar_state_destroy(rlx_grammar_state *s);
/* Back to before the first byte. */
RLX_API rlx_status rlx_grammar_state_reset(rlx_grammar_state *s, rlx_error *err);

/* Writes one bit for each token: whether a text of the language goes on with it. End tokens have
 * theirs set where the text is complete. n is rlx_vocabulary_mask_words; bits past the last token
 * are zero. Allocates nothing when the automata it needs are there. */
RLX_API rlx_status rlx_grammar_mask(rlx_grammar_state *s, uint32_t *bits, size_t n,
                                    rlx_error *err);
/* Whether the mask has that bit, without computing the others. */
RLX_API bool rlx_grammar_allows(rlx_grammar_state *s, int32_t token);
/* Goes on with a token, or with bytes. RLX_INVALID: the grammar does not allow it, and the state is
 * as it was. An end token is allowed where the text is complete and changes nothing. */
RLX_API rlx_status rlx_grammar_accept(rlx_grammar_state *s, int32_t token, rlx_error *err);
RLX_API rlx_status rlx_grammar_accept_bytes(rlx_grammar_state *s, const char *bytes, size_t n,
                                            rlx_error *err);
/* Takes back the last n accepted tokens or calls of rlx_grammar_accept_bytes. RLX_INVALID: there
 * were fewer (at most the last 65,536 are kept). */
RLX_API rlx_status rlx_grammar_rollback(rlx_grammar_state *s, size_t n, rlx_error *err);
/* Whether the text so far is in the language: an end token is allowed. */
RLX_API bool rlx_grammar_is_complete(rlx_grammar_state *s);
/* Whether it is complete and nothing but an end token can follow. */
RLX_API bool rlx_grammar_is_over(rlx_grammar_state *s);

/* The bytes that every continuation begins with, up to `cap`; *n becomes how many were written. */
RLX_API rlx_status rlx_grammar_forced_bytes(rlx_grammar_state *s, char *bytes, size_t cap,
                                            size_t *n, rlx_error *err);
/* Those bytes as the tokens that the tokenizer makes of them, less the last one where it could grow
 * with what follows. They need no step of the model: accept and append them. *n becomes their
 * number, often 0. */
RLX_API rlx_status rlx_grammar_forced(rlx_grammar_state *s, int32_t *tokens, size_t cap, size_t *n,
                                      rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
