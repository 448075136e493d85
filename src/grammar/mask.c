/* SPDX-License-Identifier: MIT */
/* Masks: the trie of the vocabulary is walked with the states of the machine. Where a terminal
 * accepts any plain text, as inside of most strings, plain tokens come from a precomputed mask and
 * only the others are walked. */
#include <string.h>

#include "grammar/grammar.h"

uint32_t rx_mask_bytes(rlx_grammar *g, uint32_t state, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && state != RX_DEAD; i++)
        state = rx_machine_step(&g->m, state, (unsigned char)bytes[i]);
    return state;
}

int rx_mask_only_byte(rlx_grammar *g, uint32_t state)
{
    int only = -1;
    if (g->m.states[state].accepting)
        return -1;
    for (int byte = 0; byte < 256; byte++) {
        if (rx_machine_step(&g->m, state, (unsigned char)byte) == RX_DEAD)
            continue;
        if (only >= 0)
            return -1;
        only = byte;
    }
    return only;
}

bool rx_mask_goes_on(rlx_grammar *g, uint32_t state)
{
    for (int byte = 0; byte < 256; byte++)
        if (rx_machine_step(&g->m, state, (unsigned char)byte) != RX_DEAD)
            return true;
    return false;
}

/* ---- Plain runs ------------------------------------------------------------------------------ */

#define MAX_FRONT 16

/* The derivatives by one plain code point, up to MAX_FRONT; *some: any term has a live one, *all:
 * every code point of every term has. */
static size_t advance(rlx_grammar *g, const rx_ex *from, size_t n, rx_ex *to, bool *some, bool *all)
{
    rx_exprs *x = &g->p.x;
    size_t n_to = 0;
    *some = false;
    *all = true;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < g->n_plain; k++) {
            rx_ex e = rx_ex_derive(x, from[i], g->plain[k]);
            size_t at = 0;
            bool dead = rx_ex_is_empty(x, e);
            *some = *some || !dead;
            *all = *all && !dead;
            while (at < n_to && to[at] != e)
                at++;
            if (dead || at < n_to)
                continue;
            if (n_to == MAX_FRONT)
                *all = false;
            else
                to[n_to++] = e;
        }
    return n_to;
}

static rx_plain_run count_run(rlx_grammar *g, rx_ex e)
{
    rx_ex front[2][MAX_FRONT] = {{e}};
    size_t n[2] = {1, 0};
    for (uint16_t i = 0; i < RX_PLAIN_LENGTH; i++) {
        unsigned now = i & 1, then = now ^ 1;
        bool some, all;
        n[then] = advance(g, front[now], n[now], front[then], &some, &all);
        if (!all)
            return (rx_plain_run){e, i, !some};
        if (n[now] == n[then] && !memcmp(front[0], front[1], n[now] * sizeof(rx_ex)))
            break;
    }
    return (rx_plain_run){e, RX_PLAIN_LENGTH, true};
}

static bool grow_runs(rlx_grammar *g)
{
    if ((g->n_runs + 1) * 2 <= g->cap_runs)
        return true;
    size_t cap = g->cap_runs ? g->cap_runs * 2 : 64;
    rx_plain_run *runs = rx_alloc_array_zero(cap, sizeof *runs);
    if (!runs)
        return false;
    for (size_t i = 0; i < g->cap_runs; i++) {
        size_t at = (g->runs[i].e * 0x9e3779b1u) & (cap - 1);
        while (g->runs[i].e && runs[at].e)
            at = (at + 1) & (cap - 1);
        if (g->runs[i].e)
            runs[at] = g->runs[i];
    }
    rx_free(g->runs);
    g->runs = runs;
    g->cap_runs = cap;
    return true;
}

static rx_plain_run find_run(rlx_grammar *g, rx_ex e)
{
    if (e == RX_EX_ALL)
        return (rx_plain_run){e, RX_PLAIN_LENGTH, true};
    if (e <= RX_EX_ANY || !grow_runs(g))
        return (rx_plain_run){0};
    size_t at = (e * 0x9e3779b1u) & (g->cap_runs - 1);
    for (; g->runs[at].e; at = (at + 1) & (g->cap_runs - 1))
        if (g->runs[at].e == e)
            return g->runs[at];
    rx_plain_run run = count_run(g, e);
    if (g->p.x.failed != RLX_OK)
        return (rx_plain_run){0};
    g->runs[at] = run;
    g->n_runs++;
    return run;
}

/* Whether the allowed plain tokens are exactly those of at most *n code points. A JSON string is
 * followed by a quote, so its term alone decides about plain text. */
static bool state_plain(rlx_grammar *g, uint32_t state, uint32_t *n)
{
    const rx_state s = g->m.states[state];
    bool exact = true;
    *n = 0;
    for (uint32_t i = 0; i < s.n; i++) {
        const rx_config c = g->m.configs[s.first + i];
        const bool json = g->p.code[c.pc].mode != RX_TERM_TEXT;
        rx_plain_run run = c.t.mid ? (rx_plain_run){0} : find_run(g, c.t.q);
        if (run.n == RX_PLAIN_LENGTH) {
            *n = run.n;
            return true;
        }
        exact = exact && !c.t.mid && run.is_exact && (json || !run.n);
        *n = run.n > *n ? run.n : *n;
    }
    return exact;
}

/* ---- The walk -------------------------------------------------------------------------------- */

static void set_tokens(const rlx_vocabulary *v, int32_t token, uint32_t *bits)
{
    for (; token >= 0; token = v->same[token])
        bits[token / 32] |= 1u << (token % 32);
}

static void walk(rlx_grammar *g, const rlx_vocabulary *v, const rx_vocab_trie *trie, uint32_t state,
                 uint32_t *bits)
{
    uint32_t *way = g->walk;
    way[0] = state;
    for (size_t i = 0; i < trie->n;) {
        const rx_vocab_node *node = &trie->nodes[i];
        uint32_t to = rx_machine_step(&g->m, way[node->depth - 1], node->byte);
        if (to == RX_DEAD) {
            i = node->end;
            continue;
        }
        way[node->depth] = to;
        if (node->token >= 0)
            set_tokens(v, node->token, bits);
        i++;
    }
}

void rx_mask_forget(rlx_grammar *g)
{
    for (size_t i = 0; i < RX_KEPT_MASKS; i++)
        g->masks[i].state = 0;
}

/* The cache entry of a state; a free entry otherwise, or NULL. */
static rx_kept_mask *find_kept(rlx_grammar *g, const rlx_vocabulary *v, uint32_t state)
{
    rx_kept_mask *k = &g->masks[(state * 0x9e3779b1u >> 16) % RX_KEPT_MASKS];
    if (k->v != v || !k->bits) {
        rx_free(k->bits);
        *k = (rx_kept_mask){.v = v, .bits = rx_alloc_array(v->n_words + 1, sizeof *k->bits)};
    }
    return k;
}

rlx_status rx_mask_compute(rlx_grammar *g, const rlx_vocabulary *v, uint32_t state, uint32_t *bits,
                           rlx_error *err)
{
    rx_kept_mask *kept = find_kept(g, v, state);
    if (kept->bits && kept->state == state) {
        memcpy(bits, kept->bits, v->n_words * sizeof *bits);
        return RLX_OK;
    }
    if (!rx_grow(&g->walk, &g->cap_walk, v->longest + 2, sizeof *g->walk))
        return rx_fail_memory(err, "a mask", v->longest * sizeof *g->walk);
    uint32_t n_plain;
    const bool plain = state_plain(g, state, &n_plain);
    memcpy(bits, v->plain + (plain ? n_plain : 0) * v->n_words, v->n_words * sizeof *bits);
    walk(g, v, plain ? &v->rest : &v->all, state, bits);
    RLX_TRY(rx_exprs_check(&g->p.x, "the grammar", err));
    for (size_t i = 0; g->m.states[state].accepting && i < v->n_words; i++)
        bits[i] |= v->ends[i];
    if (kept->bits) {
        memcpy(kept->bits, bits, v->n_words * sizeof *bits);
        kept->state = state;
    }
    return RLX_OK;
}
