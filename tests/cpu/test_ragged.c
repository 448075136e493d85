/* SPDX-License-Identifier: MIT */
/* Batch invariance of ragged_attention on the CPU: with every type of cache, at each level of
 * kernels, and for one, two and three threads. */
#include "support/ragged.h"

enum { THREADS = 3 };

static void check_case(const ragged_case *c)
{
    rlx_device *device[THREADS] = {0};
    rlx_session *s[THREADS] = {0};
    rlx_error err = {0};
    bool ok = true;
    for (uint32_t i = 0; i < THREADS && ok; i++) {
        const rlx_device_desc d = {RLX_INIT(rlx_device_desc), .threads = i + 1};
        ok = CHECK_OK(rlx_device_open("cpu", &d, &device[i], &err), &err) &&
             (s[i] = ragged_session(device[i], c)) != NULL;
    }
    if (ok)
        ragged_check(s, THREADS);
    for (int i = 0; i < THREADS; i++) {
        rlx_session_destroy(s[i]);
        rlx_device_close(device[i]);
    }
}

static void check_level(const char *level)
{
    static const rlx_dtype types[] = {RLX_F32, RLX_F16, RLX_BF16, RLX_Q8_0, RLX_Q4_0};
    if (level)
        setenv("RLX_CPU", level, 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_case(&(ragged_case){.pool = types[i]});
    check_case(&(ragged_case){.pool = RLX_F16, .window = 300});
    check_case(&(ragged_case){.pool = RLX_F32, .window = 700});
}

int main(void)
{
#ifdef RX_SANITIZED /* has the kernels of one level, and is slow */
    check_level(NULL);
#else
    check_level("avx2");
    check_level("avx512");
    check_level("vnni");
#endif
    return check_done();
}
