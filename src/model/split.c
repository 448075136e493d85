/* SPDX-License-Identifier: MIT */
/* Models on two devices: the last layers and the output are on the device, the first ones on the
 * CPU, where the weights stay in the mapped file. Each part is a graph with its own K/V cache; the
 * hidden state passes between them. The caller sets the number of layers on the device, or as many
 * as fit its memory are chosen. */
#include <string.h>

#include "import/file.h"
#include "model/model.h"

/* ---- Sessions of the parts ------------------------------------------------------------------- */

rx_build_desc rx_model_back(const rlx_model *m, const rx_build_desc *build)
{
    rx_build_desc b = *build;
    b.begin = m->host_layers;
    return b;
}

static rx_build_desc front_of(const rlx_model *m, const rx_build_desc *build)
{
    rx_build_desc b = *build;
    b.end = m->host_layers;
    return b;
}

rlx_status rx_model_compile(rlx_model *m, rlx_device *device, const rx_build_desc *build,
                            const rx_bindings *buffers, rlx_session *weights_of, rlx_session **out,
                            rlx_error *err)
{
    rlx_graph *g = NULL;
    *out = NULL;
    RLX_TRY(rx_arch_build(m->facts, build, &g, err));
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = m->policy,
                             .invariant = build->rows > 0, .weights_of = weights_of,
                             .buffers = buffers ? buffers->list : NULL,
                             .n_buffers = buffers ? buffers->n : 0,
                             .memory_budget = build->train ? build->train->memory_budget : 0};
    rlx_status st = rlx_session_create(device, g, &desc, out, err);
    rlx_graph_destroy(g);
    return st;
}

static rlx_status make_with_weights(rlx_model *m, rlx_device *device, const rx_build_desc *build,
                                    const rx_bindings *buffers, rlx_session *weights_of,
                                    rlx_session **out, rlx_error *err)
{
    RLX_TRY(rx_model_compile(m, device, build, buffers, weights_of, out, err));
    const rlx_status st = rx_model_set_weights(m, *out, build, NULL, err);
    if (st == RLX_OK)
        return RLX_OK;
    rlx_session_destroy(*out);
    *out = NULL;
    return st;
}

rlx_status rx_model_make_session(rlx_model *m, const rx_build_desc *build,
                                 const rx_bindings *buffers, rlx_session **out, rlx_error *err)
{
    const rx_build_desc b = rx_model_back(m, build);
    return make_with_weights(m, m->device, &b, buffers, m->session, out, err);
}

rlx_status rx_model_make_parts(rlx_model *m, const rx_build_desc *build, rx_parts *out,
                               rlx_error *err)
{
    const rx_build_desc front = front_of(m, build);
    *out = (rx_parts){0};
    RLX_TRY(rx_model_make_session(m, build, NULL, &out->session, err));
    if (!m->host_layers)
        return RLX_OK;
    const rlx_status st = make_with_weights(m, m->host, &front, NULL, m->front, &out->front, err);
    if (st == RLX_OK)
        return RLX_OK;
    rx_parts_destroy(out);
    return st;
}

void rx_parts_destroy(rx_parts *p)
{
    rlx_session_destroy(p->front);
    rlx_session_destroy(p->session);
    *p = (rx_parts){0};
}

rlx_status rx_model_need_whole(const rlx_model *m, const char *what, rlx_error *err)
{
    if (!m->host_layers)
        return RLX_OK;
    return rx_fail(err, RLX_UNSUPPORTED, "%s needs all layers of '%.200s' on one device, and %lld "
                   "of %lld are on the CPU: open it with rlx_model_desc.gpu_layers = "
                   "RLX_GPU_LAYERS_NONE, or on a device with more memory", what, m->path,
                   (long long)m->host_layers, (long long)m->known.layers);
}

/* ---- How many layers the device gets --------------------------------------------------------- */

/* Share of device memory that the file's weights may take without a trial allocation; packed forms,
 * scratch memory and staging buffers come on top. */
#define SAFE_SHARE 0.4

uint64_t rx_model_file_bytes(const rlx_model *m)
{
    rlx_file_tensor t;
    uint64_t sum = 0;
    for (size_t i = 0; rlx_file_tensor_at(m->file, i, &t); i++)
        sum += t.bytes;
    return sum;
}

rlx_status rx_model_bind(rlx_session *s, const rx_build_desc *b, bool prompt, rlx_error *err)
{
    if (b->sequences > 1)
        RLX_TRY(rlx_session_bind(s, "batch", prompt ? 1 : b->sequences, err));
    return rlx_session_bind(s, "seq", prompt ? b->prompt_chunk : 1, err);
}

static rlx_status prepare(rlx_session *s, const rx_build_desc *b, bool prompt, rlx_error *err)
{
    RLX_TRY(rx_model_bind(s, b, prompt, err));
    return rlx_session_prepare(s, err);
}

/* The device's session with all but the first `host_layers` layers, without weights. tight: also
 * allocates what prompts and steps need. */
static rlx_status try_layers(rlx_model *m, int64_t host_layers, bool tight, rlx_error *err)
{
    m->host_layers = host_layers;
    const rx_build_desc b = rx_model_back(m, &m->build);
    m->is_prepared = tight;
    RLX_TRY(rx_model_compile(m, m->device, &b, NULL, NULL, &m->session, err));
    rlx_status st = tight ? prepare(m->session, &b, true, err) : RLX_OK;
    if (st == RLX_OK && tight)
        st = prepare(m->session, &b, false, err);
    if (st == RLX_OK)
        return RLX_OK;
    rlx_session_destroy(m->session);
    m->session = NULL;
    return st;
}

/* Falls back to the CPU for all layers. */
static rlx_status leave_device(rlx_model *m, rlx_error *err)
{
    rlx_device_close(m->device);
    m->device = m->host;
    m->host = NULL;
    m->weights_in_file = !m->file->streamed;
    return try_layers(m, 0, false, err);
}

/* Binary search for the most layers that fit; a trial costs about a compilation. */
static rlx_status search_layers(rlx_model *m, double need, double memory, rlx_error *err)
{
    const int64_t all = m->known.layers;
    int64_t fits = 0, too_many = all + 1;
    int64_t n = memory > 0 && need > memory ? (int64_t)((double)all * memory / need) : all;
    while (too_many - fits > 1) {
        rlx_error why = {0};
        n = n > fits && n < too_many ? n : fits + (too_many - fits) / 2;
        const rlx_status st = try_layers(m, all - n, true, &why);
        if (st != RLX_OK && st != RLX_NO_MEMORY)
            return rx_fail(err, st, "%s", why.text);
        rlx_session_destroy(m->session);
        m->session = NULL;
        *(st == RLX_OK ? &fits : &too_many) = n;
        n = st == RLX_OK ? n + 1 : 0;
    }
    return fits ? try_layers(m, all - fits, true, err) : leave_device(m, err);
}

static rlx_status open_host(rlx_model *m, uint32_t threads, rlx_error *err)
{
    const rlx_device_desc d = {RLX_INIT(rlx_device_desc), .threads = threads};
    return m->host ? RLX_OK : rlx_device_open("cpu", &d, &m->host, err);
}

static rlx_status divide_as_told(rlx_model *m, int64_t layers, uint32_t threads, rlx_error *err)
{
    const int64_t all = m->known.layers;
    if (layers < all)
        RLX_TRY(open_host(m, threads, err));
    return try_layers(m, layers < all ? all - layers : 0, false, err);
}

rlx_status rx_model_divide(rlx_model *m, const rlx_model_desc *d, rlx_error *err)
{
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    RLX_TRY(rlx_device_get_info(m->device, &info, err));
    const bool is_cpu = !strcmp(info.backend, "cpu") || !strcmp(info.backend, "ref");
    const bool is_gpu = !is_cpu && strcmp(info.backend, "null") != 0;
    m->weights_in_file = is_cpu && !m->file->streamed;
    if (!is_gpu || !m->known.is_decoder)
        return try_layers(m, 0, false, err);
    if (d->gpu_layers)
        return divide_as_told(m, d->gpu_layers, d->threads, err);
    const double need = (double)rx_model_file_bytes(m), memory = (double)info.memory;
    const bool tight = memory > 0 && need > memory * SAFE_SHARE;
    rlx_error why = {0};
    const rlx_status st = try_layers(m, 0, tight, &why);
    if (st == RLX_OK)
        return RLX_OK;
    if (st != RLX_NO_MEMORY)
        return rx_fail(err, st, "%s", why.text);
    RLX_TRY(open_host(m, d->threads, err));
    return search_layers(m, need, memory, err);
}

rlx_status rx_model_make_front(rlx_model *m, rlx_error *err)
{
    const rx_build_desc front = front_of(m, &m->build);
    if (!m->host_layers)
        return RLX_OK;
    m->weights_in_file = !m->file->streamed;
    return make_with_weights(m, m->host, &front, NULL, NULL, &m->front, err);
}

/* ---- From one part to the other -------------------------------------------------------------- */

rlx_status rx_front_submit(rlx_session *front, const rlx_const_tensor *in, size_t n,
                           uint64_t *ticket, rlx_error *err)
{
    for (size_t i = 0; i < n; i++)
        RLX_TRY(rlx_session_set_input(front, in[i].name, in[i].data, in[i].bytes, err));
    return rlx_session_submit(front, ticket, err);
}

rlx_status rx_front_read(const rlx_model *m, rlx_session *front, size_t rows, float *out,
                         rlx_error *err)
{
    const size_t bytes = rows * (size_t)m->known.width * sizeof *out;
    return rlx_session_read(front, "hidden", 0, out, bytes, err);
}
