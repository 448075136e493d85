/* SPDX-License-Identifier: MIT */
/* Operators whose result shapes depend on data: NonZero, Unique, NonMaxSuppression. They are
 * evaluated while importing, from values known by then; gathers of elements at the indices found
 * stay in the graph. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "import/onnx_build.h"
#include "ir/graph.h"

static void *new_array(rx_onnx_call *c, int64_t n, size_t each)
{
    void *p = rx_arena_array_zero(&c->b->arena, (uint64_t)n + 1, each);
    if (!p)
        rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    return p;
}

static rlx_value places(rx_onnx_call *c, const int64_t *v, int64_t n)
{
    return rx_onnx_i64s(c->g, v, n);
}

/* ---- Elements as numbers --------------------------------------------------------------------- */

typedef struct number {
    bool is_float;
    double f;
    int64_t i;
} number;

static number number_at(rlx_dtype t, const unsigned char *data, int64_t i)
{
    const unsigned char *p = data + i * rlx_dtype_block_bytes(t);
    number v = {rlx_dtype_is_float(t), 0, 0};
    float f = 0;
    if (t == RLX_F64)
        memcpy(&v.f, p, sizeof v.f);
    else if (v.is_float && rlx_to_float(t, p, &f, 1) == RLX_OK)
        v.f = (double)f;
    else if (!v.is_float)
        v.i = rx_dtype_load_int(t, p);
    return v;
}

/* Below 0, 0, above 0; NaN is above all numbers. */
static int compare(rlx_dtype t, number a, number b)
{
    if (a.is_float) {
        if (isnan(a.f) || isnan(b.f))
            return isnan(a.f) - isnan(b.f);
        return (a.f > b.f) - (a.f < b.f);
    }
    if (t == RLX_U64)
        return ((uint64_t)a.i > (uint64_t)b.i) - ((uint64_t)a.i < (uint64_t)b.i);
    return (a.i > b.i) - (a.i < b.i);
}

static bool is_zero(number v) { return v.is_float ? v.f == 0 : v.i == 0; }

/* ---- NonZero, Compress ----------------------------------------------------------------------- */

rlx_value rx_onnx_nonzero(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const rlx_dtype t = rlx_value_dtype(c->g, x);
    const unsigned char *data = rx_onnx_need(c, 0, "operand");
    const int64_t n = data ? rx_onnx_elements(c, x) : 0;
    int64_t count = 0, k = 0;
    if (!data)
        return RLX_NONE;
    for (int64_t i = 0; i < n; i++)
        count += !is_zero(number_at(t, data, i));
    const int64_t rank = s.rank ? s.rank : 1;
    int64_t *at = rx_arena_array_zero(&c->b->arena, (uint64_t)count + 1, 8 * (uint64_t)rank);
    if (!at)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        if (is_zero(number_at(t, data, i)))
            continue;
        int64_t rest = i;
        for (int d = s.rank; d--; rest /= s.dim[d])
            at[d * count + k] = rest % s.dim[d];
        k++;
    }
    const rlx_dim dims[2] = {rank, count};
    return rlx_constant(c->g, RLX_I64, 2, dims, at, (size_t)(rank * count) * sizeof *at);
}

rlx_value rx_onnx_compress(rx_onnx_call *c)
{
    rlx_value x = rx_onnx_in(c, 0);
    const unsigned char *keep = rx_onnx_need(c, 1, "condition");
    int64_t axis = 0, count = 0;
    if (!keep)
        return RLX_NONE;
    const int64_t n = rx_onnx_elements(c, rx_onnx_in(c, 1));
    if (rx_onnx_attr_find(c, "axis")) {
        axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", 0), rx_onnx_rank(c, x));
        if (axis < 0)
            return RLX_NONE;
    } else {
        const rlx_dim flat = -1;
        x = rlx_reshape(c->g, x, 1, &flat);
    }
    int64_t *at = new_array(c, n, sizeof *at);
    if (!at)
        return RLX_NONE;
    for (int64_t i = 0; i < n; i++)
        if (keep[i])
            at[count++] = i;
    return rlx_gather(c->g, x, places(c, at, count), axis);
}

/* ---- Unique ---------------------------------------------------------------------------------- */

/* A tensor as slices along an axis: [outer, n, inner]. */
typedef struct slices {
    const unsigned char *data;
    rlx_dtype dtype;
    int64_t outer, n, inner;
} slices;

static int compare_slices(const slices *s, int64_t a, int64_t b)
{
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i++) {
            const int64_t row = o * s->n;
            const int r = compare(s->dtype, number_at(s->dtype, s->data, (row + a) * s->inner + i),
                                  number_at(s->dtype, s->data, (row + b) * s->inner + i));
            if (r)
                return r;
        }
    return 0;
}

/* A stable merge sort of order[lo, hi). */
static void sort_slices(const slices *s, int64_t *order, int64_t *scratch, int64_t lo, int64_t hi)
{
    const int64_t mid = lo + (hi - lo) / 2;
    if (hi - lo < 2)
        return;
    sort_slices(s, order, scratch, lo, mid);
    sort_slices(s, order, scratch, mid, hi);
    for (int64_t i = lo, a = lo, b = mid; i < hi; i++) {
        const bool left = b == hi || (a < mid && compare_slices(s, order[a], order[b]) <= 0);
        scratch[i] = left ? order[a++] : order[b++];
    }
    memcpy(order + lo, scratch + lo, (size_t)(hi - lo) * sizeof *order);
}

/* Groups of equal slices in order of first occurrence, or sorted. */
typedef struct groups {
    int64_t n;
    int64_t *first, *inverse, *count;
} groups;

static bool find_groups(rx_onnx_call *c, const slices *s, bool sorted, groups *g)
{
    int64_t *order = new_array(c, s->n, 8), *scratch = new_array(c, s->n, 8);
    int64_t *rank = new_array(c, s->n, 8), n = 0;
    *g = (groups){0, new_array(c, s->n, 8), new_array(c, s->n, 8), new_array(c, s->n, 8)};
    if (!order || !scratch || !rank || !g->first || !g->inverse || !g->count)
        return false;
    for (int64_t i = 0; i < s->n; i++)
        order[i] = i;
    sort_slices(s, order, scratch, 0, s->n);
    for (int64_t i = 0; i < s->n; i++) { /* rank: the group in sorted order */
        n += i && compare_slices(s, order[i - 1], order[i]) ? 1 : 0;
        rank[order[i]] = n;
    }
    g->n = s->n ? n + 1 : 0;
    for (int64_t i = 0; i < g->n; i++)
        scratch[i] = sorted ? i : -1; /* sorted group to result */
    for (int64_t i = 0, next = 0; i < s->n; i++) {
        int64_t *to = &scratch[rank[i]];
        *to = *to < 0 ? next++ : *to;
        g->inverse[i] = *to;
        if (!g->count[*to]++)
            g->first[*to] = i;
    }
    return true;
}

rlx_value rx_onnx_unique(rx_onnx_call *c)
{
    rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    slices all = {rx_onnx_need(c, 0, "operand"), rlx_value_dtype(c->g, x), 1, 1, 1};
    int axis = 0;
    groups g;
    if (!all.data)
        return RLX_NONE;
    if (rx_onnx_attr_find(c, "axis")) {
        axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", 0), s.rank);
        if (axis < 0)
            return RLX_NONE;
        for (int i = 0; i < s.rank; i++)
            *(i < axis ? &all.outer : i == axis ? &all.n : &all.inner) *= s.dim[i];
    } else {
        const rlx_dim flat = -1;
        all.n = rx_onnx_elements(c, x);
        x = rlx_reshape(c->g, x, 1, &flat);
    }
    if (!find_groups(c, &all, rx_onnx_int(c, "sorted", 1), &g))
        return RLX_NONE;
    c->out[1] = places(c, g.first, g.n);
    c->out[2] = places(c, g.inverse, all.n);
    c->out[3] = places(c, g.count, g.n);
    return rlx_gather(c->g, x, c->out[1], axis);
}

/* ---- NonMaxSuppression ----------------------------------------------------------------------- */

typedef struct box {
    float x0, y0, x1, y1;
} box;

static box read_box(const float *b, bool center)
{
    if (center)
        return (box){b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
    return (box){fminf(b[1], b[3]), fminf(b[0], b[2]), fmaxf(b[1], b[3]), fmaxf(b[0], b[2])};
}

static bool overlap(box a, box b, float limit)
{
    const float w = fminf(a.x1, b.x1) - fmaxf(a.x0, b.x0);
    const float h = fminf(a.y1, b.y1) - fmaxf(a.y0, b.y0);
    const float areas = (a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0);
    return w > 0 && h > 0 && w * h / (areas - w * h) > limit;
}

typedef struct suppression {
    int64_t boxes, most;
    float iou, score;
    bool center, has_score;
    int64_t *order, *scratch;
} suppression;

/* The boxes kept of one class of one batch, best score first; returns their number. */
static int64_t suppress(const suppression *p, const float *boxes, const float *scores,
                        int64_t *kept)
{
    const slices by = {(const unsigned char *)scores, RLX_F32, 1, p->boxes, 1};
    int64_t n = 0, m = 0;
    /* Sorted ascending and read backwards, so that of equal scores the first box comes first. */
    for (int64_t i = p->boxes; i--;)
        if (!p->has_score || scores[i] > p->score)
            p->order[n++] = i;
    sort_slices(&by, p->order, p->scratch, 0, n);
    for (int64_t i = n; i-- && m < p->most;) {
        const box b = read_box(boxes + 4 * p->order[i], p->center);
        bool stays = true;
        for (int64_t k = 0; k < m && stays; k++)
            stays = !overlap(b, read_box(boxes + 4 * kept[k], p->center), p->iou);
        if (stays)
            kept[m++] = p->order[i];
    }
    return m;
}

static bool read_suppression(rx_onnx_call *c, int64_t boxes, suppression *p)
{
    double most = 0, iou = 0, score = 0;
    size_t n;
    *p = (suppression){.boxes = boxes, .center = rx_onnx_int(c, "center_point_box", 0),
                       .has_score = rx_onnx_in(c, 4).id != 0};
    if ((rx_onnx_in(c, 2).id && !rx_onnx_known_reals(c, 2, "max_output_boxes_per_class", &most, 1,
                                                     &n)) ||
        (rx_onnx_in(c, 3).id && !rx_onnx_known_reals(c, 3, "iou_threshold", &iou, 1, &n)) ||
        (p->has_score && !rx_onnx_known_reals(c, 4, "score_threshold", &score, 1, &n)))
        return false;
    p->most = most > (double)boxes ? boxes : most > 0 ? (int64_t)most : 0;
    p->iou = (float)iou;
    p->score = (float)score;
    p->order = new_array(c, boxes, 8);
    p->scratch = new_array(c, boxes, 8);
    return p->order && p->scratch;
}

/* boxes [B, N, 4], scores [B, classes, N] -> i64 [n, 3]: batch, class, box. */
rlx_value rx_onnx_nms(rx_onnx_call *c)
{
    const rlx_shape sb = rlx_value_shape(c->g, rx_onnx_in(c, 0));
    const rlx_shape ss = rlx_value_shape(c->g, rx_onnx_in(c, 1));
    suppression p;
    if (sb.rank != 3 || ss.rank != 3 || sb.dim[2] != 4 || ss.dim[0] != sb.dim[0] ||
        ss.dim[2] != sb.dim[1] || rlx_value_dtype(c->g, rx_onnx_in(c, 0)) != RLX_F32 ||
        rlx_value_dtype(c->g, rx_onnx_in(c, 1)) != RLX_F32)
        return rx_onnx_fail(c, RLX_INVALID, "expected boxes f32 [B, N, 4] and scores f32 [B, "
                            "classes, N]");
    const float *boxes = rx_onnx_need(c, 0, "boxes");
    const float *scores = boxes ? rx_onnx_need(c, 1, "scores") : NULL;
    if (!scores || !read_suppression(c, sb.dim[1], &p))
        return RLX_NONE;
    const int64_t classes = ss.dim[1], rows = sb.dim[0] * classes;
    int64_t *out = rx_arena_array_zero(&c->b->arena, (uint64_t)(rows * p.most) + 1, 24), n = 0;
    int64_t *kept = new_array(c, p.most, 8);
    if (!out || !kept)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    for (int64_t r = 0; r < rows; r++) {
        const int64_t m = suppress(&p, boxes + r / classes * p.boxes * 4, scores + r * p.boxes,
                                   kept);
        for (int64_t i = 0; i < m; i++, n++) {
            out[3 * n] = r / classes;
            out[3 * n + 1] = r % classes;
            out[3 * n + 2] = kept[i];
        }
    }
    const rlx_dim dims[2] = {n, 3};
    return rlx_constant(c->g, RLX_I64, 2, dims, out, (size_t)n * 24);
}

/* ---- BitCast --------------------------------------------------------------------------------- */

/* The bytes of the operand read as another type of the same width. */
rlx_value rx_onnx_bit_cast(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const rlx_dtype from = rlx_value_dtype(c->g, x);
    const rx_onnx_type *to = rx_onnx_type_of(rx_onnx_int(c, "to", 0));
    if (!to || to->dtype == RLX_NO_TYPE ||
        rlx_dtype_block_bytes(to->dtype) != rlx_dtype_block_bytes(from))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected a type of the width of %s",
                            rlx_dtype_name(from));
    if (to->dtype == from)
        return x;
    const void *data = rx_onnx_need(c, 0, "operand");
    if (!data)
        return RLX_NONE;
    return rlx_constant(c->g, to->dtype, s.rank, s.dim, data,
                        (size_t)(rx_onnx_elements(c, x) * rlx_dtype_block_bytes(from)));
}

/* ---- TfIdfVectorizer ------------------------------------------------------------------------- */

typedef struct grams {
    const int64_t *pool, *counts, *indexes;
    const float *weights;
    size_t n_pool, n_counts, n_indexes, n_weights;
    int64_t least, most, skips, size;
    bool tf, idf;
} grams;

static const rx_onnx_attr *list_attr(rx_onnx_call *c, const char *name, int32_t type)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    return a && a->type == type ? a : NULL;
}

static bool read_grams(rx_onnx_call *c, grams *g)
{
    const rx_onnx_attr *pool = list_attr(c, "pool_int64s", RX_ONNX_INTS);
    const rx_onnx_attr *counts = list_attr(c, "ngram_counts", RX_ONNX_INTS);
    const rx_onnx_attr *indexes = list_attr(c, "ngram_indexes", RX_ONNX_INTS);
    const rx_onnx_attr *weights = list_attr(c, "weights", RX_ONNX_FLOATS);
    if (!pool || !counts || !indexes || !indexes->n) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "expected pool_int64s, ngram_counts and ngram_indexes");
        return false;
    }
    *g = (grams){pool->ints, counts->ints, indexes->ints, weights ? weights->floats : NULL,
                 pool->n, counts->n, indexes->n, weights ? weights->n : 0,
                 rx_onnx_int(c, "min_gram_length", 1), rx_onnx_int(c, "max_gram_length", 1),
                 rx_onnx_int(c, "max_skip_count", 0), 0, !rx_onnx_is(c, "mode", "IDF", "TF"),
                 !rx_onnx_is(c, "mode", "TF", "TF")};
    for (size_t i = 0; i < g->n_indexes; i++) {
        if (g->indexes[i] < 0 || g->indexes[i] > INT32_MAX) {
            rx_onnx_fail(c, RLX_INVALID, "an ngram_index is %lld", (long long)g->indexes[i]);
            return false;
        }
        g->size = g->indexes[i] >= g->size ? g->indexes[i] + 1 : g->size;
    }
    return true;
}

/* Occurrences of the n-gram in the row with `skip` words between its words. */
static int64_t count_gram(const int64_t *row, int64_t n, const int64_t *gram, int64_t words,
                          int64_t skip)
{
    int64_t found = 0;
    for (int64_t i = 0; i + (words - 1) * (skip + 1) < n; i++) {
        int64_t k = 0;
        while (k < words && row[i + k * (skip + 1)] == gram[k])
            k++;
        found += k == words;
    }
    return found;
}

static void count_row(const grams *g, const int64_t *row, int64_t n, float *out)
{
    size_t id = 0;
    for (size_t i = 0; i < g->n_counts; i++) {
        const int64_t words = (int64_t)i + 1;
        const int64_t end = i + 1 < g->n_counts ? g->counts[i + 1] : (int64_t)g->n_pool;
        for (int64_t at = g->counts[i]; at >= 0 && at + words <= end &&
                                        end <= (int64_t)g->n_pool; at += words, id++) {
            if (words < g->least || words > g->most || id >= g->n_indexes)
                continue;
            int64_t found = 0;
            for (int64_t skip = 0; skip <= (words > 1 ? g->skips : 0) && skip < n; skip++)
                found += count_gram(row, n, g->pool + at, words, skip);
            out[g->indexes[id]] += (float)found;
        }
    }
}

rlx_value rx_onnx_tfidf(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const rlx_dtype t = rlx_value_dtype(c->g, x);
    grams g;
    if (!read_grams(c, &g))
        return RLX_NONE;
    if (s.rank < 1 || s.rank > 2 || rlx_dtype_is_float(t))
        return rx_onnx_fail(c, RLX_INVALID, "expected integers of one or two dimensions");
    const unsigned char *data = rx_onnx_need(c, 0, "operand");
    const int64_t n = s.dim[s.rank - 1], rows = s.rank == 2 ? s.dim[0] : 1;
    int64_t *row = data ? new_array(c, n, sizeof *row) : NULL;
    float *out = row ? rx_arena_array_zero(&c->b->arena, (uint64_t)rows + 1, 4 * (uint64_t)g.size)
                     : NULL;
    if (!out)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    for (int64_t r = 0; r < rows; r++) {
        float *y = out + r * g.size;
        for (int64_t i = 0; i < n; i++)
            row[i] = number_at(t, data, r * n + i).i;
        count_row(&g, row, n, y);
        for (int64_t i = 0; i < g.size; i++) {
            const float w = g.idf && (size_t)i < g.n_weights ? g.weights[i] : 1;
            y[i] = g.tf ? y[i] * w : y[i] > 0 ? w : 0;
        }
    }
    const rlx_dim dims[2] = {rows, g.size};
    return rlx_constant(c->g, RLX_F32, s.rank, s.rank == 2 ? dims : dims + 1, out,
                        (size_t)(rows * g.size) * sizeof *out);
}
