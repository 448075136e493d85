/* SPDX-License-Identifier: MIT */
/* kernelc: compiles every kernel of src/gpu/kernels.def with libshaderc (opened at run time) and
 * writes src/gpu/blob.c. Developers only: users build the committed blob.
 *
 *   kernelc LIBSHADERC SHADERS_DIR OUT.c [CACHE_DIR] */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RX_NEEDS_SUBGROUP = 1 << 0, RX_NEEDS_F16 = 1 << 1, RX_NEEDS_STORAGE16 = 1 << 2,
    RX_NEEDS_STORAGE8 = 1 << 3, RX_NEEDS_ADDRESS = 1 << 4, RX_NEEDS_INT_DOT = 1 << 5,
    RX_NEEDS_COOPMAT = 1 << 6, RX_NEEDS_BF16 = 1 << 7, RX_NEEDS_INT8 = 1 << 8,
    RX_NEEDS_COHERENT = 1 << 9, RX_NEEDS_CHAIN = 1 << 10
};

/* What WebGPU has no word for; builds without Vulkan leave such kernels out of the blob. */
#define VULKAN_ONLY (RX_NEEDS_STORAGE16 | RX_NEEDS_STORAGE8 | RX_NEEDS_ADDRESS | \
                     RX_NEEDS_INT_DOT | RX_NEEDS_COOPMAT | RX_NEEDS_BF16 | RX_NEEDS_INT8 | \
                     RX_NEEDS_COHERENT | RX_NEEDS_CHAIN)

typedef struct row {
    const char *name, *file, *defines;
    unsigned needs;
} row;

static const row rows[] = {
#define KERNEL(name, file, defines, bindings, needs) {#name, file, defines, needs},
#include "gpu/kernels.def"
#undef KERNEL
    {NULL, NULL, NULL, 0},
};

typedef struct text {
    char *data;
    size_t n, cap;
} text;

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "kernelc: %s: %s\n", what, detail ? detail : "");
    exit(1);
}

static void append(text *t, const void *data, size_t n)
{
    if (t->n + n + 1 > t->cap) {
        t->cap = (t->n + n + 1) * 2;
        t->data = realloc(t->data, t->cap);
        if (!t->data)
            die("out of memory", "");
    }
    memcpy(t->data + t->n, data, n);
    t->n += n;
    t->data[t->n] = 0;
}

/* ---- Sources --------------------------------------------------------------------------------- */

static text read_file(const char *path)
{
    text t = {0};
    char buffer[65536];
    FILE *f = fopen(path, "rb");
    if (!f)
        die("cannot open", path);
    append(&t, "", 0);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        append(&t, buffer, n);
    fclose(f);
    return t;
}

/* Appends a source with its #include "x" lines replaced by the files. */
static void expand(text *out, const char *dir, const char *file, int depth)
{
    char path[1024], name[256];
    if (depth > 8)
        die("includes nested too deep", file);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    text t = read_file(path);
    for (char *line = t.data, *end; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        if (sscanf(line, "#include \"%255[^\"]\"", name) == 1)
            expand(out, dir, name, depth + 1);
        else
            append(out, line, (size_t)(end - line));
    }
    free(t.data);
}

/* The source with "-DA=1 -DB" as #define lines after #version and #extension lines. */
static text make_source(const char *dir, const row *r)
{
    text body = {0}, out = {0};
    expand(&body, dir, r->file, 0);
    char *at = strstr(body.data, "#version");
    if (!at)
        die("no #version in", r->file);
    at = strchr(at, '\n') + 1;
    append(&out, body.data, (size_t)(at - body.data));
    char defines[512];
    snprintf(defines, sizeof defines, "%s", r->defines);
    for (char *save, *d = strtok_r(defines, " ", &save); d; d = strtok_r(NULL, " ", &save)) {
        char line[256], *eq = strchr(d, '=');
        if (eq)
            *eq = ' ';
        snprintf(line, sizeof line, "#define %s\n", d + 2);
        append(&out, line, strlen(line));
    }
    append(&out, at, strlen(at));
    free(body.data);
    return out;
}

/* ---- Compiler -------------------------------------------------------------------------------- */

typedef void *handle;
static handle library;

static void *symbol(const char *name)
{
    void *p = dlsym(library, name);
    if (!p)
        die("libshaderc lacks", name);
    return p;
}

#define CALL(result, name, ...) ((result(*)(__VA_ARGS__))symbol(#name))

static text compile(const text *source, const row *r)
{
    handle c = CALL(handle, shaderc_compiler_initialize, void)();
    handle o = CALL(handle, shaderc_compile_options_initialize, void)();
    unsigned fresh = RX_NEEDS_COOPMAT | RX_NEEDS_BF16 | RX_NEEDS_INT_DOT;
    unsigned env = r->needs & fresh ? (1u << 22) | (3u << 12) : (1u << 22) | (1u << 12);
    CALL(void, shaderc_compile_options_set_target_env, handle, int, unsigned)(o, 0, env);
    CALL(void, shaderc_compile_options_set_target_spirv, handle, unsigned)
    (o, r->needs & fresh ? 0x010600 : 0x010300);
    CALL(void, shaderc_compile_options_set_optimization_level, handle, int)(o, 2);
    handle result = CALL(handle, shaderc_compile_into_spv, handle, const char *, size_t, int,
                         const char *, const char *, handle)(c, source->data, source->n, 2,
                                                             r->file, "main", o);
    if (CALL(int, shaderc_result_get_compilation_status, handle)(result)) {
        fprintf(stderr, "%s (%s)\n", r->name, r->defines);
        die("does not compile",
            CALL(const char *, shaderc_result_get_error_message, handle)(result));
    }
    text words = {0};
    append(&words, CALL(const char *, shaderc_result_get_bytes, handle)(result),
           CALL(size_t, shaderc_result_get_length, handle)(result));
    CALL(void, shaderc_result_release, handle)(result);
    CALL(void, shaderc_compile_options_release, handle)(o);
    CALL(void, shaderc_compiler_release, handle)(c);
    return words;
}

/* Removes names and source notes (OpSource, OpSourceExtension, OpName, OpMemberName, OpString,
 * OpLine, OpNoLine). */
static void strip(text *t)
{
    uint32_t *w = (uint32_t *)(void *)t->data;
    size_t n = t->n / 4, out = 5;
    for (size_t i = 5; i < n;) {
        uint32_t op = w[i] & 0xffff, length = w[i] >> 16;
        int drop = (op >= 3 && op <= 8) || op == 317;
        if (!drop)
            memmove(w + out, w + i, length * 4);
        out += drop ? 0 : length;
        i += length;
    }
    t->n = out * 4;
}

/* ---- Compression: the format is in gpu/kernels.c --------------------------------------------- */

static void put_varint(text *out, uint32_t v)
{
    for (; v >= 128; v >>= 7)
        append(out, &(unsigned char){(unsigned char)(v | 128)}, 1);
    append(out, &(unsigned char){(unsigned char)v}, 1);
}

/* Words as small numbers: operands as differences from the same operand of the last instruction of
 * the same operation. */
static text transform(const text *in)
{
    static uint32_t last[512][8];
    memset(last, 0, sizeof last);
    text out = {0};
    const uint32_t *w = (const uint32_t *)(const void *)in->data;
    size_t n = in->n / 4;
    for (size_t i = 0; i < 5; i++)
        put_varint(&out, w[i]);
    for (size_t i = 5; i < n;) {
        uint32_t op = w[i] & 0xffff, length = w[i] >> 16;
        put_varint(&out, op);
        put_varint(&out, length);
        for (uint32_t k = 1; k < length; k++) {
            uint32_t *before = &last[op % 512][k < 8 ? k : 7];
            uint32_t d = w[i + k] - *before;
            *before = w[i + k];
            put_varint(&out, d << 1 ^ (uint32_t)((int32_t)d >> 31));
        }
        i += length;
    }
    return out;
}

static void put_length(text *out, size_t n)
{
    for (; n >= 255; n -= 255)
        append(out, "\xff", 1);
    append(out, &(unsigned char){(unsigned char)n}, 1);
}

static void put_run(text *out, const char *literals, size_t n, size_t match, size_t distance)
{
    put_length(out, n);
    append(out, literals, n);
    put_length(out, match);
    if (match)
        put_varint(out, (uint32_t)distance);
}

#define NEAR 16383 /* distances of two bytes */
#define MAX_TRIES 256

/* Length of the longest match of place i before it, and where; chains of places with equal bytes.
 * */
static size_t longest(const text *in, size_t i, const uint32_t *head, const uint32_t *chain,
                      size_t *where)
{
    size_t best = 0;
    uint32_t j = *head;
    for (int tries = 0; j && tries < MAX_TRIES; tries++) {
        size_t at = j - 1, n = 0;
        while (i + n < in->n && in->data[at + n] == in->data[i + n])
            n++;
        if (n > best) {
            best = n;
            *where = at;
        }
        j = chain[at];
    }
    return best;
}

/* `in` from place `at` on; what is before lies there when it is unpacked. */
static text compress(const text *in, size_t at)
{
    static uint32_t heads[1 << 16];
    memset(heads, 0, sizeof heads);
    uint32_t *chain = calloc(in->n + 1, sizeof *chain);
    text out = {0};
    size_t from = at, skip = at;
    for (size_t i = 0; i + 3 <= in->n; i++) {
        const unsigned char *p = (const unsigned char *)in->data + i;
        uint32_t *head = &heads[(p[0] * 506832829u + p[1] * 26544357u + p[2] * 7919u) >> 16];
        size_t where = 0, match = skip ? 0 : longest(in, i, head, chain, &where);
        chain[i] = *head;
        *head = (uint32_t)i + 1;
        if (skip) {
            skip--;
        } else if (match >= (i - where > NEAR ? 6 : 5)) {
            put_run(&out, in->data + from, i - from, match, i - where);
            skip = match - 1;
            from = i + match;
        }
    }
    put_run(&out, in->data + from, in->n - from, 0, 0);
    free(chain);
    return out;
}

/* ---- Output ---------------------------------------------------------------------------------- */

typedef struct entry {
    size_t offset, packed_bytes, small_bytes, n_words, base;
    text small;
} entry;

/* Kernels for every device, then those for Vulkan only, which a macro leaves out. */
typedef struct blob {
    text data;
    size_t n_portable; /* bytes of data */
    entry entries[sizeof rows / sizeof rows[0]];
} blob;

static void write_index(FILE *f, const blob *b, bool vulkan_only)
{
    for (size_t i = 0; rows[i].name; i++) {
        const entry *e = &b->entries[i];
        if (!(rows[i].needs & VULKAN_ONLY) == vulkan_only)
            continue;
        fprintf(f, "    {\"%s\", %zu, %zu, %zu, %zu, %zu},\n", rows[i].name, e->offset,
                e->packed_bytes, e->small_bytes, e->n_words, e->base);
    }
}

/* Each kernel begins a line, so that a change of one leaves the lines of the others. */
static void write_bytes(FILE *f, const blob *b, bool vulkan_only)
{
    for (size_t k = 0; rows[k].name; k++) {
        const unsigned char *data = (const unsigned char *)b->data.data + b->entries[k].offset;
        if (!(rows[k].needs & VULKAN_ONLY) == vulkan_only)
            continue;
        for (size_t i = 0; i < b->entries[k].packed_bytes; i++)
            fprintf(f, "%s%u,", i % 24 ? "" : "\n    ", data[i]);
    }
}

static void write_blob(const char *path, const blob *b)
{
    char temp[1024];
    snprintf(temp, sizeof temp, "%s.tmp%d", path, (int)getpid());
    FILE *f = fopen(temp, "w");
    if (!f)
        die("cannot write", temp);
    fprintf(f, "/* SPDX-License-Identifier: MIT */\n"
               "/* Generated by `./run kernels` from gpu/kernels.def and gpu/shaders: the compiled "
               "kernels. */\n#include \"gpu/blob.h\"\n\n"
               "const rx_blob_entry rx_blob_index[] = {\n");
    write_index(f, b, false);
    fprintf(f, "#ifndef RX_PORTABLE_KERNELS\n");
    write_index(f, b, true);
    fprintf(f, "#endif\n    {0, 0, 0, 0, 0, 0},\n};\n\nconst unsigned char rx_blob_data[] = {");
    write_bytes(f, b, false);
    fprintf(f, "\n#ifndef RX_PORTABLE_KERNELS");
    write_bytes(f, b, true);
    fprintf(f, "\n#endif\n    0,\n};\n");
    fclose(f);
    if (rename(temp, path))
        die("cannot rename", temp);
}

static uint64_t hash_text(const text *t, uint64_t h)
{
    for (size_t i = 0; i < t->n; i++)
        h = (h ^ (unsigned char)t->data[i]) * 0x100000001b3ull;
    return h;
}

/* Compiles, or takes the result of an earlier run with the same source. */
static text cached(const text *source, const row *r, const char *cache)
{
    char path[1024];
    if (!cache)
        return compile(source, r);
    snprintf(path, sizeof path, "%s/%016llx.spv", cache,
             (unsigned long long)hash_text(source, 0xcbf29ce484222325ull + r->needs));
    FILE *f = fopen(path, "rb");
    if (f) {
        fclose(f);
        return read_file(path);
    }
    text words = compile(source, r);
    if ((f = fopen(path, "wb"))) {
        fwrite(words.data, 1, words.n, f);
        fclose(f);
    }
    return words;
}

/* The first kernel from the same source that is in the index whenever kernel i is: how many entries
 * before, 0 for none. */
static size_t find_base(const blob *b, size_t i, const text **small)
{
    size_t n = 0, back = 0;
    for (size_t k = i; k-- > 0;) {
        if (!(rows[k].needs & VULKAN_ONLY) != !(rows[i].needs & VULKAN_ONLY))
            continue;
        n++;
        if (!strcmp(rows[k].file, rows[i].file)) {
            back = n;
            *small = &b->entries[k].small;
        }
    }
    return back;
}

static void add_kernel(blob *b, size_t i, const char *shaders, const char *cache)
{
    text source = make_source(shaders, &rows[i]), words = cached(&source, &rows[i], cache);
    strip(&words);
    entry *e = &b->entries[i];
    const text *base = NULL;
    text both = {0};
    e->base = find_base(b, i, &base);
    e->small = transform(&words);
    append(&both, base ? base->data : "", base ? base->n : 0);
    append(&both, e->small.data, e->small.n);
    text packed = compress(&both, both.n - e->small.n);
    e->offset = b->data.n;
    e->packed_bytes = packed.n;
    e->small_bytes = e->small.n;
    e->n_words = words.n / 4;
    append(&b->data, packed.data, packed.n);
    free(source.data);
    free(words.data);
    free(both.data);
    free(packed.data);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: kernelc LIBSHADERC SHADERS_DIR OUT.c [CACHE_DIR]\n");
        return 2;
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        die("cannot load the shader compiler", dlerror());
    static blob b;
    for (int vulkan_only = 0; vulkan_only < 2; vulkan_only++) {
        for (size_t i = 0; rows[i].name; i++)
            if (!(rows[i].needs & VULKAN_ONLY) != vulkan_only)
                add_kernel(&b, i, argv[2], argc > 4 ? argv[4] : NULL);
        if (!vulkan_only)
            b.n_portable = b.data.n;
    }
    write_blob(argv[3], &b);
    printf("%zu kernels, %zu bytes packed, %zu of them for every device\n",
           sizeof rows / sizeof rows[0] - 1, b.data.n, b.n_portable);
    return 0;
}
