/* SPDX-License-Identifier: MIT */
/* The line editor over ANSI sequences. Positions are bytes of UTF-8. The text is drawn anew for
 * each key, from the row where the prompt is; of a text with more rows than the screen, those
 * around the cursor. */
#include "line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "system.h"
#include "term.h"

#define MAX_HISTORY 500
#define TAB_COLUMNS 4

/* Keys above the bytes. */
enum { KEY_LEFT = 256, KEY_RIGHT, KEY_UP, KEY_DOWN, KEY_HOME, KEY_END, KEY_DELETE, KEY_WORD_LEFT,
       KEY_WORD_RIGHT, KEY_NEWLINE, KEY_PASTE, KEY_PASTE_END, KEY_NONE, KEY_EOF };
#define CTL(c) ((c) & 0x1f)

typedef struct edit {
    line_editor *e;
    const char *prompt;
    char *text;
    size_t n, cap, at; /* bytes, cursor */
    size_t row;        /* of the history; n_history: the new text */
    char *kept;        /* the new text while the history is shown */
    size_t above;      /* rows drawn above the one where the cursor is */
} edit;

void line_init(line_editor *e)
{
    *e = (line_editor){.editing = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
}

void line_finish(line_editor *e)
{
    for (size_t i = 0; i < e->n_history; i++)
        free(e->history[i]);
    free(e->history);
    *e = (line_editor){0};
}

bool line_remember(line_editor *e, const char *text)
{
    if (!*text || (e->n_history && !strcmp(e->history[e->n_history - 1], text)))
        return false;
    if (e->n_history == MAX_HISTORY) {
        free(e->history[0]);
        memmove(e->history, e->history + 1, --e->n_history * sizeof *e->history);
    }
    e->history = cli_realloc_array(e->history, e->n_history + 1, sizeof *e->history);
    e->history[e->n_history++] = cli_format("%s", text);
    return true;
}

/* ---- Characters ------------------------------------------------------------------------------ */

size_t line_width(const char *s, size_t n, size_t *bytes)
{
    if (*s == '\t') {
        *bytes = 1;
        return TAB_COLUMNS;
    }
    return term_char_width(s, n, bytes);
}

/* The end of the character at `at`, with the marks of no width that follow it. */
static size_t next_char(const edit *d, size_t at)
{
    size_t bytes;
    if (at == d->n)
        return at;
    line_width(d->text + at, d->n - at, &bytes);
    at += bytes;
    while (at < d->n && d->text[at] != '\n' && !line_width(d->text + at, d->n - at, &bytes))
        at += bytes;
    return at;
}

static size_t previous_char(const edit *d, size_t at)
{
    size_t last = 0;
    for (size_t i = 0; i < at; i = next_char(d, i))
        last = i;
    return last;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void insert_bytes(edit *d, const char *s, size_t n)
{
    if (d->n + n + 1 > d->cap)
        d->text = cli_realloc(d->text, d->cap = 2 * (d->n + n) + 64);
    memmove(d->text + d->at + n, d->text + d->at, d->n - d->at);
    memcpy(d->text + d->at, s, n);
    d->n += n;
    d->at += n;
    d->text[d->n] = 0;
}

static void delete_range(edit *d, size_t from, size_t to)
{
    memmove(d->text + from, d->text + to, d->n - to);
    d->n -= to - from;
    d->at = from;
    d->text[d->n] = 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t';
}

static size_t word_left(const edit *d)
{
    size_t at = d->at;
    while (at > 0 && is_blank(d->text[at - 1]))
        at--;
    while (at > 0 && !is_blank(d->text[at - 1]))
        at--;
    return at;
}

static size_t word_right(const edit *d)
{
    size_t at = d->at;
    while (at < d->n && is_blank(d->text[at]))
        at++;
    while (at < d->n && !is_blank(d->text[at]))
        at++;
    return at;
}

/* The line of the cursor: from *from to the returned end, a newline or the end of the text. */
static size_t line_bounds(const edit *d, size_t *from)
{
    size_t to = d->at;
    for (*from = d->at; *from > 0 && d->text[*from - 1] != '\n';)
        --*from;
    while (to < d->n && d->text[to] != '\n')
        to++;
    return to;
}

static void set_text(edit *d, const char *s)
{
    d->n = d->at = 0;
    insert_bytes(d, s, strlen(s));
}

static void show_history(edit *d, int step)
{
    size_t n = d->e->n_history;
    if ((step < 0 && d->row == 0) || (step > 0 && d->row == n))
        return;
    if (d->row == n) {
        free(d->kept);
        d->kept = cli_format("%s", d->text);
    }
    d->row = step < 0 ? d->row - 1 : d->row + 1;
    set_text(d, d->row == n ? d->kept : d->e->history[d->row]);
}

/* To the line above or below, at about the same place; from the outermost lines to the history. */
static void move_line(edit *d, int step)
{
    size_t from, to = line_bounds(d, &from), column = d->at - from;
    if (step < 0 ? from == 0 : to == d->n) {
        show_history(d, step);
        return;
    }
    d->at = step < 0 ? from - 1 : to + 1;
    to = line_bounds(d, &from);
    d->at = from;
    while (d->at - from < column && d->at < to)
        d->at = next_char(d, d->at);
}

/* ---- Screen ---------------------------------------------------------------------------------- */

typedef struct place {
    size_t row, column;
} place;

static place screen_size(void)
{
    int columns, rows;
    system_screen(stdout, &columns, &rows);
    return (place){rows < 3 ? 24 : (size_t)rows, columns < 10 ? 80 : (size_t)columns};
}

/* Where the character at byte i is drawn, and after it *next; `indent`: columns of the prompt. */
static place put_char(const edit *d, size_t i, place p, size_t columns, size_t indent, place *next,
                      size_t *bytes)
{
    const size_t width = line_width(d->text + i, d->n - i, bytes);
    if (d->text[i] == '\n') {
        *next = (place){p.row + 1, indent};
        return p;
    }
    if (p.column + width > columns)
        p = (place){p.row + 1, 0};
    *next = (place){p.row, p.column + width};
    return p;
}

/* Draws the rows from `top` on; the cursor ends after the last character. */
static void draw_rows(const edit *d, size_t columns, size_t indent, size_t top, size_t rows)
{
    place p = {0, indent}, next;
    size_t bytes, row = top;
    if (top == 0)
        fputs(d->prompt, stdout);
    for (size_t i = 0; i < d->n; i += bytes, p = next) {
        const place at = put_char(d, i, p, columns, indent, &next, &bytes);
        if (at.row < top || at.row >= top + rows)
            continue;
        if (at.row != row) {
            printf("\r\n%*s", (int)at.column, "");
            row = at.row;
        }
        if (d->text[i] == '\t')
            printf("%*s", TAB_COLUMNS, "");
        else if (d->text[i] != '\n')
            fwrite(d->text + i, 1, bytes, stdout);
    }
    if (p.row != row && p.row < top + rows)
        printf("\r\n%*s", (int)p.column, "");
}

static void draw(edit *d)
{
    const place size = screen_size();
    const size_t columns = size.column, indent = 2;
    place p = {0, indent}, next, cursor = p, end;
    size_t bytes;
    for (size_t i = 0; i < d->n; i += bytes, p = next) {
        const place at = put_char(d, i, p, columns, indent, &next, &bytes);
        if (i == d->at)
            cursor = at;
    }
    end = p;
    if (d->at == d->n)
        cursor = end;
    size_t top = 0, rows = end.row + 1;
    if (rows > size.row) {
        rows = size.row;
        top = cursor.row < rows / 2 ? 0 : cursor.row - rows / 2;
        top = top + rows > end.row + 1 ? end.row + 1 - rows : top;
    }
    if (d->above)
        printf("\033[%zuA", d->above);
    fputs("\r\033[J", stdout);
    draw_rows(d, columns, indent, top, rows);
    const size_t last = end.row < top + rows ? end.row : top + rows - 1;
    if (last > cursor.row)
        printf("\033[%zuA", last - cursor.row);
    putchar('\r');
    if (cursor.column)
        printf("\033[%zuC", cursor.column);
    d->above = cursor.row - top;
    fflush(stdout);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static int read_byte(void)
{
    const int c = system_read_key();
    return c < 0 ? KEY_EOF : c;
}

/* What follows ESC: "[A", "[3~", "[1;5C", "[200~", "OH", "b". */
static int read_escape(void)
{
    static const struct {
        const char *text;
        int key;
    } known[] = {
        {"[A", KEY_UP}, {"[B", KEY_DOWN}, {"[C", KEY_RIGHT}, {"[D", KEY_LEFT}, {"[H", KEY_HOME},
        {"[F", KEY_END}, {"OH", KEY_HOME}, {"OF", KEY_END}, {"[1~", KEY_HOME}, {"[4~", KEY_END},
        {"[7~", KEY_HOME}, {"[8~", KEY_END}, {"[3~", KEY_DELETE}, {"[1;5C", KEY_WORD_RIGHT},
        {"[1;5D", KEY_WORD_LEFT}, {"b", KEY_WORD_LEFT}, {"f", KEY_WORD_RIGHT},
        {"\r", KEY_NEWLINE}, {"\n", KEY_NEWLINE}, {"[200~", KEY_PASTE}, {"[201~", KEY_PASTE_END},
    };
    char text[8] = {0};
    for (size_t n = 0; n < sizeof text - 1; n++) {
        int c = read_byte();
        if (c == KEY_EOF)
            return KEY_EOF;
        text[n] = (char)c;
        bool opens = n == 0 && (c == '[' || c == 'O');
        if (!opens && (c >= 0x40 || n == 0))
            break;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (!strcmp(text, known[i].text))
            return known[i].key;
    return KEY_NONE;
}

/* Bracketed paste: what the terminal sends up to its end mark is text, whatever it holds. */
static void paste(edit *d)
{
    bool after_return = false;
    for (;;) {
        int c = read_byte();
        if (c == 27)
            c = read_escape();
        if (c == KEY_PASTE_END || c == KEY_EOF)
            return;
        const bool second = c == '\n' && after_return; /* of CR LF */
        after_return = c == '\r';
        char byte = c == '\r' ? '\n' : (char)c;
        if (c < 256 && !second && ((unsigned char)byte >= 32 || byte == '\n' || byte == '\t') &&
            byte != 127)
            insert_bytes(d, &byte, 1);
    }
}

static void move_or_delete(edit *d, int key)
{
    size_t from, to = line_bounds(d, &from);
    switch (key) {
    case KEY_LEFT: case CTL('b'): d->at = previous_char(d, d->at); break;
    case KEY_RIGHT: case CTL('f'): d->at = next_char(d, d->at); break;
    case KEY_HOME: case CTL('a'): d->at = from; break;
    case KEY_END: case CTL('e'): d->at = to; break;
    case KEY_WORD_LEFT: d->at = word_left(d); break;
    case KEY_WORD_RIGHT: d->at = word_right(d); break;
    case KEY_UP: case CTL('p'): move_line(d, -1); break;
    case KEY_DOWN: case CTL('n'): move_line(d, 1); break;
    case KEY_DELETE: case CTL('d'): delete_range(d, d->at, next_char(d, d->at)); break;
    case 127: case CTL('h'): delete_range(d, previous_char(d, d->at), d->at); break;
    case CTL('w'): delete_range(d, word_left(d), d->at); break;
    case CTL('u'): delete_range(d, from, d->at); break;
    case CTL('k'): delete_range(d, d->at, to); break;
    case KEY_NEWLINE: insert_bytes(d, "\n", 1); break;
    case KEY_PASTE: paste(d); break;
    case CTL('l'):
        fputs("\033[H\033[2J", stdout);
        d->above = 0;
        break;
    default: break;
    }
}

static line_result edit_text(edit *d)
{
    for (;;) {
        if (!system_key_waits()) /* what is typed faster than it is drawn is drawn once */
            draw(d);
        int key = read_byte();
        if (key == 27)
            key = read_escape();
        if (key == '\r' || key == '\n') /* the terminal made '\n' of what was typed before */
            return LINE_OK;
        if (key == CTL('c'))
            return LINE_INTERRUPTED;
        if (key == KEY_EOF || (key == CTL('d') && !d->n))
            return LINE_END;
        if ((key >= 32 && key < 256 && key != 127) || key == '\t') {
            char c = (char)key;
            insert_bytes(d, &c, 1);
        } else {
            move_or_delete(d, key);
        }
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

static line_result read_plain(char **text)
{
    size_t n = 0, cap = 0;
    *text = NULL;
    for (int c = getchar(); c != '\n'; c = getchar()) {
        if (c == EOF && !n) {
            free(*text);
            *text = NULL;
            return LINE_END;
        }
        if (c == EOF)
            break;
        if (n + 2 > cap)
            *text = cli_realloc(*text, cap = 2 * cap + 128);
        (*text)[n++] = (char)c;
    }
    *text = cli_realloc(*text, n + 1);
    if (RX_BACKSLASH && n && (*text)[n - 1] == '\r') /* as Windows ends lines */
        n--;
    (*text)[n] = 0;
    return LINE_OK;
}

line_result line_read(line_editor *e, const char *prompt, const char *start, char **text)
{
    if (!e->editing || !system_raw_begin())
        return read_plain(text);
    char *styled = cli_format("%s%s%s", term_style(stdout, TERM_GREEN), prompt,
                              term_style(stdout, TERM_PLAIN));
    edit d = {.e = e, .prompt = styled, .row = e->n_history};
    set_text(&d, start ? start : "");
    fputs("\033[?2004h", stdout);
    line_result r = edit_text(&d);
    d.at = d.n; /* what follows goes below the text */
    draw(&d);
    fputs("\033[?2004l\r\n", stdout);
    fflush(stdout);
    system_raw_end();
    free(d.kept);
    free(styled);
    if (r != LINE_OK) {
        free(d.text);
        d.text = NULL;
    }
    *text = d.text;
    return r;
}
