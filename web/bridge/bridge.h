/* SPDX-License-Identifier: MIT */
/* What the module gives to JavaScript (web/engine.mjs): the API of rlx with numbers and pointers
 * only. A function returns an rlx_status, or a handle that is 0 on failure; web_error() then has
 * the code and the sentence. Descriptions are JSON, valid until the next call. */
#ifndef RLX_WEB_BRIDGE_H
#define RLX_WEB_BRIDGE_H

#include "base/str.h"
#include "rlx/rlx.h"

/* A function that JavaScript sees under its own name. */
#define WEB_EXPORT(name) __attribute__((export_name(#name))) name

/* The error of the last call that failed. */
extern rlx_error web_last_error;

/* Clears the text of the last description and returns it for a new one. */
rx_str *web_text_begin(void);
/* The text, or NULL with an error when memory ran out. */
const char *web_text_end(void);

/* JSON: a string in quotes; "key": before a value, with a comma before all but the first. */
void web_json_string(rx_str *s, const char *text);
void web_json_key(rx_str *s, const char *key);

#endif
