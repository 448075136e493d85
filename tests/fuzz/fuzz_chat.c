/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a saved chat, or (first byte odd) as the messages in one that is
 * right otherwise. A chat that is loaded saves and loads again with the same messages. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rlx/rlx.h"
#include "support/temp_file.h"
#include "support/tiny_model.h"

#define HEADER 72 /* of context_file.c: magic, then eight numbers */
#define MAX_BYTES 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static rlx_chat *chat, *other;
static blob empty; /* a good file without messages and tokens */

static void open_chats(void)
{
    static blob model;
    rlx_model *m;
    rlx_error err;
    rx_file f;
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = "ref", .threads = 1,
                              .context = 8};
    model = tiny_model(TINY_LLAMA, 1);
    const char *path = temp_file("", 0);
    if (rlx_model_open_memory(model.data, model.n, &d, &m, &err) != RLX_OK ||
        rlx_chat_create(m, NULL, &chat, &err) != RLX_OK ||
        rlx_chat_create(m, NULL, &other, &err) != RLX_OK ||
        rlx_chat_save(chat, path, &err) != RLX_OK || rx_file_open(path, &f, &err) != RLX_OK)
        abort();
    blob_add(&empty, f.data, f.bytes);
    rx_file_close(&f);
}

static void put_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

/* The good file with other messages; they are padded to a multiple of 8 bytes. */
static blob with_messages(const uint8_t *note, size_t n)
{
    blob b = {0};
    blob_add(&b, empty.data, HEADER);
    blob_add(&b, note, n);
    blob_align(&b, 8);
    blob_add(&b, empty.data + HEADER, empty.n - HEADER);
    put_u64(b.data + 24, n);
    put_u64(b.data + HEADER - 16, b.n - HEADER);
    put_u64(b.data + HEADER - 8, rx_hash(0, b.data + HEADER, b.n - HEADER));
    return b;
}

static void load_again(const char *path)
{
    rlx_message a, b;
    rlx_error err = {0};
    if (rlx_chat_save(chat, path, &err) != RLX_OK || rlx_chat_load(other, path, &err) != RLX_OK ||
        rlx_chat_n_messages(chat) != rlx_chat_n_messages(other))
        abort();
    for (size_t i = 0; rlx_chat_message(chat, i, &a); i++)
        if (!rlx_chat_message(other, i, &b) || strcmp(a.role, b.role) != 0 ||
            strcmp(a.content, b.content) != 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_error err = {0};
    if (n < 1 || n > MAX_BYTES)
        return 0;
    if (!chat)
        open_chats();
    blob b = {0};
    if (data[0] & 1)
        b = with_messages(data + 1, n - 1);
    else
        blob_add(&b, data + 1, n - 1);
    const char *path = temp_file(b.data, b.n);
    blob_free(&b);
    if (rlx_chat_load(chat, path, &err) == RLX_OK)
        load_again(path);
    else if (!err.text[0])
        abort();
    return 0;
}
