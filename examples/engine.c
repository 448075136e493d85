/* SPDX-License-Identifier: MIT */
/* Several stories at once: requests share the steps of one engine and the pages of their prompt.
 *     engine [MODEL.gguf [N]]     without arguments: models/tiny-stories.gguf, 4 stories */
#include <stdio.h>
#include <stdlib.h>

#include "rlx/rlx.h"

#define MOST 64

static rlx_status tell(rlx_request *r, size_t i, rlx_error *err)
{
    rlx_request_piece p;
    rlx_request_result result = {RLX_INIT(rlx_request_result)};
    bool more = true;
    printf("%zu: Once upon a time", i + 1);
    while (more) {
        const rlx_status st = rlx_request_next(r, -1, &p, &more, err);
        if (st != RLX_OK)
            return st;
        fwrite(p.text, 1, p.length, stdout);
    }
    rlx_request_get_result(r, &result, NULL);
    printf("\n   %zu tokens, %zu of the prompt from the cache\n", result.n_generated,
           result.n_cached);
    return RLX_OK;
}

static rlx_status tell_all(rlx_engine *e, size_t n, rlx_error *err)
{
    rlx_request *r[MOST] = {0};
    rlx_status st = RLX_OK;
    for (size_t i = 0; i < n && st == RLX_OK; i++) { /* they run at once */
        const rlx_sampling_desc lively = {RLX_INIT(rlx_sampling_desc), .temperature = 0.8,
                                          .seed = i};
        const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = "Once upon a time",
                                    .max_tokens = 60, .sampling = &lively};
        st = rlx_engine_submit(e, &d, &r[i], err);
    }
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        st = tell(r[i], i, err);
    for (size_t i = 0; i < n; i++)
        rlx_request_destroy(r[i]);
    return st;
}

int main(int argc, char **argv)
{
    const char *root = getenv("RLX_SOURCE_DIR");
    char path[1024];
    rlx_error err = {0};
    rlx_model *m = NULL;
    rlx_engine *e = NULL;
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    size_t n = argc > 2 ? (size_t)atoi(argv[2]) : 4;
    snprintf(path, sizeof path, "%.900s/models/tiny-stories.gguf", root ? root : ".");
    rlx_status st = rlx_model_open(argc > 1 ? argv[1] : path, NULL, &m, &err);
    if (st == RLX_OK)
        st = rlx_engine_create(m, NULL, &e, &err);
    if (st == RLX_OK)
        st = tell_all(e, n < MOST ? n : MOST, &err);
    if (st == RLX_OK && rlx_engine_get_info(e, &info, &err) == RLX_OK)
        printf("%llu tokens in all\n", (unsigned long long)info.generated_tokens);
    if (st != RLX_OK)
        fprintf(stderr, "engine: %s\n", err.text);
    rlx_engine_destroy(e);
    rlx_model_close(m);
    return st == RLX_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
