/* SPDX-License-Identifier: MIT */
/* Collecting the dispatches of a step, and the table from operations to lowering functions. */
#include <string.h>

#include "gpu/select/plan.h"
#include "gpu/split/split.h"
#include "ir/infer.h"
#include "ops/custom.h"
#include "ops/region.h"

const rx_gpu_op rx_gpu_ops[RX_N_OPS] = {
#define GPU(op, lower, strided) [RX_OP_##op] = {rx_gpu_lower_##lower, strided},
#include "gpu/ops.def"
#undef GPU
};

static void fail_memory(rx_gpu_build *b)
{
    if (b->status == RLX_OK)
        b->status = rx_fail(b->err, RLX_NO_MEMORY, "out of memory: the dispatches of a step");
}

/* The target of writes after an error; never read. One per thread. */
static rx_gpu_dispatch *dummy(void)
{
    static _Thread_local rx_gpu_dispatch d;
    memset(&d, 0, sizeof d);
    return &d;
}

rx_gpu_dispatch *rx_gpu_add(rx_gpu_build *b, rx_kernel k, uint32_t local)
{
    if (b->status == RLX_OK && !rx_grow(&b->dispatch, &b->cap, b->n + 1, sizeof *b->dispatch))
        fail_memory(b);
    if (b->status != RLX_OK)
        return dummy();
    rx_gpu_dispatch *d = &b->dispatch[b->n++];
    memset(d, 0, sizeof *d);
    d->kernel = k;
    d->spec[0] = local;
    d->n_spec = 1;
    d->groups[0] = d->groups[1] = d->groups[2] = 1;
    return d;
}

/* The first n words of a struct, which has at least one. */
static const uint32_t *next_words(const uint32_t *at, uint32_t n) { return at + (n ? n : 1); }

void rx_gpu_set_args(rx_gpu_build *b, rx_gpu_dispatch *d, rx_kernel k, rx_contract c,
                     uint32_t local, const void *args)
{
    const rx_contract_info *is = &rx_contracts[c];
    d->spec[0] = local;
    if (rx_kernels[k].contract != c) {
        if (b->status == RLX_OK)
            b->status = rx_fail(b->err, RLX_INTERNAL, "kernel '%s' takes the arguments of '%s', "
                                "not of '%s'", rx_kernels[k].name,
                                rx_contracts[rx_kernels[k].contract].name, is->name);
        return;
    }
    const uint32_t *bind = args, *spec = next_words(bind, is->n_bind);
    const uint32_t *push = next_words(spec, is->n_spec);
    d->kernel = k;
    d->n_bind = is->n_bind;
    memcpy(d->bind, bind, is->n_bind * sizeof *bind);
    d->writes = 0;
    for (uint32_t i = 0; i < is->n_bind; i++)
        d->writes |= (uint32_t)(rx_contract_bind(c, i)->value && bind[i] != RX_REF_NONE) << i;
    d->n_spec = is->n_spec + 1;
    memcpy(d->spec + 1, spec, is->n_spec * sizeof *spec);
    d->n_push = is->n_push;
    memcpy(d->push, push, is->n_push * sizeof *push);
}

static void fail_full(rx_gpu_build *b, const rx_gpu_dispatch *d, const char *what, unsigned most)
{
    if (b->status == RLX_OK)
        b->status = rx_fail(b->err, RLX_INTERNAL, "kernel '%s' has more than %u %s",
                            rx_gpu_dispatch_name(d), most, what);
}

void rx_gpu_bind(rx_gpu_build *b, rx_gpu_dispatch *d, rx_gpu_ref ref, bool writes)
{
    if (d->n_bind == RX_GPU_MAX_BIND) {
        fail_full(b, d, "bindings", RX_GPU_MAX_BIND);
        return;
    }
    d->writes |= (uint32_t)writes << d->n_bind;
    d->bind[d->n_bind++] = ref;
}

void rx_gpu_push(rx_gpu_build *b, rx_gpu_dispatch *d, uint32_t word)
{
    if (d->n_push == RX_GPU_MAX_PUSH)
        fail_full(b, d, "words of push constants", RX_GPU_MAX_PUSH);
    else
        d->push[d->n_push++] = word;
}

void rx_gpu_push_address(rx_gpu_dispatch *d, uint32_t binding, uint32_t word)
{
    d->address[binding] = (uint8_t)word;
}

void rx_gpu_grid(rx_gpu_dispatch *d, const rx_gpu_caps *caps, uint64_t n)
{
    for (int i = 0; i < 3; i++) {
        uint64_t limit = caps->max_groups[i] < 65535 ? caps->max_groups[i] : 65535;
        uint64_t layers = (n + limit - 1) / limit; /* of equal size, so that few workgroups are idle
                                                    * */
        uint64_t here = layers ? (n + layers - 1) / layers : 0;
        d->groups[i] = (uint32_t)here;
        n = layers;
    }
}

rx_gpu_ref rx_gpu_scratch(rx_gpu_build *b, uint64_t bytes)
{
    if (!rx_grow(&b->scratch, &b->cap_scratch, b->n_scratch + 1, sizeof *b->scratch)) {
        fail_memory(b);
        return RX_REF_NONE;
    }
    bytes = bytes ? bytes : 4;
    b->asked = bytes > b->asked ? bytes : b->asked;
    if (b->n_scratch < b->most_scratch && b->scratch[b->n_scratch] > bytes)
        bytes = b->scratch[b->n_scratch]; /* an earlier part of the step uses this one, too */
    b->scratch[b->n_scratch++] = bytes;
    if (b->most_scratch < b->n_scratch)
        b->most_scratch = b->n_scratch;
    return RX_REF_SCRATCH + (rx_gpu_ref)(b->n_scratch - 1);
}

rx_gpu_ref rx_gpu_derive(rx_gpu_build *b, uint32_t in, uint32_t kind, uint64_t bytes,
                         rx_gpu_dispatch **pack)
{
    *pack = dummy();
    if (!rx_grow(&b->derived, &b->cap_derived, b->n_derived + 1, sizeof *b->derived)) {
        fail_memory(b);
        return RX_REF_NONE;
    }
    rx_gpu_derived *d = &b->derived[b->n_derived];
    memset(d, 0, sizeof *d);
    d->in = in;
    d->kind = kind;
    d->bytes = bytes;
    *pack = &d->pack;
    return RX_REF_DERIVED + (rx_gpu_ref)b->n_derived++;
}

rx_gpu_ref rx_gpu_add_table(rx_gpu_build *b, const void *data, uint64_t bytes)
{
    void *copy = rx_arena_alloc(b->arena, bytes ? bytes : 4);
    if (!copy || !rx_grow(&b->tables, &b->cap_tables, b->n_tables + 1, sizeof *b->tables)) {
        fail_memory(b);
        return RX_REF_NONE;
    }
    memcpy(copy, data, (size_t)bytes);
    b->tables[b->n_tables] = (rx_gpu_table){copy, bytes ? bytes : 4};
    return RX_REF_TABLE + (rx_gpu_ref)b->n_tables++;
}

rlx_status rx_gpu_fail(rx_gpu_build *b, const rx_gpu_call *c, const char *why)
{
    if (b->status == RLX_OK)
        b->status = rx_fail(b->err, RLX_UNSUPPORTED, "%s of type %s: %s", rx_ops[c->op].name,
                            c->n_in ? rlx_dtype_name(c->in[0].dtype) : "none", why);
    return b->status;
}

/* A step whose tensors fit into bindings; it is split when its scratch memory does not. */
static rlx_status lower_whole(rx_gpu_build *b, const rx_gpu_call *c)
{
    rlx_status s = rx_gpu_ops[c->op].lower(b, c);
    if (s != RLX_OK || b->asked <= c->caps->max_binding_bytes)
        return s;
    b->n = b->n_scratch = b->most_scratch = b->n_tables = b->n_derived = 0;
    return rx_gpu_split(b, c);
}

rlx_status rx_gpu_lower(rx_gpu_build *b, const rx_gpu_call *c)
{
    if (!rx_gpu_ops[c->op].lower)
        return rx_gpu_fail(b, c, "no GPU kernel");
    rlx_status s = RLX_OK;
    if (!c->caps->windows)
        s = rx_gpu_ops[c->op].lower(b, c);
    else if (rx_gpu_fits(c) && !c->aliased)
        s = lower_whole(b, c);
    else
        s = rx_gpu_split(b, c);
    b->n_scratch = b->most_scratch;
    return s != RLX_OK ? s : b->status;
}

/* The types of all operands, results and instructions of a node, as a bit mask. */
static uint64_t types_of(const rlx_graph *g, const rx_node *n)
{
    uint64_t types = 0;
    for (uint32_t i = 0; i < n->n_in; i++)
        types |= n->in[i] ? RX_T(g->values[n->in[i]].dtype) : 0;
    for (uint32_t i = 0; i < n->n_out; i++)
        types |= RX_T(g->values[n->first_out + i].dtype);
    const rx_region *r = n->attr;
    for (int i = 0; n->op == RX_OP_region && i < r->n_instr; i++)
        types |= RX_T(r->instr[i].dtype);
    return types;
}

/* Kernels that only move elements take all types, emitted ones all but f64; integer matrix products
 * are those of i8. */
static bool has_kernel_for(const rx_node *n, uint64_t types)
{
    const uint16_t flags = rx_ops[n->op].flags;
    if (flags & RX_OP_ELEMENTWISE || n->op == RX_OP_region)
        return !(types & RX_T(RLX_F64));
    if (n->op == RX_OP_matmul)
        return !(types & (RX_RARE | RX_T(RLX_I64))) && (types & (RX_FLOATS | RX_T(RLX_I8)));
    return !(types & RX_RARE) || flags & RX_OP_MOVES || n->op == RX_OP_custom;
}

rlx_support rx_gpu_support(const rx_target *t, const rlx_graph *g, const rx_node *n)
{
    (void)t;
    if (!has_kernel_for(n, types_of(g, n)))
        return RLX_SUPPORT_NO;
    return rx_custom_has(n, RX_CUSTOM_SPIRV) ? rx_gpu_op_support(n->op) : RLX_SUPPORT_NO;
}

bool rx_gpu_takes_strided(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i)
{
    (void)t;
    (void)g;
    return i < 32 && rx_gpu_ops[n->op].strided >> i & 1;
}

rlx_support rx_gpu_op_support(rx_op op)
{
    return rx_gpu_ops[op].lower ? RLX_SUPPORT_NATIVE : RLX_SUPPORT_NO;
}
