/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a GGUF file whose tokenizer is opened and used. Built by
 * ./run fuzz. */
#include "import/file.h"
#include "support/tokenizer_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_error err;
    rlx_file *f;
    rlx_tokenizer *t;
    if (rx_file_from_memory(data, n, "fuzz.gguf", &f, &err) != RLX_OK)
        return 0;
    if (rlx_tokenizer_open_file(f, &t, &err) == RLX_OK) {
        use_tokenizer(t, data, n);
        rlx_tokenizer_close(t);
    }
    rlx_file_close(f);
    return 0;
}
