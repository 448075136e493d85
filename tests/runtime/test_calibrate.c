/* SPDX-License-Identifier: MIT */
/* Calibration: files of the cache folder, sound and broken ones; the cost model with made-up
 * numbers; the device that is chosen by them; kernel variants of a device that has some. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "check.h"
#include "compile/estimate.h"
#include "rlx/rlx.h"
#include "runtime/calibrate.h"
#include "runtime/device.h"
#include "runtime/session.h"

static char folder[] = "/tmp/rlx-calibrate-XXXXXX";

static const rlx_calibration slow_start = {RLX_INIT(rlx_calibration), .measured = true,
                                           .gemm = 1e13, .gemm_fast = 4e13,
    .bandwidth = 1e12, .dispatch = 5e-6, .submit = 5e-5, .upload = 1e10, .download = 1e10};
static const rlx_calibration quick_start = {RLX_INIT(rlx_calibration), .measured = true,
                                            .gemm = 1e11, .gemm_fast = 1e11,
    .bandwidth = 2e10, .dispatch = 1e-7, .submit = 1e-6, .upload = 2e10, .download = 2e10,
    .kernels = "tile=64x64"};
static const rlx_calibration slow_all = {RLX_INIT(rlx_calibration), .measured = true, .gemm = 1e9,
                                         .gemm_fast = 1e9,
    .bandwidth = 1e9, .dispatch = 1e-4, .submit = 1e-3, .upload = 1e9, .download = 1e9};

/* y = relu(x . w), for squares of n rows. */
static rlx_graph *make_graph(int64_t n)
{
    rlx_graph *g = rlx_graph_create("product");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){n, n});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){n, n});
    rlx_output(g, "y", rlx_relu(g, rlx_matmul(g, x, w)));
    return g;
}

static bool same(const rlx_calibration *a, const rlx_calibration *b)
{
    return a->measured == b->measured && a->gemm == b->gemm && a->gemm_fast == b->gemm_fast &&
           a->bandwidth == b->bandwidth && a->dispatch == b->dispatch && a->submit == b->submit &&
           a->upload == b->upload && a->download == b->download &&
           !strcmp(a->kernels, b->kernels);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The only file of the folder. */
static void find_file(char *path, size_t cap)
{
    path[0] = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        if (e->d_name[0] != '.')
            snprintf(path, cap, "%s/%s", folder, e->d_name);
    if (d)
        closedir(d);
}

static void change_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    if (!CHECK(f != NULL))
        return;
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 0x55, f);
    fclose(f);
}

static int n_warnings;
static void count_warning(void *user, rlx_log_level level, const char *text)
{
    (void)user;
    n_warnings += level == RLX_LOG_WARN && strstr(text, "calibration") != NULL;
}

static void test_files(void)
{
    enum { FILE_BYTES = 80 + sizeof ((rlx_calibration *)0)->kernels };
    char path[512], reason[512];
    rlx_device_info cpu, other;
    rlx_calibration c = {RLX_INIT(rlx_calibration)};
    rlx_error err;
    CHECK(rx_backend_cpu.list(&cpu, 1, reason) == 1);
    CHECK(!rx_calibration_load(&rx_backend_cpu, &cpu, &c));
    c = rx_calibration_get(&rx_backend_cpu, &cpu);
    CHECK(!c.measured && c.gemm > 0 && c.submit > 0);

    CHECK_OK(rx_calibration_save(&rx_backend_cpu, &cpu, &quick_start, &err), &err);
    CHECK(rx_calibration_load(&rx_backend_cpu, &cpu, &c) && same(&c, &quick_start));
    CHECK_OK(rx_calibration_save(&rx_backend_cpu, &cpu, &slow_start, &err), &err);
    CHECK(rx_calibration_load(&rx_backend_cpu, &cpu, &c) && same(&c, &slow_start));
    other = cpu;
    snprintf(other.driver, sizeof other.driver, "another");
    CHECK(!rx_calibration_load(&rx_backend_cpu, &other, &c));
    other = cpu;
    other.threads++;
    CHECK(!rx_calibration_load(&rx_backend_cpu, &other, &c));

    find_file(path, sizeof path);
    rlx_set_log(count_warning, NULL, RLX_LOG_WARN);
    for (long at = 0; at < FILE_BYTES; at++) { /* no byte may be another */
        change_byte(path, at);
        CHECK(!rx_calibration_load(&rx_backend_cpu, &cpu, &c));
        change_byte(path, at);
    }
    CHECK(n_warnings == FILE_BYTES);
    CHECK(rx_calibration_load(&rx_backend_cpu, &cpu, &c));
    for (long bytes = 0; bytes < FILE_BYTES; bytes += 13) {
        CHECK(truncate(path, bytes) == 0);
        CHECK(!rx_calibration_load(&rx_backend_cpu, &cpu, &c));
    }
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);

    /* Numbers that cannot be are refused even in a file that is whole. */
    rlx_calibration bad = quick_start;
    bad.bandwidth = NAN;
    CHECK_OK(rx_calibration_save(&rx_backend_cpu, &cpu, &bad, &err), &err);
    CHECK(!rx_calibration_load(&rx_backend_cpu, &cpu, &c));
    remove(path);
}

/* ---- The cost model -------------------------------------------------------------------------- */

static double estimate(int64_t n, const rlx_calibration *c)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    rlx_error err;
    double seconds = 0;
    rlx_graph *g = make_graph(n);
    CHECK_OK(rlx_device_open("null", NULL, &d, &err), &err);
    if (CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err))
        CHECK_OK(rlx_session_estimate(s, c, &seconds, &err), &err);
    rlx_session_destroy(s);
    rlx_device_close(d);
    rlx_graph_destroy(g);
    return seconds;
}

static void test_estimate(void)
{
    CHECK(estimate(8, &quick_start) < estimate(8, &slow_start));       /* latency decides */
    CHECK(estimate(2048, &slow_start) < estimate(2048, &quick_start)); /* rates decide */
    CHECK(estimate(64, &quick_start) < estimate(128, &quick_start));
    /* 2 * 1024^3 flop of the product, 8 MiB of transfers; little else. */
    const double want = 2 * 1024. * 1024 * 1024 / 1e11 + 2 * 4 * 1024. * 1024 / 2e10;
    const double got = estimate(1024, &quick_start);
    CHECK(got > want && got < 1.2 * want);
}

static void test_assumed(void)
{
    rlx_device_info cpu = {RLX_INIT(rlx_device_info), .backend = "cpu",
                           .threads = 8}, gpu = {.backend = "vulkan"};
    rlx_device_info soft = {RLX_INIT(rlx_device_info), .backend = "vulkan", .is_software = true};
    rlx_calibration c = rx_calibration_assume(&cpu), g = rx_calibration_assume(&gpu);
    rlx_calibration s = rx_calibration_assume(&soft);
    CHECK(estimate(1024, &g) < estimate(1024, &c) && estimate(1024, &c) < estimate(1024, &s));
    CHECK(estimate(4, &c) < estimate(4, &g) && estimate(4, &c) < estimate(4, &s));
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static void expect_choice(int64_t n, const char *want)
{
    char id[32];
    rlx_error err;
    rlx_graph *g = make_graph(n);
    CHECK_OK(rlx_device_choose(g, NULL, id, &err), &err);
    if (!CHECK(!strcmp(id, want)))
        printf("    size %d: expected %s, got %s\n", (int)n, want, id);
    rlx_graph_destroy(g);
}

static void expect_auto(const char *want)
{
    rlx_device *d = NULL;
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_error err;
    if (!CHECK_OK(rlx_device_open("auto", NULL, &d, &err), &err))
        return;
    rlx_device_get_info(d, &info, NULL);
    if (!CHECK(!strcmp(info.id, want)))
        printf("    auto: expected %s, got %s\n", want, info.id);
    rlx_device_close(d);
}

/* A software driver that says it is none stands for a GPU. */
static void test_choice(void)
{
    char reason[512];
    rlx_device_info cpu, gpu, web;
    rlx_error err;
    rx_backend_cpu.list(&cpu, 1, reason);
    CHECK_OK(rx_calibration_save(&rx_backend_cpu, &cpu, &quick_start, &err), &err);
    if (rx_backend_webgpu.list(&web, 1, reason) && !web.is_software)
        CHECK_OK(rx_calibration_save(&rx_backend_webgpu, &web, &slow_all, &err), &err);
    if (!rx_backend_vulkan.list(&gpu, 1, reason) || gpu.is_software) {
        printf("no Vulkan device: choices among several devices are not tested\n");
        expect_choice(2048, "cpu");
        expect_auto("cpu");
        return;
    }
    CHECK_OK(rx_calibration_save(&rx_backend_vulkan, &gpu, &slow_start, &err), &err);
    expect_choice(8, "cpu");
    expect_choice(2048, gpu.id);
    expect_auto(gpu.id);
    CHECK_OK(rx_calibration_save(&rx_backend_vulkan, &gpu, &slow_all, &err), &err);
    expect_choice(2048, "cpu");
    expect_auto("cpu");
    setenv("RLX_DEVICE", "ref", 1);
    expect_choice(8, "ref");
    expect_auto("ref");
    unsetenv("RLX_DEVICE");
}

static void test_public(void)
{
    rlx_calibration c = {RLX_INIT(rlx_calibration)};
    rlx_error err;
    char id[32];
    CHECK_FAILS(rlx_device_calibration("nonsense", 0, &c, &err), RLX_NO_DEVICE, &err, "nonsense");
    CHECK_FAILS(rlx_device_calibration("cpu", 1 << 5, &c, &err), RLX_INVALID, &err, "flags 0x20");
    CHECK_OK(rlx_device_calibration("ref", RLX_CALIBRATE_NOW, &c, &err), &err);
    CHECK(!c.measured && c.gemm > 0);
    CHECK_OK(rlx_device_calibration("cpu", RLX_CALIBRATE_NOW, &c, &err), &err);
    CHECK(c.measured && c.gemm > 0 && c.gemm_fast > 0 && c.bandwidth > 0 && c.dispatch > 0 &&
          c.submit > 0 && c.upload > 0 && c.download > 0);
    rlx_calibration again = {RLX_INIT(rlx_calibration)};
    CHECK_OK(rlx_device_calibration("cpu", 0, &again, &err), &err);
    CHECK(same(&c, &again));

    rlx_graph *g = rlx_graph_create("empty");
    rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){-5});
    CHECK(rlx_device_choose(g, NULL, id, &err) != RLX_OK && !id[0]);
    rlx_graph_destroy(g);
}

/* ---- Kernel variants ------------------------------------------------------------------------- */

/* The CPU device with a knob: programs that are bound with one of its choices run as slowly as it
 * says, and with the last not at all. */

static const rx_knob_choice speeds[] = {{"auto", {3}}, {"slow", {6}}, {"fast", {0}},
                                        {"broken", {0}}};
static const rx_knob fake_knobs[] = {
    {.name = "size", .choices = speeds, .n_choices = 1, .weight = RLX_Q4_0, .rows = 1, .size = 32,
     .copies = 1, .trans_b = true},
    {.name = "speed", .choices = speeds, .n_choices = 4, .weight = RLX_F32, .rows = 2, .size = 16,
     .copies = 2}};
static rx_knobs now_set;
static struct { rx_exec *exec; uint8_t choice; } bound[16];
static size_t n_bound;

static const rx_knob *list_fake_knobs(size_t *n)
{
    *n = 2;
    return fake_knobs;
}

static void set_fake_knobs(rx_device *d, const rx_knobs *k)
{
    (void)d;
    now_set = *k;
}

/* Keeps the choice of a program, whose address may be that of one that is gone. */
static void keep_choice(rx_exec *e)
{
    size_t at = 0;
    while (at < 16 && bound[at].exec != e)
        at++;
    at = at < 16 ? at : n_bound++ % 16;
    bound[at].exec = e;
    bound[at].choice = now_set.choice[1];
}

static rlx_status bind_fake(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    if (now_set.choice[1] == 3)
        return rx_fail(err, RLX_INTERNAL, "this variant is broken");
    keep_choice(e);
    return rx_backend_cpu.exec_bind(e, dims, err);
}

static rlx_status submit_fake(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err)
{
    for (size_t i = 0; i < 16; i++)
        if (bound[i].exec == e)
            usleep(1000 * speeds[bound[i].choice].word[0]);
    return rx_backend_cpu.exec_submit(e, s, ticket, err);
}

static void test_knobs(void)
{
    rx_backend fake = rx_backend_cpu;
    rlx_device *d;
    rlx_error err;
    rx_knobs k;
    char text[64];
    fake.knobs = list_fake_knobs;
    fake.set_knobs = set_fake_knobs;
    fake.exec_bind = bind_fake;
    fake.exec_submit = submit_fake;
    rx_knobs_parse(&fake, "speed=fast,other=1,speed=none,size", &k);
    CHECK(k.choice[0] == 0 && k.choice[1] == 2);
    rx_knobs_print(&fake, &k, text, sizeof text);
    CHECK(!strcmp(text, "speed=fast"));
    rx_knobs_parse(&fake, "", &k);
    rx_knobs_print(&fake, &k, text, sizeof text);
    CHECK(!text[0] && !k.choice[1]);

    if (!CHECK_OK(rlx_device_open("cpu", NULL, &d, &err), &err))
        return;
    d->backend = &fake;
    CHECK_OK(rx_calibrate_knobs(d, 4096, &k, &err), &err);
    CHECK(k.choice[0] == 0 && k.choice[1] == 2 && now_set.choice[1] == 2);
    setenv("RLX_KERNELS", "speed=slow", 1);
    rx_knobs_apply(d);
    CHECK(now_set.choice[1] == 1);
    unsetenv("RLX_KERNELS");
    rx_knobs_apply(d); /* the file of the CPU says nothing about it */
    CHECK(now_set.choice[1] == 0);
    d->backend = &rx_backend_cpu;
    rlx_device_close(d);
}

/* ---- Tuning ---------------------------------------------------------------------------------- */

static bool is_wrong; /* results of programs bound with the last choice */

static rlx_status bind_tuned(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    if (now_set.choice[1] == 3 && !is_wrong)
        return rx_fail(err, RLX_INTERNAL, "this variant is broken");
    keep_choice(e);
    return rx_backend_cpu.exec_bind(e, dims, err);
}

static rlx_status read_tuned(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                             rlx_error *err)
{
    RLX_TRY(rx_backend_cpu.exec_read(e, value, offset, data, bytes, err));
    if (bytes == 16 * sizeof(float) && now_set.choice[1] == 3)
        ((float *)data)[3] += 1;
    return RLX_OK;
}

static rlx_tune_verdict seen[4];
static size_t stop_at;
static bool keep_verdict(void *user, const rlx_tune_trial *t)
{
    (void)user;
    CHECK(!strcmp(t->kernel, "speed") && t->total == 3 && t->done <= t->total);
    for (size_t i = 0; i < 4; i++)
        if (!strcmp(t->variant, speeds[i].name))
            seen[i] = t->verdict;
    return t->done == stop_at;
}

/* A product of one row, with its weight and input; its result is {1, 2, 3, 0, ...}. */
static rlx_session *make_tuned(rlx_device *d)
{
    static const float numbers[32 * 16] = {1, 2, 3};
    rlx_session *s = NULL;
    rlx_error err;
    rlx_graph *g = rlx_graph_create("tuned");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){1, 32});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){32, 16});
    rlx_output(g, "y", rlx_relu(g, rlx_matmul(g, x, w)));
    CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    rlx_graph_destroy(g);
    CHECK_OK(rlx_session_set_param(s, "w", numbers, sizeof numbers, RLX_COPY, &err), &err);
    CHECK_OK(rlx_session_set_input(s, "x", numbers, 128, &err), &err);
    return s;
}

static void test_tuned_file(const rx_backend *b, const rlx_device_info *info)
{
    char path[512], text[RX_KNOBS_TEXT] = "";
    rlx_device_info other = *info;
    other.driver[0] ^= 1;
    CHECK(rx_tuned_load(b, info, text) && !strcmp(text, "speed=fast"));
    CHECK(!rx_tuned_load(b, &other, text)); /* of another driver */
    find_file(path, sizeof path);
    for (long at = 0; at < 40; at += 8) {
        change_byte(path, at);
        CHECK(!rx_tuned_load(b, info, text));
        change_byte(path, at);
    }
    CHECK(rx_tuned_load(b, info, text));
    CHECK(!truncate(path, 100) && !rx_tuned_load(b, info, text));
    rlx_error err;
    CHECK_OK(rx_tuned_save(b, info, "speed=slow", &err), &err);
    CHECK(rx_tuned_load(b, info, text) && !strcmp(text, "speed=slow"));
    CHECK_OK(rx_tuned_save(b, info, NULL, &err), &err);
    CHECK(!rx_tuned_load(b, info, text));
}

static void test_tune(void)
{
    rx_backend fake = rx_backend_cpu;
    rlx_device *d;
    rlx_error err;
    rlx_tune_desc desc = {RLX_INIT(rlx_tune_desc), .dry_run = true, .fn = keep_verdict};
    char kernels[192];
    float y[16];
    if (!CHECK_OK(rlx_device_open("cpu", NULL, &d, &err), &err))
        return;
    rlx_session *s = make_tuned(d);
    CHECK_FAILS(rlx_session_tune(s, NULL, NULL, &err), RLX_UNSUPPORTED, &err, "no kernel variants");
    fake.knobs = list_fake_knobs;
    fake.set_knobs = set_fake_knobs;
    fake.exec_bind = bind_tuned;
    fake.exec_submit = submit_fake;
    fake.exec_read = read_tuned;
    d->backend = &fake;
    rx_knobs_apply(d);
    CHECK_OK(rlx_session_tune(s, &desc, kernels, &err), &err);
    CHECK(!strcmp(kernels, "speed=fast") && now_set.choice[1] == 2);
    CHECK(seen[1] == RLX_TUNE_SLOWER && seen[2] == RLX_TUNE_FASTER && seen[3] == RLX_TUNE_FAILED);
    rx_knobs_apply(d);
    CHECK(now_set.choice[1] == 0); /* nothing was kept */
    is_wrong = true; /* as fast as the fastest */
    desc.dry_run = false;
    stop_at = 2;
    CHECK_FAILS(rlx_session_tune(s, &desc, kernels, &err), RLX_CANCELLED, &err, "after 2 of 3");
    CHECK(!rx_tuned_load(&fake, &d->info, kernels));
    stop_at = 0;
    CHECK_OK(rlx_session_tune(s, &desc, kernels, &err), &err);
    CHECK(!strcmp(kernels, "speed=fast") && now_set.choice[1] == 2 && seen[3] == RLX_TUNE_WRONG);
    now_set.choice[1] = 0;
    rx_knobs_apply(d); /* as a device opened later does */
    CHECK(now_set.choice[1] == 2);
    setenv("RLX_KERNELS", "speed=slow", 1);
    CHECK_FAILS(rlx_session_tune(s, NULL, NULL, &err), RLX_INVALID, &err, "RLX_KERNELS");
    unsetenv("RLX_KERNELS");
    test_tuned_file(&fake, &d->info);
    rlx_tensor out = {"y", y, sizeof y};
    CHECK_OK(rlx_run(s, NULL, 0, &out, 1, &err), &err); /* its input is still there */
    CHECK(y[0] == 1 && y[2] == 3 && y[3] == 0);
    rlx_session_destroy(s);
    d->backend = &rx_backend_cpu;
    rlx_device_close(d);
}

static void remove_files(void)
{
    char path[512];
    for (find_file(path, sizeof path); path[0]; find_file(path, sizeof path))
        if (remove(path))
            break;
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    setenv("RLX_CACHE_DIR", folder, 1);
    setenv("RLX_LIMITS", "software=0", 1);
    unsetenv("RLX_DEVICE");
    unsetenv("RLX_CALIBRATE");
    test_files();
    test_estimate();
    test_assumed();
    test_choice();
    test_public();
    test_knobs();
    remove_files();
    test_tune();
    remove_files();
    rmdir(folder);
    return check_done();
}
