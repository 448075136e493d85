/* SPDX-License-Identifier: MIT */
/* Requests that generate: prompts to jobs, pieces to choices, calls of tools. */
#include "serve/answer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/posix.h"
#include "serve/json_out.h"

#define WAIT_MS 100            /* interval of checks whether the client is still connected */
#define DEFAULT_COMPLETION 16  /* tokens, as in OpenAI's API */
static const char call_mark[] = "<tool_call>";

static bool no_memory(rx_answer *a)
{
    return rx_api_fail_as(&a->e, 500, "out_of_memory", "out of memory");
}

/* ---- Grammars -------------------------------------------------------------------------------- */

/* {"name": one of the tools, "arguments": by its schema} */
static bool make_call_grammar(rx_answer *a)
{
    const rlx_grammar_desc d = {RLX_INIT(rlx_grammar_desc), .form = RLX_JSON_COMPACT};
    rx_str s = {0};
    rlx_error err = {0};
    bool first = true;
    rx_str_puts(&s, "{\"anyOf\":[");
    for (size_t i = 0; i < a->r.n_tools; i++) {
        const rx_api_tool *t = &a->r.tools[i];
        if (a->r.tool && strcmp(a->r.tool, t->name))
            continue;
        rx_str_printf(&s, "%s{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"%s\"},"
                      "\"arguments\":", first ? "" : ",", t->name);
        rx_put_arguments(&s, t->parameters, i);
        rx_str_puts(&s, "},\"required\":[\"name\",\"arguments\"],\"additionalProperties\":false}");
        first = false;
    }
    rx_str_puts(&s, "]}");
    rlx_status st = s.failed ? RLX_NO_MEMORY
                             : rlx_grammar_from_json_schema(s.data, s.n, &d, &a->calls, &err);
    rx_str_finish(&s);
    if (st == RLX_OK)
        return true;
    snprintf(a->e.param, sizeof a->e.param, "tools");
    return rx_api_fail_status(&a->e, st, &err);
}

static bool make_format_grammar(rx_answer *a)
{
    rlx_error err = {0};
    rx_str s = {0};
    rlx_status st = RLX_OK;
    const char *g = a->r.grammar;
    switch (a->r.format) {
    case RX_FORMAT_TEXT: return true;
    case RX_FORMAT_GRAMMAR:
        st = rlx_grammar_from_gbnf(g, strlen(g), NULL, &a->grammar, &err);
        break;
    case RX_FORMAT_REGEX:
        st = rlx_grammar_from_regex(g, strlen(g), NULL, &a->grammar, &err);
        break;
    case RX_FORMAT_OBJECT:
    case RX_FORMAT_SCHEMA:
        if (a->r.format == RX_FORMAT_OBJECT)
            rx_str_puts(&s, "{\"type\":\"object\"}");
        else
            rx_put_schema(&s, a->r.schema);
        st = s.failed ? RLX_NO_MEMORY
                      : rlx_grammar_from_json_schema(s.data, s.n, NULL, &a->grammar, &err);
        rx_str_finish(&s);
        break;
    }
    if (st == RLX_OK)
        return true;
    snprintf(a->e.param, sizeof a->e.param, "response_format");
    return rx_api_fail_status(&a->e, st, &err);
}

static bool make_grammars(rx_answer *a)
{
    const bool tools = a->r.n_tools && a->r.choice != RX_TOOLS_NONE;
    const bool text = !tools || a->r.choice != RX_TOOLS_REQUIRED; /* else it has no form */
    return (!text || make_format_grammar(a)) && (!tools || make_call_grammar(a));
}

/* ---- Prompts and jobs ------------------------------------------------------------------------ */

/* Copies the token ids of the request, checked. */
static bool copy_ids(rx_answer *a, size_t i, const rx_api_text *t)
{
    const int32_t limit = (int32_t)a->m->info.vocabulary;
    for (size_t k = 0; k < t->n_tokens; k++)
        if (t->tokens[k] >= limit)
            return rx_api_fail(&a->e, "prompt", "token %d is not in the vocabulary of %d tokens",
                               (int)t->tokens[k], (int)limit);
    a->prompts[i] = rx_alloc_array(t->n_tokens + 1, sizeof **a->prompts);
    if (!a->prompts[i])
        return no_memory(a);
    memcpy(a->prompts[i], t->tokens, t->n_tokens * sizeof *t->tokens);
    a->n_ids[i] = t->n_tokens;
    return true;
}

/* Whether a gap before a suffix is to be filled. */
static bool fills(const rx_answer *a)
{
    return a->r.suffix && *a->r.suffix;
}

/* Whether the prompt is a conversation. */
static bool is_chat(const rx_answer *a)
{
    return a->r.kind != RX_API_COMPLETION && !a->r.raw && !fills(a);
}

/* Prepends the system message and those of an earlier response. */
static bool join_messages(rx_answer *a)
{
    rx_api_request *r = &a->r;
    rlx_message *before = NULL;
    size_t n_before = 0, n = 0;
    if (r->previous &&
        !rx_history_find(a->s->history, r->previous, &a->arena, &before, &n_before)) {
        memcpy(a->e.param, "previous_response_id", sizeof "previous_response_id");
        return rx_api_fail_as(&a->e, 404, "previous_response_not_found", "there is no response "
                              "'%.60s' here (any more)", r->previous);
    }
    rlx_message *all = rx_arena_array(&a->arena, n_before + r->n_messages + 1, sizeof *all);
    if (!all)
        return no_memory(a);
    if (r->system)
        all[n++] = (rlx_message){"system", r->system};
    for (size_t i = 0; i < n_before; i++)
        all[n++] = before[i];
    for (size_t i = 0; i < r->n_messages; i++)
        all[n++] = r->messages[i];
    r->messages = all;
    r->n_messages = n;
    return true;
}

static bool make_prompt(rx_answer *a, size_t i)
{
    const rx_api_text *t = &a->r.prompts[i];
    char *whole = NULL;
    if (!t->text && fills(a))
        return rx_api_fail(&a->e, "suffix", "'suffix': expected a prompt of text, got token ids");
    if (!t->text)
        return copy_ids(a, i, t);
    if (fills(a) && !rx_fill_prompt(a->m, t, a->r.suffix, &whole, &a->e))
        return false;
    const bool ok = rx_encode(a->m, whole ? whole : t->text, whole ? strlen(whole) : t->length,
                              true, &a->prompts[i], &a->n_ids[i], &a->e);
    rx_free(whole);
    return ok;
}

static bool make_prompts(rx_answer *a)
{
    const bool chat = is_chat(a);
    const size_t n = chat ? 1 : a->r.n_prompts;
    if ((a->r.kind & (RX_API_OLLAMA_CHAT | RX_API_OLLAMA_GENERATE)) && !a->r.n_messages)
        return true;
    a->prompts = rx_arena_array_zero(&a->arena, n, sizeof *a->prompts);
    a->n_ids = rx_arena_array_zero(&a->arena, n, sizeof *a->n_ids);
    if (!a->prompts || !a->n_ids)
        return no_memory(a);
    if (chat) {
        char *text = NULL;
        bool ok = join_messages(a) && rx_chat_prompt(a->m, &a->r, &text, &a->e) &&
                  rx_encode(a->m, text, strlen(text), true, &a->prompts[0], &a->n_ids[0], &a->e);
        rx_free(text);
        a->r.n_prompts = 1;
        return ok;
    }
    for (size_t i = 0; i < n; i++)
        if (!make_prompt(a, i))
            return false;
    return true;
}

static uint64_t seed_of(const rx_answer *a, size_t index)
{
    uint64_t seed = (uint64_t)a->r.seed;
    if (a->r.seed == -1 && rx_random_bytes(&seed, sizeof seed))
        seed = (uint64_t)rx_now_ns();
    return seed + index;
}

/* How the tokens of a choice are drawn. */
static rlx_sampling_desc sampling_of(const rx_answer *a, size_t index)
{
    const rx_api_request *r = &a->r;
    const bool greedy = r->temperature == 0 || r->top_p == 0;
    rlx_sampling_desc s = r->more;
    s.struct_size = sizeof s;
    s.top_k = r->top_k;
    s.temperature = greedy ? 0 : r->temperature;
    s.top_p = r->top_p < 1 ? r->top_p : 0;
    s.min_p = r->min_p;
    s.repeat_penalty = r->repeat_penalty;
    s.seed = seed_of(a, index);
    s.dry_last = r->dry_last > 0 ? r->dry_last : 0;
    if (r->dry_last == 0)
        s.dry_multiplier = 0;
    return s;
}

/* The sentence of a prompt that does not fit, in the words that clients of each protocol look
 * for. */
static bool fail_too_long(rx_answer *a, size_t n, const rlx_error *err)
{
    static const char code[] = "context_length_exceeded";
    const long long context = a->m->info.context;
    if ((int64_t)n < a->m->info.context)
        return rx_api_fail_as(&a->e, 400, code, "%s", err->text);
    if (a->r.kind == RX_API_MESSAGE)
        return rx_api_fail_as(&a->e, 400, code, "prompt is too long: %zu tokens > %lld maximum", n,
                              context);
    return rx_api_fail_as(&a->e, 400, code, "this model's maximum context length is %lld tokens: "
                          "the prompt has %zu tokens, and needs room for at least one more",
                          context, n);
}

/* What a text is generated under; whether an open one becomes a call is free. */
static rlx_grammar *grammar_of(const rx_answer *a, const rx_choice *c)
{
    return c->mode == RX_MODE_CALL ? a->calls : c->mode == RX_MODE_OPEN ? NULL : a->grammar;
}

static bool submit(rx_answer *a, rx_choice *c, const int32_t *ids, size_t n, int64_t max_tokens)
{
    const rx_api_request *r = &a->r;
    const bool call = c->mode == RX_MODE_CALL;
    rlx_error err = {0};
    rx_job_desc d = {.tokens = ids, .n_tokens = n,
                     .sampling = sampling_of(a, (size_t)(c - a->choices)),
                     .presence_penalty = r->presence_penalty,
                     .frequency_penalty = r->frequency_penalty, .bias = r->bias,
                     .n_bias = r->n_bias, .max_tokens = max_tokens,
                     .stop = r->stop, .n_stop = call ? 0 : r->n_stop,
                     .ignore_end = r->ignore_end, .grammar = grammar_of(a, c),
                     .log_probs = r->log_probs, .n_best = r->n_best,
                     .deadline_ms = a->s->max_seconds * 1000, .adapter = a->m->adapter,
                     .adapter_scale = a->m->scale};
    rlx_status st = a->m->backend->submit(a->m->backend, &d, &c->job, &err);
    if (st == RLX_INVALID)
        return fail_too_long(a, n, &err);
    return st == RLX_OK || rx_api_fail_status(&a->e, st, &err);
}

static int64_t token_limit(const rx_answer *a)
{
    int64_t n = a->r.max_tokens;
    if (n < 0)
        n = a->r.kind == RX_API_COMPLETION ? DEFAULT_COMPLETION : 0;
    if (a->s->max_tokens && (!n || n > a->s->max_tokens))
        n = a->s->max_tokens;
    return n;
}

static bool start_choices(rx_answer *a)
{
    a->n_choices = a->r.n_prompts * (size_t)a->r.n;
    a->choices = rx_arena_array_zero(&a->arena, a->n_choices, sizeof *a->choices);
    if (!a->choices)
        return no_memory(a);
    for (size_t i = 0; i < a->n_choices; i++) {
        rx_choice *c = &a->choices[i];
        c->prompt = i / (size_t)a->r.n;
        c->mode = !a->calls ? RX_MODE_TEXT
                  : a->r.choice == RX_TOOLS_REQUIRED ? RX_MODE_CALL : RX_MODE_OPEN;
        c->last_ns = a->begin_ns;
        if (a->r.max_tokens &&
            !submit(a, c, a->prompts[c->prompt], a->n_ids[c->prompt], token_limit(a)))
            return false;
    }
    return true;
}

/* Refuses what the backend does not support. */
static bool check_features(rx_answer *a)
{
    const rx_gen_backend *b = a->m->backend;
    if (!b)
        return rx_api_fail(&a->e, "model", "model '%s' makes embeddings and generates no text",
                           a->m->id);
    if (a->r.log_probs && !b->has_log_probs)
        return rx_api_fail(&a->e, "logprobs", "log-probabilities are not supported here");
    if ((a->r.presence_penalty != 0 || a->r.frequency_penalty != 0) && !b->has_penalties)
        return rx_api_fail(&a->e, "presence_penalty", "presence and frequency penalties are not "
                           "supported here; repeat_penalty is");
    if (a->r.n_bias && !b->has_bias)
        return rx_api_fail(&a->e, "logit_bias", "'logit_bias' is not supported here");
    return true;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static void say(rx_answer *a, rx_choice *c, const char *text, size_t n, rx_str *out)
{
    c->length += n;
    if (out)
        a->w->text(a, c, text, n, out);
    if (!out || a->w->keeps_text)
        rx_str_add(&c->text, text, n);
}

static void end_job(rx_answer *a, rx_choice *c)
{
    rx_job_result r;
    if (!c->job)
        return;
    a->m->backend->result(c->job, &r);
    a->m->backend->end(c->job);
    c->job = NULL;
    c->n_generated += r.n_generated;
    a->n_generated += r.n_generated;
    a->n_cached += r.n_cached;
    atomic_fetch_add(&a->s->metrics.cached_tokens, r.n_cached);
    atomic_fetch_add(&a->s->metrics.generated_tokens, r.n_generated);
    atomic_fetch_add(&a->s->metrics.guessed_tokens, r.n_guessed);
    atomic_fetch_add(&a->s->metrics.accepted_tokens, r.n_accepted);
    rx_histogram_add(&a->s->metrics.queue, r.wait_seconds);
}

/* Submits again what has become clear to be a text or a call. */
static bool resubmit(rx_answer *a, rx_choice *c, rx_choice_mode mode, const int32_t *ids,
                     size_t n)
{
    const int64_t limit = token_limit(a), used = (int64_t)c->n_generated;
    c->mode = mode;
    rx_str_finish(&c->text);
    return submit(a, c, ids, n, !limit ? 0 : limit > used ? limit - used : 1);
}

/* The text is no call: it is generated again, in the form that was asked for. */
static bool start_form(rx_answer *a, rx_choice *c)
{
    end_job(a, c);
    a->n_generated -= c->n_generated;
    c->n_generated = 0;
    rx_answer_drop_probs(c);
    return resubmit(a, c, RX_MODE_TEXT, a->prompts[c->prompt], a->n_ids[c->prompt]);
}

/* The text began with the marker of a call: the rest is generated under the grammar of the
 * tools. */
static bool start_call(rx_answer *a, rx_choice *c)
{
    int32_t *mark = NULL;
    size_t n_mark, n = a->n_ids[c->prompt];
    bool ok = rx_encode(a->m, "<tool_call>\n", sizeof "<tool_call>\n" - 1, false, &mark, &n_mark,
                        &a->e);
    int32_t *ids = ok ? rx_alloc_array(n + n_mark, sizeof *ids) : NULL;
    end_job(a, c);
    if (ok && !ids)
        ok = no_memory(a);
    if (ok) {
        memcpy(ids, a->prompts[c->prompt], n * sizeof *ids);
        memcpy(ids + n, mark, n_mark * sizeof *ids);
        ok = resubmit(a, c, RX_MODE_CALL, ids, n + n_mark);
    }
    rx_free(mark);
    rx_free(ids);
    return ok;
}

/* Buffers the beginning of a text that may become a call. */
static bool take_open(rx_answer *a, rx_choice *c, const char *text, size_t n, rx_str *out)
{
    rx_str_add(&c->text, text, n);
    const char *begin = c->text.n ? c->text.data : "";
    begin += strspn(begin, " \t\r\n");
    const size_t have = strlen(begin), m = sizeof call_mark - 1;
    if (!strncmp(begin, call_mark, have < m ? have : m))
        return have < m || start_call(a, c);
    if (a->grammar)
        return start_form(a, c);
    rx_str held = c->text;
    c->text = (rx_str){0};
    c->mode = RX_MODE_TEXT;
    say(a, c, held.data, held.n, out);
    rx_str_finish(&held);
    return true;
}

static bool take_piece(rx_answer *a, rx_choice *c, const rx_backend_piece *p, rx_str *out)
{
    const int64_t now = rx_now_ns();
    const double seconds = (double)(now - c->last_ns) * 1e-9;
    if (p->token >= 0) {
        rx_histogram_add(c->last_ns == a->begin_ns ? &a->s->metrics.first_token
                                                   : &a->s->metrics.per_token, seconds);
        c->last_ns = now;
        a->first_ns = a->first_ns ? a->first_ns : now;
    }
    rx_answer_add_probs(a, c, p);
    switch (c->mode) {
    case RX_MODE_TEXT: say(a, c, p->text, p->length, out); break;
    case RX_MODE_OPEN: return take_open(a, c, p->text, p->length, out);
    case RX_MODE_CALL:
        rx_str_add(&c->call, p->text, p->length);
        if (out)
            a->w->call(a, c, out);
        break;
    }
    return !c->text.failed && !c->call.failed ? true : no_memory(a);
}

static bool finish_choice(rx_answer *a, rx_choice *c, rx_str *out)
{
    rx_job_result r;
    a->m->backend->result(c->job, &r);
    if (r.finish == RLX_FINISH_CALLER && !r.timed_out)
        return rx_api_fail_as(&a->e, 503, "shutting_down", "the server is shutting down");
    if (c->mode == RX_MODE_OPEN && a->grammar && !r.timed_out)
        return start_form(a, c);
    if (c->mode == RX_MODE_OPEN) { /* it is ordinary text after all */
        rx_str held = c->text;
        c->text = (rx_str){0};
        c->mode = RX_MODE_TEXT;
        say(a, c, held.n ? held.data : "", held.n, out);
        rx_str_finish(&held);
    }
    const bool ended = r.finish == RLX_FINISH_END || r.finish == RLX_FINISH_STOP;
    c->stopped = r.finish == RLX_FINISH_STOP;
    c->finish = !ended || r.timed_out ? "length" : c->mode == RX_MODE_CALL ? "tool_calls" : "stop";
    end_job(a, c); /* counts its tokens */
    if (out && c->mode == RX_MODE_CALL)
        a->w->call(a, c, out);
    if (out)
        a->w->finish(a, c, out);
    return true;
}

/* Processes the next piece; false when the answer is complete, or a->e says why it cannot
 * continue. */
static bool go_on(rx_answer *a, rx_str *out)
{
    if (a->at == a->n_choices)
        return false;
    rx_choice *c = &a->choices[a->at];
    rx_backend_piece p;
    bool more;
    rlx_error err = {0};
    if (!c->job) { /* no tokens were asked for */
        c->finish = "length";
        if (out)
            a->w->finish(a, c, out);
        a->at++;
        return true;
    }
    rlx_status st = a->m->backend->next(c->job, WAIT_MS, &p, &more, &err);
    if (rx_client_is_gone(a->fd)) {
        atomic_fetch_add(&a->s->metrics.cancelled, 1);
        return rx_api_fail_as(&a->e, 499, "cancelled", "the client has gone");
    }
    if (atomic_load(&a->s->stopping))
        return rx_api_fail_as(&a->e, 503, "shutting_down", "the server is shutting down");
    if (st == RLX_TIMEOUT)
        return true;
    if (st != RLX_OK)
        return rx_api_fail_status(&a->e, st, &err);
    if (more)
        return take_piece(a, c, &p, out);
    if (!finish_choice(a, c, out))
        return false;
    if (!c->job)
        a->at++;
    return true;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void end_answer(void *state)
{
    rx_answer *a = state;
    for (size_t i = 0; i < a->n_choices && a->choices; i++) {
        rx_choice *c = &a->choices[i];
        end_job(a, c);
        rx_str_finish(&c->text);
        rx_str_finish(&c->call);
        for (size_t k = 0; k < 4; k++)
            rx_str_finish(&c->probs[k]);
    }
    for (size_t i = 0; a->prompts && i < a->r.n_prompts; i++)
        rx_free(a->prompts[i]);
    rlx_grammar_destroy(a->grammar);
    rlx_grammar_destroy(a->calls);
    rx_server_release(a->s, a->m);
    rx_str_finish(&a->r.unknown);
    rx_arena_finish(&a->arena);
    rx_free(a);
}

static bool more_events(void *state, rx_str *out)
{
    rx_answer *a = state;
    if (a->ended)
        return false;
    if (!a->started)
        for (size_t i = 0; i < a->n_choices; i++) {
            a->w->begin(a, &a->choices[i], out);
            if (a->r.echo && a->r.prompts[a->choices[i].prompt].text)
                say(a, &a->choices[i], a->r.prompts[a->choices[i].prompt].text,
                    a->r.prompts[a->choices[i].prompt].length, out);
        }
    a->started = true;
    while (!out->n && go_on(a, out))
        continue;
    if (a->e.status || a->at == a->n_choices) {
        if (a->e.status)
            a->w->error(a, &a->e, out);
        else
            a->w->end(a, out);
        a->ended = true;
    }
    return true;
}

static void answer_whole(rx_answer *a, rx_reply *r, rx_api_error *e)
{
    for (size_t i = 0; i < a->n_choices && a->r.echo; i++) {
        const rx_api_text *t = &a->r.prompts[a->choices[i].prompt];
        say(a, &a->choices[i], t->text ? t->text : "", t->length, NULL);
    }
    while (go_on(a, NULL))
        continue;
    *e = a->e;
    if (!e->status)
        a->w->whole(a, &r->body);
    end_answer(a);
}

static bool prepare(rx_answer *a, const rx_call *c, rx_api_kind kind)
{
    if (!rx_api_parse(&a->arena, kind, c->body, c->n_body, &a->r, &a->e))
        return false;
    a->m = rx_server_take(a->s, a->r.model, &a->e);
    if (!a->m || !check_features(a) || !make_grammars(a) || !make_prompts(a))
        return false;
    if (!a->n_ids)
        return true; /* only loads the model */
    for (size_t i = 0; i < a->r.n_prompts; i++)
        a->n_prompt += a->n_ids[i];
    atomic_fetch_add(&a->s->metrics.prompt_tokens, a->n_prompt);
    return start_choices(a);
}

void rx_answer_keep(rx_answer *a, const rx_str *body)
{
    const rx_choice *c = &a->choices[0];
    const bool call = c->mode == RX_MODE_CALL;
    rx_str said = {0};
    if (a->r.no_store || body->failed)
        return;
    if (call)
        rx_str_printf(&said, "%s\n%s\n</tool_call>", call_mark, c->call.n ? c->call.data : "");
    else
        rx_str_puts(&said, c->text.n ? c->text.data : "");
    /* The system message belongs to one response only. */
    const size_t skip = a->r.system ? 1 : 0;
    if (!said.failed)
        rx_history_keep(a->s->history, &(rx_history_entry){
            .id = a->id, .messages = a->r.messages + skip, .n_messages = a->r.n_messages - skip,
            .said = said.data, .body = body->data, .n_body = body->n});
    rx_str_finish(&said);
}

static const rx_writer *writer_of(rx_api_kind kind)
{
    return kind == RX_API_CHAT ? &rx_writer_chat : kind == RX_API_COMPLETION ? &rx_writer_completion
           : kind == RX_API_RESPONSE ? &rx_writer_response
           : kind == RX_API_MESSAGE ? &rx_writer_message : &rx_writer_ollama;
}

void rx_answer_generate(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                        rx_api_error *e)
{
    rx_answer *a = rx_alloc_zero(sizeof *a);
    if (!a) {
        rx_api_fail_as(e, 500, "out_of_memory", "out of memory");
        return;
    }
    a->s = s;
    a->fd = c->fd;
    a->begin_ns = rx_now_ns();
    a->created = (int64_t)time(NULL);
    a->w = writer_of(kind);
    snprintf(a->id, sizeof a->id, "%s%llx%08llx", a->w->id,
             (unsigned long long)s->created,
             (unsigned long long)atomic_fetch_add(&s->serial, 1));
    const bool ok = prepare(a, c, kind);
    if (a->r.unknown.n)
        rx_str_printf(&r->warning, "fields without effect: %s", a->r.unknown.data);
    if (!ok) {
        *e = a->e;
        end_answer(a);
    } else if (a->r.stream) {
        r->type = a->w->type;
        r->more = more_events;
        r->end = end_answer;
        r->state = a;
    } else {
        answer_whole(a, r, e);
    }
}
