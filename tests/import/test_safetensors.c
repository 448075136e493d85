/* SPDX-License-Identifier: MIT */
/* safetensors files: tensors, metadata, index files with their parts, the JSON reader, damaged
 * files with the sentence of each, changed files that must never crash the reader. */
#include <stdlib.h>
#include <unistd.h>

#include "base/little.h"
#include "check.h"
#include "import/json.h"
#include "rlx/rlx.h"
#include "support/model_file.h"

static rlx_error err;
static char folder[] = "test_safetensors_XXXXXX";

static const char full_header[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"a\\u00e4\\ud83d\\ude00\\n\"},"
    "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"h\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[32,36]},"
    "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[24,32]},"
    "\"s\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[36,37]},"
    "\"e\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[37,37]},"
    "\"x\":{\"dtype\":\"NEW\",\"shape\":[9],\"data_offsets\":[37,40]}}   ";

/* ---- Good files ------------------------------------------------------------------------------ */

static void check_full(const rlx_file *f)
{
    rlx_file_tensor t;
    rlx_meta m;
    const char *text = NULL;
    size_t length = 0;
    CHECK(!strcmp(rlx_file_format(f), "safetensors"));
    CHECK(rlx_file_n_tensors(f) == 6 && !rlx_file_tensor_at(f, 6, &t));
    CHECK(rlx_file_tensor_at(f, 0, &t) && !strcmp(t.name, "w") && t.dtype == RLX_F32);
    CHECK(t.shape.rank == 2 && t.shape.dim[0] == 2 && t.shape.dim[1] == 3 && t.bytes == 24);
    CHECK_OK(rlx_file_get_tensor(f, "h", &t, &err), &err);
    CHECK(t.dtype == RLX_BF16 && t.bytes == 4);
    CHECK(((const unsigned char *)t.data)[rx_little_index(t.dtype, 0)] == 32);
    CHECK(rlx_file_find_tensor(f, "s", &t) && t.dtype == RLX_BOOL && t.shape.rank == 0);
    CHECK(rlx_file_find_tensor(f, "e", &t) && t.dtype == RLX_I64 && t.bytes == 0);
    CHECK(rlx_file_find_tensor(f, "d", &t) && t.dtype == RLX_F64 && t.bytes == 8);
    CHECK_FAILS(rlx_file_get_tensor(f, "x", &t, &err), RLX_UNSUPPORTED, &err, "elements of NEW");
    CHECK(rlx_file_find_tensor(f, "x", &t) && !strcmp(t.type_name, "NEW") && t.bytes == 3);
    CHECK(rlx_file_n_meta(f) == 2 && rlx_file_find_meta(f, "note", &m));
    CHECK(m.kind == RLX_META_STRING && rlx_meta_string(&m, 0, &text, &length));
    CHECK(length == 8 && !memcmp(text, "a\xc3\xa4\xf0\x9f\x98\x80\n", 8));
}

static void test_good(void)
{
    char path[64];
    blob b = safetensors_blob(full_header, 40);
    rlx_file *f;
    snprintf(path, sizeof path, "%s/m.safetensors", folder);
    CHECK(blob_write(&b, path));
    if (CHECK_OK(rlx_file_open(path, &f, &err), &err)) {
        check_full(f);
        rlx_file_close(f);
    }
    CHECK(open_without_memory(path));
    unlink(path);
    blob_free(&b);
    b = safetensors_blob("{}", 0);
    CHECK_OK(open_bytes(b.data, b.n, "empty.safetensors", &err), &err);
    blob_free(&b);
}

/* ---- Index files ----------------------------------------------------------------------------- */

static void write_text(const char *name, const char *text)
{
    char path[96];
    blob b = {0};
    blob_add(&b, text, strlen(text));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(blob_write(&b, path));
    blob_free(&b);
}

static void write_shard(const char *name, const char *header, size_t data_bytes)
{
    char path[96];
    blob b = safetensors_blob(header, data_bytes);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(blob_write(&b, path));
    blob_free(&b);
}

static const struct {
    const char *index;
    rlx_status status;
    const char *part;
} bad_indexes[] = {
    {"[]", RLX_PARSE, "weight_map: expected an object, found nothing"},
    {"{\"weight_map\":[]}", RLX_PARSE, "weight_map: expected an object, found an array"},
    {"{\"weight_map\":{\"a\":3}}", RLX_PARSE, "the plain name of a .safetensors file, found a num"},
    {"{\"weight_map\":{\"a\":\"../1.safetensors\"}}", RLX_PARSE, "the plain name"},
    {"{\"weight_map\":{\"a\":\"/etc/1.safetensors\"}}", RLX_PARSE, "the plain name"},
    {"{\"weight_map\":{\"a\":\"m.safetensors.index.json\"}}", RLX_PARSE, "the plain name"},
    {"{\"weight_map\":{\"a\":\"none.safetensors\"}}", RLX_IO, "none.safetensors"},
    {"{\"weight_map\":{\"z\":\"1.safetensors\"}}", RLX_PARSE, "expected tensor 'z' in '1.safe"},
    {"{\"weight_map\":{\"a\":\"2.safetensors\"}}", RLX_PARSE, "expected tensor 'a' in '2.safe"},
    {"{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"2.safetensors\"}}", RLX_PARSE, "'a' is there"
     " twice"},
    {"{\"metadata\":1,\"weight_map\":{\"a\":\"1.safetensors\"}}", RLX_PARSE, "the metadata: expec"},
};

static void test_index(void)
{
    char path[96];
    rlx_file *f;
    rlx_file_tensor t;
    rlx_meta m;
    uint64_t u = 0;
    bool b = false;
    static const char *const names[] = {"1.safetensors", "2.safetensors",
                                        "m.safetensors.index.json"};
    snprintf(path, sizeof path, "%s/%s", folder, names[2]);
    write_shard(names[0], "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}", 3);
    write_shard(names[1], "{\"c\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4);
    write_text(names[2], "{\"metadata\": {\"total_size\": 6, \"whole\": true, \"other\": [1]},"
               "\"weight_map\": {\"c\": \"2.safetensors\", \"a\": \"1.safetensors\"}}\n");
    if (CHECK_OK(rlx_file_open(path, &f, &err), &err)) {
        CHECK(rlx_file_n_tensors(f) == 2 && rlx_file_find_tensor(f, "c", &t) && t.bytes == 4);
        CHECK(rlx_file_find_tensor(f, "a", &t) && t.bytes == 2 && rlx_file_n_meta(f) == 2);
        CHECK(rlx_file_find_meta(f, "total_size", &m) && rlx_meta_u64(&m, 0, &u) && u == 6);
        CHECK(rlx_file_find_meta(f, "whole", &m) && rlx_meta_bool(&m, 0, &b) && b);
        rlx_file_close(f);
    }
    CHECK(open_without_memory(path));
    for (size_t i = 0; i < sizeof bad_indexes / sizeof bad_indexes[0]; i++) {
        write_text(names[2], bad_indexes[i].index);
        CHECK_FAILS(rlx_file_open(path, &f, &err), bad_indexes[i].status, &err,
                    bad_indexes[i].part);
        CHECK(f == NULL);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
}

/* ---- Damaged files --------------------------------------------------------------------------- */

#define ONE(dtype, shape, offsets) \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define U8(name, offsets) \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" offsets "}"

static const struct {
    const char *header; /* before 8 bytes of data */
    const char *part;
} damaged[] = {
    {"", "expected a value, found the end"},
    {"[]", "begins with byte 0x5b; expected '{'"},
    {"{", "expected a string, found the end"},
    {"{} x", "at byte 3 of the JSON text: expected the end, found 'x'"},
    {"{\"t\" 1}", "expected ':', found '1'"},
    {"{\"t\":1,}", "expected a string, found '}'"},
    {"{\"t\":[1 2]}", "expected ',' or ']', found '2'"},
    {"{\"t\":01}", "expected ',' or '}', found '1'"},
    {"{\"t\":1.}", "expected a digit"},
    {"{\"t\":nul}", "expected a value, found 'n'"},
    {"{\"t\":\"\\x\"}", "found 'x'"},
    {"{\"t\":\"\\u12g4\"}", "four hexadecimal digits"},
    {"{\"t\":\"\\ud800x\"}", "the second half of a surrogate pair"},
    {"{\"t\":\"\\udc00\"}", "no second half"},
    {"{\"t\":\"\n\"}", "an escape instead of a control character, found byte 0x0a"},
    {"{\"t\":\"\xff\"}", "expected UTF-8, found byte 0xff"},
    {"{\"t\":\"\xc0\x80\"}", "expected UTF-8"},
    {"{\"t\":\"abc", "expected '\"' that ends a string"},
    {"{\"t\":1,\"t\":2}", "the key 't' is there twice"},
    {"{\"\":{}}", "the name of a tensor has 0 bytes"},
    {"{\"a\\u0000b\":{}}", "the name of a tensor has a control character"},
    {"{\"t\":7}", "tensor 't': its value: expected an object, found a number 7"},
    {"{\"t\":{}}", "tensor 't': shape: expected an array, found nothing"},
    {ONE("\"U8\"", "[8]", "3"), "data_offsets: expected an array of two integers, found a number"},
    {ONE("\"U8\"", "[8]", "[0,8,9]"), "data_offsets: expected an array of two"},
    {ONE("\"U8\"", "[8]", "[0,-8]"), "data_offsets: expected two integers from 0"},
    {ONE("\"U8\"", "[8]", "[0,99999999999999999999]"), "data_offsets: expected two integers"},
    {ONE("\"U8\"", "[8]", "[8,0]"), "lies from 8 to 0; expected both in order"},
    {ONE("\"U8\"", "[9]", "[0,9]"), "lies from 0 to 9; expected both in order and within the 8"},
    {ONE("\"U8\"", "[7]", "[0,8]"), "has 7 elements of U8 in 8 bytes; expected 8 bits each"},
    {ONE("\"F4\"", "[15]", "[0,8]"), "has 15 elements of F4 in 8 bytes"},
    {ONE("\"U8\"", "[2.5]", "[0,8]"), "shape: expected integers from 0 to 2^63 - 1, found a num"},
    {ONE("\"U8\"", "[\"8\"]", "[0,8]"), "shape: expected integers"},
    {ONE("\"U8\"", "[1,1,1,1,1,1,1,1,8]", "[0,8]"), "has 9 dimensions; expected at most 8"},
    {ONE("\"U8\"", "[4294967296,4294967296]", "[0,8]"), "too many elements"},
    {ONE("\"I64\"", "[0,4294967296,4294967296]", "[0,0]"), "too many elements"},
    {ONE("\"F64\"", "[2305843009213693953]", "[0,8]"), "has 2305843009213693953 elements"},
    {ONE("8", "[8]", "[0,8]"), "dtype: expected a string, found a number 8"},
    {"{" U8("a", "[0,4]") "," U8("b", "[2,6]") "}", "begins at 2, which leaves an overlap"},
    {"{" U8("a", "[4,8]") "}", "begins at 4, which leaves a hole"},
    {"{" U8("a", "[0,4]") "}", "has 8 bytes of data; expected 4"},
    {"{\"__metadata__\":[]," U8("a", "[0,4]") "," U8("b", "[4,8]") "}", "expected an object"},
    {"{\"__metadata__\":{\"k\":1}," U8("a", "[0,4]") "," U8("b", "[4,8]") "}",
     "metadata 'k': expected a string, found a number"},
};

static void test_damaged(void)
{
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        blob b = safetensors_blob(damaged[i].header, 8);
        CHECK_FAILS(open_bytes(b.data, b.n, "bad.safetensors", &err), RLX_PARSE, &err,
                    damaged[i].part);
        CHECK(strstr(err.text, "bad.safetensors") != NULL);
        blob_free(&b);
    }
    CHECK_FAILS(open_bytes("1234567", 7, "bad.safetensors", &err), RLX_PARSE, &err,
                "ends inside the length of the header: expected 8 bytes, found 7");
    CHECK_FAILS(open_bytes("\377\377\377\377\377\377\377\377{}", 10, "bad", &err), RLX_PARSE, &err,
                "the header has 18446744073709551615 bytes; expected at most 2");
    CHECK_FAILS(open_bytes("hello", 5, "bad.bin", &err), RLX_PARSE, &err, "found 68 65 6c 6c");
    CHECK_FAILS(open_bytes("", 0, "bad.bin", &err), RLX_PARSE, &err, "found nothing");
}

/* Depth, and more keys than are compared one with another. */
static void test_json(void)
{
    char text[4096] = "";
    rx_arena arena = {0};
    const rx_json *v;
    memset(text, '[', RX_JSON_DEPTH);
    memset(text + RX_JSON_DEPTH, ']', RX_JSON_DEPTH);
    CHECK_OK(rx_json_parse(&arena, "deep", text, 2 * RX_JSON_DEPTH, &v, &err), &err);
    memset(text, '[', sizeof text);
    CHECK_FAILS(rx_json_parse(&arena, "deep", text, sizeof text, &v, &err), RLX_PARSE, &err,
                "nested deeper than 64");
    size_t n = 0;
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"k%d\":%d", i ? "," : "{", i, i);
    snprintf(text + n, sizeof text - n, "}");
    CHECK_OK(rx_json_parse(&arena, "many", text, n + 1, &v, &err), &err);
    uint64_t u = 0;
    CHECK(v && v->n == 100 && rx_json_u64(rx_json_member(v, "k73"), &u) && u == 73);
    snprintf(text + n, sizeof text - n, ",\"k42\":0}");
    CHECK_FAILS(rx_json_parse(&arena, "many", text, strlen(text), &v, &err), RLX_PARSE, &err,
                "'k42' is there twice");
    rx_arena_finish(&arena);
}

static void test_fuzz(void)
{
    blob b = safetensors_blob(full_header, 40);
    bool ok = true;
    for (size_t n = 0; n < b.n; n++)
        ok = ok && open_bytes(b.data, n, "cut.safetensors", &err) != RLX_OK;
    CHECK(ok);
    CHECK(fuzz_blob(&b, "fuzz.safetensors", 7, 20000) > 0);
    blob_free(&b);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    test_good();
    test_index();
    test_damaged();
    test_json();
    test_fuzz();
    CHECK(rmdir(folder) == 0);
    return check_done();
}
