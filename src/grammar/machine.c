/* SPDX-License-Identifier: MIT */
/* States and transitions: each configuration steps its terminal by the byte; where a terminal may
 * end, the closure over following instructions is added. */
#include "grammar/machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_POINTS 16384

uint32_t rx_emit(rx_program *p, rx_ins i)
{
    if (!rx_grow(&p->code, &p->cap_code, p->n_code + 1, sizeof *p->code)) {
        p->x.failed = RLX_NO_MEMORY;
        return 0;
    }
    p->code[p->n_code] = i;
    return (uint32_t)p->n_code++;
}

rx_ins *rx_ins_at(rx_program *p, uint32_t at)
{
    return p->x.failed == RLX_OK && at < p->n_code ? &p->code[at] : &p->nowhere;
}

void rx_program_finish(rx_program *p)
{
    rx_exprs_finish(&p->x);
    rx_arena_finish(&p->arena);
    rx_free(p->code);
    rx_free(p->objects);
    rx_free(p->arrays);
}

/* ---- Following ------------------------------------------------------------------------------- */

void rx_machine_follow(rx_machine *m, uint32_t frame, uint32_t pc)
{
    for (size_t i = m->n_points; i-- > 0;)
        if (m->points[i].pc == pc && m->points[i].frame == frame)
            return;
    if (m->n_points >= MAX_POINTS && m->p->x.failed == RLX_OK)
        m->p->x.failed = RLX_UNSUPPORTED;
    if (m->p->x.failed == RLX_OK &&
        rx_machine_grow(m, &m->points, &m->cap_points, m->n_points + 1, sizeof *m->points))
        m->points[m->n_points++] = (rx_point){frame, pc};
}

static void add_config(rx_machine *m, rx_config c)
{
    if (rx_machine_grow(m, &m->next, &m->cap_next, m->n_next + 1, sizeof *m->next))
        m->next[m->n_next++] = c;
}

/* A terminal at its begin. */
static void enter_term(rx_machine *m, rx_point at, const rx_ins *i)
{
    if (i->a != RX_EX_EPS)
        add_config(m, (rx_config){at.frame, at.pc, {i->a, 0}});
    if (rx_ex_nullable(&m->p->x, i->a))
        rx_machine_follow(m, at.frame, at.pc + 1);
}

static void follow_call(rx_machine *m, rx_point at, const rx_ins *i)
{
    /* Tail calls reuse the caller's frame, so right recursion keeps the stack short. Frames with a
     * payload are entered by calls that are never the last. */
    bool last = m->p->code[at.pc + 1].op == RX_INS_RETURN;
    uint32_t frame = last ? at.frame : rx_frame_intern(m, (rx_frame){at.frame, at.pc + 1, 0});
    rx_machine_follow(m, frame, i->a);
}

/* Computes the closure of the work list: configurations at terminals. */
static void follow_all(rx_machine *m)
{
    for (size_t k = 0; k < m->n_points && m->p->x.failed == RLX_OK; k++) {
        const rx_point at = m->points[k];
        const rx_ins *i = &m->p->code[at.pc];
        switch ((rx_ins_op)i->op) {
        case RX_INS_TERM:
            enter_term(m, at, i);
            break;
        case RX_INS_SPLIT:
            rx_machine_follow(m, at.frame, i->a);
            rx_machine_follow(m, at.frame, i->b);
            break;
        case RX_INS_JUMP:
            rx_machine_follow(m, at.frame, i->a);
            break;
        case RX_INS_CALL:
            follow_call(m, at, i);
            break;
        case RX_INS_RETURN:
            if (at.frame)
                rx_machine_follow(m, m->frames[at.frame].parent, m->frames[at.frame].ret);
            else
                m->next_accepting = true;
            break;
        case RX_INS_FAIL:
            break;
        case RX_INS_OBJECT_NEXT:
        case RX_INS_OBJECT_MORE:
            rx_follow_object(m, at.frame, i);
            break;
        case RX_INS_ARRAY_NEXT:
        case RX_INS_ARRAY_MORE:
            rx_follow_array(m, at.frame, i);
            break;
        }
    }
}

/* ---- States ---------------------------------------------------------------------------------- */

static int compare_configs(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(rx_config));
}

static void sort_configs(rx_config *c, size_t *n)
{
    size_t kept = 0;
    if (*n > 1)
        qsort(c, *n, sizeof *c, compare_configs);
    for (size_t i = 0; i < *n; i++)
        if (!kept || memcmp(&c[kept - 1], &c[i], sizeof *c))
            c[kept++] = c[i];
    *n = kept;
}

static uint64_t hash_configs(const rx_config *c, size_t n, bool accepting)
{
    uint64_t h = accepting;
    for (size_t i = 0; i < n; i++) {
        h = rx_hash_number(h ^ ((uint64_t)c[i].frame << 32 | c[i].pc));
        h = rx_hash_number(h ^ ((uint64_t)c[i].t.q << 32 | c[i].t.mid));
    }
    return h;
}

static size_t state_slot(const rx_machine *m, const rx_config *c, size_t n, bool accepting)
{
    size_t at = hash_configs(c, n, accepting) & (m->cap_state_table - 1);
    for (; m->state_table[at]; at = (at + 1) & (m->cap_state_table - 1)) {
        const rx_state *s = &m->states[m->state_table[at]];
        if (s->n == n && s->accepting == accepting &&
            !memcmp(m->configs + s->first, c, n * sizeof *c))
            break;
    }
    return at;
}

static bool grow_state_table(rx_machine *m)
{
    if (!rx_machine_renew(m, &m->state_table, &m->cap_state_table, m->n_states))
        return m->p->x.failed == RLX_OK;
    for (size_t i = 1; i < m->n_states; i++) {
        const rx_state *s = &m->states[i];
        m->state_table[state_slot(m, m->configs + s->first, s->n, s->accepting)] = (uint32_t)i;
    }
    return true;
}

/* The state of the configurations in m->next. */
static uint32_t intern_state(rx_machine *m)
{
    sort_configs(m->next, &m->n_next);
    if (m->p->x.failed != RLX_OK || (!m->n_next && !m->next_accepting) || !grow_state_table(m))
        return RX_DEAD;
    size_t at = state_slot(m, m->next, m->n_next, m->next_accepting);
    if (m->state_table[at])
        return m->state_table[at];
    if (!rx_machine_grow(m, &m->configs, &m->cap_configs, m->n_configs + m->n_next,
                         sizeof *m->configs) ||
        !rx_machine_grow(m, &m->states, &m->cap_states, m->n_states + 1, sizeof *m->states))
        return RX_DEAD;
    if (m->n_next)
        memcpy(m->configs + m->n_configs, m->next, m->n_next * sizeof *m->next);
    m->states[m->n_states] = (rx_state){.first = (uint32_t)m->n_configs,
                                        .n = (uint32_t)m->n_next,
                                        .accepting = m->next_accepting};
    m->n_configs += m->n_next;
    m->state_table[at] = (uint32_t)m->n_states++;
    return m->state_table[at];
}

static void begin_next(rx_machine *m)
{
    m->n_next = m->n_points = 0;
    m->next_accepting = false;
}

uint32_t rx_machine_start(rx_machine *m)
{
    begin_next(m);
    rx_machine_follow(m, 0, m->p->start);
    follow_all(m);
    return intern_state(m);
}

static uint32_t compute_step(rx_machine *m, uint32_t state, unsigned char byte)
{
    rx_exprs *x = &m->p->x;
    const rx_state s = m->states[state];
    begin_next(m);
    for (uint32_t i = 0; i < s.n && x->failed == RLX_OK; i++) {
        rx_config c = m->configs[s.first + i];
        if (!rx_term_step(x, m->p->code[c.pc].mode, &c.t, byte))
            continue;
        if (c.t.q != RX_EX_EPS)
            add_config(m, c);
        if (!c.t.mid && rx_ex_nullable(x, c.t.q))
            rx_machine_follow(m, c.frame, c.pc + 1);
    }
    follow_all(m);
    x->work += 1 + m->n_points;
    if (x->work > x->max_work && x->failed == RLX_OK)
        x->failed = RLX_UNSUPPORTED;
    return intern_state(m);
}

uint32_t rx_machine_step_new(rx_machine *m, uint32_t state, unsigned char byte)
{
    if (state == RX_DEAD || m->p->x.failed != RLX_OK)
        return RX_DEAD;
    if (!m->states[state].row) {
        if (!rx_machine_grow(m, &m->rows, &m->cap_rows, (m->n_rows + 1) * 256, sizeof *m->rows))
            return RX_DEAD;
        memset(m->rows + m->n_rows * 256, 0xff, 256 * sizeof *m->rows);
        m->states[state].row = (uint32_t)m->n_rows++;
    }
    uint32_t to = compute_step(m, state, byte);
    if (m->p->x.failed == RLX_OK)
        m->rows[(size_t)m->states[state].row * 256 + byte] = to;
    return to;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

rlx_status rx_machine_init(rx_machine *m, rx_program *p)
{
    *m = (rx_machine){.p = p, .n_frames = 1, .n_states = 1, .n_rows = 1};
    if (!rx_machine_grow(m, &m->frames, &m->cap_frames, 1, sizeof *m->frames) ||
        !rx_machine_grow(m, &m->states, &m->cap_states, 1, sizeof *m->states) ||
        !rx_machine_grow(m, &m->rows, &m->cap_rows, 256, sizeof *m->rows))
        return RLX_NO_MEMORY;
    m->frames[0] = (rx_frame){0};
    m->states[0] = (rx_state){0};
    return RLX_OK;
}

void rx_machine_finish(rx_machine *m)
{
    rx_free(m->frames);
    rx_free(m->frame_table);
    rx_free(m->payloads.data);
    rx_free(m->payloads.table);
    rx_free(m->configs);
    rx_free(m->states);
    rx_free(m->state_table);
    rx_free(m->rows);
    rx_free(m->next);
    rx_free(m->points);
    rx_free(m->payload);
    *m = (rx_machine){0};
}

/* ---- Collecting ------------------------------------------------------------------------------ */

/* Marks the frames below the configurations of a state. */
static void mark_frames(const rx_machine *m, uint32_t state, uint32_t *map)
{
    const rx_state *s = &m->states[state];
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t f = m->configs[s->first + i].frame; f && !map[f]; f = m->frames[f].parent)
            map[f] = 1;
}

/* Copies marked frames to the new machine; parents come before children. */
static void copy_frames(rx_machine *to, const rx_machine *m, uint32_t *map)
{
    for (size_t i = 1; i < m->n_frames; i++) {
        rx_frame f = m->frames[i];
        if (!map[i])
            continue;
        f.parent = f.parent ? map[f.parent] : 0;
        if (f.payload)
            f.payload = rx_words_intern(to, m->payloads.data + f.payload + 1,
                                        m->payloads.data[f.payload]);
        map[i] = rx_frame_intern(to, f);
    }
}

static uint32_t copy_state(rx_machine *to, const rx_machine *m, uint32_t state, const uint32_t *map)
{
    const rx_state *s = &m->states[state];
    begin_next(to);
    for (uint32_t i = 0; i < s->n; i++) {
        rx_config c = m->configs[s->first + i];
        c.frame = c.frame ? map[c.frame] : 0;
        add_config(to, c);
    }
    to->next_accepting = s->accepting;
    return intern_state(to);
}

bool rx_machine_collect(rx_machine *m, uint32_t *const *keep, size_t n)
{
    rx_machine to;
    uint32_t *map = rx_alloc_array_zero(m->n_frames + 1, sizeof *map);
    uint32_t *states = rx_alloc_array(n + 1, sizeof *states);
    bool ok = map && states && rx_machine_init(&to, m->p) == RLX_OK;
    if (!ok) {
        rx_free(map);
        rx_free(states);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        mark_frames(m, *keep[i], map);
    copy_frames(&to, m, map);
    for (size_t i = 0; i < n; i++)
        states[i] = copy_state(&to, m, *keep[i], map);
    ok = m->p->x.failed == RLX_OK;
    for (size_t i = 0; i < n && ok; i++)
        *keep[i] = states[i];
    rx_machine swap = *m;
    if (ok) {
        *m = to;
        to = swap;
    }
    rx_machine_finish(&to);
    rx_free(map);
    rx_free(states);
    return ok;
}
