/* SPDX-License-Identifier: MIT */
/* Compiles every kernel of src/gpu/kernels.def with libshaderc (opened at run time) to
 * src/gpu/kernels/NAME.spv. Where a shader includes its .def, it gets the declarations that follow
 * from it. Developers only: users build what is committed.
 *
 *   compile LIBSHADERC SHADERS_DIR OUT_DIR [CACHE_DIR] */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <unistd.h>

#include "common.h"
#include "gpu/params.h"

/* ---- Contracts ------------------------------------------------------------------------------- */

/* Begins a line that is left out when nothing else has its name: a new code changes no kernel. */
#define MAYBE "\1"
#define MAX_PUSH_BYTES (4 * RX_GPU_MAX_PUSH) /* chain.def comes after */

static void print(text *out, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    append(out, line, (size_t)vsnprintf(line, sizeof line, format, args));
    va_end(args);
}

static rx_contract find_family(const char *name)
{
    for (int f = 0; f < RX_N_CONTRACTS; f++)
        if (!strcmp(rx_contracts[f].name, name))
            return (rx_contract)f;
    die("no such family", name);
    return RX_N_CONTRACTS;
}

/* Members of the push block; the first one at byte `at`. */
static void print_push(text *out, rx_contract f, unsigned at)
{
    const rx_param *p;
    for (uint32_t i = 0; (p = rx_contract_push(f, i)); at += 4 * p->words, i++) {
        print(out, "    layout(offset = %u) %s %s", at, p->type, p->name);
        print(out, p->elements ? "[%u];\n" : ";\n", (unsigned)p->elements);
    }
}

/* The constants, the push block and the numbers of the bindings of a kernel. */
static void print_contract(text *out, const row *r)
{
    const rx_contract f = find_family(r->family);
    const bool chains = r->needs & RX_NEEDS_CHAIN;
    const rx_param *p;
    for (uint32_t i = 0; (p = rx_contract_spec(f, i)); i++)
        print(out, "layout(constant_id = %u) const %s %s = %d;\n", (unsigned)i + 1, p->type,
              p->name, (int)p->value);
    if (rx_contracts[f].n_push || chains) {
        print(out, "layout(push_constant) uniform Push {\n");
        print_push(out, f, 0);
        if (chains)
            print_push(out, RX_CONTRACT_chain, MAX_PUSH_BYTES);
        print(out, "};\n");
    }
    for (uint32_t i = 0; (p = rx_contract_bind(f, i)); i++)
        print(out, "#define BIND_%s %u\n", p->name, (unsigned)i);
}

/* What a .def is in a shader: its codes, the loops, or the contract of the kernel. */
static void print_def(text *out, const char *name, const row *r)
{
    const size_t n = strlen(name) - 4;
    for (const rx_code_group *g = rx_code_groups; g->name; g++)
        for (const rx_code *c = g->codes; c->name && !strncmp(g->name, name, n) && !g->name[n]; c++)
            print(out, MAYBE "const uint %s = %u;\n", c->name, (unsigned)c->value);
    for (const rx_code *c = rx_loops; c->name && !strcmp(name, "loops.def"); c++)
        print(out, MAYBE "layout(constant_id = %u) const uint %s = %u;\n",
              RX_FIRST_LOOP + (unsigned)(c - rx_loops), c->name, (unsigned)c->value);
    if (!strncmp(name, r->file, n) && r->file[n] == '.')
        print_contract(out, r);
}

/* ---- Sources --------------------------------------------------------------------------------- */

static bool is_def(const char *file)
{
    const size_t n = strlen(file);
    return n > 4 && !strcmp(file + n - 4, ".def");
}

/* Appends a source of kernel r with its #include "x" lines replaced by the files. */
static void expand(text *out, const char *dir, const char *file, const row *r, int depth)
{
    char path[1024], name[256];
    if (depth > 8)
        die("includes nested too deep", file);
    if (is_def(file)) {
        print_def(out, file, r);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", dir, file);
    text t = read_file(path);
    for (char *line = t.data, *end; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        if (sscanf(line, "#include \"%255[^\"]\"", name) == 1)
            expand(out, dir, name, r, depth + 1);
        else
            append(out, line, (size_t)(end - line));
    }
    free(t.data);
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether the name that begins at `name` stands in the text a second time. */
static bool is_used(const text *t, const char *name, size_t n)
{
    for (const char *at = t->data; (at = strchr(at, *name)); at++)
        if (at != name && !strncmp(at, name, n) && !is_word(at[n]) &&
            (at == t->data || !is_word(at[-1])))
            return true;
    return false;
}

/* The text with those of its MAYBE lines whose constants are used. */
static text drop_unused(const text *t)
{
    text out = {0};
    for (const char *line = t->data, *end; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        const bool maybe = *line == *MAYBE;
        const char *name = maybe ? strstr(line, "const uint ") + strlen("const uint ") : NULL;
        if (!maybe || is_used(t, name, strcspn(name, " ")))
            append(&out, line + maybe, (size_t)(end - line) - maybe);
    }
    return out;
}

/* The source with "-DA=1 -DB" as #define lines after #version and #extension lines. */
static text make_source(const char *dir, const row *r)
{
    text all = {0}, out = {0};
    expand(&all, dir, r->file, r, 0);
    text body = drop_unused(&all);
    free(all.data);
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

/* ---- Output ---------------------------------------------------------------------------------- */

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

static size_t make_kernel(const row *r, const char *shaders, const char *out, const char *cache)
{
    char path[1024];
    text source = make_source(shaders, r), words = cached(&source, r, cache);
    strip(&words);
    snprintf(path, sizeof path, "%s/%s.spv", out, r->name);
    write_if_new(path, &words);
    const size_t n = words.n;
    free(source.data);
    free(words.data);
    return n;
}

static bool is_row(const char *file)
{
    const size_t n = strlen(file);
    for (const row *r = rows; r->name; r++)
        if (n == strlen(r->name) + 4 && !strncmp(file, r->name, n - 4))
            return true;
    return false;
}

/* Kernels without a row. */
static void remove_others(const char *folder)
{
    char path[1024];
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        if (!end || strcmp(end, ".spv") || is_row(e->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%.255s", folder, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: compile LIBSHADERC SHADERS_DIR OUT_DIR [CACHE_DIR]\n");
        return 2;
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        die("cannot load the shader compiler", dlerror());
    size_t bytes = 0, n = 0;
    for (; rows[n].name; n++)
        bytes += make_kernel(&rows[n], argv[2], argv[3], argc > 4 ? argv[4] : NULL);
    remove_others(argv[3]);
    printf("%zu kernels, %zu bytes\n", n, bytes);
    return 0;
}
