/* SPDX-License-Identifier: MIT */
/* Tiny random models as GGUF files in memory, with a byte-level tokenizer: tokens 0 to 255 are the
 * bytes, TINY_END ends a text. Fast enough to run thousands of tokens. */
#ifndef RLX_TESTS_SUPPORT_TINY_MODEL_H
#define RLX_TESTS_SUPPORT_TINY_MODEL_H

#include "support/model_file.h"

#define TINY_END 256
#define TINY_VOCABULARY 257
#define TINY_CONTEXT 64 /* what they were "trained" for */

typedef enum tiny_kind { TINY_LLAMA, TINY_MAMBA } tiny_kind;

/* The same seed gives the same bytes. Freed with blob_free. */
blob tiny_model(tiny_kind kind, uint64_t seed);

#endif
