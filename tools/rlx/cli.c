/* SPDX-License-Identifier: MIT */
/* Messages, memory, time and devices, for all commands. */
#include "cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/layout.h"
#include "store/store.h"
#include "system.h"
#include "term.h"

static const char *command_name;
static bool progress_shown;

void cli_set_command(const char *name)
{
    command_name = name;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Messages name files, tensors and tokens. `used`: columns of what stands before. */
static void print_escaped(const char *format, va_list args, int used)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return;
    char *safe = term_escape(text, strlen(text), true);
    for (char *line = safe, *end; line; line = end, used = 0) {
        if ((end = strchr(line, '\n')))
            *end++ = 0;
        term_rows(stderr, line, used);
        fputc('\n', stderr);
    }
    free(safe);
    free(text);
}

static void say(const char *style, const char *label, const char *format, va_list args)
{
    cli_progress_clear();
    fflush(stdout);
    const int n = fprintf(stderr, "rlx%s%s: ", command_name ? " " : "",
                          command_name ? command_name : "");
    fprintf(stderr, "%s%s%s", term_style(stderr, style), label, term_style(stderr, TERM_PLAIN));
    print_escaped(format, args, n + (int)strlen(label));
}

int cli_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(TERM_RED, "error: ", format, args);
    va_end(args);
    return EXIT_FAILED;
}

int cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(TERM_RED, "error: ", format, args);
    va_end(args);
    fprintf(stderr, "'rlx%s%s --help' shows how it is used\n", command_name ? " " : "",
            command_name ? command_name : "");
    return EXIT_USAGE;
}

int cli_error(const rlx_error *err)
{
    return cli_fail("%s", err->text[0] ? err->text : rlx_status_name(err->code));
}

void cli_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(TERM_YELLOW, "warning: ", format, args);
    va_end(args);
}

/* One row, whatever the width of the terminal: a bar in what the text leaves, if there is a total,
 * and the text cut where the row ends. */
static void show_progress(double done, double total, const char *format, va_list args)
{
    enum { BAR = 30, LEAST_BAR = 6 };
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return;
    char *safe = term_escape(text, strlen(text), false);
    const int room = term_columns(stderr) - 1, width = term_width(safe);
    int bar = room - width - 3;
    bar = bar > BAR ? BAR : bar;
    fputs("\r\033[K", stderr);
    if (total > 0 && bar >= LEAST_BAR) {
        const int filled = (int)(bar * (done < total ? done / total : 1));
        fprintf(stderr, "[%.*s%*s] ", filled, "##############################", bar - filled, "");
    }
    fprintf(stderr, "%.*s", (int)term_cut(safe, room), safe);
    fflush(stderr);
    free(safe);
    free(text);
    progress_shown = true;
}

void cli_progress(const char *format, ...)
{
    if (!isatty(STDERR_FILENO))
        return;
    va_list args;
    va_start(args, format);
    show_progress(0, 0, format, args);
    va_end(args);
}

void cli_progress_bar(double done, double total, const char *format, ...)
{
    if (!isatty(STDERR_FILENO))
        return;
    va_list args;
    va_start(args, format);
    show_progress(done, total, format, args);
    va_end(args);
}

void cli_progress_clear(void)
{
    if (progress_shown)
        fputs("\r\033[K", stderr);
    progress_shown = false;
}

/* ---- Signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
}

void cli_catch_signals(void)
{
    system_on_end(on_signal);
}

int cli_caught_signal(void)
{
    return caught;
}

void cli_end_by_signal(void)
{
    if (!caught)
        return;
    signal(caught, SIG_DFL);
    raise(caught);
}

/* ---- Memory and time ------------------------------------------------------------------------- */

static void *check_memory(void *p, size_t bytes)
{
    if (!p) {
        cli_fail("out of memory: %zu bytes", bytes);
        exit(EXIT_FAILED);
    }
    return p;
}

void *cli_alloc(size_t bytes)
{
    return check_memory(calloc(1, bytes ? bytes : 1), bytes);
}

void *cli_realloc(void *p, size_t bytes)
{
    return check_memory(realloc(p, bytes ? bytes : 1), bytes);
}

/* SIZE_MAX, which no allocation gives, where the product does not fit. */
static size_t array_bytes(size_t n, size_t item)
{
    size_t bytes;
    return __builtin_mul_overflow(n, item, &bytes) ? SIZE_MAX : bytes;
}

void *cli_alloc_array(size_t n, size_t item)
{
    return cli_alloc(array_bytes(n, item));
}

void *cli_realloc_array(void *p, size_t n, size_t item)
{
    return cli_realloc(p, array_bytes(n, item));
}

char *cli_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    return check_memory(text, strlen(format));
}

uint64_t cli_mib(double mib)
{
    const double bytes = mib * (1 << 20);
    return bytes > 0x1p62 ? UINT64_MAX : bytes > 0 && bytes < 1 ? 1 : (uint64_t)bytes;
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Models ---------------------------------------------------------------------------------- */

char *cli_model_path(const char *model)
{
    char path[RX_STORE_PATH];
    rlx_error err = {0};
    if (rx_folder_length(model) || !rx_access(model, F_OK) || strlen(model) > 200)
        return cli_format("%s", model);
    const rlx_status st = rx_store_find(model, path, &err);
    if (st == RLX_OK)
        return cli_format("%s", path);
    if (!err.text[0]) /* no name of a model: the library says what is wrong with the path */
        return cli_format("%s", model);
    cli_error(&err);
    return NULL;
}

bool cli_is_model(const char *text)
{
    char path[RX_STORE_PATH];
    return !rx_access(text, F_OK) || rx_store_known(text) ||
           rx_store_find(text, path, NULL) == RLX_OK;
}

const char *cli_shift(cli_common *c)
{
    if (!c->args.n)
        return NULL;
    const char *first = c->args.v[0];
    memmove(c->args.v, c->args.v + 1, --c->args.n * sizeof *c->args.v);
    return first;
}

/* ---- Devices --------------------------------------------------------------------------------- */

int cli_one_device(const cli_common *c, const char **id)
{
    *id = c->device.n ? c->device.v[0] : NULL;
    if (c->device.n > 1)
        return cli_usage("--device was given %zu times; this command takes one", c->device.n);
    return EXIT_OK;
}

int cli_policy(const char *text, rlx_policy dflt, rlx_policy *out)
{
    *out = dflt;
    if (text && !strcmp(text, "exact"))
        *out = RLX_POLICY_EXACT;
    else if (text && !strcmp(text, "fast"))
        *out = RLX_POLICY_FAST;
    else if (text)
        return cli_usage("--policy expected exact or fast, got '%s'", text);
    return EXIT_OK;
}

rlx_device *cli_open_device(const cli_common *c, const char *id)
{
    rlx_device *device = NULL;
    rlx_error err = {0};
    rlx_device_desc desc = {RLX_INIT(rlx_device_desc), .threads = (uint32_t)c->threads,
                            .flags = c->device_flags};
    if (rlx_device_open(id, &desc, &device, &err) != RLX_OK)
        cli_error(&err);
    return device;
}
