/* SPDX-License-Identifier: MIT */
/* The line editor over termios and ANSI sequences. Positions are bytes of UTF-8; a character is a
 * lead byte with its continuation bytes and is taken to be one column wide. */
#include "line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"

#define MAX_HISTORY 500

/* Keys above the bytes. */
enum { KEY_LEFT = 256, KEY_RIGHT, KEY_UP, KEY_DOWN, KEY_HOME, KEY_END, KEY_DELETE, KEY_WORD_LEFT,
       KEY_WORD_RIGHT, KEY_NONE, KEY_EOF };
#define CTL(c) ((c) & 0x1f)

typedef struct edit {
    line_editor *e;
    const char *prompt;
    char *text;
    size_t n, cap, at; /* bytes, cursor */
    size_t row;        /* of the history; n_history: the new line */
    char *kept;        /* the new line while the history is shown */
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

static void add_history(line_editor *e, const char *text)
{
    if (!*text || (e->n_history && !strcmp(e->history[e->n_history - 1], text)))
        return;
    if (e->n_history == MAX_HISTORY) {
        free(e->history[0]);
        memmove(e->history, e->history + 1, --e->n_history * sizeof *e->history);
    }
    e->history = cli_realloc_array(e->history, e->n_history + 1, sizeof *e->history);
    e->history[e->n_history++] = cli_format("%s", text);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static bool is_lead(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t next_char(const edit *d, size_t at)
{
    at += at < d->n;
    while (at < d->n && !is_lead(d->text[at]))
        at++;
    return at;
}

static size_t previous_char(const edit *d, size_t at)
{
    while (at > 0 && !is_lead(d->text[--at]))
        continue;
    return at;
}

static size_t columns(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += is_lead(s[i]);
    return count;
}

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

static size_t word_left(const edit *d)
{
    size_t at = d->at;
    while (at > 0 && d->text[at - 1] == ' ')
        at--;
    while (at > 0 && d->text[at - 1] != ' ')
        at--;
    return at;
}

static size_t word_right(const edit *d)
{
    size_t at = d->at;
    while (at < d->n && d->text[at] == ' ')
        at++;
    while (at < d->n && d->text[at] != ' ')
        at++;
    return at;
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

/* ---- Screen ---------------------------------------------------------------------------------- */

static size_t screen_columns(void)
{
    struct winsize w;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || w.ws_col < 20 ? 80 : w.ws_col;
}

/* Draws the row; of a long line the part around the cursor. */
static void draw(const edit *d)
{
    size_t room = screen_columns() - columns(d->prompt, strlen(d->prompt)) - 1;
    size_t first = 0, last = d->n;
    while (columns(d->text + first, d->at - first) >= room)
        first = next_char(d, first);
    while (columns(d->text + first, last - first) > room)
        last = previous_char(d, last);
    printf("\r%s%.*s\033[K", d->prompt, (int)(last - first), d->text + first);
    size_t back = columns(d->text + d->at, last > d->at ? last - d->at : 0);
    if (back)
        printf("\033[%zuD", back);
    fflush(stdout);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static int read_byte(void)
{
    unsigned char c;
    return read(STDIN_FILENO, &c, 1) == 1 ? c : KEY_EOF;
}

/* What follows ESC: "[A", "[3~", "[1;5C", "OH", "b". */
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

static void move_or_delete(edit *d, int key)
{
    switch (key) {
    case KEY_LEFT: case CTL('b'): d->at = previous_char(d, d->at); break;
    case KEY_RIGHT: case CTL('f'): d->at = next_char(d, d->at); break;
    case KEY_HOME: case CTL('a'): d->at = 0; break;
    case KEY_END: case CTL('e'): d->at = d->n; break;
    case KEY_WORD_LEFT: d->at = word_left(d); break;
    case KEY_WORD_RIGHT: d->at = word_right(d); break;
    case KEY_UP: case CTL('p'): show_history(d, -1); break;
    case KEY_DOWN: case CTL('n'): show_history(d, 1); break;
    case KEY_DELETE: case CTL('d'): delete_range(d, d->at, next_char(d, d->at)); break;
    case 127: case CTL('h'): delete_range(d, previous_char(d, d->at), d->at); break;
    case CTL('w'): delete_range(d, word_left(d), d->at); break;
    case CTL('u'): delete_range(d, 0, d->at); break;
    case CTL('k'): delete_range(d, d->at, d->n); break;
    case CTL('l'): fputs("\033[H\033[2J", stdout); break;
    default: break;
    }
}

static line_result edit_line(edit *d)
{
    for (;;) {
        draw(d);
        int key = read_byte();
        if (key == 27)
            key = read_escape();
        if (key == '\r' || key == '\n')
            return LINE_OK;
        if (key == CTL('c'))
            return LINE_INTERRUPTED;
        if (key == KEY_EOF || (key == CTL('d') && !d->n))
            return LINE_END;
        if ((key >= 32 && key < 256 && key != 127) || key == '\t') {
            char c = key == '\t' ? ' ' : (char)key;
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
    (*text)[n] = 0;
    return LINE_OK;
}

line_result line_read(line_editor *e, const char *prompt, char **text)
{
    struct termios before, raw;
    if (!e->editing || tcgetattr(STDIN_FILENO, &before))
        return read_plain(text);
    raw = before;
    raw.c_iflag &= (tcflag_t) ~(ICRNL | IXON | INPCK | ISTRIP | BRKINT);
    raw.c_lflag &= (tcflag_t) ~(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw))
        return read_plain(text);
    edit d = {.e = e, .prompt = prompt, .row = e->n_history};
    set_text(&d, "");
    line_result r = edit_line(&d);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    putchar('\n');
    fflush(stdout);
    free(d.kept);
    if (r != LINE_OK) {
        free(d.text);
        d.text = NULL;
    } else {
        add_history(e, d.text);
    }
    *text = d.text;
    return r;
}
