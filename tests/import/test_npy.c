/* SPDX-License-Identifier: MIT */
/* NumPy files: what is written reads back, headers of all versions, both orders, both byte orders,
 * and damaged files fail with a sentence. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/little.h"
#include "check.h"
#include "rlx/rlx.h"
#include "support/file_faults.h"

static char path[] = "test_npy_XXXXXX";
static rlx_error err;

static void write_file(const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, bytes, f) == bytes);
    if (f)
        fclose(f);
}

/* A file of the given version with this dictionary and data. Returns its size. */
static size_t write_npy(int version, const char *dictionary, const void *data, size_t bytes)
{
    char file[1024];
    size_t n = strlen(dictionary), prefix = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)version;
    file[7] = 0;
    for (size_t i = 8; i < prefix; i++)
        file[i] = (char)(n >> 8 * (i - 8) & 0xff);
    memcpy(file + prefix, dictionary, n);
    memcpy(file + prefix + n, data, bytes);
    write_file(file, prefix + n + bytes);
    return prefix + n + bytes;
}

static void test_round_trip(void)
{
    static const rlx_dtype types[] = {RLX_F32, RLX_F16, RLX_BF16, RLX_I8,
                                      RLX_U8,  RLX_I32, RLX_I64,  RLX_BOOL, RLX_F64,
                                      RLX_I16, RLX_U16, RLX_U32,  RLX_U64};
    static const rlx_shape shapes[] = {
        {0, {0}}, {1, {5}}, {2, {2, 3}}, {3, {2, 0, 4}}, {8, {1, 2, 1, 2, 1, 2, 1, 3}}};
    unsigned char data[256];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i % 2);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            size_t n = (size_t)rlx_dtype_block_bytes(types[t]);
            for (int i = 0; i < shapes[s].rank; i++)
                n *= (size_t)shapes[s].dim[i];
            rlx_npy out = {types[t], shapes[s], n, data}, in;
            CHECK_OK(rlx_npy_save(path, out.dtype, &out.shape, out.data, out.bytes, &err), &err);
            CHECK_OK(rlx_npy_load(path, &in, &err), &err);
            CHECK(in.dtype == types[t] && in.bytes == n && in.shape.rank == shapes[s].rank);
            CHECK(!memcmp(in.shape.dim, shapes[s].dim, (size_t)in.shape.rank * sizeof(rlx_dim)));
            CHECK(!n || !memcmp(in.data, data, n));
            rlx_free(in.data);
        }
}

static void check_floats(const float *want, int n)
{
    rlx_npy in;
    if (!CHECK_OK(rlx_npy_load(path, &in, &err), &err))
        return;
    CHECK(in.dtype == RLX_F32 && in.bytes == (size_t)n * 4);
    CHECK(!memcmp(in.data, want, (size_t)n * 4));
    rlx_free(in.data);
}

static void test_headers(void)
{
    const float rows[6] = {0, 1, 2, 3, 4, 5}, columns[6] = {0, 3, 1, 4, 2, 5};
    const double wide[2] = {0.1, -1e300};
    rlx_npy in;
    char little[24], little_columns[24], swapped[24], little_wide[16];
    rx_little_copy(RLX_F32, rows, little, 24);
    rx_little_copy(RLX_F32, columns, little_columns, 24);
    rx_little_copy(RLX_F64, wide, little_wide, 16);
    for (int i = 0; i < 24; i++)
        swapped[i] = little[i ^ 3];
    for (int version = 1; version <= 3; version++) {
        write_npy(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
                  little, 24);
        check_floats(rows, 6);
    }
    write_npy(1, "{'shape':(2,3),'fortran_order':True,'descr':\"<f4\"}\n", little_columns,
              24);
    check_floats(rows, 6);
    write_npy(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (6,)}\n", swapped, 24);
    check_floats(rows, 6);
    write_npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2L,)}\n", little_wide, 16);
    if (CHECK_OK(rlx_npy_load(path, &in, &err), &err)) {
        CHECK(in.dtype == RLX_F64 && in.bytes == 16 && !memcmp(in.data, wide, 16));
        rlx_free(in.data);
    }
}

static void test_mistakes(void)
{
    static const struct {
        const char *dictionary, *part;
        rlx_status status;
    } cases[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "'<c8'", RLX_UNSUPPORTED},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "simple type",
         RLX_PARSE},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", "neither True nor", RLX_PARSE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}", "not a number", RLX_PARSE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "more than 8",
         RLX_PARSE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,", "shape", RLX_PARSE},
        {"{'descr': '<f4', 'fortran_order': False}", "lacks", RLX_PARSE},
        {"{'descr': '<f4', 'color': 3}", "unknown key", RLX_PARSE},
        {"nothing", "not a dictionary", RLX_PARSE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "expected 12 bytes of data, "
         "got 8", RLX_PARSE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "too large",
         RLX_PARSE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
         "not a number", RLX_PARSE},
    };
    rlx_npy in;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_npy(1, cases[i].dictionary, "12345678", 8);
        CHECK_FAILS(rlx_npy_load(path, &in, &err), cases[i].status, &err, cases[i].part);
        CHECK(in.data == NULL && in.bytes == 0);
    }
    write_file("\x93NUMPZ\x01\x00\x10\x00", 10);
    CHECK_FAILS(rlx_npy_load(path, &in, &err), RLX_PARSE, &err, "magic");
    write_file("", 0);
    CHECK_FAILS(rlx_npy_load(path, &in, &err), RLX_PARSE, &err, path);
    CHECK_FAILS(rlx_npy_load("no/such/file.npy", &in, &err), RLX_IO, &err, "no/such/file.npy");
    CHECK_FAILS(rlx_npy_load(".", &in, &err), RLX_IO, &err, "'.'");
    rlx_npy packed = {RLX_Q4_0, {1, {32}}, 18, &in};
    CHECK_FAILS(rlx_npy_save(path, packed.dtype, &packed.shape, packed.data, packed.bytes, &err),
                RLX_UNSUPPORTED, &err, "q4_0");
    rlx_npy wrong = {RLX_F32, {1, {3}}, 8, &in};
    CHECK_FAILS(rlx_npy_save(path, wrong.dtype, &wrong.shape, wrong.data, wrong.bytes, &err),
                RLX_INVALID, &err, "expected 12 bytes");
    rlx_npy scalar = {RLX_F32, {0, {0}}, 4, path};
    CHECK_FAILS(rlx_npy_save("no/such/x.npy", scalar.dtype, &scalar.shape, scalar.data,
                             scalar.bytes, &err), RLX_IO, &err, "no/such/x.npy");
}

/* Every shorter version of a good file fails or reads within its bounds. */
static void test_cut(void)
{
    char file[512];
    const float data[4] = {1, 2, 3, 4};
    size_t n = write_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", data,
                         16);
    FILE *f = fopen(path, "rb");
    CHECK(f && fread(file, 1, n, f) == n);
    if (f)
        fclose(f);
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        rlx_npy in;
        write_file(file, i);
        ok = ok && rlx_npy_load(path, &in, &err) != RLX_OK && !in.data;
    }
    CHECK(ok);
}

static rlx_status save_tensor(void *user, const char *to, int version, rlx_error *e)
{
    static float data[1000];
    (void)user;
    data[999] = (float)version;
    const rlx_npy t = {RLX_F32, {1, {1000}}, sizeof data, data};
    return rlx_npy_save(to, t.dtype, &t.shape, t.data, t.bytes, e);
}

static void test_other_kinds(void)
{
    const float one = 1;
    const rlx_npy t = {RLX_F32, {0, {0}}, 4, (void *)(uintptr_t)&one};
    write_file("GGUF\3\0\0\0", 8);
    CHECK_FAILS(rlx_npy_save(path, t.dtype, &t.shape, t.data, t.bytes, &err), RLX_INVALID, &err,
                "expected a NumPy file, found a GGUF file");
}

int main(void)
{
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    test_round_trip();
    test_headers();
    test_mistakes();
    test_cut();
    check_file_faults("npy", save_tensor, NULL);
    test_other_kinds();
    unlink(path);
    return check_done();
}
