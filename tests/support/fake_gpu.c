/* SPDX-License-Identifier: MIT */
#include "support/fake_gpu.h"

#include <string.h>

#include "compile/compile.h"
#include "runtime/host.h"

const fake_gpu_desc fake_gpu_large = {
    .caps = {.max_invocations = 1024, .max_shared_bytes = 49152,
             .max_groups = {2147483647, 65535, 65535}, .max_push_bytes = 128, .max_bindings = 10,
             .max_binding_bytes = 4294967295, .binding_align = 16, .subgroup = 32,
             .subgroup_arith = true, .subgroup_shuffle = true, .loose_barriers = true, .f16 = true,
             .storage16 = true, .storage8 = true, .int8 = true, .int16 = true, .subnormals = true,
             .address = true, .int_dot = true, .coherent = true, .chains = true,
             .coopmat_f16 = true, .coopmat_bf16 = true, .coopmat_f16_acc = true,
             .coopmat_fragments = true, .windows = true, .compute_units = 132},
    .rules = {.chains = true, .n_counters = 1024},
    .scratch_ring = (uint64_t)256 << 20};

const fake_gpu_desc fake_gpu_bound = {
    .caps = {.max_invocations = 1024, .max_shared_bytes = 49152,
             .max_groups = {65535, 65535, 65535}, .max_push_bytes = 128, .max_bindings = 10,
             .max_binding_bytes = (uint64_t)2 << 30, .binding_align = 256, .subgroup = 32,
             .subgroup_arith = true, .subgroup_shuffle = true, .f16 = true, .int_dot = true,
             .windows = true, .joins = true, .compute_units = 132},
    .max_block_bytes = (uint64_t)4 << 30};

const fake_gpu_desc fake_gpu_small = {
    .caps = {.max_invocations = 128, .max_shared_bytes = 16384,
             .max_groups = {65535, 65535, 65535}, .max_push_bytes = 128, .max_bindings = 8,
             .max_binding_bytes = (uint64_t)128 << 20, .binding_align = 256, .windows = true,
             .joins = true},
    .max_block_bytes = (uint64_t)256 << 20};

/* ---- Memory --------------------------------------------------------------------------------- */

struct rx_device {
    rx_gpu_memory memory;
    rx_mutex shared_lock;
};
struct rx_block {
    uint64_t bytes;
};
struct rx_pack {
    int nothing;
};
struct rx_commands {
    size_t n;
};

static rlx_status check_room(rx_device *d, uint64_t total, uint64_t largest, const char *what,
                             rlx_error *err)
{
    (void)total;
    if (largest <= d->memory.max_block_bytes)
        return RLX_OK;
    return rx_fail(err, RLX_NO_MEMORY, "%s: %llu bytes in a block", what,
                   (unsigned long long)largest);
}

static rlx_status create_block(rx_device *d, uint64_t bytes, const char *what, rx_block *out,
                               rlx_error *err)
{
    (void)d, (void)what, (void)err;
    out->bytes = bytes;
    return RLX_OK;
}

static void destroy_block(rx_device *d, rx_block *b)
{
    (void)d, (void)b;
}

static uint64_t block_bytes(const rx_block *b)
{
    return b->bytes;
}

static rlx_status upload(rx_device *d, const rx_gpu_place *to, uint64_t offset, const void *data,
                         uint64_t bytes, rlx_error *err)
{
    (void)d, (void)data;
    if (offset + bytes <= to->bytes && to->offset + to->bytes <= to->block->bytes)
        return RLX_OK;
    return rx_fail(err, RLX_INTERNAL, "an upload of %llu bytes leaves its place",
                   (unsigned long long)bytes);
}

static rlx_status create_pack(rx_device *d, const rx_gpu_placed *from, rx_pack **out,
                              rlx_error *err)
{
    (void)d, (void)from;
    *out = rx_alloc_zero(sizeof **out);
    return *out ? RLX_OK : rx_fail_memory(err, "a packed weight", sizeof **out);
}

static void destroy_pack(rx_device *d, rx_pack *p)
{
    (void)d;
    rx_free(p);
}

/* ---- Programs ------------------------------------------------------------------------------- */

struct rx_exec {
    rx_gpu_exec base;
    const fake_gpu_desc *desc;
};

struct fake_gpu {
    rx_device device;
    rx_gpu_driver driver;
    rx_program *program;
    rx_weights *weights;
    rx_exec exec;
    int64_t *dims;
    bool is_open;
};

static void get_rules(rx_exec *e, rx_gpu_rules *out)
{
    const rx_gpu_place nothing = out->nothing;
    *out = e->desc->rules;
    out->nothing = nothing;
}

static rlx_status record(rx_exec *e, const rx_gpu_list *l, rx_gpu_recording *r, rlx_error *err)
{
    (void)e;
    r->commands = rx_alloc_zero(sizeof *r->commands);
    if (!r->commands)
        return rx_fail_memory(err, "a recording", sizeof *r->commands);
    r->commands->n = l->n;
    return RLX_OK;
}

static void forget(rx_exec *e, rx_commands *c)
{
    (void)e;
    rx_free(c);
}

static bool wait_run(rx_exec *e, uint64_t ticket, int64_t deadline_ns)
{
    (void)e, (void)ticket, (void)deadline_ns;
    return true;
}

static rlx_status end_run(rx_exec *e, uint64_t ticket, rlx_error *err)
{
    (void)e, (void)ticket, (void)err;
    return RLX_OK;
}

static bool merges(const rx_target *t, rlx_policy policy, const rlx_graph *g,
                   const rx_node *first, const rx_node *second)
{
    return rx_gpu_merges(t->user, policy, g, first, second);
}

static rlx_status compile(fake_gpu *f, const fake_gpu_desc *of, const rlx_graph *g,
                          rlx_policy policy, rlx_error *err)
{
    const rx_target target = {.name = "fake", .align = RX_GPU_ALIGN, .user = &of->caps,
                              .slack_bytes = RX_GPU_SLACK_BYTES, .support = rx_gpu_support,
                              .takes_strided = rx_gpu_takes_strided, .merges = merges,
                              .eval = rx_host_eval};
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = policy};
    return rx_compile(g, &target, &desc, &f->program, err);
}

static rlx_status open_parts(fake_gpu *f, const fake_gpu_desc *desc, rlx_error *err)
{
    const uint64_t most = desc->max_block_bytes ? desc->max_block_bytes : (uint64_t)1 << 30;
    f->device.memory = (rx_gpu_memory){.device = &f->device, .block_size = sizeof(rx_block),
                                       .max_block_bytes = most, .check = check_room,
                                       .create = create_block, .destroy = destroy_block,
                                       .block_bytes = block_bytes, .upload = upload,
                                       .shared_lock = &f->device.shared_lock,
                                       .pack_create = create_pack, .pack_destroy = destroy_pack};
    f->driver = (rx_gpu_driver){.scratch_ring = desc->scratch_ring,
                                .n_counters = desc->rules.n_counters, .rules = get_rules,
                                .record = record, .forget = forget, .wait = wait_run,
                                .end = end_run};
    f->dims = rx_alloc_array(f->program->n_dims + 1, sizeof *f->dims);
    if (!f->dims)
        return rx_fail_memory(err, "dimensions", f->program->n_dims);
    RLX_TRY(rx_gpu_weights_create(&f->device.memory, f->program, &(rx_gpu_shares){0},
                                  &f->weights, err));
    f->exec.desc = desc;
    f->exec.base = (rx_gpu_exec){.driver = &f->driver, .exec = &f->exec, .caps = &desc->caps,
                                 .program = f->program, .weights = f->weights};
    RLX_TRY(rx_gpu_exec_init(&f->exec.base, NULL, err));
    f->is_open = true;
    return RLX_OK;
}

fake_gpu *fake_gpu_open(const fake_gpu_desc *desc, const rlx_graph *g, rlx_policy policy,
                        rlx_error *err)
{
    fake_gpu *f = rx_alloc_zero(sizeof *f);
    if (!f || !rx_mutex_init(&f->device.shared_lock)) {
        rx_free(f);
        rx_fail_memory(err, "a fake GPU", sizeof *f);
        return NULL;
    }
    rlx_status st = compile(f, desc, g, policy, err);
    if (st == RLX_OK)
        st = open_parts(f, desc, err);
    if (st == RLX_OK)
        return f;
    fake_gpu_close(f);
    return NULL;
}

void fake_gpu_close(fake_gpu *f)
{
    if (!f)
        return;
    if (f->is_open)
        rx_gpu_exec_finish(&f->exec.base);
    rx_gpu_weights_destroy(f->weights);
    rx_program_unref(f->program);
    rx_mutex_finish(&f->device.shared_lock);
    rx_free(f->dims);
    rx_free(f);
}

rlx_status fake_gpu_bind(fake_gpu *f, const char *dim, int64_t value, rlx_error *err)
{
    const rx_program *p = f->program;
    for (size_t i = 0; i < p->n_dims; i++)
        f->dims[i] = dim && p->dims[i].name && !strcmp(p->dims[i].name, dim) ? value
                                                                             : p->dims[i].bound;
    RLX_TRY(rx_dims_eval(p->dims, p->n_dims, f->dims, err));
    return rx_gpu_exec_bind(&f->exec.base, f->dims, err);
}

rx_gpu_exec *fake_gpu_exec(fake_gpu *f)
{
    return &f->exec.base;
}
