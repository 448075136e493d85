/* SPDX-License-Identifier: MIT */
/* Errors and log lines: how every fallible function of the library says what went wrong. */
#ifndef RX_BASE_ERROR_H
#define RX_BASE_ERROR_H

#include <stdarg.h>

#include "rlx/base.h"

#if defined(__GNUC__)
#define RX_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))
#else
#define RX_PRINTF(fmt_index, first_arg)
#endif

/* Writes the text into *err (may be NULL) and returns `code`. What a terminal should not get is
 * escaped; of a text that does not fit the longest 'quoted' names are shortened, then its end. */
rlx_status rx_fail(rlx_error *err, rlx_status code, const char *fmt, ...) RX_PRINTF(3, 4);
rlx_status rx_vfail(rlx_error *err, rlx_status code, const char *fmt, va_list args);
/* "out of memory: <what> needs <bytes> bytes". */
rlx_status rx_fail_memory(rlx_error *err, const char *what, uint64_t bytes);

/* RLX_INVALID and "<what> is NULL" where p is; `what` names the function and its argument. */
rlx_status rx_need(const void *p, const char *what, rlx_error *err);

/* Sends a line to the log callback, if one is set and takes this level. */
void rx_log(rlx_log_level level, const char *fmt, ...) RX_PRINTF(2, 3);

/* The one macro that hides control flow: returns from the caller when `expr` fails. */
#define RLX_TRY(expr)                        \
    do {                                     \
        rlx_status try_status_ = (expr);     \
        if (try_status_ != RLX_OK)           \
            return try_status_;              \
    } while (0)

#endif
