/* SPDX-License-Identifier: MIT */
/* The null device finds broken programs: a good one is damaged in many ways, and each time creation
 * or a run must fail with RLX_INTERNAL and the right sentence. */
#include "check.h"
#include "compile/compile.h"
#include "null/shadow.h"
#include "rlx/rlx.h"
#include "runtime/backend.h"

static rlx_error err;

/* Steps: h = exp(x); m = h . w; y = softmax(m + x) (in place or fused); t = copy of a transposed
 * view; state_write. */
static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("null");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){8, 8});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){8, 8});
    rlx_value s = rlx_state(g, "s", RLX_F32, 2, (rlx_dim[]){8, 8});
    rlx_value h = rlx_exp(g, x);
    rlx_value m = rlx_matmul(g, h, w);
    rlx_value n = rlx_softmax(g, rlx_matmul(g, m, h), -1);
    rlx_value now = rlx_state_write(g, s, n, rlx_scalar(g, RLX_I32, 0), 0);
    rlx_output(g, "y", rlx_cumsum(g, n, &(rlx_cum_desc){RLX_INIT(rlx_cum_desc), .axis = 0}));
    rlx_output(g, "t", rlx_transpose(g, m, NULL));
    rlx_output(g, "total", rlx_reduce(g, RLX_REDUCE_SUM, now, NULL, 0, false));
    return g;
}

static const rx_backend *const backend = &rx_backend_null;
static rx_device *device;
static rx_program *program;

static void open_program(void)
{
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .no_fusion = true};
    rlx_graph *g = make_graph();
    CHECK_OK(backend->open(0, &(rlx_device_desc){RLX_INIT(rlx_device_desc)}, &device, &err), &err);
    CHECK_OK(rx_compile(g, backend->target(device), &desc, &program, &err), &err);
    rlx_graph_destroy(g);
}

static void close_program(void)
{
    rx_program_unref(program);
    backend->close(device);
}

static rlx_status try_program(void)
{
    rx_exec *e = NULL;
    uint64_t ticket;
    rlx_status st = backend->exec_create(device, program, NULL, NULL, &e, &err);
    if (st == RLX_OK)
        st = backend->exec_bind(e, NULL, &err);
    if (st == RLX_OK)
        st = backend->exec_submit(e, &(rx_submit){.n_steps = program->n_steps}, &ticket, &err);
    backend->exec_destroy(e);
    return st;
}

/* The first step of that operation. */
static rx_step *step_of(rx_op op)
{
    for (size_t i = 0; i < program->n_steps; i++)
        if (program->steps[i].op == op)
            return &program->steps[i];
    CHECK(!"the program has a step of this operation");
    return program->steps;
}

static rx_pvalue *result_of(rx_op op)
{
    return &program->values[step_of(op)->out[0]];
}

/* Each damage changes the program. */
static void unalign(void) { result_of(RX_OP_matmul)->offset += 4; }
static void leave_arena(void) { result_of(RX_OP_matmul)->offset = program->memory.arena_bytes; }
static void shrink(void) { result_of(RX_OP_matmul)->bytes -= 4; }
static void lose_dense(void) { result_of(RX_OP_matmul)->dense = false; }
static void overlap(void) { result_of(RX_OP_matmul)->offset = result_of(RX_OP_exp)->offset; }
static void end_early(void) { result_of(RX_OP_exp)->last = 0; }
static void read_unwritten(void) { result_of(RX_OP_exp)->space = RX_SPACE_NONE; }
static void bad_operand(void) { ((uint32_t *)(uintptr_t)step_of(RX_OP_exp)->in)[0] = 10000; }
static void bad_index(void) { program->values[program->inputs[0].value].index = 9; }
static void bad_port(void) { program->outputs[0].value = 10000; }
static void bad_shape(void) { result_of(RX_OP_exp)->shape.rank = 9; }

static void swap_steps(void)
{
    rx_step first = program->steps[0];
    program->steps[0] = program->steps[1];
    program->steps[1] = first;
}

static void write_input(void)
{
    rx_pvalue *v = result_of(RX_OP_exp);
    v->space = RX_SPACE_INPUT;
    v->index = 0;
}

static void write_state(void)
{
    rx_pvalue *v = result_of(RX_OP_exp);
    v->space = RX_SPACE_STATE;
    v->index = 0;
}

/* The sum reads the state as it was before the write. */
static void read_old_state(void)
{
    ((uint32_t *)(uintptr_t)step_of(RX_OP_reduce_sum)->in)[0] = step_of(RX_OP_state_write)->in[0];
}

static void test_damage(void)
{
    static const struct {
        void (*damage)(void);
        const char *part;
    } cases[] = {
        {unalign, "not aligned"},
        {leave_arena, "past the end of the arena"},
        {shrink, "less memory than its elements need"},
        {lose_dense, "not dense"},
        {overlap, "overwrites a value that is still needed"},
        {end_early, "after its last use"},
        {read_unwritten, "has no memory"},
        {bad_operand, "an operand is no value"},
        {bad_index, "index past the end"},
        {bad_port, "port"},
        {bad_shape, "no type or shape"},
        {swap_steps, "never written"},
        {write_input, "lies in an input"},
        {write_state, "does not update it"},
        {read_old_state, "old version of a state"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_program();
        CHECK_OK(try_program(), &err);
        cases[i].damage();
        CHECK_FAILS(try_program(), RLX_INTERNAL, &err, cases[i].part);
        close_program();
    }
}

/* Ownership against a plain array of bytes. */
static void test_shadow(void)
{
    enum { BYTES = 64, WRITES = 2000 };
    static rx_interval items[2 * WRITES + 1];
    rx_shadow s = {items, 0};
    uint32_t owner[BYTES] = {0}, seed = 1;
    bool ok = true;
    for (uint32_t i = 1; i <= WRITES; i++) {
        seed = seed * 1664525 + 1013904223;
        uint64_t a = seed >> 8 & 63, b = a + (seed >> 20) % (BYTES - a + 1);
        rx_shadow_write(&s, a, b, i % 7 + 1);
        for (uint64_t k = a; k < b; k++)
            owner[k] = i % 7 + 1;
        for (uint64_t k = 0; k < BYTES && ok; k++) {
            uint64_t missing = rx_shadow_missing(&s, k, BYTES, owner[k]), want = k;
            while (want < BYTES && owner[k] && owner[want] == owner[k])
                want++;
            ok = missing == want;
        }
    }
    CHECK(ok);
    CHECK(s.n <= BYTES);
}

int main(void)
{
    test_shadow();
    test_damage();
    return check_done();
}
