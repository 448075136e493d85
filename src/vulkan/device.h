/* SPDX-License-Identifier: MIT */
/* The structs of the Vulkan backend, in reading order: loader (functions, instance), caps (of a
 * physical device), device (open devices, queues), memory (blocks and places in them), buffer
 * (transfers), pipeline (compiled kernels), weights, command (recording), exec, submit. */
#ifndef RX_VULKAN_DEVICE_H
#define RX_VULKAN_DEVICE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "gpu/exec/device.h"
#include "gpu/exec/pipelines.h"
#include "gpu/stages.h"
#include "vulkan/caps.h"

/* ---- Memory: memory.c ----------------------------------------------------------------------- */

typedef enum rx_vk_kind {
    RX_VK_KERNEL,   /* accessed by kernels; mapped on unified memory */
    RX_VK_UPLOAD,   /* mapped, written by the host */
    RX_VK_READBACK  /* mapped, read by the host */
} rx_vk_kind;

/* One allocation with one buffer over it. */
struct rx_block {
    VkDeviceMemory memory;
    VkBuffer buffer;
    uint64_t bytes;
    VkDeviceAddress address; /* 0: no device addresses, or kernels do not use the block */
    char *map; /* NULL: not mapped */
};

rlx_status rx_vk_block_create(rx_device *d, rx_vk_kind kind, uint64_t bytes, const char *what,
                              rx_block *out, rlx_error *err);
/* A zero block is fine. */
void rx_vk_block_destroy(rx_device *d, rx_block *b);
/* What the pools use. */
void rx_vk_memory_init(rx_device *d);

/* ---- Queues and copies: buffer.c ------------------------------------------------------------ */

typedef struct rx_vk_queue {
    VkQueue handle;
    uint32_t family;
    rx_mutex lock;
} rx_vk_queue;

#define RX_VK_N_STAGES 12
#define RX_VK_STAGE_BYTES ((uint64_t)8 << 20)

typedef struct rx_vk_stage {
    rx_block block;
    VkCommandBuffer commands;
    VkFence fence;
    bool busy;      /* a copy is in flight, which signals the fence */
    bool signalled; /* the fence must be reset before the next copy */
} rx_vk_stage;

/* Staged transfers between host and device. */
typedef struct rx_vk_copier {
    rx_vk_queue *queue;
    rx_vk_kind kind;
    VkCommandPool pool;
    rx_mutex lock;
    rx_vk_stage stages[RX_VK_N_STAGES]; /* allocated on first use */
    size_t next;
    atomic_bool pending; /* copies may be in flight */
} rx_vk_copier;

bool rx_vk_copier_init(rx_device *d, rx_vk_copier *c, rx_vk_queue *queue, rx_vk_kind kind);
void rx_vk_copier_finish(rx_device *d, rx_vk_copier *c);
/* Copies host bytes to a place that no run in flight uses; may complete after the return. */
rlx_status rx_vk_upload(rx_device *d, const rx_gpu_place *to, uint64_t offset, const void *data,
                        uint64_t bytes, rlx_error *err);
/* Waits for pending uploads. */
rlx_status rx_vk_upload_finish(rx_device *d, rlx_error *err);
/* Copies to the host; runs that write the place have ended. */
rlx_status rx_vk_download(rx_device *d, const rx_gpu_place *from, uint64_t offset, void *data,
                          uint64_t bytes, rlx_error *err);
rlx_status rx_vk_zero(rx_device *d, const rx_gpu_place *to, rlx_error *err);

/* ---- Pipelines: pipeline.c ------------------------------------------------------------------ */

typedef struct rx_pipeline {
    rx_gpu_pipeline entry;
    VkPipeline handle;
    rx_kernel kernel;
    uint32_t spec[RX_GPU_MAX_SPEC], n_spec, subgroup; /* subgroup: size required; 0: none */
} rx_pipeline;

typedef struct rx_vk_pipelines {
    rx_gpu_pipelines table;
    uint64_t n_made, n_saved;
    int64_t saved_ns;   /* when the cache was last saved */
    size_t saved_bytes; /* of its data then, or when it was loaded */
    VkPipelineCache cache;
    VkDescriptorSetLayout set_layouts[RX_GPU_MAX_BIND + 1]; /* by number of bindings */
    VkPipelineLayout layouts[RX_GPU_MAX_BIND + 1];
} rx_vk_pipelines;

rlx_status rx_vk_pipelines_init(rx_device *d, rlx_error *err);
/* Saves the cache. */
void rx_vk_pipelines_finish(rx_device *d);
/* rx_backend.kernels_save and .kernels_load: the data of the pipeline cache. */
rlx_status rx_vk_pipelines_save(rx_device *d, void **data, size_t *bytes, rlx_error *err);
void rx_vk_pipelines_load(rx_device *d, const void *data, size_t bytes);
/* rx_backend.exec_kernel_info: statistics.c. */
rlx_status rx_vk_exec_kernel_info(rx_exec *e, size_t i, rlx_kernel_info *out, rlx_error *err);
/* Sets the pipelines of n dispatches; new ones are compiled on several threads. `from` has the
 * kernels and their constants. On success each dispatch holds its pipeline until it is released. */
struct rx_vk_dispatch;
rlx_status rx_vk_pipelines_get(rx_device *d, const rx_gpu_placed *from, size_t n,
                               struct rx_vk_dispatch *to, rlx_error *err);
/* Dispatches without a pipeline are skipped. */
void rx_vk_pipelines_release(rx_device *d, struct rx_vk_dispatch *list, size_t n);

/* Cache files, with a header that identifies their origin: cache.c. There is one for each device,
 * driver, purpose and set of kernels. */
typedef struct rx_vk_cache_file {
    const rx_vk_gpu *gpu;
    const char *name; /* what it is for */
    uint64_t kernels; /* rx_gpu_kernels_digest; 0: the data says itself which kernels it is of, so
                       * that all versions of the library share the file */
} rx_vk_cache_file;

/* False when there is no valid file; *data is then NULL, else freed with rx_free. */
bool rx_vk_cache_load(const rx_vk_cache_file *of, void **data, size_t *bytes);
void rx_vk_cache_save(const rx_vk_cache_file *of, const void *data, size_t bytes);

/* ---- Devices: device.c ---------------------------------------------------------------------- */

struct rx_device {
    rx_gpu_device base;
    const rx_vk_instance *instance;
    rx_vk_gpu gpu;
    VkDevice handle;
    rx_vk_functions vk;
    rx_vk_queue queue, transfer_queue;
    bool has_transfer;       /* transfer_queue is another queue */
    bool compile_only;       /* blocks have no memory, nothing is recorded */
    bool mapped;             /* memory of kernels is mapped */
    bool log_blocks;         /* RLX_VULKAN_ARENA_DEBUG */
    bool full_barrier;       /* RLX_FULL_BARRIER */
    atomic_bool no_chains;   /* a chained run has failed */
    bool chain_always;       /* even few levels: RLX_CHAIN=1 */
    atomic_bool lost;
    rx_vk_copier up, down;
    rx_vk_pipelines pipelines;
};

size_t rx_vk_list(rlx_device_info *out, size_t cap, char reason[512]);
rlx_status rx_vk_open(size_t index, const rlx_device_desc *desc, rx_device **out, rlx_error *err);
void rx_vk_close(rx_device *d);
void rx_vk_describe(rx_device *d, char *out, size_t cap);
/* Converts a result that is not VK_SUCCESS; remembers a lost device. */
rlx_status rx_vk_fail(rx_device *d, VkResult r, const char *what, rlx_error *err);
/* RLX_UNSUPPORTED: the device was opened to compile only. */
rlx_status rx_vk_fail_run(rx_device *d, rlx_error *err);
VkResult rx_vk_queue_submit(rx_device *d, rx_vk_queue *q, uint32_t n, const VkSubmitInfo *infos,
                            VkFence fence);
/* Sleeps for quiet_ns, during which the fence is not expected, polls for a short time, then sleeps
 * again. VK_TIMEOUT after timeout_ns (UINT64_MAX: never). */
VkResult rx_vk_wait_fence(rx_device *d, VkFence fence, uint64_t quiet_ns, uint64_t timeout_ns);
VkFence rx_vk_fence_create(rx_device *d);
VkCommandBuffer rx_vk_commands_alloc(rx_device *d, VkCommandPool pool);

/* ---- Weights: weights.c --------------------------------------------------------------------- */

/* One dispatch, ready to be recorded. */
typedef struct rx_vk_dispatch {
    rx_pipeline *pipeline;
    VkDescriptorSet set;
    rx_gpu_place bind[RX_GPU_MAX_BIND];
    uint32_t n_bind, n_push, step, piece, level;
    bool barrier;                     /* before it */
    uint32_t push[RX_VK_MAX_PUSH];
    uint8_t address[RX_GPU_MAX_BIND]; /* as in rx_gpu_dispatch */
    uint32_t groups[3];
} rx_vk_dispatch;

/* A dispatch that packs a weight. */
struct rx_pack {
    VkDescriptorPool pool;
    rx_vk_dispatch dispatch;
};

/* rx_gpu_memory.pack_create and .pack_destroy. */
rlx_status rx_vk_pack_create(rx_device *d, const rx_gpu_placed *from, rx_pack **out,
                              rlx_error *err);
void rx_vk_pack_destroy(rx_device *d, rx_pack *p);

/* ---- Recording: command.c ------------------------------------------------------------------- */

/* A recording of a program. */
struct rx_commands {
    rx_vk_dispatch *list;
    size_t n;
    VkDescriptorPool sets;
    VkCommandBuffer *chunks;  /* the whole run, cut into pieces bounded in time */
    size_t n_chunks;
    VkCommandBuffer *submits; /* storage for the command buffers of one submit */
};

/* rx_gpu_driver.record and .forget. */
rlx_status rx_vk_commands_create(rx_exec *e, const rx_gpu_list *list, rx_gpu_recording *r,
                                 rlx_error *err);
void rx_vk_commands_destroy(rx_exec *e, rx_commands *c);

/* A dispatch without its pipeline and its descriptor set. flags: bound for absent operands, and
 * where the counters of chains are; a zero place where there are neither. */
rx_vk_dispatch rx_vk_dispatch_of(const rx_gpu_placed *from, const rx_gpu_place *flags);
/* Fills the descriptor sets of n dispatches from a new pool. */
rlx_status rx_vk_sets_create(rx_device *d, rx_vk_dispatch *list, size_t n, VkDescriptorPool *pool,
                             rlx_error *err);
VkResult rx_vk_begin(rx_device *d, VkCommandBuffer cb, bool once);
/* A full barrier: all earlier work of the queue before all later. */
void rx_vk_barrier(rx_device *d, VkCommandBuffer cb);
/* Makes writes of kernels and copies visible to the host. */
void rx_vk_barrier_host(rx_device *d, VkCommandBuffer cb);
/* Records dispatches with their barriers. */
void rx_vk_record(rx_device *d, VkCommandBuffer cb, const rx_vk_dispatch *list, size_t n);
/* Records the steps first .. end - 1 only, with a barrier where the level changes. */
void rx_vk_record_steps(rx_device *d, VkCommandBuffer cb, const rx_commands *c, size_t first,
                        size_t end);

/* Copies outputs that are parts of other values to their buffers, after all previous work. */
void rx_vk_record_copies(rx_exec *e, VkCommandBuffer cb);
#define RX_VK_N_COUNTERS 1024 /* of chains, in a run */

/* rx_gpu_driver.rules. */
void rx_vk_rules(rx_exec *e, rx_gpu_rules *out);
/* Copies the flag words of a run to host-visible memory. */
void rx_vk_fetch_flags(rx_exec *e, VkCommandBuffer cb);

/* ---- Programs: exec.c, submit.c ------------------------------------------------------------- */

#define RX_VK_N_WANTS 4

typedef struct rx_vk_slot {
    VkFence fence;
    VkResult result;          /* of waiting for it */
    VkCommandBuffer commands; /* of this run only: copies of inputs, packing, partial runs */
    int64_t begin_ns;         /* when it was submitted */
    uint64_t stage_end;       /* once the run is done, the staging ring is free up to here */
} rx_vk_slot;

typedef struct rx_vk_copy {
    rx_gpu_place to;
    const rx_block *block; /* source: the staging ring, or a value */
    uint64_t from, bytes;
} rx_vk_copy;

/* A range of a result that the host has recently read after a run: runs copy it to host memory
 * themselves. */
typedef struct rx_vk_want {
    uint32_t value;
    uint64_t offset, bytes, at; /* at: in a half of the results block */
    unsigned idle;              /* runs since it was last read */
} rx_vk_want;

struct rx_exec {
    rx_gpu_exec base;
    rx_device *device;
    rx_block flags_host;        /* copy of the flags; unused when memory is mapped */
    VkCommandPool pool;

    rx_block stage;             /* ring for inputs */
    uint64_t stage_head;
    rx_vk_copy *copies;         /* pending, for the next submit */
    size_t n_copies, cap_copies;

    rx_vk_want wants[RX_VK_N_WANTS];
    size_t n_wants;
    bool wants_changed;         /* since the fetch commands were recorded */
    bool has_fetch;             /* the fetch commands are recorded */
    rx_block results;           /* host copies of wanted ranges, double-buffered */
    VkCommandBuffer fetch[2];   /* copy them to one half each */
    uint64_t fetched[2];        /* the run that filled the half; 0: none */
    size_t n_fetches;
    VkQueryPool clock;          /* timestamps of a partial run; created on first use */
    bool timed;                 /* the last submit wrote timestamps */

    rx_vk_slot slots[RX_GPU_N_SLOTS]; /* by ticket */
    uint64_t stage_tail;        /* guarded by the lock of the runs */
    int64_t end_ns, usual_ns;   /* end of the last run; typical duration */
    uint64_t n_messages;
    uint32_t host_flags;        /* set by steps on the host */
};

rlx_status rx_vk_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_buffer *const *buffers,
                             rx_exec **out, rlx_error *err);
rlx_status rx_vk_exec_use(rx_exec *e, size_t port, rx_buffer *b, rlx_error *err);
void rx_vk_exec_destroy(rx_exec *e);
rlx_status rx_vk_exec_write(rx_exec *e, uint32_t value, size_t offset, const void *data,
                            size_t bytes, rlx_error *err);
rlx_status rx_vk_exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                           rlx_error *err);
rlx_status rx_vk_exec_feed(rx_exec *e, uint32_t input, uint32_t output, size_t bytes,
                           rlx_error *err);
rlx_status rx_vk_exec_read_run(rx_exec *e, uint64_t ticket, const rx_range *r, void *data,
                               rlx_error *err);
uint32_t rx_vk_exec_flags(rx_exec *e);
/* The flags of the last run, then whether a wait timed out, in host memory. */
const uint32_t *rx_vk_flag_words(const rx_exec *e);
double rx_vk_exec_seconds(rx_exec *e);
rlx_status rx_vk_exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err);

/* submit.c */
rlx_status rx_vk_exec_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err);
rlx_status rx_vk_exec_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err);
/* rx_gpu_driver.wait and .end. */
bool rx_vk_run_wait(rx_exec *e, uint64_t ticket, int64_t deadline_ns);
rlx_status rx_vk_run_end(rx_exec *e, uint64_t ticket, rlx_error *err);
/* Submits pending copies on their own. */
rlx_status rx_vk_flush(rx_exec *e, rlx_error *err);

/* host.c: runs one step on the host, with copies. */
rlx_status rx_vk_run_host(rx_exec *e, size_t step, rlx_error *err);

/* selfcheck.c: turns off in the caps what fails on this driver, and notes it; the outcome is kept
 * on disk. */
void rx_vk_selfcheck(rx_device *d);
/* The note of the last self-check of this device, from disk; empty when there was none. */
void rx_vk_selfcheck_note(const rx_vk_gpu *gpu, char note[160]);

#endif
