/* SPDX-License-Identifier: MIT */
/* The backends "cpu" (threads, fast kernels, the reference where there is none) and "ref"
 * (reference kernels only, one thread: the definition of correct). */
#include "cpu/device.h"

#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/posix.h"
#include "cpu/cpuid.h"
#include "ops/custom.h"
#include "runtime/host.h"

/* ---- What the compiler asks ------------------------------------------------------------------ */

static const rx_cpu_kernel *first_kernel(const rx_target *t, const rx_node *n)
{
    return ((const rx_device *)t->user)->table.head[n->op];
}

static rlx_support target_support(const rx_target *t, const rlx_graph *g, const rx_node *n)
{
    (void)g;
    return first_kernel(t, n) && rx_custom_has(n, RX_CUSTOM_CPU) ? RLX_SUPPORT_NATIVE
                                                                 : RLX_SUPPORT_NO;
}

static bool target_takes_strided(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i)
{
    const rx_cpu_kernel *k = first_kernel(t, n);
    if (!k || rlx_dtype_is_packed(rx_value_at(g, n->in[i])->dtype))
        return false;
    return rx_cpu_strided(k, i);
}

/* ---- Devices --------------------------------------------------------------------------------- */

/* The processor's name: the first "model name" of /proc/cpuinfo, else the architecture. */
static void processor_name(char *out, size_t cap)
{
#if defined(__x86_64__)
    const char *fallback = "x86-64 processor";
#elif defined(__aarch64__)
    const char *fallback = "64-bit Arm processor";
#else
    const char *fallback = "processor";
#endif
    snprintf(out, cap, "%s", fallback);
    char text[2048];
    int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, "model name");
    at = at ? strchr(at, ':') : NULL;
    if (!at)
        return;
    at++;
    at += strspn(at, " \t");
    snprintf(out, cap, "%.*s", (int)strcspn(at, "\n"), at);
}

static const char *kernel_set(void)
{
    uint32_t flags = rx_cpu_flags();
    return flags & RX_CPU_VNNI      ? "AVX-512 and VNNI kernels"
           : flags & RX_CPU_AVX512  ? "AVX-512 kernels"
           : flags & RX_CPU_AVX2    ? "AVX2 kernels"
           : flags & RX_CPU_I8MM    ? "NEON and i8mm kernels"
           : flags & RX_CPU_DOTPROD ? "NEON and dot-product kernels"
           : flags & RX_CPU_NEON    ? "NEON kernels"
           : flags & RX_CPU_WASM    ? "WebAssembly SIMD kernels"
                                    : "portable kernels";
}

static size_t cpu_list(rlx_device_info *out, size_t cap, char reason[512])
{
    reason[0] = 0;
    if (!cap)
        return 1;
    *out = (rlx_device_info){RLX_INIT(rlx_device_info), .id = "cpu", .backend = "cpu"};
    snprintf(out->driver, sizeof out->driver, "%s", kernel_set());
    processor_name(out->name, sizeof out->name);
    out->threads = (uint32_t)rx_env_number(RX_ENV_THREADS, 1, RX_MAX_THREADS, rx_cpu_cores());
    out->memory = rx_memory_bytes();
    snprintf(out->detail, sizeof out->detail, "%u threads, all types, any shape",
             (unsigned)out->threads);
    return 1;
}

static size_t ref_list(rlx_device_info *out, size_t cap, char reason[512])
{
    reason[0] = 0;
    if (!cap)
        return 1;
    *out = (rlx_device_info){RLX_INIT(rlx_device_info), .id = "ref", .backend = "ref",
                             .driver = "reference kernels", .threads = 1, .is_test = true};
    processor_name(out->name, sizeof out->name);
    out->memory = rx_memory_bytes();
    snprintf(out->detail, sizeof out->detail, "plain loops with double accumulation");
    return 1;
}

static rlx_status open_device(bool fast, uint32_t threads, rx_device **out, rlx_error *err)
{
    *out = NULL;
    rx_device *d = rx_alloc_zero(sizeof *d);
    if (!d)
        return rx_fail_memory(err, "the CPU device", sizeof *d);
    d->target = (rx_target){.name = fast ? "cpu" : "ref", .align = 64, .no_regions = !fast,
                            .user = d, .support = target_support,
                            .takes_strided = target_takes_strided, .eval = rx_host_eval};
    d->caches = rx_cpu_cache_sizes();
    rlx_status st = rx_cpu_table_init(&d->table, fast, err);
    if (st != RLX_OK)
        goto no_table;
    if (fast)
        st = rx_pool_create(threads, &d->pool, err);
    if (st != RLX_OK)
        goto no_pool;
    if (!rx_cpu_queue_init(d)) {
        st = rx_fail_memory(err, "a lock of the CPU device", sizeof d->queue_lock);
        goto no_queue;
    }
    *out = d;
    return RLX_OK;
no_queue:
    rx_pool_destroy(d->pool);
no_pool:
    rx_cpu_table_finish(&d->table);
no_table:
    rx_free(d);
    return st;
}

static rlx_status cpu_open(size_t index, const rlx_device_desc *desc, rx_device **out,
                           rlx_error *err)
{
    (void)index;
    *out = NULL;
    RLX_TRY(rx_cpu_check_limit(err));
    return open_device(true, desc->threads, out, err);
}

static rlx_status ref_open(size_t index, const rlx_device_desc *desc, rx_device **out,
                           rlx_error *err)
{
    (void)index, (void)desc;
    return open_device(false, 1, out, err);
}

static void close_device(rx_device *d)
{
    rx_cpu_queue_finish(d);
    rx_pool_destroy(d->pool);
    rx_cpu_table_finish(&d->table);
    rx_free(d);
}

static const rx_target *device_target(rx_device *d)
{
    return &d->target;
}

/* Every operation with a fast kernel has a reference kernel too. */
static rlx_support op_support(rx_op op)
{
    if (!rx_ref_table[op])
        return RLX_SUPPORT_NO;
    return rx_cpu_has_fast(op) ? RLX_SUPPORT_NATIVE : RLX_SUPPORT_REFERENCE;
}

static rlx_support ref_op_support(rx_op op)
{
    return rx_ref_table[op] ? RLX_SUPPORT_REFERENCE : RLX_SUPPORT_NO;
}

#define CPU_FUNCTIONS                                                                       \
    .close = close_device, .target = device_target,                                         \
    .buffer_create = rx_cpu_buffer_create, .buffer_destroy = rx_cpu_buffer_destroy,         \
    .buffer_write = rx_cpu_buffer_write, .buffer_read = rx_cpu_buffer_read,                 \
    .buffer_map = rx_cpu_buffer_map, .buffer_changed = rx_cpu_buffer_changed,               \
    .weights_use = rx_cpu_weights_use, .exec_use = rx_cpu_exec_use,                         \
    .weights_create = rx_cpu_weights_create, .weights_set = rx_cpu_weights_set,             \
    .weights_destroy = rx_cpu_weights_destroy, .exec_create = rx_cpu_exec_create,           \
    .exec_destroy = rx_cpu_exec_destroy, .exec_bind = rx_cpu_exec_bind,                     \
    .exec_write = rx_cpu_exec_write, .exec_read = rx_cpu_exec_read,                         \
    .exec_submit = rx_cpu_submit, .exec_wait = rx_cpu_wait, .exec_flags = rx_cpu_exec_flags, \
    .exec_kernel = rx_cpu_exec_kernel

const rx_backend rx_backend_cpu = {.name = "cpu", .rank = 0, .list = cpu_list, .open = cpu_open,
                                   .op_support = op_support, CPU_FUNCTIONS};
const rx_backend rx_backend_ref = {.name = "ref", .rank = -1, .list = ref_list, .open = ref_open,
                                   .op_support = ref_op_support, CPU_FUNCTIONS};
