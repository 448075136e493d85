/* SPDX-License-Identifier: MIT */
/* Statuses, error texts and the log callback. */
#include "base/error.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/thread.h"

#define STR2(x) #x
#define STR(x) STR2(x)

const char *rlx_version(void)
{
    return STR(RLX_VERSION_MAJOR) "." STR(RLX_VERSION_MINOR) "." STR(RLX_VERSION_PATCH);
}

const char *rlx_status_name(rlx_status status)
{
    static const char *const names[] = {
        [RLX_OK] = "ok",
        [RLX_INVALID] = "invalid",
        [RLX_NOT_FOUND] = "not found",
        [RLX_UNSUPPORTED] = "unsupported",
        [RLX_NO_DEVICE] = "no device",
        [RLX_NO_MEMORY] = "out of memory",
        [RLX_DEVICE_LOST] = "device lost",
        [RLX_IO] = "input/output error",
        [RLX_PARSE] = "malformed",
        [RLX_CANCELLED] = "cancelled",
        [RLX_TIMEOUT] = "timed out",
        [RLX_INTERNAL] = "internal error",
    };
    if ((unsigned)status >= sizeof names / sizeof names[0])
        return "unknown status";
    return names[status];
}

rlx_status rx_vfail(rlx_error *err, rlx_status code, const char *fmt, va_list args)
{
    if (err) {
        err->code = code;
        vsnprintf(err->text, sizeof err->text, fmt, args);
    }
    return code;
}

rlx_status rx_fail(rlx_error *err, rlx_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    rx_vfail(err, code, fmt, args);
    va_end(args);
    return code;
}

rlx_status rx_fail_memory(rlx_error *err, const char *what, uint64_t bytes)
{
    return rx_fail(err, RLX_NO_MEMORY, "out of memory: %s needs %llu bytes", what,
                   (unsigned long long)bytes);
}

/* ---- Log ---------------------------------------------------------------------------------- */

static rx_mutex log_lock = RX_MUTEX_INIT;
static rlx_log_fn *log_fn;
static void *log_user;
static atomic_int log_level = RLX_LOG_OFF;

void rlx_set_log(rlx_log_fn *fn, void *user, rlx_log_level level)
{
    rx_mutex_lock(&log_lock);
    log_fn = fn;
    log_user = user;
    atomic_store(&log_level, fn ? (int)level : (int)RLX_LOG_OFF);
    rx_mutex_unlock(&log_lock);
}

void rx_log(rlx_log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load(&log_level))
        return;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    rx_mutex_lock(&log_lock);
    if (log_fn)
        log_fn(log_user, level, text);
    rx_mutex_unlock(&log_lock);
}
