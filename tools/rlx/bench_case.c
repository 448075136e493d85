/* SPDX-License-Identifier: MIT */
/* Benchmark cases: parsing of their names, and the suite. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* ---- Reading a name -------------------------------------------------------------------------- */

static bool parse_shape(const char *text, size_t length, rlx_shape *s)
{
    const char *end = text + length;
    *s = (rlx_shape){0};
    while (text < end) {
        char *next;
        errno = 0;
        long long v = strtoll(text, &next, 10);
        if (next == text || errno || v < 0 || v > INT64_C(1) << 40 || s->rank == RLX_MAX_RANK)
            return false;
        s->dim[s->rank++] = v;
        if (next == end)
            return true;
        if (*next != 'x')
            return false;
        text = next + 1;
    }
    return false;
}

static int add_attribute(bench_case *c, const char *text, size_t length)
{
    static const char *const own[] = {"kv", "pad", "stride"};
    int64_t *const values[] = {&c->kv, &c->pad, &c->stride};
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        size_t n = strlen(own[i]);
        if (strncmp(text, own[i], n) || text[n] != '=' || text[n + 1] == '[')
            continue;
        char *end;
        *values[i] = strtoll(text + n + 1, &end, 10);
        if (end != text + length || *values[i] < 0)
            return cli_usage("'%s': %s expected a number", c->name, own[i]);
        return EXIT_OK;
    }
    size_t used = strlen(c->attributes);
    if (used + length + 3 > sizeof c->attributes)
        return cli_usage("'%s': too many attributes", c->name);
    snprintf(c->attributes + used, sizeof c->attributes - used, "%s%.*s", used ? ", " : "",
             (int)length, text);
    return EXIT_OK;
}

static int add_shapes(bench_case *c, const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end) {
        size_t n = strcspn(text, ",:");
        if (c->n_shapes == BENCH_SHAPES)
            return cli_usage("'%s': at most %d shapes", c->name, BENCH_SHAPES);
        if (!parse_shape(text, n, &c->shapes[c->n_shapes++]))
            return cli_usage("'%s': expected a shape such as 64x128, got '%.*s'", c->name, (int)n,
                             text);
        text += n + (text[n] == ',');
    }
    return EXIT_OK;
}

static int check_op(const bench_case *c)
{
    const char *names[512], *op;
    size_t n = 0;
    if (bench_is_model(c->op))
        return EXIT_OK;
    for (; (op = rlx_op_name(n)) != NULL && n < ARRAY_LEN(names); n++) {
        names[n] = op;
        if (!strcmp(op, c->op))
            return EXIT_OK;
    }
    const char *near = cli_nearest(c->op, names, n);
    if (near)
        return cli_usage("'%s': unknown operation '%s'; did you mean '%s'?", c->name, c->op, near);
    return cli_usage("'%s': unknown operation '%s'", c->name, c->op);
}

int bench_parse(bench_case *c, const char *text)
{
    *c = (bench_case){.pad = -1};
    snprintf(c->name, sizeof c->name, "%s", text);
    size_t n = strcspn(text, ":"), t = text[n] ? strcspn(text + n + 1, ":") : 0;
    snprintf(c->op, sizeof c->op, "%.*s", (int)n, text);
    int status = check_op(c);
    if (status)
        return status;
    if (!t || !text[n + 1 + t])
        return cli_usage("'%s': expected OP:TYPE:SHAPE, for example %s:f32:1024x1024", text, c->op);
    char type[16];
    snprintf(type, sizeof type, "%.*s", (int)t, text + n + 1);
    c->dtype = rlx_dtype_from_name(type);
    if (c->dtype == RLX_NO_TYPE)
        return cli_usage("'%s': unknown type '%s'; expected f32, f16, bf16, i32, q4_0, ...", text,
                         type);
    for (const char *at = text + n + 1 + t; *at == ':' && !status;) {
        at++;
        size_t length = strcspn(at, ":");
        bool attribute = memchr(at, '=', length) != NULL;
        status = attribute ? add_attribute(c, at, length) : add_shapes(c, at, length);
        at += length;
    }
    if (!status && !c->n_shapes)
        return cli_usage("'%s': a shape is missing", text);
    return status;
}

/* ---- The suite ------------------------------------------------------------------------------- */

static const char *const suite[] = {
    "matmul:f32:64x64x64", "matmul:f32:256x256x256", "matmul:f32:512x512x512",
    "matmul:f32:1024x1024x1024", "matmul:f32:129x127x131", "matmul:f32:1x4096x4096",
    "matmul:f16:512x512x512", "matmul:bf16:512x512x512", "matmul:f32:8x128x128x64",
    "dequant_matmul:q4_0:1x14336x4096", "dequant_matmul:q8_0:1x4096x4096",
    "dequant_matmul:q4_k:1x4096x4096", "dequant_matmul:q6_k:1x4096x4096",
    "dequant_matmul:q4_0:128x1024x1024",
    "attention:f32:1x8x256x64", "attention:f16:1x32x1x128,1x8x1024x128",
    "attention:f32:1x8x256x64:kv=2:causal=true", "rope:f32:1x32x128x128",
    "conv2d:f32:1x64x56x56:64x3x3", "conv2d:f32:1x64x56x56:256x1x1",
    "conv2d:f32:1x64x56x56:64x3x3:groups=64", "conv2d:f32:1x3x224x224:64x7x7:stride=2:pad=3",
    "pool2d:f32:1x64x112x112", "resize_nearest_2x:f32:1x64x56x56",
    "layer_norm:f32:1024x1024", "rms_norm:f32:1024x1024", "residual_norm:f32:1024x1024",
    "group_norm:f32:1x64x56x56", "softmax:f32:1024x1024", "log_softmax:f32:1024x1024",
    "gelu:f32:1048576", "silu:f32:1048576", "exp:f32:1048576", "tanh:f32:1048576",
    "add:f32:1024x1024", "add:f32:1024x1024,1024", "mul:f16:1024x1024", "where:f32:1024x1024",
    "swiglu:f32:1024x1024", "cast:f32:1024x1024", "copy:f32:1024x1024",
    "transpose:f32:1024x1024", "concat:f32:512x1024,512x1024", "gather:f32:32000x1024,512",
    "gather:q4_0:32000x1024,512",
    "reduce_sum:f32:1024x1024", "reduce_max:f32:1024x1024", "argmax:f32:1024x1024",
    "cumsum:f32:1024x1024", "top_k:f32:64x32000", "sort:f32:64x4096",
    "rfft:f32:256x1024", "fft:f32:64x1000x2", "stft:f32:16x16000",
    "lstm:f32:64x8x128x128", "selective_scan:f32:1x128x512x16",
};

const char *bench_suite(size_t i)
{
    return i < ARRAY_LEN(suite) ? suite[i] : NULL;
}
