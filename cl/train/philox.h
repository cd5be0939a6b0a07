/* Philox4x32-10 (graph/philox.h) for 16 counters at once, whose first words are counter .. counter + 15. */
#ifndef CLEF_CL_PHILOX_H
#define CLEF_CL_PHILOX_H

/* The words of one counter, or, with T uint16, of 16. */
#define DEFINE_PHILOX(name, T)                                                                      \
    static void name(T *c0, T *c1, T *c2, T *c3, uint key0, uint key1)                              \
    {                                                                                               \
        for (int round = 0; round < 10; round++) {                                                  \
            const T hi0 = mul_hi(*c0, (T)0xD2511F53u), lo0 = *c0 * 0xD2511F53u;                     \
            const T hi1 = mul_hi(*c2, (T)0xCD9E8D57u), lo1 = *c2 * 0xCD9E8D57u;                     \
            *c0 = hi1 ^ *c1 ^ key0;                                                                 \
            *c1 = lo1;                                                                              \
            *c2 = hi0 ^ *c3 ^ key1;                                                                 \
            *c3 = lo0;                                                                              \
            key0 += 0x9E3779B9u;                                                                    \
            key1 += 0xBB67AE85u;                                                                    \
        }                                                                                           \
    }

#endif
