/* SPDX-License-Identifier: MIT */
/* Compiled graphs in files. What is saved is the graph that fold, legalise and fuse have left, as
 * text: the reader of graphs checks every node of it by its shape rule, so that no file can make a
 * kernel leave its tensors, and plan and schedule, which take a small part of the time of the
 * compiler, place them anew. */
#include "runtime/saved.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/outfile.h"
#include "base/sized.h"
#include "compile/compile.h"

/* ---- The header ------------------------------------------------------------------------------ */

static uint64_t kernels_of(const rx_backend *b)
{
    return b->kernels_digest ? b->kernels_digest() : 0;
}

static void put_text(char *to, size_t cap, const char *text)
{
    memset(to, 0, cap);
    memcpy(to, text, strlen(text) < cap ? strlen(text) : cap - 1);
}

static rx_saved_header make_header(const rlx_device *d, const rx_program *p)
{
    rx_saved_header h = {.format = RX_SAVED_FORMAT, .policy = p->policy, .keep_all = p->keep_all,
                         .invariant = p->invariant,
                         .kernels = kernels_of(d->backend)};
    memcpy(h.magic, rx_kind_program.magic, sizeof h.magic);
    put_text(h.version, sizeof h.version, rlx_version());
    put_text(h.backend, sizeof h.backend, d->backend->name);
    put_text(h.name, sizeof h.name, d->info.name);
    put_text(h.driver, sizeof h.driver, d->info.driver);
    return h;
}

uint64_t rx_saved_digest(const rx_saved *s)
{
    uint64_t h = rx_hash(RX_SAVED_FORMAT, &s->header, offsetof(rx_saved_header, digest));
    h = rx_hash(h, s->text.data, s->text.bytes);
    return rx_hash(h, s->cache.data, s->cache.bytes);
}

static bool ends(const char *text, size_t cap)
{
    return memchr(text, 0, cap) != NULL;
}

rlx_status rx_saved_read(const void *data, size_t bytes, rx_saved *out, rlx_error *err)
{
    rx_saved_header *h = &out->header;
    if (bytes < sizeof *h)
        return rx_fail(err, RLX_INVALID, "not a compiled graph: it has only %zu bytes", bytes);
    memcpy(h, data, sizeof *h);
    if (memcmp(h->magic, rx_kind_program.magic, sizeof h->magic))
        return rx_fail(err, RLX_INVALID, "not a compiled graph: it lacks the header");
    if (h->format != RX_SAVED_FORMAT)
        return rx_fail(err, RLX_UNSUPPORTED, "a compiled graph in format %u; this version of rlx "
                       "reads format %u", (unsigned)h->format, RX_SAVED_FORMAT);
    const uint64_t rest = bytes - sizeof *h;
    if (h->text_bytes > rest || h->cache_bytes != rest - h->text_bytes)
        return rx_fail(err, RLX_INVALID, "the compiled graph is damaged: %llu and %llu bytes do "
                       "not make up the %llu behind the header", (unsigned long long)h->text_bytes,
                       (unsigned long long)h->cache_bytes, (unsigned long long)rest);
    const char *begin = (const char *)data + sizeof *h;
    out->text = (rx_bytes){begin, (size_t)h->text_bytes};
    out->cache = (rx_bytes){begin + h->text_bytes, (size_t)h->cache_bytes};
    if (h->digest != rx_saved_digest(out) || h->policy > RLX_POLICY_FAST ||
        h->keep_all > 1 || h->invariant > 1 || !ends(h->version, sizeof h->version) ||
        !ends(h->backend, sizeof h->backend) || !ends(h->name, sizeof h->name) ||
        !ends(h->driver, sizeof h->driver))
        return rx_fail(err, RLX_INVALID, "the compiled graph is damaged: its checksum is wrong");
    return RLX_OK;
}

/* Kernels of CPU devices are the same on all processors that have them. */
static rlx_status check_device(const rlx_device *d, const rx_saved_header *h, rlx_error *err)
{
    const bool is_cpu = d->info.threads > 0;
    if (strcmp(h->version, rlx_version()))
        return rx_fail(err, RLX_UNSUPPORTED, "it was compiled by rlx %s, this is rlx %s: compile "
                       "the graph again", h->version, rlx_version());
    if (strcmp(h->backend, d->backend->name) || (!is_cpu && strcmp(h->name, d->info.name)) ||
        strcmp(h->driver, d->info.driver))
        return rx_fail(err, RLX_UNSUPPORTED, "it was compiled for device %s, %s (%s); this is %s, "
                       "%s (%s): open that device or compile the graph again", h->backend, h->name,
                       h->driver, d->backend->name, d->info.name, d->info.driver);
    if (h->kernels != kernels_of(d->backend))
        return rx_fail(err, RLX_UNSUPPORTED, "it was compiled for other kernels of rlx %s: compile "
                       "the graph again", h->version);
    return RLX_OK;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static rlx_status check_desc(const rlx_session_desc *d, rlx_error *err)
{
    if (!d->policy && !d->no_fusion && !d->no_fold && !d->keep_all && !d->invariant)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "policy, no_fusion, no_fold, keep_all and invariant are as "
                   "the graph was compiled: they cannot be given for a file");
}

rlx_status rx_saved_load(rlx_device *d, const rx_saved *s, const rlx_session_desc *desc,
                         rlx_session **out, rlx_error *err)
{
    rlx_session_desc full = *desc;
    rlx_graph *g = NULL;
    rx_program *p = NULL;
    RLX_TRY(check_desc(desc, err));
    RLX_TRY(check_device(d, &s->header, err));
    RLX_TRY(rlx_graph_parse(s->text.data, s->text.bytes, &g, err));
    full.policy = (rlx_policy)s->header.policy;
    full.keep_all = s->header.keep_all;
    full.invariant = s->header.invariant;
    RLX_TRY(rx_compile_lowered(g, d->backend->target(d->device), &full, &p, err));
    if (d->backend->kernels_load && s->cache.bytes)
        d->backend->kernels_load(d->device, s->cache.data, s->cache.bytes);
    return rx_session_create_from(d, p, &full, out, err);
}

/* Opens and checks a file; the pieces are valid until it is closed. */
static rlx_status open_saved(const char *path, rx_file *f, rx_saved *s, rlx_error *err)
{
    rlx_error why = {0};
    RLX_TRY(rx_file_open(path, f, err));
    rlx_status st = rx_saved_read(f->data, f->bytes, s, &why);
    if (st == RLX_OK)
        return RLX_OK;
    rx_file_close(f);
    return rx_fail(err, st, "'%s': %s", path, why.text);
}

rlx_status rlx_session_load(rlx_device *d, const char *path, const rlx_session_desc *desc,
                            rlx_session **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_session_load: out", err));
    *out = NULL;
    RLX_TRY(rx_need(d, "rlx_session_load: d", err));
    RLX_TRY(rx_need(path, "rlx_session_load: path", err));
    rlx_session_desc full;
    RLX_TRY(RX_DESC_READ(rlx_session_desc, &full, desc, err));
    rx_file f;
    rx_saved s;
    rlx_error why = {0};
    RLX_TRY(open_saved(path, &f, &s, err));
    rlx_status st = rx_saved_load(d, &s, &full, out, &why);
    rx_file_close(&f);
    return st == RLX_OK ? RLX_OK : rx_fail(err, st, "'%s': %s", path, why.text);
}

rlx_status rlx_graph_load(const char *path, rlx_graph **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_graph_load: out", err));
    *out = NULL;
    RLX_TRY(rx_need(path, "rlx_graph_load: path", err));
    rx_file f;
    rx_saved s;
    rlx_error why = {0};
    RLX_TRY(open_saved(path, &f, &s, err));
    rlx_status st = rlx_graph_parse(s.text.data, s.text.bytes, out, &why);
    rx_file_close(&f);
    return st == RLX_OK ? RLX_OK : rx_fail(err, st, "'%s': %s", path, why.text);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static rlx_status save(const rlx_session *s, const char *path, rx_bytes text, rx_bytes cache,
                       rlx_error *err)
{
    rx_saved all = {make_header(s->shared->device, s->shared->program), text, cache};
    all.header.text_bytes = text.bytes;
    all.header.cache_bytes = cache.bytes;
    all.header.digest = rx_saved_digest(&all);
    const rx_bytes pieces[] = {{&all.header, sizeof all.header}, text, cache};
    return rx_outfile_save(path, &rx_kind_program, pieces, 3, err);
}

rlx_status rlx_session_save(rlx_session *s, const char *path, rlx_error *err)
{
    RLX_TRY(rx_need(s, "rlx_session_save: s", err));
    RLX_TRY(rx_need(path, "rlx_session_save: path", err));
    const rlx_device *d = s->shared->device;
    const rlx_graph *g = s->shared->program->lowered;
    char *text = NULL;
    size_t length = 0;
    void *data = NULL;
    rx_bytes cache = {"", 0};
    if (!g)
        return rx_fail(err, RLX_INVALID, "the session cannot be saved: it was created without "
                       "rlx_session_desc.savable");
    RLX_TRY(rlx_graph_print(g, &text, &length, err));
    rlx_status st = d->backend->kernels_save
                        ? d->backend->kernels_save(d->device, &data, &cache.bytes, err)
                        : RLX_OK;
    if (data)
        cache.data = data;
    if (st == RLX_OK)
        st = save(s, path, (rx_bytes){text, length}, cache, err);
    rx_free(data);
    rlx_free(text);
    return st;
}
