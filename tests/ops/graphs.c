/* SPDX-License-Identifier: MIT */
/* Runs the graphs of graph_table.c and random ones: the same inputs for several runs on the device
 * and on the reference; outputs, states and flags must agree after each. Each mode starts from zero
 * state. */
#include <stdlib.h>
#include <string.h>

#include "ops/graph_table.h"
#include "ops/optest.h"

#define MAX_LEAVES 24

static size_t n_table(void)
{
    size_t n = 0;
    while (graph_tests[n].name) n++;
    return n;
}

bool ot_graph_name(const ot_options *opt, size_t i, char name[OT_GRAPH_NAME])
{
    const size_t n = n_table();
    if (i >= n + opt->n_random) return false;
    if (i < n) {
        snprintf(name, OT_GRAPH_NAME, "%s", graph_tests[i].name);
    } else {
        snprintf(name, OT_GRAPH_NAME, "random graph %llu",
                 (unsigned long long)(opt->random_seed + i - n));
    }
    return true;
}

typedef struct graph_mode {
    const char *name;
    rlx_session_desc desc;
    bool clone; /* run a clone; the session it came from is destroyed first */
} graph_mode;

#define DEFAULTS RLX_INIT(rlx_session_desc)
static const graph_mode modes[] = {
    {"run", {DEFAULTS}, false},
    {"no_fusion", {DEFAULTS, .no_fusion = true}, false},
    {"no_fold", {DEFAULTS, .no_fold = true}, false},
    {"keep_all", {DEFAULTS, .keep_all = true}, false},
    {"clone", {DEFAULTS}, true},
};

typedef struct graph_run {
    ot_env *env;
    const graph_test *test;
    ot_report *r;
    rlx_graph *graph;
    rlx_session *ref, *dut; /* ref is NULL on the null device */
} graph_run;

/* ---- Fills and dimensions of a test --------------------------------------------------------- */

/* The fill of input `name`: "name:kind(a,b)" in the list. */
static ot_fill find_fill(const graph_test *t, const char *name)
{
    ot_fill fill = {0};
    const size_t n = strlen(name);
    for (const char *p = t->fills; p && *p; p += strspn(p, " ")) {
        const size_t length = strcspn(p, " ");
        if (strncmp(p, name, n) == 0 && p[n] == ':') {
            const char *word = p + n + 1;
            const size_t n_word = strcspn(word, "( ");
            double arg[2] = {0};
            int n_arg = 0;
            const char *at = word + n_word;
            while ((*at == '(' || *at == ',') && n_arg < 2) {
                char *end;
                arg[n_arg++] = strtod(at + 1, &end);
                at = end;
            }
            ot_parse_fill(word, n_word, arg, n_arg, &fill);
        }
        p += length;
    }
    return fill;
}

/* Binds each "name=4,2,1" to its value for this run, the last one when the list is shorter. */
static rlx_status bind_dims(const graph_test *t, int run, rlx_session *s, rlx_error *err)
{
    for (const char *p = t->dims; p && *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, "=");
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        p += n;
        int64_t value = 0;
        for (int i = 0; *p == '=' || *p == ','; i++) {
            char *end;
            const int64_t given = strtoll(p + 1, &end, 10);
            if (i <= run) value = given;
            p = end;
        }
        rlx_status status = rlx_session_bind(s, name, value, err);
        if (status) return status;
    }
    return RLX_OK;
}

static bool make_tensor(const graph_run *g, const rlx_tensor_info *info, int run, ot_tensor *t)
{
    if (!ot_tensor_init(t, info->dtype, info->shape.rank, info->shape.dim)) return false;
    const ot_fill fill = find_fill(g->test, info->name);
    ot_fill_tensor(t, &fill, ot_hash(info->name, g->env->opt.seed + (uint64_t)run), run);
    return true;
}

/* ---- Sessions ------------------------------------------------------------------------------- */

static rlx_status set_params(const graph_run *g, rlx_session *s, rlx_error *err)
{
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &info); i++) {
        ot_tensor t;
        if (!make_tensor(g, &info, 0, &t)) return RLX_NO_MEMORY;
        rlx_status status = rlx_session_set_param(s, info.name, t.data, t.bytes, RLX_COPY, err);
        ot_tensor_finish(&t);
        if (status) return status;
    }
    return RLX_OK;
}

static rlx_session *open_session(graph_run *g, rlx_device *d, const graph_mode *mode)
{
    rlx_session *s = NULL, *clone = NULL;
    rlx_error err = {0};
    rlx_status status = rlx_session_create(d, g->graph, &mode->desc, &s, &err);
    if (!status) status = set_params(g, s, &err);
    if (!status && mode->clone) {
        status = rlx_session_clone(s, &clone, &err);
        rlx_session_destroy(s);
        s = clone;
    }
    if (!status) {
        ot_check_untouched(g->r, mode->name, &err);
        return s;
    }
    ot_report_status(g->env, g->r, mode->name, status, &err);
    rlx_session_destroy(s);
    return NULL;
}

static rlx_status run_session(const graph_run *g, rlx_session *s, int run, ot_tensor *out,
                              size_t *n, rlx_error *err)
{
    ot_tensor in[MAX_LEAVES];
    rlx_const_tensor tensors[MAX_LEAVES];
    rlx_tensor_info info;
    size_t n_in = 0;
    rlx_status status = bind_dims(g->test, run, s, err);
    while (!status && n_in < MAX_LEAVES && rlx_session_leaf(s, RLX_LEAF_INPUT, n_in, &info)) {
        if (!make_tensor(g, &info, run, &in[n_in])) status = RLX_NO_MEMORY;
        tensors[n_in] = (rlx_const_tensor){info.name, in[n_in].data, in[n_in].bytes};
        n_in++;
    }
    *n = 0;
    if (!status) status = ot_run_session(s, tensors, n_in, out, n, err);
    for (size_t i = 0; i < n_in; i++) ot_tensor_finish(&in[i]);
    return status;
}

/* ---- Comparing ------------------------------------------------------------------------------ */

static rlx_status read_state(rlx_session *s, size_t i, ot_tensor *t, rlx_error *err)
{
    rlx_tensor_info info;
    if (!rlx_session_leaf(s, RLX_LEAF_STATE, i, &info)) return RLX_NOT_FOUND;
    if (!ot_tensor_init(t, info.dtype, info.shape.rank, info.shape.dim)) return RLX_NO_MEMORY;
    return rlx_session_state_read(s, info.name, 0, t->data, t->bytes, err);
}

static void check_tensor(graph_run *g, const char *what, const ot_tensor *expected,
                         const ot_tensor *got)
{
    ot_measure m;
    if (!ot_measure_graph(&m, expected)) {
        ot_fail(g->r, "out of memory");
        return;
    }
    ot_check_output(g->r, what, expected, got, &m);
    ot_measure_finish(&m);
}

static void compare_states(graph_run *g, const char *mode, int run)
{
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(g->ref, RLX_LEAF_STATE, i, &info); i++) {
        rlx_error err = {0};
        ot_tensor expected = {0}, got = {0};
        rlx_status status = read_state(g->ref, i, &expected, &err);
        if (!status) status = read_state(g->dut, i, &got, &err);
        char what[96];
        snprintf(what, sizeof what, "%s, run %d, state %.32s", mode, run, info.name);
        if (status) {
            ot_fail(g->r, "%s: %s", what, err.text);
        } else {
            check_tensor(g, what, &expected, &got);
        }
        ot_tensor_finish(&expected);
        ot_tensor_finish(&got);
    }
}

static bool run_once(graph_run *g, const char *mode, int run)
{
    ot_tensor expected[OT_MAX_OUT] = {0}, got[OT_MAX_OUT] = {0};
    size_t n_expected = 0, n_got = 0;
    rlx_error err = {0};
    rlx_status status = run_session(g, g->dut, run, got, &n_got, &err);
    if (!status && g->ref) status = run_session(g, g->ref, run, expected, &n_expected, &err);
    if (status) {
        ot_report_status(g->env, g->r, mode, status, &err);
    } else if (g->ref) {
        for (size_t i = 0; i < n_expected; i++) {
            char what[64];
            snprintf(what, sizeof what, "%s, run %d, output %zu", mode, run, i);
            check_tensor(g, what, &expected[i], &got[i]);
        }
        const uint32_t want = rlx_session_flags(g->ref), have = rlx_session_flags(g->dut);
        if (want != have) {
            ot_fail(g->r, "%s, run %d: expected flags %u, got %u", mode, run, want, have);
        }
        compare_states(g, mode, run);
    }
    if (!status) ot_check_untouched(g->r, mode, &err);
    for (size_t i = 0; i < OT_MAX_OUT; i++) {
        ot_tensor_finish(&expected[i]);
        ot_tensor_finish(&got[i]);
    }
    return status == RLX_OK && g->r->verdict == OT_PASS;
}

static void run_mode(graph_run *g, const graph_mode *mode)
{
    ot_env *env = g->env;
    static const graph_mode plain = {"ref", {DEFAULTS, .no_fusion = true, .no_fold = true}, false};
    g->dut = open_session(g, env->device, mode);
    if (!env->is_null) g->ref = open_session(g, env->ref ? env->ref : env->device, &plain);
    for (int run = 0; g->dut && run < g->test->n_runs; run++) {
        if ((!g->ref && !env->is_null) || !run_once(g, mode->name, run)) break;
    }
    rlx_session_destroy(g->dut);
    rlx_session_destroy(g->ref);
    g->dut = g->ref = NULL;
}

static void check_graph(graph_run *g)
{
    rlx_error err = {0};
    ot_report *r = g->r;
    if (rlx_graph_verify(g->graph, &err)) ot_fail(r, "verify: %s", err.text);
    const size_t n = sizeof modes / sizeof modes[0];
    for (size_t m = 0; m < n && r->verdict == OT_PASS; m++) {
        if (ot_has_turn(&g->env->opt, rlx_graph_n_nodes(g->graph), m, n)) run_mode(g, &modes[m]);
    }
    char *text = NULL;
    if (r->verdict == OT_FAIL && rlx_graph_print(g->graph, &text, &(size_t){0}, NULL) == RLX_OK) {
        ot_fail(r, "%s", text);
    }
    rlx_free(text);
}

void ot_check_random(ot_env *env, rlx_graph *graph, ot_report *r)
{
    static const graph_test random_test = {.name = "random", .n_runs = 2};
    check_graph(&(graph_run){.env = env, .test = &random_test, .r = r, .graph = graph});
}

void ot_run_graph(ot_env *env, size_t i, ot_report *r)
{
    const size_t n = n_table();
    if (i >= n) {
        rlx_graph *random = ot_random_graph(env->opt.random_seed + i - n);
        ot_check_random(env, random, r);
        rlx_graph_destroy(random);
        return;
    }
    graph_run g = {.env = env, .test = &graph_tests[i], .r = r};
    rlx_error err = {0};
    if (rlx_graph_parse(g.test->text, strlen(g.test->text), &g.graph, &err)) {
        ot_fail(r, "parse: %s", err.text);
        return;
    }
    check_graph(&g);
    rlx_graph_destroy(g.graph);
}
