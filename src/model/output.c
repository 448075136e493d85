/* SPDX-License-Identifier: MIT */
/* Text of generated tokens and stop strings. */
#include "model/output.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define FIRST_TEXT 4096

static rlx_status copy_stops(rx_text_output *o, const char *const *stop, size_t n, rlx_error *err)
{
    o->stop = rx_alloc_array_zero(n ? n : 1, sizeof *o->stop);
    if (!o->stop)
        return rx_fail_memory(err, "the stop strings", n * sizeof *o->stop);
    for (size_t i = 0; i < n; i++) {
        if (!stop[i] || !stop[i][0])
            return rx_fail(err, RLX_INVALID, "stop string %zu is %s", i,
                           stop[i] ? "empty" : "NULL");
        const size_t bytes = strlen(stop[i]) + 1;
        o->stop[i] = rx_alloc(bytes);
        if (!o->stop[i])
            return rx_fail_memory(err, "a stop string", bytes);
        memcpy(o->stop[i], stop[i], bytes);
        o->n_stop++;
    }
    return RLX_OK;
}

rlx_status rx_text_output_init(rx_text_output *o, const rlx_tokenizer *t, const char *const *stop,
                          size_t n_stop, rlx_error *err)
{
    *o = (rx_text_output){0};
    if (n_stop && (!stop || !t))
        return rx_fail(err, RLX_INVALID, "stop strings need %s",
                       stop ? "a tokenizer, which the model does not have"
                            : "a list, which is NULL");
    RLX_TRY(copy_stops(o, stop, n_stop, err));
    if (t)
        RLX_TRY(rlx_text_stream_create(t, RLX_DECODE_SKIP_SPECIAL, &o->stream, err));
    if (!rx_grow(&o->held, &o->cap_held, FIRST_TEXT, 1))
        return rx_fail_memory(err, "text", FIRST_TEXT);
    return RLX_OK;
}

void rx_text_output_finish(rx_text_output *o)
{
    for (size_t i = 0; i < o->n_stop; i++)
        rx_free(o->stop[i]);
    rx_free(o->stop);
    rx_free(o->held);
    rlx_text_stream_destroy(o->stream);
    *o = (rx_text_output){0};
}

static rlx_status add_text(rx_text_output *o, const char *text, size_t length, rlx_error *err)
{
    memmove(o->held, o->held + o->given, o->n_held - o->given);
    o->n_held -= o->given;
    o->given = 0;
    if (!rx_grow(&o->held, &o->cap_held, o->n_held + length, 1))
        return rx_fail_memory(err, "text", length);
    memcpy(o->held + o->n_held, text, length);
    o->n_held += length;
    return RLX_OK;
}

static bool is_boundary(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* Searches the held-back text for stop strings. True when one is found, at *at; else *at is the
 * start of a partial match, or the end. */
static bool find_stop(const rx_text_output *o, size_t *at)
{
    for (size_t i = 0; i < o->n_held; i++) {
        bool maybe = false;
        if (!is_boundary(o->held[i]))
            continue;
        for (size_t k = 0; k < o->n_stop; k++) {
            size_t length = strlen(o->stop[k]), left = o->n_held - i;
            if (memcmp(o->held + i, o->stop[k], length < left ? length : left))
                continue;
            *at = i;
            if (length <= left)
                return true;
            maybe = true;
        }
        if (maybe)
            return false;
    }
    *at = o->n_held;
    return false;
}

static void give(rx_text_output *o, size_t n, bool stopped, rx_output_text *out)
{
    *out = (rx_output_text){o->held, n, stopped};
    o->given = n;
}

rlx_status rx_text_output_push(rx_text_output *o, int32_t token, rx_output_text *out,
                               rlx_error *err)
{
    size_t length = 0, at;
    const char *text = o->stream ? rlx_text_stream_push(o->stream, token, &length) : "";
    RLX_TRY(add_text(o, text, length, err));
    const bool stopped = find_stop(o, &at);
    give(o, at, stopped, out);
    return RLX_OK;
}

rlx_status rx_text_output_flush(rx_text_output *o, rx_output_text *out, rlx_error *err)
{
    size_t length = 0, at;
    const char *text = o->stream ? rlx_text_stream_finish(o->stream, &length) : NULL;
    RLX_TRY(add_text(o, text ? text : "", length, err));
    const bool stopped = find_stop(o, &at);
    give(o, stopped ? at : o->n_held, stopped, out);
    return RLX_OK;
}
