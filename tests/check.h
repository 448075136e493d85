/* SPDX-License-Identifier: MIT */
/* The little that our test programs need: CHECK counts and reports, check_done ends the program. */
#ifndef RLX_TESTS_CHECK_H
#define RLX_TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

#include "rlx/base.h"

static int check_passed, check_failed;

static inline bool check_that(bool ok, const char *what, const char *file, int line)
{
    if (ok)
        check_passed++;
    else {
        check_failed++;
        printf("%s:%d: failed: %s\n", file, line, what);
    }
    return ok;
}
#define CHECK(x) check_that((x), #x, __FILE__, __LINE__)

/* The call returned `want`; prints the error text when not. */
static inline bool check_status(rlx_status got, rlx_status want, const rlx_error *err,
                                const char *what, const char *file, int line)
{
    bool ok = check_that(got == want, what, file, line);
    if (!ok)
        printf("    expected '%s', got '%s': %s\n", rlx_status_name(want), rlx_status_name(got),
               got != RLX_OK && err ? err->text : "");
    return ok;
}
#define CHECK_OK(call, err) check_status((call), RLX_OK, (err), #call, __FILE__, __LINE__)

/* The call fails with this status and a text that contains `part`. */
static inline void check_error(rlx_status got, rlx_status want, const rlx_error *err,
                               const char *part, const char *file, int line)
{
    if (!check_status(got, want, err, "status", file, line))
        return;
    if (!check_that(strstr(err->text, part) != NULL, part, file, line))
        printf("    the text is: %s\n", err->text);
}
#define CHECK_FAILS(call, want, err, part) \
    check_error((call), (want), (err), (part), __FILE__, __LINE__)

static inline int check_done(void)
{
    printf("%d passed, %d failed\n", check_passed, check_failed);
    return check_failed != 0;
}

#endif
