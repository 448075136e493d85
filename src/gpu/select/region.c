/* SPDX-License-Identifier: MIT */
/* Elementwise operations and fused regions on GPUs: each becomes one emitted kernel (spirv/emit.h).
 * A region with more operands than a kernel may bind is cut: some intermediate values go through
 * scratch memory. */
#include <string.h>

#include "gpu/select/region.h"
#include "ops/region.h"

/* ---- Axes ------------------------------------------------------------------------------------ */

static bool can_merge(const rx_gpu_axes *x, size_t n_in, int64_t dim, const int64_t *stride)
{
    for (size_t j = 0; j < n_in; j++)
        if (x->stride[j][x->rank - 1] != stride[j] * dim)
            return false;
    return true;
}

void rx_gpu_collapse(const rx_gpu_operand *in, size_t n_in, const rx_view *shape, rx_gpu_axes *x)
{
    memset(x, 0, sizeof *x);
    for (int i = 0; i < shape->rank; i++) {
        int64_t stride[RX_EMIT_MAX_BIND];
        if (shape->dim[i] == 1)
            continue;
        for (size_t j = 0; j < n_in; j++)
            stride[j] = in[j].view.stride[i];
        const bool merges = x->rank > 0 && can_merge(x, n_in, shape->dim[i], stride);
        const int at = merges ? x->rank - 1 : x->rank++;
        x->dim[at] = merges ? x->dim[at] * shape->dim[i] : shape->dim[i];
        for (size_t j = 0; j < n_in; j++)
            x->stride[j][at] = stride[j];
    }
    if (x->rank == 0) {
        x->rank = 1;
        x->dim[0] = 1;
    }
}

/* ---- One kernel ------------------------------------------------------------------------------ */

typedef struct planner {
    rx_gpu_axes axes;
    const rx_gpu_operand *in, *out;
    size_t n_in, n_out;
    int64_t n_elements;
    uint32_t least;  /* elements of an item that fill whole words of every output */
    uint32_t widest; /* bytes of the largest element read or written in every lane */
} planner;

static uint32_t element_bytes(const rx_view *v)
{
    return (uint32_t)rlx_dtype_block_bytes(v->dtype);
}

static int64_t inner_stride(const planner *p, size_t input)
{
    return p->axes.stride[input][p->axes.rank - 1];
}

/* Whether `e` consecutive elements of the input are contiguous and aligned for every item. */
static bool is_wide(const planner *p, size_t input, uint32_t e)
{
    const rx_view *v = &p->in[input].view;
    if (inner_stride(p, input) != 1 || e * element_bytes(v) < 4 || rx_gpu_offset(v) % e)
        return false;
    for (int i = 0; i + 1 < p->axes.rank; i++)
        if (p->axes.stride[input][i] % (int64_t)e)
            return false;
    return true;
}

/* Whether items of e elements may be used: rows are multiples of them, or there is one row, whose
 * last item may extend into the padding of each operand. */
static bool divides(const planner *p, uint32_t e)
{
    for (size_t i = 0; i < p->n_out; i++)
        if (rx_gpu_offset(&p->out[i].view) % e)
            return false;
    if (p->axes.dim[p->axes.rank - 1] % (int64_t)e == 0)
        return true;
    if (p->axes.rank > 1 || e * p->widest > 16)
        return false;
    for (size_t j = 0; j < p->n_in; j++)
        if (inner_stride(p, j) != 0 && !is_wide(p, j, e))
            return false;
    return true;
}

static void measure(planner *p)
{
    p->least = 1;
    p->widest = 1;
    for (size_t i = 0; i < p->n_out; i++) {
        const uint32_t bytes = element_bytes(&p->out[i].view);
        if (bytes < 4 && 4 / bytes > p->least)
            p->least = 4 / bytes;
        if (bytes > p->widest)
            p->widest = bytes;
    }
    for (size_t j = 0; j < p->n_in; j++) {
        const uint32_t bytes = element_bytes(&p->in[j].view);
        if (inner_stride(p, j) != 0 && bytes > p->widest)
            p->widest = bytes;
    }
}

#define MAX_UNROLLED 128 /* instructions times elements of an item, beyond 4 elements */

/* Elements of an item: 16 bytes of the widest operand where possible. */
static void choose_items(const planner *p, rx_emit_kernel *k)
{
    const uint32_t n_instr = k->region ? k->region->n_instr : 1;
    uint32_t e = 16 / p->widest;
    while (e > 4 && e * n_instr > MAX_UNROLLED)
        e /= 2;
    if (e < p->least)
        e = p->least;
    while (e > p->least && !divides(p, e))
        e /= 2;
    k->per_item = e;
    k->singly = !divides(p, e);
    k->rank = p->axes.rank;
    for (int i = 0; i < k->rank; i++)
        k->dim[i] = (uint32_t)p->axes.dim[i];
    k->n_elements = (uint32_t)p->n_elements;
    k->n_items = (uint32_t)((p->n_elements + e - 1) / e);
    if (!k->singly)
        k->dim[k->rank - 1] = (k->dim[k->rank - 1] + e - 1) / e;
}

static bool is_constant(const planner *p, size_t input)
{
    for (int i = 0; i < p->axes.rank; i++)
        if (p->axes.stride[input][i] != 0)
            return false;
    return true;
}

static void plan_input(const planner *p, rx_emit_kernel *k, size_t j)
{
    rx_emit_operand *o = &k->in[j];
    const int last = p->axes.rank - 1;
    const uint32_t offset = rx_gpu_offset(&p->in[j].view), e = k->per_item;
    const int64_t *stride = p->axes.stride[j];
    *o = (rx_emit_operand){.dtype = p->in[j].view.dtype, .offset = offset};
    for (int i = 0; i <= last; i++)
        o->stride[i] = (uint32_t)stride[i];
    if (k->singly) {
        o->access = is_constant(p, j) ? RX_ACCESS_SPLAT : RX_ACCESS_EACH;
    } else if (stride[last] == 0) {
        o->access = RX_ACCESS_SPLAT;
    } else if (is_wide(p, j, e)) {
        o->access = RX_ACCESS_WIDE;
        o->offset = offset / e;
        for (int i = 0; i < last; i++)
            o->stride[i] = (uint32_t)(stride[i] / (int64_t)e);
    } else {
        o->access = RX_ACCESS_EACH;
        o->step = e > 1 ? (uint32_t)stride[last] : 0;
        o->stride[last] = (uint32_t)(stride[last] * (int64_t)e);
    }
}

/* Index arithmetic has 32 bits. */
static bool fits_index(const rx_view *v)
{
    uint64_t furthest = (uint64_t)(uintptr_t)v->data;
    const uint64_t bytes = element_bytes(v);
    for (int i = 0; i < v->rank; i++)
        if (v->stride[i] > 0)
            furthest += (uint64_t)(v->dim[i] - 1) * (uint64_t)v->stride[i] * bytes;
    return furthest / bytes < UINT32_MAX / (bytes == 8 ? 2 : 1) - 16;
}

static rlx_status check_operands(rx_gpu_build *b, const rx_gpu_call *c, const planner *p)
{
    for (size_t j = 0; j < p->n_in; j++)
        if (!fits_index(&p->in[j].view))
            return rx_gpu_fail(b, c, "an operand has more elements than 32-bit indices reach");
    for (size_t i = 0; i < p->n_out; i++) {
        if (!fits_index(&p->out[i].view) || !rx_view_is_dense(&p->out[i].view))
            return rx_gpu_fail(b, c, "a result is not dense or larger than 32-bit indices reach");
        if ((uintptr_t)p->out[i].view.data % 4)
            return rx_gpu_fail(b, c, "a result does not begin at a whole word");
    }
    return RLX_OK;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

rlx_status rx_gpu_add_region(rx_gpu_build *b, const rx_gpu_call *c, const rx_region *region,
                             const rx_gpu_operand *in, size_t n_in, const rx_gpu_operand *out)
{
    planner p = {.in = in, .out = out, .n_in = n_in, .n_out = region ? region->n_out : 1};
    p.n_elements = rx_view_elements(&out[0].view);
    if (p.n_elements == 0)
        return RLX_OK;
    RLX_TRY(check_operands(b, c, &p));
    rx_gpu_collapse(in, n_in, &out[0].view, &p.axes);
    measure(&p);

    rx_emit_kernel k = {.region = region, .n_in = (uint32_t)n_in, .n_out = (uint32_t)p.n_out,
                        .local = min_u32(256, c->caps->max_invocations),
                        .max_push = min_u32(c->caps->max_push_bytes / 4, RX_GPU_MAX_PUSH)};
    choose_items(&p, &k);
    for (size_t j = 0; j < n_in; j++)
        plan_input(&p, &k, j);
    for (size_t i = 0; i < p.n_out; i++)
        k.out[i] = (rx_emit_operand){.dtype = out[i].view.dtype, .access = RX_ACCESS_WIDE,
                                     .offset = rx_gpu_offset(&out[i].view) / k.per_item};

    size_t n_words = 0;
    const uint32_t *code = rx_emit_kernel_words(&k, b->arena, &n_words);
    if (!code)
        return b->status = rx_fail(b->err, RLX_NO_MEMORY, "out of memory: the kernel of %s",
                                   rx_ops[c->op].name);
    rx_gpu_dispatch *d = rx_gpu_add(b, RX_K_EMITTED, k.local);
    d->code = code;
    d->code_words = n_words;
    for (size_t j = 0; j < n_in; j++)
        rx_gpu_bind(b, d, in[j].ref, false);
    for (size_t i = 0; i < p.n_out; i++)
        rx_gpu_bind(b, d, out[i].ref, true);
    for (uint32_t i = 0; i < k.n_push; i++)
        rx_gpu_push(b, d, k.push[i]);
    rx_gpu_grid(d, c->caps, (k.n_items + (uint64_t)k.local - 1) / k.local);
    return b->status;
}

/* ---- Regions with many operands -------------------------------------------------------------- */

/* A region being cut into kernels. Values are the inputs, then the instructions. */
typedef struct cutter {
    rx_gpu_build *b;
    const rx_gpu_call *c;
    const rx_region *r;
    const rx_view *shape;
    uint32_t n_values, limit; /* limit: bindings of a kernel */
    rx_gpu_operand *ready;    /* by value, where is_ready */
    bool *is_ready, *in_cone;
    uint16_t *number;         /* by value: its index in the part */
    rx_instr *instr;          /* of the part */
    rx_gpu_operand *operands; /* of the part: `limit` */
} cutter;

/* Values to be computed by one kernel, and their destinations. */
typedef struct targets {
    uint16_t value[RX_EMIT_MAX_BIND];
    rx_gpu_operand to[RX_EMIT_MAX_BIND];
    uint32_t n;
} targets;

/* Marks the values that the targets depend on, down to those in memory; returns the number of the
 * latter. */
static uint32_t mark_cone(cutter *x, const targets *t)
{
    uint32_t n_ready = 0;
    memset(x->in_cone, 0, x->n_values * sizeof *x->in_cone);
    for (uint32_t i = 0; i < t->n; i++)
        x->in_cone[t->value[i]] = true;
    for (uint32_t v = x->n_values; v-- > 0;) {
        if (!x->in_cone[v])
            continue;
        if (x->is_ready[v]) {
            n_ready++;
            continue;
        }
        const rx_instr *in = &x->r->instr[v - x->r->n_in];
        for (int a = 0; a < rx_ops[in->op].min_in; a++)
            x->in_cone[in->arg[a]] = true;
    }
    return n_ready;
}

static bool fits(cutter *x, const targets *t)
{
    return mark_cone(x, t) + t->n <= x->limit;
}

/* Adds the kernel that computes the targets, which must fit. */
static rlx_status make_targets(cutter *x, const targets *t)
{
    rx_region part = {.instr = x->instr, .n_out = (uint16_t)t->n};
    uint16_t out[RX_EMIT_MAX_BIND];
    mark_cone(x, t);
    for (uint32_t v = 0; v < x->n_values; v++) {
        if (!x->in_cone[v] || !x->is_ready[v])
            continue;
        x->number[v] = part.n_in;
        x->operands[part.n_in++] = x->ready[v];
    }
    for (uint32_t v = x->r->n_in; v < x->n_values; v++) {
        if (!x->in_cone[v] || x->is_ready[v])
            continue;
        rx_instr *in = &x->instr[part.n_instr];
        *in = x->r->instr[v - x->r->n_in];
        for (int a = 0; a < rx_ops[in->op].min_in; a++)
            in->arg[a] = x->number[in->arg[a]];
        x->number[v] = (uint16_t)(part.n_in + part.n_instr++);
    }
    for (uint32_t i = 0; i < t->n; i++)
        out[i] = (uint16_t)(x->number[t->value[i]] - part.n_in);
    part.out = out;
    return rx_gpu_add_region(x->b, x->c, &part, x->operands, part.n_in, t->to);
}

/* Materialises one instruction of the targets' cone in scratch memory: the one that replaces the
 * most inputs and still fits. Floats keep 32 bits there. */
static rlx_status cut_once(cutter *x, const targets *whole)
{
    targets best = {0}, one = {.n = 1};
    uint32_t most = 0;
    for (uint32_t v = x->r->n_in; v < x->n_values; v++) {
        mark_cone(x, whole);
        if (!x->in_cone[v] || x->is_ready[v] || v == whole->value[0])
            continue;
        one.value[0] = (uint16_t)v;
        const uint32_t n = mark_cone(x, &one);
        if (n + 1 <= x->limit && n >= most) {
            most = n;
            best = one;
        }
    }
    if (best.n == 0)
        return rx_gpu_fail(x->b, x->c, "the region needs more bindings than the device has");
    const uint16_t v = best.value[0];
    rlx_dtype t = x->r->instr[v - x->r->n_in].dtype;
    if (rlx_dtype_is_float(t))
        t = RLX_F32;
    rx_view view;
    rx_view_set_dense(&view, t, x->shape->rank, x->shape->dim);
    view.data = NULL;
    const uint64_t bytes = (uint64_t)rx_view_elements(&view) * element_bytes(&view);
    best.to[0] = (rx_gpu_operand){view, rx_gpu_scratch(x->b, (bytes + 15) / 16 * 16)};
    RLX_TRY(make_targets(x, &best));
    x->ready[v] = best.to[0];
    x->is_ready[v] = true;
    return RLX_OK;
}

/* Results from the last to the first, because the first may reuse the memory of an input; as many
 * at a time as fit. */
static rlx_status make_results(cutter *x, const targets *all)
{
    uint32_t left = all->n;
    while (left > 0) {
        targets t = {.n = 1};
        t.value[0] = all->value[--left];
        t.to[0] = all->to[left];
        while (!fits(x, &t))
            RLX_TRY(cut_once(x, &t));
        while (left > 0 && t.n < RX_EMIT_MAX_BIND) {
            targets more = t;
            more.value[more.n] = all->value[left - 1];
            more.to[more.n++] = all->to[left - 1];
            if (!fits(x, &more))
                break;
            t = more;
            left--;
        }
        RLX_TRY(make_targets(x, &t));
    }
    return RLX_OK;
}

static rlx_status init_cutter(cutter *x)
{
    rx_arena *a = x->b->arena;
    const size_t n = x->n_values;
    x->ready = rx_arena_array_zero(a, n, sizeof *x->ready);
    x->is_ready = rx_arena_array_zero(a, n, sizeof *x->is_ready);
    x->in_cone = rx_arena_array_zero(a, n, sizeof *x->in_cone);
    x->number = rx_arena_array_zero(a, n, sizeof *x->number);
    x->instr = rx_arena_array_zero(a, (uint64_t)x->r->n_instr + 1, sizeof *x->instr);
    x->operands = rx_arena_array_zero(a, RX_EMIT_MAX_BIND, sizeof *x->operands);
    if (!x->ready || !x->is_ready || !x->in_cone || !x->number || !x->instr || !x->operands)
        return x->b->status = rx_fail(x->b->err, RLX_NO_MEMORY, "out of memory: a region");
    return RLX_OK;
}

/* ---- Entry ----------------------------------------------------------------------------------- */

/* v with the shape of `like`: broadcast axes get stride 0. */
static rx_view broadcast(const rx_view *v, const rx_view *like)
{
    rx_view w = *like;
    w.data = v->data;
    w.dtype = v->dtype;
    const int added = like->rank - v->rank;
    for (int i = 0; i < like->rank; i++)
        w.stride[i] = i < added || v->dim[i - added] == 1 ? 0 : v->stride[i - added];
    return w;
}

static rlx_status lower_program(rx_gpu_build *b, const rx_gpu_call *c, const rx_region *r)
{
    targets all = {0};
    cutter x = {.b = b, .c = c, .r = r, .n_values = (uint32_t)r->n_in + r->n_instr};
    x.limit = min_u32(min_u32(c->caps->max_bindings, RX_GPU_MAX_BIND), RX_EMIT_MAX_BIND);
    for (uint16_t i = 0; i < r->n_out && i < c->n_out; i++) {
        if (c->out[i].rank < 0 || all.n == RX_EMIT_MAX_BIND)
            continue;
        all.value[all.n] = (uint16_t)(r->n_in + r->out[i]);
        all.to[all.n++] = (rx_gpu_operand){c->out[i], RX_REF_OUT(i)};
        x.shape = &c->out[i];
    }
    if (!x.shape || rx_view_elements(x.shape) == 0)
        return RLX_OK;
    RLX_TRY(init_cutter(&x));
    for (uint16_t j = 0; j < r->n_in; j++) {
        x.ready[j] = (rx_gpu_operand){broadcast(&c->in[j], x.shape), RX_REF_IN(j)};
        x.is_ready[j] = true;
    }
    if (all.n < RX_EMIT_MAX_BIND && fits(&x, &all))
        return make_targets(&x, &all);
    return make_results(&x, &all);
}

rlx_status rx_gpu_lower_region(rx_gpu_build *b, const rx_gpu_call *c)
{
    if (c->op == RX_OP_region)
        return lower_program(b, c, c->attr);
    rx_instr in = rx_instr_make(c->op, c->attr, c->out[0].dtype);
    for (uint16_t i = 0; i < 3; i++)
        in.arg[i] = i;
    const uint16_t out = 0;
    const rx_region one = {.n_in = (uint16_t)c->n_in, .n_instr = 1, .n_out = 1, .instr = &in,
                           .out = &out};
    return lower_program(b, c, &one);
}
