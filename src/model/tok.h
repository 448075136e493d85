/* SPDX-License-Identifier: MIT */
/* The tokenizer pipeline: added tokens are found, then normalizers, pre-tokenizers (splits), the
 * model (BPE, unigram, WordPiece) for each piece, and the ids around it. GGUF metadata and
 * tokenizer.json both become these lists of steps; immutable after loading. */
#ifndef RX_MODEL_TOK_H
#define RX_MODEL_TOK_H

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "rlx/tokenizer.h"

#define RX_SPACE "\xe2\x96\x81" /* U+2581, SentencePiece's space */
#define RX_SPACE_BYTES 3

typedef enum rx_tok_model {
    RX_TOK_BPE,       /* merges by rank */
    RX_TOK_SCORES,    /* SentencePiece BPE: merges of neighbours that form a token, by score */
    RX_TOK_UNIGRAM,   /* unigram: the path with the greatest sum of scores */
    RX_TOK_WORDPIECE, /* the longest token first */
    RX_TOK_WORDLEVEL  /* whole pieces */
} rx_tok_model;

enum { /* flags of a token */
    RX_TOK_ADDED = 1,     /* matched before normalisation and splitting */
    RX_TOK_SPECIAL = 2,   /* only with RLX_ENCODE_PARSE_SPECIAL */
    RX_TOK_LSTRIP = 4,    /* absorbs the white space before it (lstrip) */
    RX_TOK_RSTRIP = 8,
    RX_TOK_SINGLE = 16,   /* not inside a word */
    RX_TOK_NORMAL = 32,   /* found in the normalised text, else in the raw one */
    RX_TOK_END = 64       /* ends a generation */
};

typedef struct rx_token {
    const char *text; /* ends in 0 */
    double score;
    uint32_t length;
    uint8_t kind;     /* rlx_token_kind; RLX_TOKEN_NONE is a gap */
    uint8_t flags;
} rx_token;

/* ---- Tries: tokens by their first bytes ------------------------------------------------------ */

typedef struct rx_trie_node {
    uint32_t first; /* child: children are neighbours, sorted by label */
    int32_t id;     /* of the token that ends here, or -1 */
    uint16_t n;
    uint8_t label;
} rx_trie_node;

typedef struct rx_trie {
    rx_trie_node *nodes; /* node 0 is the root */
    size_t n;
} rx_trie;

typedef struct rx_trie_key {
    const char *text;
    uint32_t length;
    int32_t id;
} rx_trie_key;

/* Sorts `keys`; of equal ones the first in the list is kept. False when out of memory. */
bool rx_trie_build(rx_trie *trie, rx_trie_key *keys, size_t n);
void rx_trie_finish(rx_trie *trie);
/* The child for a byte, or 0. */
uint32_t rx_trie_step(const rx_trie *trie, uint32_t node, unsigned char label);

/* ---- Steps ----------------------------------------------------------------------------------- */

typedef enum rx_step_kind {
    /* normalising: text to text */
    RX_NORM_FORM,      /* flags: RX_FORM_* */
    RX_NORM_LOWER,
    RX_NORM_DROP,      /* characters of the categories `flags` */
    RX_NORM_BERT,      /* flags: RX_BERT_* */
    RX_NORM_PREPEND,   /* text */
    RX_NORM_REPLACE,   /* text by with */
    RX_NORM_SQUEEZE,   /* runs of blanks (flags 0: two and more, 1: all white space) by with */
    RX_NORM_STRIP,     /* flags: 1 left, 2 right */
    RX_NORM_NMT,       /* removes control characters, maps other spaces to ' ' */
    RX_NORM_CHARSMAP,  /* text: the table of SentencePiece */
    RX_NORM_SPACES,    /* trims, and collapses runs of spaces */
    /* splitting: a piece to pieces; behaviour and invert as in `tokenizers` */
    RX_SPLIT_PATTERN,  /* pattern */
    RX_SPLIT_BITS,     /* at each character of the categories `flags` */
    RX_SPLIT_BERT,     /* at each punctuation character */
    RX_SPLIT_TEXT,     /* text */
    RX_SPLIT_METASPACE,/* blanks become text; flags: RX_META_* */
    RX_SPLIT_PREFIX,   /* a blank before a piece that begins with none */
    RX_SPLIT_SPACE     /* before each U+2581 that follows another character */
} rx_step_kind;

enum { RX_FORM_COMPATIBLE = 1, RX_FORM_COMPOSED = 2 };
enum { RX_BERT_CLEAN = 1, RX_BERT_CHINESE = 2 };
enum { RX_META_FIRST = 1, RX_META_ALWAYS = 2, RX_META_SPLIT = 4 };

typedef enum rx_behaviour {
    RX_ISOLATED, RX_REMOVED, RX_WITH_PREVIOUS, RX_WITH_NEXT, RX_CONTIGUOUS
} rx_behaviour;

typedef struct rx_pattern rx_pattern;

typedef struct rx_step {
    rx_step_kind kind;
    unsigned flags;
    rx_behaviour behaviour;
    bool invert;
    const char *text, *with; /* in the arena of the tokenizer */
    size_t text_bytes, with_bytes;
    const rx_pattern *pattern;
} rx_step;

#define RX_MAX_STEPS 16

/* ---- BPE merges ------------------------------------------------------------------------------ */

typedef struct rx_merge {
    int32_t left, right; /* left < 0: a free slot */
    uint32_t rank;
    int32_t id;
} rx_merge;

typedef struct rx_merges {
    rx_merge *slots;
    size_t cap; /* a power of two, at most half full; 0: none */
} rx_merges;

bool rx_merges_init(rx_merges *m, size_t n);
/* Adds a merge; of equal pairs the first stays. */
void rx_merges_add(rx_merges *m, rx_merge merge);
const rx_merge *rx_merges_find(const rx_merges *m, int32_t left, int32_t right);

/* ---- Decoding -------------------------------------------------------------------------------- */

typedef enum rx_decode_kind {
    RX_DECODE_BYTE_LEVEL, /* letters stand for bytes */
    RX_DECODE_SPACES,     /* U+2581 stands for a blank, <0xNN> for bytes */
    RX_DECODE_WORDPIECE,  /* a blank before each token that does not continue a word */
    RX_DECODE_SUFFIX,     /* text at the end of a token stands for a blank */
    RX_DECODE_FUSE,       /* tokens are text */
    RX_DECODE_WORDS       /* a blank between tokens */
} rx_decode_kind;

typedef struct rx_template {
    const char *name; /* NULL: the usual one */
    const char *text;
} rx_template;

struct rlx_tokenizer {
    rx_arena arena;
    const char *path; /* names the tokenizer in errors */
    rx_tok_model model;

    rx_token *tokens;
    size_t n_tokens, cap_tokens;
    rx_map ids;
    uint32_t longest; /* token, in bytes */
    int32_t byte_ids[256]; /* byte-level letters or <0xNN>; -1 */
    int32_t special[RLX_N_SPECIALS];

    rx_step norms[RX_MAX_STEPS], splits[RX_MAX_STEPS];
    size_t n_norms, n_splits;
    rx_trie added, added_normal; /* found in the raw text, in the normalised text */

    rx_merges merges;
    rx_trie words; /* of unigram and WordPiece */
    bool byte_level, byte_fallback, ignore_merges, fuse_unknown;
    bool drop_unknown;  /* unknown text is dropped despite an unknown token */
    bool single_scores; /* sums of scores are rounded to float, as SentencePiece does */
    const char *first_prefix, *next_prefix; /* what the vocabulary writes before the first piece of
                                               a word and before the others; "" for nothing */
    const char *word_suffix;                /* after the last piece of a word */
    double unknown_score;
    size_t max_word; /* characters of a WordPiece word */

    int32_t *before, *after; /* ids around a text */
    size_t n_before, n_after;

    rx_decode_kind decode;
    bool strip_first_blank, clean_up;

    rx_template *templates;
    size_t n_templates, cap_templates;
};

/* ---- Encoding -------------------------------------------------------------------------------- */

/* A piece of a word while it is merged. */
typedef struct rx_symbol {
    int32_t id, prev, next; /* id -1: no token; next -2: merged away */
    uint32_t at, length;    /* in the word */
} rx_symbol;

typedef struct rx_merge_candidate {
    uint32_t cost; /* the smallest comes first, then the leftmost */
    int32_t pos, left, right, id;
} rx_merge_candidate;

typedef struct rx_path { /* Viterbi: best path to a byte of the word */
    double score;
    uint32_t from;
    int32_t id;
} rx_path;

/* One call of encode. */
typedef struct rx_encoder {
    const rlx_tokenizer *t;
    unsigned flags;
    rlx_error *err;
    int32_t *ids;
    size_t n, cap;
    bool at_start;         /* of the whole text */
    bool after_unknown;    /* the last id is one that may be fused */
    rx_str norm[2];        /* double buffer of the normalised text */
    uint32_t *codes;       /* of normal forms */
    size_t cap_codes;
    rx_str stage[RX_MAX_STEPS + 1]; /* pieces that a splitting step rewrote; the last: a word */
    rx_symbol *symbols;
    size_t cap_symbols;
    rx_merge_candidate *heap;
    size_t n_heap, cap_heap;
    rx_path *path;
    size_t cap_path;
    double base_score; /* of the text before a piece: ties are decided by how sums round */
} rx_encoder;

/* Pushes an id; RLX_NO_MEMORY. */
rlx_status rx_encoder_push(rx_encoder *e, int32_t id);
/* Emits text outside of the vocabulary: as byte tokens if there are any, else as the unknown
 * token. */
rlx_status rx_encoder_unknown(rx_encoder *e, const char *s, size_t n);
rlx_status rx_encoder_no_memory(rx_encoder *e);

/* Runs the normalising steps; the result *s, *n is valid until the next call. */
rlx_status rx_tok_normalise(rx_encoder *e, const char **s, size_t *n);
/* Splits a piece by the steps from `stage` on and encodes the results. */
rlx_status rx_tok_split(rx_encoder *e, size_t stage, const char *s, size_t n);
/* The models. */
rlx_status rx_tok_bpe(rx_encoder *e, const char *s, size_t n);
rlx_status rx_tok_unigram(rx_encoder *e, const char *s, size_t n);
rlx_status rx_tok_wordpiece(rx_encoder *e, const char *s, size_t n);
rlx_status rx_tok_wordlevel(rx_encoder *e, const char *s, size_t n);

/* ---- Patterns -------------------------------------------------------------------------------- */

/* Bytes of the match at the begin of s, 0 for none: then none begins in the next *skip bytes. */
size_t rx_pattern_find(const rx_pattern *p, const char *s, size_t n, size_t *skip);
const rx_pattern *rx_pattern_by_name(const char *name);
/* The built-in pattern for a regular expression of tokenizer.json, or NULL. */
const rx_pattern *rx_pattern_by_regex(const char *regex, size_t n);

/* A row of the table of tokenizer.ggml.pre names. */
typedef struct rx_pre_name {
    const char *names;       /* separated by blanks */
    const char *patterns[6]; /* one after the other */
    bool ignore_merges, add_bos;
} rx_pre_name;
const rx_pre_name *rx_pre_find(const char *name, size_t n);
const rx_pre_name *rx_pre_at(size_t i); /* NULL behind the last */

/* ---- Loading --------------------------------------------------------------------------------- */

/* The keys of special tokens in GGUF files, spelled as there; ends with key NULL. tok_gguf.c */
typedef struct rx_special_key {
    rlx_special which;
    const char *key;
} rx_special_key;
extern const rx_special_key rx_special_keys[];

rlx_tokenizer *rx_tok_new(const char *path, rlx_error *err);
/* Appends a token or fills a gap. */
rlx_status rx_tok_set(rlx_tokenizer *t, size_t id, rx_token token, rlx_error *err);
/* Extends the vocabulary to ids below n; new ones are gaps. */
rlx_status rx_tok_resize(rlx_tokenizer *t, size_t n, rlx_error *err);
int32_t rx_tok_find(const rlx_tokenizer *t, const char *text, size_t n);
rx_step *rx_tok_norm(rlx_tokenizer *t, rx_step_kind kind, rlx_error *err);
rx_step *rx_tok_add_split(rlx_tokenizer *t, rx_step_kind kind, rlx_error *err);
rlx_status rx_tok_add_pattern(rlx_tokenizer *t, const char *name, rlx_error *err);
/* Adds BERT's steps to a tokenizer without steps; `lower` also strips accents. */
void rx_tok_add_bert(rlx_tokenizer *t, bool lower);
/* Adds a merge; both tokens and their sum must be in the vocabulary. */
rlx_status rx_tok_add_merge(rlx_tokenizer *t, size_t rank, rx_bytes left, rx_bytes right,
                            rlx_error *err);
rlx_status rx_tok_add_template(rlx_tokenizer *t, const char *name, size_t name_bytes,
                               const char *text, size_t bytes, rlx_error *err);
/* The ids around a text; -1 is left out. */
rlx_status rx_tok_set_around(rlx_tokenizer *t, const int32_t *before, size_t n_before,
                             const int32_t *after, size_t n_after, rlx_error *err);
/* Final checks; builds tries and tables; detects special tokens that the file does not name. */
rlx_status rx_tok_finish_load(rlx_tokenizer *t, rlx_error *err);
/* Validates a SentencePiece charsmap, so that lookups stay inside of it. */
rlx_status rx_tok_check_charsmap(const rlx_tokenizer *t, const char *map, size_t n,
                                 rlx_error *err);

/* The loaders fill an empty tokenizer. */
rlx_status rx_tok_load_gguf(rlx_tokenizer *t, const rlx_file *f, rlx_error *err);
rlx_status rx_tok_load_json(rlx_tokenizer *t, const void *text, size_t n, rlx_error *err);
rlx_status rx_tok_load_vocab(rlx_tokenizer *t, const void *text, size_t n, bool lower,
                             rlx_error *err);
/* do_lower_case of tokenizer_config.json; true by default. */
bool rx_tok_config_lower(const void *text, size_t n);
/* tokenizer_config.json: special tokens and chat templates. */
rlx_status rx_tok_load_config(rlx_tokenizer *t, const void *text, size_t n, rlx_error *err);

/* The byte that a character of byte-level vocabularies encodes, or -1; and the reverse. */
int rx_byte_of_letter(uint32_t code);
uint32_t rx_letter_of_byte(unsigned char byte);

#endif
