/* SPDX-License-Identifier: MIT */
/* Steps whose work those that follow do as well: in a chain of small kernels each one that is not
 * there saves the wait for it. rms_norm, and the product of two tensors (the gate of a feed-forward
 * layer), in front of products of few rows with packed weights, which do it while they read x; rope
 * in front of a state_write; such products in front of both; and two of them in front of the
 * product of their results. */
#include "gpu/exec/memory.h"
#include "gpu/select/quant.h"
#include "gpu/select/rope.h"

#define MAX_ROWS 8

static bool is_dense_f32(const rx_gpu_folds *e, uint32_t value)
{
    return value != RX_NO_VALUE && e->values->views[value].dtype == RLX_F32 &&
           e->values->views[value].rank >= 1 && rx_view_is_dense(&e->values->views[value]) &&
           rx_gpu_offset(&e->values->views[value]) % 4 == 0;
}

/* Whether a kernel can do the step on the rows it reads. */
static bool has_form(const rx_gpu_folds *e, const rx_step *s)
{
    if (s->n_in < 2 || s->n_out != 1 || !is_dense_f32(e, s->in[0]) || !is_dense_f32(e, s->in[1]) ||
        !is_dense_f32(e, s->out[0]))
        return false;
    const rx_view *x = &e->values->views[s->in[0]], *y = &e->values->views[s->in[1]];
    const int64_t k = x->dim[x->rank - 1], n = rx_view_elements(x);
    if (k == 0 || n == 0 || n / k > MAX_ROWS || rx_view_elements(&e->values->views[s->out[0]]) != n)
        return false;
    if (s->op == RX_OP_mul)
        return rx_view_elements(y) == n;
    const rlx_norm_desc *d = s->attr;
    const bool has_bias = s->n_in > 2 && s->in[2] != RX_NO_VALUE;
    return s->op == RX_OP_rms_norm && !has_bias && (d->axis == x->rank - 1 || d->axis == -1) &&
           rx_view_elements(y) == k;
}

/* Two values have memory in common. */
static bool overlap(const rx_gpu_folds *e, uint32_t a, uint32_t b)
{
    const rx_gpu_place p = rx_gpu_value_place(e->values, e->weights, e->places, a);
    const rx_gpu_place q = rx_gpu_value_place(e->values, e->weights, e->places, b);
    return p.block && p.block == q.block && p.offset < q.offset + q.bytes &&
           q.offset < p.offset + p.bytes;
}

static bool overlaps_operand(const rx_gpu_folds *e, const rx_step *s, uint32_t value)
{
    for (uint32_t i = 0; i < s->n_in; i++)
        if (s->in[i] != RX_NO_VALUE && overlap(e, value, s->in[i]))
            return true;
    return false;
}

/* Nothing that a step after `first` up to `last` writes lies where the operands of `first` do. */
static bool operands_stay(const rx_gpu_folds *e, size_t first, size_t last)
{
    const rx_program *p = e->values->program;
    for (size_t i = first + 1; i <= last; i++)
        for (uint32_t k = 0; k < p->steps[i].n_out; k++) {
            const uint32_t out = p->steps[i].out[k];
            if (out != RX_NO_VALUE && overlaps_operand(e, &p->steps[first], out))
                return false;
        }
    return true;
}

rx_gpu_fold rx_gpu_fold_of(const rx_gpu_values *v, size_t step, rx_view in[RX_FOLD_OPERANDS])
{
    const rx_step *s = &v->program->steps[step];
    for (uint32_t i = 0; i < RX_FOLD_OPERANDS; i++)
        in[i] = i < s->n_in && s->in[i] != RX_NO_VALUE ? v->views[s->in[i]]
                                                       : (rx_view){.rank = -1};
    return (rx_gpu_fold){.op = s->op, .attr = s->attr, .in = in};
}

/* ---- In front of products -------------------------------------------------------------------- */

static bool takes_fold(const rx_gpu_folds *e, size_t step)
{
    const rx_step *s = &e->values->program->steps[step];
    if (s->op != RX_OP_dequant_matmul || s->support == RLX_SUPPORT_HOST)
        return false;
    rx_gpu_call c = rx_gpu_values_call(e->values, step, e->caps);
    return rx_quant_takes_fold(&c);
}

/* Only steps read the value. */
static bool is_inner(const rx_program *p, uint32_t v)
{
    const rx_pvalue *value = &p->values[v];
    return value->view_of < 0 && value->space == RX_SPACE_ARENA && value->last < p->n_steps;
}

/* All that read the result of step i are products that can do its work. */
static bool is_foldable(const rx_gpu_folds *e, size_t i)
{
    const rx_program *p = e->values->program;
    const rx_step *s = &p->steps[i];
    if ((s->op != RX_OP_rms_norm && s->op != RX_OP_mul) || !has_form(e, s))
        return false;
    const uint32_t v = s->out[0];
    const rx_pvalue *value = &p->values[v];
    if (!is_inner(p, v))
        return false;
    for (size_t j = i + 1; j <= value->last; j++)
        for (uint32_t k = 0; k < p->steps[j].n_in; k++) {
            const uint32_t in = p->steps[j].in[k];
            if (in == RX_NO_VALUE || e->values->roots[in] != v)
                continue;
            if (in != v || k != 0 || !takes_fold(e, j))
                return false;
        }
    return operands_stay(e, i, value->last);
}

/* ---- In front of state_write ----------------------------------------------------------------- */

static bool takes_rope(const rx_gpu_folds *e, size_t step, size_t rope)
{
    rx_view in[RX_FOLD_OPERANDS];
    const rx_gpu_fold fold = rx_gpu_fold_of(e->values, rope, in);
    rx_gpu_call c = rx_gpu_values_call(e->values, step, e->caps);
    c.fold = &fold;
    return e->values->program->steps[step].support != RLX_SUPPORT_HOST && rx_rope_takes_write(&c);
}

/* The state_write that alone reads the result of step i, a rope, and can do its work; 0: none. */
static size_t find_write(const rx_gpu_folds *e, size_t i)
{
    const rx_program *p = e->values->program;
    const rx_step *s = &p->steps[i];
    size_t found = 0;
    if (s->op != RX_OP_rope || s->support == RLX_SUPPORT_HOST || !is_inner(p, s->out[0]))
        return 0;
    for (size_t j = i + 1; j <= p->values[s->out[0]].last; j++)
        for (uint32_t k = 0; k < p->steps[j].n_in; k++) {
            const uint32_t in = p->steps[j].in[k];
            if (in == RX_NO_VALUE || e->values->roots[in] != s->out[0])
                continue;
            if (found || p->steps[j].op != RX_OP_state_write || k != 1)
                return 0;
            found = j;
        }
    return found && takes_rope(e, found, i) && operands_stay(e, i, found) ? found : 0;
}

/* ---- Products in front of rope, state_write and mul ------------------------------------------ */

/* The step before `reader` that makes value v and no other; RX_GPU_NO_FOLD: none. */
static uint32_t find_maker(const rx_program *p, uint32_t v, uint32_t reader)
{
    for (uint32_t j = reader; j-- > 0;)
        if (p->steps[j].n_out == 1 && p->steps[j].out[0] == v)
            return j;
    return RX_GPU_NO_FOLD;
}

static const rx_gpu_tail *make_pair_tail(const rx_gpu_values *v, uint32_t product, uint32_t last,
                                         rx_gpu_tail_room *room)
{
    const rx_program *p = v->program;
    const rx_step *mul = &p->steps[last];
    const bool is_second = v->roots[mul->in[1]] == p->steps[product].out[0];
    room->pair_step = find_maker(p, v->roots[mul->in[is_second ? 0 : 1]], last);
    room->pair = rx_gpu_fold_of(v, room->pair_step, room->pair_in);
    room->tail = (rx_gpu_tail){.out = &v->views[mul->out[0]], .pair = &room->pair};
    return &room->tail;
}

const rx_gpu_tail *rx_gpu_tail_of(const rx_gpu_values *v, const uint32_t *fold, uint32_t product,
                                  uint32_t last, rx_gpu_tail_room *room)
{
    const rx_step *s = &v->program->steps[last];
    const bool writes = s->op == RX_OP_state_write;
    if (s->op == RX_OP_mul)
        return make_pair_tail(v, product, last, room);
    room->write_step = writes ? last : RX_GPU_NO_FOLD;
    room->pair_step = RX_GPU_NO_FOLD;
    room->rope_step = writes ? fold[last] : last;
    room->tail = (rx_gpu_tail){.out = &v->views[s->out[0]]};
    if (room->rope_step != RX_GPU_NO_FOLD) {
        room->rope = rx_gpu_fold_of(v, room->rope_step, room->rope_in);
        room->tail.rope = &room->rope;
    }
    if (writes) {
        room->write = rx_gpu_fold_of(v, last, room->write_in);
        room->tail.write = &room->write;
    }
    return &room->tail;
}

/* Step `reader` is the only one that reads value v, as operand `operand`. */
static bool is_only_reader(const rx_gpu_folds *e, uint32_t v, size_t reader, uint32_t operand)
{
    const rx_program *p = e->values->program;
    for (size_t j = 0; j <= p->values[v].last; j++)
        for (uint32_t k = 0; k < p->steps[j].n_in; k++) {
            const uint32_t in = p->steps[j].in[k];
            if (in != RX_NO_VALUE && e->values->roots[in] == v && (j != reader || k != operand))
                return false;
        }
    return true;
}

static bool takes_tail(const rx_gpu_folds *e, const uint32_t *fold, size_t product, uint32_t last)
{
    rx_gpu_tail_room room;
    rx_gpu_call c = rx_gpu_values_call(e->values, product, e->caps);
    c.tail = rx_gpu_tail_of(e->values, fold, (uint32_t)product, last, &room);
    return rx_quant_takes_tail(&c);
}

/* The product whose result only step `reader` reads, as `operand`, and that can as well be done at
 * step i. RX_GPU_NO_FOLD: none. */
static uint32_t find_late(const rx_gpu_folds *e, const uint32_t *fold, uint32_t i, uint32_t reader,
                          uint32_t operand)
{
    const rx_program *p = e->values->program;
    const uint32_t v = e->values->roots[p->steps[reader].in[operand]];
    const uint32_t j = find_maker(p, v, reader);
    if (j == RX_GPU_NO_FOLD || p->steps[j].op != RX_OP_dequant_matmul ||
        p->steps[j].support == RLX_SUPPORT_HOST || !is_inner(p, v) ||
        !is_only_reader(e, v, reader, operand) || !operands_stay(e, j, i))
        return RX_GPU_NO_FOLD;
    const bool stays = fold[j] == RX_GPU_NO_FOLD || operands_stay(e, fold[j], i);
    return stays ? j : RX_GPU_NO_FOLD;
}

/* The product whose result only step i reads, or the rope that step i does: it can be done at step
 * i. RX_GPU_NO_FOLD: none. */
static uint32_t find_product(const rx_gpu_folds *e, const uint32_t *fold, uint32_t i)
{
    const rx_program *p = e->values->program;
    const bool writes = p->steps[i].op == RX_OP_state_write;
    const uint32_t reader = writes && fold[i] != RX_GPU_NO_FOLD ? fold[i] : i;
    const uint32_t operand = p->steps[reader].op == RX_OP_rope ? 0 : 1;
    if ((!writes && p->steps[i].op != RX_OP_rope) || (!writes && fold[i] != RX_GPU_NO_FOLD) ||
        p->steps[i].support == RLX_SUPPORT_HOST)
        return RX_GPU_NO_FOLD;
    const uint32_t j = find_late(e, fold, i, reader, operand);
    return j != RX_GPU_NO_FOLD && takes_tail(e, fold, j, i) ? j : RX_GPU_NO_FOLD;
}

/* Step i multiplies the results of two products of the same rows, which nobody else reads: both can
 * be done there at once. */
static bool find_pair(const rx_gpu_folds *e, const uint32_t *fold, uint32_t i, uint32_t *first,
                      uint32_t *second)
{
    const rx_program *p = e->values->program;
    const rx_step *s = &p->steps[i];
    if (s->op != RX_OP_mul || s->support == RLX_SUPPORT_HOST || !has_form(e, s))
        return false;
    const uint32_t made[2] = {find_late(e, fold, i, i, 0), find_late(e, fold, i, i, 1)};
    if (made[0] == RX_GPU_NO_FOLD || made[1] == RX_GPU_NO_FOLD || made[0] == made[1] ||
        p->steps[made[0]].in[0] != p->steps[made[1]].in[0] || fold[made[0]] != fold[made[1]])
        return false;
    for (int k = 0; k < 2; k++)
        if (takes_fold(e, made[1 - k]) && takes_tail(e, fold, made[k], i)) {
            *first = made[k];
            *second = made[1 - k];
            return true;
        }
    return false;
}

/* ---- All ------------------------------------------------------------------------------------- */

static void set_tail(uint32_t *tail, uint32_t product, uint32_t last)
{
    tail[last] = product;
    tail[product] = last;
}

/* Steps in front of step i or at it; those before have what is to be known of them. */
static void find_fold(const rx_gpu_folds *e, uint32_t i, uint32_t *fold, uint32_t *tail)
{
    const rx_program *p = e->values->program;
    const size_t write = find_write(e, i);
    uint32_t first, second;
    if (write) {
        fold[i] = fold[write] = i;
        return;
    }
    if (find_pair(e, fold, i, &first, &second)) {
        set_tail(tail, first, i);
        tail[second] = i;
        return;
    }
    if (!is_foldable(e, i))
        return;
    fold[i] = i;
    for (size_t j = i + 1; j <= p->values[p->steps[i].out[0]].last; j++)
        if (p->steps[j].n_in && p->steps[j].in[0] == p->steps[i].out[0])
            fold[j] = i;
}

void rx_gpu_find_folds(const rx_gpu_folds *e, uint32_t *fold, uint32_t *tail)
{
    const rx_program *p = e->values->program;
    for (size_t i = 0; i < p->n_steps; i++)
        fold[i] = tail[i] = RX_GPU_NO_FOLD;
    for (uint32_t i = 0; i < p->n_steps; i++)
        find_fold(e, i, fold, tail);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const uint32_t product = find_product(e, fold, i);
        if (product != RX_GPU_NO_FOLD)
            set_tail(tail, product, i);
    }
}
