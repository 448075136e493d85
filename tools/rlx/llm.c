/* SPDX-License-Identifier: MIT */
/* What the commands for language models share. */
#include "llm.h"

#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "model_memory.h"
#include "term.h"

/* ---- Models ---------------------------------------------------------------------------------- */

static int show_loading(void *user, const char *what, uint64_t done, uint64_t total)
{
    double *next = user, now = cli_now();
    char have[SHORT_TEXT], all[SHORT_TEXT];
    if (now < *next)
        return 0;
    *next = now + 0.05;
    cli_progress_bar((double)done, (double)total, "%s of %s %s", short_bytes((double)done, have),
                     short_bytes((double)total, all), what);
    return 0;
}

static int read_cache(const char *text, rlx_dtype *out)
{
    *out = text ? rlx_dtype_from_name(text) : RLX_NO_TYPE;
    if (text && *out != RLX_F16 && *out != RLX_F32 && *out != RLX_Q8_0)
        return cli_usage("--cache expected f16, f32 or q8_0, got '%s'", text);
    return -1;
}

int llm_gpu_layers(const char *text, int64_t *out)
{
    char *end;
    *out = 0;
    if (!text || !strcmp(text, "auto"))
        return -1;
    const long long n = strtoll(text, &end, 10);
    if (end == text || *end || n < 0 || n > INT32_MAX)
        return cli_usage("--gpu-layers expected auto or a number of at least 0, got '%s'", text);
    *out = n ? n : RLX_GPU_LAYERS_NONE;
    return -1;
}

void llm_tell_layers(const char *text, const rlx_model *m)
{
    rlx_device_info on = {RLX_INIT(rlx_device_info)};
    rlx_model_info i = {RLX_INIT(rlx_model_info)};
    int64_t wanted = 0;
    if (!text || llm_gpu_layers(text, &wanted) >= 0 || wanted <= 0)
        return;
    rlx_device_get_info(rlx_model_device(m), &on, NULL);
    rlx_model_get_info(m, &i, NULL);
    if (!i.generates)
        cli_warn("--gpu-layers has no effect: the model is an encoder, which is not divided");
    else if (strcmp(on.backend, "vulkan") != 0 && strcmp(on.backend, "webgpu") != 0)
        cli_warn("--gpu-layers has no effect: all layers are on %s; --device chooses a GPU", on.id);
}

void llm_print_layers(FILE *f, const rlx_model *m)
{
    rlx_model_info i = {RLX_INIT(rlx_model_info)};
    rlx_device_info on = {RLX_INIT(rlx_device_info)};
    char w[SHORT_TEXT], c[SHORT_TEXT];
    rlx_model_get_info(m, &i, NULL);
    rlx_device_get_info(rlx_model_device(m), &on, NULL);
    if (!i.host_layers)
        return;
    term_dim_line(f, "layers: 1 to %lld on the CPU (weights %s, cache %s), %lld to %lld and the "
                  "output on %s", (long long)i.host_layers,
                  short_bytes((double)i.host_weight_bytes, w),
                  short_bytes((double)i.host_cache_bytes, c), (long long)i.host_layers + 1,
                  (long long)i.layers, on.id);
}

const char *llm_model(cli_common *c, const model_options *o)
{
    return o->model ? o->model : cli_shift(c);
}

int llm_desc(const cli_common *c, const model_options *o, rlx_model_desc *d)
{
    *d = (rlx_model_desc){RLX_INIT(rlx_model_desc), .threads = (uint32_t)c->threads,
                          .tokenizer = o->tokenizer, .context = o->context,
                          .prompt_chunk = o->prompt_chunk, .sequences = o->sequences};
    int status = cli_one_device(c, &d->device);
    if (status <= 0)
        status = cli_policy(o->policy, RLX_POLICY_AUTO, &d->policy);
    if (status <= 0)
        status = read_cache(o->cache, &d->cache);
    if (status <= 0)
        status = llm_gpu_layers(o->gpu_layers, &d->gpu_layers);
    return status < 0 ? EXIT_OK : status;
}

/* What a user should know of a model that was opened, or was not for want of memory. */
static void tell_context(const model_options *o, const rlx_model *m)
{
    rlx_model_info i = {RLX_INIT(rlx_model_info)};
    rlx_model_get_info(m, &i, NULL);
    if (o->context && i.trained_context > 0 && o->context > i.trained_context)
        cli_warn("--ctx %lld is more than the %lld tokens that the model was trained for; text "
                 "beyond those may be nonsense", (long long)o->context,
                 (long long)i.trained_context);
}

int llm_open(const cli_common *c, const model_options *o, rlx_model **out, double *seconds)
{
    double begin = cli_now(), next = begin + 0.2;
    rlx_error err = {0};
    *out = NULL;
    if (!o->model)
        return cli_usage("a model is needed: a file, or a name of 'rlx list'");
    rlx_model_desc d;
    int status = llm_desc(c, o, &d);
    if (status != EXIT_OK)
        return status;
    d.progress = show_loading;
    d.progress_user = &next;
    char *path = cli_model_path(o->model);
    if (!path)
        return EXIT_FAILED;
    rlx_status st = rlx_model_open(path, &d, out, &err);
    cli_progress_clear();
    if (seconds)
        *seconds = cli_now() - begin;
    if (st == RLX_OK) {
        tell_context(o, *out);
        llm_tell_layers(o->gpu_layers, *out);
    } else
        cli_error(&err);
    if (st == RLX_NO_MEMORY)
        model_memory_hint(path, d.device, o->context);
    free(path);
    return st == RLX_OK ? EXIT_OK : EXIT_FAILED;
}

/* ---- Adapters -------------------------------------------------------------------------------- */

void llm_split_scale(const char *text, char **file, double *scale)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    *scale = colon && colon[1] ? strtod(colon + 1, &end) : 1;
    if (end && !*end && colon > text) {
        *file = cli_format("%.*s", (int)(colon - text), text);
        return;
    }
    *scale = 1;
    *file = cli_format("%s", text);
}

int llm_open_lora(const cli_list *files, rlx_model *m, rlx_context *c, llm_lora *out)
{
    rlx_error err = {0};
    rlx_status st = RLX_OK;
    *out = (llm_lora){0};
    if (!files->n)
        return EXIT_OK;
    out->uses = cli_alloc_array(files->n, sizeof *out->uses);
    for (size_t i = 0; i < files->n && st == RLX_OK; i++) {
        rlx_adapter *a;
        char *file;
        llm_split_scale(files->v[i], &file, &out->uses[i].scale);
        st = rlx_adapter_open(m, file, &a, &err);
        free(file);
        out->uses[i].adapter = a;
        out->n += st == RLX_OK;
    }
    if (st == RLX_OK)
        st = rlx_context_set_adapters(c, out->uses, out->n, &err);
    return st == RLX_OK ? EXIT_OK : cli_error(&err);
}

void llm_close_lora(llm_lora *l)
{
    for (size_t i = 0; i < l->n; i++)
        rlx_adapter_close((rlx_adapter *)(uintptr_t)l->uses[i].adapter);
    free(l->uses);
    *l = (llm_lora){0};
}

/* ---- Sampling -------------------------------------------------------------------------------- */

int llm_real(const char *option, const char *text, double most, double dflt, double *out)
{
    char *end;
    *out = dflt;
    if (!text)
        return -1;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out >= 0 && *out <= most))
        return cli_usage("--%s expected a number from 0 to %g, got '%s'", option, most, text);
    return -1;
}

/* A seed for those who gave none: from the clock. */
static uint64_t new_seed(void)
{
    double t = cli_now();
    uint64_t bits;
    memcpy(&bits, &t, sizeof bits);
    return (bits * 0x9e3779b97f4a7c15u) >> 32;
}

/* The most likely token is taken whatever these say. */
static void tell_ignored(const sampling_options *o, const rlx_sampling_desc *s)
{
    const struct {
        const char *name;
        bool given;
    } rows[] = {
        {"top-k", o->top_k.given}, {"top-p", o->top_p}, {"min-p", o->min_p},
        {"typical-p", o->typical_p}, {"xtc-probability", o->xtc_probability},
        {"mirostat", o->mirostat != 0}, {"seed", o->seed.given},
    };
    const struct {
        const char *name, *needed;
        bool given, on;
    } parts[] = {
        {"repeat-last", "repeat-penalty", o->repeat_last != 0,
         s->repeat_penalty > 0 && s->repeat_penalty != 1},
        {"xtc-threshold", "xtc-probability", o->xtc_threshold, s->xtc_probability > 0},
        {"dry-base", "dry-multiplier", o->dry_base, s->dry_multiplier > 0},
        {"dry-allowed-length", "dry-multiplier", o->dry_allowed_length != 0,
         s->dry_multiplier > 0},
        {"dry-last", "dry-multiplier", o->dry_last != 0, s->dry_multiplier > 0},
        {"dry-breaker", "dry-multiplier", o->dry_breakers.n != 0, s->dry_multiplier > 0},
        {"mirostat-tau", "mirostat 2", o->mirostat_tau, o->mirostat != 0},
        {"mirostat-eta", "mirostat 2", o->mirostat_eta, o->mirostat != 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows) && !(s->temperature > 0); i++)
        if (rows[i].given)
            cli_warn("--%s has no effect without --temperature: the most likely token is taken",
                     rows[i].name);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i].given && !parts[i].on)
            cli_warn("--%s has no effect without --%s", parts[i].name, parts[i].needed);
}

/* Real options: where their text is, where the number goes, and the largest one. */
static const struct {
    const char *name;
    size_t text, number;
    double most;
} reals[] = {
#define REAL(name, member, most)                                                                  \
    {name, offsetof(sampling_options, member), offsetof(rlx_sampling_desc, member), most}
    REAL("temperature", temperature, 1e6),
    REAL("top-p", top_p, 1),
    REAL("min-p", min_p, 1),
    REAL("repeat-penalty", repeat_penalty, 1e6),
    REAL("typical-p", typical_p, 1),
    REAL("xtc-probability", xtc_probability, 1),
    REAL("xtc-threshold", xtc_threshold, 1),
    REAL("dry-multiplier", dry_multiplier, 1e6),
    REAL("dry-base", dry_base, 1e6),
    REAL("mirostat-tau", mirostat_tau, 1e6),
    REAL("mirostat-eta", mirostat_eta, 1e6),
#undef REAL
};

/* Counts that /set knows. */
static const struct {
    const char *name;
    size_t number;
} counts[] = {
    {"top-k", offsetof(rlx_sampling_desc, top_k)},
    {"repeat-last", offsetof(rlx_sampling_desc, repeat_last)},
    {"dry-allowed-length", offsetof(rlx_sampling_desc, dry_allowed_length)},
    {"dry-last", offsetof(rlx_sampling_desc, dry_last)},
    {"mirostat", offsetof(rlx_sampling_desc, mirostat)},
    {"seed", offsetof(rlx_sampling_desc, seed)},
};

static int read_count(const char *name, const char *value, int64_t *out)
{
    char *end;
    const long long number = strtoll(value, &end, 10);
    if (end == value || *end || number < 0)
        return cli_fail("/set %s expected a number of at least 0, got '%s'", name, value);
    *out = number;
    return EXIT_OK;
}

static int read_share(const char *name, const char *value, double most, double *out)
{
    char *end;
    const double number = strtod(value, &end);
    if (end == value || *end || !(number >= 0 && number <= most))
        return cli_fail("/set %s expected a number from 0 to %g, got '%s'", name, most, value);
    *out = number;
    return EXIT_OK;
}

void llm_print_sampling(const rlx_sampling_desc *s)
{
    for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
        const double v = *(const double *)(const void *)((const char *)s + reals[i].number);
        if (v > 0 || i == 0)
            fprintf(stderr, "  %-18s %g\n", reals[i].name, v);
    }
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        const int64_t v = *(const int64_t *)(const void *)((const char *)s + counts[i].number);
        if (v > 0)
            fprintf(stderr, "  %-18s %lld\n", counts[i].name, (long long)v);
    }
}

bool llm_set_sampling(rlx_sampling_desc *s, const char *name, const char *value, int *status)
{
    for (size_t i = 0; i < ARRAY_LEN(reals); i++)
        if (!strcmp(name, reals[i].name)) {
            double *at = (double *)(void *)((char *)s + reals[i].number);
            *status = read_share(name, value, reals[i].most, at);
            return true;
        }
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (!strcmp(name, counts[i].name)) {
            *status = read_count(name, value, (int64_t *)(void *)((char *)s + counts[i].number));
            return true;
        }
    return false;
}

static void read_breakers(const sampling_options *o, rlx_sampling_desc *s)
{
    static const char *const none[] = {""};
    const bool off = o->dry_breakers.n == 1 && !strcmp(o->dry_breakers.v[0], "none");
    if (!o->dry_breakers.n)
        return;
    s->dry_breakers = off ? none : o->dry_breakers.v;
    s->n_dry_breakers = o->dry_breakers.n;
}

int llm_sampling(const sampling_options *o, rlx_sampling_desc *s, rlx_generate_desc *d)
{
    for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
        const char *text = *(const char *const *)(const void *)((const char *)o + reals[i].text);
        double *at = (double *)(void *)((char *)s + reals[i].number);
        const int status = llm_real(reals[i].name, text, reals[i].most, *at, at);
        if (status >= 0)
            return status;
    }
    if (o->mirostat != 0 && o->mirostat != 2)
        return cli_usage("--mirostat expected 2, its version, or 0 (off), got %lld",
                         (long long)o->mirostat);
    if (s->dry_base != 0 && s->dry_base < 1)
        return cli_usage("--dry-base expected a number from 1 on, got '%s'", o->dry_base);
    if (o->top_k.given)
        s->top_k = o->top_k.value;
    tell_ignored(o, s);
    s->repeat_last = o->repeat_last;
    s->dry_allowed_length = o->dry_allowed_length;
    s->dry_last = o->dry_last;
    s->mirostat = o->mirostat;
    read_breakers(o, s);
    s->seed = o->seed.given ? (uint64_t)o->seed.value : new_seed();
    for (size_t i = 0; i < o->stop.n; i++)
        if (!o->stop.v[i][0])
            return cli_usage("--stop expected some text, got none");
    d->sampling = s;
    d->stop = o->stop.v;
    d->n_stop = o->stop.n;
    d->max_tokens = o->max_tokens.value;
    return EXIT_OK;
}

/* ---- Results --------------------------------------------------------------------------------- */

const char *llm_finish_name(rlx_finish f)
{
    static const char *const names[] = {"end", "stop", "length", "context", "caller"};
    return (size_t)f < ARRAY_LEN(names) ? names[f] : "unknown";
}

double llm_prompt_rate(const rlx_generate_result *r)
{
    double computed = (double)(r->n_prompt - r->n_reused);
    return r->prompt_seconds > 0 ? computed / r->prompt_seconds : 0;
}

double llm_rate(const rlx_generate_result *r)
{
    return r->n_generated > 1 && r->seconds > 0 ? (double)(r->n_generated - 1) / r->seconds : 0;
}

void llm_print_rates(const rlx_generate_result *r)
{
    char seconds[SHORT_TEXT], reused[64] = "", then[96] = "";
    if (r->n_reused)
        snprintf(reused, sizeof reused, " (and %zu remembered)", r->n_reused);
    if (r->n_generated > 1)
        snprintf(then, sizeof then, "; then %zu tokens in %s, %.1f tokens/s", r->n_generated - 1,
                 short_seconds(r->seconds, seconds), llm_rate(r));
    term_dim_line(stderr, "prompt: %zu tokens in %s, %.1f tokens/s%s%s", r->n_prompt - r->n_reused,
                  short_seconds(r->prompt_seconds, seconds), llm_prompt_rate(r), reused, then);
}

void llm_print_model(const rlx_model *m)
{
    rlx_model_info i = {RLX_INIT(rlx_model_info)};
    char n[SHORT_TEXT], w[SHORT_TEXT], c[SHORT_TEXT], k[SHORT_TEXT];
    rlx_device_info on = {RLX_INIT(rlx_device_info)};
    rlx_model_get_info(m, &i, NULL);
    rlx_device_get_info(rlx_model_device(m), &on, NULL);
    term_dim_line(stderr, "%s (%s, %s parameters, %lld layers) on %s: %s, policy %s",
                  i.name && *i.name ? i.name : "a model", i.architecture,
                  short_count((double)i.parameters, n), (long long)i.layers, on.id,
                  on.name, i.policy == RLX_POLICY_FAST ? "fast" : "exact");
    llm_print_layers(stderr, m);
    term_dim_line(stderr, "memory: weights %s, cache of %lld tokens %s, work %s",
                  short_bytes((double)i.weight_bytes, w), (long long)i.context,
                  short_bytes((double)i.cache_bytes, c), short_bytes((double)i.work_bytes, k));
}

/* ---- Where the time went --------------------------------------------------------------------- */

#define PROFILE_RUNS 5
#define PROFILE_ROWS 12

typedef struct kind {
    const char *op, *kernel;
    double seconds;
    size_t n;
} kind;

typedef struct profile {
    double *best; /* of each step */
    const char **kernels;
} profile;

static int take_step(void *user, const rlx_step_result *r)
{
    profile *p = user;
    if (!p->best[r->step] || r->seconds < p->best[r->step])
        p->best[r->step] = r->seconds;
    p->kernels[r->step] = r->kernel;
    return 0;
}

static int compare_kinds(const void *a, const void *b)
{
    double x = ((const kind *)a)->seconds, y = ((const kind *)b)->seconds;
    return (x < y) - (x > y);
}

/* Adds up the steps of the same operation and kernel; returns how many kinds there are. */
static size_t group_steps(rlx_session *s, const profile *p, kind *kinds)
{
    size_t n = 0;
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    for (size_t i = 0; rlx_session_step(s, i, &step, NULL) == RLX_OK; i++) {
        size_t k = 0;
        while (k < n && (strcmp(kinds[k].op, step.op) || strcmp(kinds[k].kernel, p->kernels[i])))
            k++;
        if (k == n)
            kinds[n++] = (kind){step.op, p->kernels[i], 0, 0};
        kinds[k].seconds += p->best[i];
        kinds[k].n++;
    }
    qsort(kinds, n, sizeof *kinds, compare_kinds);
    return n;
}

static void print_kinds(const kind *kinds, size_t n)
{
    double total = 0;
    char text[SHORT_TEXT];
    for (size_t i = 0; i < n; i++)
        total += kinds[i].seconds;
    fprintf(stderr, "a step takes %s in the kernels:\n", short_seconds(total, text));
    for (size_t i = 0; i < n && i < PROFILE_ROWS; i++)
        fprintf(stderr, "  %10s %5.1f %%  %3zu x %s (%s)\n",
                short_seconds(kinds[i].seconds, text), 100 * kinds[i].seconds / total, kinds[i].n,
                kinds[i].op, kinds[i].kernel);
}

int llm_print_profile(rlx_session *s)
{
    size_t n = rlx_session_n_steps(s);
    profile p = {cli_alloc_array(n + 1, sizeof(double)), cli_alloc_array(n + 1, sizeof(char *))};
    kind *kinds = cli_alloc_array(n + 1, sizeof *kinds);
    rlx_error err = {0};
    rlx_status st = RLX_OK;
    for (int i = 0; i < PROFILE_RUNS && st == RLX_OK; i++)
        st = rlx_session_run_steps(s, false, take_step, &p, &err);
    if (st == RLX_OK)
        print_kinds(kinds, group_steps(s, &p, kinds));
    free(p.best);
    free(p.kernels);
    free(kinds);
    return st == RLX_OK ? EXIT_OK : cli_error(&err);
}

/* ---- Grammars -------------------------------------------------------------------------------- */

int llm_grammar(const grammar_options *o, rlx_grammar **out)
{
    rlx_error err = {0};
    *out = NULL;
    if (!!o->schema + !!o->grammar + !!o->regex > 1)
        return cli_usage("only one of --json-schema, --grammar and --regex can be given");
    if (o->regex && rlx_grammar_from_regex(o->regex, strlen(o->regex), NULL, out, &err) != RLX_OK)
        return cli_error(&err);
    const char *path = o->schema ? o->schema : o->grammar;
    if (!path)
        return EXIT_OK;
    char *text = input_read_text(path);
    if (!text)
        return EXIT_FAILED;
    rlx_status st = o->schema
                        ? rlx_grammar_from_json_schema(text, strlen(text), NULL, out, &err)
                        : rlx_grammar_from_gbnf(text, strlen(text), NULL, out, &err);
    free(text);
    return st == RLX_OK ? EXIT_OK : cli_error(&err);
}

int llm_read_tokens(const rlx_model *m, const char *path, int32_t **ids, size_t *n)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m);
    size_t length;
    rlx_error err = {0};
    if (!t)
        return cli_fail("the model has no tokenizer; give one with --tokenizer");
    char *text = input_read(path, &length);
    if (!text)
        return EXIT_FAILED;
    rlx_token_list list = {.cap = length + 8};
    list.ids = cli_alloc_array(list.cap, sizeof *list.ids);
    rlx_status st = rlx_tokenizer_encode(t, text, length, RLX_ENCODE_ADD_SPECIAL, &list, &err);
    if (st == RLX_OK && list.n > list.cap) {
        list.cap = list.n;
        list.ids = cli_realloc_array(list.ids, list.cap, sizeof *list.ids);
        st = rlx_tokenizer_encode(t, text, length, RLX_ENCODE_ADD_SPECIAL, &list, &err);
    }
    free(text);
    *ids = list.ids;
    *n = list.n;
    return st == RLX_OK ? EXIT_OK : cli_error(&err);
}
