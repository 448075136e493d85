/* SPDX-License-Identifier: MIT */
/* The emitter: every elementwise operation on every type, random regions, copies with random
 * strides and limits of the device. Each kernel is walked word by word and its ids are checked;
 * where spirv-val is installed, a sample of them goes through it. With a folder as argument all
 * of them are written there. What kernels compute is tested by optest on the devices. */
#include <stdlib.h>

#include "base/mem.h"
#include "check.h"
#include "gpu/gpu.h"
#include "ops/region.h"
#include "spirv/module.h"

/* ---- Random numbers -------------------------------------------------------------------------- */

static uint64_t state = 1;

static uint32_t below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static const rlx_dtype plain[] = {RLX_F32, RLX_F16, RLX_BF16, RLX_I8,
                                  RLX_U8,  RLX_I32, RLX_I64,  RLX_BOOL};
#define N_PLAIN 8

/* ---- Checking a module ----------------------------------------------------------------------- */

static bool has_spirv_val;
static const char *folder; /* NULL: none */
static int n_modules, n_validated;

/* Instructions end where the module ends, their ids are below the bound, labels and functions are
 * balanced, and nothing outside of the portable subset is used. */
static void check_words(const uint32_t *w, size_t n)
{
    CHECK(n > 5 && w[0] == 0x07230203u && w[1] == 0x00010300u);
    size_t at = 5;
    int functions = 0, ends = 0, stores = 0;
    while (at < n) {
        const uint32_t op = w[at] & 0xffff, length = w[at] >> 16;
        if (!CHECK(length > 0 && at + length <= n))
            return;
        functions += op == SPV_FUNCTION;
        ends += op == SPV_FUNCTION_END;
        stores += op == SPV_STORE;
        if (op == SPV_CAPABILITY)
            CHECK(w[at + 1] == 1); /* Shader and no other */
        if (op == SPV_TYPE_INT || op == SPV_TYPE_FLOAT)
            CHECK(w[at + 2] == 32);
        if (op >= SPV_CONVERT_F_TO_U && op <= SPV_NOT)
            CHECK(length > 3 && w[at + 2] < w[3] && w[at + 3] < w[3]);
        at += length;
    }
    CHECK(at == n && functions > 0 && functions == ends && stores > 0);
}

static void write_module(const char *path, const uint32_t *w, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!CHECK(f != NULL))
        return;
    CHECK(fwrite(w, sizeof *w, n, f) == n);
    fclose(f);
}

static void keep_module(const uint32_t *w, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%04d.spv", folder, n_modules);
    write_module(path, w, n);
}

static void validate(const uint32_t *w, size_t n)
{
    const char *path = "test_emit.spv";
    write_module(path, w, n);
    if (!CHECK(system("spirv-val --target-env vulkan1.1 test_emit.spv") == 0)) {
        CHECK(rename(path, "test_emit_bad.spv") == 0);
        return;
    }
    n_validated++;
    remove(path);
}

/* Lowers the call and checks what comes out; one module in `sample` is validated. */
static void check_call(const rx_gpu_call *c, uint32_t sample)
{
    rx_arena arena = {0};
    rlx_error err = {0};
    rx_gpu_build b = {.arena = &arena, .err = &err};
    CHECK_OK(rx_gpu_lower(&b, c), &err);
    for (size_t i = 0; i < b.n; i++) {
        const rx_gpu_dispatch *d = &b.dispatch[i];
        CHECK(d->n_bind <= c->caps->max_bindings && 4 * d->n_push <= c->caps->max_push_bytes);
        CHECK(d->groups[0] && d->groups[1] && d->groups[2] && d->writes);
        if (d->kernel != RX_K_EMITTED)
            continue;
        n_modules++;
        check_words(d->code, d->code_words);
        if (folder)
            keep_module(d->code, d->code_words);
        if (has_spirv_val && below(sample) == 0)
            validate(d->code, d->code_words);
    }
    rx_free(b.dispatch);
    rx_free(b.scratch);
    rx_arena_finish(&arena);
}

/* ---- Operands -------------------------------------------------------------------------------- */

static const rx_gpu_caps full = {
    .max_invocations = 1024, .max_shared_bytes = 49152, .max_groups = {65535, 65535, 65535},
    .max_push_bytes = 128, .max_bindings = 8, .max_binding_bytes = UINT32_MAX,
    .binding_align = 16};
static const rx_gpu_caps tiny = {
    .max_invocations = 128, .max_shared_bytes = 16384, .max_groups = {256, 256, 256},
    .max_push_bytes = 16, .max_bindings = 4, .max_binding_bytes = 65536, .binding_align = 16};

static rx_view make_view(rlx_dtype t, int rank, const int64_t *dim)
{
    rx_view v;
    rx_view_set_dense(&v, t, rank, dim);
    v.data = NULL;
    return v;
}

/* Of the shape, or of one that broadcasts to it, with or without gaps and an offset. */
static rx_view random_operand(rlx_dtype t, int rank, const int64_t *shape)
{
    int64_t dim[RLX_MAX_RANK];
    const int dropped = below(4) == 0 ? (int)below((uint32_t)rank + 1) : 0;
    for (int i = dropped; i < rank; i++)
        dim[i - dropped] = below(4) == 0 ? 1 : shape[i];
    rx_view v = make_view(t, rank - dropped, dim);
    if (below(3) == 0)
        for (int i = 0; i < v.rank; i++)
            v.stride[i] *= 1 + (int64_t)below(3);
    if (below(3) == 0)
        v.data = (char *)(uintptr_t)(below(9) * (uint32_t)rlx_dtype_block_bytes(t));
    return v;
}

static int random_shape(int64_t *dim)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 12, 16, 33, 64};
    const int rank = (int)below(6);
    for (int i = 0; i < rank; i++)
        dim[i] = sizes[below(10)];
    return rank;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void check_single(rx_op op, rlx_dtype t, rlx_dtype to)
{
    int64_t dim[RLX_MAX_RANK];
    const int rank = random_shape(dim);
    const rlx_dtype result = rx_elementwise_result(op, t, to);
    rx_view in[3];
    for (int i = 0; i < rx_ops[op].min_in; i++)
        in[i] = random_operand(op == RX_OP_where && i == 0 ? RLX_BOOL : t, rank, dim);
    const rx_view out = make_view(result, rank, dim);
    const rx_instr instr = {.op = (uint16_t)op, .dtype = to, .p = {1, 2}};
    rx_instr_attr attr;
    rx_instr_to_attr(&instr, &attr);
    const rx_gpu_call c = {.op = op, .attr = &attr, .n_in = rx_ops[op].min_in, .n_out = 1,
                           .in = in, .out = &out, .caps = below(4) ? &full : &tiny};
    check_call(&c, 4);
}

static void check_all_operations(void)
{
    for (int op = 0; op < RX_N_OPS; op++) {
        if (!(rx_ops[op].flags & RX_OP_ELEMENTWISE))
            continue;
        for (int i = 0; i < N_PLAIN; i++) {
            if (!(rx_elementwise_types((rx_op)op) & RX_T(plain[i])))
                continue;
            for (int j = 0; j < (op == RX_OP_cast ? N_PLAIN : 1); j++)
                check_single((rx_op)op, plain[i], plain[j]);
        }
    }
}

/* A value of type t below n_values, or -1. */
static int find_value(const rlx_dtype *types, uint32_t n_values, rlx_dtype t)
{
    const uint32_t first = below(n_values);
    for (uint32_t i = 0; i < n_values; i++)
        if (types[(first + i) % n_values] == t)
            return (int)((first + i) % n_values);
    return -1;
}

/* A random instruction on the values so far; false: try again. */
static bool random_instr(const rlx_dtype *types, uint32_t n_values, rx_instr *in)
{
    const rx_op op = (rx_op)below(RX_N_OPS);
    const rlx_dtype t = types[below(n_values)];
    if (!(rx_ops[op].flags & RX_OP_ELEMENTWISE) || !(rx_elementwise_types(op) & RX_T(t)))
        return false;
    *in = (rx_instr){.op = (uint16_t)op, .p = {1, 1}};
    in->dtype = rx_elementwise_result(op, t, plain[below(N_PLAIN)]);
    for (int i = 0; i < rx_ops[op].min_in; i++) {
        const int v = find_value(types, n_values, op == RX_OP_where && i == 0 ? RLX_BOOL : t);
        if (v < 0)
            return false;
        in->arg[i] = (uint16_t)v;
    }
    return true;
}

#define MAX_IN 12
#define MAX_INSTR 40

static void check_region(void)
{
    int64_t dim[RLX_MAX_RANK];
    const int rank = random_shape(dim);
    rlx_dtype types[MAX_IN + MAX_INSTR];
    rx_view in[MAX_IN], out[8];
    rx_instr instr[MAX_INSTR];
    uint16_t outs[8];
    rx_region r = {.n_in = (uint16_t)(1 + below(MAX_IN)), .instr = instr, .out = outs};
    for (int i = 0; i < r.n_in; i++) {
        types[i] = plain[below(N_PLAIN)];
        in[i] = random_operand(types[i], rank, dim);
    }
    const uint32_t want = 1 + below(MAX_INSTR);
    while (r.n_instr < want) {
        const uint32_t n = (uint32_t)r.n_in + r.n_instr;
        if (!random_instr(types, n, &instr[r.n_instr]))
            continue;
        types[n] = instr[r.n_instr++].dtype;
    }
    r.n_out = (uint16_t)(1 + below(r.n_instr < 8 ? r.n_instr : 8));
    for (uint16_t i = 0; i < r.n_out; i++) {
        outs[i] = (uint16_t)(r.n_instr - 1 - i);
        out[i] = make_view(types[r.n_in + outs[i]], rank, dim);
    }
    const rx_gpu_call c = {.op = RX_OP_region, .attr = &r, .n_in = r.n_in, .n_out = r.n_out,
                           .in = in, .out = out, .caps = below(2) ? &full : &tiny};
    check_call(&c, 2);
}

static void check_copy(void)
{
    static const rlx_dtype types[] = {RLX_F32, RLX_F16, RLX_I8, RLX_I64, RLX_Q4_0, RLX_Q6_K};
    int64_t dim[RLX_MAX_RANK];
    int rank = random_shape(dim);
    rlx_dtype t = types[below(6)];
    if (rank == 0)
        dim[rank++] = 4;
    if (rlx_dtype_is_packed(t))
        dim[rank - 1] = 256;
    rx_view in = make_view(t, rank, dim);
    if (!rlx_dtype_is_packed(t) && rank > 1 && below(2)) { /* transposed */
        const int64_t stride = in.stride[0];
        in.stride[0] = in.stride[rank - 1];
        in.stride[rank - 1] = stride;
    }
    const rx_view out = make_view(t, rank, dim);
    const rx_gpu_call c = {.op = RX_OP_copy, .n_in = 1, .n_out = 1, .in = &in, .out = &out,
                           .caps = below(2) ? &full : &tiny};
    check_call(&c, 4);
}

/* Two calls that differ in sizes only have the same code, so they share a pipeline. */
static void check_sharing(void)
{
    rx_arena arena = {0};
    rlx_error err = {0};
    rx_gpu_build b = {.arena = &arena, .err = &err};
    const rx_no_attr none = {0};
    for (int i = 0; i < 2; i++) {
        const rx_view x = make_view(RLX_F32, 2, (const int64_t[]){64 + 8 * i, 128 + 16 * i});
        const rx_view y = make_view(RLX_F32, 1, (const int64_t[]){128 + 16 * i});
        const rx_view in[2] = {x, y};
        const rx_gpu_call c = {.op = RX_OP_add, .attr = &none, .n_in = 2, .n_out = 1, .in = in,
                               .out = &x, .caps = &full};
        CHECK_OK(rx_gpu_lower(&b, &c), &err);
    }
    CHECK(b.n == 2 && b.dispatch[0].code_words == b.dispatch[1].code_words &&
          memcmp(b.dispatch[0].code, b.dispatch[1].code, 4 * b.dispatch[0].code_words) == 0);
    rx_free(b.dispatch);
    rx_arena_finish(&arena);
}

/* Grids reach n within the limits and waste little. */
static void check_grids(void)
{
    static const uint64_t counts[] = {0, 1, 255, 256, 257, 65535, 65536, 65537, 1000003, 16777216};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const rx_gpu_caps *caps[2] = {&full, &tiny};
        for (int k = 0; k < 2; k++) {
            rx_gpu_dispatch d = {0};
            rx_gpu_grid(&d, caps[k], counts[i]);
            const uint64_t n = (uint64_t)d.groups[0] * d.groups[1] * d.groups[2];
            CHECK(n >= counts[i] && n <= counts[i] + counts[i] / 16);
            for (int j = 0; j < 3; j++)
                CHECK(d.groups[j] <= caps[k]->max_groups[j]);
        }
    }
}

int main(int argc, char **argv)
{
    folder = argc > 1 ? argv[1] : NULL;
    has_spirv_val = system("spirv-val --version > /dev/null 2>&1") == 0;
    check_all_operations();
    for (int i = 0; i < 60; i++)
        check_region();
    for (int i = 0; i < 60; i++)
        check_copy();
    check_sharing();
    check_grids();
    printf("%d modules, %d through spirv-val\n", n_modules, n_validated);
    return check_done();
}
