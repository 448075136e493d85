/* SPDX-License-Identifier: MIT */
/* Reads one expanded case: op(operand, ...) {attributes} !> expected error (CASES.md). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ops/optest.h"

typedef struct reader {
    const char *p;
    ot_case *c;
    char *why; /* [160] */
} reader;

static bool complain(reader *r, const char *what)
{
    snprintf(r->why, 160, "%s at \"%.40s\"", what, r->p);
    return false;
}

static void skip_blanks(reader *r)
{
    while (*r->p == ' ') r->p++;
}

/* Letters, digits and '_' at the reader. */
static size_t word_length(const char *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
    return n;
}

static bool take(reader *r, char wanted)
{
    skip_blanks(r);
    if (*r->p != wanted) return false;
    r->p++;
    return true;
}

/* ---- Dimensions ----------------------------------------------------------------------------- */

/* "seq<=16" or, later, "seq"; then "*2" and "+1" or "-1" may follow. */
static bool parse_named_dim(reader *r, ot_dim *out)
{
    size_t n = word_length(r->p);
    ot_case *c = r->c;
    size_t i = 0;
    while (i < c->n_dims
           && (strlen(c->dims[i].name) != n || strncmp(c->dims[i].name, r->p, n) != 0)) i++;
    const char *name = r->p;
    r->p += n;
    int64_t bound = -1;
    if (r->p[0] == '<' && r->p[1] == '=') {
        char *end;
        bound = strtoll(r->p + 2, &end, 10);
        r->p = end;
    }
    if (i == c->n_dims) {
        if (bound < 0) return complain(r, "a named dimension without a bound");
        if (i == OT_MAX_DIMS || n >= sizeof c->dims[i].name) return complain(r, "too many names");
        memcpy(c->dims[i].name, name, n);
        c->dims[i].name[n] = 0;
        c->dims[i].bound = bound;
        c->n_dims++;
    }
    *out = (ot_dim){.dim = (int)i, .times = 1, .value = 0};
    char *end = (char *)r->p;
    if (*r->p == '*') out->times = strtoll(r->p + 1, &end, 10);
    r->p = end;
    if (*r->p == '+' || *r->p == '-') out->value = strtoll(r->p, &end, 10);
    r->p = end;
    return true;
}

static bool parse_dims(reader *r, ot_operand *o)
{
    if (take(r, ']')) return true;
    do {
        skip_blanks(r);
        if (o->rank > RLX_MAX_RANK) return complain(r, "too many dimensions");
        ot_dim *d = &o->dims[o->rank++];
        *d = (ot_dim){.dim = -1};
        if (isalpha((unsigned char)*r->p)) {
            if (!parse_named_dim(r, d)) return false;
            continue;
        }
        char *end;
        d->value = strtoll(r->p, &end, 10);
        if (end == r->p) return complain(r, "expected a dimension");
        r->p = end;
    } while (take(r, ','));
    return take(r, ']') || complain(r, "expected ]");
}

/* ---- Modifiers ------------------------------------------------------------------------------ */

typedef struct fill_word {
    const char *name;
    ot_fill_kind kind;
    int n_arg;
} fill_word;

static const fill_word fill_words[] = {
    {"int", OT_INTS, 2},      {"range", OT_RANGE, 2}, {"normal", OT_NORMAL, 2},
    {"extreme", OT_EXTREME, 0}, {"ties", OT_TIES, 0},  {"bool", OT_BOOLS, 1},
    {"zero", OT_VALUE, 0},    {"fill", OT_VALUE, 1},  {"perm", OT_PERM, 0},
    {"distinct", OT_DISTINCT, 0}, {"count", OT_COUNT, 2}, {"wide", OT_WIDE, 0},
    {"rows", OT_ROWS, 0},     {"huge", OT_HUGE, 0},   {"tiny", OT_TINY, 0},
    {"zeros", OT_ZEROS, 0},   {"poison", OT_POISON, 1}, {"poison_rows", OT_POISON_ROWS, 1},
    {"mask", OT_MASK, 1},
};

bool ot_parse_fill(const char *name, size_t length, const double *arg, int n_arg, ot_fill *out)
{
    for (size_t i = 0; i < sizeof fill_words / sizeof fill_words[0]; i++) {
        const fill_word *w = &fill_words[i];
        if (strlen(w->name) != length || strncmp(w->name, name, length) != 0) continue;
        if (n_arg != w->n_arg) return false;
        *out = (ot_fill){w->kind, n_arg > 0 ? arg[0] : 0, n_arg > 1 ? arg[1] : 0};
        return true;
    }
    return false;
}

static bool parse_arguments(reader *r, double arg[2], int *n)
{
    *n = 0;
    if (!take(r, '(')) return true;
    do {
        char *end;
        if (*n == 2) return complain(r, "too many numbers");
        arg[(*n)++] = strtod(r->p, &end);
        if (end == r->p) return complain(r, "expected a number");
        r->p = end;
    } while (take(r, ','));
    return take(r, ')') || complain(r, "expected )");
}

static bool parse_modifier(reader *r, ot_operand *o)
{
    const char *name = r->p;
    size_t n = word_length(name);
    double arg[2];
    int n_arg;
    r->p += n;
    if (!parse_arguments(r, arg, &n_arg)) return false;
    if (n == 5 && !strncmp(name, "const", n)) {
        o->leaf = OT_CONST;
    } else if (n == 5 && !strncmp(name, "param", n)) {
        o->leaf = OT_PARAM;
    } else if (n == 7 && !strncmp(name, "strided", n)) {
        o->strided = true;
    } else if (!ot_parse_fill(name, n, arg, n_arg, &o->fill)) {
        r->p = name;
        return complain(r, "unknown modifier or wrong count of numbers");
    }
    return true;
}

/* ---- The whole case ------------------------------------------------------------------------- */

static bool parse_operand(reader *r)
{
    if (r->c->n_in == OT_MAX_IN) return complain(r, "too many operands");
    ot_operand *o = &r->c->in[r->c->n_in++];
    *o = (ot_operand){0};
    skip_blanks(r);
    if (r->p[0] == '_' && !isalnum((unsigned char)r->p[1])) {
        o->absent = true;
        r->p++;
        return true;
    }
    char type[16];
    size_t n = word_length(r->p);
    if (n == 0 || n >= sizeof type) return complain(r, "expected a type");
    memcpy(type, r->p, n);
    type[n] = 0;
    r->p += n;
    o->dtype = rlx_dtype_from_name(type);
    if (rlx_dtype_is_packed(o->dtype)) o->leaf = OT_PARAM;
    if (take(r, '[') && !parse_dims(r, o)) return false;
    while (take(r, ':')) {
        if (!parse_modifier(r, o)) return false;
    }
    return true;
}

static bool parse_operands(reader *r)
{
    if (!take(r, '(')) return complain(r, "expected (");
    if (take(r, ')')) return true;
    do {
        if (!parse_operand(r)) return false;
    } while (take(r, ','));
    return take(r, ')') || complain(r, "expected , or )");
}

static bool copy_text(reader *r, const char *from, size_t n, char *to, size_t cap)
{
    if (n >= cap) return complain(r, "too long a text");
    memcpy(to, from, n);
    to[n] = 0;
    return true;
}

bool ot_parse(char *text, const char *family, uint64_t seed, ot_case *c, char why[160])
{
    *c = (ot_case){.text = text, .family = family, .seed = ot_hash(text, seed)};
    reader r = {text, c, why};
    skip_blanks(&r);
    size_t n = word_length(r.p);
    if (n == 0) return complain(&r, "expected an op");
    if (!copy_text(&r, r.p, n, c->op, sizeof c->op)) return false;
    r.p += n;
    if (!parse_operands(&r)) return false;

    const char *error = strstr(r.p, "!>");
    const char *end = error ? error : r.p + strlen(r.p);
    if (error) {
        const char *wanted = error + 2;
        while (*wanted == ' ') wanted++;
        if (!copy_text(&r, wanted, strlen(wanted), c->error, sizeof c->error)) return false;
        if (!*wanted) return complain(&r, "an error case without a text");
    }
    skip_blanks(&r);
    if (*r.p == '{') {
        const char *close = end;
        while (close > r.p && close[-1] != '}') close--;
        if (close == r.p) return complain(&r, "expected }");
        if (!copy_text(&r, r.p + 1, (size_t)(close - r.p - 2), c->attrs, sizeof c->attrs)) {
            return false;
        }
        r.p = close;
    }
    skip_blanks(&r);
    return r.p == end || complain(&r, "expected the end of the case");
}
