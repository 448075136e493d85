/* SPDX-License-Identifier: MIT */
/* Tests of the GGUF writer and of packing rows: what is written is read back, wrong use is refused
 * with its sentence, a failure leaves no file behind. */
#include "rlx/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.h"
#include "check.h"
#include "rlx/rlx.h"
#include "support/file_faults.h"
#include "support/memory.h"

static char folder[] = "/tmp/rlx-write-XXXXXX";
static char path[64];
static rlx_error err;

static bool is_there(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static const uint8_t u8[] = {0, 200};
static const int8_t i8[] = {-7, 7};
static const uint16_t u16[] = {65535};
static const int16_t i16[] = {-300, 5, 6};
static const uint32_t u32[] = {4000000000u};
static const int32_t i32[] = {-2000000000, 1};
static const uint64_t u64[] = {1ull << 63};
static const int64_t i64[] = {-(1ll << 62)};
static const float f32[] = {0.1f, -4.0f};
static const double f64[] = {1e100};
static const uint8_t bools[] = {1, 0, 1};
static const char *const texts[] = {"zw\xc3\xb6lf", "", "a\0b"};
static const size_t lengths[] = {6, 0, 3};

static const struct {
    const char *key;
    rlx_gguf_value value;
} entries[] = {
    {"t.u8", {RLX_GGUF_U8, true, 2, u8, NULL, NULL}},
    {"t.i8", {RLX_GGUF_I8, true, 2, i8, NULL, NULL}},
    {"t.u16", {RLX_GGUF_U16, false, 0, u16, NULL, NULL}},
    {"t.i16", {RLX_GGUF_I16, true, 3, i16, NULL, NULL}},
    {"t.u32", {RLX_GGUF_U32, false, 0, u32, NULL, NULL}},
    {"t.i32", {RLX_GGUF_I32, true, 2, i32, NULL, NULL}},
    {"t.u64", {RLX_GGUF_U64, false, 0, u64, NULL, NULL}},
    {"t.i64", {RLX_GGUF_I64, false, 0, i64, NULL, NULL}},
    {"t.f32", {RLX_GGUF_F32, true, 2, f32, NULL, NULL}},
    {"t.f64", {RLX_GGUF_F64, false, 0, f64, NULL, NULL}},
    {"t.bools", {RLX_GGUF_BOOL, true, 3, bools, NULL, NULL}},
    {"t.texts", {RLX_GGUF_STRING, true, 3, NULL, texts, lengths}},
    {"t.empty", {RLX_GGUF_STRING, true, 0, NULL, NULL, NULL}},
};
enum { N_ENTRIES = sizeof entries / sizeof entries[0] };

static void set_all(rlx_gguf_writer *w)
{
    CHECK_OK(rlx_gguf_writer_set_text(w, "general.architecture", "old", &err), &err);
    CHECK_OK(rlx_gguf_writer_set_text(w, "general.architecture", "test", &err), &err);
    for (int i = 0; i < N_ENTRIES; i++)
        CHECK_OK(rlx_gguf_writer_set(w, entries[i].key, &entries[i].value, &err), &err);
    CHECK_OK(rlx_gguf_writer_set_f32(w, "t.half", 0.5f, &err), &err);
    CHECK_OK(rlx_gguf_writer_set_bool(w, "t.yes", true, &err), &err);
}

static void check_meta(const rlx_file *f)
{
    rlx_meta m;
    uint64_t u = 0;
    int64_t s = 0;
    double d = 0;
    bool b = false;
    const char *text;
    size_t length;
    CHECK(rlx_file_find_meta(f, "general.architecture", &m) &&
          rlx_meta_string(&m, 0, &text, &length) && length == 4 && !memcmp(text, "test", 4));
    CHECK(rlx_file_find_meta(f, "t.u8", &m) && m.is_array && m.n == 2 && rlx_meta_u64(&m, 1, &u) &&
          u == 200);
    CHECK(rlx_file_find_meta(f, "t.i8", &m) && rlx_meta_i64(&m, 0, &s) && s == -7);
    CHECK(rlx_file_find_meta(f, "t.u16", &m) && rlx_meta_u64(&m, 0, &u) && u == 65535);
    CHECK(rlx_file_find_meta(f, "t.i16", &m) && rlx_meta_i64(&m, 0, &s) && s == -300);
    CHECK(rlx_file_find_meta(f, "t.u32", &m) && rlx_meta_u64(&m, 0, &u) && u == u32[0]);
    CHECK(rlx_file_find_meta(f, "t.i32", &m) && rlx_meta_i64(&m, 0, &s) && s == i32[0]);
    CHECK(rlx_file_find_meta(f, "t.u64", &m) && rlx_meta_u64(&m, 0, &u) && u == u64[0]);
    CHECK(rlx_file_find_meta(f, "t.i64", &m) && rlx_meta_i64(&m, 0, &s) && s == i64[0]);
    CHECK(rlx_file_find_meta(f, "t.f32", &m) && rlx_meta_f64(&m, 0, &d) && d == (double)f32[0]);
    CHECK(rlx_file_find_meta(f, "t.f64", &m) && rlx_meta_f64(&m, 0, &d) && d == f64[0]);
    CHECK(rlx_file_find_meta(f, "t.bools", &m) && rlx_meta_bool(&m, 1, &b) && !b);
    CHECK(rlx_file_find_meta(f, "t.yes", &m) && rlx_meta_bool(&m, 0, &b) && b);
    CHECK(rlx_file_find_meta(f, "t.texts", &m) && rlx_meta_string(&m, 2, &text, &length) &&
          length == 3 && !memcmp(text, "a\0b", 3));
    CHECK(rlx_file_find_meta(f, "t.empty", &m) && m.is_array && m.n == 0);
}

/* ---- A good file ----------------------------------------------------------------------------- */

static float values[1024];

static void add_tensors(rlx_gguf_writer *w)
{
    CHECK_OK(rlx_gguf_writer_add_tensor(w, "a", RLX_F32, &(rlx_shape){2, {3, 5}}, &err), &err);
    CHECK_OK(rlx_gguf_writer_add_tensor(w, "empty", RLX_F16, &(rlx_shape){1, {0}}, &err), &err);
    CHECK_OK(rlx_gguf_writer_add_tensor(w, "q", RLX_Q4_K, &(rlx_shape){2, {2, 512}}, &err), &err);
    CHECK_OK(rlx_gguf_writer_add_tensor(w, "last", RLX_F32, &(rlx_shape){1, {1}}, &err), &err);
}

/* Writes all data of add_tensors in pieces of `step` bytes. */
static rlx_status write_data(rlx_gguf_writer *w, size_t step)
{
    static unsigned char packed[4 * 144], all[60 + sizeof packed + 4];
    rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32,
                                .to = RLX_Q4_K, .src = values,
                       .dst = packed,
                           .n_rows = 2, .row_length = 512, .threads = 1};
    RLX_TRY(rlx_quantize_rows(&d, NULL, &err));
    memcpy(all, values, 60);
    memcpy(all + 60, packed, sizeof packed);
    memcpy(all + 60 + sizeof packed, values + 7, 4);
    for (size_t at = 0; at < sizeof all; at += step) {
        size_t n = sizeof all - at < step ? sizeof all - at : step;
        RLX_TRY(rlx_gguf_writer_write(w, all + at, n, &err));
    }
    return RLX_OK;
}

static void check_file(const char *name, uint64_t alignment)
{
    rlx_file *f;
    rlx_file_tensor t;
    float back[1024];
    if (!CHECK_OK(rlx_file_open(name, &f, &err), &err))
        return;
    check_meta(f);
    CHECK(rlx_file_n_tensors(f) == 4);
    CHECK(rlx_file_find_tensor(f, "a", &t) && t.shape.rank == 2 && t.shape.dim[0] == 3 &&
          t.shape.dim[1] == 5 && !memcmp(t.data, values, 60));
    CHECK(rlx_file_find_tensor(f, "q", &t) && t.dtype == RLX_Q4_K && t.bytes == 4 * 144 &&
          (uintptr_t)t.data % alignment == 0);
    CHECK(rlx_to_float(t.dtype, t.data, back, 1024) == RLX_OK);
    double worst = 0;
    for (int i = 0; i < 1024; i++)
        worst = fmax(worst, fabs((double)(back[i] - values[i])));
    CHECK(worst < 0.1);
    CHECK(rlx_file_find_tensor(f, "last", &t) && !memcmp(t.data, values + 7, 4));
    rlx_file_close(f);
}

static void test_good(uint32_t alignment, size_t step)
{
    rlx_gguf_writer *w;
    unlink(path);
    if (!CHECK_OK(rlx_gguf_writer_create(path, &w, &err), &err))
        return;
    set_all(w);
    if (alignment)
        CHECK_OK(rlx_gguf_writer_set_u32(w, "general.alignment", alignment, &err), &err);
    add_tensors(w);
    CHECK_OK(write_data(w, step), &err);
    CHECK(!is_there(path));
    CHECK_OK(rlx_gguf_writer_finish(w, &err), &err);
    rlx_gguf_writer_destroy(w);
    CHECK(is_there(path));
    check_file(path, alignment ? alignment : 32);
}

/* All metadata of one file in another, byte for byte. */
static void test_copy(void)
{
    char other[80];
    rlx_file *f;
    rlx_gguf_writer *w;
    snprintf(other, sizeof other, "%s/copy.gguf", folder);
    CHECK_OK(rlx_file_open(path, &f, &err), &err);
    CHECK_OK(rlx_gguf_writer_create(other, &w, &err), &err);
    CHECK_OK(rlx_gguf_writer_copy_meta(w, f, &err), &err);
    add_tensors(w);
    CHECK_OK(write_data(w, 100), &err);
    CHECK_OK(rlx_gguf_writer_finish(w, &err), &err);
    rlx_gguf_writer_destroy(w);
    rlx_file_close(f);
    check_file(other, 64);
    CHECK(unlink(other) == 0);
}

/* ---- Wrong use ------------------------------------------------------------------------------- */

static void test_refusals(void)
{
    rlx_gguf_writer *w;
    rlx_gguf_value bad = {.type = (rlx_gguf_type)9}, none = {.type = RLX_GGUF_U32};
    CHECK_FAILS(rlx_gguf_writer_create("/nowhere/x.gguf", &w, &err), RLX_IO, &err,
                "cannot create '/nowhere/x.gguf'");
    CHECK(w == NULL);
    CHECK_FAILS(rlx_gguf_writer_create(NULL, &w, &err), RLX_INVALID, &err, "is NULL");
    CHECK_OK(rlx_gguf_writer_create(path, &w, &err), &err);
    CHECK_FAILS(rlx_gguf_writer_set_u32(w, "", 1, &err), RLX_INVALID, &err, "the key '' has 0");
    CHECK_FAILS(rlx_gguf_writer_set_u32(w, "a\nb", 1, &err), RLX_INVALID, &err, "control");
    CHECK_FAILS(rlx_gguf_writer_set(w, "k", &bad, &err), RLX_INVALID, &err, "of type 9");
    CHECK_FAILS(rlx_gguf_writer_set(w, "k", &none, &err), RLX_INVALID, &err, "no values");
    CHECK_FAILS(rlx_gguf_writer_set_u32(w, "general.alignment", 48, &err), RLX_INVALID, &err,
                "general.alignment is 48");
    rlx_shape row = {1, {100}}, deep = {5, {1, 1, 1, 1, 1}}, huge = {2, {1ll << 40, 1ll << 40}};
    CHECK_FAILS(rlx_gguf_writer_add_tensor(w, "t", RLX_Q4_K, &row, &err), RLX_INVALID, &err,
                "multiple of 256");
    CHECK_FAILS(rlx_gguf_writer_add_tensor(w, "t", RLX_F32, &deep, &err), RLX_UNSUPPORTED, &err,
                "5 dimensions");
    CHECK_FAILS(rlx_gguf_writer_add_tensor(w, "t", RLX_F32, &huge, &err), RLX_INVALID, &err,
                "does not fit");
    CHECK_FAILS(rlx_gguf_writer_add_tensor(w, "t", RLX_BOOL, &row, &err), RLX_UNSUPPORTED, &err,
                "elements of bool");
    CHECK_OK(rlx_gguf_writer_add_tensor(w, "t", RLX_F32, &row, &err), &err);
    CHECK_FAILS(rlx_gguf_writer_add_tensor(w, "t", RLX_F32, &row, &err), RLX_INVALID, &err,
                "already");
    CHECK_OK(rlx_gguf_writer_write(w, values, 100, &err), &err);
    CHECK_FAILS(rlx_gguf_writer_set_u32(w, "k", 1, &err), RLX_INVALID, &err, "data was begun");
    CHECK_FAILS(rlx_gguf_writer_finish(w, &err), RLX_INVALID, &err, "100 of its 400 bytes");
    CHECK_FAILS(rlx_gguf_writer_write(w, values, 301, &err), RLX_INVALID, &err,
                "1 bytes follow the data of all 1 tensors");
    rlx_gguf_writer_destroy(w);
    rlx_gguf_writer_destroy(NULL);
}

/* A disk that is full: the limit on the size of files serves as one. */
static void test_full_disk(void)
{
    rlx_gguf_writer *w;
    struct rlimit old, small;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    small = (struct rlimit){4096, old.rlim_max};
    CHECK(unlink(path) == 0);
    CHECK_OK(rlx_gguf_writer_create(path, &w, &err), &err);
    CHECK_OK(rlx_gguf_writer_add_tensor(w, "t", RLX_F32, &(rlx_shape){1, {2048}}, &err), &err);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    rlx_status st = rlx_gguf_writer_write(w, values, sizeof values, &err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_write(w, values, sizeof values, &err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_finish(w, &err); /* what is buffered is written at the latest here */
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK_FAILS(st, RLX_IO, &err, "cannot write");
    rlx_gguf_writer_destroy(w);
    CHECK(!is_there(path));
}

/* ---- Packing --------------------------------------------------------------------------------- */

static void test_quantize(void)
{
    enum { ROWS = 300, LENGTH = 512 };
    static float x[ROWS * LENGTH];
    static unsigned char one[2 * ROWS * LENGTH], four[2 * ROWS * LENGTH];
    for (int i = 0; i < ROWS * LENGTH; i++)
        x[i] = sinf((float)i * 0.37f) * (1.0f + (float)(i % 11));
    rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32,
                                .to = RLX_Q5_K, .src = x,
                       .dst = one, .n_rows = ROWS,
                           .row_length = LENGTH, .threads = 1};
    rlx_quantize_rows_stats a = {0}, b = {0};
    CHECK_OK(rlx_quantize_rows(&d, &a, &err), &err);
    d.dst = four;
    d.threads = 4;
    CHECK_OK(rlx_quantize_rows(&d, &b, &err), &err);
    CHECK(!memcmp(one, four, ROWS * LENGTH / 256 * 176));
    CHECK(a.squares == b.squares && a.error == b.error && a.error > 0);
    CHECK(sqrt(a.error / a.squares) < 0.05);
    rlx_quantize_rows_desc again = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_Q5_K,
                                    .to = RLX_Q8_0, .src = one,
                           .dst = four,
                               .n_rows = ROWS, .row_length = LENGTH};
    CHECK_OK(rlx_quantize_rows(&again, &a, &err), &err);
    CHECK(sqrt(a.error / a.squares) < 0.01);
    x[700] = NAN;
    CHECK_FAILS(rlx_quantize_rows(&d, &b, &err), RLX_INVALID, &err, "element 188 of row 1 is NaN");
    d.row_length = 100;
    CHECK_FAILS(rlx_quantize_rows(&d, &b, &err), RLX_INVALID, &err, "multiple of 256");
    d.to = RLX_IQ2_XS;
    CHECK_FAILS(rlx_quantize_rows(&d, &b, &err), RLX_UNSUPPORTED, &err, "packed as iq2_xs");
    CHECK(rlx_dtype_can_quantize(RLX_MXFP4) && rlx_dtype_can_quantize(RLX_BF16));
    CHECK(!rlx_dtype_can_quantize(RLX_I32) && !rlx_dtype_can_quantize(RLX_NO_TYPE));
}

/* ---- Memory that runs out -------------------------------------------------------------------- */

static rlx_status write_small(void)
{
    rlx_gguf_writer *w;
    RLX_TRY(rlx_gguf_writer_create(path, &w, &err));
    rlx_status st = rlx_gguf_writer_set(w, "t.texts", &entries[11].value, &err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_add_tensor(w, "t", RLX_F32, &(rlx_shape){1, {16}}, &err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_write(w, values, 64, &err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_finish(w, &err);
    rlx_gguf_writer_destroy(w);
    return st;
}

static void test_memory(void)
{
    rlx_set_allocator(&counting);
    long n = 1;
    rlx_status st = RLX_NO_MEMORY;
    for (; n < 1000 && st == RLX_NO_MEMORY; n++) {
        memory_fail(n, true);
        st = write_small();
        CHECK(memory_live() == 0);
        CHECK(is_there(path) == (st == RLX_OK));
    }
    rlx_set_allocator(NULL);
    CHECK(st == RLX_OK && n > 6);
    unlink(path);
}

/* As rlx quantize does it: the header, then tensors in pieces. */
static rlx_status save_model(void *user, const char *to, int version, rlx_error *e)
{
    static uint8_t packed[18 * 32];
    rlx_gguf_writer *w;
    (void)user;
    rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32,
                                .to = RLX_Q4_0, .src = values,
                       .dst = packed, .n_rows = 1, .row_length = 1024, .threads = 1};
    rlx_status st = rlx_gguf_writer_create(to, &w, e);
    if (st != RLX_OK)
        return st;
    st = rlx_gguf_writer_set_u32(w, "version", (uint32_t)version, e);
    for (int i = 0; i < 200 && st == RLX_OK; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        st = rlx_gguf_writer_add_tensor(w, name, RLX_Q4_0, &(rlx_shape){1, {1024}}, e);
    }
    if (st == RLX_OK)
        st = rlx_quantize_rows(&d, NULL, e);
    for (int i = 0; i < 200 && st == RLX_OK; i++)
        st = rlx_gguf_writer_write(w, packed, sizeof packed, e);
    if (st == RLX_OK)
        st = rlx_gguf_writer_finish(w, e);
    rlx_gguf_writer_destroy(w);
    return st;
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/out.gguf", folder);
    for (int i = 0; i < 1024; i++)
        values[i] = sinf((float)i) * 0.5f;
    test_good(0, 1000000);
    test_good(8, 7);
    test_good(4096, 64);
    test_good(64, 1);
    test_copy();
    test_refusals();
    check_file(path, 64); /* what failed has left it as it was */
    test_full_disk();
    test_memory();
    test_quantize();
    check_file_faults("gguf", save_model, NULL);
    CHECK(rmdir(folder) == 0);
    return check_done();
}
