/* SPDX-License-Identifier: MIT */
/* The contracts of the kernels as tables: gpu/params.h. Part of the library and of the compiler of
 * the kernels. */
#include <assert.h>
#include <stdio.h>

#include "gpu/params.h"

/* ---- Counts, and that structs are these words and nothing else ------------------------------- */

#define FAMILY(f) enum { N_SPEC_##f = 0
#define SPEC(name, default_value) + 1
#define SPEC_INT(name, default_value) + 1
#define SPEC_TYPE(name, default_value) + 1
#define USES_SPEC(f) + N_SPEC_##f
#define NO_SPEC
#define END(f) };
#include "gpu/kernels.def"

#define FAMILY(f) enum { N_PUSH_##f = 0
#define PUSH(type, name) + sizeof(RX_C_##type) / 4
#define PUSH_ARRAY(type, name, n) + n * sizeof(RX_C_##type) / 4
#define USES_PUSH(f) + N_PUSH_##f
#define NO_PUSH
#define END(f) };
#include "gpu/kernels.def"

#define FAMILY(f) enum { N_BIND_##f = 0
#define BIND(access, name) + 1
#define USES_BIND(f) + N_BIND_##f
#define NO_BIND
#define END(f) };
#include "gpu/kernels.def"

#define IS_WORDS(type, n, most)                                   \
    static_assert(sizeof(type) == 4 * ((n) ? (n) : 1), #type);    \
    static_assert((n) <= (most), #type " has more words than " #most)
#define FAMILY(f)                                                 \
    IS_WORDS(rx_spec_##f, N_SPEC_##f, RX_GPU_MAX_SPEC - 1);       \
    IS_WORDS(rx_push_##f, N_PUSH_##f, RX_GPU_MAX_PUSH);           \
    IS_WORDS(rx_bind_##f, N_BIND_##f, RX_GPU_MAX_BIND);           \
    static_assert(sizeof(rx_args_##f) == sizeof(rx_spec_##f) + sizeof(rx_push_##f) + \
                  sizeof(rx_bind_##f), "arguments have gaps");
#define END(f)
#include "gpu/kernels.def"

/* ---- Tables ---------------------------------------------------------------------------------- */

/* The names of codes in defaults. */
enum {
#define CODES(group)
#define CODE(name, value) name = value,
#define END_CODES(group)
#include "gpu/kernels.def"
};

enum { READ, WRITE };

#define FAMILY(f) static const rx_param params_##f[] = {
#define SPEC(name, default_value) {RX_PARAM_SPEC, #name, "uint", 1, 0, default_value, false},
#define SPEC_INT(name, default_value) {RX_PARAM_SPEC, #name, "int", 1, 0, default_value, false},
#define SPEC_TYPE(name, default_value) {RX_PARAM_SPEC, #name, "uint", 1, 0, default_value, true},
#define USES_SPEC(f) {RX_PARAM_USES_SPEC, #f, NULL, 0, 0, RX_CONTRACT_##f, false},
#define NO_SPEC
#define PUSH(type, name) {RX_PARAM_PUSH, #name, #type, sizeof(RX_C_##type) / 4, 0, 0, false},
#define PUSH_ARRAY(type, name, n) \
    {RX_PARAM_PUSH, #name, #type, n * sizeof(RX_C_##type) / 4, n, 0, false},
#define USES_PUSH(f) {RX_PARAM_USES_PUSH, #f, NULL, 0, 0, RX_CONTRACT_##f, false},
#define NO_PUSH
#define BIND(access, name) {RX_PARAM_BIND, #name, NULL, 1, 0, access, false},
#define USES_BIND(f) {RX_PARAM_USES_BIND, #f, NULL, 0, 0, RX_CONTRACT_##f, false},
#define NO_BIND
#define END(f) {RX_PARAM_END, NULL, NULL, 0, 0, 0, false}};
#include "gpu/kernels.def"

const rx_contract_info rx_contracts[RX_N_CONTRACTS] = {
#define FAMILY(f) {#f, params_##f, N_SPEC_##f, N_PUSH_##f, N_BIND_##f},
#define END(f)
#include "gpu/kernels.def"
};

#define CODES(group) static const rx_code codes_##group[] = {
#define CODE(name, value) {#name, value},
#define END_CODES(group) {NULL, 0}};
#include "gpu/kernels.def"

const rx_code_group rx_code_groups[] = {
#define CODES(group) {#group, codes_##group},
#define CODE(name, value)
#define END_CODES(group)
#include "gpu/kernels.def"
    {NULL, NULL},
};

const rx_code rx_loops[] = {
#define LOOP(name, length) {#name, length},
#include "gpu/kernels.def"
    {NULL, 0},
};

/* ---- Walking --------------------------------------------------------------------------------- */

/* Row number *i of a kind in a family and those it uses; *i becomes what is left to skip. */
static const rx_param *find_row(rx_contract f, rx_param_kind kind, rx_param_kind uses, uint32_t *i)
{
    for (const rx_param *p = rx_contracts[f].params; p->kind != RX_PARAM_END; p++) {
        if (p->kind == kind && (*i)-- == 0)
            return p;
        const rx_param *found = p->kind == uses ? find_row(p->value, kind, uses, i) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

const rx_param *rx_contract_spec(rx_contract f, uint32_t i)
{
    return find_row(f, RX_PARAM_SPEC, RX_PARAM_USES_SPEC, &i);
}

const rx_param *rx_contract_push(rx_contract f, uint32_t i)
{
    return find_row(f, RX_PARAM_PUSH, RX_PARAM_USES_PUSH, &i);
}

const rx_param *rx_contract_bind(rx_contract f, uint32_t i)
{
    return find_row(f, RX_PARAM_BIND, RX_PARAM_USES_BIND, &i);
}

/* ---- Names ----------------------------------------------------------------------------------- */

const rx_param *rx_contract_push_at(rx_contract f, uint32_t word, uint32_t *at)
{
    const rx_param *p;
    for (uint32_t i = 0; (p = rx_contract_push(f, i)) && word >= p->words; i++)
        word -= p->words;
    *at = word;
    return p;
}

const char *rx_contract_push_name(rx_contract f, uint32_t word, char room[64])
{
    const rx_param *p = rx_contract_push_at(f, word, &word);
    if (!p || p->words == 1)
        return p ? p->name : NULL;
    if (p->elements)
        snprintf(room, 64, "%s[%u]", p->name, (unsigned)(word / (p->words / p->elements)));
    else
        snprintf(room, 64, "%s.%c", p->name, "xyzw"[word & 3]);
    return room;
}

const char *rx_contract_spec_name(rx_contract f, uint32_t id)
{
    const rx_param *p = id ? rx_contract_spec(f, id - 1) : NULL;
    return id == 0 ? "local_size" : p ? p->name : NULL;
}

const char *rx_contract_bind_name(rx_contract f, uint32_t i)
{
    const rx_param *p = rx_contract_bind(f, i);
    return p ? p->name : NULL;
}
