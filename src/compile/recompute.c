/* SPDX-License-Identifier: MIT */
/* recompute: duplicates steps of the forward pass beside their readers in the backward pass until
 * the plan fits rlx_session_desc.memory_budget (activation checkpointing). Requires a fused graph;
 * leaves one that computes the same bits: a duplicate is the same kernel on the same operands.
 *
 * The forward pass ends at the node during which most bytes are idle: have been computed, are not
 * read now, and will be. First what is cheap and follows from values that are kept is duplicated.
 * Then the forward pass is cut into segments, where few bytes live; of the first n only what lives
 * across a cut is kept, and the rest follows from that. The number of segments and n are those that
 * cost the fewest operations within the budget. Everything is decided at the bounds of
 * dimensions. */
#include "compile/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "compile/plan.h"
#include "compile/rewrite.h"

#define MOST_SEGMENTS 64
#define CHEAP_FLOPS 64   /* of an element: elementwise chains and norms, no products */
#define SMALL (1 << 16)  /* a value is kept when it is this much smaller than all together */

typedef struct pass {
    const rlx_graph *g;
    const rx_target *target;
    const rlx_session_desc *desc;
    rlx_error *err;
    size_t turn;       /* the last node of the forward pass */
    size_t writes;     /* the first state_write: nothing behind it reads duplicates */
    uint32_t *root;    /* by value: what a view is of, else itself */
    uint64_t *bytes;   /* by value, of roots outside of leaves; else 0 */
    size_t *last;      /* by value: its last reader in the forward pass */
    bool *late;        /* by value: read in the backward pass */
    bool *keep;        /* by value, of the attempt at hand: not duplicated */
    uint64_t *idle, *width, *saved; /* by node, of the forward pass: idle bytes; bytes that live
                                     * behind it for the forward pass; bytes for the backward pass
                                     * computed up to here */
    size_t cuts[MOST_SEGMENTS]; /* nodes that end a segment */
    size_t n_cuts;
    uint32_t *again;   /* by value: its duplicate in the new graph; 0: none */
    uint32_t *stack, *wanted; /* nodes */
    bool *marked;      /* by node: in `wanted` */
    double flops;      /* of the duplicates */
    size_t n_steps;
} pass;

static const rx_node *maker(const rlx_graph *g, uint32_t value)
{
    return &g->nodes[g->values[value].node];
}

static bool is_leaf(const rx_node *n)
{
    return rx_ops[n->op].flags & RX_OP_LEAF;
}

/* ---- What lives when ------------------------------------------------------------------------- */

static uint64_t bytes_at_bound(const rlx_graph *g, uint32_t id)
{
    int64_t n;
    uint64_t bytes;
    const rx_value *v = &g->values[id];
    return rx_shape_elements(g, &v->shape, &n) && rx_dtype_bytes(v->dtype, n, &bytes) ? bytes : 0;
}

static void find_roots(pass *p)
{
    const rlx_graph *g = p->g;
    p->writes = g->n_nodes;
    for (size_t i = g->n_nodes; i-- > 0;)
        if (g->nodes[i].op == RX_OP_state_write)
            p->writes = i;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const rx_node *n = &g->nodes[i];
        const bool is_view = rx_ops[n->op].flags & RX_OP_VIEW;
        for (uint32_t k = 0; k < n->n_out; k++) {
            const uint32_t id = n->first_out + k;
            p->root[id] = is_view ? p->root[n->in[0]] : id;
            p->bytes[id] = is_view || is_leaf(n) ? 0 : bytes_at_bound(g, id);
        }
    }
}

/* Turns differences from one node to the next into values. */
static void add_up(uint64_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++)
        v[i] += v[i - 1];
}

static void find_turn(pass *p)
{
    const rlx_graph *g = p->g;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const rx_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_in; k++) {
            const uint32_t r = p->root[n->in[k]];
            if (p->last[r] + 1 < i) {
                p->idle[p->last[r] + 1] += p->bytes[r];
                p->idle[i] -= p->bytes[r];
            }
            p->last[r] = i;
        }
        for (uint32_t k = 0; k < n->n_out; k++)
            p->last[n->first_out + k] = i;
    }
    add_up(p->idle, p->writes);
    for (size_t i = 0; i < p->writes; i++)
        if (p->idle[i] > p->idle[p->turn])
            p->turn = i;
}

/* Sets last, late, width and saved; keep becomes what is never duplicated. */
static void find_lives(pass *p)
{
    const rlx_graph *g = p->g;
    memset(p->last, 0, g->n_values * sizeof *p->last);
    for (size_t i = 0; i < g->n_outputs; i++)
        p->keep[p->root[g->outputs[i].value]] = true;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const rx_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_in; k++) {
            const uint32_t r = p->root[n->in[k]];
            if (i <= p->turn)
                p->last[r] = i;
            p->late[r] |= i > p->turn && i < p->writes;
            p->keep[r] |= i >= p->writes;
        }
    }
    for (size_t i = 0; i <= p->turn; i++) {
        const rx_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_out; k++) {
            const uint32_t id = n->first_out + k;
            p->keep[id] |= is_leaf(n) || rx_ops[n->op].flags & RX_OP_EFFECT;
            p->saved[i] += p->late[id] && !p->keep[id] ? p->bytes[id] : 0;
            if (p->last[id] > i) {
                p->width[i] += p->bytes[id];
                p->width[p->last[id]] -= p->bytes[id];
            }
        }
    }
    add_up(p->width, p->turn + 1);
    add_up(p->saved, p->turn + 1);
    for (uint32_t id = 1; id < g->n_values; id++)
        p->keep[id] |= p->bytes[p->root[id]] < p->saved[p->turn] / SMALL;
}

/* ---- What is kept ---------------------------------------------------------------------------- */

/* Cuts the forward pass into n segments of about as many saved bytes, each where fewest bytes
 * live. */
static void choose_cuts(pass *p, size_t n)
{
    const uint64_t part = p->saved[p->turn] / n;
    size_t i = 0;
    p->n_cuts = 0;
    for (size_t k = 1; k < n; k++) {
        size_t best = SIZE_MAX;
        for (; i < p->turn && p->saved[i] < part * k + part / 2; i++)
            if (p->saved[i] >= part * k - part / 2 &&
                (best == SIZE_MAX || p->width[i] <= p->width[best]))
                best = i;
        if (best != SIZE_MAX)
            p->cuts[p->n_cuts++] = best;
    }
}

/* Whether a node is cheap to compute again from values that the backward pass has anyway. */
static bool is_cheap(const pass *p, const bool *keep, const rx_node *n)
{
    double flops, traffic;
    int64_t elements = 0;
    rx_cost(p->g, n, &flops, &traffic);
    for (uint32_t k = 0; k < n->n_in; k++) {
        const uint32_t r = p->root[n->in[k]];
        const bool leaf = !n->in[k] || is_leaf(maker(p->g, r));
        if (!leaf && keep[r] && !p->late[r])
            return false;
    }
    return rx_shape_elements(p->g, &p->g->values[n->first_out].shape, &elements) &&
           flops <= CHEAP_FLOPS * (double)elements;
}

/* Decides p->keep for an attempt, from what is always kept: of the first n segments what lives
 * across their cuts, of the others what is not cheap. */
static void choose_kept(pass *p, const bool *always, size_t n)
{
    size_t segment = 0;
    memcpy(p->keep, always, p->g->n_values);
    for (size_t i = 0; i <= p->turn; i++) {
        const rx_node *node = &p->g->nodes[i];
        while (segment < p->n_cuts && i > p->cuts[segment])
            segment++;
        const bool dropped = segment < n;
        const bool cheap = !dropped && is_cheap(p, p->keep, node);
        for (uint32_t k = 0; k < node->n_out; k++) {
            const uint32_t id = node->first_out + k;
            p->keep[id] |= dropped ? p->last[id] > p->cuts[segment] : !cheap;
        }
    }
}

/* ---- The new graph --------------------------------------------------------------------------- */

static bool is_wanted(const pass *p, uint32_t value)
{
    return value && !p->again[value] && !p->keep[p->root[value]] &&
           p->g->values[value].node <= p->turn;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The nodes to duplicate before n can be computed, in order. */
static size_t list_wanted(pass *p, const rx_node *n)
{
    size_t count = 0, depth = 0;
    for (const rx_node *at = n;; at = &p->g->nodes[p->stack[--depth]]) {
        for (uint32_t k = 0; k < at->n_in; k++) {
            const uint32_t node = p->g->values[at->in[k]].node;
            if (!is_wanted(p, at->in[k]) || p->marked[node])
                continue;
            p->marked[node] = true;
            p->wanted[count++] = p->stack[depth++] = node;
        }
        if (!depth)
            break;
    }
    qsort(p->wanted, count, sizeof *p->wanted, by_number);
    for (size_t i = 0; i < count; i++)
        p->marked[p->wanted[i]] = false;
    return count;
}

/* Appends a node that reads duplicates where there are some. */
static rlx_status append(pass *p, rx_rewrite *w, const rx_node *n, bool duplicate)
{
    if (!rx_rewrite_operands(w, n))
        return w->to->error.code;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (p->again[n->in[k]])
            w->in[k].id = p->again[n->in[k]];
    const rlx_value v = rx_graph_add(w->to, n->op, w->in, n->n_in, rx_rewrite_attr(w, n), n->name);
    for (uint32_t k = 0; duplicate && k < n->n_out; k++)
        p->again[n->first_out + k] = rx_result(v, k).id;
    if (!duplicate)
        rx_rewrite_map(w, n, v);
    return w->to->error.code;
}

static rlx_status append_duplicates(pass *p, rx_rewrite *w, const rx_node *reader)
{
    const size_t n = list_wanted(p, reader);
    for (size_t i = 0; i < n; i++) {
        const rx_node *node = &p->g->nodes[p->wanted[i]];
        double flops, traffic;
        RLX_TRY(append(p, w, node, true));
        rx_cost(p->g, node, &flops, &traffic);
        p->flops += flops;
        p->n_steps += !(rx_ops[node->op].flags & RX_OP_VIEW);
    }
    return RLX_OK;
}

static rlx_status duplicate(pass *p, rlx_graph **out)
{
    rx_rewrite w;
    RLX_TRY(rx_rewrite_begin(&w, p->g, p->err));
    memset(p->again, 0, p->g->n_values * sizeof *p->again);
    p->flops = 0;
    p->n_steps = 0;
    rlx_status s = w.to->error.code;
    for (size_t i = 0; i < p->g->n_nodes && s == RLX_OK; i++) {
        const rx_node *n = &p->g->nodes[i];
        if (!w.live[i])
            continue;
        const bool late = i > p->turn && i < p->writes && !is_leaf(n);
        if (late)
            s = append_duplicates(p, &w, n);
        if (s == RLX_OK)
            s = late ? append(p, &w, n, false) : rx_rewrite_copy(&w, n);
    }
    return rx_rewrite_end(&w, s, out, p->err);
}

/* ---- The search ------------------------------------------------------------------------------ */

typedef struct attempt {
    rlx_graph *graph;
    uint64_t bytes;
    double flops;
    size_t n_steps;
} attempt;

static rlx_status planned_bytes(const pass *p, const rlx_graph *g, uint64_t *bytes,
                                uint64_t *arena)
{
    rx_plan plan;
    const rlx_status s = rx_plan_make(&plan, g, p->target, p->desc, p->err);
    const rlx_memory_info *m = &plan.memory;
    *arena = m->arena_bytes;
    *bytes = m->arena_bytes + m->param_bytes + m->state_bytes + m->input_bytes + m->constant_bytes;
    rx_plan_finish(&plan);
    return s;
}

/* The graph with n segments dropped; *best becomes it when it fits and costs less, or when none
 * fits and it is smaller. *fits: it does. */
static rlx_status try_segments(pass *p, const bool *always, size_t n, attempt *best, bool *fits)
{
    attempt a = {0};
    uint64_t arena;
    const uint64_t budget = p->desc->memory_budget;
    choose_kept(p, always, n);
    RLX_TRY(duplicate(p, &a.graph));
    const rlx_status s = planned_bytes(p, a.graph, &a.bytes, &arena);
    a.flops = p->flops;
    a.n_steps = p->n_steps;
    *fits = a.bytes <= budget;
    const bool better = !best->graph || (best->bytes > budget ? a.bytes < best->bytes
                                                              : *fits && a.flops < best->flops);
    rlx_graph_destroy(better && s == RLX_OK ? best->graph : a.graph);
    if (better && s == RLX_OK)
        *best = a;
    return s;
}

/* The fewest dropped segments that fit, when all of them do. */
static rlx_status search_segments(pass *p, const bool *always, attempt *best)
{
    bool fits = false;
    RLX_TRY(try_segments(p, always, p->n_cuts, best, &fits));
    size_t few = 0, many = p->n_cuts; /* none is known not to fit */
    while (fits && many - few > 1) {
        const size_t middle = (few + many) / 2;
        bool half = false;
        RLX_TRY(try_segments(p, always, middle, best, &half));
        *(half ? &many : &few) = middle;
    }
    return RLX_OK;
}

static rlx_status search(pass *p, const bool *always, attempt *best)
{
    bool fits = false;
    p->n_cuts = 0;
    RLX_TRY(try_segments(p, always, 0, best, &fits));
    for (size_t n = 2; !fits && n <= MOST_SEGMENTS; n *= 2) {
        const attempt before = *best;
        const size_t fewer = p->n_cuts;
        choose_cuts(p, n);
        if (p->n_cuts <= fewer)
            continue;
        RLX_TRY(search_segments(p, always, best));
        if (before.bytes <= p->desc->memory_budget && best->graph == before.graph)
            break; /* more segments cost more */
    }
    return RLX_OK;
}

static rlx_status report(const pass *p, const attempt *best, uint64_t bytes)
{
    const uint64_t least = best->graph && best->bytes < bytes ? best->bytes : bytes;
    return rx_fail(p->err, RLX_NO_MEMORY, "graph '%s' has a memory budget of %llu bytes; it takes "
                   "%llu, and at least %llu when activations are computed twice", p->g->name,
                   (unsigned long long)p->desc->memory_budget, (unsigned long long)bytes,
                   (unsigned long long)least);
}

static bool allocate(pass *p)
{
    const size_t values = p->g->n_values, nodes = p->g->n_nodes + 1;
    p->root = rx_alloc_array_zero(values, sizeof *p->root);
    p->bytes = rx_alloc_array_zero(values, sizeof *p->bytes);
    p->last = rx_alloc_array_zero(values, sizeof *p->last);
    p->late = rx_alloc_zero(values);
    p->keep = rx_alloc_zero(values);
    p->again = rx_alloc_array_zero(values, sizeof *p->again);
    p->idle = rx_alloc_array_zero(nodes, sizeof *p->idle);
    p->width = rx_alloc_array_zero(nodes, sizeof *p->width);
    p->saved = rx_alloc_array_zero(nodes, sizeof *p->saved);
    p->stack = rx_alloc_array(nodes, sizeof *p->stack);
    p->wanted = rx_alloc_array(nodes, sizeof *p->wanted);
    p->marked = rx_alloc_zero(nodes);
    return p->root && p->bytes && p->last && p->late && p->keep && p->again && p->idle &&
           p->width && p->saved && p->stack && p->wanted && p->marked;
}

static void release(pass *p)
{
    void *const tables[] = {p->root, p->bytes, p->last, p->late, p->keep, p->again, p->idle,
                            p->width, p->saved, p->stack, p->wanted, p->marked};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        rx_free(tables[i]);
}

static rlx_status run(pass *p, uint64_t bytes, attempt *best)
{
    bool *always = allocate(p) ? rx_alloc(p->g->n_values) : NULL;
    if (!always)
        return rx_fail(p->err, RLX_NO_MEMORY, "out of memory: recomputing values of graph '%s'",
                       p->g->name);
    find_roots(p);
    find_turn(p);
    find_lives(p);
    memcpy(always, p->keep, p->g->n_values);
    const rlx_status s = search(p, always, best);
    rx_free(always);
    RLX_TRY(s);
    return best->bytes <= p->desc->memory_budget ? RLX_OK : report(p, best, bytes);
}

rlx_status rx_recompute(const rlx_graph *g, const rx_target *t, const rlx_session_desc *desc,
                        rlx_graph **out, rx_recomputed *info, rlx_error *err)
{
    pass p = {.g = g, .target = t, .desc = desc, .err = err};
    attempt best = {0};
    uint64_t bytes, arena;
    *out = NULL;
    *info = (rx_recomputed){0};
    RLX_TRY(planned_bytes(&p, g, &bytes, &arena));
    if (bytes <= desc->memory_budget)
        return RLX_OK;
    const rlx_status s = run(&p, bytes, &best);
    release(&p);
    if (s != RLX_OK) {
        rlx_graph_destroy(best.graph);
        return s;
    }
    *out = best.graph;
    *info = (rx_recomputed){arena, best.n_steps, best.flops};
    return RLX_OK;
}
