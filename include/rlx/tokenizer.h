/* SPDX-License-Identifier: MIT */
/* Tokenizers: text to token ids and back, as the model file says. Byte-level BPE, SentencePiece BPE
 * and unigram, WordPiece, word lists; from GGUF metadata, tokenizer.json or vocab.txt. */
#ifndef RLX_TOKENIZER_H
#define RLX_TOKENIZER_H

#include "file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A vocabulary with its rules. Nothing in it changes after it was opened: any number of threads may
 * encode and decode with it at the same time. */
typedef struct rlx_tokenizer rlx_tokenizer;

/* Opens the tokenizer of
 *   a GGUF file (its tokenizer.ggml.* entries);
 *   a tokenizer.json;
 *   a vocab.txt (BERT: one token a line, lower case unless the tokenizer_config.json beside says
 *     otherwise);
 *   a folder, or any other model file, with one of tokenizer.json and vocab.txt in the folder.
 * Chat template and special tokens are also taken from tokenizer_config.json in the same folder.
 * Every index, merge and string is checked here. On success the caller ends *out with
 * rlx_tokenizer_close; on failure *out is NULL. */
RLX_API rlx_status rlx_tokenizer_open(const char *path, rlx_tokenizer **out, rlx_error *err);
/* The same from the metadata of an open GGUF file, which may be closed afterwards. RLX_NOT_FOUND
 * when the file has no tokenizer (a safetensors file never has). */
RLX_API rlx_status rlx_tokenizer_open_file(const rlx_file *f, rlx_tokenizer **out, rlx_error *err);
/* All pointers that came from `t` end here. NULL is fine. */
RLX_API void rlx_tokenizer_close(rlx_tokenizer *t);

/* ---- The vocabulary ------------------------------------------------------------------------- */

/* "bpe" (by merges), "sentencepiece" (BPE by scores), "unigram", "wordpiece" or "wordlevel". Static
 * storage. */
RLX_API const char *rlx_tokenizer_model(const rlx_tokenizer *t);
/* Ids are 0 to this less one. */
RLX_API int32_t rlx_tokenizer_n_tokens(const rlx_tokenizer *t);

typedef enum rlx_token_kind {
    RLX_TOKEN_NONE = 0,     /* no such id */
    RLX_TOKEN_NORMAL,
    RLX_TOKEN_UNKNOWN,      /* stands for text the vocabulary cannot write */
    RLX_TOKEN_CONTROL,      /* begin, end, roles of a chat: no text of its own */
    RLX_TOKEN_USER_DEFINED, /* added: found in the text before all else, and is text */
    RLX_TOKEN_UNUSED,       /* a place kept free */
    RLX_TOKEN_BYTE          /* one byte, of vocabularies with byte fallback */
} rlx_token_kind;

RLX_API rlx_token_kind rlx_token_get_kind(const rlx_tokenizer *t, int32_t id);
/* The token as the vocabulary writes it ("\u0120the", "\u2581the", "##ing", "<0x0A>"), ended by a
 * zero byte; *length (may be NULL) does not count that. NULL when there is no such id. Belongs to
 * the tokenizer. For the bytes the token stands for see rlx_tokenizer_decode. */
RLX_API const char *rlx_token_text(const rlx_tokenizer *t, int32_t id, size_t *length);
/* The id of a token given as rlx_token_text gives it, or -1. */
RLX_API int32_t rlx_token_find(const rlx_tokenizer *t, const char *text, size_t length);

typedef enum rlx_special {
    RLX_SPECIAL_BOS, /* begin of text */
    RLX_SPECIAL_EOS, /* end of text */
    RLX_SPECIAL_EOT, /* end of a turn */
    RLX_SPECIAL_UNK,
    RLX_SPECIAL_PAD,
    RLX_SPECIAL_SEP,
    RLX_SPECIAL_CLS,
    RLX_SPECIAL_MASK,
    RLX_N_SPECIALS
} rlx_special;

/* The id of a special token, or -1 when the model has none. */
RLX_API int32_t rlx_tokenizer_special(const rlx_tokenizer *t, rlx_special which);
/* Whether generation ends with this token: end of text, of a turn, of a message. */
RLX_API bool rlx_tokenizer_is_end(const rlx_tokenizer *t, int32_t id);
/* Whether RLX_ENCODE_ADD_SPECIAL puts something before or after the text. */
RLX_API bool rlx_tokenizer_adds_begin(const rlx_tokenizer *t);
RLX_API bool rlx_tokenizer_adds_end(const rlx_tokenizer *t);

/* The chat template that came with the model: Jinja text ended by a zero byte, which belongs to the
 * tokenizer. `name` is NULL for the usual one, else for example "tool_use". NULL when there is none
 * of that name. */
RLX_API const char *rlx_tokenizer_chat_template(const rlx_tokenizer *t, const char *name);

/* ---- Text to ids ---------------------------------------------------------------------------- */

/* Flags of rlx_tokenizer_encode. */
enum {
    /* Add what the model wants around a text: BOS and EOS, or [CLS] and [SEP]. */
    RLX_ENCODE_ADD_SPECIAL = 1,
    /* Control tokens that are written in the text ("<|im_start|>") become their ids; without this
     * they are text like any other, which is right for what users type. */
    RLX_ENCODE_PARSE_SPECIAL = 2,
    /* Cut the text so that all ids, also those added around it, fit into `cap`. */
    RLX_ENCODE_TRUNCATE = 4
};

/* Where ids go: `ids` (may be NULL when cap is 0) and `cap` are the caller's, `n` is set. */
typedef struct rlx_token_list {
    int32_t *ids;
    size_t cap, n;
} rlx_token_list; /* frozen */

/* Encodes `length` bytes of text; zero bytes are text. out->n becomes the number of ids; when that
 * is more than out->cap only the first `cap` were written: call again with more room. (length + 8
 * ids are always enough, but for models whose normaliser lengthens the text.) The text should be
 * UTF-8. Each byte that is not becomes its byte token where the vocabulary has them; elsewhere a
 * broken character (a begin that is cut off, or a single byte) is read as U+FFFD. Fails only with
 * RLX_NO_MEMORY and, without `t`, `text` or `out`, RLX_INVALID. */
RLX_API rlx_status rlx_tokenizer_encode(const rlx_tokenizer *t, const char *text, size_t length,
                                        unsigned flags, rlx_token_list *out, rlx_error *err);

/* ---- Ids to text ---------------------------------------------------------------------------- */

/* Flags of rlx_tokenizer_decode and rlx_text_stream_create. */
enum {
    RLX_DECODE_SKIP_SPECIAL = 1 /* control and unknown tokens give no text */
};

/* Where text goes: `data` (may be NULL when cap is 0) and `cap` are the caller's, `n` is set. */
typedef struct rlx_text {
    char *data;
    size_t cap, n; /* bytes; no zero byte is added */
} rlx_text; /* frozen */

/* The text of n ids. out->n becomes its length; when that is more than out->cap only the first
 * `cap` bytes were written. Bytes come out as the tokens have them: UTF-8 if the tokens say so. Ids
 * that are not in the vocabulary give RLX_INVALID. */
RLX_API rlx_status rlx_tokenizer_decode(const rlx_tokenizer *t, const int32_t *ids, size_t n,
                                        unsigned flags, rlx_text *out, rlx_error *err);

/* Decodes one id at a time. What it gives is always whole characters of valid UTF-8: bytes wait for
 * the rest of their character, and bytes that can belong to none become U+FFFD. For one thread at a
 * time; the tokenizer must live longer. */
typedef struct rlx_text_stream rlx_text_stream;

/* On success the caller ends *out with rlx_text_stream_destroy; on failure *out is NULL. */
RLX_API rlx_status rlx_text_stream_create(const rlx_tokenizer *t, unsigned flags,
                                          rlx_text_stream **out, rlx_error *err);
RLX_API void rlx_text_stream_destroy(rlx_text_stream *s);
/* Takes an id; *length bytes at the result are new, often none. They belong to the stream and end
 * with its next call. No memory is allocated. An id that is not in the vocabulary gives no text. */
RLX_API const char *rlx_text_stream_push(rlx_text_stream *s, int32_t id, size_t *length);
/* What is left when no id follows: half a character becomes U+FFFD. The stream begins anew. */
RLX_API const char *rlx_text_stream_finish(rlx_text_stream *s, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
