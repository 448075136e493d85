/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as an ONNX model, whose graph is built. */
#include <stdlib.h>

#include "support/onnx_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_error err = {0};
    if (onnx_build_bytes(data, n, &err) != RLX_OK && !err.text[0])
        abort(); /* no failure without a sentence */
    return 0;
}
