/* SPDX-License-Identifier: MIT */
/* Runs in flight: tickets, waiting from any number of threads, and their failures. */
#include "gpu/exec/exec.h"

bool rx_gpu_runs_init(rx_gpu_runs *r, const rx_gpu_driver *driver, rx_exec *e)
{
    *r = (rx_gpu_runs){.driver = driver, .exec = e};
    if (!rx_mutex_init(&r->lock))
        return false;
    if (rx_cond_init(&r->changed))
        return true;
    rx_mutex_finish(&r->lock);
    return false;
}

void rx_gpu_runs_finish(rx_gpu_runs *r)
{
    rx_cond_finish(&r->changed);
    rx_mutex_finish(&r->lock);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Counts run done + 1 as done; the lock is held. */
static void end_run(rx_gpu_runs *r)
{
    rlx_error error = {0};
    r->done++;
    if (r->driver->end(r->exec, r->done, &error) == RLX_OK)
        return;
    r->fail_first = r->done;
    r->fail_last = r->submitted;
    r->error = error;
}

/* One thread at a time waits for the oldest run, the others for that thread. The lock is held, and
 * released while waiting. False at the deadline, or where blocking is not possible. */
static bool wait_oldest(rx_gpu_runs *r, int64_t deadline_ns)
{
    if (r->polling && deadline_ns < 0) {
        rx_cond_wait(&r->changed, &r->lock);
        return true;
    }
    if (r->polling)
        return rx_cond_wait_until(&r->changed, &r->lock, deadline_ns) || rx_now_ns() < deadline_ns;
    const uint64_t oldest = r->done + 1;
    r->polling = true;
    rx_mutex_unlock(&r->lock);
    const bool ended = r->driver->wait(r->exec, oldest, deadline_ns);
    rx_mutex_lock(&r->lock);
    r->polling = false;
    if (ended)
        end_run(r);
    rx_cond_broadcast(&r->changed);
    return ended;
}

static rlx_status fail_timeout(uint64_t ticket, int64_t timeout_ms, rlx_error *err)
{
    if (timeout_ms < 0)
        return rx_fail(err, RLX_TIMEOUT, "run %llu is not done and the browser cannot wait for it",
                       (unsigned long long)ticket);
    return rx_fail(err, RLX_TIMEOUT, "run %llu was not done after %lld ms",
                   (unsigned long long)ticket, (long long)timeout_ms);
}

rlx_status rx_gpu_runs_wait(rx_gpu_runs *r, uint64_t ticket, int64_t timeout_ms, rlx_error *err)
{
    const int64_t deadline = rx_deadline(timeout_ms);
    rlx_status st = RLX_OK;
    rx_mutex_lock(&r->lock);
    while (r->done < ticket && st == RLX_OK)
        if (!wait_oldest(r, deadline) && r->done < ticket)
            st = fail_timeout(ticket, deadline < 0 ? -1 : timeout_ms, err);
    if (st == RLX_OK && r->fail_first && ticket >= r->fail_first && ticket <= r->fail_last)
        st = rx_fail(err, r->error.code, "%s", r->error.text);
    rx_mutex_unlock(&r->lock);
    return st;
}

rlx_status rx_gpu_runs_wait_all(rx_gpu_runs *r, rlx_error *err)
{
    rx_mutex_lock(&r->lock);
    const uint64_t last = r->submitted;
    rx_mutex_unlock(&r->lock);
    return last ? rx_gpu_runs_wait(r, last, -1, err) : RLX_OK;
}

/* ---- Submitting ----------------------------------------------------------------------------- */

rlx_status rx_gpu_runs_next(rx_gpu_runs *r, uint64_t *ticket, rlx_error *err)
{
    rx_mutex_lock(&r->lock);
    *ticket = r->submitted + 1;
    rx_mutex_unlock(&r->lock);
    if (*ticket <= RX_GPU_N_SLOTS)
        return RLX_OK;
    rlx_error why = {0};
    rlx_status st = rx_gpu_runs_wait(r, *ticket - RX_GPU_N_SLOTS, -1, &why);
    if (st == RLX_DEVICE_LOST || st == RLX_TIMEOUT)
        return rx_fail(err, st, "%s", why.text);
    return RLX_OK; /* the failure of the old run is returned to whoever waits for it */
}

void rx_gpu_runs_begin(rx_gpu_runs *r)
{
    rx_mutex_lock(&r->lock);
    r->submitted++;
    rx_mutex_unlock(&r->lock);
}

bool rx_gpu_runs_under_way(rx_gpu_runs *r)
{
    rx_mutex_lock(&r->lock);
    const bool is = r->done < r->submitted;
    rx_mutex_unlock(&r->lock);
    return is;
}
