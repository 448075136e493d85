/* SPDX-License-Identifier: MIT */
/* Lines of text files. */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "input.h"

void lines_free(lines *l)
{
    free(l->data);
    free(l->v);
    free(l->number);
}

void lines_add(lines *l, const char *text, size_t number)
{
    l->v = cli_realloc_array(l->v, l->n + 1, sizeof *l->v);
    l->number = cli_realloc_array(l->number, l->n + 1, sizeof *l->number);
    l->number[l->n] = number;
    l->v[l->n++] = text;
}

int lines_read(const char *path, bool with_empty, lines *out)
{
    size_t n, number = 1;
    out->data = input_read(path, &n);
    if (!out->data)
        return EXIT_FAILED;
    for (char *at = out->data, *end = at + n; at < end;) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        char *next = stop ? stop + 1 : end;
        if (stop)
            *stop = 0;
        at[strcspn(at, "\r")] = 0;
        if (*at || with_empty)
            lines_add(out, at, number);
        number++;
        at = next;
    }
    if (out->n)
        return EXIT_OK;
    return strcmp(path, "-") ? cli_fail("'%s' has no lines of text", path)
                             : cli_fail("standard input has no lines of text");
}
