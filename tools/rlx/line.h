/* SPDX-License-Identifier: MIT */
/* The line editor of rlx chat: moving, deleting, history, several lines, text pasted as one piece.
 * Plain reading when input or output is no terminal. */
#ifndef LINE_H
#define LINE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct line_editor {
    bool editing;       /* input and output are terminals */
    char **history;     /* oldest first */
    size_t n_history;
} line_editor;

typedef enum line_result { LINE_OK, LINE_INTERRUPTED, LINE_END } line_result;

void line_init(line_editor *e);
void line_finish(line_editor *e);
/* Adds a text to the history unless it is empty or the last one again; true when it was added. */
bool line_remember(line_editor *e, const char *text);
/* Reads a text without its last newline to *text, freed with free. INTERRUPTED: Ctrl-C was pressed;
 * END: no more input (Ctrl-D on an empty line). `prompt` is shown, and `start` (NULL: nothing) can
 * be edited, when editing. */
line_result line_read(line_editor *e, const char *prompt, const char *start, char **text);

/* Columns of a terminal that the first character of s takes, and *bytes its bytes. Bytes that are
 * no UTF-8 take a column each. */
size_t line_width(const char *s, size_t n, size_t *bytes);

#endif
