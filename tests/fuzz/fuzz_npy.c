/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a NumPy file. What is read is written and read again: the same
 * tensor. */
#include <stdlib.h>
#include <string.h>

#include "rlx/rlx.h"
#include "support/temp_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_npy t, again;
    rlx_error err = {0};
    const char *path = temp_file(data, n);
    if (rlx_npy_load(path, &t, &err) != RLX_OK) {
        if (!err.text[0] || t.data)
            abort(); /* no failure without a sentence, nothing to free */
        return 0;
    }
    int64_t elements = 1;
    for (int i = 0; i < t.shape.rank; i++)
        elements = t.shape.dim[i] ? elements * (t.shape.dim[i] > 0) : 0;
    if (elements && rlx_npy_save(path, t.dtype, &t.shape, t.data, t.bytes, &err) == RLX_OK) {
        if (rlx_npy_load(path, &again, &err) != RLX_OK || again.dtype != t.dtype ||
            again.bytes != t.bytes || again.shape.rank != t.shape.rank ||
            memcmp(again.data, t.data, t.bytes) != 0)
            abort();
        rlx_free(again.data);
    }
    rlx_free(t.data);
    return 0;
}
