/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a saved sequence of a small model; one that is restored goes on.
 * The first byte says how much of the file is made right before: the model and cache it is of, and
 * the size and hash of what follows. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rlx/rlx.h"
#include "support/temp_file.h"
#include "support/tiny_model.h"

#define HEADER 72 /* of context_file.c: magic, then eight numbers */
#define MAX_BYTES 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static rlx_context *context;
static unsigned char header[HEADER]; /* of a good file */

static void open_context(void)
{
    static blob model;
    rlx_model *m;
    rlx_error err;
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = "ref", .threads = 1,
                              .context = 8};
    model = tiny_model(TINY_LLAMA, 1);
    const char *path = temp_file("", 0);
    rx_file f;
    if (rlx_model_open_memory(model.data, model.n, &d, &m, &err) != RLX_OK ||
        rlx_context_create(m, &context, &err) != RLX_OK ||
        rlx_context_save(context, 0, path, &err) != RLX_OK ||
        rx_file_open(path, &f, &err) != RLX_OK || f.bytes < HEADER)
        abort();
    memcpy(header, f.data, HEADER);
    rx_file_close(&f);
}

static void put_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

/* Both are the last numbers of the header. */
static void seal(unsigned char *file, size_t n)
{
    put_u64(file + HEADER - 16, n - HEADER);
    put_u64(file + HEADER - 8, rx_hash(0, file + HEADER, n - HEADER));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static unsigned char file[MAX_BYTES];
    rlx_error err = {0};
    int32_t token;
    size_t n_tokens;
    if (n < 1 || n > MAX_BYTES)
        return 0;
    if (!context)
        open_context();
    const int how = data[0] % 3;
    memcpy(file, data + 1, --n);
    if (how > 0 && n >= HEADER)
        memcpy(file, header, 24);
    if (how > 1 && n >= HEADER)
        seal(file, n);
    if (rlx_context_load(context, 0, temp_file(file, n), &err) != RLX_OK) {
        if (!err.text[0])
            abort();
        return 0;
    }
    const int32_t *tokens = rlx_context_tokens(context, 0, &n_tokens);
    for (size_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || tokens[i] >= TINY_VOCABULARY)
            abort();
    if (rlx_context_computed(context, 0) > n_tokens)
        abort();
    rlx_context_step(context, -1, &token, &err);
    return 0;
}
