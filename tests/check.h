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

/* Success leaves the error as it was: CHECK_OK puts a mark there, which must outlive the call. */
static rlx_error check_replaced; /* by the mark */

static inline void check_mark(rlx_error *err)
{
    if (!err)
        return;
    check_replaced = *err;
    memset(err, 0x5a, sizeof *err);
    err->text[sizeof err->text - 1] = 0;
}

static inline bool check_is_marked(const rlx_error *err)
{
    rlx_error mark = {0};
    const rlx_error replaced = check_replaced;
    check_mark(&mark);
    check_replaced = replaced;
    return !memcmp(err, &mark, sizeof mark);
}

static inline bool check_success(rlx_status got, rlx_error *err, const char *what,
                                 const char *file, int line)
{
    const bool marked = err && check_is_marked(err);
    if (got == RLX_OK && err && !marked) {
        check_that(false, "success leaves the error as it was", file, line);
        printf("    %s left '%s': %s\n", what, rlx_status_name(err->code), err->text);
    }
    if (marked) /* on failure: the status of an earlier call */
        *err = got == RLX_OK ? (rlx_error){0} : check_replaced;
    return check_status(got, RLX_OK, err, what, file, line);
}
#define CHECK_OK(call, err) \
    (check_mark(err), check_success((call), (err), #call, __FILE__, __LINE__))

/* The call succeeds, or fails with `other` where a fault was put in its way. */
static inline bool check_either(rlx_status got, rlx_status other, rlx_error *err, const char *what,
                                const char *file, int line)
{
    return got == RLX_OK ? check_success(got, err, what, file, line)
                         : check_status(got, other, err, what, file, line);
}
#define CHECK_OK_OR(call, other, err) \
    (check_mark(err), check_either((call), (other), (err), #call, __FILE__, __LINE__))

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

/* The exit status. A program that checked nothing fails: one that cannot run here says why and ends
 * with 77. */
static inline int check_done(void)
{
    printf("%d passed, %d failed\n", check_passed, check_failed);
    if (!check_passed && !check_failed)
        puts("failed: nothing was checked");
    return check_failed != 0 || !check_passed;
}

#endif
