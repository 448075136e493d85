/* SPDX-License-Identifier: MIT */
/* Kernels that are told to keep subnormal numbers: each of those whose floats all have 32 bits gets
 * three instructions, in their sections, and is the same otherwise. Where spirv-val is installed
 * some of them go through it. What they compute is tested by optest on the devices. */
#include <stdlib.h>

#include "base/mem.h"
#include "check.h"
#include "gpu/gpu.h"
#include "spirv/modes.h"
#include "spirv/module.h"

enum { EXTENSION = 10, DENORM_PRESERVE = 4464, MODE = 4459, ADDED_WORDS = 2 + 7 + 4 };

/* Sections in the order of the specification; instructions of none of them are the last. */
static int section(uint32_t op)
{
    static const uint32_t order[] = {SPV_CAPABILITY, EXTENSION, SPV_EXT_INST_IMPORT,
                                     SPV_MEMORY_MODEL, SPV_ENTRY_POINT, SPV_EXECUTION_MODE};
    for (int i = 0; i < 6; i++)
        if (order[i] == op)
            return i;
    return 6;
}

static bool is_added(const uint32_t *w)
{
    switch (w[0] & 0xffff) {
    case SPV_CAPABILITY: return w[1] == DENORM_PRESERVE;
    case EXTENSION: return !strcmp((const char *)(w + 1), "SPV_KHR_float_controls");
    case SPV_EXECUTION_MODE: return w[2] == MODE && w[3] == 32;
    default: return false;
    }
}

static bool check_module(const uint32_t *from, size_t n, const uint32_t *to, size_t n_to)
{
    size_t at = 5, same = 5;
    int added = 0, last = 0;
    bool ok = n_to == n + ADDED_WORDS && !memcmp(from, to, 5 * sizeof *to);
    while (ok && at < n_to) {
        const uint32_t length = to[at] >> 16;
        const int now = section(to[at] & 0xffff);
        ok = length && at + length <= n_to && now >= last;
        last = now;
        if (ok && is_added(to + at))
            added++;
        else if (ok) {
            ok = same + length <= n && !memcmp(from + same, to + at, length * sizeof *to);
            same += length;
        }
        at += length;
    }
    return ok && added == 3 && same == n;
}

static void validate(const uint32_t *w, size_t n)
{
    FILE *f = fopen("test_modes.spv", "wb");
    if (!CHECK(f != NULL))
        return;
    CHECK(fwrite(w, sizeof *w, n, f) == n);
    fclose(f);
    CHECK(system("spirv-val --target-env vulkan1.3 test_modes.spv") == 0);
    remove("test_modes.spv");
}

static void check_kernels(bool has_spirv_val)
{
    for (int k = 0; k < RX_N_KERNELS; k++) {
        size_t n, n_to;
        const uint32_t *code = rx_kernel_code((rx_kernel)k, &n);
        if (rx_kernels[k].needs & (RX_NEEDS_COOPMAT | RX_NEEDS_F16 | RX_NEEDS_BF16))
            continue;
        uint32_t *words = code ? rx_spv_keep_subnormals(code, n, &n_to) : NULL;
        if (!CHECK(words && check_module(code, n, words, n_to)))
            printf("    kernel '%s'\n", rx_kernels[k].name);
        else if (has_spirv_val && k % 5 == 0)
            validate(words, n_to);
        rx_free(words);
    }
}

/* What has no capabilities, no entry point, two of them, or a broken length is refused. */
static void check_bad(void)
{
    const uint32_t entry[] = {5 << 16 | SPV_ENTRY_POINT, 5, 1, 0x6e69616d, 0};
    uint32_t w[17] = {0x07230203, 0x00010300, 0, 9, 0, 2 << 16 | SPV_CAPABILITY, 1};
    size_t n;
    CHECK(!rx_spv_keep_subnormals(w, 0, &n));
    CHECK(!rx_spv_keep_subnormals(w, 7, &n));
    memcpy(w + 7, entry, sizeof entry);
    memcpy(w + 12, entry, sizeof entry);
    CHECK(!rx_spv_keep_subnormals(w, 17, &n) && n == 0);
    CHECK(!rx_spv_keep_subnormals(w, 11, &n));
    uint32_t *good = rx_spv_keep_subnormals(w, 12, &n);
    CHECK(good && check_module(w, 12, good, n));
    rx_free(good);
    w[5] = SPV_CAPABILITY;
    CHECK(!rx_spv_keep_subnormals(w, 12, &n));
}

int main(void)
{
    check_kernels(system("spirv-val --version >/dev/null 2>&1") == 0);
    check_bad();
    return check_done();
}
