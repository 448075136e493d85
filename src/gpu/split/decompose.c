/* SPDX-License-Identifier: MIT */
/* Softmax, norms and other operations whose rows are longer than a binding: a graph of the one node
 * is compiled for a target that lacks a kernel for it, so that the compiler takes the decomposition
 * of ops/lower.h; the steps of that program are added, with its values in scratch memory. */
#include <stdio.h>

#include "compile/compile.h"
#include "gpu/exec/memory.h"
#include "gpu/split/part.h"
#include "ops/lower.h"
#include "ops/view.h"

typedef struct decomposed {
    const rx_steps *s;
    const rx_program *p;
    rx_tensor *values; /* by value of the program */
    struct slot {
        uint64_t bytes;
        uint32_t last; /* the last step that reads it */
        rx_gpu_ref ref;
    } *slots;          /* of scratch memory */
    size_t n_slots;
} decomposed;

/* ---- The program ---------------------------------------------------------------------------- */

static rlx_support support(const rx_target *t, const rlx_graph *g, const rx_node *n)
{
    return n->op == *(const rx_op *)t->user ? RLX_SUPPORT_NO : rx_gpu_support(t, g, n);
}

/* Inputs are the present operands, params those of packed types, outputs the results that are used,
 * in order. */
static void build_graph(const rx_part *part, rlx_graph *g)
{
    const rx_gpu_call *c = &part->call;
    rlx_value in[RX_SPLIT_MAX];
    char name[24];
    for (size_t i = 0; i < c->n_in; i++) {
        const rx_view *v = &part->view[i];
        snprintf(name, sizeof name, "%zu", i);
        in[i] = v->rank < 0                      ? RLX_NONE
                : rlx_dtype_is_packed(v->dtype) ? rlx_param(g, name, v->dtype, v->rank, v->dim)
                                                 : rlx_input(g, name, v->dtype, v->rank, v->dim);
    }
    const rlx_value y = rx_graph_add(g, c->op, in, c->n_in, c->attr, NULL);
    for (uint32_t i = 0; i < c->n_out && y.id; i++) {
        snprintf(name, sizeof name, "y%u", i);
        if (part->view[c->n_in + i].rank >= 0)
            rlx_output(g, name, (rlx_value){y.id + i});
    }
}

static rlx_status compile(const rx_part *part, rx_program **out, rlx_error *err)
{
    const rx_target target = {.name = "gpu", .align = RX_GPU_ALIGN, .user = &part->call.op,
                              .support = support, .takes_strided = rx_gpu_takes_strided};
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = part->call.policy};
    rlx_graph *g = rlx_graph_create("decomposed");
    if (!g)
        return rx_fail_memory(err, "a graph", 1);
    build_graph(part, g);
    const rlx_status st = rx_compile(g, &target, &desc, out, err);
    rlx_graph_destroy(g);
    return st;
}

/* ---- Its values ----------------------------------------------------------------------------- */

static const rx_tensor absent = {.view = {.rank = -1}};

/* The k-th present tensor of the part from `first` on, among the packed or the other ones. */
static rx_tensor kth_tensor(const rx_steps *s, size_t first, size_t k, bool packed)
{
    for (size_t i = first;; i++) {
        const rx_view *v = &s->part->view[i];
        if (v->rank >= 0 && rlx_dtype_is_packed(v->dtype) == packed && k-- == 0)
            return rx_steps_tensor(s, i);
    }
}

/* Scratch memory of a value; that of dead values is reused. */
static rx_gpu_ref slot_of(decomposed *d, const rx_pvalue *v)
{
    for (size_t i = 0; i < d->n_slots; i++) {
        struct slot *slot = &d->slots[i];
        if (slot->last < v->first && slot->bytes >= v->bytes) {
            slot->last = v->last;
            return slot->ref;
        }
    }
    d->slots[d->n_slots] = (struct slot){v->bytes, v->last, rx_gpu_scratch(d->s->b, v->bytes)};
    return d->slots[d->n_slots++].ref;
}

/* The result that shares memory with the value; false: it is an intermediate. */
static bool find_result(const decomposed *d, uint32_t value, rx_tensor *out)
{
    for (size_t i = 0; i < d->p->n_outputs; i++)
        if (rx_output_root(d->p, i) == value) {
            *out = kth_tensor(d->s, d->s->part->call.n_in, i, false);
            return true;
        }
    return false;
}

static bool same_shape(const rx_view *a, const rx_view *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* False where the layout of an operand or a result does not allow a view. */
static bool place_value(decomposed *d, uint32_t i)
{
    const rx_pvalue *v = &d->p->values[i];
    rx_tensor *x = &d->values[i], result;
    rx_view_set_dense(&x->view, v->dtype, v->shape.rank, v->shape.dim);
    x->view.data = NULL;
    if (v->view_of >= 0) {
        x->ref = d->values[v->view_of].ref;
        return rx_view_apply(v->view_op, v->view_attr, &d->values[v->view_of].view, &x->view);
    }
    switch (v->space) {
    case RX_SPACE_INPUT: *x = kth_tensor(d->s, 0, v->index, false); return true;
    case RX_SPACE_PARAM: *x = kth_tensor(d->s, 0, v->index, true); return true;
    case RX_SPACE_CONSTANT:
        x->ref = rx_gpu_add_table(d->s->b, d->p->constants[v->index], v->bytes);
        return true;
    case RX_SPACE_ARENA: break;
    default: *x = absent; return true;
    }
    if (!find_result(d, i, &result)) {
        x->ref = slot_of(d, v);
        return true;
    }
    x->ref = result.ref;
    x->view.data = result.view.data;
    if (same_shape(&result.view, &x->view))
        x->view = result.view;
    else if (!rx_view_is_dense(&result.view))
        return false;
    return true;
}

/* ---- Its steps ------------------------------------------------------------------------------ */

static void add_step(const decomposed *d, const rx_step *step)
{
    rx_tensor t[RX_SPLIT_MAX];
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++) {
        const uint32_t value = i < step->n_in ? step->in[i] : step->out[i - step->n_in];
        t[i] = value == RX_NO_VALUE ? absent : d->values[value];
    }
    rx_steps_add(d->s, step->op, step->attr, t, step->n_in, step->n_out);
}

static bool add_steps(decomposed *d)
{
    rx_gpu_build *b = d->s->b;
    const rx_program *p = d->p;
    d->values = rx_steps_list(d->s, (int64_t)p->n_values);
    d->slots = rx_arena_array(b->arena, p->n_values, sizeof *d->slots);
    if (!d->slots)
        b->status = rx_fail_memory(b->err, "the values of a step", p->n_values);
    if (b->status != RLX_OK)
        return true;
    for (uint32_t i = 0; i < p->n_values; i++)
        if (!place_value(d, i))
            return false;
    for (size_t i = 0; i < p->n_outputs; i++)
        if (rx_output_root(p, i) == RX_NO_VALUE)
            return false;
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].n_in + p->steps[i].n_out > RX_SPLIT_MAX)
            return false;
    for (size_t i = 0; i < p->n_steps; i++)
        add_step(d, &p->steps[i]);
    return true;
}

bool rx_split_decompose(const rx_steps *s)
{
    rx_program *p = NULL;
    if (!rx_lower_table[s->part->call.op])
        return false;
    s->b->status = compile(s->part, &p, s->b->err);
    if (s->b->status != RLX_OK)
        return true;
    decomposed d = {.s = s, .p = p};
    const bool done = add_steps(&d);
    rx_program_unref(p);
    return done;
}
