/* SPDX-License-Identifier: MIT */
/* Tokenizers without any other package: the ids that `tokenizers` and `sentencepiece` gave for a
 * small vocabulary of each kind, special tokens, truncation, streams, damaged vocabularies with
 * their sentences, and running out of memory. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "model/tok.h"
#include "model/unicode.h"
#include "rlx/rlx.h"
#include "support/memory.h"
#include "support/model_file.h"

static rlx_error err;

/* ---- Expected ids --------------------------------------------------------------------------- */

static const char *file_path(const char *name)
{
    static char path[1024];
    const char *root = getenv("RLX_SOURCE_DIR");
    snprintf(path, sizeof path, "%.500s/tests/model/tokenizers/%.200s",
             root ? root : ".", name);
    return path;
}

static size_t from_hex(const char *hex, char *out)
{
    size_t n = 0;
    unsigned byte;
    for (; sscanf(hex + 2 * n, "%2x", &byte) == 1 && hex[2 * n]; n++)
        out[n] = (char)byte;
    return n;
}

/* "file \t hex \t ids": the ids must be the same, streams must give whole characters. */
static void check_row(const rlx_tokenizer *t, const char *name, const char *hex, const char *want)
{
    char text[512], got[4096] = "";
    int32_t ids[512];
    rlx_token_list list = {ids, 512, 0};
    size_t n = from_hex(hex, text), at = 0;
    CHECK_OK(rlx_tokenizer_encode(t, text, n, 0, &list, &err), &err);
    for (size_t i = 0; i < list.n && at + 16 < sizeof got; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%d", i ? " " : "", ids[i]);
    if (!CHECK(!strcmp(got, want)))
        printf("    %s: %s\n    expected %s\n    got      %s\n", name, hex, want, got);
    rlx_text_stream *s;
    CHECK_OK(rlx_text_stream_create(t, 0, &s, &err), &err);
    for (size_t i = 0; i <= list.n; i++) {
        size_t length;
        const char *piece = i < list.n ? rlx_text_stream_push(s, ids[i], &length)
                                       : rlx_text_stream_finish(s, &length);
        for (size_t k = 0, step; k < length; k += step) {
            uint32_t code;
            step = rx_utf8_get(piece + k, length - k, &code);
            CHECK(code < RX_BAD_BYTE);
        }
    }
    rlx_text_stream_destroy(s);
}

static void check_expected(void)
{
    FILE *f = fopen(file_path("expected.txt"), "r");
    char line[8192], open_name[128] = "";
    rlx_tokenizer *t = NULL;
    size_t rows = 0;
    if (!CHECK(f != NULL))
        return;
    for (; fgets(line, sizeof line, f); rows++) {
        line[strcspn(line, "\n")] = 0;
        char *hex = strchr(line, '\t'), *want = hex ? strchr(hex + 1, '\t') : NULL;
        if (!CHECK(want != NULL))
            continue;
        *hex++ = *want++ = 0;
        if (strcmp(line, open_name)) {
            rlx_tokenizer_close(t);
            CHECK_OK(rlx_tokenizer_open(file_path(line), &t, &err), &err);
            snprintf(open_name, sizeof open_name, "%.100s", line);
        }
        if (t)
            check_row(t, line, hex, want);
    }
    rlx_tokenizer_close(t);
    fclose(f);
    CHECK(rows > 150);
}

/* ---- Vocabularies written here -------------------------------------------------------------- */

static rlx_status load_json(const char *text, rlx_tokenizer **t)
{
    char path[] = "test_tok_XXXXXX.json";
    int fd = mkstemps(path, 5);
    size_t n = strlen(text);
    *t = NULL;
    CHECK(fd >= 0 && write(fd, text, n) == (ssize_t)n);
    close(fd);
    rlx_status st = rlx_tokenizer_open(path, t, &err);
    unlink(path);
    return st;
}

#define BERT "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0," \
    "\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"##b\":4,\"c\":5,\".\":6,\"\xe4\xbd\xa0\":7}},"             \
    "\"added_tokens\":[{\"id\":1,\"content\":\"[CLS]\",\"special\":true},{\"id\":2,"              \
    "\"content\":\"[SEP]\",\"special\":true}],\"normalizer\":{\"type\":\"BertNormalizer\"},"      \
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\"},"     \
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}}"

static bool encodes_to(const rlx_tokenizer *t, const char *text, unsigned flags, size_t cap,
                       const char *want)
{
    int32_t ids[64];
    char got[512] = "";
    rlx_token_list list = {ids, cap, 0};
    if (!CHECK_OK(rlx_tokenizer_encode(t, text, strlen(text), flags, &list, &err), &err))
        return false;
    for (size_t i = 0, at = 0; i < list.n && i < cap; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%d", i ? " " : "", ids[i]);
    bool same = !strcmp(got, want);
    if (!same)
        printf("    %s: expected %s, got %s\n", text, want, got);
    return same;
}

static void check_around(void)
{
    rlx_tokenizer *t;
    if (!CHECK_OK(load_json(BERT, &t), &err))
        return;
    int32_t ids[] = {1, 3, 4, 6, 2};
    char text[64];
    rlx_text out = {text, sizeof text, 0};
    CHECK(encodes_to(t, "\xc3\x81" "b, C.", 0, 64, "3 4 0 5 6"));
    CHECK(encodes_to(t, "ab.", RLX_ENCODE_ADD_SPECIAL, 64, "1 3 4 6 2"));
    CHECK(encodes_to(t, "ab. c c", RLX_ENCODE_ADD_SPECIAL | RLX_ENCODE_TRUNCATE, 4, "1 3 4 2"));
    CHECK(encodes_to(t, "ab. c c", RLX_ENCODE_ADD_SPECIAL | RLX_ENCODE_TRUNCATE, 1, "1"));
    CHECK(encodes_to(t, "ab. c c", RLX_ENCODE_ADD_SPECIAL, 2, "1 3"));
    CHECK(encodes_to(t, "[CLS]a", RLX_ENCODE_PARSE_SPECIAL, 64, "1 3"));
    CHECK(encodes_to(t, "[CLS]a", 0, 64, "0 0 0 3"));
    CHECK(encodes_to(t, "a\xff" "b \xe4\xbd c", 0, 64, "3 4 5")); /* U+FFFD is cleaned away */
    CHECK_OK(rlx_tokenizer_decode(t, ids, 5, 0, &out, &err), &err);
    CHECK(out.n == 15 && !memcmp(text, "[CLS] ab. [SEP]", 15));
    CHECK_OK(rlx_tokenizer_decode(t, ids, 5, RLX_DECODE_SKIP_SPECIAL, &out, &err), &err);
    CHECK(out.n == 3 && !memcmp(text, "ab.", 3));
    ids[0] = 99;
    CHECK_FAILS(rlx_tokenizer_decode(t, ids, 1, 0, &out, &err), RLX_INVALID, &err, "id 99");
    CHECK(rlx_token_find(t, "##b", 3) == 4 && rlx_token_find(t, "zz", 2) == -1);
    CHECK(rlx_token_get_kind(t, 1) == RLX_TOKEN_CONTROL && rlx_token_get_kind(t, 8) == 0);
    CHECK(rlx_tokenizer_special(t, RLX_SPECIAL_CLS) == 1 && rlx_tokenizer_n_tokens(t) == 8);
    CHECK(rlx_tokenizer_adds_begin(t) && rlx_tokenizer_adds_end(t));
    CHECK(!rlx_tokenizer_chat_template(t, NULL) && !strcmp(rlx_tokenizer_model(t), "wordpiece"));
    rlx_tokenizer_close(t);
}

/* A character of four tokens comes out when it is whole. */
static void check_stream(void)
{
    rlx_tokenizer *t;
    rlx_text_stream *s;
    size_t n;
    int32_t ids[8];
    rlx_token_list list = {ids, 8, 0};
    if (!CHECK_OK(rlx_tokenizer_open(file_path("gpt-2.gguf"), &t, &err), &err))
        return;
    CHECK(rlx_tokenizer_is_end(t, 0) && !rlx_tokenizer_is_end(t, 5));
    CHECK_OK(rlx_tokenizer_encode(t, "\xf0\x9f\xa6\x96\xf0\x9f", 6, 0, &list, &err), &err);
    CHECK_OK(rlx_text_stream_create(t, 0, &s, &err), &err);
    char all[64];
    size_t k = 0;
    for (size_t i = 0; i < list.n && i < 8; i++) {
        const char *piece = rlx_text_stream_push(s, ids[i], &n);
        CHECK(n == 0 || n == 4);
        memcpy(all + k, piece, n);
        k += n;
    }
    CHECK(k == 4 && !memcmp(all, "\xf0\x9f\xa6\x96", 4));
    const char *rest = rlx_text_stream_finish(s, &n);
    CHECK(n == 3 && !memcmp(rest, "\xef\xbf\xbd", 3));
    rlx_text_stream_push(s, -7, &n);
    CHECK(n == 0);
    rlx_text_stream_destroy(s);
    rlx_tokenizer_close(t);
}

/* ---- Damaged vocabularies ------------------------------------------------------------------- */

static void check_damaged(void)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{", "expected a string"},
        {"[1]", "expected an object with a model"},
        {"{\"model\":{\"type\":\"X\",\"vocab\":{}}}", "expected type BPE"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "the vocabulary is empty"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
         "found no right part"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "found no sum"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", "two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":7}}", "merges: expected an"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "the id of a token"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":9e9},\"merges\":[]}}", "the id of a token"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}",
         "without large gaps"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
         "both have id 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}",
         "is there twice"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xff\":0},\"merges\":[]}}", "expected UTF-8"},
        {"{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "unk_token 'u'"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":5,\"vocab\":[[\"a\",-1]]}}", "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}}", "its score"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",1],[\"a\",2]]}}",
         "is token 0 again"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"normalizer\":{\"type\":\"Y\"}}",
         "type 'Y' is not known"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"pre_tokenizer\":{\"type\":"
         "\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"(a)+\"}}}", "'(a)+'"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"normalizer\":{\"type\":"
         "\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}}", "charsmap has 3 bytes"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"added_tokens\":[{\"id\":3,"
         "\"content\":\"a\"}]}", "expected 0"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"post_processor\":{\"type\":"
         "\"BertProcessing\",\"sep\":[\"a\",0],\"cls\":[\"b\",4]}}", "an id of the post_processor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rlx_tokenizer *t;
        rlx_status st = load_json(cases[i].text, &t);
        if (!CHECK(st != RLX_OK && !t && strstr(err.text, cases[i].part)))
            printf("    case %zu: expected '%s', got '%s'\n", i, cases[i].part,
                   st == RLX_OK ? "success" : err.text);
    }
    char deep[600];
    rlx_tokenizer *t;
    memset(deep, '[', 300);
    deep[300] = 0;
    CHECK_FAILS(load_json(deep, &t), RLX_PARSE, &err, "nested deeper");
    CHECK_FAILS(rlx_tokenizer_open("no/such/place", &t, &err), RLX_NOT_FOUND, &err, "no tokenizer");
    CHECK_FAILS(rlx_tokenizer_open(file_path(""), &t, &err), RLX_NOT_FOUND, &err, "no tokenizer");
}

/* A GGUF file of one key besides model and tokens. */
static rlx_status load_gguf(const char *model, const char *key, uint32_t code, const void *value,
                            size_t n)
{
    static const char *const tokens[] = {"a", "b"};
    const char *keys[] = {"tokenizer.ggml.model", "tokenizer.ggml.tokens", key};
    blob b = {0};
    blob_add(&b, "GGUF", 4);
    blob_number(&b, 3, 4);
    blob_number(&b, 0, 8);
    blob_number(&b, key ? 3 : 2, 8);
    for (size_t i = 0; i < (key ? 3u : 2u); i++) {
        blob_number(&b, strlen(keys[i]), 8);
        blob_add(&b, keys[i], strlen(keys[i]));
        blob_number(&b, i == 0 ? RX_META_STRING : i == 1 ? RX_META_ARRAY : code, 4);
        if (i == 0) {
            blob_number(&b, strlen(model), 8);
            blob_add(&b, model, strlen(model));
        } else if (i == 2) {
            blob_add(&b, value, n);
        } else {
            blob_number(&b, RX_META_STRING, 4);
            blob_number(&b, 2, 8);
            for (size_t k = 0; k < 2; k++) {
                blob_number(&b, 1, 8);
                blob_add(&b, tokens[k], 1);
            }
        }
    }
    rlx_file *f;
    rlx_tokenizer *t = NULL;
    rlx_status st = rx_file_from_memory(b.data, b.n, "x.gguf", &f, &err);
    if (CHECK(st == RLX_OK)) {
        st = rlx_tokenizer_open_file(f, &t, &err);
        rlx_tokenizer_close(t);
        rlx_file_close(f);
    }
    blob_free(&b);
    return st;
}

static void check_damaged_gguf(void)
{
    static const char one_score[] = "\x06\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0";
    static const char types[] = "\x05\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x63\0\0\0";
    CHECK_FAILS(load_gguf("llama", NULL, 0, NULL, 0), RLX_PARSE, &err, "expected a score");
    CHECK_FAILS(load_gguf("llama", "tokenizer.ggml.scores", 9, one_score, 16), RLX_PARSE, &err,
                "has 1 values; expected 2");
    CHECK_FAILS(load_gguf("bert", "tokenizer.ggml.token_type", 9, types, 20), RLX_PARSE, &err,
                "has type 99");
    CHECK_FAILS(load_gguf("gpt2", NULL, 0, NULL, 0), RLX_PARSE, &err, "merges");
    CHECK_FAILS(load_gguf("gpt2", "tokenizer.ggml.pre", RX_META_STRING, "\x01\0\0\0\0\0\0\0z", 9),
                RLX_UNSUPPORTED, &err, "is 'z'");
    CHECK_FAILS(load_gguf("bert", "tokenizer.ggml.eos_token_id", RX_META_U32, "\x02\0\0\0", 4),
                RLX_PARSE, &err, "expected an id below 2");
    CHECK_FAILS(load_gguf("bert", "tokenizer.ggml.add_bos_token", RX_META_U32, "\x02\0\0\0", 4),
                RLX_PARSE, &err, "expected a bool");
    CHECK_FAILS(load_gguf("what", NULL, 0, NULL, 0), RLX_UNSUPPORTED, &err, "'what'");
}

/* ---- Memory --------------------------------------------------------------------------------- */

static rlx_status use_all(const char *path)
{
    static const char text[] = "Hello \xc3\xa9 world\n\xff 123 e\xcc\x81 <|im_start|>";
    rlx_tokenizer *t;
    int32_t ids[128];
    rlx_token_list list = {ids, 128, 0};
    rlx_text_stream *s = NULL;
    rlx_status st = rlx_tokenizer_open(path, &t, &err);
    if (st != RLX_OK)
        return st == RLX_NOT_FOUND ? RLX_NO_MEMORY : st; /* a file that cannot be read */
    st = rlx_tokenizer_encode(t, text, sizeof text - 1, 3, &list, &err);
    if (st == RLX_OK)
        st = rlx_text_stream_create(t, 0, &s, &err);
    rlx_text_stream_destroy(s);
    rlx_tokenizer_close(t);
    return st;
}

/* Fails the first, second, ... allocation; later ones in larger steps. */
static void check_memory(void)
{
    static const char *const names[] = {"gpt-2.gguf", "spm-bpe.gguf", "wordpiece.json",
                                        "unigram.json", "bpe-nfc.json"};
    rlx_set_allocator(&counting);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        rlx_status st = RLX_NO_MEMORY;
        for (long n = 1; st == RLX_NO_MEMORY && n < 100000; n += 1 + n / 64) {
            memory_fail(n, true);
            if (!CHECK_OK_OR(st = use_all(file_path(names[i])), RLX_NO_MEMORY, &err) ||
                !CHECK(memory_live() == 0))
                printf("    %s: allocation %ld: %s, %ld left\n", names[i], n,
                       rlx_status_name(st), memory_live());
        }
        CHECK(st == RLX_OK);
    }
    rlx_set_allocator(NULL);
}

int main(void)
{
    check_expected();
    check_around();
    check_stream();
    check_damaged();
    check_damaged_gguf();
    check_memory();
    return check_done();
}
