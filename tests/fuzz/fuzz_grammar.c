/* SPDX-License-Identifier: MIT */
/* libFuzzer target: the first byte chooses JSON Schema (in one of its forms), a regular expression
 * or GBNF, the rest up to a zero byte is the grammar and what follows a text. Forced bytes must be
 * allowed, a state must follow its bytes, and the text is complete where it matches. */
#include <stdlib.h>
#include <string.h>

#include "rlx/rlx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void use(rlx_grammar *g, const char *text, size_t n)
{
    rlx_grammar_state *s;
    char forced[64];
    size_t n_forced = 0;
    bool matches = false;
    if (rlx_grammar_state_create(g, NULL, &s, NULL) != RLX_OK)
        return;
    if (rlx_grammar_forced_bytes(s, forced, sizeof forced, &n_forced, NULL) == RLX_OK && n_forced) {
        if (rlx_grammar_accept_bytes(s, forced, n_forced, NULL) == RLX_INVALID)
            abort();
        rlx_grammar_state_reset(s, NULL);
    }
    rlx_status st = rlx_grammar_matches(g, text, n, &matches, NULL);
    rlx_status moved = rlx_grammar_accept_bytes(s, text, n, NULL);
    if (st == RLX_OK && moved == RLX_OK && rlx_grammar_is_complete(s) != matches)
        abort();
    if (st == RLX_OK && moved == RLX_INVALID && matches)
        abort();
    rlx_grammar_state_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_grammar_desc d = {RLX_INIT(rlx_grammar_desc), .max_bytes = 16 << 20, .max_work = 1 << 16};
    rlx_grammar *g = NULL;
    rlx_error err = {0};
    if (!n)
        return 0;
    const char *text = (const char *)data + 1;
    const char *end = memchr(text, 0, n - 1);
    const size_t length = end ? (size_t)(end - text) : n - 1;
    const unsigned which = data[0] % 5;
    d.form = which < 3 ? (rlx_json_form)which : RLX_JSON_WRITE;
    rlx_status st = which < 3 ? rlx_grammar_from_json_schema(text, length, &d, &g, &err)
                    : which == 3 ? rlx_grammar_from_regex(text, length, &d, &g, &err)
                                 : rlx_grammar_from_gbnf(text, length, &d, &g, &err);
    if (st != RLX_OK && (!err.text[0] || g))
        abort();
    if (st == RLX_OK)
        use(g, end ? end + 1 : "", end ? n - 2 - length : 0);
    rlx_grammar_destroy(g);
    return 0;
}
