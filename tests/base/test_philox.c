/* SPDX-License-Identifier: MIT */
/* Tests of the random generator: the known answers that Random123 publishes for philox4x32-10, the
 * mapping of elements to words, and the range and exactness of the floats made from words. */
#include "base/philox.h"
#include "check.h"

typedef struct known_answer {
    uint32_t counter[4], key[2], want[4];
} known_answer;

/* Random123's kat_vectors: zeros, ones, and the digits of pi. */
static const known_answer known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void test_known_answers(void)
{
    for (size_t i = 0; i < sizeof known_answers / sizeof *known_answers; i++) {
        const known_answer *k = &known_answers[i];
        rx_philox c;
        for (int j = 0; j < 4; j++)
            c.v[j] = k->counter[j];
        c = rx_philox4x32(c, k->key[0], k->key[1]);
        for (int j = 0; j < 4; j++)
            if (!CHECK(c.v[j] == k->want[j]))
                printf("vector %zu word %d: expected %08x, got %08x\n", i, j, k->want[j], c.v[j]);
    }
}

static void test_elements(void)
{
    const uint64_t seed = 0x0123456789abcdefull, index = 0x300000007ull;
    const rx_philox counter = {{(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), 0, 0}};
    const rx_philox want = rx_philox4x32(counter, 0x89abcdefu, 0x01234567u);
    CHECK(rx_philox_word(seed, index) == want.v[3]); /* the word of an element past 2^32 */
    CHECK(rx_philox_word(0, 0) == 0x6627e8d5u); /* the first word of seed 0 */
    CHECK(rx_philox_word(0, 3) == 0x9b00dbd8u); /* the fourth word of seed 0 */
}

static void test_floats(void)
{
    CHECK(rx_philox_unit(0) == 0.0f); /* the smallest word gives 0 */
    CHECK(rx_philox_unit(0xffffffffu) == 1.0f - 0x1p-24f); /* the largest word stays below 1 */
    CHECK(rx_philox_positive(0) == 0x1p-24f); /* the smallest word has a logarithm */
    CHECK(rx_philox_positive(0xffffffffu) == 1.0f); /* the largest word gives 1 */
    double sum = 0, squares = 0;
    const int n = 100000;
    for (int i = 0; i < n; i++) {
        const double u = (double)rx_philox_unit(rx_philox_word(42, (uint64_t)i));
        sum += u;
        squares += u * u;
    }
    /* Six standard deviations around 1/2 and 1/3. */
    CHECK(sum / n > 0.4945 && sum / n < 0.5055); /* mean of 100000 numbers */
    CHECK(squares / n > 0.3276 && squares / n < 0.3391); /* mean square of 100000 numbers */
}

int main(void)
{
    test_known_answers();
    test_elements();
    test_floats();
    return check_done();
}
