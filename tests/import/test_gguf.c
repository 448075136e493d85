/* SPDX-License-Identifier: MIT */
/* GGUF files: what a small writer writes reads back in all versions, split files open together,
 * damaged files fail with their own sentence, changed files never crash the reader. */
#include <stdlib.h>
#include <unistd.h>

#include "base/little.h"
#include "check.h"
#include "rlx/rlx.h"
#include "support/model_file.h"

static rlx_error err;
static char folder[] = "test_gguf_XXXXXX";

/* ---- A writer -------------------------------------------------------------------------------- */

static int version = 3;

static void put_count(blob *b, uint64_t n)
{
    blob_number(b, n, version == 1 ? 4 : 8);
}

static void put_text(blob *b, const char *text)
{
    put_count(b, strlen(text));
    blob_add(b, text, strlen(text));
}

static void put_header(blob *b, uint64_t n_tensors, uint64_t n_meta)
{
    blob_add(b, "GGUF", 4);
    blob_number(b, (uint64_t)version, 4);
    put_count(b, n_tensors);
    put_count(b, n_meta);
}

static void put_meta(blob *b, const char *key, rx_meta_code code, uint64_t value)
{
    put_text(b, key);
    blob_number(b, code, 4);
    blob_number(b, value, rx_meta_width(code));
}

static void put_array(blob *b, const char *key, rx_meta_code code, uint64_t n)
{
    put_text(b, key);
    blob_number(b, RX_META_ARRAY, 4);
    blob_number(b, code, 4);
    put_count(b, n);
}

/* Dimensions innermost first. */
static void put_info(blob *b, const char *name, uint32_t type, uint64_t d0, uint64_t d1,
                     uint64_t offset)
{
    put_text(b, name);
    blob_number(b, d1 ? 2 : 1, 4);
    put_count(b, d0);
    if (d1)
        put_count(b, d1);
    blob_number(b, type, 4);
    blob_number(b, offset, 8);
}

static void put_data(blob *b, size_t alignment, size_t n)
{
    blob_align(b, alignment);
    for (size_t i = 0; i < n; i++)
        blob_number(b, i, 1);
}

/* All value types, plain and packed tensors, types rlx does not have. */
static blob full_file(void)
{
    blob b = {0};
    put_header(&b, 4, 13);
    put_text(&b, "general.architecture");
    blob_number(&b, RX_META_STRING, 4);
    put_text(&b, "llama");
    put_meta(&b, "u8", RX_META_U8, 200);
    put_meta(&b, "i8", RX_META_I8, (uint64_t)-5);
    put_meta(&b, "u16", RX_META_U16, 60000);
    put_meta(&b, "i16", RX_META_I16, (uint64_t)-300);
    put_meta(&b, "general.alignment", RX_META_U32, 64);
    put_meta(&b, "i32", RX_META_I32, (uint64_t)-70000);
    put_meta(&b, "f32", RX_META_F32, 0x3fc00000);
    put_meta(&b, "bool", RX_META_BOOL, 1);
    put_meta(&b, "u64", RX_META_U64, UINT64_MAX);
    put_meta(&b, "f64", RX_META_F64, 0xc004000000000000ull);
    put_array(&b, "tokens", RX_META_STRING, 3);
    put_text(&b, "a");
    put_text(&b, "");
    put_text(&b, "\xc3\xa4z");
    put_array(&b, "scores", RX_META_I16, 2);
    blob_number(&b, 7, 2);
    blob_number(&b, 0xffff, 2);
    put_info(&b, "plain", 0, 3, 2, 0);      /* f32, 24 bytes */
    put_info(&b, "packed", 2, 64, 2, 64);   /* q4_0, 72 bytes */
    put_info(&b, "double", 28, 2, 0, 192);  /* F64, 16 bytes */
    put_info(&b, "strange", 99, 5, 0, 256);
    put_data(&b, 64, 270);
    return b;
}

/* ---- Good files ------------------------------------------------------------------------------ */

static void check_integers(const rlx_file *f)
{
    rlx_meta m;
    uint64_t u = 0;
    int64_t s = 0;
    double d = 0;
    bool b = false;
    CHECK(rlx_file_find_meta(f, "u8", &m) && m.kind == RLX_META_U64 && !m.is_array && m.n == 1);
    CHECK(rlx_meta_u64(&m, 0, &u) && u == 200 && rlx_meta_i64(&m, 0, &s) && s == 200);
    CHECK(!rlx_meta_u64(&m, 1, &u) && !rlx_meta_bool(&m, 0, &b));
    CHECK(rlx_file_find_meta(f, "i8", &m) && rlx_meta_i64(&m, 0, &s) && s == -5);
    CHECK(!rlx_meta_u64(&m, 0, &u) && rlx_meta_f64(&m, 0, &d) && d == -5);
    CHECK(rlx_file_find_meta(f, "u16", &m) && rlx_meta_u64(&m, 0, &u) && u == 60000);
    CHECK(rlx_file_find_meta(f, "i16", &m) && rlx_meta_i64(&m, 0, &s) && s == -300);
    CHECK(rlx_file_find_meta(f, "i32", &m) && rlx_meta_i64(&m, 0, &s) && s == -70000);
    CHECK(rlx_file_find_meta(f, "u64", &m) && rlx_meta_u64(&m, 0, &u) && u == UINT64_MAX);
    CHECK(!rlx_meta_i64(&m, 0, &s));
}

static void check_meta(const rlx_file *f)
{
    rlx_meta m;
    int64_t s = 0;
    double d = 0;
    bool b = false;
    const char *text = NULL;
    size_t length = 0;
    CHECK(rlx_file_n_meta(f) == 13 && !rlx_file_meta_at(f, 13, &m));
    CHECK(rlx_file_meta_at(f, 0, &m) && !strcmp(m.key, "general.architecture"));
    CHECK(rlx_meta_string(&m, 0, &text, &length) && length == 5 && !memcmp(text, "llama", 5));
    CHECK(!rlx_meta_f64(&m, 0, &d) && !rlx_meta_i64(&m, 0, &s));
    CHECK(rlx_file_find_meta(f, "f32", &m) && rlx_meta_f64(&m, 0, &d) && d == 1.5);
    CHECK(rlx_file_find_meta(f, "f64", &m) && rlx_meta_f64(&m, 0, &d) && d == -2.5);
    CHECK(rlx_file_find_meta(f, "bool", &m) && rlx_meta_bool(&m, 0, &b) && b);
    CHECK(rlx_file_find_meta(f, "tokens", &m) && m.is_array && m.n == 3);
    CHECK(m.kind == RLX_META_STRING && rlx_meta_string(&m, 1, &text, &length) && length == 0);
    CHECK(rlx_meta_string(&m, 2, &text, &length) && length == 3 && !memcmp(text, "\xc3\xa4z", 3));
    CHECK(!rlx_meta_string(&m, 3, &text, &length));
    CHECK(rlx_file_find_meta(f, "scores", &m) && m.n == 2 && m.kind == RLX_META_I64);
    CHECK(rlx_meta_i64(&m, 0, &s) && s == 7 && rlx_meta_i64(&m, 1, &s) && s == -1);
    CHECK(!rlx_file_find_meta(f, "none", &m));
    check_integers(f);
}

static void check_tensors(const rlx_file *f)
{
    rlx_file_tensor t;
    CHECK(rlx_file_n_tensors(f) == 4 && !rlx_file_tensor_at(f, 4, &t));
    CHECK(rlx_file_tensor_at(f, 0, &t) && !strcmp(t.name, "plain") && t.dtype == RLX_F32);
    CHECK(t.shape.rank == 2 && t.shape.dim[0] == 2 && t.shape.dim[1] == 3 && t.bytes == 24);
    CHECK(((const unsigned char *)t.data)[rx_little_index(t.dtype, 0)] == 0);
    CHECK_OK(rlx_file_get_tensor(f, "packed", &t, &err), &err);
    CHECK(t.dtype == RLX_Q4_0 && !strcmp(t.type_name, "q4_0") && t.bytes == 72);
    CHECK(*(const unsigned char *)t.data == 64 && t.shape.dim[0] == 2 && t.shape.dim[1] == 64);
    CHECK(rlx_file_find_tensor(f, "double", &t) && t.dtype == RLX_F64 && t.bytes == 16);
    CHECK(!strcmp(t.type_name, "f64"));
    CHECK(rlx_file_find_tensor(f, "strange", &t) && t.dtype == RLX_NO_TYPE && t.bytes == 14);
    CHECK(!strcmp(t.type_name, "type 99"));
    CHECK_FAILS(rlx_file_get_tensor(f, "strange", &t, &err), RLX_UNSUPPORTED, &err, "type 99");
    CHECK_FAILS(rlx_file_get_tensor(f, "none", &t, &err), RLX_NOT_FOUND, &err, "'none'");
    CHECK(!rlx_file_find_tensor(f, "none", &t));
}

static void test_good(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/full.gguf", folder);
    for (version = 1; version <= 3; version++) {
        blob b = full_file();
        rlx_file *f;
        CHECK(blob_write(&b, path));
        if (CHECK_OK(rlx_file_open(path, &f, &err), &err)) {
            CHECK(!strcmp(rlx_file_format(f), "gguf"));
            check_meta(f);
            check_tensors(f);
            rlx_file_close(f);
        }
        CHECK(open_without_memory(path));
        blob_free(&b);
    }
    version = 3;
    blob empty = {0};
    put_header(&empty, 0, 0);
    CHECK_OK(open_bytes(empty.data, empty.n, "empty", &err), &err);
    blob_free(&empty);
    rlx_file_close(NULL);
    rlx_file *none;
    CHECK_FAILS(rlx_file_open("no/such.gguf", &none, &err), RLX_IO, &err, "no/such.gguf");
    CHECK(none == NULL);
    unlink(path);
}

/* ---- Split files ----------------------------------------------------------------------------- */

typedef struct split_facts {
    unsigned no, count, tensors;
    const char *tensor;
} split_facts;

static void write_part(unsigned place, unsigned places, split_facts s)
{
    char path[64];
    blob b = {0};
    put_header(&b, 1, 4);
    put_meta(&b, "split.no", RX_META_U16, s.no);
    put_meta(&b, "split.count", RX_META_U16, s.count);
    put_meta(&b, "split.tensors.count", RX_META_I32, s.tensors);
    put_meta(&b, "place", RX_META_U32, place);
    put_info(&b, s.tensor, 0, place, 0, 0);
    put_data(&b, 32, 4 * place);
    snprintf(path, sizeof path, "%s/m-%05u-of-%05u.gguf", folder, place, places);
    CHECK(blob_write(&b, path));
    blob_free(&b);
}

static rlx_status open_split(unsigned place, unsigned places, rlx_file **f)
{
    char path[64];
    snprintf(path, sizeof path, "%s/m-%05u-of-%05u.gguf", folder, place, places);
    return rlx_file_open(path, f, &err);
}

static void test_split(void)
{
    rlx_file *f;
    rlx_file_tensor t;
    rlx_meta m;
    uint64_t u = 0;
    static const char *const names[] = {"a", "b", "c"};
    for (unsigned i = 0; i < 3; i++)
        write_part(i + 1, 3, (split_facts){i, 3, 3, names[i]});
    for (unsigned i = 1; i <= 3; i++) {
        if (!CHECK_OK(open_split(i, 3, &f), &err))
            continue;
        CHECK(rlx_file_n_tensors(f) == 3 && rlx_file_tensor_at(f, 2, &t) && t.bytes == 12);
        CHECK(rlx_file_find_meta(f, "place", &m) && rlx_meta_u64(&m, 0, &u) && u == 1);
        rlx_file_close(f);
    }
    static const struct {
        split_facts second;
        const char *part;
    } bad[] = {
        {{0, 3, 3, "b"}, "split.no is 0; expected 1"},
        {{1, 4, 3, "b"}, "split.count is 4; expected 3"},
        {{1, 3, 3, "a"}, "two tensors 'a'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_part(2, 3, bad[i].second);
        CHECK_FAILS(open_split(1, 3, &f), RLX_PARSE, &err, bad[i].part);
    }
    write_part(2, 3, (split_facts){1, 3, 3, "b"});
    write_part(1, 3, (split_facts){0, 3, 7, "a"});
    CHECK_FAILS(open_split(2, 3, &f), RLX_PARSE, &err, "split.tensors.count is 7");
    char path[64];
    for (unsigned i = 3; i >= 1; i--) {
        snprintf(path, sizeof path, "%s/m-%05u-of-00003.gguf", folder, i);
        unlink(path);
        if (i == 3)
            CHECK_FAILS(open_split(1, 3, &f), RLX_IO, &err, "m-00003-of-00003.gguf");
    }
    write_part(5, 3, (split_facts){4, 3, 3, "x"});
    CHECK_FAILS(open_split(5, 3, &f), RLX_INVALID, &err, "part 5 of 3");
    snprintf(path, sizeof path, "%s/m-00005-of-00003.gguf", folder);
    unlink(path);
}

/* ---- Damaged files --------------------------------------------------------------------------- */

static void bad_magic(blob *b) { blob_add(b, "GGUX\3\0\0\0", 8); }
static void bad_version(blob *b) { blob_add(b, "GGUF\4\0\0\0", 8); }
static void big_endian(blob *b) { blob_add(b, "GGUF\0\0\0\3", 8); }
static void short_header(blob *b) { blob_add(b, "GGUF\3\0\0\0\1", 9); }
static void many_tensors(blob *b) { put_header(b, UINT64_MAX, 0); }
static void many_meta(blob *b) { put_header(b, 0, 1ull << 60); }

static void meta_file(blob *b, uint64_t n)
{
    put_header(b, 0, n);
}
static void long_key(blob *b)
{
    meta_file(b, 1);
    blob_number(b, UINT64_MAX, 8);
    blob_number(b, 0, 8);
}
static void empty_key(blob *b) { meta_file(b, 1); put_meta(b, "", RX_META_U64, 0); }
static void control_key(blob *b) { meta_file(b, 1); put_meta(b, "a\nb", RX_META_U64, 0); }
static void latin_key(blob *b) { meta_file(b, 1); put_meta(b, "a\xe4z", RX_META_U64, 0); }
static void same_key(blob *b)
{
    meta_file(b, 2);
    put_meta(b, "k", RX_META_U64, 0);
    put_meta(b, "k", RX_META_U64, 0);
}
static void bad_type(blob *b)
{
    meta_file(b, 1);
    put_text(b, "k");
    blob_number(b, 13, 4);
    blob_number(b, 0, 8);
}
static void bad_element(blob *b) { meta_file(b, 1); put_array(b, "k", (rx_meta_code)77, 0); }
static void nested(blob *b)
{
    meta_file(b, 1);
    put_array(b, "k", RX_META_ARRAY, 1);
    blob_number(b, RX_META_U8, 4);
    put_count(b, 0);
}
static void long_array(blob *b) { meta_file(b, 1); put_array(b, "k", RX_META_U64, 1ull << 61); }
static void long_strings(blob *b)
{
    meta_file(b, 1);
    put_array(b, "k", RX_META_STRING, 3);
    blob_number(b, 0, 8);
    blob_number(b, 0, 8);
}
static void confused(blob *b) /* numbers where strings are announced */
{
    meta_file(b, 1);
    put_array(b, "k", RX_META_STRING, 2);
    blob_number(b, 0x0000000700000009, 8);
    blob_number(b, 1, 8);
}
static void bad_bool(blob *b) { meta_file(b, 1); put_meta(b, "k", RX_META_BOOL, 2); }
static void odd_alignment(blob *b)
{
    meta_file(b, 1);
    put_meta(b, "general.alignment", RX_META_U32, 48);
}
static void no_alignment(blob *b)
{
    meta_file(b, 1);
    put_meta(b, "general.alignment", RX_META_U32, 0);
}
static void text_alignment(blob *b)
{
    meta_file(b, 1);
    put_meta(b, "general.alignment", RX_META_BOOL, 1);
}
static void lone_part(blob *b)
{
    meta_file(b, 1);
    put_meta(b, "split.count", RX_META_U16, 4);
}

/* One tensor and 64 bytes of data. */
static void one_tensor(blob *b, uint32_t type, uint64_t d0, uint64_t d1, uint64_t offset)
{
    put_header(b, 1, 0);
    put_info(b, "t", type, d0, d1, offset);
    put_data(b, 32, 64);
}
static void past_end(blob *b) { one_tensor(b, 0, 17, 0, 0); }
static void offset_past(blob *b) { one_tensor(b, 0, 1, 0, 1ull << 40); }
static void offset_wraps(blob *b) { one_tensor(b, 0, 16, 0, UINT64_MAX - 31); }
static void misaligned(blob *b) { one_tensor(b, 0, 1, 0, 4); }
static void half_block(blob *b) { one_tensor(b, 2, 16, 2, 0); }
static void many_elements(blob *b) { one_tensor(b, 0, 1ull << 40, 1ull << 40, 0); }
static void many_bytes(blob *b) { one_tensor(b, 0, 1ull << 62, 0, 0); }
static void wide_dim(blob *b) { one_tensor(b, 0, 1ull << 63, 0, 0); }
static void many_dims(blob *b)
{
    put_header(b, 1, 0);
    put_text(b, "t");
    blob_number(b, 9, 4);
    put_data(b, 1, 200);
}
static void no_name(blob *b)
{
    put_header(b, 1, 0);
    put_info(b, "", 0, 1, 0, 0);
    put_data(b, 32, 64);
}
static void two_tensors(blob *b, const char *second, uint64_t offset)
{
    put_header(b, 2, 0);
    put_info(b, "t", 0, 12, 0, 0);
    put_info(b, second, 0, 4, 0, offset);
    put_data(b, 32, 96);
}
static void overlap(blob *b) { two_tensors(b, "u", 32); }
static void same_name(blob *b) { two_tensors(b, "t", 64); }
static void cut_infos(blob *b)
{
    two_tensors(b, "u", 64);
    b->n = 24 + 37 + 20;
}

static const struct {
    void (*write)(blob *b);
    rlx_status status;
    const char *part;
} damaged[] = {
    {bad_magic, RLX_PARSE, "no model file"},
    {bad_version, RLX_UNSUPPORTED, "version 4; expected 1, 2 or 3"},
    {big_endian, RLX_UNSUPPORTED, "big-endian"},
    {short_header, RLX_PARSE, "ends inside the number of tensors"},
    {many_tensors, RLX_PARSE, "the number of tensors: 18446744073709551615 is too many"},
    {many_meta, RLX_PARSE, "the number of metadata entries: 1152921504606846976 is too many"},
    {long_key, RLX_PARSE, "ends inside the key of metadata entry 0"},
    {empty_key, RLX_PARSE, "the key of metadata entry 0 has 0 bytes"},
    {control_key, RLX_PARSE, "a control character (0x0a) at byte 1"},
    {latin_key, RLX_PARSE, "not UTF-8"},
    {same_key, RLX_PARSE, "metadata 'k' is there twice"},
    {bad_type, RLX_PARSE, "metadata 'k' has a value of type 13"},
    {bad_element, RLX_PARSE, "metadata 'k' has elements of type 77"},
    {nested, RLX_UNSUPPORTED, "metadata 'k' is an array of arrays"},
    {long_array, RLX_PARSE, "metadata 'k': 2305843009213693952 is too many"},
    {long_strings, RLX_PARSE, "metadata 'k'"},
    {confused, RLX_PARSE, "ends inside metadata 'k'"},
    {bad_bool, RLX_PARSE, "value 0 is 2; expected 0 or 1"},
    {odd_alignment, RLX_PARSE, "general.alignment is 48; expected a power of two"},
    {no_alignment, RLX_PARSE, "general.alignment is 0"},
    {text_alignment, RLX_PARSE, "'general.alignment' is no integer"},
    {lone_part, RLX_PARSE, "split.count is 4; expected 1 in a file that is not named"},
    {past_end, RLX_PARSE, "tensor 't' has 68 bytes at offset 0, past the end"},
    {offset_past, RLX_PARSE, "at offset 1099511627776, past the end"},
    {offset_wraps, RLX_PARSE, "at offset 18446744073709551584, past the end"},
    {misaligned, RLX_PARSE, "begins at offset 4; expected a multiple of 32"},
    {half_block, RLX_PARSE, "rows of 16 elements; expected a multiple of 32"},
    {many_elements, RLX_PARSE, "too many elements"},
    {many_bytes, RLX_PARSE, "too many bytes"},
    {wide_dim, RLX_PARSE, "a dimension of 9223372036854775808"},
    {many_dims, RLX_PARSE, "9 dimensions; expected at most 8"},
    {no_name, RLX_PARSE, "the name of tensor 0 has 0 bytes"},
    {overlap, RLX_PARSE, "tensors 't' and 'u' overlap: the first ends at 48"},
    {same_name, RLX_PARSE, "two tensors 't'"},
    {cut_infos, RLX_PARSE, "ends inside tensor 'u'"},
};

static void test_damaged(void)
{
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        blob b = {0};
        damaged[i].write(&b);
        CHECK_FAILS(open_bytes(b.data, b.n, "bad.gguf", &err), damaged[i].status, &err,
                    damaged[i].part);
        CHECK(strstr(err.text, "bad.gguf") != NULL);
        blob_free(&b);
    }
}

/* No shorter version of a good file is good, up to where the data of the last tensor begins. */
static void test_cut(void)
{
    blob b = full_file();
    bool ok = true;
    for (size_t n = 0; n < b.n; n++)
        ok = ok && (open_bytes(b.data, n, "cut.gguf", &err) != RLX_OK || n >= b.n - 14);
    CHECK(ok);
    blob_free(&b);
}

static void test_fuzz(void)
{
    for (version = 1; version <= 3; version += 2) {
        blob b = full_file();
        CHECK(fuzz_blob(&b, "fuzz.gguf", (uint64_t)version * 1000, 10000) > 0);
        blob_free(&b);
    }
    version = 3;
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    test_good();
    test_split();
    test_damaged();
    test_cut();
    test_fuzz();
    CHECK(rmdir(folder) == 0);
    return check_done();
}
