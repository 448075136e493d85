/* SPDX-License-Identifier: MIT */
/* A small decoder with packed weights under the policy fast, on Vulkan and on the reference: few
 * rows at a time, where products take the norm before them, rotate their results and write them to
 * the K/V cache. Skipped where there is no device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/share.h"

enum { HIDDEN = 256, HEADS = 4, KV = 2, SIZE = 64, INNER = 512, MOST = 24, LAYERS = 2 };
enum { CACHE = MOST * KV * SIZE };

typedef struct form {
    rlx_dtype weight, cache;
    bool interleaved;
    int64_t n_rot;
    float scale; /* of the rows */
} form;

static rlx_error err;

/* ---- The graph ------------------------------------------------------------------------------ */

static rlx_value project(rlx_graph *g, const form *f, rlx_value x, const char *name, int layer,
                         int n, int k)
{
    char full[32];
    snprintf(full, sizeof full, "%s%d", name, layer);
    return rlx_dequant_matmul(g, x, rlx_param(g, full, f->weight, 2, (rlx_dim[]){n, k}));
}

static rlx_value norm(rlx_graph *g, rlx_value x, const char *name, int layer)
{
    char full[32];
    snprintf(full, sizeof full, "%s%d", name, layer);
    return rlx_rms_norm(g, x, rlx_param(g, full, RLX_F32, 1, (rlx_dim[]){HIDDEN}), NULL);
}

/* at: cosines, sines, positions, length, and where the cache is written. */
static rlx_value attend(rlx_graph *g, const form *f, rlx_value x, int layer, rlx_dim seq,
                        const rlx_value at[5])
{
    const rlx_rope_desc rope = {RLX_INIT(rlx_rope_desc), .layout = RLX_BSHD,
                                .interleaved = f->interleaved, .n_rot = f->n_rot};
    rlx_value q = project(g, f, x, "q", layer, HEADS * SIZE, HIDDEN), kv[2];
    q = rlx_reshape(g, q, 4, (rlx_dim[]){1, seq, HEADS, SIZE});
    q = rlx_rope(g, q, at[0], at[1], at[2], &rope);
    for (int i = 0; i < 2; i++) {
        char name[24];
        snprintf(name, sizeof name, "%s%d", i ? "values" : "keys", layer);
        rlx_value s = rlx_state(g, name, f->cache, 3, (rlx_dim[]){MOST, KV, SIZE});
        rlx_value now = project(g, f, x, i ? "v" : "k", layer, KV * SIZE, HIDDEN);
        now = rlx_reshape(g, now, 4, (rlx_dim[]){1, seq, KV, SIZE});
        if (!i)
            now = rlx_rope(g, now, at[0], at[1], at[2], &rope);
        now = rlx_reshape(g, now, 3, (rlx_dim[]){seq, KV, SIZE});
        kv[i] = rlx_reshape(g, rlx_state_write(g, s, now, at[4], 0), 4,
                            (rlx_dim[]){1, MOST, KV, SIZE});
    }
    const rlx_value extra[3] = {at[3], RLX_NONE, RLX_NONE};
    rlx_value y = rlx_attention_ex(g, q, kv[0], kv[1], RLX_NONE, extra,
                                   &(rlx_attention_desc){RLX_INIT(rlx_attention_desc),
                                                         .layout = RLX_BSHD, .causal = true});
    y = rlx_reshape(g, y, 2, (rlx_dim[]){seq, HEADS * SIZE});
    return project(g, f, y, "o", layer, HIDDEN, HEADS * SIZE);
}

static rlx_graph *make_decoder(const form *f)
{
    rlx_graph *g = rlx_graph_create("decoder");
    rlx_dim seq = rlx_dim_named(g, "seq", MOST);
    const rlx_dim table[] = {MOST, (f->n_rot ? f->n_rot : SIZE) / 2};
    const rlx_value at[5] = {rlx_param(g, "cos", RLX_F32, 2, table),
                             rlx_param(g, "sin", RLX_F32, 2, table),
                             rlx_input(g, "positions", RLX_I32, 1, (rlx_dim[]){seq}),
                             rlx_input(g, "length", RLX_I32, 0, NULL),
                             rlx_input(g, "place", RLX_I64, 0, NULL)};
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){seq, HIDDEN});
    for (int i = 0; i < LAYERS; i++) {
        x = rlx_add(g, x, attend(g, f, norm(g, x, "norm_a", i), i, seq, at));
        rlx_value y = norm(g, x, "norm_b", i);
        rlx_value gate = project(g, f, y, "gate", i, INNER, HIDDEN);
        rlx_value up = project(g, f, y, "up", i, INNER, HIDDEN);
        x = rlx_add(g, x, project(g, f, rlx_swiglu(g, gate, up), "down", i, HIDDEN, INNER));
    }
    rlx_output(g, "y", x);
    return g;
}

/* ---- Running -------------------------------------------------------------------------------- */

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return ((float)(*seed >> 8) / 16777216.0f - 0.5f) * 0.25f;
}

static void set_weights(rlx_session *s)
{
    uint32_t seed = 1;
    rlx_tensor_info io;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &io); i++) {
        const int64_t rows = io.shape.rank == 2 ? io.shape.dim[0] : 1;
        const int64_t columns = io.shape.dim[io.shape.rank - 1];
        float *data = malloc((size_t)(rows * columns) * sizeof *data);
        void *packed = malloc(io.bytes);
        for (int64_t k = 0; k < rows * columns; k++)
            data[k] = noise(&seed) + (io.shape.rank == 1);
        const rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32,
                                          .to = io.dtype,
                                 .src = data, .dst = packed, .n_rows = rows, .row_length = columns,
                                 .threads = 1};
        CHECK_OK(rlx_quantize_rows(&d, NULL, &err), &err);
        CHECK_OK(rlx_session_set_param(s, io.name, packed, io.bytes, RLX_COPY, &err), &err);
        free(packed);
        free(data);
    }
}

typedef struct outcome {
    float y[4][MOST * HIDDEN];
    uint8_t cache[2 * LAYERS][CACHE * 4];
    uint32_t flags;
} outcome;

/* n rows at the positions from `first` on; they go to `place` in the cache. */
static void run_rows(rlx_session *s, const form *f, int first, int n, int64_t place, float *y)
{
    static float x[MOST * HIDDEN];
    int32_t positions[MOST], length = first + n;
    uint32_t seed = (uint32_t)first + 7;
    for (int i = 0; i < n * HIDDEN; i++)
        x[i] = 4 * noise(&seed) * f->scale;
    for (int i = 0; i < n; i++)
        positions[i] = first + i;
    CHECK_OK(rlx_session_bind(s, "seq", n, &err), &err);
    const rlx_const_tensor in[] = {{"x", x, (size_t)n * HIDDEN * 4},
                             {"positions", positions, (size_t)n * 4},
                             {"length", &length, 4}, {"place", &place, 8}};
    rlx_tensor out = {"y", y, (size_t)n * HIDDEN * 4};
    CHECK_OK(rlx_run(s, in, 4, &out, 1, &err), &err);
}

static bool decode(const char *name, const form *f, outcome *o)
{
    rlx_device *device = NULL;
    rlx_session *s = NULL;
    if (rlx_device_open(name, NULL, &device, &err) != RLX_OK)
        return false;
    rlx_graph *g = make_decoder(f);
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = RLX_POLICY_FAST};
    memset(o, 0, sizeof *o);
    CHECK_OK(rlx_session_create(device, g, &desc, &s, &err), &err);
    rlx_graph_destroy(g);
    set_weights(s);
    run_rows(s, f, 0, 5, 0, o->y[0]);
    run_rows(s, f, 5, 1, 5, o->y[1]);
    run_rows(s, f, 6, 8, 6, o->y[2]);
    o->flags = rlx_session_flags(s);
    CHECK(o->flags == 0);
    run_rows(s, f, 14, 2, MOST - 1, o->y[3]); /* the second row finds no place */
    o->flags = rlx_session_flags(s);
    for (int i = 0; i < 2 * LAYERS; i++) {
        char state[24];
        snprintf(state, sizeof state, "%s%d", i % 2 ? "values" : "keys", i / 2);
        CHECK_OK(rlx_session_state_read(s, state, 0, o->cache[i],
                                        CACHE * (f->cache == RLX_F32 ? 4 : 2), &err), &err);
    }
    rlx_session_destroy(s);
    rlx_device_close(device);
    return true;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static float cached(const form *f, const uint8_t *cache, int i)
{
    uint16_t h;
    float x;
    if (f->cache == RLX_F32) {
        memcpy(&x, cache + 4 * i, 4);
        return x;
    }
    memcpy(&h, cache + 2 * i, 2);
    const int exponent = h >> 10 & 31;
    x = exponent ? ldexpf((float)(1024 + (h & 1023)), exponent - 25)
                 : ldexpf((float)(h & 1023), -24);
    return h >> 15 ? -x : x;
}

/* The largest difference, relative to the largest element. */
static void compare(const char *what, const float *a, const float *b, int n)
{
    float most = 0, apart = 0;
    for (int i = 0; i < n; i++) {
        const float d = fabsf(a[i] - b[i]);
        most = fmaxf(most, fabsf(b[i]));
        apart = d > apart || d != d ? d : apart;
    }
    printf("%-8s largest %g, apart %g\n", what, most, apart);
    CHECK(most > 0 && apart <= 4e-3f * most);
}

static void test_form(const form *f)
{
    static outcome got, ref;
    static float a[CACHE], b[CACHE];
    static const int rows[] = {5, 1, 8, 2};
    CHECK(decode("vulkan", f, &got));
    CHECK(decode("ref", f, &ref));
    for (int i = 0; i < 4; i++)
        compare("y", got.y[i], ref.y[i], rows[i] * HIDDEN);
    for (int k = 0; k < 2 * LAYERS; k++) {
        for (int i = 0; i < CACHE; i++) {
            a[i] = cached(f, got.cache[k], i);
            b[i] = cached(f, ref.cache[k], i);
        }
        compare(k % 2 ? "values" : "keys", a, b, CACHE);
    }
    CHECK(got.flags == ref.flags && got.flags & RLX_FLAG_STATE_RANGE);
}

#ifdef RX_SANITIZED
enum { SHARE = 4 };
#else
enum { SHARE = 2 };
#endif

int main(void)
{
    static const form forms[] = {
        {RLX_Q4_0, RLX_F16, true, 0, 1}, {RLX_Q4_0, RLX_F16, false, 0, 1},
        {RLX_Q4_1, RLX_F32, true, SIZE / 2, 1}, {RLX_Q8_0, RLX_F16, true, 0, 1},
        /* squares of the rows overflow, or underflow */
        {RLX_Q4_0, RLX_F16, true, 0, 0x1p66f}, {RLX_Q8_0, RLX_F16, false, 0, 0x1p66f},
        {RLX_Q4_0, RLX_F32, true, 0, 0x1p-66f}};
    rlx_device *device = NULL;
    if (rlx_device_open("vulkan", NULL, &device, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (in_share(i, SHARE))
            test_form(&forms[i]);
    rlx_device_close(device);
    return check_done();
}
