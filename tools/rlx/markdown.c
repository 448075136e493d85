/* SPDX-License-Identifier: MIT */
/* The renderer is a state machine over bytes. A run of marks (`, *, #) or the beginning of a line
 * is held until the byte after it says what it is. */
#include "markdown.h"

#include <string.h>

#include "term.h"

void markdown_init(markdown *m, FILE *f)
{
    *m = (markdown){.styled = *term_style(f, TERM_BOLD) != 0};
    wrap_init(&m->out, f);
}

static void style(markdown *m, const char *name)
{
    wrap_style(&m->out, term_style(m->out.f, name));
}

static void write_text(markdown *m, const char *text, size_t n)
{
    wrap_text(&m->out, text, n, m->fence);
}

/* The styles that hold now, from none. */
static void restyle(markdown *m)
{
    style(m, TERM_PLAIN);
    if (m->fence || m->code)
        style(m, TERM_YELLOW);
    if (m->strong || m->heading)
        style(m, TERM_BOLD);
}

static bool held_is(const markdown *m, const char *text)
{
    return m->n_held == strlen(text) && !memcmp(m->held, text, m->n_held);
}

static bool held_all(const markdown *m, char c)
{
    for (size_t i = 0; i < m->n_held; i++)
        if (m->held[i] != c)
            return false;
    return m->n_held > 0;
}

static void write_held(markdown *m)
{
    write_text(m, m->held, m->n_held);
    m->text_began = true;
}

/* What is held has ended before `next`: a mark, or text. */
static void resolve(markdown *m, char next)
{
    const bool begins = !m->text_began, blank = next == ' ' || next == '\n';
    if (begins && held_all(m, '`') && m->n_held >= 3) {
        m->fence = !m->fence;
        restyle(m);
        write_held(m);
    } else if (m->fence) {
        write_held(m);
    } else if (held_is(m, "`")) {
        m->code = !m->code;
        restyle(m);
        m->text_began = true;
    } else if (m->code) {
        write_held(m);
    } else if (begins && held_all(m, '#') && next == ' ') {
        m->heading = true;
        restyle(m);
        write_held(m);
    } else if (begins && (held_is(m, "*") || held_is(m, "-")) && next == ' ') {
        write_text(m, "\xe2\x80\xa2", 3); /* a bullet */
        m->text_began = true;
    } else if (held_is(m, "**") && (m->strong || !blank)) {
        m->strong = !m->strong;
        restyle(m);
        m->text_began = true;
    } else {
        write_held(m);
    }
    m->n_held = 0;
}

static void end_line(markdown *m)
{
    const bool styled = m->heading || m->code || m->strong;
    m->heading = m->code = m->strong = m->text_began = false;
    if (styled)
        restyle(m); /* a mark without its twin ends with its line */
}

static bool is_mark(const markdown *m, char c)
{
    return c == '`' || (!m->fence && c == '*') || (!m->text_began && (c == '#' || c == '-'));
}

void markdown_write(markdown *m, const char *text, size_t n)
{
    if (!m->styled) {
        write_text(m, text, n);
        return;
    }
    size_t from = 0; /* of the bytes that are plain text */
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        const bool goes_on = m->n_held && m->held[0] == c && m->n_held < sizeof m->held;
        if (goes_on || (!m->n_held && is_mark(m, c))) {
            write_text(m, text + from, i - from);
            from = i + 1;
            m->held[m->n_held++] = c;
            continue;
        }
        if (m->n_held) {
            resolve(m, c);
            from = i--; /* this byte may be a mark itself */
            continue;
        }
        if (c == '\n') {
            write_text(m, text + from, i + 1 - from);
            from = i + 1;
            end_line(m);
        } else if (c != ' ') {
            m->text_began = true;
        }
    }
    write_text(m, text + from, n - from);
}

void markdown_end(markdown *m)
{
    if (m->n_held)
        resolve(m, '\n');
    if (m->styled)
        style(m, TERM_PLAIN);
    wrap_end(&m->out);
    m->fence = m->code = m->strong = m->heading = m->text_began = false;
}
