/* SPDX-License-Identifier: MIT */
/* fft, ifft, rfft and irfft on GPUs, any axis and any length. fft.comp is one pass: a length whose
 * prime factors are small takes as many passes as its factors need to fit into shared memory, which
 * is one for all but long lines; other lengths become a convolution of a power of two
 * (Bluestein). */
#include <math.h>

#include "gpu/select/walk.h"

#define MAX_PRIME 61   /* the largest radix of a stage of fft.comp */
#define MAX_PASSES 16
#define MAX_STAGES 8   /* per pass */
#define CIRCLE_BYTES 512
#define MIN_ACROSS 8   /* columns of a pass over part of a line: 64 contiguous bytes */
#define MAX_LENGTH ((int64_t)1 << 28)

/* ---- Lengths --------------------------------------------------------------------------------- */

static int64_t smallest_factor(int64_t n)
{
    for (int64_t f = 2; f <= MAX_PRIME; f++)
        if (n % f == 0)
            return f;
    return n;
}

static bool is_smooth(int64_t n)
{
    while (n > 1) {
        int64_t f = smallest_factor(n);
        if (f > MAX_PRIME)
            return false;
        n /= f;
    }
    return true;
}

/* Factors a smooth n into radices of at most `limit`, large primes first. Returns how many. */
static int cut_length(int64_t n, int64_t limit, int64_t radix[MAX_PASSES])
{
    int passes = 1;
    radix[0] = 1;
    for (int64_t f = MAX_PRIME; f > 1; f--) {
        for (; n % f == 0; n /= f) {
            int i = 0;
            while (i < passes && radix[i] * f > limit)
                i++;
            if (i == MAX_PASSES)
                return MAX_PASSES + 1;
            if (i == passes)
                radix[passes++] = 1;
            radix[i] *= f;
        }
    }
    return passes;
}

/* The radices of the passes, as equal as the minimum number of passes allows. `room` is in
 * points. */
static int plan_passes(int64_t n, int64_t room, int64_t radix[MAX_PASSES])
{
    if ((n | 1) <= room) {
        radix[0] = n;
        return 1;
    }
    int64_t limit = room / MIN_ACROSS - 1;
    int passes = cut_length(n, limit, radix);
    int64_t even = (int64_t)pow((double)n, 1.0 / passes);
    while (even < limit && cut_length(n, even, radix) > passes)
        even++;
    return cut_length(n, even < limit ? even : limit, radix);
}

/* The stages of a radix, one per byte; returns how many. */
static uint32_t plan_stages(int64_t radix, uint32_t packed[2])
{
    uint32_t n = 0, twos = 0;
    uint8_t stage[2 * MAX_STAGES] = {0};
    for (; radix % 2 == 0; radix /= 2)
        twos++;
    while (twos) {
        uint32_t log = twos == 1 ? 1 : twos == 2 || twos == 4 ? 2 : 3;
        stage[n++] = (uint8_t)(1u << log);
        twos -= log;
    }
    for (; radix > 1 && n < MAX_STAGES; radix /= stage[n - 1])
        stage[n++] = (uint8_t)smallest_factor(radix);
    for (int i = 0; i < 2; i++)
        packed[i] = stage[4 * i] | (uint32_t)stage[4 * i + 1] << 8 |
                    (uint32_t)stage[4 * i + 2] << 16 | (uint32_t)stage[4 * i + 3] << 24;
    return n;
}

/* ---- Transforms ------------------------------------------------------------------------------ */

/* Shared by all dispatches of a call. */
typedef struct spectral {
    const rx_gpu_call *call;
    int64_t points, length; /* of the signal; of the transforms: longer with Bluestein */
    uint64_t lines;
    int64_t x_size, x_inner, y_size, y_inner;
    bool inverse, bluestein;
    float scale;
    int64_t room;           /* points in one half of shared memory */
    int64_t radix[MAX_PASSES];
    int n_passes;
    rx_gpu_ref work[2];     /* between passes */
    rx_gpu_ref spectrum;    /* of the chirp */
} spectral;

/* One transform of all lines: its source and destination. */
typedef struct transform {
    uint32_t from, to;
    rx_gpu_ref in, out;
    uint64_t lines;
} transform;

/* Columns per workgroup. */
static int64_t count_columns(const spectral *s, int64_t radix, uint64_t columns)
{
    int64_t most = s->room / (radix | 1), want = 1024 / radix;
    int64_t least = radix < s->length ? MIN_ACROSS : 1;
    want = want < least ? least : want;
    want = want < most ? want : most;
    return (uint64_t)want < columns ? want : (int64_t)columns;
}

static uint32_t choose_local(const rx_gpu_caps *caps, int64_t points)
{
    uint32_t most = caps->max_invocations < 256 ? 128 : 256, local = 32;
    while (local < most && local * 8 < points)
        local *= 2;
    return local;
}

static void add_pass(rx_gpu_build *b, const spectral *s, const transform *t, int pass, int64_t done)
{
    const rx_gpu_caps *caps = s->call->caps;
    const rx_view *x = &s->call->in[0], *y = &s->call->out[0];
    int64_t radix = s->radix[pass], pitch = radix | 1;
    uint64_t columns = t->lines * (uint64_t)(s->length / radix);
    int64_t group = count_columns(s, radix, columns);
    uint64_t n_groups = (columns + (uint64_t)group - 1) / (uint64_t)group;
    bool whole = radix == s->length;
    bool load_across = whole ? t->from != RX_CODE_FROM_SCRATCH && s->x_inner > 1 : true;
    const bool to_memory = t->to == RX_CODE_TO_SCRATCH || t->to == RX_CODE_TO_PRODUCT;
    bool store_across = whole ? !to_memory && s->y_inner > 1 : done >= group;
    uint32_t stages[2], n_stages = plan_stages(radix, stages);
    const rx_args_fft a = {
        .bind = {.x = t->in, .y = t->out,
                 .spectrum = t->to == RX_CODE_TO_PRODUCT ? s->spectrum : RX_REF_NONE},
        .spec = {.FROM = t->from, .TO = t->to, .TX = x->dtype, .TY = y->dtype,
                 .INVERSE = s->inverse, .BLUESTEIN = s->bluestein, .COLUMNS = (uint32_t)group,
                 .HALF = (uint32_t)(group * pitch), .LOAD_ACROSS = load_across,
                 .STORE_ACROSS = store_across},
        .push = {.n_columns = (uint32_t)columns, .n_groups = (uint32_t)n_groups,
                 .length = (uint32_t)s->length, .radix = (uint32_t)radix, .done = (uint32_t)done,
                 .pitch = (uint32_t)pitch, .points = (uint32_t)s->points,
                 .x_at = rx_gpu_offset(x), .x_size = (uint32_t)s->x_size,
                 .x_inner = (uint32_t)s->x_inner, .y_size = (uint32_t)s->y_size,
                 .y_inner = (uint32_t)s->y_inner, .n_stages = n_stages, .stages_0 = stages[0],
                 .stages_1 = stages[1], .scale = s->scale},
    };
    rx_gpu_grid(rx_add_fft(b, RX_K_fft, choose_local(caps, group * radix), &a), caps, n_groups);
}

static void add_transform(rx_gpu_build *b, const spectral *s, const transform *t)
{
    int64_t done = 1;
    for (int i = 0; i < s->n_passes; i++) {
        bool is_first = i == 0, is_last = i == s->n_passes - 1;
        transform pass = {.from = is_first ? t->from : RX_CODE_FROM_SCRATCH,
                          .to = is_last ? t->to : RX_CODE_TO_SCRATCH,
                          .in = is_first ? t->in : s->work[(i + 1) % 2],
                          .out = is_last ? t->out : s->work[i % 2], .lines = t->lines};
        add_pass(b, s, &pass, i, done);
        done *= s->radix[i];
    }
}

/* The transform as a convolution with a chirp (Bluestein); `t` has source and destination. */
static void add_bluestein(rx_gpu_build *b, spectral *s, const transform *t)
{
    uint64_t bytes = (uint64_t)s->length * 8;
    s->spectrum = rx_gpu_scratch(b, bytes);
    rx_gpu_ref product = rx_gpu_scratch(b, bytes * t->lines);
    transform chirp = {RX_CODE_FROM_CHIRP, RX_CODE_TO_SCRATCH, RX_REF_NONE, s->spectrum, 1};
    transform there = {t->from, RX_CODE_TO_PRODUCT, t->in, product, t->lines};
    transform back = {RX_CODE_FROM_SCRATCH, t->to, product, t->out, t->lines};
    add_transform(b, s, &chirp);
    add_transform(b, s, &there);
    add_transform(b, s, &back);
}

/* exp(-2 pi i j / n), j < n. */
static rx_gpu_ref add_roots(rx_gpu_build *b, int64_t n)
{
    float *roots = rx_arena_array(b->arena, (uint64_t)n * 2, sizeof *roots);
    for (int64_t j = 0; roots && j < n; j++) {
        double angle = -2 * 3.14159265358979323846 * (double)j / (double)n;
        roots[2 * j] = (float)cos(angle);
        roots[2 * j + 1] = (float)sin(angle);
    }
    if (!roots)
        b->status = rx_fail_memory(b->err, "roots of unity", (size_t)n * 2 * sizeof *roots);
    return roots ? rx_gpu_add_table(b, roots, (uint64_t)n * 8) : RX_REF_NONE;
}

#define MIN_POW2 64
#define MAX_POW2 8192
#define POW2_LOCAL 64 /* invocations that share lines; fastest on an H200, as are 8 or 16 points */

/* Dense lines of f32 whose length is a power of two, by fft_pow2.comp; false for others. */
static bool add_pow2(rx_gpu_build *b, const spectral *s, uint32_t from)
{
    const rx_gpu_caps *caps = s->call->caps;
    const rx_view *x = &s->call->in[0], *y = &s->call->out[0];
    const uint32_t bins = from == RX_CODE_FROM_REAL   ? RX_CODE_POW2_TO_BINS
                          : from == RX_CODE_FROM_HALF ? RX_CODE_POW2_FROM_BINS
                                                      : 0;
    int64_t length = bins ? s->points / 2 : s->points;
    int64_t points = length <= 512 ? 8 : 16, team = length / points;
    if (s->points % 2 || length < MIN_POW2 || length > MAX_POW2 || (length & (length - 1)))
        return false;
    if (x->dtype != RLX_F32 || y->dtype != RLX_F32 || s->x_inner != 1 ||
        s->x_size != (bins == RX_CODE_POW2_FROM_BINS ? length + 1 : s->points) ||
        rx_gpu_offset(x) % 2 || rx_gpu_offset(y) % 2)
        return false;
    uint32_t lines = team < POW2_LOCAL ? (uint32_t)(POW2_LOCAL / team) : 1, log = 0;
    if (team > caps->max_invocations ||
        (uint64_t)(length + team) * lines * 4 > caps->max_shared_bytes)
        return false;
    while ((int64_t)1 << log < length)
        log++;
    rx_gpu_ref roots = add_roots(b, bins ? 2 * length : length);
    const rx_args_fft_pow2 a = {
        .bind = {.x = RX_REF_IN(0), .y = RX_REF_OUT(0), .roots = roots},
        .spec = {.LOG = log, .LINES = lines, .BINS = bins, .INVERSE = s->inverse},
        .push = {.n_lines = (uint32_t)s->lines, .x_at = rx_gpu_offset(x) / 2,
                 .y_at = rx_gpu_offset(y) / 2, .scale = s->scale},
    };
    rx_gpu_dispatch *d = rx_add_fft_pow2(b, points == 8 ? RX_K_fft_pow2_8 : RX_K_fft_pow2_16,
                                         lines * (uint32_t)team, &a);
    rx_gpu_grid(d, caps, (s->lines + lines - 1) / lines);
    return true;
}

/* Transforms of s->points points, read as `from` and written as `to`. */
static rlx_status add_spectral(rx_gpu_build *b, spectral *s, uint32_t from, uint32_t to)
{
    const rx_gpu_call *c = s->call;
    const rx_view *y = &c->out[0];
    if (add_pow2(b, s, from))
        return b->status;
    s->room = ((int64_t)c->caps->max_shared_bytes - CIRCLE_BYTES) / 16;
    s->bluestein = !is_smooth(s->points);
    s->length = s->points;
    if (from == RX_CODE_FROM_REAL && s->points % 2 == 0 && !s->bluestein &&
        s->points / 2 < s->room) {
        s->length /= 2;
        from = RX_CODE_FROM_PAIRS;
        to = RX_CODE_TO_BINS;
    }
    if (s->bluestein)
        for (s->length = 1; s->length < 2 * s->points - 1;)
            s->length *= 2;
    if (s->length > MAX_LENGTH || s->lines * (uint64_t)s->length > UINT32_MAX / 2)
        return rx_gpu_fail(b, c, "more than 2^31 points");
    s->n_passes = plan_passes(s->length, s->room, s->radix);
    for (int i = 0; i < 2 && i < s->n_passes - 1; i++)
        s->work[i] = rx_gpu_scratch(b, s->lines * (uint64_t)s->length * 8);
    bool narrow = to == RX_CODE_TO_REAL && y->dtype != RLX_F32;
    uint64_t n = (uint64_t)rx_view_elements(y);
    transform t = {from, to, RX_REF_IN(0), narrow ? rx_gpu_scratch(b, n * 4) : RX_REF_OUT(0),
                   s->lines};
    if (s->bluestein)
        add_bluestein(b, s, &t);
    else
        add_transform(b, s, &t);
    if (!narrow)
        return RLX_OK;
    const rx_args_narrow_f32 a = {
        .bind = {.x = t.out, .y = RX_REF_OUT(0)},
        .spec = {.TY = y->dtype},
        .push = {.n = (uint32_t)((n + 1) / 2), .total = (uint32_t)n},
    };
    rx_flat_grid(rx_add_narrow_f32(b, RX_K_narrow_f32, rx_flat_local(c->caps), &a), c->caps,
                 (n + 1) / 2);
    return RLX_OK;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* The lines of a call whose tensors have `rank` axes without that of real and imaginary parts. */
static spectral make_spectral(const rx_gpu_call *c, int rank, int64_t points, bool inverse)
{
    const rlx_fft_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    spectral s = {.call = c, .points = points, .lines = 1, .x_size = x->dim[d->axis],
                  .x_inner = 1, .y_size = y->dim[d->axis], .inverse = inverse};
    for (int i = 0; i < rank; i++) {
        if (i != d->axis)
            s.lines *= (uint64_t)x->dim[i];
        if (i > d->axis)
            s.x_inner *= x->dim[i];
    }
    s.y_inner = s.x_inner;
    double scale = 1;
    if (d->norm == RLX_FFT_ORTHO)
        scale = 1 / sqrt((double)points);
    else if ((d->norm == RLX_FFT_FORWARD) != inverse)
        scale = 1 / (double)points;
    s.scale = (float)scale;
    return s;
}

static rlx_status lower_complex(rx_gpu_build *b, const rx_gpu_call *c, bool inverse)
{
    const rlx_fft_desc *d = c->attr;
    const rx_view *y = &c->out[0];
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    spectral s = make_spectral(c, y->rank - 1, y->dim[d->axis], inverse);
    return add_spectral(b, &s, RX_CODE_FROM_COMPLEX, RX_CODE_TO_COMPLEX);
}

rlx_status rx_gpu_lower_fft(rx_gpu_build *b, const rx_gpu_call *c)
{
    return lower_complex(b, c, false);
}

rlx_status rx_gpu_lower_ifft(rx_gpu_build *b, const rx_gpu_call *c)
{
    return lower_complex(b, c, true);
}

/* A signal of no points (a named axis bound to 0) has one bin, 0. */
rlx_status rx_gpu_lower_rfft(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_fft_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    int64_t n = d->n ? d->n : x->dim[d->axis];
    if (rx_view_elements(&c->out[0]) == 0)
        return RLX_OK;
    spectral s = make_spectral(c, x->rank, n > 0 ? n : 1, false);
    return add_spectral(b, &s, RX_CODE_FROM_REAL, RX_CODE_TO_HALF);
}

rlx_status rx_gpu_lower_irfft(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_fft_desc *d = c->attr;
    const rx_view *y = &c->out[0];
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    spectral s = make_spectral(c, y->rank, y->dim[d->axis], true);
    return add_spectral(b, &s, RX_CODE_FROM_HALF, RX_CODE_TO_REAL);
}
