/* SPDX-License-Identifier: MIT */
/* Threads that submit, receive, cancel and destroy requests of one engine at random, by callback
 * and by polling: whatever happens, every request ends, its callback is not called afterwards, and
 * no page is left behind. */
#include <stdlib.h>

#include "rlx/rlx.h"
#include "support/memory.h"
#include "support/threads.h"
#include "support/tiny_model.h"

#define THREADS 4
#define REQUESTS 150 /* of each thread */

static rlx_engine *engine;

/* What a callback knows of its request. */
typedef struct receiver {
    atomic_int pieces, ends;
    atomic_bool destroyed;
    int stop_after;
} receiver;

static int on_piece(void *user, rlx_request *r, const rlx_request_piece *p)
{
    receiver *v = user;
    (void)r;
    expect(!atomic_load(&v->destroyed) && !atomic_load(&v->ends));
    atomic_fetch_add(p ? &v->pieces : &v->ends, 1);
    return p && atomic_load(&v->pieces) == v->stop_after;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static rlx_request *submit(rlx_request_desc *d, uint64_t *state)
{
    static const char text[] = "The quick brown fox jumps over the lazy dog";
    int32_t tokens[40];
    rlx_request *r = NULL;
    const rlx_sampling_desc s = {RLX_INIT(rlx_sampling_desc), .temperature = 1,
                                 .seed = next_random(state), .repeat_penalty = 1.1};
    d->n_tokens = 1 + next_random(state) % 40;
    for (size_t i = 0; i < d->n_tokens; i++)
        tokens[i] = text[i];
    if (d->n_tokens > 20 && next_random(state) % 2)
        tokens[20] = (int32_t)(next_random(state) % TINY_VOCABULARY);
    d->tokens = tokens;
    d->max_tokens = 1 + next_random(state) % 20;
    d->priority = next_random(state) % 3;
    d->log_probs = next_random(state) % 4 == 0;
    d->deadline_ms = next_random(state) % 16 ? 0 : 1;
    d->sampling = &s;
    expect(rlx_engine_submit(engine, d, &r, NULL) == RLX_OK);
    return r;
}

static void use_polling(uint64_t *state)
{
    rlx_request_desc d = {RLX_INIT(rlx_request_desc)};
    rlx_request *r = submit(&d, state);
    rlx_request_piece p;
    bool more = true;
    uint32_t patience = next_random(state) % 30;
    for (; more && patience > 0; patience--) {
        const rlx_status st = rlx_request_next(r, patience % 5 ? -1 : 1, &p, &more, NULL);
        expect(st == RLX_OK || st == RLX_TIMEOUT);
        more = more || st == RLX_TIMEOUT;
    }
    if (next_random(state) % 2) {
        rlx_request_result result = {RLX_INIT(rlx_request_result)};
        rlx_request_cancel(r);
        expect(rlx_request_wait(r, -1, NULL) == RLX_OK);
        expect(rlx_request_get_result(r, &result, NULL) == RLX_OK && result.ended);
    }
    rlx_request_destroy(r);
}

static void use_callback(uint64_t *state)
{
    receiver v = {.stop_after = (int)(next_random(state) % 20)};
    rlx_request_desc d = {RLX_INIT(rlx_request_desc), .fn = on_piece, .user = &v};
    rlx_request *r = submit(&d, state);
    if (next_random(state) % 4) {
        expect(rlx_request_wait(r, -1, NULL) == RLX_OK);
        expect(rlx_request_next(r, 0, &(rlx_request_piece){0}, &(bool){0}, NULL) == RLX_INVALID);
    }
    rlx_request_destroy(r);
    atomic_store(&v.destroyed, true);
}

static void *use_engine(void *number)
{
    uint64_t state = (uint64_t)(uintptr_t)number;
    for (int i = 0; i < REQUESTS; i++)
        if (next_random(&state) % 2)
            use_polling(&state);
        else
            use_callback(&state);
    return NULL;
}

/* The engine is idle soon; then nothing is held. */
static void check_nothing_left(void)
{
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    rlx_error err = {0};
    const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = "x", .max_tokens = 2};
    for (int i = 0; i < 1000; i++) {
        rlx_request *r = NULL;
        CHECK_OK(rlx_engine_submit(engine, &d, &r, &err), &err);
        CHECK_OK(rlx_request_wait(r, -1, &err), &err);
        rlx_request_destroy(r);
        CHECK_OK(rlx_engine_get_info(engine, &info, &err), &err);
        if (!info.held_pages && !info.running && !info.waiting)
            break;
    }
    CHECK(info.held_pages == 0 && info.running == 0 && info.waiting == 0);
    CHECK(info.preemptions > 0 && info.steps > 0 && info.cached_tokens > 0);
}

int main(void)
{
    rlx_error err = {0};
    rlx_model *m = NULL;
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    rlx_set_allocator(&counting);
    blob file = tiny_model(TINY_LLAMA, 5);
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = "cpu", .threads = 1};
    rlx_engine_desc small = {RLX_INIT(rlx_engine_desc), .sequences = 8, .page = 4, .rows = 16};
    CHECK_OK(rlx_model_open_memory(file.data, file.n, &d, &m, &err), &err);
    CHECK_OK(rlx_engine_create(m, &small, &engine, &err), &err);
    CHECK_OK(rlx_engine_get_info(engine, &info, &err), &err);
    rlx_engine_destroy(engine);
    small.cache_bytes = info.cache_bytes / (uint64_t)info.pages * 20; /* less than two contexts */
    if (CHECK_OK(rlx_engine_create(m, &small, &engine, &err), &err)) {
        run_threads(THREADS, use_engine);
        check_nothing_left();
        rlx_engine_destroy(engine);
    }
    rlx_model_close(m);
    blob_free(&file);
    CHECK(memory_live() == 0);
    return check_done();
}
