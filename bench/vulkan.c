/* SPDX-License-Identifier: MIT */
/* What the Vulkan device costs beside the kernels: an empty step, a submit, dispatches with elided
 * and with full barriers, the upload of weights from a mapped file, and the time to the first run
 * of a model of 100 MB with a cold and a warm cache of pipelines.
 *
 * usage: vulkan [--json] [--device vulkan:N]     takes less than a minute */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rlx/rlx.h"

static const char *device_name = "vulkan";
static rlx_error err;
static bool json, any;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_result(const char *name, double value, const char *unit)
{
    if (json)
        printf("%s\n  {\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}", any ? "," : "[", name,
               value, unit);
    else
        printf("%-58s %12.4g %s\n", name, value, unit);
    any = true;
    fflush(stdout);
}

static bool ok(rlx_status st)
{
    if (st != RLX_OK)
        fprintf(stderr, "vulkan: %s\n", err.text);
    return st == RLX_OK;
}

static rlx_session *make_session(rlx_device *d, rlx_graph *g, const rlx_session_desc *desc)
{
    rlx_session *s = NULL;
    ok(rlx_session_create(d, g, desc, &s, &err));
    rlx_graph_destroy(g);
    return s;
}

/* Runs one after another for a quarter of a second, each waited for when `wait`. Seconds a run. */
static double time_runs(rlx_session *s, bool wait)
{
    uint64_t ticket = 0;
    int n = 0;
    if (!ok(rlx_session_submit(s, &ticket, &err)) || !ok(rlx_session_wait(s, ticket, -1, &err)))
        return -1;
    double start = now(), end;
    do {
        if (rlx_session_submit(s, &ticket, &err) != RLX_OK)
            return -1;
        if (wait && rlx_session_wait(s, ticket, -1, &err) != RLX_OK)
            return -1;
        n++;
        end = now();
    } while (end - start < 0.25);
    if (rlx_session_wait(s, ticket, -1, &err) != RLX_OK)
        return -1;
    return (now() - start) / n;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* `width` independent chains of `length` operations on small tensors that cannot be fused. */
static rlx_graph *make_chains(int width, int length)
{
    rlx_graph *g = rlx_graph_create("chains");
    char name[16];
    for (int w = 0; w < width; w++) {
        snprintf(name, sizeof name, "x%d", w);
        rlx_value x = rlx_input(g, name, RLX_F32, 2, (rlx_dim[]){16, 64});
        for (int i = 0; i < length; i++)
            x = rlx_softmax(g, x, 1);
        name[0] = 'y';
        rlx_output(g, name, x);
    }
    return g;
}

static int n_barriers; /* of the last recording */

static void read_log(void *user, rlx_log_level level, const char *text)
{
    int steps, dispatches;
    (void)user;
    (void)level;
    sscanf(text, "vulkan: %d steps are %d dispatches with %d barriers", &steps, &dispatches,
           &n_barriers);
}

static double time_chains(int width, int length, bool wait)
{
    rlx_device *d = NULL;
    rlx_set_log(read_log, NULL, RLX_LOG_DEBUG);
    if (!ok(rlx_device_open(device_name, NULL, &d, &err)))
        return -1;
    rlx_session *s = make_session(d, make_chains(width, length), NULL);
    static const float x[16 * 64];
    for (int w = 0; w < width && s; w++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", w);
        ok(rlx_session_set_input(s, name, x, sizeof x, &err));
    }
    double t = s ? time_runs(s, wait) : -1;
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
    rlx_session_destroy(s);
    rlx_device_close(d);
    return t;
}

static void bench_steps(void)
{
    enum { CHAINS = 64, LENGTH = 8 };
    double empty = time_chains(1, 1, true);
    print_result("one small step: submit to done", 1e6 * empty, "us");
    print_result("one small step: runs in flight", 1e6 * time_chains(1, 1, false), "us");
    double chain = time_chains(1, CHAINS * LENGTH, false);
    print_result("512 steps in one chain", 1e6 * chain, "us");
    print_result("dispatches a second, each after the one before",
                 CHAINS * LENGTH / chain, "1/s");
    double wide = time_chains(CHAINS, LENGTH, false);
    print_result("512 steps in 64 chains, elided barriers", 1e6 * wide, "us");
    print_result("dispatches a second, elided barriers", CHAINS * LENGTH / wide, "1/s");
    print_result("barriers, elided", n_barriers, "");
    setenv("RLX_FULL_BARRIER", "1", 1);
    double full = time_chains(CHAINS, LENGTH, false);
    unsetenv("RLX_FULL_BARRIER");
    print_result("512 steps in 64 chains, a barrier after each", 1e6 * full, "us");
    print_result("dispatches a second, a barrier after each", CHAINS * LENGTH / full, "1/s");
    print_result("barriers, a barrier after each", n_barriers, "");
    print_result("elided barriers are faster by", full / wide, "x");
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

static void bench_upload(rlx_device *d)
{
    const size_t bytes = (size_t)UPLOAD_MB << 20;
    rlx_graph *g = rlx_graph_create("upload");
    rlx_value w = rlx_param(g, "w", RLX_F32, 1, (rlx_dim[]){(int64_t)(bytes / 4)});
    rlx_output(g, "y", rlx_neg(g, rlx_narrow(g, w, 0, 0, 4)));
    rlx_session *s = make_session(d, g, NULL);
    void *map = map_file(bytes), *copy = malloc(bytes), *from = malloc(bytes);
    if (s && map && copy && from) {
        memset(from, 1, bytes);
        double start = now();
        memcpy(copy, map, bytes); /* also reads the file into memory */
        memcpy(copy, from, bytes);
        double memory = 2 * (double)bytes / (now() - start) * 1e-9;
        double plain = time_upload(s, from, bytes), mapped = time_upload(s, map, bytes);
        print_result("memcpy on the host, one thread", memory, "GB/s");
        print_result("upload of a weight from memory", plain, "GB/s");
        print_result("upload of a weight from a mapped file", mapped, "GB/s");
        print_result("mapped file against memory", 100 * mapped / plain, "%");
    }
    free(copy);
    free(from);
    if (map)
        munmap(map, bytes);
    rlx_session_destroy(s);
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
                          &(rlx_matmul_desc){.trans_b = true, .act = RLX_ACT_SILU});
        x = rlx_add(g, x, rlx_mul(g, rlx_softmax(g, y, 1), y));
    }
    rlx_output(g, "y", x);
    return g;
}

/* Seconds from opening the device to the end of a run of 7 rows, and of one more with 64. */
static bool time_first(const float *weights, double *first, double *second)
{
    rlx_device *d = NULL;
    static float x[64 * WIDTH], y[64 * WIDTH];
    bool done = false;
    double start = now();
    if (!ok(rlx_device_open(device_name, NULL, &d, &err)))
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
        rlx_tensor in = {"x", x, sizeof(float) * WIDTH * (size_t)rows};
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
    double first, second;
    float *weights = map_file(sizeof(float) * LAYERS * WIDTH * WIDTH);
    if (!weights || !mkdtemp(folder))
        return;
    setenv("RLX_CACHE_DIR", folder, 1);
    setenv("__GL_SHADER_DISK_CACHE", "0", 1); /* the driver's own cache would warm the cold run */
    setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
    if (time_first(weights, &first, &second)) {
        print_result("first run of a 100 MB model, cold pipelines", 1e3 * first, "ms");
        print_result("first run with another length, cold pipelines", 1e3 * second, "ms");
    }
    if (time_first(weights, &first, &second)) {
        print_result("first run of a 100 MB model, warm pipelines", 1e3 * first, "ms");
        print_result("first run with another length, warm pipelines", 1e3 * second, "ms");
    }
    munmap(weights, sizeof(float) * LAYERS * WIDTH * WIDTH);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "vulkan: cannot remove %s\n", folder);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc)
            device_name = argv[++i];
    }
    rlx_device *d = NULL;
    rlx_device_info info;
    if (!ok(rlx_device_open(device_name, NULL, &d, &err)))
        return 77;
    rlx_device_get_info(d, &info);
    if (!json)
        printf("%s, %s\n", info.name, info.driver);
    bench_first(); /* before the driver has seen any kernel */
    bench_steps();
    bench_upload(d);
    rlx_device_close(d);
    if (json)
        printf("\n]\n");
    return any ? 0 : 1;
}
