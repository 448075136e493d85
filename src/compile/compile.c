/* SPDX-License-Identifier: MIT */
/* The compile pipeline. Each stage takes the result of the one before it and nothing else; the
 * graph is verified after every stage, and every stage can be dumped as text. */
#include "compile/compile.h"

#include "compile/plan.h"
#include "compile/recompute.h"
#include "compile/rewrite.h"

typedef struct compiler {
    const rlx_session_desc *desc;
    const rx_target *target;
    rx_target folding; /* the target; without `eval` when constants are not to be folded */
    rlx_graph *graph;  /* made by the last stage; NULL before the first */
    rx_recomputed recomputed;
    rx_plan plan;
    rx_program *program;
    rlx_error *err;
} compiler;

/* Passes the dump of a stage, whose printing had status s, to the caller. */
static rlx_status show(compiler *c, const char *stage, rlx_status s, char *text)
{
    if (s == RLX_OK)
        c->desc->on_stage(c->desc->on_stage_user, stage, text);
    rx_free(text);
    return s;
}

static rlx_status verify(compiler *c, const char *stage, const rlx_graph *g)
{
    char *text = NULL;
    RLX_TRY(rlx_graph_verify(g, c->err));
    if (!c->desc->on_stage)
        return RLX_OK;
    rlx_status s = rlx_graph_print(g, &text, NULL, c->err);
    return show(c, stage, s, text);
}

/* Makes the graph of a stage that succeeded the current one. */
static rlx_status accept(compiler *c, const char *stage, rlx_graph *next)
{
    rlx_graph_destroy(c->graph);
    c->graph = next;
    return verify(c, stage, next);
}

static rlx_status fold(compiler *c, const rlx_graph *g)
{
    rlx_graph *next;
    RLX_TRY(rx_fold(g, &c->folding, &next, c->err));
    return accept(c, "fold", next);
}

/* Decompositions leave constants and no-ops, so it folds again. */
static rlx_status legalise(compiler *c, const rlx_graph *g)
{
    rlx_graph *legal, *next;
    RLX_TRY(rx_legalise(g, c->target, &legal, c->err));
    rlx_status s = rx_fold(legal, &c->folding, &next, c->err);
    rlx_graph_destroy(legal);
    RLX_TRY(s);
    return accept(c, "legalise", next);
}

static rlx_status fuse(compiler *c, const rlx_graph *g)
{
    rlx_graph *next;
    if (c->desc->no_fusion)
        return RLX_OK;
    RLX_TRY(rx_fuse(g, c->target, &next, c->err));
    return accept(c, "fuse", next);
}

static rlx_status own_outputs(compiler *c, const rlx_graph *g)
{
    rlx_graph *next;
    RLX_TRY(rx_own_outputs(g, &next, c->err));
    rlx_graph_destroy(c->graph);
    c->graph = next;
    return rlx_graph_verify(next, c->err);
}

static rlx_status recompute(compiler *c, const rlx_graph *g)
{
    rlx_graph *next;
    if (!c->desc->memory_budget)
        return RLX_OK;
    RLX_TRY(rx_recompute(g, c->target, c->desc, &next, &c->recomputed, c->err));
    return next ? accept(c, "recompute", next) : verify(c, "recompute", g);
}

static rlx_status plan(compiler *c, const rlx_graph *g)
{
    char *text = NULL;
    RLX_TRY(rx_plan_make(&c->plan, g, c->target, c->desc, c->err));
    rlx_memory_info *m = &c->plan.memory;
    m->recomputed_steps = c->recomputed.n_steps;
    m->recomputed_flops = c->recomputed.flops;
    m->kept_arena_bytes = c->recomputed.n_steps ? c->recomputed.arena_bytes : m->arena_bytes;
    if (!c->desc->on_stage)
        return RLX_OK;
    rlx_status s = rx_plan_print(&c->plan, &text, c->err);
    return show(c, "plan", s, text);
}

static rlx_status schedule(compiler *c, const rx_plan *p)
{
    char *text = NULL;
    RLX_TRY(rx_schedule(p, c->target, &c->program, c->err));
    c->program->policy = c->desc->policy;
    c->program->invariant = c->desc->invariant && c->desc->policy != RLX_POLICY_FAST;
    c->program->keep_all = c->desc->keep_all;
    if (!c->desc->on_stage)
        return RLX_OK;
    rlx_status s = rx_program_print(c->program, &text, c->err);
    return show(c, "schedule", s, text);
}

static rlx_status run_stages(compiler *c, const rlx_graph *g)
{
    RLX_TRY(verify(c, "verify", g));
    RLX_TRY(fold(c, g));
    RLX_TRY(legalise(c, c->graph));
    RLX_TRY(fuse(c, c->graph));
    RLX_TRY(own_outputs(c, c->graph));
    RLX_TRY(recompute(c, c->graph));
    RLX_TRY(plan(c, c->graph));
    RLX_TRY(schedule(c, &c->plan));
    return RLX_OK;
}

/* A graph from a file may contain lowered operations that are invalid. */
static rlx_status check_lowered(compiler *c, const rlx_graph *g)
{
    char text[RX_NODE_TEXT];
    for (size_t i = 0; i < g->n_nodes; i++) {
        const rx_node *n = &g->nodes[i];
        if (rx_ops[n->op].flags & (RX_OP_LEAF | RX_OP_VIEW) || c->target->has_host)
            continue;
        const rlx_support s = c->target->support(c->target, g, n);
        if (s == RLX_SUPPORT_NATIVE || s == RLX_SUPPORT_HOST)
            continue;
        return rx_fail(c->err, RLX_UNSUPPORTED, "node %s: device %s has no kernel for it",
                       rx_node_text(g, n, text), c->target->name);
    }
    return RLX_OK;
}

static rlx_status run_last_stages(compiler *c)
{
    RLX_TRY(verify(c, "verify", c->graph));
    RLX_TRY(check_lowered(c, c->graph));
    RLX_TRY(own_outputs(c, c->graph));
    RLX_TRY(plan(c, c->graph));
    return schedule(c, &c->plan);
}

/* Ends a compiler whose stages had status s. */
static rlx_status finish(compiler *c, rlx_status s, rx_program **out)
{
    rx_plan_finish(&c->plan);
    if (s == RLX_OK && c->desc->savable) {
        c->program->lowered = c->graph;
        c->graph = NULL;
    }
    rlx_graph_destroy(c->graph);
    if (s != RLX_OK) {
        rx_program_unref(c->program);
        c->program = NULL;
    }
    *out = c->program;
    return s;
}

rlx_status rx_compile_lowered(rlx_graph *g, const rx_target *t, const rlx_session_desc *desc,
                              rx_program **out, rlx_error *err)
{
    compiler c = {.desc = desc, .target = t, .graph = g, .err = err};
    return finish(&c, run_last_stages(&c), out);
}

rlx_status rx_compile(const rlx_graph *g, const rx_target *t, const rlx_session_desc *desc,
                      rx_program **out, rlx_error *err)
{
    static const rlx_session_desc defaults = {RLX_INIT(rlx_session_desc)};
    compiler c = {.desc = desc ? desc : &defaults, .target = t, .folding = *t, .err = err};
    if (c.desc->no_fold)
        c.folding.eval = NULL;
    return finish(&c, run_stages(&c, g), out);
}
