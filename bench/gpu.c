/* SPDX-License-Identifier: MIT */
/* What the GPU devices cost beside the kernels: a small step with and without its inputs and
 * results, dispatches with elided and with full barriers, the upload of weights from a mapped file,
 * and the time to the first run of a model of 100 MB with a cold and a warm cache of pipelines.
 * Several devices are timed in turns, so that a busy machine treats them alike.
 *
 * usage: gpu [--json] [--steps] [--device NAME]...     default: vulkan and webgpu
 *   --steps: only the steps. Takes about a minute a device */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rlx/rlx.h"
#include "webgpu/library.h"

#define MAX_DEVICES 4

static const char *device_names[MAX_DEVICES];
static int n_devices;
static rlx_error err;
static bool json, any;

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

/* One value a device, and how the others compare with the first. */
static void print_row(const char *name, const double *value, const char *unit)
{
    for (int i = 0; json && i < n_devices; i++)
        printf("%s\n  {\"device\": \"%s\", \"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}",
               any || i ? "," : "[", device_names[i], name, value[i], unit);
    if (!json) {
        printf("%-50s", name);
        for (int i = 0; i < n_devices; i++)
            printf(" %10.4g", value[i]);
        printf(" %s", unit);
        for (int i = 1; i < n_devices; i++)
            printf("  %.2fx", value[i] / value[0]);
        printf("\n");
    }
    any = true;
    fflush(stdout);
}

static bool ok(rlx_status st)
{
    if (st != RLX_OK)
        fprintf(stderr, "gpu: %s\n", err.text);
    return st == RLX_OK;
}

static rlx_session *make_session(rlx_device *d, rlx_graph *g, const rlx_session_desc *desc)
{
    rlx_session *s = NULL;
    ok(rlx_session_create(d, g, desc, &s, &err));
    rlx_graph_destroy(g);
    return s;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

enum { MAX_CHAINS = 64, ELEMENTS = 8, ROUNDS = 15 };
enum { BLOCKS = 4, FEATURES = 256, HEADS = 4, TOKENS = 64, CACHED = 512 }; /* of the models */
#define ROUND_SECONDS 0.02

/* What a run does beside the kernels. */
typedef enum mode {
    WAITED,    /* submit, wait */
    IN_FLIGHT, /* submit again and again */
    FETCHED,   /* rlx_run: the same inputs, results to the host */
    WHOLE      /* rlx_run: new inputs, results to the host */
} mode;

typedef struct chains {
    rlx_device *device;
    rlx_session *session;
    int width;
    rlx_const_tensor in[MAX_CHAINS];
    rlx_tensor out[MAX_CHAINS];
    char names[2 * MAX_CHAINS][8];
    float x[TOKENS * FEATURES], y[TOKENS * FEATURES];
    int n_barriers; /* as the log says */
} chains;

/* Input and output number `w`, of `n` numbers each. */
static void name_tensors(chains *c, int w, size_t n)
{
    snprintf(c->names[2 * w], 8, "x%d", w);
    snprintf(c->names[2 * w + 1], 8, "y%d", w);
    c->in[w] = (rlx_const_tensor){c->names[2 * w], c->x + (size_t)w * n, n * sizeof(float)};
    c->out[w] = (rlx_tensor){c->names[2 * w + 1], c->y + (size_t)w * n, n * sizeof(float)};
}

/* `width` independent chains of `length` operations on tiny tensors that cannot be fused. */
static rlx_graph *make_chains(chains *c, int length)
{
    rlx_graph *g = rlx_graph_create("chains");
    for (int w = 0; w < c->width; w++) {
        name_tensors(c, w, ELEMENTS);
        rlx_value x = rlx_input(g, c->in[w].name, RLX_F32, 2, (rlx_dim[]){1, ELEMENTS});
        for (int i = 0; i < length; i++)
            x = rlx_softmax(g, x, 1);
        rlx_output(g, c->out[w].name, x);
    }
    return g;
}

/* A param of this shape, filled with zeros by set_params. */
static rlx_value add_param(rlx_graph *g, const char *what, int block, int rank, const rlx_dim *dim)
{
    char name[16];
    snprintf(name, sizeof name, "%s%d", what, block);
    return rlx_param(g, name, RLX_F32, rank, dim);
}

/* Rows of x become heads: [rows, FEATURES] to [1, HEADS, rows, FEATURES / HEADS]. */
static rlx_value add_heads(rlx_graph *g, rlx_value x, int rows)
{
    x = rlx_reshape(g, x, 4, (rlx_dim[]){1, rows, HEADS, FEATURES / HEADS});
    return rlx_transpose(g, x, (int[]){0, 2, 1, 3});
}

/* A block of a transformer. One row: a token of a decoder with CACHED keys and values; else an
 * encoder. */
static rlx_value add_block(rlx_graph *g, rlx_value x, int block, int rows)
{
    const rlx_dim square[] = {FEATURES, FEATURES}, wide[] = {FEATURES, 4 * FEATURES},
                  back[] = {4 * FEATURES, FEATURES},
                  cache[] = {1, HEADS, CACHED, FEATURES / HEADS};
    rlx_value h = rlx_rms_norm(g, x, RLX_NONE, NULL), k, v;
    rlx_value q = add_heads(g, rlx_matmul(g, h, add_param(g, "q", block, 2, square)), rows);
    if (rows > 1) {
        k = add_heads(g, rlx_matmul(g, h, add_param(g, "k", block, 2, square)), rows);
        v = add_heads(g, rlx_matmul(g, h, add_param(g, "v", block, 2, square)), rows);
    } else {
        k = add_param(g, "k", block, 4, cache);
        v = add_param(g, "v", block, 4, cache);
    }
    rlx_value a = rlx_transpose(g, rlx_attention(g, q, k, v, RLX_NONE, NULL), (int[]){0, 2, 1, 3});
    a = rlx_reshape(g, a, 2, (rlx_dim[]){rows, FEATURES});
    x = rlx_add(g, x, rlx_matmul(g, a, add_param(g, "o", block, 2, square)));
    h = rlx_rms_norm(g, x, RLX_NONE, NULL);
    h = rlx_silu(g, rlx_matmul(g, h, add_param(g, "up", block, 2, wide)));
    return rlx_add(g, x, rlx_matmul(g, h, add_param(g, "down", block, 2, back)));
}

static rlx_graph *make_transformer(chains *c, int rows)
{
    rlx_graph *g = rlx_graph_create("transformer");
    name_tensors(c, 0, (size_t)rows * FEATURES);
    rlx_value x = rlx_input(g, c->in[0].name, RLX_F32, 2, (rlx_dim[]){rows, FEATURES});
    for (int i = 0; i < BLOCKS; i++)
        x = add_block(g, x, i, rows);
    rlx_output(g, c->out[0].name, x);
    return g;
}

static void set_params(rlx_session *s)
{
    static const float zeros[4 * FEATURES * FEATURES];
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &info); i++)
        ok(rlx_session_set_param(s, info.name, zeros, info.bytes, RLX_BORROW, &err));
}

static void read_log(void *user, rlx_log_level level, const char *text)
{
    int steps, dispatches;
    (void)level;
    sscanf(text, "vulkan: %d steps are %d dispatches with %d barriers", &steps, &dispatches,
           &((chains *)user)->n_barriers);
}

static void close_chains(chains *c)
{
    rlx_session_destroy(c->session);
    rlx_device_close(c->device);
    c->session = NULL;
    c->device = NULL;
}

/* `width` chains of that length, or, with none, a transformer of `length` rows. */
static bool open_chains(chains *c, const char *name, int width, int length)
{
    *c = (chains){.width = width ? width : 1};
    rlx_set_log(read_log, c, RLX_LOG_DEBUG);
    if (ok(rlx_device_open(name, NULL, &c->device, &err)))
        c->session = make_session(c->device, width ? make_chains(c, length)
                                                   : make_transformer(c, length), NULL);
    if (c->session)
        set_params(c->session);
    width = c->width;
    bool done = c->session &&
                ok(rlx_run(c->session, c->in, (size_t)width, c->out, (size_t)width, &err));
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
    return done;
}

static rlx_status run_once(chains *c, mode how, uint64_t *ticket)
{
    size_t n = (size_t)c->width;
    if (how == WHOLE)
        c->x[0] += 1;
    if (how == WHOLE || how == FETCHED)
        return rlx_run(c->session, c->in, n, c->out, n, &err);
    rlx_status st = rlx_session_submit(c->session, ticket, &err);
    return st == RLX_OK && how == WAITED ? rlx_session_wait(c->session, *ticket, -1, &err) : st;
}

/* Seconds a run: by the clock, and of all processors. Negative: failed. */
static void time_round(chains *c, mode how, double *wall, double *cpu)
{
    uint64_t ticket = 0;
    int n = 0;
    double cpu_start = read_clock(CLOCK_PROCESS_CPUTIME_ID), start = now();
    bool done = true;
    for (; done && (n < 2 || now() - start < ROUND_SECONDS); n++)
        done = ok(run_once(c, how, &ticket));
    if (ticket)
        done = done && ok(rlx_session_wait(c->session, ticket, -1, &err));
    *wall = done ? (now() - start) / n : -1;
    *cpu = done ? (read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_start) / n : -1;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *list)
{
    qsort(list, ROUNDS, sizeof *list, compare_numbers);
    return list[ROUNDS / 2];
}

/* The devices in turns; the median of the rounds, in seconds a run. */
static void time_chains(chains *list, mode how, double *wall, double *cpu)
{
    static double walls[MAX_DEVICES][ROUNDS], cpus[MAX_DEVICES][ROUNDS];
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < n_devices; i++)
            time_round(&list[i], how, &walls[i][r], &cpus[i][r]);
    for (int i = 0; i < n_devices; i++) {
        wall[i] = middle(walls[i]);
        cpu[i] = middle(cpus[i]);
    }
}

/* Both times of one mode, in microseconds for each of `parts` parts of a run. */
static void bench_mode(chains *list, mode how, const char *what, int parts)
{
    double wall[MAX_DEVICES], cpu[MAX_DEVICES];
    char name[64];
    time_chains(list, how, wall, cpu);
    for (int i = 0; i < n_devices; i++) {
        wall[i] *= 1e6 / parts;
        cpu[i] *= 1e6 / parts;
    }
    print_row(what, wall, "us");
    snprintf(name, sizeof name, "%s, CPU time", what);
    print_row(name, cpu, "us");
}

static bool open_all(chains *list, int width, int length)
{
    bool done = true;
    for (int i = 0; i < n_devices; i++)
        done = open_chains(&list[i], device_names[i], width, length) && done;
    return done;
}

static void bench_model(chains *list, int rows, const char *what)
{
    if (open_all(list, 0, rows))
        bench_mode(list, WHOLE, what, 1);
    for (int i = 0; i < n_devices; i++)
        close_chains(&list[i]);
}

static void bench_barriers(chains *list, const char *what)
{
    enum { LENGTH = 8 };
    double n[MAX_DEVICES];
    char name[64];
    snprintf(name, sizeof name, "a dispatch, 64 chains of 8, %s", what);
    if (open_all(list, MAX_CHAINS, LENGTH)) {
        bench_mode(list, IN_FLIGHT, name, MAX_CHAINS * LENGTH);
        for (int i = 0; i < n_devices; i++)
            n[i] = list[i].n_barriers;
        snprintf(name, sizeof name, "barriers, %s", what);
        print_row(name, n, "");
    }
    for (int i = 0; i < n_devices; i++)
        close_chains(&list[i]);
}

static void bench_steps(void)
{
    enum { LENGTH = 512 };
    static chains list[MAX_DEVICES];
    if (open_all(list, 1, 1)) {
        bench_mode(list, WHOLE, "a small step: new input, run, result", 1);
        bench_mode(list, FETCHED, "a small step: same input, run, result", 1);
        bench_mode(list, WAITED, "a small step: submit to done", 1);
        bench_mode(list, IN_FLIGHT, "a small step: runs in flight", 1);
    }
    for (int i = 0; i < n_devices; i++)
        close_chains(&list[i]);
    if (open_all(list, 1, LENGTH))
        bench_mode(list, IN_FLIGHT, "a dispatch in a chain of 512", LENGTH);
    for (int i = 0; i < n_devices; i++)
        close_chains(&list[i]);
    bench_model(list, TOKENS, "an encoder of 4 blocks, 64 tokens");
    bench_model(list, 1, "a decoder of 4 blocks, a token");
    bench_barriers(list, "elided barriers");
    setenv("RLX_FULL_BARRIER", "1", 1);
    bench_barriers(list, "full barriers");
    unsetenv("RLX_FULL_BARRIER");
}

/* ---- Uploads -------------------------------------------------------------------------------- */

enum { UPLOAD_MB = 512, LAYERS = 24, WIDTH = 1024 };

/* A file of `bytes` bytes that is not all one page, mapped; the name is gone at once. */
static void *map_file(size_t bytes)
{
    char name[] = "/tmp/rlx-bench-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0)
        return NULL;
    unlink(name);
    static float block[1 << 16];
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        block[i] = (float)(i % 17) * 0.01f - 0.08f;
    for (size_t at = 0; at < bytes; at += sizeof block)
        if (write(fd, block, bytes - at < sizeof block ? bytes - at : sizeof block) < 0)
            break;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* Gigabytes a second of setting one weight; the run after it waits for the copy. */
static double time_upload(rlx_session *s, const void *data, size_t bytes)
{
    double best = 0;
    float y[4];
    rlx_tensor out = {"y", y, sizeof y};
    for (int i = 0; i < 4; i++) {
        double start = now();
        if (!ok(rlx_session_set_param(s, "w", data, bytes, RLX_BORROW, &err)) ||
            !ok(rlx_run(s, NULL, 0, &out, 1, &err)))
            return -1;
        double rate = (double)bytes / (now() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

/* Rates of the device `i`, in GB/s. */
static void bench_upload_on(int i, const void *from, const void *map, double *plain,
                            double *mapped)
{
    const size_t bytes = (size_t)UPLOAD_MB << 20;
    rlx_device *d = NULL;
    *plain = *mapped = -1;
    if (!ok(rlx_device_open(device_names[i], NULL, &d, &err)))
        return;
    rlx_graph *g = rlx_graph_create("upload");
    rlx_value w = rlx_param(g, "w", RLX_F32, 1, (rlx_dim[]){(int64_t)(bytes / 4)});
    rlx_output(g, "y", rlx_neg(g, rlx_narrow(g, w, 0, 0, 4)));
    rlx_session *s = make_session(d, g, NULL);
    if (s) {
        *plain = time_upload(s, from, bytes);
        *mapped = time_upload(s, map, bytes);
    }
    rlx_session_destroy(s);
    rlx_device_close(d);
}

static void bench_upload(void)
{
    const size_t bytes = (size_t)UPLOAD_MB << 20;
    double memory[MAX_DEVICES], plain[MAX_DEVICES], mapped[MAX_DEVICES];
    void *map = map_file(bytes), *copy = malloc(bytes), *from = malloc(bytes);
    if (map && copy && from) {
        memset(from, 1, bytes);
        double start = now();
        memcpy(copy, map, bytes); /* also reads the file into memory */
        memcpy(copy, from, bytes);
        for (int i = 0; i < n_devices; i++)
            memory[i] = 2 * (double)bytes / (now() - start) * 1e-9;
        for (int i = 0; i < n_devices; i++)
            bench_upload_on(i, from, map, &plain[i], &mapped[i]);
        print_row("memcpy on the host, one thread", memory, "GB/s");
        print_row("upload of a weight from memory", plain, "GB/s");
        print_row("upload of a weight from a mapped file", mapped, "GB/s");
    }
    free(copy);
    free(from);
    if (map)
        munmap(map, bytes);
}

/* ---- The first run -------------------------------------------------------------------------- */

/* 24 layers of f32 [1024, 1024], 100 MB in all, with norms and activations between. */
static rlx_graph *make_model(void)
{
    rlx_graph *g = rlx_graph_create("model");
    rlx_dim seq = rlx_dim_named(g, "seq", 64);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){seq, WIDTH});
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        rlx_value w = rlx_param(g, name, RLX_F32, 2, (rlx_dim[]){WIDTH, WIDTH});
        rlx_value y = rlx_rms_norm(g, x, RLX_NONE, NULL);
        y = rlx_matmul_ex(g, y, w, RLX_NONE, RLX_NONE,
                          &(rlx_matmul_desc){RLX_INIT(rlx_matmul_desc), .trans_b = true,
                                             .act = RLX_ACT_SILU});
        x = rlx_add(g, x, rlx_mul(g, rlx_softmax(g, y, 1), y));
    }
    rlx_output(g, "y", x);
    return g;
}

/* Seconds from opening the device to the end of a run of 7 rows, and of one more with 64. */
static bool time_first(const char *device, const float *weights, double *first, double *second)
{
    rlx_device *d = NULL;
    static float x[64 * WIDTH], y[64 * WIDTH];
    bool done = false;
    double start = now();
    if (!ok(rlx_device_open(device, NULL, &d, &err)))
        return false;
    rlx_session *s = make_session(d, make_model(), NULL);
    for (int i = 0; i < LAYERS && s; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        if (!ok(rlx_session_set_param(s, name, weights + (size_t)i * WIDTH * WIDTH,
                                      sizeof(float) * WIDTH * WIDTH, RLX_BORROW, &err)))
            goto out;
    }
    for (int i = 0; i < 2 && s; i++) {
        int rows = i ? 64 : 7;
        rlx_const_tensor in = {"x", x, sizeof(float) * WIDTH * (size_t)rows};
        rlx_tensor out = {"y", y, in.bytes};
        if (!ok(rlx_session_bind(s, "seq", rows, &err)) || !ok(rlx_run(s, &in, 1, &out, 1, &err)))
            goto out;
        *(i ? second : first) = now() - start;
        start = now();
        done = i == 1;
    }
out:
    rlx_session_destroy(s);
    rlx_device_close(d);
    return done;
}

static void bench_first(void)
{
    char folder[] = "/tmp/rlx-bench-cache-XXXXXX", command[128];
    double first[2][MAX_DEVICES], second[2][MAX_DEVICES];
    float *weights = map_file(sizeof(float) * LAYERS * WIDTH * WIDTH);
    if (!weights || !mkdtemp(folder))
        return;
    setenv("RLX_CACHE_DIR", folder, 1);
    setenv("__GL_SHADER_DISK_CACHE", "0", 1); /* the driver's own cache would warm the cold run */
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
    bool done = true;
    for (int warm = 0; warm < 2; warm++)
        for (int i = 0; i < n_devices; i++)
            done = time_first(device_names[i], weights, &first[warm][i], &second[warm][i]) && done;
    for (int warm = 0; done && warm < 2; warm++) {
        char name[64];
        for (int i = 0; i < n_devices; i++) {
            first[warm][i] *= 1e3;
            second[warm][i] *= 1e3;
        }
        snprintf(name, sizeof name, "first run of a 100 MB model, %s", warm ? "warm" : "cold");
        print_row(name, first[warm], "ms");
        snprintf(name, sizeof name, "first run with another length, %s", warm ? "warm" : "cold");
        print_row(name, second[warm], "ms");
    }
    munmap(weights, sizeof(float) * LAYERS * WIDTH * WIDTH);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "gpu: cannot remove %s\n", folder);
}

/* ---- Devices -------------------------------------------------------------------------------- */

/* Keeps the devices that are there. */
static void check_devices(void)
{
    int n = 0;
    for (int i = 0; i < n_devices; i++) {
        rlx_device *d = NULL;
        rlx_device_info info = {RLX_INIT(rlx_device_info)};
        if (!ok(rlx_device_open(device_names[i], NULL, &d, &err)))
            continue;
        rlx_device_get_info(d, &info, NULL);
        if (!json)
            printf("%s: %s, %s\n", device_names[i], info.name, info.driver);
        device_names[n++] = device_names[i];
        rlx_device_close(d);
    }
    n_devices = n;
}

int main(int argc, char **argv)
{
    bool only_steps = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!strcmp(argv[i], "--steps"))
            only_steps = true;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc && n_devices < MAX_DEVICES)
            device_names[n_devices++] = argv[++i];
    }
    if (!n_devices) {
        device_names[n_devices++] = "vulkan";
        device_names[n_devices++] = "webgpu";
    }
    choose_library();
    check_devices();
    if (!n_devices)
        return 77;
    if (!only_steps)
        bench_first(); /* before the driver has seen any kernel */
    bench_steps();
    if (!only_steps)
        bench_upload();
    if (json)
        printf("\n]\n");
    return any ? 0 : 1;
}
