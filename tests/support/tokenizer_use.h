/* SPDX-License-Identifier: MIT */
/* Uses a tokenizer in every way, for the fuzz targets: whatever the vocabulary is, encoding and
 * decoding must stay within it. */
#ifndef RLX_TESTS_SUPPORT_TOKENIZER_USE_H
#define RLX_TESTS_SUPPORT_TOKENIZER_USE_H

#include <stdlib.h>

#include "model/tok.h"

static inline void use_tokenizer(const rlx_tokenizer *t, const uint8_t *data, size_t n)
{
    enum { CAP = 4096 };
    int32_t ids[CAP];
    char text[CAP];
    rlx_error err;
    rlx_text_stream *s;
    size_t length = n < 512 ? n : 512, piece;
    const char *tail = (const char *)data + (n - length);
    for (unsigned flags = 0; flags < 8; flags += 3) {
        rlx_token_list list = {ids, CAP, 0};
        rlx_text out = {text, CAP, 0};
        if (rlx_tokenizer_encode(t, tail, length, flags, &list, &err) != RLX_OK)
            return;
        size_t k = list.n < CAP ? list.n : CAP;
        for (size_t i = 0; i < k; i++)
            if (rlx_token_get_kind(t, ids[i]) == RLX_TOKEN_NONE)
                abort();
        if (rlx_tokenizer_decode(t, ids, k, flags & 1, &out, &err) != RLX_OK)
            abort();
        if (rlx_text_stream_create(t, flags & 1, &s, &err) != RLX_OK)
            return;
        for (size_t i = 0; i < k; i++)
            rlx_text_stream_push(s, ids[i], &piece);
        rlx_text_stream_finish(s, &piece);
        rlx_text_stream_destroy(s);
    }
}

#endif
