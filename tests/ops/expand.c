/* SPDX-License-Identifier: MIT */
/* Expansion of case templates: "$T=f32|f16 $M=1|3 : op($T[$M])" stands for the four texts that the
 * values of $T and $M give. A value may use variables too. */
#include <ctype.h>
#include <string.h>

#include "ops/optest.h"

#define MAX_VARIABLES 16
#define MAX_TEXT 2048
#define MAX_DEPTH 4 /* variables inside the values of variables */

typedef struct variable {
    const char *name;
    size_t name_length;
    const char *values; /* '|' between them */
    size_t length;
    size_t at, at_length; /* the value of the moment, within values */
} variable;

typedef struct expansion {
    variable vars[MAX_VARIABLES];
    size_t n_vars;
    const char *body;
    ot_expand_fn *fn;
    void *user;
    bool failed;
} expansion;

/* ---- The head ------------------------------------------------------------------------------- */

/* The start of the next " $name=" at or after p, or `end`. */
static const char *next_variable(const char *p, const char *end)
{
    for (; p < end; p++) {
        if (p[0] != ' ' || p + 1 >= end || p[1] != '$') continue;
        const char *q = p + 2;
        while (q < end && (isalnum((unsigned char)*q) || *q == '_')) q++;
        if (q < end && *q == '=' && q > p + 2) return p;
    }
    return end;
}

static bool parse_head(expansion *e, const char *head, const char *end)
{
    while (head < end) {
        if (*head != '$' || e->n_vars == MAX_VARIABLES) return false;
        const char *equals = memchr(head, '=', (size_t)(end - head));
        if (!equals) return false;
        const char *stop = next_variable(equals, end);
        variable *v = &e->vars[e->n_vars++];
        v->name = head + 1;
        v->name_length = (size_t)(equals - head - 1);
        v->values = equals + 1;
        v->length = (size_t)(stop - equals - 1);
        head = stop < end ? stop + 1 : end;
    }
    return true;
}

/* ---- The body ------------------------------------------------------------------------------- */

/* The variable with the longest name that the text after a '$' starts with. */
static const variable *find_variable(const expansion *e, const char *text)
{
    const variable *best = NULL;
    for (size_t i = 0; i < e->n_vars; i++) {
        const variable *v = &e->vars[i];
        bool match = strncmp(text, v->name, v->name_length) == 0;
        if (match && (!best || v->name_length > best->name_length)) best = v;
    }
    return best;
}

/* Replaces the variables of `text` once. False when it is too long or names an unknown variable. */
static bool substitute(const expansion *e, const char *text, char out[MAX_TEXT])
{
    size_t n = 0;
    while (*text) {
        const char *piece = text;
        size_t length = 1, skip = 1;
        if (*text == '$') {
            const variable *v = find_variable(e, text + 1);
            if (!v) return false;
            piece = v->values + v->at;
            length = v->at_length;
            skip = 1 + v->name_length;
        }
        if (n + length >= MAX_TEXT) return false;
        memcpy(out + n, piece, length);
        n += length;
        text += skip;
    }
    out[n] = 0;
    return true;
}

static void emit(expansion *e)
{
    char text[2][MAX_TEXT];
    int now = 0;
    if (strlen(e->body) >= MAX_TEXT) {
        e->failed = true;
        return;
    }
    strcpy(text[0], e->body);
    for (int depth = 0; depth < MAX_DEPTH && strchr(text[now], '$'); depth++, now ^= 1) {
        if (!substitute(e, text[now], text[now ^ 1])) {
            e->failed = true;
            return;
        }
    }
    e->fn(e->user, text[now]);
}

/* The cross product of the values of variables `first` and later. */
static void expand_from(expansion *e, size_t first)
{
    if (first == e->n_vars) {
        emit(e);
        return;
    }
    variable *v = &e->vars[first];
    for (size_t at = 0; at <= v->length;) {
        const char *bar = memchr(v->values + at, '|', v->length - at);
        size_t stop = bar ? (size_t)(bar - v->values) : v->length;
        v->at = at;
        v->at_length = stop - at;
        expand_from(e, first + 1);
        at = stop + 1;
    }
}

bool ot_expand(const char *template_text, ot_expand_fn *fn, void *user)
{
    expansion e = {.body = template_text, .fn = fn, .user = user};
    if (*template_text == '$') {
        const char *colon = strstr(template_text, " : ");
        if (!colon || !parse_head(&e, template_text, colon)) return false;
        e.body = colon + 3;
    }
    expand_from(&e, 0);
    return !e.failed;
}
