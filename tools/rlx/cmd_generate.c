/* SPDX-License-Identifier: MIT */
/* rlx generate: text from a prompt. The text goes to standard output as it comes, all else to
 * standard error. */
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "llm.h"
#include "request.h"
#include "system.h"
#include "term.h"

#define DEFAULT_MAX_TOKENS 128

typedef struct options {
    cli_common common;
    model_options model;
    sampling_options sampling;
    grammar_options grammar;
    request_options request;
    const char *prompt, *prompt_file, *system, *logits;
    cli_list lora;
    int64_t beams;
    bool chat, plain, ignore_end, shift, prompt_only, stats, profile;
} options;

/* What was generated. */
typedef struct output {
    int32_t *tokens;
    size_t n_tokens;
    char *text;
    size_t length;
    double load_seconds;
    rlx_generate_result result;
    double mean_log_prob;   /* of --beams */
    request_output request; /* tokens with their log-probabilities */
    bool print;             /* pieces, as they come */
} output;

/* ---- Prompts --------------------------------------------------------------------------------- */

/* The prompt as the model shall see it, freed with free; NULL after printing why not. */
static char *make_prompt(const options *o, const rlx_model *m)
{
    char *given = o->prompt_file ? input_read_text(o->prompt_file) : cli_format("%s", o->prompt);
    if (!given || !o->chat)
        return given;
    rlx_message messages[2];
    size_t n = 0;
    rlx_error err = {0};
    char *formatted, *prompt = NULL;
    if (o->system)
        messages[n++] = (rlx_message){"system", o->system};
    messages[n++] = (rlx_message){"user", given};
    if (rlx_chat_format(m, messages, n, true, &formatted, &err) == RLX_OK) {
        prompt = cli_format("%s", formatted);
        rlx_free(formatted);
    } else {
        cli_error(&err);
    }
    free(given);
    return prompt;
}

/* ---- Generation ------------------------------------------------------------------------------ */

static int take_piece(void *user, const rlx_piece *p)
{
    output *out = user;
    if (p->token >= 0) {
        out->tokens = cli_realloc_array(out->tokens, out->n_tokens + 1, sizeof *out->tokens);
        out->tokens[out->n_tokens++] = p->token;
    }
    out->text = cli_realloc(out->text, out->length + p->length + 1);
    memcpy(out->text + out->length, p->text, p->length);
    out->length += p->length;
    out->text[out->length] = 0;
    if (out->print && p->length) {
        term_write(stdout, p->text, p->length);
        fflush(stdout);
    }
    return 0;
}

/* The logits of the last position of the prompt, f32 [vocabulary]. */
static rlx_status write_logits(rlx_context *c, const rlx_model *m, const char *path, rlx_error *err)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_model_get_info(m, &info, NULL);
    size_t n = (size_t)info.vocabulary;
    float *logits = cli_alloc_array(n, sizeof *logits);
    const rlx_shape shape = {1, {info.vocabulary}};
    rlx_status st = rlx_context_logits(c, 0, logits, n, err);
    if (st == RLX_OK)
        st = rlx_npy_save(path, RLX_F32, &shape, logits, n * sizeof *logits, err);
    free(logits);
    return st;
}

static rlx_status generate(const options *o, const rlx_model *m, rlx_context *c,
                           const rlx_generate_desc *d, output *out, rlx_error *err)
{
    rlx_generation *g;
    rlx_piece piece;
    bool more = true;
    rlx_status st = rlx_generation_create(c, d, &g, err);
    if (st != RLX_OK)
        return st;
    for (size_t i = 0; more && st == RLX_OK; i++) {
        st = rlx_generation_next(g, -1, &piece, &more, err);
        if (st == RLX_OK && i == 0 && o->logits)
            st = write_logits(c, m, o->logits, err);
        if (st == RLX_OK && more)
            take_piece(out, &piece);
    }
    rlx_generation_get_result(g, &out->result, NULL);
    rlx_generation_destroy(g);
    return st;
}

/* The tokens of the best beam, whose end is no piece. */
static rlx_status take_beam(rlx_model *m, const rlx_generate_desc *d, const int32_t *tokens,
                            size_t n, output *out, rlx_error *err)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m);
    rlx_text_stream *s;
    const bool ended = n && !d->ignore_end && rlx_tokenizer_is_end(t, tokens[n - 1]);
    size_t length;
    rlx_status st = rlx_text_stream_create(t, RLX_DECODE_SKIP_SPECIAL, &s, err);
    if (st != RLX_OK)
        return st;
    out->result.n_generated = n - ended;
    out->result.finish = ended ? RLX_FINISH_END
                         : (int64_t)n == d->max_tokens ? RLX_FINISH_LENGTH : RLX_FINISH_CONTEXT;
    for (size_t i = 0; i < n - ended; i++) {
        const char *text = rlx_text_stream_push(s, tokens[i], &length);
        take_piece(out, &(rlx_piece){tokens[i], text, length});
    }
    const char *rest = rlx_text_stream_finish(s, &length);
    take_piece(out, &(rlx_piece){-1, rest, length});
    rlx_text_stream_destroy(s);
    return RLX_OK;
}

/* --beams: the text comes at the end. */
static rlx_status search_beams(rlx_model *m, rlx_context *c, const rlx_generate_desc *d,
                               output *out, rlx_error *err)
{
    rlx_generate_desc prompt = *d;
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    size_t n = 0;
    prompt.prompt_only = true;
    rlx_status st = rlx_generate(c, &prompt, NULL, NULL, &out->result, err);
    if (st != RLX_OK)
        return st;
    rlx_model_get_info(m, &info, NULL);
    const double begin = cli_now();
    rlx_beam_desc b = {RLX_INIT(rlx_beam_desc), .max_tokens = d->max_tokens,
                       .ignore_end = d->ignore_end};
    const int32_t *held = rlx_context_tokens(c, 0, &b.n_tokens);
    int32_t *tokens = cli_alloc_array(b.n_tokens + (size_t)info.context, sizeof *tokens);
    memcpy(tokens, held, b.n_tokens * sizeof *tokens);
    b.tokens = tokens;
    int32_t *found = tokens + b.n_tokens;
    st = rlx_beam_search(c, &b, found, (size_t)info.context, &n, &out->mean_log_prob, err);
    out->result.seconds = cli_now() - begin;
    if (st == RLX_OK)
        st = take_beam(m, d, found, n, out, err);
    free(tokens);
    return st;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void print_json(const options *o, const rlx_model *m, const rlx_generate_desc *d,
                       const output *out)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_device_info device = {RLX_INIT(rlx_device_info)};
    json j = {.f = stdout};
    rlx_model_get_info(m, &info, NULL);
    rlx_device_get_info(rlx_model_device(m), &device, NULL);
    json_object(&j, NULL);
    json_list(&j, "tokens");
    for (size_t i = 0; i < out->n_tokens; i++)
        json_int(&j, NULL, out->tokens[i]);
    json_end(&j);
    json_text(&j, "text", out->text ? out->text : "");
    json_text(&j, "finish", llm_finish_name(out->result.finish));
    json_int(&j, "prompt_tokens", (int64_t)out->result.n_prompt);
    json_real(&j, "prompt_tokens_per_s", llm_prompt_rate(&out->result));
    json_real(&j, "tokens_per_s", llm_rate(&out->result));
    json_real(&j, "load_seconds", out->load_seconds);
    json_real(&j, "first_token_seconds", out->result.prompt_seconds);
    json_int(&j, "seed", (int64_t)d->sampling->seed);
    json_text(&j, "device", device.id);
    json_text(&j, "policy", info.policy == RLX_POLICY_FAST ? "fast" : "exact");
    json_int(&j, "context", info.context);
    json_int(&j, "weight_bytes", (int64_t)info.weight_bytes);
    json_int(&j, "cache_bytes", (int64_t)info.cache_bytes);
    json_int(&j, "work_bytes", (int64_t)info.work_bytes);
    json_int(&j, "host_layers", info.host_layers);
    json_int(&j, "host_weight_bytes", (int64_t)info.host_weight_bytes);
    json_int(&j, "host_cache_bytes", (int64_t)info.host_cache_bytes);
    if (o->beams)
        json_real(&j, "mean_log_prob", out->mean_log_prob);
    if (o->logits)
        json_text(&j, "logits", o->logits);
    if (o->request.log_probs.given)
        request_json(m, &out->request, &j);
    json_end(&j);
}

static int show_results(const options *o, const rlx_model *m, rlx_context *c,
                        const rlx_generate_desc *d, const output *out)
{
    if (o->common.json)
        print_json(o, m, d, out);
    else if (o->request.log_probs.given)
        request_print(m, &out->request);
    else if (out->length && out->text[out->length - 1] != '\n')
        putchar('\n');
    fflush(stdout);
    if (o->stats) {
        llm_print_model(m);
        fprintf(stderr, "%sloaded in %.3f s, first token after %.3f s%s\n",
                term_style(stderr, TERM_DIM), out->load_seconds,
                out->load_seconds + out->result.prompt_seconds, term_style(stderr, TERM_PLAIN));
    }
    if (o->stats || isatty(STDERR_FILENO))
        llm_print_rates(&out->result);
    if (out->result.finish == RLX_FINISH_LENGTH && !o->sampling.max_tokens.given)
        cli_warn("cut at %d tokens: --max-tokens N, 0 for no limit", DEFAULT_MAX_TOKENS);
    if (out->result.finish == RLX_FINISH_CONTEXT)
        cli_warn("the context is full; --ctx gives it more room, --shift goes on without the "
                 "beginning");
    return o->profile ? llm_print_profile(rlx_context_session(c)) : EXIT_OK;
}

static int run_model(const options *o, rlx_model *m, rlx_generate_desc *d, double load_seconds)
{
    rlx_error err = {0};
    rlx_context *c = NULL;
    output out = {.load_seconds = load_seconds, .result = {RLX_INIT(rlx_generate_result)},
                  .print = !o->common.json && !o->request.log_probs.given};
    char *prompt = make_prompt(o, m);
    if (!prompt)
        return EXIT_FAILED;
    d->prompt = prompt;
    llm_lora lora = {0};
    int status;
    if (request_needed(&o->request)) {
        status = request_run(&o->request, m, d, take_piece, &out, &out.result, &out.request);
    } else {
        rlx_status st = rlx_context_create(m, &c, &err);
        status = st == RLX_OK ? llm_open_lora(&o->lora, m, c, &lora) : cli_error(&err);
        if (status == EXIT_OK && (st = o->beams ? search_beams(m, c, d, &out, &err)
                                                : generate(o, m, c, d, &out, &err)) != RLX_OK)
            status = cli_error(&err);
    }
    if (status == EXIT_OK)
        status = show_results(o, m, c, d, &out);
    rlx_context_destroy(c);
    llm_close_lora(&lora);
    request_free(&out.request);
    free(out.tokens);
    free(out.text);
    free(prompt);
    return status;
}

static int run_generate(void *record)
{
    options *o = record;
    rlx_sampling_desc sampling = {RLX_INIT(rlx_sampling_desc)};
    rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .plain = o->plain,
                           .ignore_end = o->ignore_end, .shift = o->shift,
                           .prompt_only = o->prompt_only};
    rlx_model *m;
    double seconds = 0;
    o->model.model = llm_model(&o->common, &o->model);
    if (!o->prompt && !o->prompt_file)
        o->prompt = cli_shift(&o->common);
    if (o->common.args.n)
        return cli_usage("unexpected argument '%s'", o->common.args.v[0]);
    if (!o->prompt == !o->prompt_file)
        return cli_usage("one of --prompt TEXT and --prompt-file FILE is needed");
    if (o->system && !o->chat)
        return cli_usage("--system goes with --chat");
    if (request_needed(&o->request) && (o->logits || o->profile || o->shift ||
                                        o->prompt_only || o->lora.n))
        return cli_usage("--logits, --profile, --shift, --prompt-only and --lora do not go with "
                         "--presence-penalty, --frequency-penalty, --logit-bias and --logprobs");
    if (o->beams && (o->logits || o->shift || o->prompt_only || o->sampling.stop.n ||
                     o->sampling.temperature || request_needed(&o->request) ||
                     o->grammar.schema || o->grammar.grammar || o->grammar.regex))
        return cli_usage("--beams takes the likeliest text: --temperature, --stop, grammars, "
                         "penalties, --logits, --shift and --prompt-only do not go with it");
    o->model.sequences = o->beams;
    int status = llm_sampling(&o->sampling, &sampling, &d);
    if (status == EXIT_OK)
        status = llm_grammar(&o->grammar, &d.grammar);
    if (status == EXIT_OK)
        status = llm_open(&o->common, &o->model, &m, &seconds);
    if (status == EXIT_OK) {
        if (!o->sampling.max_tokens.given)
            d.max_tokens = DEFAULT_MAX_TOKENS;
        status = run_model(o, m, &d, seconds);
        rlx_model_close(m);
    }
    rlx_grammar_destroy(d.grammar);
    return status;
}

static const cli_option generate_options[] = {
    MODEL_OPTIONS(options, model),
    {"prompt", CLI_TEXT, offsetof(options, prompt), "TEXT", "what the text begins with"},
    {"prompt-file", CLI_TEXT, offsetof(options, prompt_file), "FILE",
     "the same from a file ('-': standard input)"},
    {"chat", CLI_FLAG, offsetof(options, chat), NULL,
     "the prompt is a question: put it into the chat form of the model"},
    {"system", CLI_TEXT, offsetof(options, system), "TEXT", "instructions before the question"},
    {"plain", CLI_FLAG, offsetof(options, plain), NULL,
     "special tokens written in the prompt are plain text"},
    SAMPLING_OPTIONS(options, sampling),
    REQUEST_OPTIONS(options, request),
    {"beams", CLI_NUMBER, offsetof(options, beams), "N",
     "follow the N likeliest texts side by side and print the best (at most 64)"},
    GRAMMAR_OPTIONS(options, grammar),
    {"ignore-end", CLI_FLAG, offsetof(options, ignore_end), NULL,
     "go on when the model says it is done"},
    {"shift", CLI_FLAG, offsetof(options, shift), NULL,
     "go on when the context is full, without its older half"},
    {"prompt-only", CLI_FLAG, offsetof(options, prompt_only), NULL,
     "compute the prompt and generate nothing"},
    CONTEXT_OPTIONS(options, model),
    LORA_OPTION(options, lora),
    {"logits", CLI_TEXT, offsetof(options, logits), "FILE.npy",
     "store the logits of the last prompt position, f32 [vocabulary]"},
    {"stats", CLI_FLAG, offsetof(options, stats), NULL, "print memory and times to standard error"},
    {"profile", CLI_FLAG, offsetof(options, profile), NULL,
     "print where the time of one token goes"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_generate = {
    .name = "generate",
    .args = "[MODEL] [PROMPT]",
    .summary = "generate text with a language model",
    .run = run_generate,
    .options = generate_options,
    .record_bytes = sizeof(options),
    .max_args = 2,
    .details =
        "Continues the prompt and prints the text as it comes; --chat answers it. Without\n"
        "--temperature the most likely token is taken each time, so the text is always the same;\n"
        "0.7 with --top-p 0.9 or --min-p 0.05 is a good start for something livelier. Stops after\n"
        "128 tokens unless --max-tokens says otherwise. With --json-schema, --grammar or --regex\n"
        "only tokens are taken that lead to such a text, and the text ends where it is complete.",
    .examples =
        "  rlx generate smollm2 \"Once upon a time\"\n"
        "  rlx generate smollm2 --chat --prompt \"Name three rivers.\" --max-tokens 60\n"
        "  rlx generate -m smol.gguf --prompt-file q.txt --temperature 0.7 --top-p 0.9\n"
        "  rlx generate -m smol.gguf --prompt \"1, 2, 3,\" --stop 10 --device vulkan --json\n"
        "  rlx generate -m smol.gguf --prompt \"A person: \" --json-schema person.json\n"
        "  rlx generate -m smol.gguf --prompt \"Once\" --max-tokens 5 --logprobs 3\n"
        "  rlx generate -m smol.gguf --prompt Hello --policy exact --logits last.npy",
};
