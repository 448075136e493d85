/* SPDX-License-Identifier: MIT */
/* Writing JSON into a string. */
#ifndef RX_SERVE_JSON_OUT_H
#define RX_SERVE_JSON_OUT_H

#include "base/str.h"
#include "import/json.h"

/* A string in quotes. Invalid UTF-8 becomes U+FFFD. */
void rx_put_text(rx_str *s, const char *text, size_t n);
void rx_put_string(rx_str *s, const char *text); /* terminated by 0; NULL gives null */
/* A number; null for NaN and infinities. */
void rx_put_number(rx_str *s, double v);
/* A value as it was read, without white space. */
void rx_put_json(rx_str *s, const rx_json *v);
/* A JSON Schema, whose objects have no properties but those that they list (schema.c). */
void rx_put_schema(rx_str *s, const rx_json *v);
/* The same of the arguments of a tool, inside a schema of calls: an object, whatever else it says,
 * whose "$ref" stay within it; NULL: one without members. */
void rx_put_arguments(rx_str *s, const rx_json *v, size_t index);
/* Bytes in base64, in quotes. */
void rx_put_base64(rx_str *s, const void *data, size_t n);

#endif
