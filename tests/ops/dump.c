/* SPDX-License-Identifier: MIT */
/* Writes cases and the results of the reference device for tests/numpy/compare.py: cases.jsonl has
 * a line of JSON a case, data.bin the bytes it points to. bf16 and packed tensors are written as
 * f32. Error cases, named dimensions and large tensors are left out. */
#include <math.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ops/optest.h"

#define MAX_ELEMENTS 300000 /* of all tensors of a case; keeps the comparison within a minute */

void ot_json_string(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        const unsigned char ch = (unsigned char)*text;
        if (ch == '"' || ch == '\\') {
            fprintf(f, "\\%c", ch);
        } else if (ch < 32) {
            fprintf(f, "\\u%04x", ch);
        } else {
            fputc(ch, f);
        }
    }
    fputc('"', f);
}

static FILE *open_in(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "wb");
}

bool ot_dump_open(ot_env *env)
{
    mkdir(env->opt.dump, 0777);
    env->dump_cases = open_in(env->opt.dump, "cases.jsonl");
    env->dump_data = open_in(env->opt.dump, "data.bin");
    return env->dump_cases && env->dump_data;
}

void ot_dump_close(ot_env *env)
{
    if (env->dump_cases) fclose(env->dump_cases);
    if (env->dump_data) fclose(env->dump_data);
}

/* ---- Attributes: from the text form to JSON ------------------------------------------------- */

static const char *put_word(FILE *f, const char *p)
{
    size_t n = strcspn(p, ",]} ");
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)n, p);
    char *end;
    const double number = strtod(word, &end);
    if (*end) {
        if (!strcmp(word, "true") || !strcmp(word, "false")) {
            fputs(word, f);
        } else {
            ot_json_string(f, word);
        }
    } else if (isinf(number)) {
        fputs(number < 0 ? "-Infinity" : "Infinity", f);
    } else if (isnan(number)) {
        fputs("NaN", f);
    } else {
        fputs(word, f);
    }
    return p + n;
}

/* "axis=1, sizes=[2,3]}" to "axis": 1, "sizes": [2,3], */
static void put_attrs(FILE *f, const char *p)
{
    while (*p && *p != '}') {
        const size_t n = strcspn(p, "=");
        fprintf(f, "\"%.*s\": ", (int)n, p);
        p += n + 1;
        if (*p == '[') {
            fputc(*p++, f);
            while (*p && *p != ']') {
                p = put_word(f, p);
                if (*p == ',') fputc(*p++, f);
                while (*p == ' ') p++;
            }
            fputc(']', f);
            p++;
        } else {
            p = put_word(f, p);
        }
        fputs(", ", f);
        while (*p == ',' || *p == ' ') p++;
    }
}

/* The attributes after normalisation are those that the printed node has. */
static bool put_node_attrs(FILE *f, const ot_case *c, const rlx_graph *g)
{
    if (!strcmp(c->op, "region")) { /* a program instead of key=value */
        fputs("\"body\": ", f);
        ot_json_string(f, c->attrs);
        fputs(", ", f);
        return true;
    }
    char *text = NULL, key[64];
    size_t length;
    if (rlx_graph_print(g, &text, &length, NULL)) return false;
    snprintf(key, sizeof key, " = %s(", c->op);
    const char *node = NULL;
    for (const char *p = strstr(text, key); p; p = strstr(p + 1, key)) node = p;
    const char *end = node ? strchr(node, '\n') : NULL;
    const char *brace = node ? strchr(node, '{') : NULL;
    if (brace && brace < end) put_attrs(f, brace + 1);
    rlx_free(text);
    return node != NULL;
}

/* ---- Tensors -------------------------------------------------------------------------------- */

static void put_data(ot_env *env, const void *data, size_t bytes)
{
    fwrite(data, 1, bytes, env->dump_data);
    env->dump_bytes += bytes;
    static const char zeros[16] = {0};
    const size_t rest = (size_t)(-env->dump_bytes & 15);
    fwrite(zeros, 1, rest, env->dump_data);
    env->dump_bytes += rest;
}

static void put_tensor(ot_env *env, const ot_tensor *t)
{
    FILE *f = env->dump_cases;
    if (!t->data) {
        fputs("null", f);
        return;
    }
    const bool as_float = t->dtype == RLX_BF16 || rlx_dtype_is_packed(t->dtype);
    fprintf(f, "{\"dtype\": \"%s\", \"stored\": \"%s\", \"offset\": %llu, \"shape\": [",
            rlx_dtype_name(t->dtype), as_float ? "f32" : rlx_dtype_name(t->dtype),
            (unsigned long long)env->dump_bytes);
    for (int i = 0; i < t->rank; i++) fprintf(f, i ? ", %lld" : "%lld", (long long)t->dims[i]);
    fputs("]", f);
    if (!as_float) {
        put_data(env, t->data, t->bytes);
        return;
    }
    float *values = malloc((size_t)(t->elements + 1) * sizeof *values);
    if (!values) return;
    rlx_to_float(t->dtype, t->data, values, t->elements);
    put_data(env, values, (size_t)t->elements * sizeof *values);
    free(values);
}

static void put_tensors(ot_env *env, const char *name, const ot_tensor *t, size_t n)
{
    fprintf(env->dump_cases, ", \"%s\": [", name);
    for (size_t i = 0; i < n; i++) {
        if (i) fputs(", ", env->dump_cases);
        put_tensor(env, &t[i]);
        if (t[i].data) fputs("}", env->dump_cases);
    }
    fputs("]", env->dump_cases);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

/* Where the limit of each element is, null where a result must be equal. */
static void put_limits(ot_env *env, const ot_measure *m, bool more)
{
    if (more) fputs(", ", env->dump_cases);
    if (m->class != OT_NEAR) {
        fputs("null", env->dump_cases);
        return;
    }
    fprintf(env->dump_cases, "{\"offset\": %llu, \"bias\": %.9g}",
            (unsigned long long)env->dump_bytes, isfinite(m->bias) ? m->bias : 0);
    put_data(env, m->limit, (size_t)m->elements * sizeof *m->limit);
}

static void put_case(ot_env *env, const ot_case *c, const ot_built *b, const ot_expectation *e)
{
    FILE *f = env->dump_cases;
    fputs("{\"case\": ", f);
    ot_json_string(f, c->text);
    fprintf(f, ", \"family\": \"%s\", \"op\": \"%s\", \"attrs\": {", c->family, c->op);
    put_node_attrs(f, c, b->graph);
    fputs("\"_\": 0}", f); /* ends the list after a comma */
    put_tensors(env, "in", b->logical, c->n_in);
    put_tensors(env, "out", e->out, e->n_out);
    fputs(", \"limit\": [", f);
    for (size_t i = 0; i < e->n_out; i++) put_limits(env, &e->measure[i], i > 0);
    fputs("]}\n", f);
}

static void dump_built(ot_env *env, ot_case *c, ot_built *b, int64_t elements, ot_report *r)
{
    ot_expectation e = {0};
    rlx_error err = {0};
    rlx_session *s = ot_open_session(env, r, c, b, env->device, NULL, NULL);
    if (!s) return;
    const rlx_status status = ot_expect(env, c, b, s, &e, &err);
    for (size_t i = 0; i < e.n_out; i++) elements += e.out[i].elements;
    if (status) {
        ot_report_status(env, r, "dump", status, &err);
    } else if (elements > MAX_ELEMENTS) {
        r->verdict = OT_SKIP;
    } else {
        put_case(env, c, b, &e);
    }
    rlx_session_destroy(s);
    ot_expectation_finish(&e);
}

void ot_dump_case(ot_env *env, ot_case *c, ot_report *r)
{
    ot_built *b = calloc(1, sizeof *b);
    int64_t elements = 0;
    if (!b || c->error[0] || c->n_dims) {
        r->verdict = OT_SKIP;
        free(b);
        return;
    }
    bool fits = ot_fill_operands(c, b);
    for (size_t i = 0; i < c->n_in; i++) elements += b->logical[i].elements;
    if (!fits || elements > MAX_ELEMENTS) {
        r->verdict = OT_SKIP;
    } else {
        ot_build_graph(c, b);
        dump_built(env, c, b, elements, r);
    }
    ot_built_finish(c, b);
    free(b);
}
