/* SPDX-License-Identifier: MIT */
/* The union of many texts as one term, factored by their common prefixes: a derivative then looks
 * at those that begin alike and not at all of them. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/expr.h"
#include "model/unicode.h"

#define MAX_DEPTH 64 /* of the recursion; texts that branch more often are joined as they are */

static int order(const void *a, const void *b)
{
    const rx_ex_span *p = a, *q = b;
    const int c = memcmp(p->text, q->text, p->n < q->n ? p->n : q->n);
    return c ? c : (p->n > q->n) - (p->n < q->n);
}

/* Bytes of the code point there. */
static size_t step(const rx_ex_span *s, size_t at)
{
    uint32_t code;
    return rx_utf8_get(s->text + at, s->n - at, &code);
}

/* The bytes that two texts have in common, in whole code points, at least `at`. */
static size_t common(const rx_ex_span *a, const rx_ex_span *b, size_t at)
{
    while (at < a->n) {
        const size_t k = step(a, at);
        if (at + k > b->n || memcmp(a->text + at, b->text + at, k))
            break;
        at += k;
    }
    return at;
}

static rx_ex tail_of(rx_exprs *x, const rx_ex_span *s, size_t at)
{
    return rx_ex_text(x, s->text + at, s->n - at);
}

/* What follows the first `at` bytes, which the sorted texts have in common. */
static rx_ex join(rx_exprs *x, rx_ex_list *terms, const rx_ex_span *s, size_t n, size_t at,
                  size_t depth)
{
    const size_t from = terms->n;
    for (size_t i = 0, next; i < n; i = next) {
        rx_ex e = RX_EX_EPS;
        next = i + 1;
        if (depth == MAX_DEPTH) {
            e = tail_of(x, &s[i], at);
        } else if (s[i].n > at) {
            while (next < n && common(&s[i], &s[next], at) > at)
                next++;
            const size_t end = common(&s[i], &s[next - 1], at);
            e = next == i + 1 ? tail_of(x, &s[i], at)
                              : rx_ex_cat(x, rx_ex_text(x, s[i].text + at, end - at),
                                          join(x, terms, s + i, next - i, end, depth + 1));
        }
        if (!rx_ex_push(terms, e)) {
            x->failed = RLX_NO_MEMORY;
            break;
        }
    }
    return rx_ex_pop_or(x, terms, from);
}

rx_ex rx_ex_texts(rx_exprs *x, rx_ex_span *list, size_t n)
{
    rx_ex_list terms = {0};
    if (n)
        qsort(list, n, sizeof *list, order);
    const rx_ex e = join(x, &terms, list, n, 0, 0);
    rx_free(terms.e);
    return e;
}
