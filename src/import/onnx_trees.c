/* SPDX-License-Identifier: MIT */
/* Ensembles of trees of ai.onnx.ml. The nodes of all trees are tables; as many steps as the deepest
 * tree has levels gather the next node of every tree, and leaves lead to themselves. */
#include <stdlib.h>
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

#define MAX_NODES (1 << 22)
#define MAX_LEVELS 512

typedef struct place { /* of a node in the lists */
    int64_t tree, node, at;
} place;

typedef struct forest {
    int64_t n, n_roots, classes;
    const int64_t *feature;
    const float *split;
    int64_t *yes, *no, *root, *level;
    uint8_t *mode;
    place *places; /* sorted */
    float *leaf;   /* [n, classes] */
    bool positive, single; /* weights: none below 0, all of class `only` */
    int64_t only;
    int64_t levels;
} forest;

/* ---- Reading --------------------------------------------------------------------------------- */

static const char *const modes[] = {"LEAF", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT",
                                    "BRANCH_EQ", "BRANCH_NEQ"};
enum { N_MODES = sizeof modes / sizeof modes[0] };

static const int64_t *ints(rx_onnx_call *c, const char *name, size_t n)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    if (a && a->type == RX_ONNX_INTS && a->n == n && n)
        return a->ints;
    rx_onnx_fail(c, RLX_INVALID, "expected %zu numbers in %s", n, name);
    return NULL;
}

static const float *floats(rx_onnx_call *c, const char *name, size_t n)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    if (a && a->type == RX_ONNX_FLOATS && a->n == n && n)
        return a->floats;
    rx_onnx_fail(c, RLX_UNSUPPORTED, "expected %zu numbers of f32 in %s", n, name);
    return NULL;
}

static size_t length(const rx_onnx_call *c, const char *name)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, name);
    return a ? a->n : 0;
}

static int by_node(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->tree != y->tree ? (x->tree < y->tree ? -1 : 1)
                              : (x->node > y->node) - (x->node < y->node);
}

/* The place of a node in the lists, -1 after rx_onnx_fail. */
static int64_t find(rx_onnx_call *c, const forest *f, int64_t tree, int64_t node)
{
    const place key = {tree, node, 0};
    const place *p = bsearch(&key, f->places, (size_t)f->n, sizeof key, by_node);
    if (p)
        return p->at;
    rx_onnx_fail(c, RLX_INVALID, "tree %lld has no node %lld", (long long)tree, (long long)node);
    return -1;
}

static bool read_modes(rx_onnx_call *c, forest *f)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "nodes_modes");
    for (int64_t i = 0; i < f->n; i++) {
        int m = 0;
        if (!a || a->type != RX_ONNX_STRINGS || a->n != (size_t)f->n)
            m = N_MODES;
        while (m < N_MODES && (a->strings[i].bytes != strlen(modes[m]) ||
                               memcmp(a->strings[i].data, modes[m], a->strings[i].bytes)))
            m++;
        if (m == N_MODES) {
            rx_onnx_fail(c, RLX_INVALID, "node %lld has a mode that is not known", (long long)i);
            return false;
        }
        f->mode[i] = (uint8_t)m;
    }
    return true;
}

static bool alloc_forest(rx_onnx_call *c, forest *f)
{
    rx_arena *a = &c->b->arena;
    const uint64_t n = (uint64_t)f->n;
    f->yes = rx_arena_array_zero(a, n, sizeof *f->yes);
    f->no = rx_arena_array_zero(a, n, sizeof *f->no);
    f->root = rx_arena_array_zero(a, n, sizeof *f->root);
    f->level = rx_arena_array_zero(a, n, sizeof *f->level);
    f->mode = rx_arena_array_zero(a, n, sizeof *f->mode);
    f->places = rx_arena_array_zero(a, n, sizeof *f->places);
    f->leaf = rx_arena_array_zero(a, n * (uint64_t)f->classes, sizeof *f->leaf);
    if (f->yes && f->no && f->root && f->level && f->mode && f->places && f->leaf)
        return true;
    rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    return false;
}

/* Places of children; nodes without a parent are roots, others get their level. */
static bool link_nodes(rx_onnx_call *c, forest *f, const int64_t *tree)
{
    const int64_t *yes = ints(c, "nodes_truenodeids", (size_t)f->n);
    const int64_t *no = ints(c, "nodes_falsenodeids", (size_t)f->n);
    if (!yes || !no)
        return false;
    for (int64_t i = 0; i < f->n; i++) {
        const bool leaf = f->mode[i] == 0;
        f->yes[i] = leaf ? i : find(c, f, tree[i], yes[i]);
        f->no[i] = leaf ? i : find(c, f, tree[i], no[i]);
        if (f->yes[i] < 0 || f->no[i] < 0)
            return false;
        if (!leaf)
            f->level[f->yes[i]] = f->level[f->no[i]] = -1;
    }
    for (int64_t i = 0; i < f->n; i++)
        if (f->level[i] == 0)
            f->root[f->n_roots++] = i;
    return true;
}

/* The levels from the roots, breadth first; a node that is reached twice is no tree's. */
static bool count_levels(rx_onnx_call *c, forest *f)
{
    int64_t *queue = rx_arena_array_zero(&c->b->arena, (uint64_t)f->n, sizeof *queue);
    int64_t end = f->n_roots;
    if (!queue) {
        rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
        return false;
    }
    memcpy(queue, f->root, (size_t)end * sizeof *queue);
    for (int64_t i = 0; i < end; i++) {
        const int64_t at = queue[i], child[2] = {f->yes[at], f->no[at]};
        for (int k = 0; k < 2 && f->mode[at]; k++) {
            if (k && child[1] == child[0])
                continue;
            if (f->level[child[k]] != -1 || f->level[at] >= MAX_LEVELS) {
                rx_onnx_fail(c, RLX_INVALID, "its nodes are no trees of at most %d levels",
                             MAX_LEVELS);
                return false;
            }
            f->level[child[k]] = f->level[at] + 1;
            f->levels = f->level[at] + 1 > f->levels ? f->level[at] + 1 : f->levels;
            queue[end++] = child[k];
        }
    }
    return f->n_roots > 0 || (rx_onnx_fail(c, RLX_INVALID, "it has no root"), false);
}

/* Lists that begin with `kind` ("target" or "class") give the weights of leaves. */
static bool read_leaves(rx_onnx_call *c, forest *f, bool is_class)
{
    const size_t n = length(c, is_class ? "class_ids" : "target_ids");
    const int64_t *tree = ints(c, is_class ? "class_treeids" : "target_treeids", n);
    const int64_t *node = ints(c, is_class ? "class_nodeids" : "target_nodeids", n);
    const int64_t *id = ints(c, is_class ? "class_ids" : "target_ids", n);
    const float *w = floats(c, is_class ? "class_weights" : "target_weights", n);
    if (!tree || !node || !id || !w)
        return false;
    f->positive = f->single = true;
    f->only = id[0];
    for (size_t i = 0; i < n; i++) {
        const int64_t at = find(c, f, tree[i], node[i]);
        if (at < 0 || id[i] < 0 || id[i] >= f->classes) {
            rx_onnx_fail(c, RLX_INVALID, "weight %zu is of target %lld; expected 0 to %lld", i,
                         (long long)id[i], (long long)f->classes - 1);
            return false;
        }
        f->leaf[at * f->classes + id[i]] += w[i];
        f->positive = f->positive && w[i] >= 0;
        f->single = f->single && id[i] == id[0];
    }
    return true;
}

static bool check_features(rx_onnx_call *c, const forest *f, rlx_dim count)
{
    for (int64_t i = 0; i < f->n; i++)
        if (f->mode[i] && (f->feature[i] < 0 || f->feature[i] >= count)) {
            rx_onnx_fail(c, RLX_INVALID, "node %lld reads feature %lld of %lld", (long long)i,
                         (long long)f->feature[i], (long long)count);
            return false;
        }
    return true;
}

static bool read_forest(rx_onnx_call *c, forest *f, bool is_class)
{
    const rlx_shape x = rlx_value_shape(c->g, rx_onnx_in(c, 0));
    const size_t n = length(c, "nodes_nodeids");
    const int64_t *node = ints(c, "nodes_nodeids", n), *tree = ints(c, "nodes_treeids", n);
    f->n = (int64_t)n;
    f->feature = ints(c, "nodes_featureids", n);
    f->split = floats(c, "nodes_values", n);
    if (!node || !tree || !f->feature || !f->split)
        return false;
    if (x.rank != 2 || x.dim[1] < 1 || !n || n > MAX_NODES ||
        n * (uint64_t)f->classes > 4 * (uint64_t)MAX_NODES) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "expected x [N, F] and 1 to %d nodes", MAX_NODES);
        return false;
    }
    if (!alloc_forest(c, f))
        return false;
    for (int64_t i = 0; i < f->n; i++)
        f->places[i] = (place){tree[i], node[i], i};
    qsort(f->places, n, sizeof *f->places, by_node);
    return read_modes(c, f) && link_nodes(c, f, tree) && count_levels(c, f) &&
           check_features(c, f, x.dim[1]) && read_leaves(c, f, is_class);
}

/* ---- Building -------------------------------------------------------------------------------- */

static rlx_value table(rx_onnx_call *c, const forest *f, rlx_dtype t, const void *data)
{
    const rlx_dim n = f->n;
    return rlx_constant(c->g, t, 1, &n, data, (size_t)n * (t == RLX_U8 ? 1 : t == RLX_F32 ? 4 : 8));
}

/* Whether v passes the test of its node; `mode` is the number of the test where they differ. */
static rlx_value test(rx_onnx_call *c, const forest *f, rlx_value v, rlx_value split,
                      rlx_value mode)
{
    static rlx_value (*const compare[N_MODES])(rlx_graph *, rlx_value, rlx_value) = {
        NULL, rlx_le, rlx_lt, rlx_ge, rlx_gt, rlx_eq, rlx_ne};
    bool used[N_MODES] = {false};
    rlx_value yes = RLX_NONE;
    for (int64_t i = 0; i < f->n; i++)
        used[f->mode[i]] = true;
    for (int m = 1; m < N_MODES; m++) {
        if (!used[m])
            continue;
        const rlx_value one = compare[m](c->g, v, split);
        yes = !yes.id ? one : rlx_where(c->g, rlx_eq(c->g, mode, rlx_scalar(c->g, RLX_U8, m)),
                                        one, yes);
    }
    return yes;
}

/* The leaf of each row of x and tree: [N, trees]. */
static rlx_value find_leaves(rx_onnx_call *c, const forest *f, rlx_value x, rlx_value missing)
{
    rlx_graph *g = c->g;
    const rlx_value feature = table(c, f, RLX_I64, f->feature), mode = table(c, f, RLX_U8, f->mode);
    const rlx_value split = rlx_cast(g, table(c, f, RLX_F32, f->split), rlx_value_dtype(g, x));
    const rlx_value yes = table(c, f, RLX_I64, f->yes), no = table(c, f, RLX_I64, f->no);
    const rlx_dim dims[2] = {rlx_value_shape(g, x).dim[0], f->n_roots};
    rlx_value at = rlx_expand(g, rx_onnx_i64s(g, f->root, f->n_roots), 2, dims);
    for (int64_t i = 0; i < f->levels; i++) {
        const rlx_value v = rlx_gather_elements(g, x, rlx_gather(g, feature, at, 0), 1);
        rlx_value go = test(c, f, v, rlx_gather(g, split, at, 0), rlx_gather(g, mode, at, 0));
        if (missing.id)
            go = rlx_or(g, go, rlx_and(g, rlx_is_nan(g, v), rlx_gather(g, missing, at, 0)));
        at = rlx_where(g, go, rlx_gather(g, yes, at, 0), rlx_gather(g, no, at, 0));
    }
    return at;
}

/* nodes_missing_value_tracks_true as a bool table; RLX_NONE: none does. */
static rlx_value missing_table(rx_onnx_call *c, const forest *f)
{
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "nodes_missing_value_tracks_true");
    bool any = false;
    for (size_t i = 0; a && a->type == RX_ONNX_INTS && i < a->n; i++)
        any = any || a->ints[i];
    if (!any || a->n != (size_t)f->n)
        return RLX_NONE;
    return rlx_cast(c->g, table(c, f, RLX_I64, a->ints), RLX_BOOL);
}

/* The weights of all trees joined, with base_values: [N, classes]. */
static rlx_value join(rx_onnx_call *c, const forest *f)
{
    rlx_graph *g = c->g;
    const rlx_value x = rx_onnx_in(c, 0), missing = missing_table(c, f);
    const rlx_dim dims[2] = {f->n, f->classes};
    const int64_t trees = 1;
    const rlx_value leaf = rlx_constant(g, RLX_F32, 2, dims, f->leaf,
                                        (size_t)(f->n * f->classes) * sizeof *f->leaf);
    const bool wide = rlx_value_dtype(g, x) == RLX_F64;
    const rlx_value at = find_leaves(c, f, wide ? x : rlx_cast(g, x, RLX_F32), missing);
    const bool mean = rx_onnx_is(c, "aggregate_function", "AVERAGE", "SUM");
    if (!mean && !rx_onnx_is(c, "aggregate_function", "SUM", "SUM"))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "an aggregate_function other than SUM and AVERAGE");
    const rlx_value y = rlx_reduce(g, mean ? RLX_REDUCE_MEAN : RLX_REDUCE_SUM,
                                   rlx_gather(g, leaf, at, 0), &trees, 1, false);
    const rx_onnx_attr *base = rx_onnx_attr_find(c, "base_values");
    if (!base || base->type != RX_ONNX_FLOATS || !base->n)
        return y;
    const rlx_dim n = (rlx_dim)base->n;
    return rlx_add(g, y, rlx_constant(g, RLX_F32, 1, &n, base->floats, base->n * sizeof(float)));
}

rlx_value rx_onnx_tree_regressor(rx_onnx_call *c)
{
    forest f = {.classes = rx_onnx_int(c, "n_targets", 1)};
    if (f.classes < 1 || f.classes > MAX_NODES)
        return rx_onnx_fail(c, RLX_INVALID, "%lld targets", (long long)f.classes);
    if (!read_forest(c, &f, false))
        return RLX_NONE;
    const rlx_value y = join(c, &f);
    return y.id ? rx_onnx_ml_transform(c, y) : y;
}

rlx_value rx_onnx_tree_classifier(rx_onnx_call *c)
{
    forest f = {0};
    const rlx_value names = rx_onnx_ml_labels(c, "classlabels_int64s", &f.classes);
    if (!names.id || !read_forest(c, &f, true))
        return RLX_NONE;
    const bool two = f.classes == 2;
    rlx_value y = join(c, &f);
    if (two && f.single && y.id) /* the column of the only class that has weights */
        y = rlx_narrow(c->g, y, 1, f.only, 1);
    return y.id ? rx_onnx_ml_classify(c, y, names, two, f.positive) : y;
}
