/* SPDX-License-Identifier: MIT */
/* rlx explain --cost. */
#include "cost.h"

#include <stdlib.h>
#include <string.h>

#include "lists.h"
#include "term.h"

#define MOST_RUNS 50
#define ENOUGH 0.3 /* seconds of runs */

/* One run with its outputs read; seconds, or 0 when it failed. */
static double time_run(work *w, void *room)
{
    rlx_tensor_info info;
    rlx_error err = {0};
    double begin = cli_now();
    if (rlx_session_submit(w->session, NULL, &err) != RLX_OK ||
        rlx_session_wait(w->session, 0, -1, &err) != RLX_OK)
        return 0;
    for (size_t i = 0; rlx_session_leaf(w->session, RLX_LEAF_OUTPUT, i, &info); i++)
        if (rlx_session_read(w->session, info.name, 0, room, info.bytes, &err) != RLX_OK)
            return 0;
    return cli_now() - begin;
}

/* The shortest of some runs after a first one. */
static double time_runs(work *w)
{
    size_t bytes = 0;
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(w->session, RLX_LEAF_OUTPUT, i, &info); i++)
        bytes = info.bytes > bytes ? info.bytes : bytes;
    void *room = cli_alloc(bytes);
    double best = 0, end = cli_now() + ENOUGH;
    for (int i = 0; i <= MOST_RUNS && (i < 3 || cli_now() < end); i++) {
        double seconds = time_run(w, room);
        if (i == 1 || (i > 1 && seconds < best))
            best = seconds;
    }
    free(room);
    return best;
}

static void measure_row(const work *w, const cli_common *common, const work_options *o,
                        cost_row *row)
{
    cli_common one = *common;
    const char *ids[] = {row->device};
    work_options given = *o;
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc)};
    rlx_calibration c = {RLX_INIT(rlx_calibration)};
    work other = {0};
    one.device = (cli_list){ids, 1};
    given.random_params.given = given.random_inputs.given = true;
    cli_progress("running on %s", row->device);
    if (rlx_device_calibration(row->device, 0, &c, NULL) == RLX_OK &&
        work_open(&other, &one, &given, w->path, &desc) == EXIT_OK &&
        work_set_leaves(&other, &given) == EXIT_OK) {
        row->calibrated = c.measured;
        rlx_session_estimate(other.session, &c, &row->estimate, NULL);
        row->measured = time_runs(&other);
    }
    work_close(&other);
    cli_progress_clear();
}

cost_row *cost_measure(const work *w, const cli_common *common, const work_options *o, size_t *n)
{
    size_t n_devices;
    rlx_device_info *devices = list_devices(&n_devices);
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc)};
    char chosen[32] = "";
    cost_row *rows = cli_alloc_array(n_devices + 1, sizeof *rows);
    *n = 0;
    cli_policy(o->policy, RLX_POLICY_EXACT, &desc.policy); /* checked when w was opened */
    rlx_device_choose(w->graph, &desc, chosen, NULL);
    for (size_t i = 0; i < n_devices; i++)
        if (common->device.n ? !strcmp(devices[i].id, w->device_info.id) : !devices[i].is_test)
            snprintf(rows[(*n)++].device, sizeof rows->device, "%s", devices[i].id);
    for (size_t i = 0; i < *n; i++) {
        rows[i].chosen = !strcmp(rows[i].device, chosen);
        measure_row(w, common, o, &rows[i]);
    }
    free(devices);
    return rows;
}

void cost_print(const cost_row *rows, size_t n)
{
    table t;
    char text[SHORT_TEXT];
    bool assumed = false;
    table_init(&t, "llrrrl", "|device|estimate|measured|ratio|rates");
    for (size_t i = 0; i < n; i++) {
        const cost_row *r = &rows[i];
        table_styled(&t, TERM_GREEN, "%s", r->chosen ? "*" : " ");
        table_styled(&t, TERM_BOLD, "%s", r->device);
        table_cell(&t, "%s", r->estimate ? short_seconds(r->estimate, text) : "-");
        table_cell(&t, "%s", r->measured ? short_seconds(r->measured, text) : "-");
        if (r->measured)
            table_cell(&t, "%.2f", r->estimate / r->measured);
        else
            table_cell(&t, "-");
        table_cell(&t, "%s", r->calibrated ? "measured" : "assumed");
        assumed |= !r->calibrated;
    }
    table_print(&t, 2);
    printf("  * is what --device auto opens for this graph%s\n",
           assumed ? "; 'rlx devices --calibrate' measures the rates" : "");
}

void cost_json(json *j, const cost_row *rows, size_t n)
{
    json_array(j, "cost");
    for (size_t i = 0; i < n; i++) {
        json_row(j, NULL);
        json_text(j, "device", rows[i].device);
        json_bool(j, "chosen", rows[i].chosen);
        json_bool(j, "calibrated", rows[i].calibrated);
        json_real(j, "estimate_ms", rows[i].estimate * 1e3);
        json_real(j, "measured_ms", rows[i].measured * 1e3);
        json_end(j);
    }
    json_end(j);
}
