/* SPDX-License-Identifier: MIT */
/* Operations that programs register (rlx/custom.h): what registration refuses, nodes in builders
 * and text, functions on the CPU with views, absent operands and unwanted results, decompositions,
 * and a sentence where a device can do nothing. Kernels on GPUs, if some are there. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"

static rlx_error err;

/* ---- Operations ------------------------------------------------------------------------------ */

static int64_t count(const rlx_op_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->shape.rank; i++)
        n *= t->shape.dim[i];
    return n;
}

/* a of [.., n], b? of the same shape -> a + ints[0] b, and [n, 2]: another shape of named sizes. */
static rlx_status mix_shape(void *user, rlx_op_call *c, rlx_error *e)
{
    const rlx_op_tensor *a = &c->in[0];
    CHECK(c->n_out == 2 && c->graph && user == (void *)&err && !a->data);
    if (a->shape.rank < 1) {
        snprintf(e->text, sizeof e->text, "a is a scalar");
        return RLX_INVALID;
    }
    c->out[0] = *a;
    c->out[1] = (rlx_op_tensor){RLX_I32, {2, {a->shape.dim[a->shape.rank - 1], 2}}, NULL};
    return RLX_OK;
}

static rlx_status mix_cpu(void *user, const rlx_op_call *c)
{
    const float *a = c->in[0].data, *b = c->n_in > 1 ? c->in[1].data : NULL;
    float *y = c->out[0].data;
    int32_t *z = c->out[1].data;
    CHECK(user == (void *)&err && !c->graph && y && z && c->out[1].shape.dim[1] == 2);
    if (c->attrs->floats[1] == 13)
        return RLX_CANCELLED;
    for (int64_t i = 0; i < count(&c->in[0]); i++)
        y[i] = a[i] + (b ? (float)c->attrs->ints.v[0] * b[i] : 0);
    for (int64_t i = 0; i < count(&c->out[1]); i++)
        z[i] = (int32_t)i;
    return RLX_OK;
}

static rlx_status same_shape(void *user, rlx_op_call *c, rlx_error *e)
{
    (void)user, (void)e;
    c->out[0] = c->in[0];
    return RLX_OK;
}

/* -x floats[0], without any kernel. */
static rlx_status turn_decompose(void *user, rlx_graph *g, const rlx_custom_desc *attrs,
                                 const rlx_value *in, size_t n_in, rlx_value *out)
{
    CHECK(n_in == 1 && !user);
    out[0] = rlx_neg(g, rlx_mul(g, in[0], rlx_scalar(g, RLX_F32, attrs->floats[0])));
    return RLX_OK;
}

/* The result has another shape than the rule says. */
static rlx_status wrong_decompose(void *user, rlx_graph *g, const rlx_custom_desc *attrs,
                                  const rlx_value *in, size_t n_in, rlx_value *out)
{
    (void)user, (void)attrs, (void)n_in;
    out[0] = rlx_reduce(g, RLX_REDUCE_SUM, in[0], NULL, 0, false);
    return RLX_OK;
}

static rlx_status no_type(void *user, rlx_op_call *c, rlx_error *e)
{
    (void)user, (void)c, (void)e;
    return RLX_OK;
}

static rlx_status one_group(void *user, const rlx_op_call *c, rlx_op_grid *grid, rlx_error *e)
{
    (void)user, (void)c, (void)e;
    grid->groups[0] = grid->groups[1] = grid->groups[2] = 1;
    return RLX_OK;
}

/* A module with a header, an entry point and a binding, as far as registration looks. */
#define ENTRY 5u << 16 | 15, 5, 1, 0x6e69616d, 0
#define BINDING(i) 4u << 16 | 71, 2, 33, i
static const uint32_t module[] = {0x07230203, 0x10300, 0, 8, 0, ENTRY, BINDING(1)};

static const rlx_op_desc mix = {RLX_INIT(rlx_op_desc), .name = "mix", .min_in = 1, .max_in = 2,
                                .n_out = 2, .shape = mix_shape, .cpu = mix_cpu, .user = &err};
static const rlx_op_desc turn = {RLX_INIT(rlx_op_desc), .name = "turn", .min_in = 1,
                                 .shape = same_shape, .decompose = turn_decompose};
static const rlx_op_desc wrong = {RLX_INIT(rlx_op_desc), .name = "wrong", .min_in = 1,
                                  .shape = same_shape, .decompose = wrong_decompose};
static const rlx_op_desc typeless = {RLX_INIT(rlx_op_desc), .name = "typeless", .min_in = 1,
                                     .shape = no_type, .decompose = turn_decompose};
static const rlx_op_desc gpu_only = {RLX_INIT(rlx_op_desc), .name = "gpu_only", .min_in = 1,
                                     .shape = same_shape, .spirv = module, .grid = one_group,
                                     .spirv_words = sizeof module / sizeof module[0]};

/* ---- Registration ---------------------------------------------------------------------------- */

static void refuse(rlx_op_desc d, const char *why)
{
    CHECK_FAILS(rlx_op_register(&d, &err), RLX_INVALID, &err, why);
}

static void refuse_spirv(const uint32_t *words, size_t n, const char *why)
{
    rlx_op_desc d = gpu_only;
    d.name = "new_name";
    d.spirv = words;
    d.spirv_words = n;
    refuse(d, why);
}

static void test_registration(void)
{
    rlx_op_desc d = mix;
    CHECK_OK(rlx_op_register(&mix, &err), &err);
    CHECK_OK(rlx_op_register(&turn, &err), &err);
    CHECK_OK(rlx_op_register(&wrong, &err), &err);
    CHECK_OK(rlx_op_register(&typeless, &err), &err);
    CHECK_OK(rlx_op_register(&gpu_only, &err), &err);
    refuse(mix, "'mix': the name is taken");
    refuse((d.name = "matmul", d), "taken by the catalogue");
    refuse((d.name = "a b", d), "expected a name of 1 to 63");
    refuse((d.name = "", d), "expected a name of 1 to 63");
    d.name = "new_name";
    refuse((d.max_in = 7, d), "1 to 7 operands and 2 results; expected at most 8");
    d.max_in = 2;
    refuse((d.shape = NULL, d), "'new_name' has no shape rule");
    d.shape = mix_shape;
    refuse((d.cpu = NULL, d), "neither a function for the CPU nor SPIR-V nor a decomposition");
    refuse_spirv(module, 4, "of 4 words does not begin with a header");
    refuse_spirv(module + 1, 6, "does not begin with a header and 0x07230203");
    refuse_spirv(module, sizeof module / 4 - 1, "at word 10 of its SPIR-V has 4 words, of 3");
    const uint32_t none[] = {0x07230203, 0x10300, 0, 8, 0, BINDING(0)};
    refuse_spirv(none, sizeof none / 4, "has 0 entry points");
    const uint32_t far[] = {0x07230203, 0x10300, 0, 8, 0, ENTRY, BINDING(2)};
    refuse_spirv(far, sizeof far / 4, "uses binding 2; expected 0 to 1");
    const uint32_t stuck[] = {0x07230203, 0x10300, 0, 8, 0, 15};
    refuse_spirv(stuck, sizeof stuck / 4, "at word 5 of its SPIR-V has 0 words");
    d = gpu_only;
    d.name = "new_name";
    refuse((d.grid = NULL, d), "no function `grid`");
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static const char text[] = "graph \"c\" {\n"
                           "  dim n <= 4\n"
                           "  %1: f32[n,3] = input \"a\"\n"
                           "  %2: f32[3,n] = input \"b\"\n"
                           "  %3: f32[n,3] = transpose(%2) {perm=[1,0]}\n"
                           "  %4: f32[n,3], %5: i32[3,2] = custom(%1, %3) {op=\"mix\", ints=[-2], "
                           "floats=[0.5]} \"both\"\n"
                           "  %6: f32[n,3], %7: i32[3,2] = custom(%1) {op=\"mix\"}\n"
                           "  %8: f32[n,3] = custom(%4) {op=\"turn\", floats=[3]}\n"
                           "  output \"y\" = %8\n"
                           "  output \"one\" = %6\n"
                           "  output \"places\" = %5\n"
                           "}\n";

static void test_text(void)
{
    rlx_graph *g = NULL;
    char *printed = NULL;
    rlx_attr_info a = {RLX_INIT(rlx_attr_info)};
    CHECK_OK(rlx_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(rlx_graph_print(g, &printed, NULL, &err), &err);
    if (!CHECK(printed && !strcmp(printed, text)))
        printf("%s", printed);
    CHECK_OK(rlx_graph_verify(g, &err), &err);
    CHECK_OK(rlx_node_attr(g, 3, 0, &a, &err), &err);
    CHECK(a.kind == RLX_ATTR_TEXT && !strcmp(a.name, "op") && !strcmp(a.text, "mix"));
    rlx_free(printed);
    rlx_graph_destroy(g);
}

static void fail_node(const char *op, size_t n_in, int rank, const char *why)
{
    rlx_graph *g = rlx_graph_create("c");
    rlx_value x = rlx_input(g, "x", RLX_F32, rank, (rlx_dim[]){4}), in[] = {x, x, x};
    CHECK(!rlx_custom(g, in, n_in, &(rlx_custom_desc){RLX_INIT(rlx_custom_desc), .op = op}).id);
    CHECK_FAILS(rlx_graph_status(g, &err), RLX_INVALID, &err, why);
    rlx_graph_destroy(g);
}

static void test_mistakes(void)
{
    fail_node("mux", 1, 1, "op is 'mux': no operation of that name");
    fail_node(NULL, 1, 1, "op is ''");
    fail_node("mix", 3, 1, "'mix' expected 1 to 2 operands, got 3");
    fail_node("mix", 0, 1, "'mix' expected 1 to 2 operands, got 0");
    fail_node("mix", 1, 0, "'mix': a is a scalar");
    fail_node("typeless", 1, 1, "gave result 0 type 0 and rank 0");
}

/* ---- Devices --------------------------------------------------------------------------------- */

static rlx_status open_session(const char *device, const rlx_graph *g, rlx_session **s)
{
    rlx_device *d = NULL;
    *s = NULL;
    CHECK_OK(rlx_device_open(device, NULL, &d, &err), &err);
    rlx_status st = rlx_session_create(d, g, NULL, s, &err);
    rlx_device_close(d);
    return st;
}

static void test_run(const char *device)
{
    enum { ROWS = 2, N = ROWS * 3 };
    const float a[N] = {1, 2, 3, 4, 5, 6}, b[N] = {10, 40, 20, 50, 30, 60}; /* b: by columns */
    float y[N] = {0}, one[N] = {0};
    int32_t places[6] = {0};
    rlx_graph *g = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK(open_session(device, g, &s) == RLX_OK);
    CHECK_OK(rlx_session_bind(s, "n", ROWS, &err), &err);
    const rlx_const_tensor in[] = {{"a", a, sizeof a}, {"b", b, sizeof b}};
    const rlx_tensor out[] = {{"y", y, sizeof y}, {"one", one, sizeof one},
                              {"places", places, sizeof places}};
    CHECK_OK(rlx_run(s, in, 2, out, 3, &err), &err);
    for (int i = 0; i < N && strcmp(device, "null"); i++)
        CHECK(y[i] == -3 * (a[i] - 2 * (float)(10 * (i + 1))) && one[i] == a[i] && places[i] == i);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
}

/* A graph of one node, whose session cannot be made or run. */
static rlx_status run_one(const char *device, const char *op, double second)
{
    const float x[4] = {1, 2, 3, 4};
    float y[4];
    rlx_graph *g = rlx_graph_create("one");
    rlx_session *s = NULL;
    rlx_value v = rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){4});
    rlx_output(g, "y", rlx_custom(g, &v, 1, &(rlx_custom_desc){RLX_INIT(rlx_custom_desc),
                                                               .op = op, .floats = {0, second}}));
    rlx_status st = open_session(device, g, &s);
    if (st == RLX_OK)
        st = rlx_run(s, &(rlx_const_tensor){"x", x, sizeof x}, 1, &(rlx_tensor){"y", y, sizeof y},
                     1, &err);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    return st;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* The words of the kernel in examples/custom_op.c; 0 when it cannot be read. */
static size_t read_words(uint32_t *words, size_t cap)
{
    static char source[1 << 16];
    char path[4096];
    const char *root = getenv("RLX_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/examples/custom_op.c", root ? root : ".");
    FILE *f = fopen(path, "rb");
    size_t n = 0, bytes = f ? fread(source, 1, sizeof source - 1, f) : 0;
    if (f)
        fclose(f);
    source[bytes] = 0;
    char *at = strstr(source, "swish_spirv[] = {");
    for (at = at ? strchr(at, '{') + 1 : NULL; at && n < cap; n++) {
        at += strspn(at, " ,\n");
        if (*at == '}')
            break;
        words[n] = (uint32_t)strtoul(at, &at, 16);
    }
    return n;
}

static rlx_status swish_grid(void *user, const rlx_op_call *c, rlx_op_grid *grid, rlx_error *e)
{
    const float beta = (float)c->attrs->floats[0];
    (void)user, (void)e;
    CHECK(!c->in[0].data && !c->graph && grid->max_groups[0] > 0);
    grid->groups[0] = grid->groups[1] = grid->groups[2] = 1;
    grid->words[0] = (uint32_t)count(&c->in[0]);
    memcpy(&grid->words[1], &beta, sizeof beta);
    grid->n_words = 2;
    return RLX_OK;
}

/* The kernel itself runs, for several sizes, on views and beside the device's own kernels. */
static void test_kernel(const char *device)
{
    enum { MOST = 3, N = 5 };
    rlx_graph *g = rlx_graph_create("gpu");
    rlx_session *s = NULL;
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    bool found = false;
    float x[2 * MOST * N], y[MOST * N];
    rlx_dim n = rlx_dim_named(g, "n", MOST);
    rlx_value v = rlx_input(g, "x", RLX_F32, 3, (rlx_dim[]){2, n, N});
    v = rlx_narrow(g, rlx_add(g, v, v), 0, 1, 1);
    const rlx_custom_desc d = {RLX_INIT(rlx_custom_desc), .op = "swish_gpu", .floats = {2}};
    rlx_output(g, "y", rlx_add(g, rlx_custom(g, &v, 1, &d), rlx_scalar(g, RLX_F32, 1)));
    CHECK(open_session(device, g, &s) == RLX_OK);
    for (int64_t rows = MOST; s && rows > 0; rows--) {
        const size_t half = (size_t)rows * N;
        for (size_t i = 0; i < 2 * half; i++)
            x[i] = (float)i / 4 - 4;
        CHECK_OK(rlx_session_bind(s, "n", rows, &err), &err);
        CHECK_OK(rlx_run(s, &(rlx_const_tensor){"x", x, 2 * half * sizeof *x}, 1,
                         &(rlx_tensor){"y", y, half * sizeof *y}, 1, &err), &err);
        for (size_t i = 0; i < half; i++) {
            const float t = 2 * x[half + i], want = 1 + t / (1 + expf(-2 * t));
            CHECK(fabsf(y[i] - want) <= 1e-5f * fmaxf(1, fabsf(want)));
        }
    }
    for (size_t i = 0; s && rlx_session_step(s, i, &step, NULL) == RLX_OK; i++)
        found |= !strcmp(step.kernel, "swish_gpu");
    CHECK(found);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
}

static void test_gpus(void)
{
    static const char *const gpus[] = {"vulkan", "webgpu"};
    static uint32_t words[1024];
    static rlx_op_desc swish = {RLX_INIT(rlx_op_desc), .name = "swish_gpu", .min_in = 1,
                                .shape = same_shape, .spirv = words, .grid = swish_grid};
    swish.spirv_words = read_words(words, sizeof words / sizeof words[0]);
    CHECK_OK(rlx_op_register(&swish, &err), &err);
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        if (!rlx_device_is_available(gpus[i])) {
            printf("%s: not there\n", gpus[i]);
            continue;
        }
        test_kernel(gpus[i]);
        CHECK_FAILS(run_one(gpus[i], "mix", 0), RLX_UNSUPPORTED, &err,
                    "operation 'mix': this device has no kernel of it and it has no "
                    "decomposition; it has `cpu`, no `spirv`");
        CHECK_FAILS(run_one(gpus[i], "gpu_only", 0), RLX_INVALID, &err, "gpu_only");
    }
}

int main(void)
{
    static const char *const devices[] = {"ref", "cpu", "null"};
    test_registration();
    test_text();
    test_mistakes();
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        test_run(devices[i]);
    CHECK_FAILS(run_one("cpu", "gpu_only", 0), RLX_UNSUPPORTED, &err,
                "operation 'gpu_only': this device has no kernel of it and it has no "
                "decomposition; it has `spirv`, no `cpu`");
    CHECK_FAILS(run_one("cpu", "wrong", 0), RLX_INVALID, &err, "its decomposition gave f32[]");
    CHECK(run_one("cpu", "mix", 13) == RLX_CANCELLED);
    test_gpus();
    return check_done();
}
