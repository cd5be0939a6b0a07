/* e^x and ln x from sums, products and quotients of doubles alone, which are the same on every processor;
 * those of a C library differ in last bits, and then a sampled text may. */
#ifndef CLEF_MODEL_SAMPLER_MATH_H
#define CLEF_MODEL_SAMPLER_MATH_H

#include <math.h>

/** e^x for x <= 0, within 2e-16 of it; 0 from -700 down. */
static inline double clef__exact_exp(double x)
{
    if (!(x > -700))
        return 0;
    const double k = floor(x * 1.4426950408889634 + 0.5),
                 r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10; /* ln 2, split */
    static const double over_factorial[] = {1,
                                            1,
                                            1.0 / 2,
                                            1.0 / 6,
                                            1.0 / 24,
                                            1.0 / 120,
                                            1.0 / 720,
                                            1.0 / 5040,
                                            1.0 / 40320,
                                            1.0 / 362880,
                                            1.0 / 3628800,
                                            1.0 / 39916800,
                                            1.0 / 479001600,
                                            1.0 / 6227020800,
                                            1.0 / 87178291200};
    double sum = over_factorial[14];
    for (int i = 13; i >= 0; i--) /* Taylor, |r| <= 0.35 */
        sum = over_factorial[i] + sum * r;
    return ldexp(sum, (int)k);
}

/** ln x for x > 0, within 4e-16 max(1, |ln x|). */
static inline double clef__exact_log(double x)
{
    int k;
    double m = frexp(x, &k); /* 0.5 to 1 */
    if (m < 0.70710678118654752) {
        m *= 2;
        k--;
    }
    const double s = (m - 1) / (m + 1);
    double sum = 0;
    for (int i = 23; i > 0; i -= 2) /* 2 artanh s, |s| <= 0.172 */
        sum = sum * (s * s) + 1.0 / i;
    return 2 * s * sum + k * 6.93147180559945309e-01;
}

/** x^n for n >= 0; infinite beyond the range of double. */
static inline double clef__exact_power(double x, int n)
{
    double y = 1;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2)
            y *= x;
    return y;
}

#endif
