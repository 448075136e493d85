/* SPDX-License-Identifier: MIT */
/* LoRA adapters in contexts and engines.
 *     test_adapters MODEL adapters=FILE,.. tokens=1,2/3,.. out=FILE [device=D] [context=0:1,1:0.5]
 *                   [engine=0:1/-/1:0.5]
 * writes what test_adapters.py compares with NumPy: logits of the last token of each sequence by a
 * context with these adapters (number:scale), or the best tokens with their log-probabilities by an
 * engine, in which each sequence has its own.
 * Without arguments: tokens and log-probabilities of requests with and without adapters have the
 * same bits alone, in mixes, and in an engine without adapters; contexts agree with engines; what
 * is shared, saved and refused. On RLX_TEST_DEVICE, or the CPU with each instruction set. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "rlx/rlx.h"

#define MAX_SEQUENCES 8
#define MAX_ADAPTERS 8
#define MAX_TOKENS 256
#define BEST 20

static rlx_error err;
static rlx_model *model;
static bool is_gpu; /* slow in software */

/* ---- From Python ----------------------------------------------------------------------------- */

typedef struct options {
    const char *device, *out, *context, *engine;
    rlx_adapter *adapters[MAX_ADAPTERS];
    size_t n_adapters, n;
    size_t length[MAX_SEQUENCES];
    int32_t tokens[MAX_SEQUENCES][MAX_TOKENS];
} options;

static void need(rlx_status st, const char *what)
{
    if (st == RLX_OK)
        return;
    printf("%s: %s: %s\n", what, rlx_status_name(st), err.text);
    exit(1);
}

static void read_tokens(options *o, char *text)
{
    for (char *s = strtok(text, "/"); s && o->n < MAX_SEQUENCES; s = strtok(NULL, "/"), o->n++)
        for (char *end = s - 1; end[0] != 0 || end < s; s = end + 1) {
            o->tokens[o->n][o->length[o->n]++] = (int32_t)strtol(s, &end, 10);
            if (!*end || o->length[o->n] == MAX_TOKENS)
                break;
        }
}

static void open_adapters(options *o, char *text)
{
    for (char *s = strtok(text, ","); s && o->n_adapters < MAX_ADAPTERS; s = strtok(NULL, ","))
        need(rlx_adapter_open(model, s, &o->adapters[o->n_adapters++], &err), s);
}

/* "0:0.5" */
static bool read_use(const options *o, const char *text, rlx_adapter_use *use)
{
    char *end;
    const long i = strtol(text, &end, 10);
    *use = (rlx_adapter_use){NULL, 1};
    if (end == text || i < 0 || (size_t)i >= o->n_adapters)
        return false;
    use->adapter = o->adapters[i];
    use->scale = *end == ':' ? strtod(end + 1, NULL) : 1;
    return true;
}

static void write_context(const options *o, FILE *f)
{
    rlx_adapter_use uses[MAX_ADAPTERS];
    rlx_context *c = NULL;
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    size_t n = 0;
    for (const char *s = o->context; s && *s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
        n += read_use(o, s, &uses[n]);
    need(rlx_model_get_info(model, &info, &err), "info");
    need(rlx_context_create(model, &c, &err), "context");
    need(rlx_context_set_adapters(c, uses, n, &err), "set_adapters");
    float *logits = calloc((size_t)info.vocabulary, sizeof *logits);
    for (size_t i = 0; i < o->n; i++) {
        need(rlx_context_set_tokens(c, 0, o->tokens[i], o->length[i], &err), "tokens");
        need(rlx_context_step(c, -1, NULL, &err), "step");
        need(rlx_context_logits(c, 0, logits, (size_t)info.vocabulary, &err), "logits");
        fwrite(logits, sizeof *logits, (size_t)info.vocabulary, f);
    }
    free(logits);
    rlx_context_destroy(c);
}

static void write_engine(const options *o, FILE *f)
{
    rlx_engine *e = NULL;
    rlx_request *r[MAX_SEQUENCES] = {NULL};
    const rlx_engine_desc d = {RLX_INIT(rlx_engine_desc), .no_thread = true, .rows = 16, .page = 8,
                               .adapters = (const rlx_adapter *const *)o->adapters,
                               .n_adapters = o->n_adapters, .sequences = MAX_SEQUENCES};
    const char *use = o->engine;
    need(rlx_engine_create(model, &d, &e, &err), "engine");
    for (size_t i = 0; i < o->n; i++) {
        rlx_adapter_use u = {NULL, 1};
        if (use)
            read_use(o, use, &u);
        use = use && strchr(use, '/') ? strchr(use, '/') + 1 : NULL;
        const rlx_request_desc q = {RLX_INIT(rlx_request_desc), .tokens = o->tokens[i],
                                    .n_tokens = o->length[i], .max_tokens = 1, .ignore_end = true,
                                    .n_best = BEST, .adapter = u.adapter,
                                    .adapter_scale = u.scale};
        need(rlx_engine_submit(e, &q, &r[i], &err), "submit");
    }
    for (size_t i = 0; i < o->n; i++) {
        rlx_request_piece p;
        bool more;
        need(rlx_request_next(r[i], -1, &p, &more, &err), "next");
        for (size_t k = 0; k < BEST && more; k++) {
            const float pair[] = {(float)p.best[k].token, p.best[k].log_prob};
            fwrite(pair, sizeof *pair, 2, f);
        }
        rlx_request_destroy(r[i]);
    }
    rlx_engine_destroy(e);
}

static int run_options(int argc, char **argv)
{
    static options o;
    char *adapters = NULL;
    o.device = "cpu";
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            continue;
        *value++ = 0;
        if (!strcmp(argv[i], "device")) o.device = value;
        else if (!strcmp(argv[i], "out")) o.out = value;
        else if (!strcmp(argv[i], "context")) o.context = value;
        else if (!strcmp(argv[i], "engine")) o.engine = value;
        else if (!strcmp(argv[i], "tokens")) read_tokens(&o, value);
        else if (!strcmp(argv[i], "adapters")) adapters = value;
    }
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = o.device, .threads = 2,
                              .context = 64, .cache = RLX_F32, .policy = RLX_POLICY_EXACT};
    need(rlx_model_open(argv[1], &d, &model, &err), "device:");
    open_adapters(&o, adapters);
    FILE *f = o.out ? fopen(o.out, "wb") : NULL;
    if (f && o.context)
        write_context(&o, f);
    if (f && o.engine)
        write_engine(&o, f);
    if (f)
        fclose(f);
    for (size_t i = 0; i < o.n_adapters; i++)
        rlx_adapter_close(o.adapters[i]);
    rlx_model_close(model);
    return 0;
}

/* ---- Adapters of the tests' own -------------------------------------------------------------- */

static uint32_t state = 11;

static uint32_t draw(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

typedef struct product {
    char name[64];
    int64_t n, k;
} product;

#define WIDTH 128
#define HIDDEN 384

static size_t list_products(product out[32], bool all)
{
    static const struct {
        const char *name;
        int64_t n, k;
    } parts[] = {{"attn_q", WIDTH, WIDTH}, {"attn_v", WIDTH / 2, WIDTH},
                 {"ffn_down", WIDTH, HIDDEN}, {"ffn_up", HIDDEN, WIDTH},
                 {"attn_output", WIDTH, WIDTH}};
    size_t n = 0;
    for (int layer = 0; layer < 4; layer++)
        for (size_t i = 0; i < (all ? 5 : 2); i++, n++) {
            snprintf(out[n].name, sizeof out[n].name, "blk.%d.%s.weight", layer, parts[i].name);
            out[n].n = parts[i].n;
            out[n].k = parts[i].k;
        }
    return n;
}

static void write_random(rlx_gguf_writer *w, int64_t n)
{
    bool ok = true;
    for (int64_t i = 0; i < n; i++) {
        const float x = ((float)draw(2001) - 1000) / 6000;
        ok = ok && rlx_gguf_writer_write(w, &x, sizeof x, &err) == RLX_OK;
    }
    CHECK(ok);
}

static void write_adapter(const char *path, int64_t rank, bool all, const char *arch)
{
    product list[32];
    rlx_gguf_writer *w = NULL;
    const size_t n = list_products(list, all);
    if (!CHECK_OK(rlx_gguf_writer_create(path, &w, &err), &err))
        return;
    rlx_gguf_writer_set_text(w, "general.type", "adapter", &err);
    rlx_gguf_writer_set_text(w, "general.architecture", arch, &err);
    rlx_gguf_writer_set_text(w, "adapter.type", "lora", &err);
    rlx_gguf_writer_set_f32(w, "adapter.lora.alpha", 2.0f * (float)rank, &err);
    for (size_t i = 0; i < n; i++)
        for (int part = 0; part < 2; part++) {
            char name[80];
            const rlx_shape s = {2, {part ? list[i].n : rank, part ? rank : list[i].k}};
            snprintf(name, sizeof name, "%.63s.lora_%c", list[i].name, part ? 'b' : 'a');
            CHECK_OK(rlx_gguf_writer_add_tensor(w, name, RLX_F32, &s, &err), &err);
        }
    for (size_t i = 0; i < n; i++) {
        write_random(w, rank * list[i].k);
        write_random(w, rank * list[i].n);
    }
    CHECK_OK(rlx_gguf_writer_finish(w, &err), &err);
    rlx_gguf_writer_destroy(w);
}

/* ---- The same bits --------------------------------------------------------------------------- */

#define TOKENS 8
#define PROMPT 40
#define CROWD 9

static rlx_adapter *adapters[2];

typedef struct answer {
    int32_t tokens[TOKENS];
    float log_probs[TOKENS];
    size_t n, n_cached;
} answer;

static rlx_engine *make_engine(rlx_engine_desc d, bool with_adapters)
{
    rlx_engine *e = NULL;
    d.struct_size = sizeof d;
    d.no_thread = true;
    d.adapters = with_adapters ? (const rlx_adapter *const *)adapters : NULL;
    d.n_adapters = with_adapters ? 2 : 0;
    CHECK_OK(rlx_engine_create(model, &d, &e, &err), &err);
    return e;
}

/* Prompts begin alike; `which`: 0 is no adapter. */
static rlx_request *submit(rlx_engine *e, uint32_t seed, uint32_t which, size_t n_prompt)
{
    int32_t tokens[PROMPT];
    rlx_request *r = NULL;
    for (size_t i = 0; i < n_prompt; i++)
        tokens[i] = (int32_t)((i < 24 ? i * 7 : i * 7 + seed * 13) % 250);
    const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .tokens = tokens, .n_tokens = n_prompt,
                                .max_tokens = TOKENS, .ignore_end = true, .log_probs = true,
                                .adapter = which ? adapters[which - 1] : NULL,
                                .adapter_scale = which == 2 ? 0.5 : 0};
    CHECK_OK(rlx_engine_submit(e, &d, &r, &err), &err);
    return r;
}

static void receive(rlx_request *r, answer *a)
{
    rlx_request_piece p;
    rlx_request_result result = {RLX_INIT(rlx_request_result)};
    bool more = r != NULL;
    *a = (answer){0};
    while (more && CHECK_OK(rlx_request_next(r, -1, &p, &more, &err), &err))
        if (more && p.token >= 0 && a->n < TOKENS) {
            a->tokens[a->n] = p.token;
            a->log_probs[a->n++] = p.log_prob;
        }
    CHECK_OK(rlx_request_get_result(r, &result, &err), &err);
    a->n_cached = result.n_cached;
    rlx_request_destroy(r);
}

static bool are_equal(const answer *a, const answer *b)
{
    return a->n == b->n && !memcmp(a->tokens, b->tokens, sizeof a->tokens) &&
           !memcmp(a->log_probs, b->log_probs, sizeof a->log_probs);
}

static void test_mixes(void)
{
    static answer alone[3], got, plain;
    rlx_request *r[CROWD];
    rlx_engine *e = make_engine((rlx_engine_desc){.sequences = 4, .page = 8}, false);
    receive(submit(e, 1, 0, PROMPT), &plain);
    rlx_engine_destroy(e);
    for (uint32_t which = 0; which < 3; which++) {
        e = make_engine((rlx_engine_desc){.sequences = 4, .page = 8}, true);
        receive(submit(e, 1, which, PROMPT), &alone[which]);
        CHECK(alone[which].n == TOKENS);
        rlx_engine_destroy(e);
    }
    CHECK(are_equal(&plain, &alone[0]));
    CHECK(!are_equal(&alone[0], &alone[1]) && !are_equal(&alone[1], &alone[2]));
    for (int64_t rows = 16; rows <= (is_gpu ? 16 : 64); rows *= 4) {
        e = make_engine((rlx_engine_desc){.sequences = 6, .page = 8, .rows = rows}, true);
        for (uint32_t i = 0; i < CROWD; i++)
            r[i] = submit(e, i < 6 ? 1 : draw(9), i % 3, i < 6 ? PROMPT : 1 + draw(PROMPT - 1));
        for (uint32_t i = 0; i < CROWD; i++) {
            receive(r[i], &got);
            CHECK(i >= 6 || are_equal(&got, &alone[i % 3]));
        }
        receive(submit(e, 1, 2, PROMPT), &got); /* pages of its own adapter only */
        CHECK(are_equal(&got, &alone[2]) && got.n_cached == 32);
        rlx_engine_destroy(e);
    }
}

/* A context gives nearly the same; without adapters again just what it gave before. */
static void test_context(void)
{
    static answer want;
    static float before[288], after[288];
    int32_t tokens[PROMPT], next;
    rlx_context *c = NULL;
    rlx_engine *e = make_engine((rlx_engine_desc){.sequences = 1}, true);
    receive(submit(e, 1, 2, PROMPT), &want);
    rlx_engine_destroy(e);
    for (size_t i = 0; i < PROMPT; i++)
        tokens[i] = (int32_t)((i < 24 ? i * 7 : i * 7 + 13) % 250);
    const rlx_adapter_use use = {adapters[1], 0.5};
    char path[64];
    snprintf(path, sizeof path, "/tmp/rlx-adapters-%ld.context", (long)getpid());
    CHECK_OK(rlx_context_create(model, &c, &err), &err);
    CHECK_OK(rlx_context_set_tokens(c, 0, tokens, PROMPT, &err), &err);
    CHECK_OK(rlx_context_step(c, -1, &next, &err), &err);
    CHECK_OK(rlx_context_logits(c, 0, before, 288, &err), &err);
    CHECK_OK(rlx_context_set_adapters(c, &use, 1, &err), &err);
    CHECK(rlx_context_computed(c, 0) == 0);
    CHECK_OK(rlx_context_set_tokens(c, 0, tokens, PROMPT, &err), &err);
    for (size_t i = 0; i < TOKENS; i++) {
        CHECK_OK(rlx_context_step(c, -1, &next, &err), &err);
        CHECK(next == want.tokens[i]);
    }
    CHECK_OK(rlx_context_save(c, 0, path, &err), &err);
    CHECK_OK(rlx_context_load(c, 0, path, &err), &err);
    CHECK_OK(rlx_context_set_adapters(c, NULL, 0, &err), &err);
    CHECK_FAILS(rlx_context_load(c, 0, path, &err), RLX_INVALID, &err, "model");
    CHECK_OK(rlx_context_set_tokens(c, 0, tokens, PROMPT, &err), &err);
    CHECK_OK(rlx_context_step(c, -1, &next, &err), &err);
    CHECK_OK(rlx_context_logits(c, 0, after, 288, &err), &err);
    CHECK(!memcmp(before, after, sizeof before));
    rlx_context_destroy(c);
    unlink(path);
}

static void test_refused(const char *path)
{
    rlx_adapter *a = NULL;
    rlx_request *r = NULL;
    rlx_engine *e = make_engine((rlx_engine_desc){.sequences = 1}, false);
    const int32_t token = 1;
    rlx_request_desc d = {RLX_INIT(rlx_request_desc), .tokens = &token, .n_tokens = 1,
                          .adapter = adapters[0]};
    rlx_adapter_info info = {RLX_INIT(rlx_adapter_info)};
    CHECK_FAILS(rlx_engine_submit(e, &d, &r, &err), RLX_INVALID, &err, "rlx_engine_desc.adapters");
    rlx_engine_destroy(e);
    e = make_engine((rlx_engine_desc){.sequences = 1}, true);
    d.adapter_scale = NAN;
    CHECK_FAILS(rlx_engine_submit(e, &d, &r, &err), RLX_INVALID, &err, "the scale of adapter");
    rlx_engine_destroy(e);
    CHECK_OK(rlx_adapter_get_info(adapters[0], &info, &err), &err);
    CHECK(info.rank == 4 && info.products == 20 && info.scale == 2);
    CHECK_FAILS(rlx_adapter_open(model, "/nowhere", &a, &err), RLX_IO, &err, "/nowhere");
    write_adapter(path, 3, true, "qwen2");
    CHECK_FAILS(rlx_adapter_open(model, path, &a, &err), RLX_INVALID, &err, "'qwen2'");
}

static void test_device(const char *source, const char *device)
{
    char path[2][64], from[512];
    snprintf(from, sizeof from, "%s/models/tiny-stories.gguf", source ? source : ".");
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device, .threads = 2,
                              .context = 64, .cache = RLX_F32, .policy = RLX_POLICY_EXACT};
    if (!CHECK_OK(rlx_model_open(from, &d, &model, &err), &err))
        return;
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "/tmp/rlx-adapter-%ld-%d.gguf", (long)getpid(), i);
        write_adapter(path[i], i ? 7 : 4, !i, "llama");
        CHECK_OK(rlx_adapter_open(model, path[i], &adapters[i], &err), &err);
    }
    if (adapters[0] && adapters[1]) {
        test_mixes();
        test_context();
        test_refused(path[1]);
    }
    for (int i = 0; i < 2; i++) {
        rlx_adapter_close(adapters[i]);
        adapters[i] = NULL;
        unlink(path[i]);
    }
    rlx_model_close(model);
}

int main(int argc, char **argv)
{
    static const char *const levels[] = {"generic", "avx2", "avx512", "vnni"};
    const char *source = getenv("RLX_SOURCE_DIR"), *device = getenv("RLX_TEST_DEVICE");
    if (argc > 1)
        return run_options(argc, argv);
    is_gpu = device && strcmp(device, "cpu") && strcmp(device, "ref");
    for (size_t i = 0; i < (device ? 1 : sizeof levels / sizeof *levels); i++) {
        if (!device)
            setenv("RLX_CPU", levels[i], 1);
        test_device(source, device ? device : "cpu");
    }
    return check_done();
}
