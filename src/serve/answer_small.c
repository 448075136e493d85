/* SPDX-License-Identifier: MIT */
/* Requests that generate nothing: models, embeddings, tokens, templates, metrics. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "serve/json_out.h"
#include "serve/server.h"

/* ---- Models ---------------------------------------------------------------------------------- */

/* A model entry; only the name of one that is not loaded. */
static void put_model(rx_server *s, rx_served *m, rx_str *out)
{
    rx_str_puts(out, "{\"id\":");
    rx_put_string(out, m->id);
    rx_str_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"rlx\"",
                  (long long)s->created);
    rx_mutex_lock(&s->lock);
    const bool loaded = rx_served_is_ready(m);
    rx_str_printf(out, ",\"loaded\":%s", loaded ? "true" : "false");
    if (loaded) {
        rx_str_puts(out, ",\"architecture\":");
        rx_put_string(out, m->info.architecture);
        rx_str_printf(out, ",\"parameters\":%lld,\"context\":%lld,\"generates\":%s,"
                      "\"embeds\":%s", (long long)m->info.parameters, (long long)m->info.context,
                      m->info.generates ? "true" : "false", m->info.embeds ? "true" : "false");
    }
    rx_mutex_unlock(&s->lock);
    rx_str_puts(out, "}");
}

void rx_answer_model(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                     rx_api_error *e)
{
    rx_served *m = rx_server_find(s, c->rest, e);
    (void)kind;
    if (m)
        put_model(s, m, &r->body);
}

void rx_answer_models(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                      rx_api_error *e)
{
    (void)c, (void)kind, (void)e;
    rx_str_puts(&r->body, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < s->n_models; i++) {
        rx_str_puts(&r->body, i ? "," : "");
        put_model(s, &s->models[i], &r->body);
    }
    rx_str_puts(&r->body, "]}");
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

static void put_vector(const rx_api_request *q, const float *v, size_t width, rx_str *out)
{
    if (q->base64) {
        rx_put_base64(out, v, width * sizeof *v);
        return;
    }
    for (size_t i = 0; i < width; i++) {
        rx_str_puts(out, i ? "," : "[");
        rx_put_number(out, v[i]);
    }
    rx_str_puts(out, "]");
}

/* Truncates a vector to its first elements and normalises it again. */
static void cut_vector(float *v, size_t width)
{
    double sum = 0;
    for (size_t i = 0; i < width; i++)
        sum += (double)v[i] * v[i];
    for (size_t i = 0; i < width && sum > 0; i++)
        v[i] = (float)(v[i] / sqrt(sum));
}

/* The text of an input, which may be token ids. */
static bool input_text(const rx_served *m, const rx_api_text *p, rx_arena *a, const char **out,
                       rx_api_error *e)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m->model);
    rlx_text text = {0};
    rlx_error err = {0};
    *out = p->text;
    if (p->text)
        return strlen(p->text) == p->length ||
               rx_api_fail(e, "input", "'input': expected texts without zero bytes");
    if (!t)
        return rx_api_fail(e, "input", "'input': expected texts: the model has no tokenizer");
    rlx_status st = rlx_tokenizer_decode(t, p->tokens, p->n_tokens, 0, &text, &err);
    text.cap = text.n;
    text.data = st == RLX_OK ? rx_arena_array_zero(a, text.n + 1, 1) : NULL;
    if (text.data)
        st = rlx_tokenizer_decode(t, p->tokens, p->n_tokens, 0, &text, &err);
    else if (st == RLX_OK)
        st = RLX_NO_MEMORY;
    *out = text.data;
    return st == RLX_OK || rx_api_fail_status(e, st, &err);
}

/* Vectors of the query, where there is one, and of the texts; of those that are longer than the
 * model reads *n_cut were cut. */
static bool embed(rx_served *m, const rx_api_request *q, rx_arena *a, float **out, size_t *tokens,
                  size_t *n_cut, rx_api_error *e)
{
    const size_t width = (size_t)m->info.embedding_width, first = q->query ? 1 : 0;
    const size_t n = q->n_prompts + first;
    const char **texts = rx_arena_array(a, n, sizeof *texts);
    rlx_error err = {0};
    *out = rx_arena_array(a, n, rx_array_bytes(width, sizeof **out));
    if (!texts || !*out)
        return rx_api_fail_as(e, 500, "out_of_memory", "out of memory");
    for (size_t i = 0; i < n; i++) {
        const rx_api_text query = {.text = q->query, .length = q->query ? strlen(q->query) : 0};
        const rx_api_text *p = i < first ? &query : &q->prompts[i - first];
        int32_t *ids;
        size_t n_ids;
        if (!input_text(m, p, a, &texts[i], e) ||
            !rx_encode(m, texts[i], strlen(texts[i]), true, &ids, &n_ids, e))
            return false;
        rx_free(ids);
        *tokens += n_ids;
    }
    rx_mutex_lock(&m->lock);
    rlx_status st = rlx_embed(m->model, texts, n, NULL, *out, n_cut, &err);
    rx_mutex_unlock(&m->lock);
    if (st == RLX_OK && *n_cut && q->no_truncate)
        return rx_api_fail_as(e, 400, "context_length_exceeded", "a text is longer than the %lld "
                              "tokens that the model reads", (long long)m->info.context);
    return st == RLX_OK || rx_api_fail_status(e, st, &err);
}

/* OpenAI's are objects of a list, Ollama's are rows. */
static void put_embeddings(const rx_served *m, const rx_api_request *q, float *v, size_t tokens,
                           int64_t begin_ns, rx_str *out)
{
    const bool ollama = q->kind == RX_API_OLLAMA_EMBED;
    const size_t full = (size_t)m->info.embedding_width;
    const size_t width = q->dimensions ? (size_t)q->dimensions : full;
    if (q->kind == RX_API_OLLAMA_EMBEDDING) {
        rx_str_puts(out, "{\"embedding\":");
        put_vector(q, v, width, out);
        rx_str_puts(out, "}");
        return;
    }
    rx_str_puts(out, ollama ? "{\"embeddings\":[" : "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < q->n_prompts; i++) {
        if (width < full)
            cut_vector(v + i * full, width);
        rx_str_puts(out, i ? "," : "");
        if (!ollama)
            rx_str_printf(out, "{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i);
        put_vector(q, v + i * full, width, out);
        rx_str_puts(out, ollama ? "" : "}");
    }
    rx_str_puts(out, "],\"model\":");
    rx_put_string(out, m->id);
    if (ollama)
        rx_str_printf(out, ",\"total_duration\":%lld,\"load_duration\":0,"
                      "\"prompt_eval_count\":%zu}", (long long)(rx_now_ns() - begin_ns), tokens);
    else
        rx_str_printf(out, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}", tokens,
                      tokens);
}

/* The model of that name, by default the first that can embed. */
static rx_served *take_encoder(rx_server *s, const char *id, rx_api_error *e)
{
    rx_served *m = NULL;
    for (size_t i = 0; i < (id ? 1 : s->n_models); i++) {
        m = rx_server_take(s, id ? id : s->models[i].id, e);
        if (!m || m->info.embeds)
            return m;
        rx_server_release(s, m);
    }
    rx_api_fail(e, "model", "model '%s' generates text and makes no embeddings",
                m ? m->id : "");
    return NULL;
}

/* Ranks documents by the cosine similarity of their vectors with the query's. */
static void put_ranking(const rx_served *m, const rx_api_request *q, float *v, size_t tokens,
                        rx_str *out)
{
    const size_t width = (size_t)m->info.embedding_width, n = q->n_prompts;
    const size_t wanted = q->top_n && (size_t)q->top_n < n ? (size_t)q->top_n : n;
    rx_str_puts(out, "{\"object\":\"list\",\"model\":");
    rx_put_string(out, m->id);
    rx_str_printf(out, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu},\"results\":[",
                  tokens, tokens);
    for (size_t i = 0; i < n; i++) { /* the score replaces the first element of the vector */
        double sum = 0;
        for (size_t k = 0; k < width; k++)
            sum += (double)v[k] * v[(i + 1) * width + k];
        v[(i + 1) * width] = (float)sum;
    }
    for (size_t place = 0; place < wanted; place++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++) {
            const float score = v[(i + 1) * width];
            if (!isnan(score) && (best == n || score > v[(best + 1) * width]))
                best = i;
        }
        if (best == n)
            break;
        rx_str_printf(out, "%s{\"index\":%zu,\"relevance_score\":", place ? "," : "", best);
        rx_put_number(out, v[(best + 1) * width]);
        if (q->return_documents) {
            rx_str_puts(out, ",\"document\":{\"text\":");
            rx_put_text(out, q->prompts[best].text, q->prompts[best].length);
            rx_str_puts(out, "}");
        }
        rx_str_puts(out, "}");
        v[(best + 1) * width] = NAN; /* already ranked */
    }
    rx_str_puts(out, "]}");
}

void rx_answer_embeddings(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                          rx_api_error *e)
{
    rx_arena a = {0};
    rx_api_request q;
    float *v;
    size_t tokens = 0, n_cut = 0;
    const int64_t begin_ns = rx_now_ns();
    bool ok = rx_api_parse(&a, kind, c->body, c->n_body, &q, e);
    rx_served *m = ok ? take_encoder(s, q.model, e) : NULL;
    if (m && q.dimensions > m->info.embedding_width)
        ok = rx_api_fail(e, "dimensions", "'dimensions': expected at most %lld",
                         (long long)m->info.embedding_width);
    if (m && ok && embed(m, &q, &a, &v, &tokens, &n_cut, e)) {
        if (kind == RX_API_RERANK)
            put_ranking(m, &q, v, tokens, &r->body);
        else
            put_embeddings(m, &q, v, tokens, begin_ns, &r->body);
        atomic_fetch_add(&s->metrics.prompt_tokens, tokens);
    }
    if (q.unknown.n)
        rx_str_printf(&r->warning, "fields without effect: %s", q.unknown.data);
    if (n_cut)
        rx_str_printf(&r->warning, "%s%zu of the texts are longer than the %lld tokens that the "
                      "model reads, and were cut", r->warning.n ? "; " : "", n_cut,
                      (long long)m->info.context);
    rx_server_release(s, m);
    rx_str_finish(&q.unknown);
    rx_arena_finish(&a);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void answer_encode(const rx_served *m, const rx_api_request *q, rx_reply *r,
                          rx_api_error *e)
{
    int32_t *ids;
    size_t n;
    if (!q->prompts[0].text) {
        rx_api_fail(e, "content", "'content': expected a string");
        return;
    }
    if (!rx_encode(m, q->prompts[0].text, q->prompts[0].length, q->add_special, &ids, &n, e))
        return;
    rx_str_puts(&r->body, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++)
        rx_str_printf(&r->body, "%s%d", i ? "," : "", (int)ids[i]);
    rx_str_puts(&r->body, "]}");
    rx_free(ids);
}

static void answer_decode(const rx_served *m, const rx_api_request *q, rx_reply *r,
                          rx_api_error *e)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m->model);
    const rx_api_text *p = &q->prompts[0];
    rlx_text text = {0};
    rlx_error err = {0};
    if (p->text) {
        rx_api_fail(e, "tokens", "'tokens': expected an array of token ids");
        return;
    }
    rlx_status st = rlx_tokenizer_decode(t, p->tokens, p->n_tokens, 0, &text, &err);
    if (st == RLX_OK && text.n) {
        text.cap = text.n;
        text.data = rx_alloc(text.cap);
        st = text.data ? rlx_tokenizer_decode(t, p->tokens, p->n_tokens, 0, &text, &err)
                       : RLX_NO_MEMORY;
    }
    if (st == RLX_OK) {
        rx_str_puts(&r->body, "{\"content\":");
        rx_put_text(&r->body, text.n ? text.data : "", text.n);
        rx_str_puts(&r->body, "}");
    } else {
        rx_api_fail_status(e, st, &err);
    }
    rx_free(text.data);
}

static void answer_template(const rx_served *m, const rx_api_request *q, rx_reply *r,
                            rx_api_error *e)
{
    char *text;
    if (!rx_chat_prompt(m, q, &text, e))
        return;
    rx_str_puts(&r->body, "{\"prompt\":");
    rx_put_string(&r->body, text);
    rx_str_puts(&r->body, "}");
    rx_free(text);
}

/* Counts the prompt tokens of a conversation. */
static void answer_count(const rx_served *m, rx_api_request *q, rx_arena *a, rx_reply *r,
                         rx_api_error *e)
{
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    rlx_message *all = rx_arena_array(a, q->n_messages + 1, sizeof *all);
    if (!all) {
        rx_api_fail_as(e, 500, "out_of_memory", "out of memory");
        return;
    }
    all[0] = (rlx_message){"system", q->system};
    memcpy(all + 1, q->messages, q->n_messages * sizeof *all);
    q->messages = all + (q->system ? 0 : 1);
    q->n_messages += q->system ? 1 : 0;
    if (rx_chat_prompt(m, q, &text, e) && rx_encode(m, text, strlen(text), true, &ids, &n, e))
        rx_str_printf(&r->body, "{\"input_tokens\":%zu}", n);
    rx_free(text);
    rx_free(ids);
}

void rx_answer_tokens(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                      rx_api_error *e)
{
    rx_arena a = {0};
    rx_api_request q;
    const bool ok = rx_api_parse(&a, kind, c->body, c->n_body, &q, e);
    rx_served *m = ok ? rx_server_take(s, q.model, e) : NULL;
    if (m && !rlx_model_tokenizer(m->model))
        rx_api_fail_as(e, 400, NULL, "the model has no tokenizer");
    else if (m && kind == RX_API_TOKENIZE)
        answer_encode(m, &q, r, e);
    else if (m && kind == RX_API_DETOKENIZE)
        answer_decode(m, &q, r, e);
    else if (m && kind == RX_API_COUNT)
        answer_count(m, &q, &a, r, e);
    else if (m)
        answer_template(m, &q, r, e);
    rx_server_release(s, m);
    if (q.unknown.n)
        rx_str_printf(&r->warning, "fields without effect: %s", q.unknown.data);
    rx_str_finish(&q.unknown);
    rx_arena_finish(&a);
}

/* ---- Metrics --------------------------------------------------------------------------------- */

const double rx_bucket_limits[RX_N_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                               0.5, 1, 2.5, 5, 10, 30};

void rx_histogram_add(rx_histogram *h, double seconds)
{
    size_t i = 0;
    while (i < RX_N_BUCKETS && seconds > rx_bucket_limits[i])
        i++;
    atomic_fetch_add(&h->counts[i], 1);
    atomic_fetch_add(&h->microseconds, seconds > 0 ? (unsigned long long)(seconds * 1e6) : 0);
}

static void put_value(rx_str *s, const char *name, const char *kind, const char *help,
                      unsigned long long v)
{
    rx_str_printf(s, "# HELP rlx_%s %s\n# TYPE rlx_%s %s\nrlx_%s %llu\n", name, help, name, kind,
                  name, v);
}

static void put_histogram(rx_str *s, const char *name, const char *help, rx_histogram *h)
{
    unsigned long long sum = 0;
    rx_str_printf(s, "# HELP rlx_%s %s\n# TYPE rlx_%s histogram\n", name, help, name);
    for (size_t i = 0; i < RX_N_BUCKETS; i++) {
        sum += atomic_load(&h->counts[i]);
        rx_str_printf(s, "rlx_%s_bucket{le=\"%g\"} %llu\n", name, rx_bucket_limits[i], sum);
    }
    sum += atomic_load(&h->counts[RX_N_BUCKETS]);
    rx_str_printf(s, "rlx_%s_bucket{le=\"+Inf\"} %llu\nrlx_%s_sum %.6f\nrlx_%s_count %llu\n", name,
                  sum, name, (double)atomic_load(&h->microseconds) * 1e-6, name, sum);
}

void rx_answer_metrics(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                       rx_api_error *e)
{
    rx_metrics *m = &s->metrics;
    rx_str *b = &r->body;
    int64_t running = 0, waiting = 0;
    uint64_t bytes = 0;
    (void)c, (void)kind, (void)e;
    rx_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_models; i++) {
        const rx_served *one = &s->models[i];
        int64_t now = 0, later = 0;
        if (one->state != RX_SERVED_READY)
            continue;
        if (one->backend)
            one->backend->load(one->backend, &now, &later);
        running += now;
        waiting += later;
        bytes += one->bytes;
    }
    rx_mutex_unlock(&s->lock);
    r->type = "text/plain; version=0.0.4";
    put_value(b, "requests_total", "counter", "Requests answered.", atomic_load(&m->requests));
    put_value(b, "errors_total", "counter", "Of them with a status of 400 or more.",
              atomic_load(&m->errors));
    put_value(b, "cancelled_total", "counter", "Requests whose client went away.",
              atomic_load(&m->cancelled));
    put_value(b, "prompt_tokens_total", "counter", "Tokens of prompts.",
              atomic_load(&m->prompt_tokens));
    put_value(b, "cached_tokens_total", "counter", "Of them found in the cache.",
              atomic_load(&m->cached_tokens));
    put_value(b, "generated_tokens_total", "counter", "Tokens generated.",
              atomic_load(&m->generated_tokens));
    put_value(b, "guessed_tokens_total", "counter", "Tokens guessed ahead (--guesses).",
              atomic_load(&m->guessed_tokens));
    put_value(b, "accepted_tokens_total", "counter", "Of them right.",
              atomic_load(&m->accepted_tokens));
    put_value(b, "requests_active", "gauge", "Requests being answered.",
              (unsigned long long)atomic_load(&m->active));
    put_value(b, "jobs_running", "gauge", "Texts being generated.", (unsigned long long)running);
    put_value(b, "jobs_waiting", "gauge", "Texts in the queue.", (unsigned long long)waiting);
    put_value(b, "model_bytes", "gauge", "Memory of the models that are loaded.", bytes);
    put_value(b, "model_loads_total", "counter", "Models loaded.", atomic_load(&m->loads));
    put_value(b, "model_evictions_total", "counter", "Models closed to make room.",
              atomic_load(&m->evictions));
    put_histogram(b, "first_token_seconds", "From a request to its first token.",
                  &m->first_token);
    put_histogram(b, "token_seconds", "From one token to the next.", &m->per_token);
    put_histogram(b, "queue_seconds", "From a request to its first step.", &m->queue);
}
