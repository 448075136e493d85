/* SPDX-License-Identifier: MIT */
/* Appending to the sections of a module, types and constants by their words, the final layout. */
#include "spirv/module.h"

#include <string.h>

static void append(rx_spv *m, rx_words *to, const uint32_t *w, size_t n)
{
    if (m->failed || !rx_grow(&to->w, &to->cap, to->n + n, sizeof *to->w)) {
        m->failed = true;
        return;
    }
    if (n)
        memcpy(to->w + to->n, w, n * sizeof *w);
    to->n += n;
}

/* One instruction: op, then `type` and `result` unless 0, then the arguments. */
static void append_op(rx_spv *m, rx_words *to, uint32_t op, const rx_id ids[2],
                      const uint32_t *args, size_t n)
{
    uint32_t head[3];
    size_t k = 1;
    if (ids[0])
        head[k++] = ids[0];
    if (ids[1])
        head[k++] = ids[1];
    head[0] = (uint32_t)(k + n) << 16 | op;
    append(m, to, head, k);
    append(m, to, args, n);
}

void rx_spv_init(rx_spv *m)
{
    *m = (rx_spv){.bound = 1};
    m->glsl = rx_spv_new_id(m);
}

static void release(rx_words *w)
{
    rx_free(w->w);
    *w = (rx_words){0};
}

void rx_spv_finish(rx_spv *m)
{
    release(&m->decorations);
    release(&m->globals);
    release(&m->functions);
    for (int i = 0; i < RX_SPV_DEPTH; i++) {
        release(&m->open[i].head);
        release(&m->open[i].locals);
        release(&m->open[i].code);
    }
    rx_free(m->interned);
    m->interned = NULL;
}

rx_id rx_spv_new_id(rx_spv *m)
{
    return m->bound++;
}

/* ---- Globals --------------------------------------------------------------------------------- */

rx_id rx_spv_declare(rx_spv *m, uint32_t op, rx_id type, const uint32_t *args, size_t n)
{
    const rx_id id = rx_spv_new_id(m);
    append_op(m, &m->globals, op, (rx_id[]){type, id}, args, n);
    return id;
}

static uint32_t hash_words(uint32_t h, const uint32_t *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ w[i]) * 16777619u;
    return h;
}

/* Whether the instruction at `w` is op, type, (any id), args. */
static bool is_same(const uint32_t *w, uint32_t op, rx_id type, const uint32_t *args, size_t n)
{
    const size_t head = type ? 3 : 2;
    if (w[0] != ((uint32_t)(head + n) << 16 | op) || (type && w[1] != type))
        return false;
    return n == 0 || memcmp(w + head, args, n * sizeof *args) == 0;
}

rx_id rx_spv_intern(rx_spv *m, uint32_t op, rx_id type, const uint32_t *args, size_t n)
{
    const uint32_t hash = hash_words(hash_words(2166136261u, RX_ARGS(op, type)), args, n);
    for (size_t i = 0; i < m->n_interned; i++) {
        const uint32_t *w = m->globals.w + m->interned[i].at;
        if (m->interned[i].hash == hash && is_same(w, op, type, args, n))
            return w[type ? 2 : 1];
    }
    const uint32_t at = (uint32_t)m->globals.n;
    const rx_id id = rx_spv_declare(m, op, type, args, n);
    if (m->failed || !rx_grow(&m->interned, &m->cap_interned, m->n_interned + 1,
                              sizeof *m->interned)) {
        m->failed = true;
        return id;
    }
    m->interned[m->n_interned++] = (rx_spv_interned){hash, at};
    return id;
}

void rx_spv_decorate(rx_spv *m, uint32_t op, const uint32_t *args, size_t n)
{
    append_op(m, &m->decorations, op, (rx_id[]){0, 0}, args, n);
}

/* ---- Functions ------------------------------------------------------------------------------- */

static rx_spv_function *innermost(rx_spv *m)
{
    return &m->open[m->depth > 0 ? m->depth - 1 : 0];
}

rx_id rx_spv_op(rx_spv *m, uint32_t op, rx_id type, const uint32_t *args, size_t n)
{
    const rx_id id = type ? rx_spv_new_id(m) : 0;
    append_op(m, &innermost(m)->code, op, (rx_id[]){type, id}, args, n);
    return id;
}

void rx_spv_label(rx_spv *m, rx_id label)
{
    append_op(m, &innermost(m)->code, SPV_LABEL, (rx_id[]){0, label}, NULL, 0);
}

rx_id rx_spv_glsl(rx_spv *m, uint32_t inst, rx_id type, const rx_id *args, size_t n)
{
    uint32_t all[6] = {m->glsl, inst};
    memcpy(all + 2, args, n * sizeof *args);
    return rx_spv_op(m, SPV_EXT_INST, type, all, n + 2);
}

rx_id rx_spv_begin(rx_spv *m, rx_id result, const rx_id *types, size_t n, rx_id *params)
{
    uint32_t signature[9] = {result};
    if (n)
        memcpy(signature + 1, types, n * sizeof *types);
    const rx_id type = rx_spv_intern(m, SPV_TYPE_FUNCTION, 0, signature, n + 1);
    const rx_id function = rx_spv_new_id(m), label = rx_spv_new_id(m);
    if (m->depth == RX_SPV_DEPTH) {
        m->failed = true;
        return function;
    }
    rx_words *head = &m->open[m->depth++].head;
    append_op(m, head, SPV_FUNCTION, (rx_id[]){result, function}, RX_ARGS(0, type));
    for (size_t i = 0; i < n; i++) {
        params[i] = rx_spv_new_id(m);
        append_op(m, head, SPV_FUNCTION_PARAMETER, (rx_id[]){types[i], params[i]}, NULL, 0);
    }
    append_op(m, head, SPV_LABEL, (rx_id[]){0, label}, NULL, 0);
    return function;
}

rx_id rx_spv_local(rx_spv *m, rx_id type)
{
    const rx_id pointer = rx_spv_intern(m, SPV_TYPE_POINTER, 0,
                                        RX_ARGS(SPV_CLASS_FUNCTION, type));
    const rx_id id = rx_spv_new_id(m);
    append_op(m, &innermost(m)->locals, SPV_VARIABLE, (rx_id[]){pointer, id},
              RX_ARGS(SPV_CLASS_FUNCTION));
    return id;
}

void rx_spv_end(rx_spv *m)
{
    if (m->depth == 0)
        return;
    rx_spv_function *f = innermost(m);
    append(m, &m->functions, f->head.w, f->head.n);
    append(m, &m->functions, f->locals.w, f->locals.n);
    append(m, &m->functions, f->code.w, f->code.n);
    append_op(m, &m->functions, SPV_FUNCTION_END, (rx_id[]){0, 0}, NULL, 0);
    f->head.n = f->locals.n = f->code.n = 0;
    m->depth--;
}

/* ---- The whole ------------------------------------------------------------------------------- */

#define MAGIC 0x07230203u
#define VERSION_1_3 0x00010300u
#define MAIN 0x6e69616du /* "main" as a word */
enum { CAPABILITY_SHADER = 1, LOGICAL = 0, GLSL450 = 1, MODE_LOCAL_SIZE = 17, GL_COMPUTE = 5 };

uint32_t *rx_spv_build(const rx_spv *m, rx_arena *arena, rx_id entry, uint32_t local,
                       const rx_id *interface, size_t n_interface, size_t *n_words)
{
    static const uint32_t glsl_name[] = {0x4c534c47, 0x6474732e, 0x3035342e, 0}; /* GLSL.std.450 */
    const rx_id none[2] = {0, 0};
    rx_spv out = {0}; /* only `functions` is used: as the growing result */
    rx_words *to = &out.functions;

    append(&out, to, RX_ARGS(MAGIC, VERSION_1_3, 0, m->bound, 0));
    append_op(&out, to, SPV_CAPABILITY, none, RX_ARGS(CAPABILITY_SHADER));
    append_op(&out, to, SPV_EXT_INST_IMPORT, (rx_id[]){0, m->glsl}, glsl_name, 4);
    append_op(&out, to, SPV_MEMORY_MODEL, none, RX_ARGS(LOGICAL, GLSL450));
    append(&out, to, RX_ARGS((uint32_t)(5 + n_interface) << 16 | SPV_ENTRY_POINT, GL_COMPUTE,
                             entry, MAIN, 0));
    append(&out, to, interface, n_interface);
    append_op(&out, to, SPV_EXECUTION_MODE, none, RX_ARGS(entry, MODE_LOCAL_SIZE, local, 1, 1));
    append(&out, to, m->decorations.w, m->decorations.n);
    append(&out, to, m->globals.w, m->globals.n);
    append(&out, to, m->functions.w, m->functions.n);

    *n_words = to->n;
    uint32_t *words = NULL;
    if (!m->failed && !out.failed)
        words = rx_arena_array_copy(arena, to->w, to->n, sizeof *to->w);
    release(to);
    return words;
}
