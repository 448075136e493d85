/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a GGUF file. Built by ./run fuzz. */
#include "support/model_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_error err;
    open_bytes(data, n, "fuzz.gguf", &err);
    return 0;
}
