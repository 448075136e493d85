/* SPDX-License-Identifier: MIT */
/* The stages of GPU programs on made-up devices: the lists of dispatches of a decoder layer as
 * golden texts, networks of real size through all stages, and what the verifiers find.
 * `test_stages write` writes the golden texts of tests/gpu anew: look at the difference. */
#include <stdlib.h>

#include "base/thread.h"
#include "check.h"
#include "rlx/rlx.h"
#include "support/fake_gpu.h"
#include "support/nets.h"

static rlx_error err;

/* ---- Golden texts --------------------------------------------------------------------------- */

static char *load(const char *name)
{
    const char *folder = getenv("RLX_SOURCE_DIR");
    char path[512];
    snprintf(path, sizeof path, "%s/tests/gpu/%s", folder ? folder : ".", name);
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (f) {
        text[fread(text, 1, (1 << 20) - 1, f)] = 0;
        fclose(f);
    }
    return text;
}

static void store(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/gpu/%s", getenv("RLX_SOURCE_DIR"), name);
    FILE *f = fopen(path, "wb");
    if (CHECK(f != NULL)) {
        fputs(text, f);
        fclose(f);
    }
}

/* Prints the first line that differs. */
static void check_same(const char *name, const char *got, const char *want)
{
    int line = 1;
    if (CHECK(!strcmp(got, want)))
        return;
    for (; *got && *got == *want; got++, want++)
        line += *got == '\n';
    printf("  %s: line %d is\n    ...%.*s\n  and not\n    ...%.*s\n", name, line,
           (int)strcspn(got, "\n"), got, (int)strcspn(want, "\n"), want);
}

static rlx_graph *load_decoder(void)
{
    rlx_graph *g = NULL;
    char *text = load("decoder.rlx");
    CHECK_OK(rlx_graph_parse(text, strlen(text), &g, &err), &err);
    free(text);
    return g;
}

typedef struct golden {
    const char *device;
    const fake_gpu_desc *desc;
    int64_t rows;
    const char *stage;
} golden;

static const golden goldens[] = {
    {"large", &fake_gpu_large, 1, "select"}, {"large", &fake_gpu_large, 1, "chain"},
    {"large", &fake_gpu_large, 64, "order"}, {"small", &fake_gpu_small, 1, "order"},
    {"bound", &fake_gpu_bound, 1, "select"},
};

static void check_golden(const golden *want, bool write)
{
    char name[64], *text = NULL;
    rlx_graph *g = load_decoder();
    fake_gpu *f = fake_gpu_open(want->desc, g, RLX_POLICY_FAST, &err);
    snprintf(name, sizeof name, "decoder.%s.%d.%s.txt", want->device, (int)want->rows, want->stage);
    if (CHECK_OK(f ? RLX_OK : err.code, &err) &&
        CHECK_OK(fake_gpu_bind(f, "rows", want->rows, &err), &err) &&
        CHECK_OK(rx_gpu_exec_print(fake_gpu_exec(f), want->stage, &text, &err), &err)) {
        char *golden_text = load(name);
        if (write)
            store(name, text);
        else
            check_same(name, text, golden_text);
        free(golden_text);
    }
    rx_free(text);
    fake_gpu_close(f);
    rlx_graph_destroy(g);
}

/* ---- Networks ------------------------------------------------------------------------------- */

/* All stages of a network pass their verifiers. */
static void check_net(rlx_graph *g, const fake_gpu_desc *desc, const char *device)
{
    rx_gpu_list l = {0};
    const int64_t begin = rx_now_ns();
    fake_gpu *f = fake_gpu_open(desc, g, RLX_POLICY_FAST, &err);
    if (CHECK_OK(f ? RLX_OK : err.code, &err) && CHECK_OK(fake_gpu_bind(f, NULL, 0, &err), &err)) {
        rx_gpu_exec *x = fake_gpu_exec(f);
        const int64_t bound = rx_now_ns();
        CHECK_OK(rx_gpu_stages_run(x, RX_GPU_CHAIN, &l, &err), &err);
        const int64_t made = rx_now_ns();
        printf("%s on %s: %zu dispatches, %u levels, %u barriers, %u chained; compiled and bound "
               "%.1f ms, stages %.1f ms\n", rlx_graph_name(g), device, l.n, (unsigned)l.n_levels,
               (unsigned)l.n_barriers, (unsigned)l.n_chained, (double)(bound - begin) * 1e-6,
               (double)(made - bound) * 1e-6);
        CHECK(l.n > 0 && l.n_barriers < l.n_levels);
        rx_gpu_list_finish(&l);
    }
    fake_gpu_close(f);
    rlx_graph_destroy(g);
}

static void check_nets(const fake_gpu_desc *desc, const char *device)
{
    const net_size encoder = {.layers = 6, .batch = 2, .seq = 128, .width = 384, .heads = 12,
                              .hidden = 1536};
    const net_size decoder = {.layers = 30, .seq = 2048, .width = 576, .heads = 9, .kv_heads = 3,
                              .hidden = 1536};
    check_net(net_encoder(&encoder), desc, device);
    check_net(net_decoder(&decoder), desc, device);
    check_net(net_resnet50(1), desc, device);
    check_net(net_chain(100), desc, device);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

/* The mean of integers, whose rows cannot be cut; `n` may be a named dimension. */
static rlx_graph *mean_graph(bool named)
{
    const int64_t axis = 1;
    rlx_graph *g = rlx_graph_create("refused");
    const rlx_dim row[] = {1, named ? rlx_dim_named(g, "n", 4096) : 4096};
    const rlx_value x = rlx_input(g, "x", RLX_I32, 2, row);
    rlx_output(g, "y", rlx_reduce(g, RLX_REDUCE_MEAN, x, &axis, 1, false));
    return g;
}

/* What a device has no kernel for is refused when the program is made; where sizes are named, by
 * the binding of sizes that are too large. */
static void check_refusals(void)
{
    static fake_gpu_desc desc;
    desc = fake_gpu_small;
    desc.caps.max_binding_bytes = 1024;
    rlx_graph *fixed = mean_graph(false), *named = mean_graph(true);
    fake_gpu *f = fake_gpu_open(&desc, fixed, RLX_POLICY_FAST, &err);
    CHECK(!f && err.code == RLX_UNSUPPORTED && strstr(err.text, "mean of integers"));
    fake_gpu_close(f);
    f = fake_gpu_open(&desc, named, RLX_POLICY_FAST, &err);
    if (CHECK_OK(f ? RLX_OK : err.code, &err)) {
        CHECK_OK(fake_gpu_bind(f, "n", 256, &err), &err);
        CHECK_FAILS(fake_gpu_bind(f, "n", 4096, &err), RLX_UNSUPPORTED, &err,
                    "mean of integers");
        CHECK_OK(fake_gpu_bind(f, "n", 256, &err), &err);
    }
    fake_gpu_close(f);
    rlx_graph_destroy(fixed);
    rlx_graph_destroy(named);
}

/* ---- What the verifiers find ---------------------------------------------------------------- */

/* The dispatch with this number. */
static rx_gpu_placed *find(rx_gpu_list *l, uint32_t number)
{
    size_t i = 0;
    while (l->items[i].number != number)
        i++;
    return &l->items[i];
}

static void swap(rx_gpu_placed *a, rx_gpu_placed *b)
{
    const rx_gpu_placed was = *a;
    *a = *b;
    *b = was;
}

static void break_select(rx_gpu_list *l)
{
    rx_gpu_placed *d = &l->items[1]; /* a product with a norm before it */
    const rx_gpu_placed was = *d;
    d->bind[2].bytes = d->end[2] = (uint64_t)1 << 40;
    CHECK_FAILS(rx_gpu_verify_select(l, &err), RLX_INTERNAL, &err, "too small for binding 2");
    *d = was;
    d->bind[2].offset += 4;
    CHECK_FAILS(rx_gpu_verify_select(l, &err), RLX_INTERNAL, &err, "as does binding 2");
    *d = was;
    d->dispatch.groups[1] = 70000;
    CHECK_FAILS(rx_gpu_verify_select(l, &err), RLX_INTERNAL, &err, "more workgroups");
    *d = was;
    d->begin[0] += 4096, d->end[0] += 4096;
    CHECK_FAILS(rx_gpu_verify_select(l, &err), RLX_INTERNAL, &err, "nothing has written");
    *d = was;
    d->begin[2] = l->items[0].begin[1], d->end[2] = l->items[0].end[1]; /* over what others read */
    CHECK_FAILS(rx_gpu_verify_select(l, &err), RLX_INTERNAL, &err, "dispatch 2 of step 3");
    *d = was;
    CHECK_OK(rx_gpu_verify_select(l, &err), &err);
}

static void break_order(rx_gpu_list *l, const rx_gpu_rules *rules)
{
    rx_gpu_placed *d = find(l, 1);
    CHECK(d->barrier);
    d->barrier = false;
    CHECK_FAILS(rx_gpu_verify_order(l, rules, &err), RLX_INTERNAL, &err, "no barrier begins");
    d->barrier = true;
    d->level--;
    CHECK_FAILS(rx_gpu_verify_order(l, rules, &err), RLX_INTERNAL, &err, "no barrier begins");
    d->barrier = false;
    CHECK_FAILS(rx_gpu_verify_order(l, rules, &err), RLX_INTERNAL, &err,
                "hazard without a barrier after dispatch 0");
    d->barrier = true;
    d->level++;
    rx_gpu_placed *a = find(l, 7), *b = find(l, 8); /* a reads what b writes, after it */
    swap(a, b);
    a->level--, b->level++;
    CHECK_FAILS(rx_gpu_verify_order(l, rules, &err), RLX_INTERNAL, &err,
                "hazard without a barrier after dispatch 8");
    swap(a, b);
    a->level--, b->level++;
    CHECK_OK(rx_gpu_verify_order(l, rules, &err), &err);
}

static void break_chain(rx_gpu_list *l, const rx_gpu_rules *rules)
{
    rx_gpu_placed *d = find(l, 7);
    const rx_gpu_placed was = *d;
    CHECK(d->chain.target && !d->barrier);
    d->chain.target--;
    CHECK_FAILS(rx_gpu_verify_chain(l, rules, &err), RLX_INTERNAL, &err, "do not signal counter 3");
    *d = was;
    d->chain.waits++;
    CHECK_FAILS(rx_gpu_verify_chain(l, rules, &err), RLX_INTERNAL, &err, "do not signal counter 4");
    *d = was;
    d->chain.target = 0;
    CHECK_FAILS(rx_gpu_verify_chain(l, rules, &err), RLX_INTERNAL, &err, "nothing waits");
    *d = was;
    d->chain.signals = rules->n_counters;
    CHECK_FAILS(rx_gpu_verify_chain(l, rules, &err), RLX_INTERNAL, &err, "no counter 1024");
    *d = was;
    find(l, 2)->chain.target = 0;
    CHECK_FAILS(rx_gpu_verify_chain(l, rules, &err), RLX_INTERNAL, &err, "only a part waits");
}

static void check_verifiers(void)
{
    const rx_gpu_rules rules = fake_gpu_large.rules;
    rlx_graph *g = load_decoder();
    fake_gpu *f = fake_gpu_open(&fake_gpu_large, g, RLX_POLICY_FAST, &err);
    if (CHECK_OK(f ? RLX_OK : err.code, &err) &&
        CHECK_OK(fake_gpu_bind(f, "rows", 1, &err), &err)) {
        rx_gpu_list l;
        CHECK_OK(rx_gpu_stages_run(fake_gpu_exec(f), RX_GPU_SELECT, &l, &err), &err);
        break_select(&l);
        CHECK_OK(rx_gpu_order(&l, &rules, &err), &err);
        break_order(&l, &rules);
        CHECK_OK(rx_gpu_chain(&l, &rules, &err), &err);
        break_chain(&l, &rules);
        rx_gpu_list_finish(&l);
    }
    fake_gpu_close(f);
    rlx_graph_destroy(g);
}

int main(int argc, char **argv)
{
    const bool write = argc > 1 && !strcmp(argv[1], "write");
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
        check_golden(&goldens[i], write);
    check_nets(&fake_gpu_large, "large");
    check_nets(&fake_gpu_bound, "bound");
    check_nets(&fake_gpu_small, "small");
    check_refusals();
    check_verifiers();
    return check_done();
}
