/* SPDX-License-Identifier: MIT */
/* The API of grammars and their states: arguments, locks, limits, history. */
#include "grammar/grammar.h"

#include <string.h>

#include "base/sized.h"

#define DEFAULT_BYTES ((uint64_t)256 << 20)
#define DEFAULT_WORK ((uint64_t)1 << 24)

/* ---- Grammars -------------------------------------------------------------------------------- */

typedef enum front_end { SCHEMA, REGEX, GBNF } front_end;

static rlx_status compile_regex(rx_program *p, const char *text, size_t n, rlx_error *err)
{
    rx_ex e;
    RLX_TRY(rx_regex_parse(&p->x, "regular expression", text, n, true, &e, err));
    const bool empty = rx_ex_is_empty(&p->x, e);
    RLX_TRY(rx_exprs_check(&p->x, "the regular expression", err));
    if (empty)
        return rx_fail(err, RLX_INVALID, "regular expression: no text matches");
    p->start = rx_emit(p, (rx_ins){.op = RX_INS_TERM, .a = e});
    rx_emit(p, (rx_ins){.op = RX_INS_RETURN});
    return rx_exprs_check(&p->x, "the regular expression", err);
}

/* Lists one code point of each class of plain ones. */
static bool list_plain(rlx_grammar *g)
{
    rx_exprs *x = &g->p.x;
    g->plain = rx_alloc_array(x->n_unique + 1, sizeof *g->plain);
    if (!g->plain)
        return false;
    for (size_t i = 0; i < x->n_unique; i++) {
        uint32_t cp = x->unique[i];
        if (cp >= 0x20 && cp != '"' && cp != '\\')
            g->plain[g->n_plain++] = cp;
    }
    return true;
}

static rlx_status start(rlx_grammar *g, rlx_error *err)
{
    /* Plain and other code points are in different classes. */
    static const rx_range others[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    for (size_t i = 0; i < 3; i++)
        rx_ex_range(&g->p.x, others[i].lo, others[i].hi);
    rx_ex_can_step(&g->p.x, RX_EX_NONE + 4, 0, RX_CP_MAX); /* makes the partition */
    g->p.x.work = 0;
    if (rx_machine_init(&g->m, &g->p) != RLX_OK || !list_plain(g))
        return rx_fail_memory(err, "the states of a grammar", sizeof(rx_state));
    g->start = rx_machine_start(&g->m);
    RLX_TRY(rx_exprs_check(&g->p.x, "the grammar", err));
    if (g->start == RX_DEAD)
        return rx_fail(err, RLX_INVALID, "grammar: no text is in the language");
    return RLX_OK;
}

static rlx_status make(front_end front, const char *text, size_t n, const rlx_grammar_desc *d,
                       rlx_grammar **out, rlx_error *err)
{
    rlx_grammar_desc full;
    RLX_TRY(rx_need(out, "rlx_grammar_from_*: out", err));
    *out = NULL;
    RLX_TRY(rx_need(text, "rlx_grammar_from_*: text", err));
    RLX_TRY(RX_DESC_READ(rlx_grammar_desc, &full, d, err));
    if (full.form > RLX_JSON_READ)
        return rx_fail(err, RLX_INVALID, "rlx_grammar_desc.form is %d; expected a rlx_json_form",
                       (int)full.form);
    rlx_grammar *g = rx_alloc_zero(sizeof *g);
    if (!g || !rx_mutex_init(&g->lock)) {
        rx_free(g);
        return rx_fail_memory(err, "a grammar", sizeof *g);
    }
    rlx_status st = rx_exprs_init(&g->p.x, full.max_bytes ? full.max_bytes : DEFAULT_BYTES,
                                  full.max_work ? full.max_work : DEFAULT_WORK);
    if (st != RLX_OK)
        st = rx_exprs_check(&g->p.x, "a grammar", err);
    if (st == RLX_OK)
        st = front == SCHEMA ? rx_schema_compile(&g->p, text, n, full.form, err)
             : front == REGEX ? compile_regex(&g->p, text, n, err)
                              : rx_gbnf_compile(&g->p, text, n, err);
    if (st == RLX_OK)
        st = start(g, err);
    if (st == RLX_OK)
        *out = g;
    else
        rlx_grammar_destroy(g);
    return st;
}

rlx_status rlx_grammar_from_json_schema(const char *schema, size_t length,
                                        const rlx_grammar_desc *d, rlx_grammar **out,
                                        rlx_error *err)
{
    return make(SCHEMA, schema, length, d, out, err);
}

rlx_status rlx_grammar_from_regex(const char *regex, size_t length, const rlx_grammar_desc *d,
                                  rlx_grammar **out, rlx_error *err)
{
    return make(REGEX, regex, length, d, out, err);
}

rlx_status rlx_grammar_from_gbnf(const char *text, size_t length, const rlx_grammar_desc *d,
                                 rlx_grammar **out, rlx_error *err)
{
    return make(GBNF, text, length, d, out, err);
}

void rlx_grammar_destroy(rlx_grammar *g)
{
    if (!g)
        return;
    rx_machine_finish(&g->m);
    rx_program_finish(&g->p);
    for (size_t i = 0; i < RX_KEPT_MASKS; i++)
        rx_free(g->masks[i].bits);
    rx_free(g->runs);
    rx_free(g->plain);
    rx_free(g->walk);
    rx_mutex_finish(&g->lock);
    rx_free(g);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Garbage collection: drops unused states when memory exceeds the limit. */
static void collect(rlx_grammar *g)
{
    size_t n = 1;
    if (g->m.bytes < g->p.x.max_bytes / 4)
        return;
    for (const rlx_grammar_state *s = g->states; s; s = s->next)
        n += 1 + s->n_history;
    uint32_t **keep = rx_alloc_array(n, sizeof *keep);
    if (!keep)
        return;
    keep[0] = &g->start;
    n = 1;
    for (rlx_grammar_state *s = g->states; s; s = s->next) {
        keep[n++] = &s->at;
        for (size_t i = 0; i < s->n_history; i++)
            keep[n++] = &s->history[i];
    }
    if (rx_machine_collect(&g->m, keep, n))
        rx_mask_forget(g);
    rx_free(keep);
}

/* Starts a call with a fresh work budget and clears an exceeded one. */
static void enter(rlx_grammar *g)
{
    rx_mutex_lock(&g->lock);
    g->p.x.work = 0;
    g->p.x.failed = RLX_OK;
    collect(g);
}

static rlx_status leave(rlx_grammar *g, rlx_status st, rlx_error *err)
{
    if (st == RLX_OK)
        st = rx_exprs_check(&g->p.x, "the grammar", err);
    rx_mutex_unlock(&g->lock);
    return st;
}

rlx_status rlx_grammar_matches(rlx_grammar *g, const char *text, size_t length, bool *matches,
                               rlx_error *err)
{
    RLX_TRY(rx_need(g, "rlx_grammar_matches: g", err));
    if (length)
        RLX_TRY(rx_need(text, "rlx_grammar_matches: text", err));
    RLX_TRY(rx_need(matches, "rlx_grammar_matches: matches", err));
    enter(g);
    uint32_t at = rx_mask_bytes(g, g->start, text, length);
    *matches = at != RX_DEAD && g->m.states[at].accepting;
    return leave(g, RLX_OK, err);
}

/* ---- States ---------------------------------------------------------------------------------- */

static void link_state(rlx_grammar_state *s)
{
    s->next = s->g->states;
    if (s->next)
        s->next->prev = s;
    s->g->states = s;
}

rlx_status rlx_grammar_state_create(rlx_grammar *g, const rlx_vocabulary *v,
                                    rlx_grammar_state **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_grammar_state_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(g, "rlx_grammar_state_create: g", err));
    rlx_grammar_state *s = rx_alloc_zero(sizeof *s);
    if (!s)
        return rx_fail_memory(err, "a state of a grammar", sizeof *s);
    s->g = g;
    s->v = v;
    rx_mutex_lock(&g->lock);
    s->at = g->start;
    link_state(s);
    rx_mutex_unlock(&g->lock);
    *out = s;
    return RLX_OK;
}

rlx_status rlx_grammar_state_clone(const rlx_grammar_state *s, rlx_grammar_state **out,
                                   rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_grammar_state_clone: out", err));
    *out = NULL;
    RLX_TRY(rx_need(s, "rlx_grammar_state_clone: s", err));
    rlx_grammar_state *n = rx_alloc_zero(sizeof *n);
    if (!n || (s->n_history && !rx_grow(&n->history, &n->cap_history, s->n_history,
                                        sizeof *n->history))) {
        rx_free(n);
        return rx_fail_memory(err, "a state of a grammar", sizeof *n);
    }
    rx_mutex_lock(&s->g->lock);
    n->g = s->g;
    n->v = s->v;
    n->at = s->at;
    n->n_history = s->n_history;
    if (s->n_history)
        memcpy(n->history, s->history, s->n_history * sizeof *n->history);
    link_state(n);
    rx_mutex_unlock(&s->g->lock);
    *out = n;
    return RLX_OK;
}

void rlx_grammar_state_destroy(rlx_grammar_state *s)
{
    if (!s)
        return;
    rlx_grammar *g = s->g;
    rx_mutex_lock(&g->lock);
    if (s->prev)
        s->prev->next = s->next;
    else
        g->states = s->next;
    if (s->next)
        s->next->prev = s->prev;
    rx_mutex_unlock(&g->lock);
    rx_free(s->history);
    rx_free(s);
}

rlx_status rlx_grammar_state_reset(rlx_grammar_state *s, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_grammar_state_reset: s", err));
    rx_mutex_lock(&s->g->lock);
    s->at = s->g->start;
    s->n_history = 0;
    rx_mutex_unlock(&s->g->lock);
    return RLX_OK;
}

/* ---- Masks and tokens ------------------------------------------------------------------------ */

static rlx_status need_vocabulary(const rlx_grammar_state *s, const char *what, rlx_error *err)
{
    RLX_TRY(rx_need(s, what, err));
    return s->v ? RLX_OK : rx_fail(err, RLX_INVALID, "%s was created without a vocabulary", what);
}

rlx_status rlx_grammar_mask(rlx_grammar_state *s, uint32_t *bits, size_t n, rlx_error *err)
{
    RLX_TRY(need_vocabulary(s, "rlx_grammar_mask: s", err));
    RLX_TRY(rx_need(bits, "rlx_grammar_mask: bits", err));
    if (n != s->v->n_words)
        return rx_fail(err, RLX_INVALID, "rlx_grammar_mask: room for %zu words; expected %zu "
                       "(rlx_vocabulary_mask_words)", n, s->v->n_words);
    enter(s->g);
    return leave(s->g, rx_mask_compute(s->g, s->v, s->at, bits, err), err);
}

static bool is_end(const rlx_vocabulary *v, int32_t token)
{
    return v->ends[token / 32] >> (token % 32) & 1;
}

/* The state after a token, RX_DEAD where it is not allowed; the lock is held. */
static uint32_t after_token(rlx_grammar_state *s, int32_t token)
{
    const rlx_vocabulary *v = s->v;
    if (token < 0 || (size_t)token >= v->n_tokens)
        return RX_DEAD;
    if (is_end(v, token))
        return s->g->m.states[s->at].accepting ? s->at : RX_DEAD;
    const uint32_t from = v->offsets[token], n = v->offsets[token + 1] - from;
    return n ? rx_mask_bytes(s->g, s->at, v->bytes + from, n) : RX_DEAD;
}

bool rlx_grammar_allows(rlx_grammar_state *s, int32_t token)
{
    if (!s || !s->v)
        return false;
    enter(s->g);
    bool ok = after_token(s, token) != RX_DEAD;
    return leave(s->g, RLX_OK, NULL) == RLX_OK && ok;
}

/* Moves to a state and records the old one for rollback; the lock is held. */
static rlx_status move(rlx_grammar_state *s, uint32_t to, rlx_error *err)
{
    if (s->n_history == RX_MAX_HISTORY) {
        memmove(s->history, s->history + RX_MAX_HISTORY / 2,
                RX_MAX_HISTORY / 2 * sizeof *s->history);
        s->n_history = RX_MAX_HISTORY / 2;
    }
    if (!rx_grow(&s->history, &s->cap_history, s->n_history + 1, sizeof *s->history))
        return rx_fail_memory(err, "the history of a grammar", sizeof *s->history);
    s->history[s->n_history++] = s->at;
    s->at = to;
    return RLX_OK;
}

rlx_status rlx_grammar_accept(rlx_grammar_state *s, int32_t token, rlx_error *err)
{
    RLX_TRY(need_vocabulary(s, "rlx_grammar_accept: s", err));
    enter(s->g);
    uint32_t to = after_token(s, token);
    rlx_status st = rx_exprs_check(&s->g->p.x, "the grammar", err);
    if (st == RLX_OK && to == RX_DEAD)
        st = rx_fail(err, RLX_INVALID, "the grammar does not allow token %d here", token);
    if (st == RLX_OK)
        st = move(s, to, err);
    return leave(s->g, st, err);
}

rlx_status rlx_grammar_accept_bytes(rlx_grammar_state *s, const char *bytes, size_t n,
                                    rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_grammar_accept_bytes: s", err));
    if (n)
        RLX_TRY(rx_need(bytes, "rlx_grammar_accept_bytes: bytes", err));
    enter(s->g);
    uint32_t to = rx_mask_bytes(s->g, s->at, bytes, n);
    rlx_status st = rx_exprs_check(&s->g->p.x, "the grammar", err);
    if (st == RLX_OK && to == RX_DEAD)
        st = rx_fail(err, RLX_INVALID, "the grammar does not allow '%.*s' here",
                     (int)(n < 60 ? n : 60), bytes);
    if (st == RLX_OK)
        st = move(s, to, err);
    return leave(s->g, st, err);
}

rlx_status rlx_grammar_rollback(rlx_grammar_state *s, size_t n, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_grammar_rollback: s", err));
    if (n > s->n_history)
        return rx_fail(err, RLX_INVALID, "rlx_grammar_rollback: %zu steps back; the state "
                       "remembers %zu", n, s->n_history);
    rx_mutex_lock(&s->g->lock);
    if (n)
        s->at = s->history[s->n_history - n];
    s->n_history -= n;
    rx_mutex_unlock(&s->g->lock);
    return RLX_OK;
}

bool rlx_grammar_is_complete(rlx_grammar_state *s)
{
    if (!s)
        return false;
    rx_mutex_lock(&s->g->lock);
    bool ok = s->g->m.states[s->at].accepting;
    rx_mutex_unlock(&s->g->lock);
    return ok;
}

bool rlx_grammar_is_over(rlx_grammar_state *s)
{
    if (!s)
        return false;
    enter(s->g);
    bool over = s->g->m.states[s->at].accepting && !rx_mask_goes_on(s->g, s->at);
    return leave(s->g, RLX_OK, NULL) == RLX_OK && over;
}

/* ---- Forced ---------------------------------------------------------------------------------- */

/* Bytes forced from state *at on; *at becomes the state after them. The lock is held. */
static size_t forced_bytes(rlx_grammar *g, uint32_t *at, char *bytes, size_t cap)
{
    size_t n = 0;
    while (n < cap) {
        int byte = rx_mask_only_byte(g, *at);
        if (byte < 0 || g->p.x.failed != RLX_OK)
            break;
        bytes[n++] = (char)byte;
        *at = rx_machine_step(&g->m, *at, (unsigned char)byte);
    }
    return n;
}

rlx_status rlx_grammar_forced_bytes(rlx_grammar_state *s, char *bytes, size_t cap, size_t *n,
                                    rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_grammar_forced_bytes: s", err));
    RLX_TRY(rx_need(n, "rlx_grammar_forced_bytes: n", err));
    if (cap)
        RLX_TRY(rx_need(bytes, "rlx_grammar_forced_bytes: bytes", err));
    enter(s->g);
    uint32_t at = s->at;
    *n = forced_bytes(s->g, &at, bytes, cap);
    return leave(s->g, RLX_OK, err);
}

#define MAX_FORCED 256

/* Tokens that spell a prefix of the text. The last one is left out unless nothing can follow, since
 * the tokenizer might choose a longer token there. */
static size_t whole_tokens(const rlx_vocabulary *v, const char *text, size_t length,
                           const rlx_token_list *list, bool over)
{
    size_t n = 0, at = 0;
    for (; n < list->n; n++) {
        const uint32_t from = v->offsets[list->ids[n]];
        const uint32_t bytes = v->offsets[list->ids[n] + 1] - from;
        if (!bytes || bytes > length - at || memcmp(text + at, v->bytes + from, bytes))
            break;
        at += bytes;
    }
    return n == list->n && n && !over ? n - 1 : n;
}

rlx_status rlx_grammar_forced(rlx_grammar_state *s, int32_t *tokens, size_t cap, size_t *n,
                              rlx_error *err)
{
    char text[MAX_FORCED];
    int32_t ids[MAX_FORCED + 8];
    rlx_token_list list = {ids, MAX_FORCED + 8, 0};
    RLX_TRY(need_vocabulary(s, "rlx_grammar_forced: s", err));
    RLX_TRY(rx_need(n, "rlx_grammar_forced: n", err));
    if (cap)
        RLX_TRY(rx_need(tokens, "rlx_grammar_forced: tokens", err));
    *n = 0;
    enter(s->g);
    uint32_t at = s->at;
    size_t length = forced_bytes(s->g, &at, text, sizeof text);
    bool over = s->g->m.states[at].accepting && !rx_mask_goes_on(s->g, at);
    RLX_TRY(leave(s->g, RLX_OK, err));
    if (!length)
        return RLX_OK;
    RLX_TRY(rlx_tokenizer_encode(s->v->tokenizer, text, length, 0, &list, err));
    if (list.n > list.cap)
        return RLX_OK;
    size_t count = whole_tokens(s->v, text, length, &list, over);
    *n = count < cap ? count : cap;
    if (*n)
        memcpy(tokens, ids, *n * sizeof *tokens);
    return RLX_OK;
}
