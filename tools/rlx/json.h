/* SPDX-License-Identifier: MIT */
/* Writes JSON to standard output or a file, one value after the other. `key` is NULL inside arrays
 * and at the top. Objects inside arrays of rows are written on one line. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH 16
typedef struct json {
    FILE *f;
    int depth;
    bool used[JSON_DEPTH];  /* an element was written on this level */
    bool flat[JSON_DEPTH];  /* this level is on one line */
    char close[JSON_DEPTH]; /* what ends this level */
} json;

void json_object(json *j, const char *key);
void json_row(json *j, const char *key);   /* an object on one line */
void json_array(json *j, const char *key);
void json_list(json *j, const char *key);  /* an array on one line */
void json_end(json *j);                    /* the innermost of them; the last one adds a newline */
void json_text(json *j, const char *key, const char *value); /* NULL gives null */
void json_int(json *j, const char *key, int64_t value);
void json_real(json *j, const char *key, double value);      /* NaN and infinity give null */
void json_bool(json *j, const char *key, bool value);

#endif
