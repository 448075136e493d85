/* SPDX-License-Identifier: MIT */
/* Memory of a GPU device as every backend has it: places in blocks, pools of tensors, the arena of
 * a program, weights with their packed forms. What a block is and how bytes get there is the
 * backend's. */
#ifndef RX_GPU_MEMORY_H
#define RX_GPU_MEMORY_H

#include "base/thread.h"
#include "gpu/plan.h"
#include "runtime/backend.h"

typedef struct rx_block rx_block; /* a buffer; each backend has its own struct */

/* A range of a block. Tensors have room up to the next multiple of RX_GPU_ALIGN. */
typedef struct rx_gpu_place {
    const rx_block *block;
    uint64_t offset, bytes;
} rx_gpu_place;

#define RX_GPU_ALIGN 256 /* no device asks for more */

/* The room that so many bytes take: never none. */
static inline uint64_t rx_gpu_room(uint64_t bytes)
{
    return bytes ? (bytes + RX_GPU_ALIGN - 1) & ~(uint64_t)(RX_GPU_ALIGN - 1) : RX_GPU_ALIGN;
}

/* A dispatch whose bindings have their places. */
typedef struct rx_gpu_placed {
    rx_gpu_dispatch dispatch;
    uint32_t step;
    rx_gpu_place bind[RX_GPU_MAX_BIND]; /* block NULL: something harmless */
    uint64_t begin[RX_GPU_MAX_BIND], end[RX_GPU_MAX_BIND]; /* bytes touched, in the block */
    uint8_t scratch[RX_GPU_MAX_BIND]; /* 1 + the block of scratch memory; 0: it is elsewhere */
} rx_gpu_placed;

/* What a backend gives. */
typedef struct rx_gpu_memory {
    rx_device *device;
    size_t block_size;        /* of its struct rx_block */
    uint64_t max_block_bytes;
    /* Says no before anything is allocated for tensors of so many bytes together. */
    rlx_status (*check)(rx_device *d, uint64_t total, uint64_t largest, const char *what,
                        rlx_error *err);
    /* A block for kernels. On failure nothing is kept. */
    rlx_status (*create)(rx_device *d, uint64_t bytes, const char *what, rx_block *out,
                         rlx_error *err);
    void (*destroy)(rx_device *d, rx_block *b);
    rlx_status (*upload)(rx_device *d, const rx_gpu_place *to, uint64_t offset, const void *data,
                         uint64_t bytes, rlx_error *err);
    /* Fills with zeros. NULL: new blocks are zero. */
    rlx_status (*zero)(rx_device *d, const rx_gpu_place *to, rlx_error *err);
    /* Waits for uploads under way, and for all work. NULL: the queue keeps the order. */
    rlx_status (*finish_uploads)(rx_device *d, rlx_error *err);
    rlx_status (*wait)(rx_device *d, rlx_error *err);
} rx_gpu_memory;

/* ---- Pools: pool.c -------------------------------------------------------------------------- */

/* Tensors with one end, in as few blocks as the limits allow. */
typedef struct rx_gpu_pool {
    rx_block **blocks;
    size_t n, cap;
    uint64_t used, room; /* of the newest block */
    uint64_t total;      /* bytes of all blocks */
} rx_gpu_pool;

/* Places n tensors of bytes[i] bytes. On failure nothing is kept. */
rlx_status rx_gpu_pool_create(const rx_gpu_memory *m, const uint64_t *bytes, size_t n,
                              const char *what, rx_gpu_pool *pool, rx_gpu_place *out,
                              rlx_error *err);
/* Adds one tensor; a new block has at least `block_bytes` bytes, as far as the device allows. */
rlx_status rx_gpu_pool_add(const rx_gpu_memory *m, rx_gpu_pool *pool, uint64_t bytes,
                           uint64_t block_bytes, const char *what, rx_gpu_place *out,
                           rlx_error *err);
void rx_gpu_pool_destroy(const rx_gpu_memory *m, rx_gpu_pool *pool);
/* Places the values of a program's arena: at their planned offsets where one block is enough, else
 * packed anew. out: by value. */
rlx_status rx_gpu_arena_create(const rx_gpu_memory *m, const rx_program *p, rx_gpu_pool *pool,
                               rx_gpu_place *out, rlx_error *err);

/* ---- Weights: weights.c --------------------------------------------------------------------- */

typedef struct rx_pack rx_pack; /* a dispatch that packs; each backend has its own struct */

/* A packed form of a weight. */
typedef struct rx_gpu_packed {
    uint32_t item;    /* of the weights */
    uint64_t key;     /* kind and view */
    rx_gpu_place place;
    uint64_t version; /* of the item from which it was computed; 0: never */
    rx_pack *pack;
} rx_gpu_packed;

typedef struct rx_gpu_weight {
    rx_gpu_place place;
    uint64_t version; /* counts sets; 0: never set */
} rx_gpu_weight;

/* How a backend packs. `from` binds the weight and the packed form. */
typedef struct rx_gpu_packer {
    rlx_status (*create)(rx_device *d, const rx_gpu_placed *from, rx_pack **out, rlx_error *err);
    void (*destroy)(rx_device *d, rx_pack *p); /* NULL is fine */
} rx_gpu_packer;

/* Params, then the constants of the program. The lock is held while a run is submitted, so that
 * packed forms are made in the order of the queue. */
struct rx_weights {
    const rx_gpu_memory *memory;
    const rx_gpu_packer *packer;
    rx_program *program;
    rx_mutex lock;
    rx_gpu_pool pool, packed_pool;
    rx_gpu_weight *items;
    size_t n_items;
    rx_gpu_packed **packed;
    size_t n_packed, cap_packed;
};

rlx_status rx_gpu_weights_create(const rx_gpu_memory *m, const rx_gpu_packer *packer, rx_program *p,
                                 rx_weights **out, rlx_error *err);
rlx_status rx_gpu_weights_set(rx_weights *w, size_t param, const void *data, size_t bytes,
                              rlx_ownership own, rlx_error *err);
void rx_gpu_weights_destroy(rx_weights *w);
/* The packed form of a weight seen as `view`, made if it is new; the lock is held. */
rlx_status rx_gpu_weights_pack(rx_weights *w, uint32_t item, const rx_view *view,
                               const rx_gpu_derived *want, rx_gpu_packed **out, rlx_error *err);

/* Whether it has to be made anew, because its weight has changed. */
static inline bool rx_gpu_packed_is_old(const rx_weights *w, const rx_gpu_packed *x)
{
    return x->version != w->items[x->item].version;
}

/* The memory of a value: a weight's, or that of the value that owns it in places. */
rx_gpu_place rx_gpu_value_place(const rx_gpu_values *v, const rx_weights *w,
                                const rx_gpu_place *places, uint32_t value);

#endif
