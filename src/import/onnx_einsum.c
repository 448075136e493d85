/* SPDX-License-Identifier: MIT */
/* Einsum: operands are contracted from left to right, each pair as one matmul over the labels that
 * nothing later uses. Det, by expansion in minors. */
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

/* Labels are letters; the axes of "..." are '0' to '7', aligned at the last. */
typedef struct term {
    char labels[RLX_MAX_RANK + 1];
    int n;
} term;

#define MAX_TERMS 32

typedef struct equation {
    term in[MAX_TERMS], out;
    int n_in;
} equation;

static bool bad_equation(rx_onnx_call *c, const char *why)
{
    rx_onnx_fail(c, RLX_INVALID, "its equation %s", why);
    return false;
}

static bool add_label(rx_onnx_call *c, term *t, char label)
{
    if (t->n == RLX_MAX_RANK)
        return bad_equation(c, "has a term of more than 8 axes");
    t->labels[t->n++] = label;
    t->labels[t->n] = 0;
    return true;
}

/* Reads a term up to `stop` characters; `dots` is the number of axes of "...". */
static bool read_term(rx_onnx_call *c, const char *text, size_t n, int dots, term *t)
{
    *t = (term){.n = 0};
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ')
            continue;
        if (n - i >= 3 && !memcmp(text + i, "...", 3)) {
            for (int k = dots; k-- > 0;)
                if (!add_label(c, t, (char)('0' + k)))
                    return false;
            i += 2;
            continue;
        }
        const bool letter = (text[i] >= 'a' && text[i] <= 'z') ||
                            (text[i] >= 'A' && text[i] <= 'Z');
        if (!letter)
            return bad_equation(c, "has a character that is no letter");
        if (!add_label(c, t, text[i]))
            return false;
    }
    return true;
}

static int count_letters(const char *text, size_t n)
{
    int k = 0;
    for (size_t i = 0; i < n; i++)
        k += text[i] != ' ' && text[i] != '.';
    return k;
}

static int count_label(const equation *e, char label)
{
    int n = 0;
    for (int i = 0; i < e->n_in; i++)
        for (int k = 0; k < e->in[i].n; k++)
            n += e->in[i].labels[k] == label;
    return n;
}

/* Without "->" the result has "..." and the labels that occur once, in alphabetical order. */
static bool implied_result(rx_onnx_call *c, equation *e, int dots)
{
    e->out = (term){.n = 0};
    for (int k = dots; k-- > 0;)
        if (!add_label(c, &e->out, (char)('0' + k)))
            return false;
    for (char l = 'A'; l <= 'z'; l++)
        if (count_label(e, l) == 1 && !add_label(c, &e->out, l))
            return false;
    return true;
}

static bool read_equation(rx_onnx_call *c, equation *e)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "equation");
    if (!a || a->type != RX_ONNX_STRING || c->n_in > MAX_TERMS)
        return bad_equation(c, "is missing, or there are more than 32 operands");
    const char *text = a->s.data, *end = text + a->s.bytes, *arrow = text;
    while (arrow < end && !(arrow[0] == '-' && end - arrow > 1 && arrow[1] == '>'))
        arrow++;
    int most_dots = 0;
    e->n_in = 0;
    for (const char *p = text; e->n_in < (int)c->n_in; e->n_in++) {
        const char *stop = p;
        while (stop < arrow && *stop != ',')
            stop++;
        const size_t n = (size_t)(stop - p);
        const bool has_dots = n && memchr(p, '.', n);
        const int dots = rx_onnx_rank(c, c->in[e->n_in]) - count_letters(p, n);
        if (dots < 0 || (dots && !has_dots))
            return bad_equation(c, "does not fit the rank of an operand");
        if (!read_term(c, p, n, dots, &e->in[e->n_in]))
            return false;
        most_dots = dots > most_dots ? dots : most_dots;
        if (stop == arrow && e->n_in + 1 < (int)c->n_in)
            return bad_equation(c, "has fewer terms than operands");
        p = stop + 1;
    }
    if (arrow == end)
        return implied_result(c, e, most_dots);
    return read_term(c, arrow + 2, (size_t)(end - arrow - 2), most_dots, &e->out);
}

/* ---- Contraction ----------------------------------------------------------------------------- */

static int find_label(const term *t, char label)
{
    const char *at = label ? strchr(t->labels, label) : NULL;
    return at ? (int)(at - t->labels) : -1;
}

static void drop_label(term *t, int k)
{
    memmove(t->labels + k, t->labels + k + 1, (size_t)(t->n - k));
    t->n--;
}

/* The diagonal of axes i < j; axis j is removed. */
static rlx_value diagonal(rx_onnx_call *c, rlx_value x, int i, int j)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    rlx_dim dims[RLX_MAX_RANK];
    const rlx_range_desc r = {RLX_INIT(rlx_range_desc), .n = s.dim[i], .out = RLX_I64};
    for (int k = 0; k < s.rank; k++)
        dims[k] = k == i ? s.dim[i] : 1;
    rlx_value index = rlx_reshape(c->g, rlx_range(c->g, &r), s.rank, dims);
    for (int k = 0; k < s.rank; k++)
        dims[k] = k == j ? 1 : s.dim[k];
    index = rlx_expand(c->g, index, s.rank, dims);
    return rlx_squeeze(c->g, rlx_gather_elements(c->g, x, index, j), j);
}

static bool is_needed(const equation *e, int from, char label)
{
    bool needed = find_label(&e->out, label) >= 0;
    for (int i = from; i < e->n_in; i++)
        needed = needed || find_label(&e->in[i], label) >= 0;
    return needed;
}

/* Takes diagonals of repeated labels and sums over those that occur nowhere else. */
static rlx_value reduce_term(rx_onnx_call *c, const equation *e, int from, const term *other,
                             term *t, rlx_value x)
{
    for (int i = 0; i < t->n; i++)
        for (int j = t->n; --j > i;)
            if (t->labels[i] == t->labels[j]) {
                x = diagonal(c, x, i, j);
                drop_label(t, j);
            }
    for (int64_t i = t->n; i--;) {
        const char l = t->labels[i];
        if (is_needed(e, from, l) || (other && find_label(other, l) >= 0))
            continue;
        x = rlx_reduce(c->g, RLX_REDUCE_SUM, x, &i, 1, false);
        drop_label(t, (int)i);
    }
    return x;
}

/* Broadcasts axes of size one to the other operand's size. */
static rlx_value match_sizes(rx_onnx_call *c, rlx_value x, const term *t, rlx_value y,
                             const term *u)
{
    rlx_shape s = rlx_value_shape(c->g, x);
    const rlx_shape o = rlx_value_shape(c->g, y);
    bool same = true;
    for (int i = 0; i < t->n; i++) {
        const int k = find_label(u, t->labels[i]);
        if (k >= 0 && s.dim[i] == 1 && o.dim[k] != 1) {
            s.dim[i] = o.dim[k];
            same = false;
        }
    }
    return same ? x : rlx_expand(c->g, x, s.rank, s.dim);
}

static rlx_value join(rx_onnx_call *c, const equation *e, int next, term *t, rlx_value x,
                      const term *u, rlx_value y)
{
    rlx_dot_desc d = {RLX_INIT(rlx_dot_desc)};
    term out = {.n = 0};
    const rlx_value a = match_sizes(c, x, t, y, u), b = match_sizes(c, y, u, x, t);
    for (int i = 0; i < t->n; i++) {
        const int k = find_label(u, t->labels[i]);
        if (k < 0)
            continue;
        const bool keep = is_needed(e, next, t->labels[i]);
        rlx_ints *la = keep ? &d.batch_a : &d.contract_a;
        rlx_ints *lb = keep ? &d.batch_b : &d.contract_b;
        la->v[la->n++] = i;
        lb->v[lb->n++] = k;
        if (keep && !add_label(c, &out, t->labels[i]))
            return RLX_NONE;
    }
    for (int i = 0; i < t->n; i++)
        if (find_label(u, t->labels[i]) < 0 && !add_label(c, &out, t->labels[i]))
            return RLX_NONE;
    for (int i = 0; i < u->n; i++)
        if (find_label(t, u->labels[i]) < 0 && !add_label(c, &out, u->labels[i]))
            return RLX_NONE;
    *t = out;
    return rlx_dot_general(c->g, a, b, &d);
}

rlx_value rx_onnx_einsum(rx_onnx_call *c)
{
    equation e;
    int perm[RLX_MAX_RANK];
    if (!c->n_in || !read_equation(c, &e))
        return RLX_NONE;
    term t = e.in[0];
    rlx_value x = reduce_term(c, &e, 1, NULL, &t, c->in[0]);
    for (int i = 1; i < e.n_in; i++) {
        term u = e.in[i];
        const rlx_value y = reduce_term(c, &e, i + 1, &t, &u, c->in[i]);
        x = reduce_term(c, &e, i + 1, &u, &t, x);
        x = join(c, &e, i + 1, &t, x, &u, y);
    }
    for (int i = 0; i < e.out.n; i++) {
        perm[i] = find_label(&t, e.out.labels[i]);
        if (perm[i] < 0)
            return rx_onnx_fail(c, RLX_INVALID, "its result has a label that no operand has");
    }
    if (t.n != e.out.n)
        return rx_onnx_fail(c, RLX_INVALID, "its result has a label twice");
    return rlx_transpose(c->g, x, perm);
}

/* ---- Det ------------------------------------------------------------------------------------- */

#define MAX_DET 6

/* The determinant of the rows from `row` on and the columns in `columns`, a set of bits. */
static rlx_value minor(rx_onnx_call *c, rlx_value cells[MAX_DET][MAX_DET], int n, int row,
                       unsigned columns)
{
    rlx_value sum = RLX_NONE;
    bool negative = false;
    if (row == n - 1)
        for (int k = 0; k < n; k++)
            if (columns & 1u << k)
                return cells[row][k];
    for (int k = 0; k < n; k++) {
        if (!(columns & 1u << k))
            continue;
        const rlx_value part = rlx_mul(c->g, cells[row][k],
                                       minor(c, cells, n, row + 1, columns & ~(1u << k)));
        sum = !sum.id ? part : negative ? rlx_sub(c->g, sum, part) : rlx_add(c->g, sum, part);
        negative = !negative;
    }
    return sum;
}

rlx_value rx_onnx_det(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    rlx_value cells[MAX_DET][MAX_DET];
    const int64_t n = s.rank >= 2 ? s.dim[s.rank - 1] : 0;
    if (n < 1 || n > MAX_DET || s.dim[s.rank - 2] != n)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected square matrices of at most %d rows",
                            MAX_DET);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            const rlx_value row = rlx_narrow(c->g, x, s.rank - 2, i, 1);
            cells[i][k] = rlx_reshape(c->g, rlx_narrow(c->g, row, s.rank - 1, k, 1), s.rank - 2,
                                      s.dim);
        }
    return minor(c, cells, (int)n, 0, (1u << n) - 1);
}
