/* SPDX-License-Identifier: MIT */
/* Runs the graph of a model file, for test_arch.py, which knows what must come out:
 *     test_arch MODEL [name=value]...
 *       tokens=1,2,3/4,5   the tokens of each sequence (encoders: padded to the longest)
 *       steps=n            the last n tokens of each are decoded, all sequences in one run
 *       chunk=n            the others in runs of n tokens, one sequence at a time
 *       device=, cache=, context=, batch=, policy=exact|fast, config=FILE, scores=1
 *       penalty=x          divides the logits of the tokens before, which are recent
 *       memory=1           only reads the facts and builds the graph, with each allocation failing
 *       fuzz=n             only that, of n changed files
 *       out=FILE           f32: logits after the prompt and after each step, for each sequence; or
 *                          the scores of each sequence; or the hidden states
 * Without arguments it makes tiny models of its own: what comes out does not depend on how many
 * tokens go in at a time, nor on other sequences; and does memory=1 and fuzz=300. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "check.h"
#include "model/arch.h"
#include "rlx/session.h"
#include "support/memory.h"
#include "support/tiny_model.h"

#define MAX_SEQUENCES 8
#define MAX_TOKENS 8192
#define MAX_TEXT (4 << 20)

typedef struct options {
    const char *model, *device, *config, *out;
    rx_build_desc build;
    int64_t steps, chunk, memory, fuzz;
    float penalty;
    rlx_policy policy;
    size_t n;                        /* sequences */
    size_t length[MAX_SEQUENCES];
    int32_t *tokens[MAX_SEQUENCES];
} options;

typedef struct runner {
    const options *o;
    rx_model_facts facts;
    rlx_session *session;
    FILE *out;
    float *logits;
} runner;

static void need(rlx_status st, const rlx_error *err, const char *what)
{
    if (st == RLX_OK)
        return;
    printf("%s: %s: %s\n", what, rlx_status_name(st), err->text);
    exit(1);
}

/* ---- Options --------------------------------------------------------------------------------- */

static void read_tokens(options *o, const char *text)
{
    while (*text && o->n < MAX_SEQUENCES) {
        int32_t *list = calloc(MAX_TOKENS, sizeof *list);
        size_t n = 0;
        char *end;
        for (; list && n < MAX_TOKENS; text = end + 1) {
            list[n++] = (int32_t)strtol(text, &end, 10);
            if (*end != ',')
                break;
        }
        o->tokens[o->n] = list;
        o->length[o->n++] = n;
        text = *end ? end + 1 : end;
    }
}

static options read_options(int argc, char **argv)
{
    options o = {.model = argv[1], .device = "cpu", .chunk = INT64_MAX, .penalty = 1,
                 .build = {.sequences = 1, .context = 64, .prompt_chunk = 0, .cache = RLX_F32}};
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            continue;
        *value++ = 0;
        const char *name = argv[i];
        const int64_t number = strtoll(value, NULL, 10);
        if (!strcmp(name, "tokens")) read_tokens(&o, value);
        else if (!strcmp(name, "steps")) o.steps = number;
        else if (!strcmp(name, "chunk")) o.chunk = number;
        else if (!strcmp(name, "device")) o.device = value;
        else if (!strcmp(name, "context")) o.build.context = number;
        else if (!strcmp(name, "batch")) o.build.prompt_chunk = number;
        else if (!strcmp(name, "scores")) o.build.scores = number;
        else if (!strcmp(name, "penalty")) o.penalty = strtof(value, NULL);
        else if (!strcmp(name, "memory")) o.memory = number;
        else if (!strcmp(name, "fuzz")) o.fuzz = number;
        else if (!strcmp(name, "cache")) o.build.cache = rlx_dtype_from_name(value);
        else if (!strcmp(name, "config")) o.config = value;
        else if (!strcmp(name, "out")) o.out = value;
        else if (!strcmp(name, "policy"))
            o.policy = !strcmp(value, "fast") ? RLX_POLICY_FAST : RLX_POLICY_EXACT;
    }
    o.build.sequences = (int64_t)o.n;
    if (o.build.prompt_chunk == 0)
        o.build.prompt_chunk = o.build.context;
    return o;
}

static char *read_text(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, MAX_TEXT);
    *n = f && text ? fread(text, 1, MAX_TEXT, f) : 0;
    if (f)
        fclose(f);
    return text;
}

/* ---- Session --------------------------------------------------------------------------------- */

static void set_params(const rx_facts *facts, const options *o, rlx_session *s)
{
    rlx_error err;
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &info); i++) {
        const void *data;
        size_t bytes;
        bool owned;
        need(rx_arch_param(facts, &o->build, info.name, &data, &bytes, &owned, &err), &err,
             info.name);
        need(rlx_session_set_param(s, info.name, data, bytes, owned ? RLX_COPY : RLX_BORROW, &err),
             &err, info.name);
        if (owned)
            rx_free((void *)data);
    }
}

static void set(runner *r, const char *name, const void *data, size_t bytes)
{
    rlx_error err;
    need(rlx_session_set_input(r->session, name, data, bytes, &err), &err, name);
}

static void submit(runner *r)
{
    rlx_error err;
    need(rlx_session_submit(r->session, NULL, &err), &err, "submit");
    need(rlx_session_wait(r->session, 0, -1, &err), &err, "wait");
    if (rlx_session_flags(r->session)) {
        printf("the run reported %#x\n", rlx_session_flags(r->session));
        exit(1);
    }
}

static void read_out(runner *r, const char *name, size_t n)
{
    rlx_error err;
    need(rlx_session_read(r->session, name, 0, r->logits, n * sizeof(float), &err), &err, name);
}

static void write_row(runner *r, const float *row, size_t n)
{
    size_t n_bad = 0;
    for (size_t i = 0; i < n; i++)
        n_bad += !isfinite(row[i]);
    CHECK(n > 0 && n_bad == 0);
    if (r->out)
        fwrite(row, sizeof *row, n, r->out);
}

/* ---- Decoders -------------------------------------------------------------------------------- */

/* Token k of those to be penalised: all of the prompt but every third, then the first again. */
static int32_t recent_token(const options *o, size_t seq, size_t k)
{
    return o->tokens[seq][k % 3 != 1 && k < o->length[seq] ? k : 0];
}

static void set_recent(runner *r, size_t first, size_t count)
{
    static int32_t recent[MAX_SEQUENCES * RX_RECENT];
    for (size_t i = 0; i < count * RX_RECENT; i++)
        recent[i] = recent_token(r->o, first + i / RX_RECENT, i % RX_RECENT);
    set(r, "recent", recent, count * RX_RECENT * 4);
}

/* Tokens from .. from + n - 1 of sequences first .. first + count - 1, each at its own place: `at`
 * is the position of the first of them in each sequence. */
static void run_tokens(runner *r, size_t first, size_t count, const size_t *at, size_t n)
{
    const options *o = r->o;
    const size_t rows = count * n;
    int32_t *buffer = calloc(rows * 4 + count * 2, sizeof *buffer);
    int32_t *tokens = buffer, *positions = buffer + rows, *places = buffer + 2 * rows;
    int32_t *targets = buffer + 3 * rows, *lengths = buffer + 4 * rows, *slots = lengths + count;
    rlx_error err;
    for (size_t b = 0; b < count; b++) {
        const size_t seq = first + b;
        for (size_t i = 0; i < n; i++) {
            const size_t p = at[b] + i;
            tokens[b * n + i] = o->tokens[seq][p];
            positions[b * n + i] = (int32_t)p;
            places[b * n + i] = (int32_t)(seq * (size_t)o->build.context + p);
            targets[b * n + i] = p + 1 < o->length[seq] ? o->tokens[seq][p + 1] : 0;
        }
        lengths[b] = (int32_t)(at[b] + n);
        slots[b] = (int32_t)seq;
    }
    need(rlx_session_bind(r->session, "seq", (int64_t)n, &err), &err, "bind seq");
    if (o->n > 1)
        need(rlx_session_bind(r->session, "batch", (int64_t)count, &err), &err, "bind batch");
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(r->session, RLX_LEAF_INPUT, i, &info); i++) {
        if (!strcmp(info.name, "tokens")) set(r, "tokens", tokens, rows * 4);
        else if (!strcmp(info.name, "positions")) set(r, "positions", positions, rows * 4);
        else if (!strcmp(info.name, "places")) set(r, "places", places, rows * 4);
        else if (!strcmp(info.name, "targets")) set(r, "targets", targets, rows * 4);
        else if (!strcmp(info.name, "lengths")) set(r, "lengths", lengths, count * 4);
        else if (!strcmp(info.name, "slots")) set(r, "slots", slots, count * 4);
        else if (!strcmp(info.name, "recent")) set_recent(r, first, count);
    }
    submit(r);
    free(buffer);
}

static void run_prompt(runner *r, size_t seq)
{
    const options *o = r->o;
    const size_t prompt = o->length[seq] - (size_t)o->steps;
    for (size_t at = 0; at < prompt;) {
        size_t n = prompt - at;
        if (n > (size_t)o->build.prompt_chunk)
            n = (size_t)o->build.prompt_chunk;
        if ((int64_t)n > o->chunk)
            n = (size_t)o->chunk;
        run_tokens(r, seq, 1, &at, n);
        if (o->build.scores) {
            read_out(r, "scores", n);
            write_row(r, r->logits, n);
        }
        at += n;
    }
}

/* Greedy sampling gives the token of the largest logit after the penalty. */
static void check_token(runner *r, size_t first, size_t count)
{
    rlx_error err;
    int32_t token[MAX_SEQUENCES];
    const size_t n = (size_t)r->facts.vocabulary;
    need(rlx_session_read(r->session, "token", 0, token, count * 4, &err), &err, "token");
    for (size_t b = 0; b < count; b++) {
        float *row = r->logits + b * n;
        bool *done = calloc(n, sizeof *done);
        size_t best = 0;
        for (size_t k = 0; k < RX_RECENT; k++) {
            const int32_t t = recent_token(r->o, first + b, k);
            if (done[t])
                continue;
            row[t] = row[t] > 0 ? row[t] / r->o->penalty : row[t] * r->o->penalty;
            done[t] = true;
        }
        for (size_t i = 1; i < n; i++)
            best = row[i] > row[best] ? i : best;
        CHECK(token[b] == (int32_t)best);
        free(done);
    }
}

static void run_decoder(runner *r)
{
    const options *o = r->o;
    const size_t v = (size_t)r->facts.vocabulary;
    const float greedy[4] = {0};
    const int64_t seed = 1;
    if (!o->build.scores) {
        set(r, "sampling", greedy, sizeof greedy);
        set(r, "penalty", &o->penalty, sizeof o->penalty);
        set(r, "seed", &seed, sizeof seed);
    }
    for (size_t seq = 0; seq < o->n; seq++) {
        run_prompt(r, seq);
        if (o->build.scores)
            continue;
        read_out(r, "logits", v);
        write_row(r, r->logits, v);
        check_token(r, seq, 1);
    }
    for (int64_t step = 0; step < o->steps; step++) {
        size_t at[MAX_SEQUENCES];
        for (size_t seq = 0; seq < o->n; seq++)
            at[seq] = o->length[seq] - (size_t)o->steps + (size_t)step;
        run_tokens(r, 0, o->n, at, 1);
        read_out(r, "logits", o->n * v);
        write_row(r, r->logits, o->n * v);
        check_token(r, 0, o->n);
    }
}

/* ---- Encoders -------------------------------------------------------------------------------- */

static void run_encoder(runner *r)
{
    const options *o = r->o;
    size_t longest = 0;
    rlx_error err;
    for (size_t i = 0; i < o->n; i++)
        longest = o->length[i] > longest ? o->length[i] : longest;
    const size_t rows = o->n * longest;
    int32_t *tokens = calloc(rows * 2, 4), *types = tokens + rows, lengths[MAX_SEQUENCES];
    for (size_t i = 0; i < o->n; i++) {
        lengths[i] = (int32_t)o->length[i];
        memcpy(tokens + i * longest, o->tokens[i], o->length[i] * 4);
    }
    need(rlx_session_bind(r->session, "seq", (int64_t)longest, &err), &err, "bind seq");
    if (o->n > 1)
        need(rlx_session_bind(r->session, "batch", (int64_t)o->n, &err), &err, "bind batch");
    set(r, "tokens", tokens, rows * 4);
    if (r->facts.has_types)
        set(r, "types", types, rows * 4);
    set(r, "lengths", lengths, o->n * 4);
    submit(r);
    const size_t n = rows * (size_t)r->facts.width;
    r->logits = realloc(r->logits, n * sizeof(float));
    read_out(r, "hidden", n);
    write_row(r, r->logits, n);
    free(tokens);
}

/* ---- Main ------------------------------------------------------------------------------------ */

static void run_model(const options *o)
{
    rlx_error err;
    rlx_file *file;
    rx_facts *facts;
    rlx_graph *graph;
    rlx_device *device;
    runner r = {.o = o};
    size_t config_bytes = 0;
    char *config = o->config ? read_text(o->config, &config_bytes) : NULL;
    need(rlx_file_open(o->model, &file, &err), &err, "open");
    need(rx_facts_read(file, config, config_bytes, &facts, &err), &err, "facts");
    need(rx_arch_build(facts, &o->build, &graph, &err), &err, "build");
    need(rlx_graph_verify(graph, &err), &err, "verify");
    need(rlx_device_open(o->device, NULL, &device, &err), &err, "device");
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = o->policy};
    need(rlx_session_create(device, graph, &desc, &r.session, &err), &err, "session");
    set_params(facts, o, r.session);
    rx_facts_get(facts, &r.facts);
    r.logits = calloc(o->n * (size_t)r.facts.vocabulary + (size_t)o->build.prompt_chunk,
                      sizeof(float));
    r.out = o->out ? fopen(o->out, "wb") : NULL;
    if (r.facts.is_decoder)
        run_decoder(&r);
    else
        run_encoder(&r);
    if (r.out)
        fclose(r.out);
    free(r.logits);
    rlx_session_destroy(r.session);
    rlx_device_close(device);
    rlx_graph_destroy(graph);
    rx_facts_destroy(facts);
    rlx_file_close(file);
    free(config);
}

/* ---- Without memory, with changed files ------------------------------------------------------ */

/* Everything up to the graph, and its tables. */
static rlx_status build_bytes(const void *data, size_t n, const rx_build_desc *d, rlx_error *err)
{
    rlx_file *file;
    rx_facts *facts = NULL;
    rlx_graph *graph = NULL;
    rlx_leaf_info info;
    rlx_status st = rx_file_from_memory(data, n, "model.gguf", &file, err);
    if (st == RLX_OK)
        st = rx_facts_read(file, NULL, 0, &facts, err);
    if (st == RLX_OK)
        st = rx_arch_build(facts, d, &graph, err);
    for (size_t i = 0; st == RLX_OK && rlx_graph_leaf(graph, RLX_LEAF_PARAM, i, &info); i++) {
        const void *param;
        size_t bytes;
        bool owned;
        st = rx_arch_param(facts, d, info.name, &param, &bytes, &owned, err);
        if (st == RLX_OK && owned)
            rx_free((void *)param);
    }
    rlx_graph_destroy(graph);
    rx_facts_destroy(facts);
    rlx_file_close(file);
    return st;
}

static void run_without_memory(const options *o, const char *data, size_t n)
{
    rlx_status st = RLX_NO_MEMORY;
    for (long at = 1; st != RLX_OK && at < 100000; at++) {
        rlx_error err = {0};
        memory_fail(at, false);
        rlx_set_allocator(&counting);
        st = build_bytes(data, n, &o->build, &err);
        rlx_set_allocator(NULL);
        if (!CHECK(memory_live() == 0 && (st == RLX_OK) == (memory_calls() < at)) ||
            !CHECK(st == RLX_OK ? !err.text[0] : st == RLX_NO_MEMORY))
            printf("allocation %ld: %s, %ld live: %s\n", at, rlx_status_name(st),
                   memory_live(), err.text);
    }
}

/* Changes bytes among the metadata and the names, which come first. */
static void run_changed(const options *o, const char *data, size_t n)
{
    uint64_t seed = 88172645463325252u;
    size_t good = 0, head = n < 6000 ? n : 6000;
    char *copy = malloc(n);
    for (int64_t run = 0; copy && run < o->fuzz; run++) {
        rlx_error err;
        memcpy(copy, data, n);
        for (int i = 0; i < 1 + (int)(seed % 4); i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            copy[(seed >> 8) % head] = (char)(seed & 1 ? seed >> 40 : (seed >> 40) % 4 * 85);
        }
        err = (rlx_error){0};
        const rlx_status st = build_bytes(copy, n, &o->build, &err);
        CHECK((st == RLX_OK) == !err.text[0] && st != RLX_INTERNAL);
        good += st == RLX_OK;
    }
    free(copy);
    printf("%zu of %lld changed files were good\n", good, (long long)o->fuzz);
}

/* ---- Without arguments ----------------------------------------------------------------------- */

enum { OWN_TOKENS = 11, OWN_STEPS = 3, OWN_FLOATS = 1 << 16 };

/* The floats that a tiny model writes with these options; returns how many. */
static size_t run_own(const char *path, const char *arguments, float *to)
{
    char text[512], *argv[16] = {NULL, (char *)(uintptr_t)path}, out[128];
    int argc = 2;
    size_t n = 0;
    snprintf(out, sizeof out, "%s.out", path);
    snprintf(text, sizeof text, "%s out=%s", arguments, out);
    for (char *at = strtok(text, " "); at && argc < 16; at = strtok(NULL, " "))
        argv[argc++] = at;
    options o = read_options(argc, argv);
    run_model(&o);
    for (size_t i = 0; i < o.n; i++)
        free(o.tokens[i]);
    FILE *f = fopen(out, "rb");
    if (CHECK(f != NULL)) {
        n = fread(to, sizeof *to, OWN_FLOATS, f);
        fclose(f);
    }
    unlink(out);
    return n;
}

static void check_near(const float *a, const float *b, size_t n, const char *what)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)a[i] - b[i]));
    if (!CHECK(n > 0 && worst < 1e-4))
        printf("    %s: %zu numbers, apart by %g\n", what, n, worst);
}

/* A prompt and steps give the same in one run, in runs of 4 tokens, and beside another sequence. */
static void check_decoder(const char *path)
{
    static float one[OWN_FLOATS], some[OWN_FLOATS], both[OWN_FLOATS];
    const size_t n = (OWN_STEPS + 1) * (size_t)TINY_VOCABULARY;
    const char *tokens = "steps=3 tokens=3,1,4,1,5,9,2,6,5,3,5";
    char more[128];
    CHECK(run_own(path, tokens, one) == n);
    snprintf(more, sizeof more, "chunk=4 %s", tokens);
    CHECK(run_own(path, more, some) == n);
    check_near(one, some, n, "runs of 4 tokens");
    snprintf(more, sizeof more, "%s/2,7,1,8,2,8", tokens);
    CHECK(run_own(path, more, both) == 2 * n);
    check_near(one, both, TINY_VOCABULARY, "two sequences, the prompt");
    for (size_t i = 1; i <= OWN_STEPS; i++)
        check_near(one + i * TINY_VOCABULARY, both + 2 * i * TINY_VOCABULARY, TINY_VOCABULARY,
                   "two sequences, a step");
}

/* Padding changes nothing. */
static void check_encoder(const char *path)
{
    static float one[OWN_FLOATS], both[OWN_FLOATS];
    CHECK(run_own(path, "tokens=2,9,3,5,3", one) == 5 * TINY_WIDTH);
    CHECK(run_own(path, "tokens=2,9,3,5,3/2,4,5,6,7,8,3", both) == 14 * TINY_WIDTH);
    check_near(one, both, 5 * TINY_WIDTH, "a padded text");
}

static void check_own(tiny_kind kind)
{
    char path[64];
    blob b = tiny_model(kind, 7);
    options o = {.build = {.sequences = 1, .context = 16, .prompt_chunk = 16, .cache = RLX_F32},
                 .fuzz = 300};
    snprintf(path, sizeof path, "test_arch_%d_%d.gguf", (int)kind, (int)getpid());
    if (CHECK(blob_write(&b, path))) {
        if (kind == TINY_BERT)
            check_encoder(path);
        else
            check_decoder(path);
    }
    unlink(path);
    run_without_memory(&o, (const char *)b.data, b.n);
    run_changed(&o, (const char *)b.data, b.n);
    blob_free(&b);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        check_own(TINY_LLAMA);
        check_own(TINY_MAMBA);
        check_own(TINY_BERT);
        return check_done();
    }
    options o = read_options(argc, argv);
    size_t n;
    char *data = o.memory || o.fuzz ? read_text(o.model, &n) : NULL;
    if (o.memory)
        run_without_memory(&o, data, n);
    else if (o.fuzz)
        run_changed(&o, data, n);
    else
        run_model(&o);
    free(data);
    for (size_t i = 0; i < o.n; i++)
        free(o.tokens[i]);
    return check_done();
}
