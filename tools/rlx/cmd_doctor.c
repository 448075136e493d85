/* SPDX-License-Identifier: MIT */
/* rlx doctor: checks what rlx needs from this machine and says how to get what is missing. Every
 * device runs a small graph, whose results are compared with those of the reference device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "lists.h"
#include "tensor.h"
#include "system.h"
#include "term.h"

#define ROWS 37
#define INNER 24
#define COLUMNS 19
#define TOLERANCE 1e-4 /* of f32 sums in another order */

/* ---- The self-test --------------------------------------------------------------------------- */

typedef struct check {
    bool ok;
    bool limited; /* the device lacks an operation of the test: not wrong, but not proven */
    bool calibrated; /* measured before, for the automatic choice */
    double error, seconds;
    char text[520];
} check;

/* y = softmax(gelu(x.w + b) + r), which meets a product, an epilogue, a region and a reduction. */
static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("doctor");
    if (!g)
        return NULL;
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){ROWS, INNER});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){INNER, COLUMNS});
    rlx_value b = rlx_param(g, "b", RLX_F32, 1, (rlx_dim[]){COLUMNS});
    rlx_value h = rlx_gelu(g, rlx_add(g, rlx_matmul(g, x, w), b));
    rlx_value r = rlx_reduce(g, RLX_REDUCE_MEAN, x, (int64_t[]){1}, 1, true);
    rlx_output(g, "y", rlx_softmax(g, rlx_add(g, h, r), -1));
    return g;
}

static rlx_status run_graph(rlx_device *d, const rlx_graph *g, float *y, double *seconds,
                            rlx_error *err)
{
    rlx_session *s = NULL;
    rlx_status st = rlx_session_create(d, g, NULL, &s, err);
    tensor leaves[3] = {
        {.name = (char *)"x", .dtype = RLX_F32, .shape = {2, {ROWS, INNER}}},
        {.name = (char *)"w", .dtype = RLX_F32, .shape = {2, {INNER, COLUMNS}}},
        {.name = (char *)"b", .dtype = RLX_F32, .shape = {1, {COLUMNS}}},
    };
    for (int i = 0; i < 3; i++) {
        tensor *t = &leaves[i];
        t->bytes = (size_t)tensor_elements(&t->shape) * sizeof(float);
        t->data = cli_alloc(t->bytes);
        tensor_fill_random(t, i ? FILL_PARAM : FILL_INPUT, 1);
        if (st == RLX_OK && i)
            st = rlx_session_set_param(s, t->name, t->data, t->bytes, RLX_COPY, err);
    }
    rlx_const_tensor in = {"x", leaves[0].data, leaves[0].bytes};
    rlx_tensor out = {"y", y, ROWS * COLUMNS * sizeof *y};
    double begin = cli_now();
    if (st == RLX_OK)
        st = rlx_run(s, &in, 1, &out, 1, err);
    *seconds = cli_now() - begin;
    rlx_session_destroy(s);
    for (int i = 0; i < 3; i++)
        free(leaves[i].data);
    return st;
}

/* Fills in *info what the device tells of itself once it is open, its self-check included. */
static rlx_status test_device(rlx_device_info *info, float *y, double *seconds, rlx_error *err)
{
    rlx_device *d = NULL;
    rlx_graph *g = make_graph();
    rlx_status st = rlx_device_open(info->id, NULL, &d, err);
    if (st == RLX_OK) {
        rlx_device_get_info(d, info, NULL);
        st = run_graph(d, g, y, seconds, err);
    }
    rlx_device_close(d);
    rlx_graph_destroy(g);
    return st;
}

static check check_device(rlx_device_info *info)
{
    rlx_device_info ref = {RLX_INIT(rlx_device_info), .id = "ref"};
    static float want[ROWS * COLUMNS], got[ROWS * COLUMNS];
    check c = {.ok = true};
    double ignored;
    rlx_error err = {0};
    if (test_device(&ref, want, &ignored, &err) != RLX_OK ||
        test_device(info, got, &c.seconds, &err) != RLX_OK) {
        c.limited = err.code == RLX_UNSUPPORTED;
        c.ok = c.limited;
        snprintf(c.text, sizeof c.text, "%s", err.text);
        return c;
    }
    if (!strcmp(info->backend, "null")) {
        snprintf(c.text, sizeof c.text, "program checked; this device computes nothing");
        return c;
    }
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        double e = fabs((double)want[i] - got[i]);
        c.error = e > c.error || isnan(e) ? e : c.error;
    }
    c.ok = c.error <= TOLERANCE;
    snprintf(c.text, sizeof c.text, "largest difference from ref %.2g%s", c.error,
             c.ok ? "" : ": its results are wrong");
    return c;
}

static bool is_calibrated(const rlx_device_info *info)
{
    rlx_calibration c = {RLX_INIT(rlx_calibration)};
    return rlx_device_calibration(info->id, 0, &c, NULL) == RLX_OK && c.measured;
}

/* ---- The cache folder ------------------------------------------------------------------------ */

typedef struct cache {
    char path[512];
    const char *state;
    bool ok;
} cache;

static cache check_cache(void)
{
    cache c = {.ok = true};
    struct stat st;
    if (!rlx_cache_dir(c.path, sizeof c.path)) {
        c.path[0] = 0;
        c.ok = false;
        c.state = "none: set RLX_CACHE_DIR or HOME";
    } else if (rx_stat(c.path, &st)) {
        c.state = "made when it is first needed";
    } else if (!S_ISDIR(st.st_mode)) {
        c.ok = false;
        c.state = "not a folder: set RLX_CACHE_DIR to another place";
    } else {
        c.ok = rx_access(c.path, W_OK | X_OK) == 0;
        c.state = c.ok ? "writable" : "not writable: set RLX_CACHE_DIR to another place";
    }
    return c;
}

/* ---- The report ------------------------------------------------------------------------------ */

typedef struct report {
    rlx_device_info *devices;
    check *checks;
    rlx_backend_info *backends;
    rlx_env_info *env;
    size_t n_devices, n_backends, n_env;
    cache cache;
    bool ok;
} report;

static const char *compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "unknown compiler";
#endif
}

static void mark(const char *style, const char *text)
{
    printf("  %s%-7s%s  ", term_style(stdout, style), text, term_style(stdout, TERM_PLAIN));
}

static void heading(const char *text)
{
    printf("\n%s%s%s\n", term_style(stdout, TERM_BOLD), text, term_style(stdout, TERM_PLAIN));
}

static void print_backends(const report *r)
{
    heading("Backends");
    for (size_t i = 0; i < r->n_backends; i++) {
        const rlx_backend_info *b = &r->backends[i];
        if (b->available) {
            mark(TERM_GREEN, "ok");
            puts(b->name);
            continue;
        }
        mark(TERM_DIM, "none"); /* every backend but the CPU is one that a machine can do without */
        printf("%-7s ", b->name);
        char *reason = cli_format("optional; %s", b->reason);
        term_wrap(stdout, reason, 19);
        free(reason);
    }
}

static void print_devices(const report *r)
{
    heading("Devices: a small graph, compared with the reference");
    char time[SHORT_TEXT];
    for (size_t i = 0; i < r->n_devices; i++) {
        const check *c = &r->checks[i];
        const char *style = !c->ok ? TERM_RED : c->limited ? TERM_YELLOW : TERM_GREEN;
        mark(style, !c->ok ? "FAILED" : c->limited ? "LIMITED" : "ok");
        char *result = cli_format("%s (%s)", c->text, short_seconds(c->seconds, time));
        printf("%-10s ", r->devices[i].id);
        term_wrap(stdout, result, 22);
        free(result);
        if (!r->devices[i].is_test)
            printf("  %-7s  %-10s %s\n", "", "",
                   c->calibrated ? "calibrated" : "not calibrated: rlx devices --calibrate");
        if (r->devices[i].detail[0]) {
            printf("%22s%s", "", term_style(stdout, TERM_DIM));
            term_wrap(stdout, r->devices[i].detail, 22);
            fputs(term_style(stdout, TERM_PLAIN), stdout);
        }
    }
}

static void print_environment(const report *r)
{
    heading("Environment");
    for (size_t i = 0; i < r->n_env; i++)
        if (r->env[i].value)
            printf("  %s=%s\n    %s%s%s\n", r->env[i].name, r->env[i].value,
                   term_style(stdout, TERM_DIM), r->env[i].help, term_style(stdout, TERM_PLAIN));
    printf("  not set:");
    for (size_t i = 0, column = 10; i < r->n_env; i++) {
        if (r->env[i].value)
            continue;
        size_t n = strlen(r->env[i].name) + 1;
        if (column + n > 79) {
            printf("\n          ");
            column = 10;
        }
        printf(" %s", r->env[i].name);
        column += n;
    }
    putchar('\n');
}

static void print_report(const report *r)
{
    printf("rlx %s, %s\n", rlx_version(), compiler());
    print_backends(r);
    print_devices(r);
    heading("Cache folder");
    mark(r->cache.ok ? TERM_GREEN : TERM_RED, r->cache.ok ? "ok" : "MISSING");
    printf("%s (%s)\n", r->cache.path, r->cache.state);
    print_environment(r);
    printf("\n%s%s%s\n", term_style(stdout, r->ok ? TERM_GREEN : TERM_RED),
           r->ok ? "no device gives wrong results" : "something is wrong: see FAILED above",
           term_style(stdout, TERM_PLAIN));
}

static void json_devices(json *j, const report *r)
{
    json_array(j, "devices");
    for (size_t i = 0; i < r->n_devices; i++) {
        json_object(j, NULL);
        json_text(j, "id", r->devices[i].id);
        json_text(j, "name", r->devices[i].name);
        json_text(j, "driver", r->devices[i].driver);
        json_bool(j, "ok", r->checks[i].ok);
        json_bool(j, "limited", r->checks[i].limited);
        json_bool(j, "calibrated", r->checks[i].calibrated);
        json_real(j, "max_error", r->checks[i].error);
        json_text(j, "text", r->checks[i].text);
        json_text(j, "detail", r->devices[i].detail);
        json_end(j);
    }
    json_end(j);
}

static void print_json(const report *r)
{
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_bool(&j, "ok", r->ok);
    json_text(&j, "version", rlx_version());
    json_text(&j, "compiler", compiler());
    json_array(&j, "backends");
    for (size_t i = 0; i < r->n_backends; i++) {
        json_row(&j, NULL);
        json_text(&j, "name", r->backends[i].name);
        json_bool(&j, "available", r->backends[i].available);
        json_text(&j, "reason", r->backends[i].reason);
        json_end(&j);
    }
    json_end(&j);
    json_devices(&j, r);
    json_row(&j, "cache");
    json_text(&j, "path", r->cache.path);
    json_bool(&j, "ok", r->cache.ok);
    json_text(&j, "state", r->cache.state);
    json_end(&j);
    json_object(&j, "environment");
    for (size_t i = 0; i < r->n_env; i++)
        json_text(&j, r->env[i].name, r->env[i].value);
    json_end(&j);
    json_end(&j);
}

static int fill_report(report *r, const cli_common *common)
{
    const char *id;
    int status = cli_one_device(common, &id);
    r->devices = list_devices(&r->n_devices);
    r->backends = list_backends(&r->n_backends);
    r->n_env = rlx_env_list(NULL, 0);
    r->env = cli_alloc_array(r->n_env, sizeof *r->env);
    rlx_env_list(r->env, r->n_env);
    r->cache = check_cache();
    if (status == EXIT_OK && id) {
        rlx_device *d = cli_open_device(common, id);
        if (!d)
            return EXIT_FAILED;
        rlx_device_get_info(d, &r->devices[0], NULL);
        r->n_devices = 1;
        rlx_device_close(d);
    }
    return status;
}

static int run_doctor(void *record)
{
    const cli_common *common = record;
    report r = {.ok = true};
    int status = fill_report(&r, common);
    if (status == EXIT_OK) {
        r.checks = cli_alloc_array(r.n_devices, sizeof *r.checks);
        for (size_t i = 0; i < r.n_devices; i++) {
            cli_progress("testing %s", r.devices[i].id);
            r.checks[i] = check_device(&r.devices[i]);
            r.checks[i].calibrated = is_calibrated(&r.devices[i]);
            r.ok &= r.checks[i].ok;
        }
        cli_progress_clear();
        if (common->json)
            print_json(&r);
        else
            print_report(&r);
        status = r.ok ? EXIT_OK : EXIT_FAILED;
    }
    free(r.devices);
    free(r.backends);
    free(r.env);
    free(r.checks);
    return status;
}

const cli_command cmd_doctor = {
    .name = "doctor",
    .args = "",
    .summary = "check the machine: devices, drivers, cache, environment",
    .run = run_doctor,
    .record_bytes = sizeof(cli_common),
    .details = "For each backend: whether it has a device, and if not why and how to get one.\n"
               "Each device runs a small graph, and its results are compared with the reference.\n"
               "Exit status 1 when a device that is there gives wrong results.",
    .examples = "  rlx doctor                    check everything\n"
                "  rlx doctor --device vulkan    check one device\n"
                "  rlx doctor --json             for scripts and bug reports",
};
