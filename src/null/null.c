/* SPDX-License-Identifier: MIT */
/* The backend "null": computes nothing and checks everything. A program is validated when its
 * session is created; every run is simulated with a shadow arena that knows which value owns which
 * bytes. A failure is a bug of the compiler: RLX_INTERNAL. Reads give zeros. */
#include <stdatomic.h>
#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "null/shadow.h"
#include "runtime/backend.h"
#include "runtime/bound.h"

#define ALIGN 64

struct rx_device {
    rx_target target;
};

struct rx_weights {
    rx_program *program;
};

struct rx_exec {
    rx_program *program;
    rx_arena arena;      /* owns the arrays below */
    rx_bound at;         /* data: offsets from `origin` */
    uint32_t *state_now; /* for each state: the value that is its newest version */
    rx_shadow shadow;
    atomic_uint_fast64_t submitted;
};

/* Stand-in address of every base value; never read. */
static char origin[1];

static rlx_status fail_value(rlx_error *err, size_t value, const char *what)
{
    return rx_fail(err, RLX_INTERNAL, "the program is wrong: value %zu %s", value, what);
}

static rlx_status fail_step(const rx_program *p, size_t step, rlx_error *err, const char *what)
{
    const rx_step *s = &p->steps[step];
    return rx_fail(err, RLX_INTERNAL, "the program is wrong: step %zu, %s '%s': %s", step,
                   rx_ops[s->op].name, s->name ? s->name : "", what);
}

/* ---- The program as a whole ------------------------------------------------------------------ */

static rlx_status check_place(const rx_program *p, size_t i, rlx_error *err)
{
    const rx_pvalue *v = &p->values[i];
    const size_t counts[] = {[RX_SPACE_INPUT] = p->n_inputs,
                             [RX_SPACE_PARAM] = p->n_params,
                             [RX_SPACE_CONSTANT] = p->n_constants,
                             [RX_SPACE_STATE] = p->n_states};
    if ((unsigned)v->space > RX_SPACE_STATE)
        return fail_value(err, i, "has no known place");
    if (v->space == RX_SPACE_NONE)
        return RLX_OK;
    if (v->space != RX_SPACE_ARENA)
        return v->index < counts[v->space] ? RLX_OK
                                           : fail_value(err, i, "has an index past the end");
    if (v->offset % ALIGN)
        return fail_value(err, i, "is not aligned in the arena");
    if (v->offset > p->memory.arena_bytes || v->bytes > p->memory.arena_bytes - v->offset)
        return fail_value(err, i, "reaches past the end of the arena");
    return RLX_OK;
}

static rlx_status check_value(const rx_program *p, size_t i, rlx_error *err)
{
    const rx_pvalue *v = &p->values[i];
    if (v->shape.rank < 0 || v->shape.rank > RLX_MAX_RANK || v->dtype <= RLX_NO_TYPE ||
        v->dtype >= RLX_N_DTYPES)
        return fail_value(err, i, "has no type or shape");
    int64_t n = 1;
    for (int k = 0; k < v->shape.rank; k++) {
        rlx_dim d = v->shape.dim[k];
        if (d < 0 && (uint64_t)(-d - 2) >= p->n_dims)
            return fail_value(err, i, "has an unknown dimension");
        int64_t bound = d < 0 ? p->dims[-d - 2].bound : d;
        if (__builtin_mul_overflow(n, bound, &n))
            return fail_value(err, i, "is too large");
    }
    if (v->view_of >= 0) {
        if ((size_t)v->view_of >= i)
            return fail_value(err, i, "is a view of a later value");
        return rx_ops[v->view_op].flags & RX_OP_VIEW
                   ? RLX_OK
                   : fail_value(err, i, "is a view by an operation that makes no views");
    }
    uint64_t bytes;
    if (!rx_dtype_bytes(v->dtype, n, &bytes))
        return fail_value(err, i, "has no size");
    if (v->space != RX_SPACE_NONE && v->bytes < bytes)
        return fail_value(err, i, "has less memory than its elements need");
    return check_place(p, i, err);
}

static rlx_status check_ports(const rx_program *p, const rx_port *ports, size_t n, rx_space space,
                              rlx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!ports[i].name || ports[i].value >= p->n_values)
            return rx_fail(err, RLX_INTERNAL, "the program is wrong: port %zu of space %d has no "
                           "name or value", i, (int)space);
        const rx_pvalue *v = &p->values[ports[i].value];
        if (space == RX_SPACE_NONE ? v->space == RX_SPACE_NONE || !v->dense
                                   : v->space != space || v->index != i || v->view_of >= 0)
            return rx_fail(err, RLX_INTERNAL, "the program is wrong: port '%s' leads to value %u, "
                           "which is not dense or elsewhere", ports[i].name,
                           (unsigned)ports[i].value);
    }
    return RLX_OK;
}

static rlx_status check_step(const rx_program *p, size_t i, rlx_error *err)
{
    const rx_step *s = &p->steps[i];
    if ((unsigned)s->op >= RX_N_OPS || rx_ops[s->op].flags & RX_OP_LEAF)
        return rx_fail(err, RLX_INTERNAL, "the program is wrong: step %zu has no operation", i);
    for (uint32_t k = 0; k < s->n_in; k++)
        if (s->in[k] != RX_NO_VALUE && s->in[k] >= p->n_values)
            return fail_step(p, i, err, "an operand is no value");
    for (uint32_t k = 0; k < s->n_out; k++) {
        if (s->out[k] >= p->n_values)
            return fail_step(p, i, err, "a result is no value");
        const rx_pvalue *v = &p->values[s->out[k]];
        if (v->view_of >= 0 || !v->dense)
            return fail_step(p, i, err, "a result is a view or not dense");
    }
    return RLX_OK;
}

static rlx_status check_program(const rx_program *p, rlx_error *err)
{
    for (size_t i = 0; i < p->n_values; i++)
        RLX_TRY(check_value(p, i, err));
    RLX_TRY(check_ports(p, p->inputs, p->n_inputs, RX_SPACE_INPUT, err));
    RLX_TRY(check_ports(p, p->params, p->n_params, RX_SPACE_PARAM, err));
    RLX_TRY(check_ports(p, p->states, p->n_states, RX_SPACE_STATE, err));
    RLX_TRY(check_ports(p, p->outputs, p->n_outputs, RX_SPACE_NONE, err));
    for (size_t i = 0; i < p->n_steps; i++)
        RLX_TRY(check_step(p, i, err));
    return RLX_OK;
}

/* ---- Views with the dimensions now bound ----------------------------------------------------- */

static bool inside_base(const rx_view *v, const rx_view *base)
{
    int64_t lo = (v->data - origin) / rlx_dtype_block_bytes(v->dtype), hi = lo;
    for (int i = 0; i < v->rank; i++) {
        int64_t reach = (v->dim[i] - 1) * v->stride[i];
        lo += reach < 0 ? reach : 0;
        hi += reach > 0 ? reach : 0;
    }
    /* The base of a view may be a view: then it reaches as far as its own base, checked before. */
    return lo >= 0 && (!rx_view_is_dense(base) || base->data != origin ||
                       hi < rx_view_elements(base));
}

static rlx_status check_view(const rx_exec *e, size_t i, rlx_error *err)
{
    const rx_pvalue *v = &e->program->values[i];
    const rx_view *view = &e->at.views[i];
    if (v->view_of < 0 || rx_view_elements(view) == 0)
        return RLX_OK;
    if (!inside_base(view, &e->at.views[v->view_of]))
        return fail_value(err, i, "reaches outside of its base");
    if (v->dense && !rx_view_is_dense(view))
        return fail_value(err, i, "is said to be dense and is not");
    return RLX_OK;
}

static rlx_status exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    RLX_TRY(rx_bound_update(&e->at, dims, err));
    for (size_t i = 0; i < e->program->n_values; i++)
        RLX_TRY(check_view(e, i, err));
    return RLX_OK;
}

/* ---- Following a run ------------------------------------------------------------------------- */

static uint32_t base_of(const rx_program *p, uint32_t value)
{
    while (p->values[value].view_of >= 0)
        value = (uint32_t)p->values[value].view_of;
    return value;
}

static bool takes_strided(rx_op op)
{
    return (rx_ops[op].flags & (RX_OP_ELEMENTWISE | RX_OP_VIEW)) || op == RX_OP_copy ||
           op == RX_OP_region;
}

static rlx_status check_operand(rx_exec *e, size_t step, uint32_t value, rlx_error *err)
{
    const rx_program *p = e->program;
    uint32_t base = base_of(p, value);
    const rx_pvalue *b = &p->values[base];
    if (!takes_strided(p->steps[step].op) && !rx_view_is_dense(&e->at.views[value]))
        return fail_step(p, step, err, "an operand is not dense and the kernel needs it so");
    if (b->space == RX_SPACE_NONE)
        return fail_step(p, step, err, "an operand has no memory");
    if (b->space == RX_SPACE_STATE && e->state_now[b->index] != base)
        return fail_step(p, step, err, "an old version of a state is read after it was written");
    if (b->space != RX_SPACE_ARENA)
        return RLX_OK;
    if (b->last < step)
        return fail_step(p, step, err, "an operand is read after its last use");
    if (rx_shadow_missing(&e->shadow, b->offset, b->offset + b->bytes, base) !=
        b->offset + b->bytes)
        return fail_step(p, step, err, "an operand was never written or was overwritten");
    return RLX_OK;
}

/* Result 0 of an in-place operation may overwrite a dense operand that dies here, exactly. */
static bool may_replace(rx_exec *e, size_t step, uint32_t result, uint32_t owner)
{
    const rx_program *p = e->program;
    const rx_step *s = &p->steps[step];
    const rx_pvalue *o = &p->values[owner], *r = &p->values[result];
    if (!(rx_ops[s->op].flags & RX_OP_INPLACE) || result != s->out[0] || o->last != step ||
        o->offset != r->offset || o->bytes != r->bytes)
        return false;
    bool found = false;
    for (uint32_t k = 0; k < s->n_in; k++) {
        if (s->in[k] == RX_NO_VALUE || base_of(p, s->in[k]) != owner)
            continue;
        if (!rx_view_is_dense(&e->at.views[s->in[k]]))
            return false;
        found = true;
    }
    return found;
}

static rlx_status check_result(rx_exec *e, size_t step, uint32_t value, rlx_error *err)
{
    const rx_program *p = e->program;
    const rx_step *s = &p->steps[step];
    const rx_pvalue *v = &p->values[value];
    if (v->space == RX_SPACE_NONE)
        return RLX_OK;
    if (v->space == RX_SPACE_STATE) {
        const rx_pvalue *from = s->n_in && s->in[0] != RX_NO_VALUE ? &p->values[s->in[0]] : NULL;
        if (!(rx_ops[s->op].flags & RX_OP_EFFECT) || !from || from->space != RX_SPACE_STATE ||
            from->index != v->index)
            return fail_step(p, step, err, "a state is written by a step that does not update it");
        e->state_now[v->index] = value;
        return RLX_OK;
    }
    if (v->space != RX_SPACE_ARENA)
        return fail_step(p, step, err, "a result lies in an input, param or constant");
    uint64_t end = v->offset + v->bytes;
    const rx_shadow *sh = &e->shadow;
    for (size_t i = rx_shadow_find(sh, v->offset); i < sh->n && sh->items[i].begin < end; i++) {
        const rx_pvalue *o = &p->values[sh->items[i].owner];
        if (o->last >= step && !may_replace(e, step, value, sh->items[i].owner))
            return fail_step(p, step, err, "a result overwrites a value that is still needed");
    }
    return RLX_OK;
}

/* Results are checked against what was there before the step, then against each other. */
static rlx_status write_results(rx_exec *e, size_t step, rlx_error *err)
{
    const rx_program *p = e->program;
    const rx_step *s = &p->steps[step];
    for (uint32_t k = 0; k < s->n_out; k++)
        RLX_TRY(check_result(e, step, s->out[k], err));
    for (uint32_t k = 0; k < s->n_out; k++) {
        const rx_pvalue *v = &p->values[s->out[k]];
        if (v->space == RX_SPACE_ARENA)
            rx_shadow_write(&e->shadow, v->offset, v->offset + v->bytes, s->out[k]);
    }
    for (uint32_t k = 0; k < s->n_out; k++) {
        const rx_pvalue *v = &p->values[s->out[k]];
        uint64_t end = v->offset + v->bytes;
        if (v->space == RX_SPACE_ARENA &&
            rx_shadow_missing(&e->shadow, v->offset, end, s->out[k]) != end)
            return fail_step(p, step, err, "two results overlap");
    }
    return RLX_OK;
}

static rlx_status check_outputs(rx_exec *e, rlx_error *err)
{
    const rx_program *p = e->program;
    for (size_t i = 0; i < p->n_outputs; i++) {
        uint32_t base = base_of(p, p->outputs[i].value);
        const rx_pvalue *b = &p->values[base];
        if (b->space == RX_SPACE_ARENA &&
            rx_shadow_missing(&e->shadow, b->offset, b->offset + b->bytes, base) !=
                b->offset + b->bytes)
            return rx_fail(err, RLX_INTERNAL, "the program is wrong: output '%s' was never written "
                           "or was overwritten", p->outputs[i].name);
    }
    return RLX_OK;
}

static rlx_status exec_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err)
{
    const rx_program *p = e->program;
    *ticket = atomic_fetch_add(&e->submitted, 1) + 1;
    if (s->first_step == 0) {
        e->shadow.n = 0;
        for (size_t i = 0; i < p->n_states; i++)
            e->state_now[i] = p->states[i].value;
    }
    for (size_t i = s->first_step; i < s->first_step + s->n_steps; i++) {
        const rx_step *step = &p->steps[i];
        for (uint32_t k = 0; k < step->n_in; k++)
            if (step->in[k] != RX_NO_VALUE)
                RLX_TRY(check_operand(e, i, step->in[k], err));
        RLX_TRY(write_results(e, i, err));
    }
    return s->first_step + s->n_steps == p->n_steps ? check_outputs(e, err) : RLX_OK;
}

/* ---- The rest of the backend ----------------------------------------------------------------- */

/* Operations that the reference device has a kernel for, from the operation table. */
static rlx_support op_support(rx_op op)
{
    static const char *const kernels[RX_N_OPS] = {
#define OP(name, family, lo, hi, out, attr, infer, lower, grad, ref, flags) #ref,
#include "ir/ops.def"
#undef OP
    };
    return strcmp(kernels[op], "none") ? RLX_SUPPORT_NATIVE : RLX_SUPPORT_NO;
}

static rlx_support target_support(const rx_target *t, const rlx_graph *g, const rx_node *n)
{
    (void)t, (void)g;
    return op_support(n->op);
}

static bool target_takes_strided(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i)
{
    (void)t;
    return !rlx_dtype_is_packed(rx_value_at(g, n->in[i])->dtype) && takes_strided(n->op);
}

static size_t list_devices(rlx_device_info *out, size_t cap, char reason[512])
{
    reason[0] = 0;
    if (cap)
        *out = (rlx_device_info){RLX_INIT(rlx_device_info), .id = "null", .backend = "null",
                                 .name = "null device", .driver = "none", .is_test = true,
                                 .detail = "runs nothing, checks every program and every run"};
    return 1;
}

static rlx_status open_device(size_t index, const rlx_device_desc *desc, rx_device **out,
                              rlx_error *err)
{
    (void)index, (void)desc;
    rx_device *d = rx_alloc_zero(sizeof *d);
    if (!d)
        return rx_fail_memory(err, "the null device", sizeof *d);
    d->target = (rx_target){.name = "null", .align = ALIGN, .support = target_support,
                            .takes_strided = target_takes_strided};
    *out = d;
    return RLX_OK;
}

static void close_device(rx_device *d)
{
    rx_free(d);
}

static const rx_target *device_target(rx_device *d)
{
    return &d->target;
}

/* Buffers have a size and no memory. */
struct rx_buffer {
    size_t bytes;
};

static rlx_status buffer_create(rx_device *d, size_t bytes, rx_buffer **out, rlx_error *err)
{
    (void)d;
    *out = rx_alloc_zero(sizeof **out);
    if (!*out)
        return rx_fail_memory(err, "a buffer", sizeof **out);
    (*out)->bytes = bytes;
    return RLX_OK;
}

static void buffer_destroy(rx_buffer *b)
{
    rx_free(b);
}

static rlx_status check_buffer(const rx_buffer *b, size_t offset, size_t bytes, rlx_error *err)
{
    if (offset <= b->bytes && bytes <= b->bytes - offset)
        return RLX_OK;
    return rx_fail(err, RLX_INTERNAL, "a buffer of %zu bytes is read or written past its end",
                   b->bytes);
}

static rlx_status buffer_write(rx_buffer *b, size_t offset, const void *data, size_t bytes,
                               rlx_error *err)
{
    (void)data;
    return check_buffer(b, offset, bytes, err);
}

static rlx_status buffer_read(rx_buffer *b, size_t offset, void *data, size_t bytes, rlx_error *err)
{
    RLX_TRY(check_buffer(b, offset, bytes, err));
    memset(data, 0, bytes);
    return RLX_OK;
}

static void *buffer_map(rx_buffer *b)
{
    (void)b;
    return NULL;
}

static void buffer_changed(rx_buffer *b)
{
    (void)b;
}

/* A value must fit the buffer that it is to live in. */
static rlx_status check_use(const rx_program *p, uint32_t value, const rx_buffer *b, rlx_error *err)
{
    return !b || p->values[value].bytes <= b->bytes
               ? RLX_OK
               : fail_value(err, value, "is larger than its buffer");
}

static rlx_status weights_use(rx_weights *w, size_t param, rx_buffer *b, rlx_error *err)
{
    return check_use(w->program, w->program->params[param].value, b, err);
}

/* An output that is a view has the bytes of its base: it is copied where it is a part. */
static rlx_status exec_use(rx_exec *e, size_t port, rx_buffer *b, rlx_error *err)
{
    const rx_program *p = e->program;
    rlx_leaf kind;
    const uint32_t value = rx_port_at(p, port, &kind)->value;
    if (kind != RLX_LEAF_OUTPUT)
        return check_use(p, value, b, err);
    const uint32_t root = rx_output_root(p, port - p->n_inputs - p->n_states);
    return root == RX_NO_VALUE ? RLX_OK : check_use(p, root, b, err);
}

static rlx_status weights_create(rx_device *d, rx_program *p, rx_buffer *const *buffers,
                                 const rx_lender *from, rx_weights **out, rlx_error *err)
{
    (void)d, (void)from;
    for (size_t i = 0; i < p->n_params && buffers; i++)
        RLX_TRY(check_use(p, p->params[i].value, buffers[i], err));
    rx_weights *w = rx_alloc_zero(sizeof *w);
    if (!w)
        return rx_fail_memory(err, "the weights", sizeof *w);
    w->program = p;
    *out = w;
    return RLX_OK;
}

static rlx_status weights_set(rx_weights *w, size_t param, const void *data, size_t bytes,
                              rlx_ownership own, rlx_error *err)
{
    (void)data, (void)own;
    const rx_pvalue *v = &w->program->values[w->program->params[param].value];
    if (bytes > v->bytes)
        return fail_value(err, w->program->params[param].value, "is set with too many bytes");
    return RLX_OK;
}

static void weights_destroy(rx_weights *w)
{
    rx_free(w);
}

static void exec_destroy(rx_exec *e)
{
    if (!e)
        return;
    rx_arena_finish(&e->arena);
    rx_free(e);
}

static rlx_status exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_buffer *const *buffers,
                              rx_exec **out, rlx_error *err)
{
    (void)d, (void)w;
    *out = NULL;
    RLX_TRY(check_program(p, err));
    rx_exec *e = rx_alloc_zero(sizeof *e);
    if (!e)
        return rx_fail_memory(err, "the session", sizeof *e);
    e->program = p;
    e->state_now = rx_arena_array_zero(&e->arena, p->n_states, sizeof *e->state_now);
    e->shadow.items = rx_arena_array(&e->arena, 2 * p->n_values + 1, sizeof *e->shadow.items);
    if (!e->state_now || !e->shadow.items || !rx_bound_init(&e->at, p, &e->arena)) {
        exec_destroy(e);
        return rx_fail_memory(err, "the shadow of the program", p->n_values * sizeof(rx_view));
    }
    for (size_t i = 0; i < p->n_values; i++)
        e->at.views[i].data = origin;
    rlx_status st = RLX_OK;
    for (size_t i = 0; i < rx_program_n_ports(p) && buffers && st == RLX_OK; i++)
        st = exec_use(e, i, buffers[i], err);
    if (st == RLX_OK)
        *out = e;
    else
        exec_destroy(e);
    return st;
}

static rlx_status check_access(rx_exec *e, uint32_t value, size_t offset, size_t bytes,
                               rlx_error *err)
{
    if (value >= e->program->n_values)
        return fail_value(err, value, "does not exist");
    const rx_pvalue *v = &e->program->values[value];
    if (v->space == RX_SPACE_NONE || !v->dense)
        return fail_value(err, value, "is read or written by the host but is not dense");
    if (offset > v->bytes || bytes > v->bytes - offset)
        return fail_value(err, value, "is read or written past its end");
    return RLX_OK;
}

static rlx_status exec_write(rx_exec *e, uint32_t value, size_t offset, const void *data,
                             size_t bytes, rlx_error *err)
{
    (void)data;
    RLX_TRY(check_access(e, value, offset, bytes, err));
    rx_space space = e->program->values[value].space;
    if (space != RX_SPACE_INPUT && space != RX_SPACE_STATE)
        return fail_value(err, value, "is written by the host but is neither input nor state");
    return RLX_OK;
}

static rlx_status exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                            rlx_error *err)
{
    RLX_TRY(check_access(e, value, offset, bytes, err));
    if (bytes)
        memset(data, 0, bytes);
    return RLX_OK;
}

/* Failures come back from submit, so a run that was submitted went well. */
static rlx_status exec_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err)
{
    (void)timeout_ms;
    if (ticket > atomic_load(&e->submitted))
        return rx_fail(err, RLX_INTERNAL, "run %llu was never submitted",
                       (unsigned long long)ticket);
    return RLX_OK;
}

static uint32_t exec_flags(rx_exec *e)
{
    (void)e;
    return 0;
}

static const char *exec_kernel(rx_exec *e, size_t step)
{
    (void)e, (void)step;
    return "none";
}

const rx_backend rx_backend_null = {
    .name = "null",
    .rank = -1,
    .list = list_devices,
    .open = open_device,
    .close = close_device,
    .target = device_target,
    .op_support = op_support,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .buffer_map = buffer_map,
    .buffer_changed = buffer_changed,
    .orders_runs = true,
    .orders_writes = true,
    .weights_create = weights_create,
    .weights_use = weights_use,
    .weights_set = weights_set,
    .weights_destroy = weights_destroy,
    .exec_create = exec_create,
    .exec_use = exec_use,
    .exec_destroy = exec_destroy,
    .exec_bind = exec_bind,
    .exec_write = exec_write,
    .exec_read = exec_read,
    .exec_submit = exec_submit,
    .exec_wait = exec_wait,
    .exec_flags = exec_flags,
    .exec_kernel = exec_kernel,
};
