/* SPDX-License-Identifier: MIT */
/* Models: opening, compiling for a device, closing. The compiled graph with its weights is one
 * session; the first context uses it, further ones use clones, which share the weights. */
#include "model/model.h"

#include <string.h>

#include "base/map.h"
#include "base/sized.h"
#include "base/str.h"
#include "import/file.h"

#define DEFAULT_CONTEXT 4096
#define DEFAULT_PROMPT_CHUNK 512

/* ---- Choices --------------------------------------------------------------------------------- */

static rlx_status check_count(const char *what, int64_t value, int64_t most, rlx_error *err)
{
    if (value >= 0 && value <= most)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "the %s of a model is %lld; expected 1 to %lld, or 0 for the "
                   "default", what, (long long)value, (long long)most);
}

static rlx_status check_desc(const rlx_model_desc *d, rlx_error *err)
{
    RLX_TRY(check_count("context", d->context, 1 << 24, err));
    RLX_TRY(check_count("number of sequences", d->sequences, 4096, err));
    RLX_TRY(check_count("prompt_chunk", d->prompt_chunk, 1 << 16, err));
    if (d->gpu_layers != RLX_GPU_LAYERS_NONE)
        RLX_TRY(check_count("gpu_layers", d->gpu_layers, INT32_MAX, err));
    if (d->context && d->sequences && d->context > INT32_MAX / d->sequences)
        return rx_fail(err, RLX_INVALID, "%lld sequences of %lld tokens are too many; expected at "
                       "most %d tokens in all", (long long)d->sequences, (long long)d->context,
                       INT32_MAX);
    if (d->cache != RLX_NO_TYPE && d->cache != RLX_F16 && d->cache != RLX_F32 &&
        d->cache != RLX_Q8_0)
        return rx_fail(err, RLX_INVALID, "a cache of %s; expected f16, f32 or q8_0",
                       rlx_dtype_name(d->cache));
    if ((unsigned)d->policy > RLX_POLICY_FAST)
        return rx_fail(err, RLX_INVALID, "policy %d is none of auto, exact and fast",
                       (int)d->policy);
    return RLX_OK;
}

static int64_t or_default(int64_t value, int64_t dflt)
{
    return value ? value : dflt;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static rx_build_desc choose_build(const rlx_model *m, const rlx_model_desc *d)
{
    rx_build_desc b = {.cache = d->cache ? d->cache : RLX_F16};
    if (!m->known.is_decoder) {
        b.sequences = or_default(d->sequences, rx_embed_texts(m));
        b.context = b.prompt_chunk = m->max_text;
        return b;
    }
    b.sequences = or_default(d->sequences, 1);
    b.context = or_default(d->context, smaller(m->known.trained_context, DEFAULT_CONTEXT));
    b.prompt_chunk = smaller(or_default(d->prompt_chunk, DEFAULT_PROMPT_CHUNK), b.context);
    return b;
}

/* Default policy: fast for quantised or half-precision weights. */
static rlx_policy choose_policy(const rlx_model *m, rlx_policy wanted)
{
    rlx_file_tensor t;
    if (wanted != RLX_POLICY_AUTO)
        return wanted == RLX_POLICY_FAST ? RLX_POLICY_FAST : RLX_POLICY_EXACT;
    for (size_t i = 0; rlx_file_tensor_at(m->file, i, &t); i++)
        if (t.shape.rank > 1 && t.dtype != RLX_F32)
            return RLX_POLICY_FAST;
    return RLX_POLICY_EXACT;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static rlx_status choose_for(const rlx_model *m, int64_t begin, char id[32], rlx_error *err)
{
    const rlx_session_desc session = {RLX_INIT(rlx_session_desc), .policy = m->policy};
    rx_build_desc step = m->build;
    rlx_graph *g;
    step.prompt_chunk = m->known.is_decoder ? 1 : step.prompt_chunk;
    step.begin = begin;
    RLX_TRY(rx_arch_build(m->facts, &step, &g, err));
    const rlx_status st = rlx_device_choose(g, &session, id, err);
    rlx_graph_destroy(g);
    return st;
}

static uint64_t memory_of(const char *id)
{
    rlx_device_info list[16] = {{RLX_INIT(rlx_device_info)}};
    size_t n = 0;
    if (rlx_device_list(list, 16, &n, NULL) != RLX_OK)
        return 0;
    for (size_t i = 0; i < n && i < 16; i++)
        if (!strcmp(list[i].id, id))
            return list[i].memory;
    return 0;
}

/* The device that decodes a token fastest. One without memory for all layers is skipped, but can
 * still get some of them if it is the fastest for a single layer. */
static rlx_status choose_device(const rlx_model *m, const rlx_model_desc *d, char id[32],
                                rlx_error *err)
{
    char part[32];
    RLX_TRY(choose_for(m, 0, id, err));
    if (!m->known.is_decoder || d->gpu_layers || strcmp(id, "cpu") != 0)
        return RLX_OK;
    RLX_TRY(choose_for(m, m->known.layers - 1, part, err));
    const uint64_t memory = memory_of(part);
    if (strcmp(part, "cpu") != 0 && memory && memory < rx_model_file_bytes(m))
        memcpy(id, part, sizeof part);
    return RLX_OK;
}

/* Opens the device asked for; for "auto", the one that decodes a token fastest. */
static rlx_status open_device(rlx_model *m, const rlx_model_desc *d, rlx_error *err)
{
    const rlx_device_desc device = {RLX_INIT(rlx_device_desc), .threads = d->threads};
    const char *id = d->device;
    char chosen[32];
    if (d->gpu_layers == RLX_GPU_LAYERS_NONE && m->known.is_decoder)
        id = "cpu";
    if (!id || !*id || !strcmp(id, "auto")) {
        RLX_TRY(choose_device(m, d, chosen, err));
        id = chosen;
    }
    return rlx_device_open(id, &device, &m->device, err);
}

static rlx_status load_model(rlx_model *m, const char *path, rx_bytes data,
                             const rlx_model_desc *d, rlx_error *err)
{
    RLX_TRY(check_desc(d, err));
    RLX_TRY(rx_model_read(m, path, data, d, err));
    if (d->context && d->context < m->max_text)
        m->max_text = d->context;
    m->build = choose_build(m, d);
    m->max_text = smaller(m->max_text, m->build.context);
    m->policy = choose_policy(m, d->policy);
    RLX_TRY(open_device(m, d, err));
    RLX_TRY(rx_model_divide(m, d, err));
    RLX_TRY(rx_model_upload(m, d, err));
    return rx_model_make_front(m, err);
}

static rlx_status open_model(const char *path, rx_bytes data, const rlx_model_desc *desc,
                             rlx_model **out, rlx_error *err)
{
    *out = NULL;
    rlx_model_desc full;
    RLX_TRY(RX_DESC_READ(rlx_model_desc, &full, desc, err));
    rlx_model *m = rx_alloc_zero(sizeof *m);
    if (!m || !rx_mutex_init(&m->lock)) {
        rx_free(m);
        return rx_fail_memory(err, "the model", sizeof *m);
    }
    if (!rx_mutex_init(&m->run_lock)) {
        rx_mutex_finish(&m->lock);
        rx_free(m);
        return rx_fail_memory(err, "the model", sizeof *m);
    }
    rlx_status st = load_model(m, path, data, &full, err);
    if (st == RLX_OK)
        *out = m;
    else
        rlx_model_close(m);
    return st;
}

rlx_status rlx_model_open(const char *path, const rlx_model_desc *desc, rlx_model **out,
                          rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_model_open: out", err));
    *out = NULL;
    if (!path)
        return rx_fail(err, RLX_INVALID, "the path of a model is NULL");
    return open_model(path, (rx_bytes){0}, desc, out, err);
}

rlx_status rlx_model_open_memory(const void *data, size_t bytes, const rlx_model_desc *desc,
                                 rlx_model **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_model_open_memory: out", err));
    *out = NULL;
    if (!data)
        return rx_fail(err, RLX_INVALID, "the data of a model is NULL");
    return open_model(NULL, (rx_bytes){data, bytes}, desc, out, err);
}

void rlx_model_close(rlx_model *m)
{
    if (!m)
        return;
    rx_parts_destroy(&m->scorer);
    rlx_session_destroy(m->embedder);
    rlx_session_destroy(m->front);
    rlx_session_destroy(m->session);
    rlx_device_close(m->host);
    rlx_device_close(m->device);
    rlx_vocabulary_destroy(m->vocabulary);
    rlx_tokenizer_close(m->tokenizer);
    rx_facts_destroy(m->facts);
    rlx_file_close(m->file);
    rx_free(m->path);
    rx_mutex_finish(&m->run_lock);
    rx_mutex_finish(&m->lock);
    rx_free(m);
}

/* ---- Looking at a model ---------------------------------------------------------------------- */

rlx_status rlx_model_get_info(const rlx_model *m, rlx_model_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(m, "rlx_model_get_info: m", err));
    rlx_memory_info memory = {RLX_INIT(rlx_memory_info)};
    rlx_memory_info host = {RLX_INIT(rlx_memory_info)};
    RLX_TRY(rlx_session_memory(m->session, &memory, err));
    if (m->front)
        RLX_TRY(rlx_session_memory(m->front, &host, err));
    const rlx_model_info info = {
        .architecture = m->known.architecture,
        .name = m->known.name,
        .generates = m->known.is_decoder,
        .embeds = !m->known.is_decoder,
        .parameters = m->parameters,
        .layers = m->known.layers,
        .width = m->known.width,
        .vocabulary = m->known.vocabulary,
        .trained_context = m->known.trained_context,
        .context = m->build.context,
        .sequences = m->build.sequences,
        .embedding_width = m->known.embedding_width,
        .policy = m->policy,
        .weight_bytes = memory.param_bytes,
        .cache_bytes = memory.state_bytes,
        .work_bytes = memory.arena_bytes + memory.input_bytes + memory.constant_bytes,
        .host_layers = m->host_layers,
        .host_weight_bytes = host.param_bytes,
        .host_cache_bytes = host.state_bytes,
    };
    return RX_INFO_WRITE(rlx_model_info, out, &info, err);
}

rlx_device *rlx_model_device(const rlx_model *m)
{
    return m ? m->device : NULL;
}

const rlx_tokenizer *rlx_model_tokenizer(const rlx_model *m)
{
    return m ? m->tokenizer : NULL;
}

/* ---- Lending --------------------------------------------------------------------------------- */

static rlx_status clone_parts(rlx_model *m, rx_parts *out, rlx_error *err)
{
    *out = (rx_parts){0};
    rlx_status st = rlx_session_clone(m->session, &out->session, err);
    if (st == RLX_OK && m->front)
        st = rlx_session_clone(m->front, &out->front, err);
    if (st != RLX_OK)
        rx_parts_destroy(out);
    return st;
}

rlx_status rx_model_lend(rlx_model *m, rx_parts *out, rlx_error *err)
{
    rx_mutex_lock(&m->lock);
    bool own = !m->session_lent;
    m->session_lent = true;
    rx_mutex_unlock(&m->lock);
    *out = (rx_parts){m->front, m->session};
    return own ? RLX_OK : clone_parts(m, out, err);
}

void rx_model_return(rlx_model *m, rx_parts *p)
{
    if (p->session != m->session) {
        rx_parts_destroy(p);
        return;
    }
    rlx_session_wait(p->session, 0, -1, NULL);
    if (p->front)
        rlx_session_wait(p->front, 0, -1, NULL);
    rx_mutex_lock(&m->lock);
    m->session_lent = false;
    rx_mutex_unlock(&m->lock);
}

/* Hashes the first bytes of each tensor, which tell fine-tunes of one architecture apart. */
static uint64_t hash_model(const rlx_model *m)
{
    rlx_file_tensor t;
    uint64_t h = rx_hash(0, m->known.architecture, strlen(m->known.architecture));
    for (size_t i = 0; rlx_file_tensor_at(m->file, i, &t); i++) {
        h = rx_hash(h, t.name, strlen(t.name));
        h = rx_hash(h, &t.dtype, sizeof t.dtype);
        h = rx_hash(h, t.shape.dim, (size_t)t.shape.rank * sizeof t.shape.dim[0]);
        unsigned char first[64] = {0}; /* zeros on a read error */
        const size_t n = t.bytes < sizeof first ? t.bytes : sizeof first;
        rx_file_read(m->file, &t, first, n, NULL);
        h = rx_hash(h, first, n);
    }
    return h ? h : 1;
}

uint64_t rx_model_fingerprint(rlx_model *m)
{
    rx_mutex_lock(&m->lock);
    if (!m->fingerprint)
        m->fingerprint = hash_model(m);
    uint64_t f = m->fingerprint;
    rx_mutex_unlock(&m->lock);
    return f;
}

rlx_status rx_model_vocabulary(rlx_model *m, const rlx_vocabulary **out, rlx_error *err)
{
    rlx_status st = RLX_OK;
    if (!m->tokenizer)
        return rx_fail(err, RLX_INVALID, "'%.200s' has no tokenizer, which a grammar needs",
                       m->path);
    rx_mutex_lock(&m->lock);
    if (!m->vocabulary)
        st = rlx_vocabulary_create(m->tokenizer, &m->vocabulary, err);
    *out = m->vocabulary;
    rx_mutex_unlock(&m->lock);
    return st;
}
