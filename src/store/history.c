/* SPDX-License-Identifier: MIT */
/* The history file is read whole, written to a temporary file and renamed, so that two concurrent
 * conversations lose at most a line of each other and never the file. */
#include "store/history.h"

#include <string.h>

#include "base/env.h"
#include "base/mem.h"
#include "base/outfile.h"
#include "base/posix.h"
#include "base/str.h"

#define PATH_BYTES 2048

static rlx_status find_path(char path[PATH_BYTES], rlx_error *err)
{
    if (!rx_env_history(path, PATH_BYTES))
        return rx_fail(err, RLX_IO, "there is no place for the history: set RLX_HISTORY or HOME");
    return RLX_OK;
}

/* The file, or an empty one if there is none yet. */
static rlx_status open_history(const char *path, rx_file *f, rlx_error *err)
{
    *f = (rx_file){0};
    return rx_access(path, F_OK) ? RLX_OK : rx_file_open_own(path, f, err);
}

static rlx_status call_with(const char *line, size_t n, rx_history_fn *fn, void *user,
                            rlx_error *err)
{
    rx_str s = {0};
    char *text = NULL;
    rx_str_puts(&s, "");
    for (size_t i = 0; i < n; i++) {
        char c = line[i];
        if (c == '\\' && i + 1 < n)
            c = line[++i] == 'n' ? '\n' : line[i];
        if (c)
            rx_str_add(&s, &c, 1);
    }
    RLX_TRY(rx_str_take(&s, &text, NULL, err));
    fn(user, text);
    rx_free(text);
    return RLX_OK;
}

rlx_status rx_history_read(rx_history_fn *fn, void *user, rlx_error *err)
{
    char path[PATH_BYTES];
    rx_file f;
    RLX_TRY(find_path(path, err));
    RLX_TRY(open_history(path, &f, err));
    rlx_status st = RLX_OK;
    for (size_t at = 0; st == RLX_OK && at < f.bytes;) {
        const char *line = (const char *)f.data + at;
        const char *end = memchr(line, '\n', f.bytes - at);
        const size_t n = end ? (size_t)(end - line) : f.bytes - at;
        st = call_with(line, n, fn, user, err);
        at += n + 1;
    }
    rx_file_close(&f);
    return st;
}

/* The last `most` lines of the file. */
static rx_bytes last_lines(const rx_file *f, size_t most)
{
    size_t at = f->bytes, lines = 0;
    while (at > 0 && (f->data[at - 1] != '\n' || ++lines <= most))
        at--;
    return (rx_bytes){f->data + at, f->bytes - at};
}

rlx_status rx_history_append(const char *text, size_t most, rlx_error *err)
{
    char path[PATH_BYTES], *entry = NULL;
    size_t n = 0;
    rx_str s = {0};
    rx_file f;
    RLX_TRY(find_path(path, err));
    for (const char *p = text; *p; p++) {
        if (*p == '\\' || *p == '\n')
            rx_str_puts(&s, "\\");
        rx_str_add(&s, *p == '\n' ? "n" : p, 1);
    }
    rx_str_puts(&s, "\n");
    RLX_TRY(rx_str_take(&s, &entry, &n, err));
    rlx_status st = rx_outfile_make_folders(path, err);
    if (st == RLX_OK)
        st = open_history(path, &f, err);
    if (st == RLX_OK) {
        const rx_bytes old = f.bytes ? last_lines(&f, most - 1) : (rx_bytes){"", 0};
        const rx_bytes pieces[] = {old, {entry, n}};
        rx_outfile out;
        st = rx_outfile_open_cache(path, &out, err);
        if (st == RLX_OK)
            st = rx_outfile_end(&out, pieces, 2, err);
        rx_file_close(&f);
    }
    rx_free(entry);
    return st;
}
