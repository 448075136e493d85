/* SPDX-License-Identifier: MIT */
/* The bridge, common part: errors, JSON texts, devices. */
#include <string.h>

#include "base/mem.h"
#include "bridge.h"

rlx_error web_last_error;
static rx_str text;

const char *WEB_EXPORT(web_version)(void);
const char *WEB_EXPORT(web_version)(void)
{
    return rlx_version();
}

/* An rlx_error: the code in 4 bytes, then the sentence, ended by a zero byte. */
const rlx_error *WEB_EXPORT(web_error)(void);
const rlx_error *WEB_EXPORT(web_error)(void)
{
    return &web_last_error;
}

const char *WEB_EXPORT(web_status_name)(int status);
const char *WEB_EXPORT(web_status_name)(int status)
{
    return rlx_status_name((rlx_status)status);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

rx_str *web_text_begin(void)
{
    rx_str_finish(&text);
    text = (rx_str){0};
    return &text;
}

const char *web_text_end(void)
{
    if (!text.failed)
        return text.data;
    rx_fail_memory(&web_last_error, "a description", text.n);
    return NULL;
}

void web_json_string(rx_str *s, const char *string)
{
    rx_str_puts(s, "\"");
    for (const unsigned char *p = (const unsigned char *)string; *p; p++) {
        if (*p == '"' || *p == '\\' || *p < 0x20)
            rx_str_printf(s, "\\u%04x", *p);
        else
            rx_str_add(s, (const char *)p, 1);
    }
    rx_str_puts(s, "\"");
}

void web_json_key(rx_str *s, const char *key)
{
    if (s->n && !strchr("{[", s->data[s->n - 1]))
        rx_str_puts(s, ", ");
    web_json_string(s, key);
    rx_str_puts(s, ": ");
}

/* ---- Devices --------------------------------------------------------------------------------- */

static void put_device(rx_str *s, const rlx_device_info *d)
{
    const char *const keys[] = {"id", "backend", "name", "driver", "detail"};
    const char *const values[] = {d->id, d->backend, d->name, d->driver, d->detail};
    rx_str_puts(s, "{");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        web_json_key(s, keys[i]);
        web_json_string(s, values[i]);
    }
    rx_str_printf(s, ", \"software\": %s}", d->is_software ? "true" : "false");
}

/* [{id, backend, name, driver, detail, software}, ...] without the devices for tests */
const char *WEB_EXPORT(web_devices)(void);
const char *WEB_EXPORT(web_devices)(void)
{
    rlx_device_info list[16] = {{RLX_INIT(rlx_device_info)}};
    size_t n;
    rlx_device_list(list, 16, &n, NULL);
    rx_str *s = web_text_begin();
    rx_str_puts(s, "[");
    for (size_t i = 0, shown = 0; i < n && i < 16; i++) {
        if (list[i].is_test)
            continue;
        if (shown++)
            rx_str_puts(s, ", ");
        put_device(s, &list[i]);
    }
    rx_str_puts(s, "]");
    return web_text_end();
}

/* [{name, available, reason}, ...]: why a backend has no device */
const char *WEB_EXPORT(web_backends)(void);
const char *WEB_EXPORT(web_backends)(void)
{
    rlx_backend_info list[16] = {{RLX_INIT(rlx_backend_info)}};
    size_t n;
    rlx_backend_list(list, 16, &n, NULL);
    rx_str *s = web_text_begin();
    rx_str_puts(s, "[");
    for (size_t i = 0; i < n && i < 16; i++) {
        rx_str_puts(s, i ? ", {" : "{");
        web_json_key(s, "name");
        web_json_string(s, list[i].name);
        rx_str_printf(s, ", \"available\": %s", list[i].available ? "true" : "false");
        web_json_key(s, "reason");
        web_json_string(s, list[i].reason);
        rx_str_puts(s, "}");
    }
    rx_str_puts(s, "]");
    return web_text_end();
}

rlx_device *WEB_EXPORT(web_device_open)(const char *id);
rlx_device *WEB_EXPORT(web_device_open)(const char *id)
{
    rlx_device *d;
    return rlx_device_open(id, NULL, &d, &web_last_error) == RLX_OK ? d : NULL;
}

void WEB_EXPORT(web_device_close)(rlx_device *d);
void WEB_EXPORT(web_device_close)(rlx_device *d)
{
    rlx_device_close(d);
}

const char *WEB_EXPORT(web_device_info)(const rlx_device *d);
const char *WEB_EXPORT(web_device_info)(const rlx_device *d)
{
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_device_get_info(d, &info, NULL);
    put_device(web_text_begin(), &info);
    return web_text_end();
}
