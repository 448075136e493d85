/* SPDX-License-Identifier: MIT */
/* RLX_LIMITS: lowers the limits of a GPU for tests, down to those of the smallest device. */
#include <stdlib.h>
#include <string.h>

#include "gpu/select/plan.h"

static void lower_u32(uint32_t *x, uint64_t limit)
{
    *x = limit < *x ? (uint32_t)limit : *x;
}

static void lower_u64(uint64_t *x, uint64_t limit)
{
    *x = limit < *x ? limit : *x;
}

static void no_matrices(rx_gpu_caps *c)
{
    c->coopmat_f16 = c->coopmat_bf16 = c->coopmat_f16_acc = c->coopmat_fragments = false;
}

static void limit_subgroups(rx_gpu_caps *c, uint64_t value)
{
    c->subgroup = value ? c->subgroup : 0;
    c->subgroup_arith = c->subgroup_arith && value;
    c->subgroup_shuffle = c->subgroup_shuffle && value;
    if (!value)
        no_matrices(c);
}

/* One name=value. False for an unknown name. */
static bool apply_limit(const rx_gpu_limits *l, const char *name, size_t length, uint64_t value)
{
    rx_gpu_caps *c = l->caps;
    const struct { const char *name; uint32_t *limit; } numbers[] = {
        {"groups", &c->max_groups[0]}, {"groups", &c->max_groups[1]},
        {"groups", &c->max_groups[2]}, {"push", &c->max_push_bytes},
        {"shared", &c->max_shared_bytes}, {"invocations", &c->max_invocations},
        {"bindings", &c->max_bindings}};
    const struct { const char *name; bool *feature; } flags[] = {
        {"f16", &c->f16}, {"storage16", &c->storage16}, {"storage8", &c->storage8},
        {"int8", &c->int8}, {"dot", &c->int_dot}, {"address", &c->address},
        {"subnormals", &c->subnormals}, {"fragments", &c->coopmat_fragments}};
    bool known = false;
#define IS(text) (strlen(text) == length && !memcmp(name, text, length))
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (IS(numbers[i].name)) {
            lower_u32(numbers[i].limit, value);
            known = true;
        }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (IS(flags[i].name)) {
            *flags[i].feature = *flags[i].feature && value;
            known = true;
        }
    if (known)
        return true;
    if (IS("binding"))
        lower_u64(&c->max_binding_bytes, value);
    else if (IS("block"))
        lower_u64(l->max_block_bytes, value);
    else if (IS("memory"))
        *l->memory = value;
    else if (IS("subgroup"))
        limit_subgroups(c, value);
    else if (IS("coopmat")) {
        if (!value)
            no_matrices(c);
    } else if (IS("software"))
        c->is_software = value != 0;
    else if (IS("units"))
        c->compute_units = value < UINT32_MAX ? (uint32_t)value : 0;
    else if (IS("host") && l->host)
        *l->host = value > 2 ? 2 : (int)value;
    else
        return false;
#undef IS
    return true;
}

void rx_gpu_limits_apply(const rx_gpu_limits *l, const char *text)
{
    while (text && *text) {
        size_t item = strcspn(text, ","), length = strcspn(text, "=,");
        const char *number = text + length + 1;
        char *end = NULL;
        unsigned long long value = length < item ? strtoull(number, &end, 10) : 0;
        if (!end || end == number || end != text + item || !apply_limit(l, text, length, value))
            rx_log(RLX_LOG_WARN, "RLX_LIMITS: '%.*s' is not a limit of this device", (int)item,
                   text);
        text += item + (text[item] == ',');
    }
}
