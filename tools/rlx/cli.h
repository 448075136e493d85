/* SPDX-License-Identifier: MIT */
/* The command-line framework: commands, options, messages and exit statuses. Every command is one
 * row {name, what it does, options, examples, function}; --help is generated from it. */
#ifndef CLI_H
#define CLI_H

#include <stdio.h>

#include "rlx/rlx.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof(a)[0])

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* ---- Options --------------------------------------------------------------------------------- */

/* Arguments in the order given; they point into argv. */
typedef struct cli_list {
    const char **v;
    size_t n;
} cli_list;

/* A number that knows whether it was given: --seed 0. With CLI_OPT_NUMBER it may be left out:
 * --random-params or --random-params=7. */
typedef struct cli_opt_number {
    bool given;
    int64_t value;
} cli_opt_number;

typedef enum cli_kind {
    CLI_END = 0,
    CLI_FLAG,       /* bool */
    CLI_TEXT,       /* const char *, the last one wins */
    CLI_NUMBER,     /* int64_t, at least 0; 0 when not given */
    CLI_SET_NUMBER, /* cli_opt_number, at least 0: where 0 is not the default */
    CLI_REAL,       /* double, above 0 */
    CLI_LIST,       /* cli_list: may be repeated */
    CLI_OPT_NUMBER  /* cli_opt_number: "=N" may follow */
} cli_kind;

typedef struct cli_option {
    const char *name; /* without the dashes */
    cli_kind kind;
    size_t offset;    /* in the record of the command */
    const char *arg;  /* how --help names the value; NULL for flags */
    const char *help;
} cli_option;

/* What every command takes; the first member of each command's record. */
typedef struct cli_common {
    cli_list device;
    bool json, help;
    int64_t threads;
    uint64_t device_flags; /* RLX_DEVICE_*, set by the command */
    cli_list args; /* what is not an option */
} cli_common;

/* Common options that mean nothing to a command: they are not in its --help, and told to have no
 * effect when they are given. */
enum { CLI_NO_DEVICE = 1, CLI_NO_THREADS = 2, CLI_NO_JSON = 4,
       CLI_NO_COMPUTE = CLI_NO_DEVICE | CLI_NO_THREADS };

typedef struct cli_command {
    const char *name, *args, *summary;
    int (*run)(void *record); /* returns the exit status */
    const cli_option *options;
    size_t record_bytes;
    int min_args, max_args; /* max_args < 0: any number */
    const char *details;    /* paragraphs of --help, may be NULL */
    const char *examples;   /* one a line: command, two spaces or more, what it does */
    unsigned ignores;       /* CLI_NO_... */
} cli_command;

extern const cli_command cmd_devices, cmd_doctor, cmd_ops, cmd_run, cmd_compile, cmd_bench,
    cmd_explain, cmd_kernels, cmd_inspect, cmd_quantize, cmd_tokenize, cmd_generate, cmd_chat,
    cmd_embed, cmd_perplexity, cmd_train, cmd_verify, cmd_pull, cmd_list, cmd_rm, cmd_serve,
    cmd_completion, cmd_convert, cmd_imatrix,
    cmd_rerank, cmd_tune;

/* Parses the arguments after the command's name into the zeroed `record`. Returns -1 when the
 * command shall run, else the exit status. */
int cli_parse(const cli_command *c, int argc, char **argv, void *record);
void cli_free(const cli_command *c, void *record);
void cli_print_help(const cli_command *c);
/* The options that every command takes; the letter of an option, or 0; all commands. */
const cli_option *cli_common_options(void);
char cli_letter(const char *name);
bool cli_takes(const cli_command *c, const cli_option *o);
const cli_command *const *cli_commands(size_t *n);
/* The name among `names` that is nearest to `word`, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t n);

/* ---- Messages --------------------------------------------------------------------------------
 * All go to standard error as "rlx COMMAND: sentence". */
void cli_set_command(const char *name);
#if defined(__GNUC__)
#define CLI_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define CLI_PRINTF(a, b)
#endif
/* Prints a sentence and returns EXIT_FAILED. */
int cli_fail(const char *format, ...) CLI_PRINTF(1, 2);
/* Prints a sentence and where to find help; returns EXIT_USAGE. */
int cli_usage(const char *format, ...) CLI_PRINTF(1, 2);
/* Prints the text of an error of the library; returns EXIT_FAILED. */
int cli_error(const rlx_error *err);
void cli_warn(const char *format, ...) CLI_PRINTF(1, 2);
/* A line that is replaced by the next one, cut to the width of the terminal; only when standard
 * error is one. */
void cli_progress(const char *format, ...) CLI_PRINTF(1, 2);
/* The same after a bar of what is done, as far as there is room for it. */
void cli_progress_bar(double done, double total, const char *format, ...) CLI_PRINTF(3, 4);
void cli_progress_clear(void);

/* ---- Signals ---------------------------------------------------------------------------------
 * For commands that clean up when they are stopped: after cli_catch_signals the first Ctrl-C,
 * SIGTERM or SIGHUP only sets what cli_caught_signal returns, the second one ends the program. */
void cli_catch_signals(void);
int cli_caught_signal(void); /* 0: none */
/* Ends the program as a caught signal would have; returns when there was none. */
void cli_end_by_signal(void);

/* ---- Memory and time: out of memory ends the program with EXIT_FAILED ------------------------ */
void *cli_alloc(size_t bytes); /* zeroed */
void *cli_realloc(void *p, size_t bytes);
/* Arrays of n items: the product is checked. */
void *cli_alloc_array(size_t n, size_t item); /* zeroed */
void *cli_realloc_array(void *p, size_t n, size_t item);
char *cli_format(const char *format, ...) CLI_PRINTF(1, 2); /* freed with free */
double cli_now(void);          /* seconds of a monotonic clock */
uint64_t cli_mib(double mib);  /* bytes, at least 1 of what is above 0 */

/* The path of a model given as a file, a folder or a name of the store; freed with free. NULL after
 * printing why there is none. */
char *cli_model_path(const char *model);
/* Whether a text is a path that exists, or the name of a model that the store has or could have. */
bool cli_is_model(const char *text);
/* Takes the first argument away from those that are no options; NULL when there is none. */
const char *cli_shift(cli_common *c);

/* The only device asked for with --device, or NULL for "auto". Fails when there are several. */
int cli_one_device(const cli_common *c, const char **id);
/* The option of commands that compute on graphs. */
#define POLICY_OPTION(record, member)                                                             \
    {"policy", CLI_TEXT, offsetof(record, member), "exact|fast",                                  \
     "compute in f32, or let the device round operands of products where it gains by it"}
/* The value of --policy; `dflt` when it was not given. */
int cli_policy(const char *text, rlx_policy dflt, rlx_policy *out);
/* Opens a device with the threads asked for; on failure the sentence is printed. */
rlx_device *cli_open_device(const cli_common *c, const char *id);

#endif
