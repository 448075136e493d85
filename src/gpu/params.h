/* SPDX-License-Identifier: MIT */
/* What C and the kernels agree on, made from the rows of gpu/kernels.def. For each family F:
 *
 *   rx_spec_F, rx_push_F, rx_bind_F   its specialisation constants, push constants and bindings by
 *                                     name, each member a word; those of a family that it uses are
 *                                     a member of that family's name
 *   rx_args_F                         all three: the arguments of a dispatch (gpu/gpu.h)
 *   RX_CONTRACT_F                       its row in rx_contracts
 *
 * and RX_CODE_C for each CODE. The functions below say the names again, for dumps and tests. */
#ifndef RX_GPU_PARAMS_H
#define RX_GPU_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/needs.h"
#include "rlx/ops.h"
#include "rlx/session.h"

/* Limits of a kernel: bindings, specialisation constants including the local size, words of push
 * constants. */
#define RX_GPU_MAX_BIND 10
#define RX_GPU_MAX_SPEC 21
#define RX_GPU_MAX_PUSH 32

/* What a binding refers to: RX_REF_* of gpu/gpu.h. */
typedef uint32_t rx_gpu_ref;

/* ---- Structs --------------------------------------------------------------------------------- */

typedef struct rx_uvec2 {
    uint32_t x, y;
} rx_uvec2;

#define RX_C_uint uint32_t
#define RX_C_int int32_t
#define RX_C_float float
#define RX_C_uvec2 rx_uvec2

#define FAMILY(f) typedef struct rx_spec_##f {
#define SPEC(name, default_value) uint32_t name;
#define SPEC_INT(name, default_value) int32_t name;
#define SPEC_TYPE(name, default_value) uint32_t name;
#define USES_SPEC(f) rx_spec_##f f;
#define NO_SPEC uint32_t none;
#define END(f) } rx_spec_##f;
#include "gpu/kernels.def"

#define FAMILY(f) typedef struct rx_push_##f {
#define PUSH(type, name) RX_C_##type name;
#define PUSH_ARRAY(type, name, n) RX_C_##type name[n];
#define USES_PUSH(f) rx_push_##f f;
#define NO_PUSH uint32_t none;
#define END(f) } rx_push_##f;
#include "gpu/kernels.def"

#define FAMILY(f) typedef struct rx_bind_##f {
#define BIND(access, name) rx_gpu_ref name;
#define USES_BIND(f) rx_bind_##f f;
#define NO_BIND rx_gpu_ref none;
#define END(f) } rx_bind_##f;
#include "gpu/kernels.def"

#define FAMILY(f)            \
    typedef struct rx_args_##f { \
        rx_bind_##f bind;    \
        rx_spec_##f spec;    \
        rx_push_##f push;    \
    } rx_args_##f;
#define END(f)
#include "gpu/kernels.def"

enum {
#define CODES(group)
#define CODE(name, value) RX_CODE_##name = value,
#define END_CODES(group)
#include "gpu/kernels.def"
};

/* ---- Families by number ---------------------------------------------------------------------- */

typedef enum rx_contract {
#define FAMILY(f) RX_CONTRACT_##f,
#define END(f)
#include "gpu/kernels.def"
    RX_N_CONTRACTS
} rx_contract;

typedef enum rx_param_kind {
    RX_PARAM_END, RX_PARAM_SPEC, RX_PARAM_PUSH, RX_PARAM_BIND, RX_PARAM_USES_SPEC,
    RX_PARAM_USES_PUSH, RX_PARAM_USES_BIND
} rx_param_kind;

/* A row of a family. */
typedef struct rx_param {
    rx_param_kind kind;
    const char *name, *type; /* of uses: the family; "uint", "int", "float", "uvec2" */
    uint32_t words;          /* push: of all elements */
    uint32_t elements;       /* push: of an array; 0: none */
    uint32_t value;          /* spec: the default; bind: 1 when it is written; uses: rx_contract */
    bool is_dtype;           /* spec: an element type; 0: none */
} rx_param;

typedef struct rx_contract_info {
    const char *name;
    const rx_param *params; /* up to RX_PARAM_END */
    uint32_t n_spec, n_push, n_bind; /* of all, with those of the families used; push: words */
} rx_contract_info;
extern const rx_contract_info rx_contracts[RX_N_CONTRACTS];

/* Row i of the specialisation constants (whose id is i + 1), the push constants (an array is one)
 * and the bindings, counted through the families used; NULL after the last. */
const rx_param *rx_contract_spec(rx_contract f, uint32_t i);
const rx_param *rx_contract_push(rx_contract f, uint32_t i);
const rx_param *rx_contract_bind(rx_contract f, uint32_t i);

/* The row of a word of the push constants; *at: its index within the row. NULL: there is none. */
const rx_param *rx_contract_push_at(rx_contract f, uint32_t word, uint32_t *at);
/* The name of a word of the push constants (elements of an array as "dim[2]", written to `room`),
 * of the constant with this id ("local_size" for 0), or of a binding. NULL: there is none. */
const char *rx_contract_push_name(rx_contract f, uint32_t word, char room[64]);
const char *rx_contract_spec_name(rx_contract f, uint32_t id);
const char *rx_contract_bind_name(rx_contract f, uint32_t i);

/* ---- Codes ----------------------------------------------------------------------------------- */

typedef struct rx_code {
    const char *name; /* in shaders */
    uint32_t value;
} rx_code;

typedef struct rx_code_group {
    const char *name;
    const rx_code *codes; /* up to name NULL */
} rx_code_group;
extern const rx_code_group rx_code_groups[]; /* up to name NULL */

/* Trip counts of loops: specialisation constants with ids from RX_FIRST_LOOP on, in this order,
 * never set. */
#define RX_FIRST_LOOP 29
extern const rx_code rx_loops[]; /* up to name NULL */

#endif
