/* SPDX-License-Identifier: MIT */
/* Parsing of options by the table of a command, and the --help text made from the same table.
 * Letters belong to names, not to commands: -n means --max-tokens wherever there is one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "term.h"

static const cli_option common_options[] = {
    {"device", CLI_LIST, offsetof(cli_common, device), "DEVICE",
     "device to use: auto, cpu, vulkan, vulkan:1, ... ('rlx devices' lists them)"},
    {"threads", CLI_NUMBER, offsetof(cli_common, threads), "N",
     "threads of the CPU device (default: all the process may use)"},
    {"json", CLI_FLAG, offsetof(cli_common, json), NULL, "print JSON instead of text"},
    {"help", CLI_FLAG, offsetof(cli_common, help), NULL, "show this help"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_option *cli_common_options(void)
{
    return common_options;
}

/* Letters, and second names that users of other tools type; a second name may carry its value. */
static const struct synonym {
    char letter;       /* 0: none */
    const char *other; /* NULL: none */
    const char *name, *value;
} synonyms[] = {
    {'m', NULL, "model", NULL},      {'p', NULL, "prompt", NULL},
    {'f', "file", "prompt-file", NULL}, {'f', NULL, "file", NULL}, {'n', NULL, "max-tokens", NULL},
    {'c', "context", "ctx", NULL},   {'t', NULL, "threads", NULL},
    {'d', NULL, "device", NULL},     {'h', NULL, "help", NULL},
    {0, "temp", "temperature", NULL}, {0, "typical", "typical-p", NULL},
    {0, "dry-penalty-last-n", "dry-last", NULL}, {0, "dry-sequence-breaker", "dry-breaker", NULL},
    {0, "mirostat-ent", "mirostat-tau", NULL}, {0, "mirostat-lr", "mirostat-eta", NULL},
    {0, "fast", "policy", "fast"},   {0, "exact", "policy", "exact"}, {'o', NULL, "out", NULL},
    {0, "n-predict", "max-tokens", NULL}, {0, "predict", "max-tokens", NULL},
    {0, "ctx-size", "ctx", NULL},    {0, "n-gpu-layers", "gpu-layers", NULL},
    {0, "ngl", "gpu-layers", NULL},  {0, "repeat-last-n", "repeat-last", NULL},
    {0, "sys", "system", NULL},      {0, "system-prompt", "system", NULL},
    {0, "grammar-file", "grammar", NULL},
};

/* The largest values; other numbers end where 64 bits do. */
static const struct {
    const char *name;
    int64_t most;
} limits[] = {
    {"ctx", 1 << 24},       {"prompt-chunk", 1 << 16}, {"threads", 1024},
    {"top-k", INT32_MAX},   {"repeat-last", 256},      {"port", 65535},
    {"beams", 64},          {"tokens", 1 << 24},       {"prompt-tokens", 1 << 24},
    {"sequences", 512},     {"guesses", 15},           {"queue", 1 << 24},
    {"memory", 1 << 30},    {"max-connections", 1 << 16}, {"timeout", INT32_MAX},
    {"drain", INT32_MAX},   {"max-seconds", INT32_MAX},
};

char cli_letter(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(synonyms); i++)
        if (!strcmp(synonyms[i].name, name))
            return synonyms[i].letter;
    return 0;
}

/* ---- Suggestions ----------------------------------------------------------------------------- */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein distance of two short words. */
static size_t distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);
    if (n >= ARRAY_LEN(row))
        return ARRAY_LEN(row);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = min_size(min_size(row[j], row[j - 1]) + 1,
                                   diagonal + (a[i - 1] != b[j - 1]));
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t least = strlen(word) / 2 + 1;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, names[i]);
        bool prefix = strlen(word) >= 2 && !strncmp(names[i], word, strlen(word));
        if (prefix)
            d = 1;
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

static int unknown_option(const cli_command *c, const char *word)
{
    const char *names[64];
    size_t n = 0;
    const cli_option *const tables[] = {c->options, common_options};
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (const cli_option *o = tables[t]; o && o->kind && n < ARRAY_LEN(names); o++)
            names[n++] = o->name;
    const char *near = cli_nearest(word, names, n);
    if (near)
        return cli_usage("unknown option '--%s'; did you mean '--%s'?", word, near);
    return cli_usage("unknown option '--%s'", word);
}

/* ---- Parsing --------------------------------------------------------------------------------- */

static const cli_option *find_in(const cli_option *o, const char *name)
{
    for (; o && o->kind; o++)
        if (!strcmp(o->name, name))
            return o;
    return NULL;
}

static const cli_option *find_option(const cli_command *c, const char *name)
{
    const cli_option *o = find_in(c->options, name);
    return o ? o : find_in(common_options, name);
}

/* The option whose second name or letter is given: "context", or "c" after one dash; *value is set
 * where the name carries one. */
static const cli_option *find_synonym(const cli_command *c, const char *other, char letter,
                                      const char **value)
{
    for (size_t i = 0; i < ARRAY_LEN(synonyms); i++) {
        const struct synonym *s = &synonyms[i];
        bool is_it = other ? s->other && !strcmp(s->other, other) : s->letter == letter;
        if (!is_it)
            continue;
        const cli_option *o = find_option(c, s->name);
        if (!o)
            continue;
        *value = s->value ? s->value : *value;
        return o;
    }
    return NULL;
}

static void list_add(cli_list *list, const char *text)
{
    list->v = cli_realloc_array(list->v, list->n + 1, sizeof *list->v);
    list->v[list->n++] = text;
}

static int parse_number(const cli_option *o, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10), most = INT64_MAX;
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (!strcmp(limits[i].name, o->name))
            most = limits[i].most;
    if (end == text || *end || v < 0)
        return cli_usage("--%s expected a number of at least 0, got '%s'", o->name, text);
    if (errno || v > most)
        return cli_usage("--%s expected at most %lld, got '%s'", o->name, most, text);
    *out = v;
    return -1;
}

static int parse_real(const cli_option *o, const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v > 0) || v > 1e300)
        return cli_usage("--%s expected a number above 0, got '%s'", o->name, text);
    *out = v;
    return -1;
}

/* Puts the value (NULL for flags, or when it was left out) into the record. */
static int store(const cli_option *o, const char *value, void *record)
{
    void *at = (char *)record + o->offset;
    switch (o->kind) {
    case CLI_FLAG: *(bool *)at = true; return -1;
    case CLI_TEXT: *(const char **)at = value; return -1;
    case CLI_LIST: list_add(at, value); return -1;
    case CLI_NUMBER: return parse_number(o, value, at);
    case CLI_REAL: return parse_real(o, value, at);
    case CLI_SET_NUMBER:
    case CLI_OPT_NUMBER:
        ((cli_opt_number *)at)->given = true;
        return value ? parse_number(o, value, &((cli_opt_number *)at)->value) : -1;
    default: return -1;
    }
}

/* Stores an option whose value stood after it, or else (NULL) is the next argument. `given` is how
 * the option was written. */
static int take_option(const cli_option *o, const char *given, const char *value, int argc,
                       char **argv, int *i, void *record)
{
    if (o->kind == CLI_FLAG && value)
        return cli_usage("%s takes no value", given);
    if (o->kind != CLI_FLAG && o->kind != CLI_OPT_NUMBER && !value) {
        if (*i + 1 >= argc)
            return cli_usage("%s needs a value: %s %s", given, given, o->arg);
        value = argv[++*i];
    }
    return store(o, value, record);
}

/* One argument that begins with "--"; *i moves on when its value is the next argument. */
static int parse_long(const cli_command *c, int argc, char **argv, int *i, void *record)
{
    char given[64];
    const char *word = argv[*i];
    size_t n = strcspn(word, "=");
    if (n >= sizeof given)
        return cli_usage("unknown option '%s'", word);
    memcpy(given, word, n);
    given[n] = 0;
    const char *value = word[n] == '=' ? word + n + 1 : NULL;
    const cli_option *o = find_option(c, given + 2);
    if (!o)
        o = find_synonym(c, given + 2, 0, &value);
    if (!o)
        return unknown_option(c, given + 2);
    return take_option(o, given, value, argc, argv, i, record);
}

/* One argument that begins with one dash: "-n 128", "-n128", or "-ngl 20" as llama.cpp has it. */
static int parse_letter(const cli_command *c, int argc, char **argv, int *i, void *record)
{
    const char *word = argv[*i], *value = NULL;
    const cli_option *o = word[2] ? find_synonym(c, word + 1, 0, &value) : NULL;
    if (o)
        return take_option(o, word, value, argc, argv, i, record);
    if (word[2] && find_option(c, word + 1))
        return cli_usage("unknown option '%s'; did you mean '-%s'?", word, word);
    const char given[] = {'-', word[1], 0};
    value = word[2] ? word + 2 : NULL;
    o = find_synonym(c, NULL, word[1], &value);
    if (!o || (o->kind == CLI_FLAG && word[2]))
        return cli_usage("unknown option '%s'; long options begin with two dashes", word);
    return take_option(o, given, value, argc, argv, i, record);
}

bool cli_takes(const cli_command *c, const cli_option *o)
{
    if (o == find_in(common_options, "device"))
        return !(c->ignores & CLI_NO_DEVICE);
    if (o == find_in(common_options, "threads"))
        return !(c->ignores & CLI_NO_THREADS);
    return o != find_in(common_options, "json") || !(c->ignores & CLI_NO_JSON);
}

/* Options of all commands that this one has no use for. */
static void tell_ignored(const cli_command *c, const cli_common *common)
{
    if (common->device.n && (c->ignores & CLI_NO_DEVICE))
        cli_warn("--device has no effect: this command uses no device");
    if (common->threads && (c->ignores & CLI_NO_THREADS))
        cli_warn("--threads has no effect on this command");
}

static int check_args(const cli_command *c, const cli_common *common)
{
    size_t n = common->args.n;
    if (n < (size_t)c->min_args)
        return n ? cli_usage("expected %s, got only '%s'", c->args, common->args.v[0])
                 : cli_usage("expected %s", c->args);
    if (c->max_args >= 0 && n > (size_t)c->max_args)
        return cli_usage("unexpected argument '%s'", common->args.v[c->max_args]);
    return -1;
}

int cli_parse(const cli_command *c, int argc, char **argv, void *record)
{
    cli_common *common = record;
    bool only_args = false;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        int status = -1;
        if (only_args || a[0] != '-' || !a[1])
            list_add(&common->args, a);
        else if (!strcmp(a, "--"))
            only_args = true;
        else if (!strncmp(a, "--", 2))
            status = parse_long(c, argc, argv, &i, record);
        else
            status = parse_letter(c, argc, argv, &i, record);
        if (status >= 0)
            return status;
    }
    if (common->help) {
        cli_print_help(c);
        return EXIT_OK;
    }
    tell_ignored(c, common);
    return check_args(c, common);
}

void cli_free(const cli_command *c, void *record)
{
    const cli_option *const tables[] = {c->options, common_options};
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (const cli_option *o = tables[t]; o && o->kind; o++)
            if (o->kind == CLI_LIST)
                free(((cli_list *)(void *)((char *)record + o->offset))->v);
    free(((cli_common *)record)->args.v);
    free(record);
}

#define HELP_LEFT 30 /* columns of names, left of what they mean */

/* ---- Help ------------------------------------------------------------------------------------ */

static void heading(const char *text)
{
    printf("\n%s%s%s\n", term_style(stdout, TERM_BOLD), text, term_style(stdout, TERM_PLAIN));
}

static void print_options(const cli_command *c, const cli_option *o)
{
    for (; o && o->kind; o++) {
        if (!cli_takes(c, o))
            continue;
        char left[64], letter = cli_letter(o->name);
        int n = snprintf(left, sizeof left, letter ? "-%c, " : "    ", letter);
        const char *format = o->kind == CLI_OPT_NUMBER ? "--%s[=%s]" : "--%s %s";
        snprintf(left + n, sizeof left - (size_t)n, o->arg ? format : "--%s", o->name,
                 o->arg ? o->arg : "");
        if (strlen(left) > HELP_LEFT - 4)
            printf("  %s\n%*s", left, HELP_LEFT, "");
        else
            printf("  %-*s", HELP_LEFT - 2, left);
        term_wrap(stdout, o->help, HELP_LEFT);
    }
}

/* Prints paragraphs again in lines of our width; lines that begin with a blank stay as they are. */
static void print_paragraphs(const char *text)
{
    char *joined = cli_format("%s", text), *line = joined;
    for (char *p = joined; *p; p++) {
        if (*p != '\n')
            continue;
        if (p > joined && p[-1] != '\n' && p[1] && p[1] != '\n' && p[1] != ' ' && *line != ' ') {
            *p = ' ';
            continue;
        }
        *p = 0;
        term_wrap(stdout, line, 0);
        line = p + 1;
        if (*line == '\n') { /* an empty line between two paragraphs */
            putchar('\n');
            p = line++;
        }
    }
    term_wrap(stdout, line, 0);
    free(joined);
}

void cli_print_help(const cli_command *c)
{
    printf("%srlx %s%s: %s\n\nusage: rlx %s [OPTION]...%s%s\n", term_style(stdout, TERM_BOLD),
           c->name, term_style(stdout, TERM_PLAIN), c->summary, c->name, c->args[0] ? " " : "",
           c->args);
    if (c->details) {
        putchar('\n');
        print_paragraphs(c->details);
    }
    if (c->options && c->options->kind) {
        heading("Options");
        print_options(c, c->options);
    }
    heading("Common options");
    print_options(c, common_options);
    if (c->examples) {
        heading("Examples");
        puts(c->examples);
    }
}
