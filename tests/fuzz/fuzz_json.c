/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as JSON. Everything in the tree is looked at, every member is found
 * by its key. */
#include <stdlib.h>
#include <string.h>

#include "import/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint64_t visit(const rx_json *v, int depth)
{
    uint64_t sum = 0, number;
    size_t n = 0;
    if (depth > RX_JSON_DEPTH)
        abort();
    if (v->kind == RX_JSON_STRING || v->kind == RX_JSON_NUMBER) {
        if (v->text[v->length] || !rx_utf8_valid((const unsigned char *)v->text, v->length))
            abort();
        sum += rx_json_u64(v, &number) ? number : v->length;
    }
    for (const rx_json *i = v->first; i; i = i->next, n++) {
        /* a key may hold a zero byte, which the one that is looked for cannot */
        if (i->key && strlen(i->key) == i->key_length && rx_json_member(v, i->key) != i)
            abort();
        sum += visit(i, depth + 1);
    }
    if (n != v->n)
        abort();
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static volatile uint64_t sink;
    rx_arena arena = {0};
    const rx_json *v;
    rlx_error err = {0};
    if (rx_json_parse(&arena, "fuzz", data, n, &v, &err) == RLX_OK)
        sink = sink + visit(v, 0);
    else if (!err.text[0])
        abort();
    rx_arena_finish(&arena);
    return 0;
}
