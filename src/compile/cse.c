/* SPDX-License-Identifier: MIT */
/* Common subexpressions: a hash table over operation, operands and the fields of the attribute
 * record. Regions, effects and ports are never equal to anything. */
#include <string.h>

#include "base/map.h"
#include "compile/fold.h"

/* Larger literals are not compared with each other. */
#define MAX_LITERAL 4096

/* The bytes of a field that matter, without padding and unused list entries. */
static size_t field_bytes(const rx_attr_field *f, const void *record, const void **bytes)
{
    const char *at = (const char *)record + f->offset;
    *bytes = at;
    switch ((rx_attr_kind)f->kind) {
    case RX_ATTR_INT:
    case RX_ATTR_FLOAT:
    case RX_ATTR_DIM: return 8;
    case RX_ATTR_BOOL: return sizeof(bool);
    case RX_ATTR_ENUM:
    case RX_ATTR_DTYPE: return sizeof(int);
    case RX_ATTR_FLOATS: return f->count * sizeof(double);
    case RX_ATTR_INTS:
    case RX_ATTR_DIMS: {
        const rlx_ints *list = (const rlx_ints *)(const void *)at;
        *bytes = list->v;
        return (size_t)list->n * sizeof list->v[0];
    }
    case RX_ATTR_SHAPE: {
        const rlx_shape *s = (const rlx_shape *)(const void *)at;
        *bytes = s->dim;
        return (size_t)s->rank * sizeof s->dim[0];
    }
    case RX_ATTR_STRING: {
        const char *text = *(const char *const *)(const void *)at;
        *bytes = text;
        return text ? strlen(text) : 0;
    }
    case RX_ATTR_BYTES: {
        const rx_leaf_attr *leaf = record;
        *bytes = leaf->data;
        return (size_t)leaf->bytes;
    }
    case RX_ATTR_END:
    case RX_ATTR_REGION: break;
    }
    return 0;
}

static uint64_t hash_key(const rx_cse_key *k)
{
    uint64_t h = rx_hash_keyed(k->op, k->in, k->n_in * sizeof *k->in);
    for (const rx_attr_field *f = rx_ops[k->op].attr->fields; f->kind != RX_ATTR_END; f++) {
        const void *bytes;
        size_t n = field_bytes(f, k->attr, &bytes);
        h = rx_hash_keyed(h + n, bytes, n);
    }
    return h;
}

static bool equal_attr(const rx_attr_info *info, const void *a, const void *b)
{
    for (const rx_attr_field *f = info->fields; f->kind != RX_ATTR_END; f++) {
        const void *x, *y;
        size_t n = field_bytes(f, a, &x);
        if (f->kind == RX_ATTR_REGION || field_bytes(f, b, &y) != n || (n && memcmp(x, y, n)))
            return false;
    }
    return true;
}

static bool is_equal(const rx_node *n, const rx_cse_key *k)
{
    if (n->op != k->op || n->n_in != k->n_in)
        return false;
    for (size_t i = 0; i < k->n_in; i++)
        if (n->in[i] != k->in[i].id)
            return false;
    return equal_attr(rx_ops[k->op].attr, n->attr, k->attr);
}

static bool may_share(rx_op op, const void *attr)
{
    if (op == RX_OP_constant)
        return ((const rx_leaf_attr *)attr)->bytes <= MAX_LITERAL;
    return !(rx_ops[op].flags & (RX_OP_LEAF | RX_OP_EFFECT)) && op != RX_OP_region;
}

void rx_cse_finish(rx_cse *t)
{
    rx_free(t->slots);
    *t = (rx_cse){0};
}

rlx_value rx_cse_find(const rx_cse *t, const rlx_graph *g, const rx_cse_key *key)
{
    if (!t->cap || !may_share(key->op, key->attr))
        return RLX_NONE;
    for (size_t i = (size_t)hash_key(key) & (t->cap - 1); t->slots[i]; i = (i + 1) & (t->cap - 1)) {
        const rx_node *n = &g->nodes[t->slots[i] - 1];
        if (is_equal(n, key))
            return (rlx_value){n->first_out};
    }
    return RLX_NONE;
}

static void put(rx_cse *t, const rlx_graph *g, uint32_t node)
{
    _Static_assert(sizeof(rlx_value) == sizeof(uint32_t), "operands are ids");
    const rx_node *n = &g->nodes[node];
    rx_cse_key key = {n->op, (const rlx_value *)(const void *)n->in, n->n_in, n->attr};
    size_t i = (size_t)hash_key(&key) & (t->cap - 1);
    while (t->slots[i])
        i = (i + 1) & (t->cap - 1);
    t->slots[i] = node + 1;
}

bool rx_cse_add(rx_cse *t, const rlx_graph *g)
{
    const rx_node *n = &g->nodes[g->n_nodes - 1];
    if (!may_share(n->op, n->attr))
        return true;
    if (2 * (t->n + 1) > t->cap) {
        rx_cse bigger = {.n = t->n, .cap = t->cap ? 2 * t->cap : 256};
        bigger.slots = rx_alloc_array_zero(bigger.cap, sizeof *bigger.slots);
        if (!bigger.slots)
            return false;
        for (size_t i = 0; i < t->cap; i++)
            if (t->slots[i])
                put(&bigger, g, t->slots[i] - 1);
        rx_free(t->slots);
        *t = bigger;
    }
    put(t, g, (uint32_t)g->n_nodes - 1);
    t->n++;
    return true;
}
