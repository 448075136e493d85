/* SPDX-License-Identifier: MIT */
/* rlx devices: lists the usable devices, and why other backends have none. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "lists.h"
#include "term.h"

typedef struct options {
    cli_common common;
    bool all, calibrate;
} options;

rlx_device_info *list_devices(size_t *n)
{
    size_t now = 0;
    rlx_device_list(NULL, 0, n, NULL);
    rlx_device_info *list = cli_alloc_array(*n, sizeof *list);
    if (*n)
        list[0] = RLX_DEFAULT(rlx_device_info);
    rlx_device_list(list, *n, &now, NULL);
    *n = now < *n ? now : *n;
    return list;
}

rlx_backend_info *list_backends(size_t *n)
{
    size_t now = 0;
    rlx_backend_list(NULL, 0, n, NULL);
    rlx_backend_info *list = cli_alloc_array(*n, sizeof *list);
    if (*n)
        list[0] = RLX_DEFAULT(rlx_backend_info);
    rlx_backend_list(list, *n, &now, NULL);
    *n = now < *n ? now : *n;
    return list;
}

/* Only the device asked for is left when --device is given. */
static int filter(const cli_common *c, rlx_device_info *list, size_t *n)
{
    const char *id;
    int status = cli_one_device(c, &id);
    if (status || !id)
        return status;
    rlx_device *device = cli_open_device(c, id);
    if (!device)
        return EXIT_FAILED;
    rlx_device_get_info(device, &list[0], NULL);
    *n = 1;
    rlx_device_close(device);
    return EXIT_OK;
}

/* The numbers of each device, measured now if asked for. NULL after printing why not. */
static rlx_calibration *calibrate(const rlx_device_info *list, size_t n, bool now)
{
    rlx_calibration *c = cli_alloc_array(n, sizeof *c);
    rlx_error err = {0};
    for (size_t i = 0; i < n; i++) {
        if (now && !list[i].is_test)
            cli_progress("measuring %s", list[i].id);
        c[i] = RLX_DEFAULT(rlx_calibration);
        if (rlx_device_calibration(list[i].id, now ? RLX_CALIBRATE_NOW : 0, &c[i], &err) == RLX_OK)
            continue;
        cli_progress_clear();
        cli_error(&err);
        free(c);
        return NULL;
    }
    cli_progress_clear();
    return c;
}

static void json_calibration(json *j, const rlx_calibration *c)
{
    json_row(j, "calibration");
    json_bool(j, "measured", c->measured);
    json_real(j, "gemm_gflops", c->gemm * 1e-9);
    json_real(j, "gemm_fast_gflops", c->gemm_fast * 1e-9);
    json_real(j, "bandwidth_gbs", c->bandwidth * 1e-9);
    json_real(j, "dispatch_us", c->dispatch * 1e6);
    json_real(j, "submit_us", c->submit * 1e6);
    json_real(j, "upload_gbs", c->upload * 1e-9);
    json_real(j, "download_gbs", c->download * 1e-9);
    json_text(j, "kernels", c->kernels);
    json_end(j);
}

/* Kernel variants that were measured to be faster than the usual ones. */
static void print_kernels(const rlx_device_info *list, const rlx_calibration *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c[i].kernels[0])
            printf("  kernels of %s: %s\n", list[i].id, c[i].kernels);
}

static void print_calibration(const rlx_device_info *list, const rlx_calibration *c, size_t n,
                              bool all)
{
    table t;
    char text[SHORT_TEXT];
    bool assumed = false;
    table_init(&t, "lrrrrrrr", "device|products|fast|memory|step|run|upload|download");
    for (size_t i = 0; i < n; i++, c++) {
        if (list[i].is_test && !all)
            continue;
        const double rates[] = {c->gemm, c->gemm_fast, c->bandwidth};
        table_styled(&t, TERM_BOLD, "%s%s", list[i].id, c->measured ? "" : "?");
        for (size_t k = 0; k < ARRAY_LEN(rates); k++)
            table_cell(&t, "%s", short_count(rates[k], text));
        table_cell(&t, "%s", short_seconds(c->dispatch, text));
        table_cell(&t, "%s", short_seconds(c->submit, text));
        table_cell(&t, "%s", short_count(c->upload, text));
        table_cell(&t, "%s", short_count(c->download, text));
        assumed |= !c->measured && !list[i].is_test;
    }
    putchar('\n');
    table_print(&t, 2);
    puts("  products in flop/s, memory and transfers in bytes/s");
    if (assumed)
        printf("  ?: typical of its kind, not measured; 'rlx devices --calibrate' measures\n");
}

static void print_json(const rlx_device_info *list, const rlx_calibration *c, size_t n)
{
    json j = {.f = stdout};
    json_array(&j, NULL);
    for (size_t i = 0; i < n; i++) {
        json_object(&j, NULL);
        json_text(&j, "id", list[i].id);
        json_text(&j, "backend", list[i].backend);
        json_text(&j, "name", list[i].name);
        json_text(&j, "driver", list[i].driver);
        json_text(&j, "detail", list[i].detail);
        json_int(&j, "memory", (int64_t)list[i].memory);
        json_int(&j, "threads", list[i].threads);
        json_bool(&j, "default", list[i].is_default);
        json_bool(&j, "test", list[i].is_test);
        json_calibration(&j, &c[i]);
        json_end(&j);
    }
    json_end(&j);
}

static void print_table(const rlx_device_info *list, size_t n, bool all)
{
    table t;
    char memory[SHORT_TEXT];
    table_init(&t, "lllrr", "|device|name|memory|threads");
    for (size_t i = 0; i < n; i++) {
        if (list[i].is_test && !all)
            continue;
        table_styled(&t, TERM_GREEN, "%s", list[i].is_default ? "*" : " ");
        table_styled(&t, TERM_BOLD, "%s", list[i].id);
        table_cell(&t, "%.40s", list[i].name);
        table_cell(&t, "%s", list[i].memory ? short_bytes((double)list[i].memory, memory) : "-");
        if (list[i].threads)
            table_cell(&t, "%u", list[i].threads);
        else
            table_cell(&t, "-");
    }
    table_print(&t, 0);
}

/* Driver, features and limits, and what the self-check of a GPU has found. */
static void print_details(const rlx_device_info *list, size_t n, bool all)
{
    for (size_t i = 0; i < n; i++) {
        const rlx_device_info *d = &list[i];
        if (d->is_test && !all)
            continue;
        char *text = cli_format("%s%s%s", d->driver, *d->driver && *d->detail ? "; " : "",
                                d->detail);
        char *safe = term_escape(text, strlen(text), false);
        printf("\n  %s%s%s\n    ", term_style(stdout, TERM_BOLD), d->id,
               term_style(stdout, TERM_PLAIN));
        term_wrap(stdout, safe, 4);
        free(safe);
        free(text);
    }
}

static void print_absent(void)
{
    size_t n;
    rlx_backend_info *list = list_backends(&n);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (list[i].available)
            continue;
        printf("%s  %s%s%s\n    ", any ? "" : "\nnot available:\n", term_style(stdout, TERM_BOLD),
               list[i].name, term_style(stdout, TERM_PLAIN));
        term_wrap(stdout, list[i].reason, 4);
        any = true;
    }
    free(list);
}

static int run_devices(void *record)
{
    const options *o = record;
    size_t n;
    rlx_device_info *list = list_devices(&n);
    if (!n)
        list = cli_realloc(list, sizeof *list);
    int status = filter(&o->common, list, &n);
    rlx_calibration *c = status == EXIT_OK ? calibrate(list, n, o->calibrate) : NULL;
    if (!c) {
        status = status ? status : EXIT_FAILED;
    } else if (o->common.json) {
        print_json(list, c, n);
    } else {
        const bool all = o->all || o->common.device.n;
        print_table(list, n, all);
        print_details(list, n, all);
        print_calibration(list, c, n, all);
        print_kernels(list, c, n);
        if (!o->common.device.n) {
            print_absent();
            printf("\n* is what --device auto opens%s\n",
                   o->all ? "; ref and null are for tests" : "; --all shows the test devices too");
        }
    }
    free(c);
    free(list);
    return status;
}

static const cli_option device_options[] = {
    {"all", CLI_FLAG, offsetof(options, all), NULL, "also show ref and null, the test devices"},
    {"calibrate", CLI_FLAG, offsetof(options, calibrate), NULL,
     "measure the devices (a second or a few each) and keep the numbers"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_devices = {
    .name = "devices",
    .args = "",
    .summary = "list the devices that graphs can run on",
    .run = run_devices,
    .options = device_options,
    .record_bytes = sizeof(options),
    .details = "Lists the devices that can be opened now, and for each other backend why it has "
               "none.\nThe first column marks the one that \"auto\" opens.\n\n"
               "The last table is what each device does: the rates of matrix products (f32, and\n"
               "under policy fast) and of memory, the time of a step and of a run besides their\n"
               "work, the rates of inputs and outputs. Automatic choices go by these numbers.\n"
               "Below are kernel variants of GPUs that were measured to be faster there.",
    .examples = "  rlx devices                    what is there\n"
                "  rlx devices --device vulkan    the device that this name opens\n"
                "  rlx devices --calibrate        measure them, for the automatic choice\n"
                "  rlx devices --json             for scripts, test devices included",
};
