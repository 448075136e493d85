/* SPDX-License-Identifier: MIT */
/* First divergence of two devices: a graph is run on both one step at a time, and the results of
 * the steps that both have are compared, then the outputs. A device may run a node as several steps
 * (decomposed), so steps are paired by node and operation before anything runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"
#include "term.h"

#define NO_STEP SIZE_MAX

/* A step of one device. */
typedef struct side_step {
    const char *node, *op; /* owned by the session */
    size_t pair;           /* the step of the other device; NO_STEP: none */
    tensor *results;       /* of the device that runs first, if the step has a pair */
    size_t n_results;
} side_step;

typedef struct side {
    work *w;
    side_step *steps;
    size_t n;
} side;

typedef struct comparison {
    side a, b; /* b runs first */
    double tolerance;
    size_t n_steps, n_outputs; /* compared */
    bool as_json, diverged;
    table t;
    json j;
} comparison;

/* ---- Pairs ----------------------------------------------------------------------------------- */

static void list_steps(side *s, work *w)
{
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    *s = (side){.w = w, .n = rlx_session_n_steps(w->session)};
    s->steps = cli_alloc_array(s->n + 1, sizeof *s->steps);
    for (size_t i = 0; i < s->n && rlx_session_step(w->session, i, &step, NULL) == RLX_OK; i++)
        s->steps[i] = (side_step){.node = step.node, .op = step.op, .pair = NO_STEP};
}

/* Steps of the same node; without a name, of the same operation. */
static bool is_kin(const side_step *x, const side_step *y)
{
    return x->node[0] || y->node[0] ? !strcmp(x->node, y->node) : !strcmp(x->op, y->op);
}

/* The next step of the same kin as `of` from step i on, or NO_STEP. */
static size_t find_kin(const side *s, const side_step *of, size_t i)
{
    while (i < s->n && !is_kin(&s->steps[i], of))
        i++;
    return i < s->n ? i : NO_STEP;
}

static size_t count_kin(const side *s, const side_step *of, size_t *last)
{
    size_t n = 0;
    for (size_t i = find_kin(s, of, 0); i != NO_STEP; i = find_kin(s, of, i + 1)) {
        *last = i;
        n++;
    }
    return n;
}

static void set_pair(side *a, size_t i, side *b, size_t k)
{
    a->steps[i].pair = k;
    b->steps[k].pair = i;
}

static bool has_same_ops(const side *a, const side *b, const side_step *of)
{
    size_t i = find_kin(a, of, 0), k = find_kin(b, of, 0);
    while (i != NO_STEP && k != NO_STEP && !strcmp(a->steps[i].op, b->steps[k].op)) {
        i = find_kin(a, of, i + 1);
        k = find_kin(b, of, k + 1);
    }
    return i == NO_STEP && k == NO_STEP;
}

/* All steps of a kin with those of the other side when they are the same operations. Otherwise one
 * side has decomposed the node: its last step gives the node's result. */
static void pair_kin(side *a, side *b, const side_step *of)
{
    size_t last_a = NO_STEP, last_b = NO_STEP;
    const size_t n_a = count_kin(a, of, &last_a), n_b = count_kin(b, of, &last_b);
    if (n_a == n_b && has_same_ops(a, b, of)) {
        size_t k = find_kin(b, of, 0);
        for (size_t i = find_kin(a, of, 0); i != NO_STEP; i = find_kin(a, of, i + 1)) {
            set_pair(a, i, b, k);
            k = find_kin(b, of, k + 1);
        }
    } else if (n_a && n_b && of->node[0])
        set_pair(a, last_a, b, last_b);
}

static void pair_steps(side *a, side *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (find_kin(a, &a->steps[i], 0) == i)
            pair_kin(a, b, &a->steps[i]);
}

/* ---- Results --------------------------------------------------------------------------------- */

static int keep_step(void *user, const rlx_step_result *r)
{
    comparison *c = user;
    side_step *s = &c->b.steps[r->step];
    if (s->pair == NO_STEP)
        return 0;
    s->results = cli_alloc_array(r->n_results + 1, sizeof *s->results);
    s->n_results = r->n_results;
    for (size_t i = 0; i < r->n_results; i++) {
        const rlx_tensor_info *info = &r->infos[i];
        s->results[i] = (tensor){NULL, info->dtype, info->shape, info->bytes,
                                 cli_alloc(info->bytes)};
        if (info->bytes)
            memcpy(s->results[i].data, r->data[i], info->bytes);
    }
    return 0;
}

/* Largest difference, relative to the largest magnitude; infinity when only one side is finite. */
static double largest_error(const tensor *a, const void *data, double *max_abs)
{
    int64_t n = tensor_elements(&a->shape), block = rlx_dtype_block_bytes(a->dtype);
    double error = 0;
    *max_abs = 0;
    for (int64_t i = 0; i < n; i++) {
        float x = 0, y = 0;
        rlx_to_float(a->dtype, (const char *)a->data + i * block, &x, 1);
        rlx_to_float(a->dtype, (const char *)data + i * block, &y, 1);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        if (!isfinite(x) || !isfinite(y)) {
            *max_abs = INFINITY;
            return INFINITY;
        }
        error = fmax(error, fabs((double)x - y));
    }
    tensor_stats s = tensor_get_stats(a->dtype, a->data, n);
    *max_abs = error;
    return error / fmax(s.max_abs, 1e-6);
}

/* A result of step i, or (NO_STEP) the output `name`. */
static void compare_tensor(comparison *c, size_t i, const char *name, const tensor *b,
                           const void *data)
{
    char type[TYPE_TEXT];
    double max_abs, error = largest_error(b, data, &max_abs);
    const bool is_step = i != NO_STEP, bad = error > c->tolerance;
    const char *op = is_step ? c->a.steps[i].op : "output";
    type_text(b->dtype, &b->shape, type);
    c->diverged |= bad;
    *(is_step ? &c->n_steps : &c->n_outputs) += 1;
    if (c->as_json) {
        json_row(&c->j, NULL);
        if (is_step)
            json_int(&c->j, "step", (int64_t)i);
        json_text(&c->j, is_step ? "node" : "output", name);
        json_text(&c->j, "op", op);
        json_text(&c->j, "type", type);
        json_bool(&c->j, "compared", true);
        json_real(&c->j, "max_error", max_abs);
        json_real(&c->j, "relative_error", error);
        json_bool(&c->j, "ok", !bad);
        json_end(&c->j);
        return;
    }
    if (is_step)
        table_cell(&c->t, "%zu", i);
    else
        table_cell(&c->t, "%s", "");
    table_cell(&c->t, "%s", op);
    table_cell(&c->t, "%s", type);
    table_cell(&c->t, "%.3g", max_abs);
    table_cell(&c->t, "%.3g", error);
    table_styled(&c->t, bad ? TERM_RED : TERM_GREEN, "%s", bad ? "DIVERGES" : "ok");
    table_cell(&c->t, "%s", name);
}

static bool is_comparable(const side_step *b, const rlx_step_result *r)
{
    bool same = b->n_results == r->n_results;
    for (size_t i = 0; i < r->n_results && same; i++)
        same = b->results[i].dtype == r->infos[i].dtype &&
               shape_equal(&b->results[i].shape, &r->infos[i].shape);
    return same;
}

static int compare_step(void *user, const rlx_step_result *r)
{
    comparison *c = user;
    side_step *a = &c->a.steps[r->step];
    if (a->pair == NO_STEP)
        return 0;
    const side_step *b = &c->b.steps[a->pair];
    if (!is_comparable(b, r)) {
        c->b.steps[a->pair].pair = NO_STEP;
        a->pair = NO_STEP;
        return 0;
    }
    for (size_t i = 0; i < r->n_results; i++)
        compare_tensor(c, r->step, a->node, &b->results[i], r->data[i]);
    return c->diverged;
}

/* False after printing why an output cannot be read. */
static bool compare_outputs(comparison *c)
{
    rlx_leaf_info leaf;
    bool ok = true;
    for (size_t i = 0; ok && rlx_graph_leaf(c->a.w->graph, RLX_LEAF_OUTPUT, i, &leaf); i++) {
        tensor a = work_read_output(c->a.w, i), b = work_read_output(c->b.w, i);
        ok = a.data && b.data;
        if (ok)
            compare_tensor(c, NO_STEP, leaf.name, &b, a.data);
        tensor_free(&a);
        tensor_free(&b);
    }
    return ok;
}

/* ---- What was not compared ------------------------------------------------------------------- */

static size_t count_alone(const side *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->steps[i].pair == NO_STEP;
    return n;
}

static void json_alone(comparison *c, const side *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->steps[i].pair != NO_STEP)
            continue;
        json_row(&c->j, NULL);
        json_text(&c->j, "device", s->w->device_info.id);
        json_int(&c->j, "step", (int64_t)i);
        json_text(&c->j, "node", s->steps[i].node);
        json_text(&c->j, "op", s->steps[i].op);
        json_bool(&c->j, "compared", false);
        json_end(&c->j);
    }
}

/* "not compared: 3 steps of vulkan:0 without a counterpart on ref (sub, exp, div)" */
static void print_alone(const side *s, const side *other)
{
    enum { SHOWN = 6 };
    const size_t n = count_alone(s);
    size_t shown = 0;
    if (!n)
        return;
    printf("not compared: %zu step%s of %s without a counterpart on %s (", n, n > 1 ? "s" : "",
           s->w->device_info.id, other->w->device_info.id);
    for (size_t i = 0; i < s->n && shown < SHOWN; i++)
        if (s->steps[i].pair == NO_STEP)
            printf("%s%s", shown++ ? ", " : "", s->steps[i].op);
    printf("%s)\n", n > shown ? ", ..." : "");
}

static void print_end(comparison *c)
{
    if (c->as_json) {
        json_alone(c, &c->a);
        json_alone(c, &c->b);
        json_end(&c->j);
        return;
    }
    table_print(&c->t, 0);
    printf("compared: %zu result%s of steps and %zu output%s\n", c->n_steps,
           c->n_steps == 1 ? "" : "s", c->n_outputs, c->n_outputs == 1 ? "" : "s");
    print_alone(&c->a, &c->b);
    print_alone(&c->b, &c->a);
}

/* ---- All ------------------------------------------------------------------------------------- */

static void free_side(side *s)
{
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < s->steps[i].n_results; k++)
            tensor_free(&s->steps[i].results[k]);
        free(s->steps[i].results);
    }
    free(s->steps);
}

int steps_compare(work *w, work *other, double tolerance, bool as_json)
{
    comparison c = {.tolerance = tolerance, .as_json = as_json, .j = {.f = stdout}};
    rlx_error err = {0};
    int status = EXIT_OK;
    list_steps(&c.a, w);
    list_steps(&c.b, other);
    pair_steps(&c.a, &c.b);
    if (as_json)
        json_array(&c.j, NULL);
    else
        table_init(&c.t, "rllrrll", "step|op|result|largest error|relative|verdict|node");
    rlx_status st = rlx_session_run_steps(other->session, true, keep_step, &c, &err);
    if (st == RLX_OK)
        st = rlx_session_run_steps(w->session, true, compare_step, &c, &err);
    if (st == RLX_OK && !compare_outputs(&c))
        status = EXIT_FAILED;
    print_end(&c);
    if (c.diverged)
        status = cli_fail("%s and %s part at the last row above (tolerance %g)",
                          w->device_info.id, other->device_info.id, tolerance);
    else if (st != RLX_OK)
        status = cli_error(&err);
    else if (!status && !c.n_steps && !c.n_outputs)
        status = cli_fail("nothing was compared: the graph has no output");
    free_side(&c.a);
    free_side(&c.b);
    return status;
}
