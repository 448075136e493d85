/* SPDX-License-Identifier: MIT */
/* rlx: the command line. Finds the command in the table and runs it. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "system.h"
#include "term.h"

static int run_help(void *record);
static int run_version(void *record);

static const cli_command cmd_help = {
    .name = "help",
    .args = "[COMMAND]",
    .summary = "show the commands, or the help of one",
    .run = run_help,
    .record_bytes = sizeof(cli_common),
    .ignores = CLI_NO_COMPUTE | CLI_NO_JSON,
    .max_args = 1,
    .examples = "  rlx help bench    what 'rlx bench' can do",
};
static const cli_command cmd_version = {
    .name = "version",
    .args = "",
    .summary = "print the version",
    .run = run_version,
    .record_bytes = sizeof(cli_common),
    .ignores = CLI_NO_COMPUTE,
};

/* In the order of the overview, where a heading begins each group. */
static const cli_command *const commands[] = {
    &cmd_generate, &cmd_chat,     &cmd_embed,   &cmd_rerank,     &cmd_serve,    &cmd_pull,
    &cmd_list,     &cmd_rm,       &cmd_inspect, &cmd_convert,    &cmd_quantize,
    &cmd_imatrix,  &cmd_tokenize, &cmd_perplexity, &cmd_train,   &cmd_run,     &cmd_verify,
    &cmd_explain,  &cmd_compile,  &cmd_bench,   &cmd_tune,       &cmd_kernels,  &cmd_ops,
    &cmd_devices,  &cmd_doctor,   &cmd_completion, &cmd_help,    &cmd_version,
};
static const struct {
    const cli_command *first;
    const char *heading;
} groups[] = {
    {&cmd_generate, "Use a model"},
    {&cmd_pull, "Model files"},
    {&cmd_run, "Graphs (.onnx, .rlx)"},
    {&cmd_devices, "This machine"},
};

const cli_command *const *cli_commands(size_t *n)
{
    *n = ARRAY_LEN(commands);
    return commands;
}

static void print_overview(FILE *f)
{
    fprintf(f, "rlx %s: runs language models and neural-network graphs on any GPU or the CPU\n\n"
               "usage: rlx COMMAND [OPTION]... [ARGUMENT]...\n", rlx_version());
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        for (size_t k = 0; k < ARRAY_LEN(groups); k++)
            if (groups[k].first == commands[i])
                fprintf(f, "\n%s\n", groups[k].heading);
        fprintf(f, "  %s%-10s%s %s\n", term_style(f, TERM_BOLD), commands[i]->name,
                term_style(f, TERM_PLAIN), commands[i]->summary);
    }
    fputs("\n  rlx pull smollm2                      fetch a small model, once\n"
          "  rlx chat smollm2                      talk to it\n"
          "  rlx generate -m model.gguf -p \"Once\"  go on with a text\n"
          "\nAll commands take --help, which has examples; those that compute take --device\n"
          "and -t, those that print results --json. Exit: 0 success, 1 failure, 2 usage.\n", f);
}

/* What users of other tools type. */
static const struct {
    const char *word, *command;
} elsewhere[] = {
    {"show", "inspect"},    {"info", "inspect"},  {"ls", "list"},           {"models", "list"},
    {"remove", "rm"},       {"delete", "rm"},     {"download", "pull"},     {"get", "pull"},
    {"complete", "generate"}, {"server", "serve"}, {"embedding", "embed"}, {"finetune", "train"},
};

static const char *nearest_command(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
        if (!strcmp(elsewhere[i].word, word))
            return elsewhere[i].command;
    const char *names[ARRAY_LEN(commands)];
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        names[i] = commands[i]->name;
    return cli_nearest(word, names, ARRAY_LEN(names));
}

/* What stands in the place of the command is an option, a model, a file or a word like a name. */
static void tell_unknown(const char *word)
{
    static const char *const options[] = {"help", "version"};
    const char *near = NULL;
    cli_set_command(NULL);
    if (word[0] == '-') {
        if (word[1] == '-')
            near = cli_nearest(word + 2, options, ARRAY_LEN(options));
        if (near)
            cli_usage("unknown option '%s'; did you mean '--%s'?", word, near);
        else
            cli_usage("a command comes before its options, as in 'rlx generate %s ...'", word);
    } else if (cli_is_model(word)) {
        cli_usage("'%s' is no command; a command comes first, as in 'rlx inspect %s'", word, word);
    } else if ((near = nearest_command(word))) {
        cli_usage("unknown command '%s'; did you mean '%s'?", word, near);
    } else {
        cli_usage("unknown command '%s'", word);
    }
}

static const cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    tell_unknown(name);
    return NULL;
}

static int run_help(void *record)
{
    const cli_common *c = record;
    if (!c->args.n) {
        print_overview(stdout);
        return EXIT_OK;
    }
    const cli_command *command = find_command(c->args.v[0]);
    if (!command)
        return EXIT_USAGE;
    cli_print_help(command);
    return EXIT_OK;
}

static int run_version(void *record)
{
    if (((const cli_common *)record)->json)
        printf("{\"version\": \"%s\"}\n", rlx_version());
    else
        printf("rlx %s\n", rlx_version());
    return EXIT_OK;
}

/* ---- The log of the library ------------------------------------------------------------------ */

static void print_log(void *user, rlx_log_level level, const char *text)
{
    static const char *const names[] = {"off", "error", "warn", "info", "debug", "trace"};
    (void)user;
    cli_progress_clear();
    fprintf(stderr, "rlx %s: %s\n", names[level], text);
}

/* Whether a variable is set whose purpose is to log. */
static bool wants_log(void)
{
    static const char *const names[] = {"RLX_SCHEDULE", "RLX_DISPATCH_REPORT", "RLX_DUMP_NODES",
                                        "RLX_VULKAN_ARENA_DEBUG"};
    static const char *const off[] = {"", "0", "no", "off", "false"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = getenv(names[i]);
        size_t k = 0;
        while (text && k < ARRAY_LEN(off) && strcmp(text, off[k]))
            k++;
        if (text && k == ARRAY_LEN(off))
            return true;
    }
    return false;
}

static void start_log(void)
{
    static const char *const names[] = {"off", "error", "warn", "info", "debug", "trace"};
    const char *wanted = getenv("RLX_LOG");
    size_t level = wants_log() ? RLX_LOG_INFO : RLX_LOG_WARN;
    if (wanted && *wanted) {
        for (level = 0; level < ARRAY_LEN(names) && strcmp(names[level], wanted); level++)
            continue;
        if (level == ARRAY_LEN(names)) {
            cli_warn("RLX_LOG expected off, error, warn, info, debug or trace, got '%s'", wanted);
            level = RLX_LOG_WARN;
        }
    }
    rlx_set_log(print_log, NULL, (rlx_log_level)level);
}

/* Results that could not be written (a full disk, a closed pipe) are a failure. */
static int flush_results(int status)
{
    if ((fflush(stdout) || ferror(stdout)) && status == EXIT_OK)
        return cli_fail("the results could not be written to standard output");
    return status;
}

int main(int argc, char **argv)
{
    system_start(&argc, &argv);
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    else if (!strcmp(name, "--version") || !strcmp(name, "-v") || !strcmp(name, "-V"))
        name = "version";
    const cli_command *c = find_command(name);
    if (!c)
        return EXIT_USAGE;
    cli_set_command(c->name);
    start_log();
    void *record = cli_alloc(c->record_bytes);
    int status = cli_parse(c, argc - 2, argv + 2, record);
    if (status < 0)
        status = c->run(record);
    cli_free(c, record);
    cli_progress_clear();
    status = flush_results(status);
    cli_end_by_signal();
    return status;
}
