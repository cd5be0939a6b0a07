/* From scores to a weighted sum of values, for attention_tile.cl, which defines ROWS, KEYS and EV before it includes this. */
#ifndef CLEF_CL_ATTENTION_WEIGH_H
#define CLEF_CL_ATTENTION_WEIGH_H

/* e^x for x <= 0 or NaN, to 2 ulp; 0 below -87. x = n ln 2 + f with |f| < 0.35, and Taylor's series to f^7. */
static float16 exp_negative(float16 x)
{
    const float16 shifted = fma(x, (float16)1.44269504f, (float16)12582912.0f), n = shifted - 12582912.0f;
    const float16 f = fma(n, (float16)-1.42860677e-6f, fma(n, (float16)-0.693145752f, x));
    float16 y = fma(f, (float16)(1.0f / 5040), (float16)(1.0f / 720));
    y = fma(y, f, (float16)(1.0f / 120));
    y = fma(y, f, (float16)(1.0f / 24));
    y = fma(y, f, (float16)(1.0f / 6));
    y = fma(y, f, (float16)0.5f);
    y = fma(y, f, (float16)1.0f);
    y = fma(y, f, (float16)1.0f);
    y = as_float16(as_int16(y) + (as_int16(shifted) << 23));
    return select(y, (float16)0.0f, x < -87.0f);
}

/* sum[i] = keep[i] sum[i] + sum_s p[i][s] v[s] over n keys, for ROWS queries and N vectors of elements. */
#define DEFINE_WEIGH(N)                                                                                                                \
    static void weigh_##N(float16 *sum, const float *keep, const float *p, const float16 *v, int n)                                    \
    {                                                                                                                                  \
        float16 acc[ROWS][N];                                                                                                          \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                                               \
            _Pragma("unroll") for (int j = 0; j < N; j++) acc[i][j] = sum[i * EV + j] * keep[i];                                       \
        for (int s = 0; s < n; s++)                                                                                                    \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                                           \
                _Pragma("unroll") for (int j = 0; j < N; j++) acc[i][j] = fma((float16)p[i * KEYS + s], v[s * EV + j], acc[i][j]);     \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                                               \
            _Pragma("unroll") for (int j = 0; j < N; j++) sum[i * EV + j] = acc[i][j];                                                 \
    }
DEFINE_WEIGH(1)
DEFINE_WEIGH(2)
DEFINE_WEIGH(3)
DEFINE_WEIGH(4)

static void weigh(float16 *sum, const float *keep, const float *p, const float16 *v, int n)
{
    for (int j = 0; j + 4 <= EV; j += 4)
        weigh_4(sum + j, keep, p, v + j, n);
    const int done = EV / 4 * 4;
    if (EV % 4 == 1)
        weigh_1(sum + done, keep, p, v + done, n);
    if (EV % 4 == 2)
        weigh_2(sum + done, keep, p, v + done, n);
    if (EV % 4 == 3)
        weigh_3(sum + done, keep, p, v + done, n);
}

#endif
