/* SPDX-License-Identifier: MIT */
/* A small line editor: moving, deleting, history, on one row of the terminal that scrolls sideways.
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
/* Reads a line without its newline to *text, freed with free. INTERRUPTED: Ctrl-C was pressed; END:
 * no more input (Ctrl-D on an empty line). `prompt` is shown when editing. */
line_result line_read(line_editor *e, const char *prompt, char **text);

#endif
