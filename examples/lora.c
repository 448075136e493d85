/* SPDX-License-Identifier: MIT */
/* Teaches a model what is in examples, by an adapter beside its weights, and asks it.
 *
 *   lora MODEL.gguf EXAMPLES.jsonl OUT.gguf PROMPT
 *
 * docs/training.md has the form of examples. */
#include <stdio.h>

#include <rlx/rlx.h>

#define STEPS 60

static rlx_status learn(rlx_model *model, const char *examples, const char *path, rlx_error *err)
{
    const rlx_optimizer_desc adamw = {RLX_INIT(rlx_optimizer_desc), .lr = 0.01, .clip_norm = 1,
                                      .schedule = RLX_SCHEDULE_COSINE, .warmup = 3,
                                      .steps = STEPS, .lr_end = 0.1};
    const rlx_trainer_desc d = {RLX_INIT(rlx_trainer_desc), .data = examples, .rank = 8,
                                .batch = 4, .optimizer = &adamw};
    rlx_trainer *t;
    rlx_status st = rlx_trainer_create(model, &d, &t, err);
    if (st != RLX_OK)
        return st;
    for (int step = 0; step < STEPS && st == RLX_OK; step++) {
        float loss;
        st = rlx_trainer_step(t, &loss, err);
        if (st == RLX_OK && (step % 20 == 0 || step == STEPS - 1))
            printf("step %2d: loss %.3f\n", step, loss);
    }
    if (st == RLX_OK)
        st = rlx_trainer_save(t, path, err);
    rlx_trainer_destroy(t);
    return st;
}

static int print_piece(void *user, const rlx_piece *p)
{
    (void)user;
    return fwrite(p->text, 1, p->length, stdout) != p->length;
}

/* The answer with an adapter, or without: NULL. */
static rlx_status ask(rlx_model *model, const char *adapter, const char *prompt, rlx_error *err)
{
    const rlx_generate_desc how = {RLX_INIT(rlx_generate_desc), .prompt = prompt, .max_tokens = 48};
    rlx_context *c = NULL;
    rlx_adapter *a = NULL;
    rlx_status st = rlx_context_create(model, &c, err);
    if (st == RLX_OK && adapter)
        st = rlx_adapter_open(model, adapter, &a, err);
    if (st == RLX_OK && a)
        st = rlx_context_set_adapters(c, &(rlx_adapter_use){a, 1}, 1, err);
    printf("%s the adapter: %s", adapter ? "with" : "without", prompt);
    if (st == RLX_OK)
        st = rlx_generate(c, &how, print_piece, NULL, NULL, err);
    printf("\n");
    rlx_context_destroy(c);
    rlx_adapter_close(a);
    return st;
}

int main(int argc, char **argv)
{
    rlx_error err = {0};
    rlx_model *model = NULL;
    if (argc < 5)
        return !printf("usage: lora MODEL.gguf EXAMPLES.jsonl OUT.gguf PROMPT\n");
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .context = 256};
    rlx_status st = rlx_model_open(argv[1], &d, &model, &err);
    if (st == RLX_OK)
        st = ask(model, NULL, argv[4], &err);
    if (st == RLX_OK)
        st = learn(model, argv[2], argv[3], &err);
    if (st == RLX_OK)
        st = ask(model, argv[3], argv[4], &err);
    if (st != RLX_OK)
        fprintf(stderr, "lora: %s\n", err.text);
    rlx_model_close(model);
    return st != RLX_OK;
}
