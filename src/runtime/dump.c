/* SPDX-License-Identifier: MIT */
/* RLX_DUMP_NODES: a run that logs, after each step, the largest magnitude and the number of NaNs in
 * its results, to find the step where numbers go wrong. */
#include <math.h>

#include "runtime/session.h"

typedef struct extremes {
    float largest;
    int64_t n_nan;
} extremes;

static extremes find_extremes(const rlx_tensor_info *info, const char *data)
{
    enum { BLOCK = 256 };
    float lanes[BLOCK];
    extremes e = {0};
    int64_t size = rlx_dtype_block_bytes(info->dtype), n = (int64_t)info->bytes / size;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t count = n - at < BLOCK ? n - at : BLOCK;
        rlx_to_float(info->dtype, data + at * size, lanes, count);
        for (int64_t i = 0; i < count; i++) {
            e.n_nan += isnan(lanes[i]) != 0;
            e.largest = fabsf(lanes[i]) > e.largest ? fabsf(lanes[i]) : e.largest;
        }
    }
    return e;
}

static int log_step(void *user, const rlx_step_result *r)
{
    const rx_step *step = &((const rx_program *)user)->steps[r->step];
    for (size_t i = 0; i < r->n_results; i++) {
        char type[RX_TYPE_TEXT];
        extremes e = find_extremes(&r->infos[i], r->data[i]);
        rx_log(RLX_LOG_INFO, "node %zu: %s '%s' %s: largest %g, %lld NaN", r->step,
               rx_ops[step->op].name, step->name ? step->name : "",
               rx_number_type_text(r->infos[i].dtype, &r->infos[i].shape, type),
               (double)e.largest, (long long)e.n_nan);
    }
    return 0;
}

rlx_status rx_session_run_dump(rlx_session *s, rlx_error *err)
{
    return rx_session_run_steps(s, true, log_step, s->shared->program, err);
}
