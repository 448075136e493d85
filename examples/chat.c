/* SPDX-License-Identifier: MIT */
/* A chat program: chat MODEL.gguf [SYSTEM MESSAGE]. Each line is answered as the answer comes. */
#include <stdio.h>
#include <string.h>

#include <rlx/rlx.h>

static int print_piece(void *user, const rlx_piece *p)
{
    (void)user;
    fwrite(p->text, 1, p->length, stdout);
    return fflush(stdout);
}

int main(int argc, char **argv)
{
    rlx_error err = {0};
    rlx_model *model = NULL;
    rlx_chat *chat = NULL;
    char line[4096];
    if (argc < 2)
        return !printf("usage: chat MODEL.gguf [SYSTEM MESSAGE]\n");
    rlx_status st = rlx_model_open(argv[1], NULL, &model, &err);
    if (st == RLX_OK)
        st = rlx_chat_create(model, argc > 2 ? argv[2] : NULL, &chat, &err);
    const rlx_sampling_desc lively = {RLX_INIT(rlx_sampling_desc), .temperature = 0.7,
                                      .top_p = 0.9};
    const rlx_generate_desc how = {RLX_INIT(rlx_generate_desc), .sampling = &lively};
    while (st == RLX_OK && printf("> ") && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        st = rlx_chat_say(chat, line, &how, print_piece, NULL, NULL, &err);
        printf("\n");
    }
    if (st != RLX_OK)
        fprintf(stderr, "chat: %s\n", err.text);
    rlx_chat_destroy(chat);
    rlx_model_close(model);
    return st != RLX_OK;
}
