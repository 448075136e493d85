/* SPDX-License-Identifier: MIT */
/* The bridge, models: open one from memory or from the module's files, generate text piece by
 * piece, make embeddings. */
#include "bridge.h"
#include "model/model.h"

/* ---- Models ---------------------------------------------------------------------------------- */

/* Numbers of web_model_open, each 0 for the default. */
enum { OPEN_CONTEXT, OPEN_PROMPT_CHUNK, OPEN_POLICY, OPEN_NO_MAP };

/* From `bytes` bytes at `data`, which stay until the model is closed; or, where data is NULL, from
 * the file or folder `path`. */
rlx_model *WEB_EXPORT(web_model_open)(const void *data, size_t bytes, const char *path,
                                      const char *device, const double *numbers);
rlx_model *WEB_EXPORT(web_model_open)(const void *data, size_t bytes, const char *path,
                                      const char *device, const double *numbers)
{
    rlx_model_desc desc = {RLX_INIT(rlx_model_desc), .device = device,
                           .context = (int64_t)numbers[OPEN_CONTEXT],
                           .prompt_chunk = (int64_t)numbers[OPEN_PROMPT_CHUNK],
                           .policy = (rlx_policy)numbers[OPEN_POLICY],
                           .no_map = numbers[OPEN_NO_MAP] != 0};
    rlx_model *m = NULL;
    if (data)
        rlx_model_open_memory(data, bytes, &desc, &m, &web_last_error);
    else
        rlx_model_open(path, &desc, &m, &web_last_error);
    return m;
}

void WEB_EXPORT(web_model_close)(rlx_model *m);
void WEB_EXPORT(web_model_close)(rlx_model *m)
{
    rlx_model_close(m);
}

const char *WEB_EXPORT(web_model_info)(const rlx_model *m);
const char *WEB_EXPORT(web_model_info)(const rlx_model *m)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_device_info device = {RLX_INIT(rlx_device_info)};
    rlx_model_get_info(m, &info, NULL);
    rlx_device_get_info(rlx_model_device(m), &device, NULL);
    const struct {
        const char *key, *text;
    } texts[] = {{"architecture", info.architecture}, {"name", info.name},
                 {"device", device.id}, {"backend", device.backend},
                 {"deviceName", device.name}};
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"parameters", (double)info.parameters}, {"layers", (double)info.layers},
                   {"width", (double)info.width}, {"vocabulary", (double)info.vocabulary},
                   {"trainedContext", (double)info.trained_context},
                   {"context", (double)info.context},
                   {"sequences", (double)info.sequences},
                   {"embeddingWidth", (double)info.embedding_width},
                   {"weightBytes", (double)info.weight_bytes},
                   {"cacheBytes", (double)info.cache_bytes},
                   {"workBytes", (double)info.work_bytes}};
    rx_str *s = web_text_begin();
    rx_str_puts(s, "{");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        web_json_key(s, texts[i].key);
        web_json_string(s, texts[i].text ? texts[i].text : "");
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        web_json_key(s, numbers[i].key);
        rx_str_printf(s, "%.0f", numbers[i].value);
    }
    rx_str_printf(s, ", \"generates\": %s, \"embeds\": %s}", info.generates ? "true" : "false",
                  info.embeds ? "true" : "false");
    return web_text_end();
}

/* ---- Generation ------------------------------------------------------------------------------ */

rlx_context *WEB_EXPORT(web_context_create)(rlx_model *m);
rlx_context *WEB_EXPORT(web_context_create)(rlx_model *m)
{
    rlx_context *c = NULL;
    rlx_context_create(m, &c, &web_last_error);
    return c;
}

void WEB_EXPORT(web_context_destroy)(rlx_context *c);
void WEB_EXPORT(web_context_destroy)(rlx_context *c)
{
    rlx_context_destroy(c);
}

/* The messages in the model's chat form, up to where the assistant speaks; freed with web_free. */
char *WEB_EXPORT(web_chat_format)(const rlx_model *m, const rlx_message *messages, size_t n);
char *WEB_EXPORT(web_chat_format)(const rlx_model *m, const rlx_message *messages, size_t n)
{
    char *text = NULL;
    rlx_chat_format(m, messages, n, true, &text, &web_last_error);
    return text;
}

void WEB_EXPORT(web_free)(void *p);
void WEB_EXPORT(web_free)(void *p)
{
    rlx_free(p);
}

/* Numbers of web_generation_begin. The seed is in two parts of 32 bits. */
enum {
    GENERATE_MAX_TOKENS, GENERATE_TEMPERATURE, GENERATE_TOP_K, GENERATE_TOP_P, GENERATE_MIN_P,
    GENERATE_REPEAT_PENALTY, GENERATE_SEED_LOW, GENERATE_SEED_HIGH, GENERATE_TYPICAL_P,
    GENERATE_XTC_PROBABILITY, GENERATE_XTC_THRESHOLD, GENERATE_DRY_MULTIPLIER, GENERATE_DRY_BASE,
    GENERATE_DRY_ALLOWED_LENGTH, GENERATE_MIROSTAT, GENERATE_MIROSTAT_TAU, GENERATE_MIROSTAT_ETA
};

rlx_generation *WEB_EXPORT(web_generation_begin)(rlx_context *c, const char *prompt,
                                                 const double *numbers, const char *const *stop,
                                                 size_t n_stop);
rlx_generation *WEB_EXPORT(web_generation_begin)(rlx_context *c, const char *prompt,
                                                 const double *numbers, const char *const *stop,
                                                 size_t n_stop)
{
    const rlx_sampling_desc sampling = {
        RLX_INIT(rlx_sampling_desc),
        .temperature = numbers[GENERATE_TEMPERATURE],
        .top_k = (int64_t)numbers[GENERATE_TOP_K],
        .top_p = numbers[GENERATE_TOP_P],
        .min_p = numbers[GENERATE_MIN_P],
        .repeat_penalty = numbers[GENERATE_REPEAT_PENALTY],
        .seed = (uint64_t)numbers[GENERATE_SEED_HIGH] << 32 | (uint64_t)numbers[GENERATE_SEED_LOW],
        .typical_p = numbers[GENERATE_TYPICAL_P],
        .xtc_probability = numbers[GENERATE_XTC_PROBABILITY],
        .xtc_threshold = numbers[GENERATE_XTC_THRESHOLD],
        .dry_multiplier = numbers[GENERATE_DRY_MULTIPLIER],
        .dry_base = numbers[GENERATE_DRY_BASE],
        .dry_allowed_length = (int64_t)numbers[GENERATE_DRY_ALLOWED_LENGTH],
        .mirostat = (int64_t)numbers[GENERATE_MIROSTAT],
        .mirostat_tau = numbers[GENERATE_MIROSTAT_TAU],
        .mirostat_eta = numbers[GENERATE_MIROSTAT_ETA],
    };
    const double most = numbers[GENERATE_MAX_TOKENS]; /* Infinity: without limit */
    const rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = prompt,
                                 .max_tokens = most < INT32_MAX ? (int64_t)most : 0,
                                 .prompt_only = most == 0,
                                 .sampling = &sampling, .stop = stop, .n_stop = n_stop};
    rlx_generation *g = NULL;
    rlx_generation_create(c, &d, &g, &web_last_error);
    return g;
}

/* What JavaScript reads: four words. */
typedef struct web_piece {
    int32_t token;
    const char *text;
    size_t length;
    uint32_t more;
} web_piece;

/* RLX_TIMEOUT: call again later. */
int WEB_EXPORT(web_generation_next)(rlx_generation *g, int timeout_ms, web_piece *out);
int WEB_EXPORT(web_generation_next)(rlx_generation *g, int timeout_ms, web_piece *out)
{
    rlx_piece piece = {.token = -1};
    bool more = false;
    rlx_status st = rlx_generation_next(g, timeout_ms, &piece, &more, &web_last_error);
    *out = (web_piece){piece.token, piece.text, piece.length, more};
    return (int)st;
}

/* {finish, promptTokens, reusedTokens, tokens, promptSeconds, seconds} */
const char *WEB_EXPORT(web_generation_end)(rlx_generation *g);
const char *WEB_EXPORT(web_generation_end)(rlx_generation *g)
{
    static const char *const words[] = {
        [RLX_FINISH_END] = "end",         [RLX_FINISH_STOP] = "stop",
        [RLX_FINISH_LENGTH] = "length",   [RLX_FINISH_CONTEXT] = "context",
        [RLX_FINISH_CALLER] = "cancelled",
    };
    rlx_generate_result r = {RLX_INIT(rlx_generate_result)};
    rlx_generation_get_result(g, &r, NULL);
    rlx_generation_destroy(g);
    rx_str *s = web_text_begin();
    rx_str_printf(s, "{\"finish\": \"%s\", \"promptTokens\": %zu, \"reusedTokens\": %zu, "
                  "\"tokens\": %zu, \"promptSeconds\": %.6f, \"seconds\": %.6f}",
                  words[r.finish], r.n_prompt, r.n_reused, r.n_generated, r.prompt_seconds,
                  r.seconds);
    return web_text_end();
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

/* out: [n, embeddingWidth], written until web_embedding_end */
rx_embedding *WEB_EXPORT(web_embedding_begin)(rlx_model *m, const char *const *texts, size_t n,
                                              float *out);
rx_embedding *WEB_EXPORT(web_embedding_begin)(rlx_model *m, const char *const *texts, size_t n,
                                              float *out)
{
    rx_embedding *e = NULL;
    rx_embedding_begin(m, texts, n, out, &e, &web_last_error);
    return e;
}

/* *more: 1 when texts are left. RLX_TIMEOUT: call again later. */
int WEB_EXPORT(web_embedding_next)(rx_embedding *e, int timeout_ms, uint32_t *more);
int WEB_EXPORT(web_embedding_next)(rx_embedding *e, int timeout_ms, uint32_t *more)
{
    bool goes_on = false;
    rlx_status st = rx_embedding_next(e, timeout_ms, &goes_on, &web_last_error);
    *more = goes_on;
    return (int)st;
}

void WEB_EXPORT(web_embedding_end)(rx_embedding *e);
void WEB_EXPORT(web_embedding_end)(rx_embedding *e)
{
    rx_embedding_end(e);
}
