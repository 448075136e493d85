/* SPDX-License-Identifier: MIT */
/* Control flow of ONNX: branches are taken and loops unrolled while importing, from values that are
 * known or computed then. */
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

#define MAX_STEPS 65536
#define MAX_RESULTS 256

static const rx_onnx_graph *subgraph(rx_onnx_call *c, const char *name)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    if (a && a->g && a->g->n_outputs <= MAX_RESULTS)
        return a->g;
    rx_onnx_fail(c, RLX_INVALID, "expected a sub-graph %s with at most %d outputs", name,
                 MAX_RESULTS);
    return NULL;
}

static rlx_value *new_values(rx_onnx_call *c, size_t n)
{
    rlx_value *v = rx_arena_array_zero(&c->b->arena, (uint64_t)n + 1, sizeof *v);
    if (!v)
        rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    return v;
}

/* ---- If -------------------------------------------------------------------------------------- */

/* If whose condition is unknown: computes both branches and selects each result. */
static rlx_value choose(rx_onnx_call *c, const rx_onnx_graph *then, const rx_onnx_graph *other)
{
    rlx_value *a = new_values(c, then->n_outputs), *b = new_values(c, other->n_outputs);
    if (!a || !b || then->n_outputs != other->n_outputs || !then->n_outputs ||
        rx_onnx_subgraph(c, then, NULL, 0, a) != RLX_OK ||
        rx_onnx_subgraph(c, other, NULL, 0, b) != RLX_OK)
        return RLX_NONE;
    const rlx_value cond = rlx_reshape(c->g, rx_onnx_in(c, 0), 0, NULL);
    for (size_t i = 0; i < then->n_outputs && i < c->n_out; i++) {
        const rlx_shape s = rlx_value_shape(c->g, a[i]), t = rlx_value_shape(c->g, b[i]);
        if (!rx_shape_equal(&s, &t) || rx_onnx_is_list(a[i]) || rx_onnx_is_list(b[i]))
            return rx_onnx_fail(c, RLX_UNSUPPORTED, "its condition is not known when the graph is "
                                "built, and the branches give different shapes");
        c->out[i] = rlx_where(c->g, cond, a[i], b[i]);
    }
    return c->out[0];
}

rlx_value rx_onnx_if(rx_onnx_call *c)
{
    const rx_onnx_graph *then = subgraph(c, "then_branch"), *other = subgraph(c, "else_branch");
    if (!then || !other)
        return RLX_NONE;
    const unsigned char *cond = rx_onnx_value_data(c->b, rx_onnx_in(c, 0));
    if (!cond && c->b->desc->device && !(cond = rx_onnx_need(c, 0, "condition")))
        return RLX_NONE;
    if (!cond)
        return choose(c, then, other);
    const rx_onnx_graph *taken = *cond ? then : other;
    rlx_value *out = new_values(c, taken->n_outputs);
    if (!out || rx_onnx_subgraph(c, taken, NULL, 0, out) != RLX_OK || !taken->n_outputs)
        return RLX_NONE;
    for (size_t i = 0; i < taken->n_outputs && i < c->n_out; i++)
        c->out[i] = out[i];
    return out[0];
}

/* ---- Scan outputs of all iterations ---------------------------------------------------------- */

typedef struct rows {
    rlx_value *v; /* [steps][n] */
    size_t n, steps, cap;
} rows;

static bool add_row(rx_onnx_call *c, rows *r, const rlx_value *v)
{
    if (!rx_grow(&r->v, &r->cap, (r->steps + 1) * (r->n + 1), sizeof *v)) {
        rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
        return false;
    }
    memcpy(r->v + r->steps++ * r->n, v, r->n * sizeof *v);
    return true;
}

/* Scan output k of all iterations, stacked along a new axis. */
static rlx_value stack(rx_onnx_call *c, const rows *r, size_t k, int64_t axis, bool backward)
{
    rlx_value *parts = new_values(c, r->steps);
    if (!parts)
        return RLX_NONE;
    if (!r->steps)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "it runs no step, so its results have no shape");
    for (size_t i = 0; i < r->steps; i++)
        parts[backward ? r->steps - 1 - i : i] = rlx_unsqueeze(c->g, r->v[i * r->n + k], axis);
    return rlx_concat(c->g, parts, r->steps, axis);
}

/* ---- Loop ------------------------------------------------------------------------------------ */

typedef struct loop {
    const rx_onnx_graph *body;
    size_t n_state; /* loop-carried values */
    int64_t limit;  /* trip count; -1: none */
    rlx_value *in, *out;
    rows scans;
} loop;

static bool truth(rx_onnx_call *c, rlx_value v, bool *is)
{
    const unsigned char *data = rx_onnx_demand(c, v, "condition");
    *is = data && *data;
    return data != NULL;
}

static bool run_loop(rx_onnx_call *c, loop *l)
{
    bool on = true;
    rx_onnx_build *b = c->b;
    rx_onnx_frame seen = {b->frames, NULL, 0}, out = {&seen, l->out + 1, l->n_state};
    if (rx_onnx_in(c, 1).id && !truth(c, rx_onnx_in(c, 1), &on))
        return false;
    for (int64_t step = 0; on && (l->limit < 0 || step < l->limit); step++) {
        if (step == MAX_STEPS) {
            rx_onnx_fail(c, RLX_UNSUPPORTED, "more than %d steps", MAX_STEPS);
            return false;
        }
        l->in[0] = rlx_constant(c->g, RLX_I64, 0, NULL, &step, sizeof step);
        l->in[1] = rlx_scalar(c->g, RLX_BOOL, 1);
        seen.v = l->scans.v;
        seen.n = l->scans.steps * l->scans.n;
        b->frames = &seen;
        bool ok = rx_onnx_subgraph(c, l->body, l->in, l->n_state + 2, l->out) == RLX_OK;
        ok = ok && add_row(c, &l->scans, l->out + 1 + l->n_state);
        seen.v = l->scans.v;
        seen.n = l->scans.steps * l->scans.n;
        b->frames = &out;
        ok = ok && truth(c, l->out[0], &on);
        b->frames = seen.outer;
        if (!ok)
            return false;
        memcpy(l->in + 2, l->out + 1, l->n_state * sizeof *l->in);
    }
    return true;
}

rlx_value rx_onnx_loop(rx_onnx_call *c)
{
    loop l = {.body = subgraph(c, "body"), .n_state = c->n_in > 2 ? c->n_in - 2 : 0, .limit = -1};
    rlx_ints limit;
    if (!l.body || l.body->n_outputs < l.n_state + 1)
        return RLX_NONE;
    l.scans.n = l.body->n_outputs - l.n_state - 1;
    l.in = new_values(c, l.n_state + 2);
    l.out = new_values(c, l.body->n_outputs);
    if (!l.in || !l.out || (rx_onnx_in(c, 0).id && !rx_onnx_known_ints(c, 0, "count", &limit)))
        return RLX_NONE;
    if (rx_onnx_in(c, 0).id)
        l.limit = limit.v[0] < 0 ? 0 : limit.v[0];
    for (size_t i = 0; i < l.n_state; i++)
        l.in[2 + i] = c->in[2 + i];
    if (run_loop(c, &l))
        for (size_t i = 0; i < c->n_out && i < l.n_state + l.scans.n; i++)
            if (rx_onnx_wants(c, i))
                c->out[i] = i < l.n_state ? l.in[2 + i]
                                          : stack(c, &l.scans, i - l.n_state, 0, false);
    rx_free(l.scans.v);
    return c->out[0].id || !c->n_out ? c->out[0] : l.n_state ? l.in[2] : RLX_NONE;
}

/* ---- Scan ------------------------------------------------------------------------------------ */

typedef struct scan {
    const rx_onnx_graph *body;
    size_t n_state, n_scan, n_out;
    const rlx_value *state, *inputs;
    rlx_ints in_axes, in_back, out_axes, out_back;
} scan;

static int64_t list_at(const rlx_ints *l, size_t i)
{
    return i < (size_t)l->n ? l->v[i] : 0;
}

/* Slice `step` of scan input i, with the scan axis removed. */
static rlx_value scan_slice(rx_onnx_call *c, const scan *s, size_t i, int64_t step, int64_t steps)
{
    const int axis = rx_onnx_axis(c, list_at(&s->in_axes, i), rx_onnx_rank(c, s->inputs[i]));
    if (axis < 0)
        return RLX_NONE;
    const int64_t at = list_at(&s->in_back, i) ? steps - 1 - step : step;
    return rlx_squeeze(c->g, rlx_narrow(c->g, s->inputs[i], axis, at, 1), axis);
}

/* Unrolls all iterations; out has the final states, then the scan outputs. */
static bool run_scan(rx_onnx_call *c, const scan *s, rlx_value *out)
{
    const rlx_shape first = rlx_value_shape(c->g, s->inputs[0]);
    const int axis = rx_onnx_axis(c, list_at(&s->in_axes, 0), first.rank);
    rows scans = {.n = s->body->n_outputs - s->n_state};
    rlx_value *in = new_values(c, s->n_state + s->n_scan);
    rlx_value *step_out = new_values(c, s->body->n_outputs);
    if (axis < 0 || !in || !step_out)
        return false;
    const int64_t steps = first.dim[axis];
    if (steps < 0 || steps > MAX_STEPS) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "a fixed number of at most %d steps is expected",
                     MAX_STEPS);
        return false;
    }
    memcpy(in, s->state, s->n_state * sizeof *in);
    bool ok = true;
    for (int64_t step = 0; step < steps && ok; step++) {
        for (size_t i = 0; i < s->n_scan; i++)
            in[s->n_state + i] = scan_slice(c, s, i, step, steps);
        ok = rx_onnx_subgraph(c, s->body, in, s->n_state + s->n_scan, step_out) == RLX_OK &&
             add_row(c, &scans, step_out + s->n_state);
        memcpy(in, step_out, s->n_state * sizeof *in);
    }
    memcpy(out, in, s->n_state * sizeof *in);
    for (size_t i = 0; i < scans.n && ok; i++)
        out[s->n_state + i] = stack(c, &scans, i, list_at(&s->out_axes, i),
                                    list_at(&s->out_back, i));
    rx_free(scans.v);
    return ok;
}

static bool read_scan(rx_onnx_call *c, size_t first, scan *s)
{
    const int64_t n = rx_onnx_int(c, "num_scan_inputs", 0);
    *s = (scan){.body = subgraph(c, "body")};
    if (!s->body)
        return false;
    if (n < 1 || c->n_in < first + (size_t)n) {
        rx_onnx_fail(c, RLX_INVALID, "num_scan_inputs is %lld of %zu operands", (long long)n,
                     c->n_in);
        return false;
    }
    s->n_scan = (size_t)n;
    s->n_state = c->n_in - first - s->n_scan;
    s->state = c->in + first;
    s->inputs = c->in + first + s->n_state;
    s->n_out = s->body->n_outputs;
    rx_onnx_ints(c, "scan_input_axes", &s->in_axes);
    rx_onnx_ints(c, c->opset < 9 ? "directions" : "scan_input_directions", &s->in_back);
    rx_onnx_ints(c, "scan_output_axes", &s->out_axes);
    rx_onnx_ints(c, "scan_output_directions", &s->out_back);
    if (s->n_out < s->n_state)
        rx_onnx_fail(c, RLX_INVALID, "a body of %zu outputs; expected %zu or more", s->n_out,
                     s->n_state);
    return s->n_out >= s->n_state;
}

rlx_value rx_onnx_scan(rx_onnx_call *c)
{
    scan s;
    rlx_value *out;
    if (!read_scan(c, 0, &s) || !(out = new_values(c, s.n_out)) || !run_scan(c, &s, out))
        return RLX_NONE;
    for (size_t i = 0; i < s.n_out && i < c->n_out; i++)
        c->out[i] = out[i];
    return out[0];
}

/* Version 8: operands begin with a batch axis, and each batch is scanned separately. */
rlx_value rx_onnx_scan8(rx_onnx_call *c)
{
    scan s;
    if (!read_scan(c, 1, &s))
        return RLX_NONE;
    if (rx_onnx_in(c, 0).id)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "sequence_lens; expected none");
    const int64_t batches = rlx_value_shape(c->g, s.inputs[0]).dim[0];
    rows all = {.n = s.n_out};
    rlx_value *in = new_values(c, c->n_in), *out = new_values(c, s.n_out);
    bool ok = in && out && batches >= 0 && batches < MAX_STEPS;
    for (int64_t b = 0; b < batches && ok; b++) {
        for (size_t i = 1; i < c->n_in; i++)
            in[i] = rlx_squeeze(c->g, rlx_narrow(c->g, c->in[i], 0, b, 1), 0);
        scan one = s;
        one.state = in + 1;
        one.inputs = in + 1 + s.n_state;
        ok = run_scan(c, &one, out) && add_row(c, &all, out);
    }
    for (size_t i = 0; i < s.n_out && i < c->n_out && ok; i++)
        c->out[i] = stack(c, &all, i, 0, false);
    rx_free(all.v);
    return c->out[0];
}
