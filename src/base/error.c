/* SPDX-License-Identifier: MIT */
/* Statuses, error texts and the log callback. */
#include "base/error.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

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

/* ---- Texts ----------------------------------------------------------------------------------- */

#define MAX_RAW 8192
#define NAME_END 48 /* bytes kept at either end of a name that is too long */

/* Moves an offset in a text out of the middle of a UTF-8 sequence. */
static const char *begin_of_char(const char *at)
{
    for (int i = 0; i < 3 && ((unsigned char)*at & 0xc0) == 0x80; i++)
        at--;
    return at;
}

/* Elides the middle of the longest text in single quotes; false when all are short. */
static bool shorten_name(char *text)
{
    char *longest = NULL, *end = NULL;
    for (char *at = strchr(text, '\''), *next; at && (next = strchr(at + 1, '\'')); at = next)
        if (!longest || next - at > end - longest) {
            longest = at;
            end = next;
        }
    if (!longest || end - longest < 3 * NAME_END)
        return false;
    char *from = (char *)(uintptr_t)begin_of_char(longest + 1 + NAME_END);
    const char *to = begin_of_char(end - NAME_END);
    memcpy(from, "...", 3);
    memmove(from + 3, to, strlen(to) + 1);
    return true;
}

rlx_status rx_vfail(rlx_error *err, rlx_status code, const char *fmt, va_list args)
{
    char raw[MAX_RAW];
    if (!err)
        return code;
    vsnprintf(raw, sizeof raw, fmt, args);
    err->code = code;
    while (rlx_escape_text(raw, strlen(raw), true, err->text, sizeof err->text) >=
               sizeof err->text &&
           shorten_name(raw))
        continue;
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

rlx_status rx_need(const void *p, const char *what, rlx_error *err)
{
    return p ? RLX_OK : rx_fail(err, RLX_INVALID, "%s is NULL", what);
}

rlx_status rx_fail_memory(rlx_error *err, const char *what, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024)
        return rx_fail(err, RLX_NO_MEMORY, "out of memory: %s needs %u bytes", what,
                       (unsigned)bytes);
    size_t i = 0;
    double v = (double)bytes / 1024;
    for (; v >= 1024 && i + 1 < sizeof units / sizeof *units; i++)
        v /= 1024;
    return rx_fail(err, RLX_NO_MEMORY, "out of memory: %s needs %.1f %s", what, v, units[i]);
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
    char raw[1024], text[sizeof raw];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    rlx_escape_text(raw, strlen(raw), true, text, sizeof text);
    rx_mutex_lock(&log_lock);
    if (log_fn)
        log_fn(log_user, level, text);
    rx_mutex_unlock(&log_lock);
}
