/* SPDX-License-Identifier: MIT */
/* Between the files of the WGSL printer.
 *
 *   wgsl_module.c  reads the module: a table of ids, decorations, specialised constants
 *   wgsl_types.c   types, layouts, constants and arithmetic on them
 *   wgsl_value.c   names, scopes: what a value is called where it is used
 *   wgsl_expr.c    instructions that compute
 *   wgsl_memory.c  pointers, buffers, push constants, loads and stores
 *   wgsl_group.c   what invocations do together: atomics, barriers, subgroups
 *   wgsl_flow.c    structured control flow
 *   wgsl_unroll.c  the module with loops unrolled that run a known number of times
 *   wgsl.c         functions, declarations, the whole text
 *
 * Each function of the module is walked along its structured control flow, twice. The first walk
 * (`dry`), of all functions, prints nothing: it counts uses, computes what is constant once
 * specialisation constants are known, drops branches that are never taken, and finds values that
 * are needed outside the braces that they are defined in. The second prints. A value used once is
 * written in place, others become a `let`, or a `var` at the top of the function where they outlive
 * their scope; a phi is a `var` written on each incoming edge and read once at the head of its
 * block.
 *
 * Failure is sticky: after rx_ws_fail everything returns something harmless. */
#ifndef RX_SPIRV_WGSL_PRINT_H
#define RX_SPIRV_WGSL_PRINT_H

#include "base/mem.h"
#include "base/str.h"
#include "spirv/wgsl.h"

enum {
#define OP(name, number, words, form, token, kind) Op##name = number,
#include "spirv/wgsl_ops.def"
#undef OP
    Op_none = 0xffff
};

typedef enum rx_ws_form { RX_WS_NONE, RX_WS_ID, RX_WS_TYPED } rx_ws_form;

typedef struct rx_ws_op {
    const char *name;
    uint32_t words;
    rx_ws_form form;
    const char *token; /* NULL: not a binary operator */
    char kind;
} rx_ws_op;

/* Storage classes. */
enum { CLASS_INPUT = 1, CLASS_UNIFORM = 2, CLASS_WORKGROUP = 4, CLASS_PRIVATE = 6,
       CLASS_FUNCTION = 7, CLASS_PUSH = 9, CLASS_BUFFER = 12, CLASS_ADDRESS = 5349 };

#define RX_WS_MAX_SCOPE 200       /* braces in braces */
#define RX_WS_MAX_LOOPS 64        /* loops and switches in each other */
#define RX_WS_MAX_DEPTH 32        /* types in types, access chains on access chains */
#define RX_WS_MAX_INLINE 120      /* bytes of an expression that is written in place */
#define RX_WS_MAX_MEMBERS 64      /* of a struct */
#define RX_WS_MAX_TEXT (24u << 20) /* bytes of all texts made on the way */

typedef struct rx_ws_id {
    const uint32_t *in;     /* defining instruction; NULL: none */
    uint32_t type;          /* of the result */
    uint32_t value;         /* known scalars: their bits */
    uint32_t same_as;       /* prints as that id; 0: as itself */
    uint32_t spec_id;       /* decorations + 1; 0: none */
    uint32_t builtin;
    uint32_t binding, set, stride;
    uint32_t *member_offset; /* structs: RX_WS_MAX_MEMBERS of them, UINT32_MAX: none */
    const char *text;       /* types: name; values: expression; pointers: reference */
    uint32_t uses;          /* in the text; found by the first walk */
    uint32_t scope;         /* braces that the value is defined in */
    uint32_t edges, source; /* phis: edges found so far, value of the last one */
    uint32_t base;          /* pointers: the variable or parameter they point into */
    uint32_t push_offset;   /* pointers to push constants: bytes, and words by an expression */
    const char *push_index;
    const char *word;       /* pointers into buffers read by words: index of the first word */
    uint32_t inputs;        /* functions: bits of the builtins they take; variables: 1 + index */
    uint8_t depth;          /* of types, constants, access chains */
    bool known;             /* a scalar whose value is known */
    bool hoisted;           /* needed out of its scope: a var of the function */
    bool flat;              /* buffers: the struct of one member is not printed */
    bool atomic;            /* variables: some instruction is an atomic on them, */
    bool atomic_seen;       /* one that the first walk came to */
    bool infinite;          /* constants: the text is no constant expression of WGSL */
    bool live;              /* functions and labels that are reached */
    bool breaks;            /* loops left from within a switch: a flag says so */
    bool is_block;          /* types: decorated Block */
    bool is_semantic;       /* instruction sets that may be left out */
} rx_ws_id;

/* A buffer of the text: a binding and its aliases. */
typedef struct rx_ws_buffer {
    uint32_t first;        /* a variable of it; 0: none */
    const char *type;      /* in WGSL */
    bool by_words;         /* members differ, or begin at different places */
    bool atomic, used, written;
    char kind;             /* of the words: 'u' or 'i' */
} rx_ws_buffer;

typedef struct rx_ws_loop {
    bool is_switch;
    uint32_t merge, cont, head;
} rx_ws_loop;

typedef struct rx_wgsl {
    uint32_t *words;              /* a copy of the module, with sentinels after its end: */
    const uint32_t *w, *end;
    uint32_t bound;
    rx_ws_id *id;
    const rx_wgsl_options *opt;
    rx_wgsl_text *info;
    rlx_error *err;
    rlx_status status;
    const uint32_t *at;           /* instruction being looked at, for errors; NULL: none */
    rx_arena arena;
    size_t arena_bytes, work;
    rx_str out, decl;             /* functions; declarations that come with them */
    uint32_t entry, glsl, push, workgroup_size;
    const uint32_t *local_ids;    /* of the local size; NULL: it is plain */
    bool f16, subgroups, needs_mulhi, needs_bits, needs_push_at;
    rx_ws_buffer buffer[RX_WGSL_MAX_BIND];
    /* of the function being walked */
    bool dry, no_forward, restart;
    uint32_t scopes[RX_WS_MAX_SCOPE], n_scopes, last_scope, indent, n_temp;
    rx_ws_loop loops[RX_WS_MAX_LOOPS];
    uint32_t n_loops;
    uint32_t pending_semantics;   /* of a memory barrier that waits for its control barrier */
    uint32_t uniform_load;        /* a load between two barriers: workgroupUniformLoad */
} rx_wgsl;

/* ---- wgsl_module.c --------------------------------------------------------------------------- */

static inline uint32_t rx_ws_opcode(const uint32_t *in) { return in[0] & 0xffff; }
static inline uint32_t rx_ws_length(const uint32_t *in) { return in[0] >> 16; }
static inline const uint32_t *rx_ws_next(const uint32_t *in) { return in + rx_ws_length(in); }
static inline bool rx_ws_ok(const rx_wgsl *p) { return p->status == RLX_OK; }

void rx_ws_fail(rx_wgsl *p, rlx_status code, const char *format, ...) RX_PRINTF(3, 4);
/* NULL: not in the table. */
const rx_ws_op *rx_ws_find_op(uint32_t opcode);
/* Fails on ids outside of the table; never NULL. */
rx_ws_id *rx_ws_at(rx_wgsl *p, uint32_t id);
/* Opcode that defines the id; Op_none where nothing does. */
uint32_t rx_ws_def(rx_wgsl *p, uint32_t id);
/* The same module, with ids, constants and what each function needs; or a failure. */
void rx_ws_read_module(rx_wgsl *p);
/* Text in the arena; never NULL. */
const char *rx_ws_text(rx_wgsl *p, const char *format, ...) RX_PRINTF(2, 3);
/* Moves the string into the arena. */
const char *rx_ws_keep(rx_wgsl *p, rx_str *s);
bool rx_ws_is_line(const uint32_t *in); /* debug information */

/* ---- wgsl_types.c ---------------------------------------------------------------------------- */

/* The instruction of a type; one of void after a failure. */
const uint32_t *rx_ws_type(rx_wgsl *p, uint32_t type);
uint32_t rx_ws_pointee(rx_wgsl *p, uint32_t pointer_type);
uint32_t rx_ws_lanes(rx_wgsl *p, uint32_t type); /* of a vector; else 1 */
/* b bool, i, u, f, h f16, s struct, a array, p pointer, v void; of a vector: its elements. */
char rx_ws_kind(rx_wgsl *p, uint32_t type);
bool rx_ws_is_scalar(rx_wgsl *p, uint32_t type);
const char *rx_ws_kind_name(char kind);
const char *rx_ws_vector_name(rx_wgsl *p, char kind, uint32_t lanes);
const char *rx_ws_type_name(rx_wgsl *p, uint32_t type, bool atomic);
/* Sizes and alignments that WGSL gives to a type; offsets of members are those of the module. */
typedef struct rx_ws_layout {
    uint32_t size, align;
} rx_ws_layout;
rx_ws_layout rx_ws_layout_of(rx_wgsl *p, uint32_t type);
void rx_ws_check_strides(rx_wgsl *p, uint32_t type);
void rx_ws_print_struct(rx_wgsl *p, const char *name, uint32_t type, bool atomic);
uint32_t rx_ws_element_of(rx_wgsl *p, uint32_t type); /* of arrays of arrays */

bool rx_ws_is_constant_op(uint32_t opcode);
/* The id that prints instead of this one. */
uint32_t rx_ws_resolve(rx_wgsl *p, uint32_t id);
bool rx_ws_known(rx_wgsl *p, uint32_t id);
uint32_t rx_ws_value(rx_wgsl *p, uint32_t id); /* of a known scalar, else 0 */
const char *rx_ws_literal(rx_wgsl *p, char kind, uint32_t bits, bool *infinite);
const char *rx_ws_constant(rx_wgsl *p, uint32_t id);
/* op on known scalars a[0 .. n-1]; false: not one that is computed here. */
bool rx_ws_fold(uint32_t op, const uint32_t *a, uint32_t n, uint32_t *result);

/* ---- wgsl_value.c ---------------------------------------------------------------------------- */

void rx_ws_line(rx_wgsl *p, const char *format, ...) RX_PRINTF(2, 3);
void rx_ws_push_scope(rx_wgsl *p);
void rx_ws_pop_scope(rx_wgsl *p);
const char *rx_ws_use(rx_wgsl *p, uint32_t id);
/* The text will appear more than once: asks for a name. */
const char *rx_ws_use_often(rx_wgsl *p, uint32_t id);
/* With signedness kind 'i' or 'u'; any other: as it is. */
const char *rx_ws_use_as(rx_wgsl *p, uint32_t id, char kind);
enum { RX_WS_PURE = 1, RX_WS_PAREN = 2, RX_WS_ALWAYS = 4 };
/* The value of id. PURE: may be moved to its use or dropped; PAREN: needs parentheses there;
 * ALWAYS: is written in place however often it is used. */
void rx_ws_define(rx_wgsl *p, uint32_t id, int flags, const char *text);
/* The same for an expression with that signedness, converted if the module has another. */
void rx_ws_define_as(rx_wgsl *p, uint32_t id, char kind, int flags, const char *text);
void rx_ws_define_known(rx_wgsl *p, uint32_t id, uint32_t value);
void rx_ws_forward(rx_wgsl *p, uint32_t id, uint32_t same_as);
/* head(id, id, ...) */
const char *rx_ws_call(rx_wgsl *p, const char *head, const uint32_t *ids, uint32_t n, char kind);

/* ---- wgsl_unroll.c --------------------------------------------------------------------------- */

/* True: *words is another module of n words, which means the same, with loops unrolled as the
 * options allow. Freed by the caller in either case. Fails when out of memory. */
bool rx_ws_unroll(rx_wgsl *p, uint32_t **words, size_t *n);

/* ---- wgsl_expr.c, wgsl_memory.c, wgsl_group.c, wgsl_flow.c ----------------------------------- */

/* An instruction that is neither control flow nor a declaration. */
void rx_ws_instruction(rx_wgsl *p, const uint32_t *in);

/* Builtin inputs. */
#define RX_WS_N_INPUTS 9
enum { RX_WS_LOCAL_INDEX = 4, RX_WS_SUBGROUP_SIZE = 5, RX_WS_SUBGROUP_INVOCATION = 6,
       RX_WS_NUM_SUBGROUPS = 7, RX_WS_SUBGROUP_ID = 8 };
/* Tints that know subgroups may still not know these two: computed at the entry instead. */
#define RX_WS_COMPUTED (1u << RX_WS_NUM_SUBGROUPS | 1u << RX_WS_SUBGROUP_ID)
typedef struct rx_ws_input {
    const char *name, *type;
    uint32_t builtin; /* in SPIR-V */
} rx_ws_input;
extern const rx_ws_input rx_ws_inputs[RX_WS_N_INPUTS];

/* Finds out which variables share a buffer of the text and how it is read. */
void rx_ws_plan_buffers(rx_wgsl *p);
uint32_t rx_ws_buffer_index(rx_wgsl *p, uint32_t binding);
void rx_ws_access_chain(rx_wgsl *p, const uint32_t *in);
void rx_ws_load(rx_wgsl *p, uint32_t id, uint32_t pointer);
void rx_ws_store(rx_wgsl *p, uint32_t pointer, uint32_t value);
void rx_ws_array_length(rx_wgsl *p, const uint32_t *in);
/* A pointer that is about to be used: its buffer is declared. */
void rx_ws_mark(rx_wgsl *p, uint32_t pointer, bool reads, bool writes);

void rx_ws_atomic(rx_wgsl *p, const uint32_t *in);
void rx_ws_subgroup(rx_wgsl *p, const uint32_t *in);
void rx_ws_barrier(rx_wgsl *p, const uint32_t *in);

/* Prints the blocks from `first` to the end of the function. */
void rx_ws_flow(rx_wgsl *p, uint32_t first);

#endif
