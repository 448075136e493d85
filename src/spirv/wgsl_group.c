/* SPDX-License-Identifier: MIT */
/* What invocations do together, for the WGSL printer: atomics, barriers, subgroups. */
#include "spirv/wgsl_print.h"

/* ---- Atomics --------------------------------------------------------------------------------- */

/* "&place" of an atomic, or of a word of a buffer that is read by words. */
static const char *atomic_place(rx_wgsl *p, uint32_t pointer)
{
    const char *text = rx_ws_use(p, pointer);
    const rx_ws_id *d = rx_ws_at(p, pointer);
    return d->word ? rx_ws_text(p, "&%s[%s]", d->text, d->word) : rx_ws_text(p, "&%s", text);
}

/* SPIR-V's compare and exchange fails only if the values differ; WGSL's may fail for no reason. */
static const char *compare_exchange(rx_wgsl *p, const uint32_t *in, const char *place, char kind)
{
    const unsigned id = in[2];
    const char *compare = rx_ws_use_as(p, in[8], kind), *value = rx_ws_use_as(p, in[7], kind);
    rx_ws_use_often(p, in[8]);
    rx_ws_line(p, "var x%u_c: %s;", id, rx_ws_kind_name(kind));
    rx_ws_line(p, "loop {");
    rx_ws_line(p, " let r = atomicCompareExchangeWeak(%s, %s, %s);", place, compare, value);
    rx_ws_line(p, " x%u_c = r.old_value;", id);
    rx_ws_line(p, " if (r.exchanged || r.old_value != %s) { break; }", compare);
    rx_ws_line(p, "}");
    return rx_ws_text(p, "x%u_c", id);
}

static const char *atomic_value(rx_wgsl *p, const uint32_t *in, const char *place, char kind)
{
    static const char *const name[] = {"Add", "Sub", "Add", "Sub", "Min", "Min",
                                       "Max", "Max", "And", "Or",  "Xor"};
    const uint32_t op = rx_ws_opcode(in);
    switch (op) {
    case OpAtomicLoad: return rx_ws_text(p, "atomicLoad(%s)", place);
    case OpAtomicExchange:
        return rx_ws_text(p, "atomicExchange(%s, %s)", place, rx_ws_use_as(p, in[6], kind));
    case OpAtomicCompareExchange: return compare_exchange(p, in, place, kind);
    case OpAtomicIIncrement:
    case OpAtomicIDecrement:
        return rx_ws_text(p, "atomic%s(%s, 1)", name[op - OpAtomicIIncrement], place);
    case OpAtomicSMin:
    case OpAtomicSMax:
    case OpAtomicUMin:
    case OpAtomicUMax:
        if ((op == OpAtomicSMin || op == OpAtomicSMax) != (kind == 'i'))
            rx_ws_fail(p, RLX_UNSUPPORTED, "with another signedness than the memory's");
        break;
    }
    return rx_ws_text(p, "atomic%s(%s, %s)", name[op - OpAtomicIIncrement], place,
                      rx_ws_use_as(p, in[6], kind));
}

void rx_ws_atomic(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t op = rx_ws_opcode(in), pointer = op == OpAtomicStore ? in[1] : in[3];
    rx_ws_mark(p, pointer, true, op != OpAtomicLoad);
    if (!rx_ws_ok(p))
        return;
    rx_ws_id *base = rx_ws_at(p, rx_ws_at(p, pointer)->base);
    base->atomic_seen = true;
    char kind = rx_ws_kind(p, rx_ws_pointee(p, rx_ws_at(p, pointer)->type));
    if (kind != 'i' && kind != 'u') {
        rx_ws_fail(p, RLX_UNSUPPORTED, "atomics exist for 32-bit integers only");
        return;
    }
    if (rx_ws_at(p, pointer)->word) /* the words of a shared buffer have one signedness */
        kind = p->buffer[rx_ws_buffer_index(p, base->binding)].kind;
    const char *place = atomic_place(p, pointer);
    if (op == OpAtomicStore) {
        rx_ws_line(p, "atomicStore(%s, %s);", place, rx_ws_use_as(p, in[4], kind));
        return;
    }
    const char *text = atomic_value(p, in, place, kind);
    if (!p->dry && !rx_ws_at(p, in[2])->uses && op != OpAtomicCompareExchange)
        rx_ws_line(p, op == OpAtomicLoad ? "_ = %s;" : "%s;", text);
    else
        rx_ws_define_as(p, in[2], kind, 0, text);
}

/* ---- Barriers -------------------------------------------------------------------------------- */

enum { SCOPE_SUBGROUP = 3, SEMANTICS_BUFFER = 0x40, SEMANTICS_WORKGROUP = 0x100 };

/* `barrier(); x = shared[constant]; barrier();` is workgroupUniformLoad, the only way to make data
 * of workgroup memory uniform for Tint; in a row of such loads each barrier ends one and begins the
 * next. Given the first barrier: the load, or 0. */
static uint32_t find_uniform_load(rx_wgsl *p, const uint32_t *in)
{
    const uint32_t *load = NULL;
    for (in = rx_ws_next(in); in < p->end && rx_ws_ok(p); in = rx_ws_next(in)) {
        const uint32_t op = rx_ws_opcode(in);
        if ((op == OpAccessChain || op == OpInBoundsAccessChain) && !load) {
            for (uint32_t i = 4; i < rx_ws_length(in); i++)
                if (!rx_ws_known(p, in[i]))
                    return 0;
            continue;
        }
        if (op == OpLoad && !load) {
            const uint32_t root = rx_ws_at(p, in[3])->base;
            const rx_ws_id *base = root ? rx_ws_at(p, root) : NULL;
            if (!base || rx_ws_opcode(base->in) != OpVariable || base->in[3] != CLASS_WORKGROUP ||
                base->atomic)
                return 0;
            load = in;
            continue;
        }
        if (op == OpStore && load && in[2] == load[2]) {
            const rx_ws_id *to = rx_ws_at(p, in[1]);
            if (to->type && rx_ws_type(p, to->type)[2] == CLASS_FUNCTION)
                continue;
        }
        return op == OpControlBarrier && load ? load[2] : 0;
    }
    return 0;
}

void rx_ws_barrier(rx_wgsl *p, const uint32_t *in)
{
    if (rx_ws_opcode(in) == OpMemoryBarrier) {
        p->pending_semantics |= rx_ws_value(p, in[2]);
        return;
    }
    const uint32_t semantics = rx_ws_value(p, in[3]) | p->pending_semantics;
    p->pending_semantics = 0;
    if (rx_ws_value(p, in[1]) == SCOPE_SUBGROUP) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "barriers of a subgroup do not exist");
        return;
    }
    const bool ends_load = p->uniform_load; /* this barrier may begin the next one, too */
    p->uniform_load = semantics & SEMANTICS_BUFFER ? 0 : find_uniform_load(p, in);
    if (ends_load || p->uniform_load)
        return;
    if (semantics & SEMANTICS_BUFFER)
        rx_ws_line(p, "storageBarrier();");
    if ((semantics & SEMANTICS_WORKGROUP) || !(semantics & SEMANTICS_BUFFER))
        rx_ws_line(p, "workgroupBarrier();");
}

/* ---- Subgroups ------------------------------------------------------------------------------- */

enum { GROUP_REDUCE = 0, GROUP_INCLUSIVE = 1, GROUP_EXCLUSIVE = 2 };

/* Sums, products, minima, ... over a subgroup: OpGroupNonUniformIAdd and after. */
static void subgroup_arithmetic(rx_wgsl *p, const uint32_t *in)
{
    static const char *const name[] = {"Add", "Add", "Mul", "Mul", "Min", "Min", "Min",
                                       "Max", "Max", "Max", "And", "Or",  "Xor"};
    static const char kinds[] = "rfrfiufiufrrr";
    const uint32_t i = rx_ws_opcode(in) - OpGroupNonUniformIAdd, how = in[4];
    const char kind = kinds[i] == 'r' ? rx_ws_kind(p, in[1]) : kinds[i];
    const char *prefix = how == GROUP_INCLUSIVE ? "Inclusive"
                                                : how == GROUP_EXCLUSIVE ? "Exclusive" : "";
    if (how > GROUP_EXCLUSIVE || (how != GROUP_REDUCE && i >= 4)) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "of scans only those of sums and products exist");
        return;
    }
    rx_ws_define_as(p, in[2], kind, 0, rx_ws_text(p, "subgroup%s%s(%s)", prefix, name[i],
                                                  rx_ws_use_as(p, in[5], kind)));
}

static const char *all_equal(rx_wgsl *p, uint32_t id)
{
    const char *x = rx_ws_use_often(p, id);
    const bool vector = rx_ws_lanes(p, rx_ws_at(p, id)->type) > 1;
    return rx_ws_text(p, vector ? "subgroupAll(all(%s == subgroupBroadcastFirst(%s)))"
                                : "subgroupAll(%s == subgroupBroadcastFirst(%s))", x, x);
}

static const char *broadcast(rx_wgsl *p, const uint32_t *a)
{
    if (rx_ws_known(p, a[1]))
        return rx_ws_text(p, "subgroupBroadcast(%s, %uu)", rx_ws_use(p, a[0]),
                          (unsigned)rx_ws_value(p, a[1]));
    return rx_ws_text(p, "subgroupShuffle(%s, %s)", rx_ws_use(p, a[0]), rx_ws_use_as(p, a[1], 'u'));
}

void rx_ws_subgroup(rx_wgsl *p, const uint32_t *in)
{
    static const char *const shuffles[] = {"", "Xor", "Up", "Down"};
    const uint32_t op = rx_ws_opcode(in), *a = in + 4;
    const char *text = "?";
    if (p->opt->subgroups == RX_WGSL_SUBGROUPS_OFF) {
        rx_ws_fail(p, RLX_UNSUPPORTED, "subgroups are not enabled");
        return;
    }
    p->subgroups = true;
    if (op >= OpGroupNonUniformIAdd) {
        subgroup_arithmetic(p, in);
        return;
    }
    switch (op) {
    case OpGroupNonUniformElect: /* naga has no subgroupElect */
        text = "subgroupBroadcastFirst(subgroup_invocation_id) == subgroup_invocation_id";
        break;
    case OpGroupNonUniformAll: text = rx_ws_call(p, "subgroupAll", a, 1, 0); break;
    case OpGroupNonUniformAny: text = rx_ws_call(p, "subgroupAny", a, 1, 0); break;
    case OpGroupNonUniformAllEqual: text = all_equal(p, a[0]); break;
    case OpGroupNonUniformBroadcast: text = broadcast(p, a); break;
    case OpGroupNonUniformBroadcastFirst:
        text = rx_ws_call(p, "subgroupBroadcastFirst", a, 1, 0);
        break;
    case OpGroupNonUniformBallot: text = rx_ws_call(p, "subgroupBallot", a, 1, 0); break;
    case OpGroupNonUniformBallotBitCount:
        if (a[0] != GROUP_REDUCE)
            rx_ws_fail(p, RLX_UNSUPPORTED, "scans of a ballot");
        text = rx_ws_text(p, "dot(countOneBits(%s), vec4<u32>(1u))", rx_ws_use(p, a[1]));
        break;
    case OpGroupNonUniformShuffle:
    case OpGroupNonUniformShuffleXor:
    case OpGroupNonUniformShuffleUp:
    case OpGroupNonUniformShuffleDown:
        text = rx_ws_text(p, "subgroupShuffle%s(%s, %s)", shuffles[op - OpGroupNonUniformShuffle],
                          rx_ws_use(p, a[0]), rx_ws_use_as(p, a[1], 'u'));
        break;
    default: rx_ws_fail(p, RLX_UNSUPPORTED, "no WGSL form"); return;
    }
    rx_ws_define(p, in[2], 0, text);
}
