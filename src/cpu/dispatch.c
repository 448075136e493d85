/* SPDX-License-Identifier: MIT */
/* Builds the table of CPU kernels and runs calls through it. */
#include "cpu/dispatch.h"

#include "cpu/cpuid.h"
#include "cpu/fast/fast.h"
#include "ir/infer.h"

/* Puts a copy of `from` in front of the chain of an operation. */
static rlx_status add_kernel(rx_cpu_table *t, rx_op op, rx_cpu_kernel from)
{
    rx_cpu_kernel *k = rx_arena_alloc(&t->arena, sizeof *k);
    if (!k)
        return RLX_NO_MEMORY;
    *k = from;
    k->next = t->head[op];
    t->head[op] = k;
    return RLX_OK;
}

static rlx_status add_row(rx_cpu_table *t, const rx_fast_kernel *k)
{
    rx_cpu_kernel kernel = {k->name, k->run, k->strided, k->is_int, k->takes_rare, NULL};
    if (k->op != RX_ALL_ELEMENTWISE)
        return add_kernel(t, (rx_op)k->op, kernel);
    for (int op = 0; op < RX_N_OPS; op++)
        if (rx_ops[op].flags & RX_OP_ELEMENTWISE)
            RLX_TRY(add_kernel(t, (rx_op)op, kernel));
    return RLX_OK;
}

/* The lists of kernels, those of better instruction sets later. */
static const struct {
    uint32_t flag; /* which the processor must have */
    const rx_fast_kernel *kernels;
} levels[] = {
    {0, rx_generic_kernels},
    {0, rx_plain_kernels},
#if defined(__x86_64__)
#ifndef RX_NO_AVX2 /* RLX_SIMD of the build */
    {RX_CPU_AVX2, rx_fast_avx2},
#endif
#ifndef RX_NO_AVX512
    {RX_CPU_AVX512, rx_fast_avx512},
#endif
#ifndef RX_NO_AVX512VNNI
    {RX_CPU_VNNI, rx_fast_avx512vnni},
#endif
#elif defined(__aarch64__)
    {RX_CPU_NEON, rx_fast_neon},
#ifndef RX_NO_NEONDOT
    {RX_CPU_DOTPROD, rx_fast_neondot},
#endif
#ifndef RX_NO_NEONI8MM
    {RX_CPU_I8MM, rx_fast_neoni8mm},
#endif
#elif defined(__wasm_simd128__)
    {RX_CPU_WASM, rx_fast_wasm},
#endif
};
#define N_LEVELS (sizeof levels / sizeof levels[0])

/* The kernels of a level, none when the processor does not have it. */
static const rx_fast_kernel *level_kernels(size_t i)
{
    static const rx_fast_kernel none[] = {{0, NULL, NULL, 0, false, false}};
    return (rx_cpu_flags() & levels[i].flag) == levels[i].flag ? levels[i].kernels : none;
}

bool rx_cpu_has_fast(rx_op op)
{
    const bool elementwise = rx_ops[op].flags & RX_OP_ELEMENTWISE;
    for (size_t i = 0; i < N_LEVELS; i++)
        for (const rx_fast_kernel *k = level_kernels(i); k->run; k++)
            if (k->op == (int)op || (k->op == RX_ALL_ELEMENTWISE && elementwise))
                return true;
    return false;
}

static rlx_status add_all(rx_cpu_table *t, bool fast)
{
    for (int op = 0; op < RX_N_OPS; op++)
        if (rx_ref_table[op])
            RLX_TRY(add_kernel(t, (rx_op)op,
                               (rx_cpu_kernel){"reference", rx_ref_table[op], 0xff, false, true,
                                               NULL}));
    for (size_t i = 0; fast && i < N_LEVELS; i++)
        for (const rx_fast_kernel *k = level_kernels(i); k->run; k++)
            RLX_TRY(add_row(t, k));
    return RLX_OK;
}

rlx_status rx_cpu_table_init(rx_cpu_table *t, bool fast, rlx_error *err)
{
    *t = (rx_cpu_table){0};
    if (add_all(t, fast) == RLX_OK)
        return RLX_OK;
    rx_cpu_table_finish(t);
    return rx_fail_memory(err, "the table of CPU kernels", RX_N_OPS * sizeof(rx_cpu_kernel));
}

void rx_cpu_table_finish(rx_cpu_table *t)
{
    rx_arena_finish(&t->arena);
    *t = (rx_cpu_table){0};
}

/* Whether the call has types of RX_RARE, which only kernels that declare them get. */
static bool has_rare_types(const rx_call *c)
{
    uint64_t types = 0;
    for (size_t i = 0; i < c->n_in; i++)
        types |= RX_T(c->in[i].dtype);
    for (size_t i = 0; i < c->n_out; i++)
        types |= RX_T(c->out[i].dtype);
    return types & RX_RARE && !(rx_ops[c->op].flags & RX_OP_MOVES);
}

/* The first kernel from k on that may take the call by its policy and types. */
static const rx_cpu_kernel *first_allowed(const rx_cpu_kernel *k, const rx_call *c)
{
    bool ints = c->policy == RLX_POLICY_FAST || (c->n_in && !rlx_dtype_is_float(c->in[0].dtype));
    bool rare = has_rare_types(c);
    while (k && ((k->is_int && !ints) || (rare && !k->takes_rare)))
        k = k->next;
    return k;
}

const rx_cpu_kernel *rx_cpu_choose(const rx_cpu_kernel *k, const rx_call *c)
{
    rx_call ask = *c;
    ask.probe = true;
    k = first_allowed(k, c);
    while (k && k->next && k->run(&ask) == RLX_UNSUPPORTED)
        k = first_allowed(k->next, c);
    return k;
}

rlx_status rx_cpu_dispatch(const rx_cpu_kernel *k, const rx_call *c, const rx_cpu_kernel **used)
{
    for (; k; k = first_allowed(k->next, c)) {
        rlx_status st = k->run(c);
        if (st == RLX_UNSUPPORTED)
            continue;
        *used = k;
        return st;
    }
    return RLX_UNSUPPORTED;
}
