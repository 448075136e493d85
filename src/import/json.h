/* SPDX-License-Identifier: MIT */
/* A strict reader of JSON (RFC 8259) into a tree: valid UTF-8 only, no duplicate keys, no comments,
 * no trailing commas, limited depth. */
#ifndef RX_IMPORT_JSON_H
#define RX_IMPORT_JSON_H

#include "base/error.h"
#include "base/mem.h"

typedef enum rx_json_kind {
    RX_JSON_NULL, RX_JSON_BOOL, RX_JSON_NUMBER, RX_JSON_STRING, RX_JSON_ARRAY, RX_JSON_OBJECT
} rx_json_kind;

typedef struct rx_json rx_json;
struct rx_json {
    rx_json_kind kind;
    bool truth;           /* of a BOOL */
    const char *text;     /* of a STRING, without escapes; of a NUMBER as written; ends in 0 */
    size_t length;
    const char *key;      /* of a member of an object, like text; else NULL */
    size_t key_length;
    rx_json *first, *next; /* elements or members in their order */
    size_t n;              /* of them */
};

/* Nesting deeper than this is refused. */
#define RX_JSON_DEPTH 64

/* Parses n bytes that hold one value. The tree lives in the arena. Errors name the text as `what`
 * and give the byte offset. */
rlx_status rx_json_parse(rx_arena *a, const char *what, const void *text, size_t n,
                         const rx_json **out, rlx_error *err);

/* The member of an object, or NULL; also when v is NULL or no object. */
const rx_json *rx_json_member(const rx_json *v, const char *key);
/* False unless v is a number that is exactly a 64-bit unsigned integer. */
bool rx_json_u64(const rx_json *v, uint64_t *out);
/* Any finite number, independent of the locale; false when v is no number. */
bool rx_json_real(const rx_json *v, double *out);
/* "a string", "an array", ...; "nothing" for NULL. */
const char *rx_json_kind_name(const rx_json *v);

bool rx_utf8_valid(const unsigned char *s, size_t n);

#endif
