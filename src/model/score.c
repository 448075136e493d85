/* SPDX-License-Identifier: MIT */
/* Log-probabilities of given tokens (perplexity): a separate graph, which scores each position on
 * the device, so that one float a token is read back. */
#include "model/model.h"

/* Runs the CPU layers of a split model on a chunk. */
static rlx_status run_front(rlx_model *m, const rlx_const_tensor in[4], size_t n, float **hidden,
                            rlx_error *err)
{
    rlx_session *s = m->scorer.front;
    uint64_t ticket;
    *hidden = rx_alloc_array(n * (size_t)m->known.width, sizeof **hidden);
    if (!*hidden)
        return rx_fail_memory(err, "the hidden states of tokens", n * sizeof **hidden);
    RLX_TRY(rlx_session_bind(s, "seq", (int64_t)n, err));
    RLX_TRY(rx_front_submit(s, in, 4, &ticket, err));
    RLX_TRY(rlx_session_wait(s, ticket, -1, err));
    return rx_front_read(m, s, n, *hidden, err);
}

/* Scores a chunk tokens[begin .. begin + n), each for the next token. */
static rlx_status score_chunk(rlx_model *m, const int32_t *tokens, size_t begin, size_t n,
                              float *out, rlx_error *err)
{
    rlx_session *s = m->scorer.session;
    float *hidden = NULL;
    int32_t *positions = rx_alloc_array(n, sizeof *positions);
    if (!positions)
        return rx_fail_memory(err, "the positions of tokens", n * sizeof *positions);
    for (size_t i = 0; i < n; i++)
        positions[i] = (int32_t)(begin + i);
    int32_t length = (int32_t)(begin + n);
    size_t bytes = n * sizeof *tokens;
    rlx_const_tensor in[] = {
        {"tokens", (void *)(uintptr_t)(tokens + begin), bytes},
        {"positions", positions, bytes},
        {"places", positions, bytes},
        {"lengths", &length, sizeof length},
        {"targets", (void *)(uintptr_t)(tokens + begin + 1), bytes},
    };
    rlx_tensor scores = {"scores", out + begin + 1, n * sizeof *out};
    rlx_status st = m->scorer.front ? run_front(m, in, n, &hidden, err) : RLX_OK;
    if (hidden)
        in[0] = (rlx_const_tensor){"hidden", hidden, n * (size_t)m->known.width * sizeof *hidden};
    if (st == RLX_OK)
        st = rlx_session_bind(s, "seq", (int64_t)n, err);
    if (st == RLX_OK)
        st = rlx_run(s, in, 5, &scores, 1, err);
    rx_free(hidden);
    rx_free(positions);
    return st;
}

static rlx_status score_all(rlx_model *m, const int32_t *tokens, size_t n, float *out,
                            rlx_error *err)
{
    rx_build_desc build = m->build;
    build.sequences = 1;
    build.scores = true;
    if (!m->scorer.session)
        RLX_TRY(rx_model_make_parts(m, &build, &m->scorer, err));
    if (m->known.recurrent)
        RLX_TRY(rlx_session_state_reset(m->scorer.session, NULL, err));
    if (m->known.recurrent && m->scorer.front)
        RLX_TRY(rlx_session_state_reset(m->scorer.front, NULL, err));
    size_t chunk = (size_t)build.prompt_chunk;
    for (size_t at = 0; at + 1 < n; at += chunk) {
        size_t left = n - 1 - at;
        RLX_TRY(score_chunk(m, tokens, at, left < chunk ? left : chunk, out, err));
    }
    return RLX_OK;
}

rlx_status rlx_score(rlx_model *m, const int32_t *tokens, size_t n, float *out, rlx_error *err)
{
    RLX_TRY(rx_need(m, "rlx_score: m", err));
    if (!m->known.is_decoder)
        return rx_fail(err, RLX_INVALID, "'%.200s' is an encoder (%s): it cannot score text",
                       m->path, m->known.architecture);
    if (n > (size_t)m->build.context)
        return rx_fail(err, RLX_INVALID, "%zu tokens to score: the context holds %lld "
                       "(rlx_model_desc.context)", n, (long long)m->build.context);
    if (n && (!tokens || !out))
        return rx_fail(err, RLX_INVALID, "the pointer to the %s is NULL",
                       tokens ? "scores" : "tokens");
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->known.vocabulary)
            return rx_fail(err, RLX_INVALID, "token %zu is %d; expected 0 to %lld, the vocabulary "
                           "of the model", i, (int)tokens[i], (long long)m->known.vocabulary - 1);
    if (n)
        out[0] = 0;
    rx_mutex_lock(&m->run_lock);
    rlx_status st = score_all(m, tokens, n, out, err);
    rx_mutex_unlock(&m->run_lock);
    return st;
}
