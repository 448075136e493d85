/* SPDX-License-Identifier: MIT */
/* The engine tests itself first: an engine that sees no difference would pass every device. */
#include <math.h>
#include <string.h>

#include "ops/optest.h"

typedef struct texts {
    size_t n;
    char last[64];
} texts;

static void note_text(void *user, const char *text)
{
    texts *t = user;
    t->n++;
    snprintf(t->last, sizeof t->last, "%s", text);
}

static void check_expansion(ot_report *r)
{
    texts t = {0};
    if (!ot_expand("$A=1|2 $AB=x||z $S=[$A,3] : f($S)$AB", note_text, &t) || t.n != 6) {
        ot_fail(r, "expansion: expected 6 cases, got %zu", t.n);
    }
    if (strcmp(t.last, "f([2,3])z") != 0) ot_fail(r, "expansion: the last case is %s", t.last);
    if (ot_expand("$A=1 : f($B)", note_text, &t)) ot_fail(r, "expansion: took an unknown variable");
    if (ot_expand("$A=1|2 f()", note_text, &t)) ot_fail(r, "expansion: took a head without end");
}

static void check_parser(ot_report *r)
{
    static const char *const malformed[] = {
        "", "relu", "relu(f32[2)", "relu(f32[2]:what)", "relu(f32[2]:int(1))", "relu(f32[n])",
        "relu(f32[2]) {axis=1", "relu(f32[2]) x", "relu(f32[2]) !> ",
    };
    static ot_case c;
    char text[64], why[160];
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        snprintf(text, sizeof text, "%s", malformed[i]);
        if (ot_parse(text, "self", 0, &c, why)) ot_fail(r, "parser: took \"%s\"", text);
    }
    snprintf(text, sizeof text, "f(f32[n<=4,n*2+1]:range(-1,1):param, _, i8) {a=[1,2]} !> no");
    if (!ot_parse(text, "self", 0, &c, why)) {
        ot_fail(r, "parser: %s", why);
    } else if (c.n_in != 3 || c.n_dims != 1 || c.in[0].dims[1].times != 2 || !c.in[1].absent
               || c.in[0].leaf != OT_PARAM || strcmp(c.attrs, "a=[1,2]") || strcmp(c.error, "no")) {
        ot_fail(r, "parser: read \"%s\" wrongly", text);
    }
}

typedef struct pair {
    float expected, got;
    ot_class class;
    bool equal;
} pair;

/* Each pair alone; a near element may differ by a thousandth of itself. */
static void check_comparison(ot_report *r)
{
    const pair pairs[] = {
        {1, 1, OT_BITS, true},       {0.0f, -0.0f, OT_BITS, false}, {0.0f, -0.0f, OT_EQUAL, true},
        {NAN, NAN, OT_BITS, true},   {NAN, -NAN, OT_EQUAL, true},   {NAN, 1, OT_NEAR, false},
        {1, NAN, OT_NEAR, false},    {INFINITY, INFINITY, OT_NEAR, true},
        {INFINITY, -INFINITY, OT_NEAR, false}, {INFINITY, 3e38f, OT_NEAR, false},
        {3e38f, INFINITY, OT_NEAR, false}, {1, 1.0009f, OT_NEAR, true},
        {1, 1.002f, OT_NEAR, false}, {1000, 1000.9f, OT_NEAR, true},
        {1000, 1001.1f, OT_NEAR, false}, {1, 1.0000001f, OT_EQUAL, false},
        {1e-20f, 1.0009e-20f, OT_NEAR, true}, {1e-20f, 1.002e-20f, OT_NEAR, false},
        {1e-20f, 0, OT_NEAR, false}, {-1, 1, OT_NEAR, false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        pair p = pairs[i];
        double limit = fabs(p.expected) / 1000;
        const ot_measure m = {.class = p.class, .signed_zero = p.class == OT_BITS,
                              .limit = &limit, .bias = INFINITY};
        const ot_tensor a = {.dtype = RLX_F32, .elements = 1, .bytes = 4, .data = &p.expected};
        const ot_tensor b = {.dtype = RLX_F32, .elements = 1, .bytes = 4, .data = &p.got};
        if ((ot_compare(&a, &b, &m).n_bad == 0) == p.equal) continue;
        ot_fail(r, "comparison: %g and %g are %sequal", p.expected, p.got, p.equal ? "not " : "");
    }
}

/* Under policy fast an infinity may be NaN where a factor is rounded to 0, and nowhere else. */
static void check_losses(ot_report *r)
{
    float x[] = {1, 1e-9f, INFINITY, 0.25f}, expected[] = {INFINITY, INFINITY, 1};
    float narrowed[] = {NAN, INFINITY, 1}, got[] = {NAN, NAN, NAN};
    double limits[] = {0.1, 0.1, 0.1};
    ot_tensor t = {.dtype = RLX_F32, .rank = 1, .dims = {4}, .elements = 4, .bytes = 16, .data = x};
    ot_narrow_operand(&t);
    if (x[0] != 1 || x[1] != 0 || !isinf(x[2]) || x[3] != 0.25f) {
        ot_fail(r, "narrowing: made %g %g %g %g", x[0], x[1], x[2], x[3]);
    }
    ot_measure m = {.class = OT_NEAR, .fast = true, .elements = 3, .limit = limits,
                    .bias = INFINITY};
    const ot_tensor a = {.dtype = RLX_F32, .elements = 3, .bytes = 12, .data = expected};
    const ot_tensor b = {.dtype = RLX_F32, .elements = 3, .bytes = 12, .data = narrowed};
    const ot_tensor c = {.dtype = RLX_F32, .elements = 3, .bytes = 12, .data = got};
    if (!ot_measure_may_lose(&m, &a) || ot_compare(&a, &c, &m).n_bad != 3) {
        ot_fail(r, "losses: NaN for an infinity passes before any is explained");
    }
    ot_measure_lose(&m, &a, &b);
    const ot_difference d = ot_compare(&a, &c, &m);
    if (d.n_bad != 2 || d.first != 1) ot_fail(r, "losses: %lld bad", (long long)d.n_bad);
}

static void check_fills(ot_report *r)
{
    for (rlx_dtype t = RLX_F32; t < RLX_N_DTYPES; t++) {
        ot_tensor a, b;
        float values[512];
        const ot_fill fill = {OT_DEFAULT, 0, 0};
        if (!ot_tensor_init(&a, t, 1, &(int64_t){512})) return;
        if (ot_tensor_init(&b, t, 1, &(int64_t){512})) {
            ot_fill_tensor(&a, &fill, 7, 0);
            ot_fill_tensor(&b, &fill, 7, 0);
            if (memcmp(a.data, b.data, a.bytes)) ot_fail(r, "fills: %s differs", rlx_dtype_name(t));
        }
        rlx_to_float(t, a.data, values, 512);
        for (int i = 0; i < 512; i++) {
            if (fabsf(values[i]) < 12) continue; /* NaN fails too */
            ot_fail(r, "fills: %s has element %g", rlx_dtype_name(t), values[i]);
            break;
        }
        ot_tensor_finish(&a);
        ot_tensor_finish(&b);
    }
}

void ot_check_engine(ot_report *r)
{
    check_expansion(r);
    check_parser(r);
    check_comparison(r);
    check_losses(r);
    check_fills(r);
}
