/* SPDX-License-Identifier: MIT */
/* The WGSL printer's control flow: blocks along their merge instructions become if, switch and
 * loop; branches whose condition is known are followed, not printed. */
#include <string.h>

#include "spirv/wgsl_print.h"

static uint32_t sequence(rx_wgsl *p, uint32_t block, uint32_t stop);

/* ---- Edges ----------------------------------------------------------------------------------- */

static bool is_terminator(uint32_t op) { return op >= OpBranch && op <= OpUnreachable; }

/* First instruction of a block after its label; NULL: not a label. */
static const uint32_t *block_head(rx_wgsl *p, uint32_t label)
{
    const rx_ws_id *d = rx_ws_at(p, label);
    if (d->in && rx_ws_opcode(d->in) == OpLabel)
        return rx_ws_next(d->in);
    rx_ws_fail(p, RLX_INVALID, "a branch to %u, which is no label", (unsigned)label);
    return NULL;
}

/* One phi of the block that is entered from `from`. On the way back to the head of a loop values
 * are computed where the module does so, not here: lavapipe 22.3 takes a component of the new value
 * for one of the old when they are computed in `continuing`. */
static void copy_phi(rx_wgsl *p, const uint32_t *in, uint32_t from, bool is_back)
{
    rx_ws_id *d = rx_ws_at(p, in[2]);
    for (uint32_t i = 3; i + 1 < rx_ws_length(in); i += 2) {
        if (in[i + 1] != from)
            continue;
        if (p->dry) {
            d->edges++;
            d->source = in[i];
            p->restart |= d->edges > 1 && d->same_as;
        }
        if (!p->dry && (d->same_as || !d->uses))
            continue;
        const char *value = is_back ? rx_ws_use_often(p, in[i]) : rx_ws_use(p, in[i]);
        if (rx_ws_def(p, in[i]) != OpUndef)
            rx_ws_line(p, "p%u = %s;", (unsigned)in[2], value);
    }
}

static void copy_phis(rx_wgsl *p, uint32_t from, uint32_t to)
{
    const uint32_t *in = block_head(p, to);
    const bool is_back = p->n_loops && p->loops[p->n_loops - 1].head == to;
    for (; in && in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
        if (rx_ws_opcode(in) == OpPhi)
            copy_phi(p, in, from, is_back);
        else if (!rx_ws_is_line(in))
            return;
    }
}

static bool has_phi(rx_wgsl *p, uint32_t label)
{
    const uint32_t *in = block_head(p, label);
    return in && rx_ws_opcode(in) == OpPhi;
}

typedef enum exit_kind { EXIT_NONE, EXIT_CONTINUE, EXIT_BREAK, EXIT_FAR } exit_kind;

/* How a jump to `to` leaves the innermost loop or switch. EXIT_FAR: a loop, out of a switch. */
static exit_kind find_exit(const rx_wgsl *p, uint32_t to)
{
    bool in_switch = false;
    for (uint32_t i = p->n_loops; i-- > 0;) {
        const rx_ws_loop *l = &p->loops[i];
        if (!l->is_switch) {
            if (l->cont && to == l->cont)
                return EXIT_CONTINUE;
            if (to == l->merge)
                return in_switch ? EXIT_FAR : EXIT_BREAK;
            return EXIT_NONE;
        }
        if (to == l->merge && !in_switch)
            return EXIT_BREAK;
        in_switch = true;
    }
    return EXIT_NONE;
}

/* The innermost loop; NULL: none. */
static rx_ws_loop *innermost_loop(rx_wgsl *p)
{
    for (uint32_t i = p->n_loops; i-- > 0;)
        if (!p->loops[i].is_switch)
            return &p->loops[i];
    return NULL;
}

/* Follows the edge. Returns the label to go on with, 0 where control left this level. */
static uint32_t jump(rx_wgsl *p, uint32_t from, uint32_t to, uint32_t stop)
{
    copy_phis(p, from, to);
    rx_ws_at(p, to)->live = true;
    if (to == stop)
        return to;
    switch (find_exit(p, to)) {
    case EXIT_NONE: return to;
    case EXIT_CONTINUE: rx_ws_line(p, "continue;"); return 0;
    case EXIT_BREAK: rx_ws_line(p, "break;"); return 0;
    case EXIT_FAR: {
        const uint32_t head = innermost_loop(p)->head;
        rx_ws_at(p, head)->breaks = true;
        rx_ws_line(p, "b%u_left = true; break;", (unsigned)head);
        return 0;
    }
    }
    return 0;
}

/* What stands in the braces of an if or a case. */
static void arm(rx_wgsl *p, uint32_t from, uint32_t to, uint32_t stop)
{
    rx_ws_push_scope(p);
    const uint32_t next = jump(p, from, to, stop);
    if (next && next != stop)
        sequence(p, next, stop);
    rx_ws_pop_scope(p);
}

static bool enter(rx_wgsl *p, rx_ws_loop l)
{
    if (p->n_loops == RX_WS_MAX_LOOPS) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "more than %d loops in each other", RX_WS_MAX_LOOPS);
        return false;
    }
    p->loops[p->n_loops++] = l;
    return true;
}

/* ---- Switches -------------------------------------------------------------------------------- */

/* Target of the i-th arm: the default, then the cases. */
static uint32_t switch_target(const uint32_t *in, uint32_t i)
{
    return i == 0 ? in[2] : in[2 + 2 * i];
}

/* "case 1u, 2u: {" of all arms with the target of arm i. */
static const char *case_line(rx_wgsl *p, const uint32_t *in, uint32_t i, char kind)
{
    const uint32_t n = (rx_ws_length(in) - 3) / 2 + 1;
    rx_str s = {0};
    bool infinite = false;
    if (switch_target(in, i) == switch_target(in, 0))
        rx_str_puts(&s, "default");
    for (uint32_t k = 1; k < n; k++)
        if (switch_target(in, k) == switch_target(in, i))
            rx_str_printf(&s, "%s%s", s.n ? ", " : "",
                          rx_ws_literal(p, kind, in[1 + 2 * k], &infinite));
    const char *which = rx_ws_keep(p, &s);
    return strcmp(which, "default") ? rx_ws_text(p, "case %s: {", which) : "default: {";
}

static bool is_repeated(const uint32_t *in, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (switch_target(in, k) == switch_target(in, i))
            return true;
    return false;
}

/* The target of a switch whose selector is known. */
static uint32_t known_target(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t n = (rx_ws_length(in) - 3) / 2 + 1;
    for (uint32_t i = 1; i < n; i++)
        if (in[1 + 2 * i] == rx_ws_value(p, in[1]))
            return switch_target(in, i);
    return in[2];
}

static uint32_t print_switch(rx_wgsl *p, uint32_t from, const uint32_t *in, uint32_t merge)
{
    const uint32_t n = (rx_ws_length(in) - 3) / 2 + 1;
    const uint32_t type = rx_ws_at(p, rx_ws_resolve(p, in[1]))->type;
    const char kind = type ? rx_ws_kind(p, type) : 'v';
    if (kind != 'i' && kind != 'u') {
        rx_ws_fail(p, RLX_INVALID, "its selector is no integer");
        return 0;
    }
    rx_ws_line(p, "switch (%s) {", rx_ws_use(p, in[1]));
    if (!enter(p, (rx_ws_loop){.is_switch = true, .merge = merge}))
        return 0;
    for (uint32_t i = 0; i < n && rx_ws_ok(p); i++) {
        if (is_repeated(in, i))
            continue;
        /* A known selector still needs the switch, which break leaves, but only one arm. */
        if (rx_ws_known(p, in[1]) && switch_target(in, i) != known_target(p, in)) {
            if (i == 0)
                rx_ws_line(p, "default: {}");
            continue;
        }
        rx_ws_line(p, "%s", case_line(p, in, i, kind));
        arm(p, from, switch_target(in, i), merge);
        rx_ws_line(p, "}");
    }
    p->n_loops--;
    rx_ws_line(p, "}");
    const rx_ws_loop *around = innermost_loop(p);
    if (around && rx_ws_at(p, around->head)->breaks)
        rx_ws_line(p, "if (b%u_left) { break; }", (unsigned)around->head);
    return rx_ws_at(p, merge)->live ? merge : 0;
}

/* ---- Branches -------------------------------------------------------------------------------- */

typedef struct branch {
    uint32_t block, merge, stop; /* merge 0: none */
    const uint32_t *in;
} branch;

typedef struct span {
    const char *text;
    size_t n;
} span;

/* A line of the text at *s without its indentation; *s goes to the next. */
static span take_line(const char **s)
{
    const char *from = *s + strspn(*s, " ");
    const size_t n = strcspn(from, "\n");
    *s = from + n + (from[n] == '\n');
    return (span){from, n};
}

static bool is_text(span s, const char *text)
{
    return s.n == strlen(text) && !memcmp(s.text, text, s.n);
}

/* Cuts "p1 = value;" after its equals sign; false: the line is something else. */
static bool take_copy(span line, span *phi, span *value)
{
    const char *s = line.text, *equals = line.n ? memchr(s, '=', line.n) : NULL;
    if (!equals || *s != 'p' || s[line.n - 1] != ';')
        return false;
    *phi = (span){s, (size_t)(equals + 2 - s)};
    *value = (span){equals + 2, line.n - phi->n - 1};
    return true;
}

/* May be computed though nobody asks: reads no buffer or array, calls no function. */
static bool is_harmless(span value)
{
    for (size_t i = 0; i < value.n; i++) {
        const bool is_call = value.text[i] == '(' && i && !strchr("> (!-~", value.text[i - 1]);
        if (value.text[i] == '[' || is_call)
            return false;
    }
    return true;
}

/* `a && b` of the shader is an if that leaves b or a. SwiftShader takes minutes to compile a row
 * of those, so where b is harmless the five lines from `at` on become p = a & b. The same for
 * `a || b`. */
static void join_condition(rx_wgsl *p, size_t at, const char *condition)
{
    span line[5], phi[2], value[2];
    if (p->dry || p->out.failed || !rx_ws_ok(p))
        return;
    const char *s = p->out.data + at;
    for (int i = 0; i < 5; i++)
        line[i] = take_line(&s);
    if (*s || !is_text(line[2], "} else {") || !is_text(line[4], "}") ||
        !take_copy(line[1], &phi[0], &value[0]) || !take_copy(line[3], &phi[1], &value[1]) ||
        phi[0].n != phi[1].n || memcmp(phi[0].text, phi[1].text, phi[0].n))
        return;
    const int kept = is_text(value[1], condition) ? 0 : is_text(value[0], condition) ? 1 : -1;
    if (kept < 0 || !is_harmless(value[kept]))
        return;
    const char *joined = rx_ws_text(p, "%.*s%s %c (%.*s);", (int)phi[0].n, phi[0].text,
                                    condition, "&|"[kept], (int)value[kept].n, value[kept].text);
    if (!joined)
        return;
    p->out.n = at;
    rx_ws_line(p, "%s", joined);
}

static uint32_t print_if(rx_wgsl *p, const branch *b, const char *condition)
{
    const uint32_t yes = b->in[2], no = b->in[3], merge = b->merge;
    const bool empty_yes = yes == merge && !has_phi(p, merge);
    const bool empty_no = no == merge && !has_phi(p, merge);
    if (empty_yes || empty_no)
        rx_ws_at(p, merge)->live = true;
    const size_t at = p->out.n;
    rx_ws_line(p, empty_yes ? "if (!%s) {" : "if (%s) {", condition);
    arm(p, b->block, empty_yes ? no : yes, merge);
    if (!empty_yes && !empty_no) {
        rx_ws_line(p, "} else {");
        arm(p, b->block, no, merge);
    }
    rx_ws_line(p, "}");
    join_condition(p, at, condition);
    return rx_ws_at(p, merge)->live ? merge : 0;
}

/* The branch at the end of `continuing`: back to the head, or out. */
static uint32_t print_break_if(rx_wgsl *p, const branch *b, const char *condition)
{
    copy_phis(p, b->block, b->in[2]);
    copy_phis(p, b->block, b->in[3]);
    rx_ws_at(p, p->loops[p->n_loops - 1].merge)->live = true;
    rx_ws_line(p, b->in[2] == b->stop ? "break if !%s;" : "break if %s;", condition);
    return 0;
}

/* The way that a known condition takes. */
static uint32_t follow(rx_wgsl *p, const branch *b)
{
    const uint32_t to = rx_ws_value(p, b->in[1]) ? b->in[2] : b->in[3];
    if (!b->merge)
        return jump(p, b->block, to, b->stop);
    uint32_t next = jump(p, b->block, to, b->merge);
    if (next && next != b->merge)
        next = sequence(p, next, b->merge);
    return next ? b->merge : 0;
}

static uint32_t print_branch(rx_wgsl *p, const branch *b)
{
    const uint32_t yes = b->in[2], no = b->in[3];
    const rx_ws_loop *l = p->n_loops ? &p->loops[p->n_loops - 1] : NULL;
    const bool back = !b->merge && l && !l->is_switch && !l->cont && b->stop == l->head;
    if (yes == no)
        return jump(p, b->block, yes, b->stop);
    if (rx_ws_known(p, b->in[1]) && !back)
        return follow(p, b);
    const char *condition = rx_ws_use(p, b->in[1]);
    if (b->merge)
        return print_if(p, b, condition);
    if (back && (yes == b->stop || no == b->stop))
        return print_break_if(p, b, condition);
    if (find_exit(p, yes) || find_exit(p, no)) {
        const bool first = find_exit(p, yes) != EXIT_NONE;
        rx_ws_line(p, first ? "if (%s) {" : "if (!%s) {", condition);
        arm(p, b->block, first ? yes : no, 0);
        rx_ws_line(p, "}");
        return jump(p, b->block, first ? no : yes, b->stop);
    }
    rx_ws_fail(p, RLX_UNSUPPORTED, "a branch that is not structured");
    return 0;
}

static uint32_t print_terminator(rx_wgsl *p, const branch *b)
{
    p->at = b->in;
    if (p->pending_semantics) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "a memory barrier without a control barrier after it");
        return 0;
    }
    switch (rx_ws_opcode(b->in)) {
    case OpBranch: return jump(p, b->block, b->in[1], b->stop);
    case OpBranchConditional: return print_branch(p, b);
    case OpSwitch:
        if (b->merge)
            return print_switch(p, b->block, b->in, b->merge);
        rx_ws_fail(p, RLX_UNSUPPORTED, "a switch without a merge");
        return 0;
    case OpReturn:
        if (p->n_scopes > 1)
            rx_ws_line(p, "return;");
        return 0;
    case OpReturnValue: rx_ws_line(p, "return %s;", rx_ws_use(p, b->in[1])); return 0;
    case OpUnreachable: return 0;
    }
    rx_ws_fail(p, RLX_UNSUPPORTED, "no WGSL form");
    return 0;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* A phi with one edge left is the value of that edge. */
static void define_phi(rx_wgsl *p, const uint32_t *in, bool is_loop)
{
    rx_ws_id *d = rx_ws_at(p, in[2]);
    if (p->dry && !is_loop && !p->no_forward && d->edges == 1) {
        rx_ws_id *source = rx_ws_at(p, rx_ws_resolve(p, d->source));
        if (source->uses) /* that of the copy */
            source->uses--;
        rx_ws_forward(p, in[2], d->source);
    }
    if (d->same_as)
        return;
    if (p->dry || d->uses)
        rx_ws_define(p, in[2], 0, rx_ws_text(p, "p%u", (unsigned)in[2]));
}

/* Prints a block and follows its end. */
static uint32_t print_block(rx_wgsl *p, uint32_t label, uint32_t stop, bool is_loop)
{
    branch b = {label, 0, stop, NULL};
    const uint32_t *in = block_head(p, label);
    for (; in && in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
        const uint32_t op = rx_ws_opcode(in);
        if (p->work++ > RX_WS_MAX_TEXT) {
            rx_ws_fail(p, RLX_UNSUPPORTED, "control flow that is not structured");
            return 0;
        }
        if (op == OpPhi) {
            define_phi(p, in, is_loop);
        } else if (op == OpSelectionMerge) {
            b.merge = in[1];
        } else if (is_terminator(op)) {
            b.in = in;
            return print_terminator(p, &b);
        } else if (op != OpVariable && op != OpLoopMerge) {
            rx_ws_instruction(p, in);
        }
    }
    return 0;
}

/* The merge instruction of a loop's head; NULL: not one. */
static const uint32_t *loop_merge(rx_wgsl *p, uint32_t label)
{
    const uint32_t *in = block_head(p, label);
    for (; in && in < p->end && !is_terminator(rx_ws_opcode(in)); in = rx_ws_next(in))
        if (rx_ws_opcode(in) == OpLoopMerge)
            return in;
    return NULL;
}

static void print_continuing(rx_wgsl *p, uint32_t cont, uint32_t head)
{
    p->loops[p->n_loops - 1].cont = 0; /* no `continue` in there */
    rx_ws_line(p, "continuing {");
    rx_ws_push_scope(p);
    sequence(p, cont, head);
    rx_ws_pop_scope(p);
    rx_ws_line(p, "}");
}

static uint32_t print_loop(rx_wgsl *p, uint32_t head, const uint32_t *in)
{
    const uint32_t merge = in[1], cont = in[2];
    if (rx_ws_at(p, head)->breaks)
        rx_ws_line(p, "b%u_left = false;", (unsigned)head);
    rx_ws_line(p, "loop {");
    rx_ws_push_scope(p);
    if (!enter(p, (rx_ws_loop){.merge = merge, .cont = cont, .head = head}))
        return 0;
    const uint32_t next = print_block(p, head, cont, true);
    if (next && next != cont)
        sequence(p, next, cont);
    if (cont != head && rx_ws_at(p, cont)->live)
        print_continuing(p, cont, head);
    p->n_loops--;
    rx_ws_pop_scope(p);
    rx_ws_line(p, "}");
    return rx_ws_at(p, merge)->live ? merge : 0;
}

/* Prints blocks until `stop`. Returns stop, or 0 if control does not come there from above. */
static uint32_t sequence(rx_wgsl *p, uint32_t block, uint32_t stop)
{
    while (block && block != stop && rx_ws_ok(p)) {
        const uint32_t *in = loop_merge(p, block);
        const bool inside = p->n_loops && p->loops[p->n_loops - 1].head == block;
        block = in && !inside ? print_loop(p, block, in) : print_block(p, block, stop, false);
    }
    return block;
}

void rx_ws_flow(rx_wgsl *p, uint32_t first)
{
    sequence(p, first, 0);
}
