/* SPDX-License-Identifier: MIT */
/* Prints SPIR-V as WGSL: functions, declarations and the whole text. wgsl_print.h says how the
 * printer works and where its parts are. */
#include <string.h>

#include "spirv/wgsl_print.h"

#define MAX_BOUND (1u << 20) /* ids of a module */
#define SENTINELS 64         /* words */

/* ---- Functions ------------------------------------------------------------------------------- */

/* Forgets what an earlier walk found out about the values of a function. */
static void reset_values(rx_wgsl *p, const uint32_t *in)
{
    for (; in < p->end && rx_ws_opcode(in) != OpFunctionEnd; in = rx_ws_next(in)) {
        const rx_ws_op *op = rx_ws_find_op(rx_ws_opcode(in));
        if (!op || op->form != RX_WS_TYPED || rx_ws_is_constant_op(rx_ws_opcode(in)))
            continue;
        rx_ws_id *d = rx_ws_at(p, in[2]);
        d->uses = d->edges = d->same_as = 0;
        d->known = d->hoisted = false;
    }
}

static void print_parameter(rx_wgsl *p, rx_str *s, const uint32_t *in)
{
    const uint32_t *type = rx_ws_type(p, in[1]);
    const unsigned id = in[2];
    rx_ws_id *d = rx_ws_at(p, in[2]);
    d->scope = 0;
    if (rx_ws_opcode(type) != OpTypePointer) {
        d->text = rx_ws_text(p, "v%u", id);
        rx_str_printf(s, "v%u: %s, ", id, rx_ws_type_name(p, in[1], false));
        return;
    }
    const char *space = type[2] == CLASS_FUNCTION ? "function"
                        : type[2] == CLASS_PRIVATE ? "private"
                        : type[2] == CLASS_WORKGROUP ? "workgroup" : NULL;
    if (!space)
        rx_ws_fail(p, RLX_UNSUPPORTED, "a parameter that points to a buffer");
    d->text = rx_ws_text(p, "(*v%u)", id);
    rx_str_printf(s, "v%u: ptr<%s, %s>, ", id, space ? space : "",
                  rx_ws_type_name(p, type[3], false));
}

/* "fn name(parameters) -> type {"; *in becomes the first instruction after the parameters. */
static void print_signature(rx_wgsl *p, uint32_t id, const uint32_t **in)
{
    const rx_ws_id *f = rx_ws_at(p, id);
    const bool is_entry = id == p->entry;
    const uint32_t *at = rx_ws_next(f->in);
    rx_str s = {0};
    if (is_entry)
        rx_str_printf(&s, "@compute @workgroup_size(%u, %u, %u)\nfn main(",
                      (unsigned)p->info->local[0], (unsigned)p->info->local[1],
                      (unsigned)p->info->local[2]);
    else
        rx_str_printf(&s, "fn fn_%u(", (unsigned)id);
    for (; at < p->end && rx_ws_ok(p); at = rx_ws_next(at)) {
        p->at = at;
        if (rx_ws_opcode(at) == OpFunctionParameter)
            print_parameter(p, &s, at);
        else if (!rx_ws_is_line(at))
            break;
    }
    for (uint32_t i = 0; i < RX_WS_N_INPUTS; i++) {
        const rx_ws_input *input = &rx_ws_inputs[i];
        if (!(f->inputs >> i & 1) || (is_entry && (RX_WS_COMPUTED >> i & 1)))
            continue;
        if (is_entry)
            rx_str_printf(&s, "@builtin(%s) ", input->name);
        rx_str_printf(&s, "%s: %s, ", input->name, input->type);
    }
    rx_str_puts(&s, ")");
    if (rx_ws_def(p, f->type) != OpTypeVoid)
        rx_str_printf(&s, " -> %s", rx_ws_type_name(p, f->type, false));
    rx_str_puts(&s, " {");
    rx_ws_line(p, "%s", rx_ws_keep(p, &s));
    *in = at;
}

/* What is declared at the top of a function: variables, phis, values that outlive their braces and
 * flags of loops. Returns the first block. */
static uint32_t print_locals(rx_wgsl *p, const uint32_t *in)
{
    uint32_t first = 0;
    for (; in < p->end && rx_ws_opcode(in) != OpFunctionEnd && rx_ws_ok(p); in = rx_ws_next(in)) {
        const uint32_t op = rx_ws_opcode(in);
        const rx_ws_op *row = rx_ws_find_op(op);
        p->at = in;
        if (op == OpLabel) {
            first = first ? first : in[1];
            if (rx_ws_at(p, in[1])->breaks)
                rx_ws_line(p, "var b%u_left = false;", (unsigned)in[1]);
        }
        if (!row || row->form != RX_WS_TYPED)
            continue;
        rx_ws_id *d = rx_ws_at(p, in[2]);
        if (op == OpVariable) {
            d->text = rx_ws_text(p, "v%u", (unsigned)in[2]);
            d->scope = 0;
            const char *type = rx_ws_type_name(p, rx_ws_pointee(p, in[1]), false);
            if (rx_ws_length(in) > 4 && (p->dry || d->uses))
                rx_ws_line(p, "var v%u: %s = %s;", (unsigned)in[2], type,
                           rx_ws_constant(p, in[4]));
            else if (d->uses)
                rx_ws_line(p, "var v%u: %s;", (unsigned)in[2], type);
        }
        if (op == OpPhi && rx_ws_def(p, in[1]) == OpTypePointer)
            rx_ws_fail(p, RLX_UNSUPPORTED, "a phi of pointers");
        else if (op == OpPhi && !d->same_as && d->uses)
            rx_ws_line(p, "var p%u: %s;", (unsigned)in[2], rx_ws_type_name(p, in[1], false));
        if (d->hoisted)
            rx_ws_line(p, "var x%u: %s;", (unsigned)in[2], rx_ws_type_name(p, in[1], false));
    }
    return first;
}

/* Subgroups are full and take invocations in order, on every driver that is known. */
static void print_computed_inputs(rx_wgsl *p)
{
    const uint32_t inputs = rx_ws_at(p, p->entry)->inputs, *local = p->info->local;
    if (inputs >> RX_WS_NUM_SUBGROUPS & 1)
        rx_ws_line(p, "let num_subgroups = (%uu + subgroup_size - 1u) / subgroup_size;",
                   (unsigned)(local[0] * local[1] * local[2]));
    if (inputs >> RX_WS_SUBGROUP_ID & 1)
        rx_ws_line(p, "let subgroup_id = local_invocation_index / subgroup_size;");
}

static void walk_function(rx_wgsl *p, uint32_t id)
{
    const uint32_t *in = NULL;
    p->n_scopes = p->last_scope = p->n_loops = p->indent = p->n_temp = 0;
    p->pending_semantics = p->uniform_load = 0;
    print_signature(p, id, &in);
    rx_ws_push_scope(p);
    if (id == p->entry)
        print_computed_inputs(p);
    const uint32_t first = rx_ws_ok(p) ? print_locals(p, in) : 0;
    if (!first)
        rx_ws_fail(p, RLX_INVALID, "a function without a body");
    if (rx_ws_ok(p))
        rx_ws_flow(p, first);
    rx_ws_pop_scope(p);
    rx_ws_line(p, "}");
}

/* The walk that only looks. */
static void study_function(rx_wgsl *p, uint32_t id)
{
    p->no_forward = p->restart = false;
    walk_function(p, id);
    if (!p->restart)
        return;
    /* A block printed twice has phis that change: none is taken for a value. */
    reset_values(p, rx_ws_at(p, id)->in);
    p->no_forward = true;
    walk_function(p, id);
}

static void walk_functions(rx_wgsl *p, bool dry)
{
    p->dry = dry;
    for (const uint32_t *in = p->w + 5; in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
        if (rx_ws_opcode(in) != OpFunction || !rx_ws_at(p, in[2])->live)
            continue;
        if (dry)
            study_function(p, in[2]);
        else
            walk_function(p, in[2]);
    }
    p->at = NULL;
}

/* Variables whose atomics are all in branches that are never taken are plain ones. */
static void forget_atomics(rx_wgsl *p)
{
    for (uint32_t i = 1; i < p->bound; i++)
        p->id[i].atomic = p->id[i].atomic_seen;
}

/* ---- Declarations ---------------------------------------------------------------------------- */

/* Bytes up to the end of a block of push constants, whose arrays have strides of their own. */
static uint32_t block_bytes(rx_wgsl *p, uint32_t type)
{
    const uint32_t *in = rx_ws_type(p, type);
    const uint32_t *offset = rx_ws_at(p, type)->member_offset;
    uint32_t bytes = 0;
    for (uint32_t i = 0; i + 2 < rx_ws_length(in) && rx_ws_ok(p); i++) {
        const uint32_t member = in[2 + i], *t = rx_ws_type(p, member);
        uint32_t size = rx_ws_layout_of(p, member).size;
        if (rx_ws_opcode(t) == OpTypeArray)
            size = rx_ws_at(p, member)->stride * rx_ws_value(p, t[3]);
        if (offset[i] < 4096 && size < 4096 && offset[i] + size > bytes)
            bytes = offset[i] + size;
    }
    return bytes;
}

static void read_push_block(rx_wgsl *p)
{
    if (!p->push || !rx_ws_ok(p))
        return;
    const uint32_t block = rx_ws_pointee(p, rx_ws_at(p, p->push)->type);
    p->at = rx_ws_at(p, p->push)->in;
    if (rx_ws_def(p, block) != OpTypeStruct || !rx_ws_at(p, block)->member_offset) {
        rx_ws_fail(p, RLX_INVALID, "push constants that are no block");
        return;
    }
    rx_ws_at(p, p->push)->text = "push";
    p->info->push_words = (block_bytes(p, block) + 3) / 4;
}

/* Names of the global variables; what is printed of them is known after the functions. */
static void name_globals(rx_wgsl *p)
{
    for (const uint32_t *in = p->w + 5; in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
        if (rx_ws_opcode(in) == OpFunction)
            break;
        p->at = in;
        if (rx_ws_opcode(in) == OpTypeStruct && !rx_ws_at(p, in[1])->is_block)
            rx_ws_print_struct(p, rx_ws_type_name(p, in[1], false), in[1], false);
        if (rx_ws_opcode(in) != OpVariable)
            continue;
        rx_ws_id *d = rx_ws_at(p, in[2]);
        switch (in[3]) {
        case CLASS_INPUT:
            if (!d->inputs)
                rx_ws_fail(p, RLX_UNSUPPORTED, "builtin %u", (unsigned)d->builtin - 1);
            else
                d->text = rx_ws_inputs[d->inputs - 1].name;
            break;
        case CLASS_PRIVATE:
        case CLASS_WORKGROUP: d->text = rx_ws_text(p, "v%u", (unsigned)in[2]); break;
        case CLASS_PUSH:
        case CLASS_BUFFER: break;
        default: rx_ws_fail(p, RLX_UNSUPPORTED, "storage class %u", (unsigned)in[3]);
        }
    }
    p->at = NULL;
}

static void print_variables(rx_wgsl *p)
{
    for (const uint32_t *in = p->w + 5; in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
        if (rx_ws_opcode(in) == OpFunction)
            break;
        p->at = in;
        if (rx_ws_opcode(in) != OpVariable || !rx_ws_at(p, in[2])->uses)
            continue;
        const rx_ws_id *d = rx_ws_at(p, in[2]);
        const uint32_t type = rx_ws_pointee(p, in[1]);
        if (in[3] == CLASS_WORKGROUP) {
            rx_str_printf(&p->decl, "var<workgroup> v%u: %s;\n", (unsigned)in[2],
                          rx_ws_type_name(p, type, d->atomic));
            p->info->shared_bytes += (rx_ws_layout_of(p, type).size + 15) / 16 * 16;
        } else if (in[3] == CLASS_PRIVATE) {
            const char *first = rx_ws_length(in) > 4 ? rx_ws_constant(p, in[4]) : NULL;
            rx_str_printf(&p->decl, "var<private> v%u: %s%s%s;\n", (unsigned)in[2],
                          rx_ws_type_name(p, type, false), first ? " = " : "", first ? first : "");
        }
    }
    p->at = NULL;
}

static void print_buffers(rx_wgsl *p, rx_str *s)
{
    for (uint32_t i = 0; i < RX_WGSL_MAX_BIND; i++) {
        const rx_ws_buffer *b = &p->buffer[i];
        rx_wgsl_binding *info = &p->info->binding[i];
        if (!b->used)
            continue;
        info->used = true;
        info->read_write = b->written || b->atomic || !(p->opt->read_only >> i & 1);
        rx_str_printf(s, "@group(%u) @binding(%u) var<storage, %s> b%u: %s;\n",
                      (unsigned)p->opt->buffer_group, (unsigned)i,
                      info->read_write ? "read_write" : "read", (unsigned)i, b->type);
    }
    if (!p->info->uniform_bytes)
        return;
    rx_str_printf(s, "@group(%u) @binding(%u) var<uniform> push: array<vec4<u32>, %u>;\n",
                  (unsigned)p->opt->push_group, (unsigned)p->opt->push_binding,
                  (unsigned)p->info->uniform_bytes / 16);
}

static void print_helpers(rx_wgsl *p, rx_str *s)
{
    if (p->needs_push_at)
        rx_str_puts(s, "fn push_at(i: u32) -> u32 { return push[i >> 2u][i & 3u]; }\n");
    if (p->needs_bits)
        rx_str_puts(s, "fn f32_of(bits: u32) -> f32 { return bitcast<f32>(bits); }\n");
    if (p->needs_mulhi)
        rx_str_puts(s, "fn mulhi(a: u32, b: u32) -> u32 {\n"
                       " let al = a & 0xffffu; let ah = a >> 16u;\n"
                       " let bl = b & 0xffffu; let bh = b >> 16u;\n"
                       " let t = ah * bl + ((al * bl) >> 16u);\n"
                       " let u = al * bh + (t & 0xffffu);\n"
                       " return ah * bh + (t >> 16u) + (u >> 16u);\n}\n");
}

/* ---- The whole text -------------------------------------------------------------------------- */

static void check_subgroups(rx_wgsl *p)
{
    if (rx_ws_at(p, p->entry)->inputs >> RX_WS_SUBGROUP_SIZE)
        p->subgroups = true;
    if (p->subgroups && p->opt->subgroups == RX_WGSL_SUBGROUPS_OFF)
        rx_ws_fail(p, RLX_UNSUPPORTED, "subgroups are not enabled");
}

static rlx_status assemble(rx_wgsl *p)
{
    rx_str s = {0};
    if (p->f16)
        rx_str_puts(&s, "enable f16;\n");
    if (p->subgroups && p->opt->subgroups == RX_WGSL_SUBGROUPS_ENABLE)
        rx_str_puts(&s, "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n");
    print_buffers(p, &s);
    if (p->decl.n)
        rx_str_add(&s, p->decl.data, p->decl.n);
    print_helpers(p, &s);
    if (p->out.n)
        rx_str_add(&s, p->out.data, p->out.n);
    s.failed |= p->decl.failed || p->out.failed;
    p->info->uses_f16 = p->f16;
    p->info->uses_subgroups = p->subgroups;
    const rlx_status status = rx_str_take(&s, &p->info->data, &p->info->n, p->err);
    rx_str_finish(&s);
    return status;
}

/* Takes a copy of the module with a few words after it, where every walk ends. */
static void set_module(rx_wgsl *p, const uint32_t *words, size_t n)
{
    uint32_t *copy = rx_alloc_array(n + SENTINELS, sizeof *copy);
    rx_ws_id *id = rx_alloc_array_zero(words[3] + (size_t)1, sizeof *id);
    rx_free(p->words);
    rx_free(p->id);
    p->words = copy;
    p->id = id;
    if (!copy || !id) {
        p->status = rx_fail_memory(p->err, "printing a kernel as WGSL", n * sizeof *words);
        return;
    }
    memcpy(copy, words, n * sizeof *copy);
    for (size_t i = 0; i < SENTINELS; i++)
        copy[n + i] = 1u << 16 | (i & 1 ? OpFunctionEnd : OpUnreachable);
    p->bound = words[3];
    p->w = copy;
    p->end = copy + n;
    p->entry = p->glsl = p->push = p->workgroup_size = 0;
    p->local_ids = NULL;
    rx_ws_read_module(p);
}

/* Loops that are to be unrolled are, in the module. */
static void unroll_module(rx_wgsl *p)
{
    uint32_t *words = NULL;
    size_t n = 0;
    if (rx_ws_ok(p) && p->opt->unroll_bytes && rx_ws_unroll(p, &words, &n))
        set_module(p, words, n);
    rx_free(words);
}

static void print_module(rx_wgsl *p)
{
    unroll_module(p);
    if (!rx_ws_ok(p))
        return;
    read_push_block(p);
    if (rx_ws_ok(p))
        name_globals(p);
    p->dry = true;
    if (rx_ws_ok(p))
        rx_ws_plan_buffers(p);
    walk_functions(p, true);
    p->dry = false;
    forget_atomics(p);
    if (rx_ws_ok(p))
        rx_ws_plan_buffers(p);
    walk_functions(p, false);
    if (rx_ws_ok(p))
        print_variables(p);
    if (rx_ws_ok(p))
        check_subgroups(p);
    if (rx_ws_ok(p))
        p->status = assemble(p);
}

rlx_status rx_wgsl_print(const uint32_t *words, size_t n_words, const rx_wgsl_options *o,
                         rx_wgsl_text *out, rlx_error *err)
{
    rx_wgsl p = {.opt = o, .info = out, .err = err};
    *out = (rx_wgsl_text){.local = {1, 1, 1}};
    if (n_words < 5 || n_words > UINT32_MAX / 8 || words[0] != 0x07230203u ||
        words[3] > MAX_BOUND)
        return rx_fail(err, RLX_INVALID, "kernel %s as WGSL: not a SPIR-V module",
                       o->name ? o->name : "(without a name)");
    set_module(&p, words, n_words);
    print_module(&p);
    if (p.status != RLX_OK)
        rx_wgsl_text_finish(out);
    rx_str_finish(&p.out);
    rx_str_finish(&p.decl);
    rx_arena_finish(&p.arena);
    rx_free(p.id);
    rx_free(p.words);
    return p.status;
}

void rx_wgsl_text_finish(rx_wgsl_text *t)
{
    rx_free(t->data);
    *t = (rx_wgsl_text){0};
}
