/* SPDX-License-Identifier: MIT */
/* The structs of the WebGPU backend, in reading order: loader (functions, waiting), caps (of an
 * adapter), device (open devices, errors), memory (blocks and places in them), buffer (transfers),
 * pipeline (kernels printed as WGSL and compiled), weights, command (bind groups, encoding), exec,
 * submit. */
#ifndef RX_WEBGPU_DEVICE_H
#define RX_WEBGPU_DEVICE_H

#include "gpu/exec/device.h"
#include "gpu/exec/pipelines.h"
#include "gpu/stages.h"
#include "webgpu/loader.h"

/* ---- Adapters: caps.c ----------------------------------------------------------------------- */

typedef struct rx_wg_gpu {
    WGPUAdapter adapter;
    rx_wg_limits limits;      /* that it offers, to be requested */
    WGPUEnum backend, type;
    bool f16, subgroups, timestamps; /* features to request */
    uint64_t max_block_bytes; /* of one buffer */
    uint64_t memory_limit;    /* RLX_LIMITS: of all blocks together; 0: none */
    rx_gpu_caps caps;
    rlx_device_info info;
} rx_wg_gpu;

/* Fills *out; false with a sentence in `why` when the adapter cannot be used. */
bool rx_wg_gpu_examine(rx_wg_library *lib, WGPUAdapter a, rx_wg_gpu *out, char why[256]);
/* Compute units of the GPU of that vendor (a PCI id) whose lower-case name contains the words of a
 * row of units.def; 0: unknown. */
uint32_t rx_wg_compute_units(uint32_t vendor, const char *name);
/* The short text about features and limits. */
void rx_wg_detail(const rx_wg_gpu *gpu, const rx_gpu_caps *caps, const char *note, char *out,
                  size_t cap);
/* The backend that RLX_WEBGPU_BACKEND requests; WGPU_BACKEND_UNDEFINED: any. False with a sentence
 * when the name is unknown. */
bool rx_wg_wanted_backend(WGPUEnum *out, char why[256]);

/* ---- Memory: memory.c ----------------------------------------------------------------------- */

/* WebGPU guarantees that new buffers are zero. */
struct rx_block {
    WGPUBuffer buffer;
    uint64_t bytes;
};

#define RX_WG_KERNEL (WGPU_USAGE_STORAGE | WGPU_USAGE_COPY_SRC | WGPU_USAGE_COPY_DST)
#define RX_WG_CONSTANTS (WGPU_USAGE_UNIFORM | WGPU_USAGE_COPY_DST)
#define RX_WG_READBACK (WGPU_USAGE_MAP_READ | WGPU_USAGE_COPY_DST)

rlx_status rx_wg_block_create(rx_device *d, WGPUFlags usage, uint64_t bytes, const char *what,
                              rx_block *out, rlx_error *err);
/* A zero block is fine. Work that uses it may still run. */
void rx_wg_block_destroy(rx_device *d, rx_block *b);
/* What the pools use. */
void rx_wg_memory_init(rx_device *d);

/* ---- Copies: buffer.c ----------------------------------------------------------------------- */

/* Ordered by the queue: after submitted work, before later work. */
rlx_status rx_wg_upload(rx_device *d, const rx_gpu_place *to, uint64_t offset, const void *data,
                        uint64_t bytes, rlx_error *err);
/* Waits for all work before. */
rlx_status rx_wg_download(rx_device *d, const rx_gpu_place *from, uint64_t offset, void *data,
                          uint64_t bytes, rlx_error *err);

/* ---- Pipelines: pipeline.c ------------------------------------------------------------------ */

typedef struct rx_wg_layout {
    WGPUBindGroupLayout group;
    WGPUPipelineLayout pipeline;
} rx_wg_layout;

typedef struct rx_pipeline {
    rx_gpu_pipeline entry;
    WGPUComputePipeline handle;
    WGPUBindGroupLayout layout;
    uint32_t used;          /* bit i: the text uses binding i */
    uint32_t uniform_words; /* of the constants; 0: none */
    uint16_t shift_word[RX_GPU_MAX_BIND]; /* of the constants: the word with the offset of binding i
                                           * */
} rx_pipeline;

/* One layout for each set of bindings, with and without constants. */
#define RX_WG_N_LAYOUTS (2u << RX_GPU_MAX_BIND)
#define RX_WG_CONSTANT_BINDING RX_GPU_MAX_BIND /* of the constants */

typedef struct rx_wg_pipelines {
    rx_gpu_pipelines table;
    rx_wg_layout *layouts; /* created on first use */
} rx_wg_pipelines;

/* One dispatch, ready to be encoded. */
typedef struct rx_wg_dispatch {
    rx_pipeline *pipeline;
    WGPUBindGroup group;
    rx_gpu_place bind[RX_GPU_MAX_BIND];    /* as the kernel sees them; block NULL: unused */
    uint8_t alias[RX_GPU_MAX_BIND];        /* 1 + the binding that this one is merged into */
    uint64_t begin[RX_GPU_MAX_BIND], end[RX_GPU_MAX_BIND]; /* the bound range of the block */
    uint32_t shifted;                      /* bit i: binding i begins after begin[] of its alias */
    uint32_t n_bind, n_push, step, piece;
    uint32_t push[RX_GPU_MAX_PUSH];
    uint32_t groups[3];
} rx_wg_dispatch;

rlx_status rx_wg_pipelines_init(rx_device *d, rlx_error *err);
void rx_wg_pipelines_finish(rx_device *d);
/* Sets the pipelines of n dispatches, whose bindings are final. `from` has the kernels and their
 * constants. On success each dispatch holds its pipeline until it is released. */
rlx_status rx_wg_pipelines_get(rx_device *d, const rx_gpu_placed *from, size_t n,
                               rx_wg_dispatch *to, rlx_error *err);
/* Dispatches without a pipeline are skipped. */
void rx_wg_pipelines_release(rx_device *d, rx_wg_dispatch *list, size_t n);

/* ---- Devices: device.c ---------------------------------------------------------------------- */

/* State shared with the callbacks of a device. It outlives the device, because the last callback
 * (device lost) may come late or never; another device reuses it under another number. */
typedef struct rx_wg_watch {
    struct rx_wg_watch *next;
    rx_wg_library *lib;
    rx_mutex lock;
    atomic_uintptr_t number; /* of the device: callbacks with another number are stale */
    atomic_bool lost, closed;
    atomic_uint n_errors; /* not caught by a scope */
    WGPUEnum kind;        /* of the last one */
    char text[400];
} rx_wg_watch;

struct rx_device {
    rx_gpu_device base;
    rx_wg_library *lib;
    rx_wg_gpu gpu;
    WGPUDevice handle;
    WGPUQueue queue;
    rx_wg_watch *watch;
    rx_mutex scope_lock;  /* error scopes are a stack of the device */
    rx_mutex read_lock;   /* guards readback */
    rx_block readback;    /* for downloads; created on first use */
    atomic_uint_fast64_t pending_bytes; /* written since the queue was last idle */
    rx_wg_pipelines pipelines;
    rx_block nothing;     /* bound for absent operands, each at a range of its own */
    bool no_fetch;        /* RLX_BENCH_DISPATCH_ONLY */
    bool force_upload;    /* RLX_FORCE_INPUT_UPLOAD */
};

size_t rx_wg_list(rlx_device_info *out, size_t cap, char reason[512]);
rlx_status rx_wg_open(size_t index, const rlx_device_desc *desc, rx_device **out, rlx_error *err);
void rx_wg_close(rx_device *d);
void rx_wg_describe(rx_device *d, char *out, size_t cap);
/* RLX_DEVICE_LOST when the device is lost. */
rlx_status rx_wg_check(rx_device *d, const char *what, rlx_error *err);
/* RLX_DEVICE_LOST, or the error that no scope caught since *n_errors was read. */
rlx_status rx_wg_check_errors(rx_device *d, unsigned *n_errors, const char *what, rlx_error *err);
/* Errors of the calls in between become a status, even when an object was returned. In browsers
 * scope_end cannot wait, and such errors fail the next run. */
void rx_wg_scope_begin(rx_device *d);
rlx_status rx_wg_scope_end(rx_device *d, const char *what, rlx_error *err);
/* Waits for all work that was submitted. */
rlx_status rx_wg_wait_queue(rx_device *d, rlx_error *err);

/* Turns off in the caps what fails, notes it, and fills in what the library did not report:
 * selfcheck.c. */
void rx_wg_selfcheck(rx_device *d);

/* ---- Weights: weights.c --------------------------------------------------------------------- */

/* A dispatch that packs a weight. */
struct rx_pack {
    rx_block constants;
    rx_wg_dispatch dispatch;
};

/* rx_gpu_memory.pack_create and .pack_destroy. */
rlx_status rx_wg_pack_create(rx_device *d, const rx_gpu_placed *from, rx_pack **out,
                              rlx_error *err);
void rx_wg_pack_destroy(rx_device *d, rx_pack *p);

/* ---- Commands: command.c -------------------------------------------------------------------- */

/* A dispatch without its pipeline and its bind group. Overlapping bindings are merged into one. */
rlx_status rx_wg_dispatch_init(rx_device *d, rx_wg_dispatch *x, const rx_gpu_placed *from,
                               rlx_error *err);
/* Makes the bind groups of n dispatches, with their constants in *constants. */
rlx_status rx_wg_groups_create(rx_device *d, rx_wg_dispatch *list, size_t n,
                               rx_block *constants, rlx_error *err);
void rx_wg_groups_release(rx_device *d, rx_wg_dispatch *list, size_t n);
/* Dispatches of the steps first .. end - 1, and timestamps at the ends of the pass (NULL: none). */
typedef struct rx_wg_part {
    size_t first, end;
    const WGPUPassTimestampWrites *stamps;
} rx_wg_part;
/* One pass with those of n dispatches that are in the part; NULL: all. */
void rx_wg_encode(rx_device *d, WGPUCommandEncoder to, const rx_wg_dispatch *list, size_t n,
                  const rx_wg_part *part);
/* Ends the encoder and submits. Returns the number of the submit. rx_wg_enter was called. */
uint64_t rx_wg_submit(rx_device *d, WGPUCommandEncoder e);

/* A recording of a program. */
struct rx_commands {
    rx_wg_dispatch *list;
    size_t n;
    rx_block constants;
};

/* rx_gpu_driver.record and .forget. */
rlx_status rx_wg_commands_create(rx_exec *e, const rx_gpu_list *list, rx_gpu_recording *r,
                                 rlx_error *err);
void rx_wg_commands_destroy(rx_exec *e, rx_commands *c);

/* ---- Programs: exec.c, submit.c ------------------------------------------------------------- */

#define RX_WG_N_WANTS 16

/* A range of a result that each run copies for the host. */
typedef struct rx_wg_want {
    uint32_t value;
    uint64_t offset, bytes; /* in the memory of the value; multiples of 4 */
    uint64_t at;            /* in the slot's buffer; 0: no run has copied it yet */
    uint32_t idle;          /* runs submitted since it was last read */
} rx_wg_want;

typedef struct rx_wg_slot {
    rx_block readback;    /* word 0: flags; then the wants */
    rx_wg_event *event;   /* of the run; NULL: none */
    uint64_t index;       /* of the run's last submit */
    const char *map;      /* while it is mapped */
    uint64_t bytes;       /* of what is copied; 0: nothing */
    uint64_t ticket;      /* of the run */
    rx_wg_want wants[RX_WG_N_WANTS]; /* what the run copies and where: later runs move them */
    size_t n_wants;
    bool mapping;         /* the buffer is mapped or about to be */
} rx_wg_slot;

#define RX_WG_N_FEEDS 4

/* An input that the next run takes from an output of the last one. */
typedef struct rx_wg_feed {
    uint32_t input;
    rx_gpu_place to, from;
    uint64_t bytes;
} rx_wg_feed;

/* Timestamps around a partial run; created on first use. */
typedef struct rx_wg_clock {
    WGPUQuerySet stamps;
    rx_block ticks;  /* two words of 64 bits */
    bool is_written; /* by the last submit */
} rx_wg_clock;

struct rx_exec {
    rx_gpu_exec base;
    rx_device *device;
    rx_wg_clock clock;
    rx_wg_feed feeds[RX_WG_N_FEEDS]; /* copied at the beginning of the next submit */
    size_t n_feeds;
    char **shadows;             /* by input: the bytes on the device; NULL: not tracked */
    uint64_t *shadow_bytes;     /* how many of them are valid */

    rx_wg_want wants[RX_WG_N_WANTS];
    size_t n_wants;
    uint64_t fetched;           /* the last run that copied the wants */

    rx_wg_slot slots[RX_GPU_N_SLOTS]; /* by ticket */
    unsigned n_errors;          /* of the watch, as last seen */
};

rlx_status rx_wg_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_buffer *const *buffers,
                             rx_exec **out, rlx_error *err);
rlx_status rx_wg_exec_use(rx_exec *e, size_t port, rx_buffer *b, rlx_error *err);
void rx_wg_exec_destroy(rx_exec *e);
rlx_status rx_wg_exec_write(rx_exec *e, uint32_t value, size_t offset, const void *data,
                            size_t bytes, rlx_error *err);
rlx_status rx_wg_exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                           rlx_error *err);
rlx_status rx_wg_exec_feed(rx_exec *e, uint32_t input, uint32_t output, size_t bytes,
                           rlx_error *err);
rlx_status rx_wg_exec_read_run(rx_exec *e, uint64_t ticket, const rx_range *r, void *data,
                               rlx_error *err);
uint32_t rx_wg_exec_flags(rx_exec *e);
double rx_wg_exec_seconds(rx_exec *e);
rlx_status rx_wg_exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err);

/* submit.c */
rlx_status rx_wg_exec_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err);
rlx_status rx_wg_exec_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err);
/* rx_gpu_driver.wait and .end. */
bool rx_wg_run_wait(rx_exec *e, uint64_t ticket, int64_t deadline_ns);
rlx_status rx_wg_run_end(rx_exec *e, uint64_t ticket, rlx_error *err);
/* Adds a range to those that each run copies for the host, or all outputs. */
void rx_wg_add_want(rx_exec *e, uint32_t value, uint64_t offset, uint64_t bytes);
void rx_wg_want_outputs(rx_exec *e);
/* Encodes the copies of fed inputs and clears the list. rx_wg_enter was called. */
void rx_wg_encode_feeds(rx_exec *e, WGPUCommandEncoder to);
/* Unmaps the slot, which may then be reused. */
void rx_wg_slot_clear(rx_device *d, rx_wg_slot *s);

#endif
