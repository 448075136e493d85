/* SPDX-License-Identifier: MIT */
/* Tiny random models as GGUF files in memory, fast enough to run thousands of tokens. The decoders
 * have a byte-level tokenizer: tokens 0 to 255 are the bytes, TINY_END ends a text. The encoder's
 * tokens are letters: "abc" has the tokens [CLS] a b c [SEP]. */
#ifndef RLX_TESTS_SUPPORT_TINY_MODEL_H
#define RLX_TESTS_SUPPORT_TINY_MODEL_H

#include "support/model_file.h"

#define TINY_END 256
#define TINY_VOCABULARY 257
#define TINY_WIDTH 32
#define TINY_CONTEXT 64 /* what they were "trained" for */

typedef enum tiny_kind { TINY_LLAMA, TINY_MAMBA, TINY_BERT } tiny_kind;

/* The same seed gives the same bytes. Freed with blob_free. */
blob tiny_model(tiny_kind kind, uint64_t seed);

#endif
