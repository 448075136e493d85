/* SPDX-License-Identifier: MIT */
/* Markdown of the terminal: the same styles however the text is cut into pieces. Styles are written
 * as <number> here. */
#include "tools/rlx/markdown.c"
#include "tools/rlx/wrap.c"

#include <stdlib.h>

#include "check.h"

const char *term_style(FILE *f, const char *style)
{
    (void)f;
    return !strcmp(style, TERM_PLAIN) ? "<0>" : !strcmp(style, TERM_BOLD) ? "<1>"
         : !strcmp(style, TERM_YELLOW) ? "<33>" : "<?>";
}

void term_write(FILE *f, const char *text, size_t n)
{
    fwrite(text, 1, n, f);
}

char *term_escape(const char *text, size_t n, bool lines)
{
    (void)lines;
    return strndup(text, n);
}

int term_columns(FILE *f)
{
    (void)f;
    return 12;
}

/* Characters of three bytes and more are those of East Asia and emoji here; styles take nothing. */
size_t term_char_width(const char *s, size_t n, size_t *bytes)
{
    (void)n;
    *bytes = (unsigned char)*s < 0xc0 ? 1 : (unsigned char)*s < 0xe0 ? 2 : 3;
    return *bytes == 3 ? 2 : 1;
}

/* The text in pieces of `size` bytes. */
static char *render(const char *text, size_t size)
{
    char *out = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&out, &bytes);
    markdown m;
    markdown_init(&m, f);
    for (size_t at = 0, n = strlen(text); at < n; at += size)
        markdown_write(&m, text + at, n - at < size ? n - at : size);
    markdown_end(&m);
    fclose(f);
    return out;
}

static void expect(const char *text, const char *want)
{
    for (size_t size = 1; size <= 8; size++) {
        char *got = render(text, size);
        CHECK(!strcmp(got, want));
        if (strcmp(got, want))
            printf("pieces of %zu: '%s' became '%s'\n", size, text, got);
        free(got);
    }
}

/* What a terminal of 12 columns gets. */
static void expect_rows(const char *text, const char *want)
{
    for (size_t size = 1; size <= strlen(text); size += 3) {
        char *out = NULL;
        size_t bytes = 0;
        wrap w = {.f = open_memstream(&out, &bytes), .on = true};
        for (size_t at = 0, n = strlen(text), to; at < n; at = to) {
            to = n - at < size ? n : at + size;
            while ((text[to] & 0xc0) == 0x80) /* pieces have whole characters */
                to++;
            wrap_text(&w, text + at, to - at, *text == '`');
        }
        wrap_end(&w);
        fclose(w.f);
        CHECK(!strcmp(out, want));
        if (strcmp(out, want))
            printf("pieces of %zu: '%s' became '%s'\n", size, text, out);
        free(out);
    }
}

int main(void)
{
    expect_rows("one two three four", "one two \nthree four");
    expect_rows("twelve-chars and more", "twelve-chars\nand more");
    expect_rows("a word of fifteen-columns", "a word of \nfifteen-columns");
    expect_rows("one\n  two three four", "one\n  two three \nfour");
    expect_rows("`code of more than a row", "`code of more than a row");
    expect_rows("abc \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac",
                "abc \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\n\xe6\x9c\xac");
    expect("plain", "plain<0>");
    expect("a **b c** d", "a <0><1>b c<0> d<0>");
    expect("2 * 3 ** 4 and a*b", "2 * 3 ** 4 and a*b<0>");
    expect("use `x * **y**` now", "use <0><33>x * **y**<0> now<0>");
    expect("# Title\ntext", "<0><1># Title\n<0>text<0>");
    expect("#tag and C# 1", "#tag and C# 1<0>");
    expect("- one\n* two\n-1", "\xe2\x80\xa2 one\n\xe2\x80\xa2 two\n-1<0>");
    expect("```c\nint *p; # x\n**q**\n```\n**b**",
           "<0><33>```c\nint *p; # x\n**q**\n<0>```\n<0><1>b<0><0>");
    expect("open **bold\nnext", "open <0><1>bold\n<0>next<0>");
    expect("open `code\nnext", "open <0><33>code\n<0>next<0>");
    expect("end **", "end **<0>");
    return check_done();
}
