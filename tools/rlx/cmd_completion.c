/* SPDX-License-Identifier: MIT */
/* rlx completion: scripts that complete commands, options and their values in a shell, written from
 * the tables that --help is made from. */
#include <string.h>

#include "cli.h"

/* ---- What a shell needs to know of an option ------------------------------------------------- */

/* The words that a value can be, separated by blanks: "exact|fast" of the option's argument. */
static bool words_of(const cli_option *o, char *out, size_t size)
{
    const char *words = o->arg;
    if (!strcmp(o->name, "device"))
        words = "auto|cpu|vulkan|webgpu|ref";
    if (!words || !strchr(words, '|') || strlen(words) >= size)
        return false;
    for (size_t i = 0; (out[i] = words[i] == '|' ? ' ' : words[i]); i++)
        continue;
    return true;
}

static bool is_model(const char *arg)
{
    return arg && strstr(arg, "MODEL");
}

static bool is_path(const char *arg)
{
    return arg && (strstr(arg, "FILE") || strstr(arg, "DIR") || strstr(arg, "GRAPH"));
}

/* Calls `f` for each option of the command, those that all commands take included. */
static void each_option(const cli_command *c, void (*f)(const cli_command *, const cli_option *))
{
    const cli_option *const tables[] = {c->options, cli_common_options()};
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (const cli_option *o = tables[t]; o && o->kind; o++)
            if (cli_takes(c, o))
                f(c, o);
}

/* Text inside of single quotes of a shell. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    putchar('\'');
}

/* Names in the model store, one a line. */
#define LIST_MODELS "rlx list --json 2>/dev/null | sed -n 's/.*\"name\": *\"\\([^\"]*\\)\".*/\\1/p'"

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_option(const cli_command *c, const cli_option *o)
{
    (void)c;
    printf(" --%s", o->name);
    if (cli_letter(o->name))
        printf(" -%c", cli_letter(o->name));
}

static void bash_value(const cli_command *c, const cli_option *o)
{
    char words[200];
    const char letter = cli_letter(o->name);
    if (o->kind == CLI_FLAG || o->kind == CLI_OPT_NUMBER)
        return;
    printf("    '%s --%s'", c->name, o->name);
    if (letter)
        printf(" | '%s -%c'", c->name, letter);
    if (words_of(o, words, sizeof words))
        printf(") COMPREPLY=($(compgen -W '%s' -- \"$cur\")) ;;\n", words);
    else if (is_model(o->arg))
        puts(") _rlx_models ;;");
    else if (is_path(o->arg))
        puts(") compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")) ;;");
    else
        puts(") COMPREPLY=() ;;");
}

static void print_bash(const cli_command *const *commands, size_t n)
{
    puts("# bash completion of rlx: eval \"$(rlx completion bash)\", or into a file of\n"
         "# ~/.local/share/bash-completion/completions/rlx\n"
         "_rlx_models() {\n"
         "    compopt -o filenames\n"
         "    COMPREPLY=($(compgen -f -- \"$cur\")"
         " $(compgen -W \"$(" LIST_MODELS ")\" -- \"$cur\"))\n"
         "}\n"
         "_rlx() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    local command=${COMP_WORDS[1]} options=\n"
         "    if [ \"$COMP_CWORD\" = 1 ]; then");
    fputs("        COMPREPLY=($(compgen -W '", stdout);
    for (size_t i = 0; i < n; i++)
        printf("%s%s", i ? " " : "", commands[i]->name);
    puts("' -- \"$cur\")); return\n    fi\n    case $command in");
    for (size_t i = 0; i < n; i++) {
        printf("    %s) options='", commands[i]->name);
        each_option(commands[i], bash_option);
        puts("' ;;");
    }
    puts("    esac\n    case $cur in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")); return ;;\n    esac\n"
         "    case \"$command $prev\" in");
    for (size_t i = 0; i < n; i++)
        each_option(commands[i], bash_value);
    puts("    *) _rlx_models ;;\n    esac\n}\ncomplete -F _rlx rlx");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* A specification of _arguments: '(-m --model)'{-m,--model}'[help]:MODEL:_files'. */
static void zsh_option(const cli_command *c, const cli_option *o)
{
    char help[400], words[200];
    const char letter = cli_letter(o->name);
    size_t n = 0;
    (void)c;
    for (const char *p = o->help; *p && n + 3 < sizeof help; p++) {
        if (strchr("[]:'\\", *p))
            help[n++] = *p == '\'' ? ' ' : '\\';
        if (*p != '\'')
            help[n++] = *p;
    }
    help[n] = 0;
    const char *value = o->kind == CLI_FLAG ? "" : is_model(o->arg) ? ":model:_rlx_models"
                      : is_path(o->arg) ? ":file:_files" : ":value:";
    fputs("        ", stdout);
    if (letter)
        printf("'*'{-%c,--%s}", letter, o->name);
    else
        printf("'*--%s", o->name);
    if (words_of(o, words, sizeof words))
        printf("%s[%s]:value:(%s)' \\\n", letter ? "'" : "", help, words);
    else
        printf("%s[%s]%s' \\\n", letter ? "'" : "", help, value);
}

static void print_zsh(const cli_command *const *commands, size_t n)
{
    puts("#compdef rlx\n# zsh completion of rlx: into a file _rlx of a folder of $fpath\n"
         "_rlx_models() {\n    local -a names\n    names=(${(f)\"$(" LIST_MODELS ")\"})\n"
         "    _alternative 'models:model:compadd -a names' 'files:file:_files'\n}\n"
         "_rlx() {\n    local -a commands\n    if (( CURRENT == 2 )); then\n        commands=(");
    for (size_t i = 0; i < n; i++) {
        fputs("            ", stdout);
        char row[200];
        snprintf(row, sizeof row, "%s:%s", commands[i]->name, commands[i]->summary);
        print_quoted(row);
        putchar('\n');
    }
    puts("        )\n        _describe command commands; return\n    fi\n    shift words\n"
         "    (( CURRENT-- ))\n    case $words[1] in");
    for (size_t i = 0; i < n; i++) {
        printf("    %s) _arguments \\\n", commands[i]->name);
        each_option(commands[i], zsh_option);
        puts("        '*:argument:_rlx_models' ;;");
    }
    puts("    esac\n}\n_rlx \"$@\"");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_option(const cli_command *c, const cli_option *o)
{
    char words[200];
    printf("complete -c rlx -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->name);
    if (cli_letter(o->name))
        printf(" -s %c", cli_letter(o->name));
    if (words_of(o, words, sizeof words))
        printf(" -x -a '%s'", words);
    else if (is_model(o->arg))
        printf(" -r -F -a '(__rlx_models)'");
    else if (o->kind != CLI_FLAG && o->kind != CLI_OPT_NUMBER)
        fputs(is_path(o->arg) ? " -r -F" : " -x", stdout);
    fputs(" -d ", stdout);
    print_quoted(o->help);
    putchar('\n');
}

static void print_fish(const cli_command *const *commands, size_t n)
{
    puts("# fish completion of rlx: into ~/.config/fish/completions/rlx.fish\n"
         "function __rlx_models\n    " LIST_MODELS "\nend");
    for (size_t i = 0; i < n; i++) {
        printf("complete -c rlx -n __fish_use_subcommand -x -a %s -d ", commands[i]->name);
        print_quoted(commands[i]->summary);
        putchar('\n');
        each_option(commands[i], fish_option);
    }
}

/* ---- The command ----------------------------------------------------------------------------- */

static int run_completion(void *record)
{
    static const struct {
        const char *name;
        void (*print)(const cli_command *const *commands, size_t n);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    const cli_common *common = record;
    size_t n;
    const cli_command *const *commands = cli_commands(&n);
    if (common->json)
        return cli_usage("completion has no --json");
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        if (!strcmp(shells[i].name, common->args.v[0])) {
            shells[i].print(commands, n);
            return EXIT_OK;
        }
    }
    return cli_usage("expected bash, zsh or fish, got '%s'", common->args.v[0]);
}

const cli_command cmd_completion = {
    .name = "completion",
    .args = "bash|zsh|fish",
    .summary = "print a script that completes commands and options in a shell",
    .run = run_completion,
    .record_bytes = sizeof(cli_common),
    .ignores = CLI_NO_COMPUTE | CLI_NO_JSON,
    .min_args = 1,
    .max_args = 1,
    .details = "Completes commands, options, their values, and the models of 'rlx list'.",
    .examples =
        "  eval \"$(rlx completion bash)\"                 this shell; ~/.bashrc: all\n"
        "  rlx completion zsh > ~/.zfunc/_rlx            a folder of $fpath\n"
        "  rlx completion fish > ~/.config/fish/completions/rlx.fish",
};
