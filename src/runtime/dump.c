/* SPDX-License-Identifier: MIT */
/* Debug logs of steps: RLX_SCHEDULE, their arena offsets; RLX_DISPATCH_REPORT, their kernels;
 * RLX_DUMP_NODES, in a run, the largest magnitude and the number of NaNs of their results, to find
 * the step where numbers go wrong. */
#include <math.h>
#include <stdio.h>

#include "runtime/session.h"

void rx_session_log_schedule(const rlx_session *s)
{
    rlx_step_info info = {RLX_INIT(rlx_step_info)};
    for (size_t i = 0; rlx_session_step(s, i, &info, NULL) == RLX_OK; i++)
        rx_log(RLX_LOG_INFO, "schedule %zu: %s '%s' %s at %llu + %llu", i, info.op, info.node,
               info.shapes, (unsigned long long)info.offset, (unsigned long long)info.size);
}

void rx_session_log_kernels(const rlx_session *s)
{
    const rx_program *p = s->shared->program;
    char dims[256] = "";
    rlx_step_info info = {RLX_INIT(rlx_step_info)};
    for (size_t i = 0, used = 0; i < p->n_dims && used < sizeof dims; i++)
        if (p->dims[i].kind == RX_DIM_NAMED)
            used += (size_t)snprintf(dims + used, sizeof dims - used, "%s %s=%lld",
                                     used ? "," : " with", p->dims[i].name,
                                     (long long)s->dims[i]);
    rx_log(RLX_LOG_INFO, "dispatch report of '%s' on %s%s", p->name, s->shared->device->info.id,
           dims);
    for (size_t i = 0; rlx_session_step(s, i, &info, NULL) == RLX_OK; i++)
        rx_log(RLX_LOG_INFO, "dispatch %zu: %s '%s' %s, kernel %s", i, info.op, info.node,
               rlx_support_name(info.support), info.kernel);
}

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
