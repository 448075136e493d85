/* SPDX-License-Identifier: MIT */
/* Region fusion: connected elementwise nodes of one shape become one region. Nodes are walked in
 * order; an open group absorbs each node that uses one of its values, and is closed by the first
 * node outside it that does. So all members precede all users, the region can be placed at its last
 * member, and no cycle can arise. */
#include <stdlib.h>
#include <string.h>

#include "compile/compile.h"
#include "compile/fuse.h"
#include "compile/rewrite.h"
#include "ops/region.h"

#define MAX_INPUTS 12
#define MAX_MEMBERS 64
#define MAX_OUTPUTS 8
#define NO_GROUP 0xffffffffu

typedef struct group {
    uint32_t parent;          /* union-find parent: itself, or the group that absorbed it */
    uint32_t first, last;     /* nodes: head and tail of the list of members */
    uint32_t newest;          /* the member with the highest index */
    uint16_t n_members, n_in;
    bool open;
    uint32_t in[MAX_INPUTS];  /* values from outside */
} group;

typedef struct grouper {
    rx_rewrite w;
    const rx_target *target;
    group *groups;
    uint32_t n_groups;
    uint32_t *group_of; /* by node; NO_GROUP: not elementwise */
    uint32_t *next;     /* by node: the next member of its group, or NO_GROUP */
    uint32_t *uses;     /* by value */
} grouper;

static uint32_t find(grouper *r, uint32_t k)
{
    while (r->groups[k].parent != k) {
        r->groups[k].parent = r->groups[r->groups[k].parent].parent;
        k = r->groups[k].parent;
    }
    return k;
}

/* The group that makes a value, or NO_GROUP. */
static uint32_t group_of_value(grouper *r, uint32_t id)
{
    uint32_t k = id ? r->group_of[r->w.from->values[id].node] : NO_GROUP;
    return k == NO_GROUP ? k : find(r, k);
}

/* Elementwise, and reads no state: a region is placed after its members, when the state may have
 * changed. */
static bool may_join(const rlx_graph *g, const rx_node *n)
{
    if (!(rx_ops[n->op].flags & RX_OP_ELEMENTWISE))
        return false;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (g->values[n->in[i]].state)
            return false;
    return true;
}

static bool add_input(group *k, uint32_t id)
{
    for (uint16_t i = 0; i < k->n_in; i++)
        if (k->in[i] == id)
            return true;
    if (k->n_in == MAX_INPUTS)
        return false;
    k->in[k->n_in++] = id;
    return true;
}

static uint32_t start_group(grouper *r, uint32_t node)
{
    const rx_node *n = &r->w.from->nodes[node];
    uint32_t index = r->n_groups++;
    group *k = &r->groups[index];
    *k = (group){.parent = index, .first = node, .last = node, .newest = node, .n_members = 1,
                 .open = true};
    for (uint32_t i = 0; i < n->n_in; i++)
        add_input(k, n->in[i]);
    r->group_of[node] = index;
    return index;
}

/* Group `b` (of the current node) absorbs group `a`, which defines values that b uses. False when
 * the union would be too large. */
static bool merge(grouper *r, uint32_t a, uint32_t b)
{
    group *from = &r->groups[a], *to = &r->groups[b], both = *to;
    if (from->n_members + to->n_members > MAX_MEMBERS)
        return false;
    both.n_in = 0;
    for (uint16_t i = 0; i < to->n_in; i++)
        if (group_of_value(r, to->in[i]) != a)
            add_input(&both, to->in[i]);
    for (uint16_t i = 0; i < from->n_in; i++)
        if (!add_input(&both, from->in[i]))
            return false;
    both.n_members = (uint16_t)(from->n_members + to->n_members);
    r->next[from->last] = to->first;
    both.first = from->first;
    *to = both;
    from->parent = b;
    return true;
}

static bool same_shape(const rlx_graph *g, uint32_t a, uint32_t b)
{
    return rx_shape_equal(&g->values[a].shape, &g->values[b].shape);
}

static void visit(grouper *r, uint32_t node)
{
    const rlx_graph *g = r->w.from;
    const rx_node *n = &g->nodes[node];
    uint32_t own = may_join(g, n) ? start_group(r, node) : NO_GROUP;
    for (uint32_t i = 0; i < n->n_in; i++) {
        uint32_t k = group_of_value(r, n->in[i]);
        if (k == NO_GROUP || k == own)
            continue;
        bool joins = own != NO_GROUP && r->groups[k].open &&
                     same_shape(g, n->in[i], n->first_out) && merge(r, k, own);
        if (!joins)
            r->groups[k].open = false;
    }
}

/* ---- Making the regions --------------------------------------------------------------------- */

typedef struct builder {
    uint32_t member[MAX_MEMBERS]; /* nodes, in order */
    rx_instr instr[MAX_MEMBERS];
    uint16_t out[MAX_MEMBERS];    /* instructions whose results are used outside */
    rlx_value in[MAX_INPUTS];
    rx_region region;
    const char *name;
} builder;

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The argument number of a value in the region: an input or an instruction. */
static uint16_t find_argument(const grouper *r, const group *k, const builder *b, uint32_t id)
{
    for (uint16_t i = 0; i < k->n_in; i++)
        if (k->in[i] == id)
            return i;
    uint32_t node = r->w.from->values[id].node;
    const uint32_t *at = bsearch(&node, b->member, k->n_members, sizeof node, compare_ids);
    return (uint16_t)(k->n_in + (at - b->member));
}

static void describe(grouper *r, const group *k, builder *b)
{
    const rlx_graph *g = r->w.from;
    uint32_t inner_uses[MAX_MEMBERS] = {0};
    *b = (builder){.region = {.n_in = k->n_in, .n_instr = k->n_members}};
    uint32_t at = k->first;
    for (uint16_t i = 0; i < k->n_members; i++, at = r->next[at])
        b->member[i] = at;
    qsort(b->member, k->n_members, sizeof *b->member, compare_ids);
    for (uint16_t i = 0; i < k->n_in; i++)
        b->in[i] = (rlx_value){r->w.map[k->in[i]]};
    for (uint16_t i = 0; i < k->n_members; i++) {
        const rx_node *n = &g->nodes[b->member[i]];
        b->instr[i] = rx_instr_make(n->op, n->attr, g->values[n->first_out].dtype);
        for (uint32_t j = 0; j < n->n_in; j++) {
            uint16_t arg = find_argument(r, k, b, n->in[j]);
            b->instr[i].arg[j] = arg;
            if (arg >= k->n_in)
                inner_uses[arg - k->n_in]++;
        }
        if (n->name)
            b->name = n->name;
    }
    for (uint16_t i = 0; i < k->n_members; i++)
        if (r->uses[g->nodes[b->member[i]].first_out] > inner_uses[i])
            b->out[b->region.n_out++] = i;
    b->region.instr = b->instr;
    b->region.out = b->out;
}

/* True when the region was appended; false when the target does not run it. */
static bool build_region(grouper *r, const builder *b)
{
    rlx_graph *to = r->w.to;
    if (b->region.n_out > MAX_OUTPUTS)
        return false;
    rlx_value v = rx_region_build(to, &b->region, b->in, b->region.n_in, b->name);
    if (to->error.code == RLX_INVALID)
        to->error = (rlx_error){0};
    if (!v.id || r->target->support(r->target, to, rx_value_node(to, v.id)) != RLX_SUPPORT_NATIVE)
        return false;
    for (uint16_t i = 0; i < b->region.n_out; i++)
        r->w.map[r->w.from->nodes[b->member[b->out[i]]].first_out] = rx_result(v, i).id;
    return true;
}

static rlx_status emit(grouper *r, uint32_t node)
{
    const rlx_graph *g = r->w.from;
    const group *k =
        r->group_of[node] == NO_GROUP ? NULL : &r->groups[find(r, r->group_of[node])];
    if (!k || k->n_members == 1)
        return rx_rewrite_copy(&r->w, &g->nodes[node]);
    if (k->newest != node)
        return RLX_OK;
    builder b;
    describe(r, k, &b);
    if (build_region(r, &b))
        return RLX_OK;
    for (uint16_t i = 0; i < k->n_members && !r->w.to->error.code; i++)
        rx_rewrite_copy(&r->w, &g->nodes[b.member[i]]);
    return r->w.to->error.code;
}

rlx_status rx_fuse_regions(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err)
{
    grouper r = {.target = t};
    *out = NULL;
    RLX_TRY(rx_rewrite_begin(&r.w, g, err));
    r.groups = rx_alloc_array(g->n_nodes + 1, sizeof *r.groups);
    r.group_of = rx_alloc_array(g->n_nodes + 1, sizeof *r.group_of);
    r.next = rx_alloc_array(g->n_nodes + 1, sizeof *r.next);
    r.uses = rx_alloc_array(g->n_values, sizeof *r.uses);
    rlx_status s = RLX_OK;
    if (!r.groups || !r.group_of || !r.next || !r.uses) {
        s = rx_fail(err, RLX_NO_MEMORY, "out of memory: regions of graph '%s'", g->name);
    } else {
        memset(r.group_of, 0xff, g->n_nodes * sizeof *r.group_of);
        memset(r.next, 0xff, g->n_nodes * sizeof *r.next);
        rx_count_uses(g, r.w.live, r.uses);
        for (uint32_t i = 0; i < g->n_nodes; i++)
            if (r.w.live[i])
                visit(&r, i);
    }
    for (uint32_t i = 0; i < g->n_nodes && s == RLX_OK; i++)
        if (r.w.live[i])
            s = emit(&r, i);
    rx_free(r.groups);
    rx_free(r.group_of);
    rx_free(r.next);
    rx_free(r.uses);
    return rx_rewrite_end(&r.w, s, out, err);
}
