/* SPDX-License-Identifier: MIT */
/* The committed SPIR-V of every kernel against its contract: push constants (number, offsets,
 * types), ids and defaults of specialisation constants, bindings (number, set, whether they are
 * written), as gpu/kernels.def has them. A shader that was changed without its binary, or a .def
 * without either, fails here. The last tests break a contract in each way and expect a complaint.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "check.h"
#include "gpu/gpu.h"
#include "spirv/module.h"

enum { SPEC_TRUE = 48, SPEC_CONSTANT = 50, COPY_OBJECT = 83, SPEC_ID = 1, IN_BOUNDS_CHAIN = 66,
       CLASS_UNIFORM = 2, ATOMIC_STORE = 228, ATOMIC_LAST = 242, CHAIN_AT = 128 };
#define MAX_ROWS 64

typedef struct push_row {
    char type[16];
    uint32_t at, elements;
} push_row;

typedef struct spec_row {
    uint32_t id, value;
    bool there;
} spec_row;

/* What a module or a contract says. Of bindings: 1 they are there, 2 they are written. */
typedef struct interface {
    push_row push[MAX_ROWS];
    uint32_t n_push;
    spec_row spec[MAX_ROWS]; /* by id */
    uint8_t bind[MAX_ROWS];
    bool other_set;
} interface;

/* ---- From SPIR-V ----------------------------------------------------------------------------- */

/* By id: the instruction that makes it, what it points into, decorations. */
typedef struct module {
    const uint32_t **made;
    uint32_t *root, *spec_id, *binding, *set; /* + 1; 0: none */
    const uint32_t *words;
    size_t n;
} module;

static uint32_t op_of(const uint32_t *w) { return w ? w[0] & 0xffff : 0; }

static void name_type(const module *m, uint32_t id, push_row *out)
{
    const uint32_t *t = m->made[id];
    if (op_of(t) == SPV_TYPE_ARRAY) {
        out->elements = m->made[t[3]][3];
        t = m->made[t[2]];
    }
    const bool vector = op_of(t) == SPV_TYPE_VECTOR;
    const uint32_t *scalar = vector ? m->made[t[2]] : t;
    const char *name = op_of(scalar) == SPV_TYPE_FLOAT ? "float" : scalar[3] ? "int" : "uint";
    if (vector)
        snprintf(out->type, sizeof out->type, "%svec%u", *name == 'u' ? "u" : "?", t[3]);
    else
        snprintf(out->type, sizeof out->type, "%s", name);
}

static void read_push(const module *m, uint32_t type, interface *out)
{
    const uint32_t *s = m->made[type];
    out->n_push = (s[0] >> 16) - 2;
    for (uint32_t i = 0; i < out->n_push && i < MAX_ROWS; i++)
        name_type(m, s[2 + i], &out->push[i]);
    for (const uint32_t *w = m->words + 5; w < m->words + m->n; w += w[0] >> 16)
        if (op_of(w) == SPV_MEMBER_DECORATE && w[1] == type && w[3] == SPV_OFFSET &&
            w[2] < MAX_ROWS)
            out->push[w[2]].at = w[4];
}

static void read_decoration(module *m, const uint32_t *w)
{
    uint32_t *list = w[2] == SPEC_ID ? m->spec_id : w[2] == SPV_BINDING ? m->binding
                     : w[2] == SPV_DESCRIPTOR_SET ? m->set : NULL;
    if (list)
        list[w[1]] = w[3] + 1;
}

static void read_variable(module *m, const uint32_t *w, interface *out)
{
    const uint32_t id = w[2], class = w[3];
    if (class == SPV_CLASS_PUSH_CONSTANT)
        read_push(m, m->made[w[1]][3], out);
    if ((class != SPV_CLASS_STORAGE_BUFFER && class != CLASS_UNIFORM) || !m->binding[id])
        return;
    m->root[id] = id;
    out->bind[m->binding[id] - 1] |= 1;
    out->other_set = out->other_set || m->set[id] != 1;
}

/* The pointer that an instruction writes through, 0: none. */
static uint32_t written_by(const uint32_t *w)
{
    const uint32_t op = op_of(w);
    if (op == SPV_STORE || op == ATOMIC_STORE)
        return w[1];
    return op > ATOMIC_STORE && op <= ATOMIC_LAST ? w[3] : 0;
}

static void read_instruction(module *m, const uint32_t *w, interface *out)
{
    const uint32_t op = op_of(w), n = w[0] >> 16, to = written_by(w);
    if (op == SPV_DECORATE)
        read_decoration(m, w);
    else if ((op >= SPV_TYPE_VOID && op <= SPV_TYPE_POINTER))
        m->made[w[1]] = w;
    else if (op == SPV_CONSTANT)
        m->made[w[2]] = w;
    else if (op >= SPEC_TRUE && op <= SPEC_CONSTANT && m->spec_id[w[2]] &&
             m->spec_id[w[2]] <= MAX_ROWS)
        out->spec[m->spec_id[w[2]] - 1] = (spec_row){m->spec_id[w[2]] - 1, n > 3 ? w[3] : 0, true};
    else if (op == SPV_VARIABLE)
        read_variable(m, w, out);
    else if (op == SPV_ACCESS_CHAIN || op == IN_BOUNDS_CHAIN || op == COPY_OBJECT)
        m->root[w[2]] = m->root[w[3]];
    if (to && m->root[to])
        out->bind[m->binding[m->root[to]] - 1] |= 2;
}

static interface read_module(const uint32_t *words, size_t n)
{
    const uint32_t bound = words[3];
    interface out = {0};
    module m = {.words = words, .n = n};
    m.made = calloc(bound, sizeof *m.made);
    uint32_t *lists = calloc(bound, 4 * sizeof *lists);
    m.root = lists;
    m.spec_id = lists + bound;
    m.binding = lists + 2 * bound;
    m.set = lists + 3 * bound;
    for (const uint32_t *w = words + 5; w < words + n; w += w[0] >> 16)
        read_instruction(&m, w, &out);
    free(m.made);
    free(lists);
    return out;
}

/* ---- From the contract ----------------------------------------------------------------------- */

static void add_push(interface *out, rx_contract c, uint32_t at)
{
    const rx_param *p;
    for (uint32_t i = 0; (p = rx_contract_push(c, i)) && out->n_push < MAX_ROWS; i++) {
        push_row *r = &out->push[out->n_push++];
        snprintf(r->type, sizeof r->type, "%s", p->type);
        r->at = at;
        r->elements = p->elements;
        at += 4 * p->words;
    }
}

static interface make_contract(rx_kernel k)
{
    const rx_contract c = rx_kernels[k].contract;
    interface out = {0};
    const rx_param *p;
    add_push(&out, c, 0);
    if (rx_kernels[k].needs & RX_NEEDS_CHAIN)
        add_push(&out, RX_CONTRACT_chain, CHAIN_AT);
    out.spec[0] = (spec_row){0, 64, true};
    for (uint32_t i = 0; (p = rx_contract_spec(c, i)); i++)
        out.spec[i + 1] = (spec_row){i + 1, p->value, true};
    for (uint32_t i = 0; rx_loops[i].name; i++)
        out.spec[RX_FIRST_LOOP + i] = (spec_row){RX_FIRST_LOOP + i, rx_loops[i].value, true};
    for (uint32_t i = 0; (p = rx_contract_bind(c, i)); i++)
        out.bind[i] = p->value ? 3 : 1;
    return out;
}

/* ---- Comparison ------------------------------------------------------------------------------ */

/* "" or what is wrong. A module lacks constants, bindings and whole blocks that it does not use. */
static const char *compare(const interface *is, const interface *should)
{
    if (is->n_push && is->n_push != should->n_push)
        return "number of push constants";
    for (uint32_t i = 0; i < is->n_push; i++) {
        const push_row *a = &is->push[i], *b = &should->push[i];
        if (a->at != b->at)
            return "offset of a push constant";
        if (strcmp(a->type, b->type) || a->elements != b->elements)
            return "type of a push constant";
    }
    for (uint32_t i = 0; i < MAX_ROWS; i++) {
        if (is->spec[i].there && !should->spec[i].there)
            return "id of a constant";
        if (is->spec[i].there && is->spec[i].value != should->spec[i].value)
            return "default of a constant";
        if (is->bind[i] && !should->bind[i])
            return "number of a binding";
        if (is->bind[i] & ~should->bind[i])
            return "a binding that is only read is written";
    }
    return is->other_set ? "descriptor set" : "";
}

/* Rows that some kernel uses as they say; a row of a family counts for those that use it too. */
typedef struct row_set {
    const rx_param *rows[4096];
    size_t n;
} row_set;

static bool has_row(const row_set *s, const rx_param *row)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i] == row)
            return true;
    return false;
}

static void add_row(row_set *s, const rx_param *row)
{
    if (!has_row(s, row) && s->n < sizeof s->rows / sizeof s->rows[0])
        s->rows[s->n++] = row;
}

static void gather_used(row_set *used, rx_contract c, const interface *is)
{
    const rx_param *p;
    for (uint32_t i = 0; (p = rx_contract_spec(c, i)); i++)
        if (is->spec[i + 1].there)
            add_row(used, p);
    for (uint32_t i = 0; (p = rx_contract_bind(c, i)); i++)
        if (is->bind[i] == (p->value ? 3 : 1))
            add_row(used, p);
}

static void check_all_used(const row_set *used)
{
    for (int c = 0; c < RX_N_CONTRACTS; c++)
        for (const rx_param *p = rx_contracts[c].params; p->kind != RX_PARAM_END; p++) {
            const bool counts = p->kind == RX_PARAM_SPEC || (p->kind == RX_PARAM_BIND && p->value);
            if (counts && !has_row(used, p))
                printf("%s: no kernel uses %s\n", rx_contracts[c].name, p->name);
            CHECK(!counts || has_row(used, p));
        }
}

static void check_kernels(void)
{
    static row_set used;
    for (int k = 0; k < RX_N_KERNELS; k++) {
        size_t n;
        const uint32_t *words = rx_kernel_code((rx_kernel)k, &n);
        CHECK(words);
        if (!words)
            return;
        const interface is = read_module(words, n), should = make_contract((rx_kernel)k);
        const char *wrong = compare(&is, &should);
        if (*wrong)
            printf("%s: %s\n", rx_kernels[k].name, wrong);
        CHECK(!*wrong);
        gather_used(&used, rx_kernels[k].contract, &is);
    }
    check_all_used(&used);
}

/* ---- Contracts that are not kept ------------------------------------------------------------- */

static interface first(rx_kernel k)
{
    size_t n;
    const uint32_t *words = rx_kernel_code(k, &n);
    return read_module(words, n);
}

#define BREAK(change, complaint)                          \
    do {                                                  \
        interface bad = make_contract(RX_K_rows);         \
        change;                                           \
        CHECK(!strcmp(compare(&is, &bad), complaint));    \
    } while (0)

static void check_complaints(void)
{
    const interface is = first(RX_K_rows), good = make_contract(RX_K_rows);
    CHECK(!*compare(&is, &good));
    BREAK(bad.n_push--, "number of push constants");
    BREAK(bad.push[2].at += 4, "offset of a push constant");
    BREAK(strcpy(bad.push[9].type, "uint"), "type of a push constant"); /* eps */
    BREAK(bad.push[13].elements++, "type of a push constant");          /* level_dim */
    BREAK(bad.spec[4].there = false, "id of a constant");
    BREAK(bad.spec[7].value++, "default of a constant");
    BREAK(bad.bind[5] = 0, "number of a binding");
    BREAK(bad.bind[4] = 1, "a binding that is only read is written");
    interface other = is;
    other.other_set = true;
    CHECK(!strcmp(compare(&other, &good), "descriptor set"));
}

static void check_names(void)
{
    char room[64];
    CHECK(!strcmp(rx_kernel_push_name(RX_K_row_stats, 0, room), "rows"));
    CHECK(!strcmp(rx_kernel_push_name(RX_K_row_stats, 14, room), "level_dim[1]"));
    CHECK(!strcmp(rx_kernel_push_name(RX_K_row_stats, 31, room), "chunk"));
    CHECK(!rx_kernel_push_name(RX_K_row_stats, 32, room));
    CHECK(!strcmp(rx_kernel_push_name(RX_K_copy_chain, 33, room), "chain_at.y"));
    CHECK(!rx_kernel_push_name(RX_K_copy, 33, room));
    CHECK(!strcmp(rx_kernel_spec_name(RX_K_rows, 0), "local_size"));
    CHECK(!strcmp(rx_kernel_spec_name(RX_K_rows, 1), "TX"));
    CHECK(!strcmp(rx_kernel_spec_name(RX_K_rows, 9), "TEAM"));
    CHECK(!rx_kernel_spec_name(RX_K_rows, 13));
    CHECK(!strcmp(rx_kernel_bind_name(RX_K_rows, 5), "sum"));
    CHECK(!rx_kernel_bind_name(RX_K_rows, 6));
    CHECK(!rx_kernel_bind_name(RX_K_EMITTED, 0));
}

/* ---- Dispatches ------------------------------------------------------------------------------ */

static void check_arguments(void)
{
    rlx_error err = {0};
    rx_gpu_build b = {.err = &err};
    const rx_args_rope_write a = {
        .bind = {.rope = {.x = RX_REF_IN(0), .flags = RX_REF_FLAGS, .y = RX_REF_OUT(0)},
                 .place = RX_REF_IN(2)},
        .spec = {.rope = {.T = RLX_F16}, .ONE = 1},
        .push = {.rope = {.n = 7}, .axis_size = 9}};
    const rx_gpu_dispatch *d = rx_add_rope_write(&b, RX_K_rope_write, 128, &a);
    CHECK(d->kernel == RX_K_rope_write && d->n_bind == 7 && d->n_spec == 10 && d->n_push == 22);
    CHECK(d->bind[0] == RX_REF_IN(0) && d->bind[1] == RX_REF_NONE && d->bind[6] == RX_REF_IN(2));
    CHECK(d->writes == (1u << 4 | 1u << 5)); /* flags and y; not what is bound to nothing */
    CHECK(d->spec[0] == 128 && d->spec[1] == RLX_F16 && d->spec[9] == 1);
    CHECK(d->push[0] == 7 && d->push[21] == 9);
    CHECK(b.status == RLX_OK);
    rx_add_rope_write(&b, RX_K_rope, 128, &a);
    CHECK(b.status == RLX_INTERNAL &&
          !strcmp(err.text, "kernel 'rope' takes the arguments of 'rope', not of 'rope_write'"));
    rx_free(b.dispatch);
}

static void check_overflow(void)
{
    rlx_error err = {0};
    rx_gpu_build b = {.err = &err};
    rx_gpu_dispatch *d = rx_gpu_add(&b, RX_K_EMITTED, 64);
    for (int i = 0; i < RX_GPU_MAX_BIND; i++)
        rx_gpu_bind(&b, d, RX_REF_IN(i), false);
    for (int i = 0; i < RX_GPU_MAX_PUSH; i++)
        rx_gpu_push(&b, d, 0);
    CHECK(b.status == RLX_OK);
    rx_gpu_push(&b, d, 0);
    CHECK(b.status == RLX_INTERNAL && d->n_push == RX_GPU_MAX_PUSH &&
          !strcmp(err.text, "kernel 'emitted' has more than 32 words of push constants"));
    b.status = RLX_OK;
    rx_gpu_bind(&b, d, RX_REF_OUT(0), true);
    CHECK(b.status == RLX_INTERNAL && d->writes == 0 &&
          !strcmp(err.text, "kernel 'emitted' has more than 10 bindings"));
    rx_free(b.dispatch);
}

int main(void)
{
    check_arguments();
    check_overflow();
    check_kernels();
    check_complaints();
    check_names();
    return check_done();
}
