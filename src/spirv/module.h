/* SPDX-License-Identifier: MIT */
/* A SPIR-V 1.3 module under construction: sections of words, ids, types and constants that exist
 * once, functions that may be begun while another is being written. Running out of memory is
 * remembered (`failed`) and reported by rx_spv_words, so that callers may go on without looking. */
#ifndef RX_SPIRV_MODULE_H
#define RX_SPIRV_MODULE_H

#include "base/mem.h"

typedef uint32_t rx_id;

/* The instructions that we write, by their numbers in the SPIR-V specification. */
enum {
    SPV_EXT_INST_IMPORT = 11, SPV_EXT_INST = 12, SPV_MEMORY_MODEL = 14, SPV_ENTRY_POINT = 15,
    SPV_EXECUTION_MODE = 16, SPV_CAPABILITY = 17, SPV_TYPE_VOID = 19, SPV_TYPE_BOOL = 20,
    SPV_TYPE_INT = 21, SPV_TYPE_FLOAT = 22, SPV_TYPE_VECTOR = 23, SPV_TYPE_ARRAY = 28,
    SPV_TYPE_RUNTIME_ARRAY = 29, SPV_TYPE_STRUCT = 30, SPV_TYPE_POINTER = 32,
    SPV_TYPE_FUNCTION = 33, SPV_CONSTANT = 43, SPV_FUNCTION = 54, SPV_FUNCTION_PARAMETER = 55,
    SPV_FUNCTION_END = 56, SPV_FUNCTION_CALL = 57, SPV_VARIABLE = 59, SPV_LOAD = 61,
    SPV_STORE = 62, SPV_ACCESS_CHAIN = 65, SPV_DECORATE = 71, SPV_MEMBER_DECORATE = 72,
    SPV_COMPOSITE_CONSTRUCT = 80, SPV_COMPOSITE_EXTRACT = 81, SPV_CONVERT_F_TO_U = 109,
    SPV_CONVERT_F_TO_S = 110, SPV_CONVERT_S_TO_F = 111, SPV_CONVERT_U_TO_F = 112,
    SPV_BITCAST = 124, SPV_I_ADD = 128, SPV_F_ADD = 129, SPV_I_SUB = 130, SPV_F_SUB = 131,
    SPV_I_MUL = 132, SPV_F_MUL = 133, SPV_U_DIV = 134, SPV_S_DIV = 135, SPV_F_DIV = 136,
    SPV_U_MOD = 137, SPV_S_REM = 138, SPV_U_MUL_EXTENDED = 151, SPV_LOGICAL_OR = 166,
    SPV_LOGICAL_AND = 167, SPV_LOGICAL_NOT = 168, SPV_SELECT = 169, SPV_I_EQUAL = 170,
    SPV_I_NOT_EQUAL = 171, SPV_U_GREATER = 172, SPV_S_GREATER = 173, SPV_U_GREATER_EQUAL = 174,
    SPV_S_GREATER_EQUAL = 175, SPV_U_LESS = 176, SPV_S_LESS = 177, SPV_U_LESS_EQUAL = 178,
    SPV_S_LESS_EQUAL = 179, SPV_F_LESS = 184, SPV_F_GREATER = 186, SPV_SHIFT_RIGHT = 194,
    SPV_SHIFT_RIGHT_SIGNED = 195, SPV_SHIFT_LEFT = 196, SPV_OR = 197, SPV_XOR = 198,
    SPV_AND = 199, SPV_NOT = 200, SPV_BIT_FIELD_S_EXTRACT = 202, SPV_LOOP_MERGE = 246,
    SPV_SELECTION_MERGE = 247, SPV_LABEL = 248, SPV_BRANCH = 249, SPV_BRANCH_CONDITIONAL = 250,
    SPV_RETURN = 253, SPV_RETURN_VALUE = 254
};
/* Instructions of GLSL.std.450. */
enum {
    GLSL_ROUND_EVEN = 2, GLSL_FLOOR = 8, GLSL_CEIL = 9, GLSL_EXP2 = 29, GLSL_SQRT = 31,
    GLSL_INVERSE_SQRT = 32,
    GLSL_FCLAMP = 43, GLSL_FMA = 50, GLSL_UNPACK_HALF_2X16 = 62, GLSL_FIND_U_MSB = 75
};
enum { SPV_CLASS_INPUT = 1, SPV_CLASS_FUNCTION = 7, SPV_CLASS_PUSH_CONSTANT = 9,
       SPV_CLASS_STORAGE_BUFFER = 12 };
enum { SPV_BLOCK = 2, SPV_ARRAY_STRIDE = 6, SPV_BUILT_IN = 11, SPV_ALIASED = 20,
       SPV_NON_WRITABLE = 24, SPV_BINDING = 33, SPV_DESCRIPTOR_SET = 34, SPV_OFFSET = 35,
       SPV_NO_CONTRACTION = 42 };
enum { SPV_NUM_WORKGROUPS = 24, SPV_WORKGROUP_ID = 26, SPV_LOCAL_INVOCATION_ID = 27 };

typedef struct rx_words {
    uint32_t *w;
    size_t n, cap;
} rx_words;

#define RX_SPV_DEPTH 8 /* functions that may be open at a time */

/* A function being written. Variables come first in its first block. */
typedef struct rx_spv_function {
    rx_words head, locals, code;
} rx_spv_function;

/* A type or constant: where its words are in `globals`. */
typedef struct rx_spv_interned {
    uint32_t hash, at;
} rx_spv_interned;

typedef struct rx_spv {
    rx_words decorations, globals, functions;
    rx_spv_function open[RX_SPV_DEPTH];
    int depth; /* open functions */
    rx_spv_interned *interned;
    size_t n_interned, cap_interned;
    rx_id bound, glsl;
    bool failed;
} rx_spv;

void rx_spv_init(rx_spv *m);
void rx_spv_finish(rx_spv *m);
rx_id rx_spv_new_id(rx_spv *m);

/* A type (type == 0) or constant; the same words give the same id. */
rx_id rx_spv_intern(rx_spv *m, uint32_t op, rx_id type, const uint32_t *args, size_t n);
/* A global that is new each time: variables and decorated structs. */
rx_id rx_spv_declare(rx_spv *m, uint32_t op, rx_id type, const uint32_t *args, size_t n);
/* args: target, decoration, ... */
void rx_spv_decorate(rx_spv *m, uint32_t op, const uint32_t *args, size_t n);

/* An instruction of the innermost open function. With type 0 it has no result and 0 is returned. */
rx_id rx_spv_op(rx_spv *m, uint32_t op, rx_id type, const uint32_t *args, size_t n);
void rx_spv_label(rx_spv *m, rx_id label);
/* An instruction of GLSL.std.450. */
rx_id rx_spv_glsl(rx_spv *m, uint32_t inst, rx_id type, const rx_id *args, size_t n);

/* Begins a function with its first block; params[i] gets the id of a parameter of type types[i]. */
rx_id rx_spv_begin(rx_spv *m, rx_id result, const rx_id *types, size_t n, rx_id *params);
/* A variable of the innermost function: a pointer. */
rx_id rx_spv_local(rx_spv *m, rx_id type);
/* Ends the innermost function; its last instruction must be a return. */
void rx_spv_end(rx_spv *m);

#define RX_ARGS(...) (const uint32_t[]){__VA_ARGS__}, \
                     sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

/* The whole module with entry point `entry` ("main") and its local size, in `arena`; `interface`
 * are the input variables. NULL when memory ran out, here or before. */
uint32_t *rx_spv_build(const rx_spv *m, rx_arena *arena, rx_id entry, uint32_t local,
                       const rx_id *interface, size_t n_interface, size_t *n_words);

#endif
