/* SPDX-License-Identifier: MIT */
/* rlx chat: an interactive conversation with a language model. On a terminal, lines that begin with
 * a slash are commands; all others, and every line of a pipe, are messages. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "line.h"
#include "llm.h"
#include "markdown.h"
#include "store/history.h"
#include "system.h"
#include "term.h"

#define HISTORY_ENTRIES 500

typedef struct options {
    cli_common common;
    model_options model;
    sampling_options sampling;
    grammar_options grammar;
    cli_list lora;
    const char *system, *load, *save;
    bool ignore_end;
} options;

typedef struct talk {
    const cli_list *adapters; /* of --lora */
    llm_lora lora;            /* that are open, in the chat */
    rlx_model *model;
    rlx_chat *chat;
    rlx_generate_desc desc;
    rlx_sampling_desc sampling; /* of desc */
    rlx_generate_result last; /* of the last answer */
    size_t n_answers, n_tokens;
    double seconds;
    char *system;             /* NULL: none */
    char *start;              /* what the next line begins with; NULL: nothing */
    line_editor editor;
    bool no_history;
    const char *save;         /* written after each answer; NULL: not */
    markdown shown;           /* the answer on the terminal */
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
    llm_close_lora(&t->lora);
    if (rlx_chat_create(t->model, t->system, &t->chat, &err) != RLX_OK) {
        cli_error(&err);
        return false;
    }
    return llm_open_lora(t->adapters, t->model, rlx_chat_context(t->chat), &t->lora) == EXIT_OK;
}

static int print_piece(void *user, const rlx_piece *p)
{
    markdown_write(user, p->text, p->length);
    fflush(stdout);
    return 0;
}

/* What became of the answer that a reader would not see: cut, or without the oldest messages. */
static void tell_limits(const talk *t, size_t left_out_before)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_model_get_info(t->model, &info, NULL);
    const size_t left_out = rlx_chat_n_left_out(t->chat);
    if (t->last.finish == RLX_FINISH_LENGTH)
        term_dim_line(stderr, "(cut at %zu tokens: /set max-tokens N, 0 for no limit)",
                      t->last.n_generated);
    else if (t->last.finish == RLX_FINISH_CONTEXT)
        term_dim_line(stderr, "(cut: the context of %lld tokens is full; --ctx N makes it larger)",
                      (long long)info.context);
    if (left_out > left_out_before)
        term_dim_line(stderr, "(the context of %lld tokens is full: the model no longer sees the "
                      "first %zu messages)", (long long)info.context, left_out);
}

static int save(talk *t, const char *path)
{
    rlx_error err = {0};
    return rlx_chat_save(t->chat, path, &err) == RLX_OK ? EXIT_OK : cli_error(&err);
}

static int say(talk *t, const char *text)
{
    rlx_error err = {0};
    const size_t left_out = rlx_chat_n_left_out(t->chat);
    markdown_init(&t->shown, stdout);
    answering = rlx_chat_context(t->chat);
    rlx_status st = rlx_chat_say(t->chat, text, &t->desc, print_piece, &t->shown, &t->last, &err);
    answering = NULL;
    markdown_end(&t->shown);
    putchar('\n');
    fflush(stdout);
    if (st == RLX_CANCELLED)
        term_dim_line(stderr, "(stopped)");
    else if (st != RLX_OK)
        return cli_error(&err);
    else
        tell_limits(t, left_out);
    t->sampling.seed++; /* the same question need not get the same answer */
    t->n_answers++;
    t->n_tokens += t->last.n_generated;
    t->seconds += t->last.seconds + t->last.prompt_seconds;
    if (t->editor.editing)
        llm_print_rates(&t->last);
    return t->save ? save(t, t->save) : EXIT_OK;
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
    if (save(t, arg) != EXIT_OK)
        return EXIT_FAILED;
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

static int take_back(talk *t)
{
    rlx_error err = {0};
    if (rlx_chat_undo(t->chat, &err) != RLX_OK)
        return cli_error(&err);
    return EXIT_OK;
}

static int do_undo(talk *t, const char *arg)
{
    (void)arg;
    if (take_back(t) != EXIT_OK)
        return EXIT_FAILED;
    fputs("The last question and its answer are forgotten.\n", stderr);
    return EXIT_OK;
}

/* The text of the last question, also of a conversation that was loaded; NULL: none. */
static char *last_question(const talk *t)
{
    rlx_message m;
    for (size_t i = rlx_chat_n_messages(t->chat); i-- > 0;)
        if (rlx_chat_message(t->chat, i, &m) && !strcmp(m.role, "user"))
            return cli_format("%s", m.content);
    return NULL;
}

static int do_regen(talk *t, const char *arg)
{
    char *question = last_question(t);
    (void)arg;
    int status = take_back(t);
    if (status == EXIT_OK)
        status = say(t, question);
    free(question);
    return status;
}

static int do_edit(talk *t, const char *arg)
{
    char *question = last_question(t);
    (void)arg;
    if (take_back(t) != EXIT_OK) {
        free(question);
        return EXIT_FAILED;
    }
    free(t->start);
    t->start = question;
    return EXIT_OK;
}

static int do_read(talk *t, const char *arg)
{
    char *text = input_read_text(arg);
    if (!text)
        return EXIT_FAILED;
    term_line(stderr, "Read %zu bytes from %s.", strlen(text), arg);
    int status = say(t, text);
    free(text);
    return status;
}

static int show_settings(const talk *t)
{
    llm_print_sampling(&t->sampling);
    if (t->desc.max_tokens)
        fprintf(stderr, "  %-18s %lld\n", "max-tokens", (long long)t->desc.max_tokens);
    if (t->system)
        term_line(stderr, "  %-18s %s", "system", t->system);
    return EXIT_OK;
}

/* /set NAME VALUE takes what the options of the same names take. */
static int do_set(talk *t, const char *arg)
{
    char name[32];
    int status = EXIT_OK;
    if (!strncmp(arg, "parameter ", 10)) /* as ollama has it */
        arg += 10 + strspn(arg + 10, " ");
    if (!*arg)
        return show_settings(t);
    const size_t n = strcspn(arg, " ");
    const char *value = arg + n + strspn(arg + n, " ");
    snprintf(name, sizeof name, "%.*s", (int)n, arg);
    if (!*value)
        return cli_fail("/set needs a name and a value: /set temperature 0.8");
    if (llm_set_sampling(&t->sampling, name, value, &status))
        return status;
    if (strcmp(name, "max-tokens"))
        return cli_fail("/set expected max-tokens or a sampling option like temperature, top-k, "
                        "min-p or seed, got '%s'", name);
    char *end;
    const long long number = strtoll(value, &end, 10);
    if (end == value || *end || number < 0)
        return cli_fail("/set %s expected a number of at least 0, got '%s'", name, value);
    t->desc.max_tokens = number;
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
    term_line(stderr, "%zu answers, %zu tokens in %.1f s; the context holds %zu of %lld tokens",
              t->n_answers, t->n_tokens, t->seconds, n, (long long)info.context);
    if (t->n_answers)
        llm_print_rates(&t->last);
    return EXIT_OK;
}

static int do_help(talk *t, const char *arg);

static const struct command {
    const char *name, *arg, *help;
    int (*run)(talk *t, const char *arg); /* NULL: ends the program */
    const char *also;                     /* another name; NULL: none */
    bool arg_optional;
} commands[] = {
    {"/regen", NULL, "answer the last question again", do_regen, "/retry", false},
    {"/edit", NULL, "change the last question and ask again", do_edit, NULL, false},
    {"/undo", NULL, "forget the last question and its answer", do_undo, NULL, false},
    {"/reset", NULL, "forget the conversation", do_reset, "/clear", false},
    {"/read", "FILE", "say what is in a text file", do_read, NULL, false},
    {"/set", "NAME VALUE", "temperature 0.8, max-tokens 200, ...; alone: show them", do_set, NULL,
     true},
    {"/save", "FILE", "write the conversation to a file", do_save, NULL, false},
    {"/load", "FILE", "go on with one from a file", do_load, NULL, false},
    {"/system", "TEXT", "start anew with other instructions", do_system, NULL, false},
    {"/stats", NULL, "memory, tokens and times", do_stats, "/show", false},
    {"/help", NULL, "show this", do_help, "/?", false},
    {"/quit", NULL, "end (also Ctrl-D)", NULL, "/bye", false},
    {"/exit", NULL, NULL, NULL, NULL, false},
};

static int do_help(talk *t, const char *arg)
{
    (void)t;
    (void)arg;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (commands[i].help)
            fprintf(stderr, "  %-8s %-10s %s\n", commands[i].name,
                    commands[i].arg ? commands[i].arg : "", commands[i].help);
    fputs("Ctrl-C stops an answer. Arrow keys, Home, End, Ctrl-A/E/K/U/W edit the text,\n"
          "Alt-Enter begins another line of it; what is pasted stays one message.\n", stderr);
    return EXIT_OK;
}

static int tell_unknown(const char *word)
{
    const char *names[ARRAY_LEN(commands)];
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        names[i] = commands[i].name;
    const char *near = cli_nearest(word, names, ARRAY_LEN(names));
    return near ? cli_fail("there is no command %s; did you mean %s?", word, near)
                : cli_fail("there is no command %s; /help lists them", word);
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
        if (strcmp(c->name, line) && !(c->also && !strcmp(c->also, line)))
            continue;
        *quit = !c->run;
        if (c->arg && !c->arg_optional && !*arg)
            return cli_fail("%s needs a value: %s %s", c->name, c->name, c->arg);
        return c->run ? c->run(t, arg) : EXIT_OK;
    }
    return tell_unknown(line);
}

/* ---- The program ----------------------------------------------------------------------------- */

static void add_history(void *editor, const char *text)
{
    line_remember(editor, text);
}

/* The history outlives the program; that it cannot be kept is told once. */
static void remember(talk *t, const char *line)
{
    rlx_error err = {0};
    if (!t->editor.editing || !line_remember(&t->editor, line) || t->no_history)
        return;
    if (rx_history_append(line, HISTORY_ENTRIES, &err) != RLX_OK) {
        t->no_history = true;
        cli_warn("the history is not kept: %s", err.text);
    }
}

static void recall(talk *t)
{
    rlx_error err = {0};
    if (rx_history_read(add_history, &t->editor, &err) != RLX_OK) {
        t->no_history = true;
        cli_warn("the history is not kept: %s", err.text);
    }
}

static int talk_on(talk *t)
{
    bool quit = false;
    int status = EXIT_OK, interrupts = 0; /* in a row */
    while (!quit) {
        char *line = NULL;
        line_result r = line_read(&t->editor, "> ", t->start, &line);
        free(t->start);
        t->start = NULL;
        if (r == LINE_END)
            break;
        interrupts = r == LINE_INTERRUPTED ? interrupts + 1 : 0;
        if (interrupts == 2)
            term_dim_line(stderr, "(Ctrl-D or /quit ends)");
        if (r == LINE_INTERRUPTED)
            continue;
        remember(t, line);
        if (t->editor.editing && line[0] == '/' && !strchr(line, '\n'))
            status = run_command(t, line, &quit);
        else if (line[strspn(line, " \t\r\n")])
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
              .last = {RLX_INIT(rlx_generate_result)}, .save = o->save,
              .adapters = &o->lora};
    o->model.model = llm_model(&o->common, &o->model);
    if (o->common.args.n)
        return cli_usage("unexpected argument '%s'", o->common.args.v[0]);
    int status = o->common.json ? cli_usage("chat has no --json; see 'rlx generate --chat'")
                                : llm_sampling(&o->sampling, &t.sampling, &t.desc);
    if (t.sampling.temperature <= 0 && !o->sampling.repeat_penalty)
        t.sampling.repeat_penalty = 1; /* the most likely token is what was asked for */
    if (status == EXIT_OK)
        status = llm_grammar(&o->grammar, &t.desc.grammar);
    if (status == EXIT_OK)
        status = llm_open(&o->common, &o->model, &t.model, NULL);
    if (status != EXIT_OK) {
        rlx_grammar_destroy(t.desc.grammar);
        return status;
    }
    if (!rlx_tokenizer_chat_template(rlx_model_tokenizer(t.model), NULL))
        cli_warn("the model has no chat template, so it may not be made for conversations; "
                 "'rlx generate' continues a text");
    line_init(&t.editor);
    t.system = o->system ? cli_format("%s", o->system) : NULL;
    if (t.editor.editing) {
        system_on_interrupt(on_interrupt);
        llm_print_model(t.model);
        recall(&t);
        term_line(stderr, "Say something; /help shows the commands.");
    }
    status = start_chat(&t) ? EXIT_OK : EXIT_FAILED;
    if (status == EXIT_OK && o->load)
        status = do_load(&t, o->load);
    if (status == EXIT_OK)
        status = talk_on(&t);
    line_finish(&t.editor);
    rlx_chat_destroy(t.chat);
    llm_close_lora(&t.lora);
    rlx_model_close(t.model);
    rlx_grammar_destroy(t.desc.grammar);
    free(t.system);
    free(t.start);
    return status;
}

static const cli_option chat_options[] = {
    MODEL_OPTIONS(options, model),
    {"system", CLI_TEXT, offsetof(options, system), "TEXT", "instructions for the whole talk"},
    {"load", CLI_TEXT, offsetof(options, load), "FILE", "go on with a saved conversation"},
    {"save", CLI_TEXT, offsetof(options, save), "FILE", "save the conversation after each answer"},
    SAMPLING_OPTIONS(options, sampling),
    GRAMMAR_OPTIONS(options, grammar),
    {"ignore-end", CLI_FLAG, offsetof(options, ignore_end), NULL,
     "go on when the model says it is done, until Ctrl-C"},
    CONTEXT_OPTIONS(options, model),
    LORA_OPTION(options, lora),
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_chat = {
    .name = "chat",
    .args = "[MODEL]",
    .summary = "talk to a language model",
    .run = run_chat,
    .options = chat_options,
    .record_bytes = sizeof(options),
    .ignores = CLI_NO_JSON,
    .max_args = 1,
    .details =
        "Uses the chat form that the model file carries. The whole conversation is remembered;\n"
        "when the context is full the oldest questions and answers are left out. On a terminal\n"
        "the text can be edited, Ctrl-C stops an answer and /help shows the commands; what was\n"
        "typed is remembered from day to day. Otherwise each line of standard input is said, and\n"
        "the answers go to standard output.\n"
        "Defaults: temperature 0.7, top-p 0.9, min-p 0.05, repeat penalty 1.1 (none with\n"
        "temperature 0).",
    .examples =
        "  rlx chat smollm2                     a model of 'rlx pull'\n"
        "  rlx chat --model smol.gguf\n"
        "  rlx chat --model smol.gguf --system \"You are a pirate.\" --temperature 1\n"
        "  echo \"What is 2 + 2?\" | rlx chat --model smol.gguf --temperature 0",
};
