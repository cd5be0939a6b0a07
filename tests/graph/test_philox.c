/* Philox4x32-10 against the known answers of its authors (Random123, tests/kat_vectors). */

#include "graph/philox.h"
#include "tests/check.h"

static const struct {
    clef__philox_words counter;
    uint32_t key[2];
    clef__philox_words answer;
} known[] = {
    {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
    {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
     {0xffffffff, 0xffffffff},
     {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
    {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, /* digits of pi */
     {0xa4093822, 0x299f31d0},
     {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
};

TEST(known_answers)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const clef__philox_words got = clef__philox(known[i].counter, known[i].key[0], known[i].key[1]);
        for (int w = 0; w < 4; w++)
            assert_int_equal(got.word[w], known[i].answer.word[w]);
    }
}

TESTS(NULL, NULL)
