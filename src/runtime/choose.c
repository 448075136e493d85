/* SPDX-License-Identifier: MIT */
/* Device choice for "auto": the fastest by the cost model for a graph, or for typical work when
 * there is no graph. Opens no device. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"
#include "base/sized.h"
#include "compile/compile.h"
#include "compile/estimate.h"
#include "runtime/calibrate.h"
#include "runtime/device.h"

/* ---- Without a graph ------------------------------------------------------------------------- */

/* Seconds of typical work: a layer of a language model for one token, and for many. */
static double typical_seconds(const rlx_calibration *c)
{
    const double weights = 64e6, tokens = 256;
    const double one = weights / c->bandwidth + 16 * c->dispatch + c->submit;
    return one + tokens * weights / c->gemm + 16 * c->dispatch + c->submit;
}

/* The first device of a backend, if "auto" may open it. */
static bool may_choose(const rx_backend *b, rlx_device_info *info)
{
    char reason[512];
    return b->rank >= 0 && b->list(info, 1, reason) && !info->is_software;
}

const rx_backend *rx_backend_best(void)
{
    const rx_backend *best = NULL;
    double best_seconds = 0;
    for (size_t i = 0; rx_backends[i]; i++) {
        const rx_backend *b = rx_backends[i];
        rlx_device_info info = {RLX_INIT(rlx_device_info)};
        if (!may_choose(b, &info))
            continue;
        const rlx_calibration c = rx_calibration_get(b, &info);
        const double seconds = typical_seconds(&c);
        /* Ties are broken by the rank of the backend. */
        const bool slower = best && seconds > best_seconds;
        if (!best || (b->rank > best->rank ? !slower : seconds * 2 < best_seconds)) {
            best = b;
            best_seconds = seconds;
        }
    }
    return best;
}

/* ---- For a graph ----------------------------------------------------------------------------- */

/* A target that has every operation and any strides, so that no device need be opened. */
static rlx_support has_all(const rx_target *t, const rlx_graph *g, const rx_node *n)
{
    (void)t, (void)g, (void)n;
    return RLX_SUPPORT_NATIVE;
}

static bool takes_all(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i)
{
    (void)t, (void)g, (void)n, (void)i;
    return true;
}

static bool can_run(const rx_backend *b, const rlx_device_info *info, const rx_program *p)
{
    const rlx_memory_info *m = &p->memory;
    const uint64_t bytes = m->arena_bytes + m->param_bytes + m->state_bytes + m->input_bytes;
    if (info->memory && bytes > info->memory)
        return false;
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].op != RX_OP_region &&
            rlx_op_support(b->name, rx_ops[p->steps[i].op].name) == RLX_SUPPORT_NO)
            return false;
    return true;
}

static size_t count_candidates(char id[32])
{
    size_t n = 0;
    for (size_t i = 0; rx_backends[i]; i++) {
        rlx_device_info info = {RLX_INIT(rlx_device_info)};
        if (may_choose(rx_backends[i], &info) && n++ == 0)
            snprintf(id, 32, "%s", info.id);
    }
    return n;
}

static bool choose(const rx_program *p, char id[32])
{
    double best = 0;
    for (size_t i = 0; rx_backends[i]; i++) {
        rlx_device_info info = {RLX_INIT(rlx_device_info)};
        if (!may_choose(rx_backends[i], &info) || !can_run(rx_backends[i], &info, p))
            continue;
        const rlx_calibration c = rx_calibration_get(rx_backends[i], &info);
        const double seconds = rx_estimate(p, &c);
        rx_log(RLX_LOG_DEBUG, "'%s' on %s: %.3g ms by the cost model (%s)", p->name, info.id,
               seconds * 1e3, c.measured ? "measured rates" : "assumed rates");
        if (best && seconds >= best)
            continue;
        best = seconds;
        snprintf(id, 32, "%s", info.id);
    }
    return best > 0;
}

rlx_status rlx_device_choose(const rlx_graph *g, const rlx_session_desc *desc, char id[32],
                             rlx_error *err)
{
    RLX_TRY(rx_need(g, "rlx_device_choose: g", err));
    RLX_TRY(rx_need(id, "rlx_device_choose: id", err));
    static const rx_target any = {.name = "any device", .align = 64, .support = has_all,
                                  .takes_strided = takes_all};
    rlx_session_desc full;
    rx_choice named;
    rx_program *p;
    id[0] = 0;
    RLX_TRY(RX_DESC_READ(rlx_session_desc, &full, desc, err));
    const rlx_session_desc plain = {RLX_INIT(rlx_session_desc), .policy = full.policy};
    RLX_TRY(rlx_graph_verify(g, err));
    if (rx_env_text(RX_ENV_DEVICE)) {
        RLX_TRY(rx_device_find(NULL, &named, err));
        memcpy(id, named.info.id, sizeof named.info.id);
        return RLX_OK;
    }
    if (count_candidates(id) == 1)
        return RLX_OK;
    RLX_TRY(rx_compile(g, &any, &plain, &p, err));
    const bool found = choose(p, id);
    rx_program_unref(p);
    return found ? RLX_OK : rx_fail(err, RLX_NO_DEVICE, "no device here can run graph '%s'",
                                    rlx_graph_name(g));
}
