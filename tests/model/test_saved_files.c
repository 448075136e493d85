/* SPDX-License-Identifier: MIT */
/* Saved chats and contexts on the CPU: a fault at each system call of saving leaves the whole old
 * file or the whole new one, and a file of another kind stays. */
#include <sys/stat.h>

#include "rlx/rlx.h"
#include "support/file_faults.h"
#include "support/tiny_model.h"

typedef struct saves {
    rlx_model *model;
    rlx_chat *chats[2];
    rlx_context *contexts[2];
} saves;

static rlx_status save_chat(void *user, const char *path, int version, rlx_error *err)
{
    return rlx_chat_save(((saves *)user)->chats[version], path, err);
}

static rlx_status save_context(void *user, const char *path, int version, rlx_error *err)
{
    return rlx_context_save(((saves *)user)->contexts[version], 0, path, err);
}

/* Chats and contexts of different lengths. */
static void make_saves(saves *s, const blob *file)
{
    rlx_error err = {0};
    rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = "cpu", .threads = 1, .context = 128};
    rlx_generate_desc g = {RLX_INIT(rlx_generate_desc), .prompt = "Hello", .max_tokens = 6};
    CHECK_OK(rlx_model_open_memory(file->data, file->n, &d, &s->model, &err), &err);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rlx_chat_create(s->model, i ? "Be brief." : NULL, &s->chats[i], &err), &err);
        CHECK_OK(rlx_chat_say(s->chats[i], "Hi", &g, NULL, NULL, NULL, &err), &err);
        CHECK_OK(rlx_context_create(s->model, &s->contexts[i], &err), &err);
        CHECK_OK(rlx_generate(s->contexts[i], &g, NULL, NULL, NULL, &err), &err);
        g.max_tokens = 9;
    }
}

/* The model's own file, and a user's. */
static void test_other_kinds(const saves *s, const blob *file)
{
    rlx_error err = {0};
    const file_bytes model = {(char *)file->data, file->n};
    const char *path = "saved_files_model.tmp";
    CHECK(blob_write(file, path));
    CHECK_FAILS(rlx_chat_save(s->chats[0], path, &err), RLX_INVALID, &err,
                "expected a saved chat or context, found a GGUF file");
    CHECK_FAILS(rlx_context_save(s->contexts[0], 0, path, &err), RLX_INVALID, &err,
                "'saved_files_model.tmp' was not replaced");
    CHECK(file_equals(path, &model));
    unlink(path);
}

int main(void)
{
    saves s = {0};
    blob file = tiny_model(TINY_LLAMA, 1);
    make_saves(&s, &file);
    check_file_faults("chat", save_chat, &s);
    check_file_faults("context", save_context, &s);
    test_other_kinds(&s, &file);
    for (int i = 0; i < 2; i++) {
        rlx_chat_destroy(s.chats[i]);
        rlx_context_destroy(s.contexts[i]);
    }
    rlx_model_close(s.model);
    blob_free(&file);
    return check_done();
}
