/* SPDX-License-Identifier: MIT */
/* Names, shapes and types for messages: the nearest name ("did you mean"), "f32[2,8]". */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/session.h"

const rx_port *rx_program_ports(const rx_program *p, rlx_leaf kind, size_t *n)
{
    switch (kind) {
    case RLX_LEAF_INPUT:
        *n = p->n_inputs;
        return p->inputs;
    case RLX_LEAF_PARAM:
        *n = p->n_params;
        return p->params;
    case RLX_LEAF_STATE:
        *n = p->n_states;
        return p->states;
    case RLX_LEAF_OUTPUT:
        *n = p->n_outputs;
        return p->outputs;
    }
    *n = 0;
    return NULL;
}

rlx_shape rx_value_shape_at(const rx_program *p, uint32_t value, const int64_t *dims)
{
    rlx_shape s = p->values[value].shape;
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = s.dim[i] < 0 && !dims ? p->dims[-s.dim[i] - 2].bound
                                         : rx_dim_value(s.dim[i], dims);
    return s;
}

uint64_t rx_value_bytes_at(const rx_program *p, uint32_t value, const int64_t *dims)
{
    rlx_shape s = rx_value_shape_at(p, value, dims);
    int64_t n = 1; /* fits: the compiler checked the bounds */
    for (int i = 0; i < s.rank; i++)
        n *= s.dim[i];
    uint64_t bytes = 0;
    rx_dtype_bytes(p->values[value].dtype, n, &bytes);
    return bytes;
}

const char *rx_number_type_text(rlx_dtype t, const rlx_shape *shape, char *buffer)
{
    int used = snprintf(buffer, RX_TYPE_TEXT, "%s[", rlx_dtype_name(t));
    for (int i = 0; i < shape->rank && used < RX_TYPE_TEXT; i++)
        used += snprintf(buffer + used, (size_t)(RX_TYPE_TEXT - used), "%s%lld", i ? "," : "",
                         (long long)shape->dim[i]);
    if (used < RX_TYPE_TEXT - 1)
        memcpy(buffer + used, "]", 2);
    return buffer;
}

const char *rx_value_text_at(const rx_program *p, uint32_t value, const int64_t *dims,
                             char *buffer)
{
    rlx_shape s = rx_value_shape_at(p, value, dims);
    return rx_number_type_text(p->values[value].dtype, &s, buffer);
}

/* ---- Unknown names --------------------------------------------------------------------------- */

#define MAX_NAME 48 /* longer names are not compared */

/* Edit distance of two names, ignoring case. */
static size_t name_distance(const char *a, const char *b)
{
    size_t row[MAX_NAME + 1], na = strlen(a), nb = strlen(b);
    if (na > MAX_NAME || nb > MAX_NAME)
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (tolower((unsigned char)a[i - 1]) !=
                                      tolower((unsigned char)b[j - 1]));
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[nb];
}

static const char *nearest_name(const char *name, const rx_port *ports, size_t n)
{
    size_t best = strlen(name) / 2 + 1;
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t distance = name_distance(name, ports[i].name);
        if (distance < best) {
            best = distance;
            found = ports[i].name;
        }
    }
    return found;
}

/* "'x', 'y', ...": as many names as fit. */
static void list_names(const rx_port *ports, size_t n, char *text, size_t cap)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t need = strlen(ports[i].name) + 9;
        if (used + need > cap) {
            snprintf(text + used, cap - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, cap - used, "%s'%s'", i ? ", " : "", ports[i].name);
    }
}

static const char *const kind_names[] = {"input", "param", "state", "output"};

static rlx_status fail_unknown(const rx_shared *h, rlx_leaf kind, const char *name,
                               rlx_error *err)
{
    const rx_map_slot *other = rx_map_find(&h->leaves, name, strlen(name));
    if (other && kind != RLX_LEAF_OUTPUT)
        return rx_fail(err, RLX_NOT_FOUND, "'%.80s' is %s %s, not %s %s", name,
                       other->value >> 30 == RLX_LEAF_INPUT ? "an" : "a",
                       kind_names[other->value >> 30], kind == RLX_LEAF_INPUT ? "an" : "a",
                       kind_names[kind]);
    size_t n;
    const rx_port *ports = rx_program_ports(h->program, kind, &n);
    if (!n)
        return rx_fail(err, RLX_NOT_FOUND, "there is no %s '%.80s': the graph has no %ss",
                       kind_names[kind], name, kind_names[kind]);
    char names[200];
    list_names(ports, n, names, sizeof names);
    const char *near = nearest_name(name, ports, n);
    if (near)
        return rx_fail(err, RLX_NOT_FOUND, "there is no %s '%.80s': did you mean '%.80s'? The "
                       "%ss are %s", kind_names[kind], name, near, kind_names[kind], names);
    return rx_fail(err, RLX_NOT_FOUND, "there is no %s '%.80s': the %ss are %s", kind_names[kind],
                   name, kind_names[kind], names);
}

rlx_status rx_shared_find(const rx_shared *h, rlx_leaf kind, const char *name, size_t *index,
                           rlx_error *err)
{
    if (!name)
        return rx_fail(err, RLX_INVALID, "the name of an %s is NULL",
                       kind == RLX_LEAF_OUTPUT ? "output" : "input, param or state");
    const rx_map *map = kind == RLX_LEAF_OUTPUT ? &h->outputs : &h->leaves;
    const rx_map_slot *slot = rx_map_find(map, name, strlen(name));
    if (!slot || slot->value >> 30 != (uint32_t)(kind == RLX_LEAF_OUTPUT ? 0 : kind))
        return fail_unknown(h, kind, name, err);
    *index = slot->value & 0x3fffffff;
    return RLX_OK;
}
