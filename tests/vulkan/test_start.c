/* SPDX-License-Identifier: MIT */
/* Start-up on Vulkan: kernels are compiled while another thread uploads the weights, the run then
 * compiles none; the file of compiled kernels is shared by versions of the library and by
 * processes, and is written only where there is something new. Skipped where there is no device. */
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"
#include "check.h"
#include "gpu/blob.h"
#include "rlx/rlx.h"
#include "runtime/device.h"
#include "runtime/session.h"
#include "vulkan/device.h"

enum { LAYERS = 6, WIDTH = 64, MOST = 48, BYTES = WIDTH * WIDTH / 32 * 18 };

static rlx_error err;
static char folder[] = "/tmp/rlx-start-XXXXXX";

/* ---- Compiling beside uploads --------------------------------------------------------------- */

/* Products with packed weights, each of another width than the next, so that kernels differ. */
static rlx_session *make_session(rlx_device *d)
{
    rlx_graph *g = rlx_graph_create("start");
    const rlx_dim seq = rlx_dim_named(g, "seq", MOST);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){seq, WIDTH});
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        const rlx_value w = rlx_param(g, name, RLX_Q4_0, 2, (rlx_dim[]){WIDTH, WIDTH});
        x = rlx_softmax(g, rlx_dequant_matmul(g, x, w), -1);
    }
    rlx_output(g, "y", x);
    rlx_session *s = NULL;
    CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    rlx_graph_destroy(g);
    return s;
}

typedef struct compiler {
    rlx_session *session;
    rlx_status status;
    rlx_error err;
} compiler;

static void *compile(void *user)
{
    static const int64_t rows[] = {MOST, 1};
    compiler *c = user;
    for (int i = 0; i < 2 && c->status == RLX_OK; i++) {
        c->status = rlx_session_bind(c->session, "seq", rows[i], &c->err);
        if (c->status == RLX_OK)
            c->status = rlx_session_compile(c->session, &c->err);
    }
    return NULL;
}

static void set_weights(rlx_session *s)
{
    static unsigned char w[BYTES];
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        memset(w, 0x2a + i, sizeof w);
        CHECK_OK(rlx_session_set_param(s, name, w, sizeof w, RLX_COPY, &err), &err);
    }
}

static void run(rlx_session *s, int64_t rows, float *y)
{
    static float x[MOST * WIDTH];
    const size_t bytes = (size_t)rows * WIDTH * sizeof *x;
    for (size_t i = 0; i < MOST * WIDTH; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    CHECK_OK(rlx_session_bind(s, "seq", rows, &err), &err);
    const rlx_const_tensor in = {"x", x, bytes};
    const rlx_tensor out = {"y", y, bytes};
    CHECK_OK(rlx_run(s, &in, 1, &out, 1, &err), &err);
}

static size_t count_scratch(const rlx_session *s)
{
    size_t n = 0;
    for (size_t i = 0; i < RX_GPU_N_SCRATCH; i++)
        n += s->exec->base.scratch[i].n;
    return n;
}

static void test_compile(void)
{
    static float got[2][MOST * WIDTH], want[2][MOST * WIDTH];
    rlx_device *d = NULL;
    rx_thread t;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    rlx_session *s = make_session(d);
    compiler c = {.session = s};
    CHECK(rx_thread_start(&t, compile, &c));
    set_weights(s);
    rx_thread_join(&t);
    CHECK_OK(c.status, &c.err);
    CHECK(!count_scratch(s) && !s->exec->base.now);
    const uint64_t n = d->device->pipelines.n_made;
    CHECK(n > 0);
    run(s, 1, got[0]);
    run(s, MOST, got[1]);
    CHECK(d->device->pipelines.n_made == n);
    compile(&c); /* nothing: the session has run */
    CHECK(c.status == RLX_OK && s->exec->base.now != NULL);
    rlx_session *plain = make_session(d);
    set_weights(plain);
    run(plain, 1, want[0]);
    run(plain, MOST, want[1]);
    CHECK(!memcmp(got, want, sizeof got));
    rlx_session_destroy(plain);
    rlx_session_destroy(s);
    rlx_device_close(d);
}

/* ---- The file ------------------------------------------------------------------------------- */

static rx_vk_functions driver; /* the true ones */
static size_t driver_bytes;    /* of the driver's cache */
static int n_merged;

static VKAPI_ATTR VkResult VKAPI_CALL get_data(VkDevice d, VkPipelineCache c, size_t *bytes,
                                               void *data)
{
    (void)d, (void)c;
    *bytes = driver_bytes;
    if (data)
        memset(data, 7, driver_bytes);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL merge(VkDevice d, VkPipelineCache to, uint32_t n,
                                            const VkPipelineCache *from)
{
    n_merged++;
    return driver.MergePipelineCaches(d, to, n, from);
}

static bool holds(const rx_vk_cache_file *file, const char *want, size_t n)
{
    void *data;
    size_t bytes;
    const bool found = rx_vk_cache_load(file, &data, &bytes);
    const bool same = found && bytes == n && !memcmp(data, want, n);
    rx_free(data);
    return same;
}

static size_t bytes_in_file(const rx_vk_gpu *gpu)
{
    const rx_vk_cache_file file = {gpu, "pipelines", 0};
    void *data;
    size_t bytes;
    rx_vk_cache_load(&file, &data, &bytes);
    rx_free(data);
    return bytes;
}

/* Opens the device, runs something with a driver whose cache has so many bytes, and closes it.
 * `others`: bytes that another process saves meanwhile; 0: none does. */
static void start(size_t bytes, size_t others)
{
    static float y[MOST * WIDTH];
    static const char zeros[4096];
    rlx_device *d = NULL;
    CHECK_OK(rlx_device_open("vulkan", NULL, &d, &err), &err);
    driver = d->device->vk;
    driver_bytes = bytes;
    n_merged = 0;
    d->device->vk.GetPipelineCacheData = get_data;
    d->device->vk.MergePipelineCaches = merge;
    rlx_session *s = make_session(d);
    set_weights(s);
    run(s, 1, y);
    rlx_session_destroy(s);
    const rx_vk_cache_file file = {&d->device->gpu, "pipelines", 0};
    if (others)
        rx_vk_cache_save(&file, zeros, others);
    rlx_device_close(d);
}

static void test_file(const rx_vk_gpu *gpu)
{
    start(1000, 0);
    CHECK(bytes_in_file(gpu) == 1000 && n_merged == 0);
    const rx_vk_cache_file file = {gpu, "pipelines", 0};
    rx_vk_cache_save(&file, "marked", 6);
    start(6, 0); /* nothing new: the file stays, for the driver has other bytes */
    CHECK(holds(&file, "marked", 6) && n_merged == 0);
    start(2000, 0);
    CHECK(bytes_in_file(gpu) == 2000 && n_merged == 0);
    start(3000, 2500);
    CHECK(bytes_in_file(gpu) == 3000 && n_merged == 1);
}

/* What depends on the kernels is of one version only. */
static void test_versions(const rx_vk_gpu *gpu)
{
    const uint64_t ours = rx_gpu_kernels_digest();
    const rx_vk_cache_file file = {gpu, "test", ours}, other = {gpu, "test", ours + 1};
    rx_vk_cache_save(&file, "abc", 3);
    CHECK(!holds(&other, "abc", 3) && holds(&file, "abc", 3));
}

int main(void)
{
    rlx_device *d = NULL;
    CHECK(mkdtemp(folder) != NULL);
    setenv("RLX_CACHE_DIR", folder, 1);
    if (rlx_device_open("vulkan", NULL, &d, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        rmdir(folder);
        return 77;
    }
    const rx_vk_gpu gpu = d->device->gpu;
    rlx_device_close(d);
    test_compile();
    test_file(&gpu);
    test_versions(&gpu);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(!system(command));
    return check_done();
}
