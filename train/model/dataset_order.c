/* Draws for the rows of a training (train/model/dataset_order.h). */
#include "train/model/dataset_order.h"

clef__philox_words clef__draw_words(uint64_t seed, clef__draw purpose, uint32_t epoch, uint32_t row,
                                    uint32_t at)
{
    const clef__philox_words counter = {{at, row, epoch, (uint32_t)purpose}};
    return clef__philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

uint32_t clef__draw_below(uint64_t seed, clef__draw purpose, uint32_t epoch, uint32_t n)
{
    return (uint32_t)((uint64_t)clef__draw_words(seed, purpose, epoch, 0, 0).word[0] * n >> 32);
}

/* A Feistel network (Luby and Rackoff, 1988) permutes the numbers of 2 n_bits bits. Numbers that are not
 * below n go through it again until one is ("cycle walking"). At least a quarter of them are, so that takes
 * four passes on average at most. */
uint64_t clef__draw_order(uint64_t seed, clef__draw purpose, uint32_t epoch, uint64_t n, uint64_t i)
{
    enum { ROUNDS = 8 };
    uint32_t n_bits = 1;
    while (n_bits < 32 && n > (uint64_t)1 << 2 * n_bits)
        n_bits++;
    const uint64_t half = ((uint64_t)1 << n_bits) - 1;
    do {
        uint64_t left = i >> n_bits, right = i & half;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            const clef__philox_words mixed = clef__draw_words(seed, purpose, epoch, round, (uint32_t)right);
            const uint64_t next = left ^ (mixed.word[0] & half);
            left = right;
            right = next;
        }
        i = left << n_bits | right;
    } while (i >= n);
    return i;
}
