/* SPDX-License-Identifier: MIT */
/* Error reporting and logging: how every fallible function of the library reports what failed. */
#ifndef RX_BASE_ERROR_H
#define RX_BASE_ERROR_H

#include <stdarg.h>

#include "rlx/base.h"

#if defined(__GNUC__)
#define RX_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))
#else
#define RX_PRINTF(fmt_index, first_arg)
#endif

/* Formats the message into *err (may be NULL) and returns `code`. Control characters are escaped; a
 * message that does not fit loses the middle of its longest 'quoted' names first, then its end. */
rlx_status rx_fail(rlx_error *err, rlx_status code, const char *fmt, ...) RX_PRINTF(3, 4);
rlx_status rx_vfail(rlx_error *err, rlx_status code, const char *fmt, va_list args);
/* "out of memory: <what> needs <bytes> bytes". */
rlx_status rx_fail_memory(rlx_error *err, const char *what, uint64_t bytes);

/* RLX_INVALID and "<what> is NULL" where p is; `what` names the function and its argument. */
rlx_status rx_need(const void *p, const char *what, rlx_error *err);

/* Calls the log callback, if one is set for this level. */
void rx_log(rlx_log_level level, const char *fmt, ...) RX_PRINTF(2, 3);

/* The one macro that hides control flow: returns from the caller when `expr` fails. */
#define RLX_TRY(expr)                        \
    do {                                     \
        rlx_status try_status_ = (expr);     \
        if (try_status_ != RLX_OK)           \
            return try_status_;              \
    } while (0)

#endif
