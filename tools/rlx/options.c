/* SPDX-License-Identifier: MIT */
/* Parsing of options by the table of a command, and the --help text made from the same table. */
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

static void list_add(cli_list *list, const char *text)
{
    list->v = cli_realloc_array(list->v, list->n + 1, sizeof *list->v);
    list->v[list->n++] = text;
}

static int parse_number(const cli_option *o, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < 0)
        return cli_usage("--%s expected a number of at least 0, got '%s'", o->name, text);
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

/* One argument that begins with "--"; *i moves on when its value is the next argument. */
static int parse_option(const cli_command *c, int argc, char **argv, int *i, void *record)
{
    char name[64];
    const char *word = argv[*i] + 2;
    size_t n = strcspn(word, "=");
    if (n >= sizeof name)
        return cli_usage("unknown option '--%s'", word);
    memcpy(name, word, n);
    name[n] = 0;
    const cli_option *o = find_in(c->options, name);
    if (!o)
        o = find_in(common_options, name);
    if (!o)
        return unknown_option(c, name);
    const char *value = word[n] == '=' ? word + n + 1 : NULL;
    if (o->kind == CLI_FLAG && value)
        return cli_usage("--%s takes no value", name);
    if (o->kind != CLI_FLAG && o->kind != CLI_OPT_NUMBER && !value) {
        if (*i + 1 >= argc)
            return cli_usage("--%s needs a value: --%s %s", name, name, o->arg);
        value = argv[++*i];
    }
    return store(o, value, record);
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
        else if (!strcmp(a, "-h"))
            common->help = true;
        else if (!strncmp(a, "--", 2))
            status = parse_option(c, argc, argv, &i, record);
        else
            status = cli_usage("unknown option '%s'; options begin with two dashes", a);
        if (status >= 0)
            return status;
    }
    if (common->help) {
        cli_print_help(c);
        return EXIT_OK;
    }
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

/* ---- Help ------------------------------------------------------------------------------------ */

static void heading(const char *text)
{
    printf("\n%s%s%s\n", term_style(stdout, TERM_BOLD), text, term_style(stdout, TERM_PLAIN));
}

static void print_options(const cli_option *o)
{
    for (; o && o->kind; o++) {
        char left[64];
        const char *format = o->kind == CLI_OPT_NUMBER ? "--%s[=%s]" : "--%s %s";
        snprintf(left, sizeof left, o->arg ? format : "--%s", o->name, o->arg ? o->arg : "");
        printf(strlen(left) > 24 ? "  %s\n  %-24s  %s\n" : "  %-24s%s  %s\n", left,
               "", o->help);
    }
}

void cli_print_help(const cli_command *c)
{
    printf("%srlx %s%s: %s\n\nusage: rlx %s [OPTION]...%s%s\n", term_style(stdout, TERM_BOLD),
           c->name, term_style(stdout, TERM_PLAIN), c->summary, c->name, c->args[0] ? " " : "",
           c->args);
    if (c->details)
        printf("\n%s\n", c->details);
    if (c->options && c->options->kind) {
        heading("Options");
        print_options(c->options);
    }
    heading("Common options");
    print_options(common_options);
    if (c->examples) {
        heading("Examples");
        puts(c->examples);
    }
}
