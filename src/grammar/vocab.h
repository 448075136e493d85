/* SPDX-License-Identifier: MIT */
/* The tokens of a vocabulary as tries over their bytes, in preorder. */
#ifndef RX_GRAMMAR_VOCAB_H
#define RX_GRAMMAR_VOCAB_H

#include "rlx/grammar.h"

typedef struct rx_vocab_node {
    int32_t token;   /* that ends here, or -1; others of the same bytes by `same` */
    uint32_t end;    /* after the nodes below this one */
    uint16_t depth;  /* 1 for the first byte */
    uint8_t byte;
} rx_vocab_node;

typedef struct rx_vocab_trie {
    rx_vocab_node *nodes;
    size_t n;
} rx_vocab_trie;

/* Tokens of at most this many code points, none of them a quote, a backslash or a control
 * character, are plain: where any plain text may follow, they need no walk. */
#define RX_PLAIN_LENGTH 16

struct rlx_vocabulary {
    const rlx_tokenizer *tokenizer;
    size_t n_tokens, n_words;
    char *bytes;         /* of all tokens */
    uint32_t *offsets;   /* [n_tokens + 1] */
    int32_t *same;       /* [n_tokens]: the next token of the same bytes, or -1 */
    rx_vocab_trie all, rest; /* rest: without the plain ones */
    uint32_t *plain;     /* masks of the plain tokens of at most 0, 1, ... RX_PLAIN_LENGTH code
                          * points: [RX_PLAIN_LENGTH + 1, n_words] */
    uint32_t *ends;      /* mask of the end tokens */
    size_t longest;      /* token, in bytes */
};

#endif
