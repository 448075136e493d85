/* SPDX-License-Identifier: MIT */
/* Unrolling, in the module, before it is printed: WGSL cannot ask for it, and a loop that a driver
 * does not unroll keeps every array that its counter indexes in memory. Blocks that are never
 * reached with these constants are dropped first. A loop is counted by running what decides about
 * its end; each trip becomes a copy of its blocks with ids of its own, in which the counter is a
 * constant, so that inner loops whose bounds are made of it can be counted next.
 *
 * Requires a module that rx_ws_read_module has accepted. Leaves one that means the same; loops that
 * are not understood stay as they are. */
#include <string.h>

#include "spirv/wgsl_print.h"

#define MAX_TRIPS 256
#define MAX_EVAL_DEPTH 24
#define MAX_WORK (1u << 22) /* instructions looked at, for modules that mean harm */
#define MAX_IDS (1u << 18)
#define SLACK 8             /* words after the module that may be read */

typedef struct unroll_id {
    uint32_t def;        /* where its instruction is; 0: nowhere */
    uint32_t map;        /* its name in the copy being made; 0: unchanged */
    uint32_t value, next_value;
    uint32_t next;       /* phis: what they are in the next copy */
    bool known, next_known;
    bool folds;          /* follows from counters of the loop: a constant in each copy */
    uint32_t taken;      /* labels: the only one that the block goes to; 0: not known */
    bool live;           /* labels: some block that is reached goes there */
} unroll_id;

/* A growing run of words. */
typedef struct word_list {
    uint32_t *w;
    size_t n, cap;
} word_list;

typedef struct unroller {
    rx_wgsl *p;             /* types, constants with their values */
    word_list module, copies, constants;
    unroll_id *ids;
    size_t cap_ids;
    uint32_t bound, int_type;
    size_t *loops;          /* heads of loops yet to be looked at, in order */
    size_t n_loops, cap_loops;
    size_t end, work, room; /* of the loop; instructions looked at; bytes of text left */
    bool failed;            /* out of memory */
} unroller;

/* `for (phis; exit; cont)`: blocks from `head` up to `end`, the label of `merge`. */
typedef struct loop {
    size_t head, body, exit, end; /* label, first instruction that is no phi, branch, label */
    uint32_t label, merge, cont, to; /* ids; to: where the branch goes on */
    uint32_t back;                /* label of the block that goes back */
    uint32_t mask, n_steps;       /* hint of the module; edges to cont */
    bool until;                   /* the branch leaves where its condition holds */
    bool has_array;               /* a private array has an index that may vary */
    bool steps_in_switch;         /* an edge to cont leaves a switch on its way */
    uint32_t trips;
    size_t text;                  /* bytes that a copy of it is printed as, about */
} loop;

/* ---- Words ----------------------------------------------------------------------------------- */

static void put(unroller *u, word_list *to, const uint32_t *words, size_t n)
{
    if (u->failed || !rx_grow(&to->w, &to->cap, to->n + n + SLACK, sizeof *to->w)) {
        u->failed = true;
        return;
    }
    memcpy(to->w + to->n, words, n * sizeof *words);
    to->n += n;
}

static uint32_t new_id(unroller *u)
{
    if (u->failed || !rx_grow(&u->ids, &u->cap_ids, u->bound + (size_t)1, sizeof *u->ids)) {
        u->failed = true;
        return 0;
    }
    u->ids[u->bound] = (unroll_id){0};
    return u->bound++;
}

/* The id of an integer constant. */
static uint32_t constant_of(unroller *u, uint32_t type, uint32_t value)
{
    const word_list *c = &u->constants;
    for (size_t i = 0; i < c->n; i += 4)
        if (c->w[i + 1] == type && c->w[i + 3] == value)
            return c->w[i + 2];
    const uint32_t id = new_id(u);
    if (!u->failed)
        u->ids[id] = (unroll_id){.value = value, .known = true};
    put(u, &u->constants, (uint32_t[]){4u << 16 | OpConstant, type, id, value}, 4);
    return id;
}

/* True: word i of an instruction is a number, not an id. */
static bool is_literal(uint32_t op, uint32_t i)
{
    switch (op) {
    case OpExtInst:
    case OpArrayLength:
    case OpGroupNonUniformBallotBitCount: return i == 4;
    case OpLoad:
    case OpCompositeExtract:
    case OpBranchConditional: return i >= 4;
    case OpStore:
    case OpLoopMerge: return i >= 3;
    case OpSelectionMerge:
    case OpLine: return i >= 2;
    case OpVectorShuffle:
    case OpCompositeInsert:
    case OpSDot:
    case OpUDot:
    case OpSUDot: return i >= 5;
    case OpSwitch: return i >= 3 && i % 2;
    }
    return op >= OpGroupNonUniformIAdd && op <= OpGroupNonUniformBitwiseXor && i == 4;
}

static uint32_t mapped(const unroller *u, uint32_t id)
{
    return id < u->bound && u->ids[id].map ? u->ids[id].map : id;
}

/* The id that an instruction defines; 0: none. */
static uint32_t result_of(const unroller *u, const uint32_t *in)
{
    const rx_ws_op *op = rx_ws_find_op(rx_ws_opcode(in));
    const uint32_t id = !op || op->form == RX_WS_NONE ? 0 : op->form == RX_WS_ID ? in[1] : in[2];
    return id < u->bound ? id : 0;
}

/* An instruction with the ids of the copy being made. */
static void put_mapped(unroller *u, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), n = rx_ws_length(in);
    const size_t at = u->copies.n;
    put(u, &u->copies, in, n);
    for (uint32_t i = 1; i < n && !u->failed; i++)
        if (!is_literal(op, i))
            u->copies.w[at + i] = mapped(u, in[i]);
}

/* ---- Finding loops --------------------------------------------------------------------------- */

static bool is_terminator(uint32_t op) { return op >= OpBranch && op <= OpUnreachable; }

static uint32_t count_edges(const uint32_t *in, uint32_t to)
{
    uint32_t n = 0;
    switch (rx_ws_opcode(in)) {
    case OpBranch: return in[1] == to;
    case OpBranchConditional: return (uint32_t)(in[2] == to) + (in[3] == to);
    case OpSwitch:
        for (uint32_t i = 2; i < rx_ws_length(in); i += 2)
            n += in[i] == to;
    }
    return n;
}

/* True: all operands of an operation that can be computed here are known, or else counters. */
static bool is_computable(const unroller *u, const uint32_t *in, bool counters)
{
    uint32_t a[3] = {1, 1, 1}, value;
    const uint32_t op = rx_ws_opcode(in), n = rx_ws_length(in);
    if (op == OpPhi ? n != 5 : n < 4 || n > 6 || !rx_ws_fold(op, a, n - 3, &value))
        return false;
    for (uint32_t i = 3; i < (op == OpPhi ? 4 : n); i++) {
        const unroll_id *d = in[i] < u->bound ? &u->ids[in[i]] : NULL;
        if (!d || !(d->known || (counters && d->folds)))
            return false;
    }
    return true;
}

/* Bytes that an instruction is printed as, about. What folds is not, pointers are part of loads,
 * and so on: measured over all kernels. */
static size_t text_of(const unroller *u, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), id = result_of(u, in);
    if (id && (u->ids[id].known || u->ids[id].folds))
        return 0;
    if (op == OpLabel || op == OpAccessChain || op == OpInBoundsAccessChain ||
        op == OpSelectionMerge || op == OpLoopMerge || op == OpBranch)
        return 1;
    return 2 * (size_t)rx_ws_length(in);
}

/* True: an element of a variable of the function at a place that is computed in the loop. */
static bool is_varying_access(const unroller *u, const loop *l, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), from = rx_ws_length(in) > 3 ? in[3] : 0;
    if ((op != OpAccessChain && op != OpInBoundsAccessChain) || from >= u->p->bound)
        return false;
    const uint32_t *variable = u->p->id[from].in;
    if (!variable || rx_ws_opcode(variable) != OpVariable ||
        (variable[3] != CLASS_FUNCTION && variable[3] != CLASS_PRIVATE))
        return false;
    for (uint32_t i = 4; i < rx_ws_length(in); i++)
        if (in[i] < u->bound && u->ids[in[i]].def >= l->head)
            return true;
    return false;
}

/* Looks at all blocks of the loop and enters their results. False: it is left in several places,
 * or goes back from several, or does not lie in one stretch. */
static bool read_blocks(unroller *u, loop *l)
{
    const uint32_t *w = u->module.w;
    uint32_t block = 0, n_exits = 0, n_backs = 0, merge = 0, in_switch = 0;
    for (size_t at = l->head; at < u->module.n; at += rx_ws_length(w + at)) {
        const uint32_t *in = w + at, op = rx_ws_opcode(in), id = result_of(u, in);
        if (op == OpFunctionEnd || u->work++ > MAX_WORK)
            return false;
        if (op == OpLabel && in[1] == l->merge) {
            l->end = at;
            return n_exits == 1 && n_backs == 1 && l->exit;
        }
        if (id) {
            u->ids[id].def = (uint32_t)at;
            u->ids[id].folds = (op == OpPhi && block == l->label) || is_computable(u, in, true);
        }
        l->text += text_of(u, in);
        block = op == OpLabel ? in[1] : block;
        merge = op == OpSelectionMerge ? in[1] : merge;
        if (op == OpSwitch && !in_switch && merge != l->cont)
            in_switch = merge;
        else if (op == OpLabel && in[1] == in_switch)
            in_switch = 0;
        l->has_array |= is_varying_access(u, l, in);
        const uint32_t exits = count_edges(in, l->merge);
        if (exits && op == OpBranchConditional)
            l->exit = at;
        n_exits += exits;
        l->n_steps += count_edges(in, l->cont);
        l->steps_in_switch |= in_switch && count_edges(in, l->cont);
        if (count_edges(in, l->label)) {
            n_backs += op == OpBranch ? 1 : 2;
            l->back = block;
        }
    }
    return false;
}

/* Where the block that `at` is in ends; 0: it can be reached in several ways, or begins a selection
 * or a loop that is not this one. */
static size_t find_terminator(const unroller *u, const loop *l, size_t at)
{
    const uint32_t *w = u->module.w;
    for (; at < l->end; at += rx_ws_length(w + at)) {
        const uint32_t op = rx_ws_opcode(w + at);
        if (is_terminator(op))
            return at;
        if ((op == OpPhi && rx_ws_length(w + at) != 5) || op == OpSelectionMerge ||
            (op == OpLoopMerge && w[at + 1] != l->merge))
            return 0;
    }
    return 0;
}

/* True: the head, or it and blocks that follow one another, end in the branch that leaves. */
static bool is_tested_first(const unroller *u, loop *l)
{
    const uint32_t *w = u->module.w;
    size_t at = find_terminator(u, l, l->body);
    while (at && at != l->exit) {
        const size_t next = at + rx_ws_length(w + at);
        if (rx_ws_opcode(w + at) != OpBranch || next >= l->exit || w[at + 1] != w[next + 1] ||
            rx_ws_opcode(w + next) != OpLabel || w[at + 1] == l->cont)
            return false;
        at = find_terminator(u, l, next + 2);
    }
    if (!at)
        return false;
    l->until = w[at + 2] == l->merge;
    l->to = w[at + (l->until ? 3 : 2)];
    return l->to != l->merge;
}

/* The edges of a phi at the head of a loop, a value and a label each. */
typedef struct phi_edges {
    const uint32_t *first, *again; /* into the loop, back to the head */
} phi_edges;

static phi_edges edges_of(const loop *l, const uint32_t *phi)
{
    return phi[4] == l->back ? (phi_edges){phi + 5, phi + 3} : (phi_edges){phi + 3, phi + 5};
}

/* True: a phi of the head with just these two. */
static bool is_counter(const unroller *u, const loop *l, const uint32_t *phi)
{
    return rx_ws_length(phi) == 7 && phi[2] < u->bound &&
           (phi[4] == l->back) != (phi[6] == l->back);
}

/* The loop with its head at `at`; false: not one that can be counted. */
static bool find_loop(unroller *u, size_t at, loop *l)
{
    const uint32_t *w = u->module.w;
    *l = (loop){.head = at, .label = w[at + 1], .body = at + 2};
    for (at += 2; rx_ws_opcode(w + at) != OpLoopMerge; at += rx_ws_length(w + at))
        continue;
    l->merge = w[at + 1];
    l->cont = w[at + 2];
    l->mask = w[at + 3];
    if (l->cont == l->label || !read_blocks(u, l))
        return false;
    for (; rx_ws_opcode(w + l->body) == OpPhi; l->body += rx_ws_length(w + l->body))
        if (!is_counter(u, l, w + l->body))
            return false;
    /* A body that is left early becomes a switch, which another switch would hide. */
    return is_tested_first(u, l) && (l->n_steps == 1 || (!l->steps_in_switch && u->int_type));
}

/* ---- Counting -------------------------------------------------------------------------------- */

static bool evaluate(unroller *u, uint32_t id, uint32_t depth, uint32_t *value);

/* One operand may decide. */
static bool evaluate_logic(unroller *u, const uint32_t *in, uint32_t depth, uint32_t *value)
{
    const bool is_or = rx_ws_opcode(in) == OpLogicalOr;
    uint32_t a[2];
    bool known[2];
    for (int i = 0; i < 2; i++) {
        known[i] = evaluate(u, in[3 + i], depth + 1, &a[i]);
        *value = is_or;
        if (known[i] && (a[i] != 0) == is_or)
            return true;
    }
    *value = !is_or;
    return known[0] && known[1];
}

/* The value of an integer or bool, if it follows from constants and phis whose value is known. */
static bool evaluate(unroller *u, uint32_t id, uint32_t depth, uint32_t *value)
{
    uint32_t a[3] = {1, 1, 1};
    if (!id || id >= u->bound || depth > MAX_EVAL_DEPTH || u->work++ > MAX_WORK)
        return false;
    const unroll_id *d = &u->ids[id];
    *value = d->value;
    if (d->known || !d->def || d->def >= u->end)
        return d->known;
    const uint32_t *in = u->module.w + d->def, n = rx_ws_length(in);
    if (rx_ws_opcode(in) == OpPhi && n == 5)
        return evaluate(u, in[3], depth + 1, value);
    if (rx_ws_opcode(in) == OpLogicalAnd || rx_ws_opcode(in) == OpLogicalOr)
        return evaluate_logic(u, in, depth, value);
    if (n < 4 || n > 6 || !rx_ws_fold(rx_ws_opcode(in), a, n - 3, value) ||
        !rx_ws_is_scalar(u->p, in[1]))
        return false;
    for (uint32_t i = 3; i < n; i++)
        if (!evaluate(u, in[i], depth + 1, &a[i - 3]))
            return false;
    return rx_ws_fold(rx_ws_opcode(in), a, n - 3, value);
}

/* The phis of the head, for the first trip or the next one. */
static void step_phis(unroller *u, const loop *l, bool is_first)
{
    const uint32_t *w = u->module.w;
    size_t at;
    for (at = l->head + 2; at < l->body; at += rx_ws_length(w + at)) {
        unroll_id *phi = &u->ids[w[at + 2]];
        const phi_edges e = edges_of(l, w + at);
        phi->next_known = evaluate(u, is_first ? *e.first : *e.again, 0, &phi->next_value);
    }
    for (at = l->head + 2; at < l->body; at += rx_ws_length(w + at)) {
        unroll_id *phi = &u->ids[w[at + 2]];
        phi->known = phi->next_known;
        phi->value = phi->next_value;
    }
}

static void forget_phis(unroller *u, const loop *l)
{
    const uint32_t *w = u->module.w;
    for (size_t at = l->head + 2; at < l->body; at += rx_ws_length(w + at))
        u->ids[w[at + 2]].known = false;
}

/* Runs the loop; false: its end is not known, or too far. */
static bool count_trips(unroller *u, loop *l)
{
    uint32_t goes_on;
    bool known = true;
    u->end = l->end;
    step_phis(u, l, true);
    for (l->trips = 0; l->trips <= MAX_TRIPS; l->trips++) {
        known = evaluate(u, u->module.w[l->exit + 1], 0, &goes_on);
        if (!known || (goes_on != 0) == l->until)
            break;
        step_phis(u, l, false);
    }
    forget_phis(u, l);
    return known && l->trips <= MAX_TRIPS;
}

/* Loops that do not run are dropped; others are unrolled where the module asks for it, or where
 * a private array would stay in memory, and there is room. */
static bool is_wanted(const unroller *u, const loop *l)
{
    enum { HINT_UNROLL = 1, HINT_KEEP = 2 };
    const size_t text = l->text * l->trips;
    if (!l->trips)
        return true;
    if (!(l->mask & HINT_UNROLL) && ((l->mask & HINT_KEEP) || !l->has_array))
        return false;
    return text <= u->p->opt->unroll_bytes && text <= u->room;
}

/* ---- Copying --------------------------------------------------------------------------------- */

/* What a phi of the head is once its trip has begun: a constant if possible. */
static uint32_t phi_value(unroller *u, const uint32_t *phi, uint32_t value)
{
    const unroll_id *d = &u->ids[phi[2]];
    if (d->known && rx_ws_def(u->p, phi[1]) == OpTypeInt)
        return constant_of(u, phi[1], d->value);
    return value;
}

/* Names of everything that the copy defines. Phis of the head become the values they have. */
static void name_copy(unroller *u, const loop *l, bool is_first, uint32_t label)
{
    const uint32_t *w = u->module.w;
    size_t at;
    for (at = l->head + 2; at < l->body; at += rx_ws_length(w + at)) {
        const phi_edges e = edges_of(l, w + at);
        u->ids[w[at + 2]].next = is_first ? *e.first : mapped(u, *e.again);
    }
    step_phis(u, l, is_first);
    for (at = l->body; at < l->end; at += rx_ws_length(w + at)) {
        const uint32_t id = result_of(u, w + at), name = id ? new_id(u) : 0;
        if (name)
            u->ids[id].map = name;
    }
    for (at = l->head + 2; at < l->body; at += rx_ws_length(w + at)) {
        const uint32_t name = phi_value(u, w + at, u->ids[w[at + 2]].next);
        u->ids[w[at + 2]].map = name;
    }
    u->ids[l->label].map = label;
}

/* Where the body begins. A body that is left early for the step is a switch of one arm, which
 * `break` leaves. */
static void put_entry(unroller *u, const loop *l)
{
    const uint32_t to = mapped(u, l->to);
    if (l->n_steps > 1) {
        const uint32_t zero = constant_of(u, u->int_type, 0), merge = mapped(u, l->cont);
        put(u, &u->copies, (uint32_t[]){3u << 16 | OpSelectionMerge, merge, 0,
                                        3u << 16 | OpSwitch, zero, to}, 6);
    } else {
        put(u, &u->copies, (uint32_t[]){2u << 16 | OpBranch, to}, 2);
    }
}

static void put_copy(unroller *u, const loop *l, uint32_t next_label)
{
    const uint32_t *w = u->module.w;
    put_mapped(u, w + l->head);
    for (size_t at = l->body; at < l->end && !u->failed; at += rx_ws_length(w + at)) {
        const uint32_t *in = w + at, op = rx_ws_opcode(in);
        if (at == l->exit)
            put_entry(u, l);
        else if (op == OpBranch && in[1] == l->label)
            put(u, &u->copies, (uint32_t[]){2u << 16 | OpBranch, next_label}, 2);
        else if (op != OpLoopMerge || in[1] != l->merge)
            put_mapped(u, in);
    }
}

/* The last test, which ends the loop, with the ids that what follows knows. */
static void put_end(unroller *u, const loop *l, uint32_t label)
{
    const uint32_t *w = u->module.w;
    const bool is_first = l->trips == 0;
    const uint32_t back = mapped(u, l->back);
    step_phis(u, l, is_first);
    put(u, &u->copies, (uint32_t[]){2u << 16 | OpLabel, label}, 2);
    for (size_t at = l->head + 2; at < l->body; at += rx_ws_length(w + at)) {
        const phi_edges e = edges_of(l, w + at);
        const uint32_t value = phi_value(u, w + at, is_first ? *e.first : mapped(u, *e.again));
        put(u, &u->copies, (uint32_t[]){5u << 16 | OpPhi, w[at + 1], w[at + 2], value,
                                        is_first ? e.first[1] : back}, 5);
    }
    for (size_t at = l->body; at < l->exit; at += rx_ws_length(w + at)) {
        const uint32_t op = rx_ws_opcode(w + at);
        if (op == OpPhi) /* of a block after the head */
            put(u, &u->copies, (uint32_t[]){w[at], w[at + 1], w[at + 2], w[at + 3],
                                            w[at + 4] == l->label ? label : w[at + 4]}, 5);
        else if (op != OpLoopMerge)
            put(u, &u->copies, w + at, rx_ws_length(w + at));
    }
    put(u, &u->copies, (uint32_t[]){2u << 16 | OpBranch, l->merge}, 2);
}

/* Phis after the loop that came from its head come from the last one. */
static void rename_edges(unroller *u, size_t merge, uint32_t from, uint32_t to)
{
    uint32_t *w = u->module.w;
    for (size_t at = merge + 2; at < u->module.n; at += rx_ws_length(w + at)) {
        if (rx_ws_opcode(w + at) != OpPhi)
            return;
        for (uint32_t i = 4; i < rx_ws_length(w + at); i += 2)
            if (w[at + i] == from)
                w[at + i] = to;
    }
}

static void splice(unroller *u, const loop *l)
{
    word_list *m = &u->module;
    const size_t tail = m->n - l->end, n = l->head + u->copies.n + tail;
    if (u->failed || !rx_grow(&m->w, &m->cap, n + SLACK, sizeof *m->w)) {
        u->failed = true;
        return;
    }
    memmove(m->w + l->head + u->copies.n, m->w + l->end, tail * sizeof *m->w);
    memcpy(m->w + l->head, u->copies.w, u->copies.n * sizeof *m->w);
    memset(m->w + n, 0, SLACK * sizeof *m->w);
    m->n = n;
}

static void unroll(unroller *u, const loop *l)
{
    const uint32_t *w = u->module.w;
    uint32_t label = l->label;
    u->copies.n = 0;
    for (uint32_t i = 0; i < l->trips && !u->failed; i++) {
        const uint32_t next = new_id(u);
        name_copy(u, l, i == 0, label);
        put_copy(u, l, next);
        label = next;
    }
    put_end(u, l, label);
    forget_phis(u, l);
    for (size_t at = l->head; at < l->end; at += rx_ws_length(w + at))
        u->ids[result_of(u, w + at)].map = 0;
    splice(u, l);
    if (!u->failed)
        rename_edges(u, l->head + u->copies.n, l->label, label);
}

/* ---- Blocks that are never reached ----------------------------------------------------------- */

static void reach(unroller *u, uint32_t label)
{
    if (label < u->bound)
        u->ids[label].live = true;
}

/* Marks the labels that the terminator of a block may go to. */
static void reach_targets(unroller *u, uint32_t block, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), n = rx_ws_length(in);
    uint32_t value, taken = in[n > 2 ? 2 : 1];
    if (op == OpBranch) {
        reach(u, in[1]);
        return;
    }
    if (op != OpBranchConditional && op != OpSwitch)
        return;
    if (evaluate(u, in[1], 0, &value)) {
        if (op == OpBranchConditional)
            taken = value ? in[2] : in[3];
        for (uint32_t i = 3; op == OpSwitch && i + 1 < n; i += 2)
            taken = in[i] == value ? in[i + 1] : taken;
        reach(u, taken);
        u->ids[block].taken = taken;
        return;
    }
    for (uint32_t i = 2; i < n; i += op == OpSwitch ? 2 : 1)
        if (op == OpSwitch || i < 4)
            reach(u, in[i]);
}

/* A phi without the edges that are not taken. Edges from blocks further down go back to the head of
 * a loop; whether those are taken is not known yet. */
static void put_phi(unroller *u, uint32_t block, size_t at)
{
    const uint32_t *in = u->module.w + at, n = rx_ws_length(in);
    const size_t begin = u->copies.n;
    uint32_t kept = 3;
    put(u, &u->copies, in, 3);
    for (uint32_t i = 3; i + 1 < n && !u->failed; i += 2) {
        const unroll_id *from = in[i + 1] < u->bound ? &u->ids[in[i + 1]] : NULL;
        const bool dead = from && from->def < at &&
                          (!from->live || (from->taken && from->taken != block));
        if (dead)
            continue;
        put(u, &u->copies, in + i, 2);
        kept += 2;
    }
    if (!u->failed)
        u->copies.w[begin] = kept << 16 | OpPhi;
}

/* A branch whose condition is known is none, and begins no selection. */
static void put_taken(unroller *u, uint32_t label, uint32_t before)
{
    if (before == OpSelectionMerge && !u->failed)
        u->copies.n -= 3;
    put(u, &u->copies, (uint32_t[]){2u << 16 | OpBranch, label}, 2);
}

/* A block stands after one that goes there, unless that goes back to the head of a loop. */
static void prune(unroller *u)
{
    const uint32_t *w = u->module.w;
    bool live = true, is_first = false;
    uint32_t block = 0, before = 0; /* opcode of the instruction before */
    u->copies.n = 0;
    u->end = u->module.n;
    for (uint32_t i = 0; i < u->bound; i++) {
        u->ids[i].live = false;
        u->ids[i].taken = 0;
    }
    put(u, &u->copies, w, 5);
    for (size_t at = 5; at < u->module.n && !u->failed; at += rx_ws_length(w + at)) {
        const uint32_t *in = w + at, op = rx_ws_opcode(in);
        is_first |= op == OpFunction;
        if (op == OpLabel) {
            block = in[1] < u->bound ? in[1] : 0;
            u->ids[block].live |= is_first;
            live = u->ids[block].live;
            is_first = false;
        }
        live |= op == OpFunctionEnd;
        if (live && is_terminator(op))
            reach_targets(u, block, in);
        if (live && op == OpPhi)
            put_phi(u, block, at);
        else if (live && op == OpBranchConditional && u->ids[block].taken)
            put_taken(u, u->ids[block].taken, before);
        else if (live)
            put(u, &u->copies, in, rx_ws_length(in));
        before = op;
    }
    const word_list old = u->module;
    u->module = u->copies;
    u->copies = old;
    if (!u->failed)
        memset(u->module.w + u->module.n, 0, SLACK * sizeof *u->module.w);
}

/* ---- The module ------------------------------------------------------------------------------ */

static void define(unroller *u, uint32_t id, size_t at)
{
    unroll_id *d = &u->ids[id];
    d->def = (uint32_t)at;
    if (!d->known && is_computable(u, u->module.w + at, false))
        d->known = evaluate(u, id, 0, &d->value);
}

/* Notes where values are computed, those that are known, and the loops between two places. */
static void index_range(unroller *u, size_t from, size_t to)
{
    const uint32_t *w = u->module.w;
    size_t label = 0;
    u->end = to;
    for (size_t at = from; at < to && !u->failed; at += rx_ws_length(w + at)) {
        const uint32_t id = result_of(u, w + at);
        if (id)
            define(u, id, at);
        if (rx_ws_opcode(w + at) == OpLabel)
            label = at;
        if (rx_ws_opcode(w + at) != OpLoopMerge || !label)
            continue;
        u->failed = !rx_grow(&u->loops, &u->cap_loops, u->n_loops + 1, sizeof *u->loops);
        if (!u->failed)
            u->loops[u->n_loops++] = label;
        label = 0;
    }
}

static void unroll_loops(unroller *u)
{
    loop l;
    for (int i = 0; i < 2; i++) { /* phis with one edge left make more branches known */
        index_range(u, 5, u->module.n);
        prune(u);
        u->n_loops = 0;
    }
    index_range(u, 5, u->module.n);
    while (u->n_loops && !u->failed && u->bound < MAX_IDS) {
        const size_t at = u->loops[--u->n_loops]; /* the last: no other is in it, but those kept */
        if (!find_loop(u, at, &l) || !count_trips(u, &l) || !is_wanted(u, &l))
            continue;
        unroll(u, &l);
        if (u->failed)
            return;
        u->room -= l.text * l.trips;
        index_range(u, l.head, l.head + u->copies.n);
    }
}

/* Gives the printer the new module: its header, the new constants before the first function. */
static void assemble(unroller *u)
{
    word_list *m = &u->module, out = {0};
    size_t at = 5;
    while (at < m->n && rx_ws_opcode(m->w + at) != OpFunction)
        at += rx_ws_length(m->w + at);
    put(u, &out, m->w, at);
    if (u->constants.n)
        put(u, &out, u->constants.w, u->constants.n);
    put(u, &out, m->w + at, m->n - at);
    if (!u->failed)
        out.w[3] = u->bound;
    rx_free(m->w);
    *m = out;
}

static void init(unroller *u)
{
    rx_wgsl *p = u->p;
    put(u, &u->module, p->w, (size_t)(p->end - p->w));
    u->failed |= !rx_grow(&u->ids, &u->cap_ids, p->bound + (size_t)1, sizeof *u->ids);
    if (u->failed)
        return;
    memset(u->module.w + u->module.n, 0, SLACK * sizeof *u->module.w);
    for (uint32_t i = 0; i < p->bound; i++) {
        const rx_ws_id *d = &p->id[i];
        u->ids[i] = (unroll_id){.value = d->value, .known = d->known};
        if (d->in && rx_ws_opcode(d->in) == OpTypeInt)
            u->int_type = i;
    }
}

bool rx_ws_unroll(rx_wgsl *p, uint32_t **words, size_t *n)
{
    unroller u = {.p = p, .bound = p->bound, .room = 4 * p->opt->unroll_bytes};
    init(&u);
    if (!u.failed)
        unroll_loops(&u);
    const bool changed = u.bound > p->bound || u.module.n != (size_t)(p->end - p->w);
    if (changed && !u.failed)
        assemble(&u);
    if (u.failed)
        p->status = rx_fail_memory(p->err, "unrolling a kernel", u.module.n * sizeof **words);
    *words = u.module.w;
    *n = u.module.n;
    rx_free(u.copies.w);
    rx_free(u.constants.w);
    rx_free(u.ids);
    rx_free(u.loops);
    return changed && !u.failed;
}
