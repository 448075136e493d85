/* SPDX-License-Identifier: MIT */
/* rlx devices: what can run graphs here, and why other backends cannot. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "lists.h"
#include "term.h"

typedef struct options {
    cli_common common;
    bool all;
} options;

rlx_device_info *list_devices(size_t *n)
{
    *n = rlx_device_list(NULL, 0);
    rlx_device_info *list = cli_alloc(*n * sizeof *list);
    size_t now = rlx_device_list(list, *n);
    *n = now < *n ? now : *n;
    return list;
}

rlx_backend_info *list_backends(size_t *n)
{
    *n = rlx_backend_list(NULL, 0);
    rlx_backend_info *list = cli_alloc(*n * sizeof *list);
    size_t now = rlx_backend_list(list, *n);
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
    rlx_device_get_info(device, &list[0]);
    *n = 1;
    rlx_device_close(device);
    return EXIT_OK;
}

static void print_json(const rlx_device_info *list, size_t n)
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
        json_end(&j);
    }
    json_end(&j);
}

static void print_table(const rlx_device_info *list, size_t n, bool all)
{
    table t;
    char memory[SHORT_TEXT];
    table_init(&t, "llllrr", "|device|name|driver|memory|threads");
    for (size_t i = 0; i < n; i++) {
        if (list[i].is_test && !all)
            continue;
        table_styled(&t, TERM_GREEN, "%s", list[i].is_default ? "*" : " ");
        table_styled(&t, TERM_BOLD, "%s", list[i].id);
        table_cell(&t, "%s", list[i].name);
        table_cell(&t, "%s", list[i].driver);
        table_cell(&t, "%s", list[i].memory ? short_bytes((double)list[i].memory, memory) : "-");
        if (list[i].threads)
            table_cell(&t, "%u", list[i].threads);
        else
            table_cell(&t, "-");
    }
    table_print(&t, 0);
}

static void print_absent(void)
{
    size_t n;
    rlx_backend_info *list = list_backends(&n);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (list[i].available)
            continue;
        printf("%s  %s%s%s: %s\n", any ? "" : "\nnot available:\n", term_style(stdout, TERM_BOLD),
               list[i].name, term_style(stdout, TERM_PLAIN), list[i].reason);
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
    if (status == EXIT_OK && o->common.json) {
        print_json(list, n);
    } else if (status == EXIT_OK) {
        print_table(list, n, o->all || o->common.device.n);
        if (!o->common.device.n) {
            print_absent();
            printf("\n* is what --device auto opens%s\n",
                   o->all ? "; ref and null are for tests" : "; --all shows the test devices too");
        }
    }
    free(list);
    return status;
}

static const cli_option device_options[] = {
    {"all", CLI_FLAG, offsetof(options, all), NULL, "also show ref and null, the test devices"},
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
               "none.\nThe first column marks the one that \"auto\" opens.",
    .examples = "  rlx devices                    what is there\n"
                "  rlx devices --device vulkan    the device that this name opens\n"
                "  rlx devices --json             for scripts, test devices included",
};
