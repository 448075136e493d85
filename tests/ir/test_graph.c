/* SPDX-License-Identifier: MIT */
/* Graphs: what builders refuse, with a text that names node, expected and got; what the verifier
 * finds in a graph that was damaged; leaves, outputs and versions of states. */
#include "check.h"
#include "ir/graph.h"

static rlx_graph *g;
static rlx_value x, y, i32, flag, state, at;

static rlx_value input(const char *name, rlx_dtype t, int rank, rlx_dim a, rlx_dim b)
{
    return rlx_input(g, name, t, rank, (rlx_dim[]){a, b});
}

static void begin(void)
{
    rlx_graph_destroy(g);
    g = rlx_graph_create("g");
    x = input("x", RLX_F32, 2, 2, 3);
    y = input("y", RLX_F32, 2, 2, 4);
    i32 = input("i", RLX_I32, 2, 2, 3);
    flag = input("flag", RLX_BOOL, 2, 2, 3);
    state = rlx_state(g, "s", RLX_F32, 2, (rlx_dim[]){8, 3});
    at = rlx_input(g, "at", RLX_I32, 0, NULL);
}

/* ---- Builders -------------------------------------------------------------------------------- */

static void check_refused(rlx_value got, rlx_status status, const char *says, int line)
{
    rlx_error err = {0};
    check_that(got.id == 0, "gives RLX_NONE", __FILE__, line);
    check_error(rlx_graph_status(g, &err), status, &err, says, __FILE__, line);
    check_that(rlx_relu(g, x).id == 0, "nothing works after an error", __FILE__, line);
    check_error(rlx_graph_verify(g, &err), status, &err, says, __FILE__, line);
    begin();
}
#define REFUSED(call, says) check_refused((call), RLX_INVALID, (says), __LINE__)

static rlx_value generic(const char *op, const rlx_value *in, size_t n, const char *attributes)
{
    rlx_value out = RLX_NONE;
    rlx_op(g, op, in, n, attributes, &out, 1);
    return out;
}

static void test_refused_operands(void)
{
    begin();
    REFUSED(rlx_add(g, x, y), "add (node 6): operands expected with shapes that broadcast, got "
                              "f32[2,3] and f32[2,4]");
    REFUSED(rlx_add(g, x, i32), "add (node 6): operands 0 and 1 expected of the same type, got "
                                "f32[2,3] and i32[2,3]");
    REFUSED(rlx_exp(g, i32), "exp (node 6): operand 0 (x) expected of type f32, f16, bf16 or f64, "
                             "got i32[2,3]");
    REFUSED(rlx_exp(g, RLX_NONE), "operand 0 (x) expected, of type f32, f16, bf16 or f64, got "
                                  "none");
    REFUSED(rlx_add(g, x, RLX_NONE), "add (node 6): operand 1 (b) expected");
    REFUSED(rlx_relu(g, (rlx_value){99}), "operand 0 is value 99, but the graph has only 6 values");
    REFUSED(rlx_matmul(g, x, y), "matmul (node 6): operand 1 (b) expected with size 3 on axis 0, "
                                 "got f32[2,4]");
    REFUSED(rlx_where(g, x, x, x), "where (node 6): operand 0 (cond) expected of type bool");
    REFUSED(rlx_conv2d(g, x, x, RLX_NONE, NULL), "of rank 4, got f32[2,3]");
    REFUSED(generic("add", (rlx_value[]){x, x, x}, 3, NULL), "add (node 6): expected 2 operands, "
                                                             "got 3");
    REFUSED(generic("rope", &x, 1, NULL), "rope (node 6): expected 3 to 4 operands, got 1");
    REFUSED(generic("lstm", &x, 1, NULL), "lstm (node 6): expected at least 5 operands, got 1");
}

static void test_refused_attributes(void)
{
    begin();
    REFUSED(rlx_softmax(g, x, 2), "softmax (node 6): axis expected from -2 to 1, got 2");
    REFUSED(rlx_softmax(g, x, -3), "axis expected from -2 to 1, got -3");
    REFUSED(rlx_cast(g, x, RLX_NO_TYPE), "cast (node 6): attribute to is missing");
    REFUSED(rlx_cast(g, x, RLX_Q4_0), "attribute to: expected f32, f16");
    REFUSED(rlx_cast(g, x, (rlx_dtype)999), "attribute to: expected f32, f16");
    REFUSED(rlx_reshape(g, x, 2, (rlx_dim[]){2, 4}), "reshape (node 6): x is f32[2,3], which has "
                                                     "another number of elements than f32[2,4]");
    REFUSED(rlx_reshape(g, x, 20, (rlx_dim[20]){0}), "reshape: expected 0 to 16 entries, got 20");
    REFUSED(rlx_layer_norm(g, x, RLX_NONE, RLX_NONE, &(rlx_norm_desc){RLX_INIT(rlx_norm_desc),
                                                                      .eps = -1}), "eps must be");
    rlx_matmul_desc act = {RLX_INIT(rlx_matmul_desc), .trans_b = true, .act = (rlx_act)99};
    REFUSED(rlx_matmul_ex(g, x, x, RLX_NONE, RLX_NONE, &act),
            "matmul (node 6): attribute act expected from 0 to 7, got 99");
    rlx_slice_desc slice = {RLX_INIT(rlx_slice_desc), .axes = {.n = 17}};
    REFUSED(rlx_slice(g, x, &slice), "slice (node 6): attribute axes expected with 0 to 16 "
                                     "entries, got 17");
    slice.axes.n = -1;
    REFUSED(rlx_slice(g, x, &slice), "attribute axes expected with 0 to 16 entries, got -1");
    check_refused(generic("frob", &x, 1, NULL), RLX_NOT_FOUND, "operation 'frob' is not in the "
                                                               "catalogue", __LINE__);
    REFUSED(generic("softmax", &x, 1, "axis=one"), "softmax: attributes \"axis=one\": line 1, "
                                                   "column 6: expected an integer");
    REFUSED(generic("input", NULL, 0, NULL), "cannot be added through rlx_op; use rlx_input");
}

static void test_refused_leaves(void)
{
    begin();
    REFUSED(input("x", RLX_F32, 2, 1, 1), "input 'x': the name is taken");
    REFUSED(rlx_param(g, "x", RLX_F32, 0, NULL), "param 'x': the name is taken");
    REFUSED(input("", RLX_F32, 2, 1, 1), "expected a name, got none");
    REFUSED(input(NULL, RLX_F32, 2, 1, 1), "expected a name, got none");
    REFUSED(input("z", RLX_F32, 9, 1, 1), "input 'z': expected rank 0 to 8, got 9");
    REFUSED(input("z", RLX_F32, 2, 1, -1), "input 'z' (node 6): dimension 1: expected a number");
    REFUSED(input("z", RLX_F32, 2, 1, -50), "or a named dimension of this graph, got -50");
    REFUSED(input("z", RLX_F32, 2, (int64_t)1 << 40, 2), "at most 2^40 elements");
    REFUSED(input("z", RLX_NO_TYPE, 2, 1, 1), "expected an element type, got none");
    REFUSED(input("z", RLX_Q4_0, 2, 1, 32), "packed types are for weights");
    REFUSED(rlx_param(g, "z", RLX_Q4_0, 1, (rlx_dim[]){33}), "a multiple of 32 for type q4_0");
    rlx_dim n = rlx_dim_named(g, "n", 4);
    REFUSED(rlx_param(g, "z", RLX_F32, 1, &n), "expected a number, got a named dimension");
    REFUSED(rlx_constant(g, RLX_F32, 1, (rlx_dim[]){2}, "1234", 4), "expected 8 bytes of data");
    REFUSED(rlx_constant(g, RLX_F32, 1, (rlx_dim[]){1}, NULL, 4), "expected data, got NULL");
    REFUSED(rlx_scalar(g, RLX_Q4_0, 1), "expected rank 1 or more for packed type q4_0");
}

static void test_refused_outputs(void)
{
    rlx_error err = {0};
    begin();
    rlx_output(g, "y", x);
    rlx_output(g, "y", x);
    CHECK_FAILS(rlx_graph_status(g, &err), RLX_INVALID, &err, "output 'y': the name is taken");
    begin();
    rlx_output(g, "y", RLX_NONE);
    CHECK_FAILS(rlx_graph_status(g, &err), RLX_INVALID, &err, "output 'y': expected a name and a");
    begin();
    rlx_output(g, NULL, x);
    CHECK_FAILS(rlx_graph_status(g, &err), RLX_INVALID, &err, "output ''");
}

/* ---- States ---------------------------------------------------------------------------------- */

static void test_states(void)
{
    rlx_error err = {0};
    begin();
    rlx_value first = rlx_state_write(g, state, x, at, 0);
    rlx_value second = rlx_state_write(g, first, x, at, 0);
    CHECK(second.id && g->values[second.id].state == state.id);
    CHECK_OK(rlx_graph_verify(g, &err), &err);
    CHECK(rlx_relu(g, second).id != 0);
    REFUSED(rlx_relu(g, first), "relu (node 9): operand 0 is state 's' as it was before node 7 "
                                "wrote it; expected the result of that node");
    rlx_state_write(g, state, x, at, 0);
    REFUSED(rlx_state_write(g, state, x, at, 0), "operand 0 is state 's' as it was before node 6");
    REFUSED(rlx_state_write(g, x, x, at, 0), "state: expected a state or the result of "
                                             "state_write, got the result of input");
    REFUSED(rlx_state_write(g, state, y, at, 0), "state_write (node 6): operand 1 (update) "
                                                 "expected with size 3 on axis 1, got f32[2,4]");
    REFUSED(rlx_state_write(g, state, x, x, 0), "operand 2 (position) expected of type i32 or i64");
}

/* ---- The verifier on damaged graphs ---------------------------------------------------------- */

static void check_damage(const char *says, int line)
{
    rlx_error err = {0};
    check_error(rlx_graph_verify(g, &err), RLX_INVALID, &err, says, __FILE__, line);
    check_that(rlx_graph_verify(g, NULL) == RLX_INVALID, "without a text", __FILE__, line);
}
#define DAMAGED(says) check_damage((says), __LINE__)

static rx_node *last_node(void)
{
    return &g->nodes[g->n_nodes - 1];
}

static void test_damage(void)
{
    begin();
    rlx_value sum = rlx_named(g, rlx_add(g, x, x), "sum");
    CHECK_OK(rlx_graph_verify(g, NULL), NULL);
    g->values[sum.id].shape.dim[1] = 7;
    DAMAGED("add 'sum' (node 6): result 0 expected f32[2,3], recorded f32[2,7]");
    g->values[sum.id].shape.dim[1] = 3;
    g->values[sum.id].dtype = RLX_F16;
    DAMAGED("result 0 expected f32[2,3], recorded f16[2,3]");
    g->values[sum.id].dtype = RLX_F32;
    last_node()->in = (uint32_t[]){x.id, y.id};
    DAMAGED("add 'sum' (node 6): operands expected with shapes that broadcast");
    last_node()->in = (uint32_t[]){x.id, 0};
    DAMAGED("add 'sum' (node 6): operand 1 (b) expected");
    last_node()->in = (uint32_t[]){x.id, sum.id};
    DAMAGED("add 'sum' (node 6): uses a value that a later node makes");
    last_node()->in = (uint32_t[]){x.id, x.id};
    g->values[sum.id].node = 0;
    DAMAGED("does not own its results");
    g->values[sum.id].node = 6;
    last_node()->n_out = 2;
    DAMAGED("has results outside the list of values");
    last_node()->n_out = 1;
    last_node()->op = (rx_op)RX_N_OPS;
    DAMAGED("node 6: unknown operation");
    last_node()->op = RX_OP_add;
    rlx_output(g, "y", sum);
    g->outputs[0].value = 77;
    DAMAGED("output 'y': names no value of the graph");
}

static void test_damaged_states(void)
{
    begin();
    rlx_value before = rlx_relu(g, state);
    rlx_value after = rlx_state_write(g, state, x, at, 0);
    rlx_value use = rlx_relu(g, after);
    CHECK_OK(rlx_graph_verify(g, NULL), NULL);
    CHECK(before.id && use.id);
    last_node()->in = &state.id;
    DAMAGED("relu (node 8): uses a version of a state that was overwritten before");
}

/* ---- Looking --------------------------------------------------------------------------------- */

static void test_looking(void)
{
    rlx_leaf_info info;
    begin();
    rlx_output(g, "out", x);
    rlx_output(g, "again", x);
    CHECK(rlx_graph_n_nodes(g) == 6 && !strcmp(rlx_graph_name(g), "g"));
    CHECK(rlx_graph_leaf(g, RLX_LEAF_INPUT, 1, &info) && !strcmp(info.name, "y") &&
          info.value.id == y.id && info.dtype == RLX_F32 && info.shape.dim[1] == 4);
    CHECK(rlx_graph_leaf(g, RLX_LEAF_STATE, 0, &info) && !strcmp(info.name, "s"));
    CHECK(rlx_graph_leaf(g, RLX_LEAF_OUTPUT, 1, &info) && !strcmp(info.name, "again"));
    CHECK(!rlx_graph_leaf(g, RLX_LEAF_PARAM, 0, &info));
    CHECK(!rlx_graph_leaf(g, (rlx_leaf)9, 0, &info));
    CHECK(rlx_value_dtype(g, flag) == RLX_BOOL && rlx_value_dtype(g, RLX_NONE) == RLX_NO_TYPE);
    CHECK(rlx_value_dtype(g, (rlx_value){1000}) == RLX_NO_TYPE);
    CHECK(rlx_value_shape(g, at).rank == 0);
    size_t n = 0;
    while (rlx_op_name(n))
        n++;
    CHECK(n == RX_N_OPS);
    rlx_graph_destroy(NULL);
}

int main(void)
{
    test_refused_operands();
    test_refused_attributes();
    test_refused_leaves();
    test_refused_outputs();
    test_states();
    test_damage();
    test_damaged_states();
    test_looking();
    rlx_graph_destroy(g);
    return check_done();
}
