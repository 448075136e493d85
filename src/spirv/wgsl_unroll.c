/* SPDX-License-Identifier: MIT */
/* The WGSL printer's loops that run a known number of times: WGSL cannot ask for unrolling, and
 * drivers that do not unroll keep arrays indexed by the counter in memory. The text of such a loop
 * is printed once and then repeated, without its condition. */
#include <string.h>

#include "spirv/wgsl_print.h"

#define MAX_TRIPS 64

/* ---- Counting -------------------------------------------------------------------------------- */

static const uint32_t *first_of(rx_wgsl *p, uint32_t label)
{
    const rx_ws_id *d = rx_ws_at(p, label);
    return d->in && rx_ws_opcode(d->in) == OpLabel ? rx_ws_next(d->in) : NULL;
}

/* The end of a block; NULL: it has none, or begins a selection, or a loop that is not `head`. */
static const uint32_t *terminator_of(rx_wgsl *p, uint32_t label, uint32_t head)
{
    for (const uint32_t *in = first_of(p, label); in && in < p->end; in = rx_ws_next(in)) {
        const uint32_t op = rx_ws_opcode(in);
        if (op == OpLabel || op == OpSelectionMerge || (op == OpLoopMerge && label != head))
            return NULL;
        if (op >= OpBranch && op <= OpUnreachable)
            return in;
    }
    return NULL;
}

static uint32_t count_word(const uint32_t *in, uint32_t from, uint32_t step, uint32_t word)
{
    uint32_t n = 0;
    for (uint32_t i = from; i < rx_ws_length(in); i += step)
        n += in[i] == word;
    return n;
}

/* Edges of a terminator to a label. */
static uint32_t count_edges(const uint32_t *in, uint32_t to)
{
    switch (rx_ws_opcode(in)) {
    case OpBranch: return in[1] == to;
    case OpBranchConditional: return (uint32_t)(in[2] == to) + (in[3] == to);
    case OpSwitch: return (uint32_t)(in[2] == to) + count_word(in, 4, 2, to);
    }
    return 0;
}

/* True when the loop is left in one place and its step is reached from one: no break, no continue.
 * Its blocks lie between its head and what follows it. */
static bool is_plain(rx_wgsl *p, uint32_t head, uint32_t merge, uint32_t cont)
{
    uint32_t n_exits = 0, n_steps = 0;
    for (const uint32_t *in = first_of(p, head); in && in < p->end; in = rx_ws_next(in)) {
        if (rx_ws_opcode(in) == OpLabel && in[1] == merge)
            return n_exits == 1 && n_steps == 1;
        if (rx_ws_opcode(in) == OpFunctionEnd)
            return false;
        n_exits += count_edges(in, merge);
        n_steps += count_edges(in, cont);
    }
    return false;
}

/* The phi at the head of a loop with that id; NULL: it is none with two edges. */
static const uint32_t *find_phi(rx_wgsl *p, uint32_t head, uint32_t id)
{
    const uint32_t *in = first_of(p, head);
    for (; in && in < p->end && rx_ws_opcode(in) == OpPhi; in = rx_ws_next(in))
        if (in[2] == id && rx_ws_length(in) == 7)
            return in;
    return NULL;
}

/* What is added to the counter each time; 0: not known. */
static uint32_t find_step(rx_wgsl *p, uint32_t value, uint32_t phi)
{
    const uint32_t *in = rx_ws_at(p, value)->in;
    if (!in || rx_ws_opcode(in) != OpIAdd || (in[3] != phi && in[4] != phi))
        return 0;
    const uint32_t other = in[3] == phi ? in[4] : in[3];
    return rx_ws_known(p, other) ? rx_ws_value(p, other) : 0;
}

/* Of a loop `for (i = first; i < bound; i += step)` with known numbers. */
static uint32_t count_trips(rx_wgsl *p, uint32_t head, uint32_t condition)
{
    const uint32_t *compare = rx_ws_at(p, condition)->in;
    if (!compare || (rx_ws_opcode(compare) != OpULessThan && rx_ws_opcode(compare) != OpSLessThan))
        return 0;
    const uint32_t *phi = find_phi(p, head, compare[3]);
    if (!phi || !rx_ws_known(p, compare[4]))
        return 0;
    uint32_t step = find_step(p, phi[5], phi[2]), first = phi[3];
    if (!step) {
        step = find_step(p, phi[3], phi[2]);
        first = phi[5];
    }
    if (!step || !rx_ws_known(p, first))
        return 0;
    const int64_t from = (int32_t)rx_ws_value(p, first), to = (int32_t)rx_ws_value(p, compare[4]);
    if (from < 0 || to <= from || step > MAX_TRIPS)
        return 0;
    const int64_t n = (to - from + step - 1) / step;
    return n <= MAX_TRIPS ? (uint32_t)n : 0;
}

uint32_t rx_ws_count_trips(rx_wgsl *p, uint32_t head, const uint32_t *merge_in)
{
    const uint32_t merge = merge_in[1], cont = merge_in[2];
    if (!p->opt->unroll_bytes || !(merge_in[3] & 1) || cont == head ||
        !is_plain(p, head, merge, cont))
        return 0;
    const uint32_t *end = terminator_of(p, head, head);
    if (end && rx_ws_opcode(end) == OpBranch && end[1] != cont)
        end = terminator_of(p, end[1], head);
    if (!end || rx_ws_opcode(end) != OpBranchConditional || end[3] != merge)
        return 0;
    return count_trips(p, head, end[1]);
}

/* ---- Repeating ------------------------------------------------------------------------------- */

static void put(rx_wgsl *p, const char *text, size_t n)
{
    rx_str_add(&p->out, text, n);
}

void rx_ws_unroll(rx_wgsl *p, const rx_ws_loop *l, size_t begin)
{
    const size_t n = p->out.n - begin;
    if (p->out.failed || !n)
        return;
    if (!l->condition || l->exit_at < begin || l->body_at < l->exit_at ||
        l->next_at < l->body_at) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "a loop that does not end where it should");
        return;
    }
    const char *all = rx_ws_text(p, "%s", p->out.data + begin);
    const size_t head = l->exit_at - begin, body = l->body_at - begin, next = l->next_at - begin;
    const size_t copy = n - (body - head);
    const bool unrolled = copy <= p->opt->unroll_bytes / l->trips;
    p->out.n = begin;
    for (uint32_t i = 0; unrolled && i < l->trips; i++) {
        rx_ws_line(p, "{");
        put(p, all, head);
        put(p, all + body, next - body);
        rx_ws_line(p, "{");
        put(p, all + next, n - next);
        rx_ws_line(p, "}}");
    }
    rx_ws_line(p, unrolled ? "{" : "loop {");
    put(p, all, head);
    if (!unrolled)
        rx_ws_line(p, "if (%s) {", l->condition);
    put(p, all + head, body - head);
    if (!unrolled) {
        rx_ws_line(p, "break; }");
        put(p, all + body, next - body);
        rx_ws_line(p, "continuing {");
        put(p, all + next, n - next);
        rx_ws_line(p, "}");
    }
    rx_ws_line(p, "}");
}
