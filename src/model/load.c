/* SPDX-License-Identifier: MIT */
/* Loading: finds the weights' file, the settings beside it and the tokenizer, and uploads the
 * weights. Settings are those of config.json and, for sentence embeddings, of modules.json, the
 * pooling folder it names and sentence_bert_config.json. */
#include <string.h>

#include "base/file.h"
#include "base/posix.h"
#include "base/str.h"
#include "import/file.h"
#include "import/json.h"
#include "model/model.h"

/* ---- Paths ----------------------------------------------------------------------------------- */

bool rx_is_folder(const char *path)
{
    struct stat st;
    return !rx_stat(path, &st) && S_ISDIR(st.st_mode);
}

static bool is_file(const char *path)
{
    struct stat st;
    return !rx_stat(path, &st) && S_ISREG(st.st_mode);
}

rlx_status rx_join_path(const char *folder, size_t n, const char *name, char **out,
                        rlx_error *err)
{
    rx_str s = {0};
    rx_str_add(&s, folder, n);
    if (n && folder[n - 1] != '/')
        rx_str_puts(&s, "/");
    rx_str_puts(&s, name);
    return rx_str_take(&s, out, NULL, err);
}

/* The file with the weights, in a folder or `path` itself. */
static rlx_status find_weights(const char *path, char **out, rlx_error *err)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    if (!rx_is_folder(path))
        return rx_join_path("", 0, path, out, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RLX_TRY(rx_join_path(path, strlen(path), names[i], out, err));
        if (is_file(*out))
            return RLX_OK;
        rx_free(*out);
        *out = NULL;
    }
    return rx_fail(err, RLX_NOT_FOUND, "the folder '%.200s' holds no model: expected %s or %s",
                   path, names[0], names[1]);
}

/* Maps a file next to the weights; *f is zeroed when there is none. */
static rlx_status open_beside(const char *weights, const char *name, rx_file *f, rlx_error *err)
{
    char *path = NULL;
    *f = (rx_file){0};
    RLX_TRY(rx_join_path(weights, rx_folder_length(weights), name, &path, err));
    rlx_status st = is_file(path) ? rx_file_open(path, f, err) : RLX_OK;
    rx_free(path);
    return st;
}

rlx_status rx_json_beside(const char *weights, const char *name, rx_arena *arena,
                          const rx_json **out, rlx_error *err)
{
    rx_file f;
    *out = NULL;
    RLX_TRY(open_beside(weights, name, &f, err));
    rlx_status st = f.data ? rx_json_parse(arena, name, f.data, f.bytes, out, err) : RLX_OK;
    if (f.data)
        rx_file_close(&f);
    return st;
}

/* ---- Settings of sentence embeddings --------------------------------------------------------- */

static bool is_true(const rx_json *object, const char *key)
{
    const rx_json *v = rx_json_member(object, key);
    return v && v->kind == RX_JSON_BOOL && v->truth;
}

/* The path of the module whose type ends in "Pooling"; NULL when there is none. */
static const char *pooling_folder(const rx_json *modules)
{
    if (!modules || modules->kind != RX_JSON_ARRAY)
        return NULL;
    for (const rx_json *m = modules->first; m; m = m->next) {
        const rx_json *type = rx_json_member(m, "type"), *path = rx_json_member(m, "path");
        static const char end[] = ".Pooling";
        size_t n = sizeof end - 1;
        if (type && type->kind == RX_JSON_STRING && type->length > n &&
            !memcmp(type->text + type->length - n, end, n) && path &&
            path->kind == RX_JSON_STRING && path->length && path->length < 200 &&
            !strstr(path->text, ".."))
            return path->text;
    }
    return NULL;
}

static rlx_status read_pooling(rlx_model *m, const char *weights, rx_arena *arena, rlx_error *err)
{
    const rx_json *modules, *config;
    RLX_TRY(rx_json_beside(weights, "modules.json", arena, &modules, err));
    const char *folder = pooling_folder(modules);
    if (!folder)
        return RLX_OK;
    char *name = NULL;
    RLX_TRY(rx_join_path(folder, strlen(folder), "config.json", &name, err));
    rlx_status st = rx_json_beside(weights, name, arena, &config, err);
    if (st == RLX_OK && config) {
        if (is_true(config, "pooling_mode_mean_tokens"))
            m->pooling = RLX_POOLING_MEAN;
        else if (is_true(config, "pooling_mode_cls_token"))
            m->pooling = RLX_POOLING_FIRST;
        else if (is_true(config, "pooling_mode_lasttoken"))
            m->pooling = RLX_POOLING_LAST;
        else
            st = rx_fail(err, RLX_UNSUPPORTED, "'%.200s' asks for none of the poolings that rlx "
                         "has: mean, first (cls) or last token", name);
    }
    rx_free(name);
    return st;
}

static rlx_status read_max_text(rlx_model *m, const char *weights, rx_arena *arena, rlx_error *err)
{
    const rx_json *config;
    uint64_t n;
    RLX_TRY(rx_json_beside(weights, "sentence_bert_config.json", arena, &config, err));
    if (rx_json_u64(rx_json_member(config, "max_seq_length"), &n) && n > 2 &&
        n < (uint64_t)m->max_text)
        m->max_text = (int64_t)n;
    return RLX_OK;
}

static rlx_status read_embedding_settings(rlx_model *m, const char *weights, rlx_error *err)
{
    rx_arena arena = {0};
    m->max_text = m->known.trained_context;
    m->pooling = m->known.pooling;
    rlx_status st = RLX_OK;
    if (weights) {
        st = read_pooling(m, weights, &arena, err);
        if (st == RLX_OK)
            st = read_max_text(m, weights, &arena, err);
    }
    rx_arena_finish(&arena);
    if (m->pooling == RLX_POOLING_DEFAULT)
        m->pooling = m->known.is_decoder ? RLX_POOLING_LAST : RLX_POOLING_MEAN;
    return st;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A GGUF file has its tokenizer inside, else it is beside. A model without one is fine: it takes
 * tokens instead of text. */
static rlx_status read_tokenizer(rlx_model *m, const char *weights, const char *given,
                                 rlx_error *err)
{
    rlx_error why = {0};
    if (given)
        return rlx_tokenizer_open(given, &m->tokenizer, err);
    rlx_status st = rlx_tokenizer_open_file(m->file, &m->tokenizer, &why);
    if (st == RLX_NOT_FOUND && weights)
        st = rlx_tokenizer_open(weights, &m->tokenizer, &why);
    if (st == RLX_NOT_FOUND)
        return RLX_OK;
    return st == RLX_OK ? RLX_OK : rx_fail(err, st, "%s", why.text);
}

static rlx_status read_facts(rlx_model *m, const char *weights, rlx_error *err)
{
    rx_file config = {0};
    if (weights && !strcmp(rlx_file_format(m->file), "safetensors")) {
        RLX_TRY(open_beside(weights, "config.json", &config, err));
        if (!config.data)
            return rx_fail(err, RLX_NOT_FOUND, "'%.200s' has no config.json beside it, which says "
                           "what kind of model it is", weights);
    }
    rlx_status st = rx_facts_read(m->file, (const char *)config.data, config.bytes, &m->facts, err);
    if (config.data)
        rx_file_close(&config);
    if (st == RLX_OK)
        rx_facts_get(m->facts, &m->known);
    return st;
}

static void count_parameters(rlx_model *m)
{
    rlx_file_tensor t;
    for (size_t i = 0; rlx_file_tensor_at(m->file, i, &t); i++) {
        int64_t n = 1;
        for (int32_t d = 0; d < t.shape.rank; d++)
            n *= t.shape.dim[d];
        m->parameters += n;
    }
}

static rlx_status open_weights(rlx_model *m, const char *path, bool streamed, rlx_error *err)
{
    return streamed ? rx_file_open_streamed(path, &m->file, err)
                    : rlx_file_open(path, &m->file, err);
}

rlx_status rx_model_read(rlx_model *m, const char *path, rx_bytes data, const rlx_model_desc *d,
                         rlx_error *err)
{
    char *weights = NULL;
    RLX_TRY(rx_join_path("", 0, path ? path : "memory", &m->path, err));
    if (path)
        RLX_TRY(find_weights(path, &weights, err));
    rlx_status st = weights ? open_weights(m, weights, d->no_map, err)
                            : rx_file_from_memory(data.data, data.bytes, "memory", &m->file, err);
    if (st == RLX_OK)
        st = read_facts(m, weights, err);
    if (st == RLX_OK)
        st = read_tokenizer(m, weights, d->tokenizer, err);
    if (st == RLX_OK)
        st = read_embedding_settings(m, weights, err);
    if (st == RLX_OK)
        count_parameters(m);
    rx_free(weights);
    return st;
}

/* ---- Weights --------------------------------------------------------------------------------- */

#define PAGE_BYTES 4096

/* Reads the pages of the weights ahead of the thread that uploads them. */
typedef struct reader {
    const rlx_file *file;
    rlx_session *session; /* whose params they are */
    atomic_bool stop;
    unsigned sum; /* keeps the compiler from removing the reads */
} reader;

static void *read_ahead(void *user)
{
    reader *r = user;
    rlx_tensor_info param;
    rlx_file_tensor t;
    for (size_t i = 0; rlx_session_leaf(r->session, RLX_LEAF_PARAM, i, &param); i++) {
        if (!rlx_file_find_tensor(r->file, param.name, &t))
            continue;
        const volatile unsigned char *p = t.data;
        for (size_t at = 0; at < t.bytes && !atomic_load(&r->stop); at += PAGE_BYTES)
            r->sum += p[at];
    }
    return NULL;
}

/* One param, from the file or computed by the architecture. */
static rlx_status set_weight(rlx_model *m, rlx_session *s, const rx_build_desc *build,
                             const rlx_tensor_info *param, rlx_error *err)
{
    const void *data = NULL;
    size_t bytes = 0;
    bool owned = false;
    RLX_TRY(rx_arch_param(m->facts, build, param->name, &data, &bytes, &owned, err));
    rlx_status st = rlx_session_set_param(s, param->name, data, bytes,
                                          owned ? RLX_COPY : RLX_BORROW, err);
    if (owned)
        rx_free((void *)(uintptr_t)data);
    return st;
}

static rlx_status set_weights(rlx_model *m, rlx_session *s, const rx_build_desc *build,
                              const rlx_model_desc *desc, rlx_error *err)
{
    rlx_memory_info memory = {RLX_INIT(rlx_memory_info)};
    rlx_tensor_info param;
    uint64_t done = 0;
    RLX_TRY(rlx_session_memory(s, &memory, err));
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &param); i++) {
        if (!rlx_session_has_param(s, param.name))
            RLX_TRY(set_weight(m, s, build, &param, err));
        done += param.bytes;
        if (desc && desc->progress &&
            desc->progress(desc->progress_user, "weights", done, memory.param_bytes))
            return rx_fail(err, RLX_CANCELLED, "loading '%.200s' was stopped after %llu of %llu "
                           "bytes", m->path, (unsigned long long)done,
                           (unsigned long long)memory.param_bytes);
    }
    return RLX_OK;
}

rlx_status rx_model_set_weights(rlx_model *m, rlx_session *s, const rx_build_desc *build,
                                const rlx_model_desc *desc, rlx_error *err)
{
    reader r = {.file = m->file, .session = s};
    rx_thread thread;
    const bool reads = !m->weights_in_file && !m->file->streamed;
    bool threaded = reads && rx_thread_start(&thread, read_ahead, &r);
    rlx_status st = set_weights(m, s, build, desc, err);
    if (threaded) {
        atomic_store(&r.stop, true);
        rx_thread_join(&thread);
    }
    return st;
}

/* Compiles the kernels while another thread uploads the weights. */
typedef struct compiler {
    rlx_session *session;
    const rx_build_desc *build;
    atomic_bool stop;
} compiler;

/* A prompt comes first, so its kernels do. What fails here does so again, and is reported, when it
 * is run. */
static void *compile_kernels(void *user)
{
    compiler *c = user;
    rlx_error ignored = {0};
    for (int prompt = 1; prompt >= 0 && !atomic_load(&c->stop); prompt--)
        if (rx_model_bind(c->session, c->build, prompt, &ignored) == RLX_OK)
            rlx_session_compile(c->session, &ignored);
    return NULL;
}

rlx_status rx_model_upload(rlx_model *m, const rlx_model_desc *desc, rlx_error *err)
{
    const rx_build_desc build = rx_model_back(m, &m->build);
    compiler c = {.session = m->session, .build = &build};
    rx_thread thread;
    const bool threaded = m->known.is_decoder && !m->is_prepared && !RX_WASM_THREADS &&
                          rx_thread_start(&thread, compile_kernels, &c);
    rlx_status st = rx_model_set_weights(m, m->session, &build, desc, err);
    if (threaded) {
        atomic_store(&c.stop, true);
        rx_thread_join(&thread);
    }
    return st;
}

void rx_model_release_pages(rlx_model *m)
{
    for (size_t i = 0; i < m->file->n_maps; i++)
        rx_file_release_pages(&m->file->maps[i]);
}
