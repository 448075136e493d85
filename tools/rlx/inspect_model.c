/* SPDX-License-Identifier: MIT */
/* rlx inspect for model files (GGUF, safetensors): metadata, tensors, totals by type, memory. */
#include "inspect_model.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "model_memory.h"
#include "tensor.h"
#include "term.h"

/* How much of a value the table shows. */
#define SHOWN_VALUES 6
#define SHOWN_LETTERS 60

static const char *const kind_names[] = {
    [RLX_META_U64] = "u64",   [RLX_META_I64] = "i64",       [RLX_META_F64] = "f64",
    [RLX_META_BOOL] = "bool", [RLX_META_STRING] = "string",
};

/* ---- Totals ---------------------------------------------------------------------------------- */

typedef struct type_total {
    const char *name;
    size_t n_tensors;
    double elements, bytes;
} type_total;

typedef struct totals {
    type_total *types;
    size_t n;
    type_total all;
} totals;

static totals count_types(const rlx_file *f)
{
    totals s = {0};
    rlx_file_tensor t;
    for (size_t i = 0; rlx_file_tensor_at(f, i, &t); i++) {
        size_t k = 0;
        while (k < s.n && strcmp(s.types[k].name, t.type_name))
            k++;
        if (k == s.n) {
            s.types = cli_realloc_array(s.types, ++s.n, sizeof *s.types);
            s.types[k] = (type_total){.name = t.type_name};
        }
        double elements = (double)tensor_elements(&t.shape);
        type_total *sums[] = {&s.types[k], &s.all};
        for (size_t j = 0; j < ARRAY_LEN(sums); j++) {
            sums[j]->n_tensors++;
            sums[j]->elements += elements;
            sums[j]->bytes += (double)t.bytes;
        }
    }
    return s;
}

/* ---- As text --------------------------------------------------------------------------------- */

/* Long text is cut between two letters. Freed with free. */
static char *short_text(const char *text, size_t length)
{
    size_t n = length < SHOWN_LETTERS ? length : SHOWN_LETTERS;
    while (n < length && n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    char *shown = term_escape(text, n, false);
    char *out = cli_format("%s%s", shown, n < length ? "..." : "");
    free(shown);
    return out;
}

static char *value_text(const rlx_meta *m, size_t i)
{
    uint64_t u = 0;
    int64_t s = 0;
    double d = 0;
    bool b = false;
    const char *text = "";
    size_t length = 0;
    switch (m->kind) {
    case RLX_META_U64:
        rlx_meta_u64(m, i, &u);
        return cli_format("%llu", (unsigned long long)u);
    case RLX_META_I64:
        rlx_meta_i64(m, i, &s);
        return cli_format("%lld", (long long)s);
    case RLX_META_F64:
        rlx_meta_f64(m, i, &d);
        return cli_format("%g", d);
    case RLX_META_BOOL:
        rlx_meta_bool(m, i, &b);
        return cli_format("%s", b ? "true" : "false");
    case RLX_META_STRING:
        break;
    }
    rlx_meta_string(m, i, &text, &length);
    return short_text(text, length);
}

static char *array_text(const rlx_meta *m)
{
    char *out = cli_format("[");
    for (size_t i = 0; i < m->n && i < SHOWN_VALUES; i++) {
        char *value = value_text(m, i), *longer = cli_format("%s%s%s", out, i ? ", " : "", value);
        free(value);
        free(out);
        out = longer;
    }
    char *whole = m->n > SHOWN_VALUES ? cli_format("%s, ...] (%zu)", out, m->n)
                                      : cli_format("%s]", out);
    free(out);
    return whole;
}

static void print_heading(const char *text)
{
    printf("\n%s%s%s\n", term_style(stdout, TERM_BOLD), text, term_style(stdout, TERM_PLAIN));
}

static void print_meta(const rlx_file *f)
{
    rlx_meta m;
    table t;
    print_heading("metadata");
    table_init(&t, "lll", "key|type|value");
    for (size_t i = 0; rlx_file_meta_at(f, i, &m); i++) {
        char *value = m.is_array ? array_text(&m) : value_text(&m, 0);
        table_cell(&t, "%s", m.key);
        table_cell(&t, "%s%s", kind_names[m.kind], m.is_array ? "[]" : "");
        table_cell(&t, "%s", value);
        free(value);
    }
    table_print(&t, 2);
}

static void print_tensors(const rlx_file *f)
{
    rlx_file_tensor x;
    table t;
    print_heading("tensors");
    table_init(&t, "lllr", "name|type|shape|bytes");
    for (size_t i = 0; rlx_file_tensor_at(f, i, &x); i++) {
        char type[TYPE_TEXT], bytes[SHORT_TEXT];
        type_text(RLX_F32, &x.shape, type);
        table_cell(&t, "%s", x.name);
        table_cell(&t, "%s", x.type_name);
        table_cell(&t, "%s", strchr(type, '[') ? strchr(type, '[') : "[]");
        table_cell(&t, "%s", short_bytes((double)x.bytes, bytes));
    }
    table_print(&t, 2);
}

static void print_totals(const totals *s)
{
    char count[SHORT_TEXT], bytes[SHORT_TEXT];
    table t;
    print_heading("totals");
    table_init(&t, "lrrr", "type|tensors|elements|bytes");
    for (size_t i = 0; i < s->n; i++) {
        table_cell(&t, "%s", s->types[i].name);
        table_cell(&t, "%zu", s->types[i].n_tensors);
        table_cell(&t, "%s", short_count(s->types[i].elements, count));
        table_cell(&t, "%s", short_bytes(s->types[i].bytes, bytes));
    }
    table_print(&t, 2);
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void json_value(json *j, const char *key, const rlx_meta *m, size_t i)
{
    uint64_t u = 0;
    int64_t s = 0;
    double d = 0;
    bool b = false;
    const char *text = "";
    size_t length = 0;
    if (m->kind == RLX_META_STRING) {
        rlx_meta_string(m, i, &text, &length);
        char *copy = cli_alloc(length + 1);
        memcpy(copy, text, length);
        json_text(j, key, copy);
        free(copy);
    } else if (m->kind == RLX_META_BOOL && rlx_meta_bool(m, i, &b))
        json_bool(j, key, b);
    else if (m->kind == RLX_META_F64 && rlx_meta_f64(m, i, &d))
        json_real(j, key, d);
    else if (rlx_meta_i64(m, i, &s))
        json_int(j, key, s);
    else if (rlx_meta_u64(m, i, &u))
        json_real(j, key, (double)u); /* 2^63 and more */
}

static void json_meta(json *j, const rlx_file *f)
{
    rlx_meta m;
    json_object(j, "metadata");
    for (size_t i = 0; rlx_file_meta_at(f, i, &m); i++) {
        if (!m.is_array) {
            json_value(j, m.key, &m, 0);
            continue;
        }
        json_list(j, m.key);
        for (size_t k = 0; k < m.n; k++)
            json_value(j, NULL, &m, k);
        json_end(j);
    }
    json_end(j);
}

/* `memory` may be NULL. */
static void json_model(const char *path, const rlx_file *f, const totals *s,
                       const model_facts *memory, int64_t context)
{
    json j = {.f = stdout};
    rlx_file_tensor t;
    json_object(&j, NULL);
    json_text(&j, "file", path);
    json_text(&j, "format", rlx_file_format(f));
    json_meta(&j, f);
    json_array(&j, "tensors");
    for (size_t i = 0; rlx_file_tensor_at(f, i, &t); i++) {
        json_row(&j, NULL);
        json_text(&j, "name", t.name);
        json_text(&j, "type", t.type_name);
        json_shape(&j, "shape", &t.shape);
        json_int(&j, "bytes", (int64_t)t.bytes);
        json_end(&j);
    }
    json_end(&j);
    json_object(&j, "types");
    for (size_t i = 0; i < s->n; i++) {
        json_row(&j, s->types[i].name);
        json_int(&j, "tensors", (int64_t)s->types[i].n_tensors);
        json_int(&j, "elements", (int64_t)s->types[i].elements);
        json_int(&j, "bytes", (int64_t)s->types[i].bytes);
        json_end(&j);
    }
    json_end(&j);
    json_int(&j, "parameters", (int64_t)s->all.elements);
    json_int(&j, "bytes", (int64_t)s->all.bytes);
    if (memory)
        model_memory_json(memory, context, &j);
    json_end(&j);
}

int inspect_model(const char *path, int64_t context, bool as_json)
{
    rlx_file *f;
    rlx_error err = {0};
    if (rlx_file_open(path, &f, &err) != RLX_OK)
        return cli_error(&err);
    totals s = count_types(f);
    model_facts memory;
    const bool known = model_facts_read(f, s.all.bytes, &memory);
    if (as_json)
        json_model(path, f, &s, known ? &memory : NULL, context);
    else {
        char count[SHORT_TEXT], bytes[SHORT_TEXT];
        term_line(stdout, "%s: %s, %zu tensors, %s parameters, %s", path, rlx_file_format(f),
                  s.all.n_tensors, short_count(s.all.elements, count),
                  short_bytes(s.all.bytes, bytes));
        print_meta(f);
        print_tensors(f);
        print_totals(&s);
        if (known)
            model_memory_print(&memory, context);
    }
    free(s.types);
    rlx_file_close(f);
    return EXIT_OK;
}
