/* SPDX-License-Identifier: MIT */
/* Stack frames, and transitions of JSON objects and arrays. The payload of an object is {members,
 * order of the last, marks, bits of names}, of an array {items, counters}. Counters saturate once
 * they no longer matter, so that a long array reaches a fixed state. */
#include <string.h>

#include "base/hash.h"
#include "grammar/machine.h"

bool rx_machine_grow(rx_machine *m, void *p, size_t *cap, size_t need, size_t item)
{
    rx_exprs *x = &m->p->x;
    size_t before = *cap;
    if (need <= before)
        return true;
    if (x->bytes + m->bytes + need * item > x->max_bytes || !rx_grow(p, cap, need, item)) {
        if (x->failed == RLX_OK)
            x->failed = RLX_NO_MEMORY;
        return false;
    }
    m->bytes += (*cap - before) * item;
    return true;
}

bool rx_machine_renew(rx_machine *m, uint32_t **table, size_t *cap, size_t n)
{
    if ((n + 1) * 2 <= *cap)
        return false;
    size_t larger = *cap ? *cap * 2 : 256;
    rx_exprs *x = &m->p->x;
    uint32_t *t = x->bytes + m->bytes + larger * sizeof *t > x->max_bytes
                      ? NULL : rx_alloc_array_zero(larger, sizeof *t);
    if (!t) {
        if (x->failed == RLX_OK)
            x->failed = RLX_NO_MEMORY;
        return false;
    }
    m->bytes += (larger - *cap) * sizeof *t;
    rx_free(*table);
    *table = t;
    *cap = larger;
    return true;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static uint64_t hash_frame(rx_frame f)
{
    return rx_hash_number((uint64_t)f.parent << 32 | f.ret) ^
           rx_hash_number((uint64_t)f.payload + 0x9e3779b9u);
}

static size_t frame_slot(const rx_machine *m, rx_frame f)
{
    size_t at = hash_frame(f) & (m->cap_frame_table - 1);
    for (; m->frame_table[at]; at = (at + 1) & (m->cap_frame_table - 1)) {
        const rx_frame *g = &m->frames[m->frame_table[at]];
        if (g->parent == f.parent && g->ret == f.ret && g->payload == f.payload)
            break;
    }
    return at;
}

/* Frame 0 is the bottom. */
uint32_t rx_frame_intern(rx_machine *m, rx_frame f)
{
    if (rx_machine_renew(m, &m->frame_table, &m->cap_frame_table, m->n_frames))
        for (size_t i = 1; i < m->n_frames; i++)
            m->frame_table[frame_slot(m, m->frames[i])] = (uint32_t)i;
    if (m->p->x.failed != RLX_OK ||
        !rx_machine_grow(m, &m->frames, &m->cap_frames, m->n_frames + 1, sizeof *m->frames))
        return 0;
    size_t at = frame_slot(m, f);
    if (!m->frame_table[at]) {
        m->frames[m->n_frames] = f;
        m->frame_table[at] = (uint32_t)m->n_frames++;
    }
    return m->frame_table[at];
}

/* ---- Payloads -------------------------------------------------------------------------------- */

static size_t words_slot(const rx_words *s, const uint32_t *w, size_t n)
{
    size_t at = rx_hash_ids(w, n) & (s->cap_table - 1);
    for (; s->table[at]; at = (at + 1) & (s->cap_table - 1)) {
        const uint32_t *other = s->data + s->table[at];
        if (other[0] == n && !memcmp(other + 1, w, n * sizeof *w))
            break;
    }
    return at;
}

uint32_t rx_words_intern(rx_machine *m, const uint32_t *w, size_t n)
{
    rx_words *s = &m->payloads;
    if (rx_machine_renew(m, &s->table, &s->cap_table, s->n_table))
        for (size_t i = 1; i < s->n; i += s->data[i] + 1)
            s->table[words_slot(s, s->data + i + 1, s->data[i])] = (uint32_t)i;
    if (!s->n)
        s->n = 1;
    if (m->p->x.failed != RLX_OK ||
        !rx_machine_grow(m, &s->data, &s->cap, s->n + n + 1, sizeof *s->data))
        return 0;
    size_t at = words_slot(s, w, n);
    if (!s->table[at]) {
        s->table[at] = (uint32_t)s->n;
        s->n_table++;
        s->data[s->n] = (uint32_t)n;
        memcpy(s->data + s->n + 1, w, n * sizeof *w);
        s->n += n + 1;
    }
    return s->table[at];
}

/* The payload of a frame as n words in the scratch array; false when out of memory. */
static bool load_payload(rx_machine *m, uint32_t frame, size_t n)
{
    if (!rx_machine_grow(m, &m->payload, &m->cap_payload, n, sizeof *m->payload))
        return false;
    uint32_t at = m->frames[frame].payload;
    if (at)
        memcpy(m->payload, m->payloads.data + at + 1, n * sizeof *m->payload);
    else
        memset(m->payload, 0, n * sizeof *m->payload);
    return true;
}

/* Follows `pc` with the scratch array as the payload of the frame. */
static void follow_with(rx_machine *m, uint32_t frame, size_t n, uint32_t pc)
{
    rx_frame f = m->frames[frame];
    f.payload = rx_words_intern(m, m->payload, n);
    uint32_t with = rx_frame_intern(m, f);
    if (m->p->x.failed == RLX_OK)
        rx_machine_follow(m, with, pc);
}

/* ---- Objects --------------------------------------------------------------------------------- */

enum { MEMBERS, ORDER, MARKS, NAMES };

static uint32_t n_missing(const rx_object *o, const uint32_t *names)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_words; i++)
        n += (uint32_t)__builtin_popcount(o->required[i] & ~names[i]);
    return n;
}

static bool has_name(const uint32_t *names, uint32_t bit)
{
    return names[bit / 32] >> (bit % 32) & 1;
}

static bool comes_in_order(const rx_object *o, const rx_member *k, const uint32_t *w)
{
    if (!o->ordered)
        return true;
    if (k->order < w[ORDER])
        return false;
    const uint32_t *before = o->required_before + (size_t)k->order * o->n_words;
    for (uint32_t i = 0; i < o->n_words; i++)
        if (before[i] & ~w[NAMES + i])
            return false;
    return true;
}

static bool is_free(const rx_object *o, const rx_member *k, const uint32_t *w)
{
    return (k->name == RX_NO_BIT || !has_name(w + NAMES, k->name)) && comes_in_order(o, k, w);
}

/* Members that may still come, when `k` has: enough for the minimum? */
static bool reaches_min(const rx_object *o, const rx_member *k, const uint32_t *w)
{
    uint32_t n = w[MEMBERS] + 1;
    if (n >= o->min || o->unlimited)
        return true;
    for (uint32_t i = 0; i < o->n_members && n < o->min; i++) {
        const rx_member *other = &o->members[i];
        bool later = !o->ordered || other->order > k->order;
        bool counted = i && o->members[i - 1].name == other->name; /* the same key again */
        n += later && !counted && other->name != k->name && !has_name(w + NAMES, other->name);
    }
    return n >= o->min;
}

static bool allows_member(const rx_object *o, const rx_member *k, const uint32_t *w)
{
    if (!is_free(o, k, w) || w[MEMBERS] + 1 > o->max)
        return false;
    bool required = k->name != RX_NO_BIT && has_name(o->required, k->name);
    uint32_t left = n_missing(o, w + NAMES) - required;
    bool needs = o->needs & ~(w[MARKS] | k->marks);
    uint32_t least = left ? left : needs; /* one member may satisfy all needs */
    return (o->max == RX_INF || o->max - w[MEMBERS] - 1 >= least) && reaches_min(o, k, w);
}

static bool object_can_close(const rx_object *o, const uint32_t *w)
{
    return w[MEMBERS] >= o->min && !n_missing(o, w + NAMES) && !(o->needs & ~w[MARKS]);
}

static void follow_member(rx_machine *m, uint32_t frame, const rx_object *o, const rx_member *k)
{
    const size_t n = NAMES + o->n_words;
    if (!load_payload(m, frame, n))
        return;
    uint32_t *w = m->payload;
    if (o->max != RX_INF || w[MEMBERS] < o->min)
        w[MEMBERS]++;
    w[MARKS] |= k->marks & o->needs;
    if (o->ordered)
        w[ORDER] = k->order;
    if (k->name != RX_NO_BIT)
        w[NAMES + k->name / 32] |= 1u << (k->name % 32);
    follow_with(m, frame, n, k->pc);
}

void rx_follow_object(rx_machine *m, uint32_t frame, const rx_ins *i)
{
    const rx_object *o = &m->p->objects[i->a];
    const bool more = i->op == RX_INS_OBJECT_MORE;
    bool any = false;
    if (!load_payload(m, frame, NAMES + o->n_words))
        return;
    if ((more || i->b) && object_can_close(o, m->payload))
        rx_machine_follow(m, frame, o->close_pc);
    for (uint32_t k = 0; k < o->n_members && !(more && any); k++) {
        if (!load_payload(m, frame, NAMES + o->n_words))
            return;
        if (!allows_member(o, &o->members[k], m->payload))
            continue;
        any = true;
        if (!more)
            follow_member(m, frame, o, &o->members[k]);
    }
    if (more && any)
        rx_machine_follow(m, frame, o->comma_pc);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

static uint32_t place_of(const rx_array *a, uint32_t count)
{
    return count < a->n_prefix ? count : a->n_prefix;
}

static bool allows_item(const rx_array *a, const rx_item *item, const uint32_t *w)
{
    uint32_t missing = 0;
    if (w[0] >= a->max)
        return false;
    for (uint32_t k = 0; k < a->n_counters; k++) {
        uint32_t n = w[1 + k] + (item->counts >> k & 1);
        if (n > a->hi[k])
            return false;
        missing = n < a->lo[k] && a->lo[k] - n > missing ? a->lo[k] - n : missing;
    }
    return a->max == RX_INF || a->max - w[0] - 1 >= missing;
}

static bool array_can_close(const rx_array *a, const uint32_t *w)
{
    for (uint32_t k = 0; k < a->n_counters; k++)
        if (w[1 + k] < a->lo[k])
            return false;
    return w[0] >= a->min;
}

static void follow_item(rx_machine *m, uint32_t frame, const rx_array *a, const rx_item *item)
{
    const uint32_t enough = a->n_prefix > a->min ? a->n_prefix : a->min;
    if (!load_payload(m, frame, 1 + a->n_counters))
        return;
    if (a->max != RX_INF || m->payload[0] < enough)
        m->payload[0]++;
    for (uint32_t k = 0; k < a->n_counters; k++)
        if (a->hi[k] != RX_INF || m->payload[1 + k] < a->lo[k])
            m->payload[1 + k] += item->counts >> k & 1;
    follow_with(m, frame, 1 + a->n_counters, item->pc);
}

void rx_follow_array(rx_machine *m, uint32_t frame, const rx_ins *i)
{
    const rx_array *a = &m->p->arrays[i->a];
    const bool more = i->op == RX_INS_ARRAY_MORE;
    bool any = false;
    if (!load_payload(m, frame, 1 + a->n_counters))
        return;
    if ((more || i->b) && array_can_close(a, m->payload))
        rx_machine_follow(m, frame, a->close_pc);
    const uint32_t place = place_of(a, m->payload[0]);
    for (uint32_t k = a->first[place]; k < a->first[place + 1] && !(more && any); k++) {
        if (!load_payload(m, frame, 1 + a->n_counters))
            return;
        if (!allows_item(a, &a->items[k], m->payload))
            continue;
        any = true;
        if (!more)
            follow_item(m, frame, a, &a->items[k]);
    }
    if (more && any)
        rx_machine_follow(m, frame, a->comma_pc);
}
