/* The weighted sum of decoded values, for attention_cpu_prefill.cl. Include it after attention_vector.h. */
#ifndef CLEF_CL_ATTENTION_WEIGH_H
#define CLEF_CL_ATTENTION_WEIGH_H

/* sum[i] = keep[i] sum[i] + sum_s p[i][s] v[s] over n keys, for ROWS queries and N vectors of elements. */
#define DEFINE_WEIGH(N)                                                                             \
    static void weigh_##N(float16 *sum, const float *keep, const float *p, const float16 *v, int n) \
    {                                                                                               \
        float16 acc[ROWS][N];                                                                       \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                            \
            _Pragma("unroll") for (int j = 0; j < N; j++) acc[i][j] = sum[i * EV + j] * keep[i];    \
        for (int s = 0; s < n; s++)                                                                 \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                        \
                _Pragma("unroll") for (int j = 0; j < N; j++)                                       \
                    acc[i][j] = fma((float16)p[i * KEYS + s], v[s * EV + j], acc[i][j]);            \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                            \
            _Pragma("unroll") for (int j = 0; j < N; j++) sum[i * EV + j] = acc[i][j];              \
    }
DEFINE_WEIGH(1)
#if AT_ONCE > 1
DEFINE_WEIGH(2)
DEFINE_WEIGH(3)
DEFINE_WEIGH(4)
#endif

static void weigh(float16 *sum, const float *keep, const float *p, const float16 *v, int n)
{
#if AT_ONCE == 1
    for (int j = 0; j < EV; j++)
        weigh_1(sum + j, keep, p, v + j, n);
#else
    for (int j = 0; j + 4 <= EV; j += 4)
        weigh_4(sum + j, keep, p, v + j, n);
    const int done = EV / 4 * 4;
    if (EV % 4 == 1)
        weigh_1(sum + done, keep, p, v + done, n);
    if (EV % 4 == 2)
        weigh_2(sum + done, keep, p, v + done, n);
    if (EV % 4 == 3)
        weigh_3(sum + done, keep, p, v + done, n);
#endif
}

#endif
