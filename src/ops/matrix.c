/* SPDX-License-Identifier: MIT */
/* Matrix products of plain types: matmul, grouped_matmul and, decomposed, dot_general and
 * lora_matmul. Builders, shape rules, decompositions. Packed weights are in ops/quant.c. */
#include "ops/matrix.h"

#include <math.h>

#include "ops/lower.h"

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_matmul(rlx_graph *g, rlx_value a, rlx_value b)
{
    return rlx_matmul_ex(g, a, b, RLX_NONE, RLX_NONE, NULL);
}

rlx_value rlx_matmul_ex(rlx_graph *g, rlx_value a, rlx_value b, rlx_value bias, rlx_value residual,
                        const rlx_matmul_desc *d)
{
    rlx_value in[] = {a, b, bias, residual};
    return rx_graph_add(g, RX_OP_matmul, in, 4, d, NULL);
}

rlx_value rlx_dot_general(rlx_graph *g, rlx_value a, rlx_value b, const rlx_dot_desc *d)
{
    rlx_value in[] = {a, b};
    return rx_graph_add(g, RX_OP_dot_general, in, 2, d, NULL);
}

rlx_value rlx_lora_matmul(rlx_graph *g, rlx_value x, rlx_value w, rlx_value down, rlx_value up,
                          double scale)
{
    rlx_value in[] = {x, w, down, up};
    rx_lora_attr d = {.scale = scale};
    return rx_graph_add(g, RX_OP_lora_matmul, in, 4, &d, NULL);
}

rlx_value rlx_grouped_matmul(rlx_graph *g, rlx_value x, rlx_value experts, rlx_value ids,
                             bool trans_b)
{
    rlx_value in[] = {x, experts, ids};
    rx_grouped_attr d = {.trans_b = trans_b};
    return rx_graph_add(g, RX_OP_grouped_matmul, in, 3, &d, NULL);
}

/* ---- Shared checks --------------------------------------------------------------------------- */

/* The axes of a matrix operand before its last two; none for a vector. */
static rlx_shape batch_axes(const rlx_shape *s)
{
    rlx_shape r = *s;
    r.rank = s->rank > 2 ? s->rank - 2 : 0;
    return r;
}

rlx_status rx_matmul_shape(rx_infer *c, bool trans_b, rlx_shape *out, rlx_dim *n)
{
    RLX_TRY(rx_check_rank(c, 0, "a", 1, RLX_MAX_RANK));
    RLX_TRY(rx_check_rank(c, 1, "b", 1, RLX_MAX_RANK));
    const rlx_shape *a = &c->in[0]->shape, *b = &c->in[1]->shape;
    if (trans_b && b->rank == 1)
        return rx_infer_fail(c, "trans_b needs a matrix b, got a vector");

    int k_axis = b->rank - (b->rank > 1 && !trans_b ? 2 : 1);
    RLX_TRY(rx_check_dim(c, 1, "b", k_axis, a->dim[a->rank - 1]));
    *n = b->rank > 1 ? b->dim[b->rank - (trans_b ? 2 : 1)] : 1;

    rlx_shape batch_a = batch_axes(a), batch_b = batch_axes(b);
    RLX_TRY(rx_broadcast(c, &batch_a, &batch_b, out));
    if (a->rank > 1)
        out->dim[out->rank++] = a->dim[a->rank - 2];
    if (b->rank > 1)
        out->dim[out->rank++] = *n;
    return RLX_OK;
}

rlx_status rx_check_epilogue(rx_infer *c, size_t bias, rlx_dim n, rlx_act act)
{
    rlx_dtype t = c->dtype[0];
    uint64_t types = RX_T(t) | (rlx_dtype_is_float(t) ? RX_T(RLX_F32) : 0);
    if ((int)act < RLX_ACT_NONE || act > RLX_ACT_HARD_SWISH)
        return rx_infer_fail(c, "act: expected one of rlx_act, got %d", (int)act);
    if (act != RLX_ACT_NONE && !rlx_dtype_is_float(t))
        return rx_infer_fail(c, "act: an integer product takes no activation");
    if (rx_in(c, bias)) {
        rlx_shape want = {.rank = 1, .dim = {n}};
        RLX_TRY(rx_check_type(c, bias, "bias", types));
        RLX_TRY(rx_check_shape(c, bias, "bias", &want));
    }
    if (rx_in(c, bias + 1)) {
        RLX_TRY(rx_check_type(c, bias + 1, "residual", types));
        RLX_TRY(rx_check_broadcasts_to(c, bias + 1, "residual", &c->shape[0]));
    }
    return RLX_OK;
}

rlx_status rx_check_expert_ids(rx_infer *c, size_t i, rlx_dim m, rlx_dim experts)
{
    rlx_shape want = {.rank = 1, .dim = {m}};
    RLX_TRY(rx_check_type(c, i, "ids", RX_INDEX));
    RLX_TRY(rx_check_shape(c, i, "ids", &want));
    if (experts == 0)
        return rx_infer_fail(c, "the bank must have at least one expert, got 0");
    const void *data = rx_constant_data(c, i);
    if (!data || !rx_dim_is_number(experts))
        return RLX_OK;
    for (int64_t j = 0; j < m; j++) {
        int64_t id = c->in[i]->dtype == RLX_I32 ? ((const int32_t *)data)[j]
                                                : ((const int64_t *)data)[j];
        if (id < -experts || id >= experts)
            return rx_infer_fail(c, "ids[%lld] is %lld, expected an expert from 0 to %lld",
                                 (long long)j, (long long)id, (long long)experts - 1);
    }
    return RLX_OK;
}

/* ---- matmul, grouped_matmul ------------------------------------------------------------------ */

/* i8 is handled apart (i32 results); u8 is for qmatmul. */
#define PRODUCT_TYPES (RX_REALS | (RX_INTS & ~RX_T(RLX_U8)))

/* The types that a product of elements of type t can have. Accumulation is f32, so an f32 result is
 * free; rounding from one half type to the other is a cast that the graph should show. Integers
 * wrap. */
static uint64_t product_results(rlx_dtype t, rlx_dtype *dflt)
{
    *dflt = t == RLX_I8 ? RLX_I32 : t;
    if (t == RLX_F32)
        return RX_FLOATS;
    return RX_T(*dflt) | (RX_T(t) & RX_FLOATS ? RX_T(RLX_F32) : 0);
}

rlx_status rx_infer_matmul(rx_infer *c)
{
    rlx_matmul_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "a", PRODUCT_TYPES));
    RLX_TRY(rx_check_type(c, 1, "b", PRODUCT_TYPES));
    RLX_TRY(rx_check_same_type(c, 0, 1));
    rlx_dtype dflt;
    const uint64_t results = product_results(c->in[0]->dtype, &dflt);
    RLX_TRY(rx_default_type(c, &d->out, dflt, results));

    rlx_shape s;
    rlx_dim n;
    RLX_TRY(rx_matmul_shape(c, d->trans_b, &s, &n));
    rx_out(c, 0, d->out, &s);
    RLX_TRY(rx_check_epilogue(c, 2, n, d->act));
    d->act_last = rx_act_is_last(d->act_last, d->act, rx_in(c, 3));
    return RLX_OK;
}

rlx_status rx_infer_grouped_matmul(rx_infer *c)
{
    const rx_grouped_attr *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_FLOATS));
    RLX_TRY(rx_check_type(c, 1, "experts", RX_FLOATS));
    RLX_TRY(rx_check_same_type(c, 0, 1));
    RLX_TRY(rx_check_rank(c, 0, "x", 2, 2));
    RLX_TRY(rx_check_rank(c, 1, "experts", 3, 3));
    const rlx_shape *x = &c->in[0]->shape, *w = &c->in[1]->shape;
    RLX_TRY(rx_check_dim(c, 1, "experts", d->trans_b ? 2 : 1, x->dim[1]));
    RLX_TRY(rx_check_expert_ids(c, 2, x->dim[0], w->dim[0]));
    rlx_shape s = {.rank = 2, .dim = {x->dim[0], w->dim[d->trans_b ? 1 : 2]}};
    rx_out(c, 0, c->in[0]->dtype, &s);
    return RLX_OK;
}

/* ---- dot_general ----------------------------------------------------------------------------- */

/* Normalises the axes of a list and marks them in *used; an axis may be used once. */
static rlx_status take_axes(rx_infer *c, const char *what, rlx_ints *axes, int rank, uint32_t *used)
{
    if (axes->n < 0 || axes->n > rank)
        return rx_infer_fail(c, "%s: expected at most %d axes, got %d", what, rank, (int)axes->n);
    for (int i = 0; i < axes->n; i++) {
        RLX_TRY(rx_check_axis(c, &axes->v[i], rank));
        if (*used & 1u << axes->v[i])
            return rx_infer_fail(c, "%s: axis %lld is used twice", what, (long long)axes->v[i]);
        *used |= 1u << axes->v[i];
    }
    return RLX_OK;
}

/* The lists name as many axes of a as of b, of the same sizes. */
static rlx_status pair_axes(rx_infer *c, const char *what, const rlx_ints *a, const rlx_ints *b)
{
    if (a->n != b->n)
        return rx_infer_fail(c, "%s: expected as many axes of a as of b, got %d and %d", what,
                             (int)a->n, (int)b->n);
    const rlx_shape *sa = &c->in[0]->shape;
    for (int i = 0; i < a->n; i++)
        RLX_TRY(rx_check_dim(c, 1, "b", (int)b->v[i], sa->dim[a->v[i]]));
    return RLX_OK;
}

static uint32_t axis_bits(const rlx_ints *x, const rlx_ints *y)
{
    uint32_t bits = 0;
    for (int i = 0; i < x->n; i++)
        bits |= 1u << x->v[i];
    for (int i = 0; i < y->n; i++)
        bits |= 1u << y->v[i];
    return bits;
}

/* [batch.., free of a.., free of b..]; the rank must be known to fit. */
static rlx_shape dot_shape(const rlx_shape *a, const rlx_shape *b, const rlx_dot_desc *d)
{
    uint32_t used_a = axis_bits(&d->batch_a, &d->contract_a);
    uint32_t used_b = axis_bits(&d->batch_b, &d->contract_b);
    rlx_shape s = {.rank = 0};
    for (int i = 0; i < d->batch_a.n; i++)
        s.dim[s.rank++] = a->dim[d->batch_a.v[i]];
    for (int i = 0; i < a->rank; i++)
        if (!(used_a & 1u << i))
            s.dim[s.rank++] = a->dim[i];
    for (int i = 0; i < b->rank; i++)
        if (!(used_b & 1u << i))
            s.dim[s.rank++] = b->dim[i];
    return s;
}

rlx_status rx_infer_dot_general(rx_infer *c)
{
    rlx_dot_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "a", PRODUCT_TYPES));
    RLX_TRY(rx_check_type(c, 1, "b", PRODUCT_TYPES));
    RLX_TRY(rx_check_same_type(c, 0, 1));
    const rlx_shape *a = &c->in[0]->shape, *b = &c->in[1]->shape;

    uint32_t used_a = 0, used_b = 0;
    RLX_TRY(take_axes(c, "batch_a", &d->batch_a, a->rank, &used_a));
    RLX_TRY(take_axes(c, "contract_a", &d->contract_a, a->rank, &used_a));
    RLX_TRY(take_axes(c, "batch_b", &d->batch_b, b->rank, &used_b));
    RLX_TRY(take_axes(c, "contract_b", &d->contract_b, b->rank, &used_b));
    RLX_TRY(pair_axes(c, "batch", &d->batch_a, &d->batch_b));
    RLX_TRY(pair_axes(c, "contract", &d->contract_a, &d->contract_b));

    int rank = a->rank + b->rank - d->batch_a.n - 2 * d->contract_a.n;
    if (rank > RLX_MAX_RANK)
        return rx_infer_fail(c, "the result has rank %d, at most %d is possible", rank,
                             RLX_MAX_RANK);
    rlx_shape s = dot_shape(a, b, d);
    rx_out(c, 0, c->in[0]->dtype == RLX_I8 ? RLX_I32 : c->in[0]->dtype, &s);
    return RLX_OK;
}

/* Reshapes an operand of dot_general to matrix form: [batch.., free, contracted], or with the last
 * two exchanged when contract_first. Batch axes are merged when there are too many for matmul. */
static rlx_value to_matrix(rlx_graph *g, rlx_value v, const rlx_ints *batch,
                           const rlx_ints *contract, bool contract_first)
{
    rlx_shape s = rlx_value_shape(g, v), order = {.rank = s.rank}, m = {.rank = 0};
    int perm[RLX_MAX_RANK], nb = batch->n, nc = contract->n, nf = s.rank - nb - nc;
    uint32_t used = axis_bits(batch, contract);
    for (int i = 0; i < nb; i++)
        perm[i] = (int)batch->v[i];
    int at_contract = contract_first ? nb : nb + nf, at_free = contract_first ? nb + nc : nb;
    for (int i = 0; i < nc; i++)
        perm[at_contract + i] = (int)contract->v[i];
    for (int i = 0, j = at_free; i < s.rank; i++)
        if (!(used & 1u << i))
            perm[j++] = i;

    bool moved = false;
    for (int i = 0; i < s.rank; i++) {
        order.dim[i] = s.dim[perm[i]];
        moved |= perm[i] != i;
    }
    if (moved)
        v = rlx_transpose(g, v, perm);
    if (nb > RLX_MAX_RANK - 2)
        m.dim[m.rank++] = rx_shape_product(g, &order, 0, nb);
    else
        for (; m.rank < nb; m.rank++)
            m.dim[m.rank] = order.dim[m.rank];
    int cut = contract_first ? nb + nc : nb + nf;
    m.dim[m.rank++] = rx_shape_product(g, &order, nb, cut);
    m.dim[m.rank++] = rx_shape_product(g, &order, cut, s.rank);
    return rx_shape_equal(&m, &order) ? v : rlx_reshape(g, v, m.rank, m.dim);
}

/* Whether the contracted axes of b come before its free ones, so that [.., K, N] needs no copy. */
static bool contracts_first(const rlx_shape *b, const rlx_dot_desc *d)
{
    int64_t last = -1;
    for (int i = 0; i < d->contract_b.n; i++)
        last = d->contract_b.v[i] > last ? d->contract_b.v[i] : last;
    uint32_t batch = axis_bits(&d->batch_b, &(rlx_ints){0});
    for (int64_t i = last + 1; i < b->rank; i++)
        if (!(batch & 1u << i))
            return true;
    return false;
}

rlx_status rx_lower_dot_general(rx_lower *c)
{
    const rlx_dot_desc *d = c->attr;
    rlx_shape sa = rlx_value_shape(c->g, c->in[0]), sb = rlx_value_shape(c->g, c->in[1]);
    bool contract_first = contracts_first(&sb, d);
    rlx_value a = to_matrix(c->g, c->in[0], &d->batch_a, &d->contract_a, false);
    rlx_value b = to_matrix(c->g, c->in[1], &d->batch_b, &d->contract_b, contract_first);
    rlx_value y = rlx_matmul_ex(c->g, a, b, RLX_NONE, RLX_NONE,
                                &(rlx_matmul_desc){RLX_INIT(rlx_matmul_desc),
                                                   .trans_b = !contract_first});

    rlx_shape s = dot_shape(&sa, &sb, d);
    rlx_shape have = rlx_value_shape(c->g, y);
    c->out[0] = rx_shape_equal(&have, &s) ? y : rlx_reshape(c->g, y, s.rank, s.dim);
    return RLX_OK;
}

/* ---- lora_matmul ----------------------------------------------------------------------------- */

rlx_status rx_infer_lora_matmul(rx_infer *c)
{
    rx_lora_attr *d = c->attr;
    if (d->scale == 0)
        d->scale = 1;
    if (!isfinite(d->scale))
        return rx_infer_fail(c, "scale: expected a finite number, got %g", d->scale);
    RLX_TRY(rx_check_type(c, 0, "x", RX_FLOATS));
    RLX_TRY(rx_check_type(c, 1, "w", RX_FLOATS | RX_PACKED));
    RLX_TRY(rx_check_type(c, 2, "down", RX_T(c->in[0]->dtype)));
    RLX_TRY(rx_check_type(c, 3, "up", RX_T(c->in[0]->dtype)));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    RLX_TRY(rx_check_rank(c, 1, "w", 2, 2));
    RLX_TRY(rx_check_rank(c, 2, "down", 2, 2));

    rlx_shape s = c->in[0]->shape;
    rlx_dim k = s.dim[s.rank - 1], n = c->in[1]->shape.dim[0];
    rlx_shape up = {.rank = 2, .dim = {n, c->in[2]->shape.dim[0]}};
    RLX_TRY(rx_check_dim(c, 1, "w", 1, k));
    RLX_TRY(rx_check_blocks(c, 1, "w"));
    RLX_TRY(rx_check_dim(c, 2, "down", 1, k));
    RLX_TRY(rx_check_shape(c, 3, "up", &up));
    s.dim[s.rank - 1] = n;
    rx_out(c, 0, c->in[0]->dtype, &s);
    return RLX_OK;
}

/* The low-rank product stays in f32 and is the residual of the large one, so there is one rounding
 * to a half type. */
rlx_status rx_lower_lora_matmul(rx_lower *c)
{
    const rx_lora_attr *d = c->attr;
    rlx_value x = c->in[0], w = c->in[1], up = c->in[3];
    rlx_dtype t = rlx_value_dtype(c->g, x);
    const rlx_matmul_desc plain = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    const rlx_matmul_desc wide = {RLX_INIT(rlx_matmul_desc), .trans_b = true, .out = RLX_F32};

    rlx_value low = rlx_matmul_ex(c->g, x, c->in[2], RLX_NONE, RLX_NONE, &wide);
    if (d->scale != 1)
        low = rlx_mul(c->g, low, rlx_scalar(c->g, RLX_F32, d->scale));
    if (t != RLX_F32)
        up = rlx_cast(c->g, up, RLX_F32);
    rlx_value delta = rlx_matmul_ex(c->g, low, up, RLX_NONE, RLX_NONE, &wide);
    c->out[0] = rlx_value_dtype(c->g, w) == t
                    ? rlx_matmul_ex(c->g, x, w, RLX_NONE, delta, &plain)
                    : rlx_dequant_matmul_ex(c->g, x, w, RLX_NONE, RLX_NONE, RLX_NONE, delta, NULL);
    return RLX_OK;
}
