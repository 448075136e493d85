/* SPDX-License-Identifier: MIT */
/* The liar: a device that falsifies results, to see that the measure notices. Each result with at
 * least eight different elements is falsified in several ways, as little as the way allows, and the
 * comparison must find every one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/optest.h"

#define MIN_DISTINCT 8

/* Cases whose results may pass lies, with the reason. */
static const struct {
    const char *text;
    const char *reason;
} exceptions[] = {
    {"layer_norm(f32[4,65]:fill(0.25), f32[65])",
     "rows without variance: the least change of an operand explains any result"},
    {"sin(f32[129]:huge)",
     "a unit in the last place of the operand is more than a period: 1 % of the result is less "
     "than what rounding of the operand explains, only results that are far off are seen"},
    {"attention(bf16[2,1,1,8], bf16[2,1,301,8], bf16[2,1,301,8])",
     "sixteen sums of 301 values that nearly cancel: weights rounded to bf16 explain a factor of "
     "1.1 % between them and the reference"},
};

/* ---- Items: elements, or blocks of a packed type -------------------------------------------- */

static size_t item_bytes(const ot_tensor *t)
{
    return (size_t)rlx_dtype_block_bytes(t->dtype);
}

static int64_t count_items(const ot_tensor *t)
{
    return t->elements / rlx_dtype_block_size(t->dtype);
}

static char *item_at(const ot_tensor *t, int64_t i)
{
    return (char *)t->data + (size_t)i * item_bytes(t);
}

static bool same_items(const ot_tensor *t, int64_t i, int64_t j)
{
    return memcmp(item_at(t, i), item_at(t, j), item_bytes(t)) == 0;
}

/* Subnormal numbers may be flushed: they are not worth a lie. */
static bool is_normal(const ot_tensor *t, int64_t i)
{
    if (!rlx_dtype_is_float(t->dtype) || rlx_dtype_is_packed(t->dtype)) return true;
    return fabs(ot_element(t, i)) >= (t->dtype == RLX_F16 ? 0x1p-20 : 0x1p-120);
}

static bool is_normal_and_finite(const ot_tensor *t, int64_t i)
{
    return is_normal(t, i) && isfinite(ot_element(t, i));
}

/* At least eight different ones that count; looks at few of a tensor that has them at once. */
static bool has_distinct(const ot_tensor *t, bool counts(const ot_tensor *, int64_t))
{
    int64_t seen[MIN_DISTINCT];
    int n = 0;
    for (int64_t i = 0; i < count_items(t) && n < MIN_DISTINCT; i++) {
        if (!counts(t, i)) continue;
        int k = 0;
        while (k < n && !same_items(t, seen[k], i)) k++;
        if (k == n) seen[n++] = i;
    }
    return n == MIN_DISTINCT;
}

/* ---- Choosing the typical item -------------------------------------------------------------- */

typedef struct weighed {
    double weight;
    int64_t at;
} weighed;

static int by_weight(const void *a, const void *b)
{
    const weighed *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* The item of median weight among those that have one above 0; -1 when none has. */
static int64_t typical_item(const ot_tensor *t, double weigh(const ot_tensor *, int64_t))
{
    const int64_t n = count_items(t);
    weighed *list = malloc((size_t)(n + 1) * sizeof *list);
    size_t used = 0;
    for (int64_t i = 0; list && i < n; i++) {
        const double weight = weigh(t, i);
        if (weight > 0 && isfinite(weight)) list[used++] = (weighed){weight, i};
    }
    if (used) qsort(list, used, sizeof *list, by_weight);
    const int64_t at = used ? list[used / 2].at : -1;
    free(list);
    return at;
}

static double weigh_value(const ot_tensor *t, int64_t i)
{
    if (!is_normal(t, i)) return 0;
    if (!rlx_dtype_is_packed(t->dtype)) return fabs(ot_element(t, i));
    for (size_t k = 0; k < item_bytes(t); k++) {
        if (item_at(t, i)[k]) return 1;
    }
    return 0;
}

/* How much an item differs from the next one. */
static double weigh_step(const ot_tensor *t, int64_t i)
{
    if (i + 1 >= count_items(t) || same_items(t, i, i + 1)) return 0;
    if (!is_normal(t, i) && !is_normal(t, i + 1)) return 0;
    if (rlx_dtype_is_packed(t->dtype)) return 1;
    return fabs(ot_element(t, i) - ot_element(t, i + 1));
}

/* ---- The lies: false when one does not apply ------------------------------------------------ */

static bool zero_one(ot_tensor *t)
{
    const int64_t at = typical_item(t, weigh_value);
    if (at < 0) return false;
    memset(item_at(t, at), 0, item_bytes(t));
    return true;
}

static bool swap_two(ot_tensor *t)
{
    const int64_t at = typical_item(t, weigh_step);
    if (at < 0) return false;
    char *a = item_at(t, at), *b = item_at(t, at + 1);
    for (size_t k = 0; k < item_bytes(t); k++) {
        const char x = a[k];
        a[k] = b[k];
        b[k] = x;
    }
    return true;
}

/* Infinities stay what they are. */
static bool scale_all(ot_tensor *t)
{
    if (!rlx_dtype_is_float(t->dtype) || rlx_dtype_is_packed(t->dtype)) return false;
    if (!has_distinct(t, is_normal_and_finite)) return false;
    for (int64_t i = 0; i < t->elements; i++) {
        const float x = (float)(ot_element(t, i) * 1.01);
        rlx_from_float(t->dtype, &x, item_at(t, i), 1);
    }
    return true;
}

static bool shift_all(ot_tensor *t)
{
    const size_t rest = t->bytes - item_bytes(t);
    char last[256];
    if (item_bytes(t) > sizeof last) return false;
    memcpy(last, item_at(t, count_items(t) - 1), item_bytes(t));
    memmove(item_at(t, 1), t->data, rest);
    memcpy(t->data, last, item_bytes(t));
    return true;
}

static bool repeat_half(ot_tensor *t)
{
    const int64_t half = count_items(t) / 2;
    memcpy(item_at(t, half), t->data, (size_t)half * item_bytes(t));
    return true;
}

static bool make_lie(ot_lie lie, ot_tensor *t, const ot_tensor *other)
{
    switch (lie) {
    case OT_LIE_ZERO: return zero_one(t);
    case OT_LIE_SWAP: return swap_two(t);
    case OT_LIE_SCALE: return scale_all(t);
    case OT_LIE_SHIFT: return shift_all(t);
    case OT_LIE_REPEAT: return repeat_half(t);
    default:
        if (!other || other->bytes != t->bytes) return false;
        memcpy(t->data, other->data, t->bytes);
        return true;
    }
}

/* ---- Telling them --------------------------------------------------------------------------- */

static const char *const lie_names[OT_N_LIES] = {"zero", "swap", "scale", "shift", "repeat",
                                                 "stale"};

const char *ot_lie_name(ot_lie lie)
{
    return lie_names[lie];
}

static bool is_excepted(const char *text)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++) {
        if (strcmp(exceptions[i].text, text) == 0) return true;
    }
    return false;
}

static void tell_lie(const ot_case *c, ot_lie lie, const ot_tensor *truth, const ot_measure *m,
                     const ot_tensor *other, ot_report *r)
{
    ot_tensor t;
    if (!ot_tensor_init(&t, truth->dtype, truth->rank, truth->dims)) return;
    memcpy(t.data, truth->data, truth->bytes);
    if (make_lie(lie, &t, other) && memcmp(t.data, truth->data, truth->bytes) != 0) {
        const ot_difference d = ot_compare(truth, &t, m);
        if (d.n_bad || d.biased) {
            r->lies_caught[lie]++;
        } else if (is_excepted(c->text)) {
            r->lies_excepted[lie]++;
        } else {
            r->lies_passed[lie]++;
            ot_fail(r, "the lie \"%s\" passes: worst error %.3g limits, slope %.6g, limit %.3g",
                    lie_names[lie], d.worst, d.slope, m->bias);
        }
    }
    ot_tensor_finish(&t);
}

void ot_tell_lies(const ot_case *c, const ot_expectation *e, const ot_expectation *other,
                  ot_report *r)
{
    for (size_t k = 0; k < e->n_out; k++) {
        if (!has_distinct(&e->out[k], is_normal)) continue;
        for (ot_lie lie = 0; lie < OT_N_LIES; lie++) {
            const bool has_other = other && k < other->n_out;
            tell_lie(c, lie, &e->out[k], &e->measure[k], has_other ? &other->out[k] : NULL, r);
        }
    }
}
