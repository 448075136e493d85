/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as the body of a request; the first byte chooses which. Either there
 * is an error with a status and a sentence, or every value is in its limits. */
#include <stdlib.h>
#include <string.h>

#include "serve/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void need(bool ok)
{
    if (!ok)
        abort();
}

static void check_request(const rx_api_request *r)
{
    need(r->temperature >= 0 && r->top_p >= 0 && r->top_p <= 1 && r->n >= 1);
    need(r->n_stop <= RX_API_MAX_STOPS && r->n_bias <= RX_API_MAX_BIAS && r->n_best <= 20);
    for (size_t i = 0; i < r->n_messages; i++)
        need(strlen(r->messages[i].role) > 0 && strlen(r->messages[i].content) < ((size_t)1 << 24));
    for (size_t i = 0; i < r->n_prompts; i++)
        need(r->prompts[i].text || r->prompts[i].tokens);
    for (size_t i = 0; i < r->n_tools; i++)
        need(*r->tools[i].name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rx_arena arena = {0};
    rx_api_request r;
    rx_api_error e;
    if (!n)
        return 0;
    if (rx_api_parse(&arena, (rx_api_kind)(1 << data[0] % RX_API_N_KINDS), data + 1, n - 1, &r, &e))
        check_request(&r);
    else
        need(e.status >= 400 && e.message[0] && e.type);
    rx_str_finish(&r.unknown);
    rx_arena_finish(&arena);
    return 0;
}
