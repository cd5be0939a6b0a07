/* Sums of weighted rows, for attention_grad_cpu.cl: sum[i] += sum_l w[i][l] x[l], for COUNT sums of vectors
 * of elements, which stay in registers. Include it after attention_vector.h. */
#ifndef CLEF_CL_ATTENTION_GRAD_SUMS_H
#define CLEF_CL_ATTENTION_GRAD_SUMS_H

/* For COUNT sums in the address space S_SPACE and N of the VECTORS vectors of a row. Weight (i, l) is at
 * w[i I_STEP + l L_STEP]. */
#define DEFINE_SUM_OF(name, COUNT, N, VECTORS, S_SPACE, W_SPACE, I_STEP, L_STEP)             \
    static void name(S_SPACE float16 *sum, W_SPACE const float *w, const float16 *x, int n)  \
    {                                                                                        \
        float16 acc[COUNT][N];                                                               \
        _Pragma("unroll") for (int i = 0; i < COUNT; i++)                                    \
            _Pragma("unroll") for (int j = 0; j < N; j++) acc[i][j] = sum[i * VECTORS + j];  \
        for (int l = 0; l < n; l++)                                                          \
            _Pragma("unroll") for (int i = 0; i < COUNT; i++)                                \
                _Pragma("unroll") for (int j = 0; j < N; j++) acc[i][j] =                    \
                    fma((float16)w[i * I_STEP + l * L_STEP], x[l * VECTORS + j], acc[i][j]); \
        _Pragma("unroll") for (int i = 0; i < COUNT; i++)                                    \
            _Pragma("unroll") for (int j = 0; j < N; j++) sum[i * VECTORS + j] = acc[i][j];  \
    }
/* For all VECTORS vectors. */
#define DEFINE_SUM(name, COUNT, VECTORS, S_SPACE, W_SPACE, I_STEP, L_STEP)                  \
    DEFINE_SUM_OF(name##_1, COUNT, 1, VECTORS, S_SPACE, W_SPACE, I_STEP, L_STEP)            \
    DEFINE_SUM_OF(name##_2, COUNT, 2, VECTORS, S_SPACE, W_SPACE, I_STEP, L_STEP)            \
    DEFINE_SUM_OF(name##_4, COUNT, 4, VECTORS, S_SPACE, W_SPACE, I_STEP, L_STEP)            \
    static void name(S_SPACE float16 *sum, W_SPACE const float *w, const float16 *x, int n) \
    {                                                                                       \
        for (int j = 0; j + 4 <= VECTORS; j += 4)                                           \
            name##_4(sum + j, w, x + j, n);                                                 \
        if (VECTORS % 4 >= 2)                                                               \
            name##_2(sum + VECTORS / 4 * 4, w, x + VECTORS / 4 * 4, n);                     \
        if (VECTORS % 2)                                                                    \
            name##_1(sum + VECTORS - 1, w, x + VECTORS - 1, n);                             \
    }
/* For any number of sums. */
#define DEFINE_SUMS(name, COUNT, VECTORS, S_SPACE, W_SPACE)                                             \
    DEFINE_SUM(name##_many, COUNT, VECTORS, S_SPACE, W_SPACE, 1, KEYS)                                  \
    DEFINE_SUM(name##_one, 1, VECTORS, S_SPACE, W_SPACE, 1, KEYS)                                       \
    static void name(S_SPACE float16 *sum, W_SPACE const float *w, const float16 *x, int n_sums, int n) \
    {                                                                                                   \
        int i = 0;                                                                                      \
        for (; i + COUNT <= n_sums; i += COUNT)                                                         \
            name##_many(sum + i * VECTORS, w + i, x, n);                                                \
        for (; i < n_sums; i++)                                                                         \
            name##_one(sum + i * VECTORS, w + i, x, n);                                                 \
    }

/* dq of ROWS queries from the chunk's first n keys; dk and dv of a vector of keys from n queries. */
DEFINE_SUM(add_to_queries, ROWS, DV, private, private, KEYS, 1)
DEFINE_SUMS(add_to_keys, (DV > 2 ? 4 : 8), DV, global, private)
DEFINE_SUMS(add_to_values, (EV > 2 ? 4 : 8), EV, global, global)

#endif
