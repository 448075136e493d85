/* SPDX-License-Identifier: MIT */
/* Packs the compiled kernels into a C file for the library, at build time: the format is described
 * in src/gpu/kernels.c.
 *
 *   pack all|portable KERNELS_DIR OUT.c
 *
 * portable: only those that WebGPU can run and rlx.wasm has a use for. */
#include "common.h"

/* ---- Compression --------------------------------------------- */

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

/* Length of the longest match of place i before it, and where; chains of places with equal
 * bytes. */
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

typedef struct blob {
    text data;
    bool portable;
    entry entries[sizeof rows / sizeof rows[0]];
} blob;

static bool is_packed(const blob *b, size_t i)
{
    return !b->portable || !(rows[i].needs & (RX_NEEDS_VULKAN | RX_NEEDS_ENGINE));
}

/* The first packed kernel from the same source: how many entries before kernel i, 0 for none. */
static size_t find_base(const blob *b, size_t i, const text **small)
{
    size_t n = 0, back = 0;
    for (size_t k = i; k-- > 0;) {
        if (!is_packed(b, k))
            continue;
        n++;
        if (!strcmp(rows[k].file, rows[i].file)) {
            back = n;
            *small = &b->entries[k].small;
        }
    }
    return back;
}

static void add_kernel(blob *b, size_t i, const char *folder)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.spv", folder, rows[i].name);
    text words = read_file(path), both = {0};
    if (words.n < 20 || words.n % 4 || memcmp(words.data, "\x03\x02\x23\x07", 4))
        die("is not SPIR-V", path);
    entry *e = &b->entries[i];
    const text *base = NULL;
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
    free(words.data);
    free(both.data);
    free(packed.data);
}

static void put_text(text *out, const char *s) { append(out, s, strlen(s)); }

static void print(text *out, const char *format, size_t value)
{
    char line[64];
    append(out, line, (size_t)snprintf(line, sizeof line, format, value));
}

static text print_blob(const blob *b)
{
    text t = {0};
    const char *head = "/* Generated by tools/kernels/pack.c from src/gpu/kernels. */\n"
                       "#include \"gpu/blob.h\"\n\nconst rx_blob_entry rx_blob_index[] = {\n";
    put_text(&t, head);
    for (size_t i = 0; rows[i].name; i++) {
        const entry *e = &b->entries[i];
        if (!is_packed(b, i))
            continue;
        put_text(&t, "    {\"");
        put_text(&t, rows[i].name);
        print(&t, "\", %zu", e->offset);
        print(&t, ", %zu", e->packed_bytes);
        print(&t, ", %zu", e->small_bytes);
        print(&t, ", %zu", e->n_words);
        print(&t, ", %zu},\n", e->base);
    }
    const char *middle = "    {0, 0, 0, 0, 0, 0},\n};\n\nconst unsigned char rx_blob_data[] = {";
    put_text(&t, middle);
    for (size_t i = 0; i < b->data.n; i++) {
        if (i % 24 == 0)
            put_text(&t, "\n    ");
        print(&t, "%zu,", (unsigned char)b->data.data[i]);
    }
    put_text(&t, "\n    0,\n};\n");
    return t;
}

int main(int argc, char **argv)
{
    static blob b;
    if (argc != 4 || (strcmp(argv[1], "all") && strcmp(argv[1], "portable"))) {
        fprintf(stderr, "usage: pack all|portable KERNELS_DIR OUT.c\n");
        return 2;
    }
    b.portable = !strcmp(argv[1], "portable");
    for (size_t i = 0; rows[i].name; i++)
        if (is_packed(&b, i))
            add_kernel(&b, i, argv[2]);
    text t = print_blob(&b);
    write_if_new(argv[3], &t);
    free(t.data);
    for (size_t i = 0; rows[i].name; i++)
        free(b.entries[i].small.data);
    free(b.data.data);
    return 0;
}
