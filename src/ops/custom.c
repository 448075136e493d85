/* SPDX-License-Identifier: MIT */
/* The operation `custom`: the registry of user-defined operations, builder, shape rule and
 * decomposition. Entries are never removed, so pointers to them stay valid. */
#include "ops/custom.h"

#include <stdatomic.h>
#include <string.h>

#include "base/sized.h"
#include "ir/infer.h"
#include "ops/lower.h"

enum { MAX_OPS = 256, MAX_NAME = 63, DEFAULT_LOCAL = 64 };

static rlx_op_desc list[MAX_OPS];
static atomic_size_t n_listed;      /* entries that may be read */
static atomic_flag adding = ATOMIC_FLAG_INIT;

const rlx_op_desc *rx_custom_find(const char *name)
{
    const size_t n = atomic_load_explicit(&n_listed, memory_order_acquire);
    for (size_t i = 0; name && i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    return NULL;
}

/* ---- SPIR-V ---------------------------------------------------------------------------------- */

/* Opcodes and limits of the SPIR-V specification. */
enum {
    SPV_MAGIC = 0x07230203, SPV_HEADER = 5, SPV_ENTRY_POINT = 15, SPV_DECORATE = 71,
    SPV_GL_COMPUTE = 5, SPV_BINDING = 33
};

/* One instruction of `n` words; *entries counts the entry points that can be used. */
static rlx_status check_instruction(const rlx_op_desc *d, const uint32_t *word, uint32_t n,
                                    uint32_t *entries, rlx_error *err)
{
    static const uint32_t main_word = 'm' | 'a' << 8 | 'i' << 16 | (uint32_t)'n' << 24;
    const uint32_t code = *word & 0xffff;
    if (code == SPV_ENTRY_POINT && n >= 5 && word[1] == SPV_GL_COMPUTE && word[3] == main_word &&
        word[4] == 0)
        ++*entries;
    if (code == SPV_DECORATE && n >= 4 && word[2] == SPV_BINDING &&
        word[3] >= d->max_in + d->n_out)
        return rx_fail(err, RLX_INVALID, "operation '%s': its SPIR-V uses binding %u; expected 0 "
                       "to %u, %u operands and %u results", d->name, word[3],
                       d->max_in + d->n_out - 1, d->max_in, d->n_out);
    return RLX_OK;
}

/* Checks the structure of a module and its entry point before any driver sees it. */
static rlx_status check_spirv(const rlx_op_desc *d, rlx_error *err)
{
    uint32_t entries = 0;
    if (d->spirv_words < SPV_HEADER || d->spirv[0] != SPV_MAGIC)
        return rx_fail(err, RLX_INVALID, "operation '%s': its SPIR-V of %zu words does not begin "
                       "with a header and 0x07230203", d->name, d->spirv_words);
    for (size_t at = SPV_HEADER; at < d->spirv_words;) {
        const uint32_t n = d->spirv[at] >> 16;
        if (n == 0 || n > d->spirv_words - at)
            return rx_fail(err, RLX_INVALID, "operation '%s': the instruction at word %zu of its "
                           "SPIR-V has %u words, of %zu that are left", d->name, at, n,
                           d->spirv_words - at);
        RLX_TRY(check_instruction(d, d->spirv + at, n, &entries, err));
        at += n;
    }
    if (entries != 1)
        return rx_fail(err, RLX_INVALID, "operation '%s': its SPIR-V has %u entry points \"main\" "
                       "of model GLCompute; expected one", d->name, entries);
    if (!d->grid)
        return rx_fail(err, RLX_INVALID, "operation '%s' has SPIR-V and no function `grid`",
                       d->name);
    return RLX_OK;
}

/* ---- Registration ---------------------------------------------------------------------------- */

static rlx_status check_name(const char *name, rlx_error *err)
{
    RLX_TRY(rx_need(name, "rlx_op_register: the name", err));
    const size_t n = strlen(name);
    const size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789_");
    if (n == 0 || n > MAX_NAME || good != n)
        return rx_fail(err, RLX_INVALID, "operation '%.80s': expected a name of 1 to %d letters, "
                       "digits and _", name, MAX_NAME);
    if (rx_op_find(name, n) != RX_N_OPS || rx_custom_find(name))
        return rx_fail(err, RLX_INVALID, "operation '%s': the name is taken%s", name,
                       rx_custom_find(name) ? "" : " by the catalogue");
    return RLX_OK;
}

static rlx_status check_desc(rlx_op_desc *d, rlx_error *err)
{
    RLX_TRY(check_name(d->name, err));
    d->max_in = d->max_in ? d->max_in : d->min_in;
    d->n_out = d->n_out ? d->n_out : 1;
    d->local_size = d->local_size ? d->local_size : DEFAULT_LOCAL;
    if (d->min_in > d->max_in || (uint64_t)d->max_in + d->n_out > RLX_OP_MAX_OPERANDS)
        return rx_fail(err, RLX_INVALID, "operation '%s' has %u to %u operands and %u results; "
                       "expected at most %d together", d->name, d->min_in, d->max_in, d->n_out,
                       RLX_OP_MAX_OPERANDS);
    if (!d->shape)
        return rx_fail(err, RLX_INVALID, "operation '%s' has no shape rule", d->name);
    if (!d->cpu && !d->decompose && !d->spirv)
        return rx_fail(err, RLX_INVALID, "operation '%s' has neither a function for the CPU nor "
                       "SPIR-V nor a decomposition", d->name);
    return d->spirv ? check_spirv(d, err) : RLX_OK;
}

rlx_status rlx_op_register(const rlx_op_desc *d, rlx_error *err)
{
    RLX_TRY(rx_need(d, "rlx_op_register: d", err));
    rlx_op_desc full;
    RLX_TRY(RX_DESC_READ(rlx_op_desc, &full, d, err));
    while (atomic_flag_test_and_set_explicit(&adding, memory_order_acquire))
        ; /* spins: writers hold the lock only briefly */
    const size_t n = atomic_load(&n_listed);
    rlx_status st = check_desc(&full, err);
    if (st == RLX_OK && n == MAX_OPS)
        st = rx_fail(err, RLX_INVALID, "operation '%s': there are %d already", full.name, MAX_OPS);
    if (st == RLX_OK) {
        list[n] = full;
        atomic_store_explicit(&n_listed, n + 1, memory_order_release);
    }
    atomic_flag_clear_explicit(&adding, memory_order_release);
    return st;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

bool rx_custom_has(const rx_node *n, rx_custom_kernel k)
{
    if (n->op != RX_OP_custom)
        return true;
    const rlx_op_desc *d = rx_custom_find(((const rlx_custom_desc *)n->attr)->op);
    return d && (k == RX_CUSTOM_CPU ? d->cpu != NULL : d->spirv != NULL);
}

static void fill_tensor(rlx_op_tensor *t, const rx_view *v)
{
    *t = (rlx_op_tensor){.dtype = RLX_NO_TYPE};
    if (!rx_view_exists(v))
        return;
    t->dtype = v->dtype;
    t->shape.rank = v->rank;
    memcpy(t->shape.dim, v->dim, (size_t)v->rank * sizeof *v->dim);
}

void rx_custom_fill(rx_custom_call *c, const rlx_custom_desc *attrs, const rx_view *in, size_t n_in,
                    const rx_view *out, size_t n_out)
{
    for (size_t i = 0; i < n_in; i++)
        fill_tensor(&c->tensors[i], &in[i]);
    for (size_t i = 0; i < n_out; i++)
        fill_tensor(&c->tensors[n_in + i], &out[i]);
    c->call = (rlx_op_call){attrs, n_in, n_out, c->tensors, c->tensors + n_in, NULL};
}

/* ---- The operation --------------------------------------------------------------------------- */

rlx_value rlx_custom(rlx_graph *g, const rlx_value *in, size_t n_in, const rlx_custom_desc *d)
{
    return rx_graph_add(g, RX_OP_custom, in, n_in, d, NULL);
}

/* A result that the shape rule has set. */
static rlx_status take_result(rx_infer *c, const rlx_op_desc *d, size_t i, const rlx_op_tensor *t)
{
    if (t->dtype <= RLX_NO_TYPE || t->dtype >= RLX_N_DTYPES || rlx_dtype_is_packed(t->dtype) ||
        t->shape.rank < 0 || t->shape.rank > RLX_MAX_RANK)
        return rx_infer_fail(c, "the shape rule of '%s' gave result %zu type %d and rank %d; "
                             "expected a plain type and at most %d", d->name, i, (int)t->dtype,
                             (int)t->shape.rank, RLX_MAX_RANK);
    for (int k = 0; k < t->shape.rank; k++) {
        const rlx_dim dim = t->shape.dim[k];
        if (dim == -1 || (dim < 0 && (uint64_t)-(dim + 2) >= c->g->n_dims))
            return rx_infer_fail(c, "the shape rule of '%s' gave result %zu a dimension %lld that "
                                 "the graph does not have", d->name, i, (long long)dim);
    }
    rx_out(c, i, t->dtype, &t->shape);
    return RLX_OK;
}

rlx_status rx_infer_custom(rx_infer *c)
{
    rlx_custom_desc *attrs = c->attr;
    const rlx_op_desc *d = rx_custom_find(attrs->op);
    if (!d)
        return rx_infer_fail(c, "attribute op is '%.80s': no operation of that name was registered",
                             attrs->op ? attrs->op : "");
    if (c->n_in < d->min_in || c->n_in > d->max_in)
        return rx_infer_fail(c, "'%s' expected %u to %u operands, got %zu", d->name, d->min_in,
                             d->max_in, c->n_in);
    attrs->op = d->name; /* which outlives the graph */
    rlx_op_tensor t[RLX_OP_MAX_OPERANDS] = {{0}};
    for (size_t i = 0; i < c->n_in; i++)
        if (c->in[i])
            t[i] = (rlx_op_tensor){c->in[i]->dtype, c->in[i]->shape, NULL};
    rlx_op_call call = {attrs, c->n_in, d->n_out, t, t + c->n_in, c->g};
    rlx_error why = {0};
    const rlx_status st = d->shape(d->user, &call, &why);
    if (st != RLX_OK)
        return rx_infer_fail(c, "'%s': %.300s", d->name,
                             why.text[0] ? why.text : rlx_status_name(st));
    c->n_out = d->n_out;
    for (size_t i = 0; i < d->n_out; i++)
        RLX_TRY(take_result(c, d, i, &t[c->n_in + i]));
    return RLX_OK;
}

rlx_status rx_lower_custom(rx_lower *c)
{
    const rlx_custom_desc *attrs = c->attr;
    const rlx_op_desc *d = rx_custom_find(attrs->op);
    if (!d || !d->decompose)
        return rx_graph_fail(c->g, RLX_UNSUPPORTED, "operation '%s': this device has no kernel of "
                             "it and it has no decomposition; it has %s", attrs->op,
                             d && d->cpu ? d->spirv ? "`cpu` and `spirv`" : "`cpu`, no `spirv`"
                                         : "`spirv`, no `cpu`");
    RLX_TRY(d->decompose(d->user, c->g, attrs, c->in, c->node->n_in, c->out));
    for (size_t i = 0; i < d->n_out; i++)
        if (c->out[i].id >= c->g->n_values)
            return rx_graph_fail(c->g, RLX_INVALID, "operation '%s': its decomposition gave result "
                                 "%zu value %u, which the graph does not have", d->name, i,
                                 c->out[i].id);
    return RLX_OK;
}
