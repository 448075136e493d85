/* SPDX-License-Identifier: MIT */
/* Autotuning of the kernel variants of a device: for each knob a session with a product that shows
 * the difference, and clones of it, one a choice, run round-robin. A choice is kept when it is
 * clearly faster than the default; one that fails is skipped. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "runtime/calibrate.h"
#include "runtime/device.h"

#define MAX_CHOICES 8
#define ROUNDS 8
#define BUDGET_NS INT64_C(80000000) /* time of all rounds of one knob */
#define GAIN 0.95                   /* a choice below this fraction of the default's time is clearly
                                     * faster */

/* ---- The product ----------------------------------------------------------------------------- */

static rlx_value add_product(rlx_graph *g, const rx_knob *k, rlx_value x, rlx_value w)
{
    if (!rlx_dtype_is_float(k->weight))
        return rlx_dequant_matmul(g, x, w);
    return rlx_matmul_ex(g, x, w, RLX_NONE, RLX_NONE, &(rlx_matmul_desc){RLX_INIT(rlx_matmul_desc),
                                                                         .trans_b = k->trans_b});
}

static rlx_graph *make_graph(const rx_knob *k, int64_t size)
{
    static const char *const names[] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};
    rlx_graph *g = rlx_graph_create("calibrate_knob");
    if (!g)
        return NULL;
    int64_t rows = k->rows < size ? k->rows : size;
    rlx_dtype type = rlx_dtype_is_float(k->weight) ? k->weight : RLX_F32;
    rlx_value x = rlx_param(g, "x", type, 2, (rlx_dim[]){rows, size});
    for (int i = 0; i < k->copies; i++) {
        rlx_value w = rlx_param(g, names[i], k->weight, 2, (rlx_dim[]){size, size});
        x = add_product(g, k, x, w);
    }
    rlx_output(g, "y", rlx_narrow(g, x, 0, 0, 1));
    return g;
}

/* Bytes that are a small number of each type, and small scales of packed types. */
static rlx_status set_params(rlx_session *s, rlx_error *err)
{
    rlx_tensor_info info;
    size_t most = 0;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &info); i++)
        most = info.bytes > most ? info.bytes : most;
    void *data = rx_alloc(most);
    if (!data)
        return rx_fail_memory(err, "calibration", most);
    memset(data, 0x29, most);
    rlx_status st = RLX_OK;
    for (size_t i = 0; st == RLX_OK && rlx_session_leaf(s, RLX_LEAF_PARAM, i, &info); i++)
        st = rlx_session_set_param(s, info.name, data, info.bytes, RLX_COPY, err);
    rx_free(data);
    return st;
}

static rlx_status make_session(rlx_device *d, const rx_knob *k, int64_t size, rlx_session **out,
                               rlx_error *err)
{
    rlx_graph *g = make_graph(k, size);
    *out = NULL;
    if (!g)
        return rx_fail_memory(err, "calibration", 0);
    rlx_status st = rlx_session_create(d, g, NULL, out, err);
    rlx_graph_destroy(g);
    return st == RLX_OK ? set_params(*out, err) : st;
}

/* ---- The contest ----------------------------------------------------------------------------- */

typedef struct contest {
    rlx_session *runner[MAX_CHOICES]; /* NULL: does not take part */
    int64_t best_ns[MAX_CHOICES];
    size_t n;
} contest;

static rlx_status run_once(rlx_session *s, int64_t *ns, rlx_error *err)
{
    const int64_t start = rx_now_ns();
    RLX_TRY(rlx_session_submit(s, NULL, err));
    RLX_TRY(rlx_session_wait(s, 0, -1, err));
    *ns = rx_now_ns() - start;
    return RLX_OK;
}

/* A clone is bound, with the variant that is set then, by its first run. */
static rlx_status prepare(rlx_device *d, rlx_session *base, rx_knobs knobs, size_t at, contest *c,
                          rlx_error *err)
{
    for (size_t i = 0; i < c->n; i++) {
        int64_t ns;
        knobs.choice[at] = (uint8_t)i;
        d->backend->set_knobs(d->device, &knobs);
        rlx_status st = rlx_session_clone(base, &c->runner[i], err);
        if (st == RLX_OK)
            st = run_once(c->runner[i], &ns, err);
        c->best_ns[i] = INT64_MAX;
        if (st == RLX_OK)
            continue;
        rlx_session_destroy(c->runner[i]);
        c->runner[i] = NULL;
        if (i == 0 || st == RLX_DEVICE_LOST)
            return st;
    }
    return RLX_OK;
}

static rlx_status run_rounds(contest *c, rlx_error *err)
{
    const int64_t begin = rx_now_ns();
    for (int r = 0; r < 2 || (r < ROUNDS && rx_now_ns() - begin < BUDGET_NS); r++)
        for (size_t i = 0; i < c->n; i++) {
            int64_t ns = INT64_MAX;
            if (c->runner[i])
                RLX_TRY(run_once(c->runner[i], &ns, err));
            c->best_ns[i] = ns < c->best_ns[i] ? ns : c->best_ns[i];
        }
    return RLX_OK;
}

static uint8_t winner(const contest *c)
{
    size_t best = 0;
    for (size_t i = 1; i < c->n; i++)
        if (c->best_ns[i] < c->best_ns[best])
            best = i;
    return (double)c->best_ns[best] < GAIN * (double)c->best_ns[0] ? (uint8_t)best : 0;
}

static rlx_status measure_knob(rlx_device *d, const rx_knob *table, size_t at, int64_t most,
                               rx_knobs *knobs, rlx_error *err)
{
    const rx_knob *k = &table[at];
    contest c = {.n = k->n_choices < MAX_CHOICES ? k->n_choices : MAX_CHOICES};
    rlx_session *base;
    rlx_status st = make_session(d, k, k->size < most ? k->size : most, &base, err);
    if (st == RLX_OK)
        st = prepare(d, base, *knobs, at, &c, err);
    if (st == RLX_OK)
        st = run_rounds(&c, err);
    if (st == RLX_OK) {
        knobs->choice[at] = winner(&c);
        for (size_t i = 0; i < c.n; i++)
            rx_log(RLX_LOG_DEBUG, "%s %s %s: %.1f us%s", d->info.id, k->name, k->choices[i].name,
                   c.runner[i] ? (double)c.best_ns[i] * 1e-3 : -1.0,
                   i == knobs->choice[at] ? ", taken" : "");
    }
    for (size_t i = 0; i < c.n; i++)
        rlx_session_destroy(c.runner[i]);
    rlx_session_destroy(base);
    return st;
}

rlx_status rx_calibrate_knobs(rlx_device *d, int64_t most, rx_knobs *out, rlx_error *err)
{
    size_t n = 0;
    const rx_knob *table = d->backend->knobs ? d->backend->knobs(&n) : NULL;
    *out = (rx_knobs){{0}};
    for (size_t i = 0; i < n; i++) {
        if (!table[i].copies)
            continue;
        rlx_error why = {0}; /* also of variants that did not take part */
        rlx_status st = measure_knob(d, table, i, most, out, &why);
        if (st == RLX_DEVICE_LOST)
            return rx_fail(err, st, "%s", why.text);
        if (st != RLX_OK)
            rx_log(RLX_LOG_INFO, "%s: kernel variants of '%s' were not measured: %s", d->info.id,
                   table[i].name, why.text);
    }
    d->knobs = *out;
    if (d->backend->set_knobs)
        d->backend->set_knobs(d->device, out);
    return RLX_OK;
}
