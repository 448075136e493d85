/* SPDX-License-Identifier: MIT */
/* Compute units by the name of an adapter: whole words, the longest name first, the rest of a
 * maker, nothing for makers that are not in the table. */
#include "check.h"
#include "webgpu/device.h"

int main(void)
{
    CHECK(rx_wg_compute_units(0x10de, "nvidia h200 ") == 132);
    CHECK(rx_wg_compute_units(0x10de, "nvidia h20 ") == 78);
    CHECK(rx_wg_compute_units(0x10de, "nvidia l40s ") == 142);
    CHECK(rx_wg_compute_units(0x10de, "nvidia l4 ") == 58);
    CHECK(rx_wg_compute_units(0x10de, "nvidia geforce rtx 4070 ti super ") == 66);
    CHECK(rx_wg_compute_units(0x10de, "nvidia geforce rtx 4070 ") == 46);
    CHECK(rx_wg_compute_units(0x10de, " ampere") == 46); /* as browsers say it */
    CHECK(rx_wg_compute_units(0x10de, "nvidia of another day ") == 40);
    CHECK(rx_wg_compute_units(0x106b, "apple m1 max ") == 32);
    CHECK(rx_wg_compute_units(0x106b, "apple m1 ") == 8);
    CHECK(rx_wg_compute_units(0x1002, "amd radeon rx 7900 xtx ") == 96);
    CHECK(rx_wg_compute_units(0x10005, "llvmpipe (llvm 15.0.6, 256 bits) ") == 0);
    return check_done();
}
