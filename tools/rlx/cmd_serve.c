/* SPDX-License-Identifier: MIT */
/* rlx serve: models over HTTP, with the API that clients of OpenAI know. */
#include <stdlib.h>
#include <string.h>

#include "llm.h"
#include "serve/http.h"
#include "system.h"
#include "systemd.h"

#define DEFAULT_PORT 8080

typedef struct options {
    cli_common common;
    model_options model;
    cli_list lora;
    const char *host, *socket_path, *key, *cors;
    const char *draft;
    int64_t guesses;
    int64_t sequences, queue, memory, max_body, max_connections, max_tokens, timeout, max_seconds;
    cli_opt_number port, drain;
} options;

/* "smollm2" of "smollm2", "tiny" of "models/tiny.gguf" and "minilm" of "models/minilm/". */
static char *model_id(const char *model)
{
    size_t n = strlen(model);
    while (n > 1 && model[n - 1] == '/')
        n--;
    size_t at = n;
    while (at && model[at - 1] != '/')
        at--;
    char *id = cli_format("%.*s", (int)(n - at), model + at);
    char *dot = strrchr(id, '.');
    if (dot && dot > id && (!strcmp(dot, ".gguf") || !strcmp(dot, ".safetensors")))
        *dot = 0;
    return id;
}

static int check_options(const options *o)
{
    if (!rx_http_is_available())
        return cli_fail("this rlx was built without libmicrohttpd; install libmicrohttpd-dev and "
                        "build it again");
    if (o->common.json)
        return cli_usage("serve has no --json");
    if (!o->common.args.n && !o->model.model)
        return cli_usage("a model is needed: a file, or a name of 'rlx list'");
    if (o->key && !*o->key)
        return cli_usage("--api-key is empty");
    return EXIT_OK;
}

/* The models of the command line, with their paths. */
static int find_models(const options *o, rx_server_model *out, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < o->common.args.n + (o->model.model != NULL); i++) {
        const char *given = i < o->common.args.n ? o->common.args.v[i] : o->model.model;
        char *path = cli_model_path(given);
        if (!path)
            return EXIT_FAILED;
        out[(*n)++] = (rx_server_model){.id = model_id(given), .path = path};
        for (size_t k = 0; k + 1 < *n; k++)
            if (!strcmp(out[k].id, out[*n - 1].id))
                return cli_usage("two models have the name '%s'", out[k].id);
    }
    return EXIT_OK;
}

/* NAME=FILE[:X] of --lora: further names, of the first model. */
static int find_adapters(const options *o, rx_server_model *out, size_t *n)
{
    for (size_t i = 0; i < o->lora.n; i++) {
        const char *text = o->lora.v[i], *equals = strchr(text, '=');
        char *file;
        double scale;
        if (!equals || equals == text || !equals[1])
            return cli_usage("--lora expected NAME=FILE or NAME=FILE:X, got '%s'", text);
        llm_split_scale(equals + 1, &file, &scale);
        out[(*n)++] = (rx_server_model){cli_format("%.*s", (int)(equals - text), text), file, true,
                                        scale};
        for (size_t k = 0; k + 1 < *n; k++)
            if (!strcmp(out[k].id, out[*n - 1].id))
                return cli_usage("two models have the name '%s'", out[k].id);
    }
    return EXIT_OK;
}

static int run_until_stopped(const options *o, rx_server *s)
{
    char port[16];
    snprintf(port, sizeof port, "%lld",
             (long long)(o->port.given ? o->port.value : DEFAULT_PORT));
    const rx_http_desc d = {.host = o->host ? o->host : "127.0.0.1", .port = port,
                            .socket_path = o->socket_path, .fd = systemd_socket(),
                            .key = o->key, .cors = o->cors,
                            .max_body = o->max_body ? o->max_body : 4 << 20,
                            .max_connections = o->max_connections ? o->max_connections : 256,
                            .timeout = o->timeout ? o->timeout : 60};
    rx_http *h;
    rlx_error err = {0};
    cli_catch_signals();
    if (rx_http_start(&d, s, &h, &err) != RLX_OK)
        return cli_error(&err);
    printf("listening on %s\n", rx_http_address(h));
    fflush(stdout);
    systemd_notify("READY=1");
    while (!cli_caught_signal())
        usleep(50000);
    systemd_notify("STOPPING=1");
    rx_http_stop(h, o->drain.given ? o->drain.value : 30);
    return EXIT_OK;
}

static int run_serve(void *record)
{
    const options *o = record;
    rx_server_desc d = {.budget = (uint64_t)o->memory << 20, .sequences = o->sequences,
                        .queue = o->queue ? o->queue : 256, .max_seconds = o->max_seconds,
                        .max_tokens = o->max_tokens, .guesses = o->guesses};
    rx_server *s = NULL;
    rlx_error err = {0};
    int status = check_options(o);
    if (status != EXIT_OK)
        return status;
    rx_server_model *models = cli_alloc_array(o->common.args.n + o->lora.n + 1, sizeof *models);
    status = find_models(o, models, &d.n_models);
    if (status == EXIT_OK)
        status = find_adapters(o, models, &d.n_models);
    d.models = models;
    if (status == EXIT_OK)
        status = llm_desc(&o->common, &o->model, &d.model);
    char *draft = status == EXIT_OK && o->draft ? cli_model_path(o->draft) : NULL;
    d.draft = draft;
    if (status == EXIT_OK && o->draft && !draft)
        status = EXIT_FAILED;
    if (status == EXIT_OK && rx_server_create(&d, &s, &err) != RLX_OK)
        status = cli_error(&err);
    if (status == EXIT_OK)
        status = run_until_stopped(o, s);
    rx_server_destroy(s);
    for (size_t i = 0; i < d.n_models; i++) {
        free((char *)(uintptr_t)models[i].id);
        free((char *)(uintptr_t)models[i].path);
    }
    free(models);
    free(draft);
    return status;
}

static const cli_option serve_options[] = {
    {"host", CLI_TEXT, offsetof(options, host), "HOST",
     "address to listen on (default 127.0.0.1: only this machine)"},
    {"port", CLI_SET_NUMBER, offsetof(options, port), "PORT", "(default 8080; 0: a free one)"},
    {"unix", CLI_TEXT, offsetof(options, socket_path), "PATH",
     "listen on a Unix socket instead, for this user only"},
    {"api-key", CLI_TEXT, offsetof(options, key), "KEY", "that requests must have"},
    {"cors", CLI_TEXT, offsetof(options, cors), "ORIGIN",
     "let web pages of this origin ask ('*': of any)"},
    {"sequences", CLI_NUMBER, offsetof(options, sequences), "N",
     "texts that a model generates at once (default 32)"},
    {"draft", CLI_TEXT, offsetof(options, draft), "MODEL",
     "a smaller model with the same vocabulary that guesses tokens for the first model"},
    {"guesses", CLI_NUMBER, offsetof(options, guesses), "N",
     "tokens to guess, up to 15, where that is a gain: of the draft (default 4), or from what a"
     " text repeats (default 0)"},
    {"queue", CLI_NUMBER, offsetof(options, queue), "N",
     "texts that may wait for a model; more are refused (default 256)"},
    {"lora", CLI_LIST, offsetof(options, lora), "NAME=FILE[:X]",
     "a LoRA adapter of the first model, for requests that ask for model NAME; may be repeated"},
    {"memory", CLI_NUMBER, offsetof(options, memory), "MIB",
     "load models on demand, and close idle ones to stay within so much memory"},
    {"max-tokens", CLI_NUMBER, offsetof(options, max_tokens), "N",
     "the most that a request may generate (default: what the context holds)"},
    {"max-seconds", CLI_NUMBER, offsetof(options, max_seconds), "N",
     "the longest that a request may take (default: any time)"},
    {"max-body", CLI_NUMBER, offsetof(options, max_body), "BYTES",
     "of a request (default 4194304)"},
    {"max-connections", CLI_NUMBER, offsetof(options, max_connections), "N",
     "at the same time (default 256)"},
    {"timeout", CLI_NUMBER, offsetof(options, timeout), "SECONDS",
     "close connections on which nothing moves for so long (default 60)"},
    {"drain", CLI_SET_NUMBER, offsetof(options, drain), "SECONDS",
     "after SIGTERM, wait so long for requests to end (default 30)"},
    MODEL_OPTIONS(options, model),
    CONTEXT_OPTIONS(options, model),
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_serve = {
    .name = "serve",
    .args = "MODEL...",
    .summary = "answer requests over HTTP, as OpenAI's API does",
    .run = run_serve,
    .options = serve_options,
    .record_bytes = sizeof(options),
    .ignores = CLI_NO_JSON,
    .max_args = -1,
    .details =
        "Prints 'listening on http://HOST:PORT' when it is ready. Requests choose a model by its\n"
        "name: that of 'rlx list', or of the file without its ending; those that name none get\n"
        "the first. SIGTERM or Ctrl-C lets requests end and stops; a second one stops at once.\n"
        "A socket that systemd hands over is used instead of --host and --port.\n"
        "docs/serve.md lists the requests and what each field does.",
    .examples =
        "  rlx serve smollm2\n"
        "  rlx serve smollm2 minilm --port 0 --api-key secret\n"
        "  curl http://127.0.0.1:8080/v1/chat/completions \\\n"
        "       -H 'Content-Type: application/json' \\\n"
        "       -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'",
};
