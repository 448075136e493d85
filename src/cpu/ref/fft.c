/* SPDX-License-Identifier: MIT */
/* Reference kernels of the Fourier transforms: fft, ifft, rfft, irfft, stft. All in double, any
 * length: Cooley-Tukey over the prime factors up to MAX_RADIX, and Bluestein's convolution for the
 * product of the larger ones. */
#include <math.h>

#include "cpu/ref/ref.h"

#define MAX_RADIX 61 /* largest prime factor that is summed directly */
#define PI 3.14159265358979323846

typedef struct complex_pair {
    double re, im;
} complex_pair;

static complex_pair cmul(complex_pair a, complex_pair b)
{
    return (complex_pair){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static complex_pair cconj(complex_pair a)
{
    return (complex_pair){a.re, -a.im};
}

/* exp(-2 pi i j / n) for 0 <= j < n. */
static complex_pair root_of_unity(int64_t j, int64_t n)
{
    /* Reduces the angle to the first octant, where sin and cos are most accurate. */
    const int64_t eighth = 8 * j / n;
    const int64_t quarter = (eighth + 1) / 2;        /* nearest multiple of a quarter turn */
    const double a = 2 * PI * ((double)(4 * j - quarter * n) / (double)(4 * n));
    const double c = cos(a), s = sin(a);
    switch (quarter & 3) {
    case 0: return (complex_pair){c, -s};
    case 1: return (complex_pair){-s, -c};
    case 2: return (complex_pair){-c, s};
    default: return (complex_pair){s, c};
    }
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/* A forward transform of n points. */
typedef struct fft_plan {
    int64_t n;
    complex_pair *roots; /* [n] */
    int64_t rest;        /* n without its prime factors up to MAX_RADIX; above 1: Bluestein */
    int64_t m;           /* power of two, at least 2 * rest - 1 */
    complex_pair *chirp; /* [rest]: exp(-pi i j^2 / rest) */
    complex_pair *kernel;/* [m]: transform of the conjugate chirp, divided by m */
    complex_pair *m_roots, *a, *b; /* [m]: roots of m, working memory */
} fft_plan;

static void transform(const fft_plan *p, const complex_pair *x, int64_t stride, complex_pair *y,
                      int64_t n);

static int64_t smallest_factor(int64_t n)
{
    for (int64_t f = 2; f <= MAX_RADIX; f++)
        if (n % f == 0)
            return f;
    return n;
}

/* The plan of a power of two that shares the tables of Bluestein's convolution. */
static fft_plan convolution_plan(const fft_plan *p)
{
    return (fft_plan){.n = p->m, .roots = p->m_roots, .rest = 1};
}

static complex_pair *new_pairs(const rx_call *c, int64_t n)
{
    return rx_call_array(c, n, sizeof(complex_pair));
}

/* Tables for lengths whose large prime factors multiply to p->rest. j^2 is taken modulo 2 * rest,
 * by differences, so that the angles stay exact. */
static rlx_status make_chirp(const rx_call *c, fft_plan *p)
{
    const int64_t n = p->rest;
    for (p->m = 1; p->m < 2 * n - 1;)
        p->m *= 2;
    p->chirp = new_pairs(c, n);
    p->kernel = new_pairs(c, p->m);
    p->m_roots = new_pairs(c, p->m);
    p->a = new_pairs(c, p->m);
    p->b = new_pairs(c, p->m);
    if (!p->chirp || !p->kernel || !p->m_roots || !p->a || !p->b)
        return RLX_NO_MEMORY;
    for (int64_t j = 0; j < p->m; j++)
        p->m_roots[j] = root_of_unity(j, p->m);
    for (int64_t j = 0, square = 0; j < n; square = (square + 2 * j + 1) % (2 * n), j++)
        p->chirp[j] = root_of_unity(square, 2 * n);

    const double scale = 1 / (double)p->m;
    memset(p->a, 0, (size_t)p->m * sizeof *p->a);
    for (int64_t j = 0; j < n; j++) {
        const complex_pair v = {p->chirp[j].re * scale, -p->chirp[j].im * scale};
        p->a[j] = v;
        if (j)
            p->a[p->m - j] = v;
    }
    const fft_plan q = convolution_plan(p);
    transform(&q, p->a, 1, p->kernel, p->m);
    return RLX_OK;
}

/* All tables are in the scratch memory of the call. */
static rlx_status make_plan(const rx_call *c, int64_t n, fft_plan *p)
{
    *p = (fft_plan){.n = n, .rest = n};
    while (p->rest > 1 && smallest_factor(p->rest) <= MAX_RADIX)
        p->rest /= smallest_factor(p->rest);
    p->roots = new_pairs(c, n);
    if (!p->roots)
        return RLX_NO_MEMORY;
    for (int64_t j = 0; j < n; j++)
        p->roots[j] = root_of_unity(j, n);
    return p->rest > 1 ? make_chirp(c, p) : RLX_OK;
}

/* ---- Transform ------------------------------------------------------------------------------- */

/* y = DFT(x) of p->rest points as a convolution with a chirp: jk = (j^2 + k^2 - (k - j)^2) / 2. */
static void bluestein(const fft_plan *p, const complex_pair *x, int64_t stride, complex_pair *y)
{
    const fft_plan q = convolution_plan(p);
    memset(p->a, 0, (size_t)p->m * sizeof *p->a);
    for (int64_t j = 0; j < p->rest; j++)
        p->a[j] = cmul(x[j * stride], p->chirp[j]);
    transform(&q, p->a, 1, p->b, p->m);
    /* The inverse transform is the conjugate of the forward one of the conjugate. */
    for (int64_t j = 0; j < p->m; j++)
        p->b[j] = cconj(cmul(p->b[j], p->kernel[j]));
    transform(&q, p->b, 1, p->a, p->m);
    for (int64_t j = 0; j < p->rest; j++)
        y[j] = cmul(cconj(p->a[j]), p->chirp[j]);
}

/* Butterflies: combines `radix` consecutive transforms of m points in y. */
static void join(const fft_plan *p, complex_pair *y, int64_t radix, int64_t m)
{
    const int64_t n = radix * m, step = p->n / n;
    complex_pair t[MAX_RADIX];
    for (int64_t k = 0; k < m; k++) {
        for (int64_t r = 0; r < radix; r++)
            t[r] = cmul(y[r * m + k], p->roots[r * k * step]);
        for (int64_t q = 0; q < radix; q++) {
            complex_pair sum = t[0];
            for (int64_t r = 1; r < radix; r++) {
                const complex_pair v = cmul(t[r], p->roots[q * r % radix * m * step]);
                sum.re += v.re;
                sum.im += v.im;
            }
            y[q * m + k] = sum;
        }
    }
}

/* y = DFT of the n elements of x that are `stride` apart; n divides p->n. */
static void transform(const fft_plan *p, const complex_pair *x, int64_t stride, complex_pair *y,
                      int64_t n)
{
    if (n == 1) {
        y[0] = x[0];
        return;
    }
    if (n == p->rest) {
        bluestein(p, x, stride, y);
        return;
    }
    const int64_t radix = smallest_factor(n), m = n / radix;
    for (int64_t r = 0; r < radix; r++)
        transform(p, x + r * stride, stride * radix, y + r * m, m);
    join(p, y, radix, m);
}

/* ---- Lines of tensors ------------------------------------------------------------------------ */

/* One transform of length n along an axis, over all lines. */
typedef struct line_job {
    const rx_view *x, *y;
    int axis;
    int64_t n;
    bool inverse;
    double scale;
    fft_plan plan;
    complex_pair *in, *out; /* [n] */
} line_job;

static rlx_status start_job(const rx_call *c, line_job *job, int64_t n, bool inverse)
{
    const rlx_fft_desc *d = c->attr;
    *job = (line_job){.x = &c->in[0], .y = &c->out[0], .axis = (int)d->axis, .n = n,
                      .inverse = inverse, .scale = 1};
    if (d->norm == RLX_FFT_ORTHO)
        job->scale = 1 / sqrt((double)n);
    else if ((d->norm == RLX_FFT_FORWARD) != inverse)
        job->scale = 1 / (double)n;
    RLX_TRY(make_plan(c, n, &job->plan));
    job->in = new_pairs(c, n);
    job->out = new_pairs(c, n);
    return job->in && job->out ? RLX_OK : RLX_NO_MEMORY;
}

/* Reads n points of a line, padded with zeros; x is complex or real. */
static void load_line(const line_job *job, int64_t base, bool complex)
{
    const rx_view *x = job->x;
    const int64_t size = x->dim[job->axis], im = complex ? x->stride[x->rank - 1] : 0;
    for (int64_t i = 0; i < job->n; i++) {
        const int64_t o = base + i * x->stride[job->axis];
        job->in[i] = (complex_pair){0, 0};
        if (i >= size)
            continue;
        job->in[i].re = rx_load(x, o);
        if (complex)
            job->in[i].im = rx_load(x, o + im);
    }
}

/* Reads the n / 2 + 1 bins of a real signal and mirrors them, conjugated. */
static void load_half_line(const line_job *job, int64_t base)
{
    const int64_t n = job->n;
    load_line(job, base, true);
    job->in[0].im = 0;
    if (n % 2 == 0)
        job->in[n / 2].im = 0;
    for (int64_t i = 1; i < (n + 1) / 2; i++)
        job->in[n - i] = cconj(job->in[i]);
}

static bool is_finite(const complex_pair *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i].re) || !isfinite(x[i].im))
            return false;
    return true;
}

static void fill_nan(complex_pair *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (complex_pair){NAN, NAN};
}

/* Clears rounding errors in the imaginary parts of bins that are real for real signals. */
static void clean_real_bins(complex_pair *x, int64_t n)
{
    x[0].im -= x[0].im; /* NaN stays */
    if (n % 2 == 0)
        x[n / 2].im -= x[n / 2].im;
}

/* A line with an infinity or NaN gives NaN everywhere. */
static void run_line(const line_job *job)
{
    if (!is_finite(job->in, job->n)) {
        fill_nan(job->out, job->n);
        return;
    }
    for (int64_t i = 0; job->inverse && i < job->n; i++)
        job->in[i] = cconj(job->in[i]);
    transform(&job->plan, job->in, 1, job->out, job->n);
    for (int64_t i = 0; i < job->n; i++) {
        job->out[i].re *= job->scale;
        job->out[i].im *= job->inverse ? -job->scale : job->scale;
    }
}

static void store_line(const line_job *job, int64_t base, bool complex)
{
    const rx_view *y = job->y;
    for (int64_t i = 0; i < y->dim[job->axis]; i++) {
        const int64_t o = base + i * y->stride[job->axis];
        rx_store(y, o, job->out[i].re);
        if (complex)
            rx_store(y, o + 1, job->out[i].im); /* the last axis of a dense result */
    }
}

/* Sizes of the axes over which lines are counted: those of x but `axis` and a complex last one. */
static bool line_sizes(const rx_view *x, int axis, int rank, int64_t *dim)
{
    bool any = true;
    for (int i = 0; i < rank; i++) {
        dim[i] = i == axis ? 1 : x->dim[i];
        any = any && dim[i] > 0;
    }
    return any;
}

static int64_t axis_offset(const rx_view *v, const int64_t *at, int rank)
{
    int64_t o = 0;
    for (int i = 0; i < rank; i++)
        o += at[i] * v->stride[i];
    return o;
}

rlx_status rx_ref_fft(const rx_call *c)
{
    const rlx_fft_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    int64_t dim[RLX_MAX_RANK], at[RLX_MAX_RANK] = {0};
    if (!rx_view_elements(y) || !line_sizes(x, (int)d->axis, x->rank - 1, dim))
        return RLX_OK;
    line_job job;
    RLX_TRY(start_job(c, &job, y->dim[d->axis], c->op == RX_OP_ifft));
    do {
        load_line(&job, axis_offset(x, at, x->rank - 1), true);
        run_line(&job);
        store_line(&job, axis_offset(y, at, x->rank - 1), true);
    } while (rx_next(at, dim, x->rank - 1));
    return RLX_OK;
}

/* A signal of no points (a named axis bound to 0) has one bin, 0. */
rlx_status rx_ref_rfft(const rx_call *c)
{
    const rlx_fft_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int64_t n = d->n ? d->n : x->dim[d->axis];
    int64_t dim[RLX_MAX_RANK], at[RLX_MAX_RANK] = {0};
    if (!line_sizes(x, (int)d->axis, x->rank, dim))
        return RLX_OK;
    line_job job;
    RLX_TRY(start_job(c, &job, n > 0 ? n : 1, false));
    do {
        load_line(&job, axis_offset(x, at, x->rank), false);
        run_line(&job);
        clean_real_bins(job.out, job.n);
        store_line(&job, axis_offset(y, at, x->rank), true);
    } while (rx_next(at, dim, x->rank));
    return RLX_OK;
}

rlx_status rx_ref_irfft(const rx_call *c)
{
    const rlx_fft_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    int64_t dim[RLX_MAX_RANK], at[RLX_MAX_RANK] = {0};
    if (!rx_view_elements(y) || !line_sizes(x, (int)d->axis, y->rank, dim))
        return RLX_OK;
    line_job job;
    RLX_TRY(start_job(c, &job, y->dim[d->axis], true));
    do {
        load_half_line(&job, axis_offset(x, at, y->rank));
        run_line(&job);
        store_line(&job, axis_offset(y, at, y->rank), false);
    } while (rx_next(at, dim, y->rank));
    return RLX_OK;
}

/* ---- stft ------------------------------------------------------------------------------------ */

/* One frame: n samples of x from offset `from`, times the window, to `bins` bins of y from `to`. */
static void run_frame(const rx_call *c, const fft_plan *plan, complex_pair *work, int64_t from,
                      int64_t to)
{
    const rx_view *x = &c->in[0], *window = rx_call_in(c, 1), *y = &c->out[0];
    const int64_t n = plan->n, bins = y->dim[y->rank - 2];
    for (int64_t i = 0; i < n; i++) {
        const double w = window ? rx_load(window, i * window->stride[0]) : 1;
        work[i] = (complex_pair){rx_load(x, from + i * x->stride[x->rank - 1]) * w, 0};
    }
    if (is_finite(work, n))
        transform(plan, work, 1, work + n, n);
    else
        fill_nan(work + n, n);
    clean_real_bins(work + n, n);
    for (int64_t i = 0; i < bins; i++) {
        rx_store(y, to + 2 * i, work[n + i].re);
        rx_store(y, to + 2 * i + 1, work[n + i].im);
    }
}

rlx_status rx_ref_stft(const rx_call *c)
{
    const rlx_stft_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int last = x->rank - 1; /* samples of x, frames of y */
    if (!rx_view_elements(y))
        return RLX_OK;
    fft_plan plan;
    RLX_TRY(make_plan(c, d->n, &plan));
    complex_pair *work = new_pairs(c, 2 * d->n);
    if (!work)
        return RLX_NO_MEMORY;
    int64_t at[RLX_MAX_RANK] = {0};
    do {
        int64_t from = at[last] * d->hop * x->stride[last];
        for (int i = 0; i < last; i++)
            from += at[i] * x->stride[i];
        run_frame(c, &plan, work, from, axis_offset(y, at, last + 1));
    } while (rx_next(at, y->dim, last + 1));
    return RLX_OK;
}
