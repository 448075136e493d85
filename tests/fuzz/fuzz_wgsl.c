/* SPDX-License-Identifier: MIT */
/* libFuzzer: any words as a module for the WGSL printer; the generator's number, which nobody
 * reads, chooses the options. */
#include <string.h>

#include "base/mem.h"
#include "spirv/wgsl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t n = size / sizeof(uint32_t);
    uint32_t *words = rx_alloc(n * sizeof *words + 1);
    if (!words)
        return 0;
    memcpy(words, data, n * sizeof *words);
    const uint32_t choice = n > 2 ? words[2] : 0;
    const uint32_t spec[4] = {64, choice >> 8 & 7, choice >> 11 & 7, 1};
    rx_wgsl_options o = {.name = "fuzzed", .spec = spec, .n_spec = choice & 4,
                         .f16 = choice >> 3 & 1,
                         .subgroups = (rx_wgsl_subgroups)(choice >> 4 & 1 ? 2 : 0),
                         .shifted = choice >> 5 & 3,
                         .unroll_bytes = choice >> 14 & 1 ? 4096 : 0};
    o.alias[1] = choice >> 7 & 1;
    rx_wgsl_text t;
    rlx_error err;
    if (rx_wgsl_print(words, n, &o, &t, &err) == RLX_OK)
        rx_wgsl_text_finish(&t);
    rx_free(words);
    return 0;
}
