/* SPDX-License-Identifier: MIT */
/* rlx ops: how each backend runs each operation of the catalogue. */
#include <string.h>

#include "cli.h"
#include "json.h"
#include "term.h"

static const char *const backends[] = {"cpu", "vulkan", "webgpu"};

typedef struct options {
    cli_common common;
    const char *only;
} options;

/* `copy` is only made by the compiler. */
static bool is_shown(const options *o, const char *op)
{
    if (!strcmp(op, "copy"))
        return false;
    for (size_t i = 0; i < o->common.args.n; i++)
        if (strstr(op, o->common.args.v[i]))
            break;
        else if (i + 1 == o->common.args.n)
            return false;
    if (!o->only)
        return true;
    for (size_t b = 0; b < ARRAY_LEN(backends); b++)
        if (!strcmp(rlx_support_name(rlx_op_support(backends[b], op)), o->only))
            return true;
    return false;
}

/* The backends shown: all, or the one --device names. */
static bool is_wanted(const cli_common *c, const char *backend)
{
    if (!c->device.n || !strcmp(c->device.v[0], "auto"))
        return true;
    size_t n = strcspn(c->device.v[0], ":");
    return strlen(backend) == n && !strncmp(backend, c->device.v[0], n);
}

static const char *support_style(rlx_support s)
{
    switch (s) {
    case RLX_SUPPORT_NATIVE: return TERM_GREEN;
    case RLX_SUPPORT_DECOMPOSED: return TERM_BLUE;
    case RLX_SUPPORT_VIEW: return TERM_DIM;
    case RLX_SUPPORT_HOST:
    case RLX_SUPPORT_REFERENCE: return TERM_YELLOW;
    default: return TERM_RED;
    }
}

static void print_json(const options *o)
{
    json j = {.f = stdout};
    json_array(&j, NULL);
    const char *op;
    for (size_t i = 0; (op = rlx_op_name(i)) != NULL; i++) {
        if (!is_shown(o, op))
            continue;
        json_row(&j, NULL);
        json_text(&j, "op", op);
        for (size_t b = 0; b < ARRAY_LEN(backends); b++)
            if (is_wanted(&o->common, backends[b]))
                json_text(&j, backends[b], rlx_support_name(rlx_op_support(backends[b], op)));
        json_end(&j);
    }
    json_end(&j);
}

/* The kinds, as they are summed up. */
static const rlx_support kinds[] = {RLX_SUPPORT_NATIVE, RLX_SUPPORT_REFERENCE, RLX_SUPPORT_VIEW,
                                    RLX_SUPPORT_DECOMPOSED, RLX_SUPPORT_HOST, RLX_SUPPORT_NO};

static void print_summary(size_t n, size_t counts[][ARRAY_LEN(kinds)], const cli_common *common)
{
    printf("\n%zu operations\n", n);
    for (size_t b = 0; b < ARRAY_LEN(backends); b++) {
        if (!is_wanted(common, backends[b]))
            continue;
        printf("  %-7s", backends[b]);
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
            printf("%s%zu %s", k == 0 ? " " : ", ", counts[b][kinds[k]],
                   rlx_support_name(kinds[k]));
        putchar('\n');
    }
}

static int print_table(const options *o)
{
    table t;
    size_t counts[ARRAY_LEN(backends)][ARRAY_LEN(kinds)] = {0}, n = 0;
    char headings[64] = "operation";
    for (size_t b = 0; b < ARRAY_LEN(backends); b++)
        if (is_wanted(&o->common, backends[b]))
            snprintf(headings + strlen(headings), sizeof headings - strlen(headings), "|%s",
                     backends[b]);
    table_init(&t, o->common.device.n && strcmp(o->common.device.v[0], "auto") ? "ll" : "llll",
               headings);
    const char *op;
    for (size_t i = 0; (op = rlx_op_name(i)) != NULL; i++) {
        if (!is_shown(o, op))
            continue;
        n++;
        table_cell(&t, "%s", op);
        for (size_t b = 0; b < ARRAY_LEN(backends); b++) {
            rlx_support s = rlx_op_support(backends[b], op);
            counts[b][s]++;
            if (is_wanted(&o->common, backends[b]))
                table_styled(&t, support_style(s), "%s", rlx_support_name(s));
        }
    }
    table_print(&t, 0);
    print_summary(n, counts, &o->common);
    return EXIT_OK;
}

static bool any_shown(const options *o)
{
    const char *op;
    for (size_t i = 0; (op = rlx_op_name(i)) != NULL; i++)
        if (is_shown(o, op))
            return true;
    return false;
}

static int check_options(const options *o)
{
    const char *id;
    int status = cli_one_device(&o->common, &id);
    if (status)
        return status;
    bool known = !id;
    for (size_t b = 0; b < ARRAY_LEN(backends); b++)
        known |= is_wanted(&o->common, backends[b]);
    if (!known)
        return cli_usage("--device expected cpu, vulkan or webgpu, got '%s'", id);
    bool kind = !o->only;
    for (size_t k = 0; k < ARRAY_LEN(kinds) && !kind; k++)
        kind = !strcmp(o->only, rlx_support_name(kinds[k]));
    return kind ? EXIT_OK
                : cli_usage("--only expected native, reference, decomposed, view, host or no, "
                            "got '%s'", o->only);
}

static int run_ops(void *record)
{
    const options *o = record;
    int status = check_options(o);
    if (status)
        return status;
    if (o->common.json)
        print_json(o);
    else if (any_shown(o) || !o->common.args.n)
        print_table(o);
    else
        return cli_fail("no operation is like that; 'rlx ops' shows all");
    return EXIT_OK;
}

static const cli_option ops_options[] = {
    {"only", CLI_TEXT, offsetof(options, only), "KIND",
     "operations that some backend runs as KIND: native, decomposed, ..., no"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_ops = {
    .name = "ops",
    .args = "[WORD]...",
    .summary = "show how each backend runs each operation",
    .run = run_ops,
    .options = ops_options,
    .record_bytes = sizeof(options),
    .ignores = CLI_NO_THREADS,
    .max_args = -1,
    .details = "native: a kernel of its own    decomposed: rewritten into native operations\n"
               "view: needs no work            host: on the CPU, with copies      no: cannot\n"
               "reference: by the plain loops that define it, on one thread (cpu only)\n\n"
               "A WORD keeps the operations whose name contains it.",
    .examples = "  rlx ops                 the whole catalogue\n"
                "  rlx ops reduce norm     reductions and norms\n"
                "  rlx ops --only host     what leaves the GPU\n"
                "  rlx ops --json          an array of {\"op\": .., \"cpu\": .., "
                "\"vulkan\": ..}",
};
