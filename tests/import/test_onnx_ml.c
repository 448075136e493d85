/* SPDX-License-Identifier: MIT */
/* Ensembles of trees in ONNX models whose lists are wrong: each gives its sentence. What right ones
 * compute is in onnx-cases/. */
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/onnx_model.h"

static rlx_error err;

enum { N = 3 };

/* A root with two leaves, which target 0 has weights of. */
typedef struct tree {
    int64_t node[N], yes[N], no[N], feature[N], leaf[2], target[2];
    const char *mode[N];
} tree;

static const tree good = {{0, 1, 2}, {1, 0, 0}, {2, 0, 0}, {1, 0, 0}, {1, 2}, {0, 0},
                          {"BRANCH_LEQ", "LEAF", "LEAF"}};

static void add_attr(blob *node, blob *a, const char *name, int type)
{
    pb_text(a, 1, name);
    pb_int(a, 20, (uint64_t)type);
    pb_message(node, 5, a);
}

static void add_ints(blob *node, const char *name, const int64_t *v, int n)
{
    blob a = {0};
    for (int i = 0; i < n; i++)
        pb_int(&a, 8, (uint64_t)v[i]);
    add_attr(node, &a, name, 7);
}

static void add_floats(blob *node, const char *name, int n)
{
    static const float v[N] = {0.5f, 1, 2};
    blob a = {0};
    pb_bytes(&a, 7, v, (size_t)n * sizeof v[0]); /* packed */
    add_attr(node, &a, name, 6);
}

static rlx_status build(const tree *t)
{
    static const int64_t zeros[N] = {0}, in[] = {2, 3, -1}, out[] = {2, 1, -1};
    blob n = onnx_node("TreeEnsembleRegressor", "x", "y"), modes = {0}, g = {0}, set = {0};
    blob x = onnx_port("x", 1, in), y = onnx_port("y", 1, out);
    pb_text(&n, 7, "ai.onnx.ml");
    add_ints(&n, "nodes_treeids", zeros, N);
    add_ints(&n, "nodes_nodeids", t->node, N);
    add_ints(&n, "nodes_featureids", t->feature, N);
    add_ints(&n, "nodes_truenodeids", t->yes, N);
    add_ints(&n, "nodes_falsenodeids", t->no, N);
    add_floats(&n, "nodes_values", N);
    for (int i = 0; i < N; i++)
        pb_text(&modes, 9, t->mode[i]);
    add_attr(&n, &modes, "nodes_modes", 8);
    add_ints(&n, "target_treeids", zeros, 2);
    add_ints(&n, "target_nodeids", t->leaf, 2);
    add_ints(&n, "target_ids", t->target, 2);
    add_floats(&n, "target_weights", 2);
    pb_message(&g, 1, &n);
    pb_text(&g, 2, "one");
    pb_message(&g, 11, &x);
    pb_message(&g, 12, &y);
    blob b = onnx_model(&g, 17);
    pb_text(&set, 1, "ai.onnx.ml");
    pb_int(&set, 2, 3);
    pb_message(&b, 8, &set);
    const rlx_status st = onnx_build_bytes(b.data, b.n, &err);
    blob_free(&b);
    return st;
}

int main(void)
{
    tree t = good;
    CHECK_OK(build(&t), &err);
    t.mode[0] = "BRANCH_NEAR";
    CHECK_FAILS(build(&t), RLX_INVALID, &err, "node 0 has a mode that is not known");
    t = good;
    t.yes[0] = 7;
    CHECK_FAILS(build(&t), RLX_INVALID, &err, "tree 0 has no node 7");
    t = good;
    t.yes[0] = 0; /* its own child, so that nothing is left without a parent */
    t.mode[2] = "BRANCH_LT";
    t.yes[2] = t.no[2] = 1;
    CHECK_FAILS(build(&t), RLX_INVALID, &err, "it has no root");
    t = good;
    t.mode[1] = "BRANCH_LT"; /* leads to a leaf that the root has too */
    t.yes[1] = t.no[1] = 2;
    CHECK_FAILS(build(&t), RLX_INVALID, &err, "its nodes are no trees of at most 512 levels");
    t = good;
    t.feature[0] = 3;
    CHECK_FAILS(build(&t), RLX_INVALID, &err, "node 0 reads feature 3 of 3");
    t = good;
    t.target[1] = 1;
    CHECK_FAILS(build(&t), RLX_INVALID, &err, "weight 1 is of target 1; expected 0 to 0");
    t = good;
    t.leaf[0] = 9;
    CHECK_FAILS(build(&t), RLX_INVALID, &err, "tree 0 has no node 9");
    return check_done();
}
