/* SPDX-License-Identifier: MIT */
/* Order of runs on the CPU: inline for synchronous ones, on one thread of the device for the
 * others. The thread serves the execs round-robin, one run each, so no session starves another. */
#include "cpu/device.h"

bool rx_cpu_queue_init(rx_device *d)
{
    if (!rx_mutex_init(&d->queue_lock))
        return false;
    if (rx_cond_init(&d->queue_wake))
        return true;
    rx_mutex_finish(&d->queue_lock);
    return false;
}

void rx_cpu_queue_finish(rx_device *d)
{
    rx_mutex_lock(&d->queue_lock);
    d->stop = true;
    rx_cond_broadcast(&d->queue_wake);
    rx_mutex_unlock(&d->queue_lock);
    if (d->has_worker)
        rx_thread_join(&d->worker);
    rx_cond_finish(&d->queue_wake);
    rx_mutex_finish(&d->queue_lock);
}

/* ---- The worker of the device ---------------------------------------------------------------- */

static void push_exec(rx_device *d, rx_exec *e)
{
    rx_mutex_lock(&d->queue_lock);
    e->next = NULL;
    if (d->queue_tail)
        d->queue_tail->next = e;
    else
        d->queue_head = e;
    d->queue_tail = e;
    rx_cond_signal(&d->queue_wake);
    rx_mutex_unlock(&d->queue_lock);
}

/* The next exec with work, or NULL when the device closes. */
static rx_exec *pop_exec(rx_device *d)
{
    rx_mutex_lock(&d->queue_lock);
    while (!d->queue_head && !d->stop)
        rx_cond_wait(&d->queue_wake, &d->queue_lock);
    rx_exec *e = d->queue_head;
    if (e) {
        d->queue_head = e->next;
        if (!d->queue_head)
            d->queue_tail = NULL;
    }
    rx_mutex_unlock(&d->queue_lock);
    return e;
}

/* Marks run `ticket` as done; e->lock is held. A failure fails those queued after it. */
static void finish_run(rx_exec *e, uint64_t ticket, rlx_status st, const rlx_error *error)
{
    if (st != RLX_OK) {
        e->fail_first = ticket;
        e->fail_last = e->submitted;
        e->error = *error;
    }
    e->done = ticket;
}

/* Runs the oldest pending run of an exec. */
static void serve_exec(rx_device *d, rx_exec *e)
{
    rx_mutex_lock(&e->lock);
    uint64_t ticket = e->done + 1;
    rx_submit s = e->pending[ticket % RX_MAX_PENDING];
    bool skip = e->fail_first && ticket >= e->fail_first && ticket <= e->fail_last;
    rx_mutex_unlock(&e->lock);

    rlx_error error = {0};
    rlx_status st = skip ? RLX_OK : rx_cpu_run(e, &s, &error);

    rx_mutex_lock(&e->lock);
    finish_run(e, ticket, st, &error);
    bool more = e->done < e->submitted;
    e->queued = more;
    if (more)
        push_exec(d, e);
    rx_cond_broadcast(&e->changed);
    rx_mutex_unlock(&e->lock);
}

static void *worker_main(void *user)
{
    rx_device *d = user;
    for (rx_exec *e = pop_exec(d); e; e = pop_exec(d))
        serve_exec(d, e);
    return NULL;
}

static bool start_worker(rx_device *d)
{
    rx_mutex_lock(&d->queue_lock);
    if (!d->has_worker)
        d->has_worker = rx_thread_start(&d->worker, worker_main, d);
    bool ok = d->has_worker;
    rx_mutex_unlock(&d->queue_lock);
    return ok;
}

/* ---- Runs of an exec ------------------------------------------------------------------------- */

static void wait_idle_locked(rx_exec *e)
{
    while (e->done < e->submitted || e->queued)
        rx_cond_wait(&e->changed, &e->lock);
}

void rx_cpu_wait_idle(rx_exec *e)
{
    rx_mutex_lock(&e->lock);
    wait_idle_locked(e);
    rx_mutex_unlock(&e->lock);
}

static rlx_status submit_inline(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err)
{
    rx_mutex_lock(&e->lock);
    wait_idle_locked(e);
    *ticket = ++e->submitted;
    rx_mutex_unlock(&e->lock);

    rlx_error error = {0};
    rlx_status st = rx_cpu_run(e, s, &error);

    rx_mutex_lock(&e->lock);
    finish_run(e, *ticket, st, &error);
    rx_cond_broadcast(&e->changed);
    rx_mutex_unlock(&e->lock);
    return st == RLX_OK ? RLX_OK : rx_fail(err, st, "%s", error.text);
}

rlx_status rx_cpu_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err)
{
    if (!s->async || !start_worker(e->device))
        return submit_inline(e, s, ticket, err);
    rx_mutex_lock(&e->lock);
    while (e->submitted - e->done == RX_MAX_PENDING)
        rx_cond_wait(&e->changed, &e->lock);
    *ticket = ++e->submitted;
    e->pending[*ticket % RX_MAX_PENDING] = *s;
    if (!e->queued) {
        e->queued = true;
        push_exec(e->device, e);
    }
    rx_mutex_unlock(&e->lock);
    return RLX_OK;
}

rlx_status rx_cpu_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err)
{
    const int64_t deadline = rx_deadline(timeout_ms);
    rlx_status st = RLX_OK;
    rx_mutex_lock(&e->lock);
    while (e->done < ticket && st == RLX_OK) {
        if (deadline < 0)
            rx_cond_wait(&e->changed, &e->lock);
        else if (!rx_cond_wait_until(&e->changed, &e->lock, deadline) && e->done < ticket)
            st = rx_fail(err, RLX_TIMEOUT, "run %llu was not done after %lld ms",
                         (unsigned long long)ticket, (long long)timeout_ms);
    }
    if (st == RLX_OK && e->fail_first && ticket >= e->fail_first && ticket <= e->fail_last)
        st = rx_fail(err, e->error.code, "%s", e->error.text);
    rx_mutex_unlock(&e->lock);
    return st;
}
