/* SPDX-License-Identifier: MIT */
/* Fourier transforms whose lines are longer than a binding, or whose kernels would need more
 * scratch memory than one.
 *
 * A line of n = a * b points is a matrix [a, b]: transforms of its columns, a product with the
 * roots exp(-2 pi i j k / n), transforms of its rows; the result is read by columns (Bailey's
 * four-step FFT). A length without such factors becomes a convolution of a power of two
 * (Bluestein). Real signals are converted to complex first. */
#include <math.h>
#include <string.h>

#include "gpu/split/part.h"

#define TWO_PI 6.28318530717958647692
#define MAX_POINTS ((int64_t)1 << 26)

/* One line: complex tensors are [points, 2]; lengths that fit are left to kernels. */
typedef struct line {
    const rx_steps *s;
    bool inverse;
    double scale; /* of the last step */
} line;

static rx_tensor complex_new(const rx_steps *s, int64_t rows, int64_t points)
{
    return rx_steps_new(s, RLX_F32, 3, (int64_t[]){rows, points, 2});
}

static rx_tensor reshape(rx_tensor x, int rank, const int64_t *dim)
{
    char *data = x.view.data;
    rx_view_set_dense(&x.view, x.view.dtype, rank, dim);
    x.view.data = data;
    return x;
}

static rx_tensor transposed(rx_tensor x)
{
    rx_view v = x.view;
    for (int i = 0; i < 2; i++) {
        x.view.dim[i] = v.dim[1 - i];
        x.view.stride[i] = v.stride[1 - i];
    }
    return x;
}

static void copy(const rx_steps *s, rx_tensor from, rx_tensor to)
{
    rx_steps_add(s, RX_OP_copy, NULL, (rx_tensor[]){from, to}, 1, 1);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* to = x * w * scale, all [rows, points, 2] or broadcast to it. */
static void multiply(const rx_steps *s, rx_tensor x, rx_tensor w, rx_tensor to, double scale)
{
    rx_tensor part[2];
    const rx_tensor factor = rx_steps_number(s, RLX_F32, scale);
    const rx_tensor re = rx_steps_narrow(&x, 2, 0, 1), im = rx_steps_narrow(&x, 2, 1, 1);
    const rx_tensor wre = rx_steps_narrow(&w, 2, 0, 1), wim = rx_steps_narrow(&w, 2, 1, 1);
    for (int i = 0; i < 2; i++) {
        const rx_instr instr[] = {
            {.op = RX_OP_mul, .arg = {0, (uint16_t)(i ? 3 : 2)}, .dtype = RLX_F32},
            {.op = RX_OP_mul, .arg = {1, (uint16_t)(i ? 2 : 3)}, .dtype = RLX_F32},
            {.op = i ? RX_OP_add : RX_OP_sub, .arg = {5, 6}, .dtype = RLX_F32},
            {.op = RX_OP_mul, .arg = {7, 4}, .dtype = RLX_F32}};
        part[i] = rx_steps_new(s, RLX_F32, 3, (int64_t[]){to.view.dim[0], to.view.dim[1], 1});
        rx_steps_region(s, instr, 4, (rx_tensor[]){re, im, wre, wim, factor, part[i]}, 5);
    }
    rx_steps_join(s, 2, part, 2, to);
}

/* exp(+-2 pi i * power(j, k) / n) as [rows, points, 2]; with `squares` exp(+-pi i k^2 / n). */
static rx_tensor make_roots(const line *l, const int64_t size[2], int64_t n, bool squares)
{
    const size_t count = (size_t)(size[0] * size[1]);
    const double sign = l->inverse ? 1 : -1;
    float *roots = rx_arena_array(l->s->b->arena, count * 2, sizeof *roots);
    if (!roots) {
        l->s->b->status = rx_fail_memory(l->s->b->err, "roots of unity", count * 8);
        return (rx_tensor){.ref = RX_REF_NONE};
    }
    for (int64_t j = 0; j < size[0]; j++)
        for (int64_t k = 0; k < size[1]; k++) {
            const uint64_t power = squares ? (uint64_t)(k * k) % (uint64_t)(2 * n)
                                           : (uint64_t)(j * k) % (uint64_t)n;
            const double angle = sign * TWO_PI * (double)power / (double)(squares ? 2 * n : n);
            float *to = roots + (j * size[1] + k) * 2;
            to[0] = (float)cos(angle);
            to[1] = (float)sin(angle);
        }
    return rx_steps_table(l->s, roots, 3, (int64_t[]){size[0], size[1], 2});
}

/* ---- Transforms of a line -------------------------------------------------------------------- */

/* Whether kernels take lines of n points: several passes have lines as scratch memory. */
static bool is_short(const line *l, int64_t n)
{
    return (uint64_t)n * 8 <= rx_part_room(l->s->part->call.caps, RLX_F32) / 4;
}

/* The factor of n nearest to its square root such that both factors are short; 0: there is none. */
static int64_t find_factor(const line *l, int64_t n)
{
    for (int64_t a = (int64_t)sqrt((double)n) + 1; a > 1; a--)
        if (n % a == 0 && is_short(l, n / a))
            return a;
    return 0;
}

/* The power of two of Bluestein's convolution for n points. */
static int64_t bluestein_points(int64_t n)
{
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    return m;
}

/* Whether n points reduce to short transforms. */
static bool is_possible(const line *l, int64_t n)
{
    return n >= 4 && n <= MAX_POINTS &&
           (find_factor(l, n) || find_factor(l, bluestein_points(n)));
}

/* Rows of short transforms. */
static void transform_rows(const line *l, rx_tensor x, rx_tensor y)
{
    const rlx_fft_desc d = {RLX_INIT(rlx_fft_desc), .axis = 1,
                            .norm = l->inverse ? RLX_FFT_FORWARD : RLX_FFT_BACKWARD};
    rx_steps_add(l->s, l->inverse ? RX_OP_ifft : RX_OP_fft, &d, (rx_tensor[]){x, y}, 1, 1);
}

/* x [1, n, 2] to y by four steps; n = a * b, j = b * j1 + j2, k = k1 + a * k2. */
static void four_steps(const line *l, int64_t a, rx_tensor x, rx_tensor y)
{
    const rx_steps *s = l->s;
    const int64_t n = x.view.dim[1], b = n / a;
    const int64_t rows[3] = {a, b, 2};
    const rx_tensor columns = complex_new(s, b, a), first = complex_new(s, b, a);
    const rx_tensor turned = complex_new(s, b, a);
    copy(s, transposed(reshape(x, 3, rows)), columns);   /* [j2, j1] */
    transform_rows(l, columns, first);                   /* [j2, k1] */
    multiply(s, first, make_roots(l, (int64_t[]){b, a}, n, false), turned, 1);
    const rx_tensor lines = complex_new(s, a, b), last = complex_new(s, a, b);
    copy(s, transposed(turned), lines);                  /* [k1, j2] */
    transform_rows(l, lines, last);                      /* [k1, k2] */
    const rx_tensor ordered = complex_new(s, b, a);
    copy(s, transposed(last), ordered);                  /* [k2, k1] */
    const rx_tensor flat = reshape(ordered, 3, (int64_t[]){1, n, 2});
    const rx_instr mul = {.op = RX_OP_mul, .arg = {0, 1}, .dtype = RLX_F32};
    rx_steps_region(s, &mul, 1, (rx_tensor[]){flat, rx_steps_number(s, RLX_F32, l->scale), y}, 2);
}

/* x [1, n, 2], zero-padded to [1, m, 2]. */
static rx_tensor extend(const rx_steps *s, rx_tensor x, int64_t m)
{
    const int64_t n = x.view.dim[1];
    rx_tensor y = complex_new(s, 1, m);
    rx_pad_attr d = {.before = {.n = 3}, .after = {.n = 3}};
    d.after.v[1] = m - n;
    rx_steps_add(s, RX_OP_pad, &d, (rx_tensor[]){x, y}, 1, 1);
    return y;
}

static void transform_line(const line *l, rx_tensor x, rx_tensor y);

/* y[k] = c[k] * sum_j (x[j] c[j]) conj(c[k - j]), c[j] = exp(-+pi i j^2 / n): a convolution. */
static void bluestein(const line *l, rx_tensor x, rx_tensor y)
{
    const rx_steps *s = l->s;
    const int64_t n = x.view.dim[1], m = bluestein_points(n);
    const line other = {s, !l->inverse, 1};
    const line forward = {s, false, 1}, back = {s, true, l->scale / (double)m};
    const rx_tensor chirp = make_roots(l, (int64_t[]){1, n}, n, true);
    const rx_tensor turned = make_roots(&other, (int64_t[]){1, n}, n, true);
    if (s->b->status != RLX_OK)
        return;
    const rx_tensor product = complex_new(s, 1, n);
    multiply(s, x, chirp, product, 1);
    const rx_tensor signal = extend(s, product, m), filter = complex_new(s, 1, m);
    rx_tensor mirror = rx_steps_narrow(&turned, 1, 1, n - 1), tail = complex_new(s, 1, n - 1);
    mirror.view.data += (n - 2) * mirror.view.stride[1] * 4;
    mirror.view.stride[1] = -mirror.view.stride[1];
    copy(s, mirror, tail);
    const rx_tensor gap = complex_new(s, 1, m - 2 * n + 1);
    const rx_instr zero = {.op = RX_OP_mul, .arg = {0, 0}, .dtype = RLX_F32};
    rx_steps_region(s, &zero, 1, (rx_tensor[]){rx_steps_number(s, RLX_F32, 0), gap}, 1);
    rx_steps_join(s, 1, (rx_tensor[]){turned, gap, tail}, 3, filter);
    const rx_tensor spectrum = complex_new(s, 1, m), response = complex_new(s, 1, m);
    const rx_tensor both = complex_new(s, 1, m), result = complex_new(s, 1, m);
    transform_line(&forward, signal, spectrum);
    transform_line(&forward, filter, response);
    multiply(s, spectrum, response, both, 1);
    transform_line(&back, both, result);
    multiply(s, rx_steps_narrow(&result, 1, 0, n), chirp, y, 1);
}

static void transform_line(const line *l, rx_tensor x, rx_tensor y)
{
    const int64_t a = find_factor(l, x.view.dim[1]);
    if (l->s->b->status != RLX_OK)
        return;
    if (a)
        four_steps(l, a, x, y);
    else
        bluestein(l, x, y);
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* The operand as a complex line of n points, truncated or zero-padded. */
static rx_tensor load_line(const rx_steps *s, rx_tensor x, bool real, int64_t n)
{
    const int64_t points = rx_view_elements(&x.view) / (real ? 1 : 2);
    x = reshape(x, 3, (int64_t[]){1, points, real ? 1 : 2});
    x = rx_steps_narrow(&x, 1, 0, n);
    const int64_t kept = x.view.dim[1];
    rx_pad_attr d = {.before = {.n = 3}, .after = {.n = 3, .v = {0, n - kept, real}}};
    rx_tensor wide = x;
    if (x.view.dtype != RLX_F32) {
        const rx_cast_attr cast = {RLX_F32};
        wide = rx_steps_new(s, RLX_F32, 3, x.view.dim);
        rx_steps_add(s, RX_OP_cast, &cast, (rx_tensor[]){x, wide}, 1, 1);
    }
    if (!real && kept == n)
        return wide;
    rx_tensor y = complex_new(s, 1, n);
    rx_steps_add(s, RX_OP_pad, &d, (rx_tensor[]){wide, y}, 1, 1);
    return y;
}

/* All n bins of a real signal from the half that is given, by symmetry. */
static rx_tensor load_half(const rx_steps *s, rx_tensor x, int64_t n)
{
    rx_tensor half = load_line(s, x, false, n / 2 + 1), all = complex_new(s, 1, n);
    const int64_t rest = n - (n / 2 + 1);
    if (rest < 1)
        return half;
    const float signs[2] = {1, -1};
    rx_tensor mirror = rx_steps_narrow(&half, 1, 1, rest), tail = complex_new(s, 1, rest);
    mirror.view.data += (rest - 1) * mirror.view.stride[1] * 4;
    mirror.view.stride[1] = -mirror.view.stride[1];
    const rx_instr mul = {.op = RX_OP_mul, .arg = {0, 1}, .dtype = RLX_F32};
    const rx_tensor sign = rx_steps_table(s, signs, 1, (int64_t[]){2});
    rx_steps_region(s, &mul, 1, (rx_tensor[]){mirror, sign, tail}, 2);
    rx_steps_join(s, 1, (rx_tensor[]){half, tail}, 2, all);
    return all;
}

/* The first elements of the transform as the result. */
static void store_line(const rx_steps *s, rx_tensor from, rx_tensor y)
{
    const int64_t last = from.view.dim[2], points = rx_view_elements(&y.view) / last;
    y = reshape(y, 3, (int64_t[]){1, points, last});
    from = rx_steps_narrow(&from, 1, 0, points);
    const rx_cast_attr cast = {y.view.dtype};
    if (y.view.dtype == RLX_F32)
        copy(s, from, y);
    else
        rx_steps_add(s, RX_OP_cast, &cast, (rx_tensor[]){from, y}, 1, 1);
}

bool rx_split_fft(const rx_steps *s)
{
    const rlx_fft_desc *d = s->part->call.attr;
    const rx_op op = s->part->call.op;
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1);
    const int axis = (int)d->axis;
    const bool inverse = op == RX_OP_ifft || op == RX_OP_irfft;
    const int64_t n = op == RX_OP_rfft ? (d->n ? d->n : x.view.dim[axis]) : y.view.dim[axis];
    const int64_t width = op == RX_OP_irfft ? 1 : 2;
    line l = {s, inverse, 1};
    if (rx_view_elements(&y.view) != y.view.dim[axis] * width || !is_possible(&l, n))
        return false;
    if (d->norm == RLX_FFT_ORTHO)
        l.scale = 1 / sqrt((double)n);
    else if ((d->norm == RLX_FFT_FORWARD) != inverse)
        l.scale = 1 / (double)n;
    rx_tensor in = op == RX_OP_irfft ? load_half(s, x, n) : load_line(s, x, op == RX_OP_rfft, n);
    rx_tensor out = complex_new(s, 1, n);
    transform_line(&l, in, out);
    store_line(s, op == RX_OP_irfft ? rx_steps_narrow(&out, 2, 0, 1) : out, y);
    return true;
}
