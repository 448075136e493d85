/* SPDX-License-Identifier: MIT */
/* rlx bench --model FILE: prefill and decode speed of a language model, in tokens a second. The
 * tokens are arbitrary: speed does not depend on them. */
#include <stdlib.h>

#include "bench.h"
#include "json.h"
#include "llm.h"
#include "term.h"

#define ROUNDS 3

typedef struct file_run {
    rlx_model *m;
    rlx_context *c;
    int32_t *tokens;
    double load, first, prompt, decode; /* seconds: best of the rounds, decode a token */
} file_run;

static void fill_tokens(file_run *r, const bench_file_options *o)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_model_get_info(r->m, &info, NULL);
    for (int64_t i = 0; i < o->prompt; i++)
        r->tokens[i] = (int32_t)((i * 37 + 3) % (info.vocabulary < 997 ? info.vocabulary : 997));
}

/* One prompt into an empty context, whose last position gives a token, and the tokens after it. */
static rlx_status run_round(file_run *r, const bench_file_options *o, int round, rlx_error *err)
{
    rlx_generate_result result = {RLX_INIT(rlx_generate_result)};
    r->tokens[0] = 1 + round; /* so that nothing is kept from the round before */
    const rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .tokens = r->tokens,
                                 .n_tokens = (size_t)o->prompt, .max_tokens = o->tokens + 1,
                                 .ignore_end = true};
    rlx_status st = rlx_generate(r->c, &d, NULL, NULL, &result, err);
    double prompt = result.prompt_seconds;
    double decode = result.seconds / (double)(o->tokens ? o->tokens : 1);
    if (round == 0)
        r->first = prompt;
    if (round > 0 && (r->prompt == 0 || prompt < r->prompt))
        r->prompt = prompt;
    if (round > 0 && (r->decode == 0 || decode < r->decode))
        r->decode = decode;
    return st;
}

static void print_run(const file_run *r, const bench_file_options *o)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_device_info device = {RLX_INIT(rlx_device_info)};
    rlx_model_get_info(r->m, &info, NULL);
    rlx_device_get_info(rlx_model_device(r->m), &device, NULL);
    double prompt = (double)o->prompt / r->prompt, decode = r->decode > 0 ? 1 / r->decode : 0;
    const char *policy = info.policy == RLX_POLICY_FAST ? "fast" : "exact";
    if (o->json) {
        json j = {.f = stdout};
        json_object(&j, NULL);
        json_text(&j, "model", info.name);
        json_text(&j, "architecture", info.architecture);
        json_text(&j, "device", device.name);
        json_text(&j, "policy", policy);
        json_int(&j, "prompt_tokens", o->prompt);
        json_real(&j, "prompt_tokens_per_s", prompt);
        json_int(&j, "tokens", o->tokens);
        json_real(&j, "tokens_per_s", decode);
        json_real(&j, "load_s", r->load);
        json_real(&j, "first_prompt_s", r->first);
        json_int(&j, "weight_bytes", (int64_t)info.weight_bytes);
        json_int(&j, "layers", info.layers);
        json_int(&j, "host_layers", info.host_layers);
        json_end(&j);
        return;
    }
    term_line(stdout, "%s (%s) on %s, policy %s", info.name ? info.name : "model",
              info.architecture, device.name, policy);
    llm_print_layers(stdout, r->m);
    printf("  load             %8.2f s\n", r->load);
    printf("  first prompt     %8.3f s (with what is made once)\n", r->first);
    printf("  prompt %9lld %8.1f tokens/s\n", (long long)o->prompt, prompt);
    printf("  decode %9lld %8.1f tokens/s\n", (long long)o->tokens, decode);
}

int bench_file(const bench_file_options *o)
{
    rlx_error err = {0};
    file_run r = {.tokens = cli_alloc_array(o->prompt, sizeof *r.tokens)};
    rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = o->device, .threads = o->threads,
                        .context = o->prompt + o->tokens + 1, .gpu_layers = o->gpu_layers,
                        .policy = o->policy};
    double begin = cli_now();
    cli_progress("loading %s", o->path);
    rlx_status st = rlx_model_open(o->path, &d, &r.m, &err);
    if (st == RLX_OK)
        st = rlx_context_create(r.m, &r.c, &err);
    if (st == RLX_OK)
        fill_tokens(&r, o);
    r.load = cli_now() - begin;
    for (int i = 0; i <= ROUNDS && st == RLX_OK; i++) {
        cli_progress("round %d of %d", i, ROUNDS);
        st = run_round(&r, o, i, &err);
    }
    cli_progress_clear();
    if (st == RLX_OK)
        print_run(&r, o);
    rlx_context_destroy(r.c);
    rlx_model_close(r.m);
    free(r.tokens);
    return st == RLX_OK ? EXIT_OK : cli_fail("'%s': %s", o->path, err.text);
}
