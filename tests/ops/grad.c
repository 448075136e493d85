/* SPDX-License-Identifier: MIT */
/* --grad: the derivatives of a case. On the reference device they are compared with central
 * differences in double precision (eps 1e-6, atol 1e-5, rtol 1e-3), along one direction for each
 * operand and for single elements of it, and rlx_jvp along all directions at once; operations
 * without f64 are computed in f32, with larger steps and limits. On other devices the derivatives
 * are compared with those of the reference. The loss is the sum of all results, each element with a
 * weight of its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/optest.h"
#include "rlx/grad.h"

#define N_SINGLES 4 /* elements of an operand that are checked one by one */
#define EPS 1e-6
#define EPS_NARROW 0x1p-9 /* in f32 */

/* Operations without a derivative by some operand; all others that are refused fail. */
static const char refused[] = " rope ";

typedef struct check {
    ot_env *env;
    ot_case *c;
    ot_report *r;
    ot_built plain, grads; /* the loss alone, and with derivatives: of the same operands */
    bool wide;             /* in f64 */
    double noise;          /* of a difference */
    bool defined;          /* the loss is finite */
    size_t wrt[OT_MAX_IN]; /* operands by which the loss is derived */
    size_t n_wrt;
} check;

/* ---- The graph ------------------------------------------------------------------------------- */

/* sin(step * (i + 1) + phase) for the i-th element of a tensor like v, in type t. */
static rlx_value wave_like(rlx_graph *g, rlx_value v, rlx_dtype t, double step, double phase)
{
    const rlx_shape s = rlx_value_shape(g, v);
    rlx_range_desc d = {RLX_INIT(rlx_range_desc), .start = 1, .n = 1, .out = RLX_F64};
    for (int i = 0; i < s.rank; i++) d.n = rlx_dim_mul(g, d.n, s.dim[i]);
    rlx_value x = rlx_mul(g, rlx_range(g, &d), rlx_scalar(g, RLX_F64, step));
    x = rlx_sin(g, rlx_add(g, x, rlx_scalar(g, RLX_F64, phase)));
    return rlx_reshape(g, rlx_cast(g, x, t), s.rank, s.dim);
}

static rlx_value find_leaf(const rlx_graph *g, rlx_leaf kind, const char *stem, size_t i)
{
    char name[OT_NAME];
    rlx_leaf_info leaf;
    snprintf(name, sizeof name, "%s%zu", stem, i);
    for (size_t k = 0; rlx_graph_leaf(g, kind, k, &leaf); k++) {
        if (strcmp(leaf.name, name) == 0) return leaf.value;
    }
    return RLX_NONE;
}

/* The weighted sum of the results that are floats; RLX_NONE when none is. */
static rlx_value add_loss(ot_built *b, rlx_dtype t)
{
    rlx_graph *g = b->graph;
    rlx_value loss = RLX_NONE;
    for (size_t k = 0; k < b->n_out; k++) {
        const rlx_value y = find_leaf(g, RLX_LEAF_OUTPUT, "out", k);
        if (!rlx_dtype_is_float(rlx_value_dtype(g, y))) continue;
        const rlx_value z = rlx_cast(g, y, t);
        rlx_value sum = rlx_mul(g, z, wave_like(g, y, t, 0.7, 1 + (double)k));
        sum = rlx_reduce(g, RLX_REDUCE_SUM, sum, NULL, 0, false);
        loss = loss.id ? rlx_add(g, loss, sum) : sum;
    }
    return loss;
}

static bool is_large(const ot_fill *f)
{
    return f->kind == OT_VALUE && fabs(f->a) > 1e6;
}

static bool is_derived(const ot_operand *o)
{
    return !o->absent && (o->dtype == RLX_F32 || o->dtype == RLX_F64) && o->leaf == OT_INPUT;
}

/* Builds both graphs; false when there is nothing to check, with a failure where that is one. */
static bool build(check *k)
{
    rlx_error err = {0};
    const rlx_dtype t = k->env->ref ? RLX_F32 : RLX_F64;
    ot_build_graph(k->c, &k->grads);
    rlx_graph *g = k->grads.graph;
    if (rlx_graph_status(g, &err)) {
        if (!k->wide) ot_fail(k->r, "build: %s", err.text);
        return false;
    }
    rlx_value wrt[OT_MAX_IN], dx[OT_MAX_IN], tangent[OT_MAX_IN];
    k->n_wrt = 0;
    for (size_t i = 0; i < k->c->n_in; i++) {
        if (!is_derived(&k->c->in[i])) continue;
        wrt[k->n_wrt] = find_leaf(g, RLX_LEAF_INPUT, "in", i);
        k->wrt[k->n_wrt++] = i;
    }
    const rlx_value loss = add_loss(&k->grads, t);
    if (!k->n_wrt || !loss.id) return false;
    rlx_output(g, "loss", loss);
    rlx_grad(g, loss, wrt, k->n_wrt, dx);
    for (size_t i = 0; i < k->n_wrt; i++) {
        char name[OT_NAME];
        snprintf(name, sizeof name, "grad%d", (int)i);
        rlx_output(g, name, dx[i]);
        tangent[i] = wave_like(g, wrt[i], rlx_value_dtype(g, wrt[i]), 1.7, (double)i);
    }
    if (!k->env->ref) rlx_output(g, "jvp", rlx_jvp(g, loss, wrt, tangent, k->n_wrt));
    rlx_graph *with = g;
    ot_build_graph(k->c, &k->grads); /* again: from the same operands */
    k->plain = k->grads;
    k->grads.graph = with;
    rlx_output(k->plain.graph, "loss", add_loss(&k->plain, t));
    if (!rlx_graph_status(g, &err)) return true;
    char word[64];
    snprintf(word, sizeof word, " %s ", k->c->op);
    const bool named = k->c->n_dims > 0 && strstr(err.text, "named");
    if (!strstr(err.text, "has no derivative") || !(named || strstr(refused, word))) {
        ot_fail(k->r, "rlx_grad: %s", err.text);
    }
    return false;
}

/* ---- Running --------------------------------------------------------------------------------- */

static double direction(size_t i, int64_t element)
{
    return sin(1.7 * (double)(element + 1) + (double)i);
}

/* What rounding does to a difference: of each result in f32, and of their sum in f64. */
static double noise_of(const check *k, const ot_tensor *out, size_t n)
{
    double elements = 0, squares = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        if (!rlx_dtype_is_float(out[i].dtype)) continue;
        elements += (double)out[i].elements;
        for (int64_t j = 0; j < out[i].elements; j++) {
            squares += ot_element(&out[i], j) * ot_element(&out[i], j);
        }
    }
    return sqrt(squares) * (k->wide ? 1e-16 * sqrt(elements) / EPS : 6e-8 / EPS_NARROW);
}

/* The loss with operand `which` moved by eps along its direction, or at one element. */
static bool loss_at(check *k, rlx_session *s, size_t which, int64_t element, double eps,
                    double *loss)
{
    const size_t operand = k->wrt[which];
    ot_tensor *t = (ot_tensor *)ot_stored(&k->grads, operand);
    ot_tensor out[OT_MAX_OUT] = {0};
    rlx_error err = {0};
    size_t n = 0;
    void *kept = malloc(t->bytes + 1);
    memcpy(kept, t->data, t->bytes);
    for (int64_t i = 0; i < t->elements; i++) {
        const double d = element < 0 ? direction(which, i) : i == element;
        if (d != 0) ot_put_float(t, i, ot_element(t, i) + eps * d);
    }
    const rlx_status status = ot_run_bound(k->c, &k->grads, s, out, &n, &err);
    if (status) ot_fail(k->r, "run: %s", err.text);
    if (!status) *loss = ot_element(&out[n - 1], 0);
    if (!status) k->noise = noise_of(k, out, n);
    memcpy(t->data, kept, t->bytes);
    free(kept);
    for (size_t i = 0; i < n; i++) ot_tensor_finish(&out[i]);
    return !status;
}

static double limit_of(const check *k, double want, double scale)
{
    return (k->wide ? 1e-5 + 1e-3 * fabs(want) : 2e-3 + 2e-2 * scale) + k->noise;
}

static void compare(check *k, size_t which, int64_t element, double got, double want, double scale)
{
    const double limit = limit_of(k, want, scale);
    if (fabs(got - want) <= limit) return;
    ot_fail(k->r, "derivative by in%zu, %s %lld: expected %.9g, got %.9g, limit %.3g",
            k->wrt[which], element < 0 ? "direction" : "element", (long long)element, want, got,
            limit);
}

static bool difference_of(check *k, rlx_session *s, size_t which, int64_t element, double eps,
                          double *slope)
{
    double above = 0, below = 0;
    if (!loss_at(k, s, which, element, eps, &above)) return false;
    if (!loss_at(k, s, which, element, -eps, &below)) return false;
    *slope = (above - below) / (2 * eps);
    return true;
}

/* The steps that f32 needs are long: where the slope bends, what the square of the step leaves in
 * the difference is more than the limits, and a step twice as long shows how much it is. */
static bool difference(check *k, rlx_session *s, size_t which, int64_t element, double got,
                       double scale, double *slope)
{
    const double eps = k->wide ? EPS : EPS_NARROW;
    double twice = 0;
    if (!difference_of(k, s, which, element, eps, slope)) return false;
    if (k->wide || fabs(got - *slope) <= limit_of(k, *slope, scale)) return true;
    if (!difference_of(k, s, which, element, 2 * eps, &twice)) return false;
    *slope += (*slope - twice) / 3;
    return true;
}

/* Checks one operand; adds its slope along its direction to *total. */
static bool check_operand(check *k, rlx_session *s, size_t which, const ot_tensor *grad,
                          double *total, double *all)
{
    double got = 0, want = 0, scale = 0;
    for (int64_t i = 0; i < grad->elements; i++) {
        const double d = direction(which, i), g = ot_element(grad, i);
        got += g * d;
        scale += g * g * d * d;
    }
    if (!difference(k, s, which, -1, got, sqrt(scale), &want)) return false;
    compare(k, which, -1, got, want, sqrt(scale));
    *total += want;
    *all += scale;
    uint64_t state = k->c->seed + which;
    for (int j = 0; j < N_SINGLES && grad->elements > 0; j++) {
        const int64_t i = (int64_t)(ot_random(&state) % (uint64_t)grad->elements);
        const double g = ot_element(grad, i);
        if (!difference(k, s, which, i, g, fabs(g), &want)) return false;
        compare(k, which, i, g, want, fabs(g));
    }
    return true;
}

/* Outputs of the graph with derivatives: out.., loss, grad.., jvp. */
static void check_differences(check *k, const ot_tensor *out, rlx_session *plain)
{
    const size_t first = k->grads.n_out + 1;
    double total = 0, scale = 0;
    for (size_t i = 0; i < k->n_wrt; i++) {
        if (!check_operand(k, plain, i, &out[first + i], &total, &scale)) return;
    }
    if (!k->grads.logical[k->wrt[0]].elements) return;
    const double jvp = ot_element(&out[first + k->n_wrt], 0);
    const double near = k->wide ? 1e-5 + 1e-3 * fabs(total) : 2e-3 + 2e-2 * sqrt(scale);
    const double limit = near + (double)k->n_wrt * k->noise;
    if (!(fabs(jvp - total) <= limit)) {
        ot_fail(k->r, "rlx_jvp: expected %.9g, got %.9g, limit %.3g", total, jvp, limit);
    }
}

static void check_against_reference(check *k, const ot_tensor *got, const ot_tensor *want)
{
    for (size_t i = k->grads.n_out; i < k->grads.n_out + 1 + k->n_wrt; i++) {
        double most = 0;
        for (int64_t j = 0; j < want[i].elements; j++) {
            most = fmax(most, fabs(ot_element(&want[i], j)));
        }
        const bool is_loss = i == k->grads.n_out;
        for (int64_t j = 0; j < want[i].elements && !is_loss; j++) {
            const double a = ot_element(&want[i], j), b = ot_element(&got[i], j);
            if (fabs(a - b) <= 1e-5 + 1e-3 * most || a == b) continue;
            ot_fail(k->r,
                    "derivative by in%zu, element %lld: expected %.9g, got %.9g, largest %.3g",
                    k->wrt[i - k->grads.n_out - 1], (long long)j, a, b, most);
            break;
        }
    }
}

static bool run(check *k, rlx_device *d, const ot_built *b, rlx_session **s, ot_tensor *out)
{
    rlx_error err = {0};
    size_t n = 0;
    *s = ot_open_session(k->env, k->r, k->c, b, d, NULL, NULL);
    if (!*s) return false;
    if (!out) return true;
    const rlx_status status = ot_run_bound(k->c, &k->grads, *s, out, &n, &err);
    if (status) ot_report_status(k->env, k->r, "run", status, &err);
    return !status;
}

static bool all_finite(const ot_tensor *t)
{
    for (int64_t i = 0; i < t->elements; i++) {
        if (!isfinite(ot_element(t, i))) return false;
    }
    return true;
}

/* False: loss or derivatives are not finite for these operands. */
static bool run_checks(check *k)
{
    ot_tensor out[OT_MAX_OUT] = {0}, want[OT_MAX_OUT] = {0};
    rlx_session *a = NULL, *b = NULL;
    bool finite = true;
    if (run(k, k->env->device, &k->grads, &a, out)) {
        k->defined = all_finite(&out[k->grads.n_out]);
        for (size_t i = 0; i <= k->n_wrt; i++) finite &= all_finite(&out[k->grads.n_out + i]);
        if (finite && k->env->ref && run(k, k->env->ref, &k->grads, &b, want)) {
            check_against_reference(k, out, want);
        } else if (finite && !k->env->ref && run(k, k->env->device, &k->plain, &b, NULL)) {
            check_differences(k, out, b);
        }
    }
    rlx_session_destroy(a);
    rlx_session_destroy(b);
    for (size_t i = 0; i < OT_MAX_OUT; i++) {
        ot_tensor_finish(&out[i]);
        ot_tensor_finish(&want[i]);
    }
    return finite;
}

/* ---- The case -------------------------------------------------------------------------------- */

/* Floats become inputs without ties or extremes; with `wide` in f64. */
static void soften(ot_case *c, const ot_case *from, bool wide, const ot_fill *fill)
{
    *c = *from;
    for (size_t i = 0; i < c->n_in; i++) {
        ot_operand *o = &c->in[i];
        const ot_fill_kind kind = o->fill.kind;
        if (o->absent || !rlx_dtype_is_float(o->dtype) || rlx_dtype_is_packed(o->dtype)) continue;
        if (wide) o->dtype = RLX_F64;
        o->leaf = OT_INPUT;
        const bool mild = (kind == OT_RANGE || (kind == OT_NORMAL && o->fill.b >= 0.01)) &&
                          fmax(fabs(o->fill.a), fabs(o->fill.b)) <= 8 &&
                          strcmp(c->family, "elementwise") != 0;
        const bool number = kind == OT_VALUE && o->fill.a != 0 &&
                            (o->rank == 0 || strcmp(c->family, "elementwise") != 0);
        if (strcmp(c->op, "knn") == 0 || strcmp(c->op, "sort") == 0 ||
            strcmp(c->family, "order") == 0) {
            o->fill = (ot_fill){OT_DISTINCT, 0, 0};
        } else if (kind != OT_DEFAULT && !mild && !number && kind != OT_MASK) {
            o->fill = (ot_fill){OT_NORMAL, 0, 1};
        }
        if (fill && (kind != OT_VALUE && kind != OT_MASK)) o->fill = *fill;
    }
}

/* Differences tell nothing of results that are rounded to halves, nor of what large finite masks
 * absorb, nor of welch_peaks and the best of 256 experts, where a step in f32 changes what is
 * chosen. */
static bool tells_nothing(const ot_case *c)
{
    if (strstr(c->attrs, "f16") || strcmp(c->op, "region") == 0 ||
        strcmp(c->op, "welch_peaks") == 0 || strcmp(c->op, "stop_gradient") == 0 ||
        (strcmp(c->op, "group_limited_gate") == 0 && strstr(c->text, "256"))) {
        return true;
    }
    for (size_t i = 0; i < c->n_in; i++) {
        const ot_operand *o = &c->in[i];
        if (o->absent) continue;
        if (o->dtype == RLX_F16 || o->dtype == RLX_BF16 || is_large(&o->fill)) return true;
    }
    return false;
}

/* The bounds of the named dimensions; false when building or filling shows nothing to check. */
static bool try_case(check *k, const ot_case *from, bool wide, const ot_fill *fill, bool *finite)
{
    soften(k->c, from, wide, fill);
    k->wide = wide;
    *finite = true;
    for (size_t i = 0; i < k->c->n_dims; i++) k->grads.bound[i] = k->c->dims[i].bound;
    const bool fits = ot_fill_operands(k->c, &k->grads);
    int64_t elements = 0;
    for (size_t i = 0; fits && i < k->c->n_in; i++) elements += k->grads.logical[i].elements;
    const bool ready = fits && elements <= 40000 && build(k);
    if (ready) *finite = run_checks(k);
    ot_built_finish(k->c, &k->grads);
    rlx_graph_destroy(k->plain.graph);
    memset(&k->grads, 0, sizeof k->grads);
    memset(&k->plain, 0, sizeof k->plain);
    return ready;
}

void ot_grad_case(ot_env *env, ot_case *c, ot_report *r)
{
    static const ot_fill fills[] = {{OT_RANGE, 0.1, 0.9}, {OT_RANGE, 1.1, 3}};
    check *k = calloc(1, sizeof *k);
    ot_case *copy = malloc(sizeof *copy);
    bool finite = true, ready = false;
    if (k && copy && !c->error[0] && !tells_nothing(c)) {
        *k = (check){.env = env, .c = copy, .r = r};
        const bool wide = !env->ref && !strstr(c->attrs, "f32");
        ready = try_case(k, c, wide, NULL, &finite);
        if (!ready && wide && r->verdict == OT_PASS) ready = try_case(k, c, false, NULL, &finite);
        for (size_t i = 0; i < 2 && ready && !finite; i++) {
            ready = try_case(k, c, k->wide, &fills[i], &finite);
        }
    }
    if (ready && !finite && k->defined) ot_fail(r, "a derivative of a finite loss is not finite");
    if (r->verdict == OT_PASS && (!ready || !finite)) r->verdict = OT_SKIP;
    free(copy);
    free(k);
}
