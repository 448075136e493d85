/* SPDX-License-Identifier: MIT */
/* Which of the steps that the compiler found to be mergeable (compile/merge.c, fuse.def) are merged
 * at the bound sizes: each dispatch that goes saves a barrier. rms_norm or mul as prologues of
 * products of few rows with packed weights; rope with the state_write after it; both as epilogues
 * of such products; and two products with the mul of their results. */
#include "gpu/select/plan.h"
#include "gpu/select/quant.h"
#include "gpu/select/rope.h"

#define MAX_ROWS 8

typedef struct chooser {
    rx_gpu_values *values;
    const rx_gpu_caps *caps;
    uint32_t *prologue, *epilogue;
} chooser;

/* ---- What the compiler asks ------------------------------------------------------------------ */

/* The node that computes an operand, behind views. */
static const rx_node *maker_of(const rlx_graph *g, uint32_t id)
{
    const rx_node *n = rx_value_node(g, id);
    while (rx_ops[n->op].flags & RX_OP_VIEW && n->n_in)
        n = rx_value_node(g, n->in[0]);
    return n;
}

static bool is_product(const rlx_graph *g, const rx_node *n, const rx_gpu_caps *caps)
{
    return n->op == RX_OP_dequant_matmul &&
           rx_quant_has_dots(caps, g->values[n->in[1]].dtype);
}

bool rx_gpu_merges(const rx_gpu_caps *caps, rlx_policy policy, const rlx_graph *g,
                   const rx_node *first, const rx_node *second)
{
    if (first->op == RX_OP_rope && second->op == RX_OP_state_write)
        return caps->max_bindings >= 7;
    if (policy != RLX_POLICY_FAST)
        return false;
    if (second->op == RX_OP_dequant_matmul)
        return is_product(g, second, caps);
    if (second->op == RX_OP_mul)
        return is_product(g, maker_of(g, second->in[0]), caps) &&
               is_product(g, maker_of(g, second->in[1]), caps);
    return is_product(g, first, caps);
}

/* ---- A merged step as the kernel sees it ----------------------------------------------------- */

rx_gpu_merged rx_gpu_merged_of(const rx_gpu_values *v, size_t step, rx_view in[RX_MERGED_OPERANDS])
{
    const rx_step *s = &v->program->steps[step];
    for (uint32_t i = 0; i < RX_MERGED_OPERANDS; i++)
        in[i] = i < s->n_in && s->in[i] != RX_NO_VALUE ? v->bound.views[s->in[i]]
                                                       : (rx_view){.rank = -1};
    return (rx_gpu_merged){.op = s->op, .attr = s->attr, .in = in};
}

/* The product that computes operand `operand` of step `reader` and may be deferred to it. */
static uint32_t deferred_product(const rx_gpu_values *v, uint32_t reader, uint32_t operand)
{
    const rx_program *p = v->program;
    const uint32_t value = v->roots[p->steps[reader].in[operand]];
    for (uint32_t j = reader; j-- > 0;)
        if (p->merges[j].defer_to == reader && p->steps[j].out[0] == value &&
            p->steps[j].op == RX_OP_dequant_matmul)
            return j;
    return RX_NO_STEP;
}

static const rx_gpu_epilogue *make_pair(const rx_gpu_values *v, uint32_t product, uint32_t last,
                                        rx_gpu_epilogue_room *room)
{
    const rx_program *p = v->program;
    const rx_step *mul = &p->steps[last];
    const bool is_second = v->roots[mul->in[1]] == p->steps[product].out[0];
    room->pair_step = deferred_product(v, last, is_second ? 0 : 1);
    room->pair = rx_gpu_merged_of(v, room->pair_step, room->pair_in);
    room->epilogue = (rx_gpu_epilogue){.out = &v->bound.views[mul->out[0]], .pair = &room->pair};
    return &room->epilogue;
}

const rx_gpu_epilogue *rx_gpu_epilogue_of(const rx_gpu_values *v, const uint32_t *prologue,
                                          uint32_t product, uint32_t last,
                                          rx_gpu_epilogue_room *room)
{
    const rx_step *s = &v->program->steps[last];
    const bool writes = s->op == RX_OP_state_write;
    if (s->op == RX_OP_mul)
        return make_pair(v, product, last, room);
    room->write_step = writes ? last : RX_NO_STEP;
    room->pair_step = RX_NO_STEP;
    room->rope_step = writes ? prologue[last] : last;
    room->epilogue = (rx_gpu_epilogue){.out = &v->bound.views[s->out[0]]};
    if (room->rope_step != RX_NO_STEP) {
        room->rope = rx_gpu_merged_of(v, room->rope_step, room->rope_in);
        room->epilogue.rope = &room->rope;
    }
    if (writes) {
        room->write = rx_gpu_merged_of(v, last, room->write_in);
        room->epilogue.write = &room->write;
    }
    return &room->epilogue;
}

/* ---- Prologues of products ------------------------------------------------------------------- */

static bool is_dense_f32(const rx_gpu_values *v, uint32_t value)
{
    return value != RX_NO_VALUE && v->bound.views[value].dtype == RLX_F32 &&
           v->bound.views[value].rank >= 1 && rx_view_is_dense(&v->bound.views[value]) &&
           rx_gpu_offset(&v->bound.views[value]) % 4 == 0;
}

/* Whether types and shapes of the step suit a prologue or a pair. */
static bool has_form(const rx_gpu_values *v, const rx_step *s)
{
    if (s->n_in < 2 || s->n_out != 1 || !is_dense_f32(v, s->in[0]) || !is_dense_f32(v, s->in[1]) ||
        !is_dense_f32(v, s->out[0]))
        return false;
    const rx_view *x = &v->bound.views[s->in[0]], *y = &v->bound.views[s->in[1]];
    const int64_t k = x->dim[x->rank - 1], n = rx_view_elements(x);
    if (k == 0 || n == 0 || n / k > MAX_ROWS || rx_view_elements(&v->bound.views[s->out[0]]) != n)
        return false;
    if (s->op == RX_OP_mul)
        return rx_view_elements(y) == n;
    const rlx_norm_desc *d = s->attr;
    const bool has_bias = s->n_in > 2 && s->in[2] != RX_NO_VALUE;
    return s->op == RX_OP_rms_norm && !has_bias && (d->axis == x->rank - 1 || d->axis == -1) &&
           rx_view_elements(y) == k;
}

static bool takes_prologue(const chooser *e, size_t step)
{
    rx_gpu_call c = rx_gpu_values_call(e->values, step, e->caps);
    return rx_quant_takes_prologue(&c);
}

/* Merges step i into all of its readers, or into none. */
static void choose_prologue(const chooser *e, uint32_t i)
{
    const rx_program *p = e->values->program;
    const uint32_t last = p->values[p->steps[i].out[0]].last;
    uint32_t n_readers = 0;
    if (!has_form(e->values, &p->steps[i]))
        return;
    for (uint32_t j = i + 1; j <= last && j < p->n_steps; j++) {
        if (p->merges[j].prologue != i)
            continue;
        if (!takes_prologue(e, j))
            return;
        n_readers++;
    }
    if (!n_readers)
        return;
    e->prologue[i] = i;
    for (uint32_t j = i + 1; j <= last && j < p->n_steps; j++)
        if (p->merges[j].prologue == i)
            e->prologue[j] = i;
}

/* ---- Rotations and writes of the cache ------------------------------------------------------- */

/* The state_write that step i, a rope, is merged with; RX_NO_STEP: none. */
static uint32_t choose_write(const chooser *e, uint32_t i)
{
    rx_view in[RX_MERGED_OPERANDS];
    const uint32_t write = e->values->program->merges[i].defer_to;
    if (e->values->program->steps[i].op != RX_OP_rope || write == RX_NO_STEP)
        return RX_NO_STEP;
    const rx_gpu_merged prologue = rx_gpu_merged_of(e->values, i, in);
    rx_gpu_call c = rx_gpu_values_call(e->values, write, e->caps);
    c.prologue = &prologue;
    return rx_rope_takes_write(&c) ? write : RX_NO_STEP;
}

static bool takes_epilogue(const chooser *e, uint32_t product, uint32_t last)
{
    rx_gpu_epilogue_room room;
    rx_gpu_call c = rx_gpu_values_call(e->values, product, e->caps);
    c.epilogue = rx_gpu_epilogue_of(e->values, e->prologue, product, last, &room);
    return rx_quant_takes_epilogue(&c);
}

/* The product that step i is the epilogue of: a state_write with or without the rope before it, or
 * a rope alone; RX_NO_STEP: none. */
static uint32_t choose_product(const chooser *e, uint32_t i)
{
    const rx_step *steps = e->values->program->steps;
    const bool writes = steps[i].op == RX_OP_state_write, merged = e->prologue[i] != RX_NO_STEP;
    const uint32_t reader = writes && merged ? e->prologue[i] : i;
    if (!writes && (steps[i].op != RX_OP_rope || merged))
        return RX_NO_STEP;
    const uint32_t operand = steps[reader].op == RX_OP_rope ? 0 : 1;
    const uint32_t j = deferred_product(e->values, reader, operand);
    return j != RX_NO_STEP && takes_epilogue(e, j, i) ? j : RX_NO_STEP;
}

/* ---- Pairs of products ----------------------------------------------------------------------- */

/* Step i multiplies the results of two products of the same rows: all three are one kernel. */
static bool choose_pair(const chooser *e, uint32_t i, uint32_t *first, uint32_t *second)
{
    const rx_step *steps = e->values->program->steps;
    if (steps[i].op != RX_OP_mul || !has_form(e->values, &steps[i]))
        return false;
    const uint32_t made[2] = {deferred_product(e->values, i, 0), deferred_product(e->values, i, 1)};
    if (made[0] == RX_NO_STEP || made[1] == RX_NO_STEP || made[0] == made[1] ||
        steps[made[0]].in[0] != steps[made[1]].in[0] ||
        e->prologue[made[0]] != e->prologue[made[1]])
        return false;
    for (int k = 0; k < 2; k++)
        if (takes_prologue(e, made[1 - k]) && takes_epilogue(e, made[k], i)) {
            *first = made[k];
            *second = made[1 - k];
            return true;
        }
    return false;
}

/* ---- All ------------------------------------------------------------------------------------- */

static void set_epilogue(const chooser *e, uint32_t product, uint32_t last)
{
    e->epilogue[last] = product;
    e->epilogue[product] = last;
}

/* What step i is merged with; decided already for the steps before it. */
static void choose_merge(const chooser *e, uint32_t i)
{
    const uint32_t write = choose_write(e, i);
    uint32_t first, second;
    if (write != RX_NO_STEP) {
        e->prologue[i] = e->prologue[write] = i;
    } else if (choose_pair(e, i, &first, &second)) {
        set_epilogue(e, first, i);
        e->epilogue[second] = i;
    } else {
        choose_prologue(e, i);
    }
}

void rx_gpu_choose_merges(rx_gpu_values *values, const rx_gpu_caps *caps, uint32_t *prologue,
                          uint32_t *epilogue)
{
    const chooser e = {values, caps, prologue, epilogue};
    const size_t n = values->program->n_steps;
    for (size_t i = 0; i < n; i++)
        prologue[i] = epilogue[i] = RX_NO_STEP;
    for (uint32_t i = 0; i < n; i++)
        choose_merge(&e, i);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t product = choose_product(&e, i);
        if (product != RX_NO_STEP)
            set_epilogue(&e, product, i);
    }
}
