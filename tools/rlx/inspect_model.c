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

/* ---- What kind of model it is ---------------------------------------------------------------- */

/* The model is opened on the device that runs nothing, which reads no weights. NULL when it is none
 * that rlx runs; err says why. */
static rlx_model *open_dry(const char *path, rlx_error *err)
{
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = "null", .context = 256};
    rlx_model *m = NULL;
    return rlx_model_open(path, &d, &m, err) == RLX_OK ? m : NULL;
}

static const char *main_type(const totals *s)
{
    size_t best = 0;
    for (size_t i = 1; i < s->n; i++)
        if (s->types[i].bytes > s->types[best].bytes)
            best = i;
    return s->n ? s->types[best].name : "none";
}

/* All that is known of a file. */
typedef struct facts {
    const char *path, *device;
    rlx_file *file;
    totals totals;
    rlx_model *model;     /* NULL: rlx does not run it, why says why */
    rlx_error why;
    model_facts memory;
    bool memory_known;
    int64_t context;      /* asked for; 0: what it was trained for */
} facts;

static void print_summary(const facts *f)
{
    const rlx_model *m = f->model;
    const totals *s = &f->totals;
    rlx_model_info i = {RLX_INIT(rlx_model_info)};
    char count[SHORT_TEXT], bytes[SHORT_TEXT];
    term_line(stdout, "  parameters    %s, mostly %s, %s", short_count(s->all.elements, count),
              main_type(s), short_bytes(s->all.bytes, bytes));
    if (!m) {
        term_line(stdout, "  cannot run    %s", f->why.text);
        return;
    }
    rlx_model_get_info(m, &i, NULL);
    const rlx_tokenizer *t = rlx_model_tokenizer(m);
    if (i.name && *i.name)
        term_line(stdout, "  name          %s", i.name);
    term_line(stdout, "  architecture  %s, %lld layers of width %lld", i.architecture,
              (long long)i.layers, (long long)i.width);
    term_line(stdout, "  vocabulary    %lld tokens%s", (long long)i.vocabulary,
              t ? "" : ", but there is no tokenizer");
    term_line(stdout, "  context       trained for %lld tokens", (long long)i.trained_context);
    if (i.generates)
        term_line(stdout, "  good for      %s", t && rlx_tokenizer_chat_template(t, NULL)
                                                    ? "generate, chat, serve"
                                                    : "generate (it has no chat template)");
    else
        term_line(stdout, "  good for      embed: vectors of %lld numbers",
                  (long long)i.embedding_width);
    const int64_t tokens = i.trained_context < 4096 ? i.trained_context : 4096;
    if (f->memory_known)
        term_line(stdout, "  memory        about %s for %lld tokens",
                  short_bytes(model_total_bytes(&f->memory, tokens), bytes), (long long)tokens);
}

static void json_summary(json *j, const facts *f)
{
    const rlx_model *m = f->model;
    rlx_model_info i = {RLX_INIT(rlx_model_info)};
    json_row(j, "model");
    json_bool(j, "runs", m != NULL);
    if (!m)
        json_text(j, "reason", f->why.text);
    else if (rlx_model_get_info(m, &i, NULL) == RLX_OK) {
        const rlx_tokenizer *t = rlx_model_tokenizer(m);
        json_text(j, "architecture", i.architecture);
        json_int(j, "layers", i.layers);
        json_int(j, "width", i.width);
        json_int(j, "vocabulary", i.vocabulary);
        json_int(j, "trained_context", i.trained_context);
        json_bool(j, "generates", i.generates);
        json_bool(j, "embeds", i.embeds);
        json_bool(j, "chat_template", t && rlx_tokenizer_chat_template(t, NULL));
    }
    json_end(j);
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

static void json_model(const facts *all)
{
    const rlx_file *f = all->file;
    const totals *s = &all->totals;
    json j = {.f = stdout};
    rlx_file_tensor t;
    json_object(&j, NULL);
    json_text(&j, "file", all->path);
    json_text(&j, "format", rlx_file_format(f));
    json_summary(&j, all);
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
    if (all->memory_known)
        model_memory_json(&all->memory, all->context, all->device, &j);
    json_end(&j);
}

int inspect_model(const char *path, const char *device, int64_t context, bool as_json)
{
    facts f = {.path = path, .device = device, .context = context};
    rlx_error err = {0};
    if (rlx_file_open(path, &f.file, &err) != RLX_OK)
        return cli_error(&err);
    f.totals = count_types(f.file);
    f.memory_known = model_facts_read(f.file, f.totals.all.bytes, &f.memory);
    f.model = open_dry(path, &f.why);
    if (as_json)
        json_model(&f);
    else {
        term_line(stdout, "%s: %s, %zu tensors", path, rlx_file_format(f.file),
                  f.totals.all.n_tensors);
        print_summary(&f);
        print_meta(f.file);
        print_tensors(f.file);
        print_totals(&f.totals);
        if (f.memory_known)
            model_memory_print(&f.memory, context, device);
    }
    rlx_model_close(f.model);
    free(f.totals.types);
    rlx_file_close(f.file);
    return EXIT_OK;
}
