/* SPDX-License-Identifier: MIT */
/* Elements between files, which are little-endian, and the byte order of this machine. */
#include <string.h>

#include "base/little.h"
#include "check.h"

static void test_copy(void)
{
    static const unsigned char file[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    unsigned char back[sizeof file];
    uint64_t word;
    uint32_t single;
    uint16_t half[4];
    rx_little_copy(RLX_U64, file, &word, 8);
    CHECK(word == UINT64_C(0x0807060504030201));
    rx_little_copy(RLX_F32, file, &single, 4);
    CHECK(single == 0x04030201);
    rx_little_copy(RLX_BF16, file, half, 8);
    CHECK(half[0] == 0x0201 && half[3] == 0x0807);
    memcpy(back, file, sizeof file);
    rx_little_copy(RLX_I32, back, back, sizeof back);
    memcpy(&single, back + 4, 4);
    CHECK(single == 0x08070605 && back[8] == 9); /* what is not a whole element stays */
    rx_little_copy(RLX_Q8_0, file, back, sizeof back);
    CHECK(!memcmp(back, file, sizeof back));
}

static void test_index(void)
{
    const uint32_t words[2] = {0x04030201, 0x08070605};
    const unsigned char *bytes = (const unsigned char *)words;
    for (uint64_t i = 0; i < 8; i++) {
        CHECK(bytes[rx_little_index(RLX_U32, i)] == i + 1);
        CHECK(rx_little_index(RLX_I8, i) == i && rx_little_index(RLX_Q4_K, i) == i);
    }
}

int main(void)
{
    test_copy();
    test_index();
    return check_done();
}
