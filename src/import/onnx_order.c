/* SPDX-License-Identifier: MIT */
/* Nodes of ONNX graphs in an order of execution. The format demands one, but files exist, as
 * quantised ones with branches, in which a node or a branch uses what a later node gives. Graphs
 * that have an order, or no possible one, stay as they are. */
#include <string.h>

#include "import/onnx.h"

/* The nodes of a graph whose results node `self` uses, also inside of its sub-graphs. */
typedef struct uses {
    const rx_map *givers; /* index of the node that gives a name */
    uint32_t self;
    uint32_t *to;         /* NULL: they are only counted */
    size_t n;
    bool late;            /* a later node is among them */
} uses;

static void use_name(uses *u, const char *name)
{
    const rx_map_slot *s = *name ? rx_map_find(u->givers, name, strlen(name)) : NULL;
    if (!s || s->value == u->self)
        return;
    u->late = u->late || s->value > u->self;
    if (u->to)
        u->to[u->n] = s->value;
    u->n++;
}

static void use_node(uses *u, const rx_onnx_node *n);

static void use_graph(uses *u, const rx_onnx_graph *g)
{
    for (size_t i = 0; i < g->n_nodes; i++)
        use_node(u, &g->nodes[i]);
    for (size_t i = 0; i < g->n_outputs; i++)
        use_name(u, g->outputs[i].name);
}

static void use_node(uses *u, const rx_onnx_node *n)
{
    for (size_t i = 0; i < n->n_in; i++)
        use_name(u, n->in[i]);
    for (size_t i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].g)
            use_graph(u, n->attrs[i].g);
}

/* Of names that are given twice, which building refuses, the first counts. */
static bool find_givers(const rx_onnx_graph *g, rx_map *givers)
{
    for (size_t i = 0; i < g->n_nodes; i++)
        for (size_t k = 0; k < g->nodes[i].n_out; k++) {
            const char *name = g->nodes[i].out[k];
            const size_t length = strlen(name);
            if (length && !rx_map_find(givers, name, length) &&
                !rx_map_add(givers, name, length, (uint32_t)i))
                return false;
        }
    return true;
}

/* Lists for a search in depth; those of node i are to[first[i]] to to[first[i + 1] - 1]. */
typedef struct search {
    uint32_t *to, *order, *stack;
    size_t *first, *next;
    uint8_t *state; /* 0: not seen, 1: on the stack, 2: in the order */
} search;

static bool alloc_search(rx_arena *a, search *s, size_t n, size_t n_uses)
{
    s->to = rx_arena_array_zero(a, n_uses, sizeof *s->to);
    s->order = rx_arena_array_zero(a, n, sizeof *s->order);
    s->stack = rx_arena_array_zero(a, n, sizeof *s->stack);
    s->first = rx_arena_array_zero(a, n + 1, sizeof *s->first);
    s->next = rx_arena_array_zero(a, n, sizeof *s->next);
    s->state = rx_arena_array_zero(a, n, sizeof *s->state);
    return s->to && s->order && s->stack && s->first && s->next && s->state;
}

/* Puts node `root` and what it uses into the order; false: they use one another. */
static bool visit(search *s, uint32_t root, size_t *n_order)
{
    size_t depth = 0;
    if (s->state[root])
        return true;
    s->stack[depth++] = root;
    s->state[root] = 1;
    while (depth) {
        const uint32_t top = s->stack[depth - 1];
        if (s->next[top] == s->first[top + 1]) {
            s->state[top] = 2;
            s->order[(*n_order)++] = top;
            depth--;
            continue;
        }
        const uint32_t used = s->to[s->next[top]++];
        if (s->state[used] == 1)
            return false;
        if (!s->state[used]) {
            s->state[used] = 1;
            s->stack[depth++] = used;
        }
    }
    return true;
}

/* Replaces the nodes by a sorted copy; false when out of memory. */
static bool reorder(rlx_onnx *m, rx_onnx_graph *g, rx_arena *a, uses *u)
{
    search s;
    size_t n = 0;
    if (!alloc_search(a, &s, g->n_nodes, u->n))
        return false;
    u->to = s.to;
    u->n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        s.first[i] = s.next[i] = u->n;
        u->self = (uint32_t)i;
        use_node(u, &g->nodes[i]);
    }
    s.first[g->n_nodes] = u->n;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!visit(&s, (uint32_t)i, &n))
            return true;
    rx_onnx_node *sorted = rx_arena_array_zero(&m->arena, g->n_nodes, sizeof *sorted);
    for (size_t i = 0; sorted && i < n; i++)
        sorted[i] = g->nodes[s.order[i]];
    g->nodes = sorted ? sorted : g->nodes;
    return sorted != NULL;
}

rlx_status rx_onnx_sort_nodes(rlx_onnx *m, rx_onnx_graph *g, rlx_error *err)
{
    rx_map givers = {0};
    rx_arena a = {0};
    uses u = {.givers = &givers};
    bool ok = g->n_nodes < UINT32_MAX && find_givers(g, &givers);
    for (size_t i = 0; ok && i < g->n_nodes; i++) {
        u.self = (uint32_t)i;
        use_node(&u, &g->nodes[i]);
    }
    if (ok && u.late)
        ok = reorder(m, g, &a, &u);
    rx_arena_finish(&a);
    rx_map_finish(&givers);
    return ok ? RLX_OK : rx_fail_memory(err, "an order of nodes", g->n_nodes * sizeof *g->nodes);
}
