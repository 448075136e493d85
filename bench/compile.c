/* SPDX-License-Identifier: MIT */
/* Time of the compiler, without a device: chains and transformers of 1k, 10k and 100k nodes. The
 * last column is the time divided by n log2 n: it must not grow.
 *
 * usage: compile [--check]
 * With --check it fails when 10,000 nodes take a second or growth is worse than n log n. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "support/fake_target.h"
#include "support/nets.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static rlx_graph *make_chain(int n)
{
    return net_chain(n);
}

static rlx_graph *make_encoder(int n)
{
    net_size s = {.layers = n / 43, .batch = 1, .seq = 64, .width = 64, .heads = 4, .hidden = 256};
    return net_encoder(&s); /* about 42 nodes a layer */
}

static rlx_graph *make_decoder(int n)
{
    net_size s = {.layers = n / 36, .seq = 64, .width = 64, .heads = 4, .kv_heads = 2,
                  .hidden = 256};
    return net_decoder(&s); /* about 34 nodes a layer */
}

static const struct { const char *name; rlx_graph *(*make)(int n); } kinds[] = {
    {"chain", make_chain}, {"encoder", make_encoder}, {"decoder", make_decoder},
};

/* Best of three, in seconds; negative after an error. */
static double time_compile(const rlx_graph *g, rlx_memory_info *memory)
{
    fake_options all = {0};
    rx_target t = fake_target(&all);
    double best = 1e30;
    for (int i = 0; i < 3; i++) {
        rx_program *p = NULL;
        rlx_error err = {0};
        double start = now();
        if (rx_compile(g, &t, NULL, &p, &err) != RLX_OK) {
            printf("%s\n", err.text);
            return -1;
        }
        best = fmin(best, now() - start);
        *memory = p->memory;
        rx_program_unref(p);
    }
    return best;
}

int main(int argc, char **argv)
{
    bool check = argc > 1 && !strcmp(argv[1], "--check"), ok = true;
    printf("%-8s %8s %10s %14s %10s\n", "graph", "nodes", "ms", "ns/(n log2 n)", "arena/bound");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        double unit_10k = 0;
        for (int n = 1000; n <= 100000; n *= 10) {
            rlx_memory_info m = {RLX_INIT(rlx_memory_info)};
            rlx_graph *g = kinds[k].make(n);
            double seconds = g ? time_compile(g, &m) : -1;
            double nodes = g ? (double)rlx_graph_n_nodes(g) : 1;
            double unit = 1e9 * seconds / (nodes * log2(nodes));
            printf("%-8s %8.0f %10.2f %14.2f %10.4f\n", kinds[k].name, nodes, 1e3 * seconds, unit,
                   (double)m.arena_bytes / fmax(1, (double)m.arena_bound));
            ok &= seconds >= 0 && (n != 10000 || seconds < 1);
            unit_10k = n == 10000 ? unit : unit_10k;
            ok &= n != 100000 || unit < 2 * unit_10k; /* caches make large graphs a little slower */
            rlx_graph_destroy(g);
        }
    }
    return check && !ok;
}
