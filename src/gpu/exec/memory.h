/* SPDX-License-Identifier: MIT */
/* Device memory, shared by all GPU backends: places in blocks, pools of tensors, the arena of a
 * program, weights with their packed forms. Blocks and transfers are up to the backend. */
#ifndef RX_GPU_MEMORY_H
#define RX_GPU_MEMORY_H

#include "base/thread.h"
#include "gpu/select/plan.h"
#include "runtime/backend.h"

typedef struct rx_block rx_block; /* a device buffer; each backend's own struct */

/* A byte range of a block. Tensors are padded to a multiple of RX_GPU_ALIGN. */
typedef struct rx_gpu_place {
    const rx_block *block;
    uint64_t offset, bytes;
} rx_gpu_place;

#define RX_GPU_ALIGN 256 /* at least the alignment that any device requires */

/* `bytes` rounded up to the alignment, at least one unit. */
static inline uint64_t rx_gpu_room(uint64_t bytes)
{
    return bytes ? (bytes + RX_GPU_ALIGN - 1) & ~(uint64_t)(RX_GPU_ALIGN - 1) : RX_GPU_ALIGN;
}

typedef struct rx_gpu_placed rx_gpu_placed; /* a dispatch with resolved bindings: gpu/stages.h */

typedef struct rx_pack rx_pack; /* a dispatch that packs a weight; each backend's own struct */

/* The memory functions of a backend. */
typedef struct rx_gpu_memory {
    rx_device *device;
    rx_mutex *shared_lock;    /* guards weights that programs share: versions, packed forms */
    size_t block_size;        /* of its struct rx_block */
    uint64_t max_block_bytes;
    /* Refuses an allocation of `total` bytes before any part of it is made. */
    rlx_status (*check)(rx_device *d, uint64_t total, uint64_t largest, const char *what,
                        rlx_error *err);
    /* A block that kernels access. On failure nothing is kept. */
    rlx_status (*create)(rx_device *d, uint64_t bytes, const char *what, rx_block *out,
                         rlx_error *err);
    void (*destroy)(rx_device *d, rx_block *b);
    uint64_t (*block_bytes)(const rx_block *b);
    rlx_status (*upload)(rx_device *d, const rx_gpu_place *to, uint64_t offset, const void *data,
                         uint64_t bytes, rlx_error *err);
    /* Runs that write the place have ended, or the queue keeps the order. */
    rlx_status (*download)(rx_device *d, const rx_gpu_place *from, uint64_t offset, void *data,
                           uint64_t bytes, rlx_error *err);
    /* Host address of a place, or NULL where it is not host-visible. */
    void *(*map)(const rx_gpu_place *p);
    /* Zero-fills. NULL: new blocks are zero. */
    rlx_status (*zero)(rx_device *d, const rx_gpu_place *to, rlx_error *err);
    /* Waits for pending uploads, and for all work. NULL: the queue keeps the order. */
    rlx_status (*finish_uploads)(rx_device *d, rlx_error *err);
    rlx_status (*wait)(rx_device *d, rlx_error *err);
    /* The dispatch that packs a weight; `from` binds the weight and the packed form. */
    rlx_status (*pack_create)(rx_device *d, const rx_gpu_placed *from, rx_pack **out,
                              rlx_error *err);
    void (*pack_destroy)(rx_device *d, rx_pack *p); /* NULL is fine */
} rx_gpu_memory;

/* ---- Pools: pool.c -------------------------------------------------------------------------- */

/* Tensors that are freed together, in as few blocks as the limits allow. */
typedef struct rx_gpu_pool {
    rx_block **blocks;
    size_t n, cap;
    uint64_t used, room; /* of the newest block */
    uint64_t total;      /* bytes of all blocks */
} rx_gpu_pool;

/* Allocates n tensors of bytes[i] bytes. On failure nothing is kept. */
rlx_status rx_gpu_pool_create(const rx_gpu_memory *m, const uint64_t *bytes, size_t n,
                              const char *what, rx_gpu_pool *pool, rx_gpu_place *out,
                              rlx_error *err);
/* Adds one tensor; a new block has at least `block_bytes` bytes where the device allows it. */
rlx_status rx_gpu_pool_add(const rx_gpu_memory *m, rx_gpu_pool *pool, uint64_t bytes,
                           uint64_t block_bytes, const char *what, rx_gpu_place *out,
                           rlx_error *err);
void rx_gpu_pool_destroy(const rx_gpu_memory *m, rx_gpu_pool *pool);
/* Allocates the values of a program's arena: at their planned offsets where one block holds it,
 * else with new offsets. out: by value. */
rlx_status rx_gpu_arena_create(const rx_gpu_memory *m, const rx_program *p, rx_gpu_pool *pool,
                               rx_gpu_place *out, rlx_error *err);

/* ---- Weights: weights.c --------------------------------------------------------------------- */

typedef struct rx_gpu_weight rx_gpu_weight;

/* A packed form of a weight. */
typedef struct rx_gpu_packed {
    struct rx_gpu_packed *next;
    const rx_gpu_weight *of;
    uint64_t key;     /* kind and view */
    rx_gpu_place place;
    uint64_t version; /* of the weight when it was packed; 0: never */
    rx_pack *pack;
} rx_gpu_packed;

struct rx_gpu_weight {
    rx_gpu_place place;      /* block NULL: never allocated */
    uint64_t version;        /* incremented by each change; 0: never set */
    rx_gpu_pool *pool;       /* of the packed forms */
    rx_gpu_packed *packed;
};

/* Memory shared by programs; as a weight it has packed forms. */
struct rx_buffer {
    const rx_gpu_memory *memory;
    rx_gpu_pool pool, packed_pool;
    rx_gpu_weight weight;
};

/* Params, then the constants of the program. Locked while a run is submitted, so that packed forms
 * are made in queue order. */
struct rx_weights {
    const rx_gpu_memory *memory;
    rx_program *program;
    rx_mutex lock;
    rx_gpu_pool pool, packed_pool;
    rx_gpu_weight *own;
    rx_gpu_weight **items; /* its own, a buffer's, or those of other weights */
    size_t n_items, n_shared; /* n_shared: with those that were lent to others */
    uint64_t n_moves;      /* incremented when a weight gets another place */
};

/* Params that have no memory of their own, by param; NULL: none. */
typedef struct rx_gpu_shares {
    rx_buffer *const *buffers;
    const rx_lender *from;
} rx_gpu_shares;

/* Locks those that other programs use, too. */
void rx_gpu_weights_lock(rx_weights *w);
void rx_gpu_weights_unlock(rx_weights *w);
rlx_status rx_gpu_weights_use(rx_weights *w, size_t param, rx_buffer *b, rlx_error *err);
rlx_status rx_gpu_weights_create(const rx_gpu_memory *m, rx_program *p, const rx_gpu_shares *s,
                                 rx_weights **out, rlx_error *err);
rlx_status rx_gpu_weights_set(rx_weights *w, size_t param, const void *data, size_t bytes,
                              rlx_ownership own, rlx_error *err);
void rx_gpu_weights_destroy(rx_weights *w);
/* The packed form of a weight seen as `view`, created if new; the weights are locked. */
rlx_status rx_gpu_weights_pack(rx_weights *w, uint32_t item, const rx_view *view,
                               const rx_gpu_derived *want, rx_gpu_packed **out, rlx_error *err);

/* Whether it must be packed again because its weight has changed. */
static inline bool rx_gpu_packed_is_old(const rx_gpu_packed *x)
{
    return x->version != x->of->version;
}
/* Frees the packed forms of a weight. */
void rx_gpu_packed_free(const rx_gpu_memory *m, rx_gpu_weight *w);

/* ---- Buffers: buffer.c ---------------------------------------------------------------------- */

rlx_status rx_gpu_buffer_create(const rx_gpu_memory *m, size_t bytes, rx_buffer **out,
                                rlx_error *err);
/* Entries of rx_backend. */
void rx_gpu_buffer_destroy(rx_buffer *b);
rlx_status rx_gpu_buffer_write(rx_buffer *b, size_t offset, const void *data, size_t bytes,
                               rlx_error *err);
rlx_status rx_gpu_buffer_read(rx_buffer *b, size_t offset, void *data, size_t bytes,
                              rlx_error *err);
void *rx_gpu_buffer_map(rx_buffer *b);
void rx_gpu_buffer_changed(rx_buffer *b);

/* The memory of a value: of a weight, or of the value that owns it in places. */
rx_gpu_place rx_gpu_value_place(const rx_gpu_values *v, const rx_weights *w,
                                const rx_gpu_place *places, uint32_t value);

#endif
