/* SPDX-License-Identifier: MIT */
/* Steps with tensors larger than a binding may be.
 *
 * A tensor is bound as a window of its memory. When the part of it that a step accesses is larger
 * than a window, the step is split along an axis (rules.c says which axes of which operands
 * correspond) into steps on slices, recursively until they fit. A slice of an operand that must be
 * dense and is not is first copied into scratch memory; slices of a result that are not contiguous
 * are computed in scratch memory and joined by a concat. Copies and concats are split in the same
 * way; a gather instead loops over windows of its table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "gpu/split/part.h"

void rx_part_point(rx_part *p)
{
    p->call.in = p->view;
    p->call.out = p->view + p->call.n_in;
    p->call.is_param = p->is_param;
}

/* ---- Windows --------------------------------------------------------------------------------- */

void rx_gpu_extent(const rx_view *v, uint64_t *begin, uint64_t *end)
{
    const rx_dtype_desc *t = rx_dtype_info(v->dtype);
    int64_t n = rx_view_elements(v), low = 0, high = 0;
    *begin = *end = (uint64_t)(uintptr_t)v->data;
    if (n == 0)
        return;
    for (int i = 0; i < v->rank; i++) {
        int64_t last = (v->dim[i] - 1) * v->stride[i];
        low += last < 0 ? last : 0;
        high += last > 0 ? last : 0;
    }
    *begin += (uint64_t)(low / t->block_size * t->block_bytes);
    *end += (uint64_t)((high + t->block_size) / t->block_size * t->block_bytes);
}

/* Alignment of windows: that of the device, of 16-byte vectors, and of whole elements. */
static uint64_t window_unit(const rx_gpu_caps *caps, rlx_dtype t)
{
    uint64_t unit = caps->binding_align > 16 ? caps->binding_align : 16;
    uint64_t bytes = (uint64_t)rx_dtype_info(t)->block_bytes, whole = unit;
    while (whole % bytes)
        whole += unit;
    return whole;
}

uint64_t rx_part_step(const rx_view *v, int axis)
{
    const rx_dtype_desc *t = rx_dtype_info(v->dtype);
    return (uint64_t)(llabs(v->stride[axis]) / t->block_size * t->block_bytes);
}

static uint64_t round_up16(uint64_t x) { return (x + 15) & ~(uint64_t)15; }

uint64_t rx_part_room(const rx_gpu_caps *caps, rlx_dtype t)
{
    const uint64_t slack = 2 * window_unit(caps, t);
    return caps->max_binding_bytes > slack ? caps->max_binding_bytes - slack : 0;
}

bool rx_part_window(const rx_part *p, size_t i, rx_gpu_window *w)
{
    const rx_gpu_caps *caps = p->call.caps;
    const rx_view *v = &p->view[i];
    uint64_t begin, end;
    *w = (rx_gpu_window){0};
    if (v->rank < 0)
        return true;
    rx_gpu_extent(v, &begin, &end);
    if (begin == end ||
        (round_up16(end) <= caps->max_binding_bytes && (i < p->call.n_in || !begin)))
        return true;
    w->at = begin - begin % window_unit(caps, v->dtype);
    w->bytes = round_up16(end - w->at);
    return w->bytes <= caps->max_binding_bytes;
}

bool rx_gpu_fits(const rx_gpu_call *c)
{
    for (size_t i = 0; i < rx_part_tensors(c); i++) {
        uint64_t begin, end = 0;
        const rx_view *v = i < c->n_in ? &c->in[i] : &c->out[i - c->n_in];
        if (v->rank >= 0)
            rx_gpu_extent(v, &begin, &end);
        if (round_up16(end) > c->caps->max_binding_bytes)
            return false;
    }
    return true;
}

/* ---- A part that fits ------------------------------------------------------------------------ */

/* All tensors fit, and results begin where the kernels require. */
static bool fits_windows(const rx_part *p)
{
    const bool exact = rx_split_is_exact(p->call.op);
    rx_gpu_window w;
    for (size_t i = 0; i < rx_part_tensors(&p->call); i++) {
        if (!rx_part_window(p, i, &w))
            return false;
        if (exact && i >= p->call.n_in && p->view[i].rank >= 0 &&
            (uint64_t)(uintptr_t)p->view[i].data != w.at && rx_view_elements(&p->view[i]))
            return false;
    }
    return true;
}

static bool is_too_large(const rx_part *p)
{
    rx_gpu_window w;
    for (size_t i = 0; i < rx_part_tensors(&p->call); i++)
        if (!rx_part_window(p, i, &w))
            return true;
    return false;
}

/* The window bound for tensor i: no more than the step accesses, unless it is a whole weight. */
static void find_binding(const rx_part *p, size_t i, rx_gpu_window *w)
{
    uint64_t begin, end = 0;
    rx_part_window(p, i, w);
    if (w->bytes || p->is_param[i] || p->view[i].rank < 0)
        return;
    rx_gpu_extent(&p->view[i], &begin, &end);
    w->bytes = end > begin ? round_up16(end) : 0;
}

/* Resolves the bindings of a dispatch to the tensors of the original step, and sets their
 * windows. */
static void place_bindings(rx_gpu_dispatch *d, const rx_part *p, const rx_gpu_window *windows)
{
    for (uint32_t k = 0; k < d->n_bind; k++) {
        if (d->bind[k] == RX_REF_NONE || d->bind[k] >= RX_REF_SCRATCH)
            continue;
        const bool is_in = d->bind[k] < RX_REF_OUT(0);
        const size_t i = is_in ? d->bind[k] - RX_REF_IN(0)
                               : d->bind[k] - RX_REF_OUT(0) + p->call.n_in;
        d->bind[k] = p->ref[i];
        d->window[k] = windows[i];
    }
}

/* Lowers a part whose windows fit. *again: its scratch memory does not fit, so it must be split. */
static rlx_status lower_part(rx_gpu_build *b, const rx_part *p, bool *again)
{
    rx_part q = *p;
    rx_gpu_window windows[RX_SPLIT_MAX];
    const size_t n = b->n, n_scratch = b->n_scratch, n_tables = b->n_tables;
    const size_t n_derived = b->n_derived;
    rx_part_point(&q);
    for (size_t i = 0; i < rx_part_tensors(&q.call); i++) {
        find_binding(p, i, &windows[i]);
        q.view[i].data -= windows[i].at;
        q.is_param[i] = q.is_param[i] && !windows[i].bytes;
    }
    b->asked = 0;
    RLX_TRY(rx_gpu_ops[q.call.op].lower(b, &q.call));
    RLX_TRY(b->status);
    *again = b->asked > q.call.caps->max_binding_bytes;
    if (*again) {
        b->n = n;
        b->n_scratch = n_scratch;
        b->n_tables = n_tables;
        b->n_derived = n_derived;
        return RLX_OK;
    }
    for (size_t i = n; i < b->n; i++)
        place_bindings(&b->dispatch[i], &q, windows);
    for (size_t i = n_derived; i < b->n_derived; i++)
        place_bindings(&b->derived[i].pack, &q, windows);
    return RLX_OK;
}

/* ---- Where to cut ---------------------------------------------------------------------------- */

static bool has_axis(const rx_part *p, const rx_split_cut *cut, size_t i)
{
    return p->view[i].rank > 0 && cut->axis[i] >= 0;
}

bool rx_part_place_fits(const rx_part *p, size_t i, int axis)
{
    const rx_gpu_caps *caps = p->call.caps;
    rx_view one = p->view[i];
    uint64_t begin, end;
    one.dim[axis] = 1;
    rx_gpu_extent(&one, &begin, &end);
    return end - begin <= rx_part_room(caps, one.dtype);
}

/* Bytes of one index of an axis of a dense tensor. */
static uint64_t dense_place(const rx_view *v, int axis)
{
    const rx_dtype_desc *t = rx_dtype_info(v->dtype);
    return (uint64_t)(rx_view_elements(v) / v->dim[axis] / t->block_size * t->block_bytes);
}

/* Whether a slice of tensor i along the axis must be dense and is not, or has too large strides. */
static bool needs_staging(const rx_part *p, const rx_split_cut *cut, size_t i)
{
    const rx_view *v = &p->view[i];
    if (!has_axis(p, cut, i))
        return false;
    if (i >= p->call.n_in && cut->staged)
        return true;
    if (i < p->call.n_in && i < 32 && rx_gpu_ops[p->call.op].strided >> i & 1 &&
        !rlx_dtype_is_packed(v->dtype))
        return p->call.op != RX_OP_copy && !rx_part_place_fits(p, i, cut->axis[i]) &&
               dense_place(v, cut->axis[i]) <= rx_part_room(p->call.caps, v->dtype);
    for (int k = 0; k < cut->axis[i]; k++)
        if (v->dim[k] > 1)
            return true;
    return false;
}

static bool cuts_something(const rx_part *p, const rx_split_cut *cut, bool any)
{
    rx_gpu_window w;
    for (size_t i = 0; i < rx_part_tensors(&p->call); i++)
        if (has_axis(p, cut, i) && p->view[i].dim[cut->axis[i]] > 1 &&
            (any || !rx_part_window(p, i, &w)))
            return true;
    return false;
}

static bool stages_something(const rx_part *p, const rx_split_cut *cut, bool *result)
{
    bool any = false;
    *result = false;
    for (size_t i = 0; i < rx_part_tensors(&p->call); i++) {
        bool needs = needs_staging(p, cut, i);
        any = any || needs;
        *result = *result || (needs && i >= p->call.n_in);
    }
    return any;
}

/* Whether slices of length 1 would fit, as far as this axis matters. */
static bool suffices(const rx_part *p, const rx_split_cut *cut)
{
    rx_gpu_window w;
    for (size_t i = 0; i < rx_part_tensors(&p->call); i++)
        if (has_axis(p, cut, i) && !rx_part_window(p, i, &w) && !needs_staging(p, cut, i) &&
            !rx_part_place_fits(p, i, cut->axis[i]))
            return false;
    return true;
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

/* Byte stride along the axis that is split; of a staged tensor, that of its dense slice. */
static uint64_t step_bytes(const rx_part *p, const rx_split_cut *cut, size_t i)
{
    const rx_view *v = &p->view[i];
    return needs_staging(p, cut, i) ? dense_place(v, cut->axis[i]) : rx_part_step(v, cut->axis[i]);
}

/* Splits are at multiples of this, so that slices of results, and staged ones, begin at multiples
 * of `align` bytes; staged operands are exempt when it is small. */
static int64_t cut_unit(const rx_part *p, const rx_split_cut *cut, uint64_t align)
{
    int64_t unit = cut->multiple ? cut->multiple : 1;
    for (size_t i = 0; i < rx_part_tensors(&p->call); i++) {
        if (!has_axis(p, cut, i))
            continue;
        int64_t want = cut->unit[i] ? cut->unit[i] : 1;
        const bool staged = needs_staging(p, cut, i);
        if (i >= p->call.n_in || staged) {
            uint64_t step = staged ? (uint64_t)rx_dtype_info(p->view[i].dtype)->block_bytes
                                   : step_bytes(p, cut, i);
            uint64_t to = staged && align > 16 ? 16 : align;
            if (staged && i < p->call.n_in && align < 16)
                to = 1;
            want *= (int64_t)to / gcd((int64_t)to, (int64_t)(step ? step : to));
        }
        unit = unit / gcd(unit, want) * want;
    }
    return unit;
}

/* The unit of splits along an axis of n indices: the best alignment that leaves slices. Kernels
 * that write from the start of a binding need that of a window, or staging, unless a concat makes
 * it unnecessary (copies will do). */
static int64_t choose_unit(const rx_part *p, rx_split_cut *cut, int64_t n)
{
    const bool exact = rx_split_is_exact(p->call.op);
    const uint64_t window = window_unit(p->call.caps, RLX_F32);
    int64_t unit = cut_unit(p, cut, window);
    if (unit < n)
        return unit;
    if (exact && p->call.op == RX_OP_concat)
        return 1;
    if (exact && cut->in_place)
        return 0;
    cut->staged = exact;
    unit = cut_unit(p, cut, 16);
    return unit < n ? unit : cut_unit(p, cut, 4);
}

/* How many indices of result 0 need at most n indices of tensor i. */
static int64_t places_of(const rx_split_cut *cut, size_t i, int64_t n)
{
    if (i == 0 && cut->halo.span)
        return n < cut->halo.span ? 0 : (n - cut->halo.span) / cut->halo.step + 1;
    return n / (cut->times[i] ? cut->times[i] : 1) * (cut->unit[i] ? cut->unit[i] : 1);
}

/* Indices of result 0 in a slice. 0: cannot be split. */
static int64_t part_length(const rx_part *p, rx_split_cut *cut, int axis)
{
    const rx_gpu_caps *caps = p->call.caps;
    const int64_t dim = p->call.out[0].dim[axis];
    int64_t length = (dim + 1) / 2, unit = choose_unit(p, cut, dim);
    if (!unit)
        return 0;
    for (size_t i = 0; i < rx_part_tensors(&p->call); i++) {
        if (!has_axis(p, cut, i))
            continue;
        uint64_t step = step_bytes(p, cut, i), slack = 2 * window_unit(caps, p->view[i].dtype);
        uint64_t room = caps->max_binding_bytes > slack ? caps->max_binding_bytes - slack : 0;
        int64_t fits = step ? places_of(cut, i, (int64_t)(room / step)) : length;
        length = fits < length ? fits : length;
    }
    length = length / unit * unit;
    return length ? length : unit < dim ? unit : 0;
}

/* The axis of result 0 to split along: the first one that suffices and needs no staging; else one
 * that suffices, else one without staging, else any: 3 to 0, or -1 when there is none. `any`: even
 * if no tensor is too large, as scratch memory is. */
static int choose_cut(const rx_part *p, bool any, rx_split_cut *best, int *axis)
{
    const rx_view *y = &p->call.out[0];
    int best_rank = -1;
    for (int a = 0; a < y->rank && best_rank < 3; a++) {
        rx_split_cut cut = {.axis = {0}};
        bool result;
        for (size_t i = 0; i < RX_SPLIT_MAX; i++)
            cut.axis[i] = -1;
        if (y->dim[a] < 2 || !rx_split_rule(&p->call, a, &cut) || !cuts_something(p, &cut, any))
            continue;
        int rank = 2 * suffices(p, &cut) + !stages_something(p, &cut, &result);
        rx_split_cut probe = cut;
        if (rank <= best_rank || (result && cut.in_place) || !part_length(p, &probe, a))
            continue;
        best_rank = rank;
        *best = cut;
        *axis = a;
    }
    return best_rank;
}

rx_view rx_part_narrow(const rx_view *v, int axis, int64_t first, int64_t length)
{
    const rx_dtype_desc *t = rx_dtype_info(v->dtype);
    rx_view w = *v;
    w.dim[axis] = length;
    w.data += first * v->stride[axis] / t->block_size * t->block_bytes;
    return w;
}

/* ---- Cutting --------------------------------------------------------------------------------- */


/* A dense tensor of this shape in scratch memory. */
void rx_part_stage(rx_gpu_build *b, rx_view *v, rx_gpu_ref *ref)
{
    uint64_t begin, end;
    int64_t dim[RLX_MAX_RANK];
    memcpy(dim, v->dim, sizeof dim);
    rx_view_set_dense(v, v->dtype, v->rank, dim);
    v->data = NULL;
    rx_gpu_extent(v, &begin, &end);
    *ref = rx_gpu_scratch(b, round_up16(end));
}

static rlx_status add_copy(rx_gpu_build *b, const rx_part *p, size_t from, rx_view to,
                           rx_gpu_ref ref, int depth)
{
    rx_part q = {.call = {.op = RX_OP_copy, .n_in = 1, .n_out = 1, .caps = p->call.caps,
                       .policy = p->call.policy}};
    q.view[0] = p->view[from];
    q.ref[0] = p->ref[from];
    q.view[1] = to;
    q.ref[1] = ref;
    rx_part_point(&q);
    return rx_part_split(b, &q, depth + 1);
}

#define OWN_MEMORY 0xffffffffu

/* Which memory a reference of the step refers to. */
static uint32_t memory_of(const rx_gpu_build *b, rx_gpu_ref ref)
{
    const rx_gpu_call *c = b->whole;
    if (!c->roots || ref == RX_REF_NONE || ref >= RX_REF_SCRATCH)
        return OWN_MEMORY;
    return c->roots[ref < RX_REF_OUT(0) ? ref - RX_REF_IN(0) : c->n_in + (ref - RX_REF_OUT(0))];
}

/* Whether tensors i and j overlap, so that they would be one binding, and that is too large. */
static bool clash(const rx_gpu_build *b, const rx_part *p, size_t i, size_t j)
{
    const uint64_t most = p->call.caps->max_binding_bytes;
    rx_gpu_window x, y;
    if (p->view[i].rank < 0 || p->view[j].rank < 0 ||
        memory_of(b, p->ref[i]) == OWN_MEMORY ||
        memory_of(b, p->ref[i]) != memory_of(b, p->ref[j]))
        return false;
    find_binding(p, i, &x);
    find_binding(p, j, &y);
    uint64_t x_end = x.bytes ? x.at + x.bytes : most, y_end = y.bytes ? y.at + y.bytes : most;
    uint64_t first = x.at < y.at ? x.at : y.at, end = x_end > y_end ? x_end : y_end;
    return x.at < y_end && y.at < x_end && end - first > most;
}

/* Copies operands that clash. */
static rlx_status part_ways(rx_gpu_build *b, rx_part *p, int depth)
{
    for (size_t i = 0; i < p->call.n_in; i++)
        for (size_t j = i + 1; j < rx_part_tensors(&p->call); j++) {
            rx_view copy = p->view[i];
            rx_gpu_ref ref;
            if (!clash(b, p, i, j))
                continue;
            rx_part_stage(b, &copy, &ref);
            RLX_TRY(add_copy(b, p, i, copy, ref, depth));
            p->view[i] = copy;
            p->ref[i] = ref;
            p->is_param[i] = false;
        }
    return RLX_OK;
}

/* lower_part, with bindings that fit the device in one dispatch. */
static rlx_status lower_apart(rx_gpu_build *b, const rx_part *p, int depth, bool *again)
{
    const size_t n = b->n, n_scratch = b->n_scratch;
    rx_part q = *p;
    rx_part_point(&q);
    if (q.call.caps->joins)
        RLX_TRY(part_ways(b, &q, depth));
    RLX_TRY(lower_part(b, &q, again));
    if (*again) {
        b->n = n;
        b->n_scratch = n_scratch;
    }
    return RLX_OK;
}

/* The slice of tensor i for `length` indices of result 0 from `first` on. */
static rx_view narrow_to_slice(const rx_view *v, const rx_split_cut *cut, size_t i, int64_t first,
                               int64_t length)
{
    const int axis = cut->axis[i];
    const int64_t unit = cut->unit[i] ? cut->unit[i] : 1, times = cut->times[i] ? cut->times[i] : 1;
    if (i > 0 || !cut->halo.span)
        return rx_part_narrow(v, axis, first / unit * times, length / unit * times);
    int64_t begin = first * cut->halo.step - cut->halo.before;
    int64_t end = begin + (length - 1) * cut->halo.step + cut->halo.span;
    begin = begin < 0 ? 0 : begin;
    end = end < v->dim[axis] ? end : v->dim[axis];
    return rx_part_narrow(v, axis, begin, end - begin);
}

/* A step that is done in slices along the axes of a cut. */
typedef struct slicing {
    rx_gpu_build *b;
    const rx_part *p;
    const rx_split_cut *cut;
    int depth;
} slicing;

/* One slice: `first` and `length` are indices of result 0. Results that need staging are in q->view
 * and q->ref on return. */
static rlx_status do_slice(const slicing *s, int64_t first, int64_t length, rx_part *q)
{
    rx_gpu_build *b = s->b;
    const rx_part *p = s->p;
    const rx_split_cut *cut = s->cut;
    const size_t n_in = p->call.n_in, n = rx_part_tensors(&p->call);
    *q = *p;
    for (size_t i = 0; i < n; i++) {
        if (has_axis(p, cut, i))
            q->view[i] = narrow_to_slice(&p->view[i], cut, i, first, length);
        if (i >= n_in && needs_staging(p, cut, i))
            rx_part_stage(b, &q->view[i], &q->ref[i]);
    }
    const size_t mark = b->n_scratch;
    rx_part run = *q;
    for (size_t i = 0; i < n_in; i++)
        run.is_param[i] = run.is_param[i] && !has_axis(p, cut, i);
    if (cut->counts) {
        const int64_t dim = p->view[n_in].dim[cut->axis[n_in]];
        run.call.part_first += first * cut->counts;
        run.call.part_total = p->call.part_total ? p->call.part_total : dim * cut->counts;
    }
    if (cut->adjusts) {
        const size_t bytes = rx_ops[p->call.op].attr->size;
        void *attr = rx_arena_alloc(b->arena, bytes);
        if (!attr)
            return b->status = rx_fail_memory(b->err, "the parts of a step", bytes);
        memcpy(attr, p->call.attr, bytes);
        rx_split_adjust(cut, &p->call, attr, first, length);
        run.call.attr = attr;
    }
    for (size_t i = 0; i < n_in; i++) {
        if (!needs_staging(p, cut, i))
            continue;
        rx_part_stage(b, &run.view[i], &run.ref[i]);
        RLX_TRY(add_copy(b, q, i, run.view[i], run.ref[i], s->depth));
    }
    rx_part_point(&run);
    RLX_TRY(rx_part_split(b, &run, s->depth + 1));
    b->n_scratch = mark; /* the next slice may reuse it */
    return RLX_OK;
}

/* Copies the staged slices of result i to their destination. */
static rlx_status join_slices(const slicing *s, size_t i, const rx_part *slices, size_t n)
{
    const rx_steps steps = {s->b, s->p, s->depth};
    rx_tensor *list = rx_steps_list(&steps, (int64_t)n);
    if (!list)
        return s->b->status;
    for (size_t k = 0; k < n; k++)
        list[k] = (rx_tensor){slices[k].view[i], slices[k].ref[i]};
    rx_steps_join(&steps, s->cut->axis[i], list, n, rx_steps_tensor(&steps, i));
    return s->b->status;
}

static rlx_status cut_part(rx_gpu_build *b, const rx_part *p, const rx_split_cut *cut,
                           int64_t length, int64_t dim, int depth)
{
    const slicing s = {b, p, cut, depth};
    const size_t mark = b->n_scratch, n_in = p->call.n_in;
    const size_t n = (size_t)((dim + length - 1) / length);
    bool staged;
    stages_something(p, cut, &staged);
    rx_part *slices = rx_arena_array(b->arena, staged ? n : 1, sizeof *slices);
    if (!slices)
        return b->status = rx_fail_memory(b->err, "the parts of a step", sizeof *slices);
    for (size_t k = 0; k < n; k++) {
        int64_t first = (int64_t)k * length, left = dim - first;
        RLX_TRY(do_slice(&s, first, left < length ? left : length, &slices[staged ? k : 0]));
    }
    for (size_t i = n_in; i < rx_part_tensors(&p->call) && staged; i++)
        if (needs_staging(p, cut, i))
            RLX_TRY(join_slices(&s, i, slices, n));
    b->n_scratch = mark;
    return b->status;
}

/* ---- Operations of their own kind ------------------------------------------------------------ */

/* A view operation as the copy of a view with the shape of its result. */
static void make_copy(rx_part *p)
{
    rx_view from = p->view[1];
    if (p->call.op == RX_OP_copy || p->call.op == RX_OP_reshape) {
        int64_t dim[RLX_MAX_RANK];
        memcpy(dim, p->view[0].dim, sizeof dim);
        char *data = p->view[1].data;
        if (rlx_dtype_is_packed(p->view[0].dtype))
            return;
        rx_view_set_dense(&p->view[1], p->view[1].dtype, p->view[0].rank, dim);
        p->view[1].data = data;
    } else if (rx_view_apply(p->call.op, p->call.attr, &p->view[0], &from)) {
        p->view[0] = from;
    } else {
        return;
    }
    p->call.op = RX_OP_copy;
    p->call.attr = NULL;
}

/* A concat of contiguous parts: one copy each. */
static bool is_row(const rx_part *p)
{
    const int64_t axis = ((const rx_axis_attr *)p->call.attr)->axis;
    for (int64_t i = 0; i < axis; i++)
        if (p->call.out[0].dim[i] > 1)
            return false;
    return true;
}

static rlx_status copy_row(rx_gpu_build *b, const rx_part *p, int depth)
{
    const int axis = (int)((const rx_axis_attr *)p->call.attr)->axis;
    const size_t y = p->call.n_in;
    int64_t first = 0;
    for (size_t i = 0; i < p->call.n_in; i++) {
        int64_t length = p->view[i].dim[axis];
        rx_view to = rx_part_narrow(&p->view[y], axis, first, length);
        if (rx_view_elements(&p->view[i]))
            RLX_TRY(add_copy(b, p, i, to, p->ref[y], depth));
        first += length;
    }
    return b->status;
}

/* The axis of its table along which a gather may loop over windows, the outermost one; -1: none. */
static int table_axis(const rx_part *p)
{
    const rx_op op = p->call.op;
    int axis = 0;
    if (op == RX_OP_gather)
        axis = (int)((const rx_axis_attr *)p->call.attr)->axis;
    else if (op == RX_OP_gather_nd)
        axis = (int)((const rx_gather_nd_attr *)p->call.attr)->batch_dims;
    else if (op != RX_OP_dequant_moe_weights)
        return -1;
    for (int i = 0; i < axis; i++)
        if (p->view[0].dim[i] > 1)
            return -1;
    return p->call.part_total ? -1 : axis;
}

/* A gather from each window of its table, for the indices in that window. */
static rlx_status walk_table(rx_gpu_build *b, const rx_part *p, int axis, int depth)
{
    rx_split_cut cut = {.axis = {axis}};
    const rx_gpu_caps *caps = p->call.caps;
    const int64_t rows = p->view[0].dim[axis];
    const uint64_t row = step_bytes(p, &cut, 0), slack = 2 * window_unit(caps, p->view[0].dtype);
    const uint64_t room = caps->max_binding_bytes > slack ? caps->max_binding_bytes - slack : 0;
    int64_t length = row ? (int64_t)(room / row) : 0;
    if (!length)
        return rx_gpu_fail(b, &p->call, "a row of the table is larger than a binding");
    for (int64_t first = 0; first < rows; first += length) {
        rx_part q = *p;
        int64_t left = rows - first;
        q.view[0] = rx_part_narrow(&p->view[0], axis, first, left < length ? left : length);
        q.is_param[0] = false;
        q.call.part_first = first;
        q.call.part_total = rows;
        rx_part_point(&q);
        RLX_TRY(rx_part_split(b, &q, depth + 1));
    }
    return b->status;
}

rlx_status rx_part_fail(rx_gpu_build *b, const rx_part *p)
{
    const rx_gpu_caps *caps = p->call.caps;
    char what[96] = "its scratch memory";
    rx_gpu_window w;
    for (size_t i = rx_part_tensors(&p->call); i-- > 0;) {
        if (rx_part_window(p, i, &w))
            continue;
        snprintf(what, sizeof what, "%s %zu with %llu bytes",
                 i < p->call.n_in ? "operand" : "result", i < p->call.n_in ? i : i - p->call.n_in,
                 (unsigned long long)w.bytes);
    }
    return b->status = rx_fail(b->err, RLX_UNSUPPORTED, "%s: %s is larger than a binding (%llu "
                               "bytes) and cannot be cut", rx_ops[p->call.op].name, what,
                               (unsigned long long)caps->max_binding_bytes);
}

/* Computes results in scratch memory that do not begin where the kernels require, then copies
 * them. */
static rlx_status lower_aside(rx_gpu_build *b, const rx_part *p, int depth)
{
    const size_t mark = b->n_scratch, n_in = p->call.n_in;
    rx_part q = *p;
    for (size_t i = n_in; i < rx_part_tensors(&p->call); i++)
        if (p->view[i].rank >= 0)
            rx_part_stage(b, &q.view[i], &q.ref[i]);
    RLX_TRY(rx_part_split(b, &q, depth + 1));
    for (size_t i = n_in; i < rx_part_tensors(&p->call); i++)
        if (p->view[i].rank >= 0)
            RLX_TRY(add_copy(b, &q, i, p->view[i], p->ref[i], depth));
    b->n_scratch = mark;
    return b->status;
}

/* ---- Entry ----------------------------------------------------------------------------------- */

#define MAX_DEPTH 32

rlx_status rx_part_split(rx_gpu_build *b, const rx_part *p, int depth)
{
    rx_part q = *p;
    rx_split_cut cut;
    bool any = false;
    int axis = 0;
    rx_gpu_window w;
    rx_part_point(&q);
    if (b->status != RLX_OK)
        return b->status;
    if (fits_windows(&q)) {
        RLX_TRY(lower_apart(b, &q, depth, &any));
        if (!any)
            return b->status;
    }
    any = any || !is_too_large(&q);
    if (depth > MAX_DEPTH)
        return rx_part_fail(b, &q);
    if (rx_gpu_ops[q.call.op].lower == rx_gpu_lower_copy)
        make_copy(&q);
    if (table_axis(&q) >= 0 && !rx_part_window(&q, 0, &w))
        return walk_table(b, &q, table_axis(&q), depth);
    if (q.call.op == RX_OP_concat && is_row(&q))
        return copy_row(b, &q, depth);
    int quality = choose_cut(&q, any, &cut, &axis);
    /* partial results are as large as the result: one that does not fit is split first */
    const bool fits_result = quality < 0 || rx_part_window(&q, q.call.n_in, &w);
    if (quality < 3 && rx_gpu_ops[q.call.op].lower == rx_gpu_lower_reduce && !any && fits_result)
        return rx_split_long(b, &q, depth);
    const rx_split_by_keys keys = quality < 3 ? rx_split_takes_keys(&q) : RX_KEYS_NO;
    if (keys == RX_KEYS_YES)
        return rx_split_keys(b, &q, depth);
    if (keys == RX_KEYS_FEWER_ROWS)
        quality = choose_cut(&q, true, &cut, &axis);
    if (quality < 0 && any && !fits_windows(&q) && q.call.op != RX_OP_state_write)
        return lower_aside(b, &q, depth);
    if (quality < 0)
        return rx_split_long(b, &q, depth);
    return cut_part(b, &q, &cut, part_length(&q, &cut, axis), q.call.out[0].dim[axis], depth);
}

rlx_status rx_gpu_split(rx_gpu_build *b, const rx_gpu_call *c)
{
    rx_part p = {.call = *c};
    b->whole = c;
    if (rx_part_tensors(c) > RX_SPLIT_MAX)
        return rx_gpu_fail(b, c, "too many operands of which some are larger than a binding");
    for (size_t i = 0; i < rx_part_tensors(c); i++) {
        bool is_in = i < c->n_in;
        p.view[i] = is_in ? c->in[i] : c->out[i - c->n_in];
        p.ref[i] = is_in ? RX_REF_IN(i) : RX_REF_OUT(i - c->n_in);
        p.is_param[i] = is_in && c->is_param && c->is_param[i];
    }
    rx_part_point(&p);
    for (size_t i = 0; i < c->n_in; i++) {
        rx_view copy = p.view[i];
        rx_gpu_ref ref;
        if (!(c->aliased >> i & 1) || copy.rank < 0)
            continue;
        rx_part_stage(b, &copy, &ref);
        RLX_TRY(add_copy(b, &p, i, copy, ref, 0));
        p.view[i] = copy;
        p.ref[i] = ref;
        p.is_param[i] = false;
    }
    p.call.aliased = 0;
    return rx_part_split(b, &p, 0);
}
