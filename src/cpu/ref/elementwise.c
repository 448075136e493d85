/* SPDX-License-Identifier: MIT */
/* Reference kernels of the elementwise operations and of fused regions: one loop over the broadcast
 * shape, with the functions of scalar.c inside. */
#include "cpu/ref/ref.h"
#include "ops/region.h"

static rx_scalar load(const rx_view *v, int64_t o)
{
    if (rlx_dtype_is_float(v->dtype))
        return (rx_scalar){.f = rx_load(v, o)};
    return (rx_scalar){.i = rx_load_int(v, o)};
}

static void store(const rx_view *v, int64_t o, rx_scalar x)
{
    if (rlx_dtype_is_float(v->dtype))
        rx_store(v, o, x.f);
    else
        rx_store_int(v, o, x.i);
}

/* Float arguments; a result that is not a float comes from cast, a comparison, is_nan or is_inf. */
static rx_scalar eval_float(const rx_instr *in, const rx_scalar *args, int n, bool first_is_bool)
{
    double a[3] = {0};
    for (int k = 0; k < n; k++)
        a[k] = k == 0 && first_is_bool ? (double)args[k].i : args[k].f;
    const double y = rx_ref_eval(in, a);
    if (rlx_dtype_is_float(in->dtype))
        return (rx_scalar){.f = y};
    int64_t room = 0;
    const rx_view one = {.data = (char *)&room, .dtype = in->dtype};
    rx_store(&one, 0, y);
    return load(&one, 0);
}

/* Integer or bool arguments; a float result comes from cast and is rounded to its type. */
static rx_scalar eval_int(const rx_instr *in, const rx_scalar *args, int n, rlx_dtype t)
{
    int64_t a[3] = {0}, room = 0;
    for (int k = 0; k < n; k++)
        a[k] = args[k].i;
    const int64_t y = rx_ref_eval_int(in, t, a);
    if (!rlx_dtype_is_float(in->dtype))
        return (rx_scalar){.i = rx_wrap_to(in->dtype, y)};
    const rx_view one = {.data = (char *)&room, .dtype = in->dtype};
    if (t == RLX_U64)
        rx_store_unsigned(&one, 0, (uint64_t)y);
    else
        rx_store_int(&one, 0, y);
    return load(&one, 0);
}

rx_scalar rx_ref_apply(const rx_instr *in, const rx_scalar *args, int n, rlx_dtype last)
{
    if (rlx_dtype_is_float(last))
        return eval_float(in, args, n, in->op == RX_OP_where);
    return eval_int(in, args, n, last);
}

/* ---- Single operations ----------------------------------------------------------------------- */

/* out[0] may be the memory of an input of the same shape: each element is read before it is
 * written. */
static rlx_status run_single(const rx_call *c)
{
    const rx_view *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    const int n = (int)c->n_in;
    const rx_instr in = rx_instr_make(c->op, c->attr, y->dtype);
    rx_view x[3];
    for (int k = 0; k < n; k++)
        x[k] = rx_broadcast_view(&c->in[k], y);
    int64_t at[RLX_MAX_RANK] = {0};
    do {
        rx_scalar args[3];
        for (int k = 0; k < n; k++)
            args[k] = load(&x[k], rx_offset(&x[k], at));
        store(y, rx_offset(y, at), rx_ref_apply(&in, args, n, x[n - 1].dtype));
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}

rlx_status rx_ref_unary(const rx_call *c) { return run_single(c); }
rlx_status rx_ref_binary(const rx_call *c) { return run_single(c); }
rlx_status rx_ref_where(const rx_call *c) { return run_single(c); }
rlx_status rx_ref_fma(const rx_call *c) { return run_single(c); }
rlx_status rx_ref_cast(const rx_call *c) { return run_single(c); }

/* ---- Regions --------------------------------------------------------------------------------- */

static void run_program(const rx_region *r, const rx_view *x, rx_scalar *v)
{
    for (int i = 0; i < r->n_instr; i++) {
        const rx_instr *in = &r->instr[i];
        const int n = rx_ops[in->op].min_in;
        rx_scalar args[3];
        for (int k = 0; k < n; k++)
            args[k] = v[in->arg[k]];
        const int last = in->arg[n - 1];
        const rlx_dtype t = last < r->n_in ? x[last].dtype : r->instr[last - r->n_in].dtype;
        v[r->n_in + i] = rx_ref_apply(in, args, n, t);
    }
}

rlx_status rx_ref_region(const rx_call *c)
{
    const rx_region *r = c->attr;
    const rx_view *shape = &c->out[0]; /* all results have the same */
    if (rx_view_elements(shape) == 0)
        return RLX_OK;
    rx_view *x = rx_call_array(c, r->n_in, sizeof *x);
    rx_scalar *v = rx_call_array(c, (uint64_t)r->n_in + r->n_instr, sizeof *v);
    if (!x || !v)
        return RLX_NO_MEMORY;
    for (int k = 0; k < r->n_in; k++)
        x[k] = rx_broadcast_view(&c->in[k], shape);

    int64_t at[RLX_MAX_RANK] = {0};
    do {
        for (int k = 0; k < r->n_in; k++)
            v[k] = load(&x[k], rx_offset(&x[k], at));
        run_program(r, x, v);
        for (int k = 0; k < r->n_out; k++) {
            const rx_view *y = rx_call_out(c, (size_t)k);
            if (y)
                store(y, rx_offset(y, at), v[r->n_in + r->out[k]]);
        }
    } while (rx_next(at, shape->dim, shape->rank));
    return RLX_OK;
}
