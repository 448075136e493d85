/* SPDX-License-Identifier: MIT */
/* Hash tables and names that were chosen to fall into one place: with a key of the process they
 * spread. What is looked at is the longest run of full slots, so nothing is timed. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "check.h"
#include "ir/graph.h"
#include "model/tok.h"
#include "rlx/rlx.h"
#include "support/model_file.h"

/* At most half full, thousands of random places have runs of about forty. */
#define LONGEST 256
#define N_NAMES 3000
#define NAME 16

/* ---- The hash -------------------------------------------------------------------------------- */

/* SipHash-1-3 of the words 5 and the bytes 0, 1, 2, ..., from another implementation. */
static void test_vectors(void)
{
    static const struct { size_t n; uint64_t hash; } rows[] = {
        {0, 0xe96b3d2a35b3c330}, {1, 0x2d21f0765a5ad57b},  {7, 0x063d4ee761e9c380},
        {8, 0x8d5443ef9fb03db0}, {9, 0x4f36f1862f2dfc4d},  {15, 0x59af0f86dda1c51d},
        {16, 0x83eadcafd06b75fb}, {63, 0x9a170bcb228486ce}};
    unsigned char bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    rx_hash_set_key(0x0706050403020101, 0x0f0e0d0c0b0a0909);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK(rx_hash_keyed(5, bytes, rows[i].n) == rows[i].hash);
    rx_hash_set_key(0xa0761d6478bd642f, 0xe7037ed1a0b428db);
    CHECK(rx_hash_keyed(5, bytes, 8) != rows[3].hash);
    CHECK(rx_hash_number(1) != 1 && rx_hash_number(1) != rx_hash_number(2));
    CHECK(rx_hash(0, "rlx", 3) == 0xdd1c9fe54ce967fd); /* names files: the same for ever */
}

#if !defined(__wasi__)
/* Two processes have two keys. */
static void test_processes(const char *program)
{
    char command[1100], line[2][64] = {"", ""};
    snprintf(command, sizeof command, "'%.1000s' --hash", program);
    for (int i = 0; i < 2; i++) {
        FILE *f = popen(command, "r");
        CHECK(f && fgets(line[i], sizeof line[i], f));
        if (f)
            pclose(f);
    }
    CHECK(line[0][0] && strcmp(line[0], line[1]) != 0);
}
#endif

/* ---- Names that collide without a key -------------------------------------------------------- */

static char names[N_NAMES][NAME];

/* Names whose unkeyed hash ends in twelve zeros: one place in every table of up to 4096 slots. */
static void find_names(void)
{
    size_t n = 0;
    for (unsigned long i = 0; n < N_NAMES; i++) {
        int length = snprintf(names[n], NAME, "t%lx", i);
        n += !(rx_hash(0, names[n], (size_t)length) & 4095);
    }
}

static size_t longest_run(const rx_map *m)
{
    size_t longest = 0, run = 0;
    for (size_t i = 0; i < 2 * m->cap; i++) {
        run = m->slots[i & (m->cap - 1)].key ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void test_names(void)
{
    rx_map m = {0};
    for (uint32_t i = 0; i < N_NAMES; i++) {
        CHECK(!rx_map_find(&m, names[i], strlen(names[i])));
        CHECK(rx_map_add(&m, names[i], strlen(names[i]), i));
    }
    CHECK(longest_run(&m) < LONGEST);
    bool all = true;
    for (uint32_t i = 0; i < N_NAMES; i++) {
        const rx_map_slot *s = rx_map_find(&m, names[i], strlen(names[i]));
        all = all && s && s->value == i;
    }
    CHECK(all && m.n == N_NAMES);
    rx_map_finish(&m);
}

/* The same names in the header of a safetensors file. */
static void test_file(void)
{
    rlx_error err;
    rlx_file *f;
    blob header = {0};
    for (size_t i = 0; i < N_NAMES; i++) {
        char entry[160];
        snprintf(entry, sizeof entry, "%s\"%.15s\":{\"dtype\":\"U8\",\"shape\":[1],"
                 "\"data_offsets\":[%zu,%zu]}", i ? "," : "{", names[i], i, i + 1);
        blob_add(&header, entry, strlen(entry));
    }
    blob_add(&header, "}", 2);
    blob b = safetensors_blob((const char *)header.data, N_NAMES);
    if (CHECK_OK(rx_file_from_memory(b.data, b.n, "names.safetensors", &f, &err), &err)) {
        CHECK(longest_run(&f->tensor_names) < LONGEST);
        rlx_file_tensor t; /* in the order of the file, whatever the key is */
        CHECK(rlx_file_tensor_at(f, 7, &t) && !strcmp(t.name, names[7]));
        CHECK(rlx_file_find_tensor(f, names[9], &t) && !strcmp(t.name, names[9]));
        rlx_file_close(f);
    }
    blob_free(&header);
    blob_free(&b);
}

/* ---- Other tables ---------------------------------------------------------------------------- */

/* Pairs that a product with a fixed number puts into one of 8192 places. */
static void test_merges(void)
{
    rx_merges m = {0};
    size_t n = 0, longest = 0, run = 0;
    CHECK(rx_merges_init(&m, N_NAMES));
    for (int32_t i = 0; n < N_NAMES; i++) {
        const uint64_t h = ((uint64_t)(uint32_t)i << 32 | 7) * 0x9e3779b97f4a7c15ull;
        if (!((h ^ h >> 32) & 8191)) {
            rx_merges_add(&m, (rx_merge){i, 7, (uint32_t)n, 1});
            n++;
        }
    }
    for (size_t i = 0; i < 2 * m.cap; i++) {
        run = m.slots[i & (m.cap - 1)].left >= 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    CHECK(longest < LONGEST);
    rx_free(m.slots);
}

/* Dimensions by name and by their operands: each is made once. */
static void test_dims(void)
{
    rlx_graph *g = rlx_graph_create("dims");
    rlx_dim first[8], sum[8];
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < N_NAMES; i++) {
            const rlx_dim d = rlx_dim_named(g, names[i], 100), e = rlx_dim_add(g, d, i + 1);
            CHECK(d < -1 && e < -1);
            if (!pass && i < 8)
                first[i] = d, sum[i] = e;
            if (pass && i < 8)
                CHECK(d == first[i] && e == sum[i]);
        }
    CHECK(g->n_dims == 2 * N_NAMES);
    size_t longest = 0, run = 0;
    for (size_t i = 0; i < 2 * g->cap_dim_slots; i++) {
        run = g->dim_slots[i & (g->cap_dim_slots - 1)] ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    CHECK(longest < LONGEST);
    CHECK(rx_dim_find(g, names[3], strlen(names[3])) == first[3]);
    CHECK(!rx_dim_find(g, names[3], strlen(names[3]) - 1) && !rx_dim_find(g, "none", 4));
    CHECK(!rlx_dim_named(g, names[0], 7)); /* the bound is another */
    rlx_graph_destroy(g);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--hash")) {
        printf("%016llx\n", (unsigned long long)rx_hash_keyed(0, "rlx", 3));
        return 0;
    }
    find_names();
#if !defined(__wasi__)
    test_processes(argv[0]);
#endif
    test_names(); /* with the key of this process */
    test_file();
    test_vectors();
    test_names(); /* and with one that is the same every time */
    test_file();
    test_merges();
    test_dims();
    return check_done();
}
