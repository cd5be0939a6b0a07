/* Philox4x32-10, a counter-based generator of random numbers (Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC'11). The same key and counter give the same four words, on host and device
 * (cl/train/philox.h), whatever was drawn before. */
#ifndef CLEF_GRAPH_PHILOX_H
#define CLEF_GRAPH_PHILOX_H

#include <stdint.h>

typedef struct clef__philox_words {
    uint32_t word[4];
} clef__philox_words;

static inline clef__philox_words clef__philox(clef__philox_words counter, uint32_t key0, uint32_t key1)
{
    enum { ROUNDS = 10 };
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * counter.word[0],
                       b = (uint64_t)0xCD9E8D57u * counter.word[2];
        const clef__philox_words next = {{(uint32_t)(b >> 32) ^ counter.word[1] ^ key0, (uint32_t)b,
                                          (uint32_t)(a >> 32) ^ counter.word[3] ^ key1, (uint32_t)a}};
        counter = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

#endif
