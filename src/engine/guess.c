/* SPDX-License-Identifier: MIT */
/* Speculative decoding: guesses from the text so far, how many pay off, and which were right. */
#include "engine/guess.h"

#include "engine/engine.h"

#define LEAST_MATCH 2
#define MOST_MATCH 16
#define GAIN 1.03        /* least speedup for which guesses are computed */
#define OLD_SHARE 0.8    /* weight of the old estimate */
#define HOPE 0.3         /* estimate that it decays to while guesses are off */
#define HOPE_SHARE 0.01  /* slowly */

size_t rx_guess_from_text(const int32_t *tokens, size_t n, int32_t *out, size_t most)
{
    size_t best = LEAST_MATCH - 1, at = 0;
    for (size_t end = n > 0 ? n - 1 : 0; end-- > LEAST_MATCH - 1 && best < MOST_MATCH;) {
        size_t same = 0; /* length of the match that ends at `end` */
        while (same <= end && same < MOST_MATCH && tokens[end - same] == tokens[n - 1 - same])
            same++;
        if (same <= best)
            continue;
        best = same;
        at = end + 1;
    }
    size_t k = 0;
    for (; at && k < most && at + k < n; k++)
        out[k] = tokens[at + k];
    return k;
}

/* The request whose next guess is most likely right; n: none has one left. */
static size_t most_likely(const rx_guess_share *s, size_t n, const double *next)
{
    size_t found = n;
    for (size_t i = 0; i < n; i++)
        if (s[i].take < s[i].n && (found == n || next[i] > next[found]))
            found = i;
    return found;
}

static double seconds_of(const double *seconds, size_t rows)
{
    size_t power = 0;
    while (((size_t)1 << power) < rows)
        power++;
    while (power > 0 && seconds[power] <= 0)
        power--;
    return seconds[power];
}

#define MAX_SHARES 64

size_t rx_guess_choose(const rx_guess_costs *c, size_t n_rows, size_t most, rx_guess_share *shares,
                       size_t n)
{
    double next[MAX_SHARES], tokens = (double)n_rows;
    size_t take[MAX_SHARES] = {0}, chosen = 0, given = 0;
    size_t deepest = 0;
    const double now = seconds_of(c->steps, n_rows);
    double best = now > 0 ? tokens / now * GAIN : 0;
    n = n < MAX_SHARES ? n : MAX_SHARES;
    for (size_t i = 0; i < n; i++) {
        shares[i].take = 0;
        next[i] = shares[i].accept;
    }
    while (n_rows + given < most && (c->ignored || now > 0)) {
        const size_t i = most_likely(shares, n, next);
        if (i == n)
            break;
        deepest = ++shares[i].take > deepest ? shares[i].take : deepest;
        given++;
        tokens += next[i];
        next[i] *= shares[i].accept;
        const double rate = tokens / (now > 0 ? seconds_of(c->steps, n_rows + given) +
                                                    c->guess * (double)deepest : 1);
        if (rate <= best && !c->ignored)
            continue;
        best = rate;
        chosen = given;
        for (size_t k = 0; k < n; k++)
            take[k] = shares[k].take;
    }
    for (size_t i = 0; i < n; i++)
        shares[i].take = take[i];
    return chosen;
}

double rx_guess_learn(double accept, size_t n, size_t right)
{
    if (!n)
        return accept + (HOPE - accept) * HOPE_SHARE;
    const double trials = (double)(right < n ? right + 1 : n);
    return accept * OLD_SHARE + (double)right / trials * (1 - OLD_SHARE);
}

/* ---- Of a step ------------------------------------------------------------------------------- */

/* Guesses of a request, after its tokens; 0 too where there is no room. */
static size_t guess(rlx_engine *e, rlx_request *r)
{
    size_t most = e->max_guesses;
    const size_t left = r->limit - r->n; /* at least 1 */
    if (r->grammar || r->sampler || !r->n_rows || r->n_rows != r->n - r->computed || r->n_rows > 1)
        return 0;
    most = most < left ? most : left - 1;
    if (r->max_tokens) {
        const size_t wanted = (size_t)r->max_tokens - (r->n - r->n_prompt);
        most = most < wanted ? most : wanted - 1;
    }
    if (!most || !rx_grow(&r->tokens, &r->cap_tokens, r->n + most, sizeof *r->tokens))
        return 0;
    return e->draft.session ? most : rx_guess_from_text(r->tokens, r->n, r->tokens + r->n, most);
}

/* A draft that fails is not asked again. */
static void ask_draft(rlx_engine *e)
{
    rlx_error why = {0};
    if (!e->draft.session || rx_draft_guess(e, &why) == RLX_OK)
        return;
    rx_log(RLX_LOG_WARN, "the draft model failed and is not used any more: %s", why.text);
    e->max_guesses = 0;
    for (size_t i = 0; i < e->n_running; i++)
        e->running[i]->n_guesses = 0;
}

void rx_guess_plan(rlx_engine *e)
{
    rx_guess_share shares[MAX_SHARES];
    size_t any = 0;
    const size_t n = e->n_running < MAX_SHARES ? e->n_running : MAX_SHARES;
    for (size_t i = 0; i < e->n_running; i++)
        e->running[i]->n_guesses = 0;
    if (!e->max_guesses || e->n_prompt_rows)
        return;
    for (size_t i = 0; i < n; i++) {
        shares[i] = (rx_guess_share){guess(e, e->running[i]), e->running[i]->accept, 0};
        any += shares[i].n;
    }
    if (!any)
        return;
    size_t most = (size_t)e->build.outputs;
    most = most < e->max_rows ? most : e->max_rows;
    const rx_guess_costs costs = {e->decode_steps, e->pass_seconds, e->always_guesses};
    rx_guess_choose(&costs, e->n_decoding, most, shares, n);
    for (size_t i = 0; i < n; i++) {
        rlx_request *r = e->running[i];
        rx_page_copy copy;
        if (!shares[i].take && shares[i].n)
            r->accept = rx_guess_learn(r->accept, 0, 0);
        const size_t end = r->computed + 1 + shares[i].take;
        if (!shares[i].take || /* no page that others need */
            rx_pages_needed(e->pages, &r->table, r->computed, end) + e->n_running >
                rx_pages_available(e->pages) ||
            !rx_pages_extend(e->pages, &r->table, r->computed, end, &copy))
            continue;
        r->n_guesses = shares[i].take;
    }
    ask_draft(e);
    for (size_t i = 0; i < n; i++)
        e->running[i]->n_rows += e->running[i]->n_guesses;
}

void rx_guess_settle(rlx_engine *e)
{
    size_t n = 0, right = 0;
    for (size_t i = 0; i < e->n_running; i++) {
        rlx_request *r = e->running[i];
        size_t a = 0;
        while (a < r->n_guesses && e->results[r->first_output + a] == r->tokens[r->n + a])
            a++;
        if (!r->n_guesses)
            continue;
        r->n_rows -= r->n_guesses - a; /* what is after a wrong one is computed again */
        r->accept = rx_guess_learn(r->accept, r->n_guesses, a);
        if (r->drafted > r->n + a) /* it has seen a wrong one */
            r->drafted = r->n + a;
        rx_mutex_lock(&e->lock);
        r->result.n_guessed += r->n_guesses;
        r->result.n_accepted += a;
        rx_mutex_unlock(&e->lock);
        n += r->n_guesses;
        right += a;
    }
    rx_mutex_lock(&e->lock);
    e->info.guessed_tokens += n;
    e->info.accepted_tokens += right;
    rx_mutex_unlock(&e->lock);
}
