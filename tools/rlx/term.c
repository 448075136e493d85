/* SPDX-License-Identifier: MIT */
/* Styles, aligned tables and numbers in short form. */
#include "term.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "system.h"

static bool wants_colour(FILE *f)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return !(no && *no) && !(term && !strcmp(term, "dumb")) && isatty(fileno(f));
}

const char *term_style(FILE *f, const char *style)
{
    static const struct {
        const char *style, *sequence;
    } known[] = {
        {TERM_PLAIN, "\033[0m"}, {TERM_BOLD, "\033[1m"},    {TERM_DIM, "\033[2m"},
        {TERM_RED, "\033[31m"},  {TERM_GREEN, "\033[32m"},  {TERM_YELLOW, "\033[33m"},
        {TERM_BLUE, "\033[34m"},
    };
    if (!wants_colour(f))
        return "";
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (!strcmp(known[i].style, style))
            return known[i].sequence;
    return "";
}

/* ---- Text from files ------------------------------------------------------------------------- */

char *term_escape(const char *text, size_t n, bool lines)
{
    const size_t room = rlx_escape_text(text, n, lines, NULL, 0) + 1;
    char *out = cli_alloc(room);
    rlx_escape_text(text, n, lines, out, room);
    return out;
}

/* What a format gives, escaped. */
static char *escape_formatted(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = cli_format("%s", "?");
    char *safe = term_escape(text, strlen(text), false);
    free(text);
    return safe;
}

void term_rows(FILE *f, const char *text, int used)
{
    const int columns = isatty(fileno(f)) ? term_columns(f) : 0;
    const size_t indent = strspn(text, " ");
    used = used < columns ? used : 0;
    for (bool first = true; columns > 0 && term_width(text) > columns - used; first = false) {
        const size_t most = term_cut(text, columns - used);
        size_t n = most;
        while (n > (first ? indent : 0) && text[n] != ' ')
            n--;
        if (n <= (first ? indent : 0)) /* a word longer than the row */
            n = used ? 0 : most;
        if (!n && !used) /* a character wider than the row */
            term_char_width(text, strlen(text), &n);
        used = 0;
        fprintf(f, "%.*s\n", (int)n, text);
        text += n + (text[n] == ' ');
    }
    fprintf(f, "%s", text);
}

void term_line(FILE *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = escape_formatted(format, args);
    va_end(args);
    term_rows(f, text, 0);
    fputc('\n', f);
    free(text);
}

void term_dim_line(FILE *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = escape_formatted(format, args);
    va_end(args);
    fputs(term_style(f, TERM_DIM), f);
    term_rows(f, text, 0);
    fprintf(f, "%s\n", term_style(f, TERM_PLAIN));
    free(text);
}

void term_write(FILE *f, const char *text, size_t n)
{
    if (!isatty(fileno(f))) {
        fwrite(text, 1, n, f);
        return;
    }
    char *safe = term_escape(text, n, true);
    fputs(safe, f);
    free(safe);
}

void term_wrap(FILE *f, const char *text, size_t indent)
{
    const size_t room = 79 - indent;
    while (strlen(text) > room) {
        size_t n = room;
        while (n > 0 && text[n] != ' ')
            n--;
        n = n ? n : room; /* a word longer than the line */
        fprintf(f, "%.*s\n%*s", (int)n, text, (int)indent, "");
        text += n + (text[n] == ' ');
    }
    fprintf(f, "%s\n", text);
}

int term_columns(FILE *f)
{
    int columns, rows;
    system_screen(f, &columns, &rows);
    return columns ? columns : 80;
}

/* The code point that begins at s; bytes that are no UTF-8 are themselves. */
static unsigned decode(const char *s, size_t n, size_t *bytes)
{
    const unsigned char *u = (const unsigned char *)s;
    const size_t length = u[0] < 0xc2 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf5 ? 4 : 1;
    unsigned c = length == 1 ? u[0] : u[0] & (0x7fu >> length);
    *bytes = 1;
    if (length > n)
        return u[0];
    for (size_t i = 1; i < length; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return u[0];
        c = c << 6 | (u[i] & 0x3f);
    }
    *bytes = length;
    return c;
}

size_t term_char_width(const char *s, size_t n, size_t *bytes)
{
    const int width = system_char_width(decode(s, n, bytes));
    return width < 0 ? 1 : (size_t)width;
}

int term_width(const char *s)
{
    size_t width = 0, bytes;
    for (size_t n = strlen(s); n > 0; n -= bytes, s += bytes)
        width += term_char_width(s, n, &bytes);
    return (int)width;
}

size_t term_cut(const char *s, int columns)
{
    size_t at = 0, width = 0, bytes;
    for (const size_t n = strlen(s); at < n; at += bytes)
        if ((width += term_char_width(s + at, n - at, &bytes)) > (size_t)columns)
            break;
    return at;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void add_cell(table *t, const char *style, char *text)
{
    if (t->n_cells == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->cells = cli_realloc_array(t->cells, t->cap, sizeof *t->cells);
        t->styles = cli_realloc_array(t->styles, t->cap, sizeof *t->styles);
    }
    t->cells[t->n_cells] = text;
    t->styles[t->n_cells++] = style;
}

void table_init(table *t, const char *align, const char *headings)
{
    *t = (table){.n_columns = (int)strlen(align), .align = align};
    while (*headings) {
        size_t n = strcspn(headings, "|");
        add_cell(t, TERM_BOLD, cli_format("%.*s", (int)n, headings));
        headings += n + (headings[n] == '|');
    }
}

void table_cell(table *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_cell(t, NULL, escape_formatted(format, args));
    va_end(args);
}

void table_styled(table *t, const char *style, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_cell(t, style, escape_formatted(format, args));
    va_end(args);
}

static void print_row(const table *t, size_t row, const int *width, int indent)
{
    int n = t->n_columns;
    while (n > 1 && !t->cells[row * (size_t)t->n_columns + (size_t)n - 1][0])
        n--; /* no blanks at the end of the line */
    printf("%*s", indent, "");
    for (int c = 0; c < n; c++) {
        size_t at = row * (size_t)t->n_columns + (size_t)c;
        const char *text = t->cells[at], *style = t->styles[at];
        int fill = width[c] - term_width(text);
        if (t->align[c] == 'r')
            printf("%*s", fill, "");
        printf("%s%s%s", style ? term_style(stdout, style) : "", text,
               style ? term_style(stdout, TERM_PLAIN) : "");
        if (c + 1 < n)
            printf("%*s", t->align[c] == 'r' ? 2 : fill + 2, "");
    }
    putchar('\n');
}

void table_print(table *t, int indent)
{
    int width[32] = {0};
    size_t rows = t->n_cells / (size_t)t->n_columns;
    for (size_t i = 0; i < rows * (size_t)t->n_columns; i++) {
        int w = term_width(t->cells[i]), *have = &width[i % (size_t)t->n_columns];
        *have = w > *have ? w : *have;
    }
    for (size_t r = 0; r < rows; r++)
        print_row(t, r, width, indent);
    table_free(t);
}

void table_free(table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t->styles);
    *t = (table){0};
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static char *scaled(double v, double step, const char *const *units, size_t n, char *out)
{
    size_t i = 0;
    while (i + 1 < n && fabs(v) >= step) {
        v /= step;
        i++;
    }
    int digits = i == 0 && v == floor(v) ? 0 : v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
    snprintf(out, SHORT_TEXT, "%.*f%s%s", digits, v, *units[i] ? " " : "", units[i]);
    return out;
}

char *short_bytes(double bytes, char out[SHORT_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return scaled(bytes, 1024, units, ARRAY_LEN(units), out);
}

char *short_count(double n, char out[SHORT_TEXT])
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    return scaled(n, 1000, units, ARRAY_LEN(units), out);
}

char *short_seconds(double s, char out[SHORT_TEXT])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return scaled(s * 1e9, 1000, units, ARRAY_LEN(units), out);
}

char *type_text(rlx_dtype t, const rlx_shape *s, char out[TYPE_TEXT])
{
    int n = snprintf(out, TYPE_TEXT, "%s[", rlx_dtype_name(t));
    for (int i = 0; i < s->rank; i++)
        n += snprintf(out + n, (size_t)(TYPE_TEXT - n), "%s%lld", i ? "," : "",
                      (long long)s->dim[i]);
    snprintf(out + n, (size_t)(TYPE_TEXT - n), "]");
    return out;
}
