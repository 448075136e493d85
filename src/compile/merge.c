/* SPDX-License-Identifier: MIT */
/* Merged steps: which steps one kernel may compute, by the rows of fuse.def and as far as the
 * target has such a kernel. The plan keeps their operands live until the last of them; which of
 * them are actually merged is decided when sizes are bound, since a prompt has many rows and a
 * decode step has one. Requires roots and lifetimes of the plan. */
#include "compile/plan.h"

typedef struct rule {
    rx_op op, reader;
    uint32_t operand;
    bool defers;
} rule;

static const rule rules[] = {
#define PROLOGUE(op, reader, operand) {RX_OP_##op, RX_OP_##reader, operand, false},
#define DEFER(op, reader, operand) {RX_OP_##op, RX_OP_##reader, operand, true},
#include "compile/fuse.def"
#undef PROLOGUE
#undef DEFER
};
#define N_RULES (sizeof rules / sizeof *rules)

typedef struct finder {
    rx_plan *p;
    const rx_target *t;
    rlx_policy policy;
} finder;

/* The rule for a node whose result is operand `operand` of the reader; NULL: none. */
static const rule *find_rule(rx_op op, rx_op reader, uint32_t operand)
{
    for (size_t i = 0; i < N_RULES; i++)
        if (rules[i].op == op && rules[i].reader == reader && rules[i].operand == operand)
            return &rules[i];
    return NULL;
}

static bool has_rule(rx_op op)
{
    for (size_t i = 0; i < N_RULES; i++)
        if (rules[i].op == op)
            return true;
    return false;
}

static const rx_node *root_node(const finder *f, uint32_t id)
{
    return rx_value_node(f->p->graph, f->p->values[id].root);
}

/* States change between steps, so their readers must not move. */
static bool reads_state(const finder *f, const rx_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        const rx_op op = n->in[i] ? root_node(f, n->in[i])->op : RX_OP_constant;
        if (op == RX_OP_state || op == RX_OP_state_write)
            return true;
    }
    return false;
}

/* Only steps read its one result, which is in the arena. */
static bool is_candidate(const finder *f, const rx_node *n, uint32_t step)
{
    const rx_planned *v = &f->p->values[n->first_out];
    return step != RX_NO_STEP && has_rule(n->op) && n->n_out == 1 && v->last > step &&
           v->last < f->p->n_steps && !reads_state(f, n);
}

/* Operand `operand` of a node that is a step. */
typedef struct read {
    size_t node;
    uint32_t operand;
} read;

/* Advances to the next operand whose memory value `root` owns; false: there is none. */
static bool next_read(const finder *f, uint32_t root, read *r)
{
    const rlx_graph *g = f->p->graph;
    const uint32_t last = f->p->values[root].last;
    for (r->operand++; r->node < g->n_nodes; r->node++, r->operand = 0) {
        const rx_node *n = &g->nodes[r->node];
        const uint32_t step = f->p->step_of[r->node];
        if (step != RX_NO_STEP && step > last)
            return false;
        for (; step != RX_NO_STEP && r->operand < n->n_in; r->operand++)
            if (n->in[r->operand] && f->p->values[n->in[r->operand]].root == root)
                return true;
    }
    return false;
}

/* Before the first operand that may read the result of node i. */
static read reads_of(const finder *f, size_t i)
{
    return (read){i, f->p->graph->nodes[i].n_in};
}

/* Whether rules and target allow every read of node i's result: any number as a prologue, or a
 * single one to defer to. */
static bool readers_merge(const finder *f, size_t i, bool *defers)
{
    const rlx_graph *g = f->p->graph;
    const rx_node *n = &g->nodes[i];
    size_t n_reads = 0;
    *defers = false;
    for (read x = reads_of(f, i); next_read(f, n->first_out, &x); n_reads++) {
        const rx_node *reader = &g->nodes[x.node];
        const rule *r = find_rule(n->op, reader->op, x.operand);
        if (!r || *defers || (r->defers && n_reads) ||
            (!r->defers && reader->in[x.operand] != n->first_out) ||
            !f->t->merges(f->t, f->policy, g, n, reader))
            return false;
        *defers = r->defers;
    }
    return n_reads > 0;
}

static void find_merge(const finder *f, size_t i)
{
    const uint32_t step = f->p->step_of[i], root = f->p->graph->nodes[i].first_out;
    bool defers;
    if (!is_candidate(f, &f->p->graph->nodes[i], step) || !readers_merge(f, i, &defers))
        return;
    for (read x = reads_of(f, i); next_read(f, root, &x);) {
        const uint32_t reader = f->p->step_of[x.node];
        if (defers)
            f->p->merges[step].defer_to = reader;
        else
            f->p->merges[reader].prologue = step;
    }
}

/* ---- Until when operands are read ------------------------------------------------------------ */

/* done[s]: the last step in whose position step s may be computed. */
static void find_ends(const rx_plan *p, uint32_t *done)
{
    for (uint32_t s = 0; s < p->n_steps; s++)
        done[s] = s;
    for (uint32_t s = (uint32_t)p->n_steps; s-- > 0;) {
        const rx_merge *m = &p->merges[s];
        if (m->defer_to != RX_NO_STEP && done[m->defer_to] > done[s])
            done[s] = done[m->defer_to];
        if (m->prologue != RX_NO_STEP && done[s] > done[m->prologue])
            done[m->prologue] = done[s];
    }
}

void rx_find_merges(rx_plan *p, const rx_target *t, rlx_policy policy, uint32_t *done)
{
    const finder f = {.p = p, .t = t, .policy = policy};
    for (size_t s = 0; s < p->n_steps; s++)
        p->merges[s] = (rx_merge){RX_NO_STEP, RX_NO_STEP};
    for (size_t i = 0; t && t->merges && i < p->graph->n_nodes; i++)
        find_merge(&f, i);
    find_ends(p, done);
}
