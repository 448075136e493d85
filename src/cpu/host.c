/* SPDX-License-Identifier: MIT */
/* The reference kernels as a service to the compiler and to other devices. */
#include "runtime/host.h"

#include "cpu/scratch.h"

rlx_status rx_host_run(const rx_host_call *c, rlx_error *err)
{
    rx_kernel_fn *kernel = rx_ref_table[c->op];
    rx_scratch scratch = {0};
    rx_call call = {.op = c->op, .attr = c->attr, .n_in = c->n_in, .n_out = c->n_out, .in = c->in,
                    .out = c->out, .scratch = &scratch, .flags = c->flags};
    rlx_status st = kernel ? kernel(&call) : RLX_UNSUPPORTED;
    rx_scratch_finish(&scratch);
    if (st != RLX_OK)
        return rx_fail(err, st, "%s cannot be computed on the host: %s", rx_ops[c->op].name,
                       rlx_status_name(st));
    return RLX_OK;
}

static bool fixed_view(const rlx_graph *g, uint32_t value, const void *data, rx_view *out)
{
    const rx_value *v = rx_value_at(g, value);
    if (!rx_shape_is_fixed(&v->shape))
        return false;
    rx_view_set_dense(out, v->dtype, v->shape.rank, v->shape.dim);
    out->data = (char *)(uintptr_t)data;
    return true;
}

rlx_status rx_host_eval(const rlx_graph *g, const rx_node *n, const void *const *in,
                        void *const *out, rlx_error *err)
{
    rx_view *views = rx_alloc_array((uint64_t)n->n_in + n->n_out, sizeof *views);
    uint32_t flags = 0;
    if (!views)
        return rx_fail_memory(err, "constant folding", (n->n_in + n->n_out) * sizeof *views);
    bool ok = true;
    for (uint32_t i = 0; i < n->n_in && ok; i++) {
        views[i] = (rx_view){.rank = -1};
        ok = !n->in[i] || fixed_view(g, n->in[i], in[i], &views[i]);
    }
    for (uint32_t i = 0; i < n->n_out && ok; i++)
        ok = fixed_view(g, n->first_out + i, out[i], &views[n->n_in + i]);
    rx_host_call c = {.op = n->op, .attr = n->attr, .n_in = n->n_in, .n_out = n->n_out, .in = views,
                      .out = views + n->n_in, .flags = &flags};
    rlx_status st = ok ? rx_host_run(&c, NULL) : RLX_UNSUPPORTED;
    rx_free(views);
    if (st != RLX_OK)
        return rx_fail(err, st, "%s '%s' cannot be computed at compile time", rx_ops[n->op].name,
                       n->name ? n->name : "");
    return RLX_OK;
}
