/* Tiles of queries on CPUs: decoding a chunk of keys or values, and its products with the tile's rows.
 * Include it after attention_vector.h. */
#ifndef CLEF_CL_ATTENTION_TILE_H
#define CLEF_CL_ATTENTION_TILE_H

/* A round of the perfect shuffle: four of them transpose 16 x 16. */
#define SHUFFLE_ROUND(to, from)                    \
    _Pragma("unroll") for (uint i = 0; i < 8; i++) \
    {                                              \
        to[2 * i].even = from[i].lo;               \
        to[2 * i].odd = from[i + 8].lo;            \
        to[2 * i + 1].even = from[i].hi;           \
        to[2 * i + 1].odd = from[i + 8].hi;        \
    }

/* Defines a function that writes n rows of N vectors from `at` on to to[element][row]; rows from n on repeat
 * the last one. */
#define DEFINE_TRANSPOSE(name, elem, row16, N)                                                \
    static void name(float16 *to, global const elem *x, size_t at, size_t stride, int n)      \
    {                                                                                         \
        for (int c = 0; 16 * c < n; c++)                                                      \
            for (uint j = 0; j < N; j++) {                                                    \
                float16 a[16], b[16];                                                         \
                _Pragma("unroll") for (int i = 0; i < 16; i++) a[i] =                         \
                    row16(x, at + min(16 * c + i, n - 1) * stride, j);                        \
                SHUFFLE_ROUND(b, a)                                                           \
                SHUFFLE_ROUND(a, b)                                                           \
                SHUFFLE_ROUND(b, a)                                                           \
                SHUFFLE_ROUND(a, b)                                                           \
                _Pragma("unroll") for (int i = 0; i < 16; i++) to[(16 * j + i) * CHUNK + c] = \
                    a[i];                                                                     \
            }                                                                                 \
    }

/* Defines a function that copies n rows of N vectors from `at` on. */
#define DEFINE_ROWS(name, elem, row16, N)                                                \
    static void name(float16 *to, global const elem *x, size_t at, size_t stride, int n) \
    {                                                                                    \
        for (int s = 0; s < n; s++)                                                      \
            _Pragma("unroll") for (uint j = 0; j < N; j++) to[s * (N) + j] =             \
                row16(x, at + s * stride, j);                                            \
    }

/* Defines a function that computes z[i][key] = q[i] . k[key] over LENGTH elements, for ROWS rows of q, which
 * are 16 VECTORS apart, and for those vectors of keys that hold the chunk's n keys. z is in the address space
 * SPACE. */
#define DEFINE_SCORE_OF(name, SPACE, N, LENGTH, VECTORS)                                             \
    static void name(SPACE float16 *z, const float *q, const float16 *kt)                            \
    {                                                                                                \
        float16 acc[ROWS][N];                                                                        \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                             \
            _Pragma("unroll") for (int c = 0; c < N; c++) acc[i][c] = 0;                             \
        for (int d = 0; d < LENGTH; d++)                                                             \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                         \
                _Pragma("unroll") for (int c = 0; c < N; c++)                                        \
                    acc[i][c] = fma((float16)q[i * 16 * VECTORS + d], kt[d * CHUNK + c], acc[i][c]); \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                             \
            _Pragma("unroll") for (int c = 0; c < N; c++) z[i * CHUNK + c] = acc[i][c];              \
    }
#if AT_ONCE == 1
#  define DEFINE_SCORE(name, SPACE, LENGTH, VECTORS)                                   \
      DEFINE_SCORE_OF(name##_1, SPACE, 1, LENGTH, VECTORS)                             \
      static void name(SPACE float16 *z, const float *q, const float16 *kt, int n)     \
      {                                                                                \
          for (int c = 0; c < (n <= 16 ? 1 : n <= 32 ? 2 : CHUNK); c++)                \
              name##_1(z + c, q, kt + c);                                              \
      }
#else
#  define DEFINE_SCORE(name, SPACE, LENGTH, VECTORS)                               \
      DEFINE_SCORE_OF(name##_1, SPACE, 1, LENGTH, VECTORS)                         \
      DEFINE_SCORE_OF(name##_2, SPACE, 2, LENGTH, VECTORS)                         \
      DEFINE_SCORE_OF(name##_4, SPACE, 4, LENGTH, VECTORS)                         \
      static void name(SPACE float16 *z, const float *q, const float16 *kt, int n) \
      {                                                                            \
          if (n <= 16)                                                             \
              name##_1(z, q, kt);                                                  \
          else if (n <= 32)                                                        \
              name##_2(z, q, kt);                                                  \
          else                                                                     \
              name##_4(z, q, kt);                                                  \
      }
#endif

#endif
