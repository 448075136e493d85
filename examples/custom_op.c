/* SPDX-License-Identifier: MIT */
/* An operation of your own: swish, y = x / (1 + exp(-beta x)), with a function for the CPU, a
 * kernel for GPUs, and a decomposition for devices that have neither. docs/custom.md explains it.
 *
 *   cc custom_op.c $(pkg-config --cflags --libs rlx) -lm */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <rlx/rlx.h>

/* ---- Shape rule and CPU ---------------------------------------------------------------------- */

/* The result is like the operand, which is f32. */
static rlx_status swish_shape(void *user, rlx_op_call *c, rlx_error *err)
{
    (void)user;
    if (c->in[0].dtype != RLX_F32) {
        snprintf(err->text, sizeof err->text, "expected x of type f32, got %s",
                 rlx_dtype_name(c->in[0].dtype));
        return RLX_INVALID;
    }
    c->out[0] = c->in[0];
    return RLX_OK;
}

static int64_t count(const rlx_op_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->shape.rank; i++)
        n *= t->shape.dim[i];
    return n;
}

static rlx_status swish_cpu(void *user, const rlx_op_call *c)
{
    const float *x = c->in[0].data, beta = (float)c->attrs->floats[0];
    float *y = c->out[0].data;
    (void)user;
    for (int64_t i = 0; i < count(&c->in[0]); i++)
        y[i] = x[i] / (1 + expf(-beta * x[i]));
    return RLX_OK;
}

/* ---- GPU ------------------------------------------------------------------------------------- */

/* This shader, by glslangValidator --target-env vulkan1.1 and spirv-opt -O --strip-debug:
 *
 *   #version 450
 *   layout(local_size_x_id = 0) in;
 *   layout(set = 0, binding = 0, std430) buffer X { float x[]; };
 *   layout(set = 0, binding = 1, std430) buffer Y { float y[]; };
 *   layout(push_constant) uniform Push { uint x_at, y_at, n; float beta; };
 *   void main()
 *   {
 *       uint i = gl_GlobalInvocationID.x;
 *       if (i >= n)
 *           return;
 *       float v = x[x_at + i];
 *       y[y_at + i] = v / (1.0 + exp(-beta * v));
 *   }
 */
static const uint32_t swish_spirv[] = {
    0x7230203, 0x10300, 0x8000b, 0x48, 0x0, 0x20011, 0x1, 0x6000b, 0x1, 0x4c534c47, 0x6474732e,
    0x3035342e, 0x0, 0x3000e, 0x0, 0x1, 0x6000f, 0x5, 0x4, 0x6e69616d, 0x0, 0xb, 0x60010, 0x4,
    0x11, 0x1, 0x1, 0x1, 0x40047, 0xb, 0xb, 0x1c, 0x50048, 0x12, 0x0, 0x23, 0x0, 0x50048, 0x12,
    0x1, 0x23, 0x4, 0x50048, 0x12, 0x2, 0x23, 0x8, 0x50048, 0x12, 0x3, 0x23, 0xc, 0x30047, 0x12,
    0x2, 0x40047, 0x21, 0x6, 0x4, 0x50048, 0x22, 0x0, 0x23, 0x0, 0x30047, 0x22, 0x2, 0x40047,
    0x24, 0x22, 0x0, 0x40047, 0x24, 0x21, 0x0, 0x40047, 0x2d, 0x6, 0x4, 0x50048, 0x2e, 0x0, 0x23,
    0x0, 0x30047, 0x2e, 0x2, 0x40047, 0x30, 0x22, 0x0, 0x40047, 0x30, 0x21, 0x1, 0x40047, 0x43,
    0x1, 0x0, 0x40047, 0x45, 0xb, 0x19, 0x20013, 0x2, 0x30021, 0x3, 0x2, 0x40015, 0x6, 0x20, 0x0,
    0x40017, 0x9, 0x6, 0x3, 0x40020, 0xa, 0x1, 0x9, 0x4003b, 0xa, 0xb, 0x1, 0x4002b, 0x6, 0xc,
    0x0, 0x40020, 0xd, 0x1, 0x6, 0x30016, 0x11, 0x20, 0x6001e, 0x12, 0x6, 0x6, 0x6, 0x11, 0x40020,
    0x13, 0x9, 0x12, 0x4003b, 0x13, 0x14, 0x9, 0x40015, 0x15, 0x20, 0x1, 0x4002b, 0x15, 0x16, 0x2,
    0x40020, 0x17, 0x9, 0x6, 0x20014, 0x1a, 0x3001d, 0x21, 0x11, 0x3001e, 0x22, 0x21, 0x40020,
    0x23, 0xc, 0x22, 0x4003b, 0x23, 0x24, 0xc, 0x4002b, 0x15, 0x25, 0x0, 0x40020, 0x2a, 0xc, 0x11,
    0x3001d, 0x2d, 0x11, 0x3001e, 0x2e, 0x2d, 0x40020, 0x2f, 0xc, 0x2e, 0x4003b, 0x2f, 0x30, 0xc,
    0x4002b, 0x15, 0x31, 0x1, 0x4002b, 0x11, 0x37, 0x3f800000, 0x4002b, 0x15, 0x38, 0x3, 0x40020,
    0x39, 0x9, 0x11, 0x40032, 0x6, 0x43, 0x1, 0x4002b, 0x6, 0x44, 0x1, 0x60033, 0x9, 0x45, 0x43,
    0x44, 0x44, 0x50036, 0x2, 0x4, 0x0, 0x3, 0x200f8, 0x5, 0x300f7, 0x46, 0x0, 0x300fb, 0xc, 0x47,
    0x200f8, 0x47, 0x50041, 0xd, 0xe, 0xb, 0xc, 0x4003d, 0x6, 0xf, 0xe, 0x50041, 0x17, 0x18, 0x14,
    0x16, 0x4003d, 0x6, 0x19, 0x18, 0x500ae, 0x1a, 0x1b, 0xf, 0x19, 0x300f7, 0x1d, 0x0, 0x400fa,
    0x1b, 0x1c, 0x1d, 0x200f8, 0x1c, 0x200f9, 0x46, 0x200f8, 0x1d, 0x50041, 0x17, 0x26, 0x14,
    0x25, 0x4003d, 0x6, 0x27, 0x26, 0x50080, 0x6, 0x29, 0x27, 0xf, 0x60041, 0x2a, 0x2b, 0x24,
    0x25, 0x29, 0x4003d, 0x11, 0x2c, 0x2b, 0x50041, 0x17, 0x32, 0x14, 0x31, 0x4003d, 0x6, 0x33,
    0x32, 0x50080, 0x6, 0x35, 0x33, 0xf, 0x50041, 0x39, 0x3a, 0x14, 0x38, 0x4003d, 0x11, 0x3b,
    0x3a, 0x4007f, 0x11, 0x3c, 0x3b, 0x50085, 0x11, 0x3e, 0x3c, 0x2c, 0x6000c, 0x11, 0x3f, 0x1,
    0x1b, 0x3e, 0x50081, 0x11, 0x40, 0x37, 0x3f, 0x50088, 0x11, 0x41, 0x2c, 0x40, 0x60041, 0x2a,
    0x42, 0x30, 0x25, 0x35, 0x3003e, 0x42, 0x41, 0x200f9, 0x46, 0x200f8, 0x46, 0x100fd, 0x10038,
};

enum { LOCAL_SIZE = 64 };

/* One invocation an element; n and beta behind the offsets of both tensors. */
static rlx_status swish_grid(void *user, const rlx_op_call *c, rlx_op_grid *grid, rlx_error *err)
{
    const int64_t n = count(&c->in[0]), groups = (n + LOCAL_SIZE - 1) / LOCAL_SIZE;
    const float beta = (float)c->attrs->floats[0];
    (void)user;
    if (groups > grid->max_groups[0]) {
        snprintf(err->text, sizeof err->text, "%lld elements are too many", (long long)n);
        return RLX_UNSUPPORTED;
    }
    grid->groups[0] = (uint32_t)groups;
    grid->groups[1] = grid->groups[2] = 1;
    grid->words[0] = (uint32_t)n;
    memcpy(&grid->words[1], &beta, sizeof beta);
    grid->n_words = 2;
    return RLX_OK;
}

/* ---- Other devices --------------------------------------------------------------------------- */

/* x sigmoid(beta x) */
static rlx_status swish_decompose(void *user, rlx_graph *g, const rlx_custom_desc *attrs,
                                  const rlx_value *in, size_t n_in, rlx_value *out)
{
    rlx_value beta = rlx_scalar(g, RLX_F32, attrs->floats[0]);
    (void)user, (void)n_in;
    out[0] = rlx_mul(g, in[0], rlx_sigmoid(g, rlx_mul(g, in[0], beta)));
    return RLX_OK;
}

static const rlx_op_desc swish = {
    RLX_INIT(rlx_op_desc),
    .name = "swish",
    .min_in = 1,
    .shape = swish_shape,
    .cpu = swish_cpu,
    .decompose = swish_decompose,
    .spirv = swish_spirv,
    .spirv_words = sizeof swish_spirv / sizeof swish_spirv[0],
    .local_size = LOCAL_SIZE,
    .grid = swish_grid,
};

/* y = 1 + swish(2 x, beta = 1.5) of the second half of x: the node stands among others. */
static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("custom");
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){10});
    rlx_value half = rlx_narrow(g, rlx_add(g, x, x), 0, 5, 5);
    const rlx_custom_desc d = {RLX_INIT(rlx_custom_desc), .op = "swish", .floats = {1.5}};
    rlx_output(g, "y", rlx_add(g, rlx_custom(g, &half, 1, &d), rlx_scalar(g, RLX_F32, 1)));
    return g;
}

int main(void)
{
    const float x[10] = {9, 9, 9, 9, 9, -2, -0.5f, 0, 0.5f, 2};
    float y[5] = {0};
    rlx_error err = {0};
    rlx_device *device = NULL;
    rlx_session *session = NULL;
    rlx_status st = rlx_op_register(&swish, &err);
    rlx_graph *g = make_graph();
    if (st == RLX_OK)
        st = rlx_device_open("auto", NULL, &device, &err);
    if (st == RLX_OK)
        st = rlx_session_create(device, g, NULL, &session, &err);
    if (st == RLX_OK)
        st = rlx_run(session, &(rlx_const_tensor){"x", x, sizeof x}, 1,
                     &(rlx_tensor){"y", y, sizeof y}, 1, &err);
    if (st == RLX_OK)
        printf("1 + swish(2 x): %.4f %.4f %.4f %.4f %.4f\n", y[0], y[1], y[2], y[3], y[4]);
    else
        fprintf(stderr, "custom_op: %s\n", err.text);
    rlx_session_destroy(session);
    rlx_device_close(device);
    rlx_graph_destroy(g);
    return st != RLX_OK || fabsf(y[4] - (1 + 4 / (1 + expf(-6)))) > 1e-4f;
}
