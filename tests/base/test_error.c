/* SPDX-License-Identifier: MIT */
/* Texts of errors and log lines: nothing in them can command a terminal, names that are too long
 * are shortened so that the rest of the sentence stays. */
#include "base/error.h"

#include <stdlib.h>

#include "check.h"

static bool escapes_to(const char *text, size_t n, bool lines, const char *want)
{
    char out[256];
    const size_t length = rlx_escape_text(text, n, lines, out, sizeof out);
    bool ok = length == strlen(want) && !strcmp(out, want) &&
              rlx_escape_text(text, n, lines, NULL, 0) == length;
    if (!ok)
        printf("    '%s' instead of '%s'\n", out, want);
    return ok;
}
#define ESCAPES(text, want) CHECK(escapes_to(text, sizeof text - 1, false, want))

static void test_escape(void)
{
    ESCAPES("", "");
    ESCAPES("blk.0.w \"a\\b\" \xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80",
            "blk.0.w \"a\\b\" \xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80");
    ESCAPES("\x1b[31mred\x07\x7f\r\b", "\\x1b[31mred\\x07\\x7f\\x0d\\x08");
    ESCAPES("a\nb\tc", "a\\nb\\tc");
    CHECK(escapes_to("a\nb\tc\r\n", 7, true, "a\nb\tc\\x0d\n"));
    CHECK(escapes_to("a\0b", 3, true, "a\\x00b"));
    /* C1 as characters and as bytes; CSI is U+009B. */
    ESCAPES("\xc2\x9b" "31m \xc2\x85 \xc2\xa0", "\\u009b31m \\u0085 \xc2\xa0");
    ESCAPES("\x9b" "31m", "\\x9b31m");
    /* Overrides and isolates; the joiners that scripts and emoji need stay. */
    ESCAPES("\xe2\x80\xae" "fdp.exe\xe2\x81\xa6", "\\u202efdp.exe\\u2066");
    ESCAPES("\xe2\x80\x8d\xe2\x80\x8c\xe2\x80\x8f", "\xe2\x80\x8d\xe2\x80\x8c\xe2\x80\x8f");
    /* No UTF-8: cut, overlong, a surrogate, past the last character, a lone continuation. */
    ESCAPES("\xe2\x82", "\\xe2\\x82");
    ESCAPES("\xc0\xaf \xe0\x80\x9b", "\\xc0\\xaf \\xe0\\x80\\x9b");
    ESCAPES("\xed\xa0\x80 \xf4\x90\x80\x80", "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");
    ESCAPES("\xff\xfe\x80" "a", "\\xff\\xfe\\x80" "a");
    /* Cut between characters and between escapes. */
    static const size_t fits[] = {0, 0, 1, 2, 2, 2, 5, 5, 5, 5, 9, 10};
    for (size_t cap = 1; cap < sizeof fits / sizeof *fits; cap++) {
        char out[16];
        memset(out, '#', sizeof out);
        CHECK(rlx_escape_text("ab\xe2\x82\xac\x1b" "c", 7, true, out, cap) == 10);
        CHECK(strlen(out) == fits[cap] && out[cap] == '#' &&
              !strncmp("ab\xe2\x82\xac\\x1b" "c", out, fits[cap]));
    }
}

static void test_errors(void)
{
    rlx_error err = {0};
    CHECK(rx_fail(&err, RLX_PARSE, "tensor '%s'", "a\x1b]0;owned\x07") == RLX_PARSE);
    CHECK(!strcmp(err.text, "tensor 'a\\x1b]0;owned\\x07'"));
    CHECK(rx_fail(NULL, RLX_IO, "%d", 1) == RLX_IO);
    rx_fail(&err, RLX_IO, "again: %s", err.text); /* from its own text */
    CHECK(!strcmp(err.text, "again: tensor 'a\\x1b]0;owned\\x07'"));
    /* Two paths of 3000 letters of two bytes each: their ends and the sentence stay. */
    char path[6100] = "/begin";
    for (int i = 0; i < 3000; i++)
        strcat(path + 2 * i, "\xc3\xb6");
    strcat(path, "/end");
    rx_fail(&err, RLX_IO, "cannot read '%s': no such file", path);
    CHECK(strstr(err.text, "cannot read '/begin\xc3\xb6"));
    CHECK(strstr(err.text, "\xc3\xb6...\xc3\xb6"));
    CHECK(strstr(err.text, "\xc3\xb6/end': no such file") && !strstr(err.text, "\\x"));
    path[3000] = 0;
    rx_fail(&err, RLX_IO, "'%s' is not '%s', says '%s'", path, path, "x");
    CHECK(strstr(err.text, ", says 'x'"));
    /* What has no name to shorten is cut at its end, between characters. */
    rx_fail(&err, RLX_IO, "x%s", path);
    CHECK(strlen(err.text) >= sizeof err.text - 3 && !strstr(err.text, "\\x"));
}

static void take_line(void *user, rlx_log_level level, const char *text)
{
    (void)level;
    snprintf(user, 64, "%s", text);
}

static void test_log(void)
{
    char line[64] = "";
    rlx_set_log(take_line, line, RLX_LOG_INFO);
    rx_log(RLX_LOG_INFO, "file '%s'\nnext", "\x1b[2J");
    CHECK(!strcmp(line, "file '\\x1b[2J'\nnext"));
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
}

int main(void)
{
    test_escape();
    test_errors();
    test_log();
    return check_done();
}
