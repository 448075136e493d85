/* SPDX-License-Identifier: MIT */
/* What can go wrong with a WebGPU device: it is lost, memory is refused, texts are wrong,
 * allocations fail. Each ends in a status, and a new device works. */
#include <stdatomic.h>

#include "runtime/device.h"
#include "support/gpu_faults.h"
#include "webgpu/device.h"
#include "webgpu/library.h"

/* The device goes away under a session. */
static void test_lost(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, &s), &err);
    rlx_session *sums = open_sums(d);
    rx_device *inner = d->device;
    inner->lib->DeviceDestroy(inner->handle);
    for (int i = 0; i < 100 && !atomic_load(&inner->watch->lost); i++) {
        inner->lib->InstanceProcessEvents(inner->lib->instance);
        usleep(1000);
    }
    if (!inner->lib->DevicePoll) /* wgpu-native does not tell who destroys a device */
        CHECK(atomic_load(&inner->watch->lost));
    atomic_store(&inner->watch->lost, true);
    CHECK_FAILS(rlx_session_submit(s, NULL, &err), RLX_DEVICE_LOST, &err, "open it again");
    CHECK_FAILS(try_run(d, NULL), RLX_DEVICE_LOST, &err, "lost");
    check_lost_session(sums);
    rlx_session_destroy(sums);
    rlx_session_destroy(s);
    rlx_device_close(d);
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, NULL), &err);
    rlx_device_close(d);
}

/* An error that no scope catches fails the next run, once. */
static void test_errors(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    CHECK_OK(try_run(d, &s), &err);
    rx_device *inner = d->device;
    const char text[] = "fn main( {";
    WGPUShaderSourceWGSL source = {.chain = {.sType = WGPU_STYPE_SHADER_WGSL},
                                   .code = {text, sizeof text - 1}};
    WGPUShaderModuleDescriptor info = {.nextInChain = &source.chain, .label = {"bad", 3}};
    WGPUShaderModule module = inner->lib->DeviceCreateShaderModule(inner->handle, &info);
    inner->lib->InstanceProcessEvents(inner->lib->instance);
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_FAILS(rlx_session_wait(s, 0, -1, &err), RLX_INTERNAL, &err, "says");
    for (int i = 0; i < 2 * RX_GPU_N_SLOTS; i++) /* also the run that has its slot */
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_wait(s, 0, -1, &err), &err);
    if (module)
        inner->lib->ShaderModuleRelease(module);
    rlx_session_destroy(s);
    rlx_device_close(d);
}

/* ---- Pipelines made together ---------------------------------------------------------------- */

/* Stands in for the function that makes modules: waits a while for another thread to come, and
 * spoils the text of the kernel `broken`. */
static rx_wg_library *real;
static WGPUShaderModule (*make_trusted)(WGPUDevice, const WGPUShaderModuleDescriptor *, WGPUFlags);
static WGPUShaderModule (*make_plain)(WGPUDevice, const WGPUShaderModuleDescriptor *);
static atomic_int n_inside, most_inside, n_modules;
static const char *broken;

static void meet_others(void)
{
    int now = atomic_fetch_add(&n_inside, 1) + 1, most = atomic_load(&most_inside);
    while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now))
        ;
    for (int i = 0; i < 200 && atomic_load(&most_inside) < 2; i++)
        usleep(1000);
    atomic_fetch_sub(&n_inside, 1);
    atomic_fetch_add(&n_modules, 1);
}

static WGPUShaderModule make_spoiled(WGPUDevice d, const WGPUShaderModuleDescriptor *info,
                                     WGPUFlags flags)
{
    const char text[] = "fn main( {";
    WGPUShaderSourceWGSL source = {.chain = {.sType = WGPU_STYPE_SHADER_WGSL},
                                   .code = {text, sizeof text - 1}};
    WGPUShaderModuleDescriptor bad = *info;
    bad.nextInChain = &source.chain;
    const bool spoil = broken && info->label.length == strlen(broken) &&
                       !memcmp(info->label.data, broken, info->label.length);
    meet_others();
    if (spoil)
        return make_plain(d, &bad);
    return make_trusted ? make_trusted(d, info, flags) : make_plain(d, info);
}

static WGPUShaderModule make_spoiled_plain(WGPUDevice d, const WGPUShaderModuleDescriptor *info)
{
    return make_spoiled(d, info, 0);
}

/* Kernels of several kinds, none of which the device has yet. */
static rlx_status create_many(rlx_device *d)
{
    rlx_graph *g = rlx_graph_create("many");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){24, 24});
    rlx_value y = rlx_matmul(g, rlx_cumsum(g, x, NULL), rlx_softmax(g, x, 1));
    rlx_output(g, "y", rlx_sort(g, y, NULL));
    rlx_session *s = NULL;
    rlx_status st = rlx_session_create(d, g, NULL, &s, &err);
    float in[576] = {0}, out[576];
    rlx_const_tensor from = {"x", in, sizeof in};
    rlx_tensor to = {"y", out, sizeof out};
    if (st == RLX_OK)
        st = rlx_run(s, &from, 1, &to, 1, &err);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    return st;
}

static void test_pipelines(void)
{
    rlx_device *d = NULL;
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    real = ((rx_device *)d->device)->lib;
    make_plain = real->DeviceCreateShaderModule;
    make_trusted = real->DeviceCreateShaderModuleTrusted;
    real->DeviceCreateShaderModule = make_spoiled_plain;
    if (make_trusted)
        real->DeviceCreateShaderModuleTrusted = make_spoiled;
    broken = "sort";
    CHECK_FAILS(create_many(d), RLX_INTERNAL, &err, "making kernel 'sort' ready");
    broken = NULL;
    CHECK_OK(create_many(d), &err);
    CHECK(atomic_load(&n_modules) >= 6);
    CHECK(atomic_load(&most_inside) >= 2 || !real->flavour->thread_safe);
    real->DeviceCreateShaderModule = make_plain;
    real->DeviceCreateShaderModuleTrusted = make_trusted;
    rlx_device_close(d);
}

/* More than a buffer can hold. */
static void test_memory(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    rlx_graph *g = rlx_graph_create("large");
    rlx_value x = rlx_param(g, "x", RLX_F32, 2, (rlx_dim[]){1 << 19, 1 << 19});
    rlx_output(g, "y", rlx_narrow(g, x, 0, 0, 1));
    CHECK_OK(rlx_device_open("webgpu", NULL, &d, &err), &err);
    CHECK_FAILS(rlx_session_create(d, g, NULL, &s, &err), RLX_NO_MEMORY, &err,
                "more than one buffer");
    CHECK(!s);
    CHECK_OK(try_run(d, NULL), &err);
    rlx_graph_destroy(g);
    rlx_device_close(d);
}

int main(void)
{
    choose_library();
    if (!rlx_device_is_available("webgpu")) {
        puts("skipped: no WebGPU device (tools/fetch/webgpu.sh fetches a library)");
        return 77;
    }
    test_lost();
    test_errors();
    test_pipelines();
    test_memory();
    test_allocations("webgpu", 1); /* an event may be kept */
    test_use_allocations("webgpu");
    return check_done();
}
