/* SPDX-License-Identifier: MIT */
/* A small decoder with a K/V cache on Vulkan: a new length of the prompt makes no new pipelines,
 * barriers after every dispatch change no bit, nor do waits inside of kernels, also of those before
 * and after the layers, and a state may be written into itself. Skipped where there is no device.
 * RLX_TEST_CHAINS=1: it must have chains. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rlx/rlx.h"

enum { HIDDEN = 64, HEADS = 4, KV = 2, SIZE = 16, INNER = 96, VOCAB = 200, MOST = 512, LAYERS = 2 };

static rlx_error err;
static int n_made;

static void count_pipelines(void *user, rlx_log_level level, const char *text)
{
    static const char head[] = "vulkan: new pipeline";
    (void)user;
    (void)level;
    if (strncmp(text, head, sizeof head - 1))
        return;
    n_made++;
    if (getenv("RLX_TEST_VERBOSE"))
        printf("%s\n", text);
}

/* ---- The graph ------------------------------------------------------------------------------ */

static rlx_value weight(rlx_graph *g, rlx_dtype t, const char *name, int layer, int rows,
                        int columns)
{
    char full[32];
    snprintf(full, sizeof full, "%s%d", name, layer);
    if (!columns)
        return rlx_param(g, full, t, 1, (rlx_dim[]){rows});
    return rlx_param(g, full, t, 2, (rlx_dim[]){rows, columns});
}

/* x [seq, HIDDEN] . w [n, HIDDEN]^T */
static rlx_value project(rlx_graph *g, rlx_value x, const char *name, int layer, int n, int k)
{
    return rlx_matmul_ex(g, x, weight(g, RLX_F32, name, layer, n, k), RLX_NONE, RLX_NONE,
                         &(rlx_matmul_desc){RLX_INIT(rlx_matmul_desc), .trans_b = true});
}

static rlx_value split_heads(rlx_graph *g, rlx_value x, rlx_dim seq, int heads)
{
    return rlx_reshape(g, x, 4, (rlx_dim[]){1, seq, heads, SIZE});
}

static rlx_value attend(rlx_graph *g, rlx_value x, int layer, rlx_dim seq, const rlx_value at[4])
{
    const rlx_rope_desc bshd = {RLX_INIT(rlx_rope_desc), .layout = RLX_BSHD};
    rlx_value q = split_heads(g, project(g, x, "q", layer, HEADS * SIZE, HIDDEN), seq, HEADS);
    rlx_value kv[2];
    q = rlx_rope(g, q, at[0], at[1], at[2], &bshd);
    for (int i = 0; i < 2; i++) {
        char name[24];
        snprintf(name, sizeof name, "%s%d", i ? "values" : "keys", layer);
        rlx_value s = rlx_state(g, name, RLX_F32, 4, (rlx_dim[]){1, MOST, KV, SIZE});
        rlx_value now = split_heads(g, project(g, x, i ? "v" : "k", layer, KV * SIZE, HIDDEN), seq,
                                    KV);
        if (!i)
            now = rlx_rope(g, now, at[0], at[1], at[2], &bshd);
        kv[i] = rlx_state_write(g, s, now, at[2], 1);
    }
    const rlx_value extra[3] = {at[3], RLX_NONE, RLX_NONE};
    rlx_value y = rlx_attention_ex(g, q, kv[0], kv[1], RLX_NONE, extra,
                                   &(rlx_attention_desc){RLX_INIT(rlx_attention_desc),
                                                         .layout = RLX_BSHD, .causal = true});
    y = rlx_reshape(g, y, 2, (rlx_dim[]){seq, HEADS * SIZE});
    return project(g, y, "o", layer, HIDDEN, HEADS * SIZE);
}

static rlx_graph *make_decoder(void)
{
    rlx_graph *g = rlx_graph_create("decoder");
    rlx_dim seq = rlx_dim_named(g, "seq", MOST);
    rlx_value tokens = rlx_input(g, "tokens", RLX_I32, 1, (rlx_dim[]){seq});
    const rlx_value at[4] = {rlx_param(g, "cos", RLX_F32, 2, (rlx_dim[]){MOST, SIZE / 2}),
                             rlx_param(g, "sin", RLX_F32, 2, (rlx_dim[]){MOST, SIZE / 2}),
                             rlx_input(g, "positions", RLX_I32, 1, (rlx_dim[]){seq}),
                             rlx_input(g, "length", RLX_I32, 0, NULL)};
    rlx_value x = rlx_gather(g, rlx_param(g, "table", RLX_F32, 2, (rlx_dim[]){VOCAB, HIDDEN}),
                             tokens, 0);
    for (int i = 0; i < LAYERS; i++) {
        rlx_value y = rlx_rms_norm(g, x, weight(g, RLX_F32, "norm_a", i, HIDDEN, 0), NULL);
        x = rlx_add(g, x, attend(g, y, i, seq, at));
        y = rlx_rms_norm(g, x, weight(g, RLX_F32, "norm_b", i, HIDDEN, 0), NULL);
        rlx_value gate = project(g, y, "gate", i, INNER, HIDDEN);
        rlx_value up = project(g, y, "up", i, INNER, HIDDEN);
        x = rlx_add(g, x, project(g, rlx_swiglu(g, gate, up), "down", i, HIDDEN, INNER));
    }
    rlx_output(g, "logits", project(g, x, "head", 0, VOCAB, HIDDEN));
    return g;
}

/* ---- Running -------------------------------------------------------------------------------- */

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return ((float)(*seed >> 8) / 16777216.0f - 0.5f) * 0.5f;
}

static void set_weights(rlx_session *s)
{
    uint32_t seed = 1;
    rlx_tensor_info io;
    float *data = malloc((size_t)VOCAB * HIDDEN * sizeof *data);
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &io); i++) {
        for (size_t k = 0; k < io.bytes / sizeof *data; k++)
            data[k] = noise(&seed);
        CHECK_OK(rlx_session_set_param(s, io.name, data, io.bytes, RLX_COPY, &err), &err);
    }
    free(data);
}

/* Tokens at positions from `first` on; logits [n, VOCAB]. */
static void run_tokens(rlx_session *s, int first, int n, float *logits)
{
    int32_t tokens[MOST], positions[MOST], length = first + n;
    for (int i = 0; i < n; i++) {
        tokens[i] = (first + i) * 7 % VOCAB;
        positions[i] = first + i;
    }
    CHECK_OK(rlx_session_bind(s, "seq", n, &err), &err);
    const rlx_const_tensor in[] = {{"tokens", tokens, (size_t)n * 4}, {"positions", positions,
                             (size_t)n * 4}, {"length", &length, 4}};
    rlx_tensor out = {"logits", logits, (size_t)n * VOCAB * sizeof *logits};
    CHECK_OK(rlx_run(s, in, 3, &out, 1, &err), &err);
}

static rlx_session *open_session(const char *name, rlx_device **device)
{
    rlx_session *s = NULL;
    if (rlx_device_open(name, NULL, device, &err) != RLX_OK)
        return NULL;
    rlx_graph *g = make_decoder();
    CHECK_OK(rlx_session_create(*device, g, NULL, &s, &err), &err);
    rlx_graph_destroy(g);
    set_weights(s);
    return s;
}

/* A prompt and three steps: all logits. */
enum { PROMPT = 37, STEPS = 3, RESULTS = (PROMPT + STEPS) * VOCAB };

static bool generate(const char *device_name, float *logits)
{
    rlx_device *device = NULL;
    rlx_session *s = open_session(device_name, &device);
    if (!s)
        return false;
    run_tokens(s, 0, PROMPT, logits);
    for (int i = 0; i < STEPS; i++)
        run_tokens(s, PROMPT + i, 1, logits + (PROMPT + i) * VOCAB);
    /* Steps alone wait for nobody, and the next run is whole again. */
    CHECK_OK(rlx_session_run_steps(s, false, NULL, NULL, &err), &err);
    const int last = PROMPT + STEPS - 1;
    run_tokens(s, last, 1, logits + last * VOCAB);
    rlx_session_destroy(s);
    rlx_device_close(device);
    return true;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void test_lengths(void)
{
    /* Products of up to eight rows have a kernel for each number; then a few sizes of tiles. */
    static const int lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 40, 64, 128, 512,
                                  7, 100, 33, 17, 65, 300, 500};
    enum { FIRST = 14 };
    static float logits[MOST * VOCAB];
    rlx_device *device = NULL;
    rlx_session *s = open_session("vulkan", &device);
    rlx_set_log(count_pipelines, NULL, RLX_LOG_DEBUG);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        n_made = 0;
        run_tokens(s, 0, lengths[i], logits);
        printf("seq %d: %d new pipelines\n", lengths[i], n_made);
        CHECK(i < FIRST || n_made == 0);
    }
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
    rlx_session_destroy(s);
    rlx_device_close(device);
}

static unsigned n_chained;

static void count_chained(void *user, rlx_log_level level, const char *text)
{
    const char *at = strstr(text, " pieces, ");
    unsigned n;
    (void)user;
    (void)level;
    if (at && sscanf(at, " pieces, %u chained", &n) == 1)
        n_chained += n;
}

/* RLX_CHAIN=1: kernels wait for one another, where the device has what they need for it. */
static void test_chains(const float *plain)
{
    static float chained[RESULTS];
    setenv("RLX_CHAIN", "1", 1);
    rlx_set_log(count_chained, NULL, RLX_LOG_DEBUG);
    CHECK(generate("vulkan", chained));
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
    unsetenv("RLX_CHAIN");
    printf("%u dispatches wait inside of kernels\n", n_chained);
    CHECK(!memcmp(plain, chained, sizeof chained));
    CHECK(n_chained || !getenv("RLX_TEST_CHAINS"));
}

static void test_barriers(void)
{
    static float plain[RESULTS], full[RESULTS], ref[RESULTS];
    CHECK(generate("vulkan", plain));
    setenv("RLX_FULL_BARRIER", "1", 1);
    CHECK(generate("vulkan", full));
    unsetenv("RLX_FULL_BARRIER");
    CHECK(!memcmp(plain, full, sizeof plain));
    test_chains(plain);
    CHECK(generate("ref", ref));
    for (int i = 0; i < RESULTS; i++)
        CHECK(fabsf(plain[i] - ref[i]) < 1e-3f);
}

/* ---- Before and after the layers ------------------------------------------------------------ */

enum { ENDS_ROWS = 16, ENDS_RUNS = 6, ENDS_WIDTH = 4099, ENDS_BYTES = ENDS_WIDTH * 4 + 8 };

/* A row of a table of this type and width, rotated or multiplied by a weight [product, width],
 * copied by a scatter without updates, and the place of its largest element. */
typedef struct ends {
    rlx_dtype table;
    int width, product; /* 0: no product */
    bool rope, copy;
    unsigned least; /* dispatches that wait inside, on a device with chains */
} ends;

static const ends all_ends[] = {
    {RLX_F32, 4096, 0, true, true, 4},   {RLX_F16, 4096, 0, true, true, 4},
    {RLX_Q8_0, 4096, 0, true, true, 4},  {RLX_IQ3_S, 4096, 0, true, true, 4},
    {RLX_F32, 4099, 0, false, true, 3},  {RLX_F16, 4099, 0, false, false, 2},
    {RLX_Q8_0, 256, 4096, false, true, 2},
};

static rlx_graph *make_ends(const ends *e)
{
    rlx_graph *g = rlx_graph_create("ends");
    const rlx_dim one = 1, table[] = {ENDS_ROWS, e->width}, angles[] = {ENDS_ROWS, SIZE / 2};
    const rlx_dim places[] = {1, rlx_dim_named(g, "recent", 8)};
    const rlx_value token = rlx_input(g, "token", RLX_I32, 1, &one);
    rlx_value x = rlx_gather(g, rlx_param(g, "table", e->table, 2, table), token, 0);
    if (e->rope) {
        x = rlx_reshape(g, x, 4, (rlx_dim[]){1, 1, e->width / SIZE, SIZE});
        x = rlx_rope(g, x, rlx_param(g, "cos", RLX_F32, 2, angles),
                     rlx_param(g, "sin", RLX_F32, 2, angles), token,
                     &(rlx_rope_desc){RLX_INIT(rlx_rope_desc), .layout = RLX_BSHD});
        x = rlx_reshape(g, x, 2, (rlx_dim[]){1, e->width});
    }
    if (e->product)
        x = rlx_dequant_matmul(g, x, rlx_param(g, "weight", RLX_Q8_0, 2,
                                               (rlx_dim[]){e->product, e->width}));
    rlx_output(g, "logits", x);
    if (e->copy)
        x = rlx_scatter_elements(g, x, rlx_input(g, "recent", RLX_I32, 2, places),
                                 rlx_input(g, "now", rlx_value_dtype(g, x), 2, places), 1,
                                 RLX_SCATTER_NONE);
    rlx_output(g, "y", x);
    rlx_output(g, "place", rlx_argmax(g, x, &(rlx_arg_desc){RLX_INIT(rlx_arg_desc), .axis = -1}));
    return g;
}

/* Random blocks of a packed type that begins with its scale, 0.01 in f16; else random floats. */
static void set_ends_weights(rlx_session *s)
{
    uint32_t seed = 1;
    rlx_tensor_info io;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &io); i++) {
        const size_t block = (size_t)rlx_dtype_block_bytes(io.dtype);
        unsigned char *data = malloc(io.bytes);
        for (size_t at = 0; at < io.bytes; at += rlx_dtype_is_packed(io.dtype) ? 1 : block) {
            const float x = noise(&seed);
            if (!rlx_dtype_is_packed(io.dtype))
                CHECK(rlx_from_float(io.dtype, &x, data + at, 1) == RLX_OK);
            else
                data[at] = at % block == 0 ? 0x1f : at % block == 1 ? 0x21
                                                                    : (unsigned char)(seed >> 20);
        }
        CHECK_OK(rlx_session_set_param(s, io.name, data, io.bytes, RLX_COPY, &err), &err);
        free(data);
    }
}

/* For each run another row: y, and its place behind it. */
static void run_ends(const ends *e, const char *name, unsigned char got[ENDS_RUNS][ENDS_BYTES])
{
    rlx_device *device = NULL;
    rlx_session *s = NULL;
    rlx_graph *g = make_ends(e);
    memset(got, 0, ENDS_RUNS * ENDS_BYTES);
    CHECK_OK(rlx_device_open(name, NULL, &device, &err), &err);
    CHECK_OK(rlx_session_create(device, g, &(rlx_session_desc){RLX_INIT(rlx_session_desc),
                                                               .policy = RLX_POLICY_FAST}, &s,
                                &err), &err);
    rlx_graph_destroy(g);
    set_ends_weights(s);
    if (e->copy)
        CHECK_OK(rlx_session_bind(s, "recent", 0, &err), &err);
    const size_t n = (size_t)(e->product ? e->product : e->width);
    const size_t bytes = n * (e->table == RLX_F16 ? 2 : 4);
    for (int32_t i = 0; i < ENDS_RUNS; i++) {
        const int32_t token = i * 5 % ENDS_ROWS;
        const rlx_const_tensor in[] = {{"token", &token, 4}, {"recent", NULL, 0},
                                 {"now", NULL, 0}};
        rlx_tensor out[] = {{"y", got[i], bytes}, {"place", got[i] + ENDS_BYTES - 8, 8}};
        CHECK_OK(rlx_run(s, in, e->copy ? 3 : 1, out, 2, &err), &err);
    }
    rlx_session_destroy(s);
    rlx_device_close(device);
}

/* Whether the place is that of the first of the largest, and y near to what it should be. */
static void check_ends(const ends *e, const unsigned char *got, const unsigned char *want)
{
    static float y[ENDS_WIDTH], ref[ENDS_WIDTH];
    const int n = e->product ? e->product : e->width;
    const rlx_dtype t = e->table == RLX_F16 ? RLX_F16 : RLX_F32;
    int64_t place, first = 0;
    CHECK(rlx_to_float(t, got, y, n) == RLX_OK && rlx_to_float(t, want, ref, n) == RLX_OK);
    for (int i = 0; i < n; i++) {
        CHECK(fabsf(y[i] - ref[i]) <= 2e-3f * (1 + fabsf(ref[i])));
        first = y[i] > y[first] ? i : first;
    }
    memcpy(&place, got + ENDS_BYTES - 8, sizeof place);
    CHECK(place == first);
}

static void test_ends(void)
{
    static unsigned char plain[ENDS_RUNS][ENDS_BYTES], other[ENDS_RUNS][ENDS_BYTES];
    for (size_t k = 0; k < sizeof all_ends / sizeof *all_ends; k++) {
        const ends *e = &all_ends[k];
        setenv("RLX_CHAIN", "0", 1);
        run_ends(e, "vulkan", plain);
        setenv("RLX_FULL_BARRIER", "1", 1);
        run_ends(e, "vulkan", other);
        unsetenv("RLX_FULL_BARRIER");
        CHECK(!memcmp(plain, other, sizeof plain));
        n_chained = 0;
        setenv("RLX_CHAIN", "1", 1);
        rlx_set_log(count_chained, NULL, RLX_LOG_DEBUG);
        run_ends(e, "vulkan", other);
        rlx_set_log(NULL, NULL, RLX_LOG_OFF);
        unsetenv("RLX_CHAIN");
        printf("table of %s, rows of %d: %u dispatches wait inside of kernels\n",
               rlx_dtype_name(e->table), e->width, n_chained);
        CHECK(!memcmp(plain, other, sizeof plain));
        CHECK(n_chained >= e->least || !getenv("RLX_TEST_CHAINS"));
        run_ends(e, "ref", other);
        for (int i = 0; i < ENDS_RUNS; i++)
            check_ends(e, plain[i], other[i]);
    }
}

/* s[4 .. 11] = s[0 .. 7], both in one memory. */
static void shift_state(const char *name, float *got)
{
    rlx_device *device = NULL;
    rlx_session *s = NULL;
    float rows[16 * 8];
    const int32_t at = 4;
    CHECK_OK(rlx_device_open(name, NULL, &device, &err), &err);
    rlx_graph *g = rlx_graph_create("shift");
    rlx_value state = rlx_state(g, "s", RLX_F32, 2, (rlx_dim[]){16, 8});
    rlx_value place = rlx_input(g, "at", RLX_I32, 0, NULL);
    rlx_value y = rlx_state_write(g, state, rlx_narrow(g, state, 0, 0, 8), place, 0);
    rlx_output(g, "y", rlx_neg(g, y));
    CHECK_OK(rlx_session_create(device, g, NULL, &s, &err), &err);
    rlx_graph_destroy(g);
    for (int i = 0; i < 16 * 8; i++)
        rows[i] = (float)i;
    CHECK_OK(rlx_session_state_write(s, "s", 0, rows, sizeof rows, &err), &err);
    rlx_const_tensor in = {"at", &at, sizeof at};
    rlx_tensor out = {"y", got, sizeof rows};
    CHECK_OK(rlx_run(s, &in, 1, &out, 1, &err), &err);
    rlx_session_destroy(s);
    rlx_device_close(device);
}

static void test_alias(void)
{
    float got[16 * 8];
    static const char *devices[] = {"ref", "vulkan"};
    for (int d = 0; d < 2; d++) {
        shift_state(devices[d], got);
        for (int i = 0; i < 16 * 8; i++)
            CHECK(got[i] == -(float)(i / 8 >= 4 && i / 8 < 12 ? i - 32 : i));
    }
}

int main(void)
{
    rlx_device *device = NULL;
    setenv("RLX_LIMITS", getenv("RLX_LIMITS") ? getenv("RLX_LIMITS") : "host=0", 1);
    if (rlx_device_open("vulkan", NULL, &device, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    test_lengths();
    rlx_device_close(device);
    test_barriers();
    test_ends();
    test_alias();
    return check_done();
}
