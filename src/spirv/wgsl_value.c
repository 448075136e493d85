/* SPDX-License-Identifier: MIT */
/* Names and scopes of the WGSL printer: how a value is written where it is used. */
#include <stdio.h>
#include <string.h>

#include "spirv/wgsl_print.h"

/* One statement, indented. */
void rx_ws_line(rx_wgsl *p, const char *format, ...)
{
    char small[256];
    va_list args;
    if (p->dry || !rx_ws_ok(p))
        return;
    for (uint32_t i = 0; i < p->indent; i++)
        rx_str_add(&p->out, " ", 1);
    va_start(args, format);
    const int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) {
        rx_str_add(&p->out, small, (size_t)n);
    } else if (n >= 0) {
        char *text = rx_alloc((uint64_t)n + 1);
        if (text) {
            va_start(args, format);
            vsnprintf(text, (size_t)n + 1, format, args);
            va_end(args);
            rx_str_add(&p->out, text, (size_t)n);
            rx_free(text);
        } else {
            p->out.failed = true;
        }
    }
    rx_str_add(&p->out, "\n", 1);
    if (p->out.n > RX_WS_MAX_TEXT)
        rx_ws_fail(p, RLX_UNSUPPORTED, "the text gets too long");
}

void rx_ws_push_scope(rx_wgsl *p)
{
    if (p->n_scopes == RX_WS_MAX_SCOPE) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "control flow nested more than %d deep", RX_WS_MAX_SCOPE);
        return;
    }
    p->scopes[p->n_scopes++] = ++p->last_scope;
    p->indent++;
}

void rx_ws_pop_scope(rx_wgsl *p)
{
    if (!p->n_scopes)
        return;
    p->n_scopes--;
    p->indent--;
}

static bool is_visible(const rx_wgsl *p, uint32_t scope)
{
    for (uint32_t i = p->n_scopes; scope && i-- > 0;)
        if (p->scopes[i] == scope)
            return true;
    return scope == 0;
}

/* The text of a value is about to be printed here: is its definition in scope? Access chains are
 * no definitions; their text holds that of their indices. */
static void touch(rx_wgsl *p, uint32_t id)
{
    id = rx_ws_resolve(p, id);
    rx_ws_id *d = rx_ws_at(p, id);
    const uint32_t op = d->in ? rx_ws_opcode(d->in) : Op_none;
    if (d->known || op == Op_none || rx_ws_is_constant_op(op) || !rx_ws_ok(p))
        return;
    if (op == OpAccessChain || op == OpInBoundsAccessChain) {
        for (uint32_t i = 3; i < rx_ws_length(d->in); i++) {
            const rx_ws_id *part = rx_ws_at(p, rx_ws_resolve(p, d->in[i]));
            if (part->depth >= d->depth || p->work++ > RX_WS_MAX_TEXT) {
                rx_ws_fail(p, RLX_INVALID, "an access chain that refers to itself");
                return;
            }
            touch(p, d->in[i]);
        }
        return;
    }
    if (is_visible(p, d->scope))
        return;
    if (p->dry)
        d->hoisted = true;
    else if (!d->hoisted)
        rx_ws_fail(p, RLX_INVALID, "value %u is used where it is not defined", (unsigned)id);
}

const char *rx_ws_use(rx_wgsl *p, uint32_t id)
{
    bool infinite = false;
    id = rx_ws_resolve(p, id);
    rx_ws_id *d = rx_ws_at(p, id);
    if (!d->in || !rx_ws_ok(p)) {
        rx_ws_fail(p, RLX_INVALID, "id %u is not defined", (unsigned)id);
        return "?";
    }
    if (rx_ws_is_constant_op(rx_ws_opcode(d->in)))
        return rx_ws_constant(p, id);
    if (d->known)
        return rx_ws_literal(p, rx_ws_kind(p, d->type), d->value, &infinite);
    if (p->dry)
        d->uses++;
    touch(p, id);
    if (d->text)
        return d->text;
    rx_ws_fail(p, RLX_INVALID, "value %u is used before it is computed", (unsigned)id);
    return "?";
}

const char *rx_ws_use_often(rx_wgsl *p, uint32_t id)
{
    if (p->dry)
        rx_ws_at(p, rx_ws_resolve(p, id))->uses++;
    return rx_ws_use(p, id);
}

static bool is_int(char kind) { return kind == 'i' || kind == 'u'; }

const char *rx_ws_use_as(rx_wgsl *p, uint32_t id, char kind)
{
    const uint32_t of = rx_ws_resolve(p, id);
    const rx_ws_id *d = rx_ws_at(p, of);
    const char has = is_int(kind) && d->type ? rx_ws_kind(p, d->type) : 0;
    bool infinite = false;
    if (has == kind || !is_int(has))
        return rx_ws_use(p, of);
    if (d->known)
        return rx_ws_literal(p, kind, d->value, &infinite);
    return rx_ws_text(p, "bitcast<%s>(%s)", rx_ws_vector_name(p, kind, rx_ws_lanes(p, d->type)),
                      rx_ws_use(p, of));
}

void rx_ws_define(rx_wgsl *p, uint32_t id, int flags, const char *text)
{
    rx_ws_id *d = rx_ws_at(p, id);
    const bool pure = (flags & RX_WS_PURE) != 0;
    d->scope = p->n_scopes ? p->scopes[p->n_scopes - 1] : 0;
    if (!p->dry && pure && !d->uses) {
        d->text = "unused";
        return;
    }
    if (d->hoisted) {
        d->text = rx_ws_text(p, "x%u", (unsigned)id);
        rx_ws_line(p, "x%u = %s;", (unsigned)id, text);
        return;
    }
    const bool once = !p->dry && pure && d->uses == 1 && strlen(text) < RX_WS_MAX_INLINE;
    if ((flags & RX_WS_ALWAYS) || once) {
        d->text = flags & RX_WS_PAREN ? rx_ws_text(p, "(%s)", text) : text;
        return;
    }
    d->text = rx_ws_text(p, "x%u", (unsigned)id);
    rx_ws_line(p, "let x%u = %s;", (unsigned)id, text);
}

void rx_ws_define_as(rx_wgsl *p, uint32_t id, char kind, int flags, const char *text)
{
    const uint32_t type = rx_ws_at(p, id)->type;
    const char wanted = rx_ws_kind(p, type);
    if (!is_int(wanted) || !is_int(kind) || wanted == kind) {
        rx_ws_define(p, id, flags, text);
        return;
    }
    const char *name = rx_ws_vector_name(p, wanted, rx_ws_lanes(p, type));
    rx_ws_define(p, id, flags & ~RX_WS_PAREN, rx_ws_text(p, "bitcast<%s>(%s)", name, text));
}

void rx_ws_define_known(rx_wgsl *p, uint32_t id, uint32_t value)
{
    rx_ws_id *d = rx_ws_at(p, id);
    d->known = true;
    d->value = rx_ws_kind(p, d->type) == 'b' ? value != 0 : value;
}

void rx_ws_forward(rx_wgsl *p, uint32_t id, uint32_t same_as)
{
    same_as = rx_ws_resolve(p, same_as);
    if (same_as != id) /* only in a damaged module */
        rx_ws_at(p, id)->same_as = same_as;
}

const char *rx_ws_call(rx_wgsl *p, const char *head, const uint32_t *ids, uint32_t n, char kind)
{
    rx_str s = {0};
    rx_str_printf(&s, "%s(", head);
    for (uint32_t i = 0; i < n; i++)
        rx_str_printf(&s, "%s%s", i ? ", " : "", rx_ws_use_as(p, ids[i], kind));
    rx_str_puts(&s, ")");
    return rx_ws_keep(p, &s);
}
