/* SPDX-License-Identifier: MIT */
/* Memory of a model on a device: weights as they are in the file, K/V cache in f16, recurrent state
 * in f32, and an estimate of what the largest batch needs on its way through a layer. */
#include "model_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "lists.h"
#include "term.h"

#define BATCH 512 /* tokens of a prompt that are run at once */

/* ---- Metadata -------------------------------------------------------------------------------- */

typedef struct source {
    const rlx_file *file;
    const char *architecture;
} source;

static bool find(const source *s, const char *key, rlx_meta *m)
{
    char whole[160];
    snprintf(whole, sizeof whole, "%s.%s", s->architecture, key);
    return rlx_file_find_meta(s->file, whole, m);
}

/* Value `layer` of an array, the value itself where it is none; `missing` where it is not there or
 * is absurd. */
static int64_t layer_number(const source *s, const char *key, int64_t layer, int64_t missing)
{
    rlx_meta m;
    int64_t v;
    if (!find(s, key, &m) || !rlx_meta_i64(&m, m.is_array ? (size_t)layer : 0, &v))
        return missing;
    return v < 0 || v > 1ll << 40 ? missing : v;
}

static int64_t number(const source *s, const char *key, int64_t missing)
{
    return layer_number(s, key, 0, missing);
}

static bool flag(const source *s, const char *key, bool missing)
{
    rlx_meta m;
    bool v;
    return find(s, key, &m) && rlx_meta_bool(&m, 0, &v) ? v : missing;
}

/* Every n-th layer has full attention, the others a sliding window. */
static const struct {
    const char *architecture;
    int64_t period;
} patterns[] = {{"gemma2", 2}, {"gemma3", 6}, {"gemma3n", 5}, {"cohere2", 4}, {"gpt-oss", 2}};

static bool sees_window(const source *s, int64_t layer)
{
    rlx_meta m;
    bool is_window;
    int64_t period = 1;
    if (find(s, "attention.sliding_window_pattern", &m)) {
        if (m.kind == RLX_META_BOOL && rlx_meta_bool(&m, (size_t)layer, &is_window))
            return is_window;
        rlx_meta_i64(&m, 0, &period);
    } else
        for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
            if (!strcmp(patterns[i].architecture, s->architecture))
                period = patterns[i].period;
    return period <= 1 || (layer + 1) % period != 0;
}

static void add_attention(const source *s, int64_t layer, model_facts *m)
{
    const int64_t heads = layer_number(s, "attention.head_count", layer, 0);
    const int64_t heads_kv = layer_number(s, "attention.head_count_kv", layer, heads);
    if (heads <= 0 || !flag(s, "attention.causal", true))
        return;
    const int64_t head = m->n_embd / heads;
    const double row = (double)heads_kv * 2 * /* f16 */
                       (double)(number(s, "attention.key_length", head) +
                                number(s, "attention.value_length", head));
    if (m->window > 0 && sees_window(s, layer))
        m->window_row += row;
    else
        m->kv_row += row;
}

/* Of f32: the last inputs of the convolution, and the state of each inner channel. */
static double recurrent_bytes(const source *s)
{
    const double inner = (double)number(s, "ssm.inner_size", 0);
    const double groups = (double)number(s, "ssm.group_count", 0);
    const double size = (double)number(s, "ssm.state_size", 0);
    const double taps = fmax((double)number(s, "ssm.conv_kernel", 1) - 1, 0);
    return 4 * (taps * (inner + 2 * groups * size) + inner * size);
}

static int64_t vocabulary(const source *s)
{
    rlx_meta m;
    if (rlx_file_find_meta(s->file, "tokenizer.ggml.tokens", &m) && m.is_array)
        return (int64_t)m.n;
    return number(s, "vocab_size", 0);
}

bool model_facts_read(const rlx_file *f, double weight_bytes, model_facts *out)
{
    rlx_meta m;
    const char *text;
    size_t length;
    *out = (model_facts){.weights = weight_bytes};
    if (!rlx_file_find_meta(f, "general.architecture", &m) ||
        !rlx_meta_string(&m, 0, &text, &length) || length >= sizeof out->architecture)
        return false;
    memcpy(out->architecture, text, length);
    const source s = {f, out->architecture};
    out->n_layers = number(&s, "block_count", 0);
    out->n_embd = number(&s, "embedding_length", 0);
    out->n_ff = number(&s, "feed_forward_length", 4 * out->n_embd);
    out->n_vocab = vocabulary(&s);
    out->context = number(&s, "context_length", 0);
    out->window = number(&s, "attention.sliding_window", 0);
    if (out->n_layers <= 0 || out->n_layers > 10000 || out->n_embd <= 0 || out->context <= 0)
        return false;
    const double inner = (double)number(&s, "ssm.inner_size", 0);
    for (int64_t layer = 0; layer < out->n_layers; layer++) {
        add_attention(&s, layer, out);
        out->state += inner > 0 ? recurrent_bytes(&s) : 0;
    }
    /* Residual, norm, q, k, v and attention result; gate, up and their product; the inner width. */
    out->width = 6 * (double)out->n_embd + 3 * (double)out->n_ff + 4 * inner;
    return true;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

double model_cache_bytes(const model_facts *m, int64_t context)
{
    const int64_t window = m->window + BATCH < context ? m->window + BATCH : context;
    return m->kv_row * (double)context + m->window_row * (double)window;
}

double model_activation_bytes(const model_facts *m, int64_t context)
{
    const double batch = (double)(context < BATCH ? context : BATCH);
    return 4 * (batch * m->width + (double)m->n_vocab);
}

double model_total_bytes(const model_facts *m, int64_t context)
{
    return m->weights + model_cache_bytes(m, context) + m->state +
           model_activation_bytes(m, context);
}

/* The longest context, at most the trained one, that fits into this many bytes; 0: none. */
static int64_t longest_context(const model_facts *m, double bytes)
{
    int64_t fits = 0, too_long = m->context + 1;
    while (too_long - fits > 1) {
        int64_t middle = fits + (too_long - fits) / 2;
        if (model_total_bytes(m, middle) <= bytes)
            fits = middle;
        else
            too_long = middle;
    }
    return fits;
}

/* ---- Printing -------------------------------------------------------------------------------- */

/* "vulkan" means all of its devices. */
static bool is_device(const rlx_device_info *d, const char *wanted)
{
    if (!wanted || !strcmp(wanted, "auto"))
        return d->is_default;
    const size_t n = strlen(wanted);
    return !strncmp(d->id, wanted, n) && (!d->id[n] || d->id[n] == ':');
}

static void print_part(table *t, const char *what, double bytes)
{
    char text[SHORT_TEXT];
    table_cell(t, "%s", what);
    table_cell(t, "%s", short_bytes(bytes, text));
}

static void print_devices(const model_facts *m, const char *device)
{
    size_t n;
    rlx_device_info *list = list_devices(&n);
    table t;
    table_init(&t, "llrr", "device|name|memory|longest context");
    for (size_t i = 0; i < n; i++) {
        char text[SHORT_TEXT];
        if (device ? !is_device(&list[i], device) : list[i].is_test)
            continue;
        table_cell(&t, "%s", list[i].id);
        table_cell(&t, "%s", list[i].name);
        table_cell(&t, "%s", list[i].memory ? short_bytes((double)list[i].memory, text) : "-");
        int64_t fits = longest_context(m, (double)list[i].memory);
        if (!list[i].memory)
            table_cell(&t, "unknown");
        else if (!fits)
            table_cell(&t, "does not fit");
        else
            table_cell(&t, "%lld%s", (long long)fits, fits == m->context ? " (all)" : "");
    }
    table_print(&t, 2);
    free(list);
}

void model_memory_print(const model_facts *m, int64_t context, const char *device)
{
    const int64_t tokens = context ? context : m->context;
    table t;
    printf("\n%smemory for %lld tokens%s\n", term_style(stdout, TERM_BOLD), (long long)tokens,
           term_style(stdout, TERM_PLAIN));
    table_init(&t, "lr", "part|bytes");
    print_part(&t, "weights", m->weights);
    print_part(&t, "K/V cache (f16)", model_cache_bytes(m, tokens));
    if (m->state > 0)
        print_part(&t, "recurrent state", m->state);
    print_part(&t, "activations (about)", model_activation_bytes(m, tokens));
    print_part(&t, "all", model_total_bytes(m, tokens));
    table_print(&t, 2);
    putchar('\n');
    print_devices(m, device);
}

void model_memory_json(const model_facts *m, int64_t context, const char *device, json *j)
{
    const int64_t tokens = context ? context : m->context;
    size_t n;
    rlx_device_info *list = list_devices(&n);
    json_row(j, "memory");
    json_int(j, "context", tokens);
    json_int(j, "weights", (int64_t)m->weights);
    json_int(j, "kv_cache", (int64_t)model_cache_bytes(m, tokens));
    json_int(j, "state", (int64_t)m->state);
    json_int(j, "activations", (int64_t)model_activation_bytes(m, tokens));
    json_int(j, "all", (int64_t)model_total_bytes(m, tokens));
    json_end(j);
    json_array(j, "devices");
    for (size_t i = 0; i < n; i++) {
        if (device ? !is_device(&list[i], device) : list[i].is_test)
            continue;
        json_row(j, NULL);
        json_text(j, "id", list[i].id);
        json_int(j, "memory", (int64_t)list[i].memory);
        json_int(j, "longest_context", longest_context(m, (double)list[i].memory));
        json_end(j);
    }
    json_end(j);
    free(list);
}

void model_memory_hint(const char *path, const char *device, int64_t context)
{
    rlx_file *f;
    rlx_file_tensor t;
    model_facts m;
    double weights = 0;
    size_t n;
    if (rlx_file_open(path, &f, NULL) != RLX_OK)
        return;
    for (size_t i = 0; rlx_file_tensor_at(f, i, &t); i++)
        weights += (double)t.bytes;
    const bool known = model_facts_read(f, weights, &m);
    rlx_file_close(f);
    rlx_device_info *list = list_devices(&n);
    for (size_t i = 0; known && i < n; i++) {
        char need[SHORT_TEXT], have[SHORT_TEXT];
        if (!is_device(&list[i], device) || !list[i].memory)
            continue;
        const int64_t tokens = context ? context : m.context < 4096 ? m.context : 4096;
        const int64_t fits = longest_context(&m, (double)list[i].memory);
        fprintf(stderr, "a context of %lld tokens needs %s, %s has %s: ", (long long)tokens,
                short_bytes(model_total_bytes(&m, tokens), need), list[i].id,
                short_bytes((double)list[i].memory, have));
        if (fits)
            fprintf(stderr, "the longest that fits is --ctx %lld\n", (long long)fits);
        else
            fputs("the model does not fit; 'rlx quantize' makes it smaller\n", stderr);
        break;
    }
    free(list);
}
