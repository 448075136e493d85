/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a tokenizer.json, and as a text for what it opens. Built by
 * ./run fuzz. */
#include "support/tokenizer_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_error err;
    rlx_tokenizer *t = rx_tok_new("fuzz.json", &err);
    if (t && rx_tok_load_json(t, data, n, &err) == RLX_OK && rx_tok_finish_load(t, &err) == RLX_OK)
        use_tokenizer(t, data, n);
    rlx_tokenizer_close(t);
    return 0;
}
