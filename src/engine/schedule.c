/* SPDX-License-Identifier: MIT */
/* The scheduler: which requests run, and which of their tokens the next step computes.
 *
 * Requests are ordered by priority, then by submission, waiting and running ones alike. A request
 * that needs a page takes one from those after it: the last running one is preempted, loses its
 * pages and waits again at its old position. So the first one can take all pages, and every request
 * fits the pool alone (rlx_engine_submit): it always progresses, hence all requests end. */
#include <string.h>

#include "engine/engine.h"

#define MIN_PROMPT_ROWS 16 /* of a step, however slow steps are */
#define FIRST_PROMPT_ROWS 64 /* while nothing has been measured */

/* ---- Lists ----------------------------------------------------------------------------------- */

static bool is_before(const rlx_request *a, const rlx_request *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->serial < b->serial;
}

static void insert(rlx_request **list, size_t *n, rlx_request *r)
{
    size_t i = (*n)++;
    for (; i > 0 && is_before(r, list[i - 1]); i--)
        list[i] = list[i - 1];
    list[i] = r;
}

static void erase(rlx_request **list, size_t *n, size_t i)
{
    memmove(&list[i], &list[i + 1], (--*n - i) * sizeof *list);
}

static void erase_running(rlx_engine *e, const rlx_request *r)
{
    size_t i = 0;
    while (e->running[i] != r)
        i++;
    erase(e->running, &e->n_running, i);
    e->slots[e->n_slots++] = r->slot;
}

static void leave_queue(rlx_engine *e, int by)
{
    rx_mutex_lock(&e->lock);
    e->n_queued -= (size_t)by;
    rx_mutex_unlock(&e->lock);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

void rx_end_running(rlx_engine *e, rlx_request *r, rlx_status st, rlx_finish finish,
                    const rlx_error *why)
{
    erase_running(e, r);
    rx_pages_release(e->pages, &r->table);
    rx_request_end(r, st, finish, why);
}

static rlx_request *take_inbox(rlx_engine *e)
{
    rx_mutex_lock(&e->lock);
    rlx_request *r = e->inbox;
    e->inbox = NULL;
    e->inbox_end = &e->inbox;
    rx_mutex_unlock(&e->lock);
    return r;
}

void rx_end_all(rlx_engine *e, rlx_status st, rlx_finish finish, const rlx_error *why)
{
    for (rlx_request *r = take_inbox(e), *next; r; r = next) {
        next = r->next;
        leave_queue(e, 1);
        rx_request_end(r, st, finish, why);
    }
    while (e->n_waiting) {
        rlx_request *r = e->waiting[--e->n_waiting];
        leave_queue(e, 1);
        rx_request_end(r, st, finish, why);
    }
    while (e->n_running)
        rx_end_running(e, e->running[e->n_running - 1], st, finish, why);
}

/* Whether a request must end now. */
static bool is_over(const rlx_request *r, int64_t now, rlx_finish *finish)
{
    *finish = atomic_load(&r->cancelled) ? RLX_FINISH_CALLER : RLX_FINISH_DEADLINE;
    return *finish == RLX_FINISH_CALLER || (r->deadline_ns >= 0 && now >= r->deadline_ns);
}

static void end_over(rlx_engine *e)
{
    const int64_t now = rx_now_ns();
    rlx_finish finish;
    rlx_error why = {0};
    for (size_t i = e->n_waiting; i-- > 0;) {
        rlx_request *r = e->waiting[i];
        if (!is_over(r, now, &finish))
            continue;
        erase(e->waiting, &e->n_waiting, i);
        leave_queue(e, 1);
        const rlx_status st = rx_tokens_flush(r, &finish, &why);
        rx_request_end(r, st, finish, &why);
    }
    for (size_t i = e->n_running; i-- > 0;) {
        rlx_request *r = e->running[i];
        if (!is_over(r, now, &finish))
            continue;
        const rlx_status st = rx_tokens_flush(r, &finish, &why);
        rx_end_running(e, r, st, finish, &why);
    }
}

/* ---- Admission ------------------------------------------------------------------------------- */

static void receive(rlx_engine *e)
{
    for (rlx_request *r = take_inbox(e), *next; r; r = next) {
        next = r->next;
        rlx_error why = {0};
        if (rx_grow(&e->waiting, &e->cap_waiting, e->n_waiting + e->sequences + 1,
                    sizeof(rlx_request *))) {
            insert(e->waiting, &e->n_waiting, r);
            continue;
        }
        leave_queue(e, 1);
        rx_fail_memory(&why, "the queue of an engine", (e->n_waiting + 1) * sizeof r);
        rx_request_end(r, RLX_NO_MEMORY, RLX_FINISH_CALLER, &why);
    }
}

/* Drops the pages of a running request, which waits again. The waiting list has room (receive). */
static void preempt(rlx_engine *e, rlx_request *r)
{
    erase_running(e, r);
    rx_pages_release(e->pages, &r->table);
    r->computed = r->n_rows = 0;
    insert(e->waiting, &e->n_waiting, r);
    rx_mutex_lock(&e->lock);
    r->result.n_preempted++;
    e->info.preemptions++;
    e->n_queued++;
    rx_mutex_unlock(&e->lock);
}

/* Tokens not yet computed. */
static size_t left(const rlx_request *r)
{
    return r->n - r->computed;
}

static size_t common_prefix(const rlx_request *a, const rlx_request *b)
{
    const size_t most = a->n < b->n ? a->n : b->n;
    size_t i = 0;
    while (i < most && a->tokens[i] == b->tokens[i])
        i++;
    return i;
}

/* Whether a running request of at least the same priority is about to compute pages that this one
 * could share. */
static bool should_wait(const rlx_engine *e, const rlx_request *r)
{
    const size_t page = (size_t)e->build.page;
    for (size_t i = 0; i < e->n_running && e->shares; i++) {
        const rlx_request *s = e->running[i];
        if (left(s) <= 1 || s->priority < r->priority || s->table.salt != r->table.salt)
            continue;
        size_t common = common_prefix(r, s);
        common = common < r->n ? common : r->n - 1;
        if (common / page > r->computed / page)
            return true;
    }
    return false;
}

/* Admits a waiting request, with the pages known for its tokens. False: it keeps waiting, since
 * another computes the same prefix, or (*full) since pages are missing. */
static bool admit(rlx_engine *e, size_t i, bool *full)
{
    rlx_request *r = e->waiting[i];
    r->computed = e->shares ? rx_pages_find(e->pages, r->tokens, r->n, &r->table) : 0;
    bool fits = !should_wait(e, r);
    *full = false;
    if (fits && e->n_running) { /* reserve one page for each running request */
        const size_t need = rx_pages_needed(e->pages, &r->table, r->computed, r->n + 1);
        fits = need + e->n_running <= rx_pages_available(e->pages);
        *full = !fits;
    }
    if (!fits) {
        rx_pages_release(e->pages, &r->table);
        r->computed = 0;
        return false;
    }
    erase(e->waiting, &e->n_waiting, i);
    r->slot = e->slots[--e->n_slots];
    r->drafted = 0; /* its pages may be others */
    insert(e->running, &e->n_running, r);
    rx_mutex_lock(&e->lock);
    e->n_queued--;
    if (!r->admitted) {
        r->begin_ns = rx_now_ns();
        r->result.n_cached = r->computed < r->n_prompt ? r->computed : r->n_prompt;
        e->info.prompt_tokens += r->n_prompt;
        e->info.cached_tokens += r->result.n_cached;
    }
    rx_mutex_unlock(&e->lock);
    r->admitted = true;
    return true;
}

/* In order; a request of higher priority preempts the last running one. */
static void admit_waiting(rlx_engine *e)
{
    bool full;
    for (size_t i = 0; i < e->n_waiting;) {
        const rlx_request *last = e->n_running ? e->running[e->n_running - 1] : NULL;
        const bool higher = last && e->waiting[i]->priority > last->priority;
        if (e->n_running == e->sequences) {
            if (!higher)
                return;
            preempt(e, e->running[e->n_running - 1]);
        }
        if (admit(e, i, &full))
            continue;
        if (full && !higher)
            return;
        if (full)
            preempt(e, e->running[e->n_running - 1]);
        else
            i++;
    }
}

/* ---- The rows of a step ---------------------------------------------------------------------- */

/* Prompt rows of the next step, beside the decoding requests: what fits the time of a step. */
static size_t prompt_budget(const rlx_engine *e, size_t n_decoding)
{
    const size_t most = e->max_rows - n_decoding;
    if (!n_decoding)
        return most;
    size_t n = FIRST_PROMPT_ROWS;
    if (e->row_seconds > 0) {
        const double rows = (e->step_seconds - e->decode_seconds) / e->row_seconds;
        n = rows < MIN_PROMPT_ROWS ? MIN_PROMPT_ROWS : rows > 1e6 ? 1000000 : (size_t)rows;
    }
    /* powers of two need no padding */
    size_t power = 1;
    while (power * 2 <= n_decoding + n)
        power *= 2;
    if (power > n_decoding + MIN_PROMPT_ROWS)
        n = power - n_decoding;
    return n < most ? n : most;
}

/* Plans up to n rows for request i, with pages for them. */
static void plan_rows(rlx_engine *e, size_t i, size_t n)
{
    rlx_request *r = e->running[i];
    const size_t page = (size_t)e->build.page;
    rx_page_copy copy;
    r->n_rows = 0;
    while (n && !rx_pages_extend(e->pages, &r->table, r->computed, r->computed + n, &copy)) {
        const size_t room = r->table.n * page + rx_pages_available(e->pages) * page;
        if (room > r->computed)
            n = room - r->computed < n ? room - r->computed : n - 1;
        else if (e->n_running - 1 > i)
            preempt(e, e->running[e->n_running - 1]);
        else
            n = 0;
    }
    r->n_rows = n;
}

/* Output rows for n rows of a request: the last known token, and those whose successors are
 * reported with probabilities. */
static size_t limit_outputs(const rlx_request *r, size_t n, size_t most)
{
    if (!r->log_probs)
        return n;
    const size_t first = r->n_given - 1; /* row of the first output */
    if (r->computed + n <= first + most)
        return n;
    return first + most > r->computed ? first + most - r->computed : 0;
}

static size_t count_outputs(const rlx_request *r)
{
    const size_t end = r->computed + r->n_rows, first = r->n_given - 1;
    if (r->log_probs && end > first)
        return end - (first > r->computed ? first : r->computed);
    return end == r->n;
}

static size_t count_prompts(const rlx_engine *e, size_t from)
{
    size_t n = 0;
    for (size_t i = from; i < e->n_running; i++)
        n += left(e->running[i]) > 1;
    return n;
}

/* One row for each decoding request; the prompt budget in equal shares for the prompts of one
 * priority, the highest first. Preemption shortens the list at its end. */
static void plan_step(rlx_engine *e)
{
    size_t outputs = (size_t)e->build.outputs, n_decoding = 0;
    for (size_t i = 0; i < e->n_running; i++)
        n_decoding += left(e->running[i]) == 1;
    size_t budget = prompt_budget(e, n_decoding);
    e->n_decoding = e->n_prompt_rows = 0;
    for (size_t i = 0; i < e->n_running; i++) {
        rlx_request *r = e->running[i];
        size_t n = 1;
        if (left(r) > 1) {
            size_t sharing = count_prompts(e, i);
            for (size_t k = i; k < e->n_running && sharing > 1; k++)
                sharing -= left(e->running[k]) > 1 && e->running[k]->priority < r->priority;
            n = (budget + sharing - 1) / sharing;
            n = n < left(r) ? n : left(r);
        }
        n = limit_outputs(r, outputs ? n : 0, outputs);
        plan_rows(e, i, n);
        outputs -= count_outputs(r);
        if (left(r) > 1) {
            budget -= r->n_rows;
            e->n_prompt_rows += r->n_rows;
        } else {
            e->n_decoding += r->n_rows;
        }
    }
}

/* The planned step has no row: the first request cannot get a page, although it fits alone, so host
 * memory is exhausted. */
static void fail_first(rlx_engine *e)
{
    rlx_error why;
    const rlx_status st = rx_fail_memory(&why, "the page table of a request",
                                         e->running[0]->n * sizeof(int32_t));
    rx_end_running(e, e->running[0], st, RLX_FINISH_CALLER, &why);
}

bool rx_engine_plan(rlx_engine *e)
{
    receive(e);
    end_over(e);
    for (;;) {
        admit_waiting(e);
        if (!e->n_running)
            return false;
        plan_step(e);
        if (e->n_decoding + e->n_prompt_rows > 0) {
            rx_guess_plan(e);
            return true;
        }
        fail_first(e);
    }
}
