/* SPDX-License-Identifier: MIT */
/* Terms: interning, simplifying constructors, sets of code points. */
#include "grammar/expr.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "model/unicode.h"

#define MAX_DEPTH 1500

static void fail(rx_exprs *x, rlx_status st)
{
    if (x->failed == RLX_OK)
        x->failed = st;
}

static bool grow(rx_exprs *x, void *p, size_t *cap, size_t need, size_t item)
{
    size_t before = *cap;
    if (need <= before)
        return true;
    if (x->bytes + need * item > x->max_bytes || !rx_grow(p, cap, need, item)) {
        fail(x, RLX_NO_MEMORY);
        return false;
    }
    x->bytes += (*cap - before) * item;
    return true;
}

rlx_status rx_exprs_check(const rx_exprs *x, const char *what, rlx_error *err)
{
    if (x->failed == RLX_NO_MEMORY)
        return rx_fail(err, RLX_NO_MEMORY, "%s: the automata need more than %llu bytes "
                       "(rlx_grammar_desc.max_bytes)", what, (unsigned long long)x->max_bytes);
    if (x->failed != RLX_OK)
        return rx_fail(err, x->failed, "%s is too complex: more than %llu steps of the automata "
                       "(rlx_grammar_desc.max_work), or terms nested too deep", what,
                       (unsigned long long)x->max_work);
    return RLX_OK;
}

/* ---- Sets ------------------------------------------------------------------------------------ */

bool rx_ranges_add(rx_ranges *s, uint32_t lo, uint32_t hi)
{
    if (lo > hi)
        return true;
    if (!rx_grow(&s->r, &s->cap, s->n + 1, sizeof *s->r))
        return false;
    s->r[s->n++] = (rx_range){lo, hi};
    return true;
}

static int by_low(const void *a, const void *b)
{
    const rx_range *p = a, *q = b;
    return p->lo < q->lo ? -1 : p->lo > q->lo;
}

void rx_ranges_normalise(rx_ranges *s)
{
    size_t n = 0;
    if (s->n)
        qsort(s->r, s->n, sizeof *s->r, by_low);
    for (size_t i = 0; i < s->n; i++) {
        if (n && s->r[i].lo <= s->r[n - 1].hi + 1) {
            if (s->r[i].hi > s->r[n - 1].hi)
                s->r[n - 1].hi = s->r[i].hi;
        } else {
            s->r[n++] = s->r[i];
        }
    }
    s->n = n;
}

bool rx_ranges_invert(rx_ranges *s)
{
    rx_ranges out = {0};
    uint32_t next = 0;
    bool ok = true;
    rx_ranges_normalise(s);
    for (size_t i = 0; i < s->n && ok; i++) {
        if (s->r[i].lo > next)
            ok = rx_ranges_add(&out, next, s->r[i].lo - 1);
        next = s->r[i].hi + 1;
    }
    if (ok && next <= RX_CP_MAX)
        ok = rx_ranges_add(&out, next, RX_CP_MAX);
    rx_free(s->r);
    *s = out;
    return ok;
}

static bool set_has(const rx_exprs *x, uint32_t set, uint32_t cp)
{
    const rx_range *r = x->ranges + x->sets[set][0];
    size_t lo = 0, hi = x->sets[set][1];
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cp < r[mid].lo)
            hi = mid;
        else if (cp > r[mid].hi)
            lo = mid + 1;
        else
            return true;
    }
    return false;
}

/* ---- Interning ------------------------------------------------------------------------------- */

static uint64_t hash_node(const rx_exprs *x, const rx_ex_node *n)
{
    uint32_t key[5] = {n->op, n->a, n->b, n->lo, n->hi};
    if (n->op != RX_OP_OR && n->op != RX_OP_AND)
        return rx_hash_number(((uint64_t)key[1] << 32 | key[2]) * 31 + key[0]) ^
               rx_hash_number((uint64_t)key[3] << 32 | key[4]);
    uint64_t h = n->op;
    for (uint32_t i = 0; i < n->b; i++)
        h = rx_hash_number(h * 0x9e3779b97f4a7c15u + x->args[n->a + i]);
    return h;
}

static bool same_node(const rx_exprs *x, const rx_ex_node *p, const rx_ex_node *q)
{
    if (p->op != q->op || p->b != q->b || p->lo != q->lo || p->hi != q->hi)
        return false;
    if (p->op != RX_OP_OR && p->op != RX_OP_AND)
        return p->a == q->a;
    return !memcmp(x->args + p->a, x->args + q->a, p->b * sizeof *x->args);
}

static bool grow_table(rx_exprs *x)
{
    size_t cap = x->cap_table ? x->cap_table * 2 : 1024;
    if ((x->n_nodes + 1) * 2 <= x->cap_table)
        return true;
    if (x->bytes + cap * sizeof *x->table > x->max_bytes)
        return fail(x, RLX_NO_MEMORY), false;
    uint32_t *t = rx_alloc_array_zero(cap, sizeof *t);
    if (!t)
        return fail(x, RLX_NO_MEMORY), false;
    for (size_t i = 0; i < x->n_nodes; i++) {
        size_t at = hash_node(x, &x->nodes[i]) & (cap - 1);
        while (t[at])
            at = (at + 1) & (cap - 1);
        t[at] = (uint32_t)i + 1;
    }
    x->bytes += (cap - x->cap_table) * sizeof *t;
    rx_free(x->table);
    x->table = t;
    x->cap_table = cap;
    return true;
}

/* Interns a term. The arguments of | and & are the last entries of x->args; they are dropped if the
 * term exists. */
static rx_ex intern(rx_exprs *x, rx_ex_node n)
{
    if (x->failed != RLX_OK || !grow_table(x))
        return RX_EX_NONE;
    size_t at = hash_node(x, &n) & (x->cap_table - 1);
    bool list = n.op == RX_OP_OR || n.op == RX_OP_AND;
    for (; x->table[at]; at = (at + 1) & (x->cap_table - 1))
        if (same_node(x, &x->nodes[x->table[at] - 1], &n)) {
            if (list)
                x->n_args = n.a;
            return x->table[at] - 1;
        }
    if (n.depth > MAX_DEPTH) {
        fail(x, RLX_UNSUPPORTED);
        return RX_EX_NONE;
    }
    if (!grow(x, &x->nodes, &x->cap_nodes, x->n_nodes + 1, sizeof *x->nodes))
        return RX_EX_NONE;
    x->nodes[x->n_nodes] = n;
    x->table[at] = (uint32_t)++x->n_nodes;
    return (rx_ex)x->n_nodes - 1;
}

rx_ex rx_ex_set(rx_exprs *x, rx_ranges *s)
{
    rx_ranges_normalise(s);
    if (!s->n || x->failed != RLX_OK)
        return RX_EX_NONE;
    for (size_t i = 0; i < x->n_sets; i++)
        if (x->sets[i][1] == s->n &&
            !memcmp(x->ranges + x->sets[i][0], s->r, s->n * sizeof *s->r))
            return intern(x, (rx_ex_node){.op = RX_OP_SET, .a = (uint32_t)i});
    if (!grow(x, &x->ranges, &x->cap_ranges, x->n_ranges + s->n, sizeof *x->ranges) ||
        !grow(x, &x->sets, &x->cap_sets, x->n_sets + 1, sizeof *x->sets))
        return RX_EX_NONE;
    memcpy(x->ranges + x->n_ranges, s->r, s->n * sizeof *s->r);
    x->sets[x->n_sets][0] = (uint32_t)x->n_ranges;
    x->sets[x->n_sets][1] = (uint32_t)s->n;
    x->n_ranges += s->n;
    return intern(x, (rx_ex_node){.op = RX_OP_SET, .a = (uint32_t)x->n_sets++});
}

rx_ex rx_ex_range(rx_exprs *x, uint32_t lo, uint32_t hi)
{
    rx_range r = {lo, hi};
    return rx_ex_set(x, &(rx_ranges){&r, 1, 1});
}

rlx_status rx_exprs_init(rx_exprs *x, uint64_t max_bytes, uint64_t max_work)
{
    *x = (rx_exprs){.max_bytes = max_bytes, .max_work = max_work};
    intern(x, (rx_ex_node){.op = RX_OP_NONE});
    intern(x, (rx_ex_node){.op = RX_OP_EPS, .flags = RX_EX_NULLABLE});
    rx_ex_range(x, 0, RX_CP_MAX);
    rx_ex_node all = {.op = RX_OP_REPEAT, .a = RX_EX_ANY, .hi = RX_INF, .flags = RX_EX_NULLABLE};
    intern(x, all);
    all.a = rx_ex_range(x, 0, RX_CP_END);
    x->outside = intern(x, all);
    return x->failed;
}

void rx_exprs_finish(rx_exprs *x)
{
    rx_free(x->nodes);
    rx_free(x->args);
    rx_free(x->table);
    rx_free(x->ranges);
    rx_free(x->sets);
    rx_free(x->cuts);
    rx_free(x->reps);
    rx_free(x->unique);
    rx_free(x->memo);
    rx_free(x->scratch);
    *x = (rx_exprs){0};
}

/* ---- Constructors ---------------------------------------------------------------------------- */

static uint16_t deeper(const rx_exprs *x, rx_ex e)
{
    return (uint16_t)(x->nodes[e].depth + 1);
}

static rx_ex cat_two(rx_exprs *x, rx_ex a, rx_ex b)
{
    if (a == RX_EX_NONE || b == RX_EX_NONE)
        return RX_EX_NONE;
    if (a == RX_EX_EPS || b == RX_EX_EPS)
        return a == RX_EX_EPS ? b : a;
    const rx_ex_node *p = &x->nodes[a], *q = &x->nodes[b];
    if (a == RX_EX_ALL && (b == RX_EX_ALL || (q->op == RX_OP_CAT && q->a == RX_EX_ALL)))
        return b;
    rx_ex_node n = {.op = RX_OP_CAT, .a = a, .b = b, .depth = deeper(x, a)};
    n.flags = (p->flags & q->flags & RX_EX_NULLABLE) | ((p->flags | q->flags) & RX_EX_BOOLEAN);
    if (p->flags & RX_EX_NULLABLE && deeper(x, b) > n.depth)
        n.depth = deeper(x, b);
    return intern(x, n);
}

/* Concatenations are right-associative, so that a derivative only looks at the first term. */
rx_ex rx_ex_cat(rx_exprs *x, rx_ex a, rx_ex b)
{
    size_t n = 0;
    if (x->nodes[a].op != RX_OP_CAT)
        return cat_two(x, a, b);
    for (; x->nodes[a].op == RX_OP_CAT; a = x->nodes[a].b) {
        if (!grow(x, &x->scratch, &x->cap_scratch, n + 1, sizeof *x->scratch))
            return RX_EX_NONE;
        x->scratch[n++] = x->nodes[a].a;
    }
    rx_ex e = cat_two(x, a, b);
    while (n)
        e = cat_two(x, x->scratch[--n], e);
    return e;
}

rx_ex rx_ex_cat_all(rx_exprs *x, const rx_ex *list, size_t n)
{
    rx_ex e = RX_EX_EPS;
    while (n)
        e = rx_ex_cat(x, list[--n], e);
    return e;
}

rx_ex rx_ex_repeat(rx_exprs *x, rx_ex a, uint32_t lo, uint32_t hi)
{
    if (hi == 0 || a == RX_EX_EPS)
        return RX_EX_EPS;
    if (a == RX_EX_NONE)
        return lo ? RX_EX_NONE : RX_EX_EPS;
    const rx_ex_node *p = &x->nodes[a];
    if (p->flags & RX_EX_NULLABLE)
        lo = 0;
    if ((lo == 1 && hi == 1) || (hi == 1 && p->flags & RX_EX_NULLABLE))
        return a;
    if (p->op == RX_OP_REPEAT && p->lo == 0 && p->hi == RX_INF)
        return a;
    rx_ex_node n = {.op = RX_OP_REPEAT, .a = a, .lo = lo, .hi = hi, .depth = deeper(x, a)};
    n.flags = (lo ? 0 : RX_EX_NULLABLE) | (p->flags & RX_EX_BOOLEAN);
    return intern(x, n);
}

static int by_id(const void *a, const void *b)
{
    const rx_ex *p = a, *q = b;
    return *p < *q ? -1 : *p > *q;
}

/* Appends e, or the terms it joins by the same operation, to x->args. */
static bool push_arg(rx_exprs *x, rx_ex_op op, rx_ex e)
{
    const rx_ex_node *n = &x->nodes[e];
    size_t count = n->op == op ? n->b : 1, from = n->a;
    if (!grow(x, &x->args, &x->cap_args, x->n_args + count, sizeof *x->args))
        return false;
    if (x->nodes[e].op == op)
        memcpy(x->args + x->n_args, x->args + from, count * sizeof *x->args);
    else
        x->args[x->n_args] = e;
    x->n_args += count;
    return true;
}

/* Merges all sets among the terms of an alternative into one. */
static rx_ex merge_sets(rx_exprs *x, const rx_ex *args, size_t n)
{
    rx_ranges all = {0};
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        const rx_ex_node *p = &x->nodes[args[i]];
        for (uint32_t k = 0; p->op == RX_OP_SET && k < x->sets[p->a][1] && ok; k++) {
            const rx_range *r = &x->ranges[x->sets[p->a][0] + k];
            ok = rx_ranges_add(&all, r->lo, r->hi);
        }
    }
    if (!ok)
        fail(x, RLX_NO_MEMORY);
    rx_ex e = rx_ex_set(x, &all);
    rx_free(all.r);
    return e;
}

/* Sorts the terms from `from` on, drops doubles and neutral ones; false when `absorbing` is
 * there. */
static bool tidy_args(rx_exprs *x, size_t from, rx_ex neutral, rx_ex absorbing)
{
    size_t n = from;
    qsort(x->args + from, x->n_args - from, sizeof *x->args, by_id);
    for (size_t i = from; i < x->n_args; i++) {
        if (x->args[i] == absorbing)
            return false;
        if (x->args[i] != neutral && (n == from || x->args[n - 1] != x->args[i]))
            x->args[n++] = x->args[i];
    }
    x->n_args = n;
    return true;
}

static rx_ex join(rx_exprs *x, rx_ex_op op, size_t from)
{
    bool is_or = op == RX_OP_OR;
    rx_ex neutral = is_or ? RX_EX_NONE : RX_EX_ALL, absorbing = is_or ? RX_EX_ALL : RX_EX_NONE;
    for (size_t i = from; is_or && i < x->n_args; i++)
        if (x->args[i] == x->outside)
            absorbing = x->outside;
    if (!tidy_args(x, from, neutral, absorbing)) {
        x->n_args = from;
        return absorbing;
    }
    size_t n = x->n_args - from;
    if (n < 2) {
        rx_ex only = n ? x->args[from] : neutral;
        x->n_args = from;
        return only;
    }
    rx_ex_node node = {.op = (uint8_t)op, .a = (uint32_t)from, .b = (uint32_t)n};
    unsigned all = RX_EX_NULLABLE, any = 0;
    for (size_t i = 0; i < n; i++) {
        const rx_ex_node *p = &x->nodes[x->args[from + i]];
        all &= p->flags;
        any |= p->flags;
        if (deeper(x, x->args[from + i]) > node.depth)
            node.depth = deeper(x, x->args[from + i]);
    }
    node.flags = (uint8_t)((is_or ? any & RX_EX_NULLABLE : all) |
                           (is_or ? any & RX_EX_BOOLEAN : RX_EX_BOOLEAN));
    return intern(x, node);
}

rx_ex rx_ex_or_all(rx_exprs *x, const rx_ex *list, size_t n)
{
    size_t from = x->n_args, sets = 0;
    for (size_t i = 0; i < n; i++)
        if (!push_arg(x, RX_OP_OR, list[i]))
            return RX_EX_NONE;
    for (size_t i = from; i < x->n_args; i++)
        sets += x->nodes[x->args[i]].op == RX_OP_SET;
    if (sets > 1) {
        rx_ex merged = merge_sets(x, x->args + from, x->n_args - from);
        for (size_t i = from; i < x->n_args; i++)
            if (x->nodes[x->args[i]].op == RX_OP_SET)
                x->args[i] = merged;
    }
    return join(x, RX_OP_OR, from);
}

rx_ex rx_ex_or(rx_exprs *x, rx_ex a, rx_ex b)
{
    return rx_ex_or_all(x, (rx_ex[]){a, b}, 2);
}

rx_ex rx_ex_and(rx_exprs *x, rx_ex a, rx_ex b)
{
    if (a == RX_EX_EPS || b == RX_EX_EPS) {
        rx_ex other = a == RX_EX_EPS ? b : a;
        return rx_ex_nullable(x, other) ? RX_EX_EPS : RX_EX_NONE;
    }
    size_t from = x->n_args;
    if (!push_arg(x, RX_OP_AND, a) || !push_arg(x, RX_OP_AND, b))
        return RX_EX_NONE;
    return join(x, RX_OP_AND, from);
}

rx_ex rx_ex_not(rx_exprs *x, rx_ex a)
{
    const rx_ex_node *p = &x->nodes[a];
    if (a == RX_EX_NONE || a == RX_EX_ALL)
        return a == RX_EX_NONE ? RX_EX_ALL : RX_EX_NONE;
    if (p->op == RX_OP_NOT)
        return p->a;
    return intern(x, (rx_ex_node){.op = RX_OP_NOT, .a = a, .depth = deeper(x, a),
                                  .flags = RX_EX_BOOLEAN |
                                           (p->flags & RX_EX_NULLABLE ? 0 : RX_EX_NULLABLE)});
}

static rx_ex tail(rx_exprs *x, rx_ex a)
{
    if (a == RX_EX_NONE || a == x->outside)
        return a == RX_EX_NONE ? a : RX_EX_ALL;
    rx_ex end = rx_ex_derive(x, a, RX_CP_END);
    return intern(x, (rx_ex_node){.op = RX_OP_TAIL, .a = a, .depth = deeper(x, a),
                                  .flags = RX_EX_BOOLEAN | (x->nodes[end].flags & RX_EX_NULLABLE)});
}

rx_ex rx_ex_search(rx_exprs *x, rx_ex a)
{
    rx_ex e = rx_ex_cat(x, x->outside, rx_ex_cat(x, a, x->outside));
    return tail(x, rx_ex_derive(x, e, RX_CP_BEGIN));
}

rx_ex rx_ex_whole(rx_exprs *x, rx_ex a)
{
    return tail(x, rx_ex_derive(x, a, RX_CP_BEGIN));
}

static rx_ex multiple(rx_exprs *x, uint32_t m, uint32_t r, uint32_t scale, uint32_t left)
{
    uint64_t rest = r;
    for (uint32_t i = left == RX_INF ? scale : left; i; i--)
        rest = rest * 10 % m;
    return intern(x, (rx_ex_node){.op = RX_OP_MULTIPLE, .a = m, .b = r, .lo = scale, .hi = left,
                                  .flags = RX_EX_BOOLEAN | (rest ? 0 : RX_EX_NULLABLE)});
}

rx_ex rx_ex_multiple(rx_exprs *x, uint32_t modulus, uint32_t scale)
{
    for (uint32_t c = '0'; c <= '9'; c++) /* each digit is a class of the partition */
        rx_ex_range(x, c, c);
    rx_ex_range(x, '.', '.');
    rx_ex_range(x, '-', '-');
    return multiple(x, modulus, 0, scale, RX_INF);
}

rx_ex rx_ex_text(rx_exprs *x, const char *s, size_t n)
{
    uint32_t *codes = rx_alloc_array(n ? n : 1, sizeof *codes);
    size_t count = 0;
    if (!codes) {
        fail(x, RLX_NO_MEMORY);
        return RX_EX_NONE;
    }
    for (size_t i = 0; i < n;)
        i += rx_utf8_get(s + i, n - i, &codes[count++]);
    rx_ex e = RX_EX_EPS;
    while (count)
        e = cat_two(x, rx_ex_range(x, codes[count - 1], codes[count - 1]), e), count--;
    rx_free(codes);
    return e;
}

bool rx_ex_push(rx_ex_list *l, rx_ex e)
{
    if (!rx_grow(&l->e, &l->cap, l->n + 1, sizeof *l->e))
        return false;
    l->e[l->n++] = e;
    return true;
}

rx_ex rx_ex_pop_cat(rx_exprs *x, rx_ex_list *l, size_t from)
{
    const rx_ex e = l->n > from ? rx_ex_cat_all(x, l->e + from, l->n - from) : RX_EX_EPS;
    l->n = from;
    return e;
}

rx_ex rx_ex_pop_or(rx_exprs *x, rx_ex_list *l, size_t from)
{
    const rx_ex e = l->n > from ? rx_ex_or_all(x, l->e + from, l->n - from) : RX_EX_NONE;
    l->n = from;
    return e;
}

/* ---- Derivatives ----------------------------------------------------------------------------- */

static int compare_u32(const void *a, const void *b)
{
    const uint32_t *p = a, *q = b;
    return *p < *q ? -1 : *p > *q;
}

/* Lists the starts of the intervals into which the sets cut the code points. */
static size_t list_cuts(const rx_exprs *x, uint32_t *cuts)
{
    size_t n = 0, kept = 0;
    cuts[n++] = 0;
    for (size_t i = 0; i < x->n_ranges; i++) {
        cuts[n++] = x->ranges[i].lo;
        cuts[n++] = x->ranges[i].hi + 1;
    }
    qsort(cuts, n, sizeof *cuts, compare_u32);
    for (size_t i = 0; i < n; i++)
        if (cuts[i] <= RX_CP_MAX && (!kept || cuts[kept - 1] != cuts[i]))
            cuts[kept++] = cuts[i];
    return kept;
}

/* Splits the classes by one set: `to[class]` is where members of the class go. */
static uint32_t split_by_set(const rx_exprs *x, size_t set, uint32_t *classes, uint32_t *to,
                             uint32_t n_classes)
{
    const rx_range *r = x->ranges + x->sets[set][0];
    uint32_t next = n_classes;
    memset(to, 0xff, x->n_cuts * 2 * sizeof *to);
    for (uint32_t k = 0; k < x->sets[set][1]; k++) {
        size_t lo = 0, hi = x->n_cuts;
        while (hi - lo > 1) {
            size_t mid = (lo + hi) / 2;
            if (x->cuts[mid] <= r[k].lo)
                lo = mid;
            else
                hi = mid;
        }
        for (; lo < x->n_cuts && x->cuts[lo] <= r[k].hi; lo++) {
            uint32_t *target = &to[classes[lo]];
            if (*target == UINT32_MAX)
                *target = next++;
            classes[lo] = *target;
        }
    }
    return next;
}

/* The representative of a class is the first code point in it. */
static bool name_classes(rx_exprs *x, uint32_t *classes, uint32_t n_classes)
{
    uint32_t *first = rx_alloc_array(n_classes, sizeof *first);
    if (!first)
        return false;
    memset(first, 0xff, n_classes * sizeof *first);
    x->n_unique = 0;
    for (size_t i = 0; i < x->n_cuts; i++) {
        if (first[classes[i]] == UINT32_MAX) {
            first[classes[i]] = x->cuts[i];
            x->unique[x->n_unique++] = x->cuts[i];
        }
        x->reps[i] = first[classes[i]];
    }
    rx_free(first);
    return true;
}

static uint32_t find_rep(const rx_exprs *x, uint32_t cp)
{
    size_t lo = 0, hi = x->n_cuts;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (x->cuts[mid] <= cp)
            lo = mid;
        else
            hi = mid;
    }
    return x->reps[lo];
}

/* Classes are numbered anew for each set, so their numbers stay below twice the pieces. */
static bool make_partition(rx_exprs *x)
{
    size_t most = 2 * x->n_ranges + 1;
    rx_free(x->cuts);
    rx_free(x->reps);
    rx_free(x->unique);
    x->cuts = rx_alloc_array(most, sizeof *x->cuts);
    x->reps = rx_alloc_array(most, sizeof *x->reps);
    x->unique = rx_alloc_array(most, sizeof *x->unique);
    uint32_t *classes = rx_alloc_array_zero(most, sizeof *classes);
    uint32_t *to = rx_alloc_array(2 * most + 2, sizeof *to);
    uint32_t *seen = rx_alloc_array(2 * most + 2, sizeof *seen);
    bool ok = x->cuts && x->reps && x->unique && classes && to && seen;
    if (ok) {
        x->n_cuts = list_cuts(x, x->cuts);
        uint32_t n = 1;
        for (size_t i = 0; i < x->n_sets; i++) {
            uint32_t next = 0;
            n = split_by_set(x, i, classes, to, n);
            memset(seen, 0xff, n * sizeof *seen);
            for (size_t k = 0; k < x->n_cuts; k++) {
                if (seen[classes[k]] == UINT32_MAX)
                    seen[classes[k]] = next++;
                classes[k] = seen[classes[k]];
            }
            n = next;
        }
        ok = name_classes(x, classes, n);
    }
    if (!ok)
        fail(x, RLX_NO_MEMORY), x->n_cuts = x->n_unique = 0;
    x->n_partition = x->n_sets;
    for (uint32_t c = 0; ok && c < 128; c++)
        x->ascii[c] = find_rep(x, c);
    rx_free(classes);
    rx_free(to);
    rx_free(seen);
    return ok;
}

static uint32_t rep_of(rx_exprs *x, uint32_t cp)
{
    if (x->n_partition != x->n_sets && !make_partition(x))
        return cp;
    return cp < 128 ? x->ascii[cp] : cp > RX_CP_MAX ? cp : find_rep(x, cp);
}

static bool grow_memo(rx_exprs *x)
{
    if ((x->n_memo + 1) * 2 <= x->cap_memo)
        return true;
    size_t cap = x->cap_memo ? x->cap_memo * 2 : 1024;
    rx_ex_memo *m = x->bytes + cap * sizeof *m > x->max_bytes ? NULL
                                                              : rx_alloc_array_zero(cap, sizeof *m);
    if (!m)
        return fail(x, RLX_NO_MEMORY), false;
    for (size_t i = 0; i < x->cap_memo; i++) {
        if (!x->memo[i].key)
            continue;
        size_t at = rx_hash_number(x->memo[i].key) & (cap - 1);
        while (m[at].key)
            at = (at + 1) & (cap - 1);
        m[at] = x->memo[i];
    }
    x->bytes += (cap - x->cap_memo) * sizeof *m;
    rx_free(x->memo);
    x->memo = m;
    x->cap_memo = cap;
    return true;
}

static rx_ex derive(rx_exprs *x, rx_ex e, uint32_t cp);

static rx_ex derive_list(rx_exprs *x, rx_ex_node n, uint32_t cp)
{
    rx_ex small[16], *list = n.b <= 16 ? small : rx_alloc_array(n.b, sizeof *list);
    rx_ex e;
    if (!list) {
        fail(x, RLX_NO_MEMORY);
        return RX_EX_NONE;
    }
    for (uint32_t i = 0; i < n.b; i++)
        list[i] = derive(x, x->args[n.a + i], cp);
    if (n.op == RX_OP_OR) {
        e = rx_ex_or_all(x, list, n.b);
    } else {
        e = RX_EX_ALL;
        for (uint32_t i = 0; i < n.b; i++)
            e = rx_ex_and(x, e, list[i]);
    }
    if (list != small)
        rx_free(list);
    return e;
}

static rx_ex derive_multiple(rx_exprs *x, rx_ex_node n, uint32_t cp)
{
    if (cp == '-')
        return n.hi == RX_INF && n.b == 0 ? multiple(x, n.a, 0, n.lo, RX_INF) : RX_EX_NONE;
    if (cp == '.')
        return n.hi == RX_INF ? multiple(x, n.a, n.b, n.lo, n.lo) : RX_EX_NONE;
    if (cp < '0' || cp > '9' || (n.hi == 0 && cp != '0'))
        return RX_EX_NONE;
    if (n.hi == 0)
        return multiple(x, n.a, n.b, n.lo, 0);
    uint32_t r = (uint32_t)(((uint64_t)n.b * 10 + (cp - '0')) % n.a);
    return multiple(x, n.a, r, n.lo, n.hi == RX_INF ? RX_INF : n.hi - 1);
}

static rx_ex derive_new(rx_exprs *x, rx_ex_node n, uint32_t cp)
{
    rx_ex a, b;
    switch ((rx_ex_op)n.op) {
    case RX_OP_NONE:
    case RX_OP_EPS:
        return RX_EX_NONE;
    case RX_OP_SET:
        return set_has(x, n.a, cp) ? RX_EX_EPS : RX_EX_NONE;
    case RX_OP_CAT:
        a = rx_ex_cat(x, derive(x, n.a, cp), n.b);
        b = rx_ex_nullable(x, n.a) ? derive(x, n.b, cp) : RX_EX_NONE;
        return b == RX_EX_NONE ? a : rx_ex_or(x, a, b);
    case RX_OP_REPEAT:
        a = derive(x, n.a, cp);
        if (a == RX_EX_NONE)
            return a;
        b = rx_ex_repeat(x, n.a, n.lo ? n.lo - 1 : 0, n.hi == RX_INF ? RX_INF : n.hi - 1);
        return rx_ex_cat(x, a, b);
    case RX_OP_OR:
    case RX_OP_AND:
        return derive_list(x, n, cp);
    case RX_OP_NOT:
        return cp > RX_CP_MAX ? RX_EX_NONE : rx_ex_not(x, derive(x, n.a, cp));
    case RX_OP_TAIL:
        return cp > RX_CP_MAX ? RX_EX_NONE : tail(x, derive(x, n.a, cp));
    case RX_OP_MULTIPLE:
        return derive_multiple(x, n, cp);
    }
    return RX_EX_NONE;
}

static rx_ex derive(rx_exprs *x, rx_ex e, uint32_t cp)
{
    if (e <= RX_EX_ALL)
        return e < RX_EX_ANY || cp > RX_CP_MAX ? RX_EX_NONE : e == RX_EX_ANY ? RX_EX_EPS : e;
    if (x->failed != RLX_OK || !grow_memo(x))
        return RX_EX_NONE;
    const uint64_t key = (uint64_t)e << 32 | (cp + 1);
    size_t at = rx_hash_number(key) & (x->cap_memo - 1);
    for (; x->memo[at].key; at = (at + 1) & (x->cap_memo - 1))
        if (x->memo[at].key == key)
            return x->memo[at].to;
    if (x->work++ > x->max_work)
        fail(x, RLX_UNSUPPORTED);
    rx_ex to = derive_new(x, x->nodes[e], cp);
    if (x->failed != RLX_OK || !grow_memo(x))
        return RX_EX_NONE;
    at = rx_hash_number(key) & (x->cap_memo - 1);
    while (x->memo[at].key)
        at = (at + 1) & (x->cap_memo - 1);
    x->memo[at] = (rx_ex_memo){key, to};
    x->n_memo++;
    return to;
}

rx_ex rx_ex_derive(rx_exprs *x, rx_ex e, uint32_t cp)
{
    return derive(x, e, cp > RX_CP_MAX ? cp : rep_of(x, cp));
}

/* ---- Emptiness ------------------------------------------------------------------------------- */

typedef struct seen_term {
    rx_ex e;
    uint32_t from; /* place in the list of the term that led here */
} seen_term;

/* Breadth-first search for a reachable nullable term. If there is none, all visited terms are dead;
 * otherwise those on the path to it are alive. */
static bool search_nullable(rx_exprs *x, rx_ex e)
{
    seen_term *seen = NULL;
    size_t n = 0, cap = 0, i = 0;
    bool found = false;
    if (!rx_grow(&seen, &cap, 1, sizeof *seen)) {
        fail(x, RLX_NO_MEMORY);
        return true;
    }
    seen[n++] = (seen_term){e, 0};
    x->nodes[e].flags |= RX_EX_DEAD; /* until proven otherwise; also the visited mark */
    for (; i < n && !found; i += !found)
        for (size_t k = 0; k < x->n_unique && !found && x->failed == RLX_OK; k++) {
            rx_ex to = derive(x, seen[i].e, x->unique[k]);
            unsigned flags = x->nodes[to].flags;
            if (to == RX_EX_NONE || flags & RX_EX_DEAD)
                continue;
            found = flags & (RX_EX_NULLABLE | RX_EX_ALIVE) || !(flags & RX_EX_BOOLEAN);
            if (!found && !rx_grow(&seen, &cap, n + 1, sizeof *seen))
                fail(x, RLX_NO_MEMORY);
            else if (!found)
                seen[n++] = (seen_term){to, (uint32_t)i}, x->nodes[to].flags |= RX_EX_DEAD;
        }
    for (size_t k = 0; k < n && (found || x->failed != RLX_OK); k++)
        x->nodes[seen[k].e].flags &= (uint8_t)~RX_EX_DEAD;
    for (; found; i = seen[i].from) {
        x->nodes[seen[i].e].flags |= RX_EX_ALIVE;
        if (!i)
            break;
    }
    rx_free(seen);
    return found;
}

bool rx_ex_is_empty(rx_exprs *x, rx_ex e)
{
    const unsigned flags = x->nodes[e].flags;
    if (e == RX_EX_NONE || flags & RX_EX_DEAD)
        return true;
    if (flags & (RX_EX_NULLABLE | RX_EX_ALIVE) || !(flags & RX_EX_BOOLEAN))
        return false;
    if (x->n_partition != x->n_sets && !make_partition(x))
        return false;
    return !search_nullable(x, e);
}

bool rx_ex_can_step(rx_exprs *x, rx_ex e, uint32_t lo, uint32_t hi)
{
    if (e <= RX_EX_EPS || lo > hi)
        return false;
    if (e <= RX_EX_ALL)
        return true;
    rep_of(x, lo);
    size_t at = 0, end = x->n_cuts;
    while (end - at > 1) {
        size_t mid = (at + end) / 2;
        if (x->cuts[mid] <= lo)
            at = mid;
        else
            end = mid;
    }
    for (; at < x->n_cuts && x->cuts[at] <= hi; at++)
        if (!rx_ex_is_empty(x, derive(x, e, x->reps[at])))
            return true;
    return false;
}

bool rx_ex_matches(rx_exprs *x, rx_ex e, const char *s, size_t n)
{
    for (size_t i = 0; i < n && e != RX_EX_NONE;) {
        uint32_t cp;
        i += rx_utf8_get(s + i, n - i, &cp);
        e = rx_ex_derive(x, e, cp);
    }
    return rx_ex_nullable(x, e);
}
