/* SPDX-License-Identifier: MIT */
/* Inside of the JSON Schema front end. Schemas and their negations are numbers (schema * 2 + 1 for
 * "not"); a node is a set of them that must hold together. For each node:
 *
 *   schema_refs.c    the document: keywords, resources, anchors, $ref
 *   schema_scalar.c  null, booleans, numbers and strings: one term a type, by boolean algebra
 *   schema_branch.c  objects and arrays: a tableau turns the boolean keywords into branches, each
 *                    a list of "for all members", "there is a member" and counts
 *   schema_emit.c    a branch becomes the members and items of the machine
 *   schema.c         nodes until none is left, those without an instance dropped, code */
#ifndef RX_GRAMMAR_SCHEMA_H
#define RX_GRAMMAR_SCHEMA_H

#include "base/map.h"
#include "grammar/front.h"

typedef enum rx_keyword {
    RX_KW_NONE,
#define KEYWORD(id, name, value, drafts, applies) RX_KW_##id,
#include "grammar/schema_keywords.def"
#undef KEYWORD
    RX_N_KEYWORDS
} rx_keyword;

typedef enum rx_keyword_value { RX_KV_DATA, RX_KV_SCHEMA, RX_KV_LIST, RX_KV_MAP, RX_KV_ITEMS }
    rx_keyword_value;
enum { RX_DRAFT_7 = 1, RX_DRAFT_2020 = 2 };
enum { RX_FOR_SCALARS = 1, RX_FOR_OBJECTS = 2, RX_FOR_ARRAYS = 4, RX_REFUSED = 8 };

typedef struct rx_keyword_info {
    const char *name;
    rx_keyword_value value;
    unsigned drafts, applies;
} rx_keyword_info;

extern const rx_keyword_info rx_keywords[RX_N_KEYWORDS];

typedef uint32_t rx_sid; /* schema * 2, + 1 for its negation */

typedef enum rx_scalar { RX_T_NULL, RX_T_BOOL, RX_T_NUMBER, RX_T_STRING, RX_N_SCALARS } rx_scalar;

typedef struct rx_schema {
    const rx_json *json;
    uint32_t resource;
    rx_ex scalar[2][RX_N_SCALARS]; /* [pretty]: its language; known where the bit is set */
    uint8_t known[2], visiting;
} rx_schema;

typedef struct rx_resource {
    const char *uri; /* without a fragment */
    const rx_json *root;
} rx_resource;

typedef struct rx_anchor {
    uint32_t resource;
    const char *name;
    const rx_json *json;
} rx_anchor;

/* A set of schemas that must hold together. */
typedef struct rx_node {
    const rx_sid *sids;
    uint32_t n;
    rx_ex plain;        /* null, booleans and numbers */
    rx_ex string;
    struct rx_alternative *alternatives; /* objects and arrays */
    uint32_t pc;
    bool productive;
} rx_node;

typedef struct rx_compiler {
    rx_program *p;
    rx_exprs *x;
    rlx_json_form form;
    unsigned draft;
    rx_schema *schemas;
    size_t n_schemas, cap_schemas;
    uint32_t *schema_table;
    size_t cap_schema_table;
    rx_resource *resources;
    size_t n_resources, cap_resources;
    rx_anchor *anchors;
    size_t n_anchors, cap_anchors;
    rx_node *nodes;
    size_t n_nodes, cap_nodes;
    uint32_t *node_table;
    size_t cap_node_table;
    size_t n_branches;   /* made so far */
    unsigned depth;
    rx_ex universe[RX_N_SCALARS], space;
    rx_term_mode strings; /* how escapes are read */
    bool pretty;         /* languages are those of rx_pretty_language */
    rx_sid yes;          /* the schema `true`; yes + 1 is false */
    rlx_error *err;
} rx_compiler;

/* ---- schema_refs.c --------------------------------------------------------------------------- */

rx_keyword rx_keyword_find(const rx_compiler *c, const rx_json *member);
/* Walks the document: drafts, resources, anchors; checks the values of keywords. */
rlx_status rx_schema_register(rx_compiler *c, const rx_json *root);
rlx_status rx_schema_id(rx_compiler *c, const rx_json *json, uint32_t resource, uint32_t *out);
rlx_status rx_schema_resolve(rx_compiler *c, uint32_t schema, const rx_json *ref, uint32_t *out);
/* In draft 7 nothing beside a $ref counts. */
bool rx_schema_only_ref(const rx_compiler *c, const rx_json *schema, const rx_json *member);
rlx_status rx_schema_refuse(rx_compiler *c, const char *keyword, const char *why);
rlx_status rx_schema_wrong(rx_compiler *c, const char *keyword, const char *expected);
rlx_status rx_schema_memory(rx_compiler *c);
/* A count of a keyword: integers, also written as 2.0, and RX_INF for huge ones. */
rlx_status rx_schema_count(rx_compiler *c, const char *keyword, const rx_json *v, uint32_t *out);

/* ---- schema_scalar.c ------------------------------------------------------------------------- */

/* The texts of a type that are valid; for strings the code points between the quotes. */
rlx_status rx_scalar_language(rx_compiler *c, rx_sid sid, rx_scalar t, rx_ex *out);
/* Of the numbers, how they should be written: integers and values without needless zeros. Negations
 * allow everything; what is valid is decided by the other language. */
rlx_status rx_pretty_language(rx_compiler *c, rx_sid sid, rx_ex *out);
/* Whether "type" has the name of a kind: "object", "array". */
rlx_status rx_type_includes(rx_compiler *c, const rx_json *type, const char *name, bool *out);

/* ---- schema_apart.c -------------------------------------------------------------------------- */

#define RX_MAX_OUTLINE 8

/* A schema and those that its "$ref" leads to, each of which must hold. */
typedef struct rx_outline {
    const rx_json *s[RX_MAX_OUTLINE];
    size_t n;
} rx_outline;
rlx_status rx_schema_outline(rx_compiler *c, uint32_t schema, rx_outline *out);
/* Whether no object (else no array) can be valid under both; false: it may be. */
bool rx_outlines_apart(const rx_outline *a, const rx_outline *b, bool objects);

/* ---- schema_branch.c ------------------------------------------------------------------------- */

typedef struct rx_for_keys {
    const char *name; /* one key, or NULL: those of `keys` */
    size_t length;
    rx_ex keys;
    rx_sid sid;
} rx_for_keys;

typedef struct rx_for_places {
    uint32_t lo, hi; /* both included */
    rx_sid sid;
} rx_for_places;

typedef struct rx_counter {
    rx_sid sid;
    uint32_t from, lo, hi; /* how many of the items from `from` on are valid */
} rx_counter;

#define RX_MAX_ATOMS 2048

/* What a tableau leaves: all of it must hold. */
typedef struct rx_branch {
    rx_for_keys *every, *some;
    size_t n_every, cap_every, n_some, cap_some;
    rx_ex names;
    rx_for_places *places;
    size_t n_places, cap_places;
    rx_counter *counters;
    size_t n_counters, cap_counters;
    uint32_t min, max;
    bool unique;
} rx_branch;

typedef rlx_status rx_branch_fn(rx_compiler *c, void *user, const rx_branch *b);
/* Calls `fn` for each branch of the schemas, on objects or on arrays. */
rlx_status rx_schema_branches(rx_compiler *c, const rx_sid *sids, size_t n, bool objects,
                              rx_branch_fn *fn, void *user);

/* ---- schema_emit.c --------------------------------------------------------------------------- */

typedef struct rx_choice {
    rx_ex key;          /* of a member */
    uint32_t node;      /* of its value */
    uint32_t name;      /* bit, or RX_NO_BIT */
    uint32_t marks;     /* needs, or counters of an item */
    uint32_t order;     /* or the place of an item */
} rx_choice;

typedef struct rx_alternative rx_alternative;
struct rx_alternative {
    rx_alternative *next;
    bool is_object, productive;
    rx_choice *choices;
    uint32_t n_choices, n_names, needs, min, max, n_prefix;
    const bool *required; /* [n_names] */
    uint32_t n_counters;
    uint32_t lo[RX_MAX_COUNTERS], hi[RX_MAX_COUNTERS];
};

/* The alternatives of a node on objects and arrays; may make new nodes. */
rlx_status rx_schema_alternatives(rx_compiler *c, uint32_t node);
/* Whether an instance exists, with the nodes that are known to have one. Drops nothing. */
bool rx_alternative_productive(const rx_compiler *c, const rx_alternative *a);
/* The code of an alternative, without choices that have no instance. Values are called by node
 * number. */
rlx_status rx_schema_emit(rx_compiler *c, const rx_alternative *a);

/* ---- schema.c -------------------------------------------------------------------------------- */

/* The node of a set of schemas, which is sorted here. */
rlx_status rx_schema_node(rx_compiler *c, rx_sid *sids, size_t n, uint32_t *out);

#endif
