/* SPDX-License-Identifier: MIT */
/* The tensors of a GGUF file in terms of those of a safetensors file: names, shapes, and which rows
 * of which tensor each row is. What GGUF has in another layout: heads whose rotary embedding turns
 * neighbours, banks of experts, gates and up apart, both maps out of DeepSeek's latent apart, q, k
 * and v of a delta net apart from its gate, norms with their 1, tables of positions from the first
 * that is used. */
#include <stdio.h>
#include <string.h>

#include "model/convert.h"

static rlx_status grow(rx_convert_plan *p, rlx_error *err)
{
    if (p->n < p->cap)
        return RLX_OK;
    const size_t cap = p->cap ? 2 * p->cap : 64;
    rx_convert_tensor *list = rx_arena_array(p->arena, (int64_t)cap, sizeof *list);
    if (!list)
        return rx_fail_memory(err, "the list of tensors", cap * sizeof *list);
    if (p->n)
        memcpy(list, p->list, p->n * sizeof *list);
    p->list = list;
    p->cap = cap;
    return RLX_OK;
}

/* Appends the tensor of `to` with the source `role`; *out is valid until the next. */
static rlx_status add(rx_convert_plan *p, rx_role role, const rx_layer *l, rx_role to,
                      rx_convert_tensor **out, rlx_error *err)
{
    const rx_facts *f = p->f;
    rlx_file_tensor t;
    RLX_TRY(grow(p, err));
    rx_convert_tensor *c = &p->list[p->n];
    *c = (rx_convert_tensor){.role = role, .layer = l, .shape = rx_facts_shape(f, l, to),
                             .change = rx_facts_change(f, role)};
    rx_facts_tensor(f, l, role, &t);
    c->dtype = t.dtype;
    if (!rx_facts_tensor_name(to, RX_NAMES_GGUF, l ? l - f->layer : 0, c->name, sizeof c->name))
        return rx_fail(err, RLX_UNSUPPORTED, "tensor '%s' has no name in GGUF files", t.name);
    c->from = rx_facts_is_stack(f, role) ? RX_ROWS_EXPERTS : RX_ROWS_SAME;
    p->n++;
    *out = c;
    return RLX_OK;
}

/* Small tensors that llama.cpp reads as f32 only. */
static bool stays_f32(const rx_convert_tensor *c)
{
    switch (c->role) {
    case RX_T_ROUTER: case RX_T_SHARED_ROUTER: case RX_T_POSITIONS: case RX_T_TYPES:
    case RX_T_DELTA_CONV: return true;
    default: return c->shape.rank == 1;
    }
}

/* Rows of q and k, whose heads the file rotates by halves and GGUF by neighbours. */
static bool is_rotated(rx_role role)
{
    return role == RX_T_Q || role == RX_T_K || role == RX_T_Q_BIAS || role == RX_T_K_BIAS;
}

static rlx_status add_plain(rx_convert_plan *p, rx_role role, const rx_layer *l, rlx_error *err)
{
    const rx_facts *f = p->f;
    rx_convert_tensor *c = NULL;
    RLX_TRY(add(p, role, l, role, &c, err));
    if (is_rotated(role) && f->arch->pairs && !f->pairs)
        c->from = RX_ROWS_PAIRS;
    if (role == RX_T_POSITIONS) {
        c->first = f->first_position;
        c->shape.dim[0] -= f->first_position;
    }
    return RLX_OK;
}

/* A tensor that is `take` rows from `first` on of each `group` rows of the source. */
static rlx_status add_part(rx_convert_plan *p, rx_role role, const rx_layer *l, rx_role to,
                           const int64_t part[3], rx_rows_from from, rlx_error *err)
{
    rx_convert_tensor *c = NULL;
    RLX_TRY(add(p, role, l, to, &c, err));
    c->from = from;
    c->group = part[0];
    c->first = part[1];
    c->take = part[2];
    return RLX_OK;
}

/* The maps out of the latent: [heads, l, n] and [heads, v, l] of rows heads * (n + v). */
static rlx_status add_latent(rx_convert_plan *p, const rx_layer *l, rlx_error *err)
{
    const int64_t plain = p->f->mla_key - p->f->n_rot, all = plain + p->f->mla_value;
    const int64_t k[] = {all, 0, plain}, v[] = {all, plain, p->f->mla_value};
    RLX_TRY(add_part(p, RX_T_KV_UP, l, RX_T_K_UP, k, RX_ROWS_COLUMNS, err));
    return add_part(p, RX_T_KV_UP, l, RX_T_V_UP, v, RX_ROWS_PART, err);
}

static rlx_status add_gate_up(rx_convert_plan *p, const rx_layer *l, rlx_error *err)
{
    const int64_t n = p->f->expert_hidden, gate[] = {2 * n, 0, n}, up[] = {2 * n, n, n};
    RLX_TRY(add_part(p, RX_T_GATE_UP_EXPERTS, l, RX_T_GATE_EXPERTS, gate, RX_ROWS_PART, err));
    return add_part(p, RX_T_GATE_UP_EXPERTS, l, RX_T_UP_EXPERTS, up, RX_ROWS_PART, err);
}

/* Each key head has q, k, then v and z of its value heads. */
static rlx_status add_delta(rx_convert_plan *p, const rx_layer *l, rlx_error *err)
{
    const rx_facts *f = p->f;
    const int64_t r = f->ssm_inner / f->ssm_groups, n = f->ssm_state, all = 2 * n + 2 * r;
    const int64_t qkv[] = {all, n, r}, z[] = {all, 2 * n + r, r};
    RLX_TRY(add_part(p, RX_T_DELTA_IN, l, RX_T_DELTA_QKV, qkv, RX_ROWS_DELTA, err));
    return add_part(p, RX_T_DELTA_IN, l, RX_T_DELTA_Z, z, RX_ROWS_PART, err);
}

static rlx_status add_role(rx_convert_plan *p, rx_role role, const rx_layer *l, rlx_error *err)
{
    rlx_file_tensor t, head;
    if (!rx_facts_tensor(p->f, l, role, &t))
        return RLX_OK;
    switch (role) {
    case RX_T_RANK: case RX_T_RANK_BIAS: /* of no use without the rest of the head */
        return rx_facts_tensor(p->f, NULL, RX_T_RANK_OUT, &head) ? add_plain(p, role, l, err)
                                                                 : RLX_OK;
    case RX_T_KV_UP: return add_latent(p, l, err);
    case RX_T_GATE_UP_EXPERTS: return add_gate_up(p, l, err);
    case RX_T_DELTA_IN: return add_delta(p, l, err);
    default: return add_plain(p, role, l, err);
    }
}

/* Divisors of the rotary embedding are numbers of config.json, tensors in GGUF. */
static rlx_status add_factors(rx_convert_plan *p, rlx_error *err)
{
    static const rx_role scaled[] = {RX_T_ROPE_SHORT, RX_T_ROPE_LONG};
    const rx_facts *f = p->f;
    const bool both = f->rope_divisors[0] != f->rope_divisors[1];
    for (int i = 0; i < 1 + both && f->rope_divisors[i]; i++) {
        RLX_TRY(grow(p, err));
        rx_convert_tensor *c = &p->list[p->n++];
        const rx_role role = both ? scaled[i] : RX_T_ROPE_FREQS;
        *c = (rx_convert_tensor){.role = role, .shape = {1, {f->n_rot / 2}}, .dtype = RLX_F32,
                                 .from = RX_ROWS_MADE, .made = f->rope_divisors[i]};
        rx_facts_tensor_name(role, RX_NAMES_GGUF, 0, c->name, sizeof c->name);
    }
    return RLX_OK;
}

rlx_status rx_convert_make_plan(rx_convert_plan *p, rlx_error *err)
{
    const rx_facts *f = p->f;
    for (int role = 0; role < RX_N_ROLES; role++)
        RLX_TRY(add_role(p, (rx_role)role, NULL, err));
    RLX_TRY(add_factors(p, err));
    for (int64_t i = 0; i < f->layers; i++)
        for (int role = 0; role < RX_N_ROLES; role++)
            RLX_TRY(add_role(p, (rx_role)role, &f->layer[i], err));
    for (size_t i = 0; i < p->n; i++)
        p->list[i].is_vector = stays_f32(&p->list[i]);
    return RLX_OK;
}
