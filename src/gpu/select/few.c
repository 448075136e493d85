/* SPDX-License-Identifier: MIT */
/* Products of few rows with quantised weights on cooperative matrices, decoding the tiles that
 * products of one row read (tile4.glsl), where the policy allows rounding activations: where
 * integer dot products (gpu/select/dot.c) would take several dispatches, or many passes for the
 * rows. */
#include "gpu/select/product.h"
#include "gpu/select/quant.h"

#define LEAST_ROWS 2
#define MOST_ROWS 8 /* the kernel takes 16, for which tiles of 64 columns are faster */
#define DOT_ROWS 2  /* up to so many rows integer dot products are as fast, where they fit */

/* The shape of tile4_few.comp, measured on an H200: with 128 registers two workgroups are resident
 * per compute unit, so that one loads while the other joins its sums; more steps of x in registers
 * would leave room for one. */
#define FEW_SUBGROUPS 8
#define FEW_STEPS 1
#define FEW_AHEAD 2
#define PER_UNIT 2
#define ROOM 16384 /* bytes of shared memory for x and sums: two batches of every subgroup */

static bool is_pair(const rx_product *p) { return p->call->epilogue && p->call->epilogue->pair; }

bool rx_quant_has_few(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    return p->m >= LEAST_ROWS && p->m <= MOST_ROWS && p->n_axes == 0 &&
           rx_kernel_available(RX_K_tile4_few, caps) && caps->coopmat_fragments &&
           caps->max_invocations >= 32 * FEW_SUBGROUPS && caps->max_shared_bytes >= ROOM + 4096 &&
           rx_quant_keeps_tiles(p) &&
           (p->m > DOT_ROWS || p->m > rx_quant_dot_rows(p));
}

#define MAX_COUNTERS 4096 /* tiles of columns */

static int64_t divide_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

/* Rows rounded up, since kernels are specialised for few row counts. */
static uint32_t count_rows(const rx_product *p)
{
    return p->m <= 2 ? 2 : p->m <= 4 ? 4 : p->m <= 8 ? 8 : 16;
}

static int64_t count_parts(const rx_product *p)
{
    return divide_up(divide_up(p->k, 128), FEW_SUBGROUPS * FEW_STEPS);
}

/* Fragments of 16 columns, of both weights. */
static int64_t count_fragments(const rx_product *p)
{
    return divide_up(p->n, 16) * (is_pair(p) ? 2 : 1);
}

/* Fragments per workgroup: the more, the less often x is read, as long as all units have work. */
static uint32_t pick_fragments(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    const int64_t groups = PER_UNIT * (int64_t)(caps->compute_units ? caps->compute_units : 64);
    const int64_t parts = count_parts(p), tiles = groups > parts ? groups / parts : 1;
    return (uint32_t)(divide_up(divide_up(count_fragments(p), tiles), FEW_AHEAD) * FEW_AHEAD);
}

/* Partial sums of workgroups and their counters. */
typedef struct few_parts {
    rx_gpu_ref partial, counters;
} few_parts;

static few_parts make_parts(rx_gpu_build *b, const rx_product *p, int64_t fragments, int64_t tiles,
                            int64_t parts)
{
    static const uint32_t zeros[MAX_COUNTERS];
    const int64_t rows = count_rows(p);
    const int64_t area = fragments * 32 * divide_up(rows, 8) + divide_up(rows, 4);
    return (few_parts){rx_gpu_scratch(b, (uint64_t)(tiles * parts * area) * 16),
                       rx_gpu_add_table(b, zeros, (uint64_t)tiles * 4)};
}

bool rx_quant_few_prologue(const rx_product *p)
{
    return rx_quant_has_few(p) && p->a_type == RLX_F32 && p->a_m == p->k;
}

bool rx_quant_few_epilogue(const rx_product *p)
{
    const rx_gpu_caps *caps = p->call->caps;
    const rx_gpu_epilogue *t = p->call->epilogue;
    const int64_t n = rx_view_elements(t->out), bytes = n * rlx_dtype_block_bytes(t->out->dtype);
    return t->pair && rx_quant_has_few(p) && rx_kernel_available(RX_K_tile4_few_pair, caps) &&
           !p->bias && !p->residual && p->n % 4 == 0 && p->out->dtype == RLX_F32 &&
           rx_quant_pairs_with(p, t) && rx_gpu_offset(t->out) % 4 == 0 &&
           rx_view_is_dense(t->out) && bytes <= (int64_t)caps->max_binding_bytes;
}

static rx_gpu_dispatch *add_plain(rx_gpu_build *b, const rx_product *p,
                                  const rx_spec_tile4_few *spec, few_parts parts)
{
    const rx_quant_prologue prologue = rx_quant_prologue_of(p);
    const rx_args_product base = rx_product_args(p, 0);
    rx_args_tile4_few a = {
        .bind = {.product = base.bind, .other = prologue.other,
                 .partial = parts.partial, .counters = parts.counters},
        .spec = *spec,
        .push = {.product_lead = base.push.product_lead, .product_rest = base.push.product_rest,
                 .fold_at = prologue.at, .fold_eps = prologue.eps},
    };
    a.bind.product.a = prologue.x;
    rx_gpu_dispatch *d = rx_add_tile4_few(b, RX_K_tile4_few, 32 * spec->SUBGROUPS, &a);
    RX_PUSH_ADDRESS(d, tile4_few, product.b, weight_low);
    return d;
}

static rx_gpu_dispatch *add_pair(rx_gpu_build *b, const rx_product *p,
                                 const rx_spec_tile4_few *spec, few_parts parts)
{
    const rx_quant_prologue prologue = rx_quant_prologue_of(p);
    const rx_args_tile4_few_pair a = {
        .bind = {.a = prologue.x, .b = p->b_ref, .o = RX_REF_EPILOGUE, .other = prologue.other,
                 .second = rx_quant_pair_tiles(b, p), .partial = parts.partial,
                 .counters = parts.counters},
        .spec = {*spec},
        .push = {.m = (uint32_t)p->m, .n = (uint32_t)p->n, .a_at = (uint32_t)p->a_at,
                 .out_at = (uint32_t)p->out_at,
                 .a_m = (uint32_t)p->a_m, .fold_at = prologue.at, .fold_eps = prologue.eps},
    };
    rx_gpu_dispatch *d = rx_add_tile4_few_pair(b, RX_K_tile4_few_pair, 32 * spec->SUBGROUPS, &a);
    RX_PUSH_ADDRESS(d, tile4_few_pair, b, weight_low);
    RX_PUSH_ADDRESS(d, tile4_few_pair, second, second_low);
    return d;
}

bool rx_quant_few(rx_gpu_build *b, const rx_product *p)
{
    const bool pair = is_pair(p);
    if (!rx_quant_has_few(p) || (p->call->epilogue && !rx_quant_few_epilogue(p)) ||
        (p->call->prologue && !rx_quant_few_prologue(p)))
        return false;
    const uint32_t fragments = pick_fragments(p);
    const int64_t tiles = divide_up(count_fragments(p), fragments), parts = count_parts(p);
    if (tiles > MAX_COUNTERS || parts > p->call->caps->max_groups[1])
        return false;
    rx_product q = *p;
    q.b_ref = rx_quant_tiles(b, p);
    if (p->call->prologue)
        q.a_at = rx_gpu_offset(&p->call->prologue->in[0]);
    if (p->call->epilogue) {
        q.out = p->call->epilogue->out;
        q.out_at = rx_gpu_offset(q.out);
    }
    const rx_spec_tile4_few spec = {
        .product = rx_product_args(&q, 0).spec, .NB = (uint32_t)(p->k / 32),
        .SUBGROUPS = FEW_SUBGROUPS, .ROWS = count_rows(p), .FOLD = rx_quant_prologue_of(p).kind,
        .STEPS = FEW_STEPS, .FRAGMENTS = fragments, .AHEAD = FEW_AHEAD,
        .BATCH = count_rows(p) > 8 ? 1 : 2};
    const few_parts room = make_parts(b, p, fragments, tiles, parts);
    rx_gpu_dispatch *d = pair ? add_pair(b, &q, &spec, room) : add_plain(b, &q, &spec, room);
    d->groups[0] = (uint32_t)tiles;
    d->groups[1] = (uint32_t)parts;
    d->groups[2] = 1;
    return true;
}
