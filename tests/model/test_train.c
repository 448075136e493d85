/* SPDX-License-Identifier: MIT */
/* Training: losses and optimisers against their formulas in double precision, averaging over runs,
 * clipping, schedules, and states in files: a run that goes on from a file gives the same bits. */
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/temp_file.h"

#define N 6

static rlx_device *device;

static const double target[N] = {0.5, -1, 2, 0.25, -0.75, 1.5};
static const double start[N] = {1, 1, 1, -1, 0.5, 0};
static const double slope[N] = {1, 2, 0.5, -1, 3, -0.25};

/* The loss of w under x: mean((w * slope - target)^2) * x, whose derivative depends on the run. */
static double derivative(const double *w, int i, double x)
{
    return 2 * (w[i] * slope[i] - target[i]) * slope[i] / N * x;
}

static rlx_session *open_session(const rlx_optimizer_desc *d)
{
    rlx_graph *g = rlx_graph_create("train");
    const rlx_dim n = N;
    rlx_error err = {0};
    rlx_session *s = NULL;
    const rlx_value w = rlx_state(g, "w", RLX_F64, 1, &n), x = rlx_input(g, "x", RLX_F64, 0, NULL);
    const rlx_value k = rlx_constant(g, RLX_F64, 1, &n, slope, sizeof slope);
    const rlx_value t = rlx_constant(g, RLX_F64, 1, &n, target, sizeof target);
    const rlx_value loss = rlx_mul(g, rlx_mse_loss(g, rlx_mul(g, w, k), t), x);
    rlx_value norm;
    rlx_output(g, "loss", loss);
    rlx_optimizer(g, loss, &w, 1, d, &norm);
    rlx_output(g, "norm", norm);
    CHECK_OK(rlx_session_create(device, g, NULL, &s, &err), &err);
    CHECK_OK(rlx_session_state_write(s, "w", 0, start, sizeof start, &err), &err);
    rlx_graph_destroy(g);
    return s;
}

static void step(rlx_session *s, double x, double w[N], float *norm)
{
    double loss;
    float unused;
    rlx_error err = {0};
    const rlx_const_tensor in = {"x", &x, sizeof x};
    const rlx_tensor out[] = {{"loss", &loss, sizeof loss},
                              {"norm", norm ? norm : &unused, sizeof unused}};
    CHECK_OK(rlx_run(s, &in, 1, out, 2, &err), &err);
    CHECK_OK(rlx_session_state_read(s, "w", 0, w, N * sizeof *w, &err), &err);
}

/* ---- Optimisers ------------------------------------------------------------------------------ */

typedef struct model {
    double w[N], m[N], v[N];
    int updates;
} model;

static double rate(const rlx_optimizer_desc *d, int k)
{
    const double warm = d->warmup ? fmin((double)k / (double)d->warmup, 1) : 1;
    if (d->schedule == RLX_SCHEDULE_CONSTANT) return d->lr * warm;
    double done = fmin(fmax((double)(k - d->warmup) / (double)(d->steps - d->warmup), 0), 1);
    if (d->schedule == RLX_SCHEDULE_COSINE) done = 0.5 * (1 - cos(M_PI * done));
    return d->lr * warm * (1 + (d->lr_end - 1) * done);
}

static double direction(const rlx_optimizer_desc *d, model *p, int i, double g)
{
    const bool lion = d->kind == RLX_LION;
    const double b1 = d->beta1 != 0 ? d->beta1 : 0.9;
    const double b2 = d->beta2 != 0 ? d->beta2 : lion ? 0.99 : 0.999;
    if (lion) {
        const double c = b1 * p->m[i] + (1 - b1) * g;
        p->m[i] = b2 * p->m[i] + (1 - b2) * g;
        return (c > 0) - (c < 0);
    }
    if (d->kind == RLX_SGD) {
        p->m[i] = d->momentum * p->m[i] + g;
        return d->nesterov ? g + d->momentum * p->m[i] : p->m[i];
    }
    p->m[i] = b1 * p->m[i] + (1 - b1) * g;
    p->v[i] = b2 * p->v[i] + (1 - b2) * g * g;
    const double m = p->m[i] / (1 - pow(b1, p->updates)), v = p->v[i] / (1 - pow(b2, p->updates));
    return m / (sqrt(v) + 1e-8);
}

static void update(const rlx_optimizer_desc *d, model *p, const double *grads)
{
    const bool apart = d->kind == RLX_ADAMW || d->kind == RLX_LION;
    double norm = 0;
    for (int i = 0; i < N; i++) norm += grads[i] * grads[i];
    norm = sqrt(norm);
    p->updates++;
    for (int i = 0; i < N; i++) {
        double g = grads[i];
        if (d->clip_norm > 0) g *= fmin(1, d->clip_norm / (norm + 1e-6));
        if (!apart) g += d->weight_decay * p->w[i];
        double move = direction(d, p, i, g);
        if (apart) move += d->weight_decay * p->w[i];
        p->w[i] -= rate(d, p->updates) * move;
    }
}

/* The rate and what counts are f32 in the graph. */
static void check_optimizer(rlx_optimizer_desc d, const char *name)
{
    rlx_session *s = open_session(&d);
    model p = {.updates = 0};
    double w[N], sums[N] = {0}, worst = 0;
    const int each = d.accumulate ? (int)d.accumulate : 1;
    for (int i = 0; i < N; i++) p.w[i] = start[i];
    for (int run = 1; run <= 12; run++) {
        const double x = 1 + 0.3 * (run % 3);
        for (int i = 0; i < N; i++) sums[i] += derivative(p.w, i, x) / each;
        step(s, x, w, NULL);
        if (run % each == 0) {
            update(&d, &p, sums);
            for (int i = 0; i < N; i++) sums[i] = 0;
        }
        for (int i = 0; i < N; i++) worst = fmax(worst, fabs(w[i] - p.w[i]));
    }
    if (!check_that(worst < 2e-6, name, __FILE__, __LINE__)) printf("    off by %g\n", worst);
    rlx_session_destroy(s);
}

static void test_optimizers(void)
{
    const rlx_optimizer_desc plain = {RLX_INIT(rlx_optimizer_desc), .lr = 0.05};
    rlx_optimizer_desc d = plain;
    check_optimizer(d, "adamw");
    d.weight_decay = 0.1;
    d.schedule = RLX_SCHEDULE_COSINE;
    d.warmup = 3;
    d.steps = 10;
    d.lr_end = 0.1;
    check_optimizer(d, "adamw, decay, cosine");
    d.kind = RLX_ADAM;
    d.schedule = RLX_SCHEDULE_LINEAR;
    check_optimizer(d, "adam, decay, line");
    d = plain;
    d.kind = RLX_SGD;
    check_optimizer(d, "sgd");
    d.momentum = 0.9;
    d.clip_norm = 0.5;
    check_optimizer(d, "sgd, momentum, clipped");
    d.nesterov = true;
    d.accumulate = 3;
    check_optimizer(d, "sgd, nesterov, accumulated");
    d = plain;
    d.kind = RLX_LION;
    d.weight_decay = 0.1;
    check_optimizer(d, "lion");
    d.accumulate = 4;
    d.kind = RLX_ADAMW;
    d.clip_norm = 0.2;
    check_optimizer(d, "adamw, accumulated, clipped");
}

static void test_norm(void)
{
    rlx_session *s = open_session(&(rlx_optimizer_desc){RLX_INIT(rlx_optimizer_desc)});
    double w[N], want = 0;
    float norm = 0;
    for (int i = 0; i < N; i++) want += pow(derivative(start, i, 2), 2);
    step(s, 2, w, &norm);
    CHECK(fabs(norm - sqrt(want)) < 1e-6 * sqrt(want));
    rlx_session_destroy(s);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void test_files(void)
{
    const rlx_optimizer_desc d = {RLX_INIT(rlx_optimizer_desc), .accumulate = 2, .warmup = 3};
    rlx_session *whole = open_session(&d), *again = open_session(&d);
    rlx_error err = {0};
    char path[1024];
    double a[N], b[N];
    snprintf(path, sizeof path, "%s/state.gguf", temp_folder());
    for (int i = 0; i < 5; i++) step(whole, 1 + i, a, NULL);
    CHECK_OK(rlx_train_save(whole, path, &err), &err);
    CHECK_OK(rlx_train_load(again, path, &err), &err);
    for (int i = 0; i < 5; i++) {
        step(whole, 1 + i, a, NULL);
        step(again, 1 + i, b, NULL);
        CHECK(memcmp(a, b, sizeof a) == 0);
    }
    rlx_session *other = open_session(&(rlx_optimizer_desc){RLX_INIT(rlx_optimizer_desc),
                                                            .kind = RLX_SGD});
    CHECK_OK(rlx_train_save(other, path, &err), &err);
    CHECK_FAILS(rlx_train_load(again, path, &err), RLX_NOT_FOUND, &err, "the state 'w.sum'");
    CHECK(rlx_train_save(NULL, path, NULL) == RLX_INVALID);
    rlx_session_destroy(whole);
    rlx_session_destroy(again);
    rlx_session_destroy(other);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static const double logits[2][3] = {{1, 2, -1}, {0.5, -0.5, 3}};
static const double probs[2][3] = {{0.2, 0.8, 0}, {0.1, 0.3, 0.6}};

typedef rlx_value build_fn(rlx_graph *g, rlx_value x, rlx_value p, rlx_value labels);

static void check_loss(const char *name, build_fn *build, double want)
{
    static const int32_t label[2] = {2, -100};
    rlx_graph *g = rlx_graph_create("loss");
    const rlx_dim dims[] = {2, 3};
    rlx_error err = {0};
    rlx_session *s = NULL;
    double got = NAN;
    const rlx_value x = rlx_constant(g, RLX_F64, 2, dims, logits, sizeof logits);
    const rlx_value p = rlx_constant(g, RLX_F64, 2, dims, probs, sizeof probs);
    const rlx_value l = rlx_constant(g, RLX_I32, 1, dims, label, sizeof label);
    const rlx_tensor out = {"loss", &got, sizeof got};
    rlx_output(g, "loss", build(g, x, p, l));
    CHECK_OK(rlx_session_create(device, g, NULL, &s, &err), &err);
    CHECK_OK(rlx_run(s, NULL, 0, &out, 1, &err), &err);
    if (!check_that(fabs(got - want) < 1e-12, name, __FILE__, __LINE__)) {
        printf("    expected %.15g, got %.15g\n", want, got);
    }
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
}

static rlx_value ce(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    (void)p;
    return rlx_cross_entropy(g, x, l, NULL);
}
static rlx_value smooth(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    (void)p;
    return rlx_cross_entropy(g, x, l, &(rlx_cross_entropy_desc){RLX_INIT(rlx_cross_entropy_desc),
                                                                .smoothing = 0.1, .z_loss = 0.01});
}
static rlx_value mse(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    (void)l;
    return rlx_mse_loss(g, x, p);
}
static rlx_value l1(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    (void)l;
    return rlx_l1_loss(g, x, p);
}
static rlx_value huber(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    (void)l;
    return rlx_huber_loss(g, x, p, 0.9);
}
static rlx_value bce(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    (void)l;
    return rlx_bce_loss(g, x, p);
}
static rlx_value kl(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    (void)l;
    return rlx_kl_loss(g, rlx_log_softmax(g, x, -1), p);
}

/* Against both rows of p and of x, of which the first of x belongs to itself. */
static rlx_value contrastive(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    return rlx_contrastive_loss(g, x, rlx_concat(g, (rlx_value[]){p, x}, 2, 0), l, 0.5);
}
/* Row i belongs to row i. */
static rlx_value diagonal(rlx_graph *g, rlx_value x, rlx_value p, rlx_value l)
{
    (void)l;
    return rlx_contrastive_loss(g, x, p, RLX_NONE, 0.5);
}

static double cosine(const double a[3], const double b[3])
{
    double ab = 0, aa = 1e-12, bb = 1e-12;
    for (int i = 0; i < 3; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return ab / sqrt(aa) / sqrt(bb);
}

static void test_contrastive(void)
{
    const double *const rows[] = {probs[0], probs[1], logits[0], logits[1]};
    double e[2][4];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            e[i][j] = exp(cosine(logits[i], rows[j]) / 0.5);
    check_loss("contrastive", contrastive,
               log(e[0][0] + e[0][1] + e[0][2] + e[0][3]) - log(e[0][2]));
    check_loss("contrastive, row by row", diagonal,
               (log(e[0][0] + e[0][1]) - log(e[0][0]) + log(e[1][0] + e[1][1]) - log(e[1][1])) / 2);
}

static void test_losses(void)
{
    double se = 0, ae = 0, hu = 0, bc = 0, k = 0;
    const double z = log(exp(1) + exp(2) + exp(-1));
    for (int i = 0; i < 6; i++) {
        const double x = logits[i / 3][i % 3], p = probs[i / 3][i % 3], e = fabs(x - p);
        const double s = 1 / (1 + exp(-x)), *row = logits[i / 3];
        se += e * e / 6;
        ae += e / 6;
        hu += (e <= 0.9 ? e * e / 2 : 0.9 * (e - 0.45)) / 6;
        bc -= (p * log(s) + (1 - p) * log(1 - s)) / 6;
        const double q = x - log(exp(row[0]) + exp(row[1]) + exp(row[2]));
        k += p > 0 ? p * (log(p) - q) / 2 : 0;
    }
    check_loss("cross entropy", ce, z + 1);
    check_loss("smoothed", smooth, 0.9 * (z + 1) + 0.1 * (z - 2.0 / 3) + 0.01 * z * z);
    check_loss("mse", mse, se);
    check_loss("l1", l1, ae);
    check_loss("huber", huber, hu);
    check_loss("bce", bce, bc);
    check_loss("kl", kl, k);
    test_contrastive();
}

static void test_refusals(void)
{
    rlx_graph *g = rlx_graph_create("g");
    rlx_error err = {0};
    const rlx_dim one = 1;
    const rlx_value x = rlx_input(g, "x", RLX_F32, 1, &one);
    rlx_optimizer(g, x, &x, 1, NULL, NULL);
    CHECK_FAILS(rlx_graph_status(g, &err), RLX_INVALID, &err, "params[0] expected as a state");
    rlx_graph_destroy(g);
    g = rlx_graph_create("g");
    const rlx_value w = rlx_state(g, "w", RLX_F32, 1, &one);
    rlx_optimizer(g, w, &w, 1, &(rlx_optimizer_desc){RLX_INIT(rlx_optimizer_desc), .lr = -1}, NULL);
    CHECK_FAILS(rlx_graph_status(g, &err), RLX_INVALID, &err, "lr=-1");
    rlx_graph_destroy(g);
}

int main(void)
{
    rlx_error err = {0};
    CHECK_OK(rlx_device_open("cpu", NULL, &device, &err), &err);
    test_losses();
    test_optimizers();
    test_norm();
    test_files();
    test_refusals();
    rlx_device_close(device);
    return check_done();
}
