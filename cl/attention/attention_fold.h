/* Adds up the elements of 16 vectors by shuffles; the 16 results are one vector. */
#ifndef CLEF_CL_ATTENTION_FOLD_H
#define CLEF_CL_ATTENTION_FOLD_H

/* Shuffles of two vectors. With clang's built-in each is one instruction of AVX-512; written element by
 * element it becomes many. */
#ifdef __clang__
#  define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#  define SHUFFLE(a, b, ...) shuffle2(a, b, (uint16)(__VA_ARGS__))
#endif

/* Four rounds add up each of 16 vectors. First halves of a and b, then quarters: */
static float16 fold8(float16 a, float16 b)
{
    return SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
static float16 fold4(float16 a, float16 b)
{
    return SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
/* then in each quarter pairs, of a and b alternately, then single elements. */
static float16 fold2(float16 a, float16 b)
{
    return SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
           SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
static float16 fold1(float16 a, float16 b)
{
    return SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
           SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}

#endif
