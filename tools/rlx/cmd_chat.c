/* SPDX-License-Identifier: MIT */
/* rlx chat: an interactive conversation with a language model. Lines that begin with a slash are
 * commands; all others are messages. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "line.h"
#include "llm.h"
#include "term.h"

typedef struct options {
    cli_common common;
    model_options model;
    sampling_options sampling;
    grammar_options grammar;
    const char *system, *load;
    bool ignore_end;
} options;

typedef struct talk {
    rlx_model *model;
    rlx_chat *chat;
    rlx_generate_desc desc;
    rlx_sampling_desc sampling; /* of desc */
    rlx_generate_result last; /* of the last answer */
    size_t n_answers, n_tokens;
    double seconds;
    char *system;             /* NULL: none */
    line_editor editor;
} talk;

/* The context whose answer Ctrl-C stops; NULL while none is given: then Ctrl-C is a key of the line
 * editor. rlx_context_cancel only sets a flag, so a signal handler may call it. */
static rlx_context *volatile answering;

static void on_interrupt(int number)
{
    (void)number;
    if (answering)
        rlx_context_cancel(answering);
}

/* ---- Conversation ---------------------------------------------------------------------------- */

static bool start_chat(talk *t)
{
    rlx_error err = {0};
    rlx_chat_destroy(t->chat);
    t->chat = NULL;
    if (rlx_chat_create(t->model, t->system, &t->chat, &err) == RLX_OK)
        return true;
    cli_error(&err);
    return false;
}

static int print_piece(void *user, const rlx_piece *p)
{
    (void)user;
    term_write(stdout, p->text, p->length);
    fflush(stdout);
    return 0;
}

static int say(talk *t, const char *text)
{
    rlx_error err = {0};
    answering = rlx_chat_context(t->chat);
    rlx_status st = rlx_chat_say(t->chat, text, &t->desc, print_piece, NULL, &t->last, &err);
    answering = NULL;
    putchar('\n');
    fflush(stdout);
    if (st == RLX_CANCELLED)
        fprintf(stderr, "%s(stopped)%s\n", term_style(stderr, TERM_DIM),
                term_style(stderr, TERM_PLAIN));
    else if (st != RLX_OK)
        return cli_error(&err);
    t->sampling.seed++; /* the same question need not get the same answer */
    t->n_answers++;
    t->n_tokens += t->last.n_generated;
    t->seconds += t->last.seconds + t->last.prompt_seconds;
    if (t->editor.editing)
        llm_print_rates(&t->last);
    return EXIT_OK;
}

/* ---- Commands -------------------------------------------------------------------------------- */

static int do_reset(talk *t, const char *arg)
{
    rlx_error err = {0};
    (void)arg;
    if (rlx_chat_reset(t->chat, &err) != RLX_OK)
        return cli_error(&err);
    fputs("Forgotten.\n", stderr);
    return EXIT_OK;
}

static int do_save(talk *t, const char *arg)
{
    rlx_error err = {0};
    if (rlx_chat_save(t->chat, arg, &err) != RLX_OK)
        return cli_error(&err);
    term_line(stderr, "Saved %zu messages to %s.", rlx_chat_n_messages(t->chat), arg);
    return EXIT_OK;
}

static int do_load(talk *t, const char *arg)
{
    rlx_error err = {0};
    if (rlx_chat_load(t->chat, arg, &err) != RLX_OK)
        return cli_error(&err);
    term_line(stderr, "Read %zu messages from %s.", rlx_chat_n_messages(t->chat), arg);
    return EXIT_OK;
}

static int do_system(talk *t, const char *arg)
{
    free(t->system);
    t->system = cli_format("%s", arg);
    if (!start_chat(t))
        return EXIT_FAILED;
    fputs("A new conversation with these instructions.\n", stderr);
    return EXIT_OK;
}

static int do_stats(talk *t, const char *arg)
{
    size_t n;
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    (void)arg;
    rlx_model_get_info(t->model, &info, NULL);
    rlx_context_tokens(rlx_chat_context(t->chat), 0, &n);
    llm_print_model(t->model);
    fprintf(stderr, "%zu answers, %zu tokens in %.1f s; the context holds %zu of %lld tokens\n",
            t->n_answers, t->n_tokens, t->seconds, n, (long long)info.context);
    if (t->n_answers)
        llm_print_rates(&t->last);
    return EXIT_OK;
}

static int do_help(talk *t, const char *arg);

static const struct command {
    const char *name, *arg, *help;
    int (*run)(talk *t, const char *arg); /* NULL: ends the program */
} commands[] = {
    {"/reset", NULL, "forget the conversation", do_reset},
    {"/save", "FILE", "write the conversation to a file", do_save},
    {"/load", "FILE", "go on with one from a file", do_load},
    {"/system", "TEXT", "start anew with other instructions", do_system},
    {"/stats", NULL, "memory, tokens and times", do_stats},
    {"/help", NULL, "show this", do_help},
    {"/quit", NULL, "end (also Ctrl-D)", NULL},
};

static int do_help(talk *t, const char *arg)
{
    (void)t;
    (void)arg;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(stderr, "  %-8s %-5s %s\n", commands[i].name,
                commands[i].arg ? commands[i].arg : "", commands[i].help);
    fputs("Ctrl-C stops an answer. Arrow keys, Home, End, Ctrl-A/E/K/U/W edit the line.\n", stderr);
    return EXIT_OK;
}

/* Runs a line with a slash. *quit is set by /quit. */
static int run_command(talk *t, char *line, bool *quit)
{
    char *arg = line + strcspn(line, " ");
    if (*arg)
        *arg++ = 0;
    arg += strspn(arg, " ");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *c = &commands[i];
        if (strcmp(c->name, line))
            continue;
        *quit = !c->run;
        if (c->arg && !*arg)
            return cli_fail("%s needs a value: %s %s", c->name, c->name, c->arg);
        return c->run ? c->run(t, arg) : EXIT_OK;
    }
    return cli_fail("there is no command %s; /help lists them", line);
}

/* ---- The program ----------------------------------------------------------------------------- */

static int talk_on(talk *t)
{
    bool quit = false;
    int status = EXIT_OK;
    while (!quit) {
        char *line = NULL;
        line_result r = line_read(&t->editor, "> ", &line);
        if (r == LINE_END)
            break;
        if (r == LINE_INTERRUPTED)
            continue;
        if (line[0] == '/')
            status = run_command(t, line, &quit);
        else if (line[strspn(line, " \t\r")])
            status = say(t, line);
        free(line);
        if (!t->chat)
            return EXIT_FAILED;
        /* People see the sentence and go on; a script shall notice. */
        if (status != EXIT_OK && !t->editor.editing)
            return status;
    }
    return t->editor.editing ? EXIT_OK : status;
}

static int run_chat(void *record)
{
    options *o = record;
    /* Lively, but not wild. */
    talk t = {.desc = {RLX_INIT(rlx_generate_desc), .ignore_end = o->ignore_end},
              .sampling = {RLX_INIT(rlx_sampling_desc), .temperature = 0.7, .top_p = 0.9,
                           .min_p = 0.05, .repeat_penalty = 1.1},
              .last = {RLX_INIT(rlx_generate_result)}};
    o->model.model = llm_model(&o->common, &o->model);
    int status = o->common.json ? cli_usage("chat has no --json; see 'rlx generate --chat'")
                                : llm_sampling(&o->sampling, &t.sampling, &t.desc);
    if (status == EXIT_OK)
        status = llm_grammar(&o->grammar, &t.desc.grammar);
    if (status == EXIT_OK)
        status = llm_open(&o->common, &o->model, &t.model, NULL);
    if (status != EXIT_OK) {
        rlx_grammar_destroy(t.desc.grammar);
        return status;
    }
    line_init(&t.editor);
    t.system = o->system ? cli_format("%s", o->system) : NULL;
    if (t.editor.editing) {
        struct sigaction on = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
        sigemptyset(&on.sa_mask);
        sigaction(SIGINT, &on, NULL);
        llm_print_model(t.model);
        fputs("Say something; /help shows the commands.\n", stderr);
    }
    status = start_chat(&t) ? EXIT_OK : EXIT_FAILED;
    if (status == EXIT_OK && o->load)
        status = do_load(&t, o->load);
    if (status == EXIT_OK)
        status = talk_on(&t);
    line_finish(&t.editor);
    rlx_chat_destroy(t.chat);
    rlx_model_close(t.model);
    rlx_grammar_destroy(t.desc.grammar);
    free(t.system);
    return status;
}

static const cli_option chat_options[] = {
    MODEL_OPTIONS(options, model),
    {"system", CLI_TEXT, offsetof(options, system), "TEXT", "instructions for the whole talk"},
    {"load", CLI_TEXT, offsetof(options, load), "FILE", "go on with a saved conversation"},
    SAMPLING_OPTIONS(options, sampling),
    GRAMMAR_OPTIONS(options, grammar),
    {"ignore-end", CLI_FLAG, offsetof(options, ignore_end), NULL,
     "go on when the model says it is done, until Ctrl-C"},
    CONTEXT_OPTIONS(options, model),
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_chat = {
    .name = "chat",
    .args = "[MODEL]",
    .summary = "talk to a language model",
    .run = run_chat,
    .options = chat_options,
    .record_bytes = sizeof(options),
    .max_args = 1,
    .details =
        "Uses the chat form that the model file carries. The whole conversation is remembered;\n"
        "when the context is full the oldest questions and answers are left out. On a terminal\n"
        "the line can be edited and Ctrl-C stops an answer; /help shows the commands. Otherwise\n"
        "each line of standard input is said, and the answers go to standard output.\n"
        "Defaults: temperature 0.7, top-p 0.9, min-p 0.05, repeat penalty 1.1.",
    .examples =
        "  rlx chat smollm2                     a model of 'rlx pull'\n"
        "  rlx chat --model smol.gguf\n"
        "  rlx chat --model smol.gguf --system \"You are a pirate.\" --temperature 1\n"
        "  echo \"What is 2 + 2?\" | rlx chat --model smol.gguf --temperature 0",
};
